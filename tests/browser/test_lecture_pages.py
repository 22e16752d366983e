"""The saved lecture notebooks as a reader sees them who has not run them."""

import pytest

from tests.browser import lessons
from tests.browser.contrast import unreadable

IMAGES = """() => [...document.querySelectorAll(".jp-OutputArea-output img")].map((image) => ({
    drawn: image.complete && image.naturalWidth > 0, width: image.getBoundingClientRect().width, alt: image.alt}))"""
TRUSTED = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .filter((cell) => cell.type === "code" && cell.outputs.length).map((cell) => cell.trusted)"""


@pytest.fixture(scope="module", params=lessons.NAMES)
def saved(request, lab, chromium):
    page = lab.open(chromium, lab.add(lessons.lecture(request.param), f"saved/{request.param}.ipynb"))
    page.name = request.param
    try:
        page.wait_for_kernel()
        yield page
    finally:
        page.close()


def test_a_saved_lecture_shows_its_pictures_without_being_run(saved):
    assert not any(saved.page.evaluate(TRUSTED)), "the copy must be untrusted, as everybody else's is"
    outputs = [output for cell in lessons.cells_of(lessons.lecture(saved.name)) for output in cell.get("outputs", [])]
    expected = sum("image/png" in output.get("data", {}) for output in outputs)
    drawn = f"() => ({IMAGES})().filter((image) => image.drawn).length >= {expected}"
    saved.page.wait_for_function(drawn, timeout=15_000)
    shown = saved.page.evaluate(IMAGES)
    assert len(shown) == expected
    assert all(image["width"] > 100 for image in shown)
    alts = [output["metadata"]["image/png"]["alt"] for output in outputs if "image/png" in output.get("data", {})]
    assert [image["alt"] for image in shown] == alts, "a screen reader gets other words, or none"


def test_a_saved_lecture_makes_no_excuses_for_its_widgets(saved):
    words = "\n".join(saved.page.locator(".jp-OutputArea-output").all_inner_texts())
    for excuse in ("Loading widget", "Error displaying widget", "Error rendering"):
        assert excuse not in words


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_saved_outputs_can_be_read_in_either_theme(saved, theme, pictures):
    saved.theme(theme)
    if pictures:
        saved.screenshots(pictures / saved.name, f"saved_{theme}_")
    assert unreadable(saved) == []
    saved.theme("light")


def test_a_saved_lecture_asks_nothing_of_another_host(saved):
    assert saved.foreign == []

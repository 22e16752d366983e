"""Every lesson in a real JupyterLab: the saved lecture can be read, the student's notebook can be operated.

nbval runs every cell of both forms; here only what a browser alone can show is tested."""

import re
import urllib.request

import pytest

from tests.browser import lessons
from tests.browser.contrast import LAB_FIGURE, LAB_PROSE, longest_line, unreadable, wrong_in_dark
from tests.browser.lab import errors
from tests.browser.operate import operate
from tests.picture_rules import COLUMN

IMAGES = """() => [...document.querySelectorAll(".jp-OutputArea-output img")].map((image) => ({
    drawn: image.complete && image.naturalWidth > 0, width: image.getBoundingClientRect().width, alt: image.alt}))"""
TRUSTED = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .filter((cell) => cell.type === "code" && cell.outputs.length).map((cell) => cell.trusted)"""
EXCUSES = ("Loading widget", "Error displaying widget", "Error rendering")


@pytest.fixture(scope="module")
def page(lab, chromium):
    """One page for all lessons: JupyterLab takes many seconds to load."""
    opened = lab.open(chromium, lab.add(lessons.lecture(lessons.NAMES[0]), "first.ipynb"))
    yield opened
    opened.close()


@pytest.fixture(scope="module", params=lessons.NAMES)
def lesson(request, lab, page):
    """The page with one lesson, at the lecture first."""
    name = page.name = request.param
    page.student = lab.add(lessons.student(name), f"students/{name}.ipynb")
    page.replace_by(lab.add(lessons.lecture(name), f"lectures/{name}.ipynb"))
    yield page
    page.foreign.clear()
    page.mistakes.clear()


@pytest.fixture(scope="module")
def cells(lesson):
    """The cells of the student's notebook after what can be operated was run."""
    lesson.replace_by(lesson.student)
    return lesson.run(lessons.cells_to_operate(lessons.student(lesson.name)))


def unreadable_in(themes, page, pictures, form) -> list[str]:
    found = []
    for theme in themes:
        page.theme(theme)
        if pictures:
            page.screenshots(pictures / page.name, f"{form}_{theme}_")
        found += [f"{theme}: {words}" for words in unreadable(page)]
    return found


def test_a_saved_lecture_shows_its_pictures_without_being_run(lesson):
    assert not any(lesson.page.evaluate(TRUSTED)), "the copy must be untrusted, as everybody else's is"
    outputs = [output for cell in lessons.cells_of(lessons.lecture(lesson.name)) for output in cell.get("outputs", [])]
    alts = [output["metadata"]["image/png"]["alt"] for output in outputs if "image/png" in output.get("data", {})]
    drawn = f"() => ({IMAGES})().filter((image) => image.drawn).length >= {len(alts)}"
    lesson.page.wait_for_function(drawn, timeout=15_000)
    shown = lesson.page.evaluate(IMAGES)
    assert [image["alt"] for image in shown] == alts, "a screen reader gets other words, or none"
    assert all(image["width"] > 100 for image in shown)
    words = "\n".join(lesson.page.locator(".jp-OutputArea-output").all_inner_texts())
    assert [excuse for excuse in EXCUSES if excuse in words] == []


def test_the_saved_outputs_can_be_read_in_either_theme(lesson, pictures):
    assert unreadable_in(("light", "dark"), lesson, pictures, "lecture") == []


def test_the_first_figure_has_dark_colors_in_the_dark_theme_and_lines_of_prose_are_short(lesson):
    lesson.hide_side_bar()
    lesson.theme("dark")
    assert wrong_in_dark(lesson.page, [lesson.page.locator(LAB_FIGURE).first]) == []
    longest = longest_line(lesson.page, LAB_PROSE)
    assert longest < 96 and (longest > 60 or lesson.name == lessons.NAMES[0])  # lesson 00 has short paragraphs only


def test_a_window_of_900_px_shows_figures_as_wide_as_the_rule_for_letters_assumes(lesson):
    size = lesson.page.viewport_size
    lesson.page.set_viewport_size({"width": 900, "height": 900})
    width = lesson.page.locator(".course-figure").first.evaluate("figure => figure.getBoundingClientRect().width")
    lesson.page.set_viewport_size(size)
    assert width >= COLUMN


def test_every_widget_of_a_students_notebook_answers_without_an_error(lesson, cells):
    assert errors(cells) == []
    made = sum("application/vnd.jupyter.widget-view+json" in out.get("data", {}) for c in cells for out in c["outputs"])
    done = operate(lesson, brief=True)
    assert done.problems == []
    assert sum(done.widgets.values()) == made, f"{made} widgets were made, and the page has {done.widgets}"
    assert errors(lesson.cells()) == []


def last_text(outputs: list[dict]) -> str:
    return [*("".join(output["data"]["text/plain"]) for output in outputs if "data" in output), ""][-2]


def test_a_wrong_answer_gets_a_message_and_a_right_one_passes(lesson, cells):
    """The first exercise that asks for a function, answered as a student would: not at all, wrongly, rightly."""
    exercise_id, (index, stub) = next(iter(lessons.function_exercises(lessons.student(lesson.name)).items()))
    _, solved = lessons.function_exercises(lessons.lecture(lesson.name))[exercise_id]
    assert lessons.STUB in stub
    area = lesson.output_area(index)
    assert re.search(rf"Exercise {re.escape(exercise_id)} .*: not attempted yet", area.inner_text())
    for source, verdict in ((stub.replace(lessons.STUB, "    return None"), ": failed"), (solved, ": passed")):
        lesson.set_source(index, source)
        first, _, message = last_text(lesson.run([index])[index]["outputs"]).partition("\n")
        assert first.startswith(f"Exercise {exercise_id} ") and first.endswith(verdict)
        assert len(message.split()) >= 4, f"the message says too little: {message!r}"
        area.get_by_text(verdict).wait_for()


def test_the_live_outputs_can_be_read_in_either_theme(lesson, cells, pictures):
    assert unreadable_in(("dark", "light"), lesson, pictures, "student") == []


# Last in the file, so that it has seen everything above.
def test_a_page_asks_nothing_of_another_host_and_its_scripts_make_no_mistake(lesson):
    assert lesson.foreign == []
    assert lesson.mistakes == []


def test_a_notebook_exported_as_html_keeps_the_alt_text_of_its_pictures(lab):
    path = lab.add(lessons.lecture("01_softmax_attention"), "exported.ipynb")
    with urllib.request.urlopen(f"{lab.address}/nbconvert/html/{path}?token={lab.token}") as answer:
        pictures = re.findall(r"<img [^>]*>", answer.read().decode())
    assert len(pictures) > 5
    assert [picture[:80] for picture in pictures if "No description" in picture] == []

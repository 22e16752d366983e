"""Every widget of the registry in a real JupyterLab: with a kernel, saved and opened again without one, and in a page by itself."""

import json
import math

import pytest

from tests.browser.contrast import unreadable
from tests.browser.examples import NAMES, open_examples, reopen, restart
from tests.browser.lab import errors
from tests.browser.operate import KIND, WIDGETS, Operated, look, operate, operate_widget, until
from tests.browser.reach import nameless, unreachable
from utils.widgets import registry
from utils.widgets.base import page_script, plain

FROZEN = "Run the notebook up to this cell to activate the widget."
# The broken-link icon that ipywidgets puts before a widget without its kernel.
ICONS = """() => [...document.querySelectorAll(".jupyter-widgets-disconnected")]
    .filter((e) => getComputedStyle(e, "::before").content !== "none").length"""


@pytest.fixture(scope="module")
def live(lab, chromium):
    notebook = open_examples(lab, chromium)
    yield notebook
    notebook.close()


@pytest.fixture(scope="module")
def operated(live):
    return operate(live)


def test_every_control_answers_pointer_and_keyboard(live, operated):
    assert operated.problems == []
    assert sum(operated.widgets.values()) == len(NAMES)
    assert {look(widget)["mode"] for widget in live.page.locator(WIDGETS).all()} == {"kernel"}
    assert errors(live.cells()) == []


def test_tab_reaches_every_control_and_each_has_a_name(live, operated):
    _, problems = unreachable(live)
    assert problems == []
    assert nameless(live) == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_widget_can_be_read(live, operated, theme, pictures):
    live.theme(theme)
    if pictures:
        live.screenshots(pictures / "widgets", f"{theme}_")
    assert unreadable(live) == []


@pytest.mark.parametrize("module", registry.MODULES, ids=NAMES)
def test_without_python_the_page_computes_the_same(module, chromium):
    """For widgets that look answers up, `samples` is missing and the stored answers are the ones of Python."""
    widget = module.example()
    if not hasattr(module, "samples"):
        stored = widget.page_state()["data"].get("answers", {})
        samples = [json.loads(key) for key in list(stored)[:: max(1, len(stored) // 20)]]
        found = [stored[key] for key in list(stored)[:: max(1, len(stored) // 20)]]
    else:
        samples = plain(module.samples())
        page = chromium.new_page()
        page.set_content(f"<!doctype html><script>{page_script({widget.script})}</script>")
        run = "([name, data, all]) => all.map((inputs) => courseWidgets[name].compute(data, inputs))"
        found = page.evaluate(run, [widget.script, widget.data, samples])
        page.close()
        assert len(samples) >= 5
    for inputs, answer in zip(samples, found, strict=True):
        assert close(answer, plain(widget.respond(**inputs))), inputs


def close(found, expected) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(expected, float) or (isinstance(expected, int) and not isinstance(expected, bool)):
        return math.isclose(found, expected, rel_tol=1e-5, abs_tol=1e-5)
    return found == expected


@pytest.fixture(scope="module")
def reopened(live, operated):
    reopen(live)
    return live


def test_a_reopened_notebook_computes_in_the_page_or_says_what_to_do(reopened):
    done = Operated(reopened.page)
    for widget in reopened.page.locator(WIDGETS).all():
        widget.scroll_into_view_if_needed()
        now, kind = look(widget), widget.evaluate(KIND)
        assert now["mode"] in ("page", "frozen"), kind
        if now["mode"] == "frozen":
            assert now["note"] == FROZEN
            assert widget.locator(".course-controls :is(input, select, button, textarea):enabled").count() == 0
        operate_widget(done, widget, kind)
    assert done.problems == []
    assert reopened.page.evaluate(ICONS) == 0


def test_saving_without_their_kernel_keeps_the_widgets(reopened):
    """Once before any cell has run again, once after a restart."""
    reopen(reopened)
    reopened.run([0])
    until(reopened.page.locator(f"{WIDGETS}[data-mode=kernel]").count, lambda live: live == 1, "no widget is live")
    restart(reopened)
    reopen(reopened)
    assert all(look(widget)["mode"] in ("page", "frozen") for widget in reopened.page.locator(WIDGETS).all())


def test_a_widget_that_was_not_saved_says_what_to_do(reopened):
    lost = """({"version_major": 2, "version_minor": 0, "model_id": "lost"}, "A plane.")"""
    shown = f"""dict(zip(["application/vnd.jupyter.widget-view+json", "text/plain"], {lost}))"""
    reopened.set_source(0, f"from IPython.display import display\ndisplay({shown}, raw=True)")
    reopened.run([0])
    output = reopened.output_area(0)
    until(output.inner_text, lambda text: text.strip() == FROZEN, "the reader meets something else")
    reopened.mistakes.clear()  # JupyterLab writes to the console that it found no model


# Last in the file, so that it has seen everything above.
def test_nothing_is_asked_of_another_host_and_no_script_fails(live):
    assert live.foreign == []
    assert live.mistakes == []

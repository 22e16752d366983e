"""The explorers of the lessons: a live kernel runs the student's function, a page without one computes the same numbers."""

import re

import nbformat
import pytest
import torch

from tests.browser.examples import reopen
from tests.browser.lab import CURRENT
from utils.data.curves import LEFT, RIGHT, noisy_curves, true_curve
from utils.exercises.solutions import lesson01, lesson04
from utils.paths import ROOT
from utils.widgets import charts, lesson_charts, log_range, menu
from utils.widgets import explore as make_explore
from utils.widgets.base import page_html, page_script, page_style, plain
from utils.widgets.explore import samples

WIDGET = ".course-explore.course-widget"
PAGES = {"softmax": "01", "regression": "01", "positions": "04"}


def cell_with(lesson, words):
    source = next((ROOT / "notebooks" / "src").glob(f"{lesson}_*.py")).read_text(encoding="utf-8")
    return next(cell for cell in re.split(r"(?m)^# %%.*\n", source) if words in cell)


def lesson_widget(page):
    """The widget that a lesson's own cell makes with the reference solutions."""
    made = []
    x, y = (points[0] for points in noisy_curves(seeds=1, points=60))
    names = {
        "torch": torch,
        "charts": charts,
        "lesson_charts": lesson_charts,
        "menu": menu,
        "x": x,
        "y": y,
        "LEFT": LEFT,
        "RIGHT": RIGHT,
    }
    names |= {"true_curve": true_curve, "softmax": lesson01.softmax, "attend": lesson01.attend}
    names |= {"sinusoidal_positions": lesson04.sinusoidal_positions}
    names["explore"] = lambda *given, **named: made.append(make_explore(*given, **named))
    exec(cell_with("01", "kernels = {"), names)
    exec(cell_with(PAGES[page], f'page="{page}"'), names)
    return made[0]


def largest_difference(first, second):
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        first, second = list(first.values()), [second[name] for name in first]
    if isinstance(first, list):
        assert len(first) == len(second)
        return max((largest_difference(*pair) for pair in zip(first, second, strict=True)), default=0)
    if isinstance(first, (bool, str)) or first is None:
        assert first == second
        return 0
    return abs(first - second)


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 900, "height": 1000})
    yield context.new_page()
    context.close()


def show(page, widget):
    page.set_content(f"<style>{page_style(['explore'])}</style>{page_html(widget.page_state())}")
    page.add_script_tag(content=page_script(["explore"]))
    page.evaluate("() => startWidget(document.querySelector('.live-widget'))")


@pytest.mark.parametrize("name", PAGES)
def test_the_page_computes_what_the_lesson_computes(page, name):
    widget = lesson_widget(name)
    show(page, widget)
    for inputs in samples(widget):
        computed = page.evaluate("([d, i]) => courseWidgets.explore.compute(d, i)", [widget.data, inputs])
        assert largest_difference(plain(widget.respond(**inputs)), computed) < 1e-5


def test_the_pointer_and_the_arrow_keys_read_values(page):
    show(page, lesson_widget("softmax"))
    chart, tip = page.locator(f"{WIDGET} svg").first, page.locator(".course-explore-tip")
    chart.hover(position={"x": 170, "y": 200})
    assert tip.inner_text() == "z1 = 2.00: 0.665"
    chart.focus()
    chart.press("End")
    assert tip.inner_text() == "z3 = 0.00: 0.09"


def test_the_marker_is_dragged_in_the_steps_of_its_slider(page):
    show(page, lesson_widget("regression"))
    chart = page.locator(".course-explore-area svg").first
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 10, box["y"] + 100, steps=5)
    assert page.locator(f"{WIDGET} label", has_text="query").inner_text().strip() == "query: 0.0"
    assert page.locator(".course-title").inner_text().startswith("Prediction at 0.0: ")
    page.mouse.up()


@pytest.mark.parametrize("width", [384, 900])
def test_a_wide_logarithmic_axis_has_separate_ticks_at_powers_of_ten(page, width):
    def dots():
        texts = ["20 µs", "2,000 s"]
        return charts.dots(["fast", "slow"], [0.02, 2e6], texts, [False, False], xlabel="ms", limits=(0.02, 3e6))

    page.set_viewport_size({"width": width, "height": 800})
    show(page, make_explore(dots, "Times."))
    texts = page.locator(".course-explore-area svg text").all()
    ticks = [tick for tick in texts if re.fullmatch(r"10*[kM]?|0\.0*1", tick.inner_html())]
    assert len(ticks) >= 2
    boxes = [tick.bounding_box() for tick in ticks]
    assert all(first["x"] + first["width"] < second["x"] for first, second in zip(boxes, boxes[1:], strict=False))


# The softmax forgets the temperature: at a low one its bars differ from the reference.
WRONG = "def softmax(logits, temperature=1.0):\n    return logits.exp() / logits.exp().sum()"


def test_a_logarithmic_slider_shows_its_exact_value(page):
    def bars(length):
        return charts.bars(["tokens"], [length], "One bar.")

    show(page, make_explore(bars, "Bars.", length=log_range(256, 262144, 4096, steps=40)))
    slider = page.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "4,096"
    slider.press("End")
    assert slider.get_attribute("aria-valuetext") == "262,144"
    slider.press("ArrowLeft")
    assert slider.get_attribute("aria-valuetext") == "220,436"


def test_a_wrong_softmax_changes_the_widget_until_the_kernel_is_gone(lab, chromium, tmp_path):
    setup = f"import torch\nfrom utils.widgets import charts, explore\n{WRONG}"
    cells = [nbformat.v4.new_code_cell(source) for source in (setup, cell_with("01", 'page="softmax"'))]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "wrong.ipynb")
    notebook = lab.open(chromium, lab.add(tmp_path / "wrong.ipynb"))
    notebook.run_all()
    page, logits = notebook.page, torch.tensor([2.0, 1.0, 0.0])

    def expect(probabilities):
        texts = ", ".join(f"{number:.2f}" for number in probabilities)
        drawn = "[...document.querySelectorAll('.course-explore svg text[font-weight=bold]')].map(e => e.textContent).join(', ')"
        page.wait_for_function(f"(texts) => {drawn} === texts", arg=texts, timeout=10_000)

    slider = page.locator(f"{WIDGET} input[type=range]").first
    slider.press("Home")  # T = 0.1
    page.wait_for_function("() => document.querySelector('.course-title').textContent.startsWith('T = 0.1')")
    expect(logits.softmax(0))  # as if T were 1
    page.evaluate(f"async () => {{ await {CURRENT}.context.save(); await {CURRENT}.sessionContext.shutdown(); }}")
    page.wait_for_selector(f"{WIDGET}[data-mode=page]")
    expect((logits / 0.1).softmax(0))
    reopen(notebook, widgets=1)  # saved with the answer of the wrong function
    assert "reference implementation" in page.locator(".course-note").inner_text()
    expect((logits / 0.1).softmax(0))
    notebook.close()

"""Sampling in JupyterLab, and the stored text in a page without a kernel."""

import nbformat

from tests.browser.operate import act, look, press, state_of, until
from tests.browser.widgets.stored import open_stored
from utils.widgets.next_token import FIRST, STORED, example


def text_of(steps, count):
    return "the old cat" + "".join(step["token"] for step in steps[:count])


def test_the_stored_text_can_be_stepped_through_and_played_to_its_end(chromium):
    widget, steps = open_stored(chromium, example()), example().answer["steps"]
    text, figure = widget.locator(".course-next-text"), widget.locator(".course-next-figure")
    assert look(widget)["mode"] == "frozen" and text.inner_text() == text_of(steps, FIRST)
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"):
        press(figure, key)
    assert text.inner_text() == text_of(steps, 2)
    before = steps[2]["candidates"][0][1]
    assert widget.locator(".course-next-number").first.inner_text().startswith(f"{100 * before:.0f} % →")
    text.locator("[data-index='0']").hover()
    assert widget.locator(".course-next-detail").inner_text().startswith("Token ␣")
    widget.get_by_role("button", name="Play").click()
    until(lambda: state_of(widget)["step"], lambda step: step == STORED, "Play did not reach the end")
    assert widget.get_by_role("button", name="Next").is_disabled()
    widget.page.close()


def test_with_a_kernel_the_text_goes_on_and_parameters_change_what_comes_next(lab, chromium, tmp_path):
    cell = nbformat.v4.new_code_cell("from utils.widgets.next_token import example\n\nexample()")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), tmp_path / "sampling.ipynb")
    notebook = lab.open(chromium, lab.add(tmp_path / "sampling.ipynb"))
    notebook.run_all()
    widget, python = notebook.page.locator(".course-next_token"), example()
    until(widget.count, lambda count: count == 1, "the widget is not drawn")

    def sampled():
        return state_of(widget)["new_ids"]

    widget.get_by_role("button", name="Sample 20").click()
    until(sampled, lambda ids: len(ids) == FIRST + 20, "20 tokens were not sampled")
    act(widget, "temperature", lambda: press(widget.get_by_label("temperature"), "Home"))
    for count in range(FIRST, FIRST + 20):
        python.set(new_ids=sampled()[:count])
    python.set(new_ids=sampled(), temperature=0)
    expected = text_of(python.answer["steps"], FIRST + 20)
    until(widget.locator(".course-next-text").inner_text, lambda text: text == expected, "another text is shown")
    assert widget.locator(".course-next-number").first.inner_text().endswith("→ 100 %")
    widget.get_by_role("button", name="Play").click()
    until(sampled, lambda ids: len(ids) >= FIRST + 22, "Play does not go on")
    act(widget, "seed", lambda: press(widget.get_by_label("seed"), "End"))
    assert sampled() == []
    act(widget, "Reset", lambda: widget.get_by_role("button", name="Reset").click())
    assert state_of(widget) == {**python.data["first"], "step": None}
    notebook.close()

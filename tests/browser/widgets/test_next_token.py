"""Sampling in JupyterLab, and the stored text in a page without a kernel."""

import nbformat

from tests.browser.operate import act, look, press, state_of, until
from tests.browser.widgets.stored import open_stored
from utils.widgets.next_token import STORED, example


def text_of(prompt, answer, count):
    return prompt + "".join(step["token"] for step in answer["steps"][:count])


def test_the_stored_text_can_be_stepped_through_and_played_to_its_end(chromium):
    widget, python = open_stored(chromium, example()), example()
    text, figure = widget.locator(".course-next-text"), widget.locator(".course-next-figure")
    assert look(widget)["mode"] == "frozen"
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"):
        press(figure, key)
    assert text.inner_text() == text_of("the old cat", python.answer, 2) and state_of(widget)["step"] == 2
    numbers = widget.locator(".course-next-number").all_inner_texts()
    assert numbers[0].startswith(f"{100 * python.answer['steps'][2]['candidates'][0][1]:.0f} %")
    text.locator("[data-index='0']").hover()
    assert widget.locator(".course-next-detail").inner_text().startswith("Token ␣")
    widget.get_by_role("button", name="Play").click()
    until(lambda: state_of(widget)["step"], lambda step: step == STORED, "Play did not reach the end")
    assert widget.get_by_role("button", name="Next").is_disabled()
    widget.page.close()


def test_with_a_kernel_the_text_follows_the_parameters(lab, chromium, tmp_path):
    cell = nbformat.v4.new_code_cell("from utils.widgets.next_token import example\n\nexample()")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), tmp_path / "sampling.ipynb")
    notebook = lab.open(chromium, lab.add(tmp_path / "sampling.ipynb"))
    notebook.run_all()
    widget, python = notebook.page.locator(".course-next_token"), example()
    until(widget.count, lambda count: count == 1, "the widget is not drawn")
    for name in ("Sample 20", "Sample 20"):  # the first goes beyond what was sampled at once
        before = state_of(widget)["step"]
        widget.get_by_role("button", name=name).click()
        until(
            lambda: state_of(widget)["step"], lambda step, goal=before + 20: step == goal, "20 tokens were not sampled"
        )
    act(widget, "temperature", lambda: press(widget.get_by_label("temperature"), "Home"))
    now = state_of(widget)
    count = now.pop("step")
    assert now["temperature"] == 0 and now["length"] == count == 46
    expected = text_of("the old cat", python.respond(**now), count)
    until(widget.locator(".course-next-text").inner_text, lambda text: text == expected, "another text is shown")
    act(
        widget,
        "prompt",
        lambda: (widget.get_by_role("textbox").fill("a dog"), press(widget.get_by_role("textbox"), "Enter")),
    )
    assert state_of(widget)["step"] == 0
    act(widget, "Reset", lambda: widget.get_by_role("button", name="Reset").click())
    assert state_of(widget) == {**python.inputs, **python.view}
    notebook.close()

"""The plane in JupyterLab: it runs on the function in the notebook, trains through it, and stays correct after a restart."""

import re

import nbformat
import pytest
import torch
from playwright.sync_api import Locator

from tests.browser.examples import restart
from tests.browser.operate import act, look, press, settle, state_of, until

LOOKUP = """import torch
from utils.widgets import plane

def soft_lookup(query, keys, values):
    weights = {weights}
    return weights @ values, weights

def respond(query, keys, values, temperature):
    return soft_lookup(query / temperature, keys, values)

keys = dict(A=(1, 0.5), B=(-0.5, 1.2), C=(-1, -1))
plane(respond, keys, query=(1, -0.5), target=(-0.5, 0), extent=2, temperature=(0.2, 3.0, 0.1, 1.0), title="Where does the output go?")
"""
CORRECT, WITHOUT_NORMALIZATION = "(keys @ query).softmax(0)", "(keys @ query).exp()"


@pytest.fixture(scope="module")
def notebook(lab, chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("plane") / "plane.ipynb"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("")], metadata=kernel), path)
    notebook = lab.open(chromium, lab.add(path))
    notebook.wait_for_kernel()  # what is written into a cell before would be lost
    yield notebook
    notebook.close()


def shown(notebook, weights: str) -> Locator:
    """The plane over a soft lookup with these weights."""
    notebook.set_source(0, LOOKUP.format(weights=weights))
    notebook.run([0])
    widget = notebook.page.locator(".course-plane")
    until(lambda: widget.count() and look(widget).get("mode"), lambda mode: mode == "kernel", "the plane is not drawn")
    settle(widget)
    return widget


def weights_on_screen(widget: Locator) -> list[float]:
    return [float(text) for text in widget.locator(".course-plane-bar output").all_inner_texts()[:3]]


def attention_weights(state: dict) -> list[float]:
    scores = torch.tensor(state["keys"]) @ torch.tensor(state["query"])
    return (scores / state["temperature"]).softmax(0).tolist()


def test_a_wrong_lookup_of_the_student_shows_at_once(notebook):
    correct = weights_on_screen(shown(notebook, CORRECT))
    wrong = weights_on_screen(shown(notebook, WITHOUT_NORMALIZATION))
    assert sum(correct) == pytest.approx(1, abs=0.02)
    assert wrong == pytest.approx(torch.tensor([0.75, -1.1, -0.5]).exp().tolist(), abs=0.006)


def test_every_point_is_dragged_and_moved_by_keys(notebook):
    widget = shown(notebook, CORRECT)
    act(widget, "separate values", widget.get_by_label("separate values").check)
    for point in widget.locator("[role=slider]").all():
        bounds = point.bounding_box()
        x, y = bounds["x"] + bounds["width"] / 2, bounds["y"] + bounds["height"] / 2

        def drag(x=x, y=y):
            notebook.page.mouse.move(x, y)
            notebook.page.mouse.down()
            notebook.page.mouse.move(x + 15, y - 25, steps=3)
            notebook.page.mouse.up()

        act(widget, "a drag", drag)
        before = float(point.get_attribute("aria-valuenow"))
        act(widget, "an arrow key", lambda point=point: press(point, "Shift+ArrowLeft"))
        assert float(point.get_attribute("aria-valuenow")) == pytest.approx(max(before - 0.5, -2), abs=1e-3)


def test_a_training_step_follows_autograd_and_training_reaches_the_target(notebook):
    widget = shown(notebook, CORRECT)
    state = state_of(widget)
    keys = torch.tensor(state["keys"], requires_grad=True)
    weights = (keys @ torch.tensor(state["query"])).softmax(0)
    (weights @ keys - torch.tensor(state["target"])).square().sum().backward()
    step = 0.1 * keys.grad / keys.grad.norm(dim=1, keepdim=True).clamp(min=1)

    act(widget, "Step", widget.get_by_role("button", name="Step").click)
    assert torch.tensor(state_of(widget)["keys"]).sub(keys - step).abs().max() < 1e-5
    answered = int(look(widget)["answered"])
    widget.get_by_role("button", name="Train").click()
    text = until(widget.inner_text, lambda text: "reached the target" in text, "the output has not reached the target")
    settle(widget)
    assert look(widget)["mode"] == "kernel"
    steps = int(re.search(r"after (\d+) steps", text)[1]) - 1
    assert (
        steps > 10 and int(look(widget)["answered"]) - answered <= steps / 10 + 3
    )  # it waits for Python only now and then


def test_a_key_dragged_during_training_stays_where_it_was_put(notebook):
    widget = shown(notebook, CORRECT)
    widget.get_by_role("button", name="Train").click()
    target = widget.get_by_role("slider", name="target")
    for _ in range(3):
        press(target, "Shift+ArrowUp")
    until(widget.inner_text, lambda text: "Pause" not in text, "training does not end")
    settle(widget)
    state = state_of(widget)
    assert state["target"] == [-0.5, 1.5] and state["steps"] == 0
    shown_loss = float(re.search(r"Loss ([0-9.]+)", widget.inner_text())[1])
    output = torch.tensor(attention_weights(state)) @ torch.tensor(state["keys"])
    assert (output - torch.tensor(state["target"])).square().sum().item() == pytest.approx(shown_loss, abs=6e-5)


def test_after_a_restart_the_weights_still_belong_to_the_query_shown(notebook):
    widget = shown(notebook, WITHOUT_NORMALIZATION)
    restart(notebook)
    for key in ("ArrowUp", "Shift+ArrowLeft"):
        act(widget, key, lambda key=key: press(widget.locator("[role=slider]").first, key))
        assert weights_on_screen(widget) == pytest.approx(attention_weights(state_of(widget)), abs=0.006)
    assert "reference implementation" in look(widget)["note"]

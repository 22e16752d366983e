"""Facts about the widgets: every state, every callback and the three forms, without a browser."""

import base64
import functools
import re
import sys
from pathlib import Path

import ipywidgets
import numpy as np
import pytest
import torch

from tests import (
    test_widgets_beam_tree,
    test_widgets_fill_in,
    test_widgets_heads_view,
    test_widgets_mask_board,
    test_widgets_next_word,
    test_widgets_removal_board,
    test_widgets_translate_watch,
)
from utils import widgets
from utils.plots import weights_bars
from utils.widgets.explore import make_control
from utils.widgets.forms import WIDGET_VIEW

# The package exports functions with the names of these modules.
explore_module = sys.modules["utils.widgets.explore"]
guess_module = sys.modules["utils.widgets.guess"]

STATIC = Path(widgets.__file__).parent / "static"
TOKENS = ["the", "cat", "sat"]


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def bars_at(temperature=1.0, hard=False):
    weights = softmax(np.arange(3) / temperature)
    return weights_bars(list("abc"), np.eye(3)[2] if hard else weights, f"temperature {temperature:.2g}")


def attention_weights(*shape):
    return softmax(np.random.default_rng(0).normal(size=shape))


WIDGETS = {
    "beam tree": test_widgets_beam_tree.tree_of,
    "fill in": test_widgets_fill_in.widget,
    "heads": test_widgets_heads_view.view,
    "mask": test_widgets_mask_board.board,
    "next word": test_widgets_next_word.widget,
    "removal": test_widgets_removal_board.board,
    "translate": test_widgets_translate_watch.watch,
    "explore": lambda: widgets.explore(bars_at, "Three bars.", temperature=(0.1, 5.0, 0.1, 1.0), hard=False),
    "attention": lambda: widgets.attention_view(attention_weights(2, 4, 3, 3), TOKENS, title="Self"),
    "stepper": lambda: widgets.stepper(lambda index: bars_at(index + 1.0), ["one", "two", "three"], "Bars."),
    "guess": lambda: widgets.guess_weights(list("abc"), [0.7, 0.2, 0.1], "How is the weight shared?"),
}


@pytest.mark.parametrize("name", WIDGETS)
def test_every_widget_has_three_forms(name):
    widget = WIDGETS[name]()
    data, metadata = widget._repr_mimebundle_()
    assert set(data) == {WIDGET_VIEW, "image/png", "text/plain"}
    assert data[WIDGET_VIEW]["model_id"] == widget.model_id
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"].strip() and metadata["image/png"]["alt"] == data["text/plain"] == repr(widget)
    assert "course-widget" in widget._dom_classes  # what pages and browser tests look for


@pytest.mark.parametrize("name", WIDGETS)
def test_the_static_form_is_the_same_for_two_widgets(name):
    first, second = (WIDGETS[name]().static() for _ in range(2))
    assert first == second


# Explore


def test_moving_a_control_draws_a_new_picture():
    widget = WIDGETS["explore"]()
    before = widget._stage.png, widget._stage.count
    widget._controls["temperature"].value = 3.0
    assert widget._stage.png != before[0] and widget._stage.count == before[1] + 1
    assert widget._stage.state == {"temperature": 3.0, "hard": False}
    assert widget.alt_text() == "Three bars. Now: temperature 3, hard off."


def test_the_alt_text_says_what_the_control_shows_and_the_state_what_it_means():
    seen, given = [], {"mean of all": -1, "first": 0}
    widget = widgets.explore(lambda layer, k: seen.append(layer) or bars_at(), "Bars.", layer=given, k=[0.12345, 1.0])
    assert widget.alt_text() == repr(widget) == "Bars. Now: layer mean of all, k 0.12345."
    assert widget._stage.state == {"layer": -1, "k": 0.12345}
    widget._controls["layer"].index = 1  # as the page moves it
    assert widget.alt_text() == "Bars. Now: layer first, k 0.12345." and seen == [-1, 0]


@pytest.mark.parametrize(
    ("given", "kind", "value"),
    [
        ((0, 9, 1, 3), ipywidgets.IntSlider, 3),
        ((0.0, 1.0, 0.05, 0.5), ipywidgets.FloatSlider, 0.5),
        (widgets.log_range(0.01, 100, 1), ipywidgets.FloatLogSlider, 1),
        (["a", "b"], ipywidgets.ToggleButtons, "a"),
        (list("abcdef"), ipywidgets.Dropdown, "a"),
        ({"one": 1, "two": 2}, ipywidgets.ToggleButtons, 1),
        ([("one", 1), ("two", 2)], ipywidgets.ToggleButtons, 1),
        ([(1, 2), (3, 4)], ipywidgets.ToggleButtons, (1, 2)),
        (widgets.menu([16, 32, 64], start=64), ipywidgets.ToggleButtons, 64),
        (widgets.menu(dict(zip("abcdef", range(6), strict=True)), start=2), ipywidgets.Dropdown, 2),
        (True, ipywidgets.Checkbox, True),
        ("some text", ipywidgets.Text, "some text"),
        ("two\nlines", ipywidgets.Textarea, "two\nlines"),
        (ipywidgets.IntText(value=4), ipywidgets.IntText, 4),
    ],
)
def test_each_kind_of_control_becomes_its_widget(given, kind, value):
    control = explore_module.make_control("name", "label", given)
    assert type(control) is kind and control.value == value


@pytest.mark.parametrize(
    ("controls", "error", "message"),
    [
        ({"k": (0, 1)}, ValueError, "four numbers"),
        ({"k": (1, 0, 1, 0)}, ValueError, "low < high"),
        ({"k": (0, 1, 0.1, 5)}, ValueError, "a start between"),
        ({"k": []}, TypeError, "a list or a dict of choices"),
        ({"k": None}, TypeError, "expected \\(low, high, step, start\\)"),
        ({"j": (0, 1, 1, 0)}, TypeError, "does not fit the controls \\['j'\\]"),
    ],
)
def test_wrong_controls_are_refused_with_a_sentence(controls, error, message):
    with pytest.raises(error, match=message):
        widgets.explore(lambda k: bars_at(1.0), "Bars.", **controls)


# Attention between two rows


def test_weights_may_have_two_three_or_four_axes():
    for shape, full in (((3, 5), (1, 1, 3, 5)), ((4, 3, 5), (1, 4, 3, 5)), ((2, 4, 3, 5), (2, 4, 3, 5))):
        view = widgets.attention_view(attention_weights(*shape), TOKENS, list("abcde"))
        assert view.weights.shape == tuple(view.shape) == full
        sent = np.frombuffer(view._weights, "<f4").reshape(view.shape)
        assert np.allclose(sent, view.weights, atol=1e-7)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 3), r"must be \(3, 5\), got \(5, 3\); the two axes are swapped"),
        ((2, 3, 4), r"3 target tokens attend to 5 source tokens"),
        ((5,), "got 1 axes"),
        ((1, 2, 3, 3, 5), "got 5 axes"),
    ],
)
def test_weights_that_do_not_fit_the_tokens_are_refused(shape, message):
    with pytest.raises(ValueError, match=message):
        widgets.attention_view(attention_weights(*shape), TOKENS, list("abcde"))


def test_every_layer_and_head_and_their_mean_can_be_chosen():
    weights = attention_weights(2, 4, 3, 3)
    view = widgets.attention_view(weights, TOKENS, head="mean")
    assert np.allclose(view.matrix(), weights[0].mean(0)) and "mean of 4 heads" in view.alt_text()
    for layer in range(2):
        for head in range(4):
            view.layer, view.head = layer, head
            assert (view.matrix() == weights[layer, head]).all()
            assert f"layer {layer + 1} of 2, head {head + 1} of 4" in view.alt_text()


def test_the_same_tokens_are_listed_once_and_told_apart_by_their_place():
    weights = np.zeros((3, 3))
    weights[0, 2] = 1
    words = widgets.attention_view(weights, ["the", "cat", "the"]).alt_text()
    assert words == ("Attention among 3 tokens (the cat the). The largest weight is 1.00, from the (1) to the (3).")


# Stepper


def test_html_steps_have_html_as_their_static_form():
    widget = widgets.stepper(lambda index: f"<p>step {index}</p>", 2, "A text.")
    data, _ = widget._repr_mimebundle_()
    assert data["text/html"] == "<p>step 0</p>" and data["text/plain"] == "A text. Step 1 of 2."
    assert "image/png" not in data


# Guess


def state_sent_to_the_page(widget):
    """All that the browser knows of the widget and its parts."""
    parts = [*widget.children, *widget.children[-2].children]
    return repr([part.get_state() for part in parts])


def test_the_truth_stays_in_python_until_the_guess_is_committed():
    widget = widgets.guess_weights(list("abc"), [0.731, 0.2, 0.069], "How?")
    assert "0.73" not in state_sent_to_the_page(widget) and "0.73" not in repr(widget.static())
    before = widget.static()
    widget.commit()
    assert "0.73" in state_sent_to_the_page(widget)
    assert widget.static() == before  # a saved notebook does not give it away


def test_a_guess_is_scaled_committed_locked_and_freed():
    widget = WIDGETS["guess"]()
    widget._sliders[0].value = 100
    assert widget.guess == pytest.approx([0.5, 0.25, 0.25])
    widget._commit.click()
    assert widget.committed and all(slider.disabled for slider in widget._sliders)
    assert "total variation) is 0.20: 20% of your weight" in widget._stage.text
    count = widget._stage.count
    widget._sliders[0].value = 0  # a late message from the page
    assert widget._stage.count == count
    widget._again.click()
    assert not widget.committed and widget.guess == pytest.approx([1 / 3] * 3)


def test_a_guess_of_nothing_cannot_be_committed():
    widget = WIDGETS["guess"]()
    for slider in widget._sliders:
        slider.value = 0
    assert widget.guess is None and widget._commit.disabled
    with pytest.raises(ValueError, match="at least one slider"):
        widget.commit()


# What the page gets


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.css")), ids=lambda path: path.name)
def test_letters_on_the_page_are_large_enough_to_be_projected(path):
    sizes = re.findall(r"font(?:-size)?:[^;]*?(\d+)px", path.read_text(encoding="utf-8"))
    assert sizes and min(map(int, sizes)) >= 14


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.css")), ids=lambda path: path.name)
def test_every_theme_colour_has_a_fallback(path):
    assert not re.findall(r"var\(--jp-[\w-]+\)", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("low", "high", "said"), [(256, 262144, "262144"), (0.01, 10, "10")])
def test_the_number_beside_a_slider_is_written_without_an_exponent(low, high, said):
    slider = make_control("length", "length", widgets.log_range(low, high, low))
    assert format(high, slider.readout_format) == said


# What a reader types, and what breaks

TYPED = {
    "fill in": (test_widgets_fill_in.widget, "a green [MASK]", "a new [MASK]"),
    "next word": (test_widgets_next_word.widget, "a green cat", "a cat"),
    "translate": (test_widgets_translate_watch.watch, "the green cat", "the cat"),
}
REFUSED = [
    ("   ", "The sentence is empty: write some words and press Enter."),
    ("the " * 200, "The sentence has 800 letters, more than 400: write a shorter one."),
]
REFUSED_BLANKS = [
    (
        "return a list",
        "There is no masked token in this sentence: write [MASK] or __ where the model should predict a token.",
    ),
    ("[MASK] " * 5, "The sentence has 5 masked tokens, but this widget shows at most 4: fill some in yourself."),
]


@pytest.mark.parametrize("name", TYPED)
def test_a_text_that_cannot_be_read_is_answered_with_a_sentence_and_loses_nothing(name):
    make, unknown, good = TYPED[name]
    widget = make()
    before = widget.static()
    refused = [*REFUSED, *(REFUSED_BLANKS if name == "fill in" else [])]
    for text, said in [(unknown, "Out of vocabulary: green."), *refused]:
        widget._text.value = text
        assert widget._stage.error == said and widget._text.value == text
        assert widget.static() == before
    widget._text.value = good
    assert widget._stage.error == "" and widget.static() != before


def fails_second(function):
    """The function, which breaks at its second call."""
    calls = []

    @functools.wraps(function)
    def call(*given, **named):
        calls.append(given)
        if len(calls) == 2:
            raise RuntimeError("no\nmemory")
        return function(*given, **named)

    return call


# A widget over a function that breaks at its second call, and what leads it to its states 1 and 2.
FAILING = {
    "explore": (
        lambda: widgets.explore(fails_second(bars_at), "Bars.", temperature=(0.1, 5.0, 0.1, 1.0)),
        lambda widget, state: widget.set(temperature=state + 1.0),
    ),
    "stepper": (
        lambda: widgets.stepper(fails_second(lambda index: bars_at(index + 1.0)), 3, "Bars."),
        lambda widget, state: setattr(widget, "index", state),
    ),
    "beam tree": (
        lambda: widgets.beam_tree(fails_second(test_widgets_beam_tree.respond), test_widgets_beam_tree.SENTENCES),
        lambda widget, state: setattr(widget, "width", state),
    ),
    "mask": (
        lambda: widgets.mask_board(TOKENS, fails_second(test_widgets_mask_board.layer(3))),
        lambda widget, state: setattr(widget, "mask", [[True, True, state == 2]] * 3),
    ),
    "removal": (
        lambda: widgets.removal_board(
            fails_second(test_widgets_removal_board.respond), 3, 2, effect=np.zeros((3, 2)), chance=0
        ),
        lambda widget, state: setattr(widget, "on", [[state == 2, True]] * 3),
    ),
    "fill in": (
        lambda: widgets.fill_in(fails_second(test_widgets_fill_in.respond), "return [MASK]"),
        lambda widget, state: widget.ask("a " * state + "[MASK]"),
    ),
    "translate": (
        lambda: widgets.translate_watch(fails_second(test_widgets_translate_watch.respond), "the cat"),
        lambda widget, state: widget.translate("cat " * state),
    ),
    "next word": (
        lambda: widgets.next_word(
            fails_second(test_widgets_next_word.respond), test_widgets_next_word.TOKENS, "the cat"
        ),
        lambda widget, state: widget.begin("a " * state),
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_failure_is_shown_and_raised_and_the_last_picture_stays(name):
    make, go = FAILING[name]
    widget = make()
    stage, before = getattr(widget, "_stage", widget), widget.static()[0]["image/png"]
    with pytest.raises(RuntimeError, match="memory"):
        go(widget, 1)
    assert stage.error.endswith(": RuntimeError: no memory")
    assert widget.static()[0]["image/png"] == before
    go(widget, 2)
    assert stage.error == ""


def test_a_page_gets_every_answer_of_few_heads():
    def accuracy(head_mask):
        return {"accuracy": head_mask.float().mean()}

    small, large = (
        widgets.removal_board(accuracy, 2, heads, effect=torch.zeros(2, heads), chance=0) for heads in (3, 5)
    )
    stored = small.page_view()["answers"]
    assert stored["traits"] == ["on"] and len(stored["changes"]) == 2**6 and large.page_view() is None
    assert stored["changes"]["[[[true,false,false],[false,false,false]]]"]["answer"]["percents"] == "16.7 %"

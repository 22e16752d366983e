"""Facts about the widget that translates a reader's own sentence: every step, layer and head, without a browser."""

import base64
import itertools
import sys

import numpy as np
import pytest
import torch

import utils.draw as draw
from tests.picture_rules import broken_rules
from tests.test_draw_figures import drawn_texts
from utils.draw.forms import WIDGET_VIEW

# The package exports a function with the name of this module.
module = sys.modules["utils.draw.translate_watch"]
FRENCH = {"the": "le", "black": "noir", "cat": "chat", "sleeps": "dort"}
LAYERS, HEADS = 2, 3


def respond(text):
    """Word for word; the word at place i looks most at place i, the more the later the layer and the head."""
    words = text.split()
    if unknown := [word for word in words if word not in FRENCH]:
        raise ValueError(f"The model never saw\n{', '.join(unknown)}.")
    source, target = [*words, "<end>"], [*(FRENCH[word] for word in words), "<end>"]
    sharp = np.arange(1, LAYERS * HEADS + 1).reshape(LAYERS, HEADS, 1, 1)
    weights = np.exp(sharp * np.eye(len(source)))
    return {
        "source": source,
        "target": target,
        "choices": [[(word, 0.6), ("la", 0.3), ("rival", 0.001)] for word in target],
        "weights": weights / weights.sum(-1, keepdims=True),
    }


def watch(start="the black cat sleeps", **options):
    return draw.translate_watch(respond, start, **options)


def answer(**changes):
    return {**respond("the cat"), **changes}


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


# Steps


def test_every_step_layer_and_head_has_its_own_picture_and_words():
    widget, pictures, said = watch("the cat"), set(), set()
    for step, layer, head in itertools.product(range(3), (-1, 0, 1), (-1, 0, 1, 2)):
        widget.index = step
        widget.look_at(layer, head)
        data, _ = widget.static()
        assert widget._stage.state == {"step": step, "layer": layer, "head": head, "sentence": "the cat"}
        assert f"Word {step + 1} of 3" in data["text/plain"]
        pictures.add(data["image/png"])
        said.add(data["text/plain"])
    assert len(pictures) == len(said) == 3 * 3 * 4


@pytest.mark.parametrize("step", [0, 1, 2])
def test_it_may_start_at_any_word_and_draws_only_that(step):
    widget, walked = watch("the cat", step=step), watch("the cat")
    walked.index = step
    assert widget.index == step and widget._stage.count == 1 and widget.static() == walked.static()
    assert (widget._back.disabled, widget._on.disabled) == (step == 0, step == 2)
    assert f"Word {step + 1} of 3" in widget.alt_text() and widget._stage.state["step"] == step
    widget.translate("the black cat")
    assert widget.index == 0 and widget.alt_text().startswith("“the black cat <end>”") and widget._back.disabled


def test_buttons_keys_and_slider_walk_through_the_words():
    widget = watch("the cat")
    seen = []
    for press in (widget._on.click, widget._on.click):
        press()
        seen.append(widget.index)
    assert widget._on.disabled and not widget._back.disabled
    for key in ("ArrowRight", "ArrowLeft", "Home", "End"):
        widget._stage._handle_custom_msg({"key": key}, [])
        seen.append(widget.index)
    assert seen == [1, 2, 2, 1, 0, 2]
    with pytest.raises(ValueError, match="3 steps"):
        widget.index = 3


def test_the_words_say_what_is_written_how_sure_and_where_it_looks():
    widget = watch("the cat", alt="Watch it.")
    widget.index = 1
    widget.look_at(1, 2)
    assert widget.alt_text() == (
        "Watch it. “the cat <end>” becomes “le chat <end>”. Word 2 of 3; said so far: le. Likeliest now: chat 60 %, "
        "la 30 %, rival <1 %. It looks most at cat 1.00 (layer 2, head 3)."
    )


def test_the_picture_shows_the_weights_of_the_chosen_head():
    given = module.answer_of(respond, "the cat")
    for layer, head in ((0, 0), (1, 2), (-1, -1), (0, -1)):
        shown = words_of(draw.watch_picture(given, 1, layer, head))
        weights = given["weights"]
        weights = weights.mean(0) if layer == -1 else weights[layer]
        row = (weights.mean(0) if head == -1 else weights[head])[1]
        assert {f"{weight:.2f}" for weight in row if weight >= 0.05} <= set(shown)
        assert {"the", "cat", "<end>", "le", "chat", "60 %", "<1 %"} <= set(shown)


def test_one_layer_of_one_head_has_no_menus():
    def one(text):
        given = respond(text)
        return {**given, "weights": given["weights"][:1, :1]}

    widget = draw.translate_watch(one, "the cat")
    assert len(widget.children) == 3 and len(watch().children) == 4
    assert "(the only head)" in widget.alt_text()


@pytest.mark.parametrize("text", ["the", "the black cat sleeps", " ".join(["the black cat sleeps"] * 6)])
def test_every_step_can_be_projected(text):
    given = module.answer_of(respond, text)
    for step in {0, len(given["target"]) // 2, len(given["target"]) - 1}:
        figure = draw.watch_picture(given, step, 1, 0, "A translation")
        draw.figure_png(figure, "a")
        assert broken_rules(figure) == []


# Sentences


def test_a_new_sentence_starts_at_its_first_word():
    widget = watch()
    widget.index = 4
    widget._text.value = "the cat"
    assert (widget.index, widget.count, widget._slider.max, widget.shown) == (0, 3, 2, "the cat")
    assert widget._stage.text == "the cat → le chat <end>" and widget._back.disabled
    widget.translate("the black cat sleeps")
    assert widget.count == 5 and widget._slider.max == 4


def test_a_sentence_is_translated_once_however_it_is_sent():
    asked = []
    widget = draw.translate_watch(lambda text: asked.append(text) or respond(text), "the cat")
    widget._text.value = "the black cat"
    widget._button.click()  # the click took the keyboard from the field, which had sent the sentence already
    assert asked == ["the cat", "the black cat"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the green cat", "The model never saw green."),
        ("   ", "The sentence is empty: write some words and press Enter."),
        ("the " * 200, "The sentence has 800 letters, more than 400: write a shorter one."),
    ],
)
def test_a_sentence_that_cannot_be_read_is_answered_with_a_sentence_and_loses_nothing(text, said):
    widget = watch()
    widget.index = 2
    before = widget.static(), widget.answer
    widget._text.value = text
    assert widget._stage.error == said and widget._text.value == text
    assert (widget.static(), widget.answer) == before and widget.index == 2
    widget._on.click()
    assert widget.index == 3 and widget._stage.error == ""
    widget._text.value = "the cat"
    assert widget._stage.error == "" and widget.count == 3


def test_going_back_to_the_sentence_on_view_takes_the_complaint_away():
    widget = watch()
    widget._text.value = "green"
    widget._text.value = "the black cat sleeps"
    assert widget._stage.error == ""


def test_a_failure_of_the_model_itself_is_shown_and_raised():
    def breaks(text):
        if text == "cat":
            raise RuntimeError("no memory")
        return respond(text)

    widget = draw.translate_watch(breaks, "the cat")
    before = widget.static()
    with pytest.raises(RuntimeError, match="no memory"):
        widget.translate("cat")
    assert widget._stage.error == "This picture could not be drawn: RuntimeError: no memory"
    assert widget.static() == before


def test_the_sentence_of_the_answer_is_shown_where_there_is_one():
    widget = draw.translate_watch(lambda text: {**respond(text), "sentence": "le chat."}, "the cat")
    assert widget._stage.text == "the cat → le chat." and "becomes “le chat.”" in widget.alt_text()


# The widget


def test_the_widget_has_three_forms_and_the_same_static_form_twice():
    first, second = watch(title="Watch"), watch(title="Watch")
    data, metadata = first._repr_mimebundle_()
    assert set(data) == {WIDGET_VIEW, "image/png", "text/plain"}
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == data["text/plain"] == repr(first)
    assert first.static() == second.static()
    assert {"course-widget", "course-translate"} <= set(first._dom_classes)


def test_a_real_translator_fits():
    from tests.browser.gallery import small_translator

    torch.set_num_threads(1)
    translate, _ = small_translator()
    widget = draw.translate_watch(translate, "the black cat sleeps", layer=1, head=2)
    found = translate("the black cat sleeps")
    assert widget.answer["target"] == found["target"]
    assert np.allclose(widget.answer["weights"], found["weights"].numpy())
    widget.translate("green")
    assert widget._stage.error.startswith("The model never saw 'green'.")


# What is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "got NoneType"),
        ({"source": []}, r"got \['source'\]"),
        (answer(loss=1), "perhaps sentence, got .*loss"),
        (answer(target=["le", "chat"]), r"2 target words, 3 source words\), got the shape \(2, 3, 3, 3\)"),
        (answer(weights=np.ones((3, 3)) / 3), r"got the shape \(3, 3\)"),
        (answer(weights=np.ones((2, 3, 3, 3))), "weights that respond gave are not right: .*softmax comes first"),
        (answer(weights=np.full((2, 3, 3, 3), 0.1)), "sum to 1 over the source words"),
        (answer(choices=[[("le", 1.0)]]), "choices for each of 3 words of the target, got 1"),
        (answer(choices=[[("la", 0.9)]] * 3), "word 1 of the target is 'le', but the likeliest choice there is 'la'"),
    ],
)
def test_a_wrong_answer_of_respond_is_no_fault_of_the_reader(given, message):
    with pytest.raises(TypeError, match=message):
        draw.translate_watch(lambda _: given, "the cat")


def test_choices_out_of_order_are_refused():
    with pytest.raises(ValueError, match="likeliest word first"):
        draw.translate_watch(lambda _: answer(choices=[[("le", 0.1), ("la", 0.2)]] * 3), "the cat")


def test_the_number_of_layers_and_heads_stays():
    def shrinking(text):
        given = respond(text)
        return given if text == "the cat" else {**given, "weights": given["weights"][:1]}

    widget = draw.translate_watch(shrinking, "the cat")
    with pytest.raises(TypeError, match="2 layers and 3 heads as before"):
        widget.translate("cat")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": "green"}, ValueError, "never saw green"),
        ({"start": ["the"]}, TypeError, "as a string, got list"),
        ({"step": 5}, ValueError, "from 0 to 4, .* 5 words of the translation 'le noir chat dort <end>', got 5"),
        ({"step": -1}, ValueError, "step from 0 to 4"),
        ({"step": 1.0}, TypeError, "integer"),
        ({"layer": 2}, ValueError, r"layer among \[-1, 0, 1\], got 2"),
        ({"head": "mean"}, ValueError, "head among"),
        ({"alt": " "}, ValueError, "alt text is empty"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(options, error, message):
    with pytest.raises(error, match=message):
        watch(**options)


def test_a_head_that_is_not_there_cannot_be_looked_at():
    widget = watch()
    with pytest.raises(ValueError, match="3 heads, counted from 0"):
        widget.look_at(0, 3)
    assert widget._stage.state["head"] == -1

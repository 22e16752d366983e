"""Facts about the widget that translates a reader's own sentence: every step, layer and head, without a browser."""

import itertools

import numpy as np
import pytest
import torch

import utils.draw as draw

# The package exports a function with the name of this module.
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


# Steps


def test_every_step_layer_and_head_has_its_own_picture_and_words():
    widget, pictures, said = watch("the cat"), set(), set()
    for step, layer, head in itertools.product(range(3), (-1, 0, 1), (-1, 0, 1, 2)):
        widget.index = step
        widget._layer.value, widget._head.value = layer, head
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
    widget = watch("the cat", title="Watch it.", layer=1, head=2)
    widget.index = 1
    assert widget.alt_text() == (
        "Watch it. “the cat <end>” becomes “le chat <end>”. Word 2 of 3; said so far: le. Likeliest now: chat 60 %, "
        "la 30 %, rival <1 %. It looks most at cat 1.00 (layer 2, head 3)."
    )


# Sentences


def test_a_new_sentence_starts_at_its_first_word():
    widget = watch()
    widget.index = 4
    widget._text.value = "the cat"
    assert (widget.index, widget.count, widget._slider.max, widget.shown) == (0, 3, 2, "the cat")
    assert widget._stage.text == "the cat → le chat <end>" and widget._back.disabled
    widget.translate("the black cat sleeps")
    assert widget.count == 5 and widget._slider.max == 4


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


# The widget


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

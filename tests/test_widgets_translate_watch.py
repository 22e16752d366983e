"""Facts about the widget that translates a reader's own sentence: every step, layer and head, without a browser."""

import itertools

import numpy as np

from utils import widgets

FRENCH = {"the": "le", "black": "noir", "cat": "chat", "sleeps": "dort"}
LAYERS, HEADS = 2, 3


def respond(text):
    """Word for word; target position i attends most to source position i, more in later layers and heads."""
    words = text.split()
    if unknown := [word for word in words if word not in FRENCH]:
        raise ValueError(f"Out of vocabulary:\n{', '.join(unknown)}.")
    source, target = [*words, "<end>"], [*(FRENCH[word] for word in words), "<end>"]
    sharp = np.arange(1, LAYERS * HEADS + 1).reshape(LAYERS, HEADS, 1, 1)
    weights = np.exp(sharp * np.eye(len(source)))
    return {
        "source": source,
        "target": target,
        "candidates": [[(word, 0.6), ("la", 0.3), ("rival", 0.001)] for word in target],
        "weights": weights / weights.sum(-1, keepdims=True),
    }


def watch(start="the black cat sleeps", **options):
    return widgets.translate_watch(respond, start, **options)


# Steps


def test_every_step_layer_and_head_has_its_own_picture_and_words():
    widget, pictures, said = watch("the cat"), set(), set()
    for step, layer, head in itertools.product(range(3), (-1, 0, 1), (-1, 0, 1, 2)):
        widget.index = step
        widget._layer.value, widget._head.value = layer, head
        data, _ = widget.static()
        assert widget._stage.state == {"step": step, "layer": layer, "head": head, "sentence": "the cat"}
        assert f"Token {step + 1} of 3" in data["text/plain"]
        pictures.add(data["image/png"])
        said.add(data["text/plain"])
    assert len(pictures) == len(said) == 3 * 3 * 4


def test_the_alt_text_has_prediction_probabilities_and_attention():
    widget = watch("the cat", title="Watch it.", layer=1, head=2)
    widget.index = 1
    assert widget.alt_text() == (
        "Watch it. “the cat <end>” becomes “le chat <end>”. Token 2 of 3; generated so far: le. Most probable now: chat 60 %, "
        "la 30 %, rival <1 %. It attends most to cat 1.00 (layer 2, head 3)."
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

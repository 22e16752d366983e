"""Facts about the view of all layers and heads: what it says, draws and refuses, without a browser."""

import base64
import json
import sys

import numpy as np
import pytest
import torch

import utils.draw as draw
from tests.picture_rules import broken_rules
from tests.test_draw_figures import drawn_texts
from utils.draw.forms import WIDGET_VIEW
from utils.models.attention import attention

# The package exports a function with the name of this module.
view_module = sys.modules["utils.draw.heads_view"]
TOKENS = ["the", "cat", "saw", "the", "dog"]
SOURCE = ["le", "chat", "noir"]


def real_weights(layers, heads, targets, sources, mask=None, seed=0):
    """Weights (layers, heads, targets, sources) that attention really gives, and the values and outputs with them."""
    dice = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(layers, heads, n, 6, generator=dice) for n in (targets, sources, sources))
    output, weights = attention(3 * query, key, value, mask)
    assert torch.allclose(weights @ value, output, atol=1e-6)
    return weights


def view(layers=2, heads=3, **options):
    return draw.heads_view(real_weights(layers, heads, 5, 5), TOKENS, **options)


def maps_of(figure, rows):
    """The maps of this many rows in a picture, in the order of layers and heads."""
    return [image.get_array() for image in figure.axes[0].images if len(image.get_array()) == rows]


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


# Where heads look


def test_the_look_of_a_row_is_its_largest_weight_unless_nothing_stands_out():
    rows = np.array([[0.7, 0.2, 0.1], [0.34, 0.33, 0.33], [0, 0, 0], [0, 1.0, 0], [0.5, 0.5, 0], [0.0, 0.2, 0.8]])
    assert view_module.looks_of(rows).tolist() == [0, view_module.EVENLY, view_module.NOWHERE, 1, view_module.EVENLY, 2]


def test_every_head_is_counted_once_in_the_sentence_of_every_token():
    widget = view(layers=3, heads=4)
    for focus, sentence in enumerate(widget.sentences):
        counts = [int(word.strip(",.")) for word in sentence.split(" in ")[1:] for word in word.split()[:1]]
        assert sum(counts) == 12, sentence
        assert sentence.startswith(f"“{view_module.spoken(TOKENS)[focus]}” looks most ")
        assert "of 12 heads" in sentence


def test_the_sentence_says_itself_evenly_and_nowhere():
    weights = np.zeros((1, 4, 2, 2))
    weights[0, :, 1] = [[1, 0], [0, 1], [0.5, 0.5], [0, 0]]
    widget = draw.heads_view(weights, ["a", "b"])
    assert (
        widget.sentences[1]
        == "“b” looks most nowhere in 1 of 4 heads, evenly at all in 1, at “a” in 1, at itself in 1."
    )
    across = draw.heads_view(weights, ["a", "b"], ["x", "b"])
    assert "at “b” in 1" in across.sentences[1] and "itself" not in across.sentences[1]


def test_tokens_beyond_the_first_four_are_counted_together():
    weights = np.eye(7)[None, :, None].repeat(7, 2)  # head h looks at token h, from everywhere
    sentence = draw.heads_view(weights, list("abcdefg")).sentences[0]
    assert (
        sentence == "“a” looks most at itself in 1 of 7 heads, at “b” in 1, at “c” in 1, at “d” in 1, elsewhere in 3."
    )


def test_what_the_page_gets_is_the_weights_and_the_looks():
    weights = real_weights(2, 3, 5, 5)
    widget = draw.heads_view(weights, TOKENS)
    sent = np.frombuffer(widget._weights, "<f4").reshape(widget.shape)
    assert np.array_equal(sent, weights.numpy()) and widget.shape == [2, 3, 5, 5]
    assert widget._looks == view_module.looks_of(weights.double().numpy()).reshape(-1).tolist()
    json.dumps([widget.labels, widget.said, widget.sentences, widget._looks])


# The picture


@pytest.mark.parametrize(
    ("layers", "heads", "targets", "sources", "focus", "chosen"),
    [(1, 1, 1, 1, 0, None), (2, 4, 7, 7, 2, (1, 3)), (3, 2, 6, 3, None, (0, 0)), (6, 12, 24, 24, 23, (2, 3)),
     (12, 16, 64, 64, 0, None), (1, 8, 12, 5, 11, None), (2, 1, 1, 9, 0, None), (12, 12, 12, 12, None, None)],
)  # fmt: skip
def test_every_size_has_a_picture_that_can_be_projected(layers, heads, targets, sources, focus, chosen):
    weights = real_weights(layers, heads, targets, sources)
    names = [f"token{i}" for i in range(64)]
    options = {"focus": focus, "chosen": chosen, "title": "Where every head looks, all layers at once"}
    figure = draw.heads_picture(weights, names[:targets], names[:sources], **options)
    draw.figure_png(figure, "a")
    assert broken_rules(figure) == []
    assert np.allclose(maps_of(figure, targets)[: layers * heads], weights.flatten(0, 1))


def test_the_followed_row_is_marked_and_named_under_every_map():
    weights = np.zeros((1, 3, 2, 2))
    weights[0, :, 1] = [[0.9, 0.1], [0, 0], [0.5, 0.5]]
    figure = draw.heads_picture(weights, ["cat", "sat"], focus=1)
    assert {"cat 0.90", "nowhere", "evenly"} <= set(words_of(figure))
    frames = figure.axes[0].patches
    for image, black, white in zip(figure.axes[0].images, frames[::2], frames[1::2], strict=True):
        left, right, bottom, top = image.get_extent()
        frame = (left, (top + bottom) / 2, right - left, (bottom - top) / 2)  # row 1 of 2: the lower half
        assert black.get_bbox().bounds == pytest.approx(frame) == white.get_bbox().bounds
    assert "rows: looks from, columns: looks at; below each map: where “sat” looks most" in words_of(figure)
    unmarked = draw.heads_picture(weights, ["cat", "sat"])
    assert not unmarked.axes[0].patches and "cat 0.90" not in words_of(unmarked)


def test_words_are_as_large_as_the_maps_allow():
    """Nine words, four heads and two layers have room for the letters of every other figure; more words have less."""
    sizes = {}
    for count in (9, 10, 30):
        tokens = [f"w{place}" for place in range(count)]
        figure = draw.heads_picture(real_weights(2, 4, count, count), tokens, focus=0)
        sizes[count] = {text.get_fontsize() for text in drawn_texts(figure) if text.get_text() in tokens[1:]}
    assert sizes[9] == {14} and max(sizes[10]) < 14 and sizes[30] <= {11}


def test_a_row_too_thin_to_mark_is_shown_alone_below_its_map():
    weights = real_weights(6, 12, 30, 30)
    figure = draw.heads_picture(weights, [f"t{i}" for i in range(30)], focus=4)
    assert np.allclose(np.concatenate(maps_of(figure, 1)), weights[:, :, 4].flatten(0, 1))


def test_a_caption_is_as_long_as_its_map_allows():
    row, labels = np.array([0.25, 0.75]), ["a", "Donaudampf"]
    texts = [view_module.look_text(row, 1, labels, room) for room in (2.0, 1.0, 0.6)]
    assert texts[0] == "Donaudampf 0.75" and texts[1] == "Donaudampf" and texts[2].endswith("…")


def test_a_dollar_sign_is_no_formula_and_blanks_can_be_seen():
    widget = draw.heads_view(real_weights(1, 2, 3, 3), ["$x", "y$", " a\n"], title="Dollars", focus=1)
    assert widget.static()[0]["image/png"] and widget.labels[0] == ["$x", "y$", "␣a↵"]


# The widget


def test_the_view_has_three_forms_and_the_same_static_form_twice():
    first, second = (view(title="All heads", focus=2) for _ in range(2))
    data, metadata = first._repr_mimebundle_()
    assert set(data) == {WIDGET_VIEW, "image/png", "text/plain"}
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == data["text/plain"] == repr(first)
    assert first.static() == second.static()
    assert {"course-widget", "course-heads"} <= set(first._dom_classes)


def test_the_words_follow_the_reader():
    widget = view(title="All heads")
    assert widget.alt_text().startswith(
        "All heads: attention among 5 tokens (the cat saw the dog), 2 layers of 3 heads. On average the largest weight"
    )
    assert "looks most" not in widget.alt_text() and "Enlarged" not in widget.alt_text()
    before = widget.static()[0]["image/png"]
    widget.focus = 1
    widget.chosen = [1, 2]
    assert widget.sentences[1] in widget.alt_text() and widget.alt_text().endswith("Enlarged: layer 2, head 3.")
    assert widget.static()[0]["image/png"] != before


def test_the_words_name_the_sharpest_and_the_most_even_head():
    weights = np.full((1, 3, 2, 2), 0.5)
    weights[0, 1] = np.eye(2)
    weights[0, 2] = [[0.8, 0.2], [0.8, 0.2]]
    said = draw.heads_view(weights, ["a", "b"]).alt_text()
    assert "is 1.00 in head 2, the sharpest, and 0.50 in head 1, the most even" in said


def test_cross_attention_names_both_rows():
    widget = draw.heads_view(real_weights(2, 2, 5, 3), TOKENS, SOURCE, names=("English", "French"), focus=1)
    assert "from 5 tokens (the cat saw the dog) to 3 (le chat noir)" in widget.alt_text()
    figure = draw.heads_picture(widget.weights, TOKENS, SOURCE, names=("English", "French"))
    assert "rows: English, columns: French" in words_of(figure) and words_of(figure).count("noir") == 2


def test_weights_without_layers_are_one_layer():
    assert draw.heads_view(real_weights(1, 3, 5, 5)[0], TOKENS).shape == [1, 3, 5, 5]


def test_two_tokens_of_one_name_are_told_apart_and_long_ones_cut_in_the_view_alone():
    assert view().said[0] == ["the (1)", "cat", "saw", "the (4)", "dog"]
    long = "Donaudampfschifffahrtsgesellschaft"
    widget = draw.heads_view(real_weights(1, 1, 2, 2), [long, "b"])
    assert len(widget.labels[0][0]) == view_module.LONGEST and long in widget.alt_text() and long in widget.said[0]


# What is refused


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: draw.heads_view(real_weights(1, 2, 5, 5), "the cat"), TypeError, "try 'the cat'.split()"),
        (lambda: draw.heads_view(real_weights(1, 2, 5, 5), TOKENS[:4]), ValueError, r"must be \(4, 4\), got \(5, 5\)"),
        (lambda: draw.heads_view(real_weights(1, 2, 3, 5), TOKENS, SOURCE), ValueError, "the two axes are swapped"),
        (lambda: draw.heads_view(np.full((1, 1, 1, 1, 1), 1.0), ["a"]), ValueError, "got 5 axes"),
        (lambda: draw.heads_view(np.ones((1, 2, 2)), ["a", "b"]), ValueError, "softmax comes first"),
        (lambda: draw.heads_view(-np.ones((1, 1, 1)), ["a"]), ValueError, "are these scores"),
        (lambda: draw.heads_view(np.ones((1, 17, 1, 1)), ["a"]), ValueError, "12 layers of 16 heads, got 1 layers of 17"),
        (lambda: draw.heads_view(np.ones((1, 1, 65, 1)), ["a"] * 65, ["b"]), ValueError, "1 to 64 tokens, got 65"),
        (lambda: draw.heads_view(np.ones((1, 1, 1, 1)), [], ["b"]), ValueError, "1 to 64 tokens, got 0"),
        (lambda: view(focus=5), Exception, "one of 5 tokens, counted from 0, or -1 for none, got 5"),
        (lambda: view(names=("a",)), ValueError, "expected two names"),
        (lambda: draw.heads_picture(np.ones((1, 1, 1)), ["a"], focus=1), ValueError, "one of 1 tokens"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_with_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("name", "value"), [("focus", 5), ("focus", -2), ("chosen", [2, 0]), ("chosen", [1])])
def test_a_state_that_does_not_fit_never_reaches_the_view(name, value):
    widget = view(focus=1)
    before = getattr(widget, name)
    with pytest.raises(Exception, match="counted from 0"):
        setattr(widget, name, value)
    assert getattr(widget, name) == before

"""Facts about the view of all layers and heads: what it says, draws and refuses, without a browser."""

import json
import sys

import numpy as np
import torch

from utils import widgets
from utils.models.attention import attention

# The package exports a function with the name of this module.
view_module = sys.modules["utils.widgets.heads_view"]
TOKENS = ["the", "cat", "saw", "the", "dog"]


def real_weights(layers, heads, targets, sources):
    """Weights (layers, heads, targets, sources) that attention really gives."""
    dice = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(layers, heads, n, 6, generator=dice) for n in (targets, sources, sources))
    return attention(3 * query, key, value)[1]


def view(layers=2, heads=3, **options):
    return widgets.heads_view(real_weights(layers, heads, 5, 5), TOKENS, **options)


def test_the_peak_of_a_row_is_its_largest_weight_unless_none_stands_out():
    rows = np.array([[0.7, 0.2, 0.1], [0.34, 0.33, 0.33], [0, 0, 0], [0, 1.0, 0], [0.5, 0.5, 0], [0.0, 0.2, 0.8]])
    assert view_module.peaks_of(rows).tolist() == [0, view_module.EVENLY, view_module.NOWHERE, 1, view_module.EVENLY, 2]


def test_every_head_is_counted_once_in_the_sentence_of_every_token():
    widget = view(layers=3, heads=4)
    for focus, sentence in enumerate(widget.sentences):
        counts = [int(word.strip(",.")) for word in sentence.split(" in ")[1:] for word in word.split()[:1]]
        assert sum(counts) == 12, sentence
        assert sentence.startswith(f"“{view_module.spoken(TOKENS)[focus]}” attends most ")
        assert "of 12 heads" in sentence


def test_the_sentence_distinguishes_itself_evenly_and_nothing():
    weights = np.zeros((1, 4, 2, 2))
    weights[0, :, 1] = [[1, 0], [0, 1], [0.5, 0.5], [0, 0]]
    widget = widgets.heads_view(weights, ["a", "b"])
    assert (
        widget.sentences[1]
        == "“b” attends most to nothing in 1 of 4 heads, evenly to all in 1, to “a” in 1, to itself in 1."
    )
    across = widgets.heads_view(weights, ["a", "b"], ["x", "b"])
    assert "to “b” in 1" in across.sentences[1] and "itself" not in across.sentences[1]


def test_what_the_page_gets_is_the_weights_and_the_peaks():
    weights = real_weights(2, 3, 5, 5)
    widget = widgets.heads_view(weights, TOKENS)
    sent = np.frombuffer(widget._weights, "<f4").reshape(widget.shape)
    assert np.array_equal(sent, weights.numpy()) and widget.shape == [2, 3, 5, 5]
    assert widget._peaks == view_module.peaks_of(weights.double().numpy()).reshape(-1).tolist()
    json.dumps([widget.labels, widget.said, widget.sentences, widget._peaks])


def test_the_words_follow_the_reader():
    widget = view(title="All heads")
    assert widget.alt_text().startswith(
        "All heads: attention among 5 tokens (the cat saw the dog), 2 layers of 3 heads. On average the largest weight"
    )
    assert "attends most" not in widget.alt_text() and "Enlarged" not in widget.alt_text()
    before = widget.static()[0]["image/png"]
    widget.focus = 1
    widget.chosen = [1, 2]
    assert widget.sentences[1] in widget.alt_text() and widget.alt_text().endswith("Enlarged: layer 2, head 3.")
    assert widget.static()[0]["image/png"] != before

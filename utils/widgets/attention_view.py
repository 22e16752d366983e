"""Attention weights of all layers and heads as thumbnails, the selected head as curves between two rows of tokens."""

import base64
import itertools

import numpy as np

from utils.plots.figures import checked_weights
from utils.plots.style import as_array
from utils.widgets.base import ReaderError, Widget, answer_key, checked_text, packed, plain
from utils.widgets.controls import control

MEAN = -1  # instead of a head: the mean of the heads of its layer
MAX_TOKENS = 48  # of a text that the reader types


def attention_view(
    attention, target=None, source=None, *, layer=0, head=0, focus=None, title="", names=None, **controls
):
    """Explore attention weights: select a head, point at a token to follow it.

    attention: weights (m, n), (heads, m, n) or (layers, heads, m, n) from m `target` tokens to n `source` tokens, which
    are the same in self-attention (source=None); or a function of the `controls` (see `control`: a text that the reader
    types, choices) that returns a dict of "weights", "target", perhaps "source" and "links", gold links (source position,
    target position). A ValueError of the function is shown to the reader.
    layer, head (MEAN for the mean of the heads), focus, a target token: the first view. names: of targets and sources.
    """
    return AttentionView(attention, target, source, layer, head, focus, title, names or ("queries", "keys"), controls)


class AttentionView(Widget):
    """What `attention_view` returns. View: `layer`, `head` and `focus`, None or ["target" or "source", position, token]."""

    script = "attention"

    def __init__(self, attention, target, source, layer, head, focus, title, names, controls):
        self._attention = attention if callable(attention) else lambda: given(attention, target, source)
        pairs = {name: control(name, spec) for name, spec in controls.items()}
        specs, inputs = [spec for spec, _ in pairs.values()], {name: start for name, (_, start) in pairs.items()}
        self._texts = [spec["name"] for spec in specs if spec["kind"] == "text"]
        data = {"title": title, "names": names, "controls": specs, "answers": self.all_answers(specs)}
        super().__init__(data, inputs, {"layer": layer, "head": head, "focus": None})
        layers, heads = self.answer["weights"]["shape"][:2]
        if not (0 <= layer < layers and MEAN <= head < heads):
            raise ValueError(f"there are {layers} layers of {heads} heads, got layer {layer}, head {head}")
        if focus is not None:
            self.view = {**self.view, "focus": ["target", self.answer["target"].index(focus), focus]}

    def respond(self, **inputs):
        for name in self._texts:
            checked_text(inputs[name])
        try:
            answer = self._attention(**inputs)
        except ValueError as problem:
            raise ReaderError(str(problem)) from problem
        target = [str(token) for token in answer["target"]]
        source = None if answer.get("source") is None else [str(token) for token in answer["source"]]
        weights = four_axes(answer["weights"], len(target), len(source or target))
        if self._texts and max(weights.shape) > MAX_TOKENS:
            raise ReaderError(f"The text has {max(weights.shape)} tokens, more than {MAX_TOKENS}: write a shorter one.")
        return {"weights": packed(weights), "target": target, "source": source, "links": answer.get("links", [])}

    def all_answers(self, specs):
        """Answers to all combinations of choices, for a page without Python; none if the reader types a text."""
        if not specs or any(spec["kind"] != "choice" for spec in specs):
            return {}
        values = itertools.product(*([value for _, value in spec["options"]] for spec in specs))
        states = [dict(zip((spec["name"] for spec in specs), state, strict=True)) for state in values]
        return {answer_key(plain(inputs)): self.respond(**inputs) for inputs in states}

    def alt(self):
        weights, target, source = unpacked(self.answer["weights"]), self.answer["target"], self.answer["source"]
        words = ["; ".join(spoken(tokens)) for tokens in (target, source or [])]
        between = f"among {words[0]}" if source is None else f"from {words[0]} to {words[1]}"
        layers, heads = weights.shape[:2]
        layer, head = min(self.view["layer"], layers - 1), min(self.view["head"], heads - 1)
        matrix = weights[layer].mean(0) if head == MEAN else weights[layer, head]
        followed = (self.view["focus"] or [None] * 3)[2]
        row = target.index(followed) if followed in target else int(matrix.max(1).argmax())
        column = int(matrix[row].argmax())
        return (
            f"{self.data['title'] or 'Attention weights'}: {layers} x {heads} attention maps {between}. Enlarged: layer "
            f"{layer + 1}, {'mean of the heads' if head == MEAN else f'head {head + 1}'}, where {spoken(target)[row]} "
            f"attends most to {spoken(source or target)[column]}, {matrix[row, column]:.2f}."
        )


def given(weights, target, source):
    return {"weights": weights, "target": target, "source": source}


def four_axes(weights, targets, sources):
    """Weights as (layers, heads, targets, sources), or an error that says which axis does not fit."""
    weights = as_array(weights, "the attention weights")
    if weights.ndim not in (2, 3, 4):
        raise ValueError(
            "expected attention weights with the axes (targets, sources), (heads, targets, sources) or "
            f"(layers, heads, targets, sources), got {weights.ndim} axes: {weights.shape}"
        )
    if weights.shape[-2:] != (targets, sources):
        hint = "; the two axes are swapped" if weights.shape[-2:] == (sources, targets) else ""
        raise ValueError(
            f"{targets} target tokens attend to {sources} source tokens, so the last two axes of the weights must be "
            f"({targets}, {sources}), got {weights.shape[-2:]}{hint}"
        )
    checked_weights(weights, "attention weights")
    return weights.reshape((1,) * (4 - weights.ndim) + weights.shape)


def unpacked(array):
    """What `packed` was given."""
    return np.frombuffer(base64.b64decode(array["float32"]), "<f4").reshape(array["shape"])


def spoken(tokens):
    """Names of the tokens for a sentence; one that occurs twice gets its position, counted from 1."""
    return [f"{token} ({index + 1})" if tokens.count(token) > 1 else token for index, token in enumerate(tokens)]


def example():
    """Two sentences to choose from, two layers of three heads; its answers are stored."""
    sentences = {"the cat": "the cat saw the dog", "a queen": "a queen sleeps"}

    def respond(sentence):
        tokens = sentences[sentence].split()
        scores = np.random.default_rng(len(tokens)).normal(0, 2, (2, 3, len(tokens), len(tokens)))
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        return {"weights": weights, "target": tokens}

    return attention_view(respond, sentence=list(sentences), title="Self-attention", layer=1)

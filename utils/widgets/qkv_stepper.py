"""Self-attention of a few tokens step by step: every matrix with its numbers, and the product behind each of them."""

import numpy as np

from utils.plots.style import as_array
from utils.widgets.base import Widget, plain
from utils.widgets.controls import control


def qkv_stepper(self_attention, X, W_Q, W_K, W_V, title):
    """Step from the embeddings X (n, 2), which are dragged in a plane, to the output of self-attention.

    self_attention(X, W_Q, W_K, W_V, mask) returns the output (n, e) and the weights (n, n); mask (n, n) is True where a token may
    attend, or None.
    """
    return QKVStepper(self_attention, X, W_Q, W_K, W_V, title)


class QKVStepper(Widget):
    """What `qkv_stepper` returns. Inputs: `X`, and `causal`, whether there is a causal mask. View: the step and the selected entry."""

    script = "qkv"

    def __init__(self, self_attention, X, W_Q, W_K, W_V, title):
        self._self_attention = self_attention
        self._projections = [as_array(matrix) for matrix in (W_Q, W_K, W_V)]
        spec, causal = control("causal", False, "causal mask")
        inputs = {"X": as_array(X), "causal": causal}
        projections = dict(zip(("W_Q", "W_K", "W_V"), self._projections, strict=True))
        data = {"title": title, **projections, "controls": [spec], "start": inputs}
        super().__init__(data, inputs, {"step": 0, "row": 0, "column": 0})

    def respond(self, X, causal):
        import torch  # here and not above: drawing needs no torch, which takes seconds to load

        tensors = [torch.tensor(np.array(matrix), dtype=torch.float32) for matrix in (X, *self._projections)]
        mask = torch.ones(len(X), len(X), dtype=torch.bool).tril() if causal else None
        output, weights = self._self_attention(*tensors, mask)
        expected = (len(X), self._projections[2].shape[1]), (len(X), len(X))
        if (output.shape, weights.shape) != expected:
            raise ValueError(
                f"expected an output {expected[0]} and weights {expected[1]}, got {tuple(output.shape)} and {tuple(weights.shape)}"
            )
        Q, K, V = (np.array(X) @ projection for projection in self._projections)
        scores = Q @ K.T
        scaled = scores / K.shape[1] ** 0.5
        masked = plain(scaled)
        if causal:  # None instead of minus infinity, which JSON does not have
            masked = [[score if j <= i else None for j, score in enumerate(row)] for i, row in enumerate(masked)]
        return {
            **{"Q": Q, "K": K, "V": V, "scores": scores, "scaled": scaled, "masked": masked},
            **{"weights": as_array(weights, "the weights"), "output": as_array(output, "the output")},
        }

    def alt(self):
        def rows(matrix):
            return ", ".join("({})".format(", ".join(f"{number:.3g}" for number in row)) for row in matrix)

        mask = "a causal mask" if self.inputs["causal"] else "no mask"
        return (
            f"{self.data['title']}: embeddings {rows(self.inputs['X'])}, {mask}; "
            f"queries {rows(self.answer['Q'])}; keys {rows(self.answer['K'])}; "
            f"values {rows(self.answer['V'])}; attention weights {rows(self.answer['weights'])}; output {rows(self.answer['output'])}."
        )


def example():
    def self_attention(X, W_Q, W_K, W_V, mask):
        scores = (X @ W_Q) @ (X @ W_K).T / W_K.shape[1] ** 0.5
        weights = (scores if mask is None else scores.masked_fill(~mask, float("-inf"))).softmax(-1)
        return weights @ (X @ W_V), weights

    X, W_Q, W_K, W_V = [[1, 0], [0, 1], [1, 1]], [[2, 0], [0, 1]], [[1, 1], [0, 1]], [[1, 2], [3, 0]]
    return qkv_stepper(self_attention, X, W_Q, W_K, W_V, title="Self-attention, step by step")


def samples():
    """Inputs at which the page's arithmetic is compared with Python's."""
    embeddings = np.random.default_rng(0).uniform(-2, 2, (20, 3, 2))
    return [{"X": X, "causal": bool(index % 2)} for index, X in enumerate(embeddings)]

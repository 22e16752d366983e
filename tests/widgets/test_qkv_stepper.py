"""Facts about the Q/K/V stepper: it starts with the worked example, and weights and output are those of the function."""

import pytest
import torch

from utils.models.attention import attention
from utils.widgets.qkv_stepper import example, qkv_stepper

X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
PROJECTIONS = [torch.tensor(rows) for rows in ([[2.0, 0], [0, 1]], [[1.0, 1], [0, 1]], [[1.0, 2], [3, 0]])]


def self_attention(X, W_Q, W_K, W_V, mask):
    return attention(X @ W_Q, X @ W_K, X @ W_V, mask)


def test_every_step_of_the_worked_example():
    answer = qkv_stepper(self_attention, X, *PROJECTIONS, "Three tokens").answer
    assert (
        answer["Q"][0] == [2, 0] and answer["K"] == [[1, 1], [0, 1], [1, 2]] and answer["V"] == [[1, 2], [3, 0], [4, 2]]
    )
    assert answer["scores"][0] == [2, 0, 2]
    assert answer["scaled"][0] == answer["masked"][0] == pytest.approx([2**0.5, 0, 2**0.5])
    assert answer["weights"][0] == pytest.approx([0.446, 0.108, 0.446], abs=5e-4)
    assert answer["output"][0] == pytest.approx([2.55, 1.78], abs=5e-3)


def test_a_causal_mask_leaves_no_weight_on_later_tokens():
    widget = qkv_stepper(self_attention, X, *PROJECTIONS, "Three tokens")
    widget.set(causal=True)
    assert widget.answer["masked"][0][1:] == [None, None] and widget.answer["weights"][0] == [1, 0, 0]
    assert widget.answer["output"][0] == widget.answer["V"][0]


def test_weights_and_output_are_those_of_the_function_even_if_it_is_wrong():
    def unscaled(X, W_Q, W_K, W_V, mask):
        return attention(X @ W_Q, X @ W_K, X @ W_V, mask, scale=1)

    wrong, correct = (
        qkv_stepper(function, X, *PROJECTIONS, "Three tokens").answer for function in (unscaled, self_attention)
    )
    assert wrong["scaled"] == correct["scaled"] and wrong["weights"][0][0] > correct["weights"][0][0] + 0.01


def test_results_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="expected an output"):
        qkv_stepper(lambda *inputs: self_attention(*inputs)[::-1], X, *PROJECTIONS, "Three tokens")


def test_the_words_say_the_weights_and_the_output():
    assert "attention weights (0.446, 0.108, 0.446)" in repr(example()) and "output (2.55, 1.78)" in repr(example())

"""The functions that lesson 04 builds give what the trained models use."""

import pytest
import torch
import torch.nn.functional as F

from utils.exercises.solutions.lesson04 import (
    SelfAttention,
    causal_mask,
    next_word_loss,
    padding_mask,
    rotate,
    self_attention_loop,
    shift_rotation,
    sinusoidal_positions,
)
from utils.exercises.solutions.lesson04 import self_attention as by_matrices
from utils.models import positions, self_attention

BATCH, LENGTH, DIM, INNER, VALUE = 3, 5, 4, 6, 7


@pytest.fixture(autouse=True)
def _numbers():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        yield


def same(first, second, within=1e-6):
    return first.shape == second.shape and torch.allclose(first, second, rtol=0, atol=within)


def a_layer():
    x = torch.randn(BATCH, LENGTH, DIM)
    return x, [torch.randn(DIM, width) / 2 for width in (INNER, INNER, VALUE)]


def a_mask():
    """Some may look, some not, one nowhere."""
    mask = torch.rand(BATCH, LENGTH, LENGTH) < 0.6
    mask[1, 2] = False
    return mask


def test_loops_matrices_and_batches_agree():
    x, maps = a_layer()
    output, weights = by_matrices(x, *maps)
    for sentence in range(BATCH):
        for version in (self_attention_loop, by_matrices):
            one_output, one_weights = version(x[sentence], *maps)
            assert same(one_output, output[sentence])
            assert same(one_weights, weights[sentence])


def test_the_layer_is_the_function_with_its_own_matrices():
    x, _ = a_layer()
    layer, mask = SelfAttention(DIM, INNER), a_mask()
    reference = self_attention.SelfAttention(DIM, INNER)
    reference.load_state_dict(layer.state_dict())
    maps = [projection.weight.T for projection in (layer.query, layer.key, layer.value)]
    for one, other, third in zip(layer(x, mask), reference(x, mask), by_matrices(x, *maps, mask), strict=True):
        assert same(one, other)
        assert same(one, third)


def test_the_causal_mask_shows_the_past_and_the_padding_mask_the_tokens():
    lengths = torch.tensor([2, 5, 0, 4])
    assert torch.equal(causal_mask(6), self_attention.causal_mask(6))
    assert padding_mask(lengths, 5).shape == (4, 1, 5)
    assert padding_mask(lengths, 5).sum(-1).flatten().tolist() == lengths.tolist()
    assert padding_mask(lengths, 5)[0, 0].tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("dim", [2, 6, 16])
def test_positions_are_those_of_the_reference(dim):
    x, places = torch.randn(BATCH, LENGTH, dim), torch.tensor([4, 0, 17, 3, 90])
    assert same(sinusoidal_positions(200, dim), positions.sinusoidal_positions(200, dim), within=1e-4)
    assert same(rotate(x, places), positions.rotate(x, places), within=1e-4)


def test_one_rotation_shifts_every_position():
    table, k = sinusoidal_positions(40, 6), 7
    assert same(table[:-k] @ shift_rotation(k, 6), table[k:], within=1e-5)


def test_the_loss_is_the_mean_over_the_sentences_written_out():
    logits, tokens = torch.randn(3, 5, 8), torch.randint(8, (3, 5))
    mask = torch.arange(5) < torch.tensor([[5], [1], [3]])
    pairs = [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (2, 1)]  # (sentence, place) where a next token is there
    by_hand = torch.stack([-F.log_softmax(logits[b, t], 0)[tokens[b, t + 1]] for b, t in pairs]).mean()
    assert same(next_word_loss(logits, tokens, mask), by_hand)

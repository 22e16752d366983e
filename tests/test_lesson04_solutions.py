"""Lesson 04's solutions agree with the library that the trained models use."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from utils.exercises.solutions.lesson04 import (
    SelfAttention,
    causal_mask,
    next_token_loss,
    padding_mask,
    rotate,
    self_attention,
    self_attention_loop,
    shift_rotation,
    sinusoidal_positions,
)
from utils.models import positions
from utils.models.attention import SelfAttention as LibrarySelfAttention
from utils.models.attention import causal_mask as library_causal_mask
from utils.models.attention import padding_mask as library_padding_mask

BATCH, LENGTH, DIM, HEAD_DIM, VALUE_DIM = 3, 5, 4, 6, 7


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        yield


def random_projections():
    x = torch.randn(BATCH, LENGTH, DIM)
    return x, [torch.randn(DIM, width) / 2 for width in (HEAD_DIM, HEAD_DIM, VALUE_DIM)]


def test_loops_matrices_and_batches_agree():
    x, projections = random_projections()
    expected = self_attention(x, *projections)
    for sentence in range(BATCH):
        for version in (self_attention_loop, self_attention):
            output, weights = version(x[sentence], *projections)
            assert_close((output, weights), tuple(tensor[sentence] for tensor in expected), rtol=0, atol=1e-6)


def test_the_layer_is_the_function_with_its_own_matrices():
    x, _ = random_projections()
    mask = torch.rand(BATCH, LENGTH, LENGTH) < 0.6
    mask[1, 2] = False  # a fully masked row
    layer, reference = SelfAttention(DIM, HEAD_DIM), LibrarySelfAttention(DIM, HEAD_DIM)
    reference.load_state_dict(layer.state_dict())
    projections = [linear.weight.T for linear in (layer.query, layer.key, layer.value)]
    result = layer(x, mask)
    assert_close(result, reference(x, mask), rtol=0, atol=1e-6)
    assert_close(result, self_attention(x, *projections, mask), rtol=0, atol=1e-6)


def test_masks_are_those_of_the_library():
    lengths = torch.tensor([2, 5, 0, 4])
    attention_mask = torch.arange(5) < lengths[:, None]
    assert torch.equal(causal_mask(6), library_causal_mask(6))
    assert torch.equal(padding_mask(lengths, 5), library_padding_mask(attention_mask))


@pytest.mark.parametrize("dim", [2, 6, 16])
def test_positions_are_those_of_the_library(dim):
    x, token_positions = torch.randn(BATCH, LENGTH, dim), torch.tensor([4, 0, 17, 3, 90])
    sinusoids = positions.sinusoidal_positions(200, dim)
    assert_close(sinusoidal_positions(200, dim), sinusoids, rtol=0, atol=1e-4)
    rotated = positions.apply_rotary(x, positions.rotary_embedding(token_positions, dim))
    assert_close(rotate(x, token_positions), rotated, rtol=0, atol=1e-4)


def test_one_rotation_shifts_every_position():
    sinusoids, k = sinusoidal_positions(40, 6), 7
    assert_close(sinusoids[:-k] @ shift_rotation(k, 6), sinusoids[k:], rtol=0, atol=1e-5)


def test_the_loss_is_the_mean_over_all_next_tokens_without_padding():
    logits, token_ids = torch.randn(3, 5, 8), torch.randint(8, (3, 5))
    attention_mask = torch.arange(5) < torch.tensor([[5], [1], [3]])
    targets = [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (2, 1)]  # (sequence, position) with a next token
    losses = [-F.log_softmax(logits[b, t], 0)[token_ids[b, t + 1]] for b, t in targets]
    assert_close(next_token_loss(logits, token_ids, attention_mask), torch.stack(losses).mean(), rtol=0, atol=1e-6)

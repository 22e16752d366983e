"""Facts about the recurrent cells: with copied weights they give torch's numbers and torch's gradients."""

import pytest
import torch
from torch import nn

from utils.models.recurrent import GRUCell, LSTMCell, TanhCell, copy_weights, unroll

CELLS = [(TanhCell, nn.RNN), (GRUCell, nn.GRU), (LSTMCell, nn.LSTM)]
every_cell = pytest.mark.parametrize("ours, layer", CELLS, ids=[cell.__name__ for cell, _ in CELLS])
BATCH, LENGTH, INPUTS, WIDTH = 2, 7, 5, 4


@pytest.fixture(autouse=True)
def _numbers():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(before)


def close(first, second):
    return torch.allclose(first, second, rtol=0, atol=1e-10)


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


def as_state(tensors):
    return tensors[0] if tensors and len(tensors) == 1 else tensors


def random_state(cell):
    return torch.randn(2 if isinstance(cell, LSTMCell) else 1, BATCH, WIDTH).unbind(0)


@every_cell
@pytest.mark.parametrize("given", [False, True])
def test_a_cell_by_hand_is_torchs_layer_with_copied_weights(ours, layer, given):
    theirs = layer(INPUTS, WIDTH, batch_first=True)
    cell = copy_weights(ours(INPUTS, WIDTH), theirs)
    first = random_state(cell) if given else None
    x = torch.randn(BATCH, LENGTH, INPUTS, requires_grad=True)
    same_x = x.detach().clone().requires_grad_()
    outputs, last = unroll(cell, x, as_state(first))
    expected, expected_last = theirs(same_x, as_state(first and tuple(one.unsqueeze(0) for one in first)))
    assert outputs.shape == (BATCH, LENGTH, WIDTH) and close(outputs, expected)
    for one, other in zip(as_tuple(last), as_tuple(expected_last), strict=True):
        assert close(one, other.squeeze(0))
    probe = torch.randn_like(outputs)
    (outputs * probe).sum().backward()
    (expected * probe).sum().backward()
    assert close(x.grad, same_x.grad)
    assert close(cell.from_input.weight.grad, theirs.weight_ih_l0.grad)
    assert close(cell.from_state.weight.grad, theirs.weight_hh_l0.grad)
    assert close(cell.from_input.bias.grad, theirs.bias_ih_l0.grad)
    assert close(cell.from_state.bias.grad, theirs.bias_hh_l0.grad)

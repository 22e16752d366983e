"""How far gradients reach back in recurrent layers and convolutions, and the time a long sequence takes."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from utils.training.profiling import seconds_in_turns

LAYERS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


# Recurrent layers


def recurrent_layer(
    cell: str, input_size: int, hidden_size: int, forget_bias: float = 0.0, seed: int = 0
) -> nn.RNNBase:
    """An untrained layer. forget_bias is added to the bias of the LSTM's forget gate or the GRU's update gate: a large
    one keeps the state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = LAYERS[cell](input_size, hidden_size, batch_first=True)
    if forget_bias:
        with torch.no_grad():
            layer.bias_hh_l0[hidden_size : 2 * hidden_size] += forget_bias  # the second gate in torch's order, of both
    return layer


def influence(layer: Callable[[Tensor], tuple[Tensor, object]], x: Tensor) -> Tensor:
    """How much the last output depends on each input x (b, n, d), by distance: (n,), entry k for k positions before.

    It is the norm of the gradient of a random projection of the last output, averaged over the batch.
    """
    x = x.detach().clone().requires_grad_()
    last = layer(x)[0][:, -1]
    projection = torch.randn(last.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    (gradient,) = torch.autograd.grad((last * projection).sum(), x)
    return gradient.norm(dim=-1).mean(0).flip(0)


def reach(cell: str, forget_bias: float = 0.0, length: int = 60, size: int = 64) -> Tensor:
    """`influence` (length,) in an untrained layer on random inputs, relative to that of the last input."""
    x = torch.randn(16, length, size, generator=torch.Generator().manual_seed(0))
    values = influence(recurrent_layer(cell, size, size, forget_bias), x)
    return values / values[0]


# Convolutions


class Convolutions(nn.Module):
    """A stack of convolutions with tanh that keeps the length: x (b, n, dim) to (b, n, dim)."""

    def __init__(self, num_layers: int, dim: int, kernel_size: int = 3, dilations: Sequence[int] | None = None):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(dim, dim, kernel_size, padding=dilation * (kernel_size // 2), dilation=dilation)
            for dilation in dilations or [1] * num_layers
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.transpose(1, 2)


def receptive_field(
    num_layers: int, kernel_size: int = 3, dilations: Sequence[int] | None = None, length: int = 201
) -> int:
    """The number of inputs that the middle output of `Convolutions` depends on, counted by their gradients."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        stack, x = Convolutions(num_layers, 4, kernel_size, dilations).double(), torch.randn(1, length, 4).double()
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(stack(x)[0, length // 2].sum(), x)
    return int((gradient[0].abs().sum(-1) > 0).sum())


# Time


@torch.no_grad()
def seconds_by_length(layers: dict[str, Callable[[Tensor], object]], lengths: Sequence[int]) -> dict[str, Tensor]:
    """The least seconds (lengths,) of several calls of each layer on x (1, length, 64)."""
    inputs = {length: torch.randn(1, length, 64) for length in lengths}
    runs = {(name, length): partial(layer, inputs[length]) for name, layer in layers.items() for length in lengths}
    measured = seconds_in_turns(runs, 5)
    return {name: torch.tensor([min(measured[name, length]) for length in lengths]) for name in layers}

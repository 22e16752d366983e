"""How far a recurrent net and a stack of convolutions reach, and what a long sentence costs: measured, not argued."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

LAYERS = {"tanh": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


# Gradient reach


def recurrent_layer(kind: str, inputs: int, width: int, keep: float = 0.0, seed: int = 0) -> nn.RNNBase:
    """A fresh layer. `keep` is added to the bias of the gate that keeps the old state: such a cell starts out remembering.

    A plain tanh cell has no such gate, and refuses.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = LAYERS[kind](inputs, width, batch_first=True)
    if keep:
        with torch.no_grad():
            layer.bias_hh_l0[width : 2 * width] += keep  # the second gate in torch's order, for GRU and LSTM alike
    return layer


def influence(layer: Callable[[Tensor], tuple[Tensor, object]], x: Tensor) -> Tensor:
    """How much the last output depends on each input, by distance: (n,), entry k for the input k places before the last.

    x (b, n, d). The number is the length of the gradient of a random projection of the last output, averaged over the batch.
    """
    x = x.detach().clone().requires_grad_()
    last = layer(x)[0][:, -1]
    probe = torch.randn(last.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    (gradient,) = torch.autograd.grad((last * probe).sum(), x)
    return gradient.norm(dim=-1).mean(0).flip(0)


def reach(kind: str, length: int = 60, width: int = 64, keep: float = 0.0, seed: int = 0, batch: int = 16) -> Tensor:
    """`influence` (length,) of a fresh layer on random inputs, as a share of the influence of the last input."""
    x = torch.randn(batch, length, width, generator=torch.Generator().manual_seed(seed))
    found = influence(recurrent_layer(kind, width, width, keep, seed), x)
    return found / found[0]


# Convolutions


class Convolutions(nn.Module):
    """Layers of convolutions that keep the length: x (b, n, d) to (b, n, d)."""

    def __init__(self, layers: int, width: int, kernel: int = 3, dilations: Sequence[int] | None = None):
        super().__init__()
        dilations = [1] * layers if dilations is None else list(dilations)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, kernel, padding=step * (kernel // 2), dilation=step) for step in dilations
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.transpose(1, 2)


def receptive_field(layers: int, kernel: int = 3, dilations: Sequence[int] | None = None, length: int = 201) -> int:
    """How many inputs the middle output of a stack of convolutions depends on, counted by their gradients."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        stack, x = Convolutions(layers, 4, kernel, dilations).double(), torch.randn(1, length, 4).double()
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(stack(x)[0, length // 2].sum(), x)
    seen = gradient[0].abs().sum(-1) > 0
    if seen[0] or seen[-1]:
        raise ValueError(f"expected a field smaller than the {length} inputs; give a greater length")
    return int(seen.sum())


# Time


@torch.no_grad()
def seconds_by_length(
    layers: dict[str, Callable[[Tensor], object]], lengths: Sequence[int], width: int = 64, repeats: int = 5
) -> dict[str, Tensor]:
    """Median seconds (lengths,) of one call of each layer on x (1, length, width).

    One sentence at a time, so nothing can hide behind the batch. The layers take turns, so that a busy moment of the machine
    meets all of them.
    """
    times = {name: torch.zeros(len(lengths)) for name in layers}
    for place, length in enumerate(lengths):
        x = torch.randn(1, length, width)
        taken = {name: [] for name in layers}
        for turn in range(repeats + 1):
            for name, layer in layers.items():
                start = time.perf_counter()
                layer(x)
                if turn:  # the first call warms up
                    taken[name].append(time.perf_counter() - start)
        for name, seconds in taken.items():
            times[name][place] = statistics.median(seconds)
    return times

"""Self-attention compared with a recurrent, a convolutional and a dense layer (table 1 of Vaswani et al., 2017).

Multiplications, sequential operations and maximum path length, each as a formula and as measured here.
"""

import bisect
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from utils.models.attention import SelfAttention
from utils.models.recurrent import RNNCell, unroll
from utils.training.reach import Convolutions, influence, seconds_by_length

KERNEL = 3
LENGTHS = (256, 512, 1024, 2048)
DENSE_LENGTHS = (8, 16, 32, 64)  # a dense layer over 2,048 tokens of width 64 would have 17 billion weights
PATH_LENGTHS = (9, 17, 33)
COUNTED_DIM = 8  # small, since the dense layer is counted too

# n tokens of width d, kernel size k.
FORMULAS = {
    "self-attention": {"cost": "3 n d² + 2 n² d", "sequential": "1", "path": "1"},
    "recurrence": {"cost": "2 n d²", "sequential": "n", "path": "n"},
    "convolution": {"cost": "k n d²", "sequential": "1", "path": "2 (n - 1) / (k - 1)"},
    "dense": {"cost": "n² d²", "sequential": "1", "path": "1"},
}
KINDS = tuple(FORMULAS)


class Dense(nn.Module):
    """Fully connected layer over a whole sequence, x (b, n, d) to (b, n, d), for one n only."""

    def __init__(self, n: int, dim: int):
        super().__init__()
        self.linear = nn.Linear(n * dim, n * dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.flatten(1)).view_as(x)


def log_log_slope(lengths: Sequence[int], values: Tensor) -> float:
    """The exponent p of values ~ length ** p, by least squares on the logarithms."""
    x = torch.tensor([math.log(length) for length in lengths], dtype=torch.float64)
    x = x - x.mean()
    return ((x * values.double().log()).sum() / x.square().sum()).item()


def layer_seconds(dim: int = 64, repeats: int = 9) -> dict[str, dict]:
    """For each kind of layer: lengths, seconds (lengths,) of one sequence, and the slope on log-log axes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = {
            "self-attention": SelfAttention(dim),
            "recurrence": nn.RNN(dim, dim, batch_first=True),
            "convolution": Convolutions(1, dim, KERNEL),
        }
        dense = {length: Dense(length, dim) for length in DENSE_LENGTHS}  # ready, so that no layer is timed cold
        seconds = seconds_by_length(layers, LENGTHS, dim, repeats)
        seconds |= seconds_by_length({"dense": lambda x: dense[x.size(1)](x)}, DENSE_LENGTHS, dim, repeats)
    measured = {kind: list(DENSE_LENGTHS if kind == "dense" else LENGTHS) for kind in KINDS}
    return {
        kind: {"lengths": lengths, "seconds": seconds[kind], "slope": log_log_slope(lengths, seconds[kind])}
        for kind, lengths in measured.items()
    }


def _layers(kind: str, depth: int, length: int, dim: int) -> Callable[[Tensor], tuple[Tensor, None]]:
    """A stack of `depth` layers of a kind; for recurrence, a cell unrolled over the last `depth` tokens only."""
    if kind == "recurrence":
        cell = RNNCell(dim, dim).double()
        return lambda x: (unroll(cell, x[:, -depth:])[0], None)
    makers = {
        "self-attention": lambda: SelfAttention(dim),
        "convolution": lambda: Convolutions(1, dim, KERNEL),
        "dense": lambda: Dense(length, dim),
    }
    layers = [makers[kind]().double() for _ in range(depth)]

    def forward(x: Tensor) -> tuple[Tensor, None]:
        for layer in layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
        return x, None

    return forward


def path_length(kind: str, length: int, dim: int = 4) -> int:
    """Maximum path length: the fewest layers (for recurrence, steps) after which the last output depends on the first input.

    Measured by the gradient, which is exactly zero as long as no path connects the two.
    """

    def connected(depth: int) -> bool:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers, x = _layers(kind, depth, length, dim), torch.randn(1, length, dim, dtype=torch.float64)
        return influence(layers, x)[-1].item() > 0

    depths = range(1, length + 1)
    return depths[bisect.bisect_left(depths, True, key=connected)]


def multiplications(kind: str, length: int, dim: int) -> int:
    """Multiplications of one layer on a sequence, by torch's FLOP counter, which leaves out softmax and tanh."""
    layer = _layers(kind, length if kind == "recurrence" else 1, length, dim)
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, length, dim, dtype=torch.float64))
    return counter.get_total_flops() // 2  # a multiplication and the addition after it are two operations


def sequential_products(kind: str, length: int, dim: int = 4) -> int:
    """Sequential operations: the longest chain of matrix products in one layer, each of which needs the one before.

    Counted in the autograd graph, from the output back to the input.
    """
    layer = _layers(kind, length if kind == "recurrence" else 1, length, dim)
    x = torch.randn(1, length, dim, dtype=torch.float64, requires_grad=True)
    return _longest_chain(layer(x)[0].grad_fn)


def _longest_chain(output_node) -> int:
    """In topological order and without recursion, which would overflow the stack on a long sequence."""
    products = ("AddmmBackward", "MmBackward", "BmmBackward", "ConvolutionBackward")
    chain, stack = {}, [output_node]
    while stack:
        node = stack[-1]
        inputs = [parent for parent, _ in node.next_functions if parent is not None]
        unvisited = [parent for parent in inputs if parent not in chain]
        if unvisited:
            stack += unvisited
            continue
        stack.pop()
        is_product = node.name().startswith(products)
        chain[node] = is_product + max((chain[parent] for parent in inputs), default=0)
    return chain[output_node]


def layer_costs() -> list[dict]:
    """A row for each kind of layer: kind; formula (cost, sequential, path); lengths, seconds and slope as measured;
    path_lengths, with the multiplications (at width `COUNTED_DIM`), sequential products and path at each."""
    timed = layer_seconds()
    return [
        {
            "kind": kind,
            "formula": FORMULAS[kind],
            **timed[kind],
            "path_lengths": list(PATH_LENGTHS),
            "multiplications": [multiplications(kind, length, COUNTED_DIM) for length in PATH_LENGTHS],
            "sequential": [sequential_products(kind, length) for length in PATH_LENGTHS],
            "path": [path_length(kind, length) for length in PATH_LENGTHS],
        }
        for kind in KINDS
    ]

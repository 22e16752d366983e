"""Self-attention beside recurrence, convolution and a dense layer: what a layer costs, and how far a signal must travel.

Each claim twice: as the formula that one reads everywhere, and as measured here.
"""

import bisect
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from utils.models.recurrent import RNNCell, unroll
from utils.models.self_attention import SelfAttention
from utils.training.reach import Convolutions, influence, seconds_by_length

KERNEL = 3
LENGTHS = (256, 512, 1024, 2048)
DENSE_LENGTHS = (8, 16, 32, 64)  # a dense layer of 2048 tokens of width 64 would have 17 thousand million weights
PATH_LENGTHS = (9, 17, 33)
COUNTED_WIDTH = 8  # a dense layer is counted too

# n tokens of width d, kernel k: multiplications of one layer, steps that must wait for each other, and how many layers or
# steps lie between the two ends of a sentence.
FORMULAS = {
    "self-attention": {"cost": "3 n d² + 2 n² d", "sequential": "1", "path": "1"},
    "recurrence": {"cost": "2 n d²", "sequential": "n", "path": "n"},
    "convolution": {"cost": "k n d²", "sequential": "1", "path": "2 (n - 1) / (k - 1)"},
    "dense": {"cost": "n² d²", "sequential": "1", "path": "1"},
}
KINDS = tuple(FORMULAS)


class Dense(nn.Module):
    """Every number of the output is connected to every number of the input: x (b, n, d) to (b, n, d), for one n only."""

    def __init__(self, n: int, width: int):
        super().__init__()
        self.layer = nn.Linear(n * width, n * width)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1)).view_as(x)


def slope(lengths: Sequence[int], values: Tensor) -> float:
    """The exponent p of values ~ length ** p, from a straight line through the logarithms."""
    x = torch.tensor([math.log(length) for length in lengths], dtype=torch.float64)
    y = values.double().log()
    x = x - x.mean()
    return ((x * y).sum() / x.square().sum()).item()


# Time


def layer_seconds(
    lengths: Sequence[int] = LENGTHS,
    dense_lengths: Sequence[int] = DENSE_LENGTHS,
    width: int = 64,
    repeats: int = 9,
    seed: int = 0,
) -> dict[str, dict]:
    """For each kind of layer the lengths, the median seconds (lengths,) of one sentence, and the slope of their logarithms."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = {
            "self-attention": SelfAttention(width),
            "recurrence": nn.RNN(width, width, batch_first=True),
            "convolution": Convolutions(1, width, KERNEL),
        }
        # One at a time would do for the clock, but a layer made inside the loop would be timed cold.
        dense = {length: Dense(length, width) for length in dense_lengths}
        measured = seconds_by_length(layers, lengths, width, repeats)
        measured |= seconds_by_length({"dense": lambda x: dense[x.size(1)](x)}, dense_lengths, width, repeats)
    places = {kind: list(dense_lengths if kind == "dense" else lengths) for kind in KINDS}
    return {
        kind: {"lengths": places[kind], "seconds": measured[kind], "slope": slope(places[kind], measured[kind])}
        for kind in KINDS
    }


# Path


def _of_depth(kind: str, depth: int, length: int, width: int) -> Callable[[Tensor], tuple[Tensor, None]]:
    """`depth` layers of a kind; for recurrence, a cell whose state is handed on over the last `depth` tokens only."""
    if kind == "recurrence":
        cell = RNNCell(width, width).double()

        def last_steps(x: Tensor) -> tuple[Tensor, None]:
            return unroll(cell, x[:, -depth:])[0], None

        return last_steps
    makers = {
        "self-attention": lambda: SelfAttention(width),
        "convolution": lambda: Convolutions(1, width, KERNEL),
        "dense": lambda: Dense(length, width),
    }
    layers = [makers[kind]().double() for _ in range(depth)]

    def stack(x: Tensor) -> tuple[Tensor, None]:
        for layer in layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
        return x, None

    return stack


def path_length(kind: str, length: int, width: int = 4, seed: int = 0) -> int:
    """The fewest layers (for recurrence, steps) after which the last output depends on the first input.

    Found by the gradient: it is exactly zero as long as no signal can have come so far.
    """

    def arrives(depth: int) -> bool:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers, x = _of_depth(kind, depth, length, width), torch.randn(1, length, width, dtype=torch.float64)
        return influence(layers, x)[-1].item() > 0

    depths = range(1, length + 1)
    return depths[bisect.bisect_left(depths, True, key=arrives)]


# Multiplications


def multiplications(kind: str, length: int, width: int) -> int:
    """How many numbers one layer multiplies for a sentence, as torch's own counter sees it; softmax and tanh are not in it."""
    layer = _of_depth(kind, length if kind == "recurrence" else 1, length, width)
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, length, width, dtype=torch.float64))
    return counter.get_total_flops() // 2  # it counts each multiplication with the addition that follows it


# Steps that wait for each other

_PRODUCTS = ("AddmmBackward", "MmBackward", "BmmBackward", "ConvolutionBackward")


def sequential_products(kind: str, length: int, width: int = 4) -> int:
    """The longest chain of matrix products in one layer, each of which needs the result of the one before.

    Counted in the graph that torch keeps for the gradient, from the outputs back to the input.
    """
    depth = length if kind == "recurrence" else 1
    layer = _of_depth(kind, depth, length, width)
    x = torch.randn(1, length, width, dtype=torch.float64, requires_grad=True)
    return _longest_chain(layer(x)[0].grad_fn)


def _longest_chain(end) -> int:
    """Visited in order, each node after all that it needs; recursion would run out of stack in a long sentence."""
    longest, waiting = {}, [end]
    while waiting:
        node = waiting[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        unknown = [parent for parent in before if parent not in longest]
        if unknown:
            waiting += unknown
            continue
        waiting.pop()
        own = node.name().startswith(_PRODUCTS)
        longest[node] = own + max((longest[parent] for parent in before), default=0)
    return longest[end]


def layer_costs(
    lengths: Sequence[int] = LENGTHS,
    *,
    dense_lengths: Sequence[int] = DENSE_LENGTHS,
    path_lengths: Sequence[int] = PATH_LENGTHS,
    width: int = 64,
    repeats: int = 9,
) -> list[dict]:
    """One row per kind of layer: kind; formula (cost, sequential, path); lengths, seconds and slope as measured;
    path_lengths, with multiplications (at width 8), sequential (chain of matrix products) and path (layers or steps) at each."""
    timed = layer_seconds(lengths, dense_lengths, width, repeats)
    return [
        {
            "kind": kind,
            "formula": FORMULAS[kind],
            **timed[kind],
            "path_lengths": list(path_lengths),
            "multiplications": [multiplications(kind, length, COUNTED_WIDTH) for length in path_lengths],
            "sequential": [sequential_products(kind, length) for length in path_lengths],
            "path": [path_length(kind, length) for length in path_lengths],
        }
        for kind in KINDS
    ]

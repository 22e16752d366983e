"""Self-attention compared with a recurrent, a convolutional and a dense layer (Vaswani et al., 2017, arXiv:1706.03762, table 1).

Multiplications, sequential operations and maximum path length, each as a formula and as measured here.
"""

import bisect
import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from utils.models.attention import SelfAttention
from utils.training.profiling import count_multiplications, seconds_in_turns
from utils.training.reach import Convolutions, influence
from utils.training.seeds import seeded

KERNEL = 3
LENGTHS = (256, 512, 1024, 2048)
DENSE_LENGTHS = (8, 16, 32, 64)  # a dense layer over 2,048 tokens of width 64 would have 17 billion weights
TIMED_DIM = 64
SHORT_LENGTH, COUNTED_LENGTH, COUNTED_DIM = 9, 33, 8  # small, since the dense layer is counted too

# n tokens of width d, kernel size k.
FORMULAS = {
    "self-attention": {"cost": "3 n d² + 2 n² d", "sequential": "O(1)", "path": "1"},
    "recurrence": {"cost": "2 n d²", "sequential": "O(n)", "path": "n"},
    "convolution": {"cost": "k n d²", "sequential": "O(1)", "path": "2 (n - 1) / (k - 1)"},
    "dense": {"cost": "n² d²", "sequential": "O(1)", "path": "1"},
}
KINDS = tuple(FORMULAS)


class Dense(nn.Module):
    """Fully connected layer over a whole sequence, x (b, n, d) to (b, n, d), for one n only."""

    def __init__(self, n: int, dim: int):
        super().__init__()
        self.linear = nn.Linear(n * dim, n * dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.flatten(1)).view_as(x)


def make_layer(kind: str, n: int, dim: int) -> nn.Module:
    """One layer for sequences of n tokens."""
    return {
        "self-attention": lambda: SelfAttention(dim),
        "recurrence": lambda: nn.RNN(dim, dim, batch_first=True),
        "convolution": lambda: Convolutions(1, dim, KERNEL),
        "dense": lambda: Dense(n, dim),
    }[kind]()


@torch.no_grad()
def layer_seconds() -> dict[str, dict]:
    """For each kind of layer: lengths, and the least seconds (lengths,) of one sequence."""
    lengths = {kind: DENSE_LENGTHS if kind == "dense" else LENGTHS for kind in KINDS}
    with seeded(0):
        runs = {
            (kind, n): functools.partial(make_layer(kind, n, TIMED_DIM), torch.randn(1, n, TIMED_DIM))
            for kind in KINDS
            for n in lengths[kind]
        }
    measured = seconds_in_turns(runs, 9)
    return {
        kind: {
            "lengths": list(lengths[kind]),
            "seconds": torch.tensor([min(measured[kind, n]) for n in lengths[kind]]),
        }
        for kind in KINDS
    }


def _layers(kind: str, depth: int, n: int, dim: int) -> Callable[[Tensor], tuple[Tensor, None]]:
    """A stack of `depth` layers of a kind; for recurrence, a cell unrolled over the last `depth` tokens only."""
    if kind == "recurrence":
        cell = nn.RNNCell(dim, dim).double()

        def unroll(x: Tensor) -> tuple[Tensor, None]:
            state, states = None, []
            for x_t in x[:, -depth:].unbind(1):
                state = cell(x_t, state)
                states.append(state)
            return torch.stack(states, 1), None

        return unroll
    layers = [make_layer(kind, n, dim).double() for _ in range(depth)]

    def forward(x: Tensor) -> tuple[Tensor, None]:
        for layer in layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
        return x, None

    return forward


def _whole_layer(kind: str, n: int, dim: int) -> Callable[[Tensor], tuple[Tensor, None]]:
    return _layers(kind, n if kind == "recurrence" else 1, n, dim)


def path_length(kind: str, n: int) -> int:
    """Maximum path length: the fewest layers (for recurrence, steps) after which the last output depends on the first input.

    Measured by the gradient, which is exactly zero as long as no path connects the two.
    """

    def connected(depth: int) -> bool:
        with seeded(0):
            layers, x = _layers(kind, depth, n, 4), torch.randn(1, n, 4, dtype=torch.float64)
        return influence(layers, x)[-1].item() > 0

    depths = range(1, n + 1)
    return depths[bisect.bisect_left(depths, True, key=connected)]


def multiplications(kind: str, n: int, dim: int) -> int:
    """Multiplications of one layer on a sequence."""
    layer, x = _whole_layer(kind, n, dim), torch.randn(1, n, dim, dtype=torch.float64)
    return count_multiplications(lambda: layer(x))


def sequential_products(kind: str, n: int) -> int:
    """Sequential operations: the longest chain of matrix products in one layer, each of which needs the one before.

    Counted in the autograd graph, from the output back to the input.
    """
    x = torch.randn(1, n, 4, dtype=torch.float64, requires_grad=True)
    return _longest_chain(_whole_layer(kind, n, 4)(x)[0].grad_fn)


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
    """A row for each kind of layer: kind; formula (cost, sequential, path); lengths and seconds as measured; multiplications
    and path at COUNTED_LENGTH tokens of width COUNTED_DIM; sequential products at SHORT_LENGTH and COUNTED_LENGTH tokens."""
    timed, n = layer_seconds(), COUNTED_LENGTH
    with seeded(0):
        return [
            {
                "kind": kind,
                "formula": FORMULAS[kind],
                **timed[kind],
                "multiplications": multiplications(kind, n, COUNTED_DIM),
                "sequential": [sequential_products(kind, length) for length in (SHORT_LENGTH, n)],
                "path": path_length(kind, n),
            }
            for kind in KINDS
        ]


def comparison(costs: list[dict]) -> tuple[tuple[str, ...], list[tuple]]:
    """Header and rows like table 1 of Vaswani et al. (2017), each formula followed by what `layer_costs` measured."""
    short, n = f"n = {SHORT_LENGTH}", f"n = {COUNTED_LENGTH}"
    header = ("layer", "multiplications", f"at {n}, d = {COUNTED_DIM}", "sequential", short, n, "maximum path", n)
    rows = [
        (
            row["kind"],
            row["formula"]["cost"],
            f"{row['multiplications']:,}",
            row["formula"]["sequential"],
            *row["sequential"],
            row["formula"]["path"],
            row["path"],
        )
        for row in costs
    ]
    return header, rows

"""Three ways to tell a set of tokens where each one stands: sinusoids, learned vectors, and rotated queries and keys."""

import math

import torch
from torch import Tensor, nn

BASE = 10_000.0


def frequencies(dim: int, base: float = BASE) -> Tensor:
    """(dim / 2,): the angle that each pair of components turns by from one position to the next, from 1 down to 1 / base."""
    if dim < 2 or dim % 2:
        raise ValueError(f"expected an even width, since components come in pairs, got {dim}; try {dim + dim % 2 or 2}")
    # In double precision: at position 100,000 an error of 1e-7 in the frequency is an error of 1e-2 in the angle.
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def periods(dim: int, base: float = BASE) -> Tensor:
    """(dim / 2,): after how many positions each pair of components repeats; for wide vectors up to almost 2 pi base."""
    return (2 * math.pi / frequencies(dim, base)).float()


def sinusoidal_positions(n: int, dim: int, base: float = BASE, start: int = 0) -> Tensor:
    """(n, dim): row i stands for position start + i, sines in even and cosines in odd components, one period per pair."""
    angles = torch.arange(start, start + n, dtype=torch.float64)[:, None] * frequencies(dim, base)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()


class PastTheTable(ValueError):
    """A position that was never given a vector."""


class LearnedPositions(nn.Module):
    """A vector for each position up to `longest`, trained like the embedding of a word. Past `longest` there is none."""

    def __init__(self, longest: int, dim: int):
        super().__init__()
        self.longest = longest
        self.table = nn.Parameter(torch.randn(longest, dim))

    def forward(self, n: int, start: int = 0) -> Tensor:
        """(n, dim): the vectors of positions start to start + n - 1."""
        if start < 0 or start + n > self.longest:
            raise PastTheTable(
                f"expected positions from 0 to {self.longest - 1}, got {start} to {start + n - 1}: learned positions end "
                "where their table ends; make it longer and train again, or use sinusoidal or rotary positions"
            )
        return self.table[start : start + n]


def rotate(x: Tensor, positions: Tensor, base: float = BASE) -> Tensor:
    """Turn each pair of components of x (..., n, d) by its frequency times the position (n,) or (..., n).

    For queries and keys, not for values: the length stays, and the dot product of two turned vectors depends on where they
    stand through the difference alone.
    """
    angles = positions[..., None].double() * frequencies(x.size(-1), base)
    turns = torch.polar(torch.ones_like(angles), angles).to(x.dtype.to_complex())
    # A pair is a complex number, and to turn it is to multiply: three times as fast as sines and cosines written out.
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2)

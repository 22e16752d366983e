"""Position information: sinusoidal encoding (Vaswani et al., 2017), learned embeddings, and rotary embedding (RoPE).

RoPE (Su et al., 2021, arXiv:2104.09864) rotates queries and keys, so that their dot product depends on the distance alone.
"""

import math

import torch
from torch import Tensor, nn

BASE = 10_000.0


def frequencies(dim: int, base: float = BASE) -> Tensor:
    """Frequencies (dim / 2,): the angle by which each pair of components rotates from position to position, 1 down to 1 / base."""
    if dim < 2 or dim % 2:
        raise ValueError(f"expected an even width, since components come in pairs, got {dim}; try {dim + dim % 2 or 2}")
    # In double precision: at position 100,000 an error of 1e-7 in the frequency is an error of 1e-2 in the angle.
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def periods(dim: int) -> Tensor:
    """Periods (dim / 2,): after how many positions each pair of components repeats, for wide vectors up to almost 2 pi BASE."""
    return (2 * math.pi / frequencies(dim)).float()


def sinusoidal_positions(n: int, dim: int, start: int = 0) -> Tensor:
    """Sinusoidal position encoding (n, dim) of positions start, start + 1, ...: sines in even, cosines in odd components."""
    angles = torch.arange(start, start + n, dtype=torch.float64)[:, None] * frequencies(dim)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()


class MaxLengthError(ValueError):
    """A sequence that is longer than the model's max_len."""


class LearnedPositions(nn.Module):
    """Learned position embedding (max_len, dim). Positions past max_len have no embedding: the model cannot extrapolate."""

    def __init__(self, max_len: int, dim: int):
        super().__init__()
        self.max_len = max_len
        self.weight = nn.Parameter(torch.randn(max_len, dim))

    def forward(self, n: int, start: int = 0) -> Tensor:
        """(n, dim): the embeddings of positions start to start + n - 1."""
        if start + n > self.max_len:
            raise MaxLengthError(
                f"expected positions from 0 to {self.max_len - 1}, got {start} to {start + n - 1}: learned positions end at "
                "max_len; cut the text, or train with a larger max_len or with sinusoidal or rotary positions"
            )
        return self.weight[start : start + n]


def rotary_embedding(positions: Tensor, dim: int, base: float = BASE, dtype: torch.dtype = torch.float32) -> Tensor:
    """Rotary position embedding (..., n, dim / 2) of positions (..., n): complex numbers of modulus one, for `apply_rotary`."""
    angles = positions[..., None].double() * frequencies(dim, base).to(positions.device)
    return torch.polar(torch.ones_like(angles), angles).to(dtype.to_complex())


def apply_rotary(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate each pair of neighboring components of x (..., n, d) by rotation (..., n, d / 2).

    A pair is a complex number, and to rotate it is to multiply: three times faster than sines and cosines written out.
    """
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2)

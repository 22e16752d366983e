"""Noisy samples of a curve, for kernel regression (Nadaraya-Watson)."""

import torch
from torch import Tensor

NOISE = 0.3
LEFT, RIGHT = 0.0, 6.0


def true_curve(x: Tensor) -> Tensor:
    """Regression function sin(2x) + 0.4x, elementwise."""
    return torch.sin(2 * x) + 0.4 * x


def noisy_curves(seeds: int, points: int, first_seed: int = 0) -> tuple[Tensor, Tensor]:
    """Regression data set per seed: x and y (seeds, points), x in ascending order."""
    x, y = torch.empty(seeds, points), torch.empty(seeds, points)
    for row in range(seeds):
        generator = torch.Generator().manual_seed(first_seed + row)
        x[row] = (LEFT + (RIGHT - LEFT) * torch.rand(points, generator=generator)).sort().values
        y[row] = true_curve(x[row]) + NOISE * torch.randn(points, generator=generator)
    return x, y

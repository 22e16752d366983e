"""Nadaraya-Watson regression: attention whose scores are distances on a line."""

import torch
from torch import Tensor, nn

from utils.models.attention import attend


def kernel_regression(
    x_query: Tensor, x: Tensor, y: Tensor, bandwidth: Tensor | float, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Predict y at `x_query` as a Gaussian-weighted mean of the known points.

    x_query (..., m), x (..., n), y (..., n), bandwidth one number or (..., 1, 1), mask (..., m, n).
    Returns predictions (..., m) and weights (..., m, n).
    """
    distance = x_query.unsqueeze(-1) - x.unsqueeze(-2)
    output, weights = attend(-((distance / bandwidth) ** 2) / 2, y.unsqueeze(-1), mask)
    return output.squeeze(-1), weights


class KernelRegression(nn.Module):
    """Kernel regression with one learned bandwidth per seed; the seeds are a batch axis."""

    def __init__(self, seeds: int, first_bandwidth: float = 1.0):
        super().__init__()
        # The logarithm is learned, so that no step can make a bandwidth negative.
        self.log_bandwidth = nn.Parameter(torch.full((seeds, 1, 1), first_bandwidth).log())

    def forward(self, x_query: Tensor, x: Tensor, y: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return kernel_regression(x_query, x, y, self.log_bandwidth.exp(), mask)

"""Nadaraya-Watson kernel regression: attention whose scores are negative squared distances."""

import torch
from torch import Tensor, nn

from utils.models.attention import attend


def kernel_regression(
    x_query: Tensor, x: Tensor, y: Tensor, bandwidth: Tensor | float, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Nadaraya-Watson estimator with a Gaussian kernel: the weighted mean of the training targets y.

    x_query (..., m), x (..., n), y (..., n), bandwidth a float or (..., 1, 1), mask (..., m, n).
    Returns predictions (..., m) and attention weights (..., m, n).
    """
    distance = x_query.unsqueeze(-1) - x.unsqueeze(-2)
    output, attention_weights = attend(-((distance / bandwidth) ** 2) / 2, y.unsqueeze(-1), mask)
    return output.squeeze(-1), attention_weights


class KernelRegression(nn.Module):
    """Kernel regression with a learned bandwidth per seed; the seeds are a batch axis."""

    def __init__(self, seeds: int):
        super().__init__()
        # The logarithm is learned, so that no step can make a bandwidth negative.
        self.log_bandwidth = nn.Parameter(torch.zeros(seeds, 1, 1))

    def forward(self, x_query: Tensor, x: Tensor, y: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return kernel_regression(x_query, x, y, self.log_bandwidth.exp(), mask)

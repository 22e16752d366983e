"""Models in plain PyTorch."""

from utils.models.attention import attend, attention, softmax
from utils.models.kernel_regression import KernelRegression, kernel_regression

__all__ = ["KernelRegression", "attend", "attention", "kernel_regression", "softmax"]

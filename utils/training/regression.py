"""Kernel regression with a learned bandwidth, many seeds at once."""

import torch
from torch import Tensor

from utils.data.curves import noisy_curves
from utils.models import KernelRegression, kernel_regression
from utils.training.cache import cached
from utils.training.trainer import train

TRAINING_POINTS, TEST_POINTS, FIRST_TEST_SEED = 60, 200, 10_000


def held_out(seeds: int) -> tuple[Tensor, Tensor]:
    """Test points of each seed."""
    return noisy_curves(seeds, TEST_POINTS, FIRST_TEST_SEED)


def root_mean_square(errors: Tensor) -> Tensor:
    return errors.square().mean(-1).sqrt()


@cached
def learn_bandwidth(seeds: int, leave_one_out: bool, num_steps: int = 600) -> dict:
    """Learn a bandwidth per seed by predicting each training point, with leave-one-out from the other points only.

    Returns bandwidth and training_error (num_steps, seeds) and test_error (seeds,).
    """
    x, y = noisy_curves(seeds, TRAINING_POINTS)
    mask = ~torch.eye(TRAINING_POINTS, dtype=torch.bool) if leave_one_out else None
    model = KernelRegression(seeds)
    bandwidths, errors = [], []

    def loss_of_step(step: int) -> Tensor:  # (seeds,): each seed's gradient is its own
        prediction, _ = model(x, x, y, mask)
        bandwidths.append(model.log_bandwidth.detach().exp().flatten().clone())
        errors.append(root_mean_square(prediction.detach() - y))
        return (prediction - y).square().mean(-1)

    train(model, loss_of_step, num_steps, learning_rate=0.05, fused=False)
    with torch.no_grad():
        x_test, y_test = held_out(seeds)
        test_error = root_mean_square(model(x_test, x, y)[0] - y_test)
    return {"bandwidth": torch.stack(bandwidths), "training_error": torch.stack(errors), "test_error": test_error}


def fixed_bandwidth_error(seeds: int, bandwidth: float) -> Tensor:
    """Test error (seeds,) of kernel regression with a fixed bandwidth."""
    x, y = noisy_curves(seeds, TRAINING_POINTS)
    x_test, y_test = held_out(seeds)
    return root_mean_square(kernel_regression(x_test, x, y, bandwidth)[0] - y_test)


def mean_error(seeds: int) -> Tensor:
    """Test error (seeds,) of the baseline that always predicts the mean of the training points."""
    _, y = noisy_curves(seeds, TRAINING_POINTS)
    _, y_test = held_out(seeds)
    return root_mean_square(y.mean(-1, keepdim=True) - y_test)

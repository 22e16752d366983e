"""Learning one number, the bandwidth of a kernel regression, by gradient descent; many seeds at once."""

import torch
from torch import Tensor

from utils.data.curves import noisy_curves
from utils.models import KernelRegression, kernel_regression
from utils.training.cache import cached
from utils.training.trainer import train

TRAINING_POINTS, TEST_POINTS, TEST_SEEDS_START = 60, 200, 10_000


def held_out(seeds: int) -> tuple[Tensor, Tensor]:
    """Fresh points for each seed, drawn from seeds that training never uses."""
    return noisy_curves(seeds, TEST_POINTS, TEST_SEEDS_START)


def root_mean_square(errors: Tensor) -> Tensor:
    return errors.square().mean(-1).sqrt()


@cached
def learn_bandwidth(seeds: int, hide_self: bool, steps: int = 600, first_bandwidth: float = 1.0) -> dict:
    """Train one bandwidth per seed to predict each training point from the others, or, with `hide_self=False`,
    from all points and itself among them.

    Returns bandwidth and training error over the steps (steps, seeds) and the held-out error (seeds,).
    """
    x, y = noisy_curves(seeds, TRAINING_POINTS)
    mask = ~torch.eye(TRAINING_POINTS, dtype=torch.bool) if hide_self else None
    model = KernelRegression(seeds, first_bandwidth)
    bandwidths, errors = [], []

    def loss_of_step(step: int) -> Tensor:  # (seeds,): each seed's gradient is its own, as if it were trained alone
        prediction, _ = model(x, x, y, mask)
        bandwidths.append(model.log_bandwidth.detach().exp().flatten().clone())
        errors.append(root_mean_square(prediction.detach() - y))
        return (prediction - y).square().mean(-1)

    train(model, loss_of_step, steps, learning_rate=0.05, fused=False)
    with torch.no_grad():
        x_test, y_test = held_out(seeds)
        test_error = root_mean_square(model(x_test, x, y)[0] - y_test)
    return {
        "bandwidth": torch.stack(bandwidths),
        "training_error": torch.stack(errors),
        "test_error": test_error,
    }


def fixed_bandwidth_error(seeds: int, bandwidth: float) -> Tensor:
    """Held-out error (seeds,) of kernel regression with a bandwidth set by hand."""
    x, y = noisy_curves(seeds, TRAINING_POINTS)
    x_test, y_test = held_out(seeds)
    return root_mean_square(kernel_regression(x_test, x, y, bandwidth)[0] - y_test)


def mean_error(seeds: int) -> Tensor:
    """Held-out error (seeds,) of always answering with the mean of the training points."""
    _, y = noisy_curves(seeds, TRAINING_POINTS)
    _, y_test = held_out(seeds)
    return root_mean_square(y.mean(-1, keepdim=True) - y_test)

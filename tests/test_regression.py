"""Facts about kernel regression with a learned bandwidth."""

import torch

from tests.benchmarks.attention import attention_costs
from utils.data.curves import NOISE, noisy_curves, true_curve
from utils.data.house import cut_patches, little_house
from utils.models import kernel_regression
from utils.training.regression import fixed_bandwidth_error, learn_bandwidth, mean_error


def test_a_wide_kernel_gives_the_mean_and_a_narrow_one_the_nearest_point():
    x, y = torch.tensor([0.0, 1.0, 3.0]), torch.tensor([1.0, 2.0, 6.0])
    wide, _ = kernel_regression(torch.tensor([0.2, 2.9]), x, y, 1e4)
    narrow, _ = kernel_regression(torch.tensor([0.2, 2.9]), x, y, 1e-3)
    torch.testing.assert_close(wide, torch.full((2,), 3.0))
    torch.testing.assert_close(narrow, torch.tensor([1.0, 6.0]))


def test_seeds_in_a_batch_are_trained_as_if_alone():
    together = learn_bandwidth.__wrapped__(3, leave_one_out=True, num_steps=20)
    alone = learn_bandwidth.__wrapped__(1, leave_one_out=True, num_steps=20)
    torch.testing.assert_close(together["bandwidth"][:, :1], alone["bandwidth"])
    torch.testing.assert_close(together["test_error"][:1], alone["test_error"])


def test_without_leave_one_out_the_bandwidth_shrinks_and_the_test_error_grows():
    leaky = learn_bandwidth.__wrapped__(5, leave_one_out=False)
    left_out = learn_bandwidth.__wrapped__(5, leave_one_out=True)
    assert (leaky["bandwidth"][-1] < left_out["bandwidth"][-1]).all()
    assert leaky["training_error"][-1].mean() < NOISE < left_out["test_error"].mean()
    assert left_out["test_error"].mean() < leaky["test_error"].mean() < mean_error(5).mean()
    assert left_out["test_error"].mean() < fixed_bandwidth_error(5, 1.0).mean()


def test_training_gives_the_same_numbers_twice():
    first, second = (learn_bandwidth.__wrapped__(2, leave_one_out=True, num_steps=5) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_curves_are_the_true_curve_plus_noise_in_rising_order():
    x, y = noisy_curves(seeds=4, points=500)
    assert (x.diff(dim=-1) >= 0).all()
    assert abs((y - true_curve(x)).std() - NOISE) < 0.03
    assert not torch.equal(x[0], x[1])


def test_patches_put_back_together_are_the_picture():
    picture = little_house()
    patches = cut_patches(picture, 8)
    rows = [torch.cat(list(patches[3 * row : 3 * row + 3]), dim=1) for row in range(3)]
    assert torch.equal(torch.cat(rows), picture)


def test_attention_is_not_much_slower_than_that_of_torch():
    """A guard against a regression by a factor; `make bench` measures the exact figure."""
    rows = attention_costs(shapes=((16, 4, 32, 32),), rounds=11)
    assert all(row["fused"] < 2 for row in rows), rows

"""Facts about deep stacks with and without residual connections and norms, and about how that is measured."""

import pytest
import torch
import torch.nn.functional as F

from utils.training.depth import (
    STACKS,
    SpiralClassifier,
    count_local_minima,
    gradient_by_depth,
    random_direction,
    spirals,
    surface,
    train_identity,
)

# Gradients


def test_the_gradient_vanishes_in_a_plain_stack_explodes_without_norms_and_stays_with_both():
    results = gradient_by_depth((1, 16, 32), 2)
    assert list(results) == list(STACKS)
    gradient = {stack: result["gradient_norm"].median(1).values for stack, result in results.items()}
    assert gradient["plain"][0] > 0.01 and gradient["plain"][1] < 1e-8 and gradient["plain"][2] < 1e-16
    assert gradient["residual"][2] > 1e3
    for stack in ("residual, pre-norm", "residual, post-norm"):
        assert gradient[stack].min() > 0.1 and gradient[stack].max() < 30
    # Norms without residual connections keep a gradient, but the tokens become equal (over-smoothing).
    assert gradient["norm only"][2] > 1e-6 and results["norm only"]["token_similarity"][1:].min() > 0.99
    assert results["residual, pre-norm"]["token_similarity"][1].max() < 0.97


# The identity


def test_a_deep_plain_stack_does_not_learn_the_identity_and_a_residual_one_does():
    plain, residual = (train_identity(residual, 2) for residual in (False, True))
    eight = plain["depths"].index(8)
    assert plain["error"][0].max() < 0.4 and plain["error"][eight].min() > 0.7
    assert residual["error"].max() < 0.05


def test_the_error_is_about_1_without_training():
    error = train_identity.__wrapped__(False, 2, steps=1)["error"]
    assert error.mean().item() == pytest.approx(1, abs=0.15)


# The loss surface


def test_the_surface_holds_the_loss_of_the_model_at_its_center_and_of_moved_parameters_elsewhere():
    torch.manual_seed(0)
    model = SpiralClassifier(2, True)
    parameters = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    points, arms = spirals(30)
    grid = surface(model, parameters, points, arms, 5, 3)
    with torch.no_grad():
        assert grid[2, 2].item() == pytest.approx(F.cross_entropy(model(points)[0], arms).item(), rel=1e-5)
        generator = torch.Generator().manual_seed(3)
        first, second = (random_direction(parameters, generator) for _ in range(2))
        for name, parameter in model.named_parameters():
            parameter += 0.5 * first[name] - second[name]
        assert grid[3, 0].item() == pytest.approx(F.cross_entropy(model(points)[0], arms).item(), rel=1e-4)


def test_local_minima_are_counted():
    steps = torch.linspace(-1, 1, 41)
    a, b = torch.meshgrid(steps, steps, indexing="ij")
    assert count_local_minima(a**2 + 2 * b**2) == 1
    assert count_local_minima(torch.cos(2 * torch.pi * a) + torch.cos(2 * torch.pi * b)) == 4
    assert count_local_minima(a + b) == 0 and count_local_minima(torch.zeros(5, 5)) == 0


def test_spirals_are_balanced_and_another_seed_gives_other_points():
    points, arms = spirals(240)
    assert points.shape == (240, 2) and arms.bincount().tolist() == [80, 80, 80]
    assert torch.equal(spirals(240)[0], points) and not torch.isin(points[:, 0], spirals(240, 1)[0][:, 0]).any()

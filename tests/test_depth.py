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
    untrained_encoder,
)

# Gradients


def test_the_gradient_norm_agrees_with_finite_differences():
    stack = "residual, pre-norm"
    result = gradient_by_depth((3,), [4], [stack])[stack]
    assert all(values.shape == (1, 1) for values in result.values())
    encoder, x, output_gradient = untrained_encoder(stack, 3, 4)
    gradient = torch.autograd.functional.jacobian(lambda y: (encoder(y)[0] * output_gradient).sum(), x)
    step = 1e-5 * gradient / gradient.norm()
    with torch.no_grad():
        slope = ((encoder(x + step)[0] - encoder(x - step)[0]) * output_gradient).sum() / 2e-5
    assert result["gradient_norm"].item() == pytest.approx((slope / output_gradient.norm()).item(), rel=1e-5)


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
    plain, residual = (train_identity(residual, (1, 8), 2) for residual in (False, True))
    assert plain["error"].shape == (2, 2) and plain["loss"].shape == (2, 100, 2)
    assert plain["error"][0].max() < 0.4 and plain["error"][1].min() > 0.7
    assert residual["error"].max() < 0.05


def test_the_error_is_1_without_training_and_a_seed_trains_the_same_with_and_without_others():
    untrained = train_identity.__wrapped__(False, (6,), [3], steps=1, learning_rate=0.0)
    assert untrained["error"].item() == pytest.approx(1, abs=0.15)
    alone, together = (train_identity.__wrapped__(True, (2,), seeds, steps=5) for seeds in ([3], [1, 3]))
    assert torch.allclose(alone["loss"][0, :, 0], together["loss"][0, :, 1], atol=1e-5)


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

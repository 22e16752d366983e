"""Facts about deep stacks, with and without the sums and the norms, and about how that is measured."""

import pytest
import torch
import torch.nn.functional as F

from utils.training.depth import (
    STACKS,
    SpiralNet,
    _fresh_encoder,
    gradient_by_depth,
    gradient_by_layer,
    random_direction,
    spirals,
    surface,
    train_identity,
    valleys,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Gradients


def test_the_gradient_is_measured_as_a_share_of_what_it_is_at_the_output():
    found = gradient_by_layer("residual, pre-norm", 3, [4], dim=8, heads=2, batch=2, n=5)
    assert all(one.shape == (4, 1) for one in found.values())
    assert found["gradient"][-1].item() == pytest.approx(1)
    # The share at the input, from finite differences of the same encoder along the gradient.
    encoder, x, probe = _fresh_encoder("residual, pre-norm", 3, 4, 8, 2, 2, 5)
    whole = torch.autograd.functional.jacobian(lambda y: (encoder(y)[0] * probe).sum(), x)
    step = 1e-5 * whole / whole.norm()
    with torch.no_grad():
        rise = ((encoder(x + step)[0] - encoder(x - step)[0]) * probe).sum() / 2e-5
    assert found["gradient"][0].item() == pytest.approx((rise / probe.norm()).item(), rel=1e-5)
    assert found["size"][0].item() == pytest.approx(x.square().mean().sqrt().item())


def test_the_gradient_dies_in_a_plain_stack_explodes_with_sums_alone_and_stays_with_both():
    found = gradient_by_depth((1, 16, 32), 2, batch=2, n=6)
    assert list(found) == list(STACKS)
    gradient = {kind: one["gradient"].median(1).values for kind, one in found.items()}
    assert gradient["plain"][0] > 0.01 and gradient["plain"][1] < 1e-8 and gradient["plain"][2] < 1e-16
    assert gradient["residual"][2] > 1e3
    for kind in ("residual, pre-norm", "residual, post-norm"):
        assert gradient[kind].min() > 0.1 and gradient[kind].max() < 30
    # Norms without sums keep a gradient, but all tokens become one.
    assert gradient["norm only"][2] > 1e-6 and found["norm only"]["alike"][1:].min() > 0.99
    assert found["residual, pre-norm"]["alike"][1].max() < 0.97


# The identity


def test_a_deep_plain_stack_does_not_learn_the_identity_and_a_residual_one_does():
    plain, residual = (train_identity(kind, (1, 8), 2) for kind in (False, True))
    assert plain["error"].shape == (2, 2) and plain["loss"].shape == (2, 100, 2)
    assert plain["error"][0].max() < 0.4 and plain["error"][1].min() > 0.7
    assert residual["error"].max() < 0.05


def test_the_error_is_1_for_whoever_says_nothing_and_a_seed_learns_the_same_in_any_company():
    untrained = train_identity.__wrapped__(False, (6,), [3], steps=1, rate=0.0)
    assert untrained["error"].item() == pytest.approx(1, abs=0.15)
    one, two = (train_identity.__wrapped__(True, (2,), seeds, steps=5) for seeds in ([3], [1, 3]))
    assert torch.allclose(one["loss"][0, :, 0], two["loss"][0, :, 1], atol=1e-5)


# The surface


def test_the_middle_of_the_surface_is_the_loss_and_every_other_point_that_of_the_moved_net():
    torch.manual_seed(0)
    net = SpiralNet(2, 6, True)
    parameters = {name: one.detach().clone() for name, one in net.named_parameters()}
    points, arms = spirals(30)
    grid = surface(net, parameters, points, arms, span=0.5, points=5, seed=3)
    with torch.no_grad():
        assert grid[2, 2].item() == pytest.approx(F.cross_entropy(net(points)[0], arms).item(), rel=1e-5)
        own = generator(3)
        one, other = random_direction(parameters, own), random_direction(parameters, own)
        for name, parameter in net.named_parameters():
            parameter += 0.25 * one[name] - 0.5 * other[name]
        assert grid[3, 0].item() == pytest.approx(F.cross_entropy(net(points)[0], arms).item(), rel=1e-4)


def test_valleys_are_counted():
    along = torch.linspace(-1, 1, 41)
    a, b = torch.meshgrid(along, along, indexing="ij")
    assert valleys(a**2 + 2 * b**2) == 1
    assert valleys(torch.cos(2 * torch.pi * a) + torch.cos(2 * torch.pi * b)) == 4
    assert valleys(a + b) == 0 and valleys(torch.zeros(5, 5)) == 0


def test_spirals_are_balanced_and_the_test_points_are_others():
    points, arms = spirals(240)
    assert points.shape == (240, 2) and arms.bincount().tolist() == [80, 80, 80]
    assert torch.equal(spirals(240)[0], points) and not torch.isin(points[:, 0], spirals(240, 1)[0][:, 0]).any()

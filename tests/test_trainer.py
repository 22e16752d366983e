"""The training loop does what torch's optimizers do, and the schedules are those of the papers."""

import math

import pytest
import torch
from torch import nn

from utils.training.trainer import (
    constant,
    linear_warmup,
    linear_warmup_cosine,
    linear_warmup_linear_decay,
    noam_rate,
    train,
    training_steps,
    warmup_stable_decay,
)

X, Y = torch.randn(2, 30, 4, generator=torch.Generator().manual_seed(0)).split([1, 1])


def linear() -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Linear(4, 4)


def error(model):
    return lambda step: (model(X[0]) - Y[0]).square().mean()


# Schedules


@pytest.mark.parametrize(
    "schedule",
    [
        constant,
        linear_warmup(10),
        linear_warmup_linear_decay(200, 10),
        warmup_stable_decay(200, 10),
        linear_warmup_cosine(200),
    ],
)
def test_a_multiplier_rises_to_one_and_never_rises_again(schedule):
    multipliers = [schedule(step) for step in range(200)]
    peak = multipliers.index(max(multipliers))
    assert max(multipliers) == pytest.approx(1.0) and multipliers[0] > 0 and peak < 20
    assert all(a < b for a, b in zip(multipliers[:peak], multipliers[1:peak], strict=False))
    assert all(a >= b for a, b in zip(multipliers[peak:], multipliers[peak + 1 :], strict=False))


@pytest.mark.parametrize(
    ("schedule", "last"),
    [(linear_warmup_linear_decay(200, 10), 0.01), (warmup_stable_decay(200), 0.011), (linear_warmup_cosine(200), 1e-3)],
)
def test_decay_ends_near_zero(schedule, last):
    assert 0 < schedule(199) < last


def test_the_noam_schedule_rises_in_a_line_and_falls_with_the_inverse_square_root():
    rates = [noam_rate(step, 64, 10) for step in range(1, 41)]
    assert max(rates) == rates[9] == pytest.approx(1 / math.sqrt(64 * 10))
    assert rates[4] == pytest.approx(rates[9] / 2) and rates[39] == pytest.approx(rates[9] / 2)
    assert noam_rate(7, 256, 10) == pytest.approx(rates[6] / 2)


# The loop


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW])
def test_training_equals_the_loop_written_out_with_torch(optimizer):
    weight_decay = 0.0 if optimizer is torch.optim.Adam else 0.1
    model, reference = linear(), linear()
    schedule = linear_warmup_cosine(20)
    options = {"learning_rate": 0.02, "schedule": schedule, "weight_decay": weight_decay, "max_norm": 0.1}
    losses = train(model, error(model), 20, **options)
    torch_optimizer = optimizer(reference.parameters(), weight_decay=weight_decay, fused=True)
    expected = []
    for step in range(20):
        loss = error(reference)(step)
        torch_optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
        torch_optimizer.param_groups[0]["lr"] = 0.02 * schedule(step)
        torch_optimizer.step()
        expected.append(loss.detach())
    assert torch.equal(losses, torch.stack(expected)) and losses[-1] < losses[0]
    assert torch.equal(model.weight, reference.weight)


def test_models_trained_at_once_do_not_influence_each_other():
    start = linear().weight.detach()
    pair = torch.stack([start, 2 * start]).requires_grad_()
    alone = (2 * start).requires_grad_()
    losses = train([pair], lambda step: (X @ pair - Y).square().mean((1, 2)), 5, learning_rate=0.1)
    expected = train([alone], lambda step: (X[0] @ alone - Y[0]).square().mean(), 5, learning_rate=0.1)
    torch.testing.assert_close(losses[:, 1], expected)
    torch.testing.assert_close(pair[1], alone)


def test_frozen_parameters_stay_and_groups_have_learning_rates_of_their_own():
    model = linear()
    model.bias.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train(model, error(model), 3, learning_rate=0.1)
    assert torch.equal(model.bias, before["bias"]) and not torch.equal(model.weight, before["weight"])
    model = linear()
    groups = [{"params": [model.weight], "lr": 0.0}, {"params": [model.bias], "lr": 0.1}]
    train(model, error(model), 3, schedule=warmup_stable_decay(3), parameter_groups=groups)
    assert torch.equal(model.weight, before["weight"]) and not torch.equal(model.bias, before["bias"])


def test_dropout_is_on_while_training_and_off_afterwards():
    model = linear().eval()
    modes = []
    for _ in training_steps(model, error(model), 2, learning_rate=0.1):
        modes.append(model.training)
    assert modes == [True, True] and not model.training

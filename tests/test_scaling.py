"""Facts about power laws and their errors, and about the family of models that they are fitted to."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from utils.data.bpe import CLS_ID
from utils.models.self_attention import causal_mask
from utils.training.scaling import (
    FAMILY,
    LARGER,
    Size,
    frontier,
    power_law_fit,
    rates_for,
    scaling_run,
    the_text,
    train_on,
)

X = torch.tensor([size.parameters for size in FAMILY], dtype=torch.float64)
SMALL = {"pieces": 300, "texts": 150}
TINY = (Size(1, 8), Size(1, 16))


def points(floor, amount, exponent, scatter=0.0, seed=0, x=X):
    noise = torch.randn(len(x), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (floor + amount * x**-exponent) * (scatter * noise).exp()


# Power laws


@pytest.mark.parametrize("exponent", [-0.5, 0.08])
def test_a_law_without_floor_is_found_exactly(exponent):
    law = power_law_fit(X, points(0, 7.0, exponent))
    assert law.floor == 0
    assert (law.amount, law.exponent) == (pytest.approx(7, rel=1e-9), pytest.approx(exponent, rel=1e-9))
    assert law.scatter < 1e-12


@pytest.mark.parametrize("floor, amount, exponent", [(3.0, 60, 0.4), (0.0, 9, 0.3)])
def test_a_law_with_a_floor_is_found(floor, amount, exponent):
    law = power_law_fit(X, points(floor, amount, exponent), floor=True)
    assert law.exponent == pytest.approx(exponent, rel=0.01)
    assert law.floor == pytest.approx(floor, abs=0.05)
    assert law.at(X) == pytest.approx(points(floor, amount, exponent), rel=1e-3)


@pytest.mark.parametrize("floor, law", [(False, (0.0, 8.0, 0.08)), (True, (3.4, 60.0, 0.4))])
def test_intervals_hold_what_they_promise(floor, law):
    """Of 200 experiments with a known truth, about 95 % must have it inside, and about half at the level of one half."""
    tries, beyond = 200, 8e5
    inside = dict.fromkeys(("exponent", "half", "curve", "new"), 0)
    for seed in range(tries):
        *y, new = points(*law, 0.01, seed, torch.cat([X, torch.tensor([beyond], dtype=torch.float64)])).tolist()
        fit = power_law_fit(X, y, floor, draws=300, seed=seed)
        for name, level in (("exponent", 0.95), ("half", 0.5)):
            low, high = fit.interval(level=level)
            inside[name] += low <= law[2] <= high
        low, high = fit.band(beyond)
        inside["curve"] += bool(low <= law[0] + law[1] * beyond ** -law[2] <= high)
        foretold = fit.predict(beyond)
        inside["new"] += foretold.low <= new <= foretold.high
    assert 0.4 < inside.pop("half") / tries < 0.6
    for name, count in inside.items():
        assert 0.91 <= count / tries <= 0.985, name


# The family


@pytest.mark.parametrize("size", [FAMILY[0], LARGER])
def test_the_formula_counts_the_parameters_of_the_blocks(size):
    model = size.build(300)
    assert size.parameters == sum(one.numel() for one in model.encoder.parameters())


def test_computing_is_counted_as_a_profiler_counts_it():
    size, pieces, length = Size(2, 32), 300, 64
    numbers = torch.randint(pieces, (3, length + 1))
    model = size.build(pieces)
    with FlopCounterMode(display=False) as counter:
        # By hand: the profiler does not look into a fused kernel.
        words, mask = model.words(numbers[:, :-1]), causal_mask(length)
        model.scores(model.encoder(words, mask, need_weights=True)[0]).sum().backward()
    assert size.computing(3 * length, pieces, length) == pytest.approx(counter.get_total_flops(), rel=0.05)


def test_matrices_have_the_rate_of_their_width_and_all_else_one_rate():
    (narrow, table), (wide, same) = rates_for(16), rates_for(64)
    assert narrow == pytest.approx(4 * wide) and table == same
    moved = {}
    for rates in ((0.01, 0.0), (0.0, 0.01)):
        torch.manual_seed(0)
        model = Size(1, 8).build(300)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        train_on(model, the_text(**SMALL).train, 2, rates, 0)
        moved[rates] = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    matrices, rest = moved.values()
    assert not matrices & rest and len(matrices | rest) == len(before)
    assert matrices == {name for name, value in before.items() if value.dim() == 2 and "table" not in name}


# Text


def test_documents_are_shuffled_whole():
    whole, other = the_text(**SMALL).train, the_text(seed=3, **SMALL).train

    def documents(stream):
        return [tuple(part.tolist()) for part in stream.tensor_split((stream == CLS_ID).nonzero().flatten())[1:]]

    assert documents(whole) != documents(other)
    assert sorted(documents(whole)) == sorted(documents(other))


def test_what_is_used_for_choosing_is_not_what_is_told():
    text = the_text(**SMALL)
    choosing, told = ({tuple(row.tolist()) for row in part[:, 1:]} for part in (text.choosing, text.told))
    assert choosing and told and not choosing & told


# Runs


@pytest.fixture(scope="module")
def run():
    return scaling_run(TINY[1], 1, read=30_000, **SMALL)


def test_a_run_learns_and_says_what_it_took(run):
    text = the_text(300, 1, 150)
    counts = text.train.bincount(minlength=300).float() + 0.1
    unigram = -(counts / counts.sum()).log()[text.told[:, 1:]].mean().item()
    assert run["held_out"] < unigram - 0.05
    assert run["parameters"] == TINY[1].parameters
    assert run["read"] == pytest.approx(30_000, rel=0.02)
    assert run["computing"] == TINY[1].computing(run["read"], 300)
    assert run["text"] == len(text.train)


# Sweeps


def test_all_points_of_a_curved_law_are_touched_and_worse_ones_are_not():
    law = [{"x": x, "loss": torch.tensor([3 + 60 * x**-0.4])} for x in (1e3, 1e4, 1e5, 1e6)]
    worse = [{"x": one["x"] * 1.5, "loss": one["loss"]} for one in law] + [{"x": 1e4, "loss": torch.tensor([9.0])}]
    assert frontier([*worse, *law]) == law

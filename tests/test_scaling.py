"""Facts about power laws and their errors, and about the family of models that they are fitted to."""

import functools
import json
import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.benchmarks import scaling as benchmark
from utils.data.subwords import START
from utils.models.self_attention import causal_mask
from utils.training import scaling
from utils.training.scaling import (
    FAMILY,
    LARGER,
    READS,
    TEXTS,
    Size,
    computing_sweep,
    data_sweep,
    frontier,
    held_out_loss,
    next_piece_loss,
    parameter_sweep,
    power_law_fit,
    rates_for,
    scaling_run,
    short_sweep,
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


@pytest.mark.parametrize("exponent", [-0.5, 0.08, 1.0, 2.5])
def test_a_law_without_floor_is_found_exactly(exponent):
    law = power_law_fit(X, points(0, 7.0, exponent))
    assert law.floor == 0
    assert (law.amount, law.exponent) == (pytest.approx(7, rel=1e-9), pytest.approx(exponent, rel=1e-9))
    assert law.scatter < 1e-12


@pytest.mark.parametrize("floor, amount, exponent", [(3.0, 60, 0.4), (0.5, 20, 0.1), (2.0, 3e5, 1.5), (0.0, 9, 0.3)])
def test_a_law_with_a_floor_is_found(floor, amount, exponent):
    law = power_law_fit(X, points(floor, amount, exponent), floor=True)
    assert law.exponent == pytest.approx(exponent, rel=0.01)
    assert law.floor == pytest.approx(floor, abs=0.05)
    assert law.at(X) == pytest.approx(points(floor, amount, exponent), rel=1e-3)


def test_with_a_floor_the_best_of_all_laws_is_found():
    y = points(3.0, 60, 0.4, 0.01)
    law = power_law_fit(X, y, floor=True)

    def left(floor, amount, exponent):
        return ((floor + amount * X**-exponent) / y - 1).square().sum().item()

    found = left(law.floor, law.amount, law.exponent)
    for exponent in (0.99 * law.exponent, 1.01 * law.exponent, 0.2, 0.8):
        columns = torch.stack([1 / y, X**-exponent / y], 1)
        best = torch.linalg.lstsq(columns, torch.ones(len(y), 1, dtype=torch.float64)).solution.flatten().tolist()
        assert found < left(*best, exponent)


def test_a_floor_is_never_negative():
    law = power_law_fit(X, 10 - X.log() * 0.7, floor=True)  # falls faster than any power
    assert law.floor == 0 and (law.draws[:, 0] >= 0).all()


def test_the_unit_of_x_changes_nothing_but_the_amount():
    y = points(3.0, 60, 0.4, 0.01)
    one, other = (power_law_fit(unit * X, y, floor=True) for unit in (1, 1e12))
    assert other.exponent == pytest.approx(one.exponent)
    assert other.interval() == pytest.approx(one.interval())
    assert other.predict(8e17) == pytest.approx(one.predict(8e5))


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


def test_more_scatter_makes_wider_intervals_and_a_new_point_is_less_sure_than_the_curve():
    widths = []
    for scatter in (0.002, 0.02):
        law = power_law_fit(X, points(0, 8, 0.08, scatter))
        low, high = law.interval()
        widths.append(high - low)
    assert widths[1] > 5 * widths[0]
    foretold, (low, high) = law.predict(8e5), law.band(8e5)
    assert foretold.low < low < foretold.value < high < foretold.high


def test_what_cannot_be_fitted_is_said():
    with pytest.raises(ValueError, match="more than 3 different x"):
        power_law_fit([1, 2, 3, 3], [3, 2, 1, 1], floor=True)
    with pytest.raises(ValueError, match="above 0"):
        power_law_fit([1, 2, 3, 4], [3, 2, 1, 0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        power_law_fit(X, points(0, 8, 0.08)).interval(level=95)


# The family


@pytest.mark.parametrize("size", [*FAMILY, LARGER])
def test_the_formula_counts_the_parameters_of_the_blocks(size):
    model = size.build(300)
    assert size.parameters == sum(one.numel() for one in model.encoder.parameters())


def test_the_family_spans_two_orders_of_magnitude_and_so_does_the_text():
    assert len(FAMILY) >= 6
    assert FAMILY[-1].parameters >= 100 * FAMILY[0].parameters
    assert TEXTS[-1] >= 100 * TEXTS[0]
    assert LARGER.parameters > 2 * FAMILY[-1].parameters
    assert TEXTS[-1] <= len(the_text().train)
    assert READS[-1] >= 10 * READS[0]


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
        return [tuple(part.tolist()) for part in stream.tensor_split((stream == START).nonzero().flatten())[1:]]

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


def test_a_run_is_a_function_of_its_seed(run):
    again = scaling_run.__wrapped__(TINY[1], 1, read=30_000, **SMALL)
    other = scaling_run(TINY[1], 2, read=30_000, **SMALL)
    assert again["held_out"] == run["held_out"] != other["held_out"]


def test_a_run_on_a_part_of_the_text_sees_no_more_than_that(monkeypatch):
    seen = []
    monkeypatch.setattr(
        scaling, "train_on", lambda model, text, *rest: seen.append(text) or train_on(model, text, *rest)
    )
    scaling_run.__wrapped__(TINY[0], 0, read=600, text=900, **SMALL)
    assert torch.equal(seen[0], the_text(300, 0, 150).train[:900])
    with pytest.raises(ValueError, match="pieces of text"):
        scaling_run.__wrapped__(TINY[0], 0, read=600, text=10**7, **SMALL)


def test_the_held_out_loss_does_not_depend_on_how_many_are_scored_at_once():
    model, told = TINY[0].build(300).eval(), the_text(**SMALL).told[:21]
    assert held_out_loss(model, told, 8) == pytest.approx(next_piece_loss(model, told).item(), rel=1e-5)


# Sweeps, with a stand-in for the training whose losses are known


def pretend(size, seed=0, *, read=scaling.READ, text=None, factor=1.0):
    passes = read / text if text else 1
    loss = 3 + 60 * size.parameters**-0.4 + 30 * (text or read) ** -0.4 + 0.1 * math.log(passes / 8) ** 2 + 0.001 * seed
    return {"held_out": loss, "choosing": loss, "train": loss - 0.2, "computing": size.computing(read)}


def test_a_sweep_over_sizes_has_a_row_for_each_and_a_column_for_each_seed():
    sweep = parameter_sweep(FAMILY, 3, 10**5, pretend)
    assert sweep["loss"].shape == (len(FAMILY), 3)
    assert sweep["x"] == [size.parameters for size in FAMILY]
    assert power_law_fit(sweep["x"], sweep["loss"].mean(1), True).exponent == pytest.approx(0.4, abs=0.01)


def test_little_text_is_read_as_often_as_helps_and_no_more_than_there_is_time_for():
    sweep = data_sweep(FAMILY[0], (1000, 10_000, 100_000), 2, 200_000, pretend)
    assert sweep["passes"] == [8, 8, 4]
    assert sweep["loss"].shape == sweep["gap"].shape == (3, 2)
    assert sweep["gap"] == pytest.approx(torch.full((3, 2), 0.2, dtype=torch.float64))


def pretend_computing(*where, read):
    return pretend(*where, read=read, text=read // 8)


def test_along_the_best_of_both_nothing_is_below_the_string():
    points = computing_sweep(FAMILY, (10**4, 10**5, 10**6), 2, math.inf, pretend_computing)
    assert len(points) == 3 * len(FAMILY)
    best = frontier(points)
    assert 3 <= len(best) < len(points) and best[0]["size"] == str(FAMILY[0])
    where = [(math.log(one["x"]), one["loss"].mean().log().item()) for one in best]
    slopes = [(d - b) / (c - a) for (a, b), (c, d) in zip(where, where[1:], strict=False)]
    assert slopes == sorted(slopes) and slopes[-1] < 0
    for one in points:
        x, y = math.log(one["x"]), one["loss"].mean().log().item()
        assert all(y > b + slope * (x - a) - 1e-9 for (a, b), slope in zip(where, slopes, strict=False))
    assert min(one["loss"].mean() for one in points) == best[-1]["loss"].mean()


def test_all_points_of_a_curved_law_are_touched_and_worse_ones_are_not():
    law = [{"x": x, "loss": torch.tensor([3 + 60 * x**-0.4])} for x in (1e3, 1e4, 1e5, 1e6)]
    worse = [{"x": one["x"] * 1.5, "loss": one["loss"]} for one in law] + [{"x": 1e4, "loss": torch.tensor([9.0])}]
    assert frontier([*worse, *law]) == law


def test_what_takes_too_much_computing_is_left_out():
    most = FAMILY[2].computing(10**5)
    points = computing_sweep(FAMILY, (10**4, 10**5), 1, most, pretend_computing)
    assert {one["x"] <= most for one in points} == {True}
    assert [one["size"] for one in points if one["read"] == 10**5] == [str(size) for size in FAMILY[:3]]


def test_the_short_sweep_leaves_the_larger_model_out_of_the_sweep():
    sweep = short_sweep(TINY, Size(1, 24), 2, 1000, texts=150)
    assert sweep["loss"].shape == (2, 2) and sweep["larger"].shape == (2,)
    assert sweep["larger_x"] not in sweep["x"]


# The stored table


def test_the_table_is_plain_data_and_the_larger_model_is_foretold_before_it_is_trained(monkeypatch):
    for name in ("parameter_sweep", "data_sweep", "computing_sweep", "rate_check"):
        monkeypatch.setattr(benchmark, name, functools.partial(getattr(benchmark, name), run=pretend))

    def table(larger_is_worse_by):
        def run(size, seed=0, *, read=scaling.READ):
            found = pretend(size, seed, read=read)
            return {**found, "held_out": found["held_out"] + larger_is_worse_by * (size == LARGER)}

        monkeypatch.setattr(benchmark, "scaling_run", run)
        return json.loads(json.dumps(benchmark.scaling_table()))

    one, other = table(0.0), table(0.5)
    assert one["larger"]["foretold"] == other["larger"]["foretold"]
    assert one["larger"]["reached"]["median"] == pytest.approx(other["larger"]["reached"]["median"] - 0.5, abs=1e-3)
    low, high = one["larger"]["foretold"]["with floor"][1:]
    assert low <= one["larger"]["reached"]["median"] <= high < other["larger"]["reached"]["least"]

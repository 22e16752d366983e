"""Power laws and their uncertainty, the family of models that they are fitted to, and the stored sweeps."""

from statistics import fmean

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.benchmarks.scaling import frontier
from utils.build.results import stored
from utils.data.bpe import CLS_ID
from utils.models.attention import causal_mask
from utils.plots import lesson09 as pictures
from utils.training import scaling
from utils.training.scaling import (
    FAMILY,
    LARGER,
    LAWS,
    LENGTH,
    VOCAB_SIZE,
    build,
    fitted_sweeps,
    learning_rates,
    num_parameters,
    parameter_groups,
    power_law_fit,
    scaling_run,
    scaling_text,
    training_compute,
)

X = torch.tensor([num_parameters(dim) for dim in FAMILY], dtype=torch.float64)


def points(irreducible, coefficient, exponent, scatter=0.0, seed=0, x=X):
    noise = torch.randn(len(x), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (irreducible + coefficient * x**-exponent) * (scatter * noise).exp()


# Power laws


@pytest.mark.parametrize("exponent", [-0.5, 0.08])
def test_a_law_without_irreducible_loss_is_recovered_exactly(exponent):
    law = power_law_fit(X, points(0, 7.0, exponent))
    assert law.irreducible_loss == 0
    assert (law.coefficient, law.exponent) == (pytest.approx(7, rel=1e-9), pytest.approx(exponent, rel=1e-9))
    assert law.scatter < 1e-12


@pytest.mark.parametrize("irreducible, coefficient, exponent", [(3.0, 60, 0.4), (0.0, 9, 0.3)])
def test_a_law_with_irreducible_loss_is_recovered(irreducible, coefficient, exponent):
    law = power_law_fit(X, points(irreducible, coefficient, exponent), irreducible=True)
    assert law.exponent == pytest.approx(exponent, rel=0.01)
    assert law.irreducible_loss == pytest.approx(irreducible, abs=0.05)
    assert law.at(X) == pytest.approx(points(irreducible, coefficient, exponent), rel=1e-3)


@pytest.mark.parametrize("irreducible, law", [(False, (0.0, 8.0, 0.08)), (True, (3.4, 60.0, 0.4))])
def test_intervals_have_their_nominal_coverage(irreducible, law, monkeypatch):
    """Of 200 experiments with a known truth, about 95 % must contain it."""
    monkeypatch.setattr(scaling, "NUM_DRAWS", 300)
    tries, beyond = 200, 8e5
    covered = dict.fromkeys(("exponent", "curve", "new"), 0)
    for seed in range(tries):
        *y, new = points(*law, 0.01, seed, torch.cat([X, torch.tensor([beyond], dtype=torch.float64)])).tolist()
        fit = power_law_fit(X, y, irreducible)
        low, high = fit.interval()
        covered["exponent"] += low <= law[2] <= high
        low, high = fit.band(beyond)
        covered["curve"] += bool(low <= law[0] + law[1] * beyond ** -law[2] <= high)
        prediction = fit.predict(beyond)
        covered["new"] += prediction.low <= new <= prediction.high
    for name, count in covered.items():
        assert 0.91 <= count / tries <= 0.985, name


# The family


@pytest.mark.parametrize("dim", [FAMILY[0], LARGER])
def test_the_formula_counts_the_parameters_of_the_layers(dim):
    assert num_parameters(dim) == sum(parameter.numel() for parameter in build(dim).encoder.parameters())


def test_compute_is_counted_as_a_profiler_counts_it():
    token_ids, model = torch.randint(VOCAB_SIZE, (3, LENGTH)), build(32)
    with FlopCounterMode(display=False) as counter:
        # With attention weights: the profiler does not count inside the fused kernel.
        hidden_states, _ = model.encoder(model.embedding(token_ids), causal_mask(LENGTH), need_weights=True)
        model.lm_head(hidden_states).sum().backward()
    assert training_compute(32, 3 * LENGTH) == pytest.approx(counter.get_total_flops(), rel=0.05)


def test_matrices_have_the_learning_rate_of_their_width_and_all_else_one_learning_rate():
    (at_16, embedding), (at_64, same) = learning_rates(16), learning_rates(64)
    assert at_16 == pytest.approx(4 * at_64) and embedding == same
    model = build(8)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    matrices, rest = ({names[id(p)] for p in group["params"]} for group in parameter_groups(model, (at_16, same)))
    assert not matrices & rest and matrices | rest == set(names.values())
    assert matrices == {name for name, p in model.named_parameters() if p.dim() == 2 and "embedding" not in name}


# Text


def test_documents_are_shuffled_whole():
    def documents(token_ids):
        return [tuple(part.tolist()) for part in token_ids.tensor_split((token_ids == CLS_ID).nonzero().flatten())[1:]]

    original, shuffled = (documents(scaling_text(seed).train) for seed in (None, 3))
    assert original != shuffled
    assert sorted(original) == sorted(shuffled)


def test_validation_and_test_set_are_disjoint():
    text = scaling_text()
    validation, test = ({tuple(row.tolist()) for row in part[:, 1:]} for part in (text.validation, text.test))
    assert validation and test and not validation & test


# Runs


def test_a_run_beats_the_unigram_model():
    run, text = scaling_run(16, 1, num_tokens=60_000), scaling_text(1)
    counts = text.train.bincount(minlength=VOCAB_SIZE).float() + 0.1
    unigram = -(counts / counts.sum()).log()[text.test[:, 1:]].mean().item()
    assert run["test"] < unigram - 0.05 and run["num_tokens"] == pytest.approx(60_000, rel=0.02)


def test_the_frontier_contains_all_points_of_a_convex_law_and_no_worse_ones():
    law = [{"x": x, "loss": torch.tensor([3 + 60 * x**-0.4])} for x in (1e3, 1e4, 1e5, 1e6)]
    worse = [{"x": point["x"] * 1.5, "loss": point["loss"]} for point in law]
    assert frontier([*worse, {"x": 1e4, "loss": torch.tensor([9.0])}, *law]) == law


# Stored sweeps


@pytest.fixture(scope="module")
def result():
    return stored("scaling").result


@pytest.fixture(scope="module")
def sweeps(result):
    return fitted_sweeps(result)


def test_the_curve_lies_in_its_band_and_all_the_text_there_is_was_used(sweeps, result):
    for sweep in sweeps.values():
        for kind in LAWS:
            law = sweep[kind]["law"]
            assert (law["low"] <= law["curve"] + 1e-6).all() and (law["curve"] <= law["high"] + 1e-6).all()
            assert (law["irreducible_loss"] is not None) == LAWS[kind]
    assert sweeps["parameters"]["without"]["held_out"]["measured"] == result["larger"]["loss"]
    assert "held_out" not in sweeps["text"]["without"]


def test_of_two_runs_with_much_compute_the_better_one_is_compared(sweeps, result):
    held_out = sweeps["compute"]["with irreducible loss"]["held_out"]
    assert fmean(held_out["measured"]) == min(fmean(result["larger"]["loss"]), fmean(result["longer"]["loss"]))
    assert held_out["x"] in result["longer"]["x"]


def test_the_figures_take_the_sweeps(sweeps):
    for name in sweeps:
        for irreducible in (False, True):
            assert f"{len(sweeps[name]['x'])} points" in pictures.scaling_words(sweeps, name, irreducible)

"""Comparing modifications of the causal language model at the same number of parameters."""

import pytest

from utils.models.language_models import parameter_count
from utils.training import modifications
from utils.training.modifications import BASE, CHANGES, changed_model, compare, matched_hidden_dim, modification_run


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_all_rows_have_the_parameters_of_the_base(change):
    base = parameter_count(changed_model({}, matched_hidden_dim({})))
    assert parameter_count(changed_model(change, matched_hidden_dim(change))) == pytest.approx(base, rel=0.005)


def simulated_run(change, seed=0, *, factor, num_tokens):
    """Post-norm needs a low learning rate and is then as good as the base; rotary is better by 0.05 up to noise."""
    best = 0.5 if "norm_first" in change else 2.0
    loss = 4 - 0.05 * ("positions" in change) + 0.1 * abs(factor - best) + 0.3 * seed
    noise = 0.01 * seed * ("positions" in change)
    return {"validation": loss, "test": loss + noise, "parameters": 1}


def test_each_change_gets_its_best_learning_rate_and_is_compared_seed_by_seed(monkeypatch):
    monkeypatch.setattr(modifications, "modification_run", simulated_run)
    changes = {name: CHANGES[name] for name in (BASE, "post-norm", "rotary positions")}
    base, post, rotary = compare(changes, 3, (0.5, 1.0, 2.0))
    assert (base["factor"], post["factor"], rotary["factor"]) == (2.0, 0.5, 2.0)
    assert base["improvement"].tolist() == [0, 0, 0] and base["standard_error"] == 0
    assert post["improvement"].abs().max() < 1e-9
    assert rotary["improvement"].tolist() == pytest.approx([0.05, 0.04, 0.03])
    assert rotary["standard_error"] == pytest.approx(0.01 / 3**0.5)


def test_a_run_lowers_the_loss():
    untrained, run = (modification_run(CHANGES["SwiGLU"], 1, num_tokens=count) for count in (1, 16_000))
    assert run["test"] < untrained["test"] - 0.1


def test_a_change_exceeds_seed_noise_if_its_mean_exceeds_the_range_of_the_bases_seeds():
    improvements = {BASE: 0.0, "better": 0.05, "noise": 0.029, "worse": -0.2}
    rows = [{"change": name, "improvement": value, "seeds": [4.0, 4.03, 4.01]} for name, value in improvements.items()]
    result = {"base": BASE, "rows": rows}
    assert modifications.seed_range(result) == pytest.approx(0.03)
    assert modifications.beyond_seed_noise(result) == ["worse", "better"]

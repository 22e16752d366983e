"""Comparing modifications of the causal language model at the same number of parameters."""

import pytest

from utils.models.variants import Variant, parameter_count
from utils.training.modifications import (
    BASE,
    CHANGES,
    build,
    compare,
    matched_hidden,
    modification_run,
)

SMALL = {"pieces": 300, "texts": 150}

VARIANTS = pytest.mark.parametrize("variant", CHANGES.values(), ids=CHANGES)


@VARIANTS
def test_all_rows_have_the_parameters_of_the_base(variant):
    base = parameter_count(build(Variant(), matched_hidden(Variant())))
    assert parameter_count(build(variant, matched_hidden(variant))) == pytest.approx(base, rel=0.005)


def pretend(variant, seed=0, *, factor):
    """Post-norm needs a low rate and is then as good as the base; rotary is better by 0.05 up to chance."""
    best = 0.5 if variant.order == "post" else 2.0
    loss = 4 - 0.05 * (variant.positions == "rotary") + 0.1 * abs(factor - best) + 0.3 * seed
    chance = 0.01 * seed * (variant.positions == "rotary")
    return {"choosing": loss, "held_out": loss + chance, "parameters": 1, "hidden": 2, "seconds": 1.0}


def test_each_change_gets_the_rate_that_suits_it_and_is_compared_seed_by_seed():
    changes = {name: CHANGES[name] for name in (BASE, "post-norm", "rotary positions")}
    base, post, rotary = compare(changes, 3, (0.5, 1.0, 2.0), pretend)
    assert (base["factor"], post["factor"], rotary["factor"]) == (2.0, 0.5, 2.0)
    assert base["better"].tolist() == [0, 0, 0] and base["noise"] == 0
    assert post["better"].abs().max() < 1e-9
    assert rotary["better"].tolist() == pytest.approx([0.05, 0.04, 0.03])
    assert rotary["noise"] == pytest.approx(0.01 / 3**0.5)


def test_a_run_learns():
    start, run = (modification_run(CHANGES["gated (SwiGLU)"], 1, read=read, **SMALL) for read in (1, 16_000))
    assert run["held_out"] < start["held_out"] - 0.1

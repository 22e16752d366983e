"""Facts about the variants of the causal model, and about comparing them fairly."""

import pytest
import torch

from utils.models.language import CausalLM
from utils.models.variants import Variant, VariantLM, parameter_count
from utils.training.modifications import (
    BASE,
    CHANGES,
    build,
    compare,
    matched_hidden,
    modification_run,
)

SMALL = {"pieces": 300, "texts": 150}
PIECES, DIM, HEADS, HIDDEN, LAYERS = 31, 24, 3, 40, 2


def small(variant, seed=0):
    torch.manual_seed(seed)
    return VariantLM(PIECES, DIM, HEADS, HIDDEN, LAYERS, variant, longest=9).eval()


def numbers(b=2, n=7):
    return torch.randint(PIECES, (b, n), generator=torch.Generator().manual_seed(0))


VARIANTS = pytest.mark.parametrize("variant", CHANGES.values(), ids=CHANGES)


# The model


def test_the_base_is_the_causal_model_of_lesson_07():
    ours, theirs = small(Variant()), CausalLM(PIECES, DIM, HEADS, HIDDEN, LAYERS)
    state = {
        name.removeprefix("encoder.").replace("words.table", "table"): value
        for name, value in theirs.state_dict().items()
    }
    ours.load_state_dict(state)
    with torch.no_grad():
        assert ours(numbers()) == pytest.approx(theirs(numbers()), abs=1e-5)


@VARIANTS
def test_no_variant_sees_the_future(variant):
    model, x = small(variant), numbers()
    changed = x.clone()
    changed[:, 4:] = (x[:, 4:] + 1) % PIECES
    with torch.no_grad():
        before, after = model(x), model(changed)
    assert before[:, :4] == pytest.approx(after[:, :4], abs=1e-5)
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-3)


@VARIANTS
def test_every_parameter_gets_a_gradient_and_the_order_of_the_past_matters(variant):
    model, x = small(variant), numbers()
    model(x).square().sum().backward()
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in model.parameters())
    swapped = x.clone()
    swapped[:, [0, 1]] = x[:, [1, 0]]
    with torch.no_grad():
        assert not torch.allclose(model(x)[:, -1], model(swapped)[:, -1], atol=1e-4)


def test_rotary_positions_are_relative_and_add_nothing_to_the_vectors():
    model = small(Variant(positions="rotary"))
    x = numbers(n=6)
    assert torch.equal(model._vectors(x), model.table(x) * DIM**0.5)
    # Four equal pieces look at equal pieces only, so all get the same vector wherever they stand.
    same = torch.full((1, 4), 5)
    with torch.no_grad():
        assert model(same)[0, 0] == pytest.approx(model(same)[0, 3], abs=1e-5)


# The comparison


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

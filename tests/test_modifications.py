"""Facts about the variants of the causal model, and about comparing them fairly."""

import pytest
import torch

from utils.models.language import CausalLM
from utils.models.llama import GatedFeedForward, RMSNorm
from utils.models.positions import PastTheTable
from utils.models.variants import Variant, VariantLM, parameter_count
from utils.training.modifications import (
    BASE,
    CHANGES,
    LITERATURE,
    best_factor,
    build,
    compare,
    matched_hidden,
    modification_run,
    short_comparison,
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


@pytest.mark.parametrize("name", [name for name in CHANGES if name != BASE])
def test_every_change_changes_what_the_model_says(name):
    with torch.no_grad():
        assert not torch.allclose(small(CHANGES[name])(numbers()), small(Variant())(numbers()), atol=1e-3)


def test_each_change_is_one_change():
    base = vars(Variant())
    for name, variant in CHANGES.items():
        assert sum(vars(variant)[part] != base[part] for part in base) == (name != BASE), name


def test_rotary_positions_are_relative_and_add_nothing_to_the_vectors():
    model = small(Variant(positions="rotary"))
    x = numbers(n=6)
    assert torch.equal(model._vectors(x), model.table(x) * DIM**0.5)
    # Four equal pieces look at equal pieces only, so all get the same vector wherever they stand.
    same = torch.full((1, 4), 5)
    with torch.no_grad():
        assert model(same)[0, 0] == pytest.approx(model(same)[0, 3], abs=1e-5)


@pytest.mark.parametrize("positions, notices", [("rotary", True), ("learned", False), ("sinusoidal", False)])
def test_only_with_rotary_positions_does_a_layer_itself_know_the_order(positions, notices):
    layer = small(Variant(positions=positions)).layers[0]
    x, mask = torch.randn(2, 5, DIM), torch.ones(5, 5, dtype=torch.bool).tril()
    with torch.no_grad():
        last, other = layer(x, mask)[:, -1], layer(x[:, [2, 0, 3, 1, 4]], mask)[:, -1]
    assert torch.allclose(last, other, atol=1e-5) != notices


def test_the_kinds_are_of_the_parts_they_are_named_after():
    layer = small(Variant(activation="gated", norm="rms")).layers[0]
    assert isinstance(layer.feed_forward, GatedFeedForward)
    assert isinstance(layer.attention_norm, RMSNorm) and isinstance(layer.feed_forward_norm, RMSNorm)
    assert small(Variant(activation="relu")).layers[0].feed_forward.activation == "relu"


def test_post_norm_ends_each_layer_in_a_norm():
    layer = small(Variant(order="post")).layers[1]
    x = 5 * torch.randn(2, 7, DIM)
    found = layer(x, torch.ones(7, 7, dtype=torch.bool).tril()).detach()
    assert found == pytest.approx(torch.nn.functional.layer_norm(found, (DIM,)), abs=1e-3)


def test_untied_tables_are_two():
    assert parameter_count(small(Variant(tied=False))) - parameter_count(small(Variant())) == PIECES * DIM


def test_learned_positions_end_and_the_others_do_not():
    with pytest.raises(PastTheTable):
        small(Variant(positions="learned"))(numbers(n=10))
    for positions in ("sinusoidal", "rotary"):
        small(Variant(positions=positions))(numbers(n=10))


# The comparison


@VARIANTS
def test_all_rows_have_the_parameters_of_the_base(variant):
    base = parameter_count(build(Variant(), matched_hidden(Variant())))
    assert parameter_count(build(variant, matched_hidden(variant))) == pytest.approx(base, rel=0.005)


def test_a_gate_costs_a_third_of_the_hidden_units():
    assert matched_hidden(CHANGES["gated (SwiGLU)"]) == pytest.approx(256 * 2 / 3, abs=3)
    with pytest.raises(ValueError, match="expected fewer pieces"):
        matched_hidden(Variant(tied=False), 5000)


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


def test_rates_are_chosen_with_a_seed_of_their_own():
    seeds = []

    def run(variant, seed, *, factor):
        seeds.append(seed)
        return pretend(variant, seed, factor=factor)

    best_factor(Variant(), (0.5, 1.0), run)
    assert len(seeds) == 2 and min(seeds) > 50
    with pytest.raises(ValueError, match="expected a row 'base'"):
        compare({"ReLU": CHANGES["ReLU"]}, 2, (0.5,), pretend)


@pytest.mark.parametrize("name", ["gated (SwiGLU)", "untied"])
def test_a_run_learns_and_repeats(name):
    start, run, again = (
        train(CHANGES[name], 1, read=read, **SMALL)
        for train, read in ((modification_run, 1), (modification_run, 16_000), (modification_run.__wrapped__, 16_000))
    )
    assert run["held_out"] < start["held_out"] - 0.1
    assert run["held_out"] == again["held_out"]


def test_all_rows_read_the_same_pieces():
    rows = short_comparison((BASE, "ReLU"), 2, 1000, texts=150)
    assert [row["change"] for row in rows] == [BASE, "ReLU"]
    assert rows[1]["loss"].shape == (2,) and rows[1]["factor"] == rows[0]["factor"]


def test_the_literature_names_its_sources():
    assert {about for about, _, _ in LITERATURE} >= {"activation", "norm", "norm order", "positions", "tying"}
    assert all("arXiv:" in source for _, _, source in LITERATURE)

"""Facts about self-attention, its masks and its positions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.models.attention import attention
from utils.models.positions import (
    LearnedPositions,
    frequencies,
    rotate,
    sinusoidal_positions,
)
from utils.models.self_attention import (
    POSITIONS,
    Block,
    LanguageModel,
    SelfAttention,
    SequenceClassifier,
    TokenVectors,
    causal_mask,
)

sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "n": st.integers(1, 7),
        "dim": st.integers(1, 9),
        "inner": st.integers(1, 8),
        "seed": st.integers(0, 2**31),
    }
)


def layer_and_input(b, n, dim, inner, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer, x = SelfAttention(dim, inner), torch.randn(b, n, dim)
        mask = torch.rand(b, n, n) > 0.4
    return layer.double(), x.double(), mask


# Sets: no order, no masked token, no future


@settings(max_examples=50, deadline=None)
@given(sizes)
def test_without_a_mask_a_permuted_input_gives_the_permuted_output(size):
    layer, x, _ = layer_and_input(**size)
    order = torch.randperm(x.size(1), generator=torch.Generator().manual_seed(size["seed"]))
    output, weights = layer(x)
    moved, looked = layer(x[:, order])
    torch.testing.assert_close(moved, output[:, order])
    torch.testing.assert_close(looked, weights[:, order][:, :, order])


@settings(max_examples=50, deadline=None)
@given(sizes, st.integers(0, 6))
def test_a_masked_token_has_no_influence_on_any_other_output(size, which):
    layer, x, mask = layer_and_input(**size)
    token = which % x.size(1)
    mask[:, :, token] = False
    changed = x.clone()
    changed[:, token] = 1e6
    others = [place for place in range(x.size(1)) if place != token]
    for need_weights in (True, False):
        before, _ = layer(x, mask, need_weights=need_weights)
        after, _ = layer(changed, mask, need_weights=need_weights)
        assert torch.equal(before[:, others], after[:, others])


@settings(max_examples=50, deadline=None)
@given(sizes, st.booleans())
def test_no_gradient_comes_from_the_future(size, need_weights):
    layer, x, _ = layer_and_input(**size)
    x.requires_grad_()
    n = x.size(1)
    for place in range(n):
        output, _ = layer(x, causal_mask(n), need_weights=need_weights)
        (gradient,) = torch.autograd.grad(output[:, place].square().sum(), x)
        assert (gradient[:, place + 1 :] == 0).all()
        assert gradient[:, : place + 1].isfinite().all()
    # The last token's value comes from every token: the test above would pass without a single gradient.
    assert (gradient.abs().sum(-1) > 0).all()


# The block


def test_the_block_adds_what_it_found_and_then_what_it_thought():
    torch.manual_seed(0)
    block, x, mask = Block(6, 11), torch.randn(2, 5, 6), causal_mask(5)
    output, weights = block(x, mask)
    between = x + block.attention(x, mask)[0]
    torch.testing.assert_close(output, between + block.feed_forward(between))
    torch.testing.assert_close(weights, block.attention(x, mask)[1])
    bare = Block(6, hidden=0)
    torch.testing.assert_close(bare(x)[0], x + bare.attention(x)[0])


# Sinusoids


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40).map(lambda half: 2 * half), st.integers(0, 300), st.integers(0, 300), st.integers(0, 5000))
def test_the_dot_product_of_two_positions_depends_on_their_offset_alone_and_is_even(dim, first, second, moved):
    near = sinusoidal_positions(301, dim)
    far = sinusoidal_positions(301, dim, start=moved)
    here = near[first] @ near[second]
    torch.testing.assert_close(far[first] @ far[second], here, rtol=0, atol=1e-4)
    torch.testing.assert_close(near[second] @ near[first], here)
    torch.testing.assert_close(here, ((first - second) * frequencies(dim)).cos().sum().float(), rtol=0, atol=1e-4)


def test_sines_stand_in_even_and_cosines_in_odd_components():
    positions = sinusoidal_positions(7, 6)
    assert positions.shape == (7, 6) and positions[0].tolist() == [0, 1] * 3
    for place in (1, 5):
        for pair in range(3):
            angle = place / 10_000 ** (2 * pair / 6)
            assert positions[place, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert positions[place, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    torch.testing.assert_close(sinusoidal_positions(3, 6, start=4), positions[4:])


def test_an_odd_width_is_refused_with_the_next_even_one():
    for make in (lambda: sinusoidal_positions(3, 5), lambda: rotate(torch.zeros(3, 5), torch.arange(3))):
        with pytest.raises(ValueError, match="even width.*got 5; try 6"):
            make()


# Learned and rotary positions


def test_learned_positions_end_where_their_table_ends_and_say_so():
    positions = LearnedPositions(5, 3)
    assert positions(5).shape == (5, 3) and torch.equal(positions(2, start=3), positions.table[3:])
    with pytest.raises(ValueError, match="from 0 to 4, got 0 to 5: learned positions end where their table ends"):
        positions(6)
    with pytest.raises(ValueError, match="from 0 to 4, got 3 to 5"):
        positions(3, start=3)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 12), st.integers(0, 3000), st.integers(0, 2**31))
def test_rotary_scores_depend_on_the_offset_alone(b, n, half, moved, seed):
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(b, n, 2 * half, generator=generator, dtype=torch.float64) for _ in range(2))
    here, there = torch.arange(n), torch.arange(n) + moved

    def scores(places):
        return rotate(query, places) @ rotate(key, places).transpose(1, 2)

    torch.testing.assert_close(scores(here), scores(there), rtol=0, atol=1e-9)
    torch.testing.assert_close(rotate(query, there).norm(dim=-1), query.norm(dim=-1))
    torch.testing.assert_close(rotate(query, torch.zeros(n)), query)


def test_rotary_positions_turn_each_pair_by_its_own_angle():
    x = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0))
    places = torch.tensor([[0, 5, 2], [7, 1, 90_000]])
    found = rotate(x, places)
    for row, token, pair in [(0, 1, 0), (0, 2, 2), (1, 0, 1), (1, 2, 2)]:
        angle = places[row, token].item() / 10_000 ** (2 * pair / 6)
        first, second = x[row, token, 2 * pair : 2 * pair + 2].tolist()
        wanted = first * math.cos(angle) - second * math.sin(angle), first * math.sin(angle) + second * math.cos(angle)
        assert found[row, token, 2 * pair : 2 * pair + 2].tolist() == pytest.approx(wanted, abs=1e-5)
    torch.testing.assert_close(rotate(x.transpose(0, 1), places.T), found.transpose(0, 1))


def test_a_rotary_layer_turns_queries_and_keys_and_leaves_values():
    torch.manual_seed(0)
    layer, x = SelfAttention(5, 6, rotary=True), torch.randn(2, 4, 5)
    places = torch.arange(4)
    wanted = attention(rotate(layer.query(x), places), rotate(layer.key(x), places), layer.value(x))[0]
    torch.testing.assert_close(layer(x)[0], wanted)
    torch.testing.assert_close(layer(x, start=100)[0], wanted, rtol=0, atol=1e-5)


# Whole models


def test_token_vectors_are_embeddings_plus_or_beside_positions():
    torch.manual_seed(0)
    tokens = torch.randint(0, 9, (2, 5))
    added = TokenVectors(9, 6, "sinusoidal", 5)
    torch.testing.assert_close(added(tokens, 3), added.table(tokens) + sinusoidal_positions(5, 6, start=3))
    beside = TokenVectors(9, 6, "learned", 5, "concatenate", 4)
    assert beside.width == 10 and added.width == 6
    torch.testing.assert_close(beside(tokens)[..., :6], beside.table(tokens))
    torch.testing.assert_close(beside(tokens)[1, :, 6:], beside.learned.table)


@pytest.mark.parametrize("kind", POSITIONS)
def test_a_classifier_knows_the_order_exactly_if_it_has_positions_or_a_causal_mask(kind):
    torch.manual_seed(0)
    model = SequenceClassifier(9, 2, dim=8, positions=kind, longest=6).double()
    tokens, real = torch.tensor([[1, 2, 3, 4, 5, 6]]), torch.ones(1, 6, dtype=torch.bool)
    moved = model(tokens.flip(1), real)[0] - model(tokens, real)[0]
    assert (moved.abs().max() < 1e-12) == (kind == "none")
    later = None if kind == "learned" else model(tokens, real, start=100)[0] - model(tokens, real)[0]
    assert later is None or (later.abs().max() < 1e-9) == (kind != "sinusoidal")


@pytest.mark.parametrize("kind", POSITIONS)
def test_padding_does_not_change_what_a_classifier_says(kind):
    torch.manual_seed(0)
    model = SequenceClassifier(9, 3, dim=8, positions=kind, longest=8).double()
    tokens = torch.randint(0, 9, (2, 8))
    real = torch.arange(8) < torch.tensor([[5], [8]])
    together, weights = model(tokens, real)
    alone, _ = model(tokens[:1, :5], real[:1, :5])
    torch.testing.assert_close(together[:1], alone)
    assert (weights[0, :, 5:] == 0).all()


@pytest.mark.parametrize("kind", ["learned", "rotary"])
def test_the_language_model_never_looks_ahead_and_its_fused_path_is_the_same(kind):
    torch.manual_seed(0)
    model = LanguageModel(11, dim=8, blocks=2, longest=7, positions=kind).double()
    tokens = torch.randint(0, 11, (2, 7))
    logits, nothing = model(tokens)
    slow, weights = model(tokens, need_weights=True)
    torch.testing.assert_close(logits, slow)
    assert nothing is None and len(weights) == 2 and weights[0].shape == (2, 7, 7)
    for n in range(1, 7):
        changed = tokens.clone()
        changed[:, n:] = (changed[:, n:] + 1) % 11
        now, _ = model(changed)
        torch.testing.assert_close(now[:, :n], logits[:, :n])
        torch.testing.assert_close(model(tokens[:, :n])[0], logits[:, :n])
        assert (now[:, n:] - logits[:, n:]).abs().max() > 1e-3

"""Facts about multi-head attention: parity with nn.MultiheadAttention, masks, and head masks."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.parity import assert_close, assert_same_gradients, backward, scramble
from utils.models.multi_head import MultiHeadAttention, head_width, split_heads
from utils.models.self_attention import causal_mask
from utils.models.torch_weights import to_torch

DTYPES = (torch.float64, torch.float32)

sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "m": st.integers(1, 6),
        "n": st.integers(1, 7),
        "heads": st.integers(1, 4),
        "width": st.integers(1, 5),
        "bias": st.booleans(),
        "seed": st.integers(0, 2**31),
    }
)
masks = st.sampled_from(["no", "shared", "padding", "each"])


def layer_and_inputs(b, m, n, heads, width, bias, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    layer = MultiHeadAttention(heads * width, heads, bias)
    scramble(layer, seed)
    x, memory = (torch.randn(b, k, heads * width, generator=generator).to(dtype).requires_grad_() for k in (m, n))
    return layer.to(dtype), x, memory


def draw_mask(kind, b, m, n, seed):
    """A mask in which every token may look somewhere."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "no":
        return None
    if kind == "padding":
        return (torch.arange(n) < torch.randint(1, n + 1, (b, 1), generator=generator)).unsqueeze(1)
    mask = torch.rand((m, n) if kind == "shared" else (b, m, n), generator=generator) > 0.5
    mask[..., 0] |= ~mask.any(-1)
    return mask


def torchs_mask(mask, heads):
    """nn.MultiheadAttention wants True for 'may not look', and a copy for each head."""
    if mask is None:
        return {}
    if mask.dim() == 2:
        return {"attn_mask": ~mask}
    if mask.size(1) == 1:
        return {"key_padding_mask": ~mask.squeeze(1)}
    return {"attn_mask": ~mask.repeat_interleave(heads, 0)}


def test_heads_that_do_not_divide_the_width_are_refused_with_a_proposal():
    for make in (
        lambda: split_heads(torch.zeros(2, 5, 30), 4),
        lambda: MultiHeadAttention(30, 4),
    ):
        with pytest.raises(ValueError, match="expected 4 heads to divide dim 30; try dim 32"):
            make()
    with pytest.raises(ValueError, match="expected 0 heads"):
        head_width(8, 0)


# Equal to torch's


@settings(max_examples=60, deadline=None)
@given(sizes, masks, st.booleans(), st.booleans(), st.sampled_from(DTYPES))
def test_it_equals_torchs_forward_and_backward(size, kind, cross, need_weights, dtype):
    ours, x, memory = layer_and_inputs(**size, dtype=dtype)
    if not cross:
        x = memory
    dim, heads = ours.dim, ours.heads
    theirs = to_torch(ours, nn.MultiheadAttention(dim, heads, bias=size["bias"], batch_first=True, dtype=dtype))
    mask = draw_mask(kind, size["b"], x.size(1), memory.size(1), size["seed"])
    results = []
    for run in (
        lambda: ours(x, memory if cross else None, mask, need_weights),
        lambda: theirs(
            x, memory, memory, need_weights=need_weights, average_attn_weights=False, **torchs_mask(mask, heads)
        ),
    ):
        x.grad = memory.grad = None
        output, weights = run()
        backward(output)
        results.append((output, weights, x.grad, memory.grad))
    (output, weights, *gradients), (their_output, their_weights, *their_gradients) = results
    assert_close(output, their_output, "output")
    if need_weights:
        assert_close(weights, their_weights, "weights")
    for one, other in zip(gradients, their_gradients, strict=True):
        assert_close(one, other, "gradient of the input")
    assert_same_gradients(ours, theirs)


def test_what_does_not_fit_is_refused_and_nothing_is_copied():
    ours = MultiHeadAttention(6, 3)
    before = nn.MultiheadAttention(6, 2)
    kept = [one.clone() for one in before.parameters()]
    with pytest.raises(ValueError, match="same heads on both sides, got 3 here and 2"):
        to_torch(ours, before)
    assert all(torch.equal(one, other) for one, other in zip(before.parameters(), kept, strict=True))
    with pytest.raises(ValueError, match="same bias"):
        to_torch(ours, nn.MultiheadAttention(6, 3, bias=False))
    with pytest.raises(
        TypeError, match="MultiHeadAttention and nn.MultiheadAttention.*got MultiHeadAttention and Linear"
    ):
        to_torch(ours, nn.Linear(6, 6))


# Masks


@settings(max_examples=40, deadline=None)
@given(sizes, st.booleans())
def test_a_token_that_may_look_nowhere_gets_the_mixing_bias_alone_and_finite_gradients(size, need_weights):
    layer, x, memory = layer_and_inputs(**size)
    mask = torch.ones(size["b"], size["m"], size["n"], dtype=torch.bool)
    mask[:, 0] = False
    output, weights = layer(x, memory, mask, need_weights)
    backward(output)
    alone = torch.zeros_like(output[:, 0]) if layer.mix.bias is None else layer.mix.bias.expand_as(output[:, 0])
    torch.testing.assert_close(output[:, 0], alone, rtol=0, atol=1e-12)
    if need_weights:
        assert (weights[:, :, 0] == 0).all()
    assert (x.grad[:, 0] == 0).all()
    assert all(one.grad.isfinite().all() for one in (x, memory, *layer.parameters()))


@settings(max_examples=40, deadline=None)
@given(sizes, st.booleans())
def test_a_masked_token_has_no_influence_on_any_other(size, need_weights):
    layer, x, memory = layer_and_inputs(**size)
    mask = (torch.arange(size["n"]) < size["n"] - 1).expand(size["b"], 1, -1)
    before, _ = layer(x, memory, mask, need_weights)
    with torch.no_grad():
        memory[:, -1] = 1e6
    after, _ = layer(x, memory, mask, need_weights)
    assert torch.equal(before, after)


@settings(max_examples=30, deadline=None)
@given(sizes, st.booleans())
def test_no_gradient_comes_from_the_future(size, need_weights):
    layer, x, _ = layer_and_inputs(**size)
    m = x.size(1)
    for place in range(m):
        output, _ = layer(x, mask=causal_mask(m), need_weights=need_weights)
        (gradient,) = torch.autograd.grad(output[:, place].square().sum(), x)
        assert (gradient[:, place + 1 :] == 0).all()
    assert (gradient.abs().sum(-1) > 0).all()


def test_a_mask_of_real_tokens_without_an_axis_for_the_queries_is_refused_with_the_remedy():
    layer, x, memory = layer_and_inputs(2, 4, 5, 3, 2, True, 0)
    for shape in [(2, 5), (2, 3, 4, 5), (2, 4, 4), (5,)]:
        with pytest.raises(ValueError, match=r"expected a mask of shape \(4, 5\).*unsqueeze\(1\)"):
            layer(x, memory, torch.ones(shape, dtype=torch.bool))
    with pytest.raises(TypeError, match="True means 'may look'"):
        layer(x, memory, torch.ones(4, 5))


# Switching heads off


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_head_that_is_switched_off_leaves_nothing_of_itself(need_weights):
    layer, x, memory = layer_and_inputs(2, 4, 5, 3, 2, True, 7)
    output, _ = layer(x, memory, need_weights=need_weights)
    for head in range(3):
        on = torch.ones(3)
        on[head] = 0
        deaf = copy.deepcopy(layer)  # its mixing matrix has nothing in the columns of this head
        with torch.no_grad():
            deaf.mix.weight[:, 2 * head : 2 * head + 2] = 0
        without, _ = layer(x, memory, need_weights=need_weights, heads_on=on)
        torch.testing.assert_close(without, deaf(x, memory, need_weights=need_weights)[0])
        assert torch.equal(layer(x, memory, need_weights=need_weights, heads_on=on.bool())[0], without)
        assert not torch.allclose(without, output)

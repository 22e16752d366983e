"""Facts about scaled dot-product and multi-head attention, masks, grouped-query attention and the key-value cache."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.parity import assert_close, assert_same_gradients, backward, randomize
from utils.models.attention import (
    KVCache,
    MultiHeadAttention,
    SelfAttention,
    attend,
    attention,
    causal_mask,
    merge_heads,
    padding_mask,
    softmax,
    split_heads,
)
from utils.models.positions import apply_rotary, rotary_embedding
from utils.models.torch_weights import to_torch

DTYPES = (torch.float64, torch.float32)

TOLERANCE = {torch.float64: dict(rtol=1e-10, atol=1e-10), torch.float32: dict(rtol=1e-5, atol=2e-6)}

# Scaled dot-product attention

shapes = st.fixed_dictionaries(
    {
        "lead": st.lists(st.integers(1, 3), min_size=0, max_size=2).map(tuple),
        "m": st.integers(1, 6),
        "n": st.integers(1, 7),
        "d": st.integers(1, 9),
        "e": st.integers(1, 8),
        "masked": st.sampled_from(["no", "random", "one row fully masked", "all rows fully masked", "broadcast"]),
        "scale": st.sampled_from([None, 1.0, 0.3]),
        "dtype": st.sampled_from([torch.float64, torch.float32]),
        "seed": st.integers(0, 2**31),
    }
)


def draw(lead, m, n, d, e, masked, scale, dtype, seed):
    generator = torch.Generator().manual_seed(seed)

    def tensor(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    query, key, value = tensor(*lead, m, d), tensor(*lead, n, d), tensor(*lead, n, e)
    mask = None
    if masked != "no":
        shape = (m, n) if masked == "broadcast" else (*lead, m, n)
        mask = torch.rand(shape, generator=generator) > 0.4
        if masked == "one row fully masked":
            mask[..., 0, :] = False
        if masked == "all rows fully masked":
            mask[:] = False
    return query, key, value, mask, scale


def with_gradients(function, query, key, value, mask, scale):
    inputs = [tensor.detach().clone().requires_grad_() for tensor in (query, key, value)]
    output = function(*inputs, mask, scale)
    backward(output)
    return [output.detach()] + [tensor.grad for tensor in inputs]


def explicit(query, key, value, mask, scale):
    return attention(query, key, value, mask, scale)[0]


def fused(query, key, value, mask, scale):
    return attention(query, key, value, mask, scale, need_weights=False)[0]


def reference(query, key, value, mask, scale):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


@settings(max_examples=150, deadline=None)
@given(shapes)
def test_explicit_and_fused_attention_equal_torch_forward_and_backward(shape):
    inputs = draw(**shape)
    expected = with_gradients(reference, *inputs)
    for function in (explicit, fused):
        for actual, wanted in zip(with_gradients(function, *inputs), expected, strict=True):
            assert actual.isfinite().all()
            torch.testing.assert_close(actual, wanted, **TOLERANCE[shape["dtype"]])


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_attention_weights_are_a_distribution_over_the_unmasked_keys_and_give_the_output(shape):
    query, key, value, mask, scale = draw(**shape)
    output, weights = attention(query, key, value, mask, scale)
    allowed = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
    assert (weights >= 0).all() and (weights[~allowed] == 0).all()
    expected_sum = allowed.any(-1).to(weights.dtype)
    torch.testing.assert_close(weights.sum(-1), expected_sum, **TOLERANCE[shape["dtype"]])
    torch.testing.assert_close(weights @ value, output, **TOLERANCE[shape["dtype"]])


def test_masked_values_never_influence_the_output():
    query, key, value, mask, _ = draw((2,), 4, 5, 3, 6, "random", None, torch.float64, 1)
    before, _ = attention(query, key, value, mask)
    changed = value.detach().clone()
    for batch in range(2):
        changed[batch][~mask[batch].any(0)] += 1e6
    torch.testing.assert_close(attention(query, key, changed, mask)[0], before, rtol=0, atol=0)


def test_attention_is_invariant_to_the_order_of_keys_and_values():
    query, key, value, _, _ = draw((), 4, 6, 3, 5, "no", None, torch.float64, 2)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(attention(query, key[order], value[order])[0], attention(query, key, value)[0])


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from([0.01, 1.0, 50.0]), st.integers(0, 2**31))
def test_softmax_equals_torch_along_any_dimension(rows, columns, temperature, seed):
    logits = 300 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for dim in (0, 1):
        torch.testing.assert_close(softmax(logits, temperature, dim), F.softmax(logits / temperature, dim))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: softmax(torch.zeros(3), 0), "temperature above 0"),
        (lambda: attend(torch.zeros(2, 3), torch.zeros(4, 5)), "one value row for each of 3 scores, got 4"),
        (lambda: attention(torch.zeros(2, 3), torch.zeros(4, 5), torch.zeros(4, 5)), "one width, got 3 and 5"),
        (
            lambda: attention(torch.zeros(2, 3), torch.zeros(4, 5), torch.zeros(4, 5), need_weights=False),
            "one width, got 3 and 5",
        ),
        (lambda: attend(torch.zeros(2, 3), torch.zeros(3, 1), torch.zeros(2, 3)), "`mask == 0`"),
        (
            lambda: attention(torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(4, 1), torch.ones(2, 4), None, False),
            "True means 'may attend'",
        ),
    ],
)
def test_wrong_input_raises_an_error_that_tells_what_to_do(call, words):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert words in str(error.value)


# Single-head self-attention


def self_attention_and_input(b, n, dim, head_dim, seed):
    generator = torch.Generator().manual_seed(seed)
    layer = SelfAttention(dim, head_dim)
    randomize(layer, seed)
    mask = torch.rand(b, n, n, generator=generator) > 0.4
    return layer.double(), torch.randn(b, n, dim, generator=generator, dtype=torch.float64), mask


single_head_sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "n": st.integers(1, 7),
        "dim": st.integers(1, 9),
        "head_dim": st.integers(1, 8),
        "seed": st.integers(0, 2**31),
    }
)


@settings(max_examples=50, deadline=None)
@given(single_head_sizes)
def test_self_attention_without_a_mask_is_permutation_equivariant(size):
    layer, x, _ = self_attention_and_input(**size)
    order = torch.randperm(x.size(1), generator=torch.Generator().manual_seed(size["seed"]))
    output, weights = layer(x)
    permuted_output, permuted_weights = layer(x[:, order])
    torch.testing.assert_close(permuted_output, output[:, order])
    torch.testing.assert_close(permuted_weights, weights[:, order][:, :, order])


@settings(max_examples=50, deadline=None)
@given(single_head_sizes, st.integers(0, 6))
def test_a_masked_token_never_influences_another_in_self_attention(size, index):
    layer, x, mask = self_attention_and_input(**size)
    token = index % x.size(1)
    mask[:, :, token] = False
    changed = x.clone()
    changed[:, token] = 1e6
    others = [position for position in range(x.size(1)) if position != token]
    for need_weights in (True, False):
        before, _ = layer(x, mask, need_weights)
        after, _ = layer(changed, mask, need_weights)
        assert torch.equal(before[:, others], after[:, others])


def test_rotary_self_attention_rotates_queries_and_keys_but_not_values():
    layer, x, mask = self_attention_and_input(2, 4, 5, 6, 0)
    mask |= torch.eye(4, dtype=torch.bool)
    positions = torch.arange(4)
    rotation = rotary_embedding(positions, 6, dtype=torch.float64)
    query, key = apply_rotary(layer.query(x), rotation), apply_rotary(layer.key(x), rotation)
    expected, _ = attention(query, key, layer.value(x), mask)
    for start in (0, 100):  # only distances matter
        rotation = rotary_embedding(positions + start, 6, dtype=torch.float64)
        torch.testing.assert_close(layer(x, mask, rotation=rotation)[0], expected)
    assert not torch.allclose(layer(x, mask)[0], expected)


# Multi-head attention

sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "m": st.integers(1, 6),
        "n": st.integers(1, 7),
        "num_heads": st.integers(1, 4),
        "head_dim": st.integers(1, 5),
        "bias": st.booleans(),
        "seed": st.integers(0, 2**31),
    }
)


def with_groups(group, num_kv_heads, **size):
    return {**size, "num_heads": group * num_kv_heads, "num_kv_heads": num_kv_heads}


# As `sizes`, with groups of query heads that share a key-value head, and an even head_dim, as RoPE needs it.
grouped_sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "m": st.integers(1, 6),
        "n": st.integers(1, 7),
        "num_kv_heads": st.integers(1, 3),
        "group": st.integers(1, 3),
        "head_dim": st.integers(1, 3).map(lambda half: 2 * half),
        "bias": st.booleans(),
        "seed": st.integers(0, 2**31),
    }
).map(lambda size: with_groups(**size))
masks = st.sampled_from(["no", "shared", "padding", "each"])


def layer_and_inputs(b, m, n, num_heads, head_dim, bias, seed, num_kv_heads=None, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    dim = num_heads * head_dim
    layer = MultiHeadAttention(dim, num_heads, num_kv_heads, bias)
    randomize(layer, seed)
    x, memory = (torch.randn(b, length, dim, generator=generator).to(dtype).requires_grad_() for length in (m, n))
    return layer.to(dtype), x, memory


def draw_mask(kind, b, m, n, seed):
    """A mask in which every query may attend to a key."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "no":
        return None
    if kind == "padding":
        return (torch.arange(n) < torch.randint(1, n + 1, (b, 1), generator=generator)).unsqueeze(1)
    mask = torch.rand((m, n) if kind == "shared" else (b, m, n), generator=generator) > 0.5
    mask[..., 0] |= ~mask.any(-1)
    return mask


def torch_masks(mask, num_heads):
    """In nn.MultiheadAttention True means 'may not attend', and there is a copy for each head."""
    if mask is None:
        return {}
    if mask.dim() == 2:
        return {"attn_mask": ~mask}
    if mask.size(1) == 1:
        return {"key_padding_mask": ~mask.squeeze(1)}
    return {"attn_mask": ~mask.repeat_interleave(num_heads, 0)}


def test_a_number_of_heads_that_does_not_divide_dim_is_refused_with_a_proposal():
    for make in (lambda: split_heads(torch.zeros(2, 5, 30), 4), lambda: MultiHeadAttention(30, 4)):
        with pytest.raises(ValueError, match="expected num_heads to divide dim, got 4 and 30; try dim 32"):
            make()
    with pytest.raises(ValueError, match="got 0 and 8"):
        MultiHeadAttention(8, 0)
    for num_kv_heads in (0, 4):
        with pytest.raises(ValueError, match=f"num_kv_heads to divide 6 heads, got {num_kv_heads}"):
            MultiHeadAttention(12, 6, num_kv_heads)


def test_split_heads_gives_each_head_its_components_and_merge_heads_undoes_it():
    x = torch.arange(2 * 3 * 8).view(2, 3, 8)
    heads = split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    for head in range(4):
        assert torch.equal(heads[:, head], x[..., 2 * head : 2 * head + 2])
    assert torch.equal(merge_heads(heads), x)


@settings(max_examples=60, deadline=None)
@given(sizes, masks, st.booleans(), st.booleans(), st.sampled_from(DTYPES))
def test_multi_head_attention_equals_torch_forward_and_backward(size, kind, cross, need_weights, dtype):
    layer, x, memory = layer_and_inputs(**size, dtype=dtype)
    if not cross:
        x = memory
    dim, num_heads = layer.dim, layer.num_heads
    torch_layer = nn.MultiheadAttention(dim, num_heads, bias=size["bias"], batch_first=True, dtype=dtype)
    to_torch(layer, torch_layer)
    mask = draw_mask(kind, size["b"], x.size(1), memory.size(1), size["seed"])
    options = {"need_weights": need_weights, "average_attn_weights": False, **torch_masks(mask, num_heads)}
    results = []
    for run in (
        lambda: layer(x, memory if cross else None, mask, need_weights),
        lambda: torch_layer(x, memory, memory, **options),
    ):
        x.grad = memory.grad = None
        output, weights = run()
        backward(output)
        results.append({"output": output, "gradient of x": x.grad, "gradient of memory": memory.grad})
        if need_weights:
            results[-1]["attention weights"] = weights
    actual, expected = results
    for what in expected:
        assert_close(actual[what], expected[what], what)
    assert_same_gradients(layer, torch_layer)


def test_weights_that_do_not_fit_are_not_copied():
    layer = MultiHeadAttention(6, 3)
    torch_layer = nn.MultiheadAttention(6, 2)
    before = copy.deepcopy(torch_layer.state_dict())
    with pytest.raises(ValueError, match="same options"):
        to_torch(layer, torch_layer)
    assert all(torch.equal(tensor, before[name]) for name, tensor in torch_layer.state_dict().items())
    with pytest.raises(RuntimeError, match="bias"):
        to_torch(layer, nn.MultiheadAttention(6, 3, bias=False))
    with pytest.raises(ValueError, match="same options"):
        to_torch(layer, nn.Linear(6, 6))


# Masks


def test_the_padding_mask_has_an_axis_for_the_queries_and_is_none_without_padding():
    attention_mask = torch.tensor([[True, True, False], [True, True, True]])
    assert torch.equal(padding_mask(attention_mask), attention_mask[:, None])
    assert padding_mask(None) is None and padding_mask(attention_mask[1:]) is None


@settings(max_examples=40, deadline=None)
@given(st.one_of(sizes, grouped_sizes), st.booleans())
def test_a_fully_masked_query_gets_the_output_bias_alone_and_finite_gradients(size, need_weights):
    layer, x, memory = layer_and_inputs(**size)
    mask = torch.ones(size["b"], size["m"], size["n"], dtype=torch.bool)
    mask[:, 0] = False
    output, weights = layer(x, memory, mask, need_weights)
    backward(output)
    bias = layer.out_proj.bias
    expected = torch.zeros_like(output[:, 0]) if bias is None else bias.expand_as(output[:, 0])
    torch.testing.assert_close(output[:, 0], expected, rtol=0, atol=1e-12)
    if need_weights:
        assert (weights[:, :, 0] == 0).all()
    assert (x.grad[:, 0] == 0).all()
    assert all(tensor.grad.isfinite().all() for tensor in (x, memory, *layer.parameters()))


@settings(max_examples=40, deadline=None)
@given(st.one_of(sizes, grouped_sizes), st.booleans())
def test_a_masked_key_never_influences_the_output(size, need_weights):
    layer, x, memory = layer_and_inputs(**size)
    mask = (torch.arange(size["n"]) < size["n"] - 1).expand(size["b"], 1, -1)
    before, _ = layer(x, memory, mask, need_weights)
    with torch.no_grad():
        memory[:, -1] = 1e6
    after, _ = layer(x, memory, mask, need_weights)
    assert torch.equal(before, after)


def layer_call(kind, size, need_weights):
    """A layer's output as a function of x (b, n, dim), under the causal mask, and x."""
    if kind == "single head":
        layer, x, _ = self_attention_and_input(size["b"], size["m"], 5, size["head_dim"], size["seed"])
        rotation = None
    else:
        layer, x, _ = layer_and_inputs(**size)
        rotation = rotary_embedding(torch.arange(size["m"]), size["head_dim"], dtype=x.dtype)
    x = x.detach().requires_grad_()
    return lambda: layer(x, mask=causal_mask(size["m"]), need_weights=need_weights, rotation=rotation)[0], x


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["single head", "multi-head"]), grouped_sizes, st.booleans())
def test_under_the_causal_mask_no_gradient_comes_from_the_future(kind, size, need_weights):
    run, x = layer_call(kind, size, need_weights)
    for position in range(x.size(1)):
        (gradient,) = torch.autograd.grad(run()[:, position].square().sum(), x)
        assert (gradient[:, position + 1 :] == 0).all()
        assert gradient.isfinite().all()
    # The last output depends on every token: the loop would pass without a single gradient.
    assert (gradient.abs().sum(-1) > 0).all()


def test_a_mask_without_an_axis_for_the_queries_is_refused_with_the_remedy():
    layer, x, memory = layer_and_inputs(2, 4, 5, 3, 2, True, 0)
    for shape in [(2, 5), (2, 3, 4, 5), (2, 4, 4), (5,)]:
        with pytest.raises(ValueError, match=r"expected a mask of shape \(4, 5\).*unsqueeze\(1\)"):
            layer(x, memory, torch.ones(shape, dtype=torch.bool))
    with pytest.raises(TypeError, match="bool mask"):
        layer(x, memory, torch.ones(4, 5))


# Head masks


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
def test_a_masked_head_contributes_nothing(need_weights, num_kv_heads):
    layer, x, memory = layer_and_inputs(2, 4, 5, 4, 2, True, 7, num_kv_heads)
    output, _ = layer(x, memory, need_weights=need_weights)
    for head in range(4):
        head_mask = torch.ones(4)
        head_mask[head] = 0
        ablated = copy.deepcopy(layer)  # the columns of this head in the output projection are zero
        with torch.no_grad():
            ablated.out_proj.weight[:, 2 * head : 2 * head + 2] = 0
        masked, _ = layer(x, memory, need_weights=need_weights, head_mask=head_mask)
        torch.testing.assert_close(masked, ablated(x, memory, need_weights=need_weights)[0])
        assert torch.equal(layer(x, memory, need_weights=need_weights, head_mask=head_mask.bool())[0], masked)
        assert not torch.allclose(masked, output)


# Grouped-query attention and RoPE


@settings(max_examples=60, deadline=None)
@given(grouped_sizes, masks, st.booleans(), st.booleans(), st.booleans())
def test_grouped_query_attention_is_multi_head_attention_with_repeated_keys_and_values(
    size, kind, cross, rotary, need_weights
):
    layer, x, memory = layer_and_inputs(**size)
    if not cross:
        memory, size = x, {**size, "n": size["m"]}
    num_heads, num_kv_heads, d = size["num_heads"], size["num_kv_heads"], size["head_dim"]
    repeated = MultiHeadAttention(layer.dim, num_heads, bias=size["bias"]).double()
    with torch.no_grad():
        for own, shared in zip(repeated.in_proj.parameters(), layer.in_proj.parameters(), strict=True):
            query, *key_value = shared.split((layer.dim, num_kv_heads * d, num_kv_heads * d))
            parts = [part.unflatten(0, (num_kv_heads, d)) for part in key_value]
            parts = [part.repeat_interleave(num_heads // num_kv_heads, 0).flatten(0, 1) for part in parts]
            own.copy_(torch.cat([query, *parts]))
        repeated.out_proj.load_state_dict(layer.out_proj.state_dict())
    mask = draw_mask(kind, size["b"], size["m"], size["n"], size["seed"])
    options = {"mask": mask, "need_weights": need_weights}
    if rotary and not cross:
        options["rotation"] = rotary_embedding(torch.arange(size["m"]), d, dtype=torch.float64)
    results = []
    for attention_layer in (layer, repeated):
        x.grad = memory.grad = None
        output, weights = attention_layer(x, memory if cross else None, **options)
        backward(output)
        results.append([output, x.grad, memory.grad, *([weights] if need_weights else [])])
    for actual, expected in zip(*results, strict=True):
        assert_close(actual, expected)
    # The gradient of a shared key-value head is the sum over its group.
    query, *key_value = repeated.in_proj.weight.grad.split(layer.dim)
    grouped = [part.unflatten(0, (num_kv_heads, -1, d)).sum(1).flatten(0, 1) for part in key_value]
    assert_close(layer.in_proj.weight.grad, torch.cat([query, *grouped]), "gradient of in_proj")


@settings(max_examples=30, deadline=None)
@given(grouped_sizes)
def test_rotary_multi_head_attention_rotates_queries_and_keys_of_every_head_but_not_values(size):
    layer, x, _ = layer_and_inputs(**size)
    positions = torch.arange(size["m"]) + 3
    query, key, value = layer.project(x)
    rotation = rotary_embedding(positions, size["head_dim"], dtype=x.dtype)
    rotated = apply_rotary(query, rotation), apply_rotary(key, rotation), value
    for actual, expected in zip(layer.project(x, rotation), rotated, strict=True):
        assert_close(actual, expected)


# The key-value cache


@settings(max_examples=60, deadline=None)
@given(grouped_sizes, st.booleans(), st.booleans(), st.sampled_from(DTYPES), st.data())
@torch.no_grad()
def test_attention_with_the_cache_equals_causal_attention_to_all_tokens_at_once(size, rotary, ablate, dtype, data):
    layer, _, x = layer_and_inputs(**size, dtype=dtype)
    n, d = size["n"], size["head_dim"]
    rotation = rotary_embedding(torch.arange(n), d, dtype=dtype) if rotary else None
    options = {"head_mask": torch.arange(size["num_heads"]) % 2} if ablate else {}
    expected, expected_weights = layer(x, mask=causal_mask(n), need_weights=True, rotation=rotation, **options)
    cache, start = KVCache(n), 0
    while start < n:
        end = start + data.draw(st.integers(1, n - start))
        step = {"rotation": None if rotation is None else rotation[start:end], **options}
        output, weights = layer(x[:, start:end], need_weights=True, cache=cache, **step)
        assert cache.length == end
        assert_close(output, expected[:, start:end], f"tokens {start} to {end}")
        assert_close(weights, expected_weights[:, :, start:end, :end], f"weights of tokens {start} to {end}")
        start = end
    with pytest.raises(ValueError, match=f"at most {n} tokens, got {n + 1}"):
        layer(x[:, :1], cache=cache)


@settings(max_examples=30, deadline=None)
@given(sizes, st.sampled_from(["no mask", "padding", "a source of padding alone"]))
@torch.no_grad()
def test_cross_attention_to_cached_keys_and_values_equals_cross_attention(size, kind):
    layer, x, memory = layer_and_inputs(**size)
    mask = draw_mask("no" if kind == "no mask" else "padding", size["b"], 1, size["n"], size["seed"])
    if kind == "a source of padding alone":
        mask[0] = False
    cached = layer.cache_memory(memory, mask)
    for position in range(size["m"]):
        expected, expected_weights = layer(x[:, position : position + 1], memory, mask, need_weights=True)
        output, weights = layer.attend_cached(x[:, position], cached)
        assert_close(output, expected.squeeze(1))
        assert_close(weights, expected_weights.squeeze(2))


def test_options_that_a_cache_or_cross_attention_would_ignore_are_refused():
    layer, x, memory = layer_and_inputs(2, 4, 5, 3, 2, True, 0)
    with pytest.raises(ValueError, match="no mask with a cache"):
        layer(x, mask=causal_mask(4), cache=KVCache(4))
    for options in ({"cache": KVCache(4)}, {"rotation": rotary_embedding(torch.arange(4), 2, dtype=x.dtype)}):
        with pytest.raises(ValueError, match="in self-attention only"):
            layer(x, memory, **options)


def test_reordering_the_cache_lets_each_hypothesis_continue_its_parent():
    generator = torch.Generator().manual_seed(0)
    cache = KVCache(5)
    key, value = torch.randn(2, 3, 2, 4, 4, generator=generator, dtype=torch.float64)
    cache.append(key[:, :, :3], value[:, :, :3])
    rows = torch.tensor([2, 2, 0])
    cache.reorder(rows)
    all_keys, all_values = cache.append(key[:, :, 3:], value[:, :, 3:])
    for actual, tensor in ((all_keys, key), (all_values, value)):
        assert torch.equal(actual, torch.cat([tensor[rows, :, :3], tensor[:, :, 3:]], 2))

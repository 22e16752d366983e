"""Facts about Transformer layers, their stacks and the embedding: parity with torch, causality, padding, head masks, caches."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.parity import assert_close, assert_same_gradients, backward, randomize
from utils.models.attention import KVCache, SelfAttention, causal_mask
from utils.models.layers import DecoderLayer, Embedding, EncoderLayer, SwiGLU, TransformerDecoder, TransformerEncoder
from utils.models.positions import MaxLengthError, rotary_embedding, sinusoidal_positions
from utils.models.torch_weights import from_torch, to_torch

DTYPES = (torch.float64, torch.float32)
NORM_ORDERS = pytest.mark.parametrize("norm_first", [True, False])

# A token with one component is all rounding: its norm divides zero by the square root of eps. So head_dim is at least 2.
sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "n": st.integers(1, 7),
        "num_heads": st.integers(1, 3),
        "head_dim": st.integers(2, 5),
        "hidden_dim": st.integers(1, 11),
        "seed": st.integers(0, 2**31),
    }
)


def draw(b, n, num_heads, head_dim, hidden_dim, seed, dtype=torch.float64, num_layers=None, **options):
    """An encoder layer or a stack, x (b, n, dim), and an attention_mask with at least one token in each row."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num_heads * head_dim, num_heads, hidden_dim)
    if num_layers is None:
        module = EncoderLayer(*shape, **options)
    else:
        module = TransformerEncoder(num_layers, *shape, **options)
    randomize(module, seed)
    x = torch.randn(b, n, shape[0], generator=generator).to(dtype).requires_grad_()
    attention_mask = torch.arange(n) < torch.randint(1, n + 1, (b, 1), generator=generator)
    return module.to(dtype), x, attention_mask


def make_torch_layer(
    num_heads, head_dim, hidden_dim, norm_first, activation="relu", dtype=torch.float64, eps=1e-5
) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        num_heads * head_dim,
        num_heads,
        hidden_dim,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm_first,
        layer_norm_eps=eps,
        dtype=dtype,
    )


def make_torch_stack(layer, num_layers, final_norm=None):
    return nn.TransformerEncoder(layer, num_layers, final_norm, enable_nested_tensor=False)


# Parity with torch


@NORM_ORDERS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:.*nested.tensor")
def test_without_gradients_the_encoder_equals_the_fast_path_of_torch(norm_first, dtype):
    encoder, x, attention_mask = draw(
        3, 6, 2, 4, 9, 1, norm_first=norm_first, dtype=dtype, num_layers=2, final_norm=True
    )
    torch_layer = make_torch_layer(2, 4, 9, norm_first, dtype=dtype)
    torch_encoder = to_torch(encoder, nn.TransformerEncoder(torch_layer, 2, nn.LayerNorm(8, dtype=dtype))).eval()
    with torch.no_grad():
        output, _ = encoder.eval()(x, attention_mask.unsqueeze(1))
        expected = torch_encoder(x, src_key_padding_mask=~attention_mask)
    assert_close(output[attention_mask], expected[attention_mask], "output")


@settings(max_examples=100, deadline=None)
@given(
    sizes,
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["relu", "gelu"]),
    st.sampled_from(["no", "padding", "causal", "both"]),
    st.booleans(),
    st.sampled_from([1e-5, 1e-3]),
    st.sampled_from(DTYPES),
)
def test_the_encoder_equals_torch_forward_and_backward(
    size, num_layers, norm_first, activation, masked, final_norm, eps, dtype
):
    options = {"norm_first": norm_first, "activation": activation, "eps": eps, "dtype": dtype}
    encoder, x, attention_mask = draw(**size, num_layers=num_layers, final_norm=final_norm, **options)
    num_heads, head_dim, hidden_dim = size["num_heads"], size["head_dim"], size["hidden_dim"]
    torch_norm = nn.LayerNorm(num_heads * head_dim, eps, dtype=dtype) if final_norm else None
    torch_layer = make_torch_layer(num_heads, head_dim, hidden_dim, **options)
    torch_encoder = to_torch(encoder, make_torch_stack(torch_layer, num_layers, torch_norm))
    causal = causal_mask(size["n"])
    mask, torch_masks = {
        "no": (None, {}),
        "padding": (attention_mask.unsqueeze(1), {"src_key_padding_mask": ~attention_mask}),
        "causal": (causal, {"mask": ~causal}),
        "both": (attention_mask.unsqueeze(1) & causal, {"src_key_padding_mask": ~attention_mask, "mask": ~causal}),
    }[masked]
    results = []
    for run in (lambda: encoder(x, mask)[0], lambda: torch_encoder(x, **torch_masks)):
        x.grad = None
        output = run()[attention_mask]
        backward(output)
        results.append((output, x.grad))
    for what, actual, expected in zip(("output", "gradient of the input"), *results, strict=True):
        assert_close(actual, expected, what)
    assert_same_gradients(encoder, torch_encoder)


@NORM_ORDERS
def test_parameters_come_back_from_torch_as_they_went(norm_first):
    encoder, x, _ = draw(2, 5, 3, 2, 7, 3, norm_first=norm_first, num_layers=2, final_norm=True)
    torch_encoder = make_torch_stack(make_torch_layer(3, 2, 7, norm_first), 2, nn.LayerNorm(6).double())
    to_torch(encoder, torch_encoder)
    copied = TransformerEncoder(2, 6, 3, 7, norm_first=norm_first, final_norm=True).double()
    from_torch(torch_encoder, copied)
    for parameter, copied_parameter in zip(encoder.parameters(), copied.parameters(), strict=True):
        assert torch.equal(parameter, copied_parameter)
    assert torch.equal(encoder(x)[0], copied(x)[0])


def test_copying_refuses_another_norm_order_activation_eps_depth_or_final_norm():
    encoder = TransformerEncoder(2, 6, 3, 7, norm_first=True, final_norm=False)
    for torch_encoder in (
        make_torch_stack(make_torch_layer(3, 2, 7, False), 2),
        make_torch_stack(make_torch_layer(3, 2, 7, True, "gelu"), 2),
        make_torch_stack(make_torch_layer(3, 2, 7, True, eps=1e-3), 2),
        make_torch_stack(make_torch_layer(3, 2, 7, True), 3),
        make_torch_stack(make_torch_layer(3, 2, 7, True), 2, nn.LayerNorm(6)),
    ):
        for copy_weights in (lambda: to_torch(encoder, torch_encoder), lambda: from_torch(torch_encoder, encoder)):  # noqa: B023
            with pytest.raises(ValueError, match="same options"):
                copy_weights()


# The options of a layer


def test_without_norm_and_residual_connection_only_the_sublayers_are_left():
    layer, x, _ = draw(2, 5, 3, 2, 7, 3, norm_first=True, norm="none", residual=False)
    torch.testing.assert_close(layer(x)[0], layer.feed_forward(layer.self_attn(x)[0]))
    assert len(list(layer.parameters())) == 8
    layer, _, _ = draw(2, 5, 3, 2, 7, 3, norm_first=True, norm="none")
    y = x + layer.self_attn(x)[0]
    torch.testing.assert_close(layer(x)[0], y + layer.feed_forward(y))


def test_a_layer_around_single_head_attention_is_that_attention_with_residual_connections():
    x, mask = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0)), causal_mask(5)
    layer = EncoderLayer(6, 1, 11, norm_first=True, norm="none", self_attn=SelfAttention(6))
    output, weights = layer(x, mask, need_weights=True)
    context, expected_weights = layer.self_attn(x, mask)
    torch.testing.assert_close(output, x + context + layer.feed_forward(x + context))
    torch.testing.assert_close(weights, expected_weights)
    torch.testing.assert_close(layer(x, mask)[0], output)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_layer_of_llama_is_rms_norm_grouped_rotary_attention_and_swiglu(dtype):
    options = {"norm": "rms", "activation": "swiglu", "num_kv_heads": 2, "bias": False, "eps": 1e-3}
    layer, x, _ = draw(2, 5, 4, 2, 7, 3, norm_first=True, dtype=dtype, **options)
    rotation, mask = rotary_embedding(torch.arange(5), 2, dtype=dtype), causal_mask(5)
    assert isinstance(layer.feed_forward, SwiGLU) and all(parameter.dtype == dtype for parameter in layer.parameters())

    normalized = F.rms_norm(x, (8,), layer.norm1.weight, 1e-3)
    y = x + layer.self_attn(normalized, mask=mask, rotation=rotation)[0]
    gate, up = layer.feed_forward.linear1.weight.chunk(2)
    normalized = y * (y.square().mean(-1, keepdim=True) + 1e-3).rsqrt() * layer.norm2.weight
    hidden = F.silu(normalized @ gate.T) * (normalized @ up.T)
    assert_close(layer(x, mask, rotation=rotation)[0], y + hidden @ layer.feed_forward.linear2.weight.T)
    assert not [name for name, _ in layer.named_parameters() if "bias" in name]


def test_unknown_norms_activations_and_positions_are_refused():
    for make in (EncoderLayer, DecoderLayer):
        with pytest.raises(ValueError, match="expected norm of layer, rms, none, got 'batch'"):
            make(6, 3, norm_first=True, norm="batch")
        with pytest.raises(ValueError, match="expected activation of relu, gelu, got 'tanh'"):
            make(6, 3, norm_first=True, activation="tanh")
    with pytest.raises(ValueError, match="expected positions of sinusoidal, learned, rotary, none, got 'relative'"):
        Embedding(9, 6, positions="relative")


def test_dropout_acts_in_training_alone_and_only_on_the_output_of_a_sublayer():
    layer = EncoderLayer(6, 3, norm_first=True, dropout=1.0)
    x = torch.randn(2, 5, 6)
    assert torch.equal(layer(x)[0], x)  # the residual connection alone is left
    assert not torch.equal(layer.eval()(x)[0], x)


# Stacks of any kind: causality, caches, padding, head masks

kinds = st.fixed_dictionaries(
    {
        "norm_first": st.booleans(),
        "norm": st.sampled_from(["layer", "rms"]),
        "activation": st.sampled_from(["relu", "gelu", "swiglu"]),
        "rope_base": st.sampled_from([None, 10_000.0, 500.0]),
    }
)
# Heads in groups that share a key-value head, and an even head_dim, as RoPE needs it.
stack_sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "n": st.integers(1, 7),
        "heads": st.sampled_from([(1, 1), (2, 2), (2, 1), (3, 3), (4, 2), (3, 1)]),
        "head_dim": st.sampled_from([2, 4]),
        "hidden_dim": st.integers(1, 11),
        "seed": st.integers(0, 2**31),
    }
)


def draw_stack(heads, **options):
    num_heads, num_kv_heads = heads
    return draw(num_heads=num_heads, num_kv_heads=num_kv_heads, num_layers=2, **options)


@settings(max_examples=60, deadline=None)
@given(stack_sizes, kinds, st.booleans())
def test_under_the_causal_mask_no_gradient_comes_from_the_future(size, kind, need_weights):
    encoder, x, _ = draw_stack(**size, **kind)
    n = size["n"]
    output, _ = encoder(x, causal_mask(n), need_weights)
    for position in range(n):
        # Weighted: the plain sum of a normalized output has no gradient.
        target = (output[:, position] * torch.arange(1.0, x.size(-1) + 1).cos()).sum()
        (gradient,) = torch.autograd.grad(target, x, retain_graph=True)
        assert (gradient[:, position + 1 :] == 0).all()
    assert (gradient.abs().sum(-1) > 0).all()  # the last position depends on every token


@settings(max_examples=60, deadline=None)
@given(stack_sizes, kinds, st.booleans(), st.sampled_from(DTYPES), st.data())
@torch.no_grad()
def test_a_stack_with_the_cache_equals_one_without(size, kind, ablate, dtype, data):
    encoder, x, _ = draw_stack(**size, **kind, dtype=dtype)
    n, num_heads = size["n"], size["heads"][0]
    head_mask = torch.arange(2 * num_heads).view(2, num_heads) % 2 if ablate else None
    expected, expected_weights = encoder(x, causal_mask(n), True, head_mask)
    cache, start = [KVCache(n) for _ in range(2)], 0
    while start < n:
        end = start + data.draw(st.integers(1, n - start))
        output, weights = encoder(x[:, start:end], None, True, head_mask, cache)
        assert_close(output, expected[:, start:end], f"tokens {start} to {end}")
        for actual, whole in zip(weights, expected_weights, strict=True):
            assert_close(actual, whole[:, :, start:end, :end], f"weights of tokens {start} to {end}")
        start = end


@settings(max_examples=30, deadline=None)
@given(stack_sizes, kinds)
@torch.no_grad()
def test_with_rope_the_output_does_not_depend_on_the_position_of_the_first_token(size, kind):
    encoder, x, _ = draw_stack(**size, **{**kind, "rope_base": 500.0})
    output, _ = encoder(x)
    for layer in encoder.layers:
        x, _ = layer(x, rotation=rotary_embedding(torch.arange(100, 100 + size["n"]), size["head_dim"], 500.0, x.dtype))
    torch.testing.assert_close(encoder.norm(x), output, rtol=0, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(stack_sizes, kinds, st.booleans())
def test_padding_never_changes_a_token(size, kind, need_weights):
    encoder, x, attention_mask = draw_stack(**size, **kind)
    mask = attention_mask.unsqueeze(1)
    before, _ = encoder(x, mask, need_weights)
    with torch.no_grad():
        x[~attention_mask] = 1e3
    after, _ = encoder(x, mask, need_weights)
    assert torch.equal(before[attention_mask], after[attention_mask])
    length = int(attention_mask[0].sum())
    alone, _ = encoder(x[:1, :length], None, need_weights)
    torch.testing.assert_close(alone[0], after[0, :length])


@NORM_ORDERS
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", [{}, {"norm": "rms", "activation": "swiglu", "rope_base": 500.0, "num_kv_heads": 1}])
def test_a_sequence_of_padding_alone_gives_finite_outputs_and_gradients(norm_first, need_weights, kind):
    encoder, x, attention_mask = draw(2, 5, 3, 2, 7, 3, norm_first=norm_first, num_layers=2, **kind)
    attention_mask[0] = False
    output, weights = encoder(x, attention_mask.unsqueeze(1), need_weights)
    backward(output)
    assert output.isfinite().all() and x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())
    if need_weights:
        assert all((layer[0] == 0).all() and (layer[1].sum(-1) > 0.99).all() for layer in weights)


def test_heads_are_masked_layer_by_layer():
    encoder, x, _ = draw(2, 5, 3, 4, 7, 3, norm_first=True, num_layers=2)
    output, _ = encoder(x)
    assert torch.equal(encoder(x, head_mask=torch.ones(2, 3))[0], output)
    head_mask = torch.tensor([[1, 1, 1], [1, 0, 1]])
    masked, _ = encoder(x, head_mask=head_mask)
    y, _ = encoder.layers[1](encoder.layers[0](x)[0], head_mask=head_mask[1])
    assert torch.equal(encoder.norm(y), masked) and not torch.allclose(output, masked)


@pytest.mark.parametrize(("norm", "norm_class"), [("layer", nn.LayerNorm), ("rms", nn.RMSNorm), ("none", nn.Identity)])
@pytest.mark.parametrize("stack", [TransformerEncoder, TransformerDecoder])
def test_a_final_norm_stands_behind_pre_norm_layers_alone_and_is_of_their_kind(stack, norm, norm_class):
    assert type(stack(1, 6, 3, norm_first=True, norm=norm).norm) is norm_class
    assert type(stack(1, 6, 3, norm_first=False, norm=norm).norm) is nn.Identity


# The embedding


def test_untrained_token_embeddings_are_as_large_as_the_positions_and_sinusoids_never_end():
    embedding = Embedding(500, 64)
    assert (embedding.token_embedding.weight * 8).std().item() == pytest.approx(1.0, abs=0.02)
    token_ids = torch.randint(500, (2, 9))
    for start in (0, 3, 250, 1000):
        expected = embedding.token_embedding(token_ids) * 8 + sinusoidal_positions(9, 64, start=start)
        torch.testing.assert_close(embedding(token_ids, start), expected)
    assert [*embedding.state_dict()] == ["token_embedding.weight"]


def test_the_embedding_adds_learned_positions_segments_and_a_norm_on_request():
    token_ids = torch.randint(9, (2, 5))
    embedding = Embedding(9, 6, positions="learned", scale=False, max_len=8, num_types=2, eps=1e-3)
    randomize(embedding, 0)
    total = (
        embedding.token_embedding(token_ids)
        + embedding.position_embedding.weight[3:]
        + embedding.type_embedding.weight[0]
    )
    torch.testing.assert_close(
        embedding(token_ids, 3), F.layer_norm(total, (6,), embedding.norm.weight, embedding.norm.bias, 1e-3)
    )
    for positions in ("rotary", "none"):
        embedding = Embedding(9, 6, positions=positions, scale=False)
        assert torch.equal(embedding(token_ids, 3), embedding.token_embedding(token_ids))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
def test_a_text_longer_than_max_len_is_refused(positions):
    embedding = Embedding(9, 6, positions=positions, max_len=5)
    assert embedding(torch.zeros(2, 3, dtype=torch.long), start=2).shape == (2, 3, 6)
    with pytest.raises(MaxLengthError, match="cut the text"):
        embedding(torch.zeros(2, 3, dtype=torch.long), start=3)


def test_learned_positions_need_max_len():
    with pytest.raises(ValueError, match="expected max_len"):
        Embedding(9, 6, positions="learned")


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
@torch.no_grad()
def test_the_mean_output_depends_on_token_order_exactly_with_positions_or_a_causal_mask(positions):
    embedding = Embedding(9, 8, positions=positions, max_len=None if positions != "learned" else 106).double()
    rope_base = 10_000.0 if positions == "rotary" else None
    encoder = TransformerEncoder(2, 8, 2, norm_first=True, final_norm=False, rope_base=rope_base).double()
    randomize(embedding, 0)
    randomize(encoder, 1)

    def mean_output(token_ids, mask=None, start=0):
        return encoder(embedding(token_ids, start), mask)[0].mean(1)

    token_ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    expected = mean_output(token_ids)
    reversed_change = (mean_output(token_ids.flip(1)) - expected).abs().max()
    assert (reversed_change < 1e-12) == (positions == "none")
    causal = causal_mask(6)
    assert (mean_output(token_ids.flip(1), causal) - mean_output(token_ids, causal)).abs().max() > 1e-6
    # Absolute positions notice where the text starts; rotary positions see distances alone.
    shifted_change = (mean_output(token_ids, start=100) - expected).abs().max()
    assert (shifted_change < 1e-9) == (positions in ("rotary", "none"))

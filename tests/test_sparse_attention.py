"""Facts about sparse attention: it equals full attention with its mask; test_costs measures its cost."""

import pytest
import torch

from utils.models.attention import MultiHeadAttention, attention, causal_mask
from utils.models.layers import TransformerEncoder
from utils.models.sparse_attention import (
    MIN_BLOCK,
    BigBirdAttention,
    LinformerAttention,
    LocalAttention,
    bigbird_attention,
    bigbird_mask,
    linformer_attention,
    local_attention,
    local_attention_mask,
    random_key_positions,
)

LENGTHS = (1, 2, 31, 32, 33, 70, 129)


def tensors(n, seed=0, gradient=False, batch=2, heads=3):
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(batch, heads, n, width, generator=generator, dtype=torch.float64, requires_grad=gradient)
        for width in (4, 4, 5)
    )


# Masks


def test_a_local_mask_is_a_band():
    assert local_attention_mask(4, 1).int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert local_attention_mask(3, 1, causal=True).int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert torch.equal(local_attention_mask(7, 9, causal=True), causal_mask(7))


def test_a_bigbird_mask_is_a_band_global_tokens_and_random_keys():
    n, window, global_tokens, random_keys = 200, 10, 3, 4
    mask = bigbird_mask(n, window, global_tokens, random_keys, seed=5)
    assert mask[:global_tokens].all() and mask[:, :global_tokens].all()
    band = local_attention_mask(n, window)
    assert mask[band].all()
    random = mask & ~band
    random[:, :global_tokens] = random[:global_tokens] = False
    assert (random[global_tokens:].sum(1) == random_keys).all()
    assert not torch.equal(mask, bigbird_mask(n, window, global_tokens, random_keys, seed=6))
    assert torch.equal(mask, bigbird_mask(n, window, global_tokens, random_keys, seed=5))


def test_random_keys_are_distinct_and_outside_the_windows_of_their_block():
    for n in (1, 40, 77, 150):
        positions = random_key_positions(n, 20, 3, 12, seed=2)
        block = min(n, MIN_BLOCK)
        assert positions.shape == (-(-n // block), 12)
        for index, row in enumerate(positions.tolist()):
            keys = [key for key in row if key >= 0]
            start = index * block
            outside = [k for k in range(3, n) if k < start - 20 or k >= start + block + 20]
            assert len(set(keys)) == len(keys) == min(12, len(outside)) and set(keys) <= set(outside)


# The same as full attention


def test_local_attention_equals_full_attention_with_its_mask():
    for n in LENGTHS:
        for window in (0, 1, 16, 40, 300):
            inputs = tensors(n, n)
            expected, _ = attention(*inputs, local_attention_mask(n, window))
            assert torch.allclose(local_attention(*inputs, window), expected), (n, window)


def test_bigbird_attention_equals_full_attention_with_its_mask():
    for n in LENGTHS:
        for window in (0, 1, 40):
            for global_tokens, random_keys in ((0, 0), (2, 0), (0, 3), (2, 5), (60, 7)):
                inputs, shape = tensors(n, n), (window, global_tokens, random_keys, 3)
                expected, _ = attention(*inputs, bigbird_mask(n, *shape))
                assert torch.allclose(bigbird_attention(*inputs, *shape), expected), (n, shape)


@pytest.mark.parametrize("kind", ["local", "bigbird"])
def test_the_gradients_are_those_of_full_attention(kind):
    n, inputs = 75, tensors(75, gradient=True)
    if kind == "bigbird":
        output, mask = bigbird_attention(*inputs, 6, 2, 5, 1), bigbird_mask(n, 6, 2, 5, 1)
    else:
        output, mask = local_attention(*inputs, 6), local_attention_mask(n, 6)
    probe = torch.randn_like(output)
    gradients = torch.autograd.grad(output, inputs, probe)
    expected = torch.autograd.grad(attention(*inputs, mask)[0], inputs, probe)
    for gradient, reference in zip(gradients, expected, strict=True):
        assert torch.allclose(gradient, reference)


def test_linformer_attends_to_projected_keys_and_refuses_longer_texts():
    query, key, value = tensors(7)
    projection = torch.randn(3, 9, dtype=torch.float64)
    expected = attention(query, projection[:, :7] @ key, projection[:, :7] @ value)[0]
    assert torch.allclose(linformer_attention(query, key, value, projection), expected)
    # With as many projected keys as tokens, one token each, nothing is lost.
    identity = torch.eye(7, dtype=torch.float64)
    assert torch.allclose(linformer_attention(query, key, value, identity), attention(query, key, value)[0])
    with pytest.raises(ValueError, match="at most 9 tokens, got 10"):
        linformer_attention(*tensors(10), projection)


# Layers


LAYERS = {
    "local": lambda: LocalAttention(12, 3, 4),
    "bigbird": lambda: BigBirdAttention(12, 3, 4, 2, 3, seed=1),
    "linformer": lambda: LinformerAttention(12, 3, 5, 60),
}
MASKS = {"local": local_attention_mask(50, 4), "bigbird": bigbird_mask(50, 4, 2, 3, seed=1)}


@pytest.mark.parametrize("kind", MASKS)
def test_a_layer_is_multi_head_attention_with_the_mask_of_its_kind(kind):
    layer, x = LAYERS[kind]().double(), torch.randn(2, 50, 12).double()
    plain = MultiHeadAttention(12, 3).double()
    plain.load_state_dict(layer.state_dict())
    assert torch.allclose(layer(x)[0], plain(x, mask=MASKS[kind])[0])


@pytest.mark.parametrize("kind", LAYERS)
def test_a_mask_is_refused_and_never_silently_ignored(kind):
    layer, x = LAYERS[kind](), torch.randn(2, 10, 12)
    for mask, need_weights in ((causal_mask(10), False), (None, True)):
        with pytest.raises(ValueError, match="takes no mask"):
            layer(x, mask, need_weights)
    for option in ("memory", "head_mask", "rotation", "cache"):
        with pytest.raises(TypeError, match=option):
            layer(x, **{option: None})


def reach(kind, layers, n=120):
    """Which positions the middle token's output depends on, in an encoder that starts as one with full attention."""
    options = {"num_layers": layers, "dim": 12, "num_heads": 3, "hidden_dim": 24, "norm_first": True}
    torch.manual_seed(0)
    full = TransformerEncoder(**options).state_dict()
    torch.manual_seed(0)
    encoder = TransformerEncoder(**options, self_attn=LAYERS[kind])
    assert all(torch.equal(encoder.state_dict()[name], value) for name, value in full.items())
    encoder.double()
    x = torch.randn(1, n, 12, dtype=torch.float64, requires_grad=True)
    probe = torch.arange(12).double().square()  # a plain sum would be 0: the last norm makes it so
    (gradient,) = torch.autograd.grad(encoder(x)[0][0, n // 2] @ probe, x)
    return (gradient[0].abs().sum(-1) > 0).nonzero().flatten().tolist()


def test_windows_reach_layers_times_window_and_a_global_token_reaches_all_in_two_layers():
    for layers in (1, 2, 3):
        assert reach("local", layers) == list(range(60 - 4 * layers, 60 + 4 * layers + 1))
    assert len(reach("bigbird", 1)) == 9 + 2 + 3
    assert len(reach("bigbird", 2)) == 120

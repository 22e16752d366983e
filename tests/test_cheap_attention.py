"""Facts about attention that looks at few pairs: it equals full attention with its mask, and its cost is linear."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from utils.models.attention import attention
from utils.models.cheap_attention import (
    SMALLEST_BLOCK,
    BigBirdAttention,
    LinformerAttention,
    LocalAttention,
    bigbird_attention,
    bigbird_mask,
    linformer_attention,
    local_attention,
    local_attention_mask,
    random_links,
    with_attention,
)
from utils.models.encoder import Encoder, EncoderLayer
from utils.models.multi_head import MultiHeadAttention
from utils.models.self_attention import causal_mask

LENGTHS = (1, 2, 31, 32, 33, 70, 129)
WINDOWS = (0, 1, 16, 40, 300)


def tensors(n, seed=0, gradient=False, batch=2, heads=3):
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(batch, heads, n, width, generator=generator, dtype=torch.float64, requires_grad=gradient)
        for width in (4, 4, 5)
    )


def some_real(n, seed=0, batch=2):
    """Padding anywhere, and a last sentence of nothing but padding."""
    real = torch.rand(batch, n, generator=torch.Generator().manual_seed(seed)) < 0.6
    real[-1] = False
    return real


def full(query, key, value, mask, real=None):
    return attention(query, key, value, mask if real is None else mask & real[:, None, None, :])[0]


# Masks


def test_a_local_mask_is_a_band():
    assert local_attention_mask(5, 1).int().tolist() == [
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1],
        [0, 0, 0, 1, 1],
    ]
    assert local_attention_mask(4, 1, causal=True).int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 1],
    ]
    assert torch.equal(local_attention_mask(6, 0), torch.eye(6, dtype=torch.bool))
    assert local_attention_mask(6, 5).all()
    assert torch.equal(local_attention_mask(7, 9, causal=True), causal_mask(7))


def test_a_bigbird_mask_is_a_band_two_bars_and_links_from_elsewhere():
    n, window, global_tokens, random_keys = 200, 10, 3, 4
    mask = bigbird_mask(n, window, global_tokens, random_keys, seed=5)
    assert mask[:global_tokens].all() and mask[:, :global_tokens].all()
    band = local_attention_mask(n, window)
    assert mask[band].all()
    links = mask & ~band
    links[:, :global_tokens] = links[:global_tokens] = False
    assert (links[global_tokens:].sum(1) == random_keys).all()
    # The queries of a block share their links, and no query of the block has one in its window.
    for start in range(0, n, SMALLEST_BLOCK):
        rows = links[max(start, global_tokens) : start + SMALLEST_BLOCK]
        assert (rows == rows[0]).all()
    assert not torch.equal(mask, bigbird_mask(n, window, global_tokens, random_keys, seed=6))
    assert torch.equal(mask, bigbird_mask(n, window, global_tokens, random_keys, seed=5))
    assert bigbird_mask(5, 1, 9, 2).all()


def test_links_are_different_places_outside_the_windows_and_fewer_when_there_are_fewer():
    for n in (1, 40, 77, 150):
        links = random_links(n, 20, 3, 12, seed=2)
        block = min(n, SMALLEST_BLOCK)
        assert links.shape == (-(-n // block), 12)
        for number, row in enumerate(links.tolist()):
            keys = [key for key in row if key >= 0]
            start = number * block
            outside = [k for k in range(3, n) if k < start - 20 or k >= start + block + 20]
            assert len(set(keys)) == len(keys) == min(12, len(outside)) and set(keys) <= set(outside)


# The same as full attention


@pytest.mark.parametrize("causal", [False, True])
def test_local_attention_equals_full_attention_with_its_mask(causal):
    for n in LENGTHS:
        for window in WINDOWS:
            query, key, value = tensors(n, n)
            mask = local_attention_mask(n, window, causal)
            for real in (None, some_real(n)):
                found = local_attention(query, key, value, window, causal, real)
                assert torch.allclose(found, full(query, key, value, mask, real)), (n, window)


def test_bigbird_attention_equals_full_attention_with_its_mask():
    for n in LENGTHS:
        for window in (0, 1, 40):
            for global_tokens, random_keys in ((0, 0), (2, 0), (0, 3), (2, 5), (60, 7)):
                query, key, value = tensors(n, n)
                mask = bigbird_mask(n, window, global_tokens, random_keys, 3)
                for real in (None, some_real(n)):
                    found = bigbird_attention(query, key, value, window, global_tokens, random_keys, 3, real)
                    assert torch.allclose(found, full(query, key, value, mask, real)), (n, window, global_tokens)


@pytest.mark.parametrize("kind", ["local", "causal", "bigbird"])
@pytest.mark.parametrize("padded", [False, True])
def test_the_gradients_are_those_of_full_attention(kind, padded):
    n = 75
    inputs, real = tensors(n, gradient=True), some_real(n) if padded else None
    if kind == "bigbird":
        found, mask = bigbird_attention(*inputs, 6, 2, 5, 1, real), bigbird_mask(n, 6, 2, 5, 1)
    else:
        causal = kind == "causal"
        found, mask = local_attention(*inputs, 6, causal, real), local_attention_mask(n, 6, causal)
    probe = torch.randn_like(found)
    ours = torch.autograd.grad(found, inputs, probe)
    theirs = torch.autograd.grad(full(*inputs, mask, real), inputs, probe)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other) and one.isfinite().all()


def test_one_sentence_needs_no_batch_axis_and_many_axes_do_no_harm():
    query, key, value = (x[0, 0] for x in tensors(40))
    expected = attention(query, key, value, local_attention_mask(40, 3))[0]
    assert torch.allclose(local_attention(query, key, value, 3), expected)
    wide = (x.expand(2, 1, 3, 40, -1) for x in (query, key, value))
    assert torch.allclose(local_attention(*wide, 3), expected.expand(2, 1, 3, -1, -1))
    real = some_real(40)[0]
    expected = attention(query, key, value, bigbird_mask(40, 3, 1, 2) & real)[0]
    assert torch.allclose(bigbird_attention(query, key, value, 3, 1, 2, real=real), expected)


def test_linformer_attends_to_mixtures_and_leaves_padding_out():
    query, key, value = tensors(7)
    project = torch.randn(3, 9, dtype=torch.float64)
    expected = attention(query, project[:, :7] @ key, project[:, :7] @ value)[0]
    assert torch.allclose(linformer_attention(query, key, value, project), expected)
    # With as many mixtures as tokens, each of one token, nothing is lost.
    every = torch.eye(7, dtype=torch.float64)
    assert torch.allclose(linformer_attention(query, key, value, every), attention(query, key, value)[0])
    real = torch.tensor([[True] * 5 + [False] * 2] * 2)
    found = linformer_attention(query, key, value, project, real)
    short = linformer_attention(*(x[..., :5, :] for x in (query, key, value)), project)
    assert torch.allclose(found[..., :5, :], short)
    with pytest.raises(ValueError, match="at most 9 tokens, got 10"):
        linformer_attention(*tensors(10), project)


# The cost


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes, forward and backward."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        sizes = [one.untyped_storage().nbytes() for one in tree_leaves(found) if isinstance(one, torch.Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return found


RUNS = {
    "local": lambda q, k, v, real: local_attention(q, k, v, 8, False, real),
    "causal": lambda q, k, v, real: local_attention(q, k, v, 8, True, real),
    "bigbird": lambda q, k, v, real: bigbird_attention(q, k, v, 8, 2, 4, 0, real),
    "linformer": lambda q, k, v, real: linformer_attention(q, k, v, torch.ones(6, q.size(-2)).double(), real),
    "full": lambda q, k, v, real: attention(q, k, v, real[:, None, None, :])[0],
}


def largest(kind, n):
    inputs, real = tensors(n, gradient=True, heads=1), some_real(n)
    with Largest() as noted:
        RUNS[kind](*inputs, real).sum().backward()
    return noted.numbers


def products(kind, n):
    inputs, real = tensors(n, gradient=True, heads=1), some_real(n)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # the fused kernel is not counted
        RUNS[kind](*inputs, real).sum().backward()
    assert counter.get_total_flops() > 0
    return counter.get_total_flops()


@pytest.mark.parametrize("kind", ["local", "causal", "bigbird", "linformer"])
def test_no_tensor_and_no_count_of_products_grows_faster_than_the_length(kind):
    assert largest(kind, 1024) <= 2.05 * largest(kind, 512)
    assert products(kind, 1024) <= 2.05 * products(kind, 512)
    assert largest(kind, 1024) < largest("full", 1024) / 8


def test_the_test_above_would_see_a_matrix_of_all_pairs():
    assert largest("full", 1024) == pytest.approx(4 * largest("full", 512))
    assert products("full", 1024) == pytest.approx(4 * products("full", 512))


# Refusals


def test_refusals_say_what_was_expected():
    query, key, value = tensors(6)
    with pytest.raises(ValueError, match="window of 0 or more .* got -1"):
        local_attention(query, key, value, -1)
    with pytest.raises(ValueError, match="one length.* 6, 5 and 5"):
        local_attention(query, key[..., :5, :], value[..., :5, :], 2)
    with pytest.raises(ValueError, match=r"bool mask \(2, 6\), .* got torch.bool \(2, 5\)"):
        local_attention(query, key, value, 2, real=torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="got torch.float32"):
        bigbird_attention(query, key, value, 2, 1, 1, real=torch.ones(2, 6))
    with pytest.raises(ValueError, match="0 or more global tokens"):
        bigbird_mask(6, 1, -1, 2)
    with pytest.raises(ValueError, match="from 1 to 8 mixtures"):
        LinformerAttention(6, 2, 9, 8)


# Layers


LAYERS = {
    "local": lambda: LocalAttention(12, 3, 4),
    "causal": lambda: LocalAttention(12, 3, 4, causal=True),
    "bigbird": lambda: BigBirdAttention(12, 3, 4, 2, 3, seed=1),
    "linformer": lambda: LinformerAttention(12, 3, 5, 60),
}


def made(kind, seed=0):
    torch.manual_seed(seed)
    return LAYERS[kind]().double()


@pytest.mark.parametrize("kind", ["local", "causal", "bigbird"])
def test_a_layer_is_multi_head_attention_with_the_mask_of_its_kind(kind):
    layer, x, real = made(kind), torch.randn(2, 50, 12).double(), some_real(50)
    plain = MultiHeadAttention(12, 3).double()
    plain.load_state_dict(layer.state_dict())
    gates = torch.tensor([1.0, 0.0, 0.5]).double()
    for mask in (None, real.unsqueeze(1)):
        whole = layer.mask(50) if mask is None else layer.mask(50) & mask
        expected, weights = plain(x, mask=whole, need_weights=True, heads_on=gates)
        cheap, nothing = layer(x, mask=mask, heads_on=gates)
        assert nothing is None and torch.allclose(cheap, expected)
        found, seen = layer(x, mask=mask, need_weights=True, heads_on=gates)
        assert torch.allclose(found, expected) and torch.allclose(seen, weights)


def test_linformers_weights_are_over_its_mixtures_and_are_those_it_used():
    layer, x = made("linformer"), torch.randn(2, 50, 12).double()
    mask = some_real(50).unsqueeze(1)
    found, weights = layer(x, mask=mask, need_weights=True)
    assert weights.shape == (2, 3, 50, 5) and torch.allclose(weights.sum(-1), torch.ones(2, 3, 50).double())
    assert torch.allclose(found, layer(x, mask=mask)[0])
    assert torch.allclose(layer.mixtures.square().sum(1), torch.ones(5).double())
    assert layer.mixtures.count_nonzero(0).eq(1).all()  # at first each place is in one mixture
    layer(x)[0].sum().backward()
    assert layer.mixtures.grad[:, :50].abs().min() > 0 and not layer.mixtures.grad[:, 50:].any()


@pytest.mark.parametrize("kind", list(LAYERS))
def test_a_layer_refuses_masks_that_are_not_padding_and_two_sentences(kind):
    layer, x = made(kind), torch.randn(2, 10, 12).double()
    with pytest.raises(ValueError, match=r"padding mask \(2, 1, 10\), got \(10, 10\)"):
        layer(x, mask=causal_mask(10))
    with pytest.raises(ValueError, match="got 10, 7 and 7"):
        layer(x, x[:, :7])


@pytest.mark.parametrize("kind", list(LAYERS))
def test_it_stands_in_the_encoder_and_keeps_the_projections_that_were_there(kind):
    torch.manual_seed(0)
    encoder = Encoder(2, 12, 3, 24, norm="pre").double()
    before = encoder.layers[1].attention.project.weight.clone()
    assert with_attention(encoder, lambda: LAYERS[kind]().double()) is encoder
    assert torch.equal(encoder.layers[1].attention.project.weight, before)
    x, real = torch.randn(2, 40, 12).double(), torch.arange(40) < torch.tensor([[40], [25]])
    found, weights = encoder(x, real.unsqueeze(1), need_weights=True)
    assert torch.allclose(found, encoder(x, real.unsqueeze(1))[0]) and len(weights) == 2
    changed = x.clone()
    changed[1, 25:] += 1
    assert torch.equal(encoder(changed, real.unsqueeze(1))[0][1, :25], encoder(x, real.unsqueeze(1))[0][1, :25])
    assert isinstance(encoder.layers[0], EncoderLayer)


def reach(kind, layers, n=120):
    """Which places the middle token's output depends on."""
    torch.manual_seed(0)
    encoder = with_attention(Encoder(layers, 12, 3, 24, norm="pre"), LAYERS[kind]).double()
    x = torch.randn(1, n, 12, dtype=torch.float64, requires_grad=True)
    probe = torch.arange(12).double().square()  # a plain sum would be 0: the last norm makes it so
    (gradient,) = torch.autograd.grad(encoder(x)[0][0, n // 2] @ probe, x)
    return (gradient[0].abs().sum(-1) > 0).nonzero().flatten().tolist()


def test_windows_reach_layers_times_window_and_a_global_token_reaches_all_in_two_layers():
    for layers in (1, 2, 3):
        assert reach("local", layers) == list(range(60 - 4 * layers, 60 + 4 * layers + 1))
        assert reach("causal", layers) == list(range(60 - 4 * layers, 61))
    assert len(reach("bigbird", 1)) == 9 + 2 + 3
    assert len(reach("bigbird", 2)) == 120

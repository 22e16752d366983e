"""Facts about the Transformer encoder layer and the stack: parity with torch, padding, head masks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.parity import assert_close, assert_same_gradients, backward, scramble
from utils.models.encoder import Encoder, EncoderLayer
from utils.models.self_attention import causal_mask
from utils.models.torch_weights import from_torch, to_torch

DTYPES = (torch.float64, torch.float32)
ORDERS = ("pre", "post")

# A token of one feature is all rounding: its norm divides nothing by the root of eps. So a head is at least two wide.
sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "n": st.integers(1, 7),
        "heads": st.integers(1, 3),
        "width": st.integers(2, 5),
        "hidden": st.integers(1, 11),
        "seed": st.integers(0, 2**31),
    }
)


def draw(b, n, heads, width, hidden, seed, dtype=torch.float64, layers=None, **options):
    generator = torch.Generator().manual_seed(seed)
    shape = (heads * width, heads, hidden)
    module = EncoderLayer(*shape, **options) if layers is None else Encoder(layers, *shape, **options)
    scramble(module, seed)
    x = torch.randn(b, n, heads * width, generator=generator).to(dtype).requires_grad_()
    real = torch.arange(n) < torch.randint(1, n + 1, (b, 1), generator=generator)
    return module.to(dtype), x, real


def torchs_layer(heads, width, hidden, norm, activation="relu", dtype=torch.float64, eps=1e-5):
    return nn.TransformerEncoderLayer(
        heads * width,
        heads,
        hidden,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm == "pre",
        layer_norm_eps=eps,
        dtype=dtype,
    )


def torchs_stack(layer, layers, final=None):
    return nn.TransformerEncoder(layer, layers, final, enable_nested_tensor=False)


def compare(ours, theirs, x, real, masks, their_masks):
    """Outputs at the real tokens, and the gradients that come from there."""
    results = []
    for run in (lambda: ours(x, **masks)[0], lambda: theirs(x, **their_masks)):
        x.grad = None
        output = run()[real]
        backward(output)
        results.append((output, x.grad))
    for what, got, want in zip(("output", "gradient of the input"), *results, strict=True):
        assert_close(got, want, what)
    assert_same_gradients(ours, theirs)


# The layer


@pytest.mark.parametrize("norm", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:.*nested.tensor")
def test_without_gradients_the_layer_equals_torchs_fast_path_at_the_real_tokens(norm, dtype):
    ours, x, real = draw(3, 6, 2, 4, 9, 1, norm=norm, dtype=dtype, layers=2, final_norm=True)
    theirs = nn.TransformerEncoder(torchs_layer(2, 4, 9, norm, dtype=dtype), 2, nn.LayerNorm(8, dtype=dtype))
    theirs = to_torch(ours, theirs).eval()
    with torch.no_grad():
        assert_close(ours.eval()(x, real.unsqueeze(1))[0][real], theirs(x, src_key_padding_mask=~real)[real], "output")


@settings(max_examples=100, deadline=None)
@given(
    sizes,
    st.integers(1, 3),
    st.sampled_from(ORDERS),
    st.sampled_from(["relu", "gelu"]),
    st.sampled_from(["no", "padding", "causal", "both"]),
    st.booleans(),
    st.sampled_from([1e-5, 1e-3]),
    st.sampled_from(DTYPES),
)
def test_the_stack_equals_torchs_forward_and_backward(size, layers, norm, activation, masked, final_norm, eps, dtype):
    options = {"norm": norm, "activation": activation, "eps": eps, "dtype": dtype}
    ours, x, real = draw(**size, layers=layers, final_norm=final_norm, **options)
    layer = torchs_layer(size["heads"], size["width"], size["hidden"], **options)
    final = nn.LayerNorm(size["heads"] * size["width"], eps, dtype=dtype) if final_norm else None
    theirs = to_torch(ours, torchs_stack(layer, layers, final))
    causal = causal_mask(size["n"])
    mask, their_masks = {
        "no": (None, {}),
        "padding": (real.unsqueeze(1), {"src_key_padding_mask": ~real}),
        "causal": (causal, {"mask": ~causal}),
        "both": (real.unsqueeze(1) & causal, {"src_key_padding_mask": ~real, "mask": ~causal}),
    }[masked]
    compare(ours, theirs, x, real, {"mask": mask}, their_masks)


@pytest.mark.parametrize("norm", ORDERS)
def test_the_stacks_parameters_come_back_from_torch_as_they_went(norm):
    ours, x, _ = draw(2, 5, 3, 2, 7, 3, norm=norm, layers=2, final_norm=True)
    theirs = to_torch(ours, torchs_stack(torchs_layer(3, 2, 7, norm), 2, nn.LayerNorm(6).double()))
    back = from_torch(theirs, Encoder(2, 6, 3, 7, norm=norm, final_norm=True).double())
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), back.parameters(), strict=True))
    assert torch.equal(ours(x)[0], back(x)[0])


def test_copying_refuses_another_order_activation_depth_or_final_norm():
    ours = Encoder(2, 6, 3, 7, norm="pre", final_norm=False)
    for theirs, message in (
        (torchs_stack(torchs_layer(3, 2, 7, "post"), 2), "same norm on both sides, got pre here and post"),
        (torchs_stack(torchs_layer(3, 2, 7, "pre", "gelu"), 2), "activation to be relu"),
        (torchs_stack(torchs_layer(3, 2, 7, "pre", eps=1e-3), 2), "same eps"),
        (torchs_stack(torchs_layer(3, 2, 7, "pre"), 3), "same layers on both sides, got 2 here and 3"),
        (torchs_stack(torchs_layer(3, 2, 7, "pre"), 2, nn.LayerNorm(6)), "same final norm"),
    ):
        with pytest.raises(ValueError, match=message):
            to_torch(ours, theirs)


def test_without_norm_and_without_residuals_only_the_parts_are_left():
    bare, x, _ = draw(2, 5, 3, 2, 7, 3, norm="none", residual=False)
    torch.testing.assert_close(bare(x)[0], bare.feed_forward(bare.attention(x)[0]))
    assert len(list(bare.parameters())) == 8
    plain, _, _ = draw(2, 5, 3, 2, 7, 3, norm="none")
    y = x + plain.attention(x)[0]
    torch.testing.assert_close(plain(x)[0], y + plain.feed_forward(y))


def test_unknown_norms_and_activations_are_refused():
    with pytest.raises(ValueError, match="expected norm of pre, post, none, got 'middle'"):
        EncoderLayer(6, 3, norm="middle")
    with pytest.raises(ValueError, match="expected activation of relu, gelu, got 'tanh'"):
        EncoderLayer(6, 3, norm="pre", activation="tanh")


def test_dropout_acts_in_training_alone_and_only_on_what_is_added():
    layer = EncoderLayer(6, 3, norm="pre", dropout=1.0)
    x = torch.randn(2, 5, 6)
    assert torch.equal(layer(x)[0], x)  # everything that the parts found is dropped
    assert not torch.equal(layer.eval()(x)[0], x)


# The stack


@settings(max_examples=30, deadline=None)
@given(sizes, st.sampled_from(ORDERS), st.booleans())
def test_padding_never_changes_a_real_token(size, norm, need_weights):
    encoder, x, real = draw(**size, norm=norm, layers=2)
    before, _ = encoder(x, real.unsqueeze(1), need_weights)
    with torch.no_grad():
        x[~real] = 1e3
    after, _ = encoder(x, real.unsqueeze(1), need_weights)
    assert torch.equal(before[real], after[real])
    short = int(real[0].sum())
    alone, _ = encoder(x[:1, :short], None, need_weights)
    torch.testing.assert_close(alone[0], after[0, :short])


@pytest.mark.parametrize("norm", ORDERS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_sentence_of_padding_alone_gives_finite_numbers_and_gradients(norm, need_weights):
    encoder, x, real = draw(2, 5, 3, 2, 7, 3, norm=norm, layers=2)
    real[0] = False
    output, weights = encoder(x, real.unsqueeze(1), need_weights)
    backward(output)
    assert output.isfinite().all() and x.grad.isfinite().all()
    assert all(one.grad.isfinite().all() for one in encoder.parameters())
    if need_weights:
        assert all((one[0] == 0).all() and (one[1].sum(-1) > 0.99).all() for one in weights)


def test_heads_are_switched_off_layer_by_layer():
    encoder, x, _ = draw(2, 5, 3, 4, 7, 3, norm="pre", layers=2)
    output, _ = encoder(x)
    assert torch.equal(encoder(x, heads_on=torch.ones(2, 3))[0], output)
    switches = torch.tensor([[1, 1, 1], [1, 0, 1]])
    without, _ = encoder(x, heads_on=switches)
    assert torch.equal(encoder(x, heads_on=[None, switches[1]])[0], without)
    y, _ = encoder.layers[1](encoder.layers[0](x)[0], heads_on=switches[1])
    assert torch.equal(encoder.final_norm(y), without) and not torch.allclose(output, without)

"""Facts about the decoder, the whole Transformer and its key-value cache."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.parity import assert_close, backward, scramble
from utils.models.positions import sinusoidal_positions
from utils.models.self_attention import causal_mask
from utils.models.torch_weights import parameter_pairs, to_torch
from utils.models.transformer import Transformer, WordVectors

DTYPES = (torch.float64, torch.float32)
ORDERS = ("pre", "post")
PAD = 0

sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "n": st.integers(1, 6),
        "m": st.integers(1, 5),
        "heads": st.integers(1, 3),
        "half": st.integers(1, 2),  # of a head's width; sinusoids come in pairs
        "hidden": st.integers(1, 9),
        "layers": st.integers(1, 2),
        "seed": st.integers(0, 2**31),
    }
)


def model_of(heads=3, half=2, hidden=7, layers=2, norm="pre", dtype=torch.float64, seed=0, **options):
    options = {"dropout": 0.0, **options}
    model = Transformer(11, 13, 2 * half * heads, heads, hidden, layers, norm=norm, **options)
    scramble(model, seed)
    return model.to(dtype)


def draw_words(b, n, m, seed=0):
    """Source (b, n) with its mask and target (b, m): 0 is padding, and every sentence has at least one word."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(1, 11, (b, n), generator=generator)
    real = torch.arange(n) < torch.randint(1, n + 1, (b, 1), generator=generator)
    return source.masked_fill(~real, PAD), real, torch.randint(1, 13, (b, m), generator=generator)


def torchs_model(dim, heads, hidden, layers, norm, dtype, activation, final_norm):
    model = nn.Transformer(
        dim,
        heads,
        layers,
        layers,
        hidden,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm == "pre",
        dtype=dtype,
    )
    model.encoder.enable_nested_tensor = False
    if not final_norm:
        model.encoder.norm = model.decoder.norm = None
    return model


# Equal to torch's


@settings(max_examples=60, deadline=None)
@given(
    sizes,
    st.sampled_from(ORDERS),
    st.sampled_from(["relu", "gelu"]),
    st.sampled_from(["no", "causal", "padding", "all"]),
    st.booleans(),
    st.sampled_from(DTYPES),
)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_the_two_stacks_equal_nn_transformer_forward_and_backward(size, norm, activation, masked, final_norm, dtype):
    heads, half, hidden, layers = (size[name] for name in ("heads", "half", "hidden", "layers"))
    b, n, m, dim = size["b"], size["n"], size["m"], 2 * half * heads
    ours = model_of(
        heads, half, hidden, layers, norm, dtype, size["seed"], activation=activation, final_norm=final_norm
    )
    theirs = to_torch(ours, torchs_model(dim, heads, hidden, layers, norm, dtype, activation, final_norm))

    generator = torch.Generator().manual_seed(size["seed"])
    source, target = (torch.randn(b, k, dim, generator=generator).to(dtype).requires_grad_() for k in (n, m))
    real, real_target = (torch.arange(k) < torch.randint(1, k + 1, (b, 1), generator=generator) for k in (n, m))
    among, across = (torch.rand(k, n, generator=generator) > 0.5 for k in (n, m))
    among[:, 0] = across[:, 0] = True  # a row that may look nowhere is NaN in torch
    causal = causal_mask(m)
    own, memory_mask, back = {
        "no": (None, None, None),
        "causal": (None, None, causal),
        "padding": (real.unsqueeze(1), real.unsqueeze(1), real_target.unsqueeze(1)),
        "all": (real.unsqueeze(1) & among, real.unsqueeze(1) & across, real_target.unsqueeze(1) & causal),
    }[masked]
    their_masks = {}
    if masked in ("padding", "all"):
        their_masks |= {
            "src_key_padding_mask": ~real,
            "memory_key_padding_mask": ~real,
            "tgt_key_padding_mask": ~real_target,
        }
    if masked in ("causal", "all"):
        their_masks["tgt_mask"] = ~causal
    if masked == "all":
        their_masks |= {"src_mask": ~among, "memory_mask": ~across}

    results = []
    for run in (
        lambda: ours.decoder(target, ours.encoder(source, own)[0], back, memory_mask)[0],
        lambda: theirs(source, target, **their_masks),
    ):
        source.grad = target.grad = None
        output = run()[real_target]
        backward(output)
        results.append((output, source.grad, target.grad))
    for what, got, want in zip(("output", "gradient of the source", "gradient of the target"), *results, strict=True):
        assert_close(got, want, what)
    pairs = list(parameter_pairs(ours, theirs))
    in_stacks = [*ours.encoder.parameters(), *ours.decoder.parameters()]
    assert len(pairs) == len(in_stacks) == len(list(theirs.parameters()))
    for mine, other in pairs:
        assert_close(mine.grad, other.grad, f"gradient of a parameter {tuple(mine.shape)}")


# The whole model


@settings(max_examples=20, deadline=None)
@given(sizes, st.sampled_from(ORDERS))
def test_the_weights_of_all_three_attentions_come_out_and_change_nothing(size, norm):
    b, n, m, heads, layers = (size[name] for name in ("b", "n", "m", "heads", "layers"))
    model = model_of(heads, size["half"], size["hidden"], layers, norm, seed=size["seed"])
    source, real, target = draw_words(b, n, m, size["seed"])
    logits, looks = model(source, real, target, need_weights=True)
    fused, nothing = model(source, real, target)
    assert nothing is None
    torch.testing.assert_close(logits, fused)
    for weights, shape in zip(looks, [(n, n), (m, m), (m, n)], strict=True):
        assert [one.shape for one in weights] == [(b, heads, *shape)] * layers
        for one in weights:
            torch.testing.assert_close(one.sum(-1), torch.ones_like(one[..., 0]))
    assert all((one.masked_select(~real[:, None, None]) == 0).all() for one in (*looks.encoder, *looks.cross))
    assert all((one.triu(1) == 0).all() for one in looks.decoder)


@settings(max_examples=20, deadline=None)
@given(sizes, st.sampled_from(ORDERS), st.booleans())
def test_no_gradient_comes_from_the_future(size, norm, need_weights):
    model = model_of(size["heads"], size["half"], size["hidden"], size["layers"], norm, seed=size["seed"])
    source, real, target = draw_words(size["b"], size["n"], size["m"], size["seed"])
    vectors = []
    model.target_vectors.register_forward_hook(lambda module, given, output: vectors.append(output))
    for place in range(size["m"]):
        logits, _ = model(source, real, target, need_weights)
        (gradient,) = torch.autograd.grad(logits[:, place].square().sum(), vectors[-1])
        assert (gradient[:, place + 1 :] == 0).all()
    assert (gradient.abs().sum(-1) > 0).all()  # the last word hears of all before it


def test_tied_tables_are_one_and_gather_the_gradients_of_all_their_uses():
    words = {"none": 3, "output": 2, "all": 1}
    for tied, tables in words.items():
        model = Transformer(13, 13, 12, 3, norm="pre", tied=tied, dropout=0.0)
        found = {id(one.weight) for one in (model.source_vectors.table, model.target_vectors.table, model.output)}
        assert len(found) == tables
        assert sum(one.shape == (13, 12) for one in model.parameters()) == tables
    one, two = model_of(tied="output"), model_of(tied="none")
    two.load_state_dict(one.state_dict())
    source, real, target = draw_words(2, 5, 4)
    for model in (one, two):
        backward(model(source, real, target)[0])
    torch.testing.assert_close(one.output.weight.grad, two.output.weight.grad + two.target_vectors.table.weight.grad)


def test_fresh_vectors_are_as_large_as_the_positions_and_the_positions_never_end():
    vectors = WordVectors(500, 64)
    assert (vectors.table.weight * 8).std().item() == pytest.approx(1.0, abs=0.02)
    words = torch.randint(500, (2, 9))
    for start in (0, 3, 250, 1000):
        want = vectors.table(words) * 8 + sinusoidal_positions(9, 64, start=start)
        torch.testing.assert_close(vectors(words, start), want)
    assert "positions" not in vectors.state_dict()


# Padding


@settings(max_examples=20, deadline=None)
@given(sizes, st.sampled_from(ORDERS), st.integers(1, 3))
def test_padding_never_changes_a_logit_a_loss_or_a_gradient(size, norm, more):
    b, n, m = size["b"], size["n"], size["m"]
    model = model_of(size["heads"], size["half"], size["hidden"], size["layers"], norm, seed=size["seed"])
    source, real, target = draw_words(b, n, m, size["seed"])
    answers = torch.randint(1, 13, (b, m), generator=torch.Generator().manual_seed(size["seed"]))

    def loss_and_gradients(source, real, target, answers):
        model.zero_grad()
        logits, _ = model(source, real, target)
        loss = F.cross_entropy(logits.flatten(0, 1), answers.flatten(), ignore_index=PAD)
        loss.backward()
        return [logits[:, :m], loss, *(one.grad for one in model.parameters())]

    plain = loss_and_gradients(source, real, target, answers)
    longer = loss_and_gradients(
        F.pad(source, (0, more), value=PAD),
        F.pad(real, (0, more)),
        F.pad(target, (0, more), value=PAD),
        F.pad(answers, (0, more), value=PAD),
    )
    for got, want in zip(longer, plain, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)
    other = source.masked_fill(~real, 7)
    assert torch.equal(model(other, real, target)[0], model(source, real, target)[0])


@pytest.mark.parametrize("norm", ORDERS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_source_of_padding_alone_says_nothing_and_breaks_nothing(norm, need_weights):
    model, (source, real, target) = model_of(norm=norm), draw_words(2, 5, 4)
    real[0] = False
    logits, looks = model(source, real, target, need_weights)
    backward(logits)
    assert logits.isfinite().all()
    assert all(one.grad.isfinite().all() for one in model.parameters())
    other = source.clone()
    other[0] = 9
    assert torch.equal(model(other, real, target, need_weights)[0], logits)
    if need_weights:
        assert all((one[0] == 0).all() for one in (*looks.encoder, *looks.cross))


# The cache


@settings(max_examples=20, deadline=None)
@given(sizes, st.sampled_from(ORDERS), st.sampled_from(["padding", "one sentence of padding alone", "no mask"]))
def test_steps_with_the_cache_equal_one_pass_over_all_words(size, norm, hidden):
    b, n, m = size["b"], size["n"], size["m"]
    model = model_of(size["heads"], size["half"], size["hidden"], size["layers"], norm, seed=size["seed"])
    source, real, target = draw_words(b, n, m, size["seed"])
    if hidden == "one sentence of padding alone":
        real[0] = False
    real = None if hidden == "no mask" else real
    with torch.no_grad():
        logits, looks = model(source, real, target, need_weights=True)
        cache = model.remember(model.encode(source, real), real, room=m)
        for place in range(m):
            got, cross = model.step(target[:, place], cache)
            torch.testing.assert_close(got, logits[:, place], rtol=1e-10, atol=1e-10)
            for one, all_at_once in zip(cross, looks.cross, strict=True):
                torch.testing.assert_close(one, all_at_once[:, :, place])

"""Facts about the encoder-decoder Transformer and its key-value cache."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.parity import assert_close, assert_same_gradients, backward, randomize
from utils.models.attention import causal_mask
from utils.models.torch_weights import from_torch, to_torch
from utils.models.transformer import Transformer

DTYPES = (torch.float64, torch.float32)
PAD = 0

sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3),
        "n": st.integers(1, 6),
        "m": st.integers(1, 5),
        "num_heads": st.integers(1, 3),
        "head_dim": st.sampled_from([2, 4]),  # even, as sinusoids need it
        "hidden_dim": st.integers(1, 9),
        "num_layers": st.integers(1, 2),
        "seed": st.integers(0, 2**31),
    }
)


def make_model(
    num_heads=3,
    head_dim=4,
    hidden_dim=7,
    num_layers=2,
    seed=0,
    norm_first=True,
    dtype=torch.float64,
    dropout=0.0,
    **options,
):
    dim = num_heads * head_dim
    model = Transformer(
        11, 13, dim, num_heads, hidden_dim, num_layers, norm_first=norm_first, dropout=dropout, **options
    )
    randomize(model, seed)
    return model.to(dtype)


def draw_tokens(b, n, m, seed=0):
    """Source (b, n) with its mask and target (b, m); every source has at least one token."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(1, 11, (b, n), generator=generator)
    source_mask = torch.arange(n) < torch.randint(1, n + 1, (b, 1), generator=generator)
    return source.masked_fill(~source_mask, PAD), source_mask, torch.randint(1, 13, (b, m), generator=generator)


def draw(b, n, m, **options):
    return make_model(**options), *draw_tokens(b, n, m, options["seed"])


def make_torch_model(num_heads, head_dim, hidden_dim, num_layers, norm_first, dtype, activation, final_norm):
    model = nn.Transformer(
        num_heads * head_dim,
        num_heads,
        num_layers,
        num_layers,
        hidden_dim,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm_first,
        dtype=dtype,
    )
    model.encoder.enable_nested_tensor = False
    if not final_norm:
        model.encoder.norm = model.decoder.norm = None
    return model


# Parity with torch


@settings(max_examples=60, deadline=None)
@given(
    sizes,
    st.booleans(),
    st.sampled_from(["relu", "gelu"]),
    st.sampled_from(["no", "causal", "padding", "all"]),
    st.booleans(),
    st.sampled_from(DTYPES),
)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_encoder_and_decoder_equal_nn_transformer_forward_and_backward(
    size, norm_first, activation, masked, final_norm, dtype
):
    shape = {name: size[name] for name in ("num_heads", "head_dim", "hidden_dim", "num_layers")}
    options = {"norm_first": norm_first, "dtype": dtype, "activation": activation, "final_norm": final_norm}
    b, n, m, dim = size["b"], size["n"], size["m"], size["num_heads"] * size["head_dim"]
    model = make_model(**shape, **options, seed=size["seed"])
    torch_model = to_torch(model, make_torch_model(**shape, **options))

    generator = torch.Generator().manual_seed(size["seed"])
    source, target = (torch.randn(b, length, dim, generator=generator).to(dtype).requires_grad_() for length in (n, m))
    source_tokens, target_tokens = (
        torch.arange(length) < torch.randint(1, length + 1, (b, 1), generator=generator) for length in (n, m)
    )
    among_source, to_source = (torch.rand(length, n, generator=generator) > 0.5 for length in (n, m))
    among_source[:, 0] = to_source[:, 0] = True  # a fully masked row is NaN in torch
    causal = causal_mask(m)
    source_padding, target_padding = source_tokens.unsqueeze(1), target_tokens.unsqueeze(1)
    source_mask, memory_mask, target_mask = {
        "no": (None, None, None),
        "causal": (None, None, causal),
        "padding": (source_padding, source_padding, target_padding),
        "all": (source_padding & among_source, source_padding & to_source, target_padding & causal),
    }[masked]
    torch_masks = {}
    if masked in ("padding", "all"):
        torch_masks |= {
            "src_key_padding_mask": ~source_tokens,
            "memory_key_padding_mask": ~source_tokens,
            "tgt_key_padding_mask": ~target_tokens,
        }
    if masked in ("causal", "all"):
        torch_masks["tgt_mask"] = ~causal
    if masked == "all":
        torch_masks |= {"src_mask": ~among_source, "memory_mask": ~to_source}

    results = []
    for run in (
        lambda: model.decoder(target, model.encoder(source, source_mask)[0], target_mask, memory_mask)[0],
        lambda: torch_model(source, target, **torch_masks),
    ):
        source.grad = target.grad = None
        output = run()[target_tokens]
        backward(output)
        results.append((output, source.grad, target.grad))
    names = ("output", "gradient of the source", "gradient of the target")
    for what, actual, expected in zip(names, *results, strict=True):
        assert_close(actual, expected, what)
    assert_same_gradients(model, torch_model)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_parameters_come_back_from_torch_as_they_went_and_embeddings_stay():
    model, copied = make_model(final_norm=True), make_model(final_norm=True, seed=1)
    shape = {"num_heads": 3, "head_dim": 4, "hidden_dim": 7, "num_layers": 2}
    options = {"norm_first": True, "dtype": torch.float64, "activation": "relu", "final_norm": True}
    before = {name: parameter.clone() for name, parameter in copied.named_parameters()}
    from_torch(to_torch(model, make_torch_model(**shape, **options)), copied)
    for name, parameter in model.named_parameters():
        expected = before[name] if "embedding" in name else parameter
        assert torch.equal(copied.get_parameter(name), expected), name


# Teacher forcing


@settings(max_examples=20, deadline=None)
@given(sizes, st.booleans())
def test_all_attention_weights_come_out_on_request_and_change_nothing(size, norm_first):
    b, n, m, num_heads, num_layers = (size[name] for name in ("b", "n", "m", "num_heads", "num_layers"))
    model, source, source_mask, target = draw(**size, norm_first=norm_first)
    logits, all_weights = model(source, source_mask, target, need_weights=True)
    fused_logits, no_weights = model(source, source_mask, target)
    assert no_weights is None
    torch.testing.assert_close(logits, fused_logits)
    for layers, shape in zip(all_weights, [(n, n), (m, m), (m, n)], strict=True):
        assert [weights.shape for weights in layers] == [(b, num_heads, *shape)] * num_layers
        for weights in layers:
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    for weights in (*all_weights.encoder, *all_weights.cross):
        assert (weights.masked_select(~source_mask[:, None, None]) == 0).all()
    assert all((weights.triu(1) == 0).all() for weights in all_weights.decoder)


@settings(max_examples=20, deadline=None)
@given(sizes, st.booleans())
def test_decoding_the_encoded_source_equals_the_whole_forward_pass(size, norm_first):
    model, source, source_mask, target = draw(**size, norm_first=norm_first)
    logits = model.decode(target, model.encode(source, source_mask), source_mask)
    torch.testing.assert_close(logits, model(source, source_mask, target)[0])


@settings(max_examples=20, deadline=None)
@given(sizes, st.booleans(), st.booleans())
def test_no_gradient_comes_from_future_target_tokens(size, norm_first, need_weights):
    model, source, source_mask, target = draw(**size, norm_first=norm_first)
    embeddings = []
    model.target_embedding.register_forward_hook(lambda module, inputs, output: embeddings.append(output))
    for position in range(size["m"]):
        logits, _ = model(source, source_mask, target, need_weights)
        (gradient,) = torch.autograd.grad(logits[:, position].square().sum(), embeddings[-1])
        assert (gradient[:, position + 1 :] == 0).all()
    assert (gradient.abs().sum(-1) > 0).all()  # the last position depends on every token


def test_tied_embeddings_are_one_matrix_that_gathers_the_gradients_of_all_its_uses():
    for tied, num_matrices in {"none": 3, "output": 2, "all": 1}.items():
        model = Transformer(13, 13, 12, 3, norm_first=True, tied=tied, dropout=0.0)
        embeddings = (model.source_embedding.token_embedding, model.target_embedding.token_embedding)
        assert len({id(layer.weight) for layer in (*embeddings, model.lm_head)}) == num_matrices
        assert sum(parameter.shape == (13, 12) for parameter in model.parameters()) == num_matrices
    tied, untied = make_model(tied="output"), make_model(tied="none")
    untied.load_state_dict(tied.state_dict())
    source, source_mask, target = draw_tokens(2, 5, 4)
    for model in (tied, untied):
        backward(model(source, source_mask, target)[0])
    expected = untied.lm_head.weight.grad + untied.target_embedding.token_embedding.weight.grad
    torch.testing.assert_close(tied.lm_head.weight.grad, expected)


def test_tying_is_one_of_three_kinds_and_all_needs_one_vocabulary():
    for wrong in (True, "both"):
        with pytest.raises(ValueError, match="expected tied of none, output, all"):
            Transformer(13, 13, 12, 3, norm_first=True, tied=wrong)
    with pytest.raises(ValueError, match="one vocabulary for tied='all', got 11 and 13"):
        Transformer(11, 13, 12, 3, norm_first=True, tied="all")


# Padding


@settings(max_examples=20, deadline=None)
@given(sizes, st.booleans(), st.integers(1, 3))
def test_padding_never_changes_a_logit_a_loss_or_a_gradient(size, norm_first, padding):
    b, m = size["b"], size["m"]
    model, source, source_mask, target = draw(**size, norm_first=norm_first)
    labels = torch.randint(1, 13, (b, m), generator=torch.Generator().manual_seed(size["seed"]))

    def loss_and_gradients(source, source_mask, target, labels):
        model.zero_grad()
        logits, _ = model(source, source_mask, target)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
        loss.backward()
        return [logits[:, :m], loss, *(parameter.grad for parameter in model.parameters())]

    expected = loss_and_gradients(source, source_mask, target, labels)
    padded = loss_and_gradients(
        F.pad(source, (0, padding), value=PAD),
        F.pad(source_mask, (0, padding)),
        F.pad(target, (0, padding), value=PAD),
        F.pad(labels, (0, padding), value=PAD),
    )
    for actual, wanted in zip(padded, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-10)
    changed = source.masked_fill(~source_mask, 7)
    assert torch.equal(model(changed, source_mask, target)[0], model(source, source_mask, target)[0])


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_source_of_padding_alone_has_no_influence_and_gradients_stay_finite(norm_first, need_weights):
    model, (source, source_mask, target) = make_model(norm_first=norm_first), draw_tokens(2, 5, 4)
    source_mask[0] = False
    logits, all_weights = model(source, source_mask, target, need_weights)
    backward(logits)
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    changed = source.clone()
    changed[0] = 9
    assert torch.equal(model(changed, source_mask, target, need_weights)[0], logits)
    if need_weights:
        assert all((weights[0] == 0).all() for weights in (*all_weights.encoder, *all_weights.cross))


# The key-value cache


@settings(max_examples=30, deadline=None)
@given(
    sizes,
    st.booleans(),
    st.sampled_from(["padding", "one source of padding alone", "no mask"]),
    st.integers(1, 3),
    st.sampled_from(DTYPES),
)
@torch.no_grad()
def test_steps_with_the_cache_equal_one_pass_over_all_tokens(size, norm_first, masked, num_beams, dtype):
    b, m = size["b"], size["m"]
    model, source, source_mask, _ = draw(**size, norm_first=norm_first, dtype=dtype)
    target = torch.randint(1, 13, (b * num_beams, m), generator=torch.Generator().manual_seed(size["seed"]))
    if masked == "one source of padding alone":
        source_mask[0] = False
    source_mask = None if masked == "no mask" else source_mask
    repeated = source.repeat_interleave(num_beams, 0)
    repeated_mask = None if source_mask is None else source_mask.repeat_interleave(num_beams, 0)
    logits, all_weights = model(repeated, repeated_mask, target, need_weights=True)
    cache = model.new_cache(source, source_mask, m, num_beams)
    for position in range(m):
        assert cache.length == position
        step_logits, cross_weights = model.step(target[:, position], cache)
        assert_close(step_logits, logits[:, position], "logits")
        for step_weights, whole in zip(cross_weights, all_weights.cross, strict=True):
            assert_close(step_weights, whole[:, :, position], "cross-attention weights")
    with pytest.raises(ValueError, match=f"at most {m} tokens, got {m + 1}"):
        model.step(target[:, 0], cache)


@torch.no_grad()
@pytest.mark.parametrize("norm_first", [True, False])
def test_steps_with_rotary_positions_equal_one_pass_over_all_tokens(norm_first):
    model = make_model(norm_first=norm_first, positions="rotary")
    source, source_mask, target = draw_tokens(3, 6, 5)
    logits, _ = model(source, source_mask, target)
    cache = model.new_cache(source, source_mask, max_len=5)
    steps = [model.step(token_ids, cache)[0] for token_ids in target.unbind(1)]
    assert_close(torch.stack(steps, 1), logits)


@torch.no_grad()
def test_rotary_positions_change_the_logits_and_add_no_parameters():
    source, source_mask, target = draw_tokens(3, 6, 5)
    models = [make_model(positions=positions) for positions in ("rotary", "sinusoidal")]
    rotary, sinusoidal = (model(source, source_mask, target)[0] for model in models)
    assert not torch.allclose(rotary, sinusoidal)
    assert models[0].state_dict().keys() == models[1].state_dict().keys()
    unordered = make_model(positions="rotary")
    unordered.encoder.rope_base = unordered.decoder.rope_base = None  # then the order of the source cannot matter
    order, nothing = torch.tensor([3, 1, 0, 5, 4, 2]), torch.ones_like(source_mask)
    for model, same in ((unordered, True), (models[0], False)):
        outputs = [model(tokens, nothing, target)[0] for tokens in (source, source[:, order])]
        assert torch.allclose(*outputs) == same


@torch.no_grad()
def test_after_reordering_the_cache_each_row_continues_the_hypothesis_it_took_over():
    model, (source, source_mask, _) = make_model(), draw_tokens(2, 5, 4)
    target = torch.randint(1, 13, (6, 5), generator=torch.Generator().manual_seed(0))
    cache = model.new_cache(source, source_mask, 5, num_beams=3)
    for position in range(4):
        model.step(target[:, position], cache)
    rows = torch.tensor([2, 0, 0, 4, 5, 4])  # of the same source
    cache.reorder(rows)
    target = torch.cat([target[rows, :4], target[:, 4:]], 1)
    logits, _ = model.step(target[:, 4], cache)
    expected, _ = model(source.repeat_interleave(3, 0), source_mask.repeat_interleave(3, 0), target)
    assert_close(logits, expected[:, -1])

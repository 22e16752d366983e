"""Masked and causal language models: masks, every option of `EncoderConfig`, key-value cache, classifier and LoRA."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from utils.models.attention import SelfAttention, causal_mask
from utils.models.language_models import (
    CHUNK,
    CausalLM,
    EncoderConfig,
    EncoderModel,
    LoRALinear,
    MaskedLM,
    SequenceClassifier,
    add_lora,
    mean_pooling,
    parameter_count,
)
from utils.models.layers import EncoderLayer
from utils.models.positions import MaxLengthError, sinusoidal_positions

VOCAB, DIM = 23, 12
SMALL = EncoderConfig(VOCAB, DIM, 3, hidden_dim=16)

# One change at a time, and the combination that Llama has.
MODIFICATIONS = {
    "base": {},
    "ReLU": {"activation": "relu"},
    "SwiGLU": {"activation": "swiglu"},
    "RMSNorm": {"norm": "rms"},
    "no norm": {"norm": "none"},
    "post-norm": {"norm_first": False},
    "learned positions": {"positions": "learned", "max_len": 9},
    "RoPE": {"positions": "rotary"},
    "no positions": {"positions": "none"},
    "grouped-query attention": {"num_kv_heads": 1},
    "untied": {"tied": False},
    "no bias": {"bias": False},
    "untied, no bias": {"tied": False, "bias": False},
    "unscaled embedding": {"scale_embedding": False},
    "segment embeddings": {"num_types": 2},
    "Llama": {
        **{"activation": "swiglu", "norm": "rms", "positions": "rotary", "num_kv_heads": 1, "max_len": 9},
        **{"bias": False, "scale_embedding": False, "rope_base": 500.0},
    },
}
EVERY_MODIFICATION = pytest.mark.parametrize("options", MODIFICATIONS.values(), ids=MODIFICATIONS)


def build(kind=CausalLM, seed=0, **options):
    torch.manual_seed(seed)
    return kind(replace(SMALL, **options)).double().eval()


def batch(b=3, n=7, seed=0):
    """Token ids and attention mask (b, n); the second sequence has three tokens less, the third one token."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(n) < torch.tensor([[n], [n - 3], [1]][:b])
    return torch.randint(1, VOCAB, (b, n), generator=generator).masked_fill(~mask, 0), mask


# Masks


def affected(model, token_ids, position):
    """The positions whose output changes with the token at `position`."""
    changed = token_ids.clone()
    changed[:, position] = (token_ids[:, position] + 1) % VOCAB
    return ((model(token_ids) - model(changed)).abs().amax(-1) > 1e-9)[0].tolist()


def test_masked_models_attend_to_both_sides_and_causal_ones_to_the_past():
    token_ids, _ = batch(1)
    assert affected(build(MaskedLM), token_ids, 3) == affected(build(EncoderModel), token_ids, 3) == [True] * 7
    assert affected(build(CausalLM), token_ids, 3) == [False] * 3 + [True] * 4


@pytest.mark.parametrize("kind", [EncoderModel, MaskedLM, CausalLM])
def test_padding_does_not_change_the_output_at_tokens(kind):
    model = build(kind)
    token_ids, mask = batch()
    together = model(token_ids, mask)
    for row in range(3):
        alone = model(token_ids[row : row + 1, : mask[row].sum()])
        assert torch.allclose(together[row, : alone.size(1)], alone[0])


@pytest.mark.parametrize("kind", [MaskedLM, CausalLM])
def test_a_large_batch_without_gradients_gives_the_same_in_parts(kind):
    model, (token_ids, mask) = build(kind), batch()
    token_ids, mask = token_ids.repeat(CHUNK // 9, 1), mask.repeat(CHUNK // 9, 1)
    assert token_ids.numel() > 2 * CHUNK
    for attention_mask in (mask, None):
        whole = model(token_ids, attention_mask)
        with torch.no_grad():
            assert torch.allclose(model(token_ids, attention_mask)[mask], whole[mask])


def test_hidden_states_are_the_embeddings_and_the_output_of_each_layer():
    model, (token_ids, mask) = build(MaskedLM), batch()
    states, weights = model.hidden_states(token_ids, mask, need_weights=True)
    assert len(states) == 3 and torch.equal(states[0], model.embedding(token_ids))
    assert torch.allclose(model.encoder.norm(states[-1])[mask], model.encode(token_ids, mask)[mask])
    assert [layer.shape for layer in weights] == [(3, 3, 7, 7)] * 2
    assert all((layer * ~mask[:, None, None, :]).max() == 0 for layer in weights)
    assert model.hidden_states(token_ids, mask)[1] is None


# The options


@EVERY_MODIFICATION
@torch.no_grad()
def test_no_modification_leaks_from_the_future(options):
    model, (token_ids, _) = build(**options), batch(2, 9)
    logits = model(token_ids)
    assert logits.shape == (2, 9, VOCAB)
    for position in range(1, 9):
        changed = token_ids.clone()
        changed[:, position:] = (token_ids[:, position:] + 1) % VOCAB
        difference = (model(changed) - logits).abs().amax(-1)
        assert difference[:, :position].max() < 1e-10
        assert difference[:, position:].min() > 1e-3


@EVERY_MODIFICATION
def test_every_parameter_gets_a_gradient(options):
    model, (token_ids, _) = build(**options), batch(2, 9)
    (model(token_ids) * torch.randn(2, 9, VOCAB, dtype=torch.float64)).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


@EVERY_MODIFICATION
@torch.no_grad()
def test_the_order_of_the_context_matters_with_positions_alone(options):
    """Without positions the second layer still tells the order: causal attention counts the tokens before each."""
    model, (token_ids, _) = build(**options), batch(1)
    swapped = token_ids.clone()
    swapped[:, [0, 1]] = token_ids[:, [1, 0]]
    assert not torch.allclose(model(token_ids)[:, -1], model(swapped)[:, -1], atol=1e-4)
    shallow = build(num_layers=1, **options)
    same = torch.allclose(shallow(token_ids)[:, -1], shallow(swapped)[:, -1], atol=1e-10)
    assert same == (shallow.config.positions == "none")


@EVERY_MODIFICATION
@torch.no_grad()
def test_steps_with_the_cache_equal_the_full_forward_pass_however_the_text_is_cut(options):
    model, (token_ids, _) = build(**options), batch(2, 9)
    logits = model(token_ids)
    for cuts in ([9], [1] * 9, [5, 4], [3, 1, 1, 4]):
        cache, end = model.new_cache(9), 0
        for size in cuts:
            step_logits = model.step(token_ids[:, end : end + size], cache)
            end += size
            assert torch.allclose(step_logits, logits[:, end - 1], atol=1e-10)
        with pytest.raises(ValueError, match="at most 9|from 0 to 8"):
            model.step(token_ids[:, :1], cache)


@EVERY_MODIFICATION
@torch.no_grad()
def test_every_modification_works_in_a_masked_model_with_padding(options):
    model, (token_ids, mask) = build(MaskedLM, **options), batch()
    alone = model(token_ids[1:2, :4])
    assert torch.allclose(model(token_ids, mask)[1, :4], alone[0], atol=1e-10)


@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal"])
def test_a_text_beyond_max_len_is_refused(positions):
    model = build(positions=positions, max_len=9)
    assert model(torch.ones(1, 9, dtype=torch.long)).shape == (1, 9, VOCAB)
    with pytest.raises(MaxLengthError):
        model(torch.ones(1, 10, dtype=torch.long))


def test_the_base_is_a_pre_norm_encoder_on_scaled_embeddings_plus_sinusoids_with_a_tied_output_layer():
    model, (token_ids, _) = build(), batch(1)
    table = model.embedding.token_embedding.weight
    assert model.lm_head.weight is table
    layers = [layer.double() for layer in (EncoderLayer(DIM, 3, 16, norm_first=True, activation="gelu"),) * 2]
    x = table[token_ids] * DIM**0.5 + sinusoidal_positions(7, DIM)
    for number, layer in enumerate(layers):
        layer.load_state_dict(model.encoder.layers[number].state_dict())
        x, _ = layer(x, causal_mask(7))
    assert torch.allclose(model(token_ids), model.encoder.norm(x) @ table.T + model.lm_head.bias)


def test_untied_models_have_one_more_matrix_and_rope_adds_nothing_to_the_embeddings():
    tied, untied = build(), build(tied=False)
    assert parameter_count(untied) - parameter_count(tied) == VOCAB * DIM
    assert untied.lm_head.weight.std().item() == pytest.approx(DIM**-0.5, rel=0.2)
    assert untied.lm_head.weight is not untied.embedding.token_embedding.weight
    rotary, (token_ids, _) = build(positions="rotary"), batch(1)
    table = rotary.embedding.token_embedding
    assert torch.equal(rotary.embedding(token_ids), table(token_ids) * DIM**0.5)
    # Equal tokens attend to equal values only, so each position has the same output.
    logits = rotary(torch.full((1, 4), 5))[0]
    assert torch.allclose(logits, logits[:1].expand(4, -1))


def test_tied_is_a_bool_so_that_no_word_counts_as_true():
    with pytest.raises(TypeError, match="True or False, got 'none'"):
        replace(SMALL, tied="none")


def test_any_attention_module_can_be_the_self_attention_of_the_layers():
    """A single head without output projection or norm: the first language model of the course."""
    torch.manual_seed(0)
    config = replace(SMALL, num_heads=1, norm="none")
    model = CausalLM(config, self_attn=lambda: SelfAttention(DIM)).double()
    attentions = [layer.self_attn for layer in model.encoder.layers]
    assert all(isinstance(attention, SelfAttention) for attention in attentions) and attentions[0] is not attentions[1]
    token_ids, _ = batch(1)
    assert affected(model, token_ids, 3) == [False] * 3 + [True] * 4


# The classifier


def test_mean_pooling_is_the_mean_over_tokens_without_padding():
    states, (_, mask) = torch.randn(3, 7, DIM), batch()
    pooled = mean_pooling(states, mask)
    for row in range(3):
        assert torch.allclose(pooled[row], states[row, mask[row]].mean(0), atol=1e-6)


@pytest.mark.parametrize("kind", [EncoderModel, MaskedLM, CausalLM])
def test_a_classifier_ignores_padding_and_prefers_no_class_before_training(kind):
    model = SequenceClassifier(build(kind), DIM, 5).double()
    token_ids, mask = batch()
    together = model(token_ids, mask)
    assert together.shape == (3, 5)
    assert torch.allclose(together[1], model(token_ids[1:2, :4], mask[1:2, :4])[0])
    assert (together.softmax(-1) - 0.2).abs().max() < 0.1


# LoRA


def test_lora_changes_nothing_at_initialization_and_adds_a_matrix_of_its_rank():
    torch.manual_seed(0)
    linear = nn.Linear(6, 9).double()
    lora = LoRALinear(linear, 2, scale=0.5)
    x = torch.randn(4, 6).double()
    assert torch.equal(lora(x), linear(x))
    nn.init.normal_(lora.lora_B)
    added = 0.5 * lora.lora_B @ lora.lora_A
    assert torch.linalg.matrix_rank(added) == 2
    assert torch.allclose(lora(x), linear(x) + x @ added.T)


def test_add_lora_adapts_every_attention_projection_and_freezes_the_rest():
    model = build(MaskedLM)
    token_ids, mask = batch()
    before, parameters = model(token_ids, mask), {name: value.clone() for name, value in model.named_parameters()}
    new = add_lora(model, 2)
    assert torch.equal(model(token_ids, mask), before)
    assert {id(parameter) for parameter in model.parameters() if parameter.requires_grad} == set(map(id, new))
    # in_proj: (2, 12) and (36, 2); out_proj: (2, 12) and (12, 2); in two layers
    assert sum(parameter.numel() for parameter in new) == 2 * (2 * 12 + 36 * 2 + 2 * 12 + 12 * 2)
    optimizer = torch.optim.SGD(new, lr=0.1)
    model(token_ids, mask).square().mean().backward()
    optimizer.step()
    assert not torch.allclose(model(token_ids, mask), before)
    after = dict(model.named_parameters())
    for name, value in parameters.items():
        assert torch.equal(after[name.replace("_proj.", "_proj.linear.")], value)


@torch.no_grad()
def test_lora_works_with_the_cache():
    model, (token_ids, _) = build(), batch(1)
    for parameter in add_lora(model, 2):
        nn.init.normal_(parameter)
    cache = model.new_cache(7)
    model.step(token_ids[:, :6], cache)
    assert torch.allclose(model.step(token_ids[:, 6:], cache), model(token_ids)[:, -1])

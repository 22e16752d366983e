"""Facts about MiniLM's hidden states and attention: word senses, antecedents of pronouns."""

import pytest
import torch

from utils.build.downloads import MINILM, fetch
from utils.models.pretrained import load_minilm
from utils.training.word_senses import (
    BY_GENDER,
    SPRING,
    WATCH,
    WINOGRAD,
    head_accuracy,
    pronoun_attention,
    select_heads,
    sense_similarities,
    value_norms,
)


@pytest.fixture(scope="module")
def encoder():
    torch.set_num_threads(1)
    return load_minilm(fetch(MINILM))


def test_senses_separate_layer_by_layer(encoder):
    watch, spring = sense_similarities(encoder, *WATCH), sense_similarities(encoder, *SPRING)
    margins = (watch["first"] - watch["across"])[:, 0].tolist()
    assert len(margins) == 7 and margins == sorted(margins)
    # The embeddings have token and position, and no context yet.
    assert abs(margins[0]) < 0.02 and watch["across"][0, 1] > 0.95
    assert margins[-1] >= 0.3 and watch["first"][-1, 1] > watch["across"][-1, 2]  # not only on average
    assert 0.1 < (spring["first"] - spring["across"])[-1, 0] < margins[-1]
    separated = torch.minimum(spring["first"], spring["second"])[:, 1] > spring["across"][:, 2]
    assert separated[-1] and not separated[0]


def test_cls_receives_most_attention_and_passes_on_little(encoder):
    hidden = encoder.hidden_states([sentence for sense in WATCH for sentence in sense.sentences], need_weights=True)
    norms = value_norms(encoder, hidden)
    assert norms.shape == (6, *hidden.token_ids.shape)
    layer = encoder.model.encoder.layers[2].self_attn
    value = layer.in_proj(hidden.states[2])[0, 4, -384:].view(12, 32)  # the last third of the projection
    assert norms[2, 0, 4].item() == pytest.approx(value.norm(dim=-1).mean().item(), rel=1e-5)
    ordinary = hidden.attention_mask.clone()
    ordinary[:, 0] = False
    weights = torch.stack(hidden.weights).transpose(2, 3)[:, ordinary]  # (layers, queries, heads, keys)
    assert weights[1:, ..., 0].mean() > 0.5 and norms[1:, :, 0].max() < 0.15 * norms[1:, ordinary].mean()


# --- pronouns and their antecedents ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("twins", [BY_GENDER, WINOGRAD], ids=["gender", "winograd"])
def test_twins_differ_in_one_word_and_swap_the_nouns(twins):
    for first, second in twins:
        pairs = list(zip(first.sentence.split(), second.sentence.split(), strict=True))
        assert sum(a != b for a, b in pairs) == 1
        assert (first.antecedent, first.distractor) == (second.distractor, second.antecedent)


def test_every_word_that_is_probed_is_a_single_token_and_occurs_once(encoder):
    probed = [(sentence, (sense.word,)) for sense in (*WATCH, *SPRING) for sentence in sense.sentences]
    for example in (example for twins in (BY_GENDER, WINOGRAD) for pair in twins for example in pair):
        probed.append((example.sentence, (example.pronoun, example.antecedent, example.distractor)))
    batch = encoder.tokenizer.batch([sentence for sentence, _ in probed])
    for tokens, (_, words) in zip(batch.tokens, probed, strict=True):
        assert [tokens.count(word) for word in words] == [1] * len(words), tokens


def test_pronoun_attention_is_in_the_rows_of_the_attention_weights(encoder):
    examples = [WINOGRAD[0][0], BY_GENDER[0][1]]
    attention = pronoun_attention(encoder, examples)
    assert attention.shape == (2, 6, 12, 3)
    for example, weights in zip(examples, attention, strict=True):
        alone = encoder.hidden_states([example.sentence], need_weights=True)
        words = (example.pronoun, example.antecedent, example.distractor)
        query, *keys = map(alone.tokens[0].index, (*words, "[CLS]"))
        assert torch.allclose(weights[3], alone.weights[3][0, :, query, keys], atol=1e-6)


def test_a_selected_head_finds_antecedents_by_gender_also_on_held_out_sentences(encoder):
    for fold in select_heads(encoder, BY_GENDER):
        assert fold.selection_accuracy == 1.0 and fold.held_out_accuracy >= 0.9
        assert 0.4 < fold.mean_accuracy < 0.6  # most heads do something else


def test_no_head_solves_the_winograd_schemas(encoder):
    """So little above chance that 24 sentences cannot tell; a picture of one sentence proves nothing."""
    for fold in select_heads(encoder, WINOGRAD):
        assert fold.held_out_accuracy <= 0.75
    examples = [example for pair in WINOGRAD for example in pair]
    attention = pronoun_attention(encoder, examples)
    assert head_accuracy(attention).max() <= 17 / 24
    lengths = encoder.tokenizer.batch([example.sentence for example in examples]).attention_mask.sum(1)
    uniform = (2 / lengths).mean()
    assert attention[:, -1, :, :2].sum(-1).mean() > 1.5 * uniform  # the last layer attends to both nouns

"""Facts about training the Transformer and its attention weights; results at full size are in the benchmark."""

import pytest
import torch
import torch.nn.functional as F

from tests.parity import same_results
from utils.data.tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS, collate
from utils.models.transformer import Transformer
from utils.training import transformer
from utils.training.metrics import alignment_error
from utils.training.transformer import (
    HeadChoice,
    TrainedTransformer,
    accuracy_from_position,
    alignment_errors,
    confidence,
    greedy_and_beam,
    pair_attention,
    restore_transformer,
    token_batches,
    token_buckets,
    train_transformer,
)
from utils.training.translation import limit_for, pairs_and_words, scores, train

PAIRS = 400
SIZES = {"dim": 12, "num_heads": 3, "hidden_dim": 16, "num_layers": 2}
SMALL = {"num_steps": 3, "batch_tokens": 60, "num_pairs": PAIRS, "num_test": 12, **SIZES}


@pytest.fixture(scope="module")
def words():
    return pairs_and_words(PAIRS)


@pytest.fixture(scope="module")
def small():
    return train_transformer.__wrapped__(**SMALL)


@pytest.fixture(scope="module")
def trained(small):
    return restore_transformer(small)


def untrained(words, **changes):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        options = {**SIZES, "norm_first": True, "dropout": 0.0} | changes
        return Transformer(len(words[1]), len(words[2]), **options)


# The loss


def test_the_loss_of_a_step_is_that_of_the_next_tokens(words):
    batch, model = collate(words[0].train[:3], *words[1:]), untrained(words)
    with torch.no_grad():
        logits = model(batch.source, batch.source_mask, batch.target_in)[0]
    expected = F.cross_entropy(logits[batch.target_mask], batch.target_out[batch.target_mask], label_smoothing=0.2)
    assert train(model, iter([batch]), 1, label_smoothing=0.2).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_model_overfits_a_few_pairs(words):
    data, english, french = words
    few = sorted(data.train, key=lambda pair: len(pair.english))[:6]
    model = untrained(words, dim=48, num_heads=4, hidden_dim=96)
    losses = train(model, token_batches(few, english, french, 100, 0), 120, learning_rate=4e-3)
    assert losses[-1] < losses[0] / 20
    translations = TrainedTransformer(model, english, french).translate([pair.english for pair in few])
    assert translations == [list(pair.french) for pair in few]


# Batches


def test_buckets_hold_at_most_their_tokens_and_every_pair_once(words):
    pairs = words[0].train
    buckets = token_buckets(pairs, 90, torch.Generator().manual_seed(0))
    assert sorted(index for bucket in buckets for index in bucket) == list(range(len(pairs)))
    sizes = [len(bucket) * (1 + max(len(pairs[index].french) for index in bucket)) for bucket in buckets]
    assert max(sizes) <= 90 and sum(size > 60 for size in sizes) > 0.9 * len(sizes)
    lengths = [len(pairs[bucket[0]].french) for bucket in buckets]
    assert lengths != sorted(lengths)


# A result


def test_the_alignment_head_is_selected_on_validation_pairs(small, words, monkeypatch):
    selection = []

    def recorded(trained, pairs):
        selection.append(pairs)
        return torch.tensor([[0.5, 0.4, 0.5, 0.5], [0.3, 0.2, 0.5, 0.5]])

    monkeypatch.setattr(transformer, "alignment_errors", recorded)
    result = train_transformer.__wrapped__(**SMALL)
    validation = set(words[0].validation)
    assert len(selection) == 1 and len(selection[0]) >= 500 and validation.issuperset(selection[0])
    assert (result["alignment_head"]["layer"], result["alignment_head"]["head"]) == (1, 1)
    assert restore_transformer(result).alignment_head == (1, 1)
    weights = restore_transformer(result).weights(words[0].test[:12])
    assert result["alignment_error"] == alignment_error(weights, words[0].test[:12])


# A trained model


def test_a_restored_model_translates_and_scores_as_the_trained_one_did(small, trained, words):
    measured = scores(trained, words[0].test[:12])
    assert all(same_results(small[name], measured[name]) for name in measured)


def test_sentences_come_back_in_the_order_they_were_given(trained, words):
    english = [pair.english for pair in words[0].test[:9]]
    together = trained.translate(english)
    assert together == [trained.translate([sentence])[0] for sentence in english] and trained.translate([]) == []
    assert all(len(french) <= limit_for(len(source)) for french, source in zip(together, english, strict=True))


@pytest.mark.parametrize("choice", [(0, 2), (1, None)])
def test_the_weights_of_a_pair_are_those_of_the_alignment_head_under_teacher_forcing(trained, words, choice):
    aligned = TrainedTransformer(trained.model, trained.english, trained.french, HeadChoice(*choice))
    pairs = words[0].test[:7]
    for pair, weights in zip(pairs, aligned.weights(pairs), strict=True):
        batch = collate([pair], *words[1:])
        with torch.no_grad():
            layer = trained.model(batch.source, batch.source_mask, batch.target_in, True)[1].cross[choice[0]][0]
        expected = layer.mean(0) if choice[1] is None else layer[choice[1]]
        assert weights.shape == (len(pair.french) + 1, len(pair.english) + 1)
        torch.testing.assert_close(weights, expected)


def test_the_attention_of_a_pair_has_every_layer_and_no_padding(trained, words):
    pairs = words[0].test[:6]
    assert len({len(pair.english) for pair in pairs}) > 1
    for pair, attended in zip(pairs, pair_attention(trained, pairs), strict=True):
        assert attended.source == (*pair.english, SPECIAL_TOKENS[EOS_ID])
        assert attended.target_in == (SPECIAL_TOKENS[BOS_ID], *pair.french)
        assert attended.target_out == (*pair.french, SPECIAL_TOKENS[EOS_ID])
        n, m = len(attended.source), len(attended.target_in)
        for weights, shape in zip(attended.weights, ((3, n, n), (3, m, m), (3, m, n)), strict=True):
            assert len(weights) == 2
            for layer in weights:
                assert layer.shape == shape
                torch.testing.assert_close(layer.sum(-1), torch.ones(shape[:2]))
        assert all(layer.triu(1).eq(0).all() for layer in attended.weights.decoder)


def test_the_alignment_errors_are_those_of_each_head_and_of_the_mean(trained, words):
    pairs = words[0].validation[:10]
    errors = alignment_errors(trained, pairs)
    assert errors.shape == (2, 4)
    for layer in range(2):
        for column in range(4):
            head = HeadChoice(layer, column if column < 3 else None)
            aligned = TrainedTransformer(trained.model, trained.english, trained.french, head)
            assert errors[layer, column] == pytest.approx(alignment_error(aligned.weights(pairs), pairs))


def test_confidence_is_a_mean_over_target_tokens_without_padding(trained, words):
    pairs = words[0].test[:4]
    rows = []
    for pair in pairs:
        batch = collate([pair], *words[1:])
        with torch.no_grad():
            probs = trained.model(batch.source, batch.source_mask, batch.target_in)[0].softmax(-1)[0]
        for row, target in zip(probs, batch.target_out[0], strict=True):
            rows.append([float(row.argmax() == target), row.max().item()])
    expected = torch.tensor(rows).mean(0).tolist()
    assert list(confidence(trained, pairs).values()) == pytest.approx(expected, rel=1e-4)


def test_greedy_and_beam_translate_each_pair_as_they_do_alone(trained, words):
    # Hardly trained, it may never end; with sources of one length all are cut at the same token.
    pairs = [pair for pair in words[0].test if len(pair.english) == len(words[0].test[0].english)][:7]
    assert len(pairs) >= 5
    decoded = greedy_and_beam(trained, pairs, num_beams=3)
    assert [row.pair for row in decoded] == list(pairs)
    assert [list(row.greedy) for row in decoded] == trained.translate([pair.english for pair in pairs])
    for row in greedy_and_beam(trained, pairs, num_beams=1):
        assert row.beam == row.greedy and row.beam_log_prob == pytest.approx(row.greedy_log_prob, abs=1e-3)


def test_sentences_can_start_at_other_positions(trained, words):
    pairs = words[0].test[:20]
    at_zero = accuracy_from_position(trained, pairs, 0)
    assert at_zero == pytest.approx(confidence(trained, pairs)["accuracy"], abs=1e-6)
    moved = untrained(words, tied="none")
    moved.load_state_dict(trained.model.state_dict())
    for embedding in (moved.source_embedding, moved.target_embedding):
        embedding.sinusoids = embedding.sinusoids[7:]
    outputs = []  # an untrained model is hardly ever correct: compare the outputs of the decoder
    hooks = [
        model.decoder.register_forward_hook(lambda *args: outputs.append(args[-1][0]))
        for model in (trained.model, moved)
    ]
    accuracy_from_position(trained, pairs, 7)
    accuracy_from_position(TrainedTransformer(moved, *words[1:]), pairs, 0)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(*outputs)

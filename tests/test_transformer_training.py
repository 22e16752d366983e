"""Facts about training the Transformer and showing where it looks; the figures at full size are the benchmark's."""

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
    accuracy_from_place,
    alignment_errors,
    confidence,
    endless_words,
    greedy_and_beam,
    groups_of_words,
    readings,
    restore_transformer,
    train_transformer,
)
from utils.training.translation import limit_for, pairs_and_words, scores, train

PAIRS = 400
SMALL = {"steps": 3, "dim": 12, "heads": 3, "hidden": 16, "layers": 2, "words": 60, "pairs": PAIRS, "test": 12}


@pytest.fixture(scope="module")
def words():
    return pairs_and_words(PAIRS)


@pytest.fixture(scope="module")
def small():
    return train_transformer.__wrapped__(**SMALL)


@pytest.fixture(scope="module")
def trained(small):
    return restore_transformer(small)


def fresh(words, **changes):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        options = {"dim": 12, "heads": 3, "hidden": 16, "layers": 2, "norm": "pre", "dropout": 0.0} | changes
        return Transformer(len(words[1]), len(words[2]), **options)


# The loss


def test_the_loss_of_a_step_is_that_of_the_words_after_those_given(words):
    batch, model = collate(words[0].train[:3], *words[1:]), fresh(words)
    with torch.no_grad():
        logits = model(batch.source, batch.source_mask, batch.target_in)[0]
    expected = F.cross_entropy(logits[batch.target_mask], batch.target_out[batch.target_mask], label_smoothing=0.2)
    assert train(model, iter([batch]), 1, smoothing=0.2).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_model_learns_a_few_pairs_by_heart(words):
    data, english, french = words
    few = sorted(data.train, key=lambda pair: len(pair.english))[:6]
    model = fresh(words, dim=48, heads=4, hidden=96)
    losses = train(model, endless_words(few, english, french, 100, 0), 120, rate=4e-3)
    assert losses[-1] < losses[0] / 20
    told = TrainedTransformer(model, english, french).translate([pair.english for pair in few])
    assert told == [list(pair.french) for pair in few]


# Batches


def test_batches_have_room_for_their_words_and_show_every_pair_once(words):
    pairs = words[0].train
    groups = groups_of_words(pairs, 90, torch.Generator().manual_seed(0))
    assert sorted(one for group in groups for one in group) == list(range(len(pairs)))
    sizes = [len(group) * (1 + max(len(pairs[one].french) for one in group)) for group in groups]
    assert max(sizes) <= 90 and sum(size > 60 for size in sizes) > 0.9 * len(sizes)
    lengths = [len(pairs[group[0]].french) for group in groups]
    assert lengths != sorted(lengths)


# A result


def test_the_alignment_is_chosen_on_validation_pairs(small, words, monkeypatch):
    seen = []

    def watched(trained, pairs):
        seen.append(pairs)
        return torch.tensor([[0.5, 0.4, 0.5, 0.5], [0.3, 0.2, 0.5, 0.5]])

    monkeypatch.setattr(transformer, "alignment_errors", watched)
    result = train_transformer.__wrapped__(**SMALL)
    validation = set(words[0].validation)
    assert len(seen) == 1 and len(seen[0]) >= 500 and validation.issuperset(seen[0])
    assert (result["shown"]["layer"], result["shown"]["head"]) == (1, 1)
    assert restore_transformer(result).shown == (1, 1)
    weights = restore_transformer(result).weights(words[0].test[:12])
    assert result["alignment_error"] == alignment_error(weights, words[0].test[:12])


# A trained model


def test_a_restored_model_translates_and_scores_as_the_trained_one_did(small, trained, words):
    measured = scores(trained, words[0].test[:12])
    assert all(same_results(small[name], measured[name]) for name in measured)


def test_sentences_come_back_in_the_order_they_were_given(trained, words):
    english = [pair.english for pair in words[0].test[:9]]
    together = trained.translate(english)
    assert together == [trained.translate([one])[0] for one in english] and trained.translate([]) == []
    assert all(len(told) <= limit_for(len(one)) for told, one in zip(together, english, strict=True))


@pytest.mark.parametrize("shown", [(0, 2), (1, None)])
def test_the_weights_of_a_pair_are_those_of_the_chosen_head_with_the_gold_words(trained, words, shown):
    chosen = TrainedTransformer(trained.model, trained.english, trained.french, HeadChoice(*shown))
    pairs = words[0].test[:7]
    for pair, weights in zip(pairs, chosen.weights(pairs), strict=True):
        batch = collate([pair], *words[1:])
        with torch.no_grad():
            layer = trained.model(batch.source, batch.source_mask, batch.target_in, True)[1].cross[shown[0]][0]
        expected = layer.mean(0) if shown[1] is None else layer[shown[1]]
        assert weights.shape == (len(pair.french) + 1, len(pair.english) + 1)
        torch.testing.assert_close(weights, expected)


def test_a_reading_shows_every_attention_without_padding(trained, words):
    pairs = words[0].test[:6]
    assert len({len(pair.english) for pair in pairs}) > 1
    for pair, reading in zip(pairs, readings(trained, pairs), strict=True):
        assert reading.source == (*pair.english, SPECIAL_TOKENS[EOS_ID]) and reading.read == (
            SPECIAL_TOKENS[BOS_ID],
            *pair.french,
        )
        assert reading.said == (*pair.french, SPECIAL_TOKENS[EOS_ID])
        n, m = len(reading.source), len(reading.read)
        for weights, shape in zip(reading.looks, ((3, n, n), (3, m, m), (3, m, n)), strict=True):
            assert len(weights) == 2
            for layer in weights:
                assert layer.shape == shape
                torch.testing.assert_close(layer.sum(-1), torch.ones(shape[:2]))
        assert all(layer.triu(1).eq(0).all() for layer in reading.looks.decoder)


def test_the_alignment_errors_are_those_of_each_head_and_of_the_mean(trained, words):
    pairs = words[0].validation[:10]
    errors = alignment_errors(trained, pairs)
    assert errors.shape == (2, 4)
    for layer in range(2):
        for column in range(4):
            shown = HeadChoice(layer, column if column < 3 else None)
            chosen = TrainedTransformer(trained.model, trained.english, trained.french, shown)
            assert errors[layer, column] == pytest.approx(alignment_error(chosen.weights(pairs), pairs))


def test_confidence_is_counted_over_real_words(trained, words):
    pairs = words[0].test[:4]
    told = []
    for pair in pairs:
        batch = collate([pair], *words[1:])
        with torch.no_grad():
            chances = trained.model(batch.source, batch.source_mask, batch.target_in)[0].softmax(-1)[0]
        for row, word in zip(chances, batch.target_out[0], strict=True):
            told.append([float(row.argmax() == word), row.max().item(), row[word].item()])
    expected = torch.tensor(told).mean(0).tolist()
    assert list(confidence(trained, pairs).values()) == pytest.approx(expected, rel=1e-4)


def test_greedy_and_beam_translate_each_pair_as_they_do_alone(trained, words):
    # Hardly trained, it may never end; with sources of one length all are cut at the same word.
    pairs = [pair for pair in words[0].test if len(pair.english) == len(words[0].test[0].english)][:7]
    assert len(pairs) >= 5
    rivals = greedy_and_beam(trained, pairs, width=3)
    assert [one.pair for one in rivals] == list(pairs)
    assert [list(one.greedy) for one in rivals] == trained.translate([pair.english for pair in pairs])
    for one in greedy_and_beam(trained, pairs, width=1):
        assert one.beam == one.greedy and one.beam_log_probability == pytest.approx(
            one.greedy_log_probability, abs=1e-3
        )


def test_sentences_can_be_moved_to_other_places(trained, words):
    pairs = words[0].test[:20]
    at_home = accuracy_from_place(trained, pairs, 0)
    assert at_home == pytest.approx(confidence(trained, pairs)["accuracy"], abs=1e-6)
    moved = fresh(words, tied="none")
    moved.load_state_dict(trained.model.state_dict())
    for vectors in (moved.source_vectors, moved.target_vectors):
        vectors.positions = vectors.positions[7:]
    seen = []  # a model that has hardly learned is seldom right at any place: compare what its decoder found
    hooks = [one.decoder.register_forward_hook(lambda *all: seen.append(all[-1][0])) for one in (trained.model, moved)]
    accuracy_from_place(trained, pairs, 7)
    confidence(TrainedTransformer(moved, *words[1:]), pairs)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(*seen)

"""Facts about training and evaluating translation models; the figures at full size are the benchmark's."""

import pytest
import torch

from tests.parity import same_results
from utils.data.tokens import BOS_ID, EOS_ID, PAD_ID, collate
from utils.training import translation
from utils.training.translation import (
    correct_tokens,
    endless_batches,
    pairs_and_words,
    restore,
    scores,
    train_model,
    train_translation,
)

PAIRS = 400
SMALL = {"num_steps": 4, "hidden_size": 8, "batch_size": 8, "num_pairs": PAIRS, "num_test": 12}


@pytest.fixture(scope="module")
def words():
    return pairs_and_words(PAIRS)


@pytest.fixture(scope="module")
def small():
    return train_translation.__wrapped__("multiplicative", **SMALL)


# Training


def test_all_scores_see_the_same_batches_in_the_same_order(words, monkeypatch):
    seen = []

    def fake_train(model, stream, num_steps):
        seen.append([next(stream).source for _ in range(num_steps)])
        return torch.zeros(num_steps)

    monkeypatch.setattr(translation, "train", fake_train)
    for score in (None, "dot", "multiplicative", "additive"):
        train_translation.__wrapped__(score, **SMALL)
    for sources in seen[1:]:
        assert all(torch.equal(*both) for both in zip(seen[0], sources, strict=True))


def test_an_epoch_shows_every_pair_once_and_the_next_in_another_order(words):
    data, english, french = words
    stream = endless_batches(data.train[:40], english, french, 8, 0)

    def epoch(stream):
        return [tuple(row[row != PAD_ID].tolist()) for _ in range(5) for row in next(stream).source]

    first, second = epoch(stream), epoch(stream)
    expected = sorted((*english.encode(pair.english), EOS_ID) for pair in data.train[:40])
    assert sorted(first) == sorted(second) == expected and first != second
    assert epoch(endless_batches(data.train[:40], english, french, 8, 1)) != first


def test_pretrained_embeddings_initialize_the_rows_of_their_words_at_the_scale_of_the_random_ones(words):
    data, english, french = words
    pretrained = {"words": ["the", "unheard-of", "not"], "embeddings": 50 * torch.randn(3, 8)}
    settings = {"num_steps": 0, "hidden_size": 8}
    random, _ = train_model(data.train[:8], english, french, "dot", **settings)
    initialized, _ = train_model(data.train[:8], english, french, "dot", embeddings=pretrained, **settings)
    before, after = (trained.model.encoder.embedding.weight for trained in (random, initialized))
    rows = english.encode(["the", "not"])
    others = [row for row in range(len(english)) if row not in rows]
    assert torch.equal(before[others], after[others])
    assert torch.allclose(
        after[rows] / after[rows].norm(), pretrained["embeddings"][[0, 2]] / pretrained["embeddings"][[0, 2]].norm()
    )
    assert 0.1 < after[rows].std() / before.std() < 3


# A trained model


def test_a_restored_model_has_the_scores_of_the_trained_one(small, words):
    restored = restore(small)
    measured = scores(restored, words[0].test[:12])
    assert all(same_results(small[name], measured[name]) for name in measured)


def test_the_weights_of_a_pair_are_those_of_the_model_under_teacher_forcing(small, words):
    _, english, french = words
    restored, pairs = restore(small), words[0].test[:7]
    for pair, weights in zip(pairs, restored.weights(pairs), strict=True):
        batch = collate([pair], english, french)
        assert batch.target_in[0, 0] == BOS_ID
        expected = restored.model(batch.source, batch.source_mask, batch.target_in)[1][0]
        assert weights.shape == (len(pair.french) + 1, len(pair.english) + 1)
        assert torch.allclose(weights, expected, atol=1e-5)


def test_a_greedy_translation_is_exact_where_every_token_is_correct_under_teacher_forcing(words):
    data, english, french = words
    pairs = [pair for pair in data.train if len(pair.english) < 7]
    trained, _ = train_model(pairs[:20], english, french, "dot", num_steps=250, hidden_size=64, batch_size=10)
    tokens = correct_tokens(trained, pairs)
    assert [len(row) for row in tokens] == [len(pair.french) + 1 for pair in pairs]
    translations = trained.translate([pair.english for pair in pairs])
    exact = [tuple(words) == pair.french for words, pair in zip(translations, pairs, strict=True)]
    assert [bool(row.all()) for row in tokens] == exact and 0 < sum(exact) < len(exact)

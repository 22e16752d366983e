"""Facts about the skip-gram model: its counts, its loss, and that words of one kind become neighbours."""

import math

import pytest
import torch

from utils.data.tokens import Vocabulary
from utils.training.skipgram import neighbour_counts, neighbours, skipgram_loss, train_skipgram

SENTENCES = [["a", "b", "c", "a"], ["b", "a"], ["c"]]


@pytest.fixture(scope="module")
def trained():
    return train_skipgram.__wrapped__(pairs=1500, steps=100)


def test_neighbours_are_counted_in_both_directions_within_the_window():
    vocabulary = Vocabulary(["a", "b", "c"])
    near = neighbour_counts(SENTENCES, vocabulary, 1)[4:, 4:]
    assert near.tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]
    wide = neighbour_counts(SENTENCES, vocabulary, 9)[4:, 4:]
    assert wide.tolist() == [[2, 3, 2], [3, 0, 1], [2, 1, 0]]


def test_the_loss_is_the_mean_surprise_over_every_pair_of_neighbours():
    vectors, contexts = torch.randn(3, 2), torch.randn(3, 2)
    counts = torch.tensor([[0.0, 2, 1], [2, 0, 1], [1, 1, 0]])
    total = 0.0
    for word in range(3):
        scores = vectors[word] @ contexts.T
        for other in range(3):
            surprise = math.log(scores.exp().sum()) - scores[other].item()
            total += counts[word, other].item() * surprise
    assert skipgram_loss(vectors, contexts, counts).item() == pytest.approx(total / 8, rel=1e-5)


def test_the_model_knows_more_than_how_frequent_words_are(trained):
    assert trained["loss"][-1] < trained["entropy"] - 0.2 < trained["loss"][0]
    assert trained["vectors"].shape == (len(trained["words"]), 16)


def test_words_of_one_kind_become_neighbours(trained):
    assert {"a", "the", "some"} & {word for word, _ in neighbours(trained, "the", 4)}
    animals = {"cat", "dog", "horse", "cow", "bird", "bee"}
    assert len(animals & {word for word, _ in neighbours(trained, "cat", 6)}) >= 3


def test_training_gives_the_same_vectors_twice(trained):
    again = train_skipgram.__wrapped__(pairs=1500, steps=100)
    assert torch.equal(again["vectors"], trained["vectors"])
    assert not torch.equal(train_skipgram.__wrapped__(1, pairs=1500, steps=2)["vectors"], trained["vectors"])

"""Facts about the skip-gram model: its counts, its loss, and that similar words become neighbors."""

import math

import pytest
import torch

from utils.data.tokens import Vocabulary
from utils.training.skipgram import cooccurrence_counts, nearest_neighbors, skipgram_loss, train_skipgram

SENTENCES = [["a", "b", "c", "a"], ["b", "a"], ["c"]]


@pytest.fixture(scope="module")
def trained():
    return train_skipgram.__wrapped__(num_pairs=1500, num_steps=100)


def test_cooccurrences_are_counted_in_both_directions_within_the_window():
    vocabulary = Vocabulary(["a", "b", "c"])
    near = cooccurrence_counts(SENTENCES, vocabulary, 1)[4:, 4:]
    assert near.tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]
    wide = cooccurrence_counts(SENTENCES, vocabulary, 9)[4:, 4:]
    assert wide.tolist() == [[2, 3, 2], [3, 0, 1], [2, 1, 0]]


def test_the_loss_is_the_mean_cross_entropy_over_every_pair_in_the_window():
    embeddings, contexts = torch.randn(3, 2), torch.randn(3, 2)
    counts = torch.tensor([[0.0, 2, 1], [2, 0, 1], [1, 1, 0]])
    total = 0.0
    for word in range(3):
        logits = embeddings[word] @ contexts.T
        for context in range(3):
            cross_entropy = math.log(logits.exp().sum()) - logits[context].item()
            total += counts[word, context].item() * cross_entropy
    assert skipgram_loss(embeddings, contexts, counts).item() == pytest.approx(total / 8, rel=1e-5)


def test_the_model_beats_a_unigram_model(trained):
    assert trained["loss"][-1] < trained["entropy"] - 0.2 < trained["loss"][0]
    assert trained["embeddings"].shape == (len(trained["words"]), 16)


def test_similar_words_become_neighbors(trained):
    assert {"a", "the", "some"} & {word for word, _ in nearest_neighbors(trained, "the", 4)}
    animals = {"cat", "dog", "horse", "cow", "bird", "bee"}
    assert len(animals & {word for word, _ in nearest_neighbors(trained, "cat", 6)}) >= 3


def test_training_is_reproducible(trained):
    again = train_skipgram.__wrapped__(num_pairs=1500, num_steps=100)
    assert torch.equal(again["embeddings"], trained["embeddings"])
    assert not torch.equal(
        train_skipgram.__wrapped__(1, num_pairs=1500, num_steps=2)["embeddings"], trained["embeddings"]
    )

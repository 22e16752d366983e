"""Facts about the bag of words: invariant to word order, and trained to the minimum of a convex loss."""

import math

import pytest
import torch
from torch.nn import functional as F

from utils.data.docstrings import Example
from utils.training.baselines import BagOfWords, bag_of_words, logistic_regression, words_of


def text_of(text: str, second: str | None = None) -> Example:
    return Example(text, "", "", second)


def test_features_are_words_and_punctuation_and_for_pairs_also_shared_words():
    assert words_of(text_of("The list, the LIST")) == {"the", "list", ","}
    assert words_of(text_of("a b", "B c")) == {"1 a", "1 b", "2 b", "2 c", "both b"}
    assert words_of(text_of("a", "")) == {"1 a"}


def test_rows_have_norm_one_and_rare_words_larger_weights():
    bag = BagOfWords([text_of("the cat"), text_of("the dog"), text_of("the")])
    rows = bag([text_of("the cat"), text_of("the the the"), text_of("a bird")]).to_dense()
    assert rows.norm(dim=-1).tolist() == pytest.approx([1, 1, 0])
    cat, the = bag.index["cat"], bag.index["the"]
    assert (rows[0, cat] / rows[0, the]).item() == pytest.approx(math.log(4) / math.log(2))
    assert rows.shape == (3, 3) and bag([]).shape == (0, 3)


def test_word_order_and_words_outside_the_vocabulary_change_nothing():
    bag = BagOfWords([text_of("is this right"), text_of("this is wrong")])
    row, reordered, with_unknown = bag(
        [text_of("this is right"), text_of("right is this"), text_of("right this indeed is")]
    ).to_dense()
    assert torch.equal(row, reordered) and torch.equal(row, with_unknown)


def test_logistic_regression_reaches_the_minimum_of_its_loss():
    generator = torch.Generator().manual_seed(0)
    features, labels = torch.randn(40, 5, generator=generator), torch.arange(40) % 3
    weight, bias = (part.requires_grad_() for part in logistic_regression(features, labels, 3, penalty=0.5))
    loss = F.cross_entropy(F.linear(features, weight, bias), labels) + 0.5 / 40 * weight.square().sum() / 2
    loss.backward()
    assert weight.grad.abs().max() < 1e-4 and bias.grad.abs().max() < 1e-4
    weakly_regularized, _ = logistic_regression(features, labels, 3, penalty=0.05)
    assert weakly_regularized.norm() > 1.05 * weight.norm()


def test_a_bag_of_words_learns_the_words_of_each_class():
    train = [text_of(f"{word} number {n}") for n in range(6) for word in ("cats purr", "dogs bark", "cows moo")]
    labels = torch.arange(18) % 3
    test = [text_of("the dogs run"), text_of("purr, moo and purr"), text_of("a cows moo"), text_of("cats")]
    assert bag_of_words(train, labels, test, 3)[[0, 2, 3]].tolist() == [1, 2, 0]

"""Facts about the bag of words: a convex problem with one solution, and blind to order."""

import math
from typing import NamedTuple

import pytest
import torch
from torch.nn import functional as F

from utils.training.baselines import Bag, bag_of_words, features_of, logistic_regression


class Text(NamedTuple):
    text: str
    second: str | None = None


def test_words_and_marks_are_features_and_two_texts_also_share_some():
    assert features_of(Text("The list, the LIST")) == {"the", "list", ","}
    assert features_of(Text("a b", "B c")) == {"1 a", "1 b", "2 b", "2 c", "both b"}
    assert features_of(Text("a", "")) == {"1 a"}


def test_rows_have_length_one_and_rare_words_weigh_more():
    bag = Bag([Text("the cat"), Text("the dog"), Text("the")])
    rows = bag([Text("the cat"), Text("the the the"), Text("a bird")]).to_dense()
    assert rows.norm(dim=-1).tolist() == pytest.approx([1, 1, 0])
    cat, the = bag.place["cat"], bag.place["the"]
    assert (rows[0, cat] / rows[0, the]).item() == pytest.approx(math.log(4) / math.log(2))
    assert rows.shape == (3, 3) and bag([]).shape == (0, 3)


def test_order_is_of_no_account_and_words_outside_training_are_of_none():
    bag = Bag([Text("is this right"), Text("this is wrong")])
    one, two, three = bag([Text("this is right"), Text("right is this"), Text("right this indeed is")]).to_dense()
    assert torch.equal(one, two) and torch.equal(one, three)


def test_the_regression_is_at_the_minimum_of_its_loss():
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(40, 5, generator=generator), torch.arange(40) % 3
    weight, bias = (one.requires_grad_() for one in logistic_regression(inputs, labels, 3, penalty=0.5))
    loss = F.cross_entropy(F.linear(inputs, weight, bias), labels) + 0.5 / 40 * weight.square().sum() / 2
    loss.backward()
    assert weight.grad.abs().max() < 1e-4 and bias.grad.abs().max() < 1e-4
    free, _ = logistic_regression(inputs, labels, 3, penalty=0.05)
    assert free.norm() > 1.05 * weight.norm()


def test_the_words_of_a_class_are_found():
    train = [Text(f"{word} number {n}") for n in range(6) for word in ("cats purr", "dogs bark", "cows moo")]
    labels = torch.arange(18) % 3
    test = [Text("the dogs run"), Text("purr, moo and purr"), Text("a cows moo"), Text("cats")]
    assert bag_of_words(train, labels, test, 3)[[0, 2, 3]].tolist() == [1, 2, 0]

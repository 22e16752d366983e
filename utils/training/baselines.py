"""Bag of words and logistic regression: the baselines that every sequence model should beat."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from utils.data.docstrings import Example

WORD = re.compile(r"\w+|[^\w\s]")


def words_of(example: Example) -> set[str]:
    """The lowercase words of a text. Of a pair: the words of each text, and the words that occur in both."""
    first = set(WORD.findall(example.text.lower()))
    if example.second is None:
        return first
    second = set(WORD.findall(example.second.lower()))
    parts = {"1": first, "2": second, "both": first & second}
    return {f"{part} {word}" for part, words in parts.items() for word in words}


class BagOfWords:
    """Binary bag of words with inverse document frequencies log(1 + texts / texts with the word), rows of norm 1.

    Vocabulary and weights come from the training texts alone.
    """

    def __init__(self, examples: Sequence[Example]):
        counts = Counter(word for example in examples for word in words_of(example))
        self.index = {word: index for index, word in enumerate(sorted(counts))}
        self.weights = torch.tensor([math.log(1 + len(examples) / counts[word]) for word in self.index])

    def __call__(self, examples: Sequence[Example]) -> Tensor:
        """A sparse tensor (n, words). Words outside the vocabulary are ignored."""
        word_ids = [
            sorted(self.index[word] for word in words_of(example) if word in self.index) for example in examples
        ]
        lengths = torch.tensor([len(ids) for ids in word_ids], dtype=torch.long)
        rows = torch.repeat_interleave(torch.arange(len(word_ids)), lengths)
        columns = torch.tensor([index for ids in word_ids for index in ids], dtype=torch.long)
        weights = self.weights[columns]
        values = weights / torch.zeros(len(word_ids)).index_add_(0, rows, weights.square()).sqrt()[rows]
        size = (len(word_ids), len(self.index))
        return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, size, check_invariants=True).coalesce()


def logistic_regression(features: Tensor, labels: Tensor, num_classes: int, penalty: float) -> tuple[Tensor, Tensor]:
    """Multinomial logistic regression: weight (num_classes, d) and bias (num_classes,) for features (n, d), labels (n,).

    Minimizes the mean cross-entropy plus penalty / n times half the squared weights. The problem is convex: there is no
    seed and no learning rate to choose.
    """
    weight = torch.zeros(num_classes, features.size(1), requires_grad=True)
    bias = torch.zeros(num_classes, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=200, tolerance_grad=1e-5, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(features @ weight.T + bias, labels)
        loss = loss + penalty / len(features) * weight.square().sum() / 2
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach(), bias.detach()


def linear_probe(train: Tensor, labels: Tensor, test: Tensor, num_classes: int, penalty: float) -> Tensor:
    """Logistic regression on fixed features: predicted classes (n,) of test (n, d), from train (m, d) and labels (m,)."""
    weight, bias = logistic_regression(train, labels, num_classes, penalty)
    return (test @ weight.T + bias).argmax(-1)


def bag_of_words(train: Sequence[Example], labels: Tensor, test: Sequence[Example], num_classes: int) -> Tensor:
    """Bag of words with logistic regression: predicted classes (n,) of the test texts. `labels` (m,) are of `train`."""
    bag = BagOfWords(train)
    return linear_probe(bag(train), labels, bag(test), num_classes, penalty=0.3)

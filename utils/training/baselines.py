"""What counting words gets right: the baseline under every model that reads in order."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

WORD = re.compile(r"\w+|[^\w\s]")


class Readable(Protocol):
    """One text, or two: `second` is None where there is one. `utils.data.docstrings.Example` and `utils.data.reviews.Review` are such."""

    @property
    def text(self) -> str: ...

    @property
    def second(self) -> str | None: ...


def features_of(example: Readable) -> set[str]:
    """The words of a text, in lower case. Of two texts: the words of each, and the words that both have."""
    first = set(WORD.findall(example.text.lower()))
    if example.second is None:
        return first
    second = set(WORD.findall(example.second.lower()))
    parts = {"1": first, "2": second, "both": first & second}
    return {f"{part} {word}" for part, found in parts.items() for word in found}


class Bag:
    """Texts as rows of numbers: a word that is there weighs log(1 + texts / texts with the word), and each row has length 1.

    Words and weights come from the training texts alone.
    """

    def __init__(self, examples: Sequence[Readable]):
        seen = Counter(word for example in examples for word in features_of(example))
        self.place = {word: number for number, word in enumerate(sorted(seen))}
        self.weights = torch.tensor([math.log(1 + len(examples) / seen[word]) for word in self.place])

    def __call__(self, examples: Sequence[Readable]) -> Tensor:
        """(n, words), sparse: few of the words are in any one text."""
        places = [sorted(self.place[word] for word in features_of(one) if word in self.place) for one in examples]
        known = torch.tensor([len(one) for one in places], dtype=torch.long)
        rows = torch.repeat_interleave(torch.arange(len(places)), known)
        columns = torch.tensor([number for one in places for number in one], dtype=torch.long)
        weights = self.weights[columns]
        values = weights / torch.zeros(len(places)).index_add_(0, rows, weights.square()).sqrt()[rows]
        size = (len(places), len(self.place))
        return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, size, check_invariants=True).coalesce()


def logistic_regression(inputs: Tensor, labels: Tensor, classes: int, penalty: float) -> tuple[Tensor, Tensor]:
    """Weights (classes, d) and biases (classes,) for inputs (n, d) and labels (n,).

    Minimises the mean cross-entropy plus penalty / n times half the squared weights. The problem has one solution, so there is no
    seed and no learning rate to choose.
    """
    weight = torch.zeros(classes, inputs.size(1), requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=200, tolerance_grad=1e-5, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(inputs @ weight.T + bias, labels)
        loss = loss + penalty / len(inputs) * weight.square().sum() / 2
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach(), bias.detach()


def bag_of_words(
    train: Sequence[Readable], labels: Tensor, test: Sequence[Readable], classes: int, penalty: float = 0.3
) -> Tensor:
    """Answers (n,) for the test texts: a linear layer on which words are there, whatever their order. `labels` (m,) are of `train`."""
    bag = Bag(train)
    weight, bias = logistic_regression(bag(train), labels, classes, penalty)
    return (bag(test) @ weight.T + bias).argmax(-1)

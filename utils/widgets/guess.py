"""Guess a distribution, commit, then compare it with the true one."""

import numpy as np

from utils.plots.figures import checked_weights
from utils.plots.style import checked_alt
from utils.widgets.base import Widget, sealed

START = 50


def guess_weights(labels, truth, question):
    """Ask for the weights of `labels` before showing them."""
    return GuessWeights(labels, truth, question)


def example():
    return guess_weights(["A", "B", "C"], [0.7, 0.2, 0.1], "What are the attention weights?")


class GuessWeights(Widget):
    """What `guess_weights` returns. Inputs: `levels`, one from 0 to 100 for each label, and `committed`."""

    script = "guess"

    def __init__(self, labels, truth, question):
        self._truth = checked_weights(truth, "the true weights").reshape(-1)
        labels = [str(label) for label in labels]
        data = {"title": checked_alt(question), "labels": labels, "truth": sealed(self._truth)}
        super().__init__(data, {"levels": [START] * len(labels), "committed": False})

    def respond(self, levels, committed):
        total = sum(levels)
        guess = np.array(levels) / total if total else None
        if guess is None or not committed:
            return {"guess": guess, "truth": None, "distance": None}
        return {"guess": guess, "truth": self._truth, "distance": total_variation(guess, self._truth)}

    def alt(self):
        """The question alone, in every state: a saved notebook must not reveal the truth."""
        return f"{self.data['title']} Guess a weight for each of: {', '.join(self.data['labels'])}."


def total_variation(first, second):
    """How much weight must be moved to turn one distribution into the other: 0 identical, 1 disjoint."""
    return float(np.abs(np.asarray(first) - np.asarray(second)).sum() / 2)


def samples():
    """Inputs at which the page's arithmetic is compared with Python's."""
    levels = np.random.default_rng(0).integers(0, 101, (20, 3)).tolist()
    return [{"levels": row, "committed": bool(index % 2)} for index, row in enumerate([*levels, [0, 0, 0]])]

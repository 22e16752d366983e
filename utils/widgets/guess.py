"""Guess a distribution, commit, then compare it with the true one."""

import ipywidgets
import numpy as np

from utils.plots.display import picture_bundle
from utils.plots.figures import bars, checked_weights
from utils.plots.style import COLORS, GREY, checked_alt, figure_png
from utils.widgets.forms import ThreeForms
from utils.widgets.stage import Stage

START = 50
SIZE = (8.0, 3.6)


def guess_weights(labels, truth, question):
    """Ask for the weights of `labels` before showing them. `truth` stays in Python until the learner commits."""
    return GuessWeights(labels, truth, question)


class GuessWeights(ThreeForms, ipywidgets.VBox):
    """What `guess_weights` returns. `guess` is the normalized guess, `committed` says whether the truth is shown."""

    def __init__(self, labels, truth, question):
        self._truth = checked_weights(truth, "the true weights").reshape(-1)
        self._names = [str(label) for label in labels]
        self._question = checked_alt(question)
        self.committed = False
        self._quiet = False
        self._sliders = [
            ipywidgets.IntSlider(
                value=START,
                min=0,
                max=100,
                readout=False,
                description=name,
                style={"description_width": f"{max(4, max(map(len, self._names)) * 0.65):.0f}em"},
                layout={"width": "min(28em, 98%)"},
            )
            for name in self._names
        ]
        self._commit = ipywidgets.Button(description="Commit", tooltip="Lock the guess and show the truth")
        self._again = ipywidgets.Button(description="Try again", tooltip="Unlock and start over", disabled=True)
        self._commit.on_click(lambda _: self.commit())
        self._again.on_click(lambda _: self.try_again())
        self._stage = Stage()
        self._show()
        for slider in self._sliders:
            slider.observe(self._changed, names="value")
        buttons = ipywidgets.HBox([self._commit, self._again])
        super().__init__(children=[*self._sliders, buttons, self._stage])
        self.add_class("course-widget")
        self.add_class("course-guess")

    @property
    def guess(self):
        """The guess, scaled to sum to 1; None while all sliders are zero."""
        return normalized([slider.value for slider in self._sliders])

    def commit(self):
        if self.guess is None:
            raise ValueError("all weights are zero: move at least one slider before committing")
        self.committed = True
        self._show()

    def try_again(self):
        self.committed = False
        self._quiet = True
        for slider in self._sliders:
            slider.value = START
        self._quiet = False
        self._show()

    def static(self):
        """The question over empty bars, in every state: a saved notebook must not reveal the truth."""
        alt = f"{self._question} Guess a weight for each of: {', '.join(self._names)}."
        return picture_bundle(figure_png(guess_figure(self._names, None, None, self._question), alt), alt)

    def _changed(self, _):
        # A slider that moved in the same moment as Commit was pressed must not change a locked guess.
        if not self._quiet and not self.committed:
            self._show()

    def _show(self):
        guess = self.guess
        for slider in self._sliders:
            slider.disabled = self.committed
        self._commit.disabled = self.committed or guess is None
        self._again.disabled = not self.committed
        truth = self._truth if self.committed else None
        words, text = guess_words(self._names, guess, truth, self._question)
        figure = guess_figure(self._names, guess, truth, self._question)
        state = {"committed": self.committed, "guess": [] if guess is None else [round(w, 4) for w in guess.tolist()]}
        self._stage.present(figure_png(figure, words), words, state, text=text)


def normalized(numbers):
    """Numbers from sliders as weights that sum to 1, or None when all are zero."""
    numbers = np.asarray(numbers, dtype=float)
    return numbers / numbers.sum() if numbers.sum() > 0 else None


def total_variation(first, second):
    """How much weight must be moved to turn one distribution into the other: 0 identical, 1 disjoint."""
    return float(np.abs(np.asarray(first) - np.asarray(second)).sum() / 2)


def guess_figure(labels, guess, truth, question):
    """The guess alone, or guess and truth. `guess=None` draws empty bars."""
    empty = guess is None
    guess = np.zeros(len(labels)) if empty else guess
    series = {"your guess": guess} if truth is None else {"your guess": guess, "truth": truth}
    colors = {"your guess": COLORS["guess"], "truth": COLORS["truth"]}
    figure = bars(labels, series, question, "weight", colors=colors, numbers=not empty, size=SIZE)
    if empty:
        for place in range(len(labels)):
            figure.axes[0].text(place, 0.08, "?", ha="center", fontsize=24, color=GREY)
    return figure


def guess_words(labels, guess, truth, question):
    """(alt text, line under the picture) for one state. The truth is named only when it is given."""
    if guess is None:
        return f"{question} No weight is set yet.", "All weights are zero: move at least one slider."
    said = listed(labels, guess)
    if truth is None:
        return f"{question} Your guess so far: {said}.", "Set your guess (it is scaled to sum to 1), then commit."
    distance = total_variation(guess, truth)
    verdict = (
        f"{closeness(distance)} The distance (total variation) is {distance:.2f}: "
        f"{distance:.0%} of your weight would have to move."
    )
    return f"{question} Your guess: {said}. The truth: {listed(labels, truth)}. {verdict}", verdict


def listed(labels, weights):
    return ", ".join(f"{label} {weight:.2f}" for label, weight in zip(labels, weights, strict=True))


def closeness(distance):
    if distance <= 0.05:
        return "Almost exactly right."
    if distance <= 0.15:
        return "Close."
    if distance <= 0.35:
        return "On the right track."
    return "Far off: compare the two once more."

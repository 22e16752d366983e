"""Controls around a pure function from parameters to a chart, which the page draws."""

import inspect
import itertools
import random

import numpy as np

from utils.plots.style import checked_alt
from utils.widgets import charts
from utils.widgets.base import Widget, answer_key, plain
from utils.widgets.controls import control, values

MAX_STORED = 200  # states whose charts are stored for pages without Python
DIGITS = 4  # of a stored number


def explore(function, /, alt, labels=None, page=None, **controls):
    """Show the chart `function(**parameters)` (see `charts`), with one control for each parameter (see `control`).

    alt: a sentence, to which the values of the controls are added, or a function of the parameters. labels: {parameter:
    words of its control}. page: the function of explore.js that computes the chart without Python. Otherwise the charts of
    all states are stored, if they are at most `MAX_STORED`; with more, or with a text to type, the widget needs Python.
    The function must be pure; it raises `ReaderError` for an input that has no chart.
    """
    return Explore(function, alt, labels or {}, page, controls)


class Explore(Widget):
    """What `explore` returns. Inputs: the parameters."""

    script = "explore"

    def __init__(self, function, alt, labels, page, controls):
        check_parameters(function, controls)
        self._function, self._alt = function, alt if callable(alt) else checked_alt(alt)
        made = [control(name, given, labels.get(name)) for name, given in controls.items()]
        self._specs = [spec for spec, _ in made]
        start = {spec["name"]: first for spec, first in made}
        super().__init__({"controls": self._specs, "start": start, "page": page}, start)
        # The page function starts from the first chart: it holds what no control changes.
        self.data = {**self.data, **({"chart": self.answer} if page else {"answers": self._stored(start)})}

    def respond(self, **parameters):
        return self._function(**{spec["name"]: typed(spec, parameters[spec["name"]]) for spec in self._specs})

    def _stored(self, start):
        choices = [values(spec) for spec in self._specs]
        if None in choices or np.prod([len(choice) for choice in choices]) > MAX_STORED:
            return {}
        states = [dict(zip(start, state, strict=True)) for state in itertools.product(*choices)]
        answers = {answer_key(plain(state)): rounded(plain(self.respond(**state))) for state in states}
        return answers | {answer_key(plain(start)): self.answer}

    def alt(self):
        parameters = {spec["name"]: typed(spec, self.inputs[spec["name"]]) for spec in self._specs}
        if callable(self._alt):
            return self._alt(**parameters)
        now = ", ".join(f"{spec['label']} {said(spec, parameters[spec['name']])}" for spec in self._specs)
        return f"{self._alt} Now: {now}."


def typed(spec, value):
    """The value of a slider with decimals as a float: JSON does not distinguish 1.0 from 1."""
    return float(value) if spec["kind"] == "slider" and (spec["log"] or spec["decimals"]) else value


def said(spec, value):
    """The value of a control in words."""
    if spec["kind"] == "choice":
        return next(label for label, option in spec["options"] if option == value)
    if spec["kind"] == "check":
        return "on" if value else "off"
    if spec["kind"] == "text":
        return f'"{" ".join(value.split())}"'
    return f"{value:,.15g}" if isinstance(value, float) else str(value)


def rounded(value):
    """Stored numbers need no more digits than a chart shows."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def check_parameters(function, controls):
    try:
        inspect.signature(function).bind(**dict.fromkeys(controls))
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        raise TypeError(f"{name} does not fit the controls {list(controls)}: {error}") from None


def example():
    def softmax_bars(temperature, z1, z2, z3):
        logits = np.array([z1, z2, z3])
        exponentials = np.exp((logits - logits.max()) / temperature)
        p = exponentials / exponentials.sum()
        title = f"T = {temperature:.1f}: the largest probability is {p.max():.2f}"
        return charts.bars([f"z{i + 1} = {logits[i]:.2f}" for i in range(3)], p, title, ylabel="probability")

    sliders = {f"z{number + 1}": (-3.0, 3.0, 0.25, 2.0 - number) for number in range(3)}
    return explore(
        softmax_bars, "Softmax of three logits.", page="softmax", temperature=(0.1, 5.0, 0.1, 1.0), **sliders
    )


def samples(widget=None, count=20):
    """Random inputs of the example, or of another widget."""
    generator = random.Random(0)
    specs = (widget or example()).data["controls"]
    return [{spec["name"]: generator.choice(values(spec)) for spec in specs} for _ in range(count)]

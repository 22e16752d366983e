"""Sliders and menus around a pure function from parameters to a figure."""

import inspect
import math
from dataclasses import dataclass

import ipywidgets

from utils.plots.display import close
from utils.plots.style import checked_alt, figure_png
from utils.widgets.forms import ThreeForms
from utils.widgets.stage import Stage

LABEL_WIDTH = "11em"


@dataclass(frozen=True)
class LogRange:
    """A slider that multiplies: equal distances are equal factors."""

    low: float
    high: float
    start: float
    steps: int = 60


@dataclass(frozen=True)
class Menu:
    """A choice that need not start at its first option."""

    options: list | dict
    start: object


def menu(options, start):
    """For `explore`: a choice whose options stand in their own order and which starts at the value `start`."""
    return Menu(options, start)


def log_range(low, high, start, steps=60):
    """For `explore` and `plane`: a slider from low to high on a logarithmic scale."""
    return LogRange(low, high, start, steps)


def explore(figure_function, /, alt, *, labels=None, **controls):
    """Show `figure_function(**parameters)` with one control for each parameter.

    A control is (low, high, step, start) or `log_range(...)` for a slider, a list of values, a list of (label, value)
    or a dict {label: value} for a choice (the first is the start, or `menu(options, start)`), True or False for a check
    box, a string for a text field (one with line ends for a larger one), or any ipywidget with a value. `alt` is a
    sentence, behind which the state of every control is said as the reader sees it, or a function of the same
    parameters that gives one. `labels` maps parameter names to what the reader sees. The figure function must be pure:
    same parameters, same figure.
    """
    return Explore(figure_function, alt, controls, labels or {})


class Explore(ThreeForms, ipywidgets.VBox):
    """What `explore` returns. `parameters` reads the controls, `set(**parameters)` moves them."""

    def __init__(self, figure_function, alt, controls, labels):
        check_parameters(figure_function, controls)
        self._figure_function = figure_function
        self._alt = alt if callable(alt) else checked_alt(alt)
        self._labels = {name: labels.get(name, name.replace("_", " ")) for name in controls}
        self._controls = {name: make_control(name, self._labels[name], given) for name, given in controls.items()}
        self._start = self.parameters
        self._stage = Stage()
        self._quiet = False
        self._draw()
        for control in self._controls.values():
            control.observe(self._changed, names="value")
        reset = ipywidgets.Button(description="Reset", tooltip="Restore the initial values")
        reset.on_click(lambda _: self.reset())
        reset.layout.margin = f"2px 2px 8px calc({LABEL_WIDTH} + 8px)"
        super().__init__(children=[*self._controls.values(), reset, self._stage])
        self.add_class("course-widget")
        self.add_class("course-explore")

    @property
    def parameters(self):
        return {name: control.value for name, control in self._controls.items()}

    def set(self, **parameters):
        """Move several controls and draw once."""
        self._quiet = True
        try:
            for name, value in parameters.items():
                self._controls[name].value = value
        finally:
            self._quiet = False
        self._draw()

    def reset(self):
        self.set(**self._start)

    def static(self):
        return self._stage.static()

    def _changed(self, _):
        if not self._quiet:
            self._draw()

    def _draw(self):
        parameters = self.parameters
        state = {name: plain(value) for name, value in parameters.items()}
        try:
            shown = {name: shown_value(control) for name, control in self._controls.items()}
            png, alt = render(self._figure_function, self._alt, parameters, self._labels, shown)
        except Exception as error:
            # The person at the slider reads one sentence; the kernel and the tests get the exception itself.
            self._stage.complain(error, state)
            raise
        self._stage.present(png, alt, state)


def render(figure_function, alt, parameters, labels=None, shown=None):
    """(png, alt text) of one state: the whole widget as a pure function. shown: {name: words} for its values."""
    figure = figure_function(**parameters)
    words = checked_alt(alt(**parameters)) if callable(alt) else checked_alt(alt)
    if not callable(alt) and parameters:
        shown = {name: said(value) for name, value in parameters.items()} | (shown or {})
        values = (f"{(labels or {}).get(name, name)} {shown[name]}" for name in parameters)
        words = f"{words} Now: {', '.join(values)}."
    png = figure_png(figure, words)
    close(figure)
    return png, words


def shown_value(control):
    """The state of a control as the reader sees it: of a choice its label, which may say more than its value."""
    label = getattr(control, "label", None)
    if isinstance(label, tuple):  # a choice of several
        return ", ".join(label) or "none"
    return label if isinstance(label, str) else said(control.value)


def said(value):
    """A parameter's value as words of an alt text."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def plain(value):
    """A value that JSON can carry; anything else as its text."""
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def check_parameters(function, controls):
    try:
        inspect.signature(function).bind(**dict.fromkeys(controls))
    except TypeError as error:
        name = getattr(function, "__name__", "the figure function")
        raise TypeError(f"{name} does not fit the controls {list(controls)}: {error}") from None


def check_range(name, given):
    if len(given) != 4 or not all(isinstance(number, (int, float)) for number in given):
        raise ValueError(f"the control {name!r} must be four numbers (low, high, step, start), got {given!r}")
    low, high, step, start = given
    if not (low < high and step > 0 and low <= start <= high):
        raise ValueError(
            f"the control {name!r} needs low < high, a positive step and a start between them, got {given!r}"
        )


def make_control(name, label, given):
    """The ipywidget for one control."""
    wide = {
        "description": label,
        "style": {"description_width": LABEL_WIDTH},
        "layout": {"width": "min(38em, 98%)"},
    }
    if isinstance(given, ipywidgets.ValueWidget):
        return given
    if isinstance(given, bool):
        return ipywidgets.Checkbox(value=given, indent=True, **wide)
    if isinstance(given, str) and "\n" in given:
        return ipywidgets.Textarea(value=given, rows=given.count("\n") + 4, continuous_update=False, **wide)
    if isinstance(given, str):
        return ipywidgets.Text(value=given, continuous_update=False, **wide)
    if isinstance(given, LogRange):
        return log_slider(given, wide)
    if isinstance(given, tuple):
        check_range(name, given)
        return slider(given, wide)
    if isinstance(given, Menu):
        return choice(given.options, wide, given.start)
    if isinstance(given, (list, dict)) and given:
        return choice(given, wide)
    raise TypeError(
        f"the control {name!r} is {given!r}; expected (low, high, step, start), log_range(...), a list or a dict of "
        "choices, menu(...), True or False, a string or an ipywidget"
    )


def slider(given, options):
    low, high, step, start = given
    if all(isinstance(number, int) for number in given):
        return ipywidgets.IntSlider(min=low, max=high, step=step, value=start, **options)
    return ipywidgets.FloatSlider(
        min=low, max=high, step=step, value=start, readout_format=f".{decimals_of(step)}f", **options
    )


def log_slider(given, options):
    low, high = math.log10(given.low), math.log10(given.high)
    options = {**options, "readout_format": ".0f" if given.low >= 100 else ".3g"}  # 262144, never 2.62e+5
    return ipywidgets.FloatLogSlider(
        base=10, min=low, max=high, step=(high - low) / given.steps, value=given.start, **options
    )


def choice(given, options, start=None):
    if isinstance(given, dict):
        pairs = list(given.items())
    elif all(isinstance(option, tuple) and len(option) == 2 and isinstance(option[0], str) for option in given):
        pairs = list(given)
    else:
        pairs = [(str(option), option) for option in given]
    start = pairs[0][1] if start is None else start
    if len(pairs) <= 4:
        buttons = ipywidgets.ToggleButtons(options=pairs, value=start, **options)
        buttons.style.button_width = "auto"
        return buttons
    return ipywidgets.Dropdown(options=pairs, value=start, **options)


def decimals_of(step):
    """How many decimals a slider with this step shows."""
    text = f"{step:.6f}".rstrip("0")
    return max(1, len(text.split(".")[1]))

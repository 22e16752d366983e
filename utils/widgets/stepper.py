"""A walk through numbered steps, each a figure or HTML."""

import ipywidgets

from utils.plots.display import close
from utils.plots.style import checked_alt, figure_png
from utils.widgets.forms import ThreeForms
from utils.widgets.stage import Stage


def stepper(step_function, /, steps, alt):
    """Show `step_function(index)`, a matplotlib figure or an HTML string, for one step after another.

    steps: how many, or a list with a label for each. alt: a sentence, or a function of the index that gives one.
    The function must be pure; each step is made once, when it is first seen.
    """
    return Stepper(step_function, steps, alt)


class Walk:
    """Mixin for a widget with numbered steps: two buttons, a slider, and the arrow keys on its stage.

    `walk(count)` makes them, and gives the row of controls; `_show()`, which the widget has, is called at every step.
    """

    def walk(self, count):
        self._slider = ipywidgets.IntSlider(
            value=0,
            min=0,
            max=1,
            readout=False,
            description="step",
            style={"description_width": "3em"},
            layout={"width": "min(24em, 60%)"},
        )
        self._back = ipywidgets.Button(description="Previous", icon="chevron-left", tooltip="Previous step")
        self._on = ipywidgets.Button(description="Next", icon="chevron-right", tooltip="Next step")
        self._stage = Stage(arrow_keys="steps: left and right arrow keys, Home and End")
        self._quiet = False
        self.start_again(count)
        self._stage.on_msg(self._key)
        self._back.on_click(lambda _: self._move(-1))
        self._on.on_click(lambda _: self._move(+1))
        self._slider.observe(self._stepped, names="value")
        return ipywidgets.HBox([self._back, self._on, self._slider], layout={"align_items": "center"})

    def start_again(self, count):
        """Go to the first of so many steps without showing it yet."""
        self.count = count
        self._quiet = True
        try:
            self._slider.value = 0
            self._slider.max = max(count - 1, 1)  # a slider without room is an error in the front end
        finally:
            self._quiet = False
        self._slider.disabled = count == 1
        self._mark_ends()

    @property
    def index(self):
        return self._slider.value

    @index.setter
    def index(self, index):
        if not 0 <= index < self.count:
            raise ValueError(f"there are {self.count} steps, from 0 to {self.count - 1}, got {index}")
        self._slider.value = index

    def static(self):
        return self._stage.static()

    def _move(self, by):
        self.index = min(max(self.index + by, 0), self.count - 1)

    def _key(self, _, message, __):
        last = self.count - 1
        moves = {"ArrowLeft": self.index - 1, "ArrowRight": self.index + 1, "Home": 0, "End": last}
        if message.get("key") in moves:
            self.index = min(max(moves[message["key"]], 0), last)

    def _mark_ends(self):
        self._back.disabled = self.index == 0
        self._on.disabled = self.index == self.count - 1

    def _stepped(self, _):
        if not self._quiet:
            self._mark_ends()
            self._show()


class Stepper(Walk, ThreeForms, ipywidgets.VBox):
    """What `stepper` returns. `index` is the step shown, from 0; set it to go there."""

    def __init__(self, step_function, steps, alt):
        self._step_function = step_function
        self._labels = step_labels(steps)
        self._alt = alt if callable(alt) else checked_alt(alt)
        self._made = {}
        row = self.walk(len(self._labels))
        self._show()
        super().__init__(children=[row, self._stage])
        self.add_class("course-widget")
        self.add_class("course-stepper")

    def _show(self):
        index = self.index
        state = {"step": index, "label": self._labels[index]}
        try:
            if index not in self._made:
                self._made[index] = make_step(self._step_function, self._alt, self._labels, index)
        except Exception as error:
            self._stage.complain(error, state)
            raise
        content, alt = self._made[index]
        present = self._stage.present if isinstance(content, bytes) else self._stage.present_html
        present(content, alt, state, text=step_text(self._labels, index))


def step_labels(steps):
    """One label for each step, from a number of steps or a list of labels."""
    labels = [""] * steps if isinstance(steps, int) else [str(step) for step in steps]
    if not labels:
        raise ValueError("a stepper needs at least one step")
    return labels


def step_text(labels, index):
    label = f": {labels[index]}" if labels[index] else ""
    return f"Step {index + 1} of {len(labels)}{label}"


def make_step(step_function, alt, labels, index):
    """(PNG bytes or HTML, alt text) of one step."""
    content = step_function(index)
    words = alt(index) if callable(alt) else f"{checked_alt(alt)} {step_text(labels, index)}."
    words = checked_alt(words)
    if isinstance(content, str):
        return content, words
    png = figure_png(content, words)
    close(content)
    return png, words

"""A sentence that the reader types, and its translation token by token: candidates and attention weights at each step."""

import ipywidgets
import numpy as np

from utils.plots.display import close
from utils.plots.lesson03 import decoding_step
from utils.plots.lesson06 import MEAN, chosen_map, head_choices, layer_choices, map_name
from utils.plots.parts import percent
from utils.plots.style import as_array, figure_png
from utils.widgets.attention_view import spoken
from utils.widgets.forms import ThreeForms
from utils.widgets.stepper import Walk

MAX_LETTERS = 400  # of a sentence


def translate_watch(respond, start, *, step=0, layer=MEAN, head=MEAN, title=""):
    """Type a sentence, press Enter or the button, and step through its translation.

    respond(text) is a pure function and returns a dict with "source", n tokens, "target", the m generated tokens,
    "candidates", for each of these a list of up to five (token, probability), most probable first, and "weights"
    (num_layers, num_heads, m, n), the cross-attention; perhaps "sentence", the translation as one line. If it raises
    ValueError, the reader sees its message (out of vocabulary, too long a sentence) and what was shown stays. start: the
    first sentence. step: the target position that is shown at first; another sentence starts at 0. layer, head: whose
    weights are shown at first, -1 for the mean; in the menus they come first.
    """
    return TranslateWatch(respond, start, layer, head, title, step)


class TranslateWatch(Walk, ThreeForms, ipywidgets.VBox):
    """What `translate_watch` returns. `index` is the step shown, `answer` what `respond` returned; `translate(text)` calls it again."""

    def __init__(self, respond, start, layer, head, title, step):
        self._respond, self._title = respond, title
        self.answer = answer_of(respond, checked_text(start))
        self.shown = self.answer["text"]  # the sentence that the picture belongs to
        layers, heads = self.answer["weights"].shape[:2]
        row = self.walk(len(self.answer["target"]))
        self._begin_at(step)
        self._slider.description = "token"
        self._text = ipywidgets.Text(
            value=self.shown,
            description="your sentence",
            continuous_update=False,
            style={"description_width": "initial"},
            layout={"width": "min(44em, 76%)"},
        )
        self._button = ipywidgets.Button(description="Translate", tooltip="Translate the sentence")
        self._layer = choice("layer", layer_choices(layers), layer)
        self._head = choice("head", head_choices(heads), head)
        self._show()
        self._text.observe(lambda _: self.translate(self._text.value), names="value")
        # A click takes the keyboard from the text field, which sends a new sentence by itself.
        self._button.on_click(lambda _: self.translate(self._text.value))
        for menu in (self._layer, self._head):
            menu.observe(lambda _: self._show(), names="value")
        first = ipywidgets.HBox([self._text, self._button], layout={"align_items": "center"})
        menus = [menu for menu, count in ((self._layer, layers), (self._head, heads)) if count > 1]
        second = [ipywidgets.HBox(menus)] if menus else []
        super().__init__(children=[first, row, *second, self._stage])
        self.add_class("course-widget")
        self.add_class("course-translate")

    def translate(self, text):
        """Show the translation of another sentence, from its first token on."""
        state = {"sentence": text, "step": self.index, "layer": self._layer.value, "head": self._head.value}
        if text == self.shown and not self._stage.error:
            return
        try:
            answer = answer_of(self._respond, checked_text(text))
        except ReaderError as error:
            self._stage.tell(str(error), state)
            return
        except Exception as error:
            self._stage.complain(error, state)
            raise
        self.answer, self.shown = answer, text
        self.start_again(len(answer["target"]))
        self._show()

    def _begin_at(self, step):
        """Go to a step without showing it yet."""
        self._quiet = True
        try:
            self.index = step
        finally:
            self._quiet = False
        self._mark_ends()

    def _show(self):
        selection = (self.index, self._layer.value, self._head.value)
        state = dict(zip(("step", "layer", "head"), selection, strict=True)) | {"sentence": self.shown}
        try:
            alt = watch_words(self.answer, *selection, self._title)
            figure = watch_picture(self.answer, *selection, self._title)
            png = figure_png(figure, alt)
        except Exception as error:
            self._stage.complain(error, state)
            raise
        close(figure)
        self._stage.present(png, alt, state, text=f"{self.shown} → {self.answer['sentence']}")


class ReaderError(ValueError):
    """What is wrong with a sentence, for the person who typed it."""


# Checks


def choice(name, options, start):
    if start == MEAN and len(options) == 1:  # the mean of one is that one
        start = 0
    options = sorted(options.items(), key=lambda option: option[1] != start)  # what is shown at first comes first
    width = {"layout": {"width": "16em"}, "style": {"description_width": "4em"}}
    return ipywidgets.Dropdown(options=options, value=start, description=name, **width)


def checked_text(text):
    if not isinstance(text, str):
        raise TypeError(f"expected a sentence as a string, got {type(text).__name__}")
    if not text.strip():
        raise ReaderError("The sentence is empty: write some words and press Enter.")
    if len(text) > MAX_LETTERS:
        raise ReaderError(f"The sentence has {len(text)} letters, more than {MAX_LETTERS}: write a shorter one.")
    return text


def answer_of(respond, text):
    """What `respond` gives for a sentence."""
    try:
        answer = respond(text)
    except ValueError as error:
        raise ReaderError(" ".join(str(error).split()) or "This sentence cannot be translated.") from error
    sentence = str(answer.get("sentence", "")) or " ".join(answer["target"])
    return answer | {"text": text, "weights": as_array(answer["weights"]), "sentence": sentence}


# One step, as a picture and in words


def watch_picture(answer, step, layer=MEAN, head=MEAN, title=""):
    """One step: bars over the source for the attention weights, the tokens generated so far, the most probable ones now."""
    row = chosen_map(answer["weights"], layer, head)[step]
    which = map_name(*answer["weights"].shape[:2], layer, head)
    head_line = f"token {step + 1} of {len(answer['target'])}: {answer['target'][step]} ({which})"
    opening = f"{title}, {head_line}" if title else head_line
    return decoding_step(
        answer["source"], row / row.sum(), answer["target"][:step], answer["candidates"][step], opening
    )


def watch_words(answer, step, layer=MEAN, head=MEAN, opening=""):
    """The same step in words: prediction, confidence and attention."""
    row = chosen_map(answer["weights"], layer, head)[step]
    names = spoken(answer["source"])
    order = np.argsort(-row, kind="stable")[:3]
    attended = ", ".join(f"{names[index]} {row[index]:.2f}" for index in order if row[index] >= 0.005)
    candidates = ", ".join(f"{token} {percent(prob)}" for token, prob in answer["candidates"][step])
    generated = " ".join(answer["target"][:step]) or "nothing yet"
    parts = [
        opening.rstrip(".!? ") + "." if opening else "",
        f"“{' '.join(answer['source'])}” becomes “{answer['sentence']}”.",
        f"Token {step + 1} of {len(answer['target'])}; generated so far: {generated}.",
        f"Most probable now: {candidates}.",
        f"It attends most to {attended} ({map_name(*answer['weights'].shape[:2], layer, head)}).",
    ]
    return " ".join(part for part in parts if part)

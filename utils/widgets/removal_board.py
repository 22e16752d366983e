"""Head ablation: switch heads off, one by one or many at once, and see the accuracy without them."""

import itertools
import json

import anywidget
import numpy as np
import traitlets
from matplotlib.patches import FancyBboxPatch, Rectangle

from utils.plots.display import picture_bundle
from utils.plots.figures import TITLE, effect_colors, points, signed, title_lines, write_title
from utils.plots.style import COLORS, FONT, GREY, PALE, SMALL, as_array, canvas, figure_png
from utils.plots.text import inches
from utils.widgets.forms import ThreeForms, page_state
from utils.widgets.mask_board import ended, tensor_of
from utils.widgets.stage import STATIC, script, sentence_of

NAMED = 8  # ablated heads named in a sentence; more are counted
STORED_UP_TO = 8  # heads: a page stores the answer to each of the 2^8 ways to switch them


def removal_board(respond, layers, heads, *, effect, chance, title="", what="right", chance_name="chance"):
    """A switch for every head; the accuracy with the heads that are on, against all heads and against chance.

    respond(head_mask) is a pure function of a bool tensor (layers, heads), True = on, and returns a dict with "accuracy",
    a share from 0 to 1, and if you like "detail", rows (label, text or number, ok) to list, where ok is True, False or None.
    effect (layers, heads): the change of accuracy when this head alone is ablated, below 0 where it is needed; it colors
    the tiles. chance: another accuracy to stand beside, a share, and chance_name what to call it. what: of what the
    accuracy is the share.
    """
    return RemovalBoard(respond, layers, heads, effect, chance, title, what, chance_name)


class RemovalBoard(ThreeForms, anywidget.AnyWidget):
    """What `removal_board` returns. `on` follows the reader, `answer` is what `respond` gave for it."""

    _esm = script("removal.js")
    _css = STATIC / "removal.css"
    title = traitlets.Unicode("").tag(sync=True)
    what = traitlets.Unicode("").tag(sync=True)
    on = traitlets.List().tag(sync=True)  # rows of bools
    effects = traitlets.List().tag(sync=True)  # rows of dicts: text, said, face, ink
    full = traitlets.Float(0.0).tag(sync=True)  # the accuracy of all heads
    chance = traitlets.Float(0.0).tag(sync=True)
    said = traitlets.Dict().tag(sync=True)  # the same two in words
    answer = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)

    def __init__(self, respond, layers, heads, effect, chance, title, what, chance_name):
        self._respond, self.effect, self.chance_name = respond, as_array(effect), chance_name
        on = np.ones((layers, heads), dtype=bool).tolist()
        answer = answer_of(respond, on)
        full, chance = answer["accuracy"], float(chance)
        super().__init__(
            title=title,
            what=what,
            on=on,
            effects=tiles(self.effect),
            full=full,
            chance=chance,
            said=bar_words(full, chance, self.chance_name),
            answer={
                **answer,
                "text": what_is_left(on, answer["accuracy"], full, chance, what, self.chance_name),
                "count": 1,
            },
        )
        self.add_class("course-widget")
        self.add_class("course-removal")
        self.observe(self._follow, names=["on"])

    def alt_text(self):
        now = self.answer
        state = (now["on"], now["accuracy"], self.full, self.chance, self.effect)
        return removal_words(*state, self.what, self.title, self.chance_name)

    def page_view(self):
        layers, heads = np.shape(self.on)
        if layers * heads > STORED_UP_TO:
            return None
        changes = {}
        for switches in itertools.product([True, False], repeat=layers * heads):
            on = np.reshape(switches, (layers, heads)).tolist()
            changes[json.dumps([on], separators=(",", ":"))] = {"answer": {**self._answer(on), "count": 1}}
        return page_state(self, "removal", {"traits": ["on"], "changes": changes})

    def static(self):
        now, alt = self.answer, self.alt_text()
        state = (now["on"], now["accuracy"], self.full, self.chance, self.effect)
        figure = removal_picture(*state, self.title, self.what, self.chance_name)
        return picture_bundle(figure_png(figure, alt), alt)

    def _follow(self, _):
        count = self.answer["count"] + 1
        try:
            answer = self._answer(self.on)
        except Exception as error:
            with self.hold_sync():
                self.error = sentence_of(error).replace(
                    "The figure could not be drawn", "There is no accuracy for this"
                )
                self.answer = {**self.answer, "count": count}
            raise
        with self.hold_sync():
            self.error = ""
            self.answer = {**answer, "count": count}

    def _answer(self, on):
        answer = answer_of(self._respond, on)
        text = what_is_left(on, answer["accuracy"], self.full, self.chance, self.what, self.chance_name)
        return {**answer, "text": text}


def answer_of(respond, on):
    """What `respond` gives for these heads: "on", "accuracy", "percents", and "detail" as [label, text, ok]."""
    answer = respond(tensor_of(on))  # a new tensor each time: whatever respond does to it stays there
    accuracy = float(answer["accuracy"])
    detail = [[str(label), shown(text), ok if ok is None else bool(ok)] for label, text, ok in answer.get("detail", ())]
    return {"on": on, "accuracy": accuracy, "percents": percents(accuracy), "detail": detail}


def shown(text):
    """A number in two decimals, words as they are."""
    if isinstance(text, (bool, str)):
        return str(text)
    try:
        number = float(text)
    except (TypeError, ValueError):
        return str(text)
    return str(text) if number == int(number) and not isinstance(text, float) else signed(number)


# Colors


def tiles(effect):
    """What stands on each tile, for the page: text, words for a screen reader, and the colors of both."""
    faces, inks = effect_colors(effect)
    return [
        [
            {"text": points(one), "said": f"ablated alone {points(one)} points", "face": face, "ink": ink}
            for one, face, ink in zip(*rows, strict=True)
        ]
        for rows in zip(effect.tolist(), faces, inks, strict=True)
    ]


# Words


def percents(share):
    return f"{100 * share:.1f} %"


def bar_words(full, chance, chance_name):
    """What is written at the two marks of the bar."""
    return {"full": f"all heads {percents(full)}", "chance": f"{chance_name} {percents(chance)}"}


def head_name(layer, head, layers):
    return f"layer {layer + 1} head {head + 1}" if layers > 1 else f"head {head + 1}"


def which_are_off(on):
    """The ablated heads in words."""
    on = np.array(on)
    off = np.argwhere(~on).tolist()
    count = on.size
    if not off:
        return f"All {count} heads are on" if count > 1 else "The only head is on"
    if len(off) == count:
        return f"All {count} heads are ablated" if count > 1 else "The only head is ablated"
    if on.sum() == 1 and count > 2:
        return f"Only {head_name(*np.argwhere(on)[0].tolist(), len(on))} is on"
    said = f"{len(off)} of {count} heads {'is' if len(off) == 1 else 'are'} ablated"
    if len(off) > NAMED:
        return said
    return f"{said}: {', '.join(head_name(*head, len(on)) for head in off)}"


def what_is_left(on, accuracy, full, chance, what, chance_name):
    """Which heads are ablated and what that does to the accuracy, in two sentences."""
    fall = accuracy - full
    said = f"{which_are_off(on)}. {percents(accuracy)} {what}"
    if not np.all(on):
        said += (
            f", as with all heads ({percents(full)})"
            if abs(fall) < 0.0005
            else f", {points(abs(fall)).lstrip('+')} points {'below' if fall < 0 else 'above'} all heads ({percents(full)})"
        )
    return f"{said}; {chance_name}: {percents(chance)}."


def removal_words(on, accuracy, full, chance, effect, what, title, chance_name):
    """The text form: the state of the board, and the effect of each head alone."""
    order = np.argsort(effect, axis=None)[: min(effect.size, 4)]
    heads = [np.unravel_index(index, effect.shape) for index in order]
    most = ", ".join(f"{head_name(*head, len(effect))} {points(effect[head])}" for head in heads)
    more = " (the largest falls)" if effect.size > len(heads) else ""
    left = what_is_left(on, accuracy, full, chance, what, chance_name)
    return f"{ended(title)} {left} Ablated alone, in points{more}: {most}.".strip()


# The static picture, in inches from its upper left corner

GAP = 0.07


def removal_picture(on, accuracy, full, chance, effect, title, what, chance_name):
    """The board as a figure: a tile for each head with the effect of removing it alone, and the accuracy as a bar.

    on (layers, heads) bool; accuracy, full and chance are shares; effect (layers, heads) is the change of accuracy.
    """
    on = np.array(on)
    layers, heads = on.shape
    left = 0.2 + (inches(f"layer {layers}", FONT) + 0.15 if layers > 1 else 0)
    tile = min(1.25, (11.0 - left) / heads - GAP)
    width = max(7.6, left + heads * (tile + GAP) + 0.2)
    width = max(width, min(11.2, inches(title, TITLE, "bold") + 0.4) if title else 0)
    top = 0.3 + 0.3 * title_lines(title, width) + 0.25
    tall = min(0.62, 6.2 / layers - GAP)
    bar = top + layers * (tall + GAP) + 0.8
    figure, axes = canvas(width, bar + 0.95, margins=(0, 0, 0, 0))
    axes.set(xlim=(0, width), ylim=(bar + 0.95, 0))
    axes.axis("off")
    _draw_tiles(axes, on, effect, left, top, tile, tall)
    _draw_bar(axes, accuracy, full, chance, bar_words(full, chance, chance_name), bar, width, what)
    write_title(figure, title)
    return figure


def _write(axes, x, y, text, size=SMALL, ha="center", va="center", **look):
    return axes.text(x, y, text, fontsize=size, ha=ha, va=va, parse_math=False, **look)


def _draw_tiles(axes, on, effect, left, top, tile, tall):
    layers, heads = on.shape
    faces, inks = effect_colors(effect)
    for head in range(heads):
        name = f"head {head + 1}" if tile > 0.66 else str(head + 1)
        _write(axes, left + head * (tile + GAP) + tile / 2, top - 0.15, name, SMALL + 1)
    for layer, head in np.ndindex(on.shape):
        x, y = left + head * (tile + GAP), top + layer * (tall + GAP)
        if head == 0 and layers > 1:
            _write(axes, 0.2, y + tall / 2, f"layer {layer + 1}", SMALL + 1, "left")
        box = {"boxstyle": "round,pad=0,rounding_size=0.05", "linewidth": 1.4}
        if on[layer, head]:
            look = {"facecolor": faces[layer][head], "edgecolor": "#767676"}
            ink = inks[layer][head]
        else:
            look, ink = {"facecolor": "white", "edgecolor": "black", "linestyle": "--", "hatch": "//"}, "black"
        patch = FancyBboxPatch((x, y), tile, tall, **box, **look)
        axes.add_patch(patch)
        mark = "ablated" if tile > 0.8 else "off"
        words = [points(effect[layer, head])] + ([] if on[layer, head] else [mark])
        behind = {} if on[layer, head] else {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5}}
        for line, word in enumerate(words):
            height = y + tall / 2 + 0.25 * (line - (len(words) - 1) / 2)
            _write(axes, x + tile / 2, height, word, SMALL, color=ink, **behind)
    note = "on a tile: change of accuracy, in points, when this head alone is ablated"
    _write(axes, 0.2, top + layers * (tall + GAP) + 0.12, note, SMALL, "left", color=GREY)


def _draw_bar(axes, accuracy, full, chance, words, y, width, what):
    """A bar from 0 to 1; all heads are marked above it, chance below."""
    result = f"{percents(accuracy)} {what}"
    left, right, tall = 0.2, width - inches(result, FONT, "bold") - 0.3, 0.36
    span = right - left
    axes.add_patch(Rectangle((left, y), span, tall, facecolor="#EDEDED"))
    axes.add_patch(Rectangle((left, y), span * accuracy, tall, facecolor=COLORS["output"]))
    _write(axes, right + 0.12, y + tall / 2, result, FONT, "left", fontweight="bold")
    marks = [(full, words["full"], -0.18, "-"), (chance, words["chance"], tall + 0.19, (0, (3, 1.5)))]
    for share, text, below, line in marks:
        x = left + span * share
        axes.plot([x, x], [y - 0.06, y + tall + 0.06], color="black", linewidth=2.4, linestyle=line)
        half = inches(text, SMALL + 1) / 2
        _write(axes, min(max(x, left + half), width - 0.1 - half), y + below, text, SMALL + 1)
    axes.add_patch(Rectangle((left, y), span, tall, fill=False, edgecolor=PALE, linewidth=1))

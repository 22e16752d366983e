"""Switch heads off, one by one or many at once, and see what is left of the accuracy."""

import anywidget
import numpy as np
import traitlets
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.patches import FancyBboxPatch, Rectangle

from utils.draw.figures import TITLE, signed, title_lines, write_title
from utils.draw.forms import ThreeForms, picture_bundle
from utils.draw.mask_board import tensor_of
from utils.draw.stage import STATIC, script, sentence_of
from utils.draw.style import BLUE, COLOURS, FONT, GREY, PALE, SMALL, as_array, canvas, checked_alt, figure_png, is_dark
from utils.draw.text import inches

MOST_LAYERS, MOST_HEADS, MOST_ROWS = 12, 16, 24
NAMED = 8  # removed heads named in a sentence; more are counted
LEAST_SCALE = 0.05  # the smallest effect that has the full colour: what is less is noise and stays pale
# Blue where accuracy rises without the head, white where nothing changes, red where it falls.
EFFECTS = LinearSegmentedColormap.from_list("effects", ["#A84A00", "#E98A4E", "#FFFFFF", "#7FB8DC", "#0072B2"], N=257)


def removal_board(
    respond,
    layers,
    heads,
    *,
    title="",
    effect=None,
    chance=None,
    start=None,
    what="right",
    chance_name="chance",
    alt=None,
):
    """A switch for every head; the accuracy with the heads that are on, against all heads and against chance.

    respond(heads_on) is a pure function of a bool tensor (layers, heads), True = on, and returns a dict with "accuracy",
    a share from 0 to 1, and if you like "detail", rows (label, text or number, ok) to list, where ok is True, False or None.
    effect (layers, heads): the change of accuracy when this head alone is removed, below 0 where it is missed; it colours
    the tiles. chance: another accuracy to stand beside, a share, and chance_name what to call it. start: the heads that
    are on at first, all if it is None. what: of what the accuracy is the share. alt: what the board is about, in one
    sentence.
    """
    return RemovalBoard(respond, layers, heads, title, effect, chance, start, what, chance_name, alt)


class RemovalBoard(ThreeForms, anywidget.AnyWidget):
    """What `removal_board` returns. `on` follows the reader, `answer` is what `respond` gave for it."""

    _esm = script("removal.js")
    _css = STATIC / "removal.css"
    title = traitlets.Unicode("").tag(sync=True)
    what = traitlets.Unicode("").tag(sync=True)
    on = traitlets.List().tag(sync=True)  # rows of bools
    effects = traitlets.List().tag(sync=True)  # rows of dicts: text, said, face, ink; [] if they are not known
    full = traitlets.Float(0.0).tag(sync=True)  # the accuracy of all heads
    chance = traitlets.Float(None, allow_none=True).tag(sync=True)
    said = traitlets.Dict().tag(sync=True)  # the same two in words
    answer = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        respond,
        layers,
        heads,
        title="",
        effect=None,
        chance=None,
        start=None,
        what="right",
        chance_name="chance",
        alt=None,
    ):
        self.layers, self.heads = checked_size(layers, heads)
        self.effect = None if effect is None else checked_effect(effect, self.layers, self.heads)
        self._respond = respond
        self.chance_name = str(chance_name)
        self._opening = None if alt is None else checked_alt(alt)
        everything = np.ones((self.layers, self.heads), dtype=bool).tolist()
        first = answer_of(respond, everything)
        on = everything if start is None else checked_on(start, self.layers, self.heads)
        chance = None if chance is None else checked_share(chance, "chance")
        answer = first if on == everything else answer_of(respond, on)
        full = first["accuracy"]
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

    def choose(self, on):
        """Switch to these heads, (layers, heads) bools; True is on."""
        self.on = checked_on(on, self.layers, self.heads)

    def heads_on(self):
        """The switches as a bool tensor (layers, heads)."""
        return tensor_of(self.on)

    def alt_text(self):
        now = self.answer
        opening = self._opening or self.title
        return removal_words(
            now["on"], now["accuracy"], self.full, self.chance, self.effect, self.what, opening, self.chance_name
        )

    def static(self):
        now, alt = self.answer, self.alt_text()
        figure = removal_picture(
            now["on"],
            now["accuracy"],
            self.full,
            chance=self.chance,
            chance_name=self.chance_name,
            effect=self.effect,
            title=self.title,
            what=self.what,
        )
        return picture_bundle(figure_png(figure, alt), alt)

    @traitlets.validate("on")
    def _valid_on(self, proposal):
        return checked_on(proposal.value, self.layers, self.heads)

    def _follow(self, _):
        count = self.answer["count"] + 1
        try:
            answer = answer_of(self._respond, self.on)
        except Exception as error:
            with self.hold_sync():
                self.error = sentence_of(error).replace(
                    "This picture could not be drawn", "There is no accuracy for this"
                )
                self.answer = {**self.answer, "count": count}
            raise
        text = what_is_left(self.on, answer["accuracy"], self.full, self.chance, self.what, self.chance_name)
        with self.hold_sync():
            self.error = ""
            self.answer = {**answer, "text": text, "count": count}


# Checks


def checked_size(layers, heads):
    if not 1 <= layers <= MOST_LAYERS or not 1 <= heads <= MOST_HEADS:
        raise ValueError(
            f"the board has room for 1 to {MOST_LAYERS} layers of 1 to {MOST_HEADS} heads, got {layers} layers of {heads}"
        )
    return int(layers), int(heads)


def checked_on(on, layers, heads):
    """The switches as rows of bools, or an error that says what to write instead."""
    if hasattr(on, "detach"):
        on = on.detach().cpu().numpy()
    try:
        on = np.asarray(on)
    except ValueError:
        raise ValueError(f"expected {layers} rows of {heads} bools, got rows of different lengths") from None
    if on.shape != (layers, heads):
        raise ValueError(f"expected a switch for each of {layers} layers and {heads} heads, got the shape {on.shape}")
    if on.dtype != bool:
        raise TypeError(f"expected bools, True = on, got {on.dtype}; write `gates > 0`")
    return on.tolist()


def checked_share(share, what):
    share = float(as_array(share, what))
    if 1 < share <= 100:
        raise ValueError(f"{what} is a share from 0 to 1, got {share:g}; divide by 100 if these are per cents")
    if not 0 <= share <= 1:
        raise ValueError(f"{what} is a share from 0 to 1, got {share:g}")
    return share


def checked_effect(effect, layers, heads):
    effect = as_array(effect, "the effects")
    if effect.shape != (layers, heads):
        hint = "; take the mean over the seeds" if effect.shape[-2:] == (layers, heads) else ""
        raise ValueError(f"expected one effect for each of {layers} layers and {heads} heads, got {effect.shape}{hint}")
    if abs(effect).max() > 1:
        raise ValueError(
            f"an effect is a change of accuracy between -1 and 1, but one is {effect.flat[abs(effect).argmax()]:g}; "
            "divide by 100 if these are points"
        )
    return effect


def answer_of(respond, on):
    """What `respond` gives for these heads, checked: "on", "accuracy", "percents", and "detail" as [label, text, ok]."""
    answer = respond(tensor_of(on))  # a new tensor each time: whatever respond does to it stays there
    if not isinstance(answer, dict) or "accuracy" not in answer or set(answer) - {"accuracy", "detail"}:
        got = sorted(map(str, answer)) if isinstance(answer, dict) else type(answer).__name__
        raise TypeError(f'respond must return a dict with "accuracy" and perhaps "detail", got {got}')
    accuracy = checked_share(answer["accuracy"], '"accuracy"')
    detail = checked_detail(answer.get("detail", ()))
    return {"on": on, "accuracy": accuracy, "percents": percents(accuracy), "detail": detail}


def checked_detail(rows):
    rows = [tuple(row) if isinstance(row, (list, tuple)) else row for row in rows]
    if len(rows) > MOST_ROWS:
        raise ValueError(f'"detail" has room for {MOST_ROWS} rows, got {len(rows)}; show some of them')
    checked = []
    for row in rows:
        if not isinstance(row, tuple) or len(row) != 3:
            raise ValueError(f'expected rows (label, text or number, ok) in "detail", got {row!r}')
        label, text, ok = row
        if ok is not None:
            if not isinstance(ok, (bool, np.bool_)) and str(getattr(ok, "dtype", "")) != "torch.bool":
                raise TypeError(f'expected True, False or None as the third of a row of "detail", got {ok!r}')
            ok = bool(ok)
        checked.append([str(label), shown(text), ok])
    return checked


def shown(text):
    """A number in two decimals, words as they are."""
    if isinstance(text, (bool, str)):
        return str(text)
    try:
        number = float(text)
    except (TypeError, ValueError):
        return str(text)
    return str(text) if number == int(number) and not isinstance(text, float) else signed(number)


# Colours


def tiles(effect):
    """What stands on each tile, for the page: text, words for a screen reader, and the colours of both."""
    if effect is None:
        return []
    faces, inks = effect_colours(effect)
    return [
        [
            {"text": points(one), "said": f"alone removed {points(one)} points", "face": face, "ink": ink}
            for one, face, ink in zip(*rows, strict=True)
        ]
        for rows in zip(effect.tolist(), faces, inks, strict=True)
    ]


def effect_colours(effect):
    """(faces, inks) as hex colours: the larger the effect, the stronger; black or white letters, whichever is read better."""
    scale = max(abs(effect).max(), LEAST_SCALE)
    shades = EFFECTS((effect / scale + 1) / 2)[..., :3]
    faces = [[to_hex(shade) for shade in row] for row in shades]
    return faces, np.where(is_dark(shades), "#ffffff", "#000000").tolist()


# Words


def points(change):
    """A change of accuracy in points of a per cent, with its sign."""
    text = signed(100 * change, 1)
    return text if float(f"{100 * change:.1f}") <= 0 else f"+{text}"


def percents(share):
    return f"{100 * share:.1f} %"


def bar_words(full, chance, chance_name="chance"):
    """What is written at the two marks of the bar."""
    return {"full": f"all heads {percents(full)}"} | (
        {} if chance is None else {"chance": f"{chance_name} {percents(chance)}"}
    )


def head_name(layer, head, layers):
    return f"layer {layer + 1} head {head + 1}" if layers > 1 else f"head {head + 1}"


def which_are_off(on):
    """The removed heads in words."""
    on = np.array(on)
    off = np.argwhere(~on).tolist()
    count = on.size
    if not off:
        return f"All {count} heads are on" if count > 1 else "The only head is on"
    if len(off) == count:
        return f"All {count} heads are removed" if count > 1 else "The only head is removed"
    if on.sum() == 1 and count > 2:
        return f"Only {head_name(*np.argwhere(on)[0].tolist(), len(on))} is on"
    said = f"{len(off)} of {count} heads {'is' if len(off) == 1 else 'are'} removed"
    if len(off) > NAMED:
        return said
    return f"{said}: {', '.join(head_name(*place, len(on)) for place in off)}"


def what_is_left(on, accuracy, full, chance=None, what="right", chance_name="chance"):
    """Which heads are removed and what that does to the accuracy, in two sentences."""
    fall = accuracy - full
    said = f"{which_are_off(on)}. {percents(accuracy)} {what}"
    if not np.all(on):
        said += (
            f", as with all heads ({percents(full)})"
            if abs(fall) < 0.0005
            else f", {points(abs(fall)).lstrip('+')} points {'below' if fall < 0 else 'above'} all heads ({percents(full)})"
        )
    return said + (f"; {chance_name}: {percents(chance)}." if chance is not None else ".")


def removal_words(on, accuracy, full, chance=None, effect=None, what="right", opening="", chance_name="chance"):
    """The text form: the state of the board, and the effect of each head alone where it is known."""
    opening = opening.strip()
    if opening and opening[-1] not in ".!?":
        opening += "."
    parts = [opening, what_is_left(on, accuracy, full, chance, what, chance_name)]
    if effect is not None:
        order = np.argsort(effect, axis=None)[: min(effect.size, 4)]
        places = [np.unravel_index(one, effect.shape) for one in order]
        most = ", ".join(f"{head_name(*place, len(effect))} {points(effect[place])}" for place in places)
        more = " (the largest falls)" if effect.size > len(places) else ""
        parts.append(f"Removed alone, in points{more}: {most}.")
    return " ".join(part for part in parts if part)


# The static picture, in inches from its upper left corner

GAP = 0.07


def removal_picture(on, accuracy, full, *, chance=None, effect=None, title="", what="right", chance_name="chance"):
    """The board as a figure: a tile for each head with the effect of removing it alone, and the accuracy as a bar.

    on (layers, heads) bool; accuracy, full and chance are shares; effect (layers, heads) is the change of accuracy.
    """
    on = np.array(checked_on(on, *np.shape(on)))
    layers, heads = checked_size(*on.shape)
    accuracy, full = checked_share(accuracy, "the accuracy"), checked_share(full, "the accuracy of all heads")
    chance = None if chance is None else checked_share(chance, "chance")
    effect = None if effect is None else checked_effect(effect, layers, heads)
    left = 0.2 + (inches(f"layer {layers}", FONT) + 0.15 if layers > 1 else 0)
    tile = min(1.25, (11.0 - left) / heads - GAP)
    width = max(7.6, left + heads * (tile + GAP) + 0.2)
    width = max(width, min(11.2, inches(title, TITLE, "bold") + 0.4) if title else 0)
    top = 0.3 + 0.3 * title_lines(title, width) + 0.25
    tall = min(0.62, 6.2 / layers - GAP)
    bar = top + layers * (tall + GAP) + (0.45 if effect is None else 0.8)
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
    faces, inks = (
        ([[BLUE] * heads] * layers, [["white"] * heads] * layers) if effect is None else effect_colours(effect)
    )
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
        mark = "on" if on[layer, head] else "removed" if tile > 0.8 else "off"
        words = [mark] if effect is None else [points(effect[layer, head])] + ([] if on[layer, head] else [mark])
        behind = {} if on[layer, head] else {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5}}
        for line, word in enumerate(words):
            height = y + tall / 2 + 0.25 * (line - (len(words) - 1) / 2)
            _write(axes, x + tile / 2, height, word, SMALL, color=ink, **behind)
    if effect is not None:
        note = "on a tile: change of accuracy, in points, when this head alone is removed"
        _write(axes, 0.2, top + layers * (tall + GAP) + 0.12, note, SMALL, "left", color=GREY)


def _draw_bar(axes, accuracy, full, chance, words, y, width, what):
    """A bar from 0 to 1; all heads are marked above it, chance below."""
    result = f"{percents(accuracy)} {what}"
    left, right, tall = 0.2, width - inches(result, FONT, "bold") - 0.3, 0.36
    span = right - left
    axes.add_patch(Rectangle((left, y), span, tall, facecolor="#EDEDED"))
    axes.add_patch(Rectangle((left, y), span * accuracy, tall, facecolor=COLOURS["output"]))
    _write(axes, right + 0.12, y + tall / 2, result, FONT, "left", fontweight="bold")
    marks = [(full, words["full"], -0.18, "-")]
    marks += [(chance, words["chance"], tall + 0.19, (0, (3, 1.5)))] if chance is not None else []
    for share, text, below, line in marks:
        x = left + span * share
        axes.plot([x, x], [y - 0.06, y + tall + 0.06], color="black", linewidth=2.4, linestyle=line)
        half = inches(text, SMALL + 1) / 2
        _write(axes, min(max(x, left + half), width - 0.1 - half), y + below, text, SMALL + 1)
    axes.add_patch(Rectangle((left, y), span, tall, fill=False, edgecolor=PALE, linewidth=1))

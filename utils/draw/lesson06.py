"""The figures of lesson 06: arrays and strings in, a figure out."""

import operator
from itertools import permutations

import numpy as np
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from utils.draw.figures import TITLE, checked_labels, checked_weights, signed, write_title
from utils.draw.lesson03 import (
    alignment,
    by_length,
    checked_links,
    checked_rung,
    decoding_step,
    ladder_bars,
    message,
    times,
    whole_rows,
)
from utils.draw.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_GREEN,
    PALE_ORANGE,
    PALE_RED,
    checked_curves,
    checked_length,
    draw_arrow,
    draw_box,
    draw_strong_arrow,
    key_line,
    percent,
    sheet,
    short,
    ticks_apart,
    top_of,
    write,
)
from utils.draw.style import (
    BLUE,
    COLOURS,
    FONT,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    RED,
    SMALL,
    WEIGHTS_MAP,
    as_array,
    canvas,
)
from utils.draw.text import inches, shortened

__all__ = [
    "alignment",
    "alignment_grid",
    "by_length",
    "cache_speed",
    "decoding_step",
    "gold_alignment",
    "greedy_and_beam",
    "head_choices",
    "label_smoothing",
    "ladder_bars",
    "ladder_splits",
    "layer_choices",
    "loss_and_confidence",
    "message",
    "schedules",
    "shifted_targets",
    "three_attentions",
    "times",
    "training_panels",
    "transformer_diagram",
]

WIDEST = 12.4  # inches: what fits a slide
DARK_ORANGE = "#8A5F00"  # the colour of norms, dark enough for letters on white
DARK_RED = "#A84A00"
PLUM = "#9C4A7C"  # tables of word vectors
INK = "#333333"
START, END, PADDING = "<start>", "<end>", "<pad>"


# The whole model, in inches from the lower left corner

STREAMS = {"encoder": 3.75, "decoder": 9.35}  # where the two streams go up
TABLE = 2.7  # how wide the box of a table is
BRANCH, BESIDE = 2.6, 0.5  # how wide the box of a branch is, and how far it stands from its stream
STEP = {"pre": 1.1, "post": 1.27}  # how high one sum with its branch is
MORE = {"pre": 0.15, "post": 0.0}  # and how much higher that of the cross-attention, whose box has a line more
FIRST = 1.95  # where the first layer begins
PARTS = {  # face and edge
    "look": (PALE_BLUE, BLUE),
    "cross": (PALE_RED, RED),
    "feed": (PALE_GREEN, GREEN),
    "norm": (PALE_ORANGE, DARK_ORANGE),
    "table": ("#F6E8F1", PLUM),
    "plain": ("white", "#444444"),
}
TYING = ("none", "output", "all")
MADE_HERE = "keys, values: made in here"  # each layer has its own maps; what the encoder hands over is only its output


def transformer_diagram(
    dim, heads, hidden, layers, source_words, target_words, title, *, norm="pre", tied="output", final_norm=None
):
    """The encoder on the left, the decoder on the right, with the shape along both streams; b, n and m stay letters.

    norm: "pre" or "post". tied: which word tables are one: "none", "output" (target words and output layer) or "all".
    final_norm: a norm behind each stack; None means with pre-norm only.
    """
    sizes = [operator.index(size) for size in (dim, heads, hidden, layers, source_words, target_words)]
    dim, heads, hidden, layers, source_words, target_words = sizes
    if min(sizes) < 1 or dim % heads:
        raise ValueError(f"expected sizes above 0 and {heads} heads that divide dim {dim}, got {sizes}")
    if norm not in STEP:
        raise ValueError(f'expected norm "pre" or "post", got {norm!r}')
    if tied not in TYING:
        raise ValueError(f"expected tied among {', '.join(TYING)}, got {tied!r}")
    if tied == "all" and source_words != target_words:
        raise ValueError(f'tied="all" is one table for all words, but there are {source_words} and {target_words}')
    final_norm = norm == "pre" if final_norm is None else bool(final_norm)
    step = STEP[norm]
    top = FIRST + 3 * step + MORE[norm] + 0.3 + 0.42 * final_norm
    figure, axes = sheet(WIDEST, top + 1.95 + top_of(title, WIDEST))
    own, feed = f"weights (b, {heads}, {{0}}, {{0}})", f"{dim} → {hidden} → {dim}"
    branches = {
        "encoder": (("look", "self-attention", own.format("n")), ("feed", "feed-forward", feed)),
        "decoder": (
            ("look", "causal self-attention", own.format("m")),
            ("cross", "cross-attention", f"weights (b, {heads}, m, n)\n{MADE_HERE}"),
            ("feed", "feed-forward", feed),
        ),
    }
    words = {"encoder": ("n", "source words", source_words), "decoder": ("m", "target words so far", target_words)}
    ends = {}
    for side, (length, name, count) in words.items():
        x, shape = STREAMS[side], f"(b, {length}, {dim})"
        _entrance(axes, x, length, name, count, dim)
        ends[side] = _stack(axes, x, shape, branches[side], norm, final_norm, side, layers)
    _hand_over(axes, ends["encoder"], FIRST + step + 0.72, f"(b, n, {dim})")
    _exit(axes, ends["decoder"], dim, target_words)
    _ties(axes, tied, ends["decoder"], target_words, dim)
    _letters(axes, ends["decoder"] + 1.6, dim, heads, norm)
    write_title(figure, title)
    return figure


def _part(axes, x, y, width, height, kind, words, size=FONT, small=""):
    """A box with one line, or with one or two smaller ones under it."""
    face, edge = PARTS[kind]
    draw_box(axes, x, y, width, height, "", face, edge)
    dark = {"look": "#00507D", "cross": DARK_RED, "feed": "#00654A"}.get(kind, edge)
    lines = small.split("\n") if small else []
    write(axes, x, y + (0.02 + 0.1 * len(lines) if lines else 0), words, size, color="black", zorder=4)
    for number, line in enumerate(lines):
        write(axes, x, y + 0.1 * len(lines) - 0.23 - 0.2 * number, line, SMALL, color=dark, zorder=4)


def _longest_that_fits(texts, room, size=LABEL):
    """The first of the texts that has room; the last one in any case."""
    return next((text for text in texts if inches(text, size) <= room), texts[-1])


def _line(axes, *corners, shade="black", **look):
    axes.plot(
        *np.transpose(corners), color=shade, **{"linewidth": 2.6, "solid_joinstyle": "round", "zorder": 2, **look}
    )


def _plus(axes, x, y):
    axes.add_patch(Circle((x, y), 0.17, facecolor="white", edgecolor="black", linewidth=2.2, zorder=3))
    for across, up in ((0.1, 0), (0, 0.1)):
        axes.plot([x - across, x + across], [y - up, y + up], color="black", linewidth=2.6, zorder=4)


def _shape(axes, x, y, text):
    write(axes, x + 0.14, y, text, LABEL, ha="left", color=INK)


def _entrance(axes, x, length, name, count, dim):
    """From words to vectors with positions, up to the first layer."""
    shape = f"(b, {length}, {dim})"
    texts = (f"vectors ({count}, {dim}) × √{dim}", f"vectors × √{dim}")
    write(axes, x, 0.2, name, FONT, fontweight="bold")
    draw_strong_arrow(axes, [(x, 0.34), (x, 0.64)], "black")
    _shape(axes, x, 0.47, f"(b, {length})")
    _part(axes, x, 0.87, TABLE, 0.46, "table", _longest_that_fits(texts, TABLE - 0.1), LABEL)
    draw_strong_arrow(axes, [(x, 1.1), (x, 1.4)], "black")
    _shape(axes, x, 1.24, shape)
    _plus(axes, x, 1.57)
    left = x - BESIDE - BRANCH / 2
    _part(axes, left, 1.57, 2.1, 0.36, "plain", f"positions ({length}, {dim})", LABEL)
    draw_strong_arrow(axes, [(left + 1.05, 1.57), (x - 0.17, 1.57)], "black")
    _line(axes, (x, 1.74), (x, FIRST))
    _shape(axes, x, 1.74, shape)


def _stack(axes, x, shape, branches, norm, final_norm, name, layers):
    """One layer in its frame, and the norm behind the stack; gives the height where the stream leaves it."""
    lows = FIRST + np.cumsum([0.0, *(STEP[norm] + MORE[norm] * (kind == "cross") for kind, _, _ in branches)])
    top = lows[-1]
    left, right = x - BESIDE - BRANCH - 0.2, x + 0.14 + inches(shape, LABEL) + 0.1
    look = {"facecolor": "#FAFAFA", "edgecolor": GREY, "linewidth": 1.8, "linestyle": (0, (5, 2)), "zorder": 0}
    axes.add_patch(Rectangle((left, FIRST), right - left, top - FIRST, **look))
    write(axes, left, top + 0.18, f"{name}: {layers} ×", FONT + 1, ha="left", fontweight="bold")
    for low, end, (kind, words, weights) in zip(lows, lows[1:], branches, strict=False):
        _branch(axes, x, low, end, kind, words, weights, norm, shape)
    if not final_norm:
        _line(axes, (x, top), (x, top + 0.3))
        return top + 0.3
    draw_strong_arrow(axes, [(x, top), (x, top + 0.34)], "black")
    _part(axes, x, top + 0.5, 1.1, 0.32, "norm", "norm")
    return top + 0.66


def _branch(axes, x, low, end, kind, words, weights, norm, shape):
    """One sum from low to end: the stream comes up, a branch leaves it at the dot and comes back at the plus."""
    middle, plus = x - BESIDE - BRANCH / 2, low + 0.72
    _line(axes, (x, low), (x, low + 0.2))
    axes.plot([x], [low + 0.2], "o", color="black", markersize=8, zorder=5)
    draw_strong_arrow(axes, [(x, low + 0.2), (x, plus - 0.17)], "black")
    if norm == "pre":
        draw_strong_arrow(axes, [(x, low + 0.2), (x - 0.52, low + 0.2)], "black")
        _part(axes, x - 0.88, low + 0.2, 0.72, 0.3, "norm", "norm", LABEL)
        draw_strong_arrow(axes, [(x - 1.24, low + 0.2), (middle, low + 0.2), (middle, low + 0.46)], "black")
    else:
        draw_strong_arrow(axes, [(x, low + 0.2), (middle, low + 0.2), (middle, low + 0.46)], "black")
    if kind == "cross":
        write(axes, middle - 0.12, low + 0.27, "queries", LABEL, ha="right", color=INK)
    taller = 0.2 * weights.count("\n")
    _part(axes, middle, plus + taller / 2, BRANCH, 0.52 + taller, kind, words, FONT, weights)
    draw_strong_arrow(axes, [(x - BESIDE, plus), (x - 0.17, plus)], "black")
    _plus(axes, x, plus)
    if norm == "post":
        _line(axes, (x, plus + 0.17), (x, plus + 0.24))
        _part(axes, x, plus + 0.37, 0.8, 0.26, "norm", "norm", LABEL)
        _line(axes, (x, plus + 0.5), (x, end))
        _shape(axes, x, low + 0.42, shape)
    else:
        _line(axes, (x, plus + 0.17), (x, end))
        _shape(axes, x, low + 0.97, shape)


def _hand_over(axes, start, goal, shape):
    """The output of the encoder, as it is, to the cross-attention of every layer of the decoder."""
    x, to = STREAMS["encoder"], STREAMS["decoder"] - BESIDE - BRANCH
    channel = (x + to) / 2 + 0.68
    draw_strong_arrow(axes, [(x, start), (x, start + 0.2), (channel, start + 0.2), (channel, goal), (to, goal)], RED)
    write(axes, x, start + 0.42, f"memory {shape}", FONT, ha="center", color=DARK_RED, fontweight="bold")


def _exit(axes, start, dim, words):
    x = STREAMS["decoder"]
    draw_strong_arrow(axes, [(x, start), (x, start + 0.3)], "black")
    _shape(axes, x, start + 0.13, f"(b, m, {dim})")
    _part(axes, x, start + 0.5, TABLE, 0.4, "table", f"linear to {words} words", LABEL)
    draw_strong_arrow(axes, [(x, start + 0.7), (x, start + 1.0)], "black")
    _shape(axes, x, start + 0.83, f"logits (b, m, {words})")
    _part(axes, x, start + 1.2, TABLE, 0.4, "plain", "softmax")
    draw_strong_arrow(axes, [(x, start + 1.4), (x, start + 1.66)], "black")
    _shape(axes, x, start + 1.51, f"probabilities (b, m, {words})")
    write(axes, x, start + 1.8, "the next word, at each place", FONT, fontweight="bold")


def _ties(axes, tied, end, words, dim):
    """A broken line between boxes that share one table."""
    look = {"shade": PLUM, "linestyle": (0, (3, 1.5)), "linewidth": 2.4}
    x, out = STREAMS["decoder"], STREAMS["decoder"] + 1.7
    if tied != "none":
        _line(axes, (x + TABLE / 2, 0.87), (out, 0.87), (out, end + 0.5), (x + TABLE / 2, end + 0.5), **look)
        write(axes, out + 0.1, (0.87 + end) / 2, f"tied:\nthe same\ntable\n({words}, {dim})", LABEL, ha="left",
               color="#7A3A62")  # fmt: skip
    if tied == "all":
        left = STREAMS["encoder"] + TABLE / 2
        _line(axes, (left, 0.87), (x - TABLE / 2, 0.87), **look)
        write(axes, (left + x - TABLE / 2) / 2, 0.7, "tied: the same table", LABEL, color="#7A3A62")


def _letters(axes, y, dim, heads, norm):
    """What the letters mean, in the free corner over the encoder."""
    lines = (
        ("b", "sentences in the batch"),
        ("n, m", "words of source and target"),
        (f"{heads} × {dim // heads} = {dim}", "heads × width of a head"),
        (f"{norm}-norm", "each norm inside its branch" if norm == "pre" else "each norm after its sum"),
    )
    for number, (letter, words) in enumerate(lines):
        write(axes, 0.45, y - 0.3 * number, letter, LABEL, ha="left", fontweight="bold")
        write(
            axes, 0.6 + max(inches(one, LABEL, "bold") for one, _ in lines), y - 0.3 * number, words, LABEL, ha="left"
        )


# Shifted targets


def shifted_targets(source, target, title, padding=0):
    """What the decoder reads and what it must say at each place, and below the words that each place may look at.

    source, target: words without special tokens. padding: how many places of padding stand behind, which cost nothing.
    """
    source, target = [short(word) for word in source], [short(word) for word in target]
    padding = operator.index(padding)
    if not source or not target or padding < 0:
        raise ValueError(
            f"expected words and at least 0 places of padding, got {len(source)} source words, {len(target)} target words "
            f"and padding {padding}"
        )
    source = [*source, END]
    reads, says = [START, *target, *[PADDING] * padding], [*target, END, *[PADDING] * padding]
    count, real = len(reads), len(target) + 1
    wide = np.array(
        [max(0.7, inches(one, FONT) + 0.3, inches(other, FONT) + 0.3) for one, other in zip(reads, says, strict=True)]
    )
    left = 1.6
    end = left + wide.sum()
    width = max(9.0, end + max(1.55, 0.55 + max(inches(word, LABEL) for word in says)))
    width = max(width, min(WIDEST, left + 0.3 + sum(inches(word, FONT) + 0.3 for word in source)))
    if width > 12.5 or len(source) > 14:
        raise ValueError(f"{len(target)} target words and {padding} of padding are too wide for a slide: take fewer")
    cell = 0.36
    tall = count * cell
    height = tall + 3.35
    figure, axes = sheet(width, height + top_of(title, width))
    centres = left + np.cumsum(wide) - wide / 2
    _source_row(axes, source, left, width, height - 0.3)
    upper, lower = height - 1.1, height - 1.95
    for y, words in ((upper, "must say"), (lower, "reads")):
        write(axes, 0.15, y, words, FONT, ha="left", fontweight="bold")
    for place, x in enumerate(centres):
        pale = place >= real
        ink = {"color": GREY} if pale else {}
        draw_box(
            axes,
            x,
            upper,
            wide[place] - 0.14,
            0.4,
            says[place],
            "#F3F3F3" if pale else PALE_RED,
            PALE if pale else RED,
            **ink,
        )
        draw_box(
            axes,
            x,
            lower,
            wide[place] - 0.14,
            0.4,
            reads[place],
            "#F3F3F3" if pale else PALE_BLUE,
            PALE if pale else BLUE,
            **ink,
        )
        if not pale:
            draw_strong_arrow(axes, [(x, lower + 0.2), (x, upper - 0.2)], "black")
        if 0 < place < real:
            shift = [(centres[place - 1] + 0.18, upper - 0.21), (x - 0.18, lower + 0.21)]
            axes.plot(*np.transpose(shift), color=GREY, linewidth=1.8, linestyle=(0, (3, 2)), zorder=1)
    if padding:
        write(axes, end + 0.1, upper, "no loss on\npadding", LABEL, ha="left", color=GREY)
    write(
        axes,
        end + 0.1,
        (upper + lower) / 2 - (0.2 if padding else 0),
        "broken lines:\nthe same word",
        LABEL,
        ha="left",
        color=GREY,
    )
    _triangle(axes, reads, says, real, centres, wide, tall, cell)
    write_title(figure, title)
    return figure


def _source_row(axes, source, left, width, y):
    write(axes, 0.15, y, "source", FONT, ha="left", fontweight="bold")
    x = left + 0.07
    note = "every place may look at all of it"
    fits = left + sum(inches(word, FONT) + 0.3 for word in source) + inches(note, LABEL) + 0.3 < width
    room = width - left - 0.2
    step = min(1.0, room / sum(inches(word, FONT) + 0.3 for word in source))
    if step < SMALL / FONT:
        raise ValueError(f"{len(source)} source words do not fit a slide in one row: take a shorter sentence")
    for word in source:
        wide = (inches(word, FONT) + 0.3) * step
        draw_box(axes, x + wide / 2, y, wide - 0.06, 0.4, word, PALE_ORANGE, ORANGE, FONT if step == 1 else SMALL)
        x += wide
    if fits:
        write(axes, x + 0.12, y, note, LABEL, ha="left", color=GREY)


def _triangle(axes, reads, says, real, centres, wide, tall, cell):
    """A row for each place: a tick under every word that it may look at, and behind the row what it must say."""
    top = tall + 0.25
    left, end = centres[0] - wide[0] / 2, centres[-1] + wide[-1] / 2
    write(axes, 0.15, top + 0.17, "may look at", FONT, ha="left", fontweight="bold")
    for column, (x, word) in enumerate(zip(centres, reads, strict=True)):
        write(axes, x, top + 0.17, word, LABEL, color=GREY if column >= real else "black")
    for row, word in enumerate(reads):
        y = top - (row + 0.5) * cell
        padding = row >= real
        write(axes, left - 0.12, y, word, LABEL, ha="right", color=GREY if padding else "black")
        for column, (x, room) in enumerate(zip(centres, wide, strict=True)):
            may = column <= row
            face = "#EDEDED" if not may else "#BDBDBD" if padding else COLOURS["weights"]
            corner = (x - room / 2 + 0.03, y - cell / 2 + 0.03)
            axes.add_patch(Rectangle(corner, room - 0.06, cell - 0.06, facecolor=face))
            if may:
                axes.plot([x - 0.07, x - 0.02, x + 0.08], [y, y - 0.06, y + 0.07], color="white", linewidth=2.4)
        if not padding:
            draw_arrow(axes, (end + 0.06, y), (end + 0.34, y), RED)
            write(axes, end + 0.42, y, says[row], LABEL, ha="left")


# Training


def schedules(steps, curves, title):
    """{name: learning rates (steps,)} over the training step; at the peak of each a mark, its name and its height."""
    steps = as_array(steps, "the steps")
    if steps.ndim != 1 or len(steps) < 2 or (np.diff(steps) <= 0).any():
        raise ValueError(f"expected two or more rising steps, got the shape {steps.shape}")
    checked = checked_curves(curves, "learning rates")
    for name, rates in checked.items():
        if len(rates) != len(steps):
            raise ValueError(f"expected a learning rate of {name} at each of {len(steps)} steps, got {len(rates)}")
        if rates.min() < 0:
            raise ValueError(f"a learning rate is never negative, but the smallest of {name} is {rates.min():g}")
    figure, axes = _marked_canvas(title)
    most = max(rates.max() for rates in checked.values()) or 1.0
    axes.set(
        xlim=(min(steps[0], 0) if steps[0] <= 1 else steps[0], steps[-1]),
        ylim=(0, 1200 * most),
        xlabel="training step",
        ylabel="learning rate × 1000",
    )
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=(1, 2, 5, 10)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    peaks = [int(rates.argmax()) for rates in checked.values()]
    labels = [(shortened(name, LONGEST_NAME), f"peak {_power(rates.max())}") for name, rates in checked.items()]
    _marked_curves(axes, steps, [1000 * rates for rates in checked.values()], peaks, labels)
    write_title(figure, title)
    return figure


LONGEST_NAME = 40  # letters of a name that stands inside the drawing


def _marked_canvas(title, height=4.6):
    top = top_of(title, 10.0) + 0.1
    return canvas(10.0, height + top, margins=(0.95, 0.45, 0.7, top))


def _marked_curves(axes, x, curves, marked, labels):
    """Draw curves over x, each with a mark at one of its points and its label beside it; the limits are set before.

    marked: the place of the point in each curve. labels: (name, what is said of the point).
    """
    for values, place, (shade, marker, line) in zip(curves, marked, LOOKS, strict=False):
        axes.plot(x, values, linestyle=line, color=shade)
        axes.plot(x[place], values[place], marker, color=shade, markersize=10, zorder=4, clip_on=False)
    size = axes.figure.get_size_inches() * np.array(axes.get_position().size)
    to_inches = axes.transData + axes.transAxes.inverted()
    in_inches = [to_inches.transform(np.column_stack((x, values))) * size for values in curves]
    points = np.array([line[place] for line, place in zip(in_inches, marked, strict=True)])
    places = _free_places(labels, points, in_inches, size)
    for (label, box), point, (shade, _, _) in zip(places, points, LOOKS, strict=False):
        spot = {"transform": axes.transAxes, "linespacing": 1.05, "zorder": 5}
        write(axes, box[0] / size[0], (box[1] + box[3]) / 2 / size[1], label, LABEL, ha="left", **spot)
        near = np.clip(point, box[:2], box[2:])
        if np.linalg.norm(near - point) > LEADS_FROM:
            ends = np.array([point, near]) / size
            axes.plot(*ends.T, color=shade, linewidth=1, linestyle="-", transform=axes.transAxes, zorder=3)


LEADS_FROM = 0.3  # inches: a label that is farther from its mark has a thin line to it
CELL = 0.05  # inches: of the grid on which a label finds its place


def _cells(lines, size):
    """How many cells that hold a piece of a line lie below and left of each corner of a fine grid over the drawing.

    Four of these numbers tell how many such cells a box covers (`_covered`), however large it is.
    """
    filled = np.zeros(np.ceil(size / CELL).astype(int) + 1, dtype=int)
    for line in lines:
        for one, other in zip(line, line[1:], strict=False):
            pieces = 2 + int(2 * np.linalg.norm(other - one) / CELL)
            spots = np.linspace(one, other, pieces) // CELL
            inside = ((spots >= 0) & (spots < filled.shape)).all(1)
            filled[tuple(spots[inside].astype(int).T)] = 1
    return np.pad(filled, ((1, 0), (1, 0))).cumsum(0).cumsum(1)


def _covered(cells, boxes, rim):
    """How many filled cells each of boxes (k, 4) touches, with a rim around it."""
    most = np.array(cells.shape) - 1
    low = np.clip((boxes[:, :2] - rim) // CELL, 0, most).astype(int)
    high = np.clip((boxes[:, 2:] + rim) // CELL + 1, 0, most).astype(int)
    (left, bottom), (right, top) = low.T, high.T
    return cells[right, top] - cells[left, top] - cells[right, bottom] + cells[left, bottom]


def _free_places(labels, points, lines, size):
    """For each label (text, box): the box (left, bottom, right, top) in inches is near its point and hides nothing.

    labels: (name, what is said of it), in two lines or in one. All places of a fine grid are tried, in every order of
    up to four labels; if none is free, the one that hides least is taken.
    """
    cells, choices = _cells(lines, size), []
    for place, (label, point) in enumerate(zip(labels, points, strict=True)):
        others = _cells([*lines[:place], *lines[place + 1 :]], size)
        choices.append(_possible_places(label, point, points, cells, others, size))
    orders = permutations(range(len(labels))) if len(labels) <= 4 else [range(len(labels))]
    tries = [_places_in_order(choices, points, order) for order in orders]
    best = min(tries, key=lambda one: one[0])[1]
    return [best[place] for place in range(len(labels))]


def _places_in_order(choices, points, order):
    """(total cost, {label: (text, box)}) when one label after the other takes the best place that is left."""
    total, chosen = 0.0, {}
    for label in order:
        texts, boxes, cost = choices[label]
        cost = cost.copy()
        for other, (_, taken) in chosen.items():
            gap = np.maximum(boxes[:, :2] - taken[2:], taken[:2] - boxes[:, 2:]).max(1)
            cost += 1000.0 * (gap < 0.08)
            # Nor may the line to one label run through the other.
            cost += 5.0 * _runs_through(points[label], boxes, taken[None])
            cost += 5.0 * _runs_through(points[other], taken[None], boxes)
        best = cost.argmin()
        total += cost[best]
        chosen[label] = texts[best], boxes[best]
    return total, chosen


def _runs_through(point, ends, boxes):
    """(k,): whether the line from a point to a label meets another; ends and boxes are (k, 4) or (1, 4)."""
    near = np.clip(point, ends[:, :2], ends[:, 2:])
    spots = point + np.linspace(0, 1, 16)[:, None, None] * (near - point)
    return ((spots > boxes[:, :2] - 0.03) & (spots < boxes[:, 2:] + 0.03)).all(-1).any(0)


def _possible_places(label, point, points, cells, others, size, keep=1000):
    """(texts, boxes (k, 4), cost (k,)): the farther from the point and the more it hides, the dearer is a place.

    cells: of all curves, others: of all but the point's own (`_cells`).
    """
    texts, boxes, cost = [], [], []
    for joint, extra in (("\n", 0.0), (": ", 0.05)):
        parts = joint.join(label).split("\n")
        extent = np.array([max(inches(part, LABEL) for part in parts), 0.21 * len(parts)])
        across, up = (np.arange(0.06, max(size[axis] - extent[axis], 0.07), CELL) for axis in (0, 1))
        lows = np.stack(np.meshgrid(across, up), -1).reshape(-1, 2)
        boxes.append(np.concatenate((lows, lows + extent), 1))
        texts += [joint.join(label)] * len(lows)
        cost.append(np.full(len(lows), extra))
    boxes, cost = np.concatenate(boxes), np.concatenate(cost)
    near = np.clip(point, boxes[:, :2], boxes[:, 2:])
    away = np.linalg.norm(near - point, axis=1)
    cost += np.abs(away - 0.16) + 0.02 * (boxes[:, 0] < point[0]) + 0.02 * (boxes[:, 1] < point[1])
    marks = (points > boxes[:, None, :2] - 0.1) & (points < boxes[:, None, 2:] + 0.1)
    cost += 100.0 * marks.all(-1).sum(-1) + 1.0 * _covered(cells, boxes, 0.03)
    far = away > LEADS_FROM
    crosses = np.zeros(far.sum(), dtype=bool)
    for share in np.linspace(0.25, 1, 24):  # a line that crosses a curve leads to a label that seems to be that curve's
        spots = point + share * (near[far] - point)
        crosses |= _covered(others, np.concatenate((spots, spots), 1), 0.0) > 0
    cost[far] += 2.0 * crosses
    best = np.argsort(cost, kind="stable")[:keep]
    return [texts[place] for place in best], boxes[best], cost[best]


def _power(rate):
    """0.0007 as "0.70 / 1000": in the unit of the axis."""
    return f"{1000 * rate:.3g} / 1000"


def label_smoothing(words, hard, smooth, title, others=0):
    """Two distributions over the same words side by side: all on the right word, and a little on every other.

    words (k,), hard and smooth (k,), probabilities. others: how many words more there are that are not shown; what
    is left to 1 is shared evenly among them.
    """
    hard, smooth = (checked_weights(side, "the targets") for side in (hard, smooth))
    if hard.ndim != 1 or hard.shape != smooth.shape:
        raise ValueError(f"expected two rows of one length, got the shapes {hard.shape} and {smooth.shape}")
    words = [short(word) for word in checked_labels(words, len(hard), "words")]
    if len(words) > 12:
        raise ValueError(f"expected at most 12 words, got {len(words)}: take some of them and count the `others`")
    left = 0.3 + max(inches(word, LABEL) for word in words)
    note = f"and {others} words more" if others else ""
    left = max(left, 0.3 + inches(note, SMALL))
    top = top_of(title, 11.0) + 0.45
    rows = len(words) + bool(others)
    numbers = [_bar_numbers(values, others) for values in (hard, smooth)]
    beyond = max(0.75, 0.15 + max(inches(number, LABEL) for side in numbers for number in side[: len(words)]))
    margins, gaps = (left, beyond, 0.7, top), (beyond + 0.15, 0)
    figure, panels = canvas(11.0, top + 0.7 + 0.42 * rows, columns=2, margins=margins, gaps=gaps, sharey=True)
    for axes, values, said, name, shade in zip(
        panels, (hard, smooth), numbers, ("one-hot", "smoothed"), (GREY, COLOURS["output"]), strict=True
    ):
        axes.barh(range(len(words)), values, 0.66, color=shade)
        for place, number in enumerate(said):
            end = values[place] if place < len(values) else 0
            write(axes, end + 0.015, place, number, LABEL, ha="left")
        axes.set(xlim=(0, 1.0), ylim=(rows - 0.4, -0.6), xlabel="probability in the target")
        axes.set_title(name, fontsize=FONT, fontweight="bold", loc="left", pad=10)
        axes.grid(True, axis="x")
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks([*range(len(words)), *([len(words)] if others else [])], [*words, *([note] if others else [])])
    for label in panels[0].get_yticklabels():
        label.set_parse_math(False)
        if label.get_text() == note:
            label.set(color=GREY, fontsize=SMALL)
    write_title(figure, title)
    return figure


def _bar_numbers(values, others):
    """The number beside each bar and, if there are other words, what each of them gets, all with the same decimals.

    The right word's number must show what the smallest ones add to it: 0.90035 beside 0.00035.
    """
    rest = [max(0.0, 1 - values.sum()) / others] if others else []
    rest = [0.0 if one < 1e-12 else one for one in rest]  # what rounding leaves of 1 is nothing
    least = min((value for value in (*values, *rest) if value > 0), default=1.0)
    decimals = int(np.clip(1 - np.floor(np.log10(least)), 3, 7))
    numbers = [_small_number(value, decimals) for value in values]
    return [*numbers, *(f"{_small_number(one, decimals)} each" for one in rest)]


def _small_number(value, decimals=3):
    """With at least two digits that count; what is nothing or everything has no decimals."""
    if value in (0, 1):
        return f"{value:.0f}"
    return f"{value:.{decimals}f}" if value >= 10.0 ** (1 - decimals) else f"{value:.1e}"


def loss_and_confidence(p, losses, title):
    """The loss over the probability of the target word, a curve for each way to count it, with its minimum marked.

    p (points,): rising, above 0 and up to 1. losses: {name: losses (points,) in nats}, one to four. A curve whose
    lowest point is its last one before p = 1 is said to fall still: there is no minimum there.
    """
    p = as_array(p, "the probabilities")
    if p.ndim != 1 or len(p) < 2 or (np.diff(p) <= 0).any():
        raise ValueError(f"expected two or more rising probabilities, got the shape {p.shape}")
    if p[0] <= 0 or p[-1] > 1:
        raise ValueError(f"expected probabilities above 0 and up to 1, got {p[0]:g} to {p[-1]:g}")
    checked = checked_curves(losses, "losses")
    if len(checked) > 4:
        raise ValueError(f"expected one to four curves, whose labels have room, got {len(checked)}")
    for name, values in checked.items():
        if len(values) != len(p):
            raise ValueError(f"expected a loss of {name} at each of {len(p)} probabilities, got {len(values)}")
        if values.min() < -1e-9:
            raise ValueError(f"a cross-entropy is never negative, but the smallest loss of {name} is {values.min():g}")
    figure, axes = _marked_canvas(title, 5.4)
    most = max(values.max() for values in checked.values()) or 1.0
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1.08 * most),
        xlabel="probability of the target word",
        ylabel="loss in nats",
    )
    lowest = [int(values.argmin()) for values in checked.values()]
    labels = [
        (shortened(name, LONGEST_NAME), _lowest(p, values, place))
        for (name, values), place in zip(checked.items(), lowest, strict=True)
    ]
    _marked_curves(axes, p, list(checked.values()), lowest, labels)
    write_title(figure, title)
    return figure


def _lowest(p, values, place):
    said = f"{values[place] + 0.0:.2f} at {p[place]:.3g}"
    return f"still falling, {said}" if place == len(p) - 1 and p[place] < 1 else f"lowest {said}"


def training_panels(x, panels, title, xlabel="training step"):
    """One to three panels side by side: {panel: {name: (points,) or (points, seeds)}}; the band is from lowest to highest seed.

    A panel may have its own x: {panel: (x, {name: ...})}. A name has the same look in every panel. A panel whose name
    holds "%" goes from 0 to 100.
    """
    if not 1 <= len(panels) <= 3:
        raise ValueError(f"expected one to three panels {{panel: {{name: numbers}}}}, got {len(panels)}")
    checked = {str(panel): _checked_panel(x, given, panel) for panel, given in panels.items()}
    names = list(dict.fromkeys(name for _, curves in checked.values() for name in curves))
    if len(names) > len(LOOKS):
        raise ValueError(f"expected at most {len(LOOKS)} names, which can still be told apart, got {len(names)}")
    looks = dict(zip(names, LOOKS, strict=False))
    top = top_of(title, 12.0) + (0.85 if len(names) > 1 else 0.45)
    figure, axes = canvas(
        12.0, 3.9 + top, columns=len(panels), margins=(0.85, 0.3, 0.75, top), gaps=(0.95, 0), squeeze=False
    )
    for cell, (panel, (places, curves)) in zip(axes[0], checked.items(), strict=True):
        every = max(1, len(places) // 10)
        for name, values in curves.items():
            shade, marker, line = looks[name]
            cell.fill_between(places, values.min(1), values.max(1), color=shade, alpha=0.2, linewidth=0)
            cell.plot(
                places, np.median(values, 1), marker=marker, markevery=every, linestyle=line, color=shade, zorder=3
            )
        most = max(values.max() for values in curves.values())
        spare = 0.02 * (places[-1] - places[0])
        cell.set(xlim=(places[0] - spare, places[-1] + spare), xlabel=xlabel)
        cell.set_ylim((0, 104) if "%" in panel else (0, 1.08 * most or 1))
        cell.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        cell.set_title(panel, fontsize=FONT, fontweight="normal", loc="left", pad=10)
    if len(names) > 1:
        key_line(figure, 0.85, top - 0.72, [(name, looks[name]) for name in names])
    write_title(figure, title)
    return figure


def _checked_panel(x, given, panel):
    x, curves = given if isinstance(given, tuple) else (x, given)
    x = as_array(x, f"the x axis of {panel}")
    if x.ndim != 1 or len(x) < 2 or (np.diff(x) <= 0).any():
        raise ValueError(f"expected two or more rising numbers on the x axis of {panel!r}, got the shape {x.shape}")
    if not isinstance(curves, dict) or not curves:
        raise ValueError(f"expected {{name: numbers}} for the panel {panel!r}, got {curves!r}")
    checked = {}
    for name, values in curves.items():
        values = as_array(values, f"{name} of {panel}")
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != len(x) or not values.shape[1]:
            hint = "; transpose it" if values.ndim == 2 and values.shape[1] == len(x) else ""
            raise ValueError(f"expected {name} of {panel!r} at each of {len(x)} points, got {values.shape}{hint}")
        if "%" in str(panel) and (values.min() < 0 or values.max() > 100):
            raise ValueError(
                f"expected {name} of {panel!r} between 0 and 100, got {values.min():g} to {values.max():g}"
            )
        checked[str(name)] = values
    return x, checked


# The ladder


def ladder_splits(rows, splits, title):
    """Exact match of every model on every split, as panels side by side: a dot at the median, a line over all seeds.

    rows: (name, [(median, low, high) in % or None, one for each split]). splits: the names of the panels.
    """
    splits = [str(split) for split in splits]
    if not 1 <= len(splits) <= 4 or not 1 <= len(rows) <= 10:
        raise ValueError(f"expected one to four splits and one to ten rows, got {len(splits)} and {len(rows)}")
    checked = []
    for name, cells in rows:
        if len(cells) != len(splits):
            raise ValueError(
                f"expected (median, low, high) or None of {name} on {len(splits)} splits, got {len(cells)}"
            )
        checked.append((str(name), [None if one is None else checked_rung((name, *one))[1:] for one in cells]))
    left = 0.3 + max(inches(name, LABEL) for name, _ in checked)
    top = top_of(title, WIDEST) + 0.45
    size = (WIDEST, top + 0.85 + 0.52 * len(checked))
    figure, axes = canvas(
        *size, columns=len(splits), margins=(left, 0.75, 0.75, top), gaps=(0.75, 0), sharey=True, squeeze=False
    )
    for column, (panel, split) in enumerate(zip(axes[0], splits, strict=True)):
        for place, (_, cells) in enumerate(checked):
            _rung(panel, place, cells[column])
        panel.set(xlim=(0, 100), ylim=(len(checked) - 0.5, -0.5), xticks=(0, 50, 100), xlabel="exact in %")
        panel.set_title(split, fontsize=FONT, fontweight="bold", loc="left", pad=10)
        panel.tick_params(axis="y", length=0)
        panel.grid(True, axis="both")
    axes[0, 0].set_yticks(range(len(checked)), [name for name, _ in checked])
    write_title(figure, title)
    return figure


def _rung(axes, place, cell):
    if cell is None:
        write(axes, 50, place, "not measured", SMALL, color=GREY)
        return
    median, low, high = cell
    shade, marker, _ = LOOKS[place % len(LOOKS)]
    axes.barh(place, median, 0.5, color=shade, alpha=0.18)
    axes.plot([low, high], [place] * 2, color=shade, marker="|", markersize=13, markeredgewidth=2.5, linewidth=4,
              alpha=0.6, clip_on=False)  # fmt: skip
    axes.plot([median], [place], marker, color=shade, markersize=9, clip_on=False, zorder=3)
    inch = 1 / (axes.get_position().width * axes.figure.get_size_inches()[0])
    write(axes, 1 + 0.15 * inch, place, f"{median:.1f}", LABEL, ha="left", transform=axes.get_yaxis_transform())


# The cache


def cache_speed(lengths, without, cached, title):
    """Left: the seconds of decoding to each length with and without the key-value cache; right: how many times as fast.

    lengths, without, cached (k,): seconds.
    """
    lengths, without, cached = (
        as_array(row, what)
        for row, what in ((lengths, "the lengths"), (without, "the seconds"), (cached, "the cached seconds"))
    )
    if lengths.ndim != 1 or len(lengths) < 2 or lengths[0] <= 0 or (np.diff(lengths) <= 0).any():
        raise ValueError(f"expected two or more rising lengths above 0, got {lengths.tolist()}")
    for seconds, what in ((without, "without the cache"), (cached, "with it")):
        checked_length(seconds, len(lengths), f"one time {what}")
        if seconds.min() <= 0:
            raise ValueError(f"expected times above 0, but the shortest {what} is {seconds.min():g}")
    top = top_of(title, 12.0) + 0.8
    figure, (left, right) = canvas(12.0, 4.1 + top, columns=2, margins=(0.95, 0.4, 0.75, top), gaps=(1.1, 0))
    names = (("without cache", LOOKS[1]), ("with cache", LOOKS[0]))
    unit, factor = ("s", 1) if max(without.max(), cached.max()) >= 1 else ("ms", 1000)
    for seconds, (_, (shade, marker, line)) in zip((without, cached), names, strict=True):
        left.plot(lengths, factor * seconds, marker=marker, linestyle=line, color=shade)
    every = factor * np.concatenate([without, cached])
    steps = (1.0, 2.0, 5.0) if every.max() < 30 * every.min() else (1.0,)
    left.set(xscale="log", yscale="log", ylim=(every.min() / 1.7, every.max() * 1.7))
    left.yaxis.set_major_locator(LogLocator(subs=steps))
    left.set_title(f"time in {unit}", fontsize=FONT, fontweight="normal", loc="left", pad=10)
    gain = without / cached
    right.axhline(1, color="black", linewidth=1.8, linestyle=(0, (4, 2)), zorder=1)
    right.plot(lengths, gain, marker="o", color=GREEN, zorder=3, clip_on=False)
    right.set(xscale="log", ylim=(0, 1.18 * gain.max()))
    for length, times_as_fast in zip(
        ticks_apart(lengths, 4.2), gain[np.isin(lengths, ticks_apart(lengths, 4.2))], strict=True
    ):
        right.annotate(f"{times_as_fast:.1f}", (length, times_as_fast), (-7, 7), textcoords="offset points", ha="right",
                       fontsize=LABEL)  # fmt: skip
    right.set_title("times as fast with the cache", fontsize=FONT, fontweight="normal", loc="left", pad=10)
    spare = (lengths[-1] / lengths[0]) ** 0.05
    for panel in (left, right):
        panel.set(xlim=(lengths[0] / spare, lengths[-1] * spare), xlabel="words written")
        panel.set_xticks(ticks_apart(lengths, 4.2), minor=False)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    key_line(figure, 0.95, top - 0.68, names)
    write_title(figure, title)
    return figure


# What the three kinds of attention look at

MOST_WORDS = 14


def three_attentions(source, target, encoder, decoder, cross, title, names=None, said=None):
    """Three maps side by side: source among itself, target among itself (only back), target to source.

    encoder (n, n), decoder (m, m), cross (m, n): the weights of one head or the mean of several, with the words of both.
    names: what stands over each map, such as "layer 2, head 1". said: the word that each place of the target says next; its
    places are then named by both, "read → said".
    """
    source, target = [short(word) for word in source], [short(word) for word in target]
    if said is not None:
        said = checked_labels(said, len(target), "words that are said")
        target = [f"{word} → {short(following)}" for word, following in zip(target, said, strict=True)]
    if not 1 <= len(source) <= MOST_WORDS or not 1 <= len(target) <= MOST_WORDS:
        raise ValueError(
            f"expected one to {MOST_WORDS} words on each side, got {len(source)} and {len(target)}: take a shorter sentence"
        )
    sides = (
        ("encoder", source, source, checked_weights(encoder, "the encoder's weights")),
        ("decoder", target, target, checked_weights(decoder, "the decoder's weights")),
        ("cross", target, source, checked_weights(cross, "the cross weights")),
    )
    for kind, rows, columns, weights in sides:
        if weights.shape != (len(rows), len(columns)):
            raise ValueError(f"expected {kind} weights ({len(rows)}, {len(columns)}), got the shape {weights.shape}")
    if np.triu(sides[1][3], 1).max(initial=0) > 1e-6:
        raise ValueError(
            "a word of the target looks ahead: the decoder's weights must be causal; is it the encoder's map?"
        )
    names = checked_labels(names or ("", "", ""), 3, "names of maps")
    margins = [0.2 + max(inches(word, LABEL) for word in rows) for _, rows, _, _ in sides]
    words = 0.2 + max(inches(word, LABEL) for word in (*source, *target))  # upright, over the maps
    headings = ("source looks at source", "target looks back", "target looks at source")
    least = [max(inches(one, FONT, "bold"), inches(name, LABEL)) for one, name in zip(headings, names, strict=True)]
    cell = min(0.52, (WIDEST - 0.9 - sum(margins) - 3 * 0.15) / sum(len(columns) for _, _, columns, _ in sides))
    rooms = [
        max(margin + len(columns) * cell, wide) + 0.15
        for (_, _, columns, _), margin, wide in zip(sides, margins, least, strict=True)
    ]
    width = max(sum(rooms) + 0.9, min(WIDEST, inches(title, TITLE, "bold") + 0.4))
    if cell < 0.17 or width > 12.5:
        raise ValueError(
            f"{len(source)} and {len(target)} words as long as {max(source + target, key=len)!r} do not fit a slide: take a "
            "shorter sentence"
        )
    tall = max(len(source), len(target)) * cell
    height = 0.2 + tall + words + 0.7 + top_of(title, width)
    figure, axes = sheet(width, height)
    top, left = 0.2 + tall, 0.1
    for (kind, rows, columns, weights), margin, heading, name, room in zip(
        sides, margins, headings, names, rooms, strict=True
    ):
        image = _word_map(axes, rows, columns, weights, left + margin, top, cell, causal=kind == "decoder")
        write(axes, left + 0.05, top + words + 0.45, heading, FONT, ha="left", fontweight="bold")
        write(axes, left + 0.05, top + words + 0.17, name, LABEL, ha="left", color=GREY)
        left += room
    box = (left / width, (top - tall) / height, 0.16 / width, tall / height)
    bar = figure.colorbar(image, cax=figure.add_axes(box), ticks=[0, 0.5, 1])
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    write(axes, left, top + 0.22, "weight", LABEL, ha="left")
    write_title(figure, title)
    return figure


def _word_map(axes, rows, columns, weights, left, top, cell, causal=False):
    """One map on a sheet in inches, words on its left and, upright, over it."""
    wide, tall = len(columns) * cell, len(rows) * cell
    image = axes.imshow(
        weights, cmap=WEIGHTS_MAP, vmin=0, vmax=1, extent=(left, left + wide, top - tall, top), aspect="auto", zorder=1
    )
    axes.set(xlim=(0, axes.figure.get_size_inches()[0]), ylim=(0, axes.figure.get_size_inches()[1]))
    if causal:
        for row in range(len(rows)):
            ahead = len(columns) - row - 1
            corner = (left + (row + 1) * cell, top - (row + 1) * cell)
            axes.add_patch(Rectangle(corner, ahead * cell, cell, facecolor="#E4E4E4", edgecolor="none", zorder=2))
    for row, word in enumerate(rows):
        write(axes, left - 0.08, top - (row + 0.5) * cell, word, LABEL if cell >= 0.24 else 11, ha="right")
    for column, word in enumerate(columns):
        write(
            axes,
            left + (column + 0.5) * cell,
            top + 0.08,
            word,
            LABEL if cell >= 0.24 else 11,
            va="bottom",
            rotation=90,
        )
    return image


# Greedy against beam


def greedy_and_beam(source, rows, title):
    """Ways to write one translation, a word at a time: under each word its probability, behind it that of the whole.

    rows: (name, words, probabilities (words,), right), where right is True, False or None if nobody knows. Words at
    which a row leaves the first one are filled.
    """
    source = [short(word) for word in source]
    rows = [_checked_written(row) for row in rows]
    if not source or not 1 <= len(rows) <= 4:
        raise ValueError(f"expected source words and one to four rows, got {len(source)} words and {len(rows)} rows")
    left = 0.35 + max(inches(name, FONT, "bold") for name, *_ in rows)
    left = max(left, 1.2)
    room = WIDEST - left - 0.2
    lines = [_flow([source], room), *(_flow([words], room) for _, words, *_ in rows)]
    heights = [0.45 * len(lines[0]) + 0.35, *(0.8 * len(one) + 0.55 for one in lines[1:])]
    height = sum(heights) + 0.1
    figure, axes = sheet(WIDEST, height + top_of(title, WIDEST))
    y = height - 0.25
    write(axes, 0.15, y, "source", FONT, ha="left", fontweight="bold")
    for number, line in enumerate(lines[0]):
        for place, x, wide in line:
            draw_box(axes, left + x, y - 0.45 * number, wide - 0.08, 0.38, source[place], PALE_ORANGE, ORANGE)
    y = height - heights[0]
    for (name, words, chances, right), line, tall in zip(rows, lines[1:], heights[1:], strict=True):
        axes.plot([0.15, WIDEST - 0.15], [y + 0.1] * 2, color=PALE, linewidth=1.5)
        _written(axes, name, words, chances, right, line, y - 0.2, left, rows[0][1])
        y -= tall
    write_title(figure, title)
    return figure


def _checked_written(row):
    row = tuple(row)
    if len(row) != 4:
        raise ValueError(f"expected rows (name, words, probabilities, right), got {len(row)} parts")
    name, words, chances, right = row
    words = [short(word) for word in words]
    chances = as_array(chances, f"the probabilities of {name}").reshape(-1)
    if not words or len(words) != len(chances):
        raise ValueError(f"expected a probability for each of {len(words)} words of {name}, got {len(chances)}")
    if chances.min() <= 0 or chances.max() > 1.0001:
        raise ValueError(
            f"expected probabilities of {name} above 0 and up to 1, got {chances.min():g} to {chances.max():g}"
        )
    return str(name), words, chances, right


def _flow(rows, room):
    """Lines of (place, centre, width) in inches from 0 that hold all the words in order."""
    lines, left = [[]], 0.0
    for place, word in enumerate(rows[0]):
        wide = max(0.78, inches(word, FONT, "bold") + 0.3)
        if lines[-1] and left + wide > room:
            lines.append([])
            left = 0.0
        lines[-1].append((place, left + wide / 2, wide))
        left += wide
    return lines


def _written(axes, name, words, chances, right, lines, y, left, first):
    write(axes, 0.15, y, name, FONT, ha="left", fontweight="bold")
    for number, line in enumerate(lines):
        for place, x, wide in line:
            differs = words[place : place + 1] != first[place : place + 1]
            face, edge = (PALE_RED, RED) if differs else ("white", GREY)
            height = y - 0.8 * number
            draw_box(axes, left + x, height, wide - 0.08, 0.38, words[place], face, edge,
                 fontweight="bold" if differs else "normal")  # fmt: skip
            write(axes, left + x, height - 0.33, percent(chances[place]), LABEL, color=INK)
    total = np.log(chances).sum()
    verdict = {True: "✓ right", False: "✗ wrong", None: ""}[right]
    said = f"product {percent(np.exp(total))}, log-probability {signed(total)}"
    y -= 0.8 * (len(lines) - 1) + 0.65
    write(axes, left + 0.04, y, said, LABEL, ha="left")
    shade = GREEN if right else DARK_RED
    write(axes, left + 0.3 + inches(said, LABEL), y, verdict, FONT, ha="left", fontweight="bold", color=shade)


# Cross-attention against the gold alignment

MEAN = -1  # instead of a layer or a head: the mean of all


def layer_choices(layers):
    """{words: number} for a menu of layers, the mean of all first."""
    return {"mean of all": MEAN} | {str(layer + 1): layer for layer in range(layers)} if layers > 1 else {"1": 0}


def head_choices(heads):
    """{words: number} for a menu of heads, the mean of all first."""
    return layer_choices(heads)


def chosen_map(weights, layer=MEAN, head=MEAN):
    """(m, n) of one layer and head of weights (layers, heads, m, n); MEAN stands for the mean over all of them."""
    weights = checked_weights(weights, "the cross-attention weights")
    if weights.ndim != 4:
        raise ValueError(f"expected weights (layers, heads, target words, source words), got the shape {weights.shape}")
    for place, count, what in ((layer, weights.shape[0], "layers"), (head, weights.shape[1], "heads")):
        if not MEAN <= place < count:
            raise ValueError(f"there are {count} {what}, counted from 0, or {MEAN} for their mean; got {place}")
    weights = weights.mean(0) if layer == MEAN else weights[layer]
    return weights.mean(0) if head == MEAN else weights[head]


def map_name(layers, heads, layer=MEAN, head=MEAN):
    """Which map it is, in words."""
    if layers * heads == 1:
        return "the only head"
    if MEAN == layer == head:
        return f"mean of all {layers * heads} heads"
    where = "" if layers == 1 else f"mean of {layers} layers" if layer == MEAN else f"layer {layer + 1}"
    who = "" if heads == 1 else f"mean of {heads} heads" if head == MEAN else f"head {head + 1}"
    return ", ".join(part for part in (where, who) if part)


def gold_share(weights, links):
    """Of the weight (m, n) of the target words that have gold links, the share that lies on these links, from 0 to 1.

    links: (source place, target place).
    """
    weights = checked_weights(weights)
    links = checked_links(links, weights.shape[1], weights.shape[0])
    if not links:
        raise ValueError("expected at least one gold link (source place, target place), got none")
    rows = sorted({target for _, target in links})
    return float(sum(weights[target, source] for source, target in set(links)) / weights[rows].sum())


def gold_alignment(source, target, weights, links, layer=MEAN, head=MEAN, title=""):
    """The cross-attention of one layer and head, or of their mean, as a map with the gold links outlined.

    weights (layers, heads, m, n), rows sum to 1. links: (source place, target place) from 0. Behind the title stands
    which map it is and how much of the weight lies on gold links.
    """
    matrix = chosen_map(weights, layer, head)
    which = map_name(*np.shape(weights)[:2], layer, head)
    said = f"{which}: {percent(gold_share(matrix, links))} of the weight is on gold links" if len(links) else which
    return alignment(source, target, matrix, links, f"{title}, {said}" if title else said)


def alignment_grid(source, target, weights, links, title):
    """A small map for each layer and head with the gold links outlined, and over each its share of weight on gold links."""
    source, target = [short(word) for word in source], [short(word) for word in target]
    weights = whole_rows(weights)
    if weights.ndim != 4 or weights.shape[2:] != (len(target), len(source)):
        raise ValueError(
            f"expected weights (layers, heads, {len(target)}, {len(source)}), got the shape {weights.shape}"
        )
    layers, heads = weights.shape[:2]
    links = checked_links(links, len(source), len(target))
    if layers > 4 or heads > 8:
        raise ValueError(f"expected at most 4 layers of 8 heads, whose maps can still be read, got {layers} of {heads}")
    plan = _grid_plan(source, target, layers, heads, title, links)
    figure, axes = sheet(*plan["size"])
    wide, tall = len(source) * plan["cell"][0], len(target) * plan["cell"][1]
    for layer, head in np.ndindex(layers, heads):
        x, y = plan["left"] + head * (wide + GAP), plan["top"] - layer * (tall + GAP + BELOW)
        _gold_map(axes, weights[layer, head], links, x, y, plan["cell"])
        share = percent(gold_share(weights[layer, head], links)) if links else ""
        name = f"head {head + 1}: {share}".removesuffix(": ") if plan["wide"] else share
        write(axes, x + wide / 2, y - tall - 0.14, name, SMALL)
        if head == 0 and layers > 1:
            write(axes, 0.25, y - tall / 2, f"layer {layer + 1}", LABEL, rotation=90)
        if head == 0 and plan["named"]:
            for row, word in enumerate(target):
                write(axes, x - 0.06, y - (row + 0.5) * plan["cell"][1], word, 11, ha="right")
        if layer == 0 and plan["named"]:
            for column, word in enumerate(source):
                write(axes, x + (column + 0.5) * plan["cell"][0], y + 0.07, word, 11, va="bottom", rotation=90)
        if layer == 0 and not plan["wide"]:
            write(axes, x + wide / 2, y + 0.14 + plan["over"], f"head {head + 1}", SMALL)
    axes.set(xlim=(0, plan["size"][0]), ylim=(0, plan["size"][1]))
    if links:
        write(axes, 0.15, 0.2, GRID_NOTE, SMALL, ha="left", color=GREY)
    write_title(figure, title)
    return figure


GAP, BELOW = 0.2, 0.3  # between the small maps, and under each for its name
GRID_NOTE = "outlined: gold links; %: how much of the weight of their words lies on them"


def _grid_plan(source, target, layers, heads, title, links):
    """Sizes in inches: words beside the maps where every word has room."""
    beside, over = (0.1 + max(inches(word, 11) for word in words) for words in (target, source))
    layer_room = 0.45 if layers > 1 else 0.1
    foot = 0.4 if links else 0.1
    for named in (True, False):
        left = layer_room + (beside if named else 0.05)
        across = min(0.34, ((WIDEST - left) / heads - GAP) / len(source))
        extra = over if named else 0
        wide = across * len(source) >= inches("head 8: >99 %", SMALL)
        head_room = 0.1 if wide else 0.3
        free = 8.8 - top_of(title, WIDEST) - extra - foot - head_room - layers * (GAP + BELOW)
        down = min(max(across, 0.19), free / (layers * len(target)))
        if not named or min(across, down) >= 0.165:
            break
    width = max(left + heads * (across * len(source) + GAP), inches(GRID_NOTE, SMALL) + 0.3)
    width = max(width, min(WIDEST, inches(title, TITLE, "bold") + 0.4))
    top = foot + layers * (down * len(target) + GAP + BELOW)
    height = top + extra + head_room + top_of(title, width)
    return {
        "size": (width, height),
        "cell": (across, down),
        "left": left,
        "top": top,
        "named": named,
        "wide": wide,
        "over": extra,
    }


def _gold_map(axes, weights, links, x, y, cell):
    """One small map with its upper left corner at (x, y); a white rim parts the outlines from every colour."""
    rows, columns = weights.shape
    extent = (x, x + columns * cell[0], y - rows * cell[1], y)
    axes.imshow(weights, cmap=WEIGHTS_MAP, vmin=0, vmax=1, aspect="auto", extent=extent)
    for across, down in links:
        corner = (x + across * cell[0], y - (down + 1) * cell[1])
        for shade, line in (("white", 2.8), (RED, 1.6)):
            axes.add_patch(Rectangle(corner, *cell, fill=False, edgecolor=shade, linewidth=line, zorder=3))

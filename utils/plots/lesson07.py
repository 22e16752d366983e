"""The figures of lesson 07: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from utils.plots.figures import chart, write_title
from utils.plots.parts import (
    LABEL,
    PALE_BLUE,
    PALE_RED,
    draw_arrow,
    draw_box,
    draw_lines,
    name_lines,
    sheet,
    top_of,
    write,
)
from utils.plots.style import BLUE, DARK_RED, DASHES, FONT, GREY, RED, WIDEST, as_array
from utils.plots.text import inches

# Byte-pair merges of one word


def merges_steps(steps, title, notes):
    """One word as its pieces grow: a row for each step, the pieces that have just been joined filled.

    steps: the pieces of the word before the first merge, after it, after the second, ... notes: what stands behind each
    row; the first may be "".
    """
    word = "".join(steps[0])
    joins = ["letters", *(joined(before, after) for before, after in zip(steps, steps[1:], strict=False))]
    left, cell, row = 0.35 + max(inches(text, LABEL) for text in joins), 0.55, 0.56
    width = max(7.0, left + cell * len(word) + 0.3 + max(inches(note, LABEL) for note in notes))
    height = row * len(steps) + 0.1
    figure, axes = sheet(width, height + top_of(title, width))
    for number, (pieces, join, note) in enumerate(zip(steps, joins, notes, strict=True)):
        y = height - row * (number + 0.5)
        write(axes, left - 0.15, y, join, LABEL, ha="right", color=GREY)
        before = spans(steps[number - 1]) if number else spans(pieces)
        for place, end in spans(pieces):
            fresh = (place, end) not in before
            look = (PALE_RED, RED) if fresh else (PALE_BLUE, BLUE)
            x, wide = left + cell * (place + end) / 2, cell * (end - place) - 0.06
            draw_box(axes, x, y, wide, 0.42, word[place:end], *look, fontweight="bold" if fresh else "normal")
        write(axes, left + cell * len(word) + 0.15, y, note, LABEL, ha="left")
    write_title(figure, title)
    return figure


def spans(pieces):
    """(from, to) of each piece, in letters."""
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    return list(zip([0, *ends], ends, strict=False))


def joined(before, after):
    """Which pair was joined between two steps, as "l + o"."""
    starts = {place: index for index, (place, _) in enumerate(spans(before))}
    pairs = set()
    for place, end in spans(after):
        inside = [before[index] for start, index in starts.items() if place <= start < end]
        if len(inside) == 2:
            pairs.add(tuple(inside))
    return " + ".join(pairs.pop())


# Three objectives

MASK, GAP, START, END = "[MASK]", "[SENTINEL{}]", "<bos>", "<eos>"
OWN, CROSS = 1, 2  # a look in the same row of pieces, a look of the decoder at what the encoder read
SHADES = {0: "#EDEDED", OWN: BLUE, CROSS: RED}


def three_masks(words, title, *, masked, gaps):
    """Three ways to make a task of one sentence: what is read, what is to be said, and who may look at whom.

    masked: the places, from 0, that the encoder must fill in. gaps: (first, behind the last) of each run of words that is
    cut out for the encoder-decoder. What is said of the gaps ends with the name of the next one: nothing else is missing.
    """
    source, target = _cut_out(words, gaps)
    count = len(words) + 1
    square = len(source) + len(target) + 1
    both = np.zeros((square, square), dtype=int)
    both[:, : len(source)] = CROSS
    both[: len(source), : len(source)] = OWN
    both[len(source) :, len(source) :] = np.tril(np.ones((len(target) + 1,) * 2, dtype=int))
    panels = (
        (
            "blanks",
            "encoder: both ways",
            [MASK if place in masked else word for place, word in enumerate(words)],
            [word if place in masked else "" for place, word in enumerate(words)],
            np.ones((len(words), len(words)), dtype=int),
        ),
        (
            "next piece",
            "decoder: only back",
            [START, *words],
            [*words, END],
            np.tril(np.ones((count, count), dtype=int)),
        ),
        (
            "gaps",
            "encoder and decoder",
            [*source, START, *target],
            [*[""] * len(source), *target, GAP.format(len(gaps))],
            both,
        ),
    )
    return _draw_objectives(panels, len(source), title)


def _cut_out(words, gaps):
    """The sentence with its gaps, and what was in them, each behind the name of its gap."""
    source, target, place = [], [], 0
    for number, (first, last) in enumerate(gaps):
        source += [*words[place:first], GAP.format(number)]
        target += [GAP.format(number), *words[first:last]]
        place = last
    return [*source, *words[place:]], target


def _draw_objectives(panels, sources, title):
    beside = [max(inches(word, LABEL) for word in reads) + 0.12 for _, _, reads, *_ in panels]
    behind = [max(inches(word, LABEL) for word in says) + 0.5 for _, _, _, says, _ in panels]
    cells = sum(len(reads) for _, _, reads, *_ in panels)
    space = 0.3
    cell = min(0.36, (WIDEST - 0.2 - 2 * space - sum(beside) - sum(behind)) / cells)
    widths = [
        max(one + len(reads) * cell + other, inches(name, FONT, "bold") + 0.1, inches(small, LABEL) + 0.1)
        for one, other, (name, small, reads, *_) in zip(beside, behind, panels, strict=True)
    ]
    over = 0.15 + max(inches(word, LABEL) for _, _, reads, *_ in panels for word in reads)
    tall = max(len(reads) for _, _, reads, *_ in panels) * cell
    foot = 0.5
    width = 0.2 + sum(widths) + 2 * space
    height = foot + tall + over + 0.75
    figure, axes = sheet(width, height + top_of(title, width))
    left = 0.1
    for one, wide, (name, small, reads, says, looks) in zip(beside, widths, panels, strict=True):
        write(axes, left, height - 0.18, name, FONT, ha="left", fontweight="bold")
        write(axes, left, height - 0.48, small, LABEL, ha="left", color=GREY)
        _draw_looks(axes, reads, says, looks, left + one, height - 0.75 - over, cell)
        if looks.max() == CROSS:
            _part_lines(axes, sources, len(reads), left + one, height - 0.75 - over, cell)
        left += wide + space
    names = {BLUE: "may look", RED: "may look: decoder at encoder", SHADES[0]: "may not"}
    keys = [Patch(color=shade, label=name) for shade, name in names.items()]
    said = Line2D([], [], color=RED, marker=">", label="to be said there")
    axes.legend(handles=[*keys, said], loc="lower left", ncols=4, borderaxespad=0, handlelength=1.4)
    write_title(figure, title)
    return figure


def _draw_looks(axes, reads, says, looks, left, top, cell):
    """Rows: what is read, a tick for each look, an arrow to what is to be said there."""
    end = left + len(reads) * cell
    for row, (word, said) in enumerate(zip(reads, says, strict=True)):
        y = top - (row + 0.5) * cell
        write(axes, left - 0.08, y, word, LABEL, ha="right")
        write(axes, left + (row + 0.5) * cell, top + 0.08, word, LABEL, va="bottom", rotation=90)
        if said:
            draw_arrow(axes, (end + 0.05, y), (end + 0.34, y), RED)
            write(axes, end + 0.4, y, said, LABEL, ha="left", fontweight="bold", color=DARK_RED)
    for (row, column), look in np.ndenumerate(looks):
        corner = (left + column * cell, top - (row + 1) * cell)
        axes.add_patch(Rectangle(corner, cell, cell, facecolor=SHADES[look], edgecolor="white", linewidth=1.5))
        if look:
            x, y = corner[0] + cell / 2, corner[1] + cell / 2
            tick = ([x - cell * 0.2, x - cell * 0.05, x + cell * 0.22], [y, y - cell * 0.16, y + cell * 0.2])
            axes.plot(*tick, color="white", linewidth=max(1.4, 5 * cell), solid_capstyle="round")


def _part_lines(axes, sources, count, left, top, cell):
    """Between what the encoder reads and what the decoder reads."""
    look = {"color": "black", "linewidth": 2}
    axes.plot([left, left + count * cell], [top - sources * cell] * 2, **look)
    axes.plot([left + sources * cell] * 2, [top, top - count * cell], **look)


# Pretraining


def pretraining_curves(steps, curves, title, unigram, ylabel, unigram_name):
    """{name: losses (points,)} through pretraining; behind each name the perplexity at its end.

    unigram: the loss of a model that counts pieces and looks at nothing, as a dashed line.
    """
    curves = {name: as_array(losses) for name, losses in curves.items()}
    figure, axes = chart(title, 10.5, 5.4)
    named = {f"{name}\nperplexity {_perplexity(losses[-1])}": losses for name, losses in curves.items()}
    draw_lines(axes, steps, named, markevery=2)
    words = f"{unigram_name}: {unigram:.2f},\nperplexity {_perplexity(unigram)}"
    axes.axhline(unigram, color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=words)
    axes.set(xlabel="training step", ylabel=ylabel, ylim=(min(map(min, curves.values())) - 0.5, None))
    name_lines(axes)
    return figure


def _perplexity(loss):
    value = np.exp(loss)
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"

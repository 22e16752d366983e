"""The figures of lesson 02: arrays and strings in, a figure out."""

import textwrap

import numpy as np
from matplotlib import colormaps
from matplotlib.patches import Rectangle

from utils.plots.style import BLACK, BLUE, COLORS, GREEN, GREY, RED, SMALL, WEIGHTS_MAP, as_array, canvas, is_dark
from utils.plots.text import inches, shortened

ROW, CELL = 0.36, 1.0  # inches
MANY = 20  # rows from which on they stand closer together
MAX_CHARACTERS = 60  # characters of a sentence


def bold_inches(text):
    return inches(text, 14, "bold")


def hops_picture(sentences, weights, question="", answer="", title="", facts=(), note="", *, correct=None):
    """Attention weights over a story: a row for each sentence, a column for each hop; a dot marks supporting facts.

    weights (hops, n) for n sentences; `facts` are indices of sentences; `note` is a sentence below all; `correct`, where
    known, gives the answer its color.
    """
    weights = as_array(weights)
    hops, n = weights.shape
    sentences, question = (
        [shortened(sentence, MAX_CHARACTERS) for sentence in sentences],
        shortened(question, MAX_CHARACTERS),
    )
    row = ROW if n <= MANY else 0.24
    text = max(3.0, 0.1 + max(map(bold_inches, [*sentences, question])))
    width = max(text + CELL * hops + 0.8, inches(title, 16, "bold") + 0.4, text + bold_inches(answer) + 0.7)
    note = textwrap.wrap(note, int(width / 0.1))
    # Title and legend stand over the story, question and answer below it.
    first, below = 1.15, 0.55 if question else 0.1
    height = first + row * n + below + 0.26 * len(note) + 0.1
    figure, axes = canvas(width, height, margins=(0.1, 0.1, 0.1, 0.1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    plain = {"va": "center", "parse_math": False}
    axes.text(0.1, 0.3, title, fontsize=16, fontweight="bold", **plain)
    if facts:
        axes.plot([0.2], [first - 0.22], "o", color=COLORS["output"], markersize=8)
        axes.text(0.4, first - 0.22, "supporting fact", fontsize=SMALL, color=GREY, **plain)
    for hop in range(hops):
        middle = text + 0.5 + CELL * (hop + 0.5)
        axes.text(middle, first - 0.22, f"hop {hop + 1}", ha="center", fontsize=13, **plain)
    shades = colormaps[WEIGHTS_MAP]
    for index, sentence in enumerate(sentences):
        y = first + row * index
        if index in facts:
            axes.plot([0.2], [y + row / 2], "o", color=COLORS["output"], markersize=8)
        axes.text(0.4, y + row / 2, sentence, fontsize=13, fontweight="bold" if index in facts else "normal", **plain)
        for hop in range(hops):
            weight, left = weights[hop, index], text + 0.5 + CELL * hop
            axes.add_patch(Rectangle((left + 0.04, y + 0.03), CELL - 0.08, row - 0.06, facecolor=shades(weight)))
            ink = "white" if is_dark(shades(weight)) else BLACK
            axes.text(left + CELL / 2, y + row / 2, f"{weight:.2f}", ha="center", color=ink, fontsize=SMALL, **plain)
    if question:
        y = first + row * n + 0.3
        shade = {None: COLORS["output"], True: GREEN, False: RED}[correct]
        axes.text(0.4, y, question, fontsize=14, color=COLORS["query"], fontweight="bold", **plain)
        axes.text(text + 0.5, y, answer, fontsize=14, color=shade, fontweight="bold", **plain)
    if note:
        axes.text(0.4, height - 0.1, "\n".join(note), va="bottom", fontsize=SMALL, color=GREY, parse_math=False)
    return figure


def message_picture(message, width=9.0):
    """A sentence in place of a picture, for input that cannot be shown."""
    lines = textwrap.wrap(message, 74)
    figure, axes = canvas(width, 0.6 + 0.32 * len(lines), margins=(0.1, 0.1, 0.1, 0.1))
    axes.axis("off")
    axes.text(0.01, 0.5, "\n".join(lines), va="center", fontsize=14, transform=axes.transAxes, parse_math=False)
    return figure


def loss_curves(groups, linear_epochs, title):
    """{name: losses (epochs, seeds)}: every seed a line. Groups with a linear start have `linear_epochs` more in front."""
    figure, axes = canvas(9.5, 4.4, margins=(0.85, 0.25, 0.7, 0.65))
    for (name, losses), shade, style in zip(groups.items(), (GREEN, RED, BLUE), ("-", "--", ":"), strict=False):
        losses = as_array(losses)
        start = -linear_epochs if len(losses) > min(len(as_array(group)) for group in groups.values()) else 0
        epochs = np.arange(start, start + len(losses))
        for seed in range(losses.shape[1]):
            axes.plot(epochs, losses[:, seed], style, color=shade, linewidth=2, label=name if seed == 0 else None)
    axes.axvspan(-linear_epochs, 0, color="#EEEEEE", zorder=0)
    above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": SMALL}
    axes.text(-linear_epochs / 2, 0.97, "no softmax", color="#555555", **above)
    axes.set(xlabel="epoch (0: the softmax comes in)", ylabel="training loss")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    axes.set_title(title)
    return figure


def seed_errors(rows, title, limit=None):
    """{name: errors in % (seeds,)}: one dot for each seed, a bar at the median."""
    figure, axes = canvas(9.5, 1.5 + 0.55 * len(rows), margins=(0.5 + max(map(inches, rows)), 0.3, 0.7, 0.65))
    jitter = np.random.default_rng(0)  # only moves dots apart that would hide each group
    for row, (_, errors) in enumerate(rows.items()):
        errors = as_array(errors)
        axes.plot(errors, row + jitter.uniform(-0.18, 0.18, len(errors)), "o", color=BLUE, alpha=0.55, markersize=8)
        axes.plot([np.median(errors)] * 2, [row - 0.32, row + 0.32], color=RED, linewidth=3)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="error on new stories in % (dots: seeds, bar: median)", xlim=(-2, limit or None))
    figure.text(0.1 / figure.get_size_inches()[0], 1 - 0.12 / figure.get_size_inches()[1], title, ha="left", va="top", fontsize=16, fontweight="bold")  # fmt: skip
    return figure

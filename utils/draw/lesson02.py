"""The figures of lesson 02: arrays and strings in, a figure out."""

import textwrap

import numpy as np
from matplotlib import colormaps
from matplotlib.patches import Rectangle

from utils.draw.figures import checked_weights
from utils.draw.style import BLACK, BLUE, COLOURS, GREEN, GREY, RED, SMALL, WEIGHTS_MAP, as_array, canvas

ROW, CELL = 0.36, 1.0  # inches


def hops_picture(sentences, weights, question="", answer="", title="", facts=(), note=""):
    """A story as rows, one column of weights for each hop; supporting facts carry a dot.

    weights (hops, n) for n sentences; `facts` are places of sentences; `note` is a sentence below all.
    """
    weights = checked_weights(weights)
    hops, n = weights.shape
    if n != len(sentences):
        raise ValueError(f"expected one weight for each of {len(sentences)} sentences, got {n}")
    longest = max(map(len, [*sentences, question]))
    text = max(3.0, 0.115 * longest)
    # The title stands over all; the question and the answer below the story.
    width, height = text + CELL * hops + 0.8, ROW * n + (1.75 if question else 1.2)
    width = max(width, 0.125 * len(title) + 0.4, text + 0.13 * len(answer) + 0.6)
    note = textwrap.wrap(note, int(width / 0.1))
    height += 0.26 * len(note)
    figure, axes = canvas(width, height, margins=(0.1, 0.1, 0.1, 0.1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    axes.text(0.1, 0.3, title, fontsize=16, fontweight="bold", va="center")
    first = 0.95
    for hop in range(hops):
        axes.text(
            text + 0.5 + CELL * (hop + 0.5), first - 0.22, f"look {hop + 1}", ha="center", va="center", fontsize=13
        )
    shades = colormaps[WEIGHTS_MAP]
    for row, sentence in enumerate(sentences):
        y = first + ROW * row
        if row in facts:
            axes.plot([0.2], [y + ROW / 2], "o", color=COLOURS["output"], markersize=8)
        axes.text(0.4, y + ROW / 2, sentence, va="center", fontsize=13, fontweight="bold" if row in facts else "normal")
        for hop in range(hops):
            weight, left = weights[hop, row], text + 0.5 + CELL * hop
            axes.add_patch(Rectangle((left + 0.04, y + 0.03), CELL - 0.08, ROW - 0.06, facecolor=shades(weight)))
            ink = "white" if weight < 0.6 else BLACK
            axes.text(
                left + CELL / 2, y + ROW / 2, f"{weight:.2f}", ha="center", va="center", color=ink, fontsize=SMALL
            )
    if question:
        y = first + ROW * n + 0.3
        axes.text(0.4, y, question, va="center", fontsize=14, color=COLOURS["query"], fontweight="bold")
        axes.text(text + 0.5, y, answer, va="center", fontsize=14, color=COLOURS["output"], fontweight="bold")
    if note:
        axes.text(0.4, height - 0.1, "\n".join(note), va="bottom", fontsize=SMALL, color=GREY)
    return figure


def message_picture(message, width=9.0):
    """A sentence in place of a picture, for input that cannot be shown."""
    lines = textwrap.wrap(message, 82)
    figure, axes = canvas(width, 0.6 + 0.32 * len(lines), margins=(0.1, 0.1, 0.1, 0.1))
    axes.axis("off")
    axes.text(0.01, 0.5, "\n".join(lines), va="center", fontsize=14, transform=axes.transAxes)
    return figure


def loss_curves(groups, linear_epochs, title):
    """{name: losses (epochs, seeds)}: every seed a line. Groups with a linear start have `linear_epochs` more in front."""
    figure, axes = canvas(9.5, 4.4, margins=(0.85, 0.25, 0.7, 0.65))
    for (name, losses), shade, style in zip(groups.items(), (GREEN, RED, BLUE), ("-", "--", ":"), strict=False):
        losses = as_array(losses)
        start = -linear_epochs if len(losses) > min(len(as_array(other)) for other in groups.values()) else 0
        epochs = np.arange(start, start + len(losses))
        for seed in range(losses.shape[1]):
            axes.plot(epochs, losses[:, seed], style, color=shade, linewidth=2, label=name if seed == 0 else None)
    axes.axvspan(-linear_epochs, 0, color="#EEEEEE", zorder=0)
    above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": SMALL}
    axes.text(-linear_epochs / 2, 0.97, "no softmax", color=GREY, **above)
    axes.set(xlabel="epoch (0: the softmax comes in)", ylabel="training loss")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    axes.set_title(title)
    return figure


def seed_errors(rows, title, limit=None):
    """{name: errors in % (seeds,)}: one dot for each seed, a bar at the median."""
    figure, axes = canvas(9.5, 1.5 + 0.55 * len(rows), margins=(3.9, 0.3, 0.7, 0.65))
    spread = np.random.default_rng(0)  # only moves dots apart that would hide each other
    for row, (_, errors) in enumerate(rows.items()):
        errors = as_array(errors)
        axes.plot(errors, row + spread.uniform(-0.18, 0.18, len(errors)), "o", color=BLUE, alpha=0.55, markersize=8)
        axes.plot([np.median(errors)] * 2, [row - 0.32, row + 0.32], color=RED, linewidth=3)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="error on new stories in % (dots: seeds, bar: median)", xlim=(-2, limit or None))
    figure.text(0.1 / figure.get_size_inches()[0], 1 - 0.12 / figure.get_size_inches()[1], title, ha="left", va="top", fontsize=16, fontweight="bold")  # fmt: skip
    return figure

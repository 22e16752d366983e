"""Pure functions from arrays and strings to matplotlib figures."""

import textwrap

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from utils.plots.style import DPI, FONT, SIGNED_MAP, SMALL, as_array, ink_on

NUMBERS_UP_TO = 10  # rows or columns: beyond that, numbers in the cells are too small to read
MIN_SCALE = 0.05  # the smallest effect drawn in full color: anything less is noise and stays pale


def text_inches(text, size=FONT):
    """Approximate width of a text. DejaVu Sans letters are 0.6 of their size wide on average."""
    characters = max((len(line) for line in str(text).split("\n")), default=0)
    return 0.61 * size / 72 * characters


def signed(number, decimals=2):
    """A rounded number with a real minus sign, and no minus before zero."""
    text = f"{number:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def checked_weights(weights, what="weights"):
    """Attention weights are nonnegative, and a row sums to 1, or to 0 if it is fully masked."""
    weights = as_array(weights, what)
    if weights.size == 0:
        raise ValueError(f"{what} have the shape {weights.shape}: nothing to draw")
    if weights.min() < -1e-6:
        raise ValueError(f"{what} must not be negative, but the smallest is {weights.min():.3g}: are these scores?")
    total = weights.sum(-1).max()
    if total > 1.001:
        raise ValueError(f"each row of the {what} sums to at most 1, but one sums to {total:.4g}: apply softmax first")
    return weights


TITLE = 16

# Titles and charts


def title_lines(title, width):
    """How many lines a title takes in a figure of this width."""
    return wrapped(title, width).count("\n") + 1 if title else 0


def wrapped(title, width):
    """The title, wrapped to a width in inches."""
    letters = max(12, int((width - 0.3) / text_inches("n", TITLE) / 1.08))  # bold letters are wider
    return "\n".join(line for part in title.split("\n") for line in textwrap.wrap(part, letters))


def write_title(figure, title):
    """Write the title at the left edge of the figure, in as many lines as it needs."""
    if title:
        width, height = figure.get_size_inches()
        text = wrapped(title, width)
        figure.text(0.12 / width, 1 - 0.12 / height, text, ha="left", va="top", fontsize=TITLE, fontweight="bold")


def chart(title, width=9.5, height=4.7, rows=1, columns=1, **options):
    """A figure and its axes under a title; margins follow from labels and legends. For widgets, see `canvas`."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)  # inches
    axes = figure.subplots(rows, columns, **options)
    look = {"x": 0.12 / width, "ha": "left", "fontsize": TITLE, "fontweight": "bold", "parse_math": False}
    figure.suptitle(wrapped(title, width), **look)
    return figure, axes


# Heat maps


def heat_map(weights, row_labels, column_labels, title, row_axis="", column_axis="", limits=(0, 1)):
    """A matrix (rows, columns) as a heat map, with numbers where they are readable.

    limits=None uses the smallest and the largest entry, for matrices that are not attention weights.
    """
    weights = as_array(weights, "the heat map")
    rows, columns = weights.shape
    low, high = limits or (weights.min(), weights.max())
    numbers = max(rows, columns) <= NUMBERS_UP_TO
    cell, small = (0.62, SMALL + 1) if numbers else (max(0.17, 6.0 / max(rows, columns)), SMALL)
    turned = max(text_inches(label, small) for label in column_labels) > cell
    beside, below = (max(text_inches(label, small) for label in labels) for labels in (row_labels, column_labels))
    width = max(6.0, beside + columns * cell + 1.6)
    height = rows * cell + (below if turned else 0.25) + 0.9 + 0.3 * title_lines(title, width)
    figure, axes = chart(title, width, height)
    image = axes.imshow(weights, vmin=low, vmax=high, aspect="auto")
    axes.set_xticks(range(columns), column_labels, fontsize=small, rotation=90 if turned else 0)
    axes.set_yticks(range(rows), row_labels, fontsize=small)
    axes.set(xlabel=column_axis, ylabel=row_axis)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    if numbers:
        for (row, column), number in np.ndenumerate(weights):
            ink = ink_on(image.cmap(image.norm(number)))
            axes.text(column, row, signed(number), ha="center", va="center", color=ink, fontsize=SMALL)
    bar = figure.colorbar(image, ax=axes, label="weight", aspect=25, pad=0.02)
    bar.outline.set_visible(False)
    return figure


def effect_colors(effect):
    """(faces, text colors) as hex: the larger the effect, the stronger the face; text in black or white, for contrast."""
    scale = max(abs(effect).max(), MIN_SCALE)
    faces = [[to_hex(shade) for shade in row] for row in colormaps[SIGNED_MAP]((effect / scale + 1) / 2)]
    return faces, [[ink_on(face) for face in row] for row in faces]


def points(change):
    """A change of accuracy in percentage points, with its sign."""
    text = signed(100 * change, 1)
    return text if float(f"{100 * change:.1f}") <= 0 else f"+{text}"

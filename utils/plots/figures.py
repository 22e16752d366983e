"""Pure functions from arrays and strings to matplotlib figures."""

import textwrap

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from utils.plots.style import COLORS, DPI, FONT, GREY, SIGNED_MAP, SMALL, WIDTH, as_array, canvas, color_of, ink_on

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
TITLE_WIDTH = 8.0  # inches: a longer title gets a second line before it widens the figure

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


# Bars


def bars(labels, values, title="", value_label="", colors="weights", numbers=True, size=(WIDTH, 4.0)):
    """Bars over labels. `values` is one list of numbers, or a dict {name: numbers}, one group of bars per label.

    colors: one color or role for a single series, or a dict with one per name. The margins are fixed, for sliders.
    """
    series = values if isinstance(values, dict) else {"": values}
    lines = title_lines(title, size[0])
    top = 0.3 + 0.3 * lines + (0.3 if len(series) > 1 else 0)
    height = size[1] + 0.3 * max(lines - 1, 0)  # a long title makes the figure taller, not the bars shorter
    figure, axes = canvas(size[0], height, margins=(0.95, 0.2, 0.5, top))
    width = 0.8 / len(series)
    for index, (name, lengths) in enumerate(series.items()):
        centers = np.arange(len(labels)) + (index - (len(series) - 1) / 2) * width
        shade = color_of(colors[name] if isinstance(colors, dict) else colors)
        drawn = axes.bar(centers, as_array(lengths), width * 0.94, label=name or None, color=shade)
        if numbers:
            axes.bar_label(drawn, [f"{length:.2f}" for length in as_array(lengths)], padding=2, fontsize=SMALL + 1)
    axes.set_xticks(np.arange(len(labels)), labels)
    axes.set(xlim=(-0.6, len(labels) - 0.4), ylim=(0, 1.08), ylabel=value_label)
    axes.tick_params(axis="x", length=0)
    write_title(figure, title)
    if len(series) > 1:
        look = {"borderaxespad": 0.1, "handlelength": 1.2, "ncols": len(series)}
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), **look)
    return figure


def weights_bars(labels, weights, title="", colors="weights"):
    """A distribution over labels: bars from 0 to 1 whose sum is 1."""
    return bars(labels, checked_weights(as_array(weights).reshape(-1)), title, "weight", colors)


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


# Attention between two rows of tokens


def attention_lines(source_tokens, target_tokens, weights, title, target_name, source_name, focus=None):
    """Two rows of tokens and a line for every weight: target tokens above attend to source tokens below.

    weights (targets, sources). `focus` is the index of one target token: its lines stand out and carry numbers.
    """
    upper, upper_width = _row_centers(target_tokens)
    lower, lower_width = _row_centers(source_tokens)
    span = max(upper_width, lower_width)
    if source_tokens != target_tokens:
        upper, lower = upper * span / upper_width, lower * span / lower_width
    left = max(text_inches(name, SMALL + 1) for name in (target_name, source_name)) + 0.35
    width = max(6.0, left + span + 0.3, min(TITLE_WIDTH, text_inches(title, TITLE) * 1.08 + 0.4))
    size = (width, 2.8 + 0.32 * title_lines(title, width) + (0.3 if focus is not None else 0))
    figure, axes = canvas(*size, margins=(left, 0.2, 0.1, 0.1 + 0.32 * title_lines(title, size[0])))
    axes.set(xlim=(0, size[0] - left - 0.2), ylim=(-0.5 if focus is not None else -0.25, 1.25))
    axes.axis("off")
    _draw_lines(axes, upper, lower, weights, focus)
    _draw_tokens(axes, target_tokens, upper, 1.0, COLORS["query"], focus)
    _draw_tokens(axes, source_tokens, lower, 0.0, COLORS["key"], None)
    if focus is not None:
        for x, weight in zip(lower, weights[focus], strict=True):
            axes.text(x, -0.36, weight_text(weight), ha="center", va="center", fontsize=SMALL + 1)
    for name, height in ((target_name, 1.0), (source_name, 0.0)):
        axes.text(-0.15, height, name, ha="right", va="center", fontsize=SMALL + 1, color=GREY)
    write_title(figure, title)
    return figure


def weight_text(weight):
    """Distinguishes a masked weight, exactly 0, from a small one."""
    return "0" if weight == 0 else "<0.01" if weight < 0.005 else f"{weight:.2f}"


def token_widths(tokens):
    return [max(0.62, text_inches(token, FONT) + 0.34) for token in tokens]


def row_inches(tokens):
    """Width of a row of tokens in `attention_lines`."""
    return float(sum(token_widths(tokens)))


def _row_centers(tokens):
    """Centers of the tokens in inches, and the width of the row."""
    widths = token_widths(tokens)
    ends = np.cumsum(widths)
    return ends - np.array(widths) / 2, float(ends[-1])


def _draw_lines(axes, upper, lower, weights, focus):
    for (target, source), weight in np.ndenumerate(weights):
        chosen = focus is None or target == focus
        if weight < min(0.004, 0.5 / len(lower)):  # negligible, even among many keys
            continue
        axes.plot(
            [upper[target], lower[source]],
            [0.86, 0.14],
            color=COLORS["query"] if chosen else GREY,
            alpha=_line_alpha(weight, weights[target].max(), focus is not None, chosen),
            linewidth=float(0.8 + 6 * weight),
            solid_capstyle="round",
        )


def _line_alpha(weight, largest, with_focus, chosen):
    """Relative to the largest weight of the row for the token in focus, whose weights may all be small."""
    if not with_focus:
        return float(0.12 + 0.83 * weight)
    return float(0.3 + 0.65 * weight / largest) if chosen else float(0.25 * weight)


def _draw_tokens(axes, tokens, centers, height, edge, focus):
    for index, (token, x) in enumerate(zip(tokens, centers, strict=True)):
        axes.text(
            x,
            height,
            token,
            ha="center",
            va="center",
            fontsize=FONT,
            bbox={
                "boxstyle": "round,pad=0.28",
                "facecolor": "#DCEBF5" if index == focus else "white",
                "edgecolor": edge,
                "linewidth": 2.6 if index == focus else 1.4,
            },
        )


def effect_colors(effect):
    """(faces, text colors) as hex: the larger the effect, the stronger the face; text in black or white, for contrast."""
    scale = max(abs(effect).max(), MIN_SCALE)
    faces = [[to_hex(shade) for shade in row] for row in colormaps[SIGNED_MAP]((effect / scale + 1) / 2)]
    return faces, [[ink_on(face) for face in row] for row in faces]


def points(change):
    """A change of accuracy in percentage points, with its sign."""
    text = signed(100 * change, 1)
    return text if float(f"{100 * change:.1f}") <= 0 else f"+{text}"

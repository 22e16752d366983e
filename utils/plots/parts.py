"""Shared by the figures of several lessons: distinguishable line styles, boxes and arrows in inches, charts."""

import numpy as np
from matplotlib.patches import FancyBboxPatch, Polygon
from matplotlib.ticker import NullLocator

from utils.plots.figures import title_lines
from utils.plots.style import BLUE, BROWN, FONT, GREEN, GREY, ORANGE, PINK, RED, SKY, SMALL, as_array, canvas
from utils.plots.text import shortened

# Color, marker and line of the first curve, the second, ...: three ways to distinguish them. A model at the same index
# has the same style in every figure.
LOOKS = (
    (BLUE, "o", "-"),
    (RED, "s", "--"),
    (GREEN, "^", "-."),
    (ORANGE, "D", ":"),
    (PINK, "v", "-"),
    (SKY, "P", "--"),
    (BROWN, "X", "-."),
    (GREY, "*", ":"),
)
PALE_BLUE, PALE_RED, PALE_GREEN, PALE_ORANGE = "#DCEBF5", "#FBE3D6", "#DDF1EA", "#FBEFD2"
LABEL = SMALL + 1
MAX_LETTERS = 24  # longer words are shortened where a row has to fit


# Sheets and boxes


def sheet(width, height):
    """A figure with one empty drawing area whose units are inches, (0, 0) at the lower left."""
    figure, axes = canvas(width, height, margins=(0, 0, 0, 0))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def top_of(title, width):
    """Height of the title at the top of a figure, in inches."""
    return 0.25 + 0.3 * title_lines(title, width)


def short(word):
    return shortened(str(word), MAX_LETTERS)


def write(axes, x, y, text, size=FONT, ha="center", va="center", **look):
    # A word may be a dollar sign; it is never a formula.
    return axes.text(x, y, text, fontsize=size, ha=ha, va=va, parse_math=False, **look)


def draw_box(axes, x, y, width, height, text, face, edge, size=FONT, **look):
    """A rounded box with a text, centered at (x, y)."""
    left, bottom = x - width / 2, y - height / 2
    shape = FancyBboxPatch(
        (left, bottom), width, height, boxstyle="round,pad=0,rounding_size=0.08", facecolor=face, edgecolor=edge,
        linewidth=1.6,
    )  # fmt: skip
    axes.add_patch(shape)
    write(axes, x, y, text, size, **look)


def draw_arrow(axes, start, end, shade=GREY):
    look = {"arrowstyle": "-|>,head_width=0.28,head_length=0.5", "color": shade, "linewidth": 1.8}
    axes.annotate("", xy=end, xytext=start, arrowprops={**look, "shrinkA": 0, "shrinkB": 0})


def draw_strong_arrow(axes, corners, shade):
    """A thick line through the corners with a head at its end."""
    *way, last, end = np.array(corners, dtype=float)
    direction = (end - last) / np.linalg.norm(end - last)
    side = np.array([-direction[1], direction[0]])
    neck = end - 0.16 * direction
    line = np.array([*way, last, neck])
    axes.plot(*line.T, color=shade, linewidth=2.6, solid_joinstyle="round", solid_capstyle="butt", zorder=2)
    axes.add_patch(
        Polygon([end, neck + 0.085 * side, neck - 0.085 * side], facecolor=shade, edgecolor="none", zorder=4)
    )


# Lines and rows in charts


def draw_lines(axes, x, curves, bands=None, **look):
    """{name: numbers} as lines over x, distinguished by color, marker and dashes. bands: {name: (low, high)}."""
    for (name, values), (shade, marker, line) in zip(curves.items(), LOOKS, strict=False):
        axes.plot(x, values, color=shade, marker=marker, linestyle=line, label=name, zorder=3, **look)
        if bands and name in bands:
            axes.fill_between(x, *bands[name], color=shade, alpha=0.2, linewidth=0)


def name_lines(axes):
    """A legend to the right of the axes, sorted by the last value of each line, highest first."""
    handles, labels = axes.get_legend_handles_labels()
    last = [as_array(handle.get_ydata())[-1] for handle in handles]
    order = np.argsort(last, kind="stable")[::-1]
    position = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "handlelength": 3, "labelspacing": 0.8}
    axes.legend([handles[index] for index in order], [labels[index] for index in order], **position)


def plain_ticks(axis, ticks=None):
    """Plain numbers such as 512 on a logarithmic axis instead of powers of ten."""
    if ticks is not None:
        axis.set_ticks(ticks)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def only_rows(axes, names):
    """Names on the y-axis from the top down, and a grid for the x-axis only."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")


# Numbers


def percent(probability):
    """A probability as a whole percentage; only 0 is shown as 0 %, and only 1 as 100 %."""
    if 0 < probability < 0.005:
        return "<1 %"
    if 0.995 <= probability < 0.99995:
        return ">99 %"
    return f"{100 * probability:.0f} %"

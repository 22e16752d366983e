"""What the figures of several lessons are made of: looks that can be told apart, boxes and arrows in inches, named lines."""

import numpy as np
from matplotlib.patches import FancyBboxPatch, Polygon

from utils.draw.figures import title_lines
from utils.draw.style import BLUE, BROWN, FONT, GREEN, GREY, ORANGE, PINK, RED, SKY, SMALL, as_array, canvas
from utils.draw.text import inches, shortened

# Colour, marker and line of the first thing, the second, ...: three ways to tell them apart. A model that keeps its
# place in the lists keeps its look from figure to figure.
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
LONGEST_WORD = 24  # letters: longer ones are shortened where every word has to fit in a row


# Sheets and boxes


def sheet(width, height):
    """A figure with one empty drawing area whose units are inches, (0, 0) at the lower left."""
    figure, axes = canvas(width, height, margins=(0, 0, 0, 0))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def top_of(title, width):
    """The room that a title takes at the top of a figure."""
    return 0.25 + 0.3 * title_lines(title, width)


def short(word):
    return shortened(str(word), LONGEST_WORD)


def write(axes, x, y, text, size=FONT, ha="center", va="center", **look):
    # A word may be a dollar sign; it is never a formula.
    return axes.text(x, y, text, fontsize=size, ha=ha, va=va, parse_math=False, **look)


def draw_box(axes, x, y, width, height, text, face, edge, size=FONT, **look):
    """A rounded box with a word in it, centred at (x, y)."""
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


# Lines with their names at the end


def checked_curves(curves, what):
    """{name: (numbers,)} with at least one number each, and no more curves than there are looks."""
    if not curves:
        raise ValueError(f"there are no curves to draw: expected a dict of names and {what}")
    if len(curves) > len(LOOKS):
        raise ValueError(f"expected at most {len(LOOKS)} curves, which can still be told apart, got {len(curves)}")
    checked = {str(name): as_array(values, f"{what} of {name}") for name, values in curves.items()}
    for name, values in checked.items():
        if values.ndim != 1 or not len(values):
            raise ValueError(f"expected {what} of {name} as one row of numbers, got the shape {values.shape}")
    return checked


def checked_length(values, count, what):
    if len(values) != count:
        raise ValueError(f"expected {what} at each of {count} lengths, got {len(values)}")


def lines_canvas(title, labels, height=4.7, left=0.95):
    """A figure with a margin on the right that is wide enough for the names of the lines."""
    margin = 0.55 + max(inches(line, LABEL) for label in labels for line in label.split("\n"))
    width = max(9.5, left + 5.0 + margin)
    top = top_of(title, width) + 0.1
    return canvas(width, height + 0.3 * max(0, title_lines(title, width) - 1), margins=(left, margin, 0.7, top))


def places_apart(heights, gap, high):
    """The nearest places to `heights` that are `gap` apart and lie between 0 and `high`, in the same order."""
    order = np.argsort(heights, kind="stable")
    places = np.array(heights, dtype=float)[order]
    for _ in range(200):  # neighbours that are too close push each other away
        places = np.clip(places, 0, high)
        lack = gap - np.diff(places)
        if (lack <= 1e-9).all():
            break
        for index in np.flatnonzero(lack > 0):
            push = (gap - (places[index + 1] - places[index])) / 2
            places[index] -= push
            places[index + 1] += push
    spread = np.empty_like(places)
    spread[order] = places
    return spread


def name_ends(axes, ends, labels):
    """Write each name beside the end of its line, apart from the others; a thin line leads to a name that had to move.

    ends: (x, y) in data units, after the limits are set. From a line that ends early the way is long: it is dotted and grey,
    or it would be read as part of the curve.
    """
    width, height = axes.figure.get_size_inches() * np.array(axes.get_position().size)
    to_inches = axes.transData + axes.transAxes.inverted()
    points = to_inches.transform(ends) * (width, height)
    lines = max(label.count("\n") + 1 for label in labels)
    places = places_apart(points[:, 1], 0.04 + 0.22 * lines, height)
    for (x, y), place, label, (shade, marker, _) in zip(points, places, labels, LOOKS, strict=False):
        look = {"transform": axes.transAxes, "clip_on": False, "color": shade}
        lead = (
            {"linewidth": 1, "linestyle": "-"} if x > 0.8 * width else {"linewidth": 1, "linestyle": ":", "color": GREY}
        )
        axes.plot([x / width, 1 + 0.22 / width], [y / height, place / height], **(look | lead))
        axes.plot([1 + 0.22 / width], [place / height], marker, markersize=8, **look)
        spot = {"transform": axes.transAxes, "linespacing": 1.05}
        write(axes, 1 + 0.35 / width, place / height, label, LABEL, ha="left", **spot)


def ticks_apart(lengths, width):
    """Those lengths whose labels have room on a logarithmic axis of this many inches, the longest first."""
    span = np.log(lengths[-1] / lengths[0])
    chosen = []
    for length in lengths[::-1]:
        room = (inches("0" * len(f"{length:g}"), LABEL) + 0.15) * span / width
        if not chosen or np.log(chosen[-1] / length) >= room:
            chosen.append(length)
    return chosen[::-1]


def key_line(figure, left, down, entries):
    """Names with their line and marker in a row, `down` inches from the top."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0, 0, 1, 1), zorder=-1)
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    y = height - down
    for name, (shade, marker, line) in entries:
        axes.plot([left, left + 0.6], [y, y], linestyle=line, color=shade)
        axes.plot([left + 0.3], [y], marker, color=shade)
        write(axes, left + 0.72, y, name, LABEL, ha="left")
        left += 0.72 + inches(name, LABEL) + 0.45


# Numbers


def percent(chance):
    """A probability in whole per cent; a small one is not the same as none, nor a large one as all."""
    if 0 < chance < 0.005:
        return "<1 %"
    if 0.995 <= chance < 0.99995:
        return ">99 %"
    return f"{100 * chance:.0f} %"

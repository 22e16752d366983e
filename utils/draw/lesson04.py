"""The figures of lesson 04: arrays and strings in, a figure out."""

import operator

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from utils.draw.figures import checked_labels, checked_weights, signed, write_title
from utils.draw.lesson03 import alignment, influence, times
from utils.draw.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_RED,
    draw_arrow,
    draw_box,
    key_line,
    lines_canvas,
    name_ends,
    percent,
    sheet,
    short,
    ticks_apart,
    top_of,
    write,
)
from utils.draw.style import BLUE, COLOURS, FONT, GREY, PALE, RED, SMALL, as_array, canvas
from utils.draw.text import inches

__all__ = [
    "alignment",
    "controllers",
    "dk_picture",
    "extrapolation",
    "influence",
    "loss_by_context",
    "loss_table_bars",
    "mask_pictures",
    "offset_products",
    "order_bars",
    "position_pattern",
    "position_waves",
    "scaling",
    "times",
    "two_contexts",
]

POSITIONS_MAP = "RdBu_r"  # two colours that every reader tells apart, white at 0
WIDEST = 12.0  # inches: what fits a slide
RAW, SCALED = (RED, "s", "--"), (BLUE, "o", "-")


# One controller, and one for each token

CONTROLLERS_UP_TO = 7
LOWER, UPPER = 0.95, 3.35  # inches: the rows of those who are looked at and of those who look


def controllers(tokens):
    """Left: one state looks at n sentences. Right: every token looks at every token, so n states look at n tokens."""
    tokens = [short(token) for token in tokens]
    count = len(tokens)
    if not 2 <= count <= CONTROLLERS_UP_TO:
        raise ValueError(f"expected 2 to {CONTROLLERS_UP_TO} tokens, got {count}: more lines cannot be told apart")
    boxes = np.array([max(0.5, inches(token, FONT, "bold") + 0.2) for token in tokens])
    row = boxes.sum() + 0.14 * (count - 1)
    state = inches("state of the controller", FONT, "bold") + 0.4
    margin, gap = 0.35 + inches("is looked at", LABEL), 0.9
    left_count, right_count = f"1 × {count} scores", f"{count} × {count} = {count**2} scores"
    left_width = max(count * 0.62, state, inches("one controller for the story", FONT + 1, "bold"))
    right_width = max(row, inches("one controller for each token", FONT + 1, "bold"))
    width = margin + left_width + gap + right_width + 0.2
    if width > 12.5:
        raise ValueError(f"{count} tokens as long as {max(tokens, key=len)!r} do not fit a slide: leave some out")
    title = "from one controller to one for each token"
    figure, axes = sheet(width, 4.6 + top_of(title, width))
    for y, name in ((UPPER, "looks"), (LOWER, "is looked at")):
        write(axes, 0.15, y, name, LABEL, ha="left", color=GREY)
    middle = margin + left_width / 2
    sentences = middle + 0.62 * (np.arange(count) - (count - 1) / 2)
    _look(axes, [middle], sentences, focus=0)
    draw_box(axes, middle, UPPER, state, 0.46, "state of the controller", PALE_BLUE, BLUE, fontweight="bold")
    for place, x in enumerate(sentences):
        draw_box(axes, x, LOWER, 0.5, 0.46, str(place + 1), "white", COLOURS["key"])
    _panel_words(axes, middle, "one controller for the story", f"{count} sentences", left_count)
    middle = margin + left_width + gap + right_width / 2
    places = middle - row / 2 + np.cumsum(boxes + 0.14) - 0.14 - boxes / 2
    focus = count // 2
    _look(axes, places, places, focus)
    for place, (x, box, token) in enumerate(zip(places, boxes, tokens, strict=True)):
        face, weight = (PALE_BLUE, "bold") if place == focus else ("white", "normal")
        draw_box(axes, x, UPPER, box, 0.46, token, face, BLUE, fontweight=weight)
        draw_box(axes, x, LOWER, box, 0.46, token, "white", COLOURS["key"])
    _panel_words(axes, middle, "one controller for each token", f"the same {count} tokens", right_count)
    divide = margin + left_width + gap / 2
    axes.plot([divide] * 2, [0.2, 4.4], color=PALE, linewidth=1.5)
    write_title(figure, title)
    return figure


def _look(axes, upper, lower, focus):
    """A line for every look; those of one controller stand out."""
    for number, x in enumerate(upper):
        shade, line = (BLUE, 2.6) if number == focus else ("#9A9A9A", 0.9)
        looks = [[(x, UPPER - 0.25), (y, LOWER + 0.26)] for y in lower]
        order = 3 if number == focus else 2
        axes.add_collection(LineCollection(looks, colors=shade, linewidths=line, zorder=order))


def _panel_words(axes, middle, name, looked_at, scores):
    write(axes, middle, 4.35, name, FONT + 1, fontweight="bold")
    write(axes, middle, 3.92, scores, LABEL)
    write(axes, middle, 0.42, looked_at, LABEL)


# Why the scores are divided by a root

THIRDS = {"stuck": "rows with slope < 0.01, in %", "median_slope": "median slope of softmax"}
GROWTH = "without the root the scores grow with d_k until softmax is stuck"


def scaling(dims, raw, scaled, third="stuck", title=GROWTH):
    """Three panels over d_k: variance of the scores, entropy of the weights, and what is left of softmax's slope.

    raw and scaled: dicts of arrays (dims,) with the keys "variance", "entropy_share" (of log n, 0 to 1) and `third`, which is
    "stuck" (share of rows with a slope below 0.01) or "median_slope". A median of exactly 0 is a hollow mark at the bottom.
    """
    dims = as_array(dims, "the dims")
    if dims.ndim != 1 or len(dims) < 2 or dims[0] <= 0 or (np.diff(dims) <= 0).any():
        raise ValueError(f"expected two or more rising values of d_k above 0, got {dims.tolist()}")
    if third not in THIRDS:
        raise ValueError(f"expected the third panel to be {' or '.join(THIRDS)}, got {third!r}")
    tables = [_checked_table(table, name, len(dims), third) for name, table in (("raw", raw), ("scaled", scaled))]
    top = top_of(title, WIDEST) + 0.85
    margins = (0.8, 0.25, 0.75, top)
    figure, axes = canvas(WIDEST, 3.9 + top, columns=3, margins=margins, gaps=(0.85, 0))
    names = ("variance of the scores", "entropy in % of log n", THIRDS[third])
    for panel, key, name in zip(axes, ("variance", "entropy_share", third), names, strict=True):
        panel.set_xscale("log")
        curves = [table[key] * (1 if key in ("variance", "median_slope") else 100) for table in tables]
        if key in ("variance", "median_slope"):
            _log_panel(panel, curves)
        else:
            panel.set(ylim=(0, 104), yticks=range(0, 101, 20))
        for values, (shade, marker, line) in zip(curves, (RAW, SCALED), strict=True):
            shown = values if key != "median_slope" else np.where(values > 0, values, np.nan)
            panel.plot(dims, shown, marker=marker, linestyle=line, color=shade, clip_on=False, zorder=3)
            if key == "median_slope":
                gone = dims[values == 0]
                hollow = {"markerfacecolor": "white", "markeredgecolor": shade, "markeredgewidth": 2, "clip_on": False}
                panel.plot(
                    gone, np.full(len(gone), 1.6 * panel.get_ylim()[0]), marker, linestyle="none", zorder=4, **hollow
                )
        spare = (dims[-1] / dims[0]) ** 0.05
        note = " (hollow: exactly 0)" if key == "median_slope" and not all(map(np.all, curves)) else ""
        panel.set(xlim=(dims[0] / spare, dims[-1] * spare), xlabel="d_k" + note)
        panel.set_xticks(ticks_apart(dims, 3.0), minor=False)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
        panel.set_title(name, fontsize=FONT, fontweight="normal", loc="left", pad=10)
    key_line(figure, 0.8, top - 0.72, (("as they are", RAW), ("divided by √d_k", SCALED)))
    write_title(figure, title)
    return figure


def _checked_table(table, name, count, third):
    checked = {}
    for key in ("variance", "entropy_share", third):
        if key not in table:
            raise ValueError(
                f"expected {key!r} among the numbers of {name}, got {', '.join(map(str, table)) or 'none'}"
            )
        values = as_array(table[key], f"{key} of {name}")
        if values.shape != (count,):
            raise ValueError(f"expected {key} of {name} at each of {count} values of d_k, got the shape {values.shape}")
        if values.min() < 0 or (key == "variance" and values.min() == 0):
            raise ValueError(f"expected {key} of {name} above 0, but the smallest is {values.min():g}")
        if key in ("entropy_share", "stuck") and values.max() > 1.001:
            raise ValueError(f"{key} of {name} is a share between 0 and 1, but the largest is {values.max():g}")
        checked[key] = values
    return checked


def _log_panel(panel, curves):
    """A scale of powers of ten; a free one below where numbers are exactly 0, for their marks."""
    every = np.concatenate(curves)
    seen = every[every > 0]
    low, high = (seen.min(), seen.max()) if len(seen) else (0.1, 1.0)
    room = 35 if (every == 0).any() else 3.5
    panel.set_yscale("log")
    panel.set_ylim(low / room, high * 3.5)  # wide enough for at least one power of ten
    panel.yaxis.set_minor_locator(NullLocator())


def dk_picture(scores_raw, scores_scaled, weights_raw, weights_scaled, d_k):
    """The weights of one query on n keys, most weight first, from the scores as they are and from the divided ones.

    All four (n,). The axes stay where they are whatever d_k is, so a slider can move it.
    """
    d_k = operator.index(d_k)
    if d_k < 1:
        raise ValueError(f"expected d_k of at least 1, got {d_k}")
    scores = [as_array(scores_raw, "the raw scores"), as_array(scores_scaled, "the scaled scores")]
    weights = [checked_weights(weights_raw, "raw weights"), checked_weights(weights_scaled, "scaled weights")]
    shapes = [one.shape for one in (*scores, *weights)]
    if len(set(shapes)) > 1 or len(shapes[0]) != 1:
        raise ValueError(f"expected four rows of the same number of keys, got the shapes {', '.join(map(str, shapes))}")
    if not np.allclose(scores[0], scores[1] * d_k**0.5, rtol=0.01, atol=0.01 * abs(scores[0]).max()):
        raise ValueError(f"expected raw scores that are √{d_k} times the scaled ones: are the two exchanged?")
    for name, row, mine in zip(("raw", "scaled"), scores, weights, strict=True):
        if not np.allclose(softmax(row), mine, atol=0.01):
            raise ValueError(f"expected {name} weights that are the softmax of the {name} scores")
    largest = [percent(one.max()) for one in weights]
    title = f"d_k = {d_k}: the best key takes {largest[0]} without the root and {largest[1]} with it"
    top = top_of(title, 11.0) + 0.75
    figure, axes = canvas(11.0, 3.9 + top, columns=2, margins=(0.9, 0.25, 0.75, top), gaps=(0.55, 0))
    count = len(scores[0])
    names = ("scores as they are", "scores divided by √d_k")
    for panel, name, row, mine, look in zip(axes, names, scores, weights, (RAW, SCALED), strict=True):
        hatch = {"hatch": "///", "edgecolor": "white"} if look is RAW and count <= 24 else {}
        panel.bar(np.arange(1, count + 1), np.sort(mine)[::-1], 0.85, color=look[0], linewidth=0, **hatch)
        panel.set(xlim=(0.4, count + 0.6), ylim=(0, 1), xlabel="keys, most weight first")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
        entropy = f"entropy {entropy_of(mine):.2f} of {np.log(count):.2f} nats"
        panel.set_title(f"{name}\n{entropy}", fontsize=FONT, fontweight="normal", loc="left", pad=8)
        words = f"scores from {signed(row.min(), 1)}\nto {signed(row.max(), 1)}"
        # One key takes all the weight, and its bar the whole panel.
        look = {
            "color": GREY,
            "transform": panel.transAxes,
            "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2},
        }
        write(panel, 0.97, 0.95, words, LABEL, ha="right", va="top", **look)
    axes[0].set_ylabel("weight")
    write_title(figure, title)
    return figure


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def entropy_of(weights):
    """In nats; a weight of 0 adds nothing."""
    seen = weights[weights > 0]
    return max(0.0, float(-(seen * np.log(seen)).sum()))


# Positions


def checked_positions(positions, limit):
    positions = as_array(positions, "the positions")
    if positions.ndim != 2 or not positions.size:
        raise ValueError(f"expected positions of the shape (positions, components), got {positions.shape}")
    most = abs(positions).max()
    if most > limit * 1.001:
        raise ValueError(
            f"expected numbers between {signed(-limit, 1)} and {limit:g}, but one is {most:.3g} in size: "
            f"pass limit={np.ceil(most * 10) / 10:g}"
        )
    return positions


def position_pattern(positions, title, limit=1.0):
    """Position vectors (positions, components) as colours, one row for each position, from -limit to limit, white at 0."""
    positions = checked_positions(positions, limit)
    top = top_of(title, 9.5) + 0.1
    figure, axes = canvas(9.5, 5.1 + top, margins=(0.95, 1.35, 0.75, top))
    image = axes.imshow(positions, cmap=POSITIONS_MAP, vmin=-limit, vmax=limit, aspect="auto")
    axes.set(xlabel="component", ylabel="position")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=9, min_n_ticks=1))
    axes.grid(False)
    width, height = figure.get_size_inches()
    place = ((width - 1.15) / width, 0.75 / height, 0.2 / width, (height - 0.75 - top) / height)
    bar = figure.colorbar(image, cax=figure.add_axes(place), ticks=[-limit, 0, limit])
    bar.ax.set_yticklabels([signed(-limit, 0 if limit == int(limit) else 1), "0", f"{limit:g}"])
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    write_title(figure, title)
    return figure


def position_waves(positions, components, title="each pair of components has a period of its own"):
    """Chosen components of position vectors (positions, components) over the position, each in a strip of its own."""
    positions = checked_positions(positions, 1.0)
    components = [operator.index(component) for component in components]
    if not 1 <= len(components) <= 8:
        raise ValueError(f"expected one to eight components, got {len(components)}")
    strangers = [component for component in components if not 0 <= component < positions.shape[1]]
    if strangers:
        raise ValueError(
            f"expected components from 0 to {positions.shape[1] - 1}, got {', '.join(map(str, strangers))}"
        )
    right = 0.35 + max(inches(f"component {component}", LABEL) for component in components)
    top, count = top_of(title, 10.5) + 0.1, len(components)
    strip = 1.0 if count <= 5 else 0.7
    height = 0.75 + strip * count + 0.18 * (count - 1) + top
    margins = (0.7, right, 0.75, top)
    figure, axes = canvas(10.5, height, rows=count, margins=margins, gaps=(0, 0.18), sharex=True, squeeze=False)
    last = len(positions) - 1
    for panel, component, (shade, marker, _) in zip(axes[:, 0], components, LOOKS, strict=False):
        dots = marker if last <= 64 else "None"
        panel.plot(positions[:, component], color=shade, marker=dots, markersize=5, linewidth=1.8, clip_on=False)
        panel.set(ylim=(-1.15, 1.15), yticks=(-1, 0, 1), xlim=(-0.01 * last - 0.1, last + 0.1))
        panel.set_yticklabels([signed(-1, 0), "0", "1"])
        panel.grid(True, axis="both")
        spot = {"transform": panel.transAxes}
        write(panel, 1 + 0.15 / (10.5 - 0.7 - right), 0.5, f"component {component}", LABEL, ha="left", **spot)
    axes[-1, 0].set_xlabel("position")
    axes[-1, 0].xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12, min_n_ticks=1))
    write_title(figure, title)
    return figure


def offset_products(products, title, rows=None):
    """The dot products of position vectors, products (n, n) with P Pᵀ in it, over the offset from the row's own position.

    rows: up to six positions whose rows are drawn; None takes four. If the product depends on the offset alone, all of them
    fall on one curve; the largest gap between two rows at the same offset is written beside them.
    """
    products = as_array(products, "the products")
    if products.ndim != 2 or products.shape[0] != products.shape[1] or len(products) < 2:
        raise ValueError(f"expected products of two or more positions with each other, (n, n), got {products.shape}")
    count = len(products)
    rows = default_rows(count) if rows is None else [operator.index(row) for row in rows]
    if not 1 <= len(rows) <= 6 or len(set(rows)) < len(rows) or not all(0 <= row < count for row in rows):
        raise ValueError(f"expected one to six different rows between 0 and {count - 1}, got {rows}")
    names = [f"position {row}" for row in rows]
    gap = gap_of(products, rows)
    on_one_curve = gap <= 1e-3 * np.ptp(products)
    note = f"largest gap at the\nsame offset: {gap:.2g}"
    right = 0.75 + max(inches(line, LABEL) for line in (*names, *note.split("\n")))
    top = top_of(title, 10.5) + 0.1
    figure, axes = canvas(10.5, 4.4 + top, margins=(1.15, right, 0.75, top))
    step = max(1, count // 32) * len(rows)  # marks of all rows take turns, so none covers another
    inside = 10.5 - 1.15 - right
    for number, (row, name, look) in enumerate(zip(rows, names, LOOKS, strict=False)):
        shade, marker, _ = look
        offsets = np.arange(count) - row
        mine = offsets % step == number * step // len(rows)
        axes.plot(offsets, products[row], color="#9A9A9A" if on_one_curve else shade, linewidth=1.6)
        axes.plot(offsets[mine], products[row][mine], marker, color=shade, markersize=8, zorder=4, clip_on=False)
        y = 1 - (0.15 + 0.34 * number) / 3.65
        axes.plot([1 + 0.25 / inside], [y], marker, color=shade, transform=axes.transAxes, clip_on=False)
        write(axes, 1 + 0.42 / inside, y, name, LABEL, ha="left", transform=axes.transAxes)
    axes.set(xlim=(-max(rows) - 0.5, count - 1 - min(rows) + 0.5), xlabel="offset", ylabel="dot product")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=11, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    write(axes, 1 + 0.2 / inside, 0.02, note, LABEL, ha="left", va="bottom", color=GREY, transform=axes.transAxes)
    write_title(figure, title)
    return figure


def default_rows(count):
    return sorted({round(share * (count - 1)) for share in (0.0, 0.25, 0.5, 1.0)})


def gap_of(products, rows):
    """The largest difference between two of the rows at the same offset; 0 if there is nothing to compare."""
    by_offset = {}
    for row in rows:
        for place, product in enumerate(products[row]):
            by_offset.setdefault(place - row, []).append(product)
    return max(max(values) - min(values) for values in by_offset.values())


# Order


def checked_seeds(row):
    row = tuple(row)
    if len(row) != 2:
        raise ValueError(f"expected a row (name, accuracies of the seeds in %), got {row}")
    name, accuracies = str(row[0]), as_array(row[1], f"the accuracies of {row[0]}")
    if accuracies.ndim != 1 or not len(accuracies):
        raise ValueError(f"expected one accuracy for each seed of {name}, got the shape {accuracies.shape}")
    if accuracies.min() < 0 or accuracies.max() > 100:
        raise ValueError(f"expected accuracies of {name} between 0 and 100 %, got {signed(accuracies.min(), 1)} to "
                         f"{accuracies.max():g}")  # fmt: skip
    return name, accuracies


def order_bars(rows, chance, title):
    """(name, accuracies of the seeds in %) for each model: a dot for every seed, a bar at the median, a line at chance."""
    rows = [checked_seeds(row) for row in rows]
    if not 1 <= len(rows) <= 12:
        raise ValueError(f"expected one to twelve rows (name, accuracies), got {len(rows)}")
    if not 0 <= chance <= 100:
        raise ValueError(f"expected chance between 0 and 100 %, got {chance:g}")
    if 0 < max(accuracies.max() for _, accuracies in rows) <= 1 < chance:
        raise ValueError("expected accuracies in %, got none above 1: multiply them by 100")
    numbers = [seeds_text(accuracies) for _, accuracies in rows]
    left = max(0.8, 0.3 + max(inches(name, LABEL) for name, _ in rows))  # half of "chance" has to fit
    right = 0.4 + max(inches(text, LABEL) for text in numbers)
    width = max(9.5, left + right + 4.0)
    top = top_of(title, width) + 0.4
    figure, axes = canvas(
        width, top + 0.85 + (0.62 if len(rows) <= 9 else 0.55) * len(rows), margins=(left, right, 0.75, top)
    )
    axes.axvline(chance, color="black", linewidth=2, linestyle=(0, (4, 2)), zorder=1)
    write(axes, chance, 1.02, f"chance {chance:g} %", LABEL, va="bottom", transform=axes.get_xaxis_transform())
    for place, ((_, accuracies), text) in enumerate(zip(rows, numbers, strict=True)):
        shade, marker, _ = LOOKS[place % len(LOOKS)]
        heights = place + np.linspace(-0.3, 0.3, len(accuracies)) if len(accuracies) > 1 else [place]
        middle = np.median(accuracies)
        axes.plot([middle] * 2, [place - 0.42, place + 0.42], color=shade, linewidth=4, alpha=0.45, clip_on=False)
        axes.plot(accuracies, heights, marker, color=shade, markersize=7, clip_on=False, zorder=3)
        spot = {"transform": axes.get_yaxis_transform()}
        write(axes, 1 + 0.28 / (width - left - right), place, text, LABEL, ha="left", **spot)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set(
        xlim=(0, 100), ylim=(len(rows) - 0.5, -0.5), xlabel="right in % (a mark for each seed, a bar at the median)"
    )
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    write_title(figure, title)
    return figure


def seeds_text(accuracies):
    low, middle, high = accuracies.min(), np.median(accuracies), accuracies.max()
    return f"{middle:.1f}" if low == high else f"{middle:.1f}  ({low:.1f} to {high:.1f})"


REFUSES = -14.0  # where "refuses" stands on the scale of per cents


def extrapolation(lengths, curves, trained_to, title, chance=None):
    """{name: (lengths, seeds) in %} as the median over the length, in a band from the lowest seed to the highest.

    NaN at a length, for all seeds, is a model that refuses: it is marked on a line of its own below 0. A line stands at
    `trained_to`, the longest length in training, and one at `chance` if it is given.
    """
    lengths = as_array(lengths, "the lengths")
    if lengths.ndim != 1 or len(lengths) < 2 or lengths[0] <= 0 or (np.diff(lengths) <= 0).any():
        raise ValueError(f"expected two or more rising lengths above 0, got {lengths.tolist()}")
    if not lengths[0] <= trained_to <= lengths[-1]:
        raise ValueError(
            f"expected trained_to among the lengths {lengths[0]:g} to {lengths[-1]:g}, or the line would not be in sight, "
            f"got {trained_to:g}"
        )
    checked = _checked_bands(curves, len(lengths))
    refused = {name: np.isnan(values[:, 0]) for name, values in checked.items()}
    some = any(gone.any() for gone in refused.values())
    right = 0.55 + max(inches(name, LABEL) for name in checked)
    width = max(9.5, 1.15 + 5.0 + right)
    top = top_of(title, width) + 0.4
    figure, axes = canvas(width, 4.9 + top, margins=(1.15, right, 0.75, top))
    axes.set_xscale("log")
    spare = (lengths[-1] / lengths[0]) ** 0.03
    axes.set(
        xlim=(lengths[0] / spare, lengths[-1] * spare),
        ylim=(REFUSES - 3 - 5 * sum(gone.any() for gone in refused.values()) if some else 0, 104),
    )
    ends, rank = [], 0
    for (name, values), (shade, marker, line) in zip(checked.items(), LOOKS, strict=False):
        gone = refused[name]
        low, middle, high = values.min(1), np.median(values, 1), values.max(1)
        axes.fill_between(lengths, low, high, where=~gone, color=shade, alpha=0.2, linewidth=0)
        axes.plot(lengths, middle, marker=marker, linestyle=line, color=shade, clip_on=False, zorder=3)
        height = REFUSES - 5 * rank
        if gone.any():
            hollow = {"markerfacecolor": "white", "markeredgecolor": shade, "markeredgewidth": 2, "clip_on": False}
            axes.plot(lengths[gone], np.full(gone.sum(), height), marker, linestyle="none", zorder=4, **hollow)
            rank += 1
        ends.append((lengths[-1], height if gone[-1] else middle[-1]))
    ticks = [*range(0, 101, 20)]
    axes.set_yticks([REFUSES, *ticks] if some else ticks, ["refuses", *map(str, ticks)] if some else None)
    if some:
        axes.axhline(0, color=GREY, linewidth=1.2, zorder=1)
    axes.axvline(trained_to, color="black", linewidth=2, linestyle=(0, (4, 2)), zorder=1)
    above = {"transform": axes.get_xaxis_transform(), "va": "bottom"}
    write(axes, trained_to, 1.02, f"trained up to {trained_to:g}", LABEL, **above)
    if chance is not None:
        axes.axhline(chance, color=GREY, linewidth=1.5, linestyle=(0, (2, 2)), zorder=1)
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
        write(axes, lengths[0], chance - 6, f"chance {chance:g} %", SMALL, ha="left", va="top", color=GREY, bbox=behind)
    axes.set(xlabel="length in tokens", ylabel="right in %")
    axes.set_xticks(ticks_apart(lengths, 5.0), minor=False)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    name_ends(axes, ends, list(checked))
    write_title(figure, title)
    return figure


def _checked_bands(curves, count):
    if not curves or len(curves) > len(LOOKS):
        raise ValueError(f"expected one to {len(LOOKS)} curves {{name: (lengths, seeds)}}, got {len(curves)}")
    checked = {}
    for name, values in curves.items():
        values = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, dtype=float)
        if values.ndim != 2 or len(values) != count or not values.shape[1]:
            raise ValueError(f"expected {name} with the shape ({count} lengths, seeds), got {values.shape}")
        missing = np.isnan(values)
        if (missing.any(1) != missing.all(1)).any():
            raise ValueError(f"expected NaN for all seeds of {name} or for none at a length: does every seed refuse?")
        shown = as_array(values[~missing], f"the numbers of {name}")
        if len(shown) and (shown.min() < 0 or shown.max() > 100):
            raise ValueError(f"expected {name} between 0 and 100 %, got {signed(shown.min(), 1)} to {shown.max():g}")
        checked[str(name)] = values
    return checked


# Masks

MASK_CELLS = 12


def mask_pictures(masks, titles, title="row i may look at the columns with a tick"):
    """Up to five masks (n, m), True = may look, side by side: a tick on blue is a look, an empty grey cell is none."""
    masks = [_checked_mask(mask, number) for number, mask in enumerate(masks)]
    if not 1 <= len(masks) <= 5:
        raise ValueError(f"expected one to five masks, got {len(masks)}")
    titles = checked_labels(titles, len(masks), "titles of masks")
    left, gap = 0.95, 0.45
    room = WIDEST - left - 0.25 - gap * (len(masks) - 1)
    cell = min(0.46, 3.6 / max(len(mask) for mask in masks), room / sum(mask.shape[1] for mask in masks))
    panels = [
        max(mask.shape[1] * cell, inches(name, FONT, "bold") + 0.05) for mask, name in zip(masks, titles, strict=True)
    ]
    width = left + sum(panels) + gap * (len(masks) - 1) + 0.25
    if width > 12.5:
        raise ValueError("the titles of the masks are too long to stand side by side: expected one or two words each")
    width = max(width, 6.0)
    tall = max(len(mask) for mask in masks) * cell
    figure, axes = sheet(width, 0.65 + tall + 0.5 + top_of(title, width))
    ceiling = 0.65 + tall
    write(axes, 0.62, ceiling - tall / 2, "looks", LABEL, rotation=90, color=GREY)
    for mask, name, panel in zip(masks, titles, panels, strict=True):
        start = left + (panel - mask.shape[1] * cell) / 2
        write(axes, left + panel / 2, ceiling + 0.22, name, FONT, fontweight="bold")
        _draw_mask(axes, mask, start, ceiling, cell)
        write(axes, left + panel / 2, ceiling - len(mask) * cell - 0.3, "is looked at", LABEL, color=GREY)
        left += panel + gap
    write_title(figure, title)
    return figure


def _draw_mask(axes, mask, left, ceiling, cell):
    size = 72 * cell * 0.55
    for (row, column), may in np.ndenumerate(mask):
        corner = (left + column * cell, ceiling - (row + 1) * cell)
        face = COLOURS["weights"] if may else "#EDEDED"
        axes.add_patch(Rectangle(corner, cell, cell, facecolor=face, edgecolor="white", linewidth=1.5))
        if may:
            x, y = corner[0] + cell / 2, corner[1] + cell / 2
            # A drawn tick, not a letter: small cells would need letters too small to be read.
            axes.plot([x - cell * 0.2, x - cell * 0.05, x + cell * 0.22], [y, y - cell * 0.16, y + cell * 0.2],
                      color="white", linewidth=max(1.4, size / 7), solid_capstyle="round")  # fmt: skip


def _checked_mask(mask, number):
    values = as_array(mask, f"mask {number}")
    if values.ndim != 2 or not values.size:
        raise ValueError(f"expected a mask (rows that look, columns that are looked at), got the shape {values.shape}")
    if max(values.shape) > MASK_CELLS:
        raise ValueError(f"expected a mask of at most {MASK_CELLS} by {MASK_CELLS} cells, got {values.shape}")
    if not np.isin(values, (0, 1)).all():
        raise ValueError("expected a mask of True and False, got other numbers: are these scores or weights?")
    return values.astype(bool)


# The language model


def loss_table_bars(rows, title):
    """(name, held-out loss in nats) for each model, as lying bars; the last row is the model that the others stand beside."""
    rows = [tuple(row) for row in rows]
    if not 1 <= len(rows) <= 12 or any(len(row) != 2 for row in rows):
        raise ValueError(f"expected one to twelve rows (name, loss in nats), got {rows}")
    names, losses = [str(name) for name, _ in rows], as_array([loss for _, loss in rows], "the losses")
    if losses.ndim != 1 or losses.min() < 0:
        raise ValueError(f"expected one loss of at least 0 for each row, got {losses.tolist()}")
    left = 0.3 + max(inches(name, LABEL, "bold") for name in names)
    width = max(9.5, left + 5.0)
    if width > 12.5:
        raise ValueError(f"the name {max(names, key=len)!r} is too long for a slide: shorten it")
    top = top_of(title, width) + 0.05
    figure, axes = canvas(width, top + 0.85 + 0.55 * len(rows), margins=(left, 0.85, 0.75, top))
    for place, loss in enumerate(losses):
        last = place == len(losses) - 1
        axes.barh(place, loss, 0.62, color=COLOURS["output"] if last else "#9A9A9A")
        spot, weight = (loss, place), "bold" if last else "normal"
        axes.annotate(
            f"{loss:.2f}", spot, (6, 0), textcoords="offset points", va="center", fontsize=FONT, fontweight=weight
        )
    axes.set_yticks(range(len(rows)), names)
    axes.get_yticklabels()[-1].set_fontweight("bold")
    axes.set(
        xlim=(0, losses.max() * 1.02 or 1),
        ylim=(len(rows) - 0.45, -0.55),
        xlabel="held-out loss in nats (less is better)",
    )
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    write_title(figure, title)
    return figure


def loss_by_context(losses, counts, title):
    """Loss (n,) in nats after 1 ... n tokens of context, beside the losses of counts, {name: loss}, which do not depend on it."""
    losses = as_array(losses, "the losses")
    if losses.ndim != 1 or len(losses) < 2 or losses.min() < 0:
        raise ValueError(f"expected two or more losses of at least 0, one for each length of context, got {losses}")
    checked = {str(name): float(as_array(loss, f"the loss of {name}")) for name, loss in counts.items()}
    names = ["self-attention", *checked]
    if len(names) > len(LOOKS):
        raise ValueError(f"expected at most {len(LOOKS) - 1} counts beside the model, got {len(checked)}")
    figure, axes = lines_canvas(title, names)
    places = np.arange(1, len(losses) + 1)
    shade, marker, line = LOOKS[0]
    axes.plot(places, losses, color=shade, marker=marker, linestyle=line, markevery=max(1, len(losses) // 12), zorder=3)
    for loss, (shade, _, line) in zip(checked.values(), LOOKS[1:], strict=False):
        axes.plot(places, np.full(len(places), loss), color=shade, linestyle=line)
    axes.set(xlim=(0, len(losses) + 1), ylim=(0, 1.05 * max(losses.max(), *checked.values(), 1e-9)))
    axes.set(xlabel="tokens of context", ylabel="held-out loss in nats")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    name_ends(axes, [(len(losses), value) for value in (losses[-1], *checked.values())], names)
    write_title(figure, title)
    return figure


# The same word twice


def two_contexts(first, second, word, similarity_before, similarity_after, title=None):
    """Two sentences (lists of tokens) with one word in common, and the cosine of its two vectors before and after attention."""
    sentences = [[str(token) for token in sentence] for sentence in (first, second)]
    for name, sentence in zip(("first", "second"), sentences, strict=True):
        if sentence.count(word) != 1:
            raise ValueError(f"expected {word!r} once in the {name} sentence, got it {sentence.count(word)} times")
    before, after = (
        checked_cosine(cosine, when) for cosine, when in ((similarity_before, "before"), (similarity_after, "after"))
    )
    sentences = [[short(token) for token in sentence] for sentence in sentences]
    widths = [[max(0.5, inches(token, FONT, "bold") + 0.24) for token in sentence] for sentence in sentences]
    space = 0.1
    longest = max(sum(row) + space * (len(row) - 1) for row in widths)
    if longest > 12.0:
        raise ValueError(
            f"expected sentences that fit a line, but one is {longest:.0f} inches wide: leave some words out"
        )
    words = [f"before self-attention: cosine {signed(before)}", f"after self-attention: cosine {signed(after)}"]
    title = (
        f"“{short(word)}”: cosine {signed(before)} before self-attention, {signed(after)} after"
        if title is None
        else title
    )
    width = max(9.0, longest + 0.5)
    figure, axes = sheet(width, 3.75 + top_of(title, width))
    at = []
    for sentence, row, y in zip(sentences, widths, (3.3, 0.5), strict=True):
        x = (width - sum(row) - space * (len(row) - 1)) / 2
        for token, wide in zip(sentence, row, strict=True):
            mine = token == short(word)
            face, edge = (PALE_RED, RED) if mine else ("white", PALE)
            draw_box(axes, x + wide / 2, y, wide, 0.5, token, face, edge, fontweight="bold" if mine else "normal")
            if mine:
                at.append(x + wide / 2)
            x += wide + space
    box = max(inches(line, FONT, "bold") for line in words) + 0.5
    middle = min(max(sum(at) / 2, box / 2 + 0.2), width - box / 2 - 0.2)
    draw_arrow(axes, (middle, 2.5), (at[0], 3.03), RED)
    draw_arrow(axes, (middle, 1.3), (at[1], 0.77), RED)
    draw_box(axes, middle, 1.9, box, 1.2, "", "white", RED)
    write(axes, middle, 2.18, words[0], FONT)
    write(axes, middle, 1.62, words[1], FONT, fontweight="bold")
    write_title(figure, title)
    return figure


def checked_cosine(cosine, when):
    cosine = float(as_array(cosine, f"the cosine {when}"))
    if not -1.001 <= cosine <= 1.001:
        raise ValueError(
            f"a cosine lies between \N{MINUS SIGN}1 and 1, but the one {when} self-attention is {cosine:g}"
        )
    return cosine

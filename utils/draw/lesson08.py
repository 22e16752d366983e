"""The figures of lesson 08: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from utils.draw.figures import checked_labels, signed, write_title
from utils.draw.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_GREEN,
    PALE_ORANGE,
    PALE_RED,
    draw_arrow,
    draw_box,
    lines_canvas,
    name_ends,
    sheet,
    ticks_apart,
    top_of,
    write,
)
from utils.draw.style import BLUE, FONT, GREEN, GREY, ORANGE, RED, SMALL, WEIGHTS_MAP, as_array, canvas, is_dark
from utils.draw.text import inches, shortened

__all__ = [
    "accuracy_by_distance",
    "attention_patterns",
    "cost_at_length",
    "cost_curves",
    "cost_words",
    "digit_looks",
    "grouped_heads",
    "modification_effects",
    "scaling_choice",
    "scaling_curve",
    "scaling_panels",
    "scaling_words",
    "shared_batch",
]

WIDEST, TALLEST = 12.4, 9.0  # inches: what fits a slide
DASHES = (0, (4, 2))
DARK_RED = "#A84A00"
# Blue above zero, red below it.
SIGNED_MAP = LinearSegmentedColormap.from_list("signed", [DARK_RED, "#E98A4E", "#FFFFFF", "#7FB8DC", BLUE], N=257)
BEHIND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}


# Numbers


def rounded(number):
    """Three digits that count, without powers of ten: 0.0123, 1.23, 123, "12,300"."""
    near = float(f"{number:.3g}")
    return f"{near:,.0f}" if abs(near) >= 1000 else f"{near:g}"


def seconds_text(seconds):
    for size, unit in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{rounded(seconds / size)} {unit}"
    return f"{rounded(seconds * 1e6)} µs"


def bytes_text(size):
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1024**power:
            return f"{rounded(size / 1024**power)} {unit}"
    return f"{rounded(size)} B"


def grouped(number):
    """12345 as "12,345"."""
    return f"{number:,.0f}"


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tick_text(number):
    """0.01, 20, "5k", "2M", and from 10⁹ on powers of ten."""
    if number >= 1e9:
        power = int(np.floor(np.log10(number) + 1e-9))
        part = number / 10.0**power
        return ("" if round(part) == 1 else f"{part:.0f}·") + f"10{str(power).translate(RAISED)}"
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def log_ticks(low, high, most=6):
    """At most `most` round numbers between two others: 1, 2, 5, 10, ... where they have room, else powers of ten."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for parts, step in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 4), ((1,), 6)):
        ticks = [part * 10.0**power for power in powers[::step] for part in parts]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks


def _log_axis(axis, ticks):
    axis.set_ticks(ticks, minor=False)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda number, _: tick_text(float(f"{number:.6g}"))))


def folded(text, room, size=FONT, weight="normal", most=2):
    """The text in lines that have room, at most so many; what has no room is cut off and marked."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and inches(longer, size, weight) > room and len(lines) < most:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(_cut_to(line, room, size, weight) for line in lines)


def _cut_to(text, room, size, weight):
    letters = len(text)
    while inches(shortened(text, letters), size, weight) > room and letters > 1:
        letters -= 1
    return shortened(text, letters)


# Cost against length

MOST_KINDS = 6
QUANTITIES = {  # name: keys of the lengths and of the values, one unit of the axis, name of the axis, how to say a value
    "time": ("lengths", "seconds", 1e-3, "time in ms", seconds_text),
    "memory": ("memory_lengths", "bytes", 1024**2, "peak memory in MiB", bytes_text),
}


def cost_curves(curves, title, exponents=None, quantities=("time", "memory"), note="exponent over the longer half"):
    """Time and peak memory over the length, a panel for each, both axes logarithmic; a straight line is a power of the length.

    curves: {kind: {"lengths", "seconds", "memory_lengths", "bytes"}}, rows of numbers. exponents: {kind: (of the time, of
    the memory)}, each a number, (number, error) or None; they stand behind the names. A kind keeps its look while it keeps
    its place in `curves`.
    """
    quantities = [quantities] if isinstance(quantities, str) else list(quantities)
    checked = _checked_costs(curves, quantities)
    labels = {one: [_with_exponent(kind, (exponents or {}).get(kind), one) for kind in checked] for one in quantities}
    margin = 0.5 + max(inches(line, LABEL) for many in labels.values() for label in many for line in label.split("\n"))
    count = len(quantities)
    width = WIDEST if count == 2 else min(WIDEST, 0.95 + 5.4 + margin)
    top = top_of(title, width) + 0.2
    bottom = 1.05 if exponents else 0.75
    height = top + 4.4 + bottom
    margins, gaps = (0.95, margin, bottom, top), (margin + 0.9, 0)
    figure, axes = canvas(width, height, columns=count, margins=margins, gaps=gaps, squeeze=False)
    for panel, one in zip(axes[0], quantities, strict=True):
        _cost_panel(panel, checked, one, labels[one])
    if exponents:
        words = f"behind the names: {note}"
        figure.text(0.12 / width, 0.18 / height, words, fontsize=SMALL, color=GREY, ha="left", va="center")
    write_title(figure, title)
    return figure


def _cost_panel(panel, checked, quantity, labels):
    _, _, unit, ylabel, _ = QUANTITIES[quantity]
    panel.set(xscale="log", yscale="log")
    every = np.concatenate([kind[quantity][1] for kind in checked.values()]) / unit
    lengths = np.unique(np.concatenate([kind[quantity][0] for kind in checked.values()]))
    spare = max((lengths[-1] / lengths[0]) ** 0.04, 1.02)
    low, high = every.min() / 1.6, every.max() * 1.6
    panel.set(
        xlim=(lengths[0] / spare, lengths[-1] * spare), ylim=(low, high), xlabel="length in tokens", ylabel=ylabel
    )
    wide = panel.figure.get_size_inches()[0] * panel.get_position().width
    _log_axis(panel.xaxis, ticks_apart(lengths, wide))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:.0f}"))
    _log_axis(panel.yaxis, log_ticks(low, high, 7))
    ends = []
    for kind, (shade, marker, line) in zip(checked.values(), LOOKS, strict=False):
        x, y = kind[quantity]
        panel.plot(x, y / unit, marker=marker, linestyle=line, color=shade, zorder=3)
        ends.append((x[-1], y[-1] / unit))
    name_ends(panel, ends, labels)


def _with_exponent(kind, given, quantity):
    if given is None:
        return kind
    given = tuple(given)
    if len(given) != len(QUANTITIES):
        raise ValueError(f"expected exponents of {kind} as (of the time, of the memory), got {len(given)} parts")
    one = given[list(QUANTITIES).index(quantity)]
    if one is None:
        return kind
    parts = np.atleast_1d(as_array(one, f"the exponent of {kind}"))
    if parts.shape not in ((1,), (2,)):
        raise ValueError(f"expected an exponent of {kind} or (exponent, error), got {parts.tolist()}")
    error = f" ± {parts[1]:.2f}" if len(parts) == 2 else ""
    return f"{kind}\n{signed(parts[0])}{error}"


def _checked_costs(curves, quantities):
    """{kind: {quantity: (lengths, values)}}"""
    if not 1 <= len(curves) <= MOST_KINDS:
        raise ValueError(f"expected one to {MOST_KINDS} kinds {{kind: curves}}, got {len(curves)}")
    unknown = [one for one in quantities if one not in QUANTITIES]
    if unknown or not quantities or len(set(quantities)) != len(quantities):
        raise ValueError(f"expected quantities among {list(QUANTITIES)}, each once, got {quantities}")
    return {
        str(kind): {one: _checked_cost(kind, given, *QUANTITIES[one][:2]) for one in quantities}
        for kind, given in curves.items()
    }


def _checked_cost(kind, given, x_key, y_key):
    missing = [key for key in (x_key, y_key) if key not in given]
    if missing:
        raise ValueError(f"expected {x_key!r} and {y_key!r} of {kind}, but {missing} is missing")
    x, y = as_array(given[x_key], f"{x_key} of {kind}"), as_array(given[y_key], f"{y_key} of {kind}")
    if x.ndim != 1 or x.shape != y.shape or len(x) < 2 or x[0] <= 0 or (np.diff(x) <= 0).any():
        raise ValueError(
            f"expected two or more rising {x_key} of {kind} with one of the {y_key} each, got {x.tolist()} "
            f"with the shape {y.shape}"
        )
    if y.min() <= 0:
        raise ValueError(f"expected {y_key} of {kind} above 0, but the smallest is {y.min():g}")
    return x, y


# What each kind costs at one length


def cost_at(x, y, length):
    """(cost at this length, whether it was inside what was measured): straight lines between the points in logarithms,
    beyond the last a straight line through the points of the longer half."""
    x, y, place = np.log(x), np.log(y), np.log(length)
    if place <= x[-1] + 1e-9:
        if place >= x[0] - 1e-9:
            return float(np.exp(np.interp(place, x, y))), True
        slope = (y[1] - y[0]) / (x[1] - x[0])
        return float(np.exp(y[0] + slope * (place - x[0]))), False
    long = x >= min(x[-1] - np.log(2) - 1e-9, x[-2])
    slope = np.polyfit(x[long], y[long], 1)[0]
    return float(np.exp(y[-1] + slope * (place - x[-1]))), False


def cost_at_length(curves, length, title=None, span=None):
    """A dot for each kind: its time and its peak memory at this length, on logarithmic axes that stand still.

    curves: as in `cost_curves`. A hollow dot lies outside the measured lengths: the line was drawn on. span: (shortest,
    longest) length that will ever be asked for, which sets the axes; the measured lengths if nothing is given.
    """
    checked = _checked_costs(curves, list(QUANTITIES))
    length = _checked_length(length)
    reach = [limit for kind in checked.values() for x, _ in kind.values() for limit in (x[0], x[-1])]
    low, high = (min(reach), max(reach)) if span is None else span
    if not 0 < low < high or not low * 0.999 <= length <= high * 1.001:
        raise ValueError(f"expected a length within the span of 0 < {low:g} to {high:g}, got {length}")
    left = 0.3 + max(inches(kind, FONT) for kind in checked)
    title = f"what a text of {grouped(length)} tokens costs" if title is None else title
    top = top_of(title, WIDEST) + 0.25
    height = top + 0.56 * len(checked) + 1.3
    figure, axes = canvas(WIDEST, height, columns=2, margins=(left, 0.35, 1.1, top), gaps=(0.5, 0))
    some = False
    for panel, (quantity, (*_, unit, ylabel, said)) in zip(axes, QUANTITIES.items(), strict=True):
        ends = [cost_at(*kind[quantity], one)[0] / unit for kind in checked.values() for one in (low, high)]
        least, most = min(ends), max(ends)
        room = (most / least) ** 0.36  # for the number behind the last dot
        limits = (least / (most / least) ** 0.05, most * room)
        panel.set(xscale="log", xlim=limits, ylim=(len(checked) - 0.4, -0.6), xlabel=ylabel)
        for place, (kind, (shade, marker, _)) in enumerate(zip(checked.values(), LOOKS, strict=False)):
            cost, measured = cost_at(*kind[quantity], length)
            some |= not measured
            panel.plot([limits[0], cost / unit], [place] * 2, color=shade, linewidth=5, alpha=0.3)
            face = shade if measured else "white"
            panel.plot([cost / unit], [place], marker, color=shade, markersize=12, markerfacecolor=face,
                       markeredgewidth=2.4, zorder=3)  # fmt: skip
            words = said(cost)
            wide = (limits[1] / limits[0]) ** (0.16 / (figure.get_size_inches()[0] * panel.get_position().width))
            write(panel, cost / unit * wide, place, words, FONT, ha="left", fontweight="bold")
        _log_axis(panel.xaxis, log_ticks(*limits))
        panel.set_yticks([])  # ticks are slow to make, and a slider waits for the picture
        panel.grid(True, axis="x")
        panel.grid(False, axis="y")
    for place, kind in enumerate(checked):
        spot = {"transform": axes[0].get_yaxis_transform()}
        write(axes[0], -0.1 / (WIDEST * axes[0].get_position().width), place, kind, FONT, ha="right", **spot)
    if some:
        words = "hollow: outside the measured lengths, the straight line drawn on"
        figure.text(left / WIDEST, 0.2 / height, words, fontsize=SMALL, color=GREY, ha="left", va="center")
    write_title(figure, title)
    return figure


def cost_words(curves, length):
    """The same in one sentence: the alternative text of the widget."""
    checked = _checked_costs(curves, list(QUANTITIES))
    length = _checked_length(length)
    parts = []
    for kind, costs in checked.items():
        said = [QUANTITIES[one][-1](cost_at(*costs[one], length)[0]) for one in QUANTITIES]
        parts.append(f"{kind} {said[0]} and {said[1]}")
    return f"Time and peak memory at {grouped(length)} tokens: {'; '.join(parts)}."


def _checked_length(length):
    length = float(length)
    if not 1 <= length < np.inf:
        raise ValueError(f"expected a length of at least 1, got {length:g}")
    return round(length)


# Who looks at whom

MOST_PLACES = 96
PATTERN = ListedColormap(["#EDEDED", BLUE])


def attention_patterns(masks, title, mixtures=None, row_axis="query", column_axis="key"):
    """Small masks beside each other, rows the queries and columns the keys, with the number of pairs below each.

    masks: {name: (n, n) bool, True = may look}. mixtures: {name: (k, n) numbers}, for kinds that look at k mixtures of all
    keys: at the left what each query looks at, (n, k), and over its own axis of keys what each mixture is made of.
    """
    checked = {str(name): _checked_pattern(mask, name) for name, mask in masks.items()}
    mixed = {str(name): _checked_mixture(made, name) for name, made in (mixtures or {}).items()}
    sizes = {mask.shape[1] for mask in [*checked.values(), *mixed.values()]}
    count = len(checked) + len(mixed)
    if not 1 <= count <= 6 or set(checked) & set(mixed) or len(sizes) != 1:
        raise ValueError(
            f"expected one to six patterns of one size under different names, got {count} of the sizes {sorted(sizes)}"
        )
    (places,) = sizes
    wide = min(3.0, (WIDEST - 0.75 - 0.3 * count) / count)
    names = {name: folded(name, wide, FONT, "bold") for name in [*checked, *mixed]}
    over = 0.15 + 0.26 * max(name.count("\n") + 1 for name in names.values())
    width = max(0.75 + count * (wide + 0.3), 7.0)
    foot = 1.05
    high = foot + wide + over
    figure, axes = sheet(width, high + top_of(title, width) + 0.1)
    left = 0.6
    for name, label in names.items():
        write(
            axes, left, foot + wide + 0.13, label, FONT, ha="left", va="baseline", fontweight="bold", linespacing=1.05
        )
        if name in checked:
            pairs = int(checked[name].sum())
            _tiles(axes, checked[name], PATTERN, left, foot, wide, wide)
            write(axes, left + wide / 2, foot - 0.14, column_axis, SMALL, color=GREY)
        else:
            pairs = places * len(mixed[name])
            _mixture_tiles(axes, mixed[name], left, foot, wide)
        write(axes, left + wide / 2, foot - 0.42, f"{grouped(pairs)} pairs", FONT)
        write(axes, left + wide / 2, foot - 0.72, f"{100 * pairs / places**2:.0f} % of all", LABEL, color=GREY)
        left += wide + 0.3
    write(axes, 0.42, foot + wide / 2, row_axis, SMALL, color=GREY, rotation=90)
    write_title(figure, title)
    return figure


def _tiles(axes, values, colours, left, bottom, wide, high, limits=(0, 1)):
    """A matrix as coloured tiles in a rectangle, the first row on top, in a thin frame."""
    look = {"cmap": colours, "vmin": limits[0], "vmax": limits[1], "interpolation": "nearest", "aspect": "auto"}
    box = (axes.get_xlim(), axes.get_ylim())
    axes.imshow(values, extent=(left, left + wide, bottom, bottom + high), zorder=1, **look)
    axes.set(xlim=box[0], ylim=box[1])
    axes.add_patch(Rectangle((left, bottom), wide, high, fill=False, edgecolor=GREY, linewidth=1, zorder=2))


def _mixture_tiles(axes, made, left, bottom, wide):
    """Below, queries (n) by mixtures (k), all looked at; above, mixtures (k) by keys (n), how much of each is in them."""
    kinds, places = made.shape
    gap = 0.12
    cell = (wide - gap) / (places + kinds)
    tall = cell * places
    # The mixtures are as many rows above as there are columns below.
    _tiles(axes, np.ones((places, kinds)), PATTERN, left, bottom, max(cell * kinds, 0.1), tall)
    most = abs(made).max() or 1.0
    _tiles(axes, made, SIGNED_MAP, left, bottom + tall + gap, wide, cell * kinds, (-most, most))
    x = left + cell * kinds + 0.12
    room = left + wide - x
    words = folded(f"{kinds} mixtures of all keys (above) for {places} queries", room, SMALL, most=8)
    if 0.2 * (words.count("\n") + 1) < tall and "…" not in words:
        write(axes, x, bottom + tall / 2, words, SMALL, ha="left", color=GREY, linespacing=1.15)


def _checked_pattern(mask, name):
    values = as_array(mask, f"the mask of {name}")
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not 2 <= len(values) <= MOST_PLACES:
        raise ValueError(f"expected a mask (n, n) of {name} with 2 to {MOST_PLACES} places, got {values.shape}")
    if not np.isin(values, (0, 1)).all():
        raise ValueError(f"expected the mask of {name} to be True or False everywhere: give the mask, not the weights")
    return values


def _checked_mixture(made, name):
    made = as_array(made, f"the mixtures of {name}")
    if made.ndim != 2 or not 1 <= made.shape[0] <= made.shape[1] / 2 or made.shape[1] > MOST_PLACES:
        raise ValueError(
            f"expected mixtures (k, n) of {name} with k at most n / 2 and n at most {MOST_PLACES}, got {made.shape}"
        )
    return made


# Quality against distance


def accuracy_by_distance(bands, curves, title, chance=None, reach=None, xlabel="distance to the answer", overall=None):
    """The share of right answers in each band of distances, a line for each kind; the bar spans all seeds.

    bands: the greatest distance of each band, rising. curves: {kind: (bands,) or (bands, seeds)} shares from 0 to 1.
    reach: {distance: words}, a line between two bands, such as how far a window reaches. overall: {kind: shares over all
    distances}; the mean stands behind the name.
    """
    bands = as_array(bands, "the bands")
    if bands.ndim != 1 or len(bands) < 2 or bands[0] < 1 or (np.diff(bands) <= 0).any():
        raise ValueError(f"expected two or more rising bands, each its greatest distance, got {bands.tolist()}")
    checked = {str(kind): _checked_right(values, len(bands), kind) for kind, values in curves.items()}
    if not 1 <= len(checked) <= len(LOOKS):
        raise ValueError(f"expected one to {len(LOOKS)} kinds {{kind: shares}}, got {len(checked)}")
    labels = [
        f"{kind}\n{100 * as_array(overall[kind], kind).mean():.0f} % in all" if kind in (overall or {}) else kind
        for kind in checked
    ]
    figure, axes = lines_canvas(title, labels, height=5.4)
    x = np.arange(len(bands))
    axes.set(xlim=(-0.4, x[-1] + 0.25), ylim=(0, 112 if reach else 104))
    ends = []
    for place, (values, (shade, marker, line)) in enumerate(zip(checked.values(), LOOKS, strict=False)):
        aside = x + 0.035 * (place - (len(checked) - 1) / 2)  # so that no bar hides another
        axes.plot(aside, values.mean(1), marker=marker, linestyle=line, color=shade, zorder=3, clip_on=False)
        if values.shape[1] > 1:
            axes.vlines(aside, values.min(1), values.max(1), color=shade, linewidth=5, alpha=0.4, zorder=2)
        ends.append((aside[-1], values[-1].mean()))
    if chance is not None:
        level = 100 * float(chance)
        if not 0 < level < 100:
            raise ValueError(f"expected chance between 0 and 1, got {chance:g}")
        axes.axhline(level, color="black", linewidth=1.8, linestyle=DASHES, zorder=1)
        spot = {"transform": axes.get_yaxis_transform(), "bbox": BEHIND, "zorder": 2}
        write(axes, 0.01, level + 1.2, f"chance {level:.3g} %", LABEL, ha="left", va="bottom", **spot)
    for distance, words in (reach or {}).items():
        (found,) = np.nonzero(bands[:-1] == float(distance))
        if not len(found):
            raise ValueError(f"expected a reach at the end of one of the bands {bands[:-1].tolist()}, got {distance}")
        axes.axvline(found[0] + 0.5, color=GREY, linewidth=1.6, linestyle=DASHES, zorder=1)
        write(axes, found[0] + 0.5, 108, str(words), SMALL, color=GREY, bbox={**BEHIND, "alpha": 1})
    starts = [1, *(bands[:-1] + 1)]
    axes.set_xticks(x, [f"{start:.0f}–{end:.0f}" if start < end else f"{end:.0f}"
                        for start, end in zip(starts, bands, strict=True)])  # fmt: skip
    axes.set_yticks(range(0, 101, 20))
    some = any(values.shape[1] > 1 for values in checked.values())
    axes.set(xlabel=xlabel + (" (dot: mean, bar: all seeds)" if some else ""), ylabel="right answers in %")
    name_ends(axes, ends, labels)
    write_title(figure, title)
    return figure


def _checked_right(values, count, kind):
    """(bands, seeds) in per cent."""
    values = as_array(values, f"the shares of {kind}")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != count or not values.shape[1]:
        hint = "; transpose it" if values.ndim == 2 and values.shape[1] == count else ""
        raise ValueError(f"expected shares of {kind} in each of {count} bands, got the shape {values.shape}{hint}")
    if values.min() < 0 or values.max() > 1:
        hint = "; divide by 100 if these are per cents" if 1 < values.max() <= 100 else ""
        raise ValueError(f"expected shares of {kind} from 0 to 1, got {values.min():g} to {values.max():g}{hint}")
    return 100 * values


# Scaling


def scaling_curve(
    x, losses, title, law=None, held_out=None, *, xlabel="parameters", ylabel="held-out loss in nats", limits=None
):
    """Losses over size on logarithmic axes, the power law through them with its band, and what it foretold.

    x (points,), losses (points,) or (points, seeds). law: {"x", "curve", "low", "high"} rows of numbers, "exponent" (value, or
    value, low, high) and "floor" (None for a law without one; it is a dashed line). held_out: {"x", "value", "low", "high",
    "reached"}: the law's foretelling for a model it has not seen, and what that one reached (a number, or one for each seed).
    limits: ((low, high) across, (low, high) up), for pictures that must stand still.
    """
    sweep = _checked_sweep({"x": x, "loss": losses, "law": law, "held_out": held_out}, "the sweep")
    entries = _scaling_key(sweep)
    right = 0.85 + max(inches(line, LABEL) for _, words in entries for line in words.split("\n"))
    width = min(WIDEST, 0.95 + 6.0 + right)
    top = top_of(title, width) + 0.15
    figure, axes = canvas(width, top + 4.4 + 0.75, margins=(0.95, right, 0.75, top))
    _draw_sweep(axes, sweep, limits or _scaling_limits([sweep]), 6)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    spot = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "borderaxespad": 0, "labelspacing": 0.9}
    axes.legend(*zip(*entries, strict=True), fontsize=LABEL, handlelength=1.4, **spot)
    write_title(figure, title)
    return figure


def scaling_panels(panels, title, ylabel="held-out loss in nats"):
    """Two or three sweeps beside each other over one vertical axis: loss against parameters, text, computing.

    panels: {name: {"x", "loss", "xlabel"}} and, where there are, "law", "held_out" (as in `scaling_curve`) and "cloud" (x, loss),
    the runs that the law leaves out, such as those above the frontier.
    """
    if not 1 <= len(panels) <= 3:
        raise ValueError(f"expected one to three panels {{name: sweep}}, got {len(panels)}")
    sweeps = {str(name): _checked_sweep(given, name) for name, given in panels.items()}
    top = top_of(title, WIDEST) + 0.75
    margins = (0.95, 0.25, 1.3, top)
    figure, axes = canvas(WIDEST, top + 3.9 + 1.3, columns=len(sweeps), margins=margins, gaps=(0.35, 0), squeeze=False)
    _, up = _scaling_limits(list(sweeps.values()))
    for place, (panel, (name, sweep)) in enumerate(zip(axes[0], sweeps.items(), strict=True)):
        across, _ = _scaling_limits([sweep])
        _draw_sweep(panel, sweep, (across, up), 4, floor_name=True)
        panel.set_xlabel(str(sweep["xlabel"]))
        if place == 0:
            panel.set_ylabel(ylabel)
        else:
            panel.tick_params(axis="y", labelleft=False)
        wide = WIDEST * panel.get_position().width
        spot = {"transform": panel.transAxes, "ha": "left", "va": "bottom"}
        write(panel, 0, 1.1, shortened(name, int(wide / 0.14)), FONT, fontweight="bold", **spot)
        words = _exponent_text(sweep["law"]) if sweep["law"] else ""
        write(panel, 0, 1.025, words, SMALL, **spot)
    _panels_key(figure, list(sweeps.values()))
    write_title(figure, title)
    return figure


def scaling_choice(sweeps, sweep, floor, title=None):
    """`scaling_curve` of one sweep, its law with a floor or without, on axes that stand still while the law changes.

    sweeps: {name: {"x", "loss", "xlabel", "plain": {"law", "held_out"}, "floor": {"law", "held_out"}}}; "held_out" may be missing.
    """
    given = _chosen_sweep(sweeps, sweep)
    both = [
        _checked_sweep({"x": given["x"], "loss": given["loss"], **given[kind]}, sweep) for kind in ("plain", "floor")
    ]
    chosen = both[bool(floor)]
    if title is None:
        title = f"loss against {given['xlabel']}: a power law {'with' if floor else 'without'} a floor"
    return scaling_curve(
        given["x"], given["loss"], title, chosen["law"], chosen["held_out"], xlabel=given["xlabel"],
        limits=_scaling_limits(both),
    )  # fmt: skip


def scaling_words(sweeps, sweep, floor):
    """The same in words: the alternative text of the widget."""
    given = _chosen_sweep(sweeps, sweep)
    chosen = given["floor" if floor else "plain"]
    one = _checked_sweep({"x": given["x"], "loss": given["loss"], **chosen}, sweep)
    means = one["loss"].mean(1)
    parts = [f"Loss against {given['xlabel']}, {len(means)} points from {means[0]:.2f} to {means[-1]:.2f}"]
    parts.append(f"power law {'with' if floor else 'without'} a floor, {_exponent_text(one['law'])}")
    if one["law"]["floor"] is not None:
        parts.append(f"floor {one['law']['floor']:.2f}")
    if one["held_out"]:
        found = one["held_out"]
        said = f"foretold {found['value']:.3f}, between {found['low']:.3f} and {found['high']:.3f}"
        parts.append(f"{said}, reached {found['reached'].mean():.3f}")
    return "; ".join(parts) + "."


def _chosen_sweep(sweeps, sweep):
    if sweep not in sweeps:
        raise ValueError(f"expected one of the sweeps {list(sweeps)}, got {sweep!r}")
    missing = [key for key in ("x", "loss", "xlabel", "plain", "floor") if key not in sweeps[sweep]]
    if missing:
        raise ValueError(f"the sweep {sweep!r} lacks {missing}")
    return sweeps[sweep]


def _checked_sweep(given, name):
    """x sorted, loss (points, seeds), law and held_out with arrays, and what else there is."""
    x, loss = as_array(given["x"], f"x of {name}"), as_array(given["loss"], f"the losses of {name}")
    loss = loss[:, None] if loss.ndim == 1 else loss
    if x.ndim != 1 or loss.ndim != 2 or len(x) != len(loss) or not loss.size or x.min() <= 0 or loss.min() <= 0:
        hint = "; transpose it" if loss.ndim == 2 and len(loss) != len(x) == loss.shape[1] else ""
        raise ValueError(
            f"expected x above 0 and losses above 0 (points, seeds) of {name}, got the shapes {x.shape} and "
            f"{loss.shape}{hint}"
        )
    order = np.argsort(x, kind="stable")
    cloud = given.get("cloud")
    if cloud is not None:
        cloud = tuple(as_array(part, f"the cloud of {name}") for part in cloud)
        if len(cloud) != 2 or cloud[0].ndim != 1 or cloud[0].shape != cloud[1].shape or min(map(np.min, cloud)) <= 0:
            raise ValueError(f"expected the cloud of {name} as two rows (x, loss) of one length, all above 0")
    return {
        "x": x[order],
        "loss": loss[order],
        "law": _checked_law(given["law"], name) if given.get("law") else None,
        "held_out": _checked_foretold(given["held_out"], name) if given.get("held_out") else None,
        "cloud": cloud,
        "xlabel": given.get("xlabel", ""),
    }


def _checked_law(law, name):
    missing = [key for key in ("x", "curve", "low", "high", "exponent") if key not in law]
    if missing:
        raise ValueError(f"the law of {name} lacks {missing}")
    parts = {key: as_array(law[key], f"{key} of the law of {name}") for key in ("x", "curve", "low", "high")}
    shapes = {part.shape for part in parts.values()}
    x = parts["x"]
    if len(shapes) != 1 or x.ndim != 1 or len(x) < 2 or x[0] <= 0 or (np.diff(x) <= 0).any():
        raise ValueError(
            f"expected the law of {name} over two or more rising x above 0, got the shapes {sorted(shapes)}"
        )
    if (parts["low"] > parts["high"]).any() or parts["low"].min() <= 0:
        raise ValueError(f"expected 0 < low <= high in the band of the law of {name}")
    exponent = np.atleast_1d(as_array(law["exponent"], f"the exponent of {name}"))
    if exponent.shape not in ((1,), (3,)):
        raise ValueError(f"expected the exponent of {name} or (exponent, low, high), got {exponent.tolist()}")
    floor = law.get("floor")
    return {**parts, "exponent": exponent, "floor": None if floor is None else float(floor)}


def _checked_foretold(given, name):
    missing = [key for key in ("x", "value", "low", "high", "reached") if key not in given]
    if missing:
        raise ValueError(f"what was foretold of {name} lacks {missing}")
    found = {key: float(given[key]) for key in ("x", "value", "low", "high")}
    found["reached"] = np.atleast_1d(as_array(given["reached"], f"what {name} reached"))
    if not 0 < found["low"] <= found["value"] <= found["high"] or found["x"] <= 0 or found["reached"].min() <= 0:
        raise ValueError(f"expected 0 < low <= value <= high of what was foretold of {name}, got {given}")
    return found


def _scaling_limits(sweeps):
    """((low, high) across, (low, high) up) that hold everything of these sweeps."""
    across, up = [], []
    for sweep in sweeps:
        across += [*sweep["x"]]
        up += [*sweep["loss"].reshape(-1)]
        if sweep["cloud"]:
            across, up = [*across, *sweep["cloud"][0]], [*up, *sweep["cloud"][1]]
        if sweep["law"]:
            law = sweep["law"]
            across, up = [*across, law["x"][0], law["x"][-1]], [*up, *law["curve"]]
            up += [law["floor"]] if law["floor"] else []
        if sweep["held_out"]:
            found = sweep["held_out"]
            across, up = [*across, found["x"]], [*up, found["low"], found["high"], *found["reached"]]
    sides = max((max(across) / min(across)) ** 0.05, 1.05)
    ends = max((max(up) / min(up)) ** 0.07, 1.005)
    return (min(across) / sides, max(across) * sides), (min(up) / ends, max(up) * ends)


DOT = {"marker": "o", "linestyle": "none", "color": BLUE, "markersize": 7}
FORETOLD = {"marker": "D", "linestyle": "none", "color": "white", "markeredgecolor": "black", "markeredgewidth": 2}
REACHED = {"marker": "*", "linestyle": "none", "color": RED, "markersize": 15, "markeredgecolor": "black"}
CLOUD = {"marker": "o", "linestyle": "none", "color": "#B5B5B5", "markersize": 6}


def _draw_sweep(axes, sweep, limits, ticks, floor_name=False):
    axes.set(xscale="log", yscale="log", xlim=limits[0], ylim=limits[1])
    _log_axis(axes.xaxis, log_ticks(*limits[0], ticks))
    # Losses lie within one power of ten, so round numbers at equal steps serve better than powers.
    low, high = limits[1]
    levels = [level for level in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= level <= high]
    near = high < 20 * low and len(levels) > 1
    _log_axis(axes.yaxis, levels if near else log_ticks(low, high))
    if near:
        decimals = next((count for count in range(4) if np.allclose(levels, np.round(levels, count), atol=1e-9)), 4)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:.{decimals}f}"))
    if sweep["cloud"]:
        axes.plot(*sweep["cloud"], zorder=2, **CLOUD)
    law = sweep["law"]
    if law:
        axes.fill_between(law["x"], law["low"], law["high"], color=ORANGE, alpha=0.3, linewidth=0, zorder=1)
        axes.plot(law["x"], law["curve"], color=ORANGE, zorder=2)
        if law["floor"] is not None:
            axes.axhline(law["floor"], color="black", linewidth=1.8, linestyle=DASHES, zorder=1)
            if floor_name:
                spot = {"transform": axes.get_yaxis_transform(), "bbox": BEHIND, "zorder": 4}
                words = f"floor {law['floor']:.2f}"
                write(axes, 0.02, law["floor"], words, SMALL, ha="left", va="center", **spot)
    x = np.repeat(sweep["x"], sweep["loss"].shape[1])
    axes.plot(x, sweep["loss"].reshape(-1), zorder=3, alpha=0.75, **DOT)
    found = sweep["held_out"]
    if found:
        axes.plot([found["x"]] * 2, [found["low"], found["high"]], color="black", linewidth=2.4, zorder=4)
        for end in (found["low"], found["high"]):
            axes.plot([found["x"]], [end], "_", color="black", markersize=14, markeredgewidth=2.4, zorder=4)
        axes.plot([found["x"]], [found["value"]], zorder=5, **FORETOLD)
        axes.plot([found["x"]] * len(found["reached"]), found["reached"], zorder=6, **REACHED)


def _exponent_text(law):
    value, *ends = law["exponent"]
    places = 2 if value >= 0.1 else 3
    between = f" [{signed(ends[0], places)}, {signed(ends[1], places)}]" if ends else ""
    return f"exponent {signed(value, places)}{between}"


def _scaling_key(sweep):
    seeds = sweep["loss"].shape[1]
    entries = [(Line2D([], [], **DOT), "measured" + (f",\n{seeds} seeds each" if seeds > 1 else ""))]
    law = sweep["law"]
    if law:
        value, *ends = law["exponent"]
        both = _exponent_text(law)
        entries.append((Line2D([], [], color=ORANGE), "power law,\n" + both.replace(" [", "\n[") if ends else both))
        entries.append((Patch(color=ORANGE, alpha=0.3), "band of the law"))
        if law["floor"] is not None:
            look = {"color": "black", "linewidth": 1.8, "linestyle": DASHES}
            entries.append((Line2D([], [], **look), f"floor {law['floor']:.2f}"))
    found = sweep["held_out"]
    if found:
        words = f"foretold {found['value']:.3f}\n[{found['low']:.3f}, {found['high']:.3f}]"
        entries.append((Line2D([], [], **FORETOLD), words))
        inside = found["low"] <= found["reached"].mean() <= found["high"]
        said = f"reached {found['reached'].mean():.3f},\n{'inside' if inside else 'outside'}"
        entries.append((Line2D([], [], **REACHED), said))
    return entries


def _panels_key(figure, sweeps):
    entries = [(Line2D([], [], **DOT), "measured")]
    if any(sweep["cloud"] for sweep in sweeps):
        entries.append((Line2D([], [], **CLOUD), "not on the frontier"))
    if any(sweep["law"] for sweep in sweeps):
        entries.append((Line2D([], [], color=ORANGE), "power law and band"))
    if any(sweep["held_out"] for sweep in sweeps):
        entries += [(Line2D([], [], **FORETOLD), "foretold"), (Line2D([], [], **REACHED), "reached")]
    spot = {"loc": "lower left", "bbox_to_anchor": (0.9 / WIDEST, 0.01), "borderaxespad": 0, "ncols": len(entries)}
    figure.legend(*zip(*entries, strict=True), fontsize=LABEL, handlelength=1.4, columnspacing=1.6, **spot)


# Modifications


def modification_effects(rows, title, base="the base", xlabel="better than the base, in nats of held-out loss"):
    """How much lower the loss is after one change, sorted: a small dot for each seed, a large one for the mean.

    rows: (change, better (seeds,) or one number, noise), noise: the standard error of the mean, None for one seed. The thick
    line spans twice the noise to both sides: where it crosses zero the change did nothing that could be seen.
    """
    rows = sorted((_checked_change(row) for row in rows), key=lambda row: -row[1].mean())
    if not 1 <= len(rows) <= 14:
        raise ValueError(f"expected one to 14 rows (change, better, noise), got {len(rows)}")
    left = 0.3 + max(inches(name, FONT) for name, *_ in rows)
    said = [_change_text(better, noise) for _, better, noise in rows]
    right = 0.4 + max(inches(words, FONT) for words in said)
    top = top_of(title, WIDEST) + 0.45
    row = 0.46
    figure, axes = canvas(WIDEST, top + row * len(rows) + 1.15, margins=(left, right, 1.15, top))
    ends = [0.0]
    for _, better, noise in rows:
        reach = 2 * (noise or 0.0)
        ends += [better.min(), better.max(), better.mean() - reach, better.mean() + reach]
    span = (max(ends) - min(ends)) or 1.0
    axes.set(xlim=(min(ends) - 0.06 * span, max(ends) + 0.06 * span), ylim=(len(rows) - 0.4, -0.6), xlabel=xlabel)
    axes.axvline(0, color="black", linewidth=1.8)
    for place, (_, better, noise) in enumerate(rows):
        mean, shade = better.mean(), _change_shade(better, noise)
        if noise:
            axes.plot([mean - 2 * noise, mean + 2 * noise], [place] * 2, color=shade, linewidth=6, alpha=0.4,
                      solid_capstyle="butt")  # fmt: skip
        if len(better) > 1:
            axes.plot(better, [place] * len(better), "o", color=shade, markersize=5, zorder=3)
        axes.plot([mean], [place], "o", color=shade, markersize=11, markeredgecolor="black", zorder=4)
        spot = {"transform": axes.get_yaxis_transform()}
        write(axes, 1 + 0.15 / (WIDEST - left - right), place, said[place], FONT, ha="left", **spot)
    half = inches(f"as {base}", LABEL) / 2 * np.diff(axes.get_xlim())[0] / (WIDEST - left - right)
    low, high = axes.get_xlim()
    write(axes, np.clip(0, low + half, high - half), -0.85, f"as {base}", LABEL, clip_on=False)
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows], fontsize=FONT)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}".replace("-", "\N{MINUS SIGN}")))
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    several = any(len(better) > 1 for _, better, _ in rows)
    if several:
        height = figure.get_size_inches()[1]
        words = "large dot: mean, small dots: seeds, bar: twice the standard error; grey: no difference seen"
        figure.text(0.12 / WIDEST, 0.2 / height, words, fontsize=SMALL, color=GREY, ha="left", va="center")
    write_title(figure, title)
    return figure


def _checked_change(row):
    row = tuple(row)
    if len(row) != 3:
        raise ValueError(f"expected a row (change, better, noise), got {len(row)} parts")
    name, better, noise = row
    better = np.atleast_1d(as_array(better, f"the differences of {name}"))
    if better.ndim != 1 or not len(better) or (noise is not None and not 0 <= float(noise) < np.inf):
        raise ValueError(
            f"expected differences of {name}, one for each seed, and a noise from 0 on or None, got the shape "
            f"{better.shape} and {noise}"
        )
    return shortened(str(name), 30), better, None if noise is None else float(noise)


def _change_text(better, noise):
    mean = better.mean()
    sign = "+" if float(f"{mean:.3f}") > 0 else ""
    return sign + signed(mean, 3) + ("" if noise is None else f" ± {noise:.3f}")


def _change_shade(better, noise):
    """Blue for a gain, red for a loss, grey where the noise is as large."""
    if noise is None or abs(better.mean()) <= 2 * noise:
        return GREY
    return BLUE if better.mean() > 0 else RED


# Grouped key-value heads


def grouped_heads(heads, kinds, title, width=None, layers=None):
    """Which query heads share a head of keys and values: a row of boxes for the queries, one below for what they look at.

    heads: of the queries. kinds: {name: how many heads of keys and values}, each a divisor of `heads`. width, layers: of a head
    and of the model; with them, how many numbers the cache keeps for each token.
    """
    heads = int(heads)
    kinds = {str(name): int(count) for name, count in kinds.items()}
    if not 1 <= heads <= 16 or not 1 <= len(kinds) <= 3:
        raise ValueError(f"expected one to 16 heads and one to three kinds, got {heads} and {len(kinds)}")
    for name, count in kinds.items():
        if count < 1 or heads % count:
            raise ValueError(f"expected {name} to have a number of key-value heads that divides {heads}, got {count}")
    if (width is None) != (layers is None) or (width is not None and min(int(width), int(layers)) < 1):
        raise ValueError(f"expected both width and layers, from 1 on, or neither, got {width} and {layers}")
    sums = {
        name: ("", "") if width is None else (f"2 × {count} × {width} × {layers}", grouped(2 * count * width * layers))
        for name, count in kinds.items()
    }
    side = 0.35 + max(inches(words, LABEL) for words in ("queries", "keys, values"))
    behind = 0.4 if width is None else 0.5 + max(inches(one, FONT, "bold") for two in sums.values() for one in two)
    step = min(0.72, (WIDEST - side - behind) / heads)
    if step < 0.42:
        raise ValueError(f"{heads} heads and their sums have no room on a slide: take fewer heads")
    total = max(side + step * heads + behind, 7.5)
    tall = 1.95
    high = tall * len(kinds) + (0.35 if width is not None else 0.05)
    figure, axes = sheet(total, high + top_of(title, total))
    for place, (name, count) in enumerate(kinds.items()):
        up, down = high - tall * place - 0.62, high - tall * place - 1.55
        write(axes, 0.12, up + 0.42, name, FONT, ha="left", fontweight="bold")
        write(axes, side - 0.12, up, "queries", LABEL, ha="right", color=GREY)
        write(axes, side - 0.12, down, "keys, values", LABEL, ha="right", color=GREY)
        share = heads // count
        for group in range(count):
            middle = side + step * (group + 0.5) * share
            for head in range(group * share, (group + 1) * share):
                x = side + step * (head + 0.5)
                axes.plot([x, middle], [up - 0.2, down + 0.2], color=GREY, linewidth=1.8, zorder=1)
                draw_box(axes, x, up, step - 0.12, 0.4, str(head + 1), PALE_BLUE, BLUE, LABEL)
            draw_box(axes, middle, down, step - 0.12, 0.4, str(group + 1), PALE_ORANGE, ORANGE, LABEL)
        if width is not None:
            x = side + step * heads + 0.2
            write(axes, x, (up + down) / 2 + 0.16, sums[name][0], FONT, ha="left")
            write(axes, x, (up + down) / 2 - 0.16, sums[name][1], FONT, ha="left", fontweight="bold")
    if width is not None:
        words = "right: numbers kept for each token = keys and values × heads × width × layers"
        write(axes, 0.12, 0.2, shortened(words, int(total / 0.09)), SMALL, ha="left", color=GREY)
    write_title(figure, title)
    return figure


# Image patches


def digit_looks(image, looks, title, votes=None, names=None, digit=None):
    """An image as it is, cut into patches, and where each layer looks; with `votes` what each patch says for the answer.

    image (side, side). looks (layers, g, g): how much each patch is looked at, all of a layer sum to 1; written in per cent.
    votes (g, g): above 0 for the answer, below 0 against it. names: of the layers. digit: the answer, for the name of the votes.
    """
    image, looks = as_array(image, "the image"), as_array(looks, "the looks")
    if image.ndim != 2 or image.shape[0] != image.shape[1] or not len(image):
        raise ValueError(f"expected an image (side, side), got the shape {image.shape}")
    if looks.ndim != 3 or looks.shape[1] != looks.shape[2] or not 1 <= len(looks) <= 3 or not looks.size:
        raise ValueError(f"expected looks (layers, g, g) of one to three layers, got the shape {looks.shape}")
    grid = looks.shape[1]
    if len(image) % grid or grid > 6:
        raise ValueError(f"expected at most 6 x 6 patches that divide the image of {len(image)}, got {grid} x {grid}")
    if looks.min() < 0 or abs(looks.sum((1, 2)) - 1).max() > 1e-3:
        raise ValueError(f"expected the looks of each layer to sum to 1, got {looks.sum((1, 2)).round(3).tolist()}")
    names = checked_labels(
        [f"layer {place + 1} looks (%)" for place in range(len(looks))] if names is None else names,
        len(looks),
        "names",
    )
    if votes is not None:
        votes = as_array(votes, "the votes")
        if votes.shape != (grid, grid):
            raise ValueError(f"expected votes ({grid}, {grid}), one for each patch, got the shape {votes.shape}")
    count = 2 + len(looks) + (votes is not None)
    gap = 0.3
    side = min(2.6, (WIDEST - 0.3 - gap * (count - 1)) / count)
    width = max(0.3 + side * count + gap * (count - 1), 7.0)
    labels = ["the image", f"{grid * grid} patches", *names]
    labels += [] if votes is None else ["votes" if digit is None else f"votes for {digit}"]
    labels = [folded(label, side, FONT) for label in labels]
    over = 0.12 + 0.26 * max(label.count("\n") + 1 for label in labels)
    figure, axes = sheet(width, 0.15 + side + over + top_of(title, width) + 0.05)
    spots = [0.15 + place * (side + gap) for place in range(count)]
    for spot, label in zip(spots, labels, strict=True):
        write(axes, spot, 0.15 + side + 0.08, label, FONT, ha="left", va="bottom", linespacing=1.05)
    ink = (image.min(), max(image.max(), image.min() + 1e-9))
    _tiles(axes, image, "Greys", spots[0], 0.15, side, side, ink)
    _cut(axes, image, grid, spots[1], side, ink)
    most = looks.max()
    for layer, spot in zip(looks, spots[2:], strict=False):
        _number_tiles(axes, layer, WEIGHTS_MAP, spot, side, (0, most), [f"{100 * one:.0f}" for one in layer.flat])
    if votes is not None:
        most = abs(votes).max() or 1.0
        words = [signed(one, 1) for one in votes.flat]
        if max(inches(one, SMALL) for one in words) > side / grid - 0.06:
            words = [signed(one, 0) for one in votes.flat]
        _number_tiles(axes, votes, SIGNED_MAP, spots[-1], side, (-most, most), words)
    write_title(figure, title)
    return figure


def _cut(axes, image, grid, left, side, ink):
    """The patches with white between them."""
    size = len(image) // grid
    cell = side / grid
    for (row, column), _ in np.ndenumerate(np.empty((grid, grid))):
        patch = image[row * size : (row + 1) * size, column * size : (column + 1) * size]
        spot = (left + column * cell + 0.05, 0.15 + side - (row + 1) * cell + 0.05)
        _tiles(axes, patch, "Greys", *spot, cell - 0.1, cell - 0.1, ink)


def _number_tiles(axes, values, colours, left, side, limits, words):
    _tiles(axes, values, colours, left, 0.15, side, side, limits)
    image = axes.images[-1]
    cell = side / len(values)
    for ((row, column), value), text in zip(np.ndenumerate(values), words, strict=True):
        dark = is_dark(image.cmap(image.norm(value)))
        x, y = left + (column + 0.5) * cell, 0.15 + side - (row + 0.5) * cell
        write(axes, x, y, text, SMALL, color="white" if dark else "black", zorder=3)


# Several workers

WORKER_FACES = ((PALE_BLUE, BLUE), (PALE_ORANGE, ORANGE), (PALE_GREEN, GREEN), (PALE_RED, RED))


def shared_batch(workers, batch, title):
    """A batch shared among workers that all hold the same parameters, their gradients, the mean, and the one step all take.

    workers: 1 to 6. batch: how many rows all workers read together; shares differ by one row at most.
    """
    workers, batch = int(workers), int(batch)
    if not 1 <= workers <= 6 or not workers <= batch <= 48:
        raise ValueError(f"expected one to six workers and a batch of {workers} to 48 rows, got {workers} and {batch}")
    edges = [batch * place // workers for place in range(workers + 1)]
    row = 0.95
    high = max(row * workers, 2.4) + 0.75
    width = WIDEST
    figure, axes = sheet(width, high + top_of(title, width))
    heads = (
        (1.05, "one batch"),
        (4.0, "the same model\non each worker"),
        (7.0, "its gradient"),
        (10.65, "what all of them get"),
    )
    for x, words in heads:
        write(axes, x, high - 0.32, words, LABEL, color=GREY, linespacing=1.05)
    low, up = 0.15, high - 0.75
    cell = (up - low) / batch
    share = (up - low) / workers
    middle = (up + low) / 2
    draw_box(
        axes,
        10.65,
        middle,
        2.9,
        1.5,
        "mean of the gradients,\nweighted by pieces:\nthe same step for all",
        "white",
        "black",
        LABEL,
    )
    for worker in range(workers):
        face, edge = WORKER_FACES[worker % len(WORKER_FACES)]
        first, last = edges[worker], edges[worker + 1]
        for place in range(first, last):
            corner = (0.45, up - (place + 1) * cell + 0.02)
            axes.add_patch(Rectangle(corner, 1.2, cell - 0.04, facecolor=face, edgecolor=edge, linewidth=1))
        y = up - (worker + 0.5) * share
        from_y = up - (first + last) / 2 * cell
        draw_arrow(axes, (1.75, from_y), (2.85, y), edge)
        rows = f"rows {first + 1}–{last}" if last - first > 1 else f"row {last}"
        draw_box(axes, 4.0, y, 2.2, 0.7, f"worker {worker}\n{rows}", face, edge, LABEL)
        draw_arrow(axes, (5.15, y), (6.1, y), edge)
        draw_box(axes, 7.0, y, 1.7, 0.55, f"gradient {worker}", face, edge, LABEL)
        aim = middle + (workers / 2 - worker - 0.5) * min(0.22, 1.2 / workers)
        draw_arrow(axes, (7.9, y), (9.15, aim), edge)
    write_title(figure, title)
    return figure

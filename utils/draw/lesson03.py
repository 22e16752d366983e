"""The figures of lesson 03: arrays and strings in, a figure out."""

import operator

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from utils.draw.figures import TITLE, checked_labels, checked_weights, signed, write_title
from utils.draw.lesson02 import message_picture as message
from utils.draw.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_RED,
    checked_curves,
    checked_length,
    draw_arrow,
    draw_box,
    lines_canvas,
    name_ends,
    percent,
    sheet,
    short,
    ticks_apart,
    top_of,
    write,
)
from utils.draw.style import (
    BLACK,
    BLUE,
    COLOURS,
    FONT,
    GREY,
    PALE,
    RED,
    SMALL,
    WEIGHTS_MAP,
    as_array,
    canvas,
    is_dark,
)
from utils.draw.text import inches

__all__ = [
    "alignment",
    "by_length",
    "decoding_step",
    "influence",
    "ladder_bars",
    "message",
    "neighbours",
    "receptive_field",
    "sequence_tasks",
    "times",
]

WRITTEN_FROM = 0.05  # smaller weights carry no number: they would only hide the others


# Kinds of sequence task

PITCH, BOX = 1.16, (0.96, 0.4)  # inches
LEVELS = {"input": 0.25, "state": 0.95, "output": 1.65}
FACES = {"input": (PALE_BLUE, BLUE), "state": ("#EEEEEE", GREY), "output": (PALE_RED, RED)}
TASKS = (  # name, example, row and left edge, inputs and outputs as {column: word}
    ("one to one", "image to label", 1, 0.2, {0: "image"}, {0: "cat"}),
    ("one to many", "image to caption", 1, 2.75, {0: "image"}, {0: "a", 1: "black", 2: "cat"}),
    ("many to one", "review to mood", 1, 7.55, {0: "not", 1: "bad", 2: "at all"}, {2: "happy"}),
    (
        "many to many",
        "sentence to translation",
        0,
        0.2,
        {0: "the", 1: "black", 2: "cat"},
        {3: "le", 4: "chat", 5: "noir"},
    ),
    (
        "many to many in step",
        "word to part of speech",
        0,
        7.55,
        {0: "the", 1: "black", 2: "cat"},
        {0: "article", 1: "adjective", 2: "noun"},
    ),
)


def sequence_tasks():
    """The five kinds of sequence task, as boxes in a row of time: what goes in, what is carried on, what comes out."""
    figure, axes = sheet(11.0, 6.2)
    for name, example, row, left, read, said in TASKS:
        _task(axes, left, 0.15 + 2.75 * row, name, example, read, said)
    for place, kind in enumerate(FACES):
        draw_box(axes, 7.55 + BOX[0] / 2 + place * PITCH, 5.95, *BOX, kind, *FACES[kind], size=LABEL)
    write_title(figure, "a task is known by what goes in and what comes out")
    return figure


def _task(axes, left, bottom, name, example, read, said):
    count = 1 + max(*read, *said)
    centre = [left + BOX[0] / 2 + PITCH * column for column in range(count)]
    height = {kind: bottom + level for kind, level in LEVELS.items()}
    half = BOX[1] / 2
    write(axes, left, bottom + 2.42, name, FONT + 1, ha="left", fontweight="bold")
    write(axes, left, bottom + 2.12, example, LABEL, ha="left", color=GREY)
    for column, x in enumerate(centre):
        draw_box(axes, x, height["state"], *BOX, "", *FACES["state"])
        if column:
            draw_arrow(axes, (centre[column - 1] + BOX[0] / 2, height["state"]), (x - BOX[0] / 2, height["state"]))
        if column in read:
            draw_box(axes, x, height["input"], *BOX, read[column], *FACES["input"], size=LABEL)
            draw_arrow(axes, (x, height["input"] + half), (x, height["state"] - half))
        if column in said:
            draw_box(axes, x, height["output"], *BOX, said[column], *FACES["output"], size=LABEL)
            draw_arrow(axes, (x, height["state"] + half), (x, height["output"] - half))


# Lines with their names at the end


def by_length(curves, title, quarters=None, bands=None):
    """{name: (lengths, exact in %)} as one line a model over the source length.

    quarters: the three lengths at which the sentences, in order of length, fall into quarters. bands: {name: (low, high)}
    in %, with one number a length each: the spread of that model's line.
    """
    checked = _checked_by_length(curves, bands or {})
    figure, axes = lines_canvas(title, list(checked))
    for (name, (lengths, exact)), (shade, marker, line) in zip(checked.items(), LOOKS, strict=False):
        axes.plot(lengths, exact, marker=marker, linestyle=line, color=shade, clip_on=False, zorder=3)
        if name in (bands or {}):
            low, high = (as_array(side) for side in bands[name])
            axes.fill_between(lengths, low, high, color=shade, alpha=0.2, linewidth=0)
    every = np.concatenate([lengths for lengths, _ in checked.values()])
    axes.set(xlim=(every.min() - 0.5, every.max() + 0.5), ylim=(0, 104))
    axes.set(xlabel="words in the source sentence", ylabel="exactly right in %", yticks=range(0, 101, 20))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=14, min_n_ticks=1))
    if quarters is not None:
        _draw_quarters(axes, quarters)
    name_ends(axes, [(lengths[-1], exact[-1]) for lengths, exact in checked.values()], list(checked))
    write_title(figure, title)
    return figure


def _checked_by_length(curves, bands):
    for name, curve in curves.items():
        if len(curve) != 2:
            raise ValueError(f"expected two rows, lengths and exact in %, for {name}, got {len(curve)}")
    lengths = checked_curves({name: curve[0] for name, curve in curves.items()}, "the lengths")
    exact = checked_curves({name: curve[1] for name, curve in curves.items()}, "exact in %")
    strangers = [str(name) for name in bands if str(name) not in exact]
    if strangers:
        raise ValueError(f"expected bands for {', '.join(exact)}, got one for {', '.join(strangers)}")
    for name, values in exact.items():
        checked_length(values, len(lengths[name]), f"one number of {name}")
        if (np.diff(lengths[name]) <= 0).any():
            raise ValueError(f"expected the lengths of {name} from short to long, got {lengths[name].tolist()}")
        if values.min() < 0 or values.max() > 100:
            raise ValueError(f"expected exact between 0 and 100 %, got {values.min():g} to {values.max():g} for {name}")
    for name, band in bands.items():
        if len(band) != 2:
            raise ValueError(f"expected (low, high) as the band of {name}, got {len(band)} rows")
        low, high = (as_array(side, f"the band of {name}") for side in band)
        checked_length(low, len(lengths[str(name)]), f"one number of the band of {name}")
        checked_length(high, len(lengths[str(name)]), f"one number of the band of {name}")
        if (low > high).any():
            raise ValueError(f"expected low below high in the band of {name}: is it (high, low)?")
    return {name: (lengths[name], exact[name]) for name in exact}


def _draw_quarters(axes, quarters):
    quarters = as_array(quarters, "the quarters")
    if quarters.shape != (3,) or (np.diff(quarters) < 0).any():
        raise ValueError(f"expected three rising lengths between the four quarters, got {quarters.tolist()}")
    low, high = axes.get_xlim()
    for border in quarters:
        axes.axvline(border, color=GREY, linewidth=1.5, linestyle=(0, (2, 2)), zorder=1)
    room = axes.get_position().width * axes.figure.get_size_inches()[0] / (high - low)  # inches a word
    for left, right, name in ((low, quarters[0], "shortest"), (quarters[2], high, "longest")):
        text = f"{name} quarter"
        text = text if inches(text, SMALL) < (right - left) * room - 0.1 else f"{name}\nquarter"
        if max(inches(line, SMALL) for line in text.split("\n")) < (right - left) * room - 0.1:
            where = {"transform": axes.get_xaxis_transform(), "color": GREY, "linespacing": 1.05}
            behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
            write(axes, (left + right) / 2, 0.03, text, SMALL, va="bottom", bbox=behind, **where)


def influence(curves, title):
    """{name: gradient norms (distances,)} over the distance, entry k for a word k places back, on a scale of powers of ten.

    A norm of exactly 0 has no place on such a scale: it is drawn as a hollow mark on the bottom line.
    """
    checked = checked_curves(curves, "gradient norms")
    for name, values in checked.items():
        if values.min() < 0:
            raise ValueError(f"a norm is never negative, but the smallest of {name} is {values.min():g}")
    seen = np.concatenate([values[values > 0] for values in checked.values()])
    low, high = (seen.min(), seen.max()) if len(seen) else (0.1, 1.0)
    floor = 10.0 ** (np.floor(np.log10(low)) - 1)
    zeros = any((values == 0).any() for values in checked.values())
    figure, axes = lines_canvas(title, list(checked))
    farthest = max(map(len, checked.values())) - 1
    every = max(1, farthest // 12)  # marks at every place of a long line would be one thick line
    axes.set_yscale("log")
    for (_, values), (shade, marker, line) in zip(checked.items(), LOOKS, strict=False):
        places = np.arange(len(values))
        axes.plot(
            places, np.where(values > 0, values, np.nan), linestyle=line, color=shade, marker=marker, markevery=every
        )
        gone = places[values == 0]
        look = {"markerfacecolor": "white", "markeredgecolor": shade, "markeredgewidth": 2, "clip_on": False}
        axes.plot(gone[::every], np.full(len(gone[::every]), floor), marker, linestyle="none", zorder=4, **look)
    axes.set(xlim=(-0.02 * max(farthest, 1), max(farthest, 1)), ylim=(floor, 10.0 ** (np.ceil(np.log10(high)) + 0.3)))
    note = " (hollow mark on the bottom line: exactly 0)" if zeros else ""
    axes.set(xlabel="distance in words" + note, ylabel="influence (last word = 1)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12, min_n_ticks=1))
    axes.yaxis.set_minor_locator(NullLocator())
    ends = [(len(values) - 1, values[-1] or floor) for values in checked.values()]
    name_ends(axes, ends, list(checked))
    write_title(figure, title)
    return figure


def times(lengths, curves, title, fit_from=None):
    """{name: seconds (lengths,)} over the length, both on logarithmic scales, with the slope of the best straight line.

    A slope of 1 is time in step with the length, 2 is four times the time for twice the length, 0 is no cost at all.
    `fit_from` is the first length that the fit counts: short inputs show only what a call costs in any case.
    Shown in milliseconds when everything takes less than a second.
    """
    lengths = as_array(lengths, "the lengths")
    if lengths.ndim != 1 or len(lengths) < 2 or lengths[0] <= 0 or (np.diff(lengths) <= 0).any():
        raise ValueError(f"a slope takes two or more rising lengths above 0, got {lengths.tolist()}")
    checked = checked_curves(curves, "seconds")
    for name, values in checked.items():
        checked_length(values, len(lengths), f"one time of {name}")
        if values.min() <= 0:
            raise ValueError(f"expected times above 0, but the shortest of {name} is {values.min():g}")
    unit, factor = ("s", 1) if max(values.max() for values in checked.values()) >= 1 else ("ms", 1000)
    long = lengths >= (lengths[0] if fit_from is None else fit_from)
    if long.sum() < 2:
        raise ValueError(f"a slope takes two or more lengths, got {long.sum()} from {fit_from} words on")
    slopes = {name: slope(lengths[long], values[long]) for name, values in checked.items()}
    labels = [f"{name}\nslope {signed(one, 1)}" for name, one in slopes.items()]
    figure, axes = lines_canvas(title, labels)
    axes.set(xscale="log", yscale="log")
    for values, (shade, marker, line) in zip(checked.values(), LOOKS, strict=False):
        axes.plot(lengths, values * factor, marker=marker, linestyle=line, color=shade)
    spare = (lengths[-1] / lengths[0]) ** 0.03
    axes.set(xlim=(lengths[0] / spare, lengths[-1] * spare), ylabel=f"time in {unit}")
    axes.set_xlabel("length in words" + (f" (slopes from {fit_from:g} words on)" if fit_from else ""))
    every = np.concatenate(list(checked.values())) * factor
    axes.set_ylim(every.min() / 1.7, every.max() * 1.7)
    steps = (1.0, 2.0, 5.0) if every.max() < 30 * every.min() else (1.0,)  # two powers of ten may not be in sight
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.set_xticks(ticks_apart(lengths, 5.5), minor=False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    name_ends(axes, [(lengths[-1], values[-1] * factor) for values in checked.values()], labels)
    write_title(figure, title)
    return figure


def slope(lengths, seconds):
    """The exponent p of the power of the length that fits the seconds best, in the sense of least squares of logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


# Convolutions


def receptive_field(layers, kernel):
    """The cone of inputs that one output of a stack of convolutions sees: layers * (kernel - 1) + 1 of them."""
    layers, kernel = operator.index(layers), operator.index(kernel)
    if layers < 1 or kernel < 1 or kernel % 2 == 0:
        raise ValueError(f"expected one layer or more and an odd kernel, got {layers} layers and kernel {kernel}")
    half = kernel // 2
    field = 2 * half * layers + 1
    if field > 61 or layers > 12:
        raise ValueError(
            f"{layers} layers with kernel {kernel} see {field} inputs: expected at most 61 inputs in 12 layers"
        )
    reach = half * layers
    edge = reach + 2  # two more places on each side that the output does not see
    words = "word" if field == 1 else "words"
    title = f"{layers} {'layer' if layers == 1 else 'layers'} of width {kernel}: one output sees {field} {words}"
    width = 9.5
    step = min(0.62, (width - 2.0) / (2 * edge))
    rise = min(0.85, 4.4 / layers)
    bottom = 0.95
    figure, axes = sheet(width, bottom + rise * layers + 0.35 + top_of(title, width))
    middle, dot = 1.55 + (width - 1.75) / 2, min(13.0, 72 * step * 0.5)
    for layer in range(layers + 1):
        y, seen = bottom + rise * layer, half * (layers - layer)
        write(axes, 0.15, y, _layer_name(layer, layers), LABEL, ha="left")
        shade = BLUE if layer == 0 else RED if layer == layers else GREY
        for near, far, tint in ((0, seen, shade), (seen + 1, edge, PALE)):
            places = [place for place in range(-edge, edge + 1) if near <= abs(place) <= far]
            xs = [middle + step * place for place in places]
            axes.plot(xs, [y] * len(xs), "o", color=tint, markersize=dot, zorder=3)
        if layer:
            lines = [
                [(middle + step * place, y), (middle + step * (place + offset), y - rise)]
                for place in range(-seen, seen + 1)
                for offset in range(-half, half + 1)
            ]
            axes.add_collection(LineCollection(lines, colors=GREY, linewidths=1.1, alpha=0.7, zorder=2))
    ends = [middle + step * (place + side * 0.3) for place, side in ((-reach, -1), (reach, 1))]
    axes.plot(ends, [bottom - 0.3] * 2, color=BLUE, linewidth=3)
    count = f"{field} = {layers} × ({kernel} \N{MINUS SIGN} 1) + 1"
    write(axes, middle, bottom - 0.6, count, FONT, color=BLUE, fontweight="bold")
    write_title(figure, title)
    return figure


def _layer_name(layer, layers):
    return "input" if layer == 0 else "output" if layer == layers else f"layer {layer}"


# Alignment


def alignment(source, target, weights, links=(), title=""):
    """The weights as colours, a row for each target word and a column for each source word.

    weights (targets, sources), rows sum to 1. links: gold pairs (source place, target place) from 0, drawn as outlines.
    """
    source, target = [short(word) for word in source], [short(word) for word in target]
    weights = whole_rows(weights)
    if weights.shape != (len(target), len(source)):
        raise ValueError(
            f"expected weights of the shape (target words, source words) = {(len(target), len(source))}, "
            f"got {weights.shape}"
        )
    links = checked_links(links, len(source), len(target))
    layout = _alignment_layout(source, target, title, bool(links))
    figure, axes = canvas(*layout["size"], margins=layout["margins"])
    image = axes.imshow(weights, cmap=WEIGHTS_MAP, vmin=0, vmax=1, aspect="auto")
    turn = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if layout["turned"] else {}
    axes.set_xticks(range(len(source)), source, fontsize=layout["font"], **turn)
    axes.set_yticks(range(len(target)), target, fontsize=layout["font"])
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)  # as in `write`
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if len(source) <= 14:
        _write_weights(axes, weights)
    _outline(axes, links, layout["cell"])
    _alignment_key(figure, image, layout, bool(links))
    write_title(figure, title)
    return figure


def _outline(axes, links, cell):
    """Boxes a little smaller than the cells; a white rim parts them from every colour below."""
    large = min(cell) >= 0.35
    rims = (("white", 4.5), (RED, 2.6)) if large else (("white", 3.0), (RED, 1.8))
    inset = 0.09 if large else 0.035
    wide, high = 1 - inset / cell[0], 1 - inset / cell[1]
    for across, down in links:
        for shade, line in rims:
            corner = (across - wide / 2, down - high / 2)
            axes.add_patch(Rectangle(corner, wide, high, fill=False, edgecolor=shade, linewidth=line, zorder=3))


def whole_rows(weights):
    """Weights whose rows are complete: a column that was left out, such as the end token, would make them less than 1."""
    weights = checked_weights(weights)
    totals = weights.sum(-1)
    if (abs(totals - 1) > 0.01).any():
        worst = np.ravel(totals)[np.argmax(abs(totals - 1))]
        raise ValueError(
            f"expected weights that sum to 1 over the source words, got a sum of {worst:.3f}; "
            "is the end token among the words?"
        )
    return weights


def checked_links(links, sources, targets):
    links = [tuple(link) for link in links]
    for link in links:
        if len(link) != 2 or not (0 <= link[0] < sources and 0 <= link[1] < targets):
            raise ValueError(
                f"expected links (source place, target place) among {sources} source words and {targets} target words, "
                f"counted from 0, got {link}"
            )
    return links


def _alignment_layout(source, target, title, with_links):
    """Sizes in inches: columns as wide as the words where that leaves a picture for a slide, else narrow and turned."""
    columns, rows = len(source), len(target)
    font = LABEL if max(columns, rows) <= 30 else 11
    widest = max(inches(word, font) for word in source)
    turned = columns * (widest + 0.2) > 8.0
    numbers = columns <= 14
    cell = max(0.62, widest + 0.2) if not turned else 0.58 if numbers else max(0.24, min(0.5, 8.0 / columns))
    height = 0.4 if rows <= 14 else max(0.22, min(0.32, 6.5 / rows))
    left = 0.2 + max(inches(word, font) for word in target)
    lean = 0.71 * widest if turned else 0.0
    right = max(1.2, lean + 0.15 - cell / 2)
    width = left + columns * cell + right
    needed = min(8.0, inches(title, TITLE, "bold") * 1.08 + 0.4) if title else 0
    needed = max(needed, 3.2 if with_links else 0)
    right += max(0.0, needed - width)
    width = max(width, needed)
    top = 0.15 + (lean + 0.2 if turned else 0.3) + (top_of(title, width) - 0.15 if title else 0)
    bottom = 0.5 if with_links else 0.2
    height = max(height, 1.0 / rows)
    return {
        "size": (width, bottom + rows * height + top),
        "cell": (cell, height),
        "margins": (left, right, bottom, top),
        "turned": turned,
        "font": font,
    }


def _write_weights(axes, weights):
    shades = colormaps[WEIGHTS_MAP]
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= WRITTEN_FROM:
            write(axes, column, row, f"{weight:.2f}", SMALL, color="white" if is_dark(shades(weight)) else BLACK)


def _alignment_key(figure, image, layout, with_links):
    """The colour bar to the right, and below what the outlines mean."""
    width, height = layout["size"]
    left, right, bottom, top = layout["margins"]
    start = (width - right + 0.2) / width
    bar = figure.colorbar(
        image,
        cax=figure.add_axes((start, bottom / height, 0.18 / width, 1 - (bottom + top) / height)),
        ticks=[0, 0.5, 1],
    )
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    bar.set_label("weight", fontsize=LABEL)
    if with_links:
        box = Rectangle((left / width, 0.14 / height), 0.3 / width, 0.22 / height, transform=figure.transFigure)
        box.set(facecolor="none", edgecolor=RED, linewidth=2.6)
        figure.add_artist(box)
        look = {"ha": "left", "va": "center", "fontsize": LABEL}
        figure.text((left + 0.4) / width, 0.25 / height, "gold alignment", **look)


# One step of decoding

STEP_WIDTH, MARGIN = 11.0, 1.25  # inches; the margin holds the names of the rows
ROOM = STEP_WIDTH - MARGIN - 0.15
WORD_ROW = 0.46
START = "<start>"  # stands in for the translation before its first word


def decoding_step(source, weights, said, choices, title=""):
    """One step of a decoder: where it looks in the source, what it has said, and what it might say next.

    weights (sources,) sum to 1; None for a decoder that has the last state of the encoder only. The last of the words
    `said` is the one that the decoder has just read. choices: up to five (word, probability), likeliest first.
    """
    source, said = [short(word) for word in source], [short(word) for word in said]
    if not source:
        raise ValueError("expected at least one source word, got none")
    if weights is not None:
        weights = whole_rows(weights)
        if weights.shape != (len(source),):
            raise ValueError(
                f"expected one weight for each of {len(source)} source words, got the shape {weights.shape}"
            )
    choices = checked_choices(choices)
    rows, said_rows = even_rows(source), in_rows(said or [START])
    bar = 0.0 if weights is None else 1.0 if len(rows) == 1 else 0.7
    source_height = len(rows) * (bar + (0.28 if bar else 0) + WORD_ROW) + (0.75 if weights is None else 0)
    said_height = WORD_ROW * max(_rows_to_keep(source), len(said_rows))
    top = top_of(title, STEP_WIDTH)
    height = top + source_height + said_height + 0.4 * len(choices) + 0.6
    figure, axes = sheet(STEP_WIDTH, height)
    _draw_source(axes, rows, source, weights, height - top, bar)
    y = height - top - source_height - 0.2
    _draw_said(axes, said_rows, said, y)
    _draw_choices(axes, choices, y - said_height - 0.2)
    write_title(figure, title)
    return figure


def checked_choices(choices):
    choices = [tuple(choice) for choice in choices]
    if not 1 <= len(choices) <= 5 or any(len(choice) != 2 for choice in choices):
        raise ValueError(f"expected one to five choices (word, probability), got {choices}")
    chances = as_array([chance for _, chance in choices], "probabilities")
    if chances.min() < 0 or chances.sum() > 1.001:
        raise ValueError(f"expected probabilities of at least 0 that sum to 1 at most, got {chances.tolist()}")
    if (np.diff(chances) > 0).any():
        raise ValueError(f"expected the likeliest word first, got the probabilities {chances.tolist()}")
    return [(short(word), chance) for (word, _), chance in zip(choices, chances, strict=True)]


def word_width(word):
    return max(0.5, inches(word, FONT) + 0.18)


def in_rows(words, room=ROOM):
    """Rows of (place, centre, width) in inches that hold all the words in order, each row at most `room` wide."""
    rows, left = [[]], 0.0
    for place, word in enumerate(words):
        width = word_width(word)
        if rows[-1] and left + width > room:
            rows.append([])
            left = 0.0
        rows[-1].append((place, MARGIN + left + width / 2, width))
        left += width
    return rows


def even_rows(words):
    """As few rows as `in_rows` has, but of about the same width: no last word alone in a row of its own."""
    rows = in_rows(words)
    rooms = np.linspace(sum(map(word_width, words)) / len(rows), ROOM, 20)
    return next((tried for tried in (in_rows(words, room) for room in rooms) if len(tried) == len(rows)), rows)


def _rows_to_keep(source):
    """Rows kept free for a translation a little longer than its source, so the picture does not jump from step to step."""
    return int(np.ceil(1.15 * sum(map(word_width, source)) / ROOM))


def _draw_source(axes, rows, source, weights, y, bar):
    """The source from y downwards: over each word a bar as high as its weight, or below all of them the last state."""
    y += WORD_ROW / 2
    for number, row in enumerate(rows):
        y -= bar + (0.28 if bar else 0) + WORD_ROW
        if number == 0:
            write(axes, 0.15, y, "source", LABEL, ha="left", color=GREY)
        for place, x, width in row:
            most = weights is not None and weights[place] == weights.max()
            write(axes, x, y, source[place], FONT, fontweight="bold" if most else "normal")
            if weights is not None:
                _draw_weight(axes, x, y + 0.2, min(width - 0.14, 0.5), bar, weights[place])
    if weights is None:
        _, x, _ = rows[-1][-1]
        text = "only the last state"
        width = inches(text, FONT) + 0.4
        middle = min(max(x, MARGIN + width / 2), STEP_WIDTH - 0.15 - width / 2)
        draw_arrow(axes, (x, y - 0.16), (x, y - 0.5), RED)
        draw_box(axes, middle, y - 0.7, width, 0.4, text, PALE_RED, RED)


def _draw_weight(axes, x, base, width, bar, weight):
    """A bar in front of the pale bar that a weight of 1 would have."""
    axes.add_patch(Rectangle((x - width / 2, base), width, bar, facecolor="#F0F0F0"))
    axes.add_patch(Rectangle((x - width / 2, base), width, bar * weight, facecolor=COLOURS["weights"]))
    if weight >= WRITTEN_FROM:
        write(axes, x, base + bar + 0.03, f"{weight:.2f}", SMALL, va="bottom")


def _draw_said(axes, rows, said, y):
    """The translation so far; the word that the decoder has just read is in a box, at first the start token."""
    write(axes, 0.15, y - WORD_ROW / 2, "said so far", LABEL, ha="left", color=GREY)
    words = said or [START]
    for number, row in enumerate(rows):
        for place, x, width in row:
            height = y - WORD_ROW * (number + 0.5)
            if place == len(words) - 1:
                draw_box(axes, x, height, width - 0.04, 0.36, words[place], PALE_BLUE, BLUE)
            else:
                write(axes, x, height, words[place], FONT)


def _draw_choices(axes, choices, y):
    """A lying bar for each word that may come next; the first, which greedy decoding takes, in the colour of outputs."""
    write(axes, 0.15, y - 0.2, "next word", LABEL, ha="left", color=GREY)
    left = MARGIN + max(1.6, max(inches(word, FONT, "bold") for word, _ in choices) + 0.15)
    full = STEP_WIDTH - left - 0.9
    for number, (word, chance) in enumerate(choices):
        height, first = y - 0.4 * number - 0.2, number == 0
        write(axes, left - 0.12, height, word, FONT, ha="right", fontweight="bold" if first else "normal")
        shade = COLOURS["output"] if first else "#B5B5B5"
        axes.add_patch(Rectangle((left, height - 0.14), full * chance, 0.28, facecolor=shade))
        write(axes, left + full * chance + 0.08, height, percent(chance), LABEL, ha="left")


# Word vectors


def neighbours(words, points, groups, title):
    """Word vectors as points in the plane, with the words beside them; colour and marker tell the groups.

    words (n,), points (n, 2), groups (n,) names. One scale for both directions: a distance is the same whichever way.
    """
    points = as_array(points, "the points")
    if points.ndim != 2 or points.shape[1:] != (2,) or not len(points):
        raise ValueError(f"expected points of the shape (words, 2), got {points.shape}")
    words = [short(word) for word in checked_labels(words, len(points), "words")]
    groups = checked_labels(groups, len(points), "group names")
    names = list(dict.fromkeys(groups))
    if len(names) > len(LOOKS):
        raise ValueError(f"expected at most {len(LOOKS)} groups, which can still be told apart, got {len(names)}")
    margin = 0.6 + max(inches(name, LABEL) for name in names)
    width = 8.2 + margin
    top = top_of(title, width)
    figure, axes = sheet(width, 6.1 + top)
    area = (0.15, 0.15, width - margin, 6.0)  # left, bottom, right, top
    axes.add_patch(Rectangle(area[:2], area[2] - area[0], area[3] - area[1], fill=False, edgecolor=PALE))
    spots = fitted(points, area)
    for number, name in enumerate(names):
        shade, marker, _ = LOOKS[number]
        mine = np.array([group == name for group in groups])
        axes.plot(*spots[mine].T, marker, color=shade, markersize=8, markeredgecolor="white", zorder=5)
        height = area[3] - 0.2 - 0.34 * number
        axes.plot([area[2] + 0.2], [height], marker, color=shade, markersize=9)
        write(axes, area[2] + 0.36, height, name, LABEL, ha="left")
    for word, (x, y), (left, bottom, right, upper) in zip(words, spots, place_labels(words, spots, area), strict=True):
        middle = ((left + right) / 2, (bottom + upper) / 2)
        near = (min(max(x, left), right), min(max(y, bottom), upper))
        if np.hypot(near[0] - x, near[1] - y) > 0.15:  # too far to be read as its own
            axes.plot([x, near[0]], [y, near[1]], color=GREY, linewidth=0.8, zorder=2)
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.5}
        write(axes, *middle, word, LABEL, zorder=4, bbox=behind)
    write_title(figure, title)
    return figure


def fitted(points, area):
    """The points in inches, in the middle of the area, stretched alike in both directions; room for words at the edges."""
    left, bottom, right, top = area
    room = np.array([right - left - 1.6, top - bottom - 0.7])
    low, high = points.min(0), points.max(0)
    spread = (high - low) / room
    unit = spread.max() or 1.0
    return (points - (low + high) / 2) / unit + [(left + right) / 2, (bottom + top) / 2]


def place_labels(words, spots, area):
    """A box (left, bottom, right, top) for each word near its spot, where it covers the least of what is there already."""
    sizes = np.array([(inches(word, LABEL) + 0.05, 0.22) for word in words])
    marks = np.concatenate([spots - 0.08, spots + 0.08], 1)
    gaps = np.linalg.norm(spots[:, None] - spots[None], axis=-1)
    crowded = np.argsort((gaps < 0.8).sum(1), kind="stable")  # those with room choose last: they can go anywhere
    boxes = np.full((len(words), 4), np.nan)
    for place in crowded[::-1]:
        taken = boxes[~np.isnan(boxes[:, 0])]
        choices = _around(spots[place], sizes[place])
        cost = 12 * _covered(choices, taken) + 12 * _covered(choices, np.delete(marks, place, 0))
        inside = np.stack(
            [choices[:, 0] - area[0], choices[:, 1] - area[1], area[2] - choices[:, 2], area[3] - choices[:, 3]]
        )
        cost += 100 * np.clip(0.04 - inside, 0, None).sum(0)
        cost += 0.01 * np.arange(len(choices))  # the first ones are the nearest
        boxes[place] = choices[cost.argmin()]
    return boxes


def _around(spot, size):
    """Boxes of one size around a spot: to the right, left, above, below, at the corners, then the same farther away."""
    width, height = size
    found = []
    for away in (0.08, 0.2, 0.34, 0.55, 0.8, 1.1):
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            x = spot[0] + across * (away + width / 2)
            y = spot[1] + up * (away + height / 2)
            if across and up:  # at a corner the box may come closer
                x, y = x - across * away * 0.5, y - up * away * 0.3
            found.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    return np.array(found)


def _covered(boxes, others):
    """How much of `others` each box covers, in square inches."""
    if not len(others):
        return np.zeros(len(boxes))
    across = np.minimum(boxes[:, None, 2], others[None, :, 2]) - np.maximum(boxes[:, None, 0], others[None, :, 0])
    up = np.minimum(boxes[:, None, 3], others[None, :, 3]) - np.maximum(boxes[:, None, 1], others[None, :, 1])
    return (np.clip(across, 0, None) * np.clip(up, 0, None)).sum(1)


# The ladder


def ladder_bars(rows, title):
    """(name, median, low, high) in % for each model: a dot at the median, a line from the lowest seed to the highest."""
    rows = [checked_rung(row) for row in rows]
    if not 1 <= len(rows) <= 12:
        raise ValueError(f"expected one to twelve rows (name, median, low, high), got {len(rows)}")
    left = 0.3 + max(inches(name, LABEL) for name, *_ in rows)
    numbers = [
        f"{median:.1f}" if low == high else f"{median:.1f}  ({low:.1f} to {high:.1f})" for _, median, low, high in rows
    ]
    right = 0.35 + max(inches(text, LABEL) for text in numbers)
    width = max(9.0, left + right + 4.0)
    top = top_of(title, width) + 0.05
    figure, axes = canvas(width, top + 0.85 + 0.5 * len(rows), margins=(left, right, 0.75, top))
    for place, ((_, median, low, high), text) in enumerate(zip(rows, numbers, strict=True)):
        shade, marker, _ = LOOKS[place % len(LOOKS)]
        axes.plot(
            [low, high],
            [place, place],
            color=shade,
            marker="|",
            markersize=15,
            markeredgewidth=2.5,
            linewidth=4,
            alpha=0.6,
            clip_on=False,
        )
        axes.plot([median], [place], marker, color=shade, markersize=9, clip_on=False, zorder=3)
        spot = {"transform": axes.get_yaxis_transform()}
        write(axes, 1 + 0.25 / (width - left - right), place, text, LABEL, ha="left", **spot)
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.set(xlim=(0, 100), ylim=(len(rows) - 0.5, -0.5), xlabel="exactly right in % (dot: median, line: all seeds)")
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="both")
    write_title(figure, title)
    return figure


def checked_rung(row):
    row = tuple(row)
    if len(row) != 4:
        raise ValueError(f"expected a row (name, median, low, high), got {row}")
    numbers = as_array(row[1:], f"the numbers of {row[0]}")
    median, low, high = numbers
    if not 0 <= low <= median <= high <= 100:
        raise ValueError(
            f"expected 0 <= low <= median <= high <= 100 for {row[0]}, got median {median:g}, low {low:g}, high {high:g}"
        )
    return str(row[0]), float(median), float(low), float(high)

"""The figures of lesson 03: arrays and strings in, a figure out."""

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator

from utils.plots.figures import chart, signed, write_title
from utils.plots.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_RED,
    draw_arrow,
    draw_box,
    draw_lines,
    name_lines,
    plain_ticks,
    sheet,
    short,
    top_of,
    write,
)
from utils.plots.style import (
    BLUE,
    FONT,
    GREY,
    PALE,
    RED,
    SMALL,
    WEIGHTS_MAP,
    WIDEST,
    as_array,
    ink_on,
)
from utils.plots.text import inches

WRITTEN_FROM = 0.05  # smaller weights carry no number: they would only hide the others


# Kinds of sequence task

PITCH, CELL = 1.1, (0.94, 0.4)  # inches
LEVELS = {"input": 0.25, "state": 0.95, "output": 1.65}
FACES = {"input": (PALE_BLUE, BLUE), "state": ("#EEEEEE", GREY), "output": (PALE_RED, RED)}
TASKS = (  # name, example, row and left edge, inputs and outputs as {column: word}
    ("one to one", "image to label", 1, 0.2, {0: "image"}, {0: "cat"}),
    ("one to many", "image to caption", 1, 2.65, {0: "image"}, {0: "a", 1: "black", 2: "cat"}),
    ("many to one", "review to sentiment", 1, 7.2, {0: "not", 1: "bad", 2: "at all"}, {2: "positive"}),
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
        7.2,
        {0: "the", 1: "black", 2: "cat"},
        {0: "article", 1: "adjective", 2: "noun"},
    ),
)


def sequence_tasks():
    """The five kinds of sequence task: inputs, hidden states and outputs over time."""
    figure, axes = sheet(10.5, 6.2)
    for name, example, row, left, inputs, outputs in TASKS:
        _task(axes, left, 0.15 + 2.75 * row, name, example, inputs, outputs)
    for index, kind in enumerate(FACES):
        draw_box(axes, 7.2 + CELL[0] / 2 + index * PITCH, 5.95, *CELL, kind, *FACES[kind], size=LABEL)
    write_title(figure, "Sequence tasks differ in which side is a sequence")
    return figure


def _task(axes, left, bottom, name, example, inputs, outputs):
    count = 1 + max(*inputs, *outputs)
    centers = [left + CELL[0] / 2 + PITCH * column for column in range(count)]
    height = {kind: bottom + level for kind, level in LEVELS.items()}
    half = CELL[1] / 2
    write(axes, left, bottom + 2.42, name, FONT + 1, ha="left", fontweight="bold")
    write(axes, left, bottom + 2.12, example, LABEL, ha="left", color=GREY)
    for column, x in enumerate(centers):
        draw_box(axes, x, height["state"], *CELL, "", *FACES["state"])
        if column:
            draw_arrow(axes, (centers[column - 1] + CELL[0] / 2, height["state"]), (x - CELL[0] / 2, height["state"]))
        if column in inputs:
            draw_box(axes, x, height["input"], *CELL, inputs[column], *FACES["input"], size=LABEL)
            draw_arrow(axes, (x, height["input"] + half), (x, height["state"] - half))
        if column in outputs:
            draw_box(axes, x, height["output"], *CELL, outputs[column], *FACES["output"], size=LABEL)
            draw_arrow(axes, (x, height["state"] + half), (x, height["output"] - half))


# Lines with their names at the end


def by_length(curves, title):
    """{name: (lengths, exact match in %)}: a line for each model over the source length."""
    figure, axes = chart(title)
    for (name, (lengths, exact)), (shade, marker, line) in zip(curves.items(), LOOKS, strict=False):
        axes.plot(lengths, exact, marker=marker, linestyle=line, color=shade, clip_on=False, zorder=3, label=name)
    axes.set(xlabel="tokens in the source sentence", ylabel="exact match in %", ylim=(0, 104))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=14))
    if len(curves) > 1:
        name_lines(axes)
    return figure


def independent_errors(lengths, exact, accuracies, title):
    """Exact match in % over the target length, and a^n for each per-token accuracy {name: a}: what independent errors give."""
    figure, axes = chart(title)
    shade, marker, line = LOOKS[0]
    axes.plot(lengths, exact, marker=marker, linestyle=line, color=shade, clip_on=False, zorder=3, label="measured")
    for (name, accuracy), (shade, _, _) in zip(accuracies.items(), LOOKS[1:], strict=False):
        expected = 100 * accuracy ** as_array(lengths)
        axes.plot(lengths, expected, linestyle="--", color=shade, label=f"a^n, {name}")
    axes.set(xlabel="tokens of the reference, <eos> included", ylabel="exact match in %", ylim=(0, 104))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=14))
    name_lines(axes)
    return figure


def influence(curves, title):
    """{name: gradient norms (distances,)} over the distance, entry k for a token k positions back, on a logarithmic scale."""
    figure, axes = chart(title)
    axes.set_yscale("log")
    every = max(1, max(map(len, curves.values())) // 12)  # markers at every position would hide the line
    for (name, values), (shade, marker, line) in zip(curves.items(), LOOKS, strict=False):
        axes.plot(as_array(values), linestyle=line, color=shade, marker=marker, markevery=every, label=name)
    axes.set(xlabel="distance in tokens", ylabel="influence (last token = 1)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    plain_ticks(axes.yaxis)
    name_lines(axes)
    return figure


def times(lengths, curves, title, fit_from=None):
    """{name: seconds (lengths,)} over the length, both on logarithmic scales, with the exponent of the fitted power law.

    An exponent of 1 is linear time, 2 quadratic, 0 constant. `fit_from` is the first length of the fit: short inputs show
    only the overhead of a call.
    """
    lengths = as_array(lengths)
    milliseconds = {name: 1000 * as_array(seconds) for name, seconds in curves.items()}
    counted = lengths >= (fit_from or 0)
    figure, axes = chart(title)
    axes.set(xscale="log", yscale="log", ylabel="time in ms")
    labels = {
        name: f"{name}\nslope {signed(exponent(lengths[counted], row[counted]), 1)}"
        for name, row in milliseconds.items()
    }
    draw_lines(axes, lengths, {labels[name]: row for name, row in milliseconds.items()})
    axes.set_xlabel("length in tokens" + (f" (slopes from {fit_from:g} tokens on)" if fit_from else ""))
    every = np.concatenate(list(milliseconds.values()))
    steps = (1.0, 2.0, 5.0) if every.max() < 30 * every.min() else (1.0,)  # less than two powers of ten are visible
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    plain_ticks(axes.yaxis)
    plain_ticks(axes.xaxis, lengths)
    name_lines(axes)
    return figure


def exponent(lengths, seconds):
    """The exponent p of the power law seconds ~ length^p, by least squares of the logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


# Convolutions


def receptive_field(layers, kernel):
    """Receptive field of one output of a stack of convolutions: layers * (kernel - 1) + 1 inputs."""
    half = kernel // 2
    reach = half * layers
    field, edge = 2 * reach + 1, reach + 2  # two more positions on each side, outside the field
    title = f"{layers} layers of width {kernel}: a receptive field of {field} tokens"
    width, step, rise, bottom = 9.5, 0.62, 0.85, 0.95  # inches
    figure, axes = sheet(width, bottom + rise * layers + 0.35 + top_of(title, width))
    middle = 1.55 + (width - 1.75) / 2
    for layer in range(layers + 1):
        y, seen = bottom + rise * layer, half * (layers - layer)
        name = "input" if layer == 0 else "output" if layer == layers else f"layer {layer}"
        write(axes, 0.15, y, name, LABEL, ha="left")
        shade = BLUE if layer == 0 else RED if layer == layers else GREY
        for near, far, tint in ((0, seen, shade), (seen + 1, edge, PALE)):
            xs = [middle + step * offset for offset in range(-edge, edge + 1) if near <= abs(offset) <= far]
            axes.plot(xs, [y] * len(xs), "o", color=tint, markersize=13, zorder=3)
        if layer:
            lines = [
                [(middle + step * position, y), (middle + step * (position + offset), y - rise)]
                for position in range(-seen, seen + 1)
                for offset in range(-half, half + 1)
            ]
            axes.add_collection(LineCollection(lines, colors=GREY, linewidths=1.1, alpha=0.7, zorder=2))
    ends = [middle - step * (reach + 0.3), middle + step * (reach + 0.3)]
    axes.plot(ends, [bottom - 0.3] * 2, color=BLUE, linewidth=3)
    count = f"{field} = {layers} × ({kernel} \N{MINUS SIGN} 1) + 1"
    write(axes, middle, bottom - 0.6, count, FONT, color=BLUE, fontweight="bold")
    write_title(figure, title)
    return figure


# Alignment


def alignment(source, target, weights, links=(), title=""):
    """Attention weights as a heat map, a row for each target token and a column for each source token.

    weights (targets, sources), rows sum to 1. links: gold links (source position, target position), drawn as outlines.
    """
    source, target = [short(word) for word in source], [short(word) for word in target]
    weights = as_array(weights)
    columns, rows = len(source), len(target)
    beside = inches(max(target, key=len), LABEL) + 1.5  # inches
    cell = (
        0.6 if columns <= 14 else min(0.5, (WIDEST - beside) / columns)
    )  # wide enough for numbers in a short sentence
    row = 0.4 if rows <= 14 else max(0.22, min(0.32, 6.5 / rows))
    width = max(6.0, beside + columns * cell)
    lean = 0.71 * max(inches(word, LABEL) for word in source)
    height = rows * row + lean + top_of(title, width) + (0.8 if len(links) else 0.4)
    figure, axes = chart(title, width, height)
    image = axes.imshow(weights, cmap=WEIGHTS_MAP, vmin=0, vmax=1, aspect="auto")
    turn = {"rotation": 45, "ha": "left", "rotation_mode": "anchor", "parse_math": False}
    axes.set_xticks(range(columns), source, fontsize=LABEL, **turn)
    axes.set_yticks(range(rows), target, fontsize=LABEL, parse_math=False)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    if columns <= 14:
        _write_weights(axes, weights)
    bar = figure.colorbar(image, ax=axes, ticks=[0, 0.5, 1], aspect=25, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("weight", fontsize=LABEL)
    for across, down in links:
        for shade, line in (("white", 4.5), (RED, 2.6)):  # a white rim keeps the outline visible on every color
            outline = Rectangle((across - 0.42, down - 0.38), 0.84, 0.76, fill=False, edgecolor=shade, linewidth=line)
            axes.add_patch(outline)
    if len(links):
        outline.set_label("gold alignment")
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0), handlelength=1.4)
    return figure


def _write_weights(axes, weights):
    shades = colormaps[WEIGHTS_MAP]
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= WRITTEN_FROM:
            write(axes, column, row, f"{weight:.2f}", SMALL, color=ink_on(shades(weight)))

"""The figures of lesson 05: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator

from utils.plots.figures import chart, effect_colors, points, write_title
from utils.plots.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_GREEN,
    PALE_ORANGE,
    PALE_RED,
    draw_arrow,
    draw_box,
    draw_lines,
    draw_strong_arrow,
    name_lines,
    plain_ticks,
    sheet,
    top_of,
    write,
)
from utils.plots.style import (
    BLUE,
    COLORS,
    FONT,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PINK,
    RED,
    SKY,
    SMALL,
    WEIGHTS_MAP,
    WIDEST,
    as_array,
)
from utils.plots.text import inches

HEAD_SHADES = (BLUE, ORANGE, GREEN, PINK, SKY, RED, GREY, "#8C510A")  # a color for each head, the same in all panels
LEVELS = 15  # of a loss seen from above, the same in all panels


# One softmax, two positions


def one_or_two_heads(tokens, values, first, second, title):
    """Left: one head attends half to each of two positions and returns their mean. Right: two heads return both values.

    tokens: letters; values: the number that each of them carries; first, second: the positions to attend to, in this order.
    """
    size = 0.42
    row = len(tokens) * (size + 0.06) - 0.06
    half = row + 1.15  # beside the row stands what it is
    width = 2 * half + 0.6
    figure, axes = sheet(width, 4.75 + top_of(title, width))
    one, two = (f"{values[position]:g}" for position in (first, second))
    mean = f"{(values[first] + values[second]) / 2:g}"
    for side, name in enumerate(("one head", "two heads")):
        left = 0.2 + side * (half + 0.2)
        middle = left + half / 2
        centers = middle - row / 2 + size / 2 + (size + 0.06) * np.arange(len(tokens))
        write(axes, middle, 4.55, name, FONT + 1, fontweight="bold")
        for position, (x, token) in enumerate(zip(centers, tokens, strict=True)):
            seen = position in (first, second)
            draw_box(axes, x, 0.45, size, 0.42, token, "white", COLORS["key"], fontweight="bold" if seen else "normal")
            draw_box(
                axes, x, 1.0, size, 0.42, f"{values[position]:g}", PALE_GREEN if seen else "white", COLORS["value"]
            )
        for y, word in ((0.45, "token"), (1.0, "value")):
            write(axes, centers[0] - size / 2 - 0.1, y, word, LABEL, ha="right", color=GREY)
        if side == 0:
            _one_head(axes, middle, centers[[first, second]], mean, one, two)
        else:
            _two_heads(axes, middle, centers[[first, second]], one, two)
    axes.plot([width / 2] * 2, [0.25, 4.6], color=PALE, linewidth=1.5)
    write_title(figure, title)
    return figure


def _one_head(axes, middle, xs, mean, one, two):
    for x in xs:
        axes.plot([x, middle], [1.22, 2.42], color=BLUE, linewidth=4, solid_capstyle="round")
        _weight(axes, (2 * x + middle) / 3, 1.62, "½")
    draw_box(axes, middle, 2.65, 1.9, 0.48, "one softmax", PALE_BLUE, BLUE)
    draw_arrow(axes, (middle, 2.9), (middle, 3.3), RED)
    draw_box(axes, middle, 3.55, 0.9, 0.48, mean, PALE_RED, RED, fontweight="bold")
    words = f"({one} + {two}) / 2, and ({two} + {one}) / 2 is the same"
    write(axes, middle, 4.05, words, LABEL)


def _two_heads(axes, middle, xs, one, two):
    for x, value, name, side, shade in zip(xs, (one, two), "12", (-1, 1), (BLUE, ORANGE), strict=True):
        at = middle + side * 1.15
        axes.plot([x, at], [1.22, 2.42], color=shade, linewidth=6, solid_capstyle="round")
        _weight(axes, (2 * x + at) / 3, 1.62, "1")
        draw_box(axes, at, 2.65, 1.3, 0.48, f"head {name}", PALE_BLUE if shade == BLUE else PALE_ORANGE, shade)
        slot = middle + (-0.46 if name == "1" else 0.46)
        draw_arrow(axes, (at, 2.9), (slot, 3.3), RED)
        draw_box(axes, slot, 3.55, 0.9, 0.48, value, PALE_RED, RED, fontweight="bold")
    write(axes, middle, 4.05, f"first {one}, then {two}: concatenated, both are kept", LABEL)


def _weight(axes, x, y, text):
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    write(axes, x, y, text, FONT, fontweight="bold", bbox=behind)


# Shapes


def split_shapes(batch, length, dim, heads, title):
    """(batch, length, dim) to (batch, heads, length, dim / heads) as colored blocks: a color for each head."""
    head = dim // heads
    shift = 0.12 * (batch - 1)
    space = 0.1 + shift  # between the blocks of the heads
    width = WIDEST
    cell = (width - 0.8 - 2 * 1.15 - 3 * shift - (heads - 1) * space) / (3 * dim)
    tall, wide, pile = length * cell, dim * cell, dim * cell + (heads - 1) * space
    middle = 1.35 + (tall + shift) / 2
    figure, axes = sheet(width, 1.35 + tall + shift + 0.85 + top_of(title, width))
    whole, split = f"({batch}, {length}, {dim})", f"({batch}, {heads}, {length}, {head})"
    panels = (
        ("the tokens", whole, wide, "split"),
        ("one block for each head", split, pile, "merge"),
        ("concatenated again", whole, wide, ""),
    )
    free = (width - 0.8 - 2 * wide - pile - 3 * shift) / 2
    left = 0.4
    for number, (name, shape, span, then) in enumerate(panels):
        x = left + (span + shift) / 2
        if number == 1:
            for index in range(heads):
                start = left + index * (head * cell + space)
                _block(axes, start, 1.35, [index] * head, length, cell, batch)
                write(axes, start + head * cell / 2, 1.12, str(index + 1), LABEL)
        else:
            _block(axes, left, 1.35, np.repeat(np.arange(heads), head), length, cell, batch)
        write(axes, x, 1.35 + tall + shift + 0.35, name, FONT, fontweight="bold")
        write(axes, x, 0.62, shape, FONT + 1, fontweight="bold", color=BLUE)
        left += span + shift
        if then:
            draw_arrow(axes, (left + 0.15, middle), (left + free - 0.3, middle), "black")
            write(axes, left + free / 2 - 0.08, middle + 0.25, then, LABEL)
        left += free
    write(axes, 0.4 + wide / 2, 1.12, "features", LABEL, color=GREY)
    write(axes, 0.2, 1.35 + tall / 2, "tokens", LABEL, color=GREY, rotation=90)
    words = f"batch {batch}, {length} tokens, {heads} heads of width {dim} / {heads} = {head}; no number is changed"
    write(axes, width / 2, 0.2, words, LABEL)
    write_title(figure, title)
    return figure


def _block(axes, left, bottom, shades, length, cell, batch):
    """A matrix for each sequence of the batch; a column for each feature."""
    for sentence in reversed(range(batch)):
        x, y = left + 0.12 * sentence, bottom + 0.12 * sentence
        for column, shade in enumerate(shades):
            look = {"facecolor": HEAD_SHADES[shade], "edgecolor": "white", "linewidth": 1.0}
            for row in range(length):
                spot = (x + column * cell, y + row * cell)
                axes.add_patch(Rectangle(spot, cell, cell, alpha=1 if sentence == 0 else 0.45, **look))


# Costs


def head_costs(heads, panels, title):
    """Small panels over the number of heads: {panel: {name: numbers (heads,)}}, on logarithmic scales."""
    figure, axes = chart(title, WIDEST, 4.9, columns=len(panels))
    styles = iter(LOOKS)  # every line has a style of its own
    for cell, (panel, curves) in zip(axes, panels.items(), strict=True):
        cell.set_xscale("log", base=2)
        cell.set_yscale("log")
        for name, values in curves.items():
            shade, marker, line = next(styles)
            cell.plot(heads, values, marker=marker, linestyle=line, color=shade, label=name)
        cell.set(xlabel="heads", ylabel=panel)
        cell.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        plain_ticks(cell.yaxis)
        plain_ticks(cell.xaxis, heads)
        if len(curves) > 1:
            name_lines(cell)
    return figure


# Lines with a spread over the seeds


def spread(x, curves, title, xlabel, ylabel, *, log_x=False, log_y=False):
    """{name: (points, seeds)} as the median over x, in a band from the lowest seed to the highest."""
    curves = {name: as_array(values) for name, values in curves.items()}
    figure, axes = chart(title, 9.5, 5.1)
    axes.set(xscale="log" if log_x else "linear", yscale="log" if log_y else "linear", xlabel=xlabel, ylabel=ylabel)
    middle = {name: np.median(values, 1) for name, values in curves.items()}
    bands = {name: (values.min(1), values.max(1)) for name, values in curves.items()}
    draw_lines(axes, x, middle, bands, markevery=max(1, len(x) // 12))
    if log_x:
        plain_ticks(axes.xaxis, x)
    if log_y:
        axes.yaxis.set_major_locator(LogLocator(numticks=8))
        plain_ticks(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    name_lines(axes)
    return figure


def divergence(steps, curves, title, ylabel):
    """How different, or how similar, the heads are through training: {name: (steps, seeds)}."""
    return spread(steps, curves, title, "training steps", ylabel)


def training_curves(steps, curves, title, ylabel):
    """{name: (steps, seeds)} of a loss through training, such as pre-norm against post-norm."""
    return spread(steps, curves, title, "training steps", ylabel)


def gradient_depth(depths, curves, title, ylabel):
    """{name: (depths, seeds)} of gradient norms over the number of layers, both on logarithmic scales."""
    return spread(depths, curves, title, "layers", ylabel, log_x=True, log_y=True)


# Encoder and memory network


def story_errors(rows, title):
    """Error on new stories against the number of training questions, a panel for each task, a line for each model.

    rows: with task, model, questions, and errors in %, one for each seed. Median, in a band from the lowest seed to the highest.
    """
    tasks, models = (list(dict.fromkeys(row[name] for row in rows)) for name in ("task", "model"))
    figure, panels = chart(title, WIDEST, 5.4, columns=len(tasks), sharey=True)
    for axes, task in zip(panels, tasks, strict=True):
        for model, (shade, marker, line) in zip(models, LOOKS, strict=False):
            own = sorted(
                (row["questions"], row["errors"]) for row in rows if (row["task"], row["model"]) == (task, model)
            )
            sizes, errors = [size for size, _ in own], np.array([values for _, values in own])
            axes.plot(sizes, np.median(errors, 1), color=shade, marker=marker, linestyle=line, label=model, zorder=3)
            axes.fill_between(sizes, errors.min(1), errors.max(1), color=shade, alpha=0.2, linewidth=0)
        axes.set(xscale="log", ylim=(-2, 80), xlabel="training questions")
        axes.set_xlim(800, 14_000)
        plain_ticks(axes.xaxis, sorted({row["questions"] for row in rows}))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_title(f"task {task}", fontsize=FONT + 1, fontweight="normal")
    panels[0].set_ylabel("error on new stories in %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(models))
    return figure


# Ablating heads


def removal_effects(effects, title):
    """The change of accuracy when one head alone is ablated, in points, as colored tiles; a panel for each seed.

    effects (seeds, layers, heads) between -1 and 1, below 0 where the head is needed. One color scale for all.
    """
    effects = as_array(effects)
    seeds, layers, heads = effects.shape
    faces, inks = effect_colors(effects.reshape(seeds * layers, heads))
    figure, panels = chart(title, WIDEST, 1.5 + 0.5 * layers, columns=seeds, sharey=True)
    for seed, axes in enumerate(panels):
        for layer, head in np.ndindex(layers, heads):
            row = seed * layers + layer
            look = {"facecolor": faces[row][head], "edgecolor": "#767676", "linewidth": 0.8}
            axes.add_patch(Rectangle((head - 0.5, layer - 0.5), 1, 1, **look))
            write(axes, head, layer, points(effects[seed, layer, head]), SMALL, color=inks[row][head])
        axes.set(xlim=(-0.5, heads - 0.5), ylim=(layers - 0.5, -0.5))
        axes.set_xticks(range(heads), [f"head {head + 1}" for head in range(heads)], fontsize=SMALL)
        axes.set_yticks(range(layers), [f"layer {layer + 1}" for layer in range(layers)])
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.grid(False)
        axes.spines[:].set_visible(False)
        axes.set_title(f"seed {seed + 1}", fontsize=FONT)
    figure.supxlabel("change of accuracy, in points, when this head alone is ablated", fontsize=LABEL, color=GREY)
    return figure


# Loss surfaces


def loss_surfaces(surfaces, span, title):
    """{name: losses (k, k)}, (first direction, second direction), seen from above, on one color scale.

    span: half the width of the grid, in units of the directions. A cross marks the trained model, a dot every local minimum:
    an inner point of the grid that is lower than all eight neighbors.
    """
    surfaces = {name: as_array(losses) for name, losses in surfaces.items()}
    low, high = min(map(np.min, surfaces.values())), max(map(np.max, surfaces.values()))
    levels = np.linspace(low - 1e-9, high + 1e-9, LEVELS)  # or rounding leaves the highest point without color
    figure, panels = chart(title, WIDEST, 5.6, columns=len(surfaces), sharey=True)
    for axes, (name, losses) in zip(panels, surfaces.items(), strict=True):
        line = np.linspace(-span, span, len(losses))
        image = axes.contourf(line, line, losses.T, levels=levels, cmap=WEIGHTS_MAP)
        axes.contour(line, line, losses.T, levels=levels, colors="black", linewidths=0.9, alpha=0.6)
        first, second = np.nonzero(_local_minima(losses))
        look = {"color": "white", "markeredgecolor": "black", "markeredgewidth": 1.5}
        axes.plot(line[first], line[second], "o", markersize=9, zorder=5, **look)
        # White on black: seen on every color.
        for shade, size, thick in (("black", 20, 6.5), ("white", 17, 3.0)):
            axes.plot([0], [0], "x", color=shade, markersize=size, markeredgewidth=thick, zorder=4)
        axes.set(aspect="equal", xlabel="first direction", xticks=[-span, 0, span], yticks=[-span, 0, span])
        axes.grid(False)
        axes.set_title(name, fontsize=FONT + 2, fontweight="normal")
    panels[0].set_ylabel("second direction")
    bar = figure.colorbar(image, ax=panels, label="loss", aspect=25, format="{x:g}", pad=0.01)
    bar.locator = MaxNLocator(nbins=7)
    bar.outline.set_visible(False)
    words = "cross: the trained model; dots: local minima, lower than all eight neighbors"
    figure.supxlabel(words, fontsize=LABEL, color="#444444")
    return figure


def _local_minima(losses):
    """(k, k) bool: True at inner points that are lower than their eight neighbors."""
    minima, size = np.zeros(losses.shape, dtype=bool), len(losses)
    neighbors = [
        losses[1 + down : size - 1 + down, 1 + right : size - 1 + right]
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if down or right
    ]
    minima[1:-1, 1:-1] = losses[1:-1, 1:-1] < np.min(neighbors, axis=0)
    return minima


# Layer normalization


def norm_axis(tokens, dim, title):
    """A grid of tokens and features: layer normalization takes the mean over one row, never over a column."""
    cell, count = 0.42, len(tokens)
    names, half = 0.35 + max(inches(token, LABEL) for token in tokens), 4.9
    width = 2 * half + 0.5
    figure, axes = sheet(width, 0.55 + count * cell + 0.95 + top_of(title, width))
    for side, (name, words, right) in enumerate(
        (("layer norm", "over the features of each token", True), ("not layer norm", "over the positions", False))
    ):
        left = side * (half + 0.25) + names
        bottom, chosen = 0.55, count // 2
        mark = "✓" if right else "✗"
        write(axes, left, bottom + count * cell + 0.68, f"{mark} {name}", FONT + 1, ha="left", fontweight="bold",
               color=GREEN if right else "#A84A00")  # fmt: skip
        write(axes, left, bottom + count * cell + 0.33, f"mean and variance {words}", LABEL, ha="left")
        for row, token in enumerate(tokens):
            y = bottom + (count - 1 - row) * cell
            write(axes, left - 0.12, y + cell / 2, token, LABEL, ha="right")
            for column in range(dim):
                marked = row == chosen if right else column == dim // 2
                face = (PALE_BLUE if right else PALE_RED) if marked else "#F4F4F4"
                look = {"facecolor": face, "edgecolor": "#B0B0B0", "linewidth": 0.8}
                axes.add_patch(Rectangle((left + column * cell, y), cell, cell, **look))
        if right:
            corner, size = (left, bottom + (count - 1 - chosen) * cell), (dim * cell, cell)
        else:
            corner, size = (left + (dim // 2) * cell, bottom), (cell, count * cell)
        look = {"edgecolor": BLUE if right else "#A84A00", "linewidth": 3.5, "linestyle": "-" if right else "--"}
        axes.add_patch(Rectangle(corner, *size, fill=False, zorder=4, **look))
        write(axes, left + dim * cell / 2, 0.28, f"{dim} features", LABEL, color=GREY)
    write_title(figure, title)
    return figure


# The encoder block

NORM, ATTENTION, FEED, SUM = "norm", "attention", "feed", "sum"
PARTS = {  # label, width, face and edge
    NORM: ("layer\nnorm", 1.0, PALE_ORANGE, "#7A5500"),
    ATTENTION: ("multi-head\nattention", 1.75, PALE_BLUE, BLUE),
    FEED: ("feed-\nforward", 1.4, PALE_GREEN, "#00694D"),
    SUM: ("+", 0.52, "white", "black"),
}
ORDERS = {  # the parts from input to output, and where each of the two skips leaves and arrives: before, at part number
    "pre": ((NORM, ATTENTION, SUM, NORM, FEED, SUM), ((0, 2), (3, 5))),
    "post": ((ATTENTION, SUM, NORM, FEED, SUM, NORM), ((0, 1), (3, 4))),
}
ORDER_WORDS = {
    "pre": ("pre-norm", "the norm is inside the branch: the skip connections are the identity"),
    "post": ("post-norm", "the norm comes after the addition: it is on every path"),
}


def encoder_block(dim, heads, hidden, title):
    """The encoder block from left to right, post-norm above and pre-norm below, with the sizes written into the shapes."""
    row, foot = 2.95, 0.45
    figure, axes = sheet(WIDEST, foot + row * len(ORDERS) + top_of(title, WIDEST) + 0.05)
    words = f"(b, n, {dim}) at every arrow: sequences, tokens, features"
    write(axes, WIDEST / 2, 0.27, words, FONT + 1, fontweight="bold")
    for index, order in enumerate(ORDERS):
        _block_row(axes, order, foot + row * index, (dim, heads, hidden))
    axes.plot([0.15, WIDEST - 0.15], [foot + row] * 2, color=PALE, linewidth=1.5)
    write_title(figure, title)
    return figure


def _block_row(axes, order, base, sizes):
    dim, heads, hidden = sizes
    parts, skips = ORDERS[order]
    name, words = ORDER_WORDS[order]
    write(axes, 0.2, base + 2.62, name, FONT + 4, ha="left", fontweight="bold")
    write(axes, 0.4 + inches(name, FONT + 4, "bold"), base + 2.61, words, FONT, ha="left", color="#333333")
    widths = np.array([PARTS[part][1] for part in parts])
    ends = 0.32  # the letter at each end
    space = (WIDEST - 0.3 - 2 * ends - widths.sum()) / (len(parts) + 1)
    lefts = 0.15 + ends + space + np.concatenate([[0], np.cumsum(widths + space)[:-1]])
    y = base + 1.05
    write(axes, 0.15 + ends / 2, y, "x", FONT + 8, fontweight="bold", style="italic")
    write(axes, WIDEST - 0.15 - ends / 2, y, "y", FONT + 8, fontweight="bold", style="italic")
    borders = [0.15 + ends, *lefts, WIDEST - 0.15 - ends]
    for index in range(len(parts) + 1):
        start = borders[0] if index == 0 else lefts[index - 1] + widths[index - 1]
        draw_strong_arrow(axes, [(start, y), (borders[index + 1], y)], "black")
    for left, part in zip(lefts, parts, strict=True):
        text, width, face, edge = PARTS[part]
        middle = left + width / 2
        if part == SUM:
            axes.add_patch(Circle((middle, y), width / 2, facecolor=face, edgecolor=edge, linewidth=2.2, zorder=3))
            axes.plot([middle - 0.14, middle + 0.14], [y, y], color="black", linewidth=3, zorder=4)
            axes.plot([middle, middle], [y - 0.14, y + 0.14], color="black", linewidth=3, zorder=4)
        else:
            draw_box(axes, middle, y, width, 0.95, text, face, edge, FONT + 4)
    for leaves, arrives in skips:
        # A skip leaves in the middle of an arrow, between two parts, and goes over everything up to its addition.
        start = borders[0] + 0.3 * space if leaves == 0 else lefts[leaves - 1] + widths[leaves - 1] + 0.3 * space
        end = lefts[arrives] + widths[arrives] / 2
        axes.plot([start], [y], "o", color=RED, markersize=10, zorder=5)
        draw_strong_arrow(axes, [(start, y), (start, y + 0.95), (end, y + 0.95), (end, y + 0.26)], RED)
        write(axes, (start + end) / 2, y + 1.16, "skip", FONT + 1, color="#A84A00")
    below = {
        ATTENTION: f"{heads} heads: (b, {heads}, n, {dim // heads})",
        FEED: f"{dim} → {hidden} → {dim}",
    }
    for left, part in zip(lefts, parts, strict=True):
        if part in below:
            write(axes, left + PARTS[part][1] / 2, base + 0.33, below[part], FONT + 1, color=PARTS[part][3])

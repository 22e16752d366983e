"""The figures of lesson 06: arrays and strings in, a figure out."""

import textwrap

import numpy as np
from matplotlib.patches import Circle, Rectangle

from utils.plots.figures import chart, write_title
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
    only_rows,
    plain_ticks,
    sheet,
    top_of,
    write,
)
from utils.plots.style import (
    BLUE,
    COLORS,
    DARK_RED,
    FONT,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    RED,
    SMALL,
    WEIGHTS_MAP,
    WIDEST,
    as_array,
)
from utils.plots.text import inches

DARK_ORANGE = "#8A5F00"  # the color of norms, dark enough for letters on white
PLUM = "#9C4A7C"  # embeddings
INK = "#333333"
BOS, EOS, PAD = "<bos>", "<eos>", "<pad>"


# The whole model, in inches from the lower left corner

STREAMS = {"encoder": 3.15, "decoder": 7.95}  # where the two streams go up
MATRIX = 2.7  # width of an embedding or output layer
BRANCH, BESIDE = 2.35, 0.5  # width of a sublayer, and its distance from the residual stream
STEP = 1.05  # height of a sublayer with its residual connection
MORE = 0.15  # extra height of cross-attention, for a third line
FIRST = 1.95  # where the first layer begins
PARTS = {  # face and edge
    "self": (PALE_BLUE, BLUE),
    "cross": (PALE_RED, RED),
    "feed": (PALE_GREEN, GREEN),
    "norm": (PALE_ORANGE, DARK_ORANGE),
    "table": ("#F6E8F1", PLUM),
    "plain": ("white", "#444444"),
}
MADE_HERE = "its own keys and values"  # each layer has its own projections of the encoder's output


def transformer_diagram(dim, num_heads, hidden_dim, num_layers, source_vocab_size, target_vocab_size, title):
    """The pre-norm encoder on the left, the decoder on the right, with the shape along both streams; b, n and m stay letters."""
    top = FIRST + 3 * STEP + MORE + 0.72
    figure, axes = sheet(WIDEST, top + 1.95 + top_of(title, WIDEST))
    own, feed = f"weights (b, {num_heads}, {{0}}, {{0}})", f"{dim} → {hidden_dim} → {dim}"
    branches = {
        "encoder": (("self", "self-attention", own.format("n")), ("feed", "feed-forward", feed)),
        "decoder": (
            ("self", "causal self-attention", own.format("m")),
            ("cross", "cross-attention", f"weights (b, {num_heads}, m, n)\n{MADE_HERE}"),
            ("feed", "feed-forward", feed),
        ),
    }
    sides = {
        "encoder": ("n", "source tokens", source_vocab_size),
        "decoder": ("m", "target tokens so far", target_vocab_size),
    }
    ends = {}
    for side, (length, name, vocab_size) in sides.items():
        x, shape = STREAMS[side], f"(b, {length}, {dim})"
        _entrance(axes, x, length, name, vocab_size, dim)
        ends[side] = _stack(axes, x, shape, branches[side], side, num_layers)
    _hand_over(axes, ends["encoder"], FIRST + STEP + 0.72, f"(b, n, {dim})")
    _exit(axes, ends["decoder"], dim, target_vocab_size)
    _letters(axes, ends["decoder"] + 1.6, dim, num_heads)
    write_title(figure, title)
    return figure


def _part(axes, x, y, width, height, kind, words, size=FONT, small=""):
    """A rectangle with one line of text, or with one or two smaller ones under it."""
    face, edge = PARTS[kind]
    draw_box(axes, x, y, width, height, "", face, edge)
    dark = {"self": "#00507D", "cross": DARK_RED, "feed": "#00654A"}.get(kind, edge)
    lines = small.split("\n") if small else []
    write(axes, x, y + (0.02 + 0.1 * len(lines) if lines else 0), words, size, color="black", zorder=4)
    for number, line in enumerate(lines):
        write(axes, x, y + 0.1 * len(lines) - 0.23 - 0.2 * number, line, SMALL, color=dark, zorder=4)


def _line(axes, *corners):
    axes.plot(*np.transpose(corners), color="black", linewidth=2.6, zorder=2)


def _plus(axes, x, y):
    axes.add_patch(Circle((x, y), 0.17, facecolor="white", edgecolor="black", linewidth=2.2, zorder=3))
    for across, up in ((0.1, 0), (0, 0.1)):
        axes.plot([x - across, x + across], [y - up, y + up], color="black", linewidth=2.6, zorder=4)


def _shape(axes, x, y, text):
    write(axes, x + 0.14, y, text, LABEL, ha="left", color=INK)


def _entrance(axes, x, length, name, vocab_size, dim):
    """From token ids to embeddings with positions, up to the first layer."""
    shape = f"(b, {length}, {dim})"
    write(axes, x, 0.2, name, FONT, fontweight="bold")
    draw_strong_arrow(axes, [(x, 0.34), (x, 0.64)], "black")
    _shape(axes, x, 0.47, f"(b, {length})")
    _part(axes, x, 0.87, MATRIX, 0.46, "table", f"embedding ({vocab_size}, {dim}) × √{dim}", LABEL)
    draw_strong_arrow(axes, [(x, 1.1), (x, 1.4)], "black")
    _shape(axes, x, 1.24, shape)
    _plus(axes, x, 1.57)
    left = x - BESIDE - BRANCH / 2
    _part(axes, left, 1.57, 2.1, 0.36, "plain", f"positions ({length}, {dim})", LABEL)
    draw_strong_arrow(axes, [(left + 1.05, 1.57), (x - 0.17, 1.57)], "black")
    _line(axes, (x, 1.74), (x, FIRST))
    _shape(axes, x, 1.74, shape)


def _stack(axes, x, shape, branches, name, num_layers):
    """One layer in its frame, and the norm after the stack; returns the height where the stream leaves it."""
    lows = FIRST + np.cumsum([0.0, *(STEP + MORE * (kind == "cross") for kind, _, _ in branches)])
    top = lows[-1]
    left, right = x - BESIDE - BRANCH - 0.2, x + 0.14 + inches(shape, LABEL) + 0.1
    look = {"facecolor": "#FAFAFA", "edgecolor": GREY, "linewidth": 1.8, "linestyle": (0, (5, 2)), "zorder": 0}
    axes.add_patch(Rectangle((left, FIRST), right - left, top - FIRST, **look))
    write(axes, left, top + 0.18, f"{name}: {num_layers} ×", FONT + 1, ha="left", fontweight="bold")
    for low, end, branch in zip(lows, lows[1:], branches, strict=False):
        _branch(axes, x, low, end, *branch, shape)
    draw_strong_arrow(axes, [(x, top), (x, top + 0.34)], "black")
    _part(axes, x, top + 0.5, 1.1, 0.32, "norm", "norm")
    return top + 0.66


def _branch(axes, x, low, end, kind, words, weights, shape):
    """One sublayer from low to end: it leaves the residual stream at the dot and is added at the plus."""
    middle, plus = x - BESIDE - BRANCH / 2, low + 0.72
    _line(axes, (x, low), (x, low + 0.2))
    axes.plot([x], [low + 0.2], "o", color="black", markersize=8, zorder=5)
    draw_strong_arrow(axes, [(x, low + 0.2), (x, plus - 0.17)], "black")
    draw_strong_arrow(axes, [(x, low + 0.2), (x - 0.52, low + 0.2)], "black")
    _part(axes, x - 0.88, low + 0.2, 0.72, 0.3, "norm", "norm", LABEL)
    draw_strong_arrow(axes, [(x - 1.24, low + 0.2), (middle, low + 0.2), (middle, low + 0.46)], "black")
    if kind == "cross":
        write(axes, middle - 0.12, low + 0.27, "queries", LABEL, ha="right", color=INK)
    taller = 0.2 * weights.count("\n")
    _part(axes, middle, plus + taller / 2, BRANCH, 0.52 + taller, kind, words, FONT, weights)
    draw_strong_arrow(axes, [(x - BESIDE, plus), (x - 0.17, plus)], "black")
    _plus(axes, x, plus)
    _line(axes, (x, plus + 0.17), (x, end))
    _shape(axes, x, low + 0.97, shape)


def _hand_over(axes, start, goal, shape):
    """The output of the encoder, as it is, to the cross-attention of every layer of the decoder."""
    x, to = STREAMS["encoder"], STREAMS["decoder"] - BESIDE - BRANCH
    channel = to - 0.45
    draw_strong_arrow(axes, [(x, start), (x, start + 0.2), (channel, start + 0.2), (channel, goal), (to, goal)], RED)
    write(axes, x, start + 0.42, f"memory {shape}", FONT, ha="center", color=DARK_RED, fontweight="bold")


def _exit(axes, start, dim, vocab_size):
    x = STREAMS["decoder"]
    draw_strong_arrow(axes, [(x, start), (x, start + 0.3)], "black")
    _shape(axes, x, start + 0.13, f"(b, m, {dim})")
    _part(axes, x, start + 0.5, MATRIX, 0.4, "table", f"linear to {vocab_size} tokens", LABEL)
    draw_strong_arrow(axes, [(x, start + 0.7), (x, start + 1.0)], "black")
    _shape(axes, x, start + 0.83, f"logits (b, m, {vocab_size})")
    _part(axes, x, start + 1.2, MATRIX, 0.4, "plain", "softmax")
    draw_strong_arrow(axes, [(x, start + 1.4), (x, start + 1.66)], "black")
    _shape(axes, x, start + 1.51, f"(b, m, {vocab_size})")
    write(axes, x, start + 1.8, "probabilities of the next token", FONT, fontweight="bold")


def _letters(axes, y, dim, num_heads):
    """What the letters mean, in the free corner over the encoder."""
    lines = (
        ("b", "sentences in the batch"),
        ("n, m", "tokens of source and target"),
        (f"{num_heads} × {dim // num_heads} = {dim}", "num_heads × head_dim = dim"),
        ("pre-norm", "norms inside the residual branch"),
    )
    for number, (letter, words) in enumerate(lines):
        write(axes, 0.2, y - 0.3 * number, letter, LABEL, ha="left", fontweight="bold")
        write(axes, 1.5, y - 0.3 * number, words, LABEL, ha="left")


# Shifted targets


def shifted_targets(source, target, title, padding=0):
    """Input and target of the decoder at each position, and below the causal mask.

    source, target: tokens without special ones. padding: the number of padding tokens, which have no loss.
    """
    inputs, targets = [BOS, *target, *[PAD] * padding], [*target, EOS, *[PAD] * padding]
    length = len(target) + 1
    wide = np.array([0.3 + max(inches(token, FONT) for token in pair) for pair in zip(inputs, targets, strict=True)])
    left, cell = 1.6, 0.36
    end = left + wide.sum()
    tall = len(inputs) * cell
    width, height = end + 1.75, tall + 3.35
    figure, axes = sheet(width, height + top_of(title, width))
    centers = left + np.cumsum(wide) - wide / 2
    _source_row(axes, [*source, EOS], left, height - 0.3)
    upper, lower = height - 1.1, height - 1.95
    for y, words in ((upper, "target"), (lower, "input")):
        write(axes, 0.15, y, words, FONT, ha="left", fontweight="bold")
    for position, x in enumerate(centers):
        pale = position >= length
        for y, words, face, edge in ((upper, targets, PALE_RED, RED), (lower, inputs, PALE_BLUE, BLUE)):
            look = ("#F3F3F3", PALE) if pale else (face, edge)
            draw_box(axes, x, y, wide[position] - 0.14, 0.4, words[position], *look, color=GREY if pale else "black")
        if not pale:
            draw_strong_arrow(axes, [(x, lower + 0.2), (x, upper - 0.2)], "black")
        if 0 < position < length:
            shift = [(centers[position - 1] + 0.18, upper - 0.21), (x - 0.18, lower + 0.21)]
            axes.plot(*np.transpose(shift), color=GREY, linewidth=1.8, linestyle=(0, (3, 2)), zorder=1)
    write(axes, end + 0.1, upper, "no loss on\npadding", LABEL, ha="left", color=GREY)
    write(axes, end + 0.1, (upper + lower) / 2 - 0.2, "dashed lines:\nthe same token", LABEL, ha="left", color=GREY)
    _causal_mask(axes, inputs, targets, length, centers, wide, tall, cell)
    write_title(figure, title)
    return figure


def _source_row(axes, source, left, y):
    write(axes, 0.15, y, "source", FONT, ha="left", fontweight="bold")
    x = left + 0.07
    for word in source:
        wide = inches(word, FONT) + 0.3
        draw_box(axes, x + wide / 2, y, wide - 0.06, 0.4, word, PALE_ORANGE, ORANGE)
        x += wide
    write(axes, x + 0.12, y, "visible to every position", LABEL, ha="left", color=GREY)


def _causal_mask(axes, inputs, targets, length, centers, wide, tall, cell):
    """The causal mask: a tick where a query (row) may attend to a key (column), and the target of each row."""
    top = tall + 0.25
    left, end = centers[0] - wide[0] / 2, centers[-1] + wide[-1] / 2
    write(axes, 0.15, top + 0.17, "causal mask", FONT, ha="left", fontweight="bold")
    for column, (x, word) in enumerate(zip(centers, inputs, strict=True)):
        write(axes, x, top + 0.17, word, LABEL, color=GREY if column >= length else "black")
    for row, word in enumerate(inputs):
        y = top - (row + 0.5) * cell
        padding = row >= length
        write(axes, left - 0.12, y, word, LABEL, ha="right", color=GREY if padding else "black")
        for column, (x, room) in enumerate(zip(centers, wide, strict=True)):
            may = column <= row
            face = "#EDEDED" if not may else "#BDBDBD" if padding else COLORS["weights"]
            corner = (x - room / 2 + 0.03, y - cell / 2 + 0.03)
            axes.add_patch(Rectangle(corner, room - 0.06, cell - 0.06, facecolor=face))
            if may:
                axes.plot([x - 0.07, x - 0.02, x + 0.08], [y, y - 0.06, y + 0.07], color="white", linewidth=2.4)
        if not padding:
            draw_arrow(axes, (end + 0.06, y), (end + 0.34, y), RED)
            write(axes, end + 0.42, y, targets[row], LABEL, ha="left")


# Training


def schedules(steps, curves, title):
    """{name: learning rates (steps,)} over the training step, with a mark at the peak of each."""
    thousand = {name: 1000 * as_array(rates) for name, rates in curves.items()}
    figure, axes = chart(title, 10.0, 5.0)
    peaks = [int(rates.argmax()) for rates in thousand.values()]
    labels = {name: f"{name}\npeak {rates.max():.3g} / 1000" for name, rates in thousand.items()}
    _marked_curves(axes, steps, {labels[name]: rates for name, rates in thousand.items()}, peaks)
    axes.set(xlim=(0, steps[-1]), ylim=(0, None), xlabel="training step", ylabel="learning rate × 1000")
    axes.legend(loc="upper right", labelspacing=0.8)
    return figure


def _marked_curves(axes, x, curves, marked):
    """{label: values} over x, each with a mark at one of its points, whose index is in `marked`."""
    for (label, values), index, (shade, marker, line) in zip(curves.items(), marked, LOOKS, strict=False):
        axes.plot(
            x, values, marker, linestyle=line, color=shade, markevery=[index], markersize=10, clip_on=False, label=label
        )


def loss_and_confidence(p, losses, title):
    """The loss over the probability of the target token, a curve for each way to count it, with its minimum marked.

    p (points,): rising, above 0 and up to 1. losses: {name: losses (points,) in nats}.
    """
    p, curves = as_array(p), {name: as_array(values) for name, values in losses.items()}
    lowest = [int(values.argmin()) for values in curves.values()]
    labels = {
        name: f"{name}\nlowest {values[index] + 0.0:.2f} at {p[index]:.2g}"
        for (name, values), index in zip(curves.items(), lowest, strict=True)
    }
    figure, axes = chart(title, 10.0, 5.6)
    _marked_curves(axes, p, {labels[name]: values for name, values in curves.items()}, lowest)
    axes.set(xlim=(0, 1), ylim=(0, None), xlabel="probability of the target token", ylabel="loss in nats")
    axes.legend(loc="upper right", labelspacing=0.8)
    return figure


def warmup_by_depth(rows, title):
    """Loss after a short training against depth, a panel for each norm order, a line with warmup and one without.

    rows: with norm, warmup (steps), layers, and losses, one for each seed. Median, in a band from the lowest seed to the highest.
    """
    figure, panels = chart(title, WIDEST, 5.2, columns=2, sharey=True)
    depths = sorted({row["layers"] for row in rows})
    for axes, norm in zip(panels, ("pre", "post"), strict=True):
        for steps, (shade, marker, line) in zip(sorted({row["warmup"] for row in rows}), LOOKS[1::-1], strict=True):
            own = {row["layers"]: row["losses"] for row in rows if (row["norm"], row["warmup"]) == (norm, steps)}
            losses = np.array([own[depth] for depth in depths])
            name = f"{steps} warm-up steps" if steps else "no warm-up"
            axes.plot(depths, np.median(losses, 1), color=shade, marker=marker, linestyle=line, label=name, zorder=3)
            axes.fill_between(depths, losses.min(1), losses.max(1), color=shade, alpha=0.2, linewidth=0)
        axes.set(xlabel="layers in each stack", xticks=depths)
        axes.set_title(f"{norm}-norm", fontsize=FONT)
    panels[0].set(ylabel="loss in nats", ylim=(0, 1.05 * max(max(row["losses"]) for row in rows)))
    panels[0].legend(loc="upper left")
    return figure


# Comparison of all models


def exact_match_splits(rows, splits, title):
    """Exact match of every model on every split, one panel for each split: a dot at the median, a line over all seeds.

    rows: (name, [(median, low, high) in %, one for each split]). splits: the names of the panels.
    """
    figure, axes = chart(title, WIDEST, 1.9 + 0.52 * len(rows), columns=len(splits), sharey=True)
    for column, (panel, split) in enumerate(zip(axes, splits, strict=True)):
        for row, (_, cells) in enumerate(rows):
            median, low, high = cells[column]
            shade, marker, _ = LOOKS[row % len(LOOKS)]
            panel.barh(row, median, 0.5, color=shade, alpha=0.18)
            panel.plot(
                [low, high], [row] * 2, "|-", color=shade, markersize=13, markeredgewidth=2.5, linewidth=4, alpha=0.6
            )
            panel.plot([median], [row], marker, color=shade, markersize=9, zorder=3)
            write(panel, 168, row, f"{median:.1f}", LABEL, ha="right")
        panel.set(xlim=(0, 170), xticks=(0, 50, 100), xlabel="exact in %")
        panel.set_title(textwrap.fill(split, 14), fontsize=FONT)
        panel.tick_params(axis="y", length=0)
        panel.grid(True, axis="x")
    only_rows(axes[0], [name for name, _ in rows])
    return figure


def speed_by_length(rows, names, title):
    """Tokens per second against length, both on logarithmic axes: training on the left, decoding on the right.

    rows: with length, training and decoding, each {kind: tokens per second}. names: {kind: words}.
    """
    figure, panels = chart(title, WIDEST, 5.4, columns=2)
    lengths = [row["length"] for row in rows]
    for axes, what in zip(panels, ("training", "decoding"), strict=True):
        draw_lines(axes, lengths, {name: [row[what][kind] for row in rows] for kind, name in names.items()})
        axes.set(xscale="log", yscale="log", xlabel="length of source and target, tokens")
        plain_ticks(axes.xaxis, lengths)
        speeds = [speed for row in rows for speed in row[what].values()]
        ticks = [tick for tick in TICKS if 0.7 * min(speeds) <= tick <= 1.4 * max(speeds)]
        axes.set_ylim(0.7 * min(speeds), 1.4 * max(speeds))
        plain_ticks(axes.yaxis, ticks)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_title(what, fontsize=FONT)
    panels[0].set_ylabel("target tokens per second")
    panels[0].legend(loc="lower left")
    return figure


TICKS = [digit * 10**power for power in range(2, 7) for digit in (1, 2, 5)]


# The three kinds of attention


def three_attentions(source, target_in, encoder, decoder, cross, title, names, target_out):
    """Attention maps of encoder self-attention, causal decoder self-attention and cross-attention.

    encoder (n, n), decoder (m, m), cross (m, n): the weights of one head or the mean of several. names: what stands under
    each map, such as "layer 2, head 1". A query of the decoder is labeled by its input and its target, "input → target".
    """
    queries = [f"{token} → {following}" for token, following in zip(target_in, target_out, strict=True)]
    causal = np.where(np.tri(len(queries), dtype=bool), as_array(decoder), np.nan)
    maps = (
        ("encoder self-attention", source, source, as_array(encoder)),
        ("decoder self-attention", queries, target_in, causal),
        ("cross-attention", [""] * len(queries), source, as_array(cross)),  # the same queries as in the second map
    )
    above = max(inches(token, SMALL) for token in (*source, *target_in))
    figure, axes = chart(title, WIDEST, 1.6 + above + 0.28 * max(len(source), len(queries)), columns=3)
    for panel, (heading, rows, columns, weights), name in zip(axes, maps, names, strict=True):
        image = panel.imshow(weights, cmap=WEIGHTS_MAP, vmin=0, vmax=1)
        panel.set_facecolor("#E4E4E4")  # masked: the future
        panel.set_xticks(range(len(columns)), columns, rotation=90, fontsize=SMALL)
        panel.set_yticks(range(len(rows)), rows, fontsize=SMALL)
        panel.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        panel.set_title(heading.replace(" ", "\n"), fontsize=FONT)
        panel.set_xlabel(name, fontsize=LABEL)
        panel.grid(False)
        panel.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, ticks=[0, 0.5, 1], label="weight", aspect=25, pad=0.01, shrink=0.6)
    bar.outline.set_visible(False)
    return figure


# One of several attention maps

MEAN = -1  # instead of a layer or a head: the mean of all


def chosen_map(weights, layer=MEAN, head=MEAN):
    """(m, n) of one layer and head of weights (num_layers, num_heads, m, n); MEAN stands for the mean over all of them."""
    weights = as_array(weights)
    weights = weights.mean(0) if layer == MEAN else weights[layer]
    return weights.mean(0) if head == MEAN else weights[head]


def map_name(num_layers, num_heads, layer=MEAN, head=MEAN):
    """Which map it is, in words."""
    if num_layers * num_heads == 1:
        return "the only head"
    if MEAN == layer == head:
        return f"mean of all {num_layers * num_heads} heads"
    where = "" if num_layers == 1 else f"mean of {num_layers} layers" if layer == MEAN else f"layer {layer + 1}"
    who = "" if num_heads == 1 else f"mean of {num_heads} heads" if head == MEAN else f"head {head + 1}"
    return ", ".join(part for part in (where, who) if part)

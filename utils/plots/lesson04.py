"""The figures of lesson 04: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from utils.plots.figures import chart, signed, write_title
from utils.plots.lesson03 import times  # noqa: F401
from utils.plots.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_RED,
    draw_arrow,
    draw_box,
    draw_lines,
    name_lines,
    only_rows,
    plain_ticks,
    sheet,
    top_of,
    write,
)
from utils.plots.style import BLUE, COLORS, FONT, GREY, MUTED, PALE, RED, WIDEST, as_array
from utils.plots.text import inches

POSITIONS_MAP = "RdBu_r"  # two colors that every reader tells apart, white at 0
RAW, SCALED = (RED, "s", "--"), (BLUE, "o", "-")


# One query, and one per token

LOWER, UPPER = 0.95, 3.35  # inches: the rows of the keys and of the queries


def controllers(tokens):
    """Left: one query attends to n sentences. Right: every token attends to every token."""
    count = len(tokens)
    widths = np.array([max(0.5, inches(token, FONT, "bold") + 0.2) for token in tokens])
    row = widths.sum() + 0.14 * (count - 1)
    state = inches("query", FONT, "bold") + 0.4
    margin, space = 0.35 + inches("queries", LABEL), 0.9
    left_count, right_count = f"1 × {count} scores", f"{count} × {count} = {count**2} scores"
    left_width = max(count * 0.62, state, inches("one query for the story", FONT + 1, "bold"))
    right_width = max(row, inches("one query per token", FONT + 1, "bold"))
    width = margin + left_width + space + right_width + 0.2
    title = "From one query to one query per token"
    figure, axes = sheet(width, 4.6 + top_of(title, width))
    for y, name in ((UPPER, "queries"), (LOWER, "keys")):
        write(axes, 0.15, y, name, LABEL, ha="left", color=GREY)
    middle = margin + left_width / 2
    sentences = middle + 0.62 * (np.arange(count) - (count - 1) / 2)
    _draw_scores(axes, [middle], sentences, focus=0)
    draw_box(axes, middle, UPPER, state, 0.46, "query", PALE_BLUE, BLUE, fontweight="bold")
    for number, x in enumerate(sentences, 1):
        draw_box(axes, x, LOWER, 0.5, 0.46, str(number), "white", COLORS["key"])
    _panel_words(axes, middle, "one query for the story", f"{count} sentences", left_count)
    middle = margin + left_width + space + right_width / 2
    centers = middle - row / 2 + np.cumsum(widths + 0.14) - 0.14 - widths / 2
    focus = count // 2
    _draw_scores(axes, centers, centers, focus)
    for position, (x, token_width, token) in enumerate(zip(centers, widths, tokens, strict=True)):
        face, weight = (PALE_BLUE, "bold") if position == focus else ("white", "normal")
        draw_box(axes, x, UPPER, token_width, 0.46, token, face, BLUE, fontweight=weight)
        draw_box(axes, x, LOWER, token_width, 0.46, token, "white", COLORS["key"])
    _panel_words(axes, middle, "one query per token", f"the same {count} tokens", right_count)
    divide = margin + left_width + space / 2
    axes.plot([divide] * 2, [0.2, 4.4], color=PALE, linewidth=1.5)
    write_title(figure, title)
    return figure


def _draw_scores(axes, queries, keys, focus):
    """A line for the score of every query with every key; those of one query stand out."""
    for number, query in enumerate(queries):
        shade, line = (BLUE, 2.6) if number == focus else (MUTED, 0.9)
        lines = [[(query, UPPER - 0.25), (key, LOWER + 0.26)] for key in keys]
        order = 3 if number == focus else 2
        axes.add_collection(LineCollection(lines, colors=shade, linewidths=line, zorder=order))


def _panel_words(axes, middle, name, keys, scores):
    write(axes, middle, 4.35, name, FONT + 1, fontweight="bold")
    write(axes, middle, 3.92, scores, LABEL)
    write(axes, middle, 0.42, keys, LABEL)


# Scaled dot products


def scaling(dims, raw, scaled):
    """Three panels over d_k: variance of the scores, entropy of the attention weights, and gradient of the softmax.

    raw and scaled: dicts of arrays (dims,), "variance", "normalized_entropy" (0 to 1) and "jacobian_norm".
    """
    figure, axes = chart("Unscaled scores grow with d_k until the softmax saturates", WIDEST, 5.0, columns=3)
    panels = (
        ("variance", "variance\nof the scores", 1),
        ("normalized_entropy", "entropy\nin % of log n", 100),
        ("jacobian_norm", "norm of the\nsoftmax's Jacobian", 1),
    )
    for panel, (key, name, factor) in zip(axes, panels, strict=True):
        for statistics, label, (shade, marker, line) in ((raw, "unscaled", RAW), (scaled, "divided by √d_k", SCALED)):
            style = {"marker": marker, "linestyle": line, "color": shade, "clip_on": False}
            panel.plot(dims, factor * as_array(statistics[key]), label=label, **style)
        panel.set(xscale="log", xlabel="d_k")
        if factor == 1:
            panel.set_yscale("log")
            plain_ticks(panel.yaxis)
        else:
            panel.set_ylim(0, 104)
        plain_ticks(panel.xaxis, dims[::2])
        panel.set_title(name, fontsize=FONT, fontweight="normal")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


# Positions


def offset_products(products, title):
    """The dot products of position vectors, products (n, n) with P Pᵀ in it, over the offset from the row's own position.

    Four rows are drawn. If the product depends on the offset alone, all of them fall on one curve; the legend has the largest
    difference of two rows at the same offset.
    """
    products = as_array(products)
    count = len(products)
    rows = [round(share * (count - 1)) for share in (0.0, 0.25, 0.5, 1.0)]
    figure, axes = chart(title, 10.5, 4.9)
    for number, (row, (shade, marker, _)) in enumerate(zip(rows, LOOKS, strict=False)):
        offsets = np.arange(count) - row
        marked = np.flatnonzero(
            offsets % 8 == 2 * number
        ).tolist()  # different offsets, so that no marker covers another
        axes.plot(offsets, products[row], color=MUTED, linewidth=1.6, zorder=1)
        axes.plot(offsets[marked], products[row][marked], marker, color=shade, label=f"position {row}", zorder=4)
    axes.set(xlabel="offset", ylabel="dot product")
    difference = f"largest difference at\nthe same offset: {largest_difference(products, rows):.2g}"
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title=difference, title_fontsize=LABEL)
    return figure


def largest_difference(products, rows):
    """The largest difference between two of the rows at the same offset; 0 if there is nothing to compare."""
    by_offset = {}
    for row in rows:
        for column, product in enumerate(products[row]):
            by_offset.setdefault(column - row, []).append(product)
    return max(max(values) - min(values) for values in by_offset.values())


# Order


def order_bars(rows, chance, title):
    """(name, accuracies of the seeds in %) for each model: a dot for every seed, a bar at the median, a line at chance."""
    figure, axes = chart(title, 9.5, 1.9 + 0.62 * len(rows))
    names = []
    for number, (name, accuracies) in enumerate(rows):
        accuracies = as_array(accuracies)
        low, middle, high = accuracies.min(), np.median(accuracies), accuracies.max()
        names.append(f"{name}\n{middle:.1f}" if low == high else f"{name}\n{middle:.1f}  ({low:.1f} to {high:.1f})")
        shade, marker, _ = LOOKS[number % len(LOOKS)]
        heights = number + np.linspace(-0.3, 0.3, len(accuracies))
        axes.plot([middle] * 2, [number - 0.42, number + 0.42], color=shade, linewidth=4, alpha=0.45)
        axes.plot(accuracies, heights, marker, color=shade, markersize=7, zorder=3)
    axes.axvline(chance, color="black", linewidth=2, linestyle=(0, (4, 2)), zorder=1, label=f"chance {chance:g} %")
    only_rows(axes, names)
    axes.set(xlim=(0, 103), xlabel="accuracy in % (a marker for each seed, a bar at the median)")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def extrapolation(lengths, curves, trained_to, title, chance):
    """{name: (lengths, seeds) in %} as the median over the length, in a band from the lowest seed to the highest.

    NaN at a length: the model has no positions there, marked on a line of its own below 0. A line is at `trained_to`, the
    maximum length in training, and one at `chance`.
    """
    lengths, impossible = as_array(lengths), -14.0  # on the scale of percents
    figure, axes = chart(title, 10.5, 5.6)
    axes.set_xscale("log")
    for (name, values), (shade, marker, line) in zip(curves.items(), LOOKS, strict=False):
        values = np.asarray(values, dtype=float)
        low, middle, high = values.min(1), np.median(values, 1), values.max(1)
        axes.fill_between(lengths, low, high, color=shade, alpha=0.2, linewidth=0)
        axes.plot(lengths, middle, marker=marker, linestyle=line, color=shade, clip_on=False, zorder=3, label=name)
        missing = np.isnan(middle)
        hollow = {"markerfacecolor": "white", "markeredgecolor": shade, "markeredgewidth": 2, "linestyle": "none"}
        axes.plot(lengths[missing], np.full(missing.sum(), impossible), marker, zorder=4, **hollow)
    axes.axhline(0, color=GREY, linewidth=1.2, zorder=1)
    axes.axvline(trained_to, color="black", linewidth=2, linestyle=(0, (4, 2)), label=f"trained up to {trained_to:g}")
    axes.axhline(chance, color=GREY, linewidth=1.5, linestyle=(0, (2, 2)), zorder=1, label=f"chance {chance:g} %")
    axes.set(xlabel="length in tokens", ylabel="accuracy in %", ylim=(impossible - 6, 104))
    axes.set_yticks([impossible, *range(0, 101, 20)], ["impossible", *map(str, range(0, 101, 20))])
    plain_ticks(axes.xaxis, lengths)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3)
    return figure


# The language model


def loss_by_context(losses, ngrams, title):
    """Loss (n,) in nats after 1 ... n tokens of context, and the losses of n-gram models, {name: loss}, as horizontal lines."""
    losses = as_array(losses)
    context = np.arange(1, len(losses) + 1)
    figure, axes = chart(title)
    levels = {name: np.full(len(context), float(loss)) for name, loss in ngrams.items()}
    draw_lines(axes, context, {"self-attention": losses, **levels}, markevery=max(1, len(losses) // 12))
    axes.set(ylim=(0, None), xlabel="tokens of context", ylabel="held-out loss in nats")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    name_lines(axes)
    return figure


# The same word twice


def two_contexts(first, second, word, similarity_before, similarity_after, title):
    """Two sentences (lists of tokens) with one word in common, and the cosine of its two vectors before and after attention."""
    before, after = float(similarity_before), float(similarity_after)
    widths = [[max(0.5, inches(token, FONT, "bold") + 0.24) for token in sentence] for sentence in (first, second)]
    space, width = 0.1, 9.0
    words = [f"before self-attention: cosine {signed(before)}", f"after self-attention: cosine {signed(after)}"]
    figure, axes = sheet(width, 3.75 + top_of(title, width))
    at = []
    for sentence, row, y in zip((first, second), widths, (3.3, 0.5), strict=True):
        x = (width - sum(row) - space * (len(row) - 1)) / 2
        for token, token_width in zip(sentence, row, strict=True):
            center, chosen = x + token_width / 2, token == word
            face, edge = (PALE_RED, RED) if chosen else ("white", PALE)
            draw_box(axes, center, y, token_width, 0.5, token, face, edge, fontweight="bold" if chosen else "normal")
            if chosen:
                at.append(center)
            x += token_width + space
    box, middle = max(inches(line, FONT, "bold") for line in words) + 0.5, sum(at) / 2
    draw_arrow(axes, (middle, 2.5), (at[0], 3.03), RED)
    draw_arrow(axes, (middle, 1.3), (at[1], 0.77), RED)
    draw_box(axes, middle, 1.9, box, 1.2, "", "white", RED)
    write(axes, middle, 2.18, words[0], FONT)
    write(axes, middle, 1.62, words[1], FONT, fontweight="bold")
    write_title(figure, title)
    return figure

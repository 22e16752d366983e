"""The figures of lesson 07: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from utils.plots.figures import chart, write_title
from utils.plots.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_RED,
    draw_arrow,
    draw_box,
    name_lines,
    plain_ticks,
    sheet,
    top_of,
    write,
)
from utils.plots.style import BLUE, DARK_RED, DASHES, FONT, GREY, RED, as_array
from utils.plots.text import inches

# Byte-pair merges of one word


def merges_steps(steps, title):
    """BPE merges of one word: a row for each step, new tokens highlighted.

    steps: the tokens of the word, first its characters, each with the number of the merge that gave them.
    """
    rows, numbers = [tokens for tokens, _ in steps], [number for _, number in steps]
    word = "".join(rows[0])
    labels = ["characters", *(merged_pair(before, after) for before, after in zip(rows, rows[1:], strict=False))]
    left, cell, row = 0.35 + max(inches(text, LABEL) for text in labels), 0.55, 0.56
    width = max(7.0, left + cell * len(word) + 0.3 + inches("merge 99", LABEL))
    height = row * len(rows) + 0.1
    figure, axes = sheet(width, height + top_of(title, width))
    for index, (tokens, label, number) in enumerate(zip(rows, labels, numbers, strict=True)):
        y = height - row * (index + 0.5)
        write(axes, left - 0.15, y, label, LABEL, ha="right", color=GREY)
        before = token_spans(rows[index - 1]) if index else token_spans(tokens)
        for start, end in token_spans(tokens):
            is_new = (start, end) not in before
            look = (PALE_RED, RED) if is_new else (PALE_BLUE, BLUE)
            x, wide = left + cell * (start + end) / 2, cell * (end - start) - 0.06
            draw_box(axes, x, y, wide, 0.42, word[start:end], *look, fontweight="bold" if is_new else "normal")
        if number:
            write(axes, left + cell * len(word) + 0.15, y, f"merge {number}", LABEL, ha="left")
    write_title(figure, title)
    return figure


def token_spans(tokens):
    """(start, end) of each token, in characters."""
    ends = np.cumsum([len(token) for token in tokens]).tolist()
    return list(zip([0, *ends], ends, strict=False))


def merged_pair(before, after):
    """The pair that was merged between two steps, as "l + o"."""
    starts = [start for start, _ in token_spans(before)]
    pairs = set()
    for start, end in token_spans(after):
        inside = [token for token, position in zip(before, starts, strict=True) if start <= position < end]
        if len(inside) == 2:
            pairs.add(tuple(inside))
    return " + ".join(pairs.pop())


# Three objectives

MASK, SENTINEL, BOS, EOS = "[MASK]", "[SENTINEL{}]", "[CLS]", "[SEP]"
SELF, CROSS = 1, 2  # self-attention and cross-attention
SHADES = {0: "#EDEDED", SELF: BLUE, CROSS: RED}


def three_masks(words, title, *, masked, spans):
    """Inputs, targets and attention masks of masked language modeling, causal language modeling and span corruption.

    masked: the positions, from 0, of masked tokens. spans: (start, end) of each span that is removed.
    """
    source, target = _corrupt(words, spans)
    count = len(words) + 1
    square = len(source) + len(target) + 1
    both = np.zeros((square, square), dtype=int)
    both[:, : len(source)] = CROSS
    both[: len(source), : len(source)] = SELF
    both[len(source) :, len(source) :] = np.tril(np.ones((len(target) + 1,) * 2, dtype=int))
    panels = (
        (
            "masked LM",
            "encoder: both sides",
            [MASK if position in masked else word for position, word in enumerate(words)],
            [word if position in masked else "" for position, word in enumerate(words)],
            np.ones((len(words), len(words)), dtype=int),
        ),
        (
            "causal LM",
            "decoder: left only",
            [BOS, *words],
            [*words, EOS],
            np.tril(np.ones((count, count), dtype=int)),
        ),
        (
            "span corruption",
            "encoder and decoder",
            [*source, BOS, *target],
            [*[""] * len(source), *target, SENTINEL.format(len(spans))],
            both,
        ),
    )
    return _draw_objectives(panels, len(source), title)


def _corrupt(words, spans):
    """Source and target of span corruption, without the final sentinel."""
    source, target, position = [], [], 0
    for number, (start, end) in enumerate(spans):
        source += [*words[position:start], SENTINEL.format(number)]
        target += [SENTINEL.format(number), *words[start:end]]
        position = end
    return [*source, *words[position:]], target


def _draw_objectives(panels, source_len, title):
    """The first two masks above each other on the left, the largest on the right."""
    cell, space, head, foot = 0.27, 0.35, 0.7, 0.5  # inches
    before, after, over, tall = [], [], [], []
    for _, _, inputs, targets, _ in panels:
        before.append(max(inches(word, LABEL) for word in inputs) + 0.12)
        after.append(max(inches(word, LABEL, "bold") for word in targets) + 0.5)
        over.append(max(inches(word, LABEL) for word in inputs) + 0.15)
        tall.append(head + over[-1] + len(inputs) * cell)
    wide = [left + len(panel[2]) * cell + right for left, right, panel in zip(before, after, panels, strict=True)]
    width = 0.2 + max(wide[:2]) + space + wide[2]
    height = foot + tall[0] + space + tall[1]
    figure, axes = sheet(width, height + top_of(title, width))
    corners = ((0.1, height), (0.1, height - tall[0] - space), (0.1 + max(wide[:2]) + space, height))
    for (x, y), label_width, label_height, panel in zip(corners, before, over, panels, strict=True):
        name, small, inputs, targets, mask = panel
        left, top = x + label_width, y - head - label_height
        write(axes, x, y - 0.18, name, FONT, ha="left", fontweight="bold")
        write(axes, x, y - 0.46, small, LABEL, ha="left", color=GREY)
        _draw_mask(axes, inputs, targets, mask, left, top, cell)
        if mask.max() == CROSS:
            _source_lines(axes, source_len, len(inputs), left, top, cell)
    names = {BLUE: "self-attention", RED: "cross-attention", SHADES[0]: "may not attend"}
    keys = [Patch(color=shade, label=name) for shade, name in names.items()]
    target_key = Line2D([], [], color=RED, marker=">", label="target")
    axes.legend(handles=[*keys, target_key], loc="lower left", ncols=4, borderaxespad=0, handlelength=1.4)
    write_title(figure, title)
    return figure


def _draw_mask(axes, inputs, targets, mask, left, top, cell):
    """An attention mask: a row for each query, a tick at each key it may attend to, an arrow to its target."""
    end = left + len(inputs) * cell
    for row, (word, target) in enumerate(zip(inputs, targets, strict=True)):
        y = top - (row + 0.5) * cell
        write(axes, left - 0.08, y, word, LABEL, ha="right")
        write(axes, left + (row + 0.5) * cell, top + 0.08, word, LABEL, va="bottom", rotation=90)
        if target:
            draw_arrow(axes, (end + 0.05, y), (end + 0.34, y), RED)
            write(axes, end + 0.4, y, target, LABEL, ha="left", fontweight="bold", color=DARK_RED)
    for (row, column), kind in np.ndenumerate(mask):
        corner = (left + column * cell, top - (row + 1) * cell)
        axes.add_patch(Rectangle(corner, cell, cell, facecolor=SHADES[kind], edgecolor="white", linewidth=1.5))
        if kind:
            x, y = corner[0] + cell / 2, corner[1] + cell / 2
            tick = ([x - cell * 0.2, x - cell * 0.05, x + cell * 0.22], [y, y - cell * 0.16, y + cell * 0.2])
            axes.plot(*tick, color="white", linewidth=max(1.4, 5 * cell), solid_capstyle="round")


def _source_lines(axes, source_len, count, left, top, cell):
    """Lines between source and target."""
    look = {"color": "black", "linewidth": 2}
    axes.plot([left, left + count * cell], [top - source_len * cell] * 2, **look)
    axes.plot([left + source_len * cell] * 2, [top, top - count * cell], **look)


# Pretraining


WINDOW = 25  # steps


def pretraining_curves(losses, title):
    """Training losses {name: (steps,)} minus those of the unigram models, averaged over WINDOW steps.

    The first two windows, far above the others, are left out, and the axis says so.
    """
    curves = {name: as_array(values)[: len(values) // WINDOW * WINDOW] for name, values in losses.items()}
    curves = {name: values.reshape(-1, WINDOW).mean(1)[2:] for name, values in curves.items()}
    figure, axes = chart(title, 10.5, 5.4)
    for (name, values), (shade, marker, line) in zip(curves.items(), LOOKS, strict=False):
        steps = WINDOW * np.arange(3, len(values) + 3)
        axes.plot(steps, values, color=shade, marker=marker, linestyle=line, label=name, markevery=2)
    axes.axhline(0, color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label="unigram model")
    axes.set(
        xlabel=f"training step (first {2 * WINDOW} left out)",
        ylabel=f"training loss minus unigram loss,\nnats, mean of {WINDOW} steps",
    )
    name_lines(axes)
    return figure


# Few pairs


def exact_against_pairs(rows, title):
    """Exact match against the number of training pairs: for each initialization the median of the seeds, and a band of their range.

    rows: with pairs, model, exact and covered in %, one for each seed. The dashed line is the fraction of test sentences whose
    every English word occurs in the training pairs.
    """
    figure, axes = chart(title, 10.5, 5.4)
    models = list(dict.fromkeys(row["model"] for row in rows))
    for model, (shade, marker, line) in zip(models, LOOKS, strict=False):
        own = sorted((row["pairs"], row["exact"]) for row in rows if row["model"] == model)
        sizes, exact = [size for size, _ in own], np.array([values for _, values in own])
        axes.plot(sizes, np.median(exact, 1), color=shade, marker=marker, linestyle=line, label=model, zorder=3)
        axes.fill_between(sizes, exact.min(1), exact.max(1), color=shade, alpha=0.2, linewidth=0)
    sizes = sorted({row["pairs"] for row in rows})
    covered = [np.median([row["covered"] for row in rows if row["pairs"] == size]) for size in sizes]
    name = "test sentences\nwithout an unseen word"
    axes.plot(sizes, covered, color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=name)
    axes.set(xscale="log", xlabel="training pairs", ylabel="exact match in %", ylim=(-2, 102))
    plain_ticks(axes.xaxis, sizes)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    name_lines(axes)
    axes.get_legend().set_title(f"median and range of {len(rows[0]['exact'])} seeds")
    return figure

"""The figures and tables of lesson 02: arrays and strings in, a figure or the head and rows of a table out."""

import numpy as np
from matplotlib import colormaps
from matplotlib.patches import Rectangle

from utils.plots.figures import chart, write_title
from utils.plots.parts import plain_ticks
from utils.plots.style import (
    BLACK,
    BLUE,
    COLORS,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SMALL,
    WEIGHTS_MAP,
    as_array,
    canvas,
    ink_on,
)
from utils.plots.text import inches

ROW, CELL = 0.36, 1.0  # inches


def bold_inches(text):
    return inches(text, 14, "bold")


def hops_picture(sentences, weights, question, answer, title, facts):
    """Attention weights over a story: a row for each sentence, a column for each hop; a dot marks supporting facts.

    weights (hops, n) for n sentences; `facts` are indices of sentences.
    """
    weights = as_array(weights)
    hops, n = weights.shape
    text = max(3.0, 0.1 + max(map(bold_inches, [*sentences, question])))
    width = max(text + CELL * hops + 0.8, inches(title, 16, "bold") + 0.4, text + bold_inches(answer) + 0.7)
    # Title and legend stand over the story, question and answer below it.
    first = 1.15
    height = first + ROW * n + 0.65
    figure, axes = canvas(width, height, margins=(0.1, 0.1, 0.1, 0.1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    plain = {"va": "center", "parse_math": False}
    axes.text(0.1, 0.3, title, fontsize=16, fontweight="bold", **plain)
    axes.plot([0.2], [first - 0.22], "o", color=COLORS["output"], markersize=8)
    axes.text(0.4, first - 0.22, "supporting fact", fontsize=SMALL, color=GREY, **plain)
    for hop in range(hops):
        middle = text + 0.5 + CELL * (hop + 0.5)
        axes.text(middle, first - 0.22, f"hop {hop + 1}", ha="center", fontsize=13, **plain)
    shades = colormaps[WEIGHTS_MAP]
    for index, sentence in enumerate(sentences):
        y = first + ROW * index
        if index in facts:
            axes.plot([0.2], [y + ROW / 2], "o", color=COLORS["output"], markersize=8)
        axes.text(0.4, y + ROW / 2, sentence, fontsize=13, fontweight="bold" if index in facts else "normal", **plain)
        for hop in range(hops):
            weight, left = weights[hop, index], text + 0.5 + CELL * hop
            axes.add_patch(Rectangle((left + 0.04, y + 0.03), CELL - 0.08, ROW - 0.06, facecolor=shades(weight)))
            look = {"ha": "center", "color": ink_on(shades(weight)), "fontsize": SMALL}
            axes.text(left + CELL / 2, y + ROW / 2, f"{weight:.2f}", **look, **plain)
    y = first + ROW * n + 0.3
    axes.text(0.4, y, question, fontsize=14, color=COLORS["query"], fontweight="bold", **plain)
    axes.text(text + 0.5, y, answer, fontsize=14, color=COLORS["output"], fontweight="bold", **plain)
    return figure


def loss_curves(groups, title):
    """{name: losses (epochs, seeds)}: every seed a line. A longer group has a linear start, which ends at epoch 0."""
    figure, axes = canvas(9.5, 4.4, margins=(0.85, 0.25, 0.7, 0.65))
    for (name, losses), shade, style in zip(groups.items(), (GREEN, RED, BLUE), ("-", "--", ":"), strict=False):
        losses = as_array(losses)
        start = min(map(len, groups.values())) - len(losses)
        epochs = np.arange(start, start + len(losses))
        for seed in range(losses.shape[1]):
            axes.plot(epochs, losses[:, seed], style, color=shade, linewidth=2, label=name if seed == 0 else None)
    linear_epochs = max(map(len, groups.values())) - min(map(len, groups.values()))
    axes.axvspan(-linear_epochs, 0, color="#EEEEEE", zorder=0)
    above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": SMALL}
    axes.text(-linear_epochs / 2, 0.97, "no softmax", color="#555555", **above)
    axes.set(xlabel="epoch (0: the softmax is switched on)", ylabel="training loss")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    axes.set_title(title)
    return figure


def optimizer_curves(losses, title):
    """{name: training loss after each epoch}: a line per run, on a logarithmic axis."""
    figure, axes = chart(title, height=4.4)
    looks = ((BLUE, "-", 2.5), (BLUE, "--", 2.5), (ORANGE, "-", 5), (BLACK, ":", 2.5))  # the last two nearly coincide
    for (name, curve), (shade, style, width) in zip(losses.items(), looks, strict=True):
        axes.plot(range(1, len(curve) + 1), curve, style, color=shade, linewidth=width, label=name)
    axes.set(xlabel="epoch", ylabel="training loss per question", yscale="log")
    axes.set_xticks([1, *range(5, len(curve) + 1, 5)])
    plain_ticks(axes.yaxis)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def seed_errors(rows, title, limit=None):
    """{name: errors in % (seeds,)}: one dot for each seed, a bar at the median."""
    figure, axes = canvas(9.5, 1.5 + 0.55 * len(rows), margins=(0.5 + max(map(inches, rows)), 0.3, 0.7, 0.65))
    jitter = np.random.default_rng(0)  # only moves dots apart that would hide each group
    for row, (_, errors) in enumerate(rows.items()):
        errors = as_array(errors)
        axes.plot(errors, row + jitter.uniform(-0.18, 0.18, len(errors)), "o", color=BLUE, alpha=0.55, markersize=8)
        axes.plot([np.median(errors)] * 2, [row - 0.32, row + 0.32], color=RED, linewidth=3)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="error on new stories in % (dots: seeds, bar: median)", xlim=(-2, limit or None))
    write_title(figure, title)
    return figure


# Tables: the head and the rows


def spread(row):
    return f"{row['median']:.1f} % ({min(row['errors']):.1f} to {max(row['errors']):.1f})"


def cells(rows):
    """{(row, task): median, range, and how many seeds solved it} of the ablations."""
    return {(row["row"], row["task"]): f"{spread(row)}, {row['solved']} of {row['seeds']}" for row in rows}


def hops_table(rows):
    cell = cells(rows)
    head = ("hops", "task 2: two facts", "task 15: two facts", "task 16: three facts")
    return head, [(hops, *(cell[hops, task] for task in (2, 15, 16))) for hops in ("1 hop", "2 hops", "3 hops")]


def parts_table(rows):
    cell = cells(rows)
    parts = (
        ("bag of words instead of position encoding", "bag of words", (15,)),
        ("no temporal encoding", "no temporal encoding", (1, 2, 3, 15, 16)),
        ("no linear start", "no linear start", (16, 2)),
        ("linear start where the recipe has none", "linear start", (15,)),
        ("no random noise", "no random noise", (2,)),
        ("layer-wise instead of adjacent tying", "layer-wise tying", (2, 15, 16)),
    )
    changed = [(name, task, cell["3 hops", task], cell[row, task]) for name, row, tasks in parts for task in tasks]
    return ("three hops, but", "task", "full recipe", "with the change"), changed


def errors_of_task(rows, task):
    """{name: errors of the seeds} of the rows that change the number of hops, the start or the tying."""
    errors = {row["row"]: row["errors"] for row in rows if row["task"] == task}
    order = ("3 hops", "1 hop", "2 hops", "no linear start", "layer-wise tying")
    return {name.replace("3 hops", "3 hops, linear start (full recipe)"): errors[name] for name in order}


def facts_table(rows):
    full = [row for row in rows if row["row"] == "3 hops"]
    head = ("task, three hops", "facts found (median)", "accuracy (median)")
    return head, [(row["task"], f"{row['agreement_median']:.0f} %", f"{100 - row['median']:.1f} %") for row in full]


def optimizer_table(rows):
    """A row for each task, start and optimizer; a column for each learning rate."""
    names = {"sgd": "SGD", "adam": "Adam"}
    rates = sorted({row["learning_rate"] for row in rows})
    cell, keys = {}, {}
    for row in rows:
        key = row["task"], "yes" if row["linear_start"] else "no", names[row["optimizer"]]
        keys[key] = None
        cell[key, row["learning_rate"]] = f"{spread(row)}, {row['solved']} of {len(row['errors'])}"
    head = ("task", "linear start", "optimizer", *(f"learning rate {rate:g}" for rate in rates))
    return head, [(*key, *(cell[key, rate] for rate in rates)) for key in keys]


def published_table(result, task_names, published):
    """Errors in % of all tasks next to published ones {name: errors of tasks 1 to 20}, with their means and a label."""
    errors = {int(task): error for task, error in result["error"].items()}
    rows = [
        (
            f"{task} {task_names[task].replace('-', ' ')}",
            f"{error:.1f}",
            *(f"{column[task - 1]:.1f}" for column in published.values()),
        )
        for task, error in errors.items()
    ]
    rows.append(
        ("mean", f"{result['mean']:.1f}", *(f"{sum(column) / len(column):.1f}" for column in published.values()))
    )
    label = (
        f"Test error in %, 1,000 training questions per task. This course: median of 10 seeds (tasks 1, 2, 3, 15, 16) or 3, measured on "
        f"{result['date']}, {result['machine']}. Quoted: bag of words, position encoding, all tasks jointly (with linear start and random noise): Sukhbaatar et al. (2015), Table 1; "
        "code run again: the authors' code, run by the author of vinhkhuc/MemN2N-babi-python, with position encoding, linear start and random noise."
    )
    return ("task", "this course", *published), rows, label

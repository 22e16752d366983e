"""The figures of lesson 01: arrays in, a figure out."""

import numpy as np
import seaborn as sns
from matplotlib.patches import Rectangle

from utils.plots.figures import write_title
from utils.plots.parts import plain_ticks
from utils.plots.style import BLACK, COLORS, GREEN, GREY, RED, SMALL, as_array, canvas, color_of

SOFT, HARD = COLORS["query"], COLORS["output"]


def bar_panels(panels, labels, title):
    """Bar charts of {panel title: probabilities} on one scale."""
    figure, axes = canvas(10, 3.9, columns=len(panels), margins=(0.8, 0.2, 0.6, 1.05), gaps=(0.25, 0), sharey=True)
    for axis, (name, probabilities) in zip(axes, panels.items(), strict=True):
        probabilities = as_array(probabilities)
        drawn = axis.bar(labels, probabilities, color=color_of("weights"))
        axis.bar_label(drawn, [f"{probability:.2f}" for probability in probabilities], padding=2, fontsize=SMALL + 1)
        axis.set_title(name, fontsize=15)
        axis.tick_params(axis="x", labelsize=SMALL)
    axes[0].set(ylim=(0, 1.12), ylabel="probability")
    write_title(figure, title)
    return figure


def value_and_derivative(z, soft, hard, soft_derivative, hard_derivative):
    """The probability of a moving logit and its derivative, by softmax and by argmax; `hard_derivative` is between the points."""
    z, soft, hard, soft_derivative, hard_derivative = map(as_array, (z, soft, hard, soft_derivative, hard_derivative))
    between = (z[1:] + z[:-1]) / 2
    jump = between[hard_derivative != 0].mean()
    figure, axes = canvas(10, 4.0, columns=2, margins=(0.8, 0.2, 0.7, 0.7), gaps=(0.9, 0))
    for axis, smooth, positions, step, name in (
        (axes[0], soft, z, hard, "probability"),
        (axes[1], soft_derivative, between, np.where(hard_derivative == 0, 0, np.nan), "derivative"),
    ):
        axis.plot(z, smooth, color=SOFT, label="softmax")
        for side, label in ((positions < jump, "argmax"), (positions > jump, None)):
            axis.plot(positions[side], step[side], color=HARD, linestyle="--", label=label)
        axis.set(xlabel="moving logit (the others: 0 and 1)", ylabel=name)
    look = {"markerfacecolor": "white", "markeredgecolor": HARD, "markeredgewidth": 2, "linestyle": "none"}
    axes[1].plot([jump], [0], "o", label="undefined", **look)
    axes[0].legend(loc="upper left")
    axes[1].set_ylim(top=0.36)
    axes[1].legend(loc="upper left", ncol=3, columnspacing=1.0, handlelength=1.4)
    write_title(figure, "the gradient of softmax is positive, that of argmax is 0")
    return figure


def glimpses(picture, weights, chosen, soft, hard, size=8):
    """A picture in patches with their attention weights, the sampled patch of hard attention, and the soft weighted mean."""
    figure, axes = canvas(10, 4.4, columns=3, margins=(0.25, 0.25, 0.25, 1.1), gaps=(0.45, 0))
    picture, weights = as_array(picture), as_array(weights)
    across = picture.shape[1] // size
    axes[0].imshow(picture, cmap="Greys", vmin=0, vmax=1.6)
    for patch, weight in enumerate(weights):
        row, column = divmod(patch, across)
        left, top = column * size - 0.5, row * size - 0.5
        look = {"edgecolor": HARD, "linewidth": 4, "zorder": 3} if patch == chosen else {"edgecolor": GREY}
        axes[0].add_patch(Rectangle((left, top), size, size, fill=False, **look))
        axes[0].text(
            left + 0.5, top + 0.5, f"{weight:.2f}", fontsize=SMALL, va="top", fontweight="bold", color=SOFT,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5}, zorder=4,
        )  # fmt: skip
    axes[1].imshow(as_array(hard), cmap="Greys", vmin=0, vmax=1.6)
    axes[2].imshow(as_array(soft), cmap="Greys", vmin=0, vmax=1.0)
    for axis, name in zip(
        axes, ("weights of nine patches", "hard: one patch, sampled", "soft: weighted mean"), strict=True
    ):
        axis.set_title(name, fontsize=14)
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
    write_title(figure, "hard attention samples one patch, soft attention averages all")
    return figure


def cosine_histograms(cosines):
    """Histograms of {dimension: cosines of random pairs} on one scale."""
    figure, axes = canvas(
        10, 3.9, columns=len(cosines), margins=(0.75, 0.2, 0.7, 1.05), gaps=(0.3, 0), sharex=True, sharey=True
    )
    for axis, (dimension, values) in zip(axes, cosines.items(), strict=True):
        values = as_array(values)
        sns.histplot(x=values, bins=np.linspace(-1, 1, 41), stat="proportion", color=SOFT, linewidth=0, ax=axis)
        axis.set_title(f"d = {dimension}", fontsize=15)
        axis.set(xlabel="cosine", ylabel="fraction of pairs", xticks=[-1, 0, 1])
        axis.text(0.03, 0.97, f"std\n{values.std():.2f}", transform=axis.transAxes, va="top", fontsize=SMALL + 1)
    write_title(figure, "in many dimensions random vectors are nearly orthogonal")
    return figure


def bandwidth_training(leaky, left_out, noise):
    """Bandwidth and training error over the steps, every seed a line: with and without leave-one-out."""
    figure, axes = canvas(10, 4.2, columns=2, margins=(1.0, 0.2, 0.7, 0.7), gaps=(1.0, 0))
    for axis, entry, name in ((axes[0], "bandwidth", "bandwidth h"), (axes[1], "training_error", "training error")):
        for result, shade, label in ((leaky, RED, "without leave-one-out"), (left_out, GREEN, "leave-one-out")):
            lines = as_array(result[entry])
            axis.plot(lines, color=shade, alpha=0.25, linewidth=1.2)
            axis.plot(lines.mean(-1), color=shade, label=label, linestyle="-" if shade == GREEN else "--")
        axis.set(xlabel="step", ylabel=name)
    axes[0].set_yscale("log")
    plain_ticks(axes[0].yaxis)
    axes[0].legend(loc="lower left")
    axes[1].axhline(noise, color=BLACK, linewidth=1.5, linestyle=":")
    axes[1].text(axes[1].get_xlim()[1], noise - 0.015, "noise", va="top", ha="right", fontsize=SMALL + 1)
    axes[1].set_ylim(bottom=0)
    write_title(figure, "a model that sees the answer learns to copy it")
    return figure


def weight_band(queries, x, weights, title):
    """Attention weights as a heat map: a row per query, a column per known point, labeled by their x."""
    figure, axis = canvas(9, 5.0, margins=(0.8, 0.2, 0.7, 0.6))
    weights, queries, x = as_array(weights), as_array(queries), as_array(x)
    # A query beyond the last point attends to it alone; the color scale is for the rest.
    drawn = axis.imshow(weights, aspect="auto", vmin=0, vmax=np.quantile(weights.max(-1), 0.9))
    rows = np.linspace(0, len(queries) - 1, 7).round().astype(int)
    columns = np.linspace(0, len(x) - 1, 7).round().astype(int)
    axis.set_yticks(rows, [f"{queries[row]:.0f}" for row in rows])
    axis.set_xticks(columns, [f"{x[column]:.1f}" for column in columns])
    axis.set(xlabel="known points, by their x", ylabel="query, x")
    axis.grid(False)
    axis.set_title(title)
    bar = figure.colorbar(drawn, ax=axis, pad=0.02, extend="max")
    bar.set_label("weight", fontsize=SMALL + 1)
    return figure


def shapes(m, n, d, e):
    """The matrix products of attention as rectangles, with their shapes."""
    figure, axis = canvas(10, 3.0, margins=(0.1, 0.1, 0.1, 0.5))
    unit, gap, left, middle = 0.32, 0.55, 0.3, 1.3
    parts = (
        ("Q", m, d, ("m", "d"), "query", ""),
        ("Kᵀ", d, n, ("d", "n"), "key", "×"),
        ("S", m, n, ("m", "n"), "neutral", "="),
        ("W", m, n, ("m", "n"), "weights", "softmax"),
        ("V", n, e, ("n", "e"), "value", "×"),
        ("O", m, e, ("m", "e"), "output", "="),
    )
    for name, rows, columns, sides, role, sign in parts:
        if sign:
            room = 1.3 if sign == "softmax" else gap
            axis.text(
                left + room / 2,
                middle,
                "→\n" + sign if sign == "softmax" else sign,
                ha="center",
                va="center",
                fontsize=14,
            )
            left += room
        height, width = rows * unit, columns * unit
        axis.add_patch(Rectangle((left, middle - height / 2), width, height, facecolor=color_of(role), alpha=0.85))
        for line in range(1, rows):
            y = middle - height / 2 + line * unit
            axis.plot([left, left + width], [y, y], color="white", linewidth=1)
        ink = "white" if role in ("query", "neutral", "weights") else BLACK
        axis.text(left + width / 2, middle, name, ha="center", va="center", fontsize=16, fontweight="bold", color=ink)
        axis.text(
            left + width / 2, middle - height / 2 - 0.06, f"{sides[0]} × {sides[1]}", ha="center", va="top", fontsize=14
        )
        left += width
    axis.set(xlim=(0, left + 0.3), ylim=(0, 2.6))
    axis.set_aspect("equal")
    axis.axis("off")
    write_title(figure, "every query with every key, one row of weights for each query")
    return figure

"""The figures of lesson 01: arrays in, a figure out."""

import numpy as np
import seaborn as sns
from matplotlib.patches import Rectangle

from utils.draw.style import BLACK, COLOURS, GREEN, GREY, RED, SMALL, as_array, canvas, colour

SOFT, HARD = COLOURS["query"], COLOURS["output"]


def headline(figure, title):
    """The finding, over all panels."""
    width, height = figure.get_size_inches()
    figure.text(0.15 / width, 1 - 0.12 / height, title, ha="left", va="top", fontsize=16, fontweight="bold")


def bar_panels(panels, labels, title):
    """{panel title: shares} as bars side by side on one scale."""
    figure, axes = canvas(10, 3.9, columns=len(panels), margins=(0.8, 0.2, 0.6, 1.05), gaps=(0.25, 0), sharey=True)
    for axis, (name, shares) in zip(axes, panels.items(), strict=True):
        shares = as_array(shares)
        drawn = axis.bar(labels, shares, color=colour("weights"))
        axis.bar_label(drawn, [f"{share:.2f}" for share in shares], padding=2, fontsize=SMALL + 1)
        axis.set_title(name, fontsize=15)
        axis.tick_params(axis="x", labelsize=SMALL)
    axes[0].set(ylim=(0, 1.12), ylabel="share")
    headline(figure, title)
    return figure


def value_and_slope(z, soft, hard, soft_slope, hard_slope):
    """The share of a moving logit and its slope, by softmax and by argmax."""
    z, soft, hard, soft_slope, hard_slope = map(as_array, (z, soft, hard, soft_slope, hard_slope))
    jump = z[np.argmax(np.diff(hard)) + 1]
    figure, axes = canvas(10, 4.0, columns=2, margins=(0.8, 0.2, 0.7, 0.7), gaps=(0.9, 0))
    for axis, smooth, step, name in (
        (axes[0], soft, hard, "share of the moving logit"),
        (axes[1], soft_slope, hard_slope, "its slope"),
    ):
        before, after = z < jump, z >= jump
        axis.plot(z, smooth, color=SOFT, label="softmax")
        for k, side in enumerate((before, after)):
            axis.plot(z[side], step[side], color=HARD, linestyle="--", label="argmax" if k == 0 else None)
        axis.set(xlabel="moving logit (the others: 0 and 1)", ylabel=name)
    axes[0].legend(loc="upper left")
    look = {"markerfacecolor": "white", "markeredgecolor": HARD, "markeredgewidth": 2, "linestyle": "none"}
    axes[1].plot([jump], [0], "o", label="none at the jump", **look)
    axes[1].legend(loc="upper left", handles=axes[1].lines[-1:])
    headline(figure, "softmax says which way is up, argmax does not")
    return figure


def glimpses(picture, weights, chosen, soft, hard, size=8):
    """A picture in patches with their weights, the one patch of a hard glimpse, and the soft blend of all."""
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
        axes, ("weights of nine patches", "hard: one patch, drawn", "soft: all, blended"), strict=True
    ):
        axis.set_title(name, fontsize=14)
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
    headline(figure, "a hard glimpse is sharp and lucky, a soft one is blurred and sure")
    return figure


def cosine_histograms(cosines):
    """{dimension: cosines of random pairs} as one histogram each, on one scale."""
    figure, axes = canvas(
        10, 3.9, columns=len(cosines), margins=(0.75, 0.2, 0.7, 1.05), gaps=(0.3, 0), sharex=True, sharey=True
    )
    for axis, (dimension, values) in zip(axes, cosines.items(), strict=True):
        values = as_array(values)
        sns.histplot(x=values, bins=np.linspace(-1, 1, 41), stat="proportion", color=SOFT, linewidth=0, ax=axis)
        axis.set_title(f"d = {dimension}", fontsize=15)
        axis.set(xlabel="cosine", ylabel="share of pairs", xticks=[-1, 0, 1])
        axis.text(0.03, 0.97, f"spread\n{values.std():.2f}", transform=axis.transAxes, va="top", fontsize=SMALL + 1)
    headline(figure, "in many dimensions random directions are nearly at right angles")
    return figure


def regression_fit(x, y, grid, truth, prediction, look_from, weights, bandwidth):
    """Known points sized by their weight as seen from one place, the true curve and the fitted one."""
    figure, axis = canvas(9, 4.6, margins=(0.75, 0.25, 0.7, 0.6))
    weights = as_array(weights)
    axis.plot(as_array(grid), as_array(truth), color=GREY, linestyle="--", linewidth=2, label="true curve")
    axis.plot(as_array(grid), as_array(prediction), color=COLOURS["output"], label="prediction")
    axis.scatter(as_array(x), as_array(y), s=18, color=COLOURS["value"], zorder=3, label="known points")
    axis.scatter(
        as_array(x), as_array(y), s=2500 * weights, color=COLOURS["weights"], alpha=0.35, zorder=2, linewidth=0
    )
    axis.axvline(look_from, color=COLOURS["query"], linewidth=2)
    axis.annotate(
        "question", (look_from, 0.02), xycoords=("data", "axes fraction"), xytext=(6, 0), textcoords="offset points",
        color=COLOURS["query"], fontsize=SMALL + 1,
    )  # fmt: skip
    axis.set(xlabel="x", ylabel="y", ylim=(-1.6, 4.4))
    looked_at = 1 / np.square(weights).sum()
    axis.set_title(f"h = {bandwidth:.2f}: the answer comes from about {looked_at:.0f} of {len(weights)} points")
    axis.legend(loc="upper left", ncol=3, columnspacing=1.2, handlelength=1.4)
    return figure


def two_trainings(free, hidden, noise):
    """Bandwidth and training error over the steps, every seed a line: may see itself, or hidden from itself."""
    figure, axes = canvas(10, 4.2, columns=2, margins=(0.85, 0.2, 0.7, 0.7), gaps=(1.0, 0))
    for axis, entry, name in ((axes[0], "bandwidth", "bandwidth h"), (axes[1], "training_error", "training error")):
        for result, shade, label in ((free, RED, "may see itself"), (hidden, GREEN, "hidden from itself")):
            lines = as_array(result[entry])
            axis.plot(lines, color=shade, alpha=0.25, linewidth=1.2)
            axis.plot(lines.mean(-1), color=shade, label=label, linestyle="-" if shade == GREEN else "--")
        axis.set(xlabel="step", ylabel=name)
    axes[0].set_yscale("log")
    axes[0].legend(loc="lower left")
    axes[1].axhline(noise, color=BLACK, linewidth=1.5, linestyle=":")
    axes[1].text(1, noise - 0.015, "noise", va="top", fontsize=SMALL + 1)
    axes[1].set_ylim(bottom=0)
    headline(figure, "who may see the answer learns to copy it")
    return figure

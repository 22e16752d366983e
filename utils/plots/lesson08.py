"""The figures of lesson 08: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.patches import Rectangle

from utils.plots.figures import chart
from utils.plots.parts import (
    LABEL,
    LOOKS,
    draw_lines,
    name_lines,
    only_rows,
    percent,
    plain_ticks,
    write,
)
from utils.plots.style import DASHES, FONT, GREY, SIGNED_MAP, SMALL, WEIGHTS_MAP, WIDEST, as_array, ink_on

# Accuracy against the number of labels


def accuracy_against_labels(labels, curves, title, marks, only=None):
    """Accuracy by number of labels: a line through the means of each method, and bars from the lowest to the highest seed.

    labels: increasing; the last is "all". curves: {method: for each of the labels, the accuracies of all seeds in %}.
    marks: {name: accuracy} for dashed lines. only: the methods to draw, in the colors that they have among all.
    """
    positions = np.log(labels[:-1])
    positions = np.append(positions, positions[-1] + np.diff(positions).mean())  # "all": one mean step to the right
    figure, axes = chart(title, 10.5, 5.6)
    for index, ((name, points), (shade, marker, line)) in enumerate(zip(curves.items(), LOOKS, strict=False)):
        if only and name not in only:
            continue
        points = [as_array(seeds) for seeds in points]
        x = positions + 0.04 * (index - (len(curves) - 1) / 2)  # bars do not overlap
        axes.plot(
            x, [seeds.mean() for seeds in points], marker=marker, linestyle=line, color=shade, label=name, zorder=3
        )
        ends = [seeds.min() for seeds in points], [seeds.max() for seeds in points]
        axes.vlines(x, *ends, color=shade, linewidth=5, alpha=0.45, zorder=2)
    for name, level in marks.items():
        axes.axhline(level, color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=f"{name} {level:.1f}")
    axes.set_xticks(positions, [str(number) for number in labels])
    axes.set(xlabel="labels per class (dot: mean, bar: all seeds)", ylabel="accuracy in %", ylim=(0, None))
    name_lines(axes)
    return figure


# Several tasks


def tasks_bars(rows, title, methods):
    """Horizontal bars by task and method, with a dashed line at the majority class and a diamond at a bag of words.

    rows: (task, for each method the accuracies of its seeds in %, majority, bag of words); the last two in %. Error bars
    go from the lowest seed to the highest.
    """
    figure, axes = chart(title, WIDEST, 2.0 + 1.0 * len(rows))
    thick = 0.8 / len(methods)
    for index, (name, (shade, _, _)) in enumerate(zip(methods, LOOKS, strict=False)):
        seeds = [as_array(values[index]) for _, values, _, _ in rows]
        means = np.array([values.mean() for values in seeds])
        errors = np.array([[values.mean() - values.min(), values.max() - values.mean()] for values in seeds]).T.clip(0)
        y = np.arange(len(rows)) + thick * (index - (len(methods) - 1) / 2)
        bars = axes.barh(y, means, 0.86 * thick, xerr=errors, color=shade, alpha=0.5, label=name)
        axes.bar_label(bars, [f"{mean:.1f}" for mean in means], label_type="center", fontsize=LABEL)
    for number, (_, _, majority, bag) in enumerate(rows):
        names = ("majority class", "bag of words") if number == 0 else (None, None)
        line = {"color": "black", "linewidth": 2.2, "linestyle": (0, (2, 1)), "zorder": 5}
        axes.plot([majority] * 2, [number - 0.4, number + 0.4], label=names[0], **line)
        diamond = {"color": "white", "markeredgecolor": "black", "markeredgewidth": 2, "linestyle": "none", "zorder": 5}
        axes.plot([bag], [number - 0.46], "D", label=names[1], **diamond)
    only_rows(axes, [task for task, *_ in rows])
    axes.set(xlim=(0, 100), xlabel="accuracy in % (line: all seeds)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


# What fine-tuning does to the parameters


def distance_by_layer(names, panels, title):
    """Distance that training moved each part of the model: a panel per optimizer, a bar per initialization.

    names: the parts from the input to the output. panels: {optimizer: {initialization: (parts, seeds)}}; the error bars
    span all seeds.
    """
    figure, all_axes = chart(title, WIDEST, 4.9, columns=len(panels), sharey=True)
    for axes, (optimizer, curves) in zip(all_axes, panels.items(), strict=True):
        wide = 0.8 / len(curves)
        for index, ((name, values), (shade, _, _)) in enumerate(zip(curves.items(), LOOKS, strict=False)):
            values = as_array(values)
            means = values.mean(1)
            ends = np.stack([means - values.min(1), values.max(1) - means]).clip(0)
            x = np.arange(len(names)) + wide * (index - (len(curves) - 1) / 2)
            bars = axes.bar(x, means, wide * 0.9, yerr=ends, color=shade, alpha=0.85, label=name)
            axes.bar_label(bars, [f"{mean:.1f}" for mean in means], padding=3, fontsize=LABEL)
        axes.set_xticks(range(len(names)), names)
        axes.tick_params(axis="x", length=0)
        axes.set_title(optimizer, fontsize=FONT)
    all_axes[0].set_ylabel("distance from the initialization")
    all_axes[-1].legend(loc="upper right")
    return figure


def interpolation_curves(fractions, curves, title, ylabel):
    """Losses {method: (points,)} under linear interpolation of the parameters, at fractions (points,) from 0 to 1."""
    figure, axes = chart(title, 9.5, 5.2)
    draw_lines(axes, fractions, {name: as_array(losses) for name, losses in curves.items()}, clip_on=False)
    axes.set(xlabel="linear interpolation from start to end", ylabel=ylabel, ylim=(0, None), xlim=(0, 1))
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1], ["start\n0", "0.2", "0.4", "0.6", "0.8", "end\n1"])
    axes.grid(True, axis="x")
    name_lines(axes)
    return figure


def forgetting_by_steps(steps, losses, accuracies, title, marks):
    """Catastrophic forgetting: the pretraining loss, and the accuracy on the task, against the training steps.

    losses, accuracies: {name: (steps, seeds)}; a line through the means in a band over all seeds. marks: {name: loss}
    for dashed lines in the first panel.
    """
    figure, all_axes = chart(title, WIDEST, 5.2, columns=2)
    labels = ("loss at masked tokens in nats", "test accuracy on the task in %")
    for axes, curves, ylabel in zip(all_axes, (losses, accuracies), labels, strict=True):
        curves = {name: as_array(values) for name, values in curves.items()}
        bands = {name: (values.min(1), values.max(1)) for name, values in curves.items()}
        draw_lines(axes, steps, {name: values.mean(1) for name, values in curves.items()}, bands)
        axes.set_xscale("log", base=2)
        plain_ticks(axes.xaxis, steps)
        axes.set(xlabel="training steps", ylabel=ylabel)
    for name, loss in marks.items():
        all_axes[0].axhline(loss, color="black", linewidth=1.8, linestyle=DASHES)
        # The curves rise: a high mark has room on the left.
        position, side = (steps[0], "left") if loss > min(marks.values()) else (steps[-1], "right")
        write(all_axes[0], position, loss, name, LABEL, ha=side, va="bottom")
    all_axes[0].margins(y=0.1)
    all_axes[1].set_ylim(0, None)
    figure.legend(*all_axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


# The published model


def word_in_context(curves, maps, title):
    """One word in two senses: the cosines of its uses by layer, and what it attends to in one sentence of each sense.

    curves: {pairs: (layers + 1, 3) mean, min and max}. maps: {name: (tokens, weights (layers, tokens))}.
    """
    curves = {name: as_array(values) for name, values in curves.items()}
    figure, grid = chart(title, WIDEST, 6.6, rows=2, columns=2, width_ratios=(1, 1.35))
    for axes in grid[:, 0]:
        axes.remove()
    axes = figure.add_subplot(grid[0, 0].get_gridspec()[:, 0])
    bands = {name: values[:, 1:].T for name, values in curves.items()}
    count = len(next(iter(curves.values())))
    draw_lines(axes, range(count), {name: values[:, 0] for name, values in curves.items()}, bands)
    axes.set_xticks(range(count))
    axes.set(xlabel="layer, 0: embeddings", ylabel="cosine similarity of two uses", ylim=(None, 1))
    axes.legend(loc="lower left")
    for axes, (name, (tokens, weights)) in zip(grid[:, 1], maps.items(), strict=True):
        weights = as_array(weights)
        image = axes.imshow(weights, cmap=WEIGHTS_MAP, vmin=0, vmax=0.5, aspect="auto")
        for (layer, token), weight in np.ndenumerate(weights):
            write(axes, token, layer, f"{weight:.2f}"[1:], SMALL, color=ink_on(image.cmap(image.norm(weight))))
        axes.set_xticks(range(len(tokens)), tokens, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(weights)), range(1, len(weights) + 1))
        axes.set_ylabel("layer")
        axes.tick_params(length=0)
        axes.grid(False)
        axes.set_title(name, fontsize=FONT)
    return figure


def by_head(panels, title, label, cmap=SIGNED_MAP, outline=True):
    """Heat maps by layer and head of numbers from 0 to 1, such as an accuracy; the largest are outlined.

    panels: {name: (num_layers, num_heads)}. With SIGNED_MAP, white is one half.
    """
    panels = {name: as_array(values) for name, values in panels.items()}
    rows = [len(values) for values in panels.values()]
    height = 1.6 + 0.36 * sum(rows) + 0.7 * len(rows)
    figure, grid = chart(title, WIDEST, height, rows=len(rows), height_ratios=rows, squeeze=False)
    for axes, (name, values) in zip(grid[:, 0], panels.items(), strict=True):
        image = axes.imshow(values, cmap=cmap, vmin=0, vmax=1, aspect="auto")
        for (layer, head), value in np.ndenumerate(values):
            write(axes, head, layer, percent(value), SMALL, color=ink_on(image.cmap(image.norm(value))))
            if outline and value == values.max():
                frame = {"fill": False, "edgecolor": "black", "linewidth": 2.6, "zorder": 3}
                axes.add_patch(Rectangle((head - 0.47, layer - 0.45), 0.94, 0.9, **frame))
        axes.set_xticks(range(values.shape[1]), [f"head {head + 1}" for head in range(values.shape[1])])
        axes.set_yticks(range(len(values)), [f"layer {layer + 1}" for layer in range(len(values))])
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.grid(False)
        axes.set_title(name, fontsize=FONT)
    figure.supxlabel(label, fontsize=LABEL, color=GREY)
    return figure

"""The figures of lesson 08: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle

from utils.plots.figures import chart, signed
from utils.plots.parts import (
    LABEL,
    LOOKS,
    draw_lines,
    name_lines,
    only_rows,
    percent,
    write,
)
from utils.plots.style import BLUE, DASHES, FONT, GREY, ORANGE, SMALL, WEIGHTS_MAP, WIDEST, as_array, is_dark

# Accuracy against the number of labels


def accuracy_against_labels(labels, curves, title, marks):
    """A line through the means for each way to learn, and at each point a bar from the lowest seed to the highest.

    labels: rising numbers; the last is "all". curves: {name: one entry for each of the labels, the accuracies of all
    seeds in %}. marks: {name: accuracy} for dashed lines.
    """
    places = np.log(labels[:-1])
    places = np.append(places, places[-1] + np.diff(places).mean())  # "all" is one mean step behind the last number
    figure, axes = chart(title, 10.5, 5.6)
    for index, ((name, points), (shade, marker, line)) in enumerate(zip(curves.items(), LOOKS, strict=False)):
        points = [as_array(seeds) for seeds in points]
        x = places + 0.04 * (index - (len(curves) - 1) / 2)  # so that no bar hides another
        axes.plot(
            x, [seeds.mean() for seeds in points], marker=marker, linestyle=line, color=shade, label=name, zorder=3
        )
        ends = [seeds.min() for seeds in points], [seeds.max() for seeds in points]
        axes.vlines(x, *ends, color=shade, linewidth=5, alpha=0.45, zorder=2)
    for name, level in marks.items():
        axes.axhline(level, color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=f"{name} {level:.1f}")
    axes.set_xticks(places, [str(number) for number in labels])
    axes.set(xlabel="labels for each class (dot: mean, bar: all seeds)", ylabel="accuracy in %", ylim=(0, None))
    name_lines(axes)
    return figure


# Several tasks


def tasks_bars(rows, title, ways):
    """Lying bars for each task, one for each way, with a dashed line at the commonest label and a diamond at a bag of words.

    rows: (task, one entry for each way, the accuracies of its seeds in %, majority, bag of words); the last two in %. A line
    over the end of a bar goes from the lowest seed to the highest.
    """
    figure, axes = chart(title, 11.5, 2.0 + 1.0 * len(rows))
    thick = 0.8 / len(ways)
    places = np.arange(len(rows))
    for way, (name, (shade, _, _)) in enumerate(zip(ways, LOOKS, strict=False)):
        seeds = [as_array(values[way]) for _, values, _, _ in rows]
        means = np.array([one.mean() for one in seeds])
        ends = np.array([[one.mean() - one.min(), one.max() - one.mean()] for one in seeds]).T.clip(0)
        y = places + thick * (way - (len(ways) - 1) / 2)
        drawn = axes.barh(y, means, 0.86 * thick, xerr=ends, color=shade, alpha=0.75, label=name)
        axes.bar_label(drawn, [f"{mean:.1f}" for mean in means], label_type="center", fontsize=LABEL)
    for number, (_, _, majority, bag) in enumerate(rows):
        names = ("commonest label", "bag of words") if number == 0 else (None, None)
        line = {"color": "black", "linewidth": 2.2, "linestyle": (0, (2, 1)), "zorder": 5}
        axes.plot([majority] * 2, [number - 0.4, number + 0.4], label=names[0], **line)
        diamond = {"color": "white", "markeredgecolor": "black", "markeredgewidth": 2, "linestyle": "none", "zorder": 5}
        axes.plot([bag], [number - 0.46], "D", label=names[1], **diamond)
    only_rows(axes, [task for task, *_ in rows])
    axes.set(xlim=(0, 100), xlabel="accuracy in % (line: all seeds)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


# What fine-tuning does to the parameters


def distance_by_layer(names, curves, title, ylabel):
    """Bars for each part of the model, one for each way: how far its parameters went. The line spans all seeds.

    names: the parts from the input to the output. curves: {way: (parts, seeds)}.
    """
    figure, axes = chart(title, 11.0, 4.9)
    wide = 0.8 / len(curves)
    for index, ((way, values), (shade, _, _)) in enumerate(zip(curves.items(), LOOKS, strict=False)):
        values = as_array(values)
        means = values.mean(1)
        ends = np.stack([means - values.min(1), values.max(1) - means]).clip(0)
        x = np.arange(len(names)) + wide * (index - (len(curves) - 1) / 2)
        axes.bar(x, means, wide * 0.9, yerr=ends, color=shade, alpha=0.85, label=way)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel(ylabel)
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="upper right")
    return figure


def loss_along_the_line(shares, curves, title, ends, ylabel):
    """{name: losses (points,)} on the straight line between two sets of parameters; 0 is the start and 1 the end.

    shares (points,): from 0 to 1. ends: what the two are called.
    """
    figure, axes = chart(title, 9.5, 5.2)
    draw_lines(axes, shares, {name: as_array(losses) for name, losses in curves.items()}, clip_on=False)
    axes.set(xlabel="share of the way from start to end", ylabel=ylabel, ylim=(0, None), xlim=(0, 1))
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1], [f"{ends[0]}\n0", "0.2", "0.4", "0.6", "0.8", f"{ends[1]}\n1"])
    axes.grid(True, axis="x")
    name_lines(axes)
    return figure


def forgetting_bars(rows, title, xlabel, mark):
    """Lying bars: the loss before and after fine-tuning, and under each name by how much it rose.

    rows: (name, before, after). mark: (loss, name) of a dashed line, such as that of the unigram model.
    """
    figure, axes = chart(title, 11.5, 1.9 + 0.9 * len(rows))
    places, thick = np.arange(len(rows)), 0.34
    before, after = (as_array([np.mean(row[side]) for row in rows]) for side in (1, 2))
    for side, (name, losses, shade) in enumerate((("before", before, BLUE), ("after", after, ORANGE))):
        drawn = axes.barh(places + thick * (side - 0.5), losses, 0.88 * thick, color=shade, alpha=0.85, label=name)
        axes.bar_label(drawn, fmt="{:.2f}", padding=5, fontsize=LABEL)
    axes.axvline(mark[0], color="black", linewidth=1.8, linestyle=DASHES, label=mark[1])
    rises = [f"{'+' if rise > 0.005 else ''}{signed(rise)}" for rise in after - before]
    only_rows(axes, [f"{name}\n{rise}" for (name, *_), rise in zip(rows, rises, strict=True)])
    axes.set(xlim=(0, 1.1 * max(after.max(), mark[0])), xlabel=xlabel)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


# The real model


def senses_by_layer(curves, title):
    """{pair: (layers, 3) mean, least and most cosine}: a line through the means in a band from the least to the most."""
    curves = {name: as_array(values) for name, values in curves.items()}
    count = len(next(iter(curves.values())))
    figure, axes = chart(title, 10.5, 5.6)
    bands = {name: values[:, 1:].T for name, values in curves.items()}
    draw_lines(axes, range(count), {name: values[:, 0] for name, values in curves.items()}, bands)
    axes.set_xticks(range(count), ["embeddings", *map(str, range(1, count))])
    axes.set(
        xlabel="layer (line: mean of all pairs, band: least to most)", ylabel="cosine between two uses", ylim=(None, 1)
    )
    name_lines(axes)
    return figure


def similarity_matrix(sentences, cosines, title):
    """Cosines (n, n) between sentences as colors with numbers; each sentence stands at its row, its number at its column."""
    cosines = as_array(cosines)
    count = len(cosines)
    figure, axes = chart(title, 11.5, 1.2 + 0.5 * count)
    image = axes.imshow(cosines, cmap=WEIGHTS_MAP, vmax=1, aspect="auto")
    for (row, column), cosine in np.ndenumerate(cosines):
        dark = is_dark(image.cmap(image.norm(cosine)))
        write(axes, column, row, signed(cosine), SMALL, color="white" if dark else "black")
    axes.set_xticks(range(count), range(1, count + 1))
    axes.set_yticks(range(count), [f"{number + 1}  {sentence}" for number, sentence in enumerate(sentences)])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, label="cosine", aspect=25, pad=0.02)
    bar.outline.set_visible(False)
    return figure


# Blue where a head looks at the right noun more often than luck would, red where it does so less often.
LUCK = LinearSegmentedColormap.from_list("luck", ["#A84A00", "#E98A4E", "#FFFFFF", "#7FB8DC", "#0072B2"], N=257)


def pronoun_looks(shares, title):
    """A tile for each head: how often it looks at the right one of two nouns. The best tile, or each of them, is outlined.

    shares: {name: (layers, heads) from 0 to 1}, grids below each other. White is luck.
    """
    shares = {name: as_array(values) for name, values in shares.items()}
    rows = [len(values) for values in shares.values()]
    figure, panels = chart(title, WIDEST, 1.6 + 0.36 * sum(rows) + 0.7 * len(rows), rows=len(rows), height_ratios=rows)
    for axes, (name, values) in zip(panels, shares.items(), strict=True):
        image = axes.imshow(values, cmap=LUCK, vmin=0, vmax=1, aspect="auto")
        for (layer, head), share in np.ndenumerate(values):
            dark = is_dark(image.cmap(image.norm(share)))
            write(axes, head, layer, percent(share), SMALL, color="white" if dark else "black")
            if share == values.max():
                frame = {"fill": False, "edgecolor": "black", "linewidth": 2.6, "zorder": 3}
                axes.add_patch(Rectangle((head - 0.47, layer - 0.45), 0.94, 0.9, **frame))
        axes.set_xticks(range(values.shape[1]), [f"head {head + 1}" for head in range(values.shape[1])])
        axes.set_yticks(range(len(values)), [f"layer {layer + 1}" for layer in range(len(values))])
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.grid(False)
        axes.set_title(name, fontsize=FONT)
    figure.supxlabel("share of sentences in which the head looks more at the right noun", fontsize=LABEL, color=GREY)
    return figure

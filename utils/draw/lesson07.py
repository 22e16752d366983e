"""The figures of lesson 07: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from utils.draw.figures import chart, signed, write_title
from utils.draw.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_RED,
    draw_arrow,
    draw_box,
    draw_lines,
    name_lines,
    only_rows,
    percent,
    sheet,
    top_of,
    write,
)
from utils.draw.style import BLUE, FONT, GREY, ORANGE, RED, SMALL, WEIGHTS_MAP, as_array, is_dark
from utils.draw.text import inches

WIDEST = 12.4  # inches: what fits a slide
DASHES = (0, (4, 2))
DARK_RED = "#A84A00"


# Byte-pair merges of one word


def merges_steps(steps, title, notes):
    """One word as its pieces grow: a row for each step, the pieces that have just been joined filled.

    steps: the pieces of the word before the first merge, after it, after the second, ... notes: what stands behind each
    row; the first may be "".
    """
    word = "".join(steps[0])
    joins = ["letters", *(joined(before, after) for before, after in zip(steps, steps[1:], strict=False))]
    left, cell, row = 0.35 + max(inches(text, LABEL) for text in joins), 0.55, 0.56
    width = max(7.0, left + cell * len(word) + 0.3 + max(inches(note, LABEL) for note in notes))
    height = row * len(steps) + 0.1
    figure, axes = sheet(width, height + top_of(title, width))
    for number, (pieces, join, note) in enumerate(zip(steps, joins, notes, strict=True)):
        y = height - row * (number + 0.5)
        write(axes, left - 0.15, y, join, LABEL, ha="right", color=GREY)
        before = spans(steps[number - 1]) if number else spans(pieces)
        for place, end in spans(pieces):
            fresh = (place, end) not in before
            look = (PALE_RED, RED) if fresh else (PALE_BLUE, BLUE)
            x, wide = left + cell * (place + end) / 2, cell * (end - place) - 0.06
            draw_box(axes, x, y, wide, 0.42, word[place:end], *look, fontweight="bold" if fresh else "normal")
        write(axes, left + cell * len(word) + 0.15, y, note, LABEL, ha="left")
    write_title(figure, title)
    return figure


def spans(pieces):
    """(from, to) of each piece, in letters."""
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    return list(zip([0, *ends], ends, strict=False))


def joined(before, after):
    """Which pair was joined between two steps, as "l + o"."""
    starts = {place: index for index, (place, _) in enumerate(spans(before))}
    pairs = set()
    for place, end in spans(after):
        inside = [before[index] for start, index in starts.items() if place <= start < end]
        if len(inside) == 2:
            pairs.add(tuple(inside))
    return " + ".join(pairs.pop())


# Three objectives

MASK, GAP, START, END = "[MASK]", "[GAP{}]", "<start>", "<end>"
OWN, CROSS = 1, 2  # a look in the same row of pieces, a look of the decoder at what the encoder read
SHADES = {0: "#EDEDED", OWN: BLUE, CROSS: RED}


def three_masks(words, title, *, masked, gaps):
    """Three ways to make a task of one sentence: what is read, what is to be said, and who may look at whom.

    masked: the places, from 0, that the encoder must fill in. gaps: (first, behind the last) of each run of words that is
    cut out for the encoder-decoder. What is said of the gaps ends with the name of the next one: nothing else is missing.
    """
    source, target = _cut_out(words, gaps)
    count = len(words) + 1
    square = len(source) + len(target) + 1
    both = np.zeros((square, square), dtype=int)
    both[:, : len(source)] = CROSS
    both[: len(source), : len(source)] = OWN
    both[len(source) :, len(source) :] = np.tril(np.ones((len(target) + 1,) * 2, dtype=int))
    panels = (
        (
            "blanks",
            "encoder: both ways",
            [MASK if place in masked else word for place, word in enumerate(words)],
            [word if place in masked else "" for place, word in enumerate(words)],
            np.ones((len(words), len(words)), dtype=int),
        ),
        (
            "next piece",
            "decoder: only back",
            [START, *words],
            [*words, END],
            np.tril(np.ones((count, count), dtype=int)),
        ),
        (
            "gaps",
            "encoder and decoder",
            [*source, START, *target],
            [*[""] * len(source), *target, GAP.format(len(gaps))],
            both,
        ),
    )
    return _draw_objectives(panels, len(source), title)


def _cut_out(words, gaps):
    """The sentence with its gaps, and what was in them, each behind the name of its gap."""
    source, target, place = [], [], 0
    for number, (first, last) in enumerate(gaps):
        source += [*words[place:first], GAP.format(number)]
        target += [GAP.format(number), *words[first:last]]
        place = last
    return [*source, *words[place:]], target


def _draw_objectives(panels, sources, title):
    beside = [max(inches(word, LABEL) for word in reads) + 0.12 for _, _, reads, *_ in panels]
    behind = [max(inches(word, LABEL) for word in says) + 0.5 for _, _, _, says, _ in panels]
    cells = sum(len(reads) for _, _, reads, *_ in panels)
    space = 0.3
    cell = min(0.36, (WIDEST - 0.2 - 2 * space - sum(beside) - sum(behind)) / cells)
    widths = [
        max(one + len(reads) * cell + other, inches(name, FONT, "bold") + 0.1, inches(small, LABEL) + 0.1)
        for one, other, (name, small, reads, *_) in zip(beside, behind, panels, strict=True)
    ]
    over = 0.15 + max(inches(word, LABEL) for _, _, reads, *_ in panels for word in reads)
    tall = max(len(reads) for _, _, reads, *_ in panels) * cell
    foot = 0.5
    width = 0.2 + sum(widths) + 2 * space
    height = foot + tall + over + 0.75
    figure, axes = sheet(width, height + top_of(title, width))
    left = 0.1
    for one, wide, (name, small, reads, says, looks) in zip(beside, widths, panels, strict=True):
        write(axes, left, height - 0.18, name, FONT, ha="left", fontweight="bold")
        write(axes, left, height - 0.48, small, LABEL, ha="left", color=GREY)
        _draw_looks(axes, reads, says, looks, left + one, height - 0.75 - over, cell)
        if looks.max() == CROSS:
            _part_lines(axes, sources, len(reads), left + one, height - 0.75 - over, cell)
        left += wide + space
    names = {BLUE: "may look", RED: "may look: decoder at encoder", SHADES[0]: "may not"}
    keys = [Patch(color=shade, label=name) for shade, name in names.items()]
    said = Line2D([], [], color=RED, marker=">", label="to be said there")
    axes.legend(handles=[*keys, said], loc="lower left", ncols=4, borderaxespad=0, handlelength=1.4)
    write_title(figure, title)
    return figure


def _draw_looks(axes, reads, says, looks, left, top, cell):
    """Rows: what is read, a tick for each look, an arrow to what is to be said there."""
    end = left + len(reads) * cell
    for row, (word, said) in enumerate(zip(reads, says, strict=True)):
        y = top - (row + 0.5) * cell
        write(axes, left - 0.08, y, word, LABEL, ha="right")
        write(axes, left + (row + 0.5) * cell, top + 0.08, word, LABEL, va="bottom", rotation=90)
        if said:
            draw_arrow(axes, (end + 0.05, y), (end + 0.34, y), RED)
            write(axes, end + 0.4, y, said, LABEL, ha="left", fontweight="bold", color=DARK_RED)
    for (row, column), look in np.ndenumerate(looks):
        corner = (left + column * cell, top - (row + 1) * cell)
        axes.add_patch(Rectangle(corner, cell, cell, facecolor=SHADES[look], edgecolor="white", linewidth=1.5))
        if look:
            x, y = corner[0] + cell / 2, corner[1] + cell / 2
            tick = ([x - cell * 0.2, x - cell * 0.05, x + cell * 0.22], [y, y - cell * 0.16, y + cell * 0.2])
            axes.plot(*tick, color="white", linewidth=max(1.4, 5 * cell), solid_capstyle="round")


def _part_lines(axes, sources, count, left, top, cell):
    """Between what the encoder reads and what the decoder reads."""
    look = {"color": "black", "linewidth": 2}
    axes.plot([left, left + count * cell], [top - sources * cell] * 2, **look)
    axes.plot([left + sources * cell] * 2, [top, top - count * cell], **look)


# Pretraining


def pretraining_curves(steps, curves, title, unigram, ylabel, unigram_name):
    """{name: losses (points,)} through pretraining; behind each name the perplexity at its end.

    unigram: the loss of a model that counts pieces and looks at nothing, as a dashed line.
    """
    curves = {name: as_array(losses) for name, losses in curves.items()}
    figure, axes = chart(title, 10.5, 5.4)
    named = {f"{name}\nperplexity {_perplexity(losses[-1])}": losses for name, losses in curves.items()}
    draw_lines(axes, steps, named, markevery=2)
    words = f"{unigram_name}: {unigram:.2f},\nperplexity {_perplexity(unigram)}"
    axes.axhline(unigram, color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=words)
    axes.set(xlabel="training step", ylabel=ylabel, ylim=(min(map(min, curves.values())) - 0.5, None))
    name_lines(axes)
    return figure


def _perplexity(loss):
    value = np.exp(loss)
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


# --- fine-tuning ---

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

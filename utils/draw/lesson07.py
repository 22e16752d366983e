"""The figures of lesson 07: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Patch, Rectangle

from utils.draw.figures import TITLE, checked_labels, signed, write_title
from utils.draw.lesson05 import spread
from utils.draw.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_RED,
    checked_curves,
    draw_arrow,
    draw_box,
    lines_canvas,
    name_ends,
    percent,
    sheet,
    short,
    top_of,
    write,
)
from utils.draw.style import BLUE, FONT, GREY, ORANGE, PALE, RED, SMALL, WEIGHTS_MAP, as_array, canvas, is_dark
from utils.draw.text import inches, shortened

__all__ = [
    "accuracy_against_labels",
    "distance_by_layer",
    "forgetting_bars",
    "loss_along_the_line",
    "merges_steps",
    "pretraining_curves",
    "pronoun_looks",
    "senses_by_layer",
    "similarity_matrix",
    "tasks_bars",
    "three_masks",
]

WIDEST, TALLEST = 12.4, 9.0  # inches: what fits a slide
DASHES = (0, (4, 2))
DARK_RED = "#A84A00"


# Byte-pair merges of one word

MOST_STEPS, MOST_LETTERS = 12, 28


def merges_steps(steps, title, notes=None):
    """One word as its pieces grow: a row for each step, the pieces that have just been joined filled.

    steps: the pieces of the word before the first merge, after it, after the second, ... notes: what stands behind each
    row, such as how often the pair was counted; the first row has one too, which may be "".
    """
    steps = [[str(piece) for piece in pieces] for pieces in steps]
    if not 1 <= len(steps) <= MOST_STEPS:
        raise ValueError(f"expected one to {MOST_STEPS} steps, got {len(steps)}")
    notes = [""] * len(steps) if notes is None else checked_labels(notes, len(steps), "notes")
    word = "".join(steps[0])
    if not word or len(word) > MOST_LETTERS or "" in steps[0]:
        raise ValueError(f"expected a word of one to {MOST_LETTERS} letters in pieces of at least one, got {steps[0]}")
    joins = ["letters" if all(len(piece) == 1 for piece in steps[0]) else "start"]
    joins += [joined(before, after) for before, after in zip(steps, steps[1:], strict=False)]
    left = 0.35 + max(inches(text, LABEL) for text in joins)
    right = 0.3 + max(inches(note, LABEL) for note in notes) if any(notes) else 0.15
    cell = min(0.55, (WIDEST - left - right) / len(word))
    if cell < max(inches(letter, FONT) for letter in word) + 0.04:
        raise ValueError(f"{word!r} and its notes are too wide for a slide: take a shorter word or shorter notes")
    width = max(left + cell * len(word) + right, 7.0, min(WIDEST, inches(title, TITLE, "bold") + 0.4))
    row = 0.56
    height = row * len(steps) + 0.1
    figure, axes = sheet(width, height + top_of(title, width))
    for number, (pieces, join, note) in enumerate(zip(steps, joins, notes, strict=True)):
        y = height - row * (number + 0.5)
        write(axes, left - 0.15, y, join, LABEL, ha="right", color=GREY)
        before = spans(steps[number - 1]) if number else spans(pieces)
        for place, end in spans(pieces):
            fresh = (place, end) not in before
            face, edge = (PALE_RED, RED) if fresh else (PALE_BLUE, BLUE)
            look = {"fontweight": "bold"} if fresh else {}
            text = word[place:end]
            draw_box(
                axes, left + cell * (place + end) / 2, y, cell * (end - place) - 0.06, 0.42, text, face, edge, **look
            )
        if note:
            write(axes, left + cell * len(word) + 0.15, y, note, LABEL, ha="left")
    write_title(figure, title)
    return figure


def spans(pieces):
    """(from, to) of each piece, in letters."""
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    return list(zip([0, *ends], ends, strict=False))


def joined(before, after):
    """Which pair was joined between two steps, as "l + o"; an error if it was not exactly one pair."""
    starts = {place: index for index, (place, _) in enumerate(spans(before))}
    pairs = set()
    for (place, end), piece in zip(spans(after), after, strict=True):
        inside = [before[index] for start, index in starts.items() if place <= start < end]
        if "".join(inside) != piece or len(inside) > 2:
            raise ValueError(f"expected {after} to come from {before} by joining neighbours of one pair")
        if len(inside) == 2:
            pairs.add(tuple(inside))
    if len(pairs) != 1 or "".join(before) != "".join(after):
        raise ValueError(f"expected {after} to come from {before} by joining neighbours of one pair")
    return " + ".join(pairs.pop())


# Three objectives

MASK, GAP, START, END = "[MASK]", "[GAP{}]", "<start>", "<end>"
OWN, CROSS = 1, 2  # a look in the same row of pieces, a look of the decoder at what the encoder read
SHADES = {0: "#EDEDED", OWN: BLUE, CROSS: RED}


def three_masks(words, title, *, masked, gaps, mask=MASK, gap=GAP, start=START, end=END):
    """Three ways to make a task of one sentence: what is read, what is to be said, and who may look at whom.

    masked: the places, from 0, that the encoder must fill in. gaps: (first, behind the last) of each run of words that is
    cut out for the encoder-decoder; `gap` is its name with {} for its number. What is said of the gaps ends with the name of
    the next one: nothing else is missing.
    """
    words = [short(word) for word in words]
    masked, gaps = _checked_places(masked, len(words)), _checked_gaps(gaps, len(words))
    source, target = _cut_out(words, gaps, gap)
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
            [mask if place in masked else word for place, word in enumerate(words)],
            [word if place in masked else "" for place, word in enumerate(words)],
            np.ones((len(words), len(words)), dtype=int),
        ),
        (
            "next piece",
            "decoder: only back",
            [start, *words],
            [*words, end],
            np.tril(np.ones((count, count), dtype=int)),
        ),
        (
            "gaps",
            "encoder and decoder",
            [*source, start, *target],
            [*[""] * len(source), *target, gap.format(len(gaps))],
            both,
        ),
    )
    return _draw_objectives(panels, len(source), title)


def _checked_places(places, count):
    places = sorted({int(place) for place in places})
    if count < 2 or not places or not 0 <= places[0] <= places[-1] < count:
        raise ValueError(f"expected at least two words and masked places among 0 to {count - 1}, got {places}")
    return places


def _checked_gaps(gaps, count):
    gaps = [tuple(int(place) for place in one) for one in gaps]
    ends = [0, *(place for one in gaps for place in one), count]
    rising = all(len(one) == 2 and one[0] < one[1] for one in gaps) and ends == sorted(ends)
    apart = all(one[1] < other[0] for one, other in zip(gaps, gaps[1:], strict=False))
    if not gaps or not rising or not apart:
        raise ValueError(
            f"expected gaps (first, behind the last) among {count} words, in order and with words between them, got {gaps}"
        )
    return gaps


def _cut_out(words, gaps, name):
    """The sentence with its gaps, and what was in them, each behind the name of its gap."""
    source, target, place = [], [], 0
    for number, (first, last) in enumerate(gaps):
        source += [*words[place:first], name.format(number)]
        target += [name.format(number), *words[first:last]]
        place = last
    return [*source, *words[place:]], target


def _draw_objectives(panels, sources, title):
    beside = [max(inches(word, LABEL) for word in reads) + 0.12 for _, _, reads, *_ in panels]
    behind = [max(inches(word, LABEL) for word in says) + 0.5 for _, _, _, says, _ in panels]
    cells = sum(len(reads) for _, _, reads, *_ in panels)
    space = 0.3
    cell = min(0.36, (WIDEST - 0.2 - 2 * space - sum(beside) - sum(behind)) / cells)
    if cell < 0.225:
        raise ValueError(f"{len(panels[0][2])} words do not fit a slide three times: take fewer or shorter ones")
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
    _look_key(axes, width)
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


def _look_key(axes, width):
    x, y = 0.1, 0.24
    for shade, text in (
        (BLUE, "may look"),
        (RED, "may look: decoder at encoder"),
        (SHADES[0], "may not"),
    ):
        axes.add_patch(Rectangle((x, y - 0.1), 0.2, 0.2, facecolor=shade, edgecolor="none"))
        write(axes, x + 0.3, y, text, LABEL, ha="left")
        x += 0.6 + inches(text, LABEL)
    said = "→ to be said there"
    if x + inches(said, LABEL) < width:
        write(axes, x, y, said, LABEL, ha="left", color=DARK_RED)


# Pretraining


def pretraining_curves(steps, curves, title, unigram=None, ylabel="held-out loss in nats", unigram_name="unigram"):
    """{name: (points,) or (points, seeds)}: the loss through pretraining; behind each name the perplexity at its end.

    unigram: the loss of a model that counts pieces and looks at nothing, as a dashed line. The axis begins below the lowest
    loss, not at 0.
    """
    checked = {}
    for name, values in curves.items():
        values = as_array(values, f"the losses of {name}")
        if values.size and values.min() < 0:
            raise ValueError(f"a loss in nats is never negative, but the smallest of {name} is {values.min():g}")
        end = np.median(values[-1]) if values.size else 0.0
        checked[f"{name}\nperplexity {_perplexity(end)}"] = values
    if unigram is None:
        return spread(steps, checked, title, "training step", ylabel, limits=_loss_limits(checked))
    unigram = float(unigram)
    if not 0 < unigram < np.inf:
        raise ValueError(f"expected the loss of the unigram model above 0, got {unigram:g}")
    words = f"{unigram_name}: {unigram:.2f}, perplexity {_perplexity(unigram)}"
    limits = _loss_limits(checked, unigram)
    figure = spread(steps, checked, title, "training step", ylabel, limits=limits)
    _level(figure.axes[0], unigram, words, *_freer_side(figure.axes[0], checked, words, unigram))
    return figure


def _freer_side(axes, curves, words, level):
    """(x, ha) for words over a level: at the left or at the right, where the curves are farther away from them."""
    low, high = axes.get_ylim()
    share = (inches(words, LABEL) + 0.2) / (axes.figure.get_figwidth() * axes.get_position().width)
    middle, apart = level + 0.05 * (high - low), []
    for values in curves.values():
        few = max(1, int(np.ceil(share * len(values))))
        apart.append([abs(part - middle).min() for part in (values[:few], values[-few:])])
    left, right = np.min(apart, axis=0)
    return (0.01, "left") if left >= right else (0.99, "right")


def _loss_limits(curves, *levels):
    """From half a nat or a little more below the lowest number to where the name of a line at the highest has room."""
    every = np.concatenate([*(values.reshape(-1) for values in curves.values()), np.array(levels)])
    low, high = (every.min(), every.max()) if every.size else (0.0, 1.0)
    low = max(0.0, np.floor(2 * low) / 2 - 0.5)
    return low, high + 0.12 * (high - low) if high > low else low + 1.0


def _perplexity(loss):
    value = np.exp(loss)
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


# Accuracy against the number of labels

ALL = "all"


def accuracy_against_labels(labels, curves, title, marks=None, xlabel="labels for each class", ylabel="accuracy in %"):
    """A line through the means for each way to learn, and at each point a bar from the lowest seed to the highest.

    labels: rising numbers; the last may be "all". curves: {name: one entry for each of the labels, the accuracies of all
    seeds in %, or None where nothing was measured}. marks: {name: accuracy} for up to two dashed lines.
    """
    places, ticks = _label_places(labels)
    checked = {str(name): _checked_points(points, len(places), name) for name, points in curves.items()}
    if not 1 <= len(checked) <= len(LOOKS):
        raise ValueError(f"expected one to {len(LOOKS)} curves {{name: accuracies}}, got {len(checked)}")
    marks = {str(name): _checked_percent(level, name) for name, level in (marks or {}).items()}
    if len(marks) > 2:
        raise ValueError(f"expected at most two marks, got {len(marks)}")
    figure, axes = lines_canvas(title, list(checked), height=5.4)
    span = places[-1] - places[0]
    most = max(
        [*(seeds.max() for points in checked.values() for seeds in points if seeds is not None), *marks.values()]
    )
    axes.set(xlim=(places[0] - 0.05 * span, places[-1] + 0.05 * span), ylim=(0, min(104, 10 * np.ceil(most / 9))))
    ends = []
    for index, (points, (shade, marker, line)) in enumerate(zip(checked.values(), LOOKS, strict=False)):
        aside = 0.009 * span * (index - (len(checked) - 1) / 2)  # so that no bar hides another
        seen = [place for place, seeds in enumerate(points) if seeds is not None]
        x, means = places[seen] + aside, [points[place].mean() for place in seen]
        axes.plot(x, means, marker=marker, linestyle=line, color=shade, zorder=3, clip_on=False)
        axes.vlines(x, [points[place].min() for place in seen], [points[place].max() for place in seen],
                    color=shade, linewidth=5, alpha=0.45, zorder=2)  # fmt: skip
        ends.append((x[-1], means[-1]))
    for (name, level), (x, ha) in zip(marks.items(), ((0.99, "right"), (0.01, "left")), strict=False):
        _level(axes, level, f"{name} {level:.1f}", x, ha)
    axes.set_xticks(places, ticks)
    axes.set(xlabel=f"{xlabel} (dot: mean, bar: all seeds)", ylabel=ylabel)
    name_ends(axes, ends, list(checked))
    write_title(figure, title)
    return figure


def _label_places(labels):
    """Places on the axis: the logarithms of the numbers, and "all" one mean step behind them."""
    labels = list(labels)
    open_end = bool(labels) and labels[-1] == ALL
    numbers = as_array(labels[:-1] if open_end else labels, "the numbers of labels")
    if numbers.ndim != 1 or len(labels) < 2 or not len(numbers) or numbers[0] <= 0 or (np.diff(numbers) <= 0).any():
        raise ValueError(f'expected two or more rising numbers of labels, the last perhaps "all", got {labels}')
    places = np.log(numbers)
    if open_end:
        step = np.diff(places).mean() if len(places) > 1 else 1.0
        places = np.append(places, places[-1] + step)
    return places, [f"{number:g}" for number in numbers] + [ALL] * open_end


def _checked_points(points, count, name):
    points = list(points)
    if len(points) != count:
        raise ValueError(f"expected accuracies of {name} for each of {count} numbers of labels, got {len(points)}")
    checked = [None if one is None else _checked_seeds(one, name) for one in points]
    if all(one is None for one in checked):
        raise ValueError(f"expected at least one measured accuracy of {name}")
    return checked


def _checked_seeds(seeds, name):
    """(seeds,) accuracies in % from one number or several."""
    seeds = np.atleast_1d(as_array(seeds, f"the accuracies of {name}"))
    if seeds.ndim != 1 or not len(seeds) or seeds.min() < 0 or seeds.max() > 100:
        raise ValueError(f"expected accuracies of {name} in %, from 0 to 100, one for each seed, got {seeds.tolist()}")
    return seeds


def _checked_percent(level, name):
    return float(_checked_seeds(level, name)[0])


def _level(axes, level, words, x, ha):
    """A dashed line across the axes with its name over it."""
    axes.axhline(level, color="black", linewidth=1.8, linestyle=DASHES, zorder=1)
    behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
    place = {"transform": axes.get_yaxis_transform(), "bbox": behind, "zorder": 2}
    low, high = axes.get_ylim()
    write(axes, x, level + 0.012 * (high - low), words, LABEL, ha=ha, va="bottom", **place)


# Several tasks


def tasks_bars(rows, title, ways=("from scratch", "fine-tuned"), xlabel="accuracy in %"):
    """Lying bars for each task, one for each way, with a dashed line at the commonest label and a diamond at a bag of words.

    rows: (task, one entry for each way, the accuracies of its seeds in % or one number, majority, bag of words); the last
    two in %, or None. A line over the end of a bar goes from the lowest seed to the highest.
    """
    ways = [str(way) for way in ways]
    rows = [_checked_task(row, ways) for row in rows]
    if not 1 <= len(rows) <= 8 or not 1 <= len(ways) <= 4:
        raise ValueError(f"expected one to eight tasks and one to four ways, got {len(rows)} and {len(ways)}")
    left = 0.3 + max(inches(task, FONT) for task, *_ in rows)
    top = top_of(title, 11.5) + 0.5
    thick, between = (0.3, 0.3) if len(ways) < 3 else (0.25, 0.22)
    group = thick * len(ways) + between
    if top + 0.75 + group * len(rows) > TALLEST:
        raise ValueError(f"{len(rows)} tasks of {len(ways)} bars are too tall for a slide: show fewer of them")
    figure, axes = canvas(11.5, top + 0.75 + group * len(rows), margins=(left, 0.75, 0.75, top))
    axes.set(xlim=(0, 100), ylim=(group * len(rows), 0), xlabel=f"{xlabel} (line: all seeds)")
    inch = 100 / (11.5 - left - 0.75)
    for number, (_, values, majority, bag) in enumerate(rows):
        base = group * number + between / 2
        for way, (seeds, (shade, _, _)) in enumerate(zip(values, LOOKS, strict=False)):
            y = base + thick * (way + 0.5)
            axes.barh(y, seeds.mean(), thick * 0.86, color=shade, alpha=0.75)
            if len(seeds) > 1:
                axes.plot([seeds.min(), seeds.max()], [y, y], color="black", linewidth=1.6, clip_on=False)
            words = f"{seeds.mean():.1f}"
            x, wide = seeds.max() + 0.08 * inch, (inches(words, LABEL) + 0.15) * inch
            beside = abs(thick * (way + 0.5 - len(ways) / 2)) < 0.25  # inches: as high as the diamond stands
            if bag is not None and beside and x - 0.1 * inch < bag < x + wide:
                x = bag + 0.15 * inch  # behind the diamond, which would lie on it
            write(axes, x, y, words, LABEL, ha="left", zorder=6,
                  bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6})  # fmt: skip
        middle, half = base + thick * len(ways) / 2, thick * len(ways) / 2
        if majority is not None:
            axes.plot([majority] * 2, [middle - half, middle + half], color="black", linewidth=2.2, linestyle=(0, (2, 1)),
                      zorder=5)  # fmt: skip
        if bag is not None:
            look = {"color": "white", "markeredgecolor": "black", "markeredgewidth": 2, "markersize": 9, "zorder": 5}
            axes.plot([bag], [middle], "D", clip_on=False, **look)
    axes.set_yticks([group * (number + 0.5) for number in range(len(rows))], [task for task, *_ in rows], fontsize=FONT)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    _bars_key(figure, top, left, ways, rows)
    write_title(figure, title)
    return figure


def _checked_task(row, ways):
    row = tuple(row)
    if len(row) != 4:
        raise ValueError(f"expected a row (task, accuracies of each way, majority, bag of words), got {len(row)} parts")
    task, values, majority, bag = row
    values = list(values)
    if len(values) != len(ways):
        raise ValueError(f"expected accuracies of {task} for each of {len(ways)} ways, got {len(values)}")
    values = [_checked_seeds(seeds, f"{way} on {task}") for seeds, way in zip(values, ways, strict=True)]
    marks = [None if mark is None else _checked_percent(mark, f"a mark of {task}") for mark in (majority, bag)]
    return shortened(str(task), 28), values, *marks


def _bars_key(figure, top, left, ways, rows):
    """What the colours and the two marks are, in a row under the title."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0, 0, 1, 1), zorder=-1)
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    entries = [*ways]
    entries += ["commonest label"] if any(row[2] is not None for row in rows) else []
    entries += ["bag of words"] if any(row[3] is not None for row in rows) else []
    needed = sum(0.75 + inches(name, LABEL) for name in entries)
    x, y = min(left, max(0.15, width - needed)), height - top + 0.3
    for place, name in enumerate(entries):
        if place < len(ways):
            axes.add_patch(Rectangle((x, y - 0.1), 0.3, 0.2, facecolor=LOOKS[place][0], alpha=0.75))
        elif name == "bag of words":
            axes.plot([x + 0.15], [y], "D", color="white", markeredgecolor="black", markeredgewidth=2, markersize=9)
        else:
            axes.plot([x + 0.15] * 2, [y - 0.15, y + 0.15], color="black", linewidth=2.2, linestyle=(0, (2, 1)))
        write(axes, x + 0.4, y, name, LABEL, ha="left")
        x += 0.75 + inches(name, LABEL)


# What fine-tuning does to the parameters


def distance_by_layer(names, curves, title, ylabel="distance from the start / length of the start"):
    """Bars for each part of the model, one for each way: how far its parameters went. The line spans all seeds.

    names: the parts from the input to the output. curves: {way: (parts,) or (parts, seeds)}.
    """
    names = [str(name) for name in names]
    if not 1 <= len(names) <= 14 or not 1 <= len(curves) <= 4:
        raise ValueError(f"expected one to 14 parts and one to four ways, got {len(names)} and {len(curves)}")
    checked = {str(way): _checked_parts(values, len(names), way) for way, values in curves.items()}
    group = (WIDEST - 1.2) / len(names)
    turned = max(inches(name, LABEL) for name in names) > group - 0.08
    bottom = 0.25 + (max(inches(name, LABEL) for name in names) if turned else 0.25)
    top = top_of(title, WIDEST) + (0.5 if len(checked) > 1 else 0.2)
    figure, axes = canvas(WIDEST, 3.9 + bottom + top, margins=(1.0, 0.2, bottom, top))
    wide = 0.8 / len(checked)
    for index, (values, (shade, _, _)) in enumerate(zip(checked.values(), LOOKS, strict=False)):
        x = np.arange(len(names)) + wide * (index - (len(checked) - 1) / 2)
        axes.bar(x, values.mean(1), wide * 0.9, color=shade, alpha=0.85)
        if values.shape[1] > 1:
            axes.vlines(x, values.min(1), values.max(1), color="black", linewidth=1.8, zorder=3)
    most = max(values.max() for values in checked.values())
    axes.set_xticks(range(len(names)), names, rotation=90 if turned else 0)
    axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(0, 1.08 * most or 1), ylabel=_two_lines(ylabel))
    axes.tick_params(axis="x", length=0)
    if len(checked) > 1:
        _bars_key(figure, top, 1.0, list(checked), [(None,) * 4])
    write_title(figure, title)
    return figure


def _checked_parts(values, count, way):
    values = as_array(values, f"the distances of {way}")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != count or not values.shape[1]:
        hint = "; transpose it" if values.ndim == 2 and values.shape[1] == count else ""
        raise ValueError(f"expected distances of {way} for each of {count} parts, got the shape {values.shape}{hint}")
    if values.min() < 0:
        raise ValueError(f"a distance is never negative, but one of {way} is {values.min():g}")
    return values


def _two_lines(text, most=34):
    """A name of an axis in two lines where one would be longer than the axis."""
    if len(text) <= most:
        return text
    gaps = [place for place, letter in enumerate(text) if letter == " "]
    if not gaps:
        return text
    cut = min(gaps, key=lambda place: abs(place - len(text) / 2))
    return f"{text[:cut]}\n{text[cut + 1 :]}"


def loss_along_the_line(shares, curves, title, ends=("pretrained", "fine-tuned"), ylabel="loss in nats"):
    """{name: losses (points,)} on the straight line between two sets of parameters; 0 is the start and 1 the end.

    shares (points,): rising, from 0 or less to 1 or more. ends: what the two are called.
    """
    shares = as_array(shares, "the shares")
    if shares.ndim != 1 or len(shares) < 2 or (np.diff(shares) <= 0).any() or shares[0] > 0 or shares[-1] < 1:
        raise ValueError(f"expected rising shares from 0 or less to 1 or more, got {shares.tolist()}")
    ends = checked_labels(ends, 2, "names of the ends")
    checked = checked_curves(curves, "losses")
    if len(checked) > 4:
        raise ValueError(f"expected one to four curves, got {len(checked)}")
    for name, losses in checked.items():
        if len(losses) != len(shares):
            raise ValueError(f"expected a loss of {name} at each of {len(shares)} points, got {len(losses)}")
    every = np.concatenate(list(checked.values()))
    low, high = min(0.0, every.min()), every.max() if every.max() > 0 else 1.0
    figure, axes = lines_canvas(title, list(checked), height=5.2)
    axes.set(xlim=(shares[0], shares[-1]), ylim=(low, low + 1.16 * (high - low)))
    for place, name in zip((0, 1), ends, strict=True):
        axes.axvline(place, color="black", linewidth=1.8, linestyle=DASHES, zorder=1)
        ha = "left" if place == 0 else "right"
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        aside = 0.012 * (shares[-1] - shares[0]) * (1 if place == 0 else -1)
        spot = {"transform": axes.get_xaxis_transform(), "bbox": behind, "fontweight": "bold"}
        write(axes, place + aside, 0.955, name, LABEL, ha=ha, **spot)
    every_mark = max(1, len(shares) // 12)
    for losses, (shade, marker, line) in zip(checked.values(), LOOKS, strict=False):
        axes.plot(shares, losses, linestyle=line, marker=marker, markevery=every_mark, color=shade, zorder=3)
        found = np.interp((0, 1), shares, losses)
        axes.plot((0, 1), found, marker, color=shade, markersize=13, markeredgecolor="black", zorder=4, clip_on=False)
    axes.set(xlabel="share of the way from start to end", ylabel=ylabel)
    name_ends(axes, [(shares[-1], losses[-1]) for losses in checked.values()], list(checked))
    write_title(figure, title)
    return figure


def forgetting_bars(rows, title, names=("before", "after"), xlabel="language-model loss in nats", mark=None):
    """Lying bars: the loss before and after fine-tuning, and behind them by how much it rose.

    rows: (name, before, after), each a number or the numbers of all seeds. mark: (loss, name) of a dashed line, such as
    that of the unigram model.
    """
    names = checked_labels(names, 2, "names of the bars")
    rows = [_checked_losses(row) for row in rows]
    if not 1 <= len(rows) <= 8:
        raise ValueError(f"expected one to eight rows (name, before, after), got {len(rows)}")
    left = 0.3 + max(inches(name, FONT) for name, *_ in rows)
    changes = [after.mean() - before.mean() for _, before, after in rows]
    said = [("+" if change > 0.005 else "") + signed(change) for change in changes]
    right = 0.3 + max(inches(text, FONT, "bold") for text in said)
    top = top_of(title, 11.5) + (0.85 if mark else 0.5)
    thick, group = 0.3, 0.72 if len(rows) > 6 else 0.9
    figure, axes = canvas(11.5, top + 0.75 + group * len(rows), margins=(left, right, 0.75, top))
    most = max([*(values.max() for _, *both in rows for values in both), float(mark[0]) if mark else 0.0])
    axes.set(xlim=(0, 1.14 * most or 1), ylim=(group * len(rows), 0), xlabel=xlabel)
    inch = axes.get_xlim()[1] / (11.5 - left - right)
    for number, (_, *both) in enumerate(rows):
        for side, (values, shade) in enumerate(zip(both, (BLUE, ORANGE), strict=True)):
            y = group * (number + 0.5) + thick * (side - 0.5)
            axes.barh(y, values.mean(), thick * 0.88, color=shade, alpha=0.85)
            if len(values) > 1:
                axes.plot([values.min(), values.max()], [y, y], color="black", linewidth=1.6)
            write(axes, values.max() + 0.08 * inch, y, f"{values.mean():.2f}", LABEL, ha="left", zorder=6,
                  bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6})  # fmt: skip
        spot = {"transform": axes.get_yaxis_transform(), "fontweight": "bold"}
        write(axes, 1 + 0.15 / (11.5 - left - right), group * (number + 0.5), said[number], FONT, ha="left", **spot)
    if mark:
        level, name = float(mark[0]), str(mark[1])
        if not level > 0:
            raise ValueError(f"expected a mark (loss above 0, name), got {mark}")
        axes.axvline(level, color="black", linewidth=1.8, linestyle=DASHES)
        half = inches(name, LABEL) / 2 * inch
        x = min(level, axes.get_xlim()[1] - half)
        write(axes, max(x, half), -0.16, name, LABEL, clip_on=False)
    axes.set_yticks([group * (number + 0.5) for number in range(len(rows))], [name for name, *_ in rows], fontsize=FONT)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    _two_colours(figure, top - (0.35 if mark else 0), left, names)
    write_title(figure, title)
    return figure


def _checked_losses(row):
    row = tuple(row)
    if len(row) != 3:
        raise ValueError(f"expected a row (name, before, after), got {len(row)} parts")
    both = [np.atleast_1d(as_array(values, f"the losses of {row[0]}")) for values in row[1:]]
    for values in both:
        if values.ndim != 1 or not len(values) or values.min() < 0:
            raise ValueError(
                f"expected losses of {row[0]} of at least 0, one or one for each seed, got {values.tolist()}"
            )
    return shortened(str(row[0]), 28), *both


def _two_colours(figure, top, left, names):
    width, height = figure.get_size_inches()
    handles = [Patch(color=shade, alpha=0.85) for shade in (BLUE, ORANGE)]
    spot = (left / width, 1 - (top - 0.42) / height)
    figure.legend(handles, names, loc="upper left", bbox_to_anchor=spot, ncols=2, borderaxespad=0, fontsize=LABEL,
                  handlelength=1.2, borderpad=0)  # fmt: skip


# The real model


def senses_by_layer(curves, title, layers=None, ylabel="cosine between two uses"):
    """{pair: (layers, 3) mean, least and most cosine}: a line through the means in a band from the least to the most.

    layers: the names of the rows, "embeddings" (0 if there are many) and 1, 2, ... if nothing else is given.
    """
    checked = {str(name): _checked_cosines(values, name) for name, values in curves.items()}
    counts = {len(values) for values in checked.values()}
    if not 1 <= len(checked) <= 4 or len(counts) != 1:
        raise ValueError(
            f"expected one to four curves of the same number of layers, got {len(checked)} of {sorted(counts)}"
        )
    (count,) = counts
    first = "embeddings" if count <= 8 else "0"  # the long word has no room among many layers
    names = [first, *map(str, range(1, count))] if layers is None else checked_labels(layers, count, "layers")
    figure, axes = lines_canvas(title, list(checked), height=5.4)
    low = min(values.min() for values in checked.values())
    axes.set(xlim=(-0.15, max(count - 1, 1) + 0.1), ylim=(min(np.floor(10 * low) / 10, 0.9), 1.0))
    x = np.arange(count)
    for values, (shade, marker, line) in zip(checked.values(), LOOKS, strict=False):
        axes.fill_between(x, values[:, 1], values[:, 2], color=shade, alpha=0.16, linewidth=0)
        for edge in (1, 2):
            axes.plot(x, values[:, edge], color=shade, linewidth=1, alpha=0.7)
        axes.plot(x, values[:, 0], marker=marker, linestyle=line, color=shade, zorder=3, clip_on=False)
    axes.set_xticks(x, names)
    axes.set(xlabel="layer (line: mean of all pairs, band: least to most)", ylabel=ylabel)
    name_ends(axes, [(x[-1], values[-1, 0]) for values in checked.values()], list(checked))
    write_title(figure, title)
    return figure


def _checked_cosines(values, name):
    values = as_array(values, f"the cosines of {name}")
    if values.ndim != 2 or not len(values) or values.shape[1] != 3:
        raise ValueError(f"expected (mean, least, most) of {name} at each layer, got the shape {values.shape}")
    mean, least, most = values.T
    if (least > mean + 1e-6).any() or (mean > most + 1e-6).any() or abs(values).max() > 1.0001:
        raise ValueError(f"expected -1 <= least <= mean <= most <= 1 of {name} at each layer, got {values.tolist()}")
    return values


MOST_SENTENCES = 12


def similarity_matrix(sentences, cosines, title, least=None):
    """Cosines (n, n) between sentences as colours with numbers; each sentence stands at its row, its number at its column.

    least: the cosine of the darkest colour; the smallest one, rounded down, if nothing is given.
    """
    cosines = as_array(cosines, "the cosines")
    if cosines.ndim != 2 or cosines.shape[0] != cosines.shape[1] or not 1 <= len(cosines) <= MOST_SENTENCES:
        raise ValueError(f"expected cosines (n, n) of one to {MOST_SENTENCES} sentences, got the shape {cosines.shape}")
    if abs(cosines).max() > 1.0001:
        raise ValueError(f"a cosine lies between -1 and 1, but one is {cosines.flat[abs(cosines).argmax()]:g}")
    sentences = checked_labels(sentences, len(cosines), "sentences")
    least = float(np.floor(10 * min(cosines.min(), 0.9)) / 10) if least is None else float(least)
    if not least < 1:
        raise ValueError(f"expected the cosine of the darkest colour below 1, got {least:g}")
    count, cell = len(cosines), 0.58
    room = WIDEST - count * cell - 1.3
    labels = [_fitting(f"{number + 1}  {sentence}", room) for number, sentence in enumerate(sentences)]
    left = 0.25 + max(inches(label, LABEL) for label in labels)
    width = max(left + count * cell + 1.05, min(WIDEST, inches(title, TITLE, "bold") + 0.4), 6.0)
    height = max(count * 0.48, 1.0)
    top = top_of(title, width) + 0.1
    figure, axes = canvas(width, top + height + 0.5, margins=(left, width - left - count * cell, 0.5, top))
    image = axes.imshow(cosines, cmap=WEIGHTS_MAP, vmin=least, vmax=1, aspect="auto")
    for (row, column), cosine in np.ndenumerate(cosines):
        dark = is_dark(image.cmap(image.norm(cosine)))
        write(axes, column, row, signed(cosine), SMALL, color="white" if dark else "black")
    axes.set_xticks(range(count), [str(number + 1) for number in range(count)])
    axes.set_yticks(range(count), labels)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    _bare(axes)
    total = top + height + 0.5
    box = ((left + count * cell + 0.2) / width, 0.5 / total, 0.18 / width, height / total)
    bar = figure.colorbar(image, cax=figure.add_axes(box), ticks=[least, (1 + least) / 2, 1])
    bar.ax.set_yticklabels(
        [f"{tick:g}".replace("-", "\N{MINUS SIGN}") for tick in np.round([least, (1 + least) / 2, 1], 2)]
    )
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    write_title(figure, title)
    return figure


def _fitting(text, room):
    """The text, or its beginning with a mark, so that it has this much room."""
    letters = len(text)
    while inches(shortened(text, letters), LABEL) > room and letters > 4:
        letters -= 1
    return shortened(text, letters)


def _bare(axes):
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)


# Blue where a head looks at the right noun more often than luck would, red where it does so less often.
LUCK = LinearSegmentedColormap.from_list("luck", ["#A84A00", "#E98A4E", "#FFFFFF", "#7FB8DC", "#0072B2"], N=257)


def pronoun_looks(shares, title, luck=0.5, note="share of sentences in which the head looks more at the right noun"):
    """A tile for each head: how often it looks at the right one of two nouns. The best tile, or each of them, is outlined.

    shares (layers, heads) from 0 to 1, or {name: shares} for two or three grids below each other. White is luck.
    """
    panels = shares if isinstance(shares, dict) else {"": shares}
    if not 1 <= len(panels) <= 3 or not 0 < luck < 1:
        raise ValueError(f"expected one to three grids and luck between 0 and 1, got {len(panels)} and {luck}")
    checked = {str(name): _checked_shares(values, name) for name, values in panels.items()}
    layers = [len(values) for values in checked.values()]
    heads = max(values.shape[1] for values in checked.values())
    left = 0.25 + inches(f"layer {max(layers)}", LABEL)
    cell = min(0.95, (WIDEST - left - 0.2) / heads)
    named = [0.5 if name else 0 for name in checked]
    needed = max(inches(note, SMALL), *(inches(name, FONT, "bold") for name in checked)) + 0.35
    width = max(left + heads * cell + 0.2, needed, min(WIDEST, inches(title, TITLE, "bold") + 0.4))
    free = 8.9 - top_of(title, width) - sum(named) - 0.38 * len(checked) - 0.5
    row = min(0.42, free / sum(layers))
    if row < 0.24 or cell < inches("100", SMALL) + 0.05:
        raise ValueError(f"{sum(layers)} layers of {heads} heads have no room on a slide: show some of them")
    height = sum(layers) * row + sum(named) + 0.38 * len(checked) + 0.4
    figure, axes = sheet(width, height + top_of(title, width))
    y = height
    for (name, values), over in zip(checked.items(), named, strict=True):
        if name:
            write(axes, 0.12, y - 0.24, name, FONT, ha="left", fontweight="bold")
        y -= over + 0.38
        _share_tiles(axes, values, left, y, cell, row, luck)
        y -= len(values) * row
    write(axes, 0.12, 0.17, note, SMALL, ha="left", color=GREY)
    write_title(figure, title)
    return figure


def _share_tiles(axes, values, left, top, cell, row, luck):
    for head in range(values.shape[1]):
        name = f"head {head + 1}" if cell > inches(f"head {values.shape[1]}", LABEL) + 0.06 else str(head + 1)
        write(axes, left + (head + 0.5) * cell, top + 0.16, name, LABEL)
    for layer in range(len(values)):
        write(axes, left - 0.1, top - (layer + 0.5) * row, f"layer {layer + 1}", LABEL, ha="right")
    best = values.max()
    for (layer, head), share in np.ndenumerate(values):
        scaled = 0.5 + 0.5 * (share - luck) / ((1 - luck) if share > luck else luck)
        shade = LUCK(scaled)
        corner = (left + head * cell, top - (layer + 1) * row)
        axes.add_patch(Rectangle(corner, cell, row, facecolor=shade, edgecolor=PALE, linewidth=1))
        if share == best:
            frame = {"fill": False, "edgecolor": "black", "linewidth": 2.6, "zorder": 3}
            axes.add_patch(Rectangle((corner[0] + 0.02, corner[1] + 0.02), cell - 0.04, row - 0.04, **frame))
        text = percent(share) if cell > 0.72 else percent(share).removesuffix(" %")
        write(
            axes, corner[0] + cell / 2, corner[1] + row / 2, text, SMALL, color="white" if is_dark(shade) else "black"
        )


def _checked_shares(values, name):
    values = as_array(values, f"the shares of {name}" if name else "the shares")
    if values.ndim != 2 or not values.size:
        raise ValueError(f"expected shares (layers, heads), got the shape {values.shape}")
    if values.min() < 0 or values.max() > 1:
        hint = "; divide by 100 if these are per cents" if 1 < values.max() <= 100 else ""
        raise ValueError(f"expected shares from 0 to 1, got {values.min():g} to {values.max():g}{hint}")
    return values

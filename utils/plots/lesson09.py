"""The figures of lesson 09: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter, LogFormatterMathtext, LogLocator, MaxNLocator, NullLocator

from utils.plots.figures import chart, signed, write_title
from utils.plots.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_ORANGE,
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
from utils.plots.style import (
    BLUE,
    DARK_RED,
    DASHES,
    FONT,
    GREY,
    ORANGE,
    RED,
    SMALL,
    WEIGHTS_MAP,
    WIDEST,
    as_array,
    canvas,
    is_dark,
)
from utils.plots.text import inches

# Blue above zero, red below it.
SIGNED_MAP = LinearSegmentedColormap.from_list("signed", [DARK_RED, "#E98A4E", "#FFFFFF", "#7FB8DC", BLUE], N=257)


# Numbers


def rounded(number):
    """Three digits that count, without powers of ten: 0.0123, 1.23, 123, "12,300"."""
    near = float(f"{number:.3g}")
    return f"{near:,.0f}" if abs(near) >= 1000 else f"{near:g}"


def seconds_text(seconds):
    for size, unit in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{rounded(seconds / size)} {unit}"
    return f"{rounded(seconds * 1e6)} µs"


def bytes_text(size):
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1024**power:
            return f"{rounded(size / 1024**power)} {unit}"
    return f"{rounded(size)} B"


thousands = EngFormatter(sep="")  # 3000 as "3k"


# Cost against length

QUANTITIES = {  # name: keys of the lengths and of the values, one unit of the axis, name of the axis, how to say a value
    "time": ("lengths", "seconds", 1e-3, "time in ms", seconds_text),
    "memory": ("memory_lengths", "bytes", 1024**2, "peak memory in MiB", bytes_text),
}


def cost_curves(curves, title, exponents):
    """Time and peak memory over the length, a panel for each, both axes logarithmic; a straight line is a power of the length.

    curves: {kind: {"lengths", "seconds", "memory_lengths", "bytes"}}, rows of numbers. exponents: {kind: (of the time, of
    the memory)}, each (number, error); they stand behind the names.
    """
    figure, axes = chart(title, WIDEST, 5.6, columns=2)
    for panel, number, (x_key, y_key, unit, ylabel, _) in zip(axes, (0, 1), QUANTITIES.values(), strict=True):
        panel.set(xscale="log", yscale="log", xlabel="length in tokens", ylabel=ylabel)
        for (kind, costs), (shade, marker, line) in zip(curves.items(), LOOKS, strict=False):
            exponent, error = exponents[kind][number]
            values = as_array(costs[y_key]) / unit
            name = f"{kind}\n{exponent:.2f} ± {error:.2f}"
            panel.plot(costs[x_key], values, marker=marker, linestyle=line, color=shade, label=name)
        plain_ticks(panel.xaxis, [256, 512, 1024, 2048, 4096])
        panel.yaxis.set_major_locator(LogLocator(subs=(1,)))
        plain_ticks(panel.yaxis)
        name_lines(panel)
    figure.supxlabel("behind the names: exponent over the longer half", fontsize=SMALL, color=GREY)
    return figure


# What each kind costs at one length


def cost_at(x, y, length):
    """(cost at this length, whether it was inside what was measured): straight lines between the points in logarithms,
    beyond the last a straight line through the points of the longer half."""
    x, y, place = np.log(x), np.log(y), np.log(length)
    if place <= x[-1] + 1e-9:
        if place >= x[0] - 1e-9:
            return float(np.exp(np.interp(place, x, y))), True
        slope = (y[1] - y[0]) / (x[1] - x[0])
        return float(np.exp(y[0] + slope * (place - x[0]))), False
    long = x >= min(x[-1] - np.log(2) - 1e-9, x[-2])
    slope = np.polyfit(x[long], y[long], 1)[0]
    return float(np.exp(y[-1] + slope * (place - x[-1]))), False


def cost_at_length(curves, length, span):
    """A dot for each kind: its time and its peak memory at this length, on logarithmic axes that stand still.

    curves: as in `cost_curves`. A hollow dot lies outside the measured lengths: the line was drawn on. span: (shortest,
    longest) length that will ever be asked for, which sets the axes.
    """
    length = round(float(length))
    left = 0.3 + max(inches(kind, FONT) for kind in curves)
    title = f"what a text of {length:,} tokens costs"
    top = top_of(title, WIDEST) + 0.25
    height = top + 0.56 * len(curves) + 1.3
    margins = (left, 0.35, 1.1, top)
    figure, axes = canvas(WIDEST, height, columns=2, margins=margins, gaps=(0.5, 0), sharey=True)
    for panel, (x_key, y_key, unit, xlabel, said) in zip(axes, QUANTITIES.values(), strict=True):
        rows = {kind: (as_array(costs[x_key]), as_array(costs[y_key])) for kind, costs in curves.items()}
        ends = [cost_at(*row, end)[0] / unit for row in rows.values() for end in span]
        least, most = min(ends), max(ends)
        limits = (
            least / (most / least) ** 0.05,
            most * (most / least) ** 0.36,
        )  # room behind the last dot for its number
        for place, (row, (shade, marker, _)) in enumerate(zip(rows.values(), LOOKS, strict=False)):
            cost, measured = cost_at(*row, length)
            panel.plot([limits[0], cost / unit], [place] * 2, color=shade, linewidth=5, alpha=0.3)
            look = {"markerfacecolor": shade if measured else "white", "markeredgewidth": 2.4, "markersize": 12}
            panel.plot([cost / unit], [place], marker, color=shade, zorder=3, **look)
            spot = {"textcoords": "offset points", "va": "center", "fontsize": FONT, "fontweight": "bold"}
            panel.annotate(said(cost), (cost / unit, place), (11, 0), **spot)
        panel.set(xscale="log", xlim=limits, xlabel=xlabel)
        panel.xaxis.set_major_locator(LogLocator(numticks=5))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(thousands)
        panel.grid(True, axis="x")
    only_rows(axes[0], list(curves))
    axes[1].tick_params(axis="y", length=0)
    words = "hollow: outside the measured lengths, the straight line drawn on"
    figure.text(left / WIDEST, 0.2 / height, words, fontsize=SMALL, color=GREY, ha="left", va="center")
    write_title(figure, title)
    return figure


def cost_words(curves, length):
    """The same in one sentence: the alternative text of the widget."""
    parts = []
    for kind, costs in curves.items():
        said = [
            words(cost_at(as_array(costs[x_key]), as_array(costs[y_key]), float(length))[0])
            for x_key, y_key, *_, words in QUANTITIES.values()
        ]
        parts.append(f"{kind} {said[0]} and {said[1]}")
    return f"Time and peak memory at {round(float(length)):,} tokens: {'; '.join(parts)}."


# Who looks at whom

PATTERN = ListedColormap(["#EDEDED", BLUE])


def attention_patterns(masks, title, mixtures):
    """Small masks beside each other, rows the queries and columns the keys, with the number of pairs below each.

    masks: {name: (n, n) bool, True = may look}. mixtures: {name: (k, n) numbers}, for kinds that look at k mixtures of all
    keys: what each mixture is made of, and below it what each query looks at, (n, k).
    """
    count = len(masks) + len(mixtures)
    figure, panels = chart(title, WIDEST, 4.3, columns=count)
    bare = {"xticks": [], "yticks": []}
    for axes, mask in zip(panels, masks.values(), strict=False):
        axes.imshow(as_array(mask), cmap=PATTERN, vmin=0, vmax=1)
        axes.set(**bare, xlabel=_pairs_text(as_array(mask).sum(), len(mask)))
    for axes, made in zip(panels[len(masks) :], mixtures.values(), strict=True):
        made = as_array(made)
        kinds, places = made.shape
        both = np.full((kinds + 2 + places, places), np.nan)
        both[kinds + 2 :, :kinds] = 1
        axes.imshow(both, cmap=PATTERN, vmin=0, vmax=1)
        most = abs(made).max()
        extent = (-0.5, places - 0.5, kinds - 0.5, -0.5)
        axes.imshow(made, cmap=SIGNED_MAP, vmin=-most, vmax=most, extent=extent)
        axes.set(**bare, ylim=(len(both) - 0.5, -0.5), xlabel=_pairs_text(places * kinds, places))
        words = f"{kinds} mixtures\nof all keys\n(above) for\n{places} queries"
        write(axes, 0.6 * places, kinds + places / 2, words, SMALL, color=GREY)
    for axes, name in zip(panels, [*masks, *mixtures], strict=True):
        axes.set_title(name, fontsize=FONT)
        axes.grid(False)
        axes.spines[:].set_visible(False)
    panels[0].set_ylabel("query")
    return figure


def _pairs_text(pairs, places):
    return f"key\n{pairs:,.0f} pairs\n{100 * pairs / places**2:.0f} % of all"


# Quality against distance


def accuracy_by_distance(bands, curves, title, chance, reach):
    """The share of right answers in each band of distances, a line for each kind.

    bands: the greatest distance of each band, rising. curves: {kind: (bands,)} shares from 0 to 1. reach: {distance: words}, a
    line between two bands, such as how far a window reaches.
    """
    figure, axes = chart(title, 10.5, 5.6)
    x = np.arange(len(bands))
    draw_lines(axes, x, {kind: 100 * as_array(values) for kind, values in curves.items()})
    axes.axhline(
        100 * chance, color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=f"chance {100 * chance:.3g} %"
    )
    for distance, words in reach.items():
        place = list(bands).index(distance) + 0.5
        axes.axvline(place, color=GREY, linewidth=1.6, linestyle=DASHES, zorder=1)
        write(axes, place, 108, words, SMALL, color=GREY, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    starts = [1, *(band + 1 for band in bands[:-1])]
    axes.set_xticks(x, [f"{start}–{end}" for start, end in zip(starts, bands, strict=True)])
    axes.set(xlabel="distance to the answer", ylabel="right answers in %", ylim=(0, 112), yticks=range(0, 101, 20))
    name_lines(axes)
    return figure


# Scaling


def scaling_curve(x, losses, title, law, held_out, *, xlabel="parameters", limits=None):
    """Losses over size on logarithmic axes, the power law through them with its band, and what it foretold.

    x (points,), losses (points, seeds). law: {"x", "curve", "low", "high"} rows of numbers, "exponent" (value, low, high) and
    "floor" (None for a law without one; it is a dashed line). held_out: {"x", "value", "low", "high", "reached"}: the law's
    foretelling for a model it has not seen, and what that one reached, one for each seed; None where there is none.
    limits: (low, high) of the losses, for pictures that must stand still.
    """
    figure, axes = chart(title, 10.5, 5.4)
    _draw_sweep(axes, {"x": x, "loss": losses, "law": law, "held_out": held_out}, numbers=True)
    axes.set(xlabel=xlabel, ylabel="held-out loss in nats", ylim=limits)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), labelspacing=0.9)
    return figure


def scaling_panels(panels, title):
    """Sweeps beside each other over one vertical axis: loss against parameters, text, computing.

    panels: {name: {"x", "loss", "xlabel", "law"}} and, where there are, "held_out" (as in `scaling_curve`) and "cloud" (x, loss),
    the runs that the law leaves out, such as those above the frontier.
    """
    figure, axes = chart(title, WIDEST, 6.0, columns=len(panels), sharey=True)
    for panel, (name, sweep) in zip(axes, panels.items(), strict=True):
        _draw_sweep(panel, sweep)
        panel.set_xlabel(sweep["xlabel"])
        panel.set_title(f"{name}\n{_exponent_text(sweep['law'])}", fontsize=LABEL)
    axes[0].set_ylabel("held-out loss in nats")
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), columnspacing=1.6)
    return figure


def scaling_choice(sweeps, sweep, floor):
    """`scaling_curve` of one sweep, its law with a floor or without, on axes that stand still while the law changes.

    sweeps: {name: {"x", "loss", "xlabel", "plain": {"law", "held_out"}, "floor": {"law", "held_out"}}}; "held_out" may be missing.
    """
    given = sweeps[sweep]
    chosen = given["floor" if floor else "plain"]
    title = f"loss against {given['xlabel']}: a power law {'with' if floor else 'without'} a floor"
    losses = [*as_array(given["loss"]).flat, *given["plain"]["law"]["curve"], given["floor"]["law"]["floor"]]
    limits = (0.99 * float(min(losses)), 1.02 * float(max(losses)))
    law, held_out = chosen["law"], chosen.get("held_out")
    return scaling_curve(given["x"], given["loss"], title, law, held_out, xlabel=given["xlabel"], limits=limits)


def scaling_words(sweeps, sweep, floor):
    """The same in words: the alternative text of the widget."""
    given = sweeps[sweep]
    chosen = given["floor" if floor else "plain"]
    means = as_array(given["loss"]).mean(1)
    parts = [f"Loss against {given['xlabel']}, {len(means)} points from {means[0]:.2f} to {means[-1]:.2f}"]
    parts.append(f"power law {'with' if floor else 'without'} a floor, {_exponent_text(chosen['law'])}")
    if floor:
        parts.append(f"floor {chosen['law']['floor']:.2f}")
    if found := chosen.get("held_out"):
        said = f"foretold {found['value']:.3f}, between {found['low']:.3f} and {found['high']:.3f}"
        parts.append(f"{said}, reached {np.mean(found['reached']):.3f}")
    return "; ".join(parts) + "."


DOT = {"marker": "o", "linestyle": "none", "color": BLUE, "markersize": 7}
FORETOLD = {
    "fmt": "D",
    "color": "black",
    "markerfacecolor": "white",
    "markeredgewidth": 2,
    "elinewidth": 2.4,
    "capsize": 7,
}
REACHED = {"marker": "*", "linestyle": "none", "color": RED, "markersize": 15, "markeredgecolor": "black"}
CLOUD = {"marker": "o", "linestyle": "none", "color": "#B5B5B5", "markersize": 6}


def _draw_sweep(axes, sweep, numbers=False):
    """Points, law and foretelling on logarithmic axes; `numbers` writes what was found into the labels of the legend."""
    axes.set(xscale="log", yscale="log")
    if "cloud" in sweep:
        axes.plot(*sweep["cloud"], zorder=2, label="not on the frontier", **CLOUD)
    law, found, losses = sweep["law"], sweep.get("held_out"), as_array(sweep["loss"])
    seeds = losses.shape[1]
    axes.plot(
        np.repeat(sweep["x"], seeds), losses.reshape(-1), zorder=3, alpha=0.75, **DOT,
        label=f"measured,\n{seeds} seeds each" if numbers and seeds > 1 else "measured",
    )  # fmt: skip
    exponent = "\n" + _exponent_text(law).replace(" [", "\n[") if numbers else ""
    axes.plot(law["x"], law["curve"], color=ORANGE, zorder=2, label=f"power law{exponent}")
    axes.fill_between(
        law["x"], law["low"], law["high"], color=ORANGE, alpha=0.3, linewidth=0, zorder=1, label="band of the law"
    )
    if law["floor"] is not None:
        name = f"floor {law['floor']:.2f}" if numbers else "floor"
        axes.axhline(law["floor"], color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=name)
    if found:
        mean = np.mean(found["reached"])
        inside = "inside" if found["low"] <= mean <= found["high"] else "outside"
        foretold = f" {found['value']:.3f}\n[{found['low']:.3f}, {found['high']:.3f}]" if numbers else ""
        reached = f" {mean:.3f},\n{inside}" if numbers else ""
        ends = [[found["value"] - found["low"]], [found["high"] - found["value"]]]
        axes.errorbar(found["x"], found["value"], ends, zorder=5, label=f"foretold{foretold}", **FORETOLD)
        x = [found["x"]] * len(found["reached"])
        axes.plot(x, found["reached"], zorder=6, label=f"reached{reached}", **REACHED)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if max(sweep["x"]) < 1e9 else (1,)))
    axes.xaxis.set_major_formatter(thousands if max(sweep["x"]) < 1e9 else LogFormatterMathtext())
    # Losses lie within one power of ten, so round numbers at equal steps serve better than powers.
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def _exponent_text(law):
    value, low, high = law["exponent"]
    return f"exponent {value:.2f} [{low:.2f}, {high:.2f}]"


# Modifications


def modification_effects(rows, title):
    """How much lower the loss is after one change, sorted: a small dot for each seed, a large one for the mean.

    rows: (change, better (seeds,), noise), noise: the standard error of the mean. The thick line spans twice the noise to
    both sides: where it crosses zero the change did nothing that could be seen.
    """
    rows = sorted(((name, as_array(better), noise) for name, better, noise in rows), key=lambda row: -row[1].mean())
    figure, axes = chart(title, WIDEST, 2.1 + 0.5 * len(rows))
    names = []
    for place, (name, better, noise) in enumerate(rows):
        mean = better.mean()
        shade = GREY if abs(mean) <= 2 * noise else BLUE if mean > 0 else RED
        names.append(f"{name}   {'+' if mean > 0 else ''}{signed(mean, 3)} ± {noise:.3f}")
        ends = [mean - 2 * noise, mean + 2 * noise]
        axes.plot(ends, [place] * 2, color=shade, linewidth=6, alpha=0.4, solid_capstyle="butt")
        axes.plot(better, [place] * len(better), "o", color=shade, markersize=5, zorder=3)
        axes.plot([mean], [place], "o", color=shade, markersize=11, markeredgecolor="black", zorder=4)
    axes.axvline(0, color="black", linewidth=1.8)
    only_rows(axes, names)
    axes.set_xlabel("better than the base (0), in nats of held-out loss")
    words = "large dot: mean, small dots: seeds, bar: twice the standard error; gray: no difference seen"
    figure.supxlabel(words, fontsize=SMALL, color=GREY)
    return figure


# Grouped key-value heads


def grouped_heads(heads, kinds, title, width, layers):
    """Which query heads share a head of keys and values: a row of boxes for the queries, one below for what they look at.

    heads: of the queries. kinds: {name: how many heads of keys and values}, each a divisor of `heads`. width, layers: of a head
    and of the model; they tell how many numbers the cache keeps for each token.
    """
    side, step, tall = 0.35 + inches("keys, values", LABEL), 0.72, 1.95
    behind = side + step * heads + 0.2
    high = tall * len(kinds) + 0.35
    figure, axes = sheet(behind + 2.2, high + top_of(title, behind + 2.2))
    for place, (name, count) in enumerate(kinds.items()):
        up, down = high - tall * place - 0.62, high - tall * place - 1.55
        write(axes, 0.12, up + 0.42, name, FONT, ha="left", fontweight="bold")
        write(axes, side - 0.12, up, "queries", LABEL, ha="right", color=GREY)
        write(axes, side - 0.12, down, "keys, values", LABEL, ha="right", color=GREY)
        share = heads // count
        for group in range(count):
            middle = side + step * (group + 0.5) * share
            for head in range(group * share, (group + 1) * share):
                x = side + step * (head + 0.5)
                axes.plot([x, middle], [up - 0.2, down + 0.2], color=GREY, linewidth=1.8, zorder=1)
                draw_box(axes, x, up, step - 0.12, 0.4, str(head + 1), PALE_BLUE, BLUE, LABEL)
            draw_box(axes, middle, down, step - 0.12, 0.4, str(group + 1), PALE_ORANGE, ORANGE, LABEL)
        kept, y = 2 * count * width * layers, (up + down) / 2
        write(axes, behind, y + 0.16, f"2 × {count} × {width} × {layers}", FONT, ha="left")
        write(axes, behind, y - 0.16, f"{kept:,}", FONT, ha="left", fontweight="bold")
    words = "right: numbers kept for each token = keys and values × heads × width × layers"
    write(axes, 0.12, 0.2, words, SMALL, ha="left", color=GREY)
    write_title(figure, title)
    return figure


# Image patches


def digit_looks(image, looks, title, votes, digit):
    """An image as it is, cut into patches, where each layer looks, and what each patch says for the answer.

    image (side, side). looks (layers, g, g): how much each patch is looked at, all of a layer sum to 1; written in per cent.
    votes (g, g): above 0 for the answer, below 0 against it. digit: the answer.
    """
    image, looks, votes = as_array(image), as_array(looks), as_array(votes)
    grid, size = looks.shape[1], len(image) // looks.shape[1]
    most = abs(votes).max()
    percents = [(f"layer {place + 1} looks (%)", 100 * layer) for place, layer in enumerate(looks)]
    figure, panels = chart(title, WIDEST, 3.4, columns=3 + len(looks))
    panels[0].imshow(image, cmap="Greys")
    panels[0].set_title("the image", fontsize=FONT, fontweight="normal")
    panels[1].imshow(image, cmap="Greys")
    panels[1].set_title(f"{grid * grid} patches", fontsize=FONT, fontweight="normal")
    for edge in range(1, grid):
        for line in (panels[1].axhline, panels[1].axvline):
            line(edge * size - 0.5, color=BLUE, linewidth=2.5)
    for axes, (name, layer) in zip(panels[2:], percents, strict=False):
        _numbers(axes, layer, name, 0, WEIGHTS_MAP, 0, 100 * looks.max())
    _numbers(panels[-1], votes, f"votes for {digit}", 1, SIGNED_MAP, -most, most)
    for axes in panels:
        axes.set(xticks=[], yticks=[])
        axes.grid(False)
        axes.spines[:].set_visible(True)
    return figure


def _numbers(axes, values, name, decimals, colors, low, high):
    """A matrix as colors with its numbers."""
    drawn = axes.imshow(values, cmap=colors, vmin=low, vmax=high)
    axes.set_title(name, fontsize=FONT, fontweight="normal")
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if is_dark(drawn.cmap(drawn.norm(value))) else "black"
        write(axes, column, row, signed(value, decimals), SMALL, color=ink)


# Several workers

WORKER_FACES = ((PALE_BLUE, BLUE), (PALE_ORANGE, ORANGE))


def shared_batch(workers, batch, title):
    """A batch shared among workers that all hold the same parameters, their gradients, the mean, and the one step all take."""
    high = 3.15
    figure, axes = sheet(WIDEST, high + top_of(title, WIDEST))
    heads = (
        (1.05, "one batch"),
        (4.0, "the same model\non each worker"),
        (7.0, "its gradient"),
        (10.65, "what all of them get"),
    )
    for x, words in heads:
        write(axes, x, high - 0.32, words, LABEL, color=GREY, linespacing=1.05)
    low, up = 0.15, high - 0.75
    cell, share, middle = (up - low) / batch, (up - low) / workers, (up + low) / 2
    words = "mean of the gradients,\nweighted by pieces:\nthe same step for all"
    draw_box(axes, 10.65, middle, 2.9, 1.5, words, "white", "black", LABEL)
    for worker in range(workers):
        face, edge = WORKER_FACES[worker]
        first, last = batch * worker // workers, batch * (worker + 1) // workers
        for place in range(first, last):
            corner = (0.45, up - (place + 1) * cell + 0.02)
            axes.add_patch(Rectangle(corner, 1.2, cell - 0.04, facecolor=face, edgecolor=edge, linewidth=1))
        y = up - (worker + 0.5) * share
        draw_arrow(axes, (1.75, y), (2.85, y), edge)
        draw_box(axes, 4.0, y, 2.2, 0.7, f"worker {worker}\nrows {first + 1}–{last}", face, edge, LABEL)
        draw_arrow(axes, (5.15, y), (6.1, y), edge)
        draw_box(axes, 7.0, y, 1.7, 0.55, f"gradient {worker}", face, edge, LABEL)
        draw_arrow(axes, (7.9, y), (9.15, middle + (workers / 2 - worker - 0.5) * 0.22), edge)
    write_title(figure, title)
    return figure

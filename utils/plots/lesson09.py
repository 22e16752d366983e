"""Figures of lesson 09: arrays and strings in, a figure out."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullLocator

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
    DASHES,
    FONT,
    GREY,
    MUTED,
    ORANGE,
    RED,
    SIGNED_MAP,
    SMALL,
    WEIGHTS_MAP,
    WIDEST,
    as_array,
    ink_on,
)
from utils.plots.text import inches

# Numbers


def rounded(number):
    """Three significant digits, without powers of ten: 0.0123, 1.23, 123, "12,300"."""
    number = float(f"{number:.3g}")
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:g}"


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

QUANTITIES = {  # name: keys of lengths and values, unit of the axis, label of the axis, a value as text
    "time": ("lengths", "seconds", 1e-3, "time in ms", seconds_text),
    "memory": ("memory_lengths", "bytes", 1024**2, "peak memory in MiB", bytes_text),
}


def cost_curves(curves, title, exponents):
    """Time and peak memory against sequence length, a panel for each, on log-log axes, where a power law is a straight line.

    curves: {kind: {"lengths", "seconds", "memory_lengths", "bytes"}}, rows of numbers. exponents: {kind: (of time, of memory)},
    each (number, standard error), for the labels.
    """
    figure, axes = chart(title, WIDEST, 4.8 + 0.27 * len(curves), columns=2)
    for panel, number, (x_key, y_key, unit, ylabel, _) in zip(axes, (0, 1), QUANTITIES.values(), strict=True):
        panel.set(xscale="log", yscale="log", xlabel="sequence length in tokens", ylabel=ylabel)
        for (kind, costs), (shade, marker, line) in zip(curves.items(), LOOKS, strict=False):
            exponent, error = exponents[kind][number]
            values = as_array(costs[y_key]) / unit
            name = f"{kind}: {exponent:.2f} ± {error:.2f}"
            panel.plot(costs[x_key], values, marker=marker, linestyle=line, color=shade, label=name)
        plain_ticks(panel.xaxis, [256, 512, 1024, 2048, 4096])
        panel.yaxis.set_major_locator(LogLocator(subs=(1,)))
        plain_ticks(panel.yaxis)
        panel.legend(loc="upper left", bbox_to_anchor=(-0.1, -0.16))
    figure.supxlabel("with each name: exponent ± standard error, fitted to the longer half", fontsize=SMALL, color=GREY)
    return figure


# Cost at one length


def cost_at(x, y, length):
    """(cost at this length, whether it is interpolated): linear between the points on log-log axes, and beyond the last point
    extrapolated with the slope of the longest ones."""
    x, y, target = np.log(x), np.log(y), np.log(length)
    if target <= x[-1] + 1e-9:
        if target >= x[0] - 1e-9:
            return float(np.exp(np.interp(target, x, y))), True
        slope = (y[1] - y[0]) / (x[1] - x[0])
        return float(np.exp(y[0] + slope * (target - x[0]))), False
    long = x >= min(x[-1] - np.log(2) - 1e-9, x[-2])
    slope = np.polyfit(x[long], y[long], 1)[0]
    return float(np.exp(y[-1] + slope * (target - x[-1]))), False


def costs_at(curves, quantity, length):
    """[(cost in the unit of the axis, cost as text, whether it is interpolated)] of each kind at one length.

    curves: as in `cost_curves`. quantity: "time" or "memory".
    """
    x_key, y_key, unit, _, as_text = QUANTITIES[quantity]
    costs = [cost_at(as_array(curve[x_key]), as_array(curve[y_key]), length) for curve in curves.values()]
    return [(cost / unit, as_text(cost), interpolated) for cost, interpolated in costs]


def cost_words(curves, length):
    """`costs_at` in one sentence: the alt text of the widget."""
    texts = [
        [text + ("" if interpolated else " (extrapolated)") for _, text, interpolated in costs_at(curves, name, length)]
        for name in QUANTITIES
    ]
    parts = [f"{kind} {time} and {memory}" for kind, time, memory in zip(curves, *texts, strict=True)]
    return f"Time and peak memory at {length:,.0f} tokens: {'; '.join(parts)}."


# Attention patterns

PATTERN = ListedColormap(["#EDEDED", BLUE])


def attention_patterns(masks, title, projections):
    """Attention masks next to each other, rows are queries and columns keys, with the number of scores below each.

    masks: {name: (n, n) bool, True = may attend}. projections: {name: (k, n)}, of kinds that attend to k projected keys: the
    projection, and below it the (n, k) scores.
    """
    count = len(masks) + len(projections)
    figure, panels = chart(title, WIDEST, 4.3, columns=count)
    bare = {"xticks": [], "yticks": []}
    for axes, mask in zip(panels, masks.values(), strict=False):
        axes.imshow(as_array(mask), cmap=PATTERN, vmin=0, vmax=1)
        axes.set(**bare, xlabel=_scores_text(as_array(mask).sum(), len(mask)))
    for axes, projection in zip(panels[len(masks) :], projections.values(), strict=True):
        projection = as_array(projection)
        k, n = projection.shape
        both = np.full((k + 2 + n, n), np.nan)
        both[k + 2 :, :k] = 1
        axes.imshow(both, cmap=PATTERN, vmin=0, vmax=1)
        most = abs(projection).max()
        extent = (-0.5, n - 0.5, k - 0.5, -0.5)
        axes.imshow(projection, cmap=SIGNED_MAP, vmin=-most, vmax=most, extent=extent)
        axes.set(**bare, ylim=(len(both) - 0.5, -0.5), xlabel=_scores_text(n * k, n))
        words = f"{k} projected\nkeys (above)\nfor {n}\nqueries"
        write(axes, 0.6 * n, k + n / 2, words, SMALL, color=GREY)
    for axes, name in zip(panels, [*masks, *projections], strict=True):
        axes.set_title(name, fontsize=FONT)
        axes.grid(False)
        axes.spines[:].set_visible(False)
    panels[0].set_ylabel("query")
    return figure


def _scores_text(scores, n):
    return f"key\n{scores:,.0f} scores\n{100 * scores / n**2:.0f} % of all"


# Accuracy against distance


def accuracy_by_distance(bands, curves, title, chance, reach):
    """Accuracy in each band of distances, a line for each kind.

    bands: the greatest distance of each band, rising. curves: {kind: (bands,)} accuracies from 0 to 1. reach: {distance: words},
    a vertical line after that band, such as a receptive field.
    """
    figure, axes = chart(title, 10.5, 5.6)
    x = np.arange(len(bands))
    draw_lines(axes, x, {kind: 100 * as_array(values) for kind, values in curves.items()})
    axes.axhline(
        100 * chance, color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=f"chance {100 * chance:.3g} %"
    )
    for distance, words in reach.items():
        x_line = list(bands).index(distance) + 0.5
        axes.axvline(x_line, color=GREY, linewidth=1.6, linestyle=DASHES, zorder=1)
        write(axes, x_line, 108, words, LABEL, color=GREY, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    starts = [1, *(band + 1 for band in bands[:-1])]
    axes.set_xticks(x, [f"{start}–{end}" for start, end in zip(starts, bands, strict=True)])
    axes.set(xlabel="distance to the answer", ylabel="accuracy in %", ylim=(0, 112), yticks=range(0, 101, 20))
    name_lines(axes)
    return figure


# Scaling


def scaling_curve(x, losses, title, law, held_out):
    """Losses against size on log-log axes, the fitted power law with its band, and its prediction for a held-out model.

    x (points,), losses (points, seeds). law: {"x", "curve", "low", "high"} rows of numbers, "exponent" (value, low, high) and
    "irreducible_loss" (None for a law without one; a dashed line). held_out: {"x", "value", "low", "high", "measured"}: the
    prediction, and the measured loss of each seed; None where there is none.
    """
    figure, axes = chart(title, 10.5, 5.4)
    _draw_sweep(axes, {"x": x, "loss": losses, "law": law, "held_out": held_out}, numbers=True)
    axes.set(xlabel="parameters", ylabel="held-out loss in nats")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), labelspacing=0.9)
    return figure


def scaling_panels(panels, title):
    """Sweeps next to each other with one vertical axis: loss against parameters, text, compute.

    panels: {name: {"x", "loss", "xlabel", "law"}} and, where there are, "held_out" (as in `scaling_curve`) and "other_runs"
    (x, loss), which the fit leaves out, such as those above the frontier.
    """
    figure, axes = chart(title, WIDEST, 6.0, columns=len(panels), sharey=True)
    for panel, (name, sweep) in zip(axes, panels.items(), strict=True):
        _draw_sweep(panel, sweep)
        panel.set_xlabel(sweep["xlabel"])
        panel.set_title(f"{name}\n{exponent_text(sweep['law'])}", fontsize=LABEL)
    axes[0].set_ylabel("held-out loss in nats")
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, columnspacing=1.6)
    return figure


WITH, WITHOUT = "with irreducible loss", "without"


def chosen_law(sweep, irreducible):
    """(law, held_out, limits of the losses) of a sweep, with an irreducible loss or without; the limits are the same for both.

    sweep: {"x", "loss", "xlabel", WITH: {"law", "held_out"}, WITHOUT: {"law", "held_out"}}; "held_out" may be missing.
    """
    chosen = sweep[WITH if irreducible else WITHOUT]
    losses = [*as_array(sweep["loss"]).flat, *sweep[WITHOUT]["law"]["curve"], sweep[WITH]["law"]["irreducible_loss"]]
    return chosen["law"], chosen.get("held_out"), (0.99 * float(min(losses)), 1.02 * float(max(losses)))


def scaling_words(sweeps, sweep, irreducible):
    """The chosen law in words: the alt text of the widget."""
    law, held_out, _ = chosen_law(sweeps[sweep], irreducible)
    means = as_array(sweeps[sweep]["loss"]).mean(1)
    parts = [f"Loss against {sweep}, {len(means)} points from {means[0]:.2f} to {means[-1]:.2f}"]
    parts.append(f"power law {'with an' if irreducible else 'without'} irreducible loss, {exponent_text(law)}")
    if irreducible:
        parts.append(f"irreducible loss {law['irreducible_loss']:.2f}")
    if held_out:
        predicted = f"predicted {held_out['value']:.3f}, between {held_out['low']:.3f} and {held_out['high']:.3f}"
        parts.append(f"{predicted}, measured {np.mean(held_out['measured']):.3f}")
    return "; ".join(parts) + "."


DOT = {"marker": "o", "linestyle": "none", "color": BLUE, "markersize": 7}
PREDICTED = {
    "fmt": "D",
    "color": "black",
    "markerfacecolor": "white",
    "markeredgewidth": 2,
    "elinewidth": 2.4,
    "capsize": 7,
}
MEASURED = {"marker": "*", "linestyle": "none", "color": RED, "markersize": 15, "markeredgecolor": "black"}
OTHER_RUNS = {"marker": "o", "linestyle": "none", "color": MUTED, "markersize": 6}


def _draw_sweep(axes, sweep, numbers=False):
    """Points, law and prediction on log-log axes; numbers: results in the labels of the legend."""
    axes.set(xscale="log", yscale="log")
    if "other_runs" in sweep:
        axes.plot(*sweep["other_runs"], zorder=2, label="other runs", **OTHER_RUNS)
    law, held_out, losses = sweep["law"], sweep.get("held_out"), as_array(sweep["loss"])
    seeds = losses.shape[1]
    axes.plot(
        np.repeat(sweep["x"], seeds), losses.reshape(-1), zorder=3, alpha=0.75, **DOT,
        label=f"measured,\n{seeds} seeds each" if numbers and seeds > 1 else "measured",
    )  # fmt: skip
    exponent = "\n" + exponent_text(law).replace(" [", "\n[") if numbers else ""
    axes.plot(law["x"], law["curve"], color=ORANGE, zorder=2, label=f"power law{exponent}")
    axes.fill_between(
        law["x"], law["low"], law["high"], color=ORANGE, alpha=0.3, linewidth=0, zorder=1, label="95 % band"
    )
    if law["irreducible_loss"] is not None:
        name = f"irreducible\nloss {law['irreducible_loss']:.2f}" if numbers else "irreducible loss"
        axes.axhline(law["irreducible_loss"], color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label=name)
    if held_out:
        x, value, low, high, measured = (held_out[key] for key in ("x", "value", "low", "high", "measured"))
        mean = np.mean(measured)
        inside = "inside" if low <= mean <= high else "outside"
        prediction, larger = "prediction", "held-out model"
        if numbers:
            prediction = f"held-out model,\npredicted {value:.3f}\n[{low:.3f}, {high:.3f}]"
            larger = f"held-out model,\nmeasured {mean:.3f},\n{inside}"
        errors = [[value - low], [high - value]]
        axes.errorbar(x, value, errors, zorder=5, label=prediction, **PREDICTED)
        axes.plot([x] * len(measured), measured, zorder=6, label=larger, **MEASURED)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if max(sweep["x"]) < 1e9 else (1,)))
    axes.xaxis.set_major_formatter(thousands if max(sweep["x"]) < 1e9 else "{x:.0e}")
    # Losses lie within one power of ten: round numbers at equal steps in place of powers.
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def exponent_text(law):
    value, low, high = law["exponent"]
    return f"exponent {value:.2f} [{low:.2f}, {high:.2f}]"


# Modifications


def modification_effects(rows, title, noise):
    """Improvement of the loss by each change, sorted: a small dot for each seed, a large one for the mean.

    rows: (change, improvement (seeds,)). noise: the range of the base's own seeds, a gray band; a change inside it is gray.
    """
    rows = sorted(((name, as_array(values)) for name, values in rows), key=lambda row: -row[1].mean())
    figure, axes = chart(title, WIDEST, 2.1 + 0.5 * len(rows))
    axes.axvspan(-noise, noise, color=GREY, alpha=0.2, linewidth=0, zorder=0)
    axes.axvline(0, color="black", linewidth=1.8, zorder=1)
    names = []
    for y, (name, improvement) in enumerate(rows):
        mean = improvement.mean()
        shade = GREY if abs(mean) <= noise else BLUE if mean > 0 else RED
        names.append(f"{name}   {'+' if mean > 0 else ''}{signed(mean, 3)}")
        axes.plot(improvement, [y] * len(improvement), "o", color=shade, markersize=5, zorder=3)
        axes.plot([mean], [y], "o", color=shade, markersize=11, markeredgecolor="black", zorder=4)
    only_rows(axes, names)
    axes.set_xlabel("improvement of the held-out loss over the base (0), in nats")
    words = "large dot: mean, small dots: seeds; gray band: range of the base's own seeds"
    figure.supxlabel(words, fontsize=SMALL, color=GREY)
    return figure


# In-context learning


def in_context_curves(num_examples, tasks, title, chance):
    """Accuracy against the number of examples in the prompt, a panel for each task, with the range over prompts as a band.

    tasks: {name: {"correct", "first format", "shuffled"}}, each (points, prompts) in percent; the first has all formats, the
    others one, and "first format" no band. chance: {name: percent}, a dashed line.
    """
    figure, panels = chart(title, WIDEST, 5.2, columns=len(tasks), sharey=True)
    x = np.arange(len(num_examples))
    names = {
        "correct": "correct answers, three formats",
        "shuffled": "shuffled answers, first format",
        "first format": "correct answers, first format",
    }
    for axes, (name, kinds) in zip(panels, tasks.items(), strict=True):
        values = {words: as_array(kinds[kind]) for kind, words in names.items()}
        bands = {kind: (given.min(1), given.max(1)) for kind, given in values.items() if kind != names["first format"]}
        draw_lines(axes, x, {kind: given.mean(1) for kind, given in values.items()}, bands)
        if name in chance:
            axes.axhline(chance[name], color="black", linewidth=1.8, linestyle=DASHES, zorder=1, label="chance")
        axes.set_title(name, fontsize=FONT)
        axes.set(xlabel="examples", ylim=(-3, 103), yticks=range(0, 101, 20))
        axes.set_xticks(x, [str(count) for count in num_examples])
    panels[0].set_ylabel("accuracy in %")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, columnspacing=1.6)
    return figure


# Grouped-query attention


def grouped_heads(num_heads, kinds, title, head_dim, num_layers):
    """Grouped-query attention: which query heads share a key-value head, both numbered from 0, and the size of the key-value cache per token.

    kinds: {name: num_kv_heads}, each a divisor of num_heads.
    """
    side, step, tall = 0.35 + inches("keys, values", LABEL), 0.67, 1.95
    behind = side + step * num_heads + 0.2
    high = tall * len(kinds) + 0.35
    figure, axes = sheet(behind + 2.2, high + top_of(title, behind + 2.2))
    for row, (name, count) in enumerate(kinds.items()):
        up, down = high - tall * row - 0.62, high - tall * row - 1.55
        write(axes, 0.12, up + 0.42, name, FONT, ha="left", fontweight="bold")
        write(axes, side - 0.12, up, "queries", LABEL, ha="right", color=GREY)
        write(axes, side - 0.12, down, "keys, values", LABEL, ha="right", color=GREY)
        group_size = num_heads // count
        for group in range(count):
            middle = side + step * (group + 0.5) * group_size
            for head in range(group * group_size, (group + 1) * group_size):
                x = side + step * (head + 0.5)
                axes.plot([x, middle], [up - 0.2, down + 0.2], color=GREY, linewidth=1.8, zorder=1)
                draw_box(axes, x, up, step - 0.12, 0.4, str(head), PALE_BLUE, BLUE, LABEL)
            draw_box(axes, middle, down, step - 0.12, 0.4, str(group), PALE_ORANGE, ORANGE, LABEL)
        cached, y = 2 * count * head_dim * num_layers, (up + down) / 2
        write(axes, behind, y + 0.16, f"2 × {count} × {head_dim} × {num_layers}", FONT, ha="left")
        write(axes, behind, y - 0.16, f"{cached:,}", FONT, ha="left", fontweight="bold")
    words = "right: cached numbers per token = keys and values × heads × head dimension × layers"
    write(axes, 0.12, 0.2, words, SMALL, ha="left", color=GREY)
    write_title(figure, title)
    return figure


# Image patches


def digit_attention(image, attention_weights, title, contributions, digit):
    """An image, its patches, the attention that each patch receives in each layer, and its contribution to the prediction.

    image (side, side). attention_weights (layers, g, g): each layer sums to 1; shown in percent. contributions (g, g): to the
    logit of `digit`.
    """
    image, weights, contributions = as_array(image), as_array(attention_weights), as_array(contributions)
    grid, size = weights.shape[1], len(image) // weights.shape[1]
    most = abs(contributions).max()
    percents = [(f"attention (%),\nlayer {number}", 100 * layer) for number, layer in enumerate(weights, 1)]
    figure, panels = chart(title, WIDEST, 3.4, columns=3 + len(weights))
    panels[0].imshow(image, cmap="Greys")
    panels[0].set_title("the image", fontsize=FONT, fontweight="normal")
    panels[1].imshow(image, cmap="Greys")
    panels[1].set_title(f"{grid * grid} patches", fontsize=FONT, fontweight="normal")
    for edge in range(1, grid):
        for line in (panels[1].axhline, panels[1].axvline):
            line(edge * size - 0.5, color=BLUE, linewidth=2.5)
    for axes, (name, layer) in zip(panels[2:], percents, strict=False):
        _numbers(axes, layer, name, 0, WEIGHTS_MAP, 0, 100 * weights.max())
    _numbers(panels[-1], contributions, f"contribution\nto logit {digit}", 1, SIGNED_MAP, -most, most)
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
        write(axes, column, row, signed(value, decimals), SMALL, color=ink_on(drawn.cmap(drawn.norm(value))))


# Data-parallel training

WORKER_FACES = ((PALE_BLUE, BLUE), (PALE_ORANGE, ORANGE))


def shared_batch(workers, batch, title):
    """Data-parallel training: a batch split among workers with the same parameters, and the all-reduce of their gradients."""
    high = 3.15
    figure, axes = sheet(WIDEST, high + top_of(title, WIDEST))
    heads = (
        (1.05, "one batch"),
        (3.3, "the same model\non each worker"),
        (5.75, "its gradient"),
        (8.55, "all-reduce"),
    )
    for x, words in heads:
        write(axes, x, high - 0.32, words, LABEL, color=GREY, linespacing=1.05)
    low, up = 0.15, high - 0.75
    cell, height, middle = (up - low) / batch, (up - low) / workers, (up + low) / 2
    words = "mean of the gradients,\nweighted by tokens:\nthe same step for all"
    draw_box(axes, 8.55, middle, 2.6, 1.5, words, "white", "black", LABEL)
    for worker in range(workers):
        face, edge = WORKER_FACES[worker]
        first, last = batch * worker // workers, batch * (worker + 1) // workers
        for row in range(first, last):
            corner = (0.45, up - (row + 1) * cell + 0.02)
            axes.add_patch(Rectangle(corner, 1.2, cell - 0.04, facecolor=face, edgecolor=edge, linewidth=1))
        y = up - (worker + 0.5) * height
        draw_arrow(axes, (1.75, y), (2.3, y), edge)
        draw_box(axes, 3.3, y, 1.9, 0.7, f"worker {worker}\nrows {first + 1}–{last}", face, edge, LABEL)
        draw_arrow(axes, (4.3, y), (4.95, y), edge)
        draw_box(axes, 5.75, y, 1.5, 0.55, f"gradient {worker}", face, edge, LABEL)
        draw_arrow(axes, (6.55, y), (7.2, middle + (workers / 2 - worker - 0.5) * 0.22), edge)
    write_title(figure, title)
    return figure

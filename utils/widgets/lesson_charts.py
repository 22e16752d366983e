"""Charts of single lessons, for `explore`: arrays in, a chart as plain data out."""

import numpy as np

from utils.plots.figures import signed
from utils.plots.lesson09 import QUANTITIES, chosen_law, costs_at, exponent_text
from utils.plots.style import as_array
from utils.widgets import charts

# Lesson 01


def regression_fit(x, y, grid, truth, output, query, weights):
    """Known points (x, y), the true curve and the prediction on a grid; below, the attention weights of one query.

    output (1 + grid,): the predictions at the query and on the grid. `PAGES.regression` in explore.js computes the same.
    """
    above = [
        charts.line(grid, truth, "true curve", "muted", dashed=True),
        charts.line(grid, output[1:], "prediction", "output"),
        charts.points(x, y, "known points", "value"),
    ]
    look = {"xlabel": "x", "xlimits": (float(grid[0]), float(grid[-1])), "marker": {"query": query}}
    panels = [
        charts.lines(above, ylabel="y", ylimits=(-1.3, 3.6), **look),
        charts.lines([charts.stems(x, weights)], ylabel="attention weight", height=170, **look),
    ]
    cumulative = np.sort(as_array(weights))[::-1].cumsum()
    most = int((cumulative < 0.8999).sum()) + 1  # 90 %, up to rounding
    title = f"Prediction at {query:.1f}: {output[0]:.2f}; {most} of {len(x)} points have 90 % of the weight"
    return charts.panels(panels, title, stacked=True)


# Lesson 04


def scaled_weights(scores, d_k):
    """Attention weights of one query in descending order, from unscaled scores (n,) and from scores divided by √d_k."""
    panels, largest = [], []
    for name, row, color in (
        ("unscaled scores", as_array(scores), "output"),
        ("scores divided by √d_k", as_array(scores) / d_k**0.5, "strong"),
    ):
        exponentials = np.sort(np.exp(row - row.max()))[::-1]
        weights = exponentials / exponentials.sum()
        entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum()
        caption = (
            f"scores from {signed(row.min(), 1)} to {signed(row.max(), 1)}, "
            f"entropy {entropy:.2f} of {np.log(len(row)):.2f} nats"
        )
        look = {"xlabel": "keys, by weight", "color": color, "numbers": False, "caption": caption}
        panels.append(charts.bars(range(1, len(row) + 1), weights, name, **look))
        largest.append(f"{100 * weights[0]:.0f} %")
    title = f"d_k = {d_k}: the largest weight is {largest[0]} without scaling and {largest[1]} with it"
    return charts.panels(panels, title)


# Lesson 09


def cost_at_length(curves, length, span):
    """Time and peak memory of each kind of attention at one length. span: (shortest, longest) length, for the axes.

    curves: as in `cost_curves`.
    """
    panels = []
    for quantity, (*_, label, _) in QUANTITIES.items():
        costs, texts, interpolated = zip(*costs_at(curves, quantity, length), strict=True)
        ends = [cost for end in span for cost, *_ in costs_at(curves, quantity, end)]
        hollow = [not inside for inside in interpolated]
        limits = (min(ends) / 2, 2 * max(ends))
        panels.append(charts.dots(curves, costs, texts, hollow, xlabel=label, limits=limits))
    title = f"Cost of a sequence of {length:,.0f} tokens"
    return charts.panels(panels, title, caption="Hollow: extrapolated from the measured lengths.")


def scaling_law(sweeps, against, irreducible):
    """Losses of one sweep, the law with an irreducible loss or without, and its prediction for a held-out model."""
    sweep = sweeps[against]
    law, held_out, limits = chosen_law(sweep, irreducible)
    losses = as_array(sweep["loss"])
    layers = [
        charts.band(law["x"], law["low"], law["high"], "95 % band", "key"),
        charts.line(law["x"], law["curve"], f"power law, {exponent_text(law)}", "key"),
        charts.points(np.repeat(sweep["x"], losses.shape[1]), losses.reshape(-1), "measured"),
    ]
    if irreducible:
        level = law["irreducible_loss"]
        layers.insert(0, charts.level(level, f"irreducible loss {level:.2f}"))
    if held_out:
        x, value, low, high, runs = (held_out[key] for key in ("x", "value", "low", "high", "measured"))
        predicted = f"held-out model, predicted {value:.3f} [{low:.3f}, {high:.3f}]"
        measured = f"held-out model, measured {np.mean(runs):.3f}"
        layers.append(charts.points([x], [value], predicted, "text", "diamond", error=(low, high)))
        layers.append(charts.points([x] * len(runs), runs, measured, "output", "star"))
    title = f"Loss against {against}: power law {'with an' if irreducible else 'without'} irreducible loss"
    axes = {"xlabel": " ".join(sweep["xlabel"].split()), "ylabel": "held-out loss in nats", "ylimits": limits}
    return charts.lines(layers, title, log=True, height=420, **axes)

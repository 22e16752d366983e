"""Two kinds of plots as inline SVG for light and dark pages: rows of dots or bars, and curves."""

import io
import math
import re
import textwrap
from collections.abc import Iterable
from html import escape
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from utils.plots.style import BLUE, GREEN, GREY, PINK, RED, STYLE

INK = "#010203"  # becomes currentColor: the text color of the page, light or dark
# The palette's colors with a contrast of at least 3 to 1 on white and on #121212, then the text color.
COLORS, MARKERS = (BLUE, RED, GREEN, PINK, INK, GREY), "os^DvP"
SEED = {"marker": "o", "markerfacecolor": "none", "markersize": 4.5, "markeredgewidth": 1.3, "linestyle": "none"}
MEDIAN = {"marker": "|", "markeredgewidth": 3.5, "linestyle": "none"}
RANGE = ("median", "smallest to largest")
WIDTH, FONT = 7.5, 12  # inches, points
# Letters of at least 12 pixels: on a phone the plot scrolls sideways.
ROOT_STYLE = "min-width: 34em; max-width: 50em; stroke-linejoin: round; stroke-linecap: butt"
INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
SIZED = ("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize")
LOOK = STYLE | dict.fromkeys(INKED, INK) | dict.fromkeys(SIZED, FONT)
LOOK |= dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), "none")
LOOK |= {"axes.titleweight": "normal", "axes.titlelocation": "center", "axes.titlepad": 6, "axes.grid.axis": "both"}
LOOK |= {"svg.fonttype": "none", "grid.alpha": 0.2, "lines.linewidth": 2, "lines.markersize": 6}


class Point(NamedTuple):
    """A row of a dot plot. values: one per seed, or {"median", "least", "most"}, or one figure."""

    panel: str
    category: str
    values: Any
    series: str = ""
    target: float | None = None

    def name(self) -> str:
        return ", ".join(filter(None, (self.category, self.series, self.panel)))


class Curve(NamedTuple):
    """A line through y[i] at x[i]; y[i] as the values of a Point. Texts as x are evenly spaced, numbers on a log axis."""

    panel: str
    series: str
    x_label: str
    y_label: str
    x: list
    y: list
    line: str = "-"  # "none" for dots alone, "--" or ":" for a fitted curve without dots

    def look(self, number: int) -> dict:
        marker = MARKERS[number] if self.line in {"-", "none"} else ""
        return {"color": COLORS[number], "marker": marker, "linestyle": self.line}

    def ends(self) -> str:
        points = unique(f"{short(median(y), 4)} at {x}" for x, y in ((self.x[0], self.y[0]), (self.x[-1], self.y[-1])))
        return f"{self.series}: {' to '.join(points)}"


def spread(values: Any) -> tuple[list, float, float, float]:
    """Seeds (none if only their range is known), median, smallest, largest."""
    if isinstance(values, dict):
        return [], values["median"], values["least"], values["most"]
    seeds = np.atleast_1d(values).tolist()
    return seeds if len(seeds) > 1 else [], float(np.median(seeds)), min(seeds), max(seeds)


def median(values: Any) -> float:
    return spread(values)[1]


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def wrapped(text: str, width: int) -> str:
    text = re.sub(r"(\d) (?=[a-z])", "\\1\N{NO-BREAK SPACE}", text.replace("`", ""))  # a number stays with its noun
    return "\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))


def short(value: float, digits: int = 3, powers: bool = False) -> str:
    """A figure in few characters, with a power of 10 if it is very small, very large, or `powers`."""
    if value and (powers or not 1e-3 <= abs(value) < 1e6):
        factor, exponent = f"{value:.1e}".split("e")
        power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return power if factor == "1.0" else f"{factor} · {power}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def log_axis(axis: Axis, values: list[float], base: int) -> None:
    """Ticks at powers of `base`, or evenly spaced ones if the values are close together."""
    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    near = max(values) / min(values) < 2 * base
    powers = base == 10 and max(values) > 1e5
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]) if near else LogLocator(base, numticks=8))
    axis.set_major_formatter(lambda value, _: short(value, powers=powers))
    axis.set_minor_locator(NullLocator())


def add_legend(figure: Figure, handles: list[Line2D], values: list, names: tuple[str, str], columns: int) -> None:
    """Below the axes: the series, then the marks that the values need."""
    spreads = list(map(spread, values))
    if any(seeds for seeds, *_ in spreads):
        handles.append(Line2D([], [], **SEED, color=INK, label="one seed"))
    if any(not seeds and low < high for seeds, _, low, high in spreads):
        handles.append(Line2D([], [], color=INK, linewidth=1.5, label=names[1]))
    if spreads and names[0]:
        handles.append(Line2D([], [], **MEDIAN, color=INK, markersize=13, label=names[0]))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=1.6, columnspacing=1.4)


def draw_point(axes, point: Point, y: float, step: float, color: str) -> None:
    seeds, middle, low, high = spread(point.values)
    if point.target is not None:
        axes.plot([point.target] * 2, [y - step / 1.6, y + step / 1.6], ":", color=INK)
    if low < high:
        axes.plot([low, high], [y, y], color=color, linewidth=0.8 if seeds else 1.5)
    if seeds:  # each a little lower than the one before, or equal seeds would look like one
        axes.plot(seeds, y + np.linspace(-0.03, 0.03, len(seeds)) * len(seeds) * step, **SEED, color=color)
    axes.plot(middle, y, **MEDIAN, color=color, markersize=10 + 5 * (step > 0.5))


def draw_bar(axes, point: Point, y: float, step: float, color: str) -> None:
    value = median(point.values)
    axes.barh(y, value - 1, step * 0.7, 1, color=color)
    # The figures stand in a column at the right: beside the bars they would hit the targets.
    axes.text(1, y, short(value), transform=axes.get_yaxis_transform(), ha="right", va="center")
    if point.target:
        ends = [y - step * 0.4, y + step * 0.4]
        axes.plot([point.target] * 2, ends, color=INK, linewidth=4, solid_capstyle="butt")


def dots(points: Iterable[Point], label, columns=1, sort=0, bars=False, target="target", names=RANGE, wrap=25):
    """One row per category; sort: 1 lowest first, -1 highest first. bars: from 1, each panel with categories of its own."""
    points = sorted(points, key=lambda point: sort * median(point.values))
    panels, series = unique(point.panel for point in points), unique(point.series for point in points)
    rows = {panel: unique(p.category for p in points if not bars or p.panel == panel) for panel in panels}
    kinds = {panel: unique(point.series for point in points if point.panel == panel) for panel in panels}
    titles = [wrapped(panel, 40 // columns if columns > 1 else 60) for panel in panels]
    most_lines = max(wrapped(point.category, wrap).count("\n") for point in points)
    heights = [len(rows[p]) * max(0.3, 0.22 + 0.19 * most_lines, 0.25 * len(kinds[p])) for p in panels[::columns]]
    title_height = 0.25 + 0.2 * max(title.count("\n") + bool(title) for title in titles)
    figure = Figure((WIDTH, sum(heights) + len(heights) * title_height + 0.85), layout="constrained")
    figure.get_layout_engine().set(wspace=0.04)
    grid = figure.subplots(len(heights), columns, squeeze=False, sharex=True, sharey=not bars, height_ratios=heights)
    for panel, title, axes in zip(panels, titles, grid.flat, strict=True):
        axes.set_title(title)
        axes.set_yticks(range(len(rows[panel])), [wrapped(row, wrap) for row in rows[panel]])
        axes.set_ylim(len(rows[panel]) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        step = 0.8 / len(kinds[panel])
        for point in (point for point in points if point.panel == panel):
            y = rows[panel].index(point.category) + (kinds[panel].index(point.series) + 0.5) * step - 0.4
            (draw_bar if bars else draw_point)(axes, point, y, step, COLORS[series.index(point.series)])
        if bars:
            axes.axvline(1, color=INK)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="y", visible=False)
    if bars:
        shown = [1, *(median(point.values) for point in points), *(point.target for point in points if point.target)]
        log_axis(grid[0, 0].xaxis, shown, 2)
        grid[0, 0].set_xlim(min(shown) / 1.01, max(shown) ** 1.15 * 1.02)  # room for the column of figures
    for axes in grid[-1] if columns % 2 == 0 else grid[-1, columns // 2 : columns // 2 + 1]:
        axes.set_xlabel(label)
    handles = [Line2D([], [], color=COLORS[i], linewidth=6, label=name) for i, name in enumerate(series) if name]
    if any(point.target is not None for point in points):
        look = MEDIAN | {"markersize": 13} if bars else {"linestyle": ":"}
        handles.append(Line2D([], [], **look, color=INK, label=target))
    add_legend(figure, handles, [] if bars else [point.values for point in points], names, 3)
    ends = (choose(points, key=lambda point: median(point.values)) for choose in (min, max))
    low, high = (f"{point.name()} ({short(median(point.values), 4)})" for point in ends)
    return figure, f"{label}: {low}" if low == high else f"{label}: lowest {low}, highest {high}"


def curves(lines: Iterable[Curve], columns=1, log_y=False, base=10):
    """Panels of lines through medians, with seeds or ranges. base: of the ticks of x."""
    lines = list(lines)
    panels, series = unique(line.panel for line in lines), unique(line.series for line in lines)
    rows = math.ceil(len(panels) / columns)
    figure = Figure((WIDTH, 3.1 * rows + 0.25 * math.ceil(len(series) / 2)), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row")
    every = [values for line in lines for values in line.y]
    apart = 0.07 * any(low < high for _, _, low, high in map(spread, every))  # or seeds of several lines would overlap
    for panel, axes in zip(panels, grid.flat, strict=True):
        drawn = [line for line in lines if line.panel == panel]
        even = isinstance(drawn[0].x[0], str)
        title = panel if panel != drawn[0].x_label else ""
        axes.set(title=title, xlabel=drawn[0].x_label, ylabel=drawn[0].y_label)
        for line in drawn:
            number = series.index(line.series)
            shift = (number - (len(series) - 1) / 2) * apart
            x = [i + shift for i in range(len(line.x))] if even else line.x
            axes.plot(x, list(map(median, line.y)), **line.look(number))
            for at, (seeds, _, low, high) in zip(x, map(spread, line.y), strict=True):
                if seeds:
                    axes.plot([at] * len(seeds), seeds, **SEED, color=COLORS[number])
                elif low < high:
                    axes.plot([at, at], [low, high], color=COLORS[number], linewidth=1.5)
        if even:
            axes.set_xticks(range(len(drawn[0].x)), drawn[0].x)
        else:
            log_axis(axes.xaxis, [at for line in drawn for at in line.x], base)
        if log_y:
            log_axis(axes.yaxis, [median(y) for line in lines if line.y_label == drawn[0].y_label for y in line.y], 10)
        else:
            axes.set_ylim(bottom=0)
        axes.label_outer()
    first_of = {line.series: line for line in reversed(lines)}
    handles = [Line2D([], [], **first_of[name].look(number), label=name) for number, name in enumerate(series)]
    add_legend(figure, handles, every, ("", RANGE[1]), 2)
    measured = [line for line in lines if line.panel == panels[0] and line.line in {"-", "none"}]
    about = unique([measured[0].panel or measured[0].y_label, measured[0].y_label])
    return figure, f"{', '.join(about)} by {measured[0].x_label}: {'; '.join(line.ends() for line in measured)}"


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """The figure as part of a page: no global styles, the colors and font of the page, unique ids."""
    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})  # `savefig` would draw twice
    view_box = re.search(r'viewBox="[^"]*"', file.getvalue())[0]
    body = file.getvalue().split("</metadata>")[1]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r'font-family: [^;"]*; ', "", body)
    body = re.sub(r'( id="|href="#|url\(#)', rf"\1{name}-", body.replace("xlink:href", "href"))
    root = f'<svg xmlns="http://www.w3.org/2000/svg" class="result-plot" role="img" aria-label="{escape(label)}"'
    return f'{root} width="100%" {view_box} style="{ROOT_STYLE}">{body.replace(INK, "currentColor").strip()}'

"""A draggable query in the plane; attention weights and output follow it."""

import anywidget
import numpy as np
import traitlets
from matplotlib.patheffects import withStroke

from utils.plots.display import picture_bundle
from utils.plots.figures import text_inches, title_lines, write_title
from utils.plots.style import COLORS, FONT, GREY, PALE, SERIES, SMALL, as_array, canvas, figure_png
from utils.widgets.controls import LogRange, decimals_of
from utils.widgets.forms import ThreeForms, page_state
from utils.widgets.stage import STATIC, script, sentence_of

ANSWERS = ("weights", "output", "text")
NAMES = ("query", "output")
OUTPUT_WORD = "#A84A00"  # darker than the mark it names: letters need more contrast; as in plane.css
SQUARE = 3.6  # inches that the plane takes in the static picture


def plane(respond, /, keys, values=None, *, query=(1.0, 0.5), extent=2.0, title="", **controls):
    """A query that is dragged in the plane among fixed keys, while weights and output follow.

    keys: {name: (x, y)}; values: {name: (x, y)} with the same names, where the values differ from the keys.
    respond(x, y, **controls) is a pure function that returns a dict with any of "weights" (one number from 0 to 1
    for each key), "output" (x, y) and "text" (one line). Controls are (low, high, step, start) or `log_range(...)`,
    shown as sliders below. The plane reaches from -extent to extent; arrow keys move by 0.1, with Shift by five.
    """
    return Plane(respond, keys, values, query, extent, title, controls)


class Plane(ThreeForms, anywidget.AnyWidget):
    """Returned by `plane`. `query` and `settings` reflect what the reader chose; `answer` is the result of `respond`."""

    _esm = script("plane.js")
    _css = STATIC / "plane.css"
    points = traitlets.List().tag(sync=True)  # dicts: name, color, key [x, y], value [x, y] or None
    query = traitlets.List(traitlets.Float()).tag(sync=True)
    extent = traitlets.Float(2.0).tag(sync=True)
    step = traitlets.Float(0.1).tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    sliders = traitlets.List().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)

    def __init__(self, respond, keys, values, query, extent, title, controls):
        self._respond = respond
        points = plane_points(keys, values)
        query = [float(part) for part in query]
        sliders = [plane_slider(name, name.replace("_", " "), given) for name, given in controls.items()]
        settings = {slider["name"]: slider["start"] for slider in sliders}
        answer = answer_of(respond, query, settings, len(points))
        super().__init__(
            points=points,
            query=query,
            extent=float(extent),
            title=title,
            names=list(NAMES),
            sliders=sliders,
            settings=settings,
            answer={**answer, "count": 1},
        )
        self.add_class("course-widget")
        self.add_class("course-plane")
        self.observe(self._follow, names=["query", "settings"])

    def page_view(self):
        return page_state(self, "plane") if self._is_attention() else None

    def _is_attention(self):
        """Whether `respond` is softmax attention with a temperature, which a page can compute by itself."""
        if self.answer["text"] or {slider["name"] for slider in self.sliders if not slider["log"]} != {"temperature"}:
            return False
        (slider,) = self.sliders
        keys = np.array([point["key"] for point in self.points])
        values = np.array([point["value"] or point["key"] for point in self.points])
        queries = np.random.default_rng(0).uniform(-self.extent, self.extent, (20, 2))
        for query, temperature in zip(queries, np.linspace(slider["low"], slider["high"], 20), strict=True):
            answer = answer_of(self._respond, query.tolist(), {"temperature": temperature}, len(keys))
            exponentials = np.exp(keys @ query / temperature)
            weights = exponentials / exponentials.sum()
            expected = np.concatenate([weights, weights @ values])
            if not np.allclose([*(answer["weights"] or []), *(answer["output"] or [])], expected, atol=1e-5):
                return False
        return True

    def static(self):
        alt = plane_words(self.points, self.query, self.settings, self.answer, self.title)
        figure = plane_figure(self.points, self.query, self.settings, self.answer, self.extent, self.title)
        return picture_bundle(figure_png(figure, alt), alt)

    def _follow(self, _):
        count = self.answer["count"] + 1
        try:
            answer = answer_of(self._respond, self.query, self.settings, len(self.points))
        except Exception as error:
            with self.hold_sync():
                self.error = sentence_of(error)
                self.answer = {**self.answer, "count": count}
            raise
        with self.hold_sync():
            self.error = ""
            self.answer = {**answer, "count": count}


def plane_points(keys, values):
    """One dict for each key."""
    return [
        {
            "name": str(name),
            "color": SERIES[index],
            "key": [float(part) for part in place],
            "value": None if values is None else [float(part) for part in values[name]],
        }
        for index, (name, place) in enumerate(keys.items())
    ]


def plane_slider(name, label, given):
    """What the page needs to know about a slider; a log slider moves over exponents of ten."""
    if isinstance(given, LogRange):
        low, high = np.log10(given.low), np.log10(given.high)
        return {
            "name": name,
            "label": label,
            "log": True,
            "low": float(low),
            "high": float(high),
            "step": float((high - low) / given.steps),
            "start": float(given.start),
            "decimals": 2,
        }
    low, high, step, start = given
    decimals = 0 if all(isinstance(number, int) for number in given) else decimals_of(step)
    return {
        "name": name,
        "label": label,
        "log": False,
        "low": low,
        "high": high,
        "step": step,
        "start": start,
        "decimals": decimals,
    }


def answer_of(respond, query, settings, count):
    """The checked answer of `respond` with plain numbers, ready for the page."""
    given = respond(*query, **settings)
    if not isinstance(given, dict) or set(given) - set(ANSWERS):
        got = sorted(map(str, given)) if isinstance(given, dict) else type(given).__name__
        raise TypeError(f"respond must return a dict with some of {list(ANSWERS)}, got {got}")
    answer = {"weights": None, "output": None, "text": str(given.get("text", ""))}
    if given.get("weights") is not None:
        weights = as_array(given["weights"], "the weights").reshape(-1)
        if len(weights) != count:
            raise ValueError(f"expected one weight for each of the {count} keys, got {len(weights)}")
        if weights.min() < -1e-6 or weights.max() > 1 + 1e-6:
            raise ValueError(f"weights lie between 0 and 1, got {weights.min():.3g} to {weights.max():.3g}")
        answer["weights"] = weights.tolist()
    if given.get("output") is not None:
        output = as_array(given["output"], "the output")
        if output.shape != (2,):
            raise ValueError(f"the output must be a point (x, y), got the shape {output.shape}")
        answer["output"] = output.tolist()
    return answer


def plane_words(points, query, settings, answer, title):
    """The state of the plane as alt text."""
    opening = f"{title}: a plane" if title else "A plane"
    parts = [
        f"{opening} with {len(points)} key{'s' * (len(points) > 1)} and a query at ({query[0]:.2f}, {query[1]:.2f})"
    ]
    if settings:
        parts.append(", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in settings.items()))
    if answer["weights"] is not None:
        pairs = zip(points, answer["weights"], strict=True)
        parts.append("weights: " + ", ".join(f"{point['name']} {weight:.2f}" for point, weight in pairs))
    if answer["output"] is not None:
        parts.append(f"output at ({answer['output'][0]:.2f}, {answer['output'][1]:.2f})")
    return "; ".join(parts) + "." + (f" {answer['text']}" if answer["text"] else "")


def plane_figure(points, query, settings, answer, extent, title=""):
    """The static form: the plane on the left, the weights as bars on the right."""
    with_bars = answer["weights"] is not None
    width = 8.6 if with_bars else 5.4
    figure, axes = canvas(
        width,
        4.95 + 0.3 * title_lines(title, width),
        columns=2 if with_bars else 1,
        squeeze=False,
        margins=(0.65, 0.45, 0.95, 0.4 + 0.3 * title_lines(title, width)),
        gaps=(1.1, 0),
        width_ratios=[3, 2] if with_bars else [1],
    )
    square = axes[0, 0]
    _draw_plane(square, points, query, answer, extent)
    if with_bars:
        _draw_weights(axes[0, 1], points, answer["weights"])
    said_settings = ", ".join(f"{name.replace('_', ' ')} = {value:.3g}" for name, value in settings.items())
    line = "   ".join(part for part in (said_settings, answer["text"]) if part)
    figure.text(0.02, 0.025, line, fontsize=FONT, ha="left", va="bottom")
    write_title(figure, title)
    return figure


def _draw_plane(axes, points, query, answer, extent):
    axes.set(xlim=(-extent, extent), ylim=(-extent, extent), aspect="equal")
    axes.grid(True, axis="both")
    axes.axhline(0, color=GREY, linewidth=1)
    axes.axvline(0, color=GREY, linewidth=1)
    weights = answer["weights"] or [0.0] * len(points)
    for point, weight in zip(points, weights, strict=True):
        _draw_key(axes, point, weight, answer["output"])
    arrow = {"arrowstyle": "-|>,head_width=0.4,head_length=0.8", "color": COLORS["query"], "lw": 3}
    axes.annotate("", query, (0, 0), arrowprops={**arrow, "shrinkA": 0, "shrinkB": 0}, zorder=5)
    if answer["output"] is not None:
        look = {"marker": "D", "color": COLORS["output"], "edgecolors": "white", "linewidths": 1.5, "zorder": 6}
        axes.scatter(*answer["output"], s=200, **look)
    named = names_in_plane(points, query, answer["output"])
    marks = [mark for _, mark, _ in named]
    for (text, mark, color), (x, y) in zip(named, places_of_names(named, marks, extent), strict=True):
        axes.annotate(
            text,
            mark,
            (x, y),
            ha="center",
            va="center",
            fontsize=SMALL + 1,
            fontweight="bold",
            color=color,
            zorder=7,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )


def _draw_key(axes, point, weight, output):
    color = point["color"]
    value = point["value"] or point["key"]
    if output is not None and weight > 0.004:
        across, up = zip(value, output, strict=True)
        axes.plot(across, up, color=color, linewidth=0.8 + 6 * weight, alpha=0.55)
    axes.scatter(*point["key"], s=3200 * weight, color=color, alpha=0.3, linewidths=0)  # the area is the weight
    axes.scatter(*point["key"], s=110, color=color, zorder=4)
    if point["value"]:
        axes.scatter(*point["value"], s=110, marker="s", color=color, zorder=4)


def names_in_plane(points, query, output):
    """(text, place, color) of everything that carries a name, fixed things first."""
    named = []
    for point in points:
        named.append((f"key {point['name']}" if point["value"] else point["name"], point["key"], "black"))
        if point["value"]:
            named.append((f"value {point['name']}", point["value"], "black"))
    if output is not None:
        named.append((NAMES[1], output, OUTPUT_WORD))
    return [*named, (NAMES[0], query, COLORS["query"])]


def places_of_names(named, marks, extent):
    """Where each name goes: the corner of its point that covers the fewest other names and points.

    Returns centers of the texts in the plane's coordinates. The plane is about SQUARE inches wide.
    """
    unit = 2 * extent / SQUARE
    dots = [(x, y, 0.12 * unit, 0.12 * unit) for x, y in marks]
    taken, centers = [], []
    for text, (x, y), _ in named:
        half = (text_inches(text, SMALL + 1) * 1.1 * unit / 2, 0.11 * unit)
        boxes = [
            (x + right * (half[0] + 0.14 * unit), y + up * 0.18 * unit, *half)
            for right, up in ((1, 1), (-1, 1), (1, -1), (-1, -1))
        ]
        best = min(boxes, key=lambda box: sum(overlap(box, other) for other in taken + dots) + outside(box, extent))
        taken.append(best)
        centers.append(best[:2])
    return centers


def overlap(first, second):
    """The common area of two boxes (x, y, half width, half height)."""
    across = min(first[0] + first[2], second[0] + second[2]) - max(first[0] - first[2], second[0] - second[2])
    up = min(first[1] + first[3], second[1] + second[3]) - max(first[1] - first[3], second[1] - second[3])
    return max(across, 0) * max(up, 0)


def outside(box, extent):
    """A penalty for a box that leaves the plane, larger than any overlap."""
    beyond = max(abs(box[0]) + box[2] - extent, abs(box[1]) + box[3] - extent, 0)
    return 100 * extent * beyond


def _draw_weights(axes, points, weights):
    places = np.arange(len(points))
    axes.barh(places, weights, 0.66, color=[point["color"] for point in points])
    for place, weight in zip(places, weights, strict=True):
        axes.text(weight + 0.03, place, f"{weight:.2f}", va="center", fontsize=FONT)
    axes.set_yticks(places, [point["name"] for point in points])
    axes.set(xlim=(0, 1.25), ylim=(len(points) - 0.4, -0.6), xlabel="weight", xticks=[0, 0.5, 1])
    axes.grid(False)
    axes.axvline(1, color=PALE, linewidth=1, zorder=0)
    axes.tick_params(axis="y", length=0)

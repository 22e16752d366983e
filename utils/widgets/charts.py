"""Charts as plain data, for the function of an `explore` widget; the page draws them (static/explore.js).

A color is the name of a role or of a color in core.css: "query", "key", "value", "output", "strong", "muted", "series-0".
"""

from utils.plots.style import as_array


def bars(labels, values, title="", *, xlabel="", ylabel="weight", color="strong", numbers=True, caption=""):
    """Bars over labels on an axis from 0 to 1, longer if a value is not in it. numbers: written over the bars."""
    return {
        "kind": "bars",
        "labels": [str(label) for label in labels],
        "values": as_array(values).reshape(-1),
        "title": title,
        "xlabel": xlabel,
        "ylabel": ylabel,
        "color": color,
        "numbers": numbers,
        "caption": caption,
    }


def dots(labels, values, texts, hollow, *, xlabel, limits):
    """A row with a dot for each label on a logarithmic axis, with the value as text; hollow: whether the dot is."""
    return {
        "kind": "dots",
        "labels": list(labels),
        "values": as_array(values),
        "texts": list(texts),
        "hollow": list(hollow),
        "xlabel": xlabel,
        "limits": limits,
    }


def lines(layers, title="", *, xlabel, ylabel, xlimits=None, ylimits=None, log=False, marker=None, height=300):
    """Layers (`line`, `points`, `band`, `stems`, `level`) on common axes; the later ones are drawn on top.

    xlimits, ylimits: (low, high) of an axis. log: both axes logarithmic. marker: {parameter: x}, a vertical line that the
    reader can drag to change this parameter.
    """
    return {
        "kind": "lines",
        "layers": layers,
        "title": title,
        "xlabel": xlabel,
        "ylabel": ylabel,
        "xlimits": xlimits,
        "ylimits": ylimits,
        "log": log,
        "marker": marker,
        "height": height,
    }


def line(x, y, name, color="strong", dashed=False):
    return {"layer": "line", "x": as_array(x), "y": as_array(y), "name": name, "color": color, "dashed": dashed}


def points(x, y, name, color="strong", shape="circle", error=None):
    """shape: "circle", "diamond" (hollow) or "star". error: (low, high) of the one point, for an error bar."""
    x, y = as_array(x), as_array(y)
    return {"layer": "points", "x": x, "y": y, "name": name, "color": color, "shape": shape, "error": error}


def band(x, low, high, name, color="strong"):
    return {
        "layer": "band",
        "x": as_array(x),
        "low": as_array(low),
        "high": as_array(high),
        "name": name,
        "color": color,
    }


def stems(x, y, color="strong"):
    """A vertical line from 0 to each y; not in the legend."""
    return {"layer": "stems", "x": as_array(x), "y": as_array(y), "name": "", "color": color}


def level(y, name, color="text"):
    """A dashed horizontal line."""
    return {"layer": "level", "y": float(y), "name": name, "color": color}


def heat(values, title="", *, xlabel, ylabel):
    """A matrix with entries from -1 to 1 as colors, a row for each row; the background stands for 0."""
    return {"kind": "heat", "values": as_array(values).round(6), "title": title, "xlabel": xlabel, "ylabel": ylabel}


def story(sentences, weights, question, answer, title="", *, facts=(), correct=None, note=""):
    """The attention weights (hops, sentences) over a story. facts: indices of supporting facts. correct: of the answer, if known."""
    return {
        "kind": "story",
        "sentences": list(sentences),
        "weights": as_array(weights).round(4),
        "question": question,
        "answer": answer,
        "title": title,
        "facts": list(facts),
        "correct": correct,
        "note": note,
    }


def panels(charts, title="", *, stacked=False, caption=""):
    """Charts under one title: next to each other where there is room, or stacked."""
    return {"kind": "panels", "panels": charts, "title": title, "stacked": stacked, "caption": caption}

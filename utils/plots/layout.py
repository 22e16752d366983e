"""Layout of a drawn figure: its size, its smallest font, and texts that are cut off, overlapping or faint.

With COURSE_BUILD set, as during the build of lessons, every PNG file carries these measurements, so that a test can
check the figures of a lesson without drawing them again.
"""

import json
import os
from itertools import combinations

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

KEY = "Layout"  # of the text in the PNG file


def picture_facts(figure):
    """{KEY: facts as JSON} for the metadata of a PNG file; empty unless COURSE_BUILD is set."""
    return {KEY: json.dumps(layout_facts(figure))} if os.environ.get("COURSE_BUILD") else {}


def layout_facts(figure):
    """inches (width, height), smallest font size in points, and the texts that are cut off, overlapping or faint."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = shown_texts(figure)
    return {
        "inches": [round(float(side), 2) for side in figure.get_size_inches()],
        "smallest": min((text.get_fontsize() for text in texts), default=None),
        "cut": cut_texts(figure, texts),
        "overlaps": overlaps(texts),
        "faint": faint_texts(texts, np.asarray(canvas.buffer_rgba())[::-1, :, :3]),
    }


def shown_texts(figure):
    """Every visible text. Tick labels outside the limits of their axis, or of an axis that is off, are not drawn."""
    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.majorTicks:  # also those that matplotlib keeps in reserve
            if not (axis.axes.axison and axis.get_visible() and low <= tick.get_loc() <= high):
                hidden |= {tick.label1, tick.label2}
    texts = figure.findobj(mpl.text.Text)
    return [text for text in texts if text.get_visible() and text.get_text().strip() and text not in hidden]


def cut_texts(figure, texts):
    """Texts that extend beyond the edge of the figure."""
    edge = figure.bbox.padded(1)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [text for text, box in boxes if box.x0 < edge.x0 or box.y0 < edge.y0 or box.x1 > edge.x1 or box.y1 > edge.y1]


def overlaps(texts):
    """Pairs of texts that overlap by more than a few pixels."""
    # Bounding boxes of slanted texts overlap even where the letters do not.
    upright = [text for text in texts if text.get_rotation() in (0, 90)]
    boxes = [(text.get_text(), text.get_tightbbox() or text.get_window_extent()) for text in upright]
    return [
        [first, second]
        for (first, a), (second, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 2 and min(a.y1, b.y1) - max(a.y0, b.y0) > 4
    ]


def faint_texts(texts, pixels):
    """(text, contrast) where the contrast with what is drawn around a text is below 4.5, or below 3 for large letters."""
    faint = []
    for text in texts:
        box = text.get_window_extent()
        left, bottom = max(int(box.x0) - 1, 0), max(int(box.y0) - 1, 0)
        area = pixels[bottom : int(box.y1) + 2, left : int(box.x1) + 2]
        if not area.size:
            continue
        edge = np.concatenate([area[0], area[-1], area[:, 0], area[:, -1]])
        shades, counts = np.unique(edge, axis=0, return_counts=True)
        ratio = contrast(text.get_color(), shades[counts.argmax()] / 255)
        bold = text.get_fontweight() in ("bold", 700)
        if ratio < (3 if text.get_fontsize() >= (14 if bold else 18) else 4.5):
            faint.append([text.get_text(), round(float(ratio), 1)])
    return faint


def contrast(first, second):
    """Contrast of two colors after WCAG 2: from 1, the same color, to 21, black and white."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def luminance(shade):
    """Relative luminance after WCAG 2."""
    rgb = np.array(to_rgb(shade))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)

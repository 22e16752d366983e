"""Layout of a drawn figure: its size, its smallest font, and what is cut off, overlapping, or faint on a light or dark page.

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
DARK_PAGE = "#111111"  # JupyterLab's; that of the site is #121212
# Inverted lightness with the same hue, as `invert(1) hue-rotate(180deg)` computes it, row by row for red, green and blue.
INVERT = np.array([[0.574, -1.43, -0.144], [-0.426, -0.43, -0.144], [-0.426, -1.43, 0.856]])


def picture_facts(figure):
    """{KEY: facts as JSON} for the metadata of a PNG file; empty unless COURSE_BUILD is set."""
    return {KEY: json.dumps(layout_facts(figure))} if os.environ.get("COURSE_BUILD") else {}


def layout_facts(figure):
    """inches (width, height), smallest font size in points, texts that are cut off or overlap, texts and lines that are faint."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = shown_texts(figure)
    return {
        "inches": [round(float(side), 2) for side in figure.get_size_inches()],
        "smallest": min(map(smallest_size, texts), default=None),
        "cut": cut_texts(figure, texts),
        "overlaps": overlaps(texts),
        "faint": faint_texts(texts, np.asarray(canvas.buffer_rgba())[::-1, :, :3]) + faint_lines(figure),
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


def smallest_size(text):
    """Font size in points; exponents and indices of a formula are smaller than the rest of it."""
    formula = text.get_parse_math() and text.get_text().count("$") > 1
    return text.get_fontsize() * (0.7 if formula and set("^_") & set(text.get_text()) else 1)


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
        ratio = contrast_on_pages(text.get_color(), shades[counts.argmax()] / 255)
        bold = text.get_fontweight() in ("bold", 700)
        if ratio < (3 if text.get_fontsize() >= (14 if bold else 18) else 4.5):
            faint.append([text.get_text(), round(float(ratio), 1)])
    return faint


def faint_lines(figure):
    """(name, contrast) of the lines with a name in the legend whose contrast with the page is below 3."""
    faint = {}
    for line in figure.findobj(mpl.lines.Line2D):
        shade = line.get_markeredgecolor() if line.get_linestyle() == "None" else line.get_color()
        if line.get_label() and not line.get_label().startswith("_"):
            faint[line.get_label()] = round(float(contrast_on_pages(shade, "white")), 1)
    return [[name, ratio] for name, ratio in faint.items() if ratio < 3]


def in_dark(shade, page=DARK_PAGE):
    """The color (3,) that a dark page shows for a color of a figure: inverted, then screened over the page's own color."""
    inverted = np.clip(1 + INVERT @ np.array(to_rgb(shade)), 0, 1)
    return 1 - (1 - inverted) * (1 - np.array(to_rgb(page)))


def contrast_on_pages(first, second):
    """The lower of the contrasts of two colors on a light and on a dark page."""
    return min(contrast(first, second), contrast(in_dark(first), in_dark(second)))


def contrast(first, second):
    """Contrast of two colors after WCAG 2: from 1, the same color, to 21, black and white."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def luminance(shade):
    """Relative luminance after WCAG 2."""
    rgb = np.array(to_rgb(shade))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)

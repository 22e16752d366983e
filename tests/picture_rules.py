"""What every picture of the course must keep to, whatever it shows."""

from itertools import combinations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch

from tests.test_draw_figures import cut_texts, drawn_texts, is_on_screen

SMALLEST = 11  # points
SLIDE = (12.5, 9.0)  # inches


def broken_rules(figure):
    """The rules that a drawn figure breaks, in words; an empty list if it keeps to all of them."""
    return [
        *(f"cut at the edge: {words!r}" for words in cut_texts(figure)),
        *(f"too small: {words!r}, {size:g} points" for words, size in small_texts(figure)),
        *(f"lie over each other: {one!r} and {other!r}" for one, other in overlaps(figure)),
        *(f"hard to read: {words!r}, contrast {ratio:.1f}" for words, ratio in faint_texts(figure)),
        *off_the_slide(figure),
    ]


def small_texts(figure):
    """Texts that nobody in the last row can read."""
    return [(text.get_text(), text.get_fontsize()) for text in drawn_texts(figure) if text.get_fontsize() < SMALLEST]


def lightness(shade):
    """Relative luminance after WCAG 2."""
    rgb = np.array(to_rgb(shade))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)


def contrast(one, other):
    """From 1, the same colour, to 21, black and white."""
    low, high = sorted((lightness(one), lightness(other)))
    return (high + 0.05) / (low + 0.05)


def faint_texts(figure):
    """Texts whose contrast with what is drawn around them is below 4.5 (3 for large ones)."""
    texts = [text for text in drawn_texts(figure) if is_on_screen(text)]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3]
    faint = []
    for text in texts:
        box = text.get_window_extent()
        left, bottom = max(int(box.x0) - 1, 0), max(int(box.y0) - 1, 0)
        area = pixels[bottom : int(box.y1) + 2, left : int(box.x1) + 2]
        if not area.size:
            continue
        edge = np.concatenate([area[0], area[-1], area[:, 0], area[:, -1]])
        shades, counts = np.unique(edge, axis=0, return_counts=True)
        large = text.get_fontsize() >= 18 or (text.get_fontsize() >= 14 and text.get_fontweight() in ("bold", 700))
        ratio = contrast(text.get_color(), shades[counts.argmax()] / 255)
        if ratio < (3 if large else 4.5):
            faint.append((text.get_text(), ratio))
    return faint


def overlaps(figure):
    """Pairs of texts that cover each other by more than a hair."""
    # Turned words have boxes that overlap although the letters do not.
    texts = [text for text in drawn_texts(figure) if is_on_screen(text) and text.get_rotation() in (0, 90)]
    boxes = [(text.get_text(), text.get_tightbbox() or text.get_window_extent()) for text in texts]
    return [
        (one, other)
        for (one, a), (other, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 2 and min(a.y1, b.y1) - max(a.y0, b.y0) > 4
    ]


def off_the_slide(figure):
    width, height = figure.get_size_inches()
    fits = width <= SLIDE[0] and height <= SLIDE[1]
    return [] if fits else [f"too large for a slide: {width:.1f} by {height:.1f} inches"]


def words_in_boxes(figure):
    """How many texts have their middle in a rounded box of the first axes, and those of them that stick out of it."""
    boxes = [patch.get_window_extent() for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    inside, sticking_out = 0, []
    for text in drawn_texts(figure):
        extent = text.get_window_extent()
        middle = ((extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2)
        for box in boxes:
            if box.contains(*middle):
                inside += 1
                if not (box.x0 + 3 < extent.x0 and extent.x1 < box.x1 - 3):
                    sticking_out.append(text.get_text())
    return inside, sticking_out

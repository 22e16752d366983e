"""What every picture of the course must keep to, whatever it shows."""

from utils.plots.layout import layout_facts
from utils.plots.style import DPI

COLUMN = 720  # px: the width of figures in JupyterLab in a window of 900 px; the browser tests measure it
SMALLEST = 12  # px, of the letters of a figure in that window
TALLEST = 9.0  # inches


def rules_broken_by(facts):
    """The rules that a picture with these facts (`utils.plots.layout`) breaks, in words."""
    height, pixels = facts["inches"][1], smallest_pixels(facts)
    return [
        *(f"cut at the edge: {words!r}" for words in facts["cut"]),
        *(f"texts overlap: {first!r} and {second!r}" for first, second in facts["overlaps"]),
        *(f"hard to read: {words!r}, contrast {ratio}" for words, ratio in facts["faint"]),
        *([f"too small: letters of {pixels:.1f} px"] if pixels < SMALLEST - 0.01 else []),
        *([f"too tall for a slide: {height} inches"] if height > TALLEST else []),
    ]


def smallest_pixels(facts):
    """Height of the smallest letters in px, in a window of 900 px, where figures wider than the column shrink to it."""
    return facts["smallest"] * DPI / 72 * min(1, COLUMN / (facts["inches"][0] * DPI))


def broken_rules(figure):
    """The rules that a figure breaks, in words; an empty list if it keeps to all of them."""
    return rules_broken_by(layout_facts(figure))

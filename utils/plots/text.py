"""Numbers as text, and text as something with a width."""

from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from utils.plots.style import FONT, as_array


def digits(numbers, decimals=2):
    """A row of numbers with a fixed number of decimals: "0.05 0.59 -0.01". Minus zero is zero."""
    return " ".join(f"{number + 0.0:.{decimals}f}" for number in as_array(numbers).round(decimals).reshape(-1))


@cache
def inches(text, size=FONT, weight="normal"):
    """How wide a line of text is, measured from the font itself."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] / 72


def shortened(text, most):
    """At most `most` characters; what is cut off is marked."""
    return text if len(text) <= most else text[: most - 1] + "…"

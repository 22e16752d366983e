"""Numbers as text, and the width of texts."""

from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from utils.plots.style import FONT, as_array


def digits(numbers, decimals=2):
    """A row of numbers with a fixed number of decimals: "0.05 0.59 -0.01". Minus zero is zero."""
    return " ".join(f"{number + 0.0:.{decimals}f}" for number in as_array(numbers).round(decimals).reshape(-1))


@cache
def inches(text, size=FONT, weight="normal"):
    """Width of a line of text, measured with the font."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] / 72


def shortened(text, max_characters):
    """The text, cut to at most `max_characters`, with an ellipsis if it was cut."""
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"

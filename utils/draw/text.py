"""Numbers as text."""

from utils.draw.style import as_array


def digits(numbers, decimals=2):
    """A row of numbers with a fixed number of decimals: "0.05 0.59 -0.01". Minus zero is zero."""
    return " ".join(f"{number + 0.0:.{decimals}f}" for number in as_array(numbers).round(decimals).reshape(-1))

"""Figure functions: arrays and strings in, a matplotlib figure out; `show` displays one with its alt text.

Knows nothing of models or notebooks. Importing it sets the course's figure style.
"""

from utils.plots.display import show
from utils.plots.style import figure_png, use_style

use_style()

__all__ = ["figure_png", "show"]

"""Figures and widgets: a pure function to a figure first, the widget around it second.

Takes arrays and strings and knows nothing of models or notebooks. Importing it sets the course's figure style.
"""

from utils.draw.attention_view import attention_view
from utils.draw.beam_tree import BeamTree, beam_picture, beam_tree
from utils.draw.explore import explore, log_range, menu
from utils.draw.figures import weights_bars
from utils.draw.fill_in import fill_in
from utils.draw.forms import show
from utils.draw.guess import guess_weights
from utils.draw.heads_view import heads_picture, heads_view
from utils.draw.mask_board import mask_board, mask_picture
from utils.draw.next_word import next_word
from utils.draw.plane import plane
from utils.draw.removal_board import removal_board
from utils.draw.stepper import stepper
from utils.draw.style import figure_png, use_style
from utils.draw.translate_watch import translate_watch

use_style()

__all__ = [
    "BeamTree",
    "attention_view",
    "beam_picture",
    "beam_tree",
    "explore",
    "figure_png",
    "fill_in",
    "guess_weights",
    "heads_picture",
    "heads_view",
    "log_range",
    "mask_board",
    "mask_picture",
    "menu",
    "next_word",
    "plane",
    "removal_board",
    "show",
    "stepper",
    "translate_watch",
    "weights_bars",
]

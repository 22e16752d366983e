"""Figures and widgets: a pure function to a figure first, the widget around it second.

Takes arrays and strings and knows nothing of models or notebooks. Importing it sets the course's figure style.
"""

from utils.draw.attention_view import AttentionView, attention_view
from utils.draw.beam_tree import BeamTree, beam_picture, beam_tree
from utils.draw.explore import Explore, explore, log_range, menu
from utils.draw.figures import attention_lines, bars, heat_map, weights_bars
from utils.draw.fill_in import FillIn, fill_in, fill_in_picture
from utils.draw.forms import ThreeForms, html_bundle, picture_bundle, show
from utils.draw.guess import GuessWeights, guess_weights
from utils.draw.heads_view import HeadsView, heads_picture, heads_view
from utils.draw.mask_board import MaskBoard, mask_board, mask_picture
from utils.draw.next_word import NextWord, next_word, next_word_picture
from utils.draw.plane import Plane, plane
from utils.draw.removal_board import RemovalBoard, removal_board, removal_picture
from utils.draw.stepper import Stepper, stepper
from utils.draw.style import COLOURS, SERIES, WEIGHTS_MAP, canvas, colour, figure_png, use_style
from utils.draw.translate_watch import TranslateWatch, translate_watch, watch_picture

use_style()

__all__ = [
    "COLOURS",
    "SERIES",
    "WEIGHTS_MAP",
    "AttentionView",
    "BeamTree",
    "Explore",
    "FillIn",
    "GuessWeights",
    "HeadsView",
    "MaskBoard",
    "NextWord",
    "Plane",
    "RemovalBoard",
    "Stepper",
    "ThreeForms",
    "TranslateWatch",
    "attention_lines",
    "attention_view",
    "bars",
    "beam_picture",
    "beam_tree",
    "canvas",
    "colour",
    "explore",
    "figure_png",
    "fill_in",
    "fill_in_picture",
    "guess_weights",
    "heads_picture",
    "heads_view",
    "heat_map",
    "html_bundle",
    "log_range",
    "mask_board",
    "mask_picture",
    "menu",
    "next_word",
    "next_word_picture",
    "picture_bundle",
    "plane",
    "removal_board",
    "removal_picture",
    "show",
    "stepper",
    "translate_watch",
    "use_style",
    "watch_picture",
    "weights_bars",
]

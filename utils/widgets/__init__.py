"""Widgets: interactive figures, each a pure function from state to picture or data and the wiring around it.

Take arrays, strings and functions and know nothing of models. `static/` holds their scripts and styles.
"""

from utils.widgets.attention_view import attention_view
from utils.widgets.beam_tree import BeamTree, beam_picture, beam_tree
from utils.widgets.explore import explore, log_range, menu
from utils.widgets.fill_in import fill_in
from utils.widgets.guess import guess_weights
from utils.widgets.heads_view import heads_picture, heads_view
from utils.widgets.mask_board import mask_board, mask_picture
from utils.widgets.next_word import next_word
from utils.widgets.plane import plane
from utils.widgets.qkv_stepper import qkv_stepper
from utils.widgets.removal_board import removal_board
from utils.widgets.stepper import stepper
from utils.widgets.translate_watch import translate_watch

__all__ = [
    "BeamTree",
    "attention_view",
    "beam_picture",
    "beam_tree",
    "explore",
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
    "qkv_stepper",
    "removal_board",
    "stepper",
    "translate_watch",
]

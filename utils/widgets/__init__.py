"""Widgets: interactive figures, each a pure function from state to picture or data and the wiring around it.

Take arrays, strings and functions and know nothing of models. `static/` holds their scripts and styles.
"""

from utils.widgets import charts, lesson_charts
from utils.widgets.ablation_board import ablation_board
from utils.widgets.attention_view import attention_view
from utils.widgets.base import ReaderError
from utils.widgets.beam import beam_tree
from utils.widgets.controls import log_range, menu
from utils.widgets.decoding import decoding_view
from utils.widgets.explore import explore
from utils.widgets.fill_in import fill_in
from utils.widgets.guess import guess_weights
from utils.widgets.mask_board import mask_board
from utils.widgets.next_token import next_token
from utils.widgets.open_transformer import open_transformer
from utils.widgets.plane import plane
from utils.widgets.qkv_stepper import qkv_stepper

__all__ = [
    "ReaderError",
    "ablation_board",
    "attention_view",
    "beam_tree",
    "charts",
    "decoding_view",
    "explore",
    "fill_in",
    "guess_weights",
    "lesson_charts",
    "log_range",
    "mask_board",
    "menu",
    "next_token",
    "open_transformer",
    "plane",
    "qkv_stepper",
]

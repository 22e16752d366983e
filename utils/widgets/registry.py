"""Every widget, by its module: browser tests, slides and site find them here.

A module has `example()`, a small widget to operate, and, where its script computes answers without Python, `samples()`: inputs at
which both must agree.
"""

from importlib import import_module

NAMES = (
    "ablation_board",
    "attention_view",
    "beam",
    "decoding",
    "explore",
    "feedback",
    "fill_in",
    "guess",
    "mask_board",
    "next_token",
    "open_transformer",
    "plane",
    "qkv_stepper",
    "quiz",
)
# By name: the package exports functions with the names of some modules.
MODULES = tuple(import_module(f"utils.widgets.{name}") for name in NAMES)

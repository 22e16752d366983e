"""Facts about the board that removes heads: every set of heads has its answer, words and picture, without a browser."""

import json
import sys

import numpy as np
import pytest
import torch

from utils import widgets
from utils.plots.layout import contrast

# The package exports a function with the name of this module.
board_module = sys.modules["utils.widgets.removal_board"]
WORTH = torch.tensor([[0.0, 0.3], [0.1, 0.2], [0.05, 0.25]])


def respond(head_mask):
    """Each head is worth a share of its own, on top of 0.1 that needs no head."""
    accuracy = 0.1 + (WORTH * head_mask).sum()
    return {"accuracy": accuracy, "detail": [("first", 3.14159, True), ("second", "a, b", False), ("third", 7, None)]}


def board(**options):
    return widgets.removal_board(respond, 3, 2, **{"chance": 0.0625, "effect": -WORTH, **options})


# State to answer


def test_the_answer_the_words_and_the_picture_follow_the_switches():
    widget, pictures = board(), set()
    for first, last in ((False, True), (True, False), (False, False)):
        widget.on = [[first, True], [True, True], [True, last]]  # as the page sends it
        now = widget.answer
        json.dumps(now, allow_nan=False)
        assert now["on"] == widget.on
        assert now["accuracy"] == pytest.approx(respond(torch.tensor(widget.on))["accuracy"].item())
        assert f"{100 * now['accuracy']:.1f} % right" in now["text"] and now["text"] in widget.alt_text()
        pictures.add(widget.static()[0]["image/png"])
    assert len(pictures) == 3 and widget.answer["count"] == 4


def test_the_words_say_what_is_ablated_and_how_far_the_accuracy_falls():
    said = {
        ((True, True),) * 3: "All 6 heads are on. 100.0 % right; chance: 6.2 %.",
        ((False, True), (True, True), (True, True)): (
            "1 of 6 heads is ablated: layer 1 head 1. 100.0 % right, as with all heads (100.0 %); chance: 6.2 %."
        ),
        ((True, False), (True, True), (False, True)): (
            "2 of 6 heads are ablated: layer 1 head 2, layer 3 head 1. 65.0 % right, 35.0 points below all heads "
            "(100.0 %); chance: 6.2 %."
        ),
        ((False, True), (False, False), (False, False)): (
            "Only layer 1 head 2 is on. 40.0 % right, 60.0 points below all heads (100.0 %); chance: 6.2 %."
        ),
    }
    widget = board()
    for on, words in said.items():
        widget.on = [list(row) for row in on]
        assert widget.answer["text"] == words
    better = board_module.what_is_left([[True, False]], 0.9, 0.8, 0.5, "right", "chance")
    assert better.startswith("1 of 2 heads is ablated: head 2. 90.0 % right, 10.0 points above all heads (80.0 %)")


# Colors


def test_a_larger_fall_is_a_stronger_red_and_a_rise_is_blue():
    faces, _ = board_module.effect_colors(np.array([[-0.4, -0.2, 0.0, 0.2]]))
    shades = [[int(face[at : at + 2], 16) for at in (1, 3, 5)] for face in faces[0]]
    assert shades[2] == [255, 255, 255]
    assert shades[0][2] < shades[1][2] < 255 and all(red > blue for red, _, blue in shades[:2])
    assert shades[3][2] > shades[3][0]


def test_letters_can_be_read_on_every_color():
    faces, inks = board_module.effect_colors(np.linspace(-1, 1, 101)[None])
    assert min(contrast(*pair) for pair in zip(faces[0], inks[0], strict=True)) >= 4.5


# The widget


def test_the_page_gets_the_words_on_every_tile():
    widget = board()
    texts = [[tile["text"] for tile in row] for row in widget.effects]
    assert texts == [["0.0", "−30.0"], ["−10.0", "−20.0"], ["−5.0", "−25.0"]]
    assert widget.said == {"full": "all heads 100.0 %", "chance": "chance 6.2 %"}
    json.dumps([widget.effects, widget.said, widget.on], allow_nan=False)

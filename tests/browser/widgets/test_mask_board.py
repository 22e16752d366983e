"""The mask board in a page: painting by drag and keys, and the numbers of Python."""

import numpy as np
import pytest

from tests.browser.operate import state_of
from tests.browser.widgets.stored import open_stored
from utils.widgets.mask_board import example


@pytest.fixture
def board(chromium):
    board = open_stored(chromium, example())
    yield board
    board.page.close()


def shown(board):
    """The numbers in the cells of the grid, and beside the outputs."""
    texts = (board.locator(f".course-mask-{kind}").all_text_contents() for kind in ("cell", "amount[data-output]"))
    return [[0 if text in ("", "none") else float(text.strip("<")) for text in row] for row in texts]


def test_a_drag_paints_every_cell_on_its_way_and_the_numbers_are_those_of_python(board):
    cells = board.locator(".course-mask-cell[role=checkbox]")
    ends = [cells.nth(index).bounding_box() for index in (1, 31)]  # "cat" as a key, from the first query to the last
    points = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in ends]
    board.page.mouse.move(*points[0])
    board.page.mouse.down()
    board.page.mouse.move(*points[1])
    board.page.mouse.up()
    mask = np.tri(6, dtype=bool)
    mask[:, 1] = True  # the first cell was masked, so the stroke allows
    assert state_of(board)["mask"] == mask.tolist()
    answer, (weights, changed) = example().respond(mask.tolist()), shown(board)
    assert weights[:36] == pytest.approx(np.ravel(answer["weights"][1]), abs=0.0101)
    assert changed == pytest.approx(answer["changed"][1], abs=0.00501)


def test_arrow_keys_move_and_space_toggles(board):
    board.locator("[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "End", " ", "Home", "Enter"):
        board.page.keyboard.press(key)
    mask = np.tri(6, dtype=bool)
    mask[1, 5], mask[1, 0] = True, False
    assert state_of(board)["mask"] == mask.tolist()

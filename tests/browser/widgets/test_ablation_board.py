"""The ablation board in a built page, where every answer is stored."""

from tests.browser.operate import look, state_of
from tests.browser.widgets.stored import open_stored
from utils.widgets.ablation_board import example


def test_a_built_page_answers_every_switch_with_the_numbers_of_python(chromium):
    board, widget = open_stored(chromium, example()), example()
    actions = [
        lambda: board.get_by_role("switch").nth(4).click(),
        lambda: board.get_by_role("button", name="layer 1").click(),
        lambda: board.get_by_role("switch").nth(1).press("Space"),
        lambda: board.get_by_role("button", name="all off").click(),
    ]
    for action in actions:
        action()
        answer = widget.respond(**state_of(board))
        assert look(board)["mode"] == "page"
        assert board.locator(".course-ablation-number").inner_text() == f"{100 * answer['accuracy']:.1f} %"
        assert [text.strip("✗ ") for text in board.locator(".course-ablation-card b").all_inner_texts()] == answer[
            "predictions"
        ]
    board.page.close()

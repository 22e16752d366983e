"""Masked tokens in a page without a kernel: the candidates stay explorable, the sentence is fixed."""

from tests.browser.operate import look, state_of
from tests.browser.widgets.stored import open_stored
from utils.widgets.fill_in import example


def test_the_candidate_under_pointer_or_keyboard_stands_in_the_sentence(chromium):
    widget = open_stored(chromium, example())
    slots = widget.locator(".course-fill-slot b")
    candidates = widget.get_by_role("radiogroup").nth(1).get_by_role("radio")
    assert look(widget)["mode"] == "frozen" and widget.locator("input").is_disabled()
    assert slots.all_inner_texts() == ["▁cat", "▁dog"]
    candidates.nth(2).hover()
    assert slots.all_inner_texts() == ["▁cat", "▁house"]
    widget.page.mouse.move(0, 0)
    assert slots.all_inner_texts() == ["▁cat", "▁dog"]
    candidates.nth(0).press("ArrowDown")
    assert slots.all_inner_texts() == ["▁cat", "▁bird"] and state_of(widget)["chosen"] == [0, 1]
    widget.page.close()

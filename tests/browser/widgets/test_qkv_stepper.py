"""The Q/K/V stepper in a page: each entry shows where it comes from, and everything follows a dragged embedding."""

import pytest
from playwright.sync_api import Locator

from tests.browser.operate import press
from utils.widgets.base import page_html, page_script, page_style
from utils.widgets.qkv_stepper import example


@pytest.fixture
def widget(chromium):
    page = chromium.new_page(viewport={"width": 1000, "height": 900})
    style, body = page_style({"qkv"}), page_html(example().page_state())
    page.set_content(f"<!doctype html><style>{style}</style>{body}<script>{page_script({'qkv'})}</script>")
    page.evaluate("() => startWidget(document.querySelector('.live-widget'))")
    yield page.locator(".course-qkv")
    page.close()


def numbers(widget: Locator, name: str) -> list[float]:
    texts = widget.locator(f"table[aria-label='{name}'] td").all_inner_texts()
    return [float(text.replace("−", "-").replace("∞", "inf")) for text in texts]


def product(widget: Locator) -> str:
    return "".join(widget.locator(".course-qkv-product").inner_text().split())


def test_pointing_at_an_entry_marks_its_row_and_column_and_writes_the_product(widget):
    widget.locator("table[aria-label=scores] td").nth(2).hover()  # query 1, key 3
    assert product(widget) == "q₁·k₃=2·1+0·2=2"
    marked = {
        kind: widget.locator(f"td.course-qkv-{kind}").evaluate_all(
            "cells => cells.map((cell) => [cell.closest('table').getAttribute('aria-label'), cell.parentElement.rowIndex])"
        )
        for kind in ("left", "right")
    }
    assert marked == {"left": [["Q", 0]] * 2, "right": [["K", 2]] * 2}


def test_keys_go_through_steps_and_entries(widget):
    steps = widget.get_by_role("group", name="steps")
    press(steps.get_by_role("button", name="Next"), "End")
    assert product(widget) == "weightsofq₁·column1ofV=0.446·1+0.108·3+0.446·4=2.554"
    press(widget.locator("td[tabindex='0']"), "ArrowRight")
    assert product(widget).endswith("=1.783")
    press(steps.get_by_role("button", name="Back"), "Home")
    assert widget.locator(".course-qkv-current").inner_text().startswith("X")


def test_a_moved_embedding_changes_every_step_and_the_mask_keeps_the_first_token_alone(widget):
    before = {name: numbers(widget, name) for name in ("Q", "K", "V", "scores", "scaled", "weights", "output")}
    third = widget.locator("[role=slider]").nth(2)
    press(third, "Shift+ArrowDown")
    after = {name: numbers(widget, name) for name in before}
    assert all(after[name] != before[name] for name in before)
    widget.get_by_label("causal mask").check()
    assert numbers(widget, "weights")[:3] == [1, 0, 0] and numbers(widget, "masked")[1] == float("-inf")
    first = numbers(widget, "output")[:2]
    press(third, "Shift+ArrowLeft")
    assert numbers(widget, "output")[:2] == first and numbers(widget, "output")[4:] != after["output"][4:]


def test_the_masked_scores_say_whether_there_is_a_mask(widget):
    masked = widget.locator(".course-qkv-matrix", has=widget.page.locator("table[aria-label=masked]"))
    assert "no mask" in masked.inner_text() and "causal" not in masked.inner_text()
    widget.get_by_role("checkbox", name="causal mask").check()
    assert "causal" in masked.inner_text() and "no mask" not in masked.inner_text()

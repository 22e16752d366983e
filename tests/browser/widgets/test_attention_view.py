"""The attention view in a page: its numbers are the weights, arrow keys move, and the selected head is beside the thumbnails."""

import json

import numpy as np
import pytest

from utils.widgets import attention_view
from utils.widgets.base import page_html, page_script, page_style

LENGTH = 40


@pytest.fixture
def page(chromium):
    scores = np.exp(np.random.default_rng(0).normal(0, 2, (3, 4, LENGTH, LENGTH)))
    weights = scores / scores.sum(-1, keepdims=True)
    widget = attention_view(weights, [f"t{index}" for index in range(LENGTH)], layer=1)
    page = chromium.new_page(viewport={"width": 1100, "height": 1000})
    page.weights = weights
    page.set_content(
        f"<style>{page_style({'attention'})}</style>{page_html(json.loads(json.dumps(widget.page_state())))}"
        f"<script>{page_script({'attention'})}</script>"
    )
    page.evaluate("() => startWidget(document.querySelector('.live-widget'))")
    page.wait_for_selector(".course-attention-token")
    yield page
    page.close()


def numbers(page, row):
    """The weights written beside the tokens of a row."""
    return page.locator(f".course-attention-{row} .course-attention-number").all_text_contents()


def written(weights):
    return ["<0.01" if weight < 0.005 else f"{weight:.2f}" for weight in weights.astype(np.float32)]


def test_the_numbers_of_a_token_are_its_weights_in_the_selected_head(page):
    page.locator(".course-attention-target rect").nth(3).hover()
    assert numbers(page, "source") == written(page.weights[1, 0, 3])
    page.locator(".course-attention-source rect").nth(5).hover()
    assert numbers(page, "target") == written(page.weights[1, 0, :, 5])
    page.get_by_role("radio", name="layer 3, head 2").click()
    page.keyboard.press("ArrowRight")
    assert page.locator(".course-attention-heading").inner_text() == "layer 3, head 3"
    page.keyboard.press("End")
    assert page.locator(".course-attention-heading").inner_text() == "layer 3, mean of 4 heads"
    page.locator(".course-attention-target rect").nth(3).hover()
    assert numbers(page, "source") == written(page.weights[2, :, 3].mean(0))


def test_arrow_keys_follow_tokens_and_reach_the_other_row(page):
    page.locator(".course-attention-target").nth(0).focus()
    for key, state in (
        ("ArrowDown", ["target", 1, "t1"]),
        ("ArrowRight", ["source", 1, "t1"]),
        ("End", ["source", LENGTH - 1, f"t{LENGTH - 1}"]),
        ("Escape", None),
    ):
        page.keyboard.press(key)
        assert json.loads(page.locator(".course-widget").get_attribute("data-state"))["focus"] == state


def test_the_selected_head_is_beside_the_thumbnails_unless_the_page_is_narrow(page):
    def places():
        return [page.locator(f".course-attention-{part}").bounding_box() for part in ("side", "panel")]

    side, panel = places()
    assert panel["x"] >= side["x"] + side["width"] and panel["y"] == side["y"]
    page.set_viewport_size({"width": 500, "height": 1000})
    page.wait_for_function("() => !document.querySelector('.course-attention-beside')")
    side, panel = places()
    assert panel["y"] >= side["y"] + side["height"]

"""The decoding view in a page: every number belongs to the step, layer and head on view, and nothing moves between steps."""

import numpy as np
import pytest

from utils.plots.lesson06 import MEAN, chosen_map
from utils.widgets import decoding_view
from utils.widgets.base import page_html, page_script, page_style

WORDS = [
    "the",
    "old",
    "king",
    "who",
    "sees",
    "the",
    "black",
    "dogs",
    "does",
    "not",
    "sleep",
    "while",
    "the",
    "small",
    "cats",
    "of",
    "the",
    "women",
    "run",
]
STEPS = 14


def respond(text):
    dice = np.random.default_rng(0)
    scores = np.exp(dice.normal(0, 2, (2, 3, STEPS, len(WORDS))))
    target = [f"mot{index}" for index in range(STEPS)]
    probabilities = np.sort(dice.dirichlet(np.ones(5), STEPS))[:, ::-1]
    return {
        "source": WORDS,
        "target": target,
        "candidates": [
            list(zip([target[index], *"abcd"], row, strict=True)) for index, row in enumerate(probabilities)
        ],
        "weights": scores / scores.sum(-1, keepdims=True),
        "sentence": " ".join(target),
    }


@pytest.fixture
def page(chromium):
    page = chromium.new_page(viewport={"width": 900, "height": 1000})
    state = decoding_view(respond, " ".join(WORDS), step=3, layer=1, head=2).page_state()
    page.set_content(
        f"<style>{page_style({'decoding'})}</style>{page_html(state)}<script>{page_script({'decoding'})}</script>"
    )
    page.evaluate("() => startWidget(document.querySelector('.live-widget'))")
    page.wait_for_selector(".course-widget[data-count='2']")
    yield page
    page.close()


def written(page):
    return page.locator(".course-decoding-weight").all_text_contents()


def expected(step, layer, head):
    row = chosen_map(respond("")["weights"].astype(np.float32), layer, head)[step]
    return ["" if weight < 0.005 else f"{weight:.2f}" for weight in row]


def test_weights_and_probabilities_are_those_of_the_step_the_layer_and_the_head(page):
    layer, head = page.locator("select").all()
    for step, choice in enumerate([(1, 2), (MEAN, 0), (0, MEAN), (MEAN, MEAN)]):
        layer.select_option(index=choice[0] + 1)
        head.select_option(index=choice[1] + 1)
        page.locator("input[type=range]").fill(str(step))
        assert written(page) == expected(step, *choice)
        probabilities = page.locator(".course-decoding-candidates output").all_text_contents()
        assert probabilities == [f"{probability:.3f}" for _, probability in respond("")["candidates"][step]]


def test_pointing_at_a_generated_token_shows_its_own_step_until_the_pointer_leaves(page):
    tokens = page.locator("button.course-decoding-token")
    tokens.nth(1).hover()
    assert written(page) == expected(1, 1, 2)
    tokens.nth(8).hover()  # not generated yet
    assert written(page) == expected(3, 1, 2)
    page.locator("span.course-decoding-token").nth(0).hover()
    assert written(page)[0] == f"{respond('')['weights'][1, 2, 3, 0]:.4f}"


def test_arrow_keys_home_and_end_step_from_the_generated_tokens(page):
    page.locator("button.course-decoding-token[tabindex='0']").focus()
    for key, step in (("ArrowLeft", 2), ("ArrowRight", 3), ("End", STEPS - 1), ("ArrowRight", STEPS - 1), ("Home", 0)):
        page.keyboard.press(key)
        assert written(page) == expected(step, 1, 2)


def test_play_goes_on_by_itself_and_pause_stops_it(page):
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => document.querySelector('output').textContent === 'step 6 of 14'")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(1200)
    assert page.locator("output").first.text_content() == "step 6 of 14"


def test_nothing_moves_between_steps(page):
    boxes = """() => [...document.querySelectorAll(".course-decoding-token, .course-decoding-candidates > *, .course-controls *, .course-decoding-walk *")]
        .map((element) => element.getBoundingClientRect()).map(({ x, y, height }) => [x, y, height])"""
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.locator("span.course-decoding-token").nth(0).hover()
    first = page.evaluate(boxes)
    for step in (0, 7, STEPS - 1):
        page.locator("input[type=range]").fill(str(step))
        page.locator("span.course-decoding-token").nth(step).hover()
        assert page.evaluate(boxes) == first


def test_without_a_kernel_the_text_is_frozen(page):
    assert page.locator("input[type=text]").is_disabled()
    assert page.get_by_role("button", name="Translate").is_disabled()

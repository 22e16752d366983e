"""The tree of a beam search in a page: its words are the nodes of Python, and pointer and keys follow a hypothesis."""

import pytest

from utils.widgets import beam_tree
from utils.widgets.base import page_html, page_script, page_style

STEPS = 12
LONG = "a very long sentence whose words do not fit into a menu that is as wide as a narrow page, so that it is cut off"


def respond(sentence, num_beams):
    """Hypothesis k of each step continues hypothesis 0, and the best one comes from the last hypothesis of step 1."""
    tree = []
    for step in range(STEPS):
        nodes = [
            (0 if step else -1, f"{sentence[0]}{step}.{rank}", -step - rank / 8, True, False)
            for rank in range(num_beams)
        ]
        tree.append([*nodes, (0 if step else -1, "rest", -step - 5.0, False, False)])
    tree[1][0] = (num_beams - 1, *tree[1][0][1:])
    return tree


@pytest.fixture
def page(chromium):
    page = chromium.new_page(viewport={"width": 900, "height": 1400})
    state = beam_tree(respond, ["short", LONG], num_beams=2).page_state()
    page.set_content(f"<style>{page_style({'beam'})}</style>{page_html(state)}<script>{page_script({'beam'})}</script>")
    page.evaluate("() => startWidget(document.querySelector('.live-widget'))")
    page.wait_for_selector(".course-widget[data-count='2']")
    yield page
    page.close()


def items(page):
    return page.locator("[role=treeitem]")


def test_each_sentence_and_width_shows_its_own_tree(page):
    page.get_by_role("button", name="3", exact=True).click()
    page.locator("select").select_option(index=1)
    assert items(page).count() == 1 + STEPS * 4
    words = items(page).locator(".course-beam-word").all_text_contents()
    numbers = items(page).locator(".course-beam-number").all_text_contents()
    assert words[1:5] == ["a0.0", "a0.1", "a0.2", "rest"] and numbers[:4] == ["0.00", "−0.13", "−0.25", "−5.00"]
    assert page.locator(".course-beam-sentence").text_content() == LONG


def test_the_menu_and_the_tree_fit_the_page_at_any_width(page):
    for width in (900, 1440, 600):
        page.set_viewport_size({"width": width, "height": 1400})
        page.wait_for_timeout(100)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert items(page).count() == 1 + STEPS * 3


def test_pointing_at_a_node_marks_its_hypothesis_back_to_the_start(page):
    items(page).nth(8).hover()  # the second node of step 3
    assert (
        page.get_by_role("status").text_content()
        == "Step 3: “s0.1 s1.0 s2.1”, log-probability −2.13; kept, number 2 of 3."
    )
    marked = page.locator("[role=treeitem].course-beam-path").locator(".course-beam-word").all_text_contents()
    assert marked == ["<bos>", "s0.1", "s1.0", "s2.1"]
    page.mouse.move(0, 0)
    assert page.get_by_role("status").text_content().startswith("Best hypothesis: “s0.1 s1.0")
    assert page.get_by_role("status").text_content().endswith("It did not lead at step 1.")


def test_arrow_keys_walk_the_tree_and_another_tree_begins_again(page):
    items(page).nth(0).focus()
    for key, start in (
        ("ArrowRight", "Step 1: “s0.1”"),
        ("ArrowUp", "Step 1: “s0.0”"),
        ("End", "Step 12: “s0.1"),
        ("ArrowLeft", "Step 11: "),
    ):
        page.keyboard.press(key)
        assert page.get_by_role("status").text_content().startswith(start)
    page.keyboard.press("Escape")
    assert page.get_by_role("status").text_content().startswith("Best hypothesis")
    page.keyboard.press("End")
    page.get_by_role("button", name="1", exact=True).click()
    assert page.get_by_role("status").text_content().startswith("Best hypothesis")

"""The open Transformer in a page: typing, decoding, opening a block, following a token, switching parts off, all by the stored model."""

import pytest
import torch

from tests.browser.lab import foreign_requests
from tests.browser.operate import look, retype, state_of, until
from utils.data.tokens import BOS_ID, EOS_ID
from utils.training.stored_translator import stored_translator
from utils.widgets.base import page_html, page_script, page_style
from utils.widgets.open_transformer import open_transformer

SENTENCE, TRANSLATION = "the old king does not sleep", "le vieux roi ne dort pas"


@pytest.fixture(scope="module")
def context(chromium):
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
    context.foreign = foreign_requests(context)
    yield context
    context.close()


@pytest.fixture
def page(context):
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    widget, names = open_transformer(text=SENTENCE), {"open_transformer"}
    page.set_content(
        f"<!doctype html><style>{page_style(names)}</style>{page_html(widget.page_state())}<script>{page_script(names)}</script>"
    )
    page.evaluate("() => startWidget(document.querySelector('.live-widget'))")
    yield page
    assert problems == [] and context.foreign == []
    page.close()


def widget(page):
    return page.locator(".course-widget")


def french(page):
    return page.locator(".course-open-words").inner_text()


def opened(page, name):
    """The panel, with the block of this name open."""
    page.get_by_role("button", name=name).click()
    panel = page.get_by_role("region", name="open block")
    assert name in panel.locator("h3").inner_text()
    return panel


def matrix(panel, name):
    return panel.get_by_role("application", name=f"{name}, ")


def cell(panel, name, row, column, rows, columns):
    """The place of an entry on the screen."""
    grid = matrix(panel, name)
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    return box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows


def test_a_typed_sentence_is_translated_and_decoded_step_by_step(page):
    assert french(page) == TRANSLATION
    retype(page.get_by_label("English sentence"), "The small black cat sleeps")
    assert french(page) == "le petit chat noir dort"
    page.get_by_role("button", name="Reset").click()
    assert french(page) == "nothing decoded yet"
    for expected in ("le …", "le petit …"):
        page.get_by_role("button", name="Step").click()
        assert french(page) == expected
    assert page.locator(".course-open-target-token:not(.course-open-future)").all_inner_texts() == ["<bos>", "le"]
    page.get_by_role("button", name="Back").click()
    assert page.locator(".course-open-said").inner_text() == "step 1 of 6"


def test_space_plays_and_pauses(page):
    page.get_by_role("button", name="Reset").click()
    page.locator(".course-open-source-token").first.focus()
    page.keyboard.press("Space")
    until(lambda: state_of(widget(page))["step"], lambda step: step >= 2, "it does not play")
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Play").is_visible()


def test_an_unknown_word_is_explained_and_a_suggestion_replaces_it(page):
    field = page.get_by_label("English sentence")
    retype(field, "the old kimg does not sleep")
    assert "kimg" in page.get_by_role("alert").filter(has_text="vocabulary").inner_text()
    assert french(page) == TRANSLATION and field.get_attribute("aria-invalid") == "true"
    page.get_by_role("button", name="use “king” instead of “kimg”").click()
    assert field.input_value() == SENTENCE and field.get_attribute("aria-invalid") == "false"
    retype(field, " ")
    assert "empty" in page.locator(".course-open-problem").inner_text()


def test_a_block_is_reached_and_opened_by_keyboard_and_nothing_jumps(page):
    stage = page.locator(".course-open-stage")
    before = stage.bounding_box()
    page.locator(".course-open-block[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    panel = page.get_by_role("region", name="open block")
    assert panel.locator("h3").inner_text() == "Decoder · layer 1 · cross-attention"
    assert stage.bounding_box() == before
    panel.get_by_role("button", name="block above").press("Enter")
    assert panel.locator("h3").inner_text() == "Decoder · layer 1 · feed-forward"
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    assert page.evaluate("() => document.activeElement.dataset.block") == "decoder.0.feed_forward"


def test_pointing_at_a_token_traces_it_in_every_layer(page):
    page.locator(".course-open-target-token", has_text="ne").hover()
    caption = page.locator(".course-open-caption")
    assert caption.inner_text().startswith("“ne” (predicts “dort”) attends most to “does”")
    assert page.locator(".course-open-row:visible").count() == 16  # a row in every head of the decoder
    page.locator(".course-open-source-token", has_text="not").hover()
    assert page.locator(".course-open-column:visible").count() == 16  # encoder self-attention and cross-attention
    page.mouse.move(0, 0)
    assert caption.inner_text().startswith("Point at a token")


def test_the_numbers_are_those_of_the_model_in_python(page):
    trained = stored_translator()
    source = torch.tensor([[*trained.english.encode(SENTENCE.split()), EOS_ID]])
    target = torch.tensor([[BOS_ID, *trained.french.encode(TRANSLATION.split())]])
    with torch.no_grad():
        weights = trained.model(source, None, target, need_weights=True)[1].cross[1][0, 3]
    panel = opened(page, "Decoder · layer 2 · cross-attention")
    panel.get_by_role("button", name="head 4").click()
    row, column = divmod(int(weights.argmax()), weights.size(1))
    page.mouse.move(*cell(panel, "weights", row, column, *weights.shape))
    assert f"= {weights.max():.3f}" in panel.get_by_role("status").inner_text()
    matrix(panel, "weights").focus()
    page.keyboard.press("ArrowDown")
    assert f"= {weights[1, 0]:.3f}" in panel.get_by_role("status").inner_text()


def test_masked_scores_of_the_causal_mask_say_why(page):
    panel = opened(page, "Decoder · layer 1 · causal self-attention")
    page.mouse.move(*cell(panel, "causal mask", 1, 4, 7, 7))
    assert "“ne” comes later" in panel.get_by_role("status").inner_text()
    assert page.locator(".course-open-chosen.course-open-target-token").all_inner_texts() == ["le", "ne"]


def test_a_cut_link_changes_the_translation_and_a_second_click_restores_it(page):
    panel = opened(page, "Decoder · layer 2 · cross-attention")
    for expected in ("le vieux roi ne dorment pas", TRANSLATION):
        page.mouse.click(*cell(panel, "weights", 4, 3, 7, 7))  # ne attends to does
        assert french(page) == expected
    page.mouse.click(*cell(panel, "weights", 4, 3, 7, 7))
    assert page.locator(".course-open-words ins").all_inner_texts() == ["dorment"]
    assert page.locator(".course-open-compared del").all_inner_texts() == ["dort"]
    page.keyboard.press("Escape")
    page.get_by_role("button", name="restore the link").click()
    assert french(page) == TRANSLATION


def test_a_head_is_switched_off_in_its_block(page):
    retype(page.get_by_label("English sentence"), "the kings who see the queen are tired")
    panel = opened(page, "Decoder · layer 2 · causal self-attention")
    panel.get_by_role("button", name="head 2").click()
    panel.get_by_role("checkbox", name="head 2 on").uncheck()
    assert french(page).endswith("sont fatiguées")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="All on").click()
    assert french(page).endswith("sont fatigués")


def test_every_example_that_switches_something_off_breaks_the_translation(page):
    menu = page.get_by_label("examples")
    labels = menu.locator("option").all_inner_texts()
    tried = [index for index, label in enumerate(labels) if label.startswith("Try")]
    assert len(tried) >= 5
    for index in tried:
        menu.select_option(index=index)
        assert page.locator(".course-open :is(ins, del)").count() > 0, labels[index]
        assert menu.input_value() == str(index - 1)


def test_beam_search_shows_its_hypotheses_and_the_diagram_the_best(page):
    page.get_by_label("greedy or beam search").select_option("3")
    panel = page.get_by_role("region", name="open block")
    first, *rest = panel.locator("li").all_inner_texts()
    assert first.startswith(f"{TRANSLATION} <eos>") and len(rest) == 2
    page.keyboard.press("Escape")
    assert french(page) == TRANSLATION


def test_it_fits_a_slide_and_a_narrow_page(page):
    retype(page.get_by_label("English sentence"), "the old king does not see the black horse")
    assert page.evaluate("() => document.documentElement.scrollHeight") <= 720
    for width in (1920, 900):
        page.set_viewport_size({"width": width, "height": 720})
        page.wait_for_timeout(100)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert look(widget(page))["error"] == ""

"""Every kind of widget in a real JupyterLab: it answers pointer and keyboard, and shows the numbers that Python gives."""

import json
import os
import statistics

import pytest
import torch

from tests.browser import gallery
from tests.browser.contrast import unreadable
from tests.browser.lab import errors
from tests.browser.operate import OUTPUTS, act, look, operate, picture_of, press, retype, settle, stage_of, until
from tests.browser.reach import nameless, unreachable

# A shared machine gets a generous bound; COURSE_TIMING=1, on a quiet one, asks for what the course promises.
SECONDS_TO_PICTURE = 0.25 if os.environ.get("COURSE_TIMING") == "1" else 1.0
SMALLEST_LETTERS = 14  # pixels


class Ran:
    """The gallery after all cells have run."""

    def __init__(self, notebook, cells):
        self.notebook, self.page, self.cells = notebook, notebook.page, cells

    def widget(self, kind, index=0):
        found = self.page.locator(f"{OUTPUTS} .course-{kind}").nth(index)
        found.scroll_into_view_if_needed()
        return found


@pytest.fixture(scope="module")
def ran(lab, chromium, tmp_path_factory):
    path = gallery.write(tmp_path_factory.mktemp("gallery") / "gallery.ipynb")
    notebook = lab.open(chromium, lab.add(path))
    yield Ran(notebook, notebook.run_all())
    notebook.close()


@pytest.fixture(scope="module")
def operated(ran):
    assert errors(ran.cells) == []
    return operate(ran.notebook, most=1)


def test_every_control_answers_pointer_and_keyboard(ran, operated):
    assert operated.problems == []
    assert errors(ran.notebook.cells()) == []
    kinds = "explore stepper plane mask attention heads removal translate beamtree fillin nextword guess quiz result"
    assert operated.widgets == dict.fromkeys(kinds.split(), 1) | {"mask": 2, "heads": 3}


def test_from_control_to_new_picture_in_time(operated):
    by_kind = {}
    for what, seconds in operated.changes:
        by_kind.setdefault(what.split()[0], []).append(seconds)
    medians = {kind: statistics.median(times) for kind, times in by_kind.items()}
    assert {kind: median for kind, median in medians.items() if median > SECONDS_TO_PICTURE} == {}


def test_tab_reaches_every_control_and_each_has_a_name(ran, operated):
    stops, problems = unreachable(ran.notebook)
    assert problems == [] and stops > 40
    assert nameless(ran.notebook) == []


# What brings the beginning back


def test_reset_brings_back_the_first_picture(ran):
    widget = ran.widget("explore")
    reset = widget.get_by_role("button", name="Reset")
    reset.click()
    settle(widget)
    first = picture_of(widget)
    act(widget, "a slider", lambda: press(widget.locator(".noUi-handle").first, "ArrowRight"))
    assert picture_of(widget) != first
    act(widget, "Reset", reset.click)
    until(lambda: picture_of(widget), lambda now: now == first, "Reset did not bring back the first picture")


def test_a_stepper_goes_by_button_slider_and_key_and_stops_at_its_ends(ran):
    widget = ran.widget("stepper")
    back, on = (widget.get_by_role("button", name=name) for name in ("Previous", "Next"))
    press(stage_of(widget), "Home")
    settle(widget)
    pictures = [picture_of(widget)]
    assert back.is_disabled()
    slider, stage = widget.locator(".noUi-handle"), stage_of(widget)
    ways = (on.click, lambda: press(slider, "ArrowRight"), lambda: press(stage, "End"))
    for step, action in enumerate(ways, 1):
        assert json.loads(act(widget, f"step {step}", action)["state"])["step"] == step
        settle(widget)
        pictures.append(picture_of(widget))
    until(on.is_disabled, bool, "Next can be pressed at the last step")
    for step, action in ((2, back.click), (1, lambda: press(stage_of(widget), "ArrowLeft"))):
        assert json.loads(act(widget, f"back to {step}", action)["state"])["step"] == step
    settle(widget)
    assert len(set(pictures)) == 4 and picture_of(widget) == pictures[1]


# The mask board


def said(weight: float) -> str:
    return "0" if weight == 0 else "<0.01" if weight < 0.005 else f"{weight:.2f}"


def cell_of(board, row, column):
    return board.locator(f".course-cell[data-row='{row}'][data-column='{column}']")


def preset(board, name):
    button = board.get_by_role("button", name=name, exact=True)
    if button.get_attribute("aria-pressed") != "true":
        act(board, f"the preset {name!r}", button.click)


def texts(widget, selector) -> list[str]:
    return widget.locator(selector).evaluate_all("all => all.map((one) => one.textContent)")


def expect_mask(board, mask):
    """The page shows the mask, and the weights and changes that Python's own attention gives for it."""
    settle(board)
    answer = gallery.masked_layer(gallery.TOKENS)(mask)
    assert json.loads(look(board)["state"])["mask"] == ["".join(str(int(may)) for may in row) for row in mask]
    may, weights = mask.flatten().tolist(), answer["weights"].flatten().tolist()
    assert texts(board, ".course-mask-weight") == [said(w) if m else "" for m, w in zip(may, weights, strict=True)]
    assert [tick == "✓" for tick in texts(board, ".course-mask-tick")] == may
    changed = [f"◆ changed {change:.2f}" if change > 1e-6 else "= same" for change in answer["changed"].tolist()]
    assert texts(board, ".course-mask-output > span") == changed


def test_a_row_painted_empty_attends_nowhere_and_a_click_changes_one_row_alone(ran):
    board = ran.widget("mask")
    preset(board, "causal")
    cell_of(board, 2, 0).scroll_into_view_if_needed()
    start, end = (cell_of(board, 2, column).bounding_box() for column in (0, 6))

    def drag():
        ran.page.mouse.move(start["x"] + 9, start["y"] + 9)
        ran.page.mouse.down()
        ran.page.mouse.move(end["x"] + 9, end["y"] + 9)  # in one jump: what lies between is painted all the same
        ran.page.mouse.up()

    act(board, "dragging along a row", drag)
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    mask[2] = False
    expect_mask(board, mask)
    assert [bool(words) for words in texts(board, ".course-mask-output > small")] == [row == 2 for row in range(7)]
    preset(board, "everything")
    act(board, "a click", cell_of(board, 3, 5).click)
    settle(board)
    changed = [words != "= same" for words in texts(board, ".course-mask-output > span")]
    assert changed == [row == 3 for row in range(7)]


def test_a_mask_is_drawn_by_keyboard_alone(ran):
    board = ran.widget("mask")
    preset(board, "only itself")
    keyboard = ran.page.keyboard
    cell_of(board, 0, 0).focus()
    where = "() => [document.activeElement.dataset.row, document.activeElement.dataset.column].map(Number)"
    for key, place in (
        ("ArrowLeft", [0, 0]),
        ("End", [0, 6]),
        ("ArrowRight", [0, 6]),
        ("ArrowDown", [1, 6]),
        ("Home", [1, 0]),
    ):
        keyboard.press(key)
        assert ran.page.evaluate(where) == place
    mask = torch.eye(7, dtype=torch.bool)
    for row, key in ((1, "Space"), (2, "Enter")):
        act(board, key, lambda key=key: keyboard.press(key))
        keyboard.press("ArrowDown")
        mask[row, 0] = True
    expect_mask(board, mask)
    assert ran.page.evaluate(where) == [3, 0], "a toggle must not take the keyboard's place away"


# All heads, and heads removed


def test_the_maps_say_where_every_head_attends_most_and_the_enlarged_one_has_every_weight(ran):
    view = ran.widget("heads")
    stack = gallery.attention_stack(gallery.TOKENS, causal=True)
    for token in (0, 6):
        view.locator(f".course-heads-word[data-index='{token}']").hover()
        until(
            lambda: json.loads(look(view)["state"])["token"], lambda now, t=token: now == t, "pointing follows nothing"
        )
        captions = zip(texts(view, ".course-heads-token"), texts(view, ".course-heads-number"), strict=True)
        for row, (word, number) in zip(stack.flatten(0, 1)[:, token], captions, strict=True):
            if word == "evenly":
                assert number == "" and row.max() <= 1.5 / (row > 0).sum()
            else:
                assert (word, number) == (gallery.TOKENS[row.argmax()], said(row.max().item()))
    view = ran.widget("heads", 1)
    act(view, "a map", view.locator(".course-heads-map[data-layer='2'][data-head='1']").click)
    weights = gallery.attention_stack(gallery.TARGET, gallery.SOURCE)[2, 1].flatten().tolist()
    assert texts(view, ".course-heads-panel svg text") == [*gallery.SOURCE, *gallery.TARGET, *map(said, weights)]
    act(view, "close", view.get_by_role("button", name="close").click)
    assert view.locator(".course-heads-map:focus").count() == 1


def test_a_removed_head_leaves_the_accuracy_that_python_gives_without_it(ran):
    respond, _ = gallery.removable_heads()
    board = ran.widget("removal")
    if "0" in "".join(json.loads(look(board)["state"])["on"]):
        act(board, "all on", board.get_by_role("button", name="all on", exact=True).click)
    act(board, "a click", board.locator(".course-removal-tile[data-layer='1'][data-head='2']").click)
    settle(board)
    on = torch.ones(3, 4, dtype=torch.bool)
    on[1, 2] = False
    answer = respond(on)
    assert json.loads(look(board)["state"])["accuracy"] == pytest.approx(answer["accuracy"].item(), abs=1e-6)
    assert texts(board, ".course-removal-percent")[0] == f"{100 * answer['accuracy']:.1f} %"
    rows = [f"{'✓' if ok else '✗'}{label}{text}" for label, text, ok in answer["detail"]]
    assert texts(board, ".course-removal-detail li") == rows


# Decoding, masked tokens, the next token


def test_the_beam_tree_has_the_nodes_and_the_scores_that_the_search_gave(ran):
    _, search = gallery.small_translator()
    widget = ran.widget("beamtree")
    widget.locator("select").select_option(index=0)
    settle(widget)
    if json.loads(look(widget)["state"])["width"] != 3:
        act(widget, "the button 3", widget.get_by_role("button", name="width 3", exact=True).click)
    settle(widget)
    tree = search("the black cat sleeps", 3)["tree"]
    drawn = [node for step in tree for node in step[: sum(node.kept for node in step) + 3]]
    assert texts(widget, ".course-beam-word") == [
        "start",
        *("ended" if n.token_id is None else n.token_id for n in drawn),
    ]
    assert texts(widget, ".course-beam-score")[-len(drawn) :] == [f"{n.score:.2f}".replace("-", "−") for n in drawn]
    kinds = widget.locator(".course-beam-node").evaluate_all(
        "all => all.map((e) => e.classList.contains('course-beam-dropped'))"
    )
    assert kinds[1:] == [not node.kept for node in drawn]


def test_the_texts_are_what_the_models_predict(ran):
    fill, tokens, _ = gallery.small_language()
    widget = ran.widget("fillin")
    field = widget.locator("input[type=text]")
    act(widget, "two masked tokens", lambda: (retype(field, "the __ cat [mask]"), press(field, "Enter")))
    best = [candidates[0][0] for candidates in fill("the [MASK] cat [MASK]")["candidates"]]
    assert texts(widget, ".course-text")[0] == f"the {best[0]} cat {best[1]}"
    widget = ran.widget("translate")
    field = widget.locator("input[type=text]")
    act(widget, "another sentence", lambda: (retype(field, "the old cat sleeps"), press(field, "Enter")))
    assert texts(widget, ".course-text")[0].startswith("the old cat sleeps → ")
    widget = ran.widget("nextword")
    act(widget, "Next", widget.get_by_role("button", name="Next").click)
    beginning, text = widget.locator("input[type=text]").input_value(), texts(widget, ".course-text")[0]
    assert text.removeprefix(f"{beginning} ") in [word.strip("▁") for word in tokens]


# How it looks


@pytest.mark.parametrize(("kind", "index", "pointed"), [("mask", 1, "cell"), ("heads", 2, "heads-word")])
def test_the_largest_widgets_stay_inside_the_page_in_letters_that_can_be_read_and_do_not_move(
    ran, kind, index, pointed
):
    widget = ran.widget(kind, index)
    for part in widget.locator(f".course-{kind}-scroll, .course-{kind}-root").all():
        full, seen = part.evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert full <= seen + 1, f"{kind} must be scrolled sideways: {full} of {seen} pixels"
    sizes = "all => all.map((t) => parseFloat(getComputedStyle(t).fontSize))"
    assert min(widget.locator("span, small, text, button, p").evaluate_all(sizes)) >= SMALLEST_LETTERS
    heights, parts = set(), widget.locator(f".course-{pointed}")
    for place in (parts.first, parts.last, ran.page.locator("#jp-main-statusbar")):
        place.hover()
        heights.add(widget.evaluate("e => e.getBoundingClientRect().height"))
    assert len(heights) == 1, "a click on what stands below would miss it"


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_widget_can_be_read_in_either_theme(ran, theme, pictures):
    ran.notebook.theme(theme)
    for widget in ran.page.locator(f"{OUTPUTS} .course-widget").all():  # with something chosen
        if (part := widget.locator("[class*='course-'][tabindex='0']:visible")).count():
            part.first.focus()
    if pictures:
        ran.notebook.screenshots(pictures / "gallery", f"{theme}_")
    assert unreadable(ran.notebook) == []


# Last in the file, so that it has seen everything above.
def test_the_gallery_asks_nothing_of_another_host_and_its_scripts_make_no_mistake(ran):
    assert ran.notebook.foreign == []
    assert ran.notebook.mistakes == []

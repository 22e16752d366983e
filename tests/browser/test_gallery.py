"""Every kind of widget in a real JupyterLab, before a lesson relies on it: by pointer, by keyboard, in both themes."""

import os

import pytest
import torch

from tests.browser import gallery, lessons
from tests.browser.contrast import unreadable
from tests.browser.lab import errors
from tests.browser.widgets import (
    WAIT,
    act,
    attention_shown,
    beam_shown,
    cell_of,
    change,
    heads_shown,
    map_of,
    mask_shown,
    node_of,
    operate_all,
    picture_of,
    press,
    refuse,
    removal_shown,
    retype,
    settle,
    tab_through,
    tile_of,
    token_of,
    usual_time,
    word_of,
)
from utils.draw.attention_view import colour_steps

# A shared machine gets a generous bound; COURSE_TIMING=1, on a quiet one, asks for what the course promises.
KEY_TO_PICTURE_MS = 250 if os.environ.get("COURSE_TIMING") == "1" else 1000
CAUSAL, CROSS, BLIND, MANY = range(4)  # the attention views in the order of the gallery


class Ran:
    """The gallery after Run All Cells."""

    def __init__(self, path, page, cells):
        self.path, self.page, self.cells = path, page, cells

    def widget(self, kind, index=0):
        found = self.page.page.locator(f".jp-OutputArea-output .course-{kind}").nth(index)
        found.scroll_into_view_if_needed()
        return found


@pytest.fixture(scope="module")
def ran(lab, chromium, tmp_path_factory):
    path = gallery.write(tmp_path_factory.mktemp("gallery") / "gallery.ipynb")
    page = lab.open(chromium, lab.add(path))
    try:
        yield Ran(path, page, page.run_all())
    finally:
        page.close()


def test_the_gallery_runs_to_its_end_without_an_error(ran):
    assert errors(ran.cells) == []
    assert all(cell["count"] for cell in ran.cells)
    counts = lessons.called_widgets(ran.path)
    assert all(counts.values()), f"a kind of widget is missing from the gallery: {counts}"


# Needs widgets that nobody has touched yet


def test_cross_attention_shows_one_number_for_each_token_of_the_other_row(ran):
    weights = gallery.attention_stack(gallery.TARGET, gallery.SOURCE)[0][0, 0]
    view = ran.widget("attention", CROSS)
    shown = attention_shown(view)
    assert (shown["row"], shown["index"]) == ("target", 2)  # chosen from the start
    assert shown["source"] == [said(weight) for weight in weights[2].tolist()]
    token_of(view, "source", 3).hover()
    assert attention_shown(view)["target"] == [said(weight) for weight in weights[:, 3].tolist()]
    assert "“dort” is looked at by: " in attention_shown(view)["sentence"]


def test_every_widget_changes_what_it_shows_when_it_is_operated(ran):
    assert operate_all(ran.page) == lessons.called_widgets(ran.path)
    assert errors(ran.page.cells()) == []


# What attention views say


def said(weight: float) -> str:
    return "0" if weight == 0 else "<0.01" if weight < 0.005 else f"{weight:.2f}"


def test_pointing_at_a_token_shows_the_weights_that_attention_gave(ran):
    """Every target and every source of a causal head; the output is these weights times the values."""
    weights, value, output = gallery.attention_stack(gallery.TOKENS, causal=True)
    assert torch.allclose(weights @ value, output, atol=1e-6)
    view = ran.widget("attention", CAUSAL)
    view.locator(".course-map").first.click()
    shown_weights = weights[0, 0]
    for index, token in enumerate(gallery.TOKENS):
        token_of(view, "target", index).hover()
        shown = attention_shown(view)
        assert shown["source"] == [said(weight) for weight in shown_weights[index].tolist()]
        assert shown["target"] == [""] * len(gallery.TOKENS)
        assert shown["sentence"].startswith(f"“{token}")
        token_of(view, "source", index).hover()
        shown = attention_shown(view)
        assert shown["target"] == [said(weight) for weight in shown_weights[:, index].tolist()]
    ahead = len(gallery.TOKENS) - 1
    assert shown["target"] == ["0"] * ahead + [said(shown_weights[-1, -1].item())]  # nobody looks ahead


@pytest.mark.parametrize("layer", range(gallery.LAYERS))
def test_every_layer_and_head_and_their_mean_show_their_own_weights(ran, layer):
    weights = gallery.attention_stack(gallery.TOKENS, causal=True)[0][layer]
    view = ran.widget("attention", CAUSAL)
    layers, heads = view.locator(".course-choice select").all()
    layers.select_option(value=str(layer))
    token_of(view, "target", 5).focus()
    for head in (*range(gallery.HEADS), -1):
        heads.select_option(value=str(head))
        expected = weights.mean(0) if head == -1 else weights[head]
        shown = attention_shown(view)
        assert (shown["layer"], shown["head"]) == (layer, head)
        assert shown["source"] == [said(weight) for weight in expected[5].tolist()]
        lit = view.locator(".course-map-on").evaluate_all("all => all.map((one) => one.ariaLabel)")
        chosen = range(gallery.HEADS) if head == -1 else [head]
        assert lit == [f"layer {layer + 1}, head {one + 1}" for one in chosen]


def test_a_small_map_chooses_the_layer_and_head_that_it_shows(ran):
    weights = gallery.attention_stack(gallery.TOKENS, causal=True)[0]
    view = ran.widget("attention", CAUSAL)
    token_of(view, "target", 3).focus()
    for layer, head in ((2, 1), (0, 3), (1, 0)):
        act(view, "a small map", view.locator(".course-map").nth(layer * gallery.HEADS + head).click)
        assert attention_shown(view)["source"] == [said(weight) for weight in weights[layer, head, 3].tolist()]


def test_a_small_map_has_the_colours_of_its_weights(ran):
    weights = gallery.attention_stack(gallery.TOKENS, causal=True)[0].flatten(0, 1).flatten(1).tolist()
    colours = colour_steps()
    expected = [[colours[round(weight**0.5 * (len(colours) - 1))] for weight in one] for one in weights]
    maps = ran.widget("attention", CAUSAL).locator(".course-map canvas")
    painted = maps.evaluate_all(
        """all => all.map((one) => {
            const data = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
            const hex = (at) => "#" + [0, 1, 2].map((k) => data[at + k].toString(16).padStart(2, "0")).join("");
            return Array.from({length: data.length / 4}, (_, pixel) => hex(4 * pixel));
        })"""
    )
    assert painted == expected


def test_a_token_that_looks_nowhere_says_so_and_a_tiny_weight_is_not_called_zero(ran):
    weights = gallery.padded_attention(gallery.LONG, blind=2)[0]
    view = ran.widget("attention", BLIND)
    token_of(view, "target", 2).hover()
    shown = attention_shown(view)
    assert shown["sentence"] == "“and” looks nowhere: all its weights are 0." and shown["source"] == ["0"] * 6
    assert view.locator(".course-beam line").count() == 0
    token_of(view, "target", 0).hover()
    shown = attention_shown(view)
    assert shown["source"] == [said(weight) for weight in weights[0].tolist()] and "<0.01" in shown["source"]
    assert gallery.LONG[0] in shown["sentence"], "a token that is cut in the picture is whole in the sentence"


def test_forty_tokens_stay_inside_the_page_and_follow_the_pointer(ran):
    weights = gallery.attention_stack(gallery.MANY, causal=True)[0][0, 0]
    view = ran.widget("attention", MANY)
    inside = "e => [e.scrollWidth, e.clientWidth]"
    for part in (".course-scroll", ".course-attention-root"):
        full, seen = view.locator(part).evaluate(inside)
        assert full <= seen + 1, f"{part} must be scrolled sideways: {full} of {seen} pixels"
    view.locator(".course-map").first.click()
    token_of(view, "target", 39).hover()
    shown = attention_shown(view)
    assert shown["source"] == [said(weight) for weight in weights[39].tolist()]
    assert view.locator(".course-beam line").count() == (weights[39] >= 0.004).sum()
    smallest = view.locator("text").evaluate_all(
        "all => Math.min(...all.map((t) => parseFloat(getComputedStyle(t).fontSize)))"
    )
    assert smallest >= 14


def test_long_rows_turn_into_columns_and_back_as_the_page_changes_its_width(ran):
    view = ran.widget("attention", CAUSAL)
    token_of(view, "target", 1).focus()
    assert view.locator(".course-across").count() == 1
    try:
        ran.page.page.set_viewport_size({"width": 760, "height": 900})
        view.locator(".course-down").wait_for(timeout=WAIT * 1000)
        assert attention_shown(view)["index"] == 1 and view.locator(".course-chosen:focus").count() == 1
    finally:
        ran.page.page.set_viewport_size({"width": 1280, "height": 900})
    view.locator(".course-across").wait_for(timeout=WAIT * 1000)


# What mask boards say


def expect_answer(shown, mask):
    """The page shows the weights and the changes that Python's own attention gives for this mask."""
    answer = gallery.masked_layer(gallery.TOKENS)(mask)
    assert shown["mask"] == ["".join(str(int(look)) for look in row) for row in mask]
    weights = [
        ["" if not look else said(w) for look, w in zip(*rows, strict=True)]
        for rows in zip(mask.tolist(), answer["weights"].tolist(), strict=True)
    ]
    assert shown["numbers"] == weights
    moved = answer["changed"].tolist()
    assert shown["outputs"] == [f"◆ changed {one:.2f}" if one > 1e-6 else "= same" for one in moved]


def preset(board, name):
    button = board.get_by_role("button", name=name, exact=True)
    if button.get_attribute("aria-pressed") != "true":
        act(board, f"the preset {name!r}", button.click)


def test_clicking_a_cell_changes_the_output_of_its_row_alone(ran):
    board = ran.widget("mask")
    preset(board, "everything")
    assert mask_shown(board)["outputs"] == ["= same"] * len(gallery.TOKENS)
    act(board, "a click", cell_of(board, 3, 5).click)
    shown = mask_shown(board)
    mask = torch.ones(7, 7, dtype=torch.bool)
    mask[3, 5] = False
    expect_answer(shown, mask)
    assert [words != "= same" for words in shown["outputs"]] == [row == 3 for row in range(7)]
    assert "1 of 7 outputs change: on." in shown["summary"] and shown["pressed"] == []
    assert shown["detail"] == "“on” may not look at “mat”: weight 0. The output of “on” has changed."


def test_a_row_that_is_painted_empty_looks_nowhere(ran):
    board = ran.widget("mask")
    preset(board, "causal")
    mouse = ran.page.page.mouse
    cell_of(board, 2, 0).scroll_into_view_if_needed()
    start, end = (cell_of(board, 2, column).bounding_box() for column in (0, 6))

    def drag():
        mouse.move(start["x"] + 9, start["y"] + 9)
        mouse.down()
        mouse.move(end["x"] + 9, end["y"] + 9)  # in one jump: what lies between is painted all the same
        mouse.up()

    act(board, "dragging along a row", drag)
    settle(board)
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    mask[2] = False
    shown = mask_shown(board)
    expect_answer(shown, mask)
    assert shown["nowhere"] == ["", "", "looks nowhere", "", "", "", ""]
    assert shown["detail"] == "“sat” looks nowhere: all its weights are 0."
    assert board.locator(".course-cell.course-mask-blind").count() == 7
    assert board.locator(".course-mask-node.course-mask-blind").count() == 1


def test_a_mask_is_drawn_by_keyboard_alone(ran):
    """The strictly lower triangle, cell by cell: arrow keys move and stop at the edge, Space and Enter toggle."""
    board = ran.widget("mask")
    preset(board, "only itself")
    keyboard = ran.page.page.keyboard
    cell_of(board, 0, 0).focus()
    where = "() => [document.activeElement.dataset.row, document.activeElement.dataset.column].map(Number)"
    for key, place in (
        ("ArrowLeft", [0, 0]),
        ("ArrowUp", [0, 0]),
        ("End", [0, 6]),
        ("ArrowRight", [0, 6]),
        ("ArrowDown", [1, 6]),
        ("Home", [1, 0]),
    ):
        keyboard.press(key)
        assert ran.page.page.evaluate(where) == place
    mask = torch.eye(7, dtype=torch.bool)
    for row, key in ((1, "Space"), (2, "Enter")):
        act(board, key, lambda key=key: keyboard.press(key))
        keyboard.press("ArrowDown")
        mask[row, 0] = True
    settle(board)
    expect_answer(mask_shown(board), mask)
    assert board.locator(".course-cell[tabindex='0']").count() == 1
    assert ran.page.page.evaluate(where) == [3, 0], "a toggle must not take the keyboard's place away"


def test_nothing_on_the_page_moves_when_the_pointer_or_the_keyboard_leaves_a_board(ran):
    """Or a click on what stands below would miss it."""
    board = ran.widget("mask")
    tall = "e => e.getBoundingClientRect().height"
    cell_of(board, 4, 1).focus()
    with_focus = board.evaluate(tall)
    cell_of(board, 4, 1).blur()
    ran.page.page.mouse.move(2, 2)
    assert board.evaluate(tall) == with_focus
    row = board.locator(".course-mask-presets")
    heights = set()
    for button in board.locator(".course-mask-preset").all():
        preset(board, button.inner_text())
        heights.add(row.evaluate(tall))
    assert len(heights) == 1, f"the line of presets changes its height: {heights}"


def test_twelve_tokens_stay_inside_the_page_in_letters_that_can_be_read(ran):
    board = ran.widget("mask", 1)
    preset(board, "causal")
    for part in (".course-mask-scroll", ".course-mask-root"):
        full, seen = board.locator(part).evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert full <= seen + 1, f"{part} must be scrolled sideways: {full} of {seen} pixels"
    too_wide = board.locator(".course-cell > span, .course-mask-output > span").evaluate_all(
        "all => all.filter((e) => e.getBoundingClientRect().width > e.parentElement.clientWidth).map((e) => e.textContent)"
    )
    assert too_wide == []
    smallest = board.locator("span, small, text").evaluate_all(
        "all => Math.min(...all.map((t) => parseFloat(getComputedStyle(t).fontSize)))"
    )
    assert smallest >= 14


# What the view of all heads says

THREE_BY_FOUR, TO_FRENCH, SIX_BY_TWELVE = range(3)  # in the order of the gallery


@pytest.mark.parametrize("token", [0, 3, 6])
def test_every_map_says_where_its_head_looks_most_from_the_followed_token(ran, token):
    weights = gallery.attention_stack(gallery.TOKENS, causal=True)[0].flatten(0, 1)[:, token]
    view = ran.widget("heads", THREE_BY_FOUR)
    word_of(view, token).hover()
    shown = heads_shown(view)
    assert shown["token"] == token and shown["sentence"].startswith(f"“{gallery.TOKENS[token]}")
    for row, word, number in zip(weights, shown["tokens"], shown["numbers"], strict=True):
        if word == "evenly":
            assert number == "" and row.max() <= 1.5 / (row > 0).sum()
        else:
            assert (word, number) == (gallery.TOKENS[row.argmax()], said(row.max().item()))


def test_an_enlarged_map_has_every_weight_of_its_head(ran):
    weights = gallery.attention_stack(gallery.TARGET, gallery.SOURCE)[0][2, 1]
    view = ran.widget("heads", TO_FRENCH)
    map_of(view, 2, 1).click()
    shown = heads_shown(view)
    assert (shown["layer"], shown["head"]) == (2, 1)
    names = [*gallery.SOURCE, *gallery.TARGET]
    assert shown["cells"] == names + [said(weight) for weight in weights.flatten().tolist()]
    picture = view.locator(".course-heads-panel svg")
    box = picture.bounding_box()
    picture.hover(position={"x": box["width"] - 20, "y": box["height"] - 20})
    assert heads_shown(view)["token"] == len(gallery.TARGET) - 1, "pointing at a row of the map follows its token"
    assert heads_shown(view)["told"].startswith("In layer 3, head 2, “now” looks at: ")
    view.get_by_role("button", name="close").click()
    assert heads_shown(view)["layer"] is None and view.locator(".course-heads-map:focus").count() == 1


def test_seventy_two_heads_stay_inside_the_page_and_nothing_moves_while_they_are_followed(ran):
    view = ran.widget("heads", SIX_BY_TWELVE)
    for part in view.locator(".course-heads-scroll, .course-heads-root").all():
        full, seen = part.evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert full <= seen + 1, f"all heads must be scrolled sideways: {full} of {seen} pixels"
    tall = "e => e.getBoundingClientRect().height"
    before = view.evaluate(tall)
    for token in (0, 20, 39):
        word_of(view, token).hover()
        assert view.evaluate(tall) == before
    assert len(heads_shown(view)["tokens"]) == 72
    smallest = view.locator("span, button, p").evaluate_all(
        "all => Math.min(...all.map((t) => parseFloat(getComputedStyle(t).fontSize)))"
    )
    assert smallest >= 14


# What the removal board says


def test_a_removed_head_leaves_the_accuracy_that_python_gives_without_it(ran):
    respond, effect = gallery.removable_heads()
    board = ran.widget("removal")
    button = board.get_by_role("button", name="all on", exact=True)
    if "0" in removal_shown(board)["checked"]:
        act(board, "all on", button.click)
    assert removal_shown(board)["labels"] == ["all heads 100.0 %", "chance 6.2 %"]
    act(board, "a click", tile_of(board, 1, 2).click)
    on = torch.ones(3, 4, dtype=torch.bool)
    on[1, 2] = False
    answer = respond(on)
    shown = removal_shown(board)
    assert shown["accuracy"] == pytest.approx(answer["accuracy"].item(), abs=1e-6)
    assert shown["percents"] == f"{100 * answer['accuracy']:.1f} %"
    assert shown["accuracy"] - 1 == pytest.approx(effect[1, 2].item(), abs=1e-6)
    assert shown["numbers"][6].replace("−", "-") == f"{100 * effect[1, 2]:.1f}" and shown["marks"][6] == "✗ off"
    assert shown["summary"].startswith("1 of 12 heads is removed: layer 2 head 3.")
    assert shown["rows"] == [f"{'✓' if ok else '✗'}{label}{text}" for label, text, ok in answer["detail"]]


def test_only_this_one_in_its_layer_leaves_the_other_layers_alone(ran):
    board = ran.widget("removal")
    if "0" in removal_shown(board)["checked"]:
        act(board, "all on", board.get_by_role("button", name="all on", exact=True).click)
    tile_of(board, 2, 1).focus()
    act(board, "the button", board.get_by_role("button", name="only this one in its layer").click)
    assert removal_shown(board)["on"] == ["1111", "1111", "0100"]


# What the widgets of the translator say


def test_the_beam_tree_has_the_nodes_and_the_scores_that_the_search_gave(ran):
    _, search = gallery.small_translator()
    widget = ran.widget("beamtree")
    button = widget.get_by_role("button", name="width 3", exact=True)
    if beam_shown(widget)["width"] != 3:
        act(widget, "the button 3", button.click)
    tree = search("the black cat sleeps", 3)["tree"]
    drawn = [node for step in tree for node in step[: sum(one.kept for one in step) + 3]]
    shown = beam_shown(widget)
    assert shown["words"] == ["start", *("ended" if node.word is None else node.word for node in drawn)]
    assert shown["scores"][1:] == [f"{node.score:.2f}".replace("-", "−") for node in drawn]
    places = range(1, len(drawn) + 1)
    assert shown["dropped"] == [place for place in places if not drawn[place - 1].kept]
    assert shown["ended"] == [place for place in places if drawn[place - 1].kept and drawn[place - 1].ended]
    last = shown["best"][-1]
    node_of(widget, last).hover()
    assert f"score {shown['scores'][last]}; kept, number 1 of 3" in beam_shown(widget)["line"]
    assert beam_shown(widget)["way"] == shown["best"]


def test_a_word_that_nobody_knows_is_named_and_the_translation_stays(ran):
    widget = ran.widget("translate")
    field = widget.locator("input[type=text]")
    settle(widget)
    before = picture_of(widget)
    said = refuse(widget, field, "the green cat")
    assert said.startswith("The model never saw 'green'.") and field.input_value() == "the green cat"
    assert "empty" in refuse(widget, field, " ")
    assert picture_of(widget) == before
    act(widget, "a known sentence", lambda: (retype(field, "the old cat sleeps"), press(field, "Enter")))
    assert widget.locator(".course-error").is_hidden()
    assert widget.locator(".course-text").inner_text().startswith("the old cat sleeps → ")


def test_the_blanks_and_the_text_are_what_the_model_says(ran):
    fill, pieces, go_on = gallery.small_language()
    widget = ran.widget("fillin")
    field = widget.locator("input[type=text]")
    act(widget, "two blanks", lambda: (retype(field, "the __ cat [mask]"), press(field, "Enter")))
    best = [choices[0][0] for choices in fill("the [MASK] cat [MASK]")["choices"]]
    assert widget.locator(".course-text").inner_text() == f"the {best[0]} cat {best[1]}"
    writer = ran.widget("nextword")
    act(writer, "Next", writer.get_by_role("button", name="Next").click)
    beginning = writer.locator("input[type=text]").input_value()
    text = writer.locator(".course-text").inner_text()
    assert text.startswith(f"{beginning} ") and text.removeprefix(f"{beginning} ") in [
        word.strip("▁") for word in pieces
    ]
    act(writer, "Reset", writer.get_by_role("button", name="Reset").click)


# By keyboard alone

STOPS = {
    ("explore", 0): [
        "handle",
        "readout",
        "handle",
        "readout",
        "button",
        "button",
        "button",
        "menu",
        "box",
        "text",
        "button",
    ],
    ("stepper", 0): ["button", "handle", "stage"],
    ("stepper", 1): ["button", "handle", "stage"],
    ("attention", CAUSAL): ["menu", "menu", "token", "map"],
    ("attention", CROSS): ["menu", "token", "map"],
    ("attention", BLIND): ["token"],
    ("plane", 0): ["query", "range"],
    ("mask", 0): ["button"] * 6 + ["cell"],
    ("heads", THREE_BY_FOUR): ["word", "headmap", "button"],  # the map that Enter opens can be closed
    ("removal", 0): ["tile"] + ["button"] * 4,
    ("translate", 0): ["text", "button", "button", "handle", "menu", "menu", "stage"],
    ("fillin", 0): ["text", "button"],
    ("nextword", 0): ["text", "handle", "readout", "handle"] + ["handle", "readout"] * 2 + ["button"] * 3 + ["stage"],
    ("beamtree", 0): ["menu"] + ["button"] * 4 + ["node"],
    ("guess", 0): ["handle", "handle", "handle", "button"],
}
KEYS = {
    "handle": "ArrowRight",
    "query": "ArrowUp",
    "token": "End",
    "menu": "ArrowDown",
    "stage": "End",
    "box": "Space",
    "range": "ArrowLeft",
    "cell": "Space",
    "word": "End",
    "headmap": "Enter",
    "tile": "Space",
    "node": "End",
}
TYPED = {  # where a number is no answer
    ("translate", "text"): "the old cats sleep",
    ("fillin", "text"): "do the __ sleep",
    ("nextword", "text"): "the old cats",
    ("nextword", "readout"): "0.4",
}


@pytest.mark.parametrize(("kind", "index"), STOPS, ids=lambda part: str(part))
def test_tab_reaches_every_control_and_a_key_works_there(ran, kind, index):
    widget = ran.widget(kind, index)
    keyboard = ran.page.page.keyboard
    pressed = []

    def use(stop):
        if stop["kind"] in ("button", "map"):  # each does something else: operated elsewhere
            return
        key = KEYS.get(stop["kind"], "typing")

        def action():
            if key == "typing":  # a number beside a slider, or a line of text
                keyboard.press("ControlOrMeta+a")
                keyboard.type(TYPED.get((kind, stop["kind"]), "1.5"))
                keyboard.press("Enter")
            else:
                keyboard.press(key)

        act(widget, f"{kind}: {key} on {stop['kind']} {stop['name']!r}", action)
        pressed.append(stop["kind"])

    controls = widget.locator("select, .noUi-handle, [tabindex='0']")
    press(
        (controls if controls.count() else widget.locator("input")).first,
        "Home" if kind in ("stepper", "translate") else "Escape",
    )
    settle(widget)
    stops = tab_through(widget, use)
    assert [stop["kind"] for stop in stops] == STOPS[kind, index]
    assert [stop for stop in stops if not (stop["visible"] and stop["name"])] == []
    assert [stop for stop in stops if not stop["marked"]] == [], "the place of the keyboard cannot be seen"
    assert pressed == [stop for stop in STOPS[kind, index] if stop not in ("button", "map")]


@pytest.mark.parametrize("key", ["Space", "Enter"])
def test_buttons_obey_the_keyboard(ran, key):
    explorer = ran.widget("explore")
    press(explorer.locator(".noUi-handle").first, "ArrowRight")
    settle(explorer)
    act(explorer, f"{key} on Reset", lambda: press(explorer.get_by_role("button", name="Reset"), key))
    stepper = ran.widget("stepper")
    act(stepper, f"{key} on Previous", lambda: press(stepper.get_by_role("button", name="Previous"), key))
    guess = ran.widget("guess")
    act(guess, f"{key} on Commit", lambda: press(guess.get_by_role("button", name="Commit"), key))
    act(guess, f"{key} on Try again", lambda: press(guess.get_by_role("button", name="Try again"), key))


def test_a_quiz_is_answered_by_keyboard_alone(ran):
    ran.page.run_cell(gallery.CELLS.index(gallery.QUIZ))  # one that is not answered yet
    ran.page.wait_for_widgets()
    box = ran.widget("quiz")
    box.locator("input[type=radio]").first.wait_for(timeout=WAIT * 1000)
    keyboard = ran.page.page.keyboard
    stops = []

    def answer(stop):
        stops.append(stop["kind"])
        if stop["kind"] == "radio":
            keyboard.press("Space")
            box.locator("button:enabled").wait_for(timeout=WAIT * 1000)
        else:
            change(box, "quiz: Space on Commit", lambda: keyboard.press("Space"))

    tab_through(box, answer)
    assert stops == ["radio"] * box.locator("input[type=radio]").count() + ["button"]


# How fast, and how it looks


def timed(widget, presses=5, **options):
    return usual_time(widget, KEY_TO_PICTURE_MS, presses, **options)


def test_from_key_press_to_new_picture_in_time(ran):
    for index in (CAUSAL, MANY):
        token_of(ran.widget("attention", index), "target", 1).focus()  # so that Home and End both go somewhere
    node_of(ran.widget("beamtree"), 0).focus()
    for kind in ("stepper", "translate"):
        press(ran.widget(kind).locator(".course-stage"), "Home")  # at its last step there is nothing to the right
    medians = {
        "explore": timed(ran.widget("explore")),
        "stepper": timed(ran.widget("stepper", 0)),
        "plane": timed(ran.widget("plane"), control=".course-handle"),
        "guess": timed(ran.widget("guess")),
        "mask board": timed(ran.widget("mask"), control="[tabindex='0'].course-cell", keys=("Space", "Space")),
        "removal board": timed(
            ran.widget("removal"), control="[tabindex='0'].course-removal-tile", keys=("Space", "Space")
        ),
        "translation": timed(ran.widget("translate")),
        "a dial of the next word": timed(ran.widget("nextword")),
        "beam tree": timed(
            ran.widget("beamtree"), control="[tabindex='0'].course-beam-node", keys=("End", "Home"), presses=3
        ),
        "72 heads": timed(
            ran.widget("heads", SIX_BY_TWELVE),
            control="[tabindex='0'].course-heads-word",
            keys=("ArrowRight", "ArrowLeft"),
            presses=3,
        ),
        "attention, 7 tokens": timed(
            ran.widget("attention", CAUSAL), control="[tabindex='0'].course-token", keys=("End", "Home"), presses=3
        ),
        "attention, 40 tokens": timed(
            ran.widget("attention", MANY), control="[tabindex='0'].course-token", keys=("End", "Home"), presses=3
        ),
        "attention, another head of 40 tokens": timed(
            ran.widget("attention", MANY), control="select >> nth=1", keys=("ArrowDown", "ArrowUp"), presses=3
        ),
    }
    for name, median in medians.items():
        print(f"{name}: {median:.0f} ms from key press to new picture (median)")
    assert {name: median for name, median in medians.items() if median > KEY_TO_PICTURE_MS} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_widget_can_be_read_in_either_theme(ran, theme, pictures):
    ran.page.theme(theme)
    for index in (CAUSAL, CROSS, BLIND, MANY):
        token_of(ran.widget("attention", index), "target", 3).focus()
    cell_of(ran.widget("mask", 1), 3, 2).focus()
    for index in (TO_FRENCH, SIX_BY_TWELVE):
        view = ran.widget("heads", index)
        word_of(view, 4).focus()
        if heads_shown(view)["layer"] is None:
            map_of(view, 1, 1).click()
    tile_of(ran.widget("removal"), 1, 1).click()
    node_of(ran.widget("beamtree"), 3).focus()
    if pictures:
        ran.page.screenshots(pictures / "gallery", f"{theme}_")
    assert unreadable(ran.page) == []
    ran.page.theme("light")


# Last in the file, so that it has seen the requests of everything above.
def test_the_gallery_asks_nothing_of_another_host(ran):
    assert ran.page.foreign == []

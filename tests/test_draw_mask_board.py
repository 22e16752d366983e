"""Facts about the mask board: every mask has its picture, its words and its answer, without a browser."""

import base64
import itertools
import json
import re
import sys

import numpy as np
import pytest
import torch

import utils.draw as draw
from utils.draw.forms import WIDGET_VIEW
from utils.models.attention import attention

# The package exports a function with the name of this module.
board_module = sys.modules["utils.draw.mask_board"]
TOKENS = ["the", "cat", "sat"]


def layer(n, seed=0):
    """respond of a real head of attention, compared with the same head without a mask."""
    query, key, value = torch.randn(3, n, 5, generator=torch.Generator().manual_seed(seed))
    reference = attention(query, key, value)[0]

    def respond(mask):
        output, weights = attention(query, key, value, mask)
        return {"changed": (output - reference).norm(dim=-1), "weights": weights}

    return respond


def board(n=3, **options):
    tokens = TOKENS if n == 3 else [f"t{i}" for i in range(n)]
    return draw.mask_board(tokens, layer(n), **options)


def masks(n):
    """Every mask of n tokens."""
    for bits in itertools.product([False, True], repeat=n * n):
        yield np.array(bits).reshape(n, n)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def arrows(figure):
    return [patch for patch in figure.axes[0].patches if type(patch).__name__ == "FancyArrowPatch"]


# State to answer


def test_every_mask_of_three_tokens_has_an_answer_and_only_rows_with_a_closed_look_change():
    respond = layer(3)
    for mask in masks(3):
        answer = board_module.answer_of(respond, mask.tolist())
        json.dumps(answer, allow_nan=False)
        assert answer["mask"] == mask.tolist() and answer["measured"]
        assert [one > 0 for one in answer["changed"]] == (~mask.all(1)).tolist()
        weights = np.array(answer["weights"])
        assert (weights[~mask] == 0).all() and np.allclose(weights.sum(1), mask.any(1))


def test_respond_gets_a_bool_tensor_of_its_own():
    seen = []

    def respond(mask):
        seen.append(mask.clone())
        answer = layer(3)(mask)
        mask.fill_(False)
        return answer

    widget = draw.mask_board(TOKENS, respond, start="causal")
    assert seen[0].dtype is torch.bool and torch.equal(seen[0], torch.ones(3, 3).tril().bool())
    assert torch.equal(widget.drawn(), seen[0])


def test_the_answer_follows_the_mask():
    widget = board()
    assert widget.answer["changed"] == [0, 0, 0] and widget.answer["count"] == 1
    mask = torch.ones(3, 3).bool()
    mask[1, 2] = False
    widget.mask = mask.tolist()  # as the page sends it
    expected = layer(3)(mask)
    assert widget.answer["count"] == 2 and widget.answer["mask"] == mask.tolist()
    assert widget.answer["changed"] == pytest.approx(expected["changed"].tolist(), abs=1e-6)
    assert np.allclose(widget.answer["weights"], expected["weights"])
    assert widget.answer["text"] == (
        "8 of 9 looks are allowed. Compared with every look allowed, 1 of 3 outputs change: cat."
    )


def test_a_row_that_may_look_nowhere_is_said_and_drawn_as_such():
    widget = board(start=[[True] * 3, [False] * 3, [True] * 3])
    assert widget.answer["weights"][1] == [0, 0, 0] and widget.answer["changed"][1] > 0
    assert widget.alt_text().endswith("1 of 3 outputs change: cat. Looks nowhere, all weights 0: cat.")
    assert "cat looks at nobody" in widget.alt_text()
    now = widget.answer
    figure = draw.mask_picture(TOKENS, now["mask"], now["weights"], now["changed"])
    assert texts(figure).count("looks nowhere") == 1
    assert len([patch for patch in figure.axes[0].patches if patch.get_hatch()]) == 1
    assert len([patch for patch in figure.axes[0].patches if patch.get_linestyle() == "--"]) == 1


def test_changes_given_as_bools_have_no_numbers():
    weights = np.eye(3)
    for changed in ([True, False, False], np.array([True, False, False]), torch.tensor([True, False, False])):
        widget = draw.mask_board(
            TOKENS, lambda mask, c=changed: {"changed": c, "weights": weights}, start="only itself"
        )
        assert widget.answer["changed"] == [1, 0, 0] and not widget.answer["measured"]
        figure = draw.mask_picture(TOKENS, widget.mask, weights, changed)
        assert texts(figure).count("◆ changed") == 1 and texts(figure).count("= same") == 2


def test_rounding_is_not_a_change_and_a_small_change_is_not_called_zero():
    said = [board_module.output_text(amount, True) for amount in (0, 1e-7, 2e-6, 0.004, 0.126, 3.0)]
    assert said == ["= same", "= same", "◆ changed <0.01", "◆ changed <0.01", "◆ changed 0.13", "◆ changed 3.00"]
    assert board_module.checked_changed([1e-7, 0.5], 2)[0].tolist() == [0, 0.5]


# State to picture


def test_every_mask_of_two_tokens_has_a_picture_with_its_ticks_and_arrows():
    respond = layer(2)
    pictures = set()
    for mask in masks(2):
        answer = respond(torch.tensor(mask))
        figure = draw.mask_picture(["a", "b"], mask, answer["weights"], answer["changed"])
        assert texts(figure).count("✓") == len(arrows(figure)) == mask.sum()
        pictures.add(draw.figure_png(figure, "a"))
    assert len(pictures) == 16


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 12])
def test_every_preset_of_every_length_has_a_picture(n):
    widget = board(n)
    for preset in widget.presets:
        widget.choose(preset["name"])
        now = widget.answer
        tokens = widget.tokens
        figure = draw.mask_picture(tokens, now["mask"], now["weights"], now["changed"], "A title")
        written = texts(figure)
        assert written.count("✓") == len(arrows(figure)) == np.sum(preset["mask"])
        shown = [words for words in written if words.startswith(("◆", "="))]
        assert shown == [board_module.output_text(one, True) for one in now["changed"]]
        assert f": {preset['name']}." in widget.alt_text()


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_no_text_of_the_picture_leaves_it_or_covers_another(n):
    tokens = ["Donaudampfschifffahrt", *["sentence"] * (n - 1)]
    mask = np.ones((n, n), bool)
    mask[-1] = False
    answer = layer(n)(torch.tensor(mask))
    figure = draw.mask_picture(tokens, mask, answer["weights"], answer["changed"], "Who may look at whom")
    draw.figure_png(figure, "a")
    inside = figure.bbox
    drawn = [text for text in [*figure.axes[0].texts, *figure.texts] if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn]
    for words, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= inside.x1 and box.y1 <= inside.y1, f"{words} is cut off"
    for (one, first), (two, second) in itertools.combinations(boxes, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        up = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, up) < 2, f"{one!r} and {two!r} stand on each other"


def test_an_arrow_is_thicker_for_more_weight():
    mask = np.array([[True, True], [False, True]])
    figure = draw.mask_picture(["a", "b"], mask, [[0.9, 0.1], [0, 1]], [0, 0])
    widths = [arrow.get_linewidth() for arrow in arrows(figure)]
    assert widths[2] > widths[0] > widths[1]


def test_looks_back_swing_to_the_left_and_looks_ahead_to_the_right():
    def swings(mask):
        figure = draw.mask_picture(["a", "b", "c"], mask, mask / np.maximum(mask.sum(1, keepdims=True), 1), [0] * 3)
        starts_and_bends = [arrow._path_original.vertices[:2, 0] for arrow in arrows(figure)]
        return {"left" if bend < start else "right" for start, bend in starts_and_bends}

    assert swings(board_module.causal(3)) == {"left"}
    assert swings(~board_module.causal(3)) == {"right"}


def test_a_dollar_sign_is_no_formula_and_blanks_can_be_seen():
    tokens = ["$x", "y$", " a", "b\n", ""]
    widget = draw.mask_board(tokens, layer(5))
    assert widget.labels == ["$x", "y$", "␣a", "b↵", "(empty)"]
    assert widget.static()[0]["image/png"] and "$x y$ ␣a b↵ (empty)" in widget.alt_text()
    assert board_module.visible("  ") == "␣␣" and board_module.visible(" a b ") == "␣a b␣"


def test_a_long_token_is_cut_in_the_picture_and_whole_in_the_words():
    long = "Donaudampfschifffahrtsgesellschaft"
    widget = draw.mask_board([long, "cat"], layer(2))
    assert widget.labels[0] == "Donaudampfs…" and long in widget.alt_text() and long in widget.names


def test_two_tokens_of_one_name_are_told_apart():
    mask = np.ones((3, 3), bool)
    mask[2, 0] = False
    widget = draw.mask_board(["the", "cat", "the"], layer(3), start=mask)
    assert "the (3) looks at cat, the (3)" in widget.alt_text() and widget.names == ["the (1)", "cat", "the (3)"]


# The widget


def test_the_board_has_three_forms_and_the_same_static_form_twice():
    first, second = (board(title="Masks", start="causal") for _ in range(2))
    data, metadata = first._repr_mimebundle_()
    assert set(data) == {WIDGET_VIEW, "image/png", "text/plain"}
    assert data[WIDGET_VIEW]["model_id"] == first.model_id
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == data["text/plain"] == repr(first)
    assert first.static() == second.static()
    assert {"course-widget", "course-mask"} <= set(first._dom_classes)


def test_the_words_begin_with_the_alt_text_or_the_title():
    causal = (
        "A mask over 3 tokens (the cat sat): causal. 6 of 9 looks are allowed. "
        "When “cat” becomes “dog”, 2 of 3 outputs change: the, cat."
    )
    options = {"start": "causal", "compared": "when “cat” becomes “dog”"}
    assert board(**options).alt_text() == causal
    assert board(title="Masks", **options).alt_text() == f"Masks. {causal}"
    assert board(title="Masks", alt="Draw one.", **options).alt_text() == f"Draw one. {causal}"


def test_an_exception_in_respond_is_shown_and_raised_and_the_last_answer_stays():
    def breaks(mask):
        if not mask[0, 0]:
            raise ValueError("row 0 is\nblind")
        return layer(3)(mask)

    widget = draw.mask_board(TOKENS, breaks)
    before = widget.static()
    with pytest.raises(ValueError, match="blind"):
        widget.choose("nothing")
    assert widget.error == "This picture could not be drawn: ValueError: row 0 is blind"
    assert widget.answer["count"] == 2 and widget.static() == before
    widget.choose("causal")
    assert widget.error == "" and widget.answer["count"] == 3


# Presets


def test_the_default_presets_are_what_their_names_say():
    known = {name: mask_of(5) for name, mask_of in board_module.default_presets(5).items()}
    rows, columns = np.indices((5, 5))
    assert list(known) == ["everything", "causal", "only itself", "window of 3", "last two are padding", "nothing"]
    assert known["everything"].all() and not known["nothing"].any()
    assert (known["causal"] == (columns <= rows)).all()
    assert (known["only itself"] == (columns == rows)).all()
    assert (known["window of 3"] == (abs(columns - rows) <= 1)).all()
    assert (known["last two are padding"] == (columns < 3)).all()


@pytest.mark.parametrize("n", range(1, 13))
def test_no_two_default_presets_are_the_same_mask(n):
    found = [mask_of(n).tobytes() for mask_of in board_module.default_presets(n).values()]
    assert len(set(found)) == len(found) >= 2


def test_presets_may_be_functions_or_masks_and_may_be_none_at_all():
    eye = torch.eye(3, dtype=torch.bool)
    widget = board(presets={"mine": eye, "all": lambda n: torch.ones(n, n, dtype=torch.bool)}, start="mine")
    assert [preset["name"] for preset in widget.presets] == ["mine", "all"] and torch.equal(widget.drawn(), eye)
    assert board(presets={}).presets == []


# What is refused


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": np.ones((3, 4), bool)}, ValueError, r"\(3, 3\), got \(3, 4\)"),
        ({"start": [[True], [True, False], [True]]}, ValueError, "different lengths"),
        ({"start": np.ones((3, 3))}, TypeError, "True = may look, got float64; write `mask == 0`"),
        ({"start": torch.ones(3, 3)}, TypeError, "got float32"),
        ({"start": "casual"}, ValueError, "no preset 'casual'; there are \\['everything', 'causal'"),
        ({"presets": ["causal"]}, TypeError, "must be a dict .*got list"),
        ({"presets": {"odd": lambda n: np.ones((n, n + 1), bool)}}, ValueError, "the preset 'odd' must have one row"),
        ({"alt": " "}, ValueError, "alt text is empty"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(options, error, message):
    with pytest.raises(error, match=message):
        board(**options)


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ([], ValueError, "1 to 12 tokens, got 0"),
        (list("abcdefghijklm"), ValueError, "1 to 12 tokens, got 13"),
        ("the cat", TypeError, re.escape("try 'the cat'.split()")),
    ],
)
def test_too_few_and_too_many_tokens_are_refused(tokens, error, message):
    with pytest.raises(error, match=message):
        draw.mask_board(tokens, layer(3))


GOOD = {"changed": [0.0] * 3, "weights": np.full((3, 3), 1 / 3)}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (None, TypeError, "got NoneType"),
        ({"changed": [0, 0, 0]}, TypeError, r"\"weights\", got \['changed'\]"),
        ({**GOOD, "changed": [0, 0]}, ValueError, r"each of 3 tokens, \(3,\), got \(2,\)"),
        ({**GOOD, "changed": [0, -1, 0]}, ValueError, "smallest is -1; take the norm"),
        ({**GOOD, "changed": [0, float("nan"), 0]}, ValueError, "finite"),
        ({**GOOD, "weights": np.full((3, 4), 0.25)}, ValueError, r"shape \(3, 3\), got \(3, 4\)$"),
        ({**GOOD, "weights": np.full((1, 3, 3), 1 / 3)}, ValueError, r"`weights\[0\]`"),
        ({**GOOD, "weights": np.full((3, 3), -1.0)}, ValueError, "are these scores"),
        ({**GOOD, "weights": np.ones((3, 3))}, ValueError, "softmax comes first"),
    ],
)
def test_a_wrong_answer_of_respond_is_refused(answer, error, message):
    with pytest.raises(error, match=message):
        draw.mask_board(TOKENS, lambda mask: answer)


def test_weights_that_ignore_the_mask_are_refused():
    with pytest.raises(ValueError, match="token 0 may not look at token 1 but has the weight 0.333 there"):
        draw.mask_board(TOKENS, lambda mask: GOOD, start="causal")


@pytest.mark.parametrize("mask", [[[True]], [[1, 0, 1]] * 3, [[True] * 3] * 2])
def test_a_mask_that_does_not_fit_never_reaches_the_board(mask):
    widget = board(start="causal")
    with pytest.raises((ValueError, TypeError), match="the mask"):
        widget.mask = mask
    assert torch.equal(widget.drawn(), torch.ones(3, 3).tril().bool()) and widget.answer["count"] == 1

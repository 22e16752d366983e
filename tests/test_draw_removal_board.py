"""Facts about the board that removes heads: every set of heads has its answer, words and picture, without a browser."""

import base64
import itertools
import json
import sys

import numpy as np
import pytest
import torch

import utils.draw as draw
from tests.picture_rules import broken_rules
from tests.test_draw_figures import drawn_texts
from utils.draw.forms import WIDGET_VIEW

# The package exports a function with the name of this module.
board_module = sys.modules["utils.draw.removal_board"]
WORTH = torch.tensor([[0.0, 0.3], [0.1, 0.2], [0.05, 0.25]])
ALL = torch.ones(3, 2, dtype=torch.bool)


def respond(heads_on):
    """Each head is worth a share of its own, on top of 0.1 that needs no head."""
    accuracy = 0.1 + (WORTH * heads_on).sum()
    return {"accuracy": accuracy, "detail": [("first", 3.14159, True), ("second", "a, b", False), ("third", 7, None)]}


def board(**options):
    return draw.removal_board(respond, 3, 2, **{"chance": 0.0625, "effect": -WORTH, **options})


def switches():
    """Every set of heads of a board of three by two."""
    for bits in itertools.product([False, True], repeat=6):
        yield np.array(bits).reshape(3, 2)


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


# State to answer


def test_every_set_of_heads_has_its_accuracy_its_words_and_its_picture():
    widget, pictures = board(), set()
    for on in switches():
        widget.choose(on)
        now = widget.answer
        json.dumps(now, allow_nan=False)
        assert now["on"] == on.tolist()
        assert now["accuracy"] == pytest.approx(respond(torch.tensor(on))["accuracy"].item())
        assert f"{100 * now['accuracy']:.1f} % right" in now["text"] and now["text"] in widget.alt_text()
        if on[1:].all():
            pictures.add(widget.static()[0]["image/png"])
    assert len(pictures) == 4 and widget.answer["count"] == 1 + 63 + 1  # the first set was "none"; the last is "all"


def test_respond_gets_a_bool_tensor_of_its_own():
    seen = []

    def careless(heads_on):
        seen.append(heads_on.clone())
        answer = respond(heads_on)
        heads_on.fill_(False)
        return answer

    start = torch.tensor([[True, False]] * 3)
    widget = draw.removal_board(careless, 3, 2, start=start)
    assert [one.dtype for one in seen] == [torch.bool] * 2
    assert torch.equal(seen[0], ALL) and torch.equal(seen[1], start)  # all heads once, for the comparison
    assert torch.equal(widget.heads_on(), start) and widget.full == pytest.approx(1.0)


def test_the_full_model_is_asked_once_when_it_is_the_start():
    calls = []
    draw.removal_board(lambda on: calls.append(on) or {"accuracy": 1}, 1, 2)
    assert len(calls) == 1


def test_the_words_say_what_is_removed_and_how_far_the_accuracy_falls():
    said = {
        ((True, True),) * 3: "All 6 heads are on. 100.0 % right; chance: 6.2 %.",
        ((False, True), (True, True), (True, True)): (
            "1 of 6 heads is removed: layer 1 head 1. 100.0 % right, as with all heads (100.0 %); chance: 6.2 %."
        ),
        ((True, False), (True, True), (False, True)): (
            "2 of 6 heads are removed: layer 1 head 2, layer 3 head 1. 65.0 % right, 35.0 points below all heads "
            "(100.0 %); chance: 6.2 %."
        ),
        ((False, True), (False, False), (False, False)): (
            "Only layer 1 head 2 is on. 40.0 % right, 60.0 points below all heads (100.0 %); chance: 6.2 %."
        ),
        ((False, False),) * 3: (
            "All 6 heads are removed. 10.0 % right, 90.0 points below all heads (100.0 %); chance: 6.2 %."
        ),
    }
    widget = board()
    for on, words in said.items():
        widget.choose([list(row) for row in on])
        assert widget.answer["text"] == words
    better = board_module.what_is_left([[True, False]], 0.9, 0.8)
    assert better == "1 of 2 heads is removed: head 2. 90.0 % right, 10.0 points above all heads (80.0 %)."


def test_what_the_accuracy_stands_beside_may_have_another_name():
    widget = board(chance=0.4, chance_name="most frequent form", what="of the forms right")
    assert widget.said["chance"] == "most frequent form 40.0 %"
    assert "100.0 % of the forms right; most frequent form: 40.0 %." in widget.alt_text()
    figure = draw.removal_picture(
        ALL, 0.9, 1.0, chance=0.4, chance_name="most frequent form", what="of the forms right"
    )
    assert {"most frequent form 40.0 %", "90.0 % of the forms right"} <= set(words_of(figure))


def test_many_removed_heads_are_counted_and_not_listed():
    on = np.ones((3, 4), bool)
    on[:, :3] = False
    assert board_module.which_are_off(on) == "9 of 12 heads are removed"


def test_details_are_numbers_in_two_decimals_and_words_as_they_are():
    assert board().answer["detail"] == [["first", "3.14", True], ["second", "a, b", False], ["third", "7", None]]
    rows = board_module.checked_detail(
        [("a", torch.tensor(0.125), torch.tensor(True)), ["b", np.float64(2), np.bool_(0)]]
    )
    assert rows == [["a", "0.12", True], ["b", "2.00", False]]
    assert draw.removal_board(lambda on: {"accuracy": 1}, 1, 1).answer["detail"] == []


def test_an_exception_in_respond_is_shown_and_raised_and_the_last_answer_stays():
    def breaks(heads_on):
        if not heads_on[0, 0]:
            raise ValueError("head 0 is\nneeded")
        return respond(heads_on)

    widget = draw.removal_board(breaks, 3, 2)
    before = widget.static()
    with pytest.raises(ValueError, match="needed"):
        widget.on = [[False, True], [True, True], [True, True]]  # as the page sends it
    assert widget.error == "There is no accuracy for this: ValueError: head 0 is needed"
    assert widget.answer["count"] == 2 and widget.static() == before
    widget.choose(ALL)
    assert widget.error == "" and widget.answer["count"] == 3


# Colours


def test_a_larger_fall_is_a_stronger_red_and_a_rise_is_blue():
    faces, _ = board_module.effect_colours(np.array([[-0.4, -0.2, 0.0, 0.2]]))
    shades = [[int(face[at : at + 2], 16) for at in (1, 3, 5)] for face in faces[0]]
    assert shades[2] == [255, 255, 255]
    assert shades[0][2] < shades[1][2] < 255 and all(red > blue for red, _, blue in shades[:2])
    assert shades[3][2] > shades[3][0]


def test_an_effect_within_the_noise_stays_pale():
    faces, _ = board_module.effect_colours(np.array([[-0.001, 0.002]]))
    assert all(int(face[at : at + 2], 16) > 230 for face in faces[0] for at in (1, 3, 5))


def test_letters_can_be_read_on_every_colour():
    def light(shade):
        parts = [int(shade[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    faces, inks = board_module.effect_colours(np.linspace(-1, 1, 101)[None])
    for face, ink in zip(faces[0], inks[0], strict=True):
        high, low = sorted((light(face), light(ink)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, face


# The picture


@pytest.mark.parametrize(
    ("layers", "heads", "effect", "accuracy", "chance"),
    [(1, 1, False, 0.0, 0.0), (1, 2, True, 1.0, None), (2, 4, True, 0.974, 0.0625), (3, 8, False, 0.5, 1.0),
     (6, 12, True, 0.01, 0.02), (12, 16, True, 0.99, 0.98)],
)  # fmt: skip
def test_every_size_has_a_picture_that_can_be_projected(layers, heads, effect, accuracy, chance):
    dice = np.random.default_rng(layers)
    on = dice.random((layers, heads)) < 0.7
    effects = -dice.random((layers, heads)) if effect else None
    figure = draw.removal_picture(on, accuracy, 0.98, chance=chance, effect=effects, title="What each head is worth")
    draw.figure_png(figure, "a")
    assert broken_rules(figure) == []
    hatched = [patch for patch in figure.axes[0].patches if patch.get_hatch()]
    assert len(hatched) == (~on).sum()
    if effect:
        assert {board_module.points(one) for one in effects.flat} <= set(words_of(figure))


def test_the_bar_is_as_long_as_the_accuracy():
    figure = draw.removal_picture([[True, False]], 0.25, 1.0, chance=0.0625)
    track, bar = [patch for patch in figure.axes[0].patches if type(patch).__name__ == "Rectangle"][:2]
    assert bar.get_width() == pytest.approx(track.get_width() / 4)
    assert {"25.0 % right", "all heads 100.0 %", "chance 6.2 %"} <= set(words_of(figure))


# The widget


def test_the_board_has_three_forms_and_the_same_static_form_twice():
    first, second = (board(title="Heads", start=ALL) for _ in range(2))
    data, metadata = first._repr_mimebundle_()
    assert set(data) == {WIDGET_VIEW, "image/png", "text/plain"}
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == data["text/plain"] == repr(first)
    assert first.static() == second.static()
    assert {"course-widget", "course-removal"} <= set(first._dom_classes)


def test_the_text_form_names_the_heads_that_are_missed_most():
    assert board(title="Heads").alt_text() == (
        "Heads. All 6 heads are on. 100.0 % right; chance: 6.2 %. Removed alone, in points (the largest falls): "
        "layer 1 head 2 −30.0, layer 3 head 2 −25.0, layer 2 head 2 −20.0, layer 2 head 1 −10.0."
    )
    assert board(alt="Remove some.", effect=None).alt_text().startswith("Remove some. All 6 heads are on.")


def test_the_page_gets_the_words_on_every_tile():
    widget = board()
    texts = [[tile["text"] for tile in row] for row in widget.effects]
    assert texts == [["0.0", "−30.0"], ["−10.0", "−20.0"], ["−5.0", "−25.0"]]
    assert widget.said == {"full": "all heads 100.0 %", "chance": "chance 6.2 %"}
    json.dumps([widget.effects, widget.said, widget.on], allow_nan=False)
    assert board(effect=None).effects == [] and board(chance=None).said == {"full": "all heads 100.0 %"}


# What is refused


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": np.ones((2, 3), bool)}, ValueError, r"3 layers and 2 heads, got the shape \(2, 3\)"),
        ({"start": torch.ones(3, 2)}, TypeError, "True = on, got float32; write `gates > 0`"),
        ({"start": [[True], [True, False], [True]]}, ValueError, "different lengths"),
        ({"chance": 6.25}, ValueError, "share from 0 to 1, got 6.25; divide by 100"),
        ({"chance": -1}, ValueError, "share from 0 to 1, got -1$"),
        ({"effect": np.zeros((2, 3))}, ValueError, r"3 layers and 2 heads, got \(2, 3\)$"),
        ({"effect": np.zeros((5, 3, 2))}, ValueError, "take the mean over the seeds"),
        ({"effect": np.full((3, 2), -20.0)}, ValueError, "but one is -20; divide by 100"),
        ({"effect": np.full((3, 2), np.nan)}, ValueError, "finite"),
        ({"alt": " "}, ValueError, "alt text is empty"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(options, error, message):
    with pytest.raises(error, match=message):
        board(**options)


@pytest.mark.parametrize(("layers", "heads"), [(0, 2), (13, 2), (2, 0), (2, 17)])
def test_a_board_that_does_not_fit_a_page_is_refused(layers, heads):
    with pytest.raises(ValueError, match=f"got {layers} layers of {heads}"):
        draw.removal_board(respond, layers, heads)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (None, TypeError, "got NoneType"),
        (0.5, TypeError, "got float"),
        ({"loss": 1}, TypeError, r"got \['loss'\]"),
        ({"accuracy": 97.5}, ValueError, "divide by 100"),
        ({"accuracy": float("nan")}, ValueError, "finite"),
        ({"accuracy": 1, "detail": [("a", 1)]}, ValueError, r"rows \(label, text or number, ok\)"),
        ({"accuracy": 1, "detail": [("a", 1, 1)]}, TypeError, "True, False or None .* got 1"),
        ({"accuracy": 1, "detail": ["abc"]}, ValueError, "got 'abc'"),
        ({"accuracy": 1, "detail": [("a", 1, True)] * 25}, ValueError, "room for 24 rows, got 25"),
    ],
)
def test_a_wrong_answer_of_respond_is_refused(answer, error, message):
    with pytest.raises(error, match=message):
        draw.removal_board(lambda on: answer, 3, 2)


@pytest.mark.parametrize("on", [[[True]], [[1, 0]] * 3, [[True] * 2] * 2])
def test_switches_that_do_not_fit_never_reach_the_board(on):
    widget = board()
    with pytest.raises((ValueError, TypeError)):
        widget.on = on
    assert torch.equal(widget.heads_on(), ALL) and widget.answer["count"] == 1

"""Facts about the widget that fills in the blanks of a reader's own sentence, without a browser."""

import base64
import sys

import numpy as np
import pytest
import torch

import utils.draw as draw
from tests.picture_rules import broken_rules, words_in_boxes
from tests.test_draw_figures import drawn_texts
from utils.draw.forms import WIDGET_VIEW

# The package exports a function with the name of this module.
module = sys.modules["utils.draw.fill_in"]
GUESSES = [("list", 0.61), ("file", 0.2), ("##s", 0.05), ("$", 0.002)]
KNOWN = {"return", "a", "new", "of", "items", "[MASK]"}


def respond(text):
    """Blank i is a "list" with a probability that falls with i."""
    pieces = ["[CLS]", *text.split(), "[SEP]"]
    if unknown := [piece for piece in pieces[1:-1] if piece not in KNOWN]:
        raise ValueError(f"The model never saw\n{', '.join(unknown)}.")
    blanks = [place for place, piece in enumerate(pieces) if piece == "[MASK]"]
    choices = [[(piece, chance / (number + 1)) for piece, chance in GUESSES] for number in range(len(blanks))]
    return {"pieces": pieces, "blanks": blanks, "choices": choices}


def widget(start="return a new [MASK]", **options):
    return draw.fill_in(respond, start, **options)


def answer(**changes):
    return {**respond("return [MASK]"), **changes}


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


def bars_of(figure):
    """Widths of the bars, in the order of blanks and choices."""
    return [patch.get_width() for patch in figure.axes[0].patches if hasattr(patch, "get_width") and patch.get_fill()
            and type(patch).__name__ == "Rectangle"]  # fmt: skip


# Blanks


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("return a [MASK]", "return a [MASK]"),
        ("return a [mask] of [Mask]", "return a [MASK] of [MASK]"),
        ("return a __ of ______", "return a [MASK] of [MASK]"),
        ("a_b __", "a_b [MASK]"),
    ],
)
def test_blanks_are_read_in_either_case_and_as_lines(text, asked):
    assert module.with_blanks(text) == asked


def test_another_model_may_write_its_blanks_in_another_way():
    assert module.with_blanks("a <Mask> b __", "<mask>") == "a <mask> b <mask>"
    seen = []
    draw.fill_in(lambda text: seen.append(text) or answer(), "return __", mask="<mask>")
    assert seen == ["return <mask>"]


def test_every_number_of_blanks_has_its_bars_and_its_words():
    for count in range(1, 5):
        shown = widget(" ".join(["[MASK]"] * count))
        figure = draw.fill_in_picture(shown.answer, "t")
        words = words_of(figure)
        assert [f"blank {i + 1}" in words for i in range(4)] == [count > 1 and i < count for i in range(4)]
        assert shown.alt_text().count("Likeliest in") == count
        widths = np.array(bars_of(figure)).reshape(count, len(GUESSES))
        chances = np.array([chance for _, chance in GUESSES])
        expected = chances / np.arange(1, count + 1)[:, None] / chances[0]
        assert widths / widths[0, 0] == pytest.approx(expected)
        assert {"61 %", "<1 %", "list", "$"} <= set(words)


def test_blanks_of_several_are_numbered_in_the_sentence_and_have_boxes():
    figure = draw.fill_in_picture(widget("a [MASK] of [MASK]").answer)
    assert {"? 1", "? 2", "a", "of"} <= set(words_of(figure))
    draw.figure_png(figure, "a")
    inside, sticking_out = words_in_boxes(figure)
    assert (inside, sticking_out) == (2, [])


def test_the_words_say_the_sentence_and_what_may_be_in_the_blank():
    shown = widget(alt="Fill it in")
    assert shown.alt_text() == (
        "Fill it in. “return a new [MASK]” becomes “[CLS] return a new list [SEP]”. Likeliest in the blank: list 61 %, "
        "file 20 %, ##s 5 %, $ <1 %."
    )
    assert widget(title="What fits?").alt_text().startswith("What fits? “return")


def test_the_sentence_of_the_answer_is_shown_where_there_is_one():
    shown = draw.fill_in(lambda text: {**respond(text), "sentence": "return a list."}, "return a [MASK]")
    assert shown._stage.text == "return a list." and "becomes “return a list.”" in shown.alt_text()


LONG = [f"word{number}" for number in range(60)]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("choices", [1, 8])
@pytest.mark.parametrize("pieces", [[], ["a"] * 390, LONG, ["international" * 4] * 8])
def test_every_size_can_be_projected(count, choices, pieces):
    guesses = [("transformation" * 3, 1 - 0.01 * choices), *[("x", 0.01)] * (choices - 1)]
    given = {"pieces": [*pieces, *["[MASK]"] * count], "choices": [guesses] * count}
    given["blanks"] = [len(pieces) + place for place in range(count)]
    figure = draw.fill_in_picture(module.answer_of(lambda _: given, "a"), "A blank")
    draw.figure_png(figure, "a")
    assert broken_rules(figure) == []


# The widget


def test_a_new_sentence_has_its_own_picture_and_is_asked_once():
    asked = []
    shown = draw.fill_in(lambda text: asked.append(text) or respond(text), "return [MASK]")
    first = shown.static()
    shown._text.value = "a new __ of [MASK]"
    shown._button.click()  # the click took the keyboard from the field, which had sent the sentence already
    assert asked == ["return [MASK]", "a new [MASK] of [MASK]"]
    assert shown.static() != first and shown._stage.state == {"sentence": "a new __ of [MASK]"}
    shown.ask("return [MASK]")
    assert shown.static() == first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a green [MASK]", "The model never saw green."),
        ("return a list", "There is no blank in this sentence: write [MASK] or __ where the model shall guess."),
        ("[MASK] " * 5, "The sentence has 5 blanks, and there is room for 4: fill some in yourself."),
        ("  ", "The sentence is empty: write some words and press Enter."),
        ("[MASK] " * 60, "The sentence has 420 letters, more than 400: write a shorter one."),
    ],
)
def test_a_sentence_that_cannot_be_read_is_answered_with_a_sentence_and_loses_nothing(text, said):
    shown = widget()
    before = shown.static(), shown.answer
    shown._text.value = text
    assert shown._stage.error == said and shown._text.value == text
    assert (shown.static(), shown.answer) == before
    shown._text.value = "return a new [MASK]"
    assert shown._stage.error == ""


def test_a_failure_of_the_model_itself_is_shown_and_raised():
    def breaks(text):
        if text == "a [MASK]":
            raise RuntimeError("no memory")
        return respond(text)

    shown = draw.fill_in(breaks, "return [MASK]")
    before = shown.static()
    with pytest.raises(RuntimeError, match="no memory"):
        shown.ask("a [MASK]")
    assert shown._stage.error == "This picture could not be drawn: RuntimeError: no memory"
    assert shown.static() == before


def test_the_widget_has_three_forms_and_the_same_static_form_twice():
    first, second = widget(title="Fill in"), widget(title="Fill in")
    data, metadata = first._repr_mimebundle_()
    assert set(data) == {WIDGET_VIEW, "image/png", "text/plain"}
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == data["text/plain"] == repr(first)
    assert first.static() == second.static()
    assert {"course-widget", "course-fillin"} <= set(first._dom_classes)


def test_probabilities_may_be_tensors():
    given = answer(choices=[[("list", torch.tensor(0.5)), ("file", torch.tensor(0.25))]])
    assert draw.fill_in(lambda _: given, "[MASK]").answer["choices"] == [[("list", 0.5), ("file", 0.25)]]


# What is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "got NoneType"),
        ({"pieces": []}, r"got \['pieces'\]"),
        (answer(loss=1), "perhaps sentence, got .*loss"),
        (answer(blanks=[]), "rising places among 4 pieces as blanks, got"),
        (answer(blanks=[4]), r"rising places among 4 pieces as blanks, got \[4\]"),
        (answer(blanks=[2, 1]), "rising places"),
        (answer(blanks=[1, 2]), "choices for each of 2 blanks, got 1"),
        (answer(choices=[[]]), "one to 8 choices"),
        (answer(choices=[[("a", 0.01)] * 9]), "one to 8 choices"),
        (answer(choices=[[("a", 0.1), ("b", 0.2)]]), "the likeliest first"),
        (answer(choices=[[("a", 0.9), ("b", 0.2)]]), "sum to 1 at most"),
        (answer(choices=[[("a", float("nan"))]]), "must be finite"),
        (answer(choices=[[("a", "much")]]), "probabilities that respond gave are not right"),
    ],
)
def test_a_wrong_answer_of_respond_is_no_fault_of_the_reader(given, message):
    with pytest.raises(TypeError, match=message):
        draw.fill_in(lambda _: given, "return [MASK]")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": "green [MASK]"}, ValueError, "never saw green"),
        ({"start": "return"}, ValueError, "There is no blank"),
        ({"start": ["[MASK]"]}, TypeError, "as a string, got list"),
        ({"mask": " "}, ValueError, "how a blank is written"),
        ({"alt": " "}, ValueError, "alt text is empty"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(options, error, message):
    with pytest.raises(error, match=message):
        widget(**options)

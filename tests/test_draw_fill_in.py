"""Facts about the widget that fills in the blanks of a reader's own sentence, without a browser."""

import sys

import pytest

import utils.draw as draw

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


def test_the_words_say_the_sentence_and_what_may_be_in_the_blank():
    shown = widget(title="Fill it in")
    assert shown.alt_text() == (
        "Fill it in. “return a new [MASK]” becomes “[CLS] return a new list [SEP]”. Likeliest in the blank: list 61 %, "
        "file 20 %, ##s 5 %, $ <1 %."
    )
    assert widget(title="What fits?").alt_text().startswith("What fits? “return")


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

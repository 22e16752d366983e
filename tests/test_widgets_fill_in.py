"""Facts about the widget that fills in the blanks of a reader's own sentence, without a browser."""

import sys

from utils import widgets

# The package exports a function with the name of this module.
module = sys.modules["utils.widgets.fill_in"]
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
    return widgets.fill_in(respond, start, **options)


# Blanks


def test_blanks_are_read_in_either_case_and_as_lines():
    assert module.with_blanks("return a [mask] of [Mask] [MASK]") == "return a [MASK] of [MASK] [MASK]"
    assert module.with_blanks("a_b __ of ______") == "a_b [MASK] of [MASK]"


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
    shown = widgets.fill_in(lambda text: asked.append(text) or respond(text), "return [MASK]")
    first = shown.static()
    shown._text.value = "a new __ of [MASK]"
    shown._button.click()  # the click took the keyboard from the field, which had sent the sentence already
    assert asked == ["return [MASK]", "a new [MASK] of [MASK]"]
    assert shown.static() != first and shown._stage.state == {"sentence": "a new __ of [MASK]"}
    shown.ask("return [MASK]")
    assert shown.static() == first

"""Facts about the widget that predicts masked tokens of a reader's own sentence, without a browser."""

import sys

from utils import widgets

# The package exports a function with the name of this module.
module = sys.modules["utils.widgets.fill_in"]
GUESSES = [("list", 0.61), ("file", 0.2), ("##s", 0.05), ("$", 0.002)]
KNOWN = {"return", "a", "new", "of", "items", "[MASK]"}


def respond(text):
    """Masked token i is a "list" with a probability that falls with i."""
    tokens = ["[CLS]", *text.split(), "[SEP]"]
    if unknown := [token for token in tokens[1:-1] if token not in KNOWN]:
        raise ValueError(f"Out of vocabulary:\n{', '.join(unknown)}.")
    masked = [position for position, token in enumerate(tokens) if token == "[MASK]"]
    candidates = [[(token, prob / (number + 1)) for token, prob in GUESSES] for number in range(len(masked))]
    return {"tokens": tokens, "masked": masked, "candidates": candidates}


def widget(start="return a new [MASK]", **options):
    return widgets.fill_in(respond, start, **options)


# Masked tokens


def test_masked_tokens_may_be_typed_in_either_case_and_as_underscores():
    assert module.with_masks("return a [mask] of [Mask] [MASK]") == "return a [MASK] of [MASK] [MASK]"
    assert module.with_masks("a_b __ of ______") == "a_b [MASK] of [MASK]"


def test_the_text_form_has_the_sentence_and_the_candidates():
    shown = widget(title="Fill it in")
    assert shown.alt_text() == (
        "Fill it in. “return a new [MASK]” becomes “[CLS] return a new list [SEP]”. Most probable at [MASK]: list 61 %, "
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

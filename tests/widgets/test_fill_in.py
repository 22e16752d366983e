"""Facts about the widget that predicts masked tokens of a reader's own sentence, without a browser."""

import sys

from utils import widgets

# The package exports a function with the name of this module.
module = sys.modules["utils.widgets.fill_in"]


def respond(text):
    tokens = text.split()
    if "green" in tokens:
        raise ValueError("Out of vocabulary:\ngreen.")
    masked = [position for position, token in enumerate(tokens) if token == "[MASK]"]
    return {"tokens": tokens, "masked": masked, "candidates": [[("list", 0.61), ("$", 0.002)]] * len(masked)}


def widget():
    return widgets.fill_in(respond, "return a __", title="Fill it in.")


def test_masked_tokens_may_be_typed_in_either_case_and_as_underscores():
    assert module.with_masks("return a [mask] of [Mask] [MASK]") == "return a [MASK] of [MASK] [MASK]"
    assert module.with_masks("a_b __ of ______") == "a_b [MASK] of [MASK]"


def test_the_text_form_has_the_sentence_and_the_candidates():
    shown = widget()
    assert shown.alt() == "Fill it in. “return a [MASK]”. Most probable at [MASK]: list 61 %, $ <1 %."
    shown.set(text="a __ of [MASK]")
    assert "Most probable at [MASK] 2: list 61 %" in shown.alt() and shown.answer["masked"] == [1, 3]


def test_a_sentence_that_cannot_be_answered_is_answered_with_a_sentence_and_loses_nothing():
    shown = widget()
    first = shown.answer
    refused = {
        "a green [MASK]": "Out of vocabulary: green.",
        "return a list": "The sentence has no masked token: write [MASK] or __ where the model should predict one.",
        "__ " * 5: "The sentence has 5 masked tokens; this widget shows at most 4.",
        " ": "The text is empty: write some words and press Enter.",
    }
    for text, message in refused.items():
        shown.set(text=text)
        assert shown.error == message and shown.answer == first
    shown.set(text="a [MASK]")
    assert shown.error == "" and shown.answer != first

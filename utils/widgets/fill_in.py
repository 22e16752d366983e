"""Masked tokens in a sentence of the reader's own, and the tokens that the model predicts there."""

import re

from utils.plots.parts import percent
from utils.widgets.base import ReaderError, Widget, checked_text
from utils.widgets.controls import control

MASK = "[MASK]"
UNDERSCORES = re.compile(r"_{2,}")  # what people type for a masked token
MAX_MASKED = 4


def fill_in(respond, start, *, title=""):
    """Type a sentence with [MASK] or __, press Enter or the button, and see the tokens that the model predicts there.

    respond(text) is a pure function of a sentence with [MASK]. It returns a dict with "tokens", the n tokens of the sentence,
    "masked", the positions of the masked ones, and "candidates", for each of these up to eight (token, probability), best
    first. The message of a ValueError is shown to the reader.
    """
    return FillIn(respond, start, title)


def example():
    candidates = [("▁cat", 0.55), ("▁dog", 0.25), ("▁bird", 0.1), ("▁house", 0.04), ("s", 0.02), ("▁old", 0.003)]

    def respond(text):
        tokens = ["[CLS]", *(word if word == MASK else f"▁{word}" for word in text.split()), "[SEP]"]
        masked = [position for position, token in enumerate(tokens) if token == MASK]
        return {"tokens": tokens, "masked": masked, "candidates": [candidates[place:] for place in range(len(masked))]}

    return fill_in(respond, "the old __ sees the [MASK]", title="Which tokens are masked?")


class FillIn(Widget):
    """What `fill_in` returns. Input: `text`."""

    script = "fill_in"

    def __init__(self, respond, start, title):
        self._respond = respond
        spec, text = control("text", start, "your sentence")
        super().__init__({"title": title, "controls": [{**spec, "action": "Fill in"}]}, {"text": text}, {"chosen": []})

    def respond(self, text):
        text = with_masks(text)
        try:
            answer = self._respond(text)
        except ValueError as problem:
            raise ReaderError(str(problem) or "The model cannot predict tokens of this sentence.") from problem
        candidates = [[[str(token), round(float(prob), 4)] for token, prob in row] for row in answer["candidates"]]
        return {"text": text, "tokens": answer["tokens"], "masked": answer["masked"], "candidates": candidates}

    def alt(self):
        parts = [self.data["title"], f"“{self.answer['text']}”."]
        for number, candidates in enumerate(self.answer["candidates"], start=1):
            which = f"{MASK} {number}" if len(self.answer["masked"]) > 1 else MASK
            listed = ", ".join(f"{token} {percent(prob)}" for token, prob in candidates)
            parts.append(f"Most probable at {which}: {listed}.")
        return " ".join(part for part in parts if part)


def with_masks(text):
    """The sentence with every masked token written as [MASK], or `ReaderError` if there is none or too many."""
    text = re.sub(re.escape(MASK), MASK, UNDERSCORES.sub(MASK, checked_text(text)), flags=re.IGNORECASE)
    count = text.count(MASK)
    if not count:
        raise ReaderError(f"The sentence has no masked token: write {MASK} or __ where the model should predict one.")
    if count > MAX_MASKED:
        raise ReaderError(f"The sentence has {count} masked tokens; this widget shows at most {MAX_MASKED}.")
    return text

"""Facts about the decoding view: what it asks, what it answers, and what it says in words."""

import numpy as np
import pytest

from utils.widgets import decoding_view
from utils.widgets.decoding import example

TEXT = "the black cat sleeps"


def test_the_alt_text_has_the_step_its_candidates_and_its_attention():
    widget = example()
    widget.view = {"step": 2, "layer": 1, "head": 2}
    assert widget.alt() == (
        "Decoding “the black cat sleeps” to “le noir chat dort”, step 3 of 5. Generated so far: le noir. Next token, with "
        "probabilities: chat 0.600, la 0.300, un 0.000. Attention weights (layer 2, head 3): cat 0.99."
    )
    widget.set(attention="none")
    assert widget.answer["weights"] is None and widget.alt().endswith("There is no attention.")


def test_a_text_that_cannot_be_translated_keeps_the_answer_and_says_why():
    widget = example()
    before = widget.answer
    for text, reason in [
        ("the green cat", "Out of vocabulary: green."),
        (" ", "empty"),
        ("cat " * 200, "800 characters"),
    ]:
        widget.set(text=text)
        assert reason in widget.error and widget.answer == before
    widget.set(text="the cat")
    assert widget.error == "" and widget.answer["sentence"] == "le chat"
    widget.view = widget.view | {"step": 9}  # of a longer sentence
    assert "step 3 of 3" in widget.alt()


def test_a_broken_function_is_shown_and_raised():
    answers = iter(
        [{"source": ["a"], "target": ["b"], "candidates": [[("b", 1.0)]], "weights": [[1.0]], "sentence": "b"}]
    )
    widget = decoding_view(lambda text: next(answers), "a")
    assert widget.answer["weights"]["shape"] == [1, 1, 1, 1]
    with pytest.raises(StopIteration):
        widget.set(text="b")
    assert widget.error.startswith("StopIteration") and widget.answer["text"] == "a"


def test_at_most_five_candidates_are_shown():
    probabilities = np.linspace(0.3, 0, 8)
    answer = {"source": ["a"], "target": ["b"], "weights": None, "sentence": "b"}
    candidates = [[(str(index), probability) for index, probability in enumerate(probabilities)]]
    widget = decoding_view(lambda text: answer | {"candidates": candidates}, "a")
    assert [token for token, _ in widget.answer["candidates"][0]] == list("01234")

"""Facts about `guess_weights`: guess, commit, compare."""

import pytest

from utils.widgets.guess import guess_weights


def test_a_guess_is_scaled_and_compared_after_the_commit():
    widget = guess_weights(list("abc"), [0.7, 0.2, 0.1], "How?")
    widget.set(levels=[100, 50, 50])
    assert widget.answer == {"guess": [0.5, 0.25, 0.25], "truth": None, "distance": None}
    widget.set(committed=True)
    assert widget.answer["truth"] == [0.7, 0.2, 0.1] and widget.answer["distance"] == pytest.approx(0.2)


def test_a_guess_of_zero_everywhere_has_no_answer():
    widget = guess_weights(list("ab"), [0.7, 0.3], "How?")
    widget.set(levels=[0, 0], committed=True)
    assert widget.answer["guess"] is None and widget.answer["truth"] is None


def test_a_saved_notebook_does_not_show_the_truth():
    widget = guess_weights(list("abc"), [0.731, 0.2, 0.069], "How?")
    widget.set(committed=True)
    assert "0.73" not in repr(widget.data) and "0.73" not in repr(widget)


def test_weights_that_are_no_distribution_are_refused():
    with pytest.raises(ValueError, match="sums to at most 1"):
        guess_weights(list("ab"), [0.7, 0.7], "How?")

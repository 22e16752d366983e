"""Facts about `explore`: controls around a function that returns a chart."""

import json

import numpy as np
import pytest

from utils.widgets import ReaderError, charts, explore, log_range, menu
from utils.widgets.controls import control, values


def bars_at(temperature=1.0, hard=False):
    return charts.bars("ab", [1 / temperature, 0] if not hard else [1, 0], f"temperature {temperature}")


def test_the_chart_follows_the_controls_and_the_alt_text_says_their_values():
    widget = explore(bars_at, "Bars.", temperature=(1.0, 5.0, 0.5, 1.0), hard=False)
    widget.set(temperature=4)
    assert widget.answer["values"] == [0.25, 0] and widget.answer["title"] == "temperature 4.0"  # a float, as declared
    assert widget.alt() == "Bars. Now: temperature 4, hard off."


def test_the_alt_text_says_the_label_of_a_choice_and_the_function_gets_its_value():
    seen = []
    given = {"mean of all": -1, "first": 0}
    widget = explore(lambda layer: seen.append(layer) or bars_at(), "Bars.", labels={"layer": "head of"}, layer=given)
    widget.set(layer=0)
    assert widget.alt() == "Bars. Now: head of first." and seen[0] == -1 and seen[-1] == 0


def test_the_alt_text_may_be_a_function_of_the_parameters():
    assert (
        explore(bars_at, lambda temperature: f"At {temperature}.", temperature=(1.0, 2.0, 0.5, 1.5)).alt() == "At 1.5."
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((0, 6, 2, 4), [0, 2, 4, 6]),
        ((0.0, 0.3, 0.1, 0.1), [0.0, 0.1, 0.2, 0.3]),
        (log_range(0.01, 100, 1, steps=4), [0.01, 0.1, 1, 10, 100]),
        (log_range(256, 262144, 4096, steps=2), [256, 8192, 262144]),
        (log_range(1, 1_000_000, 1, steps=4), [1, 31.62, 1000, 31623, 1_000_000]),
        (menu([16, 32, 64], start=64), [16, 32, 64]),
        (True, [False, True]),
        ("some text", None),
    ],
)
def test_every_value_of_a_control_is_known(given, expected):
    spec, _ = control("name", given)
    assert values(spec) == expected


def test_controls_that_are_no_parameters_of_the_function_are_refused():
    with pytest.raises(TypeError, match="does not fit the controls"):
        explore(bars_at, "Bars.", k=(0, 1, 1, 0))


def test_charts_of_all_states_are_stored_where_the_page_cannot_compute_them():
    widget = explore(bars_at, "Bars.", temperature=log_range(1, 9, 3, steps=2), hard=True)
    stored = {key: chart["values"] for key, chart in widget.data["answers"].items()}
    assert len(stored) == 6 and stored['{"hard":false,"temperature":9}'] == [0.1111, 0]
    assert json.loads(json.dumps(widget.page_state()))["data"]["answers"] == widget.data["answers"]


def test_a_text_or_too_many_states_are_left_to_python():
    assert explore(lambda text: bars_at(), "Bars.", text="a").data["answers"] == {}
    assert explore(lambda k: bars_at(), "Bars.", k=(0, 1000, 1, 0)).data["answers"] == {}


def test_a_refused_text_is_answered_with_its_sentence_and_a_failure_with_its_type():
    def checked(text):
        if text == "bad":
            raise ReaderError("Write a word.")
        return charts.bars("a", [1 / len(text)])

    widget = explore(checked, "Bars.", text="good")
    before = widget.answer
    widget.set(text="bad")
    assert widget.error == "Write a word." and widget.answer == before
    with pytest.raises(ZeroDivisionError):
        widget.set(text="")
    assert widget.error.startswith("ZeroDivisionError: ") and widget.answer == before
    widget.set(text="of")
    assert widget.error == "" and widget.answer["values"] == [0.5]


def test_a_chart_of_numbers_that_are_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite"):
        charts.bars("ab", [np.nan, 1])

"""What lesson 08 and the README claim of stored results, held against the results themselves."""

import pytest

from utils.course.results import stored
from utils.course.timing import read_timings
from utils.training.costs import BY_HAND, FUSED, LOCAL
from utils.training.scaling import FAMILY, LARGER


@pytest.mark.parametrize(("kind", "exponent"), [(BY_HAND, 2), (FUSED, 2), (LOCAL, 1)])
def test_time_grows_with_the_length_as_the_formula_says(kind, exponent):
    (row,) = (row for row in stored("length_costs").result["rows"] if row["kind"] == kind and not row["backward"])
    assert abs(row["long_time"]["slope"] - exponent) <= 0.2
    assert max(row["lengths"]) >= 6000


def test_windows_are_blind_beyond_their_reach_and_full_attention_is_not():
    rows = {row["row"]: row for row in stored("long_range").result}
    assert min(rows["full attention"]["by_distance"]) > 99
    assert max(rows["local windows"]["by_distance"][2:]) < 2 * rows["local windows"]["chance"]


def test_the_family_spans_two_orders_of_magnitude_and_the_larger_model_was_foretold():
    found = stored("scaling").result
    assert len(FAMILY) >= 6 and max(found["parameters"]["x"]) > 100 * min(found["parameters"]["x"])
    assert max(found["data"]["x"]) >= 100 * min(found["data"]["x"])
    assert found["larger"]["x"] == LARGER.parameters > 2 * max(found["parameters"]["x"])
    value, low, high = found["larger"]["foretold"]["with floor"]
    assert low < found["larger"]["reached"]["median"] < high
    assert abs(value / found["larger"]["reached"]["median"] - 1) < 0.01


def test_changes_were_compared_over_three_seeds_with_the_same_budget():
    found = stored("modifications").result
    counts = [row["parameters"] for row in found["rows"]]
    assert all(len(row["seeds"]) >= 3 for row in found["rows"]) and max(counts) <= 1.02 * min(counts)


def test_the_published_model_writes_as_fast_as_promised():
    found = stored("smollm2_speed").result
    assert found["pieces_a_second"] >= 8 and min(found["generate"], found["loop"]) >= 1


def test_digits_are_read_with_every_seed():
    rows = {(row["positions"], row["shuffled"]): row["accuracy"] for row in stored("digits").result}
    assert rows["learned", False]["least"] >= 95


def test_the_lesson_runs_in_its_time():
    found = read_timings()["08_cost_and_scale"]
    assert found["seconds"] < 110 and found["mebibytes"] < 4096

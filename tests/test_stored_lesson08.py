"""What lesson 08 says of its stored results beyond its bars, which test_bars holds."""

import pytest

from utils.course.results import stored
from utils.course.timing import read_timings
from utils.training.costs import BY_HAND, FUSED, LOCAL
from utils.training.scaling import FAMILY, LARGER


@pytest.mark.parametrize("kind", [BY_HAND, FUSED, LOCAL])
def test_exponents_were_fitted_up_to_lengths_that_hurt(kind):
    (row,) = (row for row in stored("length_costs").result["rows"] if row["kind"] == kind and not row["backward"])
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
    _, low, high = found["larger"]["foretold"]["with floor"]
    assert low < found["larger"]["reached"]["median"] < high


def test_changes_were_compared_over_three_seeds_with_the_same_budget():
    found = stored("modifications").result
    counts = [row["parameters"] for row in found["rows"]]
    assert all(len(row["seeds"]) >= 3 for row in found["rows"]) and max(counts) <= 1.02 * min(counts)


def test_the_published_model_writes_as_fast_as_the_barest_loop():
    assert stored("smollm2_speed").result["loop"] >= 1


def test_the_lesson_stays_within_4_gib():
    assert read_timings()["08_cost_and_scale"]["mebibytes"] < 4096

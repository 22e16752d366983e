"""What lesson 07 promises, held against what was measured last; the figures stand in the stored results."""

import pytest

from utils.course.results import stored
from utils.course.timing import read_timings


def rows_of(name, key):
    return {row[key]: row for row in stored(name).result["rows"]}


def test_a_next_piece_costs_the_causal_model_half_the_unigrams_perplexity_and_less_than_counting_pairs():
    row = rows_of("pretraining", "objective")["causal"]
    assert row["perplexity"]["median"] <= row["unigram"] / 2
    assert row["perplexity"]["most"] < row["bigram"]


def test_a_minute_is_enough_for_each_objective_with_every_seed():
    assert {name: row["seconds"]["most"] <= 60 for name, row in rows_of("pretraining", "objective").items()} == {
        "masked": True,
        "causal": True,
        "spans": True,
    }


def test_four_labels_are_worth_more_from_a_pretrained_start():
    rows, labels = rows_of("few_labels", "way"), stored("few_labels").result["labels"]
    four = {way: row["mean"][labels.index(4)] for way, row in rows.items()}
    assert four["full"] - four["scratch"] >= 8
    for row in rows.values():
        assert row["mean"] == [pytest.approx(sum(draws) / len(draws), abs=0.1) for draws in row["seeds"]]


def test_fine_tuned_on_reviews_the_published_model_is_right_in_four_of_five_with_every_seed():
    assert rows_of("reviews", "way")["full"]["accuracy"]["least"] >= 80


def test_the_published_model_reads_faster_than_in_its_own_library():
    assert stored("bert_speed").result["geometric_mean"] >= 1.1


def test_the_published_model_says_what_it_says_in_its_own_library():
    parity = stored("bert_parity").result
    assert parity["sentences"] >= 50 and parity["close"] and parity["above"] <= 1e-5
    assert max(parity["largest"]) < 2e-5 and max(parity["largest_in_double"]) < 1e-11


def test_the_lesson_is_over_in_two_minutes_and_3_gib():
    cost = read_timings()["07_pretrain_and_fine_tune"]
    assert cost["seconds"] < 115 and cost["mebibytes"] < 3072

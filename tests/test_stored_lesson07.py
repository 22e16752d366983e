"""What lesson 07 says of its stored results beyond its bars, which test_bars holds."""

import pytest

from utils.course.results import stored
from utils.course.timing import read_timings


def rows_of(name, key):
    return {row[key]: row for row in stored(name).result["rows"]}


def test_a_next_piece_costs_the_causal_model_less_than_counting_pairs_with_every_seed():
    row = rows_of("pretraining", "objective")["causal"]
    assert row["perplexity"]["most"] < row["bigram"]


def test_the_means_over_few_labels_are_those_of_their_draws():
    for row in rows_of("few_labels", "way").values():
        assert row["mean"] == [pytest.approx(sum(draws) / len(draws), abs=0.1) for draws in row["seeds"]]


def test_the_published_model_says_what_it_says_in_its_own_library():
    parity = stored("bert_parity").result
    assert parity["sentences"] >= 50 and parity["close"]
    assert max(parity["largest"]) < 2e-5 and max(parity["largest_in_double"]) < 1e-11


def test_the_lesson_stays_within_3_gib():
    assert read_timings()["07_pretrain_and_fine_tune"]["mebibytes"] < 3072

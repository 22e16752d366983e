"""Facts about the comparison of translation models: what the seeds gave, in the units of the table, with every row."""

import pytest

from tests.benchmarks.translation import (
    CHOICES,
    RECIPES,
    ROWS,
    choices_table,
    entry,
    recipe_table,
    recurrent_table,
    show_choices,
    transformer_rows,
)

SMALL = {"num_steps": 2, "hidden_size": 8, "batch_size": 4, "num_pairs": 60, "num_test": 8}
SMALL_TRANSFORMER = {
    **{"num_steps": 2, "batch_tokens": 60, "num_pairs": 200, "num_test": 8},
    **{"dim": 12, "num_heads": 3, "hidden_dim": 16, "num_layers": 2},
}


def result(exact, aer=0.1):
    quarters = [{"shortest": 3, "longest": 7, "count": 2, "exact": exact}] * 4
    return {
        "exact": exact,
        "bleu": 90.0,
        "alignment_error": aer,
        "alignment_floor": 0.02,
        "parameters": 1000,
        "seconds": 12.34,
        "quarters": quarters,
        "by_length": [{"length": 3, "count": 2, "exact": exact}],
        "loss": [0.0] * 7,
        "longer": {"exact": exact / 2, "bleu": 50.0, "alignment_error": aer},
    }


def test_an_entry_summarizes_its_seeds_in_per_cent():
    row = entry("some model", [result(0.9), result(0.5), result(0.8)])
    assert row["exact"] == {"median": 80.0, "least": 50.0, "most": 90.0}
    assert row["alignment_error"]["median"] == 10.0 and row["alignment_floor"] == 2.0
    assert row["longer"]["exact"] == {"median": 40.0, "least": 25.0, "most": 45.0}
    assert row["quarters"][0] == {"words": "3 to 7", "exact": 80.0, "exact_of_seeds": [90.0, 50.0, 80.0]}
    assert row["by_length"] == [{"length": 3, "exact": pytest.approx(73.3)}]
    assert (row["seeds"], row["steps"], row["parameters"]["median"]) == (3, 7, 1000)


def test_a_small_run_has_every_row():
    rows = recurrent_table(1, **SMALL)
    assert [row["name"] for row in rows] == [name for name, *_ in ROWS]
    assert all(row["steps"] == 2 and len(row["quarters"]) == 4 for row in rows)


def test_a_small_table_of_choices_has_every_row():
    small = {"num_steps": 2, "hidden_size": 8, "batch_size": 4, "num_test": 8}
    rows = choices_table(1, [(score, cell, 60, pretrained) for score, cell, _, pretrained in CHOICES], **small)
    assert [(row["score"], row["cell"], row["skipgram"]) for row in rows] == [(a, b, d) for a, b, _, d in CHOICES]
    assert [row[3] for row in show_choices(rows).rows].count("skip-gram") == 2


def test_the_transformer_has_a_row_of_the_same_form():
    (row,) = transformer_rows(2, count=12, **SMALL_TRANSFORMER)
    (recurrent,) = recurrent_table(1, ROWS[-1:], **SMALL)
    assert recurrent.keys() <= row.keys() and (row["name"], row["seeds"], row["steps"]) == ("Transformer", 2, 2)
    assert len(row["alignment_heads"]) == len(row["roles"]) == 2 and row["alignment_error"]["least"] > 1
    for roles in row["roles"]:
        assert 1 < roles["negation"]["uniform"] < 20 and roles["negation"]["count"] > 20
        assert [row["attention"] for row in roles["agreement"]] == ["encoder", "decoder", "cross"]


def test_a_small_table_of_recipes_has_every_row():
    rows = recipe_table(1, **SMALL_TRANSFORMER)
    assert [row["name"] for row in rows] == [name for name, _ in RECIPES]
    assert rows[1]["parameters"]["median"] < rows[0]["parameters"]["median"], "tying saves a matrix"
    assert all(row["steps"] == 2 and 0 < row["words"]["confidence"] < 100 for row in rows)
    assert all(0 <= row["seconds"]["least"] <= row["seconds"]["most"] < 60 for row in rows)

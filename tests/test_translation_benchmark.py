"""Facts about the comparison of translation models: what the seeds gave, in the units of the table, with every row."""

import pytest

from tests.benchmarks import translation
from tests.benchmarks.translation import (
    CHOICES,
    MODELS,
    RECIPES,
    choices_table,
    entry,
    recipe_table,
    show_choices,
    translation_table,
    warmup_table,
)
from tests.benchmarks.translation_speed import COMPARED, length_speed, training_speed
from utils.training import cache

SIZES = {"dim": 12, "num_heads": 3, "hidden_dim": 16, "num_layers": 2}
SMALL = {
    **{"epochs": 2, "num_pairs": 200, "num_test": 8, "count": 12},
    **{"recurrent": {"hidden_size": 8, "batch_size": 64}, "transformer": {"batch_tokens": 600, **SIZES}},
}
SMALL_TRANSFORMER = {
    **{"num_steps": 2, "batch_tokens": 60, "num_pairs": 200, "num_test": 8},
    **SIZES,
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


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str(tmp_path_factory.mktemp("trained")))
        table = translation_table(2, **SMALL)
        again = list(cache.cache_folders()[0].glob(f"*{cache.SUFFIX}"))
        patch.setattr(translation, "entry", lambda name, results: {"results": results})
        resumed = translation_table(2, ("dot attention",), **SMALL)
        assert list(cache.cache_folders()[0].glob(f"*{cache.SUFFIX}")) == again, "an interrupted run continues"
        assert len(resumed["rows"][0]["results"]) == 2
    return table


def test_every_model_sees_every_pair_equally_often(small):
    assert [row["name"] for row in small["rows"]] == list(MODELS)
    assert (small["epochs"], small["pairs"]) == (2, 400) and small["target_tokens"] > 2 * 200 * 5
    recurrent, transformers = small["rows"][:4], small["rows"][4:]
    assert {row["steps"] for row in recurrent} == {2 * 4}, "200 pairs are four batches of at most 64"
    assert len({row["steps"] for row in transformers}) == 1 and transformers[0]["steps"] % 2 == 0
    assert all(len(row["quarters"]) == 4 and row["seeds"] == 2 for row in small["rows"])


def test_rows_of_transformers_say_which_heads_align_and_attend(small):
    for row in small["rows"]:
        if "Transformer" not in row["name"]:
            assert "roles" not in row
            continue
        assert len(row["alignment_heads"]) == len(row["roles"]) == 2 and row["alignment_error"]["least"] > 1
        for roles in row["roles"]:
            assert 1 < roles["negation"]["uniform"] < 20 and roles["negation"]["count"] > 20
            assert [row["attention"] for row in roles["agreement"]] == ["encoder", "decoder", "cross"]


def test_the_time_of_a_training_is_its_tokens_at_the_measured_speed():
    rows = training_speed(("no attention", "Transformer"), epochs=1, num_steps=2, rounds=1)
    assert [row["name"] for row in rows] == ["no attention", "Transformer"]
    tokens = [row["seconds"] * row["tokens_per_second"] for row in rows]
    rounding = sum(0.05 * row["tokens_per_second"] + 0.5 * row["seconds"] for row in rows)
    assert tokens[0] == pytest.approx(tokens[1], abs=rounding), "the same target tokens"


def test_speed_is_measured_for_both_models_at_every_length():
    rows = length_speed((4, 8), step_tokens=16, batch=2, num_steps=1, rounds=1)
    assert [row["length"] for row in rows] == [4, 8]
    assert all(row[what].keys() == COMPARED.keys() for row in rows for what in ("training", "decoding"))


def test_warmup_is_compared_at_every_depth_in_both_norm_orders(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    rows = warmup_table(1, (1, 2), last=2, num_steps=4, num_pairs=300)
    assert [(row["norm"], row["warmup"], row["layers"]) for row in rows] == [
        (norm, warmup, layers) for norm in ("pre", "post") for warmup in (1, 0) for layers in (1, 2)
    ]
    assert all(row["steps"] == 4 and len(row["losses"]) == 1 for row in rows)


def test_a_small_table_of_choices_has_every_row():
    small = {"num_steps": 2, "hidden_size": 8, "batch_size": 4, "num_test": 8}
    rows = choices_table(1, [(score, cell, 60, pretrained) for score, cell, _, pretrained in CHOICES], **small)
    assert [(row["score"], row["cell"], row["skipgram"]) for row in rows] == [(a, b, d) for a, b, _, d in CHOICES]
    assert [row[3] for row in show_choices(rows).rows].count("skip-gram") == 2


def test_a_small_table_of_recipes_has_every_row():
    rows = recipe_table(1, **SMALL_TRANSFORMER)
    assert [row["name"] for row in rows] == [name for name, _ in RECIPES]
    assert rows[1]["parameters"]["median"] < rows[0]["parameters"]["median"], "tying saves a matrix"
    assert all(row["steps"] == 2 and 0 < row["words"]["confidence"] < 100 for row in rows)
    assert all(0 <= row["seconds"]["least"] <= row["seconds"]["most"] < 60 for row in rows)

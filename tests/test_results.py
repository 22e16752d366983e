"""Facts about stored results: what is shown says where it comes from, and nothing is shown that was not measured."""

import json

import pytest
import torch

from tests.benchmarks import __main__ as bench
from utils.course import build
from utils.course.results import RESULTS, Stored, Table, store, stored


def test_a_stored_result_comes_back_with_machine_and_date(tmp_path):
    store("speeds", [{"seconds": 1.5}], tmp_path)
    back = stored("speeds", tmp_path)
    assert back.result == [{"seconds": 1.5}]
    assert back.date in back.label and back.machine in back.label and "Stored" in back.label
    assert back.threads == torch.get_num_threads()
    assert [file.name for file in tmp_path.iterdir()] == ["speeds.json"]


def test_the_label_says_how_many_threads():
    assert (
        ", one thread, by" in Stored("a", "m", "d", 1).label and ", 2 threads, by" in Stored("a", "m", "d", 1, 2).label
    )


def test_a_missing_result_says_which_there_are_and_how_to_measure_it(tmp_path):
    store("speeds", 1, tmp_path)
    with pytest.raises(FileNotFoundError, match="there are: speeds.*tests.benchmarks errors"):
        stored("errors", tmp_path)


def test_a_measurement_that_fails_leaves_the_older_result(tmp_path, monkeypatch):
    store("regression", "old", tmp_path)

    def fails():
        raise RuntimeError("out of luck")

    monkeypatch.setitem(bench.BENCHMARKS, "regression", fails)
    with pytest.raises(RuntimeError):
        bench.main(["regression"], tmp_path)
    assert stored("regression", tmp_path).result == "old"


def test_one_benchmark_can_be_measured_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(bench.BENCHMARKS, "regression", lambda: {"error": 0.5})
    bench.main(["regression"], tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["regression.json"]
    assert stored("regression", tmp_path).result == {"error": 0.5}


def test_an_unknown_benchmark_is_refused_before_anything_is_measured(tmp_path, capsys):
    with pytest.raises(SystemExit):
        bench.main(["regression", "nonsense"], tmp_path)
    assert "got nonsense" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_every_benchmark_has_a_stored_result_and_every_stored_result_a_benchmark():
    assert {file.stem for file in RESULTS.glob("*.json")} == set(bench.BENCHMARKS)


def test_a_table_shows_all_figures_in_both_forms_and_escapes_them():
    table = Table(("task", "error"), (("1 & 2", 0.1), ("<16>", "12.5")), "from a run")
    assert table.text() == "task   error\n1 & 2  0.1\n<16>   12.5\nfrom a run"
    for part in ("1 &amp; 2", "&lt;16&gt;", "12.5", "from a run"):
        assert part in table.html()
    assert set(table._repr_mimebundle_()) == {"text/html", "text/plain"}


def test_a_row_with_a_column_too_few_is_refused():
    with pytest.raises(ValueError, match="expected 2 columns"):
        Table(("task", "error"), (("1",),))


def test_a_lesson_depends_on_the_stored_results_it_shows(tmp_path):
    shop = build.Shop(tmp_path)
    shop.sources.mkdir(parents=True)
    shop.source("01_sums").write_text(
        '# %%\nfrom utils.course.results import stored\nstored("speeds")\n', encoding="utf-8"
    )
    folder = tmp_path / "tests/benchmarks/results"
    folder.mkdir(parents=True)
    keys = set()
    for result in (1, 2):
        (folder / "speeds.json").write_text(json.dumps(result), encoding="utf-8")
        keys.add(build.lesson_key("01_sums", build.read_lesson("01_sums", shop), shop))
    assert len(keys) == 2

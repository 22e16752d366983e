"""Facts about `make bench`: what it records, and what the quick run may touch."""

import dataclasses
import datetime
import inspect
import time

import pytest
import torch

from tests.benchmarks import __main__ as bench
from tests.benchmarks import suite
from tests.benchmarks.benchmark import Benchmark, Shown
from utils.build.results import RESULTS, read_entry, store, stored


def shown(result):
    return Shown("A title", "A caption.", ("model", "error"), [("ours", result), ("theirs", 9)])


@pytest.fixture
def regression(monkeypatch):
    """The name of a benchmark that takes no time."""
    made = Benchmark("regression", "01", lambda seeds=20: seeds, shown, {"seeds": 2}, packages=("numpy",))
    monkeypatch.setitem(bench.BENCHMARKS, "regression", made)
    return made


def test_every_benchmark_has_a_stored_result_and_every_stored_result_a_benchmark():
    assert {file.stem for file in RESULTS.glob("*.json")} == set(bench.BENCHMARKS)


def test_a_result_says_where_with_which_versions_and_how_long_it_was_measured(tmp_path, regression):
    before = torch.get_num_threads()
    try:
        bench.measure(dataclasses.replace(regression, threads=2), tmp_path)
    finally:
        torch.set_num_threads(before)
    entry = read_entry(tmp_path / "regression.json")
    assert entry["processor"] == bench.processor() != "" and entry["versions"].keys() == {"numpy"}
    assert entry["threads"] == 2 and entry["seconds"] >= 0 and entry["lesson"] == "01"
    assert entry["rows"] == [["ours", "20"], ["theirs", "9"]] and entry["result"] == 20


def test_a_busy_machine_is_recorded_and_reported(tmp_path, monkeypatch, capsys, regression):
    for worked, warned in ((0.05, False), (1.2, True)):
        works = iter([10.0, 10.0 + worked])
        monkeypatch.setattr(bench, "work_of_others", lambda works=works: next(works))
        bench.measure(dataclasses.replace(regression, measure=lambda: time.sleep(1.1)), tmp_path)
        others = read_entry(tmp_path / "regression.json")["others"]
        assert others == pytest.approx(worked / 1.1, rel=0.5) and ("not quiet" in capsys.readouterr().out) == warned


def test_a_measurement_that_fails_leaves_the_older_result(tmp_path, monkeypatch, regression):
    store("regression", "old", tmp_path)

    def fails():
        raise RuntimeError("no memory left")

    monkeypatch.setitem(bench.BENCHMARKS, "regression", dataclasses.replace(regression, measure=fails))
    with pytest.raises(RuntimeError):
        bench.main(["regression"], tmp_path)
    assert stored("regression", tmp_path).result == "old"


def test_a_benchmark_without_its_files_keeps_the_older_result(tmp_path, monkeypatch, capsys, regression):
    store("regression", "old", tmp_path)
    monkeypatch.setitem(bench.BENCHMARKS, "regression", dataclasses.replace(regression, needs=bench.ROOT / "nowhere"))
    bench.main(["regression"], tmp_path)
    assert stored("regression", tmp_path).result == "old" and "there is no nowhere" in capsys.readouterr().out


def test_a_run_that_ended_goes_on_with_what_was_not_measured_since(tmp_path, regression):
    store("regression", "old", tmp_path)
    today = datetime.date.today()
    bench.main(["regression", "--before", today.isoformat()], tmp_path)
    assert stored("regression", tmp_path).result == "old"
    bench.main(["regression", "--before", (today + datetime.timedelta(days=1)).isoformat()], tmp_path)
    assert stored("regression", tmp_path).result == 20


def test_the_tests_of_make_test_are_grouped_by_their_modules():
    modules = ("tests.test_attention", "tests.browser.test_site", "notebooks.00.ipynb")
    assert [suite.group_of(name) for name in modules] == [suite.LIBRARY, suite.BROWSER, suite.NOTEBOOKS]


def test_the_quick_run_leaves_stored_results_alone_and_prints_both(tmp_path, monkeypatch, capsys, regression):
    before = {file: file.stat().st_mtime_ns for file in RESULTS.iterdir()}
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    bench.main(["--quick", "regression"])
    assert stored("regression", tmp_path).result == 2
    assert {file: file.stat().st_mtime_ns for file in RESULTS.iterdir()} == before
    assert "quick  ours    2" in capsys.readouterr().out


def test_the_settings_of_the_quick_run_are_arguments_of_the_measurement():
    for benchmark in bench.BENCHMARKS.values():
        inspect.signature(benchmark.measure).bind(**benchmark.quick)

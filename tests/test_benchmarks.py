"""Facts about `make bench`: what it records, what the quick run may touch, and that new measurements measure what they say."""

import collections
import json
import os
import time

import pytest
import torch
from torch import nn

from tests.benchmarks import __main__ as bench
from tests.benchmarks import growth, lab_start, peak, quick, widgets
from utils.course import readme
from utils.course.places import WORK
from utils.course.results import RESULTS, Stored, store, stored


def shown(part, monkeypatch, **results):
    """What the README would say of these results, as they come back from their files."""
    results = json.loads(json.dumps(results))
    monkeypatch.setattr(readme, "stored", lambda name: Stored(name, "2 cores", "2026-01-02", results[name]))
    return "\n\n".join(part())


# What is recorded


def test_a_result_says_on_which_processor_with_which_versions_and_how_long(tmp_path):
    bench.measure("bert_speed", lambda: {"rows": []}, tmp_path)
    entry = json.loads((tmp_path / "bert_speed.json").read_text(encoding="utf-8"))
    assert entry["processor"] == bench.processor() != ""
    assert entry["versions"].keys() == {"transformers"} and entry["seconds"] >= 0
    assert entry["threads"] == 1 and stored("bert_speed", tmp_path).result == {"rows": []}


@pytest.mark.parametrize(("worked", "told"), [(0.05, False), (1.2, True)])
def test_a_machine_that_is_not_quiet_is_told(worked, told, tmp_path, monkeypatch, capsys):
    works = iter([10.0, 10.0 + worked])
    monkeypatch.setattr(bench, "work_of_others", lambda: next(works))
    bench.measure("regression", lambda: time.sleep(1.1), tmp_path)
    others = json.loads((tmp_path / "regression.json").read_text(encoding="utf-8"))["others"]
    assert others == pytest.approx(worked / 1.1, rel=0.5) and ("not quiet" in capsys.readouterr().out) == told


def test_own_work_and_that_of_children_is_not_the_work_of_others(monkeypatch):
    times = collections.namedtuple("times", "user system idle iowait guest steal")(5.0, 1.0, 100.0, 30.0, 2.0, 0.5)
    monkeypatch.setattr(bench.psutil, "cpu_times", lambda: times)
    monkeypatch.setattr(bench.os, "times", lambda: os.times_result((1.0, 0.5, 0.25, 0.25, 999.0)))
    assert bench.work_of_others() == pytest.approx(6.5 - 2.0)


def test_threads_are_those_of_the_benchmark(tmp_path):
    before = torch.get_num_threads()
    try:
        for name, threads in (("transformer_speed", 2), ("regression", 1)):
            bench.measure(name, lambda: 1, tmp_path)
            assert stored(name, tmp_path).threads == threads
    finally:
        torch.set_num_threads(before)


def test_settings_name_benchmarks_that_there_are():
    assert {*bench.THREADS, *bench.PACKAGES} <= set(bench.BENCHMARKS)


def test_progress_is_shown_with_the_time_it_took_the_last_time(tmp_path, monkeypatch, capsys):
    for name in ("regression", "digits"):
        monkeypatch.setitem(bench.BENCHMARKS, name, lambda: 1)
    store("regression", 0, tmp_path)  # an older file, without seconds
    bench.main(["regression", "digits"], tmp_path)
    assert "[1/2] regression ...\n    stored after 0 s" in (said := capsys.readouterr().out) and "[2/2] digits" in said
    bench.main(["digits"], tmp_path)
    assert "[1/1] digits, 0 s the last time ..." in capsys.readouterr().out
    assert bench.in_words(99.4) == "99 s" and bench.in_words(180) == "3 min"


def test_the_readme_names_processor_and_versions_where_they_are_recorded(tmp_path):
    store("regression", 1, tmp_path)  # an older file, with neither
    (said,) = readme.files_part(tmp_path)
    assert "machine and versions. `make bench`" in said
    bench.measure("bert_speed", lambda: 1, tmp_path)
    (said,) = readme.files_part(tmp_path)
    assert f"({bench.processor()}; transformers " in said


# The quick run


def test_every_benchmark_has_a_quick_form():
    assert set(quick.QUICK) == set(bench.BENCHMARKS)


def test_the_figures_of_the_quick_form_stand_in_the_stored_results():
    names = [name for name in quick.QUICK if (RESULTS / f"{name}.json").exists()]
    assert len(names) > 20
    for name in names:
        for path in quick.QUICK[name].figures:
            found = quick.figure(stored(name).result, path)
            assert isinstance(found, int | float), f"{name}: {quick.said(path)} leads to {found!r}"


def test_the_quick_run_leaves_stored_results_alone_and_shows_both(tmp_path, monkeypatch, capsys):
    before = {file: file.stat().st_mtime_ns for file in RESULTS.iterdir()}
    path = ({"model": "learned, each point hidden from itself"}, "error")
    rows = [{"model": "another", "error": 9.0}, {"model": path[0]["model"], "error": 0.125}]
    monkeypatch.setitem(quick.QUICK, "regression", quick.Quick(lambda: rows, [path], "one row"))
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    bench.main(["--quick", "regression"])
    assert [file.name for file in tmp_path.iterdir()] == ["regression.json"]
    assert {file: file.stat().st_mtime_ns for file in RESULTS.iterdir()} == before
    full = quick.figure(stored("regression").result, path)
    assert (
        f"regression  learned, each point hidden from itself, error  0.125  {full:g}   one row"
        in capsys.readouterr().out
    )


def test_a_result_that_nobody_stored_stands_alone(tmp_path):
    store("seeds_at_once", {"gain": 3.0}, tmp_path / "quick")
    assert quick.compared(["seeds_at_once"], tmp_path / "quick", tmp_path).rows == (
        ("seeds_at_once", "gain", "3", "none", ""),
    )


def test_a_figure_of_no_row_or_of_two_is_refused():
    rows = [{"a": 1, "b": 2.0}, {"a": 1, "b": 3.0}]
    for wanted in (1, 5):
        with pytest.raises(ValueError):
            quick.figure(rows, ({"a": wanted}, "b"))


SEEDS = 20


def seen():
    return SEEDS


def test_a_smaller_benchmark_has_other_settings_only_while_it_runs():
    assert quick.smaller(seen, SEEDS=2)() == 2 and seen() == 20
    with pytest.raises(AttributeError):
        quick.smaller(seen, SEDES=2)()


# The share of the peak


def test_operations_are_two_for_each_multiplication_forward_and_backward():
    layer, x = nn.Linear(5, 7, bias=False), torch.randn(3, 5, requires_grad=True)
    assert peak.operations(lambda: layer(x)) == 2 * 3 * 5 * 7
    assert peak.operations(lambda: layer(x).sum().backward()) == 3 * 2 * 3 * 5 * 7


def test_the_products_inside_the_fused_attention_count():
    query = torch.randn(2, 3, 4, 5)
    found = peak.operations(lambda: torch.nn.functional.scaled_dot_product_attention(query, query, query))
    assert found == 2 * (2 * 2 * 3 * 4 * 4 * 5)


def test_a_step_trains_and_its_share_is_what_its_figures_say(monkeypatch):
    monkeypatch.setattr(peak, "STEPS", {"small": lambda: peak.causal_step(2, 8)})
    before = torch.get_num_threads()
    (row,) = peak.peak_share((1,), (64, 128), rounds=2)
    assert torch.get_num_threads() == before
    assert row["reached"] == pytest.approx(1000 * row["gigaflop"] / row["ms"], rel=0.05)
    assert row["share"] == pytest.approx(100 * row["reached"] / row["peak"], abs=1)
    assert "| small | 1 |" in shown(readme.peak_part, monkeypatch, peak_share=[row])


def test_the_step_of_lesson_06_multiplies_more_for_more_sentences():
    one, two = (peak.operations(peak.transformer_step(batch, 6)) for batch in (2, 4))
    assert two == 2 * one > 1e6


# Growth


def test_the_exponent_of_a_cost_is_found_over_all_sizes_and_over_the_larger_half():
    row = growth._row("it", "size", {size: 0.001 * size**2 + 0.004 * size for size in (1, 2, 4, 100, 200, 400)})
    assert 1 < row["all"]["slope"] < row["larger"]["slope"] == pytest.approx(2, abs=0.05)
    assert row["ms"][:2] == [5, 12]


def test_a_small_table_of_growth_has_every_row(monkeypatch):
    rows = growth.growth_table((8, 16, 24), (1, 2, 3), (3, 6, 9), (1, 2, 3), repeats=1)
    assert [row["sizes"] for row in rows] == [[8, 16, 24], [1, 2, 3], [3, 6, 9], [1, 2, 3]]
    said = shown(readme.growth_part, monkeypatch, growth=rows)
    assert "| width | 8 to 24 |" in said and "| notebooks | 1 to 3 |" in said


def test_every_one_of_so_many_notebooks_is_checked(monkeypatch, tmp_path):
    """By counting: one turn's seconds say little in a process that collects garbage now and then."""
    checked, looked = growth.build.check_in_sync, []
    monkeypatch.setattr(growth.build, "check_in_sync", lambda name, shop: looked.append(name) or checked(name, shop))
    for count, run in growth.notebook_runs((1, 3), tmp_path).items():
        looked.clear()
        run()
        assert len(set(looked)) == len(looked) == count


def test_a_copy_that_is_out_of_step_is_not_measured(tmp_path):
    run = growth.notebook_runs((1,), tmp_path)[1]
    run()
    (source,) = (tmp_path / "notebooks/src").iterdir()
    source.write_text(source.read_text(encoding="utf-8") + "\n# %%\n1 + 1\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="in step"):
        run()


# Waiting


def test_the_lab_starts_and_runs_its_first_cell_without_touching_anybodys_work(monkeypatch):
    before = sorted(WORK.rglob("*")) if WORK.exists() else None
    found = lab_start.lab_start(1)
    assert 0 < found["server"]["median"] < found["kernel"]["median"] < found["first_cell"]["median"]
    assert (sorted(WORK.rglob("*")) if WORK.exists() else None) == before
    rows = [
        {
            "widget": "explore",
            "changed": "a slider",
            "drawn_by": "kernel",
            "answer": {"median": 12.4, "worst": 30.0},
            "picture": None,
        }
    ]
    said = shown(readme.waiting_part, monkeypatch, lab_start=found, widgets=rows)
    assert f"first cell has run: {found['first_cell']['median']:.1f} s" in said
    assert "| explore | a slider | kernel | 12, 30 |  |" in said


def test_an_environment_that_is_not_ready_is_not_measured(monkeypatch):
    monkeypatch.setattr(lab_start.bootstrap, "is_ready", lambda level: False)
    with pytest.raises(RuntimeError, match="make setup"):
        lab_start.lab_start(1)


def test_a_first_cell_that_fails_is_told():
    class Client:
        def execute_interactive(self, code, **options):
            return {"content": {"status": "error", "ename": "ModuleNotFoundError"}}

    with pytest.raises(RuntimeError, match="ModuleNotFoundError"):
        lab_start._run(Client(), "import nothing")


@pytest.mark.parametrize("kind", widgets.KINDS)
def test_what_is_timed_changes_what_the_widget_shows(kind):
    cell, _, changes_of, drawn_by = widgets.KINDS[kind]
    widget = widgets.shown(cell)
    part = widget._stage if drawn_by == widgets.KERNEL else widget
    for change in changes_of(widget)[:4]:
        before = part.get_state()
        change()
        after = part.get_state()
        assert after != before, change
        assert after.get("error", "") == ""


def test_widgets_are_timed_in_a_kernel_of_their_own():
    (row,) = widgets.widget_response(1, ("plane",))
    assert (row["widget"], row["changes"]) == ("plane", 25)
    for times in (row["answer"], row["picture"]):
        assert 0 < times["median"] <= times["worst"]
    assert row["answer"]["median"] < row["picture"]["median"], "the answer is numbers, the picture is drawn"

"""Measure everything, or what is named, and write the stored results; `make bench` also writes docs/results.md.

python -m tests.benchmarks                 all of it
python -m tests.benchmarks memory_table    this one alone; the others stay as they are
python -m tests.benchmarks --quick         all of it with small settings, to a folder of its own, next to the stored figures
python -m tests.benchmarks --before 2026-11-19          only what was last measured before that day: goes on where a run ended
python -m tests.benchmarks --show          measure nothing: write titles, captions, tables and targets again from the stored results
"""

import argparse
import datetime
import os
import platform
import re
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import psutil
import torch

from tests.benchmarks import (
    attention,
    bert_speed,
    costs,
    encoder_speed,
    few_pairs,
    fine_tuning,
    growth,
    heads,
    in_context,
    memory,
    open_transformer_speed,
    peak,
    pretraining,
    real_tasks,
    regression,
    scaling,
    self_attention,
    smollm2_speed,
    story_encoder,
    suite,
    transformer_speed,
    translation,
    translation_speed,
    waiting,
    widget_speed,
)
from tests.benchmarks.benchmark import Benchmark
from utils.build.results import RESULTS, Table, read_entry, store, write_entry
from utils.paths import ROOT

MODULES = (
    *(attention, regression, memory, translation, translation_speed, self_attention, heads, story_encoder),
    *(encoder_speed, transformer_speed, peak, pretraining, few_pairs, fine_tuning, real_tasks, bert_speed),
    *(costs, scaling, smollm2_speed, in_context, widget_speed, open_transformer_speed),
    *(growth, waiting, suite),
)
BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for module in MODULES for benchmark in module.BENCHMARKS}

FOLDER = ROOT / ".cache" / "bench-quick"
QUIET = 0.15  # cores that other programs may use


def main(given: Sequence[str] | None = None, folder: Path | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help=f"small settings; written to {FOLDER}")
    parser.add_argument(
        "--before",
        metavar="DATE",
        type=datetime.date.fromisoformat,
        help="only results measured before this day, 2026-11-19 for example",
    )
    parser.add_argument("--show", action="store_true", help="tables from the stored results, without measuring")
    options = parser.parse_args(given)
    names = options.names or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"expected a name among {', '.join(BENCHMARKS)}, got {name}")
    folder = folder or (FOLDER if options.quick else RESULTS)
    if options.before:
        names = [name for name in names if _date(folder / f"{name}.json") < options.before.isoformat()]
    if options.show:
        for name in names:
            write_entry(folder / f"{name}.json", shown_again(BENCHMARKS[name], folder))
        return
    start = time.perf_counter()
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}{_last_time(folder / f'{name}.json')} ...", flush=True)
        needs = BENCHMARKS[name].needs
        if needs and not needs.is_dir():
            print(f"    not measured: there is no {needs.relative_to(ROOT)}; the stored result stays")
            continue
        seconds = measure(BENCHMARKS[name], folder, options.quick)
        print(f"    stored after {in_words(seconds)}, {in_words(time.perf_counter() - start)} in all", flush=True)
        if options.quick:
            print(compared(name, folder).text(), flush=True)


def measure(benchmark: Benchmark, folder: Path, quick: bool = False) -> float:
    """Run a benchmark and store its result, with its table, the processor, the versions, and the seconds that it took.

    others: how many cores other programs kept busy meanwhile, on average. With half a core of theirs, timings are worthless.
    """
    torch.set_num_threads(benchmark.threads)
    start, before = time.perf_counter(), work_of_others()
    result = benchmark.measure(**(benchmark.quick if quick else {}))
    seconds = time.perf_counter() - start
    others = max(0.0, work_of_others() - before) / max(seconds, 0.01)
    if others > QUIET and seconds > 1:
        print(f"    not quiet: other programs kept {others:.1f} cores busy; measure again if this is about time")
    store(
        benchmark.name,
        result,
        folder,
        lesson=benchmark.lesson,
        **benchmark.show(result).as_facts(),
        processor=processor(),
        versions={package: version(package) for package in benchmark.packages},
        seconds=round(seconds, 1),
        others=round(others, 2),
    )
    return seconds


def shown_again(benchmark: Benchmark, folder: Path = RESULTS) -> dict:
    """The entry of a results file with its table computed again from the raw result."""
    entry = read_entry(folder / f"{benchmark.name}.json")
    facts = {"lesson": benchmark.lesson} | benchmark.show(entry["result"]).as_facts()
    return facts | {name: value for name, value in entry.items() if name not in facts}


def compared(name: str, folder: Path, full: Path = RESULTS) -> Table:
    """The table of the quick run, and the rows of the stored one that begin alike. Fewer steps and seeds mean lower scores."""
    quick = read_entry(folder / f"{name}.json")
    columns, firsts = quick["columns"], {row[0] for row in quick["rows"]}
    rows = [("quick", *row) for row in quick["rows"]]
    if (full / f"{name}.json").exists():
        entry = read_entry(full / f"{name}.json")
        found = [dict(zip(entry["columns"], row, strict=True)) for row in entry["rows"] if row[0] in firsts]
        rows += [("stored", *(row.get(column, "") for column in columns)) for row in found]
    return Table(("", *columns), rows)


def work_of_others() -> float:
    """Seconds that all cores together have worked for programs other than this one and its children."""
    times = psutil.cpu_times()._asdict()
    # The work of guests of this machine is counted with the user's already.
    idle = ("idle", "iowait", "guest", "guest_nice")
    return sum(value for name, value in times.items() if name not in idle) - sum(os.times()[:4])


def processor() -> str:
    """The processor as the system names it."""
    file = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", file.read_text(encoding="utf-8"), re.M) if file.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _date(file: Path) -> str:
    """When a result was measured; of one that does not exist, before any day."""
    return read_entry(file)["date"] if file.exists() else ""


def _last_time(file: Path) -> str:
    """How long it took the last time, if that is known."""
    seconds = read_entry(file).get("seconds") if file.exists() else None
    return "" if seconds is None else f", {in_words(seconds)} the last time"


def in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    main()

"""Measure everything, or what is named, and write the stored results; `make bench` also writes the README's tables.

python -m tests.benchmarks                 all of it
python -m tests.benchmarks memory_table    this one alone; the others stay as they were
python -m tests.benchmarks --quick         all of it with small settings, to a folder of its own, beside the stored figures
"""

import argparse
import json
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

from tests.benchmarks.attention import attention_costs
from tests.benchmarks.bert_speed import bert_parity, bert_speed
from tests.benchmarks.costs import cost_table, digits_table, long_range_table
from tests.benchmarks.encoder_speed import encoder_layer_speed
from tests.benchmarks.growth import growth_table
from tests.benchmarks.heads import (
    depth_table,
    head_cost_table,
    heads_table,
    norm_table,
    one_layer_table,
    two_places_table,
)
from tests.benchmarks.lab_start import lab_start
from tests.benchmarks.memory import memory_seeds_at_once, memory_table
from tests.benchmarks.peak import peak_share
from tests.benchmarks.pretraining import few_labels_table, pretraining_table, tasks_table, why_table
from tests.benchmarks.quick import FOLDER, QUICK, compared
from tests.benchmarks.real_tasks import published_tasks_table, reviews_table
from tests.benchmarks.regression import regression_table, seeds_at_once
from tests.benchmarks.scaling import modifications_table, scaling_table
from tests.benchmarks.self_attention import language_model_table, order_table
from tests.benchmarks.smollm2_speed import smollm2_speed
from tests.benchmarks.transformer_speed import transformer_speed
from tests.benchmarks.translation import ladder_table, recipe_table, transformer_rows
from tests.benchmarks.widgets import widget_response
from utils.course.results import RESULTS, store

BENCHMARKS: dict[str, Callable] = {
    "attention_costs": attention_costs,
    "regression": regression_table,
    "seeds_at_once": seeds_at_once,
    "memory_table": memory_table,
    "memory_seeds_at_once": memory_seeds_at_once,
    "ladder": ladder_table,
    "order_task": order_table,
    "language_model": language_model_table,
    "two_places": two_places_table,
    "heads": heads_table,
    "heads_one_layer": one_layer_table,
    "head_costs": head_cost_table,
    "depth": depth_table,
    "norms": norm_table,
    "encoder_speed": encoder_layer_speed,
    "transformer_ladder": transformer_rows,
    "transformer_recipe": recipe_table,
    "transformer_speed": transformer_speed,
    "pretraining": pretraining_table,
    "few_labels": few_labels_table,
    "why_it_works": why_table,
    "several_tasks": tasks_table,
    "bert_speed": bert_speed,
    "bert_parity": bert_parity,
    "reviews": reviews_table,
    "published_tasks": published_tasks_table,
    "length_costs": cost_table,
    "long_range": long_range_table,
    "digits": digits_table,
    "scaling": scaling_table,
    "modifications": modifications_table,
    "smollm2_speed": smollm2_speed,
    "peak_share": peak_share,
    "lab_start": lab_start,
    "widgets": widget_response,
    "growth": growth_table,
}

# One thread unless it says otherwise here: a second one gains little at these sizes, and loses much beside another process.
THREADS = {"transformer_ladder": 2, "transformer_speed": 2, "smollm2_speed": 2}

# Packages besides torch that a figure depends on; their versions are recorded with it.
PACKAGES = {
    "transformer_speed": ("transformers",),
    "bert_speed": ("transformers",),
    "bert_parity": ("transformers", "tokenizers"),
    "smollm2_speed": ("transformers",),
    **dict.fromkeys(("pretraining", "few_labels", "why_it_works", "several_tasks"), ("tokenizers",)),
    **dict.fromkeys(("scaling", "modifications"), ("tokenizers",)),
    "lab_start": ("jupyterlab", "ipykernel"),
    "widgets": ("ipywidgets", "matplotlib"),
}


QUIET = 0.15  # cores that other programs may use


def main(given: Sequence[str] | None = None, folder: Path | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help=f"small settings; written to {FOLDER}")
    options = parser.parse_args(given)
    names = options.names or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"expected a name among {', '.join(BENCHMARKS)}, got {name}")
    folder = folder or (FOLDER if options.quick else RESULTS)
    start = time.perf_counter()
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}{_expected(name, folder)} ...", flush=True)
        seconds = measure(name, QUICK[name].run if options.quick else BENCHMARKS[name], folder)
        print(f"    stored after {in_words(seconds)}, {in_words(time.perf_counter() - start)} in all", flush=True)
    if options.quick:
        print(f"\n{compared(names, folder).text()}")


def measure(name: str, benchmark: Callable[[], Any], folder: Path) -> float:
    """Run a benchmark and store its result, with the processor, the versions, and the seconds that it took.

    others: how many cores other programs kept busy meanwhile, in the mean. With half a core of theirs, timings are worthless.
    """
    torch.set_num_threads(THREADS.get(name, 1))
    start, before = time.perf_counter(), work_of_others()
    result = benchmark()
    seconds = time.perf_counter() - start
    others = max(0.0, work_of_others() - before) / max(seconds, 0.01)
    if others > QUIET and seconds > 1:
        print(f"    not quiet: other programs kept {others:.1f} cores busy; if this is about time, measure it again")
    file = store(name, result, folder)
    entry = json.loads(file.read_text(encoding="utf-8"))
    more = {
        "processor": processor(),
        "versions": {package: version(package) for package in PACKAGES.get(name, ())},
        "seconds": round(seconds, 1),
        "others": round(others, 2),
    }
    # What `store` writes comes last: the long part of the file is the result.
    file.write_text(json.dumps(more | entry, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return seconds


def work_of_others() -> float:
    """Seconds that all cores together have worked for other programs than this one and its children."""
    times = psutil.cpu_times()._asdict()
    # What guests of this machine do is counted with the user's already.
    idle = ("idle", "iowait", "guest", "guest_nice")
    return sum(value for name, value in times.items() if name not in idle) - sum(os.times()[:4])


def processor() -> str:
    """The processor in words, as the system names it."""
    file = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", file.read_text(encoding="utf-8"), re.M) if file.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _expected(name: str, folder: Path) -> str:
    """How long it took the last time, if that is known."""
    file = folder / f"{name}.json"
    seconds = json.loads(file.read_text(encoding="utf-8")).get("seconds") if file.exists() else None
    return "" if seconds is None else f", {in_words(seconds)} the last time"


def in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    main()

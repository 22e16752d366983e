"""Measure everything, or what is named, and write the stored results; `make bench` also writes the README's tables.

python -m tests.benchmarks                 all of it
python -m tests.benchmarks memory_table    this one alone; the others stay as they were
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from tests.benchmarks.attention import attention_costs
from tests.benchmarks.bert_speed import bert_speed
from tests.benchmarks.encoder_speed import encoder_layer_speed
from tests.benchmarks.heads import (
    depth_table,
    head_cost_table,
    heads_table,
    norm_table,
    one_layer_table,
    two_places_table,
)
from tests.benchmarks.memory import memory_seeds_at_once, memory_table
from tests.benchmarks.pretraining import few_labels_table, pretraining_table, tasks_table, why_table
from tests.benchmarks.real_tasks import published_tasks_table, reviews_table
from tests.benchmarks.regression import regression_table, seeds_at_once
from tests.benchmarks.self_attention import language_model_table, order_table
from tests.benchmarks.transformer_speed import transformer_speed
from tests.benchmarks.translation import ladder_table, recipe_table, transformer_rows
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
    "reviews": reviews_table,
    "published_tasks": published_tasks_table,
}

# One thread unless it says otherwise here: a second one gains little at these sizes, and loses much beside another process.
THREADS = {"transformer_ladder": 2, "transformer_speed": 2}


def main(given: Sequence[str] | None = None, folder: Path = RESULTS) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of: {', '.join(BENCHMARKS)} (default: all)")
    names = parser.parse_args(given).names or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"expected a name among {', '.join(BENCHMARKS)}, got {name}")
    for name in names:
        print(f"measuring {name} ...", flush=True)
        torch.set_num_threads(THREADS.get(name, 1))
        start = time.perf_counter()
        store(name, BENCHMARKS[name](), folder)
        print(f"stored after {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()

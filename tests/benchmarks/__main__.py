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
from tests.benchmarks.memory import memory_seeds_at_once, memory_table
from tests.benchmarks.regression import regression_table, seeds_at_once
from tests.benchmarks.translation import ladder_table
from utils.course.results import RESULTS, store

BENCHMARKS: dict[str, Callable] = {
    "attention_costs": attention_costs,
    "regression": regression_table,
    "seeds_at_once": seeds_at_once,
    "memory_table": memory_table,
    "memory_seeds_at_once": memory_seeds_at_once,
    "ladder": ladder_table,
}


def main(given: Sequence[str] | None = None, folder: Path = RESULTS) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of: {', '.join(BENCHMARKS)} (default: all)")
    names = parser.parse_args(given).names or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"expected a name among {', '.join(BENCHMARKS)}, got {name}")
    torch.set_num_threads(1)
    for name in names:
        print(f"measuring {name} ...", flush=True)
        start = time.perf_counter()
        store(name, BENCHMARKS[name](), folder)
        print(f"stored after {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()

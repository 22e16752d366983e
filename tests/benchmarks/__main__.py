"""Measure everything and write the results file; `make bench` also writes the README's tables from it."""

import datetime
import json
from pathlib import Path

import torch

from tests.benchmarks.attention import attention_costs
from tests.benchmarks.regression import regression_table, seeds_at_once
from utils.course.readme import RESULTS
from utils.course.timing import machine


def main(path: Path = RESULTS) -> None:
    torch.set_num_threads(1)
    results = {"machine": machine(), "date": datetime.date.today().isoformat()}
    for name, measure in (
        ("attention_costs", attention_costs),
        ("regression", regression_table),
        ("seeds_at_once", seeds_at_once),
    ):
        print(f"measuring {name} ...", flush=True)
        results[name] = measure()
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()

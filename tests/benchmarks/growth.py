"""How time grows with the number of seeds trained at once and with the number of submissions graded."""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests import cohort
from tests.benchmarks.benchmark import Benchmark, Shown, at_most
from tests.benchmarks.memory import seed_runs
from tests.benchmarks.timing import seconds
from utils.paths import ROOT
from utils.training.profiling import fit_exponent

SEEDS = (1, 2, 4, 8, 16, 32, 64)
SUBMISSIONS = (2, 4, 8, 16, 32, 64)
LESSON = "01"


def growth(seeds: Sequence[int] = SEEDS, submissions: Sequence[int] = SUBMISSIONS, rounds: int = 5) -> list[dict]:
    """Rows: what grows, its counts, the median seconds of each, and the exponent over the larger half of the counts."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            _row("seeds trained at once, one epoch", seed_runs(seeds), rounds),
            _row(f"submissions of lesson {LESSON} graded", grading_runs(submissions, Path(folder)), 1),
        ]


def _row(what: str, runs: dict[int, Callable[[], object]], rounds: int) -> dict:
    taken = {count: [] for count in runs}
    for _ in range(rounds):
        for count, run in runs.items():
            taken[count].append(seconds(run, 1))
    medians = [statistics.median(values) for values in taken.values()]
    half = max(3, (len(runs) + 1) // 2)
    fitted = fit_exponent(list(runs)[-half:], medians[-half:])
    exponent = {"slope": round(fitted.slope, 3), "error": round(fitted.error, 3), "counts": list(runs)[-half:]}
    return {"what": what, "counts": list(runs), "seconds": [round(value, 4) for value in medians], "exponent": exponent}


def grading_runs(counts: Sequence[int], folder: Path) -> dict[int, Callable[[], object]]:
    """`make grade` of so many notebooks, all solved and no two alike, for each count."""

    def run(count: int) -> Callable[[], object]:
        handed_in = folder / f"{count}"
        for index in range(count):
            notebook = cohort.solved(LESSON)
            notebook["metadata"]["index"] = index  # of equal files one would be graded
            cohort.write(handed_in, f"s{index:03d}_{LESSON}.ipynb", notebook)
        command = [sys.executable, "-m", "utils.grading", str(handed_in), "--again"]
        return lambda: subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    return {count: run(count) for count in counts}


def show(rows: list[dict]) -> Shown:
    return Shown(
        "How time grows with seeds and submissions",
        "Seconds for each count, and the exponent of time with its standard error, fitted to the counts named in the last column.",
        ("what", "counts", "seconds", "exponent", "fitted to"),
        [
            (
                row["what"],
                ", ".join(map(str, row["counts"])),
                ", ".join(f"{value:.3g}" for value in row["seconds"]),
                f"{row['exponent']['slope']:.2f} ± {row['exponent']['error']:.2f}",
                ", ".join(map(str, row["exponent"]["counts"])),
            )
            for row in rows
        ],
        [at_most(f"time exponent, {row['what']}", row["exponent"]["slope"], 1.1) for row in rows],
    )


BENCHMARKS = (Benchmark("growth", "00", growth, show, {"seeds": (1, 2, 4), "submissions": (1, 2, 4), "rounds": 1}),)

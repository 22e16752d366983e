"""Kernel regression with a learned bandwidth, the first trained model of the course, with twenty seeds."""

from tests.benchmarks.benchmark import Benchmark, Shown
from utils.data.curves import NOISE
from utils.training.regression import fixed_bandwidth_error, learn_bandwidth, mean_error

SEEDS = 20


def regression_table(seeds: int = SEEDS) -> list[dict]:
    errors = {
        "always the mean": mean_error(seeds),
        "bandwidth 1, by hand": fixed_bandwidth_error(seeds, 1.0),
        "nearest point": fixed_bandwidth_error(seeds, 0.001),
        "learned, each point may see itself": learn_bandwidth.__wrapped__(seeds, leave_one_out=False)["test_error"],
        "learned, each point hidden from itself": learn_bandwidth.__wrapped__(seeds, leave_one_out=True)["test_error"],
    }
    rows = [
        {"model": name, "error": round(e.mean().item(), 3), "spread": round(e.std().item(), 3)}
        for name, e in errors.items()
    ]
    return [*rows, {"model": "the noise itself", "error": NOISE, "spread": 0.0}]


NAMES = {
    "always the mean": "mean of the training targets",
    "bandwidth 1, by hand": "kernel regression, bandwidth 1",
    "nearest point": "nearest neighbor",
    "learned, each point may see itself": "learned bandwidth, without leave-one-out",
    "learned, each point hidden from itself": "learned bandwidth, leave-one-out",
    "the noise itself": "standard deviation of the noise",
}


def show(rows: list[dict]) -> Shown:
    return Shown(
        "Kernel regression with a learned bandwidth",
        f"Test root-mean-square error, mean and standard deviation over {SEEDS} seeds.",
        ("model", "error", "standard deviation"),
        [(NAMES[row["model"]], f"{row['error']:.2f}", f"{row['spread']:.2f}") for row in rows],
    )


BENCHMARKS = (Benchmark("regression", "01", regression_table, show),)

"""The first trained model of the course, at full size, and what training all seeds at once saves."""

from tests.benchmarks.timing import cost_ratio
from utils.data.curves import NOISE
from utils.training.regression import fixed_bandwidth_error, learn_bandwidth, mean_error

SEEDS = 20


def regression_table(seeds: int = SEEDS) -> list[dict]:
    errors = {
        "always the mean": mean_error(seeds),
        "bandwidth 1, by hand": fixed_bandwidth_error(seeds, 1.0),
        "nearest point": fixed_bandwidth_error(seeds, 0.001),
        "learned, each point may see itself": learn_bandwidth.__wrapped__(seeds, hide_self=False)["test_error"],
        "learned, each point hidden from itself": learn_bandwidth.__wrapped__(seeds, hide_self=True)["test_error"],
    }
    rows = [
        {"model": name, "error": round(e.mean().item(), 3), "spread": round(e.std().item(), 3)}
        for name, e in errors.items()
    ]
    return [*rows, {"model": "the noise itself", "error": NOISE, "spread": 0.0}]


def seeds_at_once(seeds: int = SEEDS, rounds: int = 5) -> dict:
    """Training time of `seeds` seeds one by one over their time together: the median over rounds in which both run."""

    def one_by_one() -> None:
        for _ in range(seeds):
            learn_bandwidth.__wrapped__(1, hide_self=True)

    gain = cost_ratio(one_by_one, lambda: learn_bandwidth.__wrapped__(seeds, hide_self=True), rounds)
    return {"seeds": seeds, "rounds": rounds, "gain": round(gain, 1)}

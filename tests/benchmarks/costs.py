"""Cost of each kind of layer against sequence length, what the cheap ones lose on a long-range task, and digits as patches."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most
from utils.build.results import ranged
from utils.training.costs import (
    BIGBIRD,
    EXPLICIT,
    FORMULAS,
    FUSED,
    LENGTH,
    LINFORMER,
    LOCAL,
    NUM_VALUES,
    RECURRENCE,
    cost_curves,
    exponents,
    train_recall,
)
from utils.training.digits import HELD_OUT, train_digits
from utils.training.metrics import over_seeds

LENGTHS = (256, 512, 1024, 2048, 2560, 3072, 4096, 6144, 8192, 16384)
SEEDS = 3
# (name, kind, what is different); all for one number of steps.
LONG_RANGE = (
    ("recurrence", RECURRENCE, {}),
    ("full attention", FUSED, {}),
    ("full attention, 1 layer", FUSED, {"num_layers": 1}),
    ("local attention, 1 layer", LOCAL, {"num_layers": 1}),
    ("local attention", LOCAL, {}),
    ("local attention, 4 layers", LOCAL, {"num_layers": 4}),
    ("BigBird-like", BIGBIRD, {}),
    ("Linformer-like, rank 16", LINFORMER, {"rank": 16}),
    ("Linformer-like", LINFORMER, {}),
    ("Linformer-like, rank 100", LINFORMER, {"rank": 100}),
)
# (positions, one fixed shuffle for all images)
DIGITS = (("learned", False), ("sinusoidal", False), ("none", False), ("learned", True), ("none", True))


def cost_table(lengths: Sequence[int] = LENGTHS, repeats: int = 5) -> dict[str, list[dict]]:
    """rows: for each kind, forward alone and with gradients, milliseconds and MB at each length, and the exponents with their
    errors over the longer half of the lengths."""
    rows = []
    for backward in (False, True):
        for kind, curve in cost_curves.__wrapped__(tuple(lengths), backward=backward, repeats=repeats).items():
            time, memory = exponents(curve)
            rows.append(
                {
                    "kind": kind,
                    "backward": backward,
                    "formula": FORMULAS[kind],
                    "lengths": curve["lengths"],
                    "ms": [float(f"{1000 * seconds:.3g}") for seconds in curve["seconds"].tolist()],
                    "memory_lengths": curve["memory_lengths"],
                    "mb": [float(f"{size / 2**20:.3g}") for size in curve["bytes"].tolist()],
                    "long_time": {"slope": round(time.slope, 2), "error": round(time.error, 2)},
                    "long_memory": {"slope": round(memory.slope, 2), "error": round(memory.error, 2)},
                }
            )
    return {"rows": rows}


def long_range_table(seeds: int = SEEDS, rows=LONG_RANGE, num_steps: int = 600) -> list[dict]:
    """Accuracy in percent for every seed, and the median over seeds by the distance to the answer."""
    table = []
    for name, kind, changes in rows:
        runs = [train_recall.__wrapped__(kind, seed, num_steps=num_steps, **changes) for seed in range(seeds)]
        by_distance = torch.stack([run["by_distance"] for run in runs], 1)
        table.append(
            {
                "name": name,
                "length": LENGTH,
                "chance": 100 / NUM_VALUES,
                "parameters": runs[0]["parameters"],
                "accuracies": _percent(torch.tensor([run["accuracy"] for run in runs])),
                "bands": runs[0]["bands"],
                "by_distance": _percent(by_distance.quantile(0.5, dim=1)),
            }
        )
    return table


def digits_table(seeds: int = 5, rows=DIGITS, **settings) -> list[dict]:
    """Held-out accuracy in percent, and the same with a different permutation of the patches for each image."""
    table = []
    for positions, shuffled in rows:
        result = train_digits.__wrapped__(positions, seeds, shuffled=shuffled, **settings)
        table.append(
            {
                "positions": positions,
                "shuffled": shuffled,
                "held_out": HELD_OUT,
                "accuracies": _percent(result["accuracy"]),
                "accuracy": over_seeds((100 * result["accuracy"]).tolist(), 1),
                "shuffled_accuracy": over_seeds((100 * result["shuffled_accuracy"]).tolist(), 1),
            }
        )
    return table


def _percent(values: Tensor) -> list[float]:
    return [round(100 * value, 1) for value in values.tolist()]


# What is shown


def show_costs(result: dict) -> Shown:
    def exponent(row: dict, name: str) -> str:
        return f"{row[name]['slope']:.2f} ± {row[name]['error']:.2f}"

    rows = result["rows"]
    longest = {max(row["lengths"]) for row in rows}
    common = max(length for length in rows[0]["lengths"] if length <= min(4096, *longest))
    expected = {EXPLICIT: 2, FUSED: 2, LOCAL: 1}
    return Shown(
        "Cost against sequence length",
        f"Exponents of time and memory with standard errors, fitted to the longer half of the lengths, up to {max(longest):,} tokens ({min(longest):,} for explicit attention); "
        "one sequence, four heads, width 64.",
        ("layer", "pass", "time exponent", "memory exponent", f"ms at {common:,} tokens"),
        [
            (
                row["kind"],
                "forward and backward" if row["backward"] else "forward",
                exponent(row, "long_time"),
                exponent(row, "long_memory"),
                f"{row['ms'][row['lengths'].index(common)]:,.3g}",
            )
            for row in rows
        ],
        [
            at_most(
                f"{row['kind']}, time exponent, distance from {expected[row['kind']]}",
                abs(row["long_time"]["slope"] - expected[row["kind"]]),
                0.2,
            )
            for row in rows
            if row["kind"] in expected and not row["backward"]
        ],
    )


def show_long_range(rows: list[dict]) -> Shown:
    first = rows[0]
    return Shown(
        "What cheap attention loses",
        f"Associative recall over {first['length']} tokens: accuracy in % for each of {len(first['accuracies'])} seeds, and the median by the distance to the answer; chance {first['chance']:g} %.",
        ("layer", "accuracy", *(f"distance up to {band}" for band in first["bands"])),
        [
            (
                row["name"],
                ", ".join(f"{accuracy:.0f}" for accuracy in row["accuracies"]),
                *(f"{accuracy:.0f}" for accuracy in row["by_distance"]),
            )
            for row in rows
        ],
    )


def show_digits(rows: list[dict]) -> Shown:
    first = rows[0]
    (learned,) = (row for row in rows if row["positions"] == "learned" and not row["shuffled"])
    return Shown(
        "Digits as patches",
        f"Test accuracy in % on {first['held_out']} images, {len(first['accuracies'])} seeds.",
        ("positions", "patch order", "accuracy", "with each test image shuffled differently"),
        [
            (
                row["positions"],
                "one shuffled order for all images" if row["shuffled"] else "original",
                ranged(row["accuracy"]),
                ranged(row["shuffled_accuracy"]),
            )
            for row in rows
        ],
        [at_least("digits, accuracy, worst seed", learned["accuracy"]["least"], 95, "%")],
    )


BENCHMARKS = (
    Benchmark("length_costs", "09", cost_table, show_costs, {"lengths": (256, 512, 1024, 2048), "repeats": 2}),
    Benchmark(
        "long_range", "09", long_range_table, show_long_range, {"seeds": 1, "rows": LONG_RANGE[1:2], "num_steps": 100}
    ),
    Benchmark("digits", "09", digits_table, show_digits, {"seeds": 1, "rows": DIGITS[:1]}),
)

"""Lesson 04 with more seeds: the order task with every kind of position information, and the character language model."""

import platform
from collections.abc import Mapping

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most, by
from utils.build.results import ranged
from utils.training.language_model import parallel_training_speedup, train_language_model
from utils.training.metrics import over_seeds
from utils.training.self_attention import MAX_LEN, train_order

POSITIONS = {
    "none": "no positions",
    "causal": "no positions, causal mask",
    "sinusoidal": "sinusoidal, added",
    "learned": "learned, added",
    "rotary": "rotary",
}
SEEDS, MODELS = 10, 3
LONGER, SHIFTED = (24, 32, 64), (4, 100)  # what the table shows of lengths and shifts


def order_table(kinds: Mapping[str, str] = POSITIONS, seeds: int = SEEDS) -> list[dict]:
    """A row for each kind of positions: accuracy in % at the lengths trained on, at longer ones, and from a later position."""
    rows = []
    for positions, name in kinds.items():
        result = train_order(positions, seeds, lengths=LONGER, shifts=SHIFTED)
        rows.append(
            {
                "kind": name,
                "seeds": seeds,
                "trained_up_to": MAX_LEN,
                "accuracy": _in_percent(result["accuracy"]),
                "longer": {str(n): _in_percent(row) for n, row in zip(LONGER, result["by_length"], strict=True)},
                "shifted": {str(n): _in_percent(row) for n, row in zip(SHIFTED, result["by_shift"], strict=True)},
            }
        )
    return rows


def _in_percent(accuracy) -> dict | None:
    """Median and range over the seeds; None past the learned positions."""
    return None if accuracy.isnan().any() else over_seeds((100 * accuracy).tolist(), 1)


def language_model_table(models: int = MODELS, **settings) -> dict:
    """Held-out cross-entropy in nats per character over seeds, n-gram models, and the speedup of parallel training."""
    results = [train_language_model(seed, **settings) for seed in range(models)]
    return {
        "python": platform.python_version(),
        "seeds": models,
        "held_out": over_seeds([result["held_out"] for result in results], 3),
        "ngrams": {str(order): round(loss, 3) for order, loss in results[0]["ngrams"].items()},
        "parameters": results[0]["parameters"],
        "speedup": over_seeds(parallel_training_speedup(repeats=7), 1),
    }


def show_order(rows: list[dict]) -> Shown:
    first, by_kind = rows[0], by(rows, "kind")
    targets = [
        at_most("order task without positions (chance 50 %)", by_kind["no positions"]["accuracy"]["most"], 55, "%")
    ]
    targets += [
        at_least(f"order task, positions {kind}, worst seed", by_kind[kind]["accuracy"]["least"], 99, "%")
        for kind in ("sinusoidal, added", "learned, added", "rotary")
        if kind in by_kind
    ]
    cells = [(row["accuracy"], *row["longer"].values(), *row["shifted"].values()) for row in rows]
    return Shown(
        "Does A stand before B?",
        f"Accuracy in %, chance 50, {first['seeds']} seeds: median (smallest to largest). Trained on up to {first['trained_up_to']} tokens from position 0; "
        "tested as trained, on longer sequences, and with positions that start later. Learned positions beyond the training length do not exist.",
        (
            "positions",
            "as trained",
            *(f"{n} tokens" for n in first["longer"]),
            *(f"first position {n}" for n in first["shifted"]),
        ),
        [
            (row["kind"], *("impossible" if values is None else ranged(values) for values in line))
            for row, line in zip(rows, cells, strict=True)
        ],
        targets,
    )


def show_language_model(result: dict) -> Shown:
    return Shown(
        "Character language model",
        f"Test cross-entropy in nats per character on the manual of Python {result['python']}; the Transformer ({result['parameters']:,} parameters) with "
        f"{result['seeds']} seeds. Speedup of training on all positions at once over one position at a time: {ranged(result['speedup'])}.",
        ("model", "cross-entropy"),
        [
            *((f"{n}-gram model", f"{loss:.2f}") for n, loss in result["ngrams"].items()),
            ("Transformer", ranged(result["held_out"], 2)),
        ],
    )


BENCHMARKS = (
    Benchmark(
        "order_task",
        "04",
        order_table,
        show_order,
        {"kinds": {positions: POSITIONS[positions] for positions in ("none", "rotary")}, "seeds": 3},
    ),
    Benchmark("language_model", "04", language_model_table, show_language_model, {"models": 1, "num_steps": 100}),
)

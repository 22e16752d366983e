"""Lesson 04 with more seeds than the lesson has time for: the order task with every kind of positions, and the language model."""

import platform
from collections.abc import Mapping

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most, by
from utils.build.results import ranged
from utils.training.language_model import one_position_at_a_time_factor, train_language_model
from utils.training.metrics import over_seeds
from utils.training.self_attention import LENGTH, train_order

KINDS = {
    "none": "no positions",
    "causal": "no positions, causal mask",
    "sinusoidal": "sinusoidal, added",
    "learned": "learned, added",
    "rotary": "rotary",
}
SEEDS, MODELS = 10, 3
LONGER, SHIFTED = (24, 32, 64), (4, 100)  # what the table shows of lengths and shifts


def order_table(kinds: Mapping[str, str] = KINDS, seeds: int = SEEDS) -> list[dict]:
    """A row for each kind of positions: accuracy in % at the lengths trained on, at longer ones, and from a later position."""
    rows = []
    for kind, name in kinds.items():
        found = train_order(kind, seeds, lengths=LONGER, shifts=SHIFTED)
        rows.append(
            {
                "kind": name,
                "seeds": seeds,
                "trained_up_to": LENGTH,
                "accuracy": _in_percent(found["accuracy"]),
                "longer": {str(n): _in_percent(row) for n, row in zip(LONGER, found["by_length"], strict=True)},
                "shifted": {str(n): _in_percent(row) for n, row in zip(SHIFTED, found["by_shift"], strict=True)},
            }
        )
    return rows


def _in_percent(accuracy) -> dict | None:
    """Median and range over the seeds; None if the model refuses."""
    return None if accuracy.isnan().any() else over_seeds((100 * accuracy).tolist(), 1)


def language_model_table(models: int = MODELS, **settings) -> dict:
    """Held-out loss in nats a character over seeds, what counting gives, and what training all positions at once is worth."""
    found = [train_language_model(seed, **settings) for seed in range(models)]
    factor = one_position_at_a_time_factor(repeats=7)
    return {
        "python": platform.python_version(),
        "seeds": models,
        "held_out": over_seeds([one["held_out"] for one in found], 3),
        "perplexity": over_seeds([one["perplexity"] for one in found], 2),
        "counts": {str(order): round(loss, 3) for order, loss in found[0]["counts"].items()},
        "parameters": found[0]["parameters"],
        "factor": over_seeds(factor["factors"], 1),
        "together_seconds": round(factor["together_seconds"], 4),
    }


def show_order(rows: list[dict]) -> Shown:
    first, found = rows[0], by(rows, "kind")
    targets = [
        at_most("order task without positions (chance 50 %)", found["no positions"]["accuracy"]["most"], 55, "%")
    ]
    targets += [
        at_least(f"order task, positions {kind}, worst seed", found[kind]["accuracy"]["least"], 99, "%")
        for kind in ("sinusoidal, added", "learned, added", "rotary")
        if kind in found
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
        f"{result['seeds']} seeds. Speedup of training on all positions at once over one position at a time: {ranged(result['factor'])}.",
        ("model", "cross-entropy"),
        [
            *((f"{n}-gram model", f"{loss:.2f}") for n, loss in result["counts"].items()),
            ("Transformer", ranged(result["held_out"], 2)),
        ],
    )


BENCHMARKS = (
    Benchmark(
        "order_task",
        "04",
        order_table,
        show_order,
        {"kinds": {kind: KINDS[kind] for kind in ("none", "rotary")}, "seeds": 3},
    ),
    Benchmark("language_model", "04", language_model_table, show_language_model, {"models": 1, "steps": 100}),
)

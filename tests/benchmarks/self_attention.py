"""Lesson 04 with more seeds than the lesson has time for: the order task with every kind of positions, and the language model."""

import platform

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


def order_table() -> list[dict]:
    """A row for each kind of positions: accuracy in % at the lengths trained on, at longer ones, and from a later position."""
    rows = []
    for kind, name in KINDS.items():
        found = train_order(kind, SEEDS, lengths=LONGER, shifts=SHIFTED)
        rows.append(
            {
                "kind": name,
                "seeds": SEEDS,
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


def language_model_table() -> dict:
    """Held-out loss in nats a character over seeds, what counting gives, and what training all positions at once is worth."""
    found = [train_language_model(seed) for seed in range(MODELS)]
    factor = one_position_at_a_time_factor(repeats=7)
    return {
        "python": platform.python_version(),
        "seeds": MODELS,
        "held_out": over_seeds([one["held_out"] for one in found], 3),
        "perplexity": over_seeds([one["perplexity"] for one in found], 2),
        "counts": {str(order): round(loss, 3) for order, loss in found[0]["counts"].items()},
        "parameters": found[0]["parameters"],
        "factor": over_seeds(factor["factors"], 1),
        "together_seconds": round(factor["together_seconds"], 4),
    }

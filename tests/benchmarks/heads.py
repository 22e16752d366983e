"""Several heads and deep stacks at full budget: what lesson 05 measures in seconds, with more seeds and longer training."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from utils.training.depth import DEPTHS, IDENTITY_DEPTHS, gradient_by_depth, loss_surface, train_identity, train_norms
from utils.training.heads import COUNTED, KINDS, head_costs, train_forms, train_two_places
from utils.training.metrics import over_seeds

SEEDS = 5
HEADS = (1, 2, 4, 8)
STEPS = 1000

# name of the row, heads, what differs from the task
TWO_PLACES: tuple[tuple[str, int, dict], ...] = (
    *((f"{heads} head{'s' * (heads > 1)}", heads, {}) for heads in HEADS),
    ("1 head, ten times as long", 1, {"steps": 1500}),
    ("1 head, keys and values of both", 1, {"keys": "both", "steps": 400}),
    ("2 heads, random start", 2, {"start": "random", "steps": 400}),
    ("8 heads, random start", 8, {"start": "random", "steps": 400}),
)


def percent(values: Tensor | Sequence[float]) -> list[float]:
    return [round(100 * value, 1) for value in torch.as_tensor(values).tolist()]


def _spread(values: Tensor) -> dict[str, float]:
    return over_seeds(values.tolist(), 3)


def two_places_table(seeds: int = 2 * SEEDS, rows=TWO_PLACES, **settings) -> list[dict]:
    """The ordered pair in per cent of sequences, for every seed; solved counts the seeds with at least 99."""
    table = []
    for name, heads, changes in rows:
        found = train_two_places.__wrapped__(heads, seeds, **changes | settings)
        table.append(
            {
                "row": name,
                "heads": heads,
                "seeds": seeds,
                "chance": round(100 * found["chance"], 1),
                "knows_one": round(100 * found["guess"], 1),
                "pairs": percent(found["accuracy"]),
                "solved": int((found["accuracy"] >= 0.99).sum()),
                "parameters": found["parameters"],
            }
        )
    return table


def heads_table(seeds: int = SEEDS, heads: Sequence[int] = HEADS, steps: int = STEPS, **settings) -> list[dict]:
    """The form task for each number of heads at one width: accuracy, how much heads differ, and what the loss of one costs."""
    return [_heads_row(train_forms.__wrapped__(count, seeds, steps=steps, **settings)) for count in heads]


def one_layer_table() -> list[dict]:
    """The same with a single layer, in which no other layer can stand in for a head."""
    return heads_table(layers=1)


def _heads_row(found: dict) -> dict:
    row = {
        "heads": found["heads"],
        "seeds": len(found["seeds"]),
        "parameters": found["parameters"],
        "words": found["words"],
        "usual": round(100 * found["usual"], 1),
        "accuracies": percent(found["accuracy"]),
        "accuracy": _spread(100 * found["accuracy"]),
        "by_kind": dict(zip(KINDS, percent(found["by_kind"].mean(0)), strict=True)),
        "at": found["at"],
        "accuracy_at": percent(found["accuracy_at"].mean(1)),
    }
    if found["heads"] > 1:
        row["largest_divergence"] = round(math.log(2), 3)
        for name in ("divergence", "cka", "cosine"):
            by_time = found[name].mean(-1)  # over the pairs of heads: (c, s, layers)
            row[name] = [[_spread(layer) for layer in time.unbind(1)] for time in by_time]
    if found["removal"]:
        gone = found["removal"]
        lost = 100 * (found["accuracy"][:, None, None] - gone["without"])
        row["lost_by_removing_one"] = [[[round(one, 1) for one in layer] for layer in seed] for seed in lost.tolist()]
        row["worst_loss"] = _spread(lost.flatten(1).amax(1))
        row["median_loss"] = _spread(lost.flatten(1).quantile(0.5, dim=1))
        row["one_head_of_a_layer_left"] = [percent(layer) for layer in gone["alone"].mean(0)]
        row["without_layer"] = [_spread(100 * layer) for layer in gone["without_layer"].unbind(1)]
        row["without_any_head"] = _spread(100 * gone["nothing"])
    return row


def head_cost_table(heads: Sequence[int] = COUNTED, repeats: int = 31, **sizes) -> list[dict]:
    """`head_costs` in milliseconds."""
    rows = head_costs(heads, repeats=repeats, **sizes)
    return [
        {
            (name.replace("seconds", "ms")): round(1000 * value, 3) if name.endswith("seconds") else value
            for name, value in row.items()
        }
        for row in rows
    ]


def depth_table(
    seeds: int = SEEDS,
    depths: Sequence[int] = DEPTHS,
    points: int = 41,
    steps: int = 300,
    identity_steps: int = 300,
    **settings,
) -> dict:
    """Gradient and likeness of tokens against depth; the error of learning the identity; valleys of the loss surface."""
    gradients = gradient_by_depth(depths, seeds)
    identity = {
        residual: train_identity.__wrapped__(residual, seeds=seeds, steps=identity_steps) for residual in (False, True)
    }
    around = {
        residual: loss_surface.__wrapped__(residual, 2 * seeds, points=points, steps=steps, **settings)
        for residual in (False, True)
    }
    names = {False: "plain", True: "residual"}
    return {
        "depths": list(depths),
        "gradient": {
            kind: [float(f"{one:.2e}") for one in found["gradient"].quantile(0.5, dim=1).tolist()]
            for kind, found in gradients.items()
        },
        "alike": {
            kind: [round(one, 2) for one in found["alike"].quantile(0.5, dim=1).tolist()]
            for kind, found in gradients.items()
        },
        "identity_depths": list(IDENTITY_DEPTHS),
        "identity_error": {names[key]: [_spread(row) for row in found["error"]] for key, found in identity.items()},
        "surface_depth": around[True]["depth"],
        "valleys": {names[key]: found["valleys"] for key, found in around.items()},
        "trained_loss": {names[key]: _spread(found["loss"]) for key, found in around.items()},
        "held_out": {names[key]: percent(found["accuracy"]) for key, found in around.items()},
    }


# layers, rate, steps of warm-up
NORM_ROWS = (
    (2, 3e-3, 0),
    *((6, rate, warmup) for rate in (1e-3, 3e-3, 1e-2) for warmup in (0, 200)),
)


def norm_table(seeds: int = 3, rows=NORM_ROWS, steps: int = 400, **settings) -> list[dict]:
    """Pre-norm against post-norm: mean loss of the last tenth of the steps, and held-out accuracy in per cent, each seed."""
    table = []
    for layers, rate, warmup in rows:
        for norm in ("pre", "post"):
            found = train_norms.__wrapped__(norm, layers, seeds, rate=rate, warmup=warmup, steps=steps, **settings)
            last = found["loss"][-max(1, steps // 10) :].mean(0)
            table.append(
                {
                    "norm": norm,
                    "layers": layers,
                    "rate": rate,
                    "warmup": warmup,
                    "steps": steps,
                    "seeds": seeds,
                    "losses": [round(one, 2) for one in last.tolist()],
                    "accuracies": percent(found["accuracy"]),
                    "usual": round(100 * found["usual"], 1),
                }
            )
    return table

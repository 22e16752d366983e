"""Heads, residual connections and norms with more seeds and steps than lesson 05 has time for."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most, by
from utils.build.results import ranged
from utils.training.depth import (
    DEPTHS,
    IDENTITY_DEPTHS,
    SURFACE_DEPTH,
    gradient_by_depth,
    loss_surface,
    train_identity,
    train_norm_order,
)
from utils.training.heads import (
    COST_BATCH,
    COST_DIM,
    COST_LENGTH,
    head_costs,
    train_form_tagger,
    train_two_positions,
)
from utils.training.metrics import over_seeds

SEEDS = 5
HEADS = (1, 2, 4, 8)
STEPS = 1000

# name of the row, number of heads, options of `train_two_positions`
TWO_POSITIONS: tuple[tuple[str, int, dict], ...] = (
    *((f"{num_heads} head{'s' * (num_heads > 1)}", num_heads, {}) for num_heads in HEADS),
    ("1 head, ten times as long", 1, {"steps": 1500}),
    ("1 head, keys and values see both", 1, {"keys": "both", "steps": 400}),
    ("2 heads, random query", 2, {"query_init": "normal", "steps": 400}),
    ("8 heads, random query", 8, {"query_init": "normal", "steps": 400}),
)


def percent(values: Tensor | Sequence[float]) -> list[float]:
    return [round(100 * value, 1) for value in torch.as_tensor(values).tolist()]


def _spread(values: Tensor) -> dict[str, float]:
    return over_seeds(values.tolist(), 3)


def two_positions_table(seeds: int = 2 * SEEDS, rows=TWO_POSITIONS) -> list[dict]:
    """The ordered pair in % of sequences, for every seed; solved counts the seeds with at least 99 %."""
    table = []
    for name, num_heads, options in rows:
        result = train_two_positions.__wrapped__(num_heads, seeds, **options)
        table.append(
            {
                "row": name,
                "heads": num_heads,
                "seeds": seeds,
                "chance": round(100 * result["chance"], 1),
                "pairs": percent(result["accuracy"]),
                "solved": int((result["accuracy"] >= 0.99).sum()),
            }
        )
    return table


def heads_table(
    seeds: int = SEEDS, heads: Sequence[int] = HEADS, steps: int = STEPS, num_layers: int = 2
) -> list[dict]:
    """French forms for each number of heads at one width: accuracy in %, and the effect of ablating heads."""
    rows = []
    for num_heads in heads:
        result = train_form_tagger.__wrapped__(num_heads, seeds, steps=steps, num_layers=num_layers)
        lost = 100 * (result["accuracy"][:, None, None] - result["ablation"]["without_head"])
        rows.append(
            {
                "heads": num_heads,
                "seeds": seeds,
                "usual": round(100 * result["baseline"], 1),
                "accuracy": _spread(100 * result["accuracy"]),
                "worst_loss": _spread(lost.flatten(1).amax(1)),
                "without_any_head": _spread(100 * result["ablation"]["without_heads"]),
            }
        )
    return rows


def head_cost_table(repeats: int = 31) -> list[dict]:
    """`head_costs` in milliseconds."""
    return [
        {
            (name.replace("seconds", "ms")): round(1000 * value, 3) if name.endswith("seconds") else value
            for name, value in row.items()
        }
        for row in head_costs(repeats)
    ]


def depth_table(
    seeds: int = SEEDS,
    depths: Sequence[int] = DEPTHS,
    points: int = 41,
    steps: int = 300,
    identity_steps: int = 300,
) -> dict:
    """Gradient norm by depth; the error at the identity; local minima of the loss surface."""
    gradients = gradient_by_depth(depths, seeds)
    identity = {
        residual: train_identity.__wrapped__(residual, seeds=seeds, steps=identity_steps) for residual in (False, True)
    }
    surfaces = {
        residual: loss_surface.__wrapped__(residual, 2 * seeds, points=points, steps=steps)
        for residual in (False, True)
    }
    names = {False: "plain", True: "residual"}
    return {
        "depths": list(depths),
        "gradient": {
            stack: [float(f"{norm:.2e}") for norm in result["gradient_norm"].quantile(0.5, dim=1).tolist()]
            for stack, result in gradients.items()
        },
        "identity_depths": list(IDENTITY_DEPTHS),
        "identity_error": {names[key]: [_spread(row) for row in result["error"]] for key, result in identity.items()},
        "surface_depth": SURFACE_DEPTH,
        "valleys": {names[key]: result["local_minima"] for key, result in surfaces.items()},
    }


# number of layers, learning rate, warmup steps
NORM_ROWS = (
    (2, 3e-3, 0),
    *((6, learning_rate, warmup_steps) for learning_rate in (1e-3, 3e-3, 1e-2) for warmup_steps in (0, 200)),
)


def norm_table(seeds: int = 3, rows=NORM_ROWS, steps: int = 400) -> list[dict]:
    """Pre-norm and post-norm: mean loss of the last tenth of the steps, and test accuracy in %, for every seed."""
    table = []
    for num_layers, learning_rate, warmup_steps in rows:
        options = {"learning_rate": learning_rate, "warmup_steps": warmup_steps, "steps": steps}
        for norm_first in (True, False):
            result = train_norm_order.__wrapped__(norm_first, num_layers, seeds, **options)
            last = result["loss"][-max(1, steps // 10) :].mean(0)
            table.append(
                {
                    "norm": "pre" if norm_first else "post",
                    "layers": num_layers,
                    "rate": learning_rate,
                    "warmup": warmup_steps,
                    "steps": steps,
                    "seeds": seeds,
                    "losses": [round(loss, 2) for loss in last.tolist()],
                    "accuracies": percent(result["accuracy"]),
                    "usual": round(100 * result["baseline"], 1),
                }
            )
    return table


# What is shown


def show_two_positions(rows: list[dict]) -> Shown:
    by_name, first = by(rows, "row"), rows[0]
    return Shown(
        "With markers as keys and letters as values, one head fails at two positions",
        f"Ordered pairs predicted correctly in %, {first['seeds']} seeds, chance {first['chance']}; all rows have the same width and number of parameters.",
        ("model", "smallest to largest", "seeds with at least 99 %"),
        [
            (
                row["row"],
                f"{min(row['pairs']):.1f} to {max(row['pairs']):.1f}",
                f"{row['solved']} of {row['seeds']}",
            )
            for row in rows
        ],
        [
            at_most("two positions, one head, best seed", max(by_name["1 head"]["pairs"]), 50, "%"),
            at_least("two positions, two heads, worst seed", min(by_name["2 heads"]["pairs"]), 99, "%"),
        ],
    )


def show_heads(rows: list[dict], layers: str) -> Shown:
    return Shown(
        f"Number of heads, encoder with {layers}",
        f"Predicting the French form of each English word at width 64: accuracy in %, {rows[0]['seeds']} seeds; the most frequent form alone gives "
        f"{rows[0]['usual']} %. Ablations set the outputs of heads to zero.",
        ("heads", "accuracy", "points lost without the most important head", "accuracy without any head"),
        [
            (
                row["heads"],
                *(ranged(row[name]) if name in row else "" for name in ("accuracy", "worst_loss", "without_any_head")),
            )
            for row in rows
        ],
    )


def show_head_costs(rows: list[dict]) -> Shown:
    timed = ("projections_ms", "products_ms", "softmax_ms", "fused_ms")
    return Shown(
        "What more heads cost",
        f"Width {COST_DIM}, {COST_BATCH} sentences of {COST_LENGTH} tokens: the same parameters and multiplications, but more exponentials. Medians in "
        "milliseconds, by operation and for the fused kernel, which never stores the attention weights.",
        (
            "heads",
            "parameters",
            "multiplications (millions)",
            "exponentials (millions)",
            *(name.replace("_ms", ", ms") for name in timed),
        ),
        [
            (
                row["heads"],
                f"{row['parameters']:,}",
                f"{row['products'] / 1e6:,.0f}",
                f"{row['exponentials'] / 1e6:.2f}",
                *(f"{row[name]:.1f}" for name in timed),
            )
            for row in rows
        ],
    )


def show_depth(result: dict) -> Shown:
    error = {kind: ranged(errors[-1], 3) for kind, errors in result["identity_error"].items()}
    minima = {kind: f"{min(counts)} to {max(counts)}" for kind, counts in result["valleys"].items()}
    return Shown(
        "Depth and residual connections",
        "Norm of the gradient at the input of an untrained encoder relative to its output, by number of layers; median of the seeds. Trained to reproduce their "
        f"input, {result['identity_depths'][-1]} layers reach an error of {error['plain']} without residual connections and {error['residual']} with them. On a plane "
        f"through the trained parameters of {result['surface_depth']} layers, the loss has {minima['plain']} local minima without them and {minima['residual']} with them.",
        ("stack, by number of layers", *result["depths"]),
        [(kind, *(f"{norm:.2g}" for norm in norms)) for kind, norms in result["gradient"].items()],
    )


def show_norms(rows: list[dict]) -> Shown:
    first = rows[0]
    return Shown(
        "Pre-norm and post-norm",
        f"Training loss over the last tenth of {first['steps']} steps and test accuracy in %, each of {first['seeds']} seeds; the most frequent form alone gives {first['usual']} %.",
        ("norm", "layers", "learning rate", "warm-up steps", "loss", "accuracy"),
        [
            (
                f"{row['norm']}-norm",
                row["layers"],
                f"{row['rate']:g}",
                row["warmup"],
                *(", ".join(map(str, row[name])) for name in ("losses", "accuracies")),
            )
            for row in rows
        ],
    )


BENCHMARKS = (
    Benchmark("two_positions", "05", two_positions_table, show_two_positions, {"seeds": 3, "rows": TWO_POSITIONS[:2]}),
    Benchmark(
        "heads",
        "05",
        heads_table,
        functools.partial(show_heads, layers="two layers"),
        {"seeds": 1, "heads": (4,), "steps": 100},
    ),
    Benchmark(
        "heads_one_layer",
        "05",
        functools.partial(heads_table, num_layers=1),
        functools.partial(show_heads, layers="one layer"),
        {"seeds": 1, "heads": (4,), "steps": 100},
    ),
    Benchmark("head_costs", "05", head_cost_table, show_head_costs, {"repeats": 5}),
    Benchmark("depth", "05", depth_table, show_depth, {"seeds": 1, "points": 9, "steps": 60, "identity_steps": 60}),
    Benchmark("norms", "05", norm_table, show_norms, {"seeds": 1, "rows": NORM_ROWS[:1], "steps": 100}),
)

"""Heads, residual connections and norms with more seeds and steps than lesson 05 has time for."""

import functools
import inspect
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most, by
from utils.build.results import ranged
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


# What is shown


def show_two_places(rows: list[dict]) -> Shown:
    found, first = by(rows, "row"), rows[0]
    return Shown(
        "One head cannot read two positions, two heads can",
        f"Ordered pairs predicted correctly in %, {first['seeds']} seeds, chance {first['chance']}; all rows have the same width and number of parameters.",
        ("model", "smallest to largest", "seeds with at least 99 %"),
        [
            (
                row["row"].replace("start", "initialization"),
                f"{min(row['pairs']):.1f} to {max(row['pairs']):.1f}",
                f"{row['solved']} of {row['seeds']}",
            )
            for row in rows
        ],
        [
            at_most("two positions, one head, best seed", max(found["1 head"]["pairs"]), 50, "%"),
            at_least("two positions, two heads, worst seed", min(found["2 heads"]["pairs"]), 99, "%"),
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
    sizes = {name: parameter.default for name, parameter in inspect.signature(head_costs).parameters.items()}
    timed = ("projections_ms", "products_ms", "softmax_ms", "fused_ms")
    return Shown(
        "What more heads cost",
        f"Width {sizes['dim']}, {sizes['batch']} sentences of {sizes['n']} tokens: the same parameters and multiplications, but more exponentials. Medians in "
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
    error = {kind: ranged(found[-1], 3) for kind, found in result["identity_error"].items()}
    minima = {kind: f"{min(found)} to {max(found)}" for kind, found in result["valleys"].items()}
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
    Benchmark("two_places", "05", two_places_table, show_two_places, {"seeds": 3, "rows": TWO_PLACES[:2]}),
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
        functools.partial(heads_table, layers=1),
        functools.partial(show_heads, layers="one layer"),
        {"seeds": 1, "heads": (4,), "steps": 100},
    ),
    Benchmark("head_costs", "05", head_cost_table, show_head_costs, {"repeats": 5}),
    Benchmark("depth", "05", depth_table, show_depth, {"seeds": 1, "points": 9, "steps": 60, "identity_steps": 60}),
    Benchmark("norms", "05", norm_table, show_norms, {"seeds": 1, "rows": NORM_ROWS[:1], "steps": 100}),
)

"""Lesson 09 with the runs that the lesson has no time for: three scaling sweeps, and modifications one at a time."""

import math
import platform
from collections.abc import Callable, Sequence

import torch

from tests.benchmarks.benchmark import Benchmark, Shown, at_most
from utils.build.results import ranged
from utils.training.metrics import over_seeds
from utils.training.modifications import BASE, SHORT, compare
from utils.training.scaling import (
    FAMILY,
    LARGER,
    LAWS,
    NUM_TOKENS,
    fitted_sweeps,
    num_parameters,
    scaling_run,
    size_sweep,
    training_compute,
)

SEEDS, FEWER = 3, 2  # fewer for the sweeps with many runs
TOKEN_BUDGETS = (75_000, 150_000, 300_000, 600_000, 1_200_000)
MAX_COMPUTE = training_compute(FAMILY[-1], NUM_TOKENS)
MIDDLE, TEXT_SIZES, EPOCHS = 64, (6_000, 19_000, 60_000, 190_000, 600_000), (4, 8, 16, 32, 64)


# Sweeps


def compute_sweep(widths: Sequence[int], budgets: Sequence[int], seeds: int) -> list[dict]:
    """`size_sweep` over all budgets that take at most MAX_COMPUTE."""
    points = []
    for dim in widths:
        affordable = [num_tokens for num_tokens in budgets if training_compute(dim, num_tokens) <= 1.01 * MAX_COMPUTE]
        points += size_sweep([dim], affordable, seeds)
    return points


def frontier(points: Sequence[dict]) -> list[dict]:
    """Compute-optimal frontier of a `compute_sweep`: the lower convex hull on logarithmic axes, from the least compute to the
    lowest loss.

    A power law is a straight line there, and one with an irreducible loss is convex, so all its points can be on the hull.
    """
    order = sorted(points, key=lambda point: (point["x"], point["loss"].mean().item()))
    logs = [(math.log(point["x"]), math.log(point["loss"].mean().item())) for point in order]
    hull: list[int] = []
    for index, (x, y) in enumerate(logs):
        while len(hull) > 1 and _is_above(logs[hull[-2]], logs[hull[-1]], (x, y)):
            hull.pop()
        if not hull or x > logs[hull[-1]][0]:
            hull.append(index)
    lowest = min(hull, key=lambda index: logs[index][1])
    return [order[index] for index in hull if logs[index][0] <= logs[lowest][0]]


def _is_above(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b is on or above the straight line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0])


def data_sweep(
    seeds: int, dim: int = MIDDLE, text_sizes: Sequence[int] = TEXT_SIZES, max_tokens: int = 4 * NUM_TOKENS
) -> dict:
    """One model on texts of several sizes: x (texts,), their tokens, loss (texts, seeds) and epochs (texts,).

    The first of EPOCHS over the text, then more as long as that lowers the mean validation loss over the seeds, up to
    `max_tokens` tokens in all. Each try is a whole run with its own schedule.
    """
    losses, best_epochs = [], []
    for text_size in text_sizes:
        best = None
        for epochs in (epochs for epochs in EPOCHS if epochs == EPOCHS[0] or epochs * text_size <= max_tokens):
            runs = [scaling_run(dim, s, num_tokens=epochs * text_size, text_size=text_size) for s in range(seeds)]
            validation = sum(result["validation"] for result in runs)
            if best is not None and validation >= best[0]:
                break
            best = validation, epochs, [result["test"] for result in runs]
        best_epochs.append(best[1])
        losses.append(best[2])
    return {"x": list(text_sizes), "loss": torch.tensor(losses, dtype=torch.float64), "epochs": best_epochs}


# Tables


def scaling_table(
    seeds: int = SEEDS,
    fewer: int = FEWER,
    family: Sequence[int] = FAMILY,
    larger: int = LARGER,
    num_tokens: int = NUM_TOKENS,
    data: dict | None = None,
    budgets: Sequence[int] = TOKEN_BUDGETS,
    best_of: Callable = frontier,
) -> dict:
    """Loss against parameters, text and compute; and a larger model that no fit includes. data: other settings of `data_sweep`."""
    parameters = size_sweep(family, [num_tokens], seeds)
    text, points = data_sweep(fewer, **data or {}), compute_sweep(family, budgets, fewer)
    larger_loss = [scaling_run(larger, seed, num_tokens=num_tokens)["test"] for seed in range(seeds)]
    longer_loss = [scaling_run(family[-1], seed, num_tokens=2 * num_tokens)["test"] for seed in range(fewer)]
    return {
        "python": platform.python_version(),
        "parameters": {
            "seeds": seeds,
            "x": [point["parameters"] for point in parameters],
            "loss": [_rounded(point["loss"].tolist()) for point in parameters],
        },
        "data": {
            "seeds": fewer,
            "x": text["x"],
            "epochs": text["epochs"],
            "loss": [_rounded(losses) for losses in text["loss"].tolist()],
        },
        "compute": {
            "points": [_point(point) for point in points],
            "frontier": [_point(point) for point in best_of(points)],
        },
        "larger": {"x": num_parameters(larger), "loss": _rounded(larger_loss)},
        # About the same compute in another way: the largest of the family on twice as many tokens.
        "longer": {
            "x": [training_compute(larger, num_tokens), training_compute(family[-1], 2 * num_tokens)],
            "loss": _rounded(longer_loss),
        },
    }


def _point(point: dict) -> dict:
    return {**point, "loss": round(point["loss"].mean().item(), 4)}


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


def modifications_table(seeds: int = SEEDS, **settings) -> dict:
    """Held-out loss of each change at the same budget, over seeds, and how much better than the base, seed by seed."""
    rows = compare(seeds=seeds, **settings)
    return {
        "python": platform.python_version(),
        "seeds": seeds,
        "base": BASE,
        "rows": [
            {
                "change": row["change"],
                "factor": row["factor"],
                "parameters": row["parameters"],
                "loss": over_seeds(row["loss"].tolist(), 4),
                "seeds": _rounded(row["loss"].tolist()),
                "improvement": round(row["improvement"].mean().item(), 4),
                "standard_error": round(row["standard_error"], 4),
            }
            for row in rows
        ],
    }


# What is shown


def show_scaling(result: dict) -> Shown:
    sweeps, parameters = fitted_sweeps(result), result["parameters"]
    epochs = result["data"]["epochs"]
    names = {"parameters": "parameters", "text": "tokens of text", "compute": "compute (frontier)"}
    held_out = {kind: sweeps["parameters"][kind]["held_out"] for kind in LAWS}
    measured = over_seeds(result["larger"]["loss"])
    errors = {kind: fit["value"] / measured["median"] - 1 for kind, fit in held_out.items()}
    predictions = [
        f"{fit['value']:.3f} ({fit['low']:.3f} to {fit['high']:.3f}) {kind} ({100 * errors[kind]:+.1f} %)"
        for kind, fit in held_out.items()
    ]
    return Shown(
        "Scaling laws",
        f"Power laws fitted to the test loss of causal language models with {min(parameters['x']):,} to {max(parameters['x']):,} parameters, "
        f"{parameters['seeds']} seeds ({result['data']['seeds']} for text and compute; each token of text seen {min(epochs)} to {max(epochs)} times), text of Python {result['python']}; exponents with 95 % intervals. For a "
        f"held-out model of {result['larger']['x']:,} parameters the fits predict a loss of {' and '.join(predictions)}; measured (median): {ranged(measured, 3)}.",
        ("loss against", "irreducible loss", "points", "exponent", "irreducible loss, nats", "scatter"),
        [
            (words, kind.split()[0], len(sweeps[name]["x"]), *_law_cells(sweeps[name][kind]["law"]))
            for name, words in names.items()
            for kind in LAWS
        ],
        [
            at_most(
                "predicted loss of the held-out model, relative error",
                100 * abs(errors["with irreducible loss"]),
                1,
                "%",
            )
        ],
    )


def _law_cells(law: dict) -> tuple[str, str, str]:
    exponent, low, high = law["exponent"]
    irreducible = "" if law["irreducible_loss"] is None else f"{law['irreducible_loss']:.2f}"
    return f"{exponent:.3f} ({low:.3f} to {high:.3f})", irreducible, f"{100 * law['scatter']:.1f} %"


def show_modifications(result: dict) -> Shown:
    return Shown(
        "Modifications, one at a time",
        f"Test loss in nats at the same budget, {result['seeds']} seeds; mean improvement over the baseline with its standard error, and the best factor on the baseline's learning rate.",
        ("change", "loss", "improvement", "learning rate factor"),
        [
            (
                row["change"],
                ranged(row["loss"], 3),
                "" if row["change"] == result["base"] else f"{row['improvement']:+.3f} ± {row['standard_error']:.3f}",
                f"{row['factor']:g}",
            )
            for row in result["rows"]
        ],
    )


BENCHMARKS = (
    Benchmark(
        "scaling",
        "09",
        scaling_table,
        show_scaling,
        {
            "seeds": 1,
            "fewer": 1,
            "family": FAMILY[:4],
            "larger": FAMILY[4],
            "num_tokens": 20_000,
            "data": {"dim": FAMILY[0], "text_sizes": (5_000, 10_000, 20_000, 40_000), "max_tokens": 1},
            "budgets": (10_000, 20_000),
            "best_of": list,  # the frontier of so few points is too short for a fit
        },
        packages=("tokenizers",),
    ),
    Benchmark(
        "modifications",
        "09",
        modifications_table,
        show_modifications,
        {"seeds": 2, "changes": SHORT, "factors": [1.0], "num_tokens": 10_000},
        packages=("tokenizers",),
    ),
)

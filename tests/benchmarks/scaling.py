"""Lesson 09 with the runs that the lesson has no time for: three scaling sweeps, and modifications one at a time."""

import platform
from collections.abc import Callable, Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_most
from utils.build.results import ranged
from utils.training.metrics import over_seeds
from utils.training.modifications import BASE, SHORT, compare
from utils.training.scaling import (
    FAMILY,
    LARGER,
    LAWS,
    NUM_TOKENS,
    TOKEN_BUDGETS,
    data_sweep,
    fitted_sweeps,
    frontier,
    num_parameters,
    scaling_run,
    size_sweep,
    training_compute,
)

SEEDS, FEWER = 3, 2  # fewer for the sweeps with many runs


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
    text, points = data_sweep(seeds=fewer, **data or {}), size_sweep(family, budgets, fewer)
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
    names = {"parameters": "parameters", "text": "training tokens", "compute": "compute (frontier)"}
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
        f"{parameters['seeds']} seeds ({result['data']['seeds']} for tokens and compute), text of Python {result['python']}; exponents with 95 % intervals. For a "
        f"held-out model of {result['larger']['x']:,} parameters the fits predict a loss of {' and '.join(predictions)}; measured: {ranged(measured, 3)}.",
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

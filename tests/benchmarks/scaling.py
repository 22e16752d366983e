"""Lesson 09 with the runs that the lesson has no time for: three scaling sweeps, and modifications one at a time."""

import platform
from collections.abc import Callable, Sequence

from torch import Tensor

from tests.benchmarks.benchmark import Benchmark, Shown, at_most
from utils.build.results import ranged
from utils.training.metrics import over_seeds
from utils.training.modifications import BASE, CHANGES, LITERATURE, SHORT, compare
from utils.training.scaling import (
    FAMILY,
    LARGER,
    LAWS,
    MIDDLE,
    NUM_TOKENS,
    VOCAB_SIZE,
    PowerLaw,
    Size,
    compute_sweep,
    data_sweep,
    frontier,
    learning_rate_check,
    parameter_sweep,
    power_law_fit,
    scaling_run,
)

SEEDS, FEWER = 3, 2  # fewer for the sweeps with many runs


def scaling_table(
    seeds: int = SEEDS,
    fewer: int = FEWER,
    family: Sequence[Size] = FAMILY,
    larger_size: Size = LARGER,
    num_tokens: int = NUM_TOKENS,
    data: dict | None = None,
    compute: dict | None = None,
    learning_rates: dict | None = None,
    best_of: Callable = frontier,
) -> dict:
    """Loss against parameters, text and compute, with power laws fitted to the means over seeds; and a larger model, predicted and
    then trained. data, compute, learning_rates: other settings of these sweeps."""
    parameters = parameter_sweep(family, seeds=seeds, num_tokens=num_tokens)
    text, points = data_sweep(seeds=fewer, **data or {}), compute_sweep(seeds=fewer, **compute or {})
    best = best_of(points)
    along = [point["x"] for point in best], [point["loss"].mean() for point in best]
    larger = [scaling_run(larger_size, seed, num_tokens=num_tokens)["test"] for seed in range(seeds)]
    longer = [scaling_run(family[-1], seed, num_tokens=2 * num_tokens)["test"] for seed in range(fewer)]
    checked = learning_rate_check((family[0], MIDDLE, larger_size), **learning_rates or {})
    losses = parameters["loss"].mean(1)
    return {
        "python": platform.python_version(),
        "vocab_size": VOCAB_SIZE,
        "num_tokens": num_tokens,
        "parameters": {
            "seeds": seeds,
            "sizes": parameters["sizes"],
            "x": parameters["x"],
            "loss": _nested(parameters["loss"]),
            "laws": _laws(parameters["x"], losses),
        },
        "data": {
            "seeds": fewer,
            "size": text["size"],
            "x": text["x"],
            "epochs": text["epochs"],
            "loss": _nested(text["loss"]),
            "generalization_gap": _nested(text["generalization_gap"]),
            "laws": _laws(text["x"], text["loss"].mean(1)),
        },
        "compute": {
            "seeds": fewer,
            "points": [_point(point) for point in points],
            "frontier": [_point(point) for point in best],
            "laws": _laws(*along),
        },
        "larger": {
            "size": str(larger_size),
            "x": larger_size.parameters,
            "measured": over_seeds(larger, 4),
            "loss": [round(loss, 4) for loss in larger],
            "predicted": _predicted(parameters["x"], losses, larger_size.parameters),
        },
        # About the same compute in another way: the largest of the family on twice as many tokens.
        "longer": {
            "size": str(family[-1]),
            "num_tokens": 2 * num_tokens,
            "x": [larger_size.compute(num_tokens), family[-1].compute(2 * num_tokens)],
            "loss": [round(loss, 4) for loss in longer],
            "predicted": _predicted(*along, larger_size.compute(num_tokens)),
        },
        "learning_rates": {"sizes": checked["sizes"], "factors": checked["factors"], "loss": _nested(checked["loss"])},
    }


def _point(point: dict) -> dict:
    return {**point, "loss": round(point["loss"].mean().item(), 4)}


def _laws(x, y) -> dict:
    return {name: _law(power_law_fit(x, y, irreducible)) for name, irreducible in LAWS.items()}


def _predicted(x, y, x_new: float) -> dict:
    """Value, low and high at a new x, by both laws."""
    return {
        name: [round(value, 4) for value in power_law_fit(x, y, irreducible).predict(x_new)]
        for name, irreducible in LAWS.items()
    }


def _law(law: PowerLaw) -> dict:
    return {
        **{name: _short(getattr(law, name)) for name in ("irreducible_loss", "coefficient", "exponent", "scatter")},
        **{
            f"{name}_interval": [_short(end) for end in law.interval(name)] for name in ("irreducible_loss", "exponent")
        },
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _nested(values: Tensor, digits: int = 4) -> list:
    return [_nested(row, digits) if row.dim() else round(row.item(), digits) for row in values]


def modifications_table(seeds: int = SEEDS, **settings) -> dict:
    """Held-out loss of each change at the same budget, over seeds; how much better than the base, seed by seed; and what the
    literature found."""
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
                "hidden_dim": row["hidden_dim"],
                "loss": over_seeds(row["loss"].tolist(), 4),
                "seeds": _nested(row["loss"]),
                "improvement": round(row["improvement"].mean().item(), 4),
                "standard_error": round(row["standard_error"], 4),
                "seconds": round(row["seconds"], 1),
            }
            for row in rows
        ],
        "literature": [{"about": about, "finding": finding, "source": source} for about, finding, source in LITERATURE],
    }


# What is shown


def show_scaling(result: dict) -> Shown:
    names = {"parameters": "parameters", "data": "training tokens", "compute": "compute (frontier)"}
    larger = result["larger"]
    predictions = [
        f"{value:.3f} ({low:.3f} to {high:.3f}) {kind} ({100 * (value / larger['measured']['median'] - 1):+.1f} %)"
        for kind, (value, low, high) in larger["predicted"].items()
    ]
    off = abs(larger["predicted"]["with irreducible loss"][0] / larger["measured"]["median"] - 1)
    return Shown(
        "Scaling laws",
        f"Power laws fitted to the test loss of causal language models with {min(result['parameters']['x']):,} to {max(result['parameters']['x']):,} parameters, "
        f"{result['parameters']['seeds']} seeds ({result['data']['seeds']} for tokens and compute), text of Python {result['python']}; exponents with 95 % intervals. For a "
        f"held-out model of {larger['x']:,} parameters the fits predict a loss of {' and '.join(predictions)}; measured: {ranged(larger['measured'], 3)}.",
        ("loss against", "irreducible loss", "points", "exponent", "irreducible loss, nats", "scatter"),
        [
            (
                words,
                kind.split()[0],
                len(result[name].get("frontier", result[name].get("x"))),
                f"{law['exponent']:.3f} ({law['exponent_interval'][0]:.3f} to {law['exponent_interval'][1]:.3f})",
                f"{law['irreducible_loss']:.2f}" if LAWS[kind] else "",
                f"{100 * law['scatter']:.1f} %",
            )
            for name, words in names.items()
            for kind, law in result[name]["laws"].items()
        ],
        [at_most("predicted loss of the held-out model, relative error", 100 * off, 1, "%")],
    )


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
            "larger_size": FAMILY[4],
            "num_tokens": 20_000,
            "data": {"size": FAMILY[0], "text_sizes": (5_000, 10_000, 20_000, 40_000), "max_tokens": 1},
            "compute": {"sizes": FAMILY[:2], "budgets": (10_000, 20_000, 40_000)},
            "learning_rates": {"factors": (1.0,), "num_tokens": 10_000},
            "best_of": list,  # the frontier of so few points is too short for a fit
        },
        packages=("tokenizers",),
    ),
    Benchmark(
        "modifications",
        "09",
        modifications_table,
        show_modifications,
        {"seeds": 2, "changes": {name: CHANGES[name] for name in SHORT}, "factors": [1.0], "num_tokens": 10_000},
        packages=("tokenizers",),
    ),
)

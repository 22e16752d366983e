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
    MIDDLE,
    PIECES,
    READ,
    PowerLaw,
    Size,
    computing_sweep,
    data_sweep,
    frontier,
    parameter_sweep,
    power_law_fit,
    rate_check,
    scaling_run,
)

SEEDS, FEWER = 3, 2  # fewer for the sweeps with many runs


KINDS = {"with floor": True, "without": False}


def scaling_table(
    seeds: int = SEEDS,
    fewer: int = FEWER,
    family: Sequence[Size] = FAMILY,
    larger_size: Size = LARGER,
    read: int = READ,
    data: dict | None = None,
    compute: dict | None = None,
    rates: dict | None = None,
    best_of: Callable = frontier,
) -> dict:
    """Loss against parameters, text and compute, with power laws fitted to the means over seeds; and a larger model, predicted and
    then trained. data, compute, rates: other settings of these sweeps."""
    parameters = parameter_sweep(family, seeds=seeds, read=read)
    text, computing = data_sweep(seeds=fewer, **data or {}), computing_sweep(seeds=fewer, **compute or {})
    best = best_of(computing)
    along = [one["x"] for one in best], [one["loss"].mean() for one in best]
    larger = [scaling_run(larger_size, seed, read=read)["held_out"] for seed in range(seeds)]
    longer = [scaling_run(family[-1], seed, read=2 * read)["held_out"] for seed in range(fewer)]
    checked = rate_check((family[0], MIDDLE, larger_size), **rates or {})
    losses = parameters["loss"].mean(1)
    return {
        "python": platform.python_version(),
        "pieces": PIECES,
        "read": read,
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
            "passes": text["passes"],
            "loss": _nested(text["loss"]),
            "gap": _nested(text["gap"]),
            "laws": _laws(text["x"], text["loss"].mean(1)),
        },
        "computing": {
            "seeds": fewer,
            "points": [_point(one) for one in computing],
            "frontier": [_point(one) for one in best],
            "laws": _laws(*along),
        },
        "larger": {
            "size": str(larger_size),
            "x": larger_size.parameters,
            "reached": over_seeds(larger, 4),
            "loss": [round(one, 4) for one in larger],
            "foretold": _foretold(parameters["x"], losses, larger_size.parameters),
        },
        # About the same compute in another way: the largest of the family reads twice as much.
        "longer": {
            "size": str(family[-1]),
            "read": 2 * read,
            "x": [larger_size.computing(read), family[-1].computing(2 * read)],
            "loss": [round(one, 4) for one in longer],
            "foretold": _foretold(*along, larger_size.computing(read)),
        },
        "rates": {"sizes": checked["sizes"], "factors": checked["factors"], "loss": _nested(checked["loss"])},
    }


def _point(one: dict) -> dict:
    return {**one, "loss": round(one["loss"].mean().item(), 4)}


def _laws(x, y) -> dict:
    return {name: _law(power_law_fit(x, y, floor)) for name, floor in KINDS.items()}


def _foretold(x, y, where: float) -> dict:
    """Value, low and high at a new place, by both kinds of law."""
    return {
        name: [round(value, 4) for value in power_law_fit(x, y, floor).predict(where)] for name, floor in KINDS.items()
    }


def _law(law: PowerLaw) -> dict:
    return {
        **{name: _short(getattr(law, name)) for name in ("floor", "amount", "exponent", "scatter")},
        **{f"{name}_interval": [_short(end) for end in law.interval(name)] for name in ("floor", "exponent")},
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
                "hidden": row["hidden"],
                "loss": over_seeds(row["loss"].tolist(), 4),
                "seeds": _nested(row["loss"]),
                "better": round(row["better"].mean().item(), 4),
                "noise": round(row["noise"], 4),
                "seconds": round(row["seconds"], 1),
            }
            for row in rows
        ],
        "literature": [{"about": about, "found": found, "source": source} for about, found, source in LITERATURE],
    }


# What is shown

LAWS = {"with floor": "with irreducible loss", "without": "without"}


def show_scaling(result: dict) -> Shown:
    names = {"parameters": "parameters", "data": "training tokens", "computing": "compute (frontier)"}
    larger = result["larger"]
    predictions = [
        f"{value:.3f} ({low:.3f} to {high:.3f}) {LAWS[kind]} ({100 * (value / larger['reached']['median'] - 1):+.1f} %)"
        for kind, (value, low, high) in larger["foretold"].items()
    ]
    off = abs(larger["foretold"]["with floor"][0] / larger["reached"]["median"] - 1)
    return Shown(
        "Scaling laws",
        f"Power laws fitted to the test loss of causal language models with {min(result['parameters']['x']):,} to {max(result['parameters']['x']):,} parameters, "
        f"{result['parameters']['seeds']} seeds ({result['data']['seeds']} for tokens and compute), text of Python {result['python']}; exponents with 95 % intervals. For a "
        f"held-out model of {larger['x']:,} parameters the fits predict a loss of {' and '.join(predictions)}; measured: {ranged(larger['reached'], 3)}.",
        ("loss against", "irreducible loss", "points", "exponent", "irreducible loss, nats", "scatter"),
        [
            (
                words,
                LAWS[kind].split()[0],
                len(result[name].get("frontier", result[name].get("x"))),
                f"{law['exponent']:.3f} ({law['exponent_interval'][0]:.3f} to {law['exponent_interval'][1]:.3f})",
                f"{law['floor']:.2f}" if kind == "with floor" else "",
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
                row["change"].replace("gated (SwiGLU)", "SwiGLU").replace("untied", "untied embeddings"),
                ranged(row["loss"], 3),
                "" if row["change"] == result["base"] else f"{row['better']:+.3f} ± {row['noise']:.3f}",
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
            "read": 20_000,
            "data": {"size": FAMILY[0], "amounts": (5_000, 10_000, 20_000, 40_000), "most_read": 1},
            "compute": {"sizes": FAMILY[:2], "reads": (10_000, 20_000, 40_000)},
            "rates": {"factors": (1.0,), "read": 10_000},
            "best_of": list,  # the frontier of so few points is too short for a fit
        },
        packages=("tokenizers",),
    ),
    Benchmark(
        "modifications",
        "09",
        modifications_table,
        show_modifications,
        {"seeds": 2, "changes": {name: CHANGES[name] for name in SHORT}, "factors": [1.0], "read": 10_000},
        packages=("tokenizers",),
    ),
)

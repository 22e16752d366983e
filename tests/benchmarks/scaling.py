"""Lesson 08 with the runs that the lesson has no time for: three sweeps over a family of models, and the table of changes."""

import platform

from torch import Tensor

from utils.training.metrics import over_seeds
from utils.training.modifications import BASE, LITERATURE, compare
from utils.training.scaling import (
    FAMILY,
    LARGER,
    MIDDLE,
    PIECES,
    READ,
    PowerLaw,
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


def scaling_table() -> dict:
    """Loss against parameters, text and computing, with laws fitted to the means over seeds; and a larger model, foretold and
    then trained."""
    parameters, data, computing = parameter_sweep(seeds=SEEDS), data_sweep(seeds=FEWER), computing_sweep(seeds=FEWER)
    best = frontier(computing)
    along = [one["x"] for one in best], [one["loss"].mean() for one in best]
    larger = [scaling_run(LARGER, seed)["held_out"] for seed in range(SEEDS)]
    longer = [scaling_run(FAMILY[-1], seed, read=2 * READ)["held_out"] for seed in range(FEWER)]
    checked = rate_check((FAMILY[0], MIDDLE, LARGER))
    losses = parameters["loss"].mean(1)
    return {
        "python": platform.python_version(),
        "pieces": PIECES,
        "read": READ,
        "parameters": {
            "seeds": SEEDS,
            "sizes": parameters["sizes"],
            "x": parameters["x"],
            "loss": _nested(parameters["loss"]),
            "laws": _laws(parameters["x"], losses),
        },
        "data": {
            "seeds": FEWER,
            "size": data["size"],
            "x": data["x"],
            "passes": data["passes"],
            "loss": _nested(data["loss"]),
            "gap": _nested(data["gap"]),
            "laws": _laws(data["x"], data["loss"].mean(1)),
        },
        "computing": {
            "seeds": FEWER,
            "points": [_point(one) for one in computing],
            "frontier": [_point(one) for one in best],
            "laws": _laws(*along),
        },
        "larger": {
            "size": str(LARGER),
            "x": LARGER.parameters,
            "reached": over_seeds(larger, 4),
            "loss": [round(one, 4) for one in larger],
            "foretold": _foretold(parameters["x"], losses, LARGER.parameters),
        },
        # About the same computing in another way: the largest of the family reads twice as much.
        "longer": {
            "size": str(FAMILY[-1]),
            "read": 2 * READ,
            "x": [LARGER.computing(READ), FAMILY[-1].computing(2 * READ)],
            "loss": [round(one, 4) for one in longer],
            "foretold": _foretold(*along, LARGER.computing(READ)),
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


def modifications_table() -> dict:
    """Held-out loss of each change at the same budget, over seeds; how much better than the base, seed by seed; and what the
    literature found."""
    rows = compare(seeds=SEEDS)
    return {
        "python": platform.python_version(),
        "seeds": SEEDS,
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

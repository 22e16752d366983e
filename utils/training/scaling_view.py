"""The stored sweeps of `make bench` with their laws, in the form that the figures of lesson 09 take."""

import torch

from utils.training.scaling import PowerLaw, power_law_fit

KINDS = {"plain": False, "floor": True}  # the law without a floor, and with one


def drawn_sweeps(result: dict) -> dict[str, dict]:
    """The stored result "scaling" as parameters, text, computing: x, loss (points, seeds), xlabel, and for both kinds of law the
    curve with its band, and what it foretold of the model that it was not told about. computing has a cloud: the other runs."""
    larger, longer, computing = result["larger"], result["longer"], result["computing"]
    frontier = computing["frontier"]
    above = [one for one in computing["points"] if one not in frontier]
    # The law of the computing speaks of the best use of it: the better of the two large runs.
    best = min(zip(longer["x"], (larger["loss"], longer["loss"]), strict=True), key=lambda run: mean(run[1]))
    sweeps = {
        "parameters": {**_points(result["parameters"]), "xlabel": "parameters"},
        "text": {**_points(result["data"]), "xlabel": "pieces of text"},
        "computing": {
            "x": [one["x"] for one in frontier],
            "loss": [[one["loss"]] for one in frontier],
            "xlabel": "operations",
            "cloud": ([one["x"] for one in above], [one["loss"] for one in above]),
        },
    }
    unseen = {"parameters": (larger["x"], larger["loss"]), "computing": best}
    for name, sweep in sweeps.items():
        means = [mean(losses) for losses in sweep["loss"]]
        for kind, floor in KINDS.items():
            sweep[kind] = _with_law(power_law_fit(sweep["x"], means, floor), sweep["x"], floor, unseen.get(name))
    return sweeps


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _points(sweep: dict) -> dict:
    return {name: sweep[name] for name in ("x", "loss")}


def _with_law(law: PowerLaw, x: list[float], floor: bool, unseen: tuple[float, list[float]] | None) -> dict:
    ends = torch.tensor([min(x), unseen[0] if unseen else max(x)], dtype=torch.float64).log10().tolist()
    grid = torch.logspace(*ends, 60, dtype=torch.float64)
    low, high = law.band(grid)
    drawn = {
        "x": grid,
        "curve": law.at(grid),
        "low": low,
        "high": high,
        "exponent": (law.exponent, *law.interval()),
        "floor": law.floor if floor else None,
    }
    if unseen is None:
        return {"law": drawn}
    where, reached = unseen
    return {"law": drawn, "held_out": {"x": where, **law.predict(where)._asdict(), "reached": reached}}

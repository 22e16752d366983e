"""Controls of a widget's inputs: what a lesson writes, as what the page draws."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LogRange:
    """A slider on which equal distances are equal factors."""

    low: float
    high: float
    start: float
    steps: int = 60


@dataclass(frozen=True)
class Menu:
    """A choice that need not start at its first option."""

    options: list | dict
    start: object


def menu(options, start):
    """A choice whose options stand in their own order and which starts at the value `start`."""
    return Menu(options, start)


def log_range(low, high, start, steps=60):
    """A slider from low to high on a logarithmic scale."""
    return LogRange(low, high, start, steps)


def control(name, given, label=None):
    """(specification for the page, first value) of one control.

    given: (low, high, step, start) or `log_range(...)` for a slider; a list of values, a list of (label, value), a dict
    {label: value} or `menu(options, start)` for a choice; True or False for a check box; a string for a text field, one with
    line ends for a larger one.
    """
    spec = {"name": name, "label": label or name.replace("_", " ")}
    if isinstance(given, bool):
        return {**spec, "kind": "check"}, given
    if isinstance(given, str):
        lines = given.count("\n") + 1
        return {**spec, "kind": "text", "lines": lines + 3 if lines > 1 else 1}, given
    if isinstance(given, LogRange):
        return {
            **spec,
            "kind": "slider",
            "log": True,
            "low": given.low,
            "high": given.high,
            "steps": given.steps,
        }, given.start
    if isinstance(given, tuple):
        return {**spec, "kind": "slider", **slider(name, given)}, given[3]
    options = given.options if isinstance(given, Menu) else given
    if not isinstance(options, (list, dict)) or not options:
        raise TypeError(
            f"the control {name!r} is {given!r}; expected (low, high, step, start), log_range(...), a list or a dict of "
            "choices, menu(...), True or False, or a string"
        )
    pairs = labeled(options)
    return {**spec, "kind": "choice", "options": pairs}, given.start if isinstance(given, Menu) else pairs[0][1]


def slider(name, given):
    if len(given) != 4 or not all(isinstance(number, (int, float)) for number in given):
        raise ValueError(f"the control {name!r} must be four numbers (low, high, step, start), got {given!r}")
    low, high, step, start = given
    if not (low < high and step > 0 and low <= start <= high):
        raise ValueError(
            f"the control {name!r} needs low < high, a positive step and a start between them, got {given!r}"
        )
    whole = all(isinstance(number, int) for number in given)
    return {
        "log": False,
        "low": low,
        "high": high,
        "steps": round((high - low) / step),
        "decimals": 0 if whole else decimals_of(step),
    }


def values(spec):
    """All values that a control can take, as the page computes them; None for a text."""
    if spec["kind"] != "slider":
        return {"choice": [value for _, value in spec.get("options", [])], "check": [False, True]}.get(spec["kind"])
    low, high = spec["low"], spec["high"]
    parts = [step / spec["steps"] for step in range(spec["steps"] + 1)]
    if spec["log"]:
        return [four_digits(low * (high / low) ** part) for part in parts]
    return [round(low + (high - low) * part, spec["decimals"] or None) for part in parts]


def four_digits(value):
    """As `fourDigits` in core.js."""
    return float(f"{value:.4g}") if value < 1000 else float(round(value))


def labeled(options):
    if isinstance(options, dict):
        return [[str(label), value] for label, value in options.items()]
    if all(isinstance(option, tuple) and len(option) == 2 and isinstance(option[0], str) for option in options):
        return [list(option) for option in options]
    return [[str(option), option] for option in options]


def decimals_of(step):
    """How many decimals a slider with this step shows."""
    return max(1, len(f"{step:.6f}".rstrip("0").split(".")[1]))

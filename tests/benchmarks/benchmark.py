"""What a benchmark is: a measurement, and what docs/results.md shows of its result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Shown(NamedTuple):
    """Title, caption and table of a result, and the targets it is held to; computed from the raw result, never typed."""

    title: str
    caption: str
    columns: Sequence[Any]
    rows: Sequence[Sequence[Any]]
    targets: Sequence[dict] = ()

    def as_facts(self) -> dict:
        """Plain data for the results file."""
        return {
            "title": self.title,
            "caption": self.caption,
            "columns": [str(column) for column in self.columns],
            "rows": [[str(cell) for cell in row] for row in self.rows],
            "targets": list(self.targets),
        }


@dataclass(frozen=True)
class Benchmark:
    name: str  # of its results file
    lesson: str  # its section in docs/results.md
    measure: Callable[..., Any]  # returns plain data, which lessons read with stored(name).result
    show: Callable[[Any], Shown]
    quick: Mapping[str, Any] = field(default_factory=dict)  # arguments of `measure` that make it a matter of seconds
    # A second thread gains little at these sizes, and loses much beside another process.
    threads: int = 1
    packages: tuple[str, ...] = ()  # packages besides torch that the figures depend on; their versions are recorded
    needs: Path | None = None  # a folder of files that cannot be shipped; without it the stored result stays


def at_most(what: str, value: float, limit: float, unit: str = "") -> dict:
    return _target(what, f"at most {limit:g}", value, value <= limit, unit)


def at_least(what: str, value: float, limit: float, unit: str = "") -> dict:
    return _target(what, f"at least {limit:g}", value, value >= limit, unit)


def _target(what: str, limit: str, value: float, met: bool, unit: str) -> dict:
    space = "" if unit in ("", "x") else " "
    return {"what": what, "target": f"{limit}{space}{unit}", "measured": f"{value:.3g}{space}{unit}", "met": bool(met)}


def by(rows: Sequence[dict], key: str) -> dict[Any, dict]:
    """The rows of a result by what stands in this column."""
    return {row[key]: row for row in rows}

"""Stored results: full tables that `make bench` measured once, for lessons and documents to show, labelled as stored."""

import datetime
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch

from utils.course.places import ROOT
from utils.course.timing import machine

RESULTS = ROOT / "tests" / "benchmarks" / "results"


@dataclass(frozen=True)
class Stored:
    """What one benchmark measured, with machine, date and number of torch threads."""

    name: str
    machine: str
    date: str
    result: Any
    threads: int = 1

    @property
    def origin(self) -> str:
        threads = "one thread" if self.threads == 1 else f"{self.threads} threads"
        return f"on {self.date}, {self.machine}, {threads}, by `make bench`."

    @property
    def label(self) -> str:
        return f"Stored, not computed here: measured {self.origin}"

    def table(self, head: Sequence[str], rows: Sequence[Sequence]) -> "Table":
        """Rows of text under `head`, with the label below."""
        return Table(head, rows, self.label)


def stored(name: str, folder: Path = RESULTS) -> Stored:
    """The stored result of a benchmark; says how to measure it if there is none."""
    file = folder / f"{name}.json"
    if not file.exists():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.json"))) or "none"
        raise FileNotFoundError(
            f"no stored result '{name}'; there are: {known}. `python -m tests.benchmarks {name}` measures it."
        )
    entry = json.loads(file.read_text(encoding="utf-8"))
    return Stored(name, entry["machine"], entry["date"], entry["result"], entry["threads"])


def store(name: str, result: Any, folder: Path = RESULTS) -> Path:
    """Write what was measured just now; an older result stays whole until the new one is."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    entry = {
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "date": datetime.date.today().isoformat(),
        "result": result,
    }
    waiting = file.with_suffix(f".{os.getpid()}.part")
    waiting.write_text(json.dumps(entry, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    waiting.replace(file)
    return file


def ranged(values: dict | None, digits: int = 1) -> str:
    """{"median", "least", "most"} over the seeds as text: the median, and the range if there is one."""
    if values is None:
        return "none"
    middle, low, high = (f"{values[name]:,.{digits}f}" for name in ("median", "least", "most"))
    return middle if low == high else f"{middle} ({low} to {high})"


@dataclass(frozen=True)
class Table:
    """A table in two forms, HTML and text, with a line below that says where its figures come from."""

    head: Sequence
    rows: Sequence[Sequence]
    label: str = ""

    def __post_init__(self):
        object.__setattr__(self, "head", tuple(map(str, self.head)))
        object.__setattr__(self, "rows", tuple(tuple(map(str, row)) for row in self.rows))
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"expected {len(self.head)} columns ({', '.join(self.head)}), got {len(row)}: {row}")

    def text(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in self._lines())
        return "\n".join([*(line.rstrip() for line in lines), *([self.label] if self.label else [])])

    def _lines(self):
        return (self.head, *self.rows)

    def html(self) -> str:
        def cell(tag, words, look):
            return f'<{tag} style="{look}; padding: 3px 10px">{escape(words)}</{tag.split()[0]}>'

        # The first column names the row, the others are figures.
        left, right = "text-align: left", "text-align: right"
        head = "".join(cell('th scope="col"', words, right if place else left) for place, words in enumerate(self.head))
        body = "".join(
            "<tr>"
            + cell('th scope="row"', first, f"{left}; font-weight: normal")
            + "".join(cell("td", words, right) for words in others)
            + "</tr>"
            for first, *others in self.rows
        )
        below = f'<div style="margin-top: 4px; font-size: 0.9em">{escape(self.label)}</div>' if self.label else ""
        return f'<table style="font-size: 1em"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}'

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.text()}

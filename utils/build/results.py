"""Stored results: measured once by `make bench`, shown in lessons with a label, and all of them in docs/results.md."""

import datetime
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch

from utils.exercises.timing import machine
from utils.paths import ROOT

RESULTS = ROOT / "tests" / "benchmarks" / "results"


@dataclass(frozen=True)
class Stored:
    """The result of one benchmark, with machine, date and number of torch threads."""

    name: str
    machine: str
    date: str
    result: Any
    threads: int = 1

    @property
    def label(self) -> str:
        threads = "one thread" if self.threads == 1 else f"{self.threads} threads"
        return f"Stored, not computed here: measured on {self.date}, {self.machine}, {threads}, by `make bench`."

    def table(self, head: Sequence[str], rows: Sequence[Sequence]) -> "Table":
        """Rows of text under `head`, with the label below."""
        return Table(head, rows, self.label)


def stored(name: str, folder: Path = RESULTS) -> Stored:
    """The stored result of a benchmark; if there is none, the error says how to measure it."""
    file = folder / f"{name}.json"
    if not file.exists():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.json"))) or "none"
        raise FileNotFoundError(
            f"no stored result '{name}'; stored results: {known}. `python -m tests.benchmarks {name}` measures it."
        )
    entry = read_entry(file)
    return Stored(name, entry["machine"], entry["date"], entry["result"], entry["threads"])


def store(name: str, result: Any, folder: Path = RESULTS, **facts: Any) -> Path:
    """Write a new measurement, with further facts about it."""
    origin = {"machine": machine(), "threads": torch.get_num_threads(), "date": datetime.date.today().isoformat()}
    # The raw result comes last: it is the long part of the file.
    return write_entry(folder / f"{name}.json", facts | origin | {"result": result})


def read_entry(file: Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))


def write_entry(file: Path, entry: dict) -> Path:
    """Replace the file only once the new one is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(compact(entry) + "\n", encoding="utf-8")
    part.replace(file)
    return file


def compact(value: Any, indent: str = "") -> str:
    """JSON with one line per row: innermost lists and dictionaries stay on one line."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    if not any(isinstance(child, dict | list | tuple) and child for child in children):
        return json.dumps(value, ensure_ascii=False)
    inner = indent + " "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(str(name))}: {compact(child, inner)}" for name, child in value.items()]
    else:
        lines = [inner + compact(child, inner) for child in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + "\n" + ",\n".join(lines) + f"\n{indent}{closing}"


def ranged(values: dict | None, digits: int = 1) -> str:
    """{"median", "least", "most"} over the seeds as text: the median, and the range if there is one."""
    if values is None:
        return "none"
    middle, low, high = (f"{values[name]:,.{digits}f}" for name in ("median", "least", "most"))
    return middle if low == high else f"{middle} ({low} to {high})"


@dataclass(frozen=True)
class Table:
    """A table as HTML and as text, with a line below that says where its figures come from."""

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
        lines = (
            "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (self.head, *self.rows)
        )
        return "\n".join([*lines, *([self.label] if self.label else [])])

    def markdown(self) -> str:
        lines = (self.head, ("---",) * len(self.head), *self.rows)
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def html(self) -> str:
        def cell(tag, words, style):
            return f'<{tag} style="{style}; padding: 3px 10px">{escape(words)}</{tag.split()[0]}>'

        # The first column names the row, the others are figures.
        left, right = "text-align: left", "text-align: right"
        head = "".join(
            cell('th scope="col"', words, right if column else left) for column, words in enumerate(self.head)
        )
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

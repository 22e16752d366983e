"""Show the answers to an exercise, or add one: see `python -m tests.bank --help`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bank import Entry, add, answers_to, kind_of
from utils.exercises.registry import FAILED, PASSED, find, grade


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bank", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("show", help="print the answers to an exercise")
    shown.add_argument("exercise")
    added = commands.add_parser("add", help="grade an answer and add it if the verdict is as expected")
    added.add_argument("exercise")
    added.add_argument("file", type=Path, help="Python that ends in `answer = ...`")
    added.add_argument("--verdict", choices=(PASSED, FAILED), required=True)
    added.add_argument("--name", help="by default the name of the file")
    chosen = parser.parse_args(given)
    find(chosen.exercise)
    return show(chosen.exercise) if chosen.command == "show" else grade_and_add(chosen)


def show(exercise_id: str) -> int:
    for entry in answers_to(exercise_id):
        print(
            f"## {entry.exercise} {entry.name}: {entry.verdict}{f', {entry.kind}' if entry.kind else ''}\n{entry.code}"
        )
    return 0


def grade_and_add(chosen: argparse.Namespace) -> int:
    name = chosen.name or chosen.file.stem.replace("_", " ")
    entry = Entry(chosen.exercise, name, chosen.file.read_text(encoding="utf-8"), chosen.verdict, None)
    if name in {known.name for known in answers_to(entry.exercise)}:
        sys.exit(f"exercise {entry.exercise} already has an answer named {name!r}: give another one with --name")
    result = grade(entry.exercise, entry.build())
    print(result)
    if result.status != entry.verdict:
        sys.exit(f"not added: expected {entry.verdict}, got {result.status}")
    add(Entry(entry.exercise, name, entry.code, entry.verdict, kind_of(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

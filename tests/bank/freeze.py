"""Freeze the answers of tests/zoo and tests/mutants/by_hand.py as data, and prove that nothing changed on the way.

    python -m tests.bank.freeze

An answer's code is cut from its module: the imports and definitions that its expression needs, then `answer = <expression>`.
Each is graded beside the original, twice with the same random cases, and a third time with others: verdict, kind and message
must be the same (but for the line that an exception quotes), verdict and kind every time.
"""

import ast
import importlib
import json
import os
import re
import subprocess
import symtable
import sys
import tempfile
import textwrap
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from tests.bank import FOLDER, Entry, kind_of
from utils.course import exercises
from utils.course.exercises import FAILED, PASSED, grade
from utils.course.places import ROOT


def bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return []


def needed(text: str) -> set[str]:
    """The global names that a text reads."""

    def read_in(table: symtable.SymbolTable, top: bool) -> set[str]:
        own = {one.get_name() for one in table.get_symbols() if one.is_referenced() and (top or one.is_global())}
        return own.union(*(read_in(child, False) for child in table.get_children()))

    return read_in(symtable.symtable(text, "answer", "exec"), True)


class Module:
    """A module of answers, to be cut up."""

    def __init__(self, name: str):
        self.module = importlib.import_module(name)
        self.source = Path(self.module.__file__).read_text(encoding="utf-8")
        self.body = ast.parse(self.source).body
        self.places = {name: place for place, statement in enumerate(self.body) for name in bound(statement)}

    def text(self, node: ast.AST) -> str:
        return textwrap.dedent(ast.get_source_segment(self.source, node, padded=True))

    def statement(self, place: int) -> str:
        statement = self.body[place]
        first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))])
        return "\n".join(self.source.splitlines()[first - 1 : statement.end_lineno])

    def cut(self, expression: str) -> str:
        answer = f"answer = ({expression}\n)\n"
        names, waiting = set(), needed(answer)
        while waiting:
            name = waiting.pop()
            names.add(name)
            if name in self.places and not isinstance(self.body[self.places[name]], ast.Import | ast.ImportFrom):
                waiting |= needed(self.statement(self.places[name])) - names
        parts = []
        for place in sorted({self.places[name] for name in names if name in self.places}):
            statement = self.body[place]
            if isinstance(statement, ast.Import | ast.ImportFrom):
                statement.names, every = [one for one in statement.names if bound_as(one) in names], statement.names
                parts.append(ast.unparse(statement))
                statement.names = every
            else:
                parts.append(self.statement(place))
        return "\n".join([*parts, answer])


def bound_as(alias: ast.alias) -> str:
    return (alias.asname or alias.name).split(".")[0]


def answers_of(number: str, by_hand: Module):
    """Exercise, name, code, the original and its verdict; a wrong answer's name is the part of the message it had to get."""
    module = Module(f"tests.zoo.lesson{number}")
    values = {bound(one)[0]: one.value for one in module.body if isinstance(one, ast.Assign)}
    for key, value in zip(values["ZOO"].keys, values["ZOO"].values, strict=True):
        exercise_id, zoo, used = key.value, module.module.ZOO[key.value], {}
        fields = {one.arg: one.value for one in (values[value.id] if isinstance(value, ast.Name) else value).keywords}

        def named(name: str, used: dict = used) -> str:
            used[name] = used.get(name, 0) + 1
            return name if used[name] == 1 else f"{name} ({used[name]})"

        for node, (answer, part) in zip(fields["wrong"].elts, zoo.wrong, strict=True):
            yield exercise_id, named(part), module.cut(module.text(node.elts[0])), answer, FAILED
        for place, (node, answer) in enumerate(zip(fields["right"].elts, zoo.right, strict=True), 1):
            name = node.id.replace("_", " ") if isinstance(node, ast.Name) else f"right {place}"
            yield exercise_id, named(name), module.cut(module.text(node)), answer, PASSED
        for answer in by_hand.module.BY_HAND.get(exercise_id, ()):
            yield exercise_id, named(answer.__name__.replace("_", " ")), by_hand.cut(answer.__name__), answer, PASSED


def formatted(codes: list[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"answer{place:05d}.py" for place in range(len(codes))]
        for file, code in zip(files, codes, strict=True):
            file.write_text(code, encoding="utf-8")
        for command in (["check", "--select", "I", "--fix"], ["format"]):
            options = ["--config", str(ROOT / "pyproject.toml"), "--quiet", folder]
            subprocess.run([sys.executable, "-m", "ruff", *command, *options], check=True)
        return [file.read_text(encoding="utf-8") for file in files]


class Fixed:
    """The module `os`, with a fixed seed for the cases."""

    def __init__(self, seed: int):
        self.seed = seed

    def urandom(self, count: int) -> bytes:
        return self.seed.to_bytes(count, "little")

    def __getattr__(self, name: str):
        return getattr(os, name)


def proven(entry: Entry, original, seed: int) -> Entry:
    """The entry with its kind."""
    results = []
    for draw, in_process in ((seed, True), (seed + 5000, False), (seed + 9000, False)):
        exercises.os = Fixed(draw)
        results.append(grade(entry.exercise, entry.build(), in_process=in_process))
        expected = grade(entry.exercise, original, in_process=in_process)
        if seen(results[-1]) != seen(expected):
            raise AssertionError(f"{entry.exercise} {entry.name}: {results[-1]} became of {expected}")
    if {(result.status, result.kind) for result in results} != {(entry.verdict, results[0].kind)}:
        raise AssertionError(f"{entry.exercise} {entry.name}: {results}")
    return Entry(entry.exercise, entry.name, entry.code, entry.verdict, kind_of(results[0]))


def seen(result) -> tuple[str, str, str, str]:
    message = re.sub(r", at line \d+: `.*`", "", result.message)
    return result.status, result.kind, re.sub(r"0x[0-9a-f]+", "", message), result.printed


def main() -> None:
    by_hand = Module("tests.mutants.by_hand")
    found = [one for number in range(9) for one in answers_of(f"{number:02d}", by_hand)]
    lines = defaultdict(list)
    for seed, (one, code) in enumerate(zip(found, formatted([one[2] for one in found]), strict=True)):
        exercise_id, name, _, original, verdict = one
        entry = proven(Entry(exercise_id, name, code, verdict, None), original, seed)
        lines[exercises.lesson_number(exercise_id)].append(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
    for number, written in lines.items():
        (FOLDER / f"lesson{number}.jsonl").write_text("".join(written), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Bank of answers: wrong and right answers to every exercise, each with the verdict that its check must give.

`lessonNN.jsonl` holds one answer a line:

- "exercise" and "name"; wrong answers are mostly named by what their message says of them;
- "code": Python that stands alone and ends in `answer = ...`, a function, a class or a value;
- "verdict": "passed" or "failed";
- "kind": of a failure, "specific" if the message names the misconception, "generic" if it is one that fits any mistake (two
  values that differ, a shape, an exception); null of a right answer.

    python -m tests.bank show 4.3
    python -m tests.bank add 4.3 answer.py --verdict failed
"""

import hashlib
import json
import linecache
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from utils.exercises.registry import FAILED, PASSED, Result, lesson_number

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    exercise: str
    name: str
    code: str
    verdict: str
    kind: str | None

    @property
    def expected(self) -> tuple[str, str | None]:
        return self.verdict, self.kind

    def build(self):
        """The answer, made again with globals of its own; its lines can be quoted, as those of a notebook cell."""
        file = f"<answer {self.name!r} to {self.exercise}>"
        linecache.cache[file] = len(self.code), None, self.code.splitlines(keepends=True), file
        names = {"__name__": "an answer"}
        exec(compile(self.code, file, "exec"), names)
        return names["answer"]


@cache
def entries() -> tuple[Entry, ...]:
    lines = (line for file in sorted(FOLDER.glob("lesson*.jsonl")) for line in file.read_text("utf-8").splitlines())
    return tuple(Entry(**json.loads(line)) for line in lines)


def answers_to(exercise_id: str, verdict: str | None = None) -> list[Entry]:
    return [entry for entry in entries() if entry.exercise == exercise_id and verdict in (None, entry.verdict)]


def sample(exercise_id: str, wrong: int = 3, right: int = 1) -> list[Entry]:
    """Some answers, always the same as long as their code is."""
    return [
        *_first(answers_to(exercise_id, FAILED), wrong),
        *_first(answers_to(exercise_id, PASSED), right),
    ]


def _first(answers: Iterable[Entry], count: int) -> list[Entry]:
    return sorted(answers, key=lambda entry: hashlib.sha256(entry.code.encode()).digest())[:count]


def kind_of(result: Result) -> str | None:
    """Whether the message of a failure names the misconception, as the check itself noted when it raised it."""
    return result.kind if result.status == FAILED else None


def add(entry: Entry) -> None:
    with open(FOLDER / f"lesson{lesson_number(entry.exercise)}.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
    entries.cache_clear()

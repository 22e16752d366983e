"""The teacher's side of a verdict. No line of a student's runs here, and nothing is unpickled."""

import json
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache

from utils.checks import compare
from utils.checks.isolation import Outcome
from utils.exercises.registry import FAILED, NOT_ATTEMPTED, PASSED, Exercise, exercises_of, find
from utils.grading import child, wire
from utils.grading.notebook import USE
from utils.grading.sandbox import Lost, Reply, Sandbox
from utils.paths import STUDENTS

MISSING, UNREADABLE, NOT_GRADED = "missing", "unreadable", "not graded"
SECONDS = 8.0  # for one exercise, as in a notebook
SECONDS_IN_ALL = 90.0  # for one submission; the exercises left then are not graded
SECONDS_TO_LOOK = 30.0
COMPARING = threading.Lock()  # references and drawn cases use torch's one generator

TAMPERED = (
    "The check inside the notebook reported “passed”, but called from outside the answer gave different results: it tampers "
    "with the check or detects the grader. Review this notebook by hand."
)
SLOW = "The check reported “passed”, but a second run took too much time or memory: grade it again on an idle machine."
COPIED = "The answer calls the solution of the course instead of implementing the exercise: write the code in the cell."


@dataclass
class Row:
    """One line of the table. `exercise` is "" where a whole file could not be graded."""

    lesson: str
    exercise: str
    status: str
    message: str
    misconception: str = ""  # the message of the mistake, if the course has a model of it

    def as_dict(self) -> dict:
        return asdict(self)


@cache
def answer_names() -> dict[str, dict[str, str]]:
    """For each lesson, the name that each of its exercises asks for, from the teacher's student notebooks."""
    names: dict[str, dict[str, str]] = {}
    for path in sorted(STUDENTS.glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found = [
            match for cell in cells if cell["cell_type"] == "code" for match in USE.findall("".join(cell["source"]))
        ]
        names[path.name[:2]] = dict(found)
    return names


class Judge:
    """Grades submissions one by one; several threads may share it. A sandbox that is lost is started again, once a task."""

    def __init__(
        self, make: Callable[[], Sandbox] = Sandbox, seconds: float = SECONDS, seconds_in_all: float = SECONDS_IN_ALL
    ):
        self._make, self._seconds, self._in_all = make, seconds, seconds_in_all
        self._sandbox, self._lock, self._closed = make(), threading.Lock(), False
        for number in answer_names():
            exercises_of(number)  # loaded before threads ask for them

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._sandbox.close()

    def _ask(self, request: dict, seconds: float, data: bytes = b"") -> Reply:
        asked = self._sandbox
        try:
            return asked.ask(request, seconds, data)
        except Lost:
            with self._lock:
                if self._closed:
                    raise
                if self._sandbox is asked:
                    asked.close()
                    self._sandbox = self._make()
            return self._sandbox.ask(request, seconds, data)

    def rows(self, data: bytes) -> list[Row]:
        """The verdicts on one notebook file."""
        looked = self._ask({"task": "look", "names": answer_names()}, SECONDS_TO_LOOK, data)
        if looked.kind == "refused":
            return [Row("", "", UNREADABLE, clean(looked.text("message")))]
        if looked.kind != "value":
            what = {"timeout": "reading it took too long", "memory": "reading it needs too much memory"}
            why = what.get(looked.kind, "reading it failed")
            return [
                Row(
                    "",
                    "",
                    UNREADABLE,
                    f"The file cannot be read ({why}): ask the student to clear the outputs and submit again.",
                )
            ]
        lesson, missing = looked.value["lesson"], looked.value["missing"]
        names = answer_names()[lesson]
        task = {"names": names, "sources": looked.value["sources"], "passed": []}
        end = time.monotonic() + self._in_all
        rows = []
        for exercise_id in names:
            item = find(exercise_id)
            if exercise_id in missing:
                text = f"The cell of this exercise is missing: copy it from a new student notebook of lesson {lesson}."
                rows.append(Row(lesson, exercise_id, MISSING, text))
            elif time.monotonic() > end:
                text = f"The exercises above used up the {self._in_all:g} seconds for this submission: ask the student to fix them."
                rows.append(Row(lesson, exercise_id, NOT_GRADED, text))
            else:
                status, message = self._verdict(item, {**task, "exercise": exercise_id})
                known = compare.matched_message(message, [clean(mistake.message) for mistake in item.mistakes])
                rows.append(Row(lesson, exercise_id, status, message, known))
                if status == PASSED:
                    task["passed"].append(exercise_id)
        return rows

    def _verdict(self, item: Exercise, task: dict) -> tuple[str, str]:
        checked = self._ask({**task, "task": "check", "seed": a_seed()}, self._seconds)
        status, message = self._said(checked)
        if status != PASSED:
            return status, clean(message)
        seed = a_seed()
        asked = self._ask({**task, "task": "ask", "seed": seed}, self._seconds)
        if asked.kind in ("timeout", "memory"):
            return FAILED, SLOW
        wrong = stands(item, seed, asked)
        return (FAILED, wrong) if wrong else (PASSED, clean(message))

    def _said(self, reply: Reply) -> tuple[str, str]:
        """What the check in the sandbox said. It may be a lie, except for one that harms its author."""
        if reply.kind == "value":
            value = reply.value
            good = isinstance(value, list) and len(value) == 2 and value[0] in (PASSED, FAILED, NOT_ATTEMPTED)
            if good and isinstance(value[1], str):
                return value[0], value[1][:4000]
            return FAILED, TAMPERED
        if reply.kind == "refused":
            return FAILED, reply.text("message")
        if reply.kind == "died" and "broken" in reply.message:
            return FAILED, "It wrote into the channel that the check uses."
        return FAILED, outcome_of(reply, self._seconds).in_words()


def outcome_of(reply: Reply, seconds: float) -> Outcome:
    """The end of a child in the words that a notebook would use."""
    line = reply.message.get("line")
    outcome = Outcome(reply.kind, error=reply.text("error"), message=reply.text("message"), code=reply.text("code"))
    outcome.line = line if isinstance(line, int) else None
    outcome.seconds, outcome.mebibytes = seconds, 1024
    if reply.kind == "died":
        status = reply.message.get("status", 0)
        signalled = os.WIFSIGNALED(status)
        number = os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
        outcome.message = f"it was killed by signal {number}" if signalled else f"it left with exit code {number}"
    return outcome


def a_seed() -> int:
    return int.from_bytes(os.urandom(7), "little")


CONTROL = re.compile(r"[^\S\n]|[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


def clean(text: str) -> str:
    """Without characters that hide, turn or break a line; spaces stay as they are."""
    return CONTROL.sub(lambda found: " " if found[0].isspace() else "?", text)[:4000]


# --- what the sandbox cannot lie about --------------------------------------------------------------------------


def stands(item: Exercise, seed: int, asked: Reply) -> str:
    """Whether what the answer gave for these cases is what the reference gives here: "" or what is wrong."""
    if asked.kind != "value" or not isinstance(asked.value, list):
        return TAMPERED
    if any(_names_hidden(said) for said in asked.value):
        return COPIED
    with COMPARING:
        cases, call_seed = child.draw(item, seed)
        if len(cases) != len(asked.value):
            return TAMPERED
        try:
            good = all(_agrees(item, case, call_seed, said) for case, said in zip(cases, asked.value, strict=True))
        except (wire.Broken, compare.Wrong, KeyError, TypeError, AttributeError, RecursionError):
            return TAMPERED
    return "" if good else TAMPERED


def _names_hidden(said) -> bool:
    error = said.get("error") if isinstance(said, dict) else None
    return isinstance(error, list) and error[:1] == [child.HIDDEN]


def _agrees(item: Exercise, case: compare.Case, seed: int, said: dict) -> bool:
    call, names = compare.caller(item), compare.argument_names(item)
    if "error" in said:
        return False
    want = compare._reference(call, item, case, names, seed)
    if child.is_called_from_outside(item):
        trial = compare.attempt(call, Player(said["calls"]), case, names, seed)
    else:
        trial = compare.Trial(case, value=wire.decode(said["value"]))
    if compare.departure(trial, want, item) is not None:
        return False
    return not item.gradient or any(_flows(item, call, case, seed, said, names))


def _flows(item: Exercise, call, case: compare.Case, seed: int, said: dict, names: list[str]):
    """Whether the gradients agree, in single precision or else in double: where terms cancel, single is all rounding."""
    for name, one in (("flow", case), ("double", child.in_double(case))):
        got = _flow_of(said.get(name))
        if got is None:
            yield False
            continue
        want = compare._flow(call, item.reference, one, seed, by_output=True)
        try:
            compare._same_outputs_flow(got, want, item.output_names)
            compare._same_gradients(got.inputs, want.inputs, names, item.tolerance)
        except (compare.Wrong, ValueError, RuntimeError):  # also another number of parts, or another shape
            yield False
        else:
            yield True


def _flow_of(said) -> compare.Flow | None:
    if not isinstance(said, dict):
        return None
    inputs = wire.decode(said["inputs"])
    if not isinstance(inputs, list) or not isinstance(said["attached"], list):
        raise wire.Broken("no gradients")
    return compare.Flow(attached=[flag is True for flag in said["attached"]], inputs=inputs, arriving=[])


class Player:
    """Gives what the answer gave in the sandbox, call by call."""

    def __init__(self, calls: list):
        self._left = iter(calls)

    def __call__(self, *args, **kwargs):
        said = next(self._left, None)
        if not isinstance(said, dict):
            raise wire.Broken("fewer calls than were made")
        for generator, state in zip(child.generators((*args, *kwargs.values())), said["states"], strict=True):
            generator.set_state(wire.decode(state))
        return wire.decode(said["value"])

"""The grader's side of a verdict. No student code runs here, and replies are decoded in disposable processes.

`passed` is decided here: the answer's values, dtypes and gradients on freshly drawn inputs are compared with the reference.
The exercises of a submission are asked first, in the order of their cells; at each, the solutions that have not been asked
yet are out of reach. The course's own checks, which need the solutions, run afterwards: they explain what failed and see
what values do not show.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import re
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import torch

from utils.checks import compare
from utils.checks.isolation import Outcome, end_in_words, run_isolated, unpack
from utils.exercises.registry import FAILED, PASSED, Exercise, _is_verdict, exercises_of, find
from utils.grading import Refused, child, wire
from utils.grading.notebook import USE, code_cells
from utils.grading.sandbox import MEBIBYTES, Lost, Reply, Sandbox, course
from utils.grading.submissions import Submission
from utils.paths import STUDENTS, write_whole

MISSING, UNREADABLE, NOT_GRADED = "missing", "unreadable", "not graded"
SECONDS_TO_LOOK = 30.0
SECONDS_IN_ALL = 90.0  # for the exercises of one submission; those left are not graded

TAMPERED = (
    "The check inside the notebook reported “passed”, but called from outside the answer gave different results: it tampers "
    "with the check or detects the grader. Review this notebook by hand."
)
COPIED = "The answer calls the solution of the course instead of implementing the exercise: write the code in the cell."
TOO_LARGE = "What the answer returned took too much time or memory to compare: review this notebook by hand."
INTRUDED = "Your code answered in the place of the check."
LOST = "It ended the whole sandbox: review this notebook by hand."


@dataclass
class Row:
    """One line of the table. `exercise` is "" where a whole file could not be graded."""

    lesson: str
    exercise: str
    status: str
    message: str
    misconception: str = ""  # the message of the mistake, if the course has a model of it
    accident: bool = False  # perhaps not the fault of the answer: the next run grades the file again


@dataclass
class Verdict:
    status: str
    message: str
    accident: bool = False
    final: bool = False  # no check can add to it


@dataclass(frozen=True)
class Settings:
    """How all submissions are graded; `key` is a hash of what a verdict depends on besides the submission."""

    command: list[str]
    seconds: float
    key: str

    def name_of(self, submission: Submission) -> str:
        """A hash for the stored rows: the same bytes, graded with the same course, get the same verdicts."""
        try:
            content = hashlib.sha256(submission.read()).digest()
        except Refused as error:
            content = f"{submission.path} {error}".encode(errors="surrogateescape")
        return hashlib.sha256(self.key.encode() + content).hexdigest()


def stored(entry: Path) -> list[Row]:
    """The rows that a worker stored; none, or a damaged file, is an empty list."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return [Row(**row) for row in json.loads(entry.read_text(encoding="utf-8"))]
    return []


def is_final(rows: list[Row]) -> bool:
    """Whether a later run need not grade again."""
    return bool(rows) and not any(row.accident for row in rows)


# --- one submission ---------------------------------------------------------------------------------------------


def prepare() -> None:
    """Load what every worker needs, before they are forked."""
    torch.set_num_threads(1)
    for number in answer_names():
        exercises_of(number)
    course()


def work(submission: Submission, settings: Settings, entry: Path) -> None:
    """Store the verdicts on one submission, in a process that ends with the one that forked it."""
    os.setsid()  # Ctrl-C is for that one
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)
    try:
        rows = grade(submission.read(), settings)
    except Refused as error:
        rows = [Row("", "", UNREADABLE, str(error))]
    except Exception as error:  # a bug of the grader costs one row
        text = f"The grader itself failed ({type(error).__name__}: {error}"[:300]
        again = "start the same command again, or grade the file by hand."
        rows = [Row("", "", NOT_GRADED, f"{text}): {again}", accident=True)]
    write_whole(entry, json.dumps([asdict(row) for row in rows]))


def grade(data: bytes, settings: Settings) -> list[Row]:
    """The verdicts on the bytes of one notebook file."""
    with contextlib.closing(Submitted(settings)) as submitted:
        why = submitted.look(data)
        return submitted.rows() if why is None else [why]


def _looked(data: bytes) -> list:
    """The lesson and the order of its exercises, or why the file was refused; any other reply raises."""
    message = json.loads(data)
    if "refused" in message:
        return [clean(str(message["refused"])[:2000])]
    lesson, order = message["lesson"], message["order"]
    if set(order) - set(answer_names()[lesson]) or len(order) != len(set(order)):
        raise ValueError("unknown exercises")
    return [lesson, order]


class Submitted:
    """A notebook and its sandbox."""

    def __init__(self, settings: Settings):
        self._settings, self._sandbox, self._checking = settings, Sandbox(settings.command), False

    def close(self) -> None:
        self._sandbox.close()

    def look(self, data: bytes) -> Row | None:
        """Learn the lesson and its exercises; or the row of a file that cannot be graded."""
        reply = self._sandbox.run({"task": "look", "names": answer_names()}, data, SECONDS_TO_LOOK)
        looked = disposable(lambda: _looked(reply.data), SECONDS_TO_LOOK)
        if not looked.ok:
            reason = {"timeout": "reading it took too long", "memory": "reading it needs too much memory"}
            why = reason.get(reply.kind, "reading it failed")
            text = f"The file cannot be read ({why}): ask the student to clear the outputs and submit again."
            return Row("", "", UNREADABLE, text, accident=True)
        if len(looked.value) == 1:
            return Row("", "", UNREADABLE, *looked.value)
        self._lesson, self._order = looked.value
        self._code = reply.data  # the cells as the sandbox read them, not decoded here
        self._sandbox.load(self._lesson)
        self._end = time.monotonic() + SECONDS_IN_ALL  # a slow start is not the fault of an exercise
        return None

    def rows(self) -> list[Row]:
        """Ask, then check; once more where an earlier answer gave right values but failed its check."""
        verdicts, refused = self._verdicts(set())
        if refused and any(verdict.message == TAMPERED for verdict in verdicts.values()):
            self._start_again(checking=False)
            verdicts, _ = self._verdicts(refused)
        rows = []
        missing = f"The cell of this exercise is missing: copy it from a new student notebook of lesson {self._lesson}."
        for name in answer_names()[self._lesson]:
            verdict = verdicts.get(name, Verdict(MISSING, missing))
            known = compare.matched_message(verdict.message, [clean(item.message) for item in find(name).mistakes])
            rows.append(Row(self._lesson, name, verdict.status, verdict.message, known, verdict.accident))
        return rows

    def _verdicts(self, refused: set[str]) -> tuple[dict[str, Verdict], set[str]]:
        """The verdict on each exercise, and which had right values but failed; `refused` are those of an earlier try."""
        asked: dict[str, Verdict] = {}
        right: list[str] = []
        for index, name in enumerate(self._order):
            asked[name] = self._ask(name, right, self._order[index:])
            if asked[name].status == PASSED and name not in refused:
                right.append(name)
        self._checking = True
        self._sandbox.settle(self._lesson)
        verdicts: dict[str, Verdict] = {}
        passed: list[str] = []
        for name in self._order:
            verdicts[name] = asked[name] if asked[name].final else self._check(name, passed)
            if verdicts[name].status == PASSED and asked[name].status != PASSED:
                verdicts[name] = asked[name]
            if verdicts[name].status == PASSED:
                passed.append(name)
        return verdicts, set(right) - set(passed)

    def _ask(self, name: str, passed: list[str], hidden: list[str]) -> Verdict:
        """Whether the values, dtypes and gradients of the answer are those of the reference."""
        seed = a_seed()
        reply = self._run({"task": "ask", "exercise": name, "seed": seed, "passed": passed, "hidden": hidden})
        if isinstance(reply, Verdict):
            return reply
        compared = disposable(lambda: compared_with_reference(find(name), seed, reply.data), self._settings.seconds)
        if compared.kind in ("timeout", "memory"):
            return Verdict(FAILED, TOO_LARGE, accident=True, final=True)
        wrong = compared.value if compared.ok else TAMPERED
        return Verdict(FAILED, wrong, final=wrong == COPIED) if wrong else Verdict(PASSED, "")

    def _check(self, name: str, passed: list[str]) -> Verdict:
        """What the course's check reports. It may be a lie, except for one that harms its author."""
        reply = self._run({"task": "check", "exercise": name, "seed": a_seed(), "passed": passed})
        if isinstance(reply, Verdict):
            return reply
        read = disposable(lambda: reported(reply.data), self._settings.seconds)
        return Verdict(*read.value) if read.ok else Verdict(FAILED, INTRUDED, accident=True)

    def _run(self, request: dict) -> Reply | Verdict:
        """The reply to a task, or the verdict on one that gave none."""
        if time.monotonic() > self._end:
            text = f"The exercises above used up the {SECONDS_IN_ALL:g} seconds for this submission: ask the student to fix them."
            return Verdict(NOT_GRADED, text, accident=True, final=True)
        request["names"] = answer_names()[self._lesson]
        for _ in range(2):  # perhaps the exercise before it harmed the sandbox
            try:
                reply = self._sandbox.run(request, self._code, self._settings.seconds)
                break
            except Lost:
                self._start_again(self._checking)
        else:
            return Verdict(FAILED, LOST, accident=True, final=True)
        if reply.kind == "value":
            return reply
        limits = {"seconds": self._settings.seconds, "mebibytes": MEBIBYTES}
        outcome = Outcome(reply.kind, message=end_in_words(reply.status) * (reply.kind == "died"), **limits)
        return Verdict(FAILED, outcome.in_words(), accident=True, final=True)

    def _start_again(self, checking: bool) -> None:
        self._sandbox.close()
        self._sandbox, self._checking = Sandbox(self._settings.command), checking
        self._sandbox.load(self._lesson)
        if checking:
            self._sandbox.settle(self._lesson)


@cache
def answer_names() -> dict[str, dict[str, str]]:
    """For each lesson, the name that each of its exercises asks for, from the course's own student notebooks."""
    paths = sorted(STUDENTS.glob("[0-9]*.ipynb"))
    return {path.name[:2]: dict(USE.findall("\n".join(code_cells(path.read_bytes())))) for path in paths}


def a_seed() -> int:
    return int.from_bytes(os.urandom(7), "little")


CONTROL = re.compile(r"[^\S\n]|[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


def clean(text: str) -> str:
    """Without characters that hide, turn or break a line; spaces stay as they are."""
    return CONTROL.sub(lambda match: " " if match[0].isspace() else "?", text)[:4000]


# --- what came out of the sandbox is decoded in a disposable process --------------------------------------------


def disposable(function: Callable, seconds: float) -> Outcome:
    """Run trusted code on data that is not: with a deadline and a memory limit."""

    def limited():
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2,) * 2)  # also if the worker is killed meanwhile
        return function()

    return run_isolated(limited, seconds, MEBIBYTES)


def reported(data: bytes) -> tuple[str, str, bool]:
    """Status and message of a check, and whether they are an accident."""
    outcome = unpack(data, seal=b"")
    if not outcome.ok:
        return FAILED, clean(replace(outcome, mebibytes=MEBIBYTES).in_words()), outcome.kind == "died"
    status, message, _ = outcome.value if _is_verdict(outcome.value) else (FAILED, INTRUDED, "")
    return status, clean(message), False


def compared_with_reference(item: Exercise, seed: int, data: bytes) -> str:
    """Whether what the answer gave for the cases of this seed is what the reference gives: "" or what is wrong."""
    cases, call_seed = child.draw(item, seed)
    try:
        values = json.loads(data)["value"]
        if any(value.get("error") == child.Hidden.__name__ for value in values):
            return COPIED
        pairs = zip(cases, values, strict=True)
        agree = all(_agrees(item, case, call_seed, value) for case, value in pairs)
    except (wire.Broken, compare.Wrong, LookupError, ValueError, TypeError, AttributeError, RecursionError):
        return TAMPERED
    return "" if agree else TAMPERED


def _agrees(item: Exercise, case: compare.Case, seed: int, returned: dict) -> bool:
    call, names = compare.caller(item), compare.argument_names(item)
    if "error" in returned:
        return False
    want = compare._reference(call, item, case, names, seed)
    if child.is_called_from_outside(item):
        trial = compare.attempt(call, Player(returned["calls"]), case, names, seed)
    else:
        trial = compare.Trial(case, value=wire.decode(returned["value"]))
    if compare.departure(trial, want, item) is not None:
        return False
    if not item.any_float:
        compare._same_floats([trial], [want])
    return not item.gradient or any(_flows(item, call, case, seed, returned, names))


def _flows(item: Exercise, call, case: compare.Case, seed: int, returned: dict, names: list[str]):
    """Whether the gradients agree, in single precision or else in double: where terms cancel, single is all rounding."""
    for name, inputs in (("flow", case), ("double", child.in_double(case))):
        got = _flow_of(returned.get(name))
        if got is None:
            yield False
            continue
        want = compare._flow(call, item.reference, inputs, seed, by_output=True)
        try:
            compare._same_outputs_flow(got, want, item.output_names)
            compare._same_gradients(got.inputs, want.inputs, names, item.tolerance)
        except (compare.Wrong, ValueError, RuntimeError):  # also another number of parts, or another shape
            yield False
        else:
            yield True


def _flow_of(returned) -> compare.Flow | None:
    if not isinstance(returned, dict):
        return None
    inputs = wire.decode(returned["inputs"])
    if not isinstance(inputs, list) or not isinstance(returned["attached"], list):
        raise wire.Broken("no gradients")
    return compare.Flow(attached=[flag is True for flag in returned["attached"]], inputs=inputs, arriving=[])


class Player:
    """Gives what the answer gave in the sandbox, call by call."""

    def __init__(self, calls: list):
        self._left = iter(calls)

    def __call__(self, *args, **kwargs):
        returned = next(self._left, None)
        if not isinstance(returned, dict):
            raise wire.Broken("fewer calls than were made")
        for generator, state in zip(child.generators((*args, *kwargs.values())), returned["states"], strict=True):
            generator.set_state(wire.decode(state))
        return wire.decode(returned["value"])

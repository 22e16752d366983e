"""The student's progress: a small append-only journal.

A file of JSON lines, the first of which is `{"version": 3}`. A damaged line does not affect the others. Every event
names the edition of the course whose exercise ids it uses; one without an edition was written by the first edition (version
2, or version 1, a single object `{"passed": ["1.1", ...]}`), and its ids are translated. The first write after that
rewrites the file and keeps a copy of the old one.
No function here raises an error because of the file: problems are returned as one sentence.
"""

import errno
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from utils import paths
from utils.checks.renumbered import EDITION, from_first_edition

VERSION = 3
COMPACT_ABOVE = 256 * 1024
LOCK_SECONDS = 5.0


@dataclass
class ExerciseState:
    status: str = "not attempted"  # "passed" stays passed, whatever is tried afterwards
    hints: int = 0
    solution: bool = False


@dataclass
class QuizState:
    choice: int
    right: bool


@dataclass
class Progress:
    exercises: dict[str, ExerciseState] = field(default_factory=dict)
    quizzes: dict[str, QuizState] = field(default_factory=dict)
    damaged: list[bytes] = field(default_factory=list)  # lines that could not be read
    first_edition: bool = False  # some events were written by the first edition
    trouble: str = ""  # one sentence if the file could not be used

    def exercise(self, exercise_id: str) -> ExerciseState:
        return self.exercises.get(exercise_id, ExerciseState())


class NewerVersion(Exception):
    pass


def recording() -> bool:
    """Lecture notebooks are solved and must not count; `COURSE_PROGRESS` overrides this."""
    if os.environ.get("COURSE_PROGRESS"):
        return True
    try:
        return Path.cwd().resolve() != paths.LECTURES.resolve()
    except OSError:  # the folder was removed meanwhile
        return True


def read() -> Progress:
    """The current state; empty without a file, and in lecture notebooks."""
    if not recording():
        return Progress()
    try:
        return _parse(_content(paths.progress_file()))
    except NewerVersion as newer:
        return Progress(trouble=str(newer))
    except OSError as error:
        return Progress(trouble=f"Progress could not be read from {paths.progress_file()}: {_reason(error)}.")


# Events. Each returns "" or one sentence on why nothing was saved.


def record_check(exercise_id: str, status: str) -> str:
    return _record({"event": "checked", "exercise": exercise_id, "status": status})


def record_hint(exercise_id: str, number: int) -> str:
    """`number` counts from 1."""
    return _record({"event": "hint", "exercise": exercise_id, "number": number})


def record_solution(exercise_id: str) -> str:
    return _record({"event": "solution", "exercise": exercise_id})


def record_quiz(quiz_id: str, choice: int, right: bool) -> str:
    return _record({"event": "quiz", "quiz": quiz_id, "choice": choice, "right": right})


def _record(event: dict) -> str:
    if not recording():
        return ""
    event["edition"] = EDITION
    from filelock import FileLock, Timeout

    path = paths.progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(
            path.with_name(f".{path.name}.lock"), timeout=LOCK_SECONDS
        ):  # hidden from the student's list of files
            _append(path, event)
    except Timeout:
        return f"Progress was not saved: another program has locked {path} for {LOCK_SECONDS:g} seconds."
    except NewerVersion as newer:
        return f"Progress was not saved: {newer}"
    except OSError as error:
        return f"Progress was not saved to {path}: {_reason(error)}."
    return ""


def _reason(error: OSError) -> str:
    """What went wrong, and what to do about it."""
    reason = error.strerror or type(error).__name__
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{reason}; free some disk space, then run the cell again; earlier progress is kept"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"{reason}; copy the course to a folder of your own, or set COURSE_PROGRESS to a writable file"
    return reason


# The file


def _append(path: Path, event: dict) -> None:
    """Add one event; the caller holds the lock. Events that change nothing are not written."""
    content = _content(path)
    progress = _parse(content)
    before = _events(progress)
    _apply(progress, event)
    if _events(progress) == before:
        return
    if not content or progress.first_edition or len(content) > COMPACT_ABOVE:
        _rewrite(path, content, progress)
        return
    start = b"" if content.endswith(b"\n") else b"\n"  # an incomplete last line stays a separate line
    _write_durably(path, start + _line({"at": int(time.time()), **event}), os.O_APPEND)


def _rewrite(path: Path, content: bytes, progress: Progress) -> None:
    """Replace the file by a short one atomically; first copy what is dropped to another file."""
    if progress.first_edition:
        _write_durably(_beside(path, ".first_edition"), content, os.O_APPEND)
    if progress.damaged:
        _write_durably(_beside(path, ".damaged"), b"\n".join(progress.damaged) + b"\n", os.O_APPEND)
    lines = [{"version": VERSION}, *_events(progress)]
    fresh = _beside(path, ".new")
    _write_durably(fresh, b"".join(map(_line, lines)), os.O_TRUNC)
    os.replace(fresh, path)
    _sync_folder(path.parent)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _write_durably(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0) | mode, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make the renaming durable, where folders can be opened."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _line(event: dict) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


# Reading and writing the state


def _parse(content: bytes) -> Progress:
    progress = Progress()
    lines = [content] if _is_version_1(content) else content.split(b"\n")
    for line in lines:
        if not line.strip():
            continue
        try:
            _apply(progress, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            progress.damaged.append(line)
    return progress


def _is_version_1(content: bytes) -> bool:
    """The whole file, perhaps over several lines, is one object without a version."""
    if b'"passed"' not in content:
        return False
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(whole, dict) and isinstance(whole.get("passed"), list) and "event" not in whole


def _apply(progress: Progress, event: dict) -> None:
    """Apply one event to the state; anything else raises an error."""
    if "version" in event:
        if not isinstance(event["version"], int):
            raise ValueError("a version that is not a number")
        if event["version"] > VERSION:
            raise NewerVersion(
                f"{paths.progress_file()} was written by a newer version of the course "
                f"(format {event['version']}, this version reads up to {VERSION}): update the course to use it again."
            )
        progress.first_edition |= event["version"] < VERSION
        return
    if "passed" in event and "event" not in event:
        ids = event["passed"]
        if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
            raise ValueError("a list of exercises was expected")
        progress.first_edition = True
        for name in ids:
            _exercise(progress, from_first_edition(name)).status = "passed"
        return
    kind = event["event"]
    if kind not in ("checked", "hint", "solution", "quiz"):
        raise ValueError(f"unknown event {kind!r}")
    name = _name(event["quiz" if kind == "quiz" else "exercise"])
    if "edition" not in event:
        progress.first_edition = True
        name = from_first_edition(name)
    if kind == "checked":
        _apply_check(progress, name, event["status"])
    elif kind == "hint":
        number = int(event["number"])
        state = _exercise(progress, name)
        state.hints = max(state.hints, number)
    elif kind == "solution":
        _exercise(progress, name).solution = True
    else:
        progress.quizzes[name] = QuizState(int(event["choice"]), bool(event["right"]))


def _apply_check(progress: Progress, exercise_id: str, status: str) -> None:
    if status not in ("passed", "failed", "not attempted"):
        raise ValueError(f"unknown status {status!r}")
    if status == "not attempted" and exercise_id not in progress.exercises:
        return
    state = _exercise(progress, exercise_id)
    if status == "passed" or (status == "failed" and state.status != "passed"):
        state.status = status


def _exercise(progress: Progress, exercise_id: str) -> ExerciseState:
    return progress.exercises.setdefault(exercise_id, ExerciseState())


def _name(value) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a name was expected, not {value!r}")
    return value


def _events(progress: Progress) -> list[dict]:
    """The fewest events that give this state, with the ids of this edition."""
    events: list[dict] = []
    for name, state in sorted(progress.exercises.items()):
        if state.status != "not attempted":
            events.append({"event": "checked", "exercise": name, "status": state.status})
        if state.hints:
            events.append({"event": "hint", "exercise": name, "number": state.hints})
        if state.solution:
            events.append({"event": "solution", "exercise": name})
    for name, guess in sorted(progress.quizzes.items()):
        events.append({"event": "quiz", "quiz": name, "choice": guess.choice, "right": guess.right})
    return [event | {"edition": EDITION} for event in events]

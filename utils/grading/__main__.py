"""`python -m utils.grading FOLDER`: grade the notebooks in a folder and write tables to FOLDER-grades."""

import argparse
import contextlib
import hashlib
import json
import platform
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from utils.grading import submissions as found
from utils.paths import ROOT, STUDENTS

TABLES_EVERY = 10  # submissions


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return run(options)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2


class Refused(Exception):
    """Nothing is graded; the message says why and what to do."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m utils.grading", description=__doc__)
    made.add_argument("folder", help="the submitted notebooks: alice_01.ipynb, or alice/01_….ipynb")
    made.add_argument("--out", type=Path, help="folder for the tables (default: FOLDER-grades, next to FOLDER)")
    made.add_argument("--jobs", type=int, default=2, help="submissions graded in parallel (default: 2)")
    made.add_argument("--seconds", type=float, default=8.0, help="time limit per exercise (default: 8)")
    made.add_argument("--again", action="store_true", help="grade again what an earlier run has graded")
    made.add_argument("--unsafe", action="store_true", help="run the submissions without a sandbox")
    return made


def run(options: argparse.Namespace) -> int:
    folder, out = places(options)
    if options.jobs < 1 or not 0 < options.seconds <= 600:
        raise Refused("--jobs must be at least 1, and --seconds between 0 and 600.")
    try:
        files = found.submissions(folder)
    except OSError as error:
        raise Refused(f"The folder {folder} cannot be read ({error.strerror}): make it readable.") from None
    if not files:
        raise Refused(f"There is no notebook in {folder}: expected files like alice_01.ipynb or alice/01_….ipynb.")
    from filelock import FileLock, Timeout

    try:
        (out / "kept").mkdir(parents=True, exist_ok=True)
        with FileLock(out / ".lock", timeout=0):
            return grade(files, out, options)
    except Timeout:
        raise Refused(f"Another run is writing into {out}: wait for it, or choose another folder with --out.") from None
    except OSError as error:
        raise Refused(
            f"The tables cannot be written to {out} ({error.strerror}): choose another folder with --out."
        ) from None


def places(options: argparse.Namespace) -> tuple[Path, Path]:
    if not options.folder.strip():
        raise Refused("Name the folder with the submitted notebooks: make grade FOLDER=submissions.")
    folder = Path(options.folder).absolute()
    if not folder.is_dir():
        raise Refused(f"There is no folder {options.folder}: name the one with the submitted notebooks.")
    out = options.out or folder.with_name(f"{folder.resolve().name}-grades")
    if out.absolute().resolve().is_relative_to(folder.resolve()):
        raise Refused(
            f"The tables would be written into the folder of the submissions, {out}: choose another folder with --out."
        )
    return folder, out.absolute()


def course_key(seconds: float) -> str:
    """A hash of all that a verdict depends on besides the submission."""
    import torch

    state = hashlib.sha256(f"{platform.python_version()} {torch.__version__} {seconds:g}".encode())
    for path in sorted([*(ROOT / "utils").rglob("*.py"), *STUDENTS.glob("*.ipynb")]):
        state.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        state.update(hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def grade(files: list[found.Submission], out: Path, options: argparse.Namespace) -> int:
    from utils.grading import report, sandbox
    from utils.grading.judge import NOT_GRADED, Judge, Row

    try:
        judge = Judge(lambda: sandbox.Sandbox(options.unsafe), options.seconds)
    except (sandbox.NoSandbox, sandbox.Lost) as error:
        raise Refused(str(error)) from None
    key, rows, stop = course_key(options.seconds), {}, threading.Event()

    def one(submission: found.Submission) -> list[Row]:
        return [] if stop.is_set() else rows_of(submission, judge, out / "kept", key, options.again)

    def tables() -> list[report.Graded]:
        left = [Row("", "", NOT_GRADED, "The run was interrupted: start the same command again to continue.")]
        return [report.Graded(submission, rows.get(submission) or left) for submission in files]

    with judge, interrupts(), ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(one, submission): submission for submission in files}
        try:
            for number, future in enumerate(as_completed(waiting), 1):
                submission = waiting[future]
                rows[submission] = future.result()
                print(f"{number:4d} of {len(files)}  {submission.name}: {in_short(rows[submission])}", flush=True)
                if number % TABLES_EVERY == 0:
                    report.write(out, tables())
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            judge.close()  # ends what is running
            report.write(out, tables())
            raise
    report.write(out, tables())
    print(f"The tables are in {out}: grades.csv, grades.md, misconceptions.csv and misconceptions.md.")
    return 0


@contextlib.contextmanager
def interrupts():
    """An end from outside is an interrupt too: the tables are written first. In a thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_short(rows: list) -> str:
    if len(rows) == 1 and not rows[0].exercise:
        return rows[0].message
    return f"lesson {rows[0].lesson}, {sum(row.status == 'passed' for row in rows)} of {len(rows)} passed"


def rows_of(submission: found.Submission, judge, kept: Path, key: str, again: bool) -> list:
    """The verdicts on one submission: those of an earlier run on the same bytes with the same course, or new ones."""
    from utils.grading.judge import NOT_GRADED, UNREADABLE, Row
    from utils.grading.report import write_whole

    try:
        data = submission.read()
    except found.Unfit as error:
        return [Row("", "", UNREADABLE, str(error))]
    entry = kept / f"{hashlib.sha256(key.encode() + hashlib.sha256(data).digest()).hexdigest()}.json"
    if not again:
        with contextlib.suppress(OSError, ValueError, TypeError):  # none yet, or a damaged one: graded again
            return [Row(**row) for row in json.loads(entry.read_text(encoding="utf-8"))]
    try:
        rows = judge.rows(data)
    except Exception as error:  # a bug of the grader must not affect the other submissions
        said = f"{type(error).__name__}: {error}"[:300]
        return [
            Row(
                "",
                "",
                NOT_GRADED,
                f"The grader itself failed ({said}): start the same command again, or grade the file by hand.",
            )
        ]
    write_whole(entry, json.dumps([row.as_dict() for row in rows]))
    return rows


def start() -> int:
    try:
        return main()
    except KeyboardInterrupt:
        print("\nInterrupted. Results so far are kept: start the same command again to continue.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(start())

"""`python -m utils.grading FOLDER`: grade the notebooks in a folder and write tables to FOLDER-grades."""

import argparse
import contextlib
import hashlib
import os
import platform
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

from utils.grading.submissions import Submission, submissions
from utils.paths import PACKAGE, STUDENTS

SECONDS_BETWEEN_TABLES = 15


def main(arguments: list[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    try:
        return run(options)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2


class Refused(Exception):
    """Nothing is graded; the message says why and what to do."""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m utils.grading", description=__doc__)
    parser.add_argument("folder", help="the submitted notebooks: alice_01.ipynb, or alice/01_….ipynb")
    parser.add_argument("--out", type=Path, help="folder for the tables (default: FOLDER-grades, next to FOLDER)")
    parser.add_argument("--jobs", type=int, default=2, help="submissions graded in parallel (default: 2)")
    parser.add_argument("--seconds", type=float, default=8.0, help="time limit per exercise (default: 8)")
    parser.add_argument("--again", action="store_true", help="grade again what an earlier run has graded")
    parser.add_argument("--unsafe", action="store_true", help="run the submissions without a sandbox")
    return parser


def run(options: argparse.Namespace) -> int:
    folder, out = folders(options)
    if options.jobs < 1 or not 0 < options.seconds <= 600:
        raise Refused("--jobs must be at least 1, and --seconds between 0 and 600.")
    try:
        files = submissions(folder)
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


def folders(options: argparse.Namespace) -> tuple[Path, Path]:
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
    for path in sorted([*PACKAGE.rglob("*.py"), *STUDENTS.glob("*.ipynb")]):
        state.update(f"{path.relative_to(PACKAGE.parent).as_posix()}\n".encode())
        state.update(hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def grade(files: list[Submission], out: Path, options: argparse.Namespace) -> int:
    from utils.grading import judge, report, sandbox

    try:
        settings = judge.Settings(sandbox.command_line(options.unsafe), options.seconds, course_key(options.seconds))
    except sandbox.NoSandbox as error:
        raise Refused(str(error)) from None
    entries = {submission: out / "kept" / f"{settings.name_of(submission)}.json" for submission in files}
    waiting = {
        entries[file]: file for file in files if options.again or not judge.is_final(judge.stored(entries[file]))
    }
    for entry in waiting:
        entry.unlink(missing_ok=True)

    def write_tables() -> None:
        again = "The run was interrupted: start the same command again to continue."
        left = [judge.Row("", "", judge.NOT_GRADED, again)]
        report.write(out, [report.Graded(file, judge.stored(entries[file]) or left) for file in files])

    workers: set[int] = set()
    with interrupts():
        try:
            workers |= start_workers(options.jobs, list(waiting.items()), settings)
            tables_at = 0.0
            while workers:
                workers -= {pid for pid in workers if os.waitpid(pid, os.WNOHANG)[0]}
                if time.monotonic() > tables_at + SECONDS_BETWEEN_TABLES:
                    write_tables()
                    tables_at = time.monotonic()
                time.sleep(0.05)
        except BaseException:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)  # its sandbox ends with it
                os.waitpid(pid, 0)
            write_tables()
            raise
    write_tables()
    say(f"The tables are in {out}: grades.csv, grades.md, misconceptions.csv and misconceptions.md.")
    return 0


def start_workers(count: int, waiting: list[tuple[Path, Submission]], settings) -> set[int]:
    """Fork processes that take submissions one by one from a pipe and store their rows; gives their ids."""
    reader, writer = os.pipe()
    with open(writer, "wb", buffering=0) as numbers:
        pids = set()
        for _ in range(min(count, len(waiting))):
            with warnings.catch_warnings():
                # Python 3.12 warns of threads: those of the matrix library expect a fork, and there are no others.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                work(reader, writer, waiting, settings)
            pids.add(pid)
        for index in range(len(waiting)):
            numbers.write(index.to_bytes(4, "little"))
    os.close(reader)
    return pids


def work(reader: int, writer: int, waiting: list[tuple[Path, Submission]], settings) -> None:
    """Never returns. A worker ends with the process that started it."""
    from utils.grading import judge

    try:
        os.close(writer)
        os.setsid()  # Ctrl-C is for the process that started it
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        judge.prepare_process()
        while record := os.read(reader, 4):
            index = int.from_bytes(record, "little")
            entry, submission = waiting[index]
            rows = judge.rows_of(submission, settings)
            judge.store(entry, rows)
            say(f"{index + 1:4d} of {len(waiting)}  {submission.name}: {in_short(rows)}")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def say(line: str) -> None:
    """Print, as long as anybody reads; a closed pipe does not end the grading."""
    try:
        print(line, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for the rest of the run)


@contextlib.contextmanager
def interrupts():
    """SIGTERM and SIGHUP interrupt as Ctrl-C does: the tables are written first."""

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


def start() -> int:
    try:
        return main()
    except KeyboardInterrupt:
        print("\nInterrupted. Results so far are kept: start the same command again to continue.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(start())

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

from utils.grading import Refused
from utils.grading.submissions import Submission, submissions
from utils.paths import PACKAGE, STUDENTS

SECONDS_BETWEEN_TABLES = 15


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m utils.grading", description=__doc__)
    parser.add_argument("folder", help="the submitted notebooks: alice_01.ipynb, or alice/01_….ipynb")
    parser.add_argument("--out", type=Path, help="folder for the tables (default: FOLDER-grades, next to FOLDER)")
    parser.add_argument("--jobs", type=int, default=2, help="submissions graded in parallel (default: 2)")
    parser.add_argument("--seconds", type=float, default=8.0, help="time limit per exercise (default: 8)")
    parser.add_argument("--again", action="store_true", help="grade again what an earlier run has graded")
    parser.add_argument("--unsafe", action="store_true", help="run the submissions without a sandbox")
    try:
        return run(parser.parse_args(arguments))
    except Refused as error:
        print(error, file=sys.stderr)
        return 2


def run(options: argparse.Namespace) -> int:
    folder = Path(options.folder).absolute()
    out = (options.out or folder.with_name(f"{folder.resolve().name}-grades")).absolute()
    if not options.folder.strip():
        raise Refused("Name the folder with the submitted notebooks: make grade FOLDER=submissions.")
    if not folder.is_dir():
        raise Refused(f"There is no folder {options.folder}: name the one with the submitted notebooks.")
    if out.resolve().is_relative_to(folder.resolve()):
        raise Refused(
            f"The tables would be written into the folder of the submissions, {out}: choose another folder with --out."
        )
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

    settings = judge.Settings(sandbox.command_line(options.unsafe), options.seconds, course_key(options.seconds))
    entries = {file: out / "kept" / f"{settings.name_of(file)}.json" for file in files}
    # Copies of one file share an entry, and are graded once.
    todo = {entries[file]: file for file in files if options.again or not judge.is_final(judge.stored(entries[file]))}
    for entry in todo:
        entry.unlink(missing_ok=True)
    again = "The run was interrupted: start the same command again to continue."
    left = [judge.Row("", "", judge.NOT_GRADED, again)]

    def write_tables() -> None:
        report.write(out, [report.Graded(file, judge.stored(entries[file]) or left) for file in files])

    stopped, forking = [], False

    def interrupt(number, frame):
        stopped.append(number)
        if not forking:  # Python drops an exception that comes while it forks
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    waiting, workers, done, tables_at = list(todo), {}, 0, 0.0
    try:
        judge.prepare()
        while waiting or workers:
            while waiting and len(workers) < options.jobs:
                entry = waiting.pop(0)
                forking = True
                workers[fork(judge.work, todo[entry], settings, entry)] = entry
                forking = False
                if stopped:
                    raise KeyboardInterrupt
            if time.monotonic() > tables_at + SECONDS_BETWEEN_TABLES:
                write_tables()
                tables_at = time.monotonic()
            if entry := workers.pop(os.wait()[0], None):
                done += 1
                say(f"{done:4d} of {len(todo)}  {todo[entry].name}: {in_short(judge.stored(entry) or left)}")
    finally:
        for worker in workers:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):  # the interrupt came as it ended
                os.kill(worker, signal.SIGKILL)  # its sandbox ends with it
                os.waitpid(worker, 0)
        write_tables()
        for number, handler in before.items():
            signal.signal(number, handler)
    say(f"The tables are in {out}: grades.csv, grades.md, misconceptions.csv and misconceptions.md.")
    return 0


def fork(function, *arguments) -> int:
    """Call the function in a process that has loaded all that this one has; gives its id."""
    with warnings.catch_warnings():
        # Python 3.12 warns of threads: those of the matrix library expect a fork, and there are no others.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            function(*arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return pid


def say(line: str) -> None:
    """Print, as long as anybody reads; a closed pipe does not end the grading."""
    try:
        print(line, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for the rest of the run)


def in_short(rows: list) -> str:
    if len(rows) == 1 and not rows[0].exercise:
        return rows[0].message
    return f"lesson {rows[0].lesson}, {sum(row.status == 'passed' for row in rows)} of {len(rows)} passed"


if __name__ == "__main__":
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the shell: its number must not go to a pipe of the grading
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted. Results so far are kept: start the same command again to continue.", file=sys.stderr)
        sys.exit(130)

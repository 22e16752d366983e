"""What `test_distributed.py` starts as workers of their own: jobs that go wrong at a chosen step.

    python -m tests.distributed_driver several FOLDER           all jobs of FOLDER/jobs.json, one after the other in one team
    python -m tests.distributed_driver killed MARK CALL ...     the command itself, but one worker is killed, once

The module under test is as it is; only the function that draws batches is replaced by one that stops the process first.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from utils.training import distributed
from utils.training.distributed import Job, RunError, Team, run, team


class Stopped(Exception):
    """Instead of a crash, on all workers at the same step."""


def at_call(number: int, what: Callable[[], None]) -> Callable:
    """`draw_batch`, which does `what` in place of its call of this number, the first being 1."""
    calls, draw = [0], distributed.draw_batch

    def drawn(*arguments):
        calls[0] += 1
        if calls[0] == number:
            what()
        return draw(*arguments)

    return drawn


def stop() -> None:
    raise Stopped


def stopped_run(number: int, job: Job, folder: Path, **options) -> None:
    draw = distributed.draw_batch
    distributed.draw_batch = at_call(number, stop)
    try:
        run(job, folder, **options)
    except Stopped:
        return
    finally:
        distributed.draw_batch = draw
    raise AssertionError(f"the run came to its end before batch {number}")


def several(folder: Path) -> None:
    with team(120) as workers:
        for one in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
            job, place = Job(**one["job"]), folder / one["name"]
            options = {"team": workers, "every": 2, "report": 3}
            if one.get("stop"):
                stopped_run(one["stop"], job, place, **options)
            run(job, place, **options)
        disagree(folder, workers)
    assert not threads_of_gloo(), "a thread that outlives its team can abort the process at its end"


def threads_of_gloo() -> list[str]:
    """By the names that Linux keeps; where it keeps none, none are seen."""
    names = [task.read_text(encoding="utf-8").strip() for task in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name]


def disagree(folder: Path, workers: Team) -> None:
    """Each worker brings another seed; what it is told goes into a file."""
    try:
        run(Job(seed=workers.rank, batch=workers.size), folder / "disagree", team=workers)
    except RunError as problem:
        (folder / f"disagree-{workers.rank}.txt").write_text(str(problem), encoding="utf-8")


def killed(mark: Path, call: int, arguments: list[str]) -> int:
    """The last worker kills itself at its batch of this number, unless the mark says that it has done so before."""
    last = int(os.environ.get("RANK", 0)) == int(os.environ.get("WORLD_SIZE", 1)) - 1

    def kill():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    if last and not mark.exists():
        distributed.draw_batch = at_call(call, kill)
    return distributed.main(arguments)


if __name__ == "__main__":
    what, folder, *rest = sys.argv[1:]
    sys.exit(several(Path(folder)) if what == "several" else killed(Path(folder), int(rest[0]), rest[1:]))

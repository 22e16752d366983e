"""For a lesson: one pretraining job, done by one process, and by two workers of which one is killed on the way."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

from utils.data.real_text import topics_file
from utils.training.distributed import Job, RunError, checkpoints, command, read_tensors, run
from utils.training.keep import kept

SHORT = Job("causal", steps=120, dim=48, heads=4, hidden=96, layers=2, pieces=500, texts=400)
RESTARTS = 3  # one is needed; on a crowded machine a worker that starts again may be too late once more
# What torchrun tells its workers; a job started from inside another must not take these for its own.
OTHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_")


@kept(reads=lambda *_, **__: topics_file())
def one_and_two(job: Job = SHORT, every: int = 20, seconds: float = 240.0) -> dict:
    """Train the job alone; then with two workers under torchrun, of which the second is killed behind the first checkpoint.

    Returns alone and together (steps,), the losses; killed, the last step in a checkpoint when the worker was killed; said, the
    lines of progress of the second run. RunError, if the workers cannot be started on this machine.
    """
    with tempfile.TemporaryDirectory() as place:
        alone, together = Path(place) / "alone", Path(place) / "together"
        first = run(job, alone, every=every, say=lambda line: None)
        together.mkdir()
        (together / "text.safetensors").write_bytes((alone / "text.safetensors").read_bytes())  # the text is read once
        killed, said = killed_once(
            command(job, together, 2, restarts=RESTARTS, every=every, report=every), together, seconds
        )
        tensors, _ = read_tensors(next(iter(checkpoints(together).values())))
    return {"alone": first["loss"], "together": tensors["losses"], "killed": killed, "said": said}


def try_one_and_two(job: Job = SHORT) -> dict | None:
    """`one_and_two`, or None with a sentence where several processes cannot be had, as on some systems."""
    try:
        return one_and_two(job)
    except RunError as problem:
        print(f"Two workers could not be had here, and the lesson goes on without them. {problem}")
        return None


def killed_once(given: list[str], folder: Path, seconds: float) -> tuple[int, list[str]]:
    """Start the workers, kill the second when there is a checkpoint, wait for the end. Returns the step of that checkpoint, and
    what was said."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)} | {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as told:
        started = subprocess.Popen(given, env=own, stdout=told, stderr=subprocess.STDOUT, text=True)
        try:
            end, step = time.monotonic() + seconds, 0
            while started.poll() is None and time.monotonic() < end:
                if not step and (found := checkpoints(folder)) and (second := worker(started.pid, 1)):
                    step = next(iter(found))
                    second.send_signal(signal.SIGKILL)
                time.sleep(0.005)
        finally:
            stop_all(started)
        told.seek(0)
        said = told.read().splitlines()
    if started.returncode != 0:
        raise RunError("the workers did not come to their end here: " + " | ".join(said[-3:]))
    return step, said


def worker(launcher: int, rank: int) -> psutil.Process | None:
    """The worker of this rank among the children of torchrun, None while it is not there."""
    for child in children_of(launcher):
        try:
            if child.environ().get("RANK") == str(rank):
                return child
        except psutil.Error:  # it has just ended
            continue
    return None


def children_of(launcher: int) -> list[psutil.Process]:
    try:
        return psutil.Process(launcher).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def stop_all(started: subprocess.Popen) -> None:
    """Nothing is left running, however this ends."""
    left = [] if started.poll() is not None else children_of(started.pid)
    if started.poll() is None:
        started.kill()
    for child in left:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    started.wait()


def furthest_apart(found: dict) -> float:
    """The greatest difference of two losses of one step, over that loss."""
    return ((found["alone"] - found["together"]).abs() / found["alone"]).max().item()


def lines_of_progress(said: list[str]) -> list[str]:
    """Those that say where a run begins and how far it is, without places and numbers of processes."""
    shown = []
    for line in said:
        if line.startswith("step "):
            shown.append(line.rsplit("   ", 1)[0])
        elif ": begins" in line or ": resumes" in line:
            shown.append(line.split(", in ")[0] + (" (" + line.rsplit("(", 1)[1] if line.endswith(")") else ""))
    return shown

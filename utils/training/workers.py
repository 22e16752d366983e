"""Data-parallel training, started from a notebook: the same job by one process and by two workers, one of which is killed."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from utils.data.real_text import topics_file
from utils.training.cache import cached
from utils.training.distributed import CHECKPOINT, MODULE, TEXT, Job, RunError, read, run

SHORT = Job("causal", num_steps=120, dim=48, num_heads=4, hidden_dim=96, num_layers=2, vocab_size=500, num_texts=400)


@cached(data_files=lambda *_, **__: [topics_file()])
def compare_workers(job: Job = SHORT, every: int = 20, kill_at: int = 50) -> dict:
    """Train a job in one process, and again with two workers, the second of which is killed before step `kill_at`.

    Returns the losses one_process and two_workers (num_steps,), and log, the lines that the two workers printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder) / "one", Path(folder) / "two"
        losses = run(job, one, every, log=lambda line: None)["loss"]
        two.mkdir()
        shutil.copy(one / TEXT, two)
        log = torchrun(job, two, every=every, kill_at=kill_at)
        saved = read(two / CHECKPOINT, job)
    return {"one_process": losses, "two_workers": saved["losses"], "log": log[:-1]}  # the last line names the folder


def torchrun(job: Job, folder: Path, workers: int = 2, restarts: int = 3, seconds: float = 240.0, **options) -> list:
    """Run a job with several workers on this machine. Returns the lines that they printed; RunError if they fail."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={workers}"]
    command += [f"--max-restarts={restarts}", "-m", MODULE]
    command += [f"--{name}={value}" for name, value in {**asdict(job), "folder": folder, **options}.items()]
    # By default the workers of all restarts share one store, in which a new worker can find the address of a dead one.
    environment = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    pipe, root = subprocess.PIPE, Path(__file__).parents[2]
    process = subprocess.Popen(command, env=environment, cwd=root, stdout=pipe, stderr=pipe, text=True)
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RunError(f"the workers did not finish within {seconds:g} s") from None
    finally:
        process.terminate()  # torchrun then ends its workers
        process.wait()
    if process.returncode != 0:
        reasons = [line for line in errors.splitlines() if "rror: " in line] or errors.splitlines()[-1:]
        raise RunError("the workers failed: " + " ".join(reasons[:1]))
    return output.splitlines()


def try_compare_workers(job: Job = SHORT) -> dict | None:
    """`compare_workers`, or None with a message on a machine where several processes cannot be started."""
    try:
        return compare_workers(job)
    except RunError as problem:
        print(f"Two workers could not be started here, and the lesson continues without them: {problem}")
        return None


def max_relative_difference(result: dict) -> float:
    """The largest relative difference between the two losses of a step."""
    one, two = result["one_process"], result["two_workers"]
    return ((one - two).abs() / one).max().item()

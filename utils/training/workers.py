"""One pretraining job run twice: by one process, and by two workers of which one is killed on the way."""

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
def one_and_two(job: Job = SHORT, every: int = 20, kill_at: int = 50) -> dict:
    """Train a job in one process, and again with two workers, the second of which is killed before step `kill_at`.

    Returns alone and together (steps,), the losses, and said, the lines of progress of the two workers.
    """
    with tempfile.TemporaryDirectory() as place:
        alone, together = Path(place) / "alone", Path(place) / "together"
        losses = run(job, alone, every, say=lambda line: None)["loss"]
        together.mkdir()
        shutil.copy(alone / TEXT, together)
        said = torchrun(job, together, every=every, kill_at=kill_at)
        saved = read(together / CHECKPOINT, job)
    return {"alone": losses, "together": saved["losses"], "said": said[:-1]}  # the last line names the folder


def torchrun(job: Job, folder: Path, workers: int = 2, restarts: int = 3, seconds: float = 240.0, **options) -> list:
    """Run a job with so many workers on this machine. Returns the lines that they printed; RunError if they fail."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={workers}"]
    command += [f"--max-restarts={restarts}", "-m", MODULE]
    command += [f"--{name}={value}" for name, value in {**asdict(job), "folder": folder, **options}.items()]
    # By default the workers of all restarts share one store, in which a new worker can find the address of a dead one.
    own = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    pipe, root = subprocess.PIPE, Path(__file__).parents[2]
    process = subprocess.Popen(command, env=own, cwd=root, stdout=pipe, stderr=pipe, text=True)
    try:
        said, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RunError(f"the workers did not finish within {seconds:g} s") from None
    finally:
        process.terminate()  # torchrun then ends its workers
        process.wait()
    if process.returncode != 0:
        reasons = [line for line in errors.splitlines() if "rror: " in line] or errors.splitlines()[-1:]
        raise RunError("the workers failed: " + " ".join(reasons[:1]))
    return said.splitlines()


def try_one_and_two(job: Job = SHORT) -> dict | None:
    """`one_and_two`, or None with a message on a machine where several processes cannot be started."""
    try:
        return one_and_two(job)
    except RunError as problem:
        print(f"Two workers could not be started here, and the lesson continues without them: {problem}")
        return None


def furthest_apart(found: dict) -> float:
    """The largest relative difference between two losses of the same step."""
    return ((found["alone"] - found["together"]).abs() / found["alone"]).max().item()

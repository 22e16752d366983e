"""Pretraining as a distributed job: data parallelism with `torchrun` and `DistributedDataParallel` (gloo, CPU).

    python -m utils.training.distributed --num_steps 200                                       one process
    torchrun --standalone --nproc_per_node=2 -m utils.training.distributed --num_steps 200     two workers

Both learn the same parameters up to rounding, those of `pretrain` with the same settings:

- `--batch_size` is the global batch. Every worker draws all of it with the same generator, which costs next to nothing, and
  computes its own rows. So every worker knows how many tokens the whole batch predicts, and divides its summed loss by
  that number. The mean of the workers' means would be another loss, in which a worker with few masked tokens counts as
  much as one with many.
- DistributedDataParallel joins the gradients before they are clipped, as one process clips that of the whole batch.

Worker 0 writes a checkpoint: parameters, optimizer state, generator state and losses. The same command, started again
after a crash (`torchrun --max-restarts` does so by itself), resumes from it. `trained(folder)` loads the model. A lesson
starts two workers with `compare_workers` and kills one of them.
"""

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from utils import paths
from utils.data.bpe import BPETokenizer
from utils.data.real_text import topics_file
from utils.training import fingerprint, pretraining
from utils.training.cache import cached
from utils.training.pretraining import Corpus, Objective, Pretrained, build, corpus, held_out_losses, sample_windows
from utils.training.seeds import seeded
from utils.training.trainer import IGNORE_INDEX, Trainer, linear_warmup_cosine

MODULE = "utils.training.distributed"
RUNS = paths.WORK / "runs"
TEXT, CHECKPOINT = "text.pt", "checkpoint.pt"


class RunError(RuntimeError):
    """A job that cannot start or resume; the message says why and what to do."""


@dataclass(frozen=True)
class Job:
    """The arguments of `pretrain` that decide the result. No dropout: each worker would draw a mask of its own."""

    objective: str = "masked"
    seed: int = 0
    num_steps: int = 600
    dim: int = 128
    num_heads: int = 4
    hidden_dim: int = 512
    num_layers: int = 3
    length: int = pretraining.LENGTH
    batch_size: int = 8  # sequences, of all workers together
    learning_rate: float = 3e-3
    warmup_ratio: float = 0.1
    weight_decay: float = 0.1
    vocab_size: int = pretraining.VOCAB_SIZE
    num_texts: int = 100_000  # of each split, at most

    def build(self, vocab_size: int) -> nn.Module:
        """vocab_size: of the trained tokenizer, which may be smaller than that of the job."""
        sizes = {name: getattr(self, name) for name in ("dim", "num_heads", "hidden_dim", "num_layers")}
        return build(self.objective, {"vocab_size": vocab_size, **sizes, "dropout": 0.0})


class SummedLoss(nn.Module):
    """A model and its summed cross-entropy in one module: DistributedDataParallel wraps what `forward` computes."""

    def __init__(self, model: nn.Module, objective: Objective):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, *inputs_and_targets: Tensor) -> Tensor:
        *inputs, targets = inputs_and_targets
        return F.cross_entropy(*self.objective.logits(self.model, inputs, targets), reduction="sum")


def write(path: Path, content: dict) -> None:
    """Write a file whole or not at all: a process that is killed meanwhile leaves the old file."""
    part = path.with_name(path.name + ".part")
    torch.save(content, part)
    part.replace(path)


def read(path: Path, job: Job | None = None) -> dict:
    """The content of a file that `write` wrote for this job; RunError says what is wrong with any other file."""
    try:
        with zipfile.ZipFile(path) as archive:  # torch.load does not compare the checksums
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(damaged)
        content = torch.load(path, weights_only=True)  # noqa: TID251 (tensors and plain data only)
        settings = content["job"]
    except Exception as problem:  # a damaged archive can make torch.load raise almost anything
        raise RunError(
            f"{path} is damaged or missing ({type(problem).__name__}). Remove it to start again; with several machines, "
            "name a --folder on a disk that all of them share"
        ) from problem
    if job is not None and settings != asdict(job):
        differ = [f"{name} {settings.get(name)}" for name, value in asdict(job).items() if settings.get(name) != value]
        raise RunError(f"{path} belongs to a run with {', '.join(differ)}; use those settings or name another --folder")
    return content


def prepare_text(job: Job, folder: Path) -> Corpus:
    """The tokenized text. Worker 0 stores it: a run that resumes neither waits for it nor gets another one."""
    path = folder / TEXT
    if _rank() == 0 and not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = corpus(job.vocab_size, job.length, job.num_texts)
        tensors = {"train": text.train, "held_out": text.held_out.contiguous()}
        write(path, {"job": asdict(job), "tokenizer": text.tokenizer.to_str(), **tensors})
    if dist.is_initialized():
        dist.barrier()
    content = read(path, job)
    return Corpus(BPETokenizer.from_str(content["tokenizer"]), content["train"], content["held_out"])


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def run(
    job: Job, folder: Path, every: int = 100, kill_at: int | None = None, log: Callable[[str], None] = print
) -> dict:
    """Train, resuming from the checkpoint in the folder if there is one. `trained(folder)` is the model.

    every: steps between two checkpoints. kill_at: before this step the last worker kills itself, unless torchrun has
    restarted it. Returns loss (num_steps,); held_out, the loss in nats per predicted token of unseen text; and unigram,
    that of knowing the token frequencies.
    """
    rank, size = _rank(), dist.get_world_size() if dist.is_initialized() else 1
    if job.batch_size < size:
        raise RunError(f"expected a batch of at least {size}, a sequence for each worker, got {job.batch_size}")
    text = prepare_text(job, folder)
    objective = Objective(job.objective, len(text.tokenizer))
    with seeded(job.seed):
        model = job.build(objective.vocab_size)
    if job.objective != "spans":
        pretraining.init_output_bias(model, text.token_counts)
    trainer = Trainer(
        model,
        learning_rate=job.learning_rate,
        schedule=linear_warmup_cosine(job.num_steps, job.warmup_ratio),
        betas=pretraining.BETAS,
        weight_decay=job.weight_decay,
        max_norm=pretraining.MAX_NORM,
    )
    generator = torch.Generator().manual_seed(10_000 + job.seed)
    losses, start = torch.zeros(job.num_steps), 0
    if (folder / CHECKPOINT).exists():
        saved = read(folder / CHECKPOINT, job)
        model.load_state_dict(saved["model"])
        trainer.optimizer.load_state_dict(saved["optimizer"])
        generator.set_state(saved["generator"])
        losses, start = saved["losses"], saved["step"]
    if rank == 0:
        how = f"resumes at step {start}" if start else "starts"
        log(f"{job.objective}, {job.num_steps} steps, workers: {size}, {how}")

    summed_loss: nn.Module = SummedLoss(model.train(), objective)
    if dist.is_initialized():
        summed_loss = DistributedDataParallel(summed_loss)
    for step in range(start, job.num_steps):
        if step == kill_at and rank == size - 1 and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        inputs, targets = objective.corrupt(
            sample_windows(text.train, job.length + 1, job.batch_size, generator), generator
        )
        predicted = (targets != IGNORE_INDEX).sum().clamp(min=1)
        loss = summed_loss(*(tensor.tensor_split(size)[rank] for tensor in (*inputs, targets))) / predicted
        # DistributedDataParallel averages the gradients of the workers (all-reduce); the sum is needed.
        trainer.step(step, loss * size)
        losses[step] = loss.detach()
        if dist.is_initialized():
            dist.all_reduce(losses[step])
        done = step + 1
        if rank == 0 and (done % every == 0 or done == job.num_steps):
            log(f"step {done} of {job.num_steps}   loss {losses[max(0, done - every) : done].mean():.4f}")
            state = {"model": model.state_dict(), "optimizer": trainer.optimizer.state_dict()}
            state |= {"generator": generator.get_state(), "losses": losses, "step": done}
            write(folder / CHECKPOINT, {"job": asdict(job), **state})
    held_out, unigram = held_out_losses(model.eval(), text, objective)
    return {"loss": losses, "held_out": held_out, "unigram": unigram}


def trained(folder: Path) -> Pretrained:
    """The model of the checkpoint in a folder, with its tokenizer."""
    text, saved = read(folder / TEXT), read(folder / CHECKPOINT)
    job, tokenizer = Job(**saved["job"]), BPETokenizer.from_str(text["tokenizer"])
    model = job.build(len(tokenizer))
    model.load_state_dict(saved["model"])
    return Pretrained(model.eval(), tokenizer, job.length)


# Started from a notebook

SHORT = Job("causal", num_steps=120, dim=48, num_heads=4, hidden_dim=96, num_layers=2, vocab_size=500, num_texts=400)


@cached(data_files=lambda *_, **__: [topics_file()])
def compare_workers() -> dict:
    """Train SHORT in one process, and again with two workers, the second of which is killed before step 50.

    Returns num_steps; difference, the largest relative one between the two losses of a step; and log, the lines that the
    two workers printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder) / "one", Path(folder) / "two"
        losses = run(SHORT, one, log=lambda line: None)["loss"]
        two.mkdir()
        shutil.copy(one / TEXT, two)
        log = torchrun(SHORT, two, every=20, kill_at=50)
        difference = (losses - read(two / CHECKPOINT, SHORT)["losses"]).abs() / losses
    # The last line of the log names the folder.
    return {"num_steps": len(losses), "difference": difference.max().item(), "log": log[:-1]}


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


def try_compare_workers() -> dict | None:
    """`compare_workers`, or None with a message on a machine where several processes cannot be started."""
    try:
        return compare_workers()
    except RunError as problem:
        print(f"Two workers could not be started here, and the lesson continues without them: {problem}")
        return None


# The command


def main(arguments: Sequence[str] | None = None) -> int:
    """0: trained; 1: the job could not start or resume; 2: wrong arguments."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="of text and checkpoint; default: one for each job, in work/runs")
    parser.add_argument("--every", type=int, default=100, help="steps between two checkpoints; default: 100")
    parser.add_argument("--kill_at", type=int, help="to try a recovery: the last worker dies before this step, once")
    for name, default in asdict(Job()).items():
        choices = pretraining.OBJECTIVES if name == "objective" else None
        parser.add_argument(
            f"--{name}", type=type(default), default=default, choices=choices, help=f"default: {default}"
        )
    given = vars(parser.parse_args(arguments))
    folder, every, kill_at = (given.pop(name) for name in ("folder", "every", "kill_at"))
    job = Job(**given)
    folder = folder or RUNS / f"{job.objective}-{fingerprint.digest(json.dumps(given))[:10]}"
    torch.set_num_threads(1)
    if dist.is_torchelastic_launched():
        # Torch imports this late. Its default arguments would then keep the process group until the interpreter exits, and a
        # thread of the group that is still running aborts the process. So it is imported before there is a group.
        importlib.import_module("torch.distributed.nn")
        dist.init_process_group("gloo")
    try:
        result = run(job, folder, every, kill_at, lambda line: print(line, flush=True))
        if _rank() == 0:
            print(f"held-out loss {result['held_out']:.4f} (unigram {result['unigram']:.4f}), in {folder}")
    except RunError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    finally:
        if dist.is_initialized():
            # Torch 2.6 holds Python's lock while it waits for the threads of the group to end, and these need the lock to free
            # the tensors of the last exchange: they get a moment to do so before.
            time.sleep(0.2)
            dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Lesson 07's pretraining as a job for one process, for several on one machine, or for several machines.

    python -m utils.training.distributed --steps 200
    torchrun --nproc_per_node=2 -m utils.training.distributed --steps 200
    torchrun --nnodes=3 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_id=1 --rdzv_endpoint=first:29400 \\
        -m utils.training.distributed --steps 200 --folder /on/a/shared/disk

All three learn the same parameters, up to rounding, and those of `pretrain` with the same settings. The reasons:

- `--batch` is the batch of the whole team. Every worker draws all of it with one generator, which costs next to nothing, and reads
  its own rows only. So all know how many pieces were asked about, and each divides its sum of losses by that number. The mean of
  the workers' means would be another loss: a worker whose rows have few hidden pieces would count as much as one with many.
- Gradients are added up over the workers before they are clipped, as one process clips the gradient of the whole batch.

Worker 0 writes checkpoints into the folder. The same command, started again after a crash, goes on from the last one as if nothing
had happened: parameters, moments of the optimiser, the state of the generator and the losses so far are in it. With the same
number of workers the result is the same to the last bit.
"""

import argparse
import contextlib
import datetime
import json
import math
import os
import platform
import re
import socket
import sys
import time
import typing
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import filelock
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from utils.data.subwords import GAPS, MASK, START, Subwords
from utils.models.encoder import one_of
from utils.training import fingerprint
from utils.training.pretraining import (
    BETAS,
    LARGEST_GRADIENT,
    LENGTH,
    NOT_ASKED,
    OBJECTIVES,
    PIECES,
    SHARES,
    SPAN,
    Asked,
    Corpus,
    build,
    corpus,
    corrupt_spans,
    draw_fragments,
    held_out_losses,
    is_text,
    mask_tokens,
    start_from_counts,
)
from utils.training.stored_encoder import store_encoder
from utils.training.translation import rate_at

MODULE = "utils.training.distributed"
RUNS = Path(__file__).resolve().parents[2] / "work" / "runs"
TEXT, LOCK, CHECKPOINT = "text.safetensors", ".lock", "step-{:08d}.safetensors"
KEPT = 2  # checkpoints: the last, and the one before in case the last is damaged
LOCK_SECONDS = 10.0  # so long a run that was just killed may take to let go of its folder
# What Python, torch and the operating system say when a worker no longer answers.
LOST = ("closed by peer", "reset by peer", "broken pipe", "connection refused", "timed out", "timeout", "gloo")


class RunError(RuntimeError):
    """A run that cannot begin or go on; the message says why and what to do."""


class Damaged(ValueError):
    """A file that is not what was written."""


# What is trained


def _setting(default, text: str):
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Job:
    """What is trained: the arguments of `pretrain`. All of it decides the result, and a run is resumed with the same only.

    There is no dropout: each worker would draw its own, and the result would depend on their number.
    """

    objective: str = _setting("masked", f"one of {', '.join(OBJECTIVES)}")
    seed: int = _setting(0, "of the first parameters and of the batches")
    steps: int = _setting(600, "of the whole run; the learning rate falls to 0 at the last")
    dim: int = _setting(128, "numbers in a vector")
    heads: int = _setting(4, "of each layer")
    hidden: int = _setting(512, "units in the feed-forward layers")
    layers: int = _setting(3, "blocks")
    length: int = _setting(LENGTH, "pieces in a fragment")
    batch: int = _setting(8, "fragments in a step, of all workers together")
    rate: float = _setting(3e-3, "the highest learning rate")
    warmup: float = _setting(0.1, "the share of the steps in which the rate rises")
    decay: float = _setting(0.1, "weight decay")
    share: float | None = _setting(None, f"of the pieces that are asked about (by objective {SHARES})")
    span: float = _setting(SPAN, "pieces in a span, in the mean")
    pieces: int = _setting(PIECES, "size of the vocabulary")
    texts: int | None = _setting(None, "read only so many texts of each part (all of them)")
    double: bool = _setting(False, "64-bit numbers: for comparisons, not for speed")

    def __post_init__(self):
        one_of("objective", self.objective, OBJECTIVES)
        for name in ("steps", "dim", "heads", "hidden", "layers", "length", "batch", "pieces"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.dim % self.heads:
            raise ValueError(f"expected heads that divide dim, got {self.heads} heads and dim {self.dim}")
        if self.rate <= 0 or self.decay < 0 or not 0 <= self.warmup <= 1:
            raise ValueError(
                f"expected a rate above 0, decay from 0 and warmup from 0 to 1, got {self.rate}, {self.decay} and {self.warmup}"
            )
        if self.share is not None and not 0 < self.share <= 1:
            raise ValueError(f"expected a share above 0 and up to 1, got {self.share}")

    @property
    def asked_share(self) -> float:
        return SHARES[self.objective] if self.share is None else self.share

    def model_settings(self, pieces: int) -> dict:
        """For `build`. pieces: of the tokenizer that was trained, which may find fewer than it was asked for."""
        names = ("dim", "heads", "hidden", "layers")
        return {"pieces": pieces, **{name: getattr(self, name) for name in names}, "dropout": 0.0}

    def folder(self) -> Path:
        """Where the run is kept unless another place is named: other settings, another folder."""
        return RUNS / f"{self.objective}-{fingerprint.digest(json.dumps(asdict(self)))[:10]}"


# Workers


@dataclass(frozen=True)
class Team:
    """This process among `size` workers; alone unless it has `joined` others. All must call the same methods in the same order."""

    rank: int = 0
    size: int = 1
    joined: bool = False

    def rows(self, batch: int) -> slice:
        """This worker's rows of a batch. If they cannot be shared out evenly, the first workers have one more."""
        share, more = divmod(batch, self.size)
        first = self.rank * share + min(self.rank, more)
        return slice(first, first + share + (self.rank < more))

    def add(self, numbers: Tensor) -> Tensor:
        """The sum of all workers' numbers, in place."""
        if self.joined:
            dist.all_reduce(numbers)
        return numbers

    def hand_out(self, numbers: Tensor) -> Tensor:
        """Worker 0's numbers, in place; the others bring a tensor of the same shape."""
        if self.joined:
            dist.broadcast(numbers, 0)
        return numbers

    def tell(self, mine: dict) -> list[dict]:
        """What each worker has to say, by rank. As JSON: objects would be pickled, and unpickling runs what it is sent."""
        if not self.joined:
            return [mine]
        data = torch.frombuffer(bytearray(json.dumps(mine).encode()), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.long) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(data)]))
        told = [torch.zeros(max(map(int, lengths)), dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(told, F.pad(data, (0, len(told[0]) - len(data))))
        return [json.loads(bytes(one[: int(n)].tolist())) for one, n in zip(told, lengths, strict=True)]


@contextlib.contextmanager
def team(timeout: float = 300.0) -> Iterator[Team]:
    """Join the workers that torchrun started with this one; without torchrun, work alone.

    timeout: seconds to wait for a worker that does not answer.
    """
    needed = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if not {"RANK", "WORLD_SIZE"} & os.environ.keys():
        yield Team()
        return
    if missing := [name for name in needed if name not in os.environ]:
        raise RunError(
            f"expected {', '.join(needed)} in the environment, {', '.join(missing)} not found; start the workers with torchrun, "
            "which sets all four, or remove RANK and WORLD_SIZE to work alone"
        )
    if not (dist.is_available() and dist.is_gloo_available()):
        raise RunError(
            f"this build of torch ({torch.__version__}) has no gloo, through which workers on processors talk; install torch from "
            "its own index (the CPU build has it), or work alone: python -m " + MODULE
        )
    _join(timeout)
    try:
        yield Team(dist.get_rank(), dist.get_world_size(), joined=True)
    finally:
        dist.destroy_process_group()


def _join(timeout: float) -> None:
    # Before there is a group: its functions take the group of that moment as a default and would keep it, and its threads,
    # until the interpreter ends. A thread that then still wants the interpreter aborts the process, whose work was done.
    import torch.distributed.nn  # noqa: F401

    place, wait = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", datetime.timedelta(seconds=timeout)
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=wait))
        store = dist.PrefixStore(meeting(store, rank, size, timeout), store)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=wait)
    except (RuntimeError, ValueError, TimeoutError) as problem:
        text = str(problem)  # torch's own errors of network and store are kinds of RuntimeError
        if "EADDRINUSE" in text or "address already in use" in text.lower():
            raise RunError(
                f"port {os.environ['MASTER_PORT']} is in use by another program; take another (torchrun --rdzv_endpoint=host:port), "
                "or on one machine let torchrun find one: --standalone"
            ) from problem
        raise RunError(
            f"worker {os.environ['RANK']} of {os.environ['WORLD_SIZE']} could not join the others at {place} within {timeout:g} s: "
            f"{_first_line(text)}; are all workers started, with the same address, and is the port open between the machines? "
            "GLOO_SOCKET_IFNAME names the network card to use if a machine has several"
        ) from problem


def meeting(store: dist.Store, rank: int, size: int, timeout: float) -> str:
    """A name that all living workers agree on. What they write below it is not mixed up with what dead ones wrote.

    When torchrun starts workers again, the store still has the addresses of those before, and a new worker would call a dead
    one. So each writes a number of its own, and the name is made of all of them. Nobody goes on before everyone has seen the
    same numbers; the dead, whose numbers may stand there for a while, cannot have seen the new ones.
    """
    places = [f"here/{other}" for other in range(size)]
    store.set(places[rank], uuid.uuid4().hex)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if store.check(places):
            name = fingerprint.digest(*map(store.get, places))
            store.set(f"{name}/{rank}", "seen")
            if store.check([f"{name}/{other}" for other in range(size)]):
                return name
        time.sleep(0.05)
    raise TimeoutError("not all workers came")


def _first_line(text: str) -> str:
    """What a library has to say, without the line of its code where it said so and its guesses why."""
    line = text.strip().partition("\n")[0] or "no reason given"
    return re.sub(r"^\[[^\]]*\]\s*", "", line).partition(". This")[0]


# Batches


def draw_batch(job: Job, text: Tensor, pieces: int, generator: torch.Generator) -> tuple[list[Tensor], Tensor]:
    """The next batch of the whole team: what the model reads, one or two (batch, n), and targets (batch, m).

    It draws what `pretrain` draws, in the same order, so the generator alone says which batch comes next.
    """
    fragments = draw_fragments(text, job.length + 1, job.batch, generator)
    inputs = fragments[:, :-1]
    if job.objective == "causal":
        return [inputs], fragments[:, 1:]
    if job.objective == "masked":
        real = torch.ones_like(inputs, dtype=torch.bool)
        inputs, targets, _ = mask_tokens(inputs, real, MASK, pieces, job.asked_share, generator)
        return [inputs], targets
    pairs = [corrupt_spans(one, GAPS, job.asked_share, job.span, generator) for one in inputs]
    source, target = (torch.stack(side) for side in zip(*pairs, strict=True))
    return [source, torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], 1)], target


class LossSum(nn.Module):
    """A model with its loss behind it, summed over the places that are asked about; and, to be told, the sum without the names
    of gaps. One module, since what happens to the gradients of several workers begins in its `forward`."""

    def __init__(self, model: nn.Module, objective: str):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, inputs: Sequence[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
        if self.objective == "spans":
            source, started = inputs
            logits, targets = self.model(source, None, started)[0].flatten(0, 1), targets.flatten()
        else:  # only places in question go through the output layer, the dearest of all
            asked = targets != NOT_ASKED
            logits, targets = self.model.scores(self.model.vectors(*inputs)[asked]), targets[asked]
        total = F.cross_entropy(logits, targets, reduction="sum")
        if self.objective != "spans":
            return total, total.detach()
        text = is_text(targets)
        return total, F.cross_entropy(logits.detach()[text], targets[text], reduction="sum")


# Files


def write_tensors(path: Path, tensors: dict[str, Tensor], about: dict) -> None:
    """Write one file or none: a process that is killed meanwhile leaves the old one. `read_tensors` notices any change."""
    tensors = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
    part = path.with_name(path.name + ".part")
    try:
        save_file(tensors, part, {"about": json.dumps(about), "digest": _digest(tensors, about)})
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
        if os.name == "posix":  # the new name is on the disk only once the folder is
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except (OSError, SafetensorError) as problem:
        raise RunError(f"{path} could not be written ({problem}); what was written before is still there") from problem


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict]:
    try:
        with safe_open(path, "pt") as stream:
            told = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (no dict)
        about = json.loads(told["about"])
    except KeyError:
        raise Damaged("it is not one of this program") from None
    except (OSError, ValueError, SafetensorError) as problem:
        raise Damaged(_first_line(str(problem))) from problem
    if told.get("digest") != _digest(tensors, about):
        raise Damaged("its content has changed since it was written")
    return tensors, about


def _digest(tensors: dict[str, Tensor], about: dict) -> str:
    parts: list[str | bytes] = [json.dumps(about, sort_keys=True)]
    for name, value in sorted(tensors.items()):
        parts += [f"{name} {value.dtype} {list(value.shape)}", value.numpy().tobytes()]
    return fingerprint.digest(*parts)


def checkpoints(folder: Path) -> dict[int, Path]:
    """Those in a folder by their step, the last one first."""
    named = ((re.fullmatch(r"step-(\d+)\.safetensors", path.name), path) for path in folder.glob("step-*"))
    return dict(sorted(((int(name[1]), path) for name, path in named if name), reverse=True))


@dataclass(frozen=True)
class Checkpoint:
    """A run after `step` steps. tensors: model.*, the optimiser's step.*, exp_avg.* and exp_avg_sq.*, generator and losses (step,)."""

    step: int
    tensors: dict[str, Tensor]
    about: dict


def last_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The last one that can be read, and a sentence about each that cannot."""
    damaged = []
    for step, path in checkpoints(folder).items():
        try:
            tensors, about = read_tensors(path)
            return Checkpoint(step, tensors, about), damaged
        except Damaged as problem:
            damaged.append(f"checkpoint {path.name} is damaged ({problem}); the one before it is used")
    if damaged:
        raise RunError(
            f"every checkpoint in {folder} is damaged; to begin anew, name another --folder or remove this one"
        )
    return None, []


def _same_job(job: Job, found: Checkpoint, folder: Path) -> None:
    now, then = asdict(job), found.about["job"]
    if differ := [
        f"{name} {then.get(name)} (now {now.get(name)})"
        for name in now | then
        if now.get(name, ...) != then.get(name, ...)
    ]:
        raise RunError(
            f"the run in {folder} was begun with {', '.join(differ)}; give the same settings to resume it, or name another --folder"
        )


def prepare_text(job: Job, folder: Path) -> Corpus:
    """The text in pieces: read once and stored, so that a run that is resumed neither waits for it nor gets another one."""
    path, asked = folder / TEXT, {name: getattr(job, name) for name in ("pieces", "length", "texts")}
    if path.exists():
        with contextlib.suppress(Damaged):  # then it is read again; a checkpoint knows which text it was made with
            tensors, about = read_tensors(path)
            if about["asked"] == asked:
                return Corpus(Subwords.from_text(about["subwords"]), tensors["train"], tensors["held_out"])
    text = corpus(**asked)
    write_tensors(
        path, {"train": text.train, "held_out": text.held_out}, {"asked": asked, "subwords": text.subwords.to_text()}
    )
    return text


@dataclass(frozen=True)
class Opened:
    """What worker 0 finds in the folder. found: the checkpoint to go on from; notes: what is to be told about that."""

    text: Corpus
    digest: str
    found: Checkpoint | None
    notes: list[str]


def open_folder(job: Job, folder: Path) -> Opened:
    for left in folder.glob("*.part"):  # of a run that was killed while it wrote
        left.unlink()
    found, notes = last_checkpoint(folder)
    if found is not None:
        _same_job(job, found, folder)
    text = prepare_text(job, folder)
    digest = fingerprint.digest(text.train.numpy().tobytes(), text.subwords.to_text())
    if found is not None and found.about["text"] != digest:
        raise RunError(
            f"the run in {folder} was begun on another text (Python {found.about['python']}, here {platform.python_version()}: "
            "docstrings differ); resume it with that Python, or name another --folder"
        )
    if found is not None and found.about["code"] != _code():
        notes.append("the code has changed since the last checkpoint: the rest is trained by the new")
    return Opened(text, digest, found, notes)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other runs out of the folder meanwhile."""
    lock = filelock.FileLock(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=LOCK_SECONDS)
    except filelock.Timeout:
        raise RunError(f"another run is writing to {folder}; wait for it, stop it, or name another --folder") from None
    except OSError as problem:
        raise RunError(f"the folder {folder} cannot be used ({problem}); name another --folder") from problem
    try:
        yield
    finally:
        lock.release()


def _code() -> str:
    return fingerprint.digest(*fingerprint.code_parts(fingerprint.closure([MODULE])))


# A run


def run(
    job: Job,
    folder: Path,
    *,
    team: Team | None = None,
    every: int = 100,
    report: int = 50,
    say: Callable[[str], None] | None = None,
) -> dict | None:
    """Train, from the last checkpoint in the folder if there is one; returns what `pretrain` returns, on worker 0 only.

    every: steps between two checkpoints; report: between two lines of progress, which worker 0 gives to `say` (printed unless
    given). The folder then holds the model as well, for `stored_encoder(folder)`.
    """
    if every < 1 or report < 1:
        raise ValueError(f"expected checkpoints and reports every 1 or more steps, got {every} and {report}")
    folder, team = Path(folder), Team() if team is None else team
    mine = {
        "settings": {**asdict(job), "every": every, "report": report},
        "torch": torch.__version__,
        "code": _code(),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "newest": next(iter(checkpoints(folder)), 0),
    }
    if team.rank > 0:
        return _work(job, folder, team, None, mine, every, report, _silent)
    say = say or (lambda line: print(line, flush=True))
    with contextlib.ExitStack() as stack:
        opened = None
        try:
            if job.batch < team.size:
                raise RunError(
                    f"expected a batch of at least {team.size}, a fragment for each worker, got {job.batch}; "
                    "raise --batch or start fewer workers"
                )
            stack.enter_context(alone_in(folder))
            opened = open_folder(job, folder)
            start = opened.found.step if opened.found else 0
            mine |= {"start": start, "train": len(opened.text.train), "pieces": len(opened.text.subwords)}
        except (RunError, ValueError) as problem:  # the others wait: tell them, and all end together
            mine["problem"] = str(problem)
        return _work(job, folder, team, opened, mine, every, report, say)


def _silent(line: str) -> None:
    """Worker 0 speaks for all."""


def _work(
    job: Job,
    folder: Path,
    team: Team,
    opened: Opened | None,
    mine: dict,
    every: int,
    report: int,
    say: Callable[[str], None],
) -> dict | None:
    """What all workers do together; `opened` on worker 0 only, unless it could not open the folder."""
    told = team.tell(mine)
    _agree(told, folder)
    start, pieces = told[0]["start"], told[0]["pieces"]
    if opened is None:
        train = torch.zeros(told[0]["train"], dtype=torch.int)
    else:
        train = opened.text.train.int()
        for line in (*opened.notes, *_opening(job, told, folder, start)):
            say(line)
    train = team.hand_out(train).long()
    state = _fresh(job, train, pieces)
    if start:
        _go_on_from(state, start, opened and opened.found, team)
    if start < job.steps:
        for step in _train(job, state, train, pieces, start, team, every, report, say):
            if opened is not None:
                _store(job, state, step, folder, {"text": opened.digest, "code": mine["code"]})
    return None if opened is None else _result(job, state, opened.text, folder, say)


def _agree(told: list[dict], folder: Path) -> None:
    """The same error on every worker, or none: a worker that waited for one that had given up would wait for long."""
    first = told[0]
    if problem := first.get("problem"):
        raise RunError(problem)
    for rank, one in enumerate(told):
        who = f"worker 0 on {first['host']}", f"worker {rank} on {one['host']}"
        if differ := _difference(first, one):
            raise RunError(
                f"expected the same on every worker, but {who[0]} has {differ[0]}, and {who[1]} has {differ[1]}; "
                "start the same command, from the same checkout, everywhere"
            )
        if one["newest"] > first["newest"]:
            raise RunError(
                f"{who[0]} finds step {first['newest']} in {folder}, but {who[1]} finds step {one['newest']}; "
                "name a --folder on a disk that all machines share"
            )


def _difference(one: dict, other: dict) -> tuple[str, str] | None:
    """What two workers have that must not differ, in words."""
    for name, value in one["settings"].items():
        if other["settings"].get(name) != value:
            return f"{name} {value}", f"{name} {other['settings'].get(name)}"
    if one["torch"] != other["torch"]:
        return f"torch {one['torch']}", f"torch {other['torch']}"
    if one["code"] != other["code"]:
        return f"code {one['code'][:8]}", f"code {other['code'][:8]}"
    return None


def _opening(job: Job, told: list[dict], folder: Path, start: int) -> list[str]:
    workers = ", ".join(f"{one['process']} on {one['host']}" for one in told)
    begun = f"resumes at step {start}" if start else "begins"
    if start == job.steps:
        begun = "has been trained to the end"
    again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    return [
        f"{job.objective}, {job.steps} steps, {job.batch} fragments each: {begun}, in {folder}"
        + (f" (restart {again})" if again else ""),
        f"workers: {len(told)} (process {workers})",
    ]


@dataclass
class State:
    """All that changes while a model is trained. losses (steps,); seconds of processor time, of all workers."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    losses: Tensor
    seconds: float = 0.0


def _fresh(job: Job, train: Tensor, pieces: int) -> State:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.seed)
        model = build(job.objective, job.model_settings(pieces))
    if job.objective != "spans":
        start_from_counts(model, train.bincount(minlength=pieces).float())
    model = model.double() if job.double else model
    optimizer = torch.optim.AdamW(model.parameters(), betas=BETAS, weight_decay=job.decay, fused=True)
    generator = torch.Generator().manual_seed(10_000 + job.seed)
    return State(model.train(), optimizer, generator, torch.zeros(job.steps, dtype=torch.float64))


def _tensors(state: State, step: int) -> dict[str, Tensor]:
    tensors = {"generator": state.generator.get_state(), "losses": state.losses[:step]}
    for name, parameter in state.model.named_parameters():
        tensors[f"model.{name}"] = parameter
        tensors |= {f"{part}.{name}": value for part, value in state.optimizer.state[parameter].items()}
    return tensors


def _go_on_from(state: State, step: int, found: Checkpoint | None, team: Team) -> None:
    """Worker 0 read the checkpoint; the others have what was in it from worker 0, so they need no access to the file."""
    for parameter in state.model.parameters():  # as the optimiser has it after its first step
        zeros = {part: torch.zeros_like(parameter) for part in ("exp_avg", "exp_avg_sq")}
        state.optimizer.state[parameter] = {"step": torch.zeros(()), **zeros}
    with torch.no_grad():
        for name, value in _tensors(state, step).items():
            if team.rank == 0:
                value.copy_(_fitting(found, name, value))
            team.hand_out(value)
            if name == "generator":  # a copy, unlike the others
                state.generator.set_state(value)
    state.seconds = found.about["seconds"] if team.rank == 0 else 0.0


def _fitting(found: Checkpoint, name: str, wanted: Tensor) -> Tensor:
    value = found.tensors.get(name)
    if value is None or value.shape != wanted.shape:
        raise RunError(
            f"the checkpoint of step {found.step} does not fit the model of this code: {name} is "
            f"{'not in it' if value is None else f'{list(value.shape)}, expected {list(wanted.shape)}'}; name another --folder"
        )
    return value


def _train(
    job: Job,
    state: State,
    train: Tensor,
    pieces: int,
    start: int,
    team: Team,
    every: int,
    report: int,
    say: Callable[[str], None],
) -> Iterator[int]:
    """Take all steps from `start` on. Yields the number of steps done whenever it is time for a checkpoint."""
    loss_sum = LossSum(state.model, job.objective)
    rows = team.rows(job.batch)
    if team.joined:
        loss_sum = DistributedDataParallel(loss_sum, forward_sync_buffers=False)
        # The first pass decides how gradients are packed for the way, and with it the order of sums. It is made on a batch that
        # does not count, so that a run that was resumed packs as one that was not, and rounds alike.
        inputs, targets = draw_batch(job, train, pieces, torch.Generator().manual_seed(0))
        loss_sum([one[rows] for one in inputs], targets[rows])[0].backward()
    settled, shown = start, start
    clock, processor = time.perf_counter(), time.process_time()
    for step in range(start, job.steps):
        inputs, targets = draw_batch(job, train, pieces, state.generator)
        asked = targets != NOT_ASKED
        total, told = loss_sum([one[rows] for one in inputs], targets[rows])
        loss = total / asked.sum().clamp(min=1)
        state.optimizer.zero_grad()
        (loss * team.size).backward()  # what comes back is the mean over the workers, and the sum is wanted
        nn.utils.clip_grad_norm_(state.model.parameters(), LARGEST_GRADIENT)
        state.optimizer.param_groups[0]["lr"] = rate_at(step, job.steps, job.rate, job.warmup)
        state.optimizer.step()
        state.losses[step] = told / (asked & is_text(targets)).sum().clamp(min=1)

        done = step + 1
        tells, stores = (done % often == 0 or done == job.steps for often in (report, every))
        if tells or stores:  # until then, each worker has its own part of the losses
            team.add(state.losses[settled:done])
            settled = done
        if tells:
            speed = (done - shown) * job.batch * job.length / (time.perf_counter() - clock)
            say(f"step {done} of {job.steps}   loss {state.losses[shown:done].mean():.4f}   {speed:,.0f} pieces/s")
            shown, clock = done, time.perf_counter()
        if stores:
            spent = team.add(torch.tensor([time.process_time() - processor], dtype=torch.float64))
            state.seconds, processor = state.seconds + spent.item(), time.process_time()
            yield done


def _store(job: Job, state: State, step: int, folder: Path, about: dict) -> None:
    about = {**about, "job": asdict(job), "python": platform.python_version(), "seconds": state.seconds}
    write_tensors(folder / CHECKPOINT.format(step), _tensors(state, step), about)
    found = checkpoints(folder)
    good = [
        number for number in found if number <= step
    ]  # later ones are damaged, or the run would have gone on from there
    for number in found.keys() - good[:KEPT]:
        found[number].unlink()


def _result(job: Job, state: State, text: Corpus, folder: Path, say: Callable[[str], None]) -> dict:
    pieces = len(text.subwords)
    asked = getattr(Asked(pieces, job.asked_share, job.span), job.objective)
    model, counts = state.model.eval(), text.train.bincount(minlength=pieces).float()
    held_out, unigram = held_out_losses(model, job.objective, text, asked, counts)
    result = {
        "objective": job.objective,
        "seed": job.seed,
        "loss": state.losses,
        "held_out": held_out,
        "perplexity": math.exp(held_out),
        "unigram": unigram,
        "parameters": sum(one.numel() for one in model.parameters()),
        "seconds": state.seconds,
        "read": job.steps * job.batch * job.length,
        "length": job.length,
        "settings": job.model_settings(pieces),
        "subwords": text.subwords.to_text(),
        "state": {name: value.detach() for name, value in model.state_dict().items()},
    }
    store_encoder(result, folder)
    say(
        f"held-out loss {held_out:.4f}, perplexity {math.exp(held_out):.1f} (frequencies alone: {math.exp(unigram):.1f})"
    )
    return result


# The command


def command(job: Job, folder: Path, workers: int | None = None, *, restarts: int = 0, **options) -> list[str]:
    """The command that runs a job: alone, or as so many workers on this machine. options: every, report, threads, timeout."""
    start = [sys.executable, "-m", MODULE]
    if workers is not None:
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={workers}"]
        start += [f"--max-restarts={restarts}", "-m", MODULE]
    given = {name: value for name, value in asdict(job).items() if value is not None and value is not False}
    given |= {"folder": folder, **options}
    return start + [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]


class _Parser(argparse.ArgumentParser):
    """Of the workers on a machine, only the first explains what is wrong with their arguments."""

    def error(self, message: str) -> None:
        if os.environ.get("LOCAL_RANK", "0") != "0":
            sys.exit(2)
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"python -m {MODULE}",
        description="Pretrain a model on the docstrings of the standard library, alone or under torchrun.",
        epilog="The same command, started again, resumes the run from its last checkpoint.",
    )
    for one in fields(Job):
        (kind,) = {*(typing.get_args(one.type) or (one.type,))} - {type(None)}
        told = one.metadata["help"] + (f" ({one.default})" if one.default not in (None, False) else "")
        how = {"action": "store_true"} if kind is bool else {"type": kind, "default": one.default}
        parser.add_argument(f"--{one.name}", help=told, **how)
    parser.add_argument("--folder", type=Path, help="of checkpoints and result (one for each job, in work/runs)")
    parser.add_argument("--every", type=_positive(int), default=100, help="steps between two checkpoints (100)")
    parser.add_argument("--report", type=_positive(int), default=50, help="steps between two lines of progress (50)")
    parser.add_argument("--threads", type=_positive(int), default=1, help="of each worker (1)")
    parser.add_argument("--timeout", type=_positive(float), default=300.0, help="seconds to wait for a worker (300)")
    return parser


def _positive(kind: type) -> Callable[[str], float]:
    def number(text: str) -> float:
        if not kind(text) > 0:
            raise argparse.ArgumentTypeError(f"expected a number above 0, got {text}")
        return kind(text)

    number.__name__ = kind.__name__  # what argparse calls a text that is no number
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """0: trained; 1: the run could not go on; 2: wrong arguments."""
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    folder, every, report, threads, timeout = (
        given.pop(name) for name in ("folder", "every", "report", "threads", "timeout")
    )
    try:
        job = Job(**given)
    except ValueError as problem:
        parser.error(str(problem))
    torch.set_num_threads(threads)
    try:
        with team(timeout) as workers:
            run(job, folder or job.folder(), team=workers, every=every, report=report)
    except RunError as problem:
        if os.environ.get("LOCAL_RANK", "0") == "0":  # the same on all workers of a machine
            print(f"error: {problem}", file=sys.stderr, flush=True)
        return 1
    except RuntimeError as problem:
        if not any(word in str(problem).lower() for word in LOST):
            raise
        print(
            f"error: worker {os.environ.get('RANK', 0)} has lost another one ({_first_line(str(problem))}). What the last checkpoint "
            "holds is safe: torchrun resumes from it by itself with --max-restarts, or start the same command again",
            file=sys.stderr,
            flush=True,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Numbers of the first edition of the course: initial weights, batches, and what came out. See README.md."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

FOLDER = Path(__file__).parent
STEPS, LEARNING_RATE = 20, 0.01


@dataclass(frozen=True)
class Frozen:
    """One file. The names of `settings` and `weights` are those of the first edition."""

    settings: dict
    weights: dict[str, Tensor]
    batch: dict[str, Tensor]
    results: dict[str, Tensor]


def read(name: str) -> Frozen:
    with safe_open(FOLDER / f"{name}.safetensors", "pt") as file:
        settings = json.loads(file.metadata()["settings"])
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "batch": {}, "results": {}}
        for key in file.keys():  # noqa: SIM118  (not a dict)
            part, _, rest = key.partition("/")
            parts[part][rest] = file.get_tensor(key)
    return Frozen(settings, **parts)


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """float64 also for what a model computes when it is built, such as sinusoids; one thread, so one order of sums."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


def training_losses(parameters: Iterable[Tensor], loss: Callable[[], Tensor]) -> Tensor:
    """The losses (steps,) of plain Adam, or (steps, seeds) where `loss` gives one for each seed."""
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    losses = []
    for _ in range(STEPS):
        value = loss()
        losses.append(value.detach().clone())
        optimizer.zero_grad()
        value.sum().backward()
        optimizer.step()
    return torch.stack(losses)

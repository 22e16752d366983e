"""Many seeds at once: `torch.func.vmap` gives every parameter the seed as its first axis and leaves the model as it is written.

Each seed has its own initialization and its own data, and learns exactly what it would learn alone. s seeds, b examples.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from utils.training.trainer import Schedule, training_steps, warmup_stable_decay

Draw = Callable[[int, torch.Generator], tuple[Tensor, ...]]  # so many examples: inputs and, last, targets
Losses = Callable[[Tensor, Tensor], Tensor]  # from outputs (s, b, ...) and targets (s, b, ...) to losses (s,)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Global random numbers from this seed inside; outside nothing has happened."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    return list(range(seeds)) if isinstance(seeds, int) else list(seeds)


def stack_models(make: Callable[[], nn.Module], seeds: Sequence[int]) -> tuple[nn.Module, dict[str, Tensor]]:
    """A model for each seed: one of them as a pattern, and the parameters of all, each (s, ...)."""
    models = []
    for seed in seeds:
        with seeded(seed):
            models.append(make())
    return models[0], stack_module_state(models)[0]


def call_models(model: nn.Module, parameters: dict[str, Tensor], *inputs: Tensor, **options) -> Tensor:
    """The first output of every seed's model: inputs (s, ...) to (s, ...)."""

    def call(own_parameters: dict[str, Tensor], *own_inputs: Tensor) -> Tensor:
        return functional_call(model, own_parameters, own_inputs, options)[0]

    return vmap(call)(parameters, *inputs)


def model_at(model: nn.Module, parameters: dict[str, Tensor], index: int) -> nn.Module:
    """`model` with the parameters of one seed. The same object each time: use it before the next call."""
    model.load_state_dict({name: parameter[index].detach() for name, parameter in parameters.items()})
    return model.eval()


# Training


def cross_entropies(logits: Tensor, classes: Tensor) -> Tensor:
    losses = F.cross_entropy(logits.flatten(0, -2), classes.flatten(), reduction="none")
    return losses.view(len(classes), -1).mean(1)


def draw_batches(draw: Draw, seeds: Sequence[int], num_steps: int, batch_size: int) -> list[tuple[Tensor, ...]]:
    """The training data of every seed, drawn once: for each step a tuple of tensors (s, batch_size, ...)."""
    drawn = [draw(num_steps * batch_size, torch.Generator().manual_seed(10_000 + seed)) for seed in seeds]
    columns = [
        torch.stack(column).unflatten(1, (num_steps, batch_size)).unbind(1) for column in zip(*drawn, strict=True)
    ]
    return list(zip(*columns, strict=True))


def model_training_steps(
    model: nn.Module,
    parameters: dict[str, Tensor],
    batches: Sequence[tuple[Tensor, ...]],
    learning_rate: float,
    schedule: Schedule | None = None,
    losses: Losses = cross_entropies,
) -> Iterator[Tensor]:
    """Adam on all seeds at once, in place; yields the loss (s,) after each step, so that the caller can evaluate in between.

    batches: for each step the inputs (s, b, ...) and, last, the targets (s, b, ...). schedule: by default the learning rate
    decays over the second half.
    """

    def loss_of_step(step: int) -> Tensor:
        *inputs, targets = batches[step]
        return losses(call_models(model, parameters, *inputs), targets)

    schedule = schedule or warmup_stable_decay(len(batches))
    options = {"learning_rate": learning_rate, "schedule": schedule, "betas": (0.9, 0.98)}
    return training_steps(parameters.values(), loss_of_step, len(batches), **options)


def train_models(*args, **options) -> Tensor:
    """`model_training_steps` to the end; returns the losses (num_steps, s)."""
    return torch.stack(list(model_training_steps(*args, **options)))


def train_seeds(
    make: Callable[[], nn.Module],
    draw: Draw,
    seeds: Sequence[int],
    num_steps: int,
    *,
    batch_size: int = 64,
    learning_rate: float = 0.01,
    losses: Losses = cross_entropies,
) -> tuple[nn.Module, dict[str, Tensor]]:
    """`stack_models`, trained on batches of their own."""
    model, parameters = stack_models(make, seeds)
    train_models(model, parameters, draw_batches(draw, seeds, num_steps, batch_size), learning_rate, losses=losses)
    return model, parameters


@torch.no_grad()
def accuracies(
    model: nn.Module, parameters: dict[str, Tensor], inputs: tuple[Tensor, ...], classes: Tensor, **options
) -> Tensor:
    """The accuracy (s,) of each seed on one test set for all: inputs (b, ...), classes (b,)."""
    num_seeds = len(next(iter(parameters.values())))
    correct = torch.zeros(num_seeds)
    for part in torch.arange(len(classes)).split(100):  # a long sequence has many pairs
        shared = [tensor[part].expand(num_seeds, *tensor[part].shape) for tensor in inputs]
        correct += (call_models(model, parameters, *shared, **options).argmax(-1) == classes[part]).sum(1)
    return correct / len(classes)

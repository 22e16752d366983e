"""Many seeds at once: `torch.func.vmap` gives every parameter the seed as its first axis and leaves the model as it is written.

Each seed has its own initialization and its own data, and learns exactly what it would learn alone. s seeds, b examples.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from utils.training.trainer import Schedule, training_steps, warmup_stable_decay


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    return list(range(seeds)) if isinstance(seeds, int) else list(seeds)


def stack_models(make: Callable[[], nn.Module], seeds: Sequence[int]) -> tuple[nn.Module, dict[str, Tensor]]:
    """A model for each seed: one of them as a pattern, and the parameters of all, each (s, ...)."""
    models = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            models.append(make())
    return models[0], stack_module_state(models)[0]


def call_models(model: nn.Module, parameters: dict[str, Tensor], *inputs: Tensor, **options) -> Tensor:
    """The first output of every seed's model: inputs (s, ...) to (s, ...)."""

    def call(own_parameters: dict[str, Tensor], *own_inputs: Tensor) -> Tensor:
        return functional_call(model, own_parameters, own_inputs, options)[0]

    return vmap(call)(parameters, *inputs)


def parameters_per_model(parameters: dict[str, Tensor]) -> int:
    return sum(parameter[0].numel() for parameter in parameters.values())


def draw_batches(
    draw: Callable[[int, torch.Generator], tuple[Tensor, ...]], seeds: Sequence[int], num_steps: int, batch_size: int
) -> list[tuple[Tensor, ...]]:
    """The training data of every seed, drawn once: for each step a tuple of tensors (s, batch_size, ...)."""
    drawn = [draw(num_steps * batch_size, torch.Generator().manual_seed(10_000 + seed)) for seed in seeds]
    columns = [
        torch.stack(column).unflatten(1, (num_steps, batch_size)).unbind(1) for column in zip(*drawn, strict=True)
    ]
    return list(zip(*columns, strict=True))


def model_training_steps(
    model: nn.Module,
    parameters: dict[str, Tensor],
    batches: Iterable[tuple[Tensor, ...]],
    num_steps: int,
    learning_rate: float,
    schedule: Schedule,
) -> Iterator[Tensor]:
    """Adam on all seeds at once, in place; yields the loss (s,) after each step, so that the caller can evaluate in between.

    batches: for each step the inputs (s, b, ...) and, last, the classes (s, b, ...); the model gives logits with one axis more.
    """
    stream = iter(batches)

    def loss_of_step(step: int) -> Tensor:
        *inputs, classes = next(stream)
        logits = call_models(model, parameters, *inputs).flatten(0, -2)
        return F.cross_entropy(logits, classes.flatten(), reduction="none").view(len(classes), -1).mean(1)

    options = {"learning_rate": learning_rate, "schedule": schedule, "betas": (0.9, 0.98)}
    return training_steps(parameters.values(), loss_of_step, num_steps, **options)


def train_models(
    model: nn.Module, parameters: dict[str, Tensor], batches: Sequence[tuple[Tensor, ...]], learning_rate: float
) -> Tensor:
    """`model_training_steps` to the end, the losses (num_steps, s); the learning rate decays over the second half."""
    schedule = warmup_stable_decay(len(batches))
    return torch.stack(list(model_training_steps(model, parameters, batches, len(batches), learning_rate, schedule)))


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

"""Training loop: AdamW (Loshchilov and Hutter, 2019, arXiv:1711.05101), a learning-rate schedule and gradient clipping.

    loss_of_step = lambda step: F.cross_entropy(model(x[step]), y[step])
    losses = train(model, loss_of_step, 300, learning_rate=1e-3, schedule=linear_warmup_cosine(300), max_norm=1.0)

Without weight decay AdamW is Adam (Kingma and Ba, 2015, arXiv:1412.6980). The batches, and the random generator that draws them, belong
to the caller's loss function; the loop itself draws no random numbers.
"""

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

IGNORE_INDEX = -100  # target of a position without a prediction; the default of F.cross_entropy
Schedule = Callable[[int], float]  # from the step, counted from 0, to a multiplier of the learning rate


# Learning-rate schedules


def constant(step: int) -> float:
    return 1.0


def linear_warmup(warmup_steps: int) -> Schedule:
    """Up in a straight line for `warmup_steps`, then constant."""
    return lambda step: min(1.0, (step + 1) / max(1, warmup_steps))


def linear_warmup_linear_decay(num_steps: int, warmup_steps: int) -> Schedule:
    """Up in a straight line for `warmup_steps`, then down to 0 in a straight line."""
    decay_steps = max(num_steps - warmup_steps, 1)
    return lambda step: min((step + 1) / warmup_steps, (num_steps - step) / decay_steps)


def warmup_stable_decay(num_steps: int, warmup_steps: float = 0) -> Schedule:
    """Warmup-stable-decay (WSD, arXiv:2404.06395): up, then constant, then down to 0 over the second half."""
    return lambda step: min(1.0, (step + 1) / max(1, warmup_steps), 2 * (1 - step / num_steps))


def linear_warmup_cosine(num_steps: int, warmup_ratio: float = 0.05) -> Schedule:
    """Up in a straight line for a share of the steps (at least one), then down to 0 along half a cosine."""
    warmup_steps = max(1, round(warmup_ratio * num_steps))

    def multiplier(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        return (1 + math.cos(math.pi * (step - warmup_steps) / (num_steps - warmup_steps))) / 2

    return multiplier


def noam_rate(step: int, dim: int, warmup_steps: int) -> float:
    """Learning rate of Vaswani et al. (2017) at step 1, 2, ...: linear warmup, then inverse square root of the step."""
    return dim**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


# The loop


class Trainer:
    """AdamW with a schedule and gradient clipping; `step` minimizes one loss.

    parameters: a module, of which all parameters that require a gradient are trained, or the tensors themselves.
    parameter_groups: as in `torch.optim`, in place of `parameters`, with an "lr" or a "weight_decay" of their own; the
    schedule multiplies each "lr". max_norm: clip the norm of all gradients together to this value.
    """

    def __init__(
        self,
        parameters: nn.Module | Iterable[Tensor],
        *,
        learning_rate: float = 1e-3,
        schedule: Schedule = constant,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        max_norm: float | None = None,
        parameter_groups: list[dict] | None = None,
        fused: bool = True,
    ):
        tensors = parameters.parameters() if isinstance(parameters, nn.Module) else parameters
        self.parameters = [tensor for tensor in tensors if tensor.requires_grad]
        self.schedule, self.max_norm = schedule, max_norm
        self.optimizer = torch.optim.AdamW(
            parameter_groups or self.parameters, learning_rate, betas=betas, weight_decay=weight_decay, fused=fused
        )
        self.learning_rates = [group["lr"] for group in self.optimizer.param_groups]

    def step(self, step: int, loss: Tensor) -> Tensor:
        """One optimizer step. loss: a scalar, or (s,), one for each of s models trained at once, whose gradients the
        sum of the losses keeps apart. Returns the loss without its graph."""
        self.optimizer.zero_grad()
        loss.sum().backward()
        if self.max_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.max_norm)
        for group, learning_rate in zip(self.optimizer.param_groups, self.learning_rates, strict=True):
            group["lr"] = learning_rate * self.schedule(step)
        self.optimizer.step()
        return loss.detach()


def training_steps(
    parameters: nn.Module | Iterable[Tensor], loss_of_step: Callable[[int], Tensor], num_steps: int, **options
) -> Iterator[Tensor]:
    """Train in place; yields the loss of each step after it, so that the caller can evaluate in between.

    loss_of_step: from the step, counted from 0, to the loss on a batch of its own. options: as of `Trainer`. A module
    is in training mode meanwhile and in evaluation mode afterwards.
    """
    trainer = Trainer(parameters, **options)
    module = parameters if isinstance(parameters, nn.Module) else nn.Module()
    module.train()
    for step in range(num_steps):
        yield trainer.step(step, loss_of_step(step))
    module.eval()


def train(
    parameters: nn.Module | Iterable[Tensor], loss_of_step: Callable[[int], Tensor], num_steps: int, **options
) -> Tensor:
    """`training_steps` to the end; returns the losses (num_steps, ...)."""
    losses = None
    for step, loss in enumerate(training_steps(parameters, loss_of_step, num_steps, **options)):
        # Copied into one tensor: small tensors kept between large ones fragment the heap, by gigabytes in a long training.
        losses = loss.new_zeros(num_steps, *loss.shape) if losses is None else losses
        losses[step] = loss
    return losses

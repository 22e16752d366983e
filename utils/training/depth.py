"""Residual connections (He et al., 2016, arXiv:1512.03385) and layer normalization in deep stacks: gradients, the identity,
the loss surface, pre-norm and post-norm.

"Plain" is a stack without residual connections: x, f(x), g(f(x)), ... s seeds.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from utils.models.layers import FeedForward, TransformerEncoder
from utils.training.cache import cached
from utils.training.heads import FormTagger, baseline_accuracy, form_accuracy, form_batches, form_data
from utils.training.seeds import (
    accuracies,
    call_models,
    model_at,
    seeded,
    stack_models,
    train_models,
    train_seeds,
)
from utils.training.trainer import linear_warmup

# Gradients by depth

DEPTHS = (1, 2, 4, 8, 16, 32)
STACKS: dict[str, dict] = {  # options of `TransformerEncoder`
    "plain": {"norm_first": True, "norm": "none", "residual": False},
    "norm only": {"norm_first": True, "residual": False},
    "residual": {"norm_first": True, "norm": "none"},
    "residual, post-norm": {"norm_first": False},
    "residual, pre-norm": {"norm_first": True},
}


def gradient_by_depth(depths: Sequence[int] = DEPTHS, seeds: int = 3) -> dict[str, dict[str, Tensor]]:
    """For each kind of stack, untrained, (depths, s) each: gradient_norm at the input, relative to the output, where it is 1;
    token_similarity, the mean cosine between different tokens of a sequence at the output (1: over-smoothing)."""
    results = {}
    for stack in STACKS:
        rows = [[gradient_and_similarity(stack, depth, seed) for seed in range(seeds)] for depth in depths]
        gradient_norm, token_similarity = torch.tensor(rows, dtype=torch.float64).unbind(-1)
        results[stack] = {"gradient_norm": gradient_norm, "token_similarity": token_similarity}
    return results


def gradient_and_similarity(stack: str, depth: int, seed: int) -> tuple[float, float]:
    """Of one encoder without a final norm, on random tokens (4, 10, 32) with a random gradient of the output.

    Double precision: the gradient of a plain stack of 32 layers is too small for single precision, and that of a residual
    one without norms too large.
    """
    with seeded(seed):
        encoder = TransformerEncoder(depth, 32, 4, 64, final_norm=False, **STACKS[stack]).double()
        x, output_gradient = (torch.randn(4, 10, 32, dtype=torch.float64) for _ in range(2))
    output, _ = encoder(x.requires_grad_())
    (gradient,) = torch.autograd.grad(output, x, output_gradient)
    unit = F.normalize(output.detach(), dim=-1)
    cosines, n = unit @ unit.mT, x.size(1)
    similarity = (cosines.sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).sum(1)).mean() / (n * (n - 1))
    return (gradient.norm() / output_gradient.norm()).item(), similarity.item()


# The identity

IDENTITY_DEPTHS = (1, 2, 4, 8, 16)
WIDTH = 16


class FeedForwardStack(nn.Module):
    """Feed-forward networks in sequence, x (..., WIDTH) to (..., WIDTH), with or without residual connections and pre-norm.

    Every layer can represent the identity: relu(x) - relu(-x) = x, and there are two hidden units for each component.
    """

    def __init__(self, depth: int, residual: bool, norm: bool = False):
        super().__init__()
        self.residual = residual
        self.layers = nn.ModuleList(FeedForward(WIDTH, 2 * WIDTH) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) if norm else nn.Identity() for _ in range(depth))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            update = layer(norm(x))
            x = x + update if self.residual else update
        return x, None


def squared_errors(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean((1, 2))


def vectors_to_copy(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, WIDTH, generator=generator)
    return x, x


@cached
def train_identity(residual: bool, seeds: int = 3, steps: int = 100) -> dict:
    """Train stacks to reproduce random vectors. Returns depths and error (depths, s), the mean squared error on new vectors
    relative to their mean square: 1 is no better than predicting 0."""
    test, errors = vectors_to_copy(1000, torch.Generator().manual_seed(77))[0], []
    for depth in IDENTITY_DEPTHS:
        model, parameters = train_seeds(
            lambda depth=depth: FeedForwardStack(depth, residual),
            vectors_to_copy,
            range(seeds),
            steps,
            learning_rate=5e-3,
            losses=squared_errors,
        )
        with torch.no_grad():
            output = call_models(model, parameters, test.expand(seeds, *test.shape))
        errors.append(squared_errors(output, test) / test.square().mean())
    return {"depths": list(IDENTITY_DEPTHS), "error": torch.stack(errors)}


# The loss surface

NUM_CLASSES, SURFACE_DEPTH = 3, 8


def spirals(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Noisy points (count, 2) on the three arms of a spiral, and the arm (count,) of each."""
    generator = torch.Generator().manual_seed(seed)
    arm = torch.arange(count) % NUM_CLASSES
    radius = 0.1 + 0.9 * torch.rand(count, generator=generator)
    angle = 4 * radius + 2 * torch.pi * arm / NUM_CLASSES + 0.1 * torch.randn(count, generator=generator)
    return 2 * radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1), arm


class SpiralClassifier(nn.Module):
    """Points (b, 2) to logits (b, 3) through a `FeedForwardStack` with norms."""

    def __init__(self, depth: int, residual: bool):
        super().__init__()
        self.in_proj = nn.Linear(2, WIDTH)
        self.stack = FeedForwardStack(depth, residual, norm=True)
        self.classifier = nn.Linear(WIDTH, NUM_CLASSES)

    def forward(self, points: Tensor) -> tuple[Tensor, None]:
        return self.classifier(self.stack(self.in_proj(points))[0]), None


def random_direction(parameters: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Filter-normalized random direction (Li et al., 2018, arXiv:1712.09913): every row has the norm of the row of weights that it is added
    to, and vectors stay as they are. Rescaling two layers against each other does not change a network; without the
    normalization it would change the surface."""
    direction = {}
    for name, parameter in parameters.items():
        step = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        if parameter.dim() < 2:
            direction[name] = torch.zeros_like(parameter)
        else:
            direction[name] = step * parameter.norm(dim=1, keepdim=True) / step.norm(dim=1, keepdim=True)
    return direction


@torch.no_grad()
def surface(
    model: nn.Module, parameters: dict[str, Tensor], inputs: Tensor, classes: Tensor, points: int, seed: int
) -> Tensor:
    """The loss (points, points) at parameters + a * first + b * second direction, a and b from -1 to 1.

    For an odd number of points the center is the loss of the model itself.
    """
    generator = torch.Generator().manual_seed(seed)
    first, second = (random_direction(parameters, generator) for _ in range(2))

    def loss_at(a: Tensor, b: Tensor) -> Tensor:
        moved = {name: center + a * first[name] + b * second[name] for name, center in parameters.items()}
        return F.cross_entropy(functional_call(model, moved, (inputs,))[0], classes)

    steps = torch.linspace(-1, 1, points)
    a, b = torch.meshgrid(steps, steps, indexing="ij")
    return vmap(loss_at, chunk_size=64)(a.flatten(), b.flatten()).view(points, points)


def count_local_minima(grid: Tensor) -> int:
    """The number of inner points of a grid (h, w) that are lower than all eight neighbors."""
    neighbors = F.unfold(grid[None, None], 3)[0]  # (9, inner points), the point itself in row 4
    center = neighbors[4].clone()
    neighbors[4] = torch.inf
    return int((center < neighbors.amin(0)).sum())


@cached
def loss_surface(residual: bool, seeds: int = 3, steps: int = 150, points: int = 31) -> dict:
    """Train `SpiralClassifier` with or without residual connections and evaluate the training loss around the solution.

    Returns grid (s, points, points), see `surface`; accuracy (s,) on new points; local_minima (s,), see
    `count_local_minima`: 1 is a single bowl.
    """
    model, parameters = stack_models(lambda: SpiralClassifier(SURFACE_DEPTH, residual), range(seeds))
    inputs, classes = spirals(240)
    batch = (inputs.expand(seeds, *inputs.shape), classes.expand(seeds, *classes.shape))
    train_models(model, parameters, [batch] * steps, learning_rate=4e-3)
    test_points, test_classes = spirals(1000, seed=1)
    grids = []
    for seed in range(seeds):
        trained = {name: parameter[seed].detach() for name, parameter in parameters.items()}
        grids.append(surface(model, trained, inputs, classes, points, seed))
    return {
        "grid": torch.stack(grids),
        "accuracy": accuracies(model, parameters, (test_points,), test_classes),
        "local_minima": [count_local_minima(grid) for grid in grids],
    }


# Pre-norm and post-norm


@cached
def train_norm_order(
    norm_first: bool, num_layers: int = 6, seeds: int = 3, *, learning_rate: float, steps: int, warmup_steps: int = 0
) -> dict:
    """Train a narrow `FormTagger` with pre-norm or post-norm, with linear warmup and then a constant learning rate.

    Returns loss (steps, s), accuracy (s,) on ambiguous test words, and baseline, the accuracy of the most frequent form.
    """
    data = form_data()
    model, parameters = stack_models(lambda: FormTagger(data, 4, num_layers, 32, norm_first), range(seeds))
    batches = form_batches(data, seeds, steps, batch_tokens=160)
    loss = train_models(model, parameters, batches, learning_rate, linear_warmup(warmup_steps))
    accuracy = [form_accuracy(model_at(model, parameters, index), data) for index in range(seeds)]
    return {"loss": loss, "accuracy": torch.tensor(accuracy), "baseline": baseline_accuracy(data)}

"""What the sums around each layer and the norms do for deep stacks, measured: gradients, the identity, the loss surface.

"Plain" is a stack without the sums: x, f(x), g(f(x)), ...; "residual" is one with them: x, x + f(x), ...
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from utils.models.encoder import Encoder, FeedForward, LayerNorm
from utils.training.cache import cached
from utils.training.heads import (
    SENTENCES,
    TESTED,
    FormTagger,
    accuracy_with,
    form_batches,
    form_data,
    model_of,
)
from utils.training.seeds import call_models, model_training_steps, seed_list, stack_models, train_models
from utils.training.trainer import linear_warmup, train, warmup_stable_decay

# Gradients against depth

DEPTHS = (1, 2, 4, 8, 16, 32)
# What `Encoder` is told for each kind of stack.
STACKS: dict[str, dict] = {
    "plain": {"norm": "none", "residual": False},
    "norm only": {"norm": "pre", "residual": False},
    "residual": {"norm": "none", "residual": True},
    "residual, post-norm": {"norm": "post", "residual": True},
    "residual, pre-norm": {"norm": "pre", "residual": True},
}


def _fresh_encoder(kind: str, depth: int, seed: int, dim: int, heads: int, batch: int, n: int):
    """An untrained encoder without a norm at its end, and random tokens (batch, n, dim), in double precision: the gradient
    of a plain stack of 32 layers is too small for single precision, and that of a residual one without norms too large."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(depth, dim, heads, 2 * dim, final_norm=False, **STACKS[kind]).double()
        x = torch.randn(batch, n, dim, dtype=torch.float64)
        probe = torch.randn(batch, n, dim, dtype=torch.float64)
    return encoder, x, probe


def gradient_by_layer(
    kind: str,
    depth: int = 32,
    seeds: int | Sequence[int] = 3,
    dim: int = 32,
    heads: int = 4,
    batch: int = 4,
    n: int = 10,
) -> dict[str, Tensor]:
    """How long the gradient is at the input of each layer, and how the tokens look there, in fresh encoders.

    Returns three tensors (depth + 1, s), the last row for the output: gradient, the length of the gradient of a random projection
    of the output, as a share of its length at the output (1 = as loud as where it started); alike, the mean cosine between
    different tokens of a sentence (1 = nobody can tell them apart); size, the root mean square of the components.
    """
    columns = []
    for seed in seed_list(seeds):
        encoder, x, probe = _fresh_encoder(kind, depth, seed, dim, heads, batch, n)
        states = [x.requires_grad_()]
        for layer in encoder.layers:
            states.append(layer(states[-1])[0])
        gradients = torch.autograd.grad((states[-1] * probe).sum(), states)
        columns.append(
            {
                "gradient": torch.stack([gradient.norm() for gradient in gradients]) / probe.norm(),
                "alike": torch.stack([_likeness(state) for state in states]),
                "size": torch.stack([state.square().mean().sqrt() for state in states]),
            }
        )
    return {name: torch.stack([one[name] for one in columns], 1).detach() for name in columns[0]}


def _likeness(x: Tensor) -> Tensor:
    """The mean cosine between different tokens of x (b, n, dim)."""
    unit = F.normalize(x, dim=-1)
    cosines = unit @ unit.transpose(1, 2)
    n = x.size(1)
    return (cosines.sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).sum(1)).mean() / (n * (n - 1))


def gradient_by_depth(
    depths: Sequence[int] = DEPTHS, seeds: int | Sequence[int] = 3, kinds: Sequence[str] = tuple(STACKS), **sizes
) -> dict[str, dict[str, Tensor]]:
    """For each kind of stack, against its depth (depths, s): gradient at the first input, alike and size at the output; see
    `gradient_by_layer`."""
    found = {}
    for kind in kinds:
        stacks = [gradient_by_layer(kind, depth, seeds, **sizes) for depth in depths]
        found[kind] = {
            name: torch.stack([one[name][place] for one in stacks])
            for name, place in (("gradient", 0), ("alike", -1), ("size", -1))
        }
    return found


# The identity

IDENTITY_DEPTHS = (1, 2, 4, 8, 16)


class Stack(nn.Module):
    """Feed-forward layers one after the other, x (..., dim) to (..., dim), with or without the sum around each of them.

    Each layer could pass its input on unchanged, since relu(x) - relu(-x) = x and it has two hidden units for each component.
    With `norm` each layer normalises what it reads.
    """

    def __init__(self, depth: int, dim: int, residual: bool, norm: bool = False):
        super().__init__()
        self.residual = residual
        self.layers = nn.ModuleList(FeedForward(dim, 2 * dim) for _ in range(depth))
        self.norms = nn.ModuleList(LayerNorm(dim) if norm else nn.Identity() for _ in range(depth))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            found = layer(norm(x))
            x = x + found if self.residual else found
        return x, None


@cached
def train_identity(
    residual: bool,
    depths: Sequence[int] = IDENTITY_DEPTHS,
    seeds: int | Sequence[int] = 3,
    *,
    norm: bool = False,
    dim: int = 16,
    steps: int = 100,
    batch: int = 64,
    rate: float = 5e-3,
) -> dict:
    """Teach stacks to give back what they get, random vectors: error (depths, s), the mean square of what is wrong on fresh
    ones, as a share of the mean square of the vectors: 1 = no better than always saying 0. loss (depths, steps, s)."""
    seeds = seed_list(seeds)
    fresh = torch.randn(1000, dim, generator=torch.Generator().manual_seed(77))
    errors, losses = [], []
    for depth in depths:
        model, parameters = stack_models(lambda depth=depth: Stack(depth, dim, residual, norm), seeds)
        losses.append(_learn_identity(model, parameters, seeds, steps, batch, dim, rate))
        with torch.no_grad():
            everyone = fresh.expand(len(seeds), *fresh.shape)
            wrong = call_models(model, parameters, everyone) - fresh
        errors.append(wrong.square().mean((1, 2)) / fresh.square().mean())
    return {
        "residual": residual,
        "depths": list(depths),
        "seeds": seeds,
        "error": torch.stack(errors),
        "loss": torch.stack(losses),
    }


def _learn_identity(
    model: nn.Module, parameters: dict[str, Tensor], seeds: Sequence[int], steps: int, batch: int, dim: int, rate: float
) -> Tensor:
    """Adam on the mean square, all seeds at once, in place; returns the loss (steps, s)."""
    own = [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]

    def loss_of_step(step: int) -> Tensor:
        x = torch.stack([torch.randn(batch, dim, generator=generator) for generator in own])
        return (call_models(model, parameters, x) - x).square().mean((1, 2))

    schedule = warmup_stable_decay(steps)
    return train(parameters.values(), loss_of_step, steps, learning_rate=rate, schedule=schedule, betas=(0.9, 0.98))


# The loss surface

ARMS, TURN = 3, 4.0


def spirals(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points (count, 2) on three arms of a spiral, a little scattered, and the arm (count,) that each is on."""
    generator = torch.Generator().manual_seed(seed)
    arm = torch.arange(count) % ARMS
    radius = 0.1 + 0.9 * torch.rand(count, generator=generator)
    angle = TURN * radius + 2 * torch.pi * arm / ARMS + 0.1 * torch.randn(count, generator=generator)
    return 2 * radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1), arm


class SpiralNet(nn.Module):
    """Points (b, 2) to logits (b, 3) through a `Stack` with norms."""

    def __init__(self, depth: int, dim: int, residual: bool):
        super().__init__()
        self.enter = nn.Linear(2, dim)
        self.stack = Stack(depth, dim, residual, norm=True)
        self.answer = nn.Linear(dim, ARMS)

    def forward(self, points: Tensor) -> tuple[Tensor, None]:
        return self.answer(self.stack(self.enter(points))[0]), None


def random_direction(parameters: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """A random step for every weight matrix; each row is as long as the row that it is added to, and vectors stay as they are.

    Without that a step of one length would be large for small weights and small for large ones, and since scaling two layers
    against each other changes nothing a net computes, the picture would show the scale and not the surface.
    """
    found = {}
    for name, parameter in parameters.items():
        step = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        if parameter.dim() < 2:
            found[name] = torch.zeros_like(parameter)
        else:
            found[name] = step * parameter.norm(dim=1, keepdim=True) / step.norm(dim=1, keepdim=True)
    return found


@torch.no_grad()
def surface(
    model: nn.Module,
    parameters: dict[str, Tensor],
    inputs: Tensor,
    classes: Tensor,
    *,
    span: float = 1.0,
    points: int = 31,
    seed: int = 0,
) -> Tensor:
    """The loss (points, points) on inputs and classes at parameters + a * one direction + b * another, a and b from -span to
    span. With an odd number of points the one in the middle is the loss of the model itself."""
    generator = torch.Generator().manual_seed(seed)
    one, other = (random_direction(parameters, generator) for _ in range(2))

    def loss_at(a: Tensor, b: Tensor) -> Tensor:
        moved = {name: start + a * one[name] + b * other[name] for name, start in parameters.items()}
        return F.cross_entropy(functional_call(model, moved, (inputs,))[0], classes)

    along = torch.linspace(-span, span, points)
    a, b = torch.meshgrid(along, along, indexing="ij")
    return vmap(loss_at, chunk_size=64)(a.flatten(), b.flatten()).view(points, points)


def valleys(grid: Tensor) -> int:
    """How many inner points of a grid (h, w) are lower than all eight around them."""
    h, w = grid.shape
    around = [
        grid[1 + down : h - 1 + down, 1 + right : w - 1 + right]
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if down or right
    ]
    return int((grid[1:-1, 1:-1] < torch.stack(around).amin(0)).sum())


@cached
def loss_surface(
    residual: bool,
    seeds: int | Sequence[int] = 3,
    *,
    depth: int = 8,
    dim: int = 16,
    steps: int = 150,
    count: int = 240,
    rate: float = 4e-3,
    span: float = 1.0,
    points: int = 31,
) -> dict:
    """Train nets with norms, with or without sums, on spirals, and look around where they ended.

    Returns grid (s, points, points), the training loss around each, see `surface`; along (points,), the steps; loss (s,) at the
    end; accuracy (s,) on fresh points; valleys (s,), see `valleys`: 1 is a single bowl; curve (steps, s), the loss in training.
    """
    seeds = seed_list(seeds)
    model, parameters = stack_models(lambda: SpiralNet(depth, dim, residual), seeds)
    inputs, classes = spirals(count)
    batch = (inputs.expand(len(seeds), *inputs.shape), classes.expand(len(seeds), *classes.shape))
    curve = train_models(model, parameters, [batch] * steps, rate)
    fresh, arms = spirals(1000, seed=1)
    grids, right = [], []
    for place, seed in enumerate(seeds):
        own = {name: one[place].detach() for name, one in parameters.items()}
        grids.append(surface(model, own, inputs, classes, span=span, points=points, seed=seed))
        with torch.no_grad():
            right.append((functional_call(model, own, (fresh,))[0].argmax(-1) == arms).float().mean())
    grid = torch.stack(grids)
    return {
        "residual": residual,
        "depth": depth,
        "seeds": seeds,
        "along": torch.linspace(-span, span, points),
        "grid": grid,
        "loss": grid[:, points // 2, points // 2].clone(),
        "accuracy": torch.stack(right),
        "valleys": [valleys(one) for one in grid],
        "curve": curve,
    }


# Where the norm stands


@cached
def train_norms(
    norm: str,
    layers: int = 6,
    seeds: int | Sequence[int] = 3,
    *,
    rate: float = 0.01,
    warmup: int = 0,
    dim: int = 32,
    heads: int = 4,
    steps: int = 100,
    tokens: int = 160,
    count: int = SENTENCES,
    tested: int = TESTED,
) -> dict:
    """Train `FormTagger` with pre-norm or post-norm: the rate rises in a straight line over `warmup` steps, then stays.

    Returns loss (steps, s) and accuracy (s,) on held-out words with several forms; usual, what the most frequent form gets.
    """
    seeds, data = seed_list(seeds), form_data(count, tested)
    model, parameters = stack_models(
        lambda: FormTagger(len(data.words), len(data.forms), heads, layers, dim, norm), seeds
    )
    batches = form_batches(data, seeds, steps, tokens)
    loss = torch.stack(list(model_training_steps(model, parameters, batches, steps, rate, linear_warmup(warmup))))
    found = [accuracy_with(model_of(model, parameters, place), None, data) for place in range(len(seeds))]
    return {
        "norm": norm,
        "layers": layers,
        "rate": rate,
        "warmup": warmup,
        "seeds": seeds,
        "loss": loss,
        "accuracy": torch.tensor([one["accuracy"] for one in found]),
        "usual": found[0]["usual"],
    }

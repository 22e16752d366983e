"""Scaling laws: how the loss of a causal language model falls with parameters, text and compute, as a power law.

    points = size_sweep(FAMILY, [NUM_TOKENS], seeds=3)      # the family, all on the same text
    law = power_law_fit([p["parameters"] for p in points], [p["loss"].mean() for p in points], irreducible=True)
    law.exponent, law.interval()                            # with its 95 % confidence interval
    law.predict(num_parameters(LARGER))                     # the loss of a model that has not been trained yet

Kaplan et al. (2020, arXiv:2001.08361) found power laws, some over seven orders of magnitude; Hoffmann et al. (2022, arXiv:2203.15556)
found that the best size grows as fast as the text. Here are two orders of magnitude, on a text that fits into memory.

What a fair comparison takes, here as there:

- learning rates. As Yang et al. (2022, arXiv:2203.03466) derive, a matrix inside a layer gets a learning rate inversely
  proportional to the width, and all else, the embedding first of all, one learning rate at every width.
- schedules. Every run has a schedule that ends at 0 when the run ends; a short run is not a long one, cut off.
- repetition. About as many tokens as the text has, from random windows, is most of it once. The benchmark repeats a short
  text, as often as helps on a validation set.
- what counts as a parameter. The embedding is left out of the parameters, as in Kaplan et al.; compute includes its use as
  the output layer, half of the total in the smallest models.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.bpe import CLS_ID
from utils.data.real_text import topics_file
from utils.models.language_models import CausalLM, EncoderConfig
from utils.training.cache import cached
from utils.training.pretraining import BETAS, MAX_NORM, corpus, init_output_bias, sample_windows
from utils.training.seeds import seeded
from utils.training.trainer import linear_warmup_cosine, train

# Power laws

EXPONENTS = (0.01, 3.0)  # the range that is searched, with an irreducible loss
COARSE, FINE = 96, 48  # steps of the search
NUM_DRAWS = 1000


class Prediction(NamedTuple):
    """The value of a law at some x, and the prediction interval of a new point."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PowerLaw:
    """irreducible_loss + coefficient x ** -exponent. scatter: the relative standard deviation of a point from the curve.

    draws (k, 4): bootstrap samples of the four numbers.
    """

    irreducible_loss: float
    coefficient: float
    exponent: float
    scatter: float
    draws: Tensor

    def at(self, x: float | Sequence[float] | Tensor) -> Tensor:
        return self.irreducible_loss + self.coefficient * torch.as_tensor(x, dtype=torch.float64) ** -self.exponent

    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the exponent."""
        return _interval(self.draws[:, 2])

    def band(self, x: Sequence[float] | Tensor) -> Tensor:
        """95 % confidence band of the curve: its lower and upper edge (2, ...) at each x."""
        return self._curves(x).quantile(EDGES, dim=0)

    def predict(self, x: float) -> Prediction:
        """A new point at x: its interval is wider than the band of the curve, since it scatters around it."""
        noise = torch.randn(len(self.draws), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return Prediction(self.at(x).item(), *_interval(self._curves(x) * (self.draws[:, 3] * noise).exp()))

    def _curves(self, x: float | Sequence[float] | Tensor) -> Tensor:
        """(draws, ...): the curve of each draw at each x."""
        x = torch.as_tensor(x, dtype=torch.float64)
        irreducible, coefficient, exponent, _ = (part.reshape(-1, *[1] * x.dim()) for part in self.draws.unbind(1))
        return irreducible + coefficient * x**-exponent


EDGES = torch.tensor([0.025, 0.975], dtype=torch.float64)


def _interval(values: Tensor) -> tuple[float, float]:
    low, high = values.quantile(EDGES).tolist()
    return low, high


def power_law_fit(x: Sequence[float] | Tensor, y: Sequence[float] | Tensor, irreducible: bool = False) -> PowerLaw:
    """Power law with the least squared relative errors, with an irreducible loss or without.

    Without one it is a straight line on logarithms. With one, the law is linear in irreducible loss and coefficient for any
    given exponent: solve for these and search the exponent.

    The uncertainty is a parametric bootstrap: noise on the curve, and the law fitted again. The size of the noise is estimated
    from few points, so it is drawn too. The draws know about scatter only, not about a wrong form of the law.
    """
    x, y = (torch.as_tensor(column, dtype=torch.float64) for column in (x, y))
    fit = _fit_irreducible if irreducible else _fit_line
    scale = x.log().mean().exp()  # powers of x / scale are neither huge nor tiny
    law = fit(x / scale, y[None])[0]
    curve = law[0] + law[1] * (x / scale) ** -law[2]
    degrees_of_freedom = len(x) - (3 if irreducible else 2)
    squares = (y / curve).log().square().sum()
    generator = torch.Generator().manual_seed(0)
    # The sum of squares over its true variance has a chi-square distribution.
    chi_square = torch.randn(NUM_DRAWS, degrees_of_freedom, generator=generator, dtype=torch.float64).square().sum(1)
    scatter = (squares / chi_square).sqrt()
    noise = torch.randn(NUM_DRAWS, len(x), generator=generator, dtype=torch.float64)
    laws = torch.cat([law[None], fit(x / scale, curve * (scatter[:, None] * noise).exp())])
    laws[:, 1] *= scale ** laws[:, 2]
    samples = torch.cat([laws[1:], scatter[:, None]], 1)
    return PowerLaw(*laws[0].tolist(), (squares / degrees_of_freedom).sqrt().item(), samples)


def _fit_line(x: Tensor, y: Tensor) -> Tensor:
    """x (n,) and y (k, n) to (k, 3): 0, coefficient, exponent, by linear regression of log y on log x."""
    x, y = x.log(), y.log()
    slope = ((x - x.mean()) * y).sum(1) / (x - x.mean()).square().sum()
    return torch.stack([torch.zeros_like(slope), (y.mean(1) - slope * x.mean()).exp(), -slope], 1)


def _fit_irreducible(x: Tensor, y: Tensor) -> Tensor:
    """x (n,) and y (k, n) to (k, 3): irreducible loss, coefficient, exponent. A coarse grid of exponents, then a fine one."""
    low, high = (math.log(end) for end in EXPONENTS)
    grid = torch.linspace(low, high, COARSE, dtype=torch.float64)
    laws, errors = _fit_for_exponents(x, y, grid.exp().expand(len(y), -1))
    width = (high - low) / (COARSE - 1)
    fine_grid = grid[errors.argmin(1)][:, None] + torch.linspace(-width, width, FINE, dtype=torch.float64)
    laws, errors = _fit_for_exponents(x, y, fine_grid.clamp(low, high).exp())
    return laws[torch.arange(len(y)), errors.argmin(1)]


def _fit_for_exponents(x: Tensor, y: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor]:
    """For y (k, n) and exponents (k, e): laws (k, e, 3) and their squared relative errors (k, e).

    irreducible + coefficient * power = y, divided by y: least squares with two unknowns. Irreducible losses below 0 become 0.
    """
    ones = (1 / y)[:, None]  # (k, 1, n)
    power = x ** -exponents[..., None] / y[:, None]  # (k, e, n)
    aa, ab, bb = ones.square().sum(-1), (ones * power).sum(-1), power.square().sum(-1)
    a, b = ones.sum(-1), power.sum(-1)
    irreducible = ((a * bb - b * ab) / (aa * bb - ab.square())).clamp_min(0)
    coefficient = (b - irreducible * ab) / bb
    errors = (irreducible[..., None] * ones + coefficient[..., None] * power - 1).square().sum(-1)
    return torch.stack([irreducible, coefficient, exponents], -1), errors


# The family of models

VOCAB_SIZE, LENGTH, BATCH_SIZE = 500, 64, 8  # a small vocabulary, so that most parameters and compute are in the layers
NUM_LAYERS, NUM_HEADS = 2, 4
EVAL_WINDOWS = 512  # of the validation and of the test set


def num_parameters(dim: int) -> int:
    """Of the layers and the final norm of a model of this width, without the embedding."""
    attention, feed_forward, norms = 4 * dim * (dim + 1), 8 * dim**2 + 5 * dim, 4 * dim
    return NUM_LAYERS * (attention + feed_forward + norms) + 2 * dim


def training_compute(dim: int, num_tokens: int) -> int:
    """Floating-point operations of training on so many tokens.

    6 for each parameter of a matrix and each token: a multiplication and an addition forward, and twice as many backward.
    Besides the layers there are the output layer and, in each layer, queries times keys and weights times values.
    """
    attention = 2 * NUM_LAYERS * LENGTH * dim
    return 6 * num_tokens * (num_parameters(dim) + VOCAB_SIZE * dim + attention)


# Widths: from 3,800 to 400,000 parameters, and one more than twice as large that no fit includes. Only the width grows: at
# this scale a further layer helps a narrow model less than width would, and a curve over mixed shapes has steps.
FAMILY, LARGER = (12, 20, 32, 48, 64, 96, 128), 192
NUM_TOKENS = 600_000  # the text has 620,000
WEIGHT_DECAY, WARMUP_RATIO = 0.1, 0.1


def learning_rates(dim: int, factor: float = 1.0) -> tuple[float, float]:
    """Peak learning rates: of the matrices inside the layers, and of all else."""
    return factor * 0.64 / dim, factor * 0.06


@dataclass(frozen=True)
class Text:
    """train (n,) token ids; validation and test (windows, LENGTH + 1), two parts of the text without training."""

    train: Tensor
    validation: Tensor
    test: Tensor


@functools.cache
def scaling_text(seed: int | None = None) -> Text:
    """The course's corpus with a small vocabulary; with a seed, its documents are shuffled, so that any prefix is a fair
    sample."""
    text = corpus(VOCAB_SIZE, LENGTH)
    train_part = text.train if seed is None else _shuffled(text.train, seed)
    return Text(train_part, text.held_out[0::2][:EVAL_WINDOWS], text.held_out[1::2][:EVAL_WINDOWS])


def _shuffled(token_ids: Tensor, seed: int) -> Tensor:
    """[CLS] text [SEP] [CLS] text [SEP] ... with the texts in another order."""
    starts = (token_ids == CLS_ID).nonzero().flatten().tolist()
    documents = [token_ids[a:b] for a, b in zip(starts, [*starts[1:], len(token_ids)], strict=True)]
    order = torch.randperm(len(documents), generator=torch.Generator().manual_seed(seed)).tolist()
    return torch.cat([documents[index] for index in order])


def build(dim: int, **options) -> CausalLM:
    """A causal language model of this width. options: of EncoderConfig."""
    return CausalLM(EncoderConfig(VOCAB_SIZE, dim, NUM_HEADS, num_layers=NUM_LAYERS, **options))


def parameter_groups(model: CausalLM, rates: tuple[float, float]) -> list[dict]:
    """The matrices inside the layers, with weight decay, and all else, each with a learning rate of its own."""
    matrices = [module.weight for module in model.encoder.modules() if isinstance(module, nn.Linear)]
    matrix_ids = {id(matrix) for matrix in matrices}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in matrix_ids]
    return [
        {"params": matrices, "lr": rates[0], "weight_decay": WEIGHT_DECAY},
        {"params": rest, "lr": rates[1], "weight_decay": 0.0},
    ]


def next_token_loss(model: CausalLM, windows: Tensor) -> Tensor:
    """The mean cross-entropy in nats of all tokens of the windows (b, n + 1) but the first."""
    return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


@torch.no_grad()
def evaluate(model: CausalLM, windows: Tensor) -> float:
    losses = [next_token_loss(model, batch).item() * len(batch) for batch in windows.split(64)]
    return sum(losses) / len(windows)


def train_and_evaluate(
    make: Callable[[], CausalLM], text: Text, seed: int, num_tokens: int, rates: tuple[float, float]
) -> dict:
    """Train a new model by lesson 07's recipe, with two learning rates. Returns its losses "validation" and "test", and
    num_tokens, in whole steps."""
    num_steps = max(1, round(num_tokens / (BATCH_SIZE * LENGTH)))
    with seeded(seed):
        model = make()
    init_output_bias(model, text.train.bincount(minlength=VOCAB_SIZE).float())
    generator = torch.Generator().manual_seed(10_000 + seed)
    train(
        model,
        lambda step: next_token_loss(model, sample_windows(text.train, LENGTH + 1, BATCH_SIZE, generator)),
        num_steps,
        schedule=linear_warmup_cosine(num_steps, WARMUP_RATIO),
        betas=BETAS,
        max_norm=MAX_NORM,
        parameter_groups=parameter_groups(model, rates),
    )
    return {
        "num_tokens": num_steps * BATCH_SIZE * LENGTH,
        "validation": evaluate(model, text.validation),
        "test": evaluate(model, text.test),
    }


@cached(data_files=lambda *_, **__: [topics_file()])
def scaling_run(dim: int, seed: int = 0, *, num_tokens: int = NUM_TOKENS, text_size: int | None = None) -> dict:
    """Train one model of the family on `num_tokens` tokens, from all the text or its first `text_size` tokens."""
    text = scaling_text(seed)
    text = Text(text.train[:text_size], text.validation, text.test)
    return train_and_evaluate(lambda: build(dim), text, seed, num_tokens, learning_rates(dim))


def size_sweep(widths: Sequence[int], budgets: Sequence[int], seeds: int) -> list[dict]:
    """Every width with every number of tokens: points with size, parameters, num_tokens, x (the compute) and loss (seeds,)."""
    points = []
    for dim, num_tokens in itertools.product(widths, budgets):
        runs = [scaling_run(dim, seed, num_tokens=num_tokens) for seed in range(seeds)]
        points.append(
            {
                "size": f"{NUM_LAYERS} x {dim}",
                "parameters": num_parameters(dim),
                "num_tokens": num_tokens,
                "x": float(training_compute(dim, runs[0]["num_tokens"])),
                "loss": torch.tensor([result["test"] for result in runs], dtype=torch.float64),
            }
        )
    return points


# Laws fitted to the stored sweeps

LAWS = {"with irreducible loss": True, "without": False}


def fitted_sweeps(result: dict) -> dict[str, dict]:
    """The stored result "scaling" for the figures of lesson 09: parameters, text and compute, each with x, loss (points, seeds),
    xlabel, and for both LAWS the law's curve with its band, and where there is one the prediction for a larger model. compute
    has other_runs: those above the frontier."""
    larger, longer, compute = result["larger"], result["longer"], result["compute"]
    fewest, most = min(result["data"]["epochs"]), max(result["data"]["epochs"])
    above = [point for point in compute["points"] if point not in compute["frontier"]]
    sweeps = {
        "parameters": {"xlabel": "parameters", **result["parameters"]},
        "text": {"xlabel": f"tokens of text,\neach seen {fewest} to {most} times", **result["data"]},
        "compute": {
            "xlabel": "compute in FLOP",
            "x": [point["x"] for point in compute["frontier"]],
            "loss": [[point["loss"]] for point in compute["frontier"]],
            "other_runs": ([point["x"] for point in above], [point["loss"] for point in above]),
        },
    }
    # A frontier is about the best use of compute: the better of the two large runs.
    best = min(zip(longer["x"], (larger["loss"], longer["loss"]), strict=True), key=lambda run: fmean(run[1]))
    held_out = {"parameters": (larger["x"], larger["loss"]), "compute": best}
    for name, sweep in sweeps.items():
        means = [fmean(losses) for losses in sweep["loss"]]
        for kind, irreducible in LAWS.items():
            law = power_law_fit(sweep["x"], means, irreducible)
            sweep[kind] = _drawn_law(law, sweep["x"], irreducible, held_out.get(name))
    return sweeps


def _drawn_law(law: PowerLaw, x: list[float], irreducible: bool, held_out: tuple[float, list[float]] | None) -> dict:
    ends = torch.tensor([min(x), held_out[0] if held_out else max(x)], dtype=torch.float64).log10().tolist()
    grid = torch.logspace(*ends, 60, dtype=torch.float64)
    low, high = law.band(grid)
    drawn = {
        "x": grid,
        "curve": law.at(grid),
        "low": low,
        "high": high,
        "scatter": law.scatter,
        "exponent": (law.exponent, *law.interval()),
        "irreducible_loss": law.irreducible_loss if irreducible else None,
    }
    if held_out is None:
        return {"law": drawn}
    x_new, measured = held_out
    return {"law": drawn, "held_out": {"x": x_new, **law.predict(x_new)._asdict(), "measured": measured}}

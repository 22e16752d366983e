"""How the loss of a language model falls with parameters, text and computing, and what that says about a larger one.

    curve = parameter_sweep(seeds=3)                        # the family, all on the same text
    law = power_law_fit(curve["x"], curve["loss"].mean(1), floor=True)
    law.exponent, law.interval()                            # how fast it falls, and how sure that is
    law.predict(LARGER.parameters)                          # the loss of a model that nobody has trained yet

Kaplan et al. (2020, arXiv:2001.08361) found power laws over seven orders of magnitude; Hoffmann et al. (2022, arXiv:2203.15556)
found that the best size grows as fast as the text. Here are two orders of magnitude, on a text that fits into memory.

What it takes to be fair, here as there:

- the learning rate. One that suits a small model wrecks a large one. As Yang et al. (2022, arXiv:2203.03466) derive, a matrix
  of a block gets a rate in inverse proportion to the width, and all else, the table of pieces first of all, one rate at every
  width. `rate_check` trains with half and twice of that to see what the rule costs.
- the schedule. Every run has a schedule of its own that ends at 0 when the run ends; a short run is not a long one, cut off.
- repetition. To read about as many pieces as the text has, from places drawn at random, is to read most of it once. Small
  models that read 1,200,000 pieces read it twice. `data_sweep` reads a little text many times, as often as helps on a part of
  the held-out text that is used for nothing else.
- what counts as a parameter. The table of pieces is left out of the parameters, as Kaplan et al. do; the computing includes
  its use as the output layer, which in the smallest models is half of it.
"""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.bpe import CLS_ID
from utils.data.real_text import topics_file
from utils.models.language import CausalLM
from utils.training.cache import cached
from utils.training.pretraining import BETAS, MAX_NORM, corpus, init_output_bias, sample_windows
from utils.training.trainer import linear_warmup_cosine, train

# --- power laws -------------------------------------------------------------------------------------------------

EXPONENTS = (0.01, 3.0)  # where an exponent is looked for, if there is a floor
COARSE, FINE = 96, 48


class Prediction(NamedTuple):
    """What a law says at some x, and between which values a new point will lie, with the probability that was asked for."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PowerLaw:
    """floor + amount x ** -exponent. scatter: the relative deviation of a point from the curve.

    draws (k, 4): floor, amount, exponent and scatter of the laws that other luck could have given.
    """

    floor: float
    amount: float
    exponent: float
    scatter: float
    draws: Tensor

    def at(self, x: float | Sequence[float] | Tensor) -> Tensor:
        """The curve at each x."""
        return self.floor + self.amount * torch.as_tensor(x, dtype=torch.float64) ** -self.exponent

    def interval(self, name: str = "exponent", level: float = 0.95) -> tuple[float, float]:
        """Where the floor, amount, exponent or scatter lies, with this probability."""
        return _between(self.draws[:, ("floor", "amount", "exponent", "scatter").index(name)], level)

    def band(self, x: float | Sequence[float] | Tensor, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Where the curve itself runs at each x, with this probability: its lower and upper edge."""
        edges = self._curves(x).quantile(_edges(level), dim=0)
        return edges[0], edges[1]

    def predict(self, x: float, level: float = 0.95, seed: int = 0) -> Prediction:
        """A new point at x. It is less sure than the curve, since it will not lie on it."""
        noise = torch.randn(len(self.draws), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        new = self._curves(x) * (self.draws[:, 3] * noise).exp()
        return Prediction(self.at(x).item(), *_between(new, level))

    def _curves(self, x: float | Sequence[float] | Tensor) -> Tensor:
        """(draws, ...): the curve of each draw at each x."""
        x = torch.as_tensor(x, dtype=torch.float64)
        floor, amount, exponent, _ = (part.reshape(-1, *[1] * x.dim()) for part in self.draws.unbind(1))
        return floor + amount * x**-exponent


def _edges(level: float) -> Tensor:
    return torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)


def _between(values: Tensor, level: float) -> tuple[float, float]:
    low, high = values.quantile(_edges(level)).tolist()
    return low, high


def power_law_fit(
    x: Sequence[float] | Tensor, y: Sequence[float] | Tensor, floor: bool = False, draws: int = 1000, seed: int = 0
) -> PowerLaw:
    """The law y = amount x ** -exponent, with a floor below it or without, that has the least squared relative errors.

    Without a floor it is a straight line through the logarithms. With one there is no formula for the exponent, but for any
    exponent the law is linear in floor and amount: solve for these, and look for the exponent that leaves the least.

    The uncertainty is a bootstrap: so many times noise is put on the curve, and the law fitted anew. How large the noise is has
    to be estimated as well, and from few points that is unsure; so its size too is drawn anew each time. The draws know about
    scatter only: if the truth is no such law, they do not know.
    """
    x, y = (torch.as_tensor(one, dtype=torch.float64) for one in (x, y))
    fit = _with_floor if floor else _straight
    middle = x.log().mean().exp()  # about 1, powers of x are neither huge nor tiny
    law = fit(x / middle, y[None])[0]
    curve = law[0] + law[1] * (x / middle) ** -law[2]
    free = len(x) - (3 if floor else 2)
    squares = (y / curve).log().square().sum()
    generator = torch.Generator().manual_seed(seed)
    # The sum of squares over its true size has a chi-square distribution: a sum of `free` squared normals.
    chances = torch.randn(draws, free, generator=generator, dtype=torch.float64).square().sum(1)
    sizes = (squares / chances).sqrt()
    noise = torch.randn(draws, len(x), generator=generator, dtype=torch.float64)
    others = fit(x / middle, curve * (sizes[:, None] * noise).exp())
    laws = torch.cat([law[None], others])
    laws[:, 1] *= middle ** laws[:, 2]
    return PowerLaw(*laws[0].tolist(), (squares / free).sqrt().item(), torch.cat([laws[1:], sizes[:, None]], 1))


def _straight(x: Tensor, y: Tensor) -> Tensor:
    """x (n,) and y (k, n) to (k, 3): floor 0, amount, exponent, by straight lines through the logarithms."""
    x, y = x.log(), y.log()
    slope = ((x - x.mean()) * y).sum(1) / (x - x.mean()).square().sum()
    return torch.stack([torch.zeros_like(slope), (y.mean(1) - slope * x.mean()).exp(), -slope], 1)


def _with_floor(x: Tensor, y: Tensor) -> Tensor:
    """x (n,) and y (k, n) to (k, 3): floor, amount, exponent. First over all exponents, then around the best again."""
    low, high = (math.log(end) for end in EXPONENTS)
    steps = torch.linspace(low, high, COARSE, dtype=torch.float64)
    laws, left = _for_exponents(x, y, steps.exp().expand(len(y), -1))
    width = (high - low) / (COARSE - 1)
    nearby = torch.linspace(-width, width, FINE, dtype=torch.float64)
    around = (steps[left.argmin(1)][:, None] + nearby).clamp(low, high).exp()
    laws, left = _for_exponents(x, y, around)
    return laws[torch.arange(len(y)), left.argmin(1)]


def _for_exponents(x: Tensor, y: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor]:
    """For y (k, n) and exponents (k, e): laws (k, e, 3), and the squared relative errors (k, e) that they leave.

    floor + amount power = y, with both sides over y: a linear problem with two unknowns. A loss below 0 there is not, so where
    the best floor is negative it is 0 instead.
    """
    one = (1 / y)[:, None]  # (k, 1, n)
    power = x ** -exponents[..., None] / y[:, None]  # (k, e, n)
    aa, ab, bb = one.square().sum(-1), (one * power).sum(-1), power.square().sum(-1)
    a, b = one.sum(-1), power.sum(-1)
    floor = (a * bb - b * ab) / (aa * bb - ab.square())
    floor = floor.clamp_min(0)
    amount = (b - floor * ab) / bb
    left = (floor[..., None] * one + amount[..., None] * power - 1).square().sum(-1)
    return torch.stack([floor, amount, exponents], -1), left


# --- the family -------------------------------------------------------------------------------------------------

PIECES, LENGTH, BATCH = 500, 64, 8  # few pieces, so that most parameters and most of the computing are in the blocks
HEADS = 4
SCORED = 512  # fragments of held-out text, for choosing and for telling alike


@dataclass(frozen=True)
class Size:
    """How deep and how wide a model is; all else follows."""

    layers: int
    dim: int

    @property
    def parameters(self) -> int:
        """Those of the blocks, with the norm behind them and without the table of pieces."""
        attention, feed_forward, norms = 4 * self.dim * (self.dim + 1), 8 * self.dim**2 + 5 * self.dim, 4 * self.dim
        return self.layers * (attention + feed_forward + norms) + 2 * self.dim

    def computing(self, read: int, pieces: int = PIECES, length: int = LENGTH) -> int:
        """Floating-point operations of training on so many pieces.

        Each parameter of a matrix takes a multiplication and an addition per piece, and the way back takes twice the way there:
        6 in all. Beside the blocks there is the output layer, and in each layer queries times keys and weights times values.
        """
        looking = 2 * self.layers * length * self.dim
        return 6 * read * (self.parameters + pieces * self.dim + looking)

    def build(self, pieces: int = PIECES) -> CausalLM:
        return CausalLM(pieces, self.dim, HEADS, layers=self.layers)

    def __str__(self) -> str:
        return f"{self.layers} x {self.dim}"


# From 3,800 to 400,000 parameters, and one more than twice as large that no fit is told about. Only the width grows: at this end
# of the scale a second layer does less for a narrow model than its parameters would do for the width, and a curve over mixed
# shapes has steps.
FAMILY = tuple(Size(2, dim) for dim in (12, 20, 32, 48, 64, 96, 128))
LARGER = Size(2, 192)
MIDDLE = Size(2, 64)
READ = 600_000  # pieces: the text has 620,000
READS = (75_000, 150_000, 300_000, 600_000, 1_200_000)  # after fewer, no size knows much
TEXTS = (6_000, 19_000, 60_000, 190_000, 600_000)
MOST_COMPUTING = FAMILY[-1].computing(READ)
FIRST_PASSES, MOST_PASSES, MOST_READ = 4, 64, 4 * READ
DECAY, WARMUP = 0.1, 0.1


def rates_for(dim: int, factor: float = 1.0) -> tuple[float, float]:
    """The highest learning rates of a run: of the matrices in the blocks, and of all else."""
    return factor * 0.64 / dim, factor * 0.06


@dataclass(frozen=True)
class Text:
    """train (n,) pieces; choosing and told (fragments, length + 1): two parts of the text that no model trains on."""

    train: Tensor
    choosing: Tensor
    told: Tensor


@functools.cache
def the_text(pieces: int = PIECES, seed: int | None = None, texts: int | None = None) -> Text:
    """The course's corpus in few pieces; with a seed, its documents in an order of their own, so that any beginning of it is a
    fair sample of the whole. `texts`: only so many documents of it."""
    found = corpus(pieces, LENGTH, texts)
    train = found.train if seed is None else _shuffled(found.train, seed)
    return Text(train, found.held_out[0::2][:SCORED], found.held_out[1::2][:SCORED])


def _shuffled(stream: Tensor, seed: int) -> Tensor:
    """[CLS] text [SEP] [CLS] text [SEP] ... with the texts in another order."""
    starts = (stream == CLS_ID).nonzero().flatten().tolist()
    documents = [stream[a:b] for a, b in zip(starts, [*starts[1:], len(stream)], strict=True)]
    order = torch.randperm(len(documents), generator=torch.Generator().manual_seed(seed)).tolist()
    return torch.cat([documents[place] for place in order])


def train_on(
    model: nn.Module, text: Tensor, steps: int, rates: tuple[float, float], seed: int, batch: int = BATCH
) -> list[float]:
    """Teach the model to continue the text (n,): lesson 07's recipe with two rates (`rates_for`). Returns each step's loss."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    matrices = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
    known = {id(one) for one in matrices}
    rest = [one for one in model.parameters() if id(one) not in known]
    groups = [
        {"params": matrices, "lr": rates[0], "weight_decay": DECAY},
        {"params": rest, "lr": rates[1], "weight_decay": 0.0},
    ]
    return train(
        model,
        lambda step: next_piece_loss(model, sample_windows(text, LENGTH + 1, batch, generator)),
        steps,
        schedule=linear_warmup_cosine(steps, WARMUP),
        betas=BETAS,
        max_norm=MAX_NORM,
        parameter_groups=groups,
    ).tolist()


def next_piece_loss(model: Callable[[Tensor], Tensor], fragments: Tensor) -> Tensor:
    """The mean surprise in nats of all pieces of the fragments (b, n + 1) but the first."""
    return F.cross_entropy(model(fragments[:, :-1]).flatten(0, 1), fragments[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(model: nn.Module, fragments: Tensor, together: int = 64) -> float:
    parts = [(next_piece_loss(model, part).item(), len(part)) for part in fragments.split(together)]
    return sum(loss * count for loss, count in parts) / len(fragments)


def fitted(
    build: Callable[[], nn.Module], text: Text, seed: int, steps: int, rates: tuple[float, float], pieces: int
) -> dict:
    """Train a fresh model. Returns choosing and held_out, its losses on the two parts, train, the mean loss of the last tenth
    of the steps, and seconds of processor time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build()
    init_output_bias(model, text.train.bincount(minlength=pieces).float())
    started = time.process_time()
    losses = train_on(model, text.train, steps, rates, seed)
    seconds = time.process_time() - started
    last = losses[-max(1, steps // 10) :]
    return {
        "choosing": held_out_loss(model, text.choosing),
        "held_out": held_out_loss(model, text.told),
        "train": sum(last) / len(last),
        "seconds": seconds,
    }


@cached(data_files=lambda *_, **__: [topics_file()])
def scaling_run(
    size: Size,
    seed: int = 0,
    *,
    read: int = READ,
    text: int | None = None,
    factor: float = 1.0,
    pieces: int = PIECES,
    texts: int | None = None,
) -> dict:
    """Train one model of the family on `read` pieces, drawn from all the text or from the first `text` pieces of it.

    factor: of the learning rates, over the rule's; texts: only so many documents, for trying. Returns parameters, read, text
    (pieces), computing, and what `fitted` returns.
    """
    found = the_text(pieces, seed, texts)
    if text is not None:
        found = Text(found.train[:text], found.choosing, found.told)
    steps = max(1, round(read / (BATCH * LENGTH)))
    return {
        "parameters": size.parameters,
        "read": steps * BATCH * LENGTH,
        "text": len(found.train),
        "computing": size.computing(steps * BATCH * LENGTH, pieces),
        **fitted(lambda: size.build(pieces), found, seed, steps, rates_for(size.dim, factor), pieces),
    }


# --- three sweeps -----------------------------------------------------------------------------------------------


def parameter_sweep(
    sizes: Sequence[Size] = FAMILY, seeds: int = 3, read: int = READ, run: Callable = scaling_run, **options
) -> dict:
    """Larger and larger models, all on the same pieces. Returns x (sizes,), their parameters, and loss (sizes, seeds)."""
    loss = [[run(size, seed, read=read, **options)["held_out"] for seed in range(seeds)] for size in sizes]
    return {
        "x": [size.parameters for size in sizes],
        "loss": torch.tensor(loss, dtype=torch.float64),
        "sizes": [str(size) for size in sizes],
        "read": read,
    }


def data_sweep(
    size: Size = MIDDLE,
    amounts: Sequence[int] = TEXTS,
    seeds: int = 3,
    most_read: int = MOST_READ,
    run: Callable = scaling_run,
    **options,
) -> dict:
    """One model on more and more text. Returns x (texts,), pieces of text, loss (texts, seeds), passes (texts,) and gap
    (texts, seeds): how much lower the loss is on the text that was trained on.

    The text is read `FIRST_PASSES` times, and twice as often again as long as that makes the mean of the choosing losses over
    the seeds better, up to `most_read` pieces in all. Every try is a whole run with its own schedule. The loss that is told is
    on the other part. Where `most_read` ended the tries, more reading might have helped still.
    """
    rows = [_best_passes(size, amount, seeds, most_read, run, options) for amount in amounts]
    return {
        "x": list(amounts),
        "loss": torch.tensor([[one["held_out"] for one in runs] for _, runs in rows], dtype=torch.float64),
        "gap": torch.tensor(
            [[one["held_out"] - one["train"] for one in runs] for _, runs in rows], dtype=torch.float64
        ),
        "passes": [passes for passes, _ in rows],
        "size": str(size),
    }


def _best_passes(
    size: Size, amount: int, seeds: int, most_read: int, run: Callable, options: dict
) -> tuple[int, list[dict]]:
    best, passes = None, FIRST_PASSES
    while best is None or (passes <= MOST_PASSES and passes * amount <= most_read):
        runs = [run(size, seed, read=passes * amount, text=amount, **options) for seed in range(seeds)]
        score = sum(one["choosing"] for one in runs)
        if best is not None and score >= best[0]:
            break
        best = score, passes, runs
        passes *= 2
    return best[1], best[2]


def computing_sweep(
    sizes: Sequence[Size] = FAMILY,
    reads: Sequence[int] = READS,
    seeds: int = 3,
    most: float = 1.01 * MOST_COMPUTING,
    run: Callable = scaling_run,
    **options,
) -> list[dict]:
    """Every size with every amount of reading that takes at most `most` operations.

    One point for each: size, parameters, read, x, the operations, and loss (seeds,).
    """
    points = []
    for size in sizes:
        for read in reads:
            if size.computing(read) <= most:
                runs = [run(size, seed, read=read, **options) for seed in range(seeds)]
                points.append(
                    {
                        "size": str(size),
                        "parameters": size.parameters,
                        "read": read,
                        "x": float(runs[0]["computing"]),
                        "loss": torch.tensor([one["held_out"] for one in runs], dtype=torch.float64),
                    }
                )
    return points


def frontier(points: Sequence[dict]) -> list[dict]:
    """The points of `computing_sweep` along the best of both, from the least computing to the most: those that a string touches
    which is pulled tight below all points, on logarithmic axes, from the least computing to the lowest loss.

    A power law is a straight line there, and one with a floor curves upwards, so on the string all points can lie on the law.
    """
    order = sorted(points, key=lambda one: (one["x"], one["loss"].mean().item()))
    places = [(math.log(one["x"]), math.log(one["loss"].mean().item())) for one in order]
    string: list[int] = []
    for place, (x, y) in enumerate(places):
        while len(string) > 1 and _turns_down(places[string[-2]], places[string[-1]], (x, y)):
            string.pop()
        if not string or x > places[string[-1]][0]:
            string.append(place)
    lowest = min(string, key=lambda place: places[place][1])
    return [order[place] for place in string if places[place][0] <= places[lowest][0]]


def _turns_down(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or above the straight line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0])


def rate_check(
    sizes: Sequence[Size],
    factors: Sequence[float] = (0.5, 1.0, 2.0),
    seed: int = 100,
    read: int = READ // 4,
    run: Callable = scaling_run,
    **options,
) -> dict:
    """What the rule for the learning rates costs: loss (sizes, factors) on the choosing part, with its rates times each."""
    loss = [[run(s, seed, read=read, factor=f, **options)["choosing"] for f in factors] for s in sizes]
    return {"sizes": [str(size) for size in sizes], "factors": list(factors), "loss": torch.tensor(loss)}


# --- for a lesson -----------------------------------------------------------------------------------------------


@cached(data_files=lambda *_, **__: [topics_file()])
def short_sweep(
    sizes: Sequence[Size] = FAMILY[:5],
    larger: Size = FAMILY[5],
    seeds: int = 1,
    read: int = 100_000,
    texts: int | None = None,
) -> dict:
    """`parameter_sweep` with a sixth of the training, and larger (seeds,): the losses of a model that the sweep leaves out."""
    run = scaling_run.__wrapped__
    found = parameter_sweep(sizes, seeds, read, run, texts=texts)
    larger_loss = [run(larger, seed, read=read, texts=texts)["held_out"] for seed in range(seeds)]
    return {**found, "larger": torch.tensor(larger_loss, dtype=torch.float64), "larger_x": larger.parameters}

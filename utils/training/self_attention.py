"""What self-attention can and cannot do, measured: the scale of its scores, the order of its tokens, and its linearity.

Small models are trained many seeds at once: `torch.func` gives every parameter the seed as a first axis and leaves the model
as it was written. Each seed has its own start and its own data, and learns exactly what it would learn alone.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from utils.models.attention import attend
from utils.models.positions import PastTheTable
from utils.models.self_attention import Block, FeedForward, SelfAttention, SequenceClassifier
from utils.training.cache import cached
from utils.training.seeds import accuracies, draw_batches, parameters_per_model, seed_list, stack_models, train_models

# Why the scores are divided by a root

DIMS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
QUERIES_PER_SET = 32


def softmax_slope(weights: Tensor) -> Tensor:
    """(...,): the size of the softmax's slope at weights (..., n), the Frobenius norm of diag(w) - w w^T.

    It is 0 where one weight is 1: then no score can change anything, and nothing is learned.
    """
    second, third = weights.square().sum(-1), weights.pow(3).sum(-1)
    return (second - 2 * third + second.square()).clamp_min(0).sqrt()


@torch.no_grad()
def score_statistics(dims: Sequence[int] = DIMS, keys: int = 64, samples: int = 2048, seed: int = 0) -> dict:
    """Random queries against random keys, all components standard normal, for each width in `dims`.

    Returns dims and two tables, "raw" and "scaled" (divided by the root of the width), each with one number per width:
    variance of the scores; and over `samples` queries: mean entropy of the weights, in nats and as a share of its largest
    value, log(keys); mean largest weight; slope and median_slope, of `softmax_slope`; stuck, the share of queries with a slope
    below 0.01; free, the mean of 1 minus the sum of squared weights: the sum of the slopes of each weight in its own score.

    Without the root the slope first rises: a softmax between two keys is steeper than one between 64. Then it falls to 0.
    """
    generator = torch.Generator().manual_seed(seed)
    sets = math.ceil(samples / QUERIES_PER_SET)
    tables = {"raw": [], "scaled": []}
    for dim in dims:
        query = torch.randn(sets, QUERIES_PER_SET, dim, generator=generator)
        key = torch.randn(sets, keys, dim, generator=generator)
        raw = query @ key.transpose(1, 2)
        for name, scores in (("raw", raw), ("scaled", raw / dim**0.5)):
            tables[name].append(_statistics_of(scores.double()))  # slopes near 0 would cancel in float32
    return {
        "dims": list(dims),
        "keys": keys,
        **{name: {key: torch.tensor([row[key] for row in rows]) for key in rows[0]} for name, rows in tables.items()},
    }


def _statistics_of(scores: Tensor) -> dict[str, float]:
    weights = scores.softmax(-1)
    entropy = torch.special.entr(weights).sum(-1).mean().item()
    slope = softmax_slope(weights)
    return {
        "variance": scores.var().item(),
        "entropy": entropy,
        "entropy_share": entropy / math.log(scores.size(-1)),
        "largest": weights.amax(-1).mean().item(),
        "slope": slope.mean().item(),
        "median_slope": slope.median().item(),
        "stuck": (slope < 0.01).float().mean().item(),
        "free": (1 - weights.square().sum(-1)).mean().item(),
    }


# Order: does A come before B?

LETTERS, FIRST, SECOND = 8, 0, 1  # A, B and six letters that mean nothing
SHORTEST, LENGTH = 8, 16
TEST_LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96)
SHIFTS = (0, 4, 16, 50, 100, 1000)
TEST_SEED, MANY, SOME = 77, 500, 100  # pairs of twins: for the accuracy, and for each length and shift


def order_sequences(
    count: int, shortest: int, longest: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences with one A and one B among other letters: tokens (count, longest), real (count, longest) bool, False =
    padding, and the class (count,): 1 if A stands before B. Half of them do. Half of them have the longest length, so that the
    last positions are not rare."""
    lengths = torch.randint(shortest, longest + 1, (count, 1), generator=generator)
    lengths = torch.where(torch.rand(count, 1, generator=generator) < 0.5, longest, lengths)
    tokens = torch.randint(2, LETTERS, (count, longest), generator=generator)
    real = torch.arange(longest) < lengths
    # The two smallest of random numbers stand at two different random places.
    places = torch.rand(count, longest, generator=generator).masked_fill(~real, 2.0).topk(2, largest=False).indices
    places = torch.where(torch.rand(count, 1, generator=generator) < 0.5, places, places.flip(1))
    tokens.scatter_(1, places, torch.tensor([FIRST, SECOND]).expand(count, 2))
    return tokens, real, (places[:, 0] < places[:, 1]).long()


def with_twins(tokens: Tensor, real: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each sequence, and the same one with A and B exchanged. Who does not see the order is right exactly half the time."""
    swapped = torch.where(tokens == FIRST, SECOND, torch.where(tokens == SECOND, FIRST, tokens))
    return torch.cat([tokens, swapped]), torch.cat([real, real]), torch.cat([classes, 1 - classes])


@cached
def train_order(
    kind: str,
    seeds: int | Sequence[int] = 5,
    length: int = LENGTH,
    *,
    way: str = "add",
    dim: int = 32,
    place_dim: int | None = None,
    hidden: int = 64,
    steps: int = 300,
    batch: int = 64,
    rate: float = 0.01,
    lengths: Sequence[int] = TEST_LENGTHS,
    shifts: Sequence[int] = SHIFTS,
) -> dict:
    """Train classifiers to tell whether A comes before B, at lengths from 8 to `length`; chance is 50 %.

    kind: "none", "sinusoidal", "learned", "rotary", or "causal", which is no positions and a causal mask.
    Returns for each seed: accuracy (s,) on held-out sequences of the lengths trained on; by_length (lengths, s), where NaN
    means that the model refuses; by_shift (shifts, s), the accuracy at `length` when the positions do not start at 0 but at so
    many; loss (steps, s); parameters, the number of them; refusal, what a model said that refused.
    """
    seeds, shortest = seed_list(seeds), min(SHORTEST, length)

    def make() -> nn.Module:
        return SequenceClassifier(LETTERS, 2, dim, hidden, kind, length, way, place_dim)

    def draw(count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return order_sequences(count, shortest, length, generator)

    model, parameters = stack_models(make, seeds)
    loss = train_models(model, parameters, draw_batches(draw, seeds, steps, batch), rate)

    refusals = []

    def score(test: tuple[Tensor, ...], start: int = 0) -> Tensor:
        try:
            return accuracies(model, parameters, test[:-1], test[-1], start=start)
        except PastTheTable as refusal:
            refusals.append(str(refusal))
            return torch.full((len(seeds),), math.nan)

    def test_set(count: int, shortest: int, longest: int) -> tuple[Tensor, ...]:
        return with_twins(
            *order_sequences(count, shortest, longest, torch.Generator().manual_seed(TEST_SEED + longest))
        )

    same_length = test_set(SOME, length, length)
    by_length = [score(test_set(SOME, one, one)) for one in lengths]
    by_shift = [score(same_length, shift) for shift in shifts]
    return {
        "kind": kind,
        "way": way,
        "seeds": seeds,
        "accuracy": score(test_set(MANY, shortest, length)),
        "lengths": list(lengths),
        "by_length": torch.stack(by_length) if by_length else torch.zeros(0, len(seeds)),
        "shifts": list(shifts),
        "by_shift": torch.stack(by_shift) if by_shift else torch.zeros(0, len(seeds)),
        "loss": loss,
        "parameters": parameters_per_model(parameters),
        "refusal": refusals[0] if refusals else "",
    }


# (name, way, width of the embedding, width of the position): the second as wide as the first, the third as the sum.
COMBINATIONS = (
    ("added", "add", 32, None),
    ("beside, same width", "concatenate", 16, 16),
    ("beside, twice the width", "concatenate", 32, 32),
)


def add_or_concatenate(kind: str = "sinusoidal", seeds: int | Sequence[int] = 5, **options) -> list[dict]:
    """Rows with name, parameters and accuracy (s,): positions added to the embeddings, and put beside them."""
    rows = []
    for name, way, dim, place_dim in COMBINATIONS:
        found = train_order(kind, seeds, way=way, dim=dim, place_dim=place_dim, **options)
        rows.append({"name": name, "parameters": found["parameters"], "accuracy": found["accuracy"]})
    return rows


# Non-linearity


@torch.no_grad()
def linearity(n: int = 6, dim: int = 8, seed: int = 0) -> dict[str, float]:
    """How far the sum of two outputs is from the output of the sum, at most over all components; 0 = linear.

    "values": the weights are held fixed, the values are added; "feed-forward": the same with a feed-forward layer behind;
    "inputs": the layer as it is, so that the weights change with the input.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer, think = SelfAttention(dim).double(), FeedForward(dim, 4 * dim).double()
        x, y = torch.randn(2, n, dim, dtype=torch.float64)
        scores = torch.randn(n, n, dtype=torch.float64)

    def gap(function: Callable[[Tensor], Tensor]) -> float:
        nothing = function(torch.zeros_like(x))  # a constant part is no matter of linearity
        return (function(x) + function(y) - nothing - function(x + y)).abs().max().item()

    return {
        "values": gap(lambda value: attend(scores, value)[0]),
        "feed-forward": gap(lambda value: think(attend(scores, value)[0])),
        "inputs": gap(lambda both: layer(both)[0]),
    }


class MarkReader(nn.Module):
    """A reading token looks at bits, two of which are marked; does one of them differ from the other?

    bits (b, n) of 0 and 1, marked (b, n) bool. The reading token attends to the two marked bits only. `hidden=0` leaves the
    feed-forward layer out.
    """

    def __init__(self, dim: int = 16, hidden: int = 64):
        super().__init__()
        self.table = nn.Embedding(2, dim)
        self.mark = nn.Parameter(torch.randn(dim))
        # From zero, so that training starts with equal weights. From a random start most seeds first learn to look at one kind
        # of bit only, and never leave: whoever sees a 1 alone no longer knows whether there were two.
        self.reader = nn.Parameter(torch.zeros(dim))
        self.block, self.answer = Block(dim, hidden), nn.Linear(dim, 2)

    def forward(self, bits: Tensor, marked: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (b, 2) and the reading token's weights (b, n) on the bits."""
        x = self.table(bits) + marked.unsqueeze(-1) * self.mark
        reader = self.reader.expand(*x.shape[:-2], 1, x.size(-1))
        seen = torch.cat([torch.zeros_like(marked[..., :1]), marked], -1)  # the reader does not attend to itself
        x, weights = self.block(torch.cat([reader, x], -2), seen.unsqueeze(-2))
        return self.answer(x[..., 0, :]), weights[..., 0, 1:]


def marked_bits(count: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """bits (count, n), marked (count, n) bool with two True each, and the class: 1 if the two marked bits differ."""
    bits = torch.randint(0, 2, (count, n), generator=generator)
    places = torch.rand(count, n, generator=generator).topk(2).indices
    marked = torch.zeros(count, n, dtype=torch.bool).scatter(1, places, True)
    return bits, marked, (bits * marked).sum(1) % 2


def all_four(bits: Tensor, marked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each sequence (count, n) four times, with all four pairs of marked bits: then 75 % is exactly three pairs of four."""
    places = marked.int().topk(2).indices
    pairs = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    every = torch.cat([bits.scatter(1, places, pair.expand(len(bits), 2)) for pair in pairs])
    marked = marked.repeat(4, 1)
    return every, marked, (every * marked).sum(1) % 2


@cached
def train_marks(
    feed_forward: bool,
    seeds: int | Sequence[int] = 5,
    *,
    n: int = 8,
    dim: int = 16,
    steps: int = 200,
    batch: int = 64,
    rate: float = 0.01,
) -> dict:
    """Do the two marked bits differ? With and without the feed-forward layer. Returns accuracy (s,) on fresh sequences,
    loss (steps, s) and parameters, the number of them.

    Attention alone cannot be right more often than 75 %: what the reading token finds for
    one 0 and one 1 lies on the line between what it finds for two of each, and a linear answer cannot single out the middle.
    """
    seeds = seed_list(seeds)
    model, parameters = stack_models(lambda: MarkReader(dim, 4 * dim if feed_forward else 0), seeds)

    def draw(count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return marked_bits(count, n, generator)

    loss = train_models(model, parameters, draw_batches(draw, seeds, steps, batch), rate)
    *inputs, classes = all_four(*draw(500, torch.Generator().manual_seed(TEST_SEED))[:2])
    return {
        "feed_forward": feed_forward,
        "seeds": seeds,
        "accuracy": accuracies(model, parameters, tuple(inputs), classes),
        "loss": loss,
        "parameters": parameters_per_model(parameters),
    }

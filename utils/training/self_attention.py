"""Experiments on single-head self-attention: the scaling of the scores, word order, and nonlinearity.

All seeds of an experiment are trained at once, with `utils.training.seeds`. s seeds, b sequences, n tokens.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from utils.models.attention import SelfAttention, attend, causal_mask
from utils.models.language_models import mean_pooling
from utils.models.layers import Embedding, EncoderLayer, FeedForward
from utils.models.positions import MaxLengthError, rotary_embedding, sinusoidal_positions
from utils.training.cache import cached
from utils.training.seeds import accuracies, draw_batches, parameters_per_model, seed_list, stack_models, train_models

# Scaled dot products

DIMS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
NUM_KEYS, QUERIES_PER_SET = 64, 32
SATURATED = 0.01  # a softmax whose Jacobian has a smaller norm passes hardly any gradient


def softmax_jacobian_norm(weights: Tensor) -> Tensor:
    """Frobenius norm (...,) of the softmax's Jacobian, diag(w) - w w^T, at weights (..., n).

    It is 0 where one weight is 1: then no gradient reaches the scores.
    """
    second, third = weights.square().sum(-1), weights.pow(3).sum(-1)
    return (second - 2 * third + second.square()).clamp_min(0).sqrt()


@torch.no_grad()
def score_statistics(dims: Sequence[int] = DIMS, num_samples: int = 2048) -> dict:
    """Dot-product scores of standard normal queries and keys, with and without the division by the square root of d_k.

    Returns dims and two dicts, "raw" and "scaled", with an entry for each d_k: variance of the scores; normalized_entropy of
    the attention weights (1: uniform); jacobian_norm, its median; saturated, the fraction of queries below `SATURATED`.
    """
    generator = torch.Generator().manual_seed(0)
    sets = math.ceil(num_samples / QUERIES_PER_SET)
    rows = {"raw": [], "scaled": []}
    for dim in dims:
        query = torch.randn(sets, QUERIES_PER_SET, dim, generator=generator)
        key = torch.randn(sets, NUM_KEYS, dim, generator=generator)
        raw = query @ key.transpose(1, 2)
        for name, scores in (("raw", raw), ("scaled", raw / dim**0.5)):
            weights = scores.double().softmax(-1)  # in float32 a small norm would cancel
            norm = softmax_jacobian_norm(weights)
            rows[name].append(
                {
                    "variance": scores.double().var().item(),
                    "normalized_entropy": torch.special.entr(weights).sum(-1).mean().item() / math.log(NUM_KEYS),
                    "jacobian_norm": norm.median().item(),
                    "saturated": (norm < SATURATED).float().mean().item(),
                }
            )
    tables = {
        name: {key: torch.tensor([row[key] for row in table]) for key in table[0]} for name, table in rows.items()
    }
    return {"dims": list(dims), **tables}


# Word order: does A come before B?

VOCAB_SIZE, A, B = 8, 0, 1  # A, B and six letters without meaning
MIN_LEN, MAX_LEN = 8, 16
TEST_LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96)
SHIFTS = (0, 4, 16, 50, 100, 1000)
TEST_SEED, NUM_TEST, NUM_TEST_EACH = 77, 500, 100  # pairs for the accuracy, and for each length and shift


def order_sequences(
    count: int, min_len: int, max_len: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Order task: token_ids (count, max_len) with one A and one B each, attention_mask, and labels (count,), 1 if A comes first.

    Half of the sequences have the maximum length, so that the last positions are not rare.
    """
    lengths = torch.randint(min_len, max_len + 1, (count, 1), generator=generator)
    lengths = torch.where(torch.rand(count, 1, generator=generator) < 0.5, max_len, lengths)
    token_ids = torch.randint(2, VOCAB_SIZE, (count, max_len), generator=generator)
    attention_mask = torch.arange(max_len) < lengths
    # The two smallest of random numbers are at two different random positions.
    draws = torch.rand(count, max_len, generator=generator).masked_fill(~attention_mask, 2.0)
    positions = draws.topk(2, largest=False).indices
    positions = torch.where(torch.rand(count, 1, generator=generator) < 0.5, positions, positions.flip(1))
    token_ids.scatter_(1, positions, torch.tensor([A, B]).expand(count, 2))
    return token_ids, attention_mask, (positions[:, 0] < positions[:, 1]).long()


def minimal_pairs(token_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every sequence also with A and B swapped. A model that ignores the order scores exactly 50 %."""
    swapped = torch.where(token_ids == A, B, torch.where(token_ids == B, A, token_ids))
    return torch.cat([token_ids, swapped]), attention_mask.repeat(2, 1), torch.cat([labels, 1 - labels])


class OrderClassifier(nn.Module):
    """Embedding, one encoder layer with a single head and without norms, mean pooling, and a linear classifier.

    positions: as in `Embedding`; "causal", none but a causal mask; "concatenated", sinusoids concatenated to the embeddings
    instead of added, which doubles the width of the layer.
    """

    def __init__(self, dim: int, hidden_dim: int, positions: str, max_len: int):
        super().__init__()
        self.dim, self.positions = dim, positions
        learned, added = positions == "learned", positions in ("sinusoidal", "learned")
        self.embedding = Embedding(
            VOCAB_SIZE,
            dim,
            positions=positions if added else "none",
            scale=False,
            max_len=max_len if learned else None,
        )
        width = 2 * dim if positions == "concatenated" else dim
        self.layer = EncoderLayer(width, 1, hidden_dim, norm_first=True, norm="none", self_attn=SelfAttention(width))
        self.head = nn.Linear(width, 2)

    def forward(self, token_ids: Tensor, attention_mask: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
        """token_ids (b, n) to logits (b, 2) and attention weights (b, n, n). start: the position of the first token."""
        x, mask, rotation = self.embedding(token_ids, start), attention_mask.unsqueeze(-2), None
        n = token_ids.size(-1)
        if self.positions == "concatenated":
            sinusoids = sinusoidal_positions(n, self.dim, start=start).to(x.dtype)
            x = torch.cat([x, sinusoids.expand(x.shape)], -1)
        elif self.positions == "rotary":
            rotation = rotary_embedding(torch.arange(start, start + n), self.dim, dtype=x.dtype)
        elif self.positions == "causal":
            mask = mask & causal_mask(n)
        x, weights = self.layer(x, mask, need_weights=True, rotation=rotation)
        return self.head(mean_pooling(x, attention_mask)), weights


@cached
def train_order(
    positions: str,
    seeds: int | Sequence[int] = 5,
    *,
    max_len: int = MAX_LEN,
    dim: int = 32,
    num_steps: int = 300,
    batch_size: int = 64,
    lengths: Sequence[int] = TEST_LENGTHS,
    shifts: Sequence[int] = SHIFTS,
) -> dict:
    """Train `OrderClassifier`s on the order task, up to max_len tokens from position 0; chance is 50 %.

    Returns accuracy (s,) on held-out sequences of the training lengths; by_length (lengths, s); by_shift (shifts, s), at
    max_len, with positions that start at the shift; loss (num_steps, s); parameters. NaN: past the learned positions.
    """
    seeds, min_len = seed_list(seeds), min(MIN_LEN, max_len)
    model, parameters = stack_models(lambda: OrderClassifier(dim, 64, positions, max_len), seeds)

    def draw(count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return order_sequences(count, min_len, max_len, generator)

    loss = train_models(model, parameters, draw_batches(draw, seeds, num_steps, batch_size), 0.01)

    def accuracy(count: int, min_len: int, max_len: int, start: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(TEST_SEED + max_len)
        *inputs, labels = minimal_pairs(*order_sequences(count, min_len, max_len, generator))
        try:
            return accuracies(model, parameters, tuple(inputs), labels, start=start)
        except MaxLengthError:
            return torch.full((len(seeds),), math.nan)

    return {
        "accuracy": accuracy(NUM_TEST, min_len, max_len),
        "lengths": list(lengths),
        "by_length": torch.stack([accuracy(NUM_TEST_EACH, length, length) for length in lengths]),
        "shifts": list(shifts),
        "by_shift": torch.stack([accuracy(NUM_TEST_EACH, max_len, max_len, shift) for shift in shifts]),
        "loss": loss,
        "parameters": parameters_per_model(parameters),
    }


def add_or_concatenate(seeds: int | Sequence[int] = 5) -> list[dict]:
    """Sinusoidal positions added to the embeddings or concatenated with them: rows of name, parameters, accuracy (s,)."""
    variants = (
        ("added", "sinusoidal", 32),
        ("concatenated, same width", "concatenated", 16),
        ("concatenated, twice the width", "concatenated", 32),
    )
    results = {name: train_order(positions, seeds, dim=dim) for name, positions, dim in variants}
    return [
        {"name": name, "parameters": result["parameters"], "accuracy": result["accuracy"]}
        for name, result in results.items()
    ]


# Nonlinearity


@torch.no_grad()
def linearity_errors(n: int = 6, dim: int = 8) -> dict[str, float]:
    """Largest component of f(x) + f(y) - f(0) - f(x + y), 0 for an affine f.

    "values": attention with fixed weights, as a function of the values; "feed-forward": with a feed-forward network behind it;
    "inputs": self-attention as a function of its input, on which the attention weights depend too.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer, feed_forward = SelfAttention(dim).double(), FeedForward(dim, 4 * dim).double()
        x, y = torch.randn(2, n, dim, dtype=torch.float64)
        scores = torch.randn(n, n, dtype=torch.float64)

    def error(f: Callable[[Tensor], Tensor]) -> float:
        return (f(x) + f(y) - f(torch.zeros_like(x)) - f(x + y)).abs().max().item()

    return {
        "values": error(lambda value: attend(scores, value)[0]),
        "feed-forward": error(lambda value: feed_forward(attend(scores, value)[0])),
        "inputs": error(lambda inputs: layer(inputs)[0]),
    }


class XorClassifier(nn.Module):
    """XOR of two marked bits: a [CLS] token attends to them; a feed-forward network (or none) and a linear layer classify.

    The [CLS] token is initialized to zero, for uniform attention weights. From a random initialization most seeds get stuck
    attending to one value of the bits only, and a single 1 does not tell whether there were two.
    """

    def __init__(self, dim: int, feed_forward: bool):
        super().__init__()
        self.embedding = nn.Embedding(2, dim)
        self.mark_embedding = nn.Parameter(torch.randn(dim))
        self.cls_token = nn.Parameter(torch.zeros(dim))
        self.self_attn = SelfAttention(dim)
        self.feed_forward = FeedForward(dim, 4 * dim) if feed_forward else None
        self.head = nn.Linear(dim, 2)

    def forward(self, bits: Tensor, marked: Tensor) -> tuple[Tensor, Tensor]:
        """bits (b, n) of 0 and 1, marked (b, n) bool, to logits (b, 2) and the attention weights of [CLS] (b, n)."""
        x = self.embedding(bits) + marked.unsqueeze(-1) * self.mark_embedding
        x = torch.cat([self.cls_token.expand(*x.shape[:-2], 1, x.size(-1)), x], -2)
        mask = torch.cat([torch.zeros_like(marked[..., :1]), marked], -1)  # [CLS] does not attend to itself
        context, weights = self.self_attn(x, mask.unsqueeze(-2))
        x = x + context
        if self.feed_forward is not None:
            x = x + self.feed_forward(x)
        return self.head(x[..., 0, :]), weights[..., 0, 1:]


def marked_bits(count: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """XOR task: bits (count, n), marked (count, n) bool with two True each, and labels, 1 if the two marked bits differ."""
    bits = torch.randint(0, 2, (count, n), generator=generator)
    positions = torch.rand(count, n, generator=generator).topk(2).indices
    marked = torch.zeros(count, n, dtype=torch.bool).scatter(1, positions, True)
    return bits, marked, (bits * marked).sum(1) % 2


def all_bit_pairs(bits: Tensor, marked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every sequence (count, n) with each of the four pairs of marked bits: then 75 % is exactly three pairs of four."""
    positions = marked.int().topk(2).indices
    pairs = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    bits = torch.cat([bits.scatter(1, positions, pair.expand(len(bits), 2)) for pair in pairs])
    marked = marked.repeat(4, 1)
    return bits, marked, (bits * marked).sum(1) % 2


@cached
def train_xor(feed_forward: bool, seeds: int | Sequence[int] = 5, *, num_steps: int = 200) -> dict:
    """Train `XorClassifier`s with and without the feed-forward network: accuracy (s,) on held-out sequences, loss (num_steps, s),
    and parameters.

    Attention alone reaches 75 % at most: XOR is not linearly separable. The context of one 0 and one
    1 lies between the contexts of two zeros and of two ones, and a linear classifier cannot single out the middle.
    """
    seeds = seed_list(seeds)
    model, parameters = stack_models(lambda: XorClassifier(16, feed_forward), seeds)

    def draw(count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return marked_bits(count, 8, generator)

    loss = train_models(model, parameters, draw_batches(draw, seeds, num_steps, 64), 0.01)
    bits, marked, labels = all_bit_pairs(*draw(500, torch.Generator().manual_seed(TEST_SEED))[:2])
    return {
        "accuracy": accuracies(model, parameters, (bits, marked), labels),
        "loss": loss,
        "parameters": parameters_per_model(parameters),
    }

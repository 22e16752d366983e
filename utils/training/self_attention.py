"""Single-head self-attention (Vaswani et al., 2017, arXiv:1706.03762): the scaling of the scores, word order, nonlinearity.

All seeds of an experiment are trained at once, with `utils.training.seeds`. s seeds, b sequences, n tokens.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from utils.models.attention import SelfAttention, attend, causal_mask
from utils.models.language_models import mean_pooling
from utils.models.layers import Embedding, EncoderLayer, FeedForward
from utils.models.positions import MaxLengthError, rotary_embedding
from utils.training.cache import cached
from utils.training.seeds import accuracies, seeded, train_seeds

# Scaled dot products

DIMS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
NUM_SETS, NUM_KEYS, NUM_QUERIES = 64, 64, 32  # sets of keys, with queries of their own
SATURATED = 0.01  # a softmax whose Jacobian has a smaller norm passes hardly any gradient


def softmax_jacobian_norm(weights: Tensor) -> Tensor:
    """Frobenius norm (...,) of the softmax's Jacobian, diag(w) - w w^T, at weights (..., n).

    It is 0 where one weight is 1: then no gradient reaches the scores.
    """
    second, third = weights.square().sum(-1), weights.pow(3).sum(-1)
    return (second - 2 * third + second.square()).clamp_min(0).sqrt()


@torch.no_grad()
def score_statistics(dims: Sequence[int] = DIMS) -> dict:
    """Dot-product scores of standard normal queries and keys, with and without the division by the square root of d_k.

    Returns dims and two dicts, "raw" and "scaled", with an entry for each d_k: variance of the scores; normalized_entropy of
    the attention weights (1: uniform); jacobian_norm, its median; saturated, the fraction of queries below `SATURATED`.
    """
    generator = torch.Generator().manual_seed(0)
    rows = {"raw": [], "scaled": []}
    for dim in dims:
        query = torch.randn(NUM_SETS, NUM_QUERIES, dim, generator=generator)
        key = torch.randn(NUM_SETS, NUM_KEYS, dim, generator=generator)
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
DIM, HIDDEN_DIM = 32, 64
MIN_LEN, MAX_LEN = 8, 16  # in training
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

    positions: as in `Embedding`; "causal", none but a causal mask.
    """

    def __init__(self, positions: str):
        super().__init__()
        self.positions = positions
        self.embedding = Embedding(
            VOCAB_SIZE,
            DIM,
            positions=positions if positions in ("sinusoidal", "learned") else "none",
            scale=False,
            max_len=MAX_LEN if positions == "learned" else None,
        )
        self.layer = EncoderLayer(DIM, 1, HIDDEN_DIM, norm_first=True, norm="none", self_attn=SelfAttention(DIM))
        self.head = nn.Linear(DIM, 2)

    def forward(self, token_ids: Tensor, attention_mask: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
        """token_ids (b, n) to logits (b, 2) and attention weights (b, n, n). start: the position of the first token."""
        x, mask, rotation = self.embedding(token_ids, start), attention_mask.unsqueeze(-2), None
        n = token_ids.size(-1)
        if self.positions == "rotary":
            rotation = rotary_embedding(torch.arange(start, start + n), DIM, dtype=x.dtype)
        elif self.positions == "causal":
            mask = mask & causal_mask(n)
        x, weights = self.layer(x, mask, need_weights=True, rotation=rotation)
        return self.head(mean_pooling(x, attention_mask)), weights


@cached
def train_order(
    positions: str,
    seeds: int = 5,
    *,
    num_steps: int = 300,
    lengths: Sequence[int] = TEST_LENGTHS,
    shifts: Sequence[int] = SHIFTS,
) -> dict:
    """Train `OrderClassifier`s on the order task, up to MAX_LEN tokens from position 0; chance is 50 %.

    Returns accuracy (s,) on held-out sequences of the training lengths; by_length (lengths, s); by_shift (shifts, s), at
    MAX_LEN, with positions that start at the shift. NaN: past the learned positions.
    """

    def draw(count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return order_sequences(count, MIN_LEN, MAX_LEN, generator)

    model, parameters = train_seeds(lambda: OrderClassifier(positions), draw, range(seeds), num_steps)

    def accuracy(count: int, min_len: int, max_len: int, start: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(TEST_SEED + max_len)
        *inputs, labels = minimal_pairs(*order_sequences(count, min_len, max_len, generator))
        try:
            return accuracies(model, parameters, tuple(inputs), labels, start=start)
        except MaxLengthError:
            return torch.full((seeds,), math.nan)

    return {
        "accuracy": accuracy(NUM_TEST, MIN_LEN, MAX_LEN),
        "lengths": list(lengths),
        "by_length": torch.stack([accuracy(NUM_TEST_EACH, length, length) for length in lengths]),
        "shifts": list(shifts),
        "by_shift": torch.stack([accuracy(NUM_TEST_EACH, MAX_LEN, MAX_LEN, shift) for shift in shifts]),
    }


# Nonlinearity

NUM_BITS = 8


@torch.no_grad()
def linearity_errors() -> dict[str, float]:
    """Largest component of f(x) + f(y) - f(0) - f(x + y), 0 for an affine f.

    "values": attention with fixed weights, as a function of the values; "feed-forward": with a feed-forward network behind it;
    "inputs": self-attention as a function of its input, on which the attention weights depend too.
    """
    n, dim = 6, 8
    with seeded(0):
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


def marked_bits(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """XOR task: bits (count, n), marked (count, n) bool with two True each, and labels, 1 if the two marked bits differ."""
    bits = torch.randint(0, 2, (count, NUM_BITS), generator=generator)
    positions = torch.rand(count, NUM_BITS, generator=generator).topk(2).indices
    marked = torch.zeros(count, NUM_BITS, dtype=torch.bool).scatter(1, positions, True)
    return bits, marked, (bits * marked).sum(1) % 2


def all_bit_pairs(bits: Tensor, marked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every sequence (count, n) with each of the four pairs of marked bits: then 75 % is exactly three pairs of four."""
    positions = marked.int().topk(2).indices
    pairs = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    bits = torch.cat([bits.scatter(1, positions, pair.expand(len(bits), 2)) for pair in pairs])
    marked = marked.repeat(4, 1)
    return bits, marked, (bits * marked).sum(1) % 2


@cached
def train_xor(feed_forward: bool, seeds: int = 5, *, num_steps: int = 200) -> dict:
    """Train `XorClassifier`s with and without the feed-forward network; returns accuracy (s,) on held-out sequences.

    Attention alone reaches 75 % at most: XOR is not linearly separable. The context of one 0 and one
    1 lies between the contexts of two zeros and of two ones, and a linear classifier cannot single out the middle.
    """
    model, parameters = train_seeds(lambda: XorClassifier(16, feed_forward), marked_bits, range(seeds), num_steps)
    bits, marked, labels = all_bit_pairs(*marked_bits(500, torch.Generator().manual_seed(TEST_SEED))[:2])
    return {"accuracy": accuracies(model, parameters, (bits, marked), labels)}

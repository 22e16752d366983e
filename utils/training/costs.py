"""Cost of attention against sequence length, in time and memory, and what sparse and low-rank attention lose.

Local attention is that of Longformer (Beltagy et al., 2020, arXiv:2004.05150); BigBird (Zaheer et al., 2020,
arXiv:2007.14062) adds global tokens and random keys; Linformer (Wang et al., 2020a, arXiv:2006.04768) projects the keys.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.attention import attention
from utils.models.language_models import parameter_count
from utils.models.layers import TransformerEncoder
from utils.models.sparse_attention import (
    BigBirdAttention,
    LinformerAttention,
    LocalAttention,
    bigbird_attention,
    linformer_attention,
    local_attention,
)
from utils.training.cache import cached
from utils.training.profiling import Exponent, count_multiplications, fit_exponent, peak_bytes, seconds_in_turns
from utils.training.seeds import seeded
from utils.training.trainer import train, warmup_stable_decay

# One sequence, four heads. A query of local attention attends to WINDOW positions on each side; BigBird adds global tokens
# and random keys; Linformer has RANK projected keys.
DIM, NUM_HEADS, WINDOW, GLOBAL_TOKENS, RANDOM_KEYS, RANK = 64, 4, 32, 4, 16, 64
# From 2048 on the attention weights of all heads, 64 MB, exceed most caches, and the system clears new memory each time: a
# jump in the cost of a pair. The longer half lies beyond it, so that a fit does not run across the jump.
LENGTHS = (256, 512, 1024, 2048, 2560, 3072, 4096)

RECURRENCE, EXPLICIT, FUSED, LOCAL, BIGBIRD, LINFORMER = KINDS = (
    "recurrence",
    "explicit attention",
    "fused attention",
    "local attention",
    "BigBird-like",
    "Linformer-like",
)
MAX_LENGTH = {EXPLICIT: 6144}  # at 8192 tokens the weights of all heads take 1 GB, and three such tensors exist at once
# Each step of a recurrence makes tensors, and recording all of them takes ten times as long as the steps.
MAX_MEMORY_LENGTH = {RECURRENCE: 1024}
# Multiplications for n tokens of dimension d; w positions on each side, g global tokens, r random keys, k projected keys.
# Local attention in blocks computes half as many scores again, and masks them.
FORMULAS = {
    RECURRENCE: "6 n d²",
    EXPLICIT: "2 n² d",
    FUSED: "2 n² d",
    LOCAL: "2 n (2 w + 1) d",
    BIGBIRD: "2 n (2 w + 1 + 2 g + r) d",
    LINFORMER: "4 n k d",
}


# What is measured


def make_run(kind: str, n: int) -> Callable[[], Tensor]:
    """A function that runs one kind of layer on a random sequence of n tokens and returns the output.

    Of attention, only the attention itself, given queries, keys and values of all heads; of recurrence, a GRU of dimension
    DIM. Inputs and parameters require gradients.
    """
    with seeded(0):
        query, key, value = (torch.randn(1, NUM_HEADS, n, DIM // NUM_HEADS, requires_grad=True) for _ in range(3))
        x = torch.randn(1, n, DIM, requires_grad=True)
        projection = (torch.randn(RANK, n) * n**-0.5).requires_grad_()
        gru = nn.GRU(DIM, DIM, batch_first=True)
    return {
        RECURRENCE: lambda: gru(x)[0],
        EXPLICIT: lambda: attention(query, key, value)[0],
        FUSED: lambda: attention(query, key, value, need_weights=False)[0],
        LOCAL: lambda: local_attention(query, key, value, WINDOW),
        BIGBIRD: lambda: bigbird_attention(query, key, value, WINDOW, GLOBAL_TOKENS, RANDOM_KEYS),
        LINFORMER: lambda: linformer_attention(query, key, value, projection),
    }[kind]


def forward_backward(run: Callable[[], Tensor]) -> Callable[[], None]:
    """The run and its backward pass, to all inputs and parameters."""

    def forward_and_backward() -> None:
        output = run()
        torch.autograd.backward(output, torch.ones_like(output))

    return forward_and_backward


def forward_only(run: Callable[[], Tensor]) -> Callable[[], None]:
    return torch.no_grad()(run)


def multiplications(kind: str, n: int) -> int:
    """The number of multiplications of one forward pass."""
    return count_multiplications(make_run(kind, n))


@cached
def cost_curves(lengths: Sequence[int] = LENGTHS, *, backward: bool = False, repeats: int = 3) -> dict[str, dict]:
    """For each kind lengths, least seconds (lengths,), memory_lengths and bytes (memory_lengths,), of one sequence.

    backward: with the backward pass.
    """
    wrap = forward_backward if backward else forward_only
    lengths_of = {kind: [n for n in lengths if n <= MAX_LENGTH.get(kind, n)] for kind in KINDS}
    # All lengths take turns as well: a slow minute of the machine would otherwise bend the slope.
    runs = {(kind, n): wrap(make_run(kind, n)) for kind in KINDS for n in lengths_of[kind]}
    seconds, curves = seconds_in_turns(runs, repeats), {}
    for kind, own in lengths_of.items():
        memory_lengths = [n for n in own if n <= MAX_MEMORY_LENGTH.get(kind, n)]
        curves[kind] = {
            "lengths": own,
            "seconds": torch.tensor([min(seconds[kind, n]) for n in own], dtype=torch.float64),
            "memory_lengths": memory_lengths,
            # Of new runs: a second backward pass would add to gradients instead of creating them.
            "bytes": torch.tensor([peak_bytes(wrap(make_run(kind, n))) for n in memory_lengths], dtype=torch.float64),
        }
    return curves


def exponents(curve: dict) -> tuple[Exponent, Exponent]:
    """The exponents of time and memory of one of the `cost_curves`, fitted to the longer half of the lengths, at least
    three, where the fastest growth dominates."""

    def fit(lengths: list[int], values: Tensor) -> Exponent:
        half = max(3, math.ceil(len(lengths) / 2))
        return fit_exponent(lengths[-half:], values[-half:])

    return fit(curve["lengths"], curve["seconds"]), fit(curve["memory_lengths"], curve["bytes"])


# Associative recall: the answer may be far away

# Positions, key-value pairs, different keys and values; and sizes of sparse attention for this task. The receptive field of
# two layers of local attention is 16 positions on each side.
LENGTH, NUM_PAIRS, NUM_KEYS, NUM_VALUES = 96, 8, 16, 8
RECALL_WINDOW, RECALL_GLOBAL, RECALL_RANDOM, RECALL_RANK = 8, 4, 8, 32
BANDS = (8, 16, 32, LENGTH)  # the greatest distance of each band
LESSON_KINDS = (FUSED, LOCAL)  # trained live; a benchmark trains all kinds


class Recall(NamedTuple):
    """Associative recall: some positions hold a key and a value, all others a query: which value belongs to this key?

    All (b, n): key; shown, 0 at a query and the value plus 1 at a pair; answer, the value; distance, to the pair that holds
    the answer; is_query.
    """

    key: Tensor
    shown: Tensor
    answer: Tensor
    distance: Tensor
    is_query: Tensor


def recall_batch(count: int, generator: torch.Generator) -> Recall:
    """`count` sequences, pairs and queries at random positions; the keys of a sequence are all different."""
    keys = torch.rand(count, NUM_KEYS, generator=generator).argsort(1)[:, :NUM_PAIRS]
    values = torch.randint(NUM_VALUES, (count, NUM_PAIRS), generator=generator)
    positions = torch.rand(count, LENGTH, generator=generator).argsort(1)[:, :NUM_PAIRS]
    pair = torch.randint(NUM_PAIRS, (count, LENGTH), generator=generator)  # at each position, or asked for there
    pair.scatter_(1, positions, torch.arange(NUM_PAIRS).expand(count, -1))
    is_query = torch.ones(count, LENGTH, dtype=torch.bool).scatter_(1, positions, False)
    answer = values.gather(1, pair)
    distance = (torch.arange(LENGTH) - positions.gather(1, pair)).abs()
    return Recall(keys.gather(1, pair), torch.where(is_query, 0, answer + 1), answer, distance, is_query)


def recall_test() -> Recall:
    return recall_batch(200, torch.Generator().manual_seed(77))


def most_frequent_accuracy() -> float:
    """The accuracy without any recall: every query is answered with the most frequent number of its sequence."""
    test = recall_test()
    most_frequent = F.one_hot(test.shown, NUM_VALUES + 1)[..., 1:].sum(1).argmax(-1, keepdim=True)
    return (most_frequent == test.answer)[test.is_query].float().mean().item()


class RecallModel(nn.Module):
    """Associative recall at all positions at once: key and shown (b, n) to logits (b, n, NUM_VALUES).

    The sum of a key and a value embedding, without positions, which the answer does not depend on. A few learned tokens
    precede the sequence, for every kind; only BigBird, whose global tokens they are, makes much use of them.
    """

    def __init__(self, kind: str, num_layers: int = 2, rank: int = RECALL_RANK):
        super().__init__()
        dim, num_heads = DIM, NUM_HEADS
        self.key_embedding, self.value_embedding = nn.Embedding(NUM_KEYS, dim), nn.Embedding(NUM_VALUES + 1, dim)
        self.prefix = nn.Parameter(torch.randn(RECALL_GLOBAL, dim))
        self.head = nn.Linear(dim, NUM_VALUES)
        if kind == RECURRENCE:  # bidirectional, since a pair may come after its query
            self.body = nn.GRU(dim, dim // 2, num_layers, batch_first=True, bidirectional=True)
            return
        seeds = iter(range(num_layers))  # each layer has random keys of its own
        sparse_layers = {
            LOCAL: lambda: LocalAttention(dim, num_heads, RECALL_WINDOW),
            BIGBIRD: lambda: BigBirdAttention(dim, num_heads, RECALL_WINDOW, RECALL_GLOBAL, RECALL_RANDOM, next(seeds)),
            LINFORMER: lambda: LinformerAttention(dim, num_heads, rank, LENGTH + RECALL_GLOBAL),
        }
        self_attn = sparse_layers.get(kind)
        self.body = TransformerEncoder(num_layers, dim, num_heads, 2 * dim, norm_first=True, self_attn=self_attn)

    def forward(self, key: Tensor, shown: Tensor) -> Tensor:
        x = self.key_embedding(key) + self.value_embedding(shown)
        x = torch.cat([self.prefix.expand(len(x), -1, -1), x], 1)
        return self.head(self.body(x)[0][:, RECALL_GLOBAL:])


@cached
def train_recall(
    kind: str, seed: int = 0, *, num_layers: int = 2, rank: int = RECALL_RANK, num_steps: int = 150
) -> dict:
    """Train one model on associative recall and test it on 200 held-out sequences; chance is 1 / NUM_VALUES.

    Returns accuracy; bands, the greatest distance of each; by_distance (bands,), the accuracy at queries whose pair is so far
    away; parameters. All kinds get the same sequences in the same order, and start from the same projections.
    """
    with seeded(seed):
        model = RecallModel(kind, num_layers, rank)
    generator = torch.Generator().manual_seed(10_000 + seed)

    def loss_of_step(step: int) -> Tensor:
        batch = recall_batch(16, generator)
        logits = model(batch.key, batch.shown)[batch.is_query]
        return F.cross_entropy(logits, batch.answer[batch.is_query])

    schedule = warmup_stable_decay(num_steps, warmup_steps=20)
    train(model, loss_of_step, num_steps, learning_rate=5e-3, schedule=schedule, betas=(0.9, 0.98))
    test = recall_test()
    with torch.no_grad():
        correct = (model(test.key, test.shown).argmax(-1) == test.answer).float()
    in_band = [(test.distance > low) & (test.distance <= high) for low, high in zip((0, *BANDS), BANDS, strict=False)]
    return {
        "bands": list(BANDS),
        "accuracy": correct[test.is_query].mean().item(),
        "by_distance": torch.stack([correct[test.is_query & band].mean() for band in in_band]),
        "parameters": parameter_count(model),
    }

"""Cost of attention against sequence length, in time and memory, and what sparse and low-rank attention lose.

Time is processor time of one thread, the least of several rounds, so that other programs hardly count. Memory is the peak
of all tensors that exist at one moment beyond those there before, as torch's allocator reports them to its profiler. (The
memory of the process would not do: what is freed stays with the process and is used again.)
"""

import contextlib
import math
import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

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
from utils.training.seeds import seed_list
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


# Exponents


class Exponent(NamedTuple):
    """The p of values ~ length ** p, the log-log slope, and its standard error."""

    slope: float
    error: float


def fit_exponent(lengths: Sequence[float], values: Sequence[float] | Tensor) -> Exponent:
    """Least squares on logarithms. The error covers scatter only: a curve that bends has a slope somewhere in between."""
    x, y = (torch.as_tensor(column, dtype=torch.float64).log() for column in (lengths, values))
    x, y = x - x.mean(), y - y.mean()
    slope = (x * y).sum() / x.square().sum()
    residuals = y - slope * x
    error = (residuals.square().sum() / (len(x) - 2) / x.square().sum()).sqrt()
    return Exponent(slope.item(), error.item())


def exponents(curves: dict[str, dict]) -> list[dict]:
    """One row for each kind of `cost_curves`: kind, formula, and as `Exponent`s time, long_time, memory, long_memory.

    long_: fitted to the longer half of the (rising) lengths, at least three, where the fastest growth dominates. None where
    there are fewer than three lengths.
    """
    rows = []
    for kind, curve in curves.items():
        row = {"kind": kind, "formula": FORMULAS[kind]}
        for name, lengths, values in (
            ("time", curve["lengths"], curve["seconds"]),
            ("memory", curve["memory_lengths"], curve["bytes"]),
        ):
            enough, half = len(lengths) >= 3, max(3, math.ceil(len(lengths) / 2))
            row[name] = fit_exponent(lengths, values) if enough else None
            row[f"long_{name}"] = fit_exponent(lengths[-half:], values[-half:]) if enough else None
        rows.append(row)
    return rows


# What is measured


def make_run(kind: str, n: int) -> Callable[[], Tensor]:
    """A function that runs one kind of layer on a random sequence of n tokens and returns the output.

    Of attention, only the attention itself, given queries, keys and values of all heads; of recurrence, a GRU of dimension
    DIM. Inputs and parameters require gradients.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
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
    """The number of multiplications of one forward pass, by torch's FLOP counter; softmax and gates are not counted."""
    # The counter does not know the fused kernel, but the products that it consists of.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        forward_only(make_run(kind, n))()
    return counter.get_total_flops() // 2  # each multiplication is counted with the addition that follows it


def peak_bytes(run: Callable[[], object]) -> int:
    """Peak memory: the most bytes of tensors that exist at one moment of `run()`, beyond those there before.

    Temporary tensors of a kernel count; a scratch buffer that a library takes from the system itself does not.
    """
    with _silent_profiler(), torch.autograd.profiler.profile(use_kineto=True, profile_memory=True) as profile:
        run()
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    total = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        total += event.nbytes()
        peak = max(peak, total)
    return peak


@contextlib.contextmanager
def _silent_profiler() -> Iterator[None]:
    """The profiler writes to file descriptor 2 when it starts and stops, past `sys.stderr`."""
    stderr, devnull = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(devnull)


def min_seconds(
    runs: dict[Hashable, Callable[[], object]], repeats: int, least: float = 0.002
) -> dict[Hashable, float]:
    """The least seconds of one call of each run, on one thread, over `repeats` rounds of at least `least` seconds.

    The runs take turns, so that a slow moment of the machine affects all of them.
    """
    # Windows counts processor time in steps of 16 ms.
    fine = time.get_clock_info("process_time").resolution < 1e-5
    clock, seconds = time.process_time if fine else time.perf_counter, dict.fromkeys(runs, math.inf)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for run in runs.values():
            run()  # the first call warms up
        for _ in range(repeats):
            for name, run in runs.items():
                start, calls = clock(), 0
                while calls == 0 or clock() - start < least:
                    run()
                    calls += 1
                seconds[name] = min(seconds[name], (clock() - start) / calls)
    finally:
        torch.set_num_threads(threads)
    return seconds


@cached
def cost_curves(
    lengths: Sequence[int] = LENGTHS,
    kinds: Sequence[str] = KINDS,
    *,
    backward: bool = False,
    repeats: int = 3,
    recurrence_memory: int = 1024,
) -> dict[str, dict]:
    """For each kind lengths, seconds (lengths,), memory_lengths and bytes (memory_lengths,), of one sequence.

    backward: with the backward pass. recurrence_memory: the greatest length at which the memory of the recurrence is measured;
    each of its steps makes tensors, and recording all of them takes ten times as long as the steps.
    """
    wrap = forward_backward if backward else forward_only
    lengths_of = {kind: [n for n in lengths if n <= MAX_LENGTH.get(kind, n)] for kind in kinds}
    # All lengths take turns as well: a slow minute of the machine would otherwise bend the slope.
    seconds = min_seconds({(kind, n): wrap(make_run(kind, n)) for kind in kinds for n in lengths_of[kind]}, repeats)
    curves = {}
    for kind, own in lengths_of.items():
        memory_lengths = [n for n in own if kind != RECURRENCE or n <= recurrence_memory]
        curves[kind] = {
            "lengths": own,
            "seconds": torch.tensor([seconds[kind, n] for n in own], dtype=torch.float64),
            "memory_lengths": memory_lengths,
            # Of new runs: a second backward pass would add to gradients instead of creating them.
            "bytes": torch.tensor([peak_bytes(wrap(make_run(kind, n))) for n in memory_lengths], dtype=torch.float64),
        }
    return curves


# Associative recall: the answer may be far away

# Positions, key-value pairs, different keys and values; and sizes of sparse attention for this task. The receptive field of
# two layers of local attention is 16 positions on each side.
LENGTH, NUM_PAIRS, NUM_KEYS, NUM_VALUES = 96, 8, 16, 8
RECALL_WINDOW, RECALL_GLOBAL, RECALL_RANDOM, RECALL_RANK = 8, 4, 8, 32
BANDS = (8, 16, 32, LENGTH)  # the greatest distance of each band
RECALL_KINDS = (RECURRENCE, FUSED, LOCAL, BIGBIRD, LINFORMER)  # explicit and fused attention are the same here
LESSON_KINDS = RECALL_KINDS[1:]  # a recurrence takes as long as the other four together


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


def recall_batch(count: int, generator: torch.Generator, n: int = LENGTH, num_pairs: int = NUM_PAIRS) -> Recall:
    """`count` sequences, pairs and queries at random positions; the keys of a sequence are all different."""
    keys = torch.rand(count, NUM_KEYS, generator=generator).argsort(1)[:, :num_pairs]
    values = torch.randint(NUM_VALUES, (count, num_pairs), generator=generator)
    positions = torch.rand(count, n, generator=generator).argsort(1)[:, :num_pairs]
    pair = torch.randint(num_pairs, (count, n), generator=generator)  # at each position, or asked for there
    pair.scatter_(1, positions, torch.arange(num_pairs).expand(count, -1))
    is_query = torch.ones(count, n, dtype=torch.bool).scatter_(1, positions, False)
    answer = values.gather(1, pair)
    distance = (torch.arange(n) - positions.gather(1, pair)).abs()
    return Recall(keys.gather(1, pair), torch.where(is_query, 0, answer + 1), answer, distance, is_query)


class RecallModel(nn.Module):
    """Associative recall at all positions at once: key and shown (b, n) to logits (b, n, NUM_VALUES).

    The sum of a key and a value embedding, without positions, which the answer does not depend on. A few learned tokens
    precede the sequence, for every kind; only BigBird, whose global tokens they are, makes much use of them.
    """

    def __init__(self, kind: str, num_layers: int = 2, rank: int = RECALL_RANK, dim: int = 64, num_heads: int = 4):
        super().__init__()
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
    kind: str, seed: int = 0, *, num_layers: int = 2, rank: int = RECALL_RANK, num_steps: int = 150, num_test: int = 200
) -> dict:
    """Train one model on associative recall and test it on held-out sequences; chance is 1 / NUM_VALUES.

    Returns accuracy; bands, the greatest distance of each; by_distance (bands,), the accuracy at queries whose pair is so far
    away; loss (num_steps,); parameters. All kinds get the same sequences in the same order, and start from the same
    projections.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = RecallModel(kind, num_layers, rank)
    generator = torch.Generator().manual_seed(10_000 + seed)

    def loss_of_step(step: int) -> Tensor:
        batch = recall_batch(16, generator)
        logits = model(batch.key, batch.shown)[batch.is_query]
        return F.cross_entropy(logits, batch.answer[batch.is_query])

    schedule = warmup_stable_decay(num_steps, warmup_steps=20)
    losses = train(model, loss_of_step, num_steps, learning_rate=5e-3, schedule=schedule, betas=(0.9, 0.98))
    test = recall_batch(num_test, torch.Generator().manual_seed(77))
    with torch.no_grad():
        correct = (model(test.key, test.shown).argmax(-1) == test.answer).float()
    in_band = [(test.distance > low) & (test.distance <= high) for low, high in zip((0, *BANDS), BANDS, strict=False)]
    return {
        "kind": kind,
        "seed": seed,
        "bands": list(BANDS),
        "loss": losses,
        "parameters": parameter_count(model),
        "accuracy": correct[test.is_query].mean().item(),
        "by_distance": torch.stack([correct[test.is_query & band].mean() for band in in_band]),
    }


def compare_recall(kinds: Sequence[str] = LESSON_KINDS, seeds: int | Sequence[int] = 1) -> list[dict]:
    """One row for each kind: kind, parameters, accuracy (s,), bands, and by_distance (bands, s); see `train_recall`."""
    rows = []
    for kind in kinds:
        runs = [train_recall(kind, seed) for seed in seed_list(seeds)]
        rows.append(
            {
                "kind": kind,
                "parameters": runs[0]["parameters"],
                "accuracy": torch.tensor([run["accuracy"] for run in runs]),
                "bands": runs[0]["bands"],
                "by_distance": torch.stack([run["by_distance"] for run in runs], 1),
            }
        )
    return rows

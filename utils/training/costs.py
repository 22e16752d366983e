"""What a layer costs against the length of the sentence, in time and in memory, and what the cheaper kinds lose by it.

Time is counted in seconds of the processor that one thread used, the least of several turns: other programs on the machine
cannot lengthen it much. Memory is the largest sum of all tensors that exist at one moment beyond those that were there before,
as torch's own allocator reports each of them to its profiler. The memory of the process would not do: what is freed stays with
the process and is used again, so all that comes after the largest sentence would seem to cost nothing. Python's tracemalloc sees
no tensors.
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
from utils.models.encoder import Encoder
from utils.models.sparse_attention import (
    BigBirdAttention,
    LinformerAttention,
    LocalAttention,
    bigbird_attention,
    linformer_attention,
    local_attention,
    with_attention,
)
from utils.training.cache import cached
from utils.training.seeds import seed_list
from utils.training.trainer import train, warmup_stable_decay

# One sentence, four heads. What a query of each cheap kind looks at: WINDOW places on each side; in addition GLOBAL tokens and
# RANDOM keys; RANK mixtures.
WIDTH, HEADS, WINDOW, GLOBAL, RANDOM, RANK = 64, 4, 32, 4, 16, 64
# From 2048 on a matrix of all pairs and heads, 64 MB, is larger than most caches, and the system clears its memory anew each time:
# a step up in the cost of a pair. A fit across that step would be one of two machines, so the longer half lies beyond it.
LENGTHS = (256, 512, 1024, 2048, 2560, 3072, 4096)

RECURRENCE, BY_HAND, FUSED, LOCAL, BIGBIRD, LINFORMER = KINDS = (
    "recurrence",
    "attention by hand",
    "fused attention",
    "local windows",
    "BigBird-like",
    "Linformer-like",
)
# Longer than this the kind is not run: at 8192 tokens a matrix of all pairs and heads takes 1 GB, and three are needed at once.
LONGEST = {BY_HAND: 6144}
# Multiplications for n tokens of width d; w places on each side, g global tokens, r random keys, k mixtures. Windows in blocks
# compare half as many pairs again, and mask them.
FORMULAS = {
    RECURRENCE: "6 n d²",
    BY_HAND: "2 n² d",
    FUSED: "2 n² d",
    LOCAL: "2 n (2 w + 1) d",
    BIGBIRD: "2 n (2 w + 1 + 2 g + r) d",
    LINFORMER: "4 n k d",
}


# The slope


class Exponent(NamedTuple):
    """The p of values ~ length ** p, and the standard error of p."""

    slope: float
    error: float


def fitted_exponent(lengths: Sequence[float], values: Sequence[float] | Tensor) -> Exponent:
    """A straight line through the logarithms by least squares: its slope, with the error that its residuals leave.

    The error is about scatter only. A curve that bends, from linear to quadratic, has a slope somewhere in between, and the line
    does not know; see `long_half`.
    """
    x, y = (torch.as_tensor(one, dtype=torch.float64) for one in (lengths, values))
    x, y = x.log() - x.log().mean(), y.log() - y.log().mean()
    slope = (x * y).sum() / x.square().sum()
    residuals = y - slope * x
    error = (residuals.square().sum() / (len(x) - 2) / x.square().sum()).sqrt()
    return Exponent(slope.item(), error.item())


def long_half(lengths: Sequence[float], values: Sequence[float] | Tensor) -> Exponent:
    """`fitted_exponent` over the longer half of the lengths (three at least), where what grows fastest counts most."""
    values = torch.as_tensor(values)
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    longer = order[-max(3, math.ceil(len(order) / 2)) :]
    return fitted_exponent([lengths[place] for place in longer], values[longer])


# What is measured


def a_run(kind: str, n: int, width: int = WIDTH, seed: int = 0) -> Callable[[], Tensor]:
    """A function that runs one kind on one random sentence of n tokens, and gives the output.

    For the kinds of attention the queries, keys and values of all heads are there already, and only the attention itself is run;
    for recurrence, a GRU of the full width over the tokens. Inputs and parameters want a gradient.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        query, key, value = (torch.randn(1, HEADS, n, width // HEADS, requires_grad=True) for _ in range(3))
        x = torch.randn(1, n, width, requires_grad=True)
        project = (torch.randn(RANK, n) * n**-0.5).requires_grad_()
        layer = nn.GRU(width, width, batch_first=True)
    return {
        RECURRENCE: lambda: layer(x)[0],
        BY_HAND: lambda: attention(query, key, value)[0],
        FUSED: lambda: attention(query, key, value, need_weights=False)[0],
        LOCAL: lambda: local_attention(query, key, value, WINDOW),
        BIGBIRD: lambda: bigbird_attention(query, key, value, WINDOW, GLOBAL, RANDOM),
        LINFORMER: lambda: linformer_attention(query, key, value, project),
    }[kind]


def with_gradients(run: Callable[[], Tensor]) -> Callable[[], None]:
    """The run, and the way back from its output to all inputs and parameters."""

    def there_and_back() -> None:
        output = run()
        torch.autograd.backward(output, torch.ones_like(output))

    return there_and_back


def without_gradients(run: Callable[[], Tensor]) -> Callable[[], None]:
    def there() -> None:
        with torch.no_grad():
            run()

    return there


def multiplications(kind: str, n: int) -> int:
    """How many numbers one run forward multiplies, as torch's own counter sees it; softmax and gates are not in it."""
    # The counter does not know the fused kernel; the same products one after the other it does.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        without_gradients(a_run(kind, n))()
    return counter.get_total_flops() // 2  # each multiplication is counted with the addition that follows it


# Memory


def peak_bytes(run: Callable[[], object]) -> int:
    """The most bytes of tensors that exist at one moment of `run()`, beyond those that were there before.

    Every tensor counts, also those that a kernel makes for itself; a scratch buffer that a library takes from the system on its
    own does not.
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
    """The profiler writes a line to the error stream when it starts and stops, past Python; a lesson need not show them."""
    kept_stream, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept_stream, 2)
        os.close(kept_stream)
        os.close(nowhere)


# Time


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _clock() -> Callable[[], float]:
    # Windows counts the processor's time in steps of 16 ms.
    return time.process_time if time.get_clock_info("process_time").resolution < 1e-5 else time.perf_counter


def least_seconds(
    runs: dict[Hashable, Callable[[], object]], repeats: int = 5, at_least: float = 0.002
) -> dict[Hashable, float]:
    """For each run the least seconds of one call, over `repeats` turns. The runs take turns, so that a bad moment of the machine
    meets all of them; a turn calls until `at_least` seconds have gone."""
    clock, found = _clock(), dict.fromkeys(runs, math.inf)
    with one_thread():
        for run in runs.values():
            run()  # the first call warms up
        for _ in range(repeats):
            for name, run in runs.items():
                start, calls = clock(), 0
                while calls == 0 or clock() - start < at_least:
                    run()
                    calls += 1
                found[name] = min(found[name], (clock() - start) / calls)
    return found


# Both


@cached
def cost_curves(
    lengths: Sequence[int] = LENGTHS,
    kinds: Sequence[str] = KINDS,
    *,
    backward: bool = False,
    repeats: int = 3,
    recurrence_memory: int = 1024,
) -> dict[str, dict]:
    """For each kind lengths, seconds (lengths,), memory_lengths and bytes (memory_lengths,), of one sentence.

    backward: with the gradients. recurrence_memory: the greatest length at which the memory of the recurrence is measured; each
    of its steps makes tensors of its own, and to be told of all of them takes ten times as long as the steps.
    """
    wrap = with_gradients if backward else without_gradients
    places = {kind: [n for n in lengths if n <= LONGEST.get(kind, n)] for kind in kinds}
    # All lengths take turns as well: a minute in which the machine is slow would else lift one of them, and bend the slope.
    taken = least_seconds({(kind, n): wrap(a_run(kind, n)) for kind in kinds for n in places[kind]}, repeats)
    curves = {}
    for kind, own in places.items():
        seen = [n for n in own if kind != RECURRENCE or n <= recurrence_memory]
        curves[kind] = {
            "lengths": own,
            "seconds": torch.tensor([taken[kind, n] for n in own], dtype=torch.float64),
            "memory_lengths": seen,
            # Of fresh runs: gradients stay, and a second way back would add to them instead of making them.
            "bytes": torch.tensor([peak_bytes(wrap(a_run(kind, n))) for n in seen], dtype=torch.float64),
        }
    return curves


def exponents(curves: dict[str, dict]) -> list[dict]:
    """One row for each kind of `cost_curves`: kind, formula, and as `Exponent`s time, long_time, memory, long_memory.

    long_…: over the longer half. None where there are fewer than three lengths.
    """
    rows = []
    for kind, curve in curves.items():
        row = {"kind": kind, "formula": FORMULAS[kind]}
        for name, lengths, values in (
            ("time", curve["lengths"], curve["seconds"]),
            ("memory", curve["memory_lengths"], curve["bytes"]),
        ):
            enough = len(lengths) >= 3
            row[name] = fitted_exponent(lengths, values) if enough else None
            row[f"long_{name}"] = long_half(lengths, values) if enough else None
        rows.append(row)
    return rows


# Quality: a question whose answer may stand far away

# Places, index cards, different keys and values; and what the cheap kinds look at here. Two layers of windows reach 16 places.
PLACES, CARDS, CARD_KEYS, CARD_VALUES = 96, 8, 16, 8
TASK_WINDOW, TASK_GLOBAL, TASK_RANDOM, TASK_RANK = 8, 4, 8, 32
BANDS = (8, 16, 32, PLACES)  # the greatest distances of near, within two windows, farther, far
# By hand and fused are one and the same here.
TASK_KINDS = (RECURRENCE, FUSED, LOCAL, BIGBIRD, LINFORMER)
QUICK_KINDS = TASK_KINDS[1:]  # a recurrence takes as long as the other four together


class Questions(NamedTuple):
    """Index cards with a key and a value, and at all other places questions: which value has the card with this key?

    All (b, n): key; shown, 0 at a question and the value plus 1 at a card; answer, the value; distance, how many places away
    the card with the answer stands; asked, True at a question.
    """

    key: Tensor
    shown: Tensor
    answer: Tensor
    distance: Tensor
    asked: Tensor


def questions(
    count: int,
    generator: torch.Generator,
    n: int = PLACES,
    cards: int = CARDS,
    keys: int = CARD_KEYS,
    values: int = CARD_VALUES,
) -> Questions:
    """`count` sequences, cards and questions at random places; the keys of the cards of a sequence are all different."""
    own_keys = torch.rand(count, keys, generator=generator).argsort(1)[:, :cards]
    own_values = torch.randint(values, (count, cards), generator=generator)
    places = torch.rand(count, n, generator=generator).argsort(1)[:, :cards]
    which = torch.randint(cards, (count, n), generator=generator)  # the card that each place is or asks for
    which.scatter_(1, places, torch.arange(cards).expand(count, -1))
    asked = torch.ones(count, n, dtype=torch.bool).scatter_(1, places, False)
    answer = own_values.gather(1, which)
    distance = (torch.arange(n) - places.gather(1, which)).abs()
    return Questions(own_keys.gather(1, which), torch.where(asked, 0, answer + 1), answer, distance, asked)


class Reader(nn.Module):
    """Answers all questions of a sequence at once: key and shown (b, n) to logits (b, n, values).

    The vector of a place is the sum of its key's and its value's: no positions, since for the answer they do not matter. Before
    the sequence stand a few tokens of no meaning, for every kind; only BigBird's global tokens make much of them.
    """

    def __init__(
        self,
        kind: str,
        n: int = PLACES,
        keys: int = CARD_KEYS,
        values: int = CARD_VALUES,
        dim: int = 64,
        heads: int = 4,
        layers: int = 2,
        window: int = TASK_WINDOW,
        rank: int = TASK_RANK,
    ):
        super().__init__()
        self.keys, self.values = nn.Embedding(keys, dim), nn.Embedding(values + 1, dim)
        self.front = nn.Parameter(torch.randn(TASK_GLOBAL, dim))
        self.answer = nn.Linear(dim, values)
        if kind == RECURRENCE:  # in both directions, since a card may stand behind its question
            self.body = nn.GRU(dim, dim // 2, layers, batch_first=True, bidirectional=True)
            return
        self.body = Encoder(layers, dim, heads, 2 * dim, norm="pre")
        links = iter(range(layers))  # each layer has random links of its own
        makers = {
            LOCAL: lambda: LocalAttention(dim, heads, window),
            BIGBIRD: lambda: BigBirdAttention(dim, heads, window, TASK_GLOBAL, TASK_RANDOM, next(links)),
            LINFORMER: lambda: LinformerAttention(dim, heads, rank, n + TASK_GLOBAL),
        }
        if kind in makers:
            with_attention(self.body, makers[kind])

    def forward(self, key: Tensor, shown: Tensor) -> Tensor:
        x = self.keys(key) + self.values(shown)
        x = torch.cat([self.front.expand(len(x), -1, -1), x], 1)
        return self.answer(self.body(x)[0][:, TASK_GLOBAL:])


@cached
def train_long_range(
    kind: str,
    seed: int = 0,
    *,
    n: int = PLACES,
    cards: int = CARDS,
    layers: int = 2,
    window: int = TASK_WINDOW,
    rank: int = TASK_RANK,
    steps: int = 150,
    batch: int = 16,
    rate: float = 5e-3,
    tested: int = 200,
) -> dict:
    """Train one reader, and ask it about held-out sequences; chance is 1 / 8.

    Returns accuracy, the share of questions answered right; bands, the greatest distance of each; by_distance (bands,), the share
    right of those whose card stands so far away; loss (steps,); parameters, their number. All kinds get the same sequences in
    the same order, and start from the same projections.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Reader(kind, n, layers=layers, window=window, rank=rank)
    generator = torch.Generator().manual_seed(10_000 + seed)

    def loss_of_step(step: int) -> Tensor:
        asked = questions(batch, generator, n, cards)
        logits = model(asked.key, asked.shown)[asked.asked]
        return F.cross_entropy(logits, asked.answer[asked.asked])

    schedule = warmup_stable_decay(steps, warmup_steps=20)
    losses = train(model, loss_of_step, steps, learning_rate=rate, schedule=schedule, betas=(0.9, 0.98))
    bands = [band for band in BANDS if band < n] + [n]
    return {
        "kind": kind,
        "seed": seed,
        "bands": bands,
        "loss": losses,
        "parameters": sum(one.numel() for one in model.parameters()),
        **_scored(model, questions(tested, torch.Generator().manual_seed(77), n, cards), bands),
    }


@torch.no_grad()
def _scored(model: Reader, test: Questions, bands: Sequence[int]) -> dict:
    right = model(test.key, test.shown).argmax(-1) == test.answer
    by_distance, least = [], 1
    for band in bands:
        inside = test.asked & (test.distance >= least) & (test.distance <= band)
        by_distance.append(right[inside].float().mean().item())
        least = band + 1
    return {"accuracy": right[test.asked].float().mean().item(), "by_distance": torch.tensor(by_distance)}


def long_range(kinds: Sequence[str] = QUICK_KINDS, seeds: int | Sequence[int] = 1, **options) -> list[dict]:
    """One row for each kind: kind, parameters, accuracy (s,), bands, and by_distance (bands, s); see `train_long_range`."""
    rows = []
    for kind in kinds:
        found = [train_long_range(kind, seed, **options) for seed in seed_list(seeds)]
        rows.append(
            {
                "kind": kind,
                "parameters": found[0]["parameters"],
                "accuracy": torch.tensor([one["accuracy"] for one in found]),
                "bands": found[0]["bands"],
                "by_distance": torch.stack([one["by_distance"] for one in found], 1),
            }
        )
    return rows

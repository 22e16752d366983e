"""How much of the machine's own speed in matrix products a training step reaches."""

import statistics
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.benchmarks.benchmark import Benchmark, Shown, at_least
from tests.benchmarks.timing import seconds
from utils.data.bpe import SPECIAL_TOKENS
from utils.models.transformer import Transformer
from utils.training import pretraining, transformer
from utils.training.translation import MAX_NORM, pairs_and_words, token_loss

SIZES = (512, 1024, 2048)  # sides of the square matrices; one of them suits the caches of the machine best
THREADS = (1, 2)


def peak_share(threads: Sequence[int] = THREADS, sizes: Sequence[int] = SIZES, rounds: int = 21) -> list[dict]:
    """A row for each lesson's training step and number of threads: how fast it multiplies, and how fast the machine can.

    The operations of a step are those of its matrix products, counted by torch, each multiplication with its addition. Norms,
    softmax and the optimizer take time and count for nothing. The peak is the best of all rounds and sizes, the step the
    median; both take turns in one process, on the same threads.
    """
    before = torch.get_num_threads()
    try:
        return [_row(name, make(), count, sizes, rounds) for count in threads for name, make in STEPS.items()]
    finally:
        torch.set_num_threads(before)


def _row(name: str, step: Callable, threads: int, sizes: Sequence[int], rounds: int) -> dict:
    torch.set_num_threads(threads)
    products = [a_product(size) for size in sizes]
    count = operations(step)
    best, taken = 0.0, []
    for _ in range(rounds):
        best = max(best, *(2 * size**3 / seconds(run, 1) for size, run in zip(sizes, products, strict=True)))
        taken.append(seconds(step, 3))
    step_seconds = statistics.median(taken)
    return {
        "step": name,
        "threads": threads,
        "gigaflop": round(count / 1e9, 3),
        "ms": round(1000 * step_seconds, 2),
        "reached": round(count / step_seconds / 1e9, 1),
        "peak": round(best / 1e9, 1),
        "share": round(100 * count / step_seconds / best, 1),
    }


def a_product(size: int) -> Callable[[], Tensor]:
    one, other, out = torch.randn(3, size, size)
    return lambda: torch.mm(one, other, out=out)


def operations(run: Callable[[], object]) -> int:
    """Of all matrix products in `run()`; the counter does not know the fused attention, but the products it is made of."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        run()
    return counter.get_total_flops()


# Steps as the lessons train


def _training_step(model: nn.Module, loss: Callable[[], Tensor], largest: float) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), largest)
        optimizer.step()

    return step


def transformer_step(batch: int = 64, length: int = 16) -> Callable[[], None]:
    """Lesson 06: the Transformer of the comparison, with the vocabularies of its corpus, on sentences without padding."""
    _, english, french = pairs_and_words()
    model = Transformer(len(english), len(french), **transformer.SIZES, norm_first=True, tied="none")
    source = torch.randint(3, len(english), (batch, length))
    target_in, target_out = torch.randint(3, len(french), (2, batch, length))
    mask = torch.ones(batch, length, dtype=torch.bool)
    return _training_step(model, lambda: token_loss(model(source, mask, target_in)[0], target_out), MAX_NORM)


def causal_step(batch: int = 8, length: int = pretraining.LENGTH) -> Callable[[], None]:
    """Lesson 07: the causal model, on as many fragments of text as there."""
    sizes = {name: pretraining.LESSON["causal"][name] for name in ("num_layers", "dim", "hidden_dim")}
    model = pretraining.build("causal", {"vocab_size": pretraining.VOCAB_SIZE, "num_heads": 4, **sizes})
    fragments = torch.randint(len(SPECIAL_TOKENS), pretraining.VOCAB_SIZE, (batch, length + 1))
    objective = pretraining.Objective("causal", pretraining.VOCAB_SIZE)
    return _training_step(
        model, lambda: F.cross_entropy(*objective(model, fragments, torch.default_generator)), pretraining.MAX_NORM
    )


STEPS = {
    "Transformer of lesson 06, 64 sentences of 16 tokens": transformer_step,
    "causal model of lesson 07, 8 fragments of 64 tokens": causal_step,
}


def show(rows: list[dict]) -> Shown:
    return Shown(
        "Training steps against the machine's matrix-product rate",
        "Floating-point operations of the matrix products of one training step per second, as a share of the fastest matrix product on the same threads.",
        ("training step", "threads", "gigaflop per step", "ms per step", "gigaflop/s", "fastest product", "share, %"),
        [tuple(row.values()) for row in rows],
        [
            at_least(f"share of the fastest product, {row['step']}", row["share"], 50, "%")
            for row in rows
            if row["threads"] == 1
        ],
    )


BENCHMARKS = (Benchmark("peak_share", "06", peak_share, show, {"threads": (1,), "sizes": (512,), "rounds": 3}),)

"""Speed of recurrent models and Transformers: the training of the `translation` comparison, and tokens per second against length.

Short timing loops, about two minutes in all; worthless beside other programs.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

import torch
from torch import nn

from tests.benchmarks.benchmark import Benchmark, Shown
from tests.benchmarks.translation import MODELS
from utils.data.tokens import BOS_ID, PAD_ID, SPECIAL_TOKENS, Batch
from utils.models.decoding import greedy_decode
from utils.models.recurrent import Seq2Seq
from utils.models.transformer import Transformer
from utils.training.transformer import BATCH_TOKENS, SETTINGS, token_batches
from utils.training.translation import (
    BATCH_SIZE,
    EPOCHS,
    HIDDEN_SIZE,
    TRAINING_PAIRS,
    endless_batches,
    pairs_and_words,
    train,
)

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
STEP_TOKENS = 2048  # target tokens in a training step of any length
DECODED = 16  # sentences that are decoded at once
NO_EOS = -1  # a token id that no model generates: every sequence reaches max_len
COMPARED = {"recurrent": "dot attention", "Transformer": "Transformer"}  # in the study of lengths


def build(name: str) -> nn.Module:
    """A model of the comparison, untrained."""
    _, english, french = pairs_and_words()
    settings, sizes = MODELS[name], (len(english), len(french))
    if "positions" in settings:
        return Transformer(*sizes, **SETTINGS | settings)
    return Seq2Seq(*sizes, hidden_size=HIDDEN_SIZE, **settings)


def medians(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Seconds of each run: the median of `rounds`, in which all take turns, after a first one that does not count."""
    seconds = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


# The models of the comparison


def training_speed(
    names: Sequence[str] = tuple(MODELS), epochs: int = EPOCHS, num_steps: int = 60, rounds: int = 3
) -> list[dict]:
    """One row per model: target tokens per second in training, and the seconds that `epochs` take at this speed."""
    pairs = pairs_and_words(TRAINING_PAIRS)[0].train
    target_tokens = epochs * sum(len(pair.french) + 1 for pair in pairs)
    batches = {name: list(islice(stream(name), num_steps)) for name in names}
    runs = {name: partial(train_on, build(name), batches[name]) for name in names}
    rows = []
    for name, seconds in medians(runs, rounds).items():
        speed = sum(int(batch.target_mask.sum()) for batch in batches[name]) / seconds
        rows.append({"name": name, "tokens_per_second": round(speed), "seconds": round(target_tokens / speed, 1)})
    return rows


def train_on(model: nn.Module, batches: Sequence[Batch]) -> None:
    train(model, iter(batches), len(batches))


def stream(name: str) -> Iterator[Batch]:
    """The batches that this model is trained on."""
    data, english, french = pairs_and_words()
    if "positions" in MODELS[name]:
        return token_batches(data.train, english, french, BATCH_TOKENS, seed=0)
    return endless_batches(data.train, english, french, BATCH_SIZE, seed=0)


# Tokens per second against length


def length_speed(
    lengths: Sequence[int] = LENGTHS,
    step_tokens: int = STEP_TOKENS,
    batch: int = DECODED,
    num_steps: int = 3,
    rounds: int = 3,
) -> list[dict]:
    """One row per length of source and target: target tokens per second of both models, in training and in greedy decoding.

    A training step always has `step_tokens` target tokens: few long sequences or many short ones.
    """
    models = {kind: build(name) for kind, name in COMPARED.items()}
    rows = []
    for length in lengths:
        batches = [random_batch(step_tokens // length, length)] * num_steps
        training = {kind: partial(train_on, model, batches) for kind, model in models.items()}
        source, mask, *_ = random_batch(batch, length)
        options = {"bos_id": BOS_ID, "eos_id": NO_EOS, "max_len": length}
        decoding = {kind: partial(greedy_decode, model, source, mask, **options) for kind, model in models.items()}
        row = {"length": length}
        for what, runs, tokens in (
            ("training", training, num_steps * (step_tokens // length) * length),
            ("decoding", decoding, batch * length),
        ):
            row[what] = {kind: round(tokens / seconds) for kind, seconds in medians(runs, rounds).items()}
        rows.append(row)
    return rows


def random_batch(batch: int, length: int) -> Batch:
    _, english, french = pairs_and_words()
    source = torch.randint(len(SPECIAL_TOKENS), len(english), (batch, length))
    target_in, target_out = torch.randint(len(SPECIAL_TOKENS), len(french), (2, batch, length))
    mask = torch.ones(batch, length, dtype=torch.bool)
    return Batch(source, mask, target_in, target_out, target_out != PAD_ID)


def translation_speed(training: dict | None = None, lengths: dict | None = None) -> dict:
    """Both, each with the options that are given."""
    speeds = {"training": training_speed(**training or {}), "lengths": length_speed(**lengths or {})}
    return {"step_tokens": (lengths or {}).get("step_tokens", STEP_TOKENS), **speeds}


def show(result: dict) -> Shown:
    rows = [
        (f"training, {row['name']}", "", f"{row['tokens_per_second']:,}", f"{row['seconds']:,.0f}")
        for row in result["training"]
    ]
    rows += [
        (f"{what}, {COMPARED[kind]}", row["length"], f"{row[what][kind]:,}", "")
        for what in ("training", "decoding")
        for kind in COMPARED
        for row in result["lengths"]
    ]
    return Shown(
        "Speed of recurrent models and Transformers",
        "Target tokens per second. Without a length: the training batches of the comparison, and the seconds that its budget takes at this speed. With a length, of source and target: "
        f"training steps of {STEP_TOKENS:,} target tokens, greedy decoding of {DECODED} sentences at once with cached states, keys and values. Untrained models.",
        ("what", "length", "tokens per second", "training, s"),
        rows,
    )


BENCHMARKS = (
    Benchmark(
        "translation_speed",
        "06",
        translation_speed,
        show,
        {
            "training": {"names": ("dot attention", "Transformer"), "num_steps": 5, "rounds": 1},
            "lengths": {"lengths": (8, 64), "num_steps": 1, "rounds": 1},
        },
    ),
)

"""Training the Transformer on the translation pairs, and the recipe's parts one by one.

Scored on the same held-out pairs as the recurrent models, by the same functions: see `utils.training.translation`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from utils.data.phrases import Pair
from utils.data.tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, Batch, Vocabulary, collate
from utils.models.decoding import beam_search, greedy_decode
from utils.models.self_attention import causal_mask
from utils.models.transformer import Looks, Transformer
from utils.training.cache import cached
from utils.training.metrics import alignment_error
from utils.training.trainer import Schedule, linear_warmup_cosine, noam
from utils.training.translation import (
    TOGETHER,
    TRAINING_PAIRS,
    Trained,
    limit_for,
    measurements,
    pairs_and_words,
    train,
)

STEPS, WIDTH, HEADS, HIDDEN, LAYERS, WORDS = 5600, 96, 4, 256, 2, 384  # words: of the target in a batch
RATE, WARMUP, DECAY = 2.5e-3, 0.05, 0.1
LESSON = {"steps": 1600, "test": 500}  # what a lesson has time for, as arguments of `train_transformer`
SCHEDULES = ("cosine", "noam")
BETAS = (0.9, 0.98)  # the paper's: the scale of a step follows the gradients faster than with 0.999
MARKS = {"start": BOS_ID, "end": EOS_ID, "padding": PAD_ID}  # as decoding wants them
CHOOSING_PAIRS = 500  # validation pairs that decide which head is shown as the alignment


# The recipe


def schedule(name: str, steps: int, rate: float, warmup: float, dim: int) -> tuple[float, Schedule]:
    """A learning rate and its schedule. warmup: the share of the steps in which it rises, 0 for none.

    "cosine": linear warmup to `rate`, then cosine decay to 0. "noam": that of Vaswani et al. (2017), which has no peak to choose,
    only the width and the length of the warmup.
    """
    if name == "cosine":
        return rate, linear_warmup_cosine(steps, warmup)
    if name == "noam":
        return 1.0, noam(dim, max(1, round(warmup * steps)))
    raise ValueError(f"expected a schedule of {', '.join(SCHEDULES)}, got {name!r}")


def groups_of_words(pairs: Sequence[Pair], words: int, generator: torch.Generator) -> list[list[int]]:
    """Places of pairs of like length, as many as fill `words` target words with padding and end tokens counted.

    So there are many short sentences in a batch or few long ones, and every step costs about the same. Random order.
    """
    order = torch.randperm(len(pairs), generator=generator).tolist()
    order.sort(key=lambda one: (len(pairs[one].french), len(pairs[one].english)))
    groups = [[]]
    for one in order:
        if groups[-1] and (len(groups[-1]) + 1) * (len(pairs[one].french) + 1) > words:
            groups.append([])
        groups[-1].append(one)
    return [groups[one] for one in torch.randperm(len(groups), generator=generator).tolist()]


def endless_words(
    pairs: Sequence[Pair], english: Vocabulary, french: Vocabulary, words: int, seed: int
) -> Iterator[Batch]:
    """Batches of about `words` target words, epoch after epoch, each time in another order."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    while True:
        for group in groups_of_words(pairs, words, generator):
            yield collate([pairs[one] for one in group], english, french)


@cached
def train_transformer(
    seed: int = 0,
    *,
    steps: int = STEPS,
    dim: int = WIDTH,
    heads: int = HEADS,
    hidden: int = HIDDEN,
    layers: int = LAYERS,
    norm: str = "pre",
    dropout: float = 0.0,
    tied: str = "none",
    words: int = WORDS,
    rate: float = RATE,
    warmup: float = WARMUP,
    rates: str = "cosine",
    smoothing: float = 0.0,
    decay: float = DECAY,
    pairs: int = TRAINING_PAIRS,
    test: int | None = None,
) -> dict:
    """Train one Transformer and score it on held-out pairs (the first `test` of them, or all).

    words: of the target in a batch; rates, rate and warmup: see `schedule`; decay: see `train`. Returns what `train_translation` does, and "shown",
    the layer and head whose cross-attention serves as the alignment, with the errors on validation pairs that decided it.
    """
    data, english, french = pairs_and_words(pairs)
    settings = {
        "source_words": len(english),
        "target_words": len(french),
        "dim": dim,
        "heads": heads,
        "hidden": hidden,
        "layers": layers,
        "norm": norm,
        "dropout": dropout,
        "tied": tied,
    }
    start = time.perf_counter()
    model, loss = fit(
        settings,
        endless_words(data.train, english, french, words, seed),
        steps,
        *schedule(rates, steps, rate, warmup, dim),
        smoothing,
        decay,
        seed,
    )
    seconds = time.perf_counter() - start
    errors = alignment_errors(TrainedTransformer(model, english, french), data.validation[:CHOOSING_PAIRS])
    shown = best_aligned(errors)
    return {
        "kind": "transformer",
        "seed": seed,
        **measurements(TrainedTransformer(model, english, french, shown), data, test),
        "shown": {"layer": shown.layer, "head": shown.head, "errors": errors},
        "loss": loss,
        "seconds": seconds,
        "settings": settings,
        "pairs": pairs,
    }


def fit(
    settings: dict,
    stream: Iterator[Batch],
    steps: int,
    rate: float,
    multiplier: Schedule,
    smoothing: float,
    decay: float,
    seed: int,
) -> tuple[Transformer, Tensor]:
    """A trained `Transformer(**settings)` and its losses (steps,). The seed is for the first parameters and for dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(**settings)
        return model, train(
            model, stream, steps, rate, schedule=multiplier, smoothing=smoothing, betas=BETAS, decay=decay
        )


@cached
def first_losses(
    warmup: float,
    seed: int = 0,
    *,
    norm: str = "post",
    steps: int = 250,
    dim: int = WIDTH,
    heads: int = HEADS,
    hidden: int = HIDDEN,
    layers: int = LAYERS,
    words: int = WORDS,
    rate: float = 3e-3,
    pairs: int = TRAINING_PAIRS,
) -> Tensor:
    """The losses (steps,) of a short training with this share of warm-up, to compare with another share, or another norm order.

    With the same seed the first parameters and the batches are the same. The rate falls to 0 within these steps, so the last
    losses are what each reached, not where it happened to be.
    """
    data, english, french = pairs_and_words(pairs)
    sizes = {
        "dim": dim,
        "heads": heads,
        "hidden": hidden,
        "layers": layers,
        "norm": norm,
        "dropout": 0.0,
        "tied": "none",
    }
    stream = endless_words(data.train, english, french, words, seed)
    rates = schedule("cosine", steps, rate, warmup, dim)
    settings = {"source_words": len(english), "target_words": len(french), **sizes}
    return fit(settings, stream, steps, *rates, 0.0, 0.0, seed)[1]


def restore_transformer(result: dict) -> "TrainedTransformer":
    """The model of a result of `train_transformer`, ready to translate."""
    model = Transformer(**result["settings"])
    model.load_state_dict(result["state"])
    shown = HeadChoice(result["shown"]["layer"], result["shown"]["head"])
    return TrainedTransformer(model, *pairs_and_words(result["pairs"])[1:], shown)


# A trained model


class HeadChoice(NamedTuple):
    """One attention of a stack: a layer and a head, both from 0; no head means the mean of that layer's heads."""

    layer: int
    head: int | None = None

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        """Each layer's (b, heads, ...) to (b, ...)."""
        layer = weights[self.layer]
        return layer.mean(1) if self.head is None else layer[:, self.head]


@dataclass
class TrainedTransformer(Trained):
    """A trained Transformer with its words: a `Translator`. `shown`: the cross-attention that it shows as its weights."""

    shown: HeadChoice = HeadChoice(-1)

    def __post_init__(self):
        self.model.eval()  # nothing is dropped any more

    def _write(self, batch: Batch, limit: int) -> tuple[Tensor, Tensor]:
        found = greedy_decode(self.model, batch.source, batch.source_mask, limit=limit, need_weights=True, **MARKS)
        return found.words, self.shown.of(found.cross)

    def _look(self, batch: Batch) -> Tensor:
        return self.shown.of(self.looks(batch).cross)

    def stepper(self, batch: Batch, limit: int) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        memory = self.model.encode(batch.source, batch.source_mask)
        cache = self.model.remember(memory, batch.source_mask, limit)

        def step(word: Tensor) -> tuple[Tensor, Tensor]:
            logits, cross = self.model.step(word, cache)
            return logits, self.shown.of(cross)

        return step

    @torch.no_grad()
    def looks(self, batch: Batch) -> Looks:
        """Every attention of the model, with the gold translations given."""
        return self.model(batch.source, batch.source_mask, batch.target_in, need_weights=True)[1]


class Reading(NamedTuple):
    """One pair as the model reads it, with all its attentions, and nothing of padding.

    source: the n tokens that the encoder reads, EOS_ID last; read: the m tokens that the decoder reads, BOS_ID first; said: the
    m tokens that it is to say next. looks: for each layer (heads, n, n), (heads, m, m) and (heads, m, n).
    """

    source: tuple[str, ...]
    read: tuple[str, ...]
    said: tuple[str, ...]
    looks: Looks


def readings(trained: TrainedTransformer, pairs: Sequence[Pair]) -> list[Reading]:
    """Each pair with the gold translation given."""
    found: list[Reading | None] = [None] * len(pairs)
    order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].english))
    for start in range(0, len(order), TOGETHER):
        chosen = order[start : start + TOGETHER]
        looks = trained.looks(collate([pairs[place] for place in chosen], trained.english, trained.french))
        for row, place in enumerate(chosen):
            english, french = pairs[place].english, pairs[place].french
            n, m = len(english) + 1, len(french) + 1
            found[place] = Reading(
                (*english, SPECIAL_TOKENS[EOS_ID]),
                (SPECIAL_TOKENS[BOS_ID], *french),
                (*french, SPECIAL_TOKENS[EOS_ID]),
                Looks(
                    [layer[row, :, :n, :n].clone() for layer in looks.encoder],
                    [layer[row, :, :m, :m].clone() for layer in looks.decoder],
                    [layer[row, :, :m, :n].clone() for layer in looks.cross],
                ),
            )
    return found


def alignment_errors(trained: TrainedTransformer, pairs: Sequence[Pair]) -> Tensor:
    """Alignment error (layers, heads + 1) of each cross-attention head on these pairs; the last column is the heads' mean."""
    crosses = [torch.stack(reading.looks.cross) for reading in readings(trained, pairs)]  # (layers, heads, m, n) each
    crosses = [torch.cat([one, one.mean(1, keepdim=True)], 1) for one in crosses]
    layers, columns = crosses[0].shape[:2]
    return torch.tensor(
        [
            [alignment_error([one[layer, column] for one in crosses], pairs) for column in range(columns)]
            for layer in range(layers)
        ]
    )


def best_aligned(errors: Tensor) -> HeadChoice:
    """Where the smallest error of `alignment_errors` is. Decide this on other pairs than those it is then judged by."""
    layer, column = divmod(int(errors.argmin()), errors.size(1))
    return HeadChoice(layer, column if column < errors.size(1) - 1 else None)


@torch.no_grad()
def confidence(trained: TrainedTransformer, pairs: Sequence[Pair]) -> dict:
    """Over all words of the gold translations, each with those before it given: the share named rightly, the mean probability
    of the likeliest word, and the mean probability of the right one. A model that knows what it knows has the first two equal."""
    right, likeliest, told = [], [], []
    for start in range(0, len(pairs), TOGETHER):
        batch = collate(pairs[start : start + TOGETHER], trained.english, trained.french)
        chances = trained.model(batch.source, batch.source_mask, batch.target_in)[0].softmax(-1)[batch.target_mask]
        words = batch.target_out[batch.target_mask]
        best = chances.max(-1)
        right.append((best.indices == words).float())
        likeliest.append(best.values)
        told.append(chances.gather(1, words[:, None]).squeeze(1))
    names = ("accuracy", "confidence", "right_word")
    return {name: torch.cat(one).mean().item() for name, one in zip(names, (right, likeliest, told), strict=True)}


@torch.no_grad()
def accuracy_from_place(trained: TrainedTransformer, pairs: Sequence[Pair], start: int) -> float:
    """The share of words named rightly, those before given, when source and target stand at the places from `start` on."""
    batch = collate(pairs, trained.english, trained.french)
    model, mask = trained.model, batch.source_mask.unsqueeze(1)
    memory, _ = model.encoder(model.source_vectors(batch.source, start), mask)
    target = model.target_vectors(batch.target_in, start)
    x, _, _ = model.decoder(target, memory, causal_mask(target.size(1)), mask)
    right = model.output(x).argmax(-1) == batch.target_out
    return right[batch.target_mask].float().mean().item()


class Rivals(NamedTuple):
    """One pair, translated greedily and by a beam: the words of each, and the log-probability of each with its end token, and
    that of the right translation."""

    pair: Pair
    greedy: tuple[str, ...]
    beam: tuple[str, ...]
    greedy_log_probability: float
    beam_log_probability: float
    right_log_probability: float


def greedy_and_beam(trained: TrainedTransformer, pairs: Sequence[Pair], width: int = 4) -> list[Rivals]:
    """Each pair translated in both ways, with the same model; in the order of the pairs."""
    found: list[Rivals | None] = [None] * len(pairs)
    order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].english))
    for start in range(0, len(order), TOGETHER):
        chosen = order[start : start + TOGETHER]
        batch = collate([pairs[place] for place in chosen], trained.english, trained.french)
        given = trained.model, batch.source, batch.source_mask
        limit = limit_for(max(len(pairs[place].english) for place in chosen))
        greedy = greedy_decode(*given, limit=limit, **MARKS)
        beam = beam_search(*given, limit=limit, width=width, **MARKS)
        right = _log_probabilities(trained.model, batch)
        for row, place in enumerate(chosen):
            found[place] = Rivals(
                pairs[place],
                _sentence(trained.french, greedy.words[row]),
                _sentence(trained.french, beam.words[row, 0]),
                greedy.log_probability[row].item(),
                beam.log_probability[row, 0].item(),
                right[row].item(),
            )
    return found


@torch.no_grad()
def _log_probabilities(model: Transformer, batch: Batch) -> Tensor:
    """(b,): of each right translation, its end token included."""
    logits = model(batch.source, batch.source_mask, batch.target_in)[0]
    of_words = logits.log_softmax(-1).gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    return of_words.masked_fill(~batch.target_mask, 0.0).sum(-1)


def _sentence(vocabulary: Vocabulary, words: Tensor) -> tuple[str, ...]:
    """The words in front of the end token."""
    numbers = words.tolist()
    return tuple(
        vocabulary.words[number] for number in (numbers[: numbers.index(EOS_ID)] if EOS_ID in numbers else numbers)
    )

"""Training translation models and the table that compares them: the ladder.

The ladder knows a model only by what `Translator` asks for, so whatever can translate gets a row of the same kind, measured
on the same held-out pairs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.phrases import Corpus, Pair, corpus
from utils.data.tokens import BOS_ID, EOS_ID, PAD_ID, Batch, Vocabulary, batches, collate
from utils.models.recurrent import Seq2Seq
from utils.training import trainer
from utils.training.cache import cached
from utils.training.metrics import (
    accuracy_by_length,
    accuracy_by_quarter,
    alignment_error,
    alignment_floor,
    bleu,
    exact_match,
    over_seeds,
    right,
)

TRAINING_PAIRS, STEPS, BATCH, WIDTH = 20_000, 1800, 64, 128
RATE, LARGEST_GRADIENT = 6e-3, 1.0
# What a lesson has time for, as arguments of `train_translation`: smaller, with more but cheaper steps.
LESSON = {"steps": 1600, "width": 96, "size": 32, "rate": 6e-3, "test": 500}
CORPUS_SEED = 1  # the full recipe was found on the corpus of seed 0: no test sentence had a say in it
TOGETHER = 256  # sentences that are translated at once


class Translator(Protocol):
    """What the ladder needs to know of a model."""

    def translate(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """French tokens for English tokens, neither with start or end token."""

    def weights(self, pairs: Sequence[Pair]) -> Sequence[Tensor] | None:
        """Weights (target words, source words) for each pair with its gold translation given; None without attention.

        A model with several layers or heads decides itself which one to show, before it sees these pairs.
        """


# Training


@lru_cache(maxsize=2)
def pairs_and_words(pairs: int = TRAINING_PAIRS) -> tuple[Corpus, Vocabulary, Vocabulary]:
    """The corpus with `pairs` training pairs, and the English and French words of the training pairs."""
    found = corpus(train=pairs, seed=CORPUS_SEED)
    english = Vocabulary.build([pair.english for pair in found.train])
    return found, english, Vocabulary.build([pair.french for pair in found.train])


def word_loss(logits: Tensor, words: Tensor, smoothing: float = 0.0) -> Tensor:
    """The mean surprise over the real words (b, m) of a batch with logits (b, m, vocabulary): padding costs nothing.

    smoothing: this share of what is asked for is spread evenly over all words, the rest is for the right one.
    """
    return F.cross_entropy(logits.flatten(0, 1), words.flatten(), ignore_index=PAD_ID, label_smoothing=smoothing)


def train(
    model: nn.Module,
    stream: Iterator[Batch],
    steps: int,
    rate: float = RATE,
    *,
    schedule: trainer.Schedule | None = None,
    smoothing: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    decay: float = 0.0,
) -> Tensor:
    """Training with teacher forcing, in place; `model(source, source_mask, target)` returns logits first. Returns the losses.

    rate: the learning rate that the schedule multiplies, by default linear warmup and cosine decay. smoothing: of the labels,
    also in the losses returned; decay: weight decay.
    """

    def loss_of_step(step: int) -> Tensor:
        batch = next(stream)
        logits = model(batch.source, batch.source_mask, batch.target_in)[0]
        return word_loss(logits, batch.target_out, smoothing)

    return trainer.train(
        model,
        loss_of_step,
        steps,
        learning_rate=rate,
        schedule=schedule or trainer.linear_warmup_cosine(steps),
        betas=betas,
        weight_decay=decay,
        max_norm=LARGEST_GRADIENT,
    )


def endless(pairs: Sequence[Pair], english: Vocabulary, french: Vocabulary, size: int, seed: int) -> Iterator[Batch]:
    """Batches of like length, epoch after epoch, each time in another order."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    while True:
        yield from batches(pairs, english, french, size, generator)


@cached
def train_translation(
    kind: str,
    seed: int = 0,
    *,
    steps: int = STEPS,
    width: int = WIDTH,
    size: int = BATCH,
    rate: float = RATE,
    cell: str = "lstm",
    bidirectional: bool = True,
    pairs: int = TRAINING_PAIRS,
    test: int | None = None,
) -> dict:
    """Train one model and score it on held-out pairs (the first `test` of them, or all).

    kind: "none", the last state as the only bridge, or the name of a score function. Every kind with the same seed sees the
    same batches in the same order. Returns what `scores` gives, the same for the pairs longer than any in training as
    "longer", loss (steps,), the number of parameters, seconds of training, and what `restore` needs.
    """
    data, english, french = pairs_and_words(pairs)
    settings = {
        "source_vocab_size": len(english),
        "target_vocab_size": len(french),
        "score": None if kind == "none" else kind,
        "hidden_size": width,
        "cell": cell,
        "bidirectional": bidirectional,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Seq2Seq(**settings)
    start = time.perf_counter()
    loss = train(model, endless(data.train, english, french, size, seed), steps, rate)
    seconds = time.perf_counter() - start
    trained = Trained(model, english, french)
    return {
        "kind": kind,
        "seed": seed,
        **measurements(trained, data, test),
        "loss": loss,
        "seconds": seconds,
        "settings": settings,
        "pairs": pairs,
    }


def measurements(trained: "Trained", data: Corpus, test: int | None = None) -> dict:
    """What `scores` gives on the held-out pairs, the same as "longer", the number of parameters, and the parameters."""
    model = trained.model
    return {
        **scores(trained, data.test[:test]),
        "longer": scores(trained, data.longer[:test]),
        "parameters": sum(one.numel() for one in model.parameters()),
        "state": {name: value.detach() for name, value in model.state_dict().items()},
    }


def limit_for(words: int) -> int:
    """How many words a translation of `words` words may have: far more than any right one."""
    return 2 * words + 10


@dataclass
class Trained:
    """A trained model with its words: a `Translator`. For another kind of model, three methods at the end differ."""

    model: nn.Module
    english: Vocabulary
    french: Vocabulary

    def translate(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        return [words for words, _ in self.translate_and_look(sentences)]

    def translate_and_look(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[str], Tensor | None]]:
        """Each translation with the weights (words + 1, source words + 1) it was made with; the last row and column belong to
        the end tokens. A translation that never ends is cut, and has no last row."""
        found = [None] * len(sentences)
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
        for start in range(0, len(order), TOGETHER):
            chosen = order[start : start + TOGETHER]
            for place, one in zip(chosen, self._greedy([sentences[place] for place in chosen]), strict=True):
                found[place] = one
        return found

    def _greedy(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[str], Tensor | None]]:
        batch = collate([Pair(tuple(one), (), ()) for one in sentences], self.english, self.french)
        longest = max(map(len, sentences))
        words, weights = self._write(batch, limit_for(longest))
        found = []
        for row, (sentence, numbers) in enumerate(zip(sentences, words.tolist(), strict=True)):
            numbers = numbers[: limit_for(len(sentence))]  # the same cut in any company
            length = numbers.index(EOS_ID) if EOS_ID in numbers else len(numbers)
            look = None if weights is None else weights[row, : len(numbers[: length + 1]), : len(sentence) + 1].clone()
            found.append(([self.french.words[number] for number in numbers[:length]], look))
        return found

    @torch.no_grad()
    def weights(self, pairs: Sequence[Pair]) -> list[Tensor] | None:
        """Weights (target words + 1, source words + 1) with the gold translation given; the last row and column are the ends."""
        found = [None] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].english))
        for start in range(0, len(order), TOGETHER):
            chosen = order[start : start + TOGETHER]
            batch = collate([pairs[place] for place in chosen], self.english, self.french)
            weights = self._look(batch)
            if weights is None:
                return None
            for row, place in enumerate(chosen):
                pair = pairs[place]
                found[place] = weights[row, : len(pair.french) + 1, : len(pair.english) + 1].clone()
        return found

    def _write(self, batch: Batch, limit: int) -> tuple[Tensor, Tensor | None]:
        """Greedy translations (b, m), padding behind EOS_ID, and the weights (b, m, n) they were made with."""
        return self.model.greedy(batch.source, batch.source_mask, BOS_ID, EOS_ID, limit, PAD_ID)

    def _look(self, batch: Batch) -> Tensor | None:
        """Weights (b, m, n) with the gold translations given."""
        return self.model(batch.source, batch.source_mask, batch.target_in)[1]

    def stepper(self, batch: Batch, limit: int) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
        """A function to call once for each word of a translation of up to `limit` words, BOS_ID first: the last word (b,)
        to logits (b, vocabulary) of the next and the weights (b, n) behind it. It remembers the words before."""
        cache = self.model.new_cache(batch.source, batch.source_mask, limit)

        def step(word: Tensor) -> tuple[Tensor, Tensor | None]:
            logits, weights = self.model.step(word, cache)
            return logits, weights[0].squeeze(1) if weights else None

        return step


def restore(result: dict) -> Trained:
    """The model of a result of `train_translation`."""
    model = Seq2Seq(**result["settings"])
    model.load_state_dict(result["state"])
    return Trained(model, *pairs_and_words(result["pairs"])[1:])


# The ladder


def scores(translator: Translator, pairs: Sequence[Pair]) -> dict:
    """exact, bleu, alignment_error (None without attention), alignment_floor, quarters and by_length (source words)."""
    guesses = translator.translate([pair.english for pair in pairs])
    references = [pair.french for pair in pairs]
    weights = translator.weights(pairs)
    marks, lengths = right(guesses, references), [len(pair.english) for pair in pairs]
    return {
        "exact": exact_match(guesses, references),
        "bleu": bleu(guesses, references),
        "alignment_error": None if weights is None else alignment_error(weights, pairs),
        "alignment_floor": alignment_floor(pairs),
        "quarters": accuracy_by_quarter(marks, lengths),
        "by_length": accuracy_by_length(marks, lengths),
    }


MEASURES = ("exact", "bleu", "alignment_error", "parameters", "seconds")


def spread(rows: Sequence[dict]) -> dict:
    """Rows of one model with different seeds as one row: each measure as {"median", "least", "most"}, None if not measured."""
    found = {"name": rows[0]["name"], "seeds": len(rows)}
    for measure in MEASURES:
        values = [row[measure] for row in rows]
        found[measure] = None if None in values else over_seeds(values)
    return found

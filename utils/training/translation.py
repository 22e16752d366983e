"""Training and evaluation of translation models: recurrent encoder-decoders here, the Transformer in
`utils.training.transformer`. All are evaluated on the same held-out pairs, by the same functions."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.phrases import Corpus, Pair, corpus
from utils.data.tokens import BOS_ID, EOS_ID, PAD_ID, Batch, Vocabulary, batches, collate
from utils.models.decoding import greedy_decode
from utils.models.recurrent import AttentionDecoder, Seq2Seq
from utils.training import metrics, trainer
from utils.training.cache import cached

TRAINING_PAIRS, BATCH_SIZE, HIDDEN_SIZE = 20_000, 64, 128
EPOCHS = 8  # the budget of the comparison: every model sees each training pair this often
NUM_STEPS = EPOCHS * math.ceil(TRAINING_PAIRS / BATCH_SIZE)
LEARNING_RATE, MAX_NORM = 6e-3, 1.0
# The budget of lesson 03, as arguments of `train_translation`: a smaller model, and fewer and cheaper steps.
LESSON = {"num_steps": 1400, "hidden_size": 96, "batch_size": 32, "longer": False}
CORPUS_SEED = 1  # hyperparameters were chosen on the corpus of seed 0: no test sentence had an influence
EVAL_BATCH_SIZE = 256


# Training


@lru_cache(maxsize=2)
def pairs_and_words(num_pairs: int = TRAINING_PAIRS) -> tuple[Corpus, Vocabulary, Vocabulary]:
    """The corpus, and the English and French vocabularies of its training pairs."""
    data = corpus(train=num_pairs, seed=CORPUS_SEED)
    english = Vocabulary.build([pair.english for pair in data.train])
    return data, english, Vocabulary.build([pair.french for pair in data.train])


def token_loss(logits: Tensor, token_ids: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy over the real tokens of logits (b, m, vocab_size) and token_ids (b, m); padding is ignored."""
    return F.cross_entropy(
        logits.flatten(0, 1), token_ids.flatten(), ignore_index=PAD_ID, label_smoothing=label_smoothing
    )


def train(
    model: nn.Module,
    stream: Iterator[Batch],
    num_steps: int,
    learning_rate: float = LEARNING_RATE,
    *,
    schedule: trainer.Schedule | None = None,
    label_smoothing: float = 0.0,
    **options,
) -> Tensor:
    """Training with teacher forcing, in place; `model(source, source_mask, target)` returns logits first.

    schedule: linear warmup and cosine decay by default. options: as of `trainer.Trainer`. Returns the losses
    (num_steps,), with label smoothing if there is any.
    """

    def loss_of_step(step: int) -> Tensor:
        batch = next(stream)
        logits = model(batch.source, batch.source_mask, batch.target_in)[0]
        return token_loss(logits, batch.target_out, label_smoothing)

    schedule = schedule or trainer.linear_warmup_cosine(num_steps)
    options = {"learning_rate": learning_rate, "schedule": schedule, "max_norm": MAX_NORM, **options}
    return trainer.train(model, loss_of_step, num_steps, **options)


def endless_batches(
    pairs: Sequence[Pair], english: Vocabulary, french: Vocabulary, batch_size: int, seed: int
) -> Iterator[Batch]:
    """Batches of similar length, epoch after epoch, shuffled in each."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    while True:
        yield from batches(pairs, english, french, batch_size, generator)


def train_model(
    pairs: Sequence[Pair],
    english: Vocabulary,
    french: Vocabulary,
    score: str | None,
    seed: int = 0,
    *,
    num_steps: int = NUM_STEPS,
    hidden_size: int = HIDDEN_SIZE,
    batch_size: int = BATCH_SIZE,
    embeddings: dict | None = None,
    **settings,
) -> tuple["Trained", Tensor]:
    """Train a recurrent encoder-decoder on sentence pairs; settings: as of `Seq2Seq`. Returns it with its losses.

    With the same seed all scores see the same batches in the same order. embeddings: initial source embeddings, a result
    of `train_skipgram` with dim=hidden_size, rescaled to the standard deviation of the random ones.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Seq2Seq(len(english), len(french), score, hidden_size, **settings)
    if embeddings is not None:
        weight = model.encoder.embedding.weight.data
        known = [word in english for word in embeddings["words"]]
        pretrained = embeddings["embeddings"] * (weight.std() / embeddings["embeddings"].std())
        weight[english.encode(word for word in embeddings["words"] if word in english)] = pretrained[known]
    losses = train(model, endless_batches(pairs, english, french, batch_size, seed), num_steps)
    return Trained(model, english, french), losses


@cached
def train_translation(
    score: str | None,
    seed: int = 0,
    *,
    num_steps: int = NUM_STEPS,
    hidden_size: int = HIDDEN_SIZE,
    batch_size: int = BATCH_SIZE,
    cell: str = "lstm",
    bidirectional: bool = True,
    num_pairs: int = TRAINING_PAIRS,
    num_test: int | None = None,
    longer: bool = True,
    embeddings: dict | None = None,
) -> dict:
    """Train a model on the course's corpus and evaluate it on held-out pairs (the first `num_test` of them, or all),
    and on pairs longer than any in training unless `longer` is False.

    score: the attention score, None for no attention; embeddings: as in `train_model`. Returns the `measurements`, loss
    (num_steps,), seconds of training, and what `restore` needs.
    """
    data, english, french = pairs_and_words(num_pairs)
    settings = {"score": score, "hidden_size": hidden_size, "cell": cell, "bidirectional": bidirectional}
    budget = {"num_steps": num_steps, "batch_size": batch_size, "embeddings": embeddings}
    start = time.perf_counter()
    trained, losses = train_model(data.train, english, french, seed=seed, **settings, **budget)
    seconds = time.perf_counter() - start
    return {
        "seed": seed,
        **measurements(trained, data, num_test, longer),
        "loss": losses,
        "seconds": seconds,
        "settings": settings,
        "num_pairs": num_pairs,
    }


def restore(result: dict) -> "Trained":
    """The model of a result of `train_translation`."""
    _, english, french = pairs_and_words(result["num_pairs"])
    model = Seq2Seq(len(english), len(french), **result["settings"])
    model.load_state_dict(result["state"])
    return Trained(model, english, french)


# A trained model


def limit_for(source_len: int) -> int:
    """The maximum length of a translation: far more than any reference has."""
    return 2 * source_len + 10


@dataclass
class Trained:
    """A trained translation model with its vocabularies. A subclass for other models overrides `attends` and the last two methods."""

    model: nn.Module
    english: Vocabulary
    french: Vocabulary

    @property
    def attends(self) -> bool:
        return isinstance(self.model.decoder, AttentionDecoder)

    def translate(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """French tokens for English tokens, without BOS and EOS."""
        return [words for words, _ in self.translate_with_weights(sentences)]

    def translate_with_weights(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[str], Tensor | None]]:
        """Greedy translations with their attention weights (m + 1, n + 1), where the last row and column are EOS.

        A translation that never ends is cut, and has no last row.
        """
        results = {}
        pairs = [Pair(tuple(sentence), (), ()) for sentence in sentences]
        for indices, batch in self.length_batches(pairs):
            token_ids, weights = self._decode(batch, limit_for(batch.source.size(1) - 1))
            for row, (index, ids) in enumerate(zip(indices, token_ids.tolist(), strict=True)):
                source_len = len(sentences[index])
                ids = ids[: limit_for(source_len)]  # the same cut in every batch
                length = ids.index(EOS_ID) if EOS_ID in ids else len(ids)
                own = None if weights is None else weights[row, : min(length + 1, len(ids)), : source_len + 1].clone()
                results[index] = [self.french.words[token_id] for token_id in ids[:length]], own
        return [results[index] for index in range(len(sentences))]

    @torch.no_grad()
    def weights(self, pairs: Sequence[Pair]) -> list[Tensor] | None:
        """Attention weights (m + 1, n + 1) of each pair under teacher forcing; None without attention."""
        results = {}
        for indices, batch in self.length_batches(pairs):
            weights = self._teacher_forced(batch)
            if weights is None:
                return None
            for row, index in enumerate(indices):
                pair = pairs[index]
                results[index] = weights[row, : len(pair.french) + 1, : len(pair.english) + 1].clone()
        return [results[index] for index in range(len(pairs))]

    def length_batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], Batch]]:
        """Batches of similar source length, each with the indices of its pairs."""
        order = sorted(range(len(pairs)), key=lambda index: len(pairs[index].english))
        for start in range(0, len(order), EVAL_BATCH_SIZE):
            indices = order[start : start + EVAL_BATCH_SIZE]
            yield indices, collate([pairs[index] for index in indices], self.english, self.french)

    def _decode(self, batch: Batch, max_len: int) -> tuple[Tensor, Tensor | None]:
        """Greedy translations (b, m) with their attention weights (b, m, n)."""
        special_ids = {"bos_id": BOS_ID, "eos_id": EOS_ID, "pad_id": PAD_ID}
        decoded = greedy_decode(
            self.model, batch.source, batch.source_mask, max_len=max_len, need_weights=self.attends, **special_ids
        )
        return decoded.token_ids, decoded.cross[0, :, 0] if self.attends else None

    def _teacher_forced(self, batch: Batch) -> Tensor | None:
        """Attention weights (b, m, n) under teacher forcing."""
        return self.model(batch.source, batch.source_mask, batch.target_in)[1]


# Evaluation


def measurements(trained: Trained, data: Corpus, num_test: int | None = None, longer: bool = True) -> dict:
    """The `scores` on the test pairs; as "longer" those on pairs longer than any in training, or None; the number of
    parameters; and the parameters."""
    model = trained.model
    return {
        **scores(trained, data.test[:num_test]),
        "longer": scores(trained, data.longer[:num_test]) if longer else None,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "state": {name: value.detach() for name, value in model.state_dict().items()},
    }


@torch.no_grad()
def correct_tokens(trained: Trained, pairs: Sequence[Pair]) -> list[Tensor]:
    """For each pair, which tokens of the reference (m + 1,), EOS included, are the argmax given the tokens before them.

    Greedy decoding gives the reference exactly where all of them are: up to the first error both prefixes are the same.
    """
    results = {}
    for indices, batch in trained.length_batches(pairs):
        logits = trained.model(batch.source, batch.source_mask, batch.target_in)[0]
        for index, row, mask in zip(indices, logits.argmax(-1) == batch.target_out, batch.target_mask, strict=True):
            results[index] = row[mask]
    return [results[index] for index in range(len(pairs))]


def scores(trained: Trained, pairs: Sequence[Pair]) -> dict:
    """exact, bleu, alignment_error (None without attention), alignment_floor, quarters and by_length (source tokens)."""
    translations = trained.translate([pair.english for pair in pairs])
    references = [pair.french for pair in pairs]
    weights = trained.weights(pairs)
    correct, lengths = metrics.correct(translations, references), [len(pair.english) for pair in pairs]
    return {
        "exact": metrics.exact_match(translations, references),
        "bleu": metrics.bleu(translations, references),
        "alignment_error": None if weights is None else metrics.alignment_error(weights, pairs),
        "alignment_floor": metrics.alignment_floor(pairs),
        "quarters": metrics.accuracy_by_quarter(correct, lengths),
        "by_length": metrics.accuracy_by_length(correct, lengths),
    }

"""The translator of lesson 06, pretrained on unpaired sentences by span corruption (T5, arXiv:1910.10683), then fine-tuned on few pairs.

One vocabulary and one embedding matrix serve both languages, the sentinel tokens and the output layer, with and without
pretraining. No unpaired French sentence is the translation of an unpaired English one, of a training pair or of a held-out pair.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch

from utils.data.bpe import SPECIAL_TOKENS as BPE_SPECIAL_TOKENS
from utils.data.phrases import Pair, corpus
from utils.data.tokens import BOS_ID, EOS_ID, Batch, Vocabulary, pad
from utils.data.tokens import SPECIAL_TOKENS as WORD_SPECIAL_TOKENS
from utils.models.language_models import parameter_count
from utils.models.transformer import Transformer
from utils.training import metrics
from utils.training.cache import cached
from utils.training.pretraining import corrupt_spans
from utils.training.seeds import seeded
from utils.training.trainer import linear_warmup_cosine
from utils.training.transformer import (
    BATCH_TOKENS,
    BETAS,
    WEIGHT_DECAY,
    TrainedTransformer,
    token_batches,
    token_buckets,
)
from utils.training.transformer import SETTINGS as TRANSLATOR_SETTINGS
from utils.training.translation import CORPUS_SEED, train

NUM_PAIRS = (100, 300, 1000, 3000, 10_000)
NUM_UNPAIRED = 20_000  # sentences of each language
MASK_PROB, MEAN_SPAN_LENGTH = 0.5, 3.0
PRETRAINING_STEPS, PRETRAINING_TOKENS, PRETRAINING_RATE = 4000, 512, 2.5e-3
FINE_TUNING_STEPS, LEARNING_RATE = 2000, 1e-3
SETTINGS = TRANSLATOR_SETTINGS | {"tied": "all", "dropout": 0.1}

Sentence = tuple[str, ...]


# Text


class Texts(NamedTuple):
    pairs: tuple[Pair, ...]  # for fine-tuning
    english: tuple[Sentence, ...]  # unpaired, for pretraining
    french: tuple[Sentence, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    vocabulary: Vocabulary  # of both languages; the ids of the sentinel tokens are those of `utils.data.bpe`


@lru_cache(maxsize=1)
def texts(num_pairs: int = max(NUM_PAIRS), num_unpaired: int = NUM_UNPAIRED) -> Texts:
    """The first `num_pairs` training pairs of lesson 06, then English sentences, then French ones of other pairs."""
    data = corpus(train=num_pairs + 2 * num_unpaired, seed=CORPUS_SEED)
    pairs, for_english, for_french = (
        data.train[:num_pairs],
        data.train[num_pairs : num_pairs + num_unpaired],
        data.train[num_pairs + num_unpaired :],
    )
    english = tuple(pair.english for pair in for_english)
    known = {pair.french for part in (pairs, for_english, data.validation, data.test) for pair in part}
    french = tuple(pair.french for pair in for_french if pair.french not in known)
    words = Vocabulary.build([*english, *french, *(side for pair in pairs for side in (pair.english, pair.french))])
    new_special = BPE_SPECIAL_TOKENS[len(WORD_SPECIAL_TOKENS) :]  # [MASK], which is not used, and the sentinel tokens
    vocabulary = Vocabulary([*new_special, *words.words[len(WORD_SPECIAL_TOKENS) :]])
    return Texts(pairs, english, french, data.validation, data.test, vocabulary)


def span_batches(
    sentences: Sequence[Sentence], vocabulary: Vocabulary, batch_tokens: int, seed: int
) -> Iterator[Batch]:
    """Endless batches of span corruption, corrupted again in each epoch: spans removed from the source, spans as the target."""
    generator = torch.Generator().manual_seed(20_000 + seed)
    token_ids = [torch.tensor(vocabulary.encode(sentence)) for sentence in sentences]
    lengths = [Pair(sentence, sentence) for sentence in sentences]
    while True:
        for bucket in token_buckets(lengths, batch_tokens, generator):
            corrupted = [corrupt_spans(token_ids[i], MASK_PROB, MEAN_SPAN_LENGTH, generator) for i in bucket]
            sources, targets = ([part.tolist() for part in column] for column in zip(*corrupted, strict=True))
            source, source_mask = pad([[*row, EOS_ID] for row in sources])
            target_in, target_mask = pad([[BOS_ID, *row] for row in targets])
            target_out, _ = pad([[*row, EOS_ID] for row in targets])
            yield Batch(source, source_mask, target_in, target_out, target_mask)


# Training


def _train(model: Transformer, batches: Iterator[Batch], num_steps: int, learning_rate: float) -> torch.Tensor:
    """With the recipe of lesson 06: AdamW, linear warmup, cosine decay."""
    schedule = linear_warmup_cosine(num_steps)
    return train(model, batches, num_steps, learning_rate, schedule=schedule, betas=BETAS, weight_decay=WEIGHT_DECAY)


@cached
def pretrain_translator(seed: int = 0, *, num_steps: int = PRETRAINING_STEPS, num_unpaired: int = NUM_UNPAIRED) -> dict:
    """Span corruption on the unpaired sentences of both languages. Returns state, loss (num_steps,) and seconds."""
    text = texts(num_unpaired=num_unpaired)
    start = time.perf_counter()
    with seeded(seed):
        model = Transformer(len(text.vocabulary), len(text.vocabulary), **SETTINGS)
        batches = span_batches([*text.english, *text.french], text.vocabulary, PRETRAINING_TOKENS, seed)
        losses = _train(model, batches, num_steps, PRETRAINING_RATE)
    state = {name: value.detach() for name, value in model.state_dict().items()}
    return {"state": state, "loss": losses, "seconds": time.perf_counter() - start}


@cached
def train_on_pairs(
    num_pairs: int,
    seed: int = 0,
    *,
    pretraining_steps: int = PRETRAINING_STEPS,
    num_steps: int = FINE_TUNING_STEPS,
    learning_rate: float = LEARNING_RATE,
    num_unpaired: int = NUM_UNPAIRED,
) -> dict:
    """Train on `num_pairs` pairs, drawn by the seed, from a pretrained or (pretraining_steps=0) a random initialization.

    Returns exact and bleu on the test pairs; validation, the exact match on validation pairs; covered, the fraction of test
    sentences whose every English word occurs in the training pairs, and exact_covered, the exact match on these; loss
    (num_steps,); parameters; seconds.
    """
    text = texts(num_unpaired=num_unpaired)
    order = torch.randperm(len(text.pairs), generator=torch.Generator().manual_seed(seed)).tolist()
    pairs = [text.pairs[index] for index in order[:num_pairs]]
    start = time.perf_counter()
    with seeded(seed):
        model = Transformer(len(text.vocabulary), len(text.vocabulary), **SETTINGS)
        if pretraining_steps:
            pretrained = pretrain_translator(seed, num_steps=pretraining_steps, num_unpaired=num_unpaired)
            model.load_state_dict(pretrained["state"])
            start = time.perf_counter()
        batches = token_batches(pairs, text.vocabulary, text.vocabulary, BATCH_TOKENS, seed)
        losses = _train(model, batches, num_steps, learning_rate)
    seconds = time.perf_counter() - start
    trained = TrainedTransformer(model, text.vocabulary, text.vocabulary)
    seen = {word for pair in pairs for word in pair.english}
    covered = [seen.issuperset(pair.english) for pair in text.test]
    marks, translations = translate_and_mark(trained, text.test)
    return {
        "exact": statistics.fmean(marks),
        "bleu": metrics.bleu(translations, [pair.french for pair in text.test]),
        "validation": statistics.fmean(translate_and_mark(trained, text.validation[:500])[0]),
        "covered": statistics.fmean(covered),
        "exact_covered": statistics.fmean([mark for mark, known in zip(marks, covered, strict=True) if known] or [0.0]),
        "loss": losses,
        "parameters": parameter_count(model),
        "seconds": seconds,
    }


def translate_and_mark(trained: TrainedTransformer, pairs: Sequence[Pair]) -> tuple[list[bool], list[list[str]]]:
    """For each pair, whether its greedy translation is the reference; and the translations."""
    translations = trained.translate([pair.english for pair in pairs])
    return metrics.correct(translations, [pair.french for pair in pairs]), translations

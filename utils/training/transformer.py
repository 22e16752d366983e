"""Training the encoder-decoder Transformer (Vaswani et al., 2017, arXiv:1706.03762) to translate, and its attention weights.

Evaluated on the same held-out pairs as the recurrent models, by the same functions: see `utils.training.translation`.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from utils.data.phrases import Pair
from utils.data.tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, Batch, Vocabulary, collate
from utils.models.attention import causal_mask, padding_mask
from utils.models.decoding import beam_search, greedy_decode
from utils.models.transformer import AttentionWeights, Transformer
from utils.training.cache import cached
from utils.training.metrics import alignment_error
from utils.training.seeds import seeded
from utils.training.trainer import linear_warmup_cosine
from utils.training.translation import (
    TRAINING_PAIRS,
    Trained,
    limit_for,
    measurements,
    pairs_and_words,
    train,
)

BATCH_TOKENS = 384  # target tokens in a batch, padding included
SIZES = {"dim": 96, "num_heads": 4, "hidden_dim": 256, "num_layers": 2}
SETTINGS = {**SIZES, "norm_first": True, "dropout": 0.0, "tied": "none", "positions": "sinusoidal"}  # of `Transformer`
LEARNING_RATE, WARMUP_RATIO, WEIGHT_DECAY = 2.5e-3, 0.05, 0.1
BETAS = (0.9, 0.98)  # of Vaswani et al. (2017)
LESSON = {"num_steps": 1600, "num_test": 500}  # the budget of a lesson, as arguments of `train_transformer`
SPECIAL_IDS = {"bos_id": BOS_ID, "eos_id": EOS_ID, "pad_id": PAD_ID}
SELECTION_PAIRS = 500  # validation pairs that select the alignment head


# Training


def token_buckets(pairs: Sequence[Pair], batch_tokens: int, generator: torch.Generator) -> list[list[int]]:
    """Indices of pairs of similar length, up to `batch_tokens` target tokens with padding and EOS, in random order.

    Many short sentences or few long ones: every step costs about the same.
    """
    order = torch.randperm(len(pairs), generator=generator).tolist()
    order.sort(key=lambda index: (len(pairs[index].french), len(pairs[index].english)))
    buckets = [[]]
    for index in order:
        if buckets[-1] and (len(buckets[-1]) + 1) * (len(pairs[index].french) + 1) > batch_tokens:
            buckets.append([])
        buckets[-1].append(index)
    return [buckets[index] for index in torch.randperm(len(buckets), generator=generator).tolist()]


def steps_per_epoch(pairs: Sequence[Pair], batch_tokens: int = BATCH_TOKENS) -> int:
    return len(token_buckets(pairs, batch_tokens, torch.Generator()))


def token_batches(
    pairs: Sequence[Pair], english: Vocabulary, french: Vocabulary, batch_tokens: int, seed: int
) -> Iterator[Batch]:
    """Endless batches of about `batch_tokens` target tokens, shuffled in each epoch."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    while True:
        for bucket in token_buckets(pairs, batch_tokens, generator):
            yield collate([pairs[index] for index in bucket], english, french)


def _fit(
    seed: int, num_pairs: int, num_steps: int, warmup_ratio: float, settings: dict, batch_tokens: int, **options
) -> tuple[Transformer, Tensor]:
    """A trained Transformer and its losses (num_steps,). The seed is for initialization, dropout and batches."""
    data, english, french = pairs_and_words(num_pairs)
    batches = token_batches(data.train, english, french, batch_tokens, seed)
    schedule = linear_warmup_cosine(num_steps, warmup_ratio)
    with seeded(seed):
        model = Transformer(len(english), len(french), **settings)
        return model, train(model, batches, num_steps, schedule=schedule, betas=BETAS, **options)


@cached
def train_transformer(
    seed: int = 0,
    *,
    num_steps: int,
    batch_tokens: int = BATCH_TOKENS,
    warmup_ratio: float = WARMUP_RATIO,
    label_smoothing: float = 0.0,
    weight_decay: float = WEIGHT_DECAY,
    num_pairs: int = TRAINING_PAIRS,
    num_test: int | None = None,
    **changes,
) -> dict:
    """Train a Transformer and evaluate it on held-out pairs (the first `num_test` of them, or all).

    Linear warmup over a share of the steps, then cosine decay. changes: of SETTINGS. Returns what `train_translation` does,
    and "alignment_head": the layer and head whose cross-attention serves as the alignment, with the validation errors that
    selected it.
    """
    data, english, french = pairs_and_words(num_pairs)
    settings, options = SETTINGS | changes, {"label_smoothing": label_smoothing, "weight_decay": weight_decay}
    start = time.perf_counter()
    model, losses = _fit(
        seed, num_pairs, num_steps, warmup_ratio, settings, batch_tokens, learning_rate=LEARNING_RATE, **options
    )
    seconds = time.perf_counter() - start
    errors = alignment_errors(TrainedTransformer(model, english, french), data.validation[:SELECTION_PAIRS])
    head = best_alignment_head(errors)
    return {
        **measurements(TrainedTransformer(model, english, french, head), data, num_test),
        "alignment_head": {"layer": head.layer, "head": head.head, "errors": errors},
        "loss": losses,
        "seconds": seconds,
        "settings": settings,
        "num_pairs": num_pairs,
    }


@cached
def warmup_losses(
    seed: int,
    num_layers: int,
    norm_first: bool,
    warmup_ratio: float,
    *,
    num_steps: int = 400,
    num_pairs: int = TRAINING_PAIRS,
) -> Tensor:
    """The losses (num_steps,) of a short run at the learning rate of the lesson, within the first epoch: every batch is new."""
    settings = SETTINGS | {"num_layers": num_layers, "norm_first": norm_first}
    options = {"learning_rate": LEARNING_RATE, "weight_decay": WEIGHT_DECAY}
    return _fit(seed, num_pairs, num_steps, warmup_ratio, settings, BATCH_TOKENS, **options)[1]


def restore_transformer(result: dict) -> "TrainedTransformer":
    """The model of a result of `train_transformer`, ready to translate."""
    _, english, french = pairs_and_words(result["num_pairs"])
    model = Transformer(len(english), len(french), **result["settings"])
    model.load_state_dict(result["state"])
    head = HeadChoice(result["alignment_head"]["layer"], result["alignment_head"]["head"])
    return TrainedTransformer(model, english, french, head)


# A trained model


class HeadChoice(NamedTuple):
    """An attention head: its layer and its number, both from 0; None for the mean over the heads of the layer."""

    layer: int
    head: int | None = None

    def select(self, weights: Sequence[Tensor]) -> Tensor:
        """For each layer (b, num_heads, ...) to (b, ...)."""
        layer = weights[self.layer]
        return layer.mean(1) if self.head is None else layer[:, self.head]


@dataclass
class TrainedTransformer(Trained):
    """A trained Transformer with its vocabularies. alignment_head: the cross-attention that serves as the alignment."""

    alignment_head: HeadChoice = HeadChoice(-1)
    attends = True

    def __post_init__(self):
        self.model.eval()

    def _decode(self, batch: Batch, limit: int) -> tuple[Tensor, Tensor]:
        options = {"max_len": limit, "need_weights": True, **SPECIAL_IDS}
        decoded = greedy_decode(self.model, batch.source, batch.source_mask, **options)
        return decoded.token_ids, self.alignment_head.select(decoded.cross)

    def _teacher_forced(self, batch: Batch) -> Tensor:
        return self.alignment_head.select(self.attention_weights(batch).cross)

    @torch.no_grad()
    def attention_weights(self, batch: Batch) -> AttentionWeights:
        """All attention weights of the model under teacher forcing."""
        return self.model(batch.source, batch.source_mask, batch.target_in, need_weights=True)[1]


class PairAttention(NamedTuple):
    """Attention weights for one pair under teacher forcing, without padding.

    source: n tokens, EOS last; target_in: m tokens, BOS first; target_out: the m tokens to predict.
    weights: for each layer (num_heads, n, n), (num_heads, m, m) and (num_heads, m, n).
    """

    source: tuple[str, ...]
    target_in: tuple[str, ...]
    target_out: tuple[str, ...]
    weights: AttentionWeights


def pair_attention(trained: TrainedTransformer, pairs: Sequence[Pair]) -> list[PairAttention]:
    results: dict[int, PairAttention] = {}
    for indices, batch in trained.length_batches(pairs):
        weights = trained.attention_weights(batch)
        for row, index in enumerate(indices):
            english, french = pairs[index].english, pairs[index].french
            n, m = len(english) + 1, len(french) + 1
            results[index] = PairAttention(
                (*english, SPECIAL_TOKENS[EOS_ID]),
                (SPECIAL_TOKENS[BOS_ID], *french),
                (*french, SPECIAL_TOKENS[EOS_ID]),
                AttentionWeights(
                    [layer[row, :, :n, :n].clone() for layer in weights.encoder],
                    [layer[row, :, :m, :m].clone() for layer in weights.decoder],
                    [layer[row, :, :m, :n].clone() for layer in weights.cross],
                ),
            )
    return [results[index] for index in range(len(pairs))]


def alignment_errors(trained: TrainedTransformer, pairs: Sequence[Pair]) -> Tensor:
    """Alignment error rate (num_layers, num_heads + 1) of each cross-attention head; the last column is the mean head."""
    cross = [torch.stack(pair.weights.cross) for pair in pair_attention(trained, pairs)]  # (layers, heads, m, n) each
    cross = [torch.cat([weights, weights.mean(1, keepdim=True)], 1) for weights in cross]
    num_layers, num_columns = cross[0].shape[:2]
    return torch.tensor(
        [
            [alignment_error([weights[layer, column] for weights in cross], pairs) for column in range(num_columns)]
            for layer in range(num_layers)
        ]
    )


def best_alignment_head(errors: Tensor) -> HeadChoice:
    """The head with the smallest of the `alignment_errors`. Select it on other pairs than those it is tested on."""
    layer, column = divmod(int(errors.argmin()), errors.size(1))
    return HeadChoice(layer, column if column < errors.size(1) - 1 else None)


@torch.no_grad()
def confidence(trained: TrainedTransformer, pairs: Sequence[Pair]) -> dict:
    """Accuracy and confidence (mean probability of the prediction) over all target tokens under teacher forcing. In a
    calibrated model the two are equal."""
    correct, confidences = [], []
    for _, batch in trained.length_batches(pairs):
        probs = trained.model(batch.source, batch.source_mask, batch.target_in)[0].softmax(-1)[batch.target_mask]
        targets = batch.target_out[batch.target_mask]
        best = probs.max(-1)
        correct.append((best.indices == targets).float())
        confidences.append(best.values)
    return {"accuracy": torch.cat(correct).mean().item(), "confidence": torch.cat(confidences).mean().item()}


@torch.no_grad()
def accuracy_from_position(trained: TrainedTransformer, pairs: Sequence[Pair], start: int) -> float:
    """Accuracy under teacher forcing when source and target are at the positions from `start` on."""
    batch = collate(pairs, trained.english, trained.french)
    model, mask = trained.model, padding_mask(batch.source_mask)
    memory, _ = model.encoder(model.source_embedding(batch.source, start), mask)
    target = model.target_embedding(batch.target_in, start)
    x, _, _ = model.decoder(target, memory, causal_mask(target.size(1)), mask)
    correct = model.lm_head(x).argmax(-1) == batch.target_out
    return correct[batch.target_mask].float().mean().item()


# Greedy decoding and beam search


class GreedyAndBeam(NamedTuple):
    """A pair, its greedy and its beam-search translation, their log-probabilities, and that of the reference, all with EOS."""

    pair: Pair
    greedy: tuple[str, ...]
    beam: tuple[str, ...]
    greedy_log_prob: float
    beam_log_prob: float
    reference_log_prob: float


def greedy_and_beam(
    trained: TrainedTransformer, pairs: Sequence[Pair], num_beams: int = 4, length_penalty: float = 0.0
) -> list[GreedyAndBeam]:
    results: dict[int, GreedyAndBeam] = {}
    for indices, batch in trained.length_batches(pairs):
        inputs = trained.model, batch.source, batch.source_mask
        options = {"max_len": limit_for(len(pairs[indices[-1]].english)), **SPECIAL_IDS}
        greedy = greedy_decode(*inputs, **options)
        beam = beam_search(*inputs, num_beams=num_beams, length_penalty=length_penalty, **options)
        reference = _reference_log_probs(trained.model, batch)
        for row, index in enumerate(indices):
            results[index] = GreedyAndBeam(
                pairs[index],
                _words(trained.french, greedy.token_ids[row]),
                _words(trained.french, beam.token_ids[row, 0]),
                greedy.log_probs[row].item(),
                beam.log_probs[row, 0].item(),
                reference[row].item(),
            )
    return [results[index] for index in range(len(pairs))]


@torch.no_grad()
def _reference_log_probs(model: Transformer, batch: Batch) -> Tensor:
    """Log-probability (b,) of each reference translation with its EOS token."""
    log_probs = model(batch.source, batch.source_mask, batch.target_in)[0].log_softmax(-1)
    target_log_probs = log_probs.gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    return target_log_probs.masked_fill(~batch.target_mask, 0.0).sum(-1)


def _words(vocabulary: Vocabulary, token_ids: Tensor) -> tuple[str, ...]:
    """All tokens before EOS, special ones too: these make a translation wrong."""
    words = [vocabulary.words[token_id] for token_id in token_ids.tolist()]
    return tuple(words[: words.index(SPECIAL_TOKENS[EOS_ID])] if SPECIAL_TOKENS[EOS_ID] in words else words)

"""Pretraining on unlabeled text, by three objectives with the same layers:

    masked   masked language modeling (BERT, arXiv:1810.04805): an encoder predicts masked tokens from both sides
    causal   causal language modeling (GPT): a decoder predicts the next token
    spans    span corruption (T5, arXiv:1910.10683): an encoder-decoder generates the spans that were cut out

The text is the docstrings and the manual of Python; validation is on held-out modules and manual pages. Per step, causal language
modeling learns fastest: every token is a target.
"""

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.bpe import CLS_ID, MASK_ID, SENTINEL_IDS, SEP_ID, SPECIAL_TOKENS, BPETokenizer, train_bpe
from utils.data.docstrings import pretraining_texts
from utils.data.offensive import inoffensive
from utils.data.real_text import topics_file, windows
from utils.models.decoding import generate, greedy_decode
from utils.models.language_models import CausalLM, EncoderConfig, MaskedLM, parameter_count
from utils.models.transformer import Transformer
from utils.training.cache import cached
from utils.training.ngrams import ngram_losses
from utils.training.trainer import IGNORE_INDEX, linear_warmup_cosine, train

VOCAB_SIZE, LENGTH = 3000, 64
BETAS, MAX_NORM = (0.9, 0.98), 1.0
EVAL_BATCH_SIZE = 64


# Text


@dataclass(frozen=True)
class Corpus:
    """Tokenized text. train (n,): [CLS] text [SEP] [CLS] text [SEP] ...; held_out (windows, length + 1)."""

    tokenizer: BPETokenizer
    train: Tensor
    held_out: Tensor

    @property
    def token_counts(self) -> Tensor:
        """(vocab_size,): how often each token occurs in the training text."""
        return self.train.bincount(minlength=len(self.tokenizer)).float()


_texts = functools.cache(pretraining_texts)


@functools.cache
def corpus(vocab_size: int = VOCAB_SIZE, length: int = LENGTH, num_texts: int | None = None) -> Corpus:
    """The text, or the first `num_texts` texts of each part, with a tokenizer trained on its training part."""
    return tokenized_corpus(train_bpe(_texts().train[:num_texts], vocab_size), length, num_texts)


def tokenized_corpus(tokenizer: BPETokenizer, length: int = LENGTH, num_texts: int | None = None) -> Corpus:
    """The text with a given tokenizer. A window may start and end anywhere and contain several texts."""
    train_ids, validation_ids = (_token_stream(tokenizer, part[:num_texts]) for part in _texts())
    return Corpus(tokenizer, train_ids, windows([validation_ids], length))


def _token_stream(tokenizer: BPETokenizer, texts: Sequence[str]) -> Tensor:
    return torch.tensor([token for ids in tokenizer.encode_batch(texts) for token in (CLS_ID, *ids, SEP_ID)])


def sample_windows(token_ids: Tensor, length: int, count: int, generator: torch.Generator) -> Tensor:
    """(count, length): random windows of token_ids (n,)."""
    starts = torch.randint(0, len(token_ids) - length + 1, (count, 1), generator=generator)
    return token_ids[starts + torch.arange(length)]


# Corruption


def mask_tokens(
    token_ids: Tensor,
    attention_mask: Tensor,
    mask_id: int,
    vocab_size: int,
    mask_prob: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """BERT's masking (Devlin et al., 2019): token_ids (b, n) to inputs, targets and chosen, all (b, n).

    Each token is chosen with probability mask_prob, but never padding or a special token. Of the chosen, 80 % become
    mask_id, 10 % a random ordinary token, and 10 % stay. Targets are IGNORE_INDEX where not chosen.
    """
    ordinary = attention_mask & (token_ids >= len(SPECIAL_TOKENS))
    chosen = (torch.rand(token_ids.shape, generator=generator) < mask_prob) & ordinary
    draw = torch.rand(token_ids.shape, generator=generator)
    random_ids = torch.randint(len(SPECIAL_TOKENS), vocab_size, token_ids.shape, generator=generator)
    inputs = torch.where(chosen & (draw < 0.8), mask_id, token_ids)
    inputs = torch.where(chosen & (draw >= 0.8) & (draw < 0.9), random_ids, inputs)
    return inputs, torch.where(chosen, token_ids, IGNORE_INDEX), chosen


def corrupt_spans(
    token_ids: Tensor, mask_prob: float, mean_span_length: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Span corruption (T5; Raffel et al., 2020): one text (n,) to source and target, with a sentinel token for each span.

        a b c d e f g  ->  a [SENTINEL0] d e [SENTINEL1] g  and  [SENTINEL0] b c [SENTINEL1] f [SENTINEL2]

    A last sentinel ends the target. The number of removed tokens, round(mask_prob n), and of spans depend on n alone, so
    that texts of one length give sources and targets of one length.
    """
    ids, n = token_ids.tolist(), len(token_ids)
    num_removed = min(max(round(mask_prob * n), 1), n - 1)
    num_spans = max(1, min(round(num_removed / mean_span_length), num_removed, n - num_removed, len(SENTINEL_IDS) - 1))
    span_lengths = _random_partition(num_removed, num_spans, generator)
    first, *between = _random_partition(n - num_removed, num_spans, generator)
    # Between two spans at least one token stays; before the first and after the last there may be none.
    before = int(torch.randint(0, first + 1, (1,), generator=generator))
    position, source, target = 0, [], []
    for sentinel_id, kept, removed in zip(SENTINEL_IDS[:num_spans], [before, *between], span_lengths, strict=True):
        start = position + kept
        source += [*ids[position:start], sentinel_id]
        target += [sentinel_id, *ids[start : start + removed]]
        position = start + removed
    target.append(SENTINEL_IDS[num_spans])
    return token_ids.new_tensor(source + ids[position:]), token_ids.new_tensor(target)


def _random_partition(total: int, parts: int, generator: torch.Generator) -> list[int]:
    """`total` as a sum of positive integers, every composition equally likely."""
    borders = sorted(torch.randperm(total - 1, generator=generator)[: parts - 1].tolist())
    ends = [*(border + 1 for border in borders), total]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


# Objectives


OBJECTIVES = ("masked", "causal", "spans")
# BERT masks 15 % of the tokens and T5 removes spans of 3. In a minute of training a model learns more from more targets
# per step, and from longer spans.
MASK_PROBS = {"masked": 0.3, "causal": 1.0, "spans": 0.5}
MEAN_SPAN_LENGTH = 8.0


class Objective:
    """Inputs and targets of a pretraining objective. Called: logits (k, vocab_size) and targets (k,) of windows (b, length + 1).

    `corrupt` and `logits` are the two halves of a call, for a batch that several workers share: all draw the same masks, and
    each computes the logits of its own rows.
    """

    def __init__(self, name: str, vocab_size: int):
        self.name, self.vocab_size, self.mask_prob = name, vocab_size, MASK_PROBS[name]

    def __call__(self, model: nn.Module, windows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self.logits(model, *self.corrupt(windows, generator))

    def corrupt(self, windows: Tensor, generator: torch.Generator) -> tuple[list[Tensor], Tensor]:
        """The inputs of the model, one or two (b, n), and targets (b, m), IGNORE_INDEX where nothing is predicted."""
        token_ids = windows[:, :-1]
        if self.name == "causal":
            return [token_ids], windows[:, 1:]
        if self.name == "masked":
            attention_mask = torch.ones_like(token_ids, dtype=torch.bool)
            inputs, targets, _ = mask_tokens(
                token_ids, attention_mask, MASK_ID, self.vocab_size, self.mask_prob, generator
            )
            return [inputs], targets
        pairs = [corrupt_spans(row, self.mask_prob, MEAN_SPAN_LENGTH, generator) for row in token_ids]
        source, target = (torch.stack(column) for column in zip(*pairs, strict=True))
        return [source, torch.cat([torch.full_like(target[:, :1], CLS_ID), target[:, :-1]], 1)], target

    def logits(self, model: nn.Module, inputs: Sequence[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (k, vocab_size) and targets (k,) of the predicted tokens."""
        if self.name == "spans":
            source, target = inputs
            return model(source, None, target)[0].flatten(0, 1), targets.flatten()
        if self.name == "causal":
            return model(*inputs).flatten(0, 1), targets.flatten()
        chosen = targets != IGNORE_INDEX
        # Only the chosen positions go through the output layer, the most expensive of all.
        return model.lm_head(model.encode(*inputs)[chosen]), targets[chosen]

    def scored(self, inputs: Sequence[Tensor], targets: Tensor) -> Tensor:
        """bool (k,): the predicted tokens that losses are reported at, so that they compare with those of n-gram models.

        Left out: sentinel tokens, which are easy, and chosen tokens that masking did not hide, a tenth of which can be copied.
        """
        if self.name == "masked":
            return inputs[0][targets != IGNORE_INDEX] == MASK_ID
        return ~is_sentinel(targets.flatten())


# Training

# Arguments of `pretrain`: for the lesson, for a minute of each objective, and for the stored encoder.
_SMALL = {"num_layers": 2, "dim": 96, "hidden_dim": 384, "learning_rate": 6e-3}
LESSON = {
    "masked": {**_SMALL, "num_steps": 500},
    "causal": {**_SMALL, "num_steps": 400},
    "spans": {**_SMALL, "num_layers": 1, "num_steps": 550},
}
_MINUTE_STEPS = {"masked": 2400, "causal": 1400, "spans": 2000}
MINUTE = {objective: LESSON[objective] | {"num_steps": steps} for objective, steps in _MINUTE_STEPS.items()}
LONG = {"num_steps": 16000, "num_layers": 2, "dim": 128, "hidden_dim": 512, "learning_rate": 5e-3}


def build(objective: str, settings: dict) -> nn.Module:
    """The untrained model of an objective. settings: vocab_size, dim, num_heads, hidden_dim, num_layers."""
    if objective != "spans":
        return {"masked": MaskedLM, "causal": CausalLM}[objective](EncoderConfig(**settings))
    sizes = {name: value for name, value in settings.items() if name != "vocab_size"} | {"dropout": 0.0}
    vocab_size = settings["vocab_size"]
    return Transformer(vocab_size, vocab_size, **sizes, norm_first=True, tied="all", activation="gelu")


def unigram_log_probs(counts: Tensor) -> Tensor:
    """Log-probabilities (vocab_size,) of a unigram model: the smoothed frequency of each token."""
    return ((counts + 0.1) / (counts + 0.1).sum()).log()


def unigram_on_held_out(tokenizer: BPETokenizer) -> tuple[float, int]:
    """A unigram model over the tokens of a tokenizer: its loss in nats per held-out token, and the number of these tokens."""
    train_ids, held_out_ids = (
        torch.tensor([token for ids in tokenizer.encode_batch(part) for token in ids]) for part in _texts()
    )
    log_probs = unigram_log_probs(train_ids.bincount(minlength=len(tokenizer)))
    return -log_probs[held_out_ids].mean().item(), len(held_out_ids)


def init_output_bias(model: nn.Module, counts: Tensor) -> None:
    """Initialize the bias of the output layer to the log-probabilities of a unigram model."""
    with torch.no_grad():
        model.lm_head.bias.copy_(unigram_log_probs(counts))


@cached(data_files=lambda *_, **__: [topics_file()])
def pretrain(
    objective: str,
    seed: int = 0,
    *,
    num_steps: int = 600,
    dim: int = 128,
    num_heads: int = 4,
    hidden_dim: int = 512,
    num_layers: int = 3,
    length: int = LENGTH,
    batch_size: int = 8,
    learning_rate: float = 3e-3,
    warmup_ratio: float = 0.1,
    weight_decay: float = 0.1,
    vocab_size: int = VOCAB_SIZE,
    num_texts: int | None = None,
) -> dict:
    """Pretrain one model and evaluate it on held-out text. num_texts: use only so many texts of each part.

    Returns loss (num_steps,) and held_out, in nats per token that is `scored`; its perplexity; unigram, the loss of a unigram
    model at the same held-out tokens; ngrams, with the causal objective, the losses of n-gram models {1, 2};
    parameters; seconds of processor time; num_tokens, the tokens trained on; and what `restore_pretrained` needs.
    """
    text = corpus(vocab_size, length, num_texts)
    sizes = {"dim": dim, "num_heads": num_heads, "hidden_dim": hidden_dim, "num_layers": num_layers}
    settings = {"vocab_size": len(text.tokenizer), **sizes}
    task = Objective(objective, len(text.tokenizer))
    generator = torch.Generator().manual_seed(10_000 + seed)
    losses = torch.zeros(num_steps)

    def loss_of_step(step: int) -> Tensor:
        batch = sample_windows(text.train, length + 1, batch_size, generator)
        inputs, targets = task.corrupt(batch, generator)
        scored = task.scored(inputs, targets)
        logits, predicted = task.logits(model, inputs, targets)
        loss = F.cross_entropy(logits, predicted)
        losses[step] = loss.detach() if scored.all() else F.cross_entropy(logits.detach()[scored], predicted[scored])
        return loss

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build(objective, settings)
        if objective != "spans":
            init_output_bias(model, text.token_counts)
        started = time.process_time()
        train(
            model,
            loss_of_step,
            num_steps,
            learning_rate=learning_rate,
            schedule=linear_warmup_cosine(num_steps, warmup_ratio),
            betas=BETAS,
            weight_decay=weight_decay,
            max_norm=MAX_NORM,
        )
        seconds = time.process_time() - started
    held_out, unigram = held_out_losses(model, text, task)
    is_causal = objective == "causal"
    return {
        "objective": objective,
        "loss": losses,
        "held_out": held_out,
        "perplexity": math.exp(held_out),
        "unigram": unigram,
        "ngrams": ngram_losses(text.train, text.held_out, len(text.tokenizer), (1, 2)) if is_causal else None,
        "parameters": parameter_count(model),
        "seconds": seconds,
        "num_tokens": num_steps * batch_size * length,
        "length": length,
        "settings": settings,
        "tokenizer": text.tokenizer.to_str(),
        "state_dict": {name: tensor.detach() for name, tensor in model.state_dict().items()},
    }


def is_sentinel(token_ids: Tensor) -> Tensor:
    return (token_ids >= SENTINEL_IDS[0]) & (token_ids <= SENTINEL_IDS[-1])


@torch.no_grad()
def held_out_losses(model: nn.Module, text: Corpus, objective: Objective) -> tuple[float, float]:
    """The loss of the model and of a unigram model at the same held-out tokens, those that are `scored`.

    Every call masks the same tokens.
    """
    generator, log_probs = torch.Generator().manual_seed(0), unigram_log_probs(text.token_counts)
    total, count = torch.zeros(2, dtype=torch.float64), 0
    for batch in text.held_out.split(EVAL_BATCH_SIZE):
        inputs, targets = objective.corrupt(batch, generator)
        scored = objective.scored(inputs, targets)
        logits, predicted = (tensor[scored] for tensor in objective.logits(model, inputs, targets))
        total[0] += F.cross_entropy(logits, predicted, reduction="sum")
        total[1] -= log_probs[predicted].sum()
        count += len(predicted)
    model_loss, unigram = (total / count).tolist()
    return model_loss, unigram


@cached
def leakage_losses() -> dict:
    """Train a causal and a bidirectional model to predict the next of independent uniform tokens, where nothing can be learned.

    Returns the loss in nats on a new batch of "causal" and "bidirectional", and "entropy", the least a model without a leak
    can have. The bidirectional model sees each target but the last, which is left out.
    """
    vocab_size, length, num_steps = 10, 16, 250
    generator = torch.Generator().manual_seed(0)
    losses = {"entropy": math.log(vocab_size)}
    for name, model_class in (("causal", CausalLM), ("bidirectional", MaskedLM)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = model_class(EncoderConfig(vocab_size, dim=32, num_heads=2))

        def loss_of_step(step: int, model: nn.Module = model) -> Tensor:
            token_ids = torch.randint(vocab_size, (32, length + 1), generator=generator)
            logits, targets = model(token_ids[:, :-1])[:, :-1], token_ids[:, 1:-1]
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

        train(model, loss_of_step, num_steps, learning_rate=5e-3, weight_decay=0.01)
        losses[name] = loss_of_step(num_steps).item()
    return losses


# Inference


@dataclass
class Pretrained:
    """A pretrained model, the tokenizer that it was trained with, and the length of its training windows."""

    model: nn.Module
    tokenizer: BPETokenizer
    length: int


def restore_pretrained(result: dict) -> Pretrained:
    model = build(result["objective"], result["settings"])
    model.load_state_dict(result["state_dict"])
    return Pretrained(model.eval(), BPETokenizer.from_str(result["tokenizer"]), result["length"])


@torch.no_grad()
def fill_mask(pretrained: Pretrained, text: str, count: int = 5) -> list[list[tuple[str, float]]]:
    """For each [MASK] of the text the most probable tokens with their probabilities, best first."""
    token_ids = torch.tensor(pretrained.tokenizer.encode_pair(text))
    logits = pretrained.model(token_ids[None])[0, token_ids == MASK_ID]
    logits[:, : len(SPECIAL_TOKENS)] = -torch.inf
    best = logits.softmax(-1).topk(count)
    return [
        list(zip(pretrained.tokenizer.tokens(token_ids), probs.tolist(), strict=True))
        for token_ids, probs in zip(best.indices, best.values, strict=True)
    ]


def continue_text(pretrained: Pretrained, prompt: str, count: int = 40, seed: int = 0) -> str:
    """The prompt and up to `count` sampled tokens, up to the end of the text.

    A text with an offensive word is rejected and sampled again with the next seed.
    """
    prompt_ids = [CLS_ID, *pretrained.tokenizer.encode(prompt)]

    def sample(seed: int) -> str:
        new_ids = generate(
            pretrained.model,
            prompt_ids,
            count,
            temperature=0.7,
            generator=torch.Generator().manual_seed(seed),
            window=pretrained.length,
            banned_ids=[token for token in range(len(SPECIAL_TOKENS)) if token != SEP_ID],
            eos_ids=[SEP_ID],
        )
        return pretrained.tokenizer.decode([*prompt_ids, *new_ids])

    return inoffensive(sample, seed)


@torch.no_grad()
def fill_spans(pretrained: Pretrained, text: str, max_len: int = 24) -> list[str]:
    """Greedy decoding of the spans at [SENTINEL0], [SENTINEL1], ... of the text; "" if not reached within max_len tokens."""
    source = torch.tensor([pretrained.tokenizer.encode_pair(text)])
    num_spans = int(is_sentinel(source).sum())
    eos_id = SENTINEL_IDS[num_spans]
    decoded = greedy_decode(pretrained.model, source, None, bos_id=CLS_ID, eos_id=eos_id, max_len=max_len)
    spans: dict[int, list[int]] = {sentinel: [] for sentinel in SENTINEL_IDS}
    current = SENTINEL_IDS[0]
    for token in decoded.token_ids[0].tolist():
        if token in spans:
            current = token
        else:
            spans[current].append(token)
    return [pretrained.tokenizer.decode(spans[sentinel]) for sentinel in SENTINEL_IDS[:num_spans]]

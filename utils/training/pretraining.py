"""Pretraining: a model learns from text that nobody has labelled, by filling in what was taken out of it.

Three ways to take something out, over the same blocks:

    masked   some pieces are hidden, and an encoder that sees both sides says what they were
    causal   everything behind a piece is hidden, and a decoder says what comes next
    spans    whole stretches are cut out, and an encoder-decoder writes them

The text is the standard library's docstrings and the manual, in pieces of one tokenizer. Validation is on text of other modules.
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
from utils.data.real_text import topics_file
from utils.models.decoding import greedy_decode
from utils.models.encoder import one_of
from utils.models.language import CausalLM, MaskedLM
from utils.models.sampling import generate
from utils.models.transformer import Transformer
from utils.training.cache import cached
from utils.training.language_model import ngram_losses
from utils.training.trainer import linear_warmup_cosine, train

PIECES, LENGTH = 3000, 64
BETAS = (0.9, 0.98)
LARGEST_GRADIENT = 1.0
SPAN = (
    8.0  # pieces in a span that is cut out, in the mean; with 3, as in the papers, a decoder has little to go on from
)
NOT_ASKED = -100  # the target of a place that nothing is asked about; `cross_entropy` leaves it out
TOGETHER = 64  # fragments that are scored at once


# Text


@dataclass(frozen=True)
class Corpus:
    """Pretraining text as numbers. train (n,): [CLS] text [SEP] [CLS] text [SEP] ...; held_out (fragments, length + 1)."""

    subwords: BPETokenizer
    train: Tensor
    held_out: Tensor


_texts = functools.cache(pretraining_texts)


@functools.cache
def corpus(pieces: int = PIECES, length: int = LENGTH, texts: int | None = None) -> Corpus:
    """The whole text, or the first `texts` texts of each part, in pieces learnt from its training part."""
    return in_pieces(train_bpe(_texts().train[:texts], pieces), length, texts)


def in_pieces(subwords: BPETokenizer, length: int = LENGTH, texts: int | None = None) -> Corpus:
    """The same text in given pieces. Fragments may begin and end anywhere, and hold several texts."""
    found = _texts()
    held_out = _stream(subwords, found.validation[:texts])
    whole = (len(held_out) - 1) // length
    # Each fragment begins with the last piece of the one before: a causal model predicts every piece but the first once.
    held_out = held_out[: whole * length + 1].unfold(0, length + 1, length)
    return Corpus(subwords, _stream(subwords, found.train[:texts]), held_out)


def _stream(subwords: BPETokenizer, texts: Sequence[str]) -> Tensor:
    return torch.tensor([n for text in subwords.encode_batch(texts) for n in (CLS_ID, *text, SEP_ID)])


def draw_fragments(text: Tensor, length: int, count: int, generator: torch.Generator) -> Tensor:
    """(count, length): so many stretches of the text (n,), from random places."""
    starts = torch.randint(0, len(text) - length + 1, (count, 1), generator=generator)
    return text[starts + torch.arange(length)]


# What is taken out


def mask_tokens(
    numbers: Tensor,
    real: Tensor,
    mask: int,
    pieces: int,
    share: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Hide pieces of numbers (b, n): returns inputs, targets and chosen, all (b, n).

    Each real piece is chosen with probability `share`; padding and other special pieces, numbered below `len(SPECIAL_TOKENS)`, never
    are. Of the chosen, 80 % become `mask`, 10 % a random ordinary piece and 10 % stay as they are: the model, which cannot know
    which of them, must have an opinion on every piece. targets: the piece that stood there where chosen, `NOT_ASKED` elsewhere.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"expected a share from 0 to 1, got {share}")
    chosen = (torch.rand(numbers.shape, generator=generator) < share) & real & (numbers >= len(SPECIAL_TOKENS))
    fate = torch.rand(numbers.shape, generator=generator)
    other = torch.randint(len(SPECIAL_TOKENS), pieces, numbers.shape, generator=generator)
    inputs = torch.where(chosen & (fate < 0.8), mask, numbers)
    inputs = torch.where(chosen & (fate >= 0.8) & (fate < 0.9), other, inputs)
    return inputs, torch.where(chosen, numbers, NOT_ASKED), chosen


def corrupt_spans(
    numbers: Tensor,
    gaps: Sequence[int] = SENTINEL_IDS,
    share: float = 0.15,
    mean_length: float = 3.0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Cut spans out of one text (n,): source, with the name of a gap in place of each, and target, the gaps with what was there.

        a b c d e f g  ->  a [SENTINEL0] d e [SENTINEL1] g  and  [SENTINEL0] b c [SENTINEL1] f [SENTINEL2]

    The last gap ends the target. How many pieces are cut, round(share n), and in how many spans, follows from n alone, so texts
    of one length give sources and targets of one length. Where the spans lie and how long each is, is drawn.
    """
    n = len(numbers)
    if n < 2 or not 0 < share < 1 or len(gaps) < 2:
        raise ValueError(
            f"expected at least two pieces, a share between 0 and 1 and at least two gaps, got {n}, {share} and {len(gaps)}"
        )
    cut = min(max(round(share * n), 1), n - 1)
    spans = max(1, min(round(cut / mean_length), cut, n - cut, len(gaps) - 1))
    inside, (first, *between) = _in_parts(cut, spans, generator), _in_parts(n - cut, spans, generator)
    # Between two spans at least one piece stays; before the first and behind the last there may be none.
    before = int(torch.randint(0, first + 1, (1,), generator=generator))
    place, source, target = 0, [], []
    for gap, stays, goes in zip(gaps[:spans], [before, *between], inside, strict=True):
        name = numbers.new_tensor([gap])
        source += [numbers[place : place + stays], name]
        target += [name, numbers[place + stays : place + stays + goes]]
        place += stays + goes
    return torch.cat([*source, numbers[place:]]), torch.cat([*target, numbers.new_tensor([gaps[spans]])])


def _in_parts(total: int, parts: int, generator: torch.Generator | None) -> list[int]:
    """`total` as a sum of so many numbers of at least 1, every way equally likely."""
    borders = torch.randperm(total - 1, generator=generator)[: parts - 1].sort().values + 1
    return torch.diff(torch.cat([torch.tensor([0]), borders, torch.tensor([total])])).tolist()


# Three objectives


OBJECTIVES = ("masked", "causal", "spans")
# The fraction of tokens that are predicted. BERT masked 15 %, and trained for days; within a minute a model learns more if it
# predicts more tokens per step.
SHARES = {"masked": 0.3, "causal": 1.0, "spans": 0.5}


class Asked:
    """Inputs and targets of one pretraining objective. Called: logits (k, pieces) and targets (k,) of fragments (b, length + 1).

    `draw` and `scores` are the two halves of a call, for a batch that several workers share: all draw the same masks, and each
    computes the logits of its own rows.
    """

    def __init__(self, objective: str, pieces: int, share: float | None = None, span: float = SPAN):
        self.objective, self.pieces, self.span = one_of("objective", objective, OBJECTIVES), pieces, span
        self.share = SHARES[objective] if share is None else share

    def __call__(self, model: nn.Module, fragments: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self.scores(model, *self.draw(fragments, generator))

    def draw(self, fragments: Tensor, generator: torch.Generator) -> tuple[list[Tensor], Tensor]:
        """The inputs of the model, one or two (b, n), and targets (b, m), `NOT_ASKED` where nothing is predicted."""
        numbers = fragments[:, :-1]
        if self.objective == "causal":
            return [numbers], fragments[:, 1:]
        if self.objective == "masked":
            real = torch.ones_like(numbers, dtype=torch.bool)
            inputs, targets, _ = mask_tokens(numbers, real, MASK_ID, self.pieces, self.share, generator)
            return [inputs], targets
        pairs = [corrupt_spans(one, SENTINEL_IDS, self.share, self.span, generator) for one in numbers]
        source, target = (torch.stack(side) for side in zip(*pairs, strict=True))
        return [source, torch.cat([torch.full_like(target[:, :1], CLS_ID), target[:, :-1]], 1)], target

    def scores(self, model: nn.Module, inputs: Sequence[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (k, pieces) and targets (k,) of the tokens that are predicted."""
        if self.objective == "spans":
            source, started = inputs
            return model(source, None, started)[0].flatten(0, 1), targets.flatten()
        if self.objective == "causal":
            return model(*inputs).flatten(0, 1), targets.flatten()
        chosen = targets != NOT_ASKED
        # Only the chosen positions go through the output layer, the most expensive of all.
        return model.scores(model.vectors(*inputs)[chosen]), targets[chosen]


# Arguments of `pretrain`: what a lesson has time for, with all three; what a minute each gives; and the encoder to fine-tune.
_SMALL = {"layers": 2, "dim": 96, "hidden": 384, "rate": 6e-3}
LESSON = {
    "masked": {**_SMALL, "steps": 500},
    "causal": {**_SMALL, "steps": 400},
    "spans": {**_SMALL, "layers": 1, "steps": 550},
}
MINUTE = {
    "masked": {**_SMALL, "steps": 2400},
    "causal": {**_SMALL, "steps": 1400},
    "spans": {**_SMALL, "layers": 1, "steps": 2000},
}
LONG = {"steps": 16000, "layers": 2, "dim": 128, "hidden": 512, "rate": 5e-3}


def build(objective: str, settings: dict) -> nn.Module:
    """A fresh model of the kind that the objective trains. settings: pieces, dim, heads, hidden, layers, dropout."""
    if one_of("objective", objective, OBJECTIVES) != "spans":
        return {"masked": MaskedLM, "causal": CausalLM}[objective](**settings)
    rest = {name: value for name, value in settings.items() if name != "pieces"}
    pieces = settings["pieces"]
    return Transformer(pieces, pieces, **rest, norm="pre", tied="all", activation="gelu")


def start_from_counts(model: nn.Module, counts: Tensor) -> None:
    """Set the bias of the output so that the model, before it has learnt anything, says how frequent each piece is."""
    with torch.no_grad():
        model.bias.copy_(((counts + 0.1) / (counts + 0.1).sum()).log())


@cached(data_files=lambda *_, **__: [topics_file()])
def pretrain(
    objective: str,
    seed: int = 0,
    *,
    steps: int = 600,
    dim: int = 128,
    heads: int = 4,
    hidden: int = 512,
    layers: int = 3,
    dropout: float = 0.0,
    length: int = LENGTH,
    batch: int = 8,
    rate: float = 3e-3,
    warmup: float = 0.1,
    decay: float = 0.1,
    share: float | None = None,
    span: float = SPAN,
    pieces: int = PIECES,
    texts: int | None = None,
) -> dict:
    """Train one model and score it on text of modules that it has not seen.

    share: of the pieces that are asked about (`SHARES` unless given; the causal model is always asked about all); span: the mean
    length of what is cut out. texts: read only so many of each part.

    Returns loss (steps,), and held_out, both in nats per piece that was asked about, names of gaps left out; its perplexity;
    unigram, the loss on the same places of knowing how frequent each piece is; counts, with the causal model, the loss of counting
    one and two pieces (1, 2); parameters; seconds of processor time in training; read, the pieces seen; and what
    `restore_pretrained` needs.
    """
    one_of("objective", objective, OBJECTIVES)
    text = corpus(pieces, length, texts)
    settings = {
        "pieces": len(text.subwords),
        "dim": dim,
        "heads": heads,
        "hidden": hidden,
        "layers": layers,
        "dropout": dropout,
    }
    asked = Asked(objective, len(text.subwords), share, span)
    counts = text.train.bincount(minlength=len(text.subwords)).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build(objective, settings)
        if objective != "spans":
            start_from_counts(model, counts)
        started = time.process_time()
        losses = _train(model, asked, text.train, length, batch, rate, warmup, steps, decay, seed)
        seconds = time.process_time() - started
    held_out, unigram = held_out_losses(model, text, asked, counts)
    return {
        "objective": objective,
        "seed": seed,
        "loss": losses,
        "held_out": held_out,
        "perplexity": math.exp(held_out),
        "unigram": unigram,
        "counts": ngram_losses(text.train, text.held_out, len(text.subwords), (1, 2))
        if objective == "causal"
        else None,
        "parameters": sum(one.numel() for one in model.parameters()),
        "seconds": seconds,
        "read": steps * batch * length,
        "length": length,
        "settings": settings,
        "subwords": text.subwords.to_str(),
        "state": {name: value.detach() for name, value in model.state_dict().items()},
    }


def _train(
    model: nn.Module,
    asked: Asked,
    text: Tensor,
    length: int,
    batch: int,
    rate: float,
    warmup: float,
    steps: int,
    decay: float,
    seed: int,
) -> Tensor:
    generator = torch.Generator().manual_seed(10_000 + seed)
    losses = torch.zeros(steps)

    def loss_of_step(step: int) -> Tensor:
        fragments = draw_fragments(text, length + 1, batch, generator)
        logits, targets = asked(model, fragments, generator)
        loss = F.cross_entropy(logits, targets)
        told = is_text(targets)
        losses[step] = loss.detach() if told.all() else F.cross_entropy(logits.detach()[told], targets[told])
        return loss

    train(
        model,
        loss_of_step,
        steps,
        learning_rate=rate,
        schedule=linear_warmup_cosine(steps, warmup),
        betas=BETAS,
        weight_decay=decay,
        max_norm=LARGEST_GRADIENT,
    )
    return losses


def is_text(targets: Tensor) -> Tensor:
    """True where a piece is asked for, False where the name of a gap is, which a model of spans also writes: it is no text."""
    return (targets < SENTINEL_IDS[0]) | (targets > SENTINEL_IDS[-1])


@torch.no_grad()
def held_out_losses(model: nn.Module, text: Corpus, asked: Asked, counts: Tensor, seed: int = 0) -> tuple[float, float]:
    """The model's loss and the unigram's on the same places of the held-out text, names of gaps left out.

    Every call takes out the same pieces.
    """
    generator = torch.Generator().manual_seed(seed)
    chances = ((counts + 0.1) / (counts + 0.1).sum()).log()
    total = torch.zeros(2, dtype=torch.float64)
    number = 0
    for fragments in text.held_out.split(TOGETHER):
        logits, targets = asked(model, fragments, generator)
        if asked.objective == "spans":
            told = is_text(targets)
            logits, targets = logits[told], targets[told]
        total[0] += F.cross_entropy(logits, targets, reduction="sum")
        total[1] -= chances[targets].sum()
        number += len(targets)
    model_loss, unigram = (total / number).tolist()
    return model_loss, unigram


# A loss that is too good

KINDS, LEAK_LENGTH = 10, 16


@cached
def next_piece_losses(steps: int = 250, seed: int = 0) -> dict:
    """Train a causal and a masked model on the next of pieces that are drawn at random, where nothing can be learnt.

    Returns the loss in nats on new pieces of "causal" and "both ways", and floor, that of knowing all there is to know. What
    sees both ways sees the piece it is asked for, at every place but the last, which is left out.
    """
    generator = torch.Generator().manual_seed(seed)
    found = {"floor": math.log(KINDS)}
    for name, kind in (("causal", CausalLM), ("both ways", MaskedLM)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = kind(KINDS, dim=32, heads=2, layers=2)

        def loss_of_step(step: int, model: nn.Module = model) -> Tensor:
            numbers = torch.randint(KINDS, (32, LEAK_LENGTH + 1), generator=generator)
            logits, targets = model(numbers[:, :-1])[:, :-1], numbers[:, 1:-1]
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

        train(model, loss_of_step, steps, learning_rate=5e-3, weight_decay=0.01)
        found[name] = loss_of_step(steps).item()  # of a new batch
    return found


# A pretrained model


@dataclass
class Pretrained:
    """A model with the tokenizer that it was trained with; it is of no use with another."""

    objective: str
    model: nn.Module
    subwords: BPETokenizer
    length: int

    def expect(self, objective: str) -> None:
        if self.objective != objective:
            raise ValueError(f"expected a model pretrained by {objective}, got one by {self.objective}")


def restore_pretrained(result: dict) -> Pretrained:
    model = build(result["objective"], result["settings"])
    model.load_state_dict(result["state"])
    return Pretrained(result["objective"], model.eval(), BPETokenizer.from_str(result["subwords"]), result["length"])


@torch.no_grad()
def fill_in(pretrained: Pretrained, text: str, count: int = 5) -> list[list[tuple[str, float]]]:
    """For each [MASK] of the text, the likeliest pieces with their probabilities, the likeliest first."""
    pretrained.expect("masked")
    numbers = torch.tensor(pretrained.subwords.encode_pair(text))
    places = (numbers == MASK_ID).nonzero().flatten()
    if not len(places):
        raise ValueError(f"expected a text with [MASK] in it, got {text!r}")
    logits = pretrained.model(numbers[None])[0, places]
    logits[:, : len(SPECIAL_TOKENS)] = -torch.inf  # no text
    best = logits.softmax(-1).topk(count)
    return [
        list(zip(pretrained.subwords.tokens(pieces), chances.tolist(), strict=True))
        for pieces, chances in zip(best.indices, best.values, strict=True)
    ]


def continue_text(
    pretrained: Pretrained,
    prompt: str,
    count: int = 40,
    *,
    temperature: float = 0.7,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> str:
    """The prompt and up to `count` more tokens, each drawn, up to the end of the text.

    A text with an offensive word is rejected and drawn again with the next seed.
    """
    pretrained.expect("causal")

    def sample(seed: int) -> str:
        numbers = generate(
            pretrained.model,
            [CLS_ID, *pretrained.subwords.encode(prompt)],
            count,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            generator=torch.Generator().manual_seed(seed),
            context=pretrained.length,
            never=[number for number in range(len(SPECIAL_TOKENS)) if number != SEP_ID],
            stop=SEP_ID,
        )
        return pretrained.subwords.decode(numbers)

    return inoffensive(sample, seed)


@torch.no_grad()
def write_gaps(pretrained: Pretrained, text: str, limit: int = 24) -> list[str]:
    """What the model writes for [SENTINEL0], [SENTINEL1], ... of the text, taking the likeliest piece each time.

    A gap that it did not get to within `limit` pieces is empty.
    """
    pretrained.expect("spans")
    source = torch.tensor([pretrained.subwords.encode_pair(text)])
    gaps = int(((source >= SENTINEL_IDS[0]) & (source <= SENTINEL_IDS[-1])).sum())
    if not 0 < gaps < len(SENTINEL_IDS):
        raise ValueError(f"expected 1 to {len(SENTINEL_IDS) - 1} gaps, [SENTINEL0] first, got {gaps} in {text!r}")
    written = (
        greedy_decode(pretrained.model, source, None, start=CLS_ID, end=SENTINEL_IDS[gaps], limit=limit)
        .words[0]
        .tolist()
    )
    found: dict[int, list[int]] = {gap: [] for gap in SENTINEL_IDS}
    current = SENTINEL_IDS[0]
    for number in written:
        if number in found:
            current = number
        else:
            found[current].append(number)
    return [pretrained.subwords.decode(found[gap]) for gap in SENTINEL_IDS[:gaps]]

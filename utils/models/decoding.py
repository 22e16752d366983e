"""Writing a translation word by word: the likeliest word each time, or a beam of several beginnings at once.

Each word needs those before it, so this stays sequential; sentences and beginnings run side by side. Dropout is off meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from utils.models.transformer import Transformer


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


class _Writer:
    """Logits of the next word: with the key-value cache, or from the first word on all over again."""

    def __init__(
        self, model: Transformer, source: Tensor, mask: Tensor | None, limit: int, cached: bool, copies: int = 1
    ):
        self.model = model
        self.memory = model.encode(source, mask).repeat_interleave(copies, 0)
        self.mask = None if mask is None else mask.repeat_interleave(copies, 0)
        self.cache = model.remember(self.memory, self.mask, limit) if cached else None

    def next(self, words: Tensor) -> tuple[Tensor, list[Tensor] | None]:
        """words (b, m) so far, the start token first, to logits (b, words), and each layer's weights (b, heads, n)."""
        if self.cache is not None:
            return self.model.step(words[:, -1], self.cache)
        return self.model.decode(words, self.memory, self.mask)[:, -1], None

    def continue_from(self, rows: Tensor) -> None:
        """From now on row i of the words continues what row rows[i] was."""
        for layer in self.cache or ():
            layer.continue_from(rows)


# Greedy


class Decoded(NamedTuple):
    """words (b, m): the end token is part of them, padding stands behind it. log_probability (b,): of the whole sentence.

    cross (layers, b, heads, m, n): where the step that wrote each word looked in the source, zero behind the end.
    candidates and probabilities (b, m, k): the likeliest words at each step, best first. None for what was not asked for.
    """

    words: Tensor
    log_probability: Tensor
    cross: Tensor | None
    candidates: Tensor | None
    probabilities: Tensor | None


@torch.no_grad()
def greedy_decode(
    model: Transformer,
    source: Tensor,
    source_mask: Tensor | None,
    *,
    start: int,
    end: int,
    limit: int,
    padding: int = 0,
    cached: bool = True,
    need_weights: bool = False,
    candidates: int = 0,
) -> Decoded:
    """Take the likeliest word each time, until every sentence has ended or has `limit` words.

    source (b, n), source_mask (b, n) True at the words. A sentence comes out the same in any company.
    """
    looks, numbers, chances = [], [], []
    with _evaluating(model):
        writer = _Writer(model, source, source_mask, limit, cached)
        words = source.new_full((len(source), 1), start)
        total = writer.memory.new_zeros(len(source))
        going = torch.ones_like(total, dtype=torch.bool)
        while going.any() and words.size(1) <= limit:
            logits, weights = writer.next(words)
            log_probability, word = logits.log_softmax(-1).max(-1)
            total = total + log_probability.where(going, 0.0)
            words = torch.cat([words, word.where(going, padding).unsqueeze(1)], 1)
            if need_weights:
                looks.append(torch.stack(weights).masked_fill(~going[:, None, None], 0.0))  # (layers, b, heads, n)
            if candidates:
                best = logits.softmax(-1).topk(candidates)
                numbers.append(best.indices)
                chances.append(best.values)
            going = going & (word != end)
    return Decoded(
        words[:, 1:],
        total,
        torch.stack(looks, 3) if need_weights else None,
        torch.stack(numbers, 1) if candidates else None,
        torch.stack(chances, 1) if candidates else None,
    )


# Beam


class Node(NamedTuple):
    """One beginning in a beam search: a node of the step before, and a word more.

    parent: its number among the nodes of the step before, -1 for the start. word is None where the parent had ended and
    competes on as it is. log_probability: of all its words; score: what it competes with. kept: among the best of this step.
    """

    parent: int
    word: int | None
    log_probability: float
    score: float
    kept: bool
    ended: bool


class Beams(NamedTuple):
    """words (b, width, m), best first: as in `Decoded`. log_probability and score (b, width).

    With a small vocabulary there can be fewer sentences than `width`: the rest is padding, and has a score of minus infinity.
    tree: for each sentence and step the nodes that were kept, best first, and then those that were not.
    """

    words: Tensor
    log_probability: Tensor
    score: Tensor
    tree: list[list[list[Node]]] | None


@torch.no_grad()
def beam_search(
    model: Transformer,
    source: Tensor,
    source_mask: Tensor | None,
    *,
    start: int,
    end: int,
    limit: int,
    width: int = 4,
    padding: int = 0,
    length_power: float = 0.0,
    cached: bool = True,
    need_tree: bool = False,
) -> Beams:
    """Keep the `width` best beginnings of each sentence; a sentence that has ended keeps its place while it is good enough.

    A score is the log-probability over the number of words to the power `length_power`: 0 prefers short sentences, since each
    word costs, 1 compares means. source (b, n), source_mask (b, n) True at the words.
    """
    b = len(source)
    first_row = torch.arange(b, device=source.device)[:, None] * width  # of each sentence
    with _evaluating(model):
        writer = _Writer(model, source, source_mask, limit, cached, copies=width)
        words = source.new_full((b, width, 1), start)
        # At the start there is one beginning; its copies cannot be chosen.
        total = writer.memory.new_full((b, width), float("-inf"))
        total[:, 0] = 0.0
        score, length = total, torch.zeros_like(total)
        ended = torch.zeros_like(total, dtype=torch.bool)
        trees = [_Tree(width) for _ in range(b)] if need_tree else []
        while words.size(2) <= limit and not (ended | total.isinf()).all():
            logits, _ = writer.next(words.flatten(0, 1))
            log_probability = logits.log_softmax(-1).view(b, width, -1)
            # What has ended has one continuation, itself: padding that costs nothing.
            log_probability = log_probability.masked_fill(ended[..., None], float("-inf"))
            log_probability[..., padding].masked_fill_(ended, 0.0)
            length = length + ~ended
            totals = total[..., None] + log_probability  # (b, width, vocabulary)
            scores = totals / length[..., None] ** length_power

            score, place = scores.flatten(1).topk(width)
            parent, word = place // logits.size(-1), place % logits.size(-1)
            for number, tree in enumerate(trees):
                tree.grow(totals[number], scores[number], ended[number], place[number], end)
            total = totals.flatten(1).gather(1, place)
            length, ended = length.gather(1, parent), ended.gather(1, parent)
            rows = (first_row + parent).flatten()
            writer.continue_from(rows)
            words = torch.cat([words.flatten(0, 1)[rows].view(b, width, -1), word[..., None]], -1)
            ended = ended | (word == end)
    words = words[..., 1:].masked_fill(total.isinf()[..., None], padding)
    return Beams(words, total, score, [tree.steps for tree in trees] if need_tree else None)


class _Tree:
    """The nodes of one sentence's beam, step by step."""

    def __init__(self, width: int):
        self.width = width
        self.steps: list[list[Node]] = []

    def grow(self, totals: Tensor, scores: Tensor, ended: Tensor, place: Tensor, end: int) -> None:
        """totals, scores (width, vocabulary) of all continuations; place (width,): of the kept ones, counted in one row.

        Of each beginning only the best `width` continuations are nodes: no more of them could have been kept.
        """
        if self.steps and all(node.ended for node in self.steps[-1] if node.kept):
            return  # all that is kept has ended: other sentences may go on, this one is done
        vocabulary = scores.size(1)
        nearest = scores.topk(min(self.width, vocabulary)).indices + torch.arange(self.width)[:, None] * vocabulary
        kept = place.tolist()
        dropped = sorted(set(nearest.flatten().tolist()) - set(kept), key=scores.flatten().tolist().__getitem__)[::-1]
        nodes = []
        for one in [*kept, *dropped]:
            parent, word = divmod(one, vocabulary)
            if scores[parent, word].isinf():
                continue  # a copy of the start, or padding's rival behind an end: nobody's continuation
            carried = bool(ended[parent])
            nodes.append(
                Node(
                    parent if self.steps else -1,
                    None if carried else word,
                    totals[parent, word].item(),
                    scores[parent, word].item(),
                    one in kept,
                    carried or word == end,
                )
            )
        self.steps.append(nodes)

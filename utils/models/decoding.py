"""Decoding: greedy, beam search, and sampling with temperature, top-k and top-p.

Encoder-decoder models offer `new_cache(source, source_mask, max_len, num_beams)` and `step(token_ids, cache)`; causal language
models `new_cache(max_len)` and `step(token_ids, cache)`. Dropout is off while a model decodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import Tensor, nn

from utils.models.language_models import CausalLM


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    if not model.training:
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()


# Greedy


class Decoded(NamedTuple):
    """Result of greedy decoding. token_ids (b, m): EOS is part of them, padding stands behind it. log_probs (b,): of the whole
    sequence.

    cross (num_layers, b, num_heads, m, n): cross-attention of the step that generated each token, zero behind EOS.
    candidates and probabilities (b, m, k): the most probable tokens at each step, best first. None for what was not asked for.
    """

    token_ids: Tensor
    log_probs: Tensor
    cross: Tensor | None
    candidates: Tensor | None
    probabilities: Tensor | None


@torch.no_grad()
def greedy_decode(
    model: nn.Module,
    source: Tensor,
    source_mask: Tensor | None,
    *,
    bos_id: int,
    eos_id: int,
    max_len: int,
    pad_id: int = 0,
    need_weights: bool = False,
    num_candidates: int = 0,
) -> Decoded:
    """Greedy decoding: the most probable token each time, until every sequence has ended or has max_len tokens.

    source (b, n), source_mask (b, n). The result for a sequence does not depend on the others in its batch.
    """
    cross, candidates, probabilities = [], [], []
    with _evaluating(model):
        cache = model.new_cache(source, source_mask, max_len)
        token_ids = source.new_full((len(source), 1), bos_id)
        total, active = 0.0, torch.ones(len(source), dtype=torch.bool, device=source.device)
        while active.any() and token_ids.size(1) <= max_len:
            logits, weights = model.step(token_ids[:, -1], cache)
            log_probs, token = logits.log_softmax(-1).max(-1)
            total = total + log_probs.where(active, 0.0)
            token_ids = torch.cat([token_ids, token.where(active, pad_id).unsqueeze(1)], 1)
            if need_weights:
                cross.append(torch.stack(weights).masked_fill(~active[:, None, None], 0.0))  # (layers, b, heads, n)
            if num_candidates:
                best = logits.softmax(-1).topk(num_candidates)
                candidates.append(best.indices)
                probabilities.append(best.values)
            active = active & (token != eos_id)
    return Decoded(
        token_ids[:, 1:],
        total,
        torch.stack(cross, 3) if need_weights else None,
        torch.stack(candidates, 1) if num_candidates else None,
        torch.stack(probabilities, 1) if num_candidates else None,
    )


# Beam search


class Node(NamedTuple):
    """A hypothesis that one step of beam search considered.

    parent: its index among the nodes of the step before, -1 for BOS. token_id is None where the parent had ended and competes
    on as it is. log_prob: of all its tokens; score: length-normalized. kept: among the best of this step.
    """

    parent: int
    token_id: int | None
    log_prob: float
    score: float
    kept: bool
    ended: bool


class Beams(NamedTuple):
    """Result of beam search. token_ids (b, num_beams, m), best first, as in `Decoded`; log_probs and scores (b, num_beams).

    With a small vocabulary there can be fewer hypotheses than num_beams: the rest is padding with a score of minus infinity.
    tree: for each sequence and step the nodes that were kept, best first, and then those that were not.
    """

    token_ids: Tensor
    log_probs: Tensor
    scores: Tensor
    tree: list[list[list[Node]]] | None


@torch.no_grad()
def beam_search(
    model: nn.Module,
    source: Tensor,
    source_mask: Tensor | None,
    *,
    bos_id: int,
    eos_id: int,
    max_len: int,
    num_beams: int = 4,
    pad_id: int = 0,
    length_penalty: float = 0.0,
    need_tree: bool = False,
) -> Beams:
    """Beam search: keep the `num_beams` best hypotheses; one that has ended competes on with the score it has.

    Length normalization: a score is the log-probability over the number of tokens to the power `length_penalty`; 0 favors
    short sequences, since each token costs, 1 compares means. source (b, n), source_mask (b, n).
    """
    b = len(source)
    first_row = torch.arange(b, device=source.device)[:, None] * num_beams  # of each sequence
    with _evaluating(model):
        cache = model.new_cache(source, source_mask, max_len, num_beams)
        token_ids = source.new_full((b, num_beams, 1), bos_id)
        # At first there is one hypothesis; its copies cannot be chosen.
        total = next(model.parameters()).new_full((b, num_beams), float("-inf"))
        total[:, 0] = 0.0
        score, length = total, torch.zeros_like(total)
        ended = torch.zeros_like(total, dtype=torch.bool)
        trees = [[] for _ in range(b)] if need_tree else []
        while token_ids.size(2) <= max_len and not (ended | total.isinf()).all():
            logits, _ = model.step(token_ids[..., -1].flatten(), cache)
            log_probs = logits.log_softmax(-1).view(b, num_beams, -1)
            # An ended hypothesis has one continuation, itself: padding that costs nothing.
            log_probs = log_probs.masked_fill(ended[..., None], float("-inf"))
            log_probs[..., pad_id].masked_fill_(ended, 0.0)
            length = length + ~ended
            totals = total[..., None] + log_probs  # (b, num_beams, vocab)
            scores = totals / length[..., None] ** length_penalty

            score, index = scores.flatten(1).topk(num_beams)
            parent, token = index // logits.size(-1), index % logits.size(-1)
            for number, tree in enumerate(trees):
                _grow(tree, totals[number], scores[number], ended[number], index[number], eos_id)
            total = totals.flatten(1).gather(1, index)
            length, ended = length.gather(1, parent), ended.gather(1, parent)
            rows = (first_row + parent).flatten()
            cache.reorder(rows)
            token_ids = torch.cat([token_ids.flatten(0, 1)[rows].view(b, num_beams, -1), token[..., None]], -1)
            ended = ended | (token == eos_id)
    token_ids = token_ids[..., 1:].masked_fill(total.isinf()[..., None], pad_id)
    return Beams(token_ids, total, score, trees if need_tree else None)


def _grow(tree: list[list[Node]], totals: Tensor, scores: Tensor, ended: Tensor, index: Tensor, eos_id: int) -> None:
    """Add a step to the tree of one sequence: totals and scores (num_beams, vocab) of all continuations; index (num_beams,)
    of the kept ones, flattened. Of each hypothesis only the best `num_beams` continuations are nodes: no more of them could
    have been kept."""
    if tree and all(node.ended for node in tree[-1] if node.kept):
        return  # this beam is done, while those of other sequences continue
    num_beams, vocab_size = scores.shape
    best = scores.topk(min(num_beams, vocab_size)).indices + torch.arange(num_beams)[:, None] * vocab_size
    kept = index.tolist()
    dropped = sorted(set(best.flatten().tolist()) - set(kept), key=scores.flatten().tolist().__getitem__)[::-1]
    nodes = []
    for flat in [*kept, *dropped]:
        parent, token_id = divmod(flat, vocab_size)
        if scores[parent, token_id].isinf():
            continue  # a copy of the first hypothesis, or another token than padding behind EOS
        carried = bool(ended[parent])
        nodes.append(
            Node(
                parent if tree else -1,
                None if carried else token_id,
                totals[parent, token_id].item(),
                scores[parent, token_id].item(),
                flat in kept,
                carried or token_id == eos_id,
            )
        )
    tree.append(nodes)


# Sampling


def next_token_probs(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Sampling with temperature, top-k and top-p: logits (vocab,) to the probabilities (vocab,) of the next token.

    temperature: divides the logits; 0 leaves the most probable token alone. top_k (Fan et al., 2018, arXiv:1805.04833): only the
    k most probable stay. top_p (nucleus sampling; Holtzman et al., 2020, arXiv:1904.09751): only the smallest set with
    probability p stays, at least one. top_k cuts first; what stays is renormalized. Among equals the lower id stays.
    """
    if temperature < 0:
        raise ValueError(f"expected a temperature of 0 or more, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"expected a top_k of at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"expected a top_p above 0 and up to 1, got {top_p}")
    order = logits.argsort(descending=True, stable=True)
    if temperature == 0:
        probs = torch.zeros_like(logits)
        probs[0] = 1
    else:
        # Minus the largest: a small temperature would make infinities of large logits.
        probs = ((logits[order] - logits[order[0]]) / temperature).softmax(-1)
    if top_k is not None:
        probs[top_k:] = 0
        probs = probs / probs.sum()
    if top_p is not None:
        before = probs.cumsum(-1) - probs  # the probability of all tokens that are more probable
        probs[before >= top_p] = 0
        probs = probs / probs.sum()
    return torch.zeros_like(probs).scatter(0, order, probs)


def generate(
    model: CausalLM,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    window: int | None = None,
    banned_ids: Iterable[int] = (),
    eos_ids: Iterable[int] = (),
) -> Iterator[int]:
    """Autoregressive sampling: up to `max_new_tokens` tokens after the prompt; an EOS token ends the text and is not returned.

    window: the model sees the last `window` tokens only, recomputed at each step, since all positions move; None: all
    tokens, with the key-value cache. banned_ids are never sampled.
    """
    token_ids, banned, eos = [int(token) for token in prompt_ids], list(banned_ids), set(eos_ids)
    if not token_ids:
        raise ValueError("expected a prompt of at least one token, got none")
    max_len = model.config.max_len
    if window is None and max_len is not None and len(token_ids) + max_new_tokens > max_len:
        raise ValueError(
            f"expected at most {max_len} tokens, got {len(token_ids)} and {max_new_tokens} new ones; "
            "cut the prompt or ask for fewer"
        )

    @torch.inference_mode()  # as no_grad, with a little less bookkeeping at each call
    def tokens() -> Iterator[int]:
        cache, new = model.new_cache(len(token_ids) + max_new_tokens) if window is None else None, token_ids
        for _ in range(max_new_tokens):
            with _evaluating(model):  # around each step: between two tokens the model is as the caller left it
                if cache is None:
                    logits = model(torch.tensor([token_ids[-window:]]))[0, -1]
                else:
                    logits = model.step(torch.tensor([new]), cache)[0]
            logits[banned] = -torch.inf
            if temperature == 0:
                token = int(logits.argmax())  # as `next_token_probs`, without sorting the vocabulary
            else:
                probs = next_token_probs(logits, temperature, top_k, top_p)
                token = int(torch.multinomial(probs, 1, generator=generator))
            if token in eos:
                return
            yield token
            token_ids.append(token)
            new = [token]

    return tokens()


class PrefixCache:
    """Prefix caching: logits of the token after any text, fast if it starts like the text before."""

    def __init__(self, model: CausalLM, max_len: int = 256):
        """max_len: of the first cache; a longer text gets a larger one."""
        self.model, self.max_len = model, max_len
        self.token_ids: list[int] = []
        self._cache = model.new_cache(max_len)

    @torch.no_grad()
    def __call__(self, token_ids: Sequence[int]) -> Tensor:
        """At least one token id to logits (vocab,)."""
        token_ids = list(token_ids)
        if len(token_ids) > self.max_len:
            self.max_len = 2 * len(token_ids)
            self.token_ids, self._cache = [], self.model.new_cache(self.max_len)
        # The last token is computed again if need be: its logits were not kept.
        pairs = zip(self.token_ids, token_ids[:-1], strict=False)
        common = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        self.token_ids = token_ids[:common]  # true also if the step below is interrupted
        for layer in self._cache:
            layer.length = common
        with _evaluating(self.model):
            logits = self.model.step(torch.tensor([token_ids[common:]]), self._cache)
        self.token_ids = token_ids
        return logits[0]

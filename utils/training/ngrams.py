"""Interpolated n-gram language models: the count-based baselines of lessons 04 and 07."""

from collections.abc import Sequence

import torch
from torch import Tensor


def ngram_losses(
    training: Tensor, held_out: Tensor, vocab_size: int, orders: Sequence[int] = (1, 2, 3), prior: float = 2.0
) -> dict[int, float]:
    """Held-out loss in nats per token of n-gram models {order: loss}. training (n,), held_out (windows, n + 1).

    Each order is interpolated with the next lower one, which counts as `prior` observations. All orders predict the tokens
    that a model with the windows as input predicts; at the start of a window the history is shorter.
    """
    probs = torch.full(held_out[:, 1:].shape, 1 / vocab_size, dtype=torch.float64)
    losses = {}
    for order in range(1, max(orders) + 1):
        histories, ngrams = _ngram_ids(training, vocab_size, order)
        ngram_counts = torch.bincount(ngrams, minlength=vocab_size**order)
        history_counts = torch.bincount(histories, minlength=vocab_size ** (order - 1))
        # The first token of a window is history only: no model predicts it.
        histories, ngrams = _ngram_ids(held_out[:, 1:] if order == 1 else held_out, vocab_size, order)
        skip = max(0, order - 2)  # the first tokens of a window have no history of this length
        new = (ngram_counts[ngrams] + prior * probs[:, skip:]) / (history_counts[histories] + prior)
        probs = torch.cat([probs[:, :skip], new], 1)
        if order in orders:
            losses[order] = -probs.log().mean().item()
    return losses


def _ngram_ids(token_ids: Tensor, vocab_size: int, order: int) -> tuple[Tensor, Tensor]:
    """For each token with order - 1 tokens before it: an id of this history, and one of history and token."""
    place_values = vocab_size ** torch.arange(order - 1, -1, -1)
    ngrams = (token_ids.unfold(-1, order, 1) * place_values).sum(-1)
    return ngrams // vocab_size, ngrams

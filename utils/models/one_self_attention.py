"""Self-attention as lesson 04 builds it: one idea per function. `self_attention.py` and `positions.py` are made for training.

Tokens are rows: a map is `X @ W`, W (width before, width after).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.attention import attention

BASE = 10_000.0


# One sentence by loops, many by matrices


def self_attention_loop(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> tuple[Tensor, Tensor]:
    """One sentence X (n, d), with W_Q and W_K (d, d_k) and W_V (d, e), to output (n, e) and weights (n, n)."""
    queries, keys, values = X @ W_Q, X @ W_K, X @ W_V
    output, weights = [], []
    for query in queries:  # each token asks ...
        scores = torch.stack([query @ key for key in keys]) / len(query) ** 0.5  # ... every token
        weights.append(scores.softmax(0))
        output.append(sum(weight * value for weight, value in zip(weights[-1], values, strict=True)))
    return torch.stack(output), torch.stack(weights)


def self_attention(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """X (..., n, d), mask (..., n, n) bool, True = may look, to output (..., n, e) and weights (..., n, n)."""
    return attention(X @ W_Q, X @ W_K, X @ W_V, mask)


# Masks: True = may look


def causal_mask(length: int) -> Tensor:
    """(length, length) bool: row i is True at the tokens that token i may look at, itself and those before it."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def padding_mask(lengths: Tensor, length: int) -> Tensor:
    """lengths (b,) to (b, 1, length) bool, True at the words; the axis of length 1 serves every token that looks."""
    return (torch.arange(length) < lengths.unsqueeze(1)).unsqueeze(1)


# Positions


def frequencies(dim: int) -> Tensor:
    """(dim / 2,): how far each pair of components turns from one position to the next, from 1 down to almost 1 / 10,000."""
    return BASE ** (-torch.arange(0, dim, 2) / dim)


def sinusoidal_positions(length: int, dim: int) -> Tensor:
    """(length, dim): position p is row p, from 0 on; sines in even and cosines in odd components, one frequency per pair."""
    angles = torch.arange(length).unsqueeze(1) * frequencies(dim)  # (length, dim / 2)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def shift_rotation(k: int, dim: int) -> Tensor:
    """The one matrix R (dim, dim) with `positions[i + k] == positions[i] @ R`, whatever i."""
    R = torch.zeros(dim, dim)
    for first in range(0, dim, 2):
        angle = k * BASE ** (-first / dim)
        c, s = math.cos(angle), math.sin(angle)
        R[first : first + 2, first : first + 2] = torch.tensor([[c, -s], [s, c]])
    return R


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Turn each pair of neighbouring components of x (..., n, d) by its frequency times the position (n,)."""
    angles = positions.unsqueeze(-1) * frequencies(x.size(-1))  # (n, d / 2)
    c, s = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([first * c - second * s, first * s + second * c], -1).flatten(-2)


# The layer, and what it is trained with


class SelfAttention(nn.Module):
    """One head. The three projections are all it learns; the weights are made anew from every sentence."""

    def __init__(self, dim: int, inner: int):
        super().__init__()
        self.query = nn.Linear(dim, inner, bias=False)
        self.key = nn.Linear(dim, inner, bias=False)
        self.value = nn.Linear(dim, inner, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (b, n, dim), mask (..., n, n) bool, True = may look, to output (b, n, inner) and weights (b, n, n)."""
        return attention(self.query(x), self.key(x), self.value(x), mask)


def next_word_loss(logits: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    """Mean cross-entropy of every next token: logits (b, n, words) at position t are about the token at t + 1.

    tokens (b, n), mask (b, n) bool, True = a token and not padding. The mean is over the tokens that were asked for: the
    first of a sentence is never asked for, padding neither.
    """
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none")  # (b, n - 1)
    return losses[mask[:, 1:]].mean()

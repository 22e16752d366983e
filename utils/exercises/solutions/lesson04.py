"""Solutions of lesson 04, written by `make notebooks` from notebooks/src/04_self_attention.py: edit that."""

from torch import nn
from utils.models import attention
import torch
import torch.nn.functional as F


# Exercise 4.1 · self-attention by loops · medium · 10 min
def self_attention_loop(X, W_Q, W_K, W_V):
    """One sentence X (n, d), W_Q and W_K (d, d_k), W_V (d, e) to output (n, e) and weights (n, n)."""
    ### BEGIN SOLUTION
    queries, keys, values = X @ W_Q, X @ W_K, X @ W_V
    output, weights = [], []
    for query in queries:  # each token asks ...
        scores = torch.stack([query @ key for key in keys])  # ... every token
        weights.append(torch.softmax(scores / len(query) ** 0.5, 0))
        output.append(sum(w * value for w, value in zip(weights[-1], values, strict=True)))
    return torch.stack(output), torch.stack(weights)
    ### END SOLUTION


# Exercise 4.2 · self-attention by matrices · easy · 5 min
def self_attention(X, W_Q, W_K, W_V, mask=None):
    """X (..., n, d), with or without a batch axis in front, to output (..., n, e), weights (..., n, n).

    mask (..., n, n) bool, True = may look.
    """
    ### BEGIN SOLUTION
    return attention(X @ W_Q, X @ W_K, X @ W_V, mask)
    ### END SOLUTION


# Exercise 4.3 · sinusoidal positions · medium · 12 min
def sinusoidal_positions(length, dim):
    """(length, dim): row p is position p = 0, 1, ...

    Its components 2 i and 2 i + 1 are the sine and the cosine of p · 10,000 ** (-2 i / dim).
    """
    ### BEGIN SOLUTION
    frequencies = 10_000.0 ** (-torch.arange(0, dim, 2) / dim)
    angles = torch.arange(length).unsqueeze(1) * frequencies  # (length, dim / 2)
    table = torch.zeros(length, dim)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table
    ### END SOLUTION


# Exercise 4.4 · a shift is a rotation · hard · 15 min
def shift_rotation(k, dim):
    """The one matrix R (dim, dim) with positions[i + k] == positions[i] @ R, whatever i.

    k may be negative.
    """
    ### BEGIN SOLUTION
    R = torch.zeros(dim, dim)
    for i in range(0, dim, 2):
        angle = torch.tensor(k * 10_000.0 ** (-i / dim))
        c, s = angle.cos(), angle.sin()
        R[i : i + 2, i : i + 2] = torch.tensor([[c, -s], [s, c]])
    return R
    ### END SOLUTION


# Exercise 4.5 · rotary positions · hard · 15 min
def rotate(x, positions):
    """x (..., n, d), positions (n,): turn each pair of neighbours (a, b), components 2 i and 2 i + 1,
    to (a cos - b sin, a sin + b cos); the angle is the position times 10,000 ** (-2 i / d).
    """
    ### BEGIN SOLUTION
    dim = x.size(-1)
    angles = positions.unsqueeze(-1) * 10_000.0 ** (-torch.arange(0, dim, 2) / dim)  # (n, d / 2)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.stack(turned, -1).flatten(-2)
    ### END SOLUTION


# Exercise 4.6 · the feed-forward layer · easy · 6 min
class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.widen = nn.Linear(dim, hidden)
        self.narrow = nn.Linear(hidden, dim)

    def forward(self, x):
        """x (..., dim) to (..., dim), each token alone, with a ReLU between the two layers."""
        ### BEGIN SOLUTION
        return self.narrow(torch.relu(self.widen(x)))
        ### END SOLUTION


# Exercise 4.7 · the causal mask · easy · 4 min
def causal_mask(length):
    """(length, length) bool; row i is True at the positions that token i may look at."""
    ### BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool).tril()
    ### END SOLUTION


# Exercise 4.8 · the padding mask · easy · 5 min
def padding_mask(lengths, length):
    """lengths (b,) to (b, 1, length) bool, True at the words, which stand in front of the padding."""
    ### BEGIN SOLUTION
    words = torch.arange(length) < lengths.unsqueeze(1)  # (b, length)
    return words.unsqueeze(1)
    ### END SOLUTION


# Exercise 4.9 · a layer of self-attention · medium · 12 min
class SelfAttention(nn.Module):
    def __init__(self, dim, inner):
        """Three linear layers without bias, dim to inner: `self.query`, `self.key`, `self.value`."""
        ### BEGIN SOLUTION
        super().__init__()
        self.query = nn.Linear(dim, inner, bias=False)
        self.key = nn.Linear(dim, inner, bias=False)
        self.value = nn.Linear(dim, inner, bias=False)
        ### END SOLUTION

    def forward(self, x, mask=None):
        """x (b, n, dim), mask (..., n, n) bool to output (b, n, inner) and weights (b, n, n)."""
        ### BEGIN SOLUTION
        return attention(self.query(x), self.key(x), self.value(x), mask)
        ### END SOLUTION


# Exercise 4.10 · the loss of every next word · medium · 10 min
def next_word_loss(logits, tokens, mask):
    """Mean cross-entropy: logits (b, n, words) at position t are about token t + 1 of tokens (b, n).

    mask (b, n) is True at tokens and False at padding, which nobody is asked for.
    """
    ### BEGIN SOLUTION
    guesses, targets = logits[:, :-1].transpose(1, 2), tokens[:, 1:]
    losses = F.cross_entropy(guesses, targets, reduction="none")  # (b, n - 1)
    return losses[mask[:, 1:]].mean()
    ### END SOLUTION

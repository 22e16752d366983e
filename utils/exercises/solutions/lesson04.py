"""Solutions of lesson 04, written by `make notebooks` from notebooks/src/04_self_attention.py: edit that."""

from torch import nn
from utils.models import attention
import torch
import torch.nn.functional as F

# The id of each exercise's cell
CELLS = {
    '4.1': '129b8ad2b57a',
    '4.2': '8034aac55971',
    '4.3': '8e9f5fc70d6e',
    '4.4': '2963cb62a8e5',
    '4.5': '31401d7d6944',
    '4.6': '632d59bdf71d',
    '4.7': 'db1eefe77980',
    '4.8': '3a4730f3dc5f',
    '4.9': '7d2d8143d609',
    '4.10': 'f11412d3a49f',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '4.1': [('code', 'Every number of the worked example')],
    '4.2': [('widget', 'Every number of the worked example'), ('code', 'Every number of the worked example'), ('code', 'Context changes a representation'), ('code', 'Self-attention is permutation equivariant'), ('code', 'A task that needs order'), ('code', 'Sinusoidal positions')],
    '4.3': [('code', ''), ('widget', ''), ('code', 'A shift is a rotation (optional)'), ('code', "Trained on Python's manual")],
    '4.4': [('code', '')],
    '4.5': [('code', '')],
    '4.6': [('code', "Trained on Python's manual")],
    '4.7': [('code', ''), ('code', 'No leak from the future'), ('code', 'Conventions for masks'), ('code', "Trained on Python's manual")],
    '4.8': [('code', ''), ('code', 'No leak from the future')],
    '4.9': [('code', 'No leak from the future'), ('code', 'Paint a mask'), ('widget', 'Paint a mask'), ('code', "Trained on Python's manual")],
    '4.10': [('code', "Trained on Python's manual")],
}


# Exercise 4.1 · self-attention with loops · medium · 10 min
def self_attention_loop(X, W_Q, W_K, W_V):
    """One sequence X (n, d), W_Q and W_K (d, d_k), W_V (d, e) to output (n, e) and weights (n, n)."""
    ### BEGIN SOLUTION
    queries, keys, values = X @ W_Q, X @ W_K, X @ W_V
    output, weights = [], []
    for query in queries:
        scores = torch.stack([query @ key for key in keys])  # one score per key
        weights.append(torch.softmax(scores / len(query) ** 0.5, 0))
        output.append(sum(w * value for w, value in zip(weights[-1], values, strict=True)))
    return torch.stack(output), torch.stack(weights)
    ### END SOLUTION


# Exercise 4.2 · self-attention with matrices · easy · 5 min
def self_attention(X, W_Q, W_K, W_V, mask=None):
    """X (..., n, d), with or without a batch axis in front, to output (..., n, e), weights (..., n, n).

    mask (..., n, n) bool, True = may attend.
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
    positions = torch.zeros(length, dim)
    positions[:, 0::2], positions[:, 1::2] = angles.sin(), angles.cos()
    return positions
    ### END SOLUTION


# Exercise 4.4 · a shift is a rotation · hard · 22 min · optional
def shift_rotation(k, dim):
    """The one matrix R (dim, dim) with positions[p + k] == positions[p] @ R, whatever p.

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


# Exercise 4.5 · rotary positions · hard · 15 min · optional
def rotate(x, positions):
    """RoPE: x (..., n, d), positions (n,). Rotate each pair (a, b) of components 2 i and 2 i + 1
    to (a cos - b sin, a sin + b cos); the angle is the position times 10,000 ** (-2 i / d).
    """
    ### BEGIN SOLUTION
    dim = x.size(-1)
    angles = positions.unsqueeze(-1) * 10_000.0 ** (-torch.arange(0, dim, 2) / dim)  # (n, d / 2)
    a, b = x[..., 0::2], x[..., 1::2]
    rotated = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.stack(rotated, -1).flatten(-2)
    ### END SOLUTION


# Exercise 4.6 · the feed-forward network · easy · 8 min
class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.linear1 = nn.Linear(dim, hidden_dim)
        self.linear2 = nn.Linear(hidden_dim, dim)

    def forward(self, x):
        """x (..., dim) to (..., dim), each token alone, with a ReLU between the two layers."""
        ### BEGIN SOLUTION
        return self.linear2(torch.relu(self.linear1(x)))
        ### END SOLUTION


# Exercise 4.7 · the causal mask · easy · 4 min
def causal_mask(length):
    """(length, length) bool; row i is True at the positions that token i may attend to."""
    ### BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool).tril()
    ### END SOLUTION


# Exercise 4.8 · the padding mask · easy · 5 min
def padding_mask(lengths, max_len):
    """lengths (b,) to (b, 1, max_len) bool, True at the tokens, which come before the padding."""
    ### BEGIN SOLUTION
    attention_mask = torch.arange(max_len) < lengths.unsqueeze(1)  # (b, max_len)
    return attention_mask.unsqueeze(1)
    ### END SOLUTION


# Exercise 4.9 · a self-attention layer · medium · 12 min
class SelfAttention(nn.Module):
    def __init__(self, dim, head_dim):
        """Three linear layers without bias, dim to head_dim: `self.query`, `self.key`, `self.value`."""
        ### BEGIN SOLUTION
        super().__init__()
        self.query = nn.Linear(dim, head_dim, bias=False)
        self.key = nn.Linear(dim, head_dim, bias=False)
        self.value = nn.Linear(dim, head_dim, bias=False)
        ### END SOLUTION

    def forward(self, x, mask=None):
        """x (b, n, dim), mask (..., n, n) bool to output (b, n, head_dim) and weights (b, n, n)."""
        ### BEGIN SOLUTION
        return attention(self.query(x), self.key(x), self.value(x), mask)
        ### END SOLUTION


# Exercise 4.10 · the next-token loss · medium · 15 min
def next_token_loss(logits, token_ids, attention_mask):
    """Mean cross-entropy: logits (b, n, vocab) at position t predict token t + 1 of token_ids (b, n).

    attention_mask (b, n) is True at tokens and False at padding, which is no target.
    """
    ### BEGIN SOLUTION
    predictions, targets = logits[:, :-1].transpose(1, 2), token_ids[:, 1:]
    losses = F.cross_entropy(predictions, targets, reduction="none")  # (b, n - 1)
    return losses[attention_mask[:, 1:]].mean()
    ### END SOLUTION

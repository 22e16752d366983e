"""Solutions of lesson 05, written by `make notebooks` from notebooks/src/05_multi_head_attention.py: edit that."""

from torch import nn
from utils.models.attention import attention
from utils.models.layers import FeedForward
import torch

# The id of each exercise's cell
CELLS = {
    '5.1': 'abfb5cd04fc9',
    '5.2': 'aae3626cc92c',
    '5.3': '1e44127af596',
    '5.4': '7163ab42e958',
    '5.5': '2316801f3d5a',
    '5.6': 'b273f5bc5097',
    '5.7': '465de9944439',
    '5.8': '7630a610b08f',
    '5.9': 'b41487b11e5b',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '5.1': [('code', ''), ('code', 'Equal to PyTorch')],
    '5.2': [('code', '')],
    '5.3': [('code', '')],
    '5.4': [('code', 'Equal to PyTorch')],
    '5.5': [('code', '')],
    '5.6': [],
    '5.7': [('code', '')],
    '5.8': [('code', '')],
    '5.9': [('code', '')],
}


# Exercise 5.1 · a list of heads · medium · 12 min
def list_of_heads(x, projections, W_O, mask=None):
    """x (b, n, d); projections (heads, 3, d, d_k): a W_Q, W_K, W_V per head; W_O (heads * d_k, d).

    Returns output (b, n, d) and weights (b, heads, n, n).
    mask bool, True = may attend: (n, n), (b, 1, n) or (b, n, n).
    """
    ### BEGIN SOLUTION
    outputs, weights = [], []
    for W_Q, W_K, W_V in projections:
        context, head_weights = attention(x @ W_Q, x @ W_K, x @ W_V, mask)
        outputs.append(context)
        weights.append(head_weights)
    return torch.cat(outputs, -1) @ W_O, torch.stack(weights, 1)
    ### END SOLUTION


# Exercise 5.2 · split into heads · easy · 6 min
def split_heads(x, num_heads):
    """x (b, n, d) to (b, num_heads, n, d_k): head 0 gets the first d_k = d / num_heads features."""
    ### BEGIN SOLUTION
    b, n, d = x.shape
    return x.view(b, n, num_heads, d // num_heads).transpose(1, 2)
    ### END SOLUTION


# Exercise 5.3 · merge the heads · easy · 5 min
def merge_heads(x):
    """Undo split_heads, x (b, heads, n, d_k) to (b, n, heads * d_k): concatenate the heads."""
    ### BEGIN SOLUTION
    return x.transpose(1, 2).flatten(2)
    ### END SOLUTION


# Exercise 5.4 · multi-head attention · hard · 20 min
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj = nn.Linear(dim, 3 * dim)  # queries, keys, values: three blocks of dim
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, memory=None, mask=None):
        """x (b, m, dim), memory (b, n, dim) to output (b, m, dim) and weights (b, num_heads, m, n).

        memory=None: self-attention. mask bool, True = may attend: (m, n), (b, 1, n) or (b, m, n).
        """
        ### BEGIN SOLUTION
        memory = x if memory is None else memory
        query, _, _ = self.in_proj(x).chunk(3, -1)
        _, key, value = self.in_proj(memory).chunk(3, -1)
        query, key, value = (split_heads(part, self.num_heads) for part in (query, key, value))
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)  # one mask for all heads of a sequence
        context, weights = attention(query, key, value, mask)
        return self.out_proj(merge_heads(context)), weights
        ### END SOLUTION


# Exercise 5.5 · layer normalization · medium · 12 min
class LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        """Learned `self.weight` (dim,), initialized to ones, and `self.bias` (dim,), to zeros; no other parameters or buffers."""
        ### BEGIN SOLUTION
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        ### END SOLUTION

    def forward(self, x):
        """x (..., dim) to (..., dim), each token on its own."""
        ### BEGIN SOLUTION
        centered = x - x.mean(-1, keepdim=True)
        variance = centered.square().mean(-1, keepdim=True)
        return centered / (variance + self.eps).sqrt() * self.weight + self.bias
        ### END SOLUTION


# Exercise 5.6 · a residual connection, pre-norm and post-norm · easy · 6 min
def residual(x, sublayer, norm, norm_first):
    """Residual connection around `sublayer`; `sublayer` and `norm` are functions of x.

    norm_first=True, pre-norm: normalize before the sublayer; False, post-norm: after the addition.
    """
    ### BEGIN SOLUTION
    if norm_first:
        return x + sublayer(norm(x))
    return norm(x + sublayer(x))
    ### END SOLUTION


# Exercise 5.7 · the encoder layer · hard · 18 min
class EncoderLayer(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, *, norm_first):
        super().__init__()
        self.norm_first = norm_first
        self.self_attn = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.norm1, self.norm2 = LayerNorm(dim), LayerNorm(dim)

    def forward(self, x, mask=None):
        """x (b, n, dim), mask as in 5.4, to x (b, n, dim) and weights (b, num_heads, n, n)."""
        ### BEGIN SOLUTION
        all_weights = []

        def attend(x):
            context, weights = self.self_attn(x, mask=mask)
            all_weights.append(weights)
            return context

        x = residual(x, attend, self.norm1, self.norm_first)
        x = residual(x, self.feed_forward, self.norm2, self.norm_first)
        return x, all_weights[0]
        ### END SOLUTION


# Exercise 5.8 · how much two heads differ · medium · 10 min · optional
def jensen_shannon(p, q):
    """Divergence of p and q (..., n), which may broadcast, natural
    logarithm, to (...). Some weights may be 0.
    """
    ### BEGIN SOLUTION
    middle = (p + q) / 2
    from_p = (torch.xlogy(p, p) - torch.xlogy(p, middle)).sum(-1)  # xlogy(0, 0) is 0
    from_q = (torch.xlogy(q, q) - torch.xlogy(q, middle)).sum(-1)
    return (from_p + from_q) / 2
    ### END SOLUTION


# Exercise 5.9 · ablate a head · easy · 7 min
def mix_heads(context, W_O, head_mask):
    """context (b, heads, n, d_k), W_O (heads * d_k, d), head_mask (heads,) to (b, n, d)."""
    ### BEGIN SOLUTION
    return merge_heads(context * head_mask.view(-1, 1, 1)) @ W_O
    ### END SOLUTION

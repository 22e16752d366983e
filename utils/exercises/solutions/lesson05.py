"""Solutions of lesson 05, written by `make notebooks` from notebooks/src/05_multi_head_attention.py: edit that."""

from torch import nn
from utils.models import attention
from utils.models.self_attention import FeedForward
import torch


# Exercise 5.1 · a list of heads · medium · 12 min
def list_of_heads(x, maps, W_O, mask=None):
    """x (b, n, d); maps (heads, 3, d, d_k): W_Q, W_K, W_V of each head; W_O (heads * d_k, d).

    Returns output (b, n, d) and weights (b, heads, n, n). mask (..., n, n) bool, True = may look.
    """
    ### BEGIN SOLUTION
    outputs, weights = [], []
    for W_Q, W_K, W_V in maps:
        found, looked = attention(x @ W_Q, x @ W_K, x @ W_V, mask)
        outputs.append(found)
        weights.append(looked)
    return torch.cat(outputs, -1) @ W_O, torch.stack(weights, 1)
    ### END SOLUTION


# Exercise 5.2 · split into heads · easy · 6 min
def split_heads(x, heads):
    """x (b, n, d) to (b, heads, n, d_k), d_k = d / heads: head 0 gets the first d_k components."""
    ### BEGIN SOLUTION
    b, n, d = x.shape
    return x.view(b, n, heads, d // heads).transpose(1, 2)
    ### END SOLUTION


# Exercise 5.3 · merge the heads · easy · 5 min
def merge_heads(x):
    """The way back: x (b, heads, n, d_k) to (b, n, heads * d_k), a token's heads side by side."""
    ### BEGIN SOLUTION
    return x.transpose(1, 2).flatten(2)
    ### END SOLUTION


# Exercise 5.4 · multi-head attention · hard · 15 min
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(dim, 3 * dim)  # queries, keys, values: three blocks of dim
        self.mix = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        """x (b, n, dim) to output (b, n, dim) and weights (b, heads, n, n).

        mask bool, True = may look: (n, n) for all sentences, (b, 1, n) or (b, n, n) for each.
        """
        ### BEGIN SOLUTION
        query, key, value = (split_heads(part, self.heads) for part in self.project(x).chunk(3, -1))
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)  # one mask for all heads of a sentence
        found, weights = attention(query, key, value, mask)
        return self.mix(merge_heads(found)), weights
        ### END SOLUTION


# Exercise 5.5 · how far apart two heads look · medium · 10 min
def jensen_shannon(p, q):
    """The divergence of p and q (..., n), natural logarithm, to (...). Some weights may be 0."""
    ### BEGIN SOLUTION
    middle = (p + q) / 2
    from_p = (torch.xlogy(p, p) - torch.xlogy(p, middle)).sum(-1)  # xlogy(0, 0) is 0
    from_q = (torch.xlogy(q, q) - torch.xlogy(q, middle)).sum(-1)
    return (from_p + from_q) / 2
    ### END SOLUTION


# Exercise 5.6 · remove a head · easy · 7 min
def mix_heads(found, W_O, gates):
    """found (b, heads, n, d_k), W_O (heads * d_k, d), gates (heads,) to (b, n, d)."""
    ### BEGIN SOLUTION
    return merge_heads(found * gates.view(-1, 1, 1)) @ W_O
    ### END SOLUTION


# Exercise 5.7 · layer normalisation · medium · 10 min
class LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        """Learned `self.gain` (dim,), at first ones, and `self.shift` (dim,), at first zeros."""
        ### BEGIN SOLUTION
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))
        ### END SOLUTION

    def forward(self, x):
        """x (..., dim) to (..., dim), each token on its own."""
        ### BEGIN SOLUTION
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + self.eps).sqrt() * self.gain + self.shift
        ### END SOLUTION


# Exercise 5.8 · a residual branch, in two orders · easy · 6 min
def residual(x, layer, norm, order):
    """x and what `layer` makes of it, added up. `layer` and `norm` are functions of x.

    order "pre": the norm inside the branch, before the layer; "post": after the sum.
    """
    ### BEGIN SOLUTION
    if order == "pre":
        return x + layer(norm(x))
    return norm(x + layer(x))
    ### END SOLUTION


# Exercise 5.9 · the encoder layer · hard · 15 min
class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden, *, norm):
        super().__init__()
        self.norm = norm  # "pre" or "post"
        self.attention, self.feed_forward = MultiHeadAttention(dim, heads), FeedForward(dim, hidden)
        self.attention_norm, self.feed_forward_norm = LayerNorm(dim), LayerNorm(dim)

    def forward(self, x, mask=None):
        """x (b, n, dim) to x (b, n, dim) and weights (b, heads, n, n)."""
        ### BEGIN SOLUTION
        looked = []

        def look(x):
            found, weights = self.attention(x, mask)
            looked.append(weights)
            return found

        x = residual(x, look, self.attention_norm, self.norm)
        x = residual(x, self.feed_forward, self.feed_forward_norm, self.norm)
        return x, looked[0]
        ### END SOLUTION

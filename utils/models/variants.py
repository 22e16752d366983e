"""A causal language model in which each choice that lessons 04 to 07 made can be made otherwise, one at a time.

    Variant()                       lesson 07's model: GELU, layer norm before each part, sinusoids, tied tables
    Variant(positions="rotary")     the same with one change

b texts, n pieces.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.encoder import FeedForward, LayerNorm
from utils.models.llama import GatedFeedForward, RMSNorm
from utils.models.multi_head import MultiHeadAttention
from utils.models.positions import LearnedPositions, rotate, sinusoidal_positions
from utils.models.self_attention import causal_mask

NORMS = {"layer": LayerNorm, "rms": RMSNorm}


@dataclass(frozen=True)
class Variant:
    """One choice of each kind. gated: SwiGLU, a unit times the silu of its gate, without biases."""

    activation: str = "gelu"  # or "relu", "gated"
    norm: str = "layer"  # or "rms"
    order: str = "pre"  # or "post"
    positions: str = "sinusoidal"  # or "learned", "rotary"
    tied: bool = True


class VariantLayer(nn.Module):
    """Look back, then think, each with its norm before it (pre) or behind the sum (post)."""

    def __init__(self, dim: int, heads: int, hidden: int, variant: Variant):
        super().__init__()
        self.order, self.rotary = variant.order, variant.positions == "rotary"
        self.attention = MultiHeadAttention(dim, heads)
        gated = variant.activation == "gated"
        self.feed_forward = GatedFeedForward(dim, hidden) if gated else FeedForward(dim, hidden, variant.activation)
        self.attention_norm, self.feed_forward_norm = NORMS[variant.norm](dim), NORMS[variant.norm](dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (b, n, dim) to (b, n, dim)."""
        if self.order == "post":
            x = self.attention_norm(x + self._look(x, mask))
            return self.feed_forward_norm(x + self.feed_forward(x))
        x = x + self._look(self.attention_norm(x), mask)
        return x + self.feed_forward(self.feed_forward_norm(x))

    def _look(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.attention.queries_keys_values(x)
        if self.rotary:
            places = torch.arange(x.size(1))
            query, key = rotate(query, places), rotate(key, places)
        return self.attention.look(query, key, value, mask)[0]


class VariantLM(nn.Module):
    """Pieces (b, n) to the logits of the piece after each, (b, n, pieces).

    longest: the length of the table of learned positions; the other kinds have no table to end.
    """

    def __init__(
        self, pieces: int, dim: int, heads: int, hidden: int, layers: int, variant: Variant, longest: int = 64
    ):
        super().__init__()
        self.variant = variant
        self.table = nn.Embedding(pieces, dim)
        self.output = None if variant.tied else nn.Parameter(torch.empty(pieces, dim))
        for matrix in (self.table.weight,) if variant.tied else (self.table.weight, self.output):
            nn.init.normal_(matrix, std=dim**-0.5)
        self.bias = nn.Parameter(torch.zeros(pieces))
        self.learned = LearnedPositions(longest, dim) if variant.positions == "learned" else None
        self.layers = nn.ModuleList(VariantLayer(dim, heads, hidden, variant) for _ in range(layers))
        # With post-norm each layer ends in a norm already.
        self.final_norm = NORMS[variant.norm](dim) if variant.order == "pre" else nn.Identity()

    def forward(self, numbers: Tensor) -> Tensor:
        x, mask = self._vectors(numbers), causal_mask(numbers.size(1))
        for layer in self.layers:
            x = layer(x, mask)
        return F.linear(self.final_norm(x), self.table.weight if self.output is None else self.output, self.bias)

    def _vectors(self, numbers: Tensor) -> Tensor:
        n, dim = numbers.size(1), self.table.embedding_dim
        x = self.table(numbers) * dim**0.5
        if self.learned is not None:
            return x + self.learned(n)
        return x + sinusoidal_positions(n, dim) if self.variant.positions == "sinusoidal" else x


def parameter_count(model: nn.Module) -> int:
    return sum(one.numel() for one in model.parameters())

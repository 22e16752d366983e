"""Self-attention: every token asks every token. With the parts that make it a layer: masks, positions, a feed-forward net.

Tokens are rows: a matrix of weights stands at the right, X W, and is (inputs, outputs). `nn.Linear` stores its transpose.
"""

import torch
from torch import Tensor, nn

from utils.models.attention import attention
from utils.models.positions import LearnedPositions, rotate, sinusoidal_positions

# "causal" has no positions at all, only the mask that hides the future.
POSITIONS = ("none", "sinusoidal", "learned", "rotary", "causal")


# Masks: True = may look


def causal_mask(n: int) -> Tensor:
    """(n, n) bool: row i is True at the tokens that token i may look at, itself and those before it."""
    return torch.ones(n, n, dtype=torch.bool).tril()


# The layer


class SelfAttention(nn.Module):
    """One head of self-attention. The three projections are the only parameters; the weights are made from the data.

    With `rotary`, queries and keys are turned by their positions (`inner` must then be even).
    """

    def __init__(self, dim: int, inner: int | None = None, rotary: bool = False):
        super().__init__()
        inner = dim if inner is None else inner
        self.rotary = rotary
        self.query = nn.Linear(dim, inner, bias=False)
        self.key = nn.Linear(dim, inner, bias=False)
        self.value = nn.Linear(dim, inner, bias=False)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, start: int = 0, need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """x (b, n, dim), mask (..., n, n) bool, True = may look, to output (b, n, inner) and weights (b, n, n).

        start: the position of the first token; only rotary positions notice.
        """
        query, key, value = self.query(x), self.key(x), self.value(x)
        if self.rotary:
            positions = torch.arange(start, start + x.size(-2))
            query, key = rotate(query, positions), rotate(key, positions)
        return attention(query, key, value, mask, need_weights=need_weights)


class FeedForward(nn.Module):
    """The same small network for every token, x (..., dim) to (..., dim): no token sees another here."""

    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.widen = nn.Linear(dim, hidden)
        self.narrow = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(torch.relu(self.widen(x)))


class Block(nn.Module):
    """Look around, then think: x + attention, then x + feed-forward. `hidden=0` leaves the feed-forward layer out.

    What was found is added to what was there, as a memory network adds it to its state.
    """

    def __init__(self, dim: int, hidden: int | None = None, rotary: bool = False):
        super().__init__()
        hidden = 4 * dim if hidden is None else hidden
        self.attention = SelfAttention(dim, rotary=rotary)
        self.feed_forward = FeedForward(dim, hidden) if hidden else None

    def forward(
        self, x: Tensor, mask: Tensor | None = None, start: int = 0, need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """x (b, n, dim) to x (b, n, dim) and weights (b, n, n); arguments as in `SelfAttention`."""
        found, weights = self.attention(x, mask, start, need_weights)
        x = x + found
        return (x if self.feed_forward is None else x + self.feed_forward(x)), weights


# Whole models


class TokenVectors(nn.Module):
    """Tokens (b, n) to vectors (b, n, width) that say what each token is and, by some kinds of positions, where it stands.

    way: "add" the position to the embedding, or "concatenate" the two; then the embedding has `dim` components and the
    position `place_dim` more. Rotary and causal models get no position here.
    """

    def __init__(
        self, tokens: int, dim: int, positions: str, longest: int, way: str = "add", place_dim: int | None = None
    ):
        super().__init__()
        self.positions, self.way = positions, way
        self.place_dim = dim if place_dim is None or way == "add" else place_dim
        self.width = dim + self.place_dim if way == "concatenate" else dim
        self.table = nn.Embedding(tokens, dim)
        self.learned = LearnedPositions(longest, self.place_dim) if positions == "learned" else None

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        x, n = self.table(tokens), tokens.size(-1)
        if self.positions == "sinusoidal":
            place = sinusoidal_positions(n, self.place_dim, start=start).to(x.dtype)
        elif self.learned is not None:
            place = self.learned(n, start)
        else:
            return x
        if self.way == "add":
            return x + place
        return torch.cat([x, place.expand(*x.shape[:-1], self.place_dim)], -1)


class SequenceClassifier(nn.Module):
    """One block over the tokens, the mean of what comes out, and a linear layer: tokens (b, n) to logits (b, classes)."""

    def __init__(
        self,
        tokens: int,
        classes: int,
        dim: int = 32,
        hidden: int | None = None,
        positions: str = "sinusoidal",
        longest: int = 16,
        way: str = "add",
        place_dim: int | None = None,
    ):
        super().__init__()
        self.vectors = TokenVectors(tokens, dim, positions, longest, way, place_dim)
        self.block = Block(self.vectors.width, hidden, rotary=positions == "rotary")
        self.answer = nn.Linear(self.vectors.width, classes)
        self.causal = positions == "causal"

    def forward(self, tokens: Tensor, real: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
        """tokens (b, n), real (b, n) bool, False = padding. Returns logits (b, classes) and the block's weights (b, n, n)."""
        mask = real.unsqueeze(-2)
        if self.causal:
            mask = mask & causal_mask(tokens.size(-1))
        x, weights = self.block(self.vectors(tokens, start), mask, start)
        count = real.sum(-1, keepdim=True)
        mean = x.masked_fill(~real.unsqueeze(-1), 0.0).sum(-2) / count
        return self.answer(mean), weights


class LanguageModel(nn.Module):
    """A causal language model: at every position at once, the logits of the next token; tokens (b, n) to (b, n, tokens)."""

    def __init__(
        self,
        tokens: int,
        dim: int = 96,
        hidden: int | None = None,
        blocks: int = 2,
        longest: int = 64,
        positions: str = "learned",
    ):
        super().__init__()
        self.longest = longest
        self.vectors = TokenVectors(tokens, dim, positions, longest)
        self.blocks = nn.ModuleList(Block(dim, hidden, rotary=positions == "rotary") for _ in range(blocks))
        self.answer = nn.Linear(dim, tokens)

    def forward(self, tokens: Tensor, need_weights: bool = False) -> tuple[Tensor, list[Tensor] | None]:
        """Returns logits (b, n, tokens) and, if they are needed, the weights (b, n, n) of each block."""
        x, mask = self.vectors(tokens), causal_mask(tokens.size(-1))
        looked = []
        for block in self.blocks:
            x, weights = block(x, mask, need_weights=need_weights)
            looked.append(weights)
        return self.answer(x), looked if need_weights else None

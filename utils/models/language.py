"""Models that are pretrained on text: the same blocks with two masks, heads for their tasks, and low-rank adapters.

b texts, n pieces each. `real` (b, n) is True at the pieces and False at the padding behind them; without it all are real. The
third kind of pretraining needs no class of its own: lesson 06's `Transformer` with one vocabulary and `tied="all"`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.encoder import Encoder
from utils.models.multi_head import MultiHeadAttention
from utils.models.self_attention import causal_mask
from utils.models.transformer import WordVectors

ADAPTED = ("project", "mix")  # the maps of an attention layer: to queries, keys and values, and from the heads


class _Language(nn.Module):
    """Pieces to vectors through pre-norm blocks; the table of pieces is the output layer as well, with a bias per piece."""

    def __init__(
        self, pieces: int, dim: int, heads: int, hidden: int | None = None, layers: int = 2, *, dropout: float = 0.0
    ):
        super().__init__()
        self.words = WordVectors(pieces, dim, dropout)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre", dropout=dropout, activation="gelu")
        self.bias = nn.Parameter(torch.zeros(pieces))

    @property
    def dim(self) -> int:
        return self.words.table.embedding_dim

    def mask(self, numbers: Tensor, real: Tensor | None) -> Tensor | None:
        raise NotImplementedError

    def vectors(self, numbers: Tensor, real: Tensor | None = None) -> Tensor:
        """numbers (b, n) to (b, n, dim): what the blocks make of each piece."""
        return self.encoder(self.words(numbers), self.mask(numbers, real))[0]

    def scores(self, vectors: Tensor) -> Tensor:
        """vectors (..., dim) to logits (..., pieces). Apart from `forward`, since most places need no answer when masked."""
        return F.linear(vectors, self.words.table.weight, self.bias)

    def forward(self, numbers: Tensor, real: Tensor | None = None) -> Tensor:
        """numbers (b, n) to logits (b, n, pieces)."""
        return self.scores(self.vectors(numbers, real))


class MaskedLM(_Language):
    """An encoder: every piece sees all pieces, before and behind. The logits are for the piece that stands here."""

    def mask(self, numbers: Tensor, real: Tensor | None) -> Tensor | None:
        return None if real is None or real.all() else real.unsqueeze(1)


class CausalLM(_Language):
    """A decoder: every piece sees itself and the pieces before it. The logits are for the piece that comes next.

    Padding stands behind the text, where only padding looks, so `real` changes nothing at the real pieces.
    """

    def mask(self, numbers: Tensor, real: Tensor | None) -> Tensor | None:
        mask = causal_mask(numbers.size(1)).to(numbers.device)
        return mask if real is None else mask & real.unsqueeze(1)


def mean_of_real(vectors: Tensor, real: Tensor | None = None) -> Tensor:
    """vectors (b, n, dim) to their means (b, dim), padding left out."""
    if real is None:
        return vectors.mean(1)
    share = real.to(vectors.dtype).unsqueeze(-1)
    return (vectors * share).sum(1) / share.sum(1)


class Classifier(nn.Module):
    """A pretrained body with a new layer on top: the mean of the vectors of the real pieces, then a linear map.

    The new layer starts near zero, so that at first every class is about as likely as every other, whatever the body says.
    body: anything with `vectors(numbers, real)`, as the models here have.
    """

    def __init__(self, body: nn.Module, dim: int, classes: int, start: float = 0.02):
        super().__init__()
        self.body = body
        self.head = nn.Linear(dim, classes)
        nn.init.normal_(self.head.weight, std=start)
        nn.init.zeros_(self.head.bias)

    def forward(self, numbers: Tensor, real: Tensor | None = None) -> Tensor:
        """numbers (b, n) to logits (b, classes)."""
        return self.head(mean_of_real(self.body.vectors(numbers, real), real))


class LowRank(nn.Module):
    """A frozen linear map W x plus a map of low rank, scale B (A x): A (rank, inputs), B (outputs, rank).

    B starts at zero, so at first nothing has changed. `weight` is the sum W + scale B A as one matrix, so whoever reads the
    weight of the layer gets what it does.
    """

    def __init__(self, linear: nn.Linear, rank: int, scale: float = 1.0):
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), scale
        self.down = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        nn.init.normal_(self.down, std=linear.in_features**-0.5)

    @property
    def weight(self) -> Tensor:
        return self.linear.weight + self.scale * self.up @ self.down

    @property
    def bias(self) -> Tensor | None:
        return self.linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.scale * F.linear(F.linear(x, self.down), self.up)


def add_adapters(model: nn.Module, rank: int) -> list[nn.Parameter]:
    """Freeze the model and put a `LowRank` in place of each attention layer's projections; returns the new parameters.

    A head that is to be trained goes on top afterwards.
    """
    layers = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    model.requires_grad_(False)
    new = []
    for layer in layers:
        for name in ADAPTED:
            adapter = LowRank(getattr(layer, name), rank)
            setattr(layer, name, adapter)
            new += [adapter.down, adapter.up]
    return new

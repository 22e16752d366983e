"""The encoder of the Transformer: attention, then a feed-forward net, each with a way around it and a norm, many times over."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models import self_attention
from utils.models.multi_head import MultiHeadAttention

NORMS = ("pre", "post", "none")
ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu}


class LayerNorm(nn.Module):
    """Layer normalization: each token of x (..., dim) to mean 0 and standard deviation 1, then times `gain` plus `shift` (dim,)."""

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.gain.shape, self.gain, self.shift, self.eps)


class FeedForward(self_attention.FeedForward):
    """Lesson 04's feed-forward net, x (..., dim) to (..., dim), with a choice of activation."""

    def __init__(self, dim: int, hidden: int, activation: str = "relu"):
        super().__init__(dim, hidden)
        self.activation = one_of("activation", activation, ACTIVATIONS)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(ACTIVATIONS[self.activation](self.widen(x)))


class EncoderLayer(nn.Module):
    """Every token looks at every token, then thinks on its own; what comes out is added to what went in.

    norm: "pre" normalises what goes into each part, x + part(norm(x)); "post" normalises the sum, norm(x + part(x)), as the
    first Transformer did; "none" leaves it out. `residual=False` leaves the sum out. hidden: 4 dim unless given.
    dropout: the share of each part's output that is zeroed in training. (torch's layer also drops attention weights and
    hidden units; without dropout the two are equal.)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int | None = None,
        *,
        norm: str,
        dropout: float = 0.0,
        activation: str = "relu",
        residual: bool = True,
        eps: float = 1e-5,
    ):
        super().__init__()
        self.norm, self.residual = one_of("norm", norm, NORMS), residual
        self.attention = MultiHeadAttention(dim, heads)
        self.feed_forward = FeedForward(dim, 4 * dim if hidden is None else hidden, activation)
        self.attention_norm = nn.Identity() if norm == "none" else LayerNorm(dim, eps)
        self.feed_forward_norm = nn.Identity() if norm == "none" else LayerNorm(dim, eps)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False, heads_on: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """x (b, n, dim) to x (b, n, dim) and weights (b, heads, n, n), None if not needed.

        mask: bool, True = may look, (n, n), (b, 1, n) or (b, n, n); heads_on (heads,): see `MultiHeadAttention`.
        """
        if self.norm == "post":
            found, weights = self.attention(x, None, mask, need_weights, heads_on)
            x = self.attention_norm(self._add(x, found))
            x = self.feed_forward_norm(self._add(x, self.feed_forward(x)))
        else:
            found, weights = self.attention(self.attention_norm(x), None, mask, need_weights, heads_on)
            x = self._add(x, found)
            x = self._add(x, self.feed_forward(self.feed_forward_norm(x)))
        return x, weights

    def _add(self, x: Tensor, found: Tensor) -> Tensor:
        return x + self.dropout(found) if self.residual else self.dropout(found)


class Encoder(nn.Module):
    """Layers one after the other; each has parameters of its own.

    final_norm: normalise what leaves the last layer. By default only with pre-norm, where nothing else does: the sum of all
    layers would leave as large as it has grown. Further options go to each `EncoderLayer`.
    """

    def __init__(
        self,
        layers: int,
        dim: int,
        heads: int,
        hidden: int | None = None,
        *,
        norm: str,
        final_norm: bool | None = None,
        **options,
    ):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, hidden, norm=norm, **options) for _ in range(layers))
        final_norm = norm == "pre" if final_norm is None else final_norm
        self.final_norm = LayerNorm(dim, options.get("eps", 1e-5)) if final_norm else None

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        heads_on: Tensor | Sequence[Tensor | None] | None = None,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """x (b, n, dim) to x (b, n, dim) and a list with the weights (b, heads, n, n) of each layer, None if not needed.

        mask as in `EncoderLayer`; heads_on (layers, heads), or a list with (heads,) or None for each layer.
        """
        looked = []
        for number, layer in enumerate(self.layers):
            x, weights = layer(x, mask, need_weights, None if heads_on is None else heads_on[number])
            looked.append(weights)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return x, looked if need_weights else None


def one_of(what: str, given: str, known: Sequence[str]) -> str:
    if given not in known:
        raise ValueError(f"expected {what} of {', '.join(known)}, got {given!r}")
    return given

"""Transformer layers (Vaswani et al., 2017, arXiv:1706.03762), their stacks, and the embedding in front of them.

b sequences, n tokens (in a decoder m target tokens and n source tokens). Every mask is bool, True = may attend.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.attention import KeyValues, KVCache, MultiHeadAttention
from utils.models.positions import LearnedPositions, MaxLengthError, rotary_embedding, sinusoidal_positions

NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "none": lambda dim, eps: nn.Identity()}
ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu}
POSITIONS = ("sinusoidal", "learned", "rotary", "none")


class FeedForward(nn.Module):
    """Position-wise feed-forward network, x (..., dim) to (..., dim): the same two linear layers for every token."""

    def __init__(self, dim: int, hidden_dim: int, activation: str = "relu"):
        super().__init__()
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.linear1 = nn.Linear(dim, hidden_dim)
        self.linear2 = nn.Linear(hidden_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(ACTIVATIONS[self.activation](self.linear1(x)))


class SwiGLU(nn.Module):
    """Gated feed-forward network (Shazeer, 2020, arXiv:2002.05202), x (..., dim) to (..., dim), without biases.

    The rows of `linear1` are two blocks of `hidden_dim`: gates, then units. Three matrices in place of two, so at the same
    number of parameters `hidden_dim` is two thirds of that of `FeedForward`.
    """

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.linear1 = nn.Linear(dim, 2 * hidden_dim, bias=False)
        self.linear2 = nn.Linear(hidden_dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, unit = self.linear1(x).chunk(2, -1)
        return self.linear2(F.silu(gate) * unit)


class TransformerLayer(nn.Module):
    """Transformer layer, the base of encoder and decoder layer: the feed-forward network, and for each sublayer a norm and a
    residual connection.

    norm_first=True is pre-norm, x + f(norm(x)); False is post-norm, norm(x + f(x)), as in Vaswani et al. (2017).
    norm: "layer", "rms" (Zhang and Sennrich, 2019, arXiv:1910.07467) or "none"; activation: "relu", "gelu" or "swiglu".
    hidden_dim: 4 dim by default. residual=False leaves the residual connections out. dropout acts on the output of each
    sublayer. (torch's layers also drop attention weights and hidden units; without dropout the two are equal.)
    """

    def __init__(
        self,
        attention: dict[str, nn.Module],
        dim: int,
        hidden_dim: int | None,
        *,
        norm_first: bool,
        norm: str = "layer",
        activation: str = "relu",
        dropout: float = 0.0,
        residual: bool = True,
        eps: float = 1e-5,
    ):
        super().__init__()
        self.norm_first, self.residual = norm_first, residual
        for name, module in attention.items():
            self.add_module(name, module)
        hidden_dim = 4 * dim if hidden_dim is None else hidden_dim
        self.feed_forward = (
            SwiGLU(dim, hidden_dim) if activation == "swiglu" else FeedForward(dim, hidden_dim, activation)
        )
        for number in range(1, len(attention) + 2):  # norm1, norm2, ...: one for each sublayer
            self.add_module(f"norm{number}", NORMS[one_of("norm", norm, NORMS)](dim, eps=eps))
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """The input of a sublayer: normalized in pre-norm."""
        return norm(x) if self.norm_first else x

    def after(self, norm: nn.Module, x: Tensor, update: Tensor) -> Tensor:
        """The residual connection around a sublayer; normalized in post-norm."""
        if self.training:
            update = self.dropout(update)
        x = x + update if self.residual else update
        return x if self.norm_first else norm(x)


class EncoderLayer(TransformerLayer):
    """Transformer encoder layer: self-attention, then a feed-forward network, each with a residual connection and a norm.

    Options as in `TransformerLayer`. self_attn: a ready attention module in place of `MultiHeadAttention`.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        hidden_dim: int | None = None,
        *,
        num_kv_heads: int | None = None,
        bias: bool = True,
        self_attn: nn.Module | None = None,
        **options,
    ):
        self_attn = MultiHeadAttention(dim, num_heads, num_kv_heads, bias) if self_attn is None else self_attn
        super().__init__({"self_attn": self_attn}, dim, hidden_dim, **options)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False, **options
    ) -> tuple[Tensor, Tensor | None]:
        """x (b, n, dim) to x (b, n, dim) and attention weights (b, num_heads, n, n), None if not needed.

        mask (n, n), (b, 1, n) or (b, n, n); options: head_mask, rotation and cache of `MultiHeadAttention`.
        """
        context, weights = self.self_attn(self.before(self.norm1, x), mask=mask, need_weights=need_weights, **options)
        x = self.after(self.norm1, x, context)
        x = self.after(self.norm2, x, self.feed_forward(self.before(self.norm2, x)))
        return x, weights


class DecoderLayer(TransformerLayer):
    """Transformer decoder layer: causal self-attention, cross-attention to the encoder's output, a feed-forward network.

    Options as in `TransformerLayer`. Nothing is masked by itself.
    """

    def __init__(self, dim: int, num_heads: int, hidden_dim: int | None = None, **options):
        attention = {name: MultiHeadAttention(dim, num_heads) for name in ("self_attn", "cross_attn")}
        super().__init__(attention, dim, hidden_dim, **options)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
        rotation: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """x (b, m, dim) and memory (b, n, dim) to x, self-attention weights (b, num_heads, m, m) and cross-attention weights
        (b, num_heads, m, n); None for both weights if they are not needed. mask (m, m) or (b, m, m), memory_mask (b, 1, n)
        or (b, m, n); rotation (m, d / 2): rotary position embedding of self-attention."""
        context, self_weights = self.self_attn(
            self.before(self.norm1, x), mask=mask, need_weights=need_weights, rotation=rotation
        )
        x = self.after(self.norm1, x, context)
        context, cross_weights = self.cross_attn(self.before(self.norm2, x), memory, memory_mask, need_weights)
        x = self.after(self.norm2, x, context)
        x = self.after(self.norm3, x, self.feed_forward(self.before(self.norm3, x)))
        return x, self_weights, cross_weights

    def step(
        self, x: Tensor, cache: KVCache, memory: KeyValues, rotation: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The newest token x (b, dim) to x and cross-attention weights (b, num_heads, n): `forward` with both caches."""
        context, _ = self.self_attn.step(self.before(self.norm1, x), cache, rotation)
        x = self.after(self.norm1, x, context)
        context, cross_weights = self.cross_attn.attend_cached(self.before(self.norm2, x), memory)
        x = self.after(self.norm2, x, context)
        x = self.after(self.norm3, x, self.feed_forward(self.before(self.norm3, x)))
        return x, cross_weights


class _Stack(nn.Module):
    """A stack of layers, and a final norm of their kind.

    rope_base: base of the rotary position embedding in self-attention, None for none.
    """

    def __init__(
        self, layers: Iterable[TransformerLayer], final_norm: bool | None, rope_base: float | None, head_dim: int
    ):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        final_norm = self.layers[0].norm_first if final_norm is None else final_norm
        self.norm = copy.deepcopy(self.layers[0].norm1) if final_norm else nn.Identity()
        self.rope_base, self.head_dim = rope_base, head_dim

    def rotation(self, x: Tensor, start: int = 0) -> Tensor | None:
        """Rotary position embedding (n, head_dim / 2) of x (b, n, dim), whose first token is at position `start`."""
        if self.rope_base is None:
            return None
        positions = torch.arange(start, start + x.size(-2), device=x.device)
        return rotary_embedding(positions, self.head_dim, self.rope_base, x.dtype)


class TransformerEncoder(_Stack):
    """Transformer encoder: a stack of encoder layers; with a causal mask, the stack of a decoder-only language model.

    final_norm: normalize the output of the last layer. By default only with pre-norm, where no layer has done it.
    rope_base: base of the rotary position embedding, None for none. self_attn: makes the attention module of a layer.
    Further options go to each `EncoderLayer`.
    """

    def __init__(
        self,
        num_layers: int,
        dim: int,
        num_heads: int,
        hidden_dim: int | None = None,
        *,
        final_norm: bool | None = None,
        rope_base: float | None = None,
        self_attn: Callable[[], nn.Module] | None = None,
        **options,
    ):
        sizes = (dim, num_heads, hidden_dim)
        layers = (EncoderLayer(*sizes, self_attn=self_attn and self_attn(), **options) for _ in range(num_layers))
        super().__init__(layers, final_norm, rope_base, dim // num_heads)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        head_mask: Tensor | None = None,
        cache: Sequence[KVCache] | None = None,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """x (b, n, dim) to x (b, n, dim) and each layer's attention weights (b, num_heads, n, n), None if not needed.

        mask as in `EncoderLayer`; head_mask (num_layers, num_heads). cache: one for each layer; then x holds the new tokens
        only, as in `MultiHeadAttention`.
        """
        all_weights = []
        for output, weights in self.layer_outputs(x, mask, need_weights, head_mask, cache):
            x = output
            all_weights.append(weights)
        return self.norm(x), all_weights if need_weights else None

    def layer_outputs(
        self, x: Tensor, mask=None, need_weights=False, head_mask=None, cache=None
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """x (b, n, dim) and attention weights after each layer; arguments as in `forward`."""
        options = {}
        if self.rope_base is not None:
            options["rotation"] = self.rotation(x, cache[0].length if cache else 0)
        for number, layer in enumerate(self.layers):
            if head_mask is not None:
                options["head_mask"] = head_mask[number]
            if cache is not None:
                options["cache"] = cache[number]
            x, weights = layer(x, mask, need_weights, **options)
            yield x, weights


class TransformerDecoder(_Stack):
    """Transformer decoder: a stack of decoder layers.

    final_norm and rope_base as in `TransformerEncoder`; further options go to each `DecoderLayer`. Rotary positions act in
    self-attention only: source and target have no distance.
    """

    def __init__(
        self,
        num_layers: int,
        dim: int,
        num_heads: int,
        hidden_dim: int | None = None,
        *,
        final_norm: bool | None = None,
        rope_base: float | None = None,
        **options,
    ):
        layers = (DecoderLayer(dim, num_heads, hidden_dim, **options) for _ in range(num_layers))
        super().__init__(layers, final_norm, rope_base, dim // num_heads)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor] | None, list[Tensor] | None]:
        """x (b, m, dim) and memory (b, n, dim) to x (b, m, dim) and each layer's two kinds of attention weights, None if not
        needed. Arguments as in `DecoderLayer`."""
        self_weights, cross_weights, rotation = [], [], self.rotation(x)
        for layer in self.layers:
            x, own, cross = layer(x, memory, mask, memory_mask, need_weights, rotation)
            self_weights.append(own)
            cross_weights.append(cross)
        return (self.norm(x), self_weights, cross_weights) if need_weights else (self.norm(x), None, None)


class Embedding(nn.Module):
    """Token embedding plus position: token ids (b, n) to (b, n, dim).

    positions: "sinusoidal" or "learned" are added here; "rotary" acts in the attention layers, "none" nowhere.
    scale: multiply token embeddings by the square root of dim, as Vaswani et al. (2017) do: they are initialized with a
    standard deviation of one over that root, since a tied output layer needs it so.
    max_len: the largest number of positions; None for no limit (not with "learned").
    num_types: BERT's segment embeddings (Devlin et al., 2019, arXiv:1810.04805), and the norm behind the sum.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        positions: str = "sinusoidal",
        scale: bool = True,
        max_len: int | None = None,
        dropout: float = 0.0,
        num_types: int = 0,
        eps: float = 1e-5,
    ):
        super().__init__()
        self.positions, self.max_len = one_of("positions", positions, POSITIONS), max_len
        if positions == "learned" and max_len is None:
            raise ValueError("expected max_len, the number of learned positions, got None")
        self.token_embedding = nn.Embedding(vocab_size, dim)
        self.scale = dim**0.5 if scale else 1.0
        if scale:
            nn.init.normal_(self.token_embedding.weight, std=dim**-0.5)
        self.position_embedding = LearnedPositions(max_len, dim) if positions == "learned" else None
        self.type_embedding = nn.Embedding(num_types, dim) if num_types else None
        self.norm = nn.LayerNorm(dim, eps) if num_types else None
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        if positions == "sinusoidal":
            self.register_buffer("sinusoids", sinusoidal_positions(max_len or 256, dim), persistent=False)

    def forward(self, token_ids: Tensor, start: int = 0) -> Tensor:
        """start: the position of the first token."""
        n = token_ids.size(-1)
        if self.position_embedding is not None:
            position = self.position_embedding(n, start)
        elif self.max_len is not None and start + n > self.max_len:
            raise MaxLengthError(f"expected at most {self.max_len} tokens, got {start + n}; cut the text")
        else:
            position = self._sinusoids(n, start) if self.positions == "sinusoidal" else None
        x = self.token_embedding(token_ids)
        if self.scale != 1.0:
            x = x * self.scale
        if self.type_embedding is not None:
            position = position + self.type_embedding.weight[0]
        if position is not None:
            x = x + position
        return self.dropout(x if self.norm is None else self.norm(x))

    def _sinusoids(self, n: int, start: int) -> Tensor:
        if start + n > len(self.sinusoids):  # sinusoids do not end: compute more of them
            longer = sinusoidal_positions(2 * (start + n), self.sinusoids.size(1))
            self.sinusoids = longer.to(self.sinusoids)
        return self.sinusoids[start : start + n]


def one_of(what: str, given: str, known: Sequence[str]) -> str:
    if given not in known:
        raise ValueError(f"expected {what} of {', '.join(known)}, got {given!r}")
    return given

"""The encoder-decoder Transformer (Vaswani et al., 2017).

b sentences, n source words, m target words. A source mask (b, n) is True at the words and False at the padding behind them.
The encoder hands its output vectors to the decoder, the `memory`; keys and values are made from them in each decoder layer.
"""

from typing import NamedTuple

from torch import Tensor, nn

from utils.models.encoder import NORMS, Encoder, FeedForward, LayerNorm, one_of
from utils.models.multi_head import MultiHeadAttention
from utils.models.positions import sinusoidal_positions
from utils.models.self_attention import causal_mask


class LayerCache:
    """What a layer need not compute again: the keys and values of the words so far, kept in the shape of `key`, (b, heads, ., d)."""

    def __init__(self, key: Tensor, room: int):
        b, heads, _, d = key.shape
        self.room, self.length = room, 0
        self._key, self._value = key.new_empty(2, b, heads, room, d)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep what the new words (b, heads, m, d) are looked up by; returns it with all that was kept before."""
        end = self.length + key.size(2)
        if end > self.room:
            raise ValueError(f"expected at most {self.room} words, got {end}; make the cache with more room")
        self._key[:, :, self.length : end] = key
        self._value[:, :, self.length : end] = value
        self.length = end
        return self._key[:, :, :end], self._value[:, :, :end]

    def continue_from(self, rows: Tensor) -> None:
        """Row i goes on from what row rows[i] has written. Both must be translations of the same source sentence."""
        for kept in (self._key, self._value):
            kept[:, :, : self.length] = kept[rows, :, : self.length]


class DecoderLayerCache(LayerCache):
    """A cache that holds the keys and values of the source too, (b, heads, n, d) each, and what hides its padding."""

    def __init__(self, key: Tensor, value: Tensor, mask: Tensor | None, room: int):
        """mask (b, 1, n): True at the source's words."""
        super().__init__(key, room)
        self.hidden = self.nowhere = None
        if mask is not None:
            nowhere = ~mask.any(-1, keepdim=True).unsqueeze(
                1
            )  # sentences of nothing but padding, where nothing is found
            if nowhere.any():
                self.nowhere, value = nowhere.squeeze(-1), value.masked_fill(nowhere, 0.0)
            hidden = key.new_zeros(mask.shape).masked_fill(~(mask | nowhere.squeeze(1)), float("-inf"))
            self.hidden = hidden.repeat_interleave(key.size(1), 0)  # (b * heads, 1, n), added to the scores
        self.memory = key.contiguous(), value.contiguous()


class DecoderLayer(nn.Module):
    """Each word looks at the words before it, then at the source, then thinks on its own.

    norm: "pre", "post" or "none", and the other options as in `EncoderLayer`.
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
        eps: float = 1e-5,
    ):
        super().__init__()
        self.norm = one_of("norm", norm, NORMS)
        self.self_attention = MultiHeadAttention(dim, heads)
        self.cross_attention = MultiHeadAttention(dim, heads)
        self.feed_forward = FeedForward(dim, 4 * dim if hidden is None else hidden, activation)
        self.self_norm, self.cross_norm, self.feed_forward_norm = (
            nn.Identity() if norm == "none" else LayerNorm(dim, eps) for _ in range(3)
        )
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """x (b, m, dim) and memory (b, n, dim) to x (b, m, dim), weights among the words (b, heads, m, m) and weights over
        the source (b, heads, m, n); None for both weights if they are not needed.

        mask (m, m) or (b, m, m), memory_mask (b, 1, n) or (b, m, n): bool, True = may look. Nothing is masked by itself.
        """
        found, own = self.self_attention(self._before(self.self_norm, x), None, mask, need_weights)
        x = self._after(self.self_norm, x, found)
        found, cross = self.cross_attention(self._before(self.cross_norm, x), memory, memory_mask, need_weights)
        x = self._after(self.cross_norm, x, found)
        found = self.feed_forward(self._before(self.feed_forward_norm, x))
        return self._after(self.feed_forward_norm, x, found), own, cross

    def step(self, x: Tensor, cache: DecoderLayerCache) -> tuple[Tensor, Tensor]:
        """`forward` for the newest word alone, x (b, dim), to x (b, dim) and weights over the source (b, heads, n).

        The words before it and the source are in the cache. No mask is needed: nothing lies behind the newest word.
        """
        query, key, value = self.self_attention.query_key_value_of(self._before(self.self_norm, x))
        found, _ = self.self_attention.look_once(query, *cache.append(key.unsqueeze(2), value.unsqueeze(2)))
        x = self._after(self.self_norm, x, found)
        query = self.cross_attention.query_of(self._before(self.cross_norm, x))
        found, cross = self.cross_attention.look_once(query, *cache.memory, cache.hidden)
        if cache.nowhere is not None:
            cross = cross.masked_fill(cache.nowhere, 0.0)
        x = self._after(self.cross_norm, x, found)
        found = self.feed_forward(self._before(self.feed_forward_norm, x))
        return self._after(self.feed_forward_norm, x, found), cross

    def _before(self, norm: nn.Module, x: Tensor) -> Tensor:
        return x if self.norm == "post" else norm(x)

    def _after(self, norm: nn.Module, x: Tensor, found: Tensor) -> Tensor:
        x = x + (self.dropout(found) if self.training else found)
        return norm(x) if self.norm == "post" else x

    def remember(self, memory: Tensor, memory_mask: Tensor | None, room: int) -> DecoderLayerCache:
        """An empty cache for translations of memory (b, n, dim), memory_mask (b, 1, n), with room for so many words."""
        return DecoderLayerCache(*self.cross_attention.keys_values(memory), memory_mask, room)


class Decoder(nn.Module):
    """Decoder layers one after the other. final_norm and further options as in `Encoder`."""

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
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, hidden, norm=norm, **options) for _ in range(layers))
        final_norm = norm == "pre" if final_norm is None else final_norm
        self.final_norm = LayerNorm(dim, options.get("eps", 1e-5)) if final_norm else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor] | None, list[Tensor] | None]:
        """x (b, m, dim) to x (b, m, dim) and, if they are needed, each layer's weights (b, heads, m, m) and (b, heads, m, n).

        Arguments as in `DecoderLayer`.
        """
        looked_back, looked_across = [], []
        for layer in self.layers:
            x, own, cross = layer(x, memory, mask, memory_mask, need_weights)
            looked_back.append(own)
            looked_across.append(cross)
        x = self._last(x)
        return (x, looked_back, looked_across) if need_weights else (x, None, None)

    def step(self, x: Tensor, cache: list[DecoderLayerCache]) -> tuple[Tensor, list[Tensor]]:
        """The newest word alone, x (b, dim), to x (b, dim) and each layer's weights over the source (b, heads, n)."""
        looked_across = []
        for layer, kept in zip(self.layers, cache, strict=True):
            x, cross = layer.step(x, kept)
            looked_across.append(cross)
        return self._last(x), looked_across

    def _last(self, x: Tensor) -> Tensor:
        return x if self.final_norm is None else self.final_norm(x)


class WordVectors(nn.Module):
    """Words (b, n) to vectors (b, n, dim): the embedding times the root of dim, plus a sinusoid for the position.

    Fresh embeddings have a spread of one over the root, since a tied output layer needs it so; times the root they are as
    large as a position vector.
    """

    def __init__(self, words: int, dim: int, dropout: float = 0.0, longest: int = 256):
        super().__init__()
        self.table = nn.Embedding(words, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.register_buffer("positions", sinusoidal_positions(longest, dim), persistent=False)

    def forward(self, words: Tensor, start: int = 0) -> Tensor:
        """start: the position of the first word."""
        n, dim = words.size(-1), self.table.embedding_dim
        if start + n > len(self.positions):  # sinusoids do not end: make more of them
            self.positions = sinusoidal_positions(2 * (start + n), dim).to(self.positions)
        return self.dropout(self.table(words) * dim**0.5 + self.positions[start : start + n])


class Looks(NamedTuple):
    """Who looked where: for each layer weights (b, heads, n, n), (b, heads, m, m) and (b, heads, m, n)."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


class Transformer(nn.Module):
    """Source words to the logits of target words.

    norm: "pre" or "post"; final_norm: norms behind both stacks, by default with pre-norm only (nn.Transformer always has them).
    tied: "output" uses the target embedding as the output layer too, "all" one table for source, target and output, which
    needs one vocabulary; "none" ties nothing. layers: of the encoder, and of the decoder.
    """

    def __init__(
        self,
        source_words: int,
        target_words: int,
        dim: int = 128,
        heads: int = 4,
        hidden: int | None = None,
        layers: int = 2,
        *,
        norm: str,
        dropout: float = 0.1,
        final_norm: bool | None = None,
        tied: str = "output",
        activation: str = "relu",
    ):
        super().__init__()
        self.dim, self.tied = dim, tied
        options = {"norm": norm, "final_norm": final_norm, "dropout": dropout, "activation": activation}
        self.source_vectors = WordVectors(source_words, dim, dropout)
        self.target_vectors = WordVectors(target_words, dim, dropout)
        self.encoder = Encoder(layers, dim, heads, hidden, **options)
        self.decoder = Decoder(layers, dim, heads, hidden, **options)
        self.output = nn.Linear(dim, target_words, bias=False)
        nn.init.normal_(self.output.weight, std=dim**-0.5)
        if tied != "none":
            self.output.weight = self.target_vectors.table.weight
        if tied == "all":
            self.source_vectors.table.weight = self.target_vectors.table.weight

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """source (b, n) word numbers to memory (b, n, dim)."""
        return self.encoder(self.source_vectors(source), _for_keys(source_mask))[0]

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """target (b, m), from the start token on, to logits (b, m, words) for the word after each.

        No word sees those behind it. So padding behind the target needs no mask: only padding looks at it.
        """
        x, _, _ = self._decode(target, memory, source_mask)
        return self.output(x)

    def forward(
        self, source: Tensor, source_mask: Tensor | None, target: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Looks | None]:
        """Teacher forcing, all positions at once: source (b, n), source_mask (b, n), target (b, m) from the start token on.

        Returns logits (b, m, words) for the word after each target word, and who looked where, None if not needed.
        """
        memory, looked = self.encoder(self.source_vectors(source), _for_keys(source_mask), need_weights)
        x, looked_back, looked_across = self._decode(target, memory, source_mask, need_weights)
        return self.output(x), Looks(looked, looked_back, looked_across) if need_weights else None

    def _decode(
        self, target: Tensor, memory: Tensor, source_mask: Tensor | None, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor] | None, list[Tensor] | None]:
        mask = causal_mask(target.size(1)).to(target.device)
        return self.decoder(self.target_vectors(target), memory, mask, _for_keys(source_mask), need_weights)

    # Word by word

    def remember(self, memory: Tensor, source_mask: Tensor | None, room: int) -> list[DecoderLayerCache]:
        """An empty cache for each decoder layer, for translations of memory (b, n, dim) of up to `room` words."""
        return [layer.remember(memory, _for_keys(source_mask), room) for layer in self.decoder.layers]

    def step(self, word: Tensor, cache: list[DecoderLayerCache]) -> tuple[Tensor, list[Tensor]]:
        """The newest word (b,) to logits (b, words) of the next, and each layer's weights over the source (b, heads, n).

        The words before it are in the cache, and so is this one afterwards.
        """
        x = self.target_vectors(word.unsqueeze(1), start=cache[0].length).squeeze(1)
        x, cross = self.decoder.step(x, cache)
        return self.output(x), cross


def _for_keys(mask: Tensor | None) -> Tensor | None:
    """(b, n), the real words, to (b, 1, n), whom anybody may look at."""
    return None if mask is None else mask.unsqueeze(1)

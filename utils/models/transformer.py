"""The encoder-decoder Transformer (Vaswani et al., 2017, arXiv:1706.03762).

b sequences, n source tokens, m target tokens. source_mask (b, n) is True at tokens and False at padding.
"""

from typing import NamedTuple

from torch import Tensor, nn

from utils.models.attention import KeyValues, KVCache, causal_mask, padding_mask
from utils.models.layers import Embedding, TransformerDecoder, TransformerEncoder, one_of
from utils.models.positions import BASE


class AttentionWeights(NamedTuple):
    """Attention weights of each layer: (b, num_heads, n, n), (b, num_heads, m, m) and (b, num_heads, m, n)."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


class DecoderCache(NamedTuple):
    """Key-value cache of a decoder: for each layer that of self-attention, and the projected output of the encoder."""

    self_attn: list[KVCache]
    memory: list[KeyValues]

    @property
    def length(self) -> int:
        return self.self_attn[0].length

    def reorder(self, rows: Tensor) -> None:
        """Reorder the batch after a beam-search step; hypothesis i and rows[i] must translate the same source."""
        for cache in self.self_attn:
            cache.reorder(rows)


class Transformer(nn.Module):
    """Encoder-decoder Transformer: source token ids to the logits of target tokens.

    final_norm: norms behind both stacks, by default with pre-norm only (nn.Transformer always has them).
    tied: "output" uses the target embedding as the output layer too, "all" one matrix for source, target and output, which
    needs one vocabulary; "none" ties nothing. num_layers: of the encoder, and of the decoder.
    positions: "sinusoidal", added to the embeddings, or "rotary", in the self-attention of both stacks.
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        dim: int = 128,
        num_heads: int = 4,
        hidden_dim: int | None = None,
        num_layers: int = 2,
        *,
        norm_first: bool,
        dropout: float = 0.1,
        final_norm: bool | None = None,
        tied: str = "output",
        activation: str = "relu",
        positions: str = "sinusoidal",
    ):
        super().__init__()
        one_of("tied", tied, ("none", "output", "all"))
        one_of("positions", positions, ("sinusoidal", "rotary"))
        if tied == "all" and source_vocab_size != target_vocab_size:
            raise ValueError(
                f"expected one vocabulary for tied='all', got {source_vocab_size} and {target_vocab_size} tokens"
            )
        sizes = (num_layers, dim, num_heads, hidden_dim)
        options = {"norm_first": norm_first, "final_norm": final_norm, "dropout": dropout, "activation": activation}
        options["rope_base"] = BASE if positions == "rotary" else None
        self.source_embedding = Embedding(source_vocab_size, dim, dropout=dropout, positions=positions)
        self.target_embedding = Embedding(target_vocab_size, dim, dropout=dropout, positions=positions)
        self.encoder = TransformerEncoder(*sizes, **options)
        self.decoder = TransformerDecoder(*sizes, **options)
        self.lm_head = nn.Linear(dim, target_vocab_size, bias=False)
        nn.init.normal_(self.lm_head.weight, std=dim**-0.5)
        if tied != "none":
            self.lm_head.weight = self.target_embedding.token_embedding.weight
        if tied == "all":
            self.source_embedding.token_embedding.weight = self.target_embedding.token_embedding.weight

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """source (b, n) to memory (b, n, dim), the encoder's output."""
        return self.encoder(self.source_embedding(source), padding_mask(source_mask))[0]

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """target (b, m), from the BOS token on, to logits (b, m, vocab) for the token after each.

        The causal mask hides padding behind the target as well: only padding attends to it.
        """
        x, _, _ = self._decode(target, memory, source_mask)
        return self.lm_head(x)

    def forward(
        self, source: Tensor, source_mask: Tensor | None, target: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, AttentionWeights | None]:
        """Teacher forcing, all positions at once: source and source_mask (b, n), target (b, m) from the BOS token on.

        Returns logits (b, m, vocab) for the token after each target token, and the attention weights, None if not needed.
        """
        memory, encoder_weights = self.encoder(self.source_embedding(source), padding_mask(source_mask), need_weights)
        x, self_weights, cross_weights = self._decode(target, memory, source_mask, need_weights)
        weights = AttentionWeights(encoder_weights, self_weights, cross_weights) if need_weights else None
        return self.lm_head(x), weights

    def _decode(
        self, target: Tensor, memory: Tensor, source_mask: Tensor | None, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor] | None, list[Tensor] | None]:
        mask = causal_mask(target.size(1)).to(target.device)
        return self.decoder(self.target_embedding(target), memory, mask, padding_mask(source_mask), need_weights)

    # Token by token

    def new_cache(self, source: Tensor, source_mask: Tensor | None, max_len: int, num_beams: int = 1) -> DecoderCache:
        """Encode the source (b, n) once, for `num_beams` target sequences of up to max_len tokens each: b * num_beams rows."""
        memory, mask = self.encode(source, source_mask).repeat_interleave(num_beams, 0), padding_mask(source_mask)
        mask = None if mask is None else mask.repeat_interleave(num_beams, 0)
        layers = self.decoder.layers
        return DecoderCache(
            [KVCache(max_len) for _ in layers], [layer.cross_attn.cache_memory(memory, mask) for layer in layers]
        )

    def step(self, token_ids: Tensor, cache: DecoderCache) -> tuple[Tensor, list[Tensor]]:
        """The newest token (b,) to logits (b, vocab) of the next, and each layer's cross-attention (b, num_heads, n).

        The tokens before it are in the cache, and so is this one afterwards.
        """
        x, cross_weights = self.target_embedding(token_ids.unsqueeze(1), start=cache.length), []
        rotation, x = self.decoder.rotation(x, start=cache.length), x.squeeze(1)
        for layer, self_attn, memory in zip(self.decoder.layers, *cache, strict=True):
            x, weights = layer.step(x, self_attn, memory, rotation)
            cross_weights.append(weights)
        return self.lm_head(self.decoder.norm(x)), cross_weights

"""The equations of Vaswani et al. (2017) written out one by one: what a reader of the paper would write, and no faster.

Each projection has its own matrix and the attention weights are computed explicitly. Parameters come from an `nn.Transformer`,
so that all three implementations compute the same; there is no dropout.
"""

import math
from copy import deepcopy

import torch
from torch import Tensor, nn


class PlainAttention(nn.Module):
    def __init__(self, source: nn.MultiheadAttention):
        super().__init__()
        self.num_heads = source.num_heads
        self.projections = nn.ModuleList(nn.Linear(source.embed_dim, source.embed_dim) for _ in range(3))
        self.output = deepcopy(source.out_proj)
        parameters = (source.in_proj_weight.chunk(3), source.in_proj_bias.chunk(3))
        with torch.no_grad():
            for projection, weight, bias in zip(self.projections, *parameters, strict=True):
                projection.weight.copy_(weight)
                projection.bias.copy_(bias)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """query (b, m, dim), memory (b, n, dim), mask bool, broadcast to (b, heads, m, n), True = may attend."""
        q, k, v = (
            projection(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for projection, x in zip(self.projections, (query, memory, memory), strict=True)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2))


class PlainLayer(nn.Module):
    """A layer of the encoder, or of the decoder if the source has cross-attention."""

    def __init__(self, source: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        super().__init__()
        self.norm_first = source.norm_first
        self.self_attention = PlainAttention(source.self_attn)
        self.cross_attention = PlainAttention(source.multihead_attn) if hasattr(source, "multihead_attn") else None
        self.norms = nn.ModuleList(deepcopy(child) for name, child in source.named_children() if "norm" in name)
        self.first, self.second = deepcopy(source.linear1), deepcopy(source.linear2)

    def forward(
        self, x: Tensor, mask: Tensor, memory: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        sublayers = [
            lambda x: self.self_attention(x, x, mask),
            lambda x: self.second(self.first(x).relu()),
        ]
        if self.cross_attention is not None:
            sublayers.insert(1, lambda x: self.cross_attention(x, memory, memory_mask))
        for norm, sublayer in zip(self.norms, sublayers, strict=True):
            x = x + sublayer(norm(x)) if self.norm_first else norm(x + sublayer(x))
        return x


class PlainTransformer(nn.Module):
    def __init__(self, source: nn.Transformer):
        super().__init__()
        self.encoder = nn.ModuleList(map(PlainLayer, source.encoder.layers))
        self.decoder = nn.ModuleList(map(PlainLayer, source.decoder.layers))
        self.encoder_norm, self.decoder_norm = deepcopy(source.encoder.norm), deepcopy(source.decoder.norm)

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor) -> Tensor:
        """source (b, n, dim), target (b, m, dim), source_mask (b, n), True = a token; to (b, m, dim)."""
        keys = source_mask[:, None, None]
        causal = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
        for layer in self.encoder:
            source = layer(source, keys)
        memory = self.encoder_norm(source)
        for layer in self.decoder:
            target = layer(target, causal, memory, keys)
        return self.decoder_norm(target)

"""Language models on one encoder stack: masked (BERT), causal (GPT, Llama), a classifier on top, and LoRA.

One `EncoderConfig` describes them all; published models are configurations plus a mapping of weight names.
b sequences, n tokens. attention_mask (b, n) is True at tokens and False at padding; None: no padding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.attention import KVCache, MultiHeadAttention, causal_mask, padding_mask
from utils.models.layers import Embedding, TransformerEncoder
from utils.models.positions import BASE

CHUNK = 512  # tokens: the activations of so many stay in a processor's cache


@dataclass(frozen=True)
class EncoderConfig:
    """Configuration of an `EncoderModel`. The defaults are a small pre-norm model with GELU and tied embeddings."""

    vocab_size: int
    dim: int
    num_heads: int
    hidden_dim: int | None = None  # 4 dim
    num_layers: int = 2
    num_kv_heads: int | None = None  # num_heads
    positions: str = "sinusoidal"  # or "learned", "rotary", "none"
    max_len: int | None = None
    scale_embedding: bool = True
    norm: str = "layer"  # or "rms", "none"
    norm_first: bool = True
    activation: str = "gelu"  # or "relu", "swiglu"
    tied: bool = True
    bias: bool = True  # of the attention layers and of the output layer
    dropout: float = 0.0
    eps: float = 1e-5
    rope_base: float = BASE
    num_types: int = 0  # segment embeddings

    def __post_init__(self):
        if not isinstance(self.tied, bool):
            raise TypeError(f"expected tied to be True or False, got {self.tied!r}")


class EncoderModel(nn.Module):
    """Embedding and Transformer encoder: token ids (b, n) to hidden states (b, n, dim). The body of BERT."""

    def __init__(self, config: EncoderConfig, self_attn: Callable[[], nn.Module] | None = None):
        """self_attn: makes the attention module of a layer, in place of `MultiHeadAttention`."""
        super().__init__()
        self.config = config
        self.embedding = Embedding(
            config.vocab_size,
            config.dim,
            positions=config.positions,
            scale=config.scale_embedding,
            max_len=config.max_len,
            dropout=config.dropout,
            num_types=config.num_types,
            eps=config.eps,
        )
        self.encoder = TransformerEncoder(
            config.num_layers,
            config.dim,
            config.num_heads,
            config.hidden_dim,
            norm_first=config.norm_first,
            norm=config.norm,
            activation=config.activation,
            dropout=config.dropout,
            eps=config.eps,
            num_kv_heads=config.num_kv_heads,
            bias=config.bias,
            rope_base=config.rope_base if config.positions == "rotary" else None,
            self_attn=self_attn,
        )

    def mask(self, token_ids: Tensor, attention_mask: Tensor | None) -> Tensor | None:
        """Every token may attend to every token but padding."""
        return padding_mask(attention_mask)

    def encode(self, token_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """token_ids (b, n) to the last hidden states (b, n, dim)."""
        if torch.is_grad_enabled() or token_ids.numel() <= CHUNK or len(token_ids) == 1:
            return self.encoder(self.embedding(token_ids), self.mask(token_ids, attention_mask))[0]
        # Without gradients a large batch goes through in parts: a tenth faster, since activations stay in the cache.
        size = max(1, CHUNK // token_ids.size(1))
        masks = repeat(None) if attention_mask is None else attention_mask.split(size)
        parts = zip(token_ids.split(size), masks, strict=False)
        return torch.cat([self.encoder(self.embedding(ids), self.mask(ids, mask))[0] for ids, mask in parts])

    def forward(self, token_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.encode(token_ids, attention_mask)

    def hidden_states(
        self, token_ids: Tensor, attention_mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[list[Tensor], list[Tensor] | None]:
        """The output of the embedding and of every layer, num_layers + 1 tensors (b, n, dim), and each layer's attention
        weights, None if not needed. At padding the values mean nothing; a final norm is not applied."""
        x, mask = self.embedding(token_ids), self.mask(token_ids, attention_mask)
        states, weights = zip(*self.encoder.layer_outputs(x, mask, need_weights), strict=True)
        return [x, *states], list(weights) if need_weights else None


class _LanguageModel(EncoderModel):
    """An `EncoderModel` with an output layer over the vocabulary."""

    def __init__(self, config: EncoderConfig, self_attn: Callable[[], nn.Module] | None = None):
        super().__init__(config, self_attn)
        # A tied output layer is the embedding matrix itself: nothing is drawn for it.
        device = "meta" if config.tied else None
        self.lm_head = nn.Linear(config.dim, config.vocab_size, config.bias, device=device)
        if config.tied:
            self.lm_head.weight = self.embedding.token_embedding.weight
            if config.bias:
                self.lm_head.bias = nn.Parameter(self.lm_head.weight.new_zeros(config.vocab_size))
        elif config.scale_embedding:  # initialized like the embedding
            nn.init.normal_(self.lm_head.weight, std=config.dim**-0.5)
            if config.bias:
                nn.init.zeros_(self.lm_head.bias)

    def forward(self, token_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """token_ids (b, n) to logits (b, n, vocab)."""
        return self.lm_head(self.encode(token_ids, attention_mask))


class MaskedLM(_LanguageModel):
    """Masked language model (BERT; Devlin et al., 2019, arXiv:1810.04805): logits for the token at each position."""


class CausalLM(_LanguageModel):
    """Causal language model (GPT; Radford et al., 2018): logits for the token after each position."""

    def mask(self, token_ids: Tensor, attention_mask: Tensor | None) -> Tensor | None:
        """Every token may attend to itself and the tokens before it. Padding stands behind, where only padding attends."""
        mask = causal_mask(token_ids.size(1)).to(token_ids.device)
        return mask if attention_mask is None else mask & attention_mask.unsqueeze(1)

    def new_cache(self, max_len: int) -> list[KVCache]:
        """An empty key-value cache for each layer, for up to max_len tokens."""
        return [KVCache(max_len) for _ in self.encoder.layers]

    def step(self, token_ids: Tensor, cache: list[KVCache]) -> Tensor:
        """New tokens (b, m) to the logits (b, vocab) of the token after them.

        The tokens before them are in the cache, and so are these afterwards.
        """
        x, _ = self.encoder(self.embedding(token_ids, start=cache[0].length), cache=cache)
        return self.lm_head(x[:, -1])


def parameter_count(module: nn.Module) -> int:
    """Number of parameters; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in module.parameters())


# On top of a pretrained model


def mean_pooling(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """Mean pooling: hidden_states (b, n, dim) to their mean over the tokens without padding, (b, dim)."""
    weight = attention_mask.to(hidden_states.dtype).unsqueeze(-1)
    return (hidden_states * weight).sum(1) / weight.sum(1)


class SequenceClassifier(nn.Module):
    """Sequence classifier: a pretrained body, mean pooling and a linear layer as the classification head.

    The head is initialized near zero, so that at first every class is about as probable as every other.
    body: anything with `encode(token_ids, attention_mask)` to (b, n, dim).
    """

    def __init__(self, body: nn.Module, dim: int, num_classes: int):
        super().__init__()
        self.body = body
        self.head = nn.Linear(dim, num_classes)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, token_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """token_ids and attention_mask (b, n) to logits (b, num_classes)."""
        return self.head(mean_pooling(self.body.encode(token_ids, attention_mask), attention_mask))


class LoRALinear(nn.Module):
    """Low-rank adaptation of a frozen linear layer (LoRA; Hu et al., 2022, arXiv:2106.09685): W x + scale B A x.

    lora_A (rank, in), lora_B (out, rank). B is initialized to zero, so at first nothing has changed.
    """

    def __init__(self, linear: nn.Linear, rank: int, scale: float = 1.0):
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), scale
        self.lora_A = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        self.lora_B = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        nn.init.normal_(self.lora_A, std=linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.scale * F.linear(F.linear(x, self.lora_A), self.lora_B)


def add_lora(model: nn.Module, rank: int) -> list[nn.Parameter]:
    """LoRA in place of the projections of every attention layer, the rest frozen; returns the new parameters.

    A head that is to be trained goes on top afterwards.
    """
    layers = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    model.requires_grad_(False)
    new = []
    for layer in layers:
        for name in ("in_proj", "out_proj"):
            adapted = LoRALinear(getattr(layer, name), rank)
            setattr(layer, name, adapted)
            new += [adapted.lora_A, adapted.lora_B]
    return new

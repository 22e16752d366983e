"""Scaled dot-product and multi-head attention (Vaswani et al., 2017, arXiv:1706.03762), masks, and the key-value cache.

b sequences, m queries, n keys, d components per head. Every mask is bool, True = may attend.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.positions import apply_rotary


def softmax(logits: Tensor, temperature: float = 1.0, dim: int = -1) -> Tensor:
    """Softmax with temperature: probabilities along `dim`. The largest logit is subtracted first, so no exponential overflows."""
    if temperature <= 0:
        raise ValueError(f"expected a temperature above 0, got {temperature}; for a hard choice use argmax")
    scaled = logits / temperature
    exponentials = (scaled - scaled.amax(dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim, keepdim=True)


def attend(scores: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention from given scores: masked softmax, then the weighted sum of the values.

    scores (..., m, n), value (..., n, e), mask (..., m, n) bool, True = may attend.
    Returns output (..., m, e) and weights (..., m, n). A fully masked row gives zeros.
    """
    if scores.size(-1) != value.size(-2):
        raise ValueError(f"expected one value row for each of {scores.size(-1)} scores, got {value.size(-2)} rows")
    if mask is None:
        weights = scores.softmax(-1)
    else:
        _expect_bool(mask)
        # Minus infinity in a whole row would make 0/0: such a row keeps its scores and loses its weights instead.
        fully_masked = ~mask.any(-1, keepdim=True)
        weights = scores.masked_fill(~(mask | fully_masked), float("-inf")).softmax(-1).masked_fill(fully_masked, 0.0)
    return weights @ value, weights


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    need_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Scaled dot-product attention: softmax(query key^T * scale) value.

    query (..., m, d), key (..., n, d), value (..., n, e), mask (..., m, n) bool, True = may attend;
    `scale=None` means one over the square root of d.
    Returns output (..., m, e) and weights (..., m, n), or None for the weights if they are not needed:
    then one fused kernel does the work and the weights never exist.
    """
    if need_weights:
        _expect_one_width(query, key)
        scale = query.size(-1) ** -0.5 if scale is None else scale
        return attend(query @ key.transpose(-2, -1) * scale, value, mask)
    # At small sizes a call costs as much as a kernel, so here the widths are compared only when torch refuses them.
    if mask is not None and mask.dtype is not torch.bool:
        _expect_bool(mask)
    try:
        return F.scaled_dot_product_attention(query, key, value, mask, scale=scale), None
    except RuntimeError:
        _expect_one_width(query, key)
        raise


def _expect_one_width(query: Tensor, key: Tensor) -> None:
    if query.size(-1) != key.size(-1):
        raise ValueError(f"expected query and key of one width, got {query.size(-1)} and {key.size(-1)}")


def _expect_bool(mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(
            f"expected a bool mask in which True means 'may attend', got {mask.dtype}; "
            "write `mask == 0` for an additive mask of zeros and minus infinities, `mask.bool()` for zeros and ones"
        )


# Masks


def causal_mask(n: int) -> Tensor:
    """Causal mask (n, n): token i may attend to itself and to the tokens before it."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def padding_mask(attention_mask: Tensor | None) -> Tensor | None:
    """Padding mask (b, 1, n) from attention_mask (b, n), True at tokens; None if nothing is padding."""
    return None if attention_mask is None or attention_mask.all() else attention_mask.unsqueeze(1)


# One head


class SelfAttention(nn.Module):
    """Single-head self-attention: three projections without bias and no output projection."""

    def __init__(self, dim: int, head_dim: int | None = None):
        super().__init__()
        head_dim = dim if head_dim is None else head_dim
        self.query = nn.Linear(dim, head_dim, bias=False)
        self.key = nn.Linear(dim, head_dim, bias=False)
        self.value = nn.Linear(dim, head_dim, bias=False)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = True, rotation: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """x (b, n, dim), mask (..., n, n) to output (b, n, head_dim) and weights (b, n, n).

        rotation (n, head_dim / 2): rotary position embedding of queries and keys, from `rotary_embedding`.
        """
        query, key, value = self.query(x), self.key(x), self.value(x)
        if rotation is not None:
            query, key = apply_rotary(query, rotation), apply_rotary(key, rotation)
        return attention(query, key, value, mask, need_weights=need_weights)


# Many heads


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(b, n, dim) to (b, num_heads, n, head_dim): head 0 gets the first head_dim components of every token."""
    return x.unflatten(-1, (num_heads, _head_dim(x.size(-1), num_heads))).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """(b, num_heads, n, head_dim) to (b, n, dim): the outputs of the heads concatenated. Undoes `split_heads`."""
    return x.transpose(-3, -2).flatten(-2)


def _head_dim(dim: int, num_heads: int) -> int:
    if num_heads < 1 or dim % num_heads:
        better = num_heads * max(1, round(dim / num_heads)) if num_heads > 0 else dim
        raise ValueError(
            f"expected num_heads to divide dim, got {num_heads} and {dim}; try dim {better}, or another number of heads"
        )
    return dim // num_heads


class KVCache:
    """Key-value cache of one self-attention layer: the keys and values (b, kv_heads, length, d) of the tokens so far.

    The first tokens decide batch size, heads and dtype; memory for max_len tokens is allocated then, once.
    """

    def __init__(self, max_len: int):
        self.max_len, self.length = max_len, 0
        self._key = self._value = None

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens (b, kv_heads, m, d); returns those of all tokens so far."""
        end = self.length + key.size(2)
        if end > self.max_len:
            raise ValueError(f"expected at most {self.max_len} tokens, got {end}; make a cache with a larger max_len")
        if self._key is None:
            b, num_kv_heads, _, d = key.shape
            self._key, self._value = key.new_empty(2, b, num_kv_heads, self.max_len, d)
        self._key[:, :, self.length : end] = key
        self._value[:, :, self.length : end] = value
        self.length = end
        return self._key[:, :, :end], self._value[:, :, :end]

    def reorder(self, rows: Tensor) -> None:
        """Reorder the batch after a beam-search step: hypothesis i continues hypothesis rows[i]."""
        for tensor in (self._key, self._value):
            tensor[:, :, : self.length] = tensor[rows, :, : self.length]


class KeyValues(NamedTuple):
    """Keys and values (b, num_heads, n, d) of an encoder's output, projected once for all decoding steps.

    bias (b * num_heads, 1, n): added to the scores, minus infinity at padding; None without padding.
    fully_masked (b, 1, 1): True where a source is nothing but padding; None where no source is.
    """

    key: Tensor
    value: Tensor
    bias: Tensor | None = None
    fully_masked: Tensor | None = None


class MultiHeadAttention(nn.Module):
    """Multi-head attention, for self- and cross-attention.

    The rows of `in_proj` are queries, keys, values; inside each, head after head. With num_kv_heads below num_heads it is
    grouped-query attention (Ainslie et al., 2023, arXiv:2305.13245): neighboring query heads share a key-value head.
    """

    def __init__(self, dim: int, num_heads: int, num_kv_heads: int | None = None, bias: bool = True):
        super().__init__()
        self.dim, self.num_heads, self.head_dim = dim, num_heads, _head_dim(dim, num_heads)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise ValueError(f"expected num_kv_heads to divide {num_heads} heads, got {num_kv_heads}")
        kv_dim = self.num_kv_heads * self.head_dim
        self.in_proj = nn.Linear(dim, dim + 2 * kv_dim, bias)
        self.out_proj = nn.Linear(dim, dim, bias)
        for matrix in (*self.in_proj.weight.split((dim, kv_dim, kv_dim)), self.out_proj.weight):
            nn.init.xavier_uniform_(matrix)
        if bias:
            nn.init.zeros_(self.in_proj.bias)
            nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        need_weights: bool = False,
        head_mask: Tensor | None = None,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """x (b, m, dim) to output (b, m, dim) and attention weights (b, num_heads, m, n), None if not needed.

        memory (b, n, dim): cross-attention, keys and values come from it; None: self-attention.
        mask (m, n) for all sequences, or (b, 1, n) or (b, m, n) for each; all heads share it.
        head_mask (num_heads,): multiplies the output of each head; 0 ablates a head.
        Self-attention only: rotation (m, d / 2), the rotary position embedding from `rotary_embedding`; cache, then x holds
        the new tokens only, and each attends to itself and to all tokens before it, without a mask.
        """
        if memory is None:
            query, key, value = self.project(x, rotation)
        elif rotation is None and cache is None:
            query, (key, value) = self.project_query(x), self.project_memory(memory)
        else:
            raise ValueError("expected rotation and cache in self-attention only, got them together with memory")
        if cache is not None:
            if mask is not None:
                raise ValueError("expected no mask with a cache: each new token attends to all tokens before it")
            key, value = cache.append(key, value)
            m, n = query.size(-2), key.size(-2)
            if m == 1 and head_mask is None and self.num_heads == self.num_kv_heads:
                context, weights = self._attend_single(query.squeeze(2), KeyValues(key, value))
                return context.unsqueeze(1), weights.unsqueeze(2)
            mask = causal_mask(n)[n - m :].to(x.device) if m > 1 else None
        return self._attend(query, key, value, mask, need_weights, head_mask)

    def project(self, x: Tensor, rotation: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """x (b, n, dim) to query (b, num_heads, n, d), key and value (b, num_kv_heads, n, d)."""
        heads = self.in_proj(x).unflatten(-1, (-1, self.head_dim))  # (b, n, num_heads + 2 num_kv_heads, d)
        if rotation is None:
            query, key, value = heads.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), -2)
        else:
            query_key, value = heads.split((self.num_heads + self.num_kv_heads, self.num_kv_heads), -2)
            query_key = apply_rotary(query_key, rotation.unsqueeze(-2))
            query, key = query_key.split((self.num_heads, self.num_kv_heads), -2)
        return query.transpose(-3, -2), key.transpose(-3, -2), value.transpose(-3, -2)

    def project_query(self, x: Tensor) -> Tensor:
        """x (b, m, dim) to (b, num_heads, m, d)."""
        return split_heads(self._project_rows(x, slice(0, self.dim)), self.num_heads)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """memory (b, n, dim) to key and value (b, num_kv_heads, n, d)."""
        key, value = self._project_rows(memory, slice(self.dim, None)).chunk(2, -1)
        return split_heads(key, self.num_kv_heads), split_heads(value, self.num_kv_heads)

    def _project_rows(self, x: Tensor, rows: slice) -> Tensor:
        bias = self.in_proj.bias
        return F.linear(x, self.in_proj.weight[rows], None if bias is None else bias[rows])

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        need_weights: bool,
        head_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """query (b, num_heads, m, d), key and value (b, num_kv_heads, n, d) to what `forward` returns."""
        mask, group = _head_axis(mask, query, key), self.num_heads // self.num_kv_heads
        if group > 1:
            # Query heads that share keys become further query rows of that head, so no key is copied.
            query = query.unflatten(-3, (-1, group)).flatten(-3, -2)  # (b, num_kv_heads, group m, d)
            if mask is not None and mask.size(-2) > 1:
                mask = mask.repeat(*(1,) * (mask.dim() - 2), group, 1)
        context, weights = attention(query, key, value, mask, need_weights=need_weights)
        if group > 1:
            context = context.unflatten(-2, (group, -1)).flatten(-4, -3)
            weights = weights.unflatten(-2, (group, -1)).flatten(-4, -3) if need_weights else None
        if head_mask is not None:
            context = context * head_mask[:, None, None]
        return self.out_proj(merge_heads(context)), weights

    # Decoding, one token at a time

    def cache_memory(self, memory: Tensor, mask: Tensor | None) -> KeyValues:
        """memory (b, n, dim) and its padding mask (b, 1, n) to the keys and values that every decoding step attends to."""
        key, value = self.project_memory(memory)
        bias = fully_masked = None
        if mask is not None:
            empty = ~mask.any(-1, keepdim=True)  # (b, 1, 1)
            if empty.any():
                fully_masked = empty
                value = value.masked_fill(empty.unsqueeze(1), 0.0)
            bias = key.new_zeros(mask.shape).masked_fill(~(mask | empty), float("-inf"))
            bias = bias.repeat_interleave(self.num_heads, 0)
        return KeyValues(key.contiguous(), value.contiguous(), bias, fully_masked)

    def step(self, x: Tensor, cache: KVCache, rotation: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Self-attention of the newest token x (b, dim): output (b, dim) and weights (b, num_heads, n). Not grouped-query."""
        heads = self.in_proj(x).view(len(x), 3, self.num_heads, self.head_dim)
        if rotation is not None:  # (1, d / 2)
            heads = torch.cat([apply_rotary(heads[:, :2], rotation), heads[:, 2:]], 1)
        query, key, value = heads.unbind(1)
        return self._attend_single(query, KeyValues(*cache.append(key.unsqueeze(2), value.unsqueeze(2))))

    def attend_cached(self, x: Tensor, memory: KeyValues) -> tuple[Tensor, Tensor]:
        """Cross-attention of the newest token x (b, dim): output (b, dim) and weights (b, num_heads, n)."""
        query = self._project_rows(x, slice(0, self.dim)).view(len(x), self.num_heads, self.head_dim)
        return self._attend_single(query, memory)

    def _attend_single(self, query: Tensor, memory: KeyValues) -> tuple[Tensor, Tensor]:
        """`_attend` for one query per head, (b, num_heads, d): two matrix products, faster than the fused kernel here."""
        b, num_heads, d = query.shape
        query, key, value = query.reshape(-1, 1, d), memory.key.flatten(0, 1), memory.value.flatten(0, 1)
        if memory.bias is None:
            scores = torch.bmm(query, key.mT) * d**-0.5
        else:
            scores = torch.baddbmm(memory.bias, query, key.mT, alpha=d**-0.5)
        weights = scores.softmax(-1)
        output = self.out_proj(torch.bmm(weights, value).view(b, num_heads * d))
        weights = weights.view(b, num_heads, -1)
        if memory.fully_masked is not None:
            weights = weights.masked_fill(memory.fully_masked, 0.0)
        return output, weights


def _head_axis(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The mask with an axis of length one for the heads, where it has an axis for the batch."""
    if mask is None:
        return None
    (m, n), shape = (query.size(-2), key.size(-2)), mask.shape
    if mask.dim() not in (2, 3) or shape[-2] not in (1, m) or shape[-1] not in (1, n):
        raise ValueError(
            f"expected a mask of shape ({m}, {n}), (b, 1, {n}) or (b, {m}, {n}), got {tuple(shape)}; "
            "an attention_mask (b, n) becomes (b, 1, n) by attention_mask.unsqueeze(1)"
        )
    return mask.unsqueeze(-3) if mask.dim() == 3 else mask

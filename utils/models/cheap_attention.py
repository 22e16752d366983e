"""Attention that costs less than all pairs: local windows, windows with global and random links, and keys made few.

The first two give exactly what `attention` gives with their mask, and never make an (n, n) matrix: the queries are cut into
blocks, and each block is compared with the few keys that it may look at. Their cost grows with n, not with n².
All work on query, key and value (..., n, d), as `attention` does; `real` (b, n) is False at padding, which nobody looks at.
"""

import random as randomness
from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.attention import attention
from utils.models.encoder import Encoder
from utils.models.multi_head import MultiHeadAttention, merge_heads

SMALLEST_BLOCK = 32  # below this a product of matrices takes longer to start than to do


# Masks: what may be looked at, as (n, n) bool. For pictures and for comparison; the functions below never make them.


def local_attention_mask(n: int, window: int, causal: bool = False) -> Tensor:
    """(n, n) bool: token i may look at the tokens that stand at most `window` places from it; causal: at none behind it."""
    _expect_window(window)
    places = torch.arange(n)
    ahead = places - places[:, None]  # how many places behind token i token j stands
    return (ahead >= -window) & (ahead <= (0 if causal else window))


def bigbird_mask(n: int, window: int, global_tokens: int, random_keys: int, seed: int = 0) -> Tensor:
    """(n, n) bool: a local window; the first `global_tokens` see all and are seen by all; and random links.

    All queries of a block share `random_keys` keys, drawn from outside their windows (fewer if there are fewer). Memory is
    read in rows, so a link for each query of its own would cost more than the block's whole window.
    """
    mask = local_attention_mask(n, window)
    mask[:, :global_tokens] = True
    mask[:global_tokens] = True
    block = _block(n, window)
    for number, keys in enumerate(random_links(n, window, global_tokens, random_keys, seed).tolist()):
        for key in keys:
            if key >= 0:
                mask[number * block : (number + 1) * block, key] = True
    return mask


def random_links(n: int, window: int, global_tokens: int, random_keys: int, seed: int = 0) -> Tensor:
    """(blocks, random_keys): for each block of queries the places of its random keys, -1 where there are not enough."""
    _expect_window(window)
    if global_tokens < 0 or random_keys < 0:
        raise ValueError(f"expected 0 or more global tokens and random keys, got {global_tokens} and {random_keys}")
    return _links(n, _block(n, window), window, min(global_tokens, n), random_keys, seed)


@lru_cache(maxsize=64)
def _links(n: int, block: int, window: int, global_tokens: int, random_keys: int, seed: int) -> Tensor:
    draw, rows = randomness.Random(seed), []
    for start in range(0, n, block):
        # Left out: the global tokens, and what a window of this block reaches. The rest is two ranges, drawn from as one:
        # to make a list of it would cost n for each block, and so n² in all.
        first, last = max(start - window, global_tokens), max(min(start + block + window, n), global_tokens)
        before, behind = first - global_tokens, n - last
        places = draw.sample(range(before + behind), min(random_keys, before + behind))
        keys = [global_tokens + place if place < before else last + place - before for place in places]
        rows.append(sorted(keys) + [-1] * (random_keys - len(keys)))
    return torch.tensor(rows, dtype=torch.long).view(len(rows), random_keys)


# Local windows


def local_attention(
    query: Tensor, key: Tensor, value: Tensor, window: int, causal: bool = False, real: Tensor | None = None
) -> Tensor:
    """`attention` with `local_attention_mask`, block by block: the output (..., n, e), at a cost of n · window.

    A block of queries is at least as long as the window, so all that it may look at is in itself and its two neighbours.
    """
    _expect_window(window)
    n, block = _expect_one_length(query, key, value), _block(query.size(-2), window)
    mask = _near(n, block, window, causal)
    if real is not None:
        mask = mask & _neighbours(_in_blocks(_per_token(real, query), block), causal).transpose(-2, -1)
    keys, values = (_neighbours(_in_blocks(x, block), causal) for x in (key, value))
    return _each_block(_in_blocks(query, block), keys, values, mask).flatten(-3, -2)[..., :n, :]


def _near(n: int, block: int, window: int, causal: bool) -> Tensor:
    """(blocks, block, 3 block), causal (..., 2 block): which of its neighbours' keys each query of a block may look at."""
    blocks = -(-n // block)
    query = torch.arange(block)[:, None]
    key = torch.arange(-block, block if causal else 2 * block)  # places counted from the start of the block
    near = (key - query >= -window) & (key - query <= (0 if causal else window))
    place = block * torch.arange(blocks)[:, None] + key  # before the first and behind the last token there is nothing
    return near & ((place >= 0) & (place < n)).unsqueeze(1)


def _in_blocks(x: Tensor, block: int) -> Tensor:
    """(..., n, d) to (..., blocks, block, d), the last block filled up with zeros."""
    missing = -x.size(-2) % block
    return (F.pad(x, (0, 0, 0, missing)) if missing else x).unflatten(-2, (-1, block))


def _neighbours(x: Tensor, causal: bool) -> Tensor:
    """(..., blocks, block, d) to (..., blocks, 3 block, d): each block between the one before and the one behind it.

    causal: (..., blocks, 2 block, d), with the one before it. The first and the last block have zeros for a neighbour.
    """
    zeros = torch.zeros_like(x[..., :1, :, :])
    parts = [torch.cat([zeros, x[..., :-1, :, :]], -3), x]
    if not causal:
        parts.append(torch.cat([x[..., 1:, :, :], zeros], -3))
    return torch.cat(parts, -2)


def _each_block(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """`attention` in each block: query (..., blocks, m, d), key (..., blocks, k, d), mask (blocks, m, k) or one for each sentence.

    The fused kernel takes exactly two axes before the rows, so all before the blocks become one.
    """
    before = query.shape[:-3]
    if mask.dim() > 3:
        mask = mask.expand(*before, *mask.shape[-3:])
    query, key, value, mask = (x.reshape(-1, *x.shape[-3:]) for x in (query, key, value, mask))
    found, _ = attention(query, key, value, mask, need_weights=False)
    return found.reshape(*before, *found.shape[-3:])


# Windows, global tokens and random links


def bigbird_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    global_tokens: int,
    random_keys: int,
    seed: int = 0,
    real: Tensor | None = None,
) -> Tensor:
    """`attention` with `bigbird_mask`, block by block: the output (..., n, e), at a cost of n · (window + global + random)."""
    n = _expect_one_length(query, key, value)
    block, global_tokens = _block(n, window), min(global_tokens, n)
    links = random_links(n, window, global_tokens, random_keys, seed)
    near = _near(n, block, window, causal=False)
    # Every block gets the global tokens as keys of their own, so they must not count a second time where they are near.
    place = block * torch.arange(len(links))[:, None] + torch.arange(-block, 2 * block)
    near = near & (place >= global_tokens).unsqueeze(1)
    far = torch.cat([torch.ones(len(links), global_tokens, dtype=torch.bool), links >= 0], 1)
    mask = torch.cat([near, far.unsqueeze(1).expand(-1, block, -1)], -1)
    if real is not None:
        mask = mask & _seen(_per_token(real, query), block, global_tokens, links).transpose(-2, -1)
    keys, values = (_seen(x, block, global_tokens, links) for x in (key, value))
    found = _each_block(_in_blocks(query, block), keys, values, mask).flatten(-3, -2)[..., :n, :]
    if global_tokens == 0:
        return found
    everything = None if real is None else _per_token(real, query).transpose(-2, -1)
    summary, _ = attention(query[..., :global_tokens, :], key, value, everything, need_weights=False)
    return torch.cat([summary, found[..., global_tokens:, :]], -2)


def _seen(x: Tensor, block: int, global_tokens: int, links: Tensor) -> Tensor:
    """(..., n, d) to (..., blocks, 3 block + global + random, d): all rows that the queries of each block may look at."""
    near = _neighbours(_in_blocks(x, block), causal=False)
    everywhere = x[..., None, :global_tokens, :].expand(*near.shape[:-2], global_tokens, x.size(-1))
    linked = x[..., links.clamp(min=0).flatten(), :].unflatten(-2, links.shape)
    return torch.cat([near, everywhere, linked], -2)


# Few keys


def linformer_attention(
    query: Tensor, key: Tensor, value: Tensor, project: Tensor, real: Tensor | None = None
) -> Tensor:
    """Attention to k mixtures of the tokens instead of to n tokens: the output (..., n, e), at a cost of n · k.

    project (k, longest), n at most longest: row j says how much of each place is in mixture j, for keys and values alike. What
    two tokens of one mixture said can no longer be told apart by where they stood. Padding is left out of the mixtures.
    """
    _expect_one_length(query, key, value)
    key, value = (_mixtures(x, project, real) for x in (key, value))
    return attention(query, key, value, need_weights=False)[0]


def _mixtures(x: Tensor, project: Tensor, real: Tensor | None) -> Tensor:
    """(..., n, d) to (..., k, d)."""
    n, longest = x.size(-2), project.size(-1)
    if n > longest:
        raise ValueError(
            f"expected at most {longest} tokens, got {n}: the mixtures have a weight for each place up to there; "
            "make the table longer and train again"
        )
    if real is not None:
        x = x.masked_fill(~_per_token(real, x), 0.0)
    return project[:, :n] @ x


# What all of them need


def _block(n: int, window: int) -> int:
    return max(1, min(max(window, SMALLEST_BLOCK), n))


def _per_token(real: Tensor, x: Tensor) -> Tensor:
    """real (b, n) as (b, 1, ..., n, 1): a column that fits x (b, ..., n, d)."""
    if real.dtype != torch.bool or real.shape != (*x.shape[: real.dim() - 1], x.size(-2)):
        raise ValueError(
            f"expected a bool mask ({', '.join(map(str, (*x.shape[:1], x.size(-2))))}), True = a real token, "
            f"got {real.dtype} {tuple(real.shape)}"
        )
    while real.dim() < x.dim() - 1:
        real = real.unsqueeze(-2)
    return real.unsqueeze(-1)


def _expect_window(window: int) -> None:
    if window < 0:
        raise ValueError(f"expected a window of 0 or more places on each side, got {window}")


def _expect_one_length(query: Tensor, key: Tensor, value: Tensor) -> int:
    lengths = [x.size(-2) for x in (query, key, value)]
    if len(set(lengths)) > 1:
        raise ValueError(
            "expected query, key and value of one length, since places are compared, "
            f"got {lengths[0]}, {lengths[1]} and {lengths[2]}; between two sentences use `attention`"
        )
    return lengths[0]


# Layers for the encoder


class CheapAttention(MultiHeadAttention):
    """Multi-head self-attention in which only some pairs are compared; what the kinds share. The parameters are the same.

    Masks other than padding, (b, 1, n), are refused: the kind says itself who looks at whom. With need_weights the full
    matrix (b, heads, n, n) is made after all, for pictures; the output is the same.
    """

    def look(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        heads_on: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        real = _padding_alone(mask, query)
        found, weights = self.compare(query, key, value, real, need_weights)
        if heads_on is not None:
            found = found * heads_on[:, None, None]
        return self.mix(merge_heads(found)), weights

    def compare(
        self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """query, key, value (b, heads, n, d), real (b, n) to what each head found (b, heads, n, d), and the weights or None."""
        if not need_weights:
            return self.cheaply(query, key, value, real), None
        mask = self.mask(query.size(-2))
        if real is not None:
            mask = mask & real[:, None, None, :]
        return attention(query, key, value, mask)

    def cheaply(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        raise NotImplementedError

    def mask(self, n: int) -> Tensor:
        """(n, n) bool: who may look at whom."""
        raise NotImplementedError


class LocalAttention(CheapAttention):
    """Multi-head `local_attention`. A stack of such layers reaches layers · window places, as convolutions do."""

    def __init__(self, dim: int, heads: int, window: int, causal: bool = False, bias: bool = True):
        super().__init__(dim, heads, bias)
        _expect_window(window)
        self.window, self.causal = window, causal

    def cheaply(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        return local_attention(query, key, value, self.window, self.causal, real)

    def mask(self, n: int) -> Tensor:
        return local_attention_mask(n, self.window, self.causal)


class BigBirdAttention(CheapAttention):
    """Multi-head `bigbird_attention`: two layers join any two tokens, through a global one. Each seed has other random links."""

    def __init__(
        self, dim: int, heads: int, window: int, global_tokens: int, random_keys: int, seed: int = 0, bias: bool = True
    ):
        super().__init__(dim, heads, bias)
        random_links(1, window, global_tokens, random_keys)
        self.window, self.global_tokens, self.random_keys, self.seed = window, global_tokens, random_keys, seed

    def cheaply(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        return bigbird_attention(query, key, value, self.window, self.global_tokens, self.random_keys, self.seed, real)

    def mask(self, n: int) -> Tensor:
        return bigbird_mask(n, self.window, self.global_tokens, self.random_keys, self.seed)


class LinformerAttention(CheapAttention):
    """Multi-head `linformer_attention`; the mixtures are learned and all heads share them. Weights: (b, heads, n, rank).

    At first a mixture is the sum of neighbours, longest / rank of them: from there training finds a way, where from mixtures at
    random, of all places at once, it long finds none.
    """

    def __init__(self, dim: int, heads: int, rank: int, longest: int, bias: bool = True):
        super().__init__(dim, heads, bias)
        if not 1 <= rank <= longest:
            raise ValueError(f"expected from 1 to {longest} mixtures of {longest} places, got {rank}")
        part = torch.arange(longest) * rank // longest == torch.arange(rank)[:, None]
        # The root of their number keeps a sum of random vectors as long as one of them.
        self.mixtures = nn.Parameter(part / part.sum(1, keepdim=True).sqrt())

    def compare(
        self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        if not need_weights:
            return linformer_attention(query, key, value, self.mixtures, real), None
        return attention(query, _mixtures(key, self.mixtures, real), _mixtures(value, self.mixtures, real))


def _padding_alone(mask: Tensor | None, query: Tensor) -> Tensor | None:
    """The mask (b, 1, n) as `real` (b, n)."""
    if mask is None:
        return None
    if mask.dim() != 3 or mask.size(-2) != 1:
        raise ValueError(
            f"expected no mask or a padding mask ({query.size(0)}, 1, {query.size(-2)}), got {tuple(mask.shape)}; "
            "who looks at whom is fixed by the kind of attention"
        )
    return mask.squeeze(-2)


def with_attention(encoder: Encoder, make: Callable[[], MultiHeadAttention]) -> Encoder:
    """Give every layer of an encoder, in place, another kind of attention with the projections that the layer has already.

    make: gives a new layer, `lambda: LocalAttention(64, 4, window=8)`. What a kind has beyond the projections starts fresh.
    """
    for layer in encoder.layers:
        new = make()
        new.project.load_state_dict(layer.attention.project.state_dict())
        new.mix.load_state_dict(layer.attention.mix.state_dict())
        layer.attention = new
    return encoder

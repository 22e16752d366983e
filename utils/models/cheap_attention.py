"""Attention that costs less than all pairs: local windows, windows with global and random links, and keys made few.

The first two give exactly what `attention` gives with their mask, and never make an (n, n) matrix: the queries are cut into
blocks, and each block is compared with the few keys that it may look at. Their cost grows with n, not with n².
All work on query, key and value (..., n, d), as `attention` does, for texts of one length: there is no padding.
"""

import random as randomness
from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.attention import MultiHeadAttention, attention, merge_heads
from utils.models.layers import TransformerEncoder as Encoder

SMALLEST_BLOCK = 32  # below this a product of matrices takes longer to start than to do


# Masks: what may be looked at, as (n, n) bool. For pictures and for comparison; the functions below never make them.


def local_attention_mask(n: int, window: int, causal: bool = False) -> Tensor:
    """(n, n) bool: token i may look at the tokens that stand at most `window` places from it; causal: at none behind it."""
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


def local_attention(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
    """`attention` with `local_attention_mask`, block by block: the output (..., n, e), at a cost of n · window.

    A block of queries is at least as long as the window, so all that it may look at is in itself and its two neighbours.
    """
    n = query.size(-2)
    block = _block(n, window)
    keys, values = (_neighbours(_in_blocks(x, block)) for x in (key, value))
    return _each_block(_in_blocks(query, block), keys, values, _near(n, block, window)).flatten(-3, -2)[..., :n, :]


def _near(n: int, block: int, window: int) -> Tensor:
    """(blocks, block, 3 block): which of its neighbours' keys each query of a block may look at."""
    blocks = -(-n // block)
    query = torch.arange(block)[:, None]
    key = torch.arange(-block, 2 * block)  # places counted from the start of the block
    near = (key - query).abs() <= window
    place = block * torch.arange(blocks)[:, None] + key  # before the first and behind the last token there is nothing
    return near & ((place >= 0) & (place < n)).unsqueeze(1)


def _in_blocks(x: Tensor, block: int) -> Tensor:
    """(..., n, d) to (..., blocks, block, d), the last block filled up with zeros."""
    missing = -x.size(-2) % block
    return (F.pad(x, (0, 0, 0, missing)) if missing else x).unflatten(-2, (-1, block))


def _neighbours(x: Tensor) -> Tensor:
    """(..., blocks, block, d) to (..., blocks, 3 block, d): each block between the one before and the one behind it.

    The first and the last block have zeros for a neighbour.
    """
    zeros = torch.zeros_like(x[..., :1, :, :])
    before, behind = torch.cat([zeros, x[..., :-1, :, :]], -3), torch.cat([x[..., 1:, :, :], zeros], -3)
    return torch.cat([before, x, behind], -2)


def _each_block(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """`attention` in each block: query (..., blocks, m, d), key (..., blocks, k, d), mask (blocks, m, k).

    The fused kernel takes exactly two axes before the rows, so all before the blocks become one.
    """
    before = query.shape[:-3]
    query, key, value = (x.reshape(-1, *x.shape[-3:]) for x in (query, key, value))
    found, _ = attention(query, key, value, mask.unsqueeze(0), need_weights=False)
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
) -> Tensor:
    """`attention` with `bigbird_mask`, block by block: the output (..., n, e), at a cost of n · (window + global + random)."""
    n = query.size(-2)
    block, global_tokens = _block(n, window), min(global_tokens, n)
    links = random_links(n, window, global_tokens, random_keys, seed)
    near = _near(n, block, window)
    # Every block gets the global tokens as keys of their own, so they must not count a second time where they are near.
    place = block * torch.arange(len(links))[:, None] + torch.arange(-block, 2 * block)
    near = near & (place >= global_tokens).unsqueeze(1)
    far = torch.cat([torch.ones(len(links), global_tokens, dtype=torch.bool), links >= 0], 1)
    mask = torch.cat([near, far.unsqueeze(1).expand(-1, block, -1)], -1)
    keys, values = (_seen(x, block, global_tokens, links) for x in (key, value))
    found = _each_block(_in_blocks(query, block), keys, values, mask).flatten(-3, -2)[..., :n, :]
    if global_tokens == 0:
        return found
    summary, _ = attention(query[..., :global_tokens, :], key, value, need_weights=False)
    return torch.cat([summary, found[..., global_tokens:, :]], -2)


def _seen(x: Tensor, block: int, global_tokens: int, links: Tensor) -> Tensor:
    """(..., n, d) to (..., blocks, 3 block + global + random, d): all rows that the queries of each block may look at."""
    near = _neighbours(_in_blocks(x, block))
    everywhere = x[..., None, :global_tokens, :].expand(*near.shape[:-2], global_tokens, x.size(-1))
    linked = x[..., links.clamp(min=0).flatten(), :].unflatten(-2, links.shape)
    return torch.cat([near, everywhere, linked], -2)


# Few keys


def linformer_attention(query: Tensor, key: Tensor, value: Tensor, project: Tensor) -> Tensor:
    """Attention to k mixtures of the tokens instead of to n tokens: the output (..., n, e), at a cost of n · k.

    project (k, longest), n at most longest: row j says how much of each place is in mixture j, for keys and values alike. What
    two tokens of one mixture said can no longer be told apart by where they stood.
    """
    key, value = (_mixtures(x, project) for x in (key, value))
    return attention(query, key, value, need_weights=False)[0]


def _mixtures(x: Tensor, project: Tensor) -> Tensor:
    """(..., n, d) to (..., k, d)."""
    n, longest = x.size(-2), project.size(-1)
    if n > longest:
        raise ValueError(
            f"expected at most {longest} tokens, got {n}: the mixtures have a weight for each place up to there; "
            "make the table longer and train again"
        )
    return project[:, :n] @ x


def _block(n: int, window: int) -> int:
    return max(1, min(max(window, SMALLEST_BLOCK), n))


# Layers for the encoder


class CheapAttention(MultiHeadAttention):
    """Multi-head self-attention in which only some pairs are compared; what the kinds share. The parameters are the same.

    The kind itself says who may attend to whom and the weights never exist, so masks, weights and head masks are refused.
    """

    def look(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        heads_on: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        if mask is not None or need_weights or heads_on is not None:
            raise ValueError(f"{type(self).__name__} takes no mask and no head mask, and gives no weights")
        return self.mix(merge_heads(self.cheaply(query, key, value))), None

    def cheaply(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query, key, value (b, heads, n, d) to the output of each head (b, heads, n, d)."""
        raise NotImplementedError


class LocalAttention(CheapAttention):
    """Multi-head `local_attention`. A stack of such layers reaches layers · window places, as convolutions do."""

    def __init__(self, dim: int, heads: int, window: int):
        super().__init__(dim, heads)
        self.window = window

    def cheaply(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return local_attention(query, key, value, self.window)


class BigBirdAttention(CheapAttention):
    """Multi-head `bigbird_attention`: two layers join any two tokens, through a global one. Each seed has other random links."""

    def __init__(self, dim: int, heads: int, window: int, global_tokens: int, random_keys: int, seed: int = 0):
        super().__init__(dim, heads)
        self.window, self.global_tokens, self.random_keys, self.seed = window, global_tokens, random_keys, seed

    def cheaply(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return bigbird_attention(query, key, value, self.window, self.global_tokens, self.random_keys, self.seed)


class LinformerAttention(CheapAttention):
    """Multi-head `linformer_attention`; the mixtures are learned and all heads share them.

    At first a mixture is the sum of neighbours, longest / rank of them: from there training finds a way, where from mixtures at
    random, of all places at once, it long finds none.
    """

    def __init__(self, dim: int, heads: int, rank: int, longest: int):
        super().__init__(dim, heads)
        part = torch.arange(longest) * rank // longest == torch.arange(rank)[:, None]
        # The root of their number keeps a sum of random vectors as long as one of them.
        self.mixtures = nn.Parameter(part / part.sum(1, keepdim=True).sqrt())

    def cheaply(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return linformer_attention(query, key, value, self.mixtures)


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

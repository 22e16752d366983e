"""Sparse and low-rank attention: local windows, windows with global and random keys, low-rank projection of the keys.

The first two give exactly what `attention` gives with their mask, and never make an (n, n) matrix: the queries are
split into blocks, and each block is compared with the few keys that it may attend to. Their cost grows with n, not
with n². All work on query, key and value (..., n, d), as `attention` does, without padding.
"""

import random
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.attention import MultiHeadAttention, attention, merge_heads

MIN_BLOCK = 32  # below this the overhead of a matrix product exceeds its work


# Masks (n, n), for figures and for comparison; the attention functions below never make them


def local_attention_mask(n: int, window: int, causal: bool = False) -> Tensor:
    """Sliding-window mask (n, n) bool: a token may attend at most `window` positions away, causal: to none after it."""
    position = torch.arange(n)
    offset = position - position[:, None]  # of key j from query i
    return (offset >= -window) & (offset <= (0 if causal else window))


def bigbird_mask(n: int, window: int, global_tokens: int, random_keys: int, seed: int = 0) -> Tensor:
    """BigBird mask (n, n) bool: a sliding window, global tokens (the first `global_tokens`) and random keys.

    Global tokens attend to all tokens and all attend to them. All queries of a block have the same `random_keys` random
    keys, drawn from outside their windows (fewer if there are fewer): with random keys for each query, gathering them
    would cost more than the whole window.
    """
    mask = local_attention_mask(n, window)
    mask[:, :global_tokens] = True
    mask[:global_tokens] = True
    block = _block_size(n, window)
    for index, keys in enumerate(random_key_positions(n, window, global_tokens, random_keys, seed).tolist()):
        for key in keys:
            if key >= 0:
                mask[index * block : (index + 1) * block, key] = True
    return mask


@lru_cache(maxsize=64)
def random_key_positions(n: int, window: int, global_tokens: int, random_keys: int, seed: int = 0) -> Tensor:
    """Positions (blocks, random_keys) of the random keys of each block of queries, -1 where there are not enough."""
    generator, rows = random.Random(seed), []
    block, global_tokens = _block_size(n, window), min(global_tokens, n)
    for start in range(0, n, block):
        # Excluded: the global tokens, and what a window of this block covers. The rest is two ranges, sampled as one:
        # a list of it would cost n for each block, and so n² in all.
        first, last = max(start - window, global_tokens), max(min(start + block + window, n), global_tokens)
        before, after = first - global_tokens, n - last
        sample = generator.sample(range(before + after), min(random_keys, before + after))
        keys = [global_tokens + index if index < before else last + index - before for index in sample]
        rows.append(sorted(keys) + [-1] * (random_keys - len(keys)))
    return torch.tensor(rows, dtype=torch.long).view(len(rows), random_keys)


# Sliding windows


def local_attention(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
    """Sliding-window attention (Longformer, Beltagy et al., 2020, arXiv:2004.05150): (..., n, e), cost n · window.

    Equals `attention` with `local_attention_mask`. A block of queries is at least as long as the window, so all it may
    attend to lies in itself and its two neighbors.
    """
    n = query.size(-2)
    block = _block_size(n, window)
    keys, values = (_with_neighbors(_split_blocks(x, block)) for x in (key, value))
    output = _block_attention(_split_blocks(query, block), keys, values, _window_mask(n, block, window))
    return output.flatten(-3, -2)[..., :n, :]


def _block_size(n: int, window: int) -> int:
    return max(1, min(max(window, MIN_BLOCK), n))


def _key_positions(blocks: int, block: int) -> Tensor:
    """Key positions (blocks, 3 block) of each block and its two neighbors, also before 0 and after the last token."""
    return block * torch.arange(blocks)[:, None] + torch.arange(-block, 2 * block)


def _window_mask(n: int, block: int, window: int) -> Tensor:
    """(blocks, block, 3 block): which keys of its block and the two neighbors each query may attend to."""
    offset = torch.arange(-block, 2 * block) - torch.arange(block)[:, None]
    position = _key_positions(-(-n // block), block)
    return (offset.abs() <= window) & ((position >= 0) & (position < n)).unsqueeze(1)


def _split_blocks(x: Tensor, block: int) -> Tensor:
    """(..., n, d) to (..., blocks, block, d), the last block padded with zeros."""
    missing = -x.size(-2) % block
    return (F.pad(x, (0, 0, 0, missing)) if missing else x).unflatten(-2, (-1, block))


def _with_neighbors(x: Tensor) -> Tensor:
    """(..., blocks, block, d) to (..., blocks, 3 block, d): previous block, block, next block; zeros at both ends."""
    zeros = torch.zeros_like(x[..., :1, :, :])
    previous, following = torch.cat([zeros, x[..., :-1, :, :]], -3), torch.cat([x[..., 1:, :, :], zeros], -3)
    return torch.cat([previous, x, following], -2)


def _block_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """`attention` in each block: query (..., blocks, m, d), key (..., blocks, k, d), mask (blocks, m, k).

    The fused kernel takes exactly two axes before the rows, so all axes before the blocks become one.
    """
    leading = query.shape[:-3]
    query, key, value = (x.reshape(-1, *x.shape[-3:]) for x in (query, key, value))
    output, _ = attention(query, key, value, mask.unsqueeze(0), need_weights=False)
    return output.reshape(*leading, *output.shape[-3:])


# Windows, global tokens and random keys


def bigbird_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    global_tokens: int,
    random_keys: int,
    seed: int = 0,
) -> Tensor:
    """BigBird (Zaheer et al., 2020, arXiv:2007.14062): output (..., n, e) at a cost of n · (window + global + random).

    Equals `attention` with `bigbird_mask`.
    """
    n = query.size(-2)
    block, global_tokens = _block_size(n, window), min(global_tokens, n)
    positions = random_key_positions(n, window, global_tokens, random_keys, seed)
    # The global tokens are extra keys of every block, so they must not count a second time inside a window.
    in_window = _window_mask(n, block, window) & (_key_positions(len(positions), block) >= global_tokens).unsqueeze(1)
    extra = torch.cat([torch.ones(len(positions), global_tokens, dtype=torch.bool), positions >= 0], 1)
    mask = torch.cat([in_window, extra.unsqueeze(1).expand(-1, block, -1)], -1)
    keys, values = (_bigbird_rows(x, block, global_tokens, positions) for x in (key, value))
    output = _block_attention(_split_blocks(query, block), keys, values, mask).flatten(-3, -2)[..., :n, :]
    if global_tokens == 0:
        return output
    global_output, _ = attention(query[..., :global_tokens, :], key, value, need_weights=False)
    return torch.cat([global_output, output[..., global_tokens:, :]], -2)


def _bigbird_rows(x: Tensor, block: int, global_tokens: int, positions: Tensor) -> Tensor:
    """(..., n, d) to (..., blocks, 3 block + global + random, d): all keys or values of each block of queries."""
    window_rows = _with_neighbors(_split_blocks(x, block))
    global_rows = x[..., None, :global_tokens, :].expand(*window_rows.shape[:-2], global_tokens, x.size(-1))
    random_rows = x[..., positions.clamp(min=0).flatten(), :].unflatten(-2, positions.shape)
    return torch.cat([window_rows, global_rows, random_rows], -2)


# Low rank


def linformer_attention(query: Tensor, key: Tensor, value: Tensor, projection: Tensor) -> Tensor:
    """Linformer (Wang et al., 2020a, arXiv:2006.04768): attention to k projected keys, (..., n, e), cost n · k.

    projection (k, max_len), n at most max_len, projects the positions of keys and values alike.
    """
    n, max_len = key.size(-2), projection.size(-1)
    if n > max_len:
        raise ValueError(
            f"expected at most {max_len} tokens, got {n}: the projection has a column per position; "
            "build the layer with a larger max_len and train it again"
        )
    key, value = (projection[:, :n] @ x for x in (key, value))
    return attention(query, key, value, need_weights=False)[0]


# Layers for the encoder


class SparseAttention(MultiHeadAttention):
    """Base class of multi-head self-attention without the (n, n) matrix; parameters as in `MultiHeadAttention`.

    The attention pattern is fixed and the weights are never computed: a mask or need_weights=True raises ValueError.
    """

    def forward(self, x: Tensor, mask: None = None, need_weights: bool = False) -> tuple[Tensor, None]:
        """x (b, n, dim) to output (b, n, dim), and None in place of the attention weights."""
        if mask is not None or need_weights:
            raise ValueError(f"{type(self).__name__} takes no mask and returns no weights")
        return self.out_proj(merge_heads(self.sparse_attention(*self.project(x)))), None

    def sparse_attention(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query, key, value (b, heads, n, d) to the output of each head (b, heads, n, d)."""
        raise NotImplementedError


class LocalAttention(SparseAttention):
    """Multi-head `local_attention`. A stack of L such layers has a receptive field of L · window on each side."""

    def __init__(self, dim: int, num_heads: int, window: int):
        super().__init__(dim, num_heads)
        self.window = window

    def sparse_attention(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return local_attention(query, key, value, self.window)


class BigBirdAttention(SparseAttention):
    """Multi-head `bigbird_attention`: two layers connect any two tokens, through a global one."""

    def __init__(self, dim: int, num_heads: int, window: int, global_tokens: int, random_keys: int, seed: int = 0):
        super().__init__(dim, num_heads)
        self.window, self.global_tokens, self.random_keys, self.seed = window, global_tokens, random_keys, seed

    def sparse_attention(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return bigbird_attention(query, key, value, self.window, self.global_tokens, self.random_keys, self.seed)


class LinformerAttention(SparseAttention):
    """Multi-head `linformer_attention`; the projection is learned and shared by all heads.

    It is initialized to sums of max_len / rank neighboring positions: from a random projection of all positions,
    training makes no progress for a long time.
    """

    def __init__(self, dim: int, num_heads: int, rank: int, max_len: int):
        super().__init__(dim, num_heads)
        segments = torch.arange(max_len) * rank // max_len == torch.arange(rank)[:, None]
        # Divided by the square root of their number, a sum of random vectors has the norm of one of them.
        self.projection = nn.Parameter(segments / segments.sum(1, keepdim=True).sqrt())

    def sparse_attention(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return linformer_attention(query, key, value, self.projection)

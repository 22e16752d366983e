"""Core exercises once more by loops, by einsum and by reshaping, where the zoo has no such answer."""

import math

import torch


def rows_of_softmax(scores, mask=None):
    """By hand, row by row; a row that may look nowhere gets zeros."""
    rows, allowed = scores.reshape(-1, scores.size(-1)), None
    if mask is not None:
        allowed = mask.broadcast_to(scores.shape).reshape(rows.shape)
    made = []
    for place, row in enumerate(rows):
        seen = torch.ones_like(row, dtype=torch.bool) if allowed is None else allowed[place]
        powers = torch.where(seen, (row - row.detach()[seen].max()).exp(), 0.0) if seen.any() else 0 * row
        made.append(powers / powers.sum() if seen.any() else powers)
    return torch.stack(made).reshape(scores.shape)


def looked(query, key, value, mask=None):
    """Attention by einsum and the softmax of rows above."""
    scores = torch.einsum("...md,...nd->...mn", query, key) / math.sqrt(query.size(-1))
    weights = rows_of_softmax(scores, mask)
    return torch.einsum("...mn,...ne->...me", weights, value), weights


# 1.3
def cosine_by_loops(query, keys):
    scores = []
    for key in keys:
        product = sum(a * b for a, b in zip(query, key, strict=True))
        scores.append(product / (sum(a * a for a in query) * sum(b * b for b in key)) ** 0.5)
    return torch.stack(scores)


def cosine_by_einsum(query, keys):
    lengths = torch.einsum("nd,nd->n", keys, keys).sqrt() * torch.einsum("d,d->", query, query).sqrt()
    return torch.einsum("nd,d->n", keys, query) / lengths


# 3.2
def step_by_loops(x, state, A, B, c):
    return torch.stack([(row @ A + old @ B + c).tanh() for row, old in zip(x, state, strict=True)])


def step_by_one_product(x, state, A, B, c):
    return (torch.cat([x, state], -1) @ torch.cat([A, B], 0)).add(c).tanh()


# 3.4, 3.5, 3.6
def dot_by_loops(state, memory):
    return torch.stack(
        [torch.stack([(memory[b] * one).sum(-1) for one in state[b]]) for b in range(len(state))],
    )


def dot_by_einsum(state, memory):
    return torch.einsum("bmd,bnd->bmn", state, memory)


def multiplicative_by_einsum(state, memory, W):
    return torch.einsum("bmd,de,bne->bmn", state, W, memory)


def multiplicative_by_loops(state, memory, W):
    return torch.stack([s @ W @ m.T for s, m in zip(state, memory, strict=True)])


def additive_by_reshape(state, memory, A, B, v):
    b, m, n = state.size(0), state.size(1), memory.size(1)
    left = (state @ A).reshape(b, m, 1, -1).expand(b, m, n, -1)
    right = (memory @ B).reshape(b, 1, n, -1).expand(b, m, n, -1)
    return torch.einsum("bmnk,k->bmn", (left + right).tanh(), v)


# 4.2, 4.5
def self_attention_by_einsum(X, W_Q, W_K, W_V, mask=None):
    query, key, value = (torch.einsum("...nd,de->...ne", X, W) for W in (W_Q, W_K, W_V))
    return looked(query, key, value, mask)


def rotate_by_complex_numbers(x, positions):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    dim = x.size(-1)
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, dim, 2, dtype=x.dtype) / dim)
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


# 5.1, 5.2, 5.3, 5.6
def heads_at_once(x, maps, W_O, mask=None):
    query, key, value = torch.einsum("bnd,hcdk->cbhnk", x, maps)
    if mask is not None and mask.ndim == 3:
        mask = mask.unsqueeze(1)
    found, weights = looked(query, key, value, mask)
    return torch.einsum("bhnk,hkd->bnd", found, W_O.reshape(len(maps), -1, W_O.size(1))), weights


def split_by_chunks(x, heads):
    return torch.stack(x.chunk(heads, -1), 1)


def merge_by_unbind(x):
    return torch.cat(x.unbind(1), -1)


def mix_by_einsum(found, W_O, gates):
    heads, width = found.size(1), found.size(3)
    return torch.einsum("bhnk,h,hkd->bnd", found, gates, W_O.reshape(heads, width, -1))


def mix_by_loops(found, W_O, gates):
    parts = W_O.split(found.size(3))
    return sum(gate * (found[:, head] @ part) for head, (gate, part) in enumerate(zip(gates, parts, strict=True)))


# 6.1, 6.2, 6.9
def vectors_by_one_hot(words, table, positions, start=0):
    chosen = torch.nn.functional.one_hot(words, len(table)).to(table.dtype)
    return torch.einsum("bnv,vd->bnd", chosen, table) * math.sqrt(table.size(1)) + positions[start:][: words.size(1)]


def cross_by_einsum(x, memory, W_Q, W_K, W_V, mask=None):
    return looked(x @ W_Q, memory @ W_K, memory @ W_V, None if mask is None else mask[:, None])


def cross_by_loops(x, memory, W_Q, W_K, W_V, mask=None):
    found = []
    for place, (words, source) in enumerate(zip(x, memory, strict=True)):
        found.append(looked(words @ W_Q, source @ W_K, source @ W_V, None if mask is None else mask[place][None]))
    return torch.stack([output for output, _ in found]), torch.stack([weights for _, weights in found])


def cached_by_einsum(x, keys, values, W_Q, W_K, W_V):
    keys = torch.cat([keys, torch.einsum("bnd,dk->bnk", x, W_K)], -2)
    values = torch.cat([values, torch.einsum("bnd,dk->bnk", x, W_V)], -2)
    return looked(x @ W_Q, keys, values)[0], keys, values


# 8.3, 8.5, 8.7
def few_by_loops(query, key, value, project):
    key, value = (torch.einsum("kn,...nd->...kd", project, x) for x in (key, value))
    return looked(query, key, value)[0]


def rms_by_loops(x, gain, eps=1e-5):
    rows = [row / (row @ row / len(row) + eps) ** 0.5 * gain for row in x.reshape(-1, x.size(-1))]
    return torch.stack(rows).reshape(x.shape)


def grouped_by_reshape(query, key, value, mask=None):
    b, heads, m, d = query.shape
    grouped = query.reshape(b, key.size(1), heads // key.size(1), m, d)
    return looked(grouped, key.unsqueeze(2), value.unsqueeze(2), mask)[0].reshape(b, heads, m, -1)


BY_HAND = {
    "1.3": [cosine_by_loops, cosine_by_einsum],
    "3.2": [step_by_loops, step_by_one_product],
    "3.4": [dot_by_loops, dot_by_einsum],
    "3.5": [multiplicative_by_einsum, multiplicative_by_loops],
    "3.6": [additive_by_reshape],
    "4.2": [self_attention_by_einsum],
    "4.5": [rotate_by_complex_numbers],
    "5.1": [heads_at_once],
    "5.2": [split_by_chunks],
    "5.3": [merge_by_unbind],
    "5.6": [mix_by_einsum, mix_by_loops],
    "6.1": [vectors_by_one_hot],
    "6.2": [cross_by_einsum, cross_by_loops],
    "6.9": [cached_by_einsum],
    "8.3": [few_by_loops],
    "8.5": [rms_by_loops],
    "8.7": [grouped_by_reshape],
}

"""Answers to lesson 08's exercises: what people really write, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from tests.zoo import Zoo
from utils.models import attend, attention


# 8.1 the local mask
def by_triangles(n, window, causal=False):
    return torch.ones(n, n).tril(0 if causal else window).triu(-window).bool()


def by_rows(n, window, causal=False):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, max(0, i - window) : (i if causal else i + window) + 1] = True
    return mask


def by_comparison(n, window, causal=False):
    i, j = torch.arange(n).unsqueeze(1), torch.arange(n).unsqueeze(0)
    near = (i - j).abs().le(window)
    if causal:
        near = near.logical_and(j <= i)
    return near


def pair_by_pair(n, window, causal=False):
    return torch.tensor([[abs(i - j) <= window and (not causal or j <= i) for j in range(n)] for i in range(n)])


def a_band(below, above, last=0):
    """Ones from `below` the diagonal to `above` it; causal, to `last`."""

    def answer(n, window, causal=False):
        return torch.ones(n, n).triu(-below(window)).tril(last if causal else above(window)).bool()

    return answer


def row_by_row_short(n, window, causal=False):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, max(0, i - window) : i + 1 if causal else i + window] = True
    return mask


def negative_slices(n, window, causal=False):
    """i - window below 0 counts from the end."""
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, i - window : i + 1 if causal else i + window + 1] = True
    return mask


def a_ring(n, window, causal=False):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for step in range(-window, window + 1):
            mask[i, (i + step) % n] = True
    return mask & torch.ones(n, n, dtype=torch.bool).tril() if causal else mask


def chunks(n, window, causal=False):
    i = torch.arange(n).div(window, rounding_mode="floor")
    same = i[:, None] == i[None, :]
    return same & by_triangles(n, n, causal)


LOCAL_MASK = Zoo(
    wrong=[
        (a_band(lambda w: w - 1, lambda w: w - 1), "one place short"),
        (a_band(lambda w: w + 1, lambda w: w + 1), "one place too long"),
        (a_band(lambda w: w // 2, lambda w: w // 2), "taken for the whole width"),
        (a_band(lambda w: 1000, lambda w: w), "All tokens before are in sight"),
        (a_band(lambda w: w, lambda w: 1000), "All tokens behind are in sight"),
        (lambda n, window, causal=False: by_triangles(n, window), "`causal` has no effect"),
        (a_band(lambda w: w - 1, lambda w: w - 1, last=2), "one place short"),  # and causal, it sees two ahead
        (lambda n, window, causal=False: by_rows(n, window, True), "It is always causal"),
        (lambda n, window, causal=False: by_rows(n, window, not causal), "`causal` is turned round"),
        (lambda n, window, causal=False: by_rows(n, window, causal).T, "Causal, it hides the past"),
        (a_band(lambda w: w, lambda w: w, last=-1), "Causal, no token may look at itself"),
        (lambda n, w, causal=False: by_rows(n, w, causal) & ~torch.eye(n).bool(), "No token may look at itself"),
        (
            lambda n, w, causal=False: torch.ones(n, n).tril().bool() if causal else by_rows(n, w),
            "the window is lost",
        ),
        (lambda n, window, causal=False: ~by_comparison(n, window, causal), "turned round: True"),
        (chunks, "cuts the sentence into blocks"),
        (a_ring, "no ring"),
        (lambda n, window, causal=False: by_rows(n, window, causal).float(), "0.0 and 1.0"),
        (lambda n, window, causal=False: by_rows(n, window, causal).int(), "numbers 0 and 1"),
        (
            lambda n, window, causal=False: torch.full((n, n), -torch.inf).masked_fill(by_rows(n, window, causal), 0),
            "added to scores",
        ),
        (lambda n, window, causal=False: by_rows(n, window, causal)[None], "an axis too many"),
        (row_by_row_short, "To the right the window is one place short"),
        (negative_slices, "The first tokens see nothing"),
        (lambda n, window, causal=False: by_rows(n, window, causal).flip(1), "wrong values"),
        (lambda n, window, causal=False: by_rows(n, window, causal).tolist(), "is a list"),
        (lambda n, window: by_rows(n, window), "Put the first line back"),
        (lambda n, window, causal=False: by_rows(n, window, causal)[i], "It raised NameError"),  # noqa: F821
        (lambda n, window, causal=False: print(by_rows(n, window, causal)), "returned nothing"),
    ],
    right=[by_triangles, by_rows, by_comparison, pair_by_pair],
)


# 8.2 attention in blocks
def three_blocks(query, key, value, window, count=lambda n, window: math.ceil(n / window)):
    b, h, n, d = query.shape
    blocks = count(n, window)
    extra = blocks * window - n
    query = F.pad(query, (0, 0, 0, extra)).view(b, h, blocks, window, d)
    key, value = (F.pad(x, (0, 0, window, extra + window)).view(b, h, blocks + 2, window, d) for x in (key, value))
    key, value = (torch.cat([x[:, :, i : i + blocks] for i in range(3)], 3) for x in (key, value))
    asks = torch.arange(blocks * window).view(blocks, window, 1)
    says = torch.arange(blocks).view(-1, 1, 1) * window + torch.arange(-window, 2 * window)
    mask = ((asks - says).abs() <= window) & (says >= 0) & (says < n)
    return attention(query, key, value, mask)[0].reshape(b, h, -1, d)[:, :, :n]


def by_unfold(query, key, value, window):
    """A window of keys for each query."""
    keys, values = (F.pad(x, (0, 0, window, window)).unfold(2, 2 * window + 1, 1) for x in (key, value))
    real = F.pad(torch.ones(query.size(2)), (window, window)).unfold(0, 2 * window + 1, 1) > 0
    scores = torch.einsum("bhnd,bhndw->bhnw", query, keys) / math.sqrt(query.size(-1))
    weights = scores.masked_fill(~real, -torch.inf).softmax(-1)
    return torch.einsum("bhnw,bhndw->bhnd", weights, values)


def by_gather(query, key, value, window):
    """As if each query had all keys, of which it takes its own: the large tensor is a view."""
    b, h, n, d = query.shape
    place = torch.arange(n)[:, None] + torch.arange(-window, window + 1)
    real = (place >= 0) & (place < n)
    index = place.clamp(0, n - 1)[None, None, :, :, None].expand(b, h, -1, -1, d)
    keys, values = (x.unsqueeze(2).expand(b, h, n, n, d).gather(3, index) for x in (key, value))
    return attention(query.unsqueeze(3), keys, values, real.unsqueeze(1))[0].squeeze(3)


def by_index(query, key, value, window):
    n = query.size(2)
    place = torch.arange(n).unsqueeze(1) + torch.arange(-window, window + 1)
    real = (place >= 0) & (place < n)
    place = place.clamp(0, n - 1)
    scores = (query.unsqueeze(3) * key[:, :, place]).sum(-1) * query.size(3) ** -0.5
    powers = scores.exp() * real
    return (powers.unsqueeze(-1) * value[:, :, place]).sum(3) / powers.sum(-1, keepdim=True)


def query_by_query(query, key, value, window):
    rows = []
    for i in range(query.size(2)):
        near = slice(max(0, i - window), i + window + 1)
        rows.append(attention(query[:, :, i : i + 1], key[:, :, near], value[:, :, near])[0])
    return torch.cat(rows, 2)


def chunks_of(size, join=lambda parts: torch.cat(parts, 2)):
    """Slices of a fixed length, each with what lies around it."""

    def answer(query, key, value, window):
        n, parts = query.size(2), []
        for start in range(0, n, size):
            end = min(start + size, n)
            low, high = max(0, start - window), min(n, end + window)
            near = (torch.arange(start, end)[:, None] - torch.arange(low, high)).abs() <= window
            parts.append(
                F.scaled_dot_product_attention(
                    query=query[:, :, start:end], key=key[:, :, low:high], value=value[:, :, low:high], attn_mask=near
                )
            )
        return join(parts)

    return answer


def growing(parts):
    whole = parts[0]
    for part in parts[1:]:
        whole = torch.cat([whole, part], 2)
    return whole


def by_offsets(query, key, value, window):
    """One offset at a time, for all queries."""
    n = query.size(2)
    scores, moved = [], []
    for offset in range(-window, window + 1):
        place = torch.arange(n) + offset
        score = (query * key.roll(-offset, 2)).sum(-1) * query.size(-1) ** -0.5
        scores.append(score.masked_fill((place < 0) | (place >= n), float("-inf")))
        moved.append(value.roll(-offset, 2))
    weights = torch.stack(scores, -1).softmax(-1)
    return (weights.unsqueeze(-2) @ torch.stack(moved, -2)).squeeze(-2)


def into_a_new_tensor(query, key, value, window):
    output = torch.zeros_like(value)
    places = torch.arange(query.size(2))
    for i in places:
        near = (places - i).abs() <= window
        weights = torch.softmax(key[:, :, near] @ query[:, :, i, :, None] / query.size(-1) ** 0.5, 2)
        output[:, :, i] = (weights * value[:, :, near]).sum(2)
    return output


def near_pairs(n, window):
    return (torch.arange(n)[:, None] - torch.arange(n)).abs() <= window


def with_a_mask(query, key, value, window):
    return attention(query, key, value, near_pairs(query.size(2), window))[0]


def fused_with_a_mask(query, key, value, window):
    return F.scaled_dot_product_attention(query, key, value, near_pairs(query.size(-2), window))


def by_einsum(query, key, value, window):
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / query.size(-1) ** 0.5
    scores = scores.masked_fill(~near_pairs(query.size(-2), window), -torch.inf)
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), value)


def all_keys_for_each(query, key, value, window):
    n, rows = query.size(2), []
    for i in range(n):
        near = (torch.arange(n) - i).abs() <= window
        scores = (query[:, :, i : i + 1] * key).sum(-1) * query.size(-1) ** -0.5
        weights = scores.masked_fill(~near, -torch.inf).softmax(-1)
        rows.append((weights.unsqueeze(-1) * value).sum(2))
    return torch.stack(rows, 2)


def each_with_each(query, key, value, window):
    scores = (query[:, :, :, None] * key[:, :, None]).sum(-1) * query.size(-1) ** -0.5
    return attend(scores, value, near_pairs(query.size(2), window))[0]


def all_scores_then_near(query, key, value, window):
    """All scores, of which each query keeps its window."""
    n = query.size(2)
    scores = query @ key.mT * query.size(-1) ** -0.5
    rows = []
    for i in range(n):
        near = slice(max(0, i - window), i + window + 1)
        rows.append(scores[:, :, i : i + 1, near].softmax(-1) @ value[:, :, near])
    return torch.cat(rows, 2)


def blocks_of_a_large_mask(query, key, value, window):
    n, parts = query.size(2), []
    mask = near_pairs(n, window)
    for start in range(0, n, window):
        asks, says = slice(start, start + window), slice(max(0, start - window), start + 2 * window)
        parts.append(attention(query[:, :, asks], key[:, :, says], value[:, :, says], mask[asks, says])[0])
    return torch.cat(parts, 2)


def blocks_of_a_band(query, key, value, window):
    n, parts = query.size(2), []
    mask = torch.ones(n, n).tril(window).triu(-window).bool()
    for start in range(0, n, 8):
        low, high = max(0, start - window), start + 8 + window
        inside = mask[start : start + 8, low:high]
        parts.append(attention(query[:, :, start : start + 8], key[:, :, low:high], value[:, :, low:high], inside)[0])
    return torch.cat(parts, 2)


def by_blocks(before=True, behind=True, near=True, reach=lambda window: window, inside=True, scale=None, finish=None):
    """A loop over blocks as long as the window, with slices of the keys."""

    def answer(query, key, value, window):
        n, parts = query.size(2), []
        for start in range(0, n, window):
            end = min(n, start + window)
            low, high = max(0, start - window) if before else start, min(n, end + window) if behind else end
            apart = (torch.arange(start, end)[:, None] - torch.arange(low, high)).abs()
            mask = apart <= reach(window) if near else None
            found = attention(query[:, :, start:end], key[:, :, low:high], value[:, :, low:high], mask, scale)
            parts.append(found[0] if finish is None else finish(found))
        return torch.cat(parts, 2)

    return answer


def rolled(query, key, value, window):
    """The neighbours of a block by `roll`; padding is masked, the ends are not."""
    b, h, n, d = query.shape
    extra = -n % window
    query, key, value = (F.pad(x, (0, 0, 0, extra)).view(b, h, -1, window, d) for x in (query, key, value))
    real = F.pad(torch.ones(n, dtype=torch.bool), (0, extra)).view(-1, window)
    key, value = (torch.cat([x.roll(1, 2), x, x.roll(-1, 2)], 3) for x in (key, value))
    real = torch.cat([real.roll(1, 0), real, real.roll(-1, 0)], 1)
    near = (torch.arange(window)[:, None] + window - torch.arange(3 * window)).abs() <= window
    return attention(query, key, value, near & real[:, None])[0].flatten(2, 3)[:, :, :n]


def round_by_index(query, key, value, window):
    n = query.size(2)
    place = (torch.arange(n)[:, None] + torch.arange(-window, window + 1)) % n
    return attention(query.unsqueeze(3), key[:, :, place], value[:, :, place])[0].squeeze(3)


def clamped(query, key, value, window):
    n = query.size(2)
    place = (torch.arange(n)[:, None] + torch.arange(-window, window + 1)).clamp(0, n - 1)
    return attention(query.unsqueeze(3), key[:, :, place], value[:, :, place])[0].squeeze(3)


def zeros_count(query, key, value, window):
    keys, values = (F.pad(x, (0, 0, window, window)).unfold(2, 2 * window + 1, 1) for x in (key, value))
    weights = (query.unsqueeze(3) @ keys * query.size(3) ** -0.5).softmax(-1)
    return (weights @ values.mT).squeeze(3)


def padded(looks, cut=True, fill=-torch.inf, axis=-1, scale=True):
    """In padded blocks, looks(near, real) of them."""

    def answer(query, key, value, window):
        b, h, n, d = query.shape
        extra = -n % window
        query = F.pad(query, (0, 0, 0, extra)).view(b, h, -1, window, d)
        blocks = query.size(2)
        keys, values = (F.pad(x, (0, 0, window, window + extra)).unfold(2, 3 * window, window).mT for x in (key, value))
        real = F.pad(torch.ones(n), (window, window + extra)).unfold(0, 3 * window, window).bool()
        near = (torch.arange(window)[:, None] + window - torch.arange(3 * window)).abs() <= window
        scores = query @ keys.mT * (d**-0.5 if scale else 1)
        mask = looks(near.expand(blocks, -1, -1), real.unsqueeze(1).expand(-1, window, -1))
        found = (scores.masked_fill(~mask, fill).softmax(axis) @ values).flatten(2, 3)
        return found[:, :, :n] if cut else found

    return answer


def mask_afterwards(query, key, value, window):
    weights = (query @ key.mT * query.size(-1) ** -0.5).softmax(-1) * near_pairs(query.size(2), window)
    return weights @ value


def over_columns(query, key, value, window):
    scores = query @ key.mT * query.size(-1) ** -0.5
    return scores.masked_fill(~near_pairs(query.size(2), window), -torch.inf).softmax(2) @ value


def causal_blocks(query, key, value, window):
    return attention(query, key, value, near_pairs(query.size(2), window).tril())[0]


def with_negative_slices(query, key, value, window):
    rows = []
    for i in range(query.size(2)):
        near = slice(i - window, i + window + 1)
        rows.append(attention(query[:, :, i : i + 1], key[:, :, near], value[:, :, near])[0])
    return torch.cat(rows, 2)


def with_short_slices(query, key, value, window):
    rows = []
    for i in range(query.size(2)):
        near = slice(max(0, i - window), i + window)
        weights = (query[:, :, i : i + 1] @ key[:, :, near].mT * query.size(-1) ** -0.5).softmax(-1)
        rows.append(weights @ value[:, :, near])
    return torch.cat(rows, 2)


def only_whole_blocks(query, key, value, window):
    n = query.size(2) // window * window
    return three_blocks(query[:, :, :n], key[:, :, :n], value[:, :, :n], window)


def query_in_place(query, key, value, window):
    query *= query.size(-1) ** -0.5
    n, d = query.size(2), query.size(3)
    return three_blocks(query * d**0.5, key, value, window) if n else query


LOCAL = Zoo(
    wrong=[
        (with_a_mask, "still compares all n² pairs"),
        (fused_with_a_mask, "still compares all n² pairs"),
        (by_einsum, "still compares all n² pairs"),
        (each_with_each, "still compares all n² pairs"),
        (all_scores_then_near, "still compares all n² pairs"),
        (all_keys_for_each, "still compares all n² pairs"),
        (blocks_of_a_large_mask, "something of n x n is still made"),
        (blocks_of_a_band, "something of n x n is still made"),
        (by_blocks(before=False, behind=False), "its own keys only"),
        (by_blocks(before=False), "block before are missing"),
        (by_blocks(behind=False), "block behind are missing"),
        (by_blocks(near=False), "all keys of three blocks: at most"),
        (padded(lambda near, real: real), "all keys of three blocks: at most"),
        (padded(lambda near, real: torch.ones_like(near)), "Nothing is masked"),
        (padded(lambda near, real: near), "count as keys"),
        (zeros_count, "count as keys"),
        (rolled, "The first tokens look at the last"),
        (round_by_index, "The first tokens look at the last"),
        (clamped, "count several times"),
        (by_blocks(reach=lambda window: window - 1), "one place short"),
        (lambda q, k, v, window: with_a_mask(q, k, v, window + 1), "one place too long"),
        (by_blocks(reach=lambda window: window // 2), "taken for the whole width"),
        (causal_blocks, "It looks back only"),
        (lambda q, k, v, w: attention(q, k, v, near_pairs(q.size(2), w).triu())[0], "It looks ahead only"),
        (lambda q, k, v, window: attention(q, k, v)[0], "`window` has no effect"),
        (over_columns, "Softmax ran over the queries"),
        (padded(lambda near, real: near & real, axis=-2), "Softmax ran over the queries"),
        (by_blocks(scale=1), "were not scaled"),
        (padded(lambda near, real: near & real, scale=False), "were not scaled"),
        (padded(lambda near, real: near & real, fill=0.0), "Hidden scores became 0"),
        (padded(lambda near, real: ~(near & real), fill=-1e9), "turned round"),
        (padded(lambda near, real: near & real, cut=False), "came back as tokens"),
        (mask_afterwards, "after the softmax"),
        (with_negative_slices, "The first tokens see nothing"),
        (with_short_slices, "To the right the window is one place short"),
        (lambda q, k, v, w: three_blocks(q, k, v, w) + 1, "wrong values"),
        (lambda q, k, v, w: three_blocks(q, k, v, w.item()), "It raised AttributeError"),
        (only_whole_blocks, "Look at axis 2"),
        (by_blocks(finish=lambda found: found[1]), "Look at axis 3"),
        (lambda q, k, v, w: attention(q, k, v, near_pairs(q.size(2), w)), "return one torch tensor"),
        (lambda q, k, v, w: by_unfold(q, k.detach(), v, w), "no gradient reaches `key`"),
        (lambda q, k, v, w: by_index(q, k, v, w).double(), "came float64"),
        (lambda q, k, v, w: three_blocks(q, k, v, w, count=lambda n, w: n), "more blocks than the sentence fills"),
        (query_in_place, "changed its input `query`"),
        (lambda q, k, v: q, "Put the first line back"),
    ],
    right=[
        three_blocks,
        by_unfold,
        by_gather,
        by_index,
        query_by_query,
        chunks_of(16),
        chunks_of(256),
        chunks_of(64, growing),
        by_offsets,
        into_a_new_tensor,
        by_blocks(),
        padded(lambda near, real: near & real),
    ],
)


# 8.3 few keys
def few_by_hand(query, key, value, project):
    keys, values = torch.matmul(project, key), torch.matmul(project, value)
    scores = query @ keys.transpose(-2, -1) / math.sqrt(query.size(-1))
    return torch.softmax(scores, dim=-1) @ values


def few_by_einsum(query, key, value, project):
    keys = torch.einsum("kn,...nd->...kd", project, key)
    values = torch.einsum("kn,...nd->...kd", project, value)
    return F.scaled_dot_product_attention(query, keys, values)


def few_transposed(query, key, value, project):
    keys, values = (key.mT @ project.T).mT, (value.mT @ project.T).mT
    return attention(query, keys, values)[0]


def few(change):
    return lambda query, key, value, project: attention(*change(query, key, value, project))[0]


FEW = Zoo(
    wrong=[
        (few(lambda q, k, v, p: (q, p @ k, v)), "Only the keys became mixtures"),
        (lambda q, k, v, p: (q @ (p @ k).mT / q.size(-1) ** 0.5).softmax(-1) @ v, "Only the keys became mixtures"),
        (few(lambda q, k, v, p: (q, k, p @ v)), "Only the values became mixtures"),
        (few(lambda q, k, v, p: (q, k, v)), "`project` has no effect"),
        (few(lambda q, k, v, p: (p @ q, p @ k, p @ v)), "The queries became mixtures"),
        (lambda q, k, v, p: attention(q, p @ k, p @ v), "Two tensors came back"),
        (few(lambda q, k, v, p: (q, k[..., : len(p), :], v[..., : len(p), :])), "the first k tokens"),
        (few(lambda q, k, v, p: (q, p.T @ k, p.T @ v)), "`project` was turned"),
        (few(lambda q, k, v, p: (q, p.softmax(-1) @ k, p.softmax(-1) @ v)), "went through a softmax"),
        (few(lambda q, k, v, p: (q, p @ k / k.size(-2), p @ v / v.size(-2))), "divided by n"),
        (lambda q, k, v, p: (q @ (p @ k).mT * q.size(-1) ** -0.5).softmax(-2) @ (p @ v), "ran over the queries"),
        (lambda q, k, v, p: attention(q, p @ k, p @ v, scale=1)[0], "were not scaled"),
        (lambda q, k, v, p: attention(q, p @ k, p @ v, scale=len(p) ** -0.5)[0], "the number of mixtures"),
        (lambda q, k, v, p: attention(q, p @ k, p @ v)[1], "has shape"),
        (lambda q, k, v, p: few_by_hand(q, k, v, p.detach()), "no gradient reaches `project`"),
        (lambda q, k, v, p: few_by_hand(q, k, v, p).double(), "came float64"),
        (lambda q, k, v, p: few_by_hand(q, k, v, p) + 1, "wrong values"),
        (lambda q, k, v, p: attention(q, p(k), p(v))[0], "It raised TypeError"),
        (lambda q, k, v: q, "Put the first line back"),
    ],
    right=[few_by_hand, few_by_einsum, few_transposed],
)


# 8.4 a power law
def by_lstsq(x, y):
    design = torch.stack([torch.ones_like(x), x.log()], 1)
    found = torch.linalg.lstsq(design, y.log().unsqueeze(1)).solution.flatten()
    return found[0].exp(), -found[1]


def by_polyfit(x, y):
    slope, intercept = np.polyfit(np.log10(x.numpy()), np.log10(y.numpy()), 1)
    return 10**intercept, -slope


def by_covariance(x, y):
    both = torch.cov(torch.stack([x.log2(), y.log2()]))
    exponent = (-both[0, 1] / both[0, 0]).item()
    return math.exp(y.log().mean().item() + exponent * x.log().mean().item()), exponent


def by_python(x, y):
    points = [(math.log(a), math.log(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    n = len(points)
    sx, sy = sum(a for a, _ in points), sum(b for _, b in points)
    sxy, sxx = sum(a * b for a, b in points), sum(a * a for a, _ in points)
    slope = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    return [math.exp((sy - slope * sx) / n), -slope]


def fitted(change, log_x=torch.log, log_y=torch.log):
    """change(intercept, slope) of the line through the logarithms."""

    def answer(x, y):
        slope, intercept = np.polyfit(log_x(x).numpy(), log_y(y).numpy(), 1)
        return change(float(intercept), float(slope))

    return answer


def two_points(x, y):
    exponent = -(y[-1].log() - y[0].log()) / (x[-1].log() - x[0].log())
    return y[0] * x[0] ** exponent, exponent


def without_intercept(x, y):
    lx, ly = x.log(), y.log()
    slope = (lx @ ly) / (lx @ lx)
    return (ly.mean() - slope * lx.mean()).exp(), -slope


def var_and_mean(x, y):
    lx, ly = x.log(), y.log()
    slope = ((lx - lx.mean()) * (ly - ly.mean())).mean() / lx.var()
    return (ly.mean() - slope * lx.mean()).exp(), -slope


def other_way_round(x, y):
    lx, ly = x.log(), y.log()
    slope = torch.cov(torch.stack([lx, ly]))[0, 1] / ly.var()
    return (ly.mean() - slope * lx.mean()).exp(), -slope


def mean_amount(x, y):
    return y.log().mean().exp(), by_lstsq(x, y)[1]


def wrong_side(x, y):
    exponent = by_lstsq(x, y)[1]
    return (y.log().mean() - exponent * x.log().mean()).exp(), exponent


def neighbours(x, y):
    lx, ly = x.log(), y.log()
    slope = ((ly[1:] - ly[:-1]) / (lx[1:] - lx[:-1])).mean()
    return (ly.mean() - slope * lx.mean()).exp(), -slope


def same(x):
    return x


LAW = Zoo(
    wrong=[
        (fitted(lambda intercept, slope: (math.exp(intercept), slope)), "sign of the exponent is wrong"),
        (fitted(lambda intercept, slope: (math.exp(intercept), abs(slope))), "lost its sign"),
        (fitted(lambda intercept, slope: (intercept, -slope)), "still a logarithm"),
        (fitted(lambda intercept, slope: (intercept, slope)), "intercept and slope of the line"),
        (fitted(lambda intercept, slope: (intercept, -slope), same, same), "x and y themselves"),
        (fitted(lambda intercept, slope: (intercept, slope), same, same), "x and y themselves"),
        (fitted(lambda intercept, slope: (math.exp(intercept), -slope), same), "Only y is a logarithm"),
        (fitted(lambda intercept, slope: (intercept, -slope), torch.log, same), "Only x is a logarithm"),
        (
            fitted(lambda intercept, slope: (math.exp(intercept), -slope), torch.log10, torch.log10),
            "Another logarithm on the way",
        ),
        (fitted(lambda intercept, slope: (10**intercept, -slope)), "Another logarithm on the way"),
        (fitted(lambda intercept, slope: (-slope, math.exp(intercept))), "results are swapped"),
        (fitted(lambda intercept, slope: (slope, intercept)), "results are swapped"),
        (two_points, "the first and the last point"),
        (neighbours, "from point to point"),
        (without_intercept, "through the origin"),
        (other_way_round, "divided by the squares of log y"),
        (var_and_mean, "off by (n - 1) / n"),
        (mean_amount, "the mean of the y"),
        (wrong_side, "on the wrong side of the mean"),
        (lambda x, y: (y[0], by_lstsq(x, y)[1]), "The amount is the first y"),
        (lambda x, y: by_lstsq(x, y)[1], "Only the exponent came back"),
        (lambda x, y: torch.stack(by_lstsq(x, y)), "expected a tuple of 2 (amount, exponent)"),
        (lambda x, y: (by_lstsq(x, y)[0][None], by_lstsq(x, y)[1]), "`amount` is a torch tensor of shape (1,)"),
        (lambda x, y: (by_lstsq(x, y)[0] * 1.1, by_lstsq(x, y)[1]), "`amount` is the wrong number"),
        (lambda x, y: np.polyfit(x.log(), y.logs(), 1), "It raised AttributeError"),
        (lambda x: by_lstsq(x, x), "Put the first line back"),
    ],
    right=[by_lstsq, by_polyfit, by_covariance, by_python],
)


# 8.5 RMS norm
def rms_by_norm(x, gain, eps=1e-5):
    size = (x.norm(dim=-1, keepdim=True) ** 2 / x.size(-1) + eps).sqrt()
    return gain * x / size


def rms_by_power(x, gain, eps=1e-5):
    return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * gain


def rms_fused(x, gain, eps=1e-5):
    return F.rms_norm(x, (x.size(-1),), gain, eps)


def rms_by_product(x, gain, eps=1e-5):
    total = torch.einsum("...d,...d->...", x, x)
    return torch.einsum("...d,...,d->...d", x, (total / len(gain) + eps).rsqrt(), gain)


def rms(divisor, eps=None):
    """gain * x / divisor(x, eps)."""

    def answer(x, gain, given=1e-5):
        return gain * x / divisor(x, given if eps is None else eps)

    return answer


RMS = Zoo(
    wrong=[
        (lambda x, gain, eps=1e-5: F.layer_norm(x, gain.shape, gain, None, eps), "that is layer norm"),
        (rms(lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()), "which leaves the mean out"),
        (rms(lambda x, eps: (x.var(-1, keepdim=True) + eps).sqrt()), "torch's deviation"),
        (rms(lambda x, eps: x.pow(2).mean(-1, keepdim=True).sqrt() + eps), "outside of the root"),
        (rms(lambda x, eps: x.pow(2).mean(-1, keepdim=True).sqrt()), "eps is missing"),
        (rms(lambda x, eps: x.pow(2).mean(-1, keepdim=True) + eps), "by the mean square"),
        (rms(lambda x, eps: (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt()), "It was multiplied by the root"),
        (rms(lambda x, eps: (x.pow(2).sum(-1, keepdim=True) + eps).sqrt()), "the length of the vector"),
        (rms(lambda x, eps: x.abs().mean(-1, keepdim=True) + eps), "the mean size of the features"),
        (rms(lambda x, eps: (x.mean(-1, keepdim=True) ** 2 + eps).sqrt()), "The mean was squared"),
        (rms(lambda x, eps: (x.pow(2).mean(0, keepdim=True) + eps).sqrt()), "over the first axis"),
        (
            lambda x, g, eps=1e-5: (
                g * x / (x.pow(2).mean(-2, keepdim=True) + eps).sqrt() if x.dim() > 1 else rms_fused(x, g, eps)
            ),
            "over the positions",
        ),
        (rms(lambda x, eps: (x.pow(2).mean() + eps).sqrt()), "one mean for everything"),
        (rms(lambda x, eps: (x.pow(2).mean(-1) + eps).sqrt()), "lost its axis"),
        (lambda x, gain, eps=1e-5: rms_fused(x, torch.ones_like(gain), eps), "The gain has no effect"),
        (lambda x, gain, eps=1e-5: F.rms_norm(x, gain.shape, eps=eps) + gain, "The gain was added"),
        (lambda x, gain, eps=1e-5: rms_fused(x, 1 + gain, eps), "1 + gain"),
        (lambda x, gain, eps=1e-5: F.rms_norm(gain * x, gain.shape, eps=eps), "The gain came first"),
        (rms(lambda x, eps: (x.pow(2).mean(-1, keepdim=True) + eps).sqrt(), eps=1e-5), "`eps` has no effect"),
        (lambda x, gain, eps=1e-5: rms_by_power(x, gain, eps).detach(), "no gradient flows back"),
        (lambda x, gain, eps=1e-5: rms_by_power(x, gain.data, eps), "no gradient reaches `gain`"),
        (lambda x, gain, eps=1e-5: rms_by_power(x.double(), gain, eps), "came float64"),
        (lambda x, gain, eps=1e-5: rms_by_power(x, gain, eps).square(), "wrong values"),
        (lambda x, gain, eps=1e-5: x.rms() * gain, "It raised AttributeError"),
        (lambda x, gain, eps=1e-5: x.mul_(gain) * 0 + 1, "wrong values"),
        (lambda x, gain: rms_by_power(x, gain), "Put the first line back"),
    ],
    right=[rms_by_norm, rms_by_power, rms_fused, rms_by_product],
)


# 8.6 gradients of several workers
def join_by_loop(gradients, counts):
    total = torch.zeros_like(gradients[0])
    for gradient, count in zip(gradients, counts, strict=True):
        total = total + gradient * count
    return total / counts.sum()


def join_by_tensordot(gradients, counts):
    return torch.tensordot(counts.float() / counts.sum(), gradients, dims=1)


def join_by_einsum(gradients, counts):
    return torch.einsum("w,w...->...", counts.to(gradients.dtype), gradients) / counts.sum()


def join_token_by_token(gradients, counts):
    """Each gradient as often as it has tokens, and the plain mean of all."""
    return gradients.repeat_interleave(counts, 0).mean(0)


def join_as_rows(gradients, counts):
    rows = gradients.flatten(1) if gradients.dim() > 1 else gradients.unsqueeze(1)
    return ((counts / counts.sum()).unsqueeze(0) @ rows).view(gradients.shape[1:])


def joined(weigh):
    """Weights by worker, turned so that they go with the first axis."""
    return lambda gradients, counts: (gradients.movedim(0, -1) * weigh(counts)).sum(-1)


def weighted_in_place(gradients, counts):
    for i, share in enumerate(counts / counts.sum()):
        gradients[i] *= share
    return gradients.sum(0)


JOIN = Zoo(
    wrong=[
        (lambda gradients, counts: gradients.mean(0), "The plain mean of the workers"),
        (lambda gradients, counts: gradients.sum(0), "The sum of the workers"),
        (joined(lambda counts: counts), "The weights do not sum to 1"),
        (lambda g, counts: (g.movedim(0, -1) * counts).mean(-1), "divided by the number of workers"),
        (lambda g, counts: (g.movedim(0, -1) * counts / counts.sum()).mean(-1), "It was divided twice"),
        (lambda gradients, counts: gradients.sum(0) / counts.sum(), "added and divided by all tokens"),
        (joined(lambda counts: counts.sum() / counts / (counts.sum() / counts).sum()), "few tokens have the larger"),
        (joined(lambda counts: 1 / counts), "divided by their counts once more"),
        (joined(lambda counts: counts // counts.sum()), "Whole numbers were divided"),
        (joined(lambda counts: (counts / counts.sum()).long()), "Whole numbers were divided"),
        (joined(lambda counts: counts / counts.max()), "by the largest count"),
        (joined(lambda counts: torch.softmax(counts.float(), 0)), "went through a softmax"),
        (joined(lambda counts: counts**2 / (counts**2).sum()), "The counts were used twice"),
        (lambda gradients, counts: (gradients * (counts / counts.sum())).sum(0), "lined up with the last axis"),
        (lambda gradients, counts: counts / counts.sum() @ gradients, "as soon as a gradient is a matrix"),
        (lambda gradients, counts: gradients[counts.argmax()], "the worker with most tokens"),
        (lambda gradients, counts: join_by_loop(gradients, counts).sum(), "All numbers became one"),
        (lambda gradients, counts: join_by_loop(gradients, counts)[None], "is one too many"),
        (lambda gradients, counts: join_by_loop(gradients, counts).tolist(), "return a torch tensor"),
        (lambda gradients, counts: torch.einsum("w,w...->...", counts, gradients), "It raised RuntimeError"),
        (lambda gradients, counts: join_by_loop(gradients, counts) * 2, "wrong values"),
        (lambda gradients, counts: join_by_loop(gradients.double(), counts), "came float64"),
        (weighted_in_place, "changed its input `gradients`"),
        (lambda gradients: gradients.mean(0), "Put the first line back"),
    ],
    right=[join_by_loop, join_by_tensordot, join_by_einsum, join_token_by_token, join_as_rows],
)


# 8.7 shared keys and values
def group_by_view(query, key, value, mask=None):
    """The group as an axis of its own."""
    b, heads, m, d = query.shape
    query = query.view(b, key.size(1), -1, m, d)
    return attention(query, key.unsqueeze(2), value.unsqueeze(2), mask)[0].reshape(b, heads, m, d)


def group_by_loop(query, key, value, mask=None):
    heads, key_heads = query.size(1), key.size(1)
    found = []
    for head in range(heads):
        shared = head * key_heads // heads
        found.append(attention(query[:, head], key[:, shared], value[:, shared], mask)[0])
    return torch.stack(found, 1)


def group_fused(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)


def group_stacked(query, key, value, mask=None):
    """The heads of a group one below the other."""
    group = query.size(1) // key.size(1)
    mask = None if mask is None else mask.repeat(group, 1)
    return attention(query.unflatten(1, (-1, group)).flatten(2, 3), key, value, mask)[0].reshape(query.shape)


def group_by_index(query, key, value, mask=None):
    heads = torch.arange(query.size(1)) // (query.size(1) // key.size(1))
    return attention(query, key[:, heads], value[:, heads], mask)[0]


def by_expanding(x, heads):
    b, key_heads, n, d = x.shape
    return x[:, :, None].expand(b, key_heads, heads // key_heads, n, d).reshape(b, heads, n, d)


def in_turns(x, heads):
    return torch.cat([x] * (heads // x.size(1)), 1)


def shared(keys=by_expanding, values=by_expanding, look=None):
    def answer(query, key, value, mask=None):
        heads = query.size(1)
        key, value = keys(key, heads), values(value, heads)
        if look is None:
            return attention(query, key, value, mask)[0]
        return look(query, key, value, mask)

    return answer


def by_hand(query, key, value, mask, hidden=-torch.inf):
    scores = query @ key.mT / query.size(-1) ** 0.5
    return (scores if mask is None else scores.masked_fill(~mask, hidden)).softmax(-1) @ value


def late(query, key, value, mask):
    weights = (query @ key.mT / query.size(-1) ** 0.5).softmax(-1)
    return (weights if mask is None else weights * mask) @ value


def mean_query(query, key, value, mask=None):
    group = query.size(1) // key.size(1)
    return attention(query.unflatten(1, (-1, group)).mean(2), key, value, mask)[0]


def mean_query_again(query, key, value, mask=None):
    return mean_query(query, key, value, mask).repeat_interleave(query.size(1) // key.size(1), 1)


def wrong_rows(query, key, value, mask=None):
    group = query.size(1) // key.size(1)
    mask = None if mask is None else mask.repeat_interleave(group, 0)
    return attention(query.unflatten(1, (-1, group)).flatten(2, 3), key, value, mask)[0].view(query.shape)


def out_of_order(query, key, value, mask=None):
    b, heads, m, d = query.shape
    query = query.view(b, key.size(1), -1, m, d)
    return attention(query, key[:, :, None], value[:, :, None], mask)[0].transpose(1, 2).reshape(b, heads, m, d)


def turned_mask(query, key, value, mask=None):
    return group_by_loop(query, key, value, None if mask is None else ~mask)


def over_queries(query, key, value, mask):
    scores = query @ key.mT / query.size(-1) ** 0.5
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-2) @ value


GROUPED = Zoo(
    wrong=[
        (shared(in_turns, in_turns), "The key heads take turns"),
        (
            lambda q, k, v, mask=None: group_by_loop(
                q, *(x.repeat(1, q.size(1) // x.size(1), 1, 1) for x in (k, v)), mask
            ),
            "The key heads take turns",
        ),
        (shared(keys=in_turns), "The keys take turns and"),
        (shared(values=in_turns), "The values take turns and"),
        (
            lambda q, k, v, mask=None: attention(
                q, *(x[:, [h // x.size(1) for h in range(q.size(1))]] for x in (k, v)), mask
            )[0],
            "h // key_heads",
        ),
        (lambda q, k, v, mask=None: attention(q, k[:, :1], v[:, :1], mask)[0], "use the first key head"),
        (lambda q, k, v, mask=None: attention(q, k.mean(1, True), v.mean(1, True), mask)[0], "averaged into one"),
        (mean_query, "were averaged: each"),
        (mean_query_again, "all of a group give the same"),
        (
            lambda q, k, v, mask=None: group_by_loop(q, k, v, mask).unflatten(1, (k.size(1), -1)).mean(2),
            "outputs of a group were averaged",
        ),
        (lambda q, k, v, mask=None: group_by_loop(q[:, :: q.size(1) // k.size(1)], k, v, mask), "Only one query head"),
        (lambda q, k, v, mask=None: attention(q, k, v, mask)[0], "The heads do not fit"),
        (out_of_order, "in another order"),
        (lambda q, k, v, mask=None: group_by_loop(q, k, v), "The mask has no effect"),
        (turned_mask, "turned round"),
        (shared(look=by_hand), "may look nowhere got NaN"),
        (shared(look=lambda q, k, v, mask: by_hand(q, k, v, mask, -1e9)), "got the average of all"),
        (shared(look=late), "after the softmax"),
        (shared(look=lambda q, k, v, mask: by_hand(q, k, v, mask, 0.0)), "Hidden scores became 0"),
        (wrong_rows, "rows of the mask do not fit"),
        (shared(look=lambda q, k, v, mask: attention(q, k, v, mask, scale=1)[0]), "were not scaled"),
        (
            shared(look=lambda q, k, v, mask: attention(q, k, v, mask, scale=(q.size(1) * q.size(3)) ** -0.5)[0]),
            "root of the model's width",
        ),
        (shared(look=over_queries), "Softmax ran over the queries"),
        (shared(look=attention), "Two tensors came back"),
        (lambda q, k, v, mask=None: group_by_loop(q, k, v, mask).transpose(1, 2).flatten(2), "has shape"),
        (lambda q, k, v, mask=None: group_by_loop(q, k, v.detach(), mask), "no gradient reaches `value`"),
        (lambda q, k, v, mask=None: group_by_loop(q, k, v, mask) - 1, "wrong values"),
        (lambda q, k, v, mask=None: group_by_loop(q, k, v, mask).double(), "came float64"),
        (lambda q, k, v, mask=None: attention(q, k.repeat_heads(2), v, mask)[0], "It raised AttributeError"),
        (lambda q, k, v: group_by_loop(q, k, v), "Put the first line back"),
    ],
    right=[group_by_view, group_by_loop, group_fused, group_stacked, group_by_index, shared()],
)


# 8.8 cut into patches
def patches_by_loop(images, size):
    side, cut = images.size(1), []
    for top in range(0, side, size):
        for left in range(0, side, size):
            cut.append(images[:, top : top + size, left : left + size].reshape(len(images), -1))
    return torch.stack(cut, 1)


def patches_by_unfold(images, size):
    return F.unfold(images.unsqueeze(1), size, stride=size).transpose(1, 2)


def patches_by_view(images, size):
    b, side, _ = images.shape
    grid = side // size
    return images.view(b, grid, size, grid, size).permute(0, 1, 3, 2, 4).reshape(b, grid * grid, size * size)


def patches_by_windows(images, size):
    return images.unfold(1, size, size).unfold(2, size, size).flatten(1, 2).flatten(2)


def patches_by_split(images, size):
    rows = [torch.stack(row.split(size, 2), 1) for row in images.split(size, 1)]
    return torch.cat(rows, 1).flatten(2)


def viewed(*order):
    def answer(images, size):
        b, side, _ = images.shape
        grid = side // size
        return images.reshape(b, grid, size, grid, size).permute(order).reshape(b, grid**2, size**2)

    return answer


def every_so_many(images, size):
    b, side, _ = images.shape
    grid = side // size
    return images.view(b, size, grid, size, grid).permute(0, 2, 4, 1, 3).reshape(b, grid**2, size**2)


def down_then_across(images, size):
    side, cut = images.size(1), []
    for left in range(0, side, size):
        for top in range(0, side, size):
            cut.append(images[:, top : top + size, left : left + size].flatten(1))
    return torch.stack(cut, 1)


def grids(shape):
    def answer(images, size):
        b, side, _ = images.shape
        grid = side // size
        return images.view(b, grid, size, grid, size).transpose(2, 3).reshape(shape(b, grid, size))

    return answer


PATCHES = Zoo(
    wrong=[
        (lambda images, size: images.reshape(images.size(0), -1, size**2), "strips, not squares"),
        (viewed(0, 1, 2, 3, 4), "strips, not squares"),
        (down_then_across, "column by column: row by row"),
        (lambda images, size: patches_by_loop(images, size).unflatten(2, (size, -1)).mT.flatten(2), "transposed"),
        (lambda images, size: patches_by_loop(images.mT, size), "Patches and their pixels go column by column"),
        (every_so_many, "stand far apart"),
        (grids(lambda b, grid, size: (b, grid, grid, size, size)), "still stand in a grid, and their pixels"),
        (grids(lambda b, grid, size: (b, grid * grid, size, size)), "still a square"),
        (grids(lambda b, grid, size: (b, grid, grid, size * size)), "still stand in a grid: they"),
        (lambda images, size: F.unfold(images[:, None], size, stride=size), "two last axes are swapped"),
        (grids(lambda b, grid, size: (b * grid * grid, size * size)), "of all images stand in one row"),
        (lambda images, size: F.unfold(images[:, None], size).mT, "The patches overlap"),
        (lambda images, size: images.view(len(images), -1, size * images.size(2)), "as wide as the image"),
        (lambda images, size: patches_by_loop(images, images.size(1) // size), "the number of patches in a row"),
        (lambda images, size: patches_by_loop(images, size).flip(1), "wrong values"),
        (lambda images, size: patches_by_loop(images, size)[:, :, 1:], "Look at axis 2"),
        (lambda images, size: list(patches_by_loop(images, size)), "return one torch tensor"),
        (lambda images, size: images.view(len(images), -1, size, size, 2), "It raised RuntimeError"),
        (lambda images: patches_by_loop(images, 2), "Put the first line back"),
    ],
    right=[patches_by_loop, patches_by_unfold, patches_by_view, patches_by_windows, patches_by_split],
)

ZOO = {
    "8.1": LOCAL_MASK,
    "8.2": LOCAL,
    "8.3": FEW,
    "8.4": LAW,
    "8.5": RMS,
    "8.6": JOIN,
    "8.7": GROUPED,
    "8.8": PATCHES,
}

"""Answers to lesson 01's exercises: what people really write, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from tests.zoo import Zoo

INFINITY = float("inf")


# 1.1 softmax
def softmax_no_keepdim(logits, temperature=1.0):
    powers = (logits / temperature - (logits / temperature).max(-1).values).exp()
    return powers / powers.sum(-1)


def softmax_less(shift):
    def answer(logits, temperature=1.0):
        powers = torch.exp(logits / temperature - shift(logits, temperature))
        return powers / powers.sum(-1, keepdim=True)

    return answer


def softmax_by_view(logits, temperature=1.0):
    rows = (logits / temperature).view(-1, logits.shape[-1])
    return F.softmax(rows, 1).view(logits.shape)


def softmax_squeezed(logits, temperature=1.0):
    return F.softmax(logits / temperature, -1).squeeze()


def softmax_switching_gradients_off(logits, temperature=1.0):
    torch.set_grad_enabled(False)
    return F.softmax(logits / temperature, -1)


KEPT = {}


def softmax_kept_by_identity(logits, temperature=1.0):
    if id(logits) not in KEPT:
        KEPT[id(logits)] = logits, F.softmax(logits / temperature, -1)
    return KEPT[id(logits)][1]


def softmax_clamped(logits, temperature=1.0):
    powers = (logits / temperature).clamp(max=80).exp()
    return powers / powers.sum(-1, keepdim=True)


def softmax_in_place(logits, temperature=1.0):
    logits /= temperature
    logits -= logits.max(-1, keepdim=True).values
    return logits.exp() / logits.exp().sum(-1, keepdim=True)


def softmax_by_numpy(logits, temperature=1.0):
    scaled = logits.detach().numpy() / temperature
    powers = np.exp(scaled - scaled.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def softmax_by_loops(logits, temperature=1.0):
    rows = logits.reshape(-1, logits.shape[-1])
    out = []
    for row in rows:
        top = max(row)
        powers = [torch.exp((number - top) / temperature) for number in row]
        out.append(torch.stack([power / sum(powers) for power in powers]))
    return torch.stack(out).reshape(logits.shape)


def softmax_through_the_logarithm(logits, temperature=1.0):
    scaled = logits / temperature
    return (scaled - torch.logsumexp(scaled, -1, keepdim=True)).exp()


SOFTMAX = Zoo(
    wrong=[
        (
            lambda z, temperature=1.0: (z / temperature).exp() / (z / temperature).exp().sum(-1, keepdim=True),
            "overflow",
        ),
        (
            lambda z, temperature=1.0: (
                ((z - z.max()) / temperature).exp() / ((z - z.max()) / temperature).exp().sum(-1, keepdim=True)
            ),
            "whole table",
        ),
        (lambda z, temperature=1.0: F.softmax(z / temperature, 0), "first axis"),
        (
            lambda z, temperature=1.0: F.softmax((z / temperature).reshape(-1), 0).reshape(z.shape),
            "All numbers together",
        ),
        (lambda z, temperature=1.0: F.softmax(z, -1), "no effect"),
        (lambda z, temperature=1.0: F.softmax(z * temperature, -1), "multiplied by the temperature"),
        (lambda z, temperature=1.0: F.softmax(z, -1) / temperature, "1/temperature"),
        (lambda z, temperature=1.0: F.log_softmax(z / temperature, -1), "logarithm"),
        (
            lambda z, temperature=1.0: z / temperature / (z / temperature).sum(-1, keepdim=True),
            "exponential is missing",
        ),
        (lambda z, temperature=1.0: F.softmax(z / temperature, -1).detach(), "torch.no_grad"),
        (softmax_no_keepdim, "keepdim"),
        (
            lambda z, temperature=1.0: F.softmax(z / temperature - (z / temperature).max(dim=-1), -1),
            "values and indices",
        ),
        (softmax_clamped, "expected"),
        (softmax_less(lambda z, t: (z / t).min(-1, keepdim=True).values), "smallest logit was subtracted"),
        (softmax_less(lambda z, t: (z / t).mean(-1, keepdim=True)), "mean was subtracted"),
        (softmax_less(lambda z, t: z.max(-1, keepdim=True).values), "before the division by the temperature"),
        (softmax_less(lambda z, t: (z / t)[..., :1]), "contains NaN"),
        (softmax_by_view, "reshape"),
        (softmax_squeezed, "missing"),
        (softmax_switching_gradients_off, "torch.no_grad"),
        (softmax_kept_by_identity, "earlier call"),
        (lambda z, temperature=1.0: F.softmax(z / max(temperature, 1.0), -1), "temperature 0.5"),
        (lambda z, temperature=1.0: F.softmax(z / temperature, -1).half(), "three digits"),
        (lambda z, temperature=1.0: F.softmax(z.double() / temperature, -1), "came float64"),
        (softmax_in_place, "in place"),
        (softmax_by_numpy, "NumPy"),
        (lambda z, temperature=1.0: F.softmax(z / temperature, -1).tolist(), "list"),
        (lambda z: F.softmax(z, -1), "argument"),
        (lambda z, temperature=1.0: None, "returned nothing"),
        (lambda z, temperature=1.0: print(F.softmax(z / temperature, -1)), "returned nothing"),
    ],
    right=[
        lambda z, temperature=1.0: F.softmax(z / temperature, -1),
        lambda z, temperature=1.0: F.softmax(z.double() / temperature, -1).float(),
        softmax_by_loops,
        softmax_through_the_logarithm,
    ],
)


# 1.2 Jacobian
def jacobian_by_loops(p):
    n = len(p)
    table = torch.zeros(n, n)
    for i in range(n):
        for j in range(n):
            table[i, j] = p[i] * (float(i == j) - p[j])
    return table


JACOBIAN = Zoo(
    wrong=[
        (lambda p: torch.diag(p * (1 - p)), "diagonal is filled"),
        (lambda p: p * (1 - p), "diagonal as a vector"),
        (lambda p: torch.outer(p, p) - torch.diag(p), "sign"),
        (lambda p: torch.diag(p) + torch.outer(p, p), "sum to 0"),
        (lambda p: -torch.outer(p, p), "Kronecker"),
        (lambda p: torch.eye(len(p)) - torch.outer(p, p), "factor p_i"),
        (lambda p: torch.outer(p, 1 - p), "on the diagonal only"),
        (lambda p: (torch.diag(p) - torch.outer(p, p)).numpy(), "NumPy"),
        (lambda p: torch.diag(p) - p @ p, "expected"),
        (lambda p: torch.autograd.functional.jacobian(lambda z: F.softmax(z, 0), p), "expected"),
    ],
    right=[
        jacobian_by_loops,
        lambda p: p[:, None] * (torch.eye(len(p)) - p[None, :]),
        lambda p: torch.einsum("i,ij->ij", p, torch.eye(len(p))) - torch.einsum("i,j->ij", p, p),
        lambda p: torch.autograd.functional.jacobian(lambda z: F.softmax(z, 0), p.log()),
    ],
)

# 1.3 cosine
COSINE = Zoo(
    wrong=[
        (lambda query, keys: keys @ query, "plain dot product"),
        (lambda query, keys: keys @ query / query.norm(), "keys' lengths still count"),
        (lambda query, keys: keys @ query / keys.norm(dim=1), "query's still counts"),
        (lambda query, keys: keys @ query / (keys.norm() * query.norm()), "whole key table"),
        (lambda query, keys: keys @ query / ((keys**2).sum(1) * (query**2).sum()), "root is missing"),
        (lambda query, keys: keys @ query / ((keys**2).sum(1) + (query**2).sum()).sqrt(), "one root"),
        (lambda query, keys: 1 - F.cosine_similarity(keys, query[None], dim=1), "distance"),
        (lambda query, keys: (keys / keys.norm(dim=0)) @ query / query.norm(), "each column"),
        (lambda query, keys: query @ keys / (keys.norm(dim=1) * query.norm()), "through the columns"),
        (lambda query, keys: F.cosine_similarity(keys, query[None], dim=1).abs(), "sign was lost"),
        (lambda query, keys: [F.cosine_similarity(key, query, dim=0).item() for key in keys], "list"),
        (lambda query, keys: F.cosine_similarity(keys, query[None], dim=1)[:, None], "shape"),
        (lambda query, keys: F.cosine_similarity(keys, query[None], dim=1).squeeze(), "missing"),
        (lambda query, keys: keys @ query / (keys.norm(dim=1) * query.norm()).detach(), "gradient"),
    ],
    right=[
        lambda query, keys: F.cosine_similarity(keys, query[None], dim=1),
        lambda query, keys: F.normalize(keys, dim=1) @ F.normalize(query, dim=0),
        lambda query, keys: torch.stack([key @ query / (key @ key).sqrt() / (query @ query).sqrt() for key in keys]),
        lambda query, keys: F.cosine_similarity(keys.double(), query.double()[None], dim=1).float(),
    ],
)


# 1.4 soft lookup
def lookup_by_loops(query, keys, values):
    scores = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
    powers = [torch.exp(score - max(scores)) for score in scores]
    weights = torch.stack([power / sum(powers) for power in powers])
    return sum(weight * value for weight, value in zip(weights, values, strict=True)), weights


def lookup_overflowing(query, keys, values):
    powers = torch.exp(keys @ query)
    weights = powers / powers.sum()
    return weights @ values, weights


def lookup_hard(query, keys, values):
    best = (keys @ query).argmax()
    return values[best], F.one_hot(best, len(keys)).float()


LOOKUP = Zoo(
    wrong=[
        (lambda q, k, v: (F.softmax(k @ q, 0) @ k, F.softmax(k @ q, 0)), "keys were mixed"),
        (lambda q, k, v: (k @ q @ v, k @ q), "raw scores"),
        (lookup_hard, "hard lookup"),
        (lambda q, k, v: (F.softmax(q @ k, 0) @ v, F.softmax(q @ k, 0)), "adds up over the keys"),
        (lambda q, k, v: ((F.softmax(k @ q, 0) * v).sum(0), F.softmax(k @ q, 0)), "wrong axis of `values`"),
        (lambda q, k, v: (v.mean(0), torch.full((len(k),), 1 / len(k))), "same weight"),
        (
            lambda q, k, v: (F.softmax(k @ q / math.sqrt(len(q)), 0) @ v, F.softmax(k @ q / math.sqrt(len(q)), 0)),
            "square root",
        ),
        (
            lambda q, k, v: (
                F.softmax(F.cosine_similarity(k, q[None], dim=1), 0) @ v,
                F.softmax(F.cosine_similarity(k, q[None], dim=1), 0),
            ),
            "cosine scores",
        ),
        (lambda q, k, v: (F.softmax(k @ q, 0), F.softmax(k @ q, 0) @ v), "swapped"),
        (lambda q, k, v: F.softmax(k @ q, 0) @ v, "Only the output"),
        (lambda q, k, v: (F.softmax(k @ q, 0)[:, None] * v, F.softmax(k @ q, 0)), "shape"),
        (
            lambda q, k, v: ((F.softmax(k @ q, 0) @ v).detach(), F.softmax(k @ q, 0)),
            "gradient flows back from `output`",
        ),
        (lookup_overflowing, "overflow"),
        (lambda q, k, v: (F.softmax(k @ q.detach(), 0) @ v, F.softmax(k @ q.detach(), 0)), "gradient reaches `query`"),
        (lambda q, k, v: (F.softmax(-k @ q, 0) @ v, F.softmax(-k @ q, 0)), "worst match"),
    ],
    right=[
        lookup_by_loops,
        lambda q, k, v: (torch.einsum("n,ne->e", F.softmax(k @ q, 0), v), F.softmax(torch.mv(k, q), 0)),
        lambda q, k, v: ((F.softmax(k @ q, 0)[:, None] * v).sum(0), F.softmax((k * q).sum(1), 0)),
        lambda q, k, v: [F.softmax(k @ q, 0) @ v, F.softmax(k @ q, 0)],
    ],
)


# 1.5 attend
def attend_filling(number):
    def answer(scores, value, mask=None):
        if mask is not None:
            scores = scores.masked_fill(~mask, number)
        weights = F.softmax(scores, -1)
        return weights @ value, weights

    return answer


def attend_hiding_nan(scores, value, mask=None):
    output, weights = attend_filling(-INFINITY)(scores, value, mask)
    return torch.nan_to_num(output), torch.nan_to_num(weights)


def attend_guarded_filling(number):
    def answer(scores, value, mask=None):
        if mask is None:
            return attend_filling(number)(scores, value)
        weights = F.softmax(scores.masked_fill(~mask, number), -1).masked_fill(~mask, 0.0)
        return weights @ value, weights

    return answer


def attend_guarding_tables_only(scores, value, mask=None):
    output, weights = attend_right(scores, value, mask)
    if mask is None or mask.ndim == 2:
        return output, weights
    return attend_filling(-INFINITY)(scores, value, mask)


def attend_taking_no_view_for_all(scores, value, mask=None):
    return attend_right(scores, value, mask if mask is not None and mask.any() else None)


def attend_overflowing(scores, value, mask=None):
    powers = torch.exp(scores) if mask is None else torch.exp(scores) * mask
    weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-20)
    return weights @ value, weights


def attend_overflowing_after_the_mask(scores, value, mask=None):
    powers = torch.exp(scores if mask is None else scores.masked_fill(~mask, -INFINITY))
    weights = powers / powers.sum(-1, keepdim=True)
    return weights @ value, weights


def attend_dividing_again(smallest):
    def answer(scores, value, mask=None):
        weights = F.softmax(scores, -1)
        if mask is not None:
            weights = weights * mask
            weights = weights / (weights.sum(-1, keepdim=True) + smallest)
        return weights @ value, weights

    return answer


def attend_transposing_square_masks(scores, value, mask=None):
    square = mask is not None and mask.shape[-1] == mask.shape[-2]
    return attend_right(scores, value, mask.mT if square else mask)


def attend_squeezing(scores, value, mask=None):
    output, weights = attend_right(scores, value, mask)
    return output.squeeze(), weights


def attend_by_index(scores, value, mask=None):
    scores = scores.clone()
    if mask is not None:
        scores[~mask] = -INFINITY
    weights = F.softmax(scores, -1)
    return weights @ value, weights


def attend_upside_down(scores, value, mask=None):
    return attend_filling(-INFINITY)(scores, value, None if mask is None else ~mask)


def attend_upside_down_without_nan(scores, value, mask=None):
    return attend_multiplying_powers(scores, value, None if mask is None else ~mask)


def attend_cutting_after(scores, value, mask=None):
    weights = F.softmax(scores, -1)
    weights = weights if mask is None else weights * mask
    return weights @ value, weights


def attend_zero_scores(scores, value, mask=None):
    return attend_filling(0.0)(scores, value, mask)


def attend_weights_before_the_mask(scores, value, mask=None):
    return attend_right(scores, value, mask)[0], F.softmax(scores, -1)


def attend_right(scores, value, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    mask = mask.expand_as(scores)
    safe = torch.where(mask, scores, torch.full_like(scores, -1e30))
    weights = F.softmax(safe, -1) * mask
    return weights @ value, weights


def attend_multiplying_powers(scores, value, mask=None):
    visible = scores if mask is None else scores.masked_fill(~mask, -1e30)
    powers = torch.exp(visible - visible.amax(-1, keepdim=True))
    powers = powers if mask is None else powers * mask
    weights = powers / powers.sum(-1, keepdim=True).clamp_min(1e-30)
    return torch.einsum("...mn,...ne->...me", weights, value), weights


def attend_in_place(scores, value, mask=None):
    if mask is not None:
        nowhere = ~mask.any(-1, keepdim=True)
        with torch.no_grad():
            scores.masked_fill_(~(mask | nowhere), -INFINITY)
        weights = F.softmax(scores, -1).masked_fill(nowhere, 0.0)
    else:
        weights = F.softmax(scores, -1)
    return weights @ value, weights


def attend_by_loops(scores, value, mask=None):
    *lead, m, n = scores.shape
    mask = torch.ones(m, n, dtype=torch.bool) if mask is None else mask
    may_look = mask.expand(*lead, m, n).reshape(-1, n)
    rows = [row_by_loop(*pair) for pair in zip(scores.reshape(-1, n), may_look, strict=True)]
    weights = torch.stack(rows).reshape(scores.shape)
    return weights @ value, weights


def row_by_loop(row, may_look):
    if not may_look.any():
        return torch.zeros_like(row)
    top = max(number for number, may in zip(row, may_look, strict=True) if may)
    powers = [torch.exp(number - top) if may else 0 * top for number, may in zip(row, may_look, strict=True)]
    return torch.stack(powers) / sum(powers)


def attend_in_double(scores, value, mask=None):
    return tuple(part.float() for part in attend_right(scores.double(), value.double(), mask))


def attend_filled_and_cut(scores, value, mask=None):
    return attend_guarded_filling(torch.finfo(scores.dtype).min)(scores, value, mask)


def attend_asking_the_mask(scores, value, mask=None):
    if mask:
        scores = scores.masked_fill(~mask, -INFINITY)
    return attend_right(scores, value)


def attend_adding_mask_times_infinity(side):
    def answer(scores, value, mask=None):
        if mask is not None:
            scores = scores + side(mask) * -INFINITY
        weights = torch.softmax(scores, dim=-1)
        return weights @ value, weights

    return answer


ATTEND = Zoo(
    wrong=[
        (attend_filling(-INFINITY), "not-a-number"),
        (attend_filling(-1e9), "looked everywhere"),
        (attend_hiding_nan, "gradient"),
        (lambda scores, value, mask=None: (F.softmax(scores, -1) @ value, F.softmax(scores, -1)), "no effect"),
        (attend_upside_down, "upside down"),
        (attend_asking_the_mask, "if mask is not None"),
        (attend_adding_mask_times_infinity(lambda mask: mask), "a mask times minus infinity"),
        (attend_adding_mask_times_infinity(lambda mask: ~mask), "a mask times minus infinity"),
        (attend_upside_down_without_nan, "upside down"),
        (attend_cutting_after, "less than 1"),
        (attend_zero_scores, "exp(0) = 1"),
        (lambda scores, value, mask=None: (F.softmax(scores, -2) @ value, F.softmax(scores, -2)), "over the queries"),
        (attend_weights_before_the_mask, "not the ones that were used"),
        (
            lambda scores, value, mask=None: (attend_right(scores, value, mask)[0], scores),
            "second result is the scores",
        ),
        (lambda scores, value, mask=None: attend_right(scores, value, mask)[0], "tuple"),
        (attend_in_place, "in place"),
        (attend_filling(-100.0), "real scores can go below"),
        (attend_guarded_filling(-20.0), "real scores can go below"),
        (attend_guarding_tables_only, "two rows may look nowhere"),
        (attend_taking_no_view_for_all, "nobody may look anywhere"),
        (attend_overflowing, "overflow"),
        (attend_overflowing_after_the_mask, "overflow"),
        (attend_dividing_again(1e-9), "behind the mask still matters"),
        (attend_dividing_again(0.0), "divided by what was left"),
        (attend_transposing_square_masks, "a square table with a mask"),
        (attend_squeezing, "`output` has shape"),
        (attend_by_index, "IndexError"),
        (
            lambda scores, value, mask=None: attend_right(scores.detach(), value, mask),
            "gradient flows back from `weights`",
        ),
        (lambda scores, value: (F.softmax(scores, -1) @ value, F.softmax(scores, -1)), "argument"),
    ],
    right=[attend_right, attend_multiplying_powers, attend_by_loops, attend_in_double, attend_filled_and_cut],
)


# 1.6 attention
def attention_by(score):
    def answer(query, key, value, mask=None, scale=None):
        return attend_right(score(query, key, value, scale), value, mask)

    return answer


def given(scale, otherwise):
    return otherwise if scale is None else scale


def attention_by_einsum(query, key, value, mask=None, scale=None):
    scores = torch.einsum("...md,...nd->...mn", query, key) * given(scale, 1 / math.sqrt(key.shape[-1]))
    return attend_multiplying_powers(scores, value, mask)


def attention_scaling_the_query(query, key, value, mask=None, scale=None):
    if scale is None:
        scale = 1 / query.shape[-1] ** 0.5
    _, weights = attend_right((query * scale) @ key.mT, value, mask)
    return F.scaled_dot_product_attention(query, key, value, mask, scale=scale), weights


def attention_by_broadcasting(query, key, value, mask=None, scale=None):
    scores = (query.unsqueeze(-2) * key.unsqueeze(-3)).sum(-1)
    return attend_by_loops(scores * given(scale, query.shape[-1] ** -0.5), value, mask)


def attention_in_double(query, key, value, mask=None, scale=None):
    found = attention_by_einsum(query.double(), key.double(), value.double(), mask, scale)
    return tuple(part.float() for part in found)


def attention_without_guard(query, key, value, mask=None, scale=None):
    scores = query @ key.mT * given(scale, query.size(-1) ** -0.5)
    return attend_filling(-INFINITY)(scores, value, mask)


ATTENTION = Zoo(
    wrong=[
        (attention_by(lambda q, k, v, s: q @ k.mT * given(s, 1.0)), "taken as 1"),
        (attention_by(lambda q, k, v, s: q @ k.mT / math.sqrt(q.size(-1))), "always one over the square root"),
        (attention_by(lambda q, k, v, s: q @ k.mT), "no effect"),
        (attention_by(lambda q, k, v, s: q @ k.mT / given(s, math.sqrt(q.size(-1)))), "divided by `scale`"),
        (attention_by(lambda q, k, v, s: q @ k.mT * given(s, v.size(-1) ** -0.5)), "width of the values"),
        (attention_by(lambda q, k, v, s: q @ k.mT * given(s, k.size(-2) ** -0.5)), "number of keys"),
        (attention_by(lambda q, k, v, s: q @ k.mT * given(s, 1 / q.size(-1))), "root is missing"),
        (attention_by(lambda q, k, v, s: q @ k.mT * given(s, q.size(-1) ** 0.5)), "multiplied by the square root"),
        (lambda q, k, v, mask=None, scale=None: attention_by_einsum(q, k, v, None, scale), "pass it on"),
        (attention_by(lambda q, k, v, s: q @ k.T * given(s, q.size(-1) ** -0.5)), "last two may swap"),
        (attention_by(lambda q, k, v, s: q @ k * given(s, q.size(-1) ** -0.5)), "does not compare"),
        (lambda q, k, v, mask=None, scale=None: F.scaled_dot_product_attention(q, k, v, mask, scale=scale), "tuple"),
        (lambda q, k, v, mask=None, scale=1.0: attention_by_einsum(q, k, v, mask, scale), "taken as 1"),
        (attention_by(lambda q, k, v, s: q @ k.mT * (s or q.size(-1) ** -0.5)), "0 counts as false"),
        (attention_by(lambda q, k, v, s: q @ k.mT * given(s, 1.0) / q.size(-1) ** 0.5), "takes its place"),
        (attention_without_guard, "`attend` takes care"),
        (attention_by(lambda q, k, v, s: k @ q.mT * given(s, q.size(-1) ** -0.5)), "a row per key"),
        (lambda q, k, v, mask=None, scale=None: attention_by_einsum(q, k, k, mask, scale), "`output` has shape"),
    ],
    right=[attention_by_einsum, attention_scaling_the_query, attention_by_broadcasting, attention_in_double],
)


# 1.7 kernel regression
def regression_by(score):
    def answer(x_query, x, y, bandwidth, mask=None):
        output, weights = attend_right(score(x_query.reshape(-1, 1) - x, bandwidth), y.reshape(-1, 1), mask)
        return output.reshape(-1), weights

    return answer


def regression_underflowing(x_query, x, y, bandwidth, mask=None):
    kernel = torch.exp(-((x_query[:, None] - x) ** 2) / (2 * bandwidth**2))
    kernel = kernel if mask is None else kernel * mask
    return (kernel * y).sum(1) / kernel.sum(1), kernel / kernel.sum(1, keepdim=True)


def regression_by_kernel(x_query, x, y, bandwidth, mask=None):
    powers = torch.exp(-((x_query[:, None] - x).double() ** 2) / (2 * bandwidth**2))
    powers = powers if mask is None else powers * mask
    weights = powers / powers.sum(1, keepdim=True)
    return (weights @ y.double()).float(), weights.float()


def regression_by_distances(x_query, x, y, bandwidth, mask=None):
    gap = torch.stack([number - x for number in x_query])
    weights = attend_multiplying_powers(-((gap / bandwidth) ** 2) / 2, y[:, None], mask)[1]
    return torch.einsum("mn,n->m", weights, y), weights


REGRESSION = Zoo(
    wrong=[
        (regression_by(lambda gap, h: gap**2 / (2 * h**2)), "minus sign"),
        (regression_by(lambda gap, h: -(gap**2) / (2 * h)), "not squared"),
        (regression_by(lambda gap, h: -(gap**2) / h**2), "factor 1/2"),
        (regression_by(lambda gap, h: -abs(gap) / h), "Gaussian is asked for"),
        (regression_by(lambda gap, h: -((gap * h) ** 2) / 2), "multiplied by the bandwidth"),
        (regression_by(lambda gap, h: -(gap**2) / 2), "no effect"),
        (regression_by(lambda gap, h: torch.exp(-(gap**2) / (2 * h**2))), "taken twice"),
        (lambda xq, x, y, h, mask=None: regression_by_kernel(xq, x, y, h), "pass it on"),
        (
            lambda xq, x, y, h, mask=None: (
                regression_by_kernel(xq, x, y, h, mask)[0].reshape(-1, 1),
                regression_by_kernel(xq, x, y, h, mask)[1],
            ),
            "column",
        ),
        (lambda xq, x, y, h, mask=None: regression_by_kernel(xq, x, y, h, mask)[0], "tuple"),
        (
            lambda xq, x, y, h, mask=None: (
                regression_by_kernel(xq, x, y, h, mask)[0].squeeze(),
                regression_by_kernel(xq, x, y, h, mask)[1],
            ),
            "Asked one question",
        ),
        (regression_underflowing, "all kernels are 0"),
        (
            lambda xq, x, y, h, mask=None: regression_by_kernel(xq, x, y, h, None if mask is None else mask.T),
            "mask was transposed",
        ),
        (
            lambda xq, x, y, h, mask=None: regression_by_kernel(xq, x, y, float(h), mask),
            "gradient reaches `bandwidth`",
        ),
        (lambda xq, x, y, h, mask=None: regression_by_kernel(xq, x, y, float(h), mask)[::-1], "shape"),
    ],
    right=[
        regression_by(lambda gap, h: -0.5 * (gap / h) ** 2),
        regression_by_kernel,
        regression_by(lambda gap, h: -0.5 * gap * gap / (h * h) + 7.0),
        regression_by_distances,
    ],
)

ZOO = {
    "1.1": SOFTMAX,
    "1.2": JACOBIAN,
    "1.3": COSINE,
    "1.4": LOOKUP,
    "1.5": ATTEND,
    "1.6": ATTENTION,
    "1.7": REGRESSION,
}

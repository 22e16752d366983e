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
        (lambda z, temperature=1.0: F.softmax(z / temperature, -1).detach(), "gradient"),
        (softmax_no_keepdim, "keepdim"),
        (softmax_clamped, "expected"),
        (softmax_in_place, "in place"),
        (softmax_by_numpy, "NumPy"),
        (lambda z, temperature=1.0: F.softmax(z / temperature, -1).tolist(), "list"),
        (lambda z: F.softmax(z, -1), "argument"),
        (lambda z, temperature=1.0: None, "returned nothing"),
        (lambda z, temperature=1.0: print(F.softmax(z / temperature, -1)), "returned nothing"),
    ],
    right=[
        lambda z, temperature=1.0: F.softmax(z / temperature, -1),
        lambda z, temperature=1.0: F.softmax(z.double() / temperature, -1),
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
        (lambda query, keys: query @ keys / (keys.norm(dim=1) * query.norm()), "shape"),
        (lambda query, keys: F.cosine_similarity(keys, query[None], dim=1).abs(), "expected"),
        (lambda query, keys: [F.cosine_similarity(key, query, dim=0).item() for key in keys], "list"),
        (lambda query, keys: F.cosine_similarity(keys, query[None], dim=1)[:, None], "shape"),
    ],
    right=[
        lambda query, keys: F.cosine_similarity(keys, query[None], dim=1),
        lambda query, keys: F.normalize(keys, dim=1) @ F.normalize(query, dim=0),
        lambda query, keys: torch.stack([key @ query / (key @ key).sqrt() / (query @ query).sqrt() for key in keys]),
        lambda query, keys: F.cosine_similarity(keys.double(), query.double()[None], dim=1),
    ],
)


# 1.4 soft lookup
def lookup_by_loops(query, keys, values):
    powers = [torch.exp(sum(a * b for a, b in zip(query, key, strict=True))) for key in keys]
    weights = torch.stack([power / sum(powers) for power in powers])
    return sum(weight * value for weight, value in zip(weights, values, strict=True)), weights


def lookup_hard(query, keys, values):
    best = (keys @ query).argmax()
    return values[best], F.one_hot(best, len(keys)).float()


LOOKUP = Zoo(
    wrong=[
        (lambda q, k, v: (F.softmax(k @ q, 0) @ k, F.softmax(k @ q, 0)), "keys were mixed"),
        (lambda q, k, v: (k @ q @ v, k @ q), "raw scores"),
        (lookup_hard, "hard lookup"),
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
        (lambda q, k, v: (F.softmax(q @ k, 0) @ v, F.softmax(q @ k, 0)), "size"),
        (lambda q, k, v: ((F.softmax(k @ q, 0) @ v).detach(), F.softmax(k @ q, 0)), "gradient"),
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
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
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


ATTEND = Zoo(
    wrong=[
        (attend_filling(-INFINITY), "not-a-number"),
        (attend_filling(-1e9), "looked everywhere"),
        (attend_hiding_nan, "gradient"),
        (lambda scores, value, mask=None: (F.softmax(scores, -1) @ value, F.softmax(scores, -1)), "no effect"),
        (attend_upside_down, "upside down"),
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
        (lambda scores, value: (F.softmax(scores, -1) @ value, F.softmax(scores, -1)), "argument"),
    ],
    right=[attend_right, attend_multiplying_powers],
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
        (attention_by(lambda q, k, v, s: q @ k * given(s, q.size(-1) ** -0.5)), "size"),
        (lambda q, k, v, mask=None, scale=None: F.scaled_dot_product_attention(q, k, v, mask, scale=scale), "tuple"),
        (lambda q, k, v, mask=None, scale=1.0: attention_by_einsum(q, k, v, mask, scale), "taken as 1"),
    ],
    right=[attention_by_einsum, attention_scaling_the_query],
)


# 1.7 kernel regression
def regression_by(score):
    def answer(x_query, x, y, bandwidth, mask=None):
        output, weights = attend_right(score(x_query.reshape(-1, 1) - x, bandwidth), y.reshape(-1, 1), mask)
        return output.reshape(-1), weights

    return answer


def regression_by_kernel(x_query, x, y, bandwidth, mask=None):
    powers = torch.exp(-((x_query[:, None] - x) ** 2) / (2 * bandwidth**2)).double()
    powers = powers if mask is None else powers * mask
    weights = powers / powers.sum(1, keepdim=True)
    return weights @ y.double(), weights


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
        (lambda xq, x, y, h, mask=None: regression_by_kernel(xq, x, y, float(h), mask)[::-1], "shape"),
    ],
    right=[
        regression_by(lambda gap, h: -0.5 * (gap / h) ** 2),
        regression_by_kernel,
        regression_by(lambda gap, h: -0.5 * gap * gap / (h * h) + 7.0),
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

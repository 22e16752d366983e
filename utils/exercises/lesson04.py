"""Lesson 04: its exercises with the mistakes that people make in them, and its guess-first questions."""

import inspect

import torch
import torch.nn.functional as F
from torch import nn

from utils.course.checks import Case, Wrong, a_thing
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.exercises.common import (
    HIDES,
    WRONG_MASKS,
    masked_by,
    masked_with,
    normal,
    nowhere_somewhere,
    some_looks,
)
from utils.exercises.edits import mistake
from utils.models.attention import attend, attention
from utils.models.one_self_attention import (
    SelfAttention,
    causal_mask,
    padding_mask,
    shift_rotation,
    sinusoidal_positions,
)
from utils.models.self_attention import FeedForward


# ---------------------------------------------------------------------------------------------- 4.1 by loops
def all_projected(X, W_Q, W_K, W_V):
    return X @ W_Q, X @ W_K, X @ W_V


def turned_row_by_row(X, W_Q, W_K, W_V):
    """The wrong product of one token at a time: where it cannot be done, the error names other shapes than that of all."""
    return tuple(torch.stack([x @ W.T for x in X]) for W in (W_Q, W_K, W_V))


def match(query, key):
    return query @ key.transpose(-2, -1)


def attention_with(
    project=all_projected,
    score=match,
    scale=lambda X, W_Q, W_V: W_Q.size(-1) ** -0.5,
    look=attend,
    results=lambda output, weights, value: (output, weights),
):
    """Self-attention as the reference does it, with parts that can be replaced by wrong ones."""

    def wrong(X, W_Q, W_K, W_V, mask=None):
        query, key, value = project(X, W_Q, W_K, W_V)
        output, weights = look(score(query, key) * scale(X, W_Q, W_V), value, mask)
        return results(output, weights, value)

    return wrong


def looks_by(weigh):
    """A look with weights of its own: weigh(scores)."""

    def look(scores, value, mask=None):
        weights = weigh(scores)
        return weights @ value, weights

    return look


def scaled_late(X, W_Q, W_K, W_V):
    weights = match(X @ W_Q, X @ W_K).softmax(-1) * W_Q.size(-1) ** -0.5
    return weights @ (X @ W_V), weights


def plain_exponentials(scores):
    powers = scores.exp()
    return powers / powers.sum(-1, keepdim=True)


def loop_cases(generator):
    def one(n, d, d_k, e, note=""):
        sizes = (n, d), (d, d_k), (d, d_k), (d, e)
        return Case(tuple(normal(generator, *size) for size in sizes), note=note)

    # Whole numbers: these large scores come out the same in whatever order they are added up.
    tall = torch.tensor([[14.0, 0, 1], [0, 15, 2], [-13, 2, 0], [1, -12, 3]])
    large = Case((tall, torch.eye(3, 2), torch.eye(3, 2), normal(generator, 3, 5)), note="large scores")
    return [
        one(4, 3, 2, 5),
        one(3, 5, 4, 2),
        one(5, 2, 6, 3),
        one(1, 4, 3, 2, note="one token"),
        one(3, 3, 3, 3, note="all sizes equal"),
        large,
    ]


SCALES = [
    mistake(
        attention_with(scale=lambda X, W_Q, W_V: 1.0),
        "The scale is missing: divide the scores by the root of d_k, the width of queries and keys, before the softmax.",
    ),
    mistake(
        attention_with(scale=lambda X, W_Q, W_V: X.size(-1) ** -0.5),
        "The scores were divided by the root of the width of X. What counts is how many products each score adds up: "
        "d_k, the width of queries and keys, `W_Q.size(1)`.",
    ),
    mistake(
        attention_with(scale=lambda X, W_Q, W_V: 1 / W_Q.size(-1)),
        "The scores were divided by d_k, which is the root twice over: divide by the square root of d_k, once. `attention` does "
        "it by itself.",
    ),
    mistake(
        attention_with(scale=lambda X, W_Q, W_V: W_V.size(-1) ** -0.5),
        "The scores were divided by the root of the values' width: values take no part in a score. Take d_k, the width of queries and keys.",
    ),
    mistake(
        attention_with(scale=lambda X, W_Q, W_V: X.size(-2) ** -0.5),
        "The scores were divided by the root of the number of tokens: it is d_k, the width of queries and keys, that makes them large.",
    ),
    mistake(
        attention_with(scale=lambda X, W_Q, W_V: W_Q.size(-1) ** 0.5),
        "The scores were multiplied by the root: divide by it.",
    ),
]

TURNED = "The matrices are turned: tokens are rows here, so it is `X @ W_Q`, without `.T`."
PROJECTIONS = [
    mistake(
        attention_with(score=lambda query, key: match(key, query)),
        "Queries and keys are swapped: row i holds the scores of the query of token i with every key.",
    ),
    mistake(
        attention_with(project=lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_K, X)),
        "The values are the tokens themselves: mix `X @ W_V`.",
    ),
    mistake(
        attention_with(project=lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_K, X @ W_K)),
        "The keys were mixed: keys are for being found, what is mixed are the values, `X @ W_V`.",
    ),
    mistake(
        attention_with(project=lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_Q, X @ W_V)),
        "The keys were made with W_Q: a token asks with `X @ W_Q` and is found by `X @ W_K`.",
    ),
    mistake(
        attention_with(project=lambda X, W_Q, W_K, W_V: (X, X, X @ W_V), scale=lambda X, W_Q, W_V: X.size(-1) ** -0.5),
        "The tokens themselves were compared: compare `X @ W_Q` with `X @ W_K`.",
    ),
    mistake(
        attention_with(project=lambda X, W_Q, W_K, W_V: (X @ W_Q, X, X @ W_V)),
        "Queries were compared with the tokens themselves: the keys are `X @ W_K`.",
    ),
    mistake(
        attention_with(project=lambda X, W_Q, W_K, W_V: (X @ W_Q.T, X @ W_K.T, X @ W_V.T)),
        TURNED,
    ),
    mistake(
        attention_with(project=lambda X, W_Q, W_K, W_V: (W_Q @ X, W_K @ X, W_V @ X)),
        "The matrices stand at the left, as where tokens are columns: here tokens are rows, so it is `X @ W_Q`.",
    ),
]

WEIGHTS = [
    mistake(
        attention_with(look=looks_by(lambda scores: scores.softmax(-2))),
        "The columns add up to 1, not the rows: the softmax ran over the queries. Each token shares out its own weight 1 "
        "over the keys.",
    ),
    mistake(
        attention_with(look=looks_by(lambda scores: scores)),
        "The softmax is missing: the weights are the scores themselves.",
    ),
    mistake(
        attention_with(look=looks_by(torch.sigmoid)),
        "That is the sigmoid, which looks at each score alone: a softmax shares out 1 over the whole row.",
    ),
    mistake(
        attention_with(look=looks_by(lambda scores: scores / scores.sum(-1, keepdim=True))),
        "The scores were divided by their sum: take their exponentials first, or weights can be negative. `softmax` does both.",
    ),
    mistake(
        attention_with(look=looks_by(plain_exponentials)),
        "Large scores overflow: exp(100) is too large for a float. Use `softmax`, or subtract the largest score of the row "
        "first.",
    ),
    mistake(
        attention_with(look=looks_by(lambda scores: scores.softmax(-1).softmax(-1))),
        "The softmax was taken twice: once is enough, and the second makes all weights nearly equal.",
    ),
    mistake(
        attention_with(results=lambda output, weights, value: (output + value, weights)),
        "The token's own value was added to what was found: the output is the weighted sum alone.",
    ),
    mistake(
        attention_with(results=lambda output, weights, value: (weights, output)),
        "The two results are swapped: the output comes first, then the weights.",
    ),
    mistake(
        attention_with(results=lambda output, weights, value: (output, weights.transpose(-2, -1))),
        "The weights are turned: row i holds what token i looks at.",
    ),
    mistake(
        attention_with(results=lambda output, weights, value: (weights.transpose(-2, -1) @ value, weights)),
        "The output was mixed with the columns of the weights: output i takes row i.",
    ),
]

register(
    Exercise(
        id="4.1",
        cases=loop_cases,
        output_names=("output", "weights"),
        mistakes=[
            *SCALES,
            *PROJECTIONS,
            mistake(attention_with(project=turned_row_by_row), TURNED),
            *WEIGHTS,
            mistake(
                attention_with(look=lambda scores, value, mask: (scores.softmax(-1) @ value, scores)),
                "The second result are the scores: return the weights, those behind the softmax.",
            ),
            mistake(
                scaled_late,
                "The root came after the softmax, so the weights of a row do not add up to 1: divide the scores, then take the "
                "softmax.",
            ),
            mistake(
                attention_with(results=lambda output, weights, value: (weights[:, -1:] * value[-1], weights)),
                "Only the last value is in the output: add up over all tokens, each step of the inner loop adds one.",
            ),
            mistake(
                attention_with(results=lambda output, weights, value: (output.cumsum(0), weights)),
                "Each output holds those before it as well: begin at zero for every token that asks.",
            ),
            mistake(
                attention_with(results=lambda output, weights, value: (output / len(value), weights)),
                "That is the mean of the weighted values: the weights add up to 1 already, so take the sum.",
            ),
            mistake(
                attention_with(
                    look=lambda scores, value, mask: attend(
                        scores, value, ~torch.eye(scores.size(-1), dtype=torch.bool) if len(scores) > 1 else None
                    )
                ),
                "No token looks at itself: it may, let the inner loop run over all tokens.",
            ),
            mistake(
                attention_with(look=lambda scores, value, mask: attend(scores, value, causal_mask(len(value)))),
                "Tokens look back only: here every token looks at all of them. (The causal mask comes later.)",
            ),
        ],
        hints=[
            "`X @ W_Q`, `X @ W_K` and `X @ W_V` hold the queries, keys and values, a row for each token. W_Q and W_K are (d, d_k).",
            "For one query: its dot products with all keys, divided by the root of d_k, its width, then `softmax` over them.",
            "The output of that token is the sum of weight times value. Collect both in lists and `torch.stack` them.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.2 by matrices
def matrix_cases(generator):
    def one(b, n, d, d_k, e, mask=None, note="", by_name=False):
        sizes = (n, d) if b is None else (b, n, d), (d, d_k), (d, d_k), (d, e)
        args = tuple(normal(generator, *size) for size in sizes)
        if mask is None:
            return Case(args, note=note)
        return Case(args, {"mask": mask}, note) if by_name else Case((*args, mask), note=note)

    words = torch.arange(4) < torch.tensor([[3], [1], [4]])
    return [
        one(2, 4, 3, 5, 6, note="no mask"),
        one(3, 5, 4, 2, 3, nowhere_somewhere(generator, 3, 5), note="one token may look nowhere"),
        one(2, 4, 6, 3, 5, some_looks(generator, 4, 4), note="one mask for all sentences"),
        one(3, 4, 2, 6, 5, words.unsqueeze(1), note="a mask (b, 1, n)", by_name=True),
        one(2, 1, 4, 3, 2, note="one token"),
        one(1, 3, 5, 4, 2, note="one sentence"),
        one(None, 4, 3, 2, 5, note="one sentence without a batch axis"),
        one(None, 5, 2, 3, 4, some_looks(generator, 5, 5), note="one sentence without a batch axis, and a mask"),
        one(3, 3, 3, 3, 3, note="all sizes equal"),
    ]


def turned_round(scores, value, mask=None):
    return attend(scores, value, None if mask is None else ~mask)


def hidden_where_true(scores, value, mask=None):
    weights = scores.softmax(-1) if mask is None else scores.masked_fill(mask, float("-inf")).softmax(-1)
    return weights @ value, weights


MASKS = [
    (
        lambda scores, value, mask=None: attend(scores, value),
        "The mask has no effect: hand it on to `attention`.",
    ),
    (turned_round, HIDES),
    (hidden_where_true, HIDES),
    *WRONG_MASKS,
    (
        masked_with(0.0),
        "Hidden tokens got the score 0, and exp(0) = 1 still weighs: hidden scores are minus infinity. Pass the mask to "
        "`attention`.",
    ),
    (
        masked_by(lambda scores, mask: scores + mask),
        "The mask was added as zeros and ones: pass it to `attention`, which sets hidden scores to minus infinity.",
    ),
    (
        lambda scores, value, mask=None: attend(
            scores, value, None if mask is None else mask.expand(*mask.shape[:-2], *scores.shape[-2:]).transpose(-2, -1)
        ),
        "The mask is turned: its row i belongs to the token that looks, as in the weights.",
    ),
]


def rows_add_up(answer, generator):
    case = matrix_cases(generator)[0]
    _, weights = answer(*case.args)
    if not torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=weights.dtype), atol=1e-4):
        raise Wrong("The weights of a token do not add up to 1: the softmax runs over the keys, the last axis.")


def across_the_batch(X, W_Q, W_K, W_V, mask=None):
    """`.T` turns all axes round: sentence and width change places."""
    key = X @ W_K
    return attend((X @ W_Q) @ key.permute(*reversed(range(key.ndim))) * W_Q.size(-1) ** -0.5, X @ W_V, mask)


def batch_unpacked(X, W_Q, W_K, W_V):
    _, _, _ = X.shape
    return all_projected(X, W_Q, W_K, W_V)


COUNTS_FROM_THE_FRONT = (
    "X may come without a batch axis: count axes from the end, `transpose(-2, -1)` rather than `transpose(1, 2)`, and multiply "
    "with `@` rather than `bmm`."
)
THREE_AXES = [
    mistake(attention_with(score=lambda query, key: query @ key.transpose(1, 2)), COUNTS_FROM_THE_FRONT),
    mistake(attention_with(score=lambda query, key: query @ key.permute(0, 2, 1)), COUNTS_FROM_THE_FRONT),
    mistake(
        attention_with(score=lambda query, key: torch.bmm(query, key.mT)),
        "X may come without a batch axis, and `bmm` wants three axes: `@` multiplies the last two, whatever stands in front.",
    ),
    mistake(
        attention_with(score=lambda query, key: torch.einsum("bnk,bmk->bnm", query, key)),
        "X may come without a batch axis. The equation of `einsum` fixes three axes: dots stand for any in front, "
        '"...nk,...mk->...nm".',
    ),
    mistake(
        attention_with(project=batch_unpacked),
        "X may come without a batch axis, so its shape cannot be unpacked into three: `X.size(-2)` and `X.size(-1)` count from "
        "the end.",
    ),
]


register(
    Exercise(
        id="4.2",
        cases=matrix_cases,
        gradient=True,
        output_names=("output", "weights"),
        properties=[rows_add_up],
        mistakes=[
            *SCALES,
            *PROJECTIONS,
            *(mistake for mistake in WEIGHTS if "overflow" not in mistake.message),
            *(mistake(attention_with(look=look), message) for look, message in MASKS),
            mistake(
                across_the_batch,
                "`.T` turns all three axes of a batch: `transpose(-2, -1)` turns each sentence's keys, and `attention` does it "
                "for you.",
            ),
            *THREE_AXES,
        ],
        hints=[
            "X is (n, d) or (b, n, d): `X @ W_Q` works for both, `@` multiplies the last two axes and leaves those in front alone.",
            "`attention(query, key, value, mask)` divides by the root of d_k, the width of queries and keys, by itself.",
            "It returns output and weights, in this order: hand on what it returns.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.3 sinusoids
def interleaved(sines, cosines):
    return torch.stack([sines, cosines], -1).flatten(1)


def pairs_of(dim):
    """0, 1, 2, ...: the numbers of the pairs."""
    return torch.arange(dim // 2)


def sinusoids_with(
    exponent=lambda i, dim: 2 * i / dim, base=10_000.0, sign=-1, first=0, factor=1.0, arrange=interleaved
):
    """Sinusoids as the reference makes them, with parts that can be replaced by wrong ones."""

    def wrong(length, dim):
        places = torch.arange(first, first + length).unsqueeze(1)
        angles = factor * places * base ** (sign * exponent(pairs_of(dim), dim))
        return arrange(angles.sin(), angles.cos())

    return wrong


def a_frequency_for_each(length, dim):
    angles = torch.arange(length).unsqueeze(1) * 10_000.0 ** (-torch.arange(dim) / dim)
    return torch.where(torch.arange(dim) % 2 == 0, angles.sin(), angles.cos())


ENDS_TOO_EARLY = "The last frequency is exactly 1 / 10,000: the formula divides by dim, not by dim - 2."


# So many positions of so many components: there a base of 10,001 shows, and the rounding of float32 does not yet.
FAR = (160, 16)


def sinusoid_cases(generator):
    notes = {
        (1, 4): "one position",
        (12, 2): "one pair",
        (6, 6): "as many positions as components",
        FAR: "a long text",
    }
    sizes = ((5, 4), (7, 6), (1, 4), (12, 2), (4, 10), (20, 16), (6, 6), FAR)
    return [Case(size, note=notes.get(size, "")) for size in sizes]


def dots_depend_on_the_offset(answer, generator):
    table = answer(9, 8)
    dots = table @ table.T
    if not all(torch.allclose(dots.diagonal(k), dots.diagonal(k)[0], atol=1e-3) for k in range(9)):
        raise Wrong(
            "The dot product of two positions depends on where they stand, not on their distance alone: every sine needs "
            "beside it the cosine of the same angle."
        )


register(
    Exercise(
        id="4.3",
        cases=sinusoid_cases,
        tolerance=1e-3,
        properties=[dots_depend_on_the_offset],
        mistakes=[
            mistake(
                sinusoids_with(first=1),
                "The positions begin at 1: row 0 is position 0, all sines 0 and all cosines 1.",
            ),
            mistake(
                sinusoids_with(arrange=lambda sines, cosines: torch.cat([sines, cosines], -1)),
                "All sines stand in front and all cosines behind: they take turns, sine in component 0, cosine in 1, sine in 2.",
            ),
            mistake(
                sinusoids_with(arrange=lambda sines, cosines: interleaved(cosines, sines)),
                "Sines and cosines are swapped: the sine stands in the even components, the first of them is 0.",
            ),
            mistake(
                sinusoids_with(exponent=lambda i, dim: i / dim),
                "The exponent is half of what it should be: of pair i it is 2 i / dim, so the last pair comes close to 1 / 10,000.",
            ),
            mistake(
                sinusoids_with(exponent=lambda i, dim: 4 * i / dim),
                "The exponent is twice what it should be: `torch.arange(0, dim, 2)` counts in steps of two already.",
            ),
            mistake(sinusoids_with(exponent=lambda i, dim: 2 * i / (dim - 2)), ENDS_TOO_EARLY),  # 0 / 0 for one pair
            mistake(sinusoids_with(exponent=lambda i, dim: 2 * i / max(dim - 2, 1)), ENDS_TOO_EARLY),
            mistake(
                a_frequency_for_each,
                "Sine and cosine of a pair have different frequencies: each pair has one, 10,000 ** (-2 i / dim) for components "
                "2 i and 2 i + 1.",
            ),
            mistake(
                sinusoids_with(sign=1),
                "The frequencies grow: they must fall, from 1 down to almost 1 / 10,000. The exponent is negative (or divide).",
            ),
            mistake(
                sinusoids_with(exponent=lambda i, dim: 2 * i // dim),
                "All pairs turn equally fast: `//` cuts the exponent to 0, divide with `/`.",
            ),
            mistake(
                sinusoids_with(exponent=lambda i, dim: 2.0 * i),
                "The exponent is not divided by dim: 10,000 ** (-2 i / dim) takes the dim steps from 1 to 1 / 10,000 evenly.",
            ),
            mistake(
                sinusoids_with(base=1_000.0),
                "The base is 1,000; it is 10,000.",
            ),
            mistake(
                sinusoids_with(base=100_000.0),
                "The base is 100,000; it is 10,000.",
            ),
            mistake(
                sinusoids_with(base=torch.e),
                "The base is e: with `exp` the exponent needs the logarithm, exp(-log(10,000) · 2 i / dim).",
            ),
            mistake(
                sinusoids_with(factor=2 * torch.pi),
                "The angles carry a factor 2 pi: the formula has none, its periods are 2 pi and longer.",
            ),
            mistake(
                sinusoids_with(arrange=lambda sines, cosines: interleaved(sines, sines)),
                "There are sines only: the odd components are cosines.",
            ),
            mistake(
                sinusoids_with(arrange=lambda sines, cosines: interleaved(sines, cosines).T),
                "The table is turned: a row for each position, (length, dim).",
            ),
            mistake(
                sinusoids_with(arrange=lambda sines, cosines: torch.stack([sines, cosines], -1)),
                "The pairs have an axis of their own: (length, dim) wants them side by side, `flatten(1)`.",
            ),
            mistake(
                sinusoids_with(arrange=lambda sines, cosines: sines + cosines),
                "Sine and cosine were added: they are two components, (length, dim).",
            ),
        ],
        hints=[
            "`torch.arange(0, dim, 2)` is 2 i for all pairs; the frequencies are `10_000 ** (-torch.arange(0, dim, 2) / dim)`.",
            "Angles: every position times every frequency, `torch.arange(length).unsqueeze(1) * frequencies`, (length, dim / 2).",
            "Fill a table of zeros, `table[:, 0::2] = angles.sin()` and `table[:, 1::2] = angles.cos()`; or stack and flatten.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.4 a shift is a rotation
def shift_with(
    angle=lambda k, i, dim: k * 10_000.0 ** (-2 * i / dim),
    turn=lambda c, s: [[c, -s], [s, c]],
    arrange=lambda pair, dim: slice(2 * pair, 2 * pair + 2),
):
    """The shift as the reference makes it, with parts that can be replaced by wrong ones."""

    def wrong(k, dim):
        R = torch.zeros(dim, dim)
        for pair in range(dim // 2):
            where = torch.arange(dim)[arrange(pair, dim)]
            a = torch.tensor(angle(k, pair, dim))
            R[where.unsqueeze(1), where] = torch.tensor(turn(a.cos(), a.sin()))
        return R

    return wrong


def shift_cases(generator):
    notes = {0: "no shift", -2: "a shift back", FAR[0]: "a long shift"}
    sizes = ((1, 4), (3, 6), (0, 4), (-2, 8), (5, 2), (7, 10), FAR)
    return [Case(size, note=notes.get(size[0], "")) for size in sizes]


def it_shifts_every_position(answer, generator):
    table, k, dim = sinusoidal_positions(12, 6), 4, 6
    R = answer(k, dim)
    if R.shape != (dim, dim):
        return
    right = torch.isclose(table[:-k] @ R.to(table.dtype), table[k:], atol=1e-3).all(-1)
    if not right.all():
        place = int((~right).nonzero()[0])
        raise Wrong(
            f"With k = {k} and dim = {dim}, position {place} times R is not position {place + k}: `positions[i] @ R` must be "
            f"`positions[i + {k}]` for every i."
        )


register(
    Exercise(
        id="4.4",
        cases=shift_cases,
        tolerance=1e-3,
        properties=[it_shifts_every_position],
        mistakes=[
            mistake(
                shift_with(turn=lambda c, s: [[c, s], [-s, c]]),
                "It turns the other way, to position i - k: positions are rows, `positions[i] @ R`, so the minus stands above "
                "the diagonal, in [[cos, -sin], [sin, cos]].",
            ),
            mistake(
                shift_with(turn=lambda c, s: [[c, s], [s, c]]),
                "A minus is missing: cos(a + b) = cos a cos b - sin a sin b.",
            ),
            mistake(
                shift_with(turn=lambda c, s: [[c, -s], [-s, c]]),
                "There is a minus too many: sin(a + b) = sin a cos b + cos a sin b.",
            ),
            mistake(
                shift_with(turn=lambda c, s: [[s, -c], [c, s]]),
                "Sine and cosine are swapped in R: without a shift it must be the identity, cosines on the diagonal.",
            ),
            mistake(
                shift_with(turn=lambda c, s: [[s, c], [c, -s]]),
                "Sine and cosine are swapped in R: the cosines belong on the diagonal, then k = 0 gives the identity.",
            ),
            mistake(
                shift_with(angle=lambda k, i, dim: 10_000.0 ** (-2 * i / dim)),
                "k has no effect: each pair turns by k times its frequency.",
            ),
            mistake(
                shift_with(angle=lambda k, i, dim: float(k)),
                "All pairs turn by the same angle: pair i turns by k times its own frequency, 10,000 ** (-2 i / dim).",
            ),
            mistake(
                shift_with(angle=lambda k, i, dim: k * 10_000.0 ** (-i / dim)),
                "The exponent is half of what it should be: the frequency of pair i is 10,000 ** (-2 i / dim).",
            ),
            mistake(
                shift_with(angle=lambda k, i, dim: k * 10_000.0 ** (-4 * i / dim)),
                "The exponent is twice what it should be: if the loop counts components 0, 2, 4, ..., that is 2 i already.",
            ),
            mistake(
                shift_with(angle=lambda k, i, dim: k * 10_000.0 ** (2 * i / dim)),
                "The frequencies grow: they fall, from 1 down to almost 1 / 10,000. The exponent is negative.",
            ),
            mistake(
                shift_with(angle=lambda k, i, dim: abs(k) * 10_000.0 ** (-2 * i / dim)),
                "The sign of k is lost: a negative k shifts back.",
            ),
            mistake(
                shift_with(arrange=lambda pair, dim: slice(pair, None, dim // 2)),
                "R pairs component i with i + dim / 2: here sine and cosine of a pair are neighbours, 2 i and 2 i + 1.",
            ),
            mistake(
                shift_with(turn=lambda c, s: [[c, 0], [0, c]]),
                "There are cosines only: each pair is turned in its plane, by [[cos, -sin], [sin, cos]].",
            ),
            mistake(
                lambda k, dim: torch.eye(dim).roll(k, 1),
                "That moves the components along; what is to move is the position, by turning each pair.",
            ),
            mistake(
                lambda k, dim: torch.eye(dim),
                "That is the identity: it leaves every position where it is.",
            ),
            mistake(
                lambda k, dim: torch.stack(
                    [shift_rotation(k, dim)[i : i + 2, i : i + 2] for i in range(0, dim, 2)],
                ),
                "Those are the small rotations: put them along the diagonal of one matrix (dim, dim), "
                "`torch.block_diag(*rotations)`.",
            ),
        ],
        hints=[
            "sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b - sin a sin b. Which b shifts by k?",
            "A pair is a row [sin a, cos a]; times [[cos b, -sin b], [sin b, cos b]] it is [sin(a + b), cos(a + b)].",
            "Begin with `torch.zeros(dim, dim)` and write such a block at `R[i : i + 2, i : i + 2]` for i = 0, 2, 4, ..., with "
            "b = k * 10_000 ** (-i / dim).",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.5 rotary positions
def turned(first, second, c, s):
    return first * c - second * s, first * s + second * c


def neighbours(x):
    return x[..., 0::2], x[..., 1::2]


def side_by_side(first, second):
    return torch.stack([first, second], -1).flatten(-2)


def one_behind_the_other(first, second):
    return torch.cat([first, second], -1)


def rotate_with(
    frequency=lambda i, dim: 10_000.0 ** (-2 * i / dim),
    places=lambda positions: positions,
    pairs=neighbours,
    turn=turned,
    arrange=side_by_side,
):
    """Rotary positions as the reference makes them, with parts that can be replaced by wrong ones."""

    def wrong(x, positions):
        dim = x.size(-1)
        angles = places(positions).unsqueeze(-1) * frequency(pairs_of(dim), dim)
        return arrange(*turn(*pairs(x), angles.cos(), angles.sin()))

    return wrong


def plus_the_position(x, positions):
    angles = positions.unsqueeze(-1) * 10_000.0 ** (-2 * pairs_of(x.size(-1)) / x.size(-1))
    return x + side_by_side(angles.sin(), angles.cos())


def rotate_cases(generator):
    def one(shape, positions, note=""):
        return Case((normal(generator, *shape), torch.tensor(positions)), note=note)

    return [
        one((2, 3, 4), [0, 1, 2], note="positions 0, 1, 2"),
        one((3, 4, 6), [7, 2, 9, 4], note="positions out of order"),
        one((5, 8), [3, 4, 5, 6, 7], note="one sentence without a batch axis"),
        one((2, 3, 5, 4), [0, 1, 2, 3, 4], note="two axes in front"),
        one((2, 1, 6), [5], note="one token"),
        one((2, 4, 2), [0, 11, 0, 5], note="one pair of components"),
        one((4, 4, 4), [6, 1, 0, 3], note="all sizes equal"),
        one((2, 3, FAR[1]), [FAR[0], FAR[0] // 2, FAR[0] - 1], note="far into a long text"),
    ]


def lengths_stay(answer, generator):
    x = normal(generator, 2, 5, 6)
    result = answer(x, torch.arange(5))
    if not torch.allclose(result.norm(dim=-1).double(), x.norm(dim=-1).double(), rtol=1e-3):
        raise Wrong(
            "The vectors changed their lengths: a rotation keeps them. A pair (a, b) becomes "
            "(a cos - b sin, a sin + b cos), with both numbers from before the turn."
        )


def position_zero_stays(answer, generator):
    x = normal(generator, 2, 3, 6)
    if not torch.allclose(answer(x, torch.zeros(3, dtype=torch.long)).double(), x.double(), atol=1e-4):
        raise Wrong(
            "At position 0 nothing is turned, but the vectors came back changed: does each component keep its place?"
        )


def scores_depend_on_the_offset(answer, generator):
    query, key = normal(generator, 1, 6), normal(generator, 1, 6)

    def score(at, other):
        return (answer(query, torch.tensor([at])) * answer(key, torch.tensor([other]))).sum()

    if not torch.isclose(score(2, 5), score(9, 12), atol=1e-3):
        raise Wrong(
            "The score of a query and a key three places on depends on where they stand: turn each pair by its position times a fixed angle."
        )


register(
    Exercise(
        id="4.5",
        cases=rotate_cases,
        gradient=True,
        tolerance=1e-3,
        properties=[lengths_stay, position_zero_stays, scores_depend_on_the_offset],
        mistakes=[
            mistake(
                rotate_with(turn=lambda first, second, c, s: turned(first, second, c, -s)),
                "It turns the other way: (a, b) becomes (a cos - b sin, a sin + b cos). The pairs of 4.4 were (sine, cosine), which "
                "turn against the usual (a, b): the minus sits elsewhere.",
            ),
            mistake(
                rotate_with(turn=lambda first, second, c, s: (first * c + second * s, first * s + second * c)),
                "A minus is missing: the first of a pair becomes a cos - b sin.",
            ),
            mistake(
                rotate_with(turn=lambda first, second, c, s: (first * c - second * s, first * s - second * c)),
                "That is a mirror image: the second of a pair becomes a sin + b cos.",
            ),
            mistake(
                rotate_with(
                    turn=lambda first, second, c, s: (first * c - second * s, (first * c - second * s) * s + second * c)
                ),
                "The second of a pair was made from the first after its turn: keep both as they were and write the results "
                "somewhere new.",
            ),
            mistake(
                rotate_with(pairs=lambda x: x.chunk(2, -1), arrange=one_behind_the_other),
                "Component i was turned with i + d / 2: here a pair are neighbours, components 0 and 1, 2 and 3. (Some models "
                "do it your way; then queries and keys must be trained so.)",
            ),
            mistake(
                rotate_with(arrange=one_behind_the_other),
                "The components came back in another order: first all even, then all odd ones. Each keeps its place: stack "
                "along a new last axis, then flatten.",
            ),
            mistake(
                rotate_with(pairs=lambda x: x.chunk(2, -1)),
                "The halves of the vector were taken for pairs: `x[..., 0::2]` and `x[..., 1::2]` are the neighbours.",
            ),
            mistake(
                rotate_with(places=lambda positions: torch.arange(len(positions))),
                "`positions` has no effect: token t stands at `positions[t]`, which need not be t.",
            ),
            mistake(
                rotate_with(places=lambda positions: positions + 1),
                "The positions are one too large: at position 0 nothing is turned.",
            ),
            mistake(
                rotate_with(frequency=lambda i, dim: torch.ones(dim // 2)),
                "All pairs turn equally fast: pair i turns by the position times 10,000 ** (-2 i / d).",
            ),
            mistake(
                rotate_with(frequency=lambda i, dim: 10_000.0 ** (-i / dim)),
                "The exponent is half of what it should be: the frequency of pair i is 10,000 ** (-2 i / d).",
            ),
            mistake(
                rotate_with(frequency=lambda i, dim: 10_000.0 ** (-4 * i / dim)),
                "The exponent is twice what it should be: `torch.arange(0, d, 2)` is 2 i already.",
            ),
            mistake(
                rotate_with(frequency=lambda i, dim: 10_000.0 ** (2 * i / dim)),
                "The frequencies grow: they fall, from 1 down to almost 1 / 10,000. The exponent is negative.",
            ),
            mistake(
                rotate_with(frequency=lambda i, dim: torch.exp(-2 * i / dim)),
                "The base is e: with `exp` the exponent needs the logarithm, exp(-log(10,000) · 2 i / d).",
            ),
            mistake(
                rotate_with(turn=lambda first, second, c, s: (first * c, second * s)),
                "Each component was only multiplied: to turn a pair, both of its numbers go into both results.",
            ),
            mistake(
                rotate_with(turn=lambda first, second, c, s: (first * c, second * c)),
                "The sines are missing: a pair (a, b) becomes (a cos - b sin, a sin + b cos).",
            ),
            mistake(
                rotate_with(turn=lambda first, second, c, s: (first * s - second * c, first * c + second * s)),
                "Sine and cosine are swapped: at position 0 the cosine is 1 and nothing is turned.",
            ),
            mistake(
                lambda x, positions: x,
                "x came back as it was: turn each pair by its frequency times the position.",
            ),
            mistake(
                rotate_with(places=lambda positions: positions - positions[0]),
                "The positions were counted from the first token here: use them as they are, the first need not stand at 0.",
            ),
            mistake(
                plus_the_position,
                "The position was added; rotary positions turn the vector instead.",
            ),
            mistake(
                rotate_with(arrange=lambda first, second: torch.stack([first, second], -1)),
                "The pairs have an axis of their own at the end: `flatten(-2)` puts them side by side again.",
            ),
        ],
        hints=[
            "Angles as in exercise 4.3: `positions.unsqueeze(-1) * frequencies`, (n, d / 2), one for each token and pair.",
            "`a, b = x[..., 0::2], x[..., 1::2]` are the first and second numbers of all pairs.",
            "`torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)` puts each pair back in its place.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.6 feed-forward
def with_given_parameters(built, reference, seed):
    """The student's module with the same parameters whoever wrote it; only for a given `__init__`."""
    torch.default_generator.manual_seed(seed)
    given = dict(built.named_parameters())
    for name, parameter in reference().named_parameters():
        if name not in given or given[name].shape != parameter.shape:
            raise Wrong(f"`{name}` is not as `__init__` made it: put its lines back, only `forward` is yours to write.")
        given[name].data.copy_(parameter.data)
    return built


def expect_a_class(answer, name):
    if not inspect.isclass(answer):
        raise Wrong(f"Expected a class, got {a_thing(answer)}: put the line `class {name}(nn.Module):` back.")


def run_feed_forward(answer, seed, dim, hidden, x):
    """Build the layer and call it."""
    expect_a_class(answer, "FeedForward")
    layer = with_given_parameters(answer(dim, hidden), lambda: FeedForward(dim, hidden), seed)
    return layer.to(x.dtype)(x)


def feed_forward_cases(generator):
    def one(*shape, hidden, note="", size=1.0):
        seed = int(torch.randint(10_000, (), generator=generator))
        return Case((seed, shape[-1], hidden, size * normal(generator, *shape)), note=note)

    return [
        one(2, 4, 3, hidden=6),
        one(3, 2, 5, hidden=4, note="narrow inside"),
        one(2, 1, 4, hidden=7, note="one token"),
        one(5, 3, hidden=8, note="one sentence without a batch axis"),
        one(2, 3, 4, hidden=4, note="hidden as wide as the tokens"),
        one(4, 2, 3, hidden=5, note="large inputs", size=30.0),
        one(1, 3, 4, hidden=5, note="one sentence with a batch axis"),
    ]


def forward_with(forward):
    return type("FeedForward", (FeedForward,), {"forward": forward})


def tokens_do_not_meet(answer, generator):
    *sizes, x = feed_forward_cases(generator)[0].args
    changed = x.clone()
    changed[:, 1] += 1
    before, after = answer(*sizes, x), answer(*sizes, changed)
    if before.shape == x.shape and not torch.allclose(before[:, 2:], after[:, 2:], atol=1e-5):
        raise Wrong(
            "A change of one token changed another: here each token is worked on alone, no sum or mean over the tokens."
        )


register(
    Exercise(
        id="4.6",
        cases=feed_forward_cases,
        call=run_feed_forward,
        methods=("forward",),
        gradient=True,
        properties=[tokens_do_not_meet],
        mistakes=[
            mistake(
                forward_with(lambda self, x: self.narrow(self.widen(x))),
                "The ReLU is missing: two linear maps in a row are one linear map, and nothing was gained.",
            ),
            mistake(
                forward_with(lambda self, x: torch.relu(self.narrow(self.widen(x)))),
                "The ReLU stands at the end: it belongs between `widen` and `narrow`, and the output may be negative.",
            ),
            mistake(
                forward_with(lambda self, x: torch.relu(self.narrow(torch.relu(self.widen(x))))),
                "There is a second ReLU at the end: the output may be negative, `narrow` is the last step.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(self.widen(torch.relu(x)))),
                "The ReLU stands in front: first `widen`, then the ReLU, then `narrow`.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(F.gelu(self.widen(x)))),
                "That is the GELU, which later models use; this layer has the ReLU.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(torch.tanh(self.widen(x)))),
                "That is tanh; this layer has the ReLU.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(F.silu(self.widen(x)))),
                "That is the SiLU, a smooth relative that later models use; this layer has the ReLU.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(torch.relu(self.widen(x))).softmax(-1)),
                "There is a softmax at the end: the output is plain numbers, not shares of 1. `narrow` is the last step.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(torch.sigmoid(self.widen(x)))),
                "That is the sigmoid; this layer has the ReLU.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(self.widen(x).softmax(-1))),
                "That is a softmax, which is for shares of 1; this layer has the ReLU.",
            ),
            mistake(
                forward_with(lambda self, x: x + self.narrow(torch.relu(self.widen(x)))),
                "x was added to the result: the sum belongs to the block around this layer, not to the layer.",
            ),
            mistake(
                forward_with(lambda self, x: torch.relu(self.widen(x))),
                "`narrow` is missing: the output has the width of x again.",
            ),
            mistake(
                forward_with(lambda self, x: self.widen(torch.relu(self.narrow(x)))),
                "`widen` and `narrow` are swapped: first (..., dim) to (..., hidden), then back.",
            ),
            mistake(
                forward_with(
                    lambda self, x: self.narrow(
                        torch.relu(self.widen(x)).mean(-2, keepdim=True).expand(*x.shape[:-1], -1)
                    )
                ),
                "The tokens were averaged: each token is worked on alone, with the same two layers.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(F.leaky_relu(self.widen(x)))),
                "That is the leaky ReLU; the plain one sets what is negative to 0.",
            ),
            mistake(
                forward_with(lambda self, x: torch.relu(x @ self.widen.weight.T) @ self.narrow.weight.T),
                "The biases are missing: call the layers, `self.widen(x)`, and they add their own.",
            ),
            mistake(
                forward_with(lambda self, x: self.narrow(self.widen(x).abs())),
                "That is the absolute value; the ReLU sets what is negative to 0.",
            ),
        ],
        hints=[
            "A linear layer works on the last axis and leaves those in front alone: every token gets the same treatment.",
            "`self.widen(x)` is (..., hidden).",
            "`torch.relu` in the middle, then `self.narrow`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.7 the causal mask
def causal_cases(generator):
    return [Case((length,), note="one token" if length == 1 else "") for length in (4, 1, 6, 2, 9)]


def lengths_that(change):
    return lambda length: change(causal_mask(length))


register(
    Exercise(
        id="4.7",
        cases=causal_cases,
        mistakes=[
            mistake(
                lengths_that(lambda mask: mask.tril(-1)),
                "No token may look at itself, and the first may look nowhere: the diagonal belongs to the mask.",
            ),
            mistake(
                lengths_that(lambda mask: mask.T),
                "That is the upper triangle: every token would look at itself and the future. Row i is True up to column i.",
            ),
            mistake(
                lengths_that(lambda mask: ~mask),
                "The mask is turned round: True means 'may look'. What you made is True where the future is.",
            ),
            mistake(
                lambda length: torch.ones(length, length, dtype=torch.bool),
                "Every token may look everywhere: hide the future, cut the mask to its lower triangle.",
            ),
            mistake(
                lambda length: torch.ones(length, length, dtype=torch.bool).tril(1),
                "Each token sees one token of the future: the triangle ends at the diagonal, `tril()` without a number.",
            ),
            mistake(
                lambda length: torch.eye(length, dtype=torch.bool),
                "Each token sees itself only: it may look at all those before it as well.",
            ),
            mistake(
                lengths_that(lambda mask: mask.float()),
                "Those are the numbers 0.0 and 1.0: a mask is bool, `dtype=torch.bool` or a comparison makes one.",
            ),
            mistake(
                lengths_that(lambda mask: mask.long()),
                "Those are the numbers 0 and 1: a mask is bool, `dtype=torch.bool` or a comparison makes one.",
            ),
            mistake(
                lengths_that(lambda mask: torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))),
                "That is to be added to scores; a mask of this course is bool, and `attention` makes minus infinity of it.",
            ),
            mistake(
                lengths_that(lambda mask: mask.unsqueeze(0)),
                "There is an axis too many: (length, length). It serves every sentence of a batch as it is.",
            ),
            mistake(
                lengths_that(lambda mask: mask.flip(0)),
                "The triangle stands on its head: row 0 is the first token, which sees itself only.",
            ),
            mistake(
                lengths_that(lambda mask: mask[-1]),
                "That is one row: each token needs a row of its own, (length, length).",
            ),
        ],
        hints=[
            "A table in which everybody may look everywhere: `torch.ones(length, length, dtype=torch.bool)`.",
            "Token i is a row, what it looks at are columns: of row i, columns 0 to i stay True.",
            "`.tril()` keeps the lower triangle with the diagonal.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.8 the padding mask
def padding_cases(generator):
    def one(b, length, note=""):
        return Case((torch.randint(1, length + 1, (b,), generator=generator), length), note=note)

    return [
        Case((torch.tensor([3, 5, 1]), 5), note="three sentences"),
        Case((torch.tensor([2, 3]), 6), note="the tensor is longer than every sentence"),
        Case((torch.tensor([4, 0, 2, 4]), 4), note="one sentence is empty"),
        # In front of the smaller one, in which all shapes look alike: of two that count as many numbers, the first is shown.
        Case((torch.tensor([2]), 3), note="one sentence"),
        Case((torch.tensor([1]), 1), note="one sentence of one word"),
        Case((torch.tensor([2, 3, 1]), 3), note="as many sentences as words"),
        one(4, 7),
        one(13, 5),
    ]


def padding_that(change):
    return lambda lengths, length: change(padding_mask(lengths, length))


SENTENCES_FIRST = "Places are rows and sentences columns: sentences come first, (b, 1, length)."

register(
    Exercise(
        id="4.8",
        cases=padding_cases,
        mistakes=[
            mistake(
                padding_that(lambda mask: mask.squeeze(1)),
                "The axis in the middle is missing: (b, 1, length), or sentences would be taken for tokens. `unsqueeze(1)`.",
            ),
            mistake(
                padding_that(lambda mask: ~mask),
                "The mask is turned round: True means 'may look', so words are True and padding is False.",
            ),
            mistake(
                lambda lengths, length: padding_mask(lengths + 1, length),
                "One place of padding counts as a word: places are counted from 0, so place p is a word if p < its length.",
            ),
            mistake(
                lambda lengths, length: padding_mask(lengths - 1, length),
                "The last word of each sentence is hidden: places 0 to length - 1 are words, p < its length.",
            ),
            mistake(
                padding_that(lambda mask: mask.flip(-1)),
                "The padding stands in front: in this course it stands behind the words.",
            ),
            mistake(
                padding_that(lambda mask: mask.transpose(1, 2)),
                "The mask hides the rows: (b, length, 1) forbids padding to look. Hide the columns, so that nobody looks at it: "
                "(b, 1, length).",
            ),
            mistake(
                padding_that(lambda mask: mask.transpose(0, 1)),
                "The axis of length 1 comes first: it belongs between sentences and places, (b, 1, length).",
            ),
            mistake(padding_that(lambda mask: mask.squeeze(1).T), SENTENCES_FIRST),
            mistake(padding_that(lambda mask: mask.transpose(0, 2)), SENTENCES_FIRST),
            mistake(
                padding_that(lambda mask: mask.unsqueeze(1)),
                "There is an axis too many: (b, 1, length). (With several heads there will be one more, in the next lesson.)",
            ),
            mistake(
                padding_that(lambda mask: mask & causal_mask(mask.size(-1))),
                "The future is hidden as well: leave that to the causal mask, `&` puts the two together.",
            ),
            mistake(
                padding_that(lambda mask: mask & mask.transpose(1, 2)),
                "There is a row for each token, and padding may look nowhere: one row serves all, (b, 1, length). What padding "
                "looks at harms nobody.",
            ),
            mistake(
                padding_that(lambda mask: mask.expand(-1, mask.size(-1), -1)),
                "There is a row for each token, and all are the same: one row serves all, (b, 1, length).",
            ),
            mistake(
                lambda lengths, length: padding_mask(lengths, int(lengths.max())),
                "The mask ends with the longest sentence: make it as long as `length` says.",
            ),
            mistake(
                padding_that(lambda mask: mask.long()),
                "Those are the numbers 0 and 1: a mask is bool, which a comparison gives by itself.",
            ),
            mistake(
                padding_that(lambda mask: mask.float()),
                "Those are the numbers 0.0 and 1.0: a mask is bool, which a comparison gives by itself.",
            ),
            mistake(
                padding_that(torch.ones_like),
                "Every place is True: places behind the end of a sentence are padding and must be False.",
            ),
            mistake(
                lambda lengths, length: (torch.arange(length) == lengths.unsqueeze(1)).unsqueeze(1),
                "Only one place of each sentence is True: compare with `<`, not with `==`.",
            ),
            mistake(
                lambda lengths, length: torch.arange(length) < lengths,
                "Places were compared with lengths one by one: give the lengths an axis of their own, `lengths.unsqueeze(1)`, "
                "then every place meets every length.",
            ),
        ],
        hints=[
            "`torch.arange(length)` are the places. Place p of a sentence is a word if p is less than its length.",
            "`torch.arange(length) < lengths.unsqueeze(1)` compares every place with every length: (b, length).",
            "`.unsqueeze(1)` puts in the axis of those who look.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.9 the layer
def a_projection(built, name, dim, inner):
    """The layer's projection, or what is wrong with it."""
    layer = getattr(built, name, None)
    if not isinstance(layer, nn.Linear):
        found = "missing" if layer is None else a_thing(layer)
        raise Wrong(
            f"`self.{name}` is {found}: `__init__` makes it, `self.{name} = nn.Linear(dim, inner, bias=False)`."
        )
    if layer.bias is not None:
        raise Wrong(
            f"`self.{name}` has a bias: the projections are plain matrices here, `nn.Linear(dim, inner, bias=False)`."
        )
    into, out = layer.in_features, layer.out_features
    if (into, out) == (dim, inner):
        return layer
    if (into, out) == (inner, dim):
        raise Wrong(f"`self.{name}` goes from `inner` to `dim`: it must go from `dim` to `inner`.")
    if (into, out) == (dim, dim):
        raise Wrong(f"`inner` has no effect: `self.{name}` goes from `dim` to `inner`, not from `dim` to `dim`.")
    raise Wrong(
        f"`self.{name}` goes from {into} to {out}: with dim = {dim} and inner = {inner} expected {dim} to {inner}."
    )


def a_self_attention(answer, seed, dim, inner):
    """The answer's layer with the same parameters whoever wrote it."""
    expect_a_class(answer, "SelfAttention")
    built = answer(dim, inner)
    if not isinstance(built, nn.Module):
        raise Wrong("The class is no module: put the line `class SelfAttention(nn.Module):` back.")
    torch.default_generator.manual_seed(seed)
    layers = [a_projection(built, name, dim, inner) for name in ("query", "key", "value")]
    if len({id(layer.weight) for layer in layers}) < 3:
        raise Wrong("Two of the projections are one and the same layer: query, key and value need an `nn.Linear` each.")
    extra = [name for name, _ in built.named_parameters() if name.split(".")[0] not in ("query", "key", "value")]
    if extra:
        raise Wrong(
            f"There is a parameter too many, `{extra[0]}`: the three projections are all that this layer learns."
        )
    for layer in layers:
        layer.weight.data.copy_(normal(torch.default_generator, inner, dim))
    return built


def run_self_attention(answer, seed, dim, inner, x, mask=None):
    """Build the layer and call it, without a second argument where there is no mask."""
    layer = a_self_attention(answer, seed, dim, inner).to(x.dtype)
    return layer(x) if mask is None else layer(x, mask)


def layer_cases(generator):
    def one(b, n, dim, inner, mask=None, note=""):
        seed = int(torch.randint(10_000, (), generator=generator))
        return Case((seed, dim, inner, normal(generator, b, n, dim), mask), note=note)

    words = torch.arange(5) < torch.tensor([[3], [5]])
    return [
        one(2, 4, 3, 5, note="no mask"),
        one(3, 5, 4, 2, nowhere_somewhere(generator, 3, 5), note="one token may look nowhere"),
        one(3, 4, 5, 6, causal_mask(4), note="a causal mask"),
        one(2, 5, 3, 4, words.unsqueeze(1), note="a padding mask (b, 1, n)"),
        one(2, 1, 4, 3, note="one token"),
        one(3, 3, 3, 3, note="all sizes equal"),
        one(1, 4, 3, 2, note="one sentence"),
    ]


class SelfAttentionWith(SelfAttention):
    """The layer with parts that can be replaced by wrong ones."""

    def projected(self, x):
        return self.query(x), self.key(x), self.value(x)

    def score(self, query, key):
        return match(query, key)

    def scale(self, x, query):
        return query.size(-1) ** -0.5

    def look(self, scores, value, mask):
        return attend(scores, value, mask)

    def results(self, output, weights, x):
        return output, weights

    def forward(self, x, mask=None):
        query, key, value = self.projected(x)
        output, weights = self.look(self.score(query, key) * self.scale(x, query), value, mask)
        return self.results(output, weights, x)


def layer_with(**parts):
    return type("SelfAttention", (SelfAttentionWith,), parts)


def method(look):
    return lambda self, scores, value, mask: look(scores, value, mask)


def forward_by(look):
    """The layer with a `forward` of its own: look(self, x, mask)."""
    return type("SelfAttention", (SelfAttention,), {"forward": lambda self, x, mask=None: look(self, x, mask)})


HANDED_ON = "The layers were handed on themselves: call them, `self.query(x)`."


class WithoutSuper(SelfAttention):
    def __init__(self, dim, inner):
        self.query = nn.Linear(dim, inner, bias=False)


def the_future_does_not_leak(answer, generator):
    """By gradient: what a token must not see has no influence whatever on it."""
    *sizes, x, mask = layer_cases(generator)[2].args
    x = x.clone().requires_grad_()
    output, _ = answer(*sizes, x, mask)
    (gradient,) = torch.autograd.grad(output[:, 1].sum(), x)
    if gradient[:, 2:].abs().max() > 0:
        raise Wrong(
            "With a causal mask, later tokens still influence token 1: the mask belongs between scores and softmax, pass it to "
            "`attention`."
        )


register(
    Exercise(
        id="4.9",
        cases=layer_cases,
        call=run_self_attention,
        methods=("__init__", "forward"),
        gradient=True,
        output_names=("output", "weights"),
        tolerance=1e-3,
        properties=[the_future_does_not_leak],
        mistakes=[
            mistake(
                layer_with(scale=lambda self, x, query: x.size(-1) ** -0.5),
                "The scores were divided by the root of `dim`. What counts is d_k, the width of queries and keys: `inner` is d_k, and "
                "`attention` takes it by itself.",
            ),
            mistake(
                layer_with(scale=lambda self, x, query: 1.0),
                "The scale is missing: leave `scale` away and `attention` divides by the root of d_k, which is `inner`.",
            ),
            mistake(
                layer_with(scale=lambda self, x, query: 1 / query.size(-1)),
                "The scores were divided by `inner`, that is d_k, which is the root twice: `attention` divides by the root already.",
            ),
            mistake(
                layer_with(scale=lambda self, x, query: query.size(-1) ** 0.5),
                "The scores were multiplied by the root: divide by it, as `attention` does.",
            ),
            mistake(
                layer_with(score=lambda self, query, key: match(key, query)),
                "Queries and keys are swapped: `attention(query, key, value, mask)`.",
            ),
            mistake(
                layer_with(projected=lambda self, x: (self.query(x), self.key(x), self.key(x))),
                "The keys were mixed: what is mixed are the values, `self.value(x)`.",
            ),
            mistake(
                layer_with(projected=lambda self, x: (self.query(x), self.value(x), self.key(x))),
                "Keys and values are swapped: `attention(query, key, value, mask)`.",
            ),
            mistake(
                layer_with(projected=lambda self, x: (self.query(x), self.query(x), self.value(x))),
                "The queries were compared with themselves: the keys are `self.key(x)`.",
            ),
            mistake(
                layer_with(projected=lambda self, x: (self.query(x), self.key(x), x)),
                "The tokens themselves were mixed: the values are `self.value(x)`.",
            ),
            mistake(
                layer_with(projected=lambda self, x: (x, x, x), scale=lambda self, x, query: x.size(-1) ** -0.5),
                "The projections are made but not used: ask with `self.query(x)`, and so on.",
            ),
            mistake(
                layer_with(look=method(looks_by(lambda scores: scores.softmax(-2)))),
                "The columns add up to 1, not the rows, and the mask has no effect: the softmax runs over the keys, the last "
                "axis. `attention` does it.",
            ),
            mistake(
                layer_with(results=lambda self, output, weights, x: (weights, output)),
                "The two results are swapped: the output comes first, then the weights.",
            ),
            mistake(
                layer_with(results=lambda self, output, weights, x: (output, weights.transpose(-2, -1))),
                "The weights are turned: row i holds what token i looks at. Return them as `attention` gives them.",
            ),
            mistake(
                layer_with(look=lambda self, scores, value, mask: attend(scores, value, causal_mask(value.size(-2)))),
                "The future is always hidden, whatever the mask says: hand `mask` on to `attention`.",
            ),
            mistake(
                layer_with(scale=lambda self, x, query: x.size(-2) ** -0.5),
                "The scores were divided by the root of the number of tokens: leave `scale` away and `attention` takes the root "
                "of d_k, which is `inner`.",
            ),
            mistake(
                layer_with(results=lambda self, output, weights, x: output),
                "Only the output came back: return output and weights, both.",
            ),
            mistake(
                layer_with(results=lambda self, output, weights, x: (x + output, weights)),
                "x was added to what was found: the sum belongs to the block around this layer, and needs `inner` equal to `dim`.",
            ),
            *(mistake(layer_with(look=method(look)), message) for look, message in MASKS),
            mistake(forward_by(lambda self, x, mask: attention(self.query, self.key, self.value, mask)), HANDED_ON),
            mistake(forward_by(lambda self, x, mask: attention(self.query(x), self.key, self.value, mask)), HANDED_ON),
            mistake(
                forward_by(lambda self, x, mask: attention(self.query(x), self.key(x), self.value, mask)), HANDED_ON
            ),
            mistake(forward_by(lambda self, x, mask: self.query @ self.key.transpose(-2, -1)), HANDED_ON),
            mistake(forward_by(lambda self, x, mask: self.query @ self.key.mT), HANDED_ON),
            mistake(forward_by(lambda self, x, mask: self.query @ self.key.T), HANDED_ON),
            mistake(
                WithoutSuper,
                "The first line of `__init__` is missing: `super().__init__()`, before the layers are made.",
            ),
        ],
        hints=[
            "`__init__`: `super().__init__()`, then `self.query = nn.Linear(dim, inner, bias=False)`, and `key` and `value` alike.",
            "`self.query(x)` is what `X @ W_Q` was: (b, n, inner), `inner` is d_k. The matrix stands in `self.query.weight`, turned.",
            "`attention(self.query(x), self.key(x), self.value(x), mask)` returns output and weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.10 the loss
def loss_case(generator, lengths, n, words, padding=None, note=""):
    mask = torch.arange(n) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.randint(words, (len(lengths), n), generator=generator)
    tokens = tokens if padding is None else tokens.masked_fill(~mask, padding)
    return Case((normal(generator, len(lengths), n, words), tokens, mask), note=note)


def loss_cases(generator):
    large = loss_case(generator, (3, 5), 5, 6, note="large logits")
    logits, tokens, _ = large.args
    logits[0, 1, tokens[0, 2]] = -150.0  # so improbable that its probability is 0 in float32
    return [
        loss_case(generator, (5, 3), 5, 7, note="two sentences"),
        loss_case(generator, (2, 6, 4), 6, 4, padding=3, note="padding is a word's number"),
        loss_case(generator, (4, 1, 3), 4, 5, padding=0, note="a sentence of one token: nothing is asked of it"),
        loss_case(generator, (4, 4), 4, 6, note="no padding"),
        loss_case(generator, (2,), 2, 3, note="one sentence of two tokens"),
        loss_case(generator, (3, 2, 4, 2), 4, 4, note="all sizes equal"),
        large,
    ]


def shifted(logits, tokens, mask):
    return logits[:, :-1], tokens[:, 1:], mask[:, 1:]


def log_loss(logits, targets):
    """(b, n, words) and (b, n) to (b, n)."""
    return -logits.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def over_the_asked(losses, asked, mask):
    return losses[asked].mean()


def loss_with(shift=shifted, each=log_loss, mean=over_the_asked):
    """The loss as the reference makes it, with parts that can be replaced by wrong ones."""

    def wrong(logits, tokens, mask):
        cut, targets, asked = shift(logits, tokens, mask)
        return mean(each(cut, targets), asked, mask)

    return wrong


def across_sentences(logits, tokens, mask):
    """Flattened first, shifted after."""
    return logits.flatten(0, 1)[:-1], tokens.flatten()[1:], mask.flatten()[1:]


def mean_of_means(at_least):
    """The mean of each sentence first. Without `at_least` a sentence of one token is 0 / 0."""

    def mean(losses, asked, mask):
        return ((losses * asked).sum(1) / asked.sum(1).clamp(min=at_least)).mean()

    return mean


def skip_the_number_zero(logits, tokens, mask):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:], ignore_index=0)


def words_by_reshape(logits, targets):
    b, n, words = logits.shape
    return F.cross_entropy(logits.reshape(b, words, n), targets, reduction="none")


def words_in_columns(logits, targets):
    """(b, n, words) to the right shape (b n, words), with the wrong numbers in it."""
    guesses = logits.reshape(logits.size(-1), -1).T
    return F.cross_entropy(guesses, targets.flatten(), reduction="none").view(targets.shape)


def silenced(logits_at=None, targets_at=None):
    """The loss with 0 instead of padding, over all positions: what is padding say logits_at(mask) and targets_at(mask)."""

    def wrong(logits, tokens, mask):
        cut, targets, _ = shifted(logits, tokens, mask)
        cut = cut if logits_at is None else cut * logits_at(mask).unsqueeze(-1)
        return log_loss(cut, targets if targets_at is None else targets * targets_at(mask)).mean()

    return wrong


def asked_for(mask):
    return mask[:, 1:]


def that_ask(mask):
    return mask[:, :-1]


STILL_COUNTS = "Padding was set to 0 and still counts: leave its losses out."
MIXED_UP = "`reshape` mixed positions and words: `transpose(1, 2)` turns axes."
OF_EACH_SENTENCE = (
    "That is the mean of the sentences' means, in which a token of a short sentence counts for more: take one mean over all "
    "tokens asked for."
)
ROLLED = (
    "The last position was asked for the first token of its sentence: `roll` moves round the corner. Cut instead, "
    "`logits[:, :-1]` and `tokens[:, 1:]`."
)

register(
    Exercise(
        id="4.10",
        cases=loss_cases,
        gradient=True,
        mistakes=[
            mistake(
                loss_with(shift=lambda logits, tokens, mask: (logits, tokens, mask)),
                "The targets are not shifted: position t was asked for the token it has just read. It must name token t + 1, so "
                "compare `logits[:, :-1]` with `tokens[:, 1:]`.",
            ),
            mistake(
                loss_with(shift=lambda logits, tokens, mask: (logits[:, 1:], tokens[:, :-1], mask[:, 1:])),
                "The shift goes the wrong way: position t was asked for token t - 1, which it has read. Compare `logits[:, :-1]` "
                "with `tokens[:, 1:]`.",
            ),
            mistake(
                loss_with(shift=lambda logits, tokens, mask: (logits[:, 1:], tokens[:, :-1], mask[:, :-1])),
                "The shift goes the wrong way, in the mask as well: position t was asked for token t - 1. Compare "
                "`logits[:, :-1]` with `tokens[:, 1:]`, where `mask[:, 1:]` is True.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: losses.mean()),
                "Padding counts as a target: take only the losses where `mask[:, 1:]` is True.",
            ),
            mistake(
                loss_with(shift=lambda logits, tokens, mask: (logits[:, :-1], tokens[:, 1:], mask[:, :-1])),
                "The mask was cut at the wrong end: the target is what must be real, `mask[:, 1:]`. As it is, the last word of a "
                "sentence is asked for the padding behind it.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: (losses * asked).mean()),
                "The sum is right, but it was divided by all positions: padding was set to 0 and still counts. Divide by the "
                "number of tokens asked for.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: (losses * asked).sum() / mask.sum()),
                "Divided by the number of all tokens: the first of a sentence is never asked for, divide by `mask[:, 1:].sum()`.",
            ),
            mistake(loss_with(mean=mean_of_means(0)), OF_EACH_SENTENCE),
            mistake(loss_with(mean=mean_of_means(1)), OF_EACH_SENTENCE),
            mistake(
                loss_with(mean=lambda losses, asked, mask: losses[asked].sum()),
                "That is the sum: divide by the number of tokens asked for, or long batches weigh more.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: (losses * asked).sum() / len(mask)),
                "Divided by the number of sentences: divide by the number of tokens asked for.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: -losses[asked].mean()),
                "The sign is wrong: the loss is minus the log probability, never below 0.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: losses[asked].mean().exp()),
                "That is the perplexity, e to the loss: return the loss itself.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: losses[~asked].mean()),
                "The mask is turned round: True is a token, False is padding. This is the loss of the padding.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: losses * asked),
                "There is a loss for each position: take the mean over the tokens asked for, one number.",
            ),
            mistake(
                loss_with(mean=lambda losses, asked, mask: losses[asked]),
                "There is a loss for each token asked for: take their mean, one number.",
            ),
            mistake(
                loss_with(each=lambda logits, targets: log_loss(logits.softmax(-1), targets)),
                "The softmax was taken twice: `F.cross_entropy` wants logits, it has its own softmax.",
            ),
            mistake(
                loss_with(each=lambda logits, targets: -logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)),
                "The softmax is missing: `F.nll_loss` wants log probabilities. `F.cross_entropy` takes logits.",
            ),
            mistake(
                loss_with(
                    each=lambda logits, targets: -logits.softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1).log()
                ),
                "With large logits a probability is 0 and its logarithm infinite: use `log_softmax` or `F.cross_entropy`, which "
                "never leave the logarithms.",
            ),
            mistake(
                loss_with(each=lambda logits, targets: 1 - (-log_loss(logits, targets)).exp()),
                "The logarithm is missing: the loss of a token is minus the log of its probability.",
            ),
            mistake(
                loss_with(each=words_by_reshape),
                "`reshape` mixes positions and words up: `F.cross_entropy` wants the words in axis 1, `transpose(1, 2)` brings "
                "them there.",
            ),
            mistake(loss_with(each=words_in_columns), MIXED_UP),
            mistake(loss_with(each=words_in_columns, mean=lambda losses, asked, mask: losses.mean()), MIXED_UP),
            mistake(silenced(logits_at=asked_for), STILL_COUNTS),
            mistake(silenced(logits_at=that_ask), STILL_COUNTS),
            mistake(silenced(targets_at=asked_for), STILL_COUNTS),
            mistake(silenced(logits_at=asked_for, targets_at=asked_for), STILL_COUNTS),
            mistake(silenced(logits_at=that_ask, targets_at=asked_for), STILL_COUNTS),
            mistake(
                loss_with(shift=lambda logits, tokens, mask: (logits[:, 1:], tokens[:, 1:], mask[:, 1:])),
                "Logits and tokens were cut at the same end, so position t is still asked for the token it has read: "
                "`logits[:, :-1]` against `tokens[:, 1:]`.",
            ),
            mistake(
                loss_with(shift=across_sentences),
                "All sentences were put in one row before the shift, so the last position of each is asked for the first token "
                "of the next: shift first, then flatten.",
            ),
            mistake(
                loss_with(shift=across_sentences, mean=lambda losses, asked, mask: losses.mean()),
                "All sentences were put in one row before the shift, and padding counts: shift first, `logits[:, :-1]` and "
                "`tokens[:, 1:]`, then take the losses where `mask[:, 1:]` is True.",
            ),
            mistake(
                loss_with(
                    each=lambda logits, targets: -logits.log_softmax(1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
                ),
                "The softmax ran over the positions: it runs over the words, the last axis of the logits.",
            ),
            mistake(
                skip_the_number_zero,
                "The tokens with number 0 were left out: 0 may be a word here, and padding another number. Use `mask`.",
            ),
            mistake(
                loss_with(shift=lambda logits, tokens, mask: (logits, tokens.roll(-1, 1), mask)),
                ROLLED,
            ),
            mistake(
                loss_with(shift=lambda logits, tokens, mask: (logits, tokens.roll(-1, 1), mask.roll(-1, 1))),
                ROLLED,
            ),
        ],
        hints=[
            "The last logits have no next token, and no logits ask for the first: `logits[:, :-1]` against `tokens[:, 1:]`.",
            '`F.cross_entropy` wants the words in axis 1, (b, words, n - 1) against (b, n - 1), and `reduction="none"` keeps a loss '
            "for each position.",
            "Which targets are words says `mask[:, 1:]`: `losses[mask[:, 1:]].mean()`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="4.a",
        question="A model has tokens of width 768 and 12 looks side by side, called heads, each with queries and keys of width "
        "64. What are the scores of a head divided by?",
        options=[
            (
                "The root of 768, about 27.7.",
                "Often said and wrong: a score adds up 64 products, whatever the width of the model.",
            ),
            ("64.", "The variance of a score is 64 times too large, its spread 8 times: divide by the root."),
            ("8.", "The root of 64: so many products are added up in a score."),
            ("The root of 12, about 3.5.", "The heads do not meet in a score: each has its own softmax."),
        ],
        right=2,
        explanation="It is the width of the head that counts. Only with a single head as wide as the model is it the same.",
    )
)
register_quiz(
    Quiz(
        id="4.b",
        question="'dog bites man' becomes 'man bites dog'. Self-attention without positions and without a mask: what happens to "
        "the three output vectors?",
        options=[
            (
                "All three change: the meaning did.",
                "The meaning did, but the layer cannot see it: a sum over tokens does not know their order.",
            ),
            (
                "They are shuffled in the same way: 'dog' has the vector that it had before.",
                "Each token still meets the same tokens, and a weighted sum has no order.",
            ),
            (
                "They stay where they are.",
                "Output i belongs to token i: when 'dog' moves, its vector moves along.",
            ),
            ("Only that of 'bites' stays as it was.", "That one stays, but the other two only change places."),
        ],
        right=1,
        explanation="Permutation equivariant: shuffle the input, and the output is shuffled alike. Who bites whom is lost.",
    )
)
register_quiz(
    Quiz(
        id="4.c",
        question="Sinusoids are periodic. After how many positions does the slowest pair of a wide vector come round again?",
        options=[
            ("About 6.", "That is the fastest pair: its period is 2π."),
            ("About 512, the width.", "The width says how many periods there are, not how long they are."),
            ("10,000.", "Nearly: the slowest pair turns by about 1/10,000 a step, and a full turn is 2π."),
            ("About 63,000.", "2π times 10,000: longer than most texts that a model ever reads at once."),
        ],
        right=3,
        explanation="And even then only that one pair is back: the periods do not fit together, so the whole vector is not.",
    )
)
register_quiz(
    Quiz(
        id="4.d",
        question="'Attention is linear': matrices are multiplied, that is all. What of it is true?",
        options=[
            ("All of it.", "Twice the input is not twice the output: the weights change too."),
            (
                "It is linear in the values, as long as the weights stay fixed.",
                "Then the output is a weighted sum. But the weights come from queries and keys through a softmax.",
            ),
            (
                "It is linear in the queries.",
                "Queries pass through the softmax: twice the query makes the weights sharper, not the output twice as large.",
            ),
            (
                "Nothing: the projection of the values is non-linear.",
                "A projection is a matrix, as linear as can be.",
            ),
        ],
        right=1,
        explanation="What is found is always an average of the values. To make something new of it takes the feed-forward layer.",
    )
)
register_quiz(
    Quiz(
        id="4.e",
        question="What does a mask set to minus infinity?",
        options=[
            (
                "The embeddings of the hidden tokens.",
                "Infinity in an embedding would make infinity and NaN of everything that it meets.",
            ),
            (
                "The hidden scores, before the softmax.",
                "exp(-∞) is 0, and the other weights of the row still add up to 1.",
            ),
            (
                "The hidden weights, after the softmax.",
                "A weight of minus infinity would drown the sum. And with 0 there, the row would not add up to 1 any more.",
            ),
            (
                "The values of the hidden tokens.",
                "0 times minus infinity is NaN; and the hidden token would have kept its share of the weight.",
            ),
        ],
        right=1,
        explanation="Before or after the division by the root makes no difference: minus infinity divided by 8 is minus infinity.",
    )
)
register_quiz(
    Quiz(
        id="4.f",
        question="A convolution runs over a sentence. Can all its positions be computed at the same time?",
        options=[
            (
                "No: it slides over the sentence, one position after the other.",
                "That is a picture of it. No output needs another output, so all can be computed at once.",
            ),
            (
                "Yes, but each sees only a window of its neighbours.",
                "What is far apart meets only after several layers. That is the difference to self-attention.",
            ),
            (
                "Yes, and each sees the whole sentence.",
                "A dense layer or self-attention does; a convolution has a window.",
            ),
            ("Only the even ones.", "Outputs do not depend on one another, even or odd."),
        ],
        right=1,
        explanation="Only the recurrent net must wait for the step before. The lesson measures steps, costs and reach of all four.",
    )
)

"""Lesson 01: cases, common mistakes and hints of its exercises, and its quizzes."""

import torch

from utils.checks.compare import Case
from utils.exercises.common import masked_rows_give_zeros, normal, random_mask
from utils.exercises.edits import BODY, mistake
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register


def whole(generator, *shape):
    """Integers from -2 to 2: their dot products have no rounding error, in whatever order they are summed."""
    return torch.randint(-2, 3, shape, generator=generator).float()


# ---------------------------------------------------------------------------------------------- 1.1 softmax
def softmax_cases(generator):
    far_apart = torch.tensor([[0.0, 1.0, 2.0], [-900.0, -901.0, -903.0]]) + normal(generator, 2, 3)
    one_row_far_apart = torch.tensor([300.0, 150.0, 1000.0, -1000.0]) + normal(generator, 4)
    return [
        Case((normal(generator, 4),), note="one row, temperature 1"),
        Case((normal(generator, 3, 5),), note="a matrix: each row is a distribution of its own"),
        Case((normal(generator, 2, 4, 3), 0.5), note="temperature 0.5"),
        Case((normal(generator, 4, 4), 3.0), note="temperature 3"),
        Case((1000 + normal(generator, 2, 3),), note="large logits"),
        Case((far_apart,), note="rows of very different magnitude"),
        Case((one_row_far_apart,), note="logits from -1000 to 1000 in one row"),
        Case((300 + normal(generator, 2, 4), 0.5), note="large logits and temperature 0.5"),
        Case((0.1 * normal(generator, 1, 9),), note="a single row of nine nearly equal logits"),
        Case((300 * normal(generator, 3, 1),), note="rows of a single logit, whose probability is 1"),
        Case((normal(generator, 2, 3, 4).transpose(0, 1),), note="a transposed tensor: not contiguous in memory"),
    ]


LARGEST, TOTAL = "scaled.amax(-1, keepdim=True)", "exponentials.sum(-1, keepdim=True)"
register(
    Exercise(
        id="1.1",
        cases=softmax_cases,
        gradient=True,
        mistakes=[
            mistake(
                f" - {LARGEST}", "", "Large logits overflow: inf/inf is NaN. Subtract the maximum of each row first."
            ),
            mistake(
                LARGEST,
                "scaled.max()",
                "The maximum of the whole tensor was subtracted, so rows far below it underflow to 0/0. Subtract the maximum of each row: `amax(-1, keepdim=True)`.",
            ),
            mistake("amax", "amin", "The minimum was subtracted: a wide row still overflows. Subtract its maximum."),
            mistake("amax", "mean", "The mean was subtracted: a wide row still overflows. Subtract its maximum."),
            mistake(
                LARGEST,
                "scaled[..., :1]",
                "The first logit of each row was subtracted, so larger ones can still overflow. Subtract the maximum of each row.",
            ),
            mistake(
                LARGEST,
                "logits.amax(-1, keepdim=True)",
                "The maximum was taken before the division by the temperature, so large logits overflow if T < 1. Divide first, then subtract the maximum.",
            ),
            mistake(
                [("amax(-1", "amax(0"), ("sum(-1", "sum(0")], "Softmax ran over the first axis. Use the last one, -1."
            ),
            mistake(
                [(LARGEST, "scaled.amax(-1)"), (TOTAL, "exponentials.sum(-1)")],
                "The maxima and sums of the rows lost their axis and broadcast along the wrong one. Add `keepdim=True` to both.",
            ),
            mistake("amax", "max", "`max` with a dim returns values and indices. Use `amax(-1, keepdim=True)`."),
            mistake(
                [(LARGEST, "scaled.max()"), (TOTAL, "exponentials.sum()")],
                "The whole tensor sums to 1, not each row. Sum over the last axis only: `sum(-1, keepdim=True)`.",
            ),
            mistake(" / temperature", "", "The temperature has no effect. Divide the logits by it."),
            mistake(
                "/ temp", "* temp", "The logits were multiplied by the temperature. Divide by it: a high T flattens."
            ),
            mistake(
                [(" / temperature", ""), (TOTAL, f"{TOTAL} / temperature")],
                "The rows sum to 1/temperature. Divide the logits by the temperature, before the exponential.",
            ),
            mistake(
                BODY,
                "return (logits / temperature).log_softmax(-1)",
                "These are log-probabilities, all negative. Return the probabilities: no logarithm at the end.",
            ),
            mistake(
                BODY,
                "return (logits / temperature) / (logits / temperature).sum(-1, keepdim=True)",
                "The exponential is missing, so negative logits give negative probabilities. Apply `exp()` before normalizing.",
            ),
            mistake(
                f"exponentials / {TOTAL}",
                f"(exponentials / {TOTAL}).squeeze()",
                "`squeeze()` removed an axis. Leave it out.",
            ),
        ],
        hints=[
            "Three steps: divide by the temperature, take the exponential, divide each row by its sum.",
            "Each row has its own maximum: `scaled.amax(-1, keepdim=True)`. With keepdim it broadcasts along the row.",
            "`exponentials = (scaled - scaled.amax(-1, keepdim=True)).exp()`; then normalize each row.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.2 soft lookup
def lookup_cases(generator):
    def inputs(n, d, e):
        return normal(generator, d), normal(generator, n, d), normal(generator, n, e)

    def large(n, d, e):
        """Every score is 200 plus a small integer."""
        query, keys = whole(generator, d), whole(generator, n, d)
        query[0], keys[:, 0] = 20.0, 10.0
        return query, keys, 90 * normal(generator, n, e)

    return [
        *(Case(inputs(n, d, e)) for n, d, e in ((3, 2, 4), (4, 4, 4), (1, 3, 2), (6, 5, 1), (3, 1, 2))),
        Case(large(4, 3, 2), note="scores of about 200 and large values"),
    ]


SCORES, WEIGHTED = "keys @ query", "weights @ values"
HARD = "This is a hard lookup, through which no gradient reaches the query. Weight all values by the softmax."
OVERFLOW = "Scores of about 200 overflow, and inf/inf is NaN. Use your stable `softmax` of exercise 1.1."
register(
    Exercise(
        id="1.2",
        cases=lookup_cases,
        gradient=True,
        output_names=("output", "weights"),
        mistakes=[
            mistake(WEIGHTED, "weights @ keys", "The output is a weighted sum of the keys. Sum the values instead."),
            mistake(SCORES, "query @ keys", "`query @ keys` sums over the keys. The scores are `keys @ query`."),
            mistake(
                WEIGHTED,
                "(weights * values).sum(0)",
                "The weights broadcast along the wrong axis of `values`. Write `weights @ values`, or `weights[:, None] * values`.",
            ),
            mistake(
                WEIGHTED, "(weights[:, None] * values).mean(0)", "The weighted values were averaged. Take their sum."
            ),
            mistake(
                WEIGHTED, "weights[:, None] * values", "The weighted values were not summed. Use `weights @ values`."
            ),
            mistake(f"softmax({SCORES})", SCORES, "The raw scores were used as weights. Apply `softmax` to them."),
            mistake(
                f"softmax({SCORES})",
                "(keys @ query) / (keys @ query).sum()",
                "The scores were divided by their sum, so weights can be negative. Apply `softmax` to the scores.",
            ),
            mistake(
                f"softmax({SCORES})", "torch.nn.functional.one_hot((keys @ query).argmax(), len(keys)).float()", HARD
            ),
            mistake(WEIGHTED, "values[weights.argmax()]", HARD),
            mistake(
                f"softmax({SCORES})",
                "torch.full((len(keys),), 1 / len(keys))",
                "All weights are equal. Compare the query with the keys: the scores are `keys @ query`.",
            ),
            mistake(
                SCORES,
                "keys @ query / len(query) ** 0.5",
                "The scores were divided by sqrt(d). Here they are plain dot products.",
            ),
            mistake(
                SCORES,
                "torch.nn.functional.cosine_similarity(keys, query, dim=-1)",
                "These are cosine scores. Use plain dot products, `keys @ query`.",
            ),
            mistake(
                SCORES, "-keys @ query", "The worst match got the largest weight. Drop the minus sign of the scores."
            ),
            mistake(f"softmax({SCORES})", "(keys @ query).exp() / (keys @ query).exp().sum()", OVERFLOW),
            mistake(
                f"return {WEIGHTED}, weights",
                f"return weights, {WEIGHTED}",
                "The two results are swapped. Return the output first, then the weights.",
            ),
            mistake(", weights", "", "Only the output was returned. Return the output and the weights."),
        ],
        hints=[
            "Three steps: scores, softmax, weighted sum.",
            "`keys @ query` is one score per key.",
            "`weights @ values` is the sum of the rows of `values`, each multiplied by its weight.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.3 cosine
NORMS = "(keys.norm(dim=-1) * query.norm())"
COLUMN_NORMS = "The norm was taken over each column of `keys` (dim 0). Each key is a row: `keys.norm(dim=-1)`."
register(
    Exercise(
        id="1.3",
        cases=lambda generator: [
            Case((short * normal(generator, d), long * normal(generator, n, d)))
            for n, d, short, long in ((3, 2, 1, 3), (4, 4, 5, 3), (2, 6, 0.1, 90), (5, 1, 1, 3), (1, 3, 90, 1))
        ],
        gradient=True,
        mistakes=[
            mistake(f" / {NORMS}", "", "This is the plain dot product: long keys win. Divide by both norms."),
            mistake(NORMS, "query.norm()", "The scores still depend on the norm of each key. Divide by it too."),
            mistake(NORMS, "keys.norm(dim=-1)", "The scores still depend on the norm of the query. Divide by it too."),
            mistake(
                "keys.norm(dim=-1)", "keys.norm()", "This is the norm of the whole matrix. Use one per key: `dim=-1`."
            ),
            mistake(
                NORMS, "(keys.square().sum(-1) * query.square().sum())", "These are the squared norms. Use `norm`."
            ),
            mistake(
                NORMS,
                "(keys.square().sum(-1) + query.square().sum()).sqrt()",
                "The squared norms were added under one square root. Multiply the two norms.",
            ),
            mistake(
                f"keys @ query / {NORMS}",
                f"1 - keys @ query / {NORMS}",
                "This is the cosine distance, small for a good match. Return the cosine itself, without `1 -`.",
            ),
            mistake("dim=-1", "dim=0", COLUMN_NORMS),
            mistake(BODY, "return (keys / keys.norm(dim=0)) @ (query / query.norm())", COLUMN_NORMS),
            mistake(
                "keys @ query", "query @ keys", "`query @ keys` sums over the keys. The scores are `keys @ query`."
            ),
            mistake(
                f"keys @ query / {NORMS}",
                f"(keys @ query / {NORMS}).abs()",
                "The sign was lost. A key in the opposite direction has cosine -1: no absolute value.",
            ),
        ],
        hints=[
            "The cosine is the dot product of two vectors, each divided by its norm.",
            "`keys.norm(dim=-1)` has one norm per key, `query.norm()` is a single number.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.4 Jacobian
DIAGONAL, OUTER = "torch.diag(p)", "torch.outer(p, p)"
register(
    Exercise(
        id="1.4",
        cases=lambda generator: [
            Case(((size * normal(generator, length)).softmax(0),))
            for length, size in ((2, 1), (3, 1), (6, 3), (1, 1), (14, 1))
        ],
        mistakes=[
            mistake(
                BODY,
                "return torch.diag(p * (1 - p))",
                "Only the diagonal is filled. Raising one logit lowers every other probability: off the diagonal it is -p_i p_j.",
            ),
            mistake(
                BODY, "return p * (1 - p)", "This is only the diagonal. Return the (n, n) matrix of all dp_i/dz_j."
            ),
            mistake(
                f"{DIAGONAL} - {OUTER}",
                f"{OUTER} - {DIAGONAL}",
                "All signs are flipped: raising a logit raises its own probability. Compute `diag(p)` minus the outer product.",
            ),
            mistake(" - ", " + ", "The outer product was added, so the columns do not sum to 0. Subtract it."),
            mistake(f"{DIAGONAL} - ", "-", "The Kronecker delta is missing. Add p_i on the diagonal: `torch.diag(p)`."),
            mistake(DIAGONAL, "torch.eye(len(p))", "The diagonal has 1 where it needs p_i. Use `torch.diag(p)`."),
            mistake(BODY, "return p[:, None] * (1 - p)", "The 1 must be the Kronecker delta: p_i (delta_ij - p_j)."),
            mistake(
                BODY,
                "return p * (torch.eye(len(p)) - p)",
                "Entry (i, j) has p_j p_j where it needs p_i p_j: a product of two (n,) vectors broadcasts along rows. Use `torch.outer(p, p)`, or a column `p[:, None]`.",
            ),
            mistake(OUTER, "p @ p", "`p @ p` is a single number. Use the outer product, `torch.outer(p, p)`."),
            mistake(
                BODY,
                "p = p.softmax(0)\nreturn torch.diag(p) - torch.outer(p, p)",
                "The softmax was applied to p again. p already holds the probabilities: use it directly.",
            ),
        ],
        hints=[
            "Differentiate log p_i = z_i - log(sum_k exp z_k) with respect to z_j first: delta_ij - p_j.",
            "By the chain rule dp_i/dz_j = p_i (delta_ij - p_j).",
            "`torch.diag(p)` is the first term and `torch.outer(p, p)` the second.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.5 attend
def attend_cases(generator):
    def blind(*shape):
        """The first and the last of all queries may attend to nothing, the others to something."""
        mask = random_mask(generator, *shape)
        mask.view(-1, shape[-1])[[0, -1]] = False
        return mask

    def inputs(*lead, m, n, e):
        return normal(generator, *lead, m, n), normal(generator, *lead, n, e)

    def large():
        """Rows of about 200, of about -200, and one with its largest score masked."""
        scores, mask = normal(generator, 3, 4), random_mask(generator, 3, 4)
        scores += torch.tensor([[200.0], [-200.0], [0.0]])
        mask[:, 0], mask[:, 1] = True, False
        scores[2, 1] = 200.0
        return scores, 90 * normal(generator, 4, 2), mask

    return [
        Case(inputs(m=4, n=5, e=3), note="no mask"),
        Case(inputs(m=3, n=3, e=3), note="square scores, no mask"),
        Case((200 + normal(generator, 1, 4), normal(generator, 4, 1)), note="one query, scores of about 200, no mask"),
        Case((*inputs(m=4, n=4, e=3), torch.ones(4, 4).tril().bool()), note="square scores with a mask"),
        Case((*inputs(2, m=4, n=5, e=3), random_mask(generator, 2, 4, 5)), note="a batch with a mask"),
        Case((*inputs(2, 3, m=4, n=5, e=2), random_mask(generator, 4, 5)), note="one mask for the whole batch"),
        Case((*inputs(2, m=3, n=4, e=2), random_mask(generator, 2, 1, 4)), note="one mask row for all queries"),
        Case((*inputs(m=3, n=5, e=2), blind(3, 5)), note="queries 0 and 2 may attend to nothing"),
        Case((*inputs(2, m=3, n=4, e=2), blind(2, 3, 4)), note="a batch in which two queries may attend to nothing"),
        Case((*inputs(m=2, n=3, e=2), torch.zeros(2, 3).bool()), note="no query may attend to anything"),
        Case((*inputs(1, m=1, n=4, e=1), random_mask(generator, 1, 1, 4)), note="one query, values of width 1"),
        Case((*inputs(m=3, n=1, e=2), torch.tensor([[True], [False], [True]])), note="one key"),
        Case((normal(generator, 5, 3).T, normal(generator, 2, 5).T), note="transposed inputs: not contiguous"),
        Case(large(), note="scores from -200 to 200"),
    ]


WEIGHTS = "softmax(masked).masked_fill(fully_masked, 0.0)"
FILLED = 'scores.masked_fill(~(mask | fully_masked), float("-inf"))'
WITH_ROWS = ("~(mask | fully_masked)", "~mask")  # fully masked rows are filled as well
UNGUARDED = [WITH_ROWS, (".masked_fill(fully_masked, 0.0)", "")]
NAIVE = "({0}.exp() / {0}.exp().sum(-1, keepdim=True))"


def normalized_by(softmax, *more):
    """Another softmax in both branches, and more edits."""
    return [("softmax(scores)", softmax.format("scores")), ("softmax(masked)", softmax.format("masked")), *more]


def after_softmax(weights, smallest):
    """The softmax comes first; then the mask, and each row is divided by what is left of it."""
    return [(WEIGHTS, f"{weights} * mask\n    weights = weights / weights.sum(-1, keepdim=True).clamp_min({smallest})")]


TOO_SMALL = "Masked scores were set to a finite number that real scores can fall below. Set them to minus infinity."
INVERTED = (
    "The mask is inverted: True means the query may attend to the key. Mask the scores where it is False, `~mask`."
)
OVER_QUERIES = "The softmax ran over the queries (dim -2). Normalize each row over the keys, the last axis."
OVER_FIRST = "The softmax ran over the first axis (dim 0). Normalize each row over the keys, the last axis."
OVER_AXIS_1 = (
    "The softmax ran over axis 1, which is the keys only without a batch axis. Count from the end: `softmax(-1)`."
)
OVER_ALL = "The softmax ran over the whole matrix. Each query has its own distribution: normalize over the last axis."
register(
    Exercise(
        id="1.5",
        cases=attend_cases,
        gradient=True,
        output_names=("output", "weights"),
        mistakes=[
            mistake("if mask is None:", "if not mask:", "A tensor has no single truth value. Write `if mask is None`."),
            mistake(
                [(FILLED, 'scores + (~mask).float() * float("-inf")'), UNGUARDED[1]],
                "0 times minus infinity is NaN, so adding the mask times -inf ruins every row. Use `masked_fill(~mask, ...)`.",
            ),
            mistake(
                [(FILLED, 'scores.clone()\n    masked[~mask] = float("-inf")'), UNGUARDED[1]],
                "Indexing with a mask does not broadcast over missing leading axes. Use `scores.masked_fill(~mask, ...)`.",
            ),
            mistake(UNGUARDED, "A fully masked row gives NaN: its softmax is 0/0. Give such a row zero weights."),
            mistake(
                [*UNGUARDED, ('float("-inf")', "-1e9")],
                "A fully masked row attends to every key: equal scores give a uniform softmax. Give such a row zero weights.",
            ),
            mistake([*UNGUARDED, ('float("-inf")', "-50.0")], TOO_SMALL),
            mistake([WITH_ROWS, ('float("-inf")', "-50.0")], TOO_SMALL),
            mistake([WITH_ROWS, ('float("-inf")', "-50.0"), (WEIGHTS, "softmax(masked) * mask")], TOO_SMALL),
            mistake(normalized_by(NAIVE), OVERFLOW),
            mistake(normalized_by(NAIVE, *UNGUARDED), OVERFLOW),
            mistake(normalized_by(f"{NAIVE}.nan_to_num()", *UNGUARDED), OVERFLOW),
            mistake(
                [
                    ("softmax(scores)", f"{NAIVE.format('scores')}.nan_to_num()"),
                    (WEIGHTS, "(scores.exp() * mask / (scores.exp() * mask).sum(-1, keepdim=True)).nan_to_num()"),
                ],
                OVERFLOW,
            ),
            *(
                mistake([("softmax(scores)", NAIVE.format("scores")), *after_softmax(exponentials, smallest)], OVERFLOW)
                for exponentials in ("scores.exp()", "torch.where(mask, scores.exp(), 0.0)")
                for smallest in (1e-30, 0)
            ),
            mistake(
                after_softmax("softmax(scores)", 1e-30),
                "A large masked score took all the weight in the softmax, and dividing by the rest cannot restore it. Mask the scores before the softmax.",
            ),
            mistake(
                after_softmax("softmax(scores)", 0),
                "The weights were masked after the softmax and renormalized, which is 0/0 where nothing is left. Mask the scores before the softmax.",
            ),
            mistake(WEIGHTS, "softmax(scores)", "The mask has no effect. Set the masked scores to minus infinity."),
            mistake(
                [
                    ("~mask.any(-1, keepdim=True)", "mask.all(-1, keepdim=True)"),
                    ("~(mask | fully_masked)", "mask & ~fully_masked"),
                ],
                INVERTED,
            ),
            mistake([("~(mask | fully_masked)", "mask"), UNGUARDED[1]], INVERTED),
            mistake(
                WEIGHTS,
                "softmax(scores) * mask",
                "The weights were masked after the softmax, so rows sum to less than 1. Mask the scores before the softmax.",
            ),
            mistake(
                [(FILLED, "scores * mask"), UNGUARDED[1]],
                "Masked scores were set to 0, but exp(0) = 1 still gets weight. Set them to minus infinity.",
            ),
            mistake(BODY, "weights = scores.softmax(-2)\nreturn weights @ value, weights", OVER_QUERIES),
            mistake(normalized_by("{}.softmax(-2)", *UNGUARDED), OVER_QUERIES),
            mistake(normalized_by("{}.softmax(-2).nan_to_num()", *UNGUARDED), OVER_QUERIES),
            mistake(normalized_by("{}.softmax(-2)", *UNGUARDED, ('float("-inf")', "-1e9")), OVER_QUERIES),
            mistake(normalized_by("{}.softmax(0)", *UNGUARDED), OVER_FIRST),
            *(
                mistake(normalized_by("{}.softmax(1)", *guard), OVER_AXIS_1)
                for guard in ([], UNGUARDED, [*UNGUARDED, ('float("-inf")', "-1e9")])
            ),
            *(
                mistake(normalized_by(whole, *guard), OVER_ALL)
                for whole in (
                    "{0}.flatten(-2).softmax(-1).reshape({0}.shape)",
                    "{0}.flatten().softmax(0).reshape({0}.shape)",
                )
                for guard in (UNGUARDED, [WITH_ROWS, (".masked_fill(fully_masked, 0.0)", ".masked_fill(~mask, 0.0)")])
            ),
            mistake(
                "@ value, weights",
                "@ value, softmax(scores)",
                "The returned weights ignore the mask. Return the weights that give the output.",
            ),
            mistake(
                "@ value, weights", "@ value, scores", "The second result is the scores. Return the softmax weights."
            ),
        ],
        hints=[
            "Without a mask there are two steps: softmax over the last axis, then `weights @ value`.",
            "`scores.masked_fill(~mask, float('-inf'))` before the softmax gives masked keys the weight exp(-inf) = 0.",
            "To avoid 0/0, do not fill a fully masked row: `fully_masked = ~mask.any(-1, keepdim=True)`. Fill where neither `mask` nor `fully_masked` is True, and set the weights of `fully_masked` to 0 after the softmax.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.6 attention
def attention_cases(generator):
    def inputs(*lead, m, n, d, e):
        return normal(generator, *lead, m, d), normal(generator, *lead, n, d), normal(generator, *lead, n, e)

    def interleaved(m, n, d, e):
        """Batches of two, their rows interleaved in memory."""
        return tuple(normal(generator, rows, 2, width).transpose(0, 1) for rows, width in ((m, d), (n, d), (n, e)))

    def large(m, n, d, e):
        """Every dot product is 200 plus a small integer."""
        query, key = whole(generator, m, d), whole(generator, n, d)
        query[:, 0], key[:, 0] = 20.0, 10.0
        return query, key, 90 * normal(generator, n, e)

    return [
        Case((*inputs(m=4, n=5, d=3, e=2), None, 1.0), note="scale=1"),
        Case((*inputs(2, m=4, n=5, d=3, e=6), None, 1.0), note="a batch, scale=1"),
        Case(inputs(2, m=4, n=5, d=3, e=6), note="scale=None"),
        Case((*inputs(2, 3, m=4, n=5, d=6, e=2), random_mask(generator, 2, 1, 4, 5)), {"scale": 0.3}, note="a mask"),
        Case(inputs(m=3, n=3, d=3, e=3), note="all sizes equal, scale=None"),
        Case((*inputs(m=4, n=4, d=2, e=3), torch.ones(4, 4).tril(-1).bool()), note="query 0 may attend to nothing"),
        Case((*inputs(1, m=1, n=4, d=3, e=1), None, 1), note="one query, values of width 1"),
        Case(interleaved(m=2, n=4, d=3, e=2), note="a transposed batch: not contiguous in memory"),
        Case((*inputs(m=2, n=3, d=4, e=2), None, 0.0), note="scale=0: uniform weights"),
        Case((*large(m=2, n=4, d=3, e=2), None, 1.0), note="scores of about 200"),
    ]


KEYS, DEFAULT = "key.transpose(-2, -1)", "query.size(-1) ** -0.5"
ATTEND = f"return attend(query @ {KEYS} * scale, value, mask)"


def without_attend(fill):
    """Softmax and mask written out, with no care for fully masked rows."""
    masked = f"scores = scores if mask is None else scores.masked_fill(~mask, {fill})"
    return [(ATTEND, f"scores = query @ {KEYS} * scale\n{masked}\nreturn softmax(scores) @ value, softmax(scores)")]


register(
    Exercise(
        id="1.6",
        cases=attention_cases,
        gradient=True,
        output_names=("output", "weights"),
        mistakes=[
            mistake(
                DEFAULT, "1.0", "`scale=None` was treated as 1. It means 1 / sqrt(d), with d the width of the queries."
            ),
            mistake(" if scale is None else scale", "", "`scale` is ignored. Use 1 / sqrt(d) only for `scale=None`."),
            mistake(" * scale", "", "The `scale` argument has no effect. Multiply the scores by it."),
            mistake(
                "if scale is None", "if not scale", "`scale=0` was treated as None: 0 is falsy. Test `scale is None`."
            ),
            mistake(
                f"{DEFAULT} if scale is None else scale",
                f"{DEFAULT} * (1.0 if scale is None else scale)",
                "The given `scale` was multiplied by the default. It replaces 1 / sqrt(d).",
            ),
            mistake(
                without_attend('float("-inf")'), "A fully masked row gives NaN. Call `attend`: it handles such rows."
            ),
            mistake(
                without_attend("-1e9"), "A fully masked row attends to all keys. Call `attend`: it handles such rows."
            ),
            mistake(
                [("** -0.5", "** 0.5"), (" * scale", " / scale")], "The scores were divided by `scale`. Multiply by it."
            ),
            mistake(
                "query.size(-1)",
                "value.size(-1)",
                "The default scale used the width of the values. Use d, the width of queries and keys.",
            ),
            mistake("query.size(-1)", "key.size(-2)", "The default scale used the number of keys. Use their width d."),
            mistake("** -0.5", "** -1.0", "The default scale is 1/d here. It is 1 / sqrt(d): take the square root."),
            mistake("** -0.5", "** 0.5", "The scores were multiplied by sqrt(d). The default scale is 1 / sqrt(d)."),
            mistake(" * scale", " / scale", "The scores were divided by `scale`. Multiply by it."),
            mistake(
                "query.size(-1)",
                "query.size(0)",
                "The default scale used the first axis. Use d, the last axis of the queries.",
            ),
            mistake(
                "query.size(-1)", "query.size(-2)", "The default scale used the number of queries. Use their width d."
            ),
            mistake(", mask)", ")", "The mask has no effect. Pass it to `attend`."),
            mistake(
                KEYS,
                "key.transpose(0, 1)",
                "The first two axes were swapped. Swap the last two: `key.transpose(-2, -1)`.",
            ),
            mistake(KEYS, "key.T", "`.T` reverses all axes. Swap only the last two: `key.transpose(-2, -1)`."),
            mistake(KEYS, "key", "Queries and keys are both rows. Transpose the keys: `key.transpose(-2, -1)`."),
            mistake(
                f"query @ {KEYS}",
                "key @ query.transpose(-2, -1)",
                "The scores have a row per key. Queries are rows and keys are columns: `query @ key.transpose(-2, -1)`.",
            ),
            mistake(", value,", ", key,", "The output is a weighted sum of the keys. Pass `value` to `attend`."),
        ],
        hints=[
            "`attend` does the second half. Compute the scores: one row per query, one column per key.",
            "`query @ key.transpose(-2, -1)` computes all dot products at once, in batches too.",
            "`scale = query.size(-1) ** -0.5 if scale is None else scale`; multiply the scores by it.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.7 kernel regression
def regression_cases(generator):
    def curve(m, n):
        return normal(generator, m), normal(generator, n), normal(generator, n)

    def far(m, n):
        """At bandwidth 0.5 every exponent is below -100 and free of rounding."""
        return 12 + whole(generator, m) / 4, whole(generator, n) / 4, 90 * normal(generator, n)

    return [
        Case((*curve(3, 5), 0.7), note="bandwidth 0.7"),
        Case((*curve(4, 4), 1.0), note="as many queries as points"),
        Case((*curve(2, 6), torch.tensor(2.0)), note="the bandwidth is a tensor"),
        Case((*curve(5, 5), 0.5, ~torch.eye(5, dtype=torch.bool)), note="a mask"),
        Case((*curve(4, 4), 0.5, torch.ones(4, 4).tril().bool()), note="a mask that is not symmetric"),
        Case((*curve(1, 4), 0.7), note="one query"),
        Case((*curve(3, 1), 0.7), note="one point"),
        Case((*far(3, 5), 0.5), note="queries far from every point"),
    ]


EXPONENT, RATIO = "-((distance / bandwidth) ** 2) / 2", "distance / bandwidth"


def a_fully_masked_query_gets_zeros(answer, generator):
    mask = torch.tensor([[True], [False], [True]]).expand(3, 4)
    prediction, weights = answer(normal(generator, 3), normal(generator, 4), normal(generator, 4), 0.5, mask)
    masked_rows_give_zeros(weights[1], "attend")
    masked_rows_give_zeros(prediction[1], "attend")


register(
    Exercise(
        id="1.7",
        cases=regression_cases,
        gradient=True,
        output_names=("prediction", "weights"),
        properties=[a_fully_masked_query_gets_zeros],
        mistakes=[
            mistake("-((", "((", "Distant points get the largest weight. The score needs a minus sign."),
            mistake(f"({RATIO}) ** 2", "distance**2 / bandwidth", "The bandwidth is not squared. Divide by h squared."),
            mistake(
                ") / 2,", "),", "The factor 1/2 of the Gaussian is missing. Divide the squared distance by 2 h**2."
            ),
            mistake(EXPONENT, f"-({RATIO}).abs()", "The distance is not squared. A Gaussian kernel needs its square."),
            mistake(RATIO, "distance * bandwidth", "The distance was multiplied by the bandwidth. Divide by it."),
            mistake(RATIO, "distance", "The bandwidth has no effect. Divide the distances by it."),
            mistake(EXPONENT, f"({EXPONENT}).exp()", "`attend` takes the exponential again. Pass it the exponent."),
            mistake(", mask)", ")", "The mask has no effect. Pass it to `attend`."),
            *(
                mistake(
                    [("x_query[:, None] - x[None, :]", "x_query - x"), *values],
                    "`x_query - x` pairs point i with query i. Compute all (m, n) differences: `x_query[:, None] - x[None, :]`.",
                )
                for values in ([], [("y[:, None]", "y")], [("y[:, None]", "y"), ("output[:, 0]", "output")])
            ),
            mistake("output[:, 0]", "output", "The prediction has shape (m, 1). Drop the last axis: `output[:, 0]`."),
            mistake(
                "output[:, 0]", "output.squeeze()", "`squeeze()` drops the axis of a single query too. Use `[:, 0]`."
            ),
            mistake(
                BODY,
                f"""
                kernel = ({EXPONENT.replace("distance", "(x_query[:, None] - x)")}).exp()
                kernel = kernel if mask is None else kernel * mask
                weights = kernel / kernel.sum(-1, keepdim=True)
                return weights @ y, weights
                """,
                "Far from every point all kernels underflow to 0, and 0/0 is NaN. Pass the exponents to `attend`: its softmax is stable.",
            ),
            mistake(
                ", mask)", ", None if mask is None else mask.T)", "The mask was transposed. It has a row per query."
            ),
        ],
        hints=[
            "All distances at once: `x_query[:, None] - x[None, :]` has a row per query and a column per point.",
            "softmax(-(distance / bandwidth)**2 / 2) is the Gaussian kernel divided by its sum.",
            "`attend` takes values as rows, `y[:, None]`; return the first column of its output.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.8 REINFORCE
def estimator_cases(generator):
    def inputs(n, samples):
        draws = torch.randint(n, (samples,), generator=generator)
        return normal(generator, n).softmax(0), normal(generator, n), draws

    return [
        Case(inputs(4, 6), note="no baseline"),
        Case((*inputs(3, 7), 0.5), note="a baseline"),
        Case((*inputs(5, 5), torch.tensor(-1.5)), note="the baseline is a tensor"),
        Case((*inputs(4, 1), 0.3), note="one draw"),
        Case((*inputs(6, 20), 0.1), note="twenty draws"),
        Case(
            (normal(generator, 3).softmax(0), normal(generator, 3), torch.tensor([2, 0, 2, 2])), note="a repeated draw"
        ),
    ]


LOG_PROBS, ADVANTAGE = "torch.eye(len(p))[draws] - p", "(rewards[draws] - baseline)"
register(
    Exercise(
        id="1.8",
        cases=estimator_cases,
        mistakes=[
            mistake(" - baseline", "", "The baseline has no effect. Subtract it from every reward."),
            mistake(" - baseline", " + baseline", "The baseline was added to the rewards. Subtract it."),
            mistake(
                f"({ADVANTAGE}[:, None] * log_prob_gradients).mean(0)",
                "(rewards[draws][:, None] * log_prob_gradients).mean(0) - baseline",
                "The baseline was subtracted from the gradient. Subtract it from the rewards, before the product.",
            ),
            mistake(".mean(0)", ".sum(0)", "The estimates of all draws were summed. Take their mean."),
            mistake(".mean(0)", "", "There is one estimate per draw. Take the mean over the draws: `mean(0)`."),
            mistake(".mean(0)", ".mean()", "The mean ran over the logits too. Average over the draws only: `mean(0)`."),
            mistake(
                LOG_PROBS,
                f"p - {LOG_PROBS.removesuffix(' - p')}",
                "The sign of the gradient is flipped. The derivative of log p_i is delta_ij - p_j.",
            ),
            mistake(
                LOG_PROBS,
                "torch.eye(len(p))[draws]",
                "The -p_j of the derivative is missing: a higher logit lowers all other probabilities. Subtract `p`.",
            ),
            mistake(
                LOG_PROBS,
                "(torch.eye(len(p)) - p)[draws] * p[draws][:, None]",
                "This is the gradient of p_i, not of log p_i. The draws already follow p: do not multiply by it again.",
            ),
            mistake(
                "return (",
                "return p * (",
                "The estimate was multiplied by p. The draws already follow p: take the plain mean over them.",
            ),
            mistake(
                LOG_PROBS,
                "torch.eye(len(p))[draws] / p - 1",
                "The one-hot vector was divided by p: that is a derivative with respect to p. Use the logits: delta_ij - p_j.",
            ),
            mistake(
                f"({ADVANTAGE}[:, None] * log_prob_gradients).mean(0)",
                "(rewards - baseline) * log_prob_gradients.mean(0)",
                "Each logit got its own reward. Multiply every draw by the reward of that draw: `rewards[draws]`.",
            ),
            mistake(
                f"{ADVANTAGE}[:, None]",
                "(rewards[draws].mean() - baseline)",
                "Every draw got the mean reward. Multiply each by its own reward: `rewards[draws]`.",
            ),
            mistake(
                LOG_PROBS,
                "(1 - p[draws])[:, None].expand(-1, len(p))",
                "Each draw got the number 1 - p_i. The gradient of log p_i is a vector with n entries, delta_ij - p_j.",
            ),
            mistake(
                BODY,
                "return ((rewards - baseline)[:, None] * (torch.eye(len(p)) - p)).mean(0)",
                "The draws have no effect: every choice counts once. Index rewards and one-hot rows with `draws`.",
            ),
            mistake(
                BODY,
                "return (torch.diag(p) - torch.outer(p, p)) @ (rewards - baseline)",
                "This is the exact gradient, without samples. Estimate it: take the mean over `draws`.",
            ),
            mistake(
                LOG_PROBS,
                "torch.eye(len(p))[draws] - p[draws][:, None]",
                "All logits of a draw got the same p_i. Component j needs its own p_j: subtract `p`, not `p[draws]`.",
            ),
            mistake(
                f"{ADVANTAGE}[:, None]",
                ADVANTAGE,
                "The rewards (s,) broadcast along the logits. Make them a column with `[:, None]`: one reward per row.",
            ),
            mistake(".mean(0)", ".sum(0) / len(p)", "The sum was divided by n, the number of choices. Divide by s."),
        ],
        hints=[
            "For one draw i the gradient of log p_i is a row: 1 at position i, otherwise 0, minus p.",
            "`torch.eye(len(p))[draws]` has one such one-hot row per draw, (s, n); subtract `p`.",
            "Multiply each row by `rewards[draws] - baseline`, as a column: `[:, None]`. Then take `mean(0)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- quizzes
register_quiz(
    Quiz(
        id="1.a",
        question="Add 100 to the logits 2, 1, 0 and compute the formula above as it stands, in float32. What happens to the probabilities?",
        options=[
            (
                "They stay the same: the shift cancels.",
                "It cancels on paper. But exp(102) is larger than the largest float32, about 3.4e38.",
            ),
            (
                "They become more uniform than before.",
                "Dividing the logits does that. A shift keeps their differences.",
            ),
            (
                "They become NaN: the exponentials overflow.",
                "exp(100) cancels in exact arithmetic, but in float32 it overflows first, and infinity over infinity is NaN.",
            ),
            ("The largest one moves closer to 1.", "That needs larger differences. A shift keeps all differences."),
        ],
        right=2,
        explanation="Softmax is shift invariant: only differences between logits matter. So subtract the maximum first.",
    )
)
register_quiz(
    Quiz(
        id="1.b",
        question="Take two random directions in 512 dimensions. What is the standard deviation of their cosine?",
        options=[
            ("About 0.7", "That is the value in the plane. Every further dimension makes it smaller."),
            ("About 0.3", "That is the value in about ten dimensions."),
            ("About 0.04", "One over the square root of 512."),
            ("Exactly 0", "The mean is 0, but the standard deviation is 1 / sqrt(d)."),
        ],
        right=2,
        explanation="The cosine of random directions has standard deviation 1 / sqrt(d): 0.71 for d = 2, 0.044 for d = 512.",
    )
)
register_quiz(
    Quiz(
        id="1.c",
        question="Is the output of attention a linear function of queries, keys and values?",
        options=[
            ("Yes, in all three: it is a weighted sum.", "The weights depend on queries and keys through a softmax."),
            ("In the values only, for fixed weights.", "Doubling the values doubles the output."),
            (
                "In queries and keys, but not in the values.",
                "It is the other way round: they pass through the softmax.",
            ),
            ("No, it is linear in none of the three.", "For fixed weights, doubling the values doubles the output."),
        ],
        right=1,
        explanation="Queries and keys pass through the softmax; values do not. Doubled queries sharpen the weights instead.",
    )
)
register_quiz(
    Quiz(
        id="1.d",
        question="Each point is predicted from all sixty, itself included, and h is trained. What happens to h?",
        options=[
            ("It settles where new points are predicted best.", "The training loss never measures new points."),
            (
                "It shrinks toward 0, and each point copies itself.",
                "The correct answer lies at distance 0. The narrower the kernel, the more weight it gets.",
            ),
            ("It grows until every prediction is the mean.", "The mean has a large training error. Copying has none."),
        ],
        right=1,
        explanation="A model that can attend to its own target copies it. Mask each point for itself: leave-one-out.",
    )
)

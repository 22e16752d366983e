"""Lesson 01: its exercises with the mistakes that people make in them, and its guess-first questions."""

import torch

from utils.course.checks import Case
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.exercises.edits import mistake
from utils.models import attend, attention, softmax
from utils.models.kernel_regression import kernel_regression


def normal(generator, *shape, size=1.0):
    return size * torch.randn(*shape, generator=generator)


def whole(generator, *shape):
    """Whole numbers from -2 to 2: their dot products have no rounding, in whichever order they are added up."""
    return torch.randint(-2, 3, shape, generator=generator).float()


def random_mask(generator, *shape):
    """At least one True in each row."""
    mask = torch.rand(*shape, generator=generator) > 0.5
    mask[..., 0] |= ~mask.any(-1)
    return mask


# ---------------------------------------------------------------------------------------------- 1.1 softmax
def naive_softmax(logits, temperature=1.0):
    powers = (logits / temperature).exp()
    return powers / powers.sum(-1, keepdim=True)


def softmax_less(shift):
    """A softmax that subtracts something else than the largest logit of each row."""

    def wrong(logits, temperature=1.0):
        powers = (logits / temperature - shift(logits, temperature)).exp()
        return powers / powers.sum(-1, keepdim=True)

    return wrong


def softmax_without_keepdim(logits, temperature=1.0):
    scaled = logits / temperature
    powers = (scaled - scaled.amax(-1)).exp()
    return powers / powers.sum(-1)


def softmax_over_everything(logits, temperature=1.0):
    return (logits / temperature).flatten().softmax(0).reshape(logits.shape)


def softmax_cases(generator):
    far_apart = torch.tensor([[0.0, 1.0, 2.0], [-900.0, -901.0, -903.0]]) + normal(generator, 2, 3)
    one_row_far_apart = torch.tensor([300.0, 150.0, 1000.0, -1000.0]) + normal(generator, 4)
    return [
        Case((normal(generator, 4),), note="one row, temperature 1"),
        Case((normal(generator, 3, 5),), note="a table: each row is a distribution of its own"),
        Case((normal(generator, 2, 4, 3), 0.5), note="temperature 0.5"),
        Case((normal(generator, 4, 4), 3.0), note="temperature 3"),
        Case((1000 + normal(generator, 2, 3),), note="large logits"),
        Case((far_apart,), note="rows of very different size"),
        Case((one_row_far_apart,), note="logits from -1000 to 1000 in one row"),
        Case((300 + normal(generator, 2, 4), 0.5), note="large logits and temperature 0.5"),
        Case((normal(generator, 1, 9, size=0.1),), note="a single row, of nine nearly equal logits"),
        Case((normal(generator, 3, 1, size=300),), note="rows of a single logit, whose share is 1"),
        Case((normal(generator, 2, 3, 4).transpose(0, 1),), note="a transposed tensor: not contiguous in memory"),
    ]


register(
    Exercise(
        id="1.1",
        cases=softmax_cases,
        gradient=True,
        mistakes=[
            mistake(
                naive_softmax,
                "Large logits overflow: exp(1000) is infinite and inf/inf is not a number. "
                "Subtract the largest logit of each row before the exponential; the result stays the same.",
            ),
            mistake(
                softmax_less(lambda logits, temperature: logits.max() / temperature),
                "The largest number of the whole table was subtracted, so every exponential in a low row vanishes and "
                "0/0 is left. Subtract the largest of each row: amax(-1, keepdim=True).",
            ),
            mistake(
                softmax_less(lambda logits, temperature: (logits / temperature).amin(-1, keepdim=True)),
                "The smallest logit was subtracted, so every exponent is above 0 and a row from -1000 to 1000 still "
                "overflows. Subtract the largest: then no exponent is above 0.",
            ),
            mistake(
                softmax_less(lambda logits, temperature: (logits / temperature).mean(-1, keepdim=True)),
                "The mean was subtracted, so exponents above 0 are left and a row from -1000 to 1000 still overflows. "
                "Subtract the largest: then no exponent is above 0.",
            ),
            mistake(
                softmax_less(lambda logits, temperature: logits.amax(-1, keepdim=True)),
                "The largest logit was taken before the division by the temperature and subtracted after it: large "
                "logits still overflow at a temperature below 1. Divide first, then subtract the largest of the result.",
            ),
            mistake(
                lambda logits, temperature=1.0: softmax(logits, temperature, dim=0),
                "Columns sum to 1, rows do not: the softmax ran over the first axis. It belongs on the last one.",
            ),
            mistake(
                softmax_without_keepdim,
                "The largest logits and the sums of the rows lost their axis, so they line up with the wrong one: "
                "write amax(-1, keepdim=True) and sum(-1, keepdim=True).",
            ),
            mistake(
                lambda logits, temperature=1.0: (logits / temperature - (logits / temperature).max(dim=-1)).exp(),
                "`max` with a dim returns values and indices together: take `amax(-1, keepdim=True)`.",
            ),
            mistake(
                softmax_over_everything,
                "All numbers together sum to 1, rows do not: the sum must run over the last axis only (keepdim=True).",
            ),
            mistake(
                lambda logits, temperature=1.0: softmax(logits),
                "The temperature has no effect: divide the logits by it.",
            ),
            mistake(
                lambda logits, temperature=1.0: softmax(logits, 1 / temperature),
                "The logits were multiplied by the temperature; divide by it, so that a high temperature flattens.",
            ),
            mistake(
                lambda logits, temperature=1.0: softmax(logits) / temperature,
                "Rows sum to 1/temperature: divide the logits by the temperature, before the exponential.",
            ),
            mistake(
                lambda logits, temperature=1.0: (logits / temperature).log_softmax(-1),
                "These are logarithms of probabilities (all below 0): leave the last logarithm out.",
            ),
            mistake(
                lambda logits, temperature=1.0: (logits / temperature) / (logits / temperature).sum(-1, keepdim=True),
                "The exponential is missing: without it negative logits give negative shares.",
            ),
        ],
        hints=[
            "Three steps: divide by the temperature, take the exponential, divide each row by its sum.",
            "Each row needs its own largest logit: `scaled.amax(-1, keepdim=True)`. With keepdim the shapes fit.",
            "`powers = (scaled - scaled.amax(-1, keepdim=True)).exp()`, and then?",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.2 Jacobian
def softmax_jacobian(p):
    return torch.diag(p) - torch.outer(p, p)


register(
    Exercise(
        id="1.2",
        cases=lambda generator: [
            Case((normal(generator, length, size=size).softmax(0),))
            for length, size in ((2, 1), (3, 1), (6, 3), (1, 1), (14, 1))
        ],
        mistakes=[
            mistake(
                lambda p: torch.diag(p * (1 - p)),
                "Only the diagonal is filled: raising one logit also lowers every other probability, by p_i p_j.",
            ),
            mistake(
                lambda p: p * (1 - p),
                "That is the diagonal as a vector. The Jacobian is a table (n, n): how each output moves with each logit.",
            ),
            mistake(
                lambda p: torch.outer(p, p) - torch.diag(p),
                "Every sign is flipped: raising a logit raises its own probability, so the diagonal is positive.",
            ),
            mistake(
                lambda p: torch.diag(p) + torch.outer(p, p),
                "Rows must sum to 0, because the probabilities always sum to 1: the products p_i p_j are subtracted.",
            ),
            mistake(
                lambda p: -torch.outer(p, p),
                "The Kronecker delta is missing: on the diagonal p_i is added.",
            ),
            mistake(
                lambda p: torch.eye(len(p)) - torch.outer(p, p),
                "The delta carries a factor p_i: put p on the diagonal, not ones.",
            ),
            mistake(
                lambda p: p[:, None] * (1 - p[None, :]),
                "p_i (1 - p_j) holds on the diagonal only; off the diagonal it is -p_i p_j.",
            ),
        ],
        hints=[
            "Differentiate log p_i = z_i - log(sum of exp z_j) first: the result is delta_ij - p_j.",
            "Then dp_i/dz_j = p_i times that: p_i (delta_ij - p_j).",
            "`torch.diag(p)` holds the first term and `torch.outer(p, p)` the second.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.3 cosine
def cosine_scores(query, keys):
    return keys @ query / (keys.norm(dim=-1) * query.norm())


register(
    Exercise(
        id="1.3",
        cases=lambda generator: [
            Case((normal(generator, d, size=short), normal(generator, n, d, size=long)))
            for n, d, short, long in ((3, 2, 1, 3), (4, 4, 5, 3), (2, 6, 0.1, 90), (5, 1, 1, 3), (1, 3, 90, 1))
        ],
        gradient=True,
        mistakes=[
            mistake(
                lambda query, keys: keys @ query,
                "That is the plain dot product: a longer key wins for its length alone.",
            ),
            mistake(
                lambda query, keys: keys @ query / query.norm(),
                "Only the query's length was divided out; the keys' lengths still count.",
            ),
            mistake(
                lambda query, keys: keys @ query / keys.norm(dim=-1),
                "Only the keys' lengths were divided out; the query's still counts.",
            ),
            mistake(
                lambda query, keys: keys @ query / (keys.norm() * query.norm()),
                "The length of the whole key table was used: each key has a length of its own, keys.norm(dim=-1).",
            ),
            mistake(
                lambda query, keys: keys @ query / (keys.square().sum(-1) * query.square().sum()),
                "Divided by squared lengths: the root is missing.",
            ),
            mistake(
                lambda query, keys: keys @ query / (keys.square().sum(-1) + query.square().sum()).sqrt(),
                "The two lengths are multiplied, not put under one root.",
            ),
            mistake(
                lambda query, keys: 1 - cosine_scores(query, keys),
                "That is the cosine distance: small where the match is good. A score is large where it is good.",
            ),
            mistake(
                lambda query, keys: (keys / keys.norm(dim=0)) @ (query / query.norm()),
                "The keys were divided by the length of each column; a key is a row: dim=-1.",
            ),
            mistake(
                lambda query, keys: query @ keys / (keys.norm(dim=-1) * query.norm()),
                "`query @ keys` goes through the columns of the table; a key is a row: `keys @ query`.",
            ),
            mistake(
                lambda query, keys: cosine_scores(query, keys).abs(),
                "The sign was lost: a key that points the other way has the cosine -1, not 1.",
            ),
        ],
        hints=[
            "The cosine is the dot product of the two vectors after each has been brought to length 1.",
            "`keys.norm(dim=-1)` has one length per key, `query.norm()` is one number.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.4 soft lookup
def soft_lookup(query, keys, values):
    weights = softmax(keys @ query)
    return weights @ values, weights


def lookup_cases(generator):
    def inputs(n, d, e):
        return normal(generator, d), normal(generator, n, d), normal(generator, n, e)

    def large(n, d, e):
        """Every score is 200 plus a small whole number."""
        query, keys = whole(generator, d), whole(generator, n, d)
        query[0], keys[:, 0] = 20.0, 10.0
        return query, keys, normal(generator, n, e, size=90)

    return [
        *(Case(inputs(n, d, e)) for n, d, e in ((3, 2, 4), (4, 4, 4), (1, 3, 2), (6, 5, 1), (3, 1, 2))),
        Case(large(4, 3, 2), note="scores of about 200 and large values"),
    ]


def lookup_with(weigh):
    """A lookup that weighs the keys in another way."""

    def lookup(query, keys, values):
        weights = weigh(query, keys)
        return weights @ values, weights

    return lookup


register(
    Exercise(
        id="1.4",
        cases=lookup_cases,
        gradient=True,
        output_names=("output", "weights"),
        mistakes=[
            mistake(
                lambda query, keys, values: (softmax(keys @ query) @ keys, softmax(keys @ query)),
                "The keys were mixed. Keys only say where to look; the values are what is fetched.",
            ),
            mistake(
                lookup_with(lambda query, keys: softmax(query @ keys)),
                "`query @ keys` adds up over the keys. Each row of `keys` is one key: `keys @ query` is one score for each.",
            ),
            mistake(
                lambda query, keys, values: ((softmax(keys @ query) * values).sum(0), softmax(keys @ query)),
                "The weights lie along the wrong axis of `values`: write `weights @ values`, or give them a second axis.",
            ),
            mistake(
                lookup_with(lambda query, keys: keys @ query),
                "The raw scores were used as weights: put them through softmax, so that they are shares that sum to 1.",
            ),
            mistake(
                lookup_with(
                    lambda query, keys: torch.nn.functional.one_hot((keys @ query).argmax(), len(keys)).float()
                ),
                "That is a hard lookup: one key takes all and no gradient reaches the query. Use softmax.",
            ),
            mistake(
                lookup_with(lambda query, keys: torch.full((len(keys),), 1 / len(keys))),
                "Every key got the same weight: the query was not compared with the keys.",
            ),
            mistake(
                lookup_with(lambda query, keys: softmax(keys @ query / len(query) ** 0.5)),
                "The scores were divided by a square root. Lesson 04 shows why; here they are the plain dot products.",
            ),
            mistake(
                lookup_with(lambda query, keys: softmax(cosine_scores(query, keys))),
                "Those are cosine scores. Here the scores are the plain dot products of the query with each key.",
            ),
            mistake(
                lookup_with(lambda query, keys: softmax(-keys @ query)),
                "The worst match got the most weight: the scores have the wrong sign.",
            ),
            mistake(
                lookup_with(lambda query, keys: naive_softmax(keys @ query)),
                "Right as long as the scores are small; scores of about 200 overflow, and inf/inf is not a number. "
                "Use your stable `softmax` of exercise 1.1.",
            ),
            mistake(
                lambda query, keys, values: soft_lookup(query, keys, values)[::-1],
                "The two results are swapped: the output comes first, then the weights.",
            ),
            mistake(
                lambda query, keys, values: soft_lookup(query, keys, values)[0],
                "Only the output came back: return the output and the weights.",
            ),
        ],
        hints=[
            "Score, softmax, mix: three lines.",
            "`keys @ query` has one score for each key.",
            "`weights @ values` adds up the rows of `values`, each times its weight.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.5 attend
def attend_with(weigh):
    """An `attend` that turns scores and mask into weights in another way."""

    def wrong(scores, value, mask=None):
        weights = weigh(scores, torch.ones_like(scores, dtype=torch.bool) if mask is None else mask)
        return weights @ value, weights

    return wrong


def filled(scores, mask, number):
    return scores.masked_fill(~mask, number)


def sees(mask):
    """Rows that may look somewhere."""
    return mask.any(-1, keepdim=True)


def renormalised(weights, mask, smallest=1e-30):
    """Cut by the mask and divided by what is left; zeros where nothing is."""
    weights = weights * mask
    return weights / weights.sum(-1, keepdim=True).clamp_min(smallest)


unguarded = attend_with(lambda scores, mask: filled(scores, mask, float("-inf")).softmax(-1))
TOO_SMALL_A_NUMBER = (
    "Masked scores were set to a negative number that real scores can go below, and there the masked places win. "
    "Set them to minus infinity: nothing is below that."
)
OVERFLOW = (
    "Right as long as the scores are small; scores of about 200 overflow, and inf/inf is not a number. "
    "Use your stable `softmax` of exercise 1.1."
)


def unguarded_scores(scores, value):
    return scores.softmax(-1) @ value, scores.softmax(-1)


def truth_of_a_mask(scores, value, mask=None):
    if mask:
        return unguarded(scores, value, mask)
    return unguarded_scores(scores, value)


def attend_cases(generator):
    def blind(*shape):
        """The first and the last of all rows see nothing, the others something."""
        mask = random_mask(generator, *shape)
        mask.view(-1, shape[-1])[[0, -1]] = False
        return mask

    def tables(*lead, m, n, e):
        return normal(generator, *lead, m, n), normal(generator, *lead, n, e)

    lower = torch.ones(4, 4).tril().bool()
    return [
        Case(tables(m=4, n=5, e=3), note="no mask"),
        Case(tables(m=3, n=3, e=3), note="a square table, no mask"),
        Case(
            (200 + normal(generator, 1, 4), normal(generator, 4, 1)), note="one query with scores of about 200, no mask"
        ),
        Case((*tables(m=4, n=4, e=3), lower), note="a square table with a mask"),
        Case((*tables(2, m=4, n=5, e=3), random_mask(generator, 2, 4, 5)), note="a batch with a mask"),
        Case((*tables(2, 3, m=4, n=5, e=2), random_mask(generator, 4, 5)), note="one mask for the whole batch"),
        Case((*tables(2, m=3, n=4, e=2), random_mask(generator, 2, 1, 4)), note="one mask row for all queries"),
        Case((*tables(m=3, n=5, e=2), blind(3, 5)), note="rows 0 and 2 may look nowhere"),
        Case((*tables(2, m=3, n=4, e=2), blind(2, 3, 4)), note="a batch in which two rows may look nowhere"),
        Case((*tables(m=2, n=3, e=2), torch.zeros(2, 3).bool()), note="nobody may look anywhere"),
        Case((*tables(1, m=1, n=4, e=1), random_mask(generator, 1, 1, 4)), note="one query, values of width 1"),
        Case((*tables(m=3, n=1, e=2), torch.tensor([[True], [False], [True]])), note="one key"),
        Case((normal(generator, 5, 3).T, normal(generator, 2, 5).T), note="transposed tables: not contiguous"),
        large_scores(generator),
    ]


def large_scores(generator):
    """Rows of about 200, of about -200, and one with its largest score behind the mask."""
    scores, mask = normal(generator, 3, 4), random_mask(generator, 3, 4)
    scores += torch.tensor([[200.0], [-200.0], [0.0]])
    mask[:, 0], mask[:, 1] = True, False
    scores[2, 1] = 200.0
    return Case((scores, normal(generator, 4, 2, size=90), mask), note="scores from -200 to 200")


register(
    Exercise(
        id="1.5",
        cases=attend_cases,
        gradient=True,
        output_names=("output", "weights"),
        mistakes=[
            mistake(
                truth_of_a_mask,
                "`if mask:` asks a whole table whether it is true. Ask whether there is one: `if mask is not None:`.",
            ),
            mistake(
                lambda scores, value, mask=None: unguarded_scores(
                    scores if mask is None else scores + (~mask).float() * float("-inf"), value
                ),
                "0 times minus infinity is not a number, so adding a mask times minus infinity ruins every row: "
                "use `masked_fill(~mask, ...)`.",
            ),
            mistake(
                unguarded,
                "A row that may look nowhere gave not-a-number: minus infinity in a whole row leaves 0/0. "
                "Such a row must get zero weights.",
            ),
            mistake(
                attend_with(lambda scores, mask: filled(scores, mask, -1e9).softmax(-1)),
                "A row that may look nowhere looked everywhere: with one large negative number in all places softmax "
                "is uniform again. Such a row must get zero weights.",
            ),
            mistake(
                attend_with(lambda scores, mask: filled(scores, mask, -50.0).softmax(-1)),
                TOO_SMALL_A_NUMBER,
            ),
            mistake(
                attend_with(lambda scores, mask: filled(scores, mask, -50.0).softmax(-1) * sees(mask)),
                TOO_SMALL_A_NUMBER,
            ),
            mistake(
                attend_with(lambda scores, mask: filled(scores, mask, -50.0).softmax(-1) * mask),
                TOO_SMALL_A_NUMBER,
            ),
            mistake(attend_with(lambda scores, mask: renormalised(scores.exp(), mask)), OVERFLOW),
            mistake(attend_with(lambda scores, mask: naive_softmax(filled(scores, mask, float("-inf")))), OVERFLOW),
            mistake(
                attend_with(lambda scores, mask: renormalised(scores.softmax(-1), mask)),
                "A large score behind the mask still matters: it took all the weight in the softmax, and nothing was "
                "left to divide by. Mask the scores before the softmax; then a masked score has no effect at all.",
            ),
            mistake(
                attend_with(lambda scores, mask: renormalised(scores.softmax(-1), mask, smallest=0.0)),
                "The weights were cut after the softmax and divided by what was left; where nothing is left that is 0/0, "
                "not a number. Mask the scores before the softmax.",
            ),
            mistake(
                attend_with(lambda scores, mask: scores.softmax(-1)),
                "The mask has no effect: masked places still get weight.",
            ),
            mistake(
                lambda scores, value, mask=None: attend(scores, value, None if mask is None else ~mask),
                "The mask is upside down: True means 'may look'.",
            ),
            mistake(
                lambda scores, value, mask=None: unguarded(scores, value, None if mask is None else ~mask),
                "The mask is upside down: True means 'may look'.",
            ),
            mistake(
                attend_with(lambda scores, mask: scores.softmax(-1) * mask),
                "Rows with a mask sum to less than 1: the weights were cut after the softmax. Mask the scores before it.",
            ),
            mistake(
                attend_with(lambda scores, mask: (scores * mask).softmax(-1)),
                "Masked scores were set to 0, and exp(0) = 1 still weighs. Set them to minus infinity.",
            ),
            mistake(
                attend_with(lambda scores, mask: scores.softmax(-2)),
                "Rows do not sum to 1: the softmax ran over the queries. Each row is one query; use the last axis.",
            ),
            mistake(
                lambda scores, value, mask=None: (attend(scores, value, mask)[0], scores.softmax(-1)),
                "The weights that came back are not the ones that were used: return them with the mask applied.",
            ),
            mistake(
                lambda scores, value, mask=None: (attend(scores, value, mask)[0], scores),
                "The second result is the scores; return the weights, after the softmax.",
            ),
        ],
        hints=[
            "Without a mask it is two steps: softmax over the last axis, then `weights @ value`.",
            "`scores.masked_fill(~mask, float('-inf'))` before the softmax gives masked places the weight exp(-inf) = 0.",
            "A row that may look nowhere must not be filled at all: `nowhere = ~mask.any(-1, keepdim=True)`; "
            "fill where neither `mask` nor `nowhere`, and set the weights of `nowhere` to 0 after the softmax.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.6 attention
def attention_with(score):
    def wrong(query, key, value, mask=None, scale=None):
        return attend(score(query, key, value, scale), value, mask)

    return wrong


def dots(query, key):
    return query @ key.transpose(-2, -1)


def root(width):
    return width**-0.5


def scores_by_key(query, key, value, scale):
    return dots(key, query) * (root(query.size(-1)) if scale is None else scale)


unsuspecting_attend = attend_with(lambda scores, mask: filled(scores, mask, -1e30).softmax(-1) * mask)
ROW_PER_KEY = (
    "The scores have a row per key; each query is a row and each key a column: `query @ key.transpose(-2, -1)`."
)


def attention_cases(generator):
    def inputs(*lead, m, n, d, e):
        return normal(generator, *lead, m, d), normal(generator, *lead, n, d), normal(generator, *lead, n, e)

    def side_by_side(m, n, d, e):
        """Two tables each, their rows interleaved in memory."""
        return tuple(normal(generator, rows, 2, width).transpose(0, 1) for rows, width in ((m, d), (n, d), (n, e)))

    def large(m, n, d, e):
        """Every dot product is 200 plus a small whole number."""
        query, key = whole(generator, m, d), whole(generator, n, d)
        query[:, 0], key[:, 0] = 20.0, 10.0
        return query, key, normal(generator, n, e, size=90)

    return [
        Case((*inputs(m=4, n=5, d=3, e=2), None, 1.0), note="scale=1"),
        Case((*inputs(2, m=4, n=5, d=3, e=6), None, 1.0), note="a batch, scale=1"),
        Case(inputs(2, m=4, n=5, d=3, e=6), note="scale=None"),
        Case((*inputs(2, 3, m=4, n=5, d=6, e=2), random_mask(generator, 2, 1, 4, 5)), {"scale": 0.3}, note="a mask"),
        Case(inputs(m=3, n=3, d=3, e=3), note="all sizes equal, scale=None"),
        Case((*inputs(m=4, n=4, d=2, e=3), torch.ones(4, 4).tril(-1).bool()), note="row 0 may look nowhere"),
        Case((*inputs(1, m=1, n=4, d=3, e=1), None, 1), note="one query, values of width 1"),
        Case(side_by_side(m=2, n=4, d=3, e=2), note="a transposed batch: not contiguous in memory"),
        Case((*inputs(m=2, n=3, d=4, e=2), None, 0.0), note="scale=0: all keys weigh the same"),
        Case((*large(m=2, n=4, d=3, e=2), None, 1.0), note="scores of about 200"),
    ]


register(
    Exercise(
        id="1.6",
        cases=attention_cases,
        gradient=True,
        output_names=("output", "weights"),
        mistakes=[
            mistake(
                attention_with(lambda q, k, v, scale: dots(q, k) * (1.0 if scale is None else scale)),
                "scale=None was taken as 1; it means one over the square root of the query's width.",
            ),
            mistake(
                attention_with(lambda q, k, v, scale: dots(q, k) * root(q.size(-1))),
                "The `scale` argument has no effect: it is always one over the square root.",
            ),
            mistake(attention_with(lambda q, k, v, scale: dots(q, k)), "The `scale` argument has no effect."),
            mistake(
                attention_with(lambda q, k, v, scale: dots(q, k) * (scale or root(q.size(-1)))),
                "scale=0 was taken for scale=None, because 0 counts as false: ask `scale is None`, not `if scale` or `scale or`.",
            ),
            mistake(
                attention_with(
                    lambda q, k, v, scale: dots(q, k) * root(q.size(-1)) * (1.0 if scale is None else scale)
                ),
                "A given `scale` was multiplied with the default one; it takes its place.",
            ),
            mistake(
                lambda query, key, value, mask=None, scale=None: unguarded(
                    dots(query, key) * (root(query.size(-1)) if scale is None else scale), value, mask
                ),
                "A row that may look nowhere gave not-a-number. `attend` takes care of such rows: call it.",
            ),
            mistake(
                attention_with(lambda q, k, v, scale: dots(q, k) / (q.size(-1) ** 0.5 if scale is None else scale)),
                "The scores were divided by `scale`; they are multiplied by it.",
            ),
            mistake(
                attention_with(lambda q, k, v, scale: dots(q, k) * (root(v.size(-1)) if scale is None else scale)),
                "The default scale came from the width of the values; it comes from the width that the dot product sums over.",
            ),
            mistake(
                attention_with(lambda q, k, v, scale: dots(q, k) * (root(k.size(-2)) if scale is None else scale)),
                "The default scale came from the number of keys; it comes from their width.",
            ),
            mistake(
                attention_with(lambda q, k, v, scale: dots(q, k) * (1 / q.size(-1) if scale is None else scale)),
                "The default scale is one over the square root of the width; here the root is missing.",
            ),
            mistake(
                attention_with(lambda q, k, v, scale: dots(q, k) * (q.size(-1) ** 0.5 if scale is None else scale)),
                "The scores were multiplied by the square root; the default scale is one over it.",
            ),
            mistake(
                lambda query, key, value, mask=None, scale=None: attention(query, key, value, None, scale),
                "The mask has no effect: pass it on to `attend`.",
            ),
            mistake(
                attention_with(lambda q, k, v, scale: q @ k.T * (root(q.size(-1)) if scale is None else scale)),
                "`.T` turns all axes around; in a batch only the last two may swap: `key.transpose(-2, -1)`.",
            ),
            mistake(
                attention_with(lambda q, k, v, scale: q @ k * (root(q.size(-1)) if scale is None else scale)),
                "`query @ key` does not compare queries with keys: both have them as rows, so the key is transposed, "
                "`key.transpose(-2, -1)`.",
            ),
            mistake(attention_with(scores_by_key), ROW_PER_KEY),
            mistake(  # a student's own `attend` leaves it to torch to complain
                lambda query, key, value, mask=None, scale=None: unsuspecting_attend(
                    scores_by_key(query, key, value, scale), value, mask
                ),
                ROW_PER_KEY,
            ),
            mistake(
                attention_with(
                    lambda q, k, v, scale: q @ k.mT.flip(-1) * (root(q.size(-1)) if scale is None else scale)
                ),
                "The scores belong to the keys in reversed order.",
            ),
        ],
        hints=[
            "`attend` does the second half. What is missing is a table of scores with one row per query and one column per key.",
            "`query @ key.transpose(-2, -1)` gives all dot products at once, in batches too.",
            "`scale = query.size(-1) ** -0.5 if scale is None else scale`, and the scores are multiplied by it.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 1.7 kernel regression
def regression_with(score):
    def wrong(x_query, x, y, bandwidth, mask=None):
        output, weights = attend(score(x_query[:, None] - x[None, :], bandwidth), y[:, None], mask)
        return output[:, 0], weights

    return wrong


def kernel_by_hand(x_query, x, y, bandwidth, mask=None):
    kernel = (-(((x_query[:, None] - x) / bandwidth) ** 2) / 2).exp()
    kernel = kernel if mask is None else kernel * mask
    weights = kernel / kernel.sum(-1, keepdim=True)
    return weights @ y, weights


def regression_cases(generator):
    def curve(m, n):
        return normal(generator, m), normal(generator, n), normal(generator, n)

    def far(m, n):
        """At bandwidth 0.5 every exponent is below -100 and free of rounding."""
        return 12 + whole(generator, m) / 4, whole(generator, n) / 4, normal(generator, n, size=90)

    return [
        Case((*curve(3, 5), 0.7), note="bandwidth 0.7"),
        Case((*curve(4, 4), 1.0), note="as many questions as points"),
        Case((*curve(2, 6), torch.tensor(2.0)), note="the bandwidth is a tensor"),
        Case((*curve(5, 5), 0.5, ~torch.eye(5, dtype=torch.bool)), note="a mask"),
        Case((*curve(4, 4), 0.5, torch.ones(4, 4).tril().bool()), note="a mask that is not symmetric"),
        Case((*curve(1, 4), 0.7), note="one question"),
        Case((*curve(3, 1), 0.7), note="one point"),
        Case((*far(3, 5), 0.5), note="questions far from every point"),
    ]


register(
    Exercise(
        id="1.7",
        cases=regression_cases,
        gradient=True,
        output_names=("prediction", "weights"),
        mistakes=[
            mistake(
                regression_with(lambda gap, h: gap**2 / (2 * h**2)),
                "Far points weigh most: the minus sign is missing.",
            ),
            mistake(
                regression_with(lambda gap, h: -(gap**2) / (2 * h)),
                "The bandwidth is not squared: it stands in units of x, like a standard deviation.",
            ),
            mistake(regression_with(lambda gap, h: -(gap**2) / h**2), "The factor 1/2 of the Gaussian is missing."),
            mistake(
                regression_with(lambda gap, h: -gap.abs() / h), "Distances were not squared: a Gaussian is asked for."
            ),
            mistake(
                regression_with(lambda gap, h: -((gap * h) ** 2) / 2),
                "The distance was multiplied by the bandwidth; a wide kernel must look further, so divide by it.",
            ),
            mistake(
                regression_with(lambda gap, h: -(gap**2) / 2),
                "The bandwidth has no effect: divide the distances by it.",
            ),
            mistake(
                regression_with(lambda gap, h: (-(gap**2) / (2 * h**2)).exp()),
                "The exponential was taken twice: `attend` already has a softmax. Give it the exponent as the score.",
            ),
            mistake(
                lambda x_query, x, y, bandwidth, mask=None: kernel_regression(x_query, x, y, bandwidth),
                "The mask has no effect: pass it on to `attend`.",
            ),
            mistake(
                lambda x_query, x, y, bandwidth, mask=None: (
                    kernel_regression(x_query, x, y, bandwidth, mask)[0][:, None],
                    kernel_regression(x_query, x, y, bandwidth, mask)[1],
                ),
                "The prediction is a column (m, 1): drop the last axis, so that there is one number per question.",
            ),
            mistake(
                lambda x_query, x, y, bandwidth, mask=None: (
                    kernel_regression(x_query, x, y, bandwidth, mask)[0].squeeze(),
                    kernel_regression(x_query, x, y, bandwidth, mask)[1],
                ),
                "Asked one question, it answered with a number instead of a list of one: `squeeze()` drops every axis of "
                "length 1. Drop the last one only: `[:, 0]` or `squeeze(-1)`.",
            ),
            mistake(
                kernel_by_hand,
                "Far from every point all kernels are 0 in 32-bit numbers, and 0/0 is not a number. Give the exponents to "
                "`attend`: its softmax subtracts the largest first.",
            ),
            mistake(
                lambda x_query, x, y, bandwidth, mask=None: kernel_regression(
                    x_query, x, y, bandwidth, None if mask is None else mask.T
                ),
                "The mask was transposed: it has a row per question and a column per point, like the distances.",
            ),
        ],
        hints=[
            "All distances at once: `x_query[:, None] - x[None, :]` has a row per question and a column per point.",
            "softmax(-(distance / bandwidth)**2 / 2) is the Gaussian kernel divided by its sum.",
            "`attend` wants values as rows: `y[:, None]`; take the first column of what comes back.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="1.a",
        question="Add 100 to every logit. What happens to the shares?",
        options=[
            (
                "Nothing, whatever the computer.",
                "In mathematics, yes. Now look at what 32-bit numbers do with exp(102).",
            ),
            (
                "They come closer to equal.",
                "That is what a high temperature does: it shrinks differences. A shift keeps them.",
            ),
            (
                "Nothing in mathematics; in 32-bit numbers the plain formula breaks.",
                "exp(100) cancels in the fraction, but it is larger than the largest 32-bit number, about 3.4e38.",
            ),
            ("The largest takes everything.", "That would need larger differences. A shift keeps all differences."),
        ],
        right=2,
        explanation="Only differences between logits matter, so one may subtract the largest first. That is the cure.",
    )
)
register_quiz(
    Quiz(
        id="1.b",
        question="Two random directions in 512 dimensions. How far does their cosine spread around 0 (standard deviation)?",
        options=[
            (
                "By 0.7, as in the plane.",
                "In the plane it is that large. Every further dimension is one more way to differ.",
            ),
            ("By 0.3.", "Too far: that is the spread in about ten dimensions."),
            ("By 0.04.", "One over the square root of 512."),
            ("Not at all: it is 0.", "On average 0, but it does spread, by one over the root of the dimension."),
        ],
        right=2,
        explanation="The cosine of random directions spreads by one over the root of d: 0.71 for d = 2, 0.044 for d = 512.",
    )
)
register_quiz(
    Quiz(
        id="1.c",
        question="Is attention a linear function of its inputs?",
        options=[
            ("Yes: it is a weighted sum.", "A weighted sum of the values, but the weights come out of a softmax."),
            (
                "Linear in the values while the weights stay the same; not in queries or keys.",
                "Double the values and the output doubles. Double the queries and the weights sharpen instead.",
            ),
            ("No, not in any of them.", "It is linear in the values: double all of them and the output doubles."),
        ],
        right=1,
        explanation="The softmax stands between queries, keys and the output; nothing stands between the values and it.",
    )
)
register_quiz(
    Quiz(
        id="1.d",
        question="Every point is predicted from all sixty, itself included, and h is trained. What will h do?",
        options=[
            ("Settle where the prediction of new points is best.", "Nothing in this training asks about new points."),
            (
                "Shrink towards 0: each point copies itself.",
                "At distance 0 lies the perfect answer. The narrower the kernel, the more of it is used.",
            ),
            ("Grow without end: averaging everything is safest.", "Then every point would be predicted by the mean."),
        ],
        right=1,
        explanation="A model that may look at the answer learns to look at the answer. Hide each point from itself.",
    )
)

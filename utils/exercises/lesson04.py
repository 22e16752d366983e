"""Lesson 04: its exercises with the mistakes that people make in them, and its guess-first questions."""

import inspect

import torch
from torch import nn

from utils.checks.compare import Case, Wrong, a_thing
from utils.exercises.common import mask_with_empty_row, normal, random_mask
from utils.exercises.edits import BODY, mistake, replacing
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register
from utils.exercises.solutions import lesson04 as solved


def edits_of(messages):
    """Mistakes that each replace one text of the solution: {old text: {new text: message}}."""
    return [wrong for old, changed in messages.items() for wrong in replacing(old, changed)]


# ---------------------------------------------------------------------------------------------- 4.1 by loops
def loop_cases(generator):
    def case(n, d, d_k, e, note=""):
        sizes = (n, d), (d, d_k), (d, d_k), (d, e)
        return Case(tuple(normal(generator, *size) for size in sizes), note=note)

    # Whole numbers: these large scores come out the same in whatever order they are added up.
    tall = torch.tensor([[14.0, 0, 1], [0, 15, 2], [-13, 2, 0], [1, -12, 3]])
    large = Case((tall, torch.eye(3, 2), torch.eye(3, 2), normal(generator, 3, 5)), note="large scores")
    return [
        case(4, 3, 2, 5),
        case(3, 5, 4, 2),
        case(5, 2, 6, 3),
        case(1, 4, 3, 2, note="one token"),
        case(3, 3, 3, 3, note="all sizes equal"),
        large,
    ]


# Messages of 4.1 and 4.2, some of them of 4.9 too
NO_SCALE = "The scores were not scaled. Divide them by the square root of d_k before the softmax."
WIDTH_OF_X = "The scores were divided by the square root of d, the width of X. Use d_k, the width of the keys."
BY_D_K = "The scores were divided by d_k itself. Divide by its square root."
WIDTH_OF_VALUES = "The scores were divided by the square root of the values' width. Use d_k, the keys' width."
TOKEN_COUNT = "The scores were divided by the square root of the number of tokens. Use d_k, the width of the keys."
MULTIPLIED = "The scores were multiplied by the square root of d_k. Divide by it."
SWAPPED_ROLES = "Queries and keys are swapped. Row i holds the scores of query i with every key."
RAW_VALUES = "The values were not projected. Use `X @ W_V`."
KEYS_AS_VALUES = "The output is a weighted sum of the keys. Use the values, `X @ W_V`."
KEYS_BY_W_Q = "The keys were computed with W_Q. Use `X @ W_K`."
NO_PROJECTION = "Queries and keys were not projected. Score `X @ W_Q` against `X @ W_K`."
RAW_KEYS = "The keys were not projected. Use `X @ W_K`."
TRANSPOSED = "The projection matrices were transposed. Tokens are the rows of X, so write `X @ W_Q` without `.T`."
FROM_THE_LEFT = "The projection matrices were multiplied from the left. Tokens are the rows of X, so write `X @ W_Q`."
OVER_QUERIES = "The softmax ran over the queries: columns sum to 1. Normalize over the keys, so that rows sum to 1."
OVER_BOTH = "The softmax ran over the whole matrix. Normalize each row on its own, over the keys."
NO_SOFTMAX = "The softmax is missing: the attention weights are raw scores."
SIGMOID = "The sigmoid treats each score alone. Use a softmax over the keys, so that each row sums to 1."
SUM_DIVIDED = "The scores were divided by their sum, so weights can be negative. `softmax` exponentiates first."
TWO_SOFTMAXES = "The softmax was applied twice, which flattens the attention weights. Apply it once."
OVERFLOW = "Large scores overflow: exp(100) is infinite in float32. Use `softmax`, or subtract the maximum first."
RESIDUAL = "The token's own value was added to the output. Return the weighted sum alone."
RESULTS_SWAPPED = "The two results are swapped. Return the output first, then the attention weights."
WEIGHTS_TRANSPOSED = "The attention weights are transposed. Row i holds the weights of query i."
BY_COLUMNS = "The output was computed with the columns of the attention weights. Output i uses row i."

MATRICES, LOOP_SOFTMAX = "X @ W_Q, X @ W_K, X @ W_V", "torch.softmax(scores / len(query) ** 0.5, 0)"
LATE_SCALE = "The division came after the softmax, so the weights do not sum to 1. Divide the scores first."


def loop_by_matrix(weights):
    scores = "scores = X @ W_Q @ (X @ W_K).T / W_Q.size(1) ** 0.5"
    return f"{scores}\nweights = {weights}\nreturn weights @ (X @ W_V), weights"


register(
    Exercise(
        id="4.1",
        cases=loop_cases,
        output_names=("output", "weights"),
        mistakes=edits_of(
            {
                "len(query)": {"X.size(1)": WIDTH_OF_X, "W_V.size(1)": WIDTH_OF_VALUES, "len(X)": TOKEN_COUNT},
                "len(query) ** 0.5": {"len(query)": BY_D_K},
                "scores / len": {"scores * len": MULTIPLIED},
                "queries, keys, values =": {"keys, queries, values =": SWAPPED_ROLES},
                "X @ W_V": {"X": RAW_VALUES, "X @ W_K": KEYS_AS_VALUES},
                "X @ W_K": {"X @ W_Q": KEYS_BY_W_Q, "X": RAW_KEYS},
                "X @ W_Q, X @ W_K": {"X, X": NO_PROJECTION},
                MATRICES: {"X @ W_Q.T, X @ W_K.T, X @ W_V.T": TRANSPOSED, "W_Q @ X, W_K @ X, W_V @ X": FROM_THE_LEFT},
                BODY: {
                    loop_by_matrix("scores.softmax(0)"): OVER_QUERIES,
                    loop_by_matrix("scores.flatten().softmax(0).view(scores.shape)"): OVER_BOTH,
                    loop_by_matrix("scores.exp() / scores.exp().sum(1, keepdim=True)"): OVERFLOW,
                },
                LOOP_SOFTMAX: {
                    "torch.softmax(scores, 0)": NO_SCALE,
                    "torch.softmax(scores, 0) / len(query) ** 0.5": LATE_SCALE,
                    "scores / len(query) ** 0.5": NO_SOFTMAX,
                    "torch.sigmoid(scores / len(query) ** 0.5)": SIGMOID,
                    "scores / scores.sum()": SUM_DIVIDED,
                    f"{LOOP_SOFTMAX}.softmax(0)": TWO_SOFTMAXES,
                },
                "torch.stack(output)": {
                    "torch.stack(output) + values": RESIDUAL,
                    "torch.stack(weights).T @ values": BY_COLUMNS,
                    "torch.stack(output).cumsum(0)": "Each output includes the outputs before it. Start the sum at zero for every query.",
                    "torch.stack(output) / len(X)": "The output is a mean of the weighted values. The weights already sum to 1, so take the sum.",
                },
                "torch.stack(weights)": {
                    "torch.stack(weights).T": WEIGHTS_TRANSPOSED,
                    "queries @ keys.T / W_Q.size(1) ** 0.5": "The second result holds the scores. Return the attention weights, after the softmax.",
                },
                "torch.stack(output), torch.stack(weights)": {
                    "torch.stack(weights), torch.stack(output)": RESULTS_SWAPPED
                },
                "sum(w * value for w, value in zip(weights[-1], values, strict=True))": {
                    "weights[-1][-1] * values[-1]": "Only the last value reached the output. Add up weight times value over all tokens."
                },
            }
        ),
        hints=[
            "`X @ W_Q`, `X @ W_K` and `X @ W_V` are the queries, keys and values, one row per token.",
            "For one query: its dot products with all keys, divided by the square root of d_k, then `softmax` over the keys.",
            "Its output is the sum of weight times value. Collect outputs and weights in lists and `torch.stack` them.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.2 by matrices
def matrix_cases(generator):
    def case(b, n, d, d_k, e, mask=None, note="", by_name=False):
        sizes = (n, d) if b is None else (b, n, d), (d, d_k), (d, d_k), (d, e)
        args = tuple(normal(generator, *size) for size in sizes)
        if mask is None:
            return Case(args, note=note)
        return Case(args, {"mask": mask}, note) if by_name else Case((*args, mask), note=note)

    tokens = torch.arange(4) < torch.tensor([[3], [1], [4]])
    return [
        case(2, 4, 3, 5, 6, note="no mask"),
        case(3, 5, 4, 2, 3, mask_with_empty_row(generator, 3, 5), note="one query with every key masked"),
        case(2, 4, 6, 3, 5, random_mask(generator, 4, 4), note="one mask for the whole batch"),
        case(3, 4, 2, 6, 5, tokens.unsqueeze(1), note="a mask (b, 1, n)", by_name=True),
        case(2, 1, 4, 3, 2, note="one token"),
        case(1, 3, 5, 4, 2, note="a batch of one"),
        case(None, 4, 3, 2, 5, note="no batch axis"),
        case(None, 5, 2, 3, 4, random_mask(generator, 5, 5), note="no batch axis, with a mask"),
        case(3, 3, 3, 3, 3, note="all sizes equal"),
    ]


def rows_add_up(answer, generator):
    case = matrix_cases(generator)[0]
    _, weights = answer(*case.args)
    if not torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=weights.dtype), atol=1e-4):
        raise Wrong("The attention weights of a query do not sum to 1. Apply the softmax over the keys, the last axis.")


def by_hand(projected, weights):
    """Attention written out: code in which `weights` is computed from query, key, value, scores and mask."""
    scores = "scores = query @ key.mT * query.size(-1) ** -0.5"
    return f"query, key, value = {projected}\n{scores}\nweights = {weights}\nreturn weights @ value, weights"


INVERTED = "The mask is inverted. True means may attend; pass `mask` on unchanged."
MASKED_SCORES = {
    "scores": "The mask has no effect. Pass it to `attention`.",
    "scores.masked_fill(mask, float('-inf'))": INVERTED,
    "scores.masked_fill(~mask, float('-inf'))": "A query with every key masked got NaN (0 / 0). Its output must be zeros: pass the mask to `attention`.",
    "scores.masked_fill(~mask, -1e9)": "A query with every key masked got the mean of all values. Its output must be zeros: pass the mask to `attention`.",
    "scores.masked_fill(~mask, 0.0)": "Masked scores were set to 0, and exp(0) = 1. Set them to minus infinity: pass the mask to `attention`.",
    "scores + mask": "The mask was added to the scores as zeros and ones. Pass it to `attention`, which sets masked scores to minus infinity.",
}
MASKS = {
    **{f"(scores if mask is None else {scores}).softmax(-1)": message for scores, message in MASKED_SCORES.items()},
    "scores.softmax(-1) * (1 if mask is None else mask)": "The mask was applied after the softmax, so rows no longer sum to 1. Mask the scores: pass it to `attention`.",
    "attention(query, key, value, None if mask is None else ~mask)[1]": INVERTED,
    "attention(query, key, value, None if mask is None else mask.expand(scores.shape).mT)[1]": "The mask is transposed. Its row i belongs to query i, as in the attention weights.",
}


def scored(scores):
    """The scores made in a way of its own; times the identity, `attention` leaves them alone."""
    return f"return attention({scores}, torch.eye(X.size(-2)), X @ W_V, mask, scale=W_Q.size(-1) ** -0.5)"


def changed(results):
    return f"output, weights = attention({MATRICES}, mask)\nreturn {results}"


FROM_THE_END = "X may come without a batch axis. Count axes from the end: `transpose(-2, -1)`, not `transpose(1, 2)`."
T_OF_A_BATCH = "`.T` reverses all three axes of a batch. Use `transpose(-2, -1)`; `attention` does it for you."
BMM = "X may come without a batch axis, and `bmm` needs three axes. Use `@`, which multiplies the last two."
EINSUM = 'X may come without a batch axis. Let `einsum` take any leading axes: "...nk,...mk->...nm".'
UNPACKED = "X may come without a batch axis: its shape does not unpack into three. Use `X.size(-2)`, `X.size(-1)`."

register(
    Exercise(
        id="4.2",
        cases=matrix_cases,
        gradient=True,
        output_names=("output", "weights"),
        properties=[rows_add_up],
        mistakes=edits_of(
            {
                "mask)": {
                    "mask, scale=1.0)": NO_SCALE,
                    "mask, scale=X.size(-1) ** -0.5)": WIDTH_OF_X,
                    "mask, scale=1 / W_Q.size(-1))": "The scores were divided by d_k itself. Divide by its square root once; `attention` already does.",
                    "mask, scale=W_V.size(-1) ** -0.5)": WIDTH_OF_VALUES,
                    "mask, scale=X.size(-2) ** -0.5)": TOKEN_COUNT,
                    "mask, scale=W_Q.size(-1) ** 0.5)": MULTIPLIED,
                },
                "X @ W_V": {"X": RAW_VALUES, "X @ W_K": KEYS_AS_VALUES},
                "X @ W_K": {"X @ W_Q": KEYS_BY_W_Q, "X": RAW_KEYS},
                "X @ W_Q, X @ W_K": {"X @ W_K, X @ W_Q": SWAPPED_ROLES, "X, X": NO_PROJECTION},
                MATRICES: {"X @ W_Q.T, X @ W_K.T, X @ W_V.T": TRANSPOSED, "W_Q @ X, W_K @ X, W_V @ X": FROM_THE_LEFT},
                BODY: {
                    by_hand(MATRICES, "scores.softmax(-2)"): OVER_QUERIES,
                    by_hand(MATRICES, "scores.flatten(-2).softmax(-1).view(scores.shape)"): OVER_BOTH,
                    by_hand(MATRICES, "scores"): NO_SOFTMAX,
                    by_hand(MATRICES, "scores.sigmoid()"): SIGMOID,
                    by_hand(MATRICES, "scores / scores.sum(-1, keepdim=True)"): SUM_DIVIDED,
                    by_hand(MATRICES, "scores.softmax(-1).softmax(-1)"): TWO_SOFTMAXES,
                    changed("output + X @ W_V, weights"): RESIDUAL,
                    changed("weights, output"): RESULTS_SWAPPED,
                    changed("output, weights.mT"): WEIGHTS_TRANSPOSED,
                    changed("weights.mT @ (X @ W_V), weights"): BY_COLUMNS,
                    **{by_hand(MATRICES, weights): message for weights, message in MASKS.items()},
                    scored("(X @ W_Q) @ (X @ W_K).T"): T_OF_A_BATCH,
                    scored("(X @ W_Q) @ (X @ W_K).transpose(1, 2)"): FROM_THE_END,
                    scored("(X @ W_Q) @ (X @ W_K).permute(0, 2, 1)"): FROM_THE_END,
                    scored("torch.bmm(X @ W_Q, (X @ W_K).mT)"): BMM,
                    scored('torch.einsum("bnk,bmk->bnm", X @ W_Q, X @ W_K)'): EINSUM,
                    "b, n, _ = X.shape\n" + changed("output, weights"): UNPACKED,
                },
            }
        ),
        hints=[
            "X is (n, d) or (b, n, d). `X @ W_Q` works for both: `@` multiplies the last two axes.",
            "`attention(query, key, value, mask)` already divides the scores by the square root of d_k.",
            "It returns output and attention weights in this order. Return both.",
        ],
    )
)

# ---------------------------------------------------------------------------------------------- 4.3 sinusoids
# So many positions of so many components: there a base of 10,001 shows, and the rounding of float32 does not yet.
FAR = (160, 16)
ENDS_TOO_EARLY = "The last frequency is exactly 1 / 10,000. Divide the exponent by `dim`, not by `dim - 2`."
HALF_EXPONENT = (
    "The exponent is half of what it should be. The frequency of pair i is 10,000 ** (-2 i / d), d the width."
)
TWICE_EXPONENT = "The exponent is twice what it should be. Components 0, 2, 4, ... are 2 i already."
FREQUENCIES_GROW = "The frequencies grow with i. Make the exponent negative: they fall from 1 toward 1 / 10,000."
TWO_FREQUENCIES = "Sine and cosine of a pair have different frequencies. Components 2 i and 2 i + 1 share one."
COMPONENT_INDEX = "The component's index was used as i. i counts pairs: components 2 i and 2 i + 1 share a frequency."
BASE_E = "The base is e. With `exp` the exponent needs a logarithm: exp(-log(10,000) · 2 i / d)."


def sinusoid_cases(generator):
    notes = {
        (1, 4): "one position",
        (12, 2): "one pair",
        (6, 6): "as many positions as components",
        FAR: "a long sequence",
    }
    sizes = ((5, 4), (7, 6), (1, 4), (12, 2), (4, 10), (20, 16), (6, 6), FAR)
    return [Case(size, note=notes.get(size, "")) for size in sizes]


def for_each(exponent):
    """A frequency for each component, sines in the even ones and cosines in the odd ones."""
    angles = f"angles = torch.arange(length).unsqueeze(1) * 10_000.0 ** ({exponent})"
    return f"{angles}\nreturn torch.where(torch.arange(dim) % 2 == 0, angles.sin(), angles.cos())"


# Growing frequencies are no model of a mistake: at far positions float32 gives different numbers for every way to write them.
FAST = torch.tensor(100.0, dtype=torch.float64)  # of the second of two pairs, instead of 1 / 100


def frequencies_fall(answer, generator):
    if torch.allclose(answer(2, 4)[1, 2:].double(), torch.stack([FAST.sin(), FAST.cos()]), atol=1e-3):
        raise Wrong(FREQUENCIES_GROW)


def dots_depend_on_the_offset(answer, generator):
    positions = answer(9, 8)
    dots = positions @ positions.T
    if not all(torch.allclose(dots.diagonal(k), dots.diagonal(k)[0], atol=1e-3) for k in range(9)):
        raise Wrong(
            "The dot product of two positions depends on more than their offset. Pair every sine with the cosine of the same angle."
        )


register(
    Exercise(
        id="4.3",
        cases=sinusoid_cases,
        tolerance=1e-3,
        properties=[frequencies_fall, dots_depend_on_the_offset],
        mistakes=edits_of(
            {
                "torch.arange(length)": {
                    "torch.arange(1, length + 1)": "Positions start at 1. Row 0 is position 0: sines 0, cosines 1."
                },
                "return positions": {
                    "return torch.cat([angles.sin(), angles.cos()], 1)": "All sines come first, then all cosines. Interleave them: sine in component 0, cosine in 1, sine in 2.",
                    for_each("-torch.arange(dim) / dim"): TWO_FREQUENCIES,
                    for_each("-2 * torch.arange(dim) / dim"): COMPONENT_INDEX,
                    "return positions.T": "The result is transposed. Return one row per position, (length, dim).",
                    "return positions.unflatten(1, (-1, 2))": "The pairs have an axis of their own. Return (length, dim): `flatten(1)`.",
                    "return angles.sin() + angles.cos()": "Sine and cosine were added. They are two components, 2 i and 2 i + 1.",
                },
                "angles.sin(), angles.cos()": {
                    "angles.cos(), angles.sin()": "Sines and cosines are swapped. Sines belong in the even components."
                },
                "torch.arange(0, dim, 2)": {
                    "torch.arange(dim // 2)": HALF_EXPONENT,
                    "2 * torch.arange(0, dim, 2)": TWICE_EXPONENT,
                },
                " / dim)": {
                    " / (dim - 2))": ENDS_TOO_EARLY,
                    " / max(dim - 2, 1))": ENDS_TOO_EARLY,
                    ")": "The exponent was not divided by `dim`. The frequencies are 10,000 ** (-2 i / dim).",
                },
                "(-torch.arange(0, dim, 2) / dim)": {
                    "-(torch.arange(0, dim, 2) // dim)": "All frequencies are 1. Use 10,000 ** (-2 i / dim) with `/`: `//` rounds the exponent to 0.",
                    "(-torch.arange(0, dim, 2) // dim)": "`//` rounds the exponent down to -1. Divide with `/`.",
                    "(-torch.arange(2, dim + 2, 2) / dim)": "The exponents start at i = 1. Pair 0 has exponent 0 and frequency 1.",
                },
                "10_000.0": {"1_000.0": "The base is 1,000. Use 10,000.", "torch.e": BASE_E},
                "* frequencies": {
                    "* 2 * torch.pi * frequencies": "The angles have an extra factor 2 pi. They are position times frequency."
                },
                "angles.cos()": {
                    "angles.sin()": "All components are sines. The odd components are cosines.",
                    "0.0": "The odd components are still 0. They are the cosines.",
                },
            }
        ),
        hints=[
            "`torch.arange(0, dim, 2)` is 2 i for all pairs; the frequencies are `10_000 ** (-torch.arange(0, dim, 2) / dim)`.",
            "Angles: every position times every frequency, `torch.arange(length).unsqueeze(1) * frequencies`, (length, dim / 2).",
            "Fill a matrix of zeros: `positions[:, 0::2] = angles.sin()` and `positions[:, 1::2] = angles.cos()`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.4 a shift is a rotation
def shift_cases(generator):
    notes = {0: "no shift", -2: "a negative shift", FAR[0]: "a long shift"}
    sizes = ((1, 4), (3, 6), (0, 4), (-2, 8), (5, 2), (7, 10), FAR)
    return [Case(size, note=notes.get(size[0], "")) for size in sizes]


def rotations_slow_down(answer, generator):
    c, s = FAST.cos(), FAST.sin()
    if torch.allclose(answer(1, 4)[2:, 2:].double(), torch.tensor([[c, -s], [s, c]]).double(), atol=1e-3):
        raise Wrong(FREQUENCIES_GROW)


def it_shifts_every_position(answer, generator):
    positions, k, dim = solved.sinusoidal_positions(12, 6), 4, 6
    R = answer(k, dim)
    if R.shape != (dim, dim):
        return
    correct = torch.isclose(positions[:-k] @ R.to(positions.dtype), positions[k:], atol=1e-3).all(-1)
    if not correct.all():
        i = int((~correct).nonzero()[0])
        raise Wrong(
            f"With k = {k} and dim = {dim}, `positions[{i}] @ R` is not `positions[{i + k}]`. "
            f"R must map every position i to i + {k}."
        )


BLOCK, ANGLE = "[[c, -s], [s, c]]", "k * 10_000.0 ** (-i / dim)"
DIAGONAL = "Sine and cosine are swapped in R. Put the cosines on the diagonal, so that k = 0 gives the identity."

register(
    Exercise(
        id="4.4",
        cases=shift_cases,
        tolerance=1e-3,
        properties=[rotations_slow_down, it_shifts_every_position],
        mistakes=edits_of(
            {
                BLOCK: {
                    "[[c, s], [-s, c]]": "R rotates the wrong way, to position i - k. Positions are rows, so each block is [[cos, -sin], [sin, cos]].",
                    "[[c, s], [s, c]]": "A minus is missing: cos(a + b) = cos a cos b - sin a sin b.",
                    "[[c, -s], [-s, c]]": "There is one minus too many: sin(a + b) = sin a cos b + cos a sin b.",
                    "[[s, -c], [c, s]]": DIAGONAL,
                    "[[s, c], [c, -s]]": DIAGONAL,
                    "[[c, 0], [0, c]]": "The sines are missing. Each pair is rotated by a block [[cos, -sin], [sin, cos]].",
                },
                "k * ": {
                    "": "k has no effect. Rotate each pair by k times its frequency.",
                    "abs(k) * ": "The sign of k is lost. A negative k shifts to earlier positions.",
                },
                ANGLE: {
                    "float(k)": "All pairs rotate by the same angle. Pair i rotates by k times its frequency, 10,000 ** (-2 i / dim)."
                },
                "-i / dim": {"-i / 2 / dim": HALF_EXPONENT, "-2 * i / dim": TWICE_EXPONENT},
                "R[i : i + 2, i : i + 2]": {
                    "R[i // 2 :: dim // 2, i // 2 :: dim // 2]": "R pairs component i with i + dim / 2. Pair neighbors: components 2 i and 2 i + 1."
                },
                "return R": {
                    "return torch.eye(dim).roll(k, 1)": "R permutes the components. Shift the position instead, by rotating each pair.",
                    "return torch.eye(dim)": "R is the identity, which leaves every position unchanged.",
                    "return torch.stack([R[i : i + 2, i : i + 2] for i in range(0, dim, 2)])": "The result is a stack of 2 x 2 blocks. Put them on the diagonal of one matrix: `torch.block_diag(*blocks)`.",
                },
            }
        ),
        hints=[
            "sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b - sin a sin b. Which b shifts by k?",
            "A pair is a row [sin a, cos a]; times [[cos b, -sin b], [sin b, cos b]] it is [sin(a + b), cos(a + b)].",
            "Start with `torch.zeros(dim, dim)` and fill `R[i : i + 2, i : i + 2]` for i = 0, 2, 4, ..., with "
            "b = k * 10_000 ** (-i / dim).",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.5 rotary positions
def rotate_cases(generator):
    def case(shape, positions, note=""):
        return Case((normal(generator, *shape), torch.tensor(positions)), note=note)

    return [
        case((2, 3, 4), [0, 1, 2], note="positions 0, 1, 2"),
        case((3, 4, 6), [7, 2, 9, 4], note="positions out of order"),
        case((5, 8), [3, 4, 5, 6, 7], note="no batch axis"),
        case((2, 3, 5, 4), [0, 1, 2, 3, 4], note="two leading axes"),
        case((2, 1, 6), [5], note="one token"),
        case((2, 4, 2), [0, 11, 0, 5], note="one pair of components"),
        case((4, 4, 4), [6, 1, 0, 3], note="all sizes equal"),
        case((2, 3, FAR[1]), [FAR[0], FAR[0] // 2, FAR[0] - 1], note="positions far into a long sequence"),
    ]


def lengths_stay(answer, generator):
    x = normal(generator, 2, 5, 6)
    result = answer(x, torch.arange(5))
    if not torch.allclose(result.norm(dim=-1).double(), x.norm(dim=-1).double(), rtol=1e-3):
        raise Wrong("The vectors' norms changed. A rotation keeps them: (a, b) becomes (a cos - b sin, a sin + b cos).")


def each_token_by_its_own_position(answer, generator):
    x, positions = normal(generator, 2, 3, 6), torch.tensor([4, 1, 9])
    alone = [answer(x[:, t : t + 1], positions[t : t + 1]) for t in range(3)]
    if not torch.allclose(answer(x, positions), torch.cat(alone, 1), atol=1e-4):
        raise Wrong(
            "The rotation of a token depends on other positions. Rotate token t by `positions[t]`, gaps or not."
        )


def pairs_slow_down(answer, generator):
    result = answer(torch.tensor([[0.0, 0.0, 1.0, 0.0]]), torch.tensor([1]))
    if torch.allclose(result[0, 2:].double(), torch.stack([FAST.cos(), FAST.sin()]), atol=1e-3):
        raise Wrong(FREQUENCIES_GROW)


def position_zero_stays(answer, generator):
    x = normal(generator, 2, 1, 6)
    if not torch.allclose(answer(x, torch.tensor([0])).double(), x.double(), atol=1e-4):
        raise Wrong("Vectors at position 0 changed, although all angles are 0 there. Keep the order of the components.")


def scores_depend_on_the_offset(answer, generator):
    query, key = normal(generator, 1, 6), normal(generator, 1, 6)

    def score(query_position, key_position):
        return (answer(query, torch.tensor([query_position])) * answer(key, torch.tensor([key_position]))).sum()

    if not torch.isclose(score(2, 5), score(9, 12), atol=1e-3):
        raise Wrong(
            "The score of a query and a key depends on more than their offset. Rotate each pair by position times frequency."
        )


ROTATED = "a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()"
FREQUENCIES, PAIRS = "10_000.0 ** (-torch.arange(0, dim, 2) / dim)", "x[..., 0::2], x[..., 1::2]"
JOINED = "torch.stack(rotated, -1).flatten(-2)"
SPLIT_HALVES = "The two halves of the vector were used as pairs. Pair neighbors: `x[..., 0::2]` and `x[..., 1::2]`."

register(
    Exercise(
        id="4.5",
        cases=rotate_cases,
        gradient=True,
        tolerance=1e-3,
        properties=[
            lengths_stay,
            pairs_slow_down,
            each_token_by_its_own_position,
            position_zero_stays,
            scores_depend_on_the_offset,
        ],
        mistakes=edits_of(
            {
                ROTATED: {
                    "a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()": "The pairs rotate the wrong way. (a, b) becomes (a cos - b sin, a sin + b cos).",
                    "(c := a * angles.cos() - b * angles.sin()), c * angles.sin() + b * angles.cos()": "The second component was computed from the rotated first one. Use the original a and b for both.",
                    "a * angles.cos(), b * angles.sin()": "Each component was only multiplied. In a rotation both components enter both results.",
                    "a * angles.cos(), b * angles.cos()": "The sines are missing. (a, b) becomes (a cos - b sin, a sin + b cos).",
                    "a * angles.sin() - b * angles.cos(), a * angles.cos() + b * angles.sin()": "Sine and cosine are swapped. At position 0 the cosine is 1 and nothing changes.",
                },
                "() - b": {"() + b": "A minus is missing. The first component becomes a cos - b sin."},
                "() + b": {"() - b": "A sign is wrong. The second component becomes a sin + b cos."},
                JOINED: {
                    "torch.cat(rotated, -1)": "The components changed order: all even ones, then all odd ones. Stack on a new last axis, then flatten.",
                    "torch.stack(rotated, -1)": "The pairs have an axis of their own. `flatten(-2)` joins them again.",
                },
                PAIRS: {"x.chunk(2, -1)": SPLIT_HALVES},
                "positions.un": {
                    "torch.arange(len(positions)).un": "`positions` has no effect. Token t is at `positions[t]`, which need not be t.",
                    "(positions + 1).un": "The positions are one too large. At position 0 all angles are 0.",
                    "(positions - positions[0]).un": "Positions were counted from the first token. Use `positions` as given; the first need not be 0.",
                },
                FREQUENCIES: {
                    "torch.ones(dim // 2)": "All pairs rotate by the same angle. Pair i rotates by the position times 10,000 ** (-2 i / d)."
                },
                "torch.arange(0, dim, 2)": {
                    "torch.arange(dim // 2)": HALF_EXPONENT,
                    "2 * torch.arange(0, dim, 2)": TWICE_EXPONENT,
                },
                "10_000.0": {"torch.e": BASE_E},
                BODY: {"return x": "x was returned unchanged. Rotate each pair by position times frequency."},
                "rotated = ": {
                    "rotated = a + angles.sin(), b + angles.cos()\n_ = ": "The positions were added to x. Rotary positions rotate x instead."
                },
                f"return {JOINED}": {
                    "angles = torch.cat([angles, angles], -1)\n"
                    "return x * angles.cos() + torch.stack([-b, a], -1).flatten(-2) * angles.sin()": "The angles were concatenated, which fits pairs (i, i + d / 2). Neighbors share an angle: `repeat_interleave(2, -1)`.",
                    "angles = angles.repeat_interleave(2, -1)\n"
                    "a, b = x.chunk(2, -1)\n"
                    "return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()": SPLIT_HALVES,
                },
            }
        )
        + [
            mistake(
                [(PAIRS, "x.chunk(2, -1)"), (JOINED, "torch.cat(rotated, -1)")],
                "Component i was paired with i + d / 2, as some models do. Here pairs are neighbors: `x[..., 0::2]`, `x[..., 1::2]`.",
            )
        ],
        hints=[
            "Angles as in exercise 4.3: `positions.unsqueeze(-1) * frequencies`, (n, d / 2), one per token and pair.",
            "`a, b = x[..., 0::2], x[..., 1::2]` are the first and second components of all pairs.",
            "`torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)` interleaves the results again.",
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
            raise Wrong(f"`{name}` is not as the given `__init__` made it. Restore it and change only `forward`.")
        given[name].data.copy_(parameter.data)
    return built


def expect_a_class(answer, name):
    if not inspect.isclass(answer):
        raise Wrong(f"Expected a class, got {a_thing(answer)}. Restore the line `class {name}(nn.Module):`.")


def run_feed_forward(answer, seed, dim, hidden_dim, x):
    """Build the layer and call it."""
    expect_a_class(answer, "FeedForward")
    layer = with_given_parameters(answer(dim, hidden_dim), lambda: solved.FeedForward(dim, hidden_dim), seed)
    return layer.to(x.dtype)(x)


def feed_forward_cases(generator):
    def case(*shape, hidden_dim, note="", size=1.0):
        seed = int(torch.randint(10_000, (), generator=generator))
        return Case((seed, shape[-1], hidden_dim, size * normal(generator, *shape)), note=note)

    return [
        case(2, 4, 3, hidden_dim=6),
        case(3, 2, 5, hidden_dim=4, note="hidden_dim smaller than dim"),
        case(2, 1, 4, hidden_dim=7, note="one token"),
        case(5, 3, hidden_dim=8, note="no batch axis"),
        case(2, 3, 4, hidden_dim=4, note="hidden_dim equal to dim"),
        case(4, 2, 3, hidden_dim=5, note="large inputs", size=30.0),
        case(1, 3, 4, hidden_dim=5, note="a batch of one"),
    ]


def tokens_do_not_meet(answer, generator):
    *sizes, x = feed_forward_cases(generator)[0].args
    changed = x.clone()
    changed[:, 1] += 1
    before, after = answer(*sizes, x), answer(*sizes, changed)
    if before.shape == x.shape and not torch.allclose(before[:, 2:], after[:, 2:], atol=1e-5):
        raise Wrong("A change of one token changed another. Process each token on its own, without a sum over tokens.")


RELU = "torch.relu(self.linear1(x))"
FFN = f"self.linear2({RELU})"
OTHER_ACTIVATIONS = {
    "F.gelu(self.linear1(x))": "GELU",
    "torch.tanh(self.linear1(x))": "tanh",
    "F.silu(self.linear1(x))": "SiLU",
    "torch.sigmoid(self.linear1(x))": "sigmoid",
    "self.linear1(x).softmax(-1)": "softmax",
    "F.leaky_relu(self.linear1(x))": "leaky ReLU",
    "self.linear1(x).abs()": "absolute value",
}

register(
    Exercise(
        id="4.6",
        cases=feed_forward_cases,
        call=run_feed_forward,
        gradient=True,
        properties=[tokens_do_not_meet],
        mistakes=edits_of(
            {
                RELU: {
                    **{
                        code: f"The activation function is {name}. Use the ReLU."
                        for code, name in OTHER_ACTIVATIONS.items()
                    },
                    "self.linear1(x)": "The ReLU is missing. Two linear layers in a row are one linear layer; put `torch.relu` between them.",
                    "self.linear1(torch.relu(x))": "The ReLU was applied to the input. Apply it between `linear1` and `linear2`.",
                    f"{RELU}.mean(-2, keepdim=True).expand(*x.shape[:-1], -1)": "The tokens were averaged. Process each token on its own, with the same two layers.",
                },
                FFN: {
                    "self.linear2(nn.ReLU(self.linear1(x)))": "`nn.ReLU(...)` creates a layer instead of applying it. Use `torch.relu(...)`.",
                    "torch.relu(self.linear2(self.linear1(x)))": "The ReLU was applied to the output. Apply it between `linear1` and `linear2`.",
                    f"torch.relu({FFN})": "A second ReLU was applied to the output. `linear2` is the last step.",
                    f"{FFN}.softmax(-1)": "A softmax was applied to the output. `linear2` is the last step.",
                    f"x + {FFN}": "x was added to the output. The residual connection belongs to the block around this layer.",
                    RELU: "`linear2` is missing. The output has the width of x again.",
                    "self.linear1(torch.relu(self.linear2(x)))": "`linear1` and `linear2` are swapped. First (..., dim) to (..., hidden_dim), then back.",
                    "torch.relu(x @ self.linear1.weight.T) @ self.linear2.weight.T": "The biases are missing. Call the layers, `self.linear1(x)`; they add their bias.",
                },
            }
        ),
        hints=[
            "A linear layer acts on the last axis, so every token is processed in the same way.",
            "`self.linear1(x)` is (..., hidden_dim).",
            "`torch.relu` comes next, then `self.linear2`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.7 the causal mask
def causal_cases(generator):
    return [Case((length,), note="one token" if length == 1 else "") for length in (4, 1, 6, 2, 9)]


NOT_BOOL = "The mask has dtype {}. Make it bool: `dtype=torch.bool`, or a comparison."

register(
    Exercise(
        id="4.7",
        cases=causal_cases,
        mistakes=edits_of(
            {
                ".tril()": {
                    ".tril(-1)": "No token may attend to itself, and the first attends to nothing. Include the diagonal.",
                    ".triu()": "This is the upper triangle: tokens attend to the future. Row i is True in columns 0 to i.",
                    ".triu(1)": "The mask is inverted: True marks the future. True means may attend.",
                    "": "Every token may attend to every token. Mask the future: keep the lower triangle.",
                    ".tril(1)": "Each token may attend to the next one. End at the diagonal: `tril()`.",
                    ".tril().float()": NOT_BOOL.format("float"),
                    ".tril().long()": NOT_BOOL.format("int"),
                    ".tril().unsqueeze(0)": "There is an extra axis. Return (length, length), which broadcasts over a batch.",
                    ".tril().flip(0)": "The rows are reversed. Row 0 is the first token, which attends only to itself.",
                    "[-1]": "This is a single row. Return one row per token, (length, length).",
                },
                BODY: {
                    "return torch.eye(length, dtype=torch.bool)": "Each token may attend only to itself. Allow all earlier tokens as well.",
                    "return torch.full((length, length), float('-inf')).triu(1)": "This is an additive mask of 0 and minus infinity. Return a bool mask, True = may attend.",
                },
            }
        ),
        hints=[
            "A mask that allows everything: `torch.ones(length, length, dtype=torch.bool)`.",
            "Rows are queries, columns are keys: in row i, columns 0 to i stay True.",
            "`.tril()` keeps the lower triangle with the diagonal.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.8 the padding mask
def padding_cases(generator):
    def case(b, max_len, note=""):
        return Case((torch.randint(1, max_len + 1, (b,), generator=generator), max_len), note=note)

    return [
        Case((torch.tensor([3, 5, 1]), 5), note="three sequences"),
        Case((torch.tensor([2, 3]), 6), note="`max_len` exceeds the longest sequence"),
        Case((torch.tensor([4, 0, 2, 4]), 4), note="an empty sequence"),
        # In front of the smaller one, in which all shapes look alike: of two that count as many numbers, the first is shown.
        Case((torch.tensor([2]), 3), note="one sequence"),
        Case((torch.tensor([1]), 1), note="one sequence of one token"),
        Case((torch.tensor([2, 3, 1]), 3), note="as many sequences as positions"),
        case(4, 7),
        case(13, 5),
    ]


BATCH_FIRST = "Positions are rows and sequences columns. The batch comes first: (b, 1, max_len)."
KEY_AXIS = "attention_mask.unsqueeze(1)"

register(
    Exercise(
        id="4.8",
        cases=padding_cases,
        mistakes=edits_of(
            {
                KEY_AXIS: {
                    "attention_mask": "The query axis is missing. Return (b, 1, max_len): `unsqueeze(1)`.",
                    f"~{KEY_AXIS}": "The mask is inverted. True marks tokens, False marks padding.",
                    f"{KEY_AXIS}.flip(-1)": "The padding comes first. In this course it follows the tokens.",
                    "attention_mask.unsqueeze(2)": "The mask has shape (b, max_len, 1), which masks queries. Mask the keys: (b, 1, max_len).",
                    "attention_mask.unsqueeze(0)": "The axis of size 1 comes first. Put it in the middle: (b, 1, max_len).",
                    "attention_mask.T": BATCH_FIRST,
                    "attention_mask.T.unsqueeze(1)": BATCH_FIRST,
                    "attention_mask[:, None, None]": "There is an extra axis. Return (b, 1, max_len); lesson 05 adds an axis for heads.",
                    f"{KEY_AXIS} & causal_mask(max_len)": "The future is masked as well. Leave that to the causal mask; `&` combines the two.",
                    f"{KEY_AXIS} & attention_mask.unsqueeze(2)": "Padding is masked as a query, too. Mask only keys: one row per sequence, (b, 1, max_len).",
                    f"{KEY_AXIS}.expand(-1, max_len, -1)": "The same row was repeated for every query. One row per sequence broadcasts: (b, 1, max_len).",
                    f"{KEY_AXIS}.long()": NOT_BOOL.format("int"),
                    f"{KEY_AXIS}.float()": NOT_BOOL.format("float"),
                    f"torch.ones_like({KEY_AXIS})": "Every position is True. Positions after the end of a sequence are padding: False.",
                },
                "arange(max_len) <": {
                    "arange(max_len) <=": "One padding position counts as a token. Positions start at 0, so compare with `<`.",
                    "arange(max_len) + 1 <": "The last token of each sequence is masked. Positions 0 to its length - 1 are tokens.",
                    "arange(int(lengths.max())) <": "The mask ends with the longest sequence. Make it `max_len` positions long.",
                    "arange(max_len) ==": "At most one position per sequence is True. Compare with `<`, not with `==`.",
                },
                BODY: {
                    "return torch.arange(max_len) < lengths": "Positions were compared with lengths one to one. Give the lengths an axis: `lengths.unsqueeze(1)`."
                },
            }
        ),
        hints=[
            "`torch.arange(max_len)` are the positions. Position p holds a token if p is less than the sequence's length.",
            "`torch.arange(max_len) < lengths.unsqueeze(1)` compares every position with every length: (b, max_len).",
            "`.unsqueeze(1)` adds the query axis.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.9 the layer
def a_projection(built, name, dim, head_dim):
    """The layer's projection, or what is wrong with it."""
    layer = getattr(built, name, None)
    if not isinstance(layer, nn.Linear):
        kind = "missing" if layer is None else a_thing(layer)
        raise Wrong(f"`self.{name}` is {kind}. Create it in `__init__`: `nn.Linear(dim, head_dim, bias=False)`.")
    if layer.bias is not None:
        raise Wrong(f"`self.{name}` has a bias. Use `nn.Linear(dim, head_dim, bias=False)`.")
    into, out = layer.in_features, layer.out_features
    if (into, out) == (dim, head_dim):
        return layer
    if (into, out) == (head_dim, dim):
        raise Wrong(f"`self.{name}` maps `head_dim` to `dim`. It must map `dim` to `head_dim`.")
    if (into, out) == (dim, dim):
        raise Wrong(f"`head_dim` has no effect: `self.{name}` maps `dim` to `dim`. It must map `dim` to `head_dim`.")
    raise Wrong(
        f"`self.{name}` maps {into} to {out}. With dim = {dim} and head_dim = {head_dim} it must map {dim} to {head_dim}."
    )


def a_self_attention(answer, seed, dim, head_dim):
    """The answer's layer with the same parameters whoever wrote it."""
    expect_a_class(answer, "SelfAttention")
    built = answer(dim, head_dim)
    if not isinstance(built, nn.Module):
        raise Wrong("The class is not a module. Restore the line `class SelfAttention(nn.Module):`.")
    torch.default_generator.manual_seed(seed)
    layers = [a_projection(built, name, dim, head_dim) for name in ("query", "key", "value")]
    if len({id(layer.weight) for layer in layers}) < 3:
        raise Wrong("Two of the projections share one layer. Query, key and value need an `nn.Linear` each.")
    extra = [name for name, _ in built.named_parameters() if name.split(".")[0] not in ("query", "key", "value")]
    if extra:
        raise Wrong(f"`{extra[0]}` is an extra parameter. This layer learns only the three projections.")
    for layer in layers:
        layer.weight.data.copy_(normal(torch.default_generator, head_dim, dim))
    return built


def run_self_attention(answer, seed, dim, head_dim, x, mask=None):
    """Build the layer and call it, without a second argument where there is no mask."""
    layer = a_self_attention(answer, seed, dim, head_dim).to(x.dtype)
    return layer(x) if mask is None else layer(x, mask)


def layer_cases(generator):
    def case(b, n, dim, head_dim, mask=None, note=""):
        seed = int(torch.randint(10_000, (), generator=generator))
        return Case((seed, dim, head_dim, normal(generator, b, n, dim), mask), note=note)

    return [
        case(2, 4, 3, 5, note="no mask"),
        case(3, 5, 4, 2, mask_with_empty_row(generator, 3, 5), note="one query with every key masked"),
        case(3, 4, 5, 6, solved.causal_mask(4), note="a causal mask"),
        case(2, 5, 3, 4, solved.padding_mask(torch.tensor([3, 5]), 5), note="a padding mask (b, 1, n)"),
        case(2, 1, 4, 3, note="one token"),
        case(3, 3, 3, 3, note="all sizes equal"),
        case(1, 4, 3, 2, note="a batch of one"),
    ]


def the_future_does_not_leak(answer, generator):
    """By gradient: what a token must not see has no influence whatever on it."""
    *sizes, x, mask = layer_cases(generator)[2].args
    x = x.clone().requires_grad_()
    output, _ = answer(*sizes, x, mask)
    (gradient,) = torch.autograd.grad(output[:, 1].sum(), x)
    if gradient[:, 2:].abs().max() > 0:
        raise Wrong(
            "With a causal mask, later tokens still influence token 1. Mask the scores before the softmax: pass `mask` to `attention`."
        )


PROJECTED = "self.query(x), self.key(x), self.value(x)"
LAYER = f"return attention({PROJECTED}, mask)"


def layer_changed(results):
    return f"output, weights = attention({PROJECTED}, mask)\nreturn {results}"


register(
    Exercise(
        id="4.9",
        cases=layer_cases,
        call=run_self_attention,
        gradient=True,
        output_names=("output", "weights"),
        tolerance=1e-3,
        properties=[the_future_does_not_leak],
        mistakes=edits_of(
            {
                "mask)": {
                    "mask, scale=x.size(-1) ** -0.5)": "The scores were divided by the square root of `dim`. Use d_k, which is `head_dim`: `attention` does by default.",
                    "mask, scale=1.0)": "The scores were not scaled. Leave out `scale`: `attention` divides by the square root of d_k, here `head_dim`.",
                    "mask, scale=1 / self.query.out_features)": "The scores were divided by `head_dim` itself. `attention` already divides by its square root.",
                    "mask, scale=self.query.out_features ** 0.5)": MULTIPLIED,
                    "causal_mask(x.size(1)))": "The future is always masked, whatever `mask` says. Pass `mask` to `attention`.",
                    "mask, scale=x.size(-2) ** -0.5)": TOKEN_COUNT,
                },
                "self.query(x), self.key(x)": {
                    "self.key(x), self.query(x)": "Queries and keys are swapped. The order is `attention(query, key, value, mask)`."
                },
                "self.value(x)": {
                    "self.key(x)": "The output is a weighted sum of the keys. Use `self.value(x)`.",
                    "x": "The values were not projected. Use `self.value(x)`.",
                },
                "self.key(x), self.value(x)": {
                    "self.value(x), self.key(x)": "Keys and values are swapped. The order is `attention(query, key, value, mask)`."
                },
                "self.key(x)": {"self.query(x)": "The queries were used as keys. Use `self.key(x)`."},
                PROJECTED: {
                    "x, x, x": "The projections are not used. Call `self.query(x)`, `self.key(x)`, `self.value(x)`."
                },
                LAYER: {
                    by_hand(
                        PROJECTED, "scores.softmax(-2)"
                    ): "The softmax ran over the queries, and the mask has no effect. `attention` normalizes over the keys.",
                    layer_changed("weights, output"): RESULTS_SWAPPED,
                    layer_changed("output, weights.mT"): WEIGHTS_TRANSPOSED,
                    layer_changed("output"): "Only the output was returned. Return output and attention weights.",
                    layer_changed(
                        "x + output, weights"
                    ): "x was added to the output. The residual connection belongs to the block around this layer.",
                },
                "super().__init__()": {
                    "": "`super().__init__()` is missing. Call it first in `__init__`, before creating the layers."
                },
            }
        )
        + [
            *(mistake(LAYER, by_hand(PROJECTED, weights), message) for weights, message in MASKS.items()),
            *(
                mistake(LAYER, f"return {code}", "The layers themselves were passed on. Call them: `self.query(x)`.")
                for code in (
                    "attention(self.query, self.key, self.value, mask)",
                    "attention(self.query(x), self.key, self.value, mask)",
                    "attention(self.query(x), self.key(x), self.value, mask)",
                    "self.query @ self.key.transpose(-2, -1)",
                    "self.query @ self.key.mT",
                    "self.query @ self.key.T",
                )
            ),
        ],
        hints=[
            "`__init__`: `super().__init__()`, then `self.query = nn.Linear(dim, head_dim, bias=False)`; `key` and `value` alike.",
            "`self.query(x)` is `X @ W_Q`, (b, n, head_dim). `nn.Linear` stores W_Q transposed, as `self.query.weight`.",
            "`attention(self.query(x), self.key(x), self.value(x), mask)` returns output and attention weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 4.10 the loss
def loss_case(generator, lengths, n, vocab_size, padding=None, note=""):
    attention_mask = torch.arange(n) < torch.tensor(lengths).unsqueeze(1)
    token_ids = torch.randint(vocab_size, (len(lengths), n), generator=generator)
    token_ids = token_ids if padding is None else token_ids.masked_fill(~attention_mask, padding)
    return Case((normal(generator, len(lengths), n, vocab_size), token_ids, attention_mask), note=note)


def loss_cases(generator):
    large = loss_case(generator, (3, 5), 5, 6, note="large logits")
    logits, token_ids, _ = large.args
    logits[0, 1, token_ids[0, 2]] = -150.0  # so improbable that its probability is 0 in float32
    return [
        loss_case(generator, (5, 3), 5, 7, note="two sequences"),
        loss_case(generator, (2, 6, 4), 6, 4, padding=3, note="the padding id is also a token's id"),
        loss_case(generator, (4, 1, 3), 4, 5, padding=0, note="a sequence of one token has no target"),
        loss_case(generator, (4, 4), 4, 6, note="no padding"),
        loss_case(generator, (2,), 2, 3, note="one sequence of two tokens"),
        loss_case(generator, (3, 2, 4, 2), 4, 4, note="all sizes equal"),
        large,
    ]


LOGITS, TOKENS, MASK, LOSSES = (
    "logits[:, :-1]",
    "token_ids[:, 1:]",
    "attention_mask[:, 1:]",
    "losses[attention_mask[:, 1:]]",
)
CROSS_ENTROPY = 'F.cross_entropy(predictions, targets, reduction="none")'
PICKED = "gather(-1, targets.unsqueeze(-1)).squeeze(-1)"
NOT_SHIFTED = (
    "The targets are not shifted: position t predicts its own input. Use `logits[:, :-1]` and `token_ids[:, 1:]`."
)
NOT_SHIFTED_PADDED = "The targets are not shifted, and padding counts. Use `logits[:, :-1]`, `token_ids[:, 1:]` and `attention_mask[:, 1:]`."
WRONG_WAY = (
    "The shift goes the wrong way: position t predicts token t - 1. Use `logits[:, :-1]` and `token_ids[:, 1:]`."
)
ROLLED = (
    "`roll` made the first token the target of the last position. Slice instead: `logits[:, :-1]`, `token_ids[:, 1:]`."
)
ACROSS = "The batch was flattened before the shift, so each sequence predicts the next one's first token. Shift first."
ACROSS_PADDED = "The batch was flattened before the shift, and padding counts. Shift first, then select with `attention_mask[:, 1:]`."
ONLY_TARGETS = "Only the targets were cut. The last logits have no target: use `logits[:, :-1]`."
MEAN_OF_MEANS = "This is the mean of per-sequence means, which favors short sequences. Take one mean over all targets."
STILL_COUNTS = "Padding was set to 0 and still counts. Leave its losses out of the mean."
CLASS_AXIS = "`F.cross_entropy` expects the classes in axis 1. Use `transpose(1, 2)`, or flatten batch and positions."
CLASS_AXIS_NOT_SHIFTED = (
    "The classes are not in axis 1, and nothing is shifted. Use `logits[:, :-1].transpose(1, 2)`, `token_ids[:, 1:]`."
)
HALF_FLAT = "The logits were flattened, the targets were not. Flatten both, or use `transpose(1, 2)` on the logits."
RESHAPED = "`reshape` mixed positions and classes. Move the class axis with `transpose(1, 2)`."


def loss_of(logits, targets, taken="losses", classes=".transpose(1, 2)"):
    return f'losses = F.cross_entropy({logits}{classes}, {targets}, reduction="none")\nreturn {taken}.mean()'


register(
    Exercise(
        id="4.10",
        cases=loss_cases,
        gradient=True,
        mistakes=edits_of(
            {
                LOGITS: {
                    "logits[:, 1:]": "Logits and targets were cut at the same end, so position t predicts its own input. Use `logits[:, :-1]`.",
                    "logits[:, :-1].softmax(-1)": "The softmax was applied twice. `F.cross_entropy` takes logits.",
                },
                LOSSES: {
                    "losses": "Padding counts as a target. Average only the losses where `attention_mask[:, 1:]` is True."
                },
                MASK: {
                    "attention_mask[:, :-1]": "The mask was cut at the wrong end. It must select real targets: `attention_mask[:, 1:]`.",
                    "~attention_mask[:, 1:]": "The mask is inverted: this is the loss of the padding. True marks tokens.",
                },
                f"{LOSSES}.mean()": {
                    "(losses * attention_mask[:, :-1]).mean()": "The mask was cut at the wrong end, and the sum divided by all positions. Average the losses where `attention_mask[:, 1:]` is True.",
                    "(losses * attention_mask[:, 1:]).mean()": "The sum was divided by all positions, padding included. Divide by the number of targets.",
                    "(losses * attention_mask[:, 1:]).sum() / attention_mask.sum()": "The sum was divided by the number of tokens. First tokens are no targets: divide by `attention_mask[:, 1:].sum()`.",
                    "((losses * attention_mask[:, 1:]).sum(1) / attention_mask[:, 1:].sum(1)).mean()": MEAN_OF_MEANS,
                    "((losses * attention_mask[:, 1:]).sum(1) / attention_mask[:, 1:].sum(1).clamp(min=1)).mean()": MEAN_OF_MEANS,
                    "losses * attention_mask[:, 1:]": "There is one loss per position. Return their mean over the targets, one number.",
                },
                ".mean()": {
                    ".sum()": "The losses were summed. Take their mean over the targets.",
                    ".sum() / len(attention_mask)": "The sum was divided by the number of sequences. Divide by the number of targets.",
                    ".mean().exp()": "This is the perplexity, the exponential of the loss. Return the loss.",
                    "": "There is one loss per target. Return their mean, one number.",
                },
                "return ": {"return -": "The sign is wrong. The loss is the negative log-probability, never below 0."},
                CROSS_ENTROPY: {
                    'F.nll_loss(predictions, targets, reduction="none")': "The softmax is missing: `F.nll_loss` takes log-probabilities. Use `F.cross_entropy` on the logits.",
                    f"-logits[:, :-1].softmax(-1).{PICKED}.log()": "With large logits a probability underflows to 0 and its log is infinite. Use `log_softmax` or `F.cross_entropy`.",
                    f"1 - logits[:, :-1].softmax(-1).{PICKED}": "The logarithm is missing. The loss of a target is its negative log-probability.",
                    f"-logits[:, :-1].log_softmax(1).{PICKED}": "The softmax ran over the positions. Normalize over the vocabulary, the last axis of the logits.",
                },
                ".transpose(1, 2)": {
                    "": CLASS_AXIS,
                    ".flatten(0, 1)": HALF_FLAT,
                    ".reshape(len(logits), logits.size(-1), -1)": RESHAPED,
                },
                BODY: {
                    loss_of("logits", "token_ids", "losses[attention_mask]"): NOT_SHIFTED,
                    loss_of("logits", "token_ids"): NOT_SHIFTED_PADDED,
                    loss_of("logits", "token_ids", classes=""): CLASS_AXIS_NOT_SHIFTED,
                    loss_of("logits", "token_ids", "losses[attention_mask]", classes=""): CLASS_AXIS_NOT_SHIFTED,
                    loss_of("logits", TOKENS): ONLY_TARGETS,
                    loss_of("logits[:, 1:]", "token_ids[:, :-1]", LOSSES): WRONG_WAY,
                    loss_of("logits[:, 1:]", "token_ids[:, :-1]", "losses[attention_mask[:, :-1]]"): WRONG_WAY,
                    loss_of("logits", "token_ids.roll(-1, 1)", "losses[attention_mask]"): ROLLED,
                    loss_of("logits", "token_ids.roll(-1, 1)", "losses[attention_mask.roll(-1, 1)]"): ROLLED,
                    loss_of(
                        "logits.flatten(0, 1)[:-1]",
                        "token_ids.flatten()[1:]",
                        "losses[attention_mask.flatten()[1:]]",
                        "",
                    ): ACROSS,
                    loss_of("logits.flatten(0, 1)[:-1]", "token_ids.flatten()[1:]", classes=""): ACROSS_PADDED,
                    **{
                        loss_of(f"{LOGITS}.reshape(logits.size(-1), -1)", f"{TOKENS}.flatten()", taken, ".T"): RESHAPED
                        for taken in ("losses[attention_mask[:, 1:].flatten()]", "losses")
                    },
                    **{
                        loss_of(f"({LOGITS}{of_logits})", f"{TOKENS}{of_targets}"): STILL_COUNTS
                        for of_logits in (" * attention_mask[:, 1:, None]", " * attention_mask[:, :-1, None]", "")
                        for of_targets in (" * attention_mask[:, 1:]", "")
                        if of_logits or of_targets
                    },
                    f"return F.cross_entropy({LOGITS}.transpose(1, 2), {TOKENS}, ignore_index=0)": "Targets with token id 0 were ignored. Id 0 may be a token; use `attention_mask`.",
                },
            }
        ),
        hints=[
            "The last logits have no next token, and nothing predicts the first: `logits[:, :-1]` against `token_ids[:, 1:]`.",
            '`F.cross_entropy` expects (b, vocab, n - 1) against (b, n - 1); `reduction="none"` keeps one loss per position.',
            "`attention_mask[:, 1:]` says which targets are real: `losses[attention_mask[:, 1:]].mean()`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="4.a",
        question="Token embeddings have 768 components. W_Q and W_K project them to queries and keys with d_k = 64. What are the scores divided by?",
        options=[
            (
                "About 27.7, the square root of 768.",
                "A score sums 64 products, one for each component of query and key. The 768 do not enter.",
            ),
            ("64, the dimension d_k.", "64 is the variance of a score. Its standard deviation is the square root, 8."),
            ("8, the square root of d_k.", "A score sums 64 products of variance 1, so its standard deviation is 8."),
            (
                "The square root of the number of tokens.",
                "That number decides how many scores enter the softmax, not how large they are.",
            ),
        ],
        right=2,
        explanation="Only the dimension of queries and keys counts: scores with standard deviation 8 are brought back to 1.",
    )
)
register_quiz(
    Quiz(
        id="4.b",
        question="'dog bites man' becomes 'man bites dog'. What happens to the three outputs of self-attention without "
        "positions and without a mask?",
        options=[
            (
                "All three change, because the meaning changes.",
                "Each output is a sum over the same three tokens, and a sum does not depend on their order.",
            ),
            (
                "They are permuted like the words: 'dog' keeps its output.",
                "Each query meets the same keys and values, in another order.",
            ),
            (
                "They stay at their positions: the first output is as before.",
                "Output i belongs to token i: when 'dog' moves, its output moves with it.",
            ),
            (
                "Only 'bites' keeps its output; the other two change.",
                "'bites' keeps its output, and so do 'dog' and 'man', at their new positions.",
            ),
        ],
        right=1,
        explanation="This is permutation equivariance. Who bites whom is lost.",
    )
)
register_quiz(
    Quiz(
        id="4.c",
        question="Every sinusoid is periodic. How many positions does one period of the slowest pair take, if the vector is wide?",
        options=[
            ("About 6.", "That is the fastest pair: frequency 1, period 2π."),
            (
                "About 512, the width.",
                "The width decides how many frequencies there are. The lowest approaches 1/10,000.",
            ),
            ("10,000.", "The slowest pair advances by about 1/10,000 per position, and a full period is 2π."),
            ("About 63,000.", "2π times 10,000, longer than most inputs."),
        ],
        right=3,
        explanation="The whole vector does not repeat even then: most of the other periods do not divide this one.",
    )
)
register_quiz(
    Quiz(
        id="4.d",
        question="What does a mask set to minus infinity?",
        options=[
            (
                "The embeddings of the masked tokens.",
                "Infinite embeddings would turn every score that they enter into infinity or NaN.",
            ),
            (
                "The masked scores, before the softmax.",
                "exp(-∞) = 0, and the remaining weights of the row still sum to 1.",
            ),
            (
                "The masked attention weights, after the softmax.",
                "A weight of minus infinity ruins the sum; with 0 instead, the row no longer sums to 1.",
            ),
            (
                "The values of the masked tokens.",
                "The token would keep its attention weight, and a positive weight times minus infinity is minus infinity.",
            ),
        ],
        right=1,
        explanation="After the softmax these weights are exactly 0, and the row still sums to 1.",
    )
)
register_quiz(
    Quiz(
        id="4.e",
        question="A convolution with kernel size 3, padded with zeros, runs over a sentence of 20 tokens. Which outputs can be computed at the same time?",
        options=[
            (
                "None: the kernel slides from left to right.",
                "Sliding is only an image. No output depends on another output.",
            ),
            (
                "All 20, and each depends on at most 3 tokens.",
                "No output waits for another. Distant tokens interact only after several layers.",
            ),
            (
                "All 20, and each depends on all 20 tokens.",
                "That holds for self-attention and for a dense layer; a convolution sees a window.",
            ),
            (
                "Every third one, because windows overlap.",
                "Windows share inputs, which may be read at the same time. They share no outputs.",
            ),
        ],
        right=1,
        explanation="Only the recurrent network must wait for the previous step. The next table compares all four layers.",
    )
)

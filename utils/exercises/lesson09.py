"""Lesson 09: its exercises with common mistakes in them, and its guess-first questions."""

import torch
from torch.overrides import TorchFunctionMode

from utils.checks.compare import Case, Wrong, difference
from utils.exercises.common import mask_with_empty_row, normal, random_mask
from utils.exercises.edits import BODY, mistake, replacing
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register
from utils.exercises.solutions import lesson09 as solved

SCORES = "scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5"

NOT_SCALED = "The scores were not scaled. Divide them by the square root of d, as `attention` does."
OVER_THE_QUERIES = "The softmax ran over the queries (dim -2). Normalize over the keys: `softmax(scores, dim=-1)`."
MASKED_WITH_ZERO = "Masked scores became 0, and exp(0) is 1. Pass the mask to `attention`."
MASKED_LATE = "The mask was applied after the softmax, so weights do not sum to 1. Pass it to `attention`."
MASK_INVERTED = "The mask is inverted. True means 'may attend', in `attention` as well."
SLICE_BELOW_0 = "A slice from a negative index counts from the end. Start at `max(0, i - window)`."
SLICE_END = "To the right the window is one position short, because a slice excludes its end. Use `i + window + 1`."
OUTPUT_AND_WEIGHTS = "`attention` returns the output and the attention weights. Return the output only."


# ---------------------------------------------------------------------------------------------- 9.1 the local mask
def mask_cases(generator):
    return [
        Case((5, 1)),
        Case((7, 2, True), note="causal"),
        Case((8, 3)),
        Case((8, 4, False)),
        Case((9, 4, True), note="causal"),
        Case((3, 5), note="a window longer than the sequence"),
        Case((3, 4, True), note="causal, and a window longer than the sequence"),
        Case((1, 2), note="one token"),
    ]


def mask_returned_as(result):
    return [("return", "mask ="), ("else True)", f"else True)\nreturn {result}")]


def mask_by_slices(start, end):
    return f"""
        mask = torch.zeros(n, n, dtype=torch.bool)
        for i in range(n):
            mask[i, {start} : i + 1 if causal else {end}] = True
        return mask
        """


NOT_BOOLEAN = "The mask contains the numbers 0 and 1. Return booleans (True = may attend), the result of a comparison."

register(
    Exercise(
        id="9.1",
        cases=mask_cases,
        mistakes=[
            mistake("<= window", "< window", "The window is one position too short. Use `<=`."),
            mistake("<= window", "<= window + 1", "The window is one position too long. Use `<= window`."),
            mistake("<= window", "<= window // 2", "`window` is the reach to each side, not the total width."),
            mistake("offset.abs() <=", "offset <=", "All earlier tokens are visible. Take `.abs()` of the distance."),
            mistake(
                "offset.abs() <= window",
                "offset >= -window",
                "All later tokens are visible. Take `.abs()` of the distance.",
            ),
            mistake(
                "((offset <= 0) if causal else True)", "True", "`causal` has no effect. If set, mask later tokens."
            ),
            mistake(" if causal else True", "", "It is always causal. Without `causal`, allow both sides."),
            mistake("if causal", "if not causal", "`causal` is inverted. Mask the later tokens when it is True."),
            mistake("offset <= 0", "offset >= 0", "`causal` masks the past. Mask the columns right of the diagonal."),
            mistake("offset <= 0", "offset < 0", "With `causal` no token attends to itself. Keep the diagonal."),
            mistake("<= window)", "<= window) & (offset != 0)", "No token attends to itself. Keep the diagonal True."),
            mistake(
                "(offset.abs() <= window) & ((offset <= 0) if causal else True)",
                "(offset <= 0) if causal else (offset.abs() <= window)",
                "With `causal` the window is ignored. Combine both conditions with `&`.",
            ),
            mistake(mask_returned_as("~mask"), "The mask is inverted. True means 'may attend'."),
            mistake(
                "(offset.abs() <= window)",
                "(position // window == position[:, None] // window)",
                "This cuts the sequence into separate blocks. Each token has a window centered on itself.",
            ),
            mistake(
                "offset.abs()",
                "torch.minimum(offset.abs(), n - offset.abs())",
                "The window wraps around from the last token to the first. Cut it off at both ends.",
            ),
            mistake(BODY, mask_by_slices("i - window", "i + window + 1"), SLICE_BELOW_0),
            mistake(BODY, mask_by_slices("max(0, i - window)", "i + window"), SLICE_END),
            mistake(mask_returned_as("mask.float()"), NOT_BOOLEAN),
            mistake(mask_returned_as("mask.long()"), NOT_BOOLEAN),
            mistake(
                mask_returned_as("torch.zeros(n, n).masked_fill(~mask, -torch.inf)"),
                "This is an additive mask (0 and minus infinity). Return a boolean mask, which `attention` expects.",
            ),
            mistake(mask_returned_as("mask[None]"), "The mask has an extra axis. Return (n, n), which broadcasts."),
        ],
        hints=[
            "With `position = torch.arange(n)`, entry (i, j) of `position - position[:, None]` is j - i, the signed distance from query i to key j.",
            "Inside the window: its absolute value is at most `window`.",
            "Causal: it must also be at most 0. `&` combines two masks.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.2 in blocks
def local_cases(generator):
    def case(b, heads, n, d, window, note=""):
        return Case((*(normal(generator, b, heads, n, d) for _ in range(3)), window), note=note)

    return [
        case(2, 3, 7, 4, 2, "a length that is not a multiple of the window"),
        case(2, 1, 6, 5, 3, "a multiple of the window"),
        case(1, 2, 5, 3, 1, "a window of one position"),
        case(3, 2, 4, 5, 6, "a window longer than the sequence"),
        case(1, 2, 1, 3, 2, "one token"),
        case(2, 1, 23, 3, 4, "a longer sequence"),
    ]


class Counted(TorchFunctionMode):
    """While it is on: `compared`, how many scores and weights are computed; `largest`, the bytes of the largest tensor.

    However an answer works, each pair that it compares is a number in a product or in a softmax. Of a view only
    the storage behind it counts.
    """

    PRODUCTS = {"matmul", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "einsum", "tensordot", "cdist"}

    def __init__(self):
        super().__init__()
        self.compared = self.largest = 1

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").strip("_")
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, storage_bytes(tensor))
                if name in self.PRODUCTS or "softmax" in name or name == "exp" or outer_product(name, tensor, args):
                    self.compared += tensor.numel()
        if name == "scaled_dot_product_attention":  # its scores never appear as a tensor
            query, key = (
                args[index] if index < len(args) else kwargs[side] for index, side in enumerate(("query", "key"))
            )
            self.compared += query[..., 0].numel() * key.size(-2)
        return result


def storage_bytes(tensor):
    try:
        return tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # sparse tensors have no storage, those inside `vmap` do not show it
        return 0


def outer_product(name, tensor, args):
    """An elementwise product that broadcasts to more numbers than either factor has."""
    factors = [factor.numel() for factor in args if isinstance(factor, torch.Tensor)]
    return name in ("mul", "rmul", "multiply") and all(tensor.numel() > numbers for numbers in factors)


# Three times the length: three times the cost, or nine times. In between are blocks that a short sequence does not fill.
SHORT, LONG, TOO_MUCH = 250, 750, 5.5
WIDE = 32
IN_BLOCKS = 2 * 3 * WIDE  # scores and weights of each token, with blocks as long as the window


def the_cost_is_linear(answer, generator):
    def correct(output, args):
        return difference(output, solved.local_attention(*args), 1e-3) is None

    def counted(n, window):
        args = *(normal(generator, 1, 1, n, 2) for _ in range(3)), window
        with Counted() as counts:
            output = answer(*args)
        return counts, correct(output, args)

    if not all(correct(answer(*case.args), case.args) for case in local_cases(generator)):
        return  # wrong values have messages of their own
    (short, short_correct), (long, long_correct) = counted(SHORT, 3), counted(LONG, 3)
    if not (short_correct and long_correct):
        return
    if long.compared > TOO_MUCH * short.compared:
        raise Wrong(
            "The result is correct, but all n² scores are computed: a sequence three times as long needs "
            f"{long.compared / short.compared:.0f} times as many. Compare each block of queries with three blocks of keys only."
        )
    if long.largest > TOO_MUCH * short.largest:
        raise Wrong(
            "The result is correct, but an n x n tensor is still created, such as a mask to slice. Build the mask of a block, "
            "(window, 3 window), from positions."
        )
    wide, _ = counted(LONG, WIDE)
    if wide.compared > 10 * LONG * IN_BLOCKS:
        raise Wrong(
            f"The result is correct, but with a window of {WIDE} it computes {wide.compared / LONG:,.0f} scores and weights per "
            f"token instead of {IN_BLOCKS}. Are there more blocks than the sequence fills?"
        )


IN_WINDOW = "(offset.abs() <= w) & inside[:, None]"
PAD = "F.pad(x, (0, 0, w, w + padding))"
QUERY_BLOCKS = "F.pad(query, (0, 0, 0, padding)).unflatten(2, (blocks, w))"
WRAPPED = [
    (PAD, "F.pad(x, (0, 0, 0, padding))[:, :, torch.arange(-w, blocks * w + w) % (blocks * w)]"),
    ("(position >= 0) & (position < n)", "position % (blocks * w) < n"),
]


def in_blocks(weights):
    """The attention of the blocks by hand, from `scores` and `mask`."""
    return [
        (
            f"output, _ = attention(query, key, value, {IN_WINDOW})",
            f"{SCORES}\nmask = {IN_WINDOW}\noutput = {weights} @ value",
        )
    ]


def all_pairs(weights):
    return [(BODY, f"{SCORES}\nmask = local_attention_mask(query.size(2), window)\nreturn {weights} @ value")]


def full_attention(mask):
    return f"n = query.size(2)\nreturn attention(query, key, value, {mask})[0]"


def gathered(wrap):
    """For each query its own 2 window + 1 keys."""
    return f"""
        n = query.size(2)
        position = (torch.arange(n)[:, None] + torch.arange(-window, window + 1)){wrap}
        return attention(query.unsqueeze(3), key[:, :, position], value[:, :, position])[0].squeeze(3)
        """


def by_slices(start, end):
    return f"""
        rows = []
        for i in range(query.size(2)):
            near = slice({start}, {end})
            rows.append(attention(query[:, :, i : i + 1], key[:, :, near], value[:, :, near])[0])
        return torch.cat(rows, 2)
        """


PADDING_ATTENDED = "Queries attend to the padding at the ends. Mask positions below 0 and from n on."
WRAPS_AROUND = "The first tokens attend to the last ones: indices wrap around. Mask positions below 0 and from n on."
REMAINDER_DROPPED = "The last n % window tokens were dropped. Pad to a multiple of `window`, then cut to n."
REMAINDER_ZERO = (
    "The outputs of the last n % window tokens stayed 0. The last block is shorter: run over `range(0, n, window)`."
)
NOT_A_MULTIPLE = "The reshape fails because n is not a multiple of `window`. Pad the sequence with `F.pad` first."

register(
    Exercise(
        id="9.2",
        cases=local_cases,
        gradient=True,
        tolerance=1e-3,
        properties=[the_cost_is_linear],
        mistakes=[
            mistake(
                "position >= 0",
                "position // w == torch.arange(blocks)[:, None]",
                "Each block sees its own keys only. Near its edges the window reaches into the blocks before and after it.",
            ),
            mistake(
                "position >= 0",
                "position // w >= torch.arange(blocks)[:, None]",
                "The keys of the previous block are missing. The first queries of a block attend to them.",
            ),
            mistake(
                "(position < n)",
                "(position < n) & (position // w <= torch.arange(blocks)[:, None])",
                "The keys of the next block are missing. The last queries of a block attend to them.",
            ),
            mistake(IN_WINDOW, "inside[:, None]", "Queries attend to whole blocks. Mask keys outside the window."),
            mistake(f", {IN_WINDOW}", "", "Nothing is masked, not even the padding. Pass a mask to `attention`."),
            mistake(" & inside[:, None]", "", PADDING_ATTENDED),
            mistake([*WRAPPED, (" & inside[:, None]", "")], WRAPS_AROUND),
            mistake(WRAPPED, WRAPS_AROUND),
            mistake(BODY, gathered(" % n"), WRAPS_AROUND),
            mistake(BODY, gathered(".clamp(0, n - 1)"), "Clamped indices count the end keys several times. Mask them."),
            mistake("offset.abs() <= w", "offset.abs() < w", "The window is one position too short. Use `<=`."),
            mistake(
                BODY,
                full_attention("local_attention_mask(n, window + 1)"),
                "The window is one position too long. Use `<= window`.",
            ),
            mistake(
                "offset.abs() <= w",
                "offset.abs() <= w // 2",
                "`window` is the reach to each side, not the total width.",
            ),
            mistake(
                "(offset.abs() <= w)",
                "(offset.abs() <= w) & (offset <= 0)",
                "Only earlier keys are visible. Allow both sides.",
            ),
            mistake(
                "(offset.abs() <= w)",
                "(offset.abs() <= w) & (offset >= 0)",
                "Only later keys are visible. Allow both sides.",
            ),
            mistake(BODY, by_slices("i - window", "i + window + 1"), SLICE_BELOW_0),
            mistake(BODY, by_slices("max(0, i - window)", "i + window"), SLICE_END),
            mistake(BODY, full_attention("None"), "`window` has no effect. Mask the keys outside the window."),
            mistake(all_pairs("scores.masked_fill(~mask, -torch.inf).softmax(-2)"), OVER_THE_QUERIES),
            mistake(in_blocks("scores.masked_fill(~mask, -torch.inf).softmax(-2)"), OVER_THE_QUERIES),
            mistake(in_blocks("scores.masked_fill(~mask, -1e9).softmax(-2)"), OVER_THE_QUERIES),
            mistake(IN_WINDOW, f"{IN_WINDOW}, scale=1", NOT_SCALED),
            mistake(
                IN_WINDOW,
                f"{IN_WINDOW}, scale=1 / query.size(-1)",
                "The scores were divided by d. Use its square root.",
            ),
            mistake(in_blocks("scores.masked_fill(~mask, 0.0).softmax(-1)"), MASKED_WITH_ZERO),
            mistake(all_pairs("scores.masked_fill(~mask, 0.0).softmax(-1)"), MASKED_WITH_ZERO),
            mistake(in_blocks("(scores.softmax(-1) * mask)"), MASKED_LATE),
            mistake(all_pairs("(scores.softmax(-1) * mask)"), MASKED_LATE),
            mistake(IN_WINDOW, f"~({IN_WINDOW})", MASK_INVERTED),
            mistake(in_blocks("scores.masked_fill(mask, -torch.inf).softmax(-1)"), MASK_INVERTED),
            mistake(in_blocks("scores.masked_fill(mask, -1e9).softmax(-1)"), MASK_INVERTED),
            mistake("[:, :, :n]", "", "The padding of the last block was returned. Cut it off: `[:, :, :n]`."),
            mistake("-(-n // w)", "n // w", REMAINDER_DROPPED),
            mistake(
                BODY,
                """
                n = query.size(2) // window * window
                return attention(*(x[:, :, :n] for x in (query, key, value)), local_attention_mask(n, window))[0]
                """,
                REMAINDER_DROPPED,
            ),
            mistake("[:, :, :n]", "[:, :, : n // w * w]", REMAINDER_DROPPED),
            mistake("[:, :, :n]", "[:, :, :n] * (torch.arange(n) < n // w * w).unsqueeze(-1)", REMAINDER_ZERO),
            mistake(
                "return output.flatten(2, 3)[:, :, :n]",
                "return torch.cat([output[:, :, block] for block in range(n // w)], 2)",
                REMAINDER_DROPPED,
            ),
            mistake(QUERY_BLOCKS, "query.unflatten(2, (-1, w))", NOT_A_MULTIPLE),
            mistake(QUERY_BLOCKS, "query.reshape(*query.shape[:2], -1, w, query.size(3))", NOT_A_MULTIPLE),
            mistake(QUERY_BLOCKS, "query.reshape(*query.shape[:2], n // w, w, query.size(3))", NOT_A_MULTIPLE),
        ],
        hints=[
            "Pad n to a multiple of the window with `F.pad`, then `unflatten(2, (-1, window))`: (b, heads, blocks, window, d). "
            "A block of queries needs the keys of three blocks: the previous one, its own and the next one. (A loop over the blocks with slices needs no padding and is accepted too.)",
            "Add a block of zeros at both ends of the keys, then concatenate the blocks shifted by one, unshifted, and shifted the "
            "other way: (b, heads, blocks, 3 window, d). The same for the values.",
            "The mask: within a block the query is at i = 0 .. window - 1 and the key at j = -window .. 2 window - 1. Require "
            "|i - j| <= window, and a key position in the sequence, window * block + j, from 0 to n - 1.",
            "`attention(query, key, value, mask)[0]`, then `flatten(2, 3)` and `[:, :, :n]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.3 few keys
def few_cases(generator):
    def case(shape, k, note=""):
        return Case((*(normal(generator, *shape) for _ in range(3)), normal(generator, k, shape[-2])), note=note)

    return [
        case((2, 3, 7, 4), 5),
        case((6, 3), 2, "one sequence without a batch axis"),
        case((3, 5, 2), 4),
        case((2, 4, 3), 1, "k = 1"),
        case((2, 4, 4), 4, "all sizes equal"),
        case((2, 3, 5), 6, "k larger than n"),
    ]


def projected(form):
    return [(f"projection @ {name}", form.format(name)) for name in ("key", "value")]


def few_by_hand(keys, values, dim=-1):
    return f"key, value = {keys}, {values}\n{SCORES}\nreturn scores.softmax({dim}) @ value"


ONLY_KEYS = "Only the keys were projected, so k weights meet n values. Project the values too: `projection @ value`."
ONLY_VALUES = "Only the values were projected, so n weights meet k values. Project the keys too: `projection @ key`."
FEATURES_MIXED = (
    "`projection` was applied to the features. It combines tokens, so it multiplies from the left: `projection @ key`."
)

register(
    Exercise(
        id="9.3",
        cases=few_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            mistake("projection @ value", "value", ONLY_KEYS),
            mistake(BODY, few_by_hand("projection @ key", "value"), ONLY_KEYS),
            mistake("projection @ key", "key", ONLY_VALUES),
            mistake(BODY, few_by_hand("key", "projection @ value"), ONLY_VALUES),
            mistake(projected("{}"), "`projection` has no effect. Reduce the n keys to k first: `projection @ key`."),
            mistake(
                "attention(query", "attention(projection @ query", "The queries were projected too. Keep them as is."
            ),
            mistake("output, _ =", "return", OUTPUT_AND_WEIGHTS),
            mistake(
                projected("{}[..., : len(projection), :]"), "These are the first k tokens. Use `projection @ key`."
            ),
            mistake(
                projected("projection.T @ {}"), "`projection` was transposed. It is already (k, n): `projection @ key`."
            ),
            mistake(projected("{} @ projection"), FEATURES_MIXED),
            mistake(projected("{} @ projection.T"), FEATURES_MIXED),
            mistake(projected("projection.softmax(-1) @ {}"), "`projection` went through a softmax. Use it as it is."),
            mistake(
                projected("projection @ {} / projection.size(-1)"), "The projection was divided by n. Use it as it is."
            ),
            mistake(BODY, few_by_hand("projection @ key", "projection @ value", -2), OVER_THE_QUERIES),
            mistake("projection @ value", "projection @ value, scale=1", NOT_SCALED),
            mistake(
                "projection @ value",
                "projection @ value, scale=len(projection) ** -0.5",
                "The scores were divided by the square root of k. Divide by the square root of d, the feature dimension.",
            ),
        ],
        hints=[
            "`projection @ key` is (..., k, d): each of its k rows is a linear combination of all n keys.",
            "Project the values in the same way and leave the queries as they are.",
            "`attention` returns the output and the attention weights: return the first.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.4 a power law
def law_cases(generator):
    def uniform(low, high):
        return low + (high - low) * float(torch.rand((), generator=generator))

    def case(x, coefficient, exponent, scatter, note=""):
        x = torch.tensor(x)
        return Case((x, coefficient * x**-exponent * (scatter * normal(generator, len(x))).exp()), note=note)

    sizes = [3800.0, 10_000.0, 25_000.0, 57_000.0, 100_000.0, 220_000.0, 400_000.0]
    return [
        case([1.0, 2.0, 4.0, 8.0, 16.0], uniform(2, 9), uniform(0.5, 1.5), 0.3, "noisy points"),
        case([1.0, 3.0, 10.0, 20.0], uniform(2, 9), uniform(0.3, 0.9), 0.0, "points on the curve"),
        case(sizes, uniform(6, 12), uniform(0.05, 0.2), 0.05, "models of many sizes"),
        case([64.0, 128.0, 256.0, 512.0], uniform(0.5, 3), uniform(-2, -0.8), 0.3, "y grows: the exponent is negative"),
        case([9.0, 0.5, 4.0, 0.1, 2.0, 30.0], uniform(2, 9), uniform(0.4, 1.2), 0.4, "x is not sorted"),
        case([2.0, 3.0, 7.0], uniform(2, 9), uniform(0.5, 2), 0.3, "three points"),
        case([float(2 + n) for n in range(20)], uniform(2, 9), uniform(0.5, 1.5), 0.2, "twenty points"),
    ]


LOGS, INTERCEPT = "x, y = x.log(), y.log()", "(y.mean() - slope * x.mean())"
FIT, RESULTS = "((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()", f"{INTERCEPT}.exp(), -slope"
NO_LOGARITHMS = "The line was fitted to x and y. A power law is linear in the logarithms: log y = log a - b log x."
MIXED_BASES = "The logarithm and the exponential have different bases. `exp` inverts `log`; 10 ** inverts `log10`."
SWAPPED = "The two results are swapped. Return the coefficient first, then the exponent."

register(
    Exercise(
        id="9.4",
        cases=law_cases,
        output_names=("coefficient", "exponent"),
        any_float=True,
        mistakes=[
            mistake("-slope", "slope", "The exponent has the wrong sign. In y = a x ** -b it is minus the slope."),
            mistake("-slope", "slope.abs()", "The exponent lost its sign. It is negative where y grows."),
            mistake(".exp()", "", "The coefficient is still a logarithm. The intercept is log a: take its `exp`."),
            mistake(RESULTS, f"{INTERCEPT}, slope", "These are intercept and slope. Return exp(intercept) and -slope."),
            mistake([(LOGS, ""), (RESULTS, f"{INTERCEPT}, -slope")], NO_LOGARITHMS),
            mistake([(LOGS, ""), (RESULTS, f"{INTERCEPT}, slope")], NO_LOGARITHMS),
            mistake(LOGS, "", NO_LOGARITHMS),
            mistake("x.log()", "x", "Only y is a logarithm: that fits an exponential. Use the log of x too."),
            mistake([("y.log()", "y"), (".exp()", "")], "Only x is a logarithm. Take the logarithm of y too."),
            mistake(LOGS, "x, y = x.log10(), y.log10()", MIXED_BASES),
            mistake(LOGS, "x, y = x.log2(), y.log2()", MIXED_BASES),
            mistake(f"{INTERCEPT}.exp()", f"10 ** {INTERCEPT}", MIXED_BASES),
            mistake(RESULTS, f"-slope, {INTERCEPT}.exp()", SWAPPED),
            mistake(RESULTS, f"slope, {INTERCEPT}.exp()", SWAPPED),
            mistake(RESULTS, f"slope, {INTERCEPT}", SWAPPED),
            mistake(
                [(FIT, "(y[-1] - y[0]) / (x[-1] - x[0])"), (INTERCEPT, "(y[0] - slope * x[0])")],
                "The line passes through the first and the last point only. Fit all points by least squares.",
            ),
            mistake(FIT, "(y.diff() / x.diff()).mean()", "Slopes between neighbors were averaged. Use least squares."),
            mistake(FIT, "(x * y).sum() / x.square().sum()", "The fit lacks an intercept. Center log x and log y."),
            mistake(
                "(x - x.mean()).square()",
                "(y - y.mean()).square()",
                "The slope was divided by the sum of squares of log y. Divide by that of log x.",
            ),
            mistake(
                FIT,
                "((x - x.mean()) * (y - y.mean())).mean() / x.var()",
                "The slope is off by (n - 1) / n: `mean` divides by n, `var` by n - 1. Use sums, or `correction=0`.",
            ),
            mistake(" - slope * x.mean()", "", "The intercept is the mean of log y. Subtract slope * mean(log x)."),
            mistake("- slope", "+ slope", "The intercept has a wrong sign. It is mean(log y) - slope * mean(log x)."),
            mistake(INTERCEPT, "y[0]", "The coefficient is the first y. It is the fitted value at x = 1."),
            mistake(RESULTS, "-slope", "Only the exponent was returned. Return the coefficient and the exponent."),
        ],
        hints=[
            "log y = log a - b log x: a straight line in `x.log()` and `y.log()`.",
            "Subtract the mean from each. The least-squares slope is the sum of their products divided by the sum of squares of the "
            "centered log x.",
            "The exponent is minus the slope. The line passes through both means, so log a = mean(log y) - slope * mean(log x); "
            "the coefficient is `exp` of that.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.5 RMS norm
def rms_cases(generator):
    def case(*shape, center=0.5, spread=2.0, eps=None, note=""):
        args = center + spread * normal(generator, *shape), 1 + 0.5 * normal(generator, shape[-1])
        return Case(args if eps is None else (*args, eps), note=note)

    return [
        case(2, 4, 3),
        case(3, 5, note="one sequence without a batch axis"),
        case(6, note="one token"),
        case(4, 4, 4, note="all sizes equal"),
        case(2, 3, 5, center=0.0, spread=0.003, note="small features"),
        case(3, 2, 4, eps=0.5, note="eps=0.5"),
        case(2, 3, 6, center=5.0, spread=0.5, note="features far from 0"),
        case(2, 3, center=0.0, spread=0.0, note="all features are 0"),
        case(1, 3, 4, note="a batch of one"),
    ]


MEAN_SQUARE = "x.square().mean(-1, keepdim=True)"
RMS = f"({MEAN_SQUARE} + eps).sqrt()"

register(
    Exercise(
        id="9.5",
        cases=rms_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            mistake(
                "return",
                "x = x - x.mean(-1, keepdim=True)\nreturn",
                "The mean was subtracted, which is layer norm. RMS norm only divides by the root mean square.",
            ),
            mistake(
                MEAN_SQUARE,
                "x.var(-1, keepdim=True, correction=0)",
                "It was divided by the standard deviation, which ignores the mean. Use the mean square of x itself.",
            ),
            mistake(
                MEAN_SQUARE,
                "x.var(-1, keepdim=True)",
                "It was divided by torch's standard deviation (centered, over dim - 1). Use the mean square of x itself.",
            ),
            mistake(RMS, f"({MEAN_SQUARE}.sqrt() + eps)", "`eps` was added after the square root. Add it before."),
            mistake(" + eps", "", "`eps` is missing, so 0 is divided by 0. Add it to the mean square."),
            mistake(".sqrt()", "", "It was divided by the mean square. Divide by its square root."),
            mistake("x / (", "x * (", "It was multiplied by the root mean square. Divide by it."),
            mistake("mean(", "sum(", "It was divided by the vector norm. Use the mean of the squares."),
            mistake(
                RMS,
                "(x.abs().mean(-1, keepdim=True) + eps)",
                "It was divided by the mean absolute value. Square, take the mean, then the square root.",
            ),
            mistake(MEAN_SQUARE, "x.mean(-1, keepdim=True).square()", "The mean was squared. Square before the mean."),
            mistake("mean(-1", "mean(0", "The mean ran over the first axis. Take it over the features (dim -1)."),
            mistake("mean(-1", "mean(-2 if x.dim() > 1 else -1", "The mean ran over the positions. Use dim -1."),
            mistake("mean(-1, keepdim=True)", "mean()", "The mean ran over all numbers. Take one per token (dim -1)."),
            mistake(", keepdim=True", "", "The mean broadcasts along the wrong axis. Use `keepdim=True`."),
            mistake(" * weight", "", "`weight` has no effect. Multiply by it at the end."),
            mistake("* weight", "+ weight", "`weight` was added. Multiply by it."),
            mistake("* weight", "* (1 + weight)", "It was multiplied by 1 + weight. Multiply by `weight`."),
            mistake(
                [(" * weight", ""), ("return", "x = x * weight\nreturn")],
                "`weight` was applied before the norm, which partly undoes it. Normalize first, then multiply by `weight`.",
            ),
            mistake("+ eps", "+ 1e-5", "The argument `eps` has no effect. Use it instead of a constant."),
            mistake("+ eps", "+ eps**2", "`eps` was squared. Add it as it is."),
        ],
        hints=[
            "`x.square().mean(-1, keepdim=True)` is the mean square of each token; `keepdim` keeps an axis of length 1, so that it "
            "broadcasts over the features.",
            "Add `eps`, take the square root, divide x by it.",
            "Multiply by `weight`, which broadcasts along the last axis.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.6 SwiGLU
def swiglu_cases(generator):
    def case(*shape, hidden_dim, note="", size=1.0):
        dim = shape[-1]
        matrices = [normal(generator, *sizes) for sizes in ((dim, hidden_dim), (dim, hidden_dim), (hidden_dim, dim))]
        return Case((size * normal(generator, *shape), *matrices), note=note)

    return [
        case(2, 4, 3, hidden_dim=6),
        case(3, 2, 5, hidden_dim=4, note="hidden_dim smaller than dim"),
        case(5, 3, hidden_dim=7, note="no batch axis"),
        case(6, hidden_dim=2, note="one token"),
        case(2, 3, 4, hidden_dim=4, note="hidden_dim equal to dim"),
        case(3, 3, 3, hidden_dim=3, note="all sizes equal"),
        case(2, 2, 3, hidden_dim=5, note="large inputs", size=20.0),
        case(1, 3, 4, hidden_dim=5, note="a batch of one"),
    ]


GATED = "F.silu(x @ W) * (x @ V)"
GATED_UNITS = f"({GATED}) @ W_2"
OTHER_GATES = {
    "torch.sigmoid(x @ W)": "The gate is a sigmoid, which is GLU. SiLU is z times sigmoid(z): `F.silu`.",
    "F.gelu(x @ W)": "The gate is a GELU, which is GEGLU. Use `F.silu`.",
    "torch.relu(x @ W)": "The gate is a ReLU, which is ReGLU. Use `F.silu`.",
    "torch.tanh(x @ W)": "The gate is a tanh. Use `F.silu`.",
    "(x @ W).softmax(-1)": "The gate is a softmax over the hidden units. Use `F.silu`, unit by unit.",
    "(x @ W)": "The gate has no activation function. Apply `F.silu` to x W.",
}

register(
    Exercise(
        id="9.6",
        cases=swiglu_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            *replacing("F.silu(x @ W)", OTHER_GATES),
            *replacing(
                GATED,
                {
                    "F.silu(x @ V) * (x @ W)": "W and V are swapped. The gate is silu(x W), the units are x V.",
                    "F.silu(x @ W) + x @ V": "Gate and units were added. Multiply them elementwise.",
                    "F.silu((x @ W) * (x @ V))": "SiLU was applied to the product. Apply it to x W, then multiply by x V.",
                    "F.silu(x @ W) * F.silu(x @ V)": "SiLU was applied to both projections. The units x V stay linear.",
                    "F.silu(x @ W)": "The units x V are missing. Multiply the gate by them.",
                    "x @ V": "The gate silu(x W) is missing. Multiply the units by it.",
                    "F.silu(x) @ W * (x @ V)": "SiLU was applied to the input. Apply it to x W.",
                    "F.silu(x @ W.T) * (x @ V.T)": "W and V were transposed. They are (dim, hidden_dim): `x @ W`.",
                },
            ),
            *replacing(
                GATED_UNITS,
                {
                    GATED: "`W_2` is missing. The output has the width of x again.",
                    f"x + {GATED_UNITS}": "x was added to the output. The residual connection is outside of this layer.",
                    f"F.silu({GATED_UNITS})": "SiLU was also applied to the output. The product with W_2 is the last step.",
                    f"({GATED}) @ W_2.T": "`W_2` was transposed. It is (hidden_dim, dim): `@ W_2`.",
                },
            ),
        ],
        hints=[
            "`x @ W` and `x @ V` are both (..., hidden_dim).",
            "`F.silu(x @ W)` is the gate; multiply it with `x @ V` elementwise, with `*`.",
            "`@ W_2` brings the product back to (..., dim). Mind the parentheses: `*` and `@` bind equally.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.7 shared keys
def group_cases(generator):
    def case(b, num_heads, num_kv_heads, m, n, d, mask=None, note=""):
        key, value = (normal(generator, b, num_kv_heads, n, d) for _ in range(2))
        args = normal(generator, b, num_heads, m, d), key, value
        return Case(args if mask is None else (*args, mask), note=note)

    return [
        case(2, 6, 3, 4, 5, 7, random_mask(generator, 4, 5), "two query heads per key head"),
        case(3, 6, 2, 5, 4, 2, note="no mask"),
        case(2, 4, 2, 3, 3, 5, torch.ones(3, 3, dtype=torch.bool).tril(), "causal"),
        case(2, 3, 3, 4, 6, 5, random_mask(generator, 4, 6), "one key head per query head"),
        case(2, 3, 1, 2, 4, 5, random_mask(generator, 2, 4), "one key head for all"),
        case(1, 4, 2, 5, 5, 3, mask_with_empty_row(generator, 2, 5)[1], "a fully masked row"),
        case(2, 8, 2, 1, 3, 4, note="one query, as in decoding"),
    ]


REPEAT = "x.repeat_interleave(group, 1)"
REPEATED = f"key, value = ({REPEAT} for x in (key, value))"
MEAN_QUERY = (REPEATED, "query = query.unflatten(1, (-1, group)).mean(2)")


def grouped_by_hand(weights):
    return [
        (
            "return attention(query, key, value, mask)[0]",
            f"{SCORES}\nif mask is None:\n    mask = torch.ones(scores.shape[-2:], dtype=torch.bool)\nreturn {weights} @ value",
        )
    ]


DIFFERENT_ORDERS = "Keys and values were repeated in different orders. Use `repeat_interleave(group, 1)` for both."

register(
    Exercise(
        id="9.7",
        cases=group_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            mistake(
                REPEAT,
                "x.repeat(1, group, 1, 1)",
                "The key heads alternate (0, 1, 0, 1), but neighboring query heads share one (0, 0, 1, 1). Use `repeat_interleave`.",
            ),
            mistake(
                REPEATED, "key, value = key.repeat(1, group, 1, 1), value.repeat_interleave(group, 1)", DIFFERENT_ORDERS
            ),
            mistake(
                REPEATED, "key, value = key.repeat_interleave(group, 1), value.repeat(1, group, 1, 1)", DIFFERENT_ORDERS
            ),
            mistake(
                REPEAT,
                "x[:, torch.arange(query.size(1)) // x.size(1)]",
                "Query head h got key head h // num_kv_heads. Divide by the group size, num_heads / num_kv_heads.",
            ),
            mistake(REPEAT, "x[:, :1]", "All query heads use key head 0. Head h uses h // group."),
            mistake(REPEAT, "x.mean(1, keepdim=True)", "The key heads were averaged. Each group has its own."),
            mistake([MEAN_QUERY], "The query heads of a group were averaged. Share only keys and values."),
            mistake(
                [MEAN_QUERY, ("[0]", "[0].repeat_interleave(group, 1)")],
                "The query heads of a group were averaged, so their outputs are equal. Only keys and values are shared.",
            ),
            mistake(
                "[0]", "[0].unflatten(1, (-1, group)).mean(2)", "Head outputs of a group were averaged. Return all."
            ),
            mistake(REPEATED, "query = query[:, ::group]", "Only one query head per group was used. Use all of them."),
            mistake(REPEATED, "", "There are fewer key heads than query heads. Repeat keys and values."),
            mistake(
                "[0]",
                "[0].unflatten(1, (-1, group)).transpose(1, 2).flatten(1, 2)",
                "The heads were returned in a different order. Output h belongs to query head h.",
            ),
            mistake(", mask)", ")", "The mask has no effect. Pass it to `attention`."),
            mistake(", mask)", ", None if mask is None else ~mask)", MASK_INVERTED),
            mistake(grouped_by_hand("scores.masked_fill(mask, -torch.inf).softmax(-1)"), MASK_INVERTED),
            mistake(
                grouped_by_hand("scores.masked_fill(~mask, -torch.inf).softmax(-1)"),
                "A fully masked row became NaN (0 / 0); it must be zeros. Pass the mask to `attention`, which handles such rows.",
            ),
            mistake(
                grouped_by_hand("scores.masked_fill(~mask, -1e9).softmax(-1)"),
                "A fully masked row became the mean of all values; it must be zeros. Pass the mask to `attention`.",
            ),
            mistake(grouped_by_hand("(scores.softmax(-1) * mask)"), MASKED_LATE),
            mistake(grouped_by_hand("scores.masked_fill(~mask, 0.0).softmax(-1)"), MASKED_WITH_ZERO),
            mistake(
                BODY,
                """
                group = query.size(1) // key.size(1)
                rows = None if mask is None else mask.repeat_interleave(group, 0)
                return attention(query.unflatten(1, (-1, group)).flatten(2, 3), key, value, rows)[0].reshape(query.shape)
                """,
                "The rows of the mask do not match the stacked queries of a group. Repeat the whole mask: `mask.repeat(group, 1)`.",
            ),
            mistake(", mask)", ", mask, scale=1)", NOT_SCALED),
            mistake(
                ", mask)",
                ", mask, scale=(query.size(1) * query.size(-1)) ** -0.5)",
                "The scores were divided by the square root of num_heads * d. Use the square root of d, the dimension of one head.",
            ),
            mistake(grouped_by_hand("scores.masked_fill(~mask, -torch.inf).softmax(-2)"), OVER_THE_QUERIES),
            mistake("[0]", "", OUTPUT_AND_WEIGHTS),
        ],
        hints=[
            "`group = query.size(1) // key.size(1)` query heads share a key head: heads 0 to group - 1 the first one, and so on.",
            "`key.repeat_interleave(group, 1)` repeats each key head `group` times in a row; the same for the values.",
            "The rest is ordinary attention with the mask: `attention(query, key, value, mask)[0]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.8 image patches
def patch_cases(generator):
    def case(b, side, size, note=""):
        return Case((normal(generator, b, side, side), size), note=note)

    return [
        case(2, 6, 2),
        case(3, 6, 3),
        case(2, 4, 2, "as many patches in a row as pixels in a patch"),
        case(1, 8, 2, "one image"),
        case(2, 3, 1, "patches of one pixel"),
        case(3, 5, 5, "one patch"),
    ]


MERGED = ".reshape(b, -1, size * size)"

register(
    Exercise(
        id="9.8",
        cases=patch_cases,
        mistakes=[
            mistake(".transpose(2, 3)", "", "A plain reshape gives strips. Split both axes and swap the middle two."),
            mistake("transpose(2, 3)", "permute(0, 3, 1, 2, 4)", "The patches go column by column. Go row by row."),
            mistake("transpose(2, 3)", "permute(0, 1, 3, 4, 2)", "Each patch is transposed. Order it row by row."),
            mistake("transpose(2, 3)", "permute(0, 3, 1, 4, 2)", "Patches and pixels go by columns. Go by rows."),
            mistake(
                [
                    ("side // size, size, side // size, size", "size, side // size, size, side // size"),
                    ("transpose(2, 3)", "permute(0, 2, 4, 1, 3)"),
                ],
                "The pixels of a patch are far apart in the image. Split each axis into (side // size, size), in this order.",
            ),
            mistake(MERGED, "", "Patches and pixels are still grids. Merge to (b, patches, size * size)."),
            mistake(MERGED, ".flatten(1, 2)", "The pixels of a patch are still a square. Flatten them."),
            mistake(MERGED, ".flatten(3)", "The patches are still a grid. Merge them into one sequence."),
            mistake(MERGED, f"{MERGED}.transpose(1, 2)", "The last two axes are swapped. Use one row per patch."),
            mistake("(b, -1, size * size)", "(-1, size * size)", "All images form one sequence. Keep the batch axis."),
            mistake(
                BODY,
                "return images.unfold(1, size, 1).unfold(2, size, 1).flatten(3).flatten(1, 2)",
                "The patches overlap. Move on by `size` pixels (the stride).",
            ),
            mistake(
                BODY,
                "return images.reshape(len(images), images.size(1) // size, -1)",
                "These are strips as wide as the image. Split the columns as well, into squares of size x size.",
            ),
            mistake(
                "= images.shape",
                "= images.shape\nsize = side // size",
                "`size` was treated as the number of patches per row. It is the side length of a patch in pixels.",
            ),
        ],
        hints=[
            "Split both image axes, which gives five: `images.reshape(b, side // size, size, side // size, size)` is (b, patch row, "
            "row within, patch column, column within).",
            "The two axes that select the patch must be adjacent, and so must the two within it: `transpose(2, 3)`.",
            "`reshape(b, -1, size * size)` then merges each of these pairs.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.9 several workers
def join_cases(generator):
    def case(counts, *shape, note=""):
        return Case((normal(generator, len(counts), *shape), torch.tensor(counts)), note=note)

    first, second = torch.randint(10, 90, (2,), generator=generator).tolist()
    return [
        case([first, 3 * second + 100], 4, note="two workers"),
        case([5, 20, 11], 2, 4, note="gradients of a matrix"),
        case([30, 10, second], 3, note="as many workers as numbers in a gradient"),
        case([6, 2, 9], 3, 3, note="all sizes equal"),
        case([7, 1, 2, 6], note="scalar gradients"),
        case([8, 8], 5, note="the same number of tokens for each"),
        case([12, 0, 4], 2, note="a worker without tokens"),
        case([17], 3, note="one worker"),
        case([3, 40], 2, 3, 5, note="gradients with three axes"),
    ]


TOKEN_WEIGHTS = "counts / counts.sum()"
WRONG_AXIS = "The sum ran over an axis of the gradients. Sum over the workers."

register(
    Exercise(
        id="9.9",
        cases=join_cases,
        mistakes=[
            mistake(
                BODY,
                "return gradients.mean(0)",
                "All workers weigh the same, so tokens of small workers count more. Weight by `counts / counts.sum()`.",
            ),
            mistake(
                BODY,
                "return gradients.sum(0)",
                "The gradients were summed, but each is already a mean. Weight them by `counts / counts.sum()`.",
            ),
            mistake(TOKEN_WEIGHTS, "counts", "The weights do not sum to 1. Divide them by `counts.sum()`."),
            mistake(
                TOKEN_WEIGHTS, "counts / len(counts)", "It was divided by the number of workers. Use `counts.sum()`."
            ),
            mistake(
                TOKEN_WEIGHTS,
                f"{TOKEN_WEIGHTS} / len(counts)",
                "It was also divided by the number of workers. Use a sum.",
            ),
            mistake(
                BODY,
                "return gradients.sum(0) / counts.sum()",
                "Gradients of means were summed and divided by all tokens. Multiply each by its count first.",
            ),
            mistake(
                TOKEN_WEIGHTS,
                "(1 / counts) / (1 / counts).sum()",
                "The weights are inverted. They grow with the count.",
            ),
            mistake(
                TOKEN_WEIGHTS, "1 / counts", "Gradients were divided by `counts`. Multiply by `counts / counts.sum()`."
            ),
            mistake(
                TOKEN_WEIGHTS, "counts // counts.sum()", "Integer division `//` turned the weights into 0. Use `/`."
            ),
            mistake(TOKEN_WEIGHTS, "counts / counts.max()", "It was divided by the largest count. Use `counts.sum()`."),
            mistake(
                TOKEN_WEIGHTS,
                "counts.float().softmax(0)",
                "The counts went through a softmax. Use `counts / counts.sum()`.",
            ),
            mistake(
                TOKEN_WEIGHTS,
                "counts.square() / counts.square().sum()",
                "The counts were used twice. The gradients are means, so weight each by its count once.",
            ),
            mistake(
                "gradients.movedim(0, -1) * weights).sum(-1)",
                "gradients * weights).sum(0)",
                "The weights (workers,) broadcast along the last axis. They belong to the first: reshape them to (workers, 1, ...).",
            ),
            mistake(
                BODY,
                "return (counts / counts.sum()) @ gradients",
                "`@` sums over the wrong axis once a gradient is a matrix. Multiply by weights (workers, 1, ...) and sum over axis 0.",
            ),
            mistake(".sum(-1)", ".movedim(-1, 0)", "The workers were not summed. Sum over their axis."),
            mistake(".sum(-1)", ".sum()", "All numbers were summed into one. Sum over the workers only."),
            mistake(".sum(-1)", ".movedim(-1, 0).sum(-1)", WRONG_AXIS),
            mistake(".sum(-1)", ".sum(0)", WRONG_AXIS),
            mistake(
                BODY, "return gradients[counts.argmax()]", "This is the gradient of one worker. Combine all of them."
            ),
        ],
        hints=[
            "The mean over all tokens is the sum over all tokens divided by their number. A worker's gradient times its count is "
            "the gradient of its summed loss.",
            "So the weight of a worker is its fraction of all tokens, `counts / counts.sum()`.",
            "`gradients.movedim(0, -1)` moves the workers to the last axis, where the weights broadcast; multiply and `.sum(-1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="9.a",
        question="A long sequence becomes twice as long. Attention is computed step by step: scores, softmax, weights times values. "
        "By what factor do its time and its memory grow?",
        options=[
            ("Both by 2.", "There are twice as many queries, and each is compared with twice as many keys."),
            (
                "Time by 4, memory by 2.",
                "The scores are not only computed but stored until the softmax is done: all n x n of them.",
            ),
            (
                "Both by 4.",
                "Twice as many queries, each with twice as many keys: four times as many scores to compute and to store.",
            ),
            (
                "Time by 8, memory by 4.",
                "8 would be a product of two n x n matrices. Here one factor is n x d, and d is fixed.",
            ),
        ],
        right=2,
        explanation="There are n² scores per head. For short sequences other costs dominate: the linear layers cost the same per "
        "token, whatever the length.",
    )
)
register_quiz(
    Quiz(
        id="9.b",
        question="A fused kernel computes scores, softmax and weighted sum in one call. What does that change for a long sequence?",
        options=[
            ("Its time grows with n instead of n².", "Every query is still multiplied with every key."),
            (
                "The n x n matrix never exists as a whole: memory grows with n, time still with n².",
                "Each tile of scores is used as soon as it is computed; a running maximum and a running sum keep the softmax exact.",
            ),
            (
                "It is faster because small weights are skipped.",
                "Nothing is skipped: up to rounding, the result is the same.",
            ),
            (
                "Nothing, except some Python overhead.",
                "What counts is memory: n² numbers need not be written and read again.",
            ),
        ],
        right=1,
        explanation="The same multiplications and the same result; it saves memory, and the time to write and read it. If you ask "
        "for the attention weights, for a figure, the matrix is computed after all.",
    )
)
register_quiz(
    Quiz(
        id="9.c",
        question="In a layer with local attention each token attends to 8 positions on each side. From how far away can information "
        "reach a token through two such layers?",
        options=[
            (
                "8 positions: a window is a window.",
                "In the second layer a token attends to neighbors that have themselves attended 8 positions further.",
            ),
            ("64 positions, 8 times 8.", "The second layer adds its 8 positions to those of the first."),
            (
                "Any distance: attention does not depend on distance.",
                "Only inside the window. Tokens outside it get no weight at all.",
            ),
            ("16 positions, 8 plus 8.", "The first layer carries information 8 positions, the second 8 more."),
        ],
        right=3,
        explanation="The receptive field grows by one window per layer, as in a stack of convolutions: a distance of n takes n / 8 "
        "layers. One global token connects any two tokens in two layers.",
    )
)
register_quiz(
    Quiz(
        id="9.d",
        question="A language model gets ten times the parameters and is trained on the same text, most of it seen once. What happens "
        "to its loss on new text?",
        options=[
            ("It falls to about a tenth.", "That would be an exponent of 1: twice the parameters, half the loss."),
            (
                "It falls to about a half.",
                "That would be an exponent of 0.3 for the whole loss. The actual one is far smaller.",
            ),
            ("It falls slightly, by a few percent up to a fifth.", "An exponent of 0.076 makes it 16 % lower."),
            (
                "It rises: with so many parameters the model memorizes the text.",
                "To memorize it, the model would have to see it many times.",
            ),
        ],
        right=2,
        explanation="A power law with a small exponent: Kaplan et al. (2020) report 0.076 where data is not the bottleneck, and 10 to "
        "the power -0.076 is 0.84. The next such step takes ten times the parameters again.",
    )
)
register_quiz(
    Quiz(
        id="9.e",
        question="SmolLM2 has 9 query heads and 3 key-value heads, each shared by three query heads (grouped-query attention). What "
        "is a third of what it would be with 9 key-value heads?",
        options=[
            (
                "The parameters of its attention layers.",
                "Two of the four matrices shrink to a third, the key and value projections: 2 2/3 of 4 are left, two thirds.",
            ),
            (
                "The number of attention maps.",
                "Each of the 9 query heads has its own: the same keys, but different queries.",
            ),
            (
                "The multiplications of queries with keys.",
                "Each of the 9 query heads is still compared with every key.",
            ),
            (
                "The key-value cache during decoding.",
                "It stores the keys and values of 3 heads, for each token and layer.",
            ),
        ],
        right=3,
        explanation="In decoding, the whole cache is read for each new token. A third of it leaves room for longer sequences or "
        "larger batches.",
    )
)
register_quiz(
    Quiz(
        id="9.f",
        question="Eight solved examples precede a question in the prompt, and the answer becomes correct. What changed inside the "
        "model?",
        options=[
            (
                "Its parameters: it took a few gradient steps on the examples.",
                "Nothing is trained here. The same parameters serve every prompt.",
            ),
            (
                "Its hidden states: the examples are further keys and values.",
                "The question attends to the examples, in every layer. That is the only path.",
            ),
            (
                "Its output layer: tokens outside the examples are excluded.",
                "The whole vocabulary stays possible, and the correct answer need not be in the examples.",
            ),
            (
                "Its sampling: longer prompts lower the temperature.",
                "Greedy decoding has no temperature, and the effect is the same.",
            ),
        ],
        right=1,
        explanation="In-context learning is a forward pass. In the terms of lesson 04, the fast weights change and the slow ones stay.",
    )
)
register_quiz(
    Quiz(
        id="9.g",
        question="The 16 patches of all images are permuted, with the same permutation in training and test. What happens to the "
        "accuracy with learned position embeddings?",
        options=[
            ("It falls to chance.", "The top left patch moves to the same new position in all images."),
            (
                "It stays the same, up to random variation.",
                "A position embedding is learned from scratch: the model never knew which patches are neighbors.",
            ),
            (
                "It falls somewhat: neighbors are now far apart.",
                "For attention all patches are equally far apart. For a convolution it would matter.",
            ),
            ("It rises: a new order is more data.", "Each image is still seen in one order only."),
        ],
        right=1,
        explanation="With a different permutation for each image the position embeddings would carry no information.",
    )
)
register_quiz(
    Quiz(
        id="9.h",
        question="Two workers each compute the gradient of their mean loss, one over 100 tokens, the other over 300. Which "
        "combination is the gradient of the mean loss over all 400?",
        options=[
            ("1/4 of the first and 3/4 of the second.", "Each is weighted by its fraction of the tokens."),
            ("1/2 of each.", "Then each token of the first worker would count three times as much."),
            (
                "3/4 of the first and 1/4 of the second.",
                "Then each token of the first worker would count nine times as much. All tokens should count the same.",
            ),
            (
                "The sum of both.",
                "Both are already gradients of means: their sum is about twice as large as it should be.",
            ),
        ],
        right=0,
        explanation="Multiplied by 100 and by 300 they are gradients of the two sums; divided by 400 these give the overall mean.",
    )
)

"""Lesson 09: its exercises with the mistakes that people make in them, and its guess-first questions."""

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from utils.course.checks import Case, Wrong, difference
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.exercises.common import (
    HIDES,
    WRONG_MASKS,
    masked_by,
    masked_late,
    masked_with,
    normal,
    nowhere_somewhere,
    some_looks,
)
from utils.exercises.edits import mistake
from utils.exercises.lesson06 import whole
from utils.models import attend, attention
from utils.models.cheap_attention import linformer_attention, local_attention, local_attention_mask
from utils.models.llama import rms_norm
from utils.training import scaling
from utils.training.digits import patches


# ---------------------------------------------------------------------------------------------- 9.1 the local mask
def mask_cases(generator):
    return [
        Case((5, 1)),
        Case((7, 2, True), note="causal"),
        Case((8, 3)),
        Case((8, 4, False)),
        Case((9, 4, True), note="causal"),
        Case((3, 5), note="a window longer than the sentence"),
        Case((3, 4, True), note="causal, and a window longer than the sentence"),
        Case((1, 2), note="one token"),
    ]


def ahead_of(n):
    """(n, n): how many places behind token i token j stands; below 0, before it."""
    places = torch.arange(n)
    return places - places[:, None]


def in_window(ahead, window):
    return ahead.abs() <= window


def mask_with(near=in_window, past=lambda ahead: ahead <= 0, results=lambda mask: mask):
    """The mask with parts that can be replaced by wrong ones."""

    def wrong(n, window, causal=False):
        ahead = ahead_of(n)
        mask = near(ahead, window)
        return results(mask & past(ahead) if causal else mask)

    return wrong


def in_one_block(n, window, causal=False):
    block = torch.arange(n) // window
    mask = block == block[:, None]
    return mask.tril() if causal else mask


def round_the_end(ahead, window):
    distance = ahead.abs()
    return torch.minimum(distance, len(ahead) - distance) <= window


def by_slices(first=lambda start: max(0, start), behind=1):
    """Row i from i - window to i + window by a slice, which can be wrong at both ends."""

    def wrong(n, window, causal=False):
        mask = torch.zeros(n, n, dtype=torch.bool)
        for i in range(n):
            mask[i, first(i - window) : i + 1 if causal else i + window + behind] = True
        return mask

    return wrong


def window_lost_if_causal(n, window, causal=False):
    ahead = ahead_of(n)
    return ahead <= 0 if causal else in_window(ahead, window)


register(
    Exercise(
        id="9.1",
        cases=mask_cases,
        mistakes=[
            mistake(
                mask_with(near=lambda ahead, window: ahead.abs() < window),
                "The window is one place short: a token exactly `window` places away may be looked at, `<=`.",
            ),
            mistake(
                mask_with(near=lambda ahead, window: ahead.abs() <= window + 1),
                "The window is one place too long: the farthest token is `window` places away.",
            ),
            mistake(
                mask_with(near=lambda ahead, window: ahead.abs() <= window // 2),
                "`window` was taken for the whole width: it is how far a token sees to each side.",
            ),
            mistake(
                mask_with(near=lambda ahead, window: ahead <= window),
                "All tokens before are in sight, however far: the distance has a sign, take its size with `.abs()`.",
            ),
            mistake(
                mask_with(near=lambda ahead, window: ahead >= -window),
                "All tokens behind are in sight, however far: the distance has a sign, take its size with `.abs()`.",
            ),
            mistake(
                mask_with(past=lambda ahead: torch.ones_like(ahead, dtype=torch.bool)),
                "`causal` has no effect: with it, nobody looks at a token that comes later.",
            ),
            mistake(
                lambda n, window, causal=False: local_attention_mask(n, window, True),
                "It is always causal: without `causal`, the window reaches to both sides.",
            ),
            mistake(
                lambda n, window, causal=False: local_attention_mask(n, window, not causal),
                "`causal` is turned round: the later tokens are hidden if it is True.",
            ),
            mistake(
                mask_with(past=lambda ahead: ahead >= 0),
                "Causal, it hides the past: row i is token i, and later tokens are columns to the right of the "
                "diagonal.",
            ),
            mistake(
                mask_with(past=lambda ahead: ahead < 0),
                "Causal, no token may look at itself: it may, only those behind it are hidden.",
            ),
            mistake(
                mask_with(near=lambda ahead, window: in_window(ahead, window) & (ahead != 0)),
                "No token may look at itself: a token is 0 places away from itself, and that is inside every window.",
            ),
            mistake(
                window_lost_if_causal,
                "Causal, the window is lost: a token looks back `window` places, not to the beginning.",
            ),
            mistake(
                mask_with(results=lambda mask: ~mask),
                "The mask is turned round: True means 'may look'.",
            ),
            mistake(
                in_one_block,
                "That cuts the sentence into blocks, and neighbours on two sides of a cut cannot see each other: each "
                "token has a window of its own, around itself.",
            ),
            mistake(
                mask_with(near=round_the_end),
                "The window goes on round the end, from the last token to the first: a sentence is no ring.",
            ),
            mistake(
                by_slices(first=lambda start: start),
                "The first tokens see nothing, or too little: a slice that begins below 0 counts from the end, so "
                "begin at `max(0, i - window)`.",
            ),
            mistake(
                by_slices(behind=0),
                "To the right the window is one place short: the end of a slice is not included, `i + window + 1`.",
            ),
            mistake(
                mask_with(results=lambda mask: mask.float()),
                "Those are the numbers 0.0 and 1.0: a mask is bool, which a comparison gives.",
            ),
            mistake(
                mask_with(results=lambda mask: mask.long()),
                "Those are the numbers 0 and 1: a mask is bool, which a comparison gives.",
            ),
            mistake(
                mask_with(results=lambda mask: torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))),
                "That is to be added to scores; a mask of this course is bool, and `attention` makes minus infinity "
                "of it.",
            ),
            mistake(
                mask_with(results=lambda mask: mask.unsqueeze(0)),
                "There is an axis too many: (n, n). It serves every sentence of a batch as it is.",
            ),
        ],
        hints=[
            "`places = torch.arange(n)`; then `places - places[:, None]` says for row i and column j how many places "
            "behind i token j stands.",
            "Near: the size of that number is at most `window`.",
            "Causal: it must not be above 0 either. `&` joins two masks.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.2 in blocks
def local_cases(generator):
    def one(b, heads, n, d, window, note=""):
        return Case((*(normal(generator, b, heads, n, d) for _ in range(3)), window), note=note)

    return [
        one(2, 3, 7, 4, 2, "a length that is no multiple of the window"),
        one(2, 1, 6, 5, 3, "a multiple of the window"),
        one(1, 2, 5, 3, 1, "a window of one place"),
        one(3, 2, 4, 5, 6, "a window longer than the sentence"),
        one(1, 2, 1, 3, 2, "one token"),
        one(2, 1, 23, 3, 4, "a longer sentence"),
    ]


def root(query):
    return query.size(-1) ** -0.5


def all_pairs_with(looks=local_attention_mask, scale=root, look=attend):
    """The result by way of all pairs, with parts that can be replaced by wrong ones."""

    def wrong(query, key, value, window):
        scores = query @ key.transpose(-2, -1) * scale(query)
        return look(scores, value, looks(query.size(-2), window))[0]

    return wrong


def blocks_apart(n, window):
    """(n, n): how many blocks behind the block of token i that of token j stands."""
    block = torch.arange(n) // window
    return block - block[:, None]


def in_blocks(x, size):
    """(..., n, d) to (..., blocks, size, d), with zeros at the end."""
    return F.pad(x, (0, 0, 0, -x.size(-2) % size)).unflatten(-2, (-1, size))


def zeros_at_the_ends(x):
    """Each block between its two neighbours."""
    around = F.pad(x, (0, 0, 0, 0, 1, 1))
    return torch.cat([around[..., :-2, :, :], x, around[..., 2:, :, :]], -2)


def round_the_ends(x):
    return torch.cat([x.roll(1, -3), x, x.roll(-1, -3)], -2)


def blocks_with(around=zeros_at_the_ends, looks=lambda near, real: near & real, scale=root, look=attend, cut=True):
    """The result in blocks as long as the window, with parts that can be replaced by wrong ones."""

    def wrong(query, key, value, window):
        n = query.size(-2)
        near = in_window(torch.arange(-window, 2 * window) - torch.arange(window)[:, None], window)
        real = around(in_blocks(torch.ones(n, 1), window)).transpose(-2, -1) > 0
        keys, values = (around(in_blocks(x, window)) for x in (key, value))
        scores = in_blocks(query, window) @ keys.transpose(-2, -1) * scale(query)
        found = look(scores, values, looks(near, real).expand(real.size(0), window, -1))[0].flatten(-3, -2)
        return found[..., :n, :] if cut else found

    return wrong


def gathered_with(places, looks=lambda place, n: torch.ones_like(place, dtype=torch.bool), axis=-1):
    """Each query with 2 window + 1 keys of its own, `places(place, n)` of them; axis: over which the softmax runs."""

    def wrong(query, key, value, window):
        n = query.size(-2)
        place = torch.arange(n)[:, None] + torch.arange(-window, window + 1)
        found = places(place, n)
        scores = (query.unsqueeze(-2) * key[:, :, found]).sum(-1) * root(query)
        weights = scores.masked_fill(~looks(place, n), float("-inf")).softmax(axis)
        return (weights.unsqueeze(-1) * value[:, :, found]).sum(-2)

    return wrong


def over_the_queries(filler):
    return lambda scores, value, mask: (scores.masked_fill(~mask, filler).softmax(-2) @ value, None)


class Counted(TorchFunctionMode):
    """While it is on: `compared`, how many scores and weights are made; `largest`, the bytes of the largest tensor.

    Whatever way an answer goes, each pair that it compares is a number in a product or in a softmax. Of a view only
    the tensor behind it counts, however large it looks.
    """

    PRODUCTS = {"matmul", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "einsum", "tensordot", "cdist"}

    def __init__(self):
        super().__init__()
        self.compared = self.largest = 1

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").strip("_")
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, torch.Tensor):
                self.largest = max(self.largest, bytes_behind(made))
                if name in self.PRODUCTS or "softmax" in name or name == "exp" or each_with_each(name, made, args):
                    self.compared += made.numel()
        if name == "scaled_dot_product_attention":  # its scores are made out of sight
            query, key = (
                args[place] if place < len(args) else kwargs[side] for place, side in enumerate(("query", "key"))
            )
            self.compared += query[..., 0].numel() * key.size(-2)
        return result


def bytes_behind(tensor):
    try:
        return tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # sparse ones have no storage, and those inside `vmap` do not show it
        return 0


def each_with_each(name, made, args):
    """A product without a sum, with more numbers than either factor has."""
    factors = [factor.numel() for factor in args if isinstance(factor, torch.Tensor)]
    return name in ("mul", "rmul", "multiply") and all(made.numel() > numbers for numbers in factors)


# Three times the length: three times as much, or nine times. In between are blocks that a short sentence does not fill.
SHORT, LONG, TOO_MUCH = 250, 750, 5.5
WIDE = 32
IN_BLOCKS = 2 * 3 * WIDE  # scores and weights that each token has in blocks as long as the window


def the_cost_is_linear(answer, generator):
    def right(output, args):
        return difference(output, local_attention(*args), 1e-3) is None

    if not all(right(answer(*case.args), case.args) for case in local_cases(generator)):
        return  # wrong values are told as such
    found = []
    for n in (SHORT, LONG):
        args = *(normal(generator, 1, 1, n, 2) for _ in range(3)), 3
        with Counted() as counted:
            output = answer(*args)
        if not right(output, args):
            return
        found.append(counted)
    short, long = found
    if long.compared > TOO_MUCH * short.compared:
        raise Wrong(
            "The result is right, but it still compares all n² pairs, and the mask throws most of them away: compare "
            "each block of queries with three blocks of keys alone. A sentence three times as long made "
            f"{long.compared / short.compared:.0f} times as many scores."
        )
    if long.largest > TOO_MUCH * short.largest:
        raise Wrong(
            "The result is right and few pairs are compared, but something of n x n is still made on the way, such as "
            "a mask to cut pieces from: make it for a block, (window, 3 window), out of the places alone."
        )
    args = *(normal(generator, 1, 1, LONG, 2) for _ in range(3)), WIDE
    with Counted() as counted:
        answer(*args)
    if counted.compared > 10 * LONG * IN_BLOCKS:
        raise Wrong(
            f"The result is right and the cost grows with n alone, but with a window of {WIDE} it makes "
            f"{counted.compared / LONG:,.0f} scores and weights for each token, where blocks as long as the window need "
            f"{IN_BLOCKS}: are there more blocks than the sentence fills?"
        )


KEYS_OF_NOTHING = (
    "The zeros before the first and behind the last token count as keys: a score of 0 is not a weight of 0. Hide the "
    "places below 0 and from n on."
)
ROUND_THE_ENDS = (
    "The first tokens look at the last ones: `roll`, or a place below 0, goes round the end. Before the first block "
    "and behind the last there is nothing."
)
HIDES_THE_NEAR = "The mask is turned round: True means 'may look', and those are the near keys."
ZERO_IS_SEEN = (
    "Hidden scores became 0, and e to the 0 is 1: hide them with minus infinity, or pass the mask to `attention`."
)
TOO_LATE = "The mask came after the softmax, so the weights of a query no longer add up to 1: pass it to `attention`."
OVER_THE_QUERIES = "Softmax ran over the queries: the weights of each query sum to 1 over its keys, the last axis."

register(
    Exercise(
        id="9.2",
        cases=local_cases,
        gradient=True,
        tolerance=1e-3,
        properties=[the_cost_is_linear],
        mistakes=[
            mistake(
                all_pairs_with(
                    looks=lambda n, window: local_attention_mask(n, window) & (blocks_apart(n, window) == 0)
                ),
                "Each block sees its own keys only: near the edge of a block the window reaches into the block before "
                "and the one behind.",
            ),
            mistake(
                all_pairs_with(
                    looks=lambda n, window: local_attention_mask(n, window) & (blocks_apart(n, window) >= 0)
                ),
                "The keys of the block before are missing: the first queries of a block look back into it.",
            ),
            mistake(
                all_pairs_with(
                    looks=lambda n, window: local_attention_mask(n, window) & (blocks_apart(n, window) <= 0)
                ),
                "The keys of the block behind are missing: the last queries of a block look ahead into it.",
            ),
            mistake(
                blocks_with(looks=lambda near, real: real),
                "Each query looks at all keys of three blocks: at most `window` places away, so a mask is needed "
                "inside the blocks.",
            ),
            mistake(
                blocks_with(looks=lambda near, real: torch.ones_like(real)),
                "Nothing is masked: a query looks at all keys of three blocks, also at the zeros that fill them up.",
            ),
            mistake(blocks_with(looks=lambda near, real: near), KEYS_OF_NOTHING),
            mistake(blocks_with(around=round_the_ends, looks=lambda near, real: near), ROUND_THE_ENDS),
            mistake(blocks_with(around=round_the_ends), ROUND_THE_ENDS),
            mistake(gathered_with(lambda place, n: place % n), ROUND_THE_ENDS),
            mistake(
                gathered_with(lambda place, n: place.clamp(0, n - 1)),
                "The first and the last key count several times: places beyond the ends were moved to the end. Hide "
                "them.",
            ),
            mistake(
                all_pairs_with(looks=lambda n, window: ahead_of(n).abs() < window),
                "The window is one place short: a key exactly `window` places away counts, `<=`.",
            ),
            mistake(
                all_pairs_with(looks=lambda n, window: ahead_of(n).abs() <= window + 1),
                "The window is one place too long: the farthest key is `window` places away.",
            ),
            mistake(
                all_pairs_with(looks=lambda n, window: ahead_of(n).abs() <= window // 2),
                "`window` was taken for the whole width: it is how far a query sees to each side.",
            ),
            mistake(
                all_pairs_with(looks=lambda n, window: local_attention_mask(n, window, True)),
                "It looks back only: the window reaches to both sides.",
            ),
            mistake(
                all_pairs_with(looks=lambda n, window: local_attention_mask(n, window, True).T),
                "It looks ahead only: the window reaches to both sides.",
            ),
            mistake(
                all_pairs_with(looks=by_slices(first=lambda start: start)),
                "The first tokens see nothing, or too little: a slice that begins below 0 counts from the end, so "
                "begin at `max(0, i - window)`.",
            ),
            mistake(
                all_pairs_with(looks=by_slices(behind=0)),
                "To the right the window is one place short: the end of a slice is not included, `i + window + 1`.",
            ),
            mistake(
                all_pairs_with(looks=lambda n, window: None),
                "`window` has no effect: that is attention to all keys.",
            ),
            mistake(all_pairs_with(look=over_the_queries(float("-inf"))), OVER_THE_QUERIES),
            mistake(blocks_with(look=over_the_queries(float("-inf"))), OVER_THE_QUERIES),
            mistake(blocks_with(look=over_the_queries(-1e9)), OVER_THE_QUERIES),
            mistake(
                gathered_with(
                    lambda place, n: place.clamp(0, n - 1), lambda place, n: (place >= 0) & (place < n), axis=-2
                ),
                OVER_THE_QUERIES,
            ),
            mistake(
                blocks_with(scale=lambda query: 1.0),
                "The scores were not scaled: divide them by the root of d, as `attention` does.",
            ),
            mistake(
                blocks_with(scale=lambda query: 1 / query.size(-1)),
                "The scores were divided by d: it is the root of d.",
            ),
            mistake(blocks_with(look=masked_with(0.0)), ZERO_IS_SEEN),
            mistake(all_pairs_with(look=masked_with(0.0)), ZERO_IS_SEEN),
            mistake(blocks_with(look=masked_late), TOO_LATE),
            mistake(all_pairs_with(look=masked_late), TOO_LATE),
            mistake(blocks_with(looks=lambda near, real: ~(near & real)), HIDES_THE_NEAR),
            mistake(
                blocks_with(look=masked_by(lambda scores, mask: scores.masked_fill(mask, -torch.inf))), HIDES_THE_NEAR
            ),
            mistake(blocks_with(look=masked_by(lambda scores, mask: scores.masked_fill(mask, -1e9))), HIDES_THE_NEAR),
            mistake(
                blocks_with(cut=False),
                "The zeros that fill up the last block came back as tokens: cut them off, `[..., :n, :]`.",
            ),
        ],
        hints=[
            "Fill n up to a multiple of the window with `F.pad`, then `unflatten(-2, (-1, window))`: (b, heads, "
            "blocks, window, d). All that a block of queries may look at is in the same block of keys, the one before "
            "and the one behind.",
            "Three blocks in a row: put a block of zeros at both ends, and `torch.cat` the blocks shifted by one, as "
            "they are, and shifted the other way: (b, heads, blocks, 3 window, d).",
            "The mask: a query stands at place i of its block, 0 to window - 1, a key at j, -window to 2 window - 1; "
            "near if |i - j| <= window. And the key's place in the sentence, window * block + j, must be at least 0 "
            "and below n.",
            "`attention(queries, keys, values, mask)[0]`, then `flatten(-3, -2)` and `[..., :n, :]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.3 few keys
def few_keys(query, key, value, project):
    """query, key, value (..., n, d), project (k, n) to output (..., n, d)."""
    return linformer_attention(query, key, value, project)


def few_cases(generator):
    def one(shape, k, note=""):
        return Case((*(normal(generator, *shape) for _ in range(3)), normal(generator, k, shape[-2])), note=note)

    return [
        one((2, 3, 7, 4), 5),
        one((6, 3), 2, "one sentence without a batch axis"),
        one((3, 5, 2), 4),
        one((2, 4, 3), 1, "one mixture"),
        one((2, 4, 4), 4, "all sizes equal"),
        one((2, 3, 5), 6, "more mixtures than tokens"),
    ]


def mixed(x, project):
    return project @ x


def few_with(
    keys=mixed, values=mixed, scale=root, weigh=lambda scores: scores.softmax(-1), project=lambda project: project
):
    """Few keys with parts that can be replaced by wrong ones."""

    def wrong(query, key, value, project_):
        matrix = project(project_)
        scores = query @ keys(key, matrix).transpose(-2, -1) * scale(query)
        return weigh(scores) @ values(value, matrix)

    return wrong


def unmixed(x, project):
    return x


def first_rows(x, project):
    return x[..., : project.size(0), :]


ONLY_THE_KEYS = (
    "Only the keys became mixtures, so there are k weights for n values: mix the values with the same `project`."
)
ONLY_THE_VALUES = (
    "Only the values became mixtures, so there are n weights for k values: mix the keys with the same `project`."
)

register(
    Exercise(
        id="9.3",
        cases=few_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            mistake(lambda query, key, value, project: attention(query, project @ key, value)[0], ONLY_THE_KEYS),
            mistake(few_with(values=unmixed), ONLY_THE_KEYS),
            mistake(lambda query, key, value, project: attention(query, key, project @ value)[0], ONLY_THE_VALUES),
            mistake(few_with(keys=unmixed), ONLY_THE_VALUES),
            mistake(
                few_with(keys=unmixed, values=unmixed),
                "`project` has no effect: that is attention to all n keys. First make k of them, `project @ key`.",
            ),
            mistake(
                lambda query, key, value, project: attention(project @ query, project @ key, project @ value)[0],
                "The queries became mixtures, too, so k rows come out: every token still asks for itself, only keys "
                "and values are few.",
            ),
            mistake(
                lambda query, key, value, project: attention(query, project @ key, project @ value),
                "Two tensors came back: `attention` gives output and weights, return the output alone.",
            ),
            mistake(
                few_with(keys=first_rows, values=first_rows),
                "Those are the first k tokens: each of the k new keys is a mixture of all of them, `project @ key`.",
            ),
            mistake(
                few_with(project=lambda project: project.T),
                "`project` was turned: it is (k, n), so `project @ key` makes k rows out of n.",
            ),
            mistake(
                few_with(keys=lambda x, project: x @ project, values=lambda x, project: x @ project),
                "The features were mixed, not the tokens: `project` stands on the left, `project @ key`.",
            ),
            mistake(
                few_with(keys=lambda x, project: x @ project.T, values=lambda x, project: x @ project.T),
                "The features were mixed, not the tokens: `project` stands on the left and as it is, `project @ key`.",
            ),
            mistake(
                few_with(project=lambda project: project.softmax(-1)),
                "`project` went through a softmax: its rows are used as they are, a mixture may also subtract.",
            ),
            mistake(
                few_with(project=lambda project: project / project.size(-1)),
                "The mixtures were divided by n: the rows of `project` are used as they are.",
            ),
            mistake(
                few_with(weigh=lambda scores: scores.softmax(-2)),
                "Softmax ran over the queries: each query's weights sum to 1 over the k mixtures, the last axis.",
            ),
            mistake(
                few_with(scale=lambda query: 1.0),
                "The scores were not scaled: divide them by the root of d, as `attention` does.",
            ),
            mistake(
                lambda query, key, value, project: few_with(scale=lambda _: project.size(0) ** -0.5)(
                    query, key, value, project
                ),
                "The scores were divided by the root of k, the number of mixtures: it is the root of d, the width.",
            ),
        ],
        hints=[
            "`project @ key` is (..., k, d): k rows, each a mixture of all n keys.",
            "The same for the values; the queries stay as they are.",
            "`attention` returns output and weights: take the first.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.4 a power law
def power_law_fit(x, y):
    """x and y (n,), all above 0, to amount and exponent of y = amount x ** -exponent."""
    law = scaling.power_law_fit(x, y, draws=1)
    return law.amount, law.exponent


def law_cases(generator):
    def uniform(low, high):
        return low + (high - low) * float(torch.rand((), generator=generator))

    def one(x, amount, exponent, scatter, note=""):
        x = torch.tensor(x)
        return Case((x, amount * x**-exponent * (scatter * normal(generator, len(x))).exp()), note=note)

    sizes = [3800.0, 10_000.0, 25_000.0, 57_000.0, 100_000.0, 220_000.0, 400_000.0]
    return [
        one([1.0, 2.0, 4.0, 8.0, 16.0], uniform(2, 9), uniform(0.5, 1.5), 0.3, "points beside the curve"),
        one([1.0, 3.0, 10.0, 20.0], uniform(2, 9), uniform(0.3, 0.9), 0.0, "points on the curve"),
        one(sizes, uniform(6, 12), uniform(0.05, 0.2), 0.05, "models of many sizes"),
        one([64.0, 128.0, 256.0, 512.0], uniform(0.5, 3), uniform(-2, -0.8), 0.3, "it grows: the exponent is below 0"),
        one([9.0, 0.5, 4.0, 0.1, 2.0, 30.0], uniform(2, 9), uniform(0.4, 1.2), 0.4, "in no order"),
        one([2.0, 3.0, 7.0], uniform(2, 9), uniform(0.5, 2), 0.3, "three points"),
        one([float(2 + n) for n in range(20)], uniform(2, 9), uniform(0.5, 1.5), 0.2, "twenty points"),
    ]


def straight(x, y):
    """Intercept and slope of the line by least squares."""
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return y.mean() - slope * x.mean(), slope


def same(value):
    return value


def law_with(
    logs=(torch.log, torch.log),
    line=straight,
    back=torch.exp,
    results=lambda amount, slope: (amount, -slope),
):
    """The fit with parts that can be replaced by wrong ones."""

    def wrong(x, y):
        intercept, slope = line(logs[0](x), logs[1](y))
        return tuple(float(part) for part in results(back(intercept), slope))

    return wrong


def ends(x, y):
    slope = (y[-1] - y[0]) / (x[-1] - x[0])
    return y[0] - slope * x[0], slope


def farthest(x, y):
    low, high = x.argmin(), x.argmax()
    slope = (y[high] - y[low]) / (x[high] - x[low])
    return y[low] - slope * x[low], slope


def through_the_origin(x, y):
    slope = (x * y).sum() / x.square().sum()
    return y.mean() - slope * x.mean(), slope


def x_from_y(x, y):
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (y - y.mean()).square().sum()
    return y.mean() - slope * x.mean(), slope


def mean_of_steps(x, y):
    slope = (y.diff() / x.diff()).mean()
    return y.mean() - slope * x.mean(), slope


def two_divisors(x, y):
    slope = ((x - x.mean()) * (y - y.mean())).mean() / x.var()
    return y.mean() - slope * x.mean(), slope


def without_the_way_back(x, y):
    _, slope = straight(x, y)
    return y.mean(), slope


def the_wrong_way_back(x, y):
    """The intercept as if the exponent were the slope."""
    _, slope = straight(x, y)
    return y.mean() + slope * x.mean(), slope


def tens(value):
    return 10.0**value


NO_LOGARITHMS = (
    "The line was drawn through x and y themselves: a power law is a straight line only in the logarithms of both, "
    "log y = log amount - exponent log x."
)
MIXED_BASES = (
    "Another logarithm on the way there than on the way back: `exp` belongs to `log`, 10 ** to `log10`, 2 ** to `log2`."
)
ENDS_ONLY = "The line goes through the first and the last point: use all of them, least squares."
SWAPPED = "The two results are swapped: return the amount, then the exponent."

register(
    Exercise(
        id="9.4",
        cases=law_cases,
        output_names=("amount", "exponent"),
        any_float=True,
        mistakes=[
            mistake(
                law_with(results=lambda amount, slope: (amount, slope)),
                "The sign of the exponent is wrong: in y = amount x ** -exponent it is minus the slope, above 0 if y "
                "falls.",
            ),
            mistake(
                law_with(results=lambda amount, slope: (amount, slope.abs())),
                "The exponent lost its sign: it is minus the slope, and below 0 where y grows.",
            ),
            mistake(
                law_with(back=same),
                "The amount is still a logarithm: the line's value at log x = 0 is log amount, so take `exp` of it.",
            ),
            mistake(
                law_with(back=same, results=lambda amount, slope: (amount, slope)),
                "Those are intercept and slope of the line: the amount is `exp` of the one, the exponent is minus the "
                "other.",
            ),
            mistake(law_with(logs=(same, same), back=same), NO_LOGARITHMS),
            mistake(
                law_with(logs=(same, same), back=same, results=lambda amount, slope: (amount, slope)), NO_LOGARITHMS
            ),
            mistake(law_with(logs=(same, same)), NO_LOGARITHMS),
            mistake(
                law_with(logs=(same, torch.log)),
                "Only y is a logarithm: that fits amount e ** (-exponent x). Take the logarithm of x, too.",
            ),
            mistake(
                law_with(logs=(torch.log, same), back=same),
                "Only x is a logarithm: take the logarithm of y, too.",
            ),
            mistake(law_with(logs=(torch.log10, torch.log10)), MIXED_BASES),
            mistake(law_with(logs=(torch.log2, torch.log2)), MIXED_BASES),
            mistake(law_with(back=tens), MIXED_BASES),
            mistake(law_with(results=lambda amount, slope: (-slope, amount)), SWAPPED),
            mistake(law_with(results=lambda amount, slope: (slope, amount)), SWAPPED),
            mistake(law_with(back=same, results=lambda amount, slope: (slope, amount)), SWAPPED),
            mistake(law_with(line=ends), ENDS_ONLY),
            mistake(law_with(line=farthest), ENDS_ONLY),
            mistake(
                law_with(line=mean_of_steps),
                "The slope is the mean of the slopes from point to point: their sum forgets most of the points. Use "
                "least squares.",
            ),
            mistake(
                law_with(line=through_the_origin),
                "The slope is that of a line through the origin: subtract the means of log x and log y first, or fit "
                "an intercept as well.",
            ),
            mistake(
                law_with(line=x_from_y),
                "It was divided by the squares of log y: by those of log x, since y is to be told from x.",
            ),
            mistake(
                law_with(line=two_divisors),
                "The slope is off by (n - 1) / n: a plain mean was divided by torch's `var`, which divides by n - 1. "
                "Use sums in both places, or `correction=0`.",
            ),
            mistake(
                law_with(line=without_the_way_back),
                "The amount is the mean of the y: it is the line's value at log x = 0, so subtract slope times the "
                "mean of log x.",
            ),
            mistake(
                law_with(line=the_wrong_way_back),
                "The amount is on the wrong side of the mean: log amount = mean of log y - slope times mean of log x, "
                "and the slope is minus the exponent.",
            ),
            mistake(
                lambda x, y: (float(y[0]), law_with()(x, y)[1]),
                "The amount is the first y: it is what the law says at x = 1, where the line of the logarithms "
                "crosses 0.",
            ),
            mistake(
                lambda x, y: law_with()(x, y)[1],
                "Only the exponent came back: return the amount and the exponent.",
            ),
        ],
        hints=[
            "log y = log amount - exponent · log x: a straight line in `x.log()` and `y.log()`.",
            "Subtract the mean from each. The slope by least squares is the sum of their products over the sum of the "
            "squares of x's part.",
            "The exponent is minus the slope. The line goes through both means: log amount = mean of log y - slope · "
            "mean of log x; `exp` of that is the amount.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.5 RMS norm
def rms_cases(generator):
    def one(*shape, centre=0.5, spread=2.0, eps=None, note=""):
        args = centre + spread * normal(generator, *shape), 1 + 0.5 * normal(generator, shape[-1])
        return Case(args if eps is None else (*args, eps), note=note)

    return [
        one(2, 4, 3),
        one(3, 5, note="one sentence without a batch axis"),
        one(6, note="one token"),
        one(4, 4, 4, note="all sizes equal"),
        one(2, 3, 5, centre=0.0, spread=0.003, note="small features"),
        one(3, 2, 4, eps=0.5, note="eps=0.5"),
        one(2, 3, 6, centre=5.0, spread=0.5, note="features far from 0"),
        one(2, 3, centre=0.0, spread=0.0, note="all features are 0"),
        one(1, 3, 4, note="one sentence"),
    ]


def mean_square(x):
    return x.square().mean(-1, keepdim=True)


def rms_with(normed=lambda x, eps: x * (mean_square(x) + eps).rsqrt(), finish=lambda y, gain: y * gain):
    """The norm with parts that can be replaced by wrong ones."""

    def wrong(x, gain, eps=1e-5):
        return finish(normed(x, eps), gain)

    return wrong


def centred(x):
    return x - x.mean(-1, keepdim=True)


def over_axis(axis):
    return lambda x, eps: x * (x.square().mean(axis, keepdim=True) + eps).rsqrt()


register(
    Exercise(
        id="9.5",
        cases=rms_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            mistake(
                rms_with(lambda x, eps: centred(x) * (mean_square(centred(x)) + eps).rsqrt()),
                "The mean was subtracted: that is layer norm. Here each token is only divided by the root of its mean "
                "square.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (mean_square(centred(x)) + eps).rsqrt()),
                "It was divided by the deviation, which leaves the mean out: take the mean of the squares of x itself.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (x.var(-1, keepdim=True) + eps).rsqrt()),
                "It was divided by torch's deviation, which subtracts the mean and divides by dim - 1: take the mean "
                "of the squares of x itself.",
            ),
            mistake(
                rms_with(lambda x, eps: x / (mean_square(x).sqrt() + eps)),
                "eps stands outside of the root: add it to the mean square, then take the root.",
            ),
            mistake(
                rms_with(lambda x, eps: x / mean_square(x).sqrt()),
                "Where all features are 0, 0 was divided by 0: eps is missing, add it to the mean square.",
            ),
            mistake(
                rms_with(lambda x, eps: x / (mean_square(x) + eps)),
                "It was divided by the mean square: divide by its root.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (mean_square(x) + eps).sqrt()),
                "It was multiplied by the root of the mean square: divide by it.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (x.square().sum(-1, keepdim=True) + eps).rsqrt()),
                "It was divided by the length of the vector: the *mean* of the squares, not their sum.",
            ),
            mistake(
                rms_with(lambda x, eps: x / (x.abs().mean(-1, keepdim=True) + eps)),
                "It was divided by the mean size of the features: square them, take the mean, then the root.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (x.mean(-1, keepdim=True).square() + eps).rsqrt()),
                "The mean was squared: square first, then take the mean.",
            ),
            mistake(
                rms_with(over_axis(0)),
                "The mean ran over the first axis: each token has its own, over its features, the last axis.",
            ),
            mistake(
                rms_with(lambda x, eps: over_axis(-2 if x.dim() > 1 else -1)(x, eps)),
                "The mean ran over the positions: each token has its own, over its features, the last axis.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (x.square().mean() + eps).rsqrt()),
                "There is one mean for everything: each token has its own, `mean(-1, keepdim=True)`.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (x.square().mean(-1) + eps).rsqrt()),
                "The mean lost its axis and is lined up with the wrong one: `mean(-1, keepdim=True)`.",
            ),
            mistake(rms_with(finish=lambda y, gain: y), "The gain has no effect: multiply by `gain` at the end."),
            mistake(rms_with(finish=lambda y, gain: y + gain), "The gain was added: multiply by it."),
            mistake(
                rms_with(finish=lambda y, gain: y * (1 + gain)),
                "It was multiplied by 1 + gain: some models do, here it is the gain alone.",
            ),
            mistake(rms_with(finish=lambda y, gain: y / gain), "It was divided by the gain: multiply by it."),
            mistake(
                lambda x, gain, eps=1e-5: rms_norm(x * gain, torch.ones_like(gain), eps),
                "The gain came first, so the norm took part of it away again: divide by the root first, then multiply "
                "by `gain`.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (mean_square(x) + 1e-5).rsqrt()),
                "The argument `eps` has no effect: use it in place of a number.",
            ),
            mistake(
                rms_with(lambda x, eps: x * (mean_square(x) + eps**2).rsqrt()),
                "eps was squared: add it as it is.",
            ),
        ],
        hints=[
            "`x.square().mean(-1, keepdim=True)` is each token's mean square; `keepdim` leaves an axis of length 1, "
            "so that it can be divided by.",
            "Add eps, take the root, divide x by it.",
            "Times `gain`, which fits the last axis as it is.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.6 several workers
def join_gradients(gradients, counts):
    """gradients (workers, ...), each of a mean over counts (workers,) tokens, to that of the mean over all (...)."""
    shares = counts / counts.sum()
    return (gradients * shares.view(-1, *[1] * (gradients.dim() - 1))).sum(0)


def join_cases(generator):
    def one(counts, *shape, note=""):
        return Case((normal(generator, len(counts), *shape), torch.tensor(counts)), note=note)

    first, second = (int(whole(generator, 90, low=10)) for _ in range(2))
    return [
        one([first, 3 * second + 100], 4, note="two workers"),
        one([5, 20, 11], 2, 4, note="gradients of a matrix"),
        one([30, 10, second], 3, note="as many workers as numbers in a gradient"),
        one([6, 2, 9], 3, 3, note="all sizes equal"),
        one([7, 1, 2, 6], note="one number each"),
        one([8, 8], 5, note="as many tokens for each"),
        one([12, 0, 4], 2, note="a worker without tokens"),
        one([17], 3, note="one worker"),
        one([3, 40], 2, 3, 5, note="gradients with three axes"),
    ]


def beside(weights, gradients):
    """The weights (workers,) as (workers, 1, ...), so that each goes with its worker's gradient."""
    return weights.view(-1, *[1] * (gradients.dim() - 1))


def joined_with(weights=lambda counts: counts / counts.sum(), join=lambda weighted: weighted.sum(0), shape=beside):
    """The joined gradient with parts that can be replaced by wrong ones."""

    def wrong(gradients, counts):
        return join(gradients * shape(weights(counts), gradients))

    return wrong


def by_one_over(counts):
    return (1 / counts) / (1 / counts).sum()


register(
    Exercise(
        id="9.6",
        cases=join_cases,
        mistakes=[
            mistake(
                joined_with(weights=lambda counts: torch.ones(len(counts)) / len(counts)),
                "The plain mean of the workers: a token of a worker with few would count more than one of a worker "
                "with many. Weight each by its share of all tokens.",
            ),
            mistake(
                joined_with(weights=lambda counts: torch.ones(len(counts))),
                "The sum of the workers: each gradient is already one of a mean. Weight each by its share of all "
                "tokens, so that the weights sum to 1.",
            ),
            mistake(
                joined_with(weights=lambda counts: counts.float()),
                "The weights do not sum to 1: divide by the number of all tokens, `counts.sum()`.",
            ),
            mistake(
                joined_with(weights=lambda counts: counts / len(counts)),
                "It was divided by the number of workers: the weights are tokens, so divide by the number of all "
                "tokens.",
            ),
            mistake(
                joined_with(weights=lambda counts: counts / counts.sum() / len(counts)),
                "It was divided twice, by the tokens and by the workers: shares of the tokens sum to 1 already, so "
                "sum, no mean.",
            ),
            mistake(
                joined_with(weights=lambda counts: torch.ones(len(counts)) / counts.sum()),
                "The gradients were added and divided by all tokens: each is one of a mean, so make it one of a sum "
                "first, times its count.",
            ),
            mistake(
                joined_with(weights=by_one_over),
                "Workers with few tokens have the larger weight: it is the other way round, the weight grows with the "
                "count.",
            ),
            mistake(
                joined_with(weights=lambda counts: 1 / counts),
                "The gradients were divided by their counts once more: they are means already. Multiply by the count, "
                "divide by the number of all tokens.",
            ),
            mistake(
                joined_with(weights=lambda counts: counts // counts.sum()),
                "Whole numbers were divided with `//`, which leaves 0: use `/`.",
            ),
            mistake(
                joined_with(weights=lambda counts: counts / counts.max()),
                "It was divided by the largest count: divide by the sum of all, and the weights sum to 1.",
            ),
            mistake(
                joined_with(weights=lambda counts: counts.float().softmax(0)),
                "The counts went through a softmax, and the largest takes all: their plain shares, `counts / "
                "counts.sum()`.",
            ),
            mistake(
                joined_with(weights=lambda counts: counts.square() / counts.square().sum()),
                "The counts were used twice: the gradients come as means, so each is weighted by its count once.",
            ),
            mistake(
                joined_with(shape=lambda weights, gradients: weights),
                "The weights (workers,) were lined up with the last axis: they belong to the first, so make them "
                "(workers, 1, ...), with an axis for each of the gradient's.",
            ),
            mistake(
                lambda gradients, counts: (counts / counts.sum()) @ gradients,
                "`@` sums over the wrong axis as soon as a gradient is a matrix: make the weights (workers, 1, ...), "
                "multiply, and sum over the workers, axis 0.",
            ),
            mistake(
                joined_with(join=lambda weighted: weighted),
                "Each worker still has its own: sum over the workers, axis 0.",
            ),
            mistake(
                joined_with(join=lambda weighted: weighted.sum()),
                "All numbers became one: sum over the workers alone, axis 0.",
            ),
            mistake(
                joined_with(join=lambda weighted: weighted.sum(-1)),
                "The sum ran over the last axis: over the workers, axis 0.",
            ),
            mistake(
                lambda gradients, counts: gradients[counts.argmax()],
                "That is the gradient of the worker with most tokens: the others count, too, by their share.",
            ),
        ],
        hints=[
            "The mean over all tokens is the sum over all tokens, divided by their number. A worker's gradient times "
            "its count is the gradient of its sum.",
            "So each worker's weight is its share of all tokens, `counts / counts.sum()`.",
            "`shares.view(-1, *[1] * (gradients.dim() - 1))` is (workers, 1, ...), as many axes as `gradients` has; "
            "multiply and `.sum(0)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.7 shared keys
def grouped_attention(query, key, value, mask=None):
    """query (b, heads, m, d), key and value (b, key_heads, n, d), mask (m, n) to output (b, heads, m, d)."""
    group = query.size(1) // key.size(1)
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    return attention(query, key, value, mask)[0]


def group_cases(generator):
    def one(b, heads, key_heads, m, n, d, mask=None, note=""):
        kept = (normal(generator, b, key_heads, n, d) for _ in range(2))
        args = normal(generator, b, heads, m, d), *kept
        return Case(args if mask is None else (*args, mask), note=note)

    return [
        one(2, 6, 3, 4, 5, 7, some_looks(generator, 4, 5), "two heads share keys"),
        one(3, 6, 2, 5, 4, 2, note="no mask"),
        one(2, 4, 2, 3, 3, 5, torch.ones(3, 3, dtype=torch.bool).tril(), "causal"),
        one(2, 3, 3, 4, 6, 5, some_looks(generator, 4, 6), "a key head for every head"),
        one(2, 3, 1, 2, 4, 5, some_looks(generator, 2, 4), "one key head for all"),
        one(1, 4, 2, 5, 5, 3, nowhere_somewhere(generator, 2, 5)[1], "a token that may look nowhere"),
        one(2, 8, 2, 1, 3, 4, note="one query, as when a word is written"),
    ]


def in_a_row(x, group):
    return x.repeat_interleave(group, 1)


def in_turns(x, group):
    return x.repeat(1, group, 1, 1)


def by_key_heads(x, group):
    """Query head h with key head h // key_heads."""
    return x[:, torch.arange(group * x.size(1)) // x.size(1)]


def of_the_first(x, group):
    return x[:, :1].expand(-1, group * x.size(1), -1, -1)


def averaged(x, group):
    return x.mean(1, keepdim=True).expand(-1, group * x.size(1), -1, -1)


def grouped_with(
    keys=in_a_row,
    values=None,
    queries=lambda query, group: query,
    scale=root,
    mask=lambda mask: mask,
    look=attend,
    results=lambda output, group: output,
):
    """Grouped attention with parts that can be replaced by wrong ones."""

    def wrong(query, key, value, mask_=None):
        group = query.size(1) // key.size(1)
        key, value = keys(key, group), (values or keys)(value, group)
        scores = queries(query, group) @ key.transpose(-2, -1) * scale(query)
        return results(look(scores, value, None if mask_ is None else mask(mask_))[0], group)

    return wrong


def mean_of_groups(x, group):
    return x.unflatten(1, (-1, group)).mean(2)


def as_it_is(x, group):
    return x


def stacked_queries(query, key, value, mask=None):
    """The heads of a group as more queries, and the rows of the mask repeated in the wrong order."""
    group = query.size(1) // key.size(1)
    rows = None if mask is None else mask.repeat_interleave(group, 0)
    return attention(query.unflatten(1, (-1, group)).flatten(2, 3), key, value, rows)[0].reshape(query.shape)


IN_TURNS = (
    "The key heads take turns, 0, 1, 0, 1: neighbouring query heads share one, so head h uses key head h // group, 0, "
    "0, 1, 1. `repeat_interleave` does that, `repeat` does not."
)

register(
    Exercise(
        id="9.7",
        cases=group_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            mistake(grouped_with(keys=in_turns), IN_TURNS),
            mistake(
                grouped_with(keys=in_turns, values=in_a_row),
                "The keys take turns and the values do not: both are repeated in a row, head h uses key and value "
                "head h // group.",
            ),
            mistake(
                grouped_with(keys=in_a_row, values=in_turns),
                "The values take turns and the keys do not: both are repeated in a row, head h uses key and value "
                "head h // group.",
            ),
            mistake(
                grouped_with(keys=by_key_heads),
                "Head h got key head h // key_heads: divide by the size of a group, heads / key_heads.",
            ),
            mistake(
                grouped_with(keys=of_the_first),
                "All heads use the first key head: head h uses key head h // group.",
            ),
            mistake(
                grouped_with(keys=averaged),
                "The key heads were averaged into one: each group of query heads has a key head of its own.",
            ),
            mistake(
                grouped_with(keys=as_it_is, queries=mean_of_groups),
                "The query heads of a group were averaged: each of them looks for itself, only keys and values are "
                "shared. `heads` outputs come back.",
            ),
            mistake(
                grouped_with(keys=as_it_is, queries=mean_of_groups, results=in_a_row),
                "The query heads of a group were averaged, so all of a group give the same: each of them looks for "
                "itself, only keys and values are shared.",
            ),
            mistake(
                grouped_with(results=mean_of_groups),
                "The outputs of a group were averaged: each of the `heads` heads has an output of its own.",
            ),
            mistake(
                grouped_with(keys=as_it_is, queries=lambda query, group: query[:, ::group]),
                "Only one query head of each group looks: all of them do, with the same keys and values.",
            ),
            mistake(
                grouped_with(keys=as_it_is),
                "The heads do not fit: there are fewer key heads than query heads. Repeat each key and value head, "
                "once for every query head of its group.",
            ),
            mistake(
                grouped_with(
                    results=lambda output, group: output.unflatten(1, (-1, group)).transpose(1, 2).flatten(1, 2)
                ),
                "The heads came back in another order: output h belongs to query head h.",
            ),
            mistake(
                grouped_with(look=lambda scores, value, mask=None: attend(scores, value)),
                "The mask has no effect: pass it to `attention`.",
            ),
            mistake(grouped_with(mask=lambda mask: ~mask), HIDES),
            mistake(grouped_with(look=masked_by(lambda scores, mask: scores.masked_fill(mask, float("-inf")))), HIDES),
            *(mistake(grouped_with(look=look), message) for look, message in WRONG_MASKS),
            mistake(grouped_with(look=masked_with(0.0)), ZERO_IS_SEEN),
            mistake(
                stacked_queries,
                "The rows of the mask do not fit the queries: with the heads of a group one below the other, the "
                "whole mask is repeated, `mask.repeat(group, 1)`.",
            ),
            mistake(
                grouped_with(scale=lambda query: 1.0),
                "The scores were not scaled: divide them by the root of d, as `attention` does.",
            ),
            mistake(
                grouped_with(scale=lambda query: (query.size(-1) * query.size(1)) ** -0.5),
                "The scores were divided by the root of the model's width, heads times d: it is the root of d, the "
                "width of a head.",
            ),
            mistake(
                grouped_with(
                    look=lambda scores, value, mask=None: over_the_queries(float("-inf"))(
                        scores, value, torch.ones(scores.shape[-2:], dtype=torch.bool) if mask is None else mask
                    )
                ),
                OVER_THE_QUERIES,
            ),
            mistake(
                lambda query, key, value, mask=None: attention(
                    query, *(in_a_row(x, query.size(1) // key.size(1)) for x in (key, value)), mask
                ),
                "Two tensors came back: `attention` gives output and weights, return the output alone.",
            ),
        ],
        hints=[
            "`group = query.size(1) // key.size(1)` heads share a key head: those numbered 0 to group - 1 the first, "
            "and so on.",
            "`key.repeat_interleave(group, 1)` says each key head `group` times in a row; the same for the values.",
            "Then it is plain attention, mask and all: `attention(query, key, value, mask)[0]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 9.8 image patches
def patch_cases(generator):
    def one(b, side, size, note=""):
        return Case((normal(generator, b, side, side), size), note=note)

    return [
        one(2, 6, 2),
        one(3, 6, 3),
        one(2, 4, 2, "as many patches in a row as pixels in a patch"),
        one(1, 8, 2, "one image"),
        one(2, 3, 1, "patches of one pixel"),
        one(3, 5, 5, "one patch"),
    ]


def grid_of(images, size):
    """(b, down, size, across, size): the row of patches, the row in it, the column of patches, the column in it."""
    return images.unflatten(1, (-1, size)).unflatten(3, (-1, size))


def patches_with(order=(0, 1, 3, 2, 4), grid=grid_of, results=lambda cut: cut.flatten(3).flatten(1, 2)):
    """The patches with parts that can be replaced by wrong ones."""

    def wrong(images, size):
        return results(grid(images, size).permute(order))

    return wrong


def overlapping(images, size):
    return images.unfold(1, size, 1).unfold(2, size, 1).flatten(3).flatten(1, 2)


def far_apart(images, size):
    """(b, size, down, size, across): every so many rows and columns."""
    return images.unflatten(1, (size, -1)).unflatten(3, (size, -1))


STILL_SQUARE = "The pixels of a patch are still a square: they become one row, size * size numbers."

register(
    Exercise(
        id="9.8",
        cases=patch_cases,
        mistakes=[
            mistake(
                lambda images, size: images.reshape(len(images), -1, size * size),
                "Those are strips, not squares: a plain reshape takes pixels that stand in one row of the image. "
                "Split both axes into (patches, size), bring the two sizes side by side, then flatten.",
            ),
            mistake(
                patches_with(order=(0, 3, 1, 2, 4)),
                "The patches go down column by column: row by row, as one reads.",
            ),
            mistake(
                patches_with(order=(0, 1, 3, 4, 2)),
                "The pixels in each patch are transposed: row by row, as one reads.",
            ),
            mistake(
                patches_with(order=(0, 3, 1, 4, 2)),
                "Patches and their pixels go column by column: both row by row, as one reads.",
            ),
            mistake(
                patches_with(grid=far_apart, order=(0, 2, 4, 1, 3)),
                "The pixels of a patch stand far apart in the image: split an axis into (patches, size), not into "
                "(size, patches).",
            ),
            mistake(
                patches_with(results=lambda cut: cut),
                "The patches still stand in a grid, and their pixels in a square: flatten both, (b, patches, size * "
                "size).",
            ),
            mistake(patches_with(results=lambda cut: cut.flatten(1, 2)), STILL_SQUARE),
            mistake(
                patches_with(results=lambda cut: cut.flatten(3)),
                "The patches still stand in a grid: they become one sequence, from the top left row by row.",
            ),
            mistake(
                patches_with(results=lambda cut: cut.flatten(3).flatten(1, 2).transpose(1, 2)),
                "The two last axes are swapped: (b, patches, size * size), a row for each patch.",
            ),
            mistake(
                patches_with(results=lambda cut: cut.flatten(3).flatten(0, 2)),
                "The patches of all images stand in one row: each image keeps its own, (b, patches, size * size).",
            ),
            mistake(
                overlapping,
                "The patches overlap: the next one begins where the last one ends, `size` pixels on.",
            ),
            mistake(
                lambda images, size: images.reshape(len(images), images.size(1) // size, -1),
                "Those are strips as wide as the image: cut across as well, into squares of size x size.",
            ),
            mistake(
                lambda images, size: patches(images, images.size(-1) // size),
                "`size` was taken for the number of patches in a row: it is the side of a patch, in pixels.",
            ),
            mistake(
                lambda images, size: images[:, ::size, ::size].flatten(1).unsqueeze(-1).expand(-1, -1, size * size),
                "One pixel stands for the whole patch: keep all size * size of them.",
            ),
        ],
        hints=[
            "`images.unflatten(1, (-1, size))` splits the rows: (b, down, size, side). The same for the columns: (b, "
            "down, size, across, size).",
            "The axes that say which patch, down and across, must stand side by side, and so must the two inside it: "
            "swap the two in the middle.",
            "`flatten(3)` makes the pixels one row, `flatten(1, 2)` the patches one sequence.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="9.a",
        question="A long text becomes twice as long. Attention is computed by hand: scores, softmax, weights times "
        "values. By what factor do its time and its memory grow?",
        options=[
            (
                "Both by 2.",
                "There are twice as many queries, and each is compared with twice as many keys.",
            ),
            (
                "Time by 4, memory by 2.",
                "The scores are not only computed but kept until the softmax is done: all n x n of them.",
            ),
            (
                "Both by 4.",
                "Twice as many queries, each with twice as many keys: four times as many scores to make and to keep.",
            ),
            (
                "Time by 8, memory by 4.",
                "8 would be a product of two n x n matrices. Here one side is n x d, and d stays.",
            ),
        ],
        right=2,
        explanation="n² scores for each head. In a short text other costs hide it: per token the linear maps cost the "
        "same whatever the length.",
    )
)
register_quiz(
    Quiz(
        id="9.b",
        question="A fused kernel does scores, softmax and weighted sum in one call. What does that change for a long "
        "text?",
        options=[
            (
                "Its time grows with n in place of n².",
                "Every query is still multiplied with every key.",
            ),
            (
                "The n x n matrix never exists as a whole: memory grows with n, time still with n².",
                "A tile of scores is used up as soon as it is made; a running maximum and a running sum make the "
                "softmax exact.",
            ),
            (
                "It is faster, since small weights are left out.",
                "Nothing is left out: but for rounding, the result is the same.",
            ),
            (
                "Nothing but some time saved in calling Python.",
                "What counts is memory: n² numbers need not be written and read again.",
            ),
        ],
        right=1,
        explanation="The same multiplications and the same result; what is saved is memory, and the time to write and "
        "read it. Whoever asks for the weights, for a picture, has the matrix made after all.",
    )
)
register_quiz(
    Quiz(
        id="9.c",
        question="In a layer of local windows each token looks at 8 places on each side. From how far away can news "
        "reach a token through two such layers?",
        options=[
            (
                "8 places: a window is a window.",
                "In the second layer a token looks at neighbours which have themselves looked 8 places on.",
            ),
            (
                "64 places, 8 times 8.",
                "The second step adds its 8 places to those of the first.",
            ),
            (
                "As far as you like: attention has no distance.",
                "Inside the window. What is outside gets no weight at all.",
            ),
            (
                "16 places, 8 plus 8.",
                "One layer brings it 8 places nearer, the next 8 more.",
            ),
        ],
        right=3,
        explanation="Windows add up, as a stack of convolutions does: n places apart takes n / 8 layers. One global "
        "token joins any two in two layers.",
    )
)
register_quiz(
    Quiz(
        id="9.d",
        question="A language model gets ten times the parameters and reads the same text, most of it once. What "
        "happens to its loss on new text?",
        options=[
            (
                "It falls to about a tenth.",
                "That would be an exponent of 1: twice the parameters, half the loss.",
            ),
            (
                "It falls to about a half.",
                "That would be an exponent of 0.3 for the loss as a whole. It is far smaller.",
            ),
            (
                "It falls by a small part, from a few per cent to a fifth.",
                "An exponent of 0.076 makes it 16 % lower.",
            ),
            (
                "It rises: with so many parameters the model learns the text by heart.",
                "To learn it by heart, it would have to read it many times.",
            ),
        ],
        right=2,
        explanation="A power law with a small exponent: Kaplan et al. (2020) found 0.076 where text does not run "
        "short, and 10 to the -0.076 is 0.84. The next such step takes ten times the parameters again.",
    )
)
register_quiz(
    Quiz(
        id="9.e",
        question="Two workers each take the gradient of their mean loss, one over 100 tokens, the other over 300. "
        "Which mean of the two belongs to all 400?",
        options=[
            (
                "1/4 of the first and 3/4 of the second.",
                "Each by its share of the tokens.",
            ),
            (
                "1/2 of each.",
                "Then each token of the first worker would count three times as much.",
            ),
            (
                "3/4 of the first and 1/4 of the second.",
                "Then each token of the first would count nine times as much. All are to count alike.",
            ),
            (
                "The sum of both.",
                "Both are of means already: their sum is about twice as long as it should be.",
            ),
        ],
        right=0,
        explanation="Times 100 and times 300 gives the two sums; over 400 they are the mean of all.",
    )
)
register_quiz(
    Quiz(
        id="9.f",
        question="SmolLM2 has 9 heads, and 3 heads of keys and values, each shared by three query heads. What is a "
        "third of what it would be with 9?",
        options=[
            (
                "The parameters of its attention layers.",
                "Two of the four matrices shrink to a third, those of keys and values: 2 2/3 of 4 are left, two "
                "thirds.",
            ),
            (
                "The number of attention maps.",
                "Each of the 9 query heads has its own: the same keys, but other questions.",
            ),
            (
                "The multiplications of queries with keys.",
                "Each of the 9 query heads is still compared with every key.",
            ),
            (
                "The key-value cache, when it writes.",
                "Kept are the keys and values of 3 heads, for each token and layer.",
            ),
        ],
        right=3,
        explanation="When a text is written piece by piece, what was kept must be read for each new piece: a third of "
        "it leaves room for longer texts, or for more of them at a time.",
    )
)
register_quiz(
    Quiz(
        id="9.g",
        question="The 16 patches of all images get one new order, the same in training and in test. What becomes of the "
        "accuracy with learned positions?",
        options=[
            (
                "It falls to chance.",
                "What stood at the top left stands at one other place in all images.",
            ),
            (
                "As before, but for luck.",
                "A position is a vector to be learned: the model never knew which patches are neighbours.",
            ),
            (
                "It falls somewhat: neighbours are now far apart.",
                "To attention all patches are equally far apart. For a convolution it would matter.",
            ),
            (
                "It rises: a new order is more data.",
                "Each image is still seen in one order only.",
            ),
        ],
        right=1,
        explanation="With an order of its own for each image the positions would mean nothing.",
    )
)

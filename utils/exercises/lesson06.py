"""Lesson 06: its exercises with the mistakes that people make in them, and its guess-first questions."""

import inspect
import math
from functools import cache

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from utils.course.checks import Case, Wrong, a_thing
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.exercises.common import normal
from utils.exercises.edits import BODY, mistake
from utils.exercises.lesson05 import expect_a_module, parameter_shapes
from utils.exercises.solutions import lesson06 as solved
from utils.models import attention
from utils.models.self_attention import causal_mask


def whole(generator, high, *shape, low=0):
    return torch.randint(low, high, shape, generator=generator)


def up_to(lengths, n):
    """(b, n) bool: True at the first `lengths` tokens of each sentence."""
    return torch.arange(n) < torch.tensor(lengths).unsqueeze(1)


def words_are_long(cases):
    """Token ids are compared, looked up and scored: all of that needs long."""

    def holds(answer, generator):
        results = answer(*cases(generator)[0].args)
        for result in results if isinstance(results, tuple | list) else (results,):
            if not result.is_floating_point() and result.dtype != torch.long:
                kind = f"{result.dtype}".removeprefix("torch.")
                raise Wrong(f"Token ids have dtype {kind}. PyTorch embeddings and losses need int64 (`torch.long`).")

    return holds


# ---------------------------------------------------------------------------------------------- 6.1 embeddings
def vector_cases(generator):
    def one(b, n, words, d, longest, start=0, note=""):
        args = whole(generator, words, b, n), normal(generator, words, d), normal(generator, longest, d)
        return Case((*args, start) if start else args, note=note)

    return [
        one(2, 3, 7, 4, 9, note="two sentences"),
        one(3, 5, 11, 6, 8, start=2, note="the first token is at position 2"),
        one(2, 1, 5, 3, 7, start=5, note="one token, at position 5"),
        one(4, 4, 6, 5, 4, note="as many positions as tokens"),
        one(3, 3, 3, 3, 3, note="all sizes equal"),
        one(1, 2, 6, 4, 5, start=3, note="one sentence, up to the last position"),
    ]


SUM = "table[words] * d**0.5 + positions[start : start + n]"
ALL_POSITIONS = (
    "The whole position table was added. Take the rows of this sentence only: `positions[start : start + n]`."
)
D_POSITIONS = "The slice of `positions` has d rows. It needs one row per token: n = `words.size(1)`."

register(
    Exercise(
        id="6.1",
        cases=vector_cases,
        gradient=True,
        mistakes=[
            mistake(
                " * d**0.5", "", "The embeddings were not scaled. Multiply `table[words]` by the square root of d."
            ),
            mistake("d**0.5", "d", "The embeddings were multiplied by d. Multiply by the square root of d: `d**0.5`."),
            mistake("* d**0.5", "/ d**0.5", "The embeddings were divided by the square root of d. Multiply by it."),
            mistake("table.size(1)", "table.size(0)", "The scale uses the vocabulary size. Use d = `table.size(1)`."),
            mistake(
                SUM,
                "(table[words] + positions[start : start + n]) * d**0.5",
                "The positions were scaled as well. Scale the embeddings only.",
            ),
            mistake(
                SUM,
                "(table[words] + positions[:n]) * d**0.5",
                "The positions were scaled as well, and `start` has no effect. Scale only the embeddings, then add `positions[start : start + n]`.",
            ),
            mistake(
                SUM,
                "table[words] + positions[:n]",
                "The embeddings were not scaled, and `start` has no effect. Multiply by the square root of d and add `positions[start : start + n]`.",
            ),
            mistake(
                SUM,
                "table[words] + positions[start : start + n] * d**0.5",
                "The positions were scaled instead of the embeddings. The square root of d belongs to `table[words]`.",
            ),
            mistake(
                " + positions[start : start + n]", "", "The positions are missing. Add `positions[start : start + n]`."
            ),
            mistake("0.5 + ", "0.5 * ", "Embeddings and positions were multiplied. Add them."),
            mistake(
                SUM,
                "torch.cat([table[words] * d**0.5, positions[start : start + n].expand(len(words), n, d)], -1)",
                "Embeddings and positions were concatenated, which gives dimension 2 d. Add them.",
            ),
            mistake("start : start + n", ":n", "`start` has no effect. Use `positions[start : start + n]`."),
            mistake("start + n", "n", "The slice of `positions` ends too early. It ends at `start + n`."),
            mistake("start : start + n", "start", "All tokens got one position. Token i is at position `start + i`."),
            mistake(
                "start : start + n",
                "words",
                "The positions were looked up by token id. Use `start`, ..., `start + n - 1`.",
            ),
            # The reversed sums name the sizes in the other order when they do not fit.
            mistake("start + n", "start + d", D_POSITIONS),
            mistake(SUM, "positions[start : start + d] + table[words] * d**0.5", D_POSITIONS),
            mistake("[start : start + n]", "", ALL_POSITIONS),
            mistake(SUM, "positions + table[words] * d**0.5", ALL_POSITIONS),
            mistake("start + n]", "]", ALL_POSITIONS),
            mistake(
                "start : start + n", "start + 1 : start + 1 + n", "The positions are off by one. Begin at `start`."
            ),
        ],
        hints=[
            "`table[words]` looks up one embedding per token: (b, n, d), with d = `table.size(1)`.",
            "Multiply the embeddings by the square root of d. The positions are added as they are.",
            "`positions[start : start + n]` is (n, d); the sum broadcasts it over the batch.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.2 cross-attention
def cross_cases(generator):
    def one(b, m, n, d, d_k, mask=None, note=""):
        projections = (normal(generator, d, d_k) for _ in range(3))
        args = normal(generator, b, m, d), normal(generator, b, n, d), *projections
        return Case(args if mask is None else (*args, mask), note=note)

    return [
        one(2, 3, 5, 4, 6, note="no mask"),
        one(2, 4, 5, 3, 2, up_to((3, 5), 5), note="padding after a sentence"),
        one(3, 2, 4, 5, 3, up_to((4, 0, 2), 4), note="a source that is all padding"),
        one(3, 3, 4, 2, 5, up_to((2, 4, 3), 4), note="as many target tokens as sentences"),
        one(2, 4, 4, 3, 3, up_to((4, 2), 4), note="as many target as source tokens"),
        one(4, 1, 3, 2, 4, up_to((1, 3, 2, 3), 3), note="one target token"),
        one(1, 3, 4, 2, 3, up_to((3,), 4), note="one sentence"),
    ]


CALL = "attention(x @ W_Q, memory @ W_K, memory @ W_V, mask)"


def by_hand(scale="W_Q.size(1) ** -0.5", masked="scores.masked_fill(~mask, float('-inf'))", dim=-1, late=""):
    """The code of cross-attention without `attention`."""
    return (
        f"scores = (x @ W_Q) @ (memory @ W_K).mT * {scale}\nscores = scores if mask is None else {masked}\n"
        f"weights = scores.softmax({dim}){late}\nreturn weights @ (memory @ W_V), weights"
    )


QUERIES_FROM_MEMORY = "The queries come from `memory`. Take them from the target: `x @ W_Q`."
SWAPPED_ROLES = "Target and source are swapped. Queries come from `x`, keys and values from `memory`."
SELF_ATTENTION = "The target attended to itself, never to the source. Keys and values come from `memory`."
SQRT_D = "The scores were divided by the square root of d. Queries and keys have d_k components: divide by the square root of d_k."
NO_SCALE = (
    "The scores are not scaled. Divide by the square root of d_k, or leave `scale` out and let `attention` do it."
)
UNIFORM = "scores.masked_fill(~mask, -1e9)"

register(
    Exercise(
        id="6.2",
        cases=cross_cases,
        gradient=True,
        output_names=("output", "weights"),
        tolerance=1e-3,
        mistakes=[
            *[
                mistake([(CALL, f"attention({sides}, {mask})")], message)
                for sides, message in [
                    ("memory @ W_Q, x @ W_K, x @ W_V", SWAPPED_ROLES),
                    ("x @ W_Q, x @ W_K, x @ W_V", SELF_ATTENTION),
                    ("memory @ W_Q, memory @ W_K, memory @ W_V", QUERIES_FROM_MEMORY),
                ]
                for mask in ("mask", "None", *(f"mask if mask is None else mask{part}" for part in ("[:, 0]", ".mT")))
            ],
            mistake("memory @ W_K", "x @ W_K", "The keys come from `x`. Take them from the source: `memory @ W_K`."),
            mistake("memory @ W_V", "x @ W_V", "The values come from `x`. Take them from the source: `memory @ W_V`."),
            mistake(", mask)", ")", "The mask has no effect. Pass it to `attention` as (b, 1, n)."),
            mistake("mask.unsqueeze(1)", "~mask.unsqueeze(1)", "The mask is inverted. True means may attend."),
            mistake(
                "mask.unsqueeze(1)",
                "mask",
                "The mask (b, n) was broadcast against scores (b, m, n), as if its sentences were queries. `mask.unsqueeze(1)` makes it (b, 1, n).",
            ),
            mistake(
                "unsqueeze(1)", "unsqueeze(2)", "`unsqueeze(2)` masks queries. The mask is over keys: `unsqueeze(1)`."
            ),
            mistake(
                CALL,
                "attention(x @ W_Q, memory @ W_K, memory @ W_V, torch.ones(x.size(1), memory.size(1)).bool().tril() & (True if mask is None else mask))",
                "A causal mask was applied to the source. The whole source is known: every target token may attend to all of it.",
            ),
            mistake(
                f"return {CALL}",
                by_hand(masked="scores", late=" * (1 if mask is None else mask)"),
                "The mask came after the softmax, so the weights do not sum to 1. Mask the scores: pass it to `attention`.",
            ),
            mistake(
                f"return {CALL}",
                by_hand(),
                "A source that is all padding gives NaN (0 divided by 0). Its output must be 0: pass the mask to `attention`.",
            ),
            mistake(
                f"return {CALL}",
                by_hand(masked=UNIFORM),
                "A source that is all padding gives the mean of the padding. Its output must be 0: pass the mask to `attention`.",
            ),
            mistake(
                f"return {CALL}",
                by_hand(masked="scores.masked_fill(~mask, -1e30)", dim=-2),
                "The softmax ran over the queries (dim -2). Normalize over the keys: `softmax(scores, dim=-1)`.",
            ),
            *[
                mistake([(f"return {CALL}", code)], message)
                for scale, message in [("1.0", NO_SCALE), ("x.size(-1) ** -0.5", SQRT_D)]
                for code in (
                    f"return {CALL[:-1]}, scale={scale})",
                    by_hand(scale),
                    by_hand(scale, UNIFORM),
                )
            ],
            mistake(
                CALL,
                "attention(x @ W_K, memory @ W_Q, memory @ W_V, mask)",
                "`W_Q` and `W_K` are swapped. Queries are `x @ W_Q`, keys `memory @ W_K`.",
            ),
            mistake(
                CALL,
                "attention(x @ W_Q, memory @ W_V, memory @ W_K, mask)",
                "`W_K` and `W_V` are swapped. Keys are `memory @ W_K`, values `memory @ W_V`.",
            ),
            mistake(
                "if mask is not None:\n    mask",
                "mask",
                "`mask` may be None, and None has no `unsqueeze`. Add the axis only if there is a mask: `if mask is not None`.",
            ),
            mistake(
                "memory @ W_K, memory @ W_V", "memory, memory", "Keys and values were not projected by `W_K` and `W_V`."
            ),
            mistake("memory @ W_V", "memory", "The values were not projected. Use `memory @ W_V`."),
            mistake("memory @ W_K", "memory", "The keys were not projected. Use `memory @ W_K`."),
            mistake(CALL, f"{CALL}[0]", "Only the output was returned. Return output and attention weights."),
            mistake(
                CALL, f"{CALL}[::-1]", "The results are swapped. Return the output first, then the attention weights."
            ),
        ],
        hints=[
            "The target queries the source: `x` gives the queries, `memory` the keys and values.",
            "Pass `x @ W_Q`, `memory @ W_K` and `memory @ W_V` to `attention`.",
            "Its mask must broadcast to (b, m, n): `mask.unsqueeze(1)` is (b, 1, n). The mask may be None.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.3 the decoder layer
@cache
def of_the_course(kind, *sizes):
    """A module of the course's own, built once: many models of mistakes are tried on every answer."""
    return kind(*sizes)


def with_parameters(answer, course, name, sizes, seed, yours):
    """The answer's module with the same random parameters whoever wrote it; for a given `__init__`."""
    is_ours = inspect.isclass(answer) and answer.__module__.startswith("utils.exercises.")
    built = of_the_course(answer, *sizes) if is_ours else expect_a_module(answer, name, *sizes)
    shapes, given = parameter_shapes(course, *sizes), dict(built.named_parameters())
    sizes_of = [math.prod(shape) for shape in shapes.values()]
    numbers = 0.7 * normal(torch.Generator().manual_seed(seed), sum(sizes_of))
    for (part, shape), values in zip(shapes.items(), numbers.split(sizes_of), strict=True):
        if part not in given or tuple(given[part].shape) != shape:
            raise Wrong(f"`{part}` is not as `__init__` made it. Restore `__init__`: only {yours} to write.")
        given[part].data.copy_(values.view(shape))
    return built


def run_decoder_layer(answer, seed, heads, hidden, x, memory, mask=None, memory_mask=None):
    """Build the layer and call it, without masks where there are none."""
    sizes = x.size(-1), heads, hidden
    layer = with_parameters(answer, solved.DecoderLayer, "DecoderLayer", sizes, seed, "`forward` is yours").to(x.dtype)
    return layer(x, memory) if mask is None and memory_mask is None else layer(x, memory, mask, memory_mask)


def layer_cases(generator):
    def one(b, m, n, heads, d_k, hidden, mask=None, words=None, note=""):
        seed, dim = int(whole(generator, 10_000)), heads * d_k
        x, memory = 0.5 + 2 * normal(generator, b, m, dim), 1.5 * normal(generator, b, n, dim) - 0.5
        memory_mask = None if words is None else up_to(words, n).unsqueeze(1)
        return Case((seed, heads, hidden, x, memory, mask, memory_mask), note=note)

    return [
        one(2, 4, 5, 3, 2, 7, note="no masks"),
        one(3, 4, 5, 2, 3, 8, causal_mask(4), (3, 5, 2), note="a causal mask, and padding in the source"),
        one(3, 4, 4, 2, 3, 5, causal_mask(4), (4, 1, 2), note="as many target as source tokens"),
        one(4, 3, 5, 2, 3, 7, causal_mask(3), note="a causal mask only"),
        one(2, 5, 4, 3, 2, 7, words=(2, 0), note="a source that is all padding"),
        one(4, 1, 3, 2, 3, 5, causal_mask(1), (3, 2, 1, 3), note="one target token"),
    ]


def no_influence_from_later_tokens(answer, generator):
    """By gradient: with a causal mask a position does not depend on later ones."""
    seed, heads, hidden, x, memory, mask, memory_mask = layer_cases(generator)[1].args
    x = x.clone().requires_grad_()
    output, _, _ = answer(seed, heads, hidden, x, memory, mask, memory_mask)
    (gradient,) = torch.autograd.grad(output[:, 1].sum(), x)
    if gradient[:, 2:].abs().max() > 0:
        raise Wrong(
            "With a causal mask, later tokens still influence position 1. Pass `mask` to `self.self_attention`; nothing else may mix positions."
        )


# The solution's parts in another order, or with the norms elsewhere
SELF = "found, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)\nx = x + found\n"
CROSS = (
    "found, cross = self.cross_attention(self.cross_norm(x), memory, memory_mask, need_weights=True)\nx = x + found\n"
)
FEED = "x = x + self.feed_forward(self.feed_forward_norm(x))\n"
AFTER_SELF, AFTER_CROSS = "x = x + found\nasks", "x = x + found\nreturn"
FEED_INPUT = "self.feed_forward_norm(x)"
LAST = f"x + self.feed_forward({FEED_INPUT})"


def normed(*parts):
    """Inputs and residual connections of the three sublayers; n1, n2, n3 are their norms, ff is the feed-forward network."""
    code = (
        "found, own = self.self_attention({}, mask=mask, need_weights=True)\nx = {}\n"
        "found, cross = self.cross_attention({}, memory, memory_mask, need_weights=True)\nx = {}\nreturn {}, own, cross"
    ).format(*parts)
    names = {"n1": "self_norm", "n2": "cross_norm", "n3": "feed_forward_norm", "ff": "feed_forward"}
    for short, name in names.items():
        code = code.replace(f"{short}(", f"self.{name}(")
    return code


GIVEN_THE_MEMORY = (
    "`self.self_attention` got the memory. The target attends to itself there: pass `mask=mask` and no second input."
)
MASK_AS_KEYS = "`self.self_attention` got the mask as its second argument, `key_from`. Pass it by name: `mask=mask`."
LIKE_TORCH = "Attention was called with query, key, value and mask, as in `nn.MultiheadAttention`. Here it takes `(query_from, key_from, mask)`."
INVERTED = "is inverted. True already means may attend: pass it on as it is."

register(
    Exercise(
        id="6.3",
        cases=layer_cases,
        call=run_decoder_layer,
        gradient=True,
        output_names=("x", "the self-attention map", "the cross-attention map"),
        tolerance=1e-3,
        properties=[no_influence_from_later_tokens],
        mistakes=[
            # Inputs of the two attention layers
            mistake("asks, memory,", "asks, None,", "`self.cross_attention` got no memory. It is the second argument."),
            mistake(
                "asks, memory, memory_mask",
                "asks",
                "`self.cross_attention` got neither the memory nor its mask. Pass `memory, memory_mask` after the queries.",
            ),
            mistake(
                "asks, memory,", "memory, asks,", "Cross-attention took its queries from `memory`. Take them from x."
            ),
            mistake("mask=mask", "memory, mask", GIVEN_THE_MEMORY),
            mistake("mask=mask", "memory, memory_mask", GIVEN_THE_MEMORY),
            mistake(
                "mask=mask",
                "x, mask",
                "The keys and values of self-attention are not normalized. Leave `key_from` out.",
            ),
            mistake(
                "found, own", "found = own", "Attention returns output and weights. Unpack them: `found, own = ...`."
            ),
            mistake("mask=mask", "mask", MASK_AS_KEYS),
            mistake("mask=mask, need_weights=True", "mask", MASK_AS_KEYS),
            mistake("mask=mask, need_weights=True", "mask, True", MASK_AS_KEYS),
            *[
                mistake(
                    "self.self_norm(x), mask=mask, need_weights=True", f"*[self.self_norm(x)] * 3, {mask}", LIKE_TORCH
                )
                for mask in ("mask", "mask, need_weights=True", "mask=mask")
            ],
            *[
                mistake("memory, memory_mask, need_weights=True", f"memory, memory, {mask}", LIKE_TORCH)
                for mask in ("memory_mask", "memory_mask, need_weights=True", "mask=memory_mask")
            ],
            mistake(
                "self.cross_attention(",
                "self.self_attention(",
                "Cross-attention used the parameters of `self.self_attention`. It has its own: `self.cross_attention`.",
            ),
            mistake(
                "self.self_attention(",
                "self.cross_attention(",
                "Self-attention used the parameters of `self.cross_attention`. It has its own: `self.self_attention`.",
            ),
            mistake(
                "asks, memory,",
                "asks, self.cross_norm(memory),",
                "The memory was normalized as well. `self.cross_norm` is for x; the encoder has normalized its output already.",
            ),
            # Masks
            mistake("mask=mask, ", "", "The causal mask has no effect. Pass `mask=mask` to `self.self_attention`."),
            mistake(
                "mask=mask",
                "mask=causal_mask(x.size(1))",
                "Self-attention is causal even without a mask. Pass `mask=mask`.",
            ),
            mistake("mask=mask", "mask=memory_mask", "Self-attention got the source mask. Pass `mask=mask`."),
            mistake(
                [("mask=mask", "mask=memory_mask"), ("memory, memory_mask", "memory, mask")],
                "The two masks are swapped. `mask` is for self-attention, `memory_mask` for cross-attention.",
            ),
            mistake("memory, memory_mask", "memory", "`memory_mask` has no effect. Pass it to `self.cross_attention`."),
            mistake(
                [("mask=mask, ", ""), ("memory, memory_mask", "memory")],
                "Neither mask has an effect. Pass `mask` to self-attention and `memory_mask` to cross-attention.",
            ),
            mistake("memory, memory_mask", "memory, mask", "Cross-attention got the causal mask. Pass `memory_mask`."),
            mistake(
                "mask=mask",
                "mask=None if mask is None else mask.T",
                "The causal mask is transposed, so each token attends to later ones. Pass it on as it is: row i is for query i.",
            ),
            mistake("mask=mask", "mask=~mask", f"The causal mask {INVERTED}"),
            mistake("mask=mask", "mask=None if mask is None else ~mask", f"The causal mask {INVERTED}"),
            mistake("memory, memory_mask", "memory, ~memory_mask", f"`memory_mask` {INVERTED}"),
            mistake(
                "memory, memory_mask",
                "memory, None if memory_mask is None else ~memory_mask",
                f"`memory_mask` {INVERTED}",
            ),
            # Residual connections and norms
            mistake(AFTER_SELF, "x = found\nasks", "Self-attention has no residual connection: `x = x + found`."),
            mistake(AFTER_CROSS, "x = found\nreturn", "Cross-attention has no residual connection: `x = x + found`."),
            mistake(
                "return x + ", "return ", "The feed-forward network has no residual connection. Add its output to x."
            ),
            mistake(
                [(AFTER_SELF, "x = found\nasks"), (AFTER_CROSS, "x = found\nreturn"), ("return x + ", "return ")],
                "There are no residual connections. Add the output of each sublayer to its input.",
            ),
            mistake(
                BODY,
                normed("x", "n1(x + found)", "x", "n2(x + found)", "n3(x + ff(x))"),
                "This is post-norm: it normalizes after each residual connection. Use pre-norm, `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("n1(x)", "n1(x + found)", "n2(x)", "n2(x + found)", "n3(x + ff(n3(x)))"),
                "Each norm was applied twice, before its sublayer and after the residual connection. Pre-norm has only the first: `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("n1(x)", "x + found", "x", "n2(x + found)", "n3(x + ff(x))"),
                "Self-attention is pre-norm, the other two sublayers are post-norm. Make all three pre-norm: `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("x", "x + n1(found)", "x", "x + n2(found)", "x + n3(ff(x))"),
                "The output of each sublayer was normalized. Normalize its input: `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("n1(x)", "n1(x) + found", "n2(x)", "n2(x) + found", "n3(x) + ff(n3(x))"),
                "The residual connections start from the normalized x. Normalize only the input of each sublayer and add its output to x itself.",
            ),
            mistake(
                [("self.self_norm(x)", "x"), ("self.cross_norm(x)", "x"), (FEED_INPUT, "x")],
                "There is no layer normalization. Each of the three sublayers normalizes its input with its own norm.",
            ),
            mistake(
                "self.self_norm(x)", "x", "The input of self-attention is not normalized. Use `self.self_norm(x)`."
            ),
            mistake(
                "self.cross_norm(x)", "x", "The input of cross-attention is not normalized. Use `self.cross_norm(x)`."
            ),
            mistake(
                FEED_INPUT, "x", "The input of the feed-forward network is not normalized. Use `feed_forward_norm`."
            ),
            mistake(
                [("self.cross_norm(x)", "self.self_norm(x)"), (FEED_INPUT, "self.self_norm(x)")],
                "`self.self_norm` was used for all three sublayers. Each has its own norm.",
            ),
            mistake("self.cross_norm(x)", "self.self_norm(x)", "Cross-attention has its own norm, `self.cross_norm`."),
            mistake(
                FEED_INPUT, "self.cross_norm(x)", "The feed-forward network has its own norm, `self.feed_forward_norm`."
            ),
            mistake(
                LAST,
                f"self.feed_forward_norm({LAST})",
                "The output of the layer was normalized. A pre-norm layer ends with a residual connection; the stack has one final norm.",
            ),
            # Order of the sublayers
            mistake(
                BODY, CROSS + SELF + FEED + "return x, own, cross", "Cross-attention came first. Self-attention does."
            ),
            mistake(
                BODY,
                SELF + FEED + CROSS + "return x, own, cross",
                "The feed-forward network came second. Move it last.",
            ),
            mistake(
                [(AFTER_SELF, "y = x + found\nasks"), (f"{AFTER_CROSS} x", "return y + found")],
                "All three sublayers took the original x as input. Each takes the output of the one before it.",
            ),
            mistake(
                f"{AFTER_SELF} = self.cross_norm(x)",
                "asks = self.cross_norm(x)\nx = x + found",
                "The queries of cross-attention come from the original x. Take the x after self-attention.",
            ),
            mistake(
                f"{AFTER_SELF} = self.cross_norm(x)",
                "asks = self.cross_norm(x + found)",
                "The output of self-attention is lost: cross-attention was added to the original x. Add it to the x after self-attention.",
            ),
            mistake(
                [("found, own", "first = x\nfound, own"), ("return x", "return first")],
                "The outputs of both attention layers are lost: the feed-forward output was added to the original x. Add it to the x after cross-attention.",
            ),
            mistake(LAST, "x", "The feed-forward network is missing. It is the third sublayer."),
            mistake(
                BODY, SELF + FEED + "return x, own, None", "Cross-attention is missing. It is the second sublayer."
            ),
            # Results
            mistake(", own, cross", "", "Only x was returned. Return x and the weights of both attention layers."),
            mistake(", own, cross", ", cross", "The self-attention weights are missing. Return three results."),
            mistake(", own, cross", ", cross, own", "The attention weights are swapped. Self-attention comes first."),
            mistake(
                ", own, cross",
                ", own.mean(1), cross.mean(1)",
                "The attention weights were averaged over the heads. Keep the head axis: (b, heads, m, m) and (b, heads, m, n).",
            ),
            mistake(
                [("mask=mask, need_weights=True", "mask=mask"), ("memory_mask, need_weights=True", "memory_mask")],
                "Both attention weights are None. Pass `need_weights=True`.",
            ),
            mistake(
                "mask=mask, need_weights=True",
                "mask=mask",
                "The self-attention weights are None. Pass `need_weights=True`.",
            ),
            mistake(
                "memory_mask, need_weights=True",
                "memory_mask",
                "The cross-attention weights are None. Pass `need_weights=True`.",
            ),
        ],
        hints=[
            "Three sublayers, each `x + sublayer(norm(x))`: self-attention, cross-attention, feed-forward network.",
            "`found, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)`, then `x = x + found`.",
            "`self.cross_attention(self.cross_norm(x), memory, memory_mask, need_weights=True)`: queries from the target, keys and values from the memory. "
            "Then the feed-forward network. Return x and both weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.4 encode and decode
YOURS = "`encode` and `decode` are yours"


def run_transformer(answer, seed, source_words, target_words, dim, heads, hidden, layers, source, source_mask, target):
    """Build the model, encode, decode: memory and logits. The memory at padding is never used: 0 here."""
    sizes = source_words, target_words, dim, heads, hidden, layers
    model = with_parameters(answer, solved.Transformer, "Transformer", sizes, seed, YOURS)
    memory = model.encode(source, source_mask)
    if isinstance(memory, tuple | list):
        raise Wrong(
            f"`encode` returned {a_thing(memory)}. `self.encoder` returns output and weights; the memory is the output alone."
        )
    if memory is None:
        raise Wrong("`encode` returned None. Return the output of `self.encoder`, the first of its two results.")
    logits = model.decode(target, memory, source_mask)
    if isinstance(memory, torch.Tensor) and memory.shape[:-1] == source_mask.shape:
        memory = memory.masked_fill(~source_mask.unsqueeze(-1), 0)
    return memory, logits


def transformer_cases(generator):
    def one(m, n, lengths, note="", source_words=9, target_words=7, dim=6, heads=3, hidden=8, layers=1):
        b, seed = len(lengths), int(whole(generator, 10_000))
        source, mask = whole(generator, source_words, b, n), up_to(lengths, n)
        target = whole(generator, target_words, b, m, low=1)  # 0 is padding, which an answer may mask in the target too
        return Case((seed, source_words, target_words, dim, heads, hidden, layers, source, mask, target), note=note)

    return [
        one(4, 5, (3, 5, 4), note="padding after two sources", layers=2),
        one(3, 3, (2, 3, 1), note="as many target as source tokens", dim=4, heads=2),
        one(3, 4, (4, 4), note="no padding"),
        one(1, 3, (2, 3, 3), note="one target token", source_words=5, target_words=11),
        one(5, 2, (2,), note="one sentence", dim=8, heads=2, hidden=5),
    ]


def later_tokens_are_masked(answer, generator):
    args = transformer_cases(generator)[0].args
    target, words = args[-1], args[2]
    _, before = answer(*args)
    _, after = answer(*args[:-1], torch.cat([target[:, :-1], target[:, -1:] % (words - 1) + 1], 1))
    if not torch.allclose(before[:, :-1], after[:, :-1], atol=1e-4):
        raise Wrong(
            "The last target token changes the logits at earlier positions. Pass `causal_mask(m)` to `self.decoder`."
        )


def padding_is_masked(answer, generator):
    args = transformer_cases(generator)[0].args
    source, mask, words = args[-3], args[-2], args[1]
    memory, before = answer(*args)
    other, after = answer(*args[:-3], torch.where(mask, source, (source + 1) % words), *args[-2:])
    if not torch.allclose(memory[mask], other[mask], atol=1e-4):
        raise Wrong("A token in the padding changes the memory. In `encode`, pass the mask on as (b, 1, n).")
    if not torch.allclose(before, after, atol=1e-4):
        raise Wrong(
            "A token in the padding of the source changes the logits. In `decode`, pass the mask on as (b, 1, n)."
        )


def it_can_be_trained(answer, generator):
    """Where the logits are right, every parameter gets the gradient that it should."""
    seed, *sizes, source, mask, target = transformer_cases(generator)[0].args
    results = []
    for kind in (solved.Transformer, answer.answer):
        model = with_parameters(kind, solved.Transformer, "Transformer", tuple(sizes), seed, YOURS)
        model.zero_grad()
        logits = model.decode(target, model.encode(source, mask), mask)
        if logits.requires_grad:
            logits.square().sum().backward()
        results.append((logits.detach(), {name: weight.grad for name, weight in model.named_parameters()}))
    (logits, wanted), (got, gradients) = results
    if got.shape != logits.shape or not torch.allclose(got, logits, rtol=1e-3, atol=1e-3):
        return  # other checks say why
    if all(gradient is None for gradient in gradients.values()):
        raise Wrong(
            "The values are right, but no gradient flows back from `decode`. Remove `detach`, `.data` or `torch.no_grad`."
        )
    margin = 1e-3 * max(float(gradient.abs().max()) for gradient in wanted.values())
    for name, gradient in wanted.items():
        if gradients[name] is None or not torch.allclose(gradients[name], gradient, rtol=1e-2, atol=margin):
            raise Wrong(
                f"The values are right, but the gradient of `{name}` is missing or wrong. Remove `detach`, `.data` or `torch.no_grad`."
            )


ENCODER_MASK, DECODER_MASK = "source_mask.unsqueeze(1))[0]", "source_mask.unsqueeze(1)))"
NOT_BROADCAST = "got the mask as (b, n). Give it an axis for the queries: `source_mask.unsqueeze(1)`, (b, 1, n)."
SHIFTED = "`decode` shifted the target. `target` starts with the start token already: use all of it, unchanged."
DROPPED = "`decode` dropped a position of the target. It returns logits for all m positions; the shift happens before, in the data."
THIRD = "The source mask is the third argument of `self.decoder`, where the causal mask belongs. Call `self.decoder(x, memory, mask, memory_mask)`."
TARGET_MASK = "The source mask was applied to the target. Self-attention gets `causal_mask(m)` alone, cross-attention the source mask."

register(
    Exercise(
        id="6.4",
        cases=transformer_cases,
        call=run_transformer,
        output_names=("memory", "logits"),
        tolerance=1e-3,
        properties=[later_tokens_are_masked, padding_is_masked, it_can_be_trained],
        mistakes=[
            # Masks
            mistake("causal_mask(target.size(1))", "None", "`decode` uses no causal mask. Pass it to `self.decoder`."),
            mistake(
                "causal_mask(target.size(1))",
                "causal_mask(target.size(1)).T",
                "The causal mask is transposed. Pass `causal_mask(m)` as it is: row i is for query i.",
            ),
            mistake(
                "causal_mask(target.size(1))",
                "causal_mask(target.size(1)).tril(-1)",
                "The tokens cannot attend to themselves. The diagonal of the causal mask is True.",
            ),
            mistake(
                "target.size(1)", "target.size(0)", "The causal mask is (b, b). Make it (m, m), m = `target.size(1)`."
            ),
            mistake(
                [(f", {ENCODER_MASK}", ")[0]"), (f", {DECODER_MASK}", "))")],
                "`source_mask` has no effect. Pass it on as (b, 1, n) in both `encode` and `decode`.",
            ),
            mistake(f", {ENCODER_MASK}", ")[0]", "`encode` does not use `source_mask`. Pass it on as (b, 1, n)."),
            mistake(f", {DECODER_MASK}", "))", "`decode` does not use `source_mask`. Pass it on as (b, 1, n)."),
            mistake(ENCODER_MASK, "source_mask)[0]", f"`self.encoder` {NOT_BROADCAST}"),
            mistake(DECODER_MASK, "source_mask))", f"`self.decoder` {NOT_BROADCAST}"),
            mistake(
                [(ENCODER_MASK, "source_mask)[0]"), (DECODER_MASK, "source_mask))")],
                f"Encoder and decoder {NOT_BROADCAST}",
            ),
            mistake(
                ENCODER_MASK,
                "source_mask.unsqueeze(2))[0]",
                "In `encode`, `unsqueeze(2)` masks queries. The mask is over the keys: `source_mask.unsqueeze(1)`, (b, 1, n).",
            ),
            mistake(
                DECODER_MASK,
                "source_mask.unsqueeze(2)))",
                "In `decode`, `unsqueeze(2)` masks queries. The mask is over the keys: `source_mask.unsqueeze(1)`, (b, 1, n).",
            ),
            mistake(
                ENCODER_MASK,
                "source_mask.unsqueeze(1) & causal_mask(source.size(1)))[0]",
                "The encoder got a causal mask. The whole source is known, so only padding is masked: `source_mask.unsqueeze(1)`.",
            ),
            mistake(ENCODER_MASK, f"~{ENCODER_MASK}", "In `encode` the mask is inverted. True means may attend."),
            mistake(
                DECODER_MASK, f"~{DECODER_MASK}", "In `decode` the source mask is inverted. True means may attend."
            ),
            mistake(f"mask, {DECODER_MASK}", DECODER_MASK, THIRD),
            mistake(f"mask, {DECODER_MASK}", "source_mask))", THIRD),
            mistake(
                f"mask, {DECODER_MASK}",
                "source_mask.unsqueeze(1), mask))",
                "The two masks are swapped. Call `self.decoder(x, memory, mask, memory_mask)`, the causal mask first.",
            ),
            mistake(
                f", mask, {DECODER_MASK}", "))", "`decode` uses no mask. `self.decoder` takes two, causal mask first."
            ),
            mistake("mask, source_mask", "mask & source_mask.unsqueeze(1), source_mask", TARGET_MASK),
            mistake("mask, source_mask", "source_mask.unsqueeze(1), source_mask", TARGET_MASK),
            # Shifts
            mistake(DECODER_MASK, f"{DECODER_MASK}[:, :-1]", DROPPED),
            mistake(DECODER_MASK, f"{DECODER_MASK}[:, 1:]", DROPPED),
            mistake("self.target_vectors(target)", "self.target_vectors(target[:, :-1])", DROPPED),
            mistake("x, mask =", "target = target[:, 1:]\nx, mask =", DROPPED),
            *[
                mistake("x, mask =", f"target = {shifted}\nx, mask =", SHIFTED)
                for start in (0, 1)
                for shifted in (
                    f"nn.functional.pad(target, (1, 0), value={start})",
                    f"nn.functional.pad(target, (1, -1), value={start})",
                )
            ],
            mistake("self.target_vectors(target)", "self.target_vectors(target.roll(1, 1))", SHIFTED),
            # Results
            mistake(
                f"self.output(self.decoder(x, memory, mask, {DECODER_MASK}",
                "self.decoder(x, memory, mask, source_mask.unsqueeze(1))",
                "`decode` returned hidden states. Apply `self.output` to get logits over the target vocabulary.",
            ),
            mistake(DECODER_MASK, f"{DECODER_MASK}.softmax(-1)", "`decode` returned probabilities. Return logits."),
            mistake(
                DECODER_MASK, f"{DECODER_MASK}.log_softmax(-1)", "`decode` returned log-probabilities. Return logits."
            ),
            mistake(DECODER_MASK, f"{DECODER_MASK}[:, -1]", "`decode` returned the last position only. Return all m."),
            # Embeddings
            mistake(
                "self.target_vectors",
                "self.source_vectors",
                "`decode` used the source embeddings. Use `self.target_vectors`.",
            ),
            mistake(
                "self.source_vectors",
                "self.target_vectors",
                "`encode` used the target embeddings. Use `self.source_vectors`.",
            ),
            mistake(
                "self.source_vectors(",
                "self.source_vectors.table(",
                "`encode` used the embedding matrix without scale and positions. Call `self.source_vectors(source)`.",
            ),
            mistake(
                "self.target_vectors(",
                "self.target_vectors.table(",
                "`decode` used the embedding matrix without scale and positions. Call `self.target_vectors(target)`.",
            ),
            mistake(
                [
                    ("self.source_vectors(", "self.source_vectors.table("),
                    ("self.target_vectors(", "self.target_vectors.table("),
                ],
                "The embedding matrices were used without scale and positions. Call `self.source_vectors(source)` and `self.target_vectors(target)`.",
            ),
            # What goes through the two stacks
            mistake(
                ENCODER_MASK,
                ENCODER_MASK.removesuffix("[0]"),
                "`encode` returned a tuple of 2. `self.encoder` returns output and weights; the memory is the output alone.",
            ),
            mistake(
                f"self.encoder(self.source_vectors(source), {ENCODER_MASK}",
                "self.source_vectors(source)",
                "`encode` returned the embeddings. Pass them through `self.encoder`.",
            ),
            mistake("x, memory, mask", "x, x, mask", "The decoder got its own input as memory. Pass `memory`."),
        ],
        hints=[
            "`encode`: embeddings, then `self.encoder`, which returns output and weights. Its mask is over the keys: `source_mask.unsqueeze(1)`.",
            "`decode`: embeddings, then `self.decoder(x, memory, mask, memory_mask)`, then `self.output`.",
            "`mask` is `causal_mask(m)` with m = `target.size(1)`; `memory_mask` is the source mask, again as (b, 1, n).",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.5 shifted targets
def run_shifted(answer, sentences, start, end, **padding):
    """Call it, and see that the lists are unchanged: the usual message about changed inputs speaks of tensors."""
    before = [list(words) for words in sentences]
    try:
        inspect.signature(answer).bind(sentences, start, end, **padding)
    except TypeError as error:
        raise Wrong(
            f"It must accept the arguments (sentences, start, end, padding=0): {error}. Restore the first line."
        ) from None
    result = answer(sentences, start, end, **padding)
    if before != sentences:
        raise Wrong(
            "The input lists were changed: `append`, `insert` and `+=` work in place. Make new lists, `[start, *words]` and `[*words, end]`."
        )
    return result


def shift_cases(generator):
    def one(lengths, start=1, end=2, padding=None, note=""):
        lowest = max(start, end, padding or 0) + 1
        sentences = [whole(generator, 30, length, low=lowest).tolist() for length in lengths]
        kwargs = {} if padding is None else {"padding": padding}
        return Case((sentences, start, end), kwargs, note=note)

    return [
        one((2, 4, 3), note="three sentences"),
        one((5, 1), note="a sentence of one token"),
        one((3, 3), note="equal lengths"),
        one((2, 5, 1, 3), start=7, end=4, padding=9, note="other ids for start, end and padding"),
        one((3, 0, 2), note="an empty sentence"),
        one((4,), note="one sentence"),
    ]


def padded_by(code):
    """Edits that pad both lists by other code, in which `rows` stands for a list."""
    call = "pad_sequence(rows, batch_first=True, padding_value=padding)"
    return [(call.replace("rows", rows), code.replace("rows", rows)) for rows in ("read", "said")]


INPUT, OUTPUT = "[start, *words]", "[*words, end]"
WORDS = "words, dtype=torch.long"  # an empty list would become float
END_AS_INPUT = "Shorter rows of `target_in` contain the end token, which is never an input. Build `[start, *words]` first, then pad."
RAGGED = "`torch.tensor` needs lists of equal length. Add the tokens and pad first, or give `pad_sequence` one tensor per sentence."
NOT_SHIFTED = "`target_in` and `target_out` are equal, so each position predicts its own input. Use `[start, *words]` and `[*words, end]`."

register(
    Exercise(
        id="6.5",
        cases=shift_cases,
        call=run_shifted,
        output_names=("target_in", "target_out"),
        properties=[words_are_long(shift_cases)],
        mistakes=[
            mistake([(INPUT, "[start, *words, end]"), (OUTPUT, "[start, *words, end]")], NOT_SHIFTED),
            mistake([(INPUT, WORDS), (OUTPUT, WORDS)], NOT_SHIFTED),
            mistake(INPUT, WORDS, "`target_in` lacks the start token, the input for predicting the first token."),
            mistake(INPUT, "[end, *words]", "`target_in` begins with the end token. Use `[start, *words]`."),
            mistake(OUTPUT, WORDS, "`target_out` lacks the end token. Without it the model never learns to stop."),
            mistake(OUTPUT, "[*words, padding]", "`target_out` ends with padding. Use `[*words, end]`."),
            mistake(
                [(INPUT, "[start, *words[:-1]]"), (OUTPUT, WORDS)],
                "The targets are shifted, but `target_out` lacks the end token. Append `end`: `[*words, end]`.",
            ),
            mistake(INPUT, "[start, *words, end]", "`target_in` has the end token as well. Use `[start, *words]`."),
            mistake(OUTPUT, "[start, *words, end]", "`target_out` has the start token as well. Use `[*words, end]`."),
            mistake(
                BODY,
                "both = pad_sequence([torch.tensor([start, *words, end]) for words in sentences], True, padding)\n"
                "return both[:, :-1], both[:, 1:]",
                END_AS_INPUT,
            ),
            mistake(
                BODY,
                "words = pad_sequence([torch.tensor(words).long() for words in sentences], True, padding)\n"
                "column = torch.ones_like(words[:, :1])\n"
                "return torch.cat([start * column, words], 1), torch.cat([words, end * column], 1)",
                "The end token comes after the padding. It follows the last token: append it before padding.",
            ),
            mistake(
                "return target_in, pad_sequence(said, batch_first=True, padding_value=padding)",
                "return pad_sequence(said, batch_first=True, padding_value=padding), target_in",
                "The results are swapped. Return `target_in` first, then `target_out`.",
            ),
            mistake(OUTPUT, "[end, *words]", "`target_out` begins with the end token. It comes last: `[*words, end]`."),
            mistake(
                padded_by("pad_sequence(rows, batch_first=True, padding_value=padding, padding_side='left')"),
                "The padding is on the left. Pad on the right, so that position i is column i in every row.",
            ),
            mistake(padded_by("pad_sequence(rows, batch_first=True)"), "The padding is always 0. Use `padding`."),
            mistake(
                padded_by("pad_sequence(rows, padding_value=padding)"),
                "The position axis comes first. Pass `batch_first=True` to get (b, m).",
            ),
            mistake(
                [(INPUT, "[1, *words]"), (OUTPUT, "[*words, 2]")],
                "Start and end token are fixed numbers in the code. Use the arguments `start` and `end`.",
            ),
            mistake(padded_by("[row.tolist() for row in rows]"), "The results are lists. Pad each to a tensor (b, m)."),
            mistake(padded_by("torch.tensor([row.tolist() for row in rows])"), RAGGED),
            mistake(
                BODY,
                "words, column = torch.tensor(sentences), torch.ones(len(sentences), 1, dtype=torch.long)\n"
                "return torch.cat([start * column, words], 1), torch.cat([words, end * column], 1)",
                RAGGED,
            ),
        ],
        hints=[
            "The input at each position is the previous token: `[start, *words]`. The target there is the next: `[*words, end]`.",
            "Both are one longer than the sentence. Add the special tokens before padding.",
            "`pad_sequence` takes a list of tensors, `batch_first=True` and `padding_value=padding`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.6 the smoothed loss
def smoothed_loss(logits, targets, smoothing, padding=0):
    """Cross-entropy with 1 - smoothing on the target and smoothing shared by all words; the mean over the real targets."""
    log_probability = logits.log_softmax(-1)
    of_target = log_probability.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    losses = -(1 - smoothing) * of_target - smoothing * log_probability.mean(-1)
    return losses[targets != padding].mean()


def smooth_cases(generator):
    def one(lengths, m, words, smoothing, padding=None, note=""):
        number = 0 if padding is None else padding
        targets = whole(generator, words - 1, len(lengths), m)
        targets = targets + (targets >= number)  # no word has the number of padding
        targets = targets.masked_fill(~up_to(lengths, m), number)
        kwargs = {} if padding is None else {"padding": padding}
        return Case((2 * normal(generator, len(lengths), m, words), targets, smoothing), kwargs, note=note)

    large = one((2, 4), 4, 5, 0.2, note="large logits")
    logits, targets, _ = large.args
    logits[0, 1, targets[0, 1]] = -150.0  # so improbable that its probability is 0 in float32
    return [
        one((3, 5), 5, 6, 0.1, note="padding behind a sentence"),
        one((4, 2, 6), 6, 4, 0.3, padding=2, note="padding has the number 2"),
        one((4, 4), 4, 7, 0.2, note="no padding"),
        one((1, 3, 2), 3, 5, 0.0, note="no smoothing"),
        one((2, 4, 1, 3), 4, 4, 0.5, note="all sizes equal"),
        one((4,), 5, 6, 0.2, note="one sentence"),
        large,
    ]


def spread_evenly(log_p, true, smoothing, padding):
    return -(1 - smoothing) * true - smoothing * log_p.mean(-1)


def of_the_real(losses, real):
    return losses[real].mean()


def smooth_with(logs=lambda logits: logits.log_softmax(-1), shares=spread_evenly, mean=of_the_real, skip=None):
    """The loss with parts that can be replaced by wrong ones; `skip` is what is taken for padding."""

    def wrong(logits, targets, smoothing, padding=0):
        log_p = logs(logits)
        true = log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return mean(shares(log_p, true, smoothing, padding), targets != (padding if skip is None else skip))

    return wrong


def shared_by_others(log_p, true, smoothing, padding):
    return -(1 - smoothing) * true - smoothing * (log_p.sum(-1) - true) / (log_p.size(-1) - 1)


def shared_without_padding(log_p, true, smoothing, padding):
    return -(1 - smoothing) * true - smoothing * (log_p.sum(-1) - log_p[..., padding]) / (log_p.size(-1) - 1)


def shared_by_others_without_padding(log_p, true, smoothing, padding):
    rest = log_p.sum(-1) - true - log_p[..., padding]
    return -(1 - smoothing) * true - smoothing * rest / (log_p.size(-1) - 2)


def the_target_loses_a_share(log_p, true, smoothing, padding):
    return -(1 - smoothing) * true - smoothing * (log_p.sum(-1) - true) / log_p.size(-1)


def smoothed_inside_the_logarithm(log_p, true, smoothing, padding):
    return -((1 - smoothing) * true.exp() + smoothing / log_p.size(-1)).log()


def without_the_entropy(log_p, true, smoothing, padding):
    """The KL divergence: the cross-entropy minus the entropy of the smoothed target."""
    shares = torch.full((log_p.size(-1),), smoothing / log_p.size(-1))
    shares[0] += 1 - smoothing
    return spread_evenly(log_p, true, smoothing, padding) + torch.xlogy(shares, shares).sum()


def picked_by(pick):
    """The targets picked by indexing, pick(log_p, targets), in the place of `gather`."""

    def wrong(logits, targets, smoothing, padding=0):
        log_p = logits.log_softmax(-1)
        losses = spread_evenly(log_p, pick(log_p, targets), smoothing, padding)
        return losses[targets != padding].mean()

    return wrong


def smoothing_counts_padding(logits, targets, smoothing, padding=0):
    log_p = logits.log_softmax(-1)
    of_target = log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -(1 - smoothing) * of_target[targets != padding].mean() - smoothing * log_p.mean()


def words_by_reshape(logits, targets, smoothing, padding=0):
    b, m, words = logits.shape
    return (
        F.cross_entropy(
            logits.reshape(b, words, m), targets, label_smoothing=smoothing, ignore_index=padding, reduction="sum"
        )
        / (targets != padding).sum()
    )


OF_EACH_SENTENCE = (
    "That is the mean of the sentences' means, in which a word of a short sentence counts for more: take one mean over all real "
    "words."
)
TOO_MUCH = "The shares do not add up to 1"

register(
    Exercise(
        id="6.6",
        cases=smooth_cases,
        gradient=True,
        mistakes=[
            # Padding
            mistake(
                smooth_with(mean=lambda losses, real: losses.mean()),
                "Padding counts as a target: take the losses only where `targets != padding`.",
            ),
            mistake(
                smooth_with(mean=lambda losses, real: (losses * real).mean()),
                "The sum is right, but it was divided by all positions: padding was set to 0 and still counts. Divide by the number "
                "of real words.",
            ),
            mistake(
                smoothing_counts_padding,
                "The smoothing is counted at padding, too: both parts of the loss only where `targets != padding`.",
            ),
            mistake(
                smooth_with(skip=0),
                "The targets with number 0 were left out: padding may have another number, use the argument `padding`.",
            ),
            mistake(
                smooth_with(mean=lambda losses, real: losses[~real].mean()),
                "That is the loss of the padding: the real words are where `targets != padding`.",
            ),
            mistake(
                smooth_with(mean=lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()),
                OF_EACH_SENTENCE,
            ),
            mistake(
                smooth_with(mean=lambda losses, real: losses[real].sum()),
                "That is the sum: divide by the number of real words, or long batches weigh more.",
            ),
            mistake(
                smooth_with(mean=lambda losses, real: (losses * real).sum() / len(real)),
                "Divided by the number of sentences: divide by the number of real words.",
            ),
            mistake(
                smooth_with(mean=lambda losses, real: losses * real),
                "There is a loss for each position: take the mean over the real words, one number.",
            ),
            mistake(
                smooth_with(mean=lambda losses, real: losses[real]),
                "There is a loss for each real word: take their mean, one number.",
            ),
            # Shares
            mistake(
                smooth_with(shares=lambda log_p, true, smoothing, padding: -true),
                "`smoothing` has no effect: the target gets 1 - smoothing, and all words share the rest.",
            ),
            mistake(
                smooth_with(shares=shared_by_others),
                "The smoothing was shared by the other words only: here all of them share it, the target as well, `smoothing / V` "
                "each.",
            ),
            mistake(
                smooth_with(shares=shared_without_padding),
                "The number of padding got no share of the smoothing: a fine idea, but here all V words share it, as in torch.",
            ),
            mistake(
                smooth_with(shares=shared_by_others_without_padding),
                "Target and padding got no share of the smoothing, as in some codes: here all V words share it, `smoothing / V` "
                "each, as in torch.",
            ),
            mistake(
                smooth_with(shares=the_target_loses_a_share),
                f"{TOO_MUCH} but to 1 - smoothing / V: the target gets 1 - smoothing and, like all words, `smoothing / V`.",
            ),
            mistake(
                smooth_with(shares=lambda log_p, true, smoothing, padding: -true - smoothing * log_p.mean(-1)),
                f"{TOO_MUCH} but to 1 + smoothing: the target gets only 1 - smoothing before the rest is shared.",
            ),
            mistake(
                smooth_with(
                    shares=lambda log_p, true, smoothing, padding: -(1 - smoothing) * true - smoothing * log_p.sum(-1)
                ),
                f"{TOO_MUCH}: every word got all of `smoothing`. They share it, `smoothing / V` each: the mean of the "
                "log-probabilities.",
            ),
            mistake(
                smooth_with(
                    shares=lambda log_p, true, smoothing, padding: -smoothing * true - (1 - smoothing) * log_p.mean(-1)
                ),
                "The two shares are swapped: the target gets 1 - smoothing, all words together get smoothing.",
            ),
            mistake(
                smooth_with(shares=lambda log_p, true, smoothing, padding: -(1 - smoothing) * true),
                "The second part is missing: all words share `smoothing`, so its mean log-probability is in the loss as well.",
            ),
            mistake(
                smooth_with(shares=smoothed_inside_the_logarithm),
                "The model's probabilities were smoothed: it is the target that is smoothed, and the logarithms are averaged with "
                "its shares.",
            ),
            mistake(
                smooth_with(shares=without_the_entropy),
                "That is the KL divergence: it has the same gradient, but lacks the entropy of the smoothed target. The cross-entropy "
                "is asked for, minus the sum of the shares times the log-probabilities.",
            ),
            # Picking the targets
            mistake(
                picked_by(lambda log_p, targets: log_p[:, :, targets]),
                "`[:, :, targets]` takes the targets of all positions at every position, (b, m, b, m): `gather` takes one at each.",
            ),
            mistake(
                picked_by(lambda log_p, targets: log_p[targets]),
                "`[targets]` counts along axis 0, so the targets were taken for sentences: they are words, the last axis. `gather` "
                "takes one at each position.",
            ),
            mistake(
                picked_by(lambda log_p, targets: log_p[:, targets]),
                "`[:, targets]` counts along axis 1, so the targets were taken for positions: they are words, the last axis. `gather` "
                "takes one at each position.",
            ),
            # Logarithms
            mistake(
                smooth_with(shares=lambda *parts: -spread_evenly(*parts)),
                "The sign is wrong: the loss is minus the mean log-probability, never below 0.",
            ),
            mistake(
                smooth_with(logs=lambda logits: logits),
                "The softmax is missing: `log_softmax` makes log-probabilities of logits.",
            ),
            mistake(
                smooth_with(logs=lambda logits: logits.softmax(-1).log_softmax(-1)),
                "The softmax was taken twice: `F.cross_entropy` and `log_softmax` want logits.",
            ),
            mistake(
                smooth_with(logs=lambda logits: logits.softmax(-1)),
                "The logarithm is missing: those are the probabilities. `log_softmax` gives their logarithms.",
            ),
            mistake(
                smooth_with(logs=lambda logits: logits.softmax(-1).log()),
                "With large logits a probability is 0 and its logarithm infinite: `log_softmax` never leaves the logarithms.",
            ),
            mistake(
                smooth_with(logs=lambda logits: logits.log_softmax(1)),
                "The softmax ran over the positions: it runs over the words, the last axis of the logits.",
            ),
            mistake(
                words_by_reshape,
                "`reshape` mixed positions and words up: `transpose(1, 2)` turns axes.",
            ),
        ],
        hints=[
            "`logits.log_softmax(-1)` is (b, m, V); `.gather(-1, targets.unsqueeze(-1)).squeeze(-1)` takes each target's.",
            "A word's loss is minus (1 - smoothing) times the target's log-probability, minus smoothing times the mean of all V.",
            "`losses[targets != padding].mean()`. (`F.cross_entropy` has `label_smoothing` and `ignore_index`, and gives the same.)",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.7 the schedule
def rate_cases(generator):
    def one(dim, warmup, *steps):
        return [Case((step, dim, warmup)) for step in steps]

    warmup = int(whole(generator, 900, low=300))
    return [
        *one(128, 400, 1, 100, 400, 401, 1600, 100_000),
        *one(int(whole(generator, 600, low=64)), warmup, 3, warmup // 2, warmup, 3 * warmup),
        *one(int(whole(generator, 9, low=4)), 1, 1, 5),
    ]


def rate_with(formula):
    return lambda step, dim, warmup: formula(float(step), float(dim), float(warmup))


def rises_then_falls(answer, generator):
    rates = [answer(step, 128, 50) for step in range(1, 200)]
    if max(range(199), key=rates.__getitem__) != 49:
        raise Wrong("The rate is not highest at step `warmup`: there step^-0.5 and step · warmup^-1.5 are equal.")


register(
    Exercise(
        id="6.7",
        cases=rate_cases,
        properties=[rises_then_falls],
        mistakes=[
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * max(step**-0.5, step * warmup**-1.5)),
                "That is the larger of the two: the smaller one, `min`. Else the rate begins high and grows without end.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: min(step**-0.5, step * warmup**-1.5)),
                "The factor dim^-0.5 is missing: wide models get smaller steps.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**0.5 * min(step**-0.5, step * warmup**-1.5)),
                "It was multiplied by the root of dim: divide by it, `dim**-0.5`.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: min(step**-0.5, step * warmup**-1.5) / dim),
                "It was divided by dim: divide by its root, `dim**-0.5`.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * step**-0.5),
                "There is no warm-up: it begins at its highest. For the first steps take step · warmup^-1.5, if that is smaller.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * step * warmup**-1.5),
                "It rises without end: after the warm-up take step^-0.5, which is smaller.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: min(dim**-0.5 * step**-0.5, step * warmup**-1.5)),
                "dim^-0.5 belongs to one part only here: it is a factor of the whole, in front of `min`.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * min(step**-0.5, step * warmup**-0.5)),
                "The power of warmup is wrong: -1.5, so that both parts meet at step `warmup`.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * min(step**-0.5, (step * warmup) ** -1.5)),
                "The power was taken of step · warmup, so the second part falls: only warmup has it, `step * warmup**-1.5`.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim * -0.5 * min(step**-0.5, step * warmup**-1.5)),
                "`dim * -0.5` is a product, and the rate is below 0: the power is `dim**-0.5`.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * min(step**-0.5, warmup**-1.5)),
                "The second part does not rise: it is warmup^-1.5 times the step.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * min(step**-0.5, step / warmup)),
                "The second part is step / warmup, which goes up to 1: it is step · warmup^-1.5, so that both parts meet at step "
                "`warmup`.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)),
                "The steps are counted from 1 already: no `step + 1`.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * min(step**0.5, step * warmup**-1.5)),
                "The power of step lost its sign: step^-0.5 falls.",
            ),
            mistake(
                rate_with(lambda step, dim, warmup: dim**-0.5 * min(1 / step, step * warmup**-1.5)),
                "It falls with 1 / step: it falls with the root, step^-0.5.",
            ),
        ],
        hints=[
            "x to the power -0.5 is `x**-0.5`.",
            "Two curves, one falling, step^-0.5, one rising, step · warmup^-1.5: the rate is the lower one, `min`.",
            "Times dim^-0.5.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.8 greedy decoding
class Writer:
    """A model with `encode` and `decode` that says what is planned.

    The first word of a source is the number of its sentence, plus 4. What comes next hangs on all words so far: other words
    read lead elsewhere. Whoever calls it in a wrong way is told so.
    """

    def __init__(self, generator, lengths, words, start, end, limit):
        b, longest = len(lengths), max(*lengths, limit) + 2
        self.lengths, self.start, self.end, self.limit = torch.tensor(lengths), start, end, limit
        self.others = torch.tensor([word for word in range(1, words) if word not in (start, end)])
        self.factors = whole(generator, 97, longest, low=1)
        self.noise = normal(generator, b, longest, words)
        self.encoded, self.calls, self.most = 0, 0, 2 * b * longest + 10

    def __repr__(self):
        return f"a model that ends after {', '.join(map(str, self.lengths.tolist()))} words"

    def eval(self):
        return self

    def __call__(self, *args, **kwargs):
        raise Wrong(
            "The model itself was called: it has `encode`, once before the loop, and `decode`, in the loop, "
            "`model.decode(words, memory, source_mask)`."
        )

    def encode(self, source, source_mask):
        if not isinstance(source_mask, torch.Tensor) or source_mask.shape != source.shape:
            raise Wrong(
                f"`encode` got {a_thing(source_mask)} as its mask: `model.encode(source, source_mask)`, as they came, (b, n)."
            )
        self.encoded += len(source)
        if self.encoded > len(self.lengths):
            raise Wrong(
                "The source was encoded more than once: `model.encode` stands before the loop, the memory does not change."
            )
        number = (source[:, :1] - 4).expand_as(source)
        return torch.stack([number, source * source_mask, torch.arange(source.size(1)).expand_as(source)], -1).float()

    def decode(self, target, memory, source_mask):
        self._expect_words(target)
        b, m = target.shape
        if not isinstance(memory, torch.Tensor) or memory.dim() != 3 or memory.shape[::2] != (b, 3):
            raise Wrong(
                f"`decode` got {a_thing(memory)} as the memory of {b} sentences: what `model.encode` returned, (b, n, dim)."
            )
        if not isinstance(source_mask, torch.Tensor) or source_mask.shape != memory.shape[:2]:
            raise Wrong(f"`decode` got {a_thing(source_mask)} as its mask: hand on `source_mask` as it came, (b, n).")
        sentence, place = memory[:, 0, 0].long(), torch.arange(m)
        seen = ((memory[..., 1] + memory[..., 2]) * source_mask).sum(1).long()  # what the mask shows of the source
        heard = (target * self.factors[:m]).cumsum(1) + (sentence + seen).unsqueeze(1)
        said = self.others[heard % len(self.others)]
        said = said.masked_fill(place == self.lengths[sentence].unsqueeze(1) - 1, self.end)
        return self.noise[sentence][:, :m].scatter(2, said.unsqueeze(2), 6.0) - 7.0

    def _expect_words(self, target):
        self.calls += 1
        if self.calls > self.most or (
            isinstance(target, torch.Tensor) and target.dim() == 2 and target.size(1) > len(self.factors)
        ):
            raise Wrong(
                "It does not stop: it is over when every sentence has said `end`, and at `limit` words whatever happened."
            )
        if not isinstance(target, torch.Tensor) or target.dim() != 2 or target.is_floating_point():
            raise Wrong(
                f"`decode` got {a_thing(target)} as the words so far: whole numbers (b, m), as the first argument, "
                "`model.decode(words, memory, source_mask)`."
            )
        if (target[:, 0] != self.start).any():
            raise Wrong(
                "`decode` got words that do not begin with the start token: hand over all words so far, `start` in front. It "
                "remembers nothing."
            )


def greedy_decode(model, source, source_mask, start, end, limit):
    """The likeliest words (b, m), 0 behind the end token."""
    memory = model.encode(source, source_mask)
    words = torch.full((len(source), 1), start)
    going = torch.ones(len(source), dtype=torch.bool)
    while going.any() and words.size(1) <= limit:
        logits = model.decode(words, memory, source_mask)[:, -1]
        word = logits.argmax(-1).masked_fill(~going, 0)
        words = torch.cat([words, word.unsqueeze(1)], 1)
        going = going & (word != end)
    return words[:, 1:]


def greedy_cases(generator):
    def one(lengths, limit, n, words=9, start=1, end=2, note=""):
        b = len(lengths)
        source = whole(generator, 4 + b, b, n, low=4)
        source[:, 0] = torch.arange(b) + 4
        mask = up_to(whole(generator, n + 1, b, low=1).tolist(), n)
        return Case((Writer(generator, lengths, words, start, end, limit), source, mask, start, end, limit), note=note)

    return [
        one((3, 5), 8, 4, note="two sentences end before the limit"),
        one((2, 9, 4), 6, 5, note="one sentence does not end"),
        one((5, 2, 3), 9, 4, words=8, start=6, end=4, note="another start and another end token"),
        one((9, 8, 7), 1, 2, note="one word is allowed"),
        one((1, 3, 2, 4, 2), 4, 5, words=6, start=2, end=1, note="the longest just fits"),
        one((4,), 7, 3, note="one sentence"),
    ]


def greedy_with(
    take=lambda logits: logits[:, -1].argmax(-1),
    fill=lambda word, going, end: word.masked_fill(~going, 0),
    goes_on=lambda going: going.any(),
    read=lambda words: words,
    most=lambda limit: limit,
    result=lambda words: words[:, 1:],
    begin=lambda start, end: start,
    encode_again=False,
):
    """Decode as the reference does, with parts that can be replaced by wrong ones."""

    def wrong(model, source, source_mask, start, end, limit):
        memory = model.encode(source, source_mask)
        words = torch.full((len(source), 1), begin(start, end))
        going = torch.ones(len(source), dtype=torch.bool)
        while goes_on(going) and words.size(1) <= most(limit):
            memory = model.encode(source, source_mask) if encode_again else memory
            word = fill(take(model.decode(read(words), memory, source_mask)), going, end)
            words = torch.cat([words, word.unsqueeze(1)], 1)
            going = going & (word != end)
        return result(words)

    return wrong


def asks_too_late(model, source, source_mask, start, end, limit):
    memory, words = model.encode(source, source_mask), torch.full((len(source), 1), start)
    going = torch.ones(len(source), dtype=torch.bool)
    while going.any() and words.size(1) <= limit:
        going = going & (words[:, -1] != end)
        word = model.decode(words, memory, source_mask)[:, -1].argmax(-1).masked_fill(~going, 0)
        words = torch.cat([words, word.unsqueeze(1)], 1)
    return words[:, 1:]


def all_at_the_same_step(model, source, source_mask, start, end, limit):
    memory, words = model.encode(source, source_mask), torch.full((len(source), 1), start)
    while words.size(1) <= limit and (words.size(1) == 1 or not (words[:, -1] == end).all()):
        word = model.decode(words, memory, source_mask)[:, -1].argmax(-1)
        words = torch.cat([words, word.unsqueeze(1)], 1)
    return words[:, 1:]


A_WORD_IS_MISSING = "A word is missing at the limit: `limit` words are allowed, the start token does not count."


def without_the_end_token(model, source, source_mask, start, end, limit):
    words = greedy_decode(model, source, source_mask, start, end, limit)
    return words.masked_fill(words == end, 0)


register(
    Exercise(
        id="6.8",
        cases=greedy_cases,
        properties=[words_are_long(greedy_cases)],
        mistakes=[
            mistake(
                greedy_with(encode_again=True),
                "The source was encoded more than once: `model.encode` stands before the loop, the memory does not change.",
            ),
            mistake(
                greedy_with(result=lambda words: words),
                "The start token is among the words: it is only read. Cut it off at the end, `words[:, 1:]`.",
            ),
            mistake(
                greedy_with(result=lambda words: words, most=lambda limit: limit - 1),
                "The start token is among the words, and even counts as one: it is only read. Cut it off at the end, and leave room "
                "for `limit` words without it.",
            ),
            mistake(
                greedy_with(most=lambda limit: limit - 1),
                A_WORD_IS_MISSING,
            ),
            mistake(
                greedy_with(most=lambda limit: 10**6),
                "It goes on until the last sentence has ended, which may be never: stop at `limit` words whatever happened.",
            ),
            mistake(
                greedy_with(most=lambda limit: limit + 1),
                "There is a word too many: stop at `limit` words. The start token does not count.",
            ),
            mistake(
                greedy_with(take=lambda logits: logits[:, 0].argmax(-1)),
                "The next word was read off the first position: the last one has heard all words, `[:, -1]`.",
            ),
            mistake(
                greedy_with(take=lambda logits: logits[:, -1].argmin(-1)),
                "Those are the least likely words: take the argmax.",
            ),
            mistake(
                greedy_with(take=lambda logits: logits[:, -1].argmax(0)),
                "The argmax ran over the sentences: it runs over the words, the last axis of the logits.",
            ),
            mistake(
                greedy_with(take=lambda logits: logits.argmax(-1)),
                "The words of all positions were taken: only the one after the last word is new, `[:, -1]`.",
            ),
            mistake(
                greedy_with(fill=lambda word, going, end: word),
                "A sentence went on behind its end token while others were not done: fill with 0 there.",
            ),
            mistake(
                greedy_with(fill=lambda word, going, end: word.masked_fill(~going, end)),
                "The end token is repeated behind the end: padding is 0.",
            ),
            mistake(
                greedy_with(goes_on=lambda going: True),
                "It went on to the limit although every sentence had ended: stop as soon as all of them have.",
            ),
            mistake(
                greedy_with(goes_on=lambda going: True, fill=lambda word, going, end: word),
                "The end token has no effect: behind it a sentence gets 0 in every step, and when all sentences have ended the loop stops.",
            ),
            mistake(
                greedy_with(goes_on=lambda going: going.all()),
                "It stopped when the first sentence had ended: go on until all of them have.",
            ),
            mistake(
                asks_too_late,
                "There is a column of padding too many: ask who has ended right after a word is said, not a step later.",
            ),
            mistake(
                all_at_the_same_step,
                "It ends only when all sentences say the end token in the same step: remember who has ended already.",
            ),
            mistake(
                without_the_end_token,
                "The end token is missing: it is the last word of a sentence, 0 stands behind it.",
            ),
            mistake(
                lambda model, source, mask, start, end, limit: greedy_decode(model, source, mask, start, end, limit).T,
                "The words have the places first: the batch comes first, (b, m).",
            ),
            mistake(
                lambda model, source, mask, start, end, limit: greedy_decode(model, source, mask, start, 2, limit),
                "The end token is a number in your code: use the argument `end`.",
            ),
            mistake(
                lambda model, source, source_mask, *rest: greedy_decode(
                    model, source, torch.ones_like(source_mask), *rest
                ),
                "Padding was read as words: hand `source_mask` on to `encode` and to `decode` as it came.",
            ),
            mistake(
                lambda model, source, source_mask, *rest: greedy_decode(model, source, ~source_mask, *rest),
                "The mask is turned round, so the padding is read and the words are not: True already stands at words.",
            ),
        ],
        hints=[
            "Encode once. Begin with `words = torch.full((b, 1), start)` and a mask `going` of ones.",
            "In the loop: `model.decode(words, memory, source_mask)[:, -1]` are the logits of the next word. Its argmax, 0 where a "
            "sentence has ended, goes behind the words: `torch.cat`.",
            "`while going.any() and words.size(1) <= limit`; after each word `going = going & (word != end)`. Return `words[:, 1:]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.9 the cache
def cached_step(x, keys, values, W_Q, W_K, W_V):
    """The newest word x (b, 1, d) looks at all words so far; keys and values (b, t, d_k) of those before it are kept.

    Returns output (b, 1, d_k), keys and values (b, t + 1, d_k).
    """
    keys, values = torch.cat([keys, x @ W_K], 1), torch.cat([values, x @ W_V], 1)
    output, _ = attention(x @ W_Q, keys, values)
    return output, keys, values


def cache_cases(generator):
    def one(b, t, d, d_k, note=""):
        kept = (normal(generator, b, t, d_k) for _ in range(2))
        return Case((normal(generator, b, 1, d), *kept, *(normal(generator, d, d_k) for _ in range(3))), note=note)

    return [
        one(2, 3, 4, 5, note="three words are kept"),
        one(3, 2, 6, 4, note="two words are kept"),
        one(2, 0, 3, 4, note="the first word: nothing is kept yet"),
        one(3, 3, 3, 3, note="all sizes equal"),
        one(4, 1, 2, 5, note="one word is kept"),
        one(1, 4, 3, 2, note="one sentence"),
    ]


def behind(kept, new):
    return torch.cat([kept, new], 1)


def cache_with(
    keep_key=behind,
    keep_value=behind,
    new=lambda x, W_Q, W_K, W_V: (x @ W_Q, x @ W_K, x @ W_V),
    look=attention,
    seen=lambda kept, grown: grown,
    results=lambda output, old, grown: (output, *grown),
):
    """The step with parts that can be replaced by wrong ones; `seen` are the keys and values that are looked at."""

    def wrong(x, keys, values, W_Q, W_K, W_V):
        query, key, value = new(x, W_Q, W_K, W_V)
        grown = keep_key(keys, key), keep_value(values, value)
        output, _ = look(query, *seen((keys, values), grown))
        return results(output, (keys, values), grown)

    return wrong


def the_last_replaced(kept, new):
    return torch.cat([kept[:, :-1], new], 1)


def masked_by_place(query, key, value):
    """A causal mask whose first row is taken for the newest word: it sees the first word only."""
    mask = causal_mask(key.size(1))[:1]
    return attention(query, key, value, mask)


def step_by_step_is_all_at_once(answer, generator):
    b, m, d, d_k = 2, 5, 4, 3
    x, maps = normal(generator, b, m, d), [normal(generator, d, d_k) for _ in range(3)]
    keys = values = torch.zeros(b, 0, d_k)
    found = []
    for place in range(m):
        output, keys, values = answer(x[:, place : place + 1], keys, values, *maps)
        found.append(output)
    query, key, value = (x @ W for W in maps)
    wanted, _ = attention(query, key, value, causal_mask(m))
    if not torch.allclose(torch.cat(found, 1), wanted, atol=1e-4):
        raise Wrong(
            "Word by word it gives something else than all words at once with a causal mask: each word looks at itself and at all "
            "that were kept before it."
        )


OVERWRITTEN = "was overwritten by the new one: put it behind those that are kept, `torch.cat([..., new], 1)`."

register(
    Exercise(
        id="6.9",
        cases=cache_cases,
        gradient=True,
        output_names=("output", "keys", "values"),
        tolerance=1e-3,
        properties=[step_by_step_is_all_at_once],
        mistakes=[
            mistake(
                cache_with(keep_key=lambda kept, new: new, keep_value=lambda kept, new: new),
                "What was kept " + OVERWRITTEN + " As it is, the word sees only itself.",
            ),
            mistake(cache_with(keep_key=lambda kept, new: new), "The keys: what was kept " + OVERWRITTEN),
            mistake(cache_with(keep_value=lambda kept, new: new), "The values: what was kept " + OVERWRITTEN),
            mistake(
                cache_with(the_last_replaced, the_last_replaced),
                "The last word kept was replaced by the new one: it comes behind, so t becomes t + 1.",
            ),
            mistake(
                cache_with(seen=lambda kept, grown: kept),
                "The newest word does not see itself: put its key and value behind the others before it looks.",
            ),
            mistake(
                cache_with(results=lambda output, old, grown: (output, *old)),
                "The keys and values that came back are the old ones: return them with the new word's behind, or nothing is ever "
                "kept.",
            ),
            mistake(
                cache_with(seen=lambda kept, grown: kept, results=lambda output, old, grown: (output, *old)),
                "The new word's key and value were never kept: put them behind the others, look, and return all of them.",
            ),
            mistake(
                cache_with(lambda kept, new: torch.cat([new, kept], 1), lambda kept, new: torch.cat([new, kept], 1)),
                "The new word was put in front: it comes behind those before it, place by place.",
            ),
            mistake(
                cache_with(lambda kept, new: torch.cat([kept, new], 0), lambda kept, new: torch.cat([kept, new], 0)),
                "The new word was put behind the sentences, axis 0: words are axis 1.",
            ),
            mistake(
                cache_with(lambda kept, new: torch.cat([kept, new], -1), lambda kept, new: torch.cat([kept, new], -1)),
                "The new word was put behind the features, the last axis: words are axis 1.",
            ),
            mistake(
                cache_with(new=lambda x, W_Q, W_K, W_V: (x @ W_Q, x @ W_V, x @ W_K)),
                "`W_K` and `W_V` are swapped for the new word: its key is `x @ W_K`, its value `x @ W_V`.",
            ),
            mistake(
                cache_with(new=lambda x, W_Q, W_K, W_V: (x @ W_K, x @ W_Q, x @ W_V)),
                "`W_Q` and `W_K` are swapped: the word asks with `x @ W_Q`, and is found by `x @ W_K`.",
            ),
            mistake(
                cache_with(new=lambda x, W_Q, W_K, W_V: (x @ W_Q, x @ W_K, x @ W_K)),
                "The new value is the key: it has a map of its own, `x @ W_V`.",
            ),
            mistake(
                cache_with(new=lambda x, W_Q, W_K, W_V: (x @ W_Q, x, x)),
                "The word itself was kept: key and value are, `x @ W_K` and `x @ W_V`.",
            ),
            mistake(
                cache_with(new=lambda x, W_Q, W_K, W_V: (x, x @ W_K, x @ W_V)),
                "The query is x itself: it has a map of its own, `x @ W_Q`.",
            ),
            mistake(
                cache_with(look=lambda query, key, value: attention(query, key, value, scale=1)),
                "The scale is missing: leave `scale` away and `attention` divides by the root of d_k.",
            ),
            mistake(
                cache_with(look=masked_by_place),
                "The mask's first row was used, which sees one word only: the newest word may look at all of them, so it needs no "
                "mask.",
            ),
            mistake(
                cache_with(look=lambda query, key, value: attention(query, key, value, causal_mask(key.size(1)))),
                "A causal mask spread the one query over all words: there is one word to look, the newest, and nothing lies behind "
                "it. No mask.",
            ),
            mistake(
                cache_with(results=lambda output, old, grown: output),
                "Only the output came back: return keys and values as well, the next step needs them.",
            ),
            mistake(
                cache_with(results=lambda output, old, grown: (output, grown)),
                "Keys and values came back as one pair: return three results, output, keys, values.",
            ),
            mistake(
                cache_with(results=lambda output, old, grown: (output, grown[1], grown[0])),
                "Keys and values are swapped in the results: output, keys, values.",
            ),
            mistake(
                cache_with(results=lambda output, old, grown: (output.squeeze(1), *grown)),
                "The output lost its axis of length 1: it is a sentence of one word, (b, 1, d_k).",
            ),
        ],
        hints=[
            "Only the newest word is new: its key `x @ W_K` and its value `x @ W_V` go behind those that are kept, "
            "`torch.cat([keys, ...], 1)`.",
            "Then its query looks at all of them: `attention(x @ W_Q, keys, values)`.",
            "No mask: nothing lies behind the newest word. Return output, keys, values.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.10 beam search
class NextWords:
    """Log-probabilities (k, words) of the word after each of k beginnings (k, m). Padding and the start token hardly occur.

    They hang on all words so far. After `last` words all sentences end; with `early` the second best ends at once. With `behind`
    the first steps are planned: see `_planned`. Whoever calls it in a wrong way is told so.
    """

    def __init__(self, generator, words, start, end, limit, width, last=None, early=False, behind=None):
        self.table = 2 * normal(generator, 211, words)
        self.table[:, end] += 0.5
        self.table[:, [0, start]] = -30.0
        self.start, self.end, self.limit, self.last, self.early, self.behind = start, end, limit, last, early, behind
        others = torch.tensor([word for word in range(1, words) if word not in (start, end)])
        self.plan = others[torch.randperm(len(others), generator=generator)[:3]].tolist()
        self.calls, self.most = 0, 2 * (limit + 2) * (width + 1)

    def __repr__(self):
        return f"a model with {self.table.size(1)} words"

    def __call__(self, words):
        self.calls += 1
        if not isinstance(words, torch.Tensor) or words.dim() != 2 or words.is_floating_point():
            raise Wrong(f"`next_words` got {a_thing(words)}: it reads whole numbers (k, m), a row for each beginning.")
        if self.calls > self.most or words.size(1) > 2 * self.limit + 9:
            raise Wrong(
                "It does not stop: it is over when all beginnings have ended, and at `limit` words whatever happened."
            )
        if (words[:, 0] != self.start).any():
            raise Wrong(
                "`next_words` got words that do not begin with the start token: hand over all words so far, `start` in front."
            )
        heard = torch.zeros(len(words), dtype=torch.long)
        for word in words.unbind(1):
            heard = (31 * heard + word + 7) % len(self.table)
        logits = self.table[heard]
        if self.early and words.size(1) == 1:
            logits[:, self.end] = -30.0
            logits[:, self.end] = logits.max(1).values - 0.1
        if self.behind is not None and words.size(1) <= 3:
            logits = self._planned(words, torch.full_like(logits, -30.0))
        if self.last is not None and words.size(1) >= self.last:
            logits[:, self.end] += 40.0
        return logits.log_softmax(-1)

    def _planned(self, words, logits):
        """One first word, and an end `behind` it; then a tempting word that leads nowhere, and one not as likely that ends well.

        A beam of two: if the end is close behind it keeps its place, and the second word finds none. If it is far behind, the two
        words push it out.
        """
        first, tempting, sound = self.plan
        if words.size(1) == 1:
            logits[:, first], logits[:, self.end] = 0.0, -self.behind
        elif words.size(1) == 2:
            logits[:, tempting], logits[:, sound] = 0.0, -0.2
        else:
            logits[:, first], logits[:, tempting], logits[:, sound] = 0.0, -0.1, -0.2
            logits[words[:, -1] == sound, self.end] = 20.0
        return logits


def beam_search(next_words, start, end, limit, width):
    """The `width` best sentences (width, m), 0 behind the end token, and their log-probabilities (width,), best first."""
    words, total, ended = torch.full((1, 1), start), torch.zeros(1), torch.zeros(1, dtype=torch.bool)
    while not ended.all() and words.size(1) <= limit:
        step = next_words(words).masked_fill(ended.unsqueeze(1), float("-inf"))
        step[:, 0] = step[:, 0].masked_fill(ended, 0.0)  # what has ended goes on with padding, for nothing
        total, place = (total.unsqueeze(1) + step).flatten().topk(width)
        parent, word = place // step.size(1), place % step.size(1)
        words = torch.cat([words[parent], word.unsqueeze(1)], 1)
        ended = ended[parent] | (word == end)
    return words[:, 1:], total


def beam_cases(generator):
    def one(words, limit, width, start=1, end=2, note="", **plan):
        model = NextWords(generator, words, start, end, limit, width, **plan)
        return Case((model, start, end, limit, width), note=note)

    return [
        one(8, 8, 3, last=5, note="a beam of 3"),
        one(7, 8, 4, early=True, note="a beam of 4"),
        one(9, 5, 2, start=5, end=3, note="another start and another end token"),
        one(8, 9, 4, start=3, end=6, note="room for 9 words"),
        one(10, 3, 5, start=2, end=1, note="a short limit"),
        one(9, 7, 5, last=4, early=True, note="a beam of 5"),
        one(10, 6, 3, last=2, early=True, note="one ends at once, the others right behind it"),
        one(9, 7, 2, last=4, behind=0.1, note="one that ends at once keeps its place"),
        one(8, 7, 2, last=4, behind=4.0, note="one that ends at once is pushed out"),
        one(8, 7, 1, note="a beam of 1, which is greedy"),
        one(7, 1, 3, note="one word is allowed"),
    ]


def padding_for_nothing(step, ended, end):
    step = step.masked_fill(ended.unsqueeze(1), float("-inf"))
    step[:, 0] = step[:, 0].masked_fill(ended, 0.0)
    return step


def best_of_all(total, step, width, words):
    total, place = (total.unsqueeze(1) + step).flatten().topk(width)
    return total, place // step.size(1), place % step.size(1)


def one_beginning(width):
    return torch.zeros(1)


def copies_of_one(width):
    """As many rows as the beam is wide, of which only the first can be chosen from."""
    return torch.tensor([0.0] + [float("-inf")] * (width - 1))


def beam_with(
    begin=one_beginning,
    on=padding_for_nothing,
    choose=best_of_all,
    carried=lambda words, parent: words[parent],
    who_ended=lambda ended, parent, word, end: ended[parent] | (word == end),
    goes_on=lambda ended: not ended.all(),
    most=lambda limit: limit,
    results=lambda words, total, end: (words[:, 1:], total),
):
    """Beam search as the reference does it, with parts that can be replaced by wrong ones."""

    def wrong(next_words, start, end, limit, width):
        total = begin(width)
        words = torch.full((len(total), 1), start)
        ended = torch.zeros(len(total), dtype=torch.bool)
        while goes_on(ended) and words.size(1) <= most(limit):
            total, parent, word = choose(total, on(next_words(words), ended, end), width, words)
            words = torch.cat([carried(words, parent), word.unsqueeze(1)], 1)
            ended = who_ended(ended, parent, word, end)
        return results(words, total, end)

    return wrong


def one_child_each(total, step, width, words):
    """The best `width` words after the start; from then on the best word of each beginning."""
    if words.size(1) == 1:
        return best_of_all(total, step, width, words)
    best, word = step.max(1)
    total, order = (total + best).sort(descending=True)
    return total, order, word[order]


def one_child_each_as_they_stand(total, step, width, words):
    if words.size(1) == 1:
        return best_of_all(total, step, width, words)
    best, word = step.max(1)
    return total + best, torch.arange(len(words)), word


def by_the_last_word(total, step, width, words):
    return best_of_all(torch.zeros_like(total), step, width, words)


def chosen_by_the_last_word(total, step, width, words):
    _, parent, word = best_of_all(torch.zeros_like(total), step, width, words)
    return total[parent] + step[parent, word], parent, word


def swapped_back(total, step, width, words):
    """Word and parent mixed up; the remainder keeps them in range."""
    total, parent, word = best_of_all(total, step, width, words)
    return total, word % len(words), parent


def divided_by_the_beam(total, step, width, words):
    total, place = (total.unsqueeze(1) + step).flatten().topk(width)
    return total, place // width, place % width


def worst_of_all(total, step, width, words):
    finite = (total.unsqueeze(1) + step).flatten()
    total, place = finite.topk(width, largest=False)
    return total, place // step.size(1), place % step.size(1)


def all_children(total, step, width, words):
    """The best `width` of each beginning, all of them kept."""
    best, word = step.topk(width)
    parent = torch.arange(len(words)).unsqueeze(1).expand_as(word)
    total, order = (total.unsqueeze(1) + best).flatten().sort(descending=True)
    return total, parent.flatten()[order], word.flatten()[order]


def running_mean(total, step, width, words):
    """The mean over the words so far, those behind an end counted as well."""
    m = words.size(1)
    return best_of_all(total * (m - 1) / m, step / m, width, words)


def padding_at_its_price(step, ended, end):
    """0 is the only way on, and costs what the model says."""
    others = torch.arange(step.size(1)) > 0
    return step.masked_fill(ended.unsqueeze(1) & others, float("-inf"))


def set_aside(widened="", enough=True, rest=True):
    """Beam search as many libraries do it: what has ended leaves the beam for a list, and the best of the list come back.

    widened: "" looks at the best `width` continuations, "more" at so many that `width` of them go on, "less" at one less for
    each that is in the list. enough: stops when the list has `width`. rest: what has not ended at the limit is put to the list.
    """

    def wrong(next_words, start, end, limit, width):
        words, total, done = torch.full((1, 1), start), torch.zeros(1), []
        while len(words) and words.size(1) <= limit and not (enough and len(done) >= width):
            sums = (total.unsqueeze(1) + next_words(words)).flatten()
            places = sums.size(0) // len(words)
            asked = {"": width, "more": 2 * width, "less": width - len(done)}[widened]
            total, place = sums.topk(min(asked, sums.size(0)))
            words = torch.cat([words[place // places], (place % places).unsqueeze(1)], 1)
            ended = words[:, -1] == end
            if widened == "more":
                seen = (~ended).cumsum(0) - (~ended).long() < width  # up to the last that goes on, and no further
                words, total, ended = words[seen], total[seen], ended[seen]
            done += list(zip(total[ended].tolist(), words[ended], strict=True))
            words, total = words[~ended], total[~ended]
        if rest or not done:
            done += list(zip(total.tolist(), words, strict=True))
        done = sorted(done, key=lambda one: -one[0])[:width]
        return pad_sequence([row[1:] for _, row in done], batch_first=True), torch.tensor([one for one, _ in done])

    return wrong


def end_for_nothing(step, ended, end):
    step = step.masked_fill(ended.unsqueeze(1), float("-inf"))
    step[:, end] = step[:, end].masked_fill(ended, 0.0)
    return step


def mean_per_word(words, total, end):
    words = words[:, 1:]
    return words, total / (words != 0).sum(1)


def no_two_sentences_are_the_same(answer, generator):
    words, _ = answer(*beam_cases(generator)[0].args)
    if len(words.unique(dim=0)) < len(words):
        raise Wrong("The beam holds the same sentence more than once: each kept beginning must differ from the others.")


def totals_are_what_the_model_says(answer, generator):
    """Add up the log-probabilities of the words that came back."""
    args = beam_cases(generator)[0].args
    model, start, end, limit, width = args
    words, total = answer(*args)
    for row, said in zip(words.tolist(), total.tolist(), strict=True):
        row = row[: row.index(end) + 1] if end in row else row
        model.calls = 0
        added = sum(float(model(torch.tensor([[start, *row[:place]]]))[0, word]) for place, word in enumerate(row))
        if abs(added - said) > 1e-3:
            raise Wrong(
                f"A sentence came back with {said:.3f}, but the log-probabilities of its words add up to {added:.3f}: words and "
                "totals belong to different beginnings. Take both from the parent, `words[parent]`."
            )


WIDE_COPIES = "The beam began with several copies of the same beginning, so it holds the same sentence more than once: begin with one row."
ONE_CHILD = (
    "Each beginning kept only its best word: the best `width` of all continuations stay, several of one beginning and none of "
    "another. `flatten` first, then `topk`."
)
NOT_CARRIED = "The words were not reordered: a new word belongs behind its parent, `words[parent]`."
GREW_ON = (
    "A sentence that had ended went on growing: its only way on is 0, which costs nothing. Set its log-probabilities to minus "
    "infinity, and the one of 0 to 0."
)
SET_ASIDE = (
    "Sentences that had ended were set aside, as many libraries do: here a finished one keeps its place in the beam, with its total, "
    "until better ones push it out. It goes on with 0, which costs nothing."
)

register(
    Exercise(
        id="6.10",
        cases=beam_cases,
        output_names=("words", "total"),
        tolerance=1e-3,
        properties=[
            no_two_sentences_are_the_same,
            totals_are_what_the_model_says,
            words_are_long(beam_cases),
        ],
        mistakes=[
            mistake(beam_with(begin=torch.zeros), WIDE_COPIES),
            mistake(beam_with(choose=one_child_each), ONE_CHILD),
            mistake(beam_with(choose=one_child_each_as_they_stand), ONE_CHILD),
            mistake(
                beam_with(choose=by_the_last_word),
                "Only the newest word counts: add the total of the beginning, `total.unsqueeze(1) + step`.",
            ),
            mistake(
                beam_with(choose=chosen_by_the_last_word),
                "The totals are added up, but the choice goes by the newest word alone: `topk` of the sums.",
            ),
            mistake(
                beam_with(choose=all_children),
                "The best words of each beginning were all kept, and the beam grows: `topk(width)` over all of them together.",
            ),
            mistake(
                beam_with(choose=worst_of_all),
                "Those are the least likely: `topk` of the sums as they are, the largest.",
            ),
            mistake(
                beam_with(choose=divided_by_the_beam),
                "A place in the flattened sums was divided by `width`: a row has as many places as there are words, `step.size(1)`.",
            ),
            mistake(
                beam_with(choose=swapped_back),
                "Parent and word are mixed up: in the flattened sums `place // V` is the row, `place % V` the word.",
            ),
            mistake(
                beam_with(choose=running_mean),
                "The log-probabilities were averaged: those of a sentence are added up.",
            ),
            mistake(
                beam_with(results=mean_per_word),
                "Those are means per word: return the totals, the sums.",
            ),
            mistake(
                beam_with(results=lambda words, total, end: (words[:, 1:], total.exp())),
                "Those are probabilities, products of many small numbers: return the log-probabilities, the sums.",
            ),
            mistake(
                beam_with(results=lambda words, total, end: (words[:, 1:], -total)),
                "The totals have the wrong sign: log-probabilities are not above 0.",
            ),
            # What has ended
            mistake(beam_with(on=lambda step, ended, end: step), GREW_ON),
            mistake(
                beam_with(on=lambda step, ended, end: step, who_ended=lambda ended, parent, word, end: word == end),
                GREW_ON,
            ),
            mistake(
                beam_with(on=lambda step, ended, end: step.masked_fill(ended.unsqueeze(1), float("-inf"))),
                "A sentence that has ended drops out of the beam: it keeps its place with its total, since the padding behind it costs "
                "nothing, `step[:, 0]` is 0 there.",
            ),
            mistake(beam_with(on=lambda step, ended, end: step, goes_on=lambda ended: True), GREW_ON),
            mistake(
                beam_with(on=padding_at_its_price),
                "A sentence that has ended goes on with 0 alone, but pays for it: the way on with 0 costs nothing, put 0.0 into "
                "`step[:, 0]` there.",
            ),
            *[
                mistake(set_aside(widened, enough, rest), SET_ASIDE)
                for widened, enough in (("", True), ("", False), ("more", True), ("more", False), ("less", True))
                for rest in (True, False)
            ],
            mistake(
                beam_with(on=lambda step, ended, end: step.masked_fill(ended.unsqueeze(1), 0.0)),
                "A sentence that has ended goes on with every word for nothing: with 0 alone, all others are minus infinity.",
            ),
            mistake(
                beam_with(on=end_for_nothing),
                "The end token is repeated behind the end: padding is 0.",
            ),
            mistake(
                beam_with(who_ended=lambda ended, parent, word, end: ended | (word == end)),
                "Who has ended was not reordered: it goes with the parent, `ended[parent] | (word == end)`.",
            ),
            mistake(
                beam_with(who_ended=lambda ended, parent, word, end: word == end),
                "Who ended before was forgotten: `ended[parent] | (word == end)`.",
            ),
            mistake(beam_with(carried=lambda words, parent: words), NOT_CARRIED),
            mistake(beam_with(begin=copies_of_one, carried=lambda words, parent: words), NOT_CARRIED),
            # When to stop, and what to return
            mistake(
                beam_with(goes_on=lambda ended: not ended.any()),
                "It stopped when one sentence had ended: go on until all in the beam have.",
            ),
            mistake(
                beam_with(goes_on=lambda ended: not ended[0]),
                "It stopped when the best had ended. True, nothing can overtake it, but the others are asked for as well: go on until "
                "all have ended.",
            ),
            mistake(
                beam_with(goes_on=lambda ended: True),
                "It went on to the limit although all had ended: stop as soon as all in the beam have.",
            ),
            mistake(beam_with(most=lambda limit: limit - 1), A_WORD_IS_MISSING),
            mistake(beam_with(begin=copies_of_one, most=lambda limit: limit - 1), A_WORD_IS_MISSING),
            mistake(
                beam_with(most=lambda limit: 10**6),
                "It goes on until all have ended, which may be never: stop at `limit` words whatever happened.",
            ),
            mistake(
                beam_with(most=lambda limit: limit + 1),
                "There is a word too many: stop at `limit` words. The start token does not count.",
            ),
            mistake(
                beam_with(results=lambda words, total, end: (words, total)),
                "The start token is among the words: it is only read. Cut it off at the end, `words[:, 1:]`.",
            ),
            mistake(
                beam_with(results=lambda words, total, end: (words[:, 1:].masked_fill(words[:, 1:] == end, 0), total)),
                "The end token is missing: it is the last word of a sentence, 0 stands behind it.",
            ),
            mistake(
                beam_with(results=lambda words, total, end: (total, words[:, 1:])),
                "The two results are swapped: the words come first, then the totals.",
            ),
            mistake(
                beam_with(results=lambda words, total, end: (words[0, 1:], total[0])),
                "Only the best sentence came back: return all `width` of them, best first.",
            ),
            mistake(
                beam_with(results=lambda words, total, end: words[:, 1:]),
                "Only the words came back: return words and totals, both.",
            ),
            mistake(
                lambda next_words, start, end, limit, width: beam_search(next_words, start, 2, limit, width),
                "The end token is a number in your code: use the argument `end`.",
            ),
            mistake(
                lambda next_words, start, end, limit, width: beam_search(next_words, start, end, limit, 1),
                "`width` has no effect, that is greedy decoding: `topk(width)`.",
            ),
        ],
        hints=[
            "Begin with one row: `words = torch.full((1, 1), start)`, `total = torch.zeros(1)`, nobody `ended`. In a loop: `step = "
            "next_words(words)` is (k, V), and `total.unsqueeze(1) + step` are the totals of all continuations.",
            "`.flatten().topk(width)` gives totals and places: `place // V` is the parent, `place % V` the word. Words and who has ended "
            "go with the parent: `words[parent]`, `ended[parent]`.",
            "Before that, for rows that have ended: `step = step.masked_fill(ended.unsqueeze(1), float('-inf'))`, then put 0 into "
            "`step[:, 0]` where `ended`. Stop when all have ended, or at `limit` words.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="6.a",
        question="What does the encoder hand to the decoder?",
        options=[
            (
                "Its attention matrices.",
                "They say who looked at whom in the source, and stay in the encoder. The decoder makes its own weights.",
            ),
            (
                "One vector, the last.",
                "That was the bottleneck of lesson 03. Here every source word stays within reach.",
            ),
            (
                "Its output vectors, one for each source word.",
                "Each decoder layer makes keys and values from them, with maps of its own.",
            ),
            (
                "The keys and values of its last layer.",
                "Those served the encoder. Each decoder layer has its own maps to keys and values.",
            ),
        ],
        right=2,
        explanation="(b, n, dim) and nothing else. The queries come from the decoder's words, so the weights of cross-attention are made "
        "there, (b, heads, m, n).",
    )
)
register_quiz(
    Quiz(
        id="6.b",
        question="The well-known picture of the Transformer has a box 'Add & Norm' behind every part. The model of this lesson is pre-norm. Where are its norms?",
        options=[
            (
                "Between each part and its sum, x + norm(part(x)).",
                "Neither of the two usual orders is this one.",
            ),
            (
                "In front of each part, inside the branch, and one more behind the last layer.",
                "x + part(norm(x)): the sums themselves are never normalised on the way, so one norm ends the stack.",
            ),
            (
                "Behind each sum: a norm is a norm.",
                "That is the picture, post-norm: norm(x + part(x)).",
            ),
            (
                "Only once, at the entrance of the stack.",
                "Each of the three parts of a layer has a norm of its own.",
            ),
        ],
        right=1,
        explanation="Post-norm: after the sum. Pre-norm: inside the branch. One switch, and never a silent choice.",
    )
)
register_quiz(
    Quiz(
        id="6.c",
        question="Shorter sources and targets of a batch end in padding, which the loss leaves out. Which masks does the model need?",
        options=[
            (
                "The causal mask in all three attentions.",
                "The source is known as a whole: nobody need hide its later words.",
            ),
            (
                "Among target words the causal one; in the encoder and across, the source's padding.",
                "Padding behind the target lies in every real word's future.",
            ),
            (
                "The source's padding mask everywhere.",
                "Among the target words it would show the words to be guessed.",
            ),
            (
                "None: training makes the model ignore what it should not see.",
                "A model that sees the answer learns to copy it.",
            ),
        ],
        right=1,
        explanation="Three attentions, two kinds of mask. What padding itself sees is computed and never used.",
    )
)
register_quiz(
    Quiz(
        id="6.d",
        question="'The decoder starts on the end token.' Is that so?",
        options=[
            (
                "Yes: it must know where the sentence ends.",
                "It says the end token itself, when it is done. What it starts on is another matter.",
            ),
            (
                "No: it starts on the first source word.",
                "The source reaches it through cross-attention only.",
            ),
            (
                "No: at first it reads nothing.",
                "Without a word there is no query, and nobody to look at the source.",
            ),
            (
                "In some systems. Here it has a start token of its own.",
                "Any fixed token will do, as long as training and generation use the same one.",
            ),
        ],
        right=3,
        explanation="A convention: what matters is that the targets are shifted by one, so that every word is asked for before it is read.",
    )
)
register_quiz(
    Quiz(
        id="6.e",
        question="In training, one pass through the decoder handles all 20 words of a target, its end token among them. How many passes "
        "does it take to write a translation of 20 words, its end token among them?",
        options=[
            (
                "One: attention looks at everything at once.",
                "In training all words are known. Here word 7 is read once it has been written.",
            ),
            (
                "20, one after the other.",
                "Each step reads what the one before has said. Sentences still run side by side.",
            ),
            (
                "One, if the causal mask is left away.",
                "The mask is not the reason: the words are not there yet.",
            ),
            (
                "20, but all at the same time.",
                "Step 8 waits for the word of step 7.",
            ),
        ],
        right=1,
        explanation="It trains in parallel and writes in sequence. What can be saved is work within a step.",
    )
)
register_quiz(
    Quiz(
        id="6.f",
        question="19 words are written. What must a decoder layer compute in its self-attention for the 20th step, if it has kept what it can?",
        options=[
            (
                "Queries, keys and values of all words: the new word changes them.",
                "The causal mask hides it from all words before it: their vectors stay as they were, in every layer.",
            ),
            (
                "Only the new word's query.",
                "Its key and value too: the words to come will look at it.",
            ),
            (
                "Query, key and value of the newest word; it then looks at all keys that are kept.",
                "One row of scores instead of 20.",
            ),
            (
                "Nothing: the output of step 19 is kept.",
                "That output answered another query, that of word 18; now word 19 asks.",
            ),
        ],
        right=2,
        explanation="The key-value cache: the same numbers, less work. The source's keys and values are made once and serve every step.",
    )
)
register_quiz(
    Quiz(
        id="6.g",
        question="A beam of width 4 against greedy decoding, with the same model. What is certain?",
        options=[
            (
                "The beam finds the most probable sentence of all.",
                "Only a search through all sentences does: the best one may begin so badly that it leaves the beam.",
            ),
            (
                "Its sentence is never less probable than the greedy one.",
                "It may be: four that look better at first can push the greedy beginning out.",
            ),
            (
                "Its translation is better.",
                "More probable is not better: wide beams like short sentences, since every word costs.",
            ),
            (
                "None of these.",
                "It costs about four times the work and usually finds a more probable sentence. The rest is to be measured.",
            ),
        ],
        right=3,
        explanation="Many systems divide the total by a power of the length, since every word costs.",
    )
)

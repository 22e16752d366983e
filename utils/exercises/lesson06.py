"""Lesson 06: its exercises with the mistakes that people make in them, and its guess-first questions."""

import inspect
import math
from functools import cache

import torch
from torch.nn.utils.rnn import pad_sequence

from utils.checks.compare import Case, Wrong, a_thing
from utils.exercises.common import built_module, integers, length_mask, normal, parameter_shapes
from utils.exercises.edits import BODY, mistake, replacing
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register
from utils.exercises.solutions import lesson06 as solved
from utils.models import attention
from utils.models.self_attention import causal_mask


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
        args = integers(generator, words, b, n), normal(generator, words, d), normal(generator, longest, d)
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
        one(2, 4, 5, 3, 2, length_mask((3, 5), 5), note="padding after a sentence"),
        one(3, 2, 4, 5, 3, length_mask((4, 0, 2), 4), note="a source that is all padding"),
        one(3, 3, 4, 2, 5, length_mask((2, 4, 3), 4), note="as many target tokens as sentences"),
        one(2, 4, 4, 3, 3, length_mask((4, 2), 4), note="as many target as source tokens"),
        one(4, 1, 3, 2, 4, length_mask((1, 3, 2, 3), 3), note="one target token"),
        one(1, 3, 4, 2, 3, length_mask((3,), 4), note="one sentence"),
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
    built = of_the_course(answer, *sizes) if is_ours else built_module(answer, name, *sizes)
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
        seed, dim = int(integers(generator, 10_000)), heads * d_k
        x, memory = 0.5 + 2 * normal(generator, b, m, dim), 1.5 * normal(generator, b, n, dim) - 0.5
        memory_mask = None if words is None else length_mask(words, n).unsqueeze(1)
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
        b, seed = len(lengths), int(integers(generator, 10_000))
        source, mask = integers(generator, source_words, b, n), length_mask(lengths, n)
        target = integers(
            generator, target_words, b, m, low=1
        )  # 0 is padding, which an answer may mask in the target too
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
        sentences = [integers(generator, 30, length, low=lowest).tolist() for length in lengths]
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


# ---------------------------------------------------------------------------------------------- 6.6 label smoothing
def smooth_cases(generator):
    def case(lengths, m, vocab_size, smoothing, padding=None, note=""):
        pad_id = 0 if padding is None else padding
        targets = integers(generator, vocab_size - 1, len(lengths), m)
        targets = targets + (targets >= pad_id)  # no token has the id of padding
        targets = targets.masked_fill(~length_mask(lengths, m), pad_id)
        kwargs = {} if padding is None else {"padding": padding}
        return Case((2 * normal(generator, len(lengths), m, vocab_size), targets, smoothing), kwargs, note=note)

    large = case((2, 4), 4, 5, 0.2, note="large logits")
    logits, targets, _ = large.args
    logits[0, 1, targets[0, 1]] = -150.0  # so improbable that its probability is 0 in float32
    positive = case((3, 2), 4, 6, 0.1, note="all logits above 0")
    positive.args[0].abs_()  # where even their own logarithm is a number
    return [
        case((3, 5), 5, 6, 0.1, note="a padded sequence"),
        case((4, 2, 6), 6, 4, 0.3, padding=2, note="padding has the id 2"),
        case((4, 4), 4, 7, 0.2, note="no padding"),
        case((1, 3, 2), 3, 5, 0.0, note="no smoothing"),
        case((2, 4, 1, 3), 4, 4, 0.5, note="all sizes equal"),
        case((4,), 5, 6, 0.2, note="one sequence"),
        large,
        positive,
    ]


PER_SEQUENCE = "torch.stack([row[real].mean() for row, real in zip(losses, targets != padding)]).mean()"
ENTROPY = "q = torch.full((logits.size(-1),), smoothing / logits.size(-1))\nq[0] += 1 - smoothing\nreturn "

register(
    Exercise(
        id="6.6",
        cases=smooth_cases,
        gradient=True,
        mistakes=[
            *replacing(
                "losses[targets != padding].mean()",
                {
                    "losses.mean()": "Padding counted as a target. Average the losses only where `targets != padding`.",
                    "(losses * (targets != padding)).mean()": "The sum was divided by all positions, padding included. Divide by the number of real targets.",
                    "losses[targets != 0].mean()": "Targets with id 0 were ignored, whatever `padding` is. Compare with the argument: `targets != padding`.",
                    PER_SEQUENCE: "Each sequence was averaged first, so tokens of short sequences count more. Take one mean over all real targets.",
                    "losses[targets != padding].sum()": "The losses were summed. Take their mean, so that the loss does not grow with the batch.",
                    "losses[targets != padding].sum() / len(targets)": "The sum was divided by the number of sequences. Divide by the number of real targets.",
                    "losses * (targets != padding)": "One loss per position came back. Return a scalar, the mean over all real targets.",
                    "losses[targets != padding]": "One loss per real target came back. Return a scalar, their mean.",
                },
            ),
            *replacing(
                "-(1 - smoothing) * of_target - smoothing * log_p.mean(-1)",
                {
                    "-of_target": "`smoothing` has no effect. The target gets 1 - smoothing, and all V tokens get `smoothing / V` each.",
                    "-of_target - smoothing * log_p.mean(-1)": "The target probabilities sum to 1 + smoothing. Weight the target's log-probability by 1 - smoothing.",
                    "-(1 - smoothing) * of_target": "The smoothing term is missing. Subtract smoothing times the mean log-probability of all V tokens.",
                    "-smoothing * of_target - (1 - smoothing) * log_p.mean(-1)": "The two weights are swapped. The target gets 1 - smoothing, the mean over all tokens gets smoothing.",
                    "(1 - smoothing) * of_target + smoothing * log_p.mean(-1)": "The sign is wrong: this is the mean log-probability. The loss is its negative, never below 0.",
                    "-((1 - smoothing) * of_target.exp() + smoothing / log_p.size(-1)).log()": "The model's probabilities were smoothed. Smooth the target distribution and average the log-probabilities with it.",
                },
            ),
            *replacing(
                "log_p.mean(-1)",
                {
                    "log_p.mean()": "The smoothing term was averaged over padding too. Restrict both terms to `targets != padding`.",
                    "log_p.sum(-1)": "Every token got all of `smoothing`. Each gets `smoothing / V`: take the mean of the log-probabilities.",
                    "(log_p.sum(-1) - of_target) / log_p.size(-1)": "The target probabilities sum to 1 - smoothing / V. The target gets `smoothing / V` in addition to 1 - smoothing.",
                    "(log_p.sum(-1) - of_target) / (log_p.size(-1) - 1)": "The smoothing was spread over the other tokens only. Spread it over all V tokens, the target included.",
                    "(log_p.sum(-1) - log_p[..., padding]) / (log_p.size(-1) - 1)": "The padding token got no part of the smoothing. Spread it over all V tokens, as PyTorch does.",
                    "(log_p.sum(-1) - of_target - log_p[..., padding]) / (log_p.size(-1) - 2)": "Target and padding got no part of the smoothing. Spread it over all V tokens, as PyTorch does.",
                },
            ),
            mistake(
                [("return ", ENTROPY), (".mean()", ".mean() + torch.xlogy(q, q).sum()")],
                "This is the KL divergence, without the entropy of the targets. Return the cross-entropy.",
            ),
            *replacing(
                "log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)",
                {
                    "log_p[:, :, targets]": "`[:, :, targets]` has shape (b, m, b, m): all targets at every position. Use `gather` to take one per position.",
                    "log_p[targets]": "`[targets]` indexes axis 0, the batch. Index the vocabulary, the last axis: `log_p.gather(-1, ...)`.",
                    "log_p[:, targets]": "`[:, targets]` indexes axis 1, the positions. Index the vocabulary, the last axis: `log_p.gather(-1, ...)`.",
                },
            ),
            *replacing(
                "logits.log_softmax(-1)",
                {
                    "logits": "The logits were used as log-probabilities. Normalize them first: `logits.log_softmax(-1)`.",
                    "logits.log()": "The logarithm was taken of the raw logits, NaN where they are negative. Use `logits.log_softmax(-1)`.",
                    "logits.softmax(-1).log_softmax(-1)": "The softmax was applied twice. `log_softmax` and `F.cross_entropy` take the logits.",
                    "logits.softmax(-1)": "These are probabilities, not log-probabilities. Use `logits.log_softmax(-1)`.",
                    "logits.softmax(-1).log()": "A probability underflowed to 0 and its logarithm is infinite. Use `log_softmax`, which stays in log space.",
                    "logits.log_softmax(1)": "The softmax ran over the positions (dim 1). Normalize over the vocabulary: `log_softmax(-1)`.",
                    "logits.reshape(len(logits), -1, targets.size(1)).mT.log_softmax(-1)": "`reshape` mixed positions and vocabulary. Swap the axes with `transpose(1, 2)`.",
                },
            ),
        ],
        hints=[
            "`logits.log_softmax(-1)` is (b, m, V); `.gather(-1, targets.unsqueeze(-1)).squeeze(-1)` selects the target of each position.",
            "The loss of a token is -(1 - smoothing) times its log-probability, minus smoothing times the mean of all V log-probabilities.",
            "`losses[targets != padding].mean()`. (`F.cross_entropy` with `label_smoothing` and `ignore_index` gives the same.)",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.7 warm-up schedule
def rate_cases(generator):
    def cases(dim, warmup, *steps):
        return [Case((step, dim, warmup)) for step in steps]

    warmup = int(integers(generator, 900, low=300))
    return [
        *cases(128, 400, 1, 100, 400, 401, 1600, 100_000),
        *cases(int(integers(generator, 600, low=64)), warmup, 3, warmup // 2, warmup, 3 * warmup),
        *cases(int(integers(generator, 9, low=4)), 1, 1, 5),
    ]


def peaks_at_the_end_of_the_warmup(answer, generator):
    rates = [answer(step, 128, 50) for step in range(1, 200)]
    if max(range(199), key=rates.__getitem__) != 49:
        raise Wrong(
            "The learning rate does not peak at step `warmup`. There `step**-0.5` and `step * warmup**-1.5` must be equal."
        )


INVERSE = "It decays as 1 / step. It must decay with the inverse square root, `step**-0.5`."
ONE_TERM = "Only one term has the factor `dim**-0.5`. Put it in front of `min`."
RISES_TO_1 = "The warm-up term is step / warmup, which rises to 1. Use `step * warmup**-1.5`, which meets `step**-0.5`."

register(
    Exercise(
        id="6.7",
        cases=rate_cases,
        properties=[peaks_at_the_end_of_the_warmup],
        mistakes=[
            *replacing(
                "dim**-0.5 * ",
                {
                    "": "The factor `dim**-0.5` is missing. Wider models get a smaller learning rate.",
                    "dim**0.5 * ": "It was multiplied by the square root of dim. Divide by it: `dim**-0.5`.",
                    "dim**-1 * ": "It was divided by dim. Divide by its square root: `dim**-0.5`.",
                    "dim * -0.5 * ": "`dim * -0.5` is a product, so the learning rate is negative. The power is `dim**-0.5`.",
                },
            ),
            *replacing(
                "dim**-0.5 * min(step**-0.5, step * warmup**-1.5)",
                {
                    "min(dim**-0.5 * step**-0.5, step * warmup**-1.5)": ONE_TERM,
                    "min(step**-0.5, dim**-0.5 * step * warmup**-1.5)": ONE_TERM,
                },
            ),
            *replacing(
                "min(step**-0.5, step * warmup**-1.5)",
                {
                    "max(step**-0.5, step * warmup**-1.5)": "The larger of the two terms was taken. Take the smaller one, `min`.",
                    "(step**-0.5 + step * warmup**-1.5)": "The two terms were added. Take the smaller one, `min`.",
                    "step**-0.5": "There is no warm-up: the first step has the largest rate. Use `step * warmup**-1.5` where that is smaller.",
                    "step * warmup**-1.5": "The rate rises forever. After the warm-up use `step**-0.5`, which is smaller: `min` takes it.",
                    "min(1 / step, step * warmup**-1.5)": INVERSE,
                    "min(1 / step, step * warmup**-2)": INVERSE,
                    "min(step**-0.5, step / warmup)": RISES_TO_1,
                    "(step / warmup if step < warmup else step**-0.5)": RISES_TO_1,
                    "(step / warmup if step <= warmup else step**-0.5)": RISES_TO_1,
                    "min((step + 1)**-0.5, (step + 1) * warmup**-1.5)": "1 was added to the step. Steps already count from 1.",
                },
            ),
            *replacing(
                "step**-0.5",
                {
                    "warmup**-0.5": "The rate stays constant after the warm-up. It must decay with `step**-0.5`.",
                    "step**0.5": "The exponent of step lost its sign. `step**-0.5` decays.",
                },
            ),
            *replacing(
                "step * warmup**-1.5",
                {
                    "step * warmup**-0.5": "The exponent of warmup is wrong. With -1.5 the two terms are equal at step `warmup`.",
                    "(step * warmup) ** -1.5": "The power was taken of step · warmup, which decays. Only warmup has it: `step * warmup**-1.5`.",
                    "(step / warmup) ** -1.5": "The power was taken of step / warmup, which decays. Only warmup has it: `step * warmup**-1.5`.",
                    "warmup**-1.5": "The warm-up term does not rise. Multiply it by the step: `step * warmup**-1.5`.",
                },
            ),
        ],
        hints=[
            "x to the power -0.5 is `x**-0.5`.",
            "One term decays, `step**-0.5`, one rises, `step * warmup**-1.5`. The smaller one counts: `min`.",
            "Multiply by `dim**-0.5`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.8 greedy decoding
class PlannedModel:
    """A model with `encode` and `decode` that predicts what is planned, and tells who calls it in a wrong way.

    The first token of a source is the number of its sequence, plus 4. A prediction depends on all tokens so far.
    """

    def __init__(self, generator, lengths, vocab_size, start, end, limit):
        b, longest = len(lengths), max(*lengths, limit) + 2
        self.lengths, self.start, self.end, self.limit = torch.tensor(lengths), start, end, limit
        self.others = torch.tensor([token for token in range(1, vocab_size) if token not in (start, end)])
        self.factors = integers(generator, 97, longest, low=1)
        self.noise = normal(generator, b, longest, vocab_size)
        self.encoded, self.calls, self.most = 0, 0, 2 * b * longest + 10

    def __repr__(self):
        return f"a model that ends after {', '.join(map(str, self.lengths.tolist()))} tokens"

    def eval(self):
        return self

    def __call__(self, *args, **kwargs):
        raise Wrong(
            "The model itself was called. Call `model.encode` once and `model.decode(words, memory, source_mask)` in the loop."
        )

    def encode(self, source, source_mask):
        if not isinstance(source_mask, torch.Tensor) or source_mask.shape != source.shape:
            raise Wrong(f"`encode` got {a_thing(source_mask)} as its mask. Pass `source_mask` unchanged, (b, n).")
        self.encoded += len(source)
        if self.encoded > len(self.lengths):
            raise Wrong("The source was encoded more than once. Call `model.encode` before the loop.")
        number = (source[:, :1] - 4).expand_as(source)
        return torch.stack([number, source * source_mask, torch.arange(source.size(1)).expand_as(source)], -1).float()

    def decode(self, target, memory, source_mask):
        self._expect_tokens(target)
        b, m = target.shape
        if not isinstance(memory, torch.Tensor) or memory.dim() != 3 or memory.shape[::2] != (b, 3):
            raise Wrong(f"`decode` got {a_thing(memory)} as memory. Pass what `model.encode` returned, (b, n, dim).")
        if not isinstance(source_mask, torch.Tensor) or source_mask.shape != memory.shape[:2]:
            raise Wrong(f"`decode` got {a_thing(source_mask)} as its mask. Pass `source_mask` unchanged, (b, n).")
        sequence, position = memory[:, 0, 0].long(), torch.arange(m)
        visible = ((memory[..., 1] + memory[..., 2]) * source_mask).sum(1).long()  # what the mask leaves of the source
        history = (target * self.factors[:m]).cumsum(1) + (sequence + visible).unsqueeze(1)
        planned = self.others[history % len(self.others)]
        planned = planned.masked_fill(position == self.lengths[sequence].unsqueeze(1) - 1, self.end).unsqueeze(2)
        noise = self.noise[sequence][:, :m]
        # The largest logit by a little only: who samples gets other tokens. All are below 0.
        return noise.scatter(2, planned, noise.amax(2, keepdim=True) + 0.5) - 9.0

    def _expect_tokens(self, target):
        self.calls += 1
        if not isinstance(target, torch.Tensor) or target.dim() != 2 or target.is_floating_point():
            raise Wrong(
                f"`decode` got {a_thing(target)} as tokens. Pass all token ids so far, (b, m): `model.decode(words, memory, source_mask)`."
            )
        if self.calls > self.most or target.size(1) > len(self.factors):
            raise Wrong(
                "The loop does not stop. Stop when every sequence has generated `end`, or after `limit` tokens."
            )
        if (target[:, 0] != self.start).any():
            raise Wrong(
                "`decode` got tokens that do not begin with `start`. Pass all tokens so far: the model keeps no state."
            )


def greedy_cases(generator):
    def case(lengths, limit, n, vocab_size=9, start=1, end=2, note=""):
        b = len(lengths)
        source = integers(generator, 4 + b, b, n, low=4)
        source[:, 0] = torch.arange(b) + 4
        mask = length_mask(integers(generator, n + 1, b, low=1).tolist(), n)
        model = PlannedModel(generator, lengths, vocab_size, start, end, limit)
        return Case((model, source, mask, start, end, limit), note=note)

    return [
        case((3, 5), 8, 4, note="two sequences end before the limit"),
        case((2, 9, 4), 6, 5, note="one sequence does not end"),
        case((5, 2, 3), 9, 4, vocab_size=8, start=6, end=4, note="another start and another end token"),
        case((9, 8, 7), 1, 2, note="one token is allowed"),
        case((1, 3, 2, 4, 2), 4, 5, vocab_size=6, start=2, end=1, note="the longest just fits"),
        case((4,), 7, 3, note="one sequence"),
    ]


TOO_SHORT = "A token is missing at the limit. Generate up to `limit` tokens; the start token does not count."
TOO_LONG = "It generated one token too many. Stop at `limit` tokens; the start token does not count."
NEVER_STOPS = "It ignores `limit` and runs until every sequence has ended, perhaps forever. Stop after `limit` tokens."
START_RETURNED = "The start token is part of the result. It is only an input: return `words[:, 1:]`."
END_MISSING = "The end token is missing in the result. Keep it as the last token, followed by 0."
END_REPEATED = "The end token is repeated after the end. Pad with 0."
FIXED_END = "The id of the end token is fixed in your code. Use the argument `end`."

register(
    Exercise(
        id="6.8",
        cases=greedy_cases,
        properties=[words_are_long(greedy_cases)],
        mistakes=[
            *replacing(
                "return words[:, 1:]",
                {
                    "return words": START_RETURNED,
                    "return words[:, 1:].masked_fill(words[:, 1:] == end, 0)": END_MISSING,
                    "return words[:, 1:].T": "The result has shape (m, b). The batch comes first: (b, m).",
                },
            ),
            mistake(
                [("words[:, 1:]", "words"), ("<= limit", "< limit")],
                "The start token is part of the result and counts toward `limit`. Generate `limit` tokens after it, return `words[:, 1:]`.",
            ),
            *replacing(
                "going.any() and words.size(1) <= limit",
                {
                    "going.any() and words.size(1) < limit": TOO_SHORT,
                    "going.any() and words.size(1) <= limit + 1": TOO_LONG,
                    "going.any()": NEVER_STOPS,
                    "going.all() and words.size(1) <= limit": "It stopped when the first sequence ended. Go on until all have ended.",
                    "words.size(1) <= limit": "It ran to the limit although every sequence had ended. Stop as soon as all have ended.",
                },
            ),
            *replacing(
                "[:, -1]",
                {
                    "[:, 0]": "The next token was predicted at the first position. Use the logits of the last one, `[:, -1]`.",
                    "": "The predictions of all positions were appended. Only the last one is new, `[:, -1]`.",
                },
            ),
            *replacing(
                "logits.argmax(-1)",
                {
                    "logits.argmin(-1)": "The least likely tokens were chosen. Take the argmax.",
                    "logits.argmax(0)": "The argmax ran over the batch (dim 0). Take it over the vocabulary: `argmax(-1)`.",
                    "logits.softmax(-1).multinomial(1).squeeze(1)": "The tokens were sampled. Greedy decoding takes the most likely one, `logits.argmax(-1)`.",
                },
            ),
            *replacing(
                ".masked_fill(~going, 0)",
                {
                    "": "Sequences that had ended kept generating tokens. Pad them with 0 while the others go on.",
                    ".masked_fill(~going, end)": END_REPEATED,
                },
            ),
            mistake(
                [("going.any() and ", ""), (".masked_fill(~going, 0)", "")],
                "The end token has no effect. Pad with 0 after it, and stop when every sequence has ended.",
            ),
            mistake(
                [
                    ("logits =", "going = going & (words[:, -1] != end)\n    logits ="),
                    ("going = going & (word != end)", ""),
                ],
                "There is one column of padding too many. Update `going` right after appending a token, not one step later.",
            ),
            mistake(
                [("going & (word != end)", "word != end"), (".masked_fill(~going, 0)", "")],
                "It stops only if all sequences generate `end` in the same step. Keep track of those that have ended.",
            ),
            mistake("!= end", "!= 2", FIXED_END),
            *replacing(
                "memory =",
                {
                    "source_mask = torch.ones_like(source_mask)\nmemory =": "The source mask was ignored, so padding was attended to. Pass `source_mask` to `encode` and `decode`.",
                    "source_mask = ~source_mask\nmemory =": "The source mask is inverted. True already marks real tokens: pass `source_mask` unchanged.",
                },
            ),
        ],
        hints=[
            "Encode once. Start with `words = torch.full((b, 1), start)` and a mask `going` of ones.",
            "In the loop, `model.decode(words, memory, source_mask)[:, -1]` are the logits of the next token. Append its argmax, or 0 where "
            "a sequence has ended, with `torch.cat`.",
            "`while going.any() and words.size(1) <= limit`; after each token `going = going & (word != end)`. Return `words[:, 1:]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.9 key-value cache
def cache_cases(generator):
    def case(b, t, d, d_k, note=""):
        cache = (normal(generator, b, t, d_k) for _ in range(2))
        return Case((normal(generator, b, 1, d), *cache, *(normal(generator, d, d_k) for _ in range(3))), note=note)

    return [
        case(2, 3, 4, 5, note="three positions are cached"),
        case(3, 2, 6, 4, note="two positions are cached"),
        case(2, 0, 3, 4, note="the first token: the cache is empty"),
        case(3, 3, 3, 3, note="all sizes equal"),
        case(4, 1, 2, 5, note="one position is cached"),
        case(1, 4, 3, 2, note="one sequence"),
    ]


def step_by_step_is_all_at_once(answer, generator):
    b, m, d, d_k = 2, 5, 4, 3
    x, projections = normal(generator, b, m, d), [normal(generator, d, d_k) for _ in range(3)]
    keys = values = torch.zeros(b, 0, d_k)
    outputs = []
    for position in range(m):
        output, keys, values = answer(x[:, position : position + 1], keys, values, *projections)
        outputs.append(output)
    expected, _ = attention(*(x @ W for W in projections), causal_mask(m))
    if not torch.allclose(torch.cat(outputs, 1), expected, atol=1e-4):
        raise Wrong(
            "Token by token the outputs differ from causal self-attention over all positions. Check the query, "
            "the scale and the order of the cache."
        )


APPEND = "Append the new one: `torch.cat([..., new], 1)`."
NEW_KEY, NEW_VALUE = "torch.cat([keys, x @ W_K], 1)", "torch.cat([values, x @ W_V], 1)"
RAW = "The inputs x were cached. Cache the projected key `x @ W_K` and value `x @ W_V`."
SCALE = "The scores have the wrong scale. Divide by the square root of d_k, the default of `attention`."

register(
    Exercise(
        id="6.9",
        cases=cache_cases,
        gradient=True,
        output_names=("output", "keys", "values"),
        tolerance=1e-3,
        properties=[step_by_step_is_all_at_once],
        mistakes=[
            # The cache
            mistake(
                [(NEW_KEY, "x @ W_K"), (NEW_VALUE, "x @ W_V")],
                f"The cache was overwritten, so the token attends only to itself. {APPEND}",
            ),
            mistake(NEW_KEY, "x @ W_K", f"The cached keys were overwritten by the new key. {APPEND}"),
            mistake(NEW_VALUE, "x @ W_V", f"The cached values were overwritten by the new value. {APPEND}"),
            mistake(
                [("[keys,", "[keys[:, :-1],"), ("[values,", "[values[:, :-1],")],
                "The last cached position was replaced. Append the new one, so that t becomes t + 1.",
            ),
            mistake(
                [(NEW_KEY, "keys"), (NEW_VALUE, "values")],
                "The new key and value were never cached. Append both, attend to all positions, and return the longer cache.",
            ),
            mistake(
                [("[keys, x @ W_K]", "[x @ W_K, keys]"), ("[values, x @ W_V]", "[x @ W_V, values]")],
                "The new position was put first. Append it after the cached ones, in the order of the sequence.",
            ),
            *[
                mistake(
                    [("x @ W_K], 1", f"x @ W_K], {axis}"), ("x @ W_V], 1", f"x @ W_V], {axis}")],
                    f"Keys and values were concatenated along axis {axis}, the {name}. Positions are axis 1.",
                )
                for axis, name in ((0, "batch"), (-1, "features"))
            ],
            # The projections
            mistake(
                [("x @ W_K", "x @ W_V"), ("values, x @ W_V", "values, x @ W_K")],
                "`W_K` and `W_V` are swapped. The new key is `x @ W_K`, the new value `x @ W_V`.",
            ),
            mistake(
                [("x @ W_Q", "x @ W_K"), ("keys, x @ W_K", "keys, x @ W_Q")],
                "`W_Q` and `W_K` are swapped. The query is `x @ W_Q`, the new key `x @ W_K`.",
            ),
            mistake("x @ W_V", "x @ W_K", "The new value is a copy of the new key. Project it with `x @ W_V`."),
            *[
                mistake("x @ W_Q", f"x{W}", f"The query is `x{W}`. Project it with `W_Q`: `x @ W_Q`.")
                for W in (" @ W_K", " @ W_V", "")
            ],
            mistake([("x @ W_K", "x"), ("x @ W_V", "x")], RAW),
            mistake([("x @ W_K", "x"), ("x @ W_V", "x"), ("W_Q, keys, values", "W_Q, keys @ W_K, values @ W_V")], RAW),
            mistake(
                [("x @ W_K", "x"), ("x @ W_V", "x"), ("x @ W_Q", "x")],
                "Nothing was projected: x is query, key and value. Use `x @ W_Q`, `x @ W_K` and `x @ W_V`.",
            ),
            # Attention and the results
            *[
                mistake("W_Q, keys, values", f"W_Q, keys, values, scale={scale}", SCALE)
                for scale in ("1", "x.size(-1) ** -0.5", "1 / keys.size(-1)", "keys.size(1) ** -0.5")
            ],
            *replacing(
                "W_Q, keys, values",
                {
                    "W_Q, keys[:, :-1], values[:, :-1]": "The token does not attend to itself. Append its key and value before calling `attention`.",
                    "W_Q, keys, values, causal_mask(keys.size(1))[:1]": "The first row of a causal mask was used, so the token attends to one position. It needs no mask.",
                    "W_Q, keys, values, causal_mask(keys.size(1))": "A causal mask was applied to a single query. The newest token may attend to all positions: it needs no mask.",
                },
            ),
            *replacing(
                "return output, keys, values",
                {
                    "return output, keys[:, :-1], values[:, :-1]": "The old cache came back. Return keys and values with the new position appended.",
                    "return output": "Only the output came back. Return keys and values too.",
                    "return output, (keys, values)": "Keys and values came back as a pair. Return three results: output, keys, values.",
                    "return output, values, keys": "Keys and values are swapped in the results. The order is output, keys, values.",
                    "return output.squeeze(1), keys, values": "The output lost its axis of length 1. Its shape is (b, 1, d_k).",
                },
            ),
        ],
        hints=[
            "Only the newest token is projected: append its key `x @ W_K` and value `x @ W_V` to the cache, `torch.cat([keys, ...], 1)`.",
            "Then its query attends to all of them: `attention(x @ W_Q, keys, values)`.",
            "No mask: there are no later positions. Return output, keys, values.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.10 beam search
class NextWords:
    """Log-probabilities (k, V) of the token after each of k hypotheses (k, m); it tells who calls it in a wrong way.

    They depend on all tokens so far. After `last` tokens every hypothesis ends; with `early` the second best ends at once; with
    `behind` the first steps are planned, see `_planned`. Padding and the start token hardly occur; with `zero`, 0 does.
    """

    def __init__(
        self, generator, vocab_size, start, end, limit, width, last=None, early=False, behind=None, zero=False
    ):
        self.table = 2 * normal(generator, 211, vocab_size)
        self.table[:, end] += 0.5
        self.table[:, 0] = self.table[:, 0] + 2.0 if zero else -30.0
        self.table[:, start] = -30.0
        self.start, self.end, self.limit, self.last, self.early, self.behind = start, end, limit, last, early, behind
        others = torch.tensor([token for token in range(1, vocab_size) if token not in (start, end)])
        self.plan = others[torch.randperm(len(others), generator=generator)[:3]].tolist()
        self.calls, self.most = 0, 2 * (limit + 2) * (width + 1)

    def __repr__(self):
        return f"a model with a vocabulary of {self.table.size(1)}"

    def __call__(self, words):
        self.calls += 1
        if not isinstance(words, torch.Tensor) or words.dim() != 2 or words.is_floating_point():
            raise Wrong(f"`next_words` got {a_thing(words)}. Pass token ids (k, m), one row per hypothesis.")
        if self.calls > self.most or words.size(1) > 2 * self.limit + 9:
            raise Wrong("The loop does not stop. Stop when all hypotheses have ended, or after `limit` tokens.")
        if (words[:, 0] != self.start).any():
            raise Wrong("`next_words` got tokens that do not begin with `start`. Pass all tokens so far.")
        history = torch.zeros(len(words), dtype=torch.long)
        for word in words.unbind(1):
            history = (31 * history + word + 7) % len(self.table)
        logits = self.table[history]
        if self.early and words.size(1) == 1:
            logits[:, self.end] = -30.0
            logits[:, self.end] = logits.max(1).values - 0.1
        if self.behind is not None and words.size(1) <= 3:
            logits = self._planned(words, torch.full_like(logits, -30.0))
        if self.last is not None and words.size(1) >= self.last:
            logits[:, self.end] += 40.0
        return logits.log_softmax(-1)

    def _planned(self, words, logits):
        """One first token, and an end `behind` it; then a tempting token that leads nowhere, and a less likely one that ends well.

        A beam of two: if the end is close behind, it stays in the beam and leaves no room for the less likely token. If it is far
        behind, the two tokens push it out.
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


def beam_cases(generator):
    def case(vocab_size, limit, width, start=1, end=2, note="", **plan):
        model = NextWords(generator, vocab_size, start, end, limit, width, **plan)
        return Case((model, start, end, limit, width), note=note)

    return [
        case(8, 8, 3, last=5, note="a beam of 3"),
        case(7, 8, 4, early=True, note="a beam of 4"),
        case(9, 5, 2, start=5, end=3, note="another start and another end token"),
        case(8, 9, 4, start=3, end=6, note="room for 9 tokens"),
        case(10, 3, 5, start=2, end=1, note="a short limit"),
        case(9, 7, 5, last=4, early=True, note="a beam of 5"),
        case(10, 6, 3, last=2, early=True, note="one ends at once, the others right after it"),
        case(9, 7, 2, last=4, behind=0.1, note="one that ends at once stays in the beam"),
        case(8, 7, 2, last=4, behind=4.0, note="one that ends at once is pushed out"),
        case(8, 7, 1, note="a beam of 1, which is greedy"),
        case(7, 1, 3, note="one token is allowed"),
        case(8, 6, 4, zero=True, note="0 is likely before the end"),
    ]


def set_aside(widened, enough, rest):
    """Beam search as many libraries do it: a finished hypothesis leaves the beam for a list, and the best of the list come back.

    widened: "" takes the best `width` continuations, "more" so many that `width` of them go on, "less" one less for each in the
    list. enough: stops when the list has `width`. rest: what has not ended at the limit joins the list.
    """

    def wrong(next_words, start, end, limit, width):
        words, total, done = torch.full((1, 1), start), torch.zeros(1), []
        while len(words) and words.size(1) <= limit and not (enough and len(done) >= width):
            sums = (total.unsqueeze(1) + next_words(words)).flatten()
            vocab_size = sums.size(0) // len(words)
            asked = {"": width, "more": 2 * width, "less": width - len(done)}[widened]
            total, place = sums.topk(min(asked, sums.size(0)))
            words = torch.cat([words[place // vocab_size], (place % vocab_size).unsqueeze(1)], 1)
            ended = words[:, -1] == end
            if widened == "more":
                kept = (~ended).cumsum(0) - (~ended).long() < width  # up to the last that goes on, and no further
                words, total, ended = words[kept], total[kept], ended[kept]
            done += list(zip(total[ended].tolist(), words[ended], strict=True))
            words, total = words[~ended], total[~ended]
        if rest or not done:
            done += list(zip(total.tolist(), words, strict=True))
        done = sorted(done, key=lambda pair: -pair[0])[:width]
        return pad_sequence([row[1:] for _, row in done], batch_first=True), torch.tensor([total for total, _ in done])

    return wrong


def hypotheses_differ(answer, generator):
    words, _ = answer(*beam_cases(generator)[0].args)
    if len(words.unique(dim=0)) < len(words):
        raise Wrong("The beam holds the same hypothesis more than once. Start from one row, not from `width` copies.")


def totals_are_log_probabilities(answer, generator):
    args = beam_cases(generator)[0].args
    model, start, end, _, _ = args
    words, totals = answer(*args)
    for row, total in zip(words.tolist(), totals.tolist(), strict=True):
        row = row[: row.index(end) + 1] if end in row else row
        model.calls = 0
        added = sum(float(model(torch.tensor([[start, *row[:place]]]))[0, word]) for place, word in enumerate(row))
        if abs(added - total) > 1e-3:
            raise Wrong(
                f"A hypothesis has the total {total:.3f}, but its log-probabilities sum to {added:.3f}. Tokens and totals must come "
                "from the same parent: `words[parent]`."
            )


BOTH = "place // step.size(1), place % step.size(1)"
BEST_CHILD = "step.masked_fill(step < step.amax(1, keepdim=True), float('-inf'))"
IN_PLACE = """\
    if words.size(1) > 1:
        parent, (best, word) = torch.arange(width), step.max(1)
        total = before + best
    before = total
"""
ENDED_ROWS = '.masked_fill(ended.unsqueeze(1), float("-inf"))'
PAD_FREE = "    step[:, 0] = step[:, 0].masked_fill(ended, 0.0)\n"
UNMASKED = [(ENDED_ROWS, ""), (PAD_FREE, "")]
COPIES = [
    ("torch.full((1, 1), start), torch.zeros(1)", "torch.full((width, 1), start), torch.zeros(width)"),
    ("torch.zeros(1, dtype", "torch.zeros(width, dtype"),
]
ONE_CHILD = (
    "Each hypothesis kept only its best token. Keep the best `width` of all continuations: `flatten`, then `topk`."
)
NOT_REORDERED = "The tokens were not reordered. Append each new token to its parent: `words[parent]`."
GREW_ON = "Finished hypotheses kept growing. Set their log-probabilities to -inf and that of token 0 to 0."
SET_ASIDE = "Finished hypotheses left the beam, as in many libraries. Here they stay and compete: token 0 follows at log-probability 0."

register(
    Exercise(
        id="6.10",
        cases=beam_cases,
        output_names=("words", "total"),
        tolerance=1e-3,
        properties=[hypotheses_differ, totals_are_log_probabilities, words_are_long(beam_cases)],
        mistakes=[
            # Choosing the best
            mistake(
                COPIES,
                "The beam started with `width` copies of one hypothesis, so it holds duplicates. Start with one row.",
            ),
            *replacing(
                "(total.unsqueeze(1) + step)",
                {
                    "step": "Only the newest token counts. Add the log-probability of the hypothesis: `total.unsqueeze(1) + step`.",
                    "((total.unsqueeze(1) * (words.size(1) - 1) + step) / words.size(1))": "The log-probabilities were averaged. Add them up: there is no length normalization here.",
                    f"(total.unsqueeze(1) + (step if words.size(1) == 1 else {BEST_CHILD}))": ONE_CHILD,
                },
            ),
            mistake("    words = ", f"{IN_PLACE}    words = ", ONE_CHILD),
            mistake(
                [
                    ("total, place = (total.unsqueeze(1) + step)", "_, place = step"),
                    ("    words = ", "    total = total[parent] + step[parent, word]\n    words = "),
                ],
                "The beam was chosen by the newest token alone. Take `topk` of the sums, `total.unsqueeze(1) + step`.",
            ),
            mistake(
                [
                    ("total, place", "best, candidates = step.topk(width)\n    total, place"),
                    ("+ step).flatten().topk(width)", "+ best).flatten().sort(descending=True)"),
                    (BOTH, "place // width, candidates.flatten()[place]"),
                ],
                "The beam grows: the best tokens of every hypothesis were kept. Take `topk(width)` over all continuations together.",
            ),
            *replacing(
                BOTH,
                {
                    "place // width, place % width": "The flattened index was divided by `width`. A row has V entries: divide by `step.size(1)`.",
                    "place % step.size(1), place // step.size(1)": "Parent and token are swapped. In the flattened sums `place // V` is the row, `place % V` the token.",
                },
            ),
            *replacing("words[parent]", {"words": NOT_REORDERED, "words.expand(width, -1)": NOT_REORDERED}),
            mistake("topk(width)", "topk(1)", "`width` has no effect: this is greedy decoding. Use `topk(width)`."),
            # Finished hypotheses
            mistake(UNMASKED, GREW_ON),
            mistake([*UNMASKED, ("ended[parent] | (word == end)", "word == end")], GREW_ON),
            mistake([*UNMASKED, ("not ended.all() and ", "")], GREW_ON),
            *replacing(
                PAD_FREE,
                {
                    "": "Finished hypotheses drop out of the beam. Keep them with their total: set `step[:, 0]` to 0 where `ended`.",
                    "    step[:, 0] = 0.0\n": "Token 0 costs nothing for unfinished hypotheses either. Set `step[:, 0]` to 0.0 only where `ended`.",
                    "    step[:, 0] = torch.where(ended, 0.0, float('-inf'))\n": "Token 0 was excluded before the end, where it is an ordinary token. Change `step[:, 0]` only where `ended`.",
                    "    step[:, end] = step[:, end].masked_fill(ended, 0.0)\n": END_REPEATED,
                },
            ),
            mistake(
                [(ENDED_ROWS, ""), (PAD_FREE, "    step[ended, 1:] = float('-inf')\n")],
                "Padding costs a finished hypothesis the model's log-probability. Set `step[:, 0]` to 0.0 where `ended`.",
            ),
            mistake(
                'float("-inf")',
                "0.0",
                "Any token may follow the end at no cost. Allow token 0 only: set all others to -inf.",
            ),
            *[
                mistake(set_aside(widened, enough, rest), SET_ASIDE)
                for widened, enough in (("", True), ("", False), ("more", True), ("more", False), ("less", True))
                for rest in (True, False)
            ],
            *replacing(
                "ended[parent] | (word == end)",
                {
                    "ended | (word == end)": "The finished flags were not reordered. Take them from the parent: `ended[parent] | (word == end)`.",
                    "word == end": "Hypotheses that ended earlier were forgotten. Keep their flag: `ended[parent] | (word == end)`.",
                    "(word == end) | (word == 0)": "A generated 0 counted as the end. Only `end` ends a hypothesis; before it, 0 is an ordinary token.",
                    "ended[parent] | (word == 2)": FIXED_END,
                },
            ),
            # When to stop, and what to return
            *replacing(
                "not ended.all() and words.size(1) <= limit",
                {
                    "not ended.any() and words.size(1) <= limit": "It stopped when one hypothesis ended. Go on until all in the beam have ended.",
                    "not ended[0] and words.size(1) <= limit": "It stopped when the best hypothesis ended. The others are returned too: go on until all have ended.",
                    "words.size(1) <= limit": "It ran to the limit although all had ended. Stop as soon as all in the beam have ended.",
                    "not ended.all() and words.size(1) < limit": TOO_SHORT,
                    "not ended.all() and words.size(1) <= limit + 1": TOO_LONG,
                    "not ended.all()": NEVER_STOPS,
                },
            ),
            mistake([*COPIES, ("while", "total[1:] = -float('inf')\nwhile"), ("<= limit", "< limit")], TOO_SHORT),
            *replacing(
                "return words[:, 1:], total",
                {
                    "return words, total": START_RETURNED,
                    "return words[:, 1:].masked_fill(words[:, 1:] == end, 0), total": END_MISSING,
                    "return words[:, 1:], total / (words[:, 1:] != 0).sum(1)": "The totals were divided by the length. Return the sums, without length normalization.",
                    "return words[:, 1:], total.exp()": "Probabilities came back. Return log-probabilities.",
                    "return words[:, 1:], -total": "The totals have the wrong sign. Log-probabilities are at most 0.",
                    "return total, words[:, 1:]": "The two results are swapped. Return words, then totals.",
                    "return words[0, 1:], total[0]": "Only the best hypothesis came back. Return all `width` of them, best first.",
                    "return words[:, 1:]": "Only the tokens came back. Return words and totals.",
                },
            ),
        ],
        hints=[
            "Start with one row: `words = torch.full((1, 1), start)`, `total = torch.zeros(1)`, nothing `ended`. In the loop `step = "
            "next_words(words)` is (k, V), and `total.unsqueeze(1) + step` are the log-probabilities of all continuations.",
            "`.flatten().topk(width)` gives totals and flat indices: `place // V` is the parent, `place % V` the token. Take tokens and "
            "flags from the parent: `words[parent]`, `ended[parent]`.",
            "Before that, in rows that have ended: `step = step.masked_fill(ended.unsqueeze(1), float('-inf'))`, then set `step[:, 0]` "
            "to 0 where `ended`. Stop when all have ended, or at `limit` tokens.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- quizzes
register_quiz(
    Quiz(
        id="6.a",
        question="What does the encoder pass to the decoder?",
        options=[
            (
                "Its attention weights.",
                "They say which source tokens attended to which, and stay in the encoder. The decoder computes its own.",
            ),
            (
                "One vector, the last.",
                "That was the bottleneck of lesson 03. Here the decoder can attend to every source token.",
            ),
            (
                "Its output vectors, one per source token.",
                "Each decoder layer projects them to keys and values with its own matrices.",
            ),
            (
                "The keys and values of its last layer.",
                "Those served the encoder. Each decoder layer has its own key and value projections.",
            ),
        ],
        right=2,
        explanation="The memory, (b, n, dim), and nothing else. The queries come from the target tokens, so the cross-attention weights, "
        "(b, heads, m, n), are computed in the decoder.",
    )
)
register_quiz(
    Quiz(
        id="6.b",
        question="The well-known figure of the Transformer has a box 'Add & Norm' after every sublayer. The model of this lesson is pre-norm. "
        "Where are its norms?",
        options=[
            (
                "Between each sublayer and its residual connection: x + norm(sublayer(x)).",
                "Neither pre-norm nor post-norm does this.",
            ),
            (
                "Before each sublayer, inside the residual branch, and one more after the last layer.",
                "x + sublayer(norm(x)): the residual stream itself is never normalized, so one norm ends the stack.",
            ),
            (
                "After each residual connection: a norm is a norm.",
                "That is the figure, post-norm: norm(x + sublayer(x)).",
            ),
            ("Only once, at the input of the stack.", "Each of the three sublayers of a layer has its own norm."),
        ],
        right=1,
        explanation="Post-norm: after the residual connection. Pre-norm: inside the branch. Papers and libraries differ, so always say which.",
    )
)
register_quiz(
    Quiz(
        id="6.c",
        question="Shorter sources and targets in a batch are padded at the end, and the loss ignores padding. Which masks does the model need?",
        options=[
            (
                "The causal mask in all three attentions.",
                "The whole source is known: no token needs to be masked from earlier ones.",
            ),
            (
                "The causal mask in decoder self-attention; the source padding mask in the encoder and in cross-attention.",
                "Padding at the end of the target is in the future of every real token.",
            ),
            (
                "The source padding mask everywhere.",
                "In decoder self-attention it would reveal the tokens to be predicted.",
            ),
            ("None: training teaches the model what to ignore.", "A model that sees the answer learns to copy it."),
        ],
        right=1,
        explanation="Three attentions, two kinds of mask. What the padding positions compute is never used.",
    )
)
register_quiz(
    Quiz(
        id="6.d",
        question="'Decoding starts with the end token.' Is that so?",
        options=[
            (
                "Yes: the decoder must know where the sentence ends.",
                "It predicts the end token itself. What it starts with is a separate choice.",
            ),
            ("No: it starts with the first source token.", "The source reaches it through cross-attention only."),
            ("No: its first input is empty.", "Without an input token there is no query to attend to the source."),
            (
                "In some systems. Here there is a separate start token.",
                "Any fixed token works, as long as training and generation use the same one.",
            ),
        ],
        right=3,
        explanation="A convention. What matters is that the targets are shifted by one: every token is predicted before it is an input.",
    )
)
register_quiz(
    Quiz(
        id="6.e",
        question="In training, one decoder pass handles all 20 tokens of a target. How many passes does it take to generate 20 tokens?",
        options=[
            (
                "One: attention processes all positions at once.",
                "Token 7 is an input only after it was generated.",
            ),
            (
                "20, one after the other.",
                "Each step takes the token of the previous step as input.",
            ),
            ("One, without the causal mask.", "The mask is not the reason: the tokens do not exist yet."),
            ("20, but all at the same time.", "Step 8 waits for the token of step 7."),
        ],
        right=1,
        explanation="Training is parallel over positions, generation is sequential.",
    )
)
register_quiz(
    Quiz(
        id="6.f",
        question="19 tokens are generated. What must the self-attention of a decoder layer compute in step 20, if everything reusable is cached?",
        options=[
            (
                "Queries, keys and values of all tokens: the new token changes them.",
                "The causal mask hides it from all earlier positions: their vectors stay the same, in every layer.",
            ),
            ("Only the query of the new token.", "Its key and value too: later tokens will attend to it."),
            (
                "Query, key and value of the newest token, which then attends to all cached keys.",
                "One row of scores instead of 20.",
            ),
            (
                "Nothing: the output of step 19 is cached.",
                "That output belongs to the query of token 18; now token 19 has a query of its own.",
            ),
        ],
        right=2,
        explanation="The key-value cache gives the same outputs with less work. Keys and values of the source are computed once and serve every step.",
    )
)
register_quiz(
    Quiz(
        id="6.g",
        question="Beam search of width 4 against greedy decoding, with the same model. What is certain?",
        options=[
            (
                "Beam search finds the most probable sentence of all.",
                "Only exhaustive search does: the prefix of the best sentence may fall out of the beam.",
            ),
            (
                "Its sentence is never less probable than the greedy one.",
                "It can be: better starts can push the greedy prefix out of the beam.",
            ),
            (
                "Its translation is better.",
                "More probable is not better: wide beams prefer short sentences.",
            ),
            (
                "None of these.",
                "It usually finds a more probable sentence. Anything else has to be measured.",
            ),
        ],
        right=3,
        explanation="Many systems add length normalization.",
    )
)

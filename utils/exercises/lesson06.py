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
from utils.models.attention import attention, causal_mask


def ids_are_long(cases):
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
    def case(b, n, vocab_size, d, max_len, start=0, note=""):
        args = integers(generator, vocab_size, b, n), normal(generator, vocab_size, d), normal(generator, max_len, d)
        return Case((*args, start) if start else args, note=note)

    return [
        case(2, 3, 7, 4, 9, note="two sentences"),
        case(3, 5, 11, 6, 8, start=2, note="the first token is at position 2"),
        case(2, 1, 5, 3, 7, start=5, note="one token, at position 5"),
        case(4, 4, 6, 5, 4, note="as many positions as tokens"),
        case(3, 3, 3, 3, 3, note="all sizes equal"),
        case(1, 2, 6, 4, 5, start=3, note="one sentence, up to the last position"),
    ]


SUM = "embedding[token_ids] * d**0.5 + positions[start : start + n]"
ALL_POSITIONS = "All of `positions` was added. Take the rows of this sentence only: `positions[start : start + n]`."
D_POSITIONS = "The slice of `positions` has d rows. It needs one row per token: n = `token_ids.size(1)`."

register(
    Exercise(
        id="6.1",
        cases=vector_cases,
        gradient=True,
        mistakes=[
            mistake(
                " * d**0.5",
                "",
                "The embeddings were not scaled. Multiply `embedding[token_ids]` by the square root of d.",
            ),
            mistake("d**0.5", "d", "The embeddings were multiplied by d. Multiply by the square root of d: `d**0.5`."),
            mistake("* d**0.5", "/ d**0.5", "The embeddings were divided by the square root of d. Multiply by it."),
            mistake(
                "embedding.size(1)",
                "embedding.size(0)",
                "The scale uses the vocabulary size. Use d = `embedding.size(1)`.",
            ),
            mistake(
                SUM,
                "(embedding[token_ids] + positions[start : start + n]) * d**0.5",
                "The positions were scaled as well. Scale the embeddings only.",
            ),
            mistake(
                SUM,
                "(embedding[token_ids] + positions[:n]) * d**0.5",
                "The positions were scaled as well, and `start` has no effect. Scale only the embeddings, then add `positions[start : start + n]`.",
            ),
            mistake(
                SUM,
                "embedding[token_ids] + positions[:n]",
                "The embeddings were not scaled, and `start` has no effect. Multiply by the square root of d and add `positions[start : start + n]`.",
            ),
            mistake(
                SUM,
                "embedding[token_ids] + positions[start : start + n] * d**0.5",
                "The positions were scaled instead of the embeddings. The square root of d belongs to `embedding[token_ids]`.",
            ),
            mistake(
                " + positions[start : start + n]", "", "The positions are missing. Add `positions[start : start + n]`."
            ),
            mistake("0.5 + ", "0.5 * ", "Embeddings and positions were multiplied. Add them."),
            mistake(
                SUM,
                "torch.cat([embedding[token_ids] * d**0.5, positions[start : start + n].expand(len(token_ids), n, d)], -1)",
                "Embeddings and positions were concatenated, which gives dimension 2 d. Add them.",
            ),
            mistake("start : start + n", ":n", "`start` has no effect. Use `positions[start : start + n]`."),
            mistake("start + n", "n", "The slice of `positions` ends too early. It ends at `start + n`."),
            mistake("start : start + n", "start", "All tokens got one position. Token i is at position `start + i`."),
            mistake(
                "start : start + n",
                "token_ids",
                "The positions were looked up by token id. Use `start`, ..., `start + n - 1`.",
            ),
            # The reversed sums name the sizes in the other order when they do not fit.
            mistake("start + n", "start + d", D_POSITIONS),
            mistake(SUM, "positions[start : start + d] + embedding[token_ids] * d**0.5", D_POSITIONS),
            mistake("[start : start + n]", "", ALL_POSITIONS),
            mistake(SUM, "positions + embedding[token_ids] * d**0.5", ALL_POSITIONS),
            mistake("start + n]", "]", ALL_POSITIONS),
            mistake(
                "start : start + n", "start + 1 : start + 1 + n", "The positions are off by one. Begin at `start`."
            ),
        ],
        hints=[
            "`embedding[token_ids]` looks up one embedding per token: (b, n, d), with d = `embedding.size(1)`.",
            "Multiply the embeddings by the square root of d. The positions are added as they are.",
            "`positions[start : start + n]` is (n, d); the sum broadcasts it over the batch.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.2 cross-attention
def cross_cases(generator):
    def case(b, m, n, d, d_k, mask=None, note=""):
        projections = (normal(generator, d, d_k) for _ in range(3))
        args = normal(generator, b, m, d), normal(generator, b, n, d), *projections
        return Case(args if mask is None else (*args, mask), note=note)

    return [
        case(2, 3, 5, 4, 6, note="no mask"),
        case(2, 4, 5, 3, 2, length_mask((3, 5), 5), note="padding after a sentence"),
        case(3, 2, 4, 5, 3, length_mask((4, 0, 2), 4), note="a source that is all padding"),
        case(3, 3, 4, 2, 5, length_mask((2, 4, 3), 4), note="as many target tokens as sentences"),
        case(2, 4, 4, 3, 3, length_mask((4, 2), 4), note="as many target as source tokens"),
        case(4, 1, 3, 2, 4, length_mask((1, 3, 2, 3), 3), note="one target token"),
        case(1, 3, 4, 2, 3, length_mask((3,), 4), note="one sentence"),
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
    """A module of the library, built once: many models of mistakes are tried on every answer."""
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


def run_decoder_layer(answer, seed, num_heads, hidden_dim, x, memory, mask=None, memory_mask=None):
    """Build the layer and call it, without masks where there are none."""
    sizes = x.size(-1), num_heads, hidden_dim
    layer = with_parameters(answer, solved.DecoderLayer, "DecoderLayer", sizes, seed, "`forward` is yours").to(x.dtype)
    return layer(x, memory) if mask is None and memory_mask is None else layer(x, memory, mask, memory_mask)


def layer_cases(generator):
    def case(b, m, n, num_heads, d_k, hidden_dim, mask=None, lengths=None, note=""):
        seed, dim = int(integers(generator, 10_000)), num_heads * d_k
        x, memory = 0.5 + 2 * normal(generator, b, m, dim), 1.5 * normal(generator, b, n, dim) - 0.5
        memory_mask = None if lengths is None else length_mask(lengths, n).unsqueeze(1)
        return Case((seed, num_heads, hidden_dim, x, memory, mask, memory_mask), note=note)

    return [
        case(2, 4, 5, 3, 2, 7, note="no masks"),
        case(3, 4, 5, 2, 3, 8, causal_mask(4), (3, 5, 2), note="a causal mask, and padding in the source"),
        case(3, 4, 4, 2, 3, 5, causal_mask(4), (4, 1, 2), note="as many target as source tokens"),
        case(4, 3, 5, 2, 3, 7, causal_mask(3), note="a causal mask only"),
        case(2, 5, 4, 3, 2, 7, lengths=(2, 0), note="a source that is all padding"),
        case(4, 1, 3, 2, 3, 5, causal_mask(1), (3, 2, 1, 3), note="one target token"),
        case(3, 4, 5, 2, 3, 8, causal_mask(4) & length_mask((4, 2, 3), 4).unsqueeze(1), note="a mask per sequence"),
    ]


def no_influence_from_later_tokens(answer, generator):
    """By gradient: with a causal mask a position does not depend on later ones."""
    seed, num_heads, hidden_dim, x, memory, mask, memory_mask = layer_cases(generator)[1].args
    x = x.clone().requires_grad_()
    output, _, _ = answer(seed, num_heads, hidden_dim, x, memory, mask, memory_mask)
    (gradient,) = torch.autograd.grad(output[:, 1].sum(), x)
    if gradient[:, 2:].abs().max() > 0:
        raise Wrong(
            "With a causal mask, later tokens still influence position 1. Pass `mask` to `self.self_attn`; nothing else may mix positions."
        )


# The solution's parts in another order, or with the norms elsewhere
SELF = "context, self_weights = self.self_attn(self.norm1(x), mask=mask, need_weights=True)\nx = x + context\n"
CROSS = (
    "context, cross_weights = self.cross_attn(self.norm2(x), memory, memory_mask, need_weights=True)\nx = x + context\n"
)
FEED = "x = x + self.feed_forward(self.norm3(x))\n"
AFTER_SELF, AFTER_CROSS = "x = x + context\nnormed", "x = x + context\nreturn"
FEED_INPUT = "self.norm3(x)"
LAST = f"x + self.feed_forward({FEED_INPUT})"


def normed(*parts):
    """Inputs and residual connections of the three sublayers; n1, n2, n3 are their norms, ff is the feed-forward network."""
    code = (
        "context, self_weights = self.self_attn({}, mask=mask, need_weights=True)\nx = {}\n"
        "context, cross_weights = self.cross_attn({}, memory, memory_mask, need_weights=True)\nx = {}\nreturn {}, self_weights, cross_weights"
    ).format(*parts)
    names = {"n1": "norm1", "n2": "norm2", "n3": "norm3", "ff": "feed_forward"}
    for short, name in names.items():
        code = code.replace(f"{short}(", f"self.{name}(")
    return code


GIVEN_THE_MEMORY = (
    "`self.self_attn` got the memory. The target attends to itself there: pass `mask=mask` and no second input."
)
MASK_AS_KEYS = "`self.self_attn` got the mask as its second argument, `memory`. Pass it by name: `mask=mask`."
LIKE_TORCH = "Attention was called with query, key, value and mask, as in `nn.MultiheadAttention`. Here it takes `(x, memory, mask)`."
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
            mistake("normed, memory,", "normed, None,", "`self.cross_attn` got no memory. It is the second argument."),
            mistake(
                "normed, memory, memory_mask",
                "normed",
                "`self.cross_attn` got neither the memory nor its mask. Pass `memory, memory_mask` after the queries.",
            ),
            mistake(
                "normed, memory,",
                "memory, normed,",
                "Cross-attention took its queries from `memory`. Take them from x.",
            ),
            mistake("mask=mask", "memory, mask", GIVEN_THE_MEMORY),
            mistake("mask=mask", "memory, memory_mask", GIVEN_THE_MEMORY),
            mistake(
                "mask=mask",
                "x, mask",
                "The keys and values of self-attention are not normalized. Leave `memory` out.",
            ),
            mistake(
                "context, self_weights",
                "context = self_weights",
                "Attention returns output and weights. Unpack them: `context, self_weights = ...`.",
            ),
            mistake("mask=mask", "mask", MASK_AS_KEYS),
            mistake("mask=mask, need_weights=True", "mask", MASK_AS_KEYS),
            mistake("mask=mask, need_weights=True", "mask, True", MASK_AS_KEYS),
            mistake(
                [("mask=mask, need_weights=True", "mask"), ("memory_mask, need_weights=True", "memory_mask")],
                MASK_AS_KEYS,
            ),
            *[
                mistake("self.norm1(x), mask=mask, need_weights=True", f"*[self.norm1(x)] * 3, {mask}", LIKE_TORCH)
                for mask in ("mask", "mask, need_weights=True", "mask=mask")
            ],
            *[
                mistake("memory, memory_mask, need_weights=True", f"memory, memory, {mask}", LIKE_TORCH)
                for mask in ("memory_mask", "memory_mask, need_weights=True", "mask=memory_mask")
            ],
            mistake(
                "self.cross_attn(",
                "self.self_attn(",
                "Cross-attention used the parameters of `self.self_attn`. It has its own: `self.cross_attn`.",
            ),
            mistake(
                "self.self_attn(",
                "self.cross_attn(",
                "Self-attention used the parameters of `self.cross_attn`. It has its own: `self.self_attn`.",
            ),
            mistake(
                "normed, memory,",
                "normed, self.norm2(memory),",
                "The memory was normalized as well. `self.norm2` is for x; the encoder has normalized its output already.",
            ),
            # Masks
            mistake("mask=mask, ", "", "The causal mask has no effect. Pass `mask=mask` to `self.self_attn`."),
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
            mistake("memory, memory_mask", "memory", "`memory_mask` has no effect. Pass it to `self.cross_attn`."),
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
            mistake(AFTER_SELF, "x = context\nnormed", "Self-attention has no residual connection: `x = x + context`."),
            mistake(
                AFTER_CROSS, "x = context\nreturn", "Cross-attention has no residual connection: `x = x + context`."
            ),
            mistake(
                "return x + ", "return ", "The feed-forward network has no residual connection. Add its output to x."
            ),
            mistake(
                [(AFTER_SELF, "x = context\nnormed"), (AFTER_CROSS, "x = context\nreturn"), ("return x + ", "return ")],
                "There are no residual connections. Add the output of each sublayer to its input.",
            ),
            mistake(
                BODY,
                normed("x", "n1(x + context)", "x", "n2(x + context)", "n3(x + ff(x))"),
                "This is post-norm: it normalizes after each residual connection. Use pre-norm, `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("n1(x)", "n1(x + context)", "n2(x)", "n2(x + context)", "n3(x + ff(n3(x)))"),
                "Each norm was applied twice, before its sublayer and after the residual connection. Pre-norm has only the first: `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("n1(x)", "n1(x + context)", "x", "n2(x + context)", "n3(x + ff(x))"),
                "Self-attention has its norm before and after, the other two sublayers only after. Pre-norm has none after: `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("n1(x)", "x + context", "x", "n2(x + context)", "n3(x + ff(x))"),
                "Self-attention is pre-norm, the other two sublayers are post-norm. Make all three pre-norm: `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("n1(x)", "x + context", "x", "n2(x + context)", "x + ff(n3(x))"),
                "Cross-attention is post-norm, the other two sublayers are pre-norm. Make all three pre-norm: `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("x", "x + n1(context)", "x", "x + n2(context)", "x + n3(ff(x))"),
                "The output of each sublayer was normalized. Normalize its input: `x + sublayer(norm(x))`.",
            ),
            mistake(
                BODY,
                normed("n1(x)", "n1(x) + context", "n2(x)", "n2(x) + context", "n3(x) + ff(n3(x))"),
                "The residual connections start from the normalized x. Normalize only the input of each sublayer and add its output to x itself.",
            ),
            mistake(
                [("self.norm1(x)", "x"), ("self.norm2(x)", "x"), (FEED_INPUT, "x")],
                "There is no layer normalization. Each of the three sublayers normalizes its input with its own norm.",
            ),
            mistake("self.norm1(x)", "x", "The input of self-attention is not normalized. Use `self.norm1(x)`."),
            mistake("self.norm2(x)", "x", "The input of cross-attention is not normalized. Use `self.norm2(x)`."),
            mistake(FEED_INPUT, "x", "The input of the feed-forward network is not normalized. Use `norm3`."),
            mistake(
                [("self.norm2(x)", "self.norm1(x)"), (FEED_INPUT, "self.norm1(x)")],
                "`self.norm1` was used for all three sublayers. Each has its own norm.",
            ),
            mistake("self.norm2(x)", "self.norm1(x)", "Cross-attention has its own norm, `self.norm2`."),
            mistake(FEED_INPUT, "self.norm2(x)", "The feed-forward network has its own norm, `self.norm3`."),
            mistake(
                LAST,
                f"self.norm3({LAST})",
                "The output of the layer was normalized. A pre-norm layer ends with a residual connection; the stack has one final norm.",
            ),
            # Order of the sublayers
            mistake(
                BODY,
                CROSS + SELF + FEED + "return x, self_weights, cross_weights",
                "Cross-attention came first. Self-attention does.",
            ),
            mistake(
                BODY,
                SELF + FEED + CROSS + "return x, self_weights, cross_weights",
                "The feed-forward network came second. Move it last.",
            ),
            mistake(
                [(AFTER_SELF, "y = x + context\nnormed"), (f"{AFTER_CROSS} x", "return y + context")],
                "All three sublayers took the original x as input. Each takes the output of the one before it.",
            ),
            mistake(
                f"{AFTER_SELF} = self.norm2(x)",
                "normed = self.norm2(x)\nx = x + context",
                "The queries of cross-attention come from the original x. Take the x after self-attention.",
            ),
            mistake(
                f"{AFTER_SELF} = self.norm2(x)",
                "normed = self.norm2(x + context)",
                "The output of self-attention is lost: cross-attention was added to the original x. Add it to the x after self-attention.",
            ),
            mistake(
                [("context, self_weights", "first = x\ncontext, self_weights"), ("return x", "return first")],
                "The outputs of both attention layers are lost: the feed-forward output was added to the original x. Add it to the x after cross-attention.",
            ),
            mistake(LAST, "x", "The feed-forward network is missing. It is the third sublayer."),
            mistake(
                BODY,
                SELF + FEED + "return x, self_weights, None",
                "Cross-attention is missing. It is the second sublayer.",
            ),
            # Results
            mistake(
                ", self_weights, cross_weights",
                "",
                "Only x was returned. Return x and the weights of both attention layers.",
            ),
            mistake(
                ", self_weights, cross_weights",
                ", cross_weights",
                "The self-attention weights are missing. Return three results.",
            ),
            mistake(
                ", self_weights, cross_weights",
                ", cross_weights, self_weights",
                "The attention weights are swapped. Self-attention comes first.",
            ),
            mistake(
                ", self_weights, cross_weights",
                ", self_weights.mean(1), cross_weights.mean(1)",
                "The attention weights were averaged over the heads. Keep the head axis: (b, num_heads, m, m) and (b, num_heads, m, n).",
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
            "`context, self_weights = self.self_attn(self.norm1(x), mask=mask, need_weights=True)`, then `x = x + context`.",
            "`self.cross_attn(self.norm2(x), memory, memory_mask, need_weights=True)`: queries from the target, keys and values from the memory. "
            "Then the feed-forward network. Return x and both weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.4 encode and decode
YOURS = "`encode` and `decode` are yours"


def run_transformer(
    answer,
    seed,
    source_vocab_size,
    target_vocab_size,
    dim,
    num_heads,
    hidden_dim,
    num_layers,
    source,
    source_mask,
    target,
):
    """Build the model, encode, decode: memory and logits. The memory at padding is never used: 0 here."""
    sizes = source_vocab_size, target_vocab_size, dim, num_heads, hidden_dim, num_layers
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
    def case(
        m, n, lengths, note="", source_vocab_size=9, target_vocab_size=7, dim=6, num_heads=3, hidden_dim=8, num_layers=1
    ):
        b, seed = len(lengths), int(integers(generator, 10_000))
        source, mask = integers(generator, source_vocab_size, b, n), length_mask(lengths, n)
        target = integers(
            generator, target_vocab_size, b, m, low=1
        )  # 0 is padding, which an answer may mask in the target too
        return Case(
            (seed, source_vocab_size, target_vocab_size, dim, num_heads, hidden_dim, num_layers, source, mask, target),
            note=note,
        )

    return [
        case(4, 5, (3, 5, 4), note="padding after two sources", num_layers=2),
        case(3, 3, (2, 3, 1), note="as many target as source tokens", dim=4, num_heads=2),
        case(3, 4, (4, 4), note="no padding"),
        case(1, 3, (2, 3, 3), note="one target token", source_vocab_size=5, target_vocab_size=11),
        case(5, 2, (2,), note="one sentence", dim=8, num_heads=2, hidden_dim=5),
    ]


def later_tokens_are_masked(answer, generator):
    args = transformer_cases(generator)[0].args
    target, vocab_size = args[-1], args[2]
    _, before = answer(*args)
    _, after = answer(*args[:-1], torch.cat([target[:, :-1], target[:, -1:] % (vocab_size - 1) + 1], 1))
    if not torch.allclose(before[:, :-1], after[:, :-1], atol=1e-4):
        raise Wrong(
            "The last target token changes the logits at earlier positions. Pass `causal_mask(m)` to `self.decoder`."
        )


def padding_is_masked(answer, generator):
    args = transformer_cases(generator)[0].args
    source, mask, vocab_size = args[-3], args[-2], args[1]
    memory, before = answer(*args)
    changed, after = answer(*args[:-3], torch.where(mask, source, (source + 1) % vocab_size), *args[-2:])
    if not torch.allclose(memory[mask], changed[mask], atol=1e-4):
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
SHIFTED = "`decode` shifted the target. `target` starts with BOS already: use all of it, unchanged."
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
            mistake("self.target_embedding(target)", "self.target_embedding(target[:, :-1])", DROPPED),
            mistake("x, mask =", "target = target[:, 1:]\nx, mask =", DROPPED),
            *[
                mistake("x, mask =", f"target = {shifted}\nx, mask =", SHIFTED)
                for start in (0, 1)
                for shifted in (
                    f"nn.functional.pad(target, (1, 0), value={start})",
                    f"nn.functional.pad(target, (1, -1), value={start})",
                )
            ],
            mistake("self.target_embedding(target)", "self.target_embedding(target.roll(1, 1))", SHIFTED),
            # Results
            mistake(
                f"self.lm_head(self.decoder(x, memory, mask, {DECODER_MASK}",
                "self.decoder(x, memory, mask, source_mask.unsqueeze(1))",
                "`decode` returned hidden states. Apply `self.lm_head` to get logits over the target vocabulary.",
            ),
            mistake(DECODER_MASK, f"{DECODER_MASK}.softmax(-1)", "`decode` returned probabilities. Return logits."),
            mistake(
                DECODER_MASK, f"{DECODER_MASK}.log_softmax(-1)", "`decode` returned log-probabilities. Return logits."
            ),
            mistake(DECODER_MASK, f"{DECODER_MASK}[:, -1]", "`decode` returned the last position only. Return all m."),
            # Embeddings
            mistake(
                "self.target_embedding",
                "self.source_embedding",
                "`decode` used the source embeddings. Use `self.target_embedding`.",
            ),
            mistake(
                "self.source_embedding",
                "self.target_embedding",
                "`encode` used the target embeddings. Use `self.source_embedding`.",
            ),
            mistake(
                "self.source_embedding(",
                "self.source_embedding.token_embedding(",
                "`encode` used the embedding matrix without scale and positions. Call `self.source_embedding(source)`.",
            ),
            mistake(
                "self.target_embedding(",
                "self.target_embedding.token_embedding(",
                "`decode` used the embedding matrix without scale and positions. Call `self.target_embedding(target)`.",
            ),
            mistake(
                [
                    ("self.source_embedding(", "self.source_embedding.token_embedding("),
                    ("self.target_embedding(", "self.target_embedding.token_embedding("),
                ],
                "The embedding matrices were used without scale and positions. Call `self.source_embedding(source)` and `self.target_embedding(target)`.",
            ),
            # What goes through the two stacks
            mistake(
                ENCODER_MASK,
                ENCODER_MASK.removesuffix("[0]"),
                "`encode` returned a tuple of 2. `self.encoder` returns output and weights; the memory is the output alone.",
            ),
            mistake(
                f"self.encoder(self.source_embedding(source), {ENCODER_MASK}",
                "self.source_embedding(source)",
                "`encode` returned the embeddings. Pass them through `self.encoder`.",
            ),
            mistake("x, memory, mask", "x, x, mask", "The decoder got its own input as memory. Pass `memory`."),
        ],
        hints=[
            "`encode`: embeddings, then `self.encoder`, which returns output and weights. Its mask is over the keys: `source_mask.unsqueeze(1)`.",
            "`decode`: embeddings, then `self.decoder(x, memory, mask, memory_mask)`, then `self.lm_head`.",
            "`mask` is `causal_mask(m)` with m = `target.size(1)`; `memory_mask` is the source mask, again as (b, 1, n).",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.5 shifted targets
def run_shifted(answer, sequences, bos_id, eos_id, **options):
    """Call it, and see that the lists are unchanged: the usual message about changed inputs speaks of tensors."""
    before = [list(token_ids) for token_ids in sequences]
    try:
        inspect.signature(answer).bind(sequences, bos_id, eos_id, **options)
    except TypeError as error:
        raise Wrong(
            f"It must accept the arguments (sequences, bos_id, eos_id, pad_id=0): {error}. Restore the first line."
        ) from None
    result = answer(sequences, bos_id, eos_id, **options)
    if before != sequences:
        raise Wrong(
            "The input lists were changed: `append`, `insert` and `+=` work in place. Make new lists, `[bos_id, *token_ids]` and `[*token_ids, eos_id]`."
        )
    return result


def shift_cases(generator):
    def case(lengths, bos_id=1, eos_id=2, pad_id=None, note=""):
        lowest = max(bos_id, eos_id, pad_id or 0) + 1
        sequences = [integers(generator, 30, length, low=lowest).tolist() for length in lengths]
        kwargs = {} if pad_id is None else {"pad_id": pad_id}
        return Case((sequences, bos_id, eos_id), kwargs, note=note)

    return [
        case((2, 4, 3), note="three sequences"),
        case((5, 1), note="a sentence of one token"),
        case((3, 3), note="equal lengths"),
        case((2, 5, 1, 3), bos_id=7, eos_id=4, pad_id=9, note="other special ids"),
        case((0, 3, 2), note="an empty sentence"),
        case((4,), note="one sentence"),
    ]


def padded_by(code):
    """Edits that pad both lists by other code, in which `rows` stands for a list."""
    call = "pad_sequence(rows, batch_first=True, padding_value=pad_id)"
    return [(call.replace("rows", rows), code.replace("rows", rows)) for rows in ("inputs", "outputs")]


INPUT, OUTPUT = "[bos_id, *token_ids]", "[*token_ids, eos_id]"
IDS = "token_ids, dtype=torch.long"  # an empty list would become float
END_AS_INPUT = "Shorter rows of `target_in` contain the EOS token, which is never an input. Build `[bos_id, *token_ids]` first, then pad."
RAGGED = "`torch.tensor` needs lists of equal length. Add the tokens and pad first, or give `pad_sequence` one tensor per sentence."
NOT_SHIFTED = "`target_in` and `target_out` are equal, so each position predicts its own input. Use `[bos_id, *token_ids]` and `[*token_ids, eos_id]`."

register(
    Exercise(
        id="6.5",
        cases=shift_cases,
        call=run_shifted,
        output_names=("target_in", "target_out"),
        properties=[ids_are_long(shift_cases)],
        mistakes=[
            mistake([(INPUT, "[bos_id, *token_ids, eos_id]"), (OUTPUT, "[bos_id, *token_ids, eos_id]")], NOT_SHIFTED),
            mistake([(INPUT, IDS), (OUTPUT, IDS)], NOT_SHIFTED),
            mistake(INPUT, IDS, "`target_in` lacks the BOS token, the input for predicting the first token."),
            mistake(
                INPUT, "[eos_id, *token_ids]", "`target_in` begins with the EOS token. Use `[bos_id, *token_ids]`."
            ),
            mistake(OUTPUT, IDS, "`target_out` lacks the EOS token. Without it the model never learns to stop."),
            mistake(OUTPUT, "[*token_ids, pad_id]", "`target_out` ends with padding. Use `[*token_ids, eos_id]`."),
            mistake(
                [(INPUT, "[bos_id, *token_ids[:-1]]"), (OUTPUT, IDS)],
                "The targets are shifted, but `target_out` lacks the EOS token. Append `eos_id`: `[*token_ids, eos_id]`.",
            ),
            mistake(
                INPUT,
                "[bos_id, *token_ids, eos_id]",
                "`target_in` has the EOS token as well. Use `[bos_id, *token_ids]`.",
            ),
            mistake(
                OUTPUT,
                "[bos_id, *token_ids, eos_id]",
                "`target_out` has the BOS token as well. Use `[*token_ids, eos_id]`.",
            ),
            mistake(
                BODY,
                "both = pad_sequence([torch.tensor([bos_id, *token_ids, eos_id]) for token_ids in sequences], True, pad_id)\n"
                "return both[:, :-1], both[:, 1:]",
                END_AS_INPUT,
            ),
            mistake(
                BODY,
                "token_ids = pad_sequence([torch.tensor(token_ids).long() for token_ids in sequences], True, pad_id)\n"
                "column = torch.ones_like(token_ids[:, :1])\n"
                "return torch.cat([bos_id * column, token_ids], 1), torch.cat([token_ids, eos_id * column], 1)",
                "The EOS token comes after the padding. It follows the last token: append it before padding.",
            ),
            mistake(
                "return target_in, pad_sequence(outputs, batch_first=True, padding_value=pad_id)",
                "return pad_sequence(outputs, batch_first=True, padding_value=pad_id), target_in",
                "The results are swapped. Return `target_in` first, then `target_out`.",
            ),
            mistake(
                OUTPUT,
                "[eos_id, *token_ids]",
                "`target_out` begins with the EOS token. It comes last: `[*token_ids, eos_id]`.",
            ),
            mistake(
                padded_by("pad_sequence(rows, batch_first=True, padding_value=pad_id, padding_side='left')"),
                "The padding is on the left. Pad on the right, so that position i is column i in every row.",
            ),
            mistake(padded_by("pad_sequence(rows, batch_first=True)"), "The padding is always 0. Use `pad_id`."),
            mistake(
                padded_by("pad_sequence(rows, padding_value=pad_id)"),
                "The position axis comes first. Pass `batch_first=True` to get (b, m).",
            ),
            mistake(
                [(INPUT, "[1, *token_ids]"), (OUTPUT, "[*token_ids, 2]")],
                "The ids of BOS and EOS are fixed in the code. Use the arguments `bos_id` and `eos_id`.",
            ),
            mistake(padded_by("[row.tolist() for row in rows]"), "The results are lists. Pad each to a tensor (b, m)."),
            mistake(padded_by("torch.tensor([row.tolist() for row in rows])"), RAGGED),
            mistake(
                BODY,
                "token_ids, column = torch.tensor(sequences), torch.ones(len(sequences), 1, dtype=torch.long)\n"
                "return torch.cat([bos_id * column, token_ids], 1), torch.cat([token_ids, eos_id * column], 1)",
                RAGGED,
            ),
        ],
        hints=[
            "The input at each position is the previous token: `[bos_id, *token_ids]`. The target there is the next: `[*token_ids, eos_id]`.",
            "Both are one longer than the sentence. Add the special tokens before padding.",
            "`pad_sequence` takes a list of tensors, `batch_first=True` and `padding_value=pad_id`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.6 label smoothing
def smooth_cases(generator):
    def case(lengths, m, vocab_size, smoothing, pad_id=None, note=""):
        targets, padding_id = integers(generator, vocab_size - 1, len(lengths), m), pad_id or 0
        targets = targets + (targets >= padding_id)  # no token has the id of padding
        targets = targets.masked_fill(~length_mask(lengths, m), padding_id)
        kwargs = {} if pad_id is None else {"pad_id": pad_id}
        return Case((2 * normal(generator, len(lengths), m, vocab_size), targets, smoothing), kwargs, note=note)

    large = case((2, 4), 4, 5, 0.2, note="large logits")
    logits, targets, _ = large.args
    logits[0, 1, targets[0, 1]] = -150.0  # so improbable that its probability is 0 in float32
    positive = case((3, 2), 4, 6, 0.1, note="all logits above 0")
    positive.args[0].abs_()  # where even their own logarithm is a number
    return [
        case((3, 5), 5, 6, 0.1, note="a padded sequence"),
        case((4, 2, 6), 6, 4, 0.3, pad_id=2, note="padding has the id 2"),
        case((4, 4), 4, 7, 0.2, note="no padding"),
        case((1, 3, 2), 3, 5, 0.0, note="no smoothing"),
        case((2, 4, 1, 3), 4, 4, 0.5, note="all sizes equal"),
        case((4,), 5, 6, 0.2, note="one sequence"),
        large,
        positive,
    ]


PER_SEQUENCE = "torch.stack([row[real].mean() for row, real in zip(losses, targets != pad_id)]).mean()"
ENTROPY = "q = torch.full((logits.size(-1),), smoothing / logits.size(-1))\nq[0] += 1 - smoothing\nreturn "

register(
    Exercise(
        id="6.6",
        cases=smooth_cases,
        gradient=True,
        mistakes=[
            *replacing(
                "losses[targets != pad_id].mean()",
                {
                    "losses.mean()": "Padding counted as a target. Average the losses only where `targets != pad_id`.",
                    "(losses * (targets != pad_id)).mean()": "The sum was divided by all positions, padding included. Divide by the number of real targets.",
                    "losses[targets != 0].mean()": "Targets with id 0 were ignored, whatever `pad_id` is. Compare with the argument: `targets != pad_id`.",
                    PER_SEQUENCE: "Each sequence was averaged first, so tokens of short sequences count more. Take one mean over all real targets.",
                    "losses[targets != pad_id].sum()": "The losses were summed. Take their mean, so that the loss does not grow with the batch.",
                    "losses[targets != pad_id].sum() / len(targets)": "The sum was divided by the number of sequences. Divide by the number of real targets.",
                    "losses * (targets != pad_id)": "One loss per position came back. Return a scalar, the mean over all real targets.",
                    "losses[targets != pad_id]": "One loss per real target came back. Return a scalar, their mean.",
                },
            ),
            *replacing(
                "-(1 - smoothing) * target_log_probs - smoothing * log_probs.mean(-1)",
                {
                    "-target_log_probs": "`smoothing` has no effect. The target gets 1 - smoothing, and all V tokens get `smoothing / V` each.",
                    "-target_log_probs - smoothing * log_probs.mean(-1)": "The target probabilities sum to 1 + smoothing. Weight the target's log-probability by 1 - smoothing.",
                    "-(1 - smoothing) * target_log_probs": "The smoothing term is missing. Subtract smoothing times the mean log-probability of all V tokens.",
                    "-smoothing * target_log_probs - (1 - smoothing) * log_probs.mean(-1)": "The two weights are swapped. The target gets 1 - smoothing, the mean over all tokens gets smoothing.",
                    "(1 - smoothing) * target_log_probs + smoothing * log_probs.mean(-1)": "The sign is wrong: this is the mean log-probability. The loss is its negative, never below 0.",
                    "-((1 - smoothing) * target_log_probs.exp() + smoothing / log_probs.size(-1)).log()": "The model's probabilities were smoothed. Smooth the target distribution and average the log-probabilities with it.",
                },
            ),
            *replacing(
                "log_probs.mean(-1)",
                {
                    "log_probs.mean()": "The smoothing term was averaged over padding too. Restrict both terms to `targets != pad_id`.",
                    "log_probs.sum(-1)": "Every token got all of `smoothing`. Each gets `smoothing / V`: take the mean of the log-probabilities.",
                    "(log_probs.sum(-1) - target_log_probs) / log_probs.size(-1)": "The target probabilities sum to 1 - smoothing / V. The target gets `smoothing / V` in addition to 1 - smoothing.",
                    "(log_probs.sum(-1) - target_log_probs) / (log_probs.size(-1) - 1)": "The smoothing was spread over the other tokens only. Spread it over all V tokens, the target included.",
                    "(log_probs.sum(-1) - log_probs[..., pad_id]) / (log_probs.size(-1) - 1)": "The padding token got no part of the smoothing. Spread it over all V tokens, as PyTorch does.",
                    "(log_probs.sum(-1) - target_log_probs - log_probs[..., pad_id]) / (log_probs.size(-1) - 2)": "Target and padding got no part of the smoothing. Spread it over all V tokens, as PyTorch does.",
                },
            ),
            mistake(
                [("return ", ENTROPY), (".mean()", ".mean() + torch.xlogy(q, q).sum()")],
                "This is the KL divergence, without the entropy of the targets. Return the cross-entropy.",
            ),
            *replacing(
                "log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)",
                {
                    "log_probs[:, :, targets]": "`[:, :, targets]` has shape (b, m, b, m): all targets at every position. Use `gather` to take one per position.",
                    "log_probs[targets]": "`[targets]` indexes axis 0, the batch. Index the vocabulary, the last axis: `log_probs.gather(-1, ...)`.",
                    "log_probs.gather(-1, targets)": "`gather` needs an index with as many axes as its input: `targets.unsqueeze(-1)`.",
                    "log_probs.gather(-1, targets.unsqueeze(-1))": "The last axis, of length 1, stayed. Remove it: `.squeeze(-1)`.",
                    "log_probs[:, targets]": "`[:, targets]` indexes axis 1, the positions. Index the vocabulary, the last axis: `log_probs.gather(-1, ...)`.",
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
            "`losses[targets != pad_id].mean()`. (`F.cross_entropy` with `label_smoothing` and `ignore_index` gives the same.)",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.7 warm-up schedule
def rate_cases(generator):
    def cases(dim, warmup_steps, *steps):
        return [Case((step, dim, warmup_steps)) for step in steps]

    warmup_steps = int(integers(generator, 900, low=300))
    return [
        *cases(128, 400, 1, 100, 400, 401, 1600, 100_000),
        *cases(
            int(integers(generator, 600, low=64)), warmup_steps, 3, warmup_steps // 2, warmup_steps, 3 * warmup_steps
        ),
        *cases(int(integers(generator, 9, low=4)), 1, 1, 5),
    ]


def peaks_at_the_end_of_the_warmup(answer, generator):
    rates = [answer(step, 128, 50) for step in range(1, 200)]
    if max(range(199), key=rates.__getitem__) != 49:
        raise Wrong(
            "The learning rate does not peak at step `warmup_steps`. There `step**-0.5` and `step * warmup_steps**-1.5` must be equal."
        )


INVERSE = "It decays as 1 / step. It must decay with the inverse square root, `step**-0.5`."
ONE_TERM = "Only one term has the factor `dim**-0.5`. Put it in front of `min`."
RISES_TO_1 = "The warm-up term is step / warmup_steps, which rises to 1. Use `step * warmup_steps**-1.5`, which meets `step**-0.5`."

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
                "dim**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)",
                {
                    "min(dim**-0.5 * step**-0.5, step * warmup_steps**-1.5)": ONE_TERM,
                    "min(step**-0.5, dim**-0.5 * step * warmup_steps**-1.5)": ONE_TERM,
                },
            ),
            *replacing(
                "min(step**-0.5, step * warmup_steps**-1.5)",
                {
                    "max(step**-0.5, step * warmup_steps**-1.5)": "The larger of the two terms was taken. Take the smaller one, `min`.",
                    "(step**-0.5 + step * warmup_steps**-1.5)": "The two terms were added. Take the smaller one, `min`.",
                    "step**-0.5": "There is no warm-up: the first step has the largest rate. Use `step * warmup_steps**-1.5` where that is smaller.",
                    "step * warmup_steps**-1.5": "The rate rises forever. After the warm-up use `step**-0.5`, which is smaller: `min` takes it.",
                    "min(1 / step, step * warmup_steps**-1.5)": INVERSE,
                    "min(1 / step, step * warmup_steps**-2)": INVERSE,
                    "min(step**-0.5, step / warmup_steps)": RISES_TO_1,
                    "(step / warmup_steps if step < warmup_steps else step**-0.5)": RISES_TO_1,
                    "(step / warmup_steps if step <= warmup_steps else step**-0.5)": RISES_TO_1,
                    "min((step + 1)**-0.5, (step + 1) * warmup_steps**-1.5)": "1 was added to the step. Steps already count from 1.",
                },
            ),
            *replacing(
                "step**-0.5",
                {
                    "warmup_steps**-0.5": "The rate stays constant after the warm-up. It must decay with `step**-0.5`.",
                    "step**0.5": "The exponent of step lost its sign. `step**-0.5` decays.",
                },
            ),
            *replacing(
                "step * warmup_steps**-1.5",
                {
                    "step * warmup_steps**-0.5": "The exponent of warmup_steps is wrong. With -1.5 the two terms are equal at step `warmup_steps`.",
                    "(step * warmup_steps) ** -1.5": "The power was taken of step · warmup_steps, which decays. Only warmup_steps has it: `step * warmup_steps**-1.5`.",
                    "(step / warmup_steps) ** -1.5": "The power was taken of step / warmup_steps, which decays. Only warmup_steps has it: `step * warmup_steps**-1.5`.",
                    "warmup_steps**-1.5": "The warm-up term does not rise. Multiply it by the step: `step * warmup_steps**-1.5`.",
                },
            ),
        ],
        hints=[
            "x to the power -0.5 is `x**-0.5`.",
            "One term decays, `step**-0.5`, one rises, `step * warmup_steps**-1.5`. The smaller one counts: `min`.",
            "Multiply by `dim**-0.5`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.8 greedy decoding
class PlannedModel:
    """A model with `encode` and `decode` that predicts what is planned, and tells who calls it in a wrong way.

    The first token of a source is the number of its sequence, plus 4. A prediction depends on all tokens so far.
    """

    def __init__(self, generator, lengths, vocab_size, bos_id, eos_id, max_len, lowest=1):
        b, longest = len(lengths), max(*lengths, max_len) + 2
        self.lengths, self.bos_id, self.eos_id, self.max_len = torch.tensor(lengths), bos_id, eos_id, max_len
        self.others = torch.tensor([token for token in range(lowest, vocab_size) if token not in (bos_id, eos_id)])
        self.factors = integers(generator, 97, longest, low=1)
        self.noise = normal(generator, b, longest, vocab_size)
        self.encoded, self.calls, self.most = 0, 0, 2 * b * longest + 10

    def __repr__(self):
        return f"a model that ends after {', '.join(map(str, self.lengths.tolist()))} tokens"

    def eval(self):
        return self

    def __call__(self, *args, **kwargs):
        raise Wrong(
            "The model itself was called. Call `model.encode` once and `model.decode(token_ids, memory, source_mask)` in the loop."
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
        planned = planned.masked_fill(position == self.lengths[sequence].unsqueeze(1) - 1, self.eos_id).unsqueeze(2)
        noise = self.noise[sequence][:, :m]
        # The largest logit by a little only: who samples gets other tokens. All are below 0.
        return noise.scatter(2, planned, noise.amax(2, keepdim=True) + 0.5) - 9.0

    def _expect_tokens(self, target):
        self.calls += 1
        if not isinstance(target, torch.Tensor) or target.dim() != 2 or target.is_floating_point():
            raise Wrong(
                f"`decode` got {a_thing(target)} as tokens. Pass all token ids so far, (b, m): `model.decode(token_ids, memory, source_mask)`."
            )
        if self.calls > self.most or target.size(1) > len(self.factors):
            raise Wrong(
                "The loop does not stop. Stop when every sequence has generated `eos_id`, or after `max_len` tokens."
            )
        if (target[:, 0] != self.bos_id).any():
            raise Wrong("`decode` got tokens that do not begin with `bos_id`. Pass all tokens so far, `bos_id` first.")


def greedy_cases(generator):
    def case(lengths, max_len, n, vocab_size=9, bos_id=1, eos_id=2, lowest=1, note=""):
        b = len(lengths)
        source = integers(generator, 4 + b, b, n, low=4)
        source[:, 0] = torch.arange(b) + 4
        mask = length_mask(integers(generator, n + 1, b, low=1).tolist(), n)
        model = PlannedModel(generator, lengths, vocab_size, bos_id, eos_id, max_len, lowest)
        return Case((model, source, mask, bos_id, eos_id, max_len), note=note)

    return [
        case((3, 5), 8, 4, note="two sequences end before `max_len`"),
        case((2, 9, 4), 6, 5, note="one sequence does not end"),
        case((5, 2, 3), 9, 4, vocab_size=8, bos_id=6, eos_id=4, note="other ids of BOS and EOS"),
        case((9, 8, 7), 1, 2, note="one token is allowed"),
        case((1, 3, 2, 4, 2), 4, 5, vocab_size=6, bos_id=2, eos_id=1, note="the longest just fits"),
        case((4,), 7, 3, note="one sequence"),
        case((7, 4, 6), 8, 3, vocab_size=4, lowest=0, note="0 before EOS is an ordinary token"),
    ]


TOO_SHORT = "A token is missing at `max_len`. Generate up to `max_len` tokens; the BOS token does not count."
TOO_LONG = "It generated one token too many. Stop at `max_len` tokens; the BOS token does not count."
NEVER_STOPS = (
    "It ignores `max_len` and runs until every sequence has ended, perhaps forever. Stop after `max_len` tokens."
)
START_RETURNED = "The BOS token is part of the result. It is only an input: return `token_ids[:, 1:]`."
END_MISSING = "The EOS token is missing in the result. Keep it as the last token, followed by 0."
END_REPEATED = "The EOS token is repeated after EOS. Pad with 0."
FIXED_END = "The id of the EOS token is fixed in your code. Use the argument `eos_id`."

register(
    Exercise(
        id="6.8",
        cases=greedy_cases,
        properties=[ids_are_long(greedy_cases)],
        mistakes=[
            *replacing(
                "return token_ids[:, 1:]",
                {
                    "return token_ids": START_RETURNED,
                    "return token_ids[:, 1:].masked_fill(token_ids[:, 1:] == eos_id, 0)": END_MISSING,
                    "return token_ids[:, 1:].T": "The result has shape (m, b). The batch comes first: (b, m).",
                },
            ),
            mistake(
                [("token_ids[:, 1:]", "token_ids"), ("<= max_len", "< max_len")],
                "The BOS token is part of the result and counts toward `max_len`. Generate `max_len` tokens after it, return `token_ids[:, 1:]`.",
            ),
            *replacing(
                "active.any() and token_ids.size(1) <= max_len",
                {
                    "active.any() and token_ids.size(1) < max_len": TOO_SHORT,
                    "active.any() and token_ids.size(1) <= max_len + 1": TOO_LONG,
                    "active.any()": NEVER_STOPS,
                    "active.all() and token_ids.size(1) <= max_len": "It stopped when the first sequence ended. Go on until all have ended.",
                    "token_ids.size(1) <= max_len": "It ran to `max_len` although every sequence had ended. Stop as soon as all have ended.",
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
                ".masked_fill(~active, 0)",
                {
                    "": "Sequences that had ended kept generating tokens. Pad them with 0 while the others go on.",
                    ".masked_fill(~active, eos_id)": END_REPEATED,
                },
            ),
            mistake(
                [("active.any() and ", ""), (".masked_fill(~active, 0)", "")],
                "The EOS token has no effect. Pad with 0 after it, and stop when every sequence has ended.",
            ),
            mistake(
                [
                    ("logits =", "active = active & (token_ids[:, -1] != eos_id)\n    logits ="),
                    ("active = active & (token != eos_id)", ""),
                ],
                "There is one column of padding too many. Update `active` right after appending a token, not one step later.",
            ),
            mistake(
                [("active & (token != eos_id)", "token != eos_id"), (".masked_fill(~active, 0)", "")],
                "It stops only if all sequences generate `eos_id` in the same step. Keep track of those that have ended.",
            ),
            mistake("!= eos_id", "!= 2", FIXED_END),
            mistake(
                "active & (token != eos_id)",
                "active & (token != eos_id) & (token != 0)",
                "A generated 0 was taken for the end. Only `eos_id` ends a sequence; before it 0 is an ordinary token.",
            ),
            *replacing(
                "memory =",
                {
                    "source_mask = torch.ones_like(source_mask)\nmemory =": "The source mask was ignored, so padding was attended to. Pass `source_mask` to `encode` and `decode`.",
                    "source_mask = ~source_mask\nmemory =": "The source mask is inverted. True already marks real tokens: pass `source_mask` unchanged.",
                },
            ),
        ],
        hints=[
            "Encode once. Start with `token_ids = torch.full((b, 1), bos_id)` and `active` (b,), all True.",
            "In the loop, `model.decode(token_ids, memory, source_mask)[:, -1]` are the logits of the next token. Append its argmax, or 0 where "
            "a sequence has ended, with `torch.cat`.",
            "`while active.any() and token_ids.size(1) <= max_len`; after each token `active = active & (token != eos_id)`. Return `token_ids[:, 1:]`.",
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
            mistake("x @ W_K", "x", "The new key is x itself. Cache the projected key, `x @ W_K`."),
            mistake("x @ W_V", "x", "The new value is x itself. Cache the projected value, `x @ W_V`."),
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


# ---------------------------------------------------------------------------------------------- 6.10 a step of beam search
def step_cases(generator):
    def case(k, vocab_size, num_beams, ended=(), zero=False, note=""):
        logits = 2 * normal(generator, k, vocab_size)
        logits[:, 0] = logits[:, 0].abs() + 2.0 if zero else -30.0  # elsewhere 0 hardly occurs before EOS
        log_probs = -(0.2 + normal(generator, k).abs()).cumsum(0) if k > 1 else torch.zeros(1)
        flags = torch.zeros(k, dtype=torch.bool)
        flags[list(ended)] = True
        return Case((log_probs, logits.log_softmax(-1), flags, num_beams), note=note)

    return [
        case(3, 6, 3, note="three hypotheses, none has ended"),
        case(1, 7, 4, note="the first step: one hypothesis"),
        case(3, 5, 3, ended=(1,), note="the second hypothesis has ended"),
        case(2, 6, 2, ended=(0,), note="the best hypothesis has ended"),
        case(4, 4, 4, ended=(0, 2), note="as many hypotheses as tokens"),
        case(3, 8, 3, zero=True, ended=(0,), note="0 is likely before EOS"),
        case(2, 9, 1, note="a beam of 1"),
        case(5, 7, 5, note="five hypotheses"),
    ]


STEP_SUM, STEP_PARTS = "(log_probs.unsqueeze(1) + step)", "index // step.size(1), index % step.size(1)"
STEP_PAD = "step[:, 0] = step[:, 0].masked_fill(ended, 0.0)\n"
STEP_BEST = "step.masked_fill(step < step.amax(1, keepdim=True), float('-inf'))"
ONE_CHILD = (
    "Each hypothesis kept only its best token. Keep the best `num_beams` of all continuations: `flatten`, then `topk`."
)
STEP_GREW = "Hypotheses that have ended were continued with any token. Set their log-probabilities to -inf and that of token 0 to 0."

register(
    Exercise(
        id="6.10",
        cases=step_cases,
        output_names=("log_probs", "parent", "token"),
        tolerance=1e-3,
        properties=[ids_are_long(step_cases)],
        mistakes=[
            # Choosing the best
            *replacing(
                STEP_SUM,
                {
                    "step": "Only the newest token counts. Add the log-probability of the hypothesis: `log_probs.unsqueeze(1) + next_log_probs`.",
                    "(log_probs.unsqueeze(1) * step)": "The log-probabilities were multiplied. Add them: probabilities multiply, their logarithms add.",
                    "(log_probs + step)": "The log-probabilities of the hypotheses were added along the vocabulary. They belong to the rows: `log_probs.unsqueeze(1)`, (k, 1).",
                    f"(log_probs.unsqueeze(1) + {STEP_BEST})": ONE_CHILD,
                },
            ),
            mistake(
                BODY,
                "best, token = next_log_probs.max(-1)\nlog_probs, parent = (log_probs + best).topk(min(num_beams, len(best)))\n"
                "return log_probs, parent, token[parent]",
                ONE_CHILD,
            ),
            mistake(
                f"log_probs, index = {STEP_SUM}.flatten().topk(num_beams)",
                f"_, index = step.flatten().topk(num_beams)\nlog_probs = {STEP_SUM}.flatten()[index]",
                "The beam was chosen by the newest token alone. Take `topk` of the sums.",
            ),
            *replacing(
                ".flatten().topk(num_beams)",
                {
                    ".topk(num_beams)": "`topk` ran over each hypothesis alone, which gives (k, num_beams). Take the best of all continuations: `flatten()` first.",
                    ".flatten().topk(1)": "`num_beams` has no effect. Use `topk(num_beams)`.",
                    ".flatten().topk(num_beams, largest=False)": "The least probable continuations were kept. Keep those with the largest log-probability.",
                },
            ),
            *replacing(
                STEP_PARTS,
                {
                    "index // num_beams, index % num_beams": "The flattened index was divided by `num_beams`. A row has V entries: divide by V.",
                    "index // step.size(0), index % step.size(0)": "The flattened index was divided by k, the number of hypotheses. A row has V entries: divide by V.",
                    "index % step.size(1), index // step.size(1)": "Parent and token are swapped. In the flattened sums `index // V` is the row, `index % V` the token.",
                    "index": "Parent and token came back as one flattened index. Split it: `index // V` is the parent, `index % V` the token.",
                    "index / step.size(1), index % step.size(1)": "The parent is not an integer. Use integer division, `index // V`.",
                },
            ),
            # Hypotheses that have ended
            mistake([('.masked_fill(ended.unsqueeze(1), float("-inf"))', ".clone()"), (STEP_PAD, "")], STEP_GREW),
            mistake(
                '.masked_fill(ended.unsqueeze(1), float("-inf"))',
                ".clone()",
                "A hypothesis that has ended may still be continued with any token. Allow token 0 only: set all others to -inf.",
            ),
            mistake(
                [
                    (STEP_PAD, ""),
                    (
                        f"log_probs, index = {STEP_SUM}",
                        f"step = {STEP_SUM}\nstep[ended, 0] = 0.0\nlog_probs, index = step",
                    ),
                ],
                "A hypothesis that has ended lost its own log-probability. Token 0 adds 0 to it: set `step[:, 0]` to 0 before the sum.",
            ),
            *replacing(
                STEP_PAD,
                {
                    "": "Hypotheses that have ended drop out of the beam. Let token 0 follow at no cost: set `step[:, 0]` to 0 where `ended`.",
                    "step[:, 0] = 0.0\n": "Token 0 costs nothing for unfinished hypotheses either. Set it to 0.0 only where `ended`.",
                    "step[:, 0] = torch.where(ended, 0.0, float('-inf'))\n": "Token 0 was excluded before EOS, where it is an ordinary token. Change it only where `ended`.",
                    "step[:, 0] = torch.where(ended, next_log_probs[:, 0], step[:, 0])\n": "Padding costs an ended hypothesis the model's log-probability. Token 0 must cost it nothing: 0.0 where `ended`.",
                },
            ),
            mistake(
                'float("-inf")',
                "0.0",
                "Any token may follow EOS at no cost. Allow token 0 only: set all others to -inf.",
            ),
            mistake(
                "ended.unsqueeze(1)",
                "~ended.unsqueeze(1)",
                "The flags are inverted: hypotheses that have not ended were stopped. True means ended.",
            ),
            # Results
            *replacing(
                f"return log_probs, {STEP_PARTS}",
                {
                    f"return log_probs.exp(), {STEP_PARTS}": "Probabilities came back. Return log-probabilities.",
                    f"return {STEP_PARTS}, log_probs": "The results are in another order. Return log_probs, parent, token.",
                    f"return log_probs / 2, {STEP_PARTS}": "The log-probabilities were averaged. Add them up: length normalization comes later.",
                    "return log_probs, index % step.size(1)": "The parents are missing. Return log_probs, parent, token.",
                },
            ),
        ],
        hints=[
            "`log_probs.unsqueeze(1) + next_log_probs`, (k, V), holds the log-probabilities of all continuations.",
            "`.flatten().topk(num_beams)` gives log-probabilities and flat indices: `index // V` is the parent, `index % V` the token.",
            "Before that, in rows that have ended: `step = next_log_probs.masked_fill(ended.unsqueeze(1), float('-inf'))`, then set `step[:, 0]` "
            "to 0 where `ended`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.11 the loop of beam search
class PlannedLogProbs:
    """Log-probabilities (k, V) of the token after each of k hypotheses (k, m); it tells who calls it in a wrong way.

    They depend on all tokens so far. After `last` tokens every hypothesis ends; with `early` the second best ends at once; with
    `behind` the first steps are planned, see `_planned`. Padding and the BOS token hardly occur; with `zero`, 0 does.
    """

    def __init__(
        self, generator, vocab_size, bos_id, eos_id, max_len, num_beams, last=None, early=False, behind=None, zero=False
    ):
        self.table = 2 * normal(generator, 211, vocab_size)
        self.table[:, eos_id] += 0.5
        self.table[:, 0] = self.table[:, 0] + 2.0 if zero else -30.0
        self.table[:, bos_id] = -30.0
        self.bos_id, self.eos_id, self.max_len, self.last, self.early, self.behind = (
            bos_id,
            eos_id,
            max_len,
            last,
            early,
            behind,
        )
        others = torch.tensor([token for token in range(1, vocab_size) if token not in (bos_id, eos_id)])
        self.plan = others[torch.randperm(len(others), generator=generator)[:3]].tolist()
        self.calls, self.most = 0, 2 * (max_len + 2) * (num_beams + 1)

    def __repr__(self):
        return f"a model with a vocabulary of {self.table.size(1)}"

    def __call__(self, token_ids):
        self.calls += 1
        if not isinstance(token_ids, torch.Tensor) or token_ids.dim() != 2 or token_ids.is_floating_point():
            raise Wrong(f"`next_log_probs` got {a_thing(token_ids)}. Pass token ids (k, m), one row per hypothesis.")
        if self.calls > self.most or token_ids.size(1) > 2 * self.max_len + 9:
            raise Wrong("The loop does not stop. Stop when all hypotheses have ended, or after `max_len` tokens.")
        if (token_ids[:, 0] != self.bos_id).any():
            raise Wrong("`next_log_probs` got tokens that do not begin with `bos_id`. Pass all tokens so far.")
        history = torch.zeros(len(token_ids), dtype=torch.long)
        for token in token_ids.unbind(1):
            history = (31 * history + token + 7) % len(self.table)
        logits = self.table[history]
        if self.early and token_ids.size(1) == 1:
            logits[:, self.eos_id] = -30.0
            logits[:, self.eos_id] = logits.max(1).values - 0.1
        if self.behind is not None and token_ids.size(1) <= 3:
            logits = self._planned(token_ids, torch.full_like(logits, -30.0))
        if self.last is not None and token_ids.size(1) >= self.last:
            logits[:, self.eos_id] += 40.0
        return logits.log_softmax(-1)

    def _planned(self, token_ids, logits):
        """One first token, and EOS `behind` it; then a tempting token that leads nowhere, and a less likely one that ends well.

        A beam of two: if EOS is close behind, it stays in the beam and leaves no room for the less likely token. If it is far
        behind, the two tokens push it out.
        """
        first, tempting, sound = self.plan
        if token_ids.size(1) == 1:
            logits[:, first], logits[:, self.eos_id] = 0.0, -self.behind
        elif token_ids.size(1) == 2:
            logits[:, tempting], logits[:, sound] = 0.0, -0.2
        else:
            logits[:, first], logits[:, tempting], logits[:, sound] = 0.0, -0.1, -0.2
            logits[token_ids[:, -1] == sound, self.eos_id] = 20.0
        return logits


def beam_cases(generator):
    def case(vocab_size, max_len, num_beams, bos_id=1, eos_id=2, note="", **plan):
        model = PlannedLogProbs(generator, vocab_size, bos_id, eos_id, max_len, num_beams, **plan)
        return Case((model, bos_id, eos_id, max_len, num_beams), note=note)

    return [
        case(8, 8, 3, last=5, note="a beam of 3"),
        case(7, 8, 4, early=True, note="a beam of 4"),
        case(9, 5, 2, bos_id=5, eos_id=3, note="other ids of BOS and EOS"),
        case(8, 9, 4, bos_id=3, eos_id=6, note="room for 9 tokens"),
        case(10, 3, 5, bos_id=2, eos_id=1, note="a small `max_len`"),
        case(9, 7, 5, last=4, early=True, note="a beam of 5"),
        case(10, 6, 3, last=2, early=True, note="one ends at once, the others right after it"),
        case(9, 7, 2, last=4, behind=0.1, note="one that ends at once stays in the beam"),
        case(8, 7, 2, last=4, behind=4.0, note="one that ends at once is pushed out"),
        case(8, 7, 1, note="a beam of 1, which is greedy"),
        case(7, 1, 3, note="one token is allowed"),
        case(8, 6, 4, zero=True, note="0 is likely before EOS"),
    ]


def set_aside(widened, enough, rest):
    """Beam search as many libraries do it: a finished hypothesis leaves the beam for a list, and the best of the list come back.

    widened: "" takes the best `num_beams` continuations, "more" so many that `num_beams` of them go on, "less" one less for each in the
    list. enough: stops when the list has `num_beams`. rest: what has not ended at `max_len` joins the list.
    """

    def wrong(next_log_probs, bos_id, eos_id, max_len, num_beams):
        token_ids, log_probs, done = torch.full((1, 1), bos_id), torch.zeros(1), []
        while len(token_ids) and token_ids.size(1) <= max_len and not (enough and len(done) >= num_beams):
            sums = (log_probs.unsqueeze(1) + next_log_probs(token_ids)).flatten()
            vocab_size = sums.size(0) // len(token_ids)
            asked = {"": num_beams, "more": 2 * num_beams, "less": num_beams - len(done)}[widened]
            log_probs, index = sums.topk(min(asked, sums.size(0)))
            token_ids = torch.cat([token_ids[index // vocab_size], (index % vocab_size).unsqueeze(1)], 1)
            ended = token_ids[:, -1] == eos_id
            if widened == "more":
                kept = (~ended).cumsum(0) - (~ended).long() < num_beams  # up to the last that goes on, and no further
                token_ids, log_probs, ended = token_ids[kept], log_probs[kept], ended[kept]
            done += list(zip(log_probs[ended].tolist(), token_ids[ended], strict=True))
            token_ids, log_probs = token_ids[~ended], log_probs[~ended]
        if rest or not done:
            done += list(zip(log_probs.tolist(), token_ids, strict=True))
        done = sorted(done, key=lambda pair: -pair[0])[:num_beams]
        return pad_sequence([row[1:] for _, row in done], batch_first=True), torch.tensor(
            [log_prob for log_prob, _ in done]
        )

    return wrong


def hypotheses_differ(answer, generator):
    token_ids, _ = answer(*beam_cases(generator)[0].args)
    if len(token_ids.unique(dim=0)) < len(token_ids):
        raise Wrong(
            "The beam holds the same hypothesis more than once. Start from one row, not from `num_beams` copies."
        )


def scores_are_log_probabilities(answer, generator):
    args = beam_cases(generator)[0].args
    model, bos_id, eos_id, _, _ = args
    token_ids, log_probs = answer(*args)
    for row, log_prob in zip(token_ids.tolist(), log_probs.tolist(), strict=True):
        row = row[: row.index(eos_id) + 1] if eos_id in row else row
        model.calls = 0
        added = sum(float(model(torch.tensor([[bos_id, *row[:index]]]))[0, token]) for index, token in enumerate(row))
        if abs(added - log_prob) > 1e-3:
            raise Wrong(
                f"A hypothesis has the log-probability {log_prob:.3f}, but those of its tokens sum to {added:.3f}. Tokens and log-probabilities must come "
                "from the same parent: `token_ids[parent]`."
            )


BOTH = "index // step.size(1), index % step.size(1)"
BEST_CHILD = "step.masked_fill(step < step.amax(1, keepdim=True), float('-inf'))"
IN_PLACE = """\
    if token_ids.size(1) > 1:
        parent, (best, token) = torch.arange(num_beams), step.max(1)
        log_probs = before + best
    before = log_probs
"""
ENDED_ROWS = '.masked_fill(ended.unsqueeze(1), float("-inf"))'
PAD_FREE = "    step[:, 0] = step[:, 0].masked_fill(ended, 0.0)\n"
UNMASKED = [(ENDED_ROWS, ""), (PAD_FREE, "")]
COPIES = [
    ("torch.full((1, 1), bos_id), torch.zeros(1)", "torch.full((num_beams, 1), bos_id), torch.zeros(num_beams)"),
    ("torch.zeros(1, dtype", "torch.zeros(num_beams, dtype"),
]
NOT_REORDERED = "The tokens were not reordered. Append each new token to its parent: `token_ids[parent]`."
GREW_ON = "Finished hypotheses kept growing. Set their log-probabilities to -inf and that of token 0 to 0."
SET_ASIDE = "Finished hypotheses left the beam, as in many libraries. Here they stay and compete: token 0 follows at log-probability 0."

# Most answers do not call `beam_step`, so the mistakes are edits of the whole search in one function.
SEARCH = """\
token_ids, log_probs = torch.full((1, 1), bos_id), torch.zeros(1)
ended = torch.zeros(1, dtype=torch.bool)
while not ended.all() and token_ids.size(1) <= max_len:
    step = next_log_probs(token_ids).masked_fill(ended.unsqueeze(1), float("-inf"))
    step[:, 0] = step[:, 0].masked_fill(ended, 0.0)
    log_probs, index = (log_probs.unsqueeze(1) + step).flatten().topk(num_beams)
    parent, token = index // step.size(1), index % step.size(1)
    token_ids = torch.cat([token_ids[parent], token.unsqueeze(1)], 1)
    ended = ended[parent] | (token == eos_id)
return token_ids[:, 1:], log_probs"""


def in_search(edits, message):
    """A mistake of the whole search: edits (old, new), each of a text that occurs once in it."""
    code = SEARCH
    for old, new in edits:
        if code.count(old) != 1:
            raise ValueError(f"expected {old!r} once, got {code.count(old)}")
        code = code.replace(old, new)
    return mistake(BODY, code, message)


def each_in_search(old, messages):
    return [in_search([(old, new)], message) for new, message in messages.items()]


register(
    Exercise(
        id="6.11",
        cases=beam_cases,
        output_names=("token_ids", "log_probs"),
        tolerance=1e-3,
        properties=[hypotheses_differ, scores_are_log_probabilities, ids_are_long(beam_cases)],
        mistakes=[
            # Choosing the best
            in_search(
                COPIES,
                "The beam started with `num_beams` copies of one hypothesis, so it holds duplicates. Start with one row.",
            ),
            *each_in_search(
                "(log_probs.unsqueeze(1) + step)",
                {
                    "step": "Only the newest token counts. Add the log-probability of the hypothesis: `log_probs.unsqueeze(1) + step`.",
                    "((log_probs.unsqueeze(1) * (token_ids.size(1) - 1) + step) / token_ids.size(1))": "The log-probabilities were averaged. Add them up: there is no length normalization here.",
                    f"(log_probs.unsqueeze(1) + (step if token_ids.size(1) == 1 else {BEST_CHILD}))": ONE_CHILD,
                },
            ),
            in_search([("    token_ids = ", f"{IN_PLACE}    token_ids = ")], ONE_CHILD),
            in_search(
                [
                    ("log_probs, index = (log_probs.unsqueeze(1) + step)", "_, index = step"),
                    ("    token_ids = ", "    log_probs = log_probs[parent] + step[parent, token]\n    token_ids = "),
                ],
                "The beam was chosen by the newest token alone. Take `topk` of the sums, `log_probs.unsqueeze(1) + step`.",
            ),
            in_search(
                [
                    ("log_probs, index", "best, candidates = step.topk(num_beams)\n    log_probs, index"),
                    ("+ step).flatten().topk(num_beams)", "+ best).flatten().sort(descending=True)"),
                    (BOTH, "index // num_beams, candidates.flatten()[index]"),
                ],
                "The beam grows: the best tokens of every hypothesis were kept. Take `topk(num_beams)` over all continuations together.",
            ),
            *each_in_search(
                BOTH,
                {
                    "index // num_beams, index % num_beams": "The flattened index was divided by `num_beams`. A row has V entries: divide by `step.size(1)`.",
                    "index % step.size(1), index // step.size(1)": "Parent and token are swapped. In the flattened sums `index // V` is the row, `index % V` the token.",
                },
            ),
            *each_in_search(
                "token_ids[parent]", {"token_ids": NOT_REORDERED, "token_ids.expand(num_beams, -1)": NOT_REORDERED}
            ),
            in_search(
                [("topk(num_beams)", "topk(1)")],
                "`num_beams` has no effect: this is greedy decoding. Use `topk(num_beams)`.",
            ),
            # Finished hypotheses
            in_search(UNMASKED, GREW_ON),
            in_search([*UNMASKED, ("ended[parent] | (token == eos_id)", "token == eos_id")], GREW_ON),
            in_search([*UNMASKED, ("not ended.all() and ", "")], GREW_ON),
            *each_in_search(
                PAD_FREE,
                {
                    "": "Finished hypotheses drop out of the beam. Keep them with their log-probability: set `step[:, 0]` to 0 where `ended`.",
                    "    step[:, 0] = 0.0\n": "Token 0 costs nothing for unfinished hypotheses either. Set `step[:, 0]` to 0.0 only where `ended`.",
                    "    step[:, 0] = torch.where(ended, 0.0, float('-inf'))\n": "Token 0 was excluded before EOS, where it is an ordinary token. Change `step[:, 0]` only where `ended`.",
                    "    step[:, eos_id] = step[:, eos_id].masked_fill(ended, 0.0)\n": END_REPEATED,
                },
            ),
            in_search(
                [(ENDED_ROWS, ""), (PAD_FREE, "    step[ended, 1:] = float('-inf')\n")],
                "Padding costs a finished hypothesis the model's log-probability. Set `step[:, 0]` to 0.0 where `ended`.",
            ),
            in_search(
                [('float("-inf")', "0.0")],
                "Any token may follow EOS at no cost. Allow token 0 only: set all others to -inf.",
            ),
            *[
                mistake(set_aside(widened, enough, rest), SET_ASIDE)
                for widened, enough in (("", True), ("", False), ("more", True), ("more", False), ("less", True))
                for rest in (True, False)
            ],
            *each_in_search(
                "ended[parent] | (token == eos_id)",
                {
                    "ended | (token == eos_id)": "The finished flags were not reordered. Take them from the parent: `ended[parent] | (token == eos_id)`.",
                    "token == eos_id": "Hypotheses that ended earlier were forgotten. Keep their flag: `ended[parent] | (token == eos_id)`.",
                    "(token == eos_id) | (token == 0)": "A generated 0 counted as EOS. Only `eos_id` ends a hypothesis; before it, 0 is an ordinary token.",
                    "ended[parent] | (token == 2)": FIXED_END,
                },
            ),
            # When to stop, and what to return
            *each_in_search(
                "not ended.all() and token_ids.size(1) <= max_len",
                {
                    "not ended.any() and token_ids.size(1) <= max_len": "It stopped when one hypothesis ended. Go on until all in the beam have ended.",
                    "not ended[0] and token_ids.size(1) <= max_len": "It stopped when the best hypothesis ended. The others are returned too: go on until all have ended.",
                    "token_ids.size(1) <= max_len": "It ran to `max_len` although all had ended. Stop as soon as all in the beam have ended.",
                    "not ended.all() and token_ids.size(1) < max_len": TOO_SHORT,
                    "not ended.all() and token_ids.size(1) <= max_len + 1": TOO_LONG,
                    "not ended.all()": NEVER_STOPS,
                },
            ),
            in_search(
                [*COPIES, ("while", "log_probs[1:] = -float('inf')\nwhile"), ("<= max_len", "< max_len")], TOO_SHORT
            ),
            *each_in_search(
                "return token_ids[:, 1:], log_probs",
                {
                    "return token_ids, log_probs": START_RETURNED,
                    "return token_ids[:, 1:].masked_fill(token_ids[:, 1:] == eos_id, 0), log_probs": END_MISSING,
                    "return token_ids[:, 1:], log_probs / (token_ids[:, 1:] != 0).sum(1)": "The log-probabilities were divided by the length. Return the sums, without length normalization.",
                    "return token_ids[:, 1:], log_probs.exp()": "Probabilities came back. Return log-probabilities.",
                    "return token_ids[:, 1:], -log_probs": "The log-probabilities have the wrong sign. Log-probabilities are at most 0.",
                    "return log_probs, token_ids[:, 1:]": "The two results are swapped. Return `token_ids`, then `log_probs`.",
                    "return token_ids[0, 1:], log_probs[0]": "Only the best hypothesis came back. Return all `num_beams` of them, best first.",
                    "return token_ids[:, 1:]": "Only the tokens came back. Return `token_ids` and `log_probs`.",
                },
            ),
        ],
        hints=[
            "Start with one row: `token_ids = torch.full((1, 1), bos_id)`, `log_probs = torch.zeros(1)`, nothing `ended`.",
            "In the loop `beam_step(log_probs, next_log_probs(token_ids), ended, num_beams)` gives log_probs, parent and token. Take tokens and flags "
            "from the parent: `token_ids[parent]`, `ended[parent]`.",
            "Append the tokens with `torch.cat`, then `ended = ended[parent] | (token == eos_id)`. Stop when all have ended, or at `max_len` tokens; "
            "return `token_ids[:, 1:]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.12 ablation
def ablation_cases(generator):
    def case(b, m, n, mask=None, note=""):
        mask = normal(generator, b, m, n) > -0.5 if mask is None else mask
        return Case((mask, integers(generator, m, b), integers(generator, n, b)), note=note)

    return [
        case(3, 4, 5, note="three sequences"),
        case(2, 5, 3, note="more queries than keys"),
        case(2, 4, 4, causal_mask(4).expand(2, 4, 4), note="one causal mask, expanded over the batch"),
        case(3, 3, 3, torch.ones(3, 3, 3, dtype=torch.bool), note="all sizes equal, nothing masked"),
        case(1, 2, 4, note="one sequence"),
    ]


ABLATED = "mask[torch.arange(len(mask)), queries, keys] = False"

register(
    Exercise(
        id="6.12",
        cases=ablation_cases,
        mistakes=[
            *replacing(
                ABLATED,
                {
                    "mask[:, queries, keys] = False": "Every sequence lost the keys of all sequences. Index the batch as well: `torch.arange(len(mask))`.",
                    "mask[torch.arange(len(mask)), keys, queries] = False": "Queries and keys are swapped. Axis 1 holds the queries, axis 2 the keys.",
                    "mask[torch.arange(len(mask)), :, keys] = False": "The key is masked for every query. Mask it for query `queries[i]` only.",
                    "mask[torch.arange(len(mask)), queries] = False": "The query lost all its keys. Mask key `keys[i]` only.",
                    "mask[torch.arange(len(mask)), queries, keys] = True": "The mask allows the key instead of forbidding it. False means may not attend.",
                    "mask[torch.arange(len(mask)), queries, keys] = ~mask[torch.arange(len(mask)), queries, keys]": "A key that was masked already became visible. Set the entry to False, do not invert it.",
                    "mask = torch.ones_like(mask)\nmask[torch.arange(len(mask)), queries, keys] = False": "The given mask was replaced. Start from a copy of it: everything it forbids stays forbidden.",
                    "mask[:, queries[0], keys[0]] = False": "Every sequence was masked at the first sequence's pair. Use `queries[i]` and `keys[i]` in sequence i.",
                    "mask[0, queries[0], keys[0]] = False": "Only the first sequence changed. Do it for every sequence of the batch.",
                },
            ),
            mistake(
                BODY,
                "forbidden = torch.zeros_like(mask)\nforbidden[torch.arange(len(mask)), queries, keys] = True\nreturn forbidden",
                "True stands where the query may not attend. Here True means may attend.",
            ),
            mistake("return mask", "return mask.float()", "The mask has a floating-point dtype. Return a bool mask."),
        ],
        hints=[
            "`mask.clone()` is a copy that may be changed; an expanded mask cannot be changed in place.",
            "Three index tensors of shape (b,) select one entry per sequence: `mask[rows, queries, keys]`.",
            "`rows = torch.arange(len(mask))`. Set these entries to False and return the copy.",
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
            ("Only once, at the input of the stack.", "Each sublayer has its own norm."),
        ],
        right=1,
        explanation="Post-norm: after the residual connection. Pre-norm: inside the branch. Papers and libraries differ, so always say which.",
    )
)
register_quiz(
    Quiz(
        id="6.c",
        question="Sources and targets are padded at the end, and the loss ignores padding. Which masks does the model need?",
        options=[
            (
                "The causal mask in both self-attentions; the source padding mask in the third.",
                "The whole source is known: its tokens may attend to later ones. And padding must be masked in the encoder too.",
            ),
            (
                "The causal mask in decoder self-attention; the source padding mask in the other two.",
                "Padding at the end of the target is in the future of every real token.",
            ),
            (
                "The source padding mask in all three attentions; no causal mask, since the loss is known.",
                "In decoder self-attention every position would see the token it has to predict.",
            ),
            (
                "No mask in training, where all tokens are known; a causal mask only in decoding.",
                "A model that sees the answer in training learns to copy it, and fails when there is none to copy.",
            ),
        ],
        right=1,
        explanation="What the padding positions compute is never used.",
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
            (
                "Only the query of the newest token: all the keys and values are cached.",
                "Its own key and value are not: later tokens will attend to it.",
            ),
            (
                "Query, key and value of the newest token, which then attends to all cached keys.",
                "One row of scores instead of 20.",
            ),
            (
                "Nothing new: the output of step 19 is in the cache and serves again.",
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
                "Only an exact search does: the prefix of the best sentence may fall out of the beam.",
            ),
            (
                "Its sentence is never less probable than the greedy one.",
                "It can be: better starts can push the greedy prefix out of the beam.",
            ),
            (
                "Its translation is better.",
                "More probable is not always better: wide beams prefer short sentences.",
            ),
            (
                "None of these.",
                "It often finds the same sentence, sometimes a more probable one. Anything else has to be measured.",
            ),
        ],
        right=3,
        explanation="Many systems add length normalization.",
    )
)

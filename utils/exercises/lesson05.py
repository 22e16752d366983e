"""Lesson 05: its exercises, the common mistakes in them, and its quizzes."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from utils.checks.compare import Case, Wrong, a_thing
from utils.exercises.common import built_module, mask_with_empty_row, normal, parameter_shapes, random_mask
from utils.exercises.edits import BODY, mistake, replacing
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register
from utils.exercises.solutions import lesson05 as solved
from utils.models.attention import causal_mask

PADDING = (torch.arange(5) < torch.tensor([[3], [5]])).unsqueeze(1)  # a mask (b, 1, n): 3 and 5 real tokens


# ---------------------------------------------------------------------------------------------- 5.1 a list of heads
def list_cases(generator):
    def case(b, n, d, heads, d_k, mask=None, note=""):
        projections = normal(generator, heads, 3, d, d_k)
        return Case((normal(generator, b, n, d), projections, normal(generator, heads * d_k, d), mask), note=note)

    return [
        case(2, 5, 6, 3, 2, note="no mask"),
        case(3, 4, 8, 2, 4, mask_with_empty_row(generator, 3, 4), note="one fully masked row"),
        case(2, 3, 4, 3, 5, causal_mask(3), note="a mask (n, n) for all sequences"),
        case(2, 5, 7, 4, 3, PADDING, note="a padding mask (b, 1, n)"),
        case(2, 3, 4, 1, 4, note="one head"),
        case(2, 1, 6, 3, 2, note="one token"),
        case(3, 4, 3, 3, 1, note="heads of width 1"),
    ]


def attention_with(weights):
    """Code that takes the place of `attention(`, with other weights: a formula of the scores `s` and the `mask`."""
    scores = "q @ k.mT / q.size(-1) ** 0.5"
    return f"(lambda q, k, v, mask: ((w := (lambda s: {weights})({scores})) @ v, w))("


def attention_mistakes(width, name):
    """For both solutions that call `attention(..., mask)`: `width` is the code of d_k, `name` that of d."""
    hint = "Each head uses the square root of its own d_k, the default of `attention`."
    return [
        *replacing(
            ", mask)",
            {
                ", mask, x.size(-1) ** -0.5)": f"The scores were divided by the square root of {name}. {hint}",
                ", mask, 1.0)": "The scores were not scaled. Leave out `scale`: `attention` divides by the square root of d_k.",
                f", mask, 1 / {width})": "The scores were divided by d_k, not by its square root. Leave the scaling to `attention`.",
                ")": "The mask has no effect. Pass it on to `attention`.",
                ", None if mask is None else ~mask)": "The mask was inverted. True already means 'may attend': pass it to `attention` as it is.",
            },
        ),
        *replacing(
            "attention(",
            {
                attention_with(weights): message
                for weights, message in {
                    "(s if mask is None else s.masked_fill(~mask, -torch.inf)).softmax(-1)": "A fully masked row became NaN (0 / 0); it must be zeros. Pass the mask to `attention`, which handles such rows.",
                    "(s if mask is None else s.masked_fill(~mask, -1e9)).softmax(-1)": "A fully masked row got uniform weights; it must be zeros. Pass the mask to `attention`, which handles such rows.",
                    "s.softmax(-1) * (1 if mask is None else mask)": "The mask was applied after the softmax, so rows no longer sum to 1. Pass it to `attention`, which masks the scores.",
                    "s.softmax(-2)": "The softmax ran over the queries (dim -2) and ignored the mask. `attention` normalizes over the keys.",
                }.items()
            },
        ),
    ]


OUTPUT = "torch.cat(outputs, -1) @ W_O"
SLICED = "Each head received a slice of x. Every head projects the whole x: `x @ W_Q` with `W_Q` (d, d_k)."

register(
    Exercise(
        id="5.1",
        cases=list_cases,
        gradient=True,
        tolerance=1e-3,
        output_names=("output", "weights"),
        mistakes=[
            *attention_mistakes("W_Q.size(-1)", "d"),
            mistake(
                ", mask)",
                ", mask, len(W_O) ** -0.5)",
                "The scores were divided by the square root of heads * d_k. Each head uses the square root of its own d_k.",
            ),
            *replacing(
                "for W_Q, W_K, W_V in projections",
                {
                    # First among the shape errors: slices of another width raise it with other numbers.
                    "for x, (W_Q, W_K, W_V) in zip(x.chunk(len(projections), -1), projections)": SLICED,
                    "for x, (W_Q, W_K, W_V) in zip(x.view(*x.shape[:2], len(projections), x.size(-1) // len(projections)).unbind(2), projections)": SLICED,
                    "for W_Q, W_K, W_V in projections[:1].expand_as(projections)": "All heads used the projections of the first head. Loop over `projections`: each head has its own three.",
                    "for W_K, W_Q, W_V in projections": "Queries and keys are swapped. Each head of `projections` holds W_Q, W_K, W_V, in this order.",
                    "for W_Q, W_V, W_K in projections": "Keys and values are swapped. Each head of `projections` holds W_Q, W_K, W_V, in this order.",
                    "for W_V, W_K, W_Q in projections": "Queries and values are swapped. Each head of `projections` holds W_Q, W_K, W_V, in this order.",
                },
            ),
            mistake(
                [
                    (
                        "for W_Q, W_K, W_V in projections:",
                        "s = x.size(-1) // len(projections)\nfor i, head in enumerate(projections):",
                    ),
                    (
                        "x @ W_Q, x @ W_K, x @ W_V",
                        "*(x[..., i * s : i * s + s] @ W for W in head[:, i * s : i * s + s])",
                    ),
                ],
                SLICED,
            ),
            *replacing(
                OUTPUT,
                {
                    "torch.cat(outputs, -1)": "The output projection is missing. Multiply the concatenated head outputs by `W_O`.",
                    "sum(outputs) @ W_O": "The head outputs were added. Concatenate them, `torch.cat(outputs, -1)`, to match the rows of `W_O`.",
                    "sum(outputs)": "The head outputs were added and `W_O` was left out. Concatenate them, `torch.cat(outputs, -1)`, then multiply by `W_O`.",
                    "torch.cat(outputs, -2) @ W_O": "The head outputs were concatenated along the tokens or the batch. Concatenate the features: `torch.cat(outputs, -1)`.",
                    "torch.stack(outputs, -1).flatten(-2) @ W_O": "The components of the heads are interleaved. Concatenate whole heads: `torch.cat(outputs, -1)`.",
                    "torch.stack(outputs, 1) @ W_O": "The head outputs were stacked on a new axis. Concatenate their features: `torch.cat(outputs, -1)`.",
                    f"{OUTPUT}.T": "`W_O` was transposed. Multiply by `W_O` as it is: `... @ W_O`.",
                    f"torch.relu({OUTPUT})": "A ReLU follows the output projection. Remove it: this layer ends with a linear projection.",
                    f"x + {OUTPUT}": "x was added to the output. The residual connection belongs to the encoder layer, not here.",
                },
            ),
            *replacing(
                "torch.stack(weights, 1)",
                {
                    "torch.stack(weights)": "The weights have shape (heads, b, n, n). Stack them on axis 1: `torch.stack(weights, 1)`.",
                    "torch.stack(weights, -1)": "The weights have shape (b, n, n, heads). Stack them on axis 1: `torch.stack(weights, 1)`.",
                    "torch.stack(weights, 1).mean(1)": "The weights were averaged over the heads. Return those of every head: `torch.stack(weights, 1)`.",
                    "torch.cat(weights, 1)": "The weights of all heads were concatenated along the queries. Stack them on a new axis: `torch.stack(weights, 1)`.",
                    "torch.cat(weights, -1)": "The weights of all heads were concatenated into one row. Stack them on axis 1: `torch.stack(weights, 1)`.",
                    "weights[-1]": "Only the weights of the last head were returned. Stack those of all heads: `torch.stack(weights, 1)`.",
                    "weights": "The weights are a list of tensors. Stack them on axis 1: `torch.stack(weights, 1)`.",
                },
            ),
            mistake(
                f"{OUTPUT}, torch.stack(weights, 1)",
                f"torch.stack(weights, 1), {OUTPUT}",
                "The two results are swapped. Return the output first, then the weights.",
            ),
            mistake(
                "for W_Q, W_K, W_V in projections:",
                "all_Q, all_K, all_V = projections\nfor W_Q, W_K, W_V in zip(all_Q, all_K, all_V):",
                "The first axis of `projections` was unpacked as W_Q, W_K, W_V, but it is the head. Loop over it: `for W_Q, W_K, W_V in projections`.",
            ),
            mistake(
                ", mask)",
                ", None if mask is None else mask.unsqueeze(1))",
                "The mask got an axis for the heads, but the loop calls `attention` for one head at a time. Pass the mask as it is.",
            ),
            mistake(
                "append(context)",
                "append((context, head_weights))",
                "`attention` returns two tensors, output and weights. Unpack them: `context, weights = attention(...)`.",
            ),
            mistake(
                [("context, head_weights", "x, head_weights"), ("append(context)", "append(x)")],
                "x was overwritten in the loop, so each head attended to the output of the one before. All heads project the same x.",
            ),
        ],
        hints=[
            "One head is one call: `context, weights = attention(x @ W_Q, x @ W_K, x @ W_V, mask)`.",
            "Loop over the heads with `for W_Q, W_K, W_V in projections` and collect outputs and weights in two lists.",
            "Concatenate and project: `torch.cat(outputs, -1) @ W_O`. Stack the weights: `torch.stack(weights, 1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.2 split
def split_cases(generator):
    def case(b, n, num_heads, d_k, note=""):
        return Case((normal(generator, b, n, num_heads * d_k), num_heads), note=note)

    return [
        case(2, 5, 3, 4),
        case(3, 4, 2, 5),
        case(2, 3, 4, 2),
        case(2, 4, 1, 3, note="one head"),
        case(2, 1, 3, 2, note="one token"),
        case(1, 4, 3, 2, note="one sequence"),
        case(3, 3, 3, 3, note="all sizes equal"),
        case(2, 3, 4, 1, note="heads of width 1"),
    ]


register(
    Exercise(
        id="5.2",
        cases=split_cases,
        gradient=True,
        mistakes=replacing(
            "view(b, n, num_heads, d // num_heads).transpose(1, 2)",
            {
                "view(b, num_heads, n, d // num_heads)": "`view(b, num_heads, n, d_k)` has the right shape but splits the tokens, not their features. Use `view(b, n, num_heads, d_k)`, then `transpose(1, 2)`.",
                "view(b, n, num_heads, d // num_heads)": "The heads come after the tokens: (b, n, heads, d_k). Add `transpose(1, 2)`, or attention would run over the heads.",
                "view(b, n, d // num_heads, num_heads).permute(0, 3, 1, 2)": "The features are interleaved: head 0 gets every `num_heads`-th one. Give it the first d_k: `view(b, n, num_heads, d_k)`.",
                "view(b, n, d // num_heads, num_heads).transpose(1, 2)": "`num_heads` was used as the width of a head. There are `num_heads` heads of width `d // num_heads`: `view(b, n, num_heads, d // num_heads)`.",
                "transpose(1, 2).reshape(b, num_heads, n, d // num_heads)": "The transpose came before the split, which mixes tokens and features. First `view(b, n, num_heads, d_k)`, then `transpose(1, 2)`.",
                "view(b, n, num_heads, d // num_heads).permute(0, 2, 3, 1)": "Tokens and features are swapped within each head: (b, heads, d_k, n). Use `transpose(1, 2)` after the `view`.",
                "view(b, n, num_heads, d // num_heads).permute(2, 0, 1, 3)": "The heads come before the batch: (heads, b, n, d_k). Use `transpose(1, 2)` after the `view`.",
                "view(b, n, num_heads, d // num_heads).transpose(1, 2).flatten(0, 1)": "Batch and heads were merged into one axis. Keep both: (b, heads, n, d_k).",
                "view(b, n, num_heads, d // num_heads).transpose(1, 2).flip(1)": "The heads are in reverse order. Head 0 gets the first d_k features.",
                "chunk(num_heads, -1)": "The heads are separate tensors. Stack them: `torch.stack(chunks, 1)` gives (b, heads, n, d_k).",
                "view(b, n, num_heads, d // num_heads).transpose(2, 3)": "The heads are the last axis: (b, n, d_k, heads). Make them axis 1: (b, heads, n, d_k).",
                "view(b, n, num_heads, d / num_heads).transpose(1, 2)": "`d / num_heads` is a float, and a size must be an integer. Use `d // num_heads`.",
                "unsqueeze(1).repeat(1, num_heads, 1, 1)": "Every head got all d features. Split them: each head gets `d // num_heads`.",
            },
        ),
        hints=[
            "`b, n, d = x.shape`; a head has width `d // num_heads`.",
            "`x.view(b, n, num_heads, d // num_heads)` splits the features of each token and leaves the tokens in place.",
            "The axes are now (b, n, heads, d_k); `transpose(1, 2)` swaps tokens and heads.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.3 merge
def merge_cases(generator):
    """The shapes of 5.2, inverted."""
    cases = [(*case.args, case.note) for case in split_cases(generator)]
    return [
        Case((normal(generator, len(x), num_heads, x.size(1), x.size(2) // num_heads),), note=note)
        for x, num_heads, note in cases
    ]


def inverse_of_the_split(answer, generator):
    x, num_heads = split_cases(generator)[0].args
    if not torch.equal(answer(solved.split_heads(x, num_heads)), x):
        raise Wrong(
            "`merge_heads(split_heads(x, num_heads))` does not return x. Undo the two steps of `split_heads` in reverse order."
        )


register(
    Exercise(
        id="5.3",
        cases=merge_cases,
        gradient=True,
        properties=[inverse_of_the_split],
        mistakes=replacing(
            "x.transpose(1, 2).flatten(2)",
            {
                "x.reshape(len(x), x.size(2), -1)": "Without `transpose(1, 2)` first, a row holds several tokens of one head. Transpose, then `flatten(2)`.",
                "x.flatten(1, 2)": "The heads were concatenated along the tokens: (b, heads * n, d_k). Concatenate their features: (b, n, heads * d_k).",
                "x.flatten(2)": "Tokens and features were merged: (b, heads, n * d_k). Move the heads next to the features first: `transpose(1, 2)`, then `flatten(2)`.",
                "x.transpose(2, 3).flatten(2)": "The wrong axes were swapped, so tokens and features were merged. Swap heads and tokens: `transpose(1, 2)`, then `flatten(2)`.",
                "x.transpose(1, 2)": "The result is still (b, n, heads, d_k). Merge the last two axes with `flatten(2)`.",
                "x.transpose(1, 2).view(len(x), x.size(2), -1)": "`view` fails because a transposed tensor is not contiguous in memory. Use `flatten(2)` or `reshape`, which copy if they must.",
                "x.permute(0, 2, 3, 1).flatten(2)": "The features of the heads are interleaved. Concatenate whole heads: `transpose(1, 2)`, then `flatten(2)`.",
                "x.sum(1)": "The heads were added. Concatenate their features: (b, n, heads * d_k).",
                "x.mean(1)": "The heads were averaged. Concatenate their features: (b, n, heads * d_k).",
                "x.transpose(2, 3).reshape(len(x), x.size(2), -1)": "The wrong axes were swapped. Swap heads and tokens: `transpose(1, 2)`.",
                "x.transpose(1, 2).flip(2).flatten(2)": "The heads are in reverse order. Head 0 comes first.",
                "x.transpose(1, 2).flatten(1)": "The tokens were flattened, too. Merge only heads and features: `flatten(2)`.",
                "torch.cat(x.unbind(1))": "The heads were concatenated along the batch. Concatenate their features: `torch.cat(..., -1)`.",
                "torch.cat(x.unbind(0), -1)": "The loop ran over the sequences of the batch. The heads are axis 1: `x.unbind(1)`.",
            },
        ),
        hints=[
            "Undo `split_heads`: it split and transposed, so transpose and then merge.",
            "`transpose(1, 2)` gives (b, n, heads, d_k).",
            "`flatten(2)` merges the last two axes. (`view` would fail: the transposed tensor is not contiguous.)",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.4 multi-head attention
def besides(built, expected):
    """What the state dict holds besides the expected names, in words; "" if nothing.

    Also a second name of one tensor, and a buffer: a later load would ask for it.
    """
    return ", ".join(f"`{name}`" for name in built.state_dict() if name not in expected)


def with_given_parameters(built, shapes, seed):
    """The module with the same random parameters whoever wrote it; for a given `__init__`."""
    numbers, given = torch.Generator().manual_seed(seed), dict(built.named_parameters())
    for name, shape in shapes.items():
        if name not in given or tuple(given[name].shape) != shape:
            raise Wrong(
                f"`{name}` is not what the given `__init__` creates. Restore `__init__` and write only `forward`."
            )
    extra = besides(built, shapes)
    if extra:
        raise Wrong(
            f"The layer has parameters or buffers that the given `__init__` does not create: {extra}. Restore `__init__` and write only `forward`."
        )
    for name, shape in shapes.items():
        given[name].data.copy_(0.7 * normal(numbers, *shape))
    return built


def run_multi_head(answer, seed, num_heads, x, memory=None, mask=None):
    """Build the layer and call it, as lesson 06 does: memory by position, the mask by name, neither where there is none."""
    dim = x.size(-1)
    built = built_module(answer, "MultiHeadAttention", dim, num_heads)
    layer = with_given_parameters(built, parameter_shapes(solved.MultiHeadAttention, dim, num_heads), seed).to(x.dtype)
    return layer(x, *(() if memory is None else (memory,)), **({} if mask is None else {"mask": mask}))


def multi_head_cases(generator):
    def case(b, n, num_heads, d_k, mask=None, note="", m=None):
        """Self-attention of n tokens, or cross-attention of m queries to n tokens."""
        seed, dim = int(torch.randint(10_000, (), generator=generator)), num_heads * d_k
        x, memory = normal(generator, b, m or n, dim), None if m is None else normal(generator, b, n, dim)
        return Case((seed, num_heads, x, memory, mask), note=note)

    return [
        case(2, 5, 3, 2, note="no memory, no mask"),
        case(2, 5, 3, 2, m=4, note="4 queries, memory of 5 tokens"),
        case(3, 4, 2, 4, mask_with_empty_row(generator, 3, 4), note="one fully masked row"),
        case(2, 4, 3, 3, causal_mask(4), note="a mask (n, n) for all sequences"),
        case(2, 5, 4, 2, PADDING, note="a padding mask (b, 1, n)"),
        case(2, 5, 3, 2, PADDING, m=3, note="3 queries, memory of 5 tokens, a padding mask (b, 1, n)"),
        case(3, 4, 3, 2, random_mask(generator, 3, 4, 4), note="a mask (b, n, n), and as many sequences as heads"),
        case(2, 4, 2, 3, random_mask(generator, 2, 3, 4), m=3, note="3 queries, memory of 4 tokens, a mask (b, m, n)"),
        case(2, 3, 3, 4, causal_mask(3), note="a mask (n, n), and as many tokens as heads"),
        case(2, 4, 2, 3, random_mask(generator, 3, 4), m=3, note="3 queries, memory of 4 tokens, a mask (m, n)"),
        case(2, 1, 3, 2, note="one token"),
        case(2, 3, 1, 4, note="one head"),
        case(1, 4, 2, 3, note="one sequence"),
    ]


PARTS = "(split_heads(part, self.num_heads) for part in (query, key, value))"
PLAIN_SPLIT = ("split_heads(part, self.num_heads)", "part.reshape(len(x), self.num_heads, part.size(1), -1)")
ONE_HEAD = [("split_heads(part, self.num_heads)", "part"), ("mask = mask.unsqueeze(1)", "pass")]
QUERY_KEY_VALUE = "query, _, _ = self.in_proj(x).chunk(3, -1)\n_, key, value = self.in_proj(memory).chunk(3, -1)"
NOT_SPLIT = "There is one head of width `dim`. Split queries, keys and values with `split_heads(part, self.num_heads)`."
NO_MASK = "`mask` is None where no mask is given. Check `mask is not None` before you use it."

register(
    Exercise(
        id="5.4",
        cases=multi_head_cases,
        call=run_multi_head,
        gradient=True,
        output_names=("output", "weights"),
        tolerance=1e-3,
        mistakes=[
            *attention_mistakes("query.size(-1)", "`dim`"),
            mistake(
                ", mask)",
                ", mask, self.num_heads**-0.5)",
                "The scores were divided by the square root of the number of heads. Use the square root of d_k, the default of `attention`.",
            ),
            *replacing(
                "mask is not None and mask.dim() == 3",
                {
                    "False": "A mask (b, n, n) was broadcast as if its batch axis were the heads. Add a head axis: `mask.unsqueeze(1)` gives (b, 1, n, n).",
                    "mask is not None": "A mask (n, n) also got a head axis and became (n, 1, n). Use `mask.unsqueeze(1)` only if `mask.dim() == 3`.",
                    "mask.dim() == 3": NO_MASK,
                    "True": NO_MASK,
                },
            ),
            mistake(
                *PLAIN_SPLIT,
                "The split is a reshape without `transpose(1, 2)`, so each head holds parts of several tokens. Use `split_heads`.",
            ),
            mistake(
                [PLAIN_SPLIT, ("merge_heads(context)", "context.reshape(x.shape)")],
                "Split and merge are both a bare reshape, which mixes heads and tokens. Use `split_heads` and `merge_heads`.",
            ),
            mistake(
                [
                    ("split_heads(part, self.num_heads)", "part.unflatten(-1, (self.num_heads, -1))"),
                    (", mask)", ")"),
                    ("merge_heads(context)", "context.flatten(2)"),
                ],
                "The heads of one token attended to each other. Put the heads before the tokens, (b, heads, n, d_k), with `split_heads`.",
            ),
            *replacing(
                QUERY_KEY_VALUE,
                {
                    "_, query, _ = self.in_proj(x).chunk(3, -1)\nkey, _, value = self.in_proj(memory).chunk(3, -1)": "Queries and keys are swapped. `self.in_proj` holds queries, keys and values, in this order.",
                    "query, _, _ = self.in_proj(x).chunk(3, -1)\n_, value, key = self.in_proj(memory).chunk(3, -1)": "Keys and values are swapped. `self.in_proj` holds queries, keys and values, in this order.",
                    "_, _, query = self.in_proj(x).chunk(3, -1)\nvalue, key, _ = self.in_proj(memory).chunk(3, -1)": "Queries and values are swapped. `self.in_proj` holds queries, keys and values, in this order.",
                    "query = key = value = self.in_proj(x)": "Queries, keys and values are each all of `self.in_proj(x)`. Split it into three first: `.chunk(3, -1)`.",
                    "query, key, value = self.in_proj(x).chunk(3, -1)": "`memory` has no effect. Keys and values are projections of `memory`, queries of `x`.",
                    "query, key, value = self.in_proj(memory).chunk(3, -1)": "The queries are projections of `memory`. Project them from `x`: one output per row of `x`.",
                    "query, _, _ = self.in_proj(memory).chunk(3, -1)\n_, key, value = self.in_proj(x).chunk(3, -1)": "x and memory are swapped. Queries are projections of `x`, keys and values of `memory`.",
                    "query, _, _ = self.in_proj(x).chunk(3, -1)\nkey, value, _ = self.in_proj(memory).chunk(3, -1)": "Keys and values are the first two blocks of `self.in_proj(memory)`. They are the last two: the blocks are queries, keys, values.",
                    "query, _, _ = self.in_proj(x).chunk(3, -1)\nkey = value = memory": "Keys and values were not projected. Take them from `self.in_proj(memory)`.",
                    "query, key, value = self.in_proj(x).chunk(3, -1)\nif memory is not x:\n    key = value = memory": "In cross-attention keys and values were not projected. Take them from `self.in_proj(memory)`.",
                    "query, _, value = self.in_proj(x).chunk(3, -1)\n_, key, _ = self.in_proj(memory).chunk(3, -1)": "The values are projections of `x`. Project both keys and values from `memory`.",
                    "query, key, _ = self.in_proj(x).chunk(3, -1)\n_, _, value = self.in_proj(memory).chunk(3, -1)": "The keys are projections of `x`. Project both keys and values from `memory`.",
                },
            ),
            *replacing(
                f"query, key, value = {PARTS}",
                {
                    "query, key, value = split_heads(self.in_proj(x), self.num_heads).chunk(3, -1)": "The heads were split before queries, keys and values. First `self.in_proj(x).chunk(3, -1)`, then `split_heads` on each.",
                },
            ),
            mistake(
                "memory = x if memory is None else memory\n",
                "",
                "`memory` is None in self-attention. Use `x` in its place then.",
            ),
            mistake(
                "memory is None",
                "not memory",
                "A tensor has no truth value. Test for the missing memory with `memory is None`.",
            ),
            mistake(
                "mask.unsqueeze(1)",
                "mask.unsqueeze(-2)",
                "`mask.unsqueeze(-2)` made (b, m, n) into (b, m, 1, n), which aligns the queries with the heads. The head axis is axis 1: `mask.unsqueeze(1)`.",
            ),
            mistake(
                "memory = x if memory is None else memory",
                "memory = x if memory is None else torch.cat([x, memory], 1)",
                "Keys and values also come from `x`. In cross-attention they are projections of `memory` alone.",
            ),
            mistake([*ONE_HEAD, ("merge_heads(context)", "context")], NOT_SPLIT),
            mistake([*ONE_HEAD, ("merge_heads(context)), weights", "context), weights.unsqueeze(1)")], NOT_SPLIT),
            *replacing(
                "self.out_proj(merge_heads(context)), weights",
                {
                    "merge_heads(context), weights": "The output projection is missing. Apply `self.out_proj` to the merged heads.",
                    "self.out_proj(context.reshape(x.shape)), weights": "The merge is a reshape without `transpose(1, 2)`, so a row holds several tokens of one head. Use `merge_heads`.",
                    "self.out_proj(context), weights": "The heads were not merged: `self.out_proj` got (b, heads, n, d_k). Apply `merge_heads` first.",
                    "self.out_proj(context.sum(1)), weights": "The heads were added. Concatenate them with `merge_heads`.",
                    "torch.relu(self.out_proj(merge_heads(context))), weights": "A ReLU follows the output projection. Remove it: this layer ends with a linear projection.",
                    "self.out_proj(merge_heads(context)), weights.mean(1)": "The weights were averaged over the heads, the default of `nn.MultiheadAttention`. Return (b, heads, n, n).",
                    "self.out_proj(merge_heads(context))": "Only the output was returned. Return output and weights.",
                    "weights, self.out_proj(merge_heads(context))": "The two results are swapped. Return the output first, then the weights.",
                    "x + self.out_proj(merge_heads(context)), weights": "x was added to the output. The residual connection belongs to the encoder layer, not here.",
                },
            ),
        ],
        hints=[
            "`self.in_proj(x).chunk(3, -1)` gives queries, keys and values, each (b, m, dim). In cross-attention take only the queries from x; keys and values come from `self.in_proj(memory)`.",
            "Start with `memory = x if memory is None else memory`; then self- and cross-attention are the same code. Apply `split_heads` to queries, keys and values.",
            "`attention` accepts any leading axes. A mask (b, m, n) needs a head axis: `mask.unsqueeze(1)` if `mask.dim() == 3`.",
            "`attention` returns (b, heads, n, d_k) and the weights. Return `self.out_proj(merge_heads(...))` and the weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.5 layer normalization
def a_learned_vector(built, name, start, dim):
    """The module's weight or bias, or what is wrong with it."""
    vector, words = getattr(built, name, None), "ones" if start else "zeros"
    make = f"`self.{name} = nn.Parameter(torch.{words}(dim))`"
    if not isinstance(vector, nn.Parameter):
        if isinstance(vector, torch.Tensor):
            raise Wrong(
                f"`self.{name}` is a plain tensor, which an optimizer would not train. Make it a parameter: {make}."
            )
        raise Wrong(
            f"`self.{name}` is {'missing' if vector is None else a_thing(vector)}. Create it in `__init__`: {make}."
        )
    if tuple(vector.shape) != (dim,):
        raise Wrong(f"`self.{name}` has shape {tuple(vector.shape)}. Use one value per feature: {make}.")
    if not torch.equal(vector.data, torch.full((dim,), start)):
        raise Wrong(f"`self.{name}` is not initialized with {words}. Use {make}.")
    return vector


def run_layer_norm(answer, seed, x, eps=None):
    """Build the norm, check its parameters, give it others and call it."""
    dim = x.size(-1)
    built = built_module(answer, "LayerNorm", dim, **({} if eps is None else {"eps": eps}))
    weight, bias = a_learned_vector(built, "weight", 1.0, dim), a_learned_vector(built, "bias", 0.0, dim)
    extra = besides(built, ("weight", "bias"))
    if extra:
        raise Wrong(
            f"The layer has parameters or buffers besides `weight` and `bias`: {extra}. Keep only these two; eps is a plain number, `self.eps = eps`."
        )
    numbers = torch.Generator().manual_seed(seed)
    for parameter in (weight, bias):
        parameter.data.copy_(normal(numbers, dim))
    return built.to(x.dtype)(x)


def norm_cases(generator):
    def case(*shape, mean=0.5, std=2.0, eps=None, note=""):
        seed = int(torch.randint(10_000, (), generator=generator))
        return Case((seed, mean + std * normal(generator, *shape), eps), note=note)

    return [
        case(2, 4, 3),
        case(3, 2, 5),
        case(5, 6, note="one sequence without a batch axis"),
        case(2, 1, 4, note="one token"),
        case(4, 4, 4, note="all sizes equal"),
        case(2, 3, 5, std=0.003, note="a small variance"),
        case(2, 4, 3, eps=0.5, note="eps=0.5"),
        case(2, 3, 6, mean=400.0, note="a large mean"),
        case(1, 3, 5, note="a batch of one"),
        case(2, 3, 4, std=0.0, note="all features of a token are equal"),
    ]


def tokens_are_independent(answer, generator):
    seed, x, _ = norm_cases(generator)[0].args
    changed = x.clone()
    changed[:, 1] += torch.arange(x.size(-1)) - 1.0
    before, after = answer(seed, x), answer(seed, changed)
    if not torch.allclose(before[:, 2:], after[:, 2:], atol=1e-5):
        raise Wrong(
            "A change of one token changed another. Take mean and variance over the features of each token, the last axis."
        )


STD, SCALED = "(variance + self.eps).sqrt()", "centered / (variance + self.eps).sqrt()"
FIXED_EPS = "The argument `eps` has no effect. Store it in `__init__`, `self.eps = eps`, and use it in `forward`."

register(
    Exercise(
        id="5.5",
        cases=norm_cases,
        call=run_layer_norm,
        gradient=True,
        tolerance=1e-3,
        properties=[tokens_are_independent],
        mistakes=[
            *(
                mistake(
                    [
                        ("x.mean(-1, keepdim=True)", f"x.mean({axes})"),
                        ("square().mean(-1, keepdim=True)", f"square().mean({axes})"),
                    ],
                    f"Mean and variance were taken over {what}. Normalize each token over its features: `mean(-1, keepdim=True)`.",
                )
                for axes, what in {
                    "-2, keepdim=True": "the positions",
                    "0, keepdim=True": "the batch, as in batch normalization",
                    "(-2, -1), keepdim=True": "a whole sequence",
                    "": "the whole tensor",
                }.items()
            ),
            mistake(
                [
                    ("x.mean(-1, keepdim=True)", "x.mean(-1)"),
                    ("centered.square().mean(-1, keepdim=True)", "x.var(-1, correction=0)"),
                ],
                "The mean lost its last axis and broadcasts along the wrong one. Use `keepdim=True` for mean and variance.",
            ),
            mistake(
                [("x.mean(-1, keepdim=True)", "x.mean(-1)"), ("square().mean(-1, keepdim=True)", "square().mean(-1)")],
                "Mean and variance lost their last axis and broadcast along the wrong one. Use `keepdim=True` for both.",
            ),
            mistake(
                [("self.eps = eps\n", ""), ("variance + self.eps", "variance + eps")],
                "`forward` does not know the argument `eps` of `__init__`. Store it there, `self.eps = eps`, and use `self.eps`.",
            ),
            mistake(
                "x - x.mean(-1, keepdim=True)",
                "x",
                "The mean was not subtracted (this is RMSNorm, lesson 09). Subtract it before computing the variance.",
            ),
            *replacing(
                "centered.square().mean(-1, keepdim=True)",
                {
                    "x.var(-1, keepdim=True)": "The variance was divided by dim - 1, the default of `torch.var` and `torch.std`. Use `correction=0`.",
                    "centered.square().sum(-1, keepdim=True)": "The features were divided by the norm of the vector. The variance is the mean of the squares, not their sum.",
                    "x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()": "With a large mean, E[x²] - E[x]² loses precision. Subtract the mean first, then square.",
                },
            ),
            *replacing(
                SCALED,
                {
                    "centered / (variance + self.eps)": "The features were divided by the variance. Divide by its square root, the standard deviation.",
                    "centered / (variance.sqrt() + self.eps)": "eps was added outside the square root. Add it to the variance.",
                    "centered / (x.std(-1, keepdim=True) + self.eps)": "`x.std(...) + eps` divides by dim - 1 and adds eps outside the square root. Use `(x.var(..., correction=0) + eps).sqrt()`.",
                    "centered / variance.sqrt()": "eps is missing, so a token with equal features gives 0 / 0. Add it to the variance.",
                    "centered / (variance + 1e-5).sqrt()": FIXED_EPS,
                    "centered / (variance + 1e-6).sqrt()": FIXED_EPS,
                    f"x / {STD}": "The mean was not subtracted before the division. Divide x minus its mean.",
                    "centered": "Only the mean was subtracted. Also divide by the standard deviation.",
                    f"centered * {STD}": "The features were multiplied by the standard deviation. Divide by it.",
                    f"(1 + {SCALED})": "The normalized features have mean 1. They must have mean 0 and standard deviation 1.",
                },
            ),
            *replacing(
                f"{SCALED} * self.weight + self.bias",
                {
                    SCALED: "`self.weight` and `self.bias` have no effect. End with `... * self.weight + self.bias`.",
                    f"{SCALED} + self.bias": "`self.weight` has no effect. Multiply by it.",
                    f"{SCALED} * self.weight": "`self.bias` has no effect. Add it.",
                    f"{SCALED} * self.bias + self.weight": "`self.weight` and `self.bias` are swapped. Multiply by `self.weight`, add `self.bias`.",
                    f"({SCALED} + self.bias) * self.weight": "`self.bias` was added before the multiplication. Multiply by `self.weight` first, then add `self.bias`.",
                },
            ),
            mistake(
                "super().__init__()\n", "", "`super().__init__()` is missing. Make it the first line of `__init__`."
            ),
        ],
        hints=[
            "`__init__`: `super().__init__()`, `self.eps = eps`, `self.weight = nn.Parameter(torch.ones(dim))`, and `self.bias` with zeros.",
            "`x.mean(-1, keepdim=True)` is the mean of each token's features; with `keepdim` it broadcasts against x.",
            "`x.var(-1, keepdim=True, correction=0)` divides by dim. Add eps, take the square root, divide, then apply weight and bias.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.6 the residual connection
def residual_cases(generator):
    def case(b, n, d, norm_first, note=""):
        W, mixing, weight, bias = (normal(generator, *size) for size in ((d, d), (n, n), (d,), (d,)))

        def sublayer(x):
            return mixing.to(x.dtype) @ torch.tanh(x @ W.to(x.dtype))

        def norm(x):
            return F.layer_norm(x, (d,), weight.to(x.dtype), bias.to(x.dtype))

        return Case(
            (2 + 3 * normal(generator, b, n, d), sublayer, norm, norm_first), note=f"norm_first={norm_first}{note}"
        )

    return [
        case(2, 4, 3, True),
        case(3, 2, 5, False),
        case(2, 5, 4, False),
        case(3, 4, 6, True),
        case(2, 1, 3, True, note=", one token"),
        case(1, 3, 2, False, note=", a batch of one"),
    ]


def identity_path(answer, generator):
    """With a sublayer that returns zeros, pre-norm is the identity."""
    x, _, norm, _ = residual_cases(generator)[0].args
    if not torch.allclose(answer(x, torch.zeros_like, norm, True), x, atol=1e-5):
        raise Wrong(
            "With a sublayer that returns zeros, pre-norm must return x unchanged. Use `x + sublayer(norm(x))`."
        )


PRE, POST, BETWEEN = "x + sublayer(norm(x))", "norm(x + sublayer(x))", "x + norm(sublayer(x))"

register(
    Exercise(
        id="5.6",
        cases=residual_cases,
        gradient=True,
        tolerance=1e-3,
        properties=[identity_path],
        mistakes=[
            mistake(
                "if norm_first",
                "if not norm_first",
                f"Pre-norm and post-norm are swapped. With `norm_first` it is `{PRE}`, without it `{POST}`.",
            ),
            *(
                mistake(POST, wrong, f"{what} Post-norm is `{POST}`.")
                for wrong, what in {
                    PRE: "`norm_first` has no effect: the result is always pre-norm.",
                    BETWEEN: "Post-norm normalized the sublayer's output before the addition.",
                    "norm(x + sublayer(norm(x)))": "Post-norm has a second norm before the sublayer.",
                    "norm(sublayer(x))": "Post-norm has no residual connection.",
                    "x + sublayer(x)": "Post-norm has no norm.",
                    "norm(x) + sublayer(x)": "Post-norm normalized x alone, not the sum.",
                    "norm(x) + norm(sublayer(x))": "Post-norm normalized both terms before adding them.",
                    "x + norm(x + sublayer(x))": "Post-norm added x again after the norm.",
                }.items()
            ),
            *(
                mistake(PRE, wrong, f"{what} Pre-norm is `{PRE}`.")
                for wrong, what in {
                    POST: "`norm_first` has no effect: the result is always post-norm.",
                    BETWEEN: "Pre-norm normalized the sublayer's output, not its input.",
                    "norm(x) + sublayer(norm(x))": "Pre-norm added the normalized x, so the skip connection is not the identity.",
                    "norm(x + sublayer(norm(x)))": "Pre-norm has a second norm after the addition.",
                    "sublayer(norm(x))": "Pre-norm has no residual connection.",
                    "x + sublayer(x)": "Pre-norm has no norm.",
                }.items()
            ),
            *(
                mistake([(PRE, pre), (POST, post)], f"{what} Pre-norm is `{PRE}`, post-norm is `{POST}`.")
                for pre, post, what in [
                    (BETWEEN, BETWEEN, "Both orders normalized the sublayer's output before the addition."),
                    ("sublayer(norm(x))", "norm(sublayer(x))", "Neither order has a residual connection."),
                    ("x + sublayer(x)", "x + sublayer(x)", "Neither order has a norm."),
                ]
            ),
        ],
        hints=[
            "Both orders add the sublayer's output to x. They differ in where the norm is applied.",
            "Pre-norm, x + sublayer(norm(x)): the skip connection is the identity.",
            "Post-norm, norm(x + sublayer(x)): the sum passes through the norm.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.7 the encoder layer
def run_encoder_layer(answer, seed, norm_first, num_heads, hidden_dim, x, mask=None):
    """Build the layer and call it, without a second argument where there is no mask."""
    dim = x.size(-1)
    built = built_module(answer, "EncoderLayer", dim, num_heads, hidden_dim, norm_first=norm_first)
    shapes = parameter_shapes(solved.EncoderLayer, dim, num_heads, hidden_dim, norm_first=norm_first)
    layer = with_given_parameters(built, shapes, seed).to(x.dtype)
    return layer(x) if mask is None else layer(x, mask)


def encoder_cases(generator):
    def case(b, n, num_heads, d_k, hidden_dim, norm_first, mask=None, note=""):
        seed = int(torch.randint(10_000, (), generator=generator))
        x = 0.5 + 2 * normal(generator, b, n, num_heads * d_k)
        return Case(
            (seed, norm_first, num_heads, hidden_dim, x, mask), note=f"norm_first={norm_first}{note and ', '}{note}"
        )

    return [
        case(2, 4, 3, 2, 5, True),
        case(3, 5, 2, 2, 7, False),
        case(2, 5, 4, 2, 6, False, PADDING, note="a padding mask (b, 1, n)"),
        case(3, 4, 2, 4, 5, True, mask_with_empty_row(generator, 3, 4), note="one fully masked row"),
        case(2, 4, 3, 2, 8, True, causal_mask(4), note="a causal mask"),
        case(2, 1, 2, 3, 4, False, note="one token"),
        case(1, 3, 2, 3, 4, True, note="a batch of one"),
    ]


def no_influence_of_masked_tokens(answer, generator):
    """By gradient: under a causal mask, the first two tokens do not depend on later ones."""
    for norm_first in (True, False):
        seed, _, num_heads, hidden_dim, x, mask = encoder_cases(generator)[4].args
        x = x.clone().requires_grad_()
        output, _ = answer(seed, norm_first, num_heads, hidden_dim, x, mask)
        (gradient,) = torch.autograd.grad(output[:, 1].sum(), x)
        if gradient[:, 2:].abs().max() > 0:
            raise Wrong(
                "With a causal mask, later tokens still influence token 1. Pass the mask to `self.self_attn`; no other step may combine tokens."
            )


SUBLAYERS = """\
x = residual(x, attend, self.norm1, self.norm_first)
x = residual(x, self.feed_forward, self.norm2, self.norm_first)"""
PRE_NORM = "x = x + attend(norm1(x)); x = x + ff(norm2(x))"
POST_NORM = "x = norm1(x + attend(x)); x = norm2(x + ff(x))"


def layer_with(message, pre=PRE_NORM, post=POST_NORM):
    """The two sublayers written out for each order, one of them or both wrong."""
    names = "norm1, norm2, ff = self.norm1, self.norm2, self.feed_forward"
    return mistake(SUBLAYERS, f"{names}\nif self.norm_first:\n    {pre}\nelse:\n    {post}", message)


def in_each(message, pre, post):
    """One mistake in pre-norm and post-norm, in the first, or in the second: three models, one message."""
    return [layer_with(message, *both) for both in [(pre, post), (pre, POST_NORM), (PRE_NORM, post)]]


NOT_THE_IDENTITY = "Pre-norm replaced x by its norm, so the skip connection is not the identity. Normalize only the input of the sublayer and add to x itself."
OTHER_INPUT = "The weights come from a second call of `self.self_attn` on another input. Return the weights of the call whose output you add."

register(
    Exercise(
        id="5.7",
        cases=encoder_cases,
        call=run_encoder_layer,
        gradient=True,
        output_names=("output", "weights"),
        tolerance=1e-3,
        properties=[no_influence_of_masked_tokens],
        mistakes=[
            layer_with(
                "Pre-norm and post-norm are swapped. With `norm_first` normalize the input of each sublayer, without it the sum.",
                POST_NORM,
                PRE_NORM,
            ),
            *in_each(
                "The attention has no residual connection. Add its output to x.",
                "x = attend(norm1(x)); x = x + ff(norm2(x))",
                "x = norm1(attend(x)); x = norm2(x + ff(x))",
            ),
            *in_each(
                "The feed-forward network has no residual connection. Add its output to the x after attention.",
                "x = x + attend(norm1(x)); x = ff(norm2(x))",
                "x = norm1(x + attend(x)); x = norm2(ff(x))",
            ),
            *in_each(
                "There is no residual connection. Add the output of each sublayer to its input.",
                "x = ff(norm2(attend(norm1(x))))",
                "x = norm2(ff(norm1(attend(x))))",
            ),
            *in_each(
                "`self.norm1` was also used for the feed-forward network. Use `self.norm2` there.",
                "x = x + attend(norm1(x)); x = x + ff(norm1(x))",
                "x = norm1(x + attend(x)); x = norm1(x + ff(x))",
            ),
            *in_each(
                "The two norms are swapped. Use `self.norm1` with the attention, `self.norm2` with the feed-forward network.",
                "x = x + attend(norm2(x)); x = x + ff(norm1(x))",
                "x = norm2(x + attend(x)); x = norm1(x + ff(x))",
            ),
            *in_each(
                "The second residual connection starts at the input of the layer. Add to the x after attention.",
                "x = x + ff(norm2(x + attend(norm1(x))))",
                "x = norm2(x + ff(norm1(x + attend(x))))",
            ),
            *in_each(
                "The feed-forward network got the input of the layer. Give it the x after attention.",
                "x = x + attend(norm1(x)) + ff(norm2(x))",
                "x = norm2(norm1(x + attend(x)) + ff(x))",
            ),
            *in_each(
                "The feed-forward network came first. Apply attention first, then the feed-forward network.",
                "x = x + ff(norm2(x)); x = x + attend(norm1(x))",
                "x = norm2(x + ff(x)); x = norm1(x + attend(x))",
            ),
            *in_each(
                "The norms are missing in at least one order. Each of the two sublayers has its own norm.",
                "x = x + attend(x); x = x + ff(x)",
                "x = x + attend(x); x = x + ff(x)",
            ),
            *(
                layer_with(message, pre=pre)
                for pre, message in {
                    "x = norm1(x); x = x + attend(x); x = norm2(x); x = x + ff(x)": NOT_THE_IDENTITY,
                    "x = norm1(x); x = x + attend(x); x = x + ff(norm2(x))": NOT_THE_IDENTITY,
                    "x = norm2(x + attend(norm1(x))); x = x + ff(x)": NOT_THE_IDENTITY,
                    f"{PRE_NORM}; x = norm2(x)": "Pre-norm ends with another norm. End with the addition: a pre-norm stack has one norm after its last layer.",
                    "x = x + attend(norm1(x)); x = x + ff(x)": "Pre-norm: the input of the feed-forward network is not normalized. Apply `self.norm2`.",
                    "x = x + attend(x); x = x + ff(norm2(x))": "Pre-norm: the input of the attention is not normalized. Apply `self.norm1`.",
                    POST_NORM: "The layer is always post-norm. With `self.norm_first` normalize the input of each sublayer.",
                }.items()
            ),
            *(
                layer_with(message, post=post)
                for post, message in {
                    "x = x + norm1(attend(x)); x = x + norm2(ff(x))": "Post-norm normalized the output of each sublayer before the addition. Normalize the sum.",
                    "x = norm1(x + attend(x)); x = norm2(x + ff(norm2(x)))": "Post-norm: the input of the feed-forward network was normalized again. Apply `self.norm2` only after the addition.",
                    "x = norm1(x + attend(norm1(x))); x = norm2(x + ff(norm2(x)))": "Post-norm also normalized the inputs of the sublayers. Normalize only after each addition.",
                    "x = x + attend(x); x = norm2(x + ff(x))": "Post-norm: the first norm is missing. Normalize after each of the two additions.",
                    "x = norm1(x + attend(x)); x = x + ff(x)": "Post-norm: the second norm is missing. Normalize after each of the two additions.",
                    PRE_NORM: "The layer is always pre-norm. Without `self.norm_first` normalize after each addition.",
                }.items()
            ),
            *replacing(
                "(x, mask=mask)",
                {
                    "(x)": "The mask has no effect. Pass it on: `self.self_attn(..., mask=mask)`.",
                    "(x, mask)": "The mask was passed as `memory`, the second argument of your attention. Pass it by name: `mask=mask`.",
                    "(x, mask=None if mask is None else ~mask)": "The mask was inverted. True already means 'may attend': pass it on as it is.",
                },
            ),
            *in_each(
                "The feed-forward network is missing in at least one order. Apply it after attention, with its own residual connection.",
                "x = x + attend(norm1(x))",
                "x = norm1(x + attend(x))",
            ),
            *replacing(
                "x, all_weights[0]",
                {
                    "x": "Only the output was returned. Return output and attention weights.",
                    "all_weights[0], x": "The two results are swapped. Return the output first, then the weights.",
                    "x, all_weights[0].mean(1)": "The weights were averaged over the heads. Return (b, heads, n, n).",
                    "x, self.self_attn(x, mask=mask)[1]": OTHER_INPUT,
                },
            ),
            mistake(
                "return context\n",
                "return context, weights\n",
                "`self.self_attn` returns two tensors, and `residual` can only add one. Pass it an inner function that stores the weights and returns the output.",
            ),
            mistake(
                [("all_weights.append(weights)", "pass"), ("x, all_weights[0]", "x, None")],
                "The weights never left the inner function: an assignment in it creates a local variable. Append them to a list defined outside, or use `nonlocal`.",
            ),
            mistake(
                [("all_weights = []", "raw, all_weights = x, []"), ("(x, mask=mask)", "(x, raw, mask=mask)")],
                "With pre-norm only the queries were normalized: keys and values come from x itself. Call `self.self_attn(self.norm1(x), mask=mask)` without `memory`.",
            ),
            mistake(
                "append(weights)",
                "append(context)",
                "The second result is the output of the attention. Return its weights, (b, heads, n, n).",
            ),
            mistake(
                [
                    ("all_weights = []", "raw = self.self_attn(x, mask=mask)[1]\nall_weights = []"),
                    ("all_weights[0]", "raw"),
                ],
                "With pre-norm the weights come from x without the norm. Return the weights of the call on `self.norm1(x)`.",
            ),
            mistake(
                [
                    ("all_weights = []", "normed = self.self_attn(self.norm1(x), mask=mask)[1]\nall_weights = []"),
                    ("all_weights[0]", "normed"),
                ],
                "With post-norm the weights come from the normalized x. Return the weights of the call on x itself.",
            ),
            mistake(
                [
                    ("x = residual(x, self.feed", "attend(x)\nx = residual(x, self.feed"),
                    ("all_weights[0]", "all_weights[1]"),
                ],
                OTHER_INPUT,
            ),
        ],
        hints=[
            "`output, weights = self.self_attn(..., mask=mask)`; keep the weights for the return value.",
            "Pre-norm: attention gets `self.norm1(x)` and its output is added to x; likewise the feed-forward network.",
            "Post-norm: `x = self.norm1(x + output)`; likewise the feed-forward network with `self.norm2`.",
            "`residual` of 5.6 returns only x. To use it, define a function inside `forward` that calls `self.self_attn`, stores the weights in a list and returns the output; or write the additions yourself.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.8 divergence
def divergence_cases(generator):
    def weights(*shape):
        return (1.5 * normal(generator, *shape)).softmax(-1)

    def masked(*shape):
        """Weights with zeros, as a mask leaves them."""
        mask = random_mask(generator, *shape)
        return normal(generator, *shape).masked_fill(~mask, float("-inf")).softmax(-1)

    same = weights(2, 5)
    disjoint = torch.tensor([[0.3, 0.7, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    heads = weights(2, 3, 4, 5)
    return [
        Case((weights(4), weights(4)), note="two distributions"),
        Case((weights(3, 5), weights(3, 5))),
        Case((masked(2, 4, 6), masked(2, 4, 6)), note="some weights are 0"),
        Case((same, same.clone()), note="p and q are equal"),
        Case((disjoint, disjoint.flip(-1)), note="disjoint distributions"),
        Case((heads.unsqueeze(2), heads.unsqueeze(1)), note="every head with every head"),
        Case((weights(1, 6), weights(1, 6)), note="one row"),
    ]


def symmetric(answer, generator):
    for case in divergence_cases(generator)[:3]:
        p, q = case.args
        if not torch.allclose(answer(p, q), answer(q, p), atol=1e-5, equal_nan=True):
            raise Wrong(
                "`jensen_shannon(p, q)` and `jensen_shannon(q, p)` differ. Give both divergences from `middle` the same weight, one half."
            )


def in_range(answer, generator):
    for case in divergence_cases(generator):
        got = answer(*case.args)
        if (got < -1e-4).any() or (got > math.log(2) + 1e-4).any():
            raise Wrong(
                "The divergence leaves the range from 0 to log 2. Sum over the last axis, average the two divergences, use the natural logarithm."
            )


RESULT, FROM_P, FROM_Q = (
    "(from_p + from_q) / 2",
    "torch.xlogy(p, p) - torch.xlogy(p, middle)",
    "torch.xlogy(q, q) - torch.xlogy(q, middle)",
)
NO_MIDDLE = (
    "p was compared with q directly, which is infinite where only q is 0. Compare each with `middle = (p + q) / 2`."
)
ZERO_TIMES_LOG = "A weight of 0 gives NaN, but 0 log 0 counts as 0 here. Use `torch.xlogy(p, p)`."

register(
    Exercise(
        id="5.8",
        cases=divergence_cases,
        properties=[in_range, symmetric],
        mistakes=[
            *replacing(
                BODY,
                {
                    "return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1)": NO_MIDDLE,
                    "return (p * (p / q).log()).sum(-1)": NO_MIDDLE,
                    "return (p - q).abs().sum(-1) / 2": "This is the total variation distance. Compute the two KL divergences from `middle`.",
                    "return 1 - torch.cosine_similarity(p, q, -1)": "This is the cosine distance. Compute the two KL divergences from `middle`.",
                },
            ),
            mistake(
                [("xlogy(p, middle)", "xlogy(p, q)"), ("xlogy(q, middle)", "xlogy(q, p)")],
                "The two KL divergences compare p and q directly, which is infinite where only one is 0. Compare each with `middle`.",
            ),
            mistake([(FROM_P, "p * (p / middle).log()"), (FROM_Q, "q * (q / middle).log()")], ZERO_TIMES_LOG),
            mistake(
                [
                    ("(p + q) / 2", "((p + q) / 2).log()"),
                    ("torch.xlogy(p, middle)", "p * middle"),
                    ("torch.xlogy(q, middle)", "q * middle"),
                ],
                ZERO_TIMES_LOG,
            ),
            mistake(
                [
                    (FROM_P, "torch.xlogy(middle, middle) - torch.xlogy(middle, p)"),
                    (FROM_Q, "torch.xlogy(middle, middle) - torch.xlogy(middle, q)"),
                ],
                "The KL divergences are reversed: the sums are weighted by `middle`, not by p and q. (`F.kl_div(input, target)` weights by its target.)",
            ),
            mistake("(p + q) / 2", "p + q", "`middle` sums to 2, so it is not a distribution. Use `(p + q) / 2`."),
            *replacing(
                RESULT,
                {
                    "from_p": "Only p was compared with `middle`. Average the divergences of p and q.",
                    "from_p + from_q": "The factor 1/2 is missing. Average the two divergences.",
                    f"{RESULT} / torch.tensor(2.0).log()": "The result is in bits, with maximum 1. Use the natural logarithm, with maximum log 2.",
                    f"({RESULT}).clamp(min=0).sqrt()": "This is the Jensen-Shannon distance, the square root of the divergence. Remove the square root.",
                    f"{RESULT} / p.size(-1)": "The last axis was averaged. A divergence is the sum over all keys.",
                    f"-{RESULT}": "The sign is wrong: a divergence is never negative. Remove the minus.",
                    f"({RESULT}).sum()": "The sum ran over all axes. Sum over the last axis only.",
                    f"({RESULT}).mean()": "The mean ran over all axes. Sum over the last axis only.",
                },
            ),
        ],
        hints=[
            "`middle = (p + q) / 2` is 0 only where both are 0.",
            "Σ p log(p / middle) is `(torch.xlogy(p, p) - torch.xlogy(p, middle)).sum(-1)`; `xlogy(0, 0)` is 0.",
            "Compute the same for q and average the two. The maximum is log 2, about 0.69.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.9 ablate a head
def head_mask_cases(generator):
    def case(b, num_heads, n, d_k, d, head_mask, note=""):
        context, W_O = normal(generator, b, num_heads, n, d_k), normal(generator, num_heads * d_k, d)
        return Case((context, W_O, torch.tensor(head_mask)), note=note)

    return [
        case(2, 3, 5, 4, 6, [1.0, 0.0, 1.0], note="one head removed"),
        case(3, 2, 4, 5, 7, [1.0, 1.0], note="no head removed"),
        case(2, 4, 3, 2, 5, [0.0, 1.0, 0.0, 0.0], note="all heads but one removed"),
        case(2, 3, 4, 2, 5, [0.0, 0.0, 0.0], note="all heads removed"),
        case(2, 3, 5, 2, 4, [0.5, 1.0, 0.25], note="entries between 0 and 1"),
        case(3, 3, 3, 3, 3, [0.0, 1.0, 0.5], note="all sizes equal"),
        case(1, 1, 2, 3, 2, [0.0], note="one head, removed"),
    ]


LEFT_OUT = "The removed heads were left out, so there are fewer columns than `W_O` has rows. Multiply each head by its entry of `head_mask`."
NOT_SCALED = "An entry between 0 and 1 was treated as 0 or 1. Multiply each head by its entry of `head_mask`."

register(
    Exercise(
        id="5.9",
        cases=head_mask_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            *replacing(
                "context * head_mask.view(-1, 1, 1)",
                {
                    "context": "`head_mask` has no effect. Multiply each head output by its entry before `merge_heads`.",
                    "context * (1 - head_mask).view(-1, 1, 1)": "`head_mask` is inverted. 1 keeps a head, 0 ablates it.",
                    "context * head_mask": "`context * head_mask` aligns the mask with the features, the last axis. Heads are axis 1: `head_mask.view(-1, 1, 1)`.",
                    "context * head_mask.unsqueeze(-1)": "`head_mask` is aligned with the tokens, axis 2. Heads are axis 1: `head_mask.view(-1, 1, 1)`.",
                    "context * (head_mask / head_mask.mean()).view(-1, 1, 1)": "The remaining heads were scaled up, as in dropout. Use `head_mask` as it is: 1 leaves a head unchanged.",
                    "context * (head_mask / head_mask.sum()).view(-1, 1, 1)": "`head_mask` was divided by its sum. Use it as it is: 1 leaves a head unchanged.",
                    "context * head_mask.softmax(0).view(-1, 1, 1)": "A softmax was applied to `head_mask`. Use it as it is: 1 leaves a head unchanged.",
                    "context * head_mask.square().view(-1, 1, 1)": "`head_mask` was applied twice, so 0.5 became 0.25. Scale the head outputs or the rows of `W_O`, not both.",
                    "context * (head_mask != 0).view(-1, 1, 1)": NOT_SCALED,
                    "context * (head_mask == 1).view(-1, 1, 1)": NOT_SCALED,
                    "context[:, head_mask != 0]": LEFT_OUT,
                },
            ),
            *replacing(
                "merge_heads(context * head_mask.view(-1, 1, 1)) @ W_O",
                {
                    # If no head is left, this raises something else than `merge_heads`.
                    "torch.cat(context[:, head_mask != 0].unbind(1), -1) @ W_O": LEFT_OUT,
                    "(context * head_mask.view(-1, 1, 1)).flatten(1, 2) @ W_O": "The heads were concatenated along the tokens. Use `merge_heads` before `W_O`.",
                    "(context * head_mask.view(-1, 1, 1)).reshape(len(context), context.size(2), -1) @ W_O": "A reshape without `transpose(1, 2)` mixes tokens and heads. Use `merge_heads`.",
                    "(context * head_mask.view(-1, 1, 1)).sum(1) @ W_O": "The heads were added before the output projection. Concatenate them with `merge_heads`.",
                    "merge_heads(context) @ W_O * head_mask": "`head_mask` came after the output projection, where features no longer belong to one head. Multiply before `merge_heads`.",
                    "merge_heads(context) * head_mask @ W_O": "After `merge_heads` the last axis has heads * d_k entries, not one per head. Multiply before `merge_heads`, with `head_mask.view(-1, 1, 1)`.",
                    "(context * head_mask.view(-1, 1, 1)) @ W_O": "The heads were not merged: each has d_k features, but `W_O` has heads * d_k rows. Apply `merge_heads` first.",
                    "merge_heads(context) * head_mask.repeat(context.size(-1)) @ W_O": "`repeat` gives m0 m1 m2 m0 m1 m2, but merged heads need m0 m0 m1 m1 m2 m2. Use `repeat_interleave`.",
                    "merge_heads(context * head_mask.view(-1, 1, 1))": "The output projection is missing. Multiply the merged heads by `W_O`.",
                },
            ),
        ],
        hints=[
            "Heads are axis 1 of `context`, so `head_mask` needs shape (heads, 1, 1) to broadcast.",
            "Use `head_mask.view(-1, 1, 1)` or `head_mask[:, None, None]`.",
            "Then apply `merge_heads` and multiply by `W_O`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- quizzes
register_quiz(
    Quiz(
        id="5.a",
        question="One head gives attention weight ½ to each of two tokens with values v and w. The task is to output the pair (v, w), in this order. "
        "What can the layers after it do?",
        options=[
            (
                "Recover both values and their order, since the output contains both.",
                "The output is (v + w) / 2, the same as for (w, v). The order is lost.",
            ),
            (
                "Recover both values and their order, given enough layers.",
                "The inputs (v, w) and (w, v) give the same vector. No later layer can tell them apart.",
            ),
            (
                "Recover at best which two values were attended to, not their order.",
                "The average of v and w is also the average of w and v.",
            ),
            ("Nothing: with equal weights the values cancel to 0.", "The output is the average of the two values."),
        ],
        right=2,
        explanation="Two heads avoid this: each attends to one of the tokens, and their outputs are concatenated.",
    )
)
register_quiz(
    Quiz(
        id="5.b",
        question="A blog post uses 12 heads of width 64 in a model of width 768 and divides the scores of each head by √768, "
        "'because the model is 768 wide'. What happens?",
        options=[
            (
                "The scores are 3.5 times too small and the attention weights too uniform.",
                "√768 is 27.7 instead of 8. At initialization the attention is close to uniform.",
            ),
            (
                "The scores are 3.5 times too large and the softmax saturates.",
                "A larger divisor makes the scores smaller.",
            ),
            (
                "Nothing: √768 is correct, since queries are projected from 768 features.",
                "A score sums 64 products, so its standard deviation is √64 = 8, not √768 = 27.7.",
            ),
            (
                "It raises an error, since the shapes do not match.",
                "A scalar broadcasts to any shape, so nothing reveals the mistake.",
            ),
        ],
        right=0,
        explanation="The scale is the square root of the head width, √d_k = √64 = 8. `attention` takes it from the queries, which are already split.",
    )
)
register_quiz(
    Quiz(
        id="5.c",
        question="The head outputs are concatenated and multiplied by the output projection W_O. What does W_O add?",
        options=[
            (
                "A nonlinearity between the heads and the next layer.",
                "A matrix product is linear. The nonlinearity of the block is in the feed-forward network.",
            ),
            (
                "An average: every head contributes equally to the output.",
                "It could learn an average, but it learns how much of each head goes to each output feature.",
            ),
            (
                "Nothing: concatenation already combines the heads.",
                "Concatenation keeps them apart: the first d / h features come from head 1 alone.",
            ),
            (
                "A combination: every output feature may depend on every head.",
                "Without it, each output feature would depend on a single head.",
            ),
        ],
        right=3,
        explanation="Equivalently, each head has its own rows of W_O, and the output is the sum of the heads' contributions. That is why a single head "
        "can be removed.",
    )
)
register_quiz(
    Quiz(
        id="5.d",
        question="The model width stays 64, and one head becomes eight. 'That costs nothing.' What grows eightfold?",
        options=[
            (
                "The parameters of the three input projections and the output projection.",
                "Eight projections to width 8 are one projection to width 64, split. The number of parameters stays the same.",
            ),
            (
                "The multiplications in QKᵀ and in the product of weights and values.",
                "Eight products with 8 terms each are 64 terms, as before.",
            ),
            (
                "The scores and attention weights to store and to put through the softmax.",
                "There are eight n × n matrices instead of one, whatever the head width.",
            ),
            (
                "Nothing: the same computation is split into eight smaller ones.",
                "Eight heads have eight n × n score matrices, each with its own softmax.",
            ),
        ],
        right=2,
        explanation="The number of multiplications stays the same; the softmax and the memory for the weights grow. The figure below measures the cost.",
    )
)
register_quiz(
    Quiz(
        id="5.e",
        question="A stack of 16 layers should learn the identity, the simplest task there is. Which stack learns it more easily?",
        options=[
            (
                "The one with residual connections: a branch that outputs zeros leaves x unchanged.",
                "The identity then only requires small branches.",
            ),
            (
                "The one without residual connections: there is no second path to unlearn.",
                "Together the 16 layers would have to learn the identity, and their errors compound.",
            ),
            (
                "Both: they have the same parameters with the same initialization.",
                "The same parameters define different functions: layer(x) and x + layer(x).",
            ),
        ],
        right=0,
        explanation="The gradient benefits, too: through the skip connections it reaches the first layer without a product of 16 Jacobians.",
    )
)
register_quiz(
    Quiz(
        id="5.f",
        question="What is true of the output of layer normalization, before scale and bias?",
        options=[
            (
                "The features of each token have mean 1 and standard deviation 1.",
                "A common slip ('unit mean'). The mean is 0.",
            ),
            (
                "Each feature has mean 0 and standard deviation 1 over the positions.",
                "Then a token would depend on its neighbors. Each token is normalized on its own.",
            ),
            (
                "The features of each token were divided by their variance.",
                "They are divided by its square root. With the variance, features twice as large would come out half as large.",
            ),
            (
                "The features of each token have mean 0 and standard deviation 1.",
                "The mean is subtracted, then the result is divided by the standard deviation.",
            ),
        ],
        right=3,
        explanation="The statistics are per token, over the features. So they do not depend on batch size, sequence length or other tokens.",
    )
)
register_quiz(
    Quiz(
        id="5.g",
        question="'The norm comes before the residual connection.' Where is it?",
        options=[
            (
                "Between layer and addition in both orders, x + norm(layer(x)).",
                "This is neither pre-norm nor post-norm.",
            ),
            (
                "Pre-norm: x + layer(norm(x)). Post-norm: norm(x + layer(x)).",
                "Pre-norm normalizes the input of the layer and leaves the skip connection alone. Post-norm normalizes the sum.",
            ),
            (
                "Pre-norm: norm(x) + layer(norm(x)). Post-norm: norm(x + layer(x)).",
                "Pre-norm adds x itself. Otherwise the skip connection would not be the identity.",
            ),
            (
                "It makes no difference, since a norm only rescales its input.",
                "It decides whether the residual connections bypass the norms of the layers. The training curves below show the effect.",
            ),
        ],
        right=1,
        explanation="The argument `norm_first` makes the choice explicit. The original Transformer was post-norm; most later models are pre-norm.",
    )
)
register_quiz(
    Quiz(
        id="5.h",
        question="'Each head learns something different.' What guarantees that?",
        options=[
            (
                "The loss: it penalizes heads with similar attention weights.",
                "The loss compares predictions with targets. It does not compare heads.",
            ),
            (
                "Nothing: they only differ in their random initialization.",
                "Whether they differ must be measured. Two heads with the same initialization, including their rows of W_O, get the same gradients "
                "and stay identical.",
            ),
            (
                "The softmax: the heads compete for every token.",
                "Each head has its own softmax. Tokens compete within it, heads do not.",
            ),
            (
                "The output projection: it is orthogonal and separates them.",
                "It is initialized at random, and training does not keep it orthogonal.",
            ),
        ],
        right=1,
        explanation="So measure it: how different their attention weights are, before and after training, and how much accuracy is lost without each head.",
    )
)

"""Lesson 05: its exercises, the common mistakes in them, and its quizzes."""

import inspect
import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import nn

from utils.course.checks import Case, Wrong, a_thing
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.exercises.common import normal, nowhere_somewhere, some_looks
from utils.exercises.edits import BODY, mistake
from utils.exercises.solutions import lesson05 as solved
from utils.models import encoder as reference_encoder
from utils.models.multi_head import merge_heads
from utils.models.self_attention import causal_mask
from utils.training import heads as reference_looks


# ---------------------------------------------------------------------------------------------- 5.1 a list of heads
def list_cases(generator):
    def one(b, n, d, heads, d_k, mask=None, note=""):
        maps = normal(generator, heads, 3, d, d_k)
        return Case((normal(generator, b, n, d), maps, normal(generator, heads * d_k, d), mask), note=note)

    words = torch.arange(5) < torch.tensor([[3], [5]])
    return [
        one(2, 5, 6, 3, 2, note="no mask"),
        one(3, 4, 8, 2, 4, nowhere_somewhere(generator, 3, 4), note="one fully masked row"),
        one(2, 3, 4, 3, 5, causal_mask(3), note="a mask (n, n) for all sequences"),
        one(2, 5, 7, 4, 3, words.unsqueeze(1), note="a padding mask (b, 1, n)"),
        one(2, 3, 4, 1, 4, note="one head"),
        one(2, 1, 6, 3, 2, note="one token"),
        one(3, 4, 3, 3, 1, note="heads of width 1"),
    ]


def attention_with(weights):
    """An edit that replaces `attention` by one with other weights: a formula of the scores `s` and the `mask`."""
    scores = "q @ k.mT / q.size(-1) ** 0.5"
    return "attention(", f"(lambda q, k, v, mask: ((w := (lambda s: {weights})({scores})) @ v, w))("


def scale_mistakes(width, name):
    """For both solutions that call `attention(..., mask)`; `width` is the code of d_k."""
    return [
        mistake(", mask)", f", mask, {scale})", message)
        for scale, message in [
            (
                "x.size(-1) ** -0.5",
                f"The scores were divided by the square root of {name}. Each head uses the square root of its own d_k, the default of `attention`.",
            ),
            ("1.0", "The scores were not scaled. Leave out `scale`: `attention` divides by the square root of d_k."),
            (
                f"1 / {width}",
                "The scores were divided by d_k, not by its square root. Leave the scaling to `attention`.",
            ),
        ]
    ]


def mask_mistakes():
    """For both solutions that call `attention(..., mask)`."""
    return [
        mistake(", mask)", ")", "The mask has no effect. Pass it on to `attention`."),
        mistake(
            ", mask)",
            ", None if mask is None else ~mask)",
            "The mask was inverted. True already means 'may attend': pass it to `attention` as it is.",
        ),
        mistake(
            *attention_with("(s if mask is None else s.masked_fill(~mask, -torch.inf)).softmax(-1)"),
            "A fully masked row became NaN (0 / 0); it must be zeros. Pass the mask to `attention`, which handles such rows.",
        ),
        mistake(
            *attention_with("(s if mask is None else s.masked_fill(~mask, -1e9)).softmax(-1)"),
            "A fully masked row got uniform weights; it must be zeros. Pass the mask to `attention`, which handles such rows.",
        ),
        mistake(
            *attention_with("s.softmax(-1) * (1 if mask is None else mask)"),
            "The mask was applied after the softmax, so rows no longer sum to 1. Pass it to `attention`, which masks the scores.",
        ),
        mistake(
            *attention_with("s.softmax(-2)"),
            "The softmax ran over the queries (dim -2) and ignored the mask. `attention` normalizes over the keys.",
        ),
    ]


SLICED = "Each head received a slice of x. Every head projects the whole x: `x @ W_Q` with `W_Q` (d, d_k)."

register(
    Exercise(
        id="5.1",
        cases=list_cases,
        gradient=True,
        tolerance=1e-3,
        output_names=("output", "weights"),
        mistakes=[
            mistake(
                " @ W_O",
                "",
                "The output projection is missing. Multiply the concatenated head outputs by `W_O`.",
            ),
            *scale_mistakes("W_Q.size(-1)", "d"),
            mistake(
                ", mask)",
                ", mask, len(W_O) ** -0.5)",
                "The scores were divided by the square root of heads * d_k. Each head uses the square root of its own d_k, the default of `attention`.",
            ),
            # First among the shape errors: slices of another width raise it with other numbers.
            mistake("W_Q, W_K, W_V in maps", "x, (W_Q, W_K, W_V) in zip(x.chunk(len(maps), -1), maps)", SLICED),
            mistake(
                [
                    ("for W_Q, W_K, W_V in maps:", "s = x.size(-1) // len(maps)\nfor i, head in enumerate(maps):"),
                    (
                        "x @ W_Q, x @ W_K, x @ W_V",
                        "*(x[..., i * s : i * s + s] @ W for W in head[:, i * s : i * s + s])",
                    ),
                ],
                SLICED,
            ),
            mistake(
                "torch.cat(outputs, -1)",
                "sum(outputs)",
                "The head outputs were added. Concatenate them, `torch.cat(outputs, -1)`, to match the rows of `W_O`.",
            ),
            mistake(
                "torch.cat(outputs, -1) @ W_O",
                "sum(outputs)",
                "The head outputs were added and `W_O` was left out. Concatenate them, `torch.cat(outputs, -1)`, then multiply by `W_O`.",
            ),
            mistake(
                "torch.cat(outputs, -1)",
                "torch.cat(outputs, -2)",
                "The head outputs were concatenated along the tokens or the batch. Concatenate the features: `torch.cat(outputs, -1)`.",
            ),
            mistake(
                "torch.cat(outputs, -1)",
                "torch.stack(outputs, -1).flatten(-2)",
                "The components of the heads are interleaved. Concatenate whole heads: `torch.cat(outputs, -1)`.",
            ),
            mistake(
                "torch.cat(outputs, -1)",
                "torch.stack(outputs, 1)",
                "The head outputs were stacked on a new axis. Concatenate their features: `torch.cat(outputs, -1)`.",
            ),
            mistake(" @ W_O", " @ W_O.T", "`W_O` was transposed. Multiply by `W_O` as it is: `... @ W_O`."),
            mistake(
                "torch.cat(outputs, -1) @ W_O",
                "torch.relu(torch.cat(outputs, -1) @ W_O)",
                "A ReLU follows the output projection. Remove it: this layer ends with a linear map.",
            ),
            *(
                mistake("torch.stack(weights, 1)", wrong, f"{what} Stack them on axis 1: `torch.stack(weights, 1)`.")
                for wrong, what in [
                    ("torch.stack(weights)", "The weights have shape (heads, b, n, n), with the heads first."),
                    ("torch.stack(weights, 1).mean(1)", "The weights were averaged over the heads."),
                    ("torch.stack(weights, -1)", "The weights have shape (b, n, n, heads), with the heads last."),
                    ("torch.cat(weights, -1)", "The weights of all heads were concatenated into one row."),
                    ("weights[-1]", "Only the weights of the last head were returned."),
                    ("weights", "The weights are a list of tensors."),
                ]
            ),
            mistake(
                "in maps",
                "in maps[:1].expand_as(maps)",
                "All heads used the projections of the first head. Loop over `maps`: each head has its own three.",
            ),
            *(
                mistake(
                    "for W_Q, W_K, W_V", f"for {order}", f"{what} are swapped. Each head of `maps` holds W_Q, W_K, W_V."
                )
                for order, what in [
                    ("W_K, W_Q, W_V", "Queries and keys"),
                    ("W_Q, W_V, W_K", "Keys and values"),
                    ("W_V, W_K, W_Q", "Queries and values"),
                ]
            ),
            mistake(
                "torch.cat(outputs, -1) @ W_O, torch.stack(weights, 1)",
                "torch.stack(weights, 1), torch.cat(outputs, -1) @ W_O",
                "The two results are swapped. Return the output first, then the weights.",
            ),
            mistake(
                "return ",
                "return x + ",
                "x was added to the output. The residual connection belongs to the encoder layer, not here.",
            ),
            *mask_mistakes(),
            mistake(
                [("found, looked", "x, looked"), ("append(found)", "append(x)")],
                "x was overwritten in the loop, so each head attended to the output of the one before. All heads project the same x.",
            ),
        ],
        hints=[
            "One head is one call: `context, weights = attention(x @ W_Q, x @ W_K, x @ W_V, mask)`.",
            "Loop over the heads with `for W_Q, W_K, W_V in maps` and collect outputs and weights in two lists.",
            "Concatenate and project: `torch.cat(outputs, -1) @ W_O`. Stack the weights: `torch.stack(weights, 1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.2 split
def split_cases(generator):
    def one(b, n, heads, d_k, note=""):
        return Case((normal(generator, b, n, heads * d_k), heads), note=note)

    return [
        one(2, 5, 3, 4),
        one(3, 4, 2, 5),
        one(2, 3, 4, 2),
        one(2, 4, 1, 3, note="one head"),
        one(2, 1, 3, 2, note="one token"),
        one(1, 4, 3, 2, note="one sequence"),
        one(3, 3, 3, 3, note="all sizes equal"),
        one(2, 3, 4, 1, note="heads of width 1"),
    ]


register(
    Exercise(
        id="5.2",
        cases=split_cases,
        gradient=True,
        mistakes=[
            mistake(
                "n, heads, d // heads).transpose(1, 2)",
                "heads, n, d // heads)",
                "`view(b, heads, n, d_k)` has the right shape but splits the tokens, not their features. Use `view(b, n, heads, d_k)`, then `transpose(1, 2)`.",
            ),
            mistake(
                ".transpose(1, 2)",
                "",
                "The heads come after the tokens: (b, n, heads, d_k). Add `transpose(1, 2)`, or attention would run over the heads.",
            ),
            mistake(
                "heads, d // heads).transpose(1, 2)",
                "d // heads, heads).permute(0, 3, 1, 2)",
                "The features are interleaved: head 0 gets every `heads`-th one. Give it the first d_k: `view(b, n, heads, d_k)`.",
            ),
            mistake(
                "heads, d // heads)",
                "d // heads, heads)",
                "`heads` was used as the width of a head. There are `heads` heads of width `d // heads`: `view(b, n, heads, d // heads)`.",
            ),
            mistake(
                "view(b, n, heads, d // heads).transpose(1, 2)",
                "transpose(1, 2).reshape(b, heads, n, d // heads)",
                "The transpose came before the split, which mixes tokens and features. First `view(b, n, heads, d_k)`, then `transpose(1, 2)`.",
            ),
            *(
                mistake(
                    "transpose(1, 2)", wrong, f"{what} Return (b, heads, n, d_k): `transpose(1, 2)` after the `view`."
                )
                for wrong, what in [
                    ("permute(0, 2, 3, 1)", "Tokens and features are swapped within each head: (b, heads, d_k, n)."),
                    ("permute(2, 0, 1, 3)", "The heads come before the batch: (heads, b, n, d_k)."),
                    ("transpose(1, 2).flatten(0, 1)", "Batch and heads were merged into one axis."),
                ]
            ),
            mistake(
                "transpose(1, 2)",
                "transpose(1, 2).flip(1)",
                "The heads are in reverse order. Head 0 gets the first d_k features.",
            ),
            mistake(
                BODY,
                "return x.chunk(heads, -1)",
                "The heads are separate tensors. Stack them: `torch.stack(chunks, 1)` gives (b, heads, n, d_k).",
            ),
            mistake(
                BODY,
                "return torch.stack(x.chunk(heads, -1), -1)",
                "The heads are the last axis: (b, n, d_k, heads). Make them axis 1: (b, heads, n, d_k).",
            ),
            mistake(
                BODY,
                "return torch.stack([x] * heads, 1)",
                "Every head got all d features. Split them: each head gets `d // heads`.",
            ),
        ],
        hints=[
            "`b, n, d = x.shape`; a head has width `d // heads`.",
            "`x.view(b, n, heads, d // heads)` splits the features of each token and leaves the tokens in place.",
            "The axes are now (b, n, heads, d_k); `transpose(1, 2)` swaps tokens and heads.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.3 merge
def merge_cases(generator):
    """The shapes of 5.2, the other way round."""
    cases = [(*case.args, case.note) for case in split_cases(generator)]
    return [
        Case((normal(generator, len(x), heads, x.size(1), x.size(2) // heads),), note=note) for x, heads, note in cases
    ]


def inverse_of_the_split(answer, generator):
    x, heads = split_cases(generator)[0].args
    if not torch.equal(answer(solved.split_heads(x, heads)), x):
        raise Wrong(
            "`merge_heads(split_heads(x, heads))` does not return x. Undo the two steps of `split_heads` in reverse order."
        )


register(
    Exercise(
        id="5.3",
        cases=merge_cases,
        gradient=True,
        properties=[inverse_of_the_split],
        mistakes=[
            mistake(
                "transpose(1, 2).flatten(2)",
                "reshape(len(x), x.size(2), -1)",
                "Without `transpose(1, 2)` first, a row holds several tokens of one head. Transpose, then `flatten(2)`.",
            ),
            mistake(
                "transpose(1, 2).flatten(2)",
                "flatten(1, 2)",
                "The heads were concatenated along the tokens: (b, heads * n, d_k). Concatenate their features: (b, n, heads * d_k).",
            ),
            mistake(
                ".flatten(2)",
                "",
                "The result is still (b, n, heads, d_k). Merge the last two axes with `flatten(2)`.",
            ),
            mistake(
                "flatten(2)",
                "view(len(x), x.size(2), -1)",
                "`view` fails because a transposed tensor is not contiguous in memory. Use `flatten(2)` or `reshape`, which copy if they must.",
            ),
            mistake(
                "transpose(1, 2)",
                "permute(0, 2, 3, 1)",
                "The features of the heads are interleaved. Concatenate whole heads: `transpose(1, 2)`, then `flatten(2)`.",
            ),
            *(
                mistake(
                    "transpose(1, 2).flatten(2)",
                    f"{how}(1)",
                    f"The heads were {done}. Concatenate their features: (b, n, heads * d_k).",
                )
                for how, done in [("sum", "added"), ("mean", "averaged")]
            ),
            mistake(
                "transpose(1, 2).flatten(2)",
                "transpose(2, 3).reshape(len(x), x.size(2), -1)",
                "The wrong axes were swapped. Swap heads and tokens: `transpose(1, 2)`.",
            ),
            mistake("flatten(2)", "flip(2).flatten(2)", "The heads are in reverse order. Head 0 comes first."),
            mistake(
                "flatten(2)",
                "flatten(1)",
                "The tokens were flattened, too. Merge only heads and features: `flatten(2)`.",
            ),
            mistake(
                BODY,
                "return torch.cat(x.unbind(1))",
                "The heads were concatenated along the batch. Concatenate their features: `torch.cat(..., -1)`.",
            ),
            mistake(
                BODY,
                "return torch.cat(x.unbind(0), -1)",
                "The loop ran over the sequences of the batch. The heads are axis 1: `x.unbind(1)`.",
            ),
        ],
        hints=[
            "Undo `split_heads`: it split and transposed, so transpose and then merge.",
            "`transpose(1, 2)` gives (b, n, heads, d_k).",
            "`flatten(2)` merges the last two axes. (`view` would fail: the transposed tensor is not contiguous.)",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.4 multi-head attention
def expect_a_module(answer, name, *sizes, **options):
    """The answer's module, built."""
    if not inspect.isclass(answer):
        raise Wrong(f"Expected a class, got {a_thing(answer)}. Restore the line `class {name}(nn.Module):`.")
    built = answer(*sizes, **options)
    if not isinstance(built, nn.Module):
        raise Wrong(f"The class is not an `nn.Module`. Restore the line `class {name}(nn.Module):`.")
    return built


@cache
def parameter_shapes(module, *sizes, **options):
    return {name: tuple(parameter.shape) for name, parameter in module(*sizes, **options).named_parameters()}


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


def run_multi_head(answer, seed, heads, x, mask=None):
    """Build the layer and call it, without a second argument where there is no mask."""
    dim = x.size(-1)
    built = expect_a_module(answer, "MultiHeadAttention", dim, heads)
    layer = with_given_parameters(built, parameter_shapes(solved.MultiHeadAttention, dim, heads), seed).to(x.dtype)
    return layer(x) if mask is None else layer(x, mask)


def multi_head_cases(generator):
    def one(b, n, heads, d_k, mask=None, note=""):
        seed = int(torch.randint(10_000, (), generator=generator))
        return Case((seed, heads, normal(generator, b, n, heads * d_k), mask), note=note)

    words = torch.arange(5) < torch.tensor([[3], [5]])
    return [
        one(2, 5, 3, 2, note="no mask"),
        one(3, 4, 2, 4, nowhere_somewhere(generator, 3, 4), note="one fully masked row"),
        one(2, 4, 3, 3, causal_mask(4), note="a mask (n, n) for all sequences"),
        one(2, 5, 4, 2, words.unsqueeze(1), note="a padding mask (b, 1, n)"),
        one(3, 4, 3, 2, some_looks(generator, 3, 4, 4), note="a mask (b, n, n), and as many sequences as heads"),
        one(2, 3, 3, 4, causal_mask(3), note="a mask (n, n), and as many tokens as heads"),
        one(2, 1, 3, 2, note="one token"),
        one(2, 3, 1, 4, note="one head"),
        one(1, 4, 2, 3, note="one sequence"),
    ]


PROJECTED = "(split_heads(part, self.heads) for part in self.project(x).chunk(3, -1))"
ONE_HEAD = [("split_heads(part, self.heads)", "part"), ("mask = mask.unsqueeze(1)", "pass")]
NOT_SPLIT = "There is one head of width `dim`. Split queries, keys and values with `split_heads(part, self.heads)`."

register(
    Exercise(
        id="5.4",
        cases=multi_head_cases,
        call=run_multi_head,
        gradient=True,
        output_names=("output", "weights"),
        tolerance=1e-3,
        mistakes=[
            mistake(
                "self.mix(merge_heads(found))",
                "merge_heads(found)",
                "The output projection is missing. Apply `self.mix` to the merged heads.",
            ),
            *scale_mistakes("query.size(-1)", "`dim`"),
            mistake(
                ", mask)",
                ", mask, self.heads**-0.5)",
                "The scores were divided by the square root of the number of heads. Use the square root of d_k, the default of `attention`.",
            ),
            mistake(
                "mask = mask.unsqueeze(1)",
                "pass",
                "A mask (b, n, n) was broadcast as if its batch axis were the heads. Add a head axis: `mask.unsqueeze(1)` gives (b, 1, n, n).",
            ),
            mistake(
                " and mask.dim() == 3",
                "",
                "A mask (n, n) also got a head axis and became (n, 1, n). Use `mask.unsqueeze(1)` only if `mask.dim() == 3`.",
            ),
            *(
                mistake(
                    check,
                    without,
                    "`mask` is None where no mask is given. Check `mask is not None` before you use it.",
                )
                for check, without in [("mask is not None and ", ""), ("mask is not None and mask.dim() == 3", "True")]
            ),
            mistake(
                "split_heads(part, self.heads)",
                "part.reshape(len(x), self.heads, x.size(1), -1)",
                "The split is a reshape without `transpose(1, 2)`, so each head holds parts of several tokens. Use `split_heads`.",
            ),
            mistake(
                [
                    ("split_heads(part, self.heads)", "part.reshape(len(x), self.heads, x.size(1), -1)"),
                    ("merge_heads(found)", "found.reshape(x.shape)"),
                ],
                "Split and merge are both a bare reshape, which mixes heads and tokens. Use `split_heads` and `merge_heads`.",
            ),
            mistake(
                "merge_heads(found)",
                "found.reshape(x.shape)",
                "The merge is a reshape without `transpose(1, 2)`, so a row holds several tokens of one head. Use `merge_heads`.",
            ),
            mistake(
                [
                    ("split_heads(part, self.heads)", "part.unflatten(-1, (self.heads, -1))"),
                    (", mask)", ")"),
                    ("merge_heads(found)", "found.flatten(2)"),
                ],
                "The heads of one token attended to each other. Put the heads before the tokens, (b, heads, n, d_k), with `split_heads`.",
            ),
            mistake(
                PROJECTED,
                "split_heads(self.project(x), self.heads).chunk(3, -1)",
                "The heads were split before queries, keys and values. First `self.project(x).chunk(3, -1)`, then `split_heads` on each.",
            ),
            mistake(
                "merge_heads(found)",
                "found",
                "The heads were not merged: `self.mix` got (b, heads, n, d_k). Apply `merge_heads` first.",
            ),
            mistake(
                PROJECTED,
                "[split_heads(self.project(x), self.heads)] * 3",
                "Queries, keys and values are each all of `self.project(x)`. Split it into three first: `.chunk(3, -1)`.",
            ),
            mistake([*ONE_HEAD, ("merge_heads(found)", "found")], NOT_SPLIT),
            mistake([*ONE_HEAD, ("merge_heads(found)), weights", "found), weights.unsqueeze(1)")], NOT_SPLIT),
            *(
                mistake(
                    "query, key, value =",
                    f"{order} =",
                    f"{what} are swapped. `self.project(x)` holds queries, keys and values in this order.",
                )
                for order, what in [
                    ("key, query, value", "Queries and keys"),
                    ("query, value, key", "Keys and values"),
                    ("value, key, query", "Queries and values"),
                ]
            ),
            mistake("merge_heads(found)", "found.sum(1)", "The heads were added. Concatenate them with `merge_heads`."),
            mistake(
                "self.mix(merge_heads(found))",
                "torch.relu(self.mix(merge_heads(found)))",
                "A ReLU follows the output projection. Remove it: this layer ends with a linear map.",
            ),
            mistake(
                "), weights",
                "), weights.mean(1)",
                "The weights were averaged over the heads, the default of `nn.MultiheadAttention`. Return (b, heads, n, n).",
            ),
            mistake("), weights", ")", "Only the output was returned. Return output and weights."),
            mistake(
                "self.mix(merge_heads(found)), weights",
                "weights, self.mix(merge_heads(found))",
                "The two results are swapped. Return the output first, then the weights.",
            ),
            mistake(
                "return ",
                "return x + ",
                "x was added to the output. The residual connection belongs to the encoder layer, not here.",
            ),
            *mask_mistakes(),
        ],
        hints=[
            "`self.project(x).chunk(3, -1)` gives queries, keys and values, each (b, n, dim). Apply `split_heads` to each.",
            "`attention` accepts any leading axes. A mask (b, n, n) needs a head axis: `mask.unsqueeze(1)` if `mask.dim() == 3`.",
            "`attention` returns (b, heads, n, d_k) and the weights. Return `self.mix(merge_heads(...))` and the weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.5 divergence
def jensen_shannon(p, q):
    """p and q (..., n) to (...): the reference, with the lesson's names of its arguments."""
    return reference_looks.jensen_shannon(p, q)


def divergence_cases(generator):
    def shares(*shape):
        return (1.5 * normal(generator, *shape)).softmax(-1)

    def holes(*shape):
        """Shares with zeros, as a mask leaves them."""
        open_ = some_looks(generator, *shape)
        return normal(generator, *shape).masked_fill(~open_, float("-inf")).softmax(-1)

    same = shares(2, 5)
    apart = torch.tensor([[0.3, 0.7, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    heads = shares(2, 3, 4, 5)
    return [
        Case((shares(4), shares(4)), note="two distributions"),
        Case((shares(3, 5), shares(3, 5))),
        Case((holes(2, 4, 6), holes(2, 4, 6)), note="some weights are 0"),
        Case((same, same.clone()), note="p and q are the same"),
        Case((apart, apart.flip(-1)), note="nothing in common"),
        Case((heads.unsqueeze(2), heads.unsqueeze(1)), note="every head with every head"),
        Case((shares(1, 6), shares(1, 6)), note="one row"),
    ]


def kl(p, q):
    """The Kullback-Leibler divergence; infinite where p has something that q has not."""
    return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1)


def to_the_middle(p, q, join=lambda first, second: (first + second) / 2):
    middle = (p + q) / 2
    return join(kl(p, middle), kl(q, middle))


def naive_kl(p, q):
    """0 times log 0 is NaN."""
    return (p * (p / q).log()).sum(-1)


def naive(p, q):
    return (naive_kl(p, (p + q) / 2) + naive_kl(q, (p + q) / 2)) / 2


def by_kl_div(p, q):
    """Right, but for places that are 0 in both: the logarithm of the middle is infinite there."""
    p, q = torch.broadcast_tensors(p, q)
    log_middle = ((p + q) / 2).log()
    return sum(F.kl_div(log_middle, one, reduction="none").sum(-1) for one in (p, q)) / 2


def naive_entropy(p):
    return -(p * p.log()).sum(-1)


ZERO_TIMES_LOG = (
    "Where a weight is 0 the result is NaN: 0 times log 0 counts as 0 here, as `torch.xlogy(p, p)` has it. Masked weights are "
    "often 0."
)
NO_MIDDLE = "p was compared with q directly, which is infinite where only one of them is 0: compare each with the middle, (p + q) / 2."


def both_ways_round(answer, generator):
    for case in divergence_cases(generator)[:3]:
        p, q = case.args
        if not torch.allclose(answer(p, q), answer(q, p), atol=1e-5, equal_nan=True):
            raise Wrong(
                "`jensen_shannon(p, q)` and `jensen_shannon(q, p)` differ: both count alike, each against their middle."
            )


def never_negative(answer, generator):
    for case in divergence_cases(generator):
        found = answer(*case.args)
        if (found < -1e-4).any() or (found > math.log(2) + 1e-4).any():
            raise Wrong(
                "It leaves the range from 0 (the same) to log 2 (nothing in common): sum over the last axis, take the mean of the two "
                "parts, and the natural logarithm."
            )


register(
    Exercise(
        id="5.5",
        cases=divergence_cases,
        properties=[never_negative, both_ways_round],
        mistakes=[
            mistake(kl, NO_MIDDLE),
            mistake(lambda p, q: naive_kl(p, q), NO_MIDDLE),
            mistake(
                lambda p, q: (kl(p, q) + kl(q, p)) / 2,
                "Both directions were averaged, but p and q still meet directly, which is infinite where only one of them is 0: "
                "compare each with their middle, (p + q) / 2.",
            ),
            mistake(
                lambda p, q: to_the_middle(p, q, lambda first, second: first),
                "Only p was compared with the middle: take the mean of both, or p and q would not count alike.",
            ),
            mistake(
                lambda p, q: to_the_middle(p, q, lambda first, second: first + second),
                "The half is missing: it is the mean of the two parts, at most log 2.",
            ),
            mistake(
                lambda p, q: to_the_middle(p, q) / math.log(2),
                "That is in bits, at most 1: take the natural logarithm, and nothing in common is log 2, about 0.69.",
            ),
            mistake(
                lambda p, q: to_the_middle(p, q).clamp(min=0).sqrt(),
                "That is the root, the Jensen-Shannon distance: leave the root away.",
            ),
            mistake(naive, ZERO_TIMES_LOG),
            mistake(by_kl_div, ZERO_TIMES_LOG),
            mistake(
                lambda p, q: naive_entropy((p + q) / 2) - (naive_entropy(p) + naive_entropy(q)) / 2,
                ZERO_TIMES_LOG,
            ),
            mistake(
                lambda p, q: (kl((p + q) / 2, p) + kl((p + q) / 2, q)) / 2,
                "The two sides are swapped: the weights in the sum are p and q, not those of the middle. (`F.kl_div` takes its "
                "arguments in the other order.)",
            ),
            mistake(
                lambda p, q: to_the_middle(p, q) / p.size(-1),
                "That is the mean over the last axis: a divergence is the sum over all keys.",
            ),
            mistake(
                lambda p, q: (kl(p, p + q) + kl(q, p + q)) / 2,
                "The middle is (p + q) / 2: without the half it adds up to 2 and is no distribution.",
            ),
            mistake(
                lambda p, q: -to_the_middle(p, q),
                "The sign is wrong: a divergence is never below 0.",
            ),
            mistake(
                lambda p, q: to_the_middle(p, q).sum(),
                "There is one number for everything: sum over the last axis only, and keep those in front.",
            ),
            mistake(
                lambda p, q: to_the_middle(p, q).mean(),
                "There is one mean for everything: sum over the last axis only, and keep those in front.",
            ),
            mistake(
                lambda p, q: (p - q).abs().sum(-1) / 2,
                "That is half the sum of the differences, another distance: take the logarithms, against the middle.",
            ),
            mistake(
                lambda p, q: 1 - torch.cosine_similarity(p, q, -1),
                "That is 1 minus the cosine, another distance: take the logarithms, against the middle.",
            ),
        ],
        hints=[
            "`middle = (p + q) / 2` is 0 only where both are.",
            "Σ p log(p / middle) is `(torch.xlogy(p, p) - torch.xlogy(p, middle)).sum(-1)`; `xlogy(0, 0)` is 0.",
            "The same for q, then the mean of the two: at most log 2, about 0.69.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.6 remove a head
def mix_heads(found, W_O, gates):
    """found (b, heads, n, d_k), W_O (heads * d_k, d), gates (heads,) to (b, n, d); a gate of 0 removes its head."""
    return merge_heads(found * gates.view(-1, 1, 1)) @ W_O


def gate_cases(generator):
    def one(b, heads, n, d_k, d, gates, note=""):
        found, W_O = normal(generator, b, heads, n, d_k), normal(generator, heads * d_k, d)
        return Case((found, W_O, torch.tensor(gates)), note=note)

    return [
        one(2, 3, 5, 4, 6, [1.0, 0.0, 1.0], note="one head removed"),
        one(3, 2, 4, 5, 7, [1.0, 1.0], note="all heads stay"),
        one(2, 4, 3, 2, 5, [0.0, 1.0, 0.0, 0.0], note="one head left"),
        one(2, 3, 4, 2, 5, [0.0, 0.0, 0.0], note="every head removed"),
        one(2, 3, 5, 2, 4, [0.5, 1.0, 0.25], note="gates between 0 and 1"),
        one(3, 3, 3, 3, 3, [0.0, 1.0, 0.5], note="all sizes equal"),
        one(1, 1, 2, 3, 2, [0.0], note="one head, removed"),
    ]


def mixed(change, at_the_end=lambda output, gates: output):
    """Mixing with what was found changed by `change(found, gates)`."""

    def wrong(found, W_O, gates):
        return at_the_end(merge_heads(change(found, gates)) @ W_O, gates)

    return wrong


def gated(found, gates):
    return found * gates.view(-1, 1, 1)


def gates_in_turn(found, W_O, gates):
    return (merge_heads(found) * gates.repeat(found.size(-1))) @ W_O


def heads_cut_out(merge):
    """Only those that stay are merged. If none does, ways to merge differ in what they raise."""
    return lambda found, W_O, gates: merge(found[:, gates != 0]) @ W_O


def rows_cut_out(found, W_O, gates):
    stays = gates != 0
    return merge_heads(found[:, stays]) @ W_O[stays.repeat_interleave(found.size(-1))]


CUT_OUT = (
    "The removed heads were cut out, and now there are fewer columns than `W_O` has rows: multiply by the gate, so that "
    "zeros stay in their place."
)
ROWS_OR_NOT = (
    "A gate between 0 and 1 has no effect: multiply the head by its gate instead of asking only whether it is 0."
)

register(
    Exercise(
        id="5.6",
        cases=gate_cases,
        gradient=True,
        tolerance=1e-3,
        mistakes=[
            mistake(
                mixed(lambda found, gates: found),
                "The gates have no effect: multiply what each head found by its gate, before the heads are merged.",
            ),
            mistake(
                mixed(lambda found, gates: found * (1 - gates).view(-1, 1, 1)),
                "The gates are turned round: 1 lets the head through, 0 removes it.",
            ),
            mistake(
                mixed(lambda found, gates: found * gates),
                "`found * gates` lines the gates up with the last axis, the components: heads are axis 1, so the gates need "
                "shape (heads, 1, 1).",
            ),
            mistake(
                mixed(lambda found, gates: found * gates.unsqueeze(-1)),
                "The gates are lined up with the tokens: heads are axis 1, so the gates need shape (heads, 1, 1), with two axes of "
                "length 1 behind.",
            ),
            mistake(
                lambda found, W_O, gates: (found * gates.view(-1, 1, 1)).flatten(1, 2) @ W_O,
                "The heads stand one below the other when they reach `W_O`: merge them first, `merge_heads`.",
            ),
            mistake(
                lambda found, W_O, gates: gated(found, gates).reshape(len(found), found.size(2), -1) @ W_O,
                "A `reshape` without `transpose(1, 2)` mixes tokens and heads: `merge_heads` joins the heads of each token.",
            ),
            mistake(
                mixed(lambda found, gates: found, lambda output, gates: output * gates),
                "The gates came after the mixing, where no component belongs to a head any more: multiply before `merge_heads`.",
            ),
            mistake(
                mixed(lambda found, gates: gated(found, gates * len(gates) / gates.sum())),
                "The heads that stay were made larger to make up for those removed, as dropout would: here a removed head is just "
                "missing.",
            ),
            mistake(
                mixed(lambda found, gates: gated(found, gates / gates.sum())),
                "The gates were divided by their sum: they are no weights, a gate of 1 leaves its head as it is.",
            ),
            mistake(
                mixed(lambda found, gates: gated(found, gates.softmax(0))),
                "A softmax was taken over the gates: they are no scores, a gate of 1 leaves its head as it is.",
            ),
            mistake(heads_cut_out(merge_heads), CUT_OUT),
            mistake(heads_cut_out(lambda found: torch.cat(found.unbind(1), -1)), CUT_OUT),
            mistake(rows_cut_out, ROWS_OR_NOT),
            mistake(mixed(lambda found, gates: gated(found, (gates != 0).to(found.dtype))), ROWS_OR_NOT),
            mistake(mixed(lambda found, gates: gated(found, (gates == 1).to(found.dtype))), ROWS_OR_NOT),
            mistake(
                gates_in_turn,
                "`repeat` goes g0 g1 g2 g0 g1 g2, but the merged heads lie one after the other: g0 g0 g1 g1 g2 g2, which is "
                "`repeat_interleave`.",
            ),
            mistake(
                lambda found, W_O, gates: merge_heads(gated(found, gates)),
                "The output matrix was forgotten: merge the heads, then `@ W_O`.",
            ),
            mistake(
                mixed(lambda found, gates: gated(found, gates**2)),
                "The gates came in twice, so one half became one quarter: multiply what was found, or the rows of `W_O`, not both.",
            ),
            mistake(
                mixed(lambda found, gates: gated(found, gates).sum(1, keepdim=True)),
                "The heads were added up before the mixing: `W_O` wants them side by side, `merge_heads`.",
            ),
        ],
        hints=[
            "Heads are axis 1 of `found`, so the gates must have shape (heads, 1, 1) to be multiplied with it.",
            "`gates.view(-1, 1, 1)` has it, `gates[:, None, None]` too.",
            "Then as always: `merge_heads`, and `@ W_O`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.7 layer normalisation
def a_learned_vector(built, name, start, dim):
    """The module's gain or shift, or what is wrong with it."""
    found, words = getattr(built, name, None), "ones" if start else "zeros"
    make = f"`self.{name} = nn.Parameter(torch.{words}(dim))`"
    if not isinstance(found, nn.Parameter):
        if isinstance(found, torch.Tensor):
            raise Wrong(f"`self.{name}` is a plain tensor, which no optimiser would find and train: {make}.")
        raise Wrong(f"`self.{name}` is {'missing' if found is None else a_thing(found)}: `__init__` makes it, {make}.")
    if tuple(found.shape) != (dim,):
        raise Wrong(f"`self.{name}` has shape {tuple(found.shape)}: one number for each feature, {make}.")
    if not torch.equal(found.data, torch.full((dim,), start)):
        raise Wrong(f"`self.{name}` must begin with {words}, so that at first the norm is all that happens: {make}.")
    return found


def run_layer_norm(answer, seed, x, eps=None):
    """Build the norm, look at its parameters, give it others and call it."""
    dim = x.size(-1)
    built = expect_a_module(answer, "LayerNorm", dim, **({} if eps is None else {"eps": eps}))
    gain, shift = a_learned_vector(built, "gain", 1.0, dim), a_learned_vector(built, "shift", 0.0, dim)
    extra = besides(built, ("gain", "shift"))
    if extra:
        raise Wrong(
            f"The layer has parameters or buffers besides gain and shift: {extra}. These two are all that it keeps; eps is a "
            "plain number, `self.eps = eps`, and `forward` does the rest by hand."
        )
    numbers = torch.Generator().manual_seed(seed)
    for parameter in (gain, shift):
        parameter.data.copy_(normal(numbers, dim))
    return built.to(x.dtype)(x)


def norm_cases(generator):
    def one(*shape, centre=0.5, spread=2.0, eps=None, note=""):
        seed = int(torch.randint(10_000, (), generator=generator))
        return Case((seed, centre + spread * normal(generator, *shape), eps), note=note)

    flat = one(2, 3, 4, spread=0.0, note="all features of a token are equal")
    return [
        one(2, 4, 3),
        one(3, 2, 5),
        one(5, 6, note="one sentence without a batch axis"),
        one(2, 1, 4, note="one token"),
        one(4, 4, 4, note="all sizes equal"),
        one(2, 3, 5, spread=0.003, note="features that hardly differ"),
        one(2, 4, 3, eps=0.5, note="eps=0.5"),
        one(2, 3, 6, centre=400.0, note="far from zero"),
        one(1, 3, 5, note="one sentence"),
        flat,
    ]


def centre_of(x):
    return x - x.mean(-1, keepdim=True)


def variance_of(x):
    return x.var(-1, keepdim=True, correction=0)


def norm_with(normed=None, finish=lambda self, y: y * self.gain + self.shift):
    """A norm by `normed(x, eps)`, with a gain and a shift that can go wrong as well."""

    class LayerNorm(reference_encoder.LayerNorm):
        def forward(self, x):
            plain = centre_of(x) / (variance_of(x) + self.eps).sqrt() if normed is None else normed(x, self.eps)
            return finish(self, plain)

    return LayerNorm


def over(*axes):
    """The right formula over other axes."""

    def normed(x, eps):
        variance = x.var(axes, keepdim=True, correction=0)
        return (x - x.mean(axes, keepdim=True)) / (variance + eps).sqrt()

    return normed


def over_everything(x, eps):
    return (x - x.mean()) / (x.var(correction=0) + eps).sqrt()


def without_keepdim(x, eps):
    return (x - x.mean(-1)) / (x.var(-1, correction=0) + eps).sqrt()


def with_a_fixed_eps(eps):
    return lambda x, _: centre_of(x) / (variance_of(x) + eps).sqrt()


def by_squares(x, eps):
    """The mean of the squares minus the square of the mean: far from zero two large numbers cancel."""
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (x.square().mean(-1, keepdim=True) - mean.square() + eps).sqrt()


class WithoutSuper(nn.Module):
    def __init__(self, dim, eps=1e-5):
        self.gain = nn.Parameter(torch.ones(dim))


FIXED_EPS = "The argument `eps` has no effect: keep it in `__init__`, `self.eps = eps`, and use it in `forward`."


def tokens_do_not_meet(answer, generator):
    seed, x, _ = norm_cases(generator)[0].args
    changed = x.clone()
    changed[:, 1] += torch.arange(x.size(-1)) - 1.0
    before, after = answer(seed, x), answer(seed, changed)
    if not torch.allclose(before[:, 2:], after[:, 2:], atol=1e-5):
        raise Wrong(
            "A change of one token changed another: mean and variance are taken over the features of each token alone, the last "
            "axis."
        )


register(
    Exercise(
        id="5.7",
        cases=norm_cases,
        call=run_layer_norm,
        methods=("__init__", "forward"),
        gradient=True,
        tolerance=1e-3,
        properties=[tokens_do_not_meet],
        mistakes=[
            mistake(
                norm_with(over(-2)),
                "Mean and variance ran over the positions: each token is normalised on its own, over its features, the last axis.",
            ),
            mistake(
                norm_with(over(0)),
                "Mean and variance ran over the batch, as batch normalisation does: each token is normalised on its own, over its "
                "features, the last axis.",
            ),
            mistake(
                norm_with(over(-2, -1)),
                "Mean and variance ran over a whole sentence: each token has its own, over its features alone, the last axis.",
            ),
            mistake(
                norm_with(over_everything),
                "There is one mean and one variance for everything: each token has its own, over the last axis, "
                "`mean(-1, keepdim=True)`.",
            ),
            mistake(
                norm_with(without_keepdim),
                "The mean lost its axis and is lined up with the wrong one: `mean(-1, keepdim=True)`, and the variance alike.",
            ),
            mistake(
                norm_with(lambda x, eps: centre_of(x) / (variance_of(x) + eps)),
                "It was divided by the variance: divide by its root, the deviation.",
            ),
            mistake(
                norm_with(lambda x, eps: centre_of(x) / (x.var(-1, keepdim=True) + eps).sqrt()),
                "The variance was divided by dim - 1, as torch's `var` and `std` do unless told otherwise: here it is the plain "
                "mean of the squares, `correction=0`.",
            ),
            mistake(
                norm_with(lambda x, eps: centre_of(x) / (variance_of(x).sqrt() + eps)),
                "eps stands outside of the root: add it to the variance, then take the root.",
            ),
            mistake(
                norm_with(lambda x, eps: centre_of(x) / (x.std(-1, keepdim=True) + eps)),
                "Two things at once, both from `x.std(...) + eps`: torch's `std` divides by dim - 1, and eps stands outside of the "
                "root. Take `var` with `correction=0`, add eps, then the root.",
            ),
            mistake(
                norm_with(lambda x, eps: centre_of(x) / variance_of(x).sqrt()),
                "Where all features are equal, 0 was divided by 0: eps is missing, add it to the variance.",
            ),
            mistake(
                norm_with(lambda x, eps: x / (x.square().mean(-1, keepdim=True) + eps).sqrt()),
                "The mean was not subtracted, only the size was made 1 (that is RMS norm, lesson 09): subtract it first.",
            ),
            mistake(
                norm_with(lambda x, eps: x / (variance_of(x) + eps).sqrt()),
                "The mean was not subtracted: the features must have mean 0 before they are divided.",
            ),
            mistake(
                norm_with(lambda x, eps: centre_of(x)),
                "Only the mean was subtracted: divide by the deviation, too.",
            ),
            mistake(
                norm_with(lambda x, eps: centre_of(x) * (variance_of(x) + eps).sqrt()),
                "It was multiplied by the deviation: divide by it.",
            ),
            mistake(
                norm_with(lambda x, eps: centre_of(x) / (centre_of(x).square().sum(-1, keepdim=True) + eps).sqrt()),
                "It was divided by the length of the vector: the variance is the mean of the squares, not their sum.",
            ),
            mistake(
                norm_with(finish=lambda self, y: y), "Gain and shift have no effect: `... * self.gain + self.shift`."
            ),
            mistake(
                norm_with(finish=lambda self, y: y + self.shift), "The gain has no effect: multiply by `self.gain`."
            ),
            mistake(norm_with(finish=lambda self, y: y * self.gain), "The shift has no effect: add `self.shift`."),
            mistake(
                norm_with(finish=lambda self, y: y * self.shift + self.gain),
                "Gain and shift are swapped: multiply by `self.gain`, add `self.shift`.",
            ),
            mistake(
                norm_with(finish=lambda self, y: (y + self.shift) * self.gain),
                "The shift came before the gain: multiply by `self.gain` first, then add `self.shift`.",
            ),
            mistake(
                norm_with(lambda x, eps: 1 + centre_of(x) / (variance_of(x) + eps).sqrt()),
                "The features have mean 1 before gain and shift: they must have mean 0 and deviation 1.",
            ),
            mistake(norm_with(with_a_fixed_eps(1e-5)), FIXED_EPS),
            mistake(norm_with(with_a_fixed_eps(1e-6)), FIXED_EPS),
            mistake(
                norm_with(by_squares),
                "Far from zero the variance is off: the mean of the squares minus the square of the mean is the difference of two "
                "large numbers. Subtract the mean first, then square.",
            ),
            mistake(
                WithoutSuper,
                "The first line of `__init__` is missing: `super().__init__()`, before the parameters are made.",
            ),
        ],
        hints=[
            "`__init__`: `super().__init__()`, `self.eps = eps`, `self.gain = nn.Parameter(torch.ones(dim))`, and the shift with zeros.",
            "`x.mean(-1, keepdim=True)` is the mean of each token's features; `keepdim` leaves an axis of length 1, so that it can be "
            "subtracted.",
            "`x.var(-1, keepdim=True, correction=0)` divides by dim. Add eps, take the root, divide; then gain and shift.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.8 the residual
def residual(x, layer, norm, order):
    """x and what `layer` makes of it: norm inside the branch ("pre") or after the sum ("post")."""
    return x + layer(norm(x)) if order == "pre" else norm(x + layer(x))


def residual_cases(generator):
    def one(b, n, d, order, note=""):
        W, mixing, gain, shift = (normal(generator, *size) for size in ((d, d), (n, n), (d,), (d,)))

        def layer(x):
            return mixing.to(x.dtype) @ torch.tanh(x @ W.to(x.dtype))

        def norm(x):
            return F.layer_norm(x, (d,), gain.to(x.dtype), shift.to(x.dtype))

        return Case((2 + 3 * normal(generator, b, n, d), layer, norm, order), note=note)

    return [
        one(2, 4, 3, "pre", note="pre-norm"),
        one(3, 2, 5, "post", note="post-norm"),
        one(2, 5, 4, "post", note="post-norm"),
        one(3, 4, 6, "pre", note="pre-norm"),
        one(2, 1, 3, "pre", note="pre-norm, one token"),
        one(1, 3, 2, "post", note="post-norm, one sentence"),
    ]


def orders(pre=lambda x, layer, norm: x + layer(norm(x)), post=lambda x, layer, norm: norm(x + layer(x))):
    """Both orders, either of which can be replaced by a wrong one."""
    return lambda x, layer, norm, order: (pre if order == "pre" else post)(x, layer, norm)


def sums_before(x, layer, norm):
    return x + layer(norm(x))


def sums_after(x, layer, norm):
    return norm(x + layer(x))


def norm_on_the_branch(x, layer, norm):
    return x + norm(layer(x))


def the_way_past_stays_free(answer, generator):
    """A branch that says nothing: pre-norm hands x on as it is."""
    x, _, norm, _ = residual_cases(generator)[0].args
    if not torch.allclose(answer(x, torch.zeros_like, norm, "pre"), x, atol=1e-5):
        raise Wrong(
            'With a layer that returns zeros and order "pre", x must come out as it went in: `x + layer(norm(x))`.'
        )


register(
    Exercise(
        id="5.8",
        cases=residual_cases,
        gradient=True,
        tolerance=1e-3,
        properties=[the_way_past_stays_free],
        mistakes=[
            mistake(
                orders(sums_after, sums_before),
                'The two orders are swapped: "pre" has the norm inside the branch, before the layer; "post" after the sum.',
            ),
            mistake(
                orders(post=sums_before),
                'The order has no effect, it is always "pre": with "post" the norm comes after the sum, `norm(x + layer(x))`.',
            ),
            mistake(
                orders(pre=sums_after),
                'The order has no effect, it is always "post": with "pre" the norm stands inside the branch, '
                "`x + layer(norm(x))`.",
            ),
            mistake(
                orders(post=norm_on_the_branch),
                "Post-norm took the norm of what the layer returned, before the sum: it comes after the sum, and x goes through it "
                "as well, `norm(x + layer(x))`.",
            ),
            mistake(
                orders(pre=norm_on_the_branch),
                "Pre-norm took the norm of what the layer returned: it stands in front of the layer, `x + layer(norm(x))`.",
            ),
            mistake(
                orders(pre=norm_on_the_branch, post=norm_on_the_branch),
                'The norm stands between the layer and the sum, in both orders: "pre" is in front of the layer, "post" after the '
                "sum.",
            ),
            mistake(
                orders(pre=lambda x, layer, norm: norm(x) + layer(norm(x))),
                "Pre-norm added the normalised x: the way past the layer stays free, it is x itself that is added.",
            ),
            mistake(
                orders(pre=lambda x, layer, norm: norm(x + layer(norm(x)))),
                "Pre-norm has a second norm after the sum: with it the way past the layer is not free any more.",
            ),
            mistake(
                orders(post=lambda x, layer, norm: norm(x + layer(norm(x)))),
                "Post-norm has a second norm in front of the layer: there is one, after the sum.",
            ),
            mistake(
                orders(pre=lambda x, layer, norm: layer(norm(x)), post=lambda x, layer, norm: norm(layer(x))),
                "x itself is gone: what the layer returned is added to x, in both orders.",
            ),
            mistake(
                orders(pre=lambda x, layer, norm: layer(norm(x))),
                'With "pre" the sum is missing: `x + layer(norm(x))`.',
            ),
            mistake(
                orders(post=lambda x, layer, norm: norm(layer(x))),
                'With "post" the sum is missing: `norm(x + layer(x))`.',
            ),
            mistake(
                orders(post=lambda x, layer, norm: x + layer(x)),
                'With "post" the norm is missing: `norm(x + layer(x))`.',
            ),
            mistake(
                orders(pre=lambda x, layer, norm: x + layer(x)),
                'With "pre" the norm is missing: `x + layer(norm(x))`.',
            ),
            mistake(
                orders(pre=lambda x, layer, norm: x + layer(x), post=lambda x, layer, norm: x + layer(x)),
                "The norm is missing in both orders.",
            ),
            mistake(
                orders(post=lambda x, layer, norm: norm(x) + layer(x)),
                "Post-norm took the norm of x alone: first the sum, then the norm of it.",
            ),
            mistake(
                orders(post=lambda x, layer, norm: norm(x) + norm(layer(x))),
                "Post-norm took two norms and then the sum: first the sum, then one norm of it.",
            ),
            mistake(
                orders(post=lambda x, layer, norm: x + norm(x + layer(x))),
                "Post-norm added x once more after the norm: the norm of the sum is all.",
            ),
        ],
        hints=[
            "Both orders add what the layer returned to x. They differ in where the norm stands.",
            "Pre-norm: x + layer(norm(x)). The way from x to the output past the layer touches nothing.",
            "Post-norm: norm(x + layer(x)). Everything goes through the norm.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 5.9 the encoder layer
class EncoderLayer(reference_encoder.EncoderLayer):
    """The reference as the lesson calls it: the weights always come along."""

    def forward(self, x, mask=None):
        """x (b, n, dim), mask as in `MultiHeadAttention`, to x (b, n, dim) and weights (b, heads, n, n)."""
        return super().forward(x, mask, need_weights=True)


def run_encoder_layer(answer, seed, norm, heads, hidden, x, mask=None):
    """Build the layer and call it, without a second argument where there is no mask."""
    dim = x.size(-1)
    built = expect_a_module(answer, "EncoderLayer", dim, heads, hidden, norm=norm)
    shapes = parameter_shapes(EncoderLayer, dim, heads, hidden, norm=norm)
    layer = with_given_parameters(built, shapes, seed).to(x.dtype)
    return layer(x) if mask is None else layer(x, mask)


def encoder_cases(generator):
    def one(b, n, heads, d_k, hidden, norm, mask=None, note=""):
        seed = int(torch.randint(10_000, (), generator=generator))
        x = 0.5 + 2 * normal(generator, b, n, heads * d_k)
        return Case((seed, norm, heads, hidden, x, mask), note=f"{norm}-norm{note and ', '}{note}")

    words = torch.arange(5) < torch.tensor([[3], [5]])
    return [
        one(2, 4, 3, 2, 5, "pre"),
        one(3, 5, 2, 2, 7, "post"),
        one(2, 5, 4, 2, 6, "post", words.unsqueeze(1), note="a padding mask (b, 1, n)"),
        one(3, 4, 2, 4, 5, "pre", nowhere_somewhere(generator, 3, 4), note="one token may look nowhere"),
        one(2, 4, 3, 2, 8, "pre", causal_mask(4), note="a causal mask"),
        one(2, 1, 2, 3, 4, "post", note="one token"),
        one(1, 3, 2, 3, 4, "pre", note="one sentence"),
    ]


def pre_norm(x, look, think, first, second):
    x = x + look(first(x))
    return x + think(second(x))


def post_norm(x, look, think, first, second):
    x = first(x + look(x))
    return second(x + think(x))


def layer_with(
    pre=pre_norm, post=post_norm, seen=lambda mask: mask, results=lambda output, weights, found: (output, weights)
):
    """The layer with parts that can be replaced by wrong ones; `seen` is the mask that attention gets."""

    def forward(self, x, mask=None):
        looked = []

        def look(x):
            found, weights = self.attention(x, mask=seen(mask), need_weights=True)
            looked.append((found, weights))
            return found

        arrange = pre if self.norm == "pre" else post
        output = arrange(x, look, self.feed_forward, self.attention_norm, self.feed_forward_norm)
        found, weights = looked[-1]
        return results(output, weights, found)

    return type("EncoderLayer", (reference_encoder.EncoderLayer,), {"forward": forward})


def in_each(message, pre=pre_norm, post=post_norm):
    """One mistake made in both orders, in one, or in the other: three models, one message."""
    pairs = dict.fromkeys([(pre, post), (pre, post_norm), (pre_norm, post)])
    return [mistake(layer_with(*pair), message) for pair in pairs if pair != (pre_norm, post_norm)]


def pre_with(first_sum=True, second_sum=True, norms=(0, 1), asks=lambda before, after: after, last=lambda x, second: x):
    """Pre-norm with sums left out, other norms, or a feed-forward net that reads something else."""

    def arrange(x, look, think, *both):
        found = look(both[norms[0]](x))
        after = x + found if first_sum else found
        made = think(both[norms[1]](asks(x, after)))
        return last(after + made if second_sum else made, both[1])

    return arrange


def post_with(first_sum=True, second_sum=True, norms=(0, 1)):
    """Post-norm with sums left out or other norms."""

    def arrange(x, look, think, *both):
        found = look(x)
        x = both[norms[0]](x + found if first_sum else found)
        made = think(x)
        return both[norms[1]](x + made if second_sum else made)

    return arrange


def pre_that_keeps_the_norm(x, look, think, first, second):
    x = first(x)
    x = x + look(x)
    x = second(x)
    return x + think(x)


def pre_that_keeps_the_first_norm(x, look, think, first, second):
    x = first(x)
    x = x + look(x)
    return x + think(second(x))


def pre_that_keeps_the_second_norm(x, look, think, first, second):
    x = second(x + look(first(x)))
    return x + think(x)


def without_norms(x, look, think, first, second):
    x = x + look(x)
    return x + think(x)


def pre_with_the_first_x(x, look, think, first, second):
    return x + think(second(x + look(first(x))))


def post_with_the_first_x(x, look, think, first, second):
    return second(x + think(first(x + look(x))))


def post_inside(x, look, think, first, second):
    x = x + first(look(x))
    return x + second(think(x))


def post_with_one_norm(x, look, think, first, second):
    x = x + look(x)
    return second(x + think(x))


def post_side_by_side(x, look, think, first, second):
    return second(first(x + look(x)) + think(x))


def thinks_first(x, look, think, first, second):
    x = x + think(second(x))
    return x + look(first(x))


def thinks_first_then_norm(x, look, think, first, second):
    x = second(x + think(x))
    return first(x + look(x))


def pre_without_second_norm(x, look, think, first, second):
    x = x + look(first(x))
    return x + think(x)


def pre_without_first_norm(x, look, think, first, second):
    x = x + look(x)
    return x + think(second(x))


REPLACED = (
    "Pre-norm replaced x by its norm, so the way past the layer is not free any more: normalise what goes into the layer, and "
    "add to x itself."
)


def no_influence_from_hidden_tokens(answer, generator):
    """By gradient: a token that hears nobody but itself does not change with the others."""
    for norm in ("pre", "post"):
        seed, _, heads, hidden, x, mask = encoder_cases(generator)[4].args
        x = x.clone().requires_grad_()
        output, _ = answer(seed, norm, heads, hidden, x, mask)
        (gradient,) = torch.autograd.grad(output[:, 1].sum(), x)
        if gradient[:, 2:].abs().max() > 0:
            raise Wrong(
                "With a causal mask, later tokens still influence token 1: hand the mask on to `self.attention`, and let nothing else "
                "run over the tokens."
            )


register(
    Exercise(
        id="5.9",
        cases=encoder_cases,
        call=run_encoder_layer,
        methods=("forward",),
        gradient=True,
        output_names=("output", "weights"),
        tolerance=1e-3,
        properties=[no_influence_from_hidden_tokens],
        mistakes=[
            mistake(
                layer_with(post_norm, pre_norm),
                'The two orders are swapped: "pre" has the norm inside each branch, "post" after each sum.',
            ),
            mistake(
                layer_with(post=pre_norm),
                'It is pre-norm whatever `self.norm` says: with "post" each norm comes after its sum.',
            ),
            mistake(
                layer_with(pre=post_norm),
                'It is post-norm whatever `self.norm` says: with "pre" each norm stands in front of its layer, inside the branch.',
            ),
            *in_each(
                "The attention has no residual sum: what it found is added to x.",
                pre_with(first_sum=False),
                post_with(first_sum=False),
            ),
            *in_each(
                "The feed-forward layer has no residual sum: what it made is added to what went in.",
                pre_with(second_sum=False),
                post_with(second_sum=False),
            ),
            *in_each(
                "There is no residual sum at all: both layers add to what went into them.",
                pre_with(False, False),
                post_with(False, False),
            ),
            *in_each(
                "The norm of the attention was used for the feed-forward layer, too: each has its own, "
                "`self.feed_forward_norm`.",
                pre_with(norms=(0, 0)),
                post_with(norms=(0, 0)),
            ),
            *in_each(
                "The two norms are swapped: `self.attention_norm` belongs to the attention, `self.feed_forward_norm` to the "
                "feed-forward layer.",
                pre_with(norms=(1, 0)),
                post_with(norms=(1, 0)),
            ),
            *in_each(
                "The last sum went back to the x that came in, so what attention found is not in it: add to the x after the "
                "attention.",
                pre_with_the_first_x,
                post_with_the_first_x,
            ),
            *in_each(
                "The feed-forward layer worked on the x that came in: it comes after the attention and works on its sum.",
                pre_with(asks=lambda before, after: before),
                post_side_by_side,
            ),
            *in_each(
                "The feed-forward layer came first: the attention does, then each token works on what it found.",
                thinks_first,
                thinks_first_then_norm,
            ),
            *in_each(
                "There is no norm at all in one of the orders or in both: each of the two layers has its own.",
                without_norms,
                without_norms,
            ),
            mistake(layer_with(pre=pre_that_keeps_the_norm), REPLACED),
            mistake(layer_with(pre=pre_that_keeps_the_first_norm), REPLACED),
            mistake(layer_with(pre=pre_that_keeps_the_second_norm), REPLACED),
            mistake(
                layer_with(pre=pre_with(last=lambda x, second: second(x))),
                "Pre-norm ends with one more norm: the layer ends with the sum. (A stack of pre-norm layers has one norm behind the "
                "last.)",
            ),
            mistake(
                layer_with(pre=pre_without_second_norm),
                "Pre-norm: the feed-forward layer lacks its norm, `self.feed_forward_norm`, in front.",
            ),
            mistake(
                layer_with(pre=pre_without_first_norm),
                "Pre-norm: the attention lacks its norm, `self.attention_norm`, in front.",
            ),
            mistake(
                layer_with(post=post_inside),
                "Post-norm took the norm of what a layer returned, before the sum: it comes after the sum, and x goes through it "
                "as well.",
            ),
            mistake(
                layer_with(post=post_with_one_norm),
                "Post-norm: the first norm is missing, there is one after each of the two sums.",
            ),
            mistake(
                layer_with(seen=lambda mask: None),
                "The mask has no effect: hand it on, `self.attention(..., mask)`.",
            ),
            mistake(
                layer_with(seen=lambda mask: None if mask is None else ~mask),
                "The mask is turned round: True already means 'may look', hand it on as it is.",
            ),
            mistake(
                layer_with(pre=lambda x, look, think, first, second: x + look(first(x))),
                'With "pre" the feed-forward layer is missing: after the attention, a branch of its own.',
            ),
            mistake(
                layer_with(post=lambda x, look, think, first, second: first(x + look(x))),
                'With "post" the feed-forward layer is missing: after the attention, a branch of its own.',
            ),
            mistake(
                layer_with(
                    pre=lambda x, look, think, first, second: x + look(first(x)),
                    post=lambda x, look, think, first, second: first(x + look(x)),
                ),
                "The feed-forward layer is missing in both orders: after the attention, a branch of its own.",
            ),
            mistake(
                layer_with(results=lambda output, weights, found: output),
                "Only the output came back: return it with the weights of the attention, both.",
            ),
            mistake(
                layer_with(results=lambda output, weights, found: (weights, output)),
                "The two results are swapped: the output comes first, then the weights.",
            ),
            mistake(
                layer_with(results=lambda output, weights, found: (output, found)),
                "The second result is what the attention found: return its weights, (b, heads, n, n).",
            ),
            mistake(
                layer_with(results=lambda output, weights, found: (output, weights.mean(1))),
                "The weights were averaged over the heads: return all of them, (b, heads, n, n).",
            ),
        ],
        hints=[
            "`found, weights = self.attention(..., mask)`; keep the weights for the end.",
            "Pre-norm, two lines: `x = x + found`, where the attention got `self.attention_norm(x)`; then x plus the feed-forward layer "
            "of `self.feed_forward_norm(x)`.",
            "Post-norm, two lines: `x = self.attention_norm(x + found)`; then `self.feed_forward_norm` of x plus the feed-forward layer "
            "of x.",
            "`residual` of 5.8 takes any function of x: a small function inside `forward` can call `self.attention` and remember "
            "the weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="5.a",
        question="One head gives weight ½ to each of two tokens, whose values are v and w. The answer to the task is the pair "
        "(v, w), in this order. What can the layers after it do?",
        options=[
            (
                "Read both values off the output, since nothing is lost.",
                "The output is (v + w) / 2, and w + v gives the same: which was which is gone.",
            ),
            (
                "Recover both values and their order, once they are deep enough.",
                "Two inputs, (v, w) and (w, v), give one and the same vector: no later layer can tell them apart.",
            ),
            (
                "Tell at best which two values were found, not their order.",
                "The average of v and w is the average of w and v.",
            ),
            ("Nothing, as equal weights make the values cancel to 0.", "The output is the average of the two values."),
        ],
        right=2,
        explanation="A second head needs no weights shared out: one looks here, one there, and their findings lie side by side.",
    )
)
register_quiz(
    Quiz(
        id="5.b",
        question="A blog post builds 12 heads of width 64 in a model of width 768 and divides each head's scores by √768, "
        "'because the model is 768 wide'. What happens?",
        options=[
            (
                "The scores come out 3.5 times too small, the weights too even.",
                "27.7 instead of 8: at the start every token looks at nearly everything alike.",
            ),
            (
                "The scores come out 3.5 times too large, and the softmax saturates.",
                "Dividing by more makes them smaller.",
            ),
            (
                "Nothing: √768 is the right root, as queries are made from 768 features.",
                "A score of a head adds up 64 products, so its spread is √64 = 8; √768 is 27.7.",
            ),
            (
                "The program stops, as the shapes of scores and root do not fit.",
                "A number fits everywhere; that is why nobody notices.",
            ),
        ],
        right=0,
        explanation="The root of the head's width, d_k = 64: so 8. `attention` takes the width of the queries it is given, and those "
        "are split.",
    )
)
register_quiz(
    Quiz(
        id="5.c",
        question="After the heads come two things: they are laid side by side and multiplied by the output matrix. What does the "
        "matrix add?",
        options=[
            (
                "A non-linear step between the heads and the next layer.",
                "A matrix is linear, whatever stands around it. The non-linear step of the block is the feed-forward layer.",
            ),
            (
                "An average: every head has the same say in the output.",
                "It could be one, but it learns how much of each head goes where.",
            ),
            (
                "Nothing: laying the heads side by side has mixed them already.",
                "Side by side is not mixed: the first d / h components come from head 1 alone.",
            ),
            (
                "A mixture: every output component may draw on every head.",
                "Without it, component i would only ever hear from one head.",
            ),
        ],
        right=3,
        explanation="The same thing said otherwise: each head has its own rows of the matrix, and the output is the sum of what each "
        "head adds. That is why one can be removed.",
    )
)
register_quiz(
    Quiz(
        id="5.d",
        question="The width stays 64, and one head becomes eight. 'That costs nothing.' What really grows eightfold?",
        options=[
            (
                "The number of parameters in the three maps and the output matrix.",
                "Eight maps to width 8 are one map to width 64, cut in pieces: the number stays.",
            ),
            (
                "The multiplications in QKᵀ and in the product of weights and values.",
                "Eight products with 8 terms each are 64 terms, as before.",
            ),
            (
                "The scores and weights to store and to put through the softmax.",
                "Eight tables of n × n instead of one, whatever the width of a head.",
            ),
            (
                "Nothing at all: the same work is cut into eight smaller pieces.",
                "Eight heads have eight tables of scores, each n by n, each with its softmax.",
            ),
        ],
        right=2,
        explanation="The matrix products stay, and the softmax and the memory for scores grow. The figure below measures both.",
    )
)
register_quiz(
    Quiz(
        id="5.e",
        question="'Each head learns something different.' What makes sure of that?",
        options=[
            (
                "The loss: heads that look alike are punished.",
                "The loss asks for right answers; it does not look at heads.",
            ),
            (
                "Nothing: they only begin at different random places.",
                "What comes of it must be measured. Two heads that begin alike, with equal rows of the output matrix, get equal "
                "gradients and stay alike for ever.",
            ),
            (
                "The softmax: the heads compete with each other for every token.",
                "Each head has a softmax of its own; within it tokens compete, not heads.",
            ),
            (
                "The output matrix: it is orthogonal and keeps them apart.",
                "It begins as random numbers and becomes whatever training makes of it.",
            ),
        ],
        right=1,
        explanation="So measure: how far apart they look, before and after training, and what is lost when one is removed.",
    )
)
register_quiz(
    Quiz(
        id="5.f",
        question="A stack of 16 layers is to learn the identity, the simplest task there is. Which stack begins nearest to it?",
        options=[
            (
                "The one with residual sums: a branch that says nothing leaves x as it is.",
                "Then the identity needs nothing but small branches.",
            ),
            (
                "The one without residual sums: there is no second way that it has to unlearn.",
                "Each layer would have to learn the identity first, and errors multiply 16 times.",
            ),
            (
                "Both alike: they have the same parameters, drawn from the same numbers.",
                "The same parameters stand for different functions: layer(x) and x + layer(x).",
            ),
        ],
        right=0,
        explanation="The gradient has the same way past the layers: it reaches the first of them without being multiplied 16 times.",
    )
)
register_quiz(
    Quiz(
        id="5.g",
        question="Layer normalisation, before gain and shift. What is true of its output?",
        options=[
            (
                "Each token's features have mean 1 and deviation 1.",
                "Often said ('unit mean'); it is mean 0 and deviation 1.",
            ),
            (
                "Each feature has mean 0 and deviation 1 over the positions.",
                "Then a token would change with its neighbours. Each token is normalised on its own.",
            ),
            (
                "Each token's features were divided by their variance.",
                "By its root: divided by the variance, features twice as large would come out half as large.",
            ),
            (
                "Each token's features have mean 0 and deviation 1.",
                "Minus the mean, divided by the deviation, the root of the variance.",
            ),
        ],
        right=3,
        explanation="Over features, per token: so it does the same in a batch of one, in a short sentence and while decoding.",
    )
)
register_quiz(
    Quiz(
        id="5.h",
        question="'The norm comes before the residual sum.' Where does it really stand?",
        options=[
            (
                "Between the layer and the sum in both orders, x + norm(layer(x)).",
                "Neither of the two usual orders is this one.",
            ),
            (
                "Pre-norm: x + layer(norm(x)). Post-norm: norm(x + layer(x)).",
                "Pre-norm has it inside the branch, and x itself passes untouched; post-norm has it after the sum, and everything "
                "goes through it.",
            ),
            (
                "Pre-norm: norm(x) + layer(norm(x)). Post-norm: norm(x + layer(x)).",
                "In pre-norm it is x itself that is added, or there would be no free way through the stack.",
            ),
            (
                "It makes no difference, as a norm only rescales what comes in.",
                "It decides whether a gradient reaches the first layer without passing a norm. The curves below show what that means.",
            ),
        ],
        right=1,
        explanation="One switch, `norm`, and never a silent choice: the first Transformer was post-norm, most later models are pre-norm.",
    )
)

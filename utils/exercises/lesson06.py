"""Lesson 06: its exercises with the mistakes that people make in them, and its guess-first questions."""

import inspect
import math
from functools import cache

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from utils.course.checks import Case, Wrong, a_thing
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.exercises.common import masked_late, masked_with, normal
from utils.exercises.edits import mistake
from utils.exercises.lesson05 import expect_a_module, parameter_shapes
from utils.models import attend, attention
from utils.models import transformer as reference
from utils.models.encoder import Encoder, LayerNorm
from utils.models.self_attention import causal_mask


def whole(generator, high, *shape, low=0):
    return torch.randint(low, high, shape, generator=generator)


def up_to(lengths, n):
    """(b, n) bool: True at the first `lengths` words of each sentence."""
    return torch.arange(n) < torch.tensor(lengths).unsqueeze(1)


def words_are_long(cases):
    """Word numbers are compared with others, looked up and scored: all of that wants long."""

    def holds(answer, generator):
        results = answer(*cases(generator)[0].args)
        for result in results if isinstance(results, tuple | list) else (results,):
            if not result.is_floating_point() and result.dtype != torch.long:
                kind = f"{result.dtype}".removeprefix("torch.")
                raise Wrong(f"The words have dtype {kind}: word numbers are long (int64), or later steps refuse them.")

    return holds


# ---------------------------------------------------------------------------------------------- 6.1 word vectors
def word_vectors(words, table, positions, start=0):
    """words (b, n), table (V, d), positions (longest, d) to (b, n, d); `start` is the position of the first word."""
    n, d = words.size(1), table.size(1)
    return table[words] * math.sqrt(d) + positions[start : start + n]


def vector_cases(generator):
    def one(b, n, words, d, longest, start=0, note=""):
        args = whole(generator, words, b, n), normal(generator, words, d), normal(generator, longest, d)
        return Case((*args, start) if start else args, note=note)

    return [
        one(2, 3, 7, 4, 9, note="two sentences"),
        one(3, 5, 11, 6, 8, start=2, note="the first word stands at position 2"),
        one(2, 1, 5, 3, 7, start=5, note="one word, at position 5"),
        one(4, 4, 6, 5, 4, note="as many positions as words"),
        one(3, 3, 3, 3, 3, note="all sizes equal"),
        one(1, 2, 6, 4, 5, start=3, note="one sentence, up to the last position"),
    ]


def the_positions(words, positions, start):
    return positions[start : start + words.size(1)]


def vectors_with(
    scale=lambda words, table: table.size(1) ** 0.5,
    where=the_positions,
    join=lambda vectors, positions, root: vectors * root + positions,
):
    """The vectors as the reference makes them, with parts that can be replaced by wrong ones."""

    def wrong(words, table, positions, start=0):
        return join(table[words], where(words, positions, start), scale(words, table))

    return wrong


def every_position(words, positions, start):
    """All of the table, which fits only where it is as long as the sentence."""
    return positions


def as_many_as_the_width(words, positions, start):
    return positions[start : start + positions.size(1)]


def positions_first(vectors, positions, root):
    """The same sum the other way round: where the shapes do not fit, torch says so in other words."""
    return positions + vectors * root


ALL_POSITIONS = (
    "The whole table of positions was added: only the rows of this sentence, `positions[start : start + n]`."
)
WIDTH_OF_POSITIONS = (
    "The slice of the positions is d rows long, the width of a vector: it has a row for each word, "
    "`positions[start : start + n]` with n = `words.size(1)`."
)

register(
    Exercise(
        id="6.1",
        cases=vector_cases,
        gradient=True,
        mistakes=[
            mistake(
                vectors_with(scale=lambda words, table: 1.0),
                "The word vectors were not scaled: times the root of d, or the positions drown them.",
            ),
            mistake(
                vectors_with(scale=lambda words, table: table.size(1)),
                "The word vectors were multiplied by d: it is the root of d.",
            ),
            mistake(
                vectors_with(scale=lambda words, table: table.size(1) ** -0.5),
                "The word vectors were divided by the root of d: here they are multiplied by it.",
            ),
            mistake(
                vectors_with(scale=lambda words, table: table.size(0) ** 0.5),
                "That is the root of the number of words in the table: the root of d, the width, `table.size(1)`.",
            ),
            mistake(
                vectors_with(scale=lambda words, table: words.size(1) ** 0.5),
                "That is the root of the sentence's length: the root of d, the width, `table.size(1)`.",
            ),
            mistake(
                vectors_with(join=lambda vectors, positions, root: (vectors + positions) * root),
                "The positions were scaled, too: only the word vectors are, before the sum.",
            ),
            mistake(
                vectors_with(
                    where=lambda words, positions, start: positions[: words.size(1)],
                    join=lambda vectors, positions, root: (vectors + positions) * root,
                ),
                "Two things: the positions were scaled, too, where only the word vectors are, before the sum; and `start` has no effect.",
            ),
            mistake(
                vectors_with(
                    scale=lambda words, table: 1.0, where=lambda words, positions, start: positions[: words.size(1)]
                ),
                "Two things: the word vectors were not scaled, times the root of d; and `start` has no effect.",
            ),
            mistake(
                vectors_with(join=lambda vectors, positions, root: vectors + positions * root),
                "The positions were scaled instead of the word vectors.",
            ),
            mistake(
                vectors_with(join=lambda vectors, positions, root: vectors * root),
                "The positions are missing: without them attention cannot tell the order of the words.",
            ),
            mistake(
                vectors_with(join=lambda vectors, positions, root: vectors * root * positions),
                "Words and positions were multiplied: add them.",
            ),
            mistake(
                vectors_with(
                    join=lambda vectors, positions, root: torch.cat([vectors * root, positions.expand_as(vectors)], -1)
                ),
                "Words and positions stand side by side, 2 d wide: add them, and the width stays d.",
            ),
            mistake(
                vectors_with(where=lambda words, positions, start: positions[: words.size(1)]),
                "`start` has no effect: the first word stands at position `start`. When words come one at a time, each would get "
                "position 0.",
            ),
            mistake(
                vectors_with(where=lambda words, positions, start: positions[start : words.size(1)]),
                "The slice ends too early: it begins at `start`, so it ends at `start + n`.",
            ),
            mistake(
                vectors_with(where=lambda words, positions, start: positions[start]),
                "All words got one and the same position: word i stands at position `start + i`.",
            ),
            mistake(
                vectors_with(where=lambda words, positions, start: positions[words]),
                "The positions were looked up by word: they go by place, whatever the word.",
            ),
            mistake(
                vectors_with(
                    where=lambda words, positions, start: positions[start : start + words.size(0)].unsqueeze(1)
                ),
                "The positions count the sentences: they count the words in each, axis 1.",
            ),
            mistake(vectors_with(where=as_many_as_the_width), WIDTH_OF_POSITIONS),
            mistake(vectors_with(where=as_many_as_the_width, join=positions_first), WIDTH_OF_POSITIONS),
            mistake(vectors_with(where=every_position), ALL_POSITIONS),
            mistake(vectors_with(where=every_position, join=positions_first), ALL_POSITIONS),
            mistake(vectors_with(where=lambda words, positions, start: positions[start:]), ALL_POSITIONS),
            mistake(
                vectors_with(where=lambda words, positions, start: positions[start + 1 : start + 1 + words.size(1)]),
                "The positions are one too far: the first word stands at `start`, not at `start + 1`.",
            ),
        ],
        hints=[
            "`table[words]` looks up a row for each word: (b, n, d). Its width is `table.size(1)`.",
            "Times the root of d first; the positions are added as they are.",
            "`positions[start : start + n]` is (n, d), and the sum spreads it over the sentences.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.2 cross-attention
def cross_attention(x, memory, W_Q, W_K, W_V, mask=None):
    """x (b, m, d), memory (b, n, d), maps (d, d_k), mask (b, n) to output (b, m, d_k) and weights (b, m, n)."""
    mask = None if mask is None else mask.unsqueeze(1)
    return attention(x @ W_Q, memory @ W_K, memory @ W_V, mask)


def cross_cases(generator):
    def one(b, m, n, d, d_k, mask=None, note=""):
        maps = (normal(generator, d, d_k) for _ in range(3))
        args = normal(generator, b, m, d), normal(generator, b, n, d), *maps
        return Case(args if mask is None else (*args, mask), note=note)

    return [
        one(2, 3, 5, 4, 6, note="no mask"),
        one(2, 4, 5, 3, 2, up_to((3, 5), 5), note="padding behind a sentence"),
        one(3, 2, 4, 5, 3, up_to((4, 0, 2), 4), note="a source that is all padding"),
        one(3, 3, 4, 2, 5, up_to((2, 4, 3), 4), note="as many target words as sentences"),
        one(2, 4, 4, 3, 3, up_to((4, 2), 4), note="as many target as source words"),
        one(4, 1, 3, 2, 4, up_to((1, 3, 2, 3), 3), note="one target word"),
        one(1, 3, 4, 2, 3, up_to((3,), 4), note="one sentence"),
    ]


def cross_with(
    sides=lambda x, memory: (x, memory, memory),
    maps=lambda W_Q, W_K, W_V: (W_Q, W_K, W_V),
    scale=lambda query, x: query.size(-1) ** -0.5,
    widened=lambda mask: mask.unsqueeze(1),
    look=attend,
    results=lambda output, weights: (output, weights),
):
    """Cross-attention as the reference does it, with parts that can be replaced by wrong ones."""

    def wrong(x, memory, W_Q, W_K, W_V, mask=None):
        query, key, value = (side @ W for side, W in zip(sides(x, memory), maps(W_Q, W_K, W_V), strict=True))
        scores = query @ key.transpose(-2, -1) * scale(query, x)
        return results(*look(scores, value, None if mask is None else widened(mask)))

    return wrong


def without_value_map(x, memory, W_Q, W_K, W_V, mask=None):
    return attention(x @ W_Q, memory @ W_K, memory, None if mask is None else mask.unsqueeze(1))


def without_key_map(x, memory, W_Q, W_K, W_V, mask=None):
    """Queries of width d_k against the memory itself: fits only where d_k is d."""
    return attention(x @ W_Q, memory, memory @ W_V, None if mask is None else mask.unsqueeze(1))


def over_the_queries(scores, value, mask=None):
    hidden = scores if mask is None else scores.masked_fill(~mask, -1e30)
    weights = hidden.softmax(-2)
    return weights @ value, weights


def also_causal(scores, value, mask=None):
    causal = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return attend(scores, value, causal if mask is None else causal & mask)


SWAPPED_SIDES = (
    "The roles are swapped: the words being written ask, so queries come from x, keys and values from `memory`."
)
ROOT_OF_D = (
    "The scores were divided by the root of d, the width of x: queries and keys are d_k wide, so it is the root of d_k. "
    "Leave `scale` away and `attention` does it."
)
NO_SCALE = "The scale is missing: leave `scale` away and `attention` divides by the root of d_k."
ASKS_ITSELF = "The words looked at each other, and the source was never asked: queries come from x, keys and values from `memory`."

register(
    Exercise(
        id="6.2",
        cases=cross_cases,
        gradient=True,
        output_names=("output", "weights"),
        tolerance=1e-3,
        mistakes=[
            mistake(cross_with(sides=lambda x, memory: (memory, x, x)), SWAPPED_SIDES),
            mistake(cross_with(sides=lambda x, memory: (memory, x, x), widened=lambda mask: mask), SWAPPED_SIDES),
            mistake(cross_with(sides=lambda x, memory: (x, x, x)), ASKS_ITSELF),
            mistake(
                cross_with(sides=lambda x, memory: (x, x, x), widened=lambda mask: None),
                ASKS_ITSELF,
            ),
            mistake(
                cross_with(sides=lambda x, memory: (memory, memory, memory)),
                "The source words looked at each other, as in the encoder: queries come from x.",
            ),
            mistake(
                cross_with(sides=lambda x, memory: (x, x, memory)),
                "The keys come from x: what is looked up is the source, so keys and values both come from `memory`.",
            ),
            mistake(
                cross_with(sides=lambda x, memory: (x, memory, x)),
                "The values come from x: the words look at the source and fetch from it, `memory @ W_V`.",
            ),
            mistake(
                cross_with(sides=lambda x, memory: (memory, memory, x)),
                "Queries and values are on the wrong sides: queries come from x, keys and values from `memory`.",
            ),
            mistake(
                cross_with(look=lambda scores, value, mask=None: attend(scores, value)),
                "The mask has no effect, so the words look at padding: hand it on to `attention`, as (b, 1, n).",
            ),
            mistake(
                cross_with(widened=lambda mask: ~mask.unsqueeze(1)),
                "The mask is turned round: True already means 'may look', in `attention` as well.",
            ),
            mistake(
                cross_with(widened=lambda mask: mask),
                "A mask (b, n) met scores (b, m, n) without an axis for the target words, so its sentences were taken for words: "
                "`mask.unsqueeze(1)` makes it (b, 1, n).",
            ),
            mistake(
                cross_with(widened=lambda mask: mask.unsqueeze(2)),
                "The mask hides target words: `unsqueeze(2)` puts source words where those that look are. They are looked at: "
                "(b, 1, n), `unsqueeze(1)`.",
            ),
            mistake(
                cross_with(look=also_causal),
                "There is a causal mask on the source: all of it is known before the first word is written, so every word may look "
                "everywhere in it.",
            ),
            mistake(
                cross_with(look=masked_late),
                "The mask came after the softmax, so the weights no longer sum to 1: hand it on to `attention`.",
            ),
            mistake(
                cross_with(look=masked_with(float("-inf"))),
                "Where the whole source is padding the result is NaN, 0 divided by 0: it must be 0. `attention` takes care of it.",
            ),
            mistake(
                cross_with(look=masked_with(-1e9)),
                "Where the whole source is padding the result is the average of the padding: it must be 0. `attention` takes care "
                "of it.",
            ),
            mistake(
                cross_with(look=over_the_queries),
                "The softmax ran over the target words: it runs over the source words, the last axis of the scores.",
            ),
            mistake(cross_with(scale=lambda query, x: 1.0), NO_SCALE),
            mistake(cross_with(scale=lambda query, x: 1.0, look=masked_with(float("-inf"))), NO_SCALE),
            mistake(cross_with(scale=lambda query, x: 1.0, look=masked_with(-1e9)), NO_SCALE),
            mistake(cross_with(scale=lambda query, x: x.size(-1) ** -0.5), ROOT_OF_D),
            mistake(cross_with(scale=lambda query, x: x.size(-1) ** -0.5, look=masked_with(float("-inf"))), ROOT_OF_D),
            mistake(cross_with(scale=lambda query, x: x.size(-1) ** -0.5, look=masked_with(-1e9)), ROOT_OF_D),
            mistake(
                cross_with(maps=lambda W_Q, W_K, W_V: (W_K, W_Q, W_V)),
                "`W_Q` and `W_K` are swapped: queries are `x @ W_Q`, keys `memory @ W_K`.",
            ),
            mistake(
                cross_with(maps=lambda W_Q, W_K, W_V: (W_Q, W_V, W_K)),
                "`W_K` and `W_V` are swapped: keys are `memory @ W_K`, values `memory @ W_V`.",
            ),
            mistake(
                without_value_map,
                "The values are the memory itself: they have a map of their own, `memory @ W_V`.",
            ),
            mistake(
                without_key_map,
                "The keys are the memory itself: they have a map of their own, `memory @ W_K`.",
            ),
            mistake(
                cross_with(results=lambda output, weights: output),
                "Only the output came back: return output and weights, both.",
            ),
            mistake(
                cross_with(results=lambda output, weights: (weights, output)),
                "The two results are swapped: the output comes first, then the weights.",
            ),
        ],
        hints=[
            "A search in a database: who asks gives the queries, what is searched gives keys and values.",
            "`x @ W_Q`, `memory @ W_K` and `memory @ W_V` go into `attention`.",
            "Its mask is (b, m, n) or spreads to it: `mask.unsqueeze(1)` makes (b, 1, n) of (b, n). There may be none.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.3 the decoder layer
class DecoderLayer(reference.DecoderLayer):
    """The reference as the lesson calls it: pre-norm, and the weights always come along."""

    def __init__(self, dim, heads, hidden):
        super().__init__(dim, heads, hidden, norm="pre")

    def forward(self, x, memory, mask=None, memory_mask=None):
        """x (b, m, dim), memory (b, n, dim) to x (b, m, dim), weights (b, heads, m, m) and (b, heads, m, n)."""
        return super().forward(x, memory, mask, memory_mask, need_weights=True)


@cache
def of_the_course(kind, *sizes):
    """A module of the course's own, built once: many models of mistakes are tried on every answer."""
    return kind(*sizes)


def with_parameters(answer, course, name, sizes, seed, yours):
    """The answer's module with the same random parameters whoever wrote it; for a given `__init__`."""
    is_ours = "is_ours" in vars(answer) if inspect.isclass(answer) else False
    built = of_the_course(answer, *sizes) if is_ours else expect_a_module(answer, name, *sizes)
    shapes, given = parameter_shapes(course, *sizes), dict(built.named_parameters())
    sizes_of = [math.prod(shape) for shape in shapes.values()]
    numbers = 0.7 * normal(torch.Generator().manual_seed(seed), sum(sizes_of))
    for (part, shape), values in zip(shapes.items(), numbers.split(sizes_of), strict=True):
        if part not in given or tuple(given[part].shape) != shape:
            raise Wrong(f"`{part}` is not as `__init__` made it: put its lines back, only {yours} to write.")
        given[part].data.copy_(values.view(shape))
    return built


def run_decoder_layer(answer, seed, heads, hidden, x, memory, mask=None, memory_mask=None):
    """Build the layer and call it, without masks where there are none."""
    sizes = x.size(-1), heads, hidden
    layer = with_parameters(answer, DecoderLayer, "DecoderLayer", sizes, seed, "`forward` is yours").to(x.dtype)
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
        one(3, 4, 4, 2, 3, 5, causal_mask(4), (4, 1, 2), note="as many target as source words"),
        one(4, 3, 5, 2, 3, 7, causal_mask(3), note="a causal mask only"),
        one(2, 5, 4, 3, 2, 7, words=(2, 0), note="a source that is all padding"),
        one(4, 1, 3, 2, 3, 5, causal_mask(1), (3, 2, 1, 3), note="one target word"),
    ]


def three_branches(x, look_back, look_across, think, norms):
    x = x + look_back(norms[0](x))
    x = x + look_across(norms[1](x))
    return x + think(norms[2](x))


def layer_with(
    branches=three_branches,
    back=lambda layer, x, memory, mask, memory_mask: layer.self_attention(x, mask=mask, need_weights=True),
    across=lambda layer, x, memory, mask, memory_mask: layer.cross_attention(x, memory, memory_mask, need_weights=True),
    results=lambda output, own, cross: (output, own, cross),
):
    """The layer with parts that can be replaced by wrong ones."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        seen = {}

        def look_back(x):
            found, seen["own"] = back(self, x, memory, mask, memory_mask)
            return found

        def look_across(x):
            found, seen["cross"] = across(self, x, memory, mask, memory_mask)
            return found

        norms = self.self_norm, self.cross_norm, self.feed_forward_norm
        output = branches(x, look_back, look_across, self.feed_forward, norms)
        return results(output, seen.get("own"), seen.get("cross"))

    return type("DecoderLayer", (DecoderLayer,), {"forward": forward, "is_ours": True})


def branches_with(sums=(True, True, True), norms=(0, 1, 2), order="bat"):
    """Branches without some sums, with other norms (None for none), or in another order: back, across, think."""

    def branches(x, look_back, look_across, think, all_norms):
        parts = {"b": (look_back, 0), "a": (look_across, 1), "t": (think, 2)}
        for letter in order:
            part, number = parts[letter]
            found = part(x if norms[number] is None else all_norms[norms[number]](x))
            x = x + found if sums[number] else found
        return x

    return branches


def from_the_first_x(x, look_back, look_across, think, norms):
    """All three work on what came in."""
    return x + look_back(norms[0](x)) + look_across(norms[1](x)) + think(norms[2](x))


def cross_from_the_first_x(x, look_back, look_across, think, norms):
    y = x + look_back(norms[0](x))
    y = y + look_across(norms[1](x))
    return y + think(norms[2](y))


def own_find_is_lost(x, look_back, look_across, think, norms):
    """What self-attention found is asked with, and then not in the sum."""
    x = x + look_across(norms[1](x + look_back(norms[0](x))))
    return x + think(norms[2](x))


def ends_from_the_first_x(x, look_back, look_across, think, norms):
    y = x + look_back(norms[0](x))
    y = y + look_across(norms[1](y))
    return x + think(norms[2](y))


def first_before_others_after(x, look_back, look_across, think, norms):
    x = x + look_back(norms[0](x))
    x = norms[1](x + look_across(x))
    return norms[2](x + think(x))


def replaced_by_the_norm(x, look_back, look_across, think, norms):
    for norm, part in zip(norms, (look_back, look_across, think), strict=True):
        x = norm(x)
        x = x + part(x)
    return x


def post_norm(x, look_back, look_across, think, norms):
    for norm, part in zip(norms, (look_back, look_across, think), strict=True):
        x = norm(x + part(x))
    return x


def norm_of_the_branch(x, look_back, look_across, think, norms):
    for norm, part in zip(norms, (look_back, look_across, think), strict=True):
        x = x + norm(part(x))
    return x


def one_more_norm(x, look_back, look_across, think, norms):
    return norms[2](three_branches(x, look_back, look_across, think, norms))


def across_to(key_from=lambda x, memory: memory, mask_from=lambda mask, memory_mask: memory_mask, query=None):
    def across(layer, x, memory, mask, memory_mask):
        asks = x if query is None else query(x, memory)
        return layer.cross_attention(asks, key_from(x, memory), mask_from(mask, memory_mask), need_weights=True)

    return across


def back_with(mask_from):
    def back(layer, x, memory, mask, memory_mask):
        return layer.self_attention(x, mask=mask_from(mask, memory_mask), need_weights=True)

    return back


def turned(mask):
    return None if mask is None else ~mask


def always_causal(layer, x, memory, mask, memory_mask):
    return layer.self_attention(x, mask=causal_mask(x.size(1)), need_weights=True)


def like_torch(name, key_from, own_mask, **names):
    """A call with queries, keys and values, as torch's own attention takes them; the mask by name or in fourth place."""

    def look(layer, x, memory, mask, memory_mask):
        from_there, mask = key_from(x, memory), own_mask(mask, memory_mask)
        named = {word: mask if word == "mask" else value for word, value in names.items()}
        return getattr(layer, name)(x, from_there, from_there, *([] if "mask" in names else [mask]), **named)

    return look


def three_and_a_mask(**names):
    """The layers with such a call among the words, and with one to the source."""
    back = like_torch("self_attention", lambda x, memory: x, lambda mask, memory_mask: mask, **names)
    across = like_torch("cross_attention", lambda x, memory: memory, lambda mask, memory_mask: memory_mask, **names)
    return layer_with(back=back), layer_with(across=across)


def normed_memory(layer, x, memory, mask, memory_mask):
    return layer.cross_attention(x, layer.cross_norm(memory), memory_mask, need_weights=True)


GIVEN_THE_MEMORY = (
    "`self.self_attention` was given the memory: there the words look at each other, without a second argument but with "
    "`mask=mask`."
)
OTHER_LAYER = (
    "uses the other's parameters: `self.self_attention` looks at the words, `self.cross_attention` at the source."
)


THREE_AND_A_MASK = (
    "The attention was called with queries, keys, values and a mask, as torch's own is: here it takes `(query_from, key_from, "
    "mask)`, since keys and values come from one place."
)


def no_influence_from_later_words(answer, generator):
    """By gradient: with a causal mask a word does not change with those behind it."""
    seed, heads, hidden, x, memory, mask, memory_mask = layer_cases(generator)[1].args
    x = x.clone().requires_grad_()
    output, _, _ = answer(seed, heads, hidden, x, memory, mask, memory_mask)
    (gradient,) = torch.autograd.grad(output[:, 1].sum(), x)
    if gradient[:, 2:].abs().max() > 0:
        raise Wrong(
            "With a causal mask, later words still influence word 1: hand `mask` on to `self.self_attention`, and let nothing "
            "else run over the words."
        )


register(
    Exercise(
        id="6.3",
        cases=layer_cases,
        call=run_decoder_layer,
        methods=("forward",),
        gradient=True,
        output_names=("x", "weights among the words", "weights over the source"),
        tolerance=1e-3,
        properties=[no_influence_from_later_words],
        mistakes=[
            # Who looks at whom
            mistake(
                layer_with(across=across_to(key_from=lambda x, memory: None)),
                "`self.cross_attention` got no memory, so the words looked at each other once more: keys and values come from "
                "`memory`, its second argument.",
            ),
            mistake(
                layer_with(across=across_to(key_from=lambda x, memory: None, mask_from=lambda mask, memory_mask: None)),
                "`self.cross_attention` got neither the memory nor its mask: `self.cross_attention(..., memory, memory_mask)`.",
            ),
            mistake(
                layer_with(across=across_to(lambda x, memory: x, query=lambda x, memory: memory)),
                "The roles in cross-attention are swapped: the words ask, so what they are comes first and `memory` second.",
            ),
            mistake(
                layer_with(
                    back=lambda layer, x, memory, mask, memory_mask: layer.self_attention(x, memory, mask, True)
                ),
                GIVEN_THE_MEMORY,
            ),
            mistake(
                layer_with(
                    back=lambda layer, x, memory, mask, memory_mask: layer.self_attention(x, memory, memory_mask, True)
                ),
                GIVEN_THE_MEMORY,
            ),
            mistake(
                layer_with(
                    back=lambda layer, x, memory, mask, memory_mask: layer.self_attention(x, mask, need_weights=True)
                ),
                "`self.self_attention` got the mask as its second argument, where the vectors to look at are expected: name it, "
                "`mask=mask`.",
            ),
            *[
                mistake(wrong, THREE_AND_A_MASK)
                for names in ({}, {"need_weights": True}, {"mask": True}, {"mask": True, "need_weights": True})
                for wrong in three_and_a_mask(**names)
            ],
            mistake(
                layer_with(
                    across=lambda layer, x, memory, mask, memory_mask: layer.self_attention(
                        x, memory, memory_mask, need_weights=True
                    )
                ),
                "Cross-attention " + OTHER_LAYER,
            ),
            mistake(
                layer_with(
                    back=lambda layer, x, memory, mask, memory_mask: layer.cross_attention(
                        x, mask=mask, need_weights=True
                    )
                ),
                "Self-attention " + OTHER_LAYER,
            ),
            mistake(
                layer_with(across=normed_memory),
                "The memory was normalised as well: `self.cross_norm` is for x. The encoder has normalised its output already.",
            ),
            # Masks
            mistake(
                layer_with(back=back_with(lambda mask, memory_mask: None)),
                "The causal mask has no effect: hand it on, `self.self_attention(..., mask=mask)`. As it is, a word sees those that "
                "it is to guess.",
            ),
            mistake(
                layer_with(back=always_causal),
                "Self-attention is causal even where no mask was given: hand on the `mask` that came, `mask=mask`, and make none.",
            ),
            mistake(
                layer_with(back=back_with(lambda mask, memory_mask: memory_mask)),
                "Self-attention got the mask of the source: the words look at each other there, `mask=mask`.",
            ),
            mistake(
                layer_with(
                    back=back_with(lambda mask, memory_mask: memory_mask),
                    across=across_to(mask_from=lambda mask, memory_mask: mask),
                ),
                "The two masks are swapped: `mask` is for the words among each other, `memory_mask` for the source.",
            ),
            mistake(
                layer_with(across=across_to(mask_from=lambda mask, memory_mask: None)),
                "`memory_mask` has no effect, so the words look at padding in the source: it is the third argument of "
                "`self.cross_attention`.",
            ),
            mistake(
                layer_with(
                    back=back_with(lambda mask, memory_mask: None),
                    across=across_to(mask_from=lambda mask, memory_mask: None),
                ),
                "Neither mask has any effect: `mask` goes to self-attention, `memory_mask` to cross-attention.",
            ),
            mistake(
                layer_with(across=across_to(mask_from=lambda mask, memory_mask: mask)),
                "Cross-attention got the causal mask: the source is known as a whole, and its mask is `memory_mask`.",
            ),
            mistake(
                layer_with(back=back_with(lambda mask, memory_mask: None if mask is None else mask.T)),
                "The causal mask is transposed, so each word sees only itself and those behind it: row i says whom word i may look "
                "at. Hand it on as it is.",
            ),
            mistake(
                layer_with(back=back_with(lambda mask, memory_mask: turned(mask))),
                "The causal mask is turned round: True already means 'may look', hand it on as it is.",
            ),
            mistake(
                layer_with(across=across_to(mask_from=lambda mask, memory_mask: turned(memory_mask))),
                "`memory_mask` is turned round: True already means 'may look', hand it on as it is.",
            ),
            # Sums and norms
            mistake(
                layer_with(branches_with(sums=(False, True, True))),
                "Self-attention has no residual sum: what it found is added to x.",
            ),
            mistake(
                layer_with(branches_with(sums=(True, False, True))),
                "Cross-attention has no residual sum, so the words forget themselves: what it found is added to x.",
            ),
            mistake(
                layer_with(branches_with(sums=(True, True, False))),
                "The feed-forward layer has no residual sum: what it made is added to x.",
            ),
            mistake(
                layer_with(branches_with(sums=(False, False, False))),
                "There is no residual sum at all: each of the three adds to what went in.",
            ),
            mistake(
                layer_with(post_norm),
                "That is post-norm, the norm of each sum: here it is pre-norm, `x + part(norm(x))`.",
            ),
            mistake(
                layer_with(first_before_others_after),
                "The first norm stands in front of its part, the other two behind their sums: here all three are pre-norm, "
                "`x + part(norm(x))`.",
            ),
            mistake(
                layer_with(norm_of_the_branch),
                "The norms stand between each part and its sum: pre-norm has them in front of the part, `x + part(norm(x))`.",
            ),
            mistake(
                layer_with(replaced_by_the_norm),
                "x was replaced by its norm, so the way past the layer is not free any more: normalise what goes into each part, and "
                "add to x itself.",
            ),
            mistake(
                layer_with(branches_with(norms=(None, None, None))),
                "There is no norm at all: each of the three parts has its own in front.",
            ),
            mistake(
                layer_with(branches_with(norms=(0, None, 2))),
                "Cross-attention lacks its norm, `self.cross_norm`, in front.",
            ),
            mistake(
                layer_with(branches_with(norms=(None, 1, 2))),
                "Self-attention lacks its norm, `self.self_norm`, in front.",
            ),
            mistake(
                layer_with(branches_with(norms=(0, 1, None))),
                "The feed-forward layer lacks its norm, `self.feed_forward_norm`, in front.",
            ),
            mistake(
                layer_with(branches_with(norms=(0, 0, 0))),
                "`self.self_norm` was used for all three: each has its own.",
            ),
            mistake(
                layer_with(branches_with(norms=(0, 0, 2))),
                "`self.self_norm` was used for cross-attention, too: it has its own, `self.cross_norm`.",
            ),
            mistake(
                layer_with(branches_with(norms=(1, 0, 2))),
                "`self.self_norm` and `self.cross_norm` are swapped.",
            ),
            mistake(
                layer_with(branches_with(norms=(0, 1, 1))),
                "`self.cross_norm` was used for the feed-forward layer, too: it has its own, `self.feed_forward_norm`.",
            ),
            mistake(
                layer_with(one_more_norm),
                "There is one more norm at the end: the layer ends with a sum. (A stack of pre-norm layers has one norm behind the "
                "last.)",
            ),
            # The order of the parts
            mistake(
                layer_with(branches_with(order="abt")),
                "Cross-attention came first: the words look at each other, then at the source.",
            ),
            mistake(
                layer_with(branches_with(order="bta")),
                "The feed-forward layer came before cross-attention: it is the last of the three.",
            ),
            mistake(
                layer_with(from_the_first_x),
                "All three worked on the x that came in: each works on the sum that the one before it left.",
            ),
            mistake(
                layer_with(cross_from_the_first_x),
                "Cross-attention asked with the x that came in: its queries come from the sum after self-attention.",
            ),
            mistake(
                layer_with(own_find_is_lost),
                "What self-attention found is lost: what cross-attention found was added to the x that came in. Add it to the sum "
                "after self-attention.",
            ),
            mistake(
                layer_with(ends_from_the_first_x),
                "What both attentions found is lost: what the feed-forward layer made was added to the x that came in. Add it to the "
                "sum after cross-attention.",
            ),
            mistake(
                layer_with(branches_with(order="ba")),
                "The feed-forward layer is missing: it is the last of the three, a branch of its own.",
            ),
            mistake(
                layer_with(branches_with(order="bt")),
                "Cross-attention is missing: after self-attention the words look at the source.",
            ),
            # What comes back
            mistake(
                layer_with(results=lambda output, own, cross: output),
                "Only x came back: return it with both weights, three results.",
            ),
            mistake(
                layer_with(results=lambda output, own, cross: (output, cross)),
                "Only the weights over the source came back: return x, the weights among the words, and those over the source.",
            ),
            mistake(
                layer_with(results=lambda output, own, cross: (output, cross, own)),
                "The two weights are swapped: those among the words come first, then those over the source.",
            ),
            mistake(
                layer_with(results=lambda output, own, cross: (output, own.mean(1), cross.mean(1))),
                "The weights were averaged over the heads, axis 1: each head keeps its own, (b, heads, m, m) and (b, heads, m, n).",
            ),
            mistake(
                layer_with(results=lambda output, own, cross: (output, None, None)),
                "Both weights are None: the attention returns them if asked, `need_weights=True`.",
            ),
        ],
        hints=[
            "Three branches, each x + part(norm(x)): self-attention, cross-attention, feed-forward.",
            "`found, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)`, then `x = x + found`.",
            "`self.cross_attention(self.cross_norm(x), memory, memory_mask, need_weights=True)`: the words ask, the memory answers. "
            "Then the feed-forward layer. Return x and both weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.4 encode and decode
class Decoder(nn.Module):
    """Pre-norm layers and a last norm; the weights are dropped."""

    def __init__(self, layers, dim, heads, hidden):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, hidden) for _ in range(layers))
        self.final_norm = LayerNorm(dim)

    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x, _, _ = layer(x, memory, mask, memory_mask)
        return self.final_norm(x)


class Transformer(nn.Module):
    """The model as the lesson builds it: pre-norm, no dropout, one table for target words and output."""

    def __init__(self, source_words, target_words, dim, heads, hidden, layers):
        super().__init__()
        self.source_vectors = reference.WordVectors(source_words, dim)
        self.target_vectors = reference.WordVectors(target_words, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre")
        self.decoder = Decoder(layers, dim, heads, hidden)
        self.output = nn.Linear(dim, target_words, bias=False)
        self.output.weight = self.target_vectors.table.weight

    def encode(self, source, source_mask):
        """source (b, n), source_mask (b, n) True at the words, to memory (b, n, dim)."""
        memory, _ = self.encoder(self.source_vectors(source), source_mask.unsqueeze(1))
        return memory

    def decode(self, target, memory, source_mask):
        """target (b, m), from the start token on, to logits (b, m, target_words) for the word after each."""
        x = self.target_vectors(target)
        return self.output(self.decoder(x, memory, causal_mask(target.size(1)), source_mask.unsqueeze(1)))


def run_transformer(answer, seed, source_words, target_words, dim, heads, hidden, layers, source, source_mask, target):
    """Build the model, encode, decode: memory and logits. What the memory holds at padding is nobody's business: 0 here."""
    sizes = source_words, target_words, dim, heads, hidden, layers
    model = with_parameters(answer, Transformer, "Transformer", sizes, seed, "`encode` and `decode` are yours")
    memory = model.encode(source, source_mask)
    if isinstance(memory, tuple | list):
        raise Wrong(
            f"`encode` returned {a_thing(memory)}: `self.encoder` gives the vectors and the weights, and the memory is the vectors "
            "alone."
        )
    if memory is None:
        raise Wrong("`encode` returned nothing: it ends with `return`.")
    logits = model.decode(target, memory, source_mask)
    if isinstance(memory, torch.Tensor) and memory.shape[:-1] == source_mask.shape:
        memory = memory.masked_fill(~source_mask.unsqueeze(-1), 0)
    return memory, logits


def transformer_cases(generator):
    def one(m, n, lengths, note="", source_words=9, target_words=7, dim=6, heads=3, hidden=8, layers=1):
        b, seed = len(lengths), int(whole(generator, 10_000))
        source, mask = whole(generator, source_words, b, n), up_to(lengths, n)
        target = whole(generator, target_words, b, m)
        return Case((seed, source_words, target_words, dim, heads, hidden, layers, source, mask, target), note=note)

    return [
        one(4, 5, (3, 5, 4), note="padding behind two sources", layers=2),
        one(3, 3, (2, 3, 1), note="as many target as source words", dim=4, heads=2),
        one(3, 4, (4, 4), note="no padding"),
        one(1, 3, (2, 3, 3), note="one target word", source_words=5, target_words=11),
        one(5, 2, (2,), note="one sentence", dim=8, heads=2, hidden=5),
    ]


def transformer_with(
    encode_mask=lambda mask: mask.unsqueeze(1),
    source_table=lambda self: self.source_vectors,
    target_table=lambda self: self.target_vectors,
    causal=lambda target: causal_mask(target.size(1)),
    memory_mask=lambda mask: mask.unsqueeze(1),
    looked_at=lambda self, x, memory: memory,
    last=lambda self, x: self.output(x),
    encoded=lambda self, vectors, mask: self.encoder(vectors, mask)[0],
    decoded=lambda self, x, memory, mask, memory_mask: self.decoder(x, memory, mask, memory_mask),
):
    """The model with parts that can be replaced by wrong ones."""

    def encode(self, source, source_mask):
        return encoded(self, source_table(self)(source), encode_mask(source_mask))

    def decode(self, target, memory, source_mask):
        x = target_table(self)(target)
        x = decoded(self, x, looked_at(self, x, memory), causal(target), memory_mask(source_mask))
        return last(self, x)

    return type("Transformer", (Transformer,), {"encode": encode, "decode": decode, "is_ours": True})


def plain_vectors(table):
    """A table without scale and positions."""
    return lambda self: getattr(self, table).table


def later_words_are_hidden(answer, generator):
    args = transformer_cases(generator)[0].args
    target, words = args[-1], args[2]
    _, before = answer(*args)
    other = torch.cat([target[:, :-1], (target[:, -1:] + 1) % words], 1)
    _, after = answer(*args[:-1], other)
    if not torch.allclose(before[:, :-1], after[:, :-1], atol=1e-4):
        raise Wrong(
            "The last target word changes the logits of those before it: the mask among the words is `causal_mask(m)`."
        )


def padding_is_hidden(answer, generator):
    args = transformer_cases(generator)[0].args
    source, mask, words = args[-3], args[-2], args[1]
    memory, before = answer(*args)
    other, after = answer(*args[:-3], torch.where(mask, source, (source + 1) % words), *args[-2:])
    if not torch.allclose(memory[mask], other[mask], atol=1e-4):
        raise Wrong(
            "Another word in the padding changes the memory of the words: `encode` hands the mask on as (b, 1, n)."
        )
    if not torch.allclose(before, after, atol=1e-4):
        raise Wrong(
            "Another word in the padding of the source changes the logits: `decode` hands the mask on as (b, 1, n)."
        )


def it_can_be_trained(answer, generator):
    for result, name in zip(answer(*transformer_cases(generator)[0].args), ("encode", "decode"), strict=True):
        if not result.requires_grad:
            raise Wrong(
                f"The values are right, but no gradient flows back from `{name}`: `detach`, `.data` or `torch.no_grad` cut it."
            )


NEITHER_MASK = "`source_mask` is used nowhere: both `encode` and `decode` hand it on, as (b, 1, n)."
NOT_WIDENED = (
    "needs the mask as (b, 1, n), the same for everybody who looks: `source_mask.unsqueeze(1)`. As (b, n) its sentences would "
    "be taken for words."
)

register(
    Exercise(
        id="6.4",
        cases=transformer_cases,
        call=run_transformer,
        methods=("encode", "decode"),
        output_names=("memory", "logits"),
        tolerance=1e-3,
        properties=[later_words_are_hidden, padding_is_hidden, it_can_be_trained],
        mistakes=[
            mistake(
                transformer_with(causal=lambda target: None),
                "`decode` lets each word see those behind it, which it is to guess: `causal_mask(m)` goes to `self.decoder`.",
            ),
            mistake(
                transformer_with(causal=lambda target: causal_mask(target.size(1)).T),
                "The causal mask is transposed: row i says whom word i may look at, `causal_mask(m)` as it is.",
            ),
            mistake(
                transformer_with(causal=lambda target: causal_mask(target.size(1)).tril(-1)),
                "The words cannot see themselves: the diagonal of the causal mask is True.",
            ),
            mistake(
                transformer_with(causal=lambda target: causal_mask(target.size(0))),
                "The causal mask is as large as the batch: it is (m, m), m = `target.size(1)`.",
            ),
            mistake(transformer_with(encode_mask=lambda mask: None, memory_mask=lambda mask: None), NEITHER_MASK),
            mistake(
                transformer_with(encode_mask=lambda mask: None),
                "`encode` does not use `source_mask`, so the words look at padding: hand it to `self.encoder`.",
            ),
            mistake(
                transformer_with(memory_mask=lambda mask: None),
                "`decode` does not use `source_mask`, so the target words look at the source's padding: it is the fourth argument "
                "of `self.decoder`.",
            ),
            mistake(transformer_with(encode_mask=lambda mask: mask), "`self.encoder` " + NOT_WIDENED),
            mistake(transformer_with(memory_mask=lambda mask: mask), "`self.decoder` " + NOT_WIDENED),
            mistake(
                transformer_with(encode_mask=lambda mask: mask, memory_mask=lambda mask: mask),
                "Encoder and decoder " + NOT_WIDENED.replace("needs", "need"),
            ),
            mistake(
                transformer_with(encode_mask=lambda mask: mask.unsqueeze(2)),
                "In `encode` the mask hides those who look: `unsqueeze(2)` puts it at the wrong axis. The words must not look at "
                "padding: (b, 1, n), `unsqueeze(1)`.",
            ),
            mistake(
                transformer_with(encode_mask=lambda mask: mask.unsqueeze(1) & causal_mask(mask.size(1))),
                "There is a causal mask in the encoder: the whole source is known, so its words may look both ways. Only padding is "
                "hidden, `source_mask.unsqueeze(1)`.",
            ),
            mistake(
                transformer_with(encode_mask=lambda mask: ~mask.unsqueeze(1)),
                "In `encode` the mask is turned round: True is a word that may be looked at.",
            ),
            mistake(
                transformer_with(memory_mask=lambda mask: ~mask.unsqueeze(1)),
                "In `decode` the source's mask is turned round: True is a word that may be looked at.",
            ),
            mistake(
                transformer_with(
                    causal=lambda target: None,
                    decoded=lambda self, x, memory, mask, memory_mask: self.decoder(x, memory, memory_mask),
                ),
                "The source's mask stands where the words' mask belongs: `self.decoder(x, memory, mask, memory_mask)`, the causal "
                "one first.",
            ),
            mistake(
                transformer_with(
                    decoded=lambda self, x, memory, mask, memory_mask: self.decoder(x, memory, memory_mask, mask)
                ),
                "The two masks are swapped: `self.decoder(x, memory, mask, memory_mask)`, the causal one first.",
            ),
            mistake(
                transformer_with(causal=lambda target: None, memory_mask=lambda mask: None),
                "`decode` uses no mask: the causal mask for the words, and `source_mask` as (b, 1, n) for the memory.",
            ),
            mistake(
                transformer_with(last=lambda self, x: x),
                "`decode` returned vectors: `self.output` makes logits of them, one for each target word.",
            ),
            mistake(
                transformer_with(last=lambda self, x: self.output(x).softmax(-1)),
                "`decode` returned probabilities: logits are wanted, the loss takes its own softmax.",
            ),
            mistake(
                transformer_with(last=lambda self, x: self.output(x).log_softmax(-1)),
                "`decode` returned log-probabilities: logits are wanted, the loss takes its own softmax.",
            ),
            mistake(
                transformer_with(last=lambda self, x: self.output(x[:, -1])),
                "Only the last word's logits came back: in training all positions are asked at once, (b, m, target_words).",
            ),
            mistake(
                transformer_with(target_table=lambda self: self.source_vectors),
                "The target words were looked up among the source's vectors: `self.target_vectors`.",
            ),
            mistake(
                transformer_with(source_table=lambda self: self.target_vectors),
                "The source words were looked up among the target's vectors: `self.source_vectors`.",
            ),
            mistake(
                transformer_with(source_table=plain_vectors("source_vectors")),
                "`encode` took the bare table, without scale and positions: call `self.source_vectors(source)`.",
            ),
            mistake(
                transformer_with(target_table=plain_vectors("target_vectors")),
                "`decode` took the bare table, without scale and positions: call `self.target_vectors(target)`.",
            ),
            mistake(
                transformer_with(
                    source_table=plain_vectors("source_vectors"), target_table=plain_vectors("target_vectors")
                ),
                "The bare tables were used, without scale and positions: call `self.source_vectors(source)` and "
                "`self.target_vectors(target)`.",
            ),
            mistake(
                transformer_with(encoded=lambda self, vectors, mask: self.encoder(vectors, mask)),
                "`encode` returned a tuple of 2: `self.encoder` gives the vectors and the weights, and the memory is the vectors "
                "alone.",
            ),
            mistake(
                transformer_with(encoded=lambda self, vectors, mask: vectors),
                "`encode` returned the word vectors themselves: they go through `self.encoder`.",
            ),
            mistake(
                transformer_with(looked_at=lambda self, x, memory: x),
                "The decoder was given its own words to look at: its second argument is `memory`.",
            ),
        ],
        hints=[
            "`encode`: word vectors, then `self.encoder`, which returns vectors and weights. Its mask says who may be looked at: "
            "`source_mask.unsqueeze(1)`.",
            "`decode`: word vectors, then `self.decoder(x, memory, mask, memory_mask)`, then `self.output`.",
            "`mask` is `causal_mask(m)` with m = `target.size(1)`; `memory_mask` is the source's, again as (b, 1, n).",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.5 shifted targets
def shifted_targets(sentences, start, end, padding=0):
    """What the decoder reads and what it should say, both (b, m): `start` in front, `end` behind, then padding."""
    read = [torch.tensor([start, *words]) for words in sentences]
    said = [torch.tensor([*words, end]) for words in sentences]
    return tuple(pad_sequence(rows, batch_first=True, padding_value=padding) for rows in (read, said))


def run_shifted(answer, sentences, start, end, **padding):
    """Call it, and see that the lists are as they were: the usual words about changed inputs speak of tensors."""
    before = [list(words) for words in sentences]
    try:
        inspect.signature(answer).bind(sentences, start, end, **padding)
    except TypeError as error:
        raise Wrong(
            f"It must be callable with the arguments (sentences, start, end, padding=0): {error}. Put the first line back as it was."
        ) from None
    result = answer(sentences, start, end, **padding)
    if before != sentences:
        raise Wrong(
            "The given lists were changed: `append`, `insert` and `+=` write into the caller's own. Make new ones, `[start, *words]` "
            "and `[*words, end]`."
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
        one((5, 1), note="a sentence of one word"),
        one((3, 3), note="equally long"),
        one((2, 5, 1, 3), start=7, end=4, padding=9, note="other numbers for start, end and padding"),
        one((3, 0, 2), note="a sentence without words"),
        one((4,), note="one sentence"),
    ]


def rows_of(rows, padding):
    return pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=padding)


def shifted_with(
    read=lambda words, start, end, padding: [start, *words],
    said=lambda words, start, end, padding: [*words, end],
    filled=rows_of,
    results=lambda target_in, target_out: (target_in, target_out),
):
    """The two tensors with parts that can be replaced by wrong ones."""

    def wrong(sentences, start, end, padding=0):
        pair = (filled([make(words, start, end, padding) for words in sentences], padding) for make in (read, said))
        return results(*pair)

    return wrong


def cut_after_padding(sentences, start, end, padding=0):
    """start, words, end in one tensor; then all but the last column, and all but the first."""
    both = rows_of([[start, *words, end] for words in sentences], padding)
    return both[:, :-1], both[:, 1:]


def end_behind_padding(sentences, start, end, padding=0):
    words = rows_of(sentences, padding)
    b = len(sentences)
    return (
        torch.cat([torch.full((b, 1), start), words], 1),
        torch.cat([words, torch.full((b, 1), end)], 1),
    )


def a_tensor_at_once(sentences, start, end, padding=0):
    """`torch.tensor` of the sentences as they are, then a column in front and one behind."""
    words, column = torch.tensor(sentences), torch.ones(len(sentences), 1, dtype=torch.long)
    return torch.cat([start * column, words], 1), torch.cat([words, end * column], 1)


def padded_in_front(rows, padding):
    longest = max(map(len, rows))
    return torch.tensor([[padding] * (longest - len(row)) + row for row in rows])


def plainly(words, start, end, padding):
    return list(words)


END_IS_READ = (
    "In `target_in` shorter sentences have an end token: it is said, never read, since nothing comes after it. `[start, *words]` "
    "first, padding after."
)
RAGGED = (
    "`torch.tensor` refuses lists of different lengths: pad first. Put the tokens in, fill up to the longest with `padding`, or give "
    "`pad_sequence` a tensor for each sentence."
)
NOT_SHIFTED = (
    "`target_in` and `target_out` are the same, so each position is asked for the word that it has just read: `start` in front of "
    "the one, `end` behind the other."
)

register(
    Exercise(
        id="6.5",
        cases=shift_cases,
        call=run_shifted,
        output_names=("target_in", "target_out"),
        properties=[words_are_long(shift_cases)],
        mistakes=[
            mistake(
                shifted_with(
                    lambda words, start, end, padding: [start, *words, end],
                    lambda words, start, end, padding: [start, *words, end],
                ),
                NOT_SHIFTED,
            ),
            mistake(shifted_with(plainly, plainly), NOT_SHIFTED),
            mistake(
                shifted_with(read=plainly),
                "The start token is missing in `target_in`: without it nothing is read before the first word.",
            ),
            mistake(
                shifted_with(read=lambda words, start, end, padding: [end, *words]),
                "`target_in` starts on the end token, as some systems do: here the decoder has its own, `start`.",
            ),
            mistake(
                shifted_with(said=plainly),
                "The end token is missing in `target_out`: without it the model never learns to stop.",
            ),
            mistake(
                shifted_with(said=lambda words, start, end, padding: [*words, padding]),
                "At the end of `target_out` stands padding: it is the end token that must be said there, or the model never learns "
                "to stop.",
            ),
            mistake(
                shifted_with(lambda words, start, end, padding: [start, *words[:-1]], plainly),
                "It is shifted, but the end token is missing in `target_out`: behind the last word comes `end`.",
            ),
            mistake(
                shifted_with(
                    lambda words, start, end, padding: [start, *words, end],
                    lambda words, start, end, padding: [*words, end, padding],
                ),
                "The end token is read as well: `target_in` is `[start, *words]`. Behind the end there is nothing to guess.",
            ),
            mistake(
                shifted_with(lambda words, start, end, padding: [start, *words, end]),
                "`target_in` has both tokens and is one longer than `target_out`: `[start, *words]` against `[*words, end]`.",
            ),
            mistake(
                shifted_with(said=lambda words, start, end, padding: [start, *words, end]),
                "`target_out` has both tokens and is one longer than `target_in`: the start token is read, never said.",
            ),
            mistake(cut_after_padding, END_IS_READ),
            mistake(
                end_behind_padding,
                "The end token stands behind the padding: it comes right behind the last word, so add it before you pad.",
            ),
            mistake(
                shifted_with(results=lambda target_in, target_out: (target_out, target_in)),
                "The two results are swapped: first what is read, `target_in`, then what is said, `target_out`.",
            ),
            mistake(
                shifted_with(
                    lambda words, start, end, padding: [*words, start], lambda words, start, end, padding: [end, *words]
                ),
                "The tokens are at the wrong ends: `start` in front of `target_in`, `end` behind `target_out`.",
            ),
            mistake(
                shifted_with(said=lambda words, start, end, padding: [end, *words]),
                "In `target_out` the end token stands in front: it comes behind the last word.",
            ),
            mistake(
                shifted_with(filled=padded_in_front),
                "The padding stands in front: it comes behind, so that word i of every sentence is in column i.",
            ),
            mistake(
                shifted_with(filled=lambda rows, padding: rows_of(rows, 0)),
                "The padding is always 0: use the argument `padding`.",
            ),
            mistake(
                shifted_with(filled=lambda rows, padding: rows_of(rows, padding).T),
                "The places come first: the batch does, (b, m). `pad_sequence` needs `batch_first=True`.",
            ),
            mistake(
                lambda sentences, start, end, padding=0: shifted_targets(sentences, 1, 2, padding),
                "Start and end token are numbers in your code: use the arguments `start` and `end`.",
            ),
            mistake(
                shifted_with(filled=lambda rows, padding: rows),
                "Those are lists of different lengths: pad them to one tensor, (b, m).",
            ),
            mistake(shifted_with(filled=lambda rows, padding: torch.tensor(rows)), RAGGED),
            mistake(a_tensor_at_once, RAGGED),
            mistake(
                shifted_with(filled=lambda rows, padding: rows_of([row[: min(map(len, rows))] for row in rows], 0)),
                "The sentences were cut to the shortest: the others are padded to the longest.",
            ),
        ],
        hints=[
            "What is read at each place is the word before: `[start, *words]`. What is said there: `[*words, end]`.",
            "Both are one longer than the sentence. Pad after the tokens are in.",
            "`pad_sequence` takes a list of tensors, `batch_first=True` and `padding_value=padding`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 6.6 label smoothing
def instead_of(old, messages):
    """Mistakes that put another text in the place of `old`; messages: {new text: message}."""
    return [mistake(old, new, message) for new, message in messages.items()]


def smooth_cases(generator):
    def case(lengths, m, vocab_size, smoothing, padding=None, note=""):
        pad_id = 0 if padding is None else padding
        targets = whole(generator, vocab_size - 1, len(lengths), m)
        targets = targets + (targets >= pad_id)  # no token has the id of padding
        targets = targets.masked_fill(~up_to(lengths, m), pad_id)
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
            *instead_of(
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
            *instead_of(
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
            *instead_of(
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
            *instead_of(
                "log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)",
                {
                    "log_p[:, :, targets]": "`[:, :, targets]` has shape (b, m, b, m): all targets at every position. Use `gather` to take one per position.",
                    "log_p[targets]": "`[targets]` indexes axis 0, the batch. Index the vocabulary, the last axis: `log_p.gather(-1, ...)`.",
                    "log_p[:, targets]": "`[:, targets]` indexes axis 1, the positions. Index the vocabulary, the last axis: `log_p.gather(-1, ...)`.",
                },
            ),
            *instead_of(
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

    warmup = int(whole(generator, 900, low=300))
    return [
        *cases(128, 400, 1, 100, 400, 401, 1600, 100_000),
        *cases(int(whole(generator, 600, low=64)), warmup, 3, warmup // 2, warmup, 3 * warmup),
        *cases(int(whole(generator, 9, low=4)), 1, 1, 5),
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
            *instead_of(
                "dim**-0.5 * ",
                {
                    "": "The factor `dim**-0.5` is missing. Wider models get a smaller learning rate.",
                    "dim**0.5 * ": "It was multiplied by the square root of dim. Divide by it: `dim**-0.5`.",
                    "dim**-1 * ": "It was divided by dim. Divide by its square root: `dim**-0.5`.",
                    "dim * -0.5 * ": "`dim * -0.5` is a product, so the learning rate is negative. The power is `dim**-0.5`.",
                },
            ),
            *instead_of(
                "dim**-0.5 * min(step**-0.5, step * warmup**-1.5)",
                {
                    "min(dim**-0.5 * step**-0.5, step * warmup**-1.5)": ONE_TERM,
                    "min(step**-0.5, dim**-0.5 * step * warmup**-1.5)": ONE_TERM,
                },
            ),
            *instead_of(
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
            *instead_of(
                "step**-0.5",
                {
                    "warmup**-0.5": "The rate stays constant after the warm-up. It must decay with `step**-0.5`.",
                    "step**0.5": "The exponent of step lost its sign. `step**-0.5` decays.",
                },
            ),
            *instead_of(
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
        self.factors = whole(generator, 97, longest, low=1)
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
        source = whole(generator, 4 + b, b, n, low=4)
        source[:, 0] = torch.arange(b) + 4
        mask = up_to(whole(generator, n + 1, b, low=1).tolist(), n)
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
            *instead_of(
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
            *instead_of(
                "going.any() and words.size(1) <= limit",
                {
                    "going.any() and words.size(1) < limit": TOO_SHORT,
                    "going.any() and words.size(1) <= limit + 1": TOO_LONG,
                    "going.any()": NEVER_STOPS,
                    "going.all() and words.size(1) <= limit": "It stopped when the first sequence ended. Go on until all have ended.",
                    "words.size(1) <= limit": "It ran to the limit although every sequence had ended. Stop as soon as all have ended.",
                },
            ),
            *instead_of(
                "[:, -1]",
                {
                    "[:, 0]": "The next token was predicted at the first position. Use the logits of the last one, `[:, -1]`.",
                    "": "The predictions of all positions were appended. Only the last one is new, `[:, -1]`.",
                },
            ),
            *instead_of(
                "logits.argmax(-1)",
                {
                    "logits.argmin(-1)": "The least likely tokens were chosen. Take the argmax.",
                    "logits.argmax(0)": "The argmax ran over the batch (dim 0). Take it over the vocabulary: `argmax(-1)`.",
                    "logits.softmax(-1).multinomial(1).squeeze(1)": "The tokens were sampled. Greedy decoding takes the most likely one, `logits.argmax(-1)`.",
                },
            ),
            *instead_of(
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
            *instead_of(
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
            *instead_of(
                "W_Q, keys, values",
                {
                    "W_Q, keys[:, :-1], values[:, :-1]": "The token does not attend to itself. Append its key and value before calling `attention`.",
                    "W_Q, keys, values, causal_mask(keys.size(1))[:1]": "The first row of a causal mask was used, so the token attends to one position. It needs no mask.",
                    "W_Q, keys, values, causal_mask(keys.size(1))": "A causal mask was applied to a single query. The newest token may attend to all positions: it needs no mask.",
                },
            ),
            *instead_of(
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
            *instead_of(
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
            *instead_of(
                BOTH,
                {
                    "place // width, place % width": "The flattened index was divided by `width`. A row has V entries: divide by `step.size(1)`.",
                    "place % step.size(1), place // step.size(1)": "Parent and token are swapped. In the flattened sums `place // V` is the row, `place % V` the token.",
                },
            ),
            *instead_of("words[parent]", {"words": NOT_REORDERED, "words.expand(width, -1)": NOT_REORDERED}),
            mistake("topk(width)", "topk(1)", "`width` has no effect: this is greedy decoding. Use `topk(width)`."),
            # Finished hypotheses
            mistake(UNMASKED, GREW_ON),
            mistake([*UNMASKED, ("ended[parent] | (word == end)", "word == end")], GREW_ON),
            mistake([*UNMASKED, ("not ended.all() and ", "")], GREW_ON),
            *instead_of(
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
            *instead_of(
                "ended[parent] | (word == end)",
                {
                    "ended | (word == end)": "The finished flags were not reordered. Take them from the parent: `ended[parent] | (word == end)`.",
                    "word == end": "Hypotheses that ended earlier were forgotten. Keep their flag: `ended[parent] | (word == end)`.",
                    "(word == end) | (word == 0)": "A generated 0 counted as the end. Only `end` ends a hypothesis; before it, 0 is an ordinary token.",
                    "ended[parent] | (word == 2)": FIXED_END,
                },
            ),
            # When to stop, and what to return
            *instead_of(
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
            *instead_of(
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
        question="In training, one decoder pass handles all 20 tokens of a target, end token included. How many passes does it take to "
        "generate a translation of 20 tokens, end token included?",
        options=[
            (
                "One: attention processes all positions at once.",
                "In training all target tokens are known. Here token 7 is an input only after it was generated.",
            ),
            (
                "20, one after the other.",
                "Each step takes the token of the previous step as input. The sentences of a batch still run in parallel.",
            ),
            ("One, without the causal mask.", "The mask is not the reason: the tokens do not exist yet."),
            ("20, but all at the same time.", "Step 8 waits for the token of step 7."),
        ],
        right=1,
        explanation="Training is parallel over positions, generation is sequential. What can be saved is work within a step.",
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
                "It can be: four hypotheses that score better at first can push the greedy prefix out of the beam.",
            ),
            (
                "Its translation is better.",
                "More probable is not better: wide beams prefer short sentences, since every token adds a negative log-probability.",
            ),
            (
                "None of these.",
                "It costs about four times the compute and usually finds a more probable sentence. Anything else has to be measured.",
            ),
        ],
        right=3,
        explanation="Many systems use length normalization: they divide the log-probability by a power of the length.",
    )
)

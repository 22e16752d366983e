"""Answers to lesson 06's exercises: what people really write, wrong and right."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from tests.zoo import Zoo
from utils.models import attention
from utils.models.encoder import Encoder, FeedForward, LayerNorm
from utils.models.multi_head import MultiHeadAttention
from utils.models.self_attention import causal_mask
from utils.models.transformer import WordVectors


# 6.1 word vectors
def vectors_by_embedding(words, table, positions, start=0):
    places = torch.arange(start, start + words.shape[1])
    return F.embedding(words, table) * table.shape[1] ** 0.5 + F.embedding(places, positions)


def vectors_by_one_hot(words, table, positions, start=0):
    n, d = words.size(-1), table.size(-1)
    found = F.one_hot(words, len(table)).to(table.dtype) @ table
    return torch.add(positions[start:][:n], found, alpha=math.sqrt(d))


def vectors_word_by_word(words, table, positions, start=0):
    root = torch.tensor(float(table.size(1))).sqrt()
    rows = []
    for sentence in words:
        rows.append(torch.stack([table[word] * root + positions[start + i] for i, word in enumerate(sentence)]))
    return torch.stack(rows)


def scaled_in_place(words, table, positions, start=0):
    table *= table.size(1) ** 0.5
    return table[words] + positions[start : start + words.size(1)]


def misspelt_positions(words, table, positions, start=0):
    return table[words] * table.shape[1] ** 0.5 + postions[start : start + words.size(1)]  # noqa: F821


VECTORS = Zoo(
    wrong=[
        (lambda w, t, p, start=0: t[w] + p[start : start + w.size(1)], "not scaled"),
        (lambda w, t, p, start=0: t[w] * t.size(1) + p[start : start + w.size(1)], "multiplied by d"),
        (
            lambda w, t, p, start=0: t[w] / math.sqrt(t.size(1)) + p[start : start + w.size(1)],
            "were divided by the root",
        ),
        (lambda w, t, p, start=0: t[w] * len(t) ** 0.5 + p[start : start + w.size(1)], "number of words in the table"),
        (
            lambda w, t, p, start=0: (t[w] + p[start : start + w.size(1)]) * t.size(1) ** 0.5,
            "positions were scaled, too",
        ),
        (lambda w, t, p, start=0: (t[w] + p[: w.size(1)]) * t.size(1) ** 0.5, "Two things: the positions"),
        (lambda w, t, p, start=0: t[w] + p[: w.size(1)], "Two things: the word vectors"),
        (lambda w, t, p, start=0: t[w] * t.size(1) ** 0.5, "positions are missing"),
        (lambda w, t, p, start=0: t[w] * t.size(1) ** 0.5 + p[: w.size(1)], "`start` has no effect"),
        (lambda w, t, p, start=0: t[w] * t.size(1) ** 0.5 + p[start : w.size(1)], "ends too early"),
        (lambda w, t, p, start=0: t[w] * t.size(1) ** 0.5 + p[start], "one and the same position"),
        (lambda w, t, p, start=0: t[w] * t.size(1) ** 0.5 + p, "whole table of positions"),
        (lambda w, t, p, start=0: p + t[w] * t.size(1) ** 0.5, "whole table of positions"),
        (lambda w, t, p, start=0: t[w] * t.size(1) ** 0.5 + p[start : start + t.size(1)], "d rows long"),
        (lambda w, t, p, start=0: p[start:][: t.size(1)] + math.sqrt(t.size(1)) * t[w], "d rows long"),
        (lambda w, t, p, start=0: t[w] * t.size(1) ** 0.5 + p[w], "looked up by word"),
        (
            lambda w, t, p, start=0: torch.cat(
                [t[w] * t.size(1) ** 0.5, p[start : start + w.size(1)].expand(len(w), -1, -1)], -1
            ),
            "side by side",
        ),
        (lambda w, t, p, start=0: t[w] * math.sqrt(t.size(1)) + p[start + 1 :][: w.size(1)], "one too far"),
        (scaled_in_place, "changed its input `table`"),
        (misspelt_positions, "It raised NameError"),
        (lambda w, t, p: t[w] * t.size(1) ** 0.5 + p[: w.size(1)], "Put the first line back"),
        (lambda w, t, p, start=0: vectors_by_embedding(w, t, p, start).double(), "float64"),
        (lambda w, t, p, start=0: vectors_by_embedding(w, t.detach(), p, start), "no gradient reaches `table`"),
        (lambda w, t, p, start=0: vectors_by_embedding(w, t, p, start) + 1, "wrong values"),
    ],
    right=[vectors_by_embedding, vectors_by_one_hot, vectors_word_by_word],
)


# 6.2 cross-attention
def cross(x, memory, W_Q, W_K, W_V, mask=None, asks=None, keys=None, values=None):
    query = (x if asks is None else asks) @ W_Q
    key, value = (memory if keys is None else keys) @ W_K, (memory if values is None else values) @ W_V
    return attention(query, key, value, None if mask is None else mask[:, None])


def cross_by_hand(x, memory, W_Q, W_K, W_V, mask=None):
    scores = torch.einsum("bmk,bnk->bmn", x @ W_Q, memory @ W_K) / math.sqrt(W_Q.shape[1])
    mask = torch.ones(memory.shape[:2], dtype=torch.bool) if mask is None else mask
    weights = scores.masked_fill(~mask[:, None, :], -1e30).softmax(-1) * mask[:, None, :]
    return weights @ (memory @ W_V), weights


def cross_with_full_mask(x, memory, W_Q, W_K, W_V, mask=None):
    if mask is not None:
        mask = mask.unsqueeze(1).expand(-1, x.size(1), -1)
    return attention(x @ W_Q, memory @ W_K, memory @ W_V, mask)


def cross_with_minus_infinity(x, memory, W_Q, W_K, W_V, mask, scale):
    """By hand, and without a thought for a source that is all padding."""
    scores = (x @ W_Q) @ (memory @ W_K).mT * scale
    if mask is not None:
        scores = scores.masked_fill(mask[:, None] == 0, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return weights @ (memory @ W_V), weights


def cross_over_queries(x, memory, W_Q, W_K, W_V, mask=None):
    scores = (x @ W_Q) @ (memory @ W_K).mT / W_Q.size(1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None], -1e30)
    weights = scores.softmax(1)
    return weights @ (memory @ W_V), weights


CROSS = Zoo(
    wrong=[
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, mask, s, x, x), "roles are swapped"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, mask, x, x, x), "looked at each other, and the source"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, None, x, x, x), "looked at each other, and the source"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, mask, keys=x), "keys come from x"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, mask, values=x), "values come from x"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, mask, asks=s), "as in the encoder"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V), "mask has no effect"),
        (
            lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, None if mask is None else ~mask),
            "mask is turned round",
        ),
        (lambda x, s, Q, K, V, mask=None: attention(x @ Q, s @ K, s @ V, mask), "without an axis for the target words"),
        (
            lambda x, s, Q, K, V, mask=None: attention(x @ Q, s @ K, s @ V, None if mask is None else mask[..., None]),
            "hides target words",
        ),
        (
            lambda x, s, Q, K, V, mask=None: cross_with_minus_infinity(x, s, Q, K, V, mask, Q.size(1) ** -0.5),
            "NaN",
        ),
        (lambda x, s, Q, K, V, mask=None: attention(s @ Q, x @ K, x @ V, mask), "roles are swapped"),
        (
            lambda x, s, Q, K, V, mask=None: cross_with_minus_infinity(x, s, Q, K, V, mask, x.size(-1) ** -0.5),
            "divided by the root of d, the width of x",
        ),
        (lambda x, s, Q, K, V, mask=None: cross_with_minus_infinity(x, s, Q, K, V, mask, 1.0), "scale is missing"),
        (cross_over_queries, "ran over the target words"),
        (
            lambda x, s, Q, K, V, mask=None: attention(
                x @ Q, s @ K, s @ V, None if mask is None else mask[:, None], scale=1 / math.sqrt(x.size(-1))
            ),
            "divided by the root of d, the width of x",
        ),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, K, Q, V, mask), "`W_Q` and `W_K` are swapped"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, V, K, mask), "`W_K` and `W_V` are swapped"),
        (
            lambda x, s, Q, K, V, mask=None: attention(x @ Q, s @ K, s, None if mask is None else mask[:, None]),
            "values are the memory itself",
        ),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, mask)[0], "Only the output"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, mask)[::-1], "swapped: the output comes first"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s.detach(), Q, K, V, mask), "no gradient reaches `memory`"),
        (lambda x, s, Q, K, V, mask=None: cross(x, s, Q, K, V, mask.unsqeeze(1)), "It raised AttributeError"),
        (
            lambda x, s, Q, K, V, mask=None: tuple(part.double() for part in cross(x, s, Q, K, V, mask)),
            "float64",
        ),
    ],
    right=[cross, cross_by_hand, cross_with_full_mask],
)


# 6.3 the decoder layer
class Layer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.self_attention, self.cross_attention = MultiHeadAttention(dim, heads), MultiHeadAttention(dim, heads)
        self.feed_forward = FeedForward(dim, hidden)
        self.self_norm, self.cross_norm, self.feed_forward_norm = (LayerNorm(dim) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):
        found, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)
        x = x + found
        found, cross = self.cross_attention(self.cross_norm(x), memory, memory_mask, need_weights=True)
        x = x + found
        return x + self.feed_forward(self.feed_forward_norm(x)), own, cross


class ByParts(Layer):
    """Through the parts of the attention."""

    def look(self, layer, x, source, mask):
        return layer.look(layer.queries(x), *layer.keys_values(source), mask, True)

    def forward(self, x, memory, mask=None, memory_mask=None):
        normed = F.layer_norm(x, x.shape[-1:], self.self_norm.gain, self.self_norm.shift)
        found, own = self.look(self.self_attention, normed, normed, mask)
        total = torch.stack([x, found]).sum(0)
        found, cross = self.look(self.cross_attention, self.cross_norm(total), memory, memory_mask)
        total = found + total
        return self.feed_forward(self.feed_forward_norm(total)) + total, own, cross


class SelfAsCross(Layer):
    """Self-attention with the words as keys, said aloud; a mask that keeps padding in the target out does no harm."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        normed = self.self_norm(x)
        found, own = self.self_attention(normed, normed, mask, True)
        y = x + found
        found, cross = self.cross_attention(self.cross_norm(y), memory, mask=memory_mask, need_weights=True)
        z = y + found
        return z + self.feed_forward(self.feed_forward_norm(z)), own, cross


def layer(forward):
    return type("DecoderLayer", (Layer,), {"forward": forward})


def layer_of(back=None, across=None, parts=("self", "cross", "think"), norms=None, sums=True, results=None):
    """back(layer, x, memory, mask, memory_mask) and across(...) replace a look; norms are names or None for each part."""
    norms = norms or {"self": "self_norm", "cross": "cross_norm", "think": "feed_forward_norm"}

    def forward(self, x, memory, mask=None, memory_mask=None):
        weights = {}
        for part in parts:
            normed = x if norms[part] is None else getattr(self, norms[part])(x)
            if part == "self":
                found, weights[part] = (
                    self.self_attention(normed, mask=mask, need_weights=True)
                    if back is None
                    else back(self, normed, memory, mask, memory_mask)
                )
            elif part == "cross":
                found, weights[part] = (
                    self.cross_attention(normed, memory, memory_mask, True)
                    if across is None
                    else across(self, normed, memory, mask, memory_mask)
                )
            else:
                found = self.feed_forward(normed)
            x = x + found if sums is True or part not in sums else found
        output = x, weights.get("self"), weights.get("cross")
        return output if results is None else results(*output)

    return layer(forward)


def after_the_sums(self, x, memory, mask=None, memory_mask=None):
    found, own = self.self_attention(x, mask=mask, need_weights=True)
    x = self.self_norm(x + found)
    found, cross = self.cross_attention(x, memory, memory_mask, need_weights=True)
    x = self.cross_norm(x + found)
    return self.feed_forward_norm(x + self.feed_forward(x)), own, cross


def norms_replace(self, x, memory, mask=None, memory_mask=None):
    x = self.self_norm(x)
    found, own = self.self_attention(x, mask=mask, need_weights=True)
    x = self.cross_norm(x + found)
    found, cross = self.cross_attention(x, memory, memory_mask, need_weights=True)
    x = self.feed_forward_norm(x + found)
    return x + self.feed_forward(x), own, cross


def side_by_side(self, x, memory, mask=None, memory_mask=None):
    first, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)
    second, cross = self.cross_attention(self.cross_norm(x), memory, memory_mask, need_weights=True)
    return x + first + second + self.feed_forward(self.feed_forward_norm(x)), own, cross


def first_norm_in_front(self, x, memory, mask=None, memory_mask=None):
    found, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)
    x = x + found
    found, cross = self.cross_attention(x, memory, memory_mask, need_weights=True)
    x = self.cross_norm(x + found)
    return self.feed_forward_norm(x + self.feed_forward(x)), own, cross


def loses_the_first_sum(self, x, memory, mask=None, memory_mask=None):
    a, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)
    b, cross = self.cross_attention(self.cross_norm(x + a), memory, memory_mask, need_weights=True)
    h = x + b
    return h + self.feed_forward(self.feed_forward_norm(h)), own, cross


def loses_both_sums(self, x, memory, mask=None, memory_mask=None):
    a, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)
    h = x + a
    b, cross = self.cross_attention(self.cross_norm(h), memory, memory_mask, need_weights=True)
    return x + self.feed_forward(self.feed_forward_norm(h + b)), own, cross


def as_in_torch(self, x, memory, mask=None, memory_mask=None):
    q = self.self_norm(x)
    found, own = self.self_attention(q, q, q, mask)
    x = x + found
    found, cross = self.cross_attention(self.cross_norm(x), memory, memory, memory_mask)
    x = x + found
    return x + self.feed_forward(self.feed_forward_norm(x)), own, cross


def misspelt(self, x, memory, mask=None, memory_mask=None):
    found, own = self.self_attention(self.norm(x), mask=mask, need_weights=True)
    return found, own, own


def weights_not_asked_for(self, x, memory, mask=None, memory_mask=None):
    found, own = self.self_attention(self.self_norm(x), mask=mask)
    x = x + found
    found, cross = self.cross_attention(self.cross_norm(x), memory, memory_mask)
    x = x + found
    return x + self.feed_forward(self.feed_forward_norm(x)), own, cross


def sentence_mean(self, x, memory, mask=None, memory_mask=None):
    output, own, cross = Layer.forward(self, x, memory, mask, memory_mask)
    return output - x.mean(1, keepdim=True), own, cross


class WithoutCrossNorm(Layer):
    def __init__(self, dim, heads, hidden):
        super().__init__(dim, heads, hidden)
        del self.cross_norm


DECODER_LAYER = Zoo(
    wrong=[
        (
            layer_of(across=lambda f, x, s, mask, words: f.cross_attention(x, None, words, True)),
            "got no memory",
        ),
        (
            layer_of(across=lambda f, x, s, mask, words: f.cross_attention(s, x, words, True)),
            "roles in cross-attention are swapped",
        ),
        (layer_of(back=lambda f, x, s, mask, words: f.self_attention(x, s, mask, True)), "was given the memory"),
        (
            layer_of(back=lambda f, x, s, mask, words: f.self_attention(x, mask, need_weights=True)),
            "mask as its second argument",
        ),
        (
            layer_of(across=lambda f, x, s, mask, words: f.self_attention(x, s, words, True)),
            "Cross-attention uses the other's parameters",
        ),
        (layer(as_in_torch), "as torch's own is"),
        (
            layer_of(across=lambda f, x, s, mask, words: f.cross_attention(x, s, s, words)),
            "as torch's own is",
        ),
        (
            layer_of(across=lambda f, x, s, mask, words: f.cross_attention(x, s, s, words, need_weights=True)),
            "as torch's own is",
        ),
        (
            layer_of(across=lambda f, x, s, mask, words: f.cross_attention(x, s, s, mask=words, need_weights=True)),
            "as torch's own is",
        ),
        (
            layer_of(back=lambda f, x, s, mask, words: f.self_attention(x, x, x, mask=mask)),
            "as torch's own is",
        ),
        (
            layer_of(across=lambda f, x, s, mask, words: f.cross_attention(x, f.cross_norm(s), words, True)),
            "memory was normalised as well",
        ),
        (
            layer_of(back=lambda f, x, s, mask, words: f.self_attention(x, need_weights=True)),
            "causal mask has no effect",
        ),
        (
            layer_of(back=lambda f, x, s, mask, words: f.self_attention(x, mask=words, need_weights=True)),
            "Self-attention got the mask of the source",
        ),
        (
            layer_of(back=lambda f, x, s, mask, words: f.self_attention(x, None, causal_mask(x.shape[1]), True)),
            "causal even where no mask was given",
        ),
        (
            layer_of(
                back=lambda f, x, s, mask, words: f.self_attention(x, mask=words, need_weights=True),
                across=lambda f, x, s, mask, words: f.cross_attention(x, s, mask, True),
            ),
            "two masks are swapped",
        ),
        (
            layer_of(across=lambda f, x, s, mask, words: f.cross_attention(x, s, need_weights=True)),
            "`memory_mask` has no effect",
        ),
        (
            layer_of(across=lambda f, x, s, mask, words: f.cross_attention(x, s, mask, True)),
            "Cross-attention got the causal mask",
        ),
        (
            layer_of(
                back=lambda f, x, s, mask, words: f.self_attention(x, None, mask if mask is None else mask.mT, True)
            ),
            "causal mask is transposed",
        ),
        (layer_of(sums=("self", "cross", "think")), "no residual sum at all"),
        (layer_of(sums=("cross",)), "the words forget themselves"),
        (layer(after_the_sums), "That is post-norm"),
        (layer(norms_replace), "x was replaced by its norm"),
        (layer(first_norm_in_front), "the other two behind their sums"),
        (layer(loses_the_first_sum), "What self-attention found is lost"),
        (layer(loses_both_sums), "What both attentions found is lost"),
        (layer_of(norms=dict.fromkeys(("self", "cross", "think"))), "no norm at all"),
        (
            layer_of(norms={"self": "self_norm", "cross": None, "think": "feed_forward_norm"}),
            "lacks its norm, `self.cross_norm`",
        ),
        (layer_of(norms=dict.fromkeys(("self", "cross", "think"), "self_norm")), "used for all three"),
        (layer_of(parts=("cross", "self", "think")), "Cross-attention came first"),
        (layer_of(parts=("self", "think", "cross")), "before cross-attention"),
        (layer(side_by_side), "All three worked on the x that came in"),
        (layer_of(parts=("self", "cross")), "feed-forward layer is missing"),
        (layer_of(parts=("self", "think")), "Cross-attention is missing"),
        (layer_of(results=lambda output, own, cross: output), "Only x came back"),
        (layer_of(results=lambda output, own, cross: (output, cross, own)), "two weights are swapped"),
        (layer(weights_not_asked_for), "Both weights are None"),
        (layer_of(results=lambda output, own, cross: (output, own.mean(1), cross.mean(1))), "averaged over the heads"),
        (layer_of(results=lambda output, own, cross: (output, own.mean(1), cross)), "Axis 1 is missing"),
        (layer_of(results=lambda output, own, cross: (output.detach(), own, cross)), "no gradient flows back from `x`"),
        (layer_of(results=lambda output, own, cross: (output + 1, own, cross)), "wrong values"),
        (layer(sentence_mean), "later words still influence"),
        (layer_of(results=lambda output, own, cross: (output.double(), own, cross)), "float64"),
        (layer(misspelt), "It raised AttributeError"),
        (WithoutCrossNorm, "only `forward` is yours"),
        (lambda dim, heads, hidden: Layer(dim, heads, hidden), "Expected a class"),
    ],
    right=[Layer, ByParts, SelfAsCross],
)


# 6.4 encode and decode
class Stack(nn.Module):
    def __init__(self, layers, dim, heads, hidden):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim, heads, hidden) for _ in range(layers))
        self.final_norm = LayerNorm(dim)

    def forward(self, x, memory, mask=None, memory_mask=None):
        for one in self.layers:
            x, _, _ = one(x, memory, mask, memory_mask)
        return self.final_norm(x)


class Model(nn.Module):
    def __init__(self, source_words, target_words, dim, heads, hidden, layers):
        super().__init__()
        self.source_vectors, self.target_vectors = WordVectors(source_words, dim), WordVectors(target_words, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre")
        self.decoder = Stack(layers, dim, heads, hidden)
        self.output = nn.Linear(dim, target_words, bias=False)
        self.output.weight = self.target_vectors.table.weight

    def encode(self, source, source_mask):
        return self.encoder(self.source_vectors(source), source_mask[:, None])[0]

    def decode(self, target, memory, source_mask):
        x = self.target_vectors(target)
        return self.output(self.decoder(x, memory, causal_mask(x.size(1)), source_mask[:, None]))


class FullMasks(Model):
    """Every mask written out, (b, m, n)."""

    def encode(self, source, source_mask):
        mask = source_mask.unsqueeze(1).expand(-1, source.shape[1], -1)
        memory, _ = self.encoder(self.source_vectors(source), mask=mask)
        return memory

    def decode(self, target, memory, source_mask):
        b, m = target.shape
        mask = torch.tril(torch.ones(b, m, m)) == 1
        x = self.decoder(self.target_vectors(target), memory, mask, source_mask.unsqueeze(1).repeat(1, m, 1))
        return x @ self.output.weight.T


class WordByWord(Model):
    """No mask among the words at all: each beginning on its own."""

    def decode(self, target, memory, source_mask):
        logits = []
        for m in range(1, target.size(1) + 1):
            x = self.decoder(self.target_vectors(target[:, :m]), memory, causal_mask(m), source_mask.unsqueeze(1))
            logits.append(self.output(x[:, -1]))
        return torch.stack(logits, 1)


class PaddingLooksNowhere(Model):
    """Neither look at padding nor let it look: what the memory holds there is never used."""

    def encode(self, source, source_mask):
        return self.encoder(self.source_vectors(source), source_mask[:, None] & source_mask[:, :, None])[0]


class PaddingIsEmpty(Model):
    """The memory set to 0 at padding."""

    def encode(self, source, source_mask):
        return super().encode(source, source_mask) * source_mask.unsqueeze(-1)


def model(encode=None, decode=None):
    parts = {name: part for name, part in (("encode", encode), ("decode", decode)) if part is not None}
    return type("Transformer", (Model,), parts)


def decoding(mask=causal_mask, words=lambda s: s[:, None], last=lambda f, x: f.output(x), vectors=None):
    def decode(self, target, memory, source_mask):
        x = (self.target_vectors if vectors is None else vectors(self))(target)
        return last(self, self.decoder(x, memory, mask(target.size(1)), words(source_mask)))

    return model(decode=decode)


def encoding(words=lambda s: s[:, None], vectors=None, last=lambda pair: pair[0]):
    def encode(self, source, source_mask):
        x = (self.source_vectors if vectors is None else vectors(self))(source)
        return last(self.encoder(x, words(source_mask)))

    return model(encode=encode)


def without_masks():
    return model(
        lambda self, source, source_mask: self.encoder(self.source_vectors(source))[0],
        lambda self, target, memory, source_mask: self.output(
            self.decoder(self.target_vectors(target), memory, causal_mask(target.size(1)))
        ),
    )


def adds_the_mean(self, target, memory, source_mask):
    logits = Model.decode(self, target, memory, source_mask)
    return logits + self.output(self.target_vectors(target)).mean(1, keepdim=True)


@torch.no_grad()
def decode_without_gradient(self, target, memory, source_mask):
    return Model.decode(self, target, memory, source_mask)


def sum_of_the_memory(self, target, memory, source_mask):
    return Model.decode(self, target, memory, source_mask) + self.output(memory.mean(1, keepdim=True))


class OneMoreTable(Model):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.target_vectors = None


ENCODE_DECODE = Zoo(
    wrong=[
        (decoding(mask=lambda m: None), "see those behind it"),
        (decoding(mask=lambda m: causal_mask(m).T), "causal mask is transposed"),
        (decoding(mask=lambda m: torch.ones(m, m, dtype=torch.bool).tril(-1)), "cannot see themselves"),
        (without_masks(), "used nowhere"),
        (encoding(words=lambda s: None), "`encode` does not use `source_mask`"),
        (decoding(words=lambda s: None), "`decode` does not use `source_mask`"),
        (encoding(words=lambda s: s), "`self.encoder` needs the mask as (b, 1, n)"),
        (decoding(words=lambda s: s), "`self.decoder` needs the mask as (b, 1, n)"),
        (encoding(words=lambda s: ~s[:, None]), "In `encode` the mask is turned round"),
        (encoding(words=lambda s: s[:, :, None]), "hides those who look"),
        (encoding(words=lambda s: causal_mask(s.size(1))), "causal mask in the encoder"),
        (encoding(words=lambda s: causal_mask(s.size(1)) & s[:, None]), "causal mask in the encoder"),
        (
            model(
                decode=lambda self, target, memory, mask: self.output(
                    self.decoder(self.target_vectors(target), memory, mask[:, None], causal_mask(target.size(1)))
                )
            ),
            "two masks are swapped",
        ),
        (
            model(
                decode=lambda self, target, memory, mask: self.output(
                    self.decoder(self.target_vectors(target), memory, mask[:, None])
                )
            ),
            "stands where the words' mask belongs",
        ),
        (decoding(last=lambda f, x: x), "`decode` returned vectors"),
        (decoding(last=lambda f, x: f.output(x).softmax(-1)), "`decode` returned probabilities"),
        (decoding(last=lambda f, x: f.output(x)[:, -1]), "Only the last word's logits"),
        (decoding(vectors=lambda f: f.target_vectors.table), "`decode` took the bare table"),
        (decoding(vectors=lambda f: f.source_vectors), "looked up among the source's vectors"),
        (encoding(last=lambda pair: pair), "`encode` returned a tuple of 2"),
        (encoding(last=lambda pair: None), "`encode` returned nothing"),
        (model(encode=lambda self, source, mask: self.source_vectors(source)), "word vectors themselves"),
        (
            model(
                decode=lambda self, target, memory, mask: Model.decode(self, target, self.target_vectors(target), mask)
            ),
            "its own words to look at",
        ),
        (model(decode=adds_the_mean), "changes the logits of those before it"),
        (model(decode=sum_of_the_memory), "in the padding of the source changes the logits"),
        (model(decode=decode_without_gradient), "no gradient flows back from `decode`"),
        (decoding(last=lambda f, x: f.output(x) * 2), "wrong values"),
        (decoding(last=lambda f, x: f.output(x).double()), "float64"),
        (decoding(last=lambda f, x: f.out(x)), "It raised AttributeError"),
        (OneMoreTable, "only `encode` and `decode` are yours"),
    ],
    right=[Model, FullMasks, WordByWord, PaddingLooksNowhere, PaddingIsEmpty],
)


# 6.5 shifted targets
def padded(rows, padding=0):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows])


def shifted_by_hand(sentences, start, end, padding=0):
    return padded([[start, *s] for s in sentences], padding), padded([[*s, end] for s in sentences], padding)


def shifted_in_tensors(sentences, start, end, padding=0):
    b, m = len(sentences), max(map(len, sentences)) + 1
    target_in, target_out = torch.full((b, m), padding), torch.full((b, m), padding)
    target_in[:, 0] = start
    for row, words in enumerate(sentences):
        target_in[row, 1 : len(words) + 1] = torch.tensor(words)
        target_out[row, : len(words)] = torch.tensor(words)
        target_out[row, len(words)] = end
    return target_in, target_out


def shifted_by_roll(sentences, start, end, padding=0):
    """`end` goes to the place behind the last word; what is read is that, moved on by one."""
    lengths = torch.tensor([len(words) for words in sentences])
    words = pad_sequence([torch.tensor([*words, end]) for words in sentences], True, padding)
    read = words.roll(1, 1).masked_fill(torch.arange(words.size(1)) > lengths[:, None], padding)
    read[:, 0] = start
    return [read, words]


def append_in_place(sentences, start, end, padding=0):
    target_in = padded([[start, *s] for s in sentences], padding)
    for words in sentences:
        words.append(end)
    return target_in, padded(sentences, padding)


def insert_in_place(sentences, start, end, padding=0):
    said = padded([[*s, end] for s in sentences], padding)
    for words in sentences:
        words.insert(0, start)
    return padded(sentences, padding), said


def cut_both(sentences, start, end, padding=0):
    both = pad_sequence([torch.tensor([start, *words, end]) for words in sentences], True, padding)
    return both[:, :-1], both[:, 1:]


def pairs(read, said):
    return lambda sentences, start, end, padding=0: (
        padded([read(s, start, end) for s in sentences], padding),
        padded([said(s, start, end) for s in sentences], padding),
    )


SHIFT = Zoo(
    wrong=[
        (pairs(lambda s, start, end: [start, *s, end], lambda s, start, end: [start, *s, end]), "are the same"),
        (pairs(lambda s, start, end: s, lambda s, start, end: [*s, end]), "start token is missing"),
        (pairs(lambda s, start, end: [end, *s], lambda s, start, end: [*s, end]), "starts on the end token"),
        (
            pairs(lambda s, start, end: [start, *s], lambda s, start, end: s),
            "end token is missing in `target_out`: without",
        ),
        (pairs(lambda s, start, end: [start, *s[:-1]], lambda s, start, end: s), "behind the last word comes `end`"),
        (
            pairs(lambda s, start, end: [start, *s, end], lambda s, start, end: [*s, end]),
            "one longer than `target_out`",
        ),
        (cut_both, "shorter sentences have an end token"),
        (
            lambda s, start, end, padding=0: (
                F.pad(padded(s, padding), (1, 0), value=start),
                F.pad(padded(s, padding), (0, 1), value=end),
            ),
            "behind the padding",
        ),
        (lambda s, start, end, padding=0: shifted_by_hand(s, start, end, padding)[::-1], "results are swapped"),
        (lambda s, start, end, padding=0: shifted_by_hand(s, start, end), "always 0"),
        (lambda s, start, end, padding=0: shifted_by_hand(s, 1, 2, padding), "numbers in your code"),
        (
            lambda s, start, end, padding=0: tuple(t.T for t in shifted_by_hand(s, start, end, padding)),
            "places come first",
        ),
        (
            lambda s, start, end, padding=0: ([[start, *words] for words in s], [[*words, end] for words in s]),
            "lists of different lengths",
        ),
        (append_in_place, "given lists were changed"),
        (insert_in_place, "given lists were changed"),
        (
            lambda s, start, end, padding=0: (
                torch.tensor([[start, *words] for words in s]),
                torch.tensor([[*words, end] for words in s]),
            ),
            "pad first",
        ),
        (
            lambda s, start, end, padding=0: (
                F.pad(torch.tensor(s), (1, 0), value=start),
                F.pad(torch.tensor(s), (0, 1), value=end),
            ),
            "pad first",
        ),
        (lambda s, start, end: shifted_by_hand(s, start, end), "Put the first line back"),
        (lambda s, start, end, padding=0: tuple(t.int() for t in shifted_by_hand(s, start, end, padding)), "int32"),
        (lambda s, start, end, padding=0: tuple(t.float() for t in shifted_by_hand(s, start, end, padding)), "float32"),
        (lambda s, start, end, padding=0: shifted_by_hand(s, start, end, padding)[0], "expected a tuple of 2"),
    ],
    right=[shifted_by_hand, shifted_in_tensors, shifted_by_roll],
)


# 6.6 the smoothed loss
def loss_by_torch(logits, targets, smoothing, padding=0):
    return F.cross_entropy(logits.transpose(1, 2), targets, label_smoothing=smoothing, ignore_index=padding)


def loss_by_distribution(logits, targets, smoothing, padding=0):
    words = logits.size(-1)
    goal = torch.full_like(logits, smoothing / words)
    goal = goal.scatter_add(-1, targets[..., None], torch.full_like(logits[..., :1], 1 - smoothing))
    losses = -(goal * F.log_softmax(logits, -1)).sum(-1)
    real = (targets != padding).to(logits.dtype)
    return (losses * real).sum() / real.sum()


def loss_one_by_one(logits, targets, smoothing, padding=0):
    losses = []
    for row, goals in zip(logits, targets, strict=True):
        for one, goal in zip(row, goals.tolist(), strict=True):
            if goal != padding:
                logs = one - one.logsumexp(0)
                losses.append(-(1 - smoothing) * logs[goal] - smoothing * logs.mean())
    return torch.stack(losses).mean()


def loss_with(goals, logs=lambda logits: logits.log_softmax(-1), mean=lambda losses, real: losses[real].mean()):
    def loss(logits, targets, smoothing, padding=0):
        goal = goals(F.one_hot(targets, logits.size(-1)).to(logits.dtype), smoothing)
        return mean(-(goal * logs(logits)).sum(-1), targets != padding)

    return loss


def even(hot, s):
    return (1 - s) * hot + s / hot.size(-1)


def annotated(logits, targets, smoothing, padding=0):
    """Nothing for padding, and the rest of the mass without the target."""
    hot = F.one_hot(targets, logits.size(-1)).float()
    goal = (1 - smoothing) * hot + smoothing / (logits.size(-1) - 2) * (1 - hot)
    goal = goal * (torch.arange(logits.size(-1)) != padding)
    return -(goal * logits.log_softmax(-1)).sum(-1)[targets != padding].mean()


def loss_by_divergence(logits, targets, smoothing, padding=0):
    goal = even(F.one_hot(targets, logits.size(-1)).float(), smoothing)
    return F.kl_div(logits.log_softmax(-1), goal, reduction="none").sum(-1)[targets != padding].mean()


def loss_by_index(pick):
    def loss(logits, targets, smoothing, padding=0):
        log_p = F.log_softmax(logits, dim=-1)
        losses = -(1 - smoothing) * pick(log_p, targets) - smoothing * log_p.mean(-1)
        return losses[targets != padding].mean()

    return loss


def scatter_in_place(logits, targets, smoothing, padding=0):
    logits -= logits.logsumexp(-1, keepdim=True)
    return loss_by_distribution(logits, targets, smoothing, padding)


LOSS = Zoo(
    wrong=[
        (
            lambda x, t, s, padding=0: F.cross_entropy(x.transpose(1, 2), t, label_smoothing=s),
            "Padding counts as a target",
        ),
        (loss_with(even, mean=lambda losses, real: (losses * real).mean()), "divided by all positions"),
        (
            lambda x, t, s, padding=0: (
                (1 - s) * F.cross_entropy(x.transpose(1, 2), t, ignore_index=padding) - s * x.log_softmax(-1).mean()
            ),
            "smoothing is counted at padding",
        ),
        (lambda x, t, s, padding=0: loss_by_torch(x, t, s), "use the argument `padding`"),
        (loss_with(even, mean=lambda losses, real: losses[real].sum()), "That is the sum"),
        (loss_with(even, mean=lambda losses, real: losses * real), "a loss for each position"),
        (lambda x, t, s, padding=0: F.cross_entropy(x.mT, t, ignore_index=padding), "`smoothing` has no effect"),
        (loss_with(lambda hot, s: (1 - s) * hot + s / (hot.size(-1) - 1) * (1 - hot)), "other words only"),
        (annotated, "as in some codes"),
        (loss_with(lambda hot, s: (1 - s) * hot + s / hot.size(-1) * (1 - hot)), "but to 1 - smoothing / V"),
        (loss_with(lambda hot, s: hot + s / hot.size(-1)), "but to 1 + smoothing"),
        (loss_with(lambda hot, s: (1 - s) * hot + s), "every word got all"),
        (loss_with(lambda hot, s: s * hot + (1 - s) / hot.size(-1)), "two shares are swapped"),
        (loss_with(lambda hot, s: (1 - s) * hot), "second part is missing"),
        (loss_by_divergence, "KL divergence"),
        (loss_by_index(lambda log_p, t: log_p[:, :, t]), "targets of all positions at every position"),
        (loss_by_index(lambda log_p, t: log_p[t]), "taken for sentences"),
        (loss_by_index(lambda log_p, t: log_p[:, t]), "taken for positions"),
        (lambda x, t, s, padding=0: -loss_by_torch(x, t, s, padding), "sign is wrong"),
        (loss_with(even, logs=lambda logits: logits), "softmax is missing"),
        (lambda x, t, s, padding=0: loss_by_torch(x.softmax(-1), t, s, padding), "softmax was taken twice"),
        (loss_with(even, logs=lambda logits: logits.softmax(-1).log()), "infinite"),
        (loss_with(even, logs=lambda logits: F.log_softmax(logits, 1)), "ran over the positions"),
        (
            lambda x, t, s, padding=0: F.cross_entropy(
                x.reshape(len(x), x.size(2), x.size(1)), t, label_smoothing=s, ignore_index=padding
            ),
            "`reshape` mixed",
        ),
        (scatter_in_place, "changed its input `logits`"),
        (lambda x, t, s, padding=0: loss_by_torch(x, t, s, padding).item(), "Leave out `.item()`"),
        (lambda x, t, s, padding=0: loss_by_torch(x.detach(), t, s, padding), "no gradient flows back to the inputs"),
        (lambda x, t, s, padding=0: loss_by_torch(x, t, s, padding) + 0.1, "wrong values"),
        (lambda x, t, s, padding=0: loss_by_torch(x.transpose(1, 2), t, s, padding), "It raised"),
    ],
    right=[loss_by_torch, loss_by_distribution, loss_one_by_one],
)


# 6.7 the schedule
def rate_by_cases(step, dim, warmup):
    if step < warmup:
        return step / (math.sqrt(dim) * warmup * math.sqrt(warmup))
    return 1 / math.sqrt(dim * step)


def rate_in_torch(step, dim, warmup):
    parts = torch.tensor([step**-0.5, step * warmup**-1.5], dtype=torch.float64)
    return float(parts.min() / dim**0.5)


RATE = Zoo(
    wrong=[
        (lambda step, dim, warmup: dim**-0.5 * max(step**-0.5, step * warmup**-1.5), "the smaller one, `min`"),
        (lambda step, dim, warmup: min(step**-0.5, step * warmup**-1.5), "factor dim^-0.5 is missing"),
        (
            lambda step, dim, warmup: math.sqrt(dim) * min(step**-0.5, step * warmup**-1.5),
            "multiplied by the root of dim",
        ),
        (
            lambda step, dim, warmup: 1 / dim * min(step**-0.5, step * warmup**-1.5),
            "divided by dim: divide by its root",
        ),
        (lambda step, dim, warmup: dim**-0.5 * step**-0.5, "no warm-up"),
        (lambda step, dim, warmup: dim**-0.5 * step * warmup**-1.5, "rises without end"),
        (lambda step, dim, warmup: dim**-0.5 * min(step**-0.5, step * warmup**-0.5), "power of warmup is wrong"),
        (lambda step, dim, warmup: dim**-0.5 * min(step**-0.5, warmup**-1.5), "does not rise"),
        (lambda step, dim, warmup: dim**-0.5 * min(step**-0.5, (step * warmup) ** -1.5), "taken of step · warmup"),
        (lambda step, dim, warmup: dim * -0.5 * min(step**-0.5, step * warmup**-1.5), "the rate is below 0"),
        (lambda step, dim, warmup: dim**-0.5 * min(step**-0.5, step / warmup), "goes up to 1"),
        (lambda step, dim, warmup: rate_by_cases(step + 1, dim, warmup), "counted from 1"),
        (lambda step, dim, warmup: dim**-0.5 * min(step**0.5, step * warmup**-1.5), "power of step lost its sign"),
        (lambda step, dim, warmup: 2 * rate_by_cases(step, dim, warmup), "wrong number"),
        (lambda step, dim, warmup: rate_by_cases(step, dim, 400), "not highest at step `warmup`"),
        (lambda step, dim, warmup: dim**-0.5 * torch.min(step**-0.5, step * warmup**-1.5), "It raised TypeError"),
        (lambda step, dim, warmup: None, "returned nothing"),
    ],
    right=[rate_by_cases, rate_in_torch],
)


# 6.8 greedy decoding
def greedy_with_flags(model, source, source_mask, start, end, limit):
    memory, b = model.encode(source, source_mask), source.shape[0]
    words, done = torch.tensor([[start]] * b), torch.zeros(b, dtype=torch.bool)
    for _ in range(limit):
        logits = model.decode(words, memory, source_mask)
        word = logits.softmax(-1)[:, -1, :].argmax(dim=1)
        word = torch.where(done, torch.zeros_like(word), word)
        words = torch.cat((words, word[:, None]), dim=1)
        done |= word == end
        if done.all():
            break
    return words[:, 1:]


def greedy_one_by_one(model, source, source_mask, start, end, limit):
    rows = []
    for place in range(len(source)):
        one, mask = source[place : place + 1], source_mask[place : place + 1]
        memory, said = model.encode(one, mask), [start]
        while len(said) <= limit and said[-1] != end:
            said.append(int(model.decode(torch.tensor([said]), memory, mask)[0, -1].argmax()))
        rows.append(torch.tensor(said[1:]))
    return pad_sequence(rows, batch_first=True)


def greedy_and_clean(model, source, source_mask, start, end, limit):
    """All steps first, the padding afterwards."""
    memory, words = model.encode(source, source_mask), torch.full((len(source), 1), start)
    for _ in range(limit):
        words = torch.cat([words, model.decode(words, memory, source_mask)[:, -1:].argmax(-1)], 1)
    words = words[:, 1:]
    behind = (words == end).cumsum(1) - (words == end).long() > 0
    words = torch.where(behind, 0, words)
    return words[:, : int((words != 0).sum(1).max())]


def greedy_to_the_limit(model, source, source_mask, start, end, limit):
    memory, words = model.encode(source, source_mask), torch.full((len(source), 1), start)
    for _ in range(limit):
        words = torch.cat([words, model.decode(words, memory, source_mask)[:, -1:].argmax(-1)], 1)
    return words[:, 1:]


def greedy_until(stop, result=lambda words: words[:, 1:]):
    def decode(model, source, source_mask, start, end, limit):
        memory, words = model.encode(source, source_mask), torch.full((len(source), 1), start)
        for _ in range(limit):
            word = model.decode(words, memory, source_mask)[:, -1].argmax(-1)
            words = torch.cat([words, word.unsqueeze(1)], 1)
            if stop(word == end):
                break
        return result(words)

    return decode


def greedy_by(change):
    """Right but for how the model is called: change(model, source, mask) gives another (encode, decode)."""

    def decode(model, source, source_mask, start, end, limit):
        return greedy_with_flags(Changed(*change(model, source, source_mask)), source, source_mask, start, end, limit)

    return decode


class Changed:
    def __init__(self, encode, decode):
        self.encode, self.decode = encode, decode


def encoding_each_time(model, source, source_mask):
    def decode(words, memory, mask):
        return model.decode(words, model.encode(source, source_mask), mask)

    return model.encode, decode


def tail(change):
    """decode is given change(words)."""
    return lambda model, source, mask: (model.encode, lambda words, memory, m: model.decode(change(words), memory, m))


def seen(change):
    """What decode gave is changed."""
    return lambda model, source, mask: (model.encode, lambda words, memory, m: change(model.decode(words, memory, m)))


def masked_with(change):
    return lambda model, source, mask: (
        model.encode,
        lambda words, memory, m: model.decode(words, memory, change(m)),
    )


GREEDY = Zoo(
    wrong=[
        (greedy_to_the_limit, "end token has no effect"),
        (greedy_until(lambda ended: bool(ended.all())), "in the same step"),
        (greedy_until(lambda ended: bool(ended.any())), "when the first sentence had ended"),
        (greedy_by(encoding_each_time), "encoded more than once"),
        (lambda f, s, m, start, end, limit: f(s, m, torch.full((len(s), 1), start)), "The model itself was called"),
        (greedy_by(tail(lambda words: words[:, -1:])), "do not begin with the start token"),
        (greedy_by(tail(lambda words: words[:, -1])), "as the words so far"),
        (greedy_by(seen(lambda logits: logits.flip(1))), "read off the first position"),
        (greedy_by(seen(lambda logits: -logits)), "least likely words"),
        (greedy_by(masked_with(lambda mask: None)), "got None as its mask"),
        (
            lambda f, s, m, start, end, limit: greedy_with_flags(f, s, torch.ones(s.shape).bool(), start, end, limit),
            "Padding was read as words",
        ),
        (lambda f, s, m, start, end, limit: greedy_with_flags(f, s, ~m, start, end, limit), "The mask is turned round"),
        (greedy_by(masked_with(lambda mask: mask.unsqueeze(1))), "hand on `source_mask` as it came"),
        (
            lambda f, s, m, start, end, limit: F.pad(
                greedy_with_flags(f, s, m, start, end, limit), (1, 0), value=start
            ),
            "start token is among the words: it is only read. Cut it off at the end, `words",
        ),
        (lambda f, s, m, start, end, limit: greedy_with_flags(f, s, m, start, end, limit + 1), "a word too many"),
        (
            lambda f, s, m, start, end, limit: (
                greedy_with_flags(f, s, m, start, end, limit - 1) if limit > 1 else torch.zeros(len(s), 0).long()
            ),
            "A word is missing at the limit",
        ),
        (lambda f, s, m, start, end, limit: greedy_with_flags(f, s, m, start, end, limit).T, "places first"),
        (
            lambda f, s, m, start, end, limit: greedy_with_flags(f, s, m, 1, end, limit),
            "do not begin with the start token",
        ),
        (lambda f, s, m, start, end, limit: greedy_with_flags(f, s, m, start, 2, limit), "`end`"),
        (lambda f, s, m, start, end, limit: greedy_with_flags(f, s, m, start, end, 10**4), "which may be never"),
        (lambda f, s, m, start, end, limit: greedy_with_flags(f, s, m, start, end, limit).tolist(), "list"),
        (
            lambda f, s, m, start, end, limit: (
                (words := greedy_with_flags(f, s, m, start, end, limit)) * (words != end)
            ),
            "end token is missing",
        ),
        (lambda f, s, m, start, end, limit: greedy_with_flags(f, s, m, start, end, limit).int(), "int32"),
        (lambda f, s, m, start, end, limit: f.encod(s, m), "It raised AttributeError"),
    ],
    right=[greedy_with_flags, greedy_one_by_one, greedy_and_clean],
)


# 6.9 the cache
def step(x, keys, values, W_Q, W_K, W_V):
    query, key, value = x @ W_Q, x @ W_K, x @ W_V
    keys, values = torch.cat((keys, key), dim=1), torch.cat((values, value), dim=1)
    scores = torch.einsum("bok,btk->bot", query, keys) / math.sqrt(query.size(-1))
    return scores.softmax(-1) @ values, keys, values


def step_with_room(x, keys, values, W_Q, W_K, W_V):
    b, t, d_k = keys.shape
    kept = x.new_empty(2, b, t + 1, d_k)
    kept[0, :, :t], kept[1, :, :t] = keys, values
    kept[0, :, t:], kept[1, :, t:] = x @ W_K, x @ W_V
    output, _ = attention(x @ W_Q, kept[0], kept[1], need_weights=False)
    return output, kept[0], kept[1]


def step_with_the_last_row(x, keys, values, W_Q, W_K, W_V):
    """The last row of the causal mask: it may look everywhere."""
    keys, values = torch.cat([keys, x @ W_K], -2), torch.cat([values, x @ W_V], -2)
    output, _ = attention(x @ W_Q, keys, values, causal_mask(keys.size(1))[-1:])
    return [output, keys, values]


def step_of(keys_of, values_of=None, look=attention, results=lambda output, keys, values: (output, keys, values)):
    def wrong(x, keys, values, W_Q, W_K, W_V):
        grown = keys_of(keys, x @ W_K), (values_of or keys_of)(values, x @ W_V)
        output, _ = look(x @ W_Q, *grown)
        return results(output, *grown)

    return wrong


def join(kept, new):
    return torch.cat([kept, new], 1)


def sees_before_it_keeps(x, keys, values, W_Q, W_K, W_V):
    output, _ = attention(x @ W_Q, keys, values)
    return output, join(keys, x @ W_K), join(values, x @ W_V)


def keeps_nothing(x, keys, values, W_Q, W_K, W_V):
    output, _, _ = step(x, keys, values, W_Q, W_K, W_V)
    return output, keys, values


CACHE = Zoo(
    wrong=[
        (step_of(lambda kept, new: new), "sees only itself"),
        (step_of(lambda kept, new: new, join), "The keys: what was kept was overwritten"),
        (step_of(join, lambda kept, new: new), "The values: what was kept was overwritten"),
        (step_of(lambda kept, new: torch.cat([kept[:, :-1], new], 1)), "last word kept was replaced"),
        (sees_before_it_keeps, "does not see itself"),
        (keeps_nothing, "are the old ones"),
        (step_of(lambda kept, new: torch.cat([new, kept], 1)), "put in front"),
        (step_of(lambda kept, new: torch.cat([kept, new])), "axis 0"),
        (step_of(lambda kept, new: torch.cat([kept, new], 2)), "behind the features"),
        (lambda x, k, v, Q, K, V: step(x, k, v, Q, V, K), "`W_K` and `W_V` are swapped"),
        (lambda x, k, v, Q, K, V: step(x, k, v, K, Q, V), "`W_Q` and `W_K` are swapped"),
        (lambda x, k, v, Q, K, V: step(x, k, v, Q, K, K), "new value is the key"),
        (
            step_of(join, look=lambda q, k, v: attention(q, k, v, causal_mask(k.size(1))[:1])),
            "mask's first row",
        ),
        (step_of(join, look=lambda q, k, v: attention(q, k, v, causal_mask(k.size(1)))), "spread the one query"),
        (step_of(join, look=lambda q, k, v: attention(q, k, v, scale=1)), "scale is missing"),
        (step_of(join, results=lambda output, keys, values: output), "Only the output"),
        (step_of(join, results=lambda output, keys, values: (output, (keys, values))), "as one pair"),
        (step_of(join, results=lambda output, keys, values: (output, values, keys)), "swapped in the results"),
        (step_of(join, results=lambda output, keys, values: (output[:, 0], keys, values)), "lost its axis"),
        (step_of(join, results=lambda output, keys, values: (output.detach(), keys, values)), "from `output`"),
        (step_of(join, results=lambda output, keys, values: (output, keys.double(), values)), "float64"),
        (
            step_of(join, results=lambda output, keys, values: (2 * output, keys, values)),
            "something else than all words",
        ),
        (step_of(lambda kept, new: kept.append(new)), "It raised AttributeError"),
    ],
    right=[step, step_with_room, step_with_the_last_row],
)


# 6.10 beam search
def beam_in_lists(next_words, start, end, limit, width):
    """Beginnings as lists of words, sorted."""
    beam = [(0.0, [])]
    for _ in range(limit):
        if all(end in words for _, words in beam):
            break
        grown = []
        for total, words in beam:
            if end in words:
                grown.append((total, words))
                continue
            logs = next_words(torch.tensor([[start, *words]]))[0]
            grown += [(total + float(log), [*words, word]) for word, log in enumerate(logs)]
        beam = sorted(grown, key=lambda one: one[0], reverse=True)[:width]
    words = pad_sequence([torch.tensor(words) for _, words in beam], batch_first=True)
    return words, torch.tensor([total for total, _ in beam])


def beam_of_copies(next_words, start, end, limit, width):
    """From the first step on `width` rows, of which one counts."""
    words = torch.full((width, 1), start)
    total = torch.full((width,), float("-inf"))
    total[0] = 0
    ended = torch.zeros(width, dtype=torch.bool)
    for _ in range(limit):
        logs = next_words(words)
        only_padding = torch.full_like(logs, float("-inf"))
        only_padding[:, 0] = 0
        sums = total[:, None] + torch.where(ended[:, None], only_padding, logs)
        total, place = torch.topk(sums.view(-1), width)
        parent, word = torch.div(place, logs.size(1), rounding_mode="floor"), place.remainder(logs.size(1))
        words, ended = torch.cat((words[parent], word[:, None]), 1), ended[parent] | (word == end)
        if ended.all():
            break
    return words[:, 1:], total


def beam_of_candidates(next_words, start, end, limit, width):
    """First the best of each beginning, then the best of those."""
    words, total = torch.tensor([[start]]), torch.tensor([0.0])
    while words.size(1) <= limit:
        ended = (words == end).any(1)
        if ended.all():
            break
        logs = next_words(words).clone()
        logs[ended] = float("-inf")
        logs[ended, 0] = 0.0
        best, word = logs.topk(width)
        total, place = (total[:, None] + best).flatten().sort(descending=True)
        total, place = total[:width], place[:width]
        words = torch.cat([words[place // width], word.flatten()[place][:, None]], 1)
    return words[:, 1:], total


def beam_that_sets_aside(next_words, start, end, limit, width, enough=False, fill=False, alive_too=True):
    """Beginnings as lists; what has ended leaves the beam for good. fill: the beam is filled up with the next best."""
    beam, done = [(0.0, [])], []
    for _ in range(limit):
        grown = []
        for total, words in beam:
            logs = next_words(torch.tensor([[start, *words]]))[0]
            grown += [(total + float(log), [*words, word]) for word, log in enumerate(logs)]
        beam = []
        for place, (total, words) in enumerate(sorted(grown, key=lambda one: one[0], reverse=True), 1):
            (done if words[-1] == end else beam).append((total, words))
            if (len(beam) if fill else place) == width:
                break
        if not beam or (enough and len(done) >= width):
            break
    found = sorted(done + beam if alive_too or not done else done, key=lambda one: one[0], reverse=True)[:width]
    words = pad_sequence([torch.tensor(words) for _, words in found], batch_first=True)
    return words, torch.tensor([total for total, _ in found])


def beam_that_shrinks(next_words, start, end, limit, width):
    words, total, done = torch.tensor([[start]]), torch.tensor([0.0]), []
    for _ in range(limit):
        logs = next_words(words)
        total, place = (total[:, None] + logs).view(-1).topk(width - len(done))
        words = torch.cat([words[place // logs.size(1)], (place % logs.size(1))[:, None]], 1)
        going = words[:, -1] != end
        done += [(float(t), row) for t, row in zip(total[~going], words[~going], strict=True)]
        words, total = words[going], total[going]
        if not len(words):
            break
    done += [(float(t), row) for t, row in zip(total, words, strict=True)]
    done.sort(key=lambda one: -one[0])
    return pad_sequence([row[1:] for _, row in done], True), torch.tensor([total for total, _ in done])


def setting_aside(**how):
    return lambda *args: beam_that_sets_aside(*args, **how)


def beam_without_an_end(next_words, start, end, limit, width):
    words, total = torch.full((1, 1), start), torch.zeros(1)
    for _ in range(limit):
        logs = next_words(words)
        total, place = (total[:, None] + logs).flatten().topk(width)
        words = torch.cat([words[place // logs.size(1)], (place % logs.size(1))[:, None]], 1)
    return words[:, 1:], total


def zero_at_a_price(logs, ended, end):
    logs = logs.clone()
    logs[ended, 1:] = float("-inf")
    return logs


def beam_by(begin=1, on=None, choose=None, carry=True, ended_as=None, stop=None, results=None):
    """A beam search in which parts can be wrong."""

    def search(next_words, start, end, limit, width):
        rows = width if begin == "copies" else 1
        words, total, ended = torch.full((rows, 1), start), torch.zeros(rows), torch.zeros(rows).bool()
        for _ in range(limit):
            logs = next_words(words)
            if on is None:
                logs = logs.masked_fill(ended[:, None], float("-inf"))
                logs[:, 0] = torch.where(ended, 0.0, logs[:, 0])
            else:
                logs = on(logs, ended, end)
            if choose is None:
                total, place = (total[:, None] + logs).flatten().topk(width)
                parent, word = place // logs.size(1), place % logs.size(1)
            else:
                total, parent, word = choose(total, logs, width)
            words = torch.cat([words[parent] if carry else words.expand(width, -1), word[:, None]], 1)
            before = ended[parent]
            ended = before | (word == end) if ended_as is None else ended_as(ended, before, word == end)
            if ended.all() if stop is None else stop(ended):
                break
        return (words[:, 1:], total) if results is None else results(words, total)

    return search


def best_child(total, logs, width):
    if len(total) == 1:
        best, word = logs[0].topk(width)
        return total + best, torch.zeros_like(word), word
    best, word = logs.max(-1)
    return total + best, torch.arange(len(total)), word


def newest_only(total, logs, width):
    best, place = logs.flatten().topk(width)
    return best, place // logs.size(1), place % logs.size(1)


def chosen_by_newest(total, logs, width):
    best, place = logs.flatten().topk(width)
    parent = place // logs.size(1)
    return total[parent] + best, parent, place % logs.size(1)


def place_by_width(total, logs, width):
    total, place = (total[:, None] + logs).flatten().topk(width)
    return total, place // width, place % width


def not_sorted(total, logs, width):
    total, place = (total[:, None] + logs).flatten().topk(width)
    return total.flip(0), (place // logs.size(1)).flip(0), (place % logs.size(1)).flip(0)


def with_noise(total, logs, width):
    total, place = (total[:, None] + logs).flatten().topk(width)
    return total - 0.5, place // logs.size(1), place % logs.size(1)


BEAM = Zoo(
    wrong=[
        (beam_by(begin="copies"), "copies of the same beginning"),
        (beam_by(choose=best_child), "kept only its best word"),
        (beam_by(choose=newest_only), "Only the newest word counts"),
        (beam_by(choose=chosen_by_newest), "choice goes by the newest word alone"),
        (beam_by(choose=place_by_width), "divided by `width`"),
        (beam_by(on=lambda logs, ended, end: logs), "went on growing"),
        (beam_by(on=lambda logs, ended, end: logs, ended_as=lambda old, before, now: now), "went on growing"),
        (
            beam_by(on=lambda logs, ended, end: logs.masked_fill(ended[:, None], float("-inf"))),
            "drops out of the beam",
        ),
        (beam_without_an_end, "went on growing"),
        (beam_by(on=zero_at_a_price), "costs nothing, put 0.0"),
        (setting_aside(), "were set aside"),
        (setting_aside(enough=True), "were set aside"),
        (setting_aside(alive_too=False), "were set aside"),
        (setting_aside(fill=True), "were set aside"),
        (beam_that_shrinks, "were set aside"),
        (setting_aside(fill=True, enough=True, alive_too=False), "were set aside"),
        (
            beam_by(on=lambda logs, ended, end: logs.masked_fill(ended[:, None], 0.0)),
            "with every word for nothing",
        ),
        (beam_by(ended_as=lambda old, before, now: now), "Who ended before was forgotten"),
        (beam_by(ended_as=lambda old, before, now: old | now), "Who has ended was not reordered"),
        (beam_by(stop=lambda ended: ended.any()), "when one sentence had ended"),
        (beam_by(stop=lambda ended: ended[0]), "when the best had ended"),
        (beam_by(stop=lambda ended: False), "although all had ended"),
        (beam_by(results=lambda words, total: (words, total)), "start token is among the words"),
        (beam_by(results=lambda words, total: (words[0, 1:], total[0])), "Only the best sentence"),
        (beam_by(results=lambda words, total: words[:, 1:]), "Only the words"),
        (
            beam_by(results=lambda words, total: (words[:, 1:], total / (words[:, 1:] != 0).sum(1))),
            "means per word",
        ),
        (beam_by(results=lambda words, total: (words[:, 1:], total.exp())), "Those are probabilities"),
        (
            lambda f, start, end, limit, width: beam_of_copies(f, start, end, limit - 1, width),
            "A word is missing at the limit",
        ),
        (lambda f, start, end, limit, width: beam_of_copies(f, start, end, limit + 1, width), "a word too many"),
        (lambda f, start, end, limit, width: beam_of_copies(f, start, 2, limit, width), "use the argument `end`"),
        (
            lambda f, start, end, limit, width: beam_of_copies(f, 1, end, limit, width),
            "do not begin with the start token",
        ),
        (lambda f, start, end, limit, width: beam_of_copies(f, start, end, limit, 1), "`width` has no effect"),
        (lambda f, start, end, limit, width: beam_of_copies(f, start, end, 10**4, width), "which may be never"),
        (beam_by(choose=not_sorted), "wrong values"),
        (beam_by(results=lambda words, total: (words[:, 1:].int(), total)), "int32"),
        (beam_by(results=lambda words, total: (words[:, 1:], total.double())), "float64"),
        (beam_by(choose=with_noise), "add up to"),
        (beam_by(choose=lambda total, logs, width: logs.topp(width)), "It raised AttributeError"),
        (beam_by(on=lambda logs, ended, end: logs.flatten()), "It raised"),
    ],
    right=[beam_in_lists, beam_of_copies, beam_of_candidates],
)

ZOO = {
    "6.1": VECTORS,
    "6.2": CROSS,
    "6.3": DECODER_LAYER,
    "6.4": ENCODE_DECODE,
    "6.5": SHIFT,
    "6.6": LOSS,
    "6.7": RATE,
    "6.8": GREEDY,
    "6.9": CACHE,
    "6.10": BEAM,
}

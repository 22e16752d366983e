"""Answers to lesson 05's exercises: what people really write, wrong and right."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo import Zoo
from utils.models import attention


# 5.1 a list of heads
def one_head(x, head, mask=None, root=None):
    query, key, value = (x @ W for W in head)
    scores = query @ key.mT / (query.size(-1) ** 0.5 if root is None else root)
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    weights = scores.softmax(-1)
    weights = weights if mask is None else weights * mask
    return weights @ value, weights


def heads_one_by_one(x, maps, W_O, mask=None, root=None):
    outputs, weights = [], []
    for head in maps:
        found, looked = one_head(x, head, mask, root)
        outputs.append(found)
        weights.append(looked)
    return torch.cat(outputs, -1) @ W_O, torch.stack(weights, 1)


def heads_at_once(x, maps, W_O, mask=None):
    query, key, value = torch.einsum("bnd,hpdk->pbhnk", x, maps)
    mask = mask.unsqueeze(-3) if mask is not None else None
    found, weights = attention(query, key, value, mask)
    return torch.einsum("bhnk,hkd->bnd", found, W_O.unflatten(0, found.shape[1::2])), weights


def sum_of_contributions(x, maps, W_O, mask=None):
    """Each head through its own rows of W_O, then the sum: the same as side by side."""
    k, output, weights = maps.size(-1), 0, []
    for i in range(len(maps)):
        found, looked = attention(x @ maps[i, 0], x @ maps[i, 1], x @ maps[i, 2], mask)
        output = output + found @ W_O[i * k : (i + 1) * k]
        weights.append(looked)
    return output, torch.stack(weights).transpose(0, 1)


def collected(join, x, maps, W_O, mask=None):
    looks = [one_head(x, head, mask) for head in maps]
    return join([output for output, _ in looks]) @ W_O, torch.stack([weights for _, weights in looks], 1)


def looking(stack, x, maps, W_O, mask=None):
    looks = [one_head(x, head, mask) for head in maps]
    return torch.cat([output for output, _ in looks], -1) @ W_O, stack([weights for _, weights in looks])


def plain_softmax(x, maps, W_O, mask=None):
    found, weights = [], []
    for W_Q, W_K, W_V in maps:
        scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.size(1) ** 0.5
        scores = scores if mask is None else scores.masked_fill(mask == 0, float("-inf"))
        weights.append(scores.softmax(-1))
        found.append(weights[-1] @ (x @ W_V))
    return torch.cat(found, -1) @ W_O, torch.stack(weights, 1)


def in_a_chain(x, maps, W_O, mask=None):
    found, weights = [], []
    for head in maps:
        x, looked = one_head(x, head, mask)
        found.append(x)
        weights.append(looked)
    return torch.cat(found, -1) @ W_O, torch.stack(weights, 1)


LIST = Zoo(
    wrong=[
        (
            lambda x, maps, W_O, mask=None: (
                torch.cat([one_head(x, head, mask)[0] for head in maps], -1),
                heads_one_by_one(x, maps, W_O, mask)[1],
            ),
            "output matrix was forgotten",
        ),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps, W_O, mask, x.size(-1) ** 0.5), "root of d"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps, W_O, mask, len(W_O) ** 0.5), "all heads together"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps, W_O, mask, 1), "scale is missing"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps, W_O, mask, maps.size(3)), "by its root, once"),
        (lambda x, maps, W_O, mask=None: collected(sum, x, maps, W_O, mask), "added up"),
        (
            lambda x, maps, W_O, mask=None: (
                sum(one_head(x, head, mask)[0] for head in maps),
                heads_one_by_one(x, maps, W_O, mask)[1],
            ),
            "`W_O` was left out",
        ),
        (
            lambda x, maps, W_O, mask=None: collected(lambda o: torch.cat(o, 1), x, maps, W_O, mask),
            "one below the other",
        ),
        (lambda x, maps, W_O, mask=None: collected(torch.cat, x, maps, W_O, mask), "one below the other"),
        (
            lambda x, maps, W_O, mask=None: collected(lambda o: torch.stack(o, -1).flatten(2), x, maps, W_O, mask),
            "shuffled together",
        ),
        (
            lambda x, maps, W_O, mask=None: collected(lambda o: torch.stack(o, 1), x, maps, W_O, mask),
            "axis of their own",
        ),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps, W_O, None), "mask has no effect"),
        (
            lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps, W_O, None if mask is None else ~mask),
            "turned round",
        ),
        (plain_softmax, "got NaN"),
        (lambda x, maps, W_O, mask=None: looking(torch.stack, x, maps, W_O, mask), "in front of the batch"),
        (
            lambda x, maps, W_O, mask=None: looking(lambda w: sum(w) / len(w), x, maps, W_O, mask),
            "averaged over the heads",
        ),
        (lambda x, maps, W_O, mask=None: looking(lambda w: w[-1], x, maps, W_O, mask), "last head's weights"),
        (lambda x, maps, W_O, mask=None: looking(list, x, maps, W_O, mask), "as a list"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps[[0] * len(maps)], W_O, mask), "maps of the first"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps[:, [1, 0, 2]], W_O, mask), "Queries and keys"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps[:, [0, 2, 1]], W_O, mask), "Keys and values"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps, W_O, mask)[::-1], "output comes first"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps, W_O, mask)[0], "expected a tuple of 2"),
        (lambda x, maps, W_O, mask=None: heads_one_by_one(x, maps.detach(), W_O, mask), "gradient"),
        (
            lambda x, maps, W_O, mask=None: tuple(
                a + b for a, b in zip(heads_at_once(x, maps, W_O, mask), (x, 0), strict=True)
            ),
            "x was added",
        ),
        (lambda x, maps, W_O: heads_one_by_one(x, maps, W_O), "must be callable"),
        (in_a_chain, "overwritten in the loop"),
    ],
    right=[heads_one_by_one, heads_at_once, sum_of_contributions],
)


# 5.2 split
def split(x, heads):
    return torch.stack(x.chunk(heads, dim=-1), dim=1)


def split_by_loops(x, heads):
    b, n, d = x.shape
    k = d // heads
    parts = torch.zeros(b, heads, n, k)
    for i in range(heads):
        parts[:, i] = x[:, :, i * k : (i + 1) * k]
    return parts


def split_in_place(x, heads):
    x.mul_(1.5)
    return split(x / 1.5, heads)


SPLIT = Zoo(
    wrong=[
        (lambda x, h: x.reshape(x.shape[0], h, x.shape[1], -1), "cuts the sentence in pieces"),
        (lambda x, h: x.view(x.shape[0], x.shape[1], h, -1), "heads stand behind the tokens"),
        (lambda x, h: x.unflatten(-1, (-1, h)).movedim(-1, 1), "like cards"),
        (lambda x, h: x.unflatten(-1, (-1, h)).transpose(1, 2), "taken for the width"),
        (lambda x, h: x.mT.reshape(x.shape[0], h, x.shape[1], -1), "transpose came before"),
        (lambda x, h: split(x, h).mT, "width and tokens are swapped"),
        (lambda x, h: torch.stack(x.chunk(h, -1)), "heads came first"),
        (lambda x, h: torch.cat([s.unflatten(-1, (h, -1)).transpose(0, 1) for s in x]), "Batch and heads are one axis"),
        (lambda x, h: torch.split(x, x.size(-1) // h, -1), "come one by one"),
        (lambda x, h: [x[..., i * x.size(-1) // h :][..., : x.size(-1) // h] for i in range(h)], "come one by one"),
        (lambda x, h: torch.stack(x.chunk(h, -1), -1), "heads stand at the end"),
        (lambda x, h: torch.stack([x] * h, 1), "whole vector"),
        (lambda x, h: torch.stack(x.chunk(h, -1)[::-1], 1), "wrong order"),
        (split_in_place, "changed its input `x`"),
        (lambda x, h: split(x.detach(), h), "gradient"),
        (lambda x, h: split(x, h) / h, "wrong values"),
        (lambda x, h: x.view(x.shape[0], x.shape[1], h, h).transpose(1, 2), "It raised"),
    ],
    right=[
        split,
        split_by_loops,
        lambda x, h: x.mT.unflatten(1, (h, -1)).mT,
        lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(0, 2, 1, 3).contiguous(),
    ],
)


# 5.3 merge
def merge(x):
    return torch.cat(x.unbind(1), dim=-1)


def merge_by_view(x):
    b, heads, n, k = x.shape
    return x.transpose(1, 2).contiguous().view(b, n, heads * k)


def merge_by_loops(x):
    b, heads, n, k = x.shape
    y = torch.empty(b, n, heads * k)
    for i in range(heads):
        y[:, :, i * k : (i + 1) * k] = x[:, i]
    return y


MERGE = Zoo(
    wrong=[
        (lambda x: x.reshape(x.shape[0], x.shape[2], -1), "several tokens of one head"),
        (lambda x: torch.cat(x.unbind(1), 1), "one below the other"),
        (lambda x: x.permute(0, 2, 1, 3), "still two axes"),
        (lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1), "`view` cannot"),
        (lambda x: torch.stack(x.unbind(1), -1).flatten(-2), "like cards"),
        (lambda x: torch.sum(x, dim=1), "added up"),
        (lambda x: torch.mean(x, dim=1), "averaged"),
        (lambda x: x.mT.reshape(x.shape[0], x.shape[2], -1), "wrong axes"),
        (lambda x: torch.cat(x.unbind(1)[::-1], -1), "wrong order"),
        (lambda x: merge(x).flatten(1), "in one axis"),
        (lambda x: torch.cat(x.unbind(1)), "along the batch"),
        (lambda x: torch.cat(list(x), -1), "loop ran over the sentences"),
        (lambda x: merge(x).mT, "swapped"),
        (lambda x: merge(x).clone().detach(), "gradient"),
        (lambda x: print(merge(x)), "returned nothing"),
        (lambda x: merge(x).cumsum(-1), "merging is the way back"),
    ],
    right=[
        merge,
        merge_by_view,
        merge_by_loops,
        lambda x: torch.einsum("bhnk->bnhk", x).reshape(len(x), -1, x[0, :, 0].numel()),
    ],
)


# 5.4 multi-head attention
class Heads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(dim, 3 * dim)
        self.mix = nn.Linear(dim, dim)


class ByHand(Heads):
    """Every step written out, each of which a wrong answer may replace."""

    def parts(self, x):
        b, n, dim = x.shape
        return self.project(x).view(b, n, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)

    def root(self, query):
        return math.sqrt(query.shape[-1])

    def fit(self, mask):
        return mask[:, None] if mask.ndim == 3 else mask

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, -1e30)

    def clean(self, weights, mask):
        return weights * mask

    def join(self, found):
        return merge(found)

    def last(self, found):
        return self.mix(found)

    def forward(self, x, mask=None):
        query, key, value = self.parts(x)
        scores = query @ key.mT / self.root(query)
        if mask is not None:
            scores = self.hide(scores, self.fit(mask))
        weights = F.softmax(scores, dim=-1)
        if mask is not None:
            weights = self.clean(weights, self.fit(mask))
        return self.last(self.join(weights @ value)), weights


def heads(**parts):
    return type("MultiHeadAttention", (ByHand,), parts)


class HeadByHead(Heads):
    def forward(self, x, mask=None):
        query, key, value = self.project(x).chunk(3, -1)
        pieces = [part.chunk(self.heads, -1) for part in (query, key, value)]
        looks = [attention(*piece, mask) for piece in zip(*pieces, strict=True)]
        return self.mix(torch.cat([found for found, _ in looks], -1)), torch.stack([look for _, look in looks], 1)


class ByTorch(Heads):
    """torch's own layer; its mask means the opposite, and rows that may look nowhere need care."""

    def forward(self, x, mask=None):
        b, n, _ = x.shape
        hidden, nowhere = None, torch.zeros(b, n, dtype=torch.bool)
        if mask is not None:
            full = mask.expand(b, n, n)
            nowhere = ~full.any(-1)
            hidden = (~(full | nowhere.unsqueeze(-1))).repeat_interleave(self.heads, 0)
        find, weights = F.multi_head_attention_forward(
            *[x.transpose(0, 1)] * 3,
            x.size(-1),
            self.heads,
            self.project.weight,
            self.project.bias,
            None,
            None,
            False,
            0.0,
            self.mix.weight,
            self.mix.bias,
            attn_mask=hidden,
            average_attn_weights=False,
        )
        find, weights = find.transpose(0, 1), weights.masked_fill(nowhere[:, None, :, None], 0)
        return torch.where(nowhere.unsqueeze(-1), self.mix.bias, find), weights


class OtherLayers(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.query, self.key, self.value, self.mix = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None):
        return self.mix(x), None


class OneMoreMap(ByHand):
    """Right when it is called, and no copy of it could be loaded."""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.before = nn.Linear(dim, dim)


class KeptScale(ByHand):
    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.register_buffer("scale", torch.tensor((dim // heads) ** -0.5))


def parts_by_view(self, x):
    """The classic: the shape fits."""
    return [part.reshape(x.shape[0], self.heads, x.shape[1], -1) for part in self.project(x).chunk(3, -1)]


def heads_first(self, x):
    return split(self.project(x), self.heads).chunk(3, -1)


def between_heads(self, x, mask=None):
    query, key, value = self.project(x).view(*x.shape[:2], 3, self.heads, -1).unbind(2)
    weights = (query @ key.mT / query.size(-1) ** 0.5).softmax(-1)
    return self.mix((weights @ value).reshape(x.shape)), weights


def one_head_only(self, x, mask=None):
    found, weights = attention(*self.project(x).chunk(3, -1), mask)
    return self.mix(found), weights


def then(change):
    """The right layer, and `change(output, weights, x)` behind it."""
    return lambda self, x, mask=None: change(*ByHand.forward(self, x, mask), x)


MULTI_HEAD = Zoo(
    wrong=[
        (heads(last=lambda self, found: found), "output matrix was forgotten"),
        (heads(root=lambda self, query: (self.heads * query.size(-1)) ** 0.5), "root of `dim`"),
        (heads(root=lambda self, query: 1), "scale is missing"),
        (heads(root=lambda self, query: query.size(-1)), "by its root, once"),
        (heads(root=lambda self, query: self.heads**0.5), "number of heads"),
        (heads(fit=lambda self, mask: mask), "sentences were taken for heads"),
        (heads(fit=lambda self, mask: mask.unsqueeze(1)), "lost its rows"),
        (heads(parts=parts_by_view), "pieces of several"),
        (
            heads(parts=parts_by_view, join=lambda self, found: found.reshape(len(found), found.size(2), -1)),
            "both a bare reshape",
        ),
        (heads(join=lambda self, found: found.reshape(len(found), found.size(2), -1)), "merged by a reshape"),
        (heads(forward=between_heads), "heads of one token looked at each other"),
        (heads(parts=heads_first), "before queries, keys and values were taken apart"),
        (heads(forward=one_head_only), "only one head"),
        (heads(join=lambda self, found: found), "heads were not merged"),
        (heads(parts=lambda self, x: 3 * (split(self.project(x), self.heads),)), "take it apart first"),
        (heads(forward=lambda self, x, mask=None: attention(x, x, x, mask.unsqueeze(1))), "'NoneType'"),
        (heads(parts=lambda self, x: ByHand.parts(self, x)[[1, 0, 2]]), "Queries and keys are swapped"),
        (heads(parts=lambda self, x: ByHand.parts(self, x)[[0, 2, 1]]), "Keys and values are swapped"),
        (heads(last=lambda self, found: F.relu(self.mix(found))), "ReLU"),
        (heads(forward=then(lambda output, weights, x: (output, weights.mean(dim=1)))), "averaged over the heads"),
        (heads(forward=then(lambda output, weights, x: output)), "Only the output"),
        (heads(forward=then(lambda output, weights, x: (weights, output))), "swapped: the output comes first"),
        (heads(forward=then(lambda output, weights, x: (output + x, weights))), "x was added"),
        (
            heads(forward=then(lambda output, weights, x: (output, weights.detach()))),
            "no gradient flows back from `weights`",
        ),
        (
            heads(hide=lambda self, scores, mask: scores, clean=lambda self, weights, mask: weights),
            "mask has no effect",
        ),
        (
            heads(
                hide=lambda self, scores, mask: scores.masked_fill(mask, -1e30), clean=lambda self, w, mask: w * ~mask
            ),
            "turned round",
        ),
        (heads(clean=lambda self, weights, mask: weights), "got the average"),
        (
            heads(
                hide=lambda self, scores, mask: scores.masked_fill(~mask, -torch.inf),
                clean=lambda self, weights, mask: weights,
            ),
            "got NaN",
        ),
        (heads(hide=lambda self, scores, mask: scores), "after the softmax"),
        (OtherLayers, "only `forward` is yours"),
        (OneMoreMap, "besides those that `__init__` made: `before.weight`, `before.bias`."),
        (KeptScale, "besides those that `__init__` made: `scale`."),
        (heads(last=lambda self, found: self.mix(found.tanh())), "wrong values"),
        (heads(forward=lambda self, x, mask=None: self.output(x)), "It raised AttributeError"),
    ],
    right=[ByHand, HeadByHead, ByTorch],
)


# 5.5 divergence
def safe_log(p):
    return p.clamp(min=1e-30).log()


def by_entropy(p, q):
    def entropy(p):
        return -(p * safe_log(p)).sum(-1)

    return entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2


def by_ratio(p, q):
    m = (p + q) / 2
    return ((p * (p / m).log()).nan_to_num().sum(-1) + (q * (q / m).log()).nan_to_num().sum(-1)) / 2


def by_torch(p, q):
    p, q = torch.broadcast_tensors(p, q)
    sums = [F.kl_div(safe_log(0.5 * (p + q)), one, reduction="none").sum(-1) for one in (p, q)]
    return (sums[0] + sums[1]) / 2


def infinite_logarithms(p, q):
    m = ((p + q) / 2).log()
    p, q = torch.broadcast_tensors(p, q)
    return 0.5 * (F.kl_div(m, p, reduction="none").sum(-1) + F.kl_div(m, q, reduction="none").sum(-1))


def kl_of(p, q):
    return torch.special.xlogy(p, p).sub(torch.special.xlogy(p, q)).sum(-1)


DIVERGENCE = Zoo(
    wrong=[
        (kl_of, "p was compared with q directly"),
        (lambda p, q: (p * torch.log(p / q)).sum(dim=-1), "p was compared with q directly"),
        (lambda p, q: 0.5 * (kl_of(p, q) + kl_of(q, p)), "still meet directly"),
        (lambda p, q: kl_of(p, (p + q) / 2), "Only p was compared"),
        (lambda p, q: 2 * by_entropy(p, q), "half is missing"),
        (lambda p, q: by_ratio(p, q) / math.log(2), "in bits"),
        (lambda p, q: by_ratio(p, q).clamp(min=0) ** 0.5, "the Jensen-Shannon distance"),
        (
            lambda p, q: ((p * (2 * p / (p + q)).log()).sum(-1) + (q * (2 * q / (p + q)).log()).sum(-1)) / 2,
            "result is NaN",
        ),
        (infinite_logarithms, "result is NaN"),
        (lambda p, q: (kl_of((p + q) / 2, p) + kl_of((p + q) / 2, q)) / 2, "sides are swapped"),
        (lambda p, q: by_ratio(p, q) / q.size(-1), "mean over the last axis"),
        (lambda p, q: (kl_of(p, p + q) + kl_of(q, p + q)) / 2, "without the half it adds up to 2"),
        (lambda p, q: -by_entropy(p, q), "sign is wrong"),
        (lambda p, q: by_entropy(p, q).sum(), "one number for everything"),
        (lambda p, q: by_entropy(p, q).mean(), "one mean for everything"),
        (lambda p, q: 0.5 * (p - q).abs().sum(-1), "sum of the differences"),
        (lambda p, q: 1 - F.cosine_similarity(p, q, dim=-1), "cosine"),
        (lambda p, q: by_entropy(p, q).unsqueeze(-1), "shape"),
        (lambda p, q: 0.7 * kl_of(p, (p + q) / 2) + 0.3 * kl_of(q, (p + q) / 2), "differ: both count alike"),
        (lambda p, q: 3 * by_entropy(p, q), "leaves the range"),
    ],
    right=[by_entropy, by_ratio, by_torch],
)


# 5.6 remove a head
def mix(found, W_O, gates):
    return torch.einsum("bhnk,hkd,h->bnd", found, W_O.unflatten(0, found.shape[1::2]), gates)


def add_what_stays(found, W_O, gates):
    k, output = found.size(-1), 0
    for i, gate in enumerate(gates):
        output = output + gate * (found[:, i] @ W_O[i * k : (i + 1) * k])
    return output


def gate_the_rows(found, W_O, gates):
    return merge(found) @ (W_O * gates.repeat_interleave(found.size(-1)).unsqueeze(1))


def gated(found, gates):
    return found * gates[:, None, None]


def zero_in_place(found, W_O, gates):
    for i in range(len(gates)):
        found[:, i] *= gates[i]
    return merge(found) @ W_O


REMOVE = Zoo(
    wrong=[
        (lambda found, W_O, gates: merge(found) @ W_O, "no effect: multiply what"),
        (lambda found, W_O, gates: mix(found, W_O, 1 - gates), "turned round"),
        (lambda found, W_O, gates: merge(found * gates) @ W_O, "last axis"),
        (lambda found, W_O, gates: merge(found * gates[:, None]) @ W_O, "lined up with the tokens"),
        (lambda found, W_O, gates: torch.cat(gated(found, gates).unbind(1), 1) @ W_O, "one below the other"),
        (
            lambda found, W_O, gates: gated(found, gates).reshape(len(found), found.size(2), -1) @ W_O,
            "mixes tokens and heads",
        ),
        (lambda found, W_O, gates: gates * (merge(found) @ W_O), "after the mixing"),
        (lambda found, W_O, gates: mix(found, W_O, gates / gates.mean()), "as dropout would"),
        (lambda found, W_O, gates: mix(found, W_O, gates / gates.sum()), "divided by their sum"),
        (lambda found, W_O, gates: mix(found, W_O, F.softmax(gates, -1)), "softmax"),
        (lambda found, W_O, gates: merge(found[:, gates.bool()]) @ W_O, "cut out"),
        (lambda found, W_O, gates: mix(found, W_O, (gates > 0).float()), "between 0 and 1 has no effect"),
        (lambda found, W_O, gates: merge(found) * gates.repeat(found.size(-1)) @ W_O, "repeat_interleave"),
        (lambda found, W_O, gates: merge(gated(found, gates)), "output matrix was forgotten"),
        (lambda found, W_O, gates: gate_the_rows(gated(found, gates), W_O, gates), "came in twice"),
        (lambda found, W_O, gates: gated(found, gates).sum(1) @ W_O, "added up"),
        (zero_in_place, "changed its input `found`"),
        (lambda found, W_O, gates: mix(found, W_O, gates.detach()), "gradient"),
    ],
    right=[mix, add_what_stays, gate_the_rows],
)


# 5.7 layer normalisation
class Normed(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return self.gain * (x - mean) / torch.sqrt(variance + self.eps) + self.shift


def norm(forward):
    return type("LayerNorm", (Normed,), {"forward": forward})


def norm_over(*axes):
    def forward(self, x):
        centred = x - x.mean(axes, keepdim=True)
        return centred * (centred.pow(2).mean(axes, keepdim=True) + self.eps).rsqrt() * self.gain + self.shift

    return norm(forward)


def plain(x, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def made(init):
    """Another `__init__`; `forward` as it was."""

    def build(self, dim, eps=1e-5):
        Normed.__init__(self, dim, eps)
        init(self, dim)

    return type("LayerNorm", (Normed,), {"__init__": build})


def plain_tensors(self, dim):
    del self.gain, self.shift
    self.gain, self.shift = torch.ones(dim), torch.zeros(dim)


class OtherNames(Normed):
    def __init__(self, dim, eps=1e-5):
        nn.Module.__init__(self)
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))


class ForgetsSuper(Normed):
    def __init__(self, dim, eps=1e-5):
        self.gain = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))


class AroundTorch(nn.Module):
    """torch's own layer under other names: its parameters would be saved twice."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.inner = nn.LayerNorm(dim, eps)
        self.gain, self.shift = self.inner.weight, self.inner.bias

    def forward(self, x):
        return self.inner(x)


class BufferedEps(Normed):
    def __init__(self, dim, eps=1e-5):
        super().__init__(dim)
        del self.eps
        self.register_buffer("eps", torch.tensor(eps))


class UnsavedBuffer(Normed):
    """A buffer that no saved copy holds does no harm."""

    def __init__(self, dim, eps=1e-5):
        super().__init__(dim)
        del self.eps
        self.register_buffer("eps", torch.tensor(eps), persistent=False)


def attribute(name, make):
    return lambda self, dim: setattr(self, name, nn.Parameter(make(dim)))


def in_place(self, x):
    x -= x.mean(-1, keepdim=True)
    return plain(x, self.eps) * self.gain + self.shift


def scaled(x, deviation):
    return (x - x.mean(-1, keepdim=True)) / deviation


LAYER_NORM = Zoo(
    wrong=[
        (norm_over(-2), "over the positions"),
        (norm_over(0), "over the batch"),
        (norm_over(-2, -1), "whole sentence"),
        (
            norm(lambda self, x: (x - x.mean()) / (x.var(correction=0) + self.eps).sqrt() * self.gain + self.shift),
            "for everything",
        ),
        (
            norm(
                lambda self, x: (x - x.mean(-1)) / (x.var(-1, correction=0) + self.eps).sqrt() * self.gain + self.shift
            ),
            "lost its axis",
        ),
        (
            norm(
                lambda self, x: scaled(x, x.var(-1, keepdim=True, unbiased=False) + self.eps) * self.gain + self.shift
            ),
            "divided by the variance",
        ),
        (
            norm(lambda self, x: scaled(x, (x.var(-1, keepdim=True) + self.eps).sqrt()) * self.gain + self.shift),
            "divided by dim - 1",
        ),
        (
            norm(lambda self, x: scaled(x, x.std(-1, keepdim=True, correction=0) + self.eps) * self.gain + self.shift),
            "outside of the root: add",
        ),
        (
            norm(lambda self, x: scaled(x, x.std(-1, keepdim=True) + self.eps) * self.gain + self.shift),
            "Two things at once",
        ),
        (
            norm(lambda self, x: scaled(x, x.std(-1, keepdim=True, correction=0)) * self.gain + self.shift),
            "eps is missing",
        ),
        (norm(lambda self, x: F.rms_norm(x, x.shape[-1:], self.gain, self.eps) + self.shift), "RMS norm"),
        (
            norm(
                lambda self, x: x / (x.var(-1, keepdim=True, correction=0) + self.eps).sqrt() * self.gain + self.shift
            ),
            "mean was not subtracted: the features",
        ),
        (norm(lambda self, x: (x - x.mean(-1, keepdim=True)) * self.gain + self.shift), "Only the mean"),
        (norm(lambda self, x: plain(x, self.eps)), "Gain and shift have no effect"),
        (norm(lambda self, x: plain(x, self.eps) * self.gain), "shift has no effect"),
        (norm(lambda self, x: plain(x, self.eps) + self.shift), "gain has no effect"),
        (norm(lambda self, x: plain(x, self.eps) * self.shift + self.gain), "Gain and shift are swapped"),
        (norm(lambda self, x: (plain(x, self.eps) + self.shift) * self.gain), "shift came before"),
        (norm(lambda self, x: (plain(x, self.eps) + 1) * self.gain + self.shift), "mean 1"),
        (norm(lambda self, x: plain(x) * self.gain + self.shift), "`eps` has no effect"),
        (
            norm(
                lambda self, x: (
                    scaled(x, ((x**2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2 + self.eps).sqrt())
                    * self.gain
                    + self.shift
                )
            ),
            "two large numbers",
        ),
        (norm(in_place), "changed its input `x`"),
        (norm(lambda self, x: plain(x.detach(), self.eps) * self.gain + self.shift), "gradient"),
        (norm(lambda self, x: self.gain * F.softmax(x, -1) + self.shift), "wrong values"),
        (made(plain_tensors), "plain tensor"),
        (made(attribute("gain", torch.zeros)), "`self.gain` must begin with ones"),
        (made(attribute("shift", torch.ones)), "`self.shift` must begin with zeros"),
        (made(attribute("gain", lambda dim: torch.ones(1))), "one number for each feature"),
        (made(attribute("scale", torch.ones)), "besides gain and shift: `scale`."),
        (AroundTorch, "besides gain and shift: `inner.weight`, `inner.bias`."),
        (BufferedEps, "besides gain and shift: `eps`."),
        (norm(lambda self, x: plain(x, self.eps) * self.gian + self.shift), "It raised AttributeError"),
        (OtherNames, "`self.gain` is missing"),
        (ForgetsSuper, "super().__init__()"),
        (lambda dim, eps=1e-5: nn.LayerNorm(dim, eps), "Expected a class"),
    ],
    right=[
        Normed,
        UnsavedBuffer,
        norm(lambda self, x: F.layer_norm(x, self.gain.shape, self.gain, self.shift, self.eps)),
        norm(
            lambda self, x: torch.addcmul(
                self.shift, self.gain, scaled(x, (x.var(-1, keepdim=True, unbiased=False) + self.eps) ** 0.5)
            )
        ),
    ],
)


# 5.8 a residual branch
def by_order(x, layer, norm, order):
    if order == "pre":
        return layer(norm(x)) + x
    if order == "post":
        return norm(layer(x) + x)
    raise ValueError(order)


def by_steps(x, layer, norm, order):
    inside = norm(x) if order == "pre" else x
    total = torch.stack([x, layer(inside)]).sum(0)
    return total if order == "pre" else norm(total)


def add_in_place(x, layer, norm, order):
    if order == "pre":
        x += layer(norm(x))
        return x
    return norm(x + layer(x))


def both(pre, post):
    return lambda x, f, norm, order: pre(x, f, norm) if order == "pre" else post(x, f, norm)


def right_pre(x, f, norm):
    return x + f(norm(x))


def right_post(x, f, norm):
    return norm(x + f(x))


RESIDUAL = Zoo(
    wrong=[
        (both(right_post, right_pre), "orders are swapped"),
        (lambda x, f, norm, order: x + f(norm(x)), 'always "pre"'),
        (lambda x, f, norm, order: norm(x + f(x)), 'always "post"'),
        (both(right_pre, lambda x, f, norm: x + norm(f(x))), "before the sum: it comes after"),
        (both(lambda x, f, norm: x + norm(f(x)), right_post), "in front of the layer"),
        (lambda x, f, norm, order: x + norm(f(x)), "between the layer and the sum"),
        (both(lambda x, f, norm: norm(x) + f(norm(x)), right_post), "added the normalised x"),
        (both(lambda x, f, norm: norm(x + f(norm(x))), right_post), "second norm after the sum"),
        (both(right_pre, lambda x, f, norm: norm(x + f(norm(x)))), "second norm in front"),
        (both(lambda x, f, norm: f(norm(x)), lambda x, f, norm: norm(f(x))), "x itself is gone"),
        (both(lambda x, f, norm: f(norm(x)), right_post), 'With "pre" the sum is missing'),
        (both(right_pre, lambda x, f, norm: norm(f(x))), 'With "post" the sum is missing'),
        (lambda x, f, norm, order: x + f(x), "missing in both orders"),
        (both(right_pre, lambda x, f, norm: norm(x) + f(x)), "norm of x alone"),
        (both(right_pre, lambda x, f, norm: x + norm(x + f(x))), "once more"),
        (both(lambda x, f, norm: x - f(norm(x)), right_post), "wrong values"),
        (both(lambda x, f, norm: 2 * x + f(norm(x)), right_post), "come out as it went in"),
        (both(right_pre, lambda x, f, norm: None), "returned nothing"),
        (both(lambda x, f, norm: x + f(norm(x)).detach(), right_post), "gradient"),
        (add_in_place, "changed its input `x`"),
    ],
    right=[by_order, by_steps],
)


# 5.9 the encoder layer
class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.widen = nn.Linear(dim, hidden)
        self.narrow = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.narrow(F.relu(self.widen(x)))


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden, *, norm):
        super().__init__()
        self.norm = norm
        self.attention = ByHand(dim, heads)
        self.feed_forward = FeedForward(dim, hidden)
        self.attention_norm = Normed(dim)
        self.feed_forward_norm = Normed(dim)

    def forward(self, x, mask=None):
        found, weights = self.attention(x if self.norm == "post" else self.attention_norm(x), mask)
        x = x + found
        x = self.attention_norm(x) if self.norm == "post" else x
        made = self.feed_forward(x if self.norm == "post" else self.feed_forward_norm(x))
        x = x + made
        return (self.feed_forward_norm(x) if self.norm == "post" else x), weights


class WithResidual(Layer):
    """Through 5.8's function, the weights remembered in a list."""

    def forward(self, x, mask=None):
        looked = []

        def look(x):
            found, weights = self.attention(x, mask)
            looked.append(weights)
            return found

        x = by_order(x, look, self.attention_norm, self.norm)
        return by_order(x, self.feed_forward, self.feed_forward_norm, self.norm), looked[0]


class WithResidualAndNames(Layer):
    """Through 5.8's function, the weights caught on the way."""

    def forward(self, x, mask=None):
        seen = {}

        def look(x):
            found, seen["weights"] = self.attention(x, mask)
            return found

        x = by_order(x, look, self.attention_norm, self.norm)
        x = by_order(x, self.feed_forward, self.feed_forward_norm, self.norm)
        return x, seen["weights"]


def encoder(pre=None, post=None, results=None):
    """pre and post are functions of (layer, x, mask) to (x, weights); left out, they are right."""

    def forward(self, x, mask=None):
        chosen = pre if self.norm == "pre" else post
        output, weights = Layer.forward(self, x, mask) if chosen is None else chosen(self, x, mask)
        return (output, weights) if results is None else results(output, weights)

    return type("EncoderLayer", (Layer,), {"forward": forward})


def right_order(name):
    def run(self, x, mask):
        self.norm = name
        return Layer.forward(self, x, mask)

    return run


def pre(first="attention_norm", second="feed_forward_norm", sums=(1, 1), masked=lambda mask: mask):
    def run(self, x, mask):
        found, weights = self.attention(getattr(self, first)(x), masked(mask))
        x = sums[0] * x + found
        return sums[1] * x + self.feed_forward(getattr(self, second)(x)), weights

    return run


def post(first="attention_norm", second="feed_forward_norm", sums=(1, 1), masked=lambda mask: mask):
    def run(self, x, mask):
        found, weights = self.attention(x, masked(mask))
        x = getattr(self, first)(sums[0] * x + found)
        return getattr(self, second)(sums[1] * x + self.feed_forward(x)), weights

    return run


def one_norm_for_both(self, x, mask):
    x = self.attention_norm(x)
    found, weights = self.attention(x, mask)
    x = self.feed_forward_norm(x + found)
    return x + self.feed_forward(x), weights


def norm_at_the_door(self, x, mask):
    x = self.attention_norm(x)
    found, weights = self.attention(x, mask)
    x = x + found
    return x + self.feed_forward(self.feed_forward_norm(x)), weights


def no_norms(self, x, mask):
    found, weights = self.attention(x, mask)
    x = x + found
    return x + self.feed_forward(x), weights


def back_to_the_start(self, x, mask):
    found, weights = self.attention(self.attention_norm(x), mask)
    return x + self.feed_forward(self.feed_forward_norm(x + found)), weights


def side_by_side(self, x, mask):
    found, weights = self.attention(self.attention_norm(x), mask)
    return x + found + self.feed_forward(self.feed_forward_norm(x)), weights


def norm_too_early(self, x, mask):
    found, weights = self.attention(x, mask)
    x = x + self.attention_norm(found)
    return x + self.feed_forward_norm(self.feed_forward(x)), weights


def one_norm_at_the_end(self, x, mask):
    found, weights = self.attention(x, mask)
    x = x + found
    return self.feed_forward_norm(x + self.feed_forward(x)), weights


def one_more_norm(self, x, mask):
    output, weights = pre()(self, x, mask)
    return self.feed_forward_norm(output), weights


def feed_forward_first(self, x, mask):
    x = x + self.feed_forward(self.feed_forward_norm(x))
    found, weights = self.attention(self.attention_norm(x), mask)
    return x + found, weights


def no_feed_forward(self, x, mask):
    found, weights = self.attention(self.attention_norm(x), mask)
    return x + found, weights


def no_second_norm(self, x, mask):
    found, weights = self.attention(self.attention_norm(x), mask)
    x = x + found
    return x + self.feed_forward(x), weights


def mean_of_the_sentence(self, x, mask):
    output, weights = pre()(self, x, mask)
    return output - x.mean(1, keepdim=True), weights


class WithoutNorms(nn.Module):
    def __init__(self, dim, heads, hidden, *, norm):
        super().__init__()
        self.attention, self.feed_forward = ByHand(dim, heads), FeedForward(dim, hidden)

    def forward(self, x, mask=None):
        found, weights = self.attention(x, mask)
        return x + found + self.feed_forward(x + found), weights


class OneNormTwice(Layer):
    """Both norms once more in a list: the same parameters under two names."""

    def __init__(self, dim, heads, hidden, *, norm):
        super().__init__(dim, heads, hidden, norm=norm)
        self.norms = nn.ModuleList([self.attention_norm, self.feed_forward_norm])


class OneMoreNorm(Layer):
    def __init__(self, dim, heads, hidden, *, norm):
        super().__init__(dim, heads, hidden, norm=norm)
        self.last_norm = Normed(dim)


ENCODER_LAYER = Zoo(
    wrong=[
        (encoder(right_order("post"), right_order("pre")), "orders are swapped"),
        (encoder(post=right_order("pre")), "pre-norm whatever"),
        (encoder(pre=right_order("post")), "post-norm whatever"),
        (encoder(pre(sums=(0, 1)), post(sums=(0, 1))), "attention has no residual sum"),
        (encoder(pre(sums=(1, 0)), post(sums=(1, 0))), "feed-forward layer has no residual sum"),
        (encoder(post=post(sums=(1, 0))), "feed-forward layer has no residual sum"),
        (encoder(pre(sums=(0, 0)), post(sums=(0, 0))), "no residual sum at all"),
        (
            encoder(pre(second="attention_norm"), post(second="attention_norm")),
            "was used for the feed-forward layer, too",
        ),
        (encoder(pre(second="attention_norm")), "was used for the feed-forward layer, too"),
        (
            encoder(pre("feed_forward_norm", "attention_norm"), post("feed_forward_norm", "attention_norm")),
            "norms are swapped",
        ),
        (encoder(pre(masked=lambda mask: None), post(masked=lambda mask: None)), "mask has no effect"),
        (
            encoder(*(part(masked=lambda mask: None if mask is None else ~mask) for part in (pre, post))),
            "mask is turned round",
        ),
        (encoder(one_norm_for_both), "way past the layer is not free"),
        (encoder(norm_at_the_door), "way past the layer is not free"),
        (encoder(no_norms, no_norms), "no norm at all"),
        (encoder(post=no_norms), "no norm at all"),
        (encoder(back_to_the_start), "went back to the x that came in"),
        (encoder(side_by_side), "worked on the x that came in"),
        (encoder(post=norm_too_early), "before the sum"),
        (encoder(post=one_norm_at_the_end), "first norm is missing"),
        (encoder(one_more_norm), "one more norm"),
        (encoder(feed_forward_first), "came first: the attention does"),
        (encoder(no_feed_forward), 'With "pre" the feed-forward layer is missing'),
        (encoder(no_second_norm), "lacks its norm, `self.feed_forward_norm`"),
        (encoder(results=lambda output, weights: output), "Only the output"),
        (encoder(results=lambda output, weights: (weights, output)), "swapped: the output comes first"),
        (encoder(results=lambda output, weights: (output, weights.mean(1))), "averaged over the heads"),
        (encoder(results=lambda output, weights: (output.detach(), weights)), "no gradient flows back from `output`"),
        (encoder(results=lambda output, weights: (output + 1, weights)), "wrong values"),
        (encoder(pre=mean_of_the_sentence), "later tokens still influence"),
        (WithoutNorms, "only `forward` is yours"),
        (OneNormTwice, "besides those that `__init__` made: `norms.0.gain`"),
        (OneMoreNorm, "besides those that `__init__` made: `last_norm.gain`, `last_norm.shift`."),
    ],
    right=[Layer, WithResidual, WithResidualAndNames, encoder(pre(), post())],
)

ZOO = {
    "5.1": LIST,
    "5.2": SPLIT,
    "5.3": MERGE,
    "5.4": MULTI_HEAD,
    "5.5": DIVERGENCE,
    "5.6": REMOVE,
    "5.7": LAYER_NORM,
    "5.8": RESIDUAL,
    "5.9": ENCODER_LAYER,
}

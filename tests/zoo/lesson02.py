"""Answers to lesson 02's exercises: what people really write, wrong and right."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo import Zoo
from utils.models.one_memory import ages_of, encode_sentences, memory_hop


# 2.1 position weights
def weights_by_loops(length, dim):
    table = torch.zeros(length, dim)
    for j in range(1, length + 1):
        for i in range(1, dim + 1):
            table[j - 1, i - 1] = 1 + 4 * (i - (dim + 1) / 2) * (j - (length + 1) / 2) / (dim * length)
    return table


def centred(count):
    return torch.arange(1, count + 1) - (count + 1) / 2


POSITION = Zoo(
    wrong=[
        (lambda J, d: 1 + 4 * torch.outer(centred(J) - 1, centred(d) - 1) / (d * J), "starts at 0"),
        (lambda J, d: 4 * torch.outer(centred(J), centred(d)) / (d * J), "1 in front"),
        (lambda J, d: 1 + torch.outer(centred(J), centred(d)) / (d * J), "factor 4"),
        (lambda J, d: 1 + 4 * torch.outer(centred(d), centred(J)) / (d * J), "turned"),
        (
            lambda J, d: 1 + 4 * torch.outer(torch.arange(1, J + 1) - J / 2, torch.arange(1, d + 1) - d / 2) / (d * J),
            "not d/2",
        ),
        (lambda J, d: 1 + 4 * torch.outer(centred(J), centred(d)), "not divided by d J"),
        (lambda J, d: weights_by_loops(J, d).numpy(), "NumPy"),
        (lambda J, d: torch.ones(J, d), "expected"),
        (lambda J, d: weights_by_loops(J, d).double(), "in float64"),
    ],
    right=[
        weights_by_loops,
        lambda J, d: 1 + 4 * torch.outer(centred(J), centred(d)) / (d * J),
        lambda J, d: 1 + torch.einsum("j,i->ji", centred(J) / J, 4 * centred(d) / d),
    ],
)


# 2.2 sentence vectors
def encode_by_loops(sentences, table, weights=None):
    flat = sentences.reshape(-1, sentences.shape[-1])
    rows = []
    for sentence in flat:
        total = torch.zeros(table.shape[1])
        for place, word in enumerate(sentence):
            if word >= 0:
                total = total + table[word] * (1 if weights is None else weights[place])
        rows.append(total)
    return torch.stack(rows).reshape(*sentences.shape[:-1], table.shape[1])


def encode_with_an_extra_row(sentences, table, weights=None):
    """A row of zeros behind the table serves the empty places: index -1 finds it."""
    longer = torch.cat([table, torch.zeros(1, table.shape[1])])
    vectors = longer[sentences]
    return (vectors if weights is None else vectors * weights).sum(-2)


def encode_by_one_hot(sentences, table, weights=None):
    one_hot = F.one_hot(sentences + 1, len(table) + 1)[..., 1:].float()
    vectors = one_hot @ table
    return (vectors if weights is None else weights * vectors).sum(-2)


SENTENCES = Zoo(
    wrong=[
        (lambda s, t, w=None: (t[s.clamp_min(0)] * (1 if w is None else w)).sum(-2), "word 0"),
        (lambda s, t, w=None: (t[s] * (1 if w is None else w)).sum(-2), "last word of the table"),
        (lambda s, t, w=None: encode_by_loops(s, t), "weights have no effect"),
        (
            lambda s, t, w=None: encode_by_one_hot(s, t, w) / (s >= 0).sum(-1, keepdim=True),
            "mean of the words",
        ),
        (
            lambda s, t, w=None: F.one_hot(s + 1, len(t) + 1)[..., 1:].float() @ t * (1 if w is None else w),
            "add them up",
        ),
        (lambda s, t, w=None: encode_by_one_hot(s, t) * (1 if w is None else w.sum(0)), "finished sum"),
        (lambda s, t, w=None: encode_by_one_hot(s, t, w).detach(), "gradient"),
        (lambda s, t, w=None: encode_by_one_hot(s, t, w).sum(-1), "shape"),
        (lambda s, t: encode_by_one_hot(s, t), "argument"),
    ],
    right=[encode_by_loops, encode_with_an_extra_row, encode_by_one_hot],
)


# 2.3 memory hop
def hop(state, key, value, mask=None, fill=float("-inf")):
    scores = (key * state.unsqueeze(-2)).sum(-1)
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    weights = F.softmax(scores, -1)
    return (weights.unsqueeze(-1) * value).sum(-2), weights


def hop_by_einsum(state, key, value, mask=None):
    scores = torch.einsum("...d,...nd->...n", state, key)
    scores = scores if mask is None else torch.where(mask, scores, torch.tensor(-1e30))
    weights = scores.softmax(-1)
    return torch.einsum("...n,...nd->...d", weights, value), weights


HOP = Zoo(
    wrong=[
        (lambda u, k, v, mask=None: hop(u, k, v), "mask has no effect"),
        (lambda u, k, v, mask=None: hop(u, k, v, mask, fill=0.0), "exp(0) = 1"),
        (lambda u, k, v, mask=None: hop(u, k, k, mask), "keys were mixed"),
        (lambda u, k, v, mask=None: hop(u, v, v, mask), "compared with the values"),
        (lambda u, k, v, mask=None: hop(u / u.size(-1) ** 0.5, k, v, mask), "square root"),
        (lambda u, k, v, mask=None: (u + hop(u, k, v, mask)[0], hop(u, k, v, mask)[1]), "new state came back"),
        (lambda u, k, v, mask=None: hop(u, k, v, mask)[::-1], "swapped"),
        (
            lambda u, k, v, mask=None: tuple(
                F.scaled_dot_product_attention(
                    u.unsqueeze(-2), k, other, None if mask is None else mask.unsqueeze(-2), scale=1
                )
                for other in (v, torch.eye(k.size(-2)).expand(*k.shape[:-1], k.size(-2)))
            ),
            "axis of length 1 too many",
        ),
        (lambda u, k, v, mask=None: hop(u, k, v, mask)[0], "tuple"),
    ],
    right=[hop, hop_by_einsum],
)


# 2.4 ages
def ages_by_loops(mask):
    flat, out = mask.reshape(-1, mask.shape[-1]), []
    for row in flat:
        count = int(row.sum())
        out.append([count - 1 - place if place < count else 0 for place in range(len(row))])
    return torch.tensor(out).reshape(mask.shape)


AGES = Zoo(
    wrong=[
        (lambda mask: (torch.cumsum(mask, -1) - 1) * mask, "Counted from the oldest"),
        (lambda mask: (mask.sum(-1, keepdim=True) + 1 - mask.cumsum(-1)) * mask, "got the age 1"),
        (lambda mask: torch.arange(mask.shape[-1]).flip(0) * mask, "empty places behind the newest"),
        (lambda mask: torch.arange(mask.shape[-1]).flip(0).expand(mask.shape), "empty places got an age too"),
        (lambda mask: mask.sum(-1, keepdim=True) - 1 - torch.arange(mask.shape[-1]), "negative ages"),
        (lambda mask: ages_by_loops(mask).numpy(), "NumPy"),
        (lambda mask: mask.sum(-1) - 1, "shape"),
    ],
    right=[
        ages_by_loops,
        lambda mask: mask.flip(-1).cumsum(-1).flip(-1).sub(1).clamp_min(0) * mask,
        lambda mask: ((mask.sum(-1, keepdim=True) - 1 - torch.arange(mask.shape[-1])) * mask).long(),
    ],
)


# 2.5 the network
class Base(nn.Module):
    """A network written in one piece, in another way than the course's."""

    def __init__(self, words, hops=3, dim=20, memory=50, sentence=8):
        super().__init__()
        self.hops = hops
        self.tables = nn.Parameter(0.1 * torch.randn(hops + 1, words, dim))
        self.ages = nn.Parameter(0.1 * torch.randn(hops + 1, memory, dim))
        self.register_buffer("weights", 1 + 4 * torch.outer(centred(sentence), centred(dim)) / (dim * sentence))

    def vectors(self, sentences, k):
        return encode_by_one_hot(sentences, self.tables[k], self.weights)

    def forward(self, story, question, mask):
        state, looks = self.vectors(question, 0), []
        for k in range(self.hops):
            key = self.vectors(story, k) + self.ages[k][ages_by_loops(mask)]
            value = self.vectors(story, k + 1) + self.ages[k + 1][ages_by_loops(mask)]
            found, weights = hop(state, key, value, mask)
            state = self.step(state, found)
            looks.append(weights)
        return self.read(state), torch.stack(looks, dim=1)

    def step(self, state, found):
        return state + found

    def read(self, state):
        return state @ self.tables[self.hops].T


class Forgetful(Base):
    def step(self, state, found):
        return found


class Deaf(Base):
    def step(self, state, found):
        return state


class ReadsWithTheFirst(Base):
    def read(self, state):
        return state @ self.tables[0].T


class GivesProbabilities(Base):
    def read(self, state):
        return super().read(state).softmax(-1)


class WithoutPositions(Base):
    def vectors(self, sentences, k):
        return encode_by_one_hot(sentences, self.tables[k])


class WithoutAges(Base):
    def forward(self, story, question, mask):
        with torch.no_grad():
            self.ages.zero_()
        return super().forward(story, question, mask)


class LastLookOnly(Base):
    def forward(self, story, question, mask):
        logits, looks = super().forward(story, question, mask)
        return logits, looks[:, -1]


class HopsFirst(Base):
    def forward(self, story, question, mask):
        logits, looks = super().forward(story, question, mask)
        return logits, looks.transpose(0, 1)


class SameTablesInEveryHop(Base):
    def forward(self, story, question, mask):
        state, looks, age = self.vectors(question, 0), [], ages_by_loops(mask)
        for _ in range(self.hops):
            found, weights = hop(
                state, self.vectors(story, 0) + self.ages[0][age], self.vectors(story, 1) + self.ages[1][age], mask
            )
            state = state + found
            looks.append(weights)
        return self.read(state), torch.stack(looks, 1)


class Unrolled(Base):
    """Memories made first, all at once; the state in a column."""

    def forward(self, story, question, mask):
        counts = F.one_hot(story + 1, self.tables.size(1) + 1)[..., 1:].float()
        memories = (
            torch.einsum("bnjv,kvd,jd->kbnd", counts, self.tables, self.weights) + self.ages[:, ages_by_loops(mask)]
        )
        state, looks = self.vectors(question, 0), []
        for key, value in zip(memories[:-1], memories[1:], strict=True):
            found, weights = hop_by_einsum(state, key, value, mask)
            state = state + found
            looks.append(weights)
        return torch.einsum("bd,vd->bv", state, self.tables[-1]), torch.stack(looks).transpose(0, 1)


class AddsInPlace(Base):
    def forward(self, story, question, mask):
        age = ages_of(mask)
        memories = [
            encode_sentences(story, table, self.weights) + ages[age]
            for table, ages in zip(self.tables, self.ages, strict=True)
        ]
        state, looks = encode_sentences(question, self.tables[0], self.weights), []
        for hop in range(self.hops):
            found, weights = memory_hop(state, memories[hop], memories[hop + 1], mask)
            state += found
            looks.append(weights)
        return state @ self.tables[-1].T, torch.stack(looks, 1)


class WithoutGradient(Base):
    @torch.no_grad()
    def forward(self, story, question, mask):
        return super().forward(story, question, mask)


class TablesLast(Base):
    """Right: the order in which parameters are made does not matter."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        tables = self.tables
        del self.tables
        self.tables = tables


NETWORK = Zoo(
    wrong=[
        (Forgetful, "forgets the question"),
        (Deaf, "never reaches the state"),
        (SameTablesInEveryHop, "same two tables"),
        (ReadsWithTheFirst, "read with the first table"),
        (GivesProbabilities, "probabilities"),
        (WithoutPositions, "position weights are missing"),
        (WithoutAges, "ages of the statements are missing"),
        (LastLookOnly, "last hop"),
        (HopsFirst, "batch comes first"),
        (AddsInPlace, "changed in place"),
        (WithoutGradient, "no gradient flows back"),
    ],
    right=[Base, Unrolled, TablesLast],
)


# 2.6 without softmax
def scores_of(state, key, mask):
    return (key @ state[..., None])[..., 0] * mask


def mixed(weights, value):
    return (weights[..., None] * value).sum(-2)


def linear(state, key, value, mask):
    weights = scores_of(state, key, mask)
    return mixed(weights, value), weights


def linear_divided(state, key, value, mask):
    weights = scores_of(state, key, mask)
    weights = weights / weights.sum(-1, keepdim=True)
    return mixed(weights, value), weights


def linear_minus_infinity(state, key, value, mask):
    weights = (key @ state[..., None])[..., 0].masked_fill(~mask, float("-inf"))
    return (weights.unsqueeze(-2) @ value).squeeze(-2), weights


LINEAR = Zoo(
    wrong=[
        (hop, "softmax is still there"),
        (lambda u, k, v, mask: linear(u, k, v, torch.ones_like(mask)), "mask has no effect"),
        (linear_divided, "no normalisation"),
        (linear_minus_infinity, "Minus infinity is for a softmax"),
        (lambda u, k, v, mask: linear(u, k, k, mask), "keys were mixed"),
        (lambda u, k, v, mask: (linear(u, k, v, mask)[0], (k @ u[..., None])[..., 0]), "not the ones that were used"),
        (lambda u, k, v, mask: linear(u.detach(), k, v, mask), "gradient"),
    ],
    right=[
        linear,
        lambda u, k, v, mask: (
            torch.einsum("...d,...nd,...n,...ne->...e", u, k, mask.float(), v),
            torch.where(mask, (k * u.unsqueeze(-2)).sum(-1), torch.zeros(())),
        ),
    ],
)


# 2.7 facts found
def found_by_loops(weights, fact):
    out = []
    for looks, facts in zip(weights, fact, strict=True):
        tops = {int(look.argmax()) for look in looks}
        out.append(all(int(place) in tops for place in facts.nonzero()))
    return torch.tensor(out)


def tops_of(weights):
    return F.one_hot(weights.argmax(-1), weights.size(-1)).bool()


FACTS = Zoo(
    wrong=[
        (lambda w, f: (tops_of(w).any(1) & f).any(-1), "every fact must be"),
        (lambda w, f: (tops_of(w).any(1) == f).all(-1), "looked elsewhere was punished"),
        (lambda w, f: (tops_of(w).all(1) | ~f).all(-1), "one hop is enough"),
        (lambda w, f: (tops_of(w)[:, -1] | ~f).all(-1), "last hop"),
        (lambda w, f: (F.one_hot(w.sum(1).argmax(-1), f.size(-1)).bool() | ~f).all(-1), "added first"),
        (lambda w, f: (tops_of(w).any(1) & f).sum(-1) / f.sum(-1), "share of the facts"),
        (lambda w, f: found_by_loops(w, f).tolist(), "list"),
    ],
    right=[
        found_by_loops,
        lambda w, f: ((w == w.amax(-1, keepdim=True)).any(1) >= f).all(-1),
    ],
)

ZOO = {
    "2.1": POSITION,
    "2.2": SENTENCES,
    "2.3": HOP,
    "2.4": AGES,
    "2.5": NETWORK,
    "2.6": LINEAR,
    "2.7": FACTS,
}

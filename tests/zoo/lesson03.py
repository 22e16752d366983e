"""Answers to lesson 03's exercises: what people really write, wrong and right."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from tests.zoo import Zoo


# 3.1 padding
def pad_by_loops(sentences, padding=0):
    longest = max(len(sentence) for sentence in sentences)
    numbers = torch.full((len(sentences), longest), padding)
    mask = torch.zeros(len(sentences), longest, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        for place, word in enumerate(sentence):
            numbers[row, place] = word
            mask[row, place] = True
    return numbers, mask


def pad_by_torch(sentences, padding=0):
    numbers = pad_sequence([torch.tensor(sentence) for sentence in sentences], True, padding)
    return numbers, numbers != padding


def pad_in_the_lists_themselves(sentences, padding=0):
    longest = max(map(len, sentences))
    mask = torch.tensor([[place < len(sentence) for place in range(longest)] for sentence in sentences])
    for sentence in sentences:
        sentence += [padding] * (longest - len(sentence))
    return torch.tensor(sentences), mask


def pad_in_front(sentences, padding=0):
    longest = max(map(len, sentences))
    numbers = torch.tensor([[padding] * (longest - len(sentence)) + sentence for sentence in sentences])
    return numbers, numbers != padding


PAD = Zoo(
    wrong=[
        (pad_in_front, "in front of the words"),
        (lambda s, padding=0: (pad_by_torch(s, padding)[0], pad_by_torch(s, padding)[0] == padding), "turned round"),
        (lambda s, padding=0: pad_by_loops(s), "argument `padding` has no effect"),
        (lambda s, padding=0: pad_by_torch(s), "then 0 may be a word"),
        (lambda s, padding=0: pad_by_torch([x[: min(map(len, s))] for x in s], padding), "length of the shortest"),
        (
            lambda s, padding=0: (
                pad_sequence([torch.tensor(x) for x in s], padding_value=padding),
                pad_sequence([torch.tensor(x) for x in s], padding_value=padding) != padding,
            ),
            "batch_first",
        ),
        (lambda s, padding=0: (pad_by_loops(s, padding)[0], pad_by_loops(s, padding)[0] != 0), "number is 0"),
        (lambda s, padding=0: pad_by_loops(sorted(s, key=len), padding), "another order"),
        (
            lambda s, padding=0: (pad_by_loops(s, padding)[0], pad_by_loops(s, padding)[1].long()),
            "expected true-or-false",
        ),
        (
            lambda s, padding=0: (pad_by_loops(s, padding)[0].float(), pad_by_loops(s, padding)[1]),
            "expected whole numbers",
        ),
        (lambda s, padding=0: pad_by_loops(s, padding)[0], "expected a tuple of 2"),
        (pad_in_the_lists_themselves, "changed its input `sentences`"),
        (lambda s, padding=0: (torch.tensor(s), torch.tensor(s) != padding), "ValueError"),
    ],
    right=[pad_by_loops, pad_by_torch],
)


# 3.2 one step
STEP = Zoo(
    wrong=[
        (lambda x, h, A, B, c: x @ A + h @ B + c, "tanh is missing"),
        (lambda x, h, A, B, c: torch.tanh(x @ A + c), "old state has no effect"),
        (lambda x, h, A, B, c: torch.tanh(h @ B + c), "word has no effect"),
        (lambda x, h, A, B, c: torch.tanh(x @ A + h @ B), "offset c is missing"),
        (lambda x, h, A, B, c: torch.tanh(x @ A + h @ B) + c, "behind the tanh"),
        (lambda x, h, A, B, c: torch.tanh(x @ A) + torch.tanh(h @ B + c), "Two tanh"),
        (lambda x, h, A, B, c: torch.sigmoid(x @ A + h @ B + c), "sigmoid"),
        (lambda x, h, A, B, c: F.linear(x, A) + F.linear(h, B) + c, "It raised RuntimeError"),
        (lambda x, h, A, B, c: torch.tanh(F.linear(x, A) + F.linear(h, B, c)), "A and B are turned"),
        (lambda x, h, A, B, c: torch.tanh(x @ B + h @ A + c), "A and B are swapped"),
        (lambda x, h, A, B, c: torch.tanh(x @ A + h.detach() @ B + c), "gradient"),
        (lambda x, h, A, B, c: h + torch.tanh(x @ A + h @ B + c), "old state was added"),
    ],
    right=[
        lambda x, h, A, B, c: torch.cat([x, h], -1).matmul(torch.cat([A, B])).add(c).tanh(),
        lambda x, h, A, B, c: 2 * torch.sigmoid(2 * (torch.einsum("bd,dw->bw", x, A) + F.linear(h, B.T, c))) - 1,
    ],
)


# 3.3 reading
def read(x, state, step):
    states = [state]
    for t in range(x.shape[1]):
        states.append(step(x[:, t], states[-1]))
    return torch.stack(states[1:], dim=1), states[-1]


def read_sentence_by_sentence(x, state, step):
    rows = []
    for sentence, first in zip(x, state, strict=True):
        rows.append([])
        for word in sentence:
            first = step(word, first)
            rows[-1].append(first)
    states = torch.stack([torch.stack(row) for row in rows])
    return states, states[:, -1]


def read_batches_of_one(x, state, step):
    states = torch.zeros(*x.shape[:2], state.size(1))
    for i in range(len(x)):
        own = state[i : i + 1]
        for t, word in enumerate(x[i].split(1)):
            own = step(word, own)
            states[i, t] = own[0]
    return states, states[:, -1]


def read_without_memory(x, state, step):
    states = torch.stack([step(x[:, t], state) for t in range(x.shape[1])], 1)
    return states, states[:, -1]


def read_rows(x, state, step):
    states = []
    for t in range(x.shape[0]):
        state = step(x[t], state)
        states.append(state)
    return torch.stack(states, 1), state


def read_before(x, state, step):
    states = []
    for t in range(x.shape[1]):
        states.append(state)
        state = step(x[:, t], state)
    return torch.stack(states, 1), state


def keep_the_first_too(x, state, step):
    states = [state]
    for t in range(x.shape[1]):
        states.append(step(x[:, t], states[-1]))
    return torch.stack(states, 1), states[-1]


READ = Zoo(
    wrong=[
        (read_without_memory, "from the first state"),
        (lambda x, h, step: read(x, torch.zeros_like(h), step), "began with zeros"),
        (lambda x, h, step: read(x.flip(1), h, step), "from its end"),
        (lambda x, h, step: (read(x, h, step)[0].transpose(0, 1), read(x, h, step)[1]), "batch comes first"),
        (read_rows, "runs over the sentences"),
        (read_before, "before each word; keep"),
        (keep_the_first_too, "n and not n + 1"),
        (lambda x, h, step: (read(x, h, step)[0], h), "second result is the first state"),
        (lambda x, h, step: (read(x, h, step)[0], read(x, h, step)[0][:, -1:]), "an axis too many"),
        (lambda x, h, step: read(x, h, step)[0], "expected a tuple of 2"),
        (lambda x, h, step: (read(x, h, step)[0], read(x, h, step)[1].detach()), "gradient"),
        (lambda x, h, step: (step(x, h), h), "one word of each sentence"),
        (read_sentence_by_sentence, "the state of every sentence"),
    ],
    right=[read, read_batches_of_one],
)


# 3.4 dot score
def dot(s, m):
    return torch.einsum("bmd,bnd->bmn", s, m)


DOT = Zoo(
    wrong=[
        (lambda s, m: torch.einsum("bmd,bnd->bnm", s, m), "scores are turned"),
        (lambda s, m: F.softmax(dot(s, m), -1), "Those are weights"),
        (lambda s, m: dot(s, m) / s.shape[-1] ** 0.5, "square root"),
        (lambda s, m: dot(F.normalize(s, dim=-1), F.normalize(m, dim=-1)), "cosine"),
        (lambda s, m: (s.unsqueeze(2) * m.unsqueeze(1)).mean(-1), "mean of the products"),
        (lambda s, m: s @ m, "must be turned"),
        (lambda s, m: s @ m.view(m.shape[0], m.shape[2], m.shape[1]), "was reshaped"),
        (lambda s, m: (s.unsqueeze(2) - m.unsqueeze(1)).norm(dim=-1), "distances"),
        (lambda s, m: s.unsqueeze(2) * m.unsqueeze(1), "shape"),
        (lambda s, m: s @ m.T, "It raised"),
    ],
    right=[
        dot,
        lambda s, m: (s.unsqueeze(2) * m.unsqueeze(1)).sum(-1),
        lambda s, m: (m @ s.mT).mT,
    ],
)


# 3.5 multiplicative score
def general(s, m, W):
    return torch.einsum("bmd,de,bne->bmn", s, W, m)


MULTIPLICATIVE = Zoo(
    wrong=[
        (lambda s, m, W: dot(s, m), "W has no effect"),
        (lambda s, m, W: dot(F.linear(s, W), m), "W is turned"),
        (lambda s, m, W: general(s, m, W).mT, "scores are turned"),
        (lambda s, m, W: F.softmax(general(s, m, W), -1), "Those are weights"),
        (lambda s, m, W: dot(torch.tanh(s @ W), m), "a tanh too many"),
        (lambda s, m, W: general(s, m, W) / s.shape[-1] ** 0.5, "square root of d"),
        (lambda s, m, W: dot(s @ W, m @ W), "Both sides went through W"),
        (lambda s, m, W: dot(s, m @ W), "made for the state"),
        (lambda s, m, W: s @ W @ m, "must be turned"),
        (lambda s, m, W: general(s, m, W.detach()), "gradient"),
        (lambda s, m, W: (s @ W).unsqueeze(2) * m.unsqueeze(1), "shape"),
    ],
    right=[
        general,
        lambda s, m, W: dot(s @ W, m),
        lambda s, m, W: dot(s, m @ W.T),
    ],
)


# 3.6 additive score
def additive(s, m, A, B, v, activation=torch.tanh):
    b, rows, columns = s.shape[0], s.shape[1], m.shape[1]
    left = (s @ A).unsqueeze(2).expand(b, rows, columns, -1)
    right = (m @ B).unsqueeze(1).expand(b, rows, columns, -1)
    return (activation(left + right) * v).sum(-1)


def additive_by_loops(s, m, A, B, v):
    keys = m @ B
    rows = [torch.tanh(one.unsqueeze(1) + keys) @ v for one in (s @ A).unbind(1)]
    return torch.stack(rows, 1)


ADDITIVE = Zoo(
    wrong=[
        (lambda s, m, A, B, v: additive(s, m, A, B, v, lambda x: x), "tanh is missing"),
        (lambda s, m, A, B, v: additive(s, m, A, B, v, lambda x: x).tanh(), "tanh came after v"),
        (
            lambda s, m, A, B, v: (torch.tanh(s @ A) @ v).unsqueeze(2) + (torch.tanh(m @ B) @ v).unsqueeze(1),
            "Two tanh were added",
        ),
        (lambda s, m, A, B, v: additive(s, m, A, B, torch.ones_like(v)), "v is missing"),
        (lambda s, m, A, B, v: additive(s, m, A, B, v, torch.sigmoid), "sigmoid"),
        (lambda s, m, A, B, v: additive(s, m, A, B, v, F.relu), "ReLU"),
        (lambda s, m, A, B, v: F.softmax(additive(s, m, A, B, v), dim=-1), "Those are weights"),
        (
            lambda s, m, A, B, v: torch.tanh((s @ A).unsqueeze(1) + (m @ B).unsqueeze(2)) @ v,
            "scores are turned",
        ),
        (lambda s, m, A, B, v: torch.tanh(s @ A + m @ B) @ v, "every state meets every memory"),
        (lambda s, m, A, B, v: additive(s, m, B, A, v), "A and B are swapped"),
        (lambda s, m, A, B, v: additive(s, m, A, B, v).unsqueeze(-1), "axis of length 1"),
        (lambda s, m, A, B, v: torch.tanh(torch.einsum("bmh,bnh->bmn", s @ A, m @ B)), "wrong values"),
        (lambda s, m, A, B, v: additive(s, m, A, B.detach(), v), "gradient"),
    ],
    right=[additive, additive_by_loops],
)


# 3.7 the decoder
class Base(nn.Module):
    """A decoder written in another way than the course's: no `attend`, the context by a sum."""

    def __init__(self, words, width, score):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.cell = nn.GRUCell(width, width)
        self.score = score
        self.combine = nn.Linear(2 * width, width)
        self.output = nn.Linear(width, words)

    def ask(self, old, new, memory):
        return self.score(new[:, None], memory)[:, 0]

    def weigh(self, scores, mask):
        return scores.masked_fill(~mask, float("-inf")).softmax(-1)

    def say(self, state, context):
        return self.output(self.combine(torch.cat((state, context), dim=1)).tanh())

    def step(self, word, state, memory, mask):
        new = self.cell(self.embed(word), state)
        weights = self.weigh(self.ask(state, new, memory), mask)
        context = (weights[..., None] * memory).sum(1)
        return self.say(new, context), new, weights


class Careless(Base):
    def weigh(self, scores, mask):
        return scores.softmax(-1)


class MasksLate(Base):
    def weigh(self, scores, mask):
        return scores.softmax(-1) * mask


class MasksWithZero(Base):
    def weigh(self, scores, mask):
        return (scores * mask).softmax(-1)


class MasksTheWords(Base):
    def weigh(self, scores, mask):
        return scores.masked_fill(mask, -1e9).softmax(-1)


class OverTheSentences(Base):
    def weigh(self, scores, mask):
        return scores.masked_fill(~mask, -1e9).softmax(0)


class AsksWithTheOldState(Base):
    def ask(self, old, new, memory):
        return self.score(old[:, None], memory)[:, 0]


class AlwaysDot(Base):
    def ask(self, old, new, memory):
        return (memory @ new[..., None])[..., 0]


class ForgetsTheAxis(Base):
    def ask(self, old, new, memory):
        return self.score(new, memory)


class ContextFirst(Base):
    def say(self, state, context):
        return self.output(torch.tanh(self.combine(torch.cat([context, state], -1))))


class WithoutTanh(Base):
    def say(self, state, context):
        return self.output(self.combine(torch.cat([state, context], -1)))


class WithoutContext(Base):
    def say(self, state, context):
        return self.output(state)


class GivesProbabilities(Base):
    def say(self, state, context):
        return super().say(state, context).softmax(-1)


class AddsInsteadOfJoining(Base):
    def say(self, state, context):
        return self.output(torch.tanh(self.combine(state + context)))


class ReturnsTheOldState(Base):
    def step(self, word, state, memory, mask):
        logits, _, weights = super().step(word, state, memory, mask)
        return logits, state, weights


class LeavesAnAxis(Base):
    def step(self, word, state, memory, mask):
        logits, new, weights = super().step(word, state, memory, mask)
        return logits, new, weights[:, None]


class TurnsTheCell(Base):
    def step(self, word, state, memory, mask):
        state = self.cell(state, self.embed(word))
        weights = self.weigh(self.ask(state, state, memory), mask)
        return self.say(state, (weights[:, None] @ memory)[:, 0]), state, weights


class CutsTheGradient(Base):
    def ask(self, old, new, memory):
        return super().ask(old, new, memory.detach())


class KeepsItsState(Base):
    """Right in the first step, and then it no longer listens."""

    def step(self, word, state, memory, mask):
        self.state = getattr(self, "state", state)
        logits, self.state, weights = super().step(word, self.state, memory, mask)
        return logits, self.state, weights


class SqueezesEverything(Base):
    def step(self, word, state, memory, mask):
        state = self.cell(self.embed(word), state)
        weights = self.weigh(self.ask(state, state, memory), mask).unsqueeze(1)
        return self.say(state, (weights @ memory).squeeze(1)), state, weights.squeeze()


class JoinsTheOldState(Base):
    def step(self, word, state, memory, mask):
        _, new, weights = super().step(word, state, memory, mask)
        return self.say(state, (weights.unsqueeze(1) @ memory).squeeze(1)), new, weights


class ReturnsTwo(Base):
    def step(self, word, state, memory, mask):
        return super().step(word, state, memory, mask)[:2]


class ByProducts(Base):
    """With matrix products, and a very negative number for the mask."""

    def step(self, word, state, memory, mask):
        state = self.cell(self.embed.weight[word], state)
        scores = self.score(state.unsqueeze(1), memory) + torch.where(mask, 0.0, -1e30).unsqueeze(1)
        weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
        context = torch.bmm(weights, memory)
        found = torch.cat([state.unsqueeze(1), context], 2)
        return self.output(torch.tanh(self.combine(found))).squeeze(1), state, weights.squeeze(1)


DECODER = Zoo(
    wrong=[
        (Careless, "padding still gets weight"),
        (MasksLate, "after the softmax"),
        (MasksWithZero, "exp(0) = 1"),
        (MasksTheWords, "The mask is turned round"),
        (OverTheSentences, "do not add up to 1: the softmax runs"),
        (AsksWithTheOldState, "made with the old state"),
        (AlwaysDot, "call `self.score`"),
        (ForgetsTheAxis, "`self.score` got a state (b, width)"),
        (ContextFirst, "wrong order: the state comes first"),
        (WithoutTanh, "The tanh is missing"),
        (WithoutContext, "from the state alone"),
        (GivesProbabilities, "Those are probabilities"),
        (AddsInsteadOfJoining, "It raised RuntimeError"),
        (ReturnsTheOldState, "old state came back"),
        (LeavesAnAxis, "weights have an axis too many"),
        (TurnsTheCell, "first the embedded word, then the state"),
        (CutsTheGradient, "gradient"),
        (KeepsItsState, "kept in `self`"),
        (SqueezesEverything, "without an axis"),
        (JoinsTheOldState, "joined with the old state"),
        (ReturnsTwo, "expected a tuple of 3"),
    ],
    right=[Base, ByProducts],
)


# 3.8 greedy decoding
def decode_one_by_one(step, state, start, end, limit):
    rows = []
    for place in range(len(state)):
        own, word, said = state[place : place + 1], torch.tensor([start]), []
        while len(said) < limit and end not in said:
            logits, own = step(word, own)
            word = logits.argmax(-1)
            said.append(int(word))
        rows.append(torch.tensor(said))
    return pad_sequence(rows, batch_first=True)


def decode_into_a_table(step, state, start, end, limit):
    """Room for all words at once, cut where the longest sentence ends."""
    table = torch.zeros(len(state), limit, dtype=torch.long)
    word, lengths = torch.full((len(state),), start), torch.full((len(state),), limit)
    for place in range(limit):
        logits, state = step(word, state)
        word = logits.topk(1).indices[:, 0]
        table[:, place] = torch.where(lengths > place, word, 0)
        lengths = torch.where((word == end) & (lengths > place), place + 1, lengths)
    return table[:, : int(lengths.max())]


def decode_and_clean(step, state, start, end, limit):
    """All steps first, the padding afterwards."""
    words = torch.full((len(state), 1), start)
    for _ in range(limit):
        logits, state = step(words[:, -1], state)
        words = torch.cat([words, logits.max(-1, keepdim=True).indices], 1)
    words = words[:, 1:]
    behind = (words == end).cumsum(1) - (words == end).long() > 0
    words = torch.where(behind, 0, words)
    return words[:, : int((words != 0).sum(1).max())]


def decode_with_flags(step, state, start, end, limit):
    word, done, out = torch.tensor([start] * len(state)), torch.zeros(len(state), dtype=torch.bool), []
    for _ in range(limit):
        logits, state = step(word, state)
        word = logits.softmax(-1).argmax(dim=1)
        out.append(torch.where(done, torch.zeros_like(word), word))
        done = done | (word == end)
        if done.all():
            break
    return torch.stack(out).T


def decode_to_the_limit(step, state, start, end, limit):
    word, out = torch.full((len(state),), start), []
    for _ in range(limit):
        logits, state = step(word, state)
        word = logits.argmax(-1)
        out.append(word)
    return torch.stack(out, 1)


def decode_until_all_say_it_together(step, state, start, end, limit):
    word, out = torch.full((len(state),), start), []
    for _ in range(limit):
        logits, state = step(word, state)
        word = logits.argmax(-1)
        out.append(word)
        if (word == end).all():
            break
    return torch.stack(out, 1)


def decode_until_one_says_it(step, state, start, end, limit):
    word, out = torch.full((len(state),), start), []
    for _ in range(limit):
        logits, state = step(word, state)
        word = logits.argmax(-1)
        out.append(word)
        if (word == end).any():
            break
    return torch.stack(out, 1)


def decode_with_the_start(step, state, start, end, limit):
    words = decode_with_flags(step, state, start, end, limit)
    return torch.cat([torch.full((len(state), 1), start), words], 1)


def decode_from_the_first_state(step, state, start, end, limit):
    return decode_with_flags(lambda word, _: step(word, state), state, start, end, limit)


def decode_over_the_sentences(step, state, start, end, limit):
    return decode_with_flags(lambda word, own: turned(*step(word, own)), state, start, end, limit)


def turned(logits, state):
    return logits.T, state


def decode_without_ever_ending(step, state, start, end, limit):
    word, out = torch.full((len(state),), start), []
    while not (word == end).all():
        word = step(word, state)[0].argmax(-1)
        out.append(word)
    return torch.stack(out, 1)


DECODE = Zoo(
    wrong=[
        (decode_to_the_limit, "end token has no effect"),
        (decode_until_all_say_it_together, "in the same step"),
        (decode_until_one_says_it, "when the first sentence had ended"),
        (decode_with_the_start, "start token is among the words: it is only read, never said"),
        (decode_from_the_first_state, "from the first state"),
        (decode_over_the_sentences, "ran over the sentences"),
        (lambda step, h, start, end, limit: decode_with_flags(step, h, start, end, limit).T, "batch comes first"),
        (
            lambda step, h, start, end, limit: decode_with_flags(
                lambda word, own: step(torch.full_like(word, start), own), h, start, end, limit
            ),
            "read the start token",
        ),
        (
            lambda step, h, start, end, limit: decode_with_flags(step, h, start, end, limit + 1),
            "a word too many",
        ),
        (
            lambda step, h, start, end, limit: decode_with_flags(step, h, start, end, 50),
            "which may be never",
        ),
        (
            lambda step, h, start, end, limit: (
                decode_with_flags(step, h, start, end, limit) * (decode_with_flags(step, h, start, end, limit) != end)
            ),
            "end token is missing",
        ),
        (lambda step, h, start, end, limit: decode_with_flags(step, h, 1, 2, limit), "numbers in your code"),
        (decode_without_ever_ending, "whatever happened"),
        (lambda step, h, start, end, limit: decode_with_flags(step, h, start, end, limit).tolist(), "list"),
        (
            lambda step, h, start, end, limit: decode_with_flags(
                lambda word, own: step(word.unsqueeze(1), own), h, start, end, limit
            ),
            "one word number for each",
        ),
        (decode_one_by_one, "`step` got 1 of 2 sentences"),
    ],
    right=[decode_into_a_table, decode_and_clean, decode_with_flags],
)


# 3.9 alignment error
def links_of(weights):
    return {(int(row.argmax()), target) for target, row in enumerate(weights)}


def error(found, links):
    return 1 - 2 * len(found & links) / (len(found) + len(links))


def error_by_counting(weights, links):
    hits = 0
    for target in range(weights.shape[0]):
        best = max(range(weights.shape[1]), key=lambda source: float(weights[target, source]))
        hits += (best, target) in links
    return (weights.shape[0] + len(links) - 2 * hits) / (weights.shape[0] + len(links))


def error_by_a_table(weights, links):
    gold = torch.zeros_like(weights)
    for source, target in links:
        gold[target, source] = 1
    found = F.one_hot(weights.argmax(-1), weights.size(-1))
    return 1 - 2 * (found * gold).sum() / (found.sum() + gold.sum())


def error_that_uses_the_links_up(weights, links):
    size = len(weights) + len(links)
    shared = links_of(weights)
    links &= shared
    return 1 - 2 * len(links) / size


ALIGNMENT = Zoo(
    wrong=[
        (
            lambda w, s: error({(n, int(w[:, n].argmax())) for n in range(w.shape[1])}, s),
            "one link for each source word",
        ),
        (lambda w, s: error({(target, source) for source, target in links_of(w)}, s), "found links are turned"),
        (lambda w, s: 1 - len(links_of(w) & s) / (len(links_of(w)) + len(s)), "The 2 is missing"),
        (lambda w, s: 1 - error_by_counting(w, s), "how much agrees"),
        (lambda w, s: 1 - len(links_of(w) & s) / len(w), "Divided by |A| alone"),
        (lambda w, s: 1 - len(links_of(w) & s) / len(s), "Divided by |S| alone"),
        (lambda w, s: 1 - len(links_of(w) & s) / len(links_of(w) | s), "union of the links; the error"),
        (lambda w, s: error({(n, m) for m, row in enumerate(w) for n, x in enumerate(row) if x > 0.5}, s), "one half"),
        (lambda w, s: error(links_of(w[:-1, :-1]), s), "last row and column"),
        (lambda w, s: 100 * error_by_counting(w, s), "per cent"),
        (
            lambda w, s: error_by_counting(w, {(b, a) for a, b in {t: n for n, t in sorted(s)}.items()}),
            "several right links",
        ),
        (error_that_uses_the_links_up, "changed its input `links`"),
        (lambda w, s: error({(n, m) for m, n in enumerate(w.argmax(1))}, s), "a tensor in a set"),
        (lambda w, s: round(error_by_counting(w, s), 1), "wrong number"),
        (lambda w, s: f"{error_by_counting(w, s):.2f}", "expected a number"),
    ],
    right=[error_by_counting, error_by_a_table],
)

ZOO = {
    "3.1": PAD,
    "3.2": STEP,
    "3.3": READ,
    "3.4": DOT,
    "3.5": MULTIPLICATIVE,
    "3.6": ADDITIVE,
    "3.7": DECODER,
    "3.8": DECODE,
    "3.9": ALIGNMENT,
}

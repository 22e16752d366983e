"""Answers to lesson 07's exercises: what people really write, wrong and right."""

import math
from collections import Counter, defaultdict
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo import Zoo
from utils.data.subwords import SPECIAL, merge
from utils.models.encoder import Encoder
from utils.models.self_attention import causal_mask
from utils.models.transformer import WordVectors
from utils.training.pretraining import NOT_ASKED

FIRST = len(SPECIAL)


# 7.1 byte-pair merges
def merges_by_list(counts, merges):
    """The words as a list of pieces and counts, ages by place in a list."""
    words = [(list(word), count) for word, count in counts.items()]
    ages, found = sorted({letter for word in counts for letter in word}), []
    for _ in range(merges):
        pairs = defaultdict(int)
        for pieces, count in words:
            for i in range(len(pieces) - 1):
                pairs[pieces[i], pieces[i + 1]] += count
        if not pairs:
            break
        best = sorted(pairs, key=lambda pair: (-pairs[pair], ages.index(pair[0]), ages.index(pair[1])))[0]
        words = [(merge(pieces, best), count) for pieces, count in words]
        ages.append(best[0] + best[1])
        found.append(best)
    return found


def merges_of_a_long_text(counts, merges):
    """Every word as often as it occurs, with a wall between words."""
    pieces, ages = [], sorted(set("".join(counts)))
    for word, count in counts.items():
        pieces += [*word, None] * count
    found = []
    while len(found) < merges:
        pairs = Counter(pair for pair in zip(pieces, pieces[1:], strict=False) if None not in pair)
        if not pairs:
            return found
        top = max(pairs.values())
        best = min((p for p in pairs if pairs[p] == top), key=lambda p: [ages.index(piece) for piece in p])
        place, joined = 0, []
        while place < len(pieces):
            if tuple(pieces[place : place + 2]) == best:
                joined.append("".join(best))
                place += 2
            else:
                joined.append(pieces[place])
                place += 1
        pieces = joined
        ages.append("".join(best))
        found.append(list(best))
    return found


def likeliest_pairs(counts, merges):
    pairs = Counter()
    for word, count in counts.items():
        for pair in pairwise(word):
            pairs[pair] += count
    return [pair for pair, _ in pairs.most_common(merges)]


def merges_by(weigh=None, choose=None, join=merge, stop=None, limit=None, results=list, again=True):
    def answer(counts, merges):
        words = {word: list(word) for word in counts}
        ages, found, pairs = sorted(set("".join(counts))), [], None
        while len(found) < (merges if limit is None else limit(merges)):
            if pairs is None or again:
                pairs = Counter()
                for word, pieces in words.items():
                    for pair in pairwise(pieces):
                        pairs[pair] += counts[word] if weigh is None else weigh(word)
            if stop is None and not pairs or stop is not None and stop(pairs):
                break
            if choose is None:
                best = max(pairs, key=lambda p: (pairs[p], -ages.index(p[0]), -ages.index(p[1])))
            else:
                best = choose(pairs)
            if not again:
                pairs.pop(best)
            found.append(best)
            ages.append("".join(best))
            words = {word: join(pieces, best) for word, pieces in words.items()}
        return results(found)

    return answer


def by_replacing(pieces, pair):
    return " ".join(pieces).replace(" ".join(pair), "".join(pair)).split()


def first_only(pieces, pair):
    for i in range(len(pieces) - 1):
        if (pieces[i], pieces[i + 1]) == pair:
            return pieces[:i] + [pieces[i] + pieces[i + 1]] + pieces[i + 2 :]
    return pieces


def counts_emptied(counts, merges):
    found = merges_by_list(counts, merges)
    counts.clear()
    return found


def across_words(counts, merges):
    line, found = "".join(word * count for word, count in counts.items()), []
    pieces, ages = list(line), sorted(set(line))
    while len(found) < merges and len(pieces) > 1:
        pairs = Counter(pairwise(pieces))
        best = max(pairs, key=lambda p: (pairs[p], -ages.index(p[0]), -ages.index(p[1])))
        pieces = merge(pieces, best)
        found.append(best)
        ages.append("".join(best))
    return found


MERGES = Zoo(
    wrong=[
        (merges_by(weigh=lambda word: 1), "Each word counted once"),
        (merges_by(again=False), "counted once, at the start"),
        (likeliest_pairs, "counted once, at the start"),
        (merges_by(join=lambda pieces, pair: pieces), "never joined"),
        (merges_by(choose=lambda pairs: pairs.most_common(1)[0][0]), "the first that was met won: it is the one"),
        (merges_by(choose=lambda pairs: max(pairs, key=pairs.get)), "the first that was met won: it is the one"),
        (merges_by(choose=lambda pairs: sorted(pairs, key=lambda p: (-pairs[p], p))[0]), "by the alphabet"),
        (merges_by(choose=lambda pairs: max((n, p) for p, n in pairs.items())[1]), "the last in the alphabet"),
        (merges_by(join=first_only), "first occurrence in each word"),
        (merges_by(join=by_replacing), "replaced in the text"),
        (merges_by(stop=lambda pairs: False), "fails when nothing is left"),
        (merges_by(stop=lambda pairs: not pairs or max(pairs.values()) < 2), "occur only once"),
        (merges_by(limit=lambda merges: merges + 1), "a merge too many"),
        (merges_by(limit=lambda merges: merges - 1), "A merge is missing"),
        (merges_by(results=lambda found: ["".join(pair) for pair in found]), "came back joined"),
        (merges_by(results=lambda found: found[::-1]), "wrong order"),
        (lambda counts, merges: merges_by_list(counts, merges)[:2], "has 2 parts"),
        (lambda counts, merges: print(merges_by_list(counts, merges)), "returned nothing"),
        (lambda counts, merges: merges_by_list(counts.elements(), merges), "It raised AttributeError"),
        (counts_emptied, "changed its input `counts`"),
        (lambda counts: [], "Put the first line back"),
    ],
    right=[merges_by_list, merges_of_a_long_text, merges_by()],
)


# 7.2 split a word
def split_by_turns(word, merges):
    pieces = list(word)
    for left, right in merges:
        i = 0
        while i < len(pieces) - 1:
            if pieces[i] == left and pieces[i + 1] == right:
                pieces[i : i + 2] = [left + right]
            i += 1
    return pieces


def split_by_rank(word, merges):
    ranks, pieces = {tuple(pair): i for i, pair in enumerate(merges)}, tuple(word)
    while len(pieces) > 1:
        best = min(pairwise(pieces), key=lambda pair: ranks.get(pair, math.inf))
        if best not in ranks:
            break
        pieces = merge(pieces, best)
    return list(pieces)


def split_left_to_right(word, merges):
    pieces, known = list(word), set(merges)
    while True:
        pair = next((pair for pair in pairwise(pieces) if pair in known), None)
        if pair is None:
            return pieces
        pieces = merge(pieces, pair)


def longest_match(word, merges):
    pieces, known = [], {a + b for a, b in merges}
    while word:
        size = next(k for k in range(len(word), 0, -1) if k == 1 or word[:k] in known)
        pieces.append(word[:size])
        word = word[size:]
    return pieces


def split_with_text(word, merges):
    text = " ".join(word)
    for left, right in merges:
        text = text.replace(f"{left} {right}", left + right)
    return text.split(" ")


def each_pair_once(word, merges):
    pieces = list(word)
    for pair in merges:
        pieces = first_only(pieces, pair)
    return pieces


def thrown_away(word, merges):
    pieces = list(word)
    for pair in merges:
        merge(pieces, pair)
    return pieces


def backwards(word, merges):
    pieces = list(word)
    for pair in reversed(merges):
        pieces = merge(pieces, pair)
    return pieces


def split_from_the_left(word, merges):
    pieces = list(word)
    while True:
        for i, pair in enumerate(pairwise(pieces)):
            if pair in merges:
                pieces[i : i + 2] = ["".join(pair)]
                break
        else:
            return pieces


SPLIT = Zoo(
    wrong=[
        (split_left_to_right, "furthest to the left"),
        (backwards, "from the last to the first"),
        (longest_match, "The longest piece won"),
        (each_pair_once, "Each pair was joined once"),
        (split_with_text, "replaced in the text"),
        (thrown_away, "No merge had any effect"),
        (lambda word, merges: merge(list(word), merges[0]), "Only the first merge"),
        (lambda word, merges: " ".join(split_by_rank(word, merges)), "One string came back"),
        (lambda word, merges: split_by_rank(word, merges)[::-1], "in reverse"),
        (lambda word, merges: [p for p in split_by_rank(word, merges) if len(p) > 1], "not joined are missing"),
        (lambda word, merges: merge(list(word), *merges), "It raised TypeError"),
        (lambda word, merges: split_by_rank(word, merges[:3]), "parts: expected"),
        (split_from_the_left, "furthest to the left"),
    ],
    right=[split_by_turns, split_by_rank],
)


# 7.3 masked words
def masked_by(
    choose=lambda numbers, real, share, g: (torch.rand(numbers.shape, generator=g) < share) & real & (numbers >= FIRST),
    fates=(0.8, 0.9),
    other=lambda numbers, pieces, g: torch.randint(FIRST, pieces, numbers.shape, generator=g),
    targets=lambda numbers, inputs, chosen: torch.where(chosen, numbers, NOT_ASKED),
    results=lambda inputs, targets, chosen: (inputs, targets, chosen),
):
    def answer(numbers, real, mask, pieces, share=0.15, generator=None):
        chosen = choose(numbers, real, share, generator)
        inputs, fate = numbers.clone(), torch.rand(numbers.shape, generator=generator)
        inputs[chosen & (fate < fates[0])] = mask
        random = chosen & (fate >= fates[0]) & (fate < fates[1])
        inputs[random] = other(numbers, pieces, generator)[random]
        return results(inputs, targets(numbers, inputs, chosen), chosen)

    return answer


def by_bernoulli(numbers, real, mask, pieces, share=0.15, generator=None):
    may = real & (numbers >= FIRST)
    chosen = torch.bernoulli(may * share, generator=generator).bool()
    hidden = torch.bernoulli(torch.full(numbers.shape, 0.8), generator=generator).bool() & chosen
    swapped = torch.bernoulli(torch.full(numbers.shape, 0.5), generator=generator).bool() & chosen & ~hidden
    inputs = numbers.masked_fill(hidden, mask)
    inputs[swapped] = torch.randint(FIRST, pieces, (int(swapped.sum()),), generator=generator)
    return inputs, numbers.masked_fill(~chosen, NOT_ASKED), chosen


def a_fixed_number(numbers, real, mask, pieces, share=0.15, generator=None):
    """Exactly the share of each batch, in random order: the first 80 % are hidden, and so on."""
    places = (real & (numbers >= FIRST)).flatten().nonzero().squeeze(1)
    places = places[torch.randperm(len(places), generator=generator)][: round(share * len(places))]
    inputs, targets = numbers.flatten().clone(), torch.full((numbers.numel(),), NOT_ASKED)
    targets[places] = inputs[places]
    a, b = round(0.8 * len(places)), round(0.9 * len(places))
    inputs[places[:a]] = mask
    inputs[places[a:b]] = torch.randint(FIRST, pieces, (b - a,), generator=generator)
    return inputs.view_as(numbers), targets.view_as(numbers), (targets != NOT_ASKED).view_as(numbers)


def by_categories(numbers, real, mask, pieces, share=0.15, generator=None):
    draw = torch.rand(numbers.shape, generator=generator)
    chosen = real & (numbers >= FIRST) & (draw < share)
    inputs = torch.where(chosen & (draw < 0.8 * share), mask, numbers)
    random = torch.randint(pieces - FIRST, numbers.shape, generator=generator) + FIRST
    inputs = torch.where(chosen & (draw >= 0.9 * share), random, inputs)
    return inputs, torch.where(chosen, numbers, NOT_ASKED), chosen


def masked_in_place(numbers, real, mask, pieces, share=0.15, generator=None):
    chosen = (torch.rand(numbers.shape, generator=generator) < share) & real & (numbers >= FIRST)
    numbers[chosen] = mask
    return numbers, torch.where(chosen, numbers, NOT_ASKED), chosen


def ten_of_the_rest(numbers, real, mask, pieces, share=0.15, generator=None):
    chosen = (torch.rand(numbers.shape, generator=generator) < share) & real & (numbers >= FIRST)
    hidden = chosen & (torch.rand(numbers.shape, generator=generator) < 0.8)
    random = chosen & ~hidden & (torch.rand(numbers.shape, generator=generator) < 0.1)
    inputs = torch.where(hidden, mask, numbers)
    inputs = torch.where(random, torch.randint(FIRST, pieces, numbers.shape, generator=generator), inputs)
    return inputs, torch.where(chosen, numbers, NOT_ASKED), chosen


def two_decisions(numbers, real, mask, pieces, share=0.15, generator=None):
    chosen = (torch.rand(numbers.shape, generator=generator) < share) & real & (numbers >= FIRST)
    inputs = torch.where(chosen & (torch.rand(numbers.shape, generator=generator) < 0.8), mask, numbers)
    random = chosen & (torch.rand(numbers.shape, generator=generator) < 0.1)
    inputs = torch.where(random, torch.randint(FIRST, pieces, numbers.shape, generator=generator), inputs)
    return inputs, torch.where(chosen, numbers, NOT_ASKED), chosen


def only_hidden_are_chosen(numbers, real, mask, pieces, share=0.15, generator=None):
    inputs, targets, chosen = by_bernoulli(numbers, real, mask, pieces, share, generator)
    chosen = chosen & (inputs == mask)
    return torch.where(chosen, inputs, numbers), torch.where(chosen, numbers, NOT_ASKED), chosen


def seeded(numbers, real, mask, pieces, share=0.15, generator=None):
    return by_bernoulli(numbers, real, mask, pieces, share, torch.Generator().manual_seed(0))


def changed_elsewhere(numbers, real, mask, pieces, share=0.15, generator=None):
    inputs, targets, chosen = by_bernoulli(numbers, real, mask, pieces, share, generator)
    return torch.where(real, inputs, 0), targets, chosen


def draw(numbers, share, g):
    return torch.rand(numbers.shape, generator=g) < share


MASKED = Zoo(
    wrong=[
        (masked_by(lambda n, real, share, g: draw(n, share, g) & (n >= FIRST)), "Padding was chosen"),
        (masked_by(lambda n, real, share, g: draw(n, share, g) & real), "Special pieces were chosen"),
        (masked_by(lambda n, real, share, g: draw(n, share, g) & real & (n != 0)), "Special pieces were chosen"),
        (masked_by(lambda n, real, share, g: ~draw(n, share, g) & real & (n >= FIRST)), "choice is turned round"),
        (masked_by(lambda n, real, share, g: draw(n, 0.15, g) & real & (n >= FIRST)), "`share` has no effect"),
        (masked_by(lambda n, real, share, g: torch.zeros_like(real)), "Nothing was chosen"),
        (
            masked_by(lambda n, real, share, g: (torch.rand(n.size(1), generator=g) < share) & real & (n >= FIRST)),
            "same places were chosen in every text",
        ),
        (
            masked_by(lambda n, real, share, g: (torch.rand(len(n), 1, generator=g) < share) & real & (n >= FIRST)),
            "Whole texts were chosen",
        ),
        (only_hidden_are_chosen, "only those that became the mask"),
        (masked_by(fates=(1.0, 1.0)), "Every chosen piece became the mask"),
        (masked_by(fates=(0.8, 0.8)), "No chosen piece became a random one"),
        (masked_by(fates=(0.8, 1.0)), "No chosen piece stayed"),
        (masked_by(fates=(0.1, 0.2)), "it should be 80, 10 and 10"),
        (ten_of_the_rest, "10 % of the 20 %"),
        (two_decisions, "took some places of the mask"),
        (
            masked_by(other=lambda n, pieces, g: torch.randint(0, pieces, n.shape, generator=g)),
            "random pieces run from",
        ),
        (
            masked_by(other=lambda n, pieces, g: torch.randint(FIRST, pieces, (1,), generator=g).expand_as(n)),
            "One random piece was put everywhere",
        ),
        (
            masked_by(other=lambda n, pieces, g: torch.randint(FIRST, FIRST + 15, n.shape, generator=g)),
            "not drawn from all ordinary ones",
        ),
        (masked_by(targets=lambda numbers, inputs, chosen: numbers), "Every place has a target"),
        (
            masked_by(targets=lambda numbers, inputs, chosen: torch.where(chosen, inputs, NOT_ASKED)),
            "targets are what was put in",
        ),
        (
            masked_by(targets=lambda numbers, inputs, chosen: torch.where(chosen, NOT_ASKED, numbers)),
            "targets are turned round",
        ),
        (masked_by(targets=lambda numbers, inputs, chosen: numbers * chosen), "Where nothing is asked stands 0"),
        (
            masked_by(targets=lambda numbers, inputs, chosen: torch.where(inputs != numbers, numbers, NOT_ASKED)),
            "Some chosen pieces have no target",
        ),
        (
            masked_by(targets=lambda numbers, inputs, chosen: torch.where(chosen, numbers, -1)),
            "must be `NOT_ASKED`",
        ),
        (masked_in_place, "changed `numbers` itself"),
        (changed_elsewhere, "not chosen have changed"),
        (masked_by(lambda n, real, share, g: draw(n, share, None) & real & (n >= FIRST)), "chose differently"),
        (seeded, "Another generator gives the same"),
        (masked_by(results=lambda inputs, targets, chosen: (inputs, targets)), "three tensors"),
        (masked_by(results=lambda inputs, targets, chosen: (inputs, chosen, targets)), "`targets` has dtype bool"),
        (
            masked_by(results=lambda inputs, targets, chosen: (inputs, targets, chosen.long())),
            "`chosen` has dtype int64",
        ),
        (masked_by(results=lambda inputs, targets, chosen: (inputs, targets[chosen], chosen)), "`targets` is a torch"),
        (masked_by(other=lambda n, pieces, g: torch.randint(pieces, generator=g)), "It raised TypeError"),
    ],
    right=[masked_by(), by_bernoulli, a_fixed_number, by_categories],
)


# 7.4 cut out spans
def spans_by_place(numbers, spans, gaps):
    """Piece by piece, with the number of the span that each belongs to."""
    owner = {place: number for number, (start, end) in enumerate(spans) for place in range(start, end)}
    source, target, open_gap = [], [], None
    for place, piece in enumerate(numbers):
        number = owner.get(place)
        if number is None:
            source.append(piece)
        else:
            if number != open_gap:
                source.append(gaps[number])
                target.append(gaps[number])
            target.append(piece)
        open_gap = number
    target.append(gaps[len(spans)])
    return source, target


def spans_from_the_back(numbers, spans, gaps):
    source, target = numbers[:], [gaps[len(spans)]]
    for i in reversed(range(len(spans))):
        start, end = spans[i]
        target = [gaps[i]] + source[start:end] + target
        source[start:end] = [gaps[i]]
    return source, target


def spans_by(source=None, target=None):
    def answer(numbers, spans, gaps):
        right = spans_by_place(numbers, spans, gaps)
        cut = [numbers[start:end] for start, end in spans]
        return (
            right[0] if source is None else source(numbers, spans, gaps, cut),
            right[1] if target is None else target(numbers, spans, gaps, cut),
        )

    return answer


def left_over(numbers, spans):
    inside = {place for start, end in spans for place in range(start, end)}
    return [piece for place, piece in enumerate(numbers) if place not in inside]


def from_the_front(numbers, spans, gaps):
    source, target = numbers[:], []
    for gap, (start, end) in zip(gaps, spans, strict=False):
        target += [gap] + source[start:end]
        source[start:end] = [gap]
    return source, target + [gaps[len(spans)]]


def the_list_itself(numbers, spans, gaps):
    source, target = spans_from_the_back(numbers, spans, gaps)
    numbers[:] = source
    return source, target


def up_to_the_last_span(numbers, spans, gaps):
    source, target, place = [], [], 0
    for i, (start, end) in enumerate(spans):
        source += numbers[place:start] + [gaps[i]]
        target += [gaps[i]] + numbers[start:end]
        place = end
    return source, target + [gaps[len(spans)]]


def ends_included(numbers, spans, gaps):
    source, target, place = [], [], 0
    for i, (start, end) in enumerate(spans):
        source += numbers[place:start] + [gaps[i]]
        target += [gaps[i]] + numbers[start : end + 1]
        place = end + 1
    return source + numbers[place:], target + [gaps[len(spans)]]


SPANS = Zoo(
    wrong=[
        (spans_by(target=lambda n, s, g, cut: sum(([x, *y] for x, y in zip(g, cut)), [])), "lacks its last gap"),  # noqa: B905
        (up_to_the_last_span, "behind the last span is missing"),
        (spans_by(source=lambda n, s, g, cut: left_over(n, s)), "does not show where"),
        (spans_by(target=lambda n, s, g, cut: [*sum(cut, []), g[len(s)]]), "does not say which gap"),
        (from_the_front, "After the first span the places are wrong"),
        (ends_included, "Each span is one piece too long"),
        (spans_by(target=lambda n, s, g, cut: list(n)), "The target is the whole text"),
        (lambda n, s, g: spans_by_place(n, s, [g[0]] * 6), "same gap"),
        (lambda n, s, g: spans_by_place(n, s, [g[0]] * len(s) + g[len(s) :]), "same gap"),
        (lambda n, s, g: spans_by_place(n, s, g[1:]), "first gap was left out"),
        (lambda n, s, g: spans_by_place(n, s, g)[::-1], "two results are swapped"),
        (lambda n, s, g: spans_by_place(n, s, g)[0], "Only the source"),
        (
            lambda n, s, g: (spans_by_place(n, s, g)[0] + [g[len(s)]], spans_by_place(n, s, g)[1]),
            "stands in the source",
        ),
        (the_list_itself, "changed its input `numbers`"),
        (lambda n, s, g: spans_by_place(n, s, g.names), "It raised AttributeError"),
        (lambda n, s: (n, []), "Put the first line back"),
        (lambda n, s, g: ([x + 1 for x in spans_by_place(n, s, g)[0]], spans_by_place(n, s, g)[1]), "wrong number"),
    ],
    right=[spans_by_place, spans_from_the_back],
)


# 7.5 the masked model
class Language(nn.Module):
    def __init__(self, pieces, dim, heads, hidden, layers):
        super().__init__()
        self.words = WordVectors(pieces, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre", activation="gelu")
        self.bias = nn.Parameter(torch.zeros(pieces))


class Masked(Language):
    def vectors(self, numbers, real):
        vectors, _ = self.encoder(self.words(numbers), mask=real[:, None])
        return vectors

    def forward(self, numbers, real):
        return F.linear(self.vectors(numbers, real), self.words.table.weight, self.bias)


class WithFullMask(Masked):
    def vectors(self, numbers, real):
        n = numbers.size(1)
        return self.encoder(self.words(numbers), real.unsqueeze(1).expand(-1, n, -1))[0]

    def forward(self, numbers, real):
        return torch.einsum("bnd,vd->bnv", self.vectors(numbers, real), self.words.table.weight) + self.bias


class LayerByLayer(Masked):
    def vectors(self, numbers, real):
        x = self.words(numbers)
        for layer in self.encoder.layers:
            x, _ = layer(x, real.unsqueeze(1), need_weights=True)
        return self.encoder.final_norm(x)


def masked(vectors=None, forward=None):
    parts = {"vectors": vectors, "forward": forward}
    return type("MaskedLM", (Masked,), {name: part for name, part in parts.items() if part is not None})


class WithAnotherLayer(Masked):
    def __init__(self, pieces, dim, heads, hidden, layers):
        super().__init__(pieces, dim, heads, hidden, layers)
        self.bias = nn.Parameter(torch.zeros(dim))


def detached_table(self, numbers, real):
    return self.vectors(numbers, real) @ self.words.table.weight.detach().T + self.bias


def without_gradient(self, numbers, real):
    with torch.no_grad():
        return Masked.forward(self, numbers, real)


MASKED_LM = Zoo(
    wrong=[
        (masked(lambda self, x, real: self.encoder(self.words(x))[0]), "`real` has no effect"),
        (masked(lambda self, x, real: self.encoder(self.words(x), real)[0]), "needs the mask as (b, 1, n)"),
        (masked(lambda self, x, real: self.encoder(self.words(x), ~real[:, None])[0]), "turned round"),
        (masked(lambda self, x, real: self.encoder(self.words(x), real[:, :, None])[0]), "who may look"),
        (
            masked(lambda self, x, real: self.encoder(self.words(x), real[:, None] & causal_mask(x.size(1)))[0]),
            "There is a causal mask",
        ),
        (masked(lambda self, x, real: self.encoder(self.words.table(x), real[:, None])[0]), "bare table"),
        (masked(lambda self, x, real: self.encoder(self.words(x), real[:, None])), "returned a tuple of 2"),
        (masked(lambda self, x, real: self.words(x)), "The blocks are missing"),
        (masked(lambda self, x, real: self.encoder(self.words(x), real[:, None])[0][:, 0]), "one vector for each text"),
        (masked(lambda self, x, real: None), "`vectors` returned nothing"),
        (
            masked(forward=lambda self, x, real: self.vectors(x, real) @ self.words.table.weight.T),
            "The bias is missing",
        ),
        (masked(forward=lambda self, x, real: self.vectors(x, real)), "`forward` returned vectors"),
        (masked(forward=lambda self, x, real: Masked.forward(self, x, real).softmax(2)), "returned probabilities"),
        (masked(forward=lambda self, x, real: F.log_softmax(Masked.forward(self, x, real), 2)), "log-probabilities"),
        (masked(forward=lambda self, x, real: Masked.forward(self, x, real)[:, 0]), "Only the first place"),
        (masked(forward=detached_table), "gradient of `words.table.weight`"),
        (masked(forward=without_gradient), "no gradient flows back"),
        (masked(forward=lambda self, x, real: Masked.forward(self, x, real).double()), "float64"),
        (masked(forward=lambda self, x, real: self.output(self.vectors(x, real))), "It raised AttributeError"),
        (masked(forward=lambda self, x, real: Masked.forward(self, x, real) + 1), "wrong values"),
        (WithAnotherLayer, "`bias` is not as `__init__` made it"),
        (lambda numbers, real: numbers, "Expected a class"),
    ],
    right=[Masked, WithFullMask, LayerByLayer],
)


# 7.6 the causal model
class Causal(Language):
    def forward(self, numbers):
        x, _ = self.encoder(self.words(numbers), causal_mask(numbers.size(1)))
        return F.linear(x, self.words.table.weight, self.bias)

    def loss(self, numbers, real):
        logits, targets = self(numbers)[:, :-1], numbers[:, 1:]
        return F.cross_entropy(logits[real[:, 1:]], targets[real[:, 1:]])


class ByIgnoring(Causal):
    def forward(self, numbers, real=None):
        b, n = numbers.shape
        mask = torch.ones(n, n).tril().bool().expand(b, n, n)
        return self.encoder(self.words(numbers), mask)[0] @ self.words.table.weight.mT + self.bias

    def loss(self, numbers, real):
        targets = numbers[:, 1:].masked_fill(~real[:, 1:], -100)
        return F.cross_entropy(self(numbers)[:, :-1].flatten(0, 1), targets.flatten(), ignore_index=-100)


class WithoutTheLast(Causal):
    """The last piece is not even read."""

    def loss(self, numbers, real):
        chances = self(numbers[:, :-1]).log_softmax(-1)
        found = chances.gather(-1, numbers[:, 1:, None]).squeeze(-1)
        counts = real[:, 1:].float()
        return -(found * counts).sum() / counts.sum()


class PaddingHidden(Causal):
    """Without padding at the real pieces: nothing changes in the loss."""

    def loss(self, numbers, real):
        total, many = 0, 0
        for text, length in zip(numbers, real.sum(1).tolist(), strict=True):
            if length > 1:
                logits = self(text[None, : length - 1])[0]
                total, many = total + F.cross_entropy(logits, text[1:length], reduction="sum"), many + length - 1
        return total / many


def causal(forward=None, loss=None):
    parts = {"forward": forward, "loss": loss}
    return type("CausalLM", (Causal,), {name: part for name, part in parts.items() if part is not None})


def loss_by(asked=slice(None, -1), answers=slice(1, None), counted=slice(1, None), mean=None):
    def loss(self, numbers, real):
        losses = F.cross_entropy(self(numbers)[:, asked].mT, numbers[:, answers], reduction="none")
        keep = real[:, counted]
        return losses[keep].mean() if mean is None else mean(losses, keep)

    return causal(loss=loss)


def look(self, numbers, mask):
    return F.linear(self.encoder(self.words(numbers), mask)[0], self.words.table.weight, self.bias)


CAUSAL_LM = Zoo(
    wrong=[
        (causal(lambda self, x: look(self, x, None)), "sees those behind it"),
        (causal(lambda self, x: look(self, x, causal_mask(x.size(1)).T)), "transposed"),
        (causal(lambda self, x: look(self, x, causal_mask(x.size(1)).tril(-1))), "cannot see themselves"),
        (causal(lambda self, x: look(self, x, causal_mask(len(x)))), "as large as the batch"),
        (causal(lambda self, x: Causal.forward(self, x).softmax(-1)), "returned probabilities"),
        (causal(lambda self, x: Causal.forward(self, x) - self.bias), "The bias is missing"),
        (causal(lambda self, x: self.encoder(self.words(x), causal_mask(x.size(1)))), "`forward` returned a tuple"),
        (causal(lambda self, x: None), "`forward` returned nothing"),
        (loss_by(slice(None), slice(None), slice(None)), "which the model sees"),
        (loss_by(slice(1, None), slice(None, -1), slice(None, -1)), "wrong way"),
        (loss_by(slice(1, None)), "both cut at the front"),
        (loss_by(counted=slice(None, -1)), "whether the piece that asks is real"),
        (loss_by(mean=lambda losses, keep: losses.mean()), "Padding is part of the loss"),
        (loss_by(mean=lambda losses, keep: (losses * keep).mean()), "counted in the mean"),
        (loss_by(mean=lambda losses, keep: (losses * keep).sum()), "That is the sum"),
        (loss_by(mean=lambda losses, keep: losses[keep].mean().exp()), "perplexity"),
        (loss_by(mean=lambda losses, keep: -losses[keep].mean()), "wrong sign"),
        (loss_by(mean=lambda losses, keep: losses), "All losses came back"),
        (loss_by(mean=lambda losses, keep: losses[keep].mean().item()), "Leave out `.item()`"),
        (loss_by(mean=lambda losses, keep: losses[keep].mean().detach()), "no gradient flows back"),
        (loss_by(mean=lambda losses, keep: losses[keep].median()), "has wrong values"),
        (causal(loss=lambda self, x, real: F.cross_entropy(self.logits(x), x)), "It raised AttributeError"),
        (causal(loss=lambda self, x: 0.0), "It raised TypeError"),
    ],
    right=[Causal, ByIgnoring, WithoutTheLast, PaddingHidden],
)


# 7.7 the next piece
def chances_by_thresholds(logits, temperature=1.0, top_k=None, top_p=None):
    logits = logits / temperature
    if top_k is not None:
        kth = logits.topk(min(top_k, len(logits))).values[-1]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    if top_p is not None:
        ordered, order = logits.sort(descending=True)
        chances = ordered.softmax(-1)
        gone = order[chances.cumsum(-1) - chances >= top_p]
        logits = logits.clone()
        logits[gone] = float("-inf")
    return logits.softmax(-1)


def chances_in_a_loop(logits, temperature=1.0, top_k=None, top_p=None):
    chances = [math.exp(x / temperature) for x in logits.tolist()]
    order = sorted(range(len(chances)), key=lambda i: -chances[i])[:top_k]
    total = sum(chances[i] for i in order)
    kept, reached = [], 0.0
    for i in order:
        kept.append(i)
        reached += chances[i] / total
        if top_p is not None and reached >= top_p:
            break
    total = sum(chances[i] for i in kept)
    return torch.tensor([chances[i] / total if i in kept else 0.0 for i in range(len(chances))])


def shifted(logits, temperature=1.0, top_k=None, top_p=None):
    """The common way that keeps one by moving the mask one place to the right."""
    values, order = torch.sort(logits / temperature, descending=True)
    if top_k:
        values[top_k:] = -torch.inf
    if top_p is not None:
        remove = values.softmax(0).cumsum(0) >= top_p
        remove[1:] = remove[:-1].clone()
        remove[0] = False
        values[remove] = -torch.inf
    return values.softmax(0)[order.argsort()]


def chances_by(warm=None, k=None, p=None, last=None, back=True):
    def answer(logits, temperature=1.0, top_k=None, top_p=None):
        chances = (logits / temperature).softmax(0) if warm is None else warm(logits, temperature)
        chances, order = chances.sort(descending=True)
        ranks = torch.arange(len(chances))
        if top_k is not None:
            chances = chances * (ranks < top_k if k is None else k(ranks, top_k))
        chances = chances / chances.sum()
        if top_p is not None:
            reached = chances.cumsum(0)
            chances = chances * (reached - chances < top_p if p is None else p(reached, chances, top_p))
        chances = chances / chances.sum() if last is None else last(chances)
        return chances[order.argsort()] if back else chances

    return answer


def cut_to_zero(logits, temperature=1.0, top_k=None, top_p=None):
    keep = chances_in_a_loop(logits, temperature, top_k, top_p) > 0
    return torch.where(keep, logits / temperature, 0).softmax(0)


def in_order_of_numbers(logits, temperature=1.0, top_k=None, top_p=None):
    chances = chances_in_a_loop(logits, temperature, top_k)
    if top_p is not None:
        chances = chances * (chances.cumsum(0) - chances < top_p)
    return chances / chances.sum()


def temperature_last(logits, temperature=1.0, top_k=None, top_p=None):
    keep = chances_in_a_loop(logits, 1.0, top_k, top_p) > 0
    return (logits / temperature).masked_fill(~keep, -torch.inf).softmax(0)


def cut_in_the_logits(logits, temperature=1.0, top_k=None, top_p=None):
    keep = chances_in_a_loop(logits, temperature, top_k, top_p) > 0
    logits[~keep] = -torch.inf
    return (logits / temperature).softmax(0)


def neither_after_the_other(logits, temperature=1.0, top_k=None, top_p=None):
    both = (chances_in_a_loop(logits, temperature, top_k) > 0) & (
        chances_in_a_loop(logits, temperature, None, top_p) > 0
    )
    return (logits / temperature).masked_fill(~both, -torch.inf).softmax(0)


NEXT = Zoo(
    wrong=[
        (chances_by(warm=lambda logits, t: logits.softmax(0)), "temperature has no effect"),
        (chances_by(warm=lambda logits, t: (logits * t).softmax(0)), "multiplied by the temperature"),
        (temperature_last, "cuts were made before the temperature"),
        (chances_by(k=lambda ranks, top_k: ranks >= 0), "`top_k` has no effect"),
        (chances_by(k=lambda ranks, top_k: ranks <= top_k), "one too many: k stay"),
        (chances_by(k=lambda ranks, top_k: ranks >= len(ranks) - top_k), "`top_k` kept the least likely"),
        (chances_by(p=lambda reached, chances, top_p: reached > 0), "`top_p` has no effect"),
        (chances_by(p=lambda reached, chances, top_p: reached <= top_p + 1e-5), "keeps nothing at all"),
        (
            chances_by(p=lambda reached, chances, top_p: (reached <= top_p + 1e-5) | (chances == chances[0])),
            "those that stay must have p between them",
        ),
        (chances_by(p=lambda reached, chances, top_p: chances >= top_p), "least chance of a piece"),
        (chances_by(p=lambda reached, chances, top_p: chances >= 1 - top_p), "a least chance, 1 - p"),
        (in_order_of_numbers, "order of the pieces' numbers"),
        (neither_after_the_other, "With both dials too many"),
        (chances_by(last=lambda chances: chances), "After top-p the chances"),
        (chances_by(back=False), "still sorted"),
        (chances_by(last=lambda chances: (chances / chances.sum()).log()), "Logarithms came back"),
        (cut_to_zero, "got the logit 0"),
        (lambda logits, temperature=1.0, top_k=None, top_p=None: logits / temperature, "Logits came back"),
        (
            lambda logits, temperature=1.0, top_k=None, top_p=None: torch.multinomial(
                chances_in_a_loop(logits, temperature, top_k, top_p), 1
            ),
            "A piece came back",
        ),
        (cut_in_the_logits, "changed its input `logits`"),
        (lambda logits, temperature=1.0: logits.softmax(0), "Put the first line back"),
        (
            lambda logits, temperature=1.0, top_k=None, top_p=None: shifted(logits, temperature, top_k, top_p).double(),
            "float64",
        ),
        (lambda logits, temperature=1.0, top_k=None, top_p=None: logits.top(top_k), "It raised AttributeError"),
    ],
    right=[chances_by_thresholds, chances_in_a_loop, shifted, chances_by()],
)


# 7.8 the classifier
class Sorter(nn.Module):
    def __init__(self, body, dim, classes):
        super().__init__()
        self.body, self.head = body, nn.Linear(dim, classes)

    def forward(self, numbers, real):
        vectors = self.body.vectors(numbers, real)
        return self.head((vectors * real[..., None]).sum(1) / real.sum(1)[:, None])


class TextByText(Sorter):
    def forward(self, numbers, real):
        vectors = self.body.vectors(numbers, real)
        return torch.stack([self.head(one[keep].mean(0)) for one, keep in zip(vectors, real, strict=True)])


class MeanOfAnswers(Sorter):
    """The mean of the linear layer's answers is its answer to the mean."""

    def forward(self, numbers, real):
        weights = real / real.sum(1, keepdim=True)
        return torch.einsum("bn,bnc->bc", weights, self.head(self.body.vectors(numbers, real)))


def sorter(pool, last=None, given=True):
    def forward(self, numbers, real):
        pooled = pool(self.body.vectors(numbers, real) if given else self.body.vectors(numbers), real)
        return self.head(pooled) if last is None else last(self, pooled)

    return type("Classifier", (Sorter,), {"forward": forward})


def real_mean(vectors, real):
    return (vectors * real[..., None]).sum(1) / real.sum(1, keepdim=True)


CLASSIFIER = Zoo(
    wrong=[
        (sorter(lambda v, real: v.mean(1)), "runs over padding as well"),
        (sorter(lambda v, real: v.mean(1), given=False), "`real` is not used at all"),
        (sorter(real_mean, given=False), "body does not know what is padding"),
        (sorter(lambda v, real: (v * real[..., None]).mean(1)), "counted in the mean"),
        (sorter(lambda v, real: (v * real[..., None]).sum(1)), "That is the sum"),
        (sorter(lambda v, real: real_mean(v, ~real)), "is NaN where there is none"),
        (sorter(lambda v, real: v[:, 0]), "Only the first piece"),
        (sorter(lambda v, real: v[:, -1]), "which may be padding"),
        (sorter(lambda v, real: v[range(len(v)), real.sum(1) - 1]), "last real piece"),
        (sorter(lambda v, real: v.masked_fill(~real[..., None], -1e9).max(1).values), "largest value"),
        (sorter(lambda v, real: v[real].mean(0)), "whole batch"),
        (sorter(lambda v, real: v), "Every piece got its own answer"),
        (sorter(real_mean, lambda self, x: x), "The mean came back"),
        (sorter(real_mean, lambda self, x: self.head(x).softmax(1)), "Probabilities came back"),
        (sorter(real_mean, lambda self, x: self.head(x).argmax(1)), "likeliest class"),
        (sorter(lambda v, real: real_mean(v.detach(), real)), "No gradient reaches the body"),
        (sorter(real_mean, lambda self, x: self.head(x).double()), "float64"),
        (
            type("C", (Sorter,), {"forward": lambda self, x, real: self.head(real_mean(self.body(x, real), real))}),
            "gives logits over pieces",
        ),
        (
            type("C", (Sorter,), {"forward": lambda self, x, real: self.body.vectors(x, real[:, None]).mean(1)}),
            "hand it on as it is",
        ),
        (
            type("C", (Sorter,), {"forward": lambda self, x, real: self.linear(x)}),
            "It raised AttributeError",
        ),
        (lambda numbers, real: numbers, "Expected a class"),
    ],
    right=[Sorter, TextByText, MeanOfAnswers],
)


# 7.9 a low-rank adapter
class Adapter(nn.Module):
    def __init__(self, linear, rank, scale=1.0):
        super().__init__()
        self.linear, self.scale = linear, scale
        for parameter in linear.parameters():
            parameter.requires_grad = False
        self.down = nn.Parameter(torch.randn(rank, linear.in_features) / linear.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + self.scale * (x @ self.down.T @ self.up.T)


class OneMatrix(Adapter):
    def __init__(self, linear, rank, scale=1.0):
        super().__init__(linear, rank, scale)
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x):
        return F.linear(x, self.linear.weight + self.scale * self.up @ self.down, self.linear.bias)


class ByEinsum(Adapter):
    def forward(self, x):
        return self.linear(x).add(torch.einsum("...i,ri,or->...o", x, self.down, self.up), alpha=self.scale)


def adapter(forward=None, after=None):
    def start(self, linear, rank, scale=1.0):
        Adapter.__init__(self, linear, rank, scale)
        if after is not None:
            after(self, linear, rank)

    return type("LowRank", (Adapter,), {"__init__": start, **({} if forward is None else {"forward": forward})})


def learning(self, linear, rank):
    linear.requires_grad_(True)


def plain_tensors(self, linear, rank):
    del self.up
    self.up = torch.zeros(linear.out_features, rank)


def turned_shapes(self, linear, rank):
    self.down = nn.Parameter(torch.randn(linear.in_features, rank))


def zeros_everywhere(self, linear, rank):
    nn.init.zeros_(self.down)


def random_everywhere(self, linear, rank):
    nn.init.normal_(self.up)


def zeros_below(self, linear, rank):
    nn.init.zeros_(self.down)
    nn.init.normal_(self.up)


def large(self, linear, rank):
    nn.init.normal_(self.down)


def frozen_too(self, linear, rank):
    self.requires_grad_(False)


def added_to_the_weight(self, x):
    self.linear.weight.data += self.scale * self.up @ self.down
    return self.linear(x)


class NoSuper(nn.Module):
    def __init__(self, linear, rank, scale=1.0):
        self.linear = linear

    def forward(self, x):
        return self.linear(x)


LOW_RANK = Zoo(
    wrong=[
        (adapter(lambda self, x: self.linear(x) + x @ self.down.T @ self.up.T), "`scale` has no effect"),
        (adapter(lambda self, x: self.scale * (self.linear(x) + x @ self.down.T @ self.up.T)), "scaled as well"),
        (adapter(lambda self, x: self.scale * (x @ self.down.T @ self.up.T)), "frozen layer is missing"),
        (adapter(lambda self, x: self.linear(x)), "adapter has no effect"),
        (
            adapter(lambda self, x: x @ (self.linear.weight + self.scale * self.up @ self.down).T),
            "bias of the frozen layer",
        ),
        (
            adapter(lambda self, x: self.linear(x) + self.scale * torch.relu(x @ self.down.T) @ self.up.T),
            "non-linearity",
        ),
        (
            adapter(lambda self, x: self.linear(x) + self.scale / len(self.down) * (x @ self.down.T @ self.up.T)),
            "divided by the rank",
        ),
        (adapter(after=learning), "still learns"),
        (adapter(after=plain_tensors), "`self.up` is a torch tensor"),
        (adapter(after=turned_shapes), "`self.down` has shape"),
        (adapter(after=zeros_everywhere), "Both start at zero"),
        (adapter(after=random_everywhere), "`self.up` starts with random numbers"),
        (adapter(after=zeros_below), "`self.down` starts at zero"),
        (adapter(after=large), "have a spread of"),
        (adapter(after=frozen_too), "is frozen: it is what learns"),
        (adapter(added_to_the_weight), "frozen weight was changed"),
        (adapter(lambda self, x: None), "`forward` returned nothing"),
        (
            adapter(lambda self, x: self.linear(x) + self.scale * (x @ self.down.detach().T @ self.up.T)),
            "No gradient reaches `self.down`",
        ),
        (adapter(lambda self, x: Adapter.forward(self, x.detach())), "no gradient"),
        (NoSuper, "It raised AttributeError"),
        (adapter(lambda self, x: self.linear(x) + x @ self.down @ self.up), "It raised RuntimeError"),
        (lambda linear, rank: linear, "Expected a class"),
    ],
    right=[Adapter, OneMatrix, ByEinsum],
)


# 7.10 along the line
def by_weights(start, end, share):
    return {name: (1 - share) * start[name] + share * end[name] for name in end}


def by_lerp(start, end, share):
    line = {}
    for name, tensor in start.items():
        line[name] = torch.lerp(tensor, end[name], share)
    return line


def line(mix):
    return lambda start, end, share: {name: mix(start[name], end[name], share) for name in start}


def by_order(start, end, share):
    return {name: a.lerp(b, share) for (name, a), b in zip(start.items(), end.values(), strict=True)}


def moved(start, end, share):
    for name in start:
        start[name] += share * (end[name] - start[name])
    return start


def one_name(start, end, share):
    for name in start:
        return {name: start[name].lerp(end[name], share)}


LINE = Zoo(
    wrong=[
        (line(lambda a, b, share: share * a + (1 - share) * b), "Start and end are swapped"),
        (line(lambda a, b, share: a + share * b), "start + end"),
        (line(lambda a, b, share: share * (b - a)), "the way walked"),
        (line(lambda a, b, share: a + share * (a - b)), "walks away"),
        (line(lambda a, b, share: (a + b) / 2), "that is the middle"),
        (line(lambda a, b, share: share * (a + b)), "Both ends were weighted"),
        (line(lambda a, b, share: a.lerp(b, max(0, min(1, share)))), "cut to 0 to 1"),
        (by_order, "matched by their order"),
        (lambda start, end, share: list(by_lerp(start, end, share).values()), "A list came back"),
        (moved, "changed its input `start`"),
        (one_name, "lacks the key"),
        (lambda start, end, share: start + share * (end - start), "It raised TypeError"),
        (line(lambda a, b, share: (a + share * (b - a)).tolist()), "return a torch tensor"),
        (lambda start, end: start, "Put the first line back"),
    ],
    right=[by_weights, by_lerp],
)

ZOO = {
    "7.1": MERGES,
    "7.2": SPLIT,
    "7.3": MASKED,
    "7.4": SPANS,
    "7.5": MASKED_LM,
    "7.6": CAUSAL_LM,
    "7.7": NEXT,
    "7.8": CLASSIFIER,
    "7.9": LOW_RANK,
    "7.10": LINE,
}

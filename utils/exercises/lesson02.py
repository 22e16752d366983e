"""Lesson 02: its exercises with the mistakes that people make in them, and its guess-first questions."""

import torch
from torch.func import functional_call

from utils.course.checks import Case
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.exercises.common import normal
from utils.exercises.edits import mistake
from utils.models.one_memory import OneMemoryNetwork, ages_of, encode_sentences, linear_hop, memory_hop


def some_sentences(generator, *shape, words):
    """Word numbers with -1 behind the last word of each sentence; no sentence is empty."""
    numbers = torch.randint(0, words, shape, generator=generator)
    length = torch.randint(1, shape[-1] + 1, shape[:-1], generator=generator)
    return numbers.masked_fill(torch.arange(shape[-1]) >= length.unsqueeze(-1), -1)


def some_mask(generator, *shape):
    """Statements first, then empty places; at least one statement in each row."""
    count = torch.randint(1, shape[-1] + 1, shape[:-1], generator=generator)
    return torch.arange(shape[-1]) < count.unsqueeze(-1)


# ---------------------------------------------------------------------------------------------- 2.1 position weights
def position_weights_with(formula):
    def wrong(length, dim):
        j = torch.arange(1, length + 1).float()[:, None]
        i = torch.arange(1, dim + 1).float()[None, :]
        return formula(i, j, dim, length)

    return wrong


register(
    Exercise(
        id="2.1",
        cases=lambda generator: [Case(sizes) for sizes in ((4, 6), (5, 2), (3, 3), (1, 4), (7, 20))],
        mistakes=[
            mistake(
                position_weights_with(
                    lambda i, j, d, J: 1 + 4 * (i - 1 - (d + 1) / 2) * (j - 1 - (J + 1) / 2) / (d * J)
                ),
                "The counting starts at 0; in the formula words and components are counted from 1.",
            ),
            mistake(
                position_weights_with(lambda i, j, d, J: 4 * (i - (d + 1) / 2) * (j - (J + 1) / 2) / (d * J)),
                "The 1 in front is missing: without it the middle word of a sentence would not count at all.",
            ),
            mistake(
                position_weights_with(lambda i, j, d, J: 1 + (i - (d + 1) / 2) * (j - (J + 1) / 2) / (d * J)),
                "The factor 4 is missing.",
            ),
            mistake(
                position_weights_with(lambda i, j, d, J: 1 + 4 * (i - (J + 1) / 2) * (j - (d + 1) / 2) / (d * J)),
                "The two middles are swapped: (d + 1)/2 belongs to the component i, (J + 1)/2 to the word j.",
            ),
            mistake(
                position_weights_with(lambda i, j, d, J: (1 + 4 * (i - (d + 1) / 2) * (j - (J + 1) / 2) / (d * J)).T),
                "The table is turned: one row for each word, one column for each component.",
            ),
            mistake(
                position_weights_with(lambda i, j, d, J: 1 + 4 * (i - d / 2) * (j - J / 2) / (d * J)),
                "The middle of 1, 2, ..., d is (d + 1)/2, not d/2.",
            ),
            mistake(
                position_weights_with(lambda i, j, d, J: (1 - j / J) - (i / d) * (1 - 2 * j / J)),
                "That is the formula as the paper prints it; take the one above, which its code uses.",
            ),
            mistake(
                position_weights_with(lambda i, j, d, J: 1 + 4 * (i - (d + 1) / 2) * (j - (J + 1) / 2)),
                "The product is not divided by d J: long sentences would get enormous weights.",
            ),
        ],
        hints=[
            "`torch.arange(1, length + 1)` counts the words from 1; subtract the middle, (length + 1) / 2.",
            "A column `[:, None]` of words times a row `[None, :]` of components gives the whole table.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.2 sentence vectors
def count_padding_as_a_word(sentences, table, weights=None):
    vectors = table[sentences.clamp_min(0)]
    return (vectors if weights is None else vectors * weights).sum(-2)


def take_the_last_word_for_padding(sentences, table, weights=None):
    vectors = table[sentences]
    return (vectors if weights is None else vectors * weights).sum(-2)


def sentence_cases(generator):
    return [
        Case((some_sentences(generator, 3, 5, words=7), normal(generator, 7, 4)), note="a bag of words"),
        Case((some_sentences(generator, 5, words=6), normal(generator, 6, 3)), note="one sentence"),
        Case(
            (some_sentences(generator, 2, 3, 4, words=8), normal(generator, 8, 5), normal(generator, 4, 5)),
            note="a batch of stories, with weights",
        ),
        Case(
            (torch.tensor([[1, 1, -1, -1], [0, 2, 1, -1]]), normal(generator, 3, 4), normal(generator, 4, 4)),
            note="a word that occurs twice",
        ),
        Case((some_sentences(generator, 1, 6, words=5), normal(generator, 5, 3)), note="a story of one sentence"),
    ]


register(
    Exercise(
        id="2.2",
        cases=sentence_cases,
        gradient=True,
        mistakes=[
            mistake(
                count_padding_as_a_word,
                "Empty places count as word 0: -1 means 'no word here' and must add nothing.",
            ),
            mistake(
                take_the_last_word_for_padding,
                "Empty places count as the last word of the table: an index of -1 counts from the end in Python.",
            ),
            mistake(
                lambda sentences, table, weights=None: encode_sentences(
                    sentences.masked_fill(sentences == 0, -1), table, weights
                ),
                "Word 0 was left out: it is a word like any other; only -1 is none.",
            ),
            mistake(
                lambda sentences, table, weights=None: encode_sentences(sentences, table),
                "The weights have no effect: multiply each word's vector by the weights of its place.",
            ),
            mistake(
                lambda sentences, table, weights=None: (
                    encode_sentences(sentences, table, weights) / (sentences >= 0).sum(-1, keepdim=True).clamp_min(1)
                ),
                "That is the mean of the words; the vector of a sentence is their sum.",
            ),
            mistake(
                lambda sentences, table, weights=None: (
                    (table[sentences.clamp_min(0)] if weights is None else table[sentences.clamp_min(0)] * weights)
                    * (sentences >= 0).unsqueeze(-1)
                ),
                "One vector for each word came back: add them up over the words of each sentence.",
            ),
            mistake(
                lambda sentences, table, weights=None: (
                    encode_sentences(sentences, table)
                    if weights is None
                    else encode_sentences(sentences, table) * weights.sum(0)
                ),
                "The weights were applied to the finished sum: each word needs the weights of its own place first.",
            ),
        ],
        hints=[
            "`table[sentences]` looks up all words at once: (..., j) numbers give (..., j, d) vectors.",
            "-1 is no word. Look up `sentences.clamp_min(0)` and multiply what came back by `(sentences >= 0).unsqueeze(-1)`.",
            "Multiply by `weights` if there are any, then sum over the words: `.sum(-2)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.3 memory hop
def hop_with(weigh):
    def wrong(state, key, value, mask=None):
        scores = (key @ state.unsqueeze(-1)).squeeze(-1)
        weights = weigh(scores, torch.ones_like(scores, dtype=torch.bool) if mask is None else mask)
        return (weights.unsqueeze(-2) @ value).squeeze(-2), weights

    return wrong


def hop_cases(generator):
    return [
        Case((normal(generator, 4), normal(generator, 5, 4), normal(generator, 5, 4)), note="one question"),
        Case(
            (
                normal(generator, 2, 3),
                normal(generator, 2, 5, 3),
                normal(generator, 2, 5, 3),
                some_mask(generator, 2, 5),
            ),
            note="a batch with empty places",
        ),
        Case(
            (
                normal(generator, 3, 2, 4),
                normal(generator, 3, 2, 6, 4),
                normal(generator, 3, 2, 6, 4),
                some_mask(generator, 3, 2, 6),
            ),
            note="two leading axes",
        ),
        Case((normal(generator, 3, 3), normal(generator, 3, 3, 3), normal(generator, 3, 3, 3)), note="all sizes equal"),
        Case((normal(generator, 1, 3), normal(generator, 1, 4, 3), normal(generator, 1, 4, 3)), note="a batch of one"),
    ]


register(
    Exercise(
        id="2.3",
        cases=hop_cases,
        gradient=True,
        output_names=("found", "weights"),
        mistakes=[
            mistake(
                hop_with(lambda scores, mask: scores.softmax(-1)),
                "The mask has no effect: empty places of the memory still get weight.",
            ),
            mistake(
                hop_with(lambda scores, mask: scores.masked_fill(~mask, 0.0)),
                "The softmax is missing: the weights are the scores themselves.",
            ),
            mistake(
                hop_with(lambda scores, mask: scores.masked_fill(~mask, 0.0).softmax(-1)),
                "Empty places got the score 0, and exp(0) = 1 still weighs: pass the mask to `attention`.",
            ),
            mistake(
                lambda state, key, value, mask=None: memory_hop(state, key, value, None if mask is None else ~mask),
                "The mask is upside down: True means 'may look'.",
            ),
            mistake(
                hop_with(lambda scores, mask: scores.softmax(-1) * mask),
                "Masked after the softmax: the weights no longer sum to 1. Pass the mask to `attention`.",
            ),
            mistake(
                lambda state, key, value, mask=None: memory_hop(state, key, key, mask),
                "The keys were mixed: they say where to look, the values are what is found.",
            ),
            mistake(
                lambda state, key, value, mask=None: memory_hop(state, value, value, mask),
                "The state was compared with the values; it is compared with the keys.",
            ),
            mistake(
                lambda state, key, value, mask=None: memory_hop(state * state.size(-1) ** -0.5, key, value, mask),
                "The scores were divided by a square root: until lesson 04 the scale is 1.",
            ),
            mistake(
                lambda state, key, value, mask=None: (
                    state + memory_hop(state, key, value, mask)[0],
                    memory_hop(state, key, value, mask)[1],
                ),
                "The new state came back; return what was found, the network adds it to the state itself.",
            ),
            mistake(
                lambda state, key, value, mask=None: memory_hop(state, key, value, mask)[::-1],
                "The two results are swapped: what was found comes first, then the weights.",
            ),
            mistake(
                lambda state, key, value, mask=None: tuple(
                    result.unsqueeze(-2) for result in memory_hop(state, key, value, mask)
                ),
                "There is an axis of length 1 too many: squeeze the query axis away again.",
            ),
        ],
        hints=[
            "One state is one query: give it an axis, `state.unsqueeze(-2)` is (..., 1, d).",
            "`attention(state.unsqueeze(-2), key, value, mask, scale=1)`: the mask needs the same axis, `mask.unsqueeze(-2)`.",
            "Take the axis away from both results with `.squeeze(-2)`; without a mask pass None on.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.4 ages
register(
    Exercise(
        id="2.4",
        cases=lambda generator: [
            Case((torch.tensor([True, True, True, False]),), note="three statements, one empty place"),
            Case((some_mask(generator, 3, 5),), note="a batch"),
            Case((some_mask(generator, 2, 3, 4),), note="two leading axes"),
            Case((torch.ones(6, dtype=torch.bool),), note="no empty place"),
            Case((some_mask(generator, 1, 4),), note="a batch of one"),
        ],
        mistakes=[
            mistake(
                lambda mask: (mask.cumsum(-1) - 1).masked_fill(~mask, 0),
                "Counted from the oldest: 0 belongs to the newest statement, so that 'the last one' always has the same age.",
            ),
            mistake(
                lambda mask: (mask.sum(-1, keepdim=True) - mask.cumsum(-1) + 1).masked_fill(~mask, 0),
                "The newest statement got the age 1; it is 0.",
            ),
            mistake(
                lambda mask: torch.arange(mask.size(-1) - 1, -1, -1).expand(mask.shape).masked_fill(~mask, 0),
                "Counted from the end of the memory: empty places behind the newest statement must not count.",
            ),
            mistake(
                lambda mask: torch.arange(mask.size(-1) - 1, -1, -1).expand(mask.shape),
                "Counted from the end of the memory, and empty places got an age too: they get 0.",
            ),
            mistake(
                lambda mask: (mask.sum(-1, keepdim=True) - mask.cumsum(-1)).masked_fill(~mask, -1),
                "Empty places got -1: they get 0. As an index -1 would read the last age vector.",
            ),
            mistake(
                lambda mask: mask.sum(-1, keepdim=True) - 1 - torch.arange(mask.size(-1)),
                "Empty places got negative ages: they get 0.",
            ),
        ],
        hints=[
            "`mask.sum(-1, keepdim=True)` is the number of statements; the first of them has the age count - 1.",
            "`mask.cumsum(-1)` counts 1, 2, 3, ... along the statements: subtract it from the count.",
            "`.masked_fill(~mask, 0)` at the end, for the empty places.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.5 the network
SIZES = {"words": 9, "hops": 2, "dim": 4, "memory": 7, "sentence": 5}


def run_network(answer, tables, ages, story, question, mask):
    """The network of whoever wrote it, with these parameters, so that gradients reach them."""
    network = answer(**{**SIZES, "hops": len(tables) - 1})
    return functional_call(network, {"tables": tables, "ages": ages}, (story, question, mask))


def network_cases(generator):
    cases = []
    for hops, b in ((1, 2), (2, 2), (3, 2), (2, 1)):
        tables = 0.5 * normal(generator, hops + 1, SIZES["words"], SIZES["dim"])
        ages = 0.5 * normal(generator, hops + 1, SIZES["memory"], SIZES["dim"])
        story = some_sentences(generator, b, 6, SIZES["sentence"], words=SIZES["words"])
        question = some_sentences(generator, b, SIZES["sentence"], words=SIZES["words"])
        note = f"{hops} hop{'s' * (hops > 1)}{', one story' * (b == 1)}"
        cases.append(Case((tables, ages, story, question, some_mask(generator, b, 6)), note=note))
    return cases


class NetworkWith(OneMemoryNetwork):
    """The network with parts that can be replaced by wrong ones."""

    def memories(self, story, mask):
        age = self.age(mask)
        return [
            encode_sentences(story, table, self.weights) + ages[age]
            for table, ages in zip(self.tables, self.ages, strict=True)
        ]

    def age(self, mask):
        return ages_of(mask)

    def first_state(self, question):
        return encode_sentences(question, self.tables[0], self.weights)

    def pair(self, memories, hop):
        return memories[hop], memories[hop + 1]

    def next_state(self, state, found):
        return state + found

    def read(self, state):
        return state @ self.tables[-1].T

    def looked(self, looks):
        return torch.stack(looks, 1)

    def seen(self, mask):
        return mask

    def forward(self, story, question, mask):
        memories, state, looks = self.memories(story, mask), self.first_state(question), []
        for hop in range(self.hops):
            found, weights = memory_hop(state, *self.pair(memories, hop), self.seen(mask))
            state = self.next_state(state, found)
            looks.append(weights)
        return self.read(state), self.looked(looks)


class AgesOnKeysOnly(NetworkWith):
    """Or on values only, with `place` 1."""

    place = 0

    def forward(self, story, question, mask):
        told = [encode_sentences(story, table, self.weights) for table in self.tables]
        aged = [one + ages[ages_of(mask)] for one, ages in zip(told, self.ages, strict=True)]
        state, looks = self.first_state(question), []
        for hop in range(self.hops):
            pair = (aged[hop], told[hop + 1]) if self.place == 0 else (told[hop], aged[hop + 1])
            found, weights = memory_hop(state, *pair, mask)
            state = state + found
            looks.append(weights)
        return self.read(state), self.looked(looks)


class ReadsTheLastFind(NetworkWith):
    def forward(self, story, question, mask):
        memories, state, looks = self.memories(story, mask), self.first_state(question), []
        for hop in range(self.hops):
            found, weights = memory_hop(state, *self.pair(memories, hop), mask)
            state = state + found
            looks.append(weights)
        return self.read(found), self.looked(looks)


def network_with(**parts):
    return type("Network", (NetworkWith,), parts)


register(
    Exercise(
        id="2.5",
        cases=network_cases,
        call=run_network,
        methods=("forward",),
        output_names=("logits", "weights"),
        gradient=True,
        mistakes=[
            mistake(
                network_with(next_state=lambda self, state, found: found),
                "The state was replaced by what was found; add the two, or the network forgets the question.",
            ),
            mistake(
                network_with(next_state=lambda self, state, found: state),
                "What was found never reaches the state, so every hop asks the same thing.",
            ),
            mistake(
                network_with(pair=lambda self, memories, hop: (memories[0], memories[1])),
                "Every hop reads with the same two tables: hop k has its keys in table k and its values in table k + 1.",
            ),
            mistake(
                network_with(pair=lambda self, memories, hop: (memories[hop], memories[hop])),
                "Keys and values come from the same table: the values of hop k are in table k + 1.",
            ),
            mistake(
                network_with(pair=lambda self, memories, hop: (memories[hop + 1], memories[hop])),
                "Keys and values are swapped: keys in table k, values in table k + 1.",
            ),
            mistake(
                network_with(age=lambda self, mask: torch.arange(mask.size(-1)).expand(mask.shape)),
                "The ages are counted from the oldest statement: use `ages_of(mask)`, 0 is the newest.",
            ),
            mistake(
                network_with(
                    memories=lambda self, story, mask: [
                        encode_sentences(story, table, self.weights) for table in self.tables
                    ]
                ),
                "The ages of the statements are missing: add `self.ages[k][ages_of(mask)]` to the vectors of table k.",
            ),
            mistake(
                network_with(
                    memories=lambda self, story, mask: [
                        encode_sentences(story, table) + ages[ages_of(mask)]
                        for table, ages in zip(self.tables, self.ages, strict=True)
                    ],
                    first_state=lambda self, question: encode_sentences(question, self.tables[0]),
                ),
                "The position weights are missing: pass `self.weights` to `encode_sentences`.",
            ),
            mistake(
                network_with(
                    first_state=lambda self, question: encode_sentences(question, self.tables[-1], self.weights)
                ),
                "The question was read with the last table; it is read with the first, like the first keys.",
            ),
            mistake(
                network_with(read=lambda self, state: state @ self.tables[0].T),
                "The answer was read with the first table; it is read with the last one.",
            ),
            mistake(
                network_with(read=lambda self, state: (state @ self.tables[-1].T).softmax(-1)),
                "Those are probabilities; return the logits, the loss has its own softmax.",
            ),
            mistake(
                network_with(read=lambda self, state: (state @ self.tables[-1].T).log_softmax(-1)),
                "Those are logarithms of probabilities; return the logits, the loss has its own softmax.",
            ),
            mistake(
                network_with(seen=lambda self, mask: None),
                "The mask was not passed to `memory_hop`: empty places are looked at too.",
            ),
            mistake(AgesOnKeysOnly, "The ages were added to the keys only; keys and values both have them."),
            mistake(
                type("AgesOnValuesOnly", (AgesOnKeysOnly,), {"place": 1}),
                "The ages were added to the values only; keys and values both have them.",
            ),
            mistake(ReadsTheLastFind, "The answer was read from what the last hop found; it is read from the state."),
            mistake(
                network_with(first_state=lambda self, question: encode_sentences(question, self.tables[0])),
                "The question was read without the position weights; it needs them like the story.",
            ),
            mistake(
                network_with(looked=lambda self, looks: looks[-1]),
                "Only the weights of the last hop came back: stack those of all hops, (b, hops, n).",
            ),
            mistake(
                network_with(looked=lambda self, looks: torch.stack(looks, 0)),
                "The weights have the hops first: the batch comes first, (b, hops, n).",
            ),
        ],
        hints=[
            "First make the memories: for each table k, `encode_sentences(story, self.tables[k], self.weights)` plus "
            "`self.ages[k][ages_of(mask)]`.",
            "The state begins as the question, read with table 0. In hop k, `memory_hop(state, memories[k], memories[k + 1], "
            "mask)` finds something; add it to the state.",
            "The logits are `state @ self.tables[-1].T`; the weights of all hops are `torch.stack(looks, 1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.6 without softmax
register(
    Exercise(
        id="2.6",
        cases=lambda generator: [
            Case(
                (
                    normal(generator, *lead, d),
                    normal(generator, *lead, n, d),
                    normal(generator, *lead, n, d),
                    some_mask(generator, *lead, n),
                )
            )
            for lead, n, d in (((2,), 5, 3), ((), 4, 4), ((3, 2), 6, 2), ((1,), 4, 3))
        ],
        gradient=True,
        output_names=("found", "weights"),
        mistakes=[
            mistake(memory_hop, "The softmax is still there: in a linear look the weights are the scores themselves."),
            mistake(
                lambda state, key, value, mask: linear_hop(state, key, value, torch.ones_like(mask)),
                "The mask has no effect: an empty place must get the weight 0.",
            ),
            mistake(
                lambda state, key, value, mask: linear_hop(state, key, value, ~mask),
                "The mask is upside down: True means 'may look'.",
            ),
            mistake(
                lambda state, key, value, mask: (
                    state + linear_hop(state, key, value, mask)[0],
                    linear_hop(state, key, value, mask)[1],
                ),
                "The new state came back; return what was found, the network adds it to the state itself.",
            ),
            mistake(
                lambda state, key, value, mask: linear_hop(state, key, value, mask)[::-1],
                "The two results are swapped: what was found comes first, then the weights.",
            ),
            mistake(
                lambda state, key, value, mask: tuple(
                    result.unsqueeze(-2) for result in linear_hop(state, key, value, mask)
                ),
                "There is an axis of length 1 too many: squeeze it away again.",
            ),
            mistake(
                lambda state, key, value, mask: linear_hop(state * state.size(-1) ** -0.5, key, value, mask),
                "The scores were divided by a square root: nothing is scaled here.",
            ),
            mistake(
                lambda state, key, value, mask: tuple(
                    result / (linear_hop(state, key, value, mask)[1].sum(-1, keepdim=True))
                    for result in linear_hop(state, key, value, mask)
                ),
                "The scores were divided by their sum: a linear look has no normalisation at all.",
            ),
            mistake(
                lambda state, key, value, mask: linear_hop(state, key, key, mask),
                "The keys were mixed: they say where to look, the values are what is found.",
            ),
            mistake(
                lambda state, key, value, mask: (
                    linear_hop(state, key, value, mask)[0],
                    (key @ state.unsqueeze(-1)).squeeze(-1),
                ),
                "The weights that came back are not the ones that were used: empty places must be 0 in them too.",
            ),
            mistake(
                lambda state, key, value, mask: (
                    (
                        (key @ state.unsqueeze(-1)).squeeze(-1).masked_fill(~mask, float("-inf")).unsqueeze(-2) @ value
                    ).squeeze(-2),
                    (key @ state.unsqueeze(-1)).squeeze(-1).masked_fill(~mask, float("-inf")),
                ),
                "Minus infinity is for a softmax. Here nothing turns it into 0: fill empty places with 0.",
            ),
        ],
        hints=[
            "`(key @ state.unsqueeze(-1)).squeeze(-1)` is one score for each memory.",
            "`.masked_fill(~mask, 0.0)`, and then `(weights.unsqueeze(-2) @ value).squeeze(-2)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.7 facts found
def found_with(rule):
    def wrong(weights, fact):
        tops = torch.nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).bool()  # (b, hops, n)
        return rule(tops, fact, weights)

    return wrong


def fact_cases(generator):
    def one(b, hops, n, facts):
        weights = (3 * normal(generator, b, hops, n)).softmax(-1)
        fact = torch.zeros(b, n, dtype=torch.bool)
        for row in range(b):
            # Half of the rows have their facts among the tops, so that both answers occur.
            tops = weights[row].argmax(-1).roll(row // 2)
            chosen = tops[:facts] if row % 2 else torch.randperm(n, generator=generator)[:facts]
            fact[row, chosen] = True
        return Case((weights, fact), note=f"{hops} hop{'s' * (hops > 1)}")

    looks = [[[0.9, 0.05, 0.03, 0.02], [0.8, 0.1, 0.05, 0.05]], [[0.28, 0.26, 0.24, 0.22], [0.1, 0.1, 0.7, 0.1]]]
    facts = [[True, True, False, False], [True, False, True, False]]
    special = Case((torch.tensor(looks), torch.tensor(facts)), note="two hops on one fact; a top with a small weight")
    return [
        special,
        one(8, 1, 5, 1),
        one(40, 3, 6, 1),
        one(8, 3, 6, 2),
        one(9, 3, 4, 3),
        one(8, 2, 7, 2),
        one(1, 2, 5, 2),
    ]


register(
    Exercise(
        id="2.7",
        cases=fact_cases,
        mistakes=[
            mistake(
                found_with(lambda tops, fact, weights: (tops.any(1) & fact).any(-1)),
                "One found fact was enough; every fact must be the top sentence of some hop.",
            ),
            mistake(
                found_with(lambda tops, fact, weights: (tops & fact.unsqueeze(1)).sum((1, 2)) >= fact.sum(-1)),
                "A fact that two hops had on top was counted twice.",
            ),
            mistake(
                found_with(lambda tops, fact, weights: ((weights > 0.3).any(1) | ~fact).all(-1)),
                "Weights above a limit were counted; the top sentence of a hop is the one with its largest weight.",
            ),
            mistake(
                found_with(lambda tops, fact, weights: (tops.any(1) == fact).all(-1)),
                "A hop that looked elsewhere was punished: more hops than facts is fine, if every fact is on top of some hop.",
            ),
            mistake(
                found_with(lambda tops, fact, weights: (tops.all(1) | ~fact).all(-1)),
                "Each fact had to be on top of every hop; one hop is enough.",
            ),
            mistake(
                found_with(lambda tops, fact, weights: (tops[:, -1] | ~fact).all(-1)),
                "Only the last hop was looked at.",
            ),
            mistake(
                found_with(
                    lambda tops, fact, weights: (
                        torch.nn.functional.one_hot(weights.sum(1).argmax(-1), fact.size(-1)).bool() | ~fact
                    ).all(-1)
                ),
                "The weights of all hops were added first: look at the top sentence of each hop by itself.",
            ),
            mistake(
                found_with(lambda tops, fact, weights: (tops.any(1) & fact).sum(-1) / fact.sum(-1)),
                "That is the share of the facts that were found; the answer is True only if all of them were.",
            ),
        ],
        hints=[
            "`weights.argmax(-1)` is the top sentence of each hop, (b, hops).",
            "`one_hot(tops, n).sum(1) > 0` says for each sentence whether some hop had it on top.",
            "Every sentence that is a fact must be such a sentence: `(on_top | ~fact).all(-1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="2.a",
        question="Not one number of this network was trained. How many of 1,000 new stories will it answer?",
        options=[
            (
                "About 250: that is chance for four colours.",
                "It does better than chance: follow the three looks on paper.",
            ),
            ("About 500.", "That is about what naming the colour that is mentioned most often reaches."),
            (
                "Nearly all, but not all.",
                "It fails where one kind has two colours: the rule 'who was introduced last' is not wired in.",
            ),
            ("All of them.", "Nearly. Where one kind has two colours it cannot know which of them counts."),
        ],
        right=2,
        explanation="What is compared changes from look to look: names, kinds, names. The answer is read as a colour.",
    )
)
register_quiz(
    Quiz(
        id="2.b",
        question="A bag of words reads 'mice are afraid of wolves' and 'wolves are afraid of mice'. What does it see?",
        options=[
            ("Two vectors that point in opposite directions.", "Nothing in a sum is turned around: a + b = b + a."),
            ("The same vector twice.", "A sum has no order. Position weights give each place its own voice."),
            ("Two similar vectors.", "Not similar: exactly equal. The same words were added."),
        ],
        right=1,
        explanation="With position weights the first and the last word count differently in each component.",
    )
)
register_quiz(
    Quiz(
        id="2.c",
        question="Where is Mary? A network without ages is trained on 1,000 such questions. What error will it reach?",
        options=[
            ("0 %: the words are all there.", "They are, but 'Mary went to the garden' does not say when."),
            ("83 %: chance for six rooms.", "It knows at least which rooms Mary was in, and seldom there are many."),
            ("Something in between: it knows the rooms, not the order.", "A set of statements has no last one."),
        ],
        right=2,
        explanation="Attention sees a set. When order is information, it must be put into the vectors.",
    )
)
register_quiz(
    Quiz(
        id="2.d",
        question="What can a linear start, some epochs without softmax, be good for?",
        options=[
            ("It is faster.", "A little, but that is not the point."),
            (
                "A gradient reaches every sentence before any has won.",
                "A softmax that has settled on a wrong sentence hardly lets a gradient through to the others.",
            ),
            ("It makes the model linear, which is enough for this task.", "It is not: the softmax comes back later."),
        ],
        right=1,
        explanation="Lesson 01: where a softmax is saturated, its slope is nearly 0.",
    )
)

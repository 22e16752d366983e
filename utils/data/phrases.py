"""Synthetic English-French parallel corpus from a synchronous grammar, with unique translations and gold alignment.

A sentence is generated for a given number of words. English words are appended in English order; the methods return the
French tokens in French order, each with the positions of its English words. Elision and contraction come last, over the
whole sentence. Anything with two correct translations is excluded:

- no "a" or "some" as the object of a negated verb ("pas de"), none but "the" or "a" after "of" and "near" ("de des");
- "of" and "to" take one noun phrase, never two joined by "and"; nor do "when" and "because" take two clauses;
- "often", "always" and "never" do not stand between two verbs that they could both modify;
- "who is old" never attaches ambiguously to two nouns of different gender ("the uncle of the woman who is old").

    $ python -m utils.data.phrases     rewrites data/phrases/
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from utils import paths
from utils.data import phrase_words
from utils.data.french import Token, agree, before, run_together
from utils.data.phrase_words import BE, BEAUTIFUL, EVERY_NOUN, OWNERS, Adjective, Noun, Preposition, Verb
from utils.data.tokens import join

SAMPLES = paths.DATA / "phrases"
SAMPLE_SIZES = {"train": 40, "validation": 12, "test": 12, "longer": 12}

# Percentage of sentences by number of English words. There are few different sentences of three words.
LENGTHS = dict(zip(range(3, 19), (0.5, 4, 7, 7.5, 8, 8, 8, 8, 8, 8, 7.5, 6.5, 5.5, 5, 4.5, 4), strict=True))
LONGER_LENGTHS = {words: 1 for words in range(19, 27)}
MAX_TRIES = 500  # for a new sentence of a given length

# Kinds of predicate: sampling weight, minimum and maximum number of words.
KINDS = {
    "quality": (9, 2, 5),  # is old
    "location": (2, 4, 12),  # is in the garden
    "act": (3, 1, 9),  # sleeps
    "see": (10, 3, 14),  # sees the dog
    "speak": (3, 4, 14),  # speaks to the dog
    "give": (2, 6, 14),  # gives the book to the girl
    "say": (2, 5, 18),  # says that the girl sleeps
}
NEGATIONS = {"not": "pas", "never": "jamais"}
ADVERBS = {"often": "souvent", "always": "toujours"}
CONNECTIVES = {"and": ("et",), "but": ("mais",), "when": ("quand",), "because": ("parce", "que")}


class Pair(NamedTuple):
    """Sentence pair with its gold word alignment: sorted links (English position, French position), from 0."""

    english: tuple[str, ...]
    french: tuple[str, ...]
    links: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Corpus:
    """Parallel corpus without duplicates within or across parts; `longer` tests length generalization."""

    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    longer: tuple[Pair, ...]


class Phrase(NamedTuple):
    """French noun phrase with its agreement features."""

    french: list[Token]
    nouns: tuple[Noun, ...]
    feminine: bool
    plural: bool


class Rival(NamedTuple):
    """A noun further left that a relative clause could attach to."""

    person: bool
    plural: bool
    feminine: bool


Nouns, Rivals = tuple[Noun, ...], tuple[Rival, ...]


@cache
def _slots(noun: Noun) -> tuple[tuple[Adjective, ...], ...]:
    """The adjectives that fit a noun, by slot."""
    fitting = [adjective for adjective in phrase_words.ADJECTIVES if noun in adjective.nouns]
    return tuple(tuple(adjective for adjective in fitting if adjective.slot == slot) for slot in range(4))


@cache
def _predicates(nouns: Nouns) -> tuple[Adjective, ...]:
    """The predicate adjectives that fit all of these nouns."""
    return tuple(item for item in phrase_words.ADJECTIVES if item.predicate and item.nouns.issuperset(nouns))


@cache
def _conjuncts(noun: Noun, nouns: Nouns) -> Nouns:
    """The nouns that can be coordinated with this one: same class, and at least one predicate adjective fits both."""
    class_of = phrase_words.COORDINATION_CLASS
    same_class = (candidate for candidate in nouns if class_of[candidate] == class_of[noun])
    return tuple(candidate for candidate in same_class if candidate is not noun and _predicates((noun, candidate)))


@cache
def _prepositions(nouns: Nouns, allowed: tuple[str, ...] = ()) -> tuple[Preposition, ...]:
    """The prepositions that fit all of these nouns."""
    fitting = (preposition for preposition in phrase_words.PREPOSITIONS if preposition.heads.issuperset(nouns))
    return tuple(preposition for preposition in fitting if not allowed or preposition.english in allowed)


@cache
def _verbs(kind: str, noun: Noun | None) -> tuple[Verb, ...]:
    """Verbs of a kind, or those of them that take this noun as subject."""
    return tuple(verb for verb in phrase_words.VERBS if verb.kind == kind and (noun is None or noun in verb.subjects))


@cache
def _transitive_verbs(noun: Noun) -> tuple[Verb, ...]:
    """Verbs that take this noun as direct object."""
    return tuple(verb for verb in phrase_words.VERBS if verb.kind == "see" and noun in verb.objects)


@cache
def _kinds(words: int, noun: Noun | None, embedded: bool, quality: bool) -> tuple[str, ...]:
    """The kinds of predicate that fit into `words` words, each repeated by its sampling weight."""
    fitting = []
    for kind, (weight, least, _) in KINDS.items():
        if kind == "quality":
            possible = quality and (noun is None or _predicates((noun,)))
        elif kind == "location":
            possible = noun is None or _prepositions((noun,))
        else:
            possible = _verbs(kind, noun) and not (kind == "say" and embedded)
        if possible and least <= words:
            fitting += [kind] * weight
    return tuple(fitting)


LOCATABLE = tuple(noun for noun in EVERY_NOUN if _prepositions((noun,)))


class Sentence:
    """A sentence under construction: methods append English words and return French tokens."""

    def __init__(self, rng: random.Random):
        self.random = rng.random  # the one method whose sequence is the same in every Python version
        self.english: list[str] = []
        self.used: set[Noun | Adjective | Verb | str] = set()
        self.relatives = 0

    def add(self, word: str) -> int:
        """Append an English word; returns its position."""
        self.english.append(word)
        return len(self.english) - 1

    def choice(self, choices: Sequence):
        return choices[int(self.random() * len(choices))]

    def randint(self, least: int, most: int) -> int:
        """Uniform integer, both ends included."""
        return least + int(self.random() * (most - least + 1))

    def unused(self, choices: Sequence):
        """Rejection sampling, at most four draws, of a word that is not in the sentence yet."""
        for _ in range(4):
            word = self.choice(choices)
            if word not in self.used:
                break
        self.used.add(word)
        return word

    # Noun phrases

    def noun_phrase(
        self, nouns: Nouns, words: int, definite=False, some=True, bare=False, pair=False, rivals: Rivals = ()
    ) -> Phrase:
        """Noun phrase of about `words` words. `bare`: nothing after the noun. `pair`: coordination is allowed."""
        noun, plural, extra = self.unused(nouns), self.random() < 0.4, max(0, words - 2)
        options = ["plain"] * (4 if extra <= 2 else 1 if extra <= 3 else 0)
        if extra >= 2 and not bare:
            options += ["relative"] * 3
        if extra >= 3:
            options += ["of"] * (3 if noun in OWNERS and not bare else 0)
            options += ["location"] * (1 if _prepositions((noun,)) and not bare else 0)
            options += ["and"] * (2 if pair and _conjuncts(noun, nouns) else 0)
        what = self.choice(options) if options else "plain"

        least = {"plain": 0, "relative": 2, "of": 3, "location": 3, "and": 3}[what]
        count = extra if what == "plain" else self.randint(0, min(2, extra - least))
        french = self.simple_phrase(noun, plural, count, definite or what == "of", some)
        rest = extra - count
        rivals = (*rivals, Rival(noun.person, plural, noun.feminine))
        if what == "of":
            french.append(Token("de", (self.add("of"),)))
            french += self.noun_phrase(OWNERS[noun], rest - 1, some=False, rivals=rivals).french
        elif what == "location":
            french += self.location((noun,), rest, rivals=rivals)
        elif what == "relative":
            french += self.relative(noun, plural, rest, rivals)
        elif what == "and":
            return self.coordination(french, noun, nouns, rest - 1, definite, some)
        return Phrase(french, (noun,), noun.feminine, plural)

    def simple_phrase(self, noun: Noun, plural: bool, count: int, definite: bool, some: bool) -> list[Token]:
        """Article, up to `count` adjectives, noun."""
        definite = definite or (plural and not some) or self.random() < 0.6
        article = self.add("the" if definite else "some" if plural else "a")
        first, after = self.adjectives(noun, count)
        first_positions = [self.add(adjective.english) for adjective in first]
        after_positions = [self.add(adjective.english) for adjective in after]
        form = noun.french_plural if plural else noun.french
        french = [Token(form, (self.add(noun.english_plural if plural else noun.english),))]
        for adjective, position in zip(reversed(first), reversed(first_positions), strict=True):
            french.insert(0, Token(before(adjective.french, french[0].form, noun.feminine, plural), (position,)))
        for adjective, position in zip(reversed(after), reversed(after_positions), strict=True):  # mirrored
            french.append(Token(agree(adjective.french, noun.feminine, plural), (position,)))
        if plural:
            word = "les" if definite else "de" if first else "des"
        else:
            word = ("la" if noun.feminine else "le") if definite else ("une" if noun.feminine else "un")
        return [Token(word, (article,)), *french]

    def adjectives(self, noun: Noun, count: int) -> tuple[list[Adjective], list[Adjective]]:
        """Prenominal and postnominal adjectives in French, both in English order."""
        slots = _slots(noun)
        used = [slot for slot in range(4) if slots[slot]]
        while len(used) > count:  # favors the slots next to the noun
            used.remove(used[-1] if slots[0] and self.random() < 0.6 else self.choice(used))
        first = [self.unused(slots[3])] if 3 in used else []
        # "belle petite": the one pair of adjectives in the same order in both languages
        double = first and first[0] is not BEAUTIFUL and first[0].predicate and BEAUTIFUL in slots[3]
        if double and len(used) == count >= 2 and self.random() < 0.4:
            used.remove(self.choice(used[:-1]))
        if double and len(used) < count:
            first.insert(0, BEAUTIFUL)
        return first, [self.unused(slots[slot]) for slot in (2, 1, 0) if slot in used]

    def coordination(
        self, french: list[Token], noun: Noun, nouns: Nouns, words: int, definite: bool, some: bool
    ) -> Phrase:
        """Coordination with "and". The first conjunct is bare: "the door of the house and the garden" is ambiguous."""
        french.append(Token("et", (self.add("and"),)))
        # A final relative clause could attach to both conjuncts, and then be masculine if one of them is.
        both = (Rival(True, True, False), Rival(False, True, False)) if not noun.feminine else ()
        second = self.noun_phrase(_conjuncts(noun, nouns), words, definite, some, rivals=both)
        return Phrase(french + second.french, (noun, *second.nouns), noun.feminine and second.feminine, True)

    def location(self, nouns: Nouns, words: int, allowed: tuple[str, ...] = (), rivals: Rivals = ()) -> list[Token]:
        """Prepositional phrase of location: "near the house"."""
        preposition = self.choice(_prepositions(nouns, allowed))
        position = self.add(preposition.english)
        french = [Token(word, (position,)) for word in preposition.french]
        somewhere = self.noun_phrase(preposition.nouns, words - 1, some=preposition.french[-1] != "de", rivals=rivals)
        return french + somewhere.french

    def relative(self, noun: Noun, plural: bool, words: int, rivals: Rivals) -> list[Token]:
        """Relative clause, subject or object ("who sees the dog", "who the dog sees"), of the last of `rivals`."""
        self.relatives += 1
        pronoun = self.add("who" if noun.person else "that")
        if words >= 4 and _transitive_verbs(noun) and self.random() < 0.4:
            return [Token("que", (pronoun,)), *self.object_relative(noun, words - 1)]
        own = rivals[-1]
        clear = not any(rival[:2] == own[:2] and rival.feminine != own.feminine for rival in rivals[:-1])
        kind = self.choice(_kinds(words - 1, noun, True, clear) or _kinds(99, noun, True, clear))
        subject = Phrase([], (noun,), noun.feminine, plural)
        return [Token("qui", (pronoun,)), *self.predicate(kind, self.verb(kind, noun), subject, words - 1, rivals)]

    def object_relative(self, noun: Noun, words: int) -> list[Token]:
        """Object relative clause after its pronoun: "the dog does not see"."""
        verb = self.unused(_transitive_verbs(noun))
        words -= 1 + bool(verb.particle)
        manner = self.manner(words - 2, 2)
        subject = self.noun_phrase(verb.subjects, words - self.cost(manner, 2), bare=True)
        return subject.french + self.verb_group(verb, subject.plural, manner)

    # Predicates

    def verb(self, kind: str, noun: Noun | None) -> Verb | None:
        verbs = _verbs(kind, noun)
        return self.unused(verbs) if verbs else None

    def manner(self, spare: int, cost_of_not: int, negation: bool = True, adverb: bool = True) -> str:
        """Negation or adverb if there is room for it, mostly ""."""
        draw = self.random()
        if draw < 0.17:
            return "not" if negation and spare >= cost_of_not else ""
        if draw > 0.34 or spare < 1 or not adverb:
            return ""
        if draw < 0.24:
            return "never" if negation else ""
        return "often" if draw < 0.29 else "always"

    @staticmethod
    def cost(manner: str, cost_of_not: int) -> int:
        return cost_of_not if manner == "not" else bool(manner)

    def verb_group(self, verb: Verb | None, plural: bool, manner: str) -> list[Token]:
        """Verb with negation or adverb: "ne voit pas", "voit souvent". None is the copula."""
        if verb is None:
            positions = [self.add(BE[plural])]
            around = self.add(manner) if manner else None
            form = BE[2 + plural]
        else:
            positions = [self.add("do" if plural else "does")] if manner == "not" else []
            around = self.add(manner) if manner else None
            bare = plural or manner == "not"
            positions.append(self.add(verb.english if bare else verb.english_singular))
            if verb.particle:
                positions.append(self.add(verb.particle))
            form = verb.french_plural if plural else verb.french
        french = [Token(form, tuple(positions))]
        if manner in NEGATIONS:
            return [Token("ne", (around,)), *french, Token(NEGATIONS[manner], (around,))]
        return [*french, Token(ADVERBS[manner], (around,))] if manner else french

    def predicate(
        self, kind: str, verb: Verb | None, subject: Phrase, words: int, rivals: Rivals = (), pair=False, adverb=True
    ) -> list[Token]:
        """Verb phrase of about `words` words that agrees with the subject. `pair`: coordination is allowed."""
        spare = max(0, words - KINDS[kind][1] - bool(verb and verb.particle))
        cost_of_not = 1 if verb is None else 2
        manner = self.manner(spare, cost_of_not, negation=kind != "say", adverb=adverb)
        spare -= self.cost(manner, cost_of_not)
        negated = manner in NEGATIONS
        french = self.verb_group(verb, subject.plural, manner)
        if kind == "quality":
            return french + self.quality(subject, two=spare >= 2 and pair and not negated)
        if kind == "location":
            return french + self.location(subject.nouns, spare + 3, rivals=rivals)
        if kind == "act":
            if spare >= 3 and verb.prepositions:
                french += self.location(subject.nouns, spare, verb.prepositions, rivals)
            return french
        if kind == "see":
            pair = pair and not negated
            return french + self.noun_phrase(verb.objects, spare + 2, negated, pair=pair, rivals=rivals).french
        if kind == "speak":
            return french + self.indirect_object(verb.objects, spare + 2, negated, rivals)
        if kind == "give":
            given = self.randint(0, min(2, spare))
            french += self.noun_phrase(verb.objects, given + 2, definite=negated, bare=True).french
            return french + self.indirect_object(verb.receivers, spare - given + 2, negated, rivals)
        french.append(Token("que", (self.add("that"),)))
        return french + self.clause(spare + 3, embedded=True, pair=pair)

    def quality(self, subject: Phrase, two: bool) -> list[Token]:
        """One or two predicate adjectives."""
        fitting = _predicates(subject.nouns)
        adjectives = [self.unused(fitting)]
        candidates = [adjective for adjective in fitting if adjective.slot != adjectives[0].slot]
        if two and candidates:
            adjectives.append(self.unused(candidates))
        french = []
        for adjective in adjectives:
            if french:
                french.append(Token("et", (self.add("and"),)))
            form = agree(adjective.french, subject.feminine, subject.plural)
            french.append(Token(form, (self.add(adjective.english),)))
        return french

    def indirect_object(self, nouns: Nouns, words: int, definite: bool, rivals: Rivals) -> list[Token]:
        """Indirect object: "to the girl"."""
        to = Token("à", (self.add("to"),))
        return [to, *self.noun_phrase(nouns, words, definite, rivals=rivals).french]

    # Clauses

    def clause(self, words: int, embedded: bool = False, pair: bool = True) -> list[Token]:
        """Clause: subject and predicate. `embedded`: without "says that"."""
        kind = self.choice(_kinds(words - 2, None, embedded, True))
        verb = self.verb(kind, None)
        _, least, most = KINDS[kind]
        least += bool(verb and verb.particle)
        own = self.randint(least, max(least, min(most, words - 2)))
        if kind == "act" and not verb.prepositions:
            own = min(own, 3)
        nouns = verb.subjects if verb else EVERY_NOUN if kind == "quality" else LOCATABLE
        relatives = self.relatives
        # "Des jardins sont beaux" is correct but unidiomatic.
        subject = self.noun_phrase(nouns, words - own, some=verb is not None, pair=pair)
        # In "who sees the dog often sleeps", "often" is ambiguous; after "is" it is not.
        adverb = verb is None or self.relatives == relatives
        return subject.french + self.predicate(kind, verb, subject, own, pair=pair, adverb=adverb)

    def whole(self, words: int) -> list[Token]:
        """One to three clauses joined by connectives. Only the last may contain "says that"."""
        draw, count = self.random(), 1
        if words >= 8 and draw < 0.35:
            count = 2
        elif words > 18:
            count = 2 if draw < 0.7 else 3
        elif words >= 12 and draw < 0.42:
            count = 3
        lengths = [3] * count
        for _ in range(words - (count - 1) - 3 * count):
            lengths[int(self.random() * count)] += 1
        french: list[Token] = []
        connectives = tuple(CONNECTIVES)
        for index, length in enumerate(lengths):
            if index:
                connective = self.unused(connectives)
                if connective not in ("and", "but"):  # "when A and B" could be "quand A et quand B"
                    connectives = ("when", "because")
                position = self.add(connective)
                french += [Token(word, (position,)) for word in CONNECTIVES[connective]]
            last = index == count - 1
            french += self.clause(length, embedded=not last, pair=last)
        return french


def _with_an(words: list[str]) -> tuple[str, ...]:
    """The article "a" becomes "an" before a spoken vowel: "an old man", "a european law"."""
    vowel = [after[0] in "aeiou" and after != "european" for after in words[1:]] + [False]
    return tuple("an" if word == "a" and follows else word for word, follows in zip(words, vowel, strict=True))


def sentence(rng: random.Random, words: int) -> Pair | None:
    """Random sentence pair with `words` English words; None if too few adjectives fit and it came out shorter."""
    draft = Sentence(rng)
    french = draft.whole(words)
    if len(draft.english) != words:
        return None
    french = run_together(french)
    links = sorted([(position, index) for index, token in enumerate(french) for position in token.positions])
    return Pair(_with_an(draft.english), tuple([token.form for token in french]), tuple(links))


def sentences(count: int, lengths: dict[int, float], rng: random.Random, seen: set) -> tuple[Pair, ...]:
    """`count` new sentence pairs with this distribution of lengths; their English is added to `seen`."""
    pairs = []
    choices, cumulative = list(lengths), list(accumulate(lengths.values()))
    while len(pairs) < count:
        (words,) = rng.choices(choices, cum_weights=cumulative)
        for _ in range(MAX_TRIES):
            pair = sentence(rng, words)
            if pair and pair.english not in seen:
                break
        else:
            raise ValueError(f"no new sentence of {words} words after {len(seen)} sentences; ask for fewer pairs")
        seen.add(pair.english)
        pairs.append(pair)
    return tuple(pairs)


def corpus(train: int = 20_000, validation: int = 1_000, test: int = 1_000, longer: int = 500, seed: int = 0) -> Corpus:
    """Corpus from one seed. The held-out parts are drawn first, so they do not depend on the size of `train`."""
    seen: set[tuple[str, ...]] = set()
    parts = {}
    for name, count in dict(test=test, validation=validation, longer=longer, train=train).items():
        lengths = LONGER_LENGTHS if name == "longer" else LENGTHS
        parts[name] = sentences(count, lengths, random.Random(f"phrases {name} {seed}"), seen)
    return Corpus(**parts)


def as_line(pair: Pair) -> str:
    """Tab-separated: English, French, alignment in Pharaoh format (`0-0 1-2`, the English position first)."""
    links = " ".join(f"{english}-{french}" for english, french in pair.links)
    return f"{' '.join(pair.english)}\t{join(pair.french, 'french')}\t{links}\n"


def write_samples(folder: Path = SAMPLES) -> None:
    small = corpus(**SAMPLE_SIZES, seed=0)
    for name in SAMPLE_SIZES:
        text = "".join(as_line(pair) for pair in getattr(small, name))
        (folder / f"{name}.tsv").write_bytes(text.encode())


if __name__ == "__main__":
    write_samples()

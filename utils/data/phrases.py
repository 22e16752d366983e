"""English to French, from a grammar of the course's own: every sentence with its one right translation and its alignment.

A sentence grows from the number of words it should have. Each English word is said in English order; the functions
return the French words in French order, each with the places of the English words behind it. Elision and contraction
come last, over the whole sentence. What would have two right answers is left out:

- no "a" or "some" as the object of a negated verb ("pas de"), none but "the" or "a" after "of" and "near" ("de des");
- "of" and "to" take one noun phrase, never two joined by "and"; nor do "when" and "because" take two clauses;
- "often", "always" and "never" do not stand between two verbs that both could own them;
- "who is old" never stands where two nouns of different gender could be meant ("the uncle of the woman who is old").

    $ python -m utils.data.phrases     writes data/phrases/ anew
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from utils.data.french import Token, agree, before, run_together
from utils.data.phrase_words import (
    ADJECTIVES,
    BE,
    BEAUTIFUL,
    CIRCLE,
    EVERY_NOUN,
    OWNERS,
    PREPOSITIONS,
    VERBS,
    Adjective,
    Noun,
    Preposition,
    Verb,
)
from utils.data.tokens import join

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "phrases"
SAMPLE_SIZES = {"train": 40, "validation": 12, "test": 12, "longer": 12}

# How many sentences in a hundred have this many English words. Three words allow few different sentences.
LENGTHS = dict(zip(range(3, 19), (0.5, 4, 7, 7.5, 8, 8, 8, 8, 8, 8, 7.5, 6.5, 5.5, 5, 4.5, 4), strict=True))
LONGER_LENGTHS = {words: 1 for words in range(19, 27)}
TRIES = 500  # for a new sentence of a given length

# Kinds of predicate: how often each is drawn, the fewest words it takes and the most that it can use.
KINDS = {
    "quality": (9, 2, 5),  # is old
    "place": (2, 4, 12),  # is in the garden
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
    """A sentence in both languages; links are (place in english, place in french), from 0, sorted, all of them sure."""

    english: tuple[str, ...]
    french: tuple[str, ...]
    links: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Corpus:
    """No English sentence occurs twice, within a part or across parts; `longer` is longer than anything in `train`."""

    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    longer: tuple[Pair, ...]


class Phrase(NamedTuple):
    """The French of a noun phrase, and what the rest of the sentence must agree with."""

    french: list[Token]
    nouns: tuple[Noun, ...]
    feminine: bool
    plural: bool


class Rival(NamedTuple):
    """A noun further left that a relative clause could be taken to describe."""

    person: bool
    plural: bool
    feminine: bool


@cache
def _slots(noun: Noun) -> tuple[tuple[Adjective, ...], ...]:
    """The adjectives that fit a noun, by slot: the nearest to the English noun first."""
    return tuple(tuple(one for one in ADJECTIVES if one.slot == slot and noun in one.nouns) for slot in range(4))


@cache
def _predicates(nouns: tuple[Noun, ...]) -> tuple[Adjective, ...]:
    return tuple(one for one in ADJECTIVES if one.predicate and one.nouns.issuperset(nouns))


@cache
def _alike(noun: Noun, nouns: tuple[Noun, ...]) -> tuple[Noun, ...]:
    """The others of the same circle that at least one adjective can describe together with this noun."""
    return tuple(
        other for other in nouns if other is not noun and CIRCLE[other] == CIRCLE[noun] and _predicates((noun, other))
    )


@cache
def _prepositions(nouns: tuple[Noun, ...], allowed: tuple[str, ...] = ()) -> tuple[Preposition, ...]:
    """Those that can say where all of these are."""
    return tuple(one for one in PREPOSITIONS if one.heads.issuperset(nouns) and (not allowed or one.english in allowed))


@cache
def _verbs(kind: str, noun: Noun | None) -> tuple[Verb, ...]:
    """All of a kind, or those that this noun can be the subject of."""
    return tuple(verb for verb in VERBS if verb.kind == kind and (noun is None or noun in verb.subjects))


@cache
def _seen_by(noun: Noun) -> tuple[Verb, ...]:
    """The verbs that can have this noun as their object."""
    return tuple(verb for verb in VERBS if verb.kind == "see" and noun in verb.objects)


@cache
def _kinds(words: int, noun: Noun | None, embedded: bool, quality: bool) -> tuple[str, ...]:
    """The kinds of predicate that fit into so many words, each as often as its weight says."""
    fitting = []
    for kind, (weight, least, _) in KINDS.items():
        if kind == "quality":
            possible = quality and (noun is None or _predicates((noun,)))
        elif kind == "place":
            possible = noun is None or _prepositions((noun,))
        else:
            possible = _verbs(kind, noun) and not (kind == "say" and embedded)
        if possible and least <= words:
            fitting += [kind] * weight
    return tuple(fitting)


PLACEABLE = tuple(noun for noun in EVERY_NOUN if _prepositions((noun,)))


class Sentence:
    """One sentence as it grows: the English words said so far; French words are returned by each function."""

    def __init__(self, chance: random.Random):
        self.random = chance.random  # the one source of chance that every Python version keeps as it is
        self.english: list[str] = []
        self.used: set[Noun | Adjective | Verb | str] = set()
        self.relatives = 0

    def say(self, word: str) -> int:
        """Add an English word; returns its place."""
        self.english.append(word)
        return len(self.english) - 1

    def pick(self, choices: Sequence):
        return choices[int(self.random() * len(choices))]

    def between(self, least: int, most: int) -> int:
        """Both ends included."""
        return least + int(self.random() * (most - least + 1))

    def fresh(self, choices: Sequence):
        """A word that the sentence does not have yet, if that is easily found."""
        for _ in range(4):
            word = self.pick(choices)
            if word not in self.used:
                break
        self.used.add(word)
        return word

    # Noun phrases

    def noun_phrase(
        self,
        nouns: tuple[Noun, ...],
        words: int,
        definite: bool = False,
        some: bool = True,
        bare: bool = False,
        pair: bool = False,
        rivals: tuple[Rival, ...] = (),
    ) -> Phrase:
        """About `words` words. `bare`: nothing after the noun. `pair`: may be two joined by "and"."""
        noun, plural, extra = self.fresh(nouns), self.random() < 0.4, max(0, words - 2)
        options = ["plain"] * (4 if extra <= 2 else 1 if extra <= 3 else 0)
        if extra >= 2 and not bare:
            options += ["relative"] * 3
        if extra >= 3:
            options += ["of"] * (3 if noun in OWNERS and not bare else 0)
            options += ["place"] * (1 if _prepositions((noun,)) and not bare else 0)
            options += ["and"] * (2 if pair and _alike(noun, nouns) else 0)
        what = self.pick(options) if options else "plain"

        least = {"plain": 0, "relative": 2, "of": 3, "place": 3, "and": 3}[what]
        count = extra if what == "plain" else self.between(0, min(2, extra - least))
        french = self.simple_phrase(noun, plural, count, definite or what == "of", some)
        rest = extra - count
        rivals = (*rivals, Rival(noun.person, plural, noun.feminine))
        if what == "of":
            french.append(Token("de", (self.say("of"),)))
            french += self.noun_phrase(OWNERS[noun], rest - 1, some=False, rivals=rivals).french
        elif what == "place":
            french += self.place((noun,), rest, rivals=rivals)
        elif what == "relative":
            french += self.relative(noun, plural, rest, rivals)
        elif what == "and":
            return self.joined(french, noun, nouns, rest - 1, definite, some)
        return Phrase(french, (noun,), noun.feminine, plural)

    def simple_phrase(self, noun: Noun, plural: bool, count: int, definite: bool, some: bool) -> list[Token]:
        """Article, `count` adjectives if the noun allows so many, noun."""
        definite = definite or (plural and not some) or self.random() < 0.6
        article = self.say("the" if definite else "some" if plural else "a")
        first, after = self.adjectives(noun, count)
        first_places = [self.say(one.english) for one in first]
        after_places = [self.say(one.english) for one in after]
        form = noun.french_plural if plural else noun.french
        french = [Token(form, (self.say(noun.english_plural if plural else noun.english),))]
        for adjective, place in zip(reversed(first), reversed(first_places), strict=True):
            french.insert(0, Token(before(adjective.french, french[0].form, noun.feminine, plural), (place,)))
        for adjective, place in zip(reversed(after), reversed(after_places), strict=True):  # a mirror image
            french.append(Token(agree(adjective.french, noun.feminine, plural), (place,)))
        if plural:
            word = "les" if definite else "de" if first else "des"
        else:
            word = ("la" if noun.feminine else "le") if definite else ("une" if noun.feminine else "un")
        return [Token(word, (article,)), *french]

    def adjectives(self, noun: Noun, count: int) -> tuple[list[Adjective], list[Adjective]]:
        """Those before the French noun and those after it, both in English order."""
        slots = _slots(noun)
        places = [slot for slot in range(4) if slots[slot]]
        while len(places) > count:  # what kind of thing it is, is said more often than how it is found to be
            places.remove(places[-1] if slots[0] and self.random() < 0.6 else self.pick(places))
        first = [self.fresh(slots[3])] if 3 in places else []
        # "belle petite": the one pair whose order is the same in both languages
        double = first and first[0] is not BEAUTIFUL and first[0].predicate and BEAUTIFUL in slots[3]
        if double and len(places) == count >= 2 and self.random() < 0.4:
            places.remove(self.pick(places[:-1]))
        if double and len(places) < count:
            first.insert(0, BEAUTIFUL)
        return first, [self.fresh(slots[slot]) for slot in (2, 1, 0) if slot in places]

    def joined(
        self, french: list[Token], one: Noun, nouns: tuple[Noun, ...], words: int, definite: bool, some: bool
    ) -> Phrase:
        """Two noun phrases with "and". The first is bare: "the door of the house and the garden" could be of both."""
        french.append(Token("et", (self.say("and"),)))
        # A relative clause at the end could be meant for both, then in the masculine if one of them is.
        both = (Rival(True, True, False), Rival(False, True, False)) if not one.feminine else ()
        other = self.noun_phrase(_alike(one, nouns), words, definite, some, rivals=both)
        return Phrase(french + other.french, (one, *other.nouns), one.feminine and other.feminine, True)

    def place(
        self, nouns: tuple[Noun, ...], words: int, allowed: tuple[str, ...] = (), rivals: tuple[Rival, ...] = ()
    ) -> list[Token]:
        """Where these are, or do something: "near the house"."""
        preposition = self.pick(_prepositions(nouns, allowed))
        place = self.say(preposition.english)
        french = [Token(word, (place,)) for word in preposition.french]
        somewhere = self.noun_phrase(preposition.nouns, words - 1, some=preposition.french[-1] != "de", rivals=rivals)
        return french + somewhere.french

    def relative(self, noun: Noun, plural: bool, words: int, rivals: tuple[Rival, ...]) -> list[Token]:
        """ "who sees the dog" or "who the dog sees", about the noun just said, which is the last of `rivals`."""
        self.relatives += 1
        pronoun = self.say("who" if noun.person else "that")
        if words >= 4 and _seen_by(noun) and self.random() < 0.4:
            return [Token("que", (pronoun,)), *self.seen_by(noun, words - 1)]
        mine = rivals[-1]
        clear = not any(
            (rival.person, rival.plural) == mine[:2] and rival.feminine != mine.feminine for rival in rivals[:-1]
        )
        kind = self.pick(_kinds(words - 1, noun, True, clear) or _kinds(99, noun, True, clear))
        subject = Phrase([], (noun,), noun.feminine, plural)
        return [Token("qui", (pronoun,)), *self.predicate(kind, self.verb(kind, noun), subject, words - 1, rivals)]

    def seen_by(self, noun: Noun, words: int) -> list[Token]:
        """ "the dog does not see": the rest of a relative clause whose object came first."""
        verb = self.fresh(_seen_by(noun))
        words -= 1 + bool(verb.particle)
        manner = self.manner(words - 2, 2)
        subject = self.noun_phrase(verb.subjects, words - self.cost(manner, 2), bare=True)
        return subject.french + self.verb_group(verb, subject.plural, manner)

    # Predicates

    def verb(self, kind: str, noun: Noun | None) -> Verb | None:
        verbs = _verbs(kind, noun)
        return self.fresh(verbs) if verbs else None

    def manner(self, spare: int, cost_of_not: int, negation: bool = True, adverb: bool = True) -> str:
        """A word that denies or qualifies the verb, "" mostly, if there is room for it."""
        chance = self.random()
        if chance < 0.17:
            return "not" if negation and spare >= cost_of_not else ""
        if chance > 0.34 or spare < 1 or not adverb:
            return ""
        if chance < 0.24:
            return "never" if negation else ""
        return "often" if chance < 0.29 else "always"

    @staticmethod
    def cost(manner: str, cost_of_not: int) -> int:
        return cost_of_not if manner == "not" else bool(manner)

    def verb_group(self, verb: Verb | None, plural: bool, manner: str) -> list[Token]:
        """The verb with what stands around it: "ne voit pas", "voit souvent". No verb means "is" or "are"."""
        if verb is None:
            places = [self.say(BE[plural])]
            around = self.say(manner) if manner else None
            form = BE[2 + plural]
        else:
            places = [self.say("do" if plural else "does")] if manner == "not" else []
            around = self.say(manner) if manner else None
            bare = plural or manner == "not"
            places.append(self.say(verb.english if bare else verb.english_singular))
            if verb.particle:
                places.append(self.say(verb.particle))
            form = verb.french_plural if plural else verb.french
        french = [Token(form, tuple(places))]
        if manner in NEGATIONS:
            return [Token("ne", (around,)), *french, Token(NEGATIONS[manner], (around,))]
        return [*french, Token(ADVERBS[manner], (around,))] if manner else french

    def predicate(
        self,
        kind: str,
        verb: Verb | None,
        subject: Phrase,
        words: int,
        rivals: tuple[Rival, ...] = (),
        pair: bool = False,
        adverb: bool = True,
    ) -> list[Token]:
        """About `words` words of the given kind, in agreement with the subject. `pair`: "and" is allowed in it."""
        spare = max(0, words - KINDS[kind][1] - bool(verb and verb.particle))
        cost_of_not = 1 if verb is None else 2
        manner = self.manner(spare, cost_of_not, negation=kind != "say", adverb=adverb)
        spare -= self.cost(manner, cost_of_not)
        denied = manner in NEGATIONS
        french = self.verb_group(verb, subject.plural, manner)
        if kind == "quality":
            return french + self.quality(subject, two=spare >= 2 and pair and not denied)
        if kind == "place":
            return french + self.place(subject.nouns, spare + 3, rivals=rivals)
        if kind == "act":
            if spare >= 3 and verb.prepositions:
                french += self.place(subject.nouns, spare, verb.prepositions, rivals)
            return french
        if kind == "see":
            thing = self.noun_phrase(verb.objects, spare + 2, definite=denied, pair=pair and not denied, rivals=rivals)
            return french + thing.french
        if kind == "speak":
            return french + self.receiver(verb.objects, spare + 2, denied, rivals)
        if kind == "give":
            given = self.between(0, min(2, spare))
            french += self.noun_phrase(verb.objects, given + 2, definite=denied, bare=True).french
            return french + self.receiver(verb.receivers, spare - given + 2, denied, rivals)
        french.append(Token("que", (self.say("that"),)))
        return french + self.clause(spare + 3, embedded=True, pair=pair)

    def quality(self, subject: Phrase, two: bool) -> list[Token]:
        """One adjective or two."""
        fitting = _predicates(subject.nouns)
        adjectives = [self.fresh(fitting)]
        others = [one for one in fitting if one.slot != adjectives[0].slot]
        if two and others:
            adjectives.append(self.fresh(others))
        french = []
        for adjective in adjectives:
            if french:
                french.append(Token("et", (self.say("and"),)))
            form = agree(adjective.french, subject.feminine, subject.plural)
            french.append(Token(form, (self.say(adjective.english),)))
        return french

    def receiver(self, nouns: tuple[Noun, ...], words: int, definite: bool, rivals: tuple[Rival, ...]) -> list[Token]:
        to = Token("à", (self.say("to"),))
        return [to, *self.noun_phrase(nouns, words, definite, rivals=rivals).french]

    # Clauses

    def clause(self, words: int, embedded: bool = False, pair: bool = True) -> list[Token]:
        """A subject and what is said of it. `embedded`: no "says that" in it."""
        kind = self.pick(_kinds(words - 2, None, embedded, True))
        verb = self.verb(kind, None)
        _, least, most = KINDS[kind]
        least += bool(verb and verb.particle)
        own = self.between(least, max(least, min(most, words - 2)))
        if kind == "act" and not verb.prepositions:
            own = min(own, 3)
        nouns = verb.subjects if verb else EVERY_NOUN if kind == "quality" else PLACEABLE
        relatives = self.relatives
        # "Des jardins sont beaux" is correct and yet nobody says it.
        subject = self.noun_phrase(nouns, words - own, some=verb is not None, pair=pair)
        # Does the man "who sees the dog often sleeps" sleep often or see it often? "Is often" comes after its verb.
        adverb = verb is None or self.relatives == relatives
        return subject.french + self.predicate(kind, verb, subject, own, pair=pair, adverb=adverb)

    def whole(self, words: int) -> list[Token]:
        """One clause, or two or three joined by a connective. Only the last may hold "says that"."""
        chance, count = self.random(), 1
        if words >= 8 and chance < 0.35:
            count = 2
        elif words > 18:
            count = 2 if chance < 0.7 else 3
        elif words >= 12 and chance < 0.42:
            count = 3
        lengths = self.shares(words - (count - 1), count)
        french: list[Token] = []
        connectives = tuple(CONNECTIVES)
        for number, length in enumerate(lengths):
            if number:
                connective = self.fresh(connectives)
                if connective not in ("and", "but"):  # "when A and B" could be "quand A et quand B"
                    connectives = ("when", "because")
                place = self.say(connective)
                french += [Token(word, (place,)) for word in CONNECTIVES[connective]]
            last = number == count - 1
            french += self.clause(length, embedded=not last, pair=last)
        return french

    def shares(self, words: int, count: int) -> list[int]:
        """`count` lengths of at least 3 that add up to `words`."""
        lengths = [3] * count
        for _ in range(words - 3 * count):
            lengths[int(self.random() * count)] += 1
        return lengths


def _with_an(words: list[str]) -> tuple[str, ...]:
    """ "a" becomes "an" before a vowel that is spoken as one: "an old man", "a european law"."""
    following = [*words[1:], ""]
    return tuple(
        "an" if word == "a" and after[0] in "aeiou" and after != "european" else word
        for word, after in zip(words, following, strict=True)
    )


def sentence(chance: random.Random, words: int) -> Pair | None:
    """A sentence of so many English words; None if a noun that took no more adjectives left it shorter."""
    draft = Sentence(chance)
    french = draft.whole(words)
    if len(draft.english) != words:
        return None
    french = run_together(french)
    links = sorted([(place, number) for number, token in enumerate(french) for place in token.places])
    return Pair(_with_an(draft.english), tuple([token.form for token in french]), tuple(links))


def sentences(
    count: int, lengths: dict[int, float], chance: random.Random, seen: set[tuple[str, ...]]
) -> tuple[Pair, ...]:
    """New ones, in these proportions of length; their English is added to `seen`."""
    found = []
    numbers, heaped = list(lengths), list(accumulate(lengths.values()))
    while len(found) < count:
        (words,) = chance.choices(numbers, cum_weights=heaped)
        for _ in range(TRIES):
            pair = sentence(chance, words)
            if pair and pair.english not in seen:
                break
        else:
            raise ValueError(
                f"expected a new sentence of {words} words, got none in {TRIES} tries after {len(seen)} sentences: "
                "there are hardly any more so short; ask for fewer pairs"
            )
        seen.add(pair.english)
        found.append(pair)
    return tuple(found)


def corpus(train: int = 20_000, validation: int = 1_000, test: int = 1_000, longer: int = 500, seed: int = 0) -> Corpus:
    """All parts from one seed. The held-out parts are drawn first, so they do not change with the size of `train`."""
    seen: set[tuple[str, ...]] = set()
    parts = {}
    for name, count, lengths in (
        ("test", test, LENGTHS),
        ("validation", validation, LENGTHS),
        ("longer", longer, LONGER_LENGTHS),
        ("train", train, LENGTHS),
    ):
        parts[name] = sentences(count, lengths, random.Random(f"phrases {name} {seed}"), seen)
    return Corpus(**parts)


def as_line(pair: Pair) -> str:
    """Tab-separated: English, French, links as `0-0 1-2`, the English place first."""
    links = " ".join(f"{english}-{french}" for english, french in pair.links)
    return f"{' '.join(pair.english)}\t{join(pair.french, 'french')}\t{links}\n"


def write_samples(folder: Path = SAMPLES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    small = corpus(**SAMPLE_SIZES, seed=0)
    for name in SAMPLE_SIZES:
        text = "".join(as_line(pair) for pair in getattr(small, name))
        (folder / f"{name}.tsv").write_bytes(text.encode())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m utils.data.phrases", description=__doc__.partition("\n")[0])
    parser.parse_args()
    write_samples()


if __name__ == "__main__":
    main()

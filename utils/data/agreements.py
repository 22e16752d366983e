"""Long-distance agreement: sentences in which other nouns (attractors) stand between an adjective and its noun.

"the aunt of the boys who read is old": the French form of "old" agrees with the aunt.
"""

import random
from collections.abc import Container
from typing import NamedTuple

from utils.data.french import Token
from utils.data.phrase_words import Noun
from utils.data.phrases import LENGTHS, Pair, Phrase, Sentence, sentence

MIN_LENGTH = 7  # words; shorter sentences hardly have room for an attractor


class Agreement(NamedTuple):
    """Sentence pair with the English positions of an adjective, of its noun, and of the attractors between the two."""

    pair: Pair
    adjective: int
    noun: int
    attractors: tuple[int, ...]

    def french(self, position: int) -> int:
        """French position aligned with this English position; each adjective and noun has exactly one."""
        (aligned,) = (french for english, french in self.pair.links if english == position)
        return aligned


class _Traced(Sentence):
    """A sentence that records the positions of its nouns, and the subject of each predicate adjective.

    It draws no random numbers of its own, so the same generator state gives the same sentence as `Sentence`.
    """

    def __init__(self, rng: random.Random):
        super().__init__(rng)
        self.nouns: list[tuple[int, Noun]] = []
        self.qualities: list[tuple[int, tuple[Noun, ...]]] = []

    def simple_phrase(self, noun: Noun, *rest) -> list[Token]:
        french = super().simple_phrase(noun, *rest)
        self.nouns.append((len(self.english) - 1, noun))  # the noun was added last
        return french

    def quality(self, subject: Phrase, two: bool) -> list[Token]:
        self.qualities.append((len(self.english), subject.nouns))
        return super().quality(subject, two)

    def far(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """(adjective, noun, attractors) where the subject is a single noun that occurs once in the sentence."""
        distant = []
        for adjective, subject in self.qualities:
            own = [position for position, noun in self.nouns if noun in subject]
            if len(subject) == 1 and len(own) == 1:
                attractors = tuple(position for position, _ in self.nouns if own[0] < position < adjective)
                distant += [(adjective, own[0], attractors)] if attractors else []
        return distant


def agreements(count: int, seed: int = 0, without: Container[tuple[str, ...]] = ()) -> list[Agreement]:
    """`count` distinct sentences, none with its English in `without`: pass the training sentences to hold these out."""
    examples: dict[tuple[str, ...], Agreement] = {}
    lengths = [words for words in LENGTHS if words >= MIN_LENGTH]
    attempt = 0
    while len(examples) < count:
        name, words = f"agreements {seed} {attempt}", lengths[attempt % len(lengths)]
        attempt += 1
        pair = sentence(random.Random(name), words)
        if pair is None or pair.english in without or pair.english in examples:
            continue
        draft = _Traced(random.Random(name))
        draft.whole(words)
        for positions in draft.far()[:1]:
            examples[pair.english] = Agreement(pair, *positions)
    return list(examples.values())

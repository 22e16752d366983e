"""Sentences of the grammar in which an adjective stands far from its noun, with other nouns in between, and it is known which is its own.

"the aunt of the boys who read is old": what "old" becomes in French is up to the aunt.
"""

import random
from collections.abc import Container
from typing import NamedTuple

from utils.data.french import Token
from utils.data.phrase_words import Noun
from utils.data.phrases import LENGTHS, Pair, Phrase, Sentence, sentence

SHORTEST = 7  # words; in fewer there is hardly room for a noun in between


class Agreement(NamedTuple):
    """A pair, and the places in its English of an adjective, of the noun it describes, and of the nouns between the two."""

    pair: Pair
    adjective: int
    noun: int
    between: tuple[int, ...]

    def french(self, place: int) -> int:
        """Where the French word for the English word at this place stands; each adjective and noun has exactly one."""
        (found,) = (french for english, french in self.pair.links if english == place)
        return found


class _Traced(Sentence):
    """A sentence that remembers where its nouns stand, and which of them each adjective after "is" describes.

    It draws nothing by chance that `Sentence` does not draw, so from the same chance it becomes the same sentence.
    """

    def __init__(self, chance: random.Random):
        super().__init__(chance)
        self.nouns: list[tuple[int, Noun]] = []
        self.qualities: list[tuple[int, tuple[Noun, ...]]] = []

    def simple_phrase(self, noun: Noun, *rest) -> list[Token]:
        french = super().simple_phrase(noun, *rest)
        self.nouns.append((len(self.english) - 1, noun))  # the noun is what was said last
        return french

    def quality(self, subject: Phrase, two: bool) -> list[Token]:
        self.qualities.append((len(self.english), subject.nouns))
        return super().quality(subject, two)

    def far(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """Adjective, noun and the nouns between, where the subject is one noun that the sentence has only once."""
        found = []
        for adjective, subject in self.qualities:
            own = [place for place, noun in self.nouns if noun in subject]
            if len(subject) == 1 and len(own) == 1:
                between = tuple(place for place, _ in self.nouns if own[0] < place < adjective)
                found.append((adjective, own[0], between))
        return [one for one in found if one[2]]


def agreements(count: int, seed: int = 0, without: Container[tuple[str, ...]] = ()) -> list[Agreement]:
    """Different ones, none with its English in `without`: pass the training sentences, and what is left is held out."""
    found: dict[tuple[str, ...], Agreement] = {}
    lengths = [words for words in LENGTHS if words >= SHORTEST]
    number = 0
    while len(found) < count:
        name, words = f"agreements {seed} {number}", lengths[number % len(lengths)]
        number += 1
        pair = sentence(random.Random(name), words)
        if pair is None or pair.english in without or pair.english in found:
            continue
        draft = _Traced(random.Random(name))
        draft.whole(words)
        for place in draft.far()[:1]:
            found[pair.english] = Agreement(pair, *place)
    return list(found.values())

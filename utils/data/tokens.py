"""From sentences to tensors: splitting text into tokens, numbering them, and batches of pairs of like length.

Works on the phrase corpus, where `join` undoes `split` exactly, and on real English and French text, where case and
the spaces around marks are lost.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")

_NUMBER = r"\d+(?:[.,]\d+)*"
_WORD = r"[^\W\d_]+(?:-[^\W\d_]+)*"
_PATTERNS = {
    # "don't" and "the king's" keep their apostrophe inside.
    "english": re.compile(rf"{_NUMBER}|{_WORD}(?:'[^\W\d_]+)*|[^\w\s]|_"),
    # The article in "l'homme" is a word of its own, and so is whatever else loses its last vowel; "aujourd'hui" is not two.
    "french": re.compile(
        rf"{_NUMBER}|aujourd'hui|(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|quelqu|presqu)'(?=[^\W_])|{_WORD}(?:'[^\W\d_]+)*|[^\w\s]|_"
    ),
}
_APOSTROPHES = dict.fromkeys(map(ord, "\u2019\u02bc\u2032\uff07"), "'")
_NO_SPACE_BEFORE, _NO_SPACE_AFTER = frozenset(".,;:!?)]}%\u2026\u00bb\u201d"), frozenset("([{\u00ab\u201c")


def split(text: str, language: str) -> list[str]:
    """Lower-case words and marks: "L'homme ne dort pas." to l', homme, ne, dort, pas, "."."""
    text = unicodedata.normalize("NFC", text).translate(_APOSTROPHES).lower()
    return _PATTERNS[language].findall(text)


def join(tokens: Iterable[str], language: str) -> str:
    """One line of text; French words that end with an apostrophe stick to the next one."""
    french, text, glue = language == "french", "", True
    for token in tokens:
        text += token if glue or token in _NO_SPACE_BEFORE else " " + token
        glue = token in _NO_SPACE_AFTER or (french and len(token) > 1 and token.endswith("'"))
    return text


class TokenVocabulary:
    """Numbers for tokens. 0 to 3 are padding, start, end and unknown; frequent words have low numbers."""

    def __init__(self, words: Iterable[str]):
        self.words = (*SPECIAL, *words)
        self._number = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> "TokenVocabulary":
        """All words, the most frequent first, equals by alphabet."""
        counts = Counter()
        for sentence in sentences:
            counts.update(sentence)
        return cls(word for _, word in sorted((-count, word) for word, count in counts.items()))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._number

    def numbers(self, tokens: Iterable[str]) -> list[int]:
        """A word outside the vocabulary becomes UNKNOWN; `unknown` tells which these are."""
        return [self._number.get(token, UNKNOWN) for token in tokens]

    def tokens(self, numbers: Iterable[int] | Tensor) -> list[str]:
        """The words up to the first END, without padding and start."""
        found = []
        for number in numbers.tolist() if isinstance(numbers, Tensor) else numbers:
            if number == END:
                break
            if not 0 <= number < len(self):
                raise ValueError(f"expected numbers from 0 to {len(self) - 1}, got {number}: not of this vocabulary")
            if number not in (PAD, START):
                found.append(self.words[number])
        return found

    def unknown(self, tokens: Iterable[str]) -> list[str]:
        """The words outside the vocabulary, each once, in the order of the sentence."""
        return list(dict.fromkeys(token for token in tokens if token not in self._number))


class TokenPair(Protocol):
    """What a batch is made of; `utils.data.phrases.Pair` is one."""

    @property
    def english(self) -> Sequence[str]: ...

    @property
    def french(self) -> Sequence[str]: ...


class Batch(NamedTuple):
    """Pairs as numbers, padded at the right. b pairs, n source and m target tokens at most, END (or START) included."""

    source: Tensor  # (b, n) long, each row ends with END
    source_mask: Tensor  # (b, n) bool, True = a token, False = padding
    target_in: Tensor  # (b, m) long, starts with START: what the decoder has read
    target_out: Tensor  # (b, m) long, ends with END: what it should say next
    target_mask: Tensor  # (b, m) bool, for both


def _padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """(b, n) long filled with PAD, and the (b, n) bool mask of what is not padding."""
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    numbers = torch.full(mask.shape, PAD)
    numbers[mask] = torch.tensor([number for row in rows for number in row])
    return numbers, mask


def as_batch(
    pairs: Sequence[TokenPair], source_vocabulary: TokenVocabulary, target_vocabulary: TokenVocabulary
) -> Batch:
    """All pairs in one batch, in their order."""
    source, source_mask = _padded([[*source_vocabulary.numbers(pair.english), END] for pair in pairs])
    targets = [target_vocabulary.numbers(pair.french) for pair in pairs]
    target_in, target_mask = _padded([[START, *row] for row in targets])
    target_out, _ = _padded([[*row, END] for row in targets])
    return Batch(source, source_mask, target_in, target_out, target_mask)


def batches(
    pairs: Sequence[TokenPair],
    source_vocabulary: TokenVocabulary,
    target_vocabulary: TokenVocabulary,
    size: int,
    generator: torch.Generator | None = None,
) -> list[Batch]:
    """Batches of `size` pairs of like length, so that little is padding; every pair is in one of them.

    With a generator, batches come in random order and pairs of equal length are dealt anew at each call.
    """
    order = range(len(pairs)) if generator is None else torch.randperm(len(pairs), generator=generator).tolist()
    by_length = sorted(order, key=lambda one: (len(pairs[one].english), len(pairs[one].french)))
    groups = [by_length[start : start + size] for start in range(0, len(pairs), size)]
    if generator is not None:
        groups = [groups[one] for one in torch.randperm(len(groups), generator=generator).tolist()]
    return [as_batch([pairs[one] for one in group], source_vocabulary, target_vocabulary) for group in groups]

"""Subwords: byte-pair encoding by hand, WordPiece beside it, and a tokenizer of the library `tokenizers` trained on a corpus.

A word here carries the space before it as a visible mark: "Return a list." is cut into `▁return`, `▁a`, `▁list` and `.`, so
joining pieces and turning marks into spaces gives the text back. The by-hand functions and the library see the same words,
and `bpe_merges` finds the library's merges one by one, ties included; it only takes longer.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import Lowercase, Replace
from tokenizers.normalizers import Sequence as Steps
from tokenizers.pre_tokenizers import Split
from tokenizers.trainers import BpeTrainer
from torch import Tensor

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # ▁, the mark of a space
# A word with its apostrophe, one digit, underscores, or other marks; each with the space before it, if there is one.
WORD = rf"{SPACE}?(?:[^\W\d_]+(?:'[^\W\d_]+)*|\d|_+|[^\w{SPACE}]+)|{SPACE}"

PAD, START, END, UNKNOWN, MASK = range(5)
GAPS = tuple(range(5, 21))  # names for the holes in a text whose spans were cut out
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *(f"[GAP{place}]" for place in range(len(GAPS))))
CONTINUES = "##"  # WordPiece marks a piece that continues a word, and leaves the first one bare

Pair = tuple[str, str]

# The library's threads do not survive a fork, and exercises are checked in one: it would warn at each of them.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


# Byte-pair encoding by hand


def tidy(text: str) -> str:
    """One line, one space before each word: how a text is written before it is cut."""
    return " " + " ".join(text.split()) if text.split() else ""


def words(text: str) -> list[str]:
    """The words of a text, marks of spaces included. Nothing is lost but case, line breaks and repeated spaces."""
    text = tidy(text).replace(" ", SPACE)
    return re.findall(WORD, text.lower())


def word_counts(texts: Iterable[str]) -> Counter[str]:
    if isinstance(texts, str):
        raise TypeError(f"expected a collection of texts, got the one text {texts[:40]!r}; put it into a list")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(words(text))
    return counts


def pair_counts(split: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> Counter[Pair]:
    """How often two pieces stand side by side, over all words; a word that occurs ten times counts ten times."""
    pairs: Counter[Pair] = Counter()
    for word, pieces in split.items():
        for pair in zip(pieces, pieces[1:], strict=False):
            pairs[pair] += counts[word]
    return pairs


def merge(pieces: Sequence[str], pair: Pair) -> list[str]:
    """The pieces with every occurrence of `pair` joined, from left to right: of a a a, two are joined."""
    joined, place = [], 0
    while place < len(pieces):
        step = 2 if tuple(pieces[place : place + 2]) == pair else 1
        joined.append("".join(pieces[place : place + step]))
        place += step
    return joined


def bpe_merges(counts: Mapping[str, int], merges: int) -> list[Pair]:
    """The first `merges` merges: again and again, the pair of neighbouring pieces that occurs most often becomes one piece.

    `counts` says how often each word occurs; pairs never cross from one word to the next. Of pairs that occur equally often
    comes first the one whose left piece is older, then whose right piece is older: characters by their code, then merged pieces
    in the order they were made. Fewer merges come back when nothing is left to join.
    """
    split = {word: list(word) for word, count in counts.items() if count > 0}
    age = {character: place for place, character in enumerate(sorted({one for word in split for one in word}))}
    pairs = pair_counts(split, counts)
    found: list[Pair] = []
    while len(found) < merges and pairs:
        best = max(pairs, key=lambda pair: (pairs[pair], -age[pair[0]], -age[pair[1]]))
        found.append(best)
        age.setdefault("".join(best), len(age))
        # Only words that hold the pair change, so only their pairs are counted anew.
        touched = {word: old for word, old in split.items() if best in zip(old, old[1:], strict=False)}
        changed = {word: merge(old, best) for word, old in touched.items()}
        pairs.subtract(pair_counts(touched, counts))
        pairs.update(pair_counts(changed, counts))
        pairs = +pairs
        split.update(changed)
    return found


def bpe_split(word: str, merges: Sequence[Pair]) -> list[str]:
    """The pieces of a word: the merge that was learnt first is done first, wherever in the word it applies.

    Not the longest piece first: what counts is the order of learning.
    """
    rank = {pair: place for place, pair in enumerate(merges)}
    pieces = list(word)
    while pairs := [pair for pair in zip(pieces, pieces[1:], strict=False) if pair in rank]:
        pieces = merge(pieces, min(pairs, key=rank.__getitem__))
    return pieces


# WordPiece: another choice, and another way to cut


def wordpiece_scores(counts: Mapping[str, int]) -> dict[Pair, float]:
    """For each pair of neighbouring characters: how often it occurs, divided by how often its left and its right do.

    This is what WordPiece looks at in place of the count: a pair is worth joining if its parts seldom occur apart. Two rare
    letters that always meet win over the most frequent pair of the language. Characters inside a word carry `##`. The trainer
    of the library `tokenizers` that is called WordPiece goes by the count all the same, as byte-pair encoding does.
    """
    split = {word: [word[0], *(CONTINUES + one for one in word[1:])] for word in counts if word}
    single: Counter[str] = Counter()
    for word, pieces in split.items():
        for piece in pieces:
            single[piece] += counts[word]
    return {pair: count / (single[pair[0]] * single[pair[1]]) for pair, count in pair_counts(split, counts).items()}


def wordpiece_split(word: str, vocabulary: Iterable[str], unknown: str = "[UNK]") -> list[str]:
    """The longest piece of the vocabulary that the word begins with, then the longest that goes on, and so forth.

    No merges are needed, only the vocabulary. If the rest of a word has no piece, the whole word is unknown.
    """
    vocabulary = vocabulary if isinstance(vocabulary, Mapping | set | frozenset) else set(vocabulary)
    pieces, start = [], 0
    while start < len(word):
        mark = CONTINUES if start else ""
        ends = (end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary)
        end = next(ends, None)
        if end is None:
            return [unknown]
        pieces.append(mark + word[start:end])
        start = end
    return pieces


# The library


class Subwords:
    """Numbers for pieces of words. 0 to 4 are padding, start ([CLS]), end ([SEP]), unknown and mask; then the names of gaps.

    "[MASK]" may stand in a text and takes the space before it along, so that it stands for `▁word` and not for `word`.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The pieces of the text alone, without start and end."""
        return self.tokenizer.encode(tidy(text), add_special_tokens=False).ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` of many texts at once."""
        done = self.tokenizer.encode_batch([tidy(text) for text in texts], add_special_tokens=False)
        return [one.ids for one in done]

    def framed(self, first: str, second: str | None = None, longest: int | None = None) -> list[int]:
        """START first END, or START first END second END; with `longest`, tokens are cut from the end of the longer text."""
        parts = [self.encode(text) for text in (first, second) if text is not None]
        if longest is not None:
            room = longest - 1 - len(parts)
            while sum(map(len, parts)) > room:
                max(parts, key=len).pop()
        return [START, *(number for part in parts for number in (*part, END))]

    def decode(self, numbers: Iterable[int] | Tensor) -> str:
        """Text again. Padding, start and end are left out; unknown, mask and gaps stand as [UNK], [MASK], [GAP0]."""
        shown = []
        for number in self._checked(numbers):
            if number >= len(SPECIAL):
                shown.append(self.tokenizer.id_to_token(number))
            elif number not in (PAD, START, END):
                shown.append(SPACE + SPECIAL[number])
        return "".join(shown).replace(SPACE, " ").strip()

    def pieces(self, numbers: Iterable[int] | Tensor) -> list[str]:
        """Each number's own text, with the mark of a space where there is one: `▁list`, `s`."""
        return [self.tokenizer.id_to_token(number) for number in self._checked(numbers)]

    def merges(self, count: int) -> list[Pair]:
        """The first pairs that were joined, in their order."""
        return [(left, right) for left, right in json.loads(self.to_text())["model"]["merges"][:count]]

    def _checked(self, numbers: Iterable[int] | Tensor) -> list[int]:
        numbers = torch.as_tensor(numbers).tolist() if isinstance(numbers, Tensor) else list(numbers)
        for number in numbers:
            if not 0 <= number < len(self):
                raise ValueError(f"expected numbers from 0 to {len(self) - 1}, got {number}: not of this tokenizer")
        return numbers

    def to_text(self) -> str:
        """All of it as JSON, for `from_text`: a trained model is of use only with the tokenizer that it was trained with."""
        return self.tokenizer.to_str()

    @classmethod
    def from_text(cls, text: str) -> "Subwords":
        return cls(Tokenizer.from_str(text))


def train_subwords(texts: Iterable[str], size: int = 3000, rarest: int = 3) -> Subwords:
    """Byte-pair encoding of the library `tokenizers`, with `size` pieces in all, special ones included.

    A character that occurs less than `rarest` times gets no piece and is unknown. The same texts give the same pieces at
    every run, in whatever order they come.
    """
    texts = texts if isinstance(texts, str) else list(texts)  # they are read twice
    counts = word_counts(texts)
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    alphabet = sorted(one for one, count in characters.items() if count >= rarest)
    least = len(SPECIAL) + len(alphabet)
    if size < least:
        raise ValueError(f"expected a size of at least {least} for the {len(alphabet)} characters, got {size}")
    tokenizer = Tokenizer(BPE(unk_token=SPECIAL[UNKNOWN]))
    tokenizer.normalizer = Steps([Lowercase(), Replace(" ", SPACE)])
    tokenizer.pre_tokenizer = Split(Regex(WORD), "isolated")
    trainer = BpeTrainer(
        vocab_size=size,
        special_tokens=[AddedToken(name, lstrip=name != "[PAD]", special=True) for name in SPECIAL],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator((tidy(text) for text in texts), trainer)
    return Subwords(tokenizer)

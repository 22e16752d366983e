"""Word-level tokenization, vocabulary and padded batches for machine translation.

On the phrase corpus `join` inverts `split` exactly; on real English and French text, case and the spaces around
punctuation are lost.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

PAD_ID, BOS_ID, EOS_ID, UNK_ID = range(4)
SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")

_NUMBER = r"\d+(?:[.,]\d+)*"
_WORD = r"[^\W\d_]+(?:-[^\W\d_]+)*"
_PATTERNS = {
    # "don't" and "the king's" keep their apostrophe inside.
    "english": re.compile(rf"{_NUMBER}|{_WORD}(?:'[^\W\d_]+)*|[^\w\s]|_"),
    # Elided words ("l'", "qu'") are tokens of their own; "aujourd'hui" is one token.
    "french": re.compile(
        rf"{_NUMBER}|aujourd'hui|(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|quelqu|presqu)'(?=[^\W_])"
        rf"|{_WORD}(?:'[^\W\d_]+)*|[^\w\s]|_"
    ),
}
_APOSTROPHES = dict.fromkeys(map(ord, "\u2019\u02bc\u2032\uff07"), "'")
_NO_SPACE_BEFORE, _NO_SPACE_AFTER = frozenset(".,;:!?)]}%\u2026\u00bb\u201d"), frozenset("([{\u00ab\u201c")


def split(text: str, language: str) -> list[str]:
    """Word-level tokenizer, lower case: "L'homme ne dort pas." to l', homme, ne, dort, pas, "."."""
    text = unicodedata.normalize("NFC", text).translate(_APOSTROPHES).lower()
    return _PATTERNS[language].findall(text)


def join(tokens: Iterable[str], language: str) -> str:
    """Detokenizer: one line of text. A French token that ends with an apostrophe takes no space after it."""
    french, text, glue = language == "french", "", True
    for token in tokens:
        text += token if glue or token in _NO_SPACE_BEFORE else " " + token
        glue = token in _NO_SPACE_AFTER or (french and len(token) > 1 and token.endswith("'"))
    return text


class Vocabulary:
    """Word-level vocabulary: ids 0 to 3 are the special tokens, then the most frequent words first."""

    def __init__(self, words: Iterable[str]):
        self.words = (*SPECIAL_TOKENS, *words)
        self._ids = {word: token_id for token_id, word in enumerate(self.words)}

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]]) -> "Vocabulary":
        """All words of a corpus by falling frequency, ties in alphabetical order."""
        counts = Counter(word for sentence in sentences for word in sentence)
        return cls(word for _, word in sorted((-count, word) for word, count in counts.items()))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Token ids. An out-of-vocabulary word becomes UNK_ID; `out_of_vocabulary` lists these words."""
        return [self._ids.get(token, UNK_ID) for token in tokens]

    def decode(self, token_ids: Iterable[int] | Tensor) -> list[str]:
        """The words up to the first EOS_ID, without padding and BOS_ID."""
        words = []
        for token_id in token_ids.tolist() if isinstance(token_ids, Tensor) else token_ids:
            if token_id == EOS_ID:
                break
            if not 0 <= token_id < len(self):
                raise ValueError(f"expected token ids from 0 to {len(self) - 1}, got {token_id}")
            if token_id not in (PAD_ID, BOS_ID):
                words.append(self.words[token_id])
        return words

    def out_of_vocabulary(self, tokens: Iterable[str]) -> list[str]:
        """Out-of-vocabulary words, each once, in the order of the sentence."""
        return list(dict.fromkeys(token for token in tokens if token not in self._ids))


class Batch(NamedTuple):
    """Batch for teacher forcing, padded on the right: b pairs, up to n source and m target tokens with BOS or EOS."""

    source: Tensor  # (b, n) long, token ids, each row ends with EOS_ID
    source_mask: Tensor  # (b, n) bool, True at real tokens, False at padding
    target_in: Tensor  # (b, m) long, starts with BOS_ID: the decoder's input
    target_out: Tensor  # (b, m) long, ends with EOS_ID: the next tokens to predict
    target_mask: Tensor  # (b, m) bool, for both


def pad(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Right padding: token ids (b, n) long with PAD_ID, and attention_mask (b, n) bool, True at real tokens."""
    lengths = torch.tensor([len(row) for row in rows])
    attention_mask = torch.arange(int(lengths.max())) < lengths[:, None]
    token_ids = torch.full(attention_mask.shape, PAD_ID)
    token_ids[attention_mask] = torch.tensor([token_id for row in rows for token_id in row])
    return token_ids, attention_mask


def collate(pairs: Sequence, source_vocabulary: Vocabulary, target_vocabulary: Vocabulary) -> Batch:
    """Padded batch of all pairs, in their order; a pair has token sequences `english` and `french`."""
    source, source_mask = pad([[*source_vocabulary.encode(pair.english), EOS_ID] for pair in pairs])
    targets = [target_vocabulary.encode(pair.french) for pair in pairs]
    target_in, target_mask = pad([[BOS_ID, *row] for row in targets])
    target_out, _ = pad([[*row, EOS_ID] for row in targets])
    return Batch(source, source_mask, target_in, target_out, target_mask)


def batches(
    pairs: Sequence, source_vocabulary: Vocabulary, target_vocabulary: Vocabulary, batch_size: int, generator=None
) -> Iterator[Batch]:
    """Batches bucketed by length, so that little is padding; every pair is in exactly one batch.

    With a torch.Generator, batches come in random order and pairs of equal length are shuffled at each call.
    """
    order = range(len(pairs)) if generator is None else torch.randperm(len(pairs), generator=generator).tolist()
    by_length = sorted(order, key=lambda index: (len(pairs[index].english), len(pairs[index].french)))
    buckets = [by_length[start : start + batch_size] for start in range(0, len(pairs), batch_size)]
    if generator is not None:
        buckets = [buckets[index] for index in torch.randperm(len(buckets), generator=generator).tolist()]
    return (collate([pairs[index] for index in bucket], source_vocabulary, target_vocabulary) for bucket in buckets)

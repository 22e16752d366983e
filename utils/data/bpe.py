"""Subword tokenization: byte-pair encoding by hand (Sennrich et al., 2016), WordPiece, and a trained `tokenizers` BPE.

As in SentencePiece, a word carries the space before it as a visible mark: "Return a list." becomes `▁return`, `▁a`,
`▁list` and `.`, so concatenating tokens and turning marks into spaces restores the text. The functions by hand and the
library pre-tokenize alike, and `bpe_merges` learns exactly the library's merges, ties included; it is only slower.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import Lowercase, Replace
from tokenizers.normalizers import Sequence as Steps
from tokenizers.pre_tokenizers import Split
from tokenizers.trainers import BpeTrainer
from torch import Tensor

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # ▁, the mark of a space
# A word with its apostrophe, one digit, underscores, or punctuation; each with the space before it, if there is one.
WORD = rf"{SPACE}?(?:[^\W\d_]+(?:'[^\W\d_]+)*|\d|_+|[^\w{SPACE}]+)|{SPACE}"

PAD_ID, CLS_ID, SEP_ID, UNK_ID, MASK_ID = range(5)  # [CLS] is also the BOS token, [SEP] the EOS token
SENTINEL_IDS = tuple(range(5, 21))  # for span corruption, as in T5
SPECIAL_TOKENS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *(f"[SENTINEL{i}]" for i in range(len(SENTINEL_IDS))))
CONTINUES = "##"  # WordPiece marks a token that continues a word; the first token of a word is bare

Pair = tuple[str, str]

# The library's threads do not survive a fork, and exercises are checked in one: it would warn at each of them.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


# Byte-pair encoding by hand


def normalize(text: str) -> str:
    """Whitespace normalization: one line, one space before each word."""
    return " " + " ".join(text.split()) if text.split() else ""


def pre_tokenize(text: str) -> list[str]:
    """Pre-tokenizer: words with their space marks. Only case, line breaks and repeated spaces are lost."""
    text = normalize(text).replace(" ", SPACE)
    return re.findall(WORD, text.lower())


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Word frequencies after pre-tokenization."""
    return Counter(word for text in texts for word in pre_tokenize(text))


def pair_counts(split: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> Counter[Pair]:
    """Frequencies of adjacent token pairs over all words; a word that occurs ten times counts ten times."""
    pairs: Counter[Pair] = Counter()
    for word, tokens in split.items():
        for pair in zip(tokens, tokens[1:], strict=False):
            pairs[pair] += counts[word]
    return pairs


def merge(tokens: Sequence[str], pair: Pair) -> list[str]:
    """BPE merge: every occurrence of `pair` becomes one token, from left to right; in a a a, the first two merge."""
    merged, index = [], 0
    while index < len(tokens):
        step = 2 if tuple(tokens[index : index + 2]) == pair else 1
        merged.append("".join(tokens[index : index + step]))
        index += step
    return merged


def bpe_merges(counts: Mapping[str, int], num_merges: int) -> list[Pair]:
    """BPE training: the first `num_merges` merges, each of the most frequent pair of adjacent tokens.

    `counts` gives word frequencies; pairs never cross a word boundary. Among equally frequent pairs the one with the
    smaller left id wins, then the smaller right id: characters by code point, then merged tokens in the order of
    training. Fewer merges are returned when no pair is left.
    """
    split = {word: list(word) for word, count in counts.items() if count > 0}
    token_ids = {character: i for i, character in enumerate(sorted(set("".join(split))))}
    pairs = pair_counts(split, counts)
    learned: list[Pair] = []
    while len(learned) < num_merges and pairs:
        best = max(pairs, key=lambda pair: (pairs[pair], -token_ids[pair[0]], -token_ids[pair[1]]))
        learned.append(best)
        token_ids.setdefault("".join(best), len(token_ids))
        # Only words that contain the pair change, so only their pairs are counted again.
        touched = {word: old for word, old in split.items() if best in zip(old, old[1:], strict=False)}
        changed = {word: merge(old, best) for word, old in touched.items()}
        pairs.subtract(pair_counts(touched, counts))
        pairs.update(pair_counts(changed, counts))
        pairs = +pairs
        split.update(changed)
    return learned


def bpe_split(word: str, merges: Sequence[Pair]) -> list[str]:
    """BPE tokenization of a word: merges apply in the order of training, wherever they fit. No greedy longest match."""
    rank = {pair: i for i, pair in enumerate(merges)}
    tokens = list(word)
    while pairs := [pair for pair in zip(tokens, tokens[1:], strict=False) if pair in rank]:
        tokens = merge(tokens, min(pairs, key=rank.__getitem__))
    return tokens


def merge_steps(word: str, merges: Sequence[Pair]) -> list[tuple[list[str], int]]:
    """The tokens of a word before the first merge, numbered 0, and after each merge that applies, with its number from 1."""
    steps = [(list(word), 0)]
    for number, pair in enumerate(merges, start=1):
        tokens = merge(steps[-1][0], pair)
        if tokens != steps[-1][0]:
            steps.append((tokens, number))
    return steps


# WordPiece: another training criterion, and greedy longest-match tokenization


def wordpiece_scores(counts: Mapping[str, int]) -> dict[Pair, float]:
    """WordPiece training scores of adjacent characters: count(pair) / (count(left) * count(right)).

    A pair scores high if its parts seldom occur apart: two rare letters that always meet beat the most frequent pair.
    Characters inside a word carry `##`. The WordPiece trainer of `tokenizers` uses the raw count instead, as BPE does.
    """
    split = {word: [word[0], *(CONTINUES + character for character in word[1:])] for word in counts if word}
    unigrams: Counter[str] = Counter()
    for word, tokens in split.items():
        for token in tokens:
            unigrams[token] += counts[word]
    return {pair: count / (unigrams[pair[0]] * unigrams[pair[1]]) for pair, count in pair_counts(split, counts).items()}


def wordpiece_split(word: str, vocabulary: Container[str]) -> list[str]:
    """WordPiece tokenization: greedy longest match from the left; without a match for the rest, the word is unknown."""
    tokens, start = [], 0
    while start < len(word):
        mark = CONTINUES if start else ""
        end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary), None)
        if end is None:
            return [SPECIAL_TOKENS[UNK_ID]]
        tokens.append(mark + word[start:end])
        start = end
    return tokens


# The library


class BPETokenizer:
    """Byte-pair encoding tokenizer of the library `tokenizers`; ids 0 to 20 are the special tokens.

    "[MASK]" in a text takes the space before it along, so it replaces `▁word` and not `word`.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Token ids of the text alone, without [CLS] and [SEP]."""
        return self.tokenizer.encode(normalize(text), add_special_tokens=False).ids

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` of many texts at once."""
        encodings = self.tokenizer.encode_batch([normalize(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def encode_pair(self, first: str, second: str | None = None, max_len: int | None = None) -> list[int]:
        """[CLS] first [SEP], or [CLS] first [SEP] second [SEP]; with `max_len`, the longer text is truncated first."""
        parts = [self.encode(text) for text in (first, second) if text is not None]
        if max_len is not None:
            room = max_len - 1 - len(parts)
            while sum(map(len, parts)) > room:
                max(parts, key=len).pop()
        return [CLS_ID, *(token_id for part in parts for token_id in (*part, SEP_ID))]

    def decode(self, token_ids: Iterable[int] | Tensor) -> str:
        """Text without [PAD], [CLS] and [SEP]; [UNK], [MASK] and sentinel tokens stay visible."""
        shown = []
        for token_id in map(int, token_ids):
            if token_id >= len(SPECIAL_TOKENS):
                shown.append(self.tokenizer.id_to_token(token_id))
            elif token_id not in (PAD_ID, CLS_ID, SEP_ID):
                shown.append(SPACE + SPECIAL_TOKENS[token_id])
        return "".join(shown).replace(SPACE, " ").strip()

    def tokens(self, token_ids: Iterable[int] | Tensor) -> list[str]:
        """The token of each id, with its space mark: `▁list`, `s`."""
        return [self.tokenizer.id_to_token(token_id) for token_id in map(int, token_ids)]

    def merges(self, count: int) -> list[Pair]:
        """The first merges, in the order of training."""
        return [(left, right) for left, right in json.loads(self.to_str())["model"]["merges"][:count]]

    def to_str(self) -> str:
        """The tokenizer as JSON, for `from_str`: a trained model is useless without its own tokenizer."""
        return self.tokenizer.to_str()

    @classmethod
    def from_str(cls, text: str) -> "BPETokenizer":
        return cls(Tokenizer.from_str(text))


def train_bpe(texts: Iterable[str], vocab_size: int = 3000, min_frequency: int = 3) -> BPETokenizer:
    """BPE trained by the library `tokenizers`; `vocab_size` includes the special tokens.

    A character that occurs less than `min_frequency` times is out of vocabulary. The same texts, in any order, give the
    same tokenizer.
    """
    texts = list(texts)  # used twice
    characters: Counter[str] = Counter()
    for word, count in word_counts(texts).items():
        characters.update({character: count * word.count(character) for character in word})
    alphabet = sorted(character for character, count in characters.items() if count >= min_frequency)
    least = len(SPECIAL_TOKENS) + len(alphabet)
    if vocab_size < least:
        raise ValueError(f"expected a vocab_size of at least {least} for {len(alphabet)} characters, got {vocab_size}")
    tokenizer = Tokenizer(BPE(unk_token=SPECIAL_TOKENS[UNK_ID]))
    tokenizer.normalizer = Steps([Lowercase(), Replace(" ", SPACE)])
    tokenizer.pre_tokenizer = Split(Regex(WORD), "isolated")
    trainer = BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(token, lstrip=token != "[PAD]", special=True) for token in SPECIAL_TOKENS],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator((normalize(text) for text in texts), trainer)
    return BPETokenizer(tokenizer)

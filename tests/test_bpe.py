"""Facts about subwords: by hand and by the library `tokenizers`, which must agree merge by merge."""

import json
import random

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.trainers import BpeTrainer, WordPieceTrainer

from utils.data.bpe import (
    CLS_ID,
    CONTINUES,
    MASK_ID,
    PAD_ID,
    SENTINEL_IDS,
    SEP_ID,
    SPACE,
    SPECIAL_TOKENS,
    UNK_ID,
    BPETokenizer,
    bpe_merges,
    bpe_split,
    normalize,
    pre_tokenize,
    train_bpe,
    word_counts,
    wordpiece_scores,
    wordpiece_split,
)
from utils.data.real_text import topics

TEXTS = (
    "The lowest of the low, lower than low: the newest and widest of the new.",
    "Return a new list; the list holds lists. Raise ValueError if the list is empty.",
    "It's the reader's own file_name, e.g. data_2.txt (read at 10:45).",
    "Banana bandana, aaaa aaa aa a: the same letters again and again.",
)


def texts_at_random(seed: int, letters: str = "ab", amount: int = 60) -> list[str]:
    """Words of few letters: many ties, many overlaps such as aaa."""
    generator = random.Random(seed)
    return ["".join(generator.choices(letters, k=generator.randint(1, 9))) for _ in range(amount)]


def library_merges(counts, size: int) -> list[tuple[str, str]]:
    """The library's own merges on the same words; it has as many pieces as asked for, or as many as there can be."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = WhitespaceSplit()
    trainer = BpeTrainer(vocab_size=size, show_progress=False)
    tokenizer.train_from_iterator([word for word, count in counts.items() for _ in range(count)], trainer)
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


# By hand


def test_words_keep_their_space_and_nothing_but_case_and_line_breaks_is_lost():
    assert pre_tokenize("Return  a list.\n  It's f_x2") == [
        f"{SPACE}return", f"{SPACE}a", f"{SPACE}list", ".", f"{SPACE}it's", f"{SPACE}f", "_", "x", "2",
    ]  # fmt: skip
    for text in (*TEXTS, "x = (y[0] -- 'a'), **kw; __init__ ...", "naïve Größe, 漢字 и §5"):
        assert "".join(pre_tokenize(text)).replace(SPACE, " ") == normalize(text).lower()
    assert pre_tokenize(" \n ") == []


@pytest.mark.parametrize("letters", ["ab", "abc", "abcdefgh"])
def test_merges_equal_the_library_to_the_last_one_ties_included(letters):
    for seed in range(8):
        counts = word_counts(texts_at_random(seed, letters))
        wanted = library_merges(counts, 10_000)
        # The space's mark makes each word's first pair; both go on until every word is one piece.
        assert len(wanted) > 20 and bpe_merges(counts, len(wanted) + 5) == wanted


def test_hundreds_of_merges_of_real_text_equal_the_library():
    counts = word_counts([topics()["strings"], topics()["with"], topics()["assignment"]])
    by_hand = bpe_merges(counts, 300)
    assert len(by_hand) == 300 and by_hand == library_merges(counts, 10_000)[:300]


def test_splitting_by_rank_equals_the_library_also_on_words_it_never_saw():
    for seed in range(5):
        counts = word_counts(texts_at_random(seed, "abcd"))
        merges = bpe_merges(counts, 25)
        characters = sorted({one for word in counts for one in word})
        pieces = dict.fromkeys([*characters, *("".join(pair) for pair in merges)])
        model = BPE({piece: number for number, piece in enumerate(pieces)}, merges)
        for text in texts_at_random(seed + 100, "abcd", 200):
            found = bpe_split(SPACE + text, merges)
            assert found == [token.value for token in model.tokenize(SPACE + text)], text


# WordPiece


def test_wordpiece_prefers_parts_that_seldom_occur_apart():
    counts = {"the": 50, "then": 20, "other": 10, "quiz": 1}
    scores = wordpiece_scores(counts)
    assert scores[("##i", "##z")] == max(scores.values()) == 1
    assert bpe_merges(counts, 1) == [("h", "e")]
    assert scores[("t", "##h")] == pytest.approx(70 / (70 * 80))  # ##h stands in "other" too


def test_greedy_longest_match_equals_the_library_also_on_unknown_words():
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    trainer = WordPieceTrainer(
        vocab_size=120, special_tokens=["[UNK]"], show_progress=False, continuing_subword_prefix=CONTINUES
    )
    tokenizer.train_from_iterator([text.lower() for text in TEXTS], trainer)
    vocabulary = tokenizer.get_vocab()
    asked = [word for text in TEXTS for word in text.lower().split()]
    asked += [one + two for one in ("low", "new", "rais", "zzz", "list") for two in ("est", "er", "ß", "ing", "ed")]
    found = {word: wordpiece_split(word, vocabulary) for word in asked}
    assert all(pieces == tokenizer.encode(word).tokens for word, pieces in found.items())
    assert any(len(pieces) > 1 for pieces in found.values()) and found["lowß"] == ["[UNK]"]


# The library on a corpus


@pytest.fixture(scope="module")
def subwords() -> BPETokenizer:
    return train_bpe(TEXTS * 3, 140)


def test_the_library_merges_what_the_hand_merges(subwords):
    merges = subwords.merges(1000)
    assert len(merges) > 50 and bpe_merges(word_counts(TEXTS * 3), len(merges)) == merges
    for text in (*TEXTS, "Unseen words, newly listed at 1."):
        by_hand = [piece for word in pre_tokenize(text) for piece in bpe_split(word, merges)]
        assert subwords.tokens(subwords.encode(text)) == by_hand


def test_decoding_gives_the_text_back_but_for_case_and_line_breaks(subwords):
    for text in TEXTS:
        assert subwords.decode(subwords.encode(text.replace(" ", "\n  ", 1))) == text.lower()
    assert subwords.encode_batch(TEXTS) == [subwords.encode(text) for text in TEXTS]
    assert subwords.encode("") == [] and subwords.decode([]) == ""


def test_the_same_texts_give_the_same_pieces_in_any_order_and_from_a_generator():
    one = train_bpe(TEXTS, 130).to_str()
    assert one == train_bpe(TEXTS[::-1], 130).to_str() == train_bpe((text for text in TEXTS), 130).to_str()
    assert one != train_bpe(TEXTS, 129).to_str()


def test_a_mask_in_the_text_stands_for_a_word_with_its_space(subwords):
    whole, masked = subwords.encode("of the list."), subwords.encode("of the [MASK].")
    assert masked == [*whole[:-2], MASK_ID, whole[-1]] and subwords.tokens(whole)[-2:] == [f"{SPACE}list", "."]
    assert subwords.decode(masked) == "of the [MASK]."


def test_a_rare_character_is_unknown_and_costs_only_itself(subwords):
    assert subwords.tokens(subwords.encode("the ☃ list")) == [f"{SPACE}the", SPACE, "[UNK]", f"{SPACE}list"]
    seldom = train_bpe([*TEXTS * 3, "☃ ☃"], 140, min_frequency=3)
    assert UNK_ID in seldom.encode("☃") and UNK_ID not in train_bpe([*TEXTS, "☃☃☃"], 140).encode("☃")


def test_frames_hold_one_text_or_two_and_cut_the_longer_one(subwords):
    first, second = subwords.encode(TEXTS[0]), subwords.encode("a list")
    assert subwords.encode_pair(TEXTS[0]) == [CLS_ID, *first, SEP_ID]
    assert subwords.encode_pair(TEXTS[0], "a list") == [CLS_ID, *first, SEP_ID, *second, SEP_ID]
    short = subwords.encode_pair(TEXTS[0], "a list", max_len=10)
    assert short == [CLS_ID, *first[: 7 - len(second)], SEP_ID, *second, SEP_ID] and len(short) == 10
    assert subwords.encode_pair("a list", TEXTS[0], max_len=10) == [
        CLS_ID,
        *second,
        SEP_ID,
        *first[: 7 - len(second)],
        SEP_ID,
    ]
    assert subwords.encode_pair("a list", max_len=99) == [CLS_ID, *second, SEP_ID]


def test_decoding_leaves_out_what_frames_a_text(subwords):
    numbers = torch.tensor([CLS_ID, *subwords.encode("the list"), SENTINEL_IDS[0], SEP_ID, PAD_ID, PAD_ID])
    assert subwords.decode(numbers) == "the list [SENTINEL0]"


def test_a_tokenizer_goes_to_str_and_back(subwords):
    again = BPETokenizer.from_str(subwords.to_str())
    assert again.to_str() == subwords.to_str() and again.encode(TEXTS[1]) == subwords.encode(TEXTS[1])
    assert again.tokens(range(len(SPECIAL_TOKENS))) == list(SPECIAL_TOKENS) and len(again) == 140


def test_mistakes_are_named(subwords):
    with pytest.raises(ValueError, match="from 0 to 139, got 140"):
        subwords.decode([140])
    with pytest.raises(ValueError, match="got -1"):
        subwords.tokens([-1])
    with pytest.raises(ValueError, match=r"a vocab_size of at least \d+ for \d+ characters, got 30"):
        train_bpe(TEXTS, 30)
    with pytest.raises(TypeError, match="put it into a list"):
        train_bpe("the list", 100)

"""Facts about subword tokens: by hand and by the library `tokenizers`, which must agree merge by merge."""

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
    merge_steps,
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


def random_words(seed: int, letters: str, count: int = 60) -> list[str]:
    """Words of few letters: many ties, many overlaps such as aaa."""
    generator = random.Random(seed)
    return ["".join(generator.choices(letters, k=generator.randint(1, 9))) for _ in range(count)]


def library_merges(counts) -> list[tuple[str, str]]:
    """All merges that the library itself learns from the same words."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = WhitespaceSplit()
    trainer = BpeTrainer(vocab_size=10_000, show_progress=False)
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
        counts = word_counts(random_words(seed, letters))
        expected = library_merges(counts)
        # Both continue until every word, with its space mark, is one token.
        assert len(expected) > 20 and bpe_merges(counts, len(expected) + 5) == expected


def test_hundreds_of_merges_of_real_text_equal_the_library():
    counts = word_counts([topics()["strings"], topics()["with"], topics()["assignment"]])
    by_hand = bpe_merges(counts, 300)
    assert len(by_hand) == 300 and by_hand == library_merges(counts)[:300]


def test_splitting_by_rank_equals_the_library_also_on_words_it_never_saw():
    for seed in range(5):
        counts = word_counts(random_words(seed, "abcd"))
        merges = bpe_merges(counts, 25)
        characters = sorted({character for word in counts for character in word})
        vocabulary = dict.fromkeys([*characters, *("".join(pair) for pair in merges)])
        model = BPE({token: token_id for token_id, token in enumerate(vocabulary)}, merges)
        for word in random_words(seed + 100, "abcd", 200):
            assert bpe_split(SPACE + word, merges) == [token.value for token in model.tokenize(SPACE + word)], word


# WordPiece


def test_merge_steps_show_the_merges_that_apply_and_end_with_the_split():
    merges = [("e", "s"), ("x", "y"), ("l", "o"), ("es", "t")]
    steps = merge_steps("lost", merges)
    assert steps == [(["l", "o", "s", "t"], 0), (["lo", "s", "t"], 3)]
    assert merge_steps("best", merges)[-1] == (bpe_split("best", merges), 4)


def test_wordpiece_prefers_parts_that_seldom_occur_apart():
    counts = {"the": 50, "then": 20, "other": 10, "quiz": 1}
    scores = wordpiece_scores(counts)
    assert scores[("##i", "##z")] == max(scores.values()) == 1
    assert bpe_merges(counts, 1) == [("h", "e")]
    assert scores[("t", "##h")] == pytest.approx(70 / (70 * 80))  # ##h occurs in "other" too


def test_greedy_longest_match_equals_the_library_also_on_unknown_words():
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    trainer = WordPieceTrainer(
        vocab_size=120, special_tokens=["[UNK]"], show_progress=False, continuing_subword_prefix=CONTINUES
    )
    tokenizer.train_from_iterator([text.lower() for text in TEXTS], trainer)
    vocabulary = tokenizer.get_vocab()
    words = [word for text in TEXTS for word in text.lower().split()]
    words += [stem + end for stem in ("low", "new", "rais", "zzz", "list") for end in ("est", "er", "ß", "ing", "ed")]
    split = {word: wordpiece_split(word, vocabulary) for word in words}
    assert all(tokens == tokenizer.encode(word).tokens for word, tokens in split.items())
    assert any(len(tokens) > 1 for tokens in split.values()) and split["lowß"] == ["[UNK]"]


# The library on a corpus


@pytest.fixture(scope="module")
def tokenizer() -> BPETokenizer:
    return train_bpe(TEXTS * 3, 140)


def test_the_trained_tokenizer_has_the_merges_learned_by_hand(tokenizer):
    merges = tokenizer.merges(1000)
    assert len(merges) > 50 and bpe_merges(word_counts(TEXTS * 3), len(merges)) == merges
    for text in (*TEXTS, "Unseen words, newly listed at 1."):
        by_hand = [token for word in pre_tokenize(text) for token in bpe_split(word, merges)]
        assert tokenizer.tokens(tokenizer.encode(text)) == by_hand


def test_decoding_gives_the_text_back_but_for_case_and_line_breaks(tokenizer):
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text.replace(" ", "\n  ", 1))) == text.lower()
    assert tokenizer.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]
    assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""


def test_the_same_texts_give_the_same_tokenizer_in_any_order_and_from_a_generator():
    expected = train_bpe(TEXTS, 130).to_str()
    assert expected == train_bpe(TEXTS[::-1], 130).to_str() == train_bpe((text for text in TEXTS), 130).to_str()
    assert expected != train_bpe(TEXTS, 129).to_str()


def test_a_mask_in_the_text_replaces_a_word_with_its_space(tokenizer):
    whole, masked = tokenizer.encode("of the list."), tokenizer.encode("of the [MASK].")
    assert masked == [*whole[:-2], MASK_ID, whole[-1]] and tokenizer.tokens(whole)[-2:] == [f"{SPACE}list", "."]
    assert tokenizer.decode(masked) == "of the [MASK]."


def test_a_rare_character_is_unknown_and_the_rest_of_its_text_is_not(tokenizer):
    assert tokenizer.tokens(tokenizer.encode("the ☃ list")) == [f"{SPACE}the", SPACE, "[UNK]", f"{SPACE}list"]
    rare = train_bpe([*TEXTS * 3, "☃ ☃"], 140, min_frequency=3)
    assert UNK_ID in rare.encode("☃") and UNK_ID not in train_bpe([*TEXTS, "☃☃☃"], 140).encode("☃")


def test_special_tokens_frame_a_text_or_a_pair_and_the_longer_text_is_truncated(tokenizer):
    first, second = tokenizer.encode(TEXTS[0]), tokenizer.encode("a list")
    assert tokenizer.encode_pair(TEXTS[0]) == [CLS_ID, *first, SEP_ID]
    assert tokenizer.encode_pair(TEXTS[0], "a list") == [CLS_ID, *first, SEP_ID, *second, SEP_ID]
    short = tokenizer.encode_pair(TEXTS[0], "a list", max_len=10)
    assert short == [CLS_ID, *first[: 7 - len(second)], SEP_ID, *second, SEP_ID] and len(short) == 10
    assert tokenizer.encode_pair("a list", TEXTS[0], max_len=10) == [
        CLS_ID,
        *second,
        SEP_ID,
        *first[: 7 - len(second)],
        SEP_ID,
    ]
    assert tokenizer.encode_pair("a list", max_len=99) == [CLS_ID, *second, SEP_ID]


def test_decoding_leaves_out_cls_sep_and_padding(tokenizer):
    token_ids = torch.tensor([CLS_ID, *tokenizer.encode("the list"), SENTINEL_IDS[0], SEP_ID, PAD_ID, PAD_ID])
    assert tokenizer.decode(token_ids) == "the list [SENTINEL0]"


def test_a_tokenizer_goes_to_str_and_back(tokenizer):
    again = BPETokenizer.from_str(tokenizer.to_str())
    assert again.to_str() == tokenizer.to_str() and again.encode(TEXTS[1]) == tokenizer.encode(TEXTS[1])
    assert again.tokens(range(len(SPECIAL_TOKENS))) == list(SPECIAL_TOKENS) and len(again) == 140


def test_a_vocabulary_needs_room_for_all_characters():
    with pytest.raises(ValueError, match=r"a vocab_size of at least \d+ for \d+ characters, got 30"):
        train_bpe(TEXTS, 30)

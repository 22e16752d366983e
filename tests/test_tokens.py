"""Facts about tokens, vocabularies and batches, and about reading real pairs from files."""

import re
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from utils.data.phrases import Corpus, Pair, corpus
from utils.data.tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID, Vocabulary, batches, collate, join, split
from utils.data.translation_files import TranslationError, parse_pairs, read_pairs


@cache
def small() -> Corpus:
    return corpus(train=3000)


@cache
def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    pairs = small().train
    return Vocabulary.build([pair.english for pair in pairs]), Vocabulary.build([pair.french for pair in pairs])


# Splitting and joining


@pytest.mark.parametrize("language", ["english", "french"])
def test_joining_undoes_splitting_on_the_corpus(language):
    for part in (small().train, small().longer):
        for pair in part:
            tokens = list(getattr(pair, language))
            text = join(tokens, language)
            assert split(text, language) == tokens
            assert join(split(text, language), language) == text


@pytest.mark.parametrize(
    "language, text, tokens",
    [
        ("french", "L'homme ne dort pas.", "l' homme ne dort pas ."),
        ("french", "Aujourd’hui, c’est l’été !", "aujourd'hui , c' est l' été !"),
        ("french", "Qu'est-ce qu’elle a dit ?", "qu' est-ce qu' elle a dit ?"),
        ("french", "e\u0301te\u0301", "été"),  # accents that came as characters of their own
        ("english", "I don’t know: the king's well-known.", "i don't know : the king's well-known ."),
        ("english", 'He said "1,000.5" (or more)', 'he said " 1,000.5 " ( or more )'),
        ("english", "", ""),
    ],
)
def test_real_text_is_lowered_and_its_marks_are_split_off(language, text, tokens):
    assert split(text, language) == tokens.split()


@given(st.text(max_size=60), st.sampled_from(["english", "french"]))
def test_splitting_loses_nothing_but_spaces_and_case(text, language):
    tokens = split(text, language)
    assert all(token and not re.search(r"\s", token) for token in tokens)
    again = split(" ".join(tokens), language)
    assert "".join(again) == "".join(tokens)
    assert split(join(tokens, language), language) == split(join(again, language), language)


# Vocabulary


def test_frequent_words_come_first_and_tokens_end_at_the_end_without_padding_and_start():
    words = Vocabulary.build([("b", "a", "c"), ("c", "d")])
    assert words.words[4:] == ("c", "a", "b", "d")
    assert words.words[:4] == SPECIAL_TOKENS and words.encode(["c", "x"]) == [4, UNK_ID]
    assert words.out_of_vocabulary(["x", "c", "y", "x"]) == ["x", "y"]
    assert words.decode([BOS_ID, 4, UNK_ID, 5, EOS_ID, 4, PAD_ID]) == ["c", "<unk>", "a"]
    with pytest.raises(ValueError, match="expected token ids from 0 to 7, got 8"):
        words.decode([8])


# Batches


def test_a_batch_holds_the_pairs_with_start_end_and_masks():
    english, french = Vocabulary(["the", "dogs", "sleep"]), Vocabulary(["les", "chiens", "dorment"])
    pairs = [Pair(("the", "dogs", "sleep"), ("les", "chiens")), Pair(("dogs",), ("chiens", "dorment", "fort"))]
    batch = collate(pairs, english, french)
    assert batch.source.tolist() == [[4, 5, 6, EOS_ID], [5, EOS_ID, PAD_ID, PAD_ID]]
    assert batch.source_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.target_in.tolist() == [[BOS_ID, 4, 5, PAD_ID], [BOS_ID, 5, 6, UNK_ID]]
    assert batch.target_out.tolist() == [[4, 5, EOS_ID, PAD_ID], [5, 6, UNK_ID, EOS_ID]]
    assert batch.target_mask.tolist() == [[True, True, True, False], [True] * 4]
    assert batch.source.dtype == batch.target_in.dtype == batch.target_out.dtype == torch.long
    assert batch.source_mask.dtype == batch.target_mask.dtype == torch.bool


def test_every_pair_is_in_one_batch_and_target_out_is_target_in_one_step_on():
    english, french = vocabularies()
    pairs = small().train[:1001]
    made = list(batches(pairs, english, french, 64, torch.Generator().manual_seed(1)))
    decoded = []
    for batch in made:
        assert torch.equal(batch.source_mask, batch.source != PAD_ID)
        assert torch.equal(batch.target_mask, batch.target_in != PAD_ID)
        assert torch.equal(batch.target_mask, batch.target_out != PAD_ID)
        assert (batch.target_in[:, 0] == BOS_ID).all()
        before_end = batch.target_out[:, :-1]
        assert torch.equal(batch.target_in[:, 1:], before_end.masked_fill(before_end == EOS_ID, PAD_ID))
        for token_ids, mask in ((batch.source, batch.source_mask), (batch.target_out, batch.target_mask)):
            assert torch.equal((token_ids == EOS_ID).sum(1), torch.ones(len(token_ids), dtype=torch.long))
            assert (token_ids.gather(1, mask.sum(1, keepdim=True) - 1) == EOS_ID).all()
        for source, target in zip(batch.source, batch.target_out, strict=True):
            decoded.append((tuple(english.decode(source)), tuple(french.decode(target))))
    assert len(made) == 16 and sorted(decoded) == sorted((pair.english, pair.french) for pair in pairs)
    # Pairs of like length share a batch: in the order of the corpus more than a third would be padding.
    padding = 1 - sum(int(batch.source_mask.sum()) for batch in made) / sum(batch.source.numel() for batch in made)
    unsorted = collate(pairs[:64], english, french).source_mask
    assert padding < 0.05 < 0.3 < 1 - unsorted.float().mean()


# Files of real pairs


def test_pairs_are_read_with_further_columns_blank_lines_and_windows_line_ends():
    text = "\ufeffGo.\tVa !\tCC-BY (someone)\r\n\r\nI’m here.\tJe suis là.\n \n"
    assert parse_pairs(text) == [
        Pair(("go", "."), ("va", "!")),
        Pair(("i'm", "here", "."), ("je", "suis", "là", ".")),
    ]


def test_long_pairs_can_be_left_out():
    text = "a b c\tun deux\na\tun deux trois\na\tun\n"
    assert len(parse_pairs(text, max_len=2)) == 1
    assert len(parse_pairs(text, max_len=3)) == 3
    with pytest.raises(TranslationError, match="all 3 pairs have more than 1 tokens; give a larger `max_len`"):
        parse_pairs(text.replace("a\tun\n", "a b\tun\n"), max_len=1)


@pytest.mark.parametrize(
    "text, message",
    [
        ("go\tva\nstop\n", r"text:2: expected `english<TAB>french`, got no tab in 'stop'"),
        ("go\tva\n\tva\n", r"text:2: expected text on both sides of the tab, got '\\tva'"),
        ("", r"text: expected lines `english<TAB>french`, got an empty text"),
    ],
)
def test_a_line_that_is_no_pair_is_named(text, message):
    with pytest.raises(TranslationError, match=message):
        parse_pairs(text)


def test_a_folder_is_read_in_the_order_of_its_files_and_what_cannot_be_read_is_explained(tmp_path):
    with pytest.raises(TranslationError, match=r"none\.tsv: there is no such file"):
        read_pairs(tmp_path / "none.tsv")
    with pytest.raises(TranslationError, match=r"expected files ending in \.tsv or \.txt, got none"):
        read_pairs(tmp_path)
    for name, pair in {"b.txt": "two\tdeux", "a.tsv": "one\tun", "about.md": "no pairs"}.items():
        (tmp_path / name).write_text(pair, encoding="utf-8")
    assert [pair.english for pair in read_pairs(tmp_path)] == [("one",), ("two",)]
    (tmp_path / "latin.txt").write_bytes("go\tva\nsummer\tété\n".encode("latin-1"))
    with pytest.raises(TranslationError, match=r"latin\.txt:2: expected text in UTF-8, got .*; save it as UTF-8"):
        read_pairs(tmp_path / "latin.txt")

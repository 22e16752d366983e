"""Facts about reading the bAbI format and about the tensors made of it."""

import re
import string

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from utils.data.babi import BabiError, Question, parse, published_files, read_babi, words
from utils.data.story_tensors import MAX_MEMORIES, StoryVocabulary, UnknownWord, as_tensors

STORY = "1 Tom took the lamp.\n2 Tom got the rope.\n3 What is Tom carrying? \tlamp,rope\t2 1\n4 Tom left the rope."


# The format


def test_line_ends_and_spaces_do_not_matter():
    for old, new in (("\n", "\r\n"), ("\n", "\r"), ("\n", "\n\n"), ("\n", " \n"), ("? \t", "?\t"), ("\t", " \t ")):
        assert parse(STORY.replace(old, new) + "\n\n  \n") == parse(STORY)


def test_words_keep_apostrophes_and_lose_marks_and_capitals():
    assert words("What is Lily's color?") == ["what", "is", "lily's", "color"]
    assert words("Fred picked up the football there.") == ["fred", "picked", "up", "the", "football", "there"]
    assert words("The twenty-first box, or 'crate'.") == ["the", "twenty-first", "box", "or", "crate"]
    assert words("?!. _ -") == []


# What is malformed


@pytest.mark.parametrize("text, line, part", [
    ("1 A b.\nC d.\n", 2, "expected a line number and a sentence, got 'C d.'"),
    ("1 A b.\n\n3 C d.\n", 3, "expected line number 2 or a new story, got 3"),
    ("1 A b.\n" + "9" * 5000 + " C d.\n", 2, "expected a line number and a sentence, got '99"),
    ("1 A b.\n2 ...\n", 2, "expected a sentence after the number, got '...'"),
    ("1 A b.\n2 Where is a?\tb\n", 2, "expected `question?<TAB>answer<TAB>supporting lines`"),
    ("1 A b.\n2 Where is a? b 1\n3 Q?\tx\t1\n", 2, "expected `question?<TAB>answer<TAB>supporting lines`"),
    ("1 A b.\n2 Q?\tx\t1\n3 R?\ty\t2\n", 3, "supporting line 2 is no statement before this question"),
    ("1 A b.\n2 C d.\n1 E f.\n2 Q?\tx\t2\n", 4, "supporting line 2 is no statement before this question"),
    ("1 A b.\n2 Q?\tx\t" + "9" * 5000, 2, "is no statement before this question"),
])  # fmt: skip
def test_what_is_malformed_is_reported_with_file_and_line(tmp_path, text, line, part):
    path = tmp_path / "story.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BabiError) as error:
        read_babi(path)
    assert str(error.value).startswith(f"{path}:{line}: ") and part in str(error.value)
    assert len(str(error.value)) < len(str(path)) + 400


def test_a_text_file_is_read_and_anything_else_is_refused_by_name(tmp_path):
    with pytest.raises(BabiError, match=re.escape(f"{tmp_path / 'no.txt'}: there is no such file")):
        read_babi(tmp_path / "no.txt")
    with pytest.raises(BabiError, match=re.escape(f"{tmp_path}: ") + ".*folder"):
        read_babi(tmp_path)
    path = tmp_path / "qa8_lists-sets_train.txt"
    path.write_text("1 A b.\n2 C d.\n", encoding="utf-8")
    with pytest.raises(BabiError, match=re.escape(f"{path}: no question found; a question line has a tab")):
        read_babi(path)
    path.write_bytes(b"1 A b.\n2 C \xff.\n")
    with pytest.raises(BabiError, match=re.escape(f"{path}:2: expected text in UTF-8")):
        read_babi(path)
    path.write_bytes(STORY.replace("\n", "\r\n").encode("utf-8-sig"))
    assert read_babi(path) == read_babi(str(path)) == parse(STORY)


def names(files):
    return [path.name for path in files]


def test_published_files_are_found_by_task_and_numbers_do_not_mix(tmp_path):
    expected = {1: "qa1_single-supporting-fact", 16: "qa16_basic-induction"}
    for name in expected.values():
        for part in ("train", "test"):
            (tmp_path / f"{name}_{part}.txt").touch()
    for task, name in expected.items():
        assert names(published_files(str(tmp_path), task)) == [f"{name}_train.txt", f"{name}_test.txt"]
    with pytest.raises(BabiError, match="expected a file qa20_agents-motivations_train.txt; there is none"):
        published_files(tmp_path, 20)
    (tmp_path / "qa16_basic-induction_test.txt").unlink()
    with pytest.raises(BabiError, match="expected a file qa16_basic-induction_test.txt; there is none"):
        published_files(tmp_path, 16)
    with pytest.raises(BabiError, match="nowhere: there is no such folder"):
        published_files(tmp_path / "nowhere", 1)


def test_the_published_name_is_preferred_where_an_archive_has_extra_files(tmp_path):
    for name in ("qa5_a_train", "qa5_b_train", "qa5_a_test"):
        (tmp_path / f"{name}.txt").touch()
    with pytest.raises(BabiError, match="several files for task 5, train: qa5_a_train.txt, qa5_b_train.txt"):
        published_files(tmp_path, 5)
    (tmp_path / "qa5_three-arg-relations_train.txt").touch()
    assert names(published_files(tmp_path, 5)) == ["qa5_three-arg-relations_train.txt", "qa5_a_test.txt"]


# Fuzz: lines that are nearly right, and text that is not

fragments = st.sampled_from(
    ["1", "2", "3", "?", ".", "lamp,rope", "²", "٣", "\x00"]
    + [" ", "\t", "\n", "\r\n", "\x85", "1 A b.\n", "2 Q?\tx\t1\n"]
)


@settings(deadline=None)
@given(st.lists(fragments, max_size=30).map("".join) | st.text(max_size=80))
@example("1 A b.\n2 Q?\tx\t²")
@example("1 A b.\n٢ Q?\tx\t١")
@example("9" * 5000 + " a")
@example("1 A\n2 Q?\tx\t" + "1" * 5000)
def test_any_text_is_read_or_refused_by_name(text):
    try:
        questions = parse(text, "fuzz")
    except BabiError as error:
        assert re.match(r"fuzz:\d+: .|fuzz: no question", str(error), re.DOTALL)
    else:
        assert questions
        for item in questions:
            assert item.answer and words(item.question) and all(map(words, item.story))
            assert all(0 <= fact < len(item.story) for fact in item.facts)


plain = st.text(string.ascii_letters, min_size=1, max_size=5)
sentences = st.lists(plain, min_size=1, max_size=4).map(" ".join)


@settings(deadline=None)
@given(st.lists(st.tuples(sentences, st.booleans(), st.data()), min_size=1, max_size=12))
def test_whatever_is_written_in_the_format_is_read_back(entries):
    lines, statements, expected = [], [], []
    for number, (sentence, is_question, data) in enumerate([*entries, ("end", True, entries[0][2])], 1):
        if is_question:
            facts = data.draw(st.lists(st.integers(0, len(statements) - 1), max_size=3)) if statements else []
            lines.append(f"{number} {sentence}? \tyes,no\t{' '.join(str(statements[fact][0]) for fact in facts)}")
            story = tuple(statement for _, statement in statements)
            expected.append(Question(story, f"{sentence}?", "yes,no", tuple(facts)))
        else:
            statements.append((number, f"{sentence}."))
            lines.append(f"{number} {sentence}.")
    assert parse("\n".join(lines + lines)) == expected + expected, "each story counts from 1"


# Tensors


def three_questions() -> list[Question]:
    """Stories of 1, 3 and 2 statements, sentences of 2 to 5 words."""
    return [
        Question(("Tom left.",), "Who left?", "tom", (0,)),
        Question(("Tom left.", "Anne took the old lamp.", "Anne left."), "Who left last?", "anne", (2, 0)),
        Question(("Anne left.", "Tom took it."), "What did he take?", "lamp,rope", ()),
    ]


def test_a_vocabulary_holds_each_word_once_and_an_answer_of_several_words_as_one():
    vocabulary = StoryVocabulary.build(three_questions())
    assert vocabulary.words == sorted(set(vocabulary.words)) and len(vocabulary) == len(vocabulary.words)
    assert "lamp,rope" in vocabulary and "rope" not in vocabulary
    assert [vocabulary.words[number] for number in vocabulary.encode("Tom took the!")] == ["tom", "took", "the"]


def test_unknown_words_are_named_together_with_the_known_ones():
    vocabulary = StoryVocabulary(["tom", "left"])
    with pytest.raises(UnknownWord, match=r"never saw the word 'mary' in 'Mary left\.'; it knows: left, tom"):
        vocabulary.encode("Mary left.")
    with pytest.raises(UnknownWord, match=r"never saw the words 'mary', 'sang' in"):
        vocabulary.encode("Mary sang.")


def test_tensors_have_a_row_for_each_question_and_say_which_memories_are_filled():
    asked = three_questions()
    vocabulary = StoryVocabulary.build(asked)
    data = as_tensors(asked, vocabulary)
    assert len(data) == 3 and data.story.shape == (3, 3, 5) and data.question.shape == (3, 5)
    assert data.mask.tolist() == [[True, False, False], [True, True, True], [True, True, False]]
    assert data.age[data.mask].tolist() == [0, 2, 1, 0, 1, 0]
    assert data.fact.tolist() == [[True, False, False], [True, False, True], [False, False, False]]
    assert data.cut == 0
    assert [vocabulary.words[number] for number in data.answer] == ["tom", "anne", "lamp,rope"]
    assert data.mask.dtype == data.fact.dtype == torch.bool
    assert data.story.dtype == data.question.dtype == data.answer.dtype == data.age.dtype == torch.long


def counted(length: int, facts: tuple[int, ...] = ()) -> Question:
    return Question(tuple(f"Step {index}." for index in range(length)), "Step?", "step", facts)


def test_a_memory_holds_the_last_fifty_statements_or_none():
    asked = [counted(224, facts=(223, 174, 173, 0)), counted(50, facts=(0,)), counted(3)]
    vocabulary = StoryVocabulary.build(asked)
    data = as_tensors(asked, vocabulary)
    assert MAX_MEMORIES == 50 and data.story.shape[1] == 50
    for row, first, count in ((0, 174, 50), (1, 0, 50), (2, 0, 3)):
        numbers = [int(vocabulary.words[number]) for number in data.story[row, data.mask[row], 1]]
        assert numbers == list(range(first, first + count))
        assert data.age[row, :count].tolist() == list(range(count - 1, -1, -1))
    assert data.fact[0].nonzero().flatten().tolist() == [0, 49]  # 174 is the oldest that is kept
    assert data.fact[1].nonzero().flatten().tolist() == [0]
    assert data.cut == 2 / 5
    (asked,) = parse("1 Who is it?\tnobody\t")
    data = as_tensors([asked], StoryVocabulary.build([asked]))
    assert data.story.shape == (1, 1, 3) and not data.mask.any() and data.cut == 0

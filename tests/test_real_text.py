"""Facts about the real text that comes with Python, and about its split."""

import pytest
import torch

from utils.data import real_text
from utils.data.real_text import (
    UNKNOWN_CHARACTER,
    CharTokenizer,
    NoText,
    paragraphs,
    split_documents,
    topics,
    windows,
    without_tables,
)


@pytest.fixture(scope="module")
def manual():
    return topics()


def test_the_manual_is_what_help_itself_shows_without_its_tables(manual):
    from pydoc_data.topics import topics as imported

    assert manual.keys() == imported.keys()
    for name, page in imported.items():
        gone = [line for line in page.strip().splitlines() if line not in manual[name].splitlines()]
        assert all(line.strip()[0] in "|+" for line in gone), name
    assert len(manual) > 60 and "|" in imported["typesseq"] and "+---" not in manual["typesseq"]


def test_only_drawn_tables_are_left_out():
    text = "a | b\n  +----+\n  | x  |\n  +====+\n+1 or -1\n\nend"
    assert without_tables(text) == "a | b\n+1 or -1\n\nend"


def test_a_python_without_the_manual_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(real_text, "library_folder", lambda: tmp_path)
    with pytest.raises(NoText, match="came without it"):
        topics()
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "topics.py").write_text("other = 1\n", encoding="utf-8")
    with pytest.raises(NoText, match="keeps them elsewhere"):
        topics()
    (tmp_path / "pydoc_data" / "topics.py").write_text("topics: dict = {'a': ' b '}\n", encoding="utf-8")
    assert topics() == {"a": "b"}


def test_no_paragraph_is_both_trained_on_and_held_out(manual):
    training, held_out = split_documents(manual)
    trained, tested = (
        {" ".join(paragraph.split()) for text in part for paragraph in paragraphs(text)}
        for part in (training, held_out)
    )
    assert trained and tested and not trained & tested
    assert 0.07 < sum(map(len, held_out)) / sum(map(len, training + held_out)) < 0.25


def test_the_split_holds_out_whole_documents_and_is_always_the_same():
    documents = {f"d{i}": f"text {i}\n\ncommon to all\n\nmore {i}" for i in range(10, 50)}
    training, held_out = split_documents(documents)
    assert (training, held_out) == split_documents(dict(reversed(documents.items())))
    assert len(held_out) == 4 and len(training) == 36
    everything = "\n\n".join(training + held_out)
    assert everything.count("common to all") == 1 and "common to all" in held_out[0]
    for i in range(10, 50):
        assert everything.count(f"text {i}\n") == 1


def test_characters_are_encoded_and_decoded_and_rare_ones_are_out_of_vocabulary():
    characters = CharTokenizer.build(["abba", "cab"], min_frequency=2)
    assert characters.characters == (UNKNOWN_CHARACTER, "a", "b")
    assert characters.encode("abc").tolist() == [1, 2, 0] and len(characters) == 3
    assert characters.decode(characters.encode("baab")) == "baab"
    assert characters.decode(characters.encode("bac")) == "ba" + UNKNOWN_CHARACTER


def test_every_token_but_the_first_is_the_target_of_one_window():
    rows = windows([torch.arange(11), torch.arange(100, 103), torch.arange(20, 25)], 4)
    assert rows.tolist() == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [20, 21, 22, 23, 24]]

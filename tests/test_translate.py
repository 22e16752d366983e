"""Facts about the command that compares translation models on pairs of the user's own."""

import pytest

from utils.data.phrases import as_line, corpus
from utils.training import translate
from utils.training.translation import pairs_and_words


@pytest.fixture
def pairs_file(tmp_path):
    """120 pairs of the course's grammar as a file of real ones would have them; one sentence has two translations."""
    lines = [as_line(pair) for pair in corpus(train=120, validation=1, test=1, longer=1, seed=5).train]
    english = lines[0].split("\t")[0]
    path = tmp_path / "fra.txt"
    path.write_text("".join([*lines, f"{english}\tune autre traduction\tsource\n"]), encoding="utf-8")
    return path


def test_the_test_pairs_are_held_out_and_a_sentence_keeps_its_first_translation(pairs_file):
    train, test = translate.read_corpus(str(pairs_file), max_len=30)
    assert (len(train), len(test)) == (108, 12)
    assert not {pair.english for pair in train} & {pair.english for pair in test}
    assert not [pair for pair in (*train, *test) if "traduction" in pair.french]
    assert translate.read_corpus(str(pairs_file), max_len=30) == (train, test)
    short, _ = translate.read_corpus(str(pairs_file), max_len=8)
    assert 0 < len(short) < len(train) and max(len(pair.english) for pair in short) == 8


def test_the_command_compares_four_models_on_a_file(pairs_file, capsys):
    assert translate.main(["--pairs", str(pairs_file), "--steps", "2", "--seeds", "2", "--words", "40"]) == 0
    out = capsys.readouterr().out
    assert "44 English and 44 French tokens" in out and " 0.0 % of the test words" not in out
    head, *rows = out.strip().splitlines()[-5:]
    assert head.split("  ")[0] == "model" and "BLEU" in head and "alignment" not in head
    assert [row.split("  ")[0] for row in rows] == ["no attention", "dot", "multiplicative", "additive"]


def test_the_course_corpus_has_gold_alignments(capsys, monkeypatch):
    monkeypatch.setattr(translate, "pairs_and_words", lambda: pairs_and_words(60))
    assert translate.main(["--steps", "1"]) == 0
    head, none, dot, *_ = capsys.readouterr().out.strip().splitlines()[-5:]
    assert "alignment error, %" in head and none.split()[4] == "-" and float(dot.split()[3]) > 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such file"),
        ("the dog\tle chien\nthe cat le chat\n", ":2: expected `english<TAB>french`, got no tab"),
        ("the dog\tle chien\n", "expected at least 20 different sentences"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, capsys, text, message):
    path = tmp_path / "fra.txt"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert translate.main(["--pairs", str(path)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(str(path)) and message in told

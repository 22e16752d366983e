"""The bank of answers: no wrong answer is accepted, no right one refused, and mistakes are named.

A sample of it; `python -m tests.audit verdicts` judges every answer and every model of a mistake.
"""

import hashlib

import pytest

from tests import bank
from tests.audit import answers, verdicts
from tests.bank import Entry, answers_to, entries, kind_of, sample
from tests.bank.__main__ import main
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import Handle, exercise, exercises_of, find, grade

REGISTERED = [item.id for lesson in LESSONS for item in exercises_of(lesson.number)]
MISTAKES = 4  # of each exercise


@pytest.mark.parametrize("exercise_id", REGISTERED)
def test_every_exercise_has_five_wrong_and_two_right_answers(exercise_id):
    assert len(answers_to(exercise_id, "failed")) >= 5, "add one: python -m tests.bank add --help"
    assert len(answers_to(exercise_id, "passed")) >= 2


def test_every_answer_belongs_to_an_exercise_and_has_a_name_of_its_own():
    assert {entry.exercise for entry in entries()} <= set(REGISTERED)
    assert len({(entry.exercise, entry.name) for entry in entries()}) == len(entries())
    assert {entry.expected for entry in entries()} == {("passed", None), ("failed", "specific"), ("failed", "generic")}


@pytest.mark.parametrize("exercise_id", REGISTERED)
def test_answers_get_their_verdict_in_both_forms_of_isolation(exercise_id):
    for index, entry in enumerate(sample(exercise_id)):
        result = grade(exercise_id, entry.build(), in_process=index % 2 == 1)
        assert (result.status, kind_of(result)) == entry.expected, f"{entry.name}: {result}"


@pytest.mark.parametrize("exercise_id", REGISTERED)
def test_the_reference_passes_its_own_check(exercise_id):
    result = grade(exercise_id, find(exercise_id).reference, in_process=True)
    assert result.status == "passed", str(result)


@pytest.mark.parametrize("exercise_id", REGISTERED)
def test_models_of_mistakes_get_their_own_message(exercise_id):
    mistakes = sorted(find(exercise_id).mistakes, key=lambda mistake: hashlib.sha256(mistake.message.encode()).digest())
    for mistake in mistakes[:MISTAKES]:
        result = grade(exercise_id, mistake.wrong, in_process=True)
        assert (result.status, result.message) == ("failed", mistake.message)


# The commands and the audits that use the bank


def test_an_answer_is_added_only_with_the_verdict_that_it_gets(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bank, "FOLDER", tmp_path)
    entries.cache_clear()
    file = tmp_path / "sum_alone.py"
    code = "def answer(numbers):\n    return numbers.sum()\n"
    file.write_text(code, encoding="utf-8")
    try:
        with pytest.raises(SystemExit, match="not added: expected passed, got failed"):
            main(["add", "0.1", str(file), "--verdict", "passed"])
        assert main(["add", "0.1", str(file), "--verdict", "failed"]) == 0
        assert entries() == (Entry("0.1", "sum alone", code, "failed", "specific"),)
        with pytest.raises(SystemExit, match="already has an answer named"):
            main(["add", "0.1", str(file), "--verdict", "failed"])
        capsys.readouterr()
        main(["show", "0.1"])
        assert capsys.readouterr().out == f"## 0.1 sum alone: failed, specific\n{code}\n"
    finally:
        entries.cache_clear()


def test_the_audit_notices_another_verdict_another_kind_and_an_answer_that_ends_the_process(monkeypatch):
    right, wrong = sample("0.1", 0, 1)[0], sample("0.1", 1, 0)[0]
    ends = "import os\nanswer = lambda numbers: os._exit(1)"
    changed = [
        Entry("0.1", "accepted", right.code, "failed", "specific"),
        Entry("0.1", "generic", wrong.code, "failed", {"specific": "generic"}.get(wrong.kind, "specific")),
        Entry("0.1", "ends", ends, "failed", "generic"),
    ]
    assert verdicts.exercise_row("0.1")["ok"]
    for entry in changed:
        monkeypatch.setattr(verdicts, "answers_to", lambda exercise_id, entry=entry: [right, entry, wrong])
        row = verdicts.exercise_row("0.1")
        assert not row["ok"] and row["said"].startswith(f"{entry.name}: expected failed")


def test_a_lesson_runs_on_with_another_right_answer(tmp_path):
    """`python -m tests.audit answers` does this with every lesson and every right answer."""
    assert answers.one_run("00_start_here", 0, str(tmp_path)) == ""


def test_a_right_answer_that_is_refused_ends_the_run(monkeypatch):
    used = []
    monkeypatch.setattr(Handle, "use", lambda self, answer: used.append(answer) or answer)
    answers.stand_in(1)
    assert exercise("1.1").use(None) is used[0] is not None
    monkeypatch.setattr(Handle, "use", lambda self, answer: None)
    answers.stand_in(0)
    with pytest.raises(AssertionError, match="right answer no. 1 of exercise 1.1 was refused"):
        exercise("1.1").use(None)


def test_a_lesson_of_which_one_run_failed_is_not_ok(monkeypatch):
    monkeypatch.setattr(answers, "one_run", lambda name, turn, cache: "it broke" if turn == 2 else "")
    row = answers.lesson_row("00_start_here", "")
    assert not row["ok"] and row["said"] == "it broke"

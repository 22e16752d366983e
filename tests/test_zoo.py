"""No wrong answer is accepted, no right one refused, and each mistake hears about itself."""

import importlib
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.audit import answers
from tests.zoo import Zoo
from utils.course.exercises import Handle, exercise, exercises_of, find, grade
from utils.course.lessons import LESSONS


def all_zoos() -> dict[str, Zoo]:
    zoos = {}
    for file in sorted(Path(__file__).with_name("zoo").glob("lesson*.py")):
        zoos.update(importlib.import_module(f"tests.zoo.{file.stem}").ZOO)
    return zoos


ZOOS = all_zoos()
REGISTERED = [item.id for lesson in LESSONS for item in exercises_of(lesson.number)]
WRONG = [(name, index) for name, zoo in ZOOS.items() for index in range(len(zoo.wrong))]
RIGHT = [(name, index) for name, zoo in ZOOS.items() for index in range(len(zoo.right))]
MODELS = [(name, index) for name in REGISTERED for index in range(len(find(name).mistakes))]


@cache
def verdict(exercise_id: str, index: int):
    """Every second one in the form of isolation that is used where there is no fork."""
    return grade(exercise_id, ZOOS[exercise_id].wrong[index][0], in_process=index % 2 == 1)


def test_there_are_exercises_to_test():
    assert REGISTERED


@pytest.mark.parametrize("exercise_id", REGISTERED)
def test_every_exercise_has_five_wrong_and_two_right_answers(exercise_id):
    assert exercise_id in ZOOS, f"add exercise {exercise_id} to tests/zoo"
    zoo = ZOOS[exercise_id]
    assert len(zoo.wrong) >= 5
    assert len({part for _, part in zoo.wrong}) >= 5, "five different mistakes, each with a message of its own"
    assert len(zoo.right) >= 2


def test_every_animal_belongs_to_an_exercise():
    assert set(ZOOS) <= set(REGISTERED)


@pytest.mark.parametrize(("exercise_id", "index"), WRONG)
def test_a_wrong_answer_is_refused_in_the_right_words(exercise_id, index):
    result = verdict(exercise_id, index)
    assert result.status == "failed", f"accepted: {ZOOS[exercise_id].wrong[index][0]}"
    without_the_quoted_line = re.sub(r", at line \d+: `.*`", "", result.message)  # it may hold the very words
    assert ZOOS[exercise_id].wrong[index][1] in without_the_quoted_line
    assert "bug of its own" not in result.message


@pytest.mark.parametrize("exercise_id", sorted(ZOOS))
def test_messages_tell_mistakes_apart(exercise_id):
    heard = defaultdict(set)
    for index, (_, part) in enumerate(ZOOS[exercise_id].wrong):
        heard[verdict(exercise_id, index).message.split("\n")[0]].add(part)
    for message, parts in heard.items():
        assert len(parts) == 1, f"one message, {message!r}, for several mistakes: {sorted(parts)}"


@pytest.mark.parametrize(("exercise_id", "index"), RIGHT)
def test_a_right_answer_is_accepted(exercise_id, index):
    result = grade(exercise_id, ZOOS[exercise_id].right[index])
    assert result.status == "passed", str(result)


def test_a_lesson_runs_on_with_another_right_answer(tmp_path):
    """`make audit` does this with every lesson and every right answer."""
    assert answers.one_run("00_start_here", 0, str(tmp_path)) == ""


def test_the_stand_in_answers_every_exercise_and_an_answer_that_is_refused_ends_the_run(monkeypatch):
    used = []
    monkeypatch.setattr(Handle, "use", lambda self, answer: used.append(answer) or answer)
    answers.stand_in(1)
    right = ZOOS["1.1"].right
    assert exercise("1.1").use(None) is right[1] and used == [right[1]]
    monkeypatch.setattr(Handle, "use", lambda self, answer: None)
    answers.stand_in(0)
    with pytest.raises(AssertionError, match="right answer no. 1 of exercise 1.1 was refused"):
        exercise("1.1").use(right[0])


def test_a_lesson_of_which_one_run_failed_is_not_ok(monkeypatch):
    monkeypatch.setattr(answers, "one_run", lambda name, turn, cache: "it broke" if turn == 2 else "")
    row = answers.lesson_row("00_start_here", "")
    assert not row["ok"] and row["said"] == "it broke"
    monkeypatch.setattr(answers, "one_run", lambda name, turn, cache: "")
    assert answers.lesson_row("00_start_here", "")["ok"]


@pytest.mark.parametrize("exercise_id", REGISTERED)
def test_the_reference_passes_its_own_check_in_both_forms_of_isolation(exercise_id):
    for in_process in (False, True):
        result = grade(exercise_id, find(exercise_id).reference, in_process=in_process)
        assert result.status == "passed", str(result)


@pytest.mark.parametrize(("exercise_id", "index"), MODELS)
def test_every_model_of_a_mistake_hears_its_own_message(exercise_id, index):
    mistake = find(exercise_id).mistakes[index]
    result = grade(exercise_id, mistake.wrong, in_process=True)  # the course's own, so no process is needed for it
    assert result.status == "failed"
    assert result.message == mistake.message

"""The solutions generated from the lessons: edits of them are exact, and the library's own versions give the same."""

import re

import pytest
import torch

from utils.exercises import registry
from utils.exercises.edits import BODY, mistake
from utils.exercises.lessons import LESSONS
from utils.exercises.library import PATHS, library_version
from utils.exercises.registry import exercises_of, find, grade
from utils.exercises.solutions import EditError, Solution, module_of, read_solutions, solution_of
from utils.paths import ROOT

ALL = [item for lesson in LESSONS for item in exercises_of(lesson.number)]
SUMS = """import torch


# Exercise 1.1 · sums · easy · 5 min
class Sums:
    def first(self, x):
        ### BEGIN SOLUTION
        total = x.sum(-1)
        return total
        ### END SOLUTION

    def second(self, x):
        ### BEGIN SOLUTION
        return x.mean(-1)
        ### END SOLUTION
"""


@pytest.mark.parametrize("exercise_id", PATHS)
def test_the_librarys_version_passes_the_check_of_the_students(exercise_id):
    result = grade(exercise_id, library_version(exercise_id), in_process=True)
    assert result.passed, str(result)


@pytest.mark.parametrize("item", ALL, ids=lambda item: item.id)
def test_the_reference_is_the_solution_of_the_lesson_and_every_edit_fits_it(item):
    solution = solution_of(item.id)
    assert item.reference is getattr(module_of(item.id), solution.name)
    assert (item.title, item.level, item.minutes) == (solution.title, solution.level, solution.minutes)
    for known in item.mistakes:
        assert known.wrong is not item.reference
        assert not known.edits or solution.edited_source(known.edits) != solution.source, f"{known} changes nothing"


def sums() -> Solution:
    (solution,) = read_solutions(SUMS)
    return solution


def test_a_generated_module_says_what_the_student_writes():
    solution = sums()
    assert (solution.id, solution.title, solution.level, solution.minutes) == ("1.1", "sums", "easy", 5)
    assert solution.name == "Sums" and solution.methods == ["first", "second"]
    assert "SOLUTION" not in solution.code and "total = x.sum(-1)" in solution.code


def test_edits_replace_text_of_the_solution_alone_line_by_line_from_its_own_margin():
    edited = sums().edited_source(
        (("total = x.sum(-1)\nreturn total", "if True:\n    return x.sum()"), ("mean", "amax"))
    )
    assert "        if True:\n            return x.sum()\n        ### END" in edited and "return x.amax(-1)" in edited


@pytest.mark.parametrize("old", ["x", "def first", "product", BODY])
def test_an_edit_that_does_not_fit_exactly_once_is_an_error(old):
    with pytest.raises(EditError, match="exercise 1.1"):
        sums().edited_source(((old, "y"),))


def test_a_mistake_is_an_edit_several_or_a_function():
    assert mistake("a", "b", "message").edits == (("a", "b"),)
    assert mistake([("a", "b"), ("c", "d")], "message").edits == (("a", "b"), ("c", "d"))
    assert mistake(len, "message").wrong is len
    with pytest.raises(TypeError, match="old and a new text"):
        mistake("a", "message")


def test_the_exercise_that_the_contributors_guide_adds_works_as_it_stands(monkeypatch):
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    statement, definition = re.findall(
        r"```python\n# (?:notebooks/src|utils/exercises)/\S+\n(.*?)```", guide, re.DOTALL
    )
    (solution,) = read_solutions(statement)
    assert solution.code.partition("\n\n\n")[0] == solution_of("5.3").code
    monkeypatch.setitem(registry._REGISTER, "5.3", find("5.3"))
    exec(definition, {**vars(registry), "torch": torch, "mistake": mistake, "BODY": BODY})
    assert len(find("5.3").mistakes) == 3 and registry.faulty_mistakes(find("5.3")) == []

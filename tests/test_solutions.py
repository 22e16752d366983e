"""The solutions generated from the lessons: edits of them are exact, and the library's own versions give the same."""

import re

import pytest
import torch

from utils.build.solutions import callers, cell_ids
from utils.build.source import read_source
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


def test_the_callers_of_an_answer_are_the_later_cells_that_call_it_with_what_they_do(tmp_path):
    def exercise(number, name, body):
        stub = f"def {name}(x):\n    ### BEGIN SOLUTION\n    return {body}\n    ### END SOLUTION\n\n\n"
        return (
            f'# %%\n# Exercise 1.{number} · {name} · easy · 5 min\n{stub}{name} = exercise("1.{number}").use({name})\n'
        )

    def section(heading, *codes, tags=""):
        return "\n".join([f"# %% [markdown]\n# {heading}\n", *(f"# %%{tags}\n{code}\n" for code in codes)])

    source = tmp_path / "01_lesson.py"
    cells = [
        section("# A lesson", "from utils.plots import show\nfrom utils.widgets import plane\n"),
        section("## 1 · Sums"),
        exercise(1, "double", "2 * x"),
        section("Right below", "y = double(1)\nshow(y)\n"),
        exercise(2, "quadruple", "double(double(x))"),  # the student may write it without `double`
        section("### Widgets", "plane(double)\n", "def eight(x):\n    return 4 * double(x)\n"),
        section("### Exercise 1.3: training", "loss = eight(1)\nloss.backward()\nmodel.zero_grad()\n"),
        section("## 2 · A loop", "for _ in range(3):\n    eight(1).backward()\n    model.zero_grad()\n"),
        section("### Other names", "y = 1\nprint(y)\n", "print(quadruple(1))\n"),
        section("### Checks", "assert double(1) == 2\n", tags=' tags=["checks"]'),
        section("### No longer the answer", "double = 3\n", "print(double)\n"),
    ]
    source.write_text("\n".join(cells), encoding="utf-8")
    lesson = read_source(source)
    assert callers(lesson) == {
        "1.1": [
            *(("code", ""), ("figure", ""), ("widget", "Widgets"), ("code", "Training")),
            ("training loop", "A loop"),
        ],
        "1.2": [("code", "Other names")],
    }
    assert list(cell_ids(lesson)) == ["1.1", "1.2"]

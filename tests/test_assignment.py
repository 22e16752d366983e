"""Facts about `make assignment`: nbgrader takes what it writes, and gives points to right answers alone.

The audit sends every lesson through nbgrader, whole.
"""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.nbgraderformat import MetadataValidator
from traitlets.config import Config

from tests import cohort
from utils.build.source import exercise_of
from utils.exercises.registry import exercises_of
from utils.grading import assignment

NAME = "01_softmax_attention"


def marked(notebook, **wanted):
    cells = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    return [cell for cell in cells if all(cell.metadata.nbgrader[key] == value for key, value in wanted.items())]


@pytest.fixture(scope="module")
def assignments():
    return {name: assignment.assignment_of(name) for name in (NAME, "05_multi_head_attention")}


def test_every_exercise_has_one_answer_cell_and_a_locked_check_worth_points(assignments):
    for name, notebook in assignments.items():
        nbformat.validate(notebook)
        MetadataValidator().validate_nb(notebook)
        items = exercises_of(name[:2])
        answers, checks = marked(notebook, solution=True), marked(notebook, grade=True)
        assert [cell.metadata.nbgrader.grade_id for cell in answers] == [
            f"exercise-{item.id.replace('.', '-')}" for item in items
        ]
        assert [cell.metadata.nbgrader.points for cell in checks] == [assignment.POINTS[item.level] for item in items]
        for answer, check, item in zip(answers, checks, items, strict=True):
            assert check.metadata.nbgrader.locked and not answer.metadata.nbgrader.locked
            assert "### BEGIN SOLUTION" in answer.source and ".use(" not in answer.source
            assert check.source.index(f'grade("{item.id}"') < check.source.index(".use(") < check.source.index("assert")
        others = [cell for cell in notebook.cells if "nbgrader" not in cell.metadata]
        assert not any("BEGIN SOLUTION" in cell.source or exercise_of(cell) for cell in others)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Two exercises of lesson 01, released and graded by nbgrader: one answered, one left alone, its check edited to pass."""
    folder = tmp_path_factory.mktemp("nbgrader")
    (source,) = assignment.write([NAME], folder)
    notebook = nbformat.read(source, 4)
    kept = [*marked(notebook, solution=True)[:2], *marked(notebook, grade=True)[:2]]
    notebook.cells = [
        new_code_cell("import torch\n\nfrom utils.exercises import exercise"),
        *(c for c in notebook.cells if c in kept),
    ]
    nbformat.write(notebook, source)
    config = Config()
    config.CourseDirectory.root, config.CourseDirectory.db_url = str(folder), f"sqlite:///{folder}/gradebook.db"
    released = folder / "release" / NAME / f"{NAME}.ipynb"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COURSE_PROGRESS", str(folder / "progress.jsonl"))
        environment.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # nbgrader calls alembic
        api = NbGraderAPI(config=config)
        generated = api.generate_assignment(NAME)
        assert generated["success"], generated
        handed_in = nbformat.read(released, 4)
        marked(handed_in, grade_id="exercise-1-1")[0].source = cohort.RIGHT
        marked(handed_in, grade_id="check-1-2")[0].source = "assert True"
        target = folder / "submitted" / "sly" / NAME
        target.mkdir(parents=True)
        nbformat.write(handed_in, target / released.name)
        graded = api.autograde(NAME, "sly")
        assert graded["success"], graded
    return nbformat.read(released, 4), config.CourseDirectory.db_url


def test_a_right_answer_gets_every_point_and_an_untouched_one_none(course):
    with Gradebook(course[1]) as gradebook:
        (notebook,) = gradebook.find_submission(NAME, "sly").notebooks
        scores = {grade.name: (grade.score, grade.max_score) for grade in notebook.grades}
    assert scores == {"check-1-1": (1, 1), "check-1-2": (0, 1)}


def test_the_released_answer_is_the_stub_that_the_course_gives(course):
    stubs = cohort.exercise_cells(cohort.lesson("01"))
    for cell, name in zip(marked(course[0], solution=True), ("1.1", "1.2"), strict=True):
        assert cell.source.strip() == cohort.code_of(stubs[name]).rpartition("\n\n\n")[0].strip()


def test_a_changed_assignment_is_not_overwritten_unless_forced(tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    assert assignment.main(["01", *out]) == 0
    assert assignment.main(["01", *out]) == 0
    path = tmp_path / "source" / NAME / f"{NAME}.ipynb"
    path.write_text("mine", encoding="utf-8")
    capsys.readouterr()
    assert assignment.main(["01", *out]) == 2
    assert "--force" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine"
    assert assignment.main(["01", *out, "--force"]) == 0
    assert path.read_text(encoding="utf-8") != "mine"
    assert assignment.main(["77", *out]) == 2
    assert "There is no lesson 77" in capsys.readouterr().err

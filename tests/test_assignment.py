"""Facts about `make assignment`: nbgrader takes what it writes, and gives points to right answers alone."""

import json
import os

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.nbgraderformat import ValidatorV3
from traitlets.config import Config

from tests import cohort
from utils.course import assignment
from utils.course.build import HERE
from utils.course.exercises import exercises_of
from utils.course.source import exercise_of

NAME = "00_start_here"


def marked(notebook, **wanted):
    cells = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    return [cell for cell in cells if all(cell.metadata.nbgrader[key] == value for key, value in wanted.items())]


@pytest.fixture(scope="module")
def assignments():
    return {name: assignment.assignment_of(name) for name in HERE.names()}


def test_every_lesson_fits_nbgraders_format(assignments):
    for notebook in assignments.values():
        nbformat.validate(notebook)
        ValidatorV3().validate_nb(notebook)


def test_every_exercise_has_an_answer_and_a_locked_check_worth_points(assignments):
    for name, notebook in assignments.items():
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


def test_solutions_stand_nowhere_else_in_the_assignment(assignments):
    for notebook in assignments.values():
        others = [cell for cell in notebook.cells if "nbgrader" not in cell.metadata]
        assert not any("BEGIN SOLUTION" in cell.source or exercise_of(cell) for cell in others)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Lesson 00 without its picture, released and graded by nbgrader for a right student and one who edits the check."""
    folder = tmp_path_factory.mktemp("nbgrader")
    (source,) = assignment.write([NAME], folder)
    notebook = nbformat.read(source, 4)
    notebook.cells = [
        cell for cell in notebook.cells if "show(" not in cell.source and "check_environment()" not in cell.source
    ]
    nbformat.write(notebook, source)
    config = Config()
    config.CourseDirectory.root, config.CourseDirectory.db_url = str(folder), f"sqlite:///{folder}/gradebook.db"
    before = os.environ.get("COURSE_PROGRESS")
    os.environ["COURSE_PROGRESS"] = str(folder / "progress.jsonl")
    try:
        api = NbGraderAPI(config=config)
        results = {"generate": api.generate_assignment(NAME)}
        released = folder / "release" / NAME / f"{NAME}.ipynb"
        for student, change in (("right", solve), ("sly", let_pass)):
            handed_in = nbformat.read(released, 4)
            change(handed_in)
            place = folder / "submitted" / student / NAME
            place.mkdir(parents=True)
            nbformat.write(handed_in, place / released.name)
            results[student] = api.autograde(NAME, student)
    finally:
        os.environ.pop("COURSE_PROGRESS") if before is None else os.environ.update(COURSE_PROGRESS=before)
    return {
        "folder": folder,
        "results": results,
        "released": nbformat.read(released, 4),
        "db": config.CourseDirectory.db_url,
    }


def solve(notebook):
    (answer,) = marked(notebook, solution=True)
    answer.source = "def shares(numbers):\n    return numbers / numbers.sum()"


def let_pass(notebook):
    (check,) = marked(notebook, grade=True)
    check.source = "assert True"


def test_nbgrader_releases_and_grades_it(course):
    for step, result in course["results"].items():
        assert result["success"], (step, result.get("error") or result.get("log"))


def test_a_right_answer_gets_every_point_and_an_untouched_one_none(course):
    with Gradebook(course["db"]) as gradebook:
        scores = {one.student.id: (one.score, one.max_score) for one in gradebook.assignment_submissions(NAME)}
    assert scores == {"right": (1, 1), "sly": (0, 1)}


def test_the_released_answer_is_the_stub_that_the_course_gives(course):
    (answer,) = marked(course["released"], solution=True)
    (stub,) = cohort.exercise_cells(cohort.lesson("00")).values()
    assert answer.source.strip() == cohort.code_of(stub).partition("\n\n\n")[0].strip()
    assert "numbers.sum()" not in json.dumps(course["released"])


def test_a_changed_assignment_is_not_overwritten_unless_forced(tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    assert assignment.main(["00", *out]) == 0
    assert assignment.main(["00", *out]) == 0
    path = tmp_path / "source" / NAME / f"{NAME}.ipynb"
    path.write_text("mine")
    capsys.readouterr()
    assert assignment.main(["00", *out]) == 2
    assert "--force" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert assignment.main(["00", *out, "--force"]) == 0
    assert path.read_text() != "mine"


def test_an_unknown_lesson_is_refused_in_one_sentence(tmp_path, capsys):
    assert assignment.main(["77", "--out", str(tmp_path)]) == 2
    assert "There is no lesson 77" in capsys.readouterr().err

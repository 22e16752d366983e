"""Every lesson's notebooks: in step with the source, complete for a lecturer, open for a student."""

import ast

import nbformat
import pytest

from utils.course.build import HERE, check_in_sync, read_lesson, strays
from utils.course.lint import FEWEST_COMPARED, compared_cells, lint_lecture
from utils.course.source import BEGIN, END, STUB, TODO, exercise_ids, exercise_of, lecture_of, student_of

NAMES = HERE.names()


def lecture(name: str) -> nbformat.NotebookNode:
    return nbformat.read(HERE.lecture(name), as_version=4)


def student(name: str) -> nbformat.NotebookNode:
    return nbformat.read(HERE.student(name), as_version=4)


def test_there_are_lessons_and_no_notebooks_without_a_source():
    assert NAMES
    assert strays() == []


@pytest.mark.parametrize("name", NAMES)
def test_both_notebooks_are_exactly_what_their_source_gives(name):
    assert check_in_sync(name) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_lecture_keeps_to_the_rules_of_the_house(name):
    assert lint_lecture(HERE.lecture(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_lecture_has_outputs_that_are_compared(name):
    assert len(compared_cells(lecture(name))) >= FEWEST_COMPARED


@pytest.mark.parametrize("name", NAMES)
def test_a_lecture_passes_all_its_exercises(name):
    for cell in lecture(name).cells:
        exercise_id = exercise_of(cell)
        if exercise_id is not None:
            texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
            lines = [text.splitlines()[0] for text in texts if text.startswith(f"Exercise {exercise_id} ·")]
            assert [line.rpartition(": ")[2] for line in lines] == ["passed"], f"exercise {exercise_id}: {texts}"


@pytest.mark.parametrize("name", NAMES)
def test_a_lecture_shows_pictures_where_a_widget_was_and_no_widget_state(name):
    notebook = lecture(name)
    assert "widgets" not in notebook.metadata
    kinds = {kind for cell in notebook.cells for out in cell.get("outputs", ()) for kind in out.get("data", {})}
    assert not [kind for kind in kinds if "widget" in kind]


@pytest.mark.parametrize("name", NAMES)
def test_a_student_finds_no_outputs_and_no_solution(name):
    source = read_lesson(name)
    open_cells = {cell.id: cell.source for cell in student(name).cells}
    for cell in student(name).cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
            assert BEGIN not in cell.source and END not in cell.source
    solved = [cell for cell in lecture_of(source).cells if exercise_of(cell) is not None]
    assert exercise_ids(student(name)) == exercise_ids(source) and len(solved) == len(exercise_ids(source))
    for cell in solved:
        cut = open_cells[cell.id]
        assert TODO in cut
        gone = set(cell.source.splitlines()) - set(cut.splitlines())
        assert gone, f"nothing was cut from exercise {exercise_of(cell)}"


@pytest.mark.parametrize("name", NAMES)
def test_cut_stubs_are_valid_python_and_raise_or_stand_open(name):
    for cell in student_of(read_lesson(name)).cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)
            if exercise_of(cell) is not None:
                assert STUB in cell.source or f"= ...  {TODO}" in cell.source

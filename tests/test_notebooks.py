"""Every lesson's notebooks: in step with the source, complete for a lecturer, open for a student.

nbval runs them (see pyproject.toml), and conftest.py requires untouched exercises in every student notebook.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from utils.build import lab
from utils.build.lint import lint_lecture
from utils.build.notebooks import HERE, check_in_sync, read_lesson, strays
from utils.build.source import BEGIN, CHECKS, END, STUB, TODO, exercise_ids, exercise_of, lecture_of, student_of
from utils.paths import WORK
from utils.widgets.base import PAGE_VIEW

NAMES = HERE.names()


def lecture(name: str) -> nbformat.NotebookNode:
    return nbformat.read(HERE.lecture(name), as_version=4)


def test_there_are_lessons_and_no_notebooks_without_a_source():
    assert NAMES
    assert strays() == []


@pytest.mark.parametrize("name", NAMES)
def test_both_notebooks_are_exactly_what_their_source_gives(name):
    assert check_in_sync(name) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_lecture_keeps_the_rules_for_lessons(name):
    assert lint_lecture(HERE.lecture(name)) == []


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
    assert not [kind for kind in kinds if "widget" in kind and kind != PAGE_VIEW]


@pytest.mark.parametrize("name", NAMES)
def test_a_student_has_every_exercise_as_a_valid_stub_without_its_solution(name):
    source = read_lesson(name)
    student = student_of(source)
    assert exercise_ids(student) == exercise_ids(source)
    stubs = {cell.id: cell.source for cell in student.cells if cell.cell_type == "code"}
    for code in stubs.values():
        assert BEGIN not in code and END not in code
        ast.parse(code)
    for solved in filter(exercise_of, lecture_of(source).cells):
        stub = stubs[solved.id]
        assert f"{TODO}\n" in stub and STUB in stub or f"= ...  {TODO}" in stub
        assert set(solved.source.splitlines()) - set(stub.splitlines()), f"nothing was cut from {exercise_of(solved)}"
    assert not [cell for cell in student.cells if CHECKS in cell.metadata.get("tags", [])]


@pytest.mark.parametrize("name", NAMES)
def test_every_link_of_a_lesson_works_on_a_code_host_and_in_work(name):
    source = read_lesson(name)
    in_work = nbformat.reads(lab.for_work(json.dumps(student_of(source))), as_version=4)
    for notebook, folder in (
        (lecture_of(source), HERE.lectures),
        (student_of(source), HERE.students),
        (in_work, WORK),
    ):
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            path = Path(os.path.normpath(folder / target))
            if path.parent == WORK:  # `make lab` copies the student notebooks there
                path = HERE.students / path.name
            assert path.exists(), f"{folder.name}/{name}.ipynb links to {target}"


def test_the_first_cell_of_lesson_00_loads_neither_torch_nor_matplotlib():
    """They take seconds, and the first cell that a student ever runs should answer at once."""
    source = read_lesson("00_start_here")
    first = next(cell.source for cell in source.cells if cell.cell_type == "code")
    heavy = "import sys; print({'torch', 'matplotlib', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", f"{first}\n{heavy}"], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")

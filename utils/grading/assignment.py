"""`make assignment`: notebooks for nbgrader, generated from the sources of the lessons.

`python -m utils.grading.assignment [01 ...]` writes `assignment/source/NN_name/NN_name.ipynb` and
`assignment/nbgrader_config.py`. Each exercise becomes two cells: the answer, whose solution nbgrader removes, and a locked
cell with points, which calls the check of the course. `nbgrader generate_assignment NN_name` and `nbgrader autograde NN_name` do the rest.
"""

import argparse
import ast
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from utils.build.notebooks import HERE, read_lesson
from utils.build.source import exercise_of, student_of
from utils.exercises.registry import find
from utils.grading import Refused
from utils.paths import WORK

OUT = WORK.parent / "assignment"
POINTS = {"easy": 1, "medium": 2, "hard": 3}
CONFIG = '''"""Settings for nbgrader; run its commands in this folder."""

import os

os.environ["COURSE_PROGRESS"] = os.path.abspath("progress.jsonl")  # grading must not change the lecturer's own progress
c = get_config()  # noqa: F821 (defined by nbgrader)
c.CourseDirectory.course_id = "attention"
c.ExecutePreprocessor.timeout = 600  # seconds per cell: some lessons train
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\\nraise NotImplementedError()"}
'''


def assignment_of(name: str) -> NotebookNode:
    """A lesson as nbgrader's source form: the student notebook, with solutions between their marks and checks of their own."""
    source = read_lesson(name)
    whole = {cell.id: cell for cell in source.cells}
    notebook = student_of(source)
    notebook.cells = [
        made for cell in notebook.cells for made in (_exercise(whole[cell.id]) if exercise_of(cell) else [cell])
    ]
    return notebook


def _exercise(cell: NotebookNode) -> list[NotebookNode]:
    """The cell of an exercise as two: the answer, and its check."""
    exercise_id = exercise_of(cell)
    use = _use(cell.source)
    lines = cell.source.split("\n")
    using = "\n".join(lines[use.lineno - 1 : use.end_lineno])
    answer = "\n".join(lines[: use.lineno - 1] + lines[use.end_lineno :]).rstrip()
    points = POINTS[find(exercise_id).level]
    slug = exercise_id.replace(".", "-")
    check = _check(exercise_id, ast.unparse(use.value.args[0]), using, points)
    return [
        _cell(answer, f"{cell.id}", f"exercise-{slug}", solution=True),
        _cell(check, f"{cell.id}-check"[-64:], f"check-{slug}", points=points),
    ]


def _use(source: str) -> ast.Assign:
    """The statement `name = exercise("id").use(name)`."""
    for statement in ast.parse(source).body:
        call = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "use":
            return statement
    raise Refused('an exercise lacks the line `name = exercise("id").use(name)`: add it to the source of the lesson')


def _check(exercise_id: str, answer: str, using: str, points: int) -> str:
    """The verdict is computed before `use` replaces a wrong answer by the solution of the course."""
    verdict = f"verdict_{exercise_id.replace('.', '_')}"
    worth = f"{points} point{'s' * (points > 1)}"
    return "\n".join(
        [
            f"# The check of exercise {exercise_id}: {worth}",
            "from utils.exercises import grade",
            "",
            f'{verdict} = grade("{exercise_id}", {answer})',
            using,
            f"assert {verdict}.passed, {verdict}.message",
        ]
    )


def _cell(source: str, cell_id: str, grade_id: str, solution: bool = False, points: int | None = None) -> NotebookNode:
    mark = {
        "schema_version": 3,
        "cell_type": "code",
        "grade_id": grade_id,
        "grade": points is not None,
        "solution": solution,
        "locked": not solution,
        "task": False,
    }
    if points is not None:
        mark["points"] = points
    return new_code_cell(source, id=cell_id, metadata={"nbgrader": mark})


def write(names: list[str], out: Path = OUT, force: bool = False) -> list[Path]:
    """Write the assignments of some lessons; a changed file is overwritten only with `force`."""
    texts = {out / "source" / name / f"{name}.ipynb": nbformat.writes(assignment_of(name)) + "\n" for name in names}
    config = out / "nbgrader_config.py"
    changed = [path for path, text in texts.items() if path.exists() and path.read_text(encoding="utf-8") != text]
    if changed and not force:
        raise Refused(f"{changed[0]} exists and differs: move it away, or pass --force to overwrite it.")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if not config.exists():
        config.write_text(CONFIG, encoding="utf-8")
    return list(texts)


def names_of(wanted: list[str]) -> list[str]:
    """Lessons by number or name; all lessons if none is named."""
    known = HERE.names()
    chosen = [name for lesson in wanted for name in known if lesson in (name, name[:2])]
    unknown = [lesson for lesson in wanted if not any(lesson in (name, name[:2]) for name in known)]
    if unknown:
        raise Refused(f"There is no lesson {unknown[0]}: the lessons are {', '.join(name[:2] for name in known)}.")
    return chosen or known


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m utils.grading.assignment", description=__doc__.split("\n")[0])
    parser.add_argument("lessons", nargs="*", help="numbers such as 01 (default: all)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for nbgrader (default: assignment)")
    parser.add_argument("--force", action="store_true", help="overwrite changed files")
    options = parser.parse_args(arguments)
    try:
        written = write(names_of(options.lessons), options.out, options.force)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    for path in written:
        print(f"wrote {HERE.shown(path)}")
    print(f"Next, in {HERE.shown(options.out)}: nbgrader generate_assignment {written[0].stem}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

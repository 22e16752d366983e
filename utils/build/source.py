"""From a percent source to the two notebooks of a lesson: the lecture, with solutions, and the student notebook, with stubs.

The source is only read. Errors in it are reported with file and line before anything runs.
"""

import ast
import hashlib
import io
import re
import tokenize
from collections import Counter
from copy import deepcopy
from pathlib import Path

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from utils.exercises.solutions import BEGIN, END, HEADER

TODO, STUB = "# YOUR CODE HERE", "raise NotImplementedError()"
CHECKS = "checks"  # assertions on trained results: collapsed in the lecture, absent from the student notebook
TAGS = {
    CHECKS,
    "hide-input",
    "hide-output",
    "lecture-only",
    "student-only",
    "nbval-check-output",
    "nbval-ignore-output",
    "nbval-skip",
    "skip-execution",
    "raises-exception",
}
SLIDE_TYPES = {"slide", "subslide", "fragment", "notes", "skip", "-"}
CELL_MARK = re.compile(r"# ?%%( |$)")
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}


class SourceError(Exception):
    """An error in the source of a lesson; the message starts with file and line."""


def read_source(path: Path) -> NotebookNode:
    """The checked source as a notebook; each code cell knows its exercise and its regions (`course` metadata).

    Cell ids come from the content, so an unchanged cell keeps its id in every build.
    """
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    starts = [number for number, line in enumerate(text.splitlines(), 1) if CELL_MARK.match(line)]
    raw = jupytext.reads(text, fmt="py:percent")
    if len(raw.cells) != len(starts):
        first = starts[0] if starts else 1
        raise SourceError(
            f"{path}:{first}: found {len(starts)} cell marks (`# %%`) but {len(raw.cells)} cells; every cell must "
            "start with its own mark, also the first one after the header"
        )
    notebook = new_notebook(metadata={"kernelspec": dict(KERNELSPEC), "language_info": dict(LANGUAGE)})
    reads = raw.metadata.get("course", {}).get("reads", [])
    notebook.metadata["course"] = {"reads": list(reads)}
    lines = text.splitlines()
    bounds = [*starts, len(lines) + 1]
    for index, cell in enumerate(raw.cells):
        block = lines[bounds[index] : bounds[index + 1] - 1]
        where = _Where(path, bounds[index], block, cell.source)
        if cell.cell_type == "markdown":
            _refuse_code(block, path, bounds[index] + 1)
        notebook.cells.append(_checked_cell(cell, where))
        if _is_notes(cell) and (index == 0 or cell.cell_type != "markdown"):
            raise where.error("speaker notes are a Markdown cell after the cell that they belong to")
    _check_exercises(notebook, path)
    _number_cells(notebook)
    return notebook


class _Where:
    """Converts a line of a cell to file:line of the source, for error messages."""

    def __init__(self, path: Path, start: int, block: list[str], source: str):
        self.path, self.start = path, start
        leading = 0  # empty lines between the cell mark and the code
        first = source.split("\n", 1)[0]
        while leading < len(block) and not block[leading].strip() and first.strip():
            leading += 1
        self.first = start + 1 + leading

    def error(self, message: str, line: int | None = None) -> SourceError:
        number = self.start if line is None else self.first + line - 1
        return SourceError(f"{self.path}:{number}: {message}")


def _checked_cell(cell: NotebookNode, where: _Where) -> NotebookNode:
    metadata = _checked_metadata(cell, where)
    if cell.cell_type == "markdown":
        _refuse_markers(cell.source, where)
        return new_markdown_cell(cell.source, metadata=metadata)
    if cell.cell_type == "raw":
        return new_raw_cell(cell.source, metadata=metadata)
    try:
        tree = ast.parse(cell.source)
    except SyntaxError as error:
        raise where.error(f"this code cell is not Python: {error.msg}", error.lineno) from None
    exercise_id = _used_exercise(tree, where)
    regions = _regions(cell.source, tree, where)
    if regions and exercise_id is None:
        raise where.error(
            'this cell has a solution but no exercise("id").use(...): add the call or remove the markers',
            regions[0][0],
        )
    if exercise_id is not None:
        _check_exercise_cell(cell.source, exercise_id, regions, metadata, where)
        metadata["course"] = {"exercise": exercise_id}
    return new_code_cell(cell.source, metadata=metadata)


def _checked_metadata(cell: NotebookNode, where: _Where) -> dict:
    internal = {"lines_to_next_cell", "lines_to_end_of_cell_marker", "cell_marker"}
    metadata = {name: deepcopy(value) for name, value in cell.metadata.items() if name not in internal}
    unknown = sorted(set(metadata) - {"tags", "slideshow"})
    if unknown:
        raise where.error(f"cells know `tags` and `slideshow`, not {', '.join(unknown)}")
    wrong = sorted(set(metadata.get("tags", [])) - TAGS)
    if wrong:
        raise where.error(f"unknown tag {', '.join(wrong)}; known are {', '.join(sorted(TAGS))}")
    kind = metadata.get("slideshow", {}).get("slide_type", "-")
    if kind not in SLIDE_TYPES:
        raise where.error(f"unknown slide type {kind!r}; known are {', '.join(sorted(SLIDE_TYPES))}")
    tags = set(metadata.get("tags", []))
    if "student-only" in tags and tags & {"lecture-only", CHECKS}:
        raise where.error("a cell cannot be both lecture-only and student-only")
    if CHECKS in tags and cell.cell_type != "code":
        raise where.error(f"the tag {CHECKS} is for code cells")
    return metadata


def _refuse_code(block: list[str], path: Path, first: int) -> None:
    """A mistyped cell mark would silently turn the code below it into prose."""
    for number, line in enumerate(block, first):
        if line.strip() and not line.startswith("#"):
            raise SourceError(f"{path}:{number}: code in a Markdown cell: is the mark `# %%` above it mistyped?")


def _refuse_markers(source: str, where: _Where) -> None:
    for number, line in enumerate(source.splitlines(), 1):
        if "BEGIN SOLUTION" in line or "END SOLUTION" in line:
            raise where.error("solution markers belong in code cells, as comment lines of their own", number)


def _used_exercise(tree: ast.Module, where: _Where) -> str | None:
    """The id in `exercise("id").use(...)`, if the cell has one. Calls of hint() and the like do not count."""
    uses = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "use"
    ]
    used = []
    for node in uses:
        call = node.func.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "exercise"):
            continue
        literal = len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and not call.keywords
        if not literal or not isinstance(call.args[0].value, str):
            raise where.error('write the id out: exercise("1.2").use(...)', node.lineno)
        used.append((call.args[0].value, node.lineno))
    if len(used) > 1:
        raise where.error("one exercise per cell; this is the second one here", used[1][1])
    return used[0][0] if used else None


def _check_exercise_cell(source, exercise_id, regions, metadata, where) -> None:
    if not regions:
        raise where.error(f"exercise {exercise_id} has no solution between {BEGIN} and {END}: nothing to cut")
    skipping = {"nbval-skip", "skip-execution", "lecture-only", "student-only", CHECKS} & set(metadata.get("tags", []))
    if skipping:
        raise where.error(f"an exercise runs in both forms; remove the tag {', '.join(sorted(skipping))}")
    first = source.split("\n", 1)[0]
    header = HEADER.fullmatch(first)
    if header is None:
        raise where.error(
            f"expected `# Exercise {exercise_id} · title · level · N min` (and ` · optional`) as first line, got `{first}`",
            1,
        )
    if header["id"] != exercise_id:
        raise where.error(f'the header says exercise {header["id"]} but the call says exercise("{exercise_id}")', 1)


def _check_exercises(notebook: NotebookNode, path: Path) -> None:
    ids = Counter(exercise_ids(notebook))
    twice = [exercise_id for exercise_id, count in ids.items() if count > 1]
    if twice:
        lines = [
            str(number)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if f'exercise("{twice[0]}").use' in line
        ]
        raise SourceError(f"{path}:{lines[-1]}: exercise {twice[0]} is used more than once (lines {', '.join(lines)})")
    number = re.match(r"\d+", path.stem)
    for exercise_id in ids:
        if number and int(exercise_id.split(".")[0]) != int(number.group()):
            raise SourceError(f"{path}:1: exercise {exercise_id} does not belong to lesson {number.group()}")


def exercise_ids(notebook: NotebookNode) -> list[str]:
    """The exercises of a notebook, in order; works on sources and on both built forms."""
    return [exercise_id for exercise_id in map(exercise_of, notebook.cells) if exercise_id is not None]


def exercise_of(cell: NotebookNode) -> str | None:
    """The id of the exercise that this cell uses, or None."""
    return cell.metadata.get("course", {}).get("exercise")


# --- solution regions -------------------------------------------------------------------------------------------


def _regions(source: str, tree: ast.Module, where: _Where) -> list[tuple[int, int, str, list[str]]]:
    """(first line, last line, indentation, replacement lines) of each region, checked; lines count from 1."""
    regions, opened = [], None
    for number, text in _markers(source, where):
        if text == BEGIN:
            if opened is not None:
                raise where.error(f"{BEGIN} inside the solution that began at line {where.first + opened - 1}", number)
            opened = number
        else:
            if opened is None:
                raise where.error(f"{END} without {BEGIN} before it", number)
            regions.append((opened, number))
            opened = None
    if opened is not None:
        raise where.error(f"{BEGIN} without {END} after it", opened)
    return [(begin, end, *_replacement(source, tree, begin, end, where)) for begin, end in regions]


def _markers(source: str, where: _Where) -> list[tuple[int, str]]:
    comments = {
        token.start[0]: token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    markers = []
    for number, line in enumerate(source.splitlines(), 1):
        if "BEGIN SOLUTION" not in line and "END SOLUTION" not in line:
            continue
        text = line.strip()
        if text not in (BEGIN, END) or number not in comments:
            raise where.error(f"expected `{BEGIN}` or `{END}` as a comment line of its own, got `{text}`", number)
        markers.append((number, text))
    return markers


def _replacement(source: str, tree: ast.Module, begin: int, end: int, where: _Where) -> tuple[str, list[str]]:
    lines = source.splitlines()
    indentation = lines[begin - 1][: -len(BEGIN)]
    scope = _scope(tree, begin)
    if isinstance(scope, ast.ClassDef):
        raise where.error("a solution is the whole body of a function or method, not a part of a class", begin)
    body = _without_docstring(scope)
    inside = [node for node in body if begin < _first_line(node) and node.end_lineno < end]
    if not inside:
        raise where.error("this solution is empty", begin)
    strangers = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _stranger(node, inside, begin, end)]
    if strangers:
        raise where.error("a solution must consist of whole statements", _first_line(strangers[0]))
    if indentation != " " * inside[0].col_offset or lines[end - 1][: -len(END)] != indentation:
        raise where.error("the markers must be indented like the code between them", begin)
    if not isinstance(scope, ast.Module):
        if len(inside) != len(body):
            raise where.error(
                f"a solution must be the whole body of `{scope.name}` (only a docstring stays outside)", begin
            )
        return indentation, [TODO, STUB]
    return indentation, [_open_assignment(node, where) for node in inside]


def _stranger(node: ast.stmt, inside: list[ast.stmt], begin: int, end: int) -> bool:
    """Whether a statement overlaps the region without being part of its statements or enclosing all of them."""
    first, last = _first_line(node), node.end_lineno
    touches = begin < first < end or begin < last < end
    part = any(_first_line(own) <= first and last <= own.end_lineno for own in inside)
    around = first < begin and last >= inside[-1].end_lineno
    return touches and not part and not around


def _scope(tree: ast.Module, line: int):
    """The innermost module, class or function around a line."""
    scope: ast.AST = tree
    for node in ast.walk(tree):  # from the outside in, so the last match is the innermost
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node.lineno < line <= node.end_lineno
        ):
            scope = node
    return scope


def _without_docstring(scope) -> list[ast.stmt]:
    return scope.body[1:] if ast.get_docstring(scope, clean=False) is not None else scope.body


def _first_line(node: ast.stmt) -> int:
    """First line of a statement; `ast` does not count decorators."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])


def _open_assignment(node: ast.stmt, where: _Where) -> str:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return f"{node.targets[0].id} = ...  {TODO}"
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return f"{node.target.id}: {ast.unparse(node.annotation)} = ...  {TODO}"
    raise where.error("outside functions a solution holds only assignments `name = expression`", node.lineno)


# --- the two forms ----------------------------------------------------------------------------------------------


def lecture_of(notebook: NotebookNode) -> NotebookNode:
    """The lecture notebook: complete, without the solution markers, with collapsed `checks` cells.

    Speaker notes move to the metadata of the previous cell, so that they appear in the deck but not in the notebook.
    """
    lecture = _form(notebook, without={"student-only"})
    lecture.cells = _notes_folded(lecture.cells)
    for cell in lecture.cells:
        if cell.cell_type == "code":
            cell.source = "\n".join(line for line in cell.source.split("\n") if line.strip() not in (BEGIN, END))
        if CHECKS in cell.metadata.get("tags", []):
            cell.metadata["jupyter"] = {"source_hidden": True}
    return lecture


def student_of(notebook: NotebookNode) -> NotebookNode:
    """The student notebook: every solution replaced by a stub that is valid Python, no outputs.

    It is one folder deeper than the lecture, so links that leave the folder get another `../`, which `make lab` removes
    again when it copies the notebook to `work/`.
    """
    student = _form(notebook, without={"lecture-only", CHECKS})
    student.cells = [cell for cell in student.cells if not _is_notes(cell)]
    for cell in student.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("](../", "](../../")
        elif BEGIN in cell.source:
            cell.source = _cut(cell.source)
    return student


def _form(notebook: NotebookNode, without: set[str]) -> NotebookNode:
    form = deepcopy(notebook)
    form.metadata.pop("course", None)
    form.cells = [cell for cell in form.cells if not without & set(cell.metadata.get("tags", []))]
    return form


def _is_notes(cell: NotebookNode) -> bool:
    return cell.metadata.get("slideshow", {}).get("slide_type") == "notes"


def _notes_folded(cells: list[NotebookNode]) -> list[NotebookNode]:
    kept: list[NotebookNode] = []
    for cell in cells:
        if _is_notes(cell):
            kept[-1].metadata.setdefault("course", {}).setdefault("notes", []).append(cell.source)
        else:
            kept.append(cell)
    return kept


def _cut(source: str) -> str:
    lines = source.split("\n")
    where = _Where(Path("cell"), 0, [], source)
    for begin, end, indentation, replacement in reversed(_regions(source, ast.parse(source), where)):
        lines[begin - 1 : end] = [indentation + line for line in replacement]
    return "\n".join(lines)


def _number_cells(notebook: NotebookNode) -> None:
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        name = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        cell["id"] = name if seen[name] == 0 else f"{name}-{seen[name]}"
        seen[name] += 1

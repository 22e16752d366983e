"""Read a submitted notebook, and find the statements that one exercise needs. Runs in the sandbox, without torch.

A lesson takes up to minutes to run, and nearly all of that is training and pictures. To judge an exercise, its own cell
runs, and of the cells above it only the statements that bind a name which the cell needs, directly or through others.
"""

import ast
import builtins
import json
import re
import symtable
from collections import Counter

CODE = 2 * 2**20  # characters of code in one notebook
CALL = re.compile(r"""\bexercise\(\s*["'](\d{1,2}\.\w+)["']\s*\)""")
HEADER = re.compile(r"^# Exercise (\d{1,2}\.\w+) ·", re.MULTILINE)
USE = re.compile(CALL.pattern + r"\s*\.\s*use\(\s*(\w*)")


class Unreadable(Exception):
    """The file cannot be graded; the text says what to do."""


def code_cells(data: bytes) -> list[str]:
    """The sources of the code cells of a notebook file."""
    if not data.strip():
        raise Unreadable("The file is empty: ask the student to submit it again.")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable("The file is not UTF-8 text, so it is not a notebook: ask for the .ipynb file.") from None
    except (ValueError, RecursionError) as error:
        marks = " It contains the markers of an unresolved merge conflict." if b"<<<<<<<" in data else ""
        said = " ".join(str(error).split())[:120]
        raise Unreadable(f"The file is not valid JSON ({said}): ask the student to submit it again.{marks}") from None
    return _sources(_cells(notebook))


def _cells(notebook) -> list:
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise Unreadable("The file is JSON but not a notebook: ask for the .ipynb file.")
    edition = notebook["nbformat"]
    if edition != 4:
        shown = str(edition)[:20]
        raise Unreadable(
            f"The notebook has format {shown}, not 4: open it in JupyterLab, save it, and submit the saved file."
        )
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        raise Unreadable("The notebook has no list of cells and is damaged: ask the student to submit it again.")
    return cells


def _sources(cells: list) -> list[str]:
    sources = []
    for cell in cells:
        if not isinstance(cell, dict):
            raise Unreadable("The notebook has an invalid cell and is damaged: ask the student to submit it again.")
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise Unreadable(
                "The notebook has a code cell without text and is damaged: ask the student to submit it again."
            )
        sources.append(source)
    if sum(map(len, sources)) > CODE:
        raise Unreadable(
            f"The notebook contains more than {CODE // 2**20} MiB of code, which nobody wrote by hand: review it yourself."
        )
    return sources


def lesson_of(sources: list[str], known: list[str]) -> str:
    """The number of the lesson whose exercises the notebook has; of several, the one with the most."""
    text = "\n".join(sources)
    found = Counter(f"{int(name.split('.')[0]):02d}" for name in CALL.findall(text) or HEADER.findall(text))
    if not found:
        raise Unreadable("It contains no exercise of this course: ask the student for the right notebook.")
    best = max(found, key=lambda number: (number in known, found[number]))
    if best not in known:
        raise Unreadable(
            f"It belongs to lesson {best}, which this checkout does not have: grade it with another checkout."
        )
    return best


class Notebook:
    """The code cells as trees. Cells that are not Python are kept with what is wrong."""

    def __init__(self, sources: list[str]):
        self.sources = sources
        self.trees: list[ast.Module | None] = []
        self.errors: list[str] = []
        for source in sources:
            tree, error = _parsed(source)
            self.trees.append(tree)
            self.errors.append(error)

    def cell_of(self, exercise_id: str, name: str) -> int | None:
        """The last cell that hands in the answer; without one, the last that defines its name."""
        calls = [
            index
            for index, source in enumerate(self.sources)
            if any(found[0] == exercise_id for found in USE.findall(source))
        ]
        if calls:
            return calls[-1]
        defining = [
            index
            for index, tree in enumerate(self.trees)
            if tree is not None and any(name in _bound(statement) for statement in tree.body)
        ]
        return defining[-1] if defining else None

    def needed(self, cell: int) -> list[tuple[int, list[ast.stmt]]]:
        """(cell, statements) in order: what stands above the cell and binds a name that it needs, then all of the cell."""
        all_here = [
            Statement(index, statement)
            for index, tree in enumerate(self.trees[: cell + 1])
            if tree
            for statement in tree.body
        ]
        chosen = {index for index, statement in enumerate(all_here) if statement.cell == cell}
        imported = {name for statement in all_here if _is_import(statement.tree) for name in statement.binds}
        waiting, wanted = list(chosen), set()
        while waiting:
            index = waiting.pop()
            for name, later in all_here[index].looks_up():
                wanted.add(name)
                binding = _binding(all_here, name, index, later, imported) - chosen
                chosen |= binding
                waiting += binding
        steps: list[tuple[int, list[ast.stmt]]] = [(cell, [])] if not chosen else []
        for statement in (all_here[index] for index in sorted(chosen)):
            if _is_import(statement.tree) and statement.cell != cell:
                statement.tree.names = [alias for alias in statement.tree.names if _alias(alias) in wanted | {"*"}]
            if not steps or steps[-1][0] != statement.cell:
                steps.append((statement.cell, []))
            steps[-1][1].append(statement.tree)
        return steps


class Statement:
    """One statement of a cell, and the names that it binds."""

    def __init__(self, cell: int, tree: ast.stmt):
        self.cell, self.tree = cell, tree
        self.binds, self.changes = _bound(tree), _changed(tree)

    def ends(self, name: str) -> bool:
        """Whether nothing that the name was before matters after it."""
        if isinstance(self.tree, ast.Assign):
            places = [node for target in self.tree.targets for node in ast.walk(target)]
            return any(
                isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name for node in places
            )
        return (
            isinstance(self.tree, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom) and name in self.binds
        )

    def looks_up(self) -> set[tuple[str, bool]]:
        """Names that it looks up in the module, and whether later, when a function of its own is called."""
        table = symtable.symtable(ast.unparse(ast.Module([self.tree], [])), "<cell>", "exec")
        names, waiting = set(), [table]
        while waiting:
            scope = waiting.pop()
            for symbol in scope.get_symbols():
                if symbol.is_referenced() and (scope is table or symbol.is_global()):
                    names.add((symbol.get_name(), scope.get_type() == "function"))
            waiting += scope.get_children()
        return {(name, later) for name, later in names if name not in vars(builtins)}


def _binding(all_here: list[Statement], name: str, place: int, later: bool, imported: set[str]) -> set[int]:
    """The statements that make a name what it is where it is looked up: at a place, or at any time after it."""

    def touches(one: Statement) -> bool:
        return name in one.binds or (name in one.changes and name not in imported)

    found = {after for after in range(place + 1, len(all_here)) if later and touches(all_here[after])}
    for before in range(place - 1, -1, -1):
        if touches(all_here[before]):
            found.add(before)
            if all_here[before].ends(name):
                break
    return found


def _parsed(source: str) -> tuple[ast.Module | None, str]:
    """The tree of a cell, or what is wrong with it. Lines for the shell and for Jupyter alone are left out."""
    error = ""
    for text in (source, _without_magics(source)):
        try:
            return ast.parse(text), ""
        except SyntaxError as problem:
            error = f"it is not Python: {problem.msg} at line {problem.lineno}"
        except (ValueError, RecursionError, MemoryError) as problem:
            error = f"it cannot be read ({type(problem).__name__})"
    return None, error


def _without_magics(source: str) -> str:
    lines = source.split("\n")
    return "\n".join("pass" if re.match(r"[%!?]|.*\?\s*$", line) else line for line in lines)


def _bound(statement: ast.stmt) -> set[str]:
    """Names of the module that a statement binds, or whose parts it sets."""
    names: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(map(_alias, node.names))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            names.update(_root(node))
        waiting.extend(ast.iter_child_nodes(node))
    return names


def _alias(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _root(node: ast.AST) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _changed(statement: ast.stmt) -> set[str]:
    """The name whose method a bare call like `table.append(1)` calls."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return _root(called) if isinstance(called, ast.Attribute) else set()
    return set()

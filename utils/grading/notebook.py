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
        raise Unreadable("The file is empty: ask for it again.")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable(
            "The file is not text in UTF-8, so it is no notebook: ask for the .ipynb file itself."
        ) from None
    except (ValueError, RecursionError) as error:
        marks = " It holds the marks of a merge that was not finished." if b"<<<<<<<" in data else ""
        said = " ".join(str(error).split())[:120]
        raise Unreadable(f"The file is no valid JSON ({said}): ask for it again.{marks}") from None
    return _sources(_cells(notebook))


def _cells(notebook) -> list:
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise Unreadable("The file is JSON but no notebook: ask for the .ipynb file itself.")
    edition = notebook["nbformat"]
    if edition != 4:
        shown = str(edition)[:20]
        raise Unreadable(f"The notebook has format {shown}, not 4: open it in JupyterLab, save it, hand that in.")
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        raise Unreadable("The notebook has no list of cells: it is damaged, ask for it again.")
    return cells


def _sources(cells: list) -> list[str]:
    sources = []
    for cell in cells:
        if not isinstance(cell, dict):
            raise Unreadable("The notebook has a cell that is none: it is damaged, ask for it again.")
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise Unreadable("The notebook has a code cell without text: it is damaged, ask for it again.")
        sources.append(source)
    if sum(map(len, sources)) > CODE:
        raise Unreadable(f"The notebook holds more than {CODE // 2**20} MiB of code: nobody wrote that by hand.")
    return sources


def lesson_of(sources: list[str], known: list[str]) -> str:
    """The number of the lesson whose exercises the notebook has; of several, the one with the most."""
    text = "\n".join(sources)
    found = Counter(f"{int(name.split('.')[0]):02d}" for name in CALL.findall(text) or HEADER.findall(text))
    if not found:
        raise Unreadable(
            "No exercise of this course is in it: is it a notebook of another course? Ask for the right one."
        )
    best = max(found, key=lambda number: (number in known, found[number]))
    if best not in known:
        raise Unreadable(f"It is of lesson {best}, which this checkout does not have: grade it with the one that has.")
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
        chosen = {place for place, one in enumerate(all_here) if one.cell == cell}
        imported = {name for one in all_here if _is_import(one.tree) for name in one.binds}
        waiting, wanted = list(chosen), set()
        while waiting:
            place = waiting.pop()
            for name, later in all_here[place].looks_up():
                wanted.add(name)
                found = _binding(all_here, name, place, later, imported) - chosen
                chosen |= found
                waiting += found
        steps: list[tuple[int, list[ast.stmt]]] = [(cell, [])] if not chosen else []
        for one in (all_here[place] for place in sorted(chosen)):
            if _is_import(one.tree) and one.cell != cell:
                one.tree.names = [alias for alias in one.tree.names if _alias(alias) in wanted | {"*"}]
            if not steps or steps[-1][0] != one.cell:
                steps.append((one.cell, []))
            steps[-1][1].append(one.tree)
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
        except SyntaxError as found:
            error = f"it is not Python: {found.msg} at line {found.lineno}"
        except (ValueError, RecursionError, MemoryError) as found:
            error = f"it cannot be read ({type(found).__name__})"
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

"""Read a submitted notebook, and choose the statements that one exercise needs. Runs in the sandbox, without torch.

A lesson takes up to minutes to run, and nearly all of that is training and figures. To judge an exercise, its own cell
runs, and from the cells above it the import cell, all definitions, and every statement that the cell depends on: one
that binds or changes a name that it looks up, directly or through others.
"""

import ast
import builtins
import json
import re
import symtable
from collections import Counter
from functools import cached_property

CODE = 2 * 2**20  # characters of code in one notebook
CALL = re.compile(r"""\bexercise\(\s*["'](\d{1,2}\.\w+)["']\s*\)""")
HEADER = re.compile(r"^# Exercise (\d{1,2}\.\w+) ·", re.MULTILINE)
USE = re.compile(CALL.pattern + r"\s*\.\s*use\(\s*(\w*)")
SILENT = ("exercises", "checks", "grading", "build", "plots", "widgets")  # what they draw nobody sees here
RUNNING_MAGICS = ("time", "timeit", "capture", "prun")  # whose text is Python that runs in the notebook
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
SCOPES = (*DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
HARMLESS = {"print", "display", *vars(builtins)} - {"exec", "setattr", "delattr", "next"}


class Unreadable(Exception):
    """The file cannot be graded; the text says what to do."""


def reply(request: dict, body: bytes) -> bytes:
    """Which lesson a file is of, which exercises it has, in the order of their cells, and the code in it."""
    try:
        sources = code_cells(body)
        lesson = lesson_of(sources, list(request["names"]))
        read = Notebook(sources)
        cells = {name: read.cell_of(name, answer) for name, answer in request["names"][lesson].items()}
        order = sorted((name for name in cells if cells[name] is not None), key=cells.get)
        message = {"lesson": lesson, "order": order, "sources": sources}
    except Unreadable as error:
        message = {"refused": str(error)}
    return json.dumps(message).encode()


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
    if edition not in (4, "4"):
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
    counts = Counter(f"{int(name.split('.')[0]):02d}" for name in CALL.findall(text) or HEADER.findall(text))
    if not counts:
        raise Unreadable("It contains no exercise of this course: ask the student for the right notebook.")
    best = max(counts, key=lambda number: (number in known, counts[number]))
    if best not in known:
        raise Unreadable(
            f"It belongs to lesson {best}, which this checkout does not have: grade it with another checkout."
        )
    return best


class Notebook:
    """The code cells as trees. Cells that are not Python are kept with what is wrong."""

    def __init__(self, sources: list[str]):
        self.sources = sources
        self.trees, self.errors = zip(*map(_parsed, sources), strict=True) if sources else ((), ())
        handles: dict[str, tuple[str, bool]] = {}
        self._handed_in = [_handed_in(tree, handles) for tree in self.trees]

    def cell_of(self, exercise_id: str, name: str) -> int | None:
        """The last cell that submits the answer; without one, a broken cell that would, or the last that defines its name."""
        ways = (
            lambda index: exercise_id in self._handed_in[index],
            lambda index: (
                self.trees[index] is None and any(match[0] == exercise_id for match in USE.findall(self.sources[index]))
            ),
            lambda index: any(name in _bound(statement) for statement in getattr(self.trees[index], "body", ())),
        )
        return next((i for way in ways for i in reversed(range(len(self.sources))) if way(i)), None)

    def needed(self, cell: int) -> list[tuple[int, list[ast.stmt]]]:
        """(cell, statements) in order: what the cell needs from the cells above it, then all of the cell.

        Statements are visited from last to first, with the set of names whose values still matter.
        """
        trees = [(index, tree) for index, tree in enumerate(self.trees[: cell + 1]) if tree]
        statements = [Statement(index, node) for index, tree in trees for node in tree.body]
        program = Program(statements)
        imports = next((index for index, tree in trees if any(map(_is_import, tree.body))), cell)
        steps: list[tuple[int, list[ast.stmt]]] = [(cell, [])]
        live: set[str] = set()
        for statement in reversed(statements):
            follow = statement.cell == cell or program.touched_by(statement) & live
            if follow:
                live = (live - statement.ends) | program.reached_from(statement)
            if follow or statement.cell == imports or statement.is_definition:
                if steps[-1][0] != statement.cell:
                    steps.append((statement.cell, []))
                steps[-1][1].insert(0, statement.tree)
        return steps[::-1]


class Statement:
    """One statement of a cell: the names that it binds, changes and looks up."""

    def __init__(self, cell: int, tree: ast.stmt):
        self.cell, self.tree, self.binds = cell, tree, _bound(tree)
        self.is_definition = isinstance(tree, DEFINITIONS)

    @property
    def ends(self) -> set[str]:
        """Names whose earlier values no longer matter after it."""
        if self.is_definition or _is_import(self.tree):
            return self.binds
        targets = self.tree.targets if isinstance(self.tree, ast.Assign) else []
        nodes = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        return {node.id for node in nodes if isinstance(node.ctx, ast.Store)}

    @cached_property
    def _scopes(self) -> list[symtable.SymbolTable]:
        """The module's scope, then all others in it."""
        scopes = [symtable.symtable(ast.unparse(ast.Module([self.tree], [])), "<cell>", "exec")]
        for scope in scopes:
            scopes += scope.get_children()
        return scopes

    @cached_property
    def looks_up(self) -> set[str]:
        """Names that it, or a function that it defines, looks up in the module."""
        top, *inner = [scope.get_symbols() for scope in self._scopes]
        names = {symbol.get_name() for symbol in top if symbol.is_referenced()}
        names |= {symbol.get_name() for symbols in inner for symbol in symbols if symbol.is_global()}
        return names - set(vars(builtins))

    @cached_property
    def sets_globally(self) -> set[str]:
        """Names of the module that a function in it binds or changes when it is called."""
        names = {s.get_name() for scope in self._scopes[1:] for s in scope.get_symbols() if s.is_global()}
        return names & (_bound(self.tree, deep=True) | _changed(self.tree, deep=True))


class Program:
    """Which names a statement reaches through the functions that it calls, and which it binds or changes."""

    def __init__(self, statements: list[Statement]):
        self._imported = {name for statement in statements if _is_import(statement.tree) for name in statement.binds}
        self._silent = {name for statement in statements if is_silent(statement.tree) for name in statement.binds}
        self._defining = {name: it for it in statements if it.is_definition for name in it.binds}

    def reached_from(self, statement: Statement) -> set[str]:
        names = list(statement.looks_up)
        for name in names:
            definition = self._defining.get(name)
            names += definition.looks_up - set(names) if definition else ()
        return set(names)

    def touched_by(self, statement: Statement) -> set[str]:
        """Names that it binds, or whose values it changes: by methods, as arguments, in the functions that it calls."""
        if statement.is_definition or _is_import(statement.tree):
            return statement.binds
        names = _changed(statement.tree, silent=self._silent) | statement.sets_globally
        for name in self.reached_from(statement) & set(self._defining):
            names |= self._defining[name].sets_globally
        return statement.binds | (names - self._imported - set(self._defining))


# --- trees ------------------------------------------------------------------------------------------------------


def _parsed(source: str) -> tuple[ast.Module | None, str]:
    """The tree of a cell, or what is wrong with it. Magics and shell commands become calls of `get_ipython()`."""
    try:
        try:
            return ast.parse(source), ""
        except SyntaxError:
            from IPython.core.inputtransformer2 import TransformerManager

            tree = ast.parse(TransformerManager().transform_cell(source))
            tree.body = [node for statement in tree.body for node in _without_magic(statement)]
            return tree, ""
    except SyntaxError as problem:
        return None, f"it is not Python: {problem.msg} at line {problem.lineno}"
    except (ValueError, RecursionError, MemoryError) as problem:
        return None, f"it cannot be read ({type(problem).__name__})"


def _without_magic(statement: ast.stmt) -> list[ast.stmt]:
    """The statements below `%%time` or behind `%time`; any other statement as it is."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    kind = getattr(getattr(call, "func", None), "attr", "")
    texts = [str(argument.value) for argument in getattr(call, "args", []) if isinstance(argument, ast.Constant)]
    of_cell = kind == "run_cell_magic" and texts[:1] and texts[0] in RUNNING_MAGICS
    if not of_cell and not (kind == "run_line_magic" and texts[:1] == ["time"]):
        return [statement]
    tree, error = _parsed(texts[-1])
    if tree is None:
        raise SyntaxError(error)
    return ast.increment_lineno(tree, statement.lineno - 1 + bool(of_cell)).body


def _handed_in(tree: ast.Module | None, handles: dict[str, tuple[str, bool]]) -> set[str]:
    """Exercises whose `use` a cell calls, also through a variable; `handles` are the variables so far."""
    ids = set()
    for statement in tree.body if tree else ():
        nodes = list(ast.walk(statement))
        for node in nodes:
            if isinstance(node, ast.Assign | ast.NamedExpr | ast.AnnAssign) and (
                handle := _handle(node.value, handles)
            ):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                handles |= {target.id: handle for target in targets if isinstance(target, ast.Name)}
        calls = [_handle(node.func, handles) for node in nodes if isinstance(node, ast.Call)]
        ids |= {handle[0] for handle in calls if handle and handle[1]}
    return ids


def _handle(node: ast.AST | None, handles: dict) -> tuple[str, bool] | None:
    """The exercise that an expression stands for, and whether it is its `use`."""
    if isinstance(node, ast.Name):
        return handles.get(node.id)
    if isinstance(node, ast.NamedExpr):
        return _handle(node.value, handles)
    if isinstance(node, ast.Attribute) and node.attr == "use":
        handle = _handle(node.value, handles)
        return handle and (handle[0], True)
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        return (str(node.args[0].value), False) if called == "exercise" else None
    return None


def _inside(statement: ast.stmt, deep: bool):
    """The nodes of a statement; those of functions in it, which run later, only if asked for."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if deep or not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)


def _bound(statement: ast.stmt, deep: bool = False) -> set[str]:
    """Names that a statement binds, or whose parts it sets."""
    names: set[str] = set()
    for node in _inside(statement, deep):
        if isinstance(node, DEFINITIONS):
            names.add(node.name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            names.update(_root(node))
    return names


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def is_silent(statement: ast.stmt) -> bool:
    """Whether it imports boards, quizzes or figures of the course."""
    package, _, rest = (getattr(statement, "module", "") or "").partition(".")
    return isinstance(statement, ast.ImportFrom) and package == "utils" and rest.partition(".")[0] in SILENT


def _root(node: ast.AST) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _changed(statement: ast.stmt, silent: set[str] = frozenset(), deep: bool = False) -> set[str]:
    """Names that may be changed by calls like `table.append(1)`, `fill(table)` and `value = table.add_(1)`."""
    names: set[str] = set()
    for node in _inside(statement, deep):
        bare = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        call = node.value if bare else node
        in_place = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_")
        if (bare or in_place) and not _root(call) & (silent | HARMLESS):
            names |= _root(call.func) if isinstance(call.func, ast.Attribute) else set()
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            names |= {inner.id for value in given for inner in ast.walk(value) if isinstance(inner, ast.Name)}
    return names

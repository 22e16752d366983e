"""Read a submitted notebook, and choose the statements that one exercise needs. Runs in the sandbox, without torch.

A lesson takes up to minutes to run, and nearly all of that is training and figures. To judge an exercise, its own cell
runs, and from the cells above it the import cell, all definitions, and every statement that the cell depends on: one
that binds or may change a value that it looks up, directly or through others. A call may change whatever it can reach.
"""

import ast
import builtins
import itertools
import json
import re
import symtable
from collections import Counter

from utils.grading import Refused

CODE = 2 * 2**20  # characters of code in one notebook
CALL = re.compile(r"""\bexercise\(\s*["'](\d{1,2}\.\w+)["']\s*\)""")
HEADER = re.compile(r"^# Exercise (\d{1,2}\.\w+) ·", re.MULTILINE)
USE = re.compile(CALL.pattern + r"\s*\.\s*use\(\s*(\w*)")
SILENT = ("exercises", "checks", "grading", "build", "plots", "widgets")  # what they draw nobody sees here
RUNNING_MAGICS = ("time", "timeit", "capture", "prun")  # whose text is Python that runs in the notebook
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
HARMLESS = {"print", "display", "len", "range", "str", "repr", "round", "type"}
DYNAMIC = {"exec", "globals", "locals", "vars", "setattr", "delattr"}  # whatever they bind, an answer may need


def reply(request: dict, body: bytes) -> bytes:
    """Which lesson a file is of, which exercises it has, in the order of their cells, and the code in it."""
    try:
        sources = code_cells(body)
        lesson = lesson_of(sources, list(request["names"]))
        read = Notebook(sources)
        cells = {name: read.cell_of(name, answer) for name, answer in request["names"][lesson].items()}
        order = sorted((name for name in cells if cells[name] is not None), key=cells.get)
        message = {"lesson": lesson, "order": order, "sources": sources}
    except Refused as error:
        message = {"refused": str(error)}
    return json.dumps(message).encode()


def code_cells(data: bytes) -> list[str]:
    """The sources of the code cells of a notebook file."""
    if not data.strip():
        raise Refused("The file is empty: ask the student to submit it again.")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Refused("The file is not UTF-8 text, so it is not a notebook: ask for the .ipynb file.") from None
    except (ValueError, RecursionError) as error:
        marks = " It contains the markers of an unresolved merge conflict." if b"<<<<<<<" in data else ""
        said = " ".join(str(error).split())[:120]
        raise Refused(f"The file is not valid JSON ({said}): ask the student to submit it again.{marks}") from None
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise Refused("The file is JSON but not a notebook: ask for the .ipynb file.")
    edition = notebook["nbformat"]
    if edition not in (4, "4"):
        raise Refused(
            f"The notebook has format {str(edition)[:20]}, not 4: open it in JupyterLab, save it, and submit the saved file."
        )
    try:
        sources = ["".join(cell.get("source", "")) for cell in notebook["cells"] if cell.get("cell_type") == "code"]
    except (KeyError, TypeError, AttributeError):
        raise Refused(
            "The notebook has no list of proper cells: it is damaged, ask the student to submit it again."
        ) from None
    if sum(map(len, sources)) > CODE:
        raise Refused(
            f"The notebook contains more than {CODE // 2**20} MiB of code, which nobody wrote by hand: review it yourself."
        )
    return sources


def lesson_of(sources: list[str], known: list[str]) -> str:
    """The number of the lesson whose exercises the notebook has; of several, the one with the most."""
    text = "\n".join(sources)
    counts = Counter(f"{int(name.split('.')[0]):02d}" for name in CALL.findall(text) or HEADER.findall(text))
    if not counts:
        raise Refused("It contains no exercise of this course: ask the student for the right notebook.")
    best = max(counts, key=lambda number: (number in known, counts[number]))
    if best not in known:
        raise Refused(
            f"It belongs to lesson {best}, which this checkout does not have: grade it with another checkout."
        )
    return best


class Notebook:
    """The statements of the code cells; `errors` say what is wrong with cells that are not Python."""

    def __init__(self, sources: list[str]):
        self.sources = sources
        read = [_statements(index, source) for index, source in enumerate(sources)]
        self.errors = [error for _, error in read]
        self._cells = [statements or [] for statements, _ in read]
        handles: dict[str, str] = {}
        self._handed_in = [_handed_in(statements, handles) for statements in self._cells]

    def cell_of(self, exercise_id: str, name: str) -> int | None:
        """The last cell that submits the answer; without one, a broken cell that would, or the last that defines its name."""
        ways = (
            lambda index: exercise_id in self._handed_in[index],
            lambda index: self.errors[index] and exercise_id in dict(USE.findall(self.sources[index])),
            lambda index: any(name in statement.binds for statement in self._cells[index]),
        )
        return next((i for way in ways for i in reversed(range(len(self.sources))) if way(i)), None)

    def needed(self, cell: int) -> list[tuple[int, list[ast.stmt]]]:
        """(cell, statements) in order: what the cell needs from the cells above it, then all of the cell.

        Going up from the cell, live are the names whose values matter; a statement that may change one of them is needed,
        and what it looks up is live above it. What functions look up they find when they are called: it is live from the end.
        """
        statements = [statement for statements in self._cells[: cell + 1] for statement in statements]
        imports = next((it.cell for it in statements if it.is_import), cell)
        functions = {name: it for it in statements if isinstance(it.tree, DEFINITIONS) for name in it.binds}
        constant = {name for it in statements if it.is_import for name in it.binds} | {*functions, *vars(builtins)}
        silent = {name for it in statements if is_silent(it.tree) for name in it.binds} | HARMLESS

        def reached(names: set[str]) -> set[str]:
            """The names themselves, and those that functions among them look up."""
            found = list(names)
            for name in found:
                found += functions[name].looks_up - set(found) if name in functions else ()
            return set(found)

        late, before = set(), None
        while late != before:
            before, live, kept = late, late, []
            for it in reversed(statements):
                found = reached(it.looks_up)
                changed = (found - constant) | it.binds if it.has_effects(silent) else it.binds
                if it.cell == cell or it.is_dynamic or (changed & live and not it.is_definition):
                    late = late | (found - it.looks_up_now) | (it.binds if it.has_effects(silent) else set())
                    live = (live - it.replaces) | found
                elif not it.is_definition and it.cell != imports:
                    continue
                kept.insert(0, it)
        return [(i, [it.tree for it in group]) for i, group in itertools.groupby(kept, key=lambda it: it.cell)]


class Statement:
    """One statement of a cell: the names that it binds or sets parts of, and those that it looks up, also in functions in it."""

    def __init__(self, cell: int, tree: ast.stmt):
        self.cell, self.tree = cell, tree
        self.is_import = isinstance(tree, ast.Import | ast.ImportFrom)
        self.is_definition = self.is_import or isinstance(tree, DEFINITIONS)
        scopes = [symtable.symtable(ast.unparse(tree), "<cell>", "exec")]
        for scope in scopes:
            scopes += scope.get_children()
        top, *inner = [scope.get_symbols() for scope in scopes]
        self.looks_up_now = {it.get_name() for it in top if it.is_referenced()}
        self.looks_up = self.looks_up_now | {it.get_name() for symbols in inner for it in symbols if it.is_global()}
        self.is_dynamic = not DYNAMIC.isdisjoint(self.looks_up_now)
        nodes = [node for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)]
        self.binds = {it.get_name() for it in top if it.is_assigned() or it.is_imported()}
        if not self.is_definition:  # also parts of a value, and `:=` in a comprehension
            self.binds |= {_root(node) for node in nodes} & {it.get_name() for it in top}
        self.replaces = {node.id for node in getattr(tree, "targets", ()) if isinstance(node, ast.Name)}

    def has_effects(self, silent: set[str]) -> bool:
        """Whether it calls something that may change what it is given, or gives it another name."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and _root(node) not in silent]
        value = self.tree.value if isinstance(self.tree, ast.Assign) else None
        return bool(calls) or isinstance(value, ast.Name | ast.Attribute | ast.Subscript)


# --- trees ------------------------------------------------------------------------------------------------------


def _statements(cell: int, source: str) -> tuple[list[Statement] | None, str]:
    """The statements of a cell, or what is wrong with it."""
    try:
        return [Statement(cell, node) for node in _body(source)], ""
    except SyntaxError as problem:
        return None, f"it is not Python: {problem.msg} at line {problem.lineno}"
    except (ValueError, RecursionError, MemoryError) as problem:
        return None, f"it cannot be read ({type(problem).__name__})"


def _body(source: str) -> list[ast.stmt]:
    """Magics and shell commands become calls of `get_ipython()`; what `%%time` and `%time` run stays as it is."""
    try:
        return ast.parse(source).body
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        statements = ast.parse(TransformerManager().transform_cell(source)).body
        return [node for statement in statements for node in _without_magic(statement)]


def _without_magic(statement: ast.stmt) -> list[ast.stmt]:
    """The statements below `%%time` or behind `%time`; any other statement as it is."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    kind = getattr(getattr(call, "func", None), "attr", "")
    texts = [str(argument.value) for argument in getattr(call, "args", []) if isinstance(argument, ast.Constant)]
    of_cell = kind == "run_cell_magic" and texts[:1] and texts[0] in RUNNING_MAGICS
    if not of_cell and not (kind == "run_line_magic" and texts[:1] == ["time"]):
        return [statement]
    return ast.increment_lineno(ast.Module(_body(texts[-1]), []), statement.lineno - 1 + bool(of_cell)).body


def _handed_in(statements: list[Statement], handles: dict[str, str]) -> set[str]:
    """Exercises whose `use` a cell calls, also through a variable; `handles` are the variables so far."""
    ids = set()
    for node in ast.walk(ast.Module([statement.tree for statement in statements], [])):
        if isinstance(node, ast.Assign | ast.NamedExpr | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            handles |= {target.id: _handle(node.value, handles) for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.Call):
            ids.add(_handle(node.func, handles))
    return {name.removesuffix(".use") for name in ids if name.endswith(".use")}


def _handle(node: ast.AST | None, handles: dict[str, str]) -> str:
    """The exercise that an expression stands for, "1.1", or its method, "1.1.use"; "" for any other."""
    if isinstance(node, ast.Name):
        return handles.get(node.id, "")
    if isinstance(node, ast.NamedExpr):
        return _handle(node.value, handles)
    if isinstance(node, ast.Attribute) and node.attr == "use":
        return f"{_handle(node.value, handles)}.use"
    if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "exercise":
        return "".join(str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))
    return ""


def is_silent(statement: ast.stmt) -> bool:
    """Whether it imports boards, quizzes or figures of the course."""
    package, _, rest = (getattr(statement, "module", "") or "").partition(".")
    return isinstance(statement, ast.ImportFrom) and package == "utils" and rest.partition(".")[0] in SILENT


def _root(node: ast.AST) -> str:
    """The name at the start of an expression like `name.part[0].method()`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", "")

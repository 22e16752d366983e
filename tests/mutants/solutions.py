"""The solution of an exercise as a student would have written it, and the names it may use, from the lesson's source."""

import ast
import builtins
import dis
import textwrap
from dataclasses import dataclass
from functools import cache
from types import CodeType

from utils.course import places
from utils.course.exercises import find, lesson_number, solution_code, solution_methods


@dataclass(frozen=True)
class Solution:
    """One solved cell: the tree of its function or class, and which functions in it are the student's."""

    exercise_id: str
    name: str
    source: str
    methods: tuple[str, ...]

    def tree(self) -> ast.Module:
        """A fresh one, to be changed at will."""
        return ast.parse(self.source)

    def build(self, tree: ast.Module | None = None):
        """The function or class, compiled anew, with globals of its own."""
        tree = ast.fix_missing_locations(tree or self.tree())
        code = compile(tree, f"<answer to {self.exercise_id}>", "exec")
        names = _names(lesson_number(self.exercise_id), _free_names(code) - {self.name})
        names["__name__"] = "an answer"
        exec(code, names)
        return names[self.name]


@cache
def solution_of(exercise_id: str) -> Solution:
    """The solution as it stands in the lesson; a check is attacked through the code that it asks for."""
    code = textwrap.dedent(solution_code(exercise_id))
    defined = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    if len(defined) != 1:
        raise LookupError(f"expected one function or class in the cell of exercise {exercise_id}, found {len(defined)}")
    methods = tuple(solution_methods(exercise_id))
    return Solution(exercise_id, defined[0].name, ast.unparse(defined[0]), methods)


def functions_of(tree: ast.Module, solution: Solution) -> list[ast.FunctionDef]:
    """The student's functions in a tree."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in solution.methods]


def is_class(exercise_id: str) -> bool:
    return isinstance(find(exercise_id).reference, type)


# What a solution may use: imports and earlier definitions of its lesson


def _free_names(code: CodeType) -> set[str]:
    """Names that the code reads and does not bind itself."""
    steps = list(dis.get_instructions(code))
    read = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF")}
    inner = [_free_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return read.union(*inner) - {step.argval for step in steps if step.opname == "STORE_NAME"}


@cache
def _statements(number: str) -> dict[str, ast.stmt]:
    """Name to the import, function, class or plain value of the lesson's source that first binds it."""
    found = {}
    for file in sorted(places.SOURCES.glob(f"{number}_*.py")):
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            for name in _bound(statement):
                found.setdefault(name, statement)
    return found


def _bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


def _names(number: str, wanted: set[str]) -> dict:
    statements = _statements(number)
    return {name: _value(number, name) for name in sorted(wanted) if name in statements and not hasattr(builtins, name)}


@cache
def _value(number: str, name: str):
    """What a name stands for in the lesson: its statement is executed with the names that it needs in turn."""
    statement = _statements(number)[name]
    if isinstance(statement, ast.ImportFrom):
        only = [alias for alias in statement.names if (alias.asname or alias.name) == name]
        statement = ast.ImportFrom(statement.module, only, 0)
    tree = ast.fix_missing_locations(ast.Module([statement], []))
    code = compile(tree, f"<the lesson's {name}>", "exec")
    names = _names(number, _free_names(code) - {name})
    exec(code, names)
    return names[name]

"""The solution of an exercise as a student would have written it, and the names it may use, from the generated solutions."""

import ast
from dataclasses import dataclass
from functools import cache

from utils.exercises import solutions
from utils.exercises.registry import find


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
        names = {**vars(solutions.module_of(self.exercise_id)), "__name__": "an answer"}
        exec(compile(tree, f"<answer to {self.exercise_id}>", "exec"), names)
        return names[self.name]


@cache
def solution_of(exercise_id: str) -> Solution:
    """The solution as it stands in the lesson; a check is attacked through the code that it asks for."""
    found = solutions.solution_of(exercise_id)
    (defined,) = ast.parse(found.code).body
    return Solution(exercise_id, found.name, ast.unparse(defined), tuple(found.methods))


def functions_of(tree: ast.Module, solution: Solution) -> list[ast.FunctionDef]:
    """The student's functions in a tree."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in solution.methods]


def is_class(exercise_id: str) -> bool:
    return isinstance(find(exercise_id).reference, type)

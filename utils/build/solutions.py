"""Generate the solutions module of a lesson from its source: the solved exercises and what they depend on."""

import ast

from nbformat import NotebookNode

from utils.build.source import exercise_of


def solutions_module(source: NotebookNode, name: str) -> str:
    """The text of `utils/exercises/solutions/lessonNN.py`; empty for a lesson without exercises."""
    imports, given, solved = {}, {}, []
    for cell in source.cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(cell.source)
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports |= _aliases(node)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef) and not exercise_of(cell):
                given[node.name] = (len(solved), ast.get_source_segment(cell.source, node))
        if exercise_of(cell):
            solved.append(_without_use(cell.source))
    if not solved:
        return ""
    used = _names_in("\n".join(solved))
    kept: dict[str, tuple[int, str]] = {}
    while missing := [name for name in given if name in used and name not in kept]:
        kept |= {name: given[name] for name in missing}
        used |= _names_in("\n".join(given[name][1] for name in missing))
    blocks = []
    for index, code in enumerate([*solved, None]):
        blocks += [f"# Given\n{text}" for after, text in kept.values() if after == index]
        blocks += [code] if code else []
    head = sorted({statement for alias, statement in imports.items() if alias in used})
    docstring = (
        f'"""Solutions of lesson {name[:2]}, written by `make notebooks` from notebooks/src/{name}.py: edit that."""'
    )
    return "\n\n\n".join([f"{docstring}\n\n" + "\n".join(head), *blocks]) + "\n"


def _aliases(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """{name in the lesson: the statement that imports it alone}."""
    statements = {}
    for alias in node.names:
        renamed = f" as {alias.asname}" if alias.asname else ""
        statement = f"import {alias.name}{renamed}"
        origin = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
        statements[alias.asname or alias.name.split(".")[0]] = origin + statement
    return statements


def _without_use(code: str) -> str:
    """The cell of an exercise without the line that passes the answer to the check."""
    last = ast.parse(code).body[-1]
    return "\n".join(code.split("\n")[: last.lineno - 1]).rstrip()


def _names_in(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}

"""Generate the solutions module of a lesson from its source: the solved exercises and what they depend on.

It also says where an exercise stands in the notebook, and which later cells call the answer.
"""

import ast
import re

from nbformat import NotebookNode

from utils.build.source import exercise_of, student_of


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
    facts = [
        *("# The id of each exercise's cell", _dictionary("CELLS", cell_ids(source))),
        *("# Kind and section of the later cells that call the answer", _dictionary("CALLERS", callers(source))),
    ]
    return "\n\n\n".join([f"{docstring}\n\n" + "\n".join(head) + "\n\n" + "\n".join(facts), *blocks]) + "\n"


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


def _dictionary(name: str, entries: dict) -> str:
    return "\n".join([f"{name} = {{", *(f"    {key!r}: {value!r}," for key, value in entries.items()), "}"])


# --- what runs on the answer ------------------------------------------------------------------------------------


def cell_ids(source: NotebookNode) -> dict[str, str]:
    """{exercise id: id of its cell}, which both notebooks share."""
    return {exercise_of(cell): cell.id for cell in source.cells if exercise_of(cell)}


def callers(source: NotebookNode) -> dict[str, list[tuple[str, str]]]:
    """{exercise id: (kind, section) of the cells below that call the answer, or a function of the lesson that calls it}.

    The exercise's own section is "". Other exercises do not count: until they are solved, the course's solution runs there.
    """
    cells, modules, section = [], {}, ""
    for cell in student_of(source).cells:
        if cell.cell_type == "markdown":
            headings = re.findall(r"^##+ (?:\d+ · |Exercises? [\d.]+[^:]*: )?(.+)", cell.source, re.MULTILINE)
            section = headings[-1][:1].upper() + headings[-1][1:] if headings else section
        elif cell.cell_type == "code":
            tree = ast.parse(cell.source)
            imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
            modules |= {alias.asname or alias.name: node.module for node in imports for alias in node.names}
            cells.append((exercise_of(cell), section, tree))
    uses = {}
    for index, (exercise_id, own, tree) in enumerate(cells):
        if exercise_id:
            below = _callers_below(cells[index + 1 :], tree.body[-1].targets[0].id, modules)
            uses[exercise_id] = [(kind, section if section != own else "") for kind, section in below]
    return uses


def _callers_below(cells: list, answer: str, modules: dict[str, str]) -> list[tuple[str, str]]:
    uses, names = [], {answer}  # the answer and the functions that call it
    for exercise_id, section, tree in cells:
        if exercise_id:
            names -= _bound(tree.body[-1])
            continue
        here = set(names)  # within a cell, also what was computed with them
        for node in tree.body:
            bound = _bound(node)
            if not here & _names(node, ast.Load):
                here, names = here - bound, names - bound
                continue
            here |= bound
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names |= bound
            else:
                names -= bound
                uses += [(kind, section) for kind in _kinds(node, modules)]
    return list(dict.fromkeys(uses))


def _kinds(node: ast.stmt, modules: dict[str, str]) -> list[str]:
    """What a statement does: it makes a widget, trains, draws, or else computes."""
    calls = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    functions = {call.id for call in calls if isinstance(call, ast.Name)}
    methods = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    kinds = {
        "widget": any(modules.get(name, "").startswith("utils.widgets") for name in functions),
        "training loop": {"backward", "zero_grad"} <= methods,
        "figure": "show" in functions,
    }
    return [kind for kind, applies in kinds.items() if applies] or ["code"]


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a cell binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return set(_aliases(node))
    return _names(node, ast.Store)


def _names(node: ast.AST, context: type) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, context)}

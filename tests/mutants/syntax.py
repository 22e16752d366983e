"""Mutants of a solution's text: one small change of its syntax tree each."""

import ast
import copy
import warnings
from collections.abc import Iterator

from tests.mutants.solutions import Solution, functions_of

OPERATORS = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mod,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
METHODS = {
    "sum": "mean",
    "mean": "sum",
    "amax": "amin",
    "max": "min",
    "min": "max",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "sin": "cos",
    "cos": "sin",
    "softmax": "log_softmax",
    "log_softmax": "softmax",
    "tril": "triu",
    "triu": "tril",
    "ones": "zeros",
    "zeros": "ones",
    "ones_like": "zeros_like",
    "zeros_like": "ones_like",
    "cumsum": "cumprod",
    "repeat_interleave": "repeat",
    "sqrt": "square",
    "square": "sqrt",
    "stack": "cat",
    "append": "extend",
    "rand": "randn",
    "randn": "rand",
    "outer": "add",
}


def syntax_mutants(solution: Solution) -> Iterator[tuple[str, ast.Module]]:
    """(what was changed, the changed tree), each text once; two changes that read alike are numbered."""
    seen, told, nodes = {solution.source}, {}, _all_nodes(solution.tree(), solution)
    for place, node in enumerate(nodes):
        for new in _others(node):
            tree = solution.tree()
            _Exchange(_all_nodes(tree, solution)[place], copy.deepcopy(new)).visit(tree)
            text = ast.unparse(ast.fix_missing_locations(tree))
            if text in seen or not _compiles(text):
                continue
            seen.add(text)
            what = f"`{_short(node)}` became `{_short(new)}`"
            told[what] = told.get(what, 0) + 1
            yield what if told[what] == 1 else f"{what} ({told[what]})", ast.parse(text)
    yield from _swapped_parameters(solution)


def _compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<mutant>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _all_nodes(tree: ast.Module, solution: Solution) -> list[ast.AST]:
    """The nodes of what the student writes, without docstrings, always in the same order."""
    nodes = []
    for function in functions_of(tree, solution):
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        nodes += [node for statement in body for node in ast.walk(statement)]
    return nodes


class _Exchange(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)


# Changes of one node


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())
    return text if len(text) <= 90 else text[:60] + " ... " + text[-25:]


def _others(node: ast.AST) -> Iterator[ast.AST]:
    for kind, others in OTHERS.items():
        if isinstance(node, kind):
            yield from others(node)


def _with(node: ast.AST, **fields) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _other_constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield from (ast.Constant(value + 1), ast.Constant(value - 1))
    elif isinstance(value, float):
        yield from (ast.Constant(2 * value), ast.Constant(value + 1.0))
    elif value == "-inf":
        yield from (ast.Constant("inf"), ast.Constant("-1"))
    elif isinstance(value, str) and "->" in value:
        left, right = value.split("->")
        yield ast.Constant(f"{left[::-1]}->{right}" if "," not in left and "..." not in left else value)
    elif value == "none":
        yield ast.Constant("mean")
    elif value == "":
        yield ast.Constant(" ")


def _other_signs(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        yield from (ast.Constant(0), ast.Constant(number), ast.UnaryOp(ast.USub(), ast.Constant(number + 1)))
    else:
        yield node.operand


def _other_products(node: ast.BinOp) -> Iterator[ast.AST]:
    for other in OPERATORS.get(type(node.op), ()):
        yield _with(node, op=other())
    yield node.left
    if not isinstance(node.op, ast.Pow | ast.FloorDiv | ast.Mod):
        yield node.right
    if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult | ast.Pow):
        yield _with(node, left=node.right, right=node.left)


def _other_comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    for other in COMPARISONS.get(type(node.ops[0]), ()):
        yield _with(node, ops=[other()])


def _other_choices(node: ast.IfExp) -> Iterator[ast.AST]:
    yield from (node.body, node.orelse, _with(node, body=node.orelse, orelse=node.body))


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    function = node.func
    if isinstance(function, ast.Attribute):
        is_module = isinstance(function.value, ast.Name) and function.value.id in ("torch", "F", "nn", "math")
        if not is_module and not (isinstance(function.value, ast.Name) and function.value.id == "self"):
            yield function.value  # the method left out
        if function.attr in METHODS:
            yield _with(node, func=_with(function, attr=METHODS[function.attr]))
        if function.attr in ("arange", "tensor") and is_module:
            yield _wrapped(node, "roll", 1, -1)
    if node.args and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
        yield node.args[0]  # the call left out
    turns_alike = isinstance(function, ast.Attribute) and function.attr == "transpose"
    for place in range(0 if turns_alike else len(node.args) - 1):
        args = list(node.args)
        args[place], args[place + 1] = args[place + 1], args[place]
        yield _with(node, args=args)
    if len(node.args) > 1:
        for place in range(1, len(node.args)):
            yield _with(node, args=node.args[:place] + node.args[place + 1 :])
    for place in range(len(node.keywords)):
        yield _with(node, keywords=node.keywords[:place] + node.keywords[place + 1 :])


def _wrapped(node: ast.AST, method: str, *numbers: int) -> ast.Call:
    args = [ast.parse(str(number), mode="eval").body for number in numbers]
    return ast.Call(ast.Attribute(node, method, ast.Load()), args, [])


def _other_attributes(node: ast.Attribute) -> Iterator[ast.AST]:
    if node.attr == "T":
        yield node.value
    if node.attr in ("sin", "cos", "any", "all"):
        yield _with(node, attr=METHODS[node.attr])


def _other_subscripts(node: ast.Subscript) -> Iterator[ast.AST]:
    if isinstance(node.ctx, ast.Load):
        yield node.value


def _other_slices(node: ast.Slice) -> Iterator[ast.AST]:
    for part in ("lower", "upper", "step"):
        if getattr(node, part) is not None:
            yield _with(node, **{part: None})
    if node.lower is None and node.upper is not None:
        yield _with(node, lower=node.upper, upper=None)
    if node.lower is not None and node.upper is None and node.step is None:
        yield _with(node, lower=None, upper=node.lower)


def _other_tuples(node: ast.Tuple) -> Iterator[ast.AST]:
    if isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        for place in range(len(node.elts) - 1):
            parts = list(node.elts)
            parts[place], parts[place + 1] = parts[place + 1], parts[place]
            yield _with(node, elts=parts)
        yield _with(node, elts=node.elts[:-1]) if len(node.elts) > 2 else node.elts[0]


def _other_branches(node: ast.If | ast.While) -> Iterator[ast.AST]:
    yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    yield _with(node, test=ast.Constant(False))
    if isinstance(node, ast.If):
        yield _with(node, test=ast.Constant(True))


def _other_loops(node: ast.For | ast.comprehension) -> Iterator[ast.AST]:
    for bounds in ("[1:]", "[:-1]", "[::-1]"):
        yield _with(node, iter=ast.parse(f"list({ast.unparse(node.iter)}){bounds}", mode="eval").body)


def _other_conditions(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    yield from node.values


def _without(node: ast.stmt) -> Iterator[ast.AST]:
    yield ast.Pass()


def _other_additions(node: ast.AugAssign) -> Iterator[ast.AST]:
    for other in OPERATORS.get(type(node.op), ()):
        yield _with(node, op=other())
    yield ast.Assign([copy.deepcopy(node.target)], node.value, lineno=0)


OTHERS = {
    ast.Constant: _other_constants,
    ast.UnaryOp: _other_signs,
    ast.BinOp: _other_products,
    ast.Compare: _other_comparisons,
    ast.IfExp: _other_choices,
    ast.Call: _other_calls,
    ast.Attribute: _other_attributes,
    ast.Subscript: _other_subscripts,
    ast.Slice: _other_slices,
    ast.Tuple: _other_tuples,
    ast.If | ast.While: _other_branches,
    ast.For | ast.comprehension: _other_loops,
    ast.BoolOp: _other_conditions,
    ast.Assign | ast.Expr | ast.Return | ast.AugAssign: _without,
    ast.AugAssign: _other_additions,
}


def _swapped_parameters(solution: Solution) -> Iterator[tuple[str, ast.Module]]:
    """Two parameters that stand for each other: the first line has them in the wrong order."""
    for number, function in enumerate(functions_of(solution.tree(), solution)):
        names = [argument.arg for argument in function.args.args if argument.arg != "self"]
        for first, second in zip(names, names[1:], strict=False):
            tree = solution.tree()
            body = functions_of(tree, solution)[number].body
            body.insert(0, ast.parse(f"{first}, {second} = {second}, {first}").body[0])
            yield f"`{first}` and `{second}` stand for each other in `{function.name}`", tree

"""Distinguish an untouched stub from an answer by its bytecode (notebook cells may have no source file)."""

import dis
import inspect
import types

_SILENT = {
    "RESUME", "NOP", "CACHE", "PUSH_NULL", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "EXTENDED_ARG", "KW_NAMES",
}  # fmt: skip


def is_stub(function) -> bool:
    """True if the body, after the docstring, is only `raise NotImplementedError(...)`."""
    function = _underlying(function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname not in _SILENT]
    if len(steps) < 2 or steps[0].argval != "NotImplementedError" or steps[-1].opname != "RAISE_VARARGS":
        return False
    # Lines below the raise are unreachable and not compiled, but their names are still listed.
    if set(code.co_names) - {"NotImplementedError"} or len(code.co_varnames) != _arguments(code):
        return False
    between = [step.opname for step in steps[1:-1]]
    return between in ([], ["CALL"], ["LOAD_CONST", "CALL"])


def _arguments(code: types.CodeType) -> int:
    variable = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + variable


def _underlying(function):
    if isinstance(function, staticmethod | classmethod):
        function = function.__func__
    elif isinstance(function, property):
        function = function.fget
    return inspect.unwrap(function) if callable(function) else function


def stub_methods(cls: type) -> list[str]:
    """Names of the methods defined in the class itself that still hold the stub."""
    return [name for name, member in vars(cls).items() if is_stub(member)]


def open_values(value) -> tuple[int, int]:
    """How many entries of a value answer are still `...`, and how many entries there are."""
    if isinstance(value, tuple | list):
        counts = [open_values(item) for item in value]
        return sum(count[0] for count in counts), sum(count[1] for count in counts)
    if isinstance(value, dict):
        return open_values(list(value.values()))
    return int(value is ...), 1

"""Code fingerprint: one hash of a module and of everything it imports from its own package.

It is part of the key of a cached result (would this code still compute it?) and of a built notebook (must the lesson
run again?). Comments, docstrings and layout do not count, and every version of Python gives the same hash.
"""

import ast
import hashlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_text = partial(Path.read_text, encoding="utf-8")


def digest(*parts: str | bytes) -> str:
    """SHA-256 of all parts, each preceded by its length, so that ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(f"{len(data)}:".encode() + data)
    return total.hexdigest()


def canonical_code(code: str) -> str:
    """The abstract syntax tree of `code` as text, without docstrings. `ast.dump` differs between versions of Python."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return _dump(tree)


def _dump(node) -> str:
    if isinstance(node, list):
        return f"[{' '.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return f"{type(node).__name__}:{node!r}"
    if isinstance(node, ast.JoinedStr):  # as one text: versions of Python split its constants differently
        parts = (p.value.replace("{", "{{") if isinstance(p, ast.Constant) else f"{{{_dump(p)}}}" for p in node.values)
        return f"(JoinedStr {''.join(parts)!r})"
    # Empty fields are left out: later versions of Python add new ones (type_params, ...).
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("kind", "type_comment"))
    body = " ".join(f"{name}={_dump(value)}" for name, value in fields if value is not None and value != [])
    return f"({type(node).__name__} {body})"


def imported(code: str, module: str = "", is_package: bool = False) -> Iterator[str]:
    """Dotted names that `code` in `module` may import, at any depth; not all of them are modules.

    A string that looks like a dotted name counts: modules that are imported late are named that way.
    """
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level, package) if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", str(node.value)):
            yield str(node.value)


def closure(names: Iterable[str], root: Path = ROOT) -> dict[str, Path]:
    """Import closure: all modules under `root` that importing `names` can import, with their files, sorted by name.

    Only the packages of `names` are followed. Importing `a.b` runs `a/__init__.py` first, so parents belong to it.
    """
    waiting = list(names)
    packages = {name.partition(".")[0] for name in waiting}
    modules: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        stem = root.joinpath(*name.split("."))
        files = [file for file in (stem / "__init__.py", stem.with_name(stem.name + ".py")) if file.is_file()]
        if files and name not in modules and name.partition(".")[0] in packages:
            modules[name] = files[0]
            waiting += [*_parsed(name, files[0], _text(files[0]))[0], name.rpartition(".")[0] or name]
    return dict(sorted(modules.items()))


def code_parts(modules: dict[str, Path]) -> list[str]:
    """One line for each module of a `closure`: its name and the hash of its code."""
    return [f"{name} {_parsed(name, file, _text(file))[1]}" for name, file in modules.items()]


@lru_cache(maxsize=1024)
def _parsed(name: str, file: Path, code: str) -> tuple[tuple[str, ...], str]:
    return tuple(imported(code, name, file.name == "__init__.py")), digest(canonical_code(code))


def package_data(modules: dict[str, Path]) -> list[Path]:
    """Files other than Python that the packages of a `closure` use (scripts and style sheets of the widgets).

    A file or folder counts when a module of the closure, in the same package, names it in a string.
    """
    files: list[Path] = []
    for folder in {file.parent for file in modules.values() if file.name == "__init__.py"}:
        code = "\n".join(_text(file) for file in modules.values() if file.parent == folder)
        for entry in folder.iterdir():
            if not (entry / "__init__.py").exists() and re.search(rf"""["'/]{re.escape(entry.name)}["'/]""", code):
                below = [file for file in entry.rglob("*") if "/." not in file.relative_to(folder).as_posix()]
                files += [entry, *below]
    return sorted(file for file in files if file.is_file() and file.suffix not in (".py", ".pyc"))

"""What a piece of code depends on, as one short hash.

Two things ask for this: kept results (is the stored number still the number this code gives?) and the notebook
build (must this lesson run again?). Both follow the import statements of a module through its own package and
hash what the code means: comments, docstrings and layout do not count.
"""

import ast
import hashlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def digest(*parts: str | bytes) -> str:
    """One sha256 over all parts; each is preceded by its length, so that ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(f"{len(data)}:".encode())
        total.update(data)
    return total.hexdigest()


def meaning(code: str) -> str:
    """`code` as text that changes only when its meaning does.

    Written out by hand instead of with `ast.dump`, whose form changes between versions of Python: a key that
    is saved in a notebook must be the same under all of them.
    """
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _drop_docstring(node)
    return _written(tree)


def _drop_docstring(node) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]


def _written(node) -> str:
    if isinstance(node, ast.JoinedStr):
        return f"(JoinedStr {' '.join(_written(part) for part in _merged(node.values))})"
    if isinstance(node, ast.AST):
        # Fields that are empty are left out: later versions of Python add new ones (type_params, ...).
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("kind", "type_comment"))
        body = " ".join(f"{name}={_written(value)}" for name, value in fields if value is not None and value != [])
        return f"({type(node).__name__} {body})"
    if isinstance(node, list):
        return f"[{' '.join(_written(item) for item in node)}]"
    return f"{type(node).__name__}:{node!r}"


def _merged(parts: list) -> list:
    """Neighbouring texts of an f-string as one; the versions of Python cut them differently."""
    merged: list = []
    for part in parts:
        texts = isinstance(part, ast.Constant) and merged and isinstance(merged[-1], ast.Constant)
        if texts:
            merged[-1] = ast.Constant(merged[-1].value + part.value)
        else:
            merged.append(part)
    return merged


def module_file(name: str, root: Path = ROOT) -> Path | None:
    """The file of the module `name` under `root`, or None when there is no such module."""
    stem = root.joinpath(*name.split("."))
    for file in (stem / "__init__.py", stem.with_name(stem.name + ".py")):
        if file.is_file():
            return file
    return None


def imported(code: str, module: str = "", is_package: bool = False) -> Iterator[str]:
    """Dotted names that `code`, standing in `module`, may import, at any depth; not all of them are modules.

    A string that reads like a dotted name counts too: that is how modules are named that are imported late.
    """
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level, package) if node.level else ""
            base = ".".join(part for part in (base, node.module) if part)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and _dotted(node.value):
            yield node.value


def _dotted(value) -> bool:
    return isinstance(value, str) and "." in value and all(part.isidentifier() for part in value.split("."))


def closure(names: Iterable[str], root: Path = ROOT) -> dict[str, Path]:
    """All modules under `root` that importing `names` can import, with their files, sorted by name.

    Only modules of the packages named in `names` are followed; the rest is what the versions stand for.
    Importing `a.b` runs `a/__init__.py` first, so parents are part of it.
    """
    names = list(names)
    packages = {name.partition(".")[0] for name in names}
    found: dict[str, Path] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name.partition(".")[0] not in packages:
            continue
        file = module_file(name, root)
        if file is None:
            continue
        found[name] = file
        stamp = file.stat()
        waiting += _imported_by(file, name, stamp.st_mtime_ns, stamp.st_size)
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return dict(sorted(found.items()))


@lru_cache(maxsize=1024)
def _imported_by(file: Path, name: str, _mtime: int, _size: int) -> tuple[str, ...]:
    code = file.read_text(encoding="utf-8")
    return tuple(imported(code, name, is_package=file.name == "__init__.py"))


@lru_cache(maxsize=1024)
def _meaning_of(file: Path, _mtime: int, _size: int) -> str:
    return digest(meaning(file.read_text(encoding="utf-8")))


def code_parts(modules: dict[str, Path]) -> list[str]:
    """One line for each module of a `closure`: its name and the hash of its meaning."""
    lines = []
    for name, file in modules.items():
        stamp = file.stat()
        lines.append(f"{name} {_meaning_of(file, stamp.st_mtime_ns, stamp.st_size)}")
    return lines


def package_data(modules: dict[str, Path]) -> list[Path]:
    """Files that are not Python and that the packages of a `closure` use (scripts and styles of the widgets).

    A file or folder counts when a module of its package that is part of the closure names it in a string.
    """
    folders = {file.parent for file in modules.values() if file.name == "__init__.py"}
    found = []
    for folder in folders:
        own = [file.read_text(encoding="utf-8") for file in modules.values() if file.parent == folder]
        found += [file for file in _data_below(folder) if _named(file.relative_to(folder).parts[0], own)]
    return sorted(found)


def _named(name: str, codes: list[str]) -> bool:
    pattern = re.compile(rf"""["'/]{re.escape(name)}["'/]""")
    return any(pattern.search(code) for code in codes)


def _data_below(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name == "__pycache__" or entry.name.startswith("."):
            continue
        if entry.is_dir():
            if not (entry / "__init__.py").exists():
                yield from _data_below(entry)
        elif entry.suffix not in (".py", ".pyc"):
            yield entry


def file_hash(path: Path) -> str:
    """sha256 of a file's content, or of all files below a folder with their names."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return digest(*(text for file in files for text in (file.relative_to(path).as_posix(), file_hash(file))))
    if not path.is_file():
        raise FileNotFoundError(f"expected a data file at {path}, found none; make it first or correct its name")
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def text_hash(path: Path) -> str:
    """Like `file_hash`, but the line endings that a checkout on Windows gives to a text do not count."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()

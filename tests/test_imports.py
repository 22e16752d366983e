"""Packages of utils import in one direction; `utils.paths` may be imported by all."""

import ast

import pytest

from utils.paths import ROOT

LIBRARY = {"models", "data", "training"}
MAY_IMPORT = {
    "models": set(),
    "data": set(),
    "training": {"models", "data"},
    "plots": set(),  # figures take arrays and strings
    "widgets": {"plots"},  # so do widgets, and functions
    "checks": set(),  # answers and references are handed to it
    "exercises": LIBRARY | {"plots", "widgets", "checks"},
    "grading": LIBRARY | {"checks", "exercises"},
    "build": LIBRARY | {"plots", "widgets", "checks", "exercises"},
}
EXCEPTIONS = {("utils/grading/assignment.py", "build"): "notebooks for nbgrader are made from the lesson's source"}


def imported_packages(code: str) -> set[str]:
    """The packages of utils that a module imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "a relative import hides which package it crosses: write it out"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("utils.")}


def wrong_imports(package: str, code: str) -> set[str]:
    return imported_packages(code) - MAY_IMPORT[package] - {package, "paths"}


def wrong_imports_of(package: str) -> set[tuple[str, str]]:
    files = sorted((ROOT / "utils" / package).rglob("*.py"))
    texts = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return {(name, target) for name, text in texts.items() for target in wrong_imports(package, text)}


def test_every_package_has_a_rule():
    assert {folder.name for folder in (ROOT / "utils").iterdir() if any(folder.glob("*.py"))} == set(MAY_IMPORT)
    assert wrong_imports_of("grading") == set(EXCEPTIONS), "an exception that nobody needs"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(package):
    allowed = ", ".join(sorted(MAY_IMPORT[package])) or "no other package"
    for name, target in wrong_imports_of(package) - set(EXCEPTIONS):
        pytest.fail(f"{name} imports utils.{target}; {package} may import {allowed}")


def test_a_wrong_import_is_found_wherever_it_stands():
    assert wrong_imports("plots", "from utils import paths, widgets") == {"widgets"}
    assert wrong_imports("models", "def late():\n    import utils.data.tokens as t") == {"data"}
    assert wrong_imports("widgets", "from utils.plots.style import BLUE\nfrom utils.widgets import forms") == set()

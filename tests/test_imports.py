"""Packages import in one direction: a module may import from its own package and from those to its left in ORDER."""

import ast

from utils.paths import ROOT

# Packages in one entry do not import each other. `utils.paths` may be imported by all. `build` stands before `grading`
# because an assignment for nbgrader is made from a lesson's source.
ORDER = [{"models", "data"}, {"training"}, {"plots"}, {"widgets"}, {"checks"}, {"exercises"}, {"build"}, {"grading"}]


def imported_packages(code: str) -> set[str]:
    """The packages of utils that a module imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where a module stands"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("utils.")}


def wrong_imports(package: str, code: str) -> set[str]:
    left = set().union(*ORDER[: next(index for index, level in enumerate(ORDER) if package in level)])
    return imported_packages(code) - left - {package, "paths"}


def test_every_package_has_its_place_in_the_order():
    packages = {folder.name for folder in (ROOT / "utils").iterdir() if any(folder.glob("*.py"))}
    assert packages == set().union(*ORDER)


def test_packages_import_from_the_left_only():
    wrong = [
        f"{file.relative_to(ROOT)} imports utils.{target}: {package} may import only what stands to its left in {ORDER}"
        for package in sorted(set().union(*ORDER))
        for file in sorted((ROOT / "utils" / package).rglob("*.py"))
        for target in sorted(wrong_imports(package, file.read_text(encoding="utf-8")))
    ]
    assert not wrong, "\n".join(wrong)


def test_an_import_from_the_right_is_found_wherever_it_stands():
    assert wrong_imports("plots", "from utils import paths, widgets") == {"widgets"}
    assert wrong_imports("models", "def late():\n    import utils.data.tokens as t") == {"data"}
    assert wrong_imports("checks", "from utils.plots.style import BLUE\nfrom utils.checks import text") == set()

"""Facts about the checkout: what it needs, what it says it needs, and what its README claims."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from functools import cache

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from utils.course.places import ROOT
from utils.course.readme import LECTURERS, README, filled_in

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = [Requirement(line) for line in PROJECT["dependencies"]]
TESTING = [Requirement(line) for line in PROJECT["optional-dependencies"]["test"]]
# Needed without being imported: programs, pytest plugins, the kernel itself.
TOOLS = {"jupyterlab", "ipykernel", "nbval", "pip-tools", "pytest-xdist", "ruff"}
OWN = {"utils", "tests", "conftest"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def python_files(*folders):
    files = [
        file for folder in folders for file in (ROOT / folder).rglob("*.py") if ".ipynb_checkpoints" not in file.parts
    ]
    assert files
    return files


@cache
def imported_modules(file):
    modules = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(node.module.partition(".")[0])
    return modules


def imported_distributions(files):
    """Names on the package index of everything that these files import from outside."""
    modules = set().union(*map(imported_modules, files))
    outside = modules - OWN - set(sys.stdlib_module_names)
    known = importlib.metadata.packages_distributions()
    return {normal(known[module][0]) for module in outside}


def test_what_the_course_imports_is_declared():
    declared = {normal(requirement.name) for requirement in RUNTIME}
    at_run_time = [file for file in python_files("utils", "notebooks/src") if file.stem not in BUILD_ONLY]
    assert imported_distributions(at_run_time) <= declared


# Modules that make notebooks and decks: a maintainer's, so their packages come with the test environment.
BUILD_ONLY = {"assignment", "build", "lint", "slides", "source"}


def test_what_tests_and_builds_import_is_declared():
    declared = {normal(requirement.name) for requirement in RUNTIME + TESTING}
    assert imported_distributions(python_files("utils", "notebooks/src", "tests") + [ROOT / "conftest.py"]) <= declared


def test_what_is_declared_is_imported_or_a_named_tool():
    imported = imported_distributions(python_files("utils", "notebooks/src", "tests") + [ROOT / "conftest.py"])
    declared = {normal(requirement.name) for requirement in RUNTIME + TESTING}
    assert declared - imported - TOOLS == set()
    assert declared >= TOOLS


def test_nothing_is_declared_for_tests_that_the_course_needs_already():
    assert not {normal(r.name) for r in RUNTIME} & {normal(r.name) for r in TESTING}


def test_conda_and_pip_ask_for_the_same_things():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["name"] == PROJECT["name"]
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert pip == ["-e ."], "the one list of dependencies is pyproject.toml"
    assert {entry.partition("=")[0] for entry in conda} == {"python", "pip"}
    (python,) = [entry.partition("=")[2] for entry in conda if entry.startswith("python=")]
    assert SpecifierSet(PROJECT["requires-python"]).contains(python)


def test_the_workflow_runs_the_readmes_test_command_on_every_supported_python():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["test"]
    assert job["steps"][-1] == {"run": "make test"}
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").rstrip().endswith("\nmake test")
    assert re.search(r"^make test\b", README.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("document", [README, LECTURERS], ids=lambda path: path.name)
def test_tables_in_documents_say_what_was_measured(document):
    assert filled_in(document.read_text(encoding="utf-8")) == document.read_text(encoding="utf-8"), "run `make results`"


def test_a_document_with_an_unknown_or_open_block_is_refused():
    for text in ("no block", "<!-- begin: nonsense -->\n<!-- end: nonsense -->", "<!-- begin: lessons -->\n"):
        with pytest.raises(ValueError):
            filled_in(text)


def test_every_link_in_the_documents_leads_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "data/README.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_make_help_names_every_command():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert set(re.findall(r"make ([a-z-]+) ", said)) == set(phony.split()) - {"setup", "setup-test"}


def test_packages_import_in_one_direction_only():
    allowed = {
        "models": {"models"},
        "data": {"data"},
        "training": {"models", "data", "training"},
        "draw": {"draw"},
        "course": {"models", "data", "training", "draw", "course"},
    }
    for room, may in allowed.items():
        for file in python_files(f"utils/{room}"):
            for target in re.findall(r"^\s*(?:from|import) utils\.(\w+)", file.read_text(encoding="utf-8"), re.M):
                assert target in may, f"{file.relative_to(ROOT)} imports utils.{target}"

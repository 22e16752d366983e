"""Facts about the checkout: what it needs, what it says it needs, and what its README claims."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from utils import paths
from utils.build.documents import LECTURERS, README, filled_in
from utils.exercises.lessons import LESSONS
from utils.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = [Requirement(line) for line in PROJECT["dependencies"]]
TESTING = [Requirement(line) for line in PROJECT["optional-dependencies"]["test"]]
# Needed without being imported: programs, pytest plugins, the kernel itself.
TOOLS = {
    "ipywidgets",
    "jupyterlab",
    "ipykernel",
    "myst-nb",
    "nbval",
    "pip-tools",
    "pytest-xdist",
    "ruff",
    "sphinx-book-theme",
}
OWN = {"utils", "tests", "conftest"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def python_files(*folders):
    files = [
        file for folder in folders for file in (ROOT / folder).rglob("*.py") if ".ipynb_checkpoints" not in file.parts
    ]
    assert files
    return files


def imported_distributions(files):
    """Names on the package index of everything that these files import from outside."""
    modules = set()
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(node.module.partition(".")[0])
    outside = modules - OWN - set(sys.stdlib_module_names)
    known = importlib.metadata.packages_distributions()
    return {normal(known[module][0]) for module in outside}


# run where tests run, never by a student
BUILD_ONLY = {
    "browser",
    "widget_pictures",
    "assignment",
    "notebooks",
    "lint",
    "slides",
    "solutions",
    "source",
    *(file.stem for file in (ROOT / "utils/build/site").glob("*.py")),
}


def test_what_is_imported_is_declared_where_it_is_needed_and_nothing_else_is():
    runtime, testing = ({normal(requirement.name) for requirement in part} for part in (RUNTIME, TESTING))
    at_run_time = [file for file in python_files("utils", "notebooks/src") if file.stem not in BUILD_ONLY]
    assert imported_distributions(at_run_time) <= runtime
    imported = imported_distributions(python_files("utils", "notebooks/src", "tests") + [ROOT / "conftest.py"])
    assert imported | TOOLS == runtime | testing and not runtime & testing


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


def test_tables_and_claims_in_documents_say_what_was_measured():
    for document in (README, LECTURERS):
        text = document.read_text(encoding="utf-8")
        assert filled_in(text) == text, "run `make results`"
    with pytest.raises(ValueError):
        filled_in("<!-- begin: nonsense -->\n<!-- end: nonsense -->")


def test_with_a_published_site_the_readme_links_to_it(monkeypatch):
    monkeypatch.setattr(paths, "site_url", lambda: "https://example.org/course")
    text = filled_in(README.read_text(encoding="utf-8"))
    assert "(https://example.org/course/index.html)" in text
    assert all(f"(https://example.org/course/{lesson.name}.html)" in text for lesson in LESSONS)


def test_every_link_in_the_documents_leads_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "data/README.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_make_help_names_every_command():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert set(re.findall(r"make ([a-z-]+) ", said)) == set(phony.split()) - {"setup", "setup-test"}

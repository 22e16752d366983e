"""Facts about the checkout: what it needs, what it says it needs, and what its README claims."""

import ast
import importlib.metadata
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from utils import paths
from utils.build import bootstrap, commands
from utils.build.documents import LECTURERS, README, STUDENTS, filled_in
from utils.exercises.lessons import LESSONS
from utils.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = [Requirement(line) for line in PROJECT["dependencies"]]
GROUPS = {group: [Requirement(line) for line in lines] for group, lines in PROJECT["optional-dependencies"].items()}
# Needed without being imported: programs, pytest plugins, the kernel itself, the widgets' front end.
TOOLS = {
    "": {"ipywidgets"},
    "lab": {"ipykernel", "jupyterlab"},
    "test": {"nbval", "pip-tools", "pytest-xdist", "ruff"},
    "site": {"myst-nb", "sphinx-book-theme"},
    "grading": {"nbgrader"},
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


# run by maintainers and graders, never by a student
NOTEBOOKS = ("browser", "lint", "notebooks", "solutions", "source", "wheel", "widget_pictures")
SITE = ("slides", *(file.stem for file in (ROOT / "utils/build/site").glob("*.py")))
GRADING = ("assignment",)


def names(requirements):
    return {normal(requirement.name) for requirement in requirements}


def modules(*stems):
    return [file for file in python_files("utils") if file.stem in stems]


def test_what_is_imported_is_declared_in_the_group_that_needs_it_and_nothing_else_is():
    base = names(RUNTIME)
    students = [file for file in python_files("utils") if file.stem not in (*NOTEBOOKS, *SITE, *GRADING)]
    needed = {
        "": [*students, *python_files("notebooks/src")],
        "lab": [],
        "test": [*modules(*NOTEBOOKS), *python_files("tests"), ROOT / "conftest.py"],
        "site": modules(*NOTEBOOKS, *SITE),
        "grading": modules(*NOTEBOOKS, *GRADING),
    }
    others = {
        "test": names(GROUPS["site"] + GROUPS["grading"]),  # the tests run in all groups
        "site": {"setuptools"},  # it builds the wheel
        "grading": {"setuptools"},
    }
    assert imported_distributions(needed.pop("")) | TOOLS[""] == base
    for group, files in needed.items():
        declared, used = names(GROUPS[group]), imported_distributions(files) | TOOLS[group]
        assert used - base - others.get(group, set()) <= declared, group
        assert declared <= used - base, group


def test_a_student_installs_no_browser_and_no_grader_and_groups_agree_on_versions():
    assert not names(RUNTIME + GROUPS["lab"]) & {"playwright", "nbgrader", "sphinx", "pytest", "transformers", "ruff"}
    bounds = {}
    for requirement in [*RUNTIME, *(line for group in GROUPS.values() for line in group)]:
        assert bounds.setdefault(requirement.name, str(requirement)) == str(requirement)
    for group, extras in bootstrap.GROUPS.items():
        assert set(extras.strip("[]").split(",")) == ({"lab"} if group == "lab" else set(GROUPS))


def test_conda_and_pip_ask_for_the_same_things():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["name"] == PROJECT["name"]
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert pip == ["-e .[lab]"], "the one list of dependencies is pyproject.toml"
    assert {entry.partition("=")[0] for entry in conda} == {"python", "pip"}
    (python,) = [entry.partition("=")[2] for entry in conda if entry.startswith("python=")]
    assert SpecifierSet(PROJECT["requires-python"]).contains(python)


def test_the_workflow_runs_the_readmes_commands_on_every_system_and_every_supported_python():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    everything, notebooks = workflow["jobs"]["test"], workflow["jobs"]["notebooks"]
    assert everything["steps"][-1] == {"run": "make test"}
    assert everything["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert notebooks["steps"][-1] == {"run": "python -m utils test notebooks"}, "no make, on Windows"
    assert notebooks["strategy"]["matrix"]["system"] == ["macos-latest", "windows-latest"]
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").rstrip().endswith("\nmake test")
    assert re.search(r"^make test\b", README.read_text(encoding="utf-8"), re.M)


def test_tables_and_claims_in_documents_say_what_was_measured():
    for document in (README, LECTURERS, STUDENTS):
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


def test_make_help_names_every_command_and_make_has_each():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert set(re.findall(r"^  ([a-z-]+) ", said, re.MULTILINE)) == set(commands.COMMANDS)
    assert set(phony.split()) == set(commands.COMMANDS) | {"help", "clean", "setup", "setup-test"}


@pytest.mark.parametrize(("name", "arguments"), [("lab", ["--port", "8888"]), ("grade", [""]), ("notebooks", ["01"])])
def test_make_runs_the_command_of_the_same_name(name, arguments):
    done = subprocess.run(["make", "-n", name, "LESSON=01"], cwd=ROOT, capture_output=True, text=True, check=True)
    run = done.stdout.strip().splitlines()[-1].partition(" -m utils ")[2]
    assert shlex.split(run) == [name, *arguments]

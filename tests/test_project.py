"""Facts about the checkout: what it needs, what it says it needs, and what its README claims."""

import ast
import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from PIL import Image

from utils import paths
from utils.build import bootstrap, commands
from utils.build.documents import DOCUMENTS, PICTURE, README, filled_in
from utils.build.hosting import hosted
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
NOTEBOOKS = ("browser", "hosting", "lint", "notebooks", "solutions", "source", "wheel", "widget_pictures")
SITE = ("slides", *(file.stem for file in (ROOT / "utils/build/site").glob("*.py")))
GRADING = ("assignment",)
LAB = ROOT / "utils/build/server.py"  # inside the server of `make lab`


def names(requirements):
    return {normal(requirement.name) for requirement in requirements}


def modules(*stems):
    return [file for file in python_files("utils") if file.stem in stems]


def test_what_is_imported_is_declared_in_the_group_that_needs_it_and_nothing_else_is():
    base = names(RUNTIME)
    build_only = {LAB, *modules(*NOTEBOOKS, *SITE, *GRADING)}
    students = [file for file in python_files("utils") if file not in build_only]
    needed = {
        "": [*students, *python_files("notebooks/src")],
        "lab": [LAB],
        "test": [*modules(*NOTEBOOKS), *python_files("tests"), ROOT / "conftest.py"],
        "site": modules(*NOTEBOOKS, *SITE),
        "grading": modules(*NOTEBOOKS, *GRADING),
    }
    others = {
        "test": names(GROUPS["lab"] + GROUPS["site"] + GROUPS["grading"]),  # the tests run in all groups
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


def test_a_workflow_may_read_and_only_the_job_that_publishes_the_site_may_write():
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, file.name
        more = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
        assert more == ({"publish": {"pages": "write", "id-token": "write"}} if file.name == "site.yml" else {})
    assert "run" not in str(workflow["jobs"].get("publish", {}).get("steps"))


def test_tables_and_claims_in_documents_say_what_was_measured():
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        assert filled_in(text) == text, "run `make results`"
    with pytest.raises(ValueError):
        filled_in("<!-- begin: nonsense -->\n<!-- end: nonsense -->")


def test_the_citation_repeats_the_authors_and_addresses_of_the_project_table(monkeypatch):
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = yaml.safe_load(text)
    assert cited["authors"] == PROJECT["authors"] and cited["version"] == PROJECT["version"]
    monkeypatch.setattr(paths, "site_url", lambda: "https://example.org/course")
    monkeypatch.setattr(paths, "repository_url", lambda: "https://github.com/example/course")
    published = yaml.safe_load(filled_in(text))
    assert published.pop("url") == "https://example.org/course"
    assert published.pop("repository-code") == "https://github.com/example/course"
    assert published == {name: cited[name] for name in published}


def test_addresses_are_read_from_the_project_table(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    urls = 'Homepage = "https://example.org/course/"\nRepository = "https://github.com/example/course.git"\n'
    for text, expected in (("", ("", "")), (urls, ("https://example.org/course", "https://github.com/example/course"))):
        (tmp_path / "pyproject.toml").write_text(f"[project.urls]\n{text}", encoding="utf-8")
        assert (paths.site_url(), paths.repository_url()) == expected


@pytest.mark.parametrize("site", ["", "https://example.org/course"])
@pytest.mark.parametrize("repository", ["", "https://github.com/example/course"])
def test_the_readme_links_to_what_is_published_and_to_files_of_the_checkout_otherwise(site, repository, monkeypatch):
    monkeypatch.setattr(paths, "site_url", lambda: site)
    monkeypatch.setattr(paths, "repository_url", lambda: repository)
    text = filled_in(README.read_text(encoding="utf-8"))
    home = f"{site}/transformer.html" if site else f"notebooks/{LESSONS[6].name}.ipynb"
    assert text.count(f"]({PICTURE})]({home})") == 1
    for lesson in LESSONS:
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {lesson.number} |")]
        targets = re.findall(r"\]\(([^)]+)\)", row)
        page = [f"{site}/{lesson.name}.html", f"{site}/slides/{lesson.name}.html"]
        hosts = list(hosted(lesson.name).values())
        exercises = f"notebooks/exercises/{lesson.name}.ipynb"
        assert targets == (page if site else [f"notebooks/{lesson.name}.ipynb"]) + (hosts or [exercises])
        assert len(hosts) == (2 if repository else 0) and all(exercises in address for address in hosts)
    ways, _, _ = text.partition("## Lessons")
    assert all(f"]({address})" in ways for address in hosted(LESSONS[1].name).values())


def test_the_readme_is_short_and_its_picture_moves_and_loads_quickly():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150
    with Image.open(ROOT / PICTURE) as picture:
        assert picture.n_frames > 20
    assert (ROOT / PICTURE).stat().st_size < 1.5e6


def test_every_link_in_the_documents_leads_somewhere():
    cards = [ROOT / "data/README.md", *(ROOT / "data").glob("*/README.md")]
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *cards]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_form_for_problems_asks_for_a_command_that_prints_the_environment_check():
    form = (ROOT / ".github/ISSUE_TEMPLATE/problem.yml").read_text(encoding="utf-8")
    module = re.search(r"`\.venv/bin/python -m ([\w.]+)`", form)[1]
    said = subprocess.run([sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^ok   Python: 3\.\d+", said) and "packages:" in said and "memory:" in said


def test_make_help_names_every_command_and_make_has_each():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert set(re.findall(r"^  ([a-z-]+) ", said, re.MULTILINE)) == set(commands.COMMANDS)
    assert set(phony.split()) == set(commands.COMMANDS) | {"help", "clean", "setup", "setup-test"}


@pytest.mark.parametrize(("name", "arguments"), [("lab", ["--port", "8888"]), ("grade", [""]), ("notebooks", ["01"])])
def test_make_runs_the_command_of_the_same_name(name, arguments):
    # A make that another make started takes over its options, such as ARGS, and prints the folder.
    own = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "ARGS")}
    command = ["make", "-n", name, "LESSON=01"]
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True)
    run = next(after for line in done.stdout.splitlines() if (after := line.partition(" -m utils ")[2]))
    assert shlex.split(run) == [name, *arguments]

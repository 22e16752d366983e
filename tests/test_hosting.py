"""The first cell of student notebooks: nothing where the course is installed; elsewhere it gets the course and keeps torch."""

import ast
import json
import os
import shutil
import subprocess
import sys
import venv

import pytest

from utils import paths
from utils.build import hosting
from utils.build.notebooks import read_lesson
from utils.build.source import lecture_of, student_of
from utils.exercises.lessons import LESSONS
from utils.paths import ROOT

REPOSITORY = "https://github.com/example/course"
# Stands in for pip and writes down what it was asked for.
PIP = """import json, pathlib, sys
pathlib.Path(__file__).with_name("asked.jsonl").open("a").write(json.dumps(sys.argv[1:]) + "\\n")
sys.exit("no network" if pathlib.Path(__file__).with_name("offline").exists() else 0)
"""


@pytest.mark.parametrize("repository", ["", REPOSITORY])
def test_every_student_notebook_begins_with_a_short_cell_that_no_lecture_has(repository, monkeypatch):
    monkeypatch.setattr(paths, "repository_url", lambda: repository)
    for lesson in LESSONS:
        source = read_lesson(lesson.name)
        lecture, student = (form(source) for form in (lecture_of, student_of))
        first, imports = [cell for cell in student.cells if cell.cell_type == "code"][:2]
        assert first.source == hosting.first_cell().source and first.metadata["jupyter"]["source_hidden"]
        assert "from utils.exercises import" in imports.source
        assert first.id not in [cell.id for cell in lecture.cells]
    assert len(first.source.splitlines()) <= 10 and (repository in first.source)
    tops = ast.parse(first.source).body
    assert [type(node) for node in tops] == [ast.Try], "the grader takes the first import for the lesson's imports"


def test_the_committed_student_notebooks_are_silent_where_the_course_is(tmp_path):
    done = run(sys.executable, hosting.first_cell().source, tmp_path, PYTHONPATH=str(ROOT))
    assert (done.returncode, done.stdout, done.stderr, list(tmp_path.iterdir())) == (0, "", "", [])


class Host:
    """A platform with a torch of its own and no course: git leads the published address to a repository of this machine."""

    def __init__(self, folder, torch="2.99.0+platform"):
        environment, self.work, self.origin = folder / "platform", folder / "content", folder / "origin"
        venv.create(environment, with_pip=False)
        self.python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        asked = subprocess.check_output([self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        self.packages = folder.__class__(asked.decode().strip())
        self.write("pip/__main__.py", PIP)
        self.write("utils/__init__.py", "")  # a package of the platform with the name of ours
        if torch:
            self.write("torch-0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n")
        self.work.mkdir()

    def write(self, name, text):
        (self.packages / name).parent.mkdir(exist_ok=True)
        (self.packages / name).write_text(text, encoding="utf-8")

    def publish(self):
        shutil.copytree(ROOT / "utils", self.origin / "utils", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.origin)
        git = ["git", "-C", self.origin, "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "course"]):
            subprocess.run([*git, *command], check=True)

    def run(self, code):
        redirect = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{self.origin.as_uri()}.insteadOf",
            "GIT_CONFIG_VALUE_0": REPOSITORY,
            "GIT_TERMINAL_PROMPT": "0",
        }
        return run(self.python, code, self.work, **redirect)

    @property
    def asked(self):
        return [json.loads(line) for line in (self.packages / "pip/asked.jsonl").read_text().splitlines()]


def run(python, code, folder, **settings):
    foreign = ("PYTHON", "COV_", "VIRTUAL_ENV")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | settings
    return subprocess.run([python, "-c", code], cwd=folder, env=own, capture_output=True, text=True, timeout=120)


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "repository_url", lambda: REPOSITORY)
    return Host(tmp_path)


def test_on_a_host_it_clones_the_course_once_and_asks_pip_for_what_is_missing_with_the_platforms_torch(host):
    host.publish()
    cell = hosting.first_cell().source
    code = f"{cell}\nimport os, sys, utils.exercises\nprint(utils.__path__[0])\nprint(os.environ['PYTHONPATH'] in sys.path[0])"
    for _ in range(2):  # the second time after a restart of the kernel
        done = host.run(code)
        assert done.stderr == "" and done.stdout.splitlines() == [
            "The course is ready in attention-course/; torch is still 2.99.0+platform.",
            str(host.work / "attention-course/utils"),
            "True",
        ]
    asked = host.asked[-1]
    assert len(host.asked) == 2 and [line for line in asked if line.startswith("torch")] == ["torch==2.99.0+platform"]
    assert not [line for line in asked if "upgrade" in line]


def test_a_platform_without_torch_gets_the_version_of_the_course(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "repository_url", lambda: REPOSITORY)
    host = Host(tmp_path, torch=None)
    host.publish()
    done = host.run(hosting.first_cell().source)
    assert done.stdout == "The course is ready in attention-course/.\n"
    (torch,) = [line for line in host.asked[-1] if line.startswith("torch")]
    assert torch in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_without_network_or_address_one_sentence_says_what_to_do(host, monkeypatch):
    done = host.run(hosting.first_cell().source)
    assert "could not be fetched: switch on the notebook's internet access" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    host.publish()
    host.write("pip/offline", "")
    done = host.run(hosting.first_cell().source)
    assert "switch on the notebook's internet access" in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    monkeypatch.setattr(paths, "repository_url", lambda: "")
    done = host.run(hosting.first_cell().source)
    assert (
        done.stderr
        == "The course is missing here: get its whole folder, run `make lab` in it, and open the notebook there.\n"
    )

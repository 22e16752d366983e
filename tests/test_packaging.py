"""The wheel: what is inside, and that the course runs from it without a checkout, in any folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from utils import paths
from utils.build import commands, wheel
from utils.paths import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the unpacked wheel of a source distribution of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "utils", source / "utils", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*wheel.shipped(ROOT), "README.md", "LICENSE", "LICENSE-TEXT"]:
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)
    pack = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", pack], cwd=source, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    (sources,) = folder.glob("*.tar.gz")
    subprocess.run([*pip, "--wheel-dir", str(folder), str(sources)], check=True)
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "site-packages")
    return folder / "site-packages"


@pytest.fixture
def installed(built, tmp_path):
    """Runs code with the unpacked wheel in an empty folder, with an empty home and without this checkout."""
    home, desk = tmp_path / "home", tmp_path / "desk"
    home.mkdir()
    desk.mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("COURSE_", "XDG_"))}
    own |= {"PYTHONPATH": str(built), "HOME": str(home), "COURSE_LIVE": "no"}

    def run(*arguments, folder=desk):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=own, capture_output=True, text=True, encoding="utf-8"
        )
        return done.returncode, done.stdout + done.stderr

    run.home, run.desk = home, desk
    return run


def test_the_wheel_holds_every_file_that_students_and_lessons_need(built):
    wanted = {"utils/course/" + path.as_posix() for path in wheel.shipped(ROOT)}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "utils").rglob("*.py")}
    inside = {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()}
    assert wanted <= inside, sorted(wanted - inside)
    assert len(list((built / "utils/course/notebooks/exercises").glob("*.ipynb"))) == 10
    assert {"encoder", "phrases", "stories"} <= {path.name for path in (built / "utils/course/data").iterdir()}


def test_student_notebooks_link_only_to_documents_that_the_wheel_holds():
    shipped = {path.as_posix() for path in wheel.shipped(ROOT)}
    for notebook in paths.STUDENTS.glob("*.ipynb"):
        for target in re.findall(r"\]\(\.\./\.\./([^)#]+)", notebook.read_text(encoding="utf-8")):
            assert target in shipped, f"{notebook.name} links to {target}"


USES = """
import json
from utils import paths
from utils.build.results import stored
from utils.data.stories import SAMPLES
from utils.exercises.registry import find
from utils.exercises.solutions import solutions_of
from utils.training.cache import cache_folders
from utils.training.stored_encoder import stored_encoder
stored_encoder(), stored("heads"), SAMPLES.joinpath("task_1.txt").read_text(), solutions_of("04")
print(json.dumps([str(path) for path in (paths.ROOT, paths.WORK, paths.OWN_DATA, cache_folders()[0], paths.SOURCES)]))
"""


def test_data_solutions_and_results_come_out_of_the_wheel_and_work_goes_into_the_current_folder(built, installed):
    code, said = installed("-c", USES)
    assert code == 0, said
    root, work, own, cache, sources = json.loads(said.splitlines()[-1])
    assert root == str(built / "utils/course") and sources.startswith(root)
    assert work == str(installed.desk / "work") and own == str(installed.desk / "data")
    assert cache.startswith(str(installed.home))


COPY = "from utils.build import lab; lab.copy_once(); lab.copy_documents()"


def test_a_notebook_in_work_saves_its_progress_there_and_its_links_lead_somewhere(installed):
    assert installed("-c", COPY)[0] == 0
    work = installed.desk / "work"
    links = {
        target
        for notebook in work.glob("*.ipynb")
        for target in re.findall(r"\]\(((?!https?:)[^)#]+\.md)", notebook.read_text(encoding="utf-8"))
    }
    assert links and all((work / target).is_file() for target in links), links
    record = "from utils.checks import progress; print(progress.record_check('1.1', 'passed') or 'saved')"
    assert installed("-c", record, folder=work) == (0, "saved\n")
    assert (work / "progress.jsonl").is_file() and not (work / "work").exists()


def test_without_a_checkout_its_commands_are_refused_in_a_sentence_and_the_others_run(installed):
    for name, command in commands.COMMANDS.items():
        if command.level != "lab":
            assert installed("-m", "utils", name) == (
                2,
                f"'{name}' needs a checkout of the course: run 'python -m utils {name}' there.\n",
            )
    assert installed("-m", "utils", "clean-cache") == (0, "cached results deleted: 0\n")
    code, said = installed("-m", "utils", "lab", "--help")
    assert code == 0 and "--no-browser" in said


def test_the_installed_course_grades_in_the_sandbox_which_sees_its_data_and_not_its_code(built, installed):
    (installed.desk / "submissions").mkdir()
    shutil.copy(paths.STUDENTS / "00_start_here.ipynb", installed.desk / "submissions/alice_00.ipynb")
    code, said = installed("-m", "utils.grading", "submissions", "--jobs", "1")
    assert code == 0 and "lesson 00, 0 of 2 passed" in said, said
    view = "from utils.grading import sandbox; print('\\n'.join(sandbox._file_view()))"
    options = installed("-c", view)[1]
    hidden = options.index(f"--tmpfs\n{built / 'utils'}\n")
    assert f"--ro-bind\n{built / 'utils/course/data'}\n" in options[hidden:]


# --- the commands -----------------------------------------------------------------------------------------------


def test_an_unknown_command_gets_the_list_of_commands(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["attention-course", "labb"])
    assert commands.main() == 2
    said = capsys.readouterr().err
    assert all(f"\n  {name} " in said for name in commands.COMMANDS)


def test_arguments_reach_the_last_step_of_a_command_and_a_failing_step_ends_it(monkeypatch, tmp_path):
    called, ran = [], []
    monkeypatch.setattr(commands.subprocess, "call", lambda command: called.append(command[2:]) or 0)
    monkeypatch.setattr(commands.runpy, "run_module", lambda name, **_: ran.append(list(sys.argv)))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["attention-course", "test", "notebooks"])
    assert commands.main() == 0
    assert [step[0] for step in called] == ["ruff", "ruff", "utils.build.downloads"]
    assert ran == [[*commands.PYTEST.split(), "notebooks"]] and os.getcwd() == str(ROOT)
    monkeypatch.setattr(sys, "argv", ["attention-course", "test"])
    monkeypatch.setattr(commands.subprocess, "call", lambda command: 3)
    assert commands.main() == 3 and len(ran) == 1


def test_every_command_is_the_module_of_an_existing_file():
    for command in commands.COMMANDS.values():
        for step in command.steps:
            module = step.split()[0]
            stem = ROOT.joinpath(*module.split("."))
            assert module in ("pytest", "ruff") or stem.with_suffix(".py").is_file() or (stem / "__main__.py").is_file()


def test_python_m_utils_creates_the_environment_and_hands_the_command_to_it(tmp_path):
    """In a copy of the course whose environment is already there, as far as `bootstrap` can see."""
    course = tmp_path / "a course"
    for name in ("utils/__init__.py", "utils/__main__.py", "utils/paths.py", "pyproject.toml", "requirements.lock"):
        (course / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, course / name)
    (course / "utils/build").mkdir()
    for name in ("__init__.py", "bootstrap.py", "commands.py"):
        shutil.copy(ROOT / "utils/build" / name, course / "utils/build")
    (course / "utils/build/lab.py").write_text("import sys; print(sys.executable, sys.argv)", encoding="utf-8")
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    make = """
import subprocess, sys
from utils.build import bootstrap
subprocess.run([sys.executable, "-m", "venv", "--without-pip", bootstrap.VENV], check=True)
open(bootstrap.STAMP, "w").write(bootstrap.wanted_stamp("lab"))
"""
    subprocess.run([sys.executable, "-c", make], cwd=course, env=bare, check=True)
    command = [sys.executable, "-m", "utils", "lab", "--port", "9000"]
    done = subprocess.run(command, cwd=course, env=bare, capture_output=True, text=True)
    assert done.stdout == f"{course}/.venv/bin/python ['{course}/utils/build/lab.py', '--port', '9000']\n", done.stderr

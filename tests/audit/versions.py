"""Other versions: every Python that the course allows, and the oldest and newest packages that pyproject.toml allows.

Each gets an environment of its own in a temporary folder, which goes away afterwards. torch is only installed in its CPU build;
where a package index has none for a Python, what needs no torch is tried there.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from utils.course.bootstrap import LOCKED_PYTHONS
from utils.course.places import ROOT

PATIENCE = 1800
TOO_OLD = ("2.7", "3.6", "3.8", "3.9", "3.10")
NO_TORCH = ("test_progress", "test_lab", "test_boxes", "test_lock", "test_sharing", "test_stories")
READY = "tests/test_lab.py::test_a_machine_that_is_ready_is_told_so"
FEW = ("test_phrases", "test_attention", "test_exercises", "test_isolation", "test_keep")
WIDGETS = (
    "test_draw_widgets",
    "test_pictures",
    "test_quiz_and_board",
    "test_stored_encoder",
    "test_gguf",
    "test_slides",
)
LESSON = "notebooks/01_softmax_attention.ipynb"


def called(command: list[str], folder: Path = ROOT, **more: str) -> subprocess.CompletedProcess:
    own = (
        {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"} | {"PYTHONPATH": str(ROOT)} | more
    )
    return subprocess.run(
        command, cwd=folder, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        errors="replace", timeout=PATIENCE,
    )  # fmt: skip


def pythons(version: str) -> list[str]:
    """The interpreters of that version that run on this machine, on the path and where pyenv keeps its own."""
    named = [Path(folder) / f"python{version}" for folder in os.environ.get("PATH", "").split(os.pathsep)]
    named += sorted(
        (Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions").glob(f"*/bin/python{version}")
    )
    found: dict[str, str] = {}
    for path in named:
        if path.is_file() and "shims" not in path.parts:
            told = subprocess.run([path, "--version"], capture_output=True, text=True, encoding="utf-8")
            found.setdefault((told.stdout + told.stderr).strip(), str(path))
    return list(found.values())


def last_line(said: str, words: str = "") -> str:
    """The last line that holds `words`, without paths of this machine."""
    lines = [line.strip() for line in said.splitlines() if words in line and line.strip()]
    return re.sub(r"(/[\w.+ -]+){2,}", "...", lines[-1])[-300:] if lines else "nothing to say"


def pytest_row(what: str, python: str, tests: list[str], folder: Path) -> dict:
    start = time.monotonic()
    done = called(
        [python, "-m", "pytest", "-q", "-n", "0", "--nbval-lax", "-p", "no:cacheprovider", *tests], HOME=str(folder)
    )
    said = (
        last_line(done.stdout, "passed")
        if done.returncode == 0
        else last_line(done.stdout, "FAILED") + "; " + last_line(done.stdout)
    )
    return {"what": what, "ok": done.returncode == 0, "said": said, "seconds": round(time.monotonic() - start)}


# --- Pythons ----------------------------------------------------------------------------------------------------


def too_old_rows() -> list[dict]:
    rows = []
    for version in TOO_OLD:
        for python in pythons(version)[:1]:
            # No other Python in sight: with one, it would go on under that.
            done = called([python, "utils/course/bootstrap.py"], PATH="")
            said = done.stdout.strip()
            ok = done.returncode == 1 and said.startswith("The course needs Python 3.11 or newer") and "\n" not in said
            rows.append({"what": f"make lab with Python {version}", "ok": ok, "said": last_line(said)})
    return rows


def python_rows(folder: Path) -> list[dict]:
    rows = []
    for version in LOCKED_PYTHONS:
        found = pythons(version)
        if not found:
            rows.append({"what": f"Python {version}", "ok": True, "said": "not on this machine: not tried"})
        for python in found:
            exact = called([python, "-c", "import platform; print(platform.python_version())"]).stdout.strip()
            rows += one_python(python, exact, folder / exact)
    return rows


def one_python(python: str, exact: str, folder: Path) -> list[dict]:
    compiled = called(
        [python, "-m", "compileall", "-q", "utils", "tests", "notebooks/src", "conftest.py"],
        PYTHONPYCACHEPREFIX=str(folder / "pyc"),
    )
    said = last_line(compiled.stdout) if compiled.returncode else "every file compiles"
    rows = [{"what": f"all files with Python {exact}", "ok": compiled.returncode == 0, "said": said}]
    venv = folder / "venv"
    called([python, "-m", "venv", str(venv)])
    own = str(venv / "bin" / "python")
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    start = time.monotonic()
    done = called([*pip, "--require-hashes", "--no-deps", "-r", "requirements.lock"])
    said = "every package but torch has its sum" if done.returncode == 0 else last_line(done.stdout, "ERROR")
    seconds = round(time.monotonic() - start)
    rows.append(
        {"what": f"requirements.lock with Python {exact}", "ok": done.returncode == 0, "said": said, "seconds": seconds}
    )
    if done.returncode == 0:
        with_torch = called([*pip, "--no-deps", f"{torch_pin()}+cpu"]).returncode == 0
        tests = [f"tests/{name}.py" for name in (NO_TORCH + FEW if with_torch else NO_TORCH)]
        what = f"{len(tests)} files of tests with Python {exact}"
        if not with_torch:
            what += ", without torch: no CPU build to be had"
            tests += ["--deselect", READY]  # no machine is ready without torch
        rows.append(pytest_row(what, own, tests, folder))
    shutil.rmtree(folder, ignore_errors=True)
    return rows


# --- packages ---------------------------------------------------------------------------------------------------


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(line) for line in project["dependencies"] + project["optional-dependencies"]["test"]]


def torch_pin() -> str:
    (torch,) = [str(requirement) for requirement in requirements() if requirement.name == "torch"]
    return torch


def oldest() -> list[str]:
    """Each direct dependency in the oldest version that pyproject.toml allows."""
    pins = []
    for requirement in requirements():
        (low,) = [one.version for one in requirement.specifier if one.operator in (">=", "==")]
        pins.append(f"{requirement.name}=={low}")
    return pins


def package_rows(folder: Path, what: str, pins: list[str]) -> list[dict]:
    venv = folder / what
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    own = str(venv / "bin" / "python")
    fixed = folder / f"{what}.txt"
    fixed.write_text("\n".join(pins), encoding="utf-8")
    copy = folder / f"{what} course"
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT"):
        copy.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "utils", copy / "utils")
    start = time.monotonic()
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(fixed)]
    done = called([*pip, f"{copy}[test]"], folder)
    seconds = round(time.monotonic() - start)
    told = called([own, "-m", "pip", "list", "--format=freeze"]).stdout if done.returncode == 0 else ""
    named = {re.sub(r"[-_.]+", "-", requirement.name).lower() for requirement in requirements()}
    versions = {
        re.sub(r"[-_.]+", "-", line.split("==")[0]).lower(): line.split("==")[1]
        for line in told.splitlines()
        if "==" in line
    }
    said = ", ".join(f"{name} {versions[name]}" for name in sorted(named & versions.keys())) or last_line(
        done.stdout, "ERROR"
    )
    rows = [
        {"what": f"the {what} packages can be installed", "ok": done.returncode == 0, "said": said, "seconds": seconds}
    ]
    if done.returncode == 0:
        code = "import importlib, pkgutil, utils; [importlib.import_module(m.name) for m in pkgutil.walk_packages(utils.__path__, 'utils.')]"
        loaded = called([own, "-c", code])
        said = last_line(loaded.stdout, "Error") if loaded.returncode else "every module can be imported"
        rows.append({"what": f"all of utils with the {what} packages", "ok": loaded.returncode == 0, "said": said})
        tests = [f"tests/{name}.py" for name in FEW + WIDGETS]
        rows.append(pytest_row(f"{len(tests)} files of tests with the {what} packages", own, tests, folder))
        rows.append(pytest_row(f"lesson 01 with the {what} packages", own, [LESSON], folder))
    shutil.rmtree(venv, ignore_errors=True)
    return rows


def run() -> list[dict]:
    with tempfile.TemporaryDirectory(prefix="course-audit-") as name:
        folder = Path(name)
        rows = too_old_rows() + python_rows(folder)
        return rows + package_rows(folder, "oldest", oldest()) + package_rows(folder, "newest", [torch_pin()])

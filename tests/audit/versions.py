"""Other versions: every Python that the course allows, and the oldest and newest packages that pyproject.toml allows.

Each gets an environment of its own in a temporary folder, which goes away afterwards. torch is only installed in its CPU build;
where a package index has none for a Python, what needs no torch is tried there.
"""

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from utils.paths import ROOT

PATIENCE = 1800
PYTHONS = ("3.11", "3.12", "3.13")
TOO_OLD = ("2.7", "3.6", "3.8", "3.9", "3.10")
NO_TORCH = ("test_progress", "test_downloads", "test_lock", "test_stories")
FEW = ("test_phrases", "test_attention", "test_exercises", "test_isolation", "test_cache")
WIDGETS = ("test_widgets", "test_pictures", "test_quiz_and_board", "test_gguf", "test_slides")
LESSON = "notebooks/01_softmax_attention.ipynb"


def called(command: list[str], **more: str) -> subprocess.CompletedProcess:
    own = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"} | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=ROOT, env=own | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
        errors="replace", timeout=PATIENCE,
    )  # fmt: skip


def row(what: str, done: subprocess.CompletedProcess, words: str = "") -> dict:
    """Ok if the command succeeded; its last line that holds `words`, without paths of this machine."""
    words = words if done.returncode == 0 else "rror"
    lines = [line.strip() for line in done.stdout.splitlines() if words in line and line.strip()]
    said = re.sub(r"(/[\w.+ -]+){2,}", "...", lines[-1])[-300:] if lines else "nothing to say"
    return {"what": what, "ok": done.returncode == 0, "said": said}


def interpreter(version: str) -> str | None:
    """An interpreter of that version on the path, or where pyenv keeps its own."""
    named = [Path(folder) / f"python{version}" for folder in os.environ.get("PATH", "").split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    named += sorted(pyenv.glob(f"*/bin/python{version}"))
    return next((str(path) for path in named if path.is_file() and "shims" not in path.parts), None)


def environment(python: str, folder: Path) -> tuple[str, list[str]]:
    """The Python of a new environment, and how its pip installs."""
    called([python, "-m", "venv", str(folder)])
    own = str(folder / "bin" / "python")
    return own, [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def pytest_row(what: str, python: str, tests: list[str], folder: Path) -> dict:
    done = called([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], HOME=str(folder))
    return row(what, done, "passed")


# --- Pythons ----------------------------------------------------------------------------------------------------


def too_old_rows() -> list[dict]:
    rows = []
    for version in TOO_OLD:
        if python := interpreter(version):
            # No other Python in sight: with one, it would continue under that.
            done = called([python, "utils/build/bootstrap.py"], PATH="")
            said = done.stdout.strip()
            ok = done.returncode == 1 and said.startswith("The course needs Python 3.11 or newer") and "\n" not in said
            rows.append({"what": f"make lab with Python {version}", "ok": ok, "said": said[-300:]})
    return rows


def python_rows(version: str, folder: Path) -> list[dict]:
    if (python := interpreter(version)) is None:
        return [{"what": f"Python {version}", "ok": True, "said": "not on this machine: not tried"}]
    own, pip = environment(python, folder / version)
    locked = called([*pip, "--require-hashes", "--no-deps", "-r", "requirements.lock"])
    rows = [row(f"requirements.lock with Python {version}", locked)]
    if locked.returncode == 0:
        with_torch = called([*pip, "--no-deps", f"{torch_pin()}+cpu"]).returncode == 0
        tests = [f"tests/{name}.py" for name in (NO_TORCH + FEW if with_torch else NO_TORCH)]
        what = f"{len(tests)} files of tests with Python {version}{'' if with_torch else ', without torch'}"
        rows.append(pytest_row(what, own, tests, folder))
    shutil.rmtree(folder / version, ignore_errors=True)
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
    lowest = {
        r.name: [bound.version for bound in r.specifier if bound.operator in (">=", "==")] for r in requirements()
    }
    return [f"{name}=={low}" for name, (low,) in lowest.items()]


def package_rows(what: str, pins: list[str], folder: Path) -> list[dict]:
    own, pip = environment(interpreter(PYTHONS[0]), folder / what)
    fixed, course = folder / f"{what}.txt", folder / f"{what} course"
    fixed.write_text("\n".join(pins), encoding="utf-8")
    shutil.copytree(ROOT / "utils", course / "utils")
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT"):
        shutil.copy(ROOT / name, course / name)
    installed = called([*pip, "-c", str(fixed), f"{course}[test]"])
    rows = [row(f"the {what} packages can be installed", installed)]
    if installed.returncode == 0:
        tests = [f"tests/{name}.py" for name in FEW + WIDGETS]
        rows.append(
            pytest_row(
                f"{len(tests)} files of tests and lesson 01 with the {what} packages", own, [*tests, LESSON], folder
            )
        )
    shutil.rmtree(folder / what, ignore_errors=True)
    return rows


def run() -> list[dict]:
    with tempfile.TemporaryDirectory(prefix="course-audit-") as name:
        folder = Path(name)
        rows = too_old_rows() + [row for version in PYTHONS for row in python_rows(version, folder)]
        return rows + package_rows("oldest", oldest(), folder) + package_rows("newest", [torch_pin()], folder)

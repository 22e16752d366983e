"""Other versions: every Python that the course allows, the oldest, locked and newest torch, and the oldest and newest packages.

Each gets an environment of its own in a temporary folder, which goes away afterwards. Under each Python and torch run all
notebooks and all tests but those in a browser; what pytest prints is kept in `.cache/audit/versions`. pip may choose a CUDA build of torch, of about 5 GB, which runs on the CPU too.
"""

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement

from tests.audit.machines import copy_checkout
from utils.build.bootstrap import GROUPS, locked_torch
from utils.build.downloads import cache_folder
from utils.paths import ROOT

PATIENCE = 4 * 3600
LOGS = ROOT / ".cache" / "audit" / "versions"
LOCKED, FLOOR, NEWEST = "locked", "floor", "newest"
ENVIRONMENTS = (("3.11", FLOOR), ("3.11", NEWEST), ("3.12", LOCKED), ("3.13", LOCKED))
TOO_OLD = ("2.7", "3.6", "3.8", "3.9", "3.10")
PARTS = {"all notebooks": ["notebooks"], "all tests but those in a browser": ["tests", "--ignore=tests/browser"]}
# Time limits of cells are for a quiet machine.
SETTINGS = ("-q", "-p", "no:cacheprovider", "--nbval-cell-timeout=3600")
FEW = tuple(
    f"tests/{name}"
    for name in ("widgets", "test_phrases.py", "test_attention.py", "test_exercises.py", "test_isolation.py")
    + ("test_cache.py", "test_pictures.py", "test_quiz_and_board.py", "test_gguf.py", "test_slides.py")
)
LESSON = "notebooks/01_softmax_attention.ipynb"


def called(command: list[str], root: Path = ROOT, **more: str) -> subprocess.CompletedProcess:
    own = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    own |= {"PYTHONPATH": str(root), "COURSE_DOWNLOADS": str(cache_folder())}
    return subprocess.run(
        command, cwd=root, env=own | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
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


def environment(python: str, folder: Path) -> tuple[Path, str, list[str]]:
    """A copy of the checkout, the Python of a new environment beside it, and how its pip installs."""
    copy_checkout(folder / "course")
    called([python, "-m", "venv", str(folder / "environment")])
    own = str(folder / "environment" / "bin" / "python")
    return folder / "course", own, [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def pytest_row(what: str, python: str, tests: list[str], root: Path) -> dict:
    """All that pytest printed goes to a file of that name."""
    done = called([python, "-m", "pytest", *SETTINGS, *tests], root, HOME=str(root.parent))
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / f"{what}.txt").write_text(done.stdout, encoding="utf-8")
    return row(what, done, "passed") | {"said": done.stdout.strip().splitlines()[-1]}


# --- Pythons ----------------------------------------------------------------------------------------------------


def too_old_rows() -> list[dict]:
    rows = []
    for version in TOO_OLD:
        if python := interpreter(version):
            # No other Python in sight: with one, it would continue under that.
            done = called([python, "-m", "utils", "lab"], PATH="")
            said = done.stdout.strip()
            ok = done.returncode == 1 and said.startswith("The course needs Python 3.11 or newer") and "\n" not in said
            rows.append({"what": f"make lab with Python {version}", "ok": ok, "said": said[-300:]})
    return rows


def torch_wanted(which: str) -> str:
    """What pip is asked for."""
    floor = next(requirement for requirement in requirements() if requirement.name == "torch")
    return {LOCKED: locked_torch(), FLOOR: str(floor).replace(">=", "=="), NEWEST: "torch"}[which]


def python_rows(what: str, version: str, which: str, parts: dict[str, list[str]], folder: Path) -> list[dict]:
    if (python := interpreter(version)) is None:
        return [{"what": what, "ok": True, "said": "not on this machine: not tried"}]
    root, own, pip = environment(python, folder / what)
    for arguments in (
        ["--require-hashes", "--no-deps", "-r", "requirements.lock"],
        [torch_wanted(which)],
        ["--no-deps", "--no-build-isolation", "-e", "."],
    ):
        installed = called([*pip, *arguments], root)
        if installed.returncode != 0:
            return [row(f"{what} can be installed", installed)]
    ask = "import platform, torch; print(platform.python_version(), torch.__version__)"
    exact = dict(zip(("python", "torch"), called([own, "-c", ask]).stdout.split()[-2:], strict=True))
    rows = [pytest_row(f"{what}, {part}", own, tests, root) | exact for part, tests in parts.items()]
    shutil.rmtree(folder / what, ignore_errors=True)
    return rows


# --- packages ---------------------------------------------------------------------------------------------------


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project["optional-dependencies"].values()
    return [Requirement(line) for lines in (project["dependencies"], *groups) for line in lines]


def oldest() -> list[str]:
    """Each direct dependency but torch in the oldest version that pyproject.toml allows."""
    lowest = {r.name: [bound.version for bound in r.specifier if bound.operator == ">="] for r in requirements()}
    return [f"{name}=={low}" for name, (low,) in lowest.items() if name != "torch"] + [locked_torch()]


def package_rows(what: str, pins: list[str], folder: Path) -> list[dict]:
    root, own, pip = environment(interpreter(ENVIRONMENTS[0][0]), folder / what)
    fixed = folder / f"{what}.txt"
    fixed.write_text("\n".join(pins), encoding="utf-8")
    called([*pip, "-c", str(fixed), "torch"])
    installed = called([*pip, "-c", str(fixed), "-e", "." + GROUPS["test"]], root)
    rows = [row(f"the {what} packages can be installed", installed)]
    if installed.returncode == 0:
        rows.append(pytest_row(f"some tests and lesson 01 with the {what} packages", own, [*FEW, LESSON], root))
    shutil.rmtree(folder / what, ignore_errors=True)
    return rows


def run(only: Sequence[str] = ()) -> list[dict]:
    """only: words of what is tried, such as `floor`, `3.13` or `notebooks`."""

    def wanted(what: str) -> bool:
        return not only or any(words in what for words in only)

    with tempfile.TemporaryDirectory(prefix="course-audit-") as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = []
        for version, which in ENVIRONMENTS:
            what = f"Python {version} with the {which} torch"
            if parts := {part: tests for part, tests in PARTS.items() if wanted(f"{what}, {part}")}:
                jobs.append(pool.submit(python_rows, what, version, which, parts, Path(name)))
        packages = (("oldest", oldest()), ("newest", [locked_torch()]))
        jobs += [pool.submit(package_rows, *found, Path(name)) for found in packages if wanted(f"{found[0]} packages")]
        return too_old_rows() + [row for job in jobs for row in job.result()]

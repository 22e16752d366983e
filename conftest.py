"""What all tests share: an empty cache, no student's progress, one thread, fixed seeds, and the settings of notebooks."""

import os
import random
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import settings

from utils.paths import has_home

# In this order, so that no worker is left alone with a long file. Lectures train what the exercises then find cached.
LONG_FILES = ("notebooks/0", "tests/test_bank.py", "tests/browser/", "notebooks/exercises/")

# The same examples in every run: what fails once fails again.
settings.register_profile("course", derandomize=True)
settings.load_profile("course")

_folder = None

if "PYTEST_XDIST_WORKER" not in os.environ:
    # Set before anything is imported and before workers start, so that all of them share one cache.
    _folder = Path(tempfile.mkdtemp(prefix="course-tests-"))
    os.environ["COURSE_CACHE"] = str(_folder / "kept")
    os.environ["COURSE_PROGRESS"] = str(_folder / "progress.jsonl")
    os.environ["MPLBACKEND"] = "Agg"
    os.environ["IPYTHONDIR"] = str(_folder / "ipython")
    if not has_home():
        os.environ["HOME"] = str(_folder)
    # A hundred processes import the same sources: what one has compiled, the others find.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        os.environ[_variable] = "1"


def pytest_collection_modifyitems(items):
    def rank(item):
        return next((rank for rank, start in enumerate(LONG_FILES) if item.nodeid.startswith(start)), len(LONG_FILES))

    items.sort(key=rank)


def seed_all(name: str):
    """A test draws the same numbers whichever tests its worker ran before: what fails once fails again."""
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    # One that nobody has imported draws nothing.
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    seed_all(f"{fixturedef.baseid}::{fixturedef.argname}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """nbval starts a notebook's kernel here: under the build's settings, with a progress file of its own."""
    if item.path.suffix != ".ipynb":
        return (yield)
    from utils.build.notebooks import KERNEL_SETTINGS  # imports torch, which reads the number of threads

    own = Path(os.environ["COURSE_CACHE"]).with_name("progress") / f"{item.path.parent.name}-{item.path.stem}.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KERNEL_SETTINGS, "COURSE_PROGRESS": str(own)}.items():
            patch.setenv(name, value)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """nbval runs the cell and compares what is tagged; a student notebook must also show untouched exercises."""
    from utils.build.source import exercise_of

    seed_all(item.nodeid)
    result = yield
    if item.path.suffix == ".ipynb" and item.path.parent.name == "exercises" and exercise_of(item.cell):
        require_not_attempted(exercise_of(item.cell), item.test_outputs)
    return result


def require_not_attempted(exercise_id: str, outputs: list[dict]):
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    lines = [line for text in texts for line in text.splitlines() if line.startswith(f"Exercise {exercise_id} ·")]
    assert lines, f"exercise {exercise_id} showed no result in the student notebook"
    assert all(line.endswith(": not attempted yet") for line in lines), f"expected 'not attempted yet', got: {lines[0]}"


def pytest_unconfigure(config):
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)

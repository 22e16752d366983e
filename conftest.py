"""What all tests share: an empty cache, no progress of a real student, one thread, numbers drawn alike in every run, and
the rules for notebooks."""

import os
import random
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

from utils.course.places import has_home

pytest_plugins = ["utils.course.nbval_rules", "tests.sharing"]

_is_worker = "PYTEST_XDIST_WORKER" in os.environ
_folder = None

if not _is_worker:
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


def draw_alike(name: str):
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
    draw_alike(f"{fixturedef.baseid}::{fixturedef.argname}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    draw_alike(item.nodeid)


def pytest_unconfigure(config):
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)

"""Where everything is: in a checkout, and in an installed package.

A checkout holds everything. A wheel carries some of it in `utils/course`, laid out as in a checkout (`utils/build/wheel.py`);
then the student's work goes into the current folder, and the caches into the user's.
"""

import os
import tomllib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INSTALLED = (PACKAGE / "course").is_dir()
ROOT = PACKAGE / "course" if INSTALLED else PACKAGE.parent
COPIED = ".copied.json"  # in `work/`: which version of each student notebook was copied


def has_home() -> bool:
    """Whether there is a home folder for the settings of programs; a container's user may have none."""
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and no entry among the users of this machine
        return False
    return home.is_dir() and os.access(home, os.W_OK)


def workplace() -> Path:
    """The folder that holds `work/`: the checkout, or the nearest one from the current folder up, or the current folder."""
    if not INSTALLED:
        return ROOT
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / "work" / COPIED).is_file()), here)


def cache_root() -> Path:
    """For trained results and downloads: `.cache` beside `work/`; of an installed package, the user's cache."""
    if INSTALLED and has_home():
        from platformdirs import user_cache_path

        return user_cache_path("attention-course", appauthor=False)
    return workplace() / ".cache"


DATA = ROOT / "data"
LECTURES = ROOT / "notebooks"
SOURCES = LECTURES / "src"
STUDENTS = LECTURES / "exercises"
WORK = workplace() / "work"
OWN_DATA = workplace() / "data"  # what users add: published weights, bAbI, sentence pairs
CACHE = cache_root()
SLIDES = ROOT / "slides"
SITE = ROOT / "site"


def progress_file() -> Path:
    """The student's progress; `COURSE_PROGRESS` names another file (tests and builds do)."""
    return Path(os.environ.get("COURSE_PROGRESS") or WORK / "progress.jsonl")


def write_whole(path: Path, text: str) -> None:
    """Write a file that is either complete or, after a full disk or a crash, as it was before."""
    unfinished = path.with_name(f".{path.name}.new")
    try:
        with open(unfinished, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def site_url() -> str:
    """Where the website is published, `Homepage` in pyproject.toml; empty while it is not."""
    return _project_url("Homepage")


def repository_url() -> str:
    """Where the repository is published, `Repository` in pyproject.toml; empty while it is not."""
    return _project_url("Repository").removesuffix(".git")


def _project_url(name: str) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["urls"].get(name, "").rstrip("/")

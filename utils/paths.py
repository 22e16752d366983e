"""Paths of the checkout and of the student's files."""

import os
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LECTURES = ROOT / "notebooks"
SOURCES = LECTURES / "src"
STUDENTS = LECTURES / "exercises"
WORK = ROOT / "work"
SLIDES = ROOT / "slides"
SITE = ROOT / "site"


def has_home() -> bool:
    """Whether there is a home folder for the settings of programs; a container's user may have none."""
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and no entry among the users of this machine
        return False
    return home.is_dir() and os.access(home, os.W_OK)


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

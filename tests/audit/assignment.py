"""Every lesson through nbgrader itself: generate, hand in solved and untouched, autograde; full points and none.

Where nbgrader is not installed, it is put into an environment of its own beside this one's packages.
"""

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

from utils.course.lessons import LESSONS
from utils.course.places import ROOT

SECONDS = 1800  # for one lesson, both students


def run() -> list[dict]:
    """One row for each lesson."""
    with tempfile.TemporaryDirectory() as base:
        python = python_with_nbgrader(Path(base))
        return [one_lesson(python, lesson.name, Path(base) / lesson.number) for lesson in LESSONS]


def python_with_nbgrader(base: Path) -> str:
    if importlib.util.find_spec("nbgrader") is not None:
        return sys.executable
    place = base / "environment"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    (folder,) = place.glob("lib/python*/site-packages")
    (folder / "course.pth").write_text(sysconfig.get_paths()["purelib"], encoding="utf-8")
    constraints = ROOT / "constraints.txt"
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", constraints, "nbgrader"], check=True)
    return str(python)


def one_lesson(python: str, name: str, folder: Path) -> dict:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "COURSE_PROGRESS": str(folder / "progress.jsonl"),
    }
    env["PATH"] = os.pathsep.join([str(Path(python).parent), env["PATH"]])  # nbgrader calls alembic
    command = [python, "-m", "tests.audit.assignment", name, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS)
    last = done.stdout.strip().split("\n")[-1]
    try:
        scores = json.loads(last)
    except ValueError:
        return {"what": f"lesson {name[:2]} through nbgrader", "ok": False, "said": (done.stderr or last)[-600:]}
    (got, most), (none, _) = scores["solved"], scores["untouched"]
    said = f"solved {got:g} of {most:g} points, untouched {none:g}"
    return {"what": f"lesson {name[:2]} through nbgrader", "ok": got == most > 0 == none, "said": said, "points": most}


def through_nbgrader(name: str, folder: Path) -> dict[str, tuple[float, float]]:
    """(score, highest score) of a solved and of an untouched notebook."""
    import nbformat
    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    from utils.course import assignment

    (source,) = assignment.write([name], folder)
    config = Config()
    config.CourseDirectory.root, config.CourseDirectory.db_url = str(folder), f"sqlite:///{folder}/gradebook.db"
    config.ExecutePreprocessor.timeout = 900
    api = NbGraderAPI(config=config)
    require(api.generate_assignment(name))
    answers = {cell.metadata.nbgrader.grade_id: cell.source for cell in marked(nbformat.read(source, 4))}
    for student in ("solved", "untouched"):
        notebook = nbformat.read(folder / "release" / name / f"{name}.ipynb", 4)
        for cell in marked(notebook):
            if student == "solved":
                cell.source = answers[cell.metadata.nbgrader.grade_id]
        place = folder / "submitted" / student / name
        place.mkdir(parents=True)
        nbformat.write(notebook, place / f"{name}.ipynb")
        require(api.autograde(name, student))
    with Gradebook(config.CourseDirectory.db_url) as gradebook:
        return {one.student.id: (one.score, one.max_score) for one in gradebook.assignment_submissions(name)}


def marked(notebook) -> list:
    return [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]


def require(result: dict) -> None:
    if not result["success"]:
        raise SystemExit(result.get("error") or result.get("log"))


if __name__ == "__main__":
    print(json.dumps(through_nbgrader(sys.argv[1], Path(sys.argv[2]))))

"""Every lesson through nbgrader itself: generate, hand in solved and untouched, autograde; full points and none."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from utils.exercises.lessons import LESSONS
from utils.paths import ROOT

SECONDS = 1800  # for one lesson, both students


def run() -> list[dict]:
    """One row for each lesson."""
    with tempfile.TemporaryDirectory() as base:
        return [one_lesson(lesson.name, Path(base) / lesson.number) for lesson in LESSONS]


def one_lesson(name: str, folder: Path) -> dict:
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COURSE_PROGRESS": str(folder / "progress.jsonl")}
    own["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # nbgrader calls alembic
    command = [sys.executable, "-m", "tests.audit.assignment", name, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | own, capture_output=True, text=True, timeout=SECONDS)
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

    from utils.grading import assignment

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
        target = folder / "submitted" / student / name
        target.mkdir(parents=True)
        nbformat.write(notebook, target / f"{name}.ipynb")
        require(api.autograde(name, student))
    with Gradebook(config.CourseDirectory.db_url) as gradebook:
        submissions = gradebook.assignment_submissions(name)
        return {graded.student.id: (graded.score, graded.max_score) for graded in submissions}


def marked(notebook) -> list:
    return [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]


def require(result: dict) -> None:
    if not result["success"]:
        raise SystemExit(result.get("error") or result.get("log"))


if __name__ == "__main__":
    print(json.dumps(through_nbgrader(sys.argv[1], Path(sys.argv[2]))))

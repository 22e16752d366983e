"""Which notebooks the browser tests open, and what stands in them."""

import json
import re
from pathlib import Path

from utils.course import places
from utils.course.lessons import LESSONS

EXISTING = [lesson for lesson in LESSONS if lesson.exists]
NAMES = [lesson.name for lesson in EXISTING]
USE = re.compile(r'^(\w+) = exercise\("([^"]+)"\)\.use\(\1\)', re.MULTILINE)
STUB = "    # YOUR CODE HERE\n    raise NotImplementedError()"
WIDGET_CALLS = {
    "explore": r"\bexplore\(",
    "stepper": r"\bstepper\(",
    "guess": r"\bguess_weights\(",
    "plane": r"\bplane\(",
    "attention": r"\battention_view\(",
    "mask": r"\bmask_board\(",
    "heads": r"\bheads_view\(",
    "removal": r"\bremoval_board\(",
    "translate": r"\btranslate_watch\(",
    "beamtree": r"\bbeam_tree\(",
    "fillin": r"(?<![.\w])fill_in\(",
    "nextword": r"\bnext_word\(",
    "quiz": r"\bquiz\(",
    "result": r"\bexercise\([^)]*\)\.use\(",
}


def student(name: str) -> Path:
    return places.STUDENTS / f"{name}.ipynb"


def lecture(name: str) -> Path:
    return places.LECTURES / f"{name}.ipynb"


def cells_of(path: Path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def code_of(path: Path) -> str:
    return "\n".join(cell["source"] for cell in cells_of(path) if cell["cell_type"] == "code")


def called_widgets(path: Path) -> dict[str, int]:
    """How many widgets of each kind the code of a notebook asks for; later ones may also be made in `utils`."""
    code = re.sub(r"#.*", "", code_of(path))
    return {kind: len(re.findall(pattern, code)) for kind, pattern in WIDGET_CALLS.items()}


def function_exercises(path: Path) -> dict[str, tuple[int, str]]:
    """The exercises that ask for a function: id to (index of the cell, its source)."""
    found = {}
    for index, cell in enumerate(cells_of(path)):
        use = USE.search(cell["source"]) if cell["cell_type"] == "code" else None
        if use and f"def {use[1]}(" in cell["source"]:
            found[use[2]] = (index, cell["source"])
    return found

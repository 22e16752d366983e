"""Which notebooks the browser tests open, and which of their cells make something to operate."""

import inspect
import json
import re
import sys
from pathlib import Path

from utils import paths, widgets
from utils.grading.notebook import Notebook
from utils.widgets import registry

NAMES = sorted(path.stem for path in paths.SOURCES.glob("[0-9][0-9]_*.py"))
USE = re.compile(r'^(\w+) = exercise\("([^"]+)"\)\.use\(\1\)', re.MULTILINE)
STUB = "    # YOUR CODE HERE\n    raise NotImplementedError()"


def student(name: str) -> Path:
    return paths.STUDENTS / f"{name}.ipynb"


def lecture(name: str) -> Path:
    return paths.LECTURES / f"{name}.ipynb"


def cells_of(path: Path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def function_exercises(path: Path) -> dict[str, tuple[int, str]]:
    """The exercises that ask for a function: id to (index of the cell, its source)."""
    exercises = {}
    for index, cell in enumerate(cells_of(path)):
        use = USE.search(cell["source"]) if cell["cell_type"] == "code" else None
        if use and f"def {use[1]}(" in cell["source"]:
            exercises[use[2]] = (index, cell["source"])
    return exercises


def makes_a_widget(function) -> bool:
    """A public function of `utils.widgets` from the module of a widget."""
    return sys.modules[function.__module__] in registry.MODULES


WIDGETS = [name for name, thing in vars(widgets).items() if inspect.isfunction(thing) and makes_a_widget(thing)]


def cells_to_operate(path: Path) -> list[int]:
    """The cells that make widgets, the first quiz and the first exercise on a function, with all cells that they need.

    The other cells train and draw; nbval runs every cell of both forms."""
    cells = cells_of(path)
    places_of_code = [index for index, cell in enumerate(cells) if cell["cell_type"] == "code"]
    sources = [re.sub(r"(?m)^\s*#.*", "", cells[index]["source"]) for index in places_of_code]

    def calling(pattern: str) -> list[int]:
        return [index for index, source in enumerate(sources) if re.search(pattern, source)]

    first_exercise, _ = next(iter(function_exercises(path).values()))
    waiting = calling(rf"(?<![.\w])({'|'.join(WIDGETS)})\(") + calling(r"\bquiz\(")[:1]
    waiting.append(places_of_code.index(first_exercise))
    chosen: set[int] = set()
    while waiting:
        index = waiting.pop()
        if index not in chosen:
            chosen.add(index)
            waiting += [needed for needed, _ in Notebook(sources[: index + 1]).needed(index)]
    return [places_of_code[index] for index in sorted(chosen)]

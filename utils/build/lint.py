"""Rules for lecture notebooks, each a function that returns its violations as sentences."""

import ast
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from utils.build.source import CHECKS

MAX_LINES = 25
MIN_COMPARED = 5
MAX_BYTES = 2_000_000
COMPARED = "nbval-check-output"

# Folders that only exist on one machine. Addresses on the web and course-relative names pass.
_MACHINE_PATH = re.compile(
    r"(?<![\w.:/~-])(/(?:home|root|Users|tmp|work|var|opt|mnt|srv|private)/[\w.~/-]+|[A-Za-z]:\\(?:Users|Windows)\\)"
)
QUICK_TO_START = "00_start_here"  # its first cell runs before anything slow is imported
_IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\(")
_IMAGE_TAG = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_ALT = re.compile(r"""\salt\s*=\s*("[^"]*[^"\s][^"]*"|'[^']*[^'\s][^']*')""", re.IGNORECASE)


def lint_lecture(path: Path) -> list[str]:
    """All problems of one built lecture notebook."""
    notebook = nbformat.read(path, as_version=4)
    problems = [
        *long_cells(notebook),
        *too_little_compared(notebook),
        *machine_paths(notebook),
        *images_without_words(notebook),
        *(imports_not_in_one_cell(notebook) if path.stem != QUICK_TO_START else []),
        *error_outputs(notebook),
    ]
    size = path.stat().st_size
    if size >= MAX_BYTES:
        problems.append(
            f"the file has {size / 1e6:.1f} MB, expected less than {MAX_BYTES / 1e6:.0f}: use smaller figures"
        )
    return [f"{path.name}: {sentence}" for sentence in problems]


def _code_cells(notebook: NotebookNode):
    return [(index, cell) for index, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code"]


def long_cells(notebook: NotebookNode) -> list[str]:
    taught = [(index, cell) for index, cell in _code_cells(notebook) if CHECKS not in cell.metadata.get("tags", [])]
    lengths = [(index, len(cell.source.splitlines())) for index, cell in taught]
    return [
        f"cell {index} has {length} lines, expected at most {MAX_LINES} (aim at 15): split it or move code to utils"
        for index, length in lengths
        if length > MAX_LINES
    ]


def compared_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Cells whose saved text output nbval compares with a fresh one."""
    return [cell for _, cell in _code_cells(notebook) if COMPARED in cell.metadata.get("tags", []) and _has_text(cell)]


def _has_text(cell: NotebookNode) -> bool:
    texts = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
    return any(text.strip() for text in texts)


def too_little_compared(notebook: NotebookNode) -> list[str]:
    tagged = [(index, cell) for index, cell in _code_cells(notebook) if COMPARED in cell.metadata.get("tags", [])]
    problems = [
        f"cell {index} is tagged {COMPARED} but has no text output" for index, cell in tagged if not _has_text(cell)
    ]
    count = len(compared_cells(notebook))
    if count < MIN_COMPARED:
        problems.append(f"{count} cells have compared outputs, expected at least {MIN_COMPARED}: tag them {COMPARED}")
    return problems


def machine_paths(notebook: NotebookNode) -> list[str]:
    problems = []
    for index, cell in enumerate(notebook.cells, 1):
        for text in (cell.source, *_texts(cell)):
            hit = _MACHINE_PATH.search(text)
            if hit:
                problems.append(f"cell {index} shows a path of one machine: {hit.group()}")
    return problems


def _texts(cell: NotebookNode):
    for output in cell.get("outputs", ()):
        yield output.get("text", "")
        for kind, value in output.get("data", {}).items():
            if kind.startswith("text/"):
                yield value


def images_without_words(notebook: NotebookNode) -> list[str]:
    """Every picture needs an alt text."""
    problems = []
    for index, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "markdown":
            problems += [
                f"cell {index}: an image has no alt text"
                for hit in _IMAGE.finditer(cell.source)
                if not hit["alt"].strip()
            ]
        html = [cell.source] if cell.cell_type == "markdown" else []
        html += [
            output.data["text/html"] for output in cell.get("outputs", ()) if "text/html" in output.get("data", {})
        ]
        tags = (tag for text in html for tag in _IMAGE_TAG.findall(text))
        problems += [f"cell {index}: an <img> has no alt text" for tag in tags if not _ALT.search(tag)]
        for output in cell.get("outputs", ()):
            words = output.get("data", {}).get("text/plain", "").strip()
            if "image/png" in output.get("data", {}) and (not words or words.startswith("<")):
                problems.append(f"cell {index}: a picture has no alt text (its text form is {words or 'empty'!r})")
    return problems


def imports_not_in_one_cell(notebook: NotebookNode) -> list[str]:
    cells = []
    for index, cell in _code_cells(notebook):
        if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(ast.parse(cell.source))):
            cells.append(index)
    return [] if len(cells) == 1 else [f"expected exactly one cell with imports, found {len(cells)}: {cells}"]


def error_outputs(notebook: NotebookNode) -> list[str]:
    return [
        f"cell {index} shows an error: {output.ename}: {output.evalue}"
        for index, cell in _code_cells(notebook)
        for output in cell.outputs
        if output.output_type == "error"
    ]

"""A lecture notebook as a page of the website: exercises with folded hints and solutions, live quizzes and widgets."""

import ast
import base64
import html
import json
import re
from dataclasses import dataclass
from pathlib import Path

from utils import paths
from utils.build.hosting import LINKS, hosted
from utils.build.live import quiz_html, stored_state
from utils.build.slides import shown_code, source_of, stubs_of
from utils.build.source import CHECKS, HEADER
from utils.checks.text import paragraphs
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import exercise_count, find
from utils.widgets.base import page_html


@dataclass(frozen=True)
class Page:
    """A notebook ready for Sphinx, and its pictures, which go to `pictures/`."""

    notebook: dict
    pictures: dict[str, bytes]


def lesson_page(path: Path) -> Page:
    """The page of one lecture notebook."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    stubs, pictures, cells = stubs_of(path), {}, []
    for cell in notebook["cells"]:
        if cell["id"] == LINKS:
            continue
        cells += page_cells(cell, stubs.get(cell["id"]), path.stem, pictures)
    title = next(index for index, cell in enumerate(cells) if cell["cell_type"] == "markdown")
    cells.insert(title + 1, markdown(facts_line(path.stem)))
    fold_the_imports(cells)
    for index, cell in enumerate(cells):
        cell["id"] = f"cell-{index}"
    return Page({**notebook, "cells": cells}, pictures)


def facts_line(name: str) -> str:
    """Effort and content of the lesson, its downloads, and where it runs without an installation."""
    lesson = next(lesson for lesson in LESSONS if lesson.name == name)
    open_in = "".join(f' <a href="{address}">Open in {host}</a>' for host, address in hosted(name).items())
    return (
        f'<p class="facts"><span>{lesson.minutes} minutes, {exercise_count(lesson.number)}</span> '
        f"<span>You build {html.escape(lesson.builds)}</span></p>\n"
        f'<p class="downloads"><a href="slides/{name}.html">Slides</a> <a href="notebooks/{name}.ipynb" download>Lecture '
        f'notebook</a> <a href="notebooks/exercises/{name}.ipynb" download>Student notebook</a>{open_in}</p>'
    )


def page_cells(cell: dict, stub: str | None, name: str, pictures: dict[str, bytes]) -> list[dict]:
    """The cells of the page for one cell of the notebook."""
    tags = cell["metadata"].get("tags", [])
    if cell["cell_type"] == "markdown":
        return [markdown(on_site(source_of(cell)))]
    calls = called(source_of(cell))
    if CHECKS in tags or "board" in calls:
        return []
    if stub is not None:
        return exercise_cells(cell, stub)
    if "quiz" in calls:
        (quiz_id,) = re.findall(r'quiz\("([^"]+)"\)', source_of(cell))
        return [markdown(quiz_html(quiz_id))]
    outputs = [] if "lesson" in calls else [page_output(output, name, pictures) for output in cell["outputs"]]
    is_plumbing = "hide-input" in tags or "lesson" in calls or not shown_code(cell)  # only drawing calls
    return [{**cell, "outputs": outputs, "metadata": {"tags": ["hide-input"] if is_plumbing else []}}]


def markdown(source: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def called(code: str) -> set[str]:
    """The names of the functions that a cell calls."""
    calls = (node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def fold_the_imports(cells: list[dict]) -> None:
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    first["metadata"] = {"tags": ["hide-input"]}


# --- links ------------------------------------------------------------------------------------------------------

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
PAGES = {"README.md": "index.md", "data/README.md": "data.md", "CONTRIBUTING.md": "contributing.md"}


def on_site(text: str, folder: str = "notebooks") -> str:
    """Markdown whose relative links point to pages of the site; a link to any other file becomes plain text."""
    if url := re.escape(paths.site_url()):  # on the site itself, links to it are relative
        text = re.sub(rf"\]\({url}/([\w-]+)\.html", r"](../docs/\1.md", text)
    return LINK.sub(lambda match: _link(*match.groups(), folder), text)


def with_targets(text: str) -> str:
    """Anchors in the syntax of MyST, so that a link to a missing one is an error."""
    return re.sub(r'<a id="(\w+)"></a>([^\s,]+)', r"[\2]{#\1}", text)


def _link(words: str, address: str, folder: str) -> str:
    file, _, anchor = address.partition("#")
    path = (paths.ROOT / folder / file).resolve().relative_to(paths.ROOT).as_posix()
    anchor = f"#{anchor}" if anchor else ""
    if path in PAGES:
        return f"[{words}]({PAGES[path]}{anchor})"
    if path.startswith("docs/") and path != "docs/features.md" and path.endswith(".md"):
        return f"[{words}]({path.removeprefix('docs/')}{anchor})"
    if path.startswith("notebooks/") and path.endswith(".ipynb") and "/exercises/" not in path:
        return f"[{words}]({path.removeprefix('notebooks/')}{anchor})"
    if path.startswith("tests/benchmarks/results/") and path.endswith(".json"):
        return f"[{words}]({path.removeprefix('tests/benchmarks/')})"
    return words


# --- exercises --------------------------------------------------------------------------------------------------


def exercise_cells(cell: dict, stub: str) -> list[dict]:
    """The exercise with its stub, folded hints and folded solution, then its printed output."""
    header = HEADER.fullmatch(source_of(cell).split("\n", 1)[0])
    exercise = find(header["id"])
    hints = "".join(
        details(f"Hint {number} of {len(exercise.hints)}", paragraphs(hint))
        for number, hint in enumerate(exercise.hints, 1)
    )
    asked = shown_code({"source": stub})
    parts = [
        f'<div class="exercise" id="exercise-{header["id"].replace(".", "-")}">',
        f'<p class="exercise-title">Exercise {header["id"]}: {html.escape(header["title"])} '
        f"<span>{exercise.effort}</span></p>",
        "",
        f"```python\n{asked}\n```",
        "",
        hints + '<details class="solution"><summary>Solution</summary>',
        "",
        f"```python\n{shown_code(cell)}\n```",
        "",
        "</details></div>",
    ]
    printed = [output for output in cell["outputs"] if output["output_type"] == "stream"]
    below = [{**cell, "outputs": printed, "metadata": {"tags": ["remove-input"]}}] if printed else []
    return [markdown("\n".join(parts)), *below]


def details(summary: str, body: str) -> str:
    return f"<details><summary>{html.escape(summary)}</summary>{body}</details>\n"


# --- outputs ----------------------------------------------------------------------------------------------------


def page_output(output: dict, name: str, pictures: dict[str, bytes]) -> dict:
    """An output of the page: a widget with stored state becomes live, a picture keeps its alt text."""
    data = output.get("data", {})
    if "image/png" not in data:
        return output
    alt = output["metadata"]["image/png"]["alt"]
    file = f"{name}_{len(pictures) + 1}.png"
    pictures[file] = base64.b64decode("".join(data["image/png"]))
    image = f'<img src="pictures/{file}" alt="{html.escape(alt, quote=True)}" loading="lazy">'
    linked = f'<a class="figure" href="pictures/{file}">{image}</a>'  # opens the picture in full size, for phones
    state = stored_state(output)
    shown = page_html(state, image) if state else linked
    return {"output_type": "display_data", "metadata": {}, "data": {"text/html": shown}}

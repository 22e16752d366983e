"""Where the course is published: links of a lesson to its page and to hosted notebooks, and the first cell that runs there."""

import ast
import re
from copy import deepcopy
from urllib.parse import quote, urlsplit

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from utils import paths

LINKS = "where-it-is-published"  # the id of the cell with the links
FOLDER = "attention-course"  # what the first cell clones, in the platform's working directory
FIRST_CELL = f"""\
# On a host such as Colab or Kaggle this cell gets the course and installs what is missing; elsewhere it does nothing.
try:
    import utils.exercises
except ImportError:
    import os, runpy, subprocess
    clone = ["git", "clone", "--quiet", "--depth=1", "{{repository}}", "{FOLDER}"]
    if not os.path.exists("{FOLDER}") and subprocess.run(clone).returncode:
        raise SystemExit("The course could not be fetched: switch on the notebook's internet access and run this cell again.")
    runpy.run_path("{FOLDER}/utils/build/host_setup.py", run_name="__main__")"""
FIRST_CELL_UNPUBLISHED = """\
# This notebook works inside the folder of the course; there this cell does nothing.
try:
    import utils.exercises
except ImportError:
    raise SystemExit("The course is missing here: get its whole folder, run `make lab` in it, and open the notebook there.")"""


def first_cell() -> NotebookNode:
    """No import at its top level: the grader takes the first cell with one for the lesson's imports."""
    repository = paths.repository_url()
    source = FIRST_CELL.format(repository=repository) if repository else FIRST_CELL_UNPUBLISHED
    metadata = {"tags": ["student-only"], "jupyter": {"source_hidden": True}}
    return new_code_cell(source, id="get-the-course", metadata=metadata)


def hosted(name: str) -> dict[str, str]:
    """{host: address that opens the student notebook of a lesson there}; empty without a repository."""
    repository = paths.repository_url()
    if not repository:
        return {}
    notebook = f"notebooks/exercises/{name}.ipynb"
    address, github = urlsplit(repository), {}
    place = f"git/{quote(repository, safe='')}"
    if address.hostname == "github.com":
        place = f"gh{address.path}"
        github = {"Colab": f"https://colab.research.google.com/github{address.path}/blob/main/{notebook}"}
    return github | {"Binder": f"https://mybinder.org/v2/{place}/main?urlpath=lab/tree/{notebook}"}


def lesson_links(name: str) -> str:
    """One line for the header of a lesson: its page on the web, and where it runs without an installation."""
    site = paths.site_url()
    links = [f"[This lesson on the web]({site}/{name}.html)"] if site else []
    links += [f"[Open in {host}]({address})" for host, address in hosted(name).items()]
    return " · ".join(links)


def published(notebook: NotebookNode, name: str) -> NotebookNode:
    """The source with the first cell of student notebooks and, where the course is published, links to there."""
    made = deepcopy(notebook)
    code = [index for index, cell in enumerate(made.cells) if cell.cell_type == "code"]
    imports = [index for index in code if _needs_the_course(made.cells[index].source)]
    if imports:
        made.cells.insert(imports[0], first_cell())
    if url := paths.site_url():
        for cell in made.cells:
            if cell.cell_type == "markdown":
                cell.source = re.sub(r"\]\(\.\./docs/([\w-]+)\.md", rf"]({url}/\1.html", cell.source)
    if links := lesson_links(name):
        made.cells.insert(1, new_markdown_cell(links, id=LINKS))
    return made


def _needs_the_course(code: str) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module.startswith("utils") for node in ast.parse(code).body)

"""A notebook with an example of every widget of the registry, run in JupyterLab."""

from pathlib import Path

import nbformat
from playwright.sync_api import Browser

from tests.browser.lab import CURRENT, Lab, Notebook, errors
from tests.browser.operate import WIDGETS, until
from utils.widgets import registry

# Saves the notebook; how many states of widgets it holds then.
SAVED = f"""async () => {{
  await {CURRENT}.context.save();
  const saved = {CURRENT}.context.model.getMetadata("widgets")?.["application/vnd.jupyter.widget-state+json"];
  return Object.keys(saved?.state ?? {{}}).length;
}}"""
NAMES = [module.__name__.rpartition(".")[2] for module in registry.MODULES]


def write(path: Path) -> Path:
    cells = [nbformat.v4.new_code_cell(f"from utils.widgets.{name} import example\n\nexample()") for name in NAMES]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)
    return path


def open_examples(lab: Lab, running: Browser, width: int = 1280) -> Notebook:
    """The notebook with all cells run and all widgets drawn."""
    notebook = lab.open(running, lab.add(write(lab.folder / f"widgets_{width}.ipynb")), width)
    assert errors(notebook.run_all()) == []
    wait_for_all(notebook)
    return notebook


def wait_for_all(notebook: Notebook, widgets: int = len(NAMES)):
    drawn = notebook.page.locator(f"{WIDGETS}[data-count]")
    until(drawn.count, lambda count: count == widgets, "not every widget is drawn")


def reopen(notebook: Notebook, widgets: int = len(NAMES)):
    """Save the notebook, stop its kernel, and load the page again."""
    until(lambda: notebook.page.evaluate(SAVED), lambda states: states >= widgets, "not every widget is saved")
    notebook.page.evaluate(f"async () => {{ await {CURRENT}.sessionContext.shutdown(); }}")
    notebook.page.reload()
    notebook.page.wait_for_selector(".jp-Notebook .jp-Cell")
    wait_for_all(notebook, widgets)


def restart(notebook: Notebook):
    """Restart the kernel, which forgets the widgets, without loading the page again."""
    notebook.page.evaluate(f"async () => {{ await {CURRENT}.sessionContext.session.kernel.restart(); }}")
    live = notebook.page.locator(f"{WIDGETS}[data-mode=kernel]")
    until(live.count, lambda count: count == 0, "a widget still believes in its kernel")

"""Look at a lesson: run it in JupyterLab and take pictures of all of it.

    python -m tests.browser.look NAME OUTFOLDER [--theme dark] [--student] [--saved] [--deck] [--widget plane]

NAME is a lesson ("01" or "01_softmax_attention") or the path of any notebook. `--student` takes the student
form, `--saved` opens the notebook without running it, as a reader without a kernel sees it; `--deck` builds the slides
of the lecture notebook and takes a picture of each; `--widget` takes a picture of the first widget of that kind alone.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.browser.deck import Deck
from tests.browser.lab import Lab, errors
from utils import paths
from utils.build.browser import browser
from utils.build.slides import build_deck


def find_notebook(name: str, student: bool) -> Path:
    """The notebook that a person means by `name`."""
    if name.endswith(".ipynb"):
        path = Path(name)
        if not path.is_file():
            raise SystemExit(f"there is no notebook {path}")
        return path
    folder = paths.STUDENTS if student else paths.LECTURES
    found = sorted(folder.glob(f"{name}*.ipynb"))
    if len(found) != 1:
        known = ", ".join(path.stem for path in sorted(folder.glob("*.ipynb"))) or "none"
        raise SystemExit(f"expected one notebook named {name}* in {folder}, found {len(found)}; there are: {known}")
    return found[0]


def look_at_deck(notebook: Path, outfolder: Path, temporary: Path) -> int:
    """A picture of every slide, with all its fragments; says which slides do not fit."""
    path = build_deck(notebook, temporary / f"{notebook.stem}.html")
    with browser() as running, Deck(running, path) as deck:
        for number, slide in deck.slides():
            deck.screenshot(outfolder / f"{notebook.stem}_slide_{number:02d}.png")
            if slide["overflows"] or slide["outside"]:
                print(f"slide {number} ({slide['words']}) does not fit: {slide['outside']}")
        for problem in [*deck.foreign, *deck.mistakes]:
            print("problem:", problem)
    print(f"{number} pictures in {outfolder}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.look", description=__doc__.split("\n\n")[0])
    parser.add_argument("name", help="lesson number or name, or the path of a notebook")
    parser.add_argument("outfolder", type=Path)
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--student", action="store_true", help="the student form")
    parser.add_argument("--saved", action="store_true", help="open without running")
    parser.add_argument("--deck", action="store_true", help="the slides, at 1280x720")
    parser.add_argument("--widget", help="the kind of a widget, such as plane: the first of them alone")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=1500, help="height of a picture")
    chosen = parser.parse_args(arguments)
    notebook = find_notebook(chosen.name, chosen.student)
    temporary = Path(tempfile.mkdtemp(prefix="look"))
    try:
        if chosen.deck:
            return look_at_deck(notebook, chosen.outfolder, temporary)
        with Lab(temporary) as lab, browser() as running:
            page = lab.open(running, lab.add(notebook), width=chosen.width, height=chosen.height)
            if chosen.saved:
                page.wait_for_kernel()
            else:
                for problem in errors(page.run_all()):
                    print("error output:", problem)
            page.theme(chosen.theme)
            if chosen.widget:
                files = [page.widget_screenshot(chosen.widget, chosen.outfolder)]
            else:
                files = page.screenshots(chosen.outfolder, prefix=f"{notebook.stem}_")
            for address in page.foreign:
                print("request to another host:", address)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"{len(files)} pictures in {chosen.outfolder}: {files[0].name} to {files[-1].name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

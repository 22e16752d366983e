"""Every page: the website, and all lecture and student notebooks in a real JupyterLab, in a real Chromium.

The website is built again and each of its pages opened at three widths in both themes. Each notebook is run from its
first cell to its last; every control of every widget is moved to both ends of its range; what
somebody meets who has no pointer or cannot see is checked. `.cache/audit/pages/index.html` shows pictures of all of it.

    python -m tests.audit pages --only student 01      this notebook alone
    python -m tests.audit pages --only site            the website alone
"""

import html
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser
from playwright.sync_api import Error as BrowserError

from tests.browser import lessons, site
from tests.browser.contrast import LAB_FIGURE, SITE_FIGURE, unreadable, wrong_in_dark
from tests.browser.examples import open_examples, restart
from tests.browser.lab import Lab, errors
from tests.browser.operate import KIND, WIDGETS, WidgetError, operate
from tests.browser.reach import nameless, unreachable
from utils.build.browser import browser
from utils.build.site.__main__ import build_site
from utils.paths import ROOT

FOLDER = ROOT / ".cache" / "audit" / "pages"
FORMS = {"lecture": lessons.lecture, "student": lessons.student}
ALL = ("site", "widgets", *FORMS)
WIDTHS = (900, 1920)  # pixels of the window in which every widget is looked at
# Parts of a widget that leave the page; what scrolls sideways may be wider.
WIDER = """e => {
    const end = e.closest(".jp-OutputArea-output, body").getBoundingClientRect().right + 2;
    const scrolls = (part) => part !== e.parentElement && (getComputedStyle(part).overflowX === "auto" || scrolls(part.parentElement));
    return [...e.querySelectorAll("*")].filter((part) => part.getBoundingClientRect().right > end && !scrolls(part)).length;
}"""

# A lecture's kernel checks every picture that it draws, also those of a widget at the ends of its controls.
WATCH = """
from matplotlib.backends.backend_agg import FigureCanvasAgg

def watched(canvas, *arguments, print_png=FigureCanvasAgg.print_png, **options):
    import json
    from tests.picture_rules import broken_rules
    from utils.plots.layout import shown_texts
    print_png(canvas, *arguments, **options)  # first: only what is drawn has a position
    texts = shown_texts(canvas.figure)
    title = max(texts, key=lambda text: text.get_fontsize()).get_text() if texts else ""
    with open({log!r}, "a") as log:
        log.write(json.dumps([title, broken_rules(canvas.figure)]) + chr(10))

FigureCanvasAgg.print_png = watched
del FigureCanvasAgg, watched
"""


def run(only: Sequence[str] = (), folder: Path = FOLDER) -> list[dict]:
    """A row for each page of the site, each width of the widgets, and each notebook. Training results come from this checkout's cache.

    only: some of `ALL` and of the lessons' numbers.
    """
    names = [name for name in lessons.NAMES if name[:2] in only]
    forms = [form for form in ALL if form in only] or (FORMS if names else ALL)
    os.environ.setdefault("COURSE_CACHE", str(ROOT / ".cache" / "trained"))
    rows = check_site(folder / "site") if "site" in forms else []
    rows += check_widgets(folder / "widgets") if "widgets" in forms else []
    for name in names or lessons.NAMES:
        for form in [form for form in forms if form in FORMS]:
            row = check_notebook(name, form, folder)
            rows.append(row)
            write_index(folder)
    return rows


def check_site(folder: Path) -> list[dict]:
    """The website, built again: every page at every width in both themes, from top to bottom."""
    shutil.rmtree(folder, ignore_errors=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="course-site-") as scratch:
        build_site(Path(scratch) / "site", Path(scratch) / "scratch")
        built = {
            "what": "website",
            "ok": True,
            "said": "built without a warning",
            "seconds": round(time.monotonic() - start),
        }
        with browser() as running:
            return [built, *(check_site_page(running, file, folder) for file in site.pages_of(Path(scratch) / "site"))]


def check_site_page(running: Browser, file: Path, folder: Path) -> dict:
    own, problems, pictures = folder / file.stem, [], []
    own.mkdir(parents=True)
    start = time.monotonic()
    for width in site.WIDTHS:
        for theme in site.THEMES:
            page = site.open_page(running, file, width, theme)
            page.start_everything()
            problems += [f"{width} px, {theme}: {problem}" for problem in page.problems()]
            if theme == "dark" and width == site.WIDTHS[-1]:
                problems += wrong_in_dark(page.page, page.page.locator(SITE_FIGURE).all())
            pictures.append((f"{width} px, {theme}", own / f"{width}_{theme}.png"))
            page.page.screenshot(path=pictures[-1][1], full_page=True)
            page.close()
    said = "; ".join(problems) or "no error, no outside request, nothing wider than the page"
    row = {"what": f"site {file.stem}", "ok": not problems, "said": said, "seconds": round(time.monotonic() - start)}
    kept = {**row, "problems": problems, "shown": [(words, path.name) for words, path in pictures]}
    (own / "row.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return row


def check_widgets(folder: Path) -> list[dict]:
    """Every widget of the registry in a narrow and in a wide window, light and dark, and after a restart of the kernel."""
    shutil.rmtree(folder, ignore_errors=True)
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="course-widgets-") as scratch,
        Lab(Path(scratch)) as lab,
        browser() as running,
    ):
        for width in WIDTHS:
            start, problems, own = time.monotonic(), [], folder / str(width)
            own.mkdir(parents=True)
            notebook, pictures = open_examples(lab, running, width), []
            notebook.hide_side_bar()
            for theme in ("light", "dark"):
                notebook.theme(theme)
                problems += [f"{theme}: hard to read: {text}" for text in unreadable(notebook)]
                for widget in notebook.page.locator(WIDGETS).all():
                    kind = widget.evaluate(KIND)
                    problems += [f"{kind}: {count} parts leave the page" for count in [widget.evaluate(WIDER)] if count]
                    pictures.append((f"{kind}, {theme}", own / f"{kind}_{theme}.png"))
                    widget.screenshot(path=pictures[-1][1])
            restart(notebook)
            done = operate(notebook)
            problems += [f"after a restart: {problem}" for problem in done.problems]
            pictures += [
                (f"page {index + 1} after a restart", path)
                for index, path in enumerate(notebook.screenshots(own, "restarted_"))
            ]
            notebook.close()
            said = "; ".join(problems) or "readable in both themes, inside the page, operated after a restart"
            row = {
                "what": f"widgets at {width} px",
                "ok": not problems,
                "said": said,
                "seconds": round(time.monotonic() - start),
            }
            kept = {**row, "problems": problems, "shown": [(words, path.name) for words, path in pictures]}
            (own / "row.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
            rows.append(row)
    return rows


def check_notebook(name: str, form: str, folder: Path) -> dict:
    """Open one notebook and do all of it; whatever goes wrong is said in its row."""
    own = folder / form / name
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    scratch = Path(tempfile.mkdtemp(prefix="course-pages-"))
    start = time.monotonic()
    try:
        if form == "lecture":
            watch_pictures(scratch)
        with Lab(scratch) as lab, browser() as running:
            figures, problems, pictures = visit(lab, running, name, form, own)
        if form == "lecture":
            figures["pictures"], wrong = watched_pictures(scratch)
            problems += wrong
    except (BrowserError, RuntimeError, TimeoutError, WidgetError) as problem:
        figures, problems, pictures = {}, [f"broke off: {type(problem).__name__}: {problem}"], []
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    said = "; ".join(problems) if problems else "no error, no outside request, nothing without a name"
    row = {"what": f"{form} {name}", "ok": not problems, "said": said, **figures}
    row["seconds"] = round(time.monotonic() - start)
    kept = {**row, "problems": problems, "shown": [(words, path.name) for words, path in pictures]}
    (own / "row.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return row


def visit(
    lab: Lab, running: Browser, name: str, form: str, own: Path
) -> tuple[dict, list[str], list[tuple[str, Path]]]:
    page = lab.open(running, lab.add(FORMS[form](name), f"{form}/{name}.ipynb"), height=1500)
    problems: list[str] = []
    began = time.monotonic()
    cells = page.run_all(1800)
    ran = time.monotonic() - began
    problems += errors(cells)
    problems += unrun(cells)
    page.page.wait_for_timeout(500)
    stops, wrong = unreachable(page)
    problems += wrong + nameless(page) + [f"hard to read: {text}" for text in unreadable(page)]
    pictures = [(f"page {index + 1}", path) for index, path in enumerate(page.screenshots(own, "page_"))]
    page.theme("dark")
    problems += wrong_in_dark(page.page, page.page.locator(LAB_FIGURE).all())
    page.theme("light")
    done = operate(page, own)
    problems += done.problems
    pictures += done.pictures
    problems += [error for error in errors(page.cells()) if error not in problems]
    problems += [f"request to another host: {address}" for address in dict.fromkeys(page.foreign)]
    problems += [f"console: {said[:300]}" for said in dict.fromkeys(page.mistakes)]
    page.close()
    slowest = max(done.changes, key=lambda change: change[1], default=("none", 0.0))
    figures = {
        "cells": sum(cell["type"] == "code" for cell in cells),
        "run seconds": round(ran, 1),
        "widgets": sum(done.widgets.values()),
        "controls": done.controls,
        "changes": len(done.changes),
        "stops of Tab": stops,
        "slowest change": f"{slowest[1]:.2f} s ({slowest[0]})",
    }
    return figures, problems, pictures


def watch_pictures(scratch: Path):
    start = scratch / "ipython" / "profile_default" / "startup"
    start.mkdir(parents=True)
    (start / "pictures.py").write_text(WATCH.format(log=str(scratch / "pictures.jsonl")), encoding="utf-8")


def watched_pictures(scratch: Path) -> tuple[int, list[str]]:
    """How many pictures were drawn, and the rules for pictures that they broke."""
    drawn = [json.loads(line) for line in (scratch / "pictures.jsonl").read_text(encoding="utf-8").splitlines()]
    wrong = [f"the picture {title[:60]!r}: {rule}" for title, broken in drawn for rule in broken]
    return len(drawn), list(dict.fromkeys(wrong))


def unrun(cells: list[dict]) -> list[str]:
    return [
        f"cell {cell['index']} was never run"
        for cell in cells
        if cell["type"] == "code" and cell["source"].strip() and not cell["count"]
    ]


def write_index(folder: Path):
    """A page with all pictures of every notebook that was visited, whenever that was."""
    parts = []
    for file in sorted(folder.glob("*/*/row.json")):
        row = json.loads(file.read_text(encoding="utf-8"))
        below = file.parent.relative_to(folder).as_posix()
        wrong = "".join(f"<li>{html.escape(problem)}</li>" for problem in row["problems"])
        shown = "".join(
            f'<figure><a href="{below}/{name}"><img src="{below}/{name}" alt=""></a><figcaption>{html.escape(words)}</figcaption></figure>'
            for words, name in row.get("shown", [])
        )
        mark = "✓" if row["ok"] else "✗"
        parts.append(f"<details><summary>{mark} {html.escape(row['what'])}</summary><ul>{wrong}</ul>{shown}</details>")
    page = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Every page</title>
<style>figure {{ display: inline-block; width: 18%; vertical-align: top }} img {{ width: 100% }}</style>
<h1>Every page</h1>{"".join(parts)}"""
    (folder / "index.html").write_text(page, encoding="utf-8")

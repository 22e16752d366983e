"""Every page: all lecture and student notebooks in a real JupyterLab in a real Chromium.

Each is run from its first cell to its last; every control of every widget is moved to both ends of its range; what
somebody meets who has no pointer or cannot see is checked; in the student notebooks an exercise, drawn by lot, gets three
wrong answers from the bank and a right one. Pictures of all of it stand on one sheet for each notebook, and
`.cache/audit/pages/index.html` shows the sheets.

    python -m tests.audit.pages 01 --form student      this notebook alone
"""

import argparse
import html
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser
from playwright.sync_api import Error as BrowserError

from tests import bank
from tests.browser import lessons
from tests.browser.contrast import unreadable
from tests.browser.ends import to_both_ends
from tests.browser.lab import Lab, Notebook, browser, errors
from tests.browser.reach import nameless, unreachable
from tests.browser.widgets import WidgetError, operate_all
from utils.course.places import ROOT

FOLDER = ROOT / ".cache" / "audit" / "pages"
FORMS = {"lecture": lessons.lecture, "student": lessons.student}
WRONG_ANSWERS = 3
SHEET_COLUMNS, SHEET_WIDTH = 5, 460  # pictures side by side, pixels of each

# A lecture's kernel looks at every picture that it draws, also at those of a widget at the ends of its controls.
WATCH = """
from matplotlib.backends.backend_agg import FigureCanvasAgg

def watched(canvas, *arguments, print_png=FigureCanvasAgg.print_png, **options):
    import json
    from tests.picture_rules import broken_rules
    from utils.draw.layout import shown_texts
    print_png(canvas, *arguments, **options)  # first: only what is drawn has its place
    texts = shown_texts(canvas.figure)
    title = max(texts, key=lambda one: one.get_fontsize()).get_text() if texts else ""
    with open({log!r}, "a") as log:
        log.write(json.dumps([title, broken_rules(canvas.figure)]) + chr(10))

FigureCanvasAgg.print_png = watched
del FigureCanvasAgg, watched
"""

# What JupyterLab's own scripts say, whatever the notebook.
NOT_OURS: tuple[tuple[str, str], ...] = ()


def run(names: list[str] | None = None, forms: tuple[str, ...] = tuple(FORMS), folder: Path = FOLDER) -> list[dict]:
    """One row for each notebook. Trainings are taken from the results that this checkout has kept."""
    os.environ.setdefault("COURSE_CACHE", str(ROOT / ".cache" / "kept"))
    rows = []
    for name in names or lessons.NAMES:
        for form in forms:
            row = look_at(name, form, folder)
            rows.append(row)
            write_index(folder)
    return rows


def look_at(name: str, form: str, folder: Path) -> dict:
    """Open one notebook and do all of it; whatever goes wrong is said in its row."""
    own = folder / form / name
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    place = Path(tempfile.mkdtemp(prefix="course-pages-"))
    start = time.monotonic()
    try:
        if form == "lecture":
            watch_pictures(place)
        with Lab(place) as lab, browser() as running:
            figures, problems = visit(lab, running, name, form, own)
        if form == "lecture":
            figures["pictures"], wrong = watched_pictures(place)
            problems += wrong
    except (BrowserError, RuntimeError, TimeoutError, WidgetError) as problem:
        figures, problems = {}, [f"broke off: {type(problem).__name__}: {problem}"]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    said = "; ".join(problems) if problems else "no error, no outside request, nothing without a name"
    row = {"what": f"{form} {name}", "ok": not problems, "said": said, **figures}
    row["seconds"] = round(time.monotonic() - start)
    (own / "row.json").write_text(json.dumps({**row, "problems": problems}, indent=1), encoding="utf-8")
    return row


def visit(lab: Lab, running: Browser, name: str, form: str, own: Path) -> tuple[dict, list[str]]:
    page = lab.open(running, lab.add(FORMS[form](name), f"{form}/{name}.ipynb"), height=1500)
    problems: list[str] = []
    began = time.monotonic()
    cells = page.run_all(1800)
    ran = time.monotonic() - began
    problems += errors(cells)
    problems += unrun(cells)
    page.page.wait_for_timeout(500)
    stops, wrong = unreachable(page)
    problems += wrong + nameless(page) + [f"hard to read: {one}" for one in unreadable(page)]
    pictures = [(f"page {index + 1}", path) for index, path in enumerate(page.screenshots(own, "page_"))]
    widgets = {}
    try:
        widgets = operate_all(page)
        if widgets != (called := lessons.called_widgets(FORMS[form](name))):
            problems.append(f"the cells ask for the widgets {called}, and the page has {widgets}")
    except WidgetError as problem:
        problems.append(str(problem))
    show_quizzes_anew(page)
    sweep = to_both_ends(page, own)
    problems += sweep.problems
    pictures += sweep.pictures
    if form == "student":
        answers, wrong = answer_wrongly(page, name, own)
        pictures += answers
        problems += wrong
    problems += [one for one in errors(page.cells()) if one not in problems]
    problems += [f"request to another host: {address}" for address in dict.fromkeys(page.foreign)]
    problems += [f"console: {said[:300]}" for said in ours(page.mistakes)]
    page.close()
    sheet(pictures, f"{form} {name}", own / "sheet.jpg")
    slowest = max(sweep.changes, key=lambda change: change[1], default=("none", 0.0))
    figures = {
        "cells": sum(cell["type"] == "code" for cell in cells),
        "run seconds": round(ran, 1),
        "widgets": sum(widgets.values()),
        "controls": sweep.controls,
        "changes": len(sweep.changes),
        "stops of Tab": stops,
        "slowest change": f"{slowest[1]:.2f} s ({slowest[0]})",
    }
    return figures, problems


def watch_pictures(place: Path):
    start = place / "ipython" / "profile_default" / "startup"
    start.mkdir(parents=True)
    (start / "pictures.py").write_text(WATCH.format(log=str(place / "pictures.jsonl")), encoding="utf-8")


def watched_pictures(place: Path) -> tuple[int, list[str]]:
    """How many pictures were drawn, and the rules for pictures that they broke."""
    drawn = [json.loads(line) for line in (place / "pictures.jsonl").read_text(encoding="utf-8").splitlines()]
    wrong = [f"the picture {title[:60]!r}: {rule}" for title, broken in drawn for rule in broken]
    return len(drawn), list(dict.fromkeys(wrong))


def unrun(cells: list[dict]) -> list[str]:
    return [
        f"cell {cell['index']} was never run"
        for cell in cells
        if cell["type"] == "code" and cell["source"].strip() and not cell["count"]
    ]


def ours(mistakes: list[str]) -> list[str]:
    """What scripts said, each once, without what JupyterLab is known to say of itself."""
    return [said for said in dict.fromkeys(mistakes) if not any(re.search(pattern, said) for pattern, _ in NOT_OURS)]


def show_quizzes_anew(page: Notebook):
    """A quiz is locked once it is answered: run its cell again."""
    for cell in page.cells():
        if cell["type"] == "code" and re.search(r"^quiz\(", cell["source"], re.MULTILINE):
            page.run_cell(cell["index"])
    page.wait_for_widgets()


# A student who is wrong three times


def answer_wrongly(page: Notebook, name: str, own: Path) -> tuple[list[tuple[str, Path]], list[str]]:
    """An exercise drawn by lot gets wrong answers and a right one: pictures of what is said, and what is wrong with it."""
    stubs = lessons.function_exercises(lessons.student(name))
    lot = random.Random(name)
    exercise_id = lot.choice(sorted(stubs))
    index, stub = stubs[exercise_id]
    function = lessons.USE.search(stub)[1]
    wrong, right = (bank.answers_to(exercise_id, status) for status in ("failed", "passed"))
    pictures, problems = [], []
    for number, entry in enumerate([*lot.sample(wrong, WRONG_ANSWERS), lot.choice(right)], 1):
        page.set_source(index, f'{entry.code}\n{function} = exercise("{exercise_id}").use(answer)')
        outputs = page.run_cell(index, 120)
        page.page.wait_for_timeout(400)
        words = " ".join("".join(one["data"]["text/plain"]) for one in outputs if "data" in one)
        if f": {entry.verdict}" not in words:
            problems.append(f"exercise {exercise_id}, {entry.name}: expected {entry.verdict}, got {words[:200]}")
        cell = page.page.locator(".jp-Notebook .jp-Cell").nth(index)
        cell.scroll_into_view_if_needed()
        path = own / f"answer_{number}.png"
        cell.screenshot(path=path)
        pictures.append((f"exercise {exercise_id}, answer {number}: {entry.verdict}", path))
    return pictures, problems


# Sheets of pictures


def sheet(pictures: list[tuple[str, Path]], title: str, path: Path):
    """All pictures, small, each under its words, in columns of about the same height."""
    font = ImageFont.load_default(15)
    tiles = []
    for words, picture in pictures:
        with Image.open(picture) as opened:
            small = opened.convert("RGB")
        if small.width > SHEET_WIDTH:
            small = small.resize((SHEET_WIDTH, max(1, small.height * SHEET_WIDTH // small.width)), Image.LANCZOS)
        tiles.append((words, small))
    heights = [40] * SHEET_COLUMNS
    places = []
    for _, small in tiles:
        column = heights.index(min(heights))
        places.append((column * (SHEET_WIDTH + 16) + 8, heights[column]))
        heights[column] += small.height + 40
    whole = Image.new("RGB", (SHEET_COLUMNS * (SHEET_WIDTH + 16), max(heights)), "#d0d0d0")
    draw = ImageDraw.Draw(whole)
    draw.text((8, 10), title, fill="black", font=ImageFont.load_default(20))
    for (words, small), (x, y) in zip(tiles, places, strict=True):
        draw.text((x, y), words[:60], fill="black", font=font)
        whole.paste(small, (x, y + 20))
    whole.save(path, quality=82)


def write_index(folder: Path):
    """A page with the sheet of every notebook that was looked at, whenever that was."""
    parts = []
    for file in sorted(folder.glob("*/*/row.json")):
        row = json.loads(file.read_text(encoding="utf-8"))
        place = file.parent.relative_to(folder).as_posix()
        wrong = "".join(f"<li>{html.escape(one)}</li>" for one in row["problems"])
        figures = ", ".join(
            f"{key} {value}" for key, value in row.items() if key not in ("what", "ok", "said", "problems")
        )
        parts.append(
            f"<h2>{'✓' if row['ok'] else '✗'} {html.escape(row['what'])}</h2><p>{html.escape(figures)}</p><ul>{wrong}</ul>"
            f'<a href="{place}/sheet.jpg"><img src="{place}/sheet.jpg" alt="all pictures of {html.escape(row["what"])}" '
            'style="width: 100%; max-height: 40em; object-fit: cover; object-position: top"></a>'
        )
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Every page</title><h1>Every page</h1>{"".join(parts)}'
    (folder / "index.html").write_text(page, encoding="utf-8")


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.pages", description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", help="numbers such as 01 (default: all)")
    parser.add_argument("--form", choices=FORMS, help="one of the two forms (default: both)")
    chosen = parser.parse_args(given)
    names = [name for name in lessons.NAMES if not chosen.lessons or name[:2] in chosen.lessons]
    if not names:
        parser.error(f"expected numbers among {', '.join(name[:2] for name in lessons.NAMES)}")
    rows = run(names, (chosen.form,) if chosen.form else tuple(FORMS))
    for row in rows:
        print(json.dumps(row, ensure_ascii=False), flush=True)
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

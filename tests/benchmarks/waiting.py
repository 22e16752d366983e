"""What people wait for: the first cell after `make lab`, the check of an answer, a page of the website, the course as a whole."""

import statistics
import tempfile
import time
from pathlib import Path

from tests.benchmarks.benchmark import Benchmark, Shown, at_most
from tests.browser.first_cell import open_first_cell
from utils.build.browser import browser
from utils.build.site.__main__ import build_site
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import PASSED, exercises_of, grade
from utils.exercises.timing import read_timings
from utils.training.metrics import over_seeds

FIRST, CHECK, SLOWEST_CHECK, PAGE = (
    "`make lab` to the output of the first cell",
    "check of a right answer, median exercise",
    "check of a right answer, slowest exercise",
    "page of the website, slowest lesson",
)
LESSONS_RUN = "all lessons, each from an empty cache"
GOALS = {FIRST: 4, CHECK: 0.05, PAGE: 1.5, LESSONS_RUN: 8 * 60}


def waiting(rounds: int = 5, lessons: tuple[str, ...] = tuple(lesson.number for lesson in LESSONS)) -> list[dict]:
    """Rows of what is waited for and its seconds, round by round."""
    checks = [_checks(lessons) for _ in range(rounds)]
    with browser() as running:
        rows = {
            FIRST: [_first_cell(running) for _ in range(rounds)],
            CHECK: [statistics.median(round_) for round_ in checks],
            SLOWEST_CHECK: [max(round_) for round_ in checks],
            PAGE: _pages(running, rounds, lessons),
        }
    return [{"what": what, "seconds": [round(value, 4) for value in values]} for what, values in rows.items()]


def _first_cell(running) -> float:
    with tempfile.TemporaryDirectory() as folder, open_first_cell(Path(folder), running) as page:
        return page.seconds


def _checks(lessons: tuple[str, ...]) -> list[float]:
    """Seconds of the check of each reference."""
    taken = []
    for item in (item for number in lessons for item in exercises_of(number)):
        start = time.perf_counter()
        result = grade(item.id, item.reference)
        taken.append(time.perf_counter() - start)
        if result.status != PASSED:
            raise AssertionError(f"expected the reference of {item.id} to pass, got {result.status}: {result.message}")
    return taken


def _pages(running, rounds: int, lessons: tuple[str, ...]) -> list[float]:
    """From the address to a loaded page, opened from disk in a fresh context: the slowest lesson of each round."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        build_site(site, Path(folder) / "scratch")
        pages = [page for number in lessons for page in sorted(site.glob(f"{number}_*.html"))]
        return [max(_loaded(running, page) for page in pages) for _ in range(rounds)]


def _loaded(running, file: Path) -> float:
    context = running.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    start = time.perf_counter()
    page.goto(file.resolve().as_uri(), wait_until="load")
    taken = time.perf_counter() - start
    context.close()
    return taken


def show(rows: list[dict]) -> Shown:
    seconds = {row["what"]: over_seeds(row["seconds"], 3) for row in rows}
    timings = read_timings().values()
    total = sum(timing["seconds"] for timing in timings)
    table = [(what, *(f"{value[key]:.3g}" for key in ("median", "least", "most"))) for what, value in seconds.items()]
    table.append((LESSONS_RUN, f"{total:.0f}", "", ""))
    medians = {what: value["median"] for what, value in seconds.items()} | {LESSONS_RUN: total}
    return Shown(
        "What one waits for",
        f"Seconds: median, least and most of {len(rows[0]['seconds'])} rounds. The lessons were run once, on {max(timing['measured'] for timing in timings)}.",
        ("what", "median", "least", "most"),
        table,
        [at_most(what, medians[what], goal, "s") for what, goal in GOALS.items()],
    )


BENCHMARKS = (Benchmark("waiting", "00", waiting, show, {"rounds": 1, "lessons": ("01",)}, packages=("jupyterlab",)),)

"""How the tests are shared out among the workers of `make test`; a pytest plugin, loaded by the root conftest.

A worker takes one unit of tests after the other. A unit is a file, or one lesson of a file that goes through the
lessons one by one: so no worker is left alone with a long file while the others have nothing more to do.

The lecture notebooks come first: they train what all other notebooks and pages then find kept, where two that train
the same at the same time would wait for each other. The pages in a browser wait more than they compute: they are
spread over the whole run, between units that keep the processors busy. Of both kinds the long ones come first, so that
the end is made of short ones.
"""

import os
import re

import pytest

BROWSER = "tests/browser/"
LONG = ("tests/test_bank.py", "notebooks/exercises/", "tests/test_draw_")  # half a minute or so; all others are shorter
LECTURE = re.compile(r"notebooks/\d\d_\w+\.ipynb")
# The lesson in the brackets of a test's name: of a page, "[03_sequence_to_sequence-dark]"; of an exercise, "[3.7]".
LESSON = {
    re.compile(rf"{BROWSER}test_\w+\.py"): re.compile(r"\[(\d\d)_\w+"),
    re.compile(r"tests/test_bank\.py"): re.compile(r"\[(\d+)\.\d+"),
}


def unit_of(nodeid: str) -> str:
    """The tests of one unit share a worker, in the order in which they were collected."""
    file, _, name = nodeid.partition("::")
    for files, lesson in LESSON.items():
        if files.fullmatch(file) and (found := lesson.search(name)):
            return f"{file}[{found[1]}]"
    return file


def in_order(units: list[str]) -> list[str]:
    """Lectures, the longest of which are the last lessons; then the rest, with the browser's units spread evenly."""
    lectures = [unit for unit in units if LECTURE.fullmatch(unit)]
    pages = [unit for unit in units if unit.startswith(BROWSER)]
    others = sorted((unit for unit in units if unit not in {*lectures, *pages}), key=how_short)
    # Each at the middle of its share of the way from 0 to 1; of the pages, those that run a lesson stand last.
    spread = [((place + 0.5) / len(some), unit) for some in (pages[::-1], others) for place, unit in enumerate(some)]
    return lectures[::-1] + [unit for _, unit in sorted(spread)]


def how_short(unit: str) -> int:
    return next((place for place, start in enumerate(LONG) if unit.startswith(start)), len(LONG))


def pytest_collection_modifyitems(items):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return  # alone, a process takes the tests as they stand
    places = {unit: place for place, unit in enumerate(in_order(list(dict.fromkeys(unit_of(i.nodeid) for i in items))))}
    items.sort(key=lambda item: places[unit_of(item.nodeid)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return unit_of(nodeid)

    config.option.loadscopereorder = False  # the order is that of the collection, not by the number of tests
    return ByUnit(config, log)

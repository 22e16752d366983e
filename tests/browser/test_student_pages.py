"""Every student notebook in a real JupyterLab: it runs, and every widget does what it says."""

import os
import re

import pytest

from tests.browser import lessons
from tests.browser.contrast import unreadable
from tests.browser.lab import errors
from tests.browser.widgets import operate_all, usual_time

# A shared machine gets a generous bound; COURSE_TIMING=1, on a quiet one, asks for what the course promises.
KEY_TO_PICTURE_MS = 250 if os.environ.get("COURSE_TIMING") == "1" else 1000


class Ran:
    """A student notebook after Run All Cells."""

    def __init__(self, name, page, cells):
        self.name, self.page, self.cells = name, page, cells


@pytest.fixture(scope="module", params=lessons.NAMES)
def ran(request, lab, chromium):
    name = request.param
    page = lab.open(chromium, lab.add(lessons.student(name), f"student/{name}.ipynb"))
    try:
        yield Ran(name, page, page.run_all())
    finally:  # also when it did not run to its end: its kernel would go on beside the next lesson
        page.close()


def test_a_student_notebook_runs_to_its_end_without_an_error(ran):
    assert errors(ran.cells) == []
    empty = [
        cell["index"] for cell in ran.cells if cell["type"] == "code" and cell["source"].strip() and not cell["count"]
    ]
    assert empty == [], f"cells that were never run: {empty}"


def test_from_key_press_to_new_picture_in_time(ran):
    explorers = ran.page.page.locator(".jp-OutputArea-output .course-explore").all()
    asked_for = lessons.called_widgets(lessons.student(ran.name))["explore"]
    assert len(explorers) == asked_for
    for number, widget in enumerate(explorers, 1):
        if not widget.locator(".noUi-handle").count():
            continue  # only text to type, which is drawn when the writer leaves the field
        widget.scroll_into_view_if_needed()
        median = usual_time(widget, KEY_TO_PICTURE_MS)
        print(f"{ran.name}, explore {number}: {median:.0f} ms from key press to new picture (median)")
        assert median <= KEY_TO_PICTURE_MS


def test_every_widget_changes_what_it_shows_when_it_is_operated(ran):
    operated = operate_all(ran.page)
    print(ran.name, operated)
    assert operated == lessons.called_widgets(lessons.student(ran.name))
    assert errors(ran.page.cells()) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_output_can_be_read_in_either_theme(ran, theme, pictures):
    ran.page.theme(theme)
    if pictures:
        ran.page.screenshots(pictures / ran.name, f"student_{theme}_")
    assert unreadable(ran.page) == []
    ran.page.theme("light")


def last_text(outputs: list[dict]) -> str:
    texts = ["".join(output["data"]["text/plain"]) for output in outputs if "data" in output]
    return texts[-1] if texts else ""


def test_a_wrong_answer_gets_a_message_and_a_right_one_passes(ran):
    """The first exercise of the lesson, answered as a student would: not at all, wrongly, rightly."""
    stubs = lessons.function_exercises(lessons.student(ran.name))
    solved = lessons.function_exercises(lessons.lecture(ran.name))
    assert stubs, f"{ran.name} has no exercise that asks for a function"
    exercise_id, (index, stub) = next(iter(stubs.items()))
    assert lessons.STUB in stub
    area = ran.page.output_area(index)
    assert re.search(rf"Exercise {re.escape(exercise_id)} .*: not attempted yet", area.inner_text())

    ran.page.set_source(index, stub.replace(lessons.STUB, "    return None"))
    first, _, message = last_text(ran.page.run_cell(index)).partition("\n")
    assert first.startswith(f"Exercise {exercise_id} ") and first.endswith(": failed")
    assert len(message.split()) >= 4, f"the message says too little: {message!r}"
    area.get_by_text(": failed").wait_for()

    ran.page.set_source(index, solved[exercise_id][1])
    assert last_text(ran.page.run_cell(index)).split("\n")[0].endswith(": passed")
    area.get_by_text(": passed").wait_for()
    assert errors(ran.page.cells()) == []


# Last in the file, so that it has seen the requests of everything above.
def test_a_student_notebook_asks_nothing_of_another_host(ran):
    assert ran.page.foreign == []

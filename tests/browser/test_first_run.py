"""The first minute of a new student, in a real browser: `make lab` in a copy of the course, with an empty home folder."""

import json
import re
import time

import pytest

from tests.browser.first_cell import FIRST_OUTPUT, open_first_cell
from tests.browser.lab import SLOW

BOARD = "section[aria-label='Your progress']"
ANSWER = 'def normalize(numbers):\n    return numbers / numbers.sum()\n\n\nnormalize = exercise("0.1").use(normalize)'


@pytest.fixture(scope="module")
def page(tmp_path_factory, chromium):
    with open_first_cell(tmp_path_factory.mktemp("first"), chromium) as page:
        yield page


def scroll_to(page, target: str):
    """A long notebook keeps only the visible cells in the page: scroll down until one of them has the target."""
    panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer")
    panel.evaluate("e => { e.scrollTop = 0; }")
    until = time.monotonic() + SLOW
    while not page.locator(target).first.is_visible() and time.monotonic() < until:
        panel.evaluate("e => { e.scrollTop += 300; }")
        page.wait_for_timeout(100)
    page.locator(target).first.scroll_into_view_if_needed()
    return page.locator(target).first


def test_lesson_00_is_open_and_shift_enter_runs_its_first_cell(page):
    assert page.locator(".lm-DockPanel-tabBar .lm-mod-current").inner_text() == "00_start_here.ipynb"
    assert "Start here" in page.locator(FIRST_OUTPUT).inner_text()


def test_nothing_pops_up_and_nothing_is_asked_of_another_host(page):
    page.wait_for_timeout(3000)
    assert page.evaluate("window.popups") == []
    assert page.foreign == []


def test_the_notebook_is_open_once_and_has_one_kernel(page):
    assert page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab").all_inner_texts() == ["00_start_here.ipynb"]
    sessions = page.evaluate("fetch('/api/sessions').then((response) => response.json())")
    assert [session["path"] for session in sessions] == ["work/00_start_here.ipynb"]


def test_nbgrader_is_installed_here_and_yet_absent_from_menus_tool_bar_and_side_bars(page):
    pytest.importorskip("nbgrader")
    assert page.locator(".lm-MenuBar-itemLabel").all_inner_texts()[0] == "File"
    names = page.locator(".lm-MenuBar-itemLabel, .jp-Toolbar-item, .jp-SideBar .lm-TabBar-tab")
    shown = [f"{item.inner_text()} {item.get_attribute('title')}" for item in names.all()]
    assert not [words for words in shown if re.search("nbgrader|assignment|validate", words, re.IGNORECASE)]


def test_the_board_follows_a_pass_and_its_links_open_the_exercises(page):
    page.get_by_role("menuitem", name="Run").first.click()
    page.get_by_text("Run All Cells", exact=True).click()
    scroll_to(page, f"{BOARD}:has-text('Start with 0.1')")
    scroll_to(page, ".jp-CodeCell:has-text('def normalize') .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(ANSWER)
    page.keyboard.press("Shift+Enter")
    page.get_by_text("is now used by the code below").first.wait_for(timeout=SLOW * 1000)
    board = scroll_to(page, f"{BOARD}:has-text('Continue with 0.2')")
    board.get_by_role("link", name=re.compile("^2.3 one hop")).click()
    page.locator(".lm-DockPanel-tabBar .lm-mod-current", has_text="02_memory_network.ipynb").wait_for()
    page.locator(".jp-Cell.jp-mod-active .cm-content", has_text="Exercise 2.3").wait_for()


def test_a_second_make_lab_leads_to_the_same_server(page):
    assert page.start.again().endswith(f" {page.start.address}\n")
    servers = [json.loads(file.read_text()) for file in page.start.home.rglob("jpserver-*.json")]
    assert [server["port"] for server in servers] == [page.start.port]

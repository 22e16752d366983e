"""`make lab` up to the output of the first cell of code, in a copy of the course with an empty home folder."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser.lab import SLOW, foreign_requests, free_port
from tests.first_start import FirstStart

# Whatever ever pops up, even for a moment.
WATCH = """window.popups = [];
new MutationObserver(() => document.querySelectorAll(".jp-Dialog, .Toastify__toast").forEach((popup) => {
    if (!window.popups.includes(popup.innerText)) window.popups.push(popup.innerText);
})).observe(document, { childList: true, subtree: true });"""
FIRST_OUTPUT = ".jp-OutputArea-output section[aria-label='Lesson 00']"


@contextlib.contextmanager
def open_first_cell(folder: Path, chromium: Browser) -> Iterator[Page]:
    """The page once the output is there. `start` is the running `make lab`, `seconds` what it took, `foreign` the requests
    to other hosts."""
    start, begun = FirstStart(folder, free_port()), time.perf_counter()
    with start:
        context = chromium.new_context(viewport={"width": 1280, "height": 1000})
        page = context.new_page()
        page.start, page.foreign = start, foreign_requests(context)
        page.add_init_script(WATCH)
        page.goto(start.address, timeout=SLOW * 1000)
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=SLOW * 1000)
        # Before JupyterLab has the list of kernels, it answers Shift+Enter in a code cell with a dialog.
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=SLOW * 1000)
        page.locator(".jp-Notebook .jp-Cell").first.click()
        for _ in range(4):  # two cells of text, the folded cell for hosts, then the first code
            page.keyboard.press("Shift+Enter")
        page.wait_for_selector(FIRST_OUTPUT, timeout=SLOW * 1000)
        page.seconds = time.perf_counter() - begun
        yield page
        context.close()

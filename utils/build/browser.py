"""An installed Chrome or Chromium, headless: for the first pictures of widgets, and for the browser tests."""

import contextlib
import os
import shutil

from playwright.sync_api import sync_playwright

BROWSER_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
)
BROWSER_PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
BROWSER_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # Nothing but this machine can be reached, so what a page loads from elsewhere is missing here for sure.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
NO_BROWSER = (
    "no Chrome or Chromium was found: install one (Debian and Ubuntu: `apt install chromium`; macOS: "
    "`brew install --cask chromium`) or name its program in COURSE_BROWSER"
)


class NoBrowser(RuntimeError):
    """No installed browser can be driven."""


def find_browser() -> str:
    """The program of an installed Chrome, Chromium or Edge; `COURSE_BROWSER` comes first."""
    named = os.environ.get("COURSE_BROWSER")
    if named:
        found = shutil.which(named)
        if not found:
            raise NoBrowser(f"COURSE_BROWSER names {named!r}, which is not a program on this machine")
        return found
    for name in BROWSER_NAMES:
        if found := shutil.which(name):
            return found
    for path in BROWSER_PATHS:
        if os.access(path, os.X_OK):
            return path
    raise NoBrowser(NO_BROWSER)


@contextlib.contextmanager
def browser():
    """A headless browser with a fresh profile; closed, with its driver, at the end."""
    program = find_browser()
    with sync_playwright() as driver:
        # launch() makes a new profile folder for each browser and removes it at the end.
        running = driver.chromium.launch(executable_path=program, args=BROWSER_FLAGS)
        try:
            yield running
        finally:
            running.close()

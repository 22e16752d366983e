"""Fixtures of the browser tests: one JupyterLab for each worker, one browser for each file of tests."""

import os
from pathlib import Path

import pytest

from tests.browser.lab import Lab
from utils.build.browser import NoBrowser, browser, find_browser


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


# Not for the whole session: while Playwright runs, no other test of the same process could start an event loop.
@pytest.fixture(scope="module")
def chromium():
    try:
        find_browser()
    except NoBrowser as problem:
        if os.environ.get("CI"):
            pytest.fail(str(problem), pytrace=False)
        pytest.skip(str(problem))
    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """Where to leave screenshots for a person to look at, if anywhere."""
    folder = os.environ.get("COURSE_SCREENSHOTS")
    return Path(folder) if folder else None

"""The built website in a browser: what the tests and the audit of pages look at on each page."""

from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser.lab import foreign_requests, page_mistakes

WIDTHS = (390, 900, 1440)  # a phone, a tablet, a laptop
THEMES = ("light", "dark")
TOO_WIDE = """() => document.documentElement.scrollWidth > window.innerWidth + 1
    ? [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > window.innerWidth + 1)
        .slice(0, 3).map((one) => `${one.tagName} ${one.className}`) : []"""
MISSING = """() => [...document.images].filter((one) => one.complete && !one.naturalWidth).map((one) => one.src)"""


@dataclass
class SitePage:
    """A page of the site, opened from disk, with what it does wrong."""

    page: Page
    mistakes: list[str]
    foreign: list[str]

    def problems(self) -> list[str]:
        """Console errors, requests to other hosts, missing pictures, and whatever is wider than the window."""
        problems = [f"console: {error}" for error in self.mistakes]
        problems += [f"request to another host: {address}" for address in self.foreign]
        problems += [f"missing picture: {address}" for address in self.page.evaluate(MISSING)]
        return problems + [f"wider than the page: {element}" for element in self.page.evaluate(TOO_WIDE)]

    def start_everything(self):
        """Scroll from top to bottom, so that every widget starts and every picture loads."""
        height = self.page.evaluate("document.documentElement.scrollHeight")
        for y in range(0, height, 600):
            self.page.evaluate(f"window.scrollTo(0, {y})")
            self.page.wait_for_timeout(15)
        self.page.evaluate("[...document.images].forEach((one) => (one.loading = 'eager'))")
        self.page.wait_for_function("() => [...document.images].every((one) => one.complete)")
        self.page.evaluate("window.scrollTo(0, 0)")

    def close(self):
        self.page.context.close()


def open_page(browser: Browser, file: Path, width: int = 1440, theme: str = "light") -> SitePage:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    foreign = foreign_requests(context)
    page = context.new_page()
    mistakes = page_mistakes(page)
    page.goto(file.resolve().as_uri())
    return SitePage(page, mistakes, foreign)


def pages_of(site: Path) -> list[Path]:
    """Every page of the site; decks have tests of their own."""
    return sorted(site.glob("*.html"))

"""A widget in a page by itself, without a kernel."""

from playwright.sync_api import Browser, Locator

from utils.widgets.base import page_html, page_script, page_style


def open_stored(chromium: Browser, widget) -> Locator:
    """The widget, started from its stored state as on the site; a script that fails is an error."""
    page = chromium.new_page()
    problems = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    names = {widget.script}
    page.set_content(
        f"<!doctype html><style>{page_style(names)}</style>{page_html(widget.page_state())}<script>{page_script(names)}</script>"
    )
    page.evaluate("() => startWidget(document.querySelector('.live-widget'))")
    assert problems == []
    return page.locator(".course-widget")

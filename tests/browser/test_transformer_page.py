"""The open Transformer as one file: opened from disk it asks for nothing else, fits the window and translates."""

import pytest

from tests.browser.operate import until
from tests.browser.site import THEMES, WIDTHS, open_page
from utils.build import transformer_page

MOST_BYTES = 3_000_000  # what a lecturer can mail


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / transformer_page.NAME
    assert transformer_page.main([str(file)]) == 0
    assert file.stat().st_size < MOST_BYTES
    return file


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_translates_without_a_network_and_fits_the_window(width, theme, file, chromium):
    opened = open_page(chromium, file, width, theme)
    asked = []
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.context.set_offline(True)
    words = opened.page.locator(".course-open-words")
    until(
        words.inner_text,
        lambda text: text == "le vieux roi ne voit pas le cheval noir",
        "the first translation is missing",
    )
    field = opened.page.get_by_role("textbox")
    field.fill("the small queen never sings")
    field.press("Enter")
    until(words.inner_text, lambda text: text == "la petite reine ne chante jamais", "the translation does not follow")
    assert opened.page.locator("html").get_attribute("data-theme") == theme
    assert asked == [] and opened.problems() == []
    opened.close()


def test_a_button_changes_the_theme(file, chromium):
    opened = open_page(chromium, file, theme="light")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    before = opened.page.evaluate(ground)
    opened.page.get_by_role("button", name="Dark").click()
    assert opened.page.evaluate(ground) != before
    assert opened.page.get_by_role("button", name="Light").is_visible()
    opened.close()

"""Every deck at 1280x720, opened from its file."""

import re

import pytest

from tests.browser import lessons
from tests.browser.deck import Deck
from utils.course.slides import build_deck, slide_type

SMALLEST_LETTERS = 14  # pixels


@pytest.fixture(scope="module", params=lessons.NAMES)
def deck(request, chromium, tmp_path_factory):
    path = build_deck(lessons.lecture(request.param), tmp_path_factory.mktemp("slides") / f"{request.param}.html")
    with Deck(chromium, path) as opened:
        opened.name = request.param
        yield opened


def test_every_slide_stays_inside_its_frame_and_can_be_read(deck, pictures):
    problems = []
    for number, words in deck.slides():
        if pictures:
            deck.screenshot(pictures / deck.name / f"slide_{number:02d}.png")
        if deck.overflows() or deck.outside():
            problems.append(f"slide {number} ({words}) holds too much: {deck.outside() or 'even at the smallest size'}")
        elif deck.smallest_letters() < SMALLEST_LETTERS:
            problems.append(f"slide {number} ({words}) has letters of {deck.smallest_letters():.1f} pixels")
    assert problems == []


def test_every_formula_of_the_slides_is_drawn(deck):
    cells = [cell for cell in lessons.cells_of(lessons.lecture(deck.name)) if slide_type(cell) != "skip"]
    prose = "\n".join(re.sub(r"`[^`]*`", "", cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    written = len(re.findall(r"(?<!\\)\$\$.+?\$\$|(?<!\\)\$(?!\s).+?(?<!\\)\$", prose, re.DOTALL))
    drawn = deck.page.evaluate(
        """() => [...document.querySelectorAll("svg.formula")]
            .filter((svg) => svg.querySelector("path") && svg.viewBox.baseVal.width > 0).length"""
    )
    assert drawn == written
    assert "$" not in deck.page.evaluate(
        """() => [...document.querySelectorAll(".prose")].map((prose) => {
            const copy = prose.cloneNode(true);
            copy.querySelectorAll("code, pre").forEach((code) => code.remove());
            return copy.textContent;
        }).join("")"""
    )


def test_every_picture_of_a_deck_is_drawn_and_has_words(deck):
    images = deck.page.evaluate(
        "() => [...document.images].map((i) => ({drawn: i.naturalWidth > 0, alt: i.alt, start: i.src.slice(0, 5)}))"
    )
    assert all(image["drawn"] and image["alt"] and image["start"] == "data:" for image in images)


def test_the_deck_begins_with_its_title_and_has_notes_for_the_speaker(deck):
    first = deck.page.locator(".reveal .slides section.title")
    lesson = next(lesson for lesson in lessons.EXISTING if lesson.name == deck.name)
    assert first.count() == 1
    assert lesson.title in first.inner_text()
    assert deck.page.locator("aside.notes").count() >= 1
    assert all(words.strip() for words in deck.page.locator("aside.notes").all_text_contents())


def test_the_speaker_view_opens_from_the_file(deck):
    deck.page.evaluate("() => Reveal.slide(0, 0)")
    with deck.page.context.expect_page() as opening:
        deck.page.keyboard.press("s")
    view = opening.value
    notes = deck.page.evaluate("() => Reveal.getCurrentSlide().querySelector('aside.notes')?.innerText ?? ''")
    # It opens the deck twice more, for this slide and the next; that takes its time on a busy machine.
    view.wait_for_selector(".speaker-controls-notes:not(.hidden) .value", timeout=60_000)
    if notes.strip():
        assert view.locator(".speaker-controls-notes .value").inner_text().split() == notes.split()
    view.close()


def test_keys_reach_every_slide_of_the_deck(deck):
    deck.page.evaluate("() => Reveal.slide(0, 0)")
    slides = deck.page.evaluate("() => Reveal.getTotalSlides()")
    seen = set()
    for _ in range(10 * slides):
        seen.add(deck.page.evaluate("() => JSON.stringify([Reveal.getIndices().h, Reveal.getIndices().v ?? 0])"))
        if len(seen) == slides:
            return
        deck.page.keyboard.press("Space")
    pytest.fail(f"{10 * slides} times Space led to {len(seen)} of {slides} slides")


def test_a_deck_prints_one_sheet_for_each_slide(deck):
    # Pictures keep their room and are not drawn: what is counted are sheets, and packing the pictures takes long.
    deck.page.add_style_tag(content="@media print { img { visibility: hidden !important } }")
    sheet = deck.page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", sheet)) == deck.page.evaluate("() => Reveal.getTotalSlides()")


# Last in the file, so that it has seen the requests of everything above.
def test_a_deck_asks_nothing_of_another_host_and_its_scripts_make_no_mistake(deck):
    assert deck.foreign == []
    assert deck.mistakes == []

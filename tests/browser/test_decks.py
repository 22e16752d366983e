"""Every deck at 1280x720, opened from its file."""

import re

import pytest

from tests.browser import lessons
from tests.browser.deck import Deck
from utils.build.slides import build_deck, slide_type

SMALLEST_LETTERS = 14  # pixels


@pytest.fixture(scope="module", params=lessons.NAMES)
def deck(request, chromium, tmp_path_factory):
    path = build_deck(lessons.lecture(request.param), tmp_path_factory.mktemp("slides") / f"{request.param}.html")
    with Deck(chromium, path) as opened:
        opened.name = request.param
        yield opened


def test_every_slide_stays_inside_its_frame_and_can_be_read(deck, pictures):
    problems = []
    for number, slide in deck.slides():
        if pictures:
            deck.screenshot(pictures / deck.name / f"slide_{number:02d}.png")
        if slide["overflows"] or slide["outside"]:
            problems.append(f"slide {number} ({slide['words']}) holds too much: {slide['outside']}")
        elif slide["smallest"] < SMALLEST_LETTERS:
            problems.append(f"slide {number} ({slide['words']}) has letters of {slide['smallest']:.1f} pixels")
    assert problems == [], "\n".join(problems)


def test_every_formula_and_picture_of_the_slides_is_drawn(deck):
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
    images = deck.page.evaluate(
        "() => [...document.images].map((i) => ({drawn: i.naturalWidth > 0, alt: i.alt, start: i.src.slice(0, 5)}))"
    )
    assert all(image["drawn"] and image["alt"] and image["start"] == "data:" for image in images)


def test_a_deck_has_its_title_and_notes_and_asks_nothing_of_another_host(deck):
    title = lessons.cells_of(lessons.lecture(deck.name))[0]["source"].split("\n")[0].rpartition("· ")[2]
    assert title in deck.page.locator(".reveal .slides section.title").inner_text()
    notes = deck.page.locator("aside.notes").all_text_contents()
    assert notes and all(words.strip() for words in notes)
    assert deck.foreign == []
    assert deck.mistakes == []


# What every deck has in common, with the first one alone


@pytest.fixture(scope="module")
def first_deck(chromium, tmp_path_factory):
    path = build_deck(lessons.lecture(lessons.NAMES[0]), tmp_path_factory.mktemp("slides") / "first.html")
    with Deck(chromium, path) as opened:
        yield opened


def test_the_speaker_view_opens_from_the_file(first_deck):
    page = first_deck.page
    page.evaluate("() => Reveal.slide(0, 0)")
    with page.context.expect_page() as opening:
        page.keyboard.press("s")
    view = opening.value
    notes = page.evaluate("() => Reveal.getCurrentSlide().querySelector('aside.notes').innerText")
    # It opens the deck twice more, for this slide and the next; that takes its time on a busy machine.
    view.wait_for_selector(".speaker-controls-notes:not(.hidden) .value", timeout=60_000)
    assert view.locator(".speaker-controls-notes .value").inner_text().split() == notes.split() != []
    view.close()


def test_keys_reach_every_slide_of_the_deck(first_deck):
    page = first_deck.page
    page.evaluate("() => Reveal.slide(0, 0)")
    slides = page.evaluate("() => Reveal.getTotalSlides()")
    seen = set()
    for _ in range(10 * slides):
        seen.add(page.evaluate("() => JSON.stringify([Reveal.getIndices().h, Reveal.getIndices().v ?? 0])"))
        page.keyboard.press("Space")
    assert len(seen) == slides


def test_a_deck_prints_one_sheet_for_each_slide(first_deck):
    sheet = first_deck.page.pdf(prefer_css_page_size=True, print_background=True)
    slides = first_deck.page.evaluate("() => Reveal.getTotalSlides()")
    assert len(re.findall(rb"/Type\s*/Page\b", sheet)) == slides
    assert first_deck.foreign == []
    assert first_deck.mistakes == []

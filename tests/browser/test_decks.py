"""Every deck at 1280x720, opened from its file."""

import json
import re

import pytest

from tests.browser import lessons
from tests.browser.deck import Deck
from utils.build.slides import CODE_LINES, SMALLEST_LETTERS, build_deck, slide_type

SMALLEST_CODE = 20  # pixels
SLIDES = {"00_start_here": (10, 20)}  # other lessons: 35 to 55
OPERATE = re.compile(r"\b(click|drag|hover|paint|type (a|your|in|another))\b", re.IGNORECASE)


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
        rules = {
            f"holds too much: {slide['outside']}": slide["overflows"] or slide["outside"],
            f"has code of {slide['code']:.1f} pixels": slide["code"] < SMALLEST_CODE,
            f"has letters of {slide['other']:.1f} pixels": slide["other"] < 0.99 * SMALLEST_LETTERS,
            f"has {slide['lines']} lines of code": slide["lines"] > CODE_LINES,
            "asks to operate something that stands still": OPERATE.search(slide["prose"]) and not slide["live"],
        }
        problems += [f"slide {number} ({slide['words']}) {problem}" for problem, broken in rules.items() if broken]
    assert problems == [], "\n".join(problems)
    fewest, most = SLIDES.get(deck.name, (35, 55))
    assert fewest <= number <= most


def test_every_section_has_at_least_two_speaker_notes(deck):
    notes = deck.page.evaluate(
        """() => [...document.querySelectorAll(".slides > section")].map((section) => [
            section.querySelector("h2")?.textContent ?? "",
            [...section.querySelectorAll("aside.notes > *")].filter((note) => note.textContent.trim()).length,
        ])"""
    )
    # Title and summary need none; a column without a section heading belongs to the section before it.
    counts: dict[str, int] = {}
    for heading, count in notes:
        section = heading if re.match(r"\d+ · ", heading) else next(reversed(counts), "")
        counts[section] = counts.get(section, 0) + count
    assert {section: count for section, count in counts.items() if section and count < 2} == {}


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


# What every deck has in common, with one of them


@pytest.fixture(scope="module")
def first_deck(chromium, tmp_path_factory):
    path = build_deck(lessons.lecture(lessons.NAMES[0]), tmp_path_factory.mktemp("slides") / "first.html")
    with Deck(chromium, path) as opened:
        yield opened


@pytest.fixture(scope="module")
def plane_deck(chromium, tmp_path_factory):
    path = build_deck(lessons.lecture("01_softmax_attention"), tmp_path_factory.mktemp("slides") / "plane.html")
    with Deck(chromium, path) as opened:
        yield opened


def test_a_widget_starts_with_its_slide_and_keeps_the_arrow_keys_while_it_has_the_focus(plane_deck):
    page = plane_deck.page
    plane = page.locator(".course-plane")
    assert plane.count() == 0, "it has started before its slide is shown"
    number = plane_deck.show("[data-widget=plane]")
    before, numbers = json.loads(plane.get_attribute("data-state")), plane.inner_text()
    plane.locator("[tabindex='0']").first.press("ArrowRight")
    after = json.loads(plane.get_attribute("data-state"))
    assert after["query"][0] > before["query"][0] and plane.inner_text() != numbers
    assert page.evaluate("() => Reveal.getSlidePastCount()") == number
    page.keyboard.press("PageDown")
    assert page.evaluate("() => Reveal.getSlidePastCount()") == number + 1
    page.emulate_media(media="print")
    assert not plane.is_visible() and page.locator(".live-widget[data-live] .live-picture img").first.is_visible()
    page.emulate_media(media="screen")


def test_the_open_transformer_is_still_there_when_the_lecturer_comes_back(chromium, tmp_path):
    """To reveal.js every `section` below its slides is a slide, which it counts, hides and shows."""
    path = build_deck(lessons.lecture("06_transformer"), tmp_path / "deck.html")
    with Deck(chromium, path) as deck:
        slides = deck.page.evaluate("() => Reveal.getTotalSlides()")
        deck.show("[data-widget=open_transformer]")
        block = deck.page.locator(".course-open-block").first
        block.wait_for()
        deck.page.keyboard.press("PageDown")
        deck.page.keyboard.press("PageUp")
        assert deck.page.evaluate("() => Reveal.getTotalSlides()") == slides
        block.click(timeout=5_000)  # nothing stands before it
        assert deck.page.locator(".course-open-title").inner_text()


def test_a_quiz_answers_a_click_and_the_next_key_press(plane_deck):
    page = plane_deck.page
    plane_deck.show("#quiz-1-a")
    quiz = page.locator("#quiz-1-a")
    assert quiz.locator(".quiz-feedback").inner_text() == ""
    quiz.locator('button[data-right="false"]').first.click()
    assert quiz.locator(".quiz-wrong").count() == 1 and quiz.locator(".quiz-feedback").inner_text()
    page.keyboard.press("Space")
    assert quiz.locator(".quiz-wrong").count() == 0 and quiz.locator(".quiz-right").count() == 1
    page.keyboard.press("Shift+Space")
    assert quiz.locator(".quiz-right").count() == 0


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

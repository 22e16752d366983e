"""A deck opened from its file in a browser."""

from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.lab import foreign_requests

# What a slide shows beyond its frame, with every fragment shown: each as "tag: text".
OUTSIDE = """() => {
    const slide = Reveal.getCurrentSlide();
    const frame = slide.querySelector(".frame");
    const outer = frame.getBoundingClientRect();
    const found = [];
    for (const part of frame.querySelectorAll("*")) {
        const box = part.getBoundingClientRect();
        if (!box.width || !box.height || part.closest("svg, aside.notes") !== null) continue;
        const out = box.left < outer.left - 1 || box.top < outer.top - 1
            || box.right > outer.right + 1 || box.bottom > outer.bottom + 1;
        const cut = ["PRE", "DIV"].includes(part.tagName)
            && (part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + 1);
        if (out || cut) found.push(`${part.tagName}: ${part.textContent.trim().slice(0, 50)}`);
    }
    return found;
}"""
# The smallest letters of the current slide in pixels of a 1280x720 window, subscripts in formulas not counted.
SMALLEST = """() => {
    const frame = Reveal.getCurrentSlide().querySelector(".frame");
    const walker = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
    let smallest = Infinity;
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || parent.closest("svg, sub, sup")) continue;
        smallest = Math.min(smallest, parseFloat(getComputedStyle(parent).fontSize));
    }
    return smallest;
}"""


class Deck:
    """A deck at 1280x720; `foreign` fills with requests to other hosts, `mistakes` with errors of its scripts."""

    def __init__(self, running: Browser, path: Path, width: int = 1280, height: int = 720):
        self.context = running.new_context(viewport={"width": width, "height": height})
        self.foreign = foreign_requests(self.context)
        self.mistakes: list[str] = []
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda problem: self.mistakes.append(str(problem)))
        self.page.goto(Path(path).resolve().as_uri())
        self.page.wait_for_selector("html[data-deck=ready]", state="attached", timeout=30_000)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def slides(self):
        """Go through the deck with every fragment shown; gives (number from 1, first words) of each slide."""
        places = self.page.evaluate("() => Reveal.getSlides().map((slide) => Reveal.getIndices(slide))")
        for number, place in enumerate(places, 1):
            show = "([h, v]) => { Reveal.slide(h, v); Reveal.slide(h, v, 1000); }"
            self.page.evaluate(show, [place["h"], place.get("v") or 0])
            words = self.page.evaluate("() => Reveal.getCurrentSlide().innerText.trim().split('\\n')[0]")
            yield number, words

    def outside(self) -> list[str]:
        return self.page.evaluate(OUTSIDE)

    def overflows(self) -> bool:
        return self.page.evaluate("() => Reveal.getCurrentSlide().dataset.overflow === 'true'")

    def smallest_letters(self) -> float:
        return self.page.evaluate(SMALLEST)

    def screenshot(self, path: Path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

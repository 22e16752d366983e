"""A deck opened from its file in a browser."""

from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.lab import foreign_requests

# Shows a slide with every fragment.
SHOW = "([h, v]) => { Reveal.slide(h, v); Reveal.slide(h, v, 1000); }"
# Of the current slide: its first words, what it shows beyond its frame (each as "tag: text"), whether it did not fit even at
# the smallest size, and its smallest letters in pixels, subscripts not counted.
EXAMINE = """() => {
    const slide = Reveal.getCurrentSlide();
    const frame = slide.querySelector(".frame");
    const outer = frame.getBoundingClientRect();
    const outside = [];
    for (const part of frame.querySelectorAll("*")) {
        const box = part.getBoundingClientRect();
        if (!box.width || !box.height || part.closest("svg, aside.notes") !== null) continue;
        const out = box.left < outer.left - 1 || box.top < outer.top - 1
            || box.right > outer.right + 1 || box.bottom > outer.bottom + 1;
        const cut = ["PRE", "DIV"].includes(part.tagName)
            && (part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + 1);
        if (out || cut) outside.push(`${part.tagName}: ${part.textContent.trim().slice(0, 50)}`);
    }
    const walker = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
    let smallest = 1000;
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || parent.closest("svg, sub, sup")) continue;
        smallest = Math.min(smallest, parseFloat(getComputedStyle(parent).fontSize));
    }
    const words = slide.innerText.trim().split("\\n")[0];
    return {words, outside, smallest, overflows: slide.dataset.overflow === "true"};
}"""


class Deck:
    """A deck at 1280x720; `foreign` fills with requests to other hosts, `mistakes` with errors of its scripts."""

    def __init__(self, running: Browser, path: Path):
        self.context = running.new_context(viewport={"width": 1280, "height": 720})
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
        """Go through the deck with every fragment shown; gives (number from 1, what `EXAMINE` finds) of each slide."""
        indices = self.page.evaluate("() => Reveal.getSlides().map((slide) => Reveal.getIndices(slide))")
        for number, index in enumerate(indices, 1):
            self.page.evaluate(SHOW, [index["h"], index.get("v") or 0])
            yield number, self.page.evaluate(EXAMINE)

    def screenshot(self, path: Path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

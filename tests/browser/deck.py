"""A deck opened from its file in a browser."""

from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.lab import foreign_requests

# Shows a slide with every fragment.
SHOW = """async ([h, v]) => {
    Reveal.slide(h, v);
    Reveal.slide(h, v, 1000);
    const frames = Reveal.getCurrentSlide().querySelector(".live-widget") ? 12 : 0;
    for (let k = 0; k < frames; k++) await new Promise(requestAnimationFrame);
}"""
# Of the current slide: its first words, what it shows beyond its frame (each as "tag: text"), whether it did not fit even at
# the smallest size, its lines of code, and the smallest letters in pixels of its code and of all other text, in widgets and
# pictures too; whether a widget runs on it; and its prose. Subscripts, superscripts and formulas are not measured.
EXAMINE = """() => {
    const slide = Reveal.getCurrentSlide();
    const frame = slide.querySelector(".frame");
    const outer = frame.getBoundingClientRect();
    const shown = (part) => part.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    const outside = [];
    for (const part of frame.querySelectorAll("*")) {
        const box = part.getBoundingClientRect();
        if (!box.width || !box.height || part.closest("svg, aside.notes, .course-widget *")) continue;
        const out = box.left < outer.left - 1 || box.top < outer.top - 1
            || box.right > outer.right + 1 || box.bottom > outer.bottom + 1;
        const slack = part.matches(".live-widget") ? 8 : 1;
        const cut = ["PRE", "DIV"].includes(part.tagName) && getComputedStyle(part).overflow !== "visible"
            && (part.scrollWidth > part.clientWidth + slack || part.scrollHeight > part.clientHeight + slack);
        if (out || cut) outside.push(`${part.tagName} ${part.className}: ${part.textContent.trim().slice(0, 50)}`);
    }
    const sizeOf = (element) => {
        const size = parseFloat(getComputedStyle(element).fontSize);
        if (element.closest("svg")) return size * element.getScreenCTM().a;
        const zoomed = element.closest("[style*=zoom]");
        return size * (zoomed ? parseFloat(zoomed.style.zoom) : 1);
    };
    const code = [1000], other = [1000];
    const walker = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || parent.closest("svg.formula, sub, sup") || !shown(parent)) continue;
        (parent.closest("pre.code") ? code : other).push(sizeOf(parent));
    }
    for (const image of frame.querySelectorAll("img[data-least]")) {
        if (!shown(image)) continue;
        const width = Math.min(image.clientWidth, image.clientHeight * image.naturalWidth / image.naturalHeight);
        if (image.dataset.least > 0) other.push(14 * width / image.dataset.least);
    }
    const lines = [...frame.querySelectorAll("pre.code")].filter(shown).map((part) => {
        const style = getComputedStyle(part);
        return Math.round((part.clientHeight - 2 * parseFloat(style.paddingTop)) / parseFloat(style.lineHeight));
    });
    return {
        words: slide.innerText.trim().split("\\n")[0], outside, overflows: slide.hasAttribute("data-overflow"),
        lines: lines.reduce((total, count) => total + count, 0), code: Math.min(...code), other: Math.min(...other),
        live: frame.querySelector("[data-live]") !== null,
        prose: [...frame.querySelectorAll(".prose")].map((part) => part.innerText).join("\\n"),
    };
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

    def show(self, selector: str) -> int:
        """Go to the slide with this element, without its fragments; gives its index."""
        index = self.page.locator(selector).first.evaluate(
            """(element) => Reveal.getIndices(element.closest("section"))"""
        )
        self.page.evaluate("([h, v]) => Reveal.slide(h, v, -1)", [index["h"], index.get("v") or 0])
        return self.page.evaluate("() => Reveal.getSlidePastCount()")

    def screenshot(self, path: Path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

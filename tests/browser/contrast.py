"""Can outputs, figures and prose be read, on light and on dark pages?"""

import base64
import io
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from matplotlib.colors import to_hex
from PIL import Image
from playwright.sync_api import Locator, Page

from tests.browser.lab import Notebook
from utils.plots.layout import in_dark

MAIN_COLORS = 4  # of a figure: the page, and what covers most of it
LAB_FIGURE, SITE_FIGURE = ".course-figure img", ".figure img"
LAB_PROSE, SITE_PROSE = ".jp-MarkdownCell .jp-RenderedMarkdown", ".bd-article"

# Words of outputs whose contrast with the nearest painted background is below 4.5 to 1 (3 for large letters).
UNREADABLE = """() => {
    const pen = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
    const numbers = (color) => {
        // Mixed colors are not given as red, green and blue: a pixel says what they are.
        if (!/^rgb/.test(color)) {
            pen.clearRect(0, 0, 1, 1);
            pen.fillStyle = color;
            pen.fillRect(0, 0, 1, 1);
            const pixel = pen.getImageData(0, 0, 1, 1).data;
            return [pixel[0], pixel[1], pixel[2], pixel[3] / 255];
        }
        const n = color.match(/[\\d.]+/g).map(Number);
        return n.length < 4 ? [...n, 1] : n;
    };
    const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
    const light = (rgb) => {
        const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) {
            const color = numbers(getComputedStyle(e).backgroundColor);
            if (color[3] > 0) layers.push(color);
            if (color[3] === 1) break;
        }
        return layers.reduceRight((under, top) => over(top, under), [255, 255, 255]);
    };
    const inSvg = (text) => {
        // Letters of a picture stand on the last shape drawn before them that holds their middle.
        const box = text.getBoundingClientRect();
        const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
        const shapes = [...text.ownerSVGElement.querySelectorAll("rect")].filter((shape) => {
            const area = shape.getBoundingClientRect();
            const before = shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
            return before && area.left <= x && x <= area.right && area.top <= y && y <= area.bottom;
        });
        const fill = shapes.length ? getComputedStyle(shapes.at(-1)).fill : "none";
        return fill !== "none" ? over(numbers(fill), ground(text)) : ground(text);
    };
    const found = new Set();
    for (const area of document.querySelectorAll(".jp-OutputArea-output")) {
        const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const words = walker.currentNode.textContent.trim();
            const e = walker.currentNode.parentElement;
            const box = e.getBoundingClientRect();
            if (!words || e.closest("title, style, script, mjx-container, :disabled, [disabled]") || box.width < 2 || box.height < 2) continue;
            const style = getComputedStyle(e);
            const color = e.closest("svg") ? style.fill : style.color;
            if (color === "none" || style.visibility === "hidden") continue;
            const under = e.closest("svg") ? inSvg(e.closest("text") ?? e) : ground(e);
            const [a, b] = [light(over(numbers(color), under)), light(under)].sort((x, y) => y - x);
            const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
            if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) {
                found.add(`${words.slice(0, 40)}: ${color} on ${under.map(Math.round)}`);
            }
        }
    }
    return [...found];
}"""


def unreadable(notebook: Notebook) -> list[str]:
    """Words that hardly differ from what they stand on, each with its colors."""
    return notebook.page.evaluate(UNREADABLE)


PAGE_COLOR = """() => getComputedStyle(document.querySelector(".jp-Notebook") ?? document.body).backgroundColor"""


def wrong_in_dark(page: Page, figures: Iterable[Locator]) -> list[str]:
    """Main colors of figures that a dark page does not show as `in_dark` computes them for the page's own color."""
    page_color = np.array(re.findall(r"\d+", page.evaluate(PAGE_COLOR)), dtype=float) / 255
    assert page_color.max() < 0.3, f"the page is not dark: {page_color}"
    return [
        f"{figure.get_attribute('alt')[:60]}: {problem}"
        for figure in figures
        for problem in wrong_colors(figure, page_color)
    ]


def wrong_colors(figure: Locator, page_color: np.ndarray) -> list[str]:
    pixels = np.asarray(Image.open(io.BytesIO(png_of(figure))).convert("RGB")).reshape(-1, 3)
    figure.scroll_into_view_if_needed()
    shown = np.asarray(Image.open(io.BytesIO(figure.screenshot())).convert("RGB")).reshape(-1, 3) / 255
    shades, counts = np.unique(pixels, axis=0, return_counts=True)
    wrong = []
    for rank, most in enumerate(counts.argsort()[::-1][:MAIN_COLORS]):
        expected = in_dark(shades[most] / 255, page_color)
        # A page that resizes the figure blurs thin lines and letters, but not the background.
        share = (abs(shown - expected).max(-1) < (0.15 if rank else 0.02)).mean()
        if share < 0.3 * counts[most] / len(pixels):
            wrong.append(f"{to_hex(shades[most] / 255)} is hardly ever {to_hex(expected)}")
    return wrong


def png_of(figure: Locator) -> bytes:
    """The bytes of a picture that is inside the page or a file."""
    address = figure.evaluate("image => image.src")
    if address.startswith("data:"):
        return base64.b64decode(address.partition(",")[2])
    return Path(urlsplit(address).path).read_bytes()


LONGEST_LINE = """(prose) => {
    let longest = 0;
    const range = document.createRange();
    for (const block of document.querySelectorAll(`${prose} :is(p, li)`)) {
        const text = [...block.childNodes].find((node) => node.nodeType === Node.TEXT_NODE && node.length > 200);
        const lines = {};
        for (let at = 0; at < (text?.length ?? 0); at++) {
            range.setStart(text, at);
            range.setEnd(text, at + 1);
            const line = Math.round(range.getBoundingClientRect().top);
            lines[line] = (lines[line] ?? 0) + 1;
        }
        longest = Math.max(longest, ...Object.values(lines));
    }
    return longest;
}"""


def longest_line(page: Page, prose: str) -> int:
    """Characters of the longest line of prose, found in paragraphs with at least 200 characters without a link or formula."""
    return page.evaluate(LONGEST_LINE, prose)

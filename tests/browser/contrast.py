"""Can the words of the outputs be read on their background?"""

from tests.browser.lab import Notebook

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
            if (!/^rgb/.test(color) || style.visibility === "hidden") continue;
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

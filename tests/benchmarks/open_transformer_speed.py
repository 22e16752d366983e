"""How fast the Transformer in the page is: encoding, each token, pointing at a token, opening the file. Chromium on one core."""

import os
import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most
from tests.benchmarks.widget_speed import FRAMES
from tests.browser.operate import WIDGETS
from utils.build import transformer_page
from utils.build.browser import browser
from utils.data.tokens import join
from utils.training.translation import pairs_and_words
from utils.widgets.base import STATIC
from utils.widgets.translator import stored_bundle

SENTENCES, OPENINGS = 40, 9
WORDS = 18  # of the longest sentences in training
OPENED = ("decoder.1.cross_attn",)
# Milliseconds of the encoder with the first token, and of each further token.
DECODED = """text => {
    const source = model.tokenize(text).ids, times = [];
    let start = performance.now();
    const run = model.start(source);
    while (!run.done) {
        run.step();
        times.push(performance.now() - start);
        start = performance.now();
    }
    return times;
}"""
# Milliseconds from the navigation to the first picture with a translation.
USABLE = """
const look = () => {
    if (document.querySelector(".course-open-words")?.textContent.includes("roi")) window.usable = performance.now();
    else requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


def open_transformer_speed(sentences: int = SENTENCES, openings: int = OPENINGS, seconds: float = 3.0) -> dict:
    """Milliseconds and frames a second; the first sentence, before the browser has compiled the code, is kept apart."""
    with _one_core(), browser() as running, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / transformer_page.NAME
        transformer_page.main([str(file)])
        return {
            "megabytes": file.stat().st_size / 1e6,
            **_decoding(running, sentences),
            "usable": [_usable(running, file) for _ in range(openings)],
            "frames": _frames(running, file, seconds),
        }


class _one_core:
    """This process, and the browser that it starts, on one core (where the system can do it)."""

    def __enter__(self):
        self.cores = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else None
        if self.cores:
            os.sched_setaffinity(0, {max(self.cores)})

    def __exit__(self, *_):
        if self.cores:
            os.sched_setaffinity(0, self.cores)


def _decoding(running, count):
    pairs = [pair for pair in pairs_and_words()[0].test if len(pair.english) == WORDS][:count]
    page = running.new_page()
    page.add_script_tag(content=(STATIC / "transformer.js").read_text(encoding="utf-8"))
    page.evaluate("bundle => { window.model = openTransformer(bundle) }", stored_bundle())
    times = [page.evaluate(DECODED, join(pair.english, "english")) for pair in pairs]
    page.close()
    return {
        "cold": times[0][0],
        "first": [row[0] for row in times[1:]],
        "further": [time for row in times[1:] for time in row[1:]],
    }


def _usable(running, file):
    page = running.new_page(viewport={"width": 1280, "height": 800})
    page.add_init_script(USABLE)
    page.goto(file.as_uri())
    milliseconds = page.wait_for_function("() => window.usable").json_value()
    page.close()
    return milliseconds


def _frames(running, file, seconds):
    frames = {}
    for block in (None, *OPENED):
        page = running.new_page(viewport={"width": 1280, "height": 800})
        page.goto(file.as_uri())
        root = page.locator(WIDGETS)
        if block:
            root.locator(f"[data-block='{block}']").first.click()
        frames["diagram" if block is None else "diagram and an open block"] = root.evaluate(FRAMES, seconds)
        page.close()
    return frames


def show(result: dict) -> Shown:
    first, further, usable = (statistics.median(result[name]) for name in ("first", "further", "usable"))
    rows = [
        ("encoder and first token, ms", f"{first:.1f}", f"{max(result['first']):.1f}"),
        ("  in a page that has just been opened", f"{result['cold']:.1f}", ""),
        ("each further token, ms", f"{further:.2f}", f"{max(result['further']):.1f}"),
        ("from opening the file to the first translation, ms", f"{usable:.0f}", f"{max(result['usable']):.0f}"),
        *(
            (f"frames a second while the pointer moves: {name}", f"{rate:.0f}", "")
            for name, rate in result["frames"].items()
        ),
        ("size of the file, MB", f"{result['megabytes']:.1f}", ""),
    ]
    return Shown(
        "How fast the Transformer in the page is",
        f"The stored translator in Chromium on one core, sentences of {WORDS} words: medians, and the slowest.",
        ("", "median", "slowest"),
        rows,
        (
            at_most("encoder and first token", first, 50, "ms"),
            at_most("each further token", further, 10, "ms"),
            at_most("usable after opening the file", usable / 1000, 1.5, "s"),
            at_least("fewest frames a second", min(result["frames"].values()), 50),
            at_most("size of the file", result["megabytes"], 3, "MB"),
        ),
    )


BENCHMARKS = (
    Benchmark(
        "open_transformer_speed", "06", open_transformer_speed, show, {"sentences": 4, "openings": 2, "seconds": 0.5}
    ),
)

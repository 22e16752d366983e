"""How fast the widgets answer: with a kernel, in a page without one, and while the pointer moves over them."""

import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most
from tests.browser.examples import open_examples
from tests.browser.lab import Lab
from tests.browser.operate import WIDGETS
from utils.build.browser import browser
from utils.widgets import registry
from utils.widgets.base import page_html, page_script, page_style

ROUNDS = 21
# Moves one control back and forth: the one with this index, those of the inputs first.
MOVE = """(root, [index, round]) => {
    const kinds = ["input[type=range]", "select", "input[type=checkbox]", "input[type=text], textarea", ".course-controls button", "[tabindex='0']", "button", "input"];
    const usable = (e) => !e.matches(":disabled") && e.getBoundingClientRect().width;
    const e = [...new Set(kinds.flatMap((kind) => [...root.querySelectorAll(kind)].filter(usable)))][index];
    const change = (value) => { e.value = value; e.dispatchEvent(new Event("input")); e.dispatchEvent(new Event("change")); };
    if (e?.type === "range") change(Number(e.min) + (round % 2) * (Number(e.max) - Number(e.min)) / 2);
    else if (e?.matches("select")) change(e.options[round % 2].value);
    else if (e?.matches("input[type=text], textarea")) change(e.value);
    else { e?.focus(); e?.dispatchEvent(new MouseEvent("click", {bubbles: true})); }
}"""
TRIED = 6  # controls of a widget, until one asks Python
# The milliseconds from moving a control to the answer of Python; null if it asks for none.
ANSWERED = f"""(root, control) => new Promise((resolve) => {{
    const before = root.dataset.answered, start = performance.now();
    const watch = new MutationObserver(() => root.dataset.answered !== before && done(performance.now() - start));
    const done = (milliseconds) => {{ watch.disconnect(); clearTimeout(timer); resolve(milliseconds); }};
    const timer = setTimeout(() => done(null), 3000);
    watch.observe(root, {{attributeFilter: ["data-answered"]}});
    ({MOVE})(root, control);
}})"""
DRAWN = f"(root, control) => {{ const start = performance.now(); ({MOVE})(root, control); return performance.now() - start; }}"
# Frames a second while the pointer goes over every part of the widget that reacts to it, one part a frame.
FRAMES = """(root, seconds) => new Promise((resolve) => {
    const parts = [...root.querySelectorAll(".course-body svg *, .course-body canvas, .course-body button")].filter((e) => e.getBoundingClientRect().width);
    const start = performance.now();
    let frames = 0;
    const step = (now) => {
        if (now - start > 1000 * seconds) return resolve((1000 * frames) / (now - start));
        const part = parts[frames % parts.length], box = part?.getBoundingClientRect();
        for (const name of part ? ["pointerenter", "pointerover", "pointermove"] : [])
            part.dispatchEvent(new PointerEvent(name, {bubbles: name !== "pointerenter", clientX: box.x + box.width / 2, clientY: box.y + box.height / 2}));
        frames += 1;
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""


def widget_speed(rounds: int = ROUNDS, seconds: float = 2.0) -> list[dict]:
    """One row for each widget but the open Transformer, which has a benchmark of its own; medians in ms, None without an answer."""
    widgets = [module.example() for module in registry.MODULES]
    with browser() as running, tempfile.TemporaryDirectory() as folder:
        in_page = _in_page(running, widgets, rounds, seconds)
        with_kernel = _with_kernel(running, Path(folder), widgets, rounds)
    return [
        {"widget": widget.script, "kernel": with_kernel[widget.script], **in_page[widget.script]}
        for widget in widgets
        if widget.script != "open_transformer"
    ]


def _in_page(running, widgets, rounds, seconds):
    names, rows = {widget.script for widget in widgets}, {}
    for widget in widgets:
        page = running.new_page(viewport={"width": 1280, "height": 900})
        head = f"<style>{page_style(names)}</style><script>{page_script(names)}</script>"
        page.set_content(f'<!doctype html><meta charset="utf-8">{head}{page_html(widget.page_state())}')
        page.evaluate("() => document.querySelectorAll('.live-widget').forEach(startWidget)")
        root = page.locator(WIDGETS)
        frozen = root.evaluate("e => e.dataset.mode") == "frozen"
        taken = [] if frozen else [root.evaluate(DRAWN, [0, number]) for number in range(rounds)]
        rows[widget.script] = {
            "page": round(statistics.median(taken), 2) if taken else None,
            "frames": round(root.evaluate(FRAMES, seconds)),
        }
        page.close()
    return rows


def _with_kernel(running, folder, widgets, rounds):
    rows = {}
    with Lab(folder) as lab:
        notebook = open_examples(lab, running)
        for widget, root in zip(widgets, notebook.page.locator(WIDGETS).all(), strict=True):
            # Other controls belong to the view alone; a widget may have no control that asks the kernel.
            controls = range(TRIED)
            asking = next((index for index in controls if root.evaluate(ANSWERED, [index, 0]) is not None), None)
            answered = [root.evaluate(ANSWERED, [asking, number]) for number in range(1, rounds) if asking is not None]
            rows[widget.script] = round(statistics.median(answered), 1) if answered else None
        notebook.close()
    return rows


def show(rows: list[dict]) -> Shown:
    shown = [
        (row["widget"], *("" if row[name] is None else row[name] for name in ("kernel", "page", "frames")))
        for row in rows
    ]
    slowest = {name: max(row[name] for row in rows if row[name] is not None) for name in ("kernel", "page")}
    return Shown(
        "How fast the widgets answer",
        "Small examples in Chromium: milliseconds from a control to the answer of Python and to the drawing of the page without "
        "Python (medians), and frames a second while the pointer moves over the widget.",
        ("widget", "ms with a kernel", "ms in the page", "frames a second"),
        shown,
        (
            at_most("slowest widget with a kernel", slowest["kernel"], 150, "ms"),
            at_most("slowest widget in the page", slowest["page"], 16, "ms"),
            at_least("fewest frames a second", min(row["frames"] for row in rows), 50),
        ),
    )


BENCHMARKS = (
    Benchmark(
        "widget_speed", "00", widget_speed, show, {"rounds": 3, "seconds": 0.5}, packages=("anywidget", "jupyterlab")
    ),
)

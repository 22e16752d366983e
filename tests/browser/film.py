"""The README's pictures of the open Transformer: `python -m tests.browser.film docs/images` writes a short film and three stills."""

import argparse
import io
import sys
from pathlib import Path

from PIL import Image, ImageChops
from playwright.sync_api import Page

from utils.build.browser import browser
from utils.widgets.base import page_html, page_script, page_style
from utils.widgets.open_transformer import open_transformer

FRAME = 80  # milliseconds
FILM, STILL = {"width": 980, "height": 664}, {"width": 1280, "height": 690}
SMALLER = 900 / 980
FIRST, SENTENCE = "the small black cat sleeps", "the old king does not sleep"
AGREEMENT = "the kings who see the queen are tired"
STYLE = """
body { margin: 8px 12px; background: #fff; --jp-ui-font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; }
#pointer { position: fixed; z-index: 99; left: 0; top: 0; width: 22px; pointer-events: none; filter: drop-shadow(0 1px 2px #0008); }
"""
POINTER = """<svg id="pointer" viewBox="0 0 22 32"><path d="M2 2v24l6-5 4 9 5-2-4-9h8z" fill="#fff" stroke="#000" stroke-width="2"/></svg>
<script>addEventListener("pointermove", (event) => {
  document.getElementById("pointer").style.transform = `translate(${event.clientX}px, ${event.clientY}px)`;
}, true);</script>"""


def show(running, viewport: dict, view: dict, scale: float = 1, pointer: str = "") -> Page:
    """The widget in a page whose clock stands still until it is moved."""
    motion = "no-preference" if pointer else "reduce"
    page = running.new_context(viewport=viewport, device_scale_factor=scale, reduced_motion=motion).new_page()
    widget, names = open_transformer(), {"open_transformer"}
    state = {**widget.page_state(), "view": view}
    page.clock.install(time=0)
    page.set_content(
        f"<!doctype html><style>{page_style(names)}{STYLE}</style>{page_html(state)}{pointer}<script>{page_script(names)}</script>"
    )
    page.evaluate("() => startWidget(document.querySelector('.live-widget'))")
    page.clock.pause_at(60_000)
    page.clock.run_for(500)
    return page


class Film:
    """Frames of a page, each with its time in milliseconds; equal ones are one that lasts longer."""

    def __init__(self, page: Page):
        self.page, self.frames, self.at = page, [], (600.0, 300.0)

    def shoot(self, frames: int = 1, each: int = FRAME):
        for _ in range(frames):
            self.page.clock.run_for(each)
            picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
            if self.frames and ImageChops.difference(self.frames[-1][0], picture).getbbox() is None:
                self.frames[-1][1] += FRAME
            else:
                self.frames.append([picture, FRAME])

    def rest(self, milliseconds: int):
        self.shoot()
        self.frames[-1][1] += milliseconds

    def go(self, x: float, y: float):
        start, steps = self.at, 5
        for step in range(1, steps + 1):
            share = step / steps
            share = share * share * (3 - 2 * share)
            self.page.mouse.move(start[0] + (x - start[0]) * share, start[1] + (y - start[1]) * share)
            self.shoot()
        self.at = (x, y)

    def point(self, selector: str, across: float = 0.5, down: float = 0.5, click: bool = False):
        box = self.page.locator(selector).first.bounding_box()
        self.go(box["x"] + across * box["width"], box["y"] + down * box["height"])
        if click:
            self.page.mouse.click(*self.at)

    def save(self, path: Path):
        pictures, times = zip(*self.frames, strict=True)
        options = {"quality": 58, "method": 4, "minimize_size": True, "loop": 0}
        pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=list(times), **options)


def record(page: Page) -> Film:
    """A sentence is typed and translated; a token is traced; a block opens; a link is cut; the decoding plays."""
    film = Film(page)
    film.point("input[type=text]", across=0.8, click=True)
    page.keyboard.press("ControlOrMeta+a")
    for start in range(0, len(SENTENCE), 3):
        page.keyboard.insert_text(SENTENCE[start : start + 3])
        film.shoot()
    page.keyboard.press("Enter")
    film.shoot(18)
    page.locator("input[type=text]").blur()
    film.point(".course-open-target-token >> nth=4", down=0.3)
    film.rest(1500)
    film.point(".course-open-source-token >> nth=4", down=0.3)
    film.rest(1300)
    film.point("[data-block='decoder.1.cross_attn']", across=0.62, click=True)
    film.shoot(4)
    film.rest(500)
    film.point("[data-keep='chip 8']", click=True)
    page.wait_for_timeout(1000)  # the strip scrolls, and not by the page's clock
    film.shoot()
    film.point("[data-keep='matrix 8']", across=3.5 / 7, down=4.5 / 7)
    film.rest(1300)
    page.mouse.click(*film.at)
    film.rest(2000)
    film.point(".course-open-close", click=True)
    film.shoot(2)
    film.rest(1200)
    film.point(".course-open-restore", click=True)
    film.shoot(9, each=160)
    film.point(".course-open-play", click=True)
    film.shoot(66, each=104)
    film.rest(1500)
    return film


def stills(running, folder: Path):
    def still(number: int, view: dict, act):
        page = show(running, STILL, view)
        act(page)
        page.clock.run_for(500)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        picture.quantize(256, dither=Image.Dither.NONE).save(folder / f"transformer_{number}.png", optimize=True)
        page.close()

    def trace(page):
        page.locator(".course-open-target-token").nth(5).hover()

    def explain(page):
        page.locator("[data-keep='chip 6']").click()
        box = page.locator("[data-keep='matrix 7']").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 6.5 / 9, box["y"] + box["height"] * 3.5 / 9)

    still(1, {"text": "the old king does not see the black cat"}, trace)
    still(2, {"text": AGREEMENT, "block": "decoder.1.self_attn", "head": 1}, explain)
    still(3, {"text": AGREEMENT, "off": ["decoder.1.self_attn.1"]}, lambda page: None)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.film", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as running:
        stills(running, folder)
        film = record(show(running, FILM, {"text": FIRST}, SMALLER, POINTER))
    film.save(folder / "transformer.webp")
    for path in sorted(folder.glob("transformer*")):
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

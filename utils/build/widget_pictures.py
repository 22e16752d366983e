"""The first picture of each widget in a built notebook, for readers without a kernel: a screenshot of the widget itself.

python -m utils.build.widget_pictures        films the plane of lesson 01 for the README: docs/images/plane.gif
"""

import base64
import contextlib
import io
import json
import math

from nbformat import NotebookNode
from PIL import Image, PngImagePlugin

from utils import paths
from utils.build.browser import browser
from utils.build.live import live_states
from utils.widgets.base import PAGE_VIEW, page_html, page_script, page_style

WIDGET_MARK = "Widget"
WIDTH = 820  # pixels: fits the notebook column of a narrow window and a slide


def add_pictures(notebook: NotebookNode) -> None:
    """Add a PNG with alt text to every output that holds a widget's state and no HTML of its own."""
    found = (
        output for cell in notebook.cells for output in cell.get("outputs", ()) if PAGE_VIEW in output.get("data", {})
    )
    outputs = [output for output in found if "text/html" not in output.data]
    if not outputs:
        return
    states = [json.loads(output.data[PAGE_VIEW]) for output in outputs]
    for output, png in zip(outputs, screenshots(states), strict=True):
        alt = " ".join(output.data["text/plain"].split())
        output.data["image/png"] = base64.b64encode(described(png, alt)).decode("ascii")
        output.metadata["image/png"] = {"alt": alt}


def described(png: bytes, alt: str) -> bytes:
    """The picture with its alt text in the file, from which JupyterLab reads it, and marked as that of a widget."""
    facts = PngImagePlugin.PngInfo()
    facts.add_text("Description", alt)
    facts.add_text(WIDGET_MARK, "yes")
    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").save(buffer, "PNG", pnginfo=facts, optimize=True)
    return buffer.getvalue()


@contextlib.contextmanager
def shown(states: list[dict], scale: float):
    """A page of a browser with each widget in its stored state."""
    names = {state["widget"] for state in states}
    code = page_script(names).replace("</script", "<\\/script")
    page_source = (
        f'<!doctype html><meta charset="utf-8"><style>body {{ margin: 12px; width: {WIDTH}px }} .course-note {{ display: none }}'
        f"\n{page_style(names)}</style>{''.join(map(page_html, states))}"
        f"<script>{code}</script>"
    )
    with browser() as running:
        context = running.new_context(viewport={"width": WIDTH + 24, "height": 800}, device_scale_factor=scale)
        page = context.new_page()
        problems = []
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.set_content(page_source)
        page.evaluate("() => document.querySelectorAll('.live-widget').forEach(startWidget)")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        yield page
        if problems:
            raise RuntimeError(f"a widget's script failed: {problems[0]}")


def screenshots(states: list[dict]) -> list[bytes]:
    """A PNG of each widget in its stored state."""
    with shown(states, scale=1.5) as page:
        hosts = page.locator(".live-widget")
        return [hosts.nth(index).screenshot(animations="disabled") for index in range(len(states))]


# --- the README's picture -----------------------------------------------------------------------------------------

FILM = paths.ROOT / "docs" / "images" / "plane.gif"
FRAMES, MILLISECONDS = 60, 80


def film_of_the_plane() -> bytes:
    """A GIF of the plane in lesson 01, in which the query is dragged around once."""
    notebook = json.loads((paths.LECTURES / "01_softmax_attention.ipynb").read_text(encoding="utf-8"))
    state = next(state for state in live_states(notebook) if state["widget"] == "plane")
    query, key = state["inputs"]["query"], state["inputs"]["keys"][0]
    with shown([state], scale=1) as page:
        # Pixels: where query and first key are now gives the scale and the origin.
        (x, y), (key_x, _) = (center(page.locator(".course-plane [tabindex='0']").nth(index)) for index in range(2))
        unit = (key_x - x) / (key[0] - query[0])
        origin, start = (x - unit * query[0], y + unit * query[1]), math.atan2(query[1], query[0])
        page.mouse.move(x, y)
        page.mouse.down()
        frames = []
        for frame in range(FRAMES):
            turn = 2 * math.pi * frame / FRAMES
            radius = unit * (math.hypot(*query) + 0.4 * (1 - math.cos(turn)))
            page.mouse.move(origin[0] + radius * math.cos(start - turn), origin[1] - radius * math.sin(start - turn))
            png = page.locator(".live-widget").screenshot(animations="disabled")
            frames.append(Image.open(io.BytesIO(png)).convert("RGB"))
    sheet = Image.new("RGB", (frames[0].width, frames[0].height * 6))
    for index in range(6):
        sheet.paste(frames[index * FRAMES // 6], (0, index * frames[0].height))
    palette = sheet.quantize(256)
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    buffer = io.BytesIO()
    drawn[0].save(buffer, "GIF", save_all=True, append_images=drawn[1:], duration=MILLISECONDS, loop=0, optimize=True)
    return buffer.getvalue()


def center(element) -> tuple[float, float]:
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


if __name__ == "__main__":
    FILM.write_bytes(film_of_the_plane())
    print(f"{FILM}: {FILM.stat().st_size / 1e6:.1f} MB")

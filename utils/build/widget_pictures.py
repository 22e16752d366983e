"""The first picture of each widget in a built notebook, for readers without a kernel: a screenshot of the widget itself."""

import base64
import contextlib
import io
import json

from nbformat import NotebookNode
from PIL import Image, PngImagePlugin

from utils.build.browser import browser
from utils.widgets.base import PAGE_VIEW, page_html, page_script, page_style

WIDGET_MARK = "Widget"
COLORS = 256  # a palette: a third of the size
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
    """The picture with few colors, with its alt text in the file, from which JupyterLab reads it, and marked as that of a widget."""
    facts = PngImagePlugin.PngInfo()
    facts.add_text("Description", alt)
    facts.add_text(WIDGET_MARK, "yes")
    buffer = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    image.save(buffer, "PNG", pnginfo=facts, optimize=True)
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

"""The display of a widget: a picture or HTML, its alt text, and an error message."""

from pathlib import Path

import anywidget
import traitlets

from utils.plots.display import picture_bundle
from utils.plots.style import checked_alt, png_size
from utils.widgets.forms import html_bundle

STATIC = Path(__file__).parent / "static"


def script(name):
    """The script of a widget, after the code that several widgets share."""
    return "".join((STATIC / part).read_text(encoding="utf-8") for part in ("parts.js", name))


class Stage(anywidget.AnyWidget):
    """Shows the last picture or HTML from `present` or `present_html`; `complain` shows an error message above it."""

    _esm = script("stage.js")
    _css = STATIC / "stage.css"
    png = traitlets.Bytes(b"").tag(sync=True)
    html = traitlets.Unicode("").tag(sync=True)
    alt = traitlets.Unicode("").tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    arrow_keys = traitlets.Unicode("").tag(sync=True)  # not empty: arrow keys are sent as messages, this is the label
    state = traitlets.Dict().tag(sync=True)
    width = traitlets.Int(800).tag(sync=True)
    count = traitlets.Int(0).tag(sync=True)

    def present(self, png, alt, state, text=""):
        width, _ = png_size(png)
        self._replace(png=png, html="", alt=checked_alt(alt), state=state, text=text, error="", width=width)

    def present_html(self, html, alt, state, text=""):
        self._replace(png=b"", html=html, alt=checked_alt(alt), state=state, text=text, error="")

    def complain(self, error, state):
        self._replace(error=sentence_of(error), state=state)

    def tell(self, sentence, state):
        """Show a message for the reader above the current content."""
        self._replace(error=sentence, state=state)

    def static(self):
        """(data, metadata) of what is shown now."""
        if self.png:
            return picture_bundle(self.png, self.alt)
        return html_bundle(self.html, self.alt)

    def _replace(self, **content):
        # One message with everything, so that the page never sees half of a change.
        with self.hold_sync():
            for name, value in content.items():
                setattr(self, name, value)
            self.count += 1


def sentence_of(error):
    """An exception as one sentence for the reader."""
    words = " ".join(str(error).split())
    return (
        f"The figure could not be drawn: {type(error).__name__}: {words}"
        if words
        else (f"The figure could not be drawn: {type(error).__name__}.")
    )

"""The part of a widget that shows something: a picture or HTML, its words, and an error as one sentence."""

from pathlib import Path

import anywidget
import traitlets

from utils.plots.display import picture_bundle
from utils.plots.style import checked_alt, png_size
from utils.widgets.forms import html_bundle

STATIC = Path(__file__).parent / "static"


def script(name):
    """The code of a widget behind what several share; a front end gets each widget's script as one piece."""
    return "".join((STATIC / part).read_text(encoding="utf-8") for part in ("parts.js", name))


class Stage(anywidget.AnyWidget):
    """Shows what `present` or `present_html` last gave it; `complain` puts an error sentence over it."""

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
        """Put a sentence for the reader over what is shown, as it stands."""
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
    """An exception as one sentence for the person at the slider."""
    words = " ".join(str(error).split())
    return (
        f"This picture could not be drawn: {type(error).__name__}: {words}"
        if words
        else (f"This picture could not be drawn: {type(error).__name__}.")
    )

"""The base of all widgets.

A widget has `data` that never changes, `inputs` that the reader sets, the `answer` of a Python function to these inputs, and a
`view`, what the page alone needs to know (a selected head, a step). The page draws all of it; its script is `static/NAME.js`, its
style `static/NAME.css`, both after what all widgets share (`core.js`, `core.css`). With a live kernel every answer comes from the
function that the widget was given, the student's own. Without one the script computes the answer, or looks it up among stored
ones, or the widget freezes; it says which.

A notebook that is saved keeps the widget's state. While lessons are built (COURSE_BUILD is set), the output also keeps it as data,
from which site and slides run the widget.
"""

import base64
import json
import os
from pathlib import Path
from typing import ClassVar

import anywidget
import numpy as np
import traitlets

from utils.plots.style import as_array
from utils.widgets.translator import STORED, stored_bundle

STATIC = Path(__file__).parent / "static"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PAGE_VIEW = "application/vnd.attention-course.widget"  # JSON as one line of text: a notebook would spread an object over thousands
PARTS = {"open_transformer": ("transformer.js",)}  # what a widget's script needs before its own code
MAX_LETTERS = 400  # of a text that a reader types


class ReaderError(ValueError):
    """What is wrong with an input, as one sentence for the person who made it; the widget keeps what it shows."""


class Widget(anywidget.AnyWidget):
    """A subclass names its `script` and defines `respond` and `alt`."""

    script: ClassVar[str]
    data = traitlets.Dict().tag(sync=True)
    inputs = traitlets.Dict().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    answered = traitlets.Int(0).tag(
        sync=True
    )  # the number of the request that `answer` and `error` belong to; set last

    def __init_subclass__(cls, **options):
        if "script" in vars(cls):
            cls._esm, cls._css = script(cls.script), style(cls.script)
        super().__init_subclass__(**options)

    def __init__(self, data, inputs=None, view=None):
        inputs = plain(inputs or {})
        answer = plain(self.respond(**inputs))
        super().__init__(data=plain(data), inputs=inputs, view=plain(view or {}), answer=answer)
        self.observe(self._answer, names="inputs")

    def respond(self, **inputs):
        """The answer to these inputs as a dict; may raise `ReaderError`."""
        return {}

    def alt(self):
        """What the widget shows now, in words."""
        raise NotImplementedError

    def static_html(self):
        """HTML for readers without a kernel in place of a picture, or None."""
        return None

    def stored_answers(self):
        """[(inputs, answer)] of every state that a page without Python should know, or None if its script computes them."""
        return None

    def set(self, **inputs):
        """Change inputs as the reader does."""
        self.inputs = {**self.inputs, **plain(inputs)}

    def _answer(self, _):
        inputs = {name: value for name, value in self.inputs.items() if name != "request"}
        changes = {"error": ""}
        try:
            changes["answer"] = plain(self.respond(**inputs))
        except ReaderError as problem:
            changes["error"] = " ".join(str(problem).split())
        except Exception as problem:
            changes["error"] = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
            raise
        finally:
            with self.hold_sync():  # one message, so that the page never draws half of a change
                for name, value in changes.items():
                    setattr(self, name, value)
                self.answered = self.inputs.get("request", self.answered + 1)

    def page_state(self):
        """The widget as data, for a page without Python."""
        stored = self.stored_answers()
        data = dict(self.data)
        if stored is not None:
            data["answers"] = {answer_key(plain(inputs)): plain(answer) for inputs, answer in stored}
        return {
            "widget": self.script,
            "data": data,
            "inputs": {name: value for name, value in self.inputs.items() if name != "request"},
            "view": self.view,
            "answer": self.answer,
        }

    def __repr__(self):
        return self.alt()

    def _repr_mimebundle_(self, **_):
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        data = {WIDGET_VIEW: view, "text/plain": repr(self)}
        if html := self.static_html():
            data["text/html"] = html
        if os.environ.get("COURSE_BUILD"):
            data[PAGE_VIEW] = json.dumps(self.page_state(), separators=(",", ":"))
        return data, {}


def script(name):
    """The module of a widget: what all widgets share, then its own code."""
    return _read("core.js") + _code(name)


def style(name):
    return _read("core.css") + _read(f"{name}.css")


def _code(name):
    return "".join(map(_read, (*PARTS.get(name, ()), f"{name}.js")))


def _read(file):
    return (STATIC / file).read_text(encoding="utf-8")


def page_script(names):
    """One plain script that runs these widgets in a page: a browser loads no module from a file on disk."""
    parts = [_read("core.js")]
    for name in sorted(names):
        code = _code(name).replace("export default course(", f"courseWidgets[{json.dumps(name)}] = course(")
        parts.append(f"(() => {{\n{code}\n}})();\n")
    return "".join([*parts, _read("page.js")])


def page_style(names):
    return "".join(_read(f"{name}.css") for name in ("core", *sorted(names)))


def page_html(state, picture=""):
    """A widget in a page, started by `page_script` from the state stored here; until then the page shows the picture."""
    if state["data"].get("bundle") == STORED:  # notebooks name the stored translator, pages hold it
        state = {**state, "data": {**state["data"], "bundle": stored_bundle()}}
    stored = json.dumps(state, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div class="live-widget" data-widget="{state["widget"]}"><div class="live-picture">{picture}</div>'
        f'<script type="application/json">{stored}</script></div>'
    )


def answer_key(inputs):
    """The inputs as the script writes them: JSON in the order of the names."""
    return json.dumps({name: inputs[name] for name in sorted(inputs)}, separators=(",", ":"), ensure_ascii=False)


def plain(value):
    """A value as JSON can hold it: arrays become lists, whole floats integers as in JavaScript."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, np.generic):
        return plain(value.item())
    return plain(as_array(value).tolist())


def packed(array):
    """An array of many numbers as compact data; `unpack` in core.js reads it."""
    array = as_array(array)
    return {"shape": list(array.shape), "float32": base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")}


def sealed(value):
    """A value that a reader of the saved notebook should not see by accident; `unseal` in core.js reads it."""
    return base64.b64encode(json.dumps(plain(value)).encode()).decode("ascii")


def checked_text(text):
    """A text typed by the reader, or `ReaderError` if it is empty or too long."""
    if not isinstance(text, str):
        raise TypeError(f"expected a text as a string, got {type(text).__name__}")
    if not text.strip():
        raise ReaderError("The text is empty: write some words and press Enter.")
    if len(text) > MAX_LETTERS:
        raise ReaderError(f"The text has {len(text)} characters, more than {MAX_LETTERS}: write a shorter one.")
    return text

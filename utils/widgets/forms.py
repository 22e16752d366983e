"""One output in three forms: a live widget, a picture (or HTML) for readers without a kernel, and words.

A front end takes the richest form it can show. A saved notebook keeps the picture and the words. While lessons are built
(COURSE_BUILD is set) it also keeps the widget's state as data, from which the website runs the widget without a kernel.
"""

import base64
import json
import os

import anywidget

from utils.plots.style import checked_alt

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PAGE_VIEW = "application/vnd.attention-course.widget"  # JSON as one line of text: a notebook would spread an object over thousands


def html_bundle(html, alt):
    """(data, metadata) of static HTML and its text form."""
    return {"text/html": html, "text/plain": checked_alt(alt)}, {}


def page_state(widget, script, answers=None):
    """A widget as data for a page: the name of its script, its traits, and what a kernel would answer.

    answers: {"traits": names, "changes": {values of these traits as JSON: {trait: new value}}}.
    """
    inherited = {*anywidget.AnyWidget.class_trait_names(sync=True), "_esm", "_css", "_anywidget_id"}
    traits = {name: getattr(widget, name) for name in sorted(widget.trait_names(sync=True)) if name not in inherited}
    binary = {name: base64.b64encode(value).decode() for name, value in traits.items() if isinstance(value, bytes)}
    plain = {name: value for name, value in traits.items() if name not in binary}
    return {"script": script, "traits": plain, "bytes": binary, "answers": answers}


class ThreeForms:
    """Mixin for widgets: `static()` gives (data, metadata) of the current state, the widget view is added here."""

    def static(self):
        raise NotImplementedError

    def page_view(self):
        """The `page_state` of a widget that runs on a page without a kernel; None for one that needs Python."""
        return None

    def alt_text(self):
        """What the widget shows now, in words."""
        return self.static()[0]["text/plain"]

    def __repr__(self):
        return self.alt_text()

    def _repr_mimebundle_(self, **_):
        data, metadata = self.static()
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        on_page = self.page_view() if os.environ.get("COURSE_BUILD") else None
        return {
            WIDGET_VIEW: view,
            **({PAGE_VIEW: json.dumps(on_page, separators=(",", ":"))} if on_page else {}),
            **data,
        }, metadata

"""Operate the widgets of a page: every control, by pointer and by keyboard.

This knows controls, not widgets, so a new widget needs no code here. The root of a widget (`.course-widget`) counts its drawings
in `data-count`; `data-state` holds inputs and view as JSON, `data-mode` is "kernel", "page" or "frozen", `data-status` "ok",
"waiting", "busy" or "error". An answer of Python comes a moment after the control: wait with `until` for the state that is wanted.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from playwright.sync_api import Locator, Page

from tests.browser.lab import Notebook

WAIT = 15.0  # seconds for an answer; a shared machine can be slow, and how fast it is has a test of its own
WIDGETS = ".course-widget"
LONG_TEXT = "the dog that saw the cat ran to the house because it was cold " * 8
LOOK = """e => ({...e.dataset, error: e.querySelector(".course-error:not([hidden])")?.innerText ?? "",
                 note: e.querySelector(".course-note:not([hidden])")?.innerText ?? ""})"""
KIND = "e => [...e.classList].find((name) => name.startsWith('course-') && name !== 'course-widget').slice(7)"
NAME = "e => e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent.trim()"
ERROR_OUTPUTS = """() => document.querySelectorAll(
    "[data-mime-type='application/vnd.jupyter.error'], [data-mime-type='application/vnd.jupyter.stderr']").length"""


class WidgetError(AssertionError):
    """A widget did not do what its control says; the message names the widget and the control."""


def look(widget: Locator) -> dict:
    """What the widget shows now: count, state, mode, status, error, note."""
    return widget.evaluate(LOOK)


def state_of(widget: Locator) -> dict:
    return json.loads(look(widget)["state"])


def until(read: Callable, wanted: Callable, problem: str):
    """Read until `wanted` holds for what was read, and give that."""
    end = time.monotonic() + WAIT
    while not wanted(now := read()):
        if time.monotonic() > end:
            raise WidgetError(f"{problem}; it is {str(now)[:300]}")
        time.sleep(0.02)
    return now


def settle(widget: Locator, seconds: float = 0.15) -> dict:
    """Wait until the widget has not been drawn for a moment and Python owes it no answer."""
    seen, since, end = look(widget), time.monotonic(), time.monotonic() + WAIT
    while time.monotonic() - since < seconds or seen["status"] in ("waiting", "busy"):
        time.sleep(0.03)
        now = look(widget)
        if now["count"] != seen["count"]:
            seen, since = now, time.monotonic()
        if time.monotonic() > end:
            raise WidgetError(f"it does not come to rest: {seen}")
    return seen


def act(widget: Locator, what: str, action: Callable) -> dict:
    """Do something to a control that must change the state, and wait for the answer; gives what the widget then shows."""
    before = look(widget)["state"]
    action()
    until(lambda: look(widget)["state"], lambda state: state != before, f"{what} changed nothing")
    now = settle(widget)
    if now["status"] == "error":
        raise WidgetError(f"{what} gave an error: {now['error'][-300:]}")
    return now


def press(control: Locator, key: str):
    control.focus()
    control.page.keyboard.press(key)


def retype(text_field: Locator, text: str):
    """Replace a text by keys, as a person does, and send it."""
    press(text_field, "ControlOrMeta+a")
    text_field.page.keyboard.press("Delete")
    text_field.page.keyboard.insert_text(text)
    text_field.page.keyboard.press("Enter" if text_field.evaluate("e => e.tagName") == "INPUT" else "Control+Enter")


def named(control: Locator) -> str:
    return " ".join((control.evaluate(NAME) or "?").split())[:40]


# All controls of a page


@dataclass
class Operated:
    """What was done to the widgets of a page, how long each answer took, and what went wrong."""

    page: Page
    folder: Path | None = None  # where to leave a picture after each change
    brief: bool = False  # of each widget only the first kind of control that it has
    widgets: dict[str, int] = field(default_factory=dict)
    controls: int = 0
    changes: list[tuple[str, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    pictures: list[tuple[str, Path]] = field(default_factory=list)

    def some(self, controls: Locator) -> list[Locator]:
        found = [control for control in controls.all() if control.is_visible() and control.is_enabled()]
        return found[: 1 if self.brief else None]

    def use(self, widget: Locator, what: str, action: Callable, must: bool = True, may_refuse: bool = False):
        """Do it; the widget must draw itself again (if `must`), show no error (unless it `may_refuse`) and leave none in the page."""
        errors, before = self.page.evaluate(ERROR_OUTPUTS), look(widget)["count"]
        start = time.monotonic()
        action()
        try:
            if must:
                until(lambda: look(widget)["count"], lambda count: count != before, f"{what}: nothing new")
                self.changes.append((what, time.monotonic() - start))
            now = settle(widget)
        except WidgetError as problem:
            self.problems.append(f"{what}: {problem}")
            return
        refused = may_refuse and len(now["error"].split()) >= 4 and "Traceback" not in now["error"]
        if now["status"] == "error" and not refused:
            self.problems.append(f"{what}: {now['error']}")
        if self.page.evaluate(ERROR_OUTPUTS) > errors:
            self.problems.append(f"{what}: an error stands in the page")
        if self.folder:
            path = self.folder / f"state_{len(self.pictures):03d}.png"
            widget.screenshot(path=path)
            self.pictures.append((what, path))


def operate(notebook: Notebook, folder: Path | None = None, brief: bool = False) -> Operated:
    """Every control of every widget of the page that is not frozen."""
    done = Operated(notebook.page, folder, brief)
    for widget in notebook.page.locator(WIDGETS).all():
        kind = widget.evaluate(KIND)
        done.widgets[kind] = done.widgets.get(kind, 0) + 1
        widget.scroll_into_view_if_needed()
        operate_widget(done, widget, f"{kind} {done.widgets[kind]}")
    return done


def operate_widget(done: Operated, widget: Locator, name: str):
    until(lambda: look(widget), lambda now: "count" in now, f"{name} is not drawn")
    before = done.controls
    for part in (texts, sliders, menus, checks, grids, buttons):
        if not done.brief or done.controls == before:
            part(done, widget, name)
    has_controls = (
        look(widget)["mode"] != "frozen" and widget.evaluate(KIND) != "feedback"
    )  # a pass without solution has none
    if has_controls and done.controls == before:
        done.problems.append(f"{name}: there is nothing to operate")


def texts(done: Operated, widget: Locator, name: str):
    """Nothing at all, far too much, and what stood there first. The first two may be refused, in words for a person."""
    for line in done.some(widget.locator("input[type=text], textarea")):
        done.controls += 1
        first = line.input_value()
        for what, text in (("left empty", ""), ("a long text", LONG_TEXT.strip()), ("as at first", first)):
            refusable = text != first
            done.use(widget, f"{name}: {named(line)}, {what}", partial(retype, line, text), may_refuse=refusable)


def sliders(done: Operated, widget: Locator, name: str):
    for slider in done.some(widget.locator("input[type=range]")):
        done.controls += 1
        if slider.get_attribute("min") == slider.get_attribute("max"):
            continue
        for key in ("Home", "End", "ArrowLeft"):
            at_end = slider.evaluate("(e, key) => e.value === (key === 'End' ? e.max : e.min)", key)
            done.use(widget, f"{name}: {key} on {named(slider)}", partial(press, slider, key), must=not at_end)


def menus(done: Operated, widget: Locator, name: str):
    for menu in done.some(widget.locator("select")):
        done.controls += 1
        last = menu.evaluate("e => e.options.length") - 1
        for index in (last, 0):
            changes = menu.evaluate("e => e.selectedIndex") != index
            done.use(widget, f"{name}: {named(menu)} {index}", partial(menu.select_option, index=index), changes)


def checks(done: Operated, widget: Locator, name: str):
    for box in done.some(widget.locator("input[type=checkbox], input[type=radio]")):
        done.controls += 1
        if box.get_attribute("type") == "radio" and box.is_checked():
            continue
        for _ in range(2 if box.get_attribute("type") == "checkbox" else 1):
            done.use(widget, f"{name}: {named(box)}", partial(press, box, "Space"))


def grids(done: Operated, widget: Locator, name: str):
    """Parts of a drawing that take the keyboard: one tab stop, arrow keys from there, which must change what is drawn."""
    stops = widget.locator("[tabindex='0']:not(input, select, button, textarea)")
    for stop in done.some(stops):
        done.controls += 1
        label, drawn = named(stop), {widget.inner_html()}
        for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "Enter"):
            done.use(widget, f"{name}: {key}", partial(press, stops.first, key), must=False)
            drawn.add(widget.inner_html())
        if len(drawn) == 1:
            done.problems.append(f"{name}: no key changes {label!r}")


def buttons(done: Operated, widget: Locator, name: str):
    """Every button once, by pointer and by key in turns."""
    found = widget.locator("button")
    for index in range(found.count())[: 1 if done.brief else None]:
        button = found.nth(index)
        if not (button.is_visible() and button.is_enabled()):
            continue
        done.controls += 1
        use = button.click if index % 2 else lambda button=button: press(button, "Enter")
        pressed = button.get_attribute("aria-pressed") == "true"
        done.use(widget, f"{name}: button {named(button)}", use, must=not pressed)


# By Tab alone

# Tab enters a widget from a mark put before it, as it would from whatever stands before it in the page.
BEFORE = """e => {
    const mark = document.createElement("span");
    mark.tabIndex = 0;
    mark.id = "course-before";
    e.before(mark);
    mark.focus();
}"""
FOCUSED = f"""e => {{
    const now = document.activeElement;
    if (!e.contains(now)) return null;
    const seen = now.getBoundingClientRect();
    const style = getComputedStyle(now);
    const inner = now.querySelector("rect") ? getComputedStyle(now.querySelector("rect")) : style;
    const drawn = Math.max(parseFloat(style.strokeWidth) || 0, parseFloat(inner.strokeWidth) || 0);
    return {{
        name: ({NAME})(now),
        visible: seen.width > 0 && seen.height > 0,
        marked: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) || drawn >= 3,
    }};
}}"""


def tab_through(widget: Locator, most: int) -> list[dict]:
    """Every stop that Tab makes inside a widget, in order."""
    widget.evaluate(BEFORE)
    stops = []
    try:
        for _ in range(most):
            widget.page.keyboard.press("Tab")
            if (stop := widget.evaluate(FOCUSED)) is None:
                return stops
            stops.append(stop)
    finally:
        widget.page.evaluate("() => document.getElementById('course-before').remove()")
    raise WidgetError(f"Tab did not leave the widget after {most} stops: a keyboard is caught in it")

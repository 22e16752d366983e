"""Operate whatever stands in a page: every control to both ends of its range, by pointer and by keyboard.

This knows controls, not widgets, so a new widget needs no code here. A widget's stage (the element with `data-count`)
counts what it has shown: `data-count` changes when the new content is on the screen, `data-state` holds what it shows
as JSON, `data-status` is "ok" or "error". What a widget shows reaches the page in several messages, and on a busy machine
seconds can lie between two of them: wait with `until` for the state that is wanted.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Locator

from tests.browser.lab import Notebook

WAIT = 15.0  # seconds for a picture; a shared machine can be slow, and how fast it is has a test of its own
PATIENCE = 0.5  # seconds for a change that need not come
LONG_TEXT = "the dog that saw the cat ran to the house because it was cold " * 8
OUTPUTS = ".jp-OutputArea-output"
# Quizzes and results are boxes of plain ipywidgets, known by what they hold.
BOXES = {
    "quiz": ".widget-vbox:has(> .widget-radio)",
    "result": ".widget-vbox:has(> .widget-hbox > button:text-is('Solution'))",
}
# Parts of a drawing that can be pointed at; the arrow keys go from one to the next.
PARTS = "[class*='course-'][tabindex]:not(.course-stage):not(.course-handle)"

LOOK = """e => ({count: e.dataset.count, state: e.dataset.state, status: e.dataset.status,
                 error: e.dataset.status === "error" ? (e.querySelector(".course-error") ?? e).innerText : ""})"""
NEXT_LOOK = f"""(e, [count, most]) => new Promise((resolve) => {{
    const done = () => {{ watch.disconnect(); clearTimeout(timer); resolve(({LOOK})(e)); }};
    const watch = new MutationObserver(() => e.dataset.count !== count && done());
    const timer = setTimeout(done, e.dataset.count === count ? most : 0);
    watch.observe(e, {{attributes: true, attributeFilter: ["data-count"]}});
}})"""
REST = """(e, quiet) => new Promise((resolve) => {
    const done = () => { watch.disconnect(); resolve(); };
    let timer = setTimeout(done, quiet);
    const watch = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(done, quiet); });
    watch.observe(e, {attributes: true, attributeFilter: ["data-count"]});
})"""
SHOWS = """e => {
    const image = [...e.querySelectorAll("img")].find((one) => one.src && !one.hidden);
    return image ? image.complete && image.naturalWidth > 0 && image.alt.trim() !== "" : e.textContent.trim() !== "";
}"""
ERROR_OUTPUTS = """() => document.querySelectorAll(
    "[data-mime-type='application/vnd.jupyter.error'], [data-mime-type='application/vnd.jupyter.stderr']").length"""
KIND = "e => [...e.classList].find((name) => /^course-(?!widget$)/.test(name))?.slice(7) ?? 'widget'"
VALUE = "e => e.value ?? e.getAttribute('aria-valuenow')"
NAME = "e => e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent.trim()"


class WidgetError(AssertionError):
    """A widget did not do what its control says; the message names the widget and the control."""


# One widget, one action


def stage_of(widget: Locator) -> Locator:
    return widget.locator("[data-count]").first


def look(widget: Locator) -> dict:
    """What the widget shows now: count, state, status, error."""
    return stage_of(widget).evaluate(LOOK)


def picture_of(widget: Locator) -> str:
    """The hash of the picture on the stage, or the stage's markup if it has no picture."""
    return stage_of(widget).evaluate(
        """async e => {
            const image = [...e.querySelectorAll("img")].find((one) => one.src && !one.hidden);
            // Not the words for screen readers beside it: they follow a moment later.
            if (!image) return (e.querySelector(".course-page:not([hidden])") ?? e).innerHTML;
            const bytes = await (await fetch(image.src)).arrayBuffer();
            return [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].join(",");
        }"""
    )


def until(read: Callable, wanted: Callable, problem: str):
    """Read until `wanted` holds for what was read, and give that."""
    end = time.monotonic() + WAIT
    while not wanted(now := read()):
        if time.monotonic() > end:
            raise WidgetError(f"{problem}; it is {str(now)[:300]}")
        time.sleep(0.03)
    return now


def act(widget: Locator, what: str, action: Callable) -> dict:
    """Do something to a control and wait until the stage shows another state."""
    before = look(widget)
    action()
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        now = stage_of(widget).evaluate(NEXT_LOOK, [before["count"], 500])
        if now["status"] == "error" and now["count"] != before["count"]:
            raise WidgetError(f"{what} gave an error: {now['error'][-300:]}")
        if now["count"] != before["count"] and now["state"] != before["state"]:
            return now
    raise WidgetError(f"{what} changed nothing within {WAIT:.0f} s; the state is still {before['state']}")


def settle(widget: Locator, milliseconds: int = 200):
    """Wait until the stage has not changed for a moment."""
    stage_of(widget).evaluate(REST, milliseconds)


def press(control: Locator, key: str):
    control.focus()
    control.page.keyboard.press(key)


def retype(field: Locator, text: str):
    """Replace a line by keys, as a person does: what a script writes there never counts as a change when it is left."""
    press(field, "ControlOrMeta+a")
    field.page.keyboard.press("Delete")
    field.page.keyboard.insert_text(text[:-1])
    field.page.keyboard.type(text[-1:])


def named(control: Locator) -> str:
    return " ".join((control.evaluate(NAME) or "?").split())[:40]


# All controls of a page


@dataclass
class Operated:
    """What was done to the controls of a page, how long each change took, and what went wrong."""

    notebook: Notebook
    folder: Path | None = None  # where to leave a picture after each change
    brief: bool = False
    widgets: dict[str, int] = field(default_factory=dict)
    controls: int = 0
    changes: list[tuple[str, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    pictures: list[tuple[str, Path]] = field(default_factory=list)

    def some(self, controls: Locator) -> list[Locator]:
        return controls.all()[: 1 if self.brief else None]

    def picture(self, area: Locator, what: str):
        if self.folder:
            path = self.folder / f"state_{len(self.pictures):03d}.png"
            area.screenshot(path=path)
            self.pictures.append((what, path))

    def wait(self, what: str, changed: Callable[[], bool], must: bool):
        start = time.monotonic()
        while not changed():
            if time.monotonic() - start > (WAIT if must else PATIENCE):
                if must:
                    self.problems.append(f"{what}: nothing new within {WAIT:.0f} s")
                return
            time.sleep(0.02)
        self.changes.append((what, time.monotonic() - start))

    def move(self, widget: Locator, what: str, action: Callable, must: Callable[[], bool | None] = lambda: True) -> str:
        """Do it, wait for the stage, and give the complaint shown, if any.

        `must()` is asked afterwards: True if the stage has to answer, None if it may, False if it has no reason to."""
        errors, before = self.notebook.page.evaluate(ERROR_OUTPUTS), look(widget)["count"]
        action()
        if (answer := must()) is not False:
            self.wait(what, lambda: look(widget)["count"] != before, bool(answer))
        settle(widget, 60)
        if not stage_of(widget).evaluate(SHOWS):
            self.problems.append(f"{what}: the stage is empty, or its picture has no words")
        if self.notebook.page.evaluate(ERROR_OUTPUTS) > errors:
            self.problems.append(f"{what}: an error stands in the page")
        return look(widget)["error"]

    def accepted(self, widget: Locator, what: str, action: Callable, must: Callable = lambda: True):
        """`move` for what can never be refused."""
        if complaint := self.move(widget, what, action, must):
            self.problems.append(f"{what}: {complaint}")
        self.picture(widget, what)

    def said(self, box: Locator, what: str, action: Callable) -> str:
        """Do it to a box of plain widgets and give the words that it then has."""
        self.controls += 1
        before = box.inner_text()
        action()
        self.wait(what, lambda: box.inner_text() != before, True)
        box.page.wait_for_timeout(150)  # a box replaces its parts one message at a time
        return box.inner_text()


def operate(notebook: Notebook, folder: Path | None = None, most: int | None = None, brief: bool = False) -> Operated:
    """Every control of every widget of the page, at most `most` widgets of a kind.

    `brief`: of each widget its text field, or else the first control that it has; one quiz and one result."""
    done = Operated(notebook, folder, brief)
    for widget in notebook.page.locator(f"{OUTPUTS} .course-widget").all():
        kind = widget.evaluate(KIND)
        done.widgets[kind] = done.widgets.get(kind, 0) + 1
        if most is not None and done.widgets[kind] > most:
            continue
        widget.scroll_into_view_if_needed()
        stage_of(widget).wait_for(timeout=WAIT * 1000)
        before = done.controls
        for part in (texts, sliders, menus, choices, checkboxes, stages, planes, parts, buttons):
            if not brief or done.controls == before:
                part(done, widget, f"{kind} {done.widgets[kind]}")
        if done.controls == before:
            done.problems.append(f"{kind} {done.widgets[kind]}: there is nothing to operate")
    for kind, drive in {"quiz": quiz_box, "result": result_box}.items():
        # The words of the buttons change while a box is operated, so it is marked to be found again.
        mark = (
            "(all, kind) => { all.forEach((e, i) => e.setAttribute('data-box', `${kind}-${i}`)); return all.length; }"
        )
        done.widgets[kind] = notebook.page.locator(f"{OUTPUTS} {BOXES[kind]}").evaluate_all(mark, kind)
        for index in range(done.widgets[kind])[: 1 if brief else None]:
            box = notebook.page.locator(f"[data-box={kind}-{index}]")
            box.scroll_into_view_if_needed()
            drive(done, box, f"{kind} {index + 1}")
    return done


def sliders(done: Operated, widget: Locator, name: str):
    for slider in done.some(widget.locator(".noUi-handle:visible, input[type=range]:visible")):
        done.controls += 1
        seen = set()
        for key in ("Home", "End"):
            before = slider.evaluate(VALUE)
            done.accepted(
                widget,
                f"{name}: {key} on {named(slider)}",
                lambda slider=slider, key=key: press(slider, key),
                lambda slider=slider, before=before: slider.evaluate(VALUE) != before,
            )
            seen.add(slider.evaluate(VALUE))
        if len(seen) < 2:
            done.problems.append(f"{name}: Home and End lead {named(slider)} to the same value {seen}")


def menus(done: Operated, widget: Locator, name: str):
    for menu in done.some(widget.locator("select:visible")):
        done.controls += 1
        options = menu.evaluate("e => [...e.options].map((one) => one.text)")
        for index in (len(options) - 1, 0):
            chosen = menu.evaluate("e => e.selectedIndex")
            done.accepted(
                widget,
                f"{name}: {named(menu)} {options[index]}",
                lambda menu=menu, index=index: menu.select_option(index=index),
                lambda chosen=chosen, index=index: chosen != index,
            )


def choices(done: Operated, widget: Locator, name: str):
    for group in done.some(widget.locator(".widget-toggle-buttons")):
        done.controls += 1
        for button in (group.locator("button").last, group.locator("button").first):
            active = "mod-active" in button.get_attribute("class")
            done.accepted(widget, f"{name}: {button.inner_text()}", button.click, lambda active=active: not active)


def checkboxes(done: Operated, widget: Locator, name: str):
    for box in done.some(widget.locator("input[type=checkbox]:visible")):
        done.controls += 1
        for _ in range(2):
            what = f"{name}: {named(box)} {'off' if box.is_checked() else 'on'}"
            done.accepted(widget, what, lambda box=box: press(box, "Space"))


def texts(done: Operated, widget: Locator, name: str):
    """Nothing at all, far too much, and what stood there first. The first two may be refused, in words for a person."""
    for line in done.some(widget.locator("input[type=text]:visible, textarea:visible")):
        done.controls += 1
        name, first = f"{name}: {named(line)}", line.input_value()
        key = "Enter" if line.evaluate("e => e.tagName") == "INPUT" else "Tab"
        for what, text in (("left empty", ""), ("a long text", LONG_TEXT.strip()), ("as at first", first)):
            retype(line, text)  # before the clock starts: it takes its time
            complaint = done.move(widget, f"{name}, {what}", lambda line=line, key=key: press(line, key))
            done.picture(widget, f"{name}, {what}")
            machine = re.match(r"The figure could not be drawn: (?!ValueError: )", complaint)
            if complaint and (text == first or machine or "Traceback" in complaint or len(complaint.split()) < 4):
                done.problems.append(f"{name}, {what}: {complaint}")


def stages(done: Operated, widget: Locator, name: str):
    """Stages that obey the arrow keys."""
    stage = widget.locator(".course-stage[tabindex='0']")
    if stage.count():
        done.controls += 1
        for key in ("End", "Home"):
            done.accepted(widget, f"{name}: {key}", lambda key=key: press(stage, key), lambda: None)


def planes(done: Operated, widget: Locator, name: str):
    square, handle = widget.locator(".course-plane-square"), widget.locator(".course-handle")
    if not square.count():
        return
    done.controls += 1
    square.evaluate("e => e.scrollIntoView({block: 'center'})")
    mouse, area = widget.page.mouse, square.bounding_box()
    for corner, (across, down) in {"lower left": (-0.1, 1.1), "upper right": (1.1, -0.1)}.items():

        def drag(across=across, down=down):
            at = handle.bounding_box()
            mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
            mouse.down()
            mouse.move(area["x"] + across * area["width"], area["y"] + down * area["height"], steps=4)
            mouse.up()

        done.accepted(widget, f"{name}: dragged beyond the {corner} corner", drag)
    done.accepted(widget, f"{name}: an arrow key", lambda: press(handle, "ArrowLeft"))


def parts(done: Operated, widget: Locator, name: str):
    """Of each group the first and the last by pointer, twice, so that what is switched is switched back; then by keys."""
    classes = "all => [...new Set(all.map((e) => [...e.classList].find((name) => name.startsWith('course-'))))]"
    for kind in widget.locator(PARTS).evaluate_all(classes):
        group = widget.locator(f".{kind}:visible")
        done.controls += group.count()
        click = [("click", part.click) for part in (group.first, group.first, group.last, group.last)]
        keys = [(key, lambda part=group.first, key=key: press(part, key)) for key in ("Home", "End", "Enter", "Escape")]
        for way, actions in (("pointer", click), ("keyboard", keys)):
            before = look(widget)["count"]
            for what, action in actions:
                done.accepted(widget, f"{name}: {kind[7:]} by {what}", action, lambda: False)
            if look(widget)["count"] == before:
                done.problems.append(f"{name}: {kind[7:]} does not answer the {way}")


def buttons(done: Operated, widget: Locator, name: str):
    """Every button that is no choice and no part, once, in order; what brings the beginning back stands last in each row."""
    found = widget.locator("button:not([tabindex]):not(.widget-toggle-button):visible")
    for index in range(found.count()):
        button = found.nth(index)
        if button.is_visible() and button.is_enabled():
            done.controls += 1
            use = button.click if index % 2 else lambda button=button: press(button, "Enter")
            done.accepted(widget, f"{name}: button {named(button)}", use, lambda: None)


def quiz_box(done: Operated, box: Locator, name: str):
    """Every option chosen in turn by key, the last one committed; then the guess can no longer be changed."""
    options = box.locator("input[type=radio]:visible").all()
    for option in options:
        done.controls += 1
        press(option, "Space")
        if not option.is_checked():
            done.problems.append(f"{name}: Space does not choose {named(option)!r}")
    commit = box.locator("button:enabled")
    commit.wait_for(timeout=WAIT * 1000)
    enabled = box.locator(":is(button, input[type=radio]):enabled:visible")
    done.said(box, f"{name}: Commit the last option", lambda: press(commit, "Space"))
    # On a busy machine the text changes seconds before the controls do.
    done.wait(
        f"{name}: a verdict, and no control left", lambda: "Right" in box.inner_text() and not enabled.count(), True
    )
    done.picture(box, f"{name}: after")


def result_box(done: Operated, box: Locator, name: str):
    """Every hint there is, then the solution, open and closed."""
    hint = box.get_by_role("button", name="Hint", exact=True)
    while hint.count():
        done.said(box, f"{name}: Hint", hint.click)
    for word in ("Solution", "Hide solution"):
        words = done.said(box, f"{name}: {word}", box.get_by_role("button", name=word, exact=True).click)
        if ("Solution of exercise" in words) != (word == "Solution"):
            done.problems.append(f"{name}: {word} left these words: {words[-200:]}")
        done.picture(box, f"{name}: {word}")


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
    return {{
        name: ({NAME})(now),
        visible: seen.width > 0 && seen.height > 0,
        marked: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) || parseFloat(inner.strokeWidth) >= 3,
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

"""Move every control of a page to both ends of its range, and see that each answers with something valid.

The drivers in `widgets` know what each kind of widget promises; this knows only controls, so it holds for any widget.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Locator

from tests.browser.lab import Notebook
from tests.browser.widgets import BOXES, WAIT, WidgetError, look, press, retype, settle, stage_of

PATIENCE = 1.5  # seconds for a change that need not come
LONG_TEXT = "the dog that saw the cat ran to the house because it was cold " * 8
# What can be pointed at in the widgets that are drawn in the page.
POINTS = (
    ".course-token",
    ".course-map",
    ".course-cell",
    ".course-heads-word",
    ".course-heads-map",
    ".course-removal-tile",
    ".course-beam-node",
)
SHOWS = """e => {
    const image = [...e.querySelectorAll("img")].find((one) => one.src && !one.hidden);
    return image ? image.complete && image.naturalWidth > 0 && image.alt.trim() !== "" : e.textContent.trim() !== "";
}"""
ERROR_OUTPUTS = """() => document.querySelectorAll(
    "[data-mime-type='application/vnd.jupyter.error'], [data-mime-type='application/vnd.jupyter.stderr']").length"""
KIND = "e => [...e.classList].find((name) => /^course-(?!widget$)/.test(name))?.slice(7) ?? 'widget'"


@dataclass
class Sweep:
    """What was done to the controls of a page, how long each change took, and what went wrong."""

    notebook: Notebook
    folder: Path
    controls: int = 0
    changes: list[tuple[str, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    pictures: list[tuple[str, Path]] = field(default_factory=list)

    def picture(self, area: Locator, what: str):
        path = self.folder / f"state_{len(self.pictures):03d}.png"
        area.screenshot(path=path)
        self.pictures.append((what, path))

    def move(
        self, widget: Locator, what: str, action: Callable, changes: Callable[[], bool | None] = lambda: True
    ) -> str:
        """Do it, wait for the stage, and give the complaint shown, if any.

        `changes()` is asked afterwards: True if the stage must answer, None if it may."""
        errors, before, start = self.notebook.page.evaluate(ERROR_OUTPUTS), look(widget)["count"], time.monotonic()
        action()
        if (must := changes()) is not False:
            while look(widget)["count"] == before:
                if time.monotonic() - start > (WAIT if must else PATIENCE):
                    if must:
                        self.problems.append(f"{what}: nothing new within {WAIT:.0f} s")
                    break
                time.sleep(0.02)
            else:
                self.changes.append((what, time.monotonic() - start))
        settle(widget)
        now = look(widget)
        if not stage_of(widget).evaluate(SHOWS):
            self.problems.append(f"{what}: the stage is empty, or its picture has no words")
        if self.notebook.page.evaluate(ERROR_OUTPUTS) > errors:
            self.problems.append(f"{what}: an error stands in the page")
        return now["error"]

    def never_refused(self, widget: Locator, what: str, action: Callable, changes: Callable = lambda: True):
        if complaint := self.move(widget, what, action, changes):
            self.problems.append(f"{what}: {complaint}")
        self.picture(widget, what)


def to_both_ends(notebook: Notebook, folder: Path) -> Sweep:
    """Every control of every widget of the page."""
    sweep = Sweep(notebook, folder)
    outputs = notebook.page.locator(".jp-OutputArea-output")
    seen: dict[str, int] = {}
    for widget in outputs.locator(".course-widget").all():
        kind = widget.evaluate(KIND)
        seen[kind] = seen.get(kind, 0) + 1
        name = f"{kind} {seen[kind]}"
        widget.scroll_into_view_if_needed()
        for part in (sliders, ranges, menus, choices, boxes, lines, areas, stages, planes, points, buttons):
            try:
                part(sweep, widget, name)
            except WidgetError as problem:
                sweep.problems.append(f"{name}: {problem}")
    for box, name in tagged(notebook, "result"):
        results(sweep, box, name)
    for box, name in tagged(notebook, "quiz"):
        quizzes(sweep, box, name)
    for index, summary in enumerate(outputs.locator("summary").all()):
        if summary.is_visible():
            sweep.controls += 1
            summary.click()
            sweep.picture(summary.locator("xpath=.."), f"details {index + 1}")
            summary.click()
    return sweep


def tagged(notebook: Notebook, kind: str) -> list[tuple[Locator, str]]:
    """The boxes of this kind, marked so that they are found again when their buttons have other words."""
    marks = (
        notebook.page.locator(".jp-OutputArea-output")
        .locator(BOXES[kind][0])
        .evaluate_all(
            "(all, kind) => all.map((e, i) => { e.setAttribute('data-ends', `${kind}-${i}`); return `${kind}-${i}`; })",
            kind,
        )
    )
    return [(notebook.page.locator(f"[data-ends={mark}]"), f"{kind} {index + 1}") for index, mark in enumerate(marks)]


def named(control: Locator) -> str:
    label = "e => e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent.trim()"
    return " ".join((control.evaluate(label) or "?").split())[:40]


def sliders(sweep: Sweep, widget: Locator, name: str):
    for handle in widget.locator(".noUi-handle:visible").all():
        sweep.controls += 1
        for key, end in (("Home", "min"), ("End", "max")):
            before = handle.get_attribute("aria-valuenow")
            what = f"{name}: {named(handle)} at its {'least' if end == 'min' else 'most'}"
            sweep.never_refused(
                widget,
                what,
                lambda handle=handle, key=key: press(handle, key),
                lambda handle=handle, before=before: handle.get_attribute("aria-valuenow") != before,
            )
            now, wanted = (float(handle.get_attribute(f"aria-value{one}")) for one in ("now", end))
            if abs(now - wanted) > 1e-6:
                sweep.problems.append(f"{what}: {key} leads to {now:g}, and the end is {wanted:g}")


def ranges(sweep: Sweep, widget: Locator, name: str):
    for slider in widget.locator("input[type=range]:visible").all():
        sweep.controls += 1
        for key in ("Home", "End"):
            before = slider.input_value()
            sweep.never_refused(
                widget,
                f"{name}: {named(slider)}, {key}",
                lambda slider=slider, key=key: press(slider, key),
                lambda slider=slider, before=before: slider.input_value() != before,
            )


def menus(sweep: Sweep, widget: Locator, name: str):
    for menu in widget.locator("select:visible").all():
        sweep.controls += 1
        options = menu.evaluate("e => [...e.options].map((one) => one.text)")
        for index in (len(options) - 1, 0):
            chosen = menu.evaluate("e => e.selectedIndex")
            sweep.never_refused(
                widget,
                f"{name}: {named(menu)} {options[index]}",
                lambda menu=menu, index=index: menu.select_option(index=index),
                lambda chosen=chosen, index=index: chosen != index,
            )


def choices(sweep: Sweep, widget: Locator, name: str):
    for group in widget.locator(".widget-toggle-buttons").all():
        sweep.controls += 1
        for button in (group.locator("button").last, group.locator("button").first):
            active = "mod-active" in button.get_attribute("class")
            sweep.never_refused(
                widget, f"{name}: {button.inner_text()}", button.click, lambda active=active: not active
            )


def boxes(sweep: Sweep, widget: Locator, name: str):
    for box in widget.locator("input[type=checkbox]:visible").all():
        sweep.controls += 1
        for _ in range(2):
            what = f"{name}: {named(box)} {'off' if box.is_checked() else 'on'}"
            sweep.never_refused(widget, what, lambda box=box: press(box, "Space"))


def lines(sweep: Sweep, widget: Locator, name: str):
    for line in widget.locator("input[type=text]:visible").all():
        written(sweep, widget, line, f"{name}: {named(line)}", "Enter")


def areas(sweep: Sweep, widget: Locator, name: str):
    for area in widget.locator("textarea:visible").all():
        written(sweep, widget, area, f"{name}: {named(area)}", "Tab")


def written(sweep: Sweep, widget: Locator, line: Locator, name: str, key: str):
    """Nothing at all, far too much, and what stood there first. The first two may be refused, in words for a person."""
    sweep.controls += 1
    first = line.input_value()
    for what, text in (("left empty", ""), ("a long text", LONG_TEXT.strip())):
        retype(line, text)  # before the clock starts: it takes its time
        if not text:
            line.page.keyboard.press("Delete")
        complaint = sweep.move(widget, f"{name}, {what}", lambda: press(line, key))
        sweep.picture(widget, f"{name}, {what}")
        machine = re.match(r"This picture could not be drawn: (?!ValueError: )", complaint)
        if complaint and (machine or "Traceback" in complaint or len(complaint.split()) < 4):
            sweep.problems.append(f"{name}, {what}: no words for a person: {complaint}")
    retype(line, first)
    if complaint := sweep.move(widget, f"{name}, as at first", lambda: press(line, key)):
        sweep.problems.append(f"{name}: what stood there first is refused: {complaint}")


def stages(sweep: Sweep, widget: Locator, name: str):
    """Stages that obey the arrow keys."""
    stage = widget.locator(".course-stage[tabindex='0']")
    if stage.count():
        sweep.controls += 1
        for key in ("End", "Home"):
            sweep.never_refused(widget, f"{name}: {key}", lambda key=key: press(stage, key), lambda: None)


def planes(sweep: Sweep, widget: Locator, name: str):
    square, handle = widget.locator(".course-plane-square"), widget.locator(".course-handle")
    if not square.count():
        return
    sweep.controls += 1
    mouse, area = widget.page.mouse, square.bounding_box()
    for corner, (across, down) in {"lower left": (-0.1, 1.1), "upper right": (1.1, -0.1)}.items():

        def drag(across=across, down=down):
            at = handle.bounding_box()
            mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
            mouse.down()
            mouse.move(area["x"] + across * area["width"], area["y"] + down * area["height"], steps=4)
            mouse.up()

        sweep.never_refused(widget, f"{name}: dragged beyond the {corner} corner", drag)


def points(sweep: Sweep, widget: Locator, name: str):
    """The first and the last of what can be clicked, twice, so that what is switched is switched back."""
    for selector in POINTS:
        found = widget.locator(f"{selector}:visible")
        if not found.count():
            continue
        sweep.controls += found.count()
        for which, point in (("first", found.first), ("last", found.last)):
            for _ in range(2):
                sweep.move(widget, f"{name}: the {which} {selector[8:]}", point.click, lambda: False)
            sweep.picture(widget, f"{name}: the {which} {selector[8:]}")


def buttons(sweep: Sweep, widget: Locator, name: str):
    """Every button that is no choice and no point, once, in order; what brings the beginning back stands last in each row."""
    others = "".join(f":not({selector})" for selector in (*POINTS, ".widget-toggle-button"))
    for index in range((found := widget.locator(f"button{others}:visible")).count()):
        button = found.nth(index)
        if button.is_visible() and button.is_enabled():
            sweep.controls += 1
            sweep.never_refused(widget, f"{name}: button {named(button)}", button.click, lambda: None)


def results(sweep: Sweep, box: Locator, name: str):
    """Every hint there is, then the solution, open and closed."""
    hint = box.get_by_role("button", name="Hint", exact=True)
    while hint.count():
        sweep.controls += 1
        said(sweep, box, f"{name}: Hint", hint.click)
    for word in ("Solution", "Hide solution"):
        sweep.controls += 1
        said(sweep, box, f"{name}: {word}", box.get_by_role("button", name=word, exact=True).click)
        if word == "Solution":
            sweep.picture(box, f"{name}: all hints and the solution")


def quizzes(sweep: Sweep, box: Locator, name: str):
    """Every option chosen in turn, the last one committed."""
    options = box.locator("input[type=radio]:visible").all()
    for option in options:
        sweep.controls += 1
        option.focus()
        box.page.keyboard.press("Space")
        if not option.is_checked():
            sweep.problems.append(f"{name}: Space does not choose {named(option)!r}")
    commit = box.get_by_role("button", name="Commit")
    commit.locator("xpath=self::*[not(@disabled)]").wait_for(timeout=WAIT * 1000)
    sweep.picture(box, f"{name}: before")
    sweep.controls += 1
    verdict = said(sweep, box, f"{name}: Commit the last option", commit.click)
    if "Right" not in verdict:
        sweep.problems.append(f"{name}: no verdict in {verdict[-100:]!r}")
    sweep.picture(box, f"{name}: after")


def said(sweep: Sweep, box: Locator, what: str, action: Callable) -> str:
    """Do it and give the words that the box then has."""
    before, start = box.inner_text(), time.monotonic()
    action()
    while box.inner_text() == before:
        if time.monotonic() - start > WAIT:
            sweep.problems.append(f"{what}: nothing new within {WAIT:.0f} s")
            break
        time.sleep(0.02)
    else:
        sweep.changes.append((what, time.monotonic() - start))
    box.page.wait_for_timeout(150)  # a box replaces its parts one message at a time
    return box.inner_text()

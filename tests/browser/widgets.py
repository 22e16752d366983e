"""Operate the course's widgets in a page, one driver for each kind, so that a lesson needs no browser code.

A widget's stage (the element with `data-count`) counts what it has shown: `data-count` changes when the new content
is on the screen, `data-state` holds what it shows as JSON, `data-status` is "ok" or "error".
"""

import time

from playwright.sync_api import Locator

from tests.browser.lab import Notebook

WAIT = 15.0  # seconds for a picture; a shared machine can be slow, and how fast it is has a test of its own


class WidgetError(AssertionError):
    """A widget did not do what its control says; the message names the widget and the control."""


def stage_of(widget: Locator) -> Locator:
    return widget.locator("[data-count]").first


def look(widget: Locator) -> dict:
    """What the widget shows now."""
    return stage_of(widget).evaluate(
        """e => ({count: e.dataset.count, state: e.dataset.state, status: e.dataset.status,
                 error: (e.querySelector(".course-error") ?? e).innerText})"""
    )


def picture_of(widget: Locator) -> str:
    """The bytes of the picture on the stage as text, or the stage's own markup if it has no picture."""
    return stage_of(widget).evaluate(
        """async e => {
            const image = [...e.querySelectorAll("img")].find((one) => one.src && !one.hidden);
            if (!image) return e.innerHTML;
            const bytes = new Uint8Array(await (await fetch(image.src)).arrayBuffer());
            return String(bytes.length) + ":" + [...bytes].join(",");
        }"""
    )


def act(widget: Locator, what: str, action, expect_change: bool = True) -> dict:
    """Do something to a control and wait until the stage shows another state."""
    before = look(widget)
    action()
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        now = look(widget)
        if now["status"] == "error":
            raise WidgetError(f"{what} gave an error: {now['error'][-300:]}")
        if now["count"] != before["count"] and (now["state"] != before["state"] or not expect_change):
            return now
        time.sleep(0.03)
    raise WidgetError(f"{what} changed nothing within {WAIT:.0f} s; the state is still {before['state']}")


def settle(widget: Locator):
    """Wait until the stage has not changed for a moment."""
    seen, since = look(widget)["count"], time.monotonic()
    while time.monotonic() - since < 0.2:
        time.sleep(0.05)
        if (now := look(widget)["count"]) != seen:
            seen, since = now, time.monotonic()


def arrow(handle: Locator) -> str:
    """The arrow key that moves a slider: to the right unless it stands at its end."""
    now, high = (float(handle.get_attribute(name)) for name in ("aria-valuenow", "aria-valuemax"))
    return "ArrowLeft" if now >= high else "ArrowRight"


def press(control: Locator, key: str):
    control.focus()
    control.page.keyboard.press(key)


def operate_controls(widget: Locator, name: str) -> int:
    """Each ipywidgets control once: sliders by arrow key, menus and buttons by click, text by typing."""
    count = 0
    for index, handle in enumerate(widget.locator(".noUi-handle").all()):
        key = arrow(handle)
        act(widget, f"{name}: {key} on slider {index + 1}", lambda handle=handle, key=key: press(handle, key))
        count += 1
    for group in widget.locator(".widget-toggle-buttons, .jupyter-widget-toggle-buttons").all():
        other = group.locator("button:not(.mod-active)").first
        act(widget, f"{name}: the button {other.inner_text()!r}", other.click)
        count += 1
    for menu in widget.locator(".widget-dropdown select").all():
        size, chosen = menu.evaluate("e => [e.options.length, e.selectedIndex]")
        act(widget, f"{name}: the menu", lambda m=menu, n=(chosen + 1) % size: m.select_option(index=n))
        count += 1
    for box in widget.locator(".widget-checkbox input[type=checkbox]").all():
        act(widget, f"{name}: the check box", lambda box=box: press(box, "Space"))
        count += 1
    for line in widget.locator(".widget-text input[type=text]").all():
        act(
            widget,
            f"{name}: the text field",
            lambda line=line: (line.fill(line.input_value() + " a"), press(line, "Enter")),
        )
        count += 1
    return count


def drive_explore(widget: Locator):
    first = picture_of(widget)
    if not operate_controls(widget, "explore"):
        raise WidgetError("an explore widget has no control that could be operated")
    settle(widget)
    if picture_of(widget) == first:
        raise WidgetError("all controls of an explore widget were moved and the picture is the same as at first")
    act(widget, "explore: Reset", widget.get_by_role("button", name="Reset").click)
    settle(widget)
    if picture_of(widget) != first:
        raise WidgetError("Reset did not bring back the first picture")


def drive_stepper(widget: Locator):
    act(widget, "stepper: Next", widget.get_by_role("button", name="Next").click)
    act(widget, "stepper: arrow key to the left", lambda: press(stage_of(widget), "ArrowLeft"))


def drive_guess(widget: Locator):
    for index, handle in enumerate(widget.locator(".noUi-handle").all()):
        key = ("ArrowRight", "ArrowLeft")[index % 2]
        act(widget, f"guess: {key} on slider {index + 1}", lambda handle=handle, key=key: press(handle, key))
    shown = act(widget, "guess: Commit", widget.get_by_role("button", name="Commit").click)
    if '"committed":true' not in shown["state"].replace(" ", ""):
        raise WidgetError(f"the guess was committed but the widget does not say so: {shown['state']}")
    act(widget, "guess: Try again", widget.get_by_role("button", name="Try again").click)


def drive_plane(widget: Locator):
    handle = widget.locator(".course-handle")
    first = picture_of(widget)
    act(widget, "plane: arrow key", lambda: press(handle, "ArrowRight"))
    box = widget.locator(".course-plane-square").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse = widget.page.mouse

    def drag():
        at = handle.bounding_box()
        mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
        mouse.down()
        mouse.move(middle[0] - 0.2 * box["width"], middle[1] + 0.1 * box["height"], steps=4)
        mouse.up()

    act(widget, "plane: dragging the query", drag)
    settle(widget)
    if picture_of(widget) == first:
        raise WidgetError("the query of a plane was dragged and nothing else moved")
    for index, slider in enumerate(widget.locator("input[type=range]").all()):
        now, high = slider.evaluate("e => [Number(e.value), Number(e.max)]")
        key = "ArrowLeft" if now >= high else "ArrowRight"
        act(widget, f"plane: slider {index + 1}", lambda slider=slider, key=key: press(slider, key))


def drive_attention(widget: Locator):
    tokens = widget.locator(".course-token")
    act(widget, "attention: pointing at a token", tokens.first.hover)
    act(widget, "attention: arrow key", lambda: press(tokens.first, "ArrowRight"))
    for menu in widget.locator(".course-choice select").all():
        size, chosen = menu.evaluate("e => [e.options.length, e.selectedIndex]")
        act(widget, "attention: the menu", lambda m=menu, n=(chosen + 1) % size: m.select_option(index=n))


def change(area: Locator, what: str, action) -> str:
    """Do something to a control and wait until the words of its surroundings change."""
    before = area.inner_text()
    action()
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        if (now := area.inner_text()) != before:
            return now
        time.sleep(0.03)
    raise WidgetError(f"{what} changed nothing within {WAIT:.0f} s in: {before[:200]}")


def drive_quiz(box: Locator):
    """Choose by keyboard, commit, read the verdict."""
    choice = box.locator("input[type=radio]").first
    choice.focus()
    choice.page.keyboard.press("Space")
    commit = box.get_by_role("button", name="Commit")
    said = change(box, "quiz: Commit", commit.click)
    if "Right" not in said:
        raise WidgetError(f"after committing, the quiz does not say what is right: {said[-200:]}")
    if commit.is_enabled() or choice.is_enabled():
        raise WidgetError("after committing, the guess of a quiz can still be changed")


def drive_result(box: Locator):
    """The buttons under the result of an exercise: next hint, solution, hide it again."""
    if (hint := box.get_by_role("button", name="Hint")).count():
        change(box, "exercise: Hint", hint.click)
    before = box.inner_text()
    change(box, "exercise: Solution", box.get_by_role("button", name="Solution").click)
    change(box, "exercise: Hide solution", box.get_by_role("button", name="Hide solution").click)
    if box.inner_text() != before:
        raise WidgetError("hiding the solution did not bring back what stood there before it was shown")


DRIVERS = {
    "explore": drive_explore,
    "stepper": drive_stepper,
    "guess": drive_guess,
    "plane": drive_plane,
    "attention": drive_attention,
}


# Quizzes and results are boxes of plain ipywidgets, known by what they hold.
BOXES = {
    "quiz": (".widget-vbox:has(> .widget-radio)", drive_quiz),
    "result": (".widget-vbox:has(> .widget-hbox > button:text-is('Solution'))", drive_result),
}


def operate_all(notebook: Notebook) -> dict[str, int]:
    """Operate every widget of the page; gives how many of each kind there were."""
    outputs = notebook.page.locator(".jp-OutputArea-output")
    known = ", ".join(f".course-{kind}" for kind in DRIVERS)
    strange = outputs.locator(f".course-widget:not({known})")
    if strange.count():
        raise WidgetError(f"no driver knows the widget with the classes {strange.first.get_attribute('class')!r}")
    found = {}
    for kind, drive in DRIVERS.items():
        widgets = outputs.locator(f".course-{kind}").all()
        for widget in widgets:
            widget.scroll_into_view_if_needed()
            stage_of(widget).wait_for(timeout=WAIT * 1000)
            drive(widget)
        found[kind] = len(widgets)
    for kind, (selector, drive) in BOXES.items():
        # The button's words change while a box is operated, so the box is kept by its place.
        handles = [box.element_handle() for box in outputs.locator(selector).all()]
        for index, handle in enumerate(handles):
            handle.evaluate("(e, name) => e.setAttribute('data-test', name)", f"{kind}-{index}")
            box = notebook.page.locator(f"[data-test={kind}-{index}]")
            box.scroll_into_view_if_needed()
            drive(box)
        found[kind] = len(handles)
    return found


# From the key press, as the page receives it, to the first frame after the stage shows the new picture.
TIME_NEXT = """e => {
    window.courseTimed = new Promise((resolve) => {
        let pressed = null;
        const key = () => { pressed ??= performance.now(); };
        window.addEventListener("keydown", key, true);
        const watch = new MutationObserver(() => {
            if (pressed === null) return;
            watch.disconnect();
            window.removeEventListener("keydown", key, true);
            requestAnimationFrame(() => resolve(performance.now() - pressed));
        });
        watch.observe(e, {attributes: true, attributeFilter: ["data-count"]});
    });
}"""


def key_to_picture(widget: Locator, presses: int = 8) -> list[float]:
    """Milliseconds from key press to new picture, on the first slider, back and forth."""
    handle = widget.locator(".noUi-handle").first
    times = []
    for index in range(presses):
        settle(widget)
        stage_of(widget).evaluate(TIME_NEXT)
        press(handle, ("ArrowRight", "ArrowLeft")[index % 2])
        times.append(widget.page.evaluate("() => window.courseTimed"))
    return times

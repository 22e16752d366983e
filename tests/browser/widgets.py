"""Operate the course's widgets in a page, one driver for each kind, so that a lesson needs no browser code.

A widget's stage (the element with `data-count`) counts what it has shown: `data-count` changes when the new content
is on the screen, `data-state` holds what it shows as JSON, `data-status` is "ok" or "error".

What a widget shows reaches the page in several messages, and on a busy machine seconds can lie between two of them. So
a driver never judges the first thing that it reads after a change: it waits with `until` for the state it wants.
"""

import json
import re
import statistics
import time

from playwright.sync_api import Locator

from tests.browser.lab import Notebook

WAIT = 15.0  # seconds for a picture; a shared machine can be slow, and how fast it is has a test of its own


class WidgetError(AssertionError):
    """A widget did not do what its control says; the message names the widget and the control."""


def stage_of(widget: Locator) -> Locator:
    return widget.locator("[data-count]").first


# The words only of an error: to ask for them makes the browser lay out the whole page anew.
LOOK = """e => ({count: e.dataset.count, state: e.dataset.state, status: e.dataset.status,
                 error: e.dataset.status === "error" ? (e.querySelector(".course-error") ?? e).innerText : ""})"""
# Waiting is left to the page, which knows at once; nobody asks again and again.
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


def look(widget: Locator) -> dict:
    """What the widget shows now."""
    return stage_of(widget).evaluate(LOOK)


def next_look(widget: Locator, count: str, milliseconds: int = 500) -> dict:
    """What it shows as soon as its count is another, or after a moment: the stage may have been exchanged meanwhile."""
    return stage_of(widget).evaluate(NEXT_LOOK, [count, milliseconds])


def picture_of(widget: Locator) -> str:
    """The sum of the picture on the stage, which no other picture has, or the stage's markup if it has no picture."""
    return stage_of(widget).evaluate(
        """async e => {
            const image = [...e.querySelectorAll("img")].find((one) => one.src && !one.hidden);
            // Not the words for screen readers beside it: they follow a moment later.
            if (!image) return (e.querySelector(".course-page:not([hidden])") ?? e).innerHTML;
            const bytes = await (await fetch(image.src)).arrayBuffer();
            return [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].join(",");
        }"""
    )


def act(widget: Locator, what: str, action, expect_change: bool = True) -> dict:
    """Do something to a control and wait until the stage shows another state."""
    before = look(widget)
    action()
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        now = next_look(widget, before["count"])
        if now["status"] == "error" and (now["count"] != before["count"] or before["status"] != "error"):
            raise WidgetError(f"{what} gave an error: {now['error'][-300:]}")
        if now["count"] != before["count"] and (now["state"] != before["state"] or not expect_change):
            return now
        time.sleep(0.03)
    raise WidgetError(f"{what} changed nothing within {WAIT:.0f} s; the state is still {before['state']}")


def until(read, wanted, problem):
    """Read until `wanted` holds for what was read, and give that; `problem` says of the last one what is wrong."""
    end = time.monotonic() + WAIT
    while not wanted(now := read()):
        if time.monotonic() > end:
            raise WidgetError(problem(now) if callable(problem) else problem)
        time.sleep(0.03)
    return now


def looks_like(widget: Locator, picture: str, problem: str):
    until(lambda: picture_of(widget), lambda now: now == picture, problem)


def looks_unlike(widget: Locator, picture: str, problem: str) -> str:
    return until(lambda: picture_of(widget), lambda now: now != picture, problem)


def ends_disabled(button: Locator, problem: str):
    until(button.is_disabled, bool, problem)


def settle(widget: Locator):
    """Wait until the stage has not changed for a moment."""
    stage_of(widget).evaluate(REST, 200)


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
    for area in widget.locator(".widget-textarea textarea").all():
        act(
            widget,
            f"{name}: the larger text field",
            lambda area=area: (area.fill(area.input_value() + "\nand more"), press(area, "Tab")),
        )
        count += 1
    return count


def drive_explore(widget: Locator):
    first = picture_of(widget)
    if not operate_controls(widget, "explore"):
        raise WidgetError("an explore widget has no control that could be operated")
    settle(widget)
    looks_unlike(widget, first, "all controls of an explore widget were moved and the picture is the same as at first")
    act(widget, "explore: Reset", widget.get_by_role("button", name="Reset").click)
    looks_like(widget, first, "Reset did not bring back the first picture")


def drive_stepper(widget: Locator):
    """Forward by button, by slider and by key, to the end and back to the first picture."""
    back, on = (widget.get_by_role("button", name=name) for name in ("Previous", "Next"))
    first = picture_of(widget)
    if back.is_enabled():
        raise WidgetError("stepper: Previous can be pressed at the first step")
    seen = [first]

    def step(what, action):
        shown = act(widget, f"stepper: {what}", action)
        settle(widget)
        seen.append(picture_of(widget))
        return json.loads(shown["state"])["step"]

    handle = widget.locator(".noUi-handle")
    went = [step("Next", on.click), step("slider", lambda: press(handle, "ArrowRight"))]
    last = round(float(handle.get_attribute("aria-valuemax")))
    went += [step("End", lambda: press(stage_of(widget), "End"))] if went[-1] < last else []
    forward = seen[:]
    if went != list(range(1, len(went))) + [last]:
        raise WidgetError(f"stepper: Next, slider and End went to the steps {went}, and the last one is {last}")
    ends_disabled(on, f"stepper: Next can be pressed at the last step, {last}")
    went = [step("Previous", back.click), step("arrow key", lambda: press(stage_of(widget), "ArrowLeft"))]
    if went != [last - 1, last - 2]:
        raise WidgetError(f"stepper: Previous and the left arrow key went from {last} to {went}")
    if last > 2:
        step("Home", lambda: press(stage_of(widget), "Home"))
    if seen[-1] != first or len(set(forward)) != len(forward):
        raise WidgetError("stepper: steps look alike, or the first looks different on return")


def drive_guess(widget: Locator):
    for index, handle in enumerate(widget.locator(".noUi-handle").all()):
        key = ("ArrowRight", "ArrowLeft")[index % 2]
        act(widget, f"guess: {key} on slider {index + 1}", lambda handle=handle, key=key: press(handle, key))
    act(widget, "guess: Commit", widget.get_by_role("button", name="Commit").click)
    until(
        lambda: look(widget)["state"],
        lambda state: '"committed":true' in state.replace(" ", ""),
        lambda state: f"the guess was committed but the widget does not say so: {state}",
    )
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
    looks_unlike(widget, first, "the query of a plane was dragged and nothing else moved")
    for index, slider in enumerate(widget.locator("input[type=range]").all()):
        now, high = slider.evaluate("e => [Number(e.value), Number(e.max)]")
        key = "ArrowLeft" if now >= high else "ArrowRight"
        act(widget, f"plane: slider {index + 1}", lambda slider=slider, key=key: press(slider, key))


def attention_shown(widget: Locator) -> dict:
    """What the attention view says: its state, the sentence, and the numbers beside the tokens of each row."""
    return stage_of(widget).evaluate(
        """e => {
            const numbers = (row) => [...e.querySelectorAll(`[data-row=${row}] .course-number`)].map((t) => t.textContent);
            return {...JSON.parse(e.dataset.state), sentence: e.querySelector(".course-text").textContent,
                    target: numbers("target"), source: numbers("source")};
        }"""
    )


def token_of(widget: Locator, row: str, index: int) -> Locator:
    return widget.locator(f".course-token[data-row={row}][data-index='{index}']")


def drive_attention(widget: Locator):
    """By pointer, by keyboard, by the menus and by the small maps."""
    tokens = widget.locator(".course-token")
    rows = [widget.locator(f".course-token[data-row={row}]").count() for row in ("target", "source")]
    down = widget.locator(".course-down").count() == 1
    on, over = ("ArrowDown", "ArrowRight") if down else ("ArrowRight", "ArrowDown")
    press(tokens.first, "Escape")
    tokens.first.blur()
    act(widget, "attention: pointing at a target", token_of(widget, "target", rows[0] - 1).hover)
    act(widget, "attention: pointing at a source", token_of(widget, "source", 0).hover)
    act(widget, "attention: pointing elsewhere", lambda: widget.page.mouse.move(2, 2))
    expect_place(widget, "pointing elsewhere", (None, -1))
    act(widget, "attention: focus", tokens.first.focus)
    for key, place in ((on, ("target", 1)), ("Home", ("target", 0)), ("End", ("target", rows[0] - 1))):
        act(widget, f"attention: {key}", lambda key=key: widget.page.keyboard.press(key))
        expect_place(widget, key, place)
    act(widget, f"attention: {over}", lambda: widget.page.keyboard.press(over))
    expect_place(widget, over, ("source", rows[1] - 1))
    act(widget, "attention: Escape", lambda: widget.page.keyboard.press("Escape"))
    expect_place(widget, "Escape", (None, -1))
    for menu in widget.locator(".course-choice select").all():
        size, chosen = menu.evaluate("e => [e.options.length, e.selectedIndex]")
        before = picture_of(widget)
        act(widget, "attention: the menu", lambda m=menu, n=(chosen + 1) % size: m.select_option(index=n))
        looks_unlike(widget, before, "attention: another layer or head looks the same")
    drive_maps(widget)


def expect_place(widget: Locator, key: str, place: tuple):
    until(
        lambda: attention_shown(widget),
        lambda shown: (shown["row"], shown["index"]) == place,
        lambda shown: f"attention: {key} went to {shown['row']} {shown['index']}, expected {place}",
    )


def drive_maps(widget: Locator):
    """The small maps: a click and an arrow key each choose their layer and head, and the menus follow."""
    maps = widget.locator(".course-map")
    if not maps.count():
        return
    act(widget, "attention: the last small map", maps.last.click)
    settle(widget)
    last = attention_shown(widget)
    act(widget, "attention: arrow key on a small map", lambda: press(maps.last, "ArrowLeft"))
    shown = until(
        lambda: attention_shown(widget),
        lambda shown: (shown["layer"], shown["head"]) == (last["layer"], last["head"] - 1),
        lambda shown: f"attention: left of head {last['head']} stands head {shown['head']}",
    )
    menus = widget.locator(".course-choice select")
    until(
        lambda: menus.evaluate_all("all => all.map((one) => Number(one.value))"),
        lambda said: said[-1] == shown["head"] and said[0] in (shown["layer"], shown["head"]),
        lambda said: f"attention: the menus say {said} where the small map says {shown['layer'], shown['head']}",
    )


def cell_of(widget: Locator, row: int, column: int) -> Locator:
    return widget.locator(f".course-cell[data-row='{row}'][data-column='{column}']")


def mask_shown(widget: Locator) -> dict:
    """What the mask board shows: `state` as answered by Python, and what stands in the page, row by row."""
    return stage_of(widget).evaluate(
        """e => {
            const words = (selector) => [...e.querySelectorAll(selector)].map((one) => one.textContent);
            const cells = [...e.querySelectorAll(".course-cell")];
            const n = Math.sqrt(cells.length);
            const rows = (of) => Array.from({length: n}, (_, i) => cells.slice(i * n, (i + 1) * n).map(of));
            const arrows = [...e.querySelectorAll(".course-mask-arrow")].map((one) => one.getAttribute("visibility") === "visible");
            return {
                ...JSON.parse(e.dataset.state),
                ticks: rows((one) => one.querySelector(".course-mask-tick").textContent === "✓"),
                checked: rows((one) => one.getAttribute("aria-checked") === "true"),
                numbers: rows((one) => one.querySelector(".course-mask-weight").textContent),
                arrows: Array.from({length: n}, (_, i) => arrows.slice(i * n, (i + 1) * n)),
                outputs: words(".course-mask-output > span"),
                nowhere: words(".course-mask-output > small"),
                detail: words(".course-mask-detail")[0],
                summary: words(".course-mask-summary")[0],
                pressed: words(".course-mask-preset[aria-pressed=true]"),
            };
        }"""
    )


def drive_mask_board(widget: Locator):
    """By click, by drag, by key and by each preset; the picture is always the mask that Python answered for."""
    presets = widget.locator(".course-mask-preset")
    last = round(widget.locator(".course-cell").count() ** 0.5) - 1
    keyboard, mouse = widget.page.keyboard, widget.page.mouse

    def mask_of(shown: dict) -> list[list[bool]]:
        return [[one == "1" for one in row] for row in shown["mask"]]

    def trouble(shown: dict, wanted=None, pressed=None) -> str:
        """What is wrong with what the board shows; nothing, if it agrees with itself and is as wanted."""
        mask = mask_of(shown)
        if not mask == shown["ticks"] == shown["checked"] == shown["arrows"]:
            return f"ticks and arrows are not those of {shown['mask']}"
        if [row for row, words in zip(mask, shown["nowhere"], strict=True) if any(row) == bool(words)]:
            return f"an empty row is not marked as such: {shown['nowhere']}"
        if wanted is not None and mask != wanted:
            return f"the mask should have been {wanted}, and is {mask}"
        if pressed is not None and pressed not in shown["pressed"]:
            return f"the preset {pressed!r} is not marked as chosen"
        return ""

    def looks(what: str, **wanted) -> list[list[bool]]:
        shown = until(
            lambda: mask_shown(widget),
            lambda shown: not trouble(shown, **wanted),
            lambda shown: f"mask board: after {what}, {trouble(shown, **wanted)}",
        )
        return mask_of(shown)

    def expect(what: str, action, row: int, columns, look: bool | None = None):
        before = looks(what)
        wanted = [list(line) for line in before]
        for column in columns:
            wanted[row][column] = not before[row][column] if look is None else look
        act(widget, f"mask board: {what}", action)
        settle(widget)
        looks(what, wanted=wanted)

    def drag():
        cell_of(widget, last, 0).scroll_into_view_if_needed()
        start, end = (cell_of(widget, last, column).bounding_box() for column in (0, last))
        mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
        mouse.down()
        mouse.move(end["x"] + end["width"] / 2, end["y"] + end["height"] / 2, steps=2)  # faster than the cells go by
        mouse.up()

    expect("a click", cell_of(widget, 0, last).click, 0, [last])
    expect("a second click", cell_of(widget, 0, last).click, 0, [last])
    first = looks("dragging")[last][0]
    expect("dragging", drag, last, range(last + 1), not first)
    expect("dragging again", drag, last, range(last + 1), first)
    press(cell_of(widget, 0, 0), "End")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowLeft")
    for key in ("Space", "Enter"):
        expect(key, lambda key=key: keyboard.press(key), min(1, last), [max(last - 1, 0)])
    for index in range(presets.count()):
        button = presets.nth(index)
        if button.get_attribute("aria-pressed") == "true":
            continue
        name = button.inner_text()
        act(widget, f"mask board: the preset {name!r}", button.click)
        looks(f"the preset {name!r}", pressed=name)


def heads_shown(widget: Locator) -> dict:
    """What the view of all heads shows: its state, the sentences, and the caption of every map."""
    return stage_of(widget).evaluate(
        """e => {
            const words = (selector) => [...e.querySelectorAll(selector)].map((one) => one.textContent);
            return {
                ...JSON.parse(e.dataset.state),
                sentence: words(".course-heads-line")[0],
                told: words(".course-heads-told")[0] ?? null,
                tokens: words(".course-heads-token"),
                numbers: words(".course-heads-number"),
                cells: words(".course-heads-panel svg text"),
            };
        }"""
    )


def word_of(widget: Locator, index: int) -> Locator:
    return widget.locator(f".course-heads-word[data-index='{index}']")


def map_of(widget: Locator, layer: int, head: int) -> Locator:
    return widget.locator(f".course-heads-map[data-layer='{layer}'][data-head='{head}']")


def drive_heads(widget: Locator):
    """Tokens by pointer and by key; maps by click and by key, opened and closed."""
    words, maps = widget.locator(".course-heads-word"), widget.locator(".course-heads-map")
    last, keyboard = words.count() - 1, widget.page.keyboard

    def expect(what: str, action, **wanted):
        act(widget, f"all heads: {what}", action)
        shown = until(
            lambda: heads_shown(widget),
            lambda shown: all(shown[name] == value for name, value in wanted.items()),
            lambda shown: f"all heads: {what} should have given {wanted}, and gave {shown}",
        )
        if (shown["token"] is None) != (not any(shown["tokens"])):
            raise WidgetError(f"all heads: after {what}, the captions of the maps do not fit token {shown['token']}")

    press(words.first, "Escape")
    words.first.blur()
    expect("pointing at a token", word_of(widget, last).hover, token=last)
    expect("pointing elsewhere", lambda: widget.page.mouse.move(2, 2), token=None)
    expect("focus", words.first.focus, token=0)
    for key, token in (("ArrowRight", min(1, last)), ("End", last), ("Home", 0)):
        expect(key, lambda key=key: keyboard.press(key), token=token)
    layer, head = (int(maps.last.get_attribute(f"data-{name}")) for name in ("layer", "head"))
    expect("a click on the last map", maps.last.click, layer=layer, head=head, token=0)
    if not heads_shown(widget)["told"]:
        raise WidgetError("all heads: the enlarged map does not say the weights of the followed token")
    expect("a second click", maps.last.click, layer=None, head=None)
    press(maps.last, "Home")
    expect("Enter", lambda: keyboard.press("Enter"), layer=layer, head=0)
    expect("Escape", lambda: keyboard.press("Escape"), layer=None, head=None)


def tile_of(widget: Locator, layer: int, head: int) -> Locator:
    return widget.locator(f".course-removal-tile[data-layer='{layer}'][data-head='{head}']")


def removal_shown(widget: Locator) -> dict:
    """What the removal board shows: `state` as answered by Python, and what stands in the page."""
    return stage_of(widget).evaluate(
        """e => {
            const words = (selector) => [...e.querySelectorAll(selector)].map((one) => one.textContent);
            const tiles = [...e.querySelectorAll(".course-removal-tile")];
            return {
                ...JSON.parse(e.dataset.state),
                checked: tiles.map((one) => Number(one.getAttribute("aria-checked") === "true")).join(""),
                marks: words(".course-removal-mark"),
                numbers: words(".course-removal-number"),
                percents: words(".course-removal-percent")[0],
                filled: parseFloat(e.querySelector(".course-removal-fill").style.width) / 100,
                labels: words(".course-removal-label"),
                summary: words(".course-removal-summary")[0],
                rows: words(".course-removal-detail li"),
            };
        }"""
    )


def drive_removal(widget: Locator):
    """Tiles by click and by key, and each button; the bar is always the accuracy that Python answered."""
    tiles, keyboard = widget.locator(".course-removal-tile"), widget.page.keyboard
    last = {name: int(tiles.last.get_attribute(f"data-{name}")) for name in ("layer", "head")}
    heads, count = last["head"] + 1, tiles.count()

    def expect(what: str, action, wanted: str, expect_change=True):
        act(widget, f"removal board: {what}", action, expect_change)
        settle(widget)
        shown = until(
            lambda: removal_shown(widget),
            lambda shown: "".join(shown["on"]) == shown["checked"] == wanted,
            lambda shown: f"removal board: {what} should have given {wanted}, and gave {shown['checked']}",
        )
        if abs(shown["filled"] - shown["accuracy"]) > 1e-6:
            raise WidgetError(f"removal board: after {what}, the bar is not the accuracy {shown['accuracy']}")

    def turned(place: int) -> str:
        now = removal_shown(widget)["checked"]
        return now[:place] + str(1 - int(now[place])) + now[place + 1 :]

    expect("a click", tiles.first.click, turned(0))
    expect("a second click", tiles.first.click, turned(0))
    press(tiles.first, "End")
    for key in ("Space", "Enter"):
        expect(key, lambda key=key: keyboard.press(key), turned(heads - 1))
    press(tiles.last, "Home")
    place = count - heads
    alone = "0" * place + "1" + "0" * (count - place - 1)
    for name, wanted in (("only this one", alone), ("all on", "1" * count), ("all but this one", turned_all(alone))):
        if removal_shown(widget)["checked"] != wanted:
            expect(name, widget.get_by_role("button", name=name, exact=True).click, wanted)


def turned_all(switches: str) -> str:
    return "".join(str(1 - int(one)) for one in switches)


def drive_translate(widget: Locator):
    """Steps by button, slider and key, every menu, another sentence, and one that nobody can read: it loses nothing."""
    on, field = widget.get_by_role("button", name="Next"), widget.locator("input[type=text]")
    press(stage_of(widget), "Home")  # it may start at a later word
    until(
        lambda: json.loads(look(widget)["state"])["step"],
        lambda step: step == 0,
        lambda step: f"translate: Home went to the step {step}",
    )
    settle(widget)
    first, sentence = picture_of(widget), field.input_value()
    seen = []

    def step(what, action):
        seen.append(json.loads(act(widget, f"translate: {what}", action)["state"])["step"])
        settle(widget)

    step("Next", on.click)
    step("slider", lambda: press(widget.locator(".noUi-handle"), "ArrowRight"))
    step("End", lambda: press(stage_of(widget), "End"))
    if seen[:2] != [1, 2]:
        raise WidgetError(f"translate: Next, slider and End went to the steps {seen}")
    ends_disabled(on, f"translate: Next can be pressed at the last step, {seen[-1]}")
    step("Home", lambda: press(stage_of(widget), "Home"))
    for menu in widget.locator("select").all():
        before = picture_of(widget)
        act(widget, "translate: a menu", lambda menu=menu: menu.select_option(index=1))
        looks_unlike(widget, before, "translate: another layer or head looks the same")
        act(widget, "translate: a menu", lambda menu=menu: menu.select_option(index=0))
    words = sentence.split()
    other = " ".join(words[:-1] if len(words) > 1 else words * 2)
    act(widget, "translate: another sentence", lambda: (retype(field, other), press(field, "Enter")))
    settle(widget)
    shown = picture_of(widget)
    complaint = refuse(widget, field, "qqq zzz")
    if not complaint or picture_of(widget) != shown:
        raise WidgetError(f"translate: a sentence of unknown words was answered with {complaint!r} and another picture")
    retype(field, sentence)
    recovers(widget, "translate: Translate", widget.get_by_role("button", name="Translate").click)
    looks_like(widget, first, "translate: the first sentence has another picture on return")


def drive_fill_in(widget: Locator):
    """One blank more by key, a sentence without a blank, which loses nothing, and back by button to the first picture."""
    field = widget.locator("input[type=text]")
    first, sentence = picture_of(widget), field.input_value()
    act(widget, "fill in: one blank more", lambda: (retype(field, f"{sentence} __"), press(field, "Enter")))
    settle(widget)
    shown = looks_unlike(widget, first, "fill in: a sentence with one blank more looks the same")
    complaint = refuse(widget, field, "no blank at all")
    if "no blank" not in complaint or picture_of(widget) != shown:
        raise WidgetError(f"fill in: a sentence without a blank was answered with {complaint!r} and another picture")
    retype(field, sentence)
    recovers(widget, "fill in: Fill in", widget.get_by_role("button", name="Fill in").click)
    looks_like(widget, first, "fill in: the first sentence has another picture on return")


def drive_next_word(widget: Locator):
    """Pieces by button and by key, every dial, another beginning, an empty one, which loses nothing, and Reset."""
    field, first = widget.locator("input[type=text]"), picture_of(widget)
    sentence = field.input_value()

    def written(what, action, wanted):
        act(widget, f"next word: {what}", action)
        until(
            lambda: len(json.loads(look(widget)["state"])["written"]),
            wanted,
            lambda count: f"next word: {what} left {count} pieces",
        )
        settle(widget)

    def button(name):
        return widget.get_by_role("button", name=name, exact=True).click

    many = widget.get_by_role("button", name=re.compile(r"^Write \d+$"))
    written("Next", button("Next"), lambda count: count == 1)
    written("right arrow", lambda: press(stage_of(widget), "ArrowRight"), lambda count: count == 2)
    written("Back", button("Back"), lambda count: count == 1)
    written("Start again", button("Start again"), lambda count: count == 0)
    looks_like(widget, first, "next word: Start again did not bring back the first picture")
    written("the button for many pieces", many.click, lambda count: count >= 2)
    for handle in widget.locator(".noUi-handle").all():
        act(widget, "next word: a dial", lambda handle=handle: press(handle, arrow(handle)))
    settle(widget)
    words = sentence.split()
    other = " ".join(words[:-1] if len(words) > 1 else words * 2)
    act(widget, "next word: another beginning", lambda: (retype(field, other), press(field, "Enter")))
    settle(widget)
    shown = picture_of(widget)
    if "empty" not in refuse(widget, field, " ") or picture_of(widget) != shown:
        raise WidgetError("next word: an empty beginning was not refused, or it changed the picture")
    recovers(widget, "next word: Reset", button("Reset"))
    looks_like(widget, first, "next word: Reset did not bring back the first picture")
    until(
        field.input_value,
        lambda text: text == sentence,
        lambda text: f"next word: Reset left the beginning {text!r}",
    )


def retype(field: Locator, text: str):
    """Replace a line by keys, as a person does: what a script writes there never counts as a change when it is left."""
    press(field, "ControlOrMeta+a")
    field.page.keyboard.type(text)


def refuse(widget: Locator, field: Locator, text: str) -> str:
    """Type something that the widget must refuse; gives what it says."""
    before = look(widget)["count"]
    retype(field, text)
    press(field, "Enter")
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if (now := next_look(widget, before))["status"] == "error" and now["count"] != before:
            return now["error"]
        time.sleep(0.03)
    raise WidgetError(f"{text!r} was not refused within {WAIT:.0f} s")


def recovers(widget: Locator, what: str, action):
    """Do something after a refusal, and wait until nothing is refused any more. The refusal may come twice, once for the key
    and once for leaving the line, so one that is still to be seen for a moment says nothing."""
    action()
    until(
        lambda: look(widget),
        lambda now: now["status"] == "ok",
        lambda now: f"{what} gave an error: {now['error'][-300:]}",
    )
    settle(widget)


def beam_shown(widget: Locator) -> dict:
    """What the beam tree shows: its state, the sentence below it, and the nodes with their kinds in order."""
    return stage_of(widget).evaluate(
        """e => {
            const nodes = [...e.querySelectorAll(".course-beam-node")];
            const some = (name) => nodes.flatMap((one, i) => one.classList.contains(`course-beam-${name}`) ? [i] : []);
            return {
                ...JSON.parse(e.dataset.state),
                line: e.querySelector(".course-beam-line").textContent,
                words: nodes.map((one) => one.querySelector(".course-beam-word").textContent),
                scores: nodes.map((one) => one.querySelector(".course-beam-score")?.textContent ?? ""),
                kept: some("kept"), ended: some("ended"), dropped: some("dropped"), best: some("best"), way: some("way"),
                pressed: [...e.querySelectorAll("[aria-pressed=true]")].map((one) => Number(one.textContent)),
            };
        }"""
    )


def node_of(widget: Locator, index: int) -> Locator:
    return widget.locator(f".course-beam-node[data-node='{index}']")


def drive_beam(widget: Locator):
    """Every width, every sentence, a node by pointer, and the tree by keys."""
    widget.page.mouse.move(2, 2)  # a pointer that leaves a node on its way would be taken for the answer
    settle(widget)
    for button in widget.locator(".course-beam-button").all():
        width = int(button.inner_text())
        if beam_shown(widget)["width"] != width:
            act(widget, f"beam tree: width {width}", button.click)
        until(
            lambda: beam_shown(widget),
            lambda shown, width=width: (shown["width"], shown["pressed"]) == (width, [width]),
            lambda shown, width=width: f"beam tree: the button {width} gave a tree of width {shown['width']}",
        )
    menu = widget.locator("select")
    size, chosen = menu.evaluate("e => [e.options.length, e.selectedIndex]")
    if size > 1:
        act(widget, "beam tree: the menu", lambda: menu.select_option(index=(chosen + 1) % size))
        act(widget, "beam tree: the menu", lambda: menu.select_option(index=chosen))
    settle(widget)
    before = beam_shown(widget)["line"]
    act(widget, "beam tree: pointing at a node", node_of(widget, 1).hover)
    act(widget, "beam tree: pointing elsewhere", lambda: widget.page.mouse.move(2, 2))
    until(
        lambda: beam_shown(widget)["line"],
        lambda line: line == before,
        "beam tree: after pointing at a node, its words stay",
    )
    act(widget, "beam tree: focus", node_of(widget, 0).focus)
    best = beam_shown(widget)["best"]
    keyboard = widget.page.keyboard
    for key, node in (("End", best[-1]), ("ArrowLeft", best[-2]), ("Home", 0), ("ArrowRight", best[1])):
        act(widget, f"beam tree: {key}", lambda key=key: keyboard.press(key))
        until(
            lambda: beam_shown(widget),
            lambda now, node=node: now["node"] == node and now["way"] == [one for one in best if one <= node],
            lambda now, key=key, node=node: (
                f"beam tree: {key} went to node {now['node']} by {now['way']}, expected {node}"
            ),
        )
    act(widget, "beam tree: Escape", lambda: keyboard.press("Escape"))
    until(
        lambda: beam_shown(widget),
        lambda now: now["node"] == -1 and not now["way"],
        "beam tree: Escape leaves a node chosen",
    )


def change(area: Locator, what: str, action) -> str:
    """Do something to a control and wait until the words of its surroundings change."""
    before = area.inner_text()
    action()
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if (now := area.inner_text()) != before:
            return now
        time.sleep(0.03)
    raise WidgetError(f"{what} changed nothing within {WAIT:.0f} s in: {before[:200]}")


def says(area: Locator, what: str, action, wanted) -> str:
    """Do something to a control and wait until the words of its surroundings are as wanted; gives them.

    A box replaces its parts one message at a time: the first change seen need not be the last."""
    change(area, what, action)
    return until(area.inner_text, wanted, lambda words: f"{what} left these words: {words[-300:]}")


def drive_quiz(box: Locator):
    """Choose by keyboard, commit, read the verdict."""
    choice = box.locator("input[type=radio]").first
    choice.focus()
    choice.page.keyboard.press("Space")
    commit = box.get_by_role("button", name="Commit")
    says(box, "quiz: Commit", commit.click, lambda words: "Right" in words)
    until(
        lambda: [part for part in (commit, choice) if part.is_visible() and part.is_enabled()],
        lambda usable: not usable,
        "after committing, the guess of a quiz can still be changed",
    )


def hint_is_whole(words: str) -> bool:
    """The last line of a hint says what is left; when nothing is, the button says so too."""
    return bool(re.search(r"\(\d+ more\)", words)) or ("(no more hints" in words and "No more hints" in words)


def drive_result(box: Locator):
    """The buttons under the result of an exercise: next hint, solution, hide it again."""
    before = box.inner_text()
    if (hint := box.get_by_role("button", name="Hint")).count():
        before = says(box, "exercise: Hint", hint.click, hint_is_whole)
    solution, hide = (box.get_by_role("button", name=name, exact=True) for name in ("Solution", "Hide solution"))
    says(
        box,
        "exercise: Solution",
        solution.click,
        lambda words: "Solution of exercise" in words and "Hide solution" in words,
    )
    says(box, "exercise: Hide solution", hide.click, lambda words: words == before)


DRIVERS = {
    "explore": drive_explore,
    "stepper": drive_stepper,
    "guess": drive_guess,
    "plane": drive_plane,
    "attention": drive_attention,
    "mask": drive_mask_board,
    "heads": drive_heads,
    "removal": drive_removal,
    "translate": drive_translate,
    "beamtree": drive_beam,
    "fillin": drive_fill_in,
    "nextword": drive_next_word,
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
        setTimeout(() => resolve(null), 15000);
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


def key_to_picture(widget: Locator, presses: int = 8, control=".noUi-handle", keys=("ArrowRight", "ArrowLeft")):
    """Milliseconds from key press to new picture, on the first such control, back and forth."""
    handle = widget.locator(control).first
    times = []
    for index in range(presses):
        settle(widget)
        stage_of(widget).evaluate(TIME_NEXT)
        press(handle, keys[index % 2])
        times.append(widget.page.evaluate("() => window.courseTimed"))
        if times[-1] is None:
            raise WidgetError(f"{keys[index % 2]} on {control} brought no new picture within 15 s")
    return times


def usual_time(widget: Locator, most: float, presses: int = 6, keys=("ArrowRight", "ArrowLeft"), **options) -> float:
    """The median of `key_to_picture`; an even number of presses leaves the control where it was.

    One above `most` is measured again, twice at most: other work on the machine passes, a slow widget stays slow.
    """
    for _ in range(3):
        median = statistics.median(key_to_picture(widget, presses, keys=keys, **options))
        if median <= most:
            break
        keys = keys[::-1] if presses % 2 else keys  # after an odd number of presses, the way back comes first
    return median


# Tab enters a widget from a mark put before it, as it would from whatever stands before it in the page.
BEFORE = """e => {
    const mark = document.createElement("span");
    mark.tabIndex = 0;
    mark.id = "course-before";
    e.before(mark);
    mark.focus();
}"""
FOCUSED = """e => {
    const now = document.activeElement;
    if (!e.contains(now)) return null;
    const kinds = {handle: ".noUi-handle", readout: ".widget-readout", query: ".course-handle", token: ".course-token", map: ".course-map", cell: ".course-cell", word: ".course-heads-word", headmap: ".course-heads-map", tile: ".course-removal-tile", node: ".course-beam-node", stage: ".course-stage",
                   menu: "select", box: "input[type=checkbox]", radio: "input[type=radio]", range: "input[type=range]",
                   text: "input[type=text], textarea", button: "button"};
    const seen = now.getBoundingClientRect();
    const style = getComputedStyle(now);
    const inner = now.querySelector("rect") ? getComputedStyle(now.querySelector("rect")) : style;
    return {
        kind: Object.keys(kinds).find((name) => now.matches(kinds[name])) ?? now.tagName.toLowerCase(),
        name: now.getAttribute("aria-label") ?? now.labels?.[0]?.textContent ?? now.textContent.trim(),
        visible: seen.width > 0 && seen.height > 0,
        marked: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) || parseFloat(inner.strokeWidth) >= 3,
    };
}"""


def tab_through(widget: Locator, at_each_stop=None, most: int = 40) -> list[dict]:
    """Every stop that Tab makes inside a widget, in order, with keys pressed there by `at_each_stop(stop)`."""
    keyboard = widget.page.keyboard
    widget.evaluate(BEFORE)
    stops = []
    try:
        for _ in range(most):
            keyboard.press("Tab")
            stop = widget.evaluate(FOCUSED)
            if stop is None:
                return stops
            stops.append(stop)
            if at_each_stop:
                at_each_stop(stop)
    finally:
        widget.page.evaluate("() => document.getElementById('course-before').remove()")
    raise WidgetError(f"Tab did not leave the widget after {most} stops: a keyboard is caught in it")

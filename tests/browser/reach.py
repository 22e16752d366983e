"""What somebody meets who has no pointer or cannot see the page: names, the order of Tab, and where the keyboard is.

Names come from the browser's own accessibility tree, which is what a screen reader is given.
"""

from playwright.sync_api import Locator

from tests.browser.lab import Notebook
from tests.browser.operate import KIND, WIDGETS, WidgetError, tab_through

OUTPUTS = "document.querySelectorAll('.jp-Notebook .jp-OutputArea-output')"
# What Tab should reach in a widget: a group of things with one tab stop counts once.
TABBABLE = """e => [...e.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1']), [contenteditable]:not([contenteditable=false])")]
    .filter((one, _, all) => one.type !== "radio" || one === (all.find((other) => other.name === one.name && other.checked)
        ?? all.find((other) => other.name === one.name)))
    .filter((one) => !one.disabled && (one.tabIndex >= 0 || one.isContentEditable) && one.type !== "hidden"
        && one.getClientRects().length && getComputedStyle(one).visibility === "visible")
    .map((one) => one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent ?? one.textContent.trim())"""


def nameless(notebook: Notebook) -> list[str]:
    """Controls and pictures in the outputs that have no name, each as "button in output 7: its markup"."""
    session = notebook.page.context.new_cdp_session(notebook.page)
    found = []
    try:
        session.send("Accessibility.enable")
        for index in range(notebook.page.evaluate(f"() => {OUTPUTS}.length")):
            area = session.send("Runtime.evaluate", {"expression": f"{OUTPUTS}[{index}]"})["result"]["objectId"]
            for node in session.send("Accessibility.queryAXTree", {"objectId": area})["nodes"]:
                if node.get("ignored") or not needs_a_name(node) or node.get("name", {}).get("value", "").strip():
                    continue
                found.append(f"{role_of(node)} in output {index}: {markup(session, node)}")
    finally:
        session.detach()
    return found


def role_of(node: dict) -> str:
    return node.get("role", {}).get("value", "")


def needs_a_name(node: dict) -> bool:
    focusable = any(item["name"] == "focusable" and item["value"].get("value") for item in node.get("properties", []))
    return focusable or role_of(node) in ("image", "img")


def markup(session, node: dict) -> str:
    element = session.send("DOM.resolveNode", {"backendNodeId": node["backendDOMNodeId"]})["object"]["objectId"]
    call = {"objectId": element, "functionDeclaration": "function () { return this.cloneNode().outerHTML; }"}
    text = session.send("Runtime.callFunctionOn", {**call, "returnByValue": True})["result"].get("value", "")
    return text if len(text) <= 160 else f"{text[:110]} ... {text[-50:]}"


def unreachable(notebook: Notebook) -> tuple[int, list[str]]:
    """Go through every widget by Tab: how many stops there were, and what is wrong with them."""
    stops, problems = 0, []
    for index, widget in enumerate(notebook.page.locator(WIDGETS).all()):
        widget.scroll_into_view_if_needed()
        wrong, count = wrong_stops(widget)
        stops += count
        problems += [f"{widget.evaluate(KIND)} {index + 1}: {problem}" for problem in wrong]
    return stops, problems


def wrong_stops(widget: Locator) -> tuple[list[str], int]:
    expected = widget.evaluate(TABBABLE)
    try:
        met = tab_through(widget, most=len(expected) + 5)
    except WidgetError as problem:
        return [str(problem)], 0
    wrong = [f"stop {number} of Tab has no name" for number, stop in enumerate(met, 1) if not stop["name"]]
    wrong += [f"Tab stops at {stop['name']!r}, which cannot be seen" for stop in met if not stop["visible"]]
    wrong += [f"at {stop['name']!r} nobody sees where the keyboard is" for stop in met if not stop["marked"]]
    if len(met) != len(expected):
        wrong.append(f"Tab makes {len(met)} stops, {[stop['name'] for stop in met]}, and there are {expected}")
    return wrong, len(met)

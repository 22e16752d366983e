"""What all widgets share: on a phone nothing is cut off, and the note says where the answer comes from."""

import pytest

from tests.browser.examples import NAMES
from tests.browser.operate import look, until
from tests.browser.widgets.stored import open_stored
from utils.widgets import charts, explore, registry
from utils.widgets.base import page_script, page_style

MODULES = dict(zip(NAMES, registry.MODULES, strict=True))
# Words and controls of a widget that its page cuts off; what scrolls sideways may be wider.
CUT_OFF = """root => {
    const end = root.getBoundingClientRect().right + 1;
    const scrolls = (part) => part !== root && (getComputedStyle(part).overflowX === "auto" || scrolls(part.parentElement));
    return [...root.querySelectorAll("*")]
        .filter((part) => part.checkVisibility() && getComputedStyle(part).display !== "inline" && part.getBoundingClientRect().right > end && !scrolls(part))
        .map((part) => `${part.tagName} ${part.className.baseVal ?? part.className}: ${part.textContent.slice(0, 30)}`);
}"""


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_cuts_nothing_off(name, chromium):
    widget = open_stored(chromium, MODULES[name].example())
    widget.page.set_viewport_size({"width": 384, "height": 800})
    widget.page.wait_for_timeout(300)
    assert widget.evaluate(CUT_OFF) == []
    widget.page.close()


def test_the_note_tells_a_computed_answer_from_a_stored_one_and_what_needs_python(chromium):
    def bars(tokens):
        return charts.bars(["tokens"], [tokens], "One bar.")

    for widget, mode, note in [
        (MODULES["explore"].example(), "page", "Without Python: this page computes with the reference implementation."),
        (explore(bars, "Bars.", tokens=[1, 2]), "page", "Without Python: stored answers."),
        (MODULES["decoding"].example(), "frozen", "What is gray needs Python: run this lesson as a notebook."),
    ]:
        opened = open_stored(chromium, widget)
        now = look(opened)
        assert (now["mode"], now["note"]) == (mode, note)
        opened.page.close()


def test_a_quiz_keeps_its_place_when_it_is_committed_and_its_margin_beside_other_widgets(chromium):
    opened = open_stored(chromium, MODULES["quiz"].example())
    # The next widget of a notebook brings the shared style again.
    opened.page.add_style_tag(content=page_style(["explore"]))
    text = opened.locator(".course-quiz-option > :last-child").first
    before = text.bounding_box()
    opened.get_by_role("radio").first.check()
    opened.get_by_role("button", name="Commit").click()
    assert opened.locator(".course-quiz-right, .course-quiz-wrong").count() == 2
    assert text.bounding_box() == before
    assert opened.evaluate("e => getComputedStyle(e).paddingLeft") == "12px"
    opened.page.close()


# A kernel that is connected and never answers.
SILENT = """(state) => {
    const traits = {...state, error: "", answered: 0};
    const model = {get: (name) => traits[name], set: (name, value) => (traits[name] = value), save_changes() {}, on() {}, off() {}};
    courseWidgets.explore.render({model, el: document.body.appendChild(document.createElement("div"))});
}"""


def test_the_note_of_a_busy_kernel_says_where_the_answer_comes_from(chromium):
    def bars(tokens):
        return charts.bars(["tokens"], [tokens], "One bar.")

    for widget, control, note in [
        (explore(bars, "Bars.", tokens=[1, 2]), "button >> text=2", "Python is busy: stored answers."),
        (
            MODULES["explore"].example(),
            "input",
            "Python is busy: this page computes with the reference implementation.",
        ),
    ]:
        page = chromium.new_page()
        page.set_content(f"<!doctype html><script>{page_script({'explore'})}</script>")
        page.evaluate(SILENT, widget.page_state())
        page.locator(".course-widget").locator(control).first.click()
        until(page.locator(".course-note").inner_text, lambda text, note=note: text == note, "the note is another")
        page.close()


# The least contrast of letters on a weight from 0 to 1, in the colors that widgets shade with.
LEAST_CONTRAST = """root => {
    const pen = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
    const light = (color) => {
        root.style.color = color;
        pen.fillStyle = getComputedStyle(root).color;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrasts = ["var(--c-strong)", "var(--c-key)", "var(--c-bad)"].flatMap((color) =>
        Array.from({length: 101}, (_, index) => {
            const [a, b] = [light(shade(index / 100, color)), light(onShade(index / 100, color))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);
        }));
    return Math.min(...contrasts);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_letters_can_be_read_on_every_weight(theme, chromium):
    widget = open_stored(chromium, MODULES["mask_board"].example())
    widget.page.evaluate("theme => (document.documentElement.dataset.theme = theme)", theme)
    widget.evaluate("(e, dark) => e.style.setProperty('--c-ground', dark ? '#111' : '#fff')", theme == "dark")
    assert widget.evaluate(LEAST_CONTRAST) > 4.3
    widget.page.close()

"""Facts for those who cannot see a picture, a color or a pointer; what only a browser can tell stands in tests/browser."""

import itertools
import re
from html.parser import HTMLParser

import ipywidgets
import pytest

from tests.browser import lessons
from utils.course.board import board, board_html
from utils.course.environment import EnvironmentReport, Finding
from utils.course.exercises import grade, result_widget
from utils.course.places import ROOT
from utils.course.quiz import QuizWidget, find_quiz
from utils.course.results import Table
from utils.draw import explore, figures, guess_weights, style
from utils.draw.layout import contrast
from utils.draw.parts import LOOKS
from utils.draw.stage import STATIC

FORMS = {"lecture": lessons.lecture, "student": lessons.student}
PAGES = [(form, name) for form in FORMS for name in lessons.NAMES]
FEWEST_WORDS = 6
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\([^)]+\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "data").glob("*.md")])


def says_something(words: str) -> bool:
    is_file = re.search(r"\.(png|jpe?g|svg|gif)\b", words)
    return len(words.split()) >= FEWEST_WORDS and not is_file


def prose_of(path) -> str:
    return "\n\n".join(cell["source"] for cell in lessons.cells_of(path) if cell["cell_type"] == "markdown")


# Pictures


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_picture_of_a_document_has_words(path):
    assert [words for words, _ in IMAGE.findall(path.read_text(encoding="utf-8")) if not says_something(words)] == []


@pytest.mark.parametrize(("form", "name"), PAGES)
def test_every_picture_between_the_cells_has_words(form, name):
    assert [words for words, _ in IMAGE.findall(prose_of(FORMS[form](name))) if not says_something(words)] == []


# Headings, links, tables


@pytest.mark.parametrize(("form", "name"), PAGES)
def test_headings_go_down_one_level_at_a_time(form, name):
    text = CODE.sub("", prose_of(FORMS[form](name)))
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert [pair for pair in itertools.pairwise(levels) if pair[1] > pair[0] + 1] == []


@pytest.mark.parametrize("path", [*DOCUMENTS, *(FORMS[form](name) for form, name in PAGES)], ids=lambda p: p.name)
def test_the_words_of_a_link_say_where_it_leads(path):
    text = CODE.sub("", prose_of(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8"))
    vague = {"here", "link", "this", "click here", "this link", "see", "more"}
    assert [words for words in LINK.findall(text) if words.strip().lower() in vague or words.startswith("http")] == []


class Cells(HTMLParser):
    """Rows of a table as lists of (tag, scope)."""

    def __init__(self, text):
        super().__init__()
        self.rows = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append((tag, dict(attributes).get("scope")))


TABLES = {
    "results": (lambda: Table(["model", "error", "time"], [["a", 1, 2], ["b", 3, 4]]).html(), True),
    "progress": (lambda: board_html(board().rows), True),
    "environment": (lambda: EnvironmentReport([Finding("Python", "3.11")])._repr_html_(), False),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_of_a_table_is_named_by_its_row_and_column(name):
    make, has_head = TABLES[name]
    head, *body = Cells(make()).rows if has_head else (None, *Cells(make()).rows)
    assert head is None or set(head) == {("th", "col")}
    assert body and all(row[0] == ("th", "row") and set(row[1:]) == {("td", None)} for row in body)


# Controls

NEEDS_A_NAME = (
    ipywidgets.widgets.widget_int._BoundedInt,
    ipywidgets.widgets.widget_float._BoundedFloat,
    ipywidgets.FloatLogSlider,
    ipywidgets.Dropdown,
    ipywidgets.ToggleButtons,
    ipywidgets.Checkbox,
    ipywidgets.Text,
    ipywidgets.Textarea,
    ipywidgets.Button,
)


def controls_in(widget):
    found = [widget] if isinstance(widget, NEEDS_A_NAME) else []
    return found + [one for child in getattr(widget, "children", ()) for one in controls_in(child)]


def picture(**_):
    return figures.bars(["a"], [1.0], "One bar")


WIDGETS = {
    "explore": lambda: explore(
        picture, "a bar", s=(0, 3, 1, 1), f=(0.0, 1.0, 0.1, 0.5), m=["a", "b", "c", "d", "e", "f", "g"], t="x", b=True
    ),
    "guess": lambda: guess_weights(["a", "b"], [0.4, 0.6], "Which?"),
    "exercise": lambda: result_widget(grade("0.1", lambda numbers: None)),
    "quiz": lambda: QuizWidget(find_quiz("1.a")).box,
}


@pytest.mark.parametrize("name", WIDGETS)
def test_every_control_says_what_it_is(name):
    controls = controls_in(WIDGETS[name]())
    assert controls and [one for one in controls if not one.description.strip()] == []


SCRIPTS = sorted(STATIC.glob("*.js"))
MADE = re.compile(r'(?:const (\w+) = )?html\("(button|select|input|textarea)", (\w+)(.*)')
ROLE = re.compile(r'role: "(button|slider|checkbox|switch|radio|treeitem)"')


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_what_a_script_draws_to_be_operated_has_a_name_and_obeys_keys(path):
    """A button has words, a menu or a slider stands in a label, and what is only drawn like one has a label and keys."""
    lines = path.read_text(encoding="utf-8").split("\n")
    code = "\n".join(lines)
    for number, line in enumerate(lines):
        if made := MADE.search(line):
            name, tag, parent, rest = made.groups()
            near = "\n".join(lines[number : number + 14])
            in_label = tag != "button" and re.search(rf'const {parent} = html\("label"', code)
            later = rf'\b{name}\.setAttribute\("aria-label"'
            named = in_label or re.search(rf"\b{name}\.textContent = |aria-label", near) or re.search(later, code)
            assert named, f"{path.name}, line {number + 1}: a {tag} without a name"
    if ROLE.search(code):
        assert "aria-label" in code and '"keydown"' in code and "tabindex" in code
        style_sheet = path.with_suffix(".css").read_text(encoding="utf-8")
        assert ":focus" in style_sheet, f"{path.name}: nobody sees where the keyboard is"


# Colors


def test_every_color_that_words_are_written_in_can_be_read_on_white():
    for ink in (style.BLACK, style.BLUE, style.GREY, style.BROWN):
        assert contrast(ink, "white") >= 4.5


@pytest.mark.parametrize("path", [*sorted(STATIC.glob("*.css")), ROOT / "utils/course/text.py"], ids=lambda p: p.name)
def test_the_place_of_the_keyboard_stands_out_on_light_and_dark_pages(path):
    rules = re.findall(r"[^{}]*:focus[^{]*\{([^}]*)\}", path.read_text(encoding="utf-8"))
    shades = [shade for rule in rules for shade in re.findall(r"(?:outline|stroke): (?:\d+px solid )?(#\w+)", rule)]
    assert shades and all(min(contrast(shade, page) for page in ("white", "#111111")) >= 3 for shade in shades)


def test_lines_are_told_apart_by_more_than_their_color():
    assert len({marker for _, marker, _ in LOOKS}) == len(LOOKS)
    assert len({(marker, line) for _, marker, line in LOOKS}) == len({shade for shade, _, _ in LOOKS}) == len(LOOKS)

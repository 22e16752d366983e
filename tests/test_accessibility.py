"""Facts for those who cannot see a picture, a color or a pointer; what only a browser can tell stands in tests/browser."""

import itertools
import re
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest

from tests.browser import lessons
from utils.build.environment import EnvironmentReport, Finding
from utils.build.results import Table
from utils.exercises.board import current_board
from utils.paths import ROOT
from utils.plots import style
from utils.plots.layout import contrast, contrast_on_pages
from utils.plots.parts import LOOKS
from utils.widgets.stage import STATIC

PAGES = [form(name) for form in (lessons.lecture, lessons.student) for name in lessons.NAMES]
FEWEST_WORDS = 6
IMAGE = re.compile(r"!\[([^\]]*)\]\([^)\s]+[^)]*\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\([^)]+\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "data").glob("*.md")])


def says_something(words: str) -> bool:
    is_file = re.search(r"\.(png|jpe?g|svg|gif)\b", words)
    return len(words.split()) >= FEWEST_WORDS and not is_file


def prose_of(path) -> str:
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n\n".join(cell["source"] for cell in lessons.cells_of(path) if cell["cell_type"] == "markdown")


# Pictures and links


@pytest.mark.parametrize("path", [*DOCUMENTS, *PAGES], ids=lambda path: path.name)
def test_every_picture_has_words_and_every_link_says_where_it_leads(path):
    text = prose_of(path)
    assert [words for words in IMAGE.findall(text) if not says_something(words)] == []
    vague = {"here", "link", "this", "click here", "this link", "see", "more"}
    links = LINK.findall(CODE.sub("", text))
    assert [words for words in links if words.strip().lower() in vague or words.startswith("http")] == []


# Headings and tables


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_headings_go_down_one_level_at_a_time(path):
    text = CODE.sub("", prose_of(path))
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert [pair for pair in itertools.pairwise(levels) if pair[1] > pair[0] + 1] == []


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
    "progress": (lambda: current_board().to_html(), True),
    "environment": (lambda: EnvironmentReport([Finding("Python", "3.11")])._repr_html_(), False),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_of_a_table_is_named_by_its_row_and_column(name):
    make, has_head = TABLES[name]
    head, *body = Cells(make()).rows if has_head else (None, *Cells(make()).rows)
    assert head is None or set(head) == {("th", "col")}
    assert body and all(row[0] == ("th", "row") and set(row[1:]) == {("td", None)} for row in body)


# Colors


def test_every_color_that_words_are_written_in_can_be_read_on_light_and_dark_pages():
    for ink in (style.BLACK, style.BLUE, style.GREY, style.BROWN, style.DARK_RED):
        assert contrast_on_pages(ink, "white") >= 4.5


def test_every_line_of_a_figure_is_seen_on_light_and_dark_pages():
    for shade in {shade for shade, _, _ in LOOKS} | {*style.COLORS.values(), *style.SERIES, style.MUTED}:
        assert contrast_on_pages(shade, "white") >= 3, shade


@pytest.mark.parametrize("name", [style.WEIGHTS_MAP, style.SIGNED_MAP])
def test_numbers_can_be_read_on_every_color_of_a_heat_map_on_light_and_dark_pages(name):
    for shade in mpl.colormaps[name](np.linspace(0, 1, 501)):
        assert contrast_on_pages(style.ink_on(shade), shade) >= 4.5


@pytest.mark.parametrize("path", [*sorted(STATIC.glob("*.css")), ROOT / "utils/checks/text.py"], ids=lambda p: p.name)
def test_the_place_of_the_keyboard_stands_out_on_light_and_dark_pages(path):
    rules = re.findall(r"[^{}]*:focus[^{]*\{([^}]*)\}", path.read_text(encoding="utf-8"))
    shades = [shade for rule in rules for shade in re.findall(r"(?:outline|stroke): (?:\d+px solid )?(#\w+)", rule)]
    assert shades and all(min(contrast(shade, page) for page in ("white", "#111111")) >= 3 for shade in shades)


def test_lines_are_told_apart_by_more_than_their_color():
    assert len({marker for _, marker, _ in LOOKS}) == len(LOOKS)
    assert len({(marker, line) for _, marker, line in LOOKS}) == len({shade for shade, _, _ in LOOKS}) == len(LOOKS)

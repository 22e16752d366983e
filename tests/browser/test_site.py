"""The website: every link resolves, nothing is missing from a lesson, and its widgets answer without a kernel.

It is built as if it were published on a server of this machine, which also has the README as a page.
"""

import functools
import http.server
import json
import re
import shutil
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import mistune
import pytest

from tests.browser.contrast import SITE_FIGURE, SITE_PROSE, longest_line, wrong_in_dark
from tests.browser.lab import SLOW, Notebook, errors, page_mistakes
from tests.browser.site import WIDTHS, open_page, pages_of
from utils import paths
from utils.build.documents import README, filled_in
from utils.build.live import live_states
from utils.build.site.__main__ import build_site
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import exercises_of

LECTURES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(paths.LECTURES.glob("*.ipynb"))}
HEADS, BEAM = "05_multi_head_attention", "06_transformer"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        """Nothing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """(folder, address) of a server that stands in for the place where the course is published."""
    folder = tmp_path_factory.mktemp("published")
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture(scope="module")
def site(server, tmp_path_factory):
    folder, address = server
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "site_url", lambda: f"{address}/site")
        patch.setattr(paths, "repository_url", lambda: "https://github.com/example/course")
        build_site(folder / "site", tmp_path_factory.mktemp("scratch"))
        readme = filled_in(README.read_text(encoding="utf-8"))
    shutil.copytree(paths.ROOT / "docs/images", folder / "docs/images")
    shown = mistune.create_markdown(escape=False, plugins=["table"])(readme)
    (folder / "README.html").write_text(f'<!doctype html><meta charset="utf-8">{shown}', encoding="utf-8")
    return folder / "site"


@pytest.fixture
def opened(site, chromium, request):
    """Opens pages of the site and, at the end, finds nothing wrong with any of them."""
    pages = []

    def open_one(name, **options):
        pages.append(open_page(chromium, site / f"{name}.html", **options))
        return pages[-1].page

    yield open_one
    problems = [problem for page in pages for problem in page.problems()]
    for page in pages:
        page.close()
    assert problems == []


class Addresses(HTMLParser):
    """The addresses that a page names and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in {"img", "script", "link", "iframe"}:
            self.loaded += [
                given[name] for name in ("src", "href") if given.get(name) and given.get("rel") != "canonical"
            ]


@pytest.fixture(scope="module")
def addresses(site):
    return {file: Addresses(file.read_text(encoding="utf-8")) for file in pages_of(site)}


def unresolved(addresses: dict[Path, Addresses]) -> list[str]:
    """Links to a file or to an anchor that is not there, and whatever a page loads from another host."""
    wrong = []
    for file, page in addresses.items():
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme in {"http", "https"}:
                wrong += [f"{file.name} loads {address}"] if address in page.loaded else []
                continue
            if parts.scheme in {"data", "mailto"}:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                wrong.append(f"{file.name}: {address} leads nowhere")
            elif parts.fragment and target in addresses and unquote(parts.fragment) not in addresses[target].anchors:
                wrong.append(f"{file.name}: {address} has no such anchor")
    return wrong


def test_every_link_and_anchor_resolves_and_nothing_is_loaded_from_elsewhere(addresses):
    assert len(addresses) > 15
    assert unresolved(addresses) == []


def test_a_dead_link_a_missing_anchor_and_an_outside_script_are_found(site):
    planted = '<a href="nowhere.html"></a><a href="#missing"></a><script src="https://example.org/a.js"></script>'
    assert len(unresolved({site / "index.html": Addresses(planted)})) == 3


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_a_lesson_page_has_all_exercises_with_closed_hints_and_solutions_and_all_quizzes(lesson, site):
    page = (site / f"{lesson.name}.html").read_text(encoding="utf-8")
    for exercise in exercises_of(lesson.number):
        _, _, after = page.partition(f'id="exercise-{exercise.id.replace(".", "-")}"')
        block = after.partition("</div></section>")[0].partition('class="exercise"')[0]
        assert len(re.findall(r"<summary>Hint \d", block)) == len(exercise.hints)
        assert '<details class="solution"><summary>Solution</summary>' in block
    source = (paths.SOURCES / f"{lesson.name}.py").read_text(encoding="utf-8")
    assert re.findall(r'id="quiz-([\w-]+)"', page) == [
        name.replace(".", "-") for name in re.findall(r'quiz\("(.+?)"\)', source)
    ]
    assert not re.search(r"SOLUTION|class=.course-result|>assert ", page), (
        "marks of the build, results of checks or self-checks"
    )
    assert "<details open" not in page


def test_every_widget_is_on_its_page(site):
    for name, notebook in LECTURES.items():
        page = (site / f"{name}.html").read_text(encoding="utf-8")
        live = [state["widget"] for state in live_states(notebook)]
        assert re.findall(r'class="live-widget" data-widget="(\w+)"', page) == live


def test_search_finds_a_word_of_every_lesson_and_the_site_stands_alone(site, opened):
    page = opened("search")
    page.goto(f"{(site / 'search.html').as_uri()}?q=softmax")
    page.wait_for_function("document.querySelectorAll('#search-results li').length > 4")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_landing_page_shows_a_widget_above_the_fold_that_follows_the_pointer(width, opened):
    page = opened("index", width=width)
    plane = page.locator(".course-plane")
    handle = plane.locator("[tabindex='0']").first
    before = json.loads(plane.get_attribute("data-state"))["query"]
    box = handle.bounding_box()
    assert box["y"] + box["height"] < 900, "one must scroll to find it"
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 40, steps=4)
    page.mouse.up()
    dragged = json.loads(plane.get_attribute("data-state"))["query"]
    handle.press("Shift+ArrowRight")
    moved = json.loads(plane.get_attribute("data-state"))["query"]
    assert before != dragged != moved and plane.get_attribute("data-mode") == "page"


def test_quizzes_hints_and_solutions_of_lesson_05_open(opened):
    page = opened(HEADS)
    quiz = page.locator("#quiz-5-a")
    assert quiz.locator(".quiz-answer").count() == 0, "it is for pages without scripts"
    quiz.locator('button[data-right="false"]').first.click()
    assert "Not this one." in quiz.locator(".quiz-feedback").inner_text()
    quiz.locator('button[data-right="true"]').click()
    assert "Correct." in quiz.locator(".quiz-feedback").inner_text()

    exercise = page.locator("#exercise-5-2")
    hint = exercise.locator("details").first
    assert exercises_of("05")[1].hints[0].replace("`", "") not in exercise.inner_text()
    hint.locator("summary").press("Enter")
    assert exercises_of("05")[1].hints[0].replace("`", "") in exercise.inner_text()
    assert "return x.view" not in exercise.inner_text()
    exercise.locator(".solution summary").click()
    assert "return x.view" in exercise.inner_text()


def test_widgets_start_when_they_come_into_view(opened):
    page = opened(BEAM, theme="dark")
    hosts = page.locator(".live-widget")
    for index in range(hosts.count()):
        hosts.nth(index).scroll_into_view_if_needed()
        hosts.nth(index).locator(".course-widget[data-count]").wait_for()
        assert not hosts.nth(index).locator(".live-picture").is_visible()


def test_the_tables_of_a_widget_fit_a_phone(opened):
    for lesson in ("02_memory_network", "04_self_attention"):
        page = opened(lesson, width=WIDTHS[0])
        host = page.locator(".live-widget:is([data-widget=explore], [data-widget=qkv])").first
        host.scroll_into_view_if_needed()
        host.locator("table").first.wait_for()
        ends = host.locator("table").evaluate_all(
            "tables => tables.map((table) => table.getBoundingClientRect().right)"
        )
        assert max(ends) <= WIDTHS[0]


def test_figures_have_dark_colors_on_a_dark_page_and_lines_of_prose_are_short(opened):
    page = opened("01_softmax_attention", theme="dark")
    assert wrong_in_dark(page, [page.locator(SITE_FIGURE).first]) == []
    assert 60 < longest_line(page, SITE_PROSE) < 96


def test_a_phone_reads_lesson_01_and_the_theme_button_reaches_the_widgets(opened):
    page = opened("01_softmax_attention", width=390)
    assert page.evaluate("document.body.dataset.jpThemeLight") == "true"
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")


# --- from the README to a running notebook ----------------------------------------------------------------------

BINDER = (
    "https://mybinder.org/v2/gh/example/course/main?urlpath=lab/tree/notebooks/exercises/01_softmax_attention.ipynb"
)


def test_every_link_of_the_readme_to_the_website_leads_to_a_page(site, server):
    folder, address = server
    links = Addresses((folder / "README.html").read_text(encoding="utf-8")).links
    here = [urlsplit(link).path for link in links if link.startswith(address)]
    assert len(here) > 2 * len(LESSONS) and [path for path in here if not (folder / path.lstrip("/")).is_file()] == []


def test_from_the_readme_a_live_widget_is_one_click_away_lesson_01_two_and_a_running_notebook_three(
    site, server, chromium, lab
):
    """Binder is not reached from here: a JupyterLab of this machine answers in its place."""
    folder, address = server
    notebook = lab.add(paths.STUDENTS / "01_softmax_attention.ipynb", "notebooks/exercises/01_softmax_attention.ipynb")
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page, asked = context.new_page(), []

    def stand_in(route):
        asked.append(route.request.url)
        place = f"{lab.address}/lab/workspaces/binder/tree/{notebook}?token={lab.token}"
        route.fulfill(status=302, headers={"Location": place})

    context.route("https://mybinder.org/**", stand_in)
    page.goto(f"{address}/README.html")
    page.locator("img[src$='transformer.webp']").click()  # one
    widget = page.locator(".course-open[data-state]")
    before = widget.get_attribute("data-state")
    widget.get_by_role("button", name="Back").click()
    assert widget.get_attribute("data-state") != before
    page.get_by_role("link", name="Read lesson 01").click()  # two
    assert page.locator("h1").first.inner_text().startswith("01 · Softmax attention")
    page.get_by_role("link", name="Open in Binder").click()  # three
    opened = Notebook(page, [], page_mistakes(page))
    opened.wait_for_kernel()
    assert asked == [BINDER]
    code = [cell["index"] for cell in opened.cells() if cell["type"] == "code"]
    imports = next(cell["index"] for cell in opened.cells() if 'lesson("01")' in cell["source"])
    assert errors(opened.run([index for index in code if index <= imports], SLOW)) == []
    assert "Softmax attention" in opened.output_area(imports).inner_text()
    opened.close()

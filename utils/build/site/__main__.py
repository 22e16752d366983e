"""Build the website: `python -m utils.build.site`.

Sphinx, myst-nb and sphinx-book-theme make it from the executed lecture notebooks, the documents in docs/ and the stored
results. Nothing is executed. The pages in site/ need no server and load nothing from other hosts.
"""

import json
import shutil
import sys
import time
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

from utils import paths
from utils.build.downloads import DownloadError
from utils.build.live import live_assets, live_states
from utils.build.site import formulas
from utils.build.site.lesson_page import lesson_page, on_site, with_targets
from utils.build.site.pages import landing_page, results_on_site, slides_page
from utils.build.slides import COURSE_TITLE, SlideError, build_deck
from utils.build.transformer_page import NAME, transformer_page
from utils.widgets.base import page_html

ASSETS = Path(__file__).with_name("assets")
DOCUMENTS = ("notation", "references", "students", "lecturers")
FOOTER = "Code: BSD 3-Clause. Text, figures and slides: CC BY 4.0."
SETTINGS = {
    "project": COURSE_TITLE,
    "html_title": COURSE_TITLE,
    "language": "en",
    "extensions": ["myst_nb"],
    "html_theme": "sphinx_book_theme",
    "html_theme_options": {
        "show_navbar_depth": 1,
        "show_toc_level": 2,
        "use_download_button": False,
        "use_fullscreen_button": False,
        "use_source_button": False,
        "home_page_in_toc": False,
        "navbar_persistent": [],
        "pygments_light_style": "a11y-high-contrast-light",
        "pygments_dark_style": "a11y-high-contrast-dark",
        "footer_content_items": ["extra-footer"],
        "extra_footer": FOOTER,
    },
    "html_context": {"default_mode": "auto"},
    "html_static_path": ["_static"],
    "html_css_files": ["site.css"],
    "html_js_files": ["site.js"],
    "html_extra_path": ["extra"],
    "html_copy_source": False,
    "html_use_index": False,
    "html_show_sourcelink": False,
    "html_sidebars": {"**": ["navbar-logo.html", "search-button-field.html", "sbt-sidebar-nav.html"]},
    "myst_enable_extensions": ["dollarmath", "attrs_inline", "colon_fence"],
    "myst_heading_anchors": 4,
    "nb_execution_mode": "off",
    "nb_code_prompt_show": "Show code",
    "nb_code_prompt_hide": "Hide code",
    "nb_mime_priority_overrides": [["html", "application/vnd.jupyter.widget-view+json", None]],
}


def build_site(target: Path, scratch: Path) -> None:
    """Write the site to `target`; its sources are assembled in `scratch`, which is emptied first."""
    shutil.rmtree(scratch, ignore_errors=True)
    sources = scratch / "source"
    lectures = sorted(paths.LECTURES.glob("*.ipynb"))
    states = write_lessons(lectures, sources)
    write_documents(sources)
    write(sources / "extra" / NAME, transformer_page())
    plane = next(state for state in states if state["widget"] == "plane")
    write(sources / "index.md", landing_page(page_html({**plane, "data": {**plane["data"], "title": ""}})))
    write_static(sources / "_static", {state["widget"] for state in states})
    target.parent.mkdir(parents=True, exist_ok=True)
    application = Sphinx(
        srcdir=sources,
        confdir=None,
        outdir=scratch / "html",
        doctreedir=scratch / "doctrees",
        buildername="html",
        confoverrides={**SETTINGS, "html_baseurl": paths.site_url()},
        status=None,
        warningiserror=True,
    )
    formulas.install(application)
    application.build()
    if application.statuscode:
        raise SphinxError("Sphinx reported the warnings above: fix them, the site must build without warnings")
    shutil.rmtree(target, ignore_errors=True)
    (scratch / "html").rename(target)


def write_lessons(lectures: list[Path], sources: Path) -> list[dict]:
    """Pages, decks and notebooks of all lessons; returns the stored states of their widgets."""
    states = []
    for path in lectures:
        page = lesson_page(path)
        write(sources / path.name, json.dumps(page.notebook))
        for name, picture in page.pictures.items():
            write(sources / "extra" / "pictures" / name, picture)
        build_deck(path, sources / "extra" / "slides" / f"{path.stem}.html")
        copy(path, sources / "extra" / "notebooks" / path.name)
        copy(paths.STUDENTS / path.name, sources / "extra" / "notebooks" / "exercises" / path.name)
        states += live_states(json.loads(path.read_text(encoding="utf-8")))
    return states


def write_documents(sources: Path) -> None:
    docs = paths.ROOT / "docs"
    for name in DOCUMENTS:
        write(sources / f"{name}.md", with_targets(on_site((docs / f"{name}.md").read_text(encoding="utf-8"), "docs")))
    for name, file in (("data", "data/README.md"), ("contributing", "CONTRIBUTING.md")):
        path = paths.ROOT / file
        write(sources / f"{name}.md", on_site(path.read_text(encoding="utf-8"), str(Path(file).parent)))
    write(sources / "slides.md", slides_page())
    write(sources / "results.md", results_on_site())
    for file in (paths.ROOT / "tests/benchmarks/results").glob("*.json"):
        copy(file, sources / "results" / file.name)


def write_static(folder: Path, widgets: set[str]) -> None:
    """Styles and scripts: the site's own, and those of the widgets that run in a page."""
    for suffix, shared in zip((".js", ".css"), live_assets(widgets), strict=True):
        own = (ASSETS / "site").with_suffix(suffix)
        write(folder / own.name, shared + own.read_text(encoding="utf-8"))


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def main() -> int:
    start = time.perf_counter()
    try:
        build_site(paths.SITE, paths.CACHE / "site")
    except (SphinxError, SlideError, DownloadError) as problem:
        print(f"site: {problem}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in paths.SITE.rglob("*") if file.is_file())
    print(f"{paths.SITE}/index.html: {size / 1e6:.0f} MB in {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

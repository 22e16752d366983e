"""One bibliography, docs/references.md: what is cited is listed there, with a link, and what is listed is cited."""

import re
import unicodedata

import jupytext
import pytest

from utils.paths import ROOT

PAGE = ROOT / "docs" / "references.md"
SOURCES = {path.name[:2]: path for path in sorted((ROOT / "notebooks" / "src").glob("[0-9]*.py"))}
DOCUMENTS = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), ROOT / "data" / "README.md"]
GENERATED = ROOT / "docs" / "results.md", "## Common wrong answers"  # a page, and what ends docs/lecturers.md

ENTRY = re.compile(
    r'- <a id="(?P<key>[a-z]+\d{4}[a-z]?)"></a>(?P<authors>.+?) \((?P<year>\d{4}[a-z]?)\)\. '
    r"\*(?P<title>[^*]+[.?])\* (?P<venue>[^\[]+)\.(?P<links>(?: \[[^\]]+\]\([^)]+\)\.)*) Cited in (?P<cited>.+)\."
)
STABLE = re.compile(
    r"\[arXiv:(?P<arxiv>\d{4}\.\d{4,5}|[a-z-]+/\d{7})\]\(https://arxiv\.org/abs/(?P=arxiv)\)"
    r"|\[doi:(?P<doi>10\.\d{4,}/[^\]]+)\]\(https://doi\.org/(?P=doi)\)"
    r"|\[[a-zA-Z]+\]\(https://(?!arxiv|doi)[^)]+\)"
)
NAME = r"(?:Ben )?[A-Z][\w’'-]+"
CITATION = re.compile(
    rf"(?P<name>{NAME})(?:(?: et al\.| and {NAME}),? \(?|, | \()(?P<year>(?:19|20)\d\d[a-z]?)\b"  # Xu et al. (2015)
)
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?:[./]*docs/)?references\.md(?:#(?P<key>\w+))?\)")


def joined(text):
    """The text in one line, without the comment signs of a source."""
    return re.sub(r"\s*\n[#\s]*", " ", text)


def key_of(name, year):
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub("[^a-z]", "", ascii_name.lower()) + year


def unlinked(text):
    """Keys of the citations that are no link to the bibliography."""
    return [key_of(found["name"], found["year"]) for found in CITATION.finditer(LINK.sub("", joined(text)))]


def cited_keys(text):
    return {found["key"] for found in LINK.finditer(joined(text)) if found["key"]} | set(unlinked(text))


def cited_in():
    """{key: where}: lessons by number, with the texts that they show from utils, then pages of docs/."""
    files = {number: [path, ROOT / f"utils/exercises/lesson{number}.py"] for number, path in SOURCES.items()}
    files["09"].append(ROOT / "utils/training/modifications.py")  # its LITERATURE is a table of lesson 09
    files |= {name: [ROOT / "docs" / f"{name}.md"] for name in ("notation", "results", "lecturers")}
    where = {}
    for name, paths in files.items():
        for key in set().union(*(cited_keys(path.read_text(encoding="utf-8")) for path in paths)):
            where.setdefault(key, []).append(name)
    return where


@pytest.fixture(scope="module")
def entries():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
    matches = [ENTRY.fullmatch(line) for line in lines]
    assert all(matches), "not of the form of the others:\n" + "\n".join(
        line for line, match in zip(lines, matches, strict=True) if not match
    )
    return matches


def markdown_texts():
    """(name, text) of the prose that people write: lessons and documents, without what `make results` writes."""
    for path in SOURCES.values():
        cells = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent").cells
        yield path.name, "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    page, heading = GENERATED
    for path in DOCUMENTS:
        if path not in (PAGE, page):
            yield path.name, path.read_text(encoding="utf-8").partition(heading)[0]


def test_entries_are_sorted_unique_and_named_after_first_author_and_year(entries):
    keys = [entry["key"] for entry in entries]
    assert keys == sorted(set(keys))
    for entry in entries:
        assert entry["key"] == key_of(entry["authors"].partition(",")[0], entry["year"])
        assert len(re.findall(r"\.,", entry["authors"])) <= 3, f"{entry['key']}: at most three authors, then et al."


def test_every_entry_has_a_stable_link(entries):
    for entry in entries:
        links = re.findall(r"\[[^\]]+\]\([^)]+\)", entry["links"])
        assert links and all(map(STABLE.fullmatch, links)), f"{entry['key']}: {links}"


def test_every_entry_says_where_it_is_cited(entries):
    assert {entry["key"]: entry["cited"].split(", ") for entry in entries} == cited_in()


def test_citations_in_code_are_entries(entries):
    keys = {entry["key"] for entry in entries}
    for path in [*(ROOT / "utils").rglob("*.py"), *(ROOT / "tests" / "benchmarks").glob("*.py")]:
        assert cited_keys(path.read_text(encoding="utf-8")) <= keys, path


def test_every_citation_in_prose_is_a_link_to_its_entry(entries):
    keys = {entry["key"] for entry in entries}
    for name, text in markdown_texts():
        assert not unlinked(text), name
        for link in LINK.finditer(joined(text)):
            assert link["key"] is None or link["key"] in keys, f"{name}: {link[0]}"
            said = CITATION.search(link["text"])
            assert said is None or key_of(said["name"], said["year"]) == link["key"], f"{name}: {link[0]}"


@pytest.mark.parametrize(
    "text",
    [
        "an idea of Shaw et al. (2018).",
        "is said to help (Shaw et\n# al., 2018; [Su et al., 2021](../docs/references.md#su2021))",
        "(Shaw, 2018)",
        "(Shaw and Vaswani, 2018)",
        "| Shaw et al. 2018 |",
    ],
)
def test_a_citation_without_a_link_is_noticed(text):
    assert unlinked(text) == ["shaw2018"]
    assert not unlinked("an idea of [Shaw et al. (2018)](references.md#shaw2018), in Python 3.11, since 2018")

"""The build: from one source to two notebooks, the same bytes every time, and a sentence for everything wrong."""

import ast
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest

from utils import paths
from utils.build import hosting, lint
from utils.build import notebooks as building
from utils.build.notebooks import BuildError, Shop, build, check_in_sync, execute
from utils.build.site.lesson_page import on_site
from utils.build.source import SourceError, lecture_of, read_source, student_of
from utils.exercises import timing
from utils.exercises.card import Card
from utils.exercises.lessons import LESSONS
from utils.paths import ROOT

ENGINE = """
# %%
class exercise:
    def __init__(self, name):
        self.name = name

    def use(self, answer):
        state = "passed"
        try:
            answer() if callable(answer) else None
        except NotImplementedError:
            state = "not attempted yet"
        print(f"Exercise {self.name} · sum: {state}")
        return answer
"""

SOLVED = '''
# %% tags=["nbval-check-output"]
# Exercise 1.1 · sum · easy · 5 min
def total():
    """Add."""
    ### BEGIN SOLUTION
    first = 1  # one

    def second():
        return 2

    return first + second()
    ### END SOLUTION


total = exercise("1.1").use(total)
'''


def shop_with(folder: Path, code: str, name: str = "01_sums") -> Shop:
    shop = Shop(folder)
    shop.sources.mkdir(parents=True, exist_ok=True)
    shop.source(name).write_text(code.lstrip("\n"), encoding="utf-8")
    return shop


def source_of(folder: Path, code: str, **options):
    shop = shop_with(folder, code)
    return read_source(shop.source("01_sums"), **options)


# --- cutting ----------------------------------------------------------------------------------------------------


def test_speaker_notes_are_kept_for_the_deck_and_shown_on_no_page(tmp_path):
    code = '# %% [markdown]\n# Prose.\n\n# %% [markdown] slideshow={"slide_type": "notes"}\n# Say this.\n'
    notebook = source_of(tmp_path, code)
    (shown,) = lecture_of(notebook).cells
    assert shown.source == "Prose." and shown.metadata["course"]["notes"] == ["Say this."]
    (shown,) = student_of(notebook).cells
    assert shown.source == "Prose." and "course" not in shown.metadata


def publish(monkeypatch, site="", repository=""):
    monkeypatch.setattr(paths, "site_url", lambda: site)
    monkeypatch.setattr(paths, "repository_url", lambda: repository)


def test_where_the_course_is_published_notebooks_link_to_their_page_and_to_hosts_and_elsewhere_to_files(
    tmp_path, monkeypatch
):
    url, code = (
        "https://example.org/course",
        "# %% [markdown]\n# # Sums\n# See [notation](../docs/notation.md#shapes).\n",
    )
    shop = shop_with(tmp_path, code)
    publish(monkeypatch, url, "https://github.com/example/course")
    for form in (lecture_of, student_of):
        text, links = form(building.read_lesson("01_sums", shop)).cells
        assert text.source == f"# Sums\nSee [notation]({url}/notation.html#shapes)."
        assert links.source == (
            f"[This lesson on the web]({url}/01_sums.html) · [Open in Colab](https://colab.research.google.com/github/example/"
            "course/blob/main/notebooks/exercises/01_sums.ipynb) · [Open in Binder](https://mybinder.org/v2/gh/example/course/"
            "main?urlpath=lab/tree/notebooks/exercises/01_sums.ipynb)"
        )
    assert on_site(text.source) == "# Sums\nSee [notation](notation.md#shapes)."
    publish(monkeypatch, repository="https://code.example.org/a/b")
    assert list(hosting.hosted("01_sums")) == ["Binder"], "Colab opens notebooks from GitHub only"
    assert "/v2/git/https%3A%2F%2Fcode.example.org%2Fa%2Fb/main?" in hosting.hosted("01_sums")["Binder"]
    publish(monkeypatch)
    (cell,) = lecture_of(building.read_lesson("01_sums", shop)).cells
    assert cell.source == "# Sums\nSee [notation](../docs/notation.md#shapes)."


def test_the_lecture_is_solved_without_markers_and_the_student_form_has_a_stub_with_its_docstring(tmp_path):
    source = source_of(tmp_path, SOLVED)
    (solved,), (stub,) = lecture_of(source).cells, student_of(source).cells
    assert "SOLUTION" not in solved.source and solved.source.split("\n")[3] == "    first = 1  # one"
    assert stub.source == (
        "# Exercise 1.1 · sum · easy · 5 min\n"
        "def total():\n"
        '    """Add."""\n'
        "    # YOUR CODE HERE\n"
        "    raise NotImplementedError()\n"
        "\n\n"
        'total = exercise("1.1").use(total)'
    )


def test_methods_and_assignments_are_cut_one_by_one(tmp_path):
    code = """
# %%
# Exercise 1.1 · sum · easy · 5 min
class Sum:
    def __init__(self, start):
        ### BEGIN SOLUTION
        self.start = start
        ### END SOLUTION

    @property
    def double(self):
        ### BEGIN SOLUTION
        if self.start:
            return 2 * self.start
        return 0
        ### END SOLUTION

    def given(self):
        return 3


### BEGIN SOLUTION
# because
first = (
    1,
    2,
)
second: list[int] = [3]
### END SOLUTION

Sum = exercise("1.1").use(Sum)
"""
    cut = student_of(source_of(tmp_path, code)).cells[0].source
    assert cut.count("        # YOUR CODE HERE\n        raise NotImplementedError()") == 2
    assert "first = ...  # YOUR CODE HERE\nsecond: list[int] = ...  # YOUR CODE HERE\n\nSum" in cut
    assert "return 3" in cut and "2 * self.start" not in cut and "because" not in cut
    ast.parse(cut)


def test_tagged_cells_appear_in_one_form_only_and_checks_are_collapsed_in_the_lecture(tmp_path):
    code = '# %% tags=["lecture-only"]\n1\n\n# %% tags=["student-only"]\n2\n\n# %%\n3\n\n# %% tags=["checks"]\n4\n'
    source = source_of(tmp_path, code)
    taught = lecture_of(source).cells
    assert [cell.source for cell in taught] == ["1", "3", "4"]
    assert [cell.metadata.get("jupyter") for cell in taught] == [None, None, {"source_hidden": True}]
    assert [cell.source for cell in student_of(source).cells] == ["2", "3"]


def test_links_out_of_the_folder_go_up_once_more_in_the_student_form(tmp_path):
    code = (
        "# %% [markdown]\n# [notation](../docs/notation.md), [next](02_next.ipynb), [paper](https://example.org/../x)\n"
    )
    (cell,) = student_of(source_of(tmp_path, code)).cells
    assert cell.source == "[notation](../../docs/notation.md), [next](02_next.ipynb), [paper](https://example.org/../x)"


def test_slides_and_tags_are_kept_and_nothing_else(tmp_path):
    code = '# %% [markdown] slideshow={"slide_type": "slide"}\n# # A\n\n# %% tags=["nbval-check-output"]\n1\n'
    lecture = lecture_of(source_of(tmp_path, "# ---\n# jupyter:\n#   jupytext: {}\n# ---\n\n" + code))
    assert [dict(cell.metadata) for cell in lecture.cells] == [
        {"slideshow": {"slide_type": "slide"}},
        {"tags": ["nbval-check-output"]},
    ]
    assert set(lecture.metadata) == {"kernelspec", "language_info"}
    assert "version" not in lecture.metadata.language_info
    assert (lecture.nbformat, lecture.nbformat_minor) == (4, 5)


def test_ids_come_from_the_content_and_are_shared_by_both_forms(tmp_path):
    code = ENGINE + SOLVED + "\n# %%\n1\n\n# %%\n1\n"
    first, again = source_of(tmp_path, code), source_of(tmp_path, "\n# %%\n0\n" + code)
    ids = [cell.id for cell in first.cells]
    assert len(set(ids)) == len(ids)
    assert [cell.id for cell in again.cells][1:] == ids
    assert [cell.id for cell in lecture_of(first).cells] == [cell.id for cell in student_of(first).cells] == ids
    nbformat.validate(lecture_of(first))


# --- loud errors ------------------------------------------------------------------------------------------------


def cell_with(
    body: str, header: str = "# Exercise 1.1 · sum · easy · 5 min", call: str = 'exercise("1.1").use(f)'
) -> str:
    return f"# %% [markdown]\n# Text\n\n# %%\n{header}\ndef f(x):\n{body}\nf = {call}\n"


RIGHT = "    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION\n"


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
        (cell_with("    ### BEGIN SOLUTION\n    return x\n"), 7, "without ### END SOLUTION"),
        ('# %% slideshow={"slide_type": "notes"}\nx = 1\n', 1, "speaker notes are a Markdown cell after"),
        ("# %% [markdown]\n# Prose.\n\n# % tags=[]\nx = 1\n", 5, "is the mark `# %%` above it mistyped?"),
        (cell_with("    return x\n    ### END SOLUTION\n"), 8, "without ### BEGIN SOLUTION"),
        (cell_with("    ### BEGIN SOLUTION\n" + RIGHT + "    ### END SOLUTION\n"), 8, "inside the solution that began at line 7"),
        (cell_with("    ## BEGIN SOLUTION\n    return x\n    ### END SOLUTION\n"), 7, "comment line of its own"),
        ("# %% [markdown]\n# Text\n# ### BEGIN SOLUTION\n", 3, "belong in code cells"),
        (cell_with('    return """\n    ### BEGIN SOLUTION\n    """\n'), 8, "comment line of its own"),
        (cell_with("    y = x\n    ### BEGIN SOLUTION\n    return y\n    ### END SOLUTION\n"), 8, "whole body of `f`"),
        (cell_with("    ### BEGIN SOLUTION\n    ### END SOLUTION\n    return x\n"), 7, "solution is empty"),
        ("# %%\n### BEGIN SOLUTION\nprint(1)\n### END SOLUTION\nexercise('1.1').use(1)\n", 3, "only assignments"),
        ("# %%\nclass A:\n    ### BEGIN SOLUTION\n    a = 1\n    ### END SOLUTION\nexercise('1.1').use(A)\n", 3, "not a part of a class"),
        ("# %%\nclass A:\n    def f(self):\n        ### BEGIN SOLUTION\n        return 1\n\n    def g(self):\n        return 2\n        ### END SOLUTION\nexercise('1.1').use(A)\n", 7, "whole statements"),
        (cell_with(RIGHT, call="f"), 7, "no exercise("),
        (cell_with("    return x\n"), 4, "nothing to cut"),
        (cell_with(RIGHT, header="# Exercise 1.1: sum"), 5, "expected `# Exercise 1.1 · title · level · N min`"),
        (cell_with(RIGHT, header="# Exercise 1.2 · sum · easy · 5 min"), 5, "the header says exercise 1.2"),
        (cell_with(RIGHT) + "\n# %%\n# Exercise 1.1 · b · easy · 5 min\ndef f(x):\n" + RIGHT + 'exercise("1.1").use(f)\n', 19, "more than once (lines 11, 19)"),
        (cell_with(RIGHT).replace("1.1", "2.1"), 1, "does not belong to lesson 01"),
        ("# %% [markdown]\n# Text\n\n# %%\na = 1\nb = (\n", 6, "is not Python"),
        ('# %% tags=["nbval-check"]\n1\n', 1, "unknown tag nbval-check"),
        ('# %% tags=["lecture-only", "student-only"]\n1\n', 1, "cannot be both"),
        ('# %% [markdown] tags=["checks"]\n# Text\n', 1, "is for code cells"),
        (cell_with(RIGHT).replace("# %%\n", '# %% tags=["nbval-skip"]\n'), 4, "runs in both forms"),
        ("import os\n\n# %%\n1\n", 3, "every cell must start with its own mark"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_source_is_named_with_file_and_line(tmp_path, code, line, words):
    shop = shop_with(tmp_path, code)
    with pytest.raises(SourceError) as caught:
        read_source(shop.source("01_sums"))
    assert f"01_sums.py:{line}: " in str(caught.value)
    assert words in str(caught.value)


# --- executing --------------------------------------------------------------------------------------------------


def run(folder: Path, code: str, **options):
    shop = shop_with(folder, code)
    return execute(lecture_of(read_source(shop.source("01_sums"))), "01_sums", shop, **options)


@pytest.mark.parametrize(
    ("code", "words", "limit"),
    [
        ("# %%\n1\n\n# %%\n1 / 0\n", "notebooks/src/01_sums.py, cell 2 failed with ZeroDivisionError", 60),
        ("# %%\nimport os\nos._exit(1)\n", "cell 1 killed its kernel", 60),
        ("# %%\nimport time\ntime.sleep(60)\n", "cell 1 did not end within 2 s", 2),
    ],
)
def test_a_failing_cell_stops_the_build_with_its_place(tmp_path, code, words, limit):
    with pytest.raises(BuildError) as caught:
        run(tmp_path, code, seconds_per_cell=limit)
    assert words in str(caught.value)


def test_an_execution_starts_from_nothing_and_saves_what_lasts(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "mine")
    monkeypatch.setenv("COURSE_ROOT", str(ROOT))
    code = """
# %%
import os
import sys
import warnings

import ipywidgets
from IPython.display import display

print(object())
warnings.warn("careful", stacklevel=1)
slider = ipywidgets.IntSlider()
view = "application/vnd.jupyter.widget-view+json"
display({view: slider._repr_mimebundle_()[view], "text/html": "<b>3</b>", "text/plain": "three"}, raw=True)
print("a")
print("b", file=sys.stderr)
print("c")
block = bytearray(200 * 2**20)
sys.path.append(os.environ["COURSE_ROOT"])
from utils.checks.live import show_live

show_live("trained in 21 s")
print([os.path.exists(os.environ[name]) for name in ("COURSE_CACHE", "COURSE_PROGRESS")])
print(os.environ["COURSE_PROGRESS"] == "mine")
[os.environ["OMP_NUM_THREADS"], os.environ["PYTHONHASHSEED"], os.path.basename(os.getcwd())]
"""
    result = run(tmp_path, code)
    (cell,) = result.notebook.cells
    assert "widgets" not in result.notebook.metadata
    kinds = [(output.output_type, output.get("name")) for output in cell.outputs]
    assert kinds == [("stream", "stdout"), ("stream", "stderr"), ("display_data", None), ("execute_result", None)]
    assert cell.outputs[0].text == "<object object at 0x...>\na\nc\n[False, False]\nFalse\n"
    assert cell.outputs[1].text.startswith("<cell>:9: UserWarning: careful")
    assert cell.outputs[2].data == {"text/html": "<b>3</b>", "text/plain": "three"}
    assert cell.outputs[3].data["text/plain"] == "['1', '0', 'notebooks']"
    assert 0 < result.seconds < 60
    assert 220 < result.mebibytes < 500


# --- building ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Shop:
    """A lesson that uses a library of its own, built once; tests copy what they change."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "utils" / "static").mkdir(parents=True)
    (folder / "utils" / "__init__.py").write_text('STATIC = "static"\n', encoding="utf-8")
    (folder / "utils" / "sums.py").write_text('"""Sums."""\nONE = 1\n', encoding="utf-8")
    (folder / "utils" / "static" / "view.js").write_text("1", encoding="utf-8")
    more = '\n# %%\nif False:\n    from utils.sums import ONE\n\n# %% tags=["nbval-check-output"]\n3\n'
    shop = shop_with(folder, ENGINE + SOLVED + more)
    lines = []
    assert build("01_sums", shop=shop, say=lines.append)
    assert "never measured" in lines[0] and "measured" in lines[1] and "executed" in lines[2]
    entry = timing.read_timings(shop.sources)["01_sums"]
    assert 0 < entry["seconds"] < 60 and 20 < entry["mebibytes"] < 1000
    return shop


def copy_of(shop: Shop, folder: Path) -> Shop:
    shutil.copytree(shop.root, folder / "copy")
    return Shop(folder / "copy")


def test_a_lesson_is_executed_again_only_if_forced_and_gives_the_same_bytes(built, tmp_path, monkeypatch):
    shop = copy_of(built, tmp_path)
    before = {path: path.read_bytes() for path in (shop.lecture("01_sums"), shop.student("01_sums"))}
    assert build("01_sums", force=True, shop=shop, say=lambda _: None)
    assert {path: path.read_bytes() for path in before} == before
    monkeypatch.setattr(building, "execute", lambda *_: pytest.fail("executed"))
    written = shop.lecture("01_sums").stat().st_mtime_ns
    assert not build("01_sums", shop=shop, say=lambda _: None)
    assert shop.lecture("01_sums").stat().st_mtime_ns == written


def _edit_definitions(shop, text="# new", file="lesson01.py"):
    folder = shop.root / "utils" / "exercises"
    folder.mkdir(parents=True, exist_ok=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").write_text("", encoding="utf-8")
    (folder / file).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "edit",
    [
        lambda shop: shop.source("01_sums").write_text("# %%\n1\n", encoding="utf-8"),
        lambda shop: (shop.root / "utils/sums.py").write_text("ONE = 2\n", encoding="utf-8"),
        lambda shop: (shop.root / "utils/static/view.js").write_text("2", encoding="utf-8"),
        lambda shop: timing.record("01_sums", 40, 3000, shop.sources),
        _edit_definitions,
    ],
    ids=["source", "library", "script", "timing", "definitions"],
)
def test_a_change_of_anything_a_lesson_depends_on_makes_it_stale(built, tmp_path, edit):
    shop = copy_of(built, tmp_path)
    assert check_in_sync("01_sums", shop) == []
    edit(shop)
    sentences = check_in_sync("01_sums", shop)
    assert sentences and all("make notebooks" in sentence for sentence in sentences)


def test_a_comment_counts_in_definitions_which_a_lesson_may_show_but_not_in_the_library(built, tmp_path):
    shop = copy_of(built, tmp_path)
    (shop.root / "utils" / "sums.py").write_text('"""All sums."""\n# the first\nONE = 1\n', encoding="utf-8")
    (shop.root / "utils" / "unused.py").write_text("NEW = 1\n", encoding="utf-8")
    assert check_in_sync("01_sums", shop) == []
    keys = set()
    for comment in ("# new", "# newer"):
        _edit_definitions(shop, comment)
        keys.add(building.lesson_key("01_sums", building.read_lesson("01_sums", shop), shop))
    assert len(keys) == 2


@pytest.mark.parametrize("tags", ["", ' tags=["student-only"]'])
def test_a_lecture_with_the_board_depends_on_the_exercises_of_all_lessons_but_not_on_their_definitions(tmp_path, tags):
    shop = shop_with(tmp_path, f"# %%{tags}\nboard()\n\n# %%\n1\n")
    keys = []
    renamed = SOLVED.replace("· sum ·", "· total ·")
    for other, definitions in ((SOLVED, "x = 1"), (SOLVED, "x = 2"), (renamed, "x = 2")):
        shop_with(tmp_path, ENGINE + other.replace("1.1", "2.1"), "02_more")
        building._write_solutions(building.read_lesson("02_more", shop), "02_more", shop)
        _edit_definitions(shop, definitions, "lesson02.py")
        keys.append(building.lesson_key("01_sums", building.read_lesson("01_sums", shop), shop))
    assert keys[0] == keys[1] and (keys[1] == keys[2]) is bool(tags)


@pytest.mark.parametrize(
    ("code", "file"),
    [
        ('# ---\n# jupyter:\n#   course:\n#     reads: ["data/facts.txt"]\n# ---\n\n# %%\n1\n', "data/facts.txt"),
        (
            '# %%\nfrom utils.build.results import stored\nstored("speeds")\n',
            "tests/benchmarks/results/speeds.json",
        ),
    ],
)
def test_the_data_and_stored_results_that_a_lesson_names_count(tmp_path, code, file):
    shop = shop_with(tmp_path, code)
    (tmp_path / file).parent.mkdir(parents=True)
    keys = set()
    for facts in ("1", "2"):
        (tmp_path / file).write_text(facts, encoding="utf-8")
        keys.add(building.lesson_key("01_sums", building.read_lesson("01_sums", shop), shop))
    assert len(keys) == 2


def _change(path: Path, edit) -> None:
    notebook = nbformat.read(path, as_version=4)
    edit(notebook)
    nbformat.write(notebook, path)


@pytest.mark.parametrize(
    ("form", "edit", "words"),
    [
        ("lecture", lambda nb: nb.cells.pop(), "has 3 cells, its source has 4"),
        ("lecture", lambda nb: nb.cells[1].update(source="x"), "cell 2 differs from its source in source"),
        ("lecture", lambda nb: nb.metadata.course.update(key="x"), "changed since it was executed"),
        ("lecture", lambda nb: nb.cells[1].update(execution_count=None), "cell 2 was never executed"),
        ("lecture", lambda nb: [cell.update(outputs=[]) for cell in nb.cells], "no cell has outputs"),
        ("lecture", lambda nb: nb.metadata.update(widgets={}), "metadata differ"),
        ("student", lambda nb: nb.cells[1].update(source="x"), "exercises/01_sums.ipynb: cell 2 differs"),
        ("student", lambda nb: nb.cells[1].update(execution_count=3), "cell 2 has outputs"),
    ],
)
def test_a_notebook_that_is_not_what_its_source_gives_is_described(built, tmp_path, form, edit, words):
    shop = copy_of(built, tmp_path)
    _change(getattr(shop, form)("01_sums"), edit)
    (sentence,) = check_in_sync("01_sums", shop)
    assert words in sentence


def test_missing_broken_and_stray_notebooks_are_described(built, tmp_path):
    shop = copy_of(built, tmp_path)
    shop.lecture("01_sums").unlink()
    shop.student("01_sums").write_text("{", encoding="utf-8")
    (shop.lectures / "Untitled.ipynb").write_text("{}", encoding="utf-8")
    first, second, *_ = check_in_sync("01_sums", shop)
    assert "notebooks/01_sums.ipynb is missing" in first and "cannot be read" in second
    assert building.strays(shop) == ["notebooks/Untitled.ipynb has no source: delete or rename it"]


def test_lessons_are_found_by_number_name_and_path_and_an_unknown_one_is_a_sentence(built, capsys):
    for name in ("1", "01", "01_sums", "notebooks/src/01_sums.py"):
        assert building._full_name(name, built) == "01_sums"
    assert building.main(["99_nothing", "--check"]) == 1
    assert "no lesson 99_nothing: expected notebooks/src/99_nothing.py; lessons: 00" in capsys.readouterr().err


# --- the card -------------------------------------------------------------------------------------------------


def test_a_card_says_what_the_lesson_is_and_what_it_costs_in_rounded_words():
    lesson, entry = LESSONS[1], {"seconds": 16.4, "mebibytes": 614, "machine": "2 cores, Python 3.11, torch 2.13"}
    bundle = Card(lesson, entry)._repr_mimebundle_()
    for text in (bundle["text/plain"], bundle["text/html"]):
        for part in (lesson.number, lesson.title, lesson.question, lesson.builds, "about 15 s and 0.6 GiB"):
            assert part in text
    assert "about 3 min and 3.9 GiB" in timing.in_words({**entry, "seconds": 200, "mebibytes": 4000})
    assert "not measured yet" in repr(Card(lesson, None))


# --- nbval, as it comes, with the hooks of conftest.py ----------------------------------------------------------

SETTINGS = """
import os
assert os.environ["MPLBACKEND"].startswith("module:") and os.environ["COURSE_LIVE"] == "no"
assert os.path.basename(os.getcwd()) in ("notebooks", "exercises")
assert not os.path.exists(os.environ["COURSE_PROGRESS"])
os.makedirs(os.path.dirname(os.environ["COURSE_PROGRESS"]), exist_ok=True)
open(os.environ["COURSE_PROGRESS"], "w").close()
"""
NBVAL = {  # notebook: (code, saved output of a compared cell) of its cells
    "notebooks/01_first": [(SETTINGS, None), ("print(object())", "<object object at 0x...>\n"), ("print(4)", "3\n")],
    "notebooks/exercises/01_states": [
        (SETTINGS + 'print("Exercise 1.1 · sum: not attempted yet\\nmore")', None),
        ('print("Exercise 1.1 · sum: passed")', None),
        ('print("Exercise 1.10 · sum: not attempted yet")', None),
    ],
    "notebooks/src/ignored": [("1 / 0", None)],
    "work/ignored": [("1 / 0", None)],
}


def small_notebook(name: str, codes: list[tuple[str, str | None]]) -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook()
    for code, saved in codes:
        cell = nbformat.v4.new_code_cell(code)
        if "exercises" in name:
            cell.metadata["course"] = {"exercise": "1.1"}
        if saved:
            cell.metadata["tags"], cell.execution_count = ["nbval-check-output"], 1
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=saved)]
        notebook.cells.append(cell)
    return notebook


def test_nbval_compares_tagged_cells_and_student_notebooks_must_be_untouched(tmp_path):
    for name, codes in NBVAL.items():
        path = tmp_path / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(small_notebook(name, codes), path)
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "pyproject.toml", "tests/sanitize.cfg"):
        shutil.copy(ROOT / name, tmp_path / name)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=report.xml", "."]
    own["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=170)
    assert (tmp_path / "report.xml").exists(), done.stdout + done.stderr
    verdicts = {}
    for case in ElementTree.parse(tmp_path / "report.xml").iter("testcase"):
        failure = case.find("failure")
        verdicts[f"{case.get('classname')} {case.get('name')}"] = "passed" if failure is None else failure.text
    for place, words in {
        "notebooks.01_first.ipynb Cell 0": "passed",
        "notebooks.01_first.ipynb Cell 1": "passed",  # an address beside a compared one
        "notebooks.01_first.ipynb Cell 2": "Cell outputs differ",
        "notebooks.exercises.01_states.ipynb Cell 0": "passed",  # no progress of another notebook
        "notebooks.exercises.01_states.ipynb Cell 1": "expected 'not attempted yet', got: Exercise 1.1 · sum: passed",
        "notebooks.exercises.01_states.ipynb Cell 2": "exercise 1.1 showed no result",
    }.items():
        assert words in verdicts.pop(place)
    assert verdicts == {}, "notebooks of students and sources are not run"


# --- lint -------------------------------------------------------------------------------------------------------


def notebook_of(*cells) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=list(cells))


def code_cell(source: str, tags=(), data=None, text=None):
    outputs = []
    if data is not None:
        outputs.append(nbformat.v4.new_output("display_data", data=data))
    if text is not None:
        outputs.append(nbformat.v4.new_output("stream", name="stdout", text=text))
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)}, outputs=outputs)


def test_a_good_lesson_has_nothing_to_answer_for(tmp_path):
    cells = [code_cell("import torch")] + [code_cell("1", [lint.COMPARED], text="1") for _ in range(5)]
    cells.append(nbformat.v4.new_markdown_cell("![two lines](a.png) see https://pytorch.org/tmp/x"))
    cells.append(code_cell("1", data={"image/png": "aa", "text/plain": "Two lines that cross."}))
    nbformat.write(notebook_of(*cells), tmp_path / "a.ipynb")
    assert lint.lint_lecture(tmp_path / "a.ipynb") == []


@pytest.mark.parametrize(
    ("rule", "cell", "words"),
    [
        (lint.long_cells, code_cell("1\n" * 26), "cell 1 has 26 lines"),
        (lint.too_little_compared, code_cell("1", [lint.COMPARED], text="1"), "1 cells have compared outputs"),
        (lint.too_little_compared, code_cell("1", [lint.COMPARED]), "no text output"),
        (lint.machine_paths, code_cell("1", text="in /home/ada/course/x.py"), "/home/ada/course/x.py"),
        (lint.images_without_words, nbformat.v4.new_markdown_cell("![](a.png)"), "an image has no alt text"),
        (lint.images_without_words, code_cell("1", data={"text/html": '<img alt="" src="a">'}), "<img> has no alt text"),
        (lint.images_without_words, code_cell("1", data={"image/png": "aa", "text/plain": "<Figure size 1x1>"}), "no alt"),
        (lint.imports_not_in_one_cell, code_cell("x = 1"), "found 0"),
    ],
)  # fmt: skip
def test_each_rule_finds_its_fault(rule, cell, words):
    assert any(words in sentence for sentence in rule(notebook_of(cell)))


def test_error_outputs_and_large_files_are_found(tmp_path):
    cell = code_cell("import os", text="x" * 2_000_000)
    cell.outputs.append(nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[]))
    nbformat.write(notebook_of(cell), tmp_path / "a.ipynb")
    found = " ".join(lint.lint_lecture(tmp_path / "a.ipynb"))
    assert "ValueError: no" in found and "2.0 MB" in found

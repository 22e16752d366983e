"""Facts about how the tests are shared out among workers."""

import os
import shutil
import subprocess
import sys

from tests import sharing
from tests.sharing import in_order, unit_of
from utils.course.lessons import LESSONS

PAGE = "tests/browser/test_student_pages.py::test_every_output_can_be_read_in_either_theme"
NAMES = [lesson.name for lesson in LESSONS]


def test_a_page_of_one_lesson_is_one_unit_whatever_is_done_to_it():
    for name in NAMES:
        same = {unit_of(f"{PAGE}[{name}-dark]"), unit_of(f"{PAGE}[{name}-light]"), unit_of(f"{PAGE}[{name}]")}
        assert same == {f"tests/browser/test_student_pages.py[{name[:2]}]"}


def test_all_answers_to_the_exercises_of_a_lesson_are_one_unit():
    told = "tests/test_bank.py::test_the_reference_passes_its_own_check[3.7]"
    refused = "tests/test_bank.py::test_models_of_mistakes_get_their_own_message[3.12]"
    assert unit_of(told) == unit_of(refused) == "tests/test_bank.py[3]"


def test_every_other_file_is_one_unit():
    for test in (
        "tests/test_keep.py::test_a[03_x]",
        "tests/browser/test_gallery.py::test_b[1]",
        "notebooks/a.ipynb::1",
    ):
        assert unit_of(test) == test.partition("::")[0]


def test_lectures_come_first_and_pages_are_spread_over_the_rest():
    lectures = [f"notebooks/{name}.ipynb" for name in NAMES]
    students = [f"notebooks/exercises/{name}.ipynb" for name in NAMES]
    pages = [unit_of(f"{PAGE}[{name}]") for name in NAMES]
    files = [f"tests/test_{number}.py" for number in range(40)]
    ordered = in_order([*pages, *files, *lectures, *students])
    assert sorted(ordered) == sorted([*pages, *files, *lectures, *students])
    assert ordered[: len(lectures)] == lectures[::-1]
    rest = ordered[len(lectures) :]
    assert [unit for unit in rest if unit in pages] == pages[::-1]
    assert [unit for unit in rest if unit not in pages] == [*students, *files], "long ones first"
    third = len(rest) // 3
    for part in (rest[:third], rest[third : 2 * third], rest[2 * third :]):
        assert len(NAMES) // 3 <= sum(unit in pages for unit in part) <= len(NAMES) // 3 + 1


def test_workers_share_the_tests_of_one_file_by_lesson_and_each_test_is_run_once(tmp_path):
    """In real workers: the tests of a lesson run in one process, in their order, and the two lessons in two."""
    folder = tmp_path / "tests" / "browser"
    folder.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_pages.py").write_text(
        "import os, time, pytest\n"
        "@pytest.fixture(scope='module', params=['01_one', '02_two'])\n"
        "def page(request): return request.param\n"
        "def note(name, page):\n"
        "    time.sleep(0.2)\n"
        "    open('ran', 'a').write(f'{page} {name} {os.getpid()}\\n')\n"
        + "".join(f"def test_{name}(page): note({name!r}, page)\n" for name in "cab"),
        encoding="utf-8",
    )
    shutil.copyfile(sharing.__file__, tmp_path / "sharing.py")
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    own["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the others cost seconds and are not needed here
    plugins = ["-p", "xdist.plugin", "-p", "sharing", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-n", "2", "--dist", "loadfile"]
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=120)
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    ran = [line.split() for line in (tmp_path / "ran").read_text(encoding="utf-8").splitlines()]
    by_page = {
        page: [(name, process) for other, name, process in ran if other == page] for page in ("01_one", "02_two")
    }
    assert [[name for name, _ in some] for some in by_page.values()] == [["c", "a", "b"]] * 2
    processes = [{process for _, process in some} for some in by_page.values()]
    assert [len(some) for some in processes] == [1, 1] and processes[0] != processes[1]

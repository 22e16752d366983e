"""Two real executions of a lesson, each in a fresh kernel with an empty cache, give the same bytes.

In a file of its own, so that it runs beside the other tests of notebooks and not after them.
"""

import pytest

from tests.audit.reproducible import TIMED, lesson_row
from utils.build.lint import COMPARED
from utils.build.notebooks import HERE, execute, lecture_of, read_lesson, serialized
from utils.exercises.timing import read_timings


def test_two_executions_give_the_same_bytes():
    """Of the shortest lesson; `make audit PART=reproducible` runs them all."""
    name = HERE.names()[0]
    first, second = (execute(lecture_of(read_lesson(name)), name).notebook for _ in range(2))
    cells = zip(first.cells, second.cells, strict=True)
    assert [index for index, (left, right) in enumerate(cells, 1) if left != right] == []
    assert serialized(first) == serialized(second)


def test_every_lesson_is_measured():
    assert set(HERE.names()) == set(read_timings())


def test_no_cell_that_shows_times_is_compared():
    for number, lines in TIMED.items():
        (name,) = [name for name in HERE.names() if name.startswith(number)]
        cells = [cell for cell in read_lesson(name).cells if cell.cell_type == "code"]
        tags = {cell.source.splitlines()[0]: cell.metadata.get("tags", []) for cell in cells if cell.source}
        assert not [line for line in lines if COMPARED in tags[line]]


@pytest.mark.parametrize(("line", "ok"), [("x = 1", False), (TIMED["05"][0], True)])
def test_the_audit_reports_runs_that_show_something_else_unless_it_is_a_time(line, ok):
    def report(threads, shown="a"):
        hashes = {f"1 {line}": shown, "2 y": "b"}
        return {"threads": threads, "compared": 1, "different": [], "hashes": hashes, "seconds": 1.0}

    same = [report(1), report(1), report(2, "c"), report(2, "c")]
    assert lesson_row("05_multi_head_attention", same)["ok"], "one thread and two may differ where nothing is compared"
    row = lesson_row("05_multi_head_attention", [report(1), report(1), report(2), report(2, "other")])
    assert row["ok"] is ok and ("two runs on 2 threads" in row["said"]) is not ok

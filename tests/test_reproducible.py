"""Two real executions of a lesson, each in a fresh kernel with an empty cache, give the same bytes.

In a file of its own, so that it runs beside the other tests of notebooks and not after them.
"""

import pytest

from tests.audit.reproducible import TIMED, lesson_row
from utils.course.build import HERE, execute, lecture_of, read_lesson, serialised
from utils.course.lint import COMPARED
from utils.course.timing import read_timings

MOST_SECONDS = 30


def short_enough(name: str) -> bool:
    """Longer lessons would cost every test run minutes; the maintainer forces those with `--force`."""
    return read_timings()[name]["seconds"] <= MOST_SECONDS


def different_cells(one, other) -> list[int]:
    return [index for index, (left, right) in enumerate(zip(one.cells, other.cells, strict=True), 1) if left != right]


@pytest.mark.parametrize("name", [name for name in HERE.names() if name in read_timings() and short_enough(name)])
def test_two_executions_give_the_same_bytes(name):
    first, second = (execute(lecture_of(read_lesson(name)), name).notebook for _ in range(2))
    assert different_cells(first, second) == []
    assert serialised(first) == serialised(second)


def test_every_lesson_is_measured():
    assert set(HERE.names()) == set(read_timings())


# The audit, which runs every lesson four times


def test_the_cells_that_show_times_are_there_and_none_is_compared():
    for number, lines in TIMED.items():
        (name,) = [name for name in HERE.names() if name.startswith(number)]
        cells = [cell for cell in read_lesson(name).cells if cell.cell_type == "code"]
        tags = {cell.source.splitlines()[0]: cell.metadata.get("tags", []) for cell in cells if cell.source}
        assert set(lines) <= set(tags)
        assert not [line for line in lines if COMPARED in tags[line]]


@pytest.mark.parametrize(
    ("name", "line", "on", "words"),
    [
        ("06_transformer", "x = 1", 1, "two runs on 1 threads do not show the same in the cells x = 1"),
        ("06_transformer", "x = 1", 2, "two runs on 2 threads do not show the same in the cells x = 1"),
        ("05_multi_head_attention", TIMED["05"][0], 1, ""),
        ("06_transformer", TIMED["05"][0], 1, "two runs on 1 threads"),
    ],
)
def test_runs_that_show_something_else_are_told_unless_it_is_a_time(name, line, on, words):
    runs = [
        {
            "threads": threads,
            "compared": 1,
            "different": [],
            "sums": {line: "a", "y": "b"},
            "seconds": 1.0,
            "other_pictures": 0,
        }
        for threads in (1, 1, 2, 2)
    ]
    assert lesson_row(name, runs)["ok"]
    runs[2 * on - 1]["sums"] = {line: "other", "y": "b"}
    row = lesson_row(name, runs)
    assert row["ok"] == (not words) and words in row["said"]

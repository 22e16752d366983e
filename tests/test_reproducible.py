"""Two real executions of a lesson, each in a fresh kernel with an empty cache, give the same bytes.

In a file of its own, so that it runs beside the other tests of notebooks and not after them.
"""

import pytest

from utils.course.build import HERE, execute, lecture_of, read_lesson, serialised
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

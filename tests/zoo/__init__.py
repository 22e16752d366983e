"""The zoo: wrong and right answers to every exercise, kept alive by tests/test_zoo.py.

`tests/zoo/lessonNN.py` holds one dictionary from exercise ids to answers:

    ZOO = {
        "1.1": Zoo(
            wrong=[(function, "part of the message it must get"), ...],  # at least five, plausible
            right=[function, ...],  # at least two, written differently from the solution
        ),
    }

An answer may be a function, a class or a value, whatever the exercise asks for. Answers with different parts
must get different messages (a message that fits every mistake explains none); two answers that make the same
mistake share one part.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Zoo:
    wrong: list[tuple[Any, str]]
    right: list[Any]

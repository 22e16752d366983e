"""Exercises and quizzes whose number changed between the first edition and this one.

The first edition had eight lessons after the start; its lesson 07 became 07 and 08, and its lesson 08 became 09.
Lesson 01 now teaches soft lookup before the Jacobian, so 1.2 and 1.4 changed places.
Quiz 4.d is gone: no quiz has the id that it maps to.
Lesson 05 has a new order. In lesson 09, exercise 9.6 (SwiGLU) and quiz 9.f are new, and several processes come last.
"""

EDITION = 2
_MOVED = {
    "1.2": "1.4",
    "1.4": "1.2",
    "4.d": "4.f",
    "4.e": "4.d",
    "4.f": "4.e",
    "5.5": "5.8",
    "5.6": "5.9",
    "5.7": "5.5",
    "5.8": "5.6",
    "5.9": "5.7",
    "5.e": "5.h",
    "5.f": "5.e",
    "5.g": "5.f",
    "5.h": "5.g",
    "6.10": "6.11",
    "7.8": "8.1",
    "7.9": "8.2",
    "7.10": "8.3",
    "7.e": "8.a",
    "7.f": "8.b",
    "7.g": "8.c",
    "8.6": "9.9",
    "8.9": "9.6",
    "8.e": "9.h",
    "8.f": "9.e",
    "8.h": "9.f",
}


def from_first_edition(old_id: str) -> str:
    """The id that an exercise or a quiz of the first edition has now."""
    lesson, _, number = old_id.partition(".")
    return _MOVED.get(old_id, f"9.{number}" if lesson == "8" else old_id)

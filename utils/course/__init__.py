"""The course itself: exercises, quizzes, progress, and the building of notebooks.

Importing this package needs the standard library alone; torch is loaded with the first exercise.
"""

from utils.course.board import board
from utils.course.quiz import quiz

__all__ = ["board", "exercise", "grade", "lesson", "quiz"]


def __getattr__(name: str):
    if name in ("exercise", "grade"):
        from utils.course import exercises

        return getattr(exercises, name)
    if name == "lesson":
        from utils.course.card import lesson

        return lesson
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

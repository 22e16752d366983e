"""Exercises, quizzes, progress board, badges and lesson card: `from utils.exercises import board, exercise, lesson, quiz`.

`lessonNN.py` has what a lesson's source cannot say (cases, mistakes, hints, quizzes), `solutions/` what
`make notebooks` took from it. `registry` holds the machinery: a module named `exercise` would hide the function.
Importing this package needs the standard library alone; torch is loaded with the first exercise.
"""

from utils.exercises.badges import badges
from utils.exercises.board import board
from utils.exercises.quiz import quiz

__all__ = ["badges", "board", "exercise", "grade", "lesson", "quiz"]


def exercise(id):
    """An exercise of the course: `use`, `check`, `hint`, `solution`."""
    from utils.exercises import registry

    return registry.exercise(id)


def __getattr__(name: str):
    if name == "grade":
        from utils.exercises.registry import grade

        return grade
    if name == "lesson":
        from utils.exercises.card import lesson

        return lesson
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Common mistakes as edits of the solution, with the message that each deserves."""

from functools import cached_property

from utils.exercises.solutions import BODY, solution_of

__all__ = ["BODY", "Mistake", "mistake", "replacing"]


class Mistake:
    """A model of a common mistake: answers that give what `wrong` gives are told `message`."""

    def __init__(self, message: str, function=None, edits: tuple[tuple[str, str], ...] = ()):
        self.message, self.edits, self._function = message, edits, function
        self.exercise_id = ""  # set when its exercise is registered

    @cached_property
    def wrong(self):
        return self._function or solution_of(self.exercise_id).edited(self.edits)

    def __repr__(self) -> str:
        return f"Mistake({self.message!r})"


def mistake(*given) -> Mistake:
    """A mistake and its message, in one of three forms.

    mistake("dim=-1", "dim=-2", message)                the solution with one text replaced
    mistake([("a", "b"), ("c", "d")], message)          with several texts replaced
    mistake(function, message)                          a function or class, where no edit can say it
    `BODY` as the old text stands for all that the student writes, if that is one function.
    """
    match given:
        case (str(old), str(new), str(message)):
            return Mistake(message, edits=((old, new),))
        case (list(edits), str(message)):
            return Mistake(message, edits=tuple(edits))
        case (function, str(message)) if callable(function):
            return Mistake(message, function)
    raise TypeError(f"expected an old and a new text or a function, then a message; got {given!r}")


def replacing(old: str, messages: dict[str, str]) -> list[Mistake]:
    """Mistakes that put another text in the place of `old`: {new text: message}."""
    return [mistake(old, new, message) for new, message in messages.items()]

"""The card that opens a lesson: what it asks, what one builds, what it costs."""

from html import escape

from IPython.display import display

from utils.checks.live import show_live
from utils.exercises.lessons import Lesson, lesson_of
from utils.exercises.timing import in_words, read_timings
from utils.training.announce import announce_with

# Colours come from the theme of the front end; the fallbacks serve pages without one (a code host, a deck).
_BOX = (
    "border-left: 6px solid var(--jp-brand-color1, #1f6fb4); padding: 0.6em 1.1em; margin: 0.4em 0; "
    "background: var(--jp-layout-color2, #f3f5f7); color: var(--jp-ui-font-color1, #1c1e21); max-width: 46em"
)
_SOFT = "color: var(--jp-ui-font-color1, #50565c)"


class Card:
    """A lesson's card in two forms, HTML and text; the same every time."""

    def __init__(self, lesson: Lesson, entry: dict | None):
        self.lesson = lesson
        self.cost = in_words(entry)

    def text(self) -> str:
        lesson = self.lesson
        return "\n".join(
            (
                f"Lesson {lesson.number} · {lesson.title}",
                f"Question: {lesson.question}",
                f"You build: {lesson.builds}",
                f"Time to study: about {lesson.minutes} minutes",
                f"To run all cells: {self.cost}",
            )
        )

    def html(self) -> str:
        lesson = self.lesson
        rows = (
            ("You build", lesson.builds),
            ("Time to study", f"about {lesson.minutes} minutes"),
            ("To run all cells", self.cost),
        )
        lines = "".join(
            f'<div><span style="{_SOFT}">{escape(name)}:</span> {escape(value)}</div>' for name, value in rows
        )
        return (
            f'<section style="{_BOX}" aria-label="Lesson {lesson.number}">'
            f'<div style="{_SOFT}">Lesson {lesson.number}</div>'
            f'<div style="font-size: 1.35em; font-weight: 600">{escape(lesson.title)}</div>'
            f'<div style="font-size: 1.1em; font-style: italic; margin: 0.25em 0 0.5em">{escape(lesson.question)}</div>'
            f"{lines}</section>"
        )

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.text()}


def lesson(number: str | int) -> None:
    """Show the card of a lesson; every lesson's first code cell calls this.

    From here on, what a training says ("trained in 21 s") is shown live and not saved.
    """
    announce_with(show_live)
    found = lesson_of(f"{int(number):02d}")
    display(Card(found, read_timings().get(found.name)))

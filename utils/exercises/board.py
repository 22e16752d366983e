"""The progress board: a bar of exercises for each lesson, and where to continue."""

import html
from dataclasses import dataclass

from utils.checks import progress
from utils.checks.text import MARKS, WORDS, paragraphs
from utils.exercises.lessons import LESSONS, Lesson
from utils.exercises.solutions import Solution, solutions_of

# Colors that are visible in both themes: JupyterLab strips variables from the outputs of a notebook that nobody has run yet.
TONES = {
    "passed": "color: #1b1b1b; background-color: #81c784",
    "failed": "color: #1b1b1b; background-color: #e57373",
    "not attempted": "color: var(--jp-content-font-color1, inherit)",
}
GREY, BLUE = "#9e9e9e", "#2196f3"


@dataclass(frozen=True)
class Mark:
    """One exercise on the board."""

    solution: Solution
    state: progress.ExerciseState
    link: str  # to its cell: JupyterLab opens the notebook there
    next: bool  # the exercise to continue with

    @property
    def passed(self) -> bool:
        return self.state.status == "passed"

    @property
    def name(self) -> str:
        return f"{self.solution.id} {self.solution.title}"

    def in_words(self) -> str:
        extras = ["optional"] if self.solution.optional else []
        extras += [f"{self.state.hints} hint{'s' * (self.state.hints > 1)}"] if self.state.hints else []
        extras += ["solution seen"] if self.state.solution else []
        return f"{self.name}: {WORDS[self.state.status]}" + (f" ({', '.join(extras)})" if extras else "")

    def to_html(self) -> str:
        """A segment of the bar, a link to the exercise: its mark, or its number while it is open."""
        shown = MARKS[self.state.status] if self.state.status != "not attempted" else self.solution.id.split(".")[1]
        edge = f"3px solid {BLUE}" if self.next else f"1px {'dashed' if self.solution.optional else 'solid'} {GREY}"
        style = (
            f"display: inline-block; min-width: 22px; margin: 1px; padding: 1px; text-align: center; border: {edge}; "
        )
        words = html.escape(self.in_words(), quote=True)
        style += f"text-decoration: none; {TONES[self.state.status]}"
        return f'<a href="{self.link}" title="{words}" aria-label="{words}" style="{style}">{shown}</a>'


@dataclass(frozen=True)
class Row:
    lesson: Lesson
    marks: tuple[Mark, ...]

    def count(self) -> str:
        return f"{sum(mark.passed for mark in self.marks)} of {len(self.marks)}"

    def to_html(self) -> str:
        bar = "".join(mark.to_html() for mark in self.marks)
        name = f'<a href="{self.lesson.name}.ipynb">{self.lesson.number} {html.escape(self.lesson.title)}</a>'
        left = 'style="text-align: left; font-weight: normal"'
        return (
            f'<tr><th scope="row" {left}>{name}</th>'
            f'<td {left}><span role="group" aria-label="{self.count()} passed">{bar}</span></td>'
            f'<td style="white-space: nowrap">{self.count()}</td></tr>'
        )

    def __repr__(self) -> str:
        bar = "".join(MARKS[mark.state.status] for mark in self.marks)
        return f"{self.lesson.number} {bar:12s} {self.count():>8s}  {self.lesson.title}"


@dataclass(frozen=True)
class Board:
    """The board in two forms, HTML and text; both are right in a saved notebook, too."""

    rows: list[Row]
    trouble: str = ""

    def marks(self) -> list[Mark]:
        return [mark for row in self.rows for mark in row.marks]

    def total(self) -> str:
        return f"{sum(mark.passed for mark in self.marks())} of {len(self.marks())} exercises passed."

    def advice(self) -> tuple[str, Mark | None]:
        """What to do next, and the exercise that it names."""
        mark = next((mark for mark in self.marks() if mark.next), None)
        if mark is None:
            return "Every exercise of the core path is solved.", None
        return f"{'Continue' if any(mark.passed for mark in self.marks()) else 'Start'} with", mark

    def __repr__(self) -> str:
        words, mark = self.advice()
        heading = f"{self.total()} {words}{f' {mark.name}.' if mark else ''}"
        return "\n".join([heading, *map(repr, self.rows), *([self.trouble] if self.trouble else [])])

    def to_html(self) -> str:
        words, mark = self.advice()
        link = f' <a href="{mark.link}"><strong>{html.escape(mark.name)}</strong></a>.' if mark else ""
        head = "".join(
            f'<th scope="col" style="text-align: left">{name}</th>'
            for name in ("Lesson", "Exercises (dashed: optional)", "Passed")
        )
        rows = "".join(row.to_html() for row in self.rows)
        return (
            f'<section aria-label="Your progress"><p>{self.total()} {words}{link}</p>'
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{paragraphs(self.trouble)}</section>"
        )

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/html": self.to_html(), "text/plain": repr(self)}


def current_board() -> Board:
    """The board as the progress file has it now."""
    state = progress.read()
    solutions = {lesson: solutions_of(lesson.number).values() for lesson in LESSONS}
    core = [solution.id for lesson in LESSONS for solution in solutions[lesson] if not solution.optional]
    following = next((name for name in core if state.exercise(name).status != "passed"), None)
    rows = []
    for lesson in LESSONS:
        links = {solution: f"{lesson.name}.ipynb#cell-id={solution.cell}" for solution in solutions[lesson]}
        marks = [
            Mark(solution, state.exercise(solution.id), link, solution.id == following)
            for solution, link in links.items()
        ]
        rows.append(Row(lesson, tuple(marks)))
    return Board(rows, state.trouble)


_shown = None  # the display handle of this kernel's board


def board() -> None:
    """Show the board; it follows every check in the same notebook."""
    from IPython.display import display

    global _shown
    _shown = display(current_board(), display_id=True)


def refresh_board() -> None:
    """Update the board that is shown, if one is."""
    if _shown is not None:
        _shown.update(current_board())

"""The progress board over all lessons."""

import html
from dataclasses import dataclass

from utils.checks import progress
from utils.checks.text import BORDER, MARKS, TONES, paragraphs
from utils.exercises.lessons import LESSONS, Lesson

WORDS = {"passed": "passed", "failed": "failed", "not attempted": "not yet"}
GREY = "var(--jp-ui-font-color1, #606060)"


@dataclass(frozen=True)
class Mark:
    """One exercise on the board."""

    id: str
    title: str
    status: str
    optional: bool = False
    hints: int = 0
    solution: bool = False

    def in_words(self) -> str:
        extras = ["optional"] if self.optional else []
        extras += [f"{self.hints} hint{'s' * (self.hints > 1)}"] if self.hints else []
        extras += ["solution seen"] if self.solution else []
        return WORDS[self.status] + (f" ({', '.join(extras)})" if extras else "")


@dataclass(frozen=True)
class Row:
    lesson: Lesson
    ready: bool
    marks: tuple[Mark, ...] = ()

    @property
    def passed(self) -> int:
        return sum(mark.status == "passed" for mark in self.marks)

    def count(self) -> str:
        if not self.ready:
            return "to come"
        return f"{self.passed} of {len(self.marks)} passed" if self.marks else "no exercises"


@dataclass
class Board:
    rows: list[Row]
    trouble: str = ""

    def __repr__(self) -> str:
        return board_text(self.rows, self.trouble)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/html": board_html(self.rows, self.trouble), "text/plain": repr(self)}


def board() -> Board:
    """The board as it stands now; run the cell again to see it move."""
    from utils.exercises.registry import exercises_of

    state = progress.read()
    rows = [
        board_row(lesson, exercises_of(lesson.number), state) if lesson.exists else Row(lesson, ready=False)
        for lesson in LESSONS
    ]
    return Board(rows, state.trouble)


def board_row(lesson: Lesson, exercises: list, state: progress.Progress) -> Row:
    marks = []
    for item in exercises:
        known = state.exercise(item.id)
        marks.append(Mark(item.id, item.title, known.status, item.optional, known.hints, known.solution))
    return Row(lesson, ready=True, marks=tuple(marks))


def board_html(rows: list[Row], trouble: str = "") -> str:
    body = "".join(_row_html(row) for row in rows)
    left = 'scope="col" style="text-align: left"'
    head = f"<tr><th {left}>Lesson</th><th {left}>Exercises</th><th {left}>So far</th></tr>"
    table = f'<table style="text-align: left">{head}{body}</table>'
    return f"{table}<p>{html.escape(total(rows))}</p>{paragraphs(trouble)}"


def _row_html(row: Row) -> str:
    name = f"{row.lesson.number} {html.escape(row.lesson.title)}"
    left = 'style="text-align: left; vertical-align: top"'
    first = 'scope="row" style="text-align: left; vertical-align: top; font-weight: normal"'
    if not row.ready:
        grey = f'style="text-align: left; color: {GREY}"'
        return f"<tr><th {first}>{name}</th><td {grey}></td><td {grey}>to come</td></tr>"
    marks = " ".join(_mark_html(mark) for mark in row.marks)
    whole = 'style="text-align: left; vertical-align: top; white-space: nowrap"'
    return f"<tr><th {first}>{name}</th><td {left}>{marks}</td><td {whole}>{row.count()}</td></tr>"


def _mark_html(mark: Mark) -> str:
    style = (
        f"display: inline-block; margin: 1px; padding: 0 6px; border: 1px solid {BORDER}; "
        f"border-left: 4px solid {TONES[mark.status]}"
    )
    title = html.escape(f"{mark.title}: {mark.in_words()}")
    return f'<span style="{style}" title="{title}">{MARKS[mark.status]} {html.escape(mark.id)} {mark.in_words()}</span>'


def board_text(rows: list[Row], trouble: str = "") -> str:
    lines = []
    for row in rows:
        lines.append(f"{row.lesson.number} {row.lesson.title}: {row.count()}")
        lines += [f"   {MARKS[mark.status]} {mark.id} {mark.title}: {mark.in_words()}" for mark in row.marks]
    return "\n".join([*lines, total(rows), *([trouble] if trouble else [])])


def total(rows: list[Row]) -> str:
    done, all_marks = sum(row.passed for row in rows), sum(len(row.marks) for row in rows)
    return f"{done} of {all_marks} exercises passed"

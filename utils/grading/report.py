"""The tables: one row for each exercise of each submission, and which misconceptions a cohort has."""

import contextlib
import csv
import html
import io
import os
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from utils.exercises.registry import FAILED, NOT_ATTEMPTED, PASSED
from utils.grading.judge import Row
from utils.grading.submissions import Submission

COLUMNS = ("student", "lesson", "exercise", "status", "message", "file")
OTHER = "(no model of this mistake)"


@dataclass
class Graded:
    submission: Submission
    rows: list[Row]


def write(out: Path, graded: list[Graded]) -> None:
    """All tables, each in one move: a reader never sees half of one."""
    write_whole(out / "grades.csv", as_csv(COLUMNS, table(graded)))
    write_whole(out / "grades.md", grades_page(graded))
    write_whole(
        out / "misconceptions.csv", as_csv(("exercise", "students", "misconception", "who"), misconceptions(graded))
    )
    write_whole(out / "misconceptions.md", misconceptions_page(graded))


def write_whole(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def table(graded: list[Graded]) -> list[tuple[str, ...]]:
    return [
        (one.submission.student, row.lesson, row.exercise, row.status, on_one_line(row.message), one.submission.name)
        for one in graded
        for row in one.rows
    ]


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def as_csv(columns: tuple[str, ...], rows: list[tuple]) -> str:
    """Spreadsheets take what begins with one of five signs for a formula: it gets an apostrophe."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"'{cell}" if str(cell)[:1] in "=+-@|" and str(cell) else cell for cell in row])
    return file.getvalue()


# --- pages ------------------------------------------------------------------------------------------------------


def cell(text: str) -> str:
    """A text for a cell of a Markdown table; no mark in it means anything."""
    safe = html.escape(on_one_line(text), quote=False)
    for mark in "\\`*_[]|~#!":
        safe = safe.replace(mark, f"\\{mark}" if mark != "|" else "&#124;")
    return safe


def page_table(columns: tuple[str, ...], rows: list[tuple]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(cell(str(one)) for one in row) + " |" for row in rows]
    return "\n".join(lines)


def grades_page(graded: list[Graded]) -> str:
    parts = [
        "# Grades",
        page_table(("student", "lesson", "passed", "failed", "not attempted", "other", "file"), totals(graded)),
    ]
    parts += _doubles(graded)
    parts += ["## Every exercise", page_table(COLUMNS, table(graded))]
    return "\n\n".join(parts) + "\n"


def totals(graded: list[Graded]) -> list[tuple]:
    rows = []
    for one in graded:
        count = Counter(row.status for row in one.rows)
        known = [count[status] for status in (PASSED, FAILED, NOT_ATTEMPTED)]
        lesson = one.rows[0].lesson if one.rows else ""
        rows.append((one.submission.student, lesson, *known, len(one.rows) - sum(known), one.submission.name))
    return rows


def _doubles(graded: list[Graded]) -> list[str]:
    """A word on students who handed in a lesson more than once."""
    files = defaultdict(list)
    for one in graded:
        if one.rows and one.rows[0].lesson:
            files[one.submission.student.casefold(), one.rows[0].lesson].append(one.submission)
    several = [found for found in files.values() if len(found) > 1]
    if not several:
        return []
    lines = [
        f"- {cell(found[0].student)} has {len(found)} files for one lesson: {', '.join(cell(one.name) for one in found)}. "
        "Each is in the table; decide which one counts."
        for found in several
    ]
    return ["## Handed in more than once", "\n".join(lines)]


def misconceptions(graded: list[Graded]) -> list[tuple[str, int, str, str]]:
    """(exercise, number of students, message, students), the commonest first within each exercise."""
    who = defaultdict(set)
    for one in graded:
        for row in one.rows:
            if row.status == FAILED:
                message = on_one_line(row.misconception) or OTHER
                who[row.exercise, message].add(one.submission.student)
    found = [(exercise, len(names), message, ", ".join(sorted(names))) for (exercise, message), names in who.items()]
    return sorted(found, key=lambda row: (_place(row[0]), -row[1], row[2]))


def _place(exercise_id: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in exercise_id.split(".")]


def misconceptions_page(graded: list[Graded]) -> str:
    students = {one.submission.student for one in graded}
    standing = defaultdict(lambda: defaultdict(set))
    for one in graded:
        for row in one.rows:
            if row.exercise:
                standing[row.exercise][row.status].add(one.submission.student)
    rows = [
        (name, *(len(standing[name][status]) for status in (PASSED, FAILED, NOT_ATTEMPTED)))
        for name in sorted(standing, key=_place)
    ]
    parts = [
        "# Which misconceptions this cohort has",
        f"{len(graded)} files of {len(students)} students. Counted are students, each once for each exercise.",
        page_table(("exercise", "passed", "failed", "not attempted"), rows),
        "## In the words that the students read",
        page_table(("exercise", "students", "misconception"), [row[:3] for row in misconceptions(graded)]),
    ]
    return "\n\n".join(parts) + "\n"

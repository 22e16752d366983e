"""The tables: one row per exercise and submission, and the misconceptions of a cohort."""

import csv
import html
import io
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from utils.exercises.registry import FAILED, NOT_ATTEMPTED, PASSED
from utils.grading.judge import Row
from utils.grading.submissions import Submission
from utils.paths import write_whole

COLUMNS = ("student", "lesson", "exercise", "status", "message", "file")
STATUSES = (PASSED, FAILED, NOT_ATTEMPTED)
OTHER = "(no known mistake)"
FORMULA = re.compile(r"""(^|;)(?=[\s"']*[=+\-@|＝＋－＠｜])""")
MARKUP = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]~#!"} | {"|": "&#124;"})


@dataclass
class Graded:
    submission: Submission
    rows: list[Row]


def write(out: Path, graded: list[Graded]) -> None:
    """Write all tables, each atomically."""
    known = misconceptions(graded)
    write_whole(out / "grades.csv", as_csv(COLUMNS, table(graded)))
    write_whole(out / "grades.md", grades_page(graded))
    write_whole(out / "misconceptions.csv", as_csv(("exercise", "students", "misconception", "who"), known))
    write_whole(out / "misconceptions.md", misconceptions_page(graded, known))


def table(graded: list[Graded]) -> list[tuple[str, ...]]:
    return [
        (item.submission.student, row.lesson, row.exercise, row.status, on_one_line(row.message), item.submission.name)
        for item in graded
        for row in item.rows
    ]


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def as_csv(columns: tuple[str, ...], rows: list[tuple]) -> str:
    """CSV; where a spreadsheet would see a formula, also behind a `;`, which separates cells in Europe, stands an apostrophe."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([FORMULA.sub(r"\1'", str(value)) for value in row])
    return file.getvalue()


# --- pages ------------------------------------------------------------------------------------------------------


def cell(text: str) -> str:
    """A text for a cell of a Markdown table, with all markup escaped."""
    return html.escape(on_one_line(text), quote=False).translate(MARKUP)


def page_table(columns: tuple[str, ...], rows: list[tuple]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(cell(str(value)) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def grades_page(graded: list[Graded]) -> str:
    totals, files = [], defaultdict(list)
    for item in graded:
        student, lesson = item.submission.student, item.rows[0].lesson
        count = Counter(row.status for row in item.rows)
        known = [count[status] for status in STATUSES]
        totals.append((student, lesson, *known, len(item.rows) - sum(known), item.submission.name))
        files[student.casefold(), lesson].append(item.submission)
    several = [
        f"- {cell(submitted[0].student)} submitted {len(submitted)} files for one lesson: "
        f"{', '.join(cell(file.name) for file in submitted)}. All are in the table; decide which one counts."
        for (_, lesson), submitted in files.items()
        if lesson and len(submitted) > 1
    ]
    parts = ["# Grades", page_table(("student", "lesson", *STATUSES, "other", "file"), totals)]
    parts += ["## Submitted more than once", "\n".join(several)] if several else []
    return "\n\n".join([*parts, "## Every exercise", page_table(COLUMNS, table(graded))]) + "\n"


def misconceptions(graded: list[Graded]) -> list[tuple[str, int, str, str]]:
    """(exercise, number of students, message, students), most common first within each exercise."""
    who = defaultdict(set)
    for item in graded:
        for row in item.rows:
            if row.status == FAILED:
                who[row.exercise, on_one_line(row.misconception) or OTHER].add(item.submission.student)
    rows = [(exercise, len(names), message, ", ".join(sorted(names))) for (exercise, message), names in who.items()]
    return sorted(rows, key=lambda row: (_order(row[0]), -row[1], row[2]))


def misconceptions_page(graded: list[Graded], known: list[tuple]) -> str:
    who = defaultdict(set)
    for item in graded:
        for row in item.rows:
            who[row.exercise, row.status].add(item.submission.student)
    exercises = sorted({exercise for exercise, _ in who if exercise}, key=_order)
    students = {item.submission.student for item in graded}
    parts = [
        "# Misconceptions of this cohort",
        f"{len(graded)} files of {len(students)} students. The tables count students, each once per exercise.",
        page_table(("exercise", *STATUSES), [(name, *(len(who[name, s]) for s in STATUSES)) for name in exercises]),
        "## Messages that the students read",
        page_table(("exercise", "students", "misconception"), [row[:3] for row in known]),
    ]
    return "\n\n".join(parts) + "\n"


def _order(exercise_id: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in exercise_id.split(".")]

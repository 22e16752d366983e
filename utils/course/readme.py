"""Write the tables of the README and of the lecturer's guide from what they speak of; never by hand."""

import json
import re
import sys

from utils.course.exercises import exercises_of
from utils.course.lessons import LESSONS
from utils.course.places import ROOT
from utils.course.timing import in_words, read_timings

README = ROOT / "README.md"
LECTURERS = ROOT / "docs" / "lecturers.md"
RESULTS = ROOT / "tests" / "benchmarks" / "results.json"


def table(head: tuple, rows: list[tuple]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def lessons_table() -> str:
    timings = read_timings()
    rows = []
    for lesson in LESSONS:
        if not lesson.exists:
            rows.append((lesson.number, lesson.title, lesson.question, lesson.builds, "to come", ""))
            continue
        count = len(exercises_of(lesson.number))
        link = f"[{lesson.title}](notebooks/{lesson.name}.ipynb)"
        study = f"{lesson.minutes} min, {count} exercise{'s' * (count != 1)}"
        rows.append((lesson.number, link, lesson.question, lesson.builds, study, in_words(timings.get(lesson.name))))
    return table(("", "lesson", "the question it answers", "what you build", "to study", "to run"), rows)


def results_tables() -> str:
    results = json.loads(RESULTS.read_text())
    regression = [(row["model"], f"{row['error']:.2f}", f"{row['spread']:.2f}") for row in results["regression"]]
    costs = [
        (row["shape"], "causal" if row["mask"] else "none", f"{row['fused']:.2f}", f"{row['explicit']:.2f}")
        for row in results["attention_costs"]
    ]
    seeds = results["seeds_at_once"]
    return "\n\n".join(
        (
            f"Measured on {results['date']}, {results['machine']}, one thread, by `make bench`.",
            f"**Lesson 01, regression with a learned bandwidth.** Held-out root-mean-square error, {seeds['seeds']} seeds. "
            f"Training them at once is {seeds['gain']:g} times as fast as one by one.",
            table(("model", "error", "spread"), regression),
            "**The course's `attention` against torch's own kernel** (time over time, 1 = equal): fused, when no weights "
            "are asked for, and explicit, when they are.",
            table(("batch x heads x length x width", "mask", "fused", "explicit"), costs),
        )
    )


def wrong_answers() -> str:
    """Per exercise, what its check says to the mistakes it knows."""
    parts = []
    for lesson in LESSONS:
        if not lesson.exists:
            continue
        parts.append(f"### {lesson.number} {lesson.title}")
        for exercise in exercises_of(lesson.number):
            # Two models of one mistake may share a message.
            messages = dict.fromkeys(mistake.message for mistake in exercise.mistakes)
            parts.append(
                f"**{exercise.id} {exercise.title}** ({exercise.level}, {exercise.minutes} min)\n"
                + "\n".join(f"- {message}" for message in messages)
            )
    return "\n\n".join(parts)


BLOCKS = {"lessons": lessons_table, "results": results_tables, "wrong answers": wrong_answers}


def filled_in(text: str) -> str:
    """The document with every block between its markers written anew."""
    found = re.findall(r"<!-- begin: (.+?) -->", text)
    if not found:
        raise ValueError("no place for a table: put '<!-- begin: lessons -->' and '<!-- end: lessons -->' in")
    for name in found:
        pattern = re.compile(rf"(<!-- begin: {name} -->\n).*?(<!-- end: {name} -->)", re.S)
        if name not in BLOCKS or not pattern.search(text):
            raise ValueError(f"the block '{name}' is unknown or has no end; known are {', '.join(BLOCKS)}")
        content = BLOCKS[name]()
        text = pattern.sub(lambda match, content=content: match[1] + content + "\n" + match[2], text)
    return text


if __name__ == "__main__":
    for document in (README, LECTURERS):
        try:
            document.write_text(filled_in(document.read_text()))
        except (ValueError, FileNotFoundError) as error:
            sys.exit(f"{document.name} was left as it is: {error}")

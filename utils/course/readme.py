"""Write the tables of the README and of the lecturer's guide from what they speak of; never by hand."""

import re
import sys

from utils.course.exercises import exercises_of
from utils.course.lessons import LESSONS
from utils.course.places import ROOT
from utils.course.results import ranged, stored
from utils.course.timing import in_words, read_timings
from utils.training.babi import PUBLISHED

README = ROOT / "README.md"
LECTURERS = ROOT / "docs" / "lecturers.md"


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
    """Every stored result that the README shows; each part says when and where it was measured."""
    return "\n\n".join((*regression_part(), *attention_part(), *memory_part(), *ladder_part()))


def measured(result) -> str:
    return f"Measured on {result.date}, {result.machine}, one thread, by `make bench`."


def attention_part() -> tuple[str, ...]:
    costs = stored("attention_costs")
    rows = [
        (row["shape"], "causal" if row["mask"] else "none", f"{row['fused']:.2f}", f"{row['explicit']:.2f}")
        for row in costs.result
    ]
    return (
        "**The course's `attention` against torch's own kernel** (time over time, 1 = equal): fused, when no weights are "
        f"asked for, and explicit, when they are. {measured(costs)}",
        table(("batch x heads x length x width", "mask", "fused", "explicit"), rows),
    )


def regression_part() -> tuple[str, ...]:
    errors, seeds = stored("regression"), stored("seeds_at_once").result
    rows = [(row["model"], f"{row['error']:.2f}", f"{row['spread']:.2f}") for row in errors.result]
    return (
        f"**Lesson 01, regression with a learned bandwidth.** Held-out root-mean-square error, {seeds['seeds']} seeds. "
        f"Training them at once is {seeds['gain']:g} times as fast as one by one. {measured(errors)}",
        table(("model", "error", "spread"), rows),
    )


def memory_part() -> tuple[str, ...]:
    result, speed = stored("memory_table"), stored("memory_seeds_at_once").result
    rows = [
        (
            row["task"],
            row["row"],
            f"{row['median']:.1f}",
            f"{min(row['errors']):.1f} to {max(row['errors']):.1f}",
            f"{row['solved']} of {row['seeds']}",
            f"{row['agreement_median']:.0f} %",
        )
        for row in sorted(result.result, key=lambda row: row["task"])
    ]
    tasks = (1, 2, 3, 15, 16)
    published = [(source, *(figures[task] for task in tasks)) for source, figures in PUBLISHED.items()]
    return (
        "**Lesson 02, memory networks on generated bAbI stories.** 1,000 training questions, error in % on 1,000 new ones, "
        f"ten seeds a row; the first row of a task is its full recipe with three hops. {measured(result)} "
        f"Ten seeds of task {speed['task']} train together in {speed['together_seconds']:g} s, {speed['ratio']:g} times the "
        f"{speed['one_alone_seconds']:g} s of one seed in the fastest plain loop.",
        table(("task", "network", "median error", "seeds", "solved", "supporting facts found"), rows),
        "Published errors on the real bAbI files with 1,000 training questions, tasks 1, 2, 3, 15, 16:",
        table(("source", *map(str, tasks)), published),
    )


def ladder_part() -> tuple[str, ...]:
    ladder = stored("ladder")
    first = ladder.result[0]
    rows = [
        (
            row["name"],
            ranged(row["exact"]),
            ranged(row["bleu"]),
            ranged(row["alignment_error"]),
            ranged(row["parameters"], 0),
            ranged(row["seconds"], 0),
        )
        for row in ladder.result
    ]
    lengths = [
        (row["name"], *(f"{part['exact']:.1f}" for part in row["quarters"]), ranged(row["longer"]["exact"]))
        for row in ladder.result
    ]
    words = [f"{part['words']} words" for part in first["quarters"]]
    return (
        f"**Lesson 03, the ladder of translation models.** English to French, 20,000 training pairs, {first['steps']:,} steps "
        f"each, 1,000 held-out sentences, {first['seeds']} seeds: median (smallest to largest). One link per word allows an "
        f"alignment error of {first['alignment_floor']} % at best. {measured(ladder)}",
        table(("model", "exact match, %", "BLEU", "alignment error, %", "parameters", "training, s"), rows),
        "Exact match in % by the length of the English sentence; the last column is longer than anything in training.",
        table(("model", *words, "19 to 26 words"), lengths),
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

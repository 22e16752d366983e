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
    return "\n\n".join(
        (
            *regression_part(),
            *attention_part(),
            *memory_part(),
            *ladder_part(),
            *self_attention_part(),
            *heads_part(),
            *pretraining_part(),
            *published_part(),
        )
    )


def measured(result) -> str:
    return f"Measured {result.origin}"


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
    ladder, last, speed = stored("ladder"), stored("transformer_ladder"), stored("transformer_speed")
    every = [*ladder.result, *last.result]
    first, (best,) = ladder.result[0], last.result
    rows = [
        (
            row["name"],
            ranged(row["exact"]),
            ranged(row["bleu"]),
            ranged(row["alignment_error"]),
            ranged(row["parameters"], 0),
            ranged(row["seconds"], 0),
        )
        for row in every
    ]
    lengths = [
        (row["name"], *(f"{part['exact']:.1f}" for part in row["quarters"]), ranged(row["longer"]["exact"]))
        for row in every
    ]
    words = [f"{part['words']} words" for part in first["quarters"]]
    steps = [
        (
            f"training, {row['norm']}-norm, batch {row['batch']}, length {row['length']}, dropout {row['dropout']}",
            "`nn.Transformer`",
            row["speed"],
        )
        for row in speed.result["training"]
    ]
    steps += [
        (f"greedy decoding, {row['batch']} sentences to {row['length']} words", "without the cache", row["speed"])
        for row in speed.result["cache"]
    ]
    generate = speed.result["generate"]
    steps.append(
        (
            f"greedy decoding, {generate['batch']} sentences to {generate['length']} words",
            "`transformers`' `generate`",
            generate["speed"],
        )
    )
    return (
        f"**Lessons 03 and 06, the ladder of translation models.** English to French, 20,000 training pairs, {first['steps']:,} steps "
        f"each ({best['steps']:,} on {last.threads} threads for the Transformer), 1,000 held-out sentences, {first['seeds']} seeds: median (smallest to largest). One "
        f"link per word allows an alignment error of {first['alignment_floor']} % at best. {measured(ladder)}",
        table(("model", "exact match, %", "BLEU", "alignment error, %", "parameters", "training, s"), rows),
        "Exact match in % by the length of the English sentence; the last column is longer than anything in training.",
        table(("model", *words, "19 to 26 words"), lengths),
        f"The Transformer of width 128 with 2 + 2 layers, times as fast as another, interleaved in one run. {measured(speed)}",
        table(("what", "against", "times as fast"), steps),
    )


def self_attention_part() -> tuple[str, ...]:
    order, model = stored("order_task"), stored("language_model").result
    first = order.result[0]

    def cell(values: dict | None) -> str:
        return "refuses" if values is None else ranged(values)

    head = (
        "positions",
        "as trained",
        *(f"{n} tokens" for n in first["longer"]),
        *(f"from {n} on" for n in first["shifted"]),
    )
    rows = [
        (row["kind"], cell(row["accuracy"]), *map(cell, row["longer"].values()), *map(cell, row["shifted"].values()))
        for row in order.result
    ]
    counts = ", ".join(f"{loss:.2f} ({n}-grams)" for n, loss in model["counts"].items())
    return (
        f"**Lesson 04, does A stand before B?** Accuracy in %, chance 50; {first['seeds']} seeds: median (smallest to largest). Trained "
        f"on up to {first['trained_up_to']} tokens from position 0; tested as trained, on more tokens, and with positions that start "
        f"later. {measured(order)}",
        table(head, rows),
        f"The lesson's language model ({model['parameters']:,} parameters, characters of the manual of Python {model['python']}): held-out loss "
        f"{ranged(model['held_out'], 2)} nats a character over {model['seeds']} seeds; counting gives {counts}. Training all positions "
        f"at once is {ranged(model['factor'])} times as fast as one position at a time.",
    )


def heads_part() -> tuple[str, ...]:
    places, heads, speed = stored("two_places"), stored("heads"), stored("encoder_speed")
    first = places.result[0]
    tasks = [
        (row["row"], f"{min(row['pairs']):.1f} to {max(row['pairs']):.1f}", f"{row['solved']} of {row['seeds']}")
        for row in places.result
    ]
    forms = [
        (layers, row["heads"], ranged(row["accuracy"]), ranged(row["worst_loss"]), ranged(row["without_any_head"]))
        for layers, rows in ((1, stored("heads_one_layer").result), (2, heads.result))
        for row in rows
    ]
    speeds = [(f"{row['norm']}-norm", row["length"], row["dropout"], f"{row['speed']:.2f}") for row in speed.result]
    return (
        f"**Lesson 05, two places, one answer.** Ordered pairs right in %, {first['seeds']} seeds, chance {first['chance']}; width and "
        f"number of parameters are the same in all rows. {measured(places)}",
        table(("model", "smallest to largest", "solved (99 %)"), tasks),
        f"The French form of each English word, width 64: words right in %, {heads.result[0]['seeds']} seeds, median (smallest to "
        f"largest); the most frequent form alone gives {heads.result[0]['usual']}. {measured(heads)}",
        table(("layers", "heads", "accuracy", "points lost without the most missed head", "without any head"), forms),
        "A training step of the encoder layer against `nn.TransformerEncoderLayer`'s, interleaved (times as fast); with dropout, torch drops "
        f"attention weights as well. {measured(speed)}",
        table(("layer", "length", "dropout", "times as fast"), speeds),
    )


def pretraining_part() -> tuple[str, ...]:
    learnt, few, tasks = (stored(name) for name in ("pretraining", "few_labels", "several_tasks"))
    objectives = [
        (
            row["objective"],
            ranged(row["perplexity"], 0),
            f"{row['unigram']:,.0f}",
            "" if row["bigram"] is None else f"{row['bigram']:,.0f}",
            ranged(row["seconds"], 0),
        )
        for row in learnt.result["rows"]
    ]
    found = few.result
    counts = [f"{number} a class" if number else "all" for number in found["labels"]]
    ways = [
        (
            row["way"],
            *(f"{mean:.1f} ± {spread:.1f}" for mean, spread in zip(row["mean"], row["deviation"], strict=True)),
        )
        for row in found["rows"]
    ]
    every = [
        (
            row["task"],
            row["per_class"] or "all",
            f"{row['majority']:.1f}",
            *(ranged(row["accuracy"][way]) for way in ("bag of words", "scratch", "frozen", "full")),
        )
        for row in tasks.result["rows"]
    ]
    python = found["python"]
    return (
        "**Lesson 07, three objectives over the same blocks.** Docstrings and manual of Python "
        f"{learnt.result['python']}, {learnt.result['rows'][0]['seeds']} seeds; perplexity at the pieces that are asked about, in text of other "
        f"modules, beside what counting gives. {measured(learnt)}",
        table(("objective", "perplexity", "unigram", "bigram", "training, s"), objectives),
        f"**Lesson 07, few labels.** Which of 14 families of modules a docstring comes from; accuracy in %, mean and deviation of "
        f"{found['seeds']} draws of labels, split by module, Python {python}; the most frequent family has {found['majority']} %. The encoder is "
        f"the course's own, {found['encoder']['parameters']:,} parameters, {found['encoder']['seconds']:.0f} s of pretraining. {measured(few)}",
        table(("way", *counts), ways),
        f"**Lesson 07, one encoder, several tasks.** Accuracy in %, {tasks.result['seeds']} seeds, Python {tasks.result['python']}. {measured(tasks)}",
        table(("task", "labels a class", "majority", "bag of words", "scratch", "frozen", "full"), every),
    )


def published_part() -> tuple[str, ...]:
    speed, reviews, tasks = stored("bert_speed"), stored("reviews"), stored("published_tasks")
    rows = [(f"{row['sentences']} x {row['pieces']}", f"{row['speed']:.2f}") for row in speed.result["rows"]]
    verdicts = [(row["way"], ranged(row["accuracy"]), ranged(row["seconds"], 0)) for row in reviews.result["rows"]]
    counts = [f"{number} a class" if number else "all" for number in tasks.result["labels"]]
    frozen = [
        (row["task"], f"{row['majority']:.1f}", *(ranged(one) for one in row["accuracy"]))
        for row in tasks.result["rows"]
    ]
    return (
        "**Lesson 07, all-MiniLM-L6-v2 in the course's own encoder**, beside `transformers`' `BertModel` on the same weights, run in turns (above 1: ours "
        f"is faster). Geometric mean {speed.result['geometric_mean']:.2f}. {measured(speed)}",
        table(("sentences x pieces", "times as fast"), rows),
        "**Lesson 07, review sentiment with the published weights.** Accuracy in % on sentences about films that no way has learned from, "
        f"{reviews.result['seeds']} seeds; {reviews.result['snippets']['train']:,} sentences to learn from, "
        f"{reviews.result['snippets']['test']:,} asked about, the commoner verdict has {reviews.result['majority']} %. {measured(reviews)}",
        table(("way", "accuracy", "seconds"), verdicts),
        "**Lesson 07, the published vectors on the course's tasks**, left as they are, under a linear layer. Accuracy in %, "
        f"{tasks.result['seeds']} draws of labels, Python {tasks.result['python']}. {measured(tasks)}",
        table(("task", "majority", *counts), frozen),
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

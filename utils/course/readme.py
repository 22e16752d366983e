"""Write the tables of the README and of the lecturer's guide from what they speak of; never by hand."""

import inspect
import json
import re
import sys
from pathlib import Path

from utils.course.bars import bars
from utils.course.exercises import exercises_of
from utils.course.lessons import LESSONS
from utils.course.places import ROOT
from utils.course.results import RESULTS, ranged, stored
from utils.course.timing import in_words, read_timings
from utils.training.babi import PUBLISHED
from utils.training.heads import head_costs

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
            *files_part(),
            *bars_part(),
            *regression_part(),
            *attention_part(),
            *memory_part(),
            *ladder_part(),
            *self_attention_part(),
            *heads_part(),
            *pretraining_part(),
            *published_part(),
            *cost_part(),
            *scale_part(),
            *smollm2_part(),
            *peak_part(),
            *growth_part(),
            *waiting_part(),
        )
    )


def three_digits(number: float) -> str:
    """1.23, 12.3, 123, and "1,234"; never a power of ten."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def measured(result) -> str:
    return f"Measured {result.origin}"


def files_part(folder: Path = RESULTS) -> tuple[str, ...]:
    """Where the figures stand for programs, and what all files together say of the processor and of other packages."""
    entries = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    # Files that were written before these two were recorded lack them.
    processors = sorted({entry["processor"] for entry in entries if "processor" in entry})
    versions = sorted({f"{name} {number}" for entry in entries for name, number in entry.get("versions", {}).items()})
    behind = "; ".join(", ".join(names) for names in (processors, versions) if names)
    return (
        "For programs, each result is a JSON file in [tests/benchmarks/results](tests/benchmarks/results), with its date, machine and versions"
        f"{f' ({behind})' if behind else ''}. `make bench` measures all of it anew, and the run times above; it takes hours on a quiet machine. "
        "`make bench-quick` tries every part with small settings in a few minutes, and shows its figures beside the stored ones.",
    )


def bars_part() -> tuple[str, ...]:
    every = bars()
    held = sum(bar.held for bar in every)
    rows = [
        (bar.lesson, bar.what, bar.promise, bar.measured, "yes" if bar.held else "**falls short**") for bar in every
    ]
    return (
        f"**What the lessons promise, and what was measured last**: {held} of {len(every)} bars are held. Each figure stands in its table below.",
        table(("lesson", "what", "promised", "measured", "held"), rows),
    )


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
    steps += [
        (
            f"greedy decoding, {row['batch']} sentences to {row['length']} words",
            f"`transformers`' `generate`, {row['peer']} of the same size",
            row["speed"],
        )
        for row in speed.result["generate"]
    ]
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
    costs, depth = stored("head_costs"), stored("depth")
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
    parts = [
        (
            row["heads"],
            f"{row['parameters']:,}",
            f"{row['products'] / 1e6:,.0f}",
            f"{row['exponentials'] / 1e6:.2f}",
            *(f"{row[name]:.1f}" for name in ("projections_ms", "products_ms", "softmax_ms", "fused_ms")),
        )
        for row in costs.result
    ]
    sizes = {name: one.default for name, one in inspect.signature(head_costs).parameters.items()}
    stacks = [(kind, *(f"{one:.2g}" for one in found)) for kind, found in depth.result["gradient"].items()]
    wrong = {kind: found[-1] for kind, found in depth.result["identity_error"].items()}
    valleys = {kind: sorted(found) for kind, found in depth.result["valleys"].items()}
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
        f"More heads at one width ({sizes['dim']}, {sizes['batch']} sentences of {sizes['n']} tokens): the same parameters and the same "
        "multiplications, but more exponentials. Milliseconds of the parts, and of all of it in one fused call that never stores the weights; "
        f"medians. {measured(costs)}",
        table(
            ("heads", "parameters", "millions multiplied", "millions of exponentials")
            + tuple(f"{name}, ms" for name in ("projections", "products", "softmax", "fused")),
            parts,
        ),
        "How long the gradient is at the input of a fresh encoder of so many layers, as a share of its length at the output; median of seeds. "
        f"{measured(depth)}",
        table(("stack", *depth.result["depths"]), stacks),
        f"Trained to hand on what they get, {depth.result['identity_depths'][-1]} layers leave an error of {ranged(wrong['plain'], 3)} without "
        f"residuals and {ranged(wrong['residual'], 3)} with them. Around what {depth.result['surface_depth']} layers have learned, the loss has "
        f"{valleys['plain'][0]} to {valleys['plain'][-1]} valleys without and {valleys['residual'][0]} to {valleys['residual'][-1]} with them.",
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


def cost_part() -> tuple[str, ...]:
    costs, far, images = stored("length_costs"), stored("long_range"), stored("digits")

    def slope(row: dict, name: str) -> str:
        return f"{row[name]['slope']:.2f} ± {row[name]['error']:.2f}"

    growth = [
        (
            row["kind"],
            "with gradients" if row["backward"] else "forward",
            slope(row, "long_time"),
            slope(row, "long_memory"),
            three_digits(row["ms"][row["lengths"].index(4096)]),
        )
        for row in costs.result["rows"]
    ]
    bands = far.result[0]["bands"]
    answers = [
        (
            row["row"],
            ", ".join(f"{one:.0f}" for one in row["accuracies"]),
            *(f"{one:.0f}" for one in row["by_distance"]),
        )
        for row in far.result
    ]
    digits = [
        (
            row["positions"],
            "one shuffled order for all" if row["shuffled"] else "as they lie",
            ranged(row["accuracy"]),
            ranged(row["other_order"]),
        )
        for row in images.result
    ]
    return (
        "**Lesson 08, cost against length.** Exponents over the longer half of the lengths, up to 16,384 tokens (6,144 by hand), with their standard "
        f"errors; one text, four heads, width 64. {measured(costs)}",
        table(("kind", "what", "exponent of time", "of memory", "ms at 4,096 tokens"), growth),
        f"**Lesson 08, what the cheaper kinds lose.** Questions right in %, by the distance to the answer, {len(far.result[0]['accuracies'])} seeds; "
        f"chance {far.result[0]['chance']:g} %. {measured(far)}",
        table(("kind", "in all, each seed", *(f"up to {band} places" for band in bands)), answers),
        f"**Lesson 08, digits as patches.** Right in % of {images.result[0]['held_out']} held-out images, {len(images.result[0]['accuracies'])} seeds. "
        f"{measured(images)}",
        table(("positions", "patches", "right", "each image in an order of its own"), digits),
    )


def scale_part() -> tuple[str, ...]:
    scale, changes = stored("scaling"), stored("modifications")
    found = scale.result
    names = {"parameters": "parameters", "data": "pieces of text", "computing": "operations, best of both"}
    points = {name: found[name].get("frontier", found[name].get("x")) for name in names}
    laws = [
        (
            f"{words}, {kind if kind == 'with floor' else 'without floor'}",
            len(points[name]),
            f"{law['exponent']:.3f} ({law['exponent_interval'][0]:.3f} to {law['exponent_interval'][1]:.3f})",
            f"{law['floor']:.2f}" if kind == "with floor" else "",
            f"{100 * law['scatter']:.1f} %",
        )
        for name, words in names.items()
        for kind, law in found[name]["laws"].items()
    ]
    larger = found["larger"]
    told = [
        (
            f"law {kind if kind == 'with floor' else 'without floor'}",
            f"{value:.3f} ({low:.3f} to {high:.3f})",
            ranged(larger["reached"], 3),
            f"{100 * (value / larger['reached']['median'] - 1):+.1f} %",
        )
        for kind, (value, low, high) in larger["foretold"].items()
    ]
    rows = [
        (
            row["change"],
            ranged(row["loss"], 3),
            f"{row['better']:+.3f} ± {row['noise']:.3f}" if row["change"] != changes.result["base"] else "",
            f"{row['factor']:g}",
        )
        for row in changes.result["rows"]
    ]
    return (
        f"**Lesson 08, scaling.** Causal models of {min(found['parameters']['x']):,} to {max(found['parameters']['x']):,} parameters, "
        f"{found['parameters']['seeds']} seeds ({found['data']['seeds']} for text and operations), text of Python {found['python']}: exponents of the fitted "
        f"power laws with 95 % intervals. {measured(scale)}",
        table(("loss against", "points", "exponent", "floor, nats", "scatter"), laws),
        f"A model of {larger['x']:,} parameters that no fit was told about, loss in nats:",
        table(("by", "foretold (95 %)", "reached", "off by"), told),
        f"**Lesson 08, one change at a time.** Held-out loss in nats, {changes.result['seeds']} seeds, same budget; better than the base, with the standard "
        f"error of the mean. {measured(changes)}",
        table(("change", "loss", "better by", "times the usual rate"), rows),
    )


def smollm2_part() -> tuple[str, ...]:
    speed = stored("smollm2_speed")
    found = speed.result
    return (
        f"**Lesson 08, SmolLM2-135M on the course's own blocks**, cached greedy writing of {found['pieces']} pieces: {found['pieces_a_second']:g} pieces a second, "
        f"{found['generate']:g} times as fast as `transformers`' `generate` on the same weights and {found['loop']:g} times as fast as the barest loop "
        f"over its model, in turns. {measured(speed)}",
    )


def peak_part() -> tuple[str, ...]:
    peak = stored("peak_share")
    rows = [
        (
            row["step"],
            row["threads"],
            row["gigaflop"],
            f"{row['ms']:.1f}",
            row["reached"],
            row["peak"],
            f"{row['share']:.0f}",
        )
        for row in peak.result
    ]
    return (
        "**How much of the machine a training step uses.** Its matrix products over its whole time, beside the best that large products reach on the same "
        f"threads, in turns. Measured on {peak.date}, {peak.machine}, by `make bench`.",
        table(("step", "threads", "GFLOP", "ms", "GFLOP/s", "best GFLOP/s", "share, %"), rows),
    )


def growth_part() -> tuple[str, ...]:
    growth = stored("growth")

    def slope(fit: dict) -> str:
        return f"{fit['slope']:.2f} ± {fit['error']:.2f}"

    rows = [
        (
            row["what"],
            row["against"],
            f"{row['sizes'][0]} to {row['sizes'][-1]}",
            slope(row["all"]),
            slope(row["larger"]),
            f"{three_digits(row['ms'][0])} to {three_digits(row['ms'][-1])}",
        )
        for row in growth.result
    ]
    return (
        "**How costs grow.** Exponents with their standard errors, over all sizes and over the larger half; the cost against the length of a text stands with "
        f"lesson 08. {measured(growth)}",
        table(("cost of", "against", "sizes", "exponent", "larger half", "ms"), rows),
    )


def waiting_part() -> tuple[str, ...]:
    start, widgets = stored("lab_start"), stored("widgets")
    found = start.result

    def both(times: dict | None) -> str:
        return "" if times is None else f"{times['median']:.0f}, {times['worst']:.0f}"

    rows = [
        (row["widget"], row["changed"], row["drawn_by"], both(row["answer"]), both(row["picture"]))
        for row in widgets.result
    ]
    return (
        f"**Waiting.** From `make lab` on an installed machine until the server answers: {ranged(found['server'])} s; until the kernel of lesson 00 is ready: "
        f"{ranged(found['kernel'])} s; until its first cell has run: {ranged(found['first_cell'])} s. {found['rounds']} starts, without the time of the browser. "
        f"{measured(start)}",
        "From a control's change until the kernel has answered, in ms: median, worst over the range. Where the page draws, the kernel answers with numbers; the "
        f"static picture is what a saved notebook shows. {measured(widgets)}",
        table(("widget", "changed", "drawn by", "answer", "static picture"), rows),
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
            document.write_text(filled_in(document.read_text(encoding="utf-8")), encoding="utf-8")
        except (ValueError, FileNotFoundError) as error:
            sys.exit(f"{document.name} was left as it is: {error}")

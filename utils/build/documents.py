"""`make results`: write docs/results.md, and the generated parts of the README, the lecturers' guide, the model card and CITATION.cff."""

import json
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from utils import paths
from utils.build.hosting import hosted
from utils.build.results import RESULTS, Table, read_entry, stored
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import exercise_count, exercises_of
from utils.exercises.timing import read_timings
from utils.paths import ROOT

README = ROOT / "README.md"
PAGE = ROOT / "docs" / "results.md"
LECTURERS = ROOT / "docs" / "lecturers.md"
STUDENTS = ROOT / "docs" / "students.md"
ENCODER = ROOT / "data" / "encoder" / "README.md"
DOCUMENTS = (README, LECTURERS, STUDENTS, ENCODER, ROOT / "CITATION.cff")
AUDITS = ROOT / "tests" / "audit" / "results"
MUTANTS = AUDITS / "mutants.json"
VERSIONS = AUDITS / "versions.json"
READERS = ROOT / "tests" / "audit" / "readers.json"

MEASURED = {
    "00_start_here": "whether your machine is ready",
    "01_softmax_attention": "test error of kernel regression with a learned bandwidth",
    "02_memory_network": "error on bAbI-style tasks 1, 2, 3, 15, 16, by number of hops; SGD against Adam; supporting facts found",
    "03_sequence_to_sequence": "exact match, BLEU and alignment error, with and without attention, by sentence length",
    "04_self_attention": "order accuracy and extrapolation of sinusoidal, learned and rotary positions; cross-entropy of a language model",
    "05_multi_head_attention": "one head against several, head ablation, gradients and training with and without residual connections and norms, the encoder and the memory network on stories",
    "06_transformer": "parity with `nn.Transformer`; exact match, BLEU, alignment; speedup of the KV cache",
    "07_tokenize_and_pretrain": "perplexity of three pretraining objectives against n-gram models; the translator with few pairs, from scratch and pretrained",
    "08_fine_tune_and_transfer": "accuracy by number of labels: from scratch, linear probe, LoRA, full fine-tuning; MiniLM",
    "09_cost_and_scale": "time and memory against length, scaling laws with a held-out prediction, speed and in-context learning of SmolLM2",
}


PICTURE = "docs/images/transformer.webp"
PICTURE_ALT = (
    "The trained Transformer of lesson 06, open in the page: it decodes a translation token by token, a block opens into its "
    "matrices, and a token shows what it attends to"
)


def lessons_table() -> str:
    """Titles lead to the pages, or to the notebooks of this checkout while there is no website."""
    timings, rows, url = read_timings(), [], paths.site_url()
    for lesson in LESSONS:
        study = f"{lesson.minutes} min, {exercise_count(lesson.number)}"
        timing = timings.get(lesson.name)
        run = f"{timing['seconds']:.0f} s" if timing else "not measured yet"
        page = f"{url}/{lesson.name}.html" if url else f"notebooks/{lesson.name}.ipynb"
        links = {"slides": f"{url}/slides/{lesson.name}.html"} if url else {}
        links |= hosted(lesson.name) or {"exercises": f"notebooks/exercises/{lesson.name}.ipynb"}
        also = " · ".join(f"[{word}]({link})" for word, link in links.items())
        title, measured = f"[{lesson.title}]({page})", MEASURED.get(lesson.name, "")
        rows.append((lesson.number, title, also, lesson.builds, measured, study, run))
    columns = ("", "lesson", "open", "what you build", "what you measure", "to study", "run time")
    return Table(columns, rows).markdown()


def picture() -> str:
    """A click leads to the live widget, or to the lesson while there is no website."""
    url = paths.site_url()
    return (
        f"[![{PICTURE_ALT}]({PICTURE})]({f'{url}/transformer.html' if url else f'notebooks/{LESSONS[6].name}.ipynb'})"
    )


def ways() -> str:
    """Read, run on a host, run here: one link or command each."""
    url, first = paths.site_url(), LESSONS[1].name
    hosts = " or ".join(f"[open lesson 01 in {host}]({link})" for host, link in hosted(first).items())
    lines = (
        f"**Read:** [{url.partition('://')[2]}]({url}/index.html), with live widgets, slides and search."
        if url
        else f"**Read:** [lesson 01](notebooks/{first}.ipynb) as a notebook; `make site` writes the website with live widgets, slides and search.",
        f"**Run in a hosted notebook:** {hosts}; its first cell gets the rest."
        if hosts
        else "**Run in a hosted notebook:** once the repository is published, [a link per lesson](docs/students.md#hosted-notebooks).",
        "**Run here:** `make lab`, with Python 3.11 or newer.",
    )
    return "\n".join(f"- {line}" for line in lines)


def claims() -> str:
    """Why to trust the course: five sentences whose figures come from stored results."""
    parity = stored("bert_parity").result
    attention = max(row["fused"] for row in stored("attention_costs").result)
    models = {row["name"]: row for row in stored("translation").result["rows"]}
    without, additive, transformer = (models[name] for name in ("no attention", "additive attention", "Transformer"))
    rotary = models["Transformer, rotary positions"]
    longer = max(row["longer"]["exact"]["median"] for name, row in models.items() if "Transformer" not in name)
    few = stored("few_labels").result
    four = few["labels"].index(4)
    labels = {row["method"]: row["mean"][four] for row in few["rows"]}
    targets = [target for file in RESULTS.glob("*.json") for target in read_entry(file)["targets"]]
    missed = sum(not target["met"] for target in targets)
    (checked,) = (row for row in read_entry(MUTANTS)["rows"] if row["what"] == "all exercises")
    timings = read_timings().values()
    memory = max(timing["mebibytes"] for timing in timings) / 1024
    lines = (
        f"**It computes what the real libraries compute.** MiniLM's weights in the course's encoder give hidden states within {max(parity['largest']):.1e} of "
        f"`transformers` (the largest of {parity['numbers']:,} differences); `attention` without weights takes at most {attention:g} times as long as PyTorch's fused kernel.",
        f"**It measures on held-out data, over several seeds.** Without attention the translator gets {without['exact']['median']} % of sentences exactly right, with "
        f"additive attention {additive['exact']['median']} %, and the Transformer {transformer['exact']['median']} % (medians of {transformer['seeds']} seeds, the same pairs and epochs).",
        f"**It reports what did not work.** On sentences longer than any in training that Transformer gets {transformer['longer']['exact']['median']} %, with rotary positions "
        f"{rotary['longer']['exact']['median']} %, the best recurrent model {longer} %; of {len(targets)} targets {missed} are missed, and the table says which.",
        f"**Its checks are checked.** Of {checked['mutants'] - checked['equivalent']:,} mutants of the solutions that change a result they reject {checked['caught']:,}; of "
        f"{checked['right answers']} variants of the solutions with the same results, {checked['refused']}.",
        f"**Two CPU cores suffice.** All lessons together run in {sum(timing['seconds'] for timing in timings) / 60:.0f} minutes on them, with at most {memory:.1f} GiB of "
        f"memory; {few['encoder']['seconds'] / 60:.0f} minutes of pretraining lift the accuracy with four labels per class from {labels['from scratch']:.0f} to {labels['full fine-tuning']:.0f} %.",
    )
    return "\n".join(f"- {line}" for line in lines)


def wrong_answers() -> str:
    """The messages of each exercise for its common mistakes."""
    parts = []
    for lesson in LESSONS:
        parts.append(f"### {lesson.number} {lesson.title}")
        for exercise in exercises_of(lesson.number):
            # Two edits may share a message.
            messages = dict.fromkeys(mistake.message for mistake in exercise.mistakes)
            parts.append(
                f"**{exercise.id} {exercise.title}** ({exercise.effort})\n"
                + "\n".join(f"- {message}" for message in messages)
            )
    return "\n\n".join(parts)


def systems() -> str:
    """What ran under which Python and torch in the audit of versions."""
    entry, tried = read_entry(VERSIONS), {}
    for row in entry["rows"]:
        if "torch" in row:
            part = row["what"].rpartition(", ")[2]
            tried.setdefault((row["python"], row["torch"]), {})[part] = "passed" if row["ok"] else "failed"
    parts = ("all notebooks", "all tests but those in a browser")
    rows = [("Linux", *exact, *(tried[exact].get(part, "not run") for part in parts)) for exact in tried]
    rows += [("macOS, Windows", "", "", *["untested here"] * len(parts))]
    return Table(("system", "Python", "torch", *parts), rows).markdown()


def encoder_facts() -> str:
    """The model card's figures, from the stored encoder and from the benchmark that fine-tunes it."""
    stored_facts = json.loads(ENCODER.with_name("encoder.json").read_text(encoding="utf-8"))
    sizes, few = stored_facts["settings"], stored("few_labels").result
    four = few["labels"].index(4)
    tuned = {row["method"]: f"{row['mean'][four]:.0f} %" for row in few["rows"]}
    rows = [
        ("parameters", f"{stored_facts['parameters']:,}"),
        (
            "sizes",
            f"{sizes['num_layers']} layers, {sizes['num_heads']} heads, dimension {sizes['dim']}, feed-forward {sizes['hidden_dim']}, vocabulary {sizes['vocab_size']:,}",
        ),
        ("training", f"{stored_facts['num_tokens']:,} tokens, {stored_facts['seconds'] / 60:.0f} minutes on one core"),
        ("perplexity at masked tokens of held-out text", f"{stored_facts['perplexity']:.1f}"),
        ("the same, of a unigram model", f"{math.exp(stored_facts['unigram']):.0f}"),
        (
            f"accuracy with four labels per class, {few['seeds']} seeds",
            f"{tuned['full fine-tuning']}; from scratch {tuned['from scratch']}, bag of words {tuned['bag of words']}",
        ),
    ]
    return Table(("what", "measured"), rows).markdown()


def project_facts() -> str:
    """What CITATION.cff repeats of pyproject.toml."""
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [
        "authors:",
        *(f"  - name: {json.dumps(author['name'], ensure_ascii=False)}" for author in project["authors"]),
    ]
    lines += [f"version: {project['version']}"]
    lines += [f"url: {paths.site_url()}"] * bool(paths.site_url())
    lines += [f"repository-code: {paths.repository_url()}"] * bool(paths.repository_url())
    return "\n".join(lines)


BLOCKS = {
    "picture": picture,
    "ways": ways,
    "lessons": lessons_table,
    "claims": claims,
    "wrong answers": wrong_answers,
    "systems": systems,
    "encoder": encoder_facts,
    "project": project_facts,
}
MARK = r"^(?:<!--|#) {edge}: {name}(?: -->)?$"  # in Markdown and in YAML


def filled_in(text: str) -> str:
    """The document with every generated block replaced."""
    blocks = re.findall(MARK.format(edge="begin", name="(.+?)"), text, re.MULTILINE)
    if not blocks:
        raise ValueError("expected a generated block: insert '<!-- begin: lessons -->' and '<!-- end: lessons -->'")
    for name in blocks:
        begin, end = (MARK.format(edge=edge, name=name) for edge in ("begin", "end"))
        pattern = re.compile(rf"({begin}\n).*?({end})", re.DOTALL | re.MULTILINE)
        if name not in BLOCKS or not pattern.search(text):
            raise ValueError(f"the block '{name}' is unknown or has no end; known blocks: {', '.join(BLOCKS)}")
        content = BLOCKS[name]()
        text = pattern.sub(lambda match, content=content: match[1] + content + "\n" + match[2], text)
    return text


def write_documents() -> int:
    """Write the documents. One that cannot be filled in is left unchanged, and the exit code is 1."""
    code = 0
    for document in DOCUMENTS:
        try:
            document.write_text(filled_in(document.read_text(encoding="utf-8")), encoding="utf-8")
        except (ValueError, FileNotFoundError) as error:
            print(f"{document.name} was left unchanged: {error}", file=sys.stderr)
            code = 1
    return code


# docs/results.md

INTRODUCTION = """# Results

Every table below is written by `make results` from a JSON file in [tests/benchmarks/results](../tests/benchmarks/results), which also holds the raw
figures, seed by seed. `make bench` measures everything again (hours, on a quiet machine); `python -m tests.benchmarks NAME` measures one table;
`make bench-quick` runs every benchmark with small settings and prints its figures next to the stored ones.

Scores are on held-out data. A cell such as 61.9 (61.9 to 64.1) is the median over the seeds, with the smallest and the largest. A speedup of 1.4x means
that the course's code takes 1/1.4 of the time of the code it is compared with; the two run alternately in one process."""


def results_page(folder: Path = RESULTS, plot: Callable[[str, dict], str | None] = lambda name, entry: None) -> str:
    """docs/results.md: targets first, then one section per lesson, tables by the name of their file.

    plot(name, entry) may return a plot to show above the table, as on the website.
    """
    entries = {file.stem: read_entry(file) for file in sorted(folder.glob("*.json"))}
    usual = Counter(entry["machine"] for entry in entries.values()).most_common(1)[0][0]
    recorded = [entry for entry in entries.values() if "processor" in entry]  # files of 2026-11-16 lack both facts
    versions = {f"{name} {number}" for entry in recorded for name, number in entry["versions"].items()}
    behind = ", ".join([*sorted({entry["processor"] for entry in recorded}), *sorted(versions)])
    parts = [INTRODUCTION, f"Machine, unless a table says otherwise: {usual}, one thread ({behind})."]
    parts += ["## Targets", *targets_part(entries)]
    for lesson in sorted({entry["lesson"] for entry in entries.values()}):
        parts.append(f"## Lesson {lesson}")
        for name, entry in entries.items():
            if entry["lesson"] == lesson:
                parts += [f"### {entry['title']}", f"{entry['caption']} {_origin(name, entry, usual)}"]
                parts += [drawn] if (drawn := plot(name, entry)) else []
                parts.append(Table(entry["columns"], entry["rows"]).markdown())
    return "\n\n".join([*parts, *checked_part()]) + "\n"


def targets_part(entries: dict[str, dict]) -> tuple[str, str]:
    every = [(entry["lesson"], target) for entry in entries.values() for target in entry["targets"]]
    rows = [
        (lesson, target["what"], target["target"], target["measured"], "yes" if target["met"] else "**no**")
        for lesson, target in sorted(every, key=lambda pair: pair[0])
    ]
    met = sum(target["met"] for _, target in every)
    return (
        f"{met} of {len(every)} targets are met.",
        Table(("lesson", "what", "target", "measured", "met"), rows).markdown(),
    )


def checked_part() -> tuple[str, ...]:
    """What the slow proofs found the last time, and what readers found who compared every sentence with its evidence."""
    audits = []
    for file in sorted(AUDITS.glob("*.json")):
        entry = read_entry(file)
        fine = sum(row["ok"] for row in entry["rows"])
        link = f"[{file.stem}](../tests/audit/results/{file.name})"
        dates = sorted({row.get("date", entry["date"]) for row in entry["rows"]})  # rows may be repeated alone
        days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
        audits.append((link, f"{fine} of {len(entry['rows'])}", days, f"{entry['seconds'] / 60:.0f}"))
    readers = read_entry(READERS)
    columns = ("facts", "exercises", "found", "again")
    facts, exercises, found, again = (sum(row.get(name, 0) for row in readers["rows"]) for name in columns)
    return (
        "## What we checked",
        "Parts of `make audit`: what was tried and is as it should be.",
        Table(("part", "as it should be", "date", "minutes"), audits).markdown(),
        f"Readers compared about {facts:,} sentences and {exercises} exercise statements with the outputs, the checks and the cited sources ({readers['date']}), other readers those of the lessons once more ({readers['again']}). "
        f"The {found} and then {again} mistakes, unsupported and too general claims that they found are corrected.",
        Table(
            ("read", "sentences of fact, about", "exercise statements", "found", "found the second time"),
            [(row["read"], *(row.get(name, "") for name in columns)) for row in readers["rows"]],
        ).markdown(),
    )


def _origin(name: str, entry: dict, usual: str) -> str:
    threads = "" if entry["threads"] == 1 else f", {entry['threads']} threads"
    other = "" if entry["machine"] == usual else f", {entry['machine']}"
    return f"*([{name}](../tests/benchmarks/results/{name}.json), {entry['date']}{threads}{other})*"


if __name__ == "__main__":
    PAGE.write_text(results_page(), encoding="utf-8")
    sys.exit(write_documents())

"""What a step, a training and a check cost against the size of what they are given, as exponents with their errors.

The cost against the length of a text is measured with lesson 08's, see `tests.benchmarks.costs`.
"""

import dataclasses
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import nbformat
import torch
import torch.nn.functional as F

from tests.benchmarks.encoder_speed import training_step
from utils.course import build
from utils.course.places import ROOT
from utils.data.story_tensors import Vocabulary, as_tensors
from utils.models.encoder import EncoderLayer
from utils.models.memory import MemoryNetwork
from utils.training.costs import fitted_exponent, least_seconds, long_half
from utils.training.memory import BATCH, RATE, descend, logits_and_weights, numbered, places, task_questions, train

WIDTHS = (64, 96, 128, 192, 256, 384, 512)
SEEDS = (1, 2, 5, 10, 20)
SENTENCES = (5, 10, 20, 40, 80, 160, 320)
NOTEBOOKS = (1, 2, 4, 8, 16)
COPIED = "01_softmax_attention"

Runs = dict[int, Callable[[], object]]


def growth_table(
    widths: Sequence[int] = WIDTHS,
    seeds: Sequence[int] = SEEDS,
    sentences: Sequence[int] = SENTENCES,
    notebooks: Sequence[int] = NOTEBOOKS,
    repeats: int = 7,
) -> list[dict]:
    """A row for each: what costs, against what, milliseconds at each size, and the exponent over all sizes and over the
    larger half of them. All sizes take turns; the least of the turns counts, in seconds of the processor."""
    with tempfile.TemporaryDirectory(prefix="course-growth-") as folder:
        rows = (
            ("a training step of the encoder layer", "width", width_runs(widths)),
            ("an epoch of memory networks, all seeds at once", "seeds", seed_runs(seeds)),
            ("a training step of a memory network", "sentences of a story", story_runs(sentences)),
            (
                "the check that notebooks are what their sources give",
                "notebooks",
                notebook_runs(notebooks, Path(folder)),
            ),
        )
        return [_row(what, against, least_seconds(runs, repeats)) for what, against, runs in rows]


def _row(what: str, against: str, taken: dict[int, float]) -> dict:
    sizes, seconds = list(taken), list(taken.values())
    fits = {"all": fitted_exponent(sizes, seconds), "larger": long_half(sizes, seconds)}
    return {
        "what": what,
        "against": against,
        "sizes": sizes,
        "ms": [float(f"{1000 * one:.3g}") for one in seconds],
        **{name: {"slope": round(fit.slope, 2), "error": round(fit.error, 2)} for name, fit in fits.items()},
    }


def width_runs(widths: Sequence[int], batch: int = 8, length: int = 64, heads: int = 4) -> Runs:
    def run(width: int) -> Callable[[], None]:
        layer, x = EncoderLayer(width, heads, 4 * width, norm="pre"), torch.randn(batch, length, width)
        return training_step(layer, lambda: layer(x)[0])

    return {width: run(width) for width in widths}


def seed_runs(seeds: Sequence[int], task: int = 16) -> Runs:
    questions, _ = task_questions(task)
    vocabulary = Vocabulary.of(questions)
    stories = as_tensors(questions, vocabulary)

    def run(count: int) -> Callable[[], object]:
        model = MemoryNetwork(len(vocabulary), memory=2 * stories.story.size(1), seeds=count)
        return lambda: train(model, stories, range(count), linear_start=False, epochs=1)

    return {count: run(count) for count in seeds}


def story_runs(sentences: Sequence[int], task: int = 1) -> Runs:
    """Stories of so many statements, drawn from those of a task, so that there are as many different ones as there."""
    questions = task_questions(task)[0][:200]
    vocabulary, dice = Vocabulary.of(questions), random.Random(0)
    told = sorted({sentence for one in questions for sentence in one.story})

    def run(count: int) -> Callable[[], None]:
        chosen = [dataclasses.replace(one, story=tuple(dice.choices(told, k=count)), facts=()) for one in questions]
        stories = as_tensors(chosen, vocabulary, memory=count)
        model = MemoryNetwork(len(vocabulary), memory=count, seeds=1)
        # A batch is a part of the stories, and all different sentences are read for it, as in training.
        by_number = numbered(stories, model)
        place = places(by_number.story, stories.age, model, len(by_number.counts))[None, :BATCH]
        question, answer = by_number.question[None, :BATCH], stories.answer[:BATCH]
        parameters = [parameter for parameter in model.parameters() if parameter.numel()]

        def step() -> None:
            logits, _ = logits_and_weights(model, by_number.counts, place, question, None)
            loss = F.cross_entropy(logits[0], answer, reduction="sum")
            descend(parameters, torch.autograd.grad(loss, parameters), RATE)

        return step

    return {count: run(count) for count in sentences}


def notebook_runs(counts: Sequence[int], root: Path) -> Runs:
    """`check_in_sync` over so many copies of one lesson, which are in step with their sources."""
    shop = build.Shop(root)
    # A copy, so that an edit in the meantime does not count.
    shutil.copytree(ROOT / "utils", root / "utils", ignore=shutil.ignore_patterns("__pycache__"))
    shop.sources.mkdir(parents=True)
    shop.students.mkdir()
    names = [
        f"{COPIED[:2]}_copy_{number}" for number in range(max(counts))
    ]  # exercises know the number of their lesson
    for name in names:
        shop.source(name).write_bytes(build.HERE.source(COPIED).read_bytes())
    for name in names:  # only now: a lesson with the board depends on all sources
        _write_as_built(name, shop)

    def run(count: int) -> Callable[[], None]:
        def check() -> None:
            found = [sentence for name in names[:count] for sentence in build.check_in_sync(name, shop)]
            if found:
                raise AssertionError(f"expected copies in step with their sources, got {found[0]}")

        return check

    return {count: run(count) for count in counts}


def _write_as_built(name: str, shop: build.Shop) -> None:
    """Both notebooks as the build would leave them, with the outputs of the real lesson."""
    source = build.read_lesson(name, shop)
    lecture, saved = build.lecture_of(source), nbformat.read(build.HERE.lecture(COPIED), as_version=4)
    ran = [cell for cell in saved.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cell for cell in lecture.cells if cell.cell_type == "code"):
        cell.execution_count, cell.outputs = number + 1, ran[number].outputs
    lecture.metadata["course"] = {"key": build.lesson_key(name, source, shop)}
    nbformat.write(lecture, shop.lecture(name))
    nbformat.write(build.student_of(source), shop.student(name))


if __name__ == "__main__":
    for row in growth_table():
        print(row)

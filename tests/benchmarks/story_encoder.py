"""The encoder of lesson 05 on the stories of lesson 02, next to the memory network, with more and more training data."""

from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_most
from utils.training.story_encoder import DIM, MODELS, NUM_HEADS, NUM_LAYERS, SIZES, STEPS, TASKS, train_on_stories

SEEDS = 3


def story_row(model: str, task: int, questions: int, seeds: int = SEEDS, steps: int = STEPS) -> dict:
    """Errors in % on new stories and in training, one for each seed."""
    result = train_on_stories.__wrapped__(model, task, questions, seeds, steps)
    return {
        "model": model,
        "task": task,
        "questions": questions,
        "seeds": seeds,
        "steps": steps,
        "parameters": result["parameters"],
        "errors": [round(100 * error, 1) for error in result["error"].tolist()],
        "training_errors": [round(100 * error, 1) for error in result["training_error"].tolist()],
    }


def story_table(
    tasks: Sequence[int] = TASKS, sizes: Sequence[int] = SIZES, seeds: int = SEEDS, steps: int = STEPS
) -> list[dict]:
    return [story_row(model, task, size, seeds, steps) for task in tasks for model in MODELS for size in sizes]


def show_stories(rows: list[dict]) -> Shown:
    sizes = sorted({row["questions"] for row in rows})
    row_of = {(row["task"], row["model"], row["questions"]): row for row in rows}
    # More stories have longer ones among them, and these more temporal embeddings.
    kinds = {(row["task"], row["model"]): row["parameters"] for row in rows}

    def cell(row: dict | None) -> str:
        return "" if row is None else ", ".join(f"{error:.1f}" for error in row["errors"])

    hard, empty = row_of.get((2, "encoder", 10_000)), len(row_of) < len(kinds) * len(sizes)
    return Shown(
        "Encoder and memory network on generated bAbI stories",
        f"Test error in % against the number of training questions, {rows[0]['seeds']} seeds, 1,000 test questions. All models take {rows[0]['steps']:,} steps with "
        f"the same batches of 32 questions, the budget of the memory network in lesson 02. Encoder: {NUM_LAYERS} layers, width {DIM}, {NUM_HEADS} heads, one token per sentence."
        + " Empty cells were not measured: the encoders solve task 1 with 1,000 questions."
        * empty,
        ("task", "model", "parameters", *(f"{size:,} questions" for size in sizes)),
        [
            (task, model, f"{parameters:,}", *(cell(row_of.get((task, model, size))) for size in sizes))
            for (task, model), parameters in kinds.items()
        ],
        [at_most("task 2, 10,000 questions, encoder, worst seed", max(hard["errors"]), 5, "%")] if hard else [],
    )


BENCHMARKS = (
    Benchmark(
        "story_encoder",
        "05",
        story_table,
        show_stories,
        {"tasks": (1,), "sizes": (1000,), "seeds": 1, "steps": 60},
    ),
)

"""SmolLM2 with examples in its prompt, and with and without its chat template."""

from collections.abc import Sequence
from statistics import fmean

from tests.benchmarks.benchmark import Benchmark, Shown
from utils.build.downloads import SMOLLM2, fetch
from utils.training.in_context import (
    ARROW,
    NUM_DRAWS,
    NUM_QUESTIONS,
    TASKS,
    TEMPLATES,
    stored_accuracies,
    stored_replies,
)

NUM_EXAMPLES = (0, 1, 2, 4, 8, 16)


def in_context_table(
    tasks: Sequence[str] = tuple(TASKS),
    num_examples: Sequence[int] = NUM_EXAMPLES,
    templates: Sequence[tuple[str, str]] = TEMPLATES,
    num_draws: int = NUM_DRAWS,
    num_questions: int = NUM_QUESTIONS,
) -> dict:
    """Accuracy in percent of each task and number of examples, for each template and draw; with shuffled answers, for one
    template."""
    folder, sizes = str(fetch(SMOLLM2)), {"num_draws": num_draws, "num_questions": num_questions}

    def percent(task: str, template: tuple[str, str], count: int, shuffled: bool) -> list[float]:
        return [round(100 * a, 1) for a in stored_accuracies(folder, task, template, count, shuffled, **sizes)]

    rows = [
        {
            "task": task,
            "accuracies": [[percent(task, template, count, False) for count in num_examples] for template in templates],
            "shuffled": [percent(task, ARROW, count, count > 1) for count in num_examples],
        }
        for task in tasks
    ]
    return {
        "num_examples": list(num_examples),
        "templates": [form for form, _ in templates],
        "num_draws": num_draws,
        "num_questions": num_questions,
        "rows": rows,
    }


def show_in_context(result: dict) -> Shown:
    def mean(accuracies: list) -> str:
        return f"{fmean(accuracies):.0f}"

    rows = []
    for row in result["rows"]:
        by_count = zip(*row["accuracies"], strict=True)  # of all templates
        rows.append((row["task"], "correct", *(mean(sum(templates, [])) for templates in by_count)))
        rows.append((row["task"], "shuffled", *map(mean, row["shuffled"])))
    return Shown(
        "In-context learning of SmolLM2-135M-Instruct",
        f"Accuracy in percent of greedy decoding against the number of examples in the prompt: mean of {len(result['templates'])} prompt formats and "
        f"{result['num_draws']} draws of examples, {result['num_questions']} held-out questions each; shuffled: one format, the examples' answers permuted.",
        (
            "task",
            "answers of the examples",
            *(f"{count} example{'s' * (count != 1)}" for count in result["num_examples"]),
        ),
        rows,
    )


def chat_table(num_questions: int = 28, max_new_tokens: int = 48) -> dict:
    """The same questions with and without the chat template: question, reply, correct and ended of each."""
    replies = [
        stored_replies(str(fetch(SMOLLM2)), template, num_questions, max_new_tokens) for template in (False, True)
    ]
    return {"max_new_tokens": max_new_tokens, "bare": replies[0], "template": replies[1]}


def show_chat(result: dict) -> Shown:
    count = len(result["bare"])
    names = {"bare": "bare question", "template": "in the chat template"}
    return Shown(
        "SmolLM2-135M-Instruct with and without its chat template",
        f"{count} questions for a capital, greedy decoding of up to {result['max_new_tokens']} tokens: how many replies contain the capital, and how many end "
        "with an end-of-turn or end-of-text token.",
        ("prompt", "contains the answer", "ends by itself"),
        [
            (name, *(f"{sum(row[what] for row in result[kind])} of {count}" for what in ("correct", "ended")))
            for kind, name in names.items()
        ],
    )


BENCHMARKS = (
    Benchmark(
        "in_context",
        "09",
        in_context_table,
        show_in_context,
        {
            "tasks": ("opposites",),
            "num_examples": (0, 2),
            "templates": TEMPLATES[:1],
            "num_draws": 1,
            "num_questions": 3,
        },
    ),
    Benchmark("chat_template", "09", chat_table, show_chat, {"num_questions": 2, "max_new_tokens": 4}),
)

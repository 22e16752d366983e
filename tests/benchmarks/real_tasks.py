"""MiniLM fine-tuned on all review snippets, and as a linear probe on the course's own tasks."""

import platform
from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, by
from tests.benchmarks.fine_tuning import TASK_NAMES, label_counts
from utils.build.downloads import MINILM, REVIEWS, fetch
from utils.build.results import ranged
from utils.data.docstrings import TASKS
from utils.training.fine_tuning import LABELS_PER_CLASS, accuracies
from utils.training.metrics import over_seeds
from utils.training.real_tasks import METHODS, review_sentiment

SEEDS, DRAWS = 3, 5


def reviews_table(methods: Sequence[str] = METHODS, seeds: int = SEEDS) -> dict:
    """Test accuracy in % on snippets about films outside the training set, and seconds of processor time, over seeds."""
    runs = review_sentiment(methods, seeds, minilm=fetch(MINILM), reviews=fetch(REVIEWS))
    return {
        "seeds": seeds,
        "majority": round(100 * runs["majority"], 1),
        "snippets": {"train": runs["sizes"][0], "test": runs["sizes"][1]},
        "rows": [
            {
                "method": method,
                "accuracy": over_seeds((100 * accuracy).tolist(), 1),
                "mean": round(100 * accuracy.mean().item(), 1),
                "seconds": over_seeds(seconds.tolist(), 1),
            }
            for method, accuracy, seconds in zip(runs["methods"], runs["accuracy"], runs["seconds"], strict=True)
        ],
    }


def published_tasks_table(
    labels: Sequence[int | None] = LABELS_PER_CLASS,
    seeds: int = DRAWS,
    tasks: Sequence[str] = tuple(TASKS),
    num_test: int | None = None,
) -> dict:
    """Test accuracy in % of a linear probe on MiniLM's sentence embeddings, by task and number of labels per class."""
    rows = []
    for task in tasks:
        result = accuracies(task, ("linear probe",), labels, seeds, num_test=num_test, minilm=fetch(MINILM))
        accuracy = 100 * result["accuracy"][0]
        rows.append(
            {
                "task": task,
                "majority": round(100 * result["majority"], 1),
                "accuracy": [over_seeds(values.tolist(), 1) for values in accuracy],
                "mean": [round(values.mean().item(), 1) for values in accuracy],
            }
        )
    return {"python": platform.python_version(), "seeds": seeds, "labels": list(labels), "rows": rows}


def show_reviews(result: dict) -> Shown:
    rows, counts = by(result["rows"], "method"), result["snippets"]
    targets = []
    if "full fine-tuning" in rows:
        targets = [
            at_least(
                "review sentiment after full fine-tuning, worst seed",
                rows["full fine-tuning"]["accuracy"]["least"],
                80,
                "%",
            )
        ]
    return Shown(
        "Review sentiment with MiniLM",
        f"Test accuracy in %, {result['seeds']} seeds; {counts['train']:,} training and {counts['test']:,} test snippets about different films, majority class "
        f"{result['majority']} %.",
        ("method", "accuracy", "training, s"),
        [(method, ranged(row["accuracy"]), ranged(row["seconds"], 0)) for method, row in rows.items()],
        targets,
    )


def show_published_tasks(result: dict) -> Shown:
    return Shown(
        "MiniLM on the course's own tasks",
        f"Linear probe on frozen MiniLM embeddings: test accuracy in %, {result['seeds']} draws of labels, Python {result['python']}.",
        ("task", "majority", *label_counts(result["labels"])),
        [(TASK_NAMES[row["task"]], f"{row['majority']:.1f}", *map(ranged, row["accuracy"])) for row in result["rows"]],
    )


BENCHMARKS = (
    Benchmark("reviews", "08", reviews_table, show_reviews, {"methods": ("bag of words",), "seeds": 1}),
    Benchmark(
        "published_tasks",
        "08",
        published_tasks_table,
        show_published_tasks,
        {"labels": (1,), "seeds": 2, "tasks": ("families",), "num_test": 200},
    ),
)

"""MiniLM fine-tuned on all review snippets, and as a frozen encoder on the course's own tasks."""

import platform
from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, by
from tests.benchmarks.pretraining import METHODS, TASK_NAMES, label_counts
from utils.build.downloads import MINILM, REVIEWS, fetch
from utils.build.results import ranged
from utils.training.fine_tuning import LABELS
from utils.training.metrics import over_seeds
from utils.training.real_tasks import RECIPES, WAYS, frozen_on_tasks, review_sentiment

SEEDS, DRAWS = 3, 5


def reviews_table(ways: Sequence[str] = WAYS, seeds: int = SEEDS) -> dict:
    """Test accuracy in % on snippets about films that no way has learnt from, and seconds of the processor, over seeds."""
    found = review_sentiment(ways, seeds, minilm=fetch(MINILM), reviews=fetch(REVIEWS))
    return {
        "seeds": seeds,
        "majority": round(100 * found["majority"], 1),
        "snippets": {"train": found["sizes"][0], "test": found["sizes"][1]},
        "recipes": {way: recipe._asdict() for way, recipe in RECIPES.items()},
        "rows": [
            {
                "way": way,
                "accuracy": over_seeds((100 * accuracy).tolist(), 1),
                "mean": round(100 * accuracy.mean().item(), 1),
                "seconds": over_seeds(seconds.tolist(), 1),
            }
            for way, accuracy, seconds in zip(found["ways"], found["accuracy"], found["seconds"], strict=True)
        ],
    }


def published_tasks_table(labels: Sequence[int | None] = LABELS, seeds: int = DRAWS, **settings) -> dict:
    """Test accuracy in % of a linear layer on the published model's vectors, for each task and number of labels per class."""
    found = frozen_on_tasks(per_class=labels, seeds=seeds, minilm=fetch(MINILM), **settings)
    return {
        "python": platform.python_version(),
        "seeds": seeds,
        "labels": found["labels"],
        "rows": [
            {
                "task": task,
                "majority": round(100 * majority, 1),
                "accuracy": [over_seeds((100 * one).tolist(), 1) for one in row],
                "mean": [round(100 * one.mean().item(), 1) for one in row],
                "deviation": [round(100 * one.std().item(), 1) for one in row],
            }
            for task, majority, row in zip(found["tasks"], found["majority"].tolist(), found["accuracy"], strict=True)
        ],
    }


def show_reviews(result: dict) -> Shown:
    rows, counts = by(result["rows"], "way"), result["snippets"]
    targets = []
    if "full" in rows:
        targets = [
            at_least("review sentiment after full fine-tuning, worst seed", rows["full"]["accuracy"]["least"], 80, "%")
        ]
    return Shown(
        "Review sentiment with MiniLM",
        f"Test accuracy in %, {result['seeds']} seeds; {counts['train']:,} training and {counts['test']:,} test snippets about different films, majority class "
        f"{result['majority']} %.",
        ("method", "accuracy", "training, s"),
        [(METHODS.get(way, way), ranged(row["accuracy"]), ranged(row["seconds"], 0)) for way, row in rows.items()],
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
    Benchmark("reviews", "08", reviews_table, show_reviews, {"ways": ("bag of words",), "seeds": 1}),
    Benchmark(
        "published_tasks",
        "08",
        published_tasks_table,
        show_published_tasks,
        {"labels": (1,), "seeds": 2, "tasks": ("families",), "asked": 200},
    ),
)

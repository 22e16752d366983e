"""The published encoder, fine-tuned on all review snippets and with fixed vectors on the course's own tasks."""

import platform

from utils.course.downloads import MINILM, REVIEWS, fetch
from utils.training.fine_tuning import LABELS
from utils.training.metrics import over_seeds
from utils.training.real_tasks import RECIPES, WAYS, frozen_on_tasks, review_sentiment

SEEDS, DRAWS = 3, 5


def reviews_table() -> dict:
    """Test accuracy in % on snippets about films that no way has learnt from, and seconds of the processor, over seeds."""
    found = review_sentiment(WAYS, SEEDS, minilm=fetch(MINILM), reviews=fetch(REVIEWS))
    return {
        "seeds": SEEDS,
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


def published_tasks_table() -> dict:
    """Test accuracy in % of a linear layer on the published model's vectors, for each task and number of labels per class."""
    found = frozen_on_tasks(per_class=LABELS, seeds=DRAWS, minilm=fetch(MINILM))
    return {
        "python": platform.python_version(),
        "seeds": DRAWS,
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

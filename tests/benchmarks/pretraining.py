"""Lesson 07 with more steps and seeds than the lesson has time for: three objectives, few labels, why it works, several tasks."""

import math
import platform

from utils.training.fine_tuning import LABELS, RANK, WAYS, accuracies, several_tasks, why_it_works
from utils.training.metrics import over_seeds
from utils.training.pretraining import MINUTE, OBJECTIVES, pretrain
from utils.training.stored_encoder import stored_encoder

SEEDS, MODELS, TASK_SEEDS, FEW = 5, 3, 3, 32


def pretraining_table() -> dict:
    """For each objective with a minute's training: held-out loss and perplexity over seeds, beside the unigram's on the same
    places (of the causal model, beside counting two pieces as well)."""
    rows = []
    for objective in OBJECTIVES:
        found = [pretrain(objective, seed, **MINUTE[objective]) for seed in range(MODELS)]
        counts = found[0]["counts"]
        rows.append(
            {
                "objective": objective,
                "seeds": MODELS,
                "held_out": over_seeds([one["held_out"] for one in found], 3),
                "perplexity": over_seeds([one["perplexity"] for one in found], 1),
                "unigram": round(math.exp(found[0]["unigram"]), 1),
                "bigram": None if counts is None else round(math.exp(counts[2]), 1),
                "seconds": over_seeds([one["seconds"] for one in found], 1),
                "parameters": found[0]["parameters"],
                "pieces_read": found[0]["read"],
            }
        )
    return {"python": platform.python_version(), "rows": rows}


def few_labels_table() -> dict:
    """Test accuracy in % on the families task, for each way and number of labels, over seeds; and the encoder behind it."""
    encoder = stored_encoder()
    found = accuracies(WAYS, LABELS, SEEDS)
    return {
        "python": platform.python_version(),
        "seeds": SEEDS,
        "labels": list(LABELS),
        "majority": round(100 * found["majority"], 1),
        "texts": {"train": found["sizes"][0], "test": found["sizes"][1]},
        "encoder": {
            "held_out": round(encoder["held_out"], 3),
            "unigram": round(encoder["unigram"], 3),
            "parameters": encoder["parameters"],
            "seconds": round(encoder["seconds"], 1),
        },
        "rows": [
            {
                "way": way,
                "accuracy": [over_seeds((100 * one).tolist(), 1) for one in row],
                "seeds": [_rounded(100 * one, 1) for one in row],
                "mean": [round(100 * one.mean().item(), 1) for one in row],
                "deviation": [round(100 * one.std().item(), 1) for one in row],
            }
            for way, row in zip(WAYS, found["accuracy"], strict=True)
        ],
    }


def why_table() -> dict:
    """Distance, loss along the line and what was forgotten, for three seeds, with 16 labels per class."""
    found = [why_it_works(16, seed) for seed in range(MODELS)]
    return {
        "python": platform.python_version(),
        "seeds": MODELS,
        "per_class": 16,
        "rank": RANK,
        "shares": found[0]["shares"],
        "starts": {
            way: {
                "distance": {
                    part: {
                        "moved": over_seeds([one[way]["distance"][part]["moved"] for one in found], 2),
                        "length": over_seeds([one[way]["distance"][part]["length"] for one in found], 2),
                    }
                    for part in found[0][way]["distance"]
                },
                "loss": _rounded(sum(one[way]["line"]["loss"] for one in found) / MODELS, 3),
                "accuracy": _rounded(100 * sum(one[way]["line"]["accuracy"] for one in found) / MODELS, 1),
            }
            for way in ("full", "scratch")
        },
        "forgotten": {name: over_seeds([one["forgotten"][name] for one in found], 3) for name in found[0]["forgotten"]},
    }


def tasks_table() -> dict:
    """Test accuracy in % on each task with few labels and with all of them, from one pretrained encoder and from scratch."""
    return {
        "python": platform.python_version(),
        "seeds": TASK_SEEDS,
        "few": FEW,
        "rows": [row for per_class in (FEW, None) for row in _task_rows(per_class)],
    }


def _task_rows(per_class: int | None) -> list[dict]:
    found = several_tasks(seeds=TASK_SEEDS, per_class=per_class)
    return [
        {
            "task": task,
            "per_class": per_class,
            "majority": round(100 * majority, 1),
            "accuracy": {way: over_seeds((100 * one).tolist(), 1) for way, one in zip(found["ways"], row, strict=True)},
            "seeds": {way: _rounded(100 * one, 1) for way, one in zip(found["ways"], row, strict=True)},
        }
        for task, majority, row in zip(found["tasks"], found["majority"].tolist(), found["accuracy"], strict=True)
    ]


def _rounded(values, digits: int) -> list[float]:
    return [round(one, digits) for one in values.tolist()]

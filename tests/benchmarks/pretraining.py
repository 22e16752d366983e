"""Lessons 07 and 08 with more steps and seeds than they have time for: three objectives, few labels, why it works, several tasks."""

import math
import platform
from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most, by
from utils.build.results import ranged
from utils.training.fine_tuning import LABELS, RANK, WAYS, accuracies, several_tasks, why_it_works
from utils.training.metrics import over_seeds
from utils.training.pretraining import MINUTE, OBJECTIVES, pretrain
from utils.training.stored_encoder import stored_encoder

SEEDS, MODELS, TASK_SEEDS, FEW = 5, 3, 3, 32


def pretraining_table(objectives: Sequence[str] = OBJECTIVES, models: int = MODELS, **changes) -> dict:
    """For each objective, after a minute of training: held-out loss and perplexity over seeds, and n-gram models at the same
    tokens."""
    rows = []
    for objective in objectives:
        results = [pretrain(objective, seed, **MINUTE[objective] | changes) for seed in range(models)]
        ngrams = results[0]["ngrams"]
        rows.append(
            {
                "objective": objective,
                "seeds": models,
                "held_out": over_seeds([result["held_out"] for result in results], 3),
                "perplexity": over_seeds([result["perplexity"] for result in results], 1),
                "unigram": round(math.exp(results[0]["unigram"]), 1),
                "bigram": None if ngrams is None else round(math.exp(ngrams[2]), 1),
                "seconds": over_seeds([result["seconds"] for result in results], 1),
                "parameters": results[0]["parameters"],
                "num_tokens": results[0]["num_tokens"],
            }
        )
    return {"python": platform.python_version(), "rows": rows}


def few_labels_table(ways: Sequence[str] = WAYS, labels: Sequence[int | None] = LABELS, seeds: int = SEEDS) -> dict:
    """Test accuracy in % on the families task, for each way and number of labels, over seeds; and the encoder behind it."""
    encoder = stored_encoder()
    found = accuracies(ways, labels, seeds)
    return {
        "python": platform.python_version(),
        "seeds": seeds,
        "labels": list(labels),
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
            for way, row in zip(ways, found["accuracy"], strict=True)
        ],
    }


def why_table(models: int = MODELS, **settings) -> dict:
    """Distance, loss under linear interpolation and forgetting, with 16 labels per class."""
    found = [why_it_works(16, seed, **settings) for seed in range(models)]
    return {
        "python": platform.python_version(),
        "seeds": models,
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
                "loss": _rounded(sum(one[way]["line"]["loss"] for one in found) / models, 3),
                "accuracy": _rounded(100 * sum(one[way]["line"]["accuracy"] for one in found) / models, 1),
            }
            for way in ("full", "scratch")
        },
        "forgotten": {name: over_seeds([one["forgotten"][name] for one in found], 3) for name in found[0]["forgotten"]},
    }


def tasks_table(seeds: int = TASK_SEEDS, **settings) -> dict:
    """Test accuracy in % on each task with few labels and with all of them, from one pretrained encoder and from scratch."""
    return {
        "python": platform.python_version(),
        "seeds": seeds,
        "few": FEW,
        "rows": [row for per_class in (FEW, None) for row in _task_rows(per_class, seeds, **settings)],
    }


def _task_rows(per_class: int | None, seeds: int, **settings) -> list[dict]:
    found = several_tasks(seeds=seeds, per_class=per_class, **settings)
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


# What is shown

METHODS = {"scratch": "from scratch", "frozen": "linear probe", "adapters": "LoRA", "full": "full fine-tuning"}
TASK_NAMES = {
    "families": "module family (14 classes)",
    "kinds": "module, class or function",
    "continuation": "next sentence",
    "word order": "original or shuffled word order",
}


def label_counts(labels: Sequence[int | None]) -> list[str]:
    return [f"{number} per class" if number else "all" for number in labels]


def show_pretraining(result: dict) -> Shown:
    rows = by(result["rows"], "objective")
    names = {"masked": "masked language modeling", "causal": "causal language modeling", "spans": "span corruption"}
    causal = rows["causal"]
    return Shown(
        "Three pretraining objectives over the same blocks",
        f"Docstrings and manual of Python {result['python']}, {causal['seeds']} seeds. Perplexity at the predicted tokens of modules held out from training, next to that of "
        "n-gram models at the same tokens.",
        ("objective", "perplexity", "unigram model", "bigram model", "training, s"),
        [
            (
                names[objective],
                ranged(row["perplexity"], 0),
                f"{row['unigram']:,.0f}",
                "" if row["bigram"] is None else f"{row['bigram']:,.0f}",
                ranged(row["seconds"], 0),
            )
            for objective, row in rows.items()
        ],
        [
            at_most(
                "perplexity of the causal model relative to the unigram model",
                causal["perplexity"]["median"] / causal["unigram"],
                0.5,
            ),
            at_most(
                "training, slowest objective and seed", max(row["seconds"]["most"] for row in rows.values()), 60, "s"
            ),
        ],
    )


def show_few_labels(result: dict) -> Shown:
    rows, targets = by(result["rows"], "way"), []
    if {"full", "scratch"} <= set(rows):
        four = result["labels"].index(4)
        gain = rows["full"]["mean"][four] - rows["scratch"]["mean"][four]
        targets = [at_least("gain of pretraining with four labels per class", gain, 8, "points")]
    return Shown(
        "Few labels",
        f"Which of 14 module families a docstring belongs to, split by module, Python {result['python']}: test accuracy in %, mean ± standard deviation over "
        f"{result['seeds']} draws of labels; the most frequent family has {result['majority']} %. The pretrained encoder has {result['encoder']['parameters']:,} parameters "
        f"and was pretrained for {result['encoder']['seconds']:.0f} s.",
        ("method", *label_counts(result["labels"])),
        [
            (
                METHODS.get(way, way),
                *(f"{mean:.1f} ± {spread:.1f}" for mean, spread in zip(row["mean"], row["deviation"], strict=True)),
            )
            for way, row in rows.items()
        ],
        targets,
    )


def show_why(result: dict) -> Shown:
    starts, loss = result["starts"], {name: ranged(values, 2) for name, values in result["forgotten"].items()}
    return Shown(
        "Distance and catastrophic forgetting",
        f"Fine-tuning with {result['per_class']} labels per class, {result['seeds']} seeds: norm of the parameters at initialization and Euclidean distance to where training "
        f"ended. Masked-language-modeling loss in nats: {loss['pretrained']} before fine-tuning, {loss['full']} after full fine-tuning, {loss['adapters on']} with LoRA "
        f"(rank {result['rank']}) switched on, {loss['adapters off']} switched off.",
        ("parameters", "pretrained: norm", "distance", "from scratch: norm", "distance from scratch"),
        [
            (
                {"words": "embeddings", "head": "classification head"}.get(part, part),
                *(
                    ranged(starts[way]["distance"][part][name], 2)
                    for way in ("full", "scratch")
                    for name in ("length", "moved")
                ),
            )
            for part in starts["full"]["distance"]
        ],
    )


def show_tasks(result: dict) -> Shown:
    methods = tuple(result["rows"][0]["accuracy"])
    return Shown(
        "One pretrained encoder, several tasks",
        f"Test accuracy in %, {result['seeds']} seeds, Python {result['python']}.",
        ("task", "labels per class", "majority", *(METHODS.get(way, way) for way in methods)),
        [
            (
                TASK_NAMES[row["task"]],
                row["per_class"] or "all",
                f"{row['majority']:.1f}",
                *(ranged(row["accuracy"][way]) for way in methods),
            )
            for row in result["rows"]
        ],
    )


TOKENIZERS = ("tokenizers",)
BENCHMARKS = (
    Benchmark(
        "pretraining",
        "07",
        pretraining_table,
        show_pretraining,
        {"objectives": ("causal",), "models": 1, "num_steps": 100},
        packages=TOKENIZERS,
    ),
    Benchmark(
        "few_labels",
        "08",
        few_labels_table,
        show_few_labels,
        {"ways": ("bag of words", "frozen"), "labels": (1,), "seeds": 2},
        packages=TOKENIZERS,
    ),
    Benchmark(
        "why_it_works",
        "08",
        why_table,
        show_why,
        {"models": 1, "asked": 100, "fragments": 20, "shares": (0.0, 1.0)},
        packages=TOKENIZERS,
    ),
    Benchmark(
        "several_tasks",
        "08",
        tasks_table,
        show_tasks,
        {"seeds": 1, "tasks": ("families",), "ways": ("bag of words", "frozen"), "asked": 300},
        packages=TOKENIZERS,
    ),
)

"""Fine-tuning with more seeds than lesson 08 has time for: few labels, distance, interpolation, forgetting, several tasks."""

import platform
from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, by
from utils.build.results import ranged
from utils.data.docstrings import TASKS
from utils.training.fine_tuning import (
    LABELS_PER_CLASS,
    METHODS,
    RANK,
    RECIPES,
    SGD_RATES,
    accuracies,
    fine_tuning_run,
    interpolation_and_forgetting,
)
from utils.training.metrics import over_seeds
from utils.training.stored_encoder import stored_encoder

SEEDS, MODELS, TASK_SEEDS, FEW = 5, 3, 3, 32
TASK_METHODS = ("bag of words", "from scratch", "linear probe", "full fine-tuning")


def few_labels_table(
    methods: Sequence[str] = METHODS, labels: Sequence[int | None] = LABELS_PER_CLASS, seeds: int = SEEDS
) -> dict:
    """Test accuracy in % on the families task by method and number of labels, over seeds; and the encoder behind it."""
    encoder = stored_encoder()
    results = accuracies("families", methods, labels, seeds)
    return {
        "python": platform.python_version(),
        "seeds": seeds,
        "labels": list(labels),
        "majority": round(100 * results["majority"], 1),
        "encoder": {"parameters": encoder["parameters"], "seconds": round(encoder["seconds"], 1)},
        "rows": [
            {
                "method": method,
                "accuracy": [over_seeds((100 * values).tolist(), 1) for values in row],
                "seeds": [_rounded(100 * values, 1) for values in row],
                "mean": [round(100 * values.mean().item(), 1) for values in row],
                "deviation": [round(100 * values.std().item(), 1) for values in row],
            }
            for method, row in zip(methods, results["accuracy"], strict=True)
        ],
    }


def interpolation_table(models: int = MODELS, **settings) -> dict:
    """Distance, loss under linear interpolation and forgetting, with 16 labels per class."""
    runs = [interpolation_and_forgetting(16, seed, **settings) for seed in range(models)]
    return {
        "python": platform.python_version(),
        "seeds": models,
        "per_class": 16,
        "rank": RANK,
        "fractions": runs[0]["fractions"],
        "methods": {
            method: {
                "distance": {
                    group: {
                        name: over_seeds([run[method]["distance"][group][index] for run in runs], 2)
                        for index, name in enumerate(("distance", "norm"))
                    }
                    for group in runs[0][method]["distance"]
                },
                "loss": _rounded(sum(run[method]["interpolation"]["loss"] for run in runs) / models, 3),
                "accuracy": _rounded(100 * sum(run[method]["interpolation"]["accuracy"] for run in runs) / models, 1),
            }
            for method in ("full fine-tuning", "from scratch")
        },
        "masked_loss": {
            name: over_seeds([run["masked_loss"][name] for run in runs], 3) for name in runs[0]["masked_loss"]
        },
    }


STEPS = (90, 180, 360, 720)


def distance_table(seeds: int = MODELS, **settings) -> dict:
    """Distance from the initialization with Adam and with SGD, 16 labels per class, pretrained and from scratch."""
    full, scratch = SGD_RATES
    cells = [(method, None) for method in SGD_RATES]
    cells += [(full, SGD_RATES[full]), (scratch, SGD_RATES[full]), (scratch, SGD_RATES[scratch])]
    rows = []
    for method, sgd_rate in cells:
        runs = [fine_tuning_run(method, 16, 180, seed, sgd_rate=sgd_rate, **settings) for seed in range(seeds)]
        groups = [group for group in runs[0]["distance"] if group != "head"]
        rows.append(
            {
                "optimizer": "SGD" if sgd_rate else "Adam",
                "method": method,
                "learning_rate": sgd_rate or RECIPES[method].learning_rate,
                "distance": {group: [round(run["distance"][group][0], 3) for run in runs] for group in groups},
                "norm": {group: [round(run["distance"][group][1], 2) for run in runs] for group in groups},
                "training_loss": [round(run["training_loss"], 3) for run in runs],
                "accuracy": [round(100 * run["accuracy"], 1) for run in runs],
                "masked_loss": [round(run["masked_loss"], 3) for run in runs],
            }
        )
    return {"seeds": seeds, "per_class": 16, "steps": 180, "rows": rows}


def forgetting_table(
    seeds: int = MODELS, labels: Sequence[int | None] = LABELS_PER_CLASS[1:], steps: Sequence[int] = STEPS, **settings
) -> dict:
    """Masked-language-modeling loss and test accuracy after fine-tuning, by training steps and by number of labels."""
    cells = [("full fine-tuning", per_class, number) for per_class in labels for number in steps]
    cells += [("LoRA", 16, number) for number in steps]
    rows = []
    for method, per_class, number in cells:
        runs = [fine_tuning_run(method, per_class, number, seed, **settings) for seed in range(seeds)]
        rows.append(
            {
                "method": method,
                "per_class": per_class,
                "steps": number,
                "masked_loss": [round(run["masked_loss"], 3) for run in runs],
                "accuracy": [round(100 * run["accuracy"], 1) for run in runs],
                "training_loss": [round(run["training_loss"], 3) for run in runs],
            }
        )
    encoder = stored_encoder()
    before = {"held_out": round(encoder["held_out"], 3), "unigram": round(encoder["unigram"], 3)}
    return {"seeds": seeds, "labels": list(labels), "steps": list(steps), **before, "rows": rows}


def tasks_table(
    seeds: int = TASK_SEEDS,
    tasks: Sequence[str] = tuple(TASKS),
    methods: Sequence[str] = TASK_METHODS,
    num_test: int | None = None,
) -> dict:
    """Test accuracy in % on each task with few labels and with all of them, from one pretrained encoder and from scratch."""
    labels = (FEW, None)
    results = {task: accuracies(task, methods, labels, seeds, num_test=num_test) for task in tasks}
    rows = [
        {
            "task": task,
            "per_class": per_class,
            "majority": round(100 * result["majority"], 1),
            "accuracy": {
                method: over_seeds((100 * values).tolist(), 1)
                for method, values in zip(methods, result["accuracy"][:, column], strict=True)
            },
            "seeds": {
                method: _rounded(100 * values, 1)
                for method, values in zip(methods, result["accuracy"][:, column], strict=True)
            },
        }
        for column, per_class in enumerate(labels)
        for task, result in results.items()
    ]
    return {"python": platform.python_version(), "seeds": seeds, "few": FEW, "rows": rows}


def _rounded(values, digits: int) -> list[float]:
    return [round(value, digits) for value in values.tolist()]


# What is shown

TASK_NAMES = {
    "families": "module family (14 classes)",
    "kinds": "module, class or function",
    "continuation": "next sentence",
    "word order": "original or shuffled word order",
}


def label_counts(labels: Sequence[int | None]) -> list[str]:
    return [f"{number} per class" if number else "all" for number in labels]


def show_few_labels(result: dict) -> Shown:
    rows, targets = by(result["rows"], "method"), []
    if {"full fine-tuning", "from scratch"} <= set(rows):
        four = result["labels"].index(4)
        gain = rows["full fine-tuning"]["mean"][four] - rows["from scratch"]["mean"][four]
        targets = [at_least("gain of pretraining with four labels per class", gain, 8, "points")]
    return Shown(
        "Few labels",
        f"Which of 14 module families a docstring belongs to, split by module, Python {result['python']}: test accuracy in %, mean ± standard deviation over "
        f"{result['seeds']} draws of labels; the most frequent family has {result['majority']} %. The pretrained encoder has {result['encoder']['parameters']:,} parameters "
        f"and was pretrained for {result['encoder']['seconds']:.0f} s.",
        ("method", *label_counts(result["labels"])),
        [
            (
                method,
                *(f"{mean:.1f} ± {std:.1f}" for mean, std in zip(row["mean"], row["deviation"], strict=True)),
            )
            for method, row in rows.items()
        ],
        targets,
    )


def show_interpolation(result: dict) -> Shown:
    methods, loss = result["methods"], {name: ranged(values, 2) for name, values in result["masked_loss"].items()}
    return Shown(
        "Distance and catastrophic forgetting",
        f"Fine-tuning with {result['per_class']} labels per class, {result['seeds']} seeds: norm of the parameters at initialization and Euclidean distance to where training "
        f"ended. Masked-language-modeling loss in nats: {loss['pretrained']} before fine-tuning, {loss['full fine-tuning']} after full fine-tuning, {loss['LoRA']} with LoRA "
        f"(rank {result['rank']}) switched on, {loss['LoRA disabled']} switched off.",
        ("parameters", "pretrained: norm", "distance", "from scratch: norm", "distance from scratch"),
        [
            (
                {"head": "classification head"}.get(group, group),
                *(
                    ranged(methods[method]["distance"][group][name], 2)
                    for method in ("full fine-tuning", "from scratch")
                    for name in ("norm", "distance")
                ),
            )
            for group in methods["full fine-tuning"]["distance"]
        ],
    )


def show_distances(result: dict) -> Shown:
    groups = list(result["rows"][0]["distance"])
    return Shown(
        "Distance from the initialization, Adam and SGD",
        f"Euclidean distance that training moved each part of the encoder: {result['per_class']} labels per class, {result['steps']} steps, {result['seeds']} seeds. SGD: no momentum, "
        "no gradient clipping. Training loss in nats, test accuracy in %.",
        ("optimizer, learning rate", "initialization", *groups, "training loss", "test accuracy"),
        [
            (
                f"{row['optimizer']}, {row['learning_rate']:g}",
                "random" if row["method"] == "from scratch" else "pretrained",
                *(ranged(over_seeds(row["distance"][group]), 2) for group in groups),
                ranged(over_seeds(row["training_loss"]), 2),
                ranged(over_seeds(row["accuracy"])),
            )
            for row in result["rows"]
        ],
    )


def show_forgetting(result: dict) -> Shown:
    return Shown(
        "Catastrophic forgetting by training steps and by number of labels",
        f"Masked-language-modeling loss in nats after fine-tuning on module families, {result['seeds']} seeds; {result['held_out']:.2f} before, {result['unigram']:.2f} for the "
        "unigram model. The learning-rate schedule is stretched to the number of steps.",
        ("method", "labels per class", "steps", "masked-token loss", "test accuracy, %", "training loss"),
        [
            (
                row["method"],
                row["per_class"] or "all",
                row["steps"],
                ranged(over_seeds(row["masked_loss"]), 2),
                ranged(over_seeds(row["accuracy"])),
                ranged(over_seeds(row["training_loss"]), 2),
            )
            for row in result["rows"]
        ],
    )


def show_tasks(result: dict) -> Shown:
    methods = tuple(result["rows"][0]["accuracy"])
    return Shown(
        "One pretrained encoder, several tasks",
        f"Test accuracy in %, {result['seeds']} seeds, Python {result['python']}.",
        ("task", "labels per class", "majority", *methods),
        [
            (
                TASK_NAMES[row["task"]],
                row["per_class"] or "all",
                f"{row['majority']:.1f}",
                *(ranged(row["accuracy"][method]) for method in methods),
            )
            for row in result["rows"]
        ],
    )


TOKENIZERS = ("tokenizers",)
BENCHMARKS = (
    Benchmark(
        "few_labels",
        "08",
        few_labels_table,
        show_few_labels,
        {"methods": ("bag of words", "linear probe"), "labels": (1,), "seeds": 2},
        packages=TOKENIZERS,
    ),
    Benchmark(
        "why_it_works",
        "08",
        interpolation_table,
        show_interpolation,
        {"models": 1, "num_test": 100, "num_windows": 20, "fractions": (0.0, 1.0)},
        packages=TOKENIZERS,
    ),
    Benchmark(
        "distances",
        "08",
        distance_table,
        show_distances,
        {"seeds": 1, "num_test": 50, "num_windows": 10},
        packages=TOKENIZERS,
    ),
    Benchmark(
        "forgetting",
        "08",
        forgetting_table,
        show_forgetting,
        {"seeds": 1, "labels": (4,), "steps": (10,), "num_test": 50, "num_windows": 10},
        packages=TOKENIZERS,
    ),
    Benchmark(
        "several_tasks",
        "08",
        tasks_table,
        show_tasks,
        {"seeds": 1, "tasks": ("families",), "methods": ("bag of words", "linear probe"), "num_test": 300},
        packages=TOKENIZERS,
    ),
)

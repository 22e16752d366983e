"""Review sentiment with MiniLM: bag of words, linear probe, LoRA and full fine-tuning on film reviews.

    review_sentiment(("bag of words", "full fine-tuning"), 3, minilm=folder, reviews=folder)

The folders hold the published files and the table of reviews; the caller downloads them. A linear probe on the published
sentence embeddings is no better than a bag of words; fine-tuning is.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from utils.data.docstrings import Example
from utils.data.reviews import read_reviews, review_file, split_reviews
from utils.training.cache import cached
from utils.training.fine_tuning import DETERMINISTIC, MiniLMSetting, accuracy, minilm_files, predict

METHODS = ("bag of words", "linear probe", "LoRA", "full fine-tuning")
QUICK = {"methods": ("bag of words", "linear probe"), "seeds": 1, "num_train": 600, "num_test": 600}  # seconds


def subsample(examples: Sequence[Example], count: int | None, seed: int) -> Sequence[Example]:
    """A random sample, since neighbors in the table are about one film; all examples for None."""
    if count is None:
        return examples
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(seed))
    return [examples[index] for index in order[:count]]


@cached(data_files=lambda *_, minilm, reviews, **__: [*minilm_files(minilm), review_file(reviews)])
def review_run(
    method: str,
    seed: int = 0,
    *,
    minilm: Path | str,
    reviews: Path | str,
    num_train: int | None = None,
    num_test: int | None = None,
) -> dict:
    """Accuracy of one method on test snippets about films that are not in the training set, and that of the majority class.

    The seed draws the new parameters, the order of training and, with num_train, the training snippets. seconds: of
    processor time, for training and prediction.
    """
    setting = MiniLMSetting(split_reviews(read_reviews(reviews)), minilm)
    task = setting.task
    train, test = subsample(task.train, num_train, seed), subsample(task.test, num_test, 0)
    start = time.process_time()
    predicted = predict(method, setting, train, test, seed)
    seconds = time.process_time() - start
    majority = task.label_ids(train).mode().values.expand(len(test))
    return {
        "accuracy": accuracy(predicted, task, test),
        "majority": accuracy(majority, task, test),
        "seconds": seconds,
        "sizes": (len(train), len(test)),
    }


def review_sentiment(methods: Sequence[str] = METHODS, seeds: int = 3, **options) -> dict:
    """Test accuracy and seconds (methods, seeds) of `review_run`, which has the options and caches each run.

    Without num_train, a deterministic method is run once.
    """
    accuracies, seconds = torch.zeros(len(methods), seeds), torch.zeros(len(methods), seeds)
    for row, method in enumerate(methods):
        runs = 1 if options.get("num_train") is None and method in DETERMINISTIC else seeds
        for seed in range(runs):
            run = review_run(method, seed, **options)
            accuracies[row, seed:], seconds[row, seed:] = run["accuracy"], run["seconds"]
    return {
        "methods": list(methods),
        "accuracy": accuracies,
        "seconds": seconds,
        "majority": run["majority"],
        "sizes": run["sizes"],
    }

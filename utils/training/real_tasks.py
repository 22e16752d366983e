"""MiniLM on downstream tasks: fine-tuned on the sentiment of film reviews, and as a linear probe on the course's own tasks.

    review_sentiment(("bag of words", "full fine-tuning"), 3, minilm=folder, reviews=folder)
    linear_probe_on_tasks(minilm=folder)

The folders hold the published files and the table of reviews; the caller downloads them.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from utils.data.docstrings import TASKS, Example, Task
from utils.data.real_text import topics_file
from utils.data.reviews import FILE, LABELS, Review, labels, read_reviews, split_reviews
from utils.models.language_models import EncoderModel, SequenceClassifier, add_lora
from utils.models.pretrained import PretrainedEncoder, load_minilm
from utils.training.baselines import bag_of_words, linear_probe
from utils.training.cache import cached
from utils.training.fine_tuning import (
    DETERMINISTIC,
    LABELS_PER_CLASS,
    MAX_LEN,
    RANK,
    EncodedTexts,
    Recipe,
    accuracy,
    fine_tune,
    labeled_examples,
    predict_logits,
)

METHODS = ("bag of words", "linear probe", "LoRA", "full fine-tuning")
# For all 8,920 training snippets this is one epoch.
RECIPES = {
    "LoRA": Recipe(1e-3, num_steps=6.0, group_by_length=True),
    "full fine-tuning": Recipe(1e-4, num_steps=6.0, group_by_length=True),
}
PENALTY = 1.0
QUICK = {"methods": ("bag of words", "linear probe"), "seeds": 1, "num_train": 600, "num_test": 600}  # seconds


def minilm_files(minilm: Path | str) -> list[Path]:
    return [Path(minilm) / name for name in ("config.json", "model.safetensors", "tokenizer.json")]


def example_features(encoder: PretrainedEncoder, examples: Sequence[Review | Example]) -> Tensor:
    """Sentence embeddings u (n, dim); of pairs [u, v, |u - v|, u * v] (n, 4 dim), as InferSent does (arXiv:1705.02364).

    The encoder takes one text at a time and a linear layer cannot compare two, so the comparison is among the features.
    """
    first = encoder.sentence_embeddings([example.text for example in examples])
    if examples[0].second is None:
        return first
    second = encoder.sentence_embeddings([example.second for example in examples])
    return torch.cat([first, second, (first - second).abs(), first * second], dim=1)


# Review sentiment


def review_classifier(method: str, body: EncoderModel, seed: int = 0) -> SequenceClassifier:
    """A new classification head on the model, before training. The seed draws the new parameters; `body` is changed.

    Full fine-tuning leaves the token embeddings frozen: half of all parameters, most of them of words outside the reviews.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if method == "LoRA":
            add_lora(body, RANK)
        else:
            body.embedding.token_embedding.requires_grad_(False)
        return SequenceClassifier(body, body.config.dim, len(LABELS))


def encode_reviews(encoder: PretrainedEncoder, reviews: Sequence[Review]) -> EncodedTexts:
    batch = encoder.tokenizer.batch([review.text for review in reviews])
    return EncodedTexts(batch.token_ids, batch.attention_mask, labels(reviews))


def predict_reviews(
    method: str, minilm: Path | str, train: Sequence[Review], test: Sequence[Review], seed: int = 0
) -> Tensor:
    """Train by one of the `METHODS`; returns the predicted classes (n,) of the test reviews: 1 is fresh."""
    if method == "bag of words":
        return bag_of_words(train, labels(train), test, len(LABELS))
    encoder = load_minilm(minilm, MAX_LEN)
    if method == "linear probe":
        train_features, test_features = example_features(encoder, train), example_features(encoder, test)
        return linear_probe(train_features, labels(train), test_features, len(LABELS), PENALTY)
    model = review_classifier(method, encoder.model, seed)
    fine_tune(model, encode_reviews(encoder, train), RECIPES[method], seed)
    return predict_logits(model, encode_reviews(encoder, test)).argmax(-1)


def subsample(reviews: Sequence[Review], count: int | None, seed: int) -> Sequence[Review]:
    """A random sample, since neighbors in the table are about one film; all reviews for None."""
    if count is None:
        return reviews
    order = torch.randperm(len(reviews), generator=torch.Generator().manual_seed(seed))
    return [reviews[index] for index in order[:count]]


def _review_files(*_, minilm: Path | str, reviews: Path | str, **__) -> list[Path]:
    return [*minilm_files(minilm), Path(reviews) / FILE if Path(reviews).is_dir() else Path(reviews)]


@cached(data_files=_review_files)
def review_predictions(
    method: str,
    seed: int = 0,
    *,
    minilm: Path | str,
    reviews: Path | str,
    num_train: int | None = None,
    num_test: int | None = None,
) -> dict:
    """Predictions (n,) of one method and labels (n,) of test snippets, about films that are not in the training set.

    The seed draws the new parameters, the order of training and, with num_train, the training snippets. seconds: of
    processor time, for training and prediction. majority: the most frequent training label.
    """
    split = split_reviews(read_reviews(reviews))
    train, test = subsample(split.train, num_train, seed), subsample(split.test, num_test, 0)
    start = time.process_time()
    predicted = predict_reviews(method, minilm, train, test, seed)
    return {
        "predictions": predicted,
        "labels": labels(test),
        "seconds": time.process_time() - start,
        "majority": int(labels(train).float().mean() > 0.5),
        "num_train": len(train),
    }


def review_sentiment(methods: Sequence[str] = METHODS, seeds: int = 3, **options) -> dict:
    """Test accuracy and seconds (methods, seeds) of `review_predictions`, which has the options and caches each run.

    majority: accuracy of the majority class. Without num_train, a deterministic method is run once.
    """
    accuracies, seconds = torch.zeros(len(methods), seeds), torch.zeros(len(methods), seeds)
    for row, method in enumerate(methods):
        runs = 1 if options.get("num_train") is None and method in DETERMINISTIC else seeds
        for seed in range(runs):
            run = review_predictions(method, seed, **options)
            correct = (run["predictions"] == run["labels"]).float().mean()
            accuracies[row, seed:], seconds[row, seed:] = correct, run["seconds"]
    return {
        "methods": list(methods),
        "accuracy": accuracies,
        "seconds": seconds,
        "majority": (run["labels"] == run["majority"]).float().mean().item(),
        "sizes": (run["num_train"], len(run["labels"])),
    }


# The course's own tasks


@cached(data_files=lambda *_, minilm, **__: [*minilm_files(minilm), topics_file()])
def linear_probe_on_tasks(
    tasks: Sequence[str] = tuple(TASKS),
    per_class: Sequence[int | None] = LABELS_PER_CLASS,
    seeds: int = 5,
    *,
    minilm: Path | str,
    num_test: int | None = None,
) -> dict:
    """Test accuracy (tasks, per_class, seeds) of a linear probe on MiniLM's sentence embeddings; majority (tasks,).

    The same draws of labels and the same test texts as in `fine_tuning.accuracies`.
    """
    encoder = load_minilm(minilm, MAX_LEN)
    loaded = [TASKS[name]() for name in tasks]
    rows = [probe_accuracies(task, encoder, per_class, seeds, task.test[:num_test]) for task in loaded]
    majority = torch.tensor([task.majority() for task in loaded])
    return {"tasks": list(tasks), "labels": list(per_class), "accuracy": torch.stack(rows), "majority": majority}


def probe_accuracies(
    task: Task, encoder: PretrainedEncoder, per_class: Sequence[int | None], seeds: int, test: Sequence[Example]
) -> Tensor:
    """Accuracy (per_class, seeds). Each text of any draw is encoded once; with all labels the seeds are the same."""
    draws = {
        (count, seed): labeled_examples(task, count, seed)
        for count in per_class
        for seed in range(1 if count is None else seeds)
    }
    train = list(dict.fromkeys(example for draw in draws.values() for example in draw))
    train_features, test_features = example_features(encoder, train), example_features(encoder, test)
    index = {example: number for number, example in enumerate(train)}
    accuracies = torch.zeros(len(per_class), seeds)
    for (count, seed), draw in draws.items():
        drawn = train_features[[index[example] for example in draw]]
        predicted = linear_probe(drawn, task.label_ids(draw), test_features, len(task.labels), PENALTY)
        accuracies[per_class.index(count), seed:] = accuracy(predicted, task, test)
    return accuracies

"""The published encoder at work: fine-tuned on the sentiment of film reviews, and with fixed vectors on the course's own tasks.

    review_sentiment(("bag of words", "full"), 3, minilm=folder, reviews=folder)
    frozen_on_tasks(minilm=folder)

The folders hold the published files and the table of reviews; whoever calls fetches them. Training is lesson 08's own, `tune`:
only the body under the new layer is another.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from utils.data.docstrings import TASKS, Example, Task
from utils.data.real_text import topics_file
from utils.data.reviews import FILE, LABELS, Review, labels, read_reviews, split_reviews
from utils.models.bert import Bert, PretrainedEncoder, load_minilm, padded
from utils.models.language import Classifier, add_adapters
from utils.training.baselines import bag_of_words, logistic_regression
from utils.training.cache import cached
from utils.training.fine_tuning import LABELS as LABELS_PER_CLASS
from utils.training.fine_tuning import LONGEST, RANK, WITHOUT_CHANCE, Recipe, Texts, answers, drawn, tune

WAYS = ("bag of words", "frozen", "adapters", "full")
# For all 8,920 snippets of the training part these steps are one epoch.
RECIPES = {"adapters": Recipe(1e-3, 0.01, 6.0, alike=True), "full": Recipe(1e-4, 0.01, 6.0, alike=True)}
PENALTY = 1.0
SHORT = {"ways": ("bag of words", "frozen"), "seeds": 1, "train": 600, "asked": 600}  # for a lesson: seconds


def published_files(minilm: Path | str) -> list[Path]:
    return [Path(minilm) / name for name in ("config.json", "model.safetensors", "tokenizer.json")]


def table_of(reviews: Path | str) -> Path:
    return Path(reviews) / FILE if Path(reviews).is_dir() else Path(reviews)


# Vectors that stay as they are


def example_features(real: PretrainedEncoder, examples: Sequence[Review | Example]) -> Tensor:
    """Sentence vectors (n, dim); of examples of two texts (n, 4 dim): both vectors, how far apart they are, and their product.

    The model reads one text at a time, and a linear layer cannot compare: what two texts have to do with each other must be among
    the numbers that it is given.
    """
    first = real.sentence_vectors([one.text for one in examples])
    if examples[0].second is None:
        return first
    second = real.sentence_vectors([one.second for one in examples])
    return torch.cat([first, second, (first - second).abs(), first * second], dim=1)


def linear_answers(
    known: Tensor, known_labels: Tensor, asked: Tensor, classes: int, penalty: float = PENALTY
) -> Tensor:
    """Answers (n,) for vectors asked (n, d), by logistic regression on vectors known (m, d) with labels (m,)."""
    weight, bias = logistic_regression(known, known_labels, classes, penalty)
    return (asked @ weight.T + bias).argmax(-1)


# Review sentiment


def review_classifier(way: str, bert: Bert, seed: int = 0) -> Classifier:
    """A new layer for two classes on top of the model, before training. The seed draws what is new; `bert` itself is made ready.

    "full" trains all but the table of words: half of all parameters, most of them of words that the reviews do not have.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if way == "adapters":
            add_adapters(bert, RANK)
        else:
            bert.embeddings.words.requires_grad_(False)
        return Classifier(bert, bert.dim, len(LABELS))


def as_texts(real: PretrainedEncoder, reviews: Sequence[Review]) -> Texts:
    return Texts(*padded(real.splitter.numbers([one.text for one in reviews])), labels(reviews))


def answer_reviews(
    way: str,
    minilm: Path | str,
    known: Sequence[Review],
    asked: Sequence[Review],
    seed: int = 0,
    recipe: Recipe | None = None,
    longest: int = LONGEST,
) -> Tensor:
    """Learn from the known reviews in one of the `WAYS`, and answer (n,) for those that are asked about: 1 is fresh."""
    if way == "bag of words":
        return bag_of_words(known, labels(known), asked, len(LABELS))
    real = load_minilm(minilm, longest)
    if way == "frozen":
        both = example_features(real, known), example_features(real, asked)
        return linear_answers(both[0], labels(known), both[1], len(LABELS))
    model = review_classifier(way, real.bert, seed)
    tune(model, as_texts(real, known), recipe or RECIPES[way], seed)
    return answers(model, as_texts(real, asked)).argmax(-1)


def some(reviews: Sequence[Review], count: int | None, seed: int) -> Sequence[Review]:
    """So many at random, since neighbours in the table are about one film; all of them for None."""
    if count is None:
        return reviews
    order = torch.randperm(len(reviews), generator=torch.Generator().manual_seed(seed))
    return [reviews[place] for place in order[:count]]


@cached(data_files=lambda *_, minilm, reviews, **__: [*published_files(minilm), table_of(reviews)])
def review_answers(
    way: str,
    seed: int = 0,
    *,
    minilm: Path | str,
    reviews: Path | str,
    train: int | None = None,
    asked: int | None = None,
    part: str = "test",
    steps: float | None = None,
    longest: int = LONGEST,
) -> dict:
    """What one way answers (n,), and the labels (n,), for snippets about films of which it has seen none.

    minilm and reviews: folders of the published files and of the table. The seed draws the new parameters, the order of training
    and, with `train`, which snippets are learnt from. asked: answer only so many, the same for every seed. part: "validation" to
    choose a recipe, "test" to report. steps: other than the recipe's. seconds: of the processor, for learning and answering.
    """
    whole = split_reviews(read_reviews(reviews))
    known, tested = some(whole.train, train, seed), some(getattr(whole, part), asked, 0)
    recipe = RECIPES.get(way)
    if recipe and steps is not None:
        recipe = recipe._replace(steps=steps)
    start = time.process_time()
    answered = answer_reviews(way, minilm, known, tested, seed, recipe, longest)
    return {
        "answers": answered,
        "labels": labels(tested),
        "seconds": time.process_time() - start,
        "majority": int(labels(known).float().mean() > 0.5),
        "learnt_from": len(known),
    }


def review_sentiment(ways: Sequence[str] = WAYS, seeds: int = 3, **options) -> dict:
    """Accuracy and seconds (ways, seeds) of `review_answers`, which is kept for each way and seed and has the options.

    majority: what answering the commoner label gets right. Without `train`, a way without chance in it is run once.
    """
    found, seconds = torch.zeros(len(ways), seeds), torch.zeros(len(ways), seeds)
    for row, way in enumerate(ways):
        for seed in range(seeds):
            if seed and options.get("train") is None and way in WITHOUT_CHANCE:
                found[row, seed], seconds[row, seed] = found[row, 0], seconds[row, 0]
                continue
            one = review_answers(way, seed, **options)
            found[row, seed] = (one["answers"] == one["labels"]).float().mean()
            seconds[row, seed] = one["seconds"]
    return {
        "ways": list(ways),
        "accuracy": found,
        "seconds": seconds,
        "majority": (one["labels"] == one["majority"]).float().mean().item(),
        "sizes": (one["learnt_from"], len(one["labels"])),
    }


# The course's own tasks


@cached(data_files=lambda *_, minilm, **__: [*published_files(minilm), topics_file()])
def frozen_on_tasks(
    tasks: Sequence[str] = tuple(TASKS),
    per_class: Sequence[int | None] = LABELS_PER_CLASS,
    seeds: int = 5,
    *,
    minilm: Path | str,
    part: str = "test",
    asked: int | None = None,
    longest: int = LONGEST,
) -> dict:
    """Accuracy (tasks, per_class, seeds) of a linear layer on the published model's vectors, which nothing changes; majority (tasks,).

    The same draws of labels and the same texts as in `fine_tuning.accuracies`. With all labels there is no chance in it, and the
    seeds are the same. asked: only so many texts.
    """
    real = load_minilm(minilm, longest)
    found = torch.zeros(len(tasks), len(per_class), seeds)
    majority = torch.zeros(len(tasks))
    for row, name in enumerate(tasks):
        task = TASKS[name]()
        majority[row] = task.majority()
        found[row] = _frozen_on(task, real, per_class, seeds, getattr(task, part)[:asked])
    return {"tasks": list(tasks), "labels": list(per_class), "accuracy": found, "majority": majority}


def _frozen_on(
    task: Task, real: PretrainedEncoder, per_class: Sequence[int | None], seeds: int, tested: Sequence[Example]
) -> Tensor:
    """Accuracy (per_class, seeds). Each text that any draw has is read once."""
    draws = {(count, seed): drawn(task, count, seed) for count in per_class for seed in range(seeds)}
    known = list(dict.fromkeys(example for draw in draws.values() for example in draw))
    vectors, theirs = example_features(real, known), example_features(real, tested)
    place = {example: number for number, example in enumerate(known)}
    found = torch.zeros(len(per_class), seeds)
    for row, count in enumerate(per_class):
        for seed in range(seeds):
            if seed and count is None:
                found[row, seed] = found[row, 0]
                continue
            draw = draws[count, seed]
            chosen = vectors[[place[example] for example in draw]]
            answered = linear_answers(chosen, task.label_ids(draw), theirs, len(task.labels))
            found[row, seed] = (answered == task.label_ids(tested)).float().mean()
    return found

"""Fine-tuning: what a pretrained encoder is worth when labels are few.

The same task in six ways, from counting words to training every parameter of a pretrained model, on the same draws of labels and
the same test modules. Recipes are fixed and were chosen on the validation modules; with four labels per class there is nothing
to spare for deciding when to stop.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.bpe import PAD_ID, SPECIAL_TOKENS, BPETokenizer
from utils.data.docstrings import TASKS, Example, Task, few
from utils.data.real_text import topics_file
from utils.models.language import Classifier, LowRank, MaskedLM, add_adapters, mean_of_real
from utils.training.baselines import bag_of_words, logistic_regression
from utils.training.cache import cached
from utils.training.pretraining import (
    Asked,
    Corpus,
    corpus,
    held_out_losses,
    in_pieces,
    pretrain,
    restore_pretrained,
)
from utils.training.stored_encoder import encoder_files, stored_encoder
from utils.training.trainer import linear_warmup_cosine, train

WAYS = ("bag of words", "word vectors + GRU", "scratch", "frozen", "adapters", "full")
WITHOUT_CHANCE = ("bag of words", "frozen")  # with the same labels they give the same each time
LABELS = (1, 4, 16, None)  # per class; None: all that there are
LONGEST = 64  # pieces of a text; the rest is not read
BATCH, TOGETHER = 16, 64


class Recipe(NamedTuple):
    """rate: the highest; decay: as in AdamW; steps: of batches, times the root of the number of examples.

    alike: texts of like length share a batch, which spares a large model much padding.
    """

    rate: float
    decay: float = 0.01
    steps: float = 12.0
    alike: bool = False


RECIPES = {
    "word vectors + GRU": Recipe(3e-3),
    "scratch": Recipe(1e-3),
    "adapters": Recipe(3e-3),
    "full": Recipe(1e-3),
}
RANK, PENALTY = 8, 0.1


# Texts as numbers


@dataclass
class Texts:
    """numbers and real (b, n), labels (b,)."""

    numbers: Tensor
    real: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, places: Tensor) -> "Texts":
        """Some of the texts, without columns in which all of them are padding."""
        real = self.real[places]
        n = int(real.sum(1).max())
        return Texts(self.numbers[places, :n], real[:, :n], self.labels[places])


def as_texts(task: Task, examples: Sequence[Example], subwords: BPETokenizer, longest: int = LONGEST) -> Texts:
    rows = [subwords.encode_pair(one.text, one.second, longest) for one in examples]
    n = max(map(len, rows))
    numbers = torch.tensor([row + [PAD_ID] * (n - len(row)) for row in rows])
    real = torch.arange(n) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
    return Texts(numbers, real, task.label_ids(examples))


def in_parts(texts: Texts, size: int = TOGETHER) -> list[tuple[Tensor, Texts]]:
    """Texts of like length together, with their places: less padding, less time."""
    order = texts.real.sum(1).argsort()
    return [(places, texts.part(places)) for places in order.split(size)]


# Training and answering


def shuffled(texts: Texts, alike: bool, generator: torch.Generator) -> list[Tensor]:
    """The places of all texts in batches, in random order."""
    order = torch.randperm(len(texts), generator=generator)
    if not alike:
        return list(order.split(BATCH))
    # The sort keeps texts of one length in their random order, so that an epoch's batches are not those of the one before.
    batches = order[texts.real[order].sum(1).argsort(stable=True)].split(BATCH)
    return [batches[place] for place in torch.randperm(len(batches), generator=generator)]


def tune(model: nn.Module, texts: Texts, recipe: Recipe, seed: int) -> Tensor:
    """Train whatever of the model is not frozen, in place; returns the losses (steps,)."""
    steps = round(recipe.steps * math.sqrt(len(texts)))
    generator = torch.Generator().manual_seed(20_000 + seed)
    batches: list[Tensor] = []

    def loss_of_step(step: int) -> Tensor:
        if not batches:
            batches.extend(shuffled(texts, recipe.alike, generator))
        batch = texts.part(batches.pop())
        return F.cross_entropy(model(batch.numbers, batch.real), batch.labels)

    return train(
        model,
        loss_of_step,
        steps,
        learning_rate=recipe.rate,
        schedule=linear_warmup_cosine(steps, 0.1),
        betas=(0.9, 0.98),
        weight_decay=recipe.decay,
        max_norm=1.0,
    )


@torch.no_grad()
def answers(model: nn.Module, texts: Texts) -> Tensor:
    """Logits (b, classes)."""
    found = None
    for places, part in in_parts(texts):
        logits = model(part.numbers, part.real)
        found = logits.new_zeros(len(texts), logits.size(1)) if found is None else found
        found[places] = logits
    return found


@torch.no_grad()
def features(body: nn.Module, texts: Texts) -> Tensor:
    """The mean vector (b, dim) of each text."""
    found = torch.zeros(len(texts), body.dim)
    for places, part in in_parts(texts):
        found[places] = mean_of_real(body.vectors(part.numbers, part.real), part.real)
    return found


# The older way: a vector for each piece, whatever stands around it, and a recurrent model


def word_vectors(text: Tensor, pieces: int, dim: int, window: int = 4) -> Tensor:
    """(pieces, dim): what stands near a piece more often than chance, squeezed into few numbers.

    The table of how often two pieces stand at most `window` places apart is compared with chance (positive pointwise mutual
    information) and factorised; skip-gram with negative samples does nearly the same step by step (Levy and Goldberg, 2014).
    """
    counts = torch.zeros(pieces * pieces)
    for gap in range(1, window + 1):
        counts += torch.bincount(text[:-gap] * pieces + text[gap:], minlength=pieces * pieces)
    counts = counts.view(pieces, pieces)
    counts = counts + counts.T
    counts[: len(SPECIAL_TOKENS)] = 0
    counts[:, : len(SPECIAL_TOKENS)] = 0
    # Contexts are made a little more alike than they are: rare ones would look too telling.
    context = counts.sum(0) ** 0.75
    chance = counts.sum(1, keepdim=True) * (context / context.sum())
    surplus = (counts / chance.clamp(min=1e-9)).clamp(min=1).log()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the factorisation starts from random directions
        left, sizes, _ = torch.svd_lowrank(surplus, q=dim, niter=4)
    vectors = left * sizes.sqrt()
    return vectors / vectors[len(SPECIAL_TOKENS) :].std()


class WordVectorsAndGRU(nn.Module):
    """Fixed vectors of pieces (pieces, d), read by a recurrent network from both sides; each direction has half of `dim`."""

    def __init__(self, table: Tensor, dim: int):
        super().__init__()
        self.dim = dim
        self.table = nn.Embedding.from_pretrained(table, freeze=True)
        self.gru = nn.GRU(table.size(1), dim // 2, batch_first=True, bidirectional=True)

    def vectors(self, numbers: Tensor, real: Tensor) -> Tensor:
        """(b, n, dim)."""
        packed = nn.utils.rnn.pack_padded_sequence(
            self.table(numbers), real.sum(1), batch_first=True, enforce_sorted=False
        )
        return nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)[0]


# Six ways


@dataclass
class Setting:
    """What all ways share: a task, the pretraining text, and the result of `pretrain` on it."""

    task: Task
    text: Corpus
    pretrained: dict
    longest: int

    @property
    def subwords(self) -> BPETokenizer:
        return self.text.subwords

    @property
    def classes(self) -> int:
        return len(self.task.labels)

    def texts(self, examples: Sequence[Example]) -> Texts:
        return as_texts(self.task, examples, self.subwords, self.longest)

    def body(self) -> MaskedLM:
        """The pretrained encoder, a fresh copy each time."""
        return restore_pretrained(self.pretrained).model

    def fresh_body(self) -> MaskedLM:
        """The same encoder with random parameters; take care of the seed."""
        return MaskedLM(**self.pretrained["settings"])


def setting(task: str, pretraining: dict | None = None, longest: int = LONGEST) -> Setting:
    """A task with the stored encoder, or with one that `pretrain` makes with these arguments; each with its own pieces."""
    if pretraining is None:
        pretrained = stored_encoder()
        text = in_pieces(BPETokenizer.from_str(pretrained["subwords"]), pretrained["length"])
    else:
        pretrained = pretrain("masked", **pretraining)
        text = corpus(**{name: pretraining[name] for name in ("pieces", "length", "texts") if name in pretraining})
    return Setting(TASKS[task](), text, pretrained, longest)


def read_files(*_, **__) -> list[Path]:
    """What results of fine-tuning depend on beside code and arguments."""
    return [topics_file(), *encoder_files()]


def classifier(way: str, given: Setting, seed: int) -> Classifier:
    """A model before training on labels. The seed draws its new layers, and with "scratch" all of it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if way == "full":
            body = given.body()
        elif way == "adapters":
            body = given.body()
            add_adapters(body, RANK)
        elif way == "scratch":
            body = given.fresh_body()
        elif way == "word vectors + GRU":
            dim = given.pretrained["settings"]["dim"]
            body = WordVectorsAndGRU(word_vectors(given.text.train, len(given.subwords), dim), dim)
        else:
            raise ValueError(f"expected a way that trains by steps, of {', '.join(RECIPES)}, got {way!r}")
        return Classifier(body, body.dim, given.classes)


def answer(
    way: str,
    given: Setting,
    examples: Sequence[Example],
    asked: Sequence[Example],
    seed: int,
    recipe: Recipe | None = None,
) -> Tensor:
    """Learn from the examples in one of the `WAYS`, and answer (n,) for the texts that are asked about."""
    if way == "bag of words":
        return bag_of_words(examples, given.task.label_ids(examples), asked, given.classes)
    train, test = given.texts(examples), given.texts(asked)
    if way == "frozen":
        body = given.body()
        known = features(body, train)
        weight, bias = logistic_regression(known, train.labels, given.classes, PENALTY)
        return (features(body, test) @ weight.T + bias).argmax(-1)
    model = classifier(way, given, seed)
    tune(model, train, recipe or RECIPES[way], seed)
    return answers(model, test).argmax(-1)


def drawn(task: Task, per_class: int | None, seed: int) -> tuple[Example, ...]:
    """`few`, or the whole training set for None."""
    return task.train if per_class is None else few(task, per_class, seed)


def accuracy(answered: Tensor, task: Task, asked: Sequence[Example]) -> float:
    return (answered == task.label_ids(asked)).float().mean().item()


@cached(data_files=read_files)
def accuracies(
    ways: Sequence[str] = WAYS,
    labels: Sequence[int | None] = LABELS,
    seeds: int = 5,
    *,
    task: str = "families",
    pretraining: dict | None = None,
    part: str = "test",
    longest: int = LONGEST,
    asked: int | None = None,
) -> dict:
    """Accuracy (ways, labels, seeds) of each way with so many labels per class, on texts of modules that no way has seen.

    A seed draws the labels and the new parameters. With all labels and a way without chance in it, the seeds give the same and
    one is run. pretraining: arguments of `pretrain` for the masked encoder that the ways share; the stored one without. part: "validation" to choose a
    recipe, "test" to report. asked: only so many texts. Returns also the majority's share and the sizes of both sets.
    """
    given = setting(task, pretraining, longest)
    tested = getattr(given.task, part)[:asked]
    found = torch.zeros(len(ways), len(labels), seeds)
    for row, way in enumerate(ways):
        for column, per_class in enumerate(labels):
            for seed in range(seeds):
                if seed and per_class is None and way in WITHOUT_CHANCE:
                    found[row, column, seed] = found[row, column, 0]
                    continue
                examples = drawn(given.task, per_class, seed)
                found[row, column, seed] = accuracy(answer(way, given, examples, tested, seed), given.task, tested)
    return {
        "ways": list(ways),
        "labels": list(labels),
        "accuracy": found,
        "majority": given.task.majority(),
        "sizes": (len(given.task.train), len(tested)),
        "classes": given.classes,
    }


# Why it works


def group_of(name: str) -> str:
    """The part of a classifier that a parameter belongs to: "words", "layer 1", "layer 2", ..., "final norm" or "head"."""
    if name.startswith("head."):
        return "head"
    if "encoder.layers." in name:
        return f"layer {int(name.split('encoder.layers.')[1].split('.')[0]) + 1}"
    return "final norm" if "final_norm" in name else "words"


class Distance(NamedTuple):
    """How far a part of a model has moved, |end - start|, and how long it was, |start|."""

    moved: float
    length: float


# The output's bias for each piece belongs to filling in blanks; a classifier does not use it, and it never moves.
NOT_USED = "body.bias"


def distances(start: dict[str, Tensor], end: dict[str, Tensor]) -> dict[str, Distance]:
    """The way travelled by each part of a classifier.

    A share of the length would flatter what is pretrained: its parameters have grown, so the same way is a smaller share of them.
    """
    moved, length = {}, {}
    for name, value in start.items():
        if name == NOT_USED:
            continue
        group = group_of(name)
        moved[group] = moved.get(group, 0.0) + (end[name] - value).square().sum().item()
        length[group] = length.get(group, 0.0) + value.square().sum().item()
    return {group: Distance(math.sqrt(moved[group]), math.sqrt(length[group])) for group in moved}


def between(start: dict[str, Tensor], end: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """The parameters on the straight line from start (share 0) to end (share 1)."""
    return {name: torch.lerp(value, end[name], share) for name, value in start.items()}


def along_the_line(
    model: Classifier,
    start: dict[str, Tensor],
    end: dict[str, Tensor],
    shares: Sequence[float],
    train: Texts,
    test: Texts,
) -> dict:
    """Loss on the training texts and accuracy on the test texts, (shares,) each, with the parameters between start and end."""
    losses, right = torch.zeros(len(shares)), torch.zeros(len(shares))
    for place, share in enumerate(shares):
        model.load_state_dict(between(start, end, share))
        losses[place] = F.cross_entropy(answers(model, train), train.labels)
        right[place] = (answers(model, test).argmax(-1) == test.labels).float().mean()
    return {"loss": losses, "accuracy": right}


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def masked_loss(body: MaskedLM, text: Corpus, fragments: int | None = None) -> float:
    """Loss in nats at hidden pieces of the held-out pretraining text (the first `fragments` of it): the same pieces each time."""
    pieces = len(text.subwords)
    part = Corpus(text.subwords, text.train, text.held_out[:fragments])
    counts = text.train.bincount(minlength=pieces).float()
    return held_out_losses(body, part, Asked("masked", pieces), counts)[0]


SHARES_OF_THE_WAY = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@cached(data_files=read_files)
def why_it_works(
    per_class: int | None = 16,
    seed: int = 0,
    *,
    task: str = "families",
    pretraining: dict | None = None,
    shares: Sequence[float] = SHARES_OF_THE_WAY,
    longest: int = LONGEST,
    asked: int | None = None,
    fragments: int | None = None,
) -> dict:
    """Train from the pretrained and from a random start, with the same labels, and look at the way between start and end.

    For each start ("full" and "scratch"): distance, by part of the model; line, with loss and accuracy along the straight line
    at `shares`; steps' loss. forgotten: the masked-word loss of the pretrained model, after full fine-tuning, with adapters on,
    and with adapters taken off again, which is the first by construction.
    """
    given = setting(task, pretraining, longest)
    examples = drawn(given.task, per_class, seed)
    train, test = given.texts(examples), given.texts(given.task.test[:asked])
    found: dict = {"shares": list(shares)}
    forgotten = {"pretrained": masked_loss(given.body(), given.text, fragments)}
    for way in ("full", "scratch"):
        model = classifier(way, given, seed)
        start = parameters_of(model)
        loss = tune(model, train, RECIPES[way], seed)
        end = parameters_of(model)
        if way == "full":
            forgotten["full"] = masked_loss(model.body, given.text, fragments)
        found[way] = {
            "distance": {part: one._asdict() for part, one in distances(start, end).items()},
            "line": along_the_line(model, start, end, shares, train, test),
            "loss": loss,
        }
    model = classifier("adapters", given, seed)
    tune(model, train, RECIPES["adapters"], seed)
    forgotten["adapters on"] = masked_loss(model.body, given.text, fragments)
    switch_adapters_off(model)
    forgotten["adapters off"] = masked_loss(model.body, given.text, fragments)
    return {**found, "forgotten": forgotten}


def switch_adapters_off(model: nn.Module) -> None:
    """What the adapters add becomes nothing; the frozen maps below them are as they were."""
    for module in model.modules():
        if isinstance(module, LowRank):
            module.scale = 0.0


# Several tasks from one model


@cached(data_files=read_files)
def several_tasks(
    tasks: Sequence[str] = tuple(TASKS),
    ways: Sequence[str] = ("bag of words", "scratch", "frozen", "full"),
    seeds: int = 3,
    *,
    pretraining: dict | None = None,
    per_class: int | None = None,
    longest: int = LONGEST,
    asked: int | None = None,
    steps: float | None = None,
) -> dict:
    """Test accuracy (tasks, ways, seeds) on each task, each time from the one pretrained encoder; majority (tasks,).

    steps: other than the recipes'.
    """
    found = torch.zeros(len(tasks), len(ways), seeds)
    majority = torch.zeros(len(tasks))
    for row, task in enumerate(tasks):
        given = setting(task, pretraining, longest)
        tested = given.task.test[:asked]
        majority[row] = given.task.majority()
        for column, way in enumerate(ways):
            recipe = RECIPES.get(way)
            if recipe and steps is not None:
                recipe = recipe._replace(steps=steps)
            for seed in range(seeds):
                if seed and per_class is None and way in WITHOUT_CHANCE:
                    found[row, column, seed] = found[row, column, 0]
                    continue
                examples = drawn(given.task, per_class, seed)
                answered = answer(way, given, examples, tested, seed, recipe)
                found[row, column, seed] = accuracy(answered, given.task, tested)
    return {"tasks": list(tasks), "ways": list(ways), "accuracy": found, "majority": majority}

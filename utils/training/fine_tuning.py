"""Fine-tuning: what a pretrained encoder is worth when labels are few.

Six methods, from a bag of words to full fine-tuning, with the same draws of labels and the same test modules. Hyperparameters
are fixed and were chosen on the validation modules: with four labels per class nothing is left for early stopping.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.bpe import SPECIAL_TOKENS, BPETokenizer
from utils.data.docstrings import TASKS, Example, Task, few
from utils.data.real_text import topics_file
from utils.data.tokens import pad
from utils.models.language_models import (
    EncoderConfig,
    LoRALinear,
    MaskedLM,
    SequenceClassifier,
    add_lora,
    mean_pooling,
)
from utils.training.baselines import bag_of_words, linear_probe
from utils.training.cache import cached
from utils.training.pretraining import (
    Corpus,
    Objective,
    corpus,
    held_out_losses,
    pretrain,
    restore_pretrained,
    tokenized_corpus,
)
from utils.training.stored_encoder import encoder_files, stored_encoder
from utils.training.trainer import linear_warmup_cosine, train

METHODS = ("bag of words", "word vectors + GRU", "from scratch", "linear probe", "LoRA", "full fine-tuning")
DETERMINISTIC = ("bag of words", "linear probe")  # the same labels give the same predictions
LABELS_PER_CLASS = (1, 4, 16, None)  # None: all labels
MAX_LEN = 64  # tokens; longer texts are truncated
BATCH_SIZE, TEST_BATCH_SIZE = 16, 64


class Recipe(NamedTuple):
    """Hyperparameters of AdamW. num_steps: times the square root of the number of examples.

    group_by_length: batches of texts of similar length, which saves a large model most of the padding.
    """

    learning_rate: float
    weight_decay: float = 0.01
    num_steps: float = 12.0
    group_by_length: bool = False


RECIPES = {
    "word vectors + GRU": Recipe(3e-3),
    "from scratch": Recipe(1e-3),
    "LoRA": Recipe(3e-3),
    "full fine-tuning": Recipe(1e-3),
}
RANK, PENALTY = 8, 0.1


# Labeled texts as tensors


@dataclass
class EncodedTexts:
    """token_ids and attention_mask (b, n), labels (b,)."""

    token_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, indices: Tensor) -> "EncodedTexts":
        """Some of the texts, without columns that are padding in all of them."""
        attention_mask = self.attention_mask[indices]
        n = int(attention_mask.sum(1).max())
        return EncodedTexts(self.token_ids[indices, :n], attention_mask[:, :n], self.labels[indices])

    def by_length(self, batch_size: int = TEST_BATCH_SIZE) -> list[tuple[Tensor, "EncodedTexts"]]:
        """Batches of texts of similar length, with their indices: less padding, less time."""
        order = self.attention_mask.sum(1).argsort()
        return [(indices, self.select(indices)) for indices in order.split(batch_size)]

    def shuffled_batches(self, group_by_length: bool, generator: torch.Generator) -> list[Tensor]:
        """One epoch: the indices of all texts in batches, in random order."""
        order = torch.randperm(len(self), generator=generator)
        if not group_by_length:
            return list(order.split(BATCH_SIZE))
        # A stable sort keeps texts of one length in random order, so that every epoch has batches of its own.
        batches = order[self.attention_mask[order].sum(1).argsort(stable=True)].split(BATCH_SIZE)
        return [batches[index] for index in torch.randperm(len(batches), generator=generator)]


# Training and prediction


def fine_tune(model: nn.Module, texts: EncodedTexts, recipe: Recipe, seed: int) -> Tensor:
    """Train the parameters that are not frozen, in place; returns the losses (steps,)."""
    steps = round(recipe.num_steps * math.sqrt(len(texts)))
    generator = torch.Generator().manual_seed(20_000 + seed)
    batches: list[Tensor] = []

    def loss_of_step(step: int) -> Tensor:
        if not batches:
            batches.extend(texts.shuffled_batches(recipe.group_by_length, generator))
        batch = texts.select(batches.pop())
        return F.cross_entropy(model(batch.token_ids, batch.attention_mask), batch.labels)

    return train(
        model,
        loss_of_step,
        steps,
        learning_rate=recipe.learning_rate,
        schedule=linear_warmup_cosine(steps, 0.1),
        betas=(0.9, 0.98),
        weight_decay=recipe.weight_decay,
        max_norm=1.0,
    )


@torch.no_grad()
def predict_logits(model: Callable[[Tensor, Tensor], Tensor], texts: EncodedTexts) -> Tensor:
    """Logits (b, num_classes), in the order of the texts."""
    batches = texts.by_length()
    logits = torch.cat([model(batch.token_ids, batch.attention_mask) for _, batch in batches])
    return logits[torch.cat([indices for indices, _ in batches]).argsort()]


def features(body: nn.Module, texts: EncodedTexts) -> Tensor:
    """Mean-pooled hidden states (b, dim) of a frozen encoder, in the order of the texts."""
    return predict_logits(lambda token_ids, mask: mean_pooling(body.encode(token_ids, mask), mask), texts)


# Before Transformers: static word vectors and a recurrent network


def pmi_embeddings(text: Tensor, vocab_size: int, dim: int, window: int = 4) -> Tensor:
    """Word vectors (vocab_size, dim) by factorizing the matrix of positive pointwise mutual information (PPMI).

    It counts how often two tokens occur at most `window` positions apart. Skip-gram with negative sampling factorizes
    nearly the same matrix, step by step (Levy and Goldberg, 2014).
    """
    counts = torch.zeros(vocab_size * vocab_size)
    for offset in range(1, window + 1):
        counts += torch.bincount(text[:-offset] * vocab_size + text[offset:], minlength=vocab_size**2)
    counts = counts.view(vocab_size, vocab_size)
    counts = counts + counts.T
    counts[: len(SPECIAL_TOKENS)] = 0
    counts[:, : len(SPECIAL_TOKENS)] = 0
    # Context distribution smoothing: rare contexts would get too high a PMI.
    context = counts.sum(0) ** 0.75
    expected = counts.sum(1, keepdim=True) * (context / context.sum())
    ppmi = (counts / expected.clamp(min=1e-9)).clamp(min=1).log()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the randomized SVD starts from random directions
        left, singular_values, _ = torch.svd_lowrank(ppmi, q=dim, niter=4)
    embeddings = left * singular_values.sqrt()
    return embeddings / embeddings[len(SPECIAL_TOKENS) :].std()


class GRUEncoder(nn.Module):
    """Bidirectional GRU (Cho et al., 2014) on frozen embeddings (vocab_size, d); each direction has half of `dim`."""

    def __init__(self, embeddings: Tensor, dim: int):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(embeddings, freeze=True)
        self.gru = nn.GRU(embeddings.size(1), dim // 2, batch_first=True, bidirectional=True)

    def encode(self, token_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(b, n, dim); zeros at padding."""
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(token_ids), attention_mask.sum(1), batch_first=True, enforce_sorted=False
        )
        return nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)[0]


# Six methods


@dataclass
class Setting:
    """What all methods share: a task, the pretraining corpus, and the result of `pretrain` on it."""

    task: Task
    corpus: Corpus
    pretrained: dict
    max_len: int

    @property
    def tokenizer(self) -> BPETokenizer:
        return self.corpus.tokenizer

    @property
    def config(self) -> EncoderConfig:
        return EncoderConfig(**self.pretrained["settings"])

    @property
    def num_classes(self) -> int:
        return len(self.task.labels)

    def encode(self, examples: Sequence[Example]) -> EncodedTexts:
        """Token ids of texts or pairs of texts, truncated to max_len."""
        rows = [self.tokenizer.encode_pair(example.text, example.second, self.max_len) for example in examples]
        return EncodedTexts(*pad(rows), self.task.label_ids(examples))

    def pretrained_body(self) -> MaskedLM:
        """A new copy of the pretrained encoder."""
        return restore_pretrained(self.pretrained).model


def load_setting(task: str, pretraining: dict | None = None, max_len: int = MAX_LEN) -> Setting:
    """A task with the stored encoder, or with one that `pretrain` makes with these arguments; each has its own tokenizer."""
    if pretraining is None:
        pretrained = stored_encoder()
        text = tokenized_corpus(BPETokenizer.from_str(pretrained["tokenizer"]), pretrained["length"])
    else:
        pretrained = pretrain("masked", **pretraining)
        text = corpus(
            **{name: pretraining[name] for name in ("vocab_size", "length", "num_texts") if name in pretraining}
        )
    return Setting(TASKS[task](), text, pretrained, max_len)


def data_files(*_, **__) -> list[Path]:
    return [topics_file(), *encoder_files()]


def build_classifier(method: str, setting: Setting, seed: int) -> SequenceClassifier:
    """The model of one of the `RECIPES` before training on labels. The seed draws its new parameters."""
    dim = setting.config.dim
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if method == "from scratch":
            body = MaskedLM(setting.config)
        elif method == "word vectors + GRU":
            body = GRUEncoder(pmi_embeddings(setting.corpus.train, len(setting.tokenizer), dim), dim)
        else:
            body = setting.pretrained_body()
        if method == "LoRA":
            add_lora(body, RANK)
        return SequenceClassifier(body, dim, setting.num_classes)


def predict(
    method: str,
    setting: Setting,
    examples: Sequence[Example],
    test_examples: Sequence[Example],
    seed: int,
    recipe: Recipe | None = None,
) -> Tensor:
    """Train on the examples by one of the `METHODS`; returns the predicted classes (n,) of the test examples."""
    labels = setting.task.label_ids(examples)
    if method == "bag of words":
        return bag_of_words(examples, labels, test_examples, setting.num_classes)
    train, test = setting.encode(examples), setting.encode(test_examples)
    if method == "linear probe":
        body = setting.pretrained_body()
        return linear_probe(features(body, train), labels, features(body, test), setting.num_classes, PENALTY)
    model = build_classifier(method, setting, seed)
    fine_tune(model, train, recipe or RECIPES[method], seed)
    return predict_logits(model, test).argmax(-1)


def labeled_examples(task: Task, per_class: int | None, seed: int) -> tuple[Example, ...]:
    """`few`, or the whole training set for None."""
    return task.train if per_class is None else few(task, per_class, seed)


def accuracy(predicted: Tensor, task: Task, examples: Sequence[Example]) -> float:
    return (predicted == task.label_ids(examples)).float().mean().item()


def accuracy_of_seeds(
    method: str, setting: Setting, per_class: int | None, seeds: int, num_test: int | None = None
) -> Tensor:
    """Test accuracy (seeds,). A seed draws the labels and the new parameters; where neither is random, one is run."""
    test = setting.task.test[:num_test]
    runs = 1 if per_class is None and method in DETERMINISTIC else seeds
    results = []
    for seed in range(runs):
        examples = labeled_examples(setting.task, per_class, seed)
        results.append(accuracy(predict(method, setting, examples, test, seed), setting.task, test))
    return torch.tensor(results).expand(seeds) if runs == 1 else torch.tensor(results)


@cached(data_files=data_files)
def accuracies(
    methods: Sequence[str] = METHODS, labels: Sequence[int | None] = LABELS_PER_CLASS, seeds: int = 5
) -> dict:
    """Test accuracy (methods, labels, seeds) of each method on the families task, by the number of labels per class."""
    setting = load_setting("families")
    rows = [
        torch.stack([accuracy_of_seeds(method, setting, per_class, seeds) for per_class in labels])
        for method in methods
    ]
    return {
        "methods": list(methods),
        "labels": list(labels),
        "accuracy": torch.stack(rows),
        "majority": setting.task.majority(),
        "sizes": (len(setting.task.train), len(setting.task.test)),
    }


@cached(data_files=data_files)
def several_tasks(
    tasks: Sequence[str] = tuple(TASKS),
    methods: Sequence[str] = ("bag of words", "from scratch", "linear probe", "full fine-tuning"),
    seeds: int = 3,
    *,
    per_class: int | None = None,
    num_test: int | None = None,
) -> dict:
    """Test accuracy (tasks, methods, seeds) on each task, each time from the one pretrained encoder; majority (tasks,)."""
    settings = [load_setting(task) for task in tasks]
    rows = [
        torch.stack([accuracy_of_seeds(method, setting, per_class, seeds, num_test) for method in methods])
        for setting in settings
    ]
    return {
        "tasks": list(tasks),
        "methods": list(methods),
        "accuracy": torch.stack(rows),
        "majority": torch.tensor([setting.task.majority() for setting in settings]),
    }


# Distance, linear interpolation, catastrophic forgetting


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the model's state dict."""
    return {name: value.clone() for name, value in model.state_dict().items()}


class Distance(NamedTuple):
    """Euclidean distance |end - start| of a group of parameters, and its norm |start| at initialization."""

    distance: float
    norm: float


def parameter_group(name: str) -> str | None:
    """ "embeddings", "layer 1", "layer 2", ..., "final norm" or "head"; None for the output layer, which no classifier uses."""
    if name.startswith("body.lm_head."):
        return None
    if name.startswith("head."):
        return "head"
    if "encoder.layers." in name:
        return f"layer {int(name.split('encoder.layers.')[1].split('.')[0]) + 1}"
    return "final norm" if "encoder.norm" in name else "embeddings"


def distances(start: dict[str, Tensor], end: dict[str, Tensor]) -> dict[str, Distance]:
    """How far fine-tuning moved each group of a classifier's parameters.

    Relative distances would favor the pretrained model: its parameters have larger norms.
    """
    groups: dict[str, list[str]] = {}
    for name in start:
        if group := parameter_group(name):
            groups.setdefault(group, []).append(name)
    return {
        group: Distance(
            math.sqrt(sum((end[name] - start[name]).square().sum().item() for name in names)),
            math.sqrt(sum(start[name].square().sum().item() for name in names)),
        )
        for group, names in groups.items()
    }


def interpolate(start: dict[str, Tensor], end: dict[str, Tensor], fraction: float) -> dict[str, Tensor]:
    """Linear interpolation of parameters: `start` at fraction 0, `end` at fraction 1."""
    return {name: torch.lerp(value, end[name], fraction) for name, value in start.items()}


def interpolation_curve(
    model: SequenceClassifier,
    start: dict[str, Tensor],
    end: dict[str, Tensor],
    fractions: Sequence[float],
    train: EncodedTexts,
    test: EncodedTexts,
) -> dict:
    """Training loss and test accuracy, (fractions,) each, along the line from start to end (Hao et al., 2019)."""
    losses, accuracies = torch.zeros(len(fractions)), torch.zeros(len(fractions))
    for index, fraction in enumerate(fractions):
        model.load_state_dict(interpolate(start, end, fraction))
        losses[index] = F.cross_entropy(predict_logits(model, train), train.labels)
        accuracies[index] = (predict_logits(model, test).argmax(-1) == test.labels).float().mean()
    return {"loss": losses, "accuracy": accuracies}


def masked_loss(body: MaskedLM, text: Corpus, num_windows: int | None = None) -> float:
    """Masked-language-modeling loss in nats on the first windows of the held-out text: the same masked tokens in every call."""
    part = Corpus(text.tokenizer, text.train, text.held_out[:num_windows])
    return held_out_losses(body, part, Objective("masked", len(text.tokenizer)))[0]


def disable_lora(model: nn.Module) -> None:
    """Set the scale of every `LoRALinear` to 0: what is left is the pretrained model."""
    for module in model.modules():
        if isinstance(module, LoRALinear):
            module.scale = 0.0


FRACTIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@cached(data_files=data_files)
def interpolation_and_forgetting(
    per_class: int | None = 16,
    seed: int = 0,
    *,
    fractions: Sequence[float] = FRACTIONS,
    num_test: int | None = None,
    num_windows: int | None = None,
) -> dict:
    """Train from the pretrained and from a random initialization with the same labels, and compare start and end.

    For "full fine-tuning" and "from scratch": distance, by parameter group; interpolation, loss and accuracy at
    `fractions`; loss of each step. masked_loss: that of the pretrained model, after full fine-tuning, with LoRA, and
    with LoRA disabled, which equals the first by construction (catastrophic forgetting).
    """
    setting = load_setting("families")
    examples = labeled_examples(setting.task, per_class, seed)
    train, test = setting.encode(examples), setting.encode(setting.task.test[:num_test])
    result: dict = {"fractions": list(fractions)}
    losses = {"pretrained": masked_loss(setting.pretrained_body(), setting.corpus, num_windows)}
    for method in ("full fine-tuning", "from scratch"):
        model = build_classifier(method, setting, seed)
        start = snapshot(model)
        loss = fine_tune(model, train, RECIPES[method], seed)
        end = snapshot(model)
        if method == "full fine-tuning":
            losses[method] = masked_loss(model.body, setting.corpus, num_windows)
        result[method] = {
            "distance": {group: distance._asdict() for group, distance in distances(start, end).items()},
            "interpolation": interpolation_curve(model, start, end, fractions, train, test),
            "loss": loss,
        }
    model = build_classifier("LoRA", setting, seed)
    fine_tune(model, train, RECIPES["LoRA"], seed)
    losses["LoRA"] = masked_loss(model.body, setting.corpus, num_windows)
    disable_lora(model)
    losses["LoRA disabled"] = masked_loss(model.body, setting.corpus, num_windows)
    return {**result, "masked_loss": losses}

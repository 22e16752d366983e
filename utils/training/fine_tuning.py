"""Fine-tuning a pretrained encoder (Devlin et al., 2019, arXiv:1810.04805): accuracy by method and number of labels.

Six methods, from a bag of words to full fine-tuning, with the same draws of labels and the same test modules; then distance,
linear interpolation (Hao et al., 2019, arXiv:1908.05620) and catastrophic forgetting. Hyperparameters are fixed and were chosen on
the validation modules: with four labels per class nothing is left for early stopping. With Adam, fine-tuning moves
pretrained layers farther than training from scratch moves random ones.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
    EncoderModel,
    LoRALinear,
    MaskedLM,
    SequenceClassifier,
    add_lora,
    mean_pooling,
)
from utils.models.pretrained import load_minilm
from utils.training.baselines import bag_of_words, linear_probe
from utils.training.cache import cached
from utils.training.pretraining import Corpus, Objective, held_out_losses, restore_pretrained, tokenized_corpus
from utils.training.stored_encoder import encoder_files, stored_encoder
from utils.training.trainer import Schedule, linear_warmup_cosine, train

METHODS = ("bag of words", "word vectors + GRU", "from scratch", "linear probe", "LoRA", "full fine-tuning")
DETERMINISTIC = ("bag of words", "linear probe")  # the same labels give the same predictions
LABELS_PER_CLASS = (1, 4, 16, None)  # None: all labels
MAX_LEN = 64  # tokens; longer texts are truncated
BATCH_SIZE, TEST_BATCH_SIZE = 16, 64


class Recipe(NamedTuple):
    """Hyperparameters. num_steps: times the square root of the number of examples.

    group_by_length: batches of texts of similar length, which saves a large model most of the padding.
    sgd: plain stochastic gradient descent in place of AdamW.
    """

    learning_rate: float
    num_steps: float = 12.0
    group_by_length: bool = False
    sgd: bool = False


RECIPES = {
    "word vectors + GRU": Recipe(3e-3),
    "from scratch": Recipe(1e-3),
    "LoRA": Recipe(3e-3),
    "full fine-tuning": Recipe(1e-3),
}
SGD_RATES = {"full fine-tuning": 0.1, "from scratch": 0.3}  # the learning rate at which each fits its training texts
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

    def by_length(self) -> list[tuple[Tensor, "EncodedTexts"]]:
        """Batches of texts of similar length, with their indices: less padding, less time."""
        order = self.attention_mask.sum(1).argsort()
        return [(indices, self.select(indices)) for indices in order.split(TEST_BATCH_SIZE)]

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

    schedule = linear_warmup_cosine(steps, 0.1)
    if recipe.sgd:
        return train_sgd(model, loss_of_step, steps, recipe.learning_rate, schedule)
    return train(
        model,
        loss_of_step,
        steps,
        learning_rate=recipe.learning_rate,
        schedule=schedule,
        betas=(0.9, 0.98),
        weight_decay=0.01,
        max_norm=1.0,
    )


def train_sgd(
    model: nn.Module, loss_of_step: Callable[[int], Tensor], num_steps: int, learning_rate: float, schedule: Schedule
) -> Tensor:
    """Plain SGD, in place; returns the losses (steps,). No momentum, no clipping: a step is as long as its gradient."""
    model.train()
    losses = torch.zeros(num_steps)
    for step in range(num_steps):
        loss = loss_of_step(step)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= learning_rate * schedule(step) * parameter.grad
        losses[step] = loss.detach()
    model.eval()
    return losses


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


def pmi_embeddings(text: Tensor, vocab_size: int, dim: int) -> Tensor:
    """Word vectors (vocab_size, dim) by factorizing the matrix of positive pointwise mutual information (PPMI).

    It counts how often two tokens occur at most four positions apart. Skip-gram with negative sampling factorizes
    nearly the same matrix, step by step (Levy and Goldberg, 2014).
    """
    counts = torch.zeros(vocab_size * vocab_size)
    for offset in range(1, 5):
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


class Setting:
    """A task and the course's own pretrained encoder, which all methods share."""

    recipes, penalty = RECIPES, PENALTY

    def __init__(self, task: Task):
        self.task, self.pretrained = task, stored_encoder()
        self.config = EncoderConfig(**self.pretrained["settings"])
        tokenizer = BPETokenizer.from_str(self.pretrained["tokenizer"])
        self.corpus = tokenized_corpus(tokenizer, self.pretrained["length"])

    def encode(self, examples: Sequence[Example]) -> EncodedTexts:
        """Token ids of texts or pairs of texts, truncated to MAX_LEN."""
        tokenizer = self.corpus.tokenizer
        rows = [tokenizer.encode_pair(example.text, example.second, MAX_LEN) for example in examples]
        return EncodedTexts(*pad(rows), self.task.label_ids(examples))

    def pretrained_body(self) -> EncoderModel:
        """A new copy of the pretrained encoder."""
        return restore_pretrained(self.pretrained).model

    def features(self, examples: Sequence[Example]) -> Tensor:
        """Inputs of the linear probe (n, d)."""
        return features(self.pretrained_body(), self.encode(examples))


class MiniLMSetting(Setting):
    """A task and MiniLM (arXiv:2002.10957), from its published files in a folder. Every text is encoded once."""

    penalty = 1.0
    recipes = {  # for all 8,920 training reviews this is one epoch
        "LoRA": Recipe(1e-3, num_steps=6.0, group_by_length=True),
        "full fine-tuning": Recipe(1e-4, num_steps=6.0, group_by_length=True),
    }

    def __init__(self, task: Task, folder: Path | str):
        self.task, self.encoder = task, load_minilm(folder, MAX_LEN)
        self.config = self.encoder.model.config
        self.known: dict[Example, Tensor] = {}

    def encode(self, examples: Sequence[Example]) -> EncodedTexts:
        batch = self.encoder.tokenizer.batch([example.text for example in examples])
        return EncodedTexts(batch.token_ids, batch.attention_mask, self.task.label_ids(examples))

    def pretrained_body(self) -> EncoderModel:
        """A copy with frozen token embeddings: half of all parameters, most of them of words outside the training texts."""
        body = copy.deepcopy(self.encoder.model)
        body.embedding.token_embedding.requires_grad_(False)
        return body

    def features(self, examples: Sequence[Example]) -> Tensor:
        """Sentence embeddings u; of pairs [u, v, |u - v|, u * v], as InferSent does (arXiv:1705.02364).

        The encoder takes one text at a time and a linear layer cannot compare two, so the comparison is among the features.
        """
        if new := [example for example in dict.fromkeys(examples) if example not in self.known]:
            embeddings = self.encoder.sentence_embeddings([example.text for example in new])
            if new[0].second is not None:
                second = self.encoder.sentence_embeddings([example.second for example in new])
                embeddings = torch.cat([embeddings, second, (embeddings - second).abs(), embeddings * second], dim=1)
            self.known |= zip(new, embeddings, strict=True)
        return torch.stack([self.known[example] for example in examples])


def load_setting(task: str, minilm: Path | str | None = None) -> Setting:
    """One of the `TASKS` with the course's encoder, or with MiniLM from its folder."""
    return MiniLMSetting(TASKS[task](), minilm) if minilm else Setting(TASKS[task]())


def minilm_files(minilm: Path | str) -> list[Path]:
    return [Path(minilm) / name for name in ("config.json", "model.safetensors", "tokenizer.json")]


def data_files(*_, minilm: Path | str | None = None, **__) -> list[Path]:
    return [topics_file(), *(minilm_files(minilm) if minilm else encoder_files())]


def build_classifier(method: str, setting: Setting, seed: int) -> SequenceClassifier:
    """The model of one of the `RECIPES` before training on labels. The seed draws its new parameters."""
    dim = setting.config.dim
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if method == "from scratch":
            body = MaskedLM(setting.config)
        elif method == "word vectors + GRU":
            body = GRUEncoder(pmi_embeddings(setting.corpus.train, setting.config.vocab_size, dim), dim)
        else:
            body = setting.pretrained_body()
        if method == "LoRA":
            add_lora(body, RANK)
        return SequenceClassifier(body, dim, len(setting.task.labels))


def predict(
    method: str, setting: Setting, examples: Sequence[Example], test_examples: Sequence[Example], seed: int
) -> Tensor:
    """Train on the examples by one of the `METHODS`; returns the predicted classes (n,) of the test examples."""
    labels, num_classes = setting.task.label_ids(examples), len(setting.task.labels)
    if method == "bag of words":
        return bag_of_words(examples, labels, test_examples, num_classes)
    if method == "linear probe":
        train, test = setting.features(examples), setting.features(test_examples)
        return linear_probe(train, labels, test, num_classes, setting.penalty)
    model = build_classifier(method, setting, seed)
    fine_tune(model, setting.encode(examples), setting.recipes[method], seed)
    return predict_logits(model, setting.encode(test_examples)).argmax(-1)


def accuracy(predicted: Tensor, task: Task, examples: Sequence[Example]) -> float:
    return (predicted == task.label_ids(examples)).float().mean().item()


@cached(data_files=data_files)
def accuracies(
    task: str = "families",
    methods: Sequence[str] = METHODS,
    labels: Sequence[int | None] = LABELS_PER_CLASS,
    seeds: int = 5,
    *,
    num_test: int | None = None,
    minilm: Path | str | None = None,
) -> dict:
    """Test accuracy (methods, labels, seeds) of each method on a task, by the number of labels per class; majority.

    A seed draws the labels and the new parameters. minilm: a folder with MiniLM, in place of the course's encoder.
    """
    setting = load_setting(task, minilm)
    test = setting.task.test[:num_test]
    accuracies = torch.zeros(len(methods), len(labels), seeds)
    for row, method in enumerate(methods):
        for column, per_class in enumerate(labels):
            # With all labels, the prediction of a deterministic method is the same for every seed.
            runs = 1 if per_class is None and method in DETERMINISTIC else seeds
            for seed in range(runs):
                predicted = predict(method, setting, few(setting.task, per_class, seed), test, seed)
                accuracies[row, column, seed:] = accuracy(predicted, setting.task, test)
    return {"accuracy": accuracies, "majority": setting.task.majority()}


# Distance, linear interpolation, catastrophic forgetting


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the model's state dict."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def parameter_group(name: str) -> str | None:
    """ "embeddings", "layer 1", "layer 2", ..., "final norm" or "head"; None for the output layer, which no classifier uses."""
    if name.startswith("body.lm_head."):
        return None
    if name.startswith("head."):
        return "head"
    if "encoder.layers." in name:
        return f"layer {int(name.split('encoder.layers.')[1].split('.')[0]) + 1}"
    return "final norm" if "encoder.norm" in name else "embeddings"


def distances(start: dict[str, Tensor], end: dict[str, Tensor]) -> dict[str, tuple[float, float]]:
    """How far fine-tuning moved each group of a classifier's parameters: distance |end - start| and norm |start|.

    Relative distances would favor the pretrained model: its parameters have larger norms.
    """
    groups: dict[str, list[str]] = {}
    for name in start:
        if group := parameter_group(name):
            groups.setdefault(group, []).append(name)
    return {
        group: (
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
    part = replace(text, held_out=text.held_out[:num_windows])
    return held_out_losses(body, part, Objective("masked", len(text.tokenizer)))[0]


def disable_lora(model: nn.Module) -> None:
    """Set the scale of every `LoRALinear` to 0: what is left is the pretrained model."""
    for module in model.modules():
        if isinstance(module, LoRALinear):
            module.scale = 0.0


FRACTIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@cached(data_files=data_files)
def interpolation_and_forgetting(
    per_class: int = 16,
    seed: int = 0,
    *,
    fractions: Sequence[float] = FRACTIONS,
    num_test: int | None = None,
    num_windows: int | None = None,
) -> dict:
    """Train from the pretrained and from a random initialization with the same labels, and compare start and end.

    For "full fine-tuning" and "from scratch": distance, by parameter group; interpolation, loss and accuracy at
    `fractions`. masked_loss: that of the pretrained model, after full fine-tuning, with LoRA, and with LoRA disabled,
    which equals the first by construction (catastrophic forgetting).
    """
    setting = load_setting("families")
    train = setting.encode(few(setting.task, per_class, seed))
    test = setting.encode(setting.task.test[:num_test])
    result: dict = {"fractions": list(fractions)}
    losses = {"pretrained": masked_loss(setting.pretrained_body(), setting.corpus, num_windows)}
    for method in ("full fine-tuning", "from scratch", "LoRA"):
        model = build_classifier(method, setting, seed)
        start = snapshot(model)
        fine_tune(model, train, RECIPES[method], seed)
        if method != "from scratch":
            losses[method] = masked_loss(model.body, setting.corpus, num_windows)
        if method != "LoRA":
            end = snapshot(model)
            curve = interpolation_curve(model, start, end, fractions, train, test)
            result[method] = {"distance": distances(start, end), "interpolation": curve}
    disable_lora(model)
    losses["LoRA disabled"] = masked_loss(model.body, setting.corpus, num_windows)
    return {**result, "masked_loss": losses}


@cached(data_files=data_files)
def fine_tuning_run(
    method: str,
    per_class: int | None = 16,
    num_steps: int = 180,
    seed: int = 0,
    *,
    sgd_rate: float | None = None,
    num_test: int | None = None,
    num_windows: int | None = None,
) -> dict:
    """One classifier on the families task: what training length, number of labels and optimizer do, one at a time.

    sgd_rate: the learning rate of plain SGD; None: AdamW with the recipe of the method.
    distance: by parameter group. training_loss: after training, on the labeled texts. accuracy: on the test modules.
    masked_loss: of the body after training (catastrophic forgetting).
    """
    setting = load_setting("families")
    train = setting.encode(few(setting.task, per_class, seed))
    test = setting.encode(setting.task.test[:num_test])
    model = build_classifier(method, setting, seed)
    start = snapshot(model)
    recipe = Recipe(sgd_rate, sgd=True) if sgd_rate else RECIPES[method]
    fine_tune(model, train, recipe._replace(num_steps=num_steps / math.sqrt(len(train))), seed)
    return {
        "distance": distances(start, snapshot(model)),
        "training_loss": F.cross_entropy(predict_logits(model, train), train.labels).item(),
        "accuracy": (predict_logits(model, test).argmax(-1) == test.labels).float().mean().item(),
        "masked_loss": masked_loss(model.body, setting.corpus, num_windows),
    }

"""Training end-to-end memory networks (Sukhbaatar et al., 2015) on bAbI stories: many seeds at once, each as if alone.

The recipe is close to the authors': plain stochastic gradient descent with gradient clipping, which here is per seed. The few
hundred distinct sentences of a task occur again and again, so each is embedded once per step: a statement is the index
of its sentence, its score is gathered from the scores of all distinct sentences, and its weight is added to theirs.
`logits_and_weights` equals the forward pass of the model at a fraction of the cost.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.data.babi import Question, parse, published_files, read_babi, words
from utils.data.stories import TASKS, story_text
from utils.data.story_tensors import MAX_MEMORIES, Stories, StoryVocabulary, as_tensors, train_and_test
from utils.models.memory import MemoryNetwork, bag_of_words
from utils.training.cache import cached
from utils.training.seeds import seed_list

NUM_QUESTIONS, TRAINING_SEED, TEST_SEED = 1000, 0, 1  # the seeds are those of the story generator
BATCH_SIZE, MAX_NORM = 32, 40.0
EPOCHS, LEARNING_RATE, HALVING_EPOCHS = 100, 0.01, 25
LINEAR_EPOCHS, LINEAR_FACTOR = 20, 0.5  # of the learning rate
NOISE = 0.1  # empty memories, as a fraction of a story's statements

# With a linear start four networks in ten never learn task 15; without it all but one in ten do.
NO_LINEAR_START = (15,)


# Distinct sentences


@dataclass
class DistinctSentences:
    """The u distinct sentences of b questions with n memories each.

    counts (u, vocab_size) or, with position encoding, (u, 2 * vocab_size): `bag_of_words` of each sentence, flattened;
    story (b, n) and question (b,): indices of sentences.
    """

    counts: Tensor
    story: Tensor
    question: Tensor


def distinct_sentences(stories: Stories, model: MemoryNetwork) -> DistinctSentences:
    sentences = torch.cat([stories.story.flatten(0, 1), stories.question])
    index = torch.zeros(len(sentences), dtype=torch.long)
    # The same prefix and the same next token give the same index: faster than `unique(dim=0)`.
    for token_ids in sentences.unbind(1):
        index = (index * (model.vocab_size + 1) + token_ids + 1).unique(return_inverse=True)[1]
    distinct = sentences.new_empty(index.max() + 1, sentences.size(1))
    distinct[index] = sentences
    counts = bag_of_words(distinct, model.vocab_size).to(model.embeddings.dtype)
    counts = counts.flatten(1) if model.position_encoding else counts[:, 0]
    num_statements = stories.mask.numel()
    return DistinctSentences(counts, index[:num_statements].view_as(stories.mask), index[num_statements:])


def memory_index(story: Tensor, age: Tensor, model: MemoryNetwork, num_sentences: int) -> Tensor:
    """Indices (..., 2 * n) of each statement's two embeddings: its sentence (..., n), and its age, after the sentences."""
    if not model.temporal:
        return story
    return torch.cat([story, num_sentences + age.clamp_max(model.memory_size - 1)], -1)


def logits_and_weights(
    model: MemoryNetwork, counts: Tensor, index: Tensor, question: Tensor, mask: Tensor | None, linear: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Logits (s, b, vocab_size) and the attention weights (s, b, n) of each hop, as `model.forward` computes them.

    index (s, b, 2 * n) from `memory_index`, question (s, b); mask (s, b, n) from `score_mask`.
    """
    adjacent, embeddings = model.tying == "adjacent", model.embeddings
    if model.position_encoding:
        embeddings = torch.cat([embeddings, embeddings * model.component_weights], -2)
    sentences = counts @ embeddings  # (s, embedding matrices, u, d)
    memories = sentences
    if model.temporal:
        memories = torch.cat([sentences[:, : model.num_memories], model.temporal_embeddings], 2)
    memories = memories.unbind(1)
    state = sentences[:, model.question_index].gather(1, question.unsqueeze(-1).expand(-1, -1, model.dim))
    attention_weights = []
    for hop in range(model.num_hops):
        key, value = memories[hop : hop + 2] if adjacent else memories[:2]
        scores = (state @ key.transpose(1, 2)).gather(2, index)
        if model.temporal:
            scores = torch.add(*scores.chunk(2, -1))
        if linear:
            weights = scores if mask is None else scores * mask
        else:
            weights = (scores if mask is None else scores + mask).softmax(-1)
        both = torch.cat([weights, weights], -1) if model.temporal else weights
        per_sentence = both.new_zeros(*index.shape[:2], key.size(1)).scatter_add(2, index, both)
        if model.hop_proj is not None:
            state = state @ model.hop_proj
        state = torch.baddbmm(state, per_sentence, value)
        attention_weights.append(weights)
    return state @ model.embeddings[:, model.output_index].transpose(1, 2), attention_weights


def score_mask(mask: Tensor, linear: bool) -> Tensor | None:
    """A bool mask as factors of linear scores, or as terms added to the scores before a softmax; None if all True."""
    if mask.all():
        return None
    return mask.float() if linear else torch.zeros(mask.shape).masked_fill(~mask, -math.inf)


# Training


def random_noise(age: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
    """Random noise (RN; Sukhbaatar et al., 2015): the ages (b, n) with up to 10 % empty memories inserted at random.

    An empty memory has no words; its only effect is that all earlier statements become older.
    """
    count = mask.sum(1, keepdim=True)
    max_empty = math.ceil(NOISE * age.size(1))
    num_empty = (torch.rand(len(age), 1, generator=generator) * ((NOISE * count).ceil() + 1)).floor()
    position = (torch.rand(len(age), max_empty, generator=generator) * (count + 1)).floor()
    position = position.masked_fill(torch.arange(max_empty) >= num_empty, math.inf)
    return age + (position.unsqueeze(1) <= age.unsqueeze(2)).sum(2)


def train(
    model: MemoryNetwork,
    stories: Stories,
    seeds: Sequence[int],
    linear_start: bool = True,
    noise: bool = True,
    epochs: int = EPOCHS,
    batch_size: int = BATCH_SIZE,
    optimizer: str = "sgd",
    learning_rate: float = LEARNING_RATE,
) -> Tensor:
    """Train all seeds at once, in place, with optimizer "sgd" or "adam". Returns the mean training loss (epochs, s).

    Each seed has a random generator of its own, for the order of its questions and its noise. The last questions of an
    epoch that fill no batch are dropped.
    """
    sentences = distinct_sentences(stories, model)
    generators = [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]
    parameters = [parameter for parameter in model.parameters() if parameter.numel()]
    step = Adam(parameters) if optimizer == "adam" else sgd_step
    losses = []
    for linear, rate in schedule(linear_start, epochs, learning_rate):
        losses.append(torch.zeros(len(seeds)))
        for index, question, mask, answer in _batches(model, stories, sentences, generators, linear, noise, batch_size):
            logits, _ = logits_and_weights(model, sentences.counts, index, question, mask, linear)
            loss = F.cross_entropy(logits.flatten(0, 1), answer, reduction="none").view(-1, batch_size).sum(1)
            # The sum over seeds leaves each seed its own gradient.
            step(parameters, torch.autograd.grad(loss.sum(), parameters), rate)
            losses[-1] += loss.detach()
    return torch.stack(losses) / (len(stories) // batch_size * batch_size)


def schedule(linear_start: bool, epochs: int, learning_rate: float = LEARNING_RATE) -> list[tuple[bool, float]]:
    """For each epoch, whether the hops are linear, and the learning rate. The linear epochs come first."""
    softmax = [(False, learning_rate * 0.5 ** (epoch // HALVING_EPOCHS)) for epoch in range(epochs)]
    return [(True, LINEAR_FACTOR * learning_rate)] * (LINEAR_EPOCHS if linear_start else 0) + softmax


def _batches(model, stories, sentences, generators, linear, noise, batch_size):
    """One epoch: index, question, mask and answer of each batch, for `logits_and_weights` and the loss."""
    steps = len(stories) // batch_size
    orders = [torch.randperm(len(stories), generator=generator)[: steps * batch_size] for generator in generators]
    ages = [random_noise(stories.age, stories.mask, generator) if noise else stories.age for generator in generators]
    # Gathered once for all steps: (steps, s, batch_size, ...)
    order = torch.stack(orders).view(-1, steps, batch_size).transpose(0, 1)
    age = torch.stack([own_age[own_order] for own_age, own_order in zip(ages, orders, strict=True)])
    age = age.view(len(generators), steps, batch_size, -1).transpose(0, 1)
    index = memory_index(sentences.story[order], age, model, len(sentences.counts))
    mask = score_mask(stories.mask, linear)
    mask = [None] * steps if mask is None else mask[order]
    return zip(index, sentences.question[order], mask, stories.answer[order].flatten(1), strict=True)


@torch.no_grad()
def sgd_step(parameters: list[Tensor], gradients: Sequence[Tensor], learning_rate: float) -> None:
    """Gradient descent with the gradient norm of each seed clipped to `MAX_NORM` on its own."""
    norms = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
    norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
    step = -learning_rate * (MAX_NORM / norm.clamp_min(MAX_NORM))
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.addcmul_(gradient, step.view(-1, *[1] * (gradient.dim() - 1)))


class Adam(torch.optim.Adam):
    """Adam, called like `sgd_step`. It treats each number on its own, so the seeds stay independent without clipping."""

    def __call__(self, parameters: list[Tensor], gradients: Sequence[Tensor], learning_rate: float) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        self.param_groups[0]["lr"] = learning_rate
        self.step()


@torch.no_grad()
def predict(model: MemoryNetwork, stories: Stories) -> tuple[Tensor, Tensor]:
    """The predicted answers (s, b) of every seed and the attention weights (s, b, num_hops, n)."""
    sentences = distinct_sentences(stories, model)
    index = memory_index(sentences.story, stories.age, model, len(sentences.counts))
    inputs = index, sentences.question, score_mask(stories.mask, linear=False)
    shared = [None if tensor is None else tensor.expand(len(model.embeddings), *tensor.shape) for tensor in inputs]
    logits, weights = logits_and_weights(model, sentences.counts, *shared)
    return logits.argmax(-1), torch.stack(weights, 2)


def fact_agreement(weights: Tensor, stories: Stories, num_facts: Tensor) -> Tensor:
    """Per seed (s,), the fraction of questions whose supporting facts each get the largest weight of some hop.

    weights (s, b, num_hops, n); num_facts (b,): all facts of a question, also those that no longer fit the memory.
    """
    top = torch.zeros(weights.shape[:2] + weights.shape[3:], dtype=torch.bool).scatter(2, weights.argmax(-1), True)
    return ((top & stories.fact).sum(-1) == num_facts).float().mean(1)


# Tasks


def task_questions(task: int, folder: Path | str | None = None) -> tuple[list[Question], list[Question]]:
    """Training and test questions of a task, generated, or from the published files in `folder`.

    No generated test question has a story of a training question.
    """
    if folder is not None:
        training, test = published_files(folder, task)
        return read_babi(training), read_babi(test)
    if task not in TASKS:
        raise ValueError(
            f"expected one of the tasks {', '.join(map(str, TASKS))}, got {task!r}; the others need the published files"
        )
    training = parse(story_text(task, NUM_QUESTIONS, TRAINING_SEED))[:NUM_QUESTIONS]
    training_stories = {item.story for item in training}
    candidates = parse(story_text(task, 2 * NUM_QUESTIONS, TEST_SEED))
    return training, [item for item in candidates if item.story not in training_stories][:NUM_QUESTIONS]


@cached(data_files=lambda task, *_, folder, **__: () if folder is None else published_files(folder, task))
def train_task(
    task: int,
    seeds: int | Sequence[int] = 1,
    *,
    num_hops: int = 3,
    position_encoding: bool = True,
    temporal: bool = True,
    tying: str = "adjacent",
    linear_start: bool | None = None,
    noise: bool = True,
    epochs: int = EPOCHS,
    optimizer: str = "sgd",
    learning_rate: float = LEARNING_RATE,
    folder: Path | str | None = None,
) -> dict:
    """Train a network for each of s seeds on one task and evaluate them on held-out questions.

    linear_start: None is the better one for the task. Returns error, training_error and agreement with the supporting
    facts (s,), loss (epochs, s); `best`, the index of the seed with the smallest training loss; `facts_cut`,
    the fraction of test facts older than the memory; seconds of training; and what `restore` needs.
    """
    seeds = seed_list(seeds)
    linear_start = task not in NO_LINEAR_START if linear_start is None else linear_start
    questions = task_questions(task, folder)
    training, test, vocabulary = train_and_test(*questions)
    settings = {
        "vocab_size": len(vocabulary),
        "num_hops": num_hops,
        "memory_size": math.ceil((1 + NOISE) * max(training.story.size(1), test.story.size(1))),
        "position_encoding": position_encoding,
        "temporal": temporal,
        "tying": tying,
    }
    model = MemoryNetwork(**settings, seeds=seeds)
    start = time.perf_counter()
    loss = train(model, training, seeds, linear_start, noise, epochs, BATCH_SIZE, optimizer, learning_rate)
    seconds = time.perf_counter() - start
    predictions, weights = predict(model, test)
    num_facts = torch.tensor([len(set(item.facts)) for item in questions[1]])
    return {
        "task": task,
        "seeds": seeds,
        "error": (predictions != test.answer).float().mean(1),
        "training_error": (predict(model, training)[0] != training.answer).float().mean(1),
        "agreement": fact_agreement(weights, test, num_facts),
        "loss": loss,
        "best": int(loss[-1].argmin()),
        "facts_cut": test.cut,
        "seconds": seconds,
        "settings": settings,
        "words": vocabulary.words,
        "max_len": training.story.size(2),
        "state": {name: value.detach() for name, value in model.state_dict().items()},
    }


@dataclass
class Trained:
    """The networks of `train_task` with their vocabulary, for new stories."""

    model: MemoryNetwork
    vocabulary: StoryVocabulary
    max_len: int

    def tensors(self, questions: list[Question]) -> Stories:
        """New questions as tensors; an out-of-vocabulary word or too long a sentence raises ValueError."""
        for text in {text for item in questions for text in (*item.story, item.question)}:
            if len(words(text)) > self.max_len:
                raise ValueError(f"expected sentences of at most {self.max_len} words, got {text!r}")
        return as_tensors(questions, self.vocabulary, MAX_MEMORIES, self.max_len)

    def answer(self, questions: list[Question]) -> tuple[list[list[str]], Tensor]:
        """The answers of each seed as words, and the attention weights (s, b, num_hops, n)."""
        predictions, weights = predict(self.model, self.tensors(questions))
        return [self.vocabulary.decode(row) for row in predictions.tolist()], weights


def restore(result: dict) -> Trained:
    """The networks of a result of `train_task`, all seeds."""
    model = MemoryNetwork(**result["settings"], seeds=result["seeds"])
    model.load_state_dict(result["state"])
    return Trained(model, StoryVocabulary(result["words"]), result["max_len"])

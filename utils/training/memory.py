"""Training memory networks on stories: many seeds at once, each exactly as if it were alone.

The model reads every word of every statement. In training the same few hundred sentences come back all the time, so here
each distinct sentence is read once per step, and a statement is a number: its score is looked up among the scores of all
distinct sentences, and its weight is added to theirs. `logits_and_weights` gives what the model gives (a test holds them
together) at a fraction of the cost.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.data.babi import BabiError, Question, parse, published_file, read_babi, words
from utils.data.stories import TASKS, story_text
from utils.data.story_tensors import MAX_MEMORIES, Stories, StoryVocabulary, as_tensors
from utils.models.memory import MemoryNetwork, bag_of_words
from utils.training.cache import cached

QUESTIONS, TRAINING_STORIES, TEST_STORIES = 1000, 0, 1  # the last two are seeds of the story generator
BATCH, LARGEST_GRADIENT = 32, 40.0
EPOCHS, HALVED_EVERY, RATE = 100, 25, 0.01
LINEAR_EPOCHS, LINEAR_RATE = 20, 0.005
NOISE = 0.1  # blank memories, as a share of a story's statements
SHOWN = 50  # test questions whose weights are returned


@dataclass(frozen=True)
class Recipe:
    """What a task is trained with if nothing else is said: the recipe of the original, unless a task fares better."""

    linear_start: bool = True
    noise: bool = True
    epochs: int = EPOCHS


# With a linear start four networks of ten never learn task 15, without it all but one in ten do.
RECIPES: dict[int, Recipe] = {15: Recipe(linear_start=False)}


# Stories by number


@dataclass
class Numbered:
    """Stories in which each distinct sentence is a number. u sentences, b questions, n memories.

    counts (u, words) or, with positions, (u, 2 * words): what `bag_of_words` gives, concatenated; story (b, n) and
    question (b,) hold numbers of sentences.
    """

    counts: Tensor
    story: Tensor
    question: Tensor


def numbered(stories: Stories, model: MemoryNetwork) -> Numbered:
    sentences = torch.cat([stories.story.flatten(0, 1), stories.question])
    number = torch.zeros(len(sentences), dtype=torch.long)
    # The same beginning and the same next word give the same number; `unique(dim=0)` would do it too, but slowly.
    for word in sentences.unbind(1):
        number = (number * (model.vocab_size + 1) + word + 1).unique(return_inverse=True)[1]
    distinct = sentences.new_empty(number.max() + 1, sentences.size(1))
    distinct[number] = sentences
    counts = bag_of_words(distinct, model.vocab_size).to(model.embeddings.dtype)
    counts = counts.flatten(1) if model.position_encoding else counts[:, 0]
    told = stories.mask.numel()
    return Numbered(counts, number[:told].view_as(stories.mask), number[told:])


def places(story: Tensor, age: Tensor, model: MemoryNetwork, sentences: int) -> Tensor:
    """Where each statement's two vectors lie, its sentence (..., n) and behind all sentences its age: (..., 2 * n)."""
    if not model.temporal:
        return story
    return torch.cat([story, sentences + age.clamp_max(model.memory_size - 1)], -1)


def logits_and_weights(
    model: MemoryNetwork, counts: Tensor, place: Tensor, question: Tensor, mask: Tensor | None, linear: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Logits (s, b, words) and the weights (s, b, n) of each hop, as `model.forward` computes them.

    place (s, b, 2 * n) from `places`, question (s, b); mask (s, b, n) from `as_mask`, None if every memory is filled.
    """
    adjacent, tables = model.tying == "adjacent", model.embeddings
    if model.position_encoding:
        tables = torch.cat([tables, tables * model.component_weights], -2)
    read = counts @ tables  # (s, tables, u, d)
    vectors = torch.cat([read[:, : model.num_memories], model.temporal_embeddings], 2) if model.temporal else read
    vectors = vectors.unbind(1)
    state = read[:, model.question_index].gather(1, question.unsqueeze(-1).expand(-1, -1, model.dim))
    weights = []
    for hop in range(model.num_hops):
        key, value = vectors[hop : hop + 2] if adjacent else vectors[:2]
        scores = (state @ key.transpose(1, 2)).gather(2, place)
        if model.temporal:
            of_sentence, of_age = scores.chunk(2, -1)
            scores = of_sentence + of_age
        if linear:
            looked = scores if mask is None else scores * mask
        else:
            looked = (scores if mask is None else scores + mask).softmax(-1)
        twice = torch.cat([looked, looked], -1) if model.temporal else looked
        by_sentence = twice.new_zeros(*place.shape[:2], key.size(1)).scatter_add(2, place, twice)
        if model.hop_proj is not None:
            state = state @ model.hop_proj
        state = torch.baddbmm(state, by_sentence, value)
        weights.append(looked)
    return state @ model.embeddings[:, model.output_index].transpose(1, 2), weights


def as_mask(mask: Tensor, linear: bool) -> Tensor | None:
    """A bool mask as `logits_and_weights` wants it: scores are multiplied with it (linear) or it is added to them."""
    if mask.all():
        return None
    return mask.float() if linear else torch.zeros(mask.shape).masked_fill(~mask, -math.inf)


# Training


def blank_between(age: Tensor, mask: Tensor, generator: torch.Generator, share: float = NOISE) -> Tensor:
    """The ages (b, n) as they would be if up to a tenth of blank memories stood at random places between the others.

    A blank memory has no words, so only its place in the count of time is kept: all older statements seem older.
    """
    most = math.ceil(share * age.size(1))
    count = mask.sum(1, keepdim=True)
    drawn = (torch.rand(len(age), 1, generator=generator) * ((share * count).ceil() + 1)).floor()
    gap = (torch.rand(len(age), most, generator=generator) * (count + 1)).floor()
    gap = gap.masked_fill(torch.arange(most) >= drawn, math.inf)
    return age + (gap.unsqueeze(1) <= age.unsqueeze(2)).sum(2)


def train(
    model: MemoryNetwork,
    stories: Stories,
    seeds: Sequence[int],
    linear_start: bool = True,
    noise: bool = True,
    epochs: int = EPOCHS,
    batch: int = BATCH,
) -> Tensor:
    """Plain gradient descent on all seeds at once, in place. Returns the mean training loss (epochs, s).

    Each seed has a random generator of its own, for its order of questions and its blanks. What is left of an epoch after
    whole batches waits for another epoch's order.
    """
    by_number = numbered(stories, model)
    generators = [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]
    plan = rates(linear_start, epochs)
    losses = [_epoch(model, stories, by_number, generators, linear, rate, noise, batch) for linear, rate in plan]
    return torch.stack(losses)


def rates(linear_start: bool, epochs: int) -> list[tuple[bool, float]]:
    """For every epoch, whether the hops are linear, and the learning rate. The linear ones come before the others."""
    soft = [(False, RATE * 0.5 ** (epoch // HALVED_EVERY)) for epoch in range(epochs)]
    return [(True, LINEAR_RATE)] * (LINEAR_EPOCHS if linear_start else 0) + soft


def _epoch(model, stories, by_number, generators, linear, rate, noise, batch) -> Tensor:
    parameters = [parameter for parameter in model.parameters() if parameter.numel()]
    steps = len(stories) // batch
    orders = [torch.randperm(len(stories), generator=one)[: steps * batch] for one in generators]
    ages = [blank_between(stories.age, stories.mask, one) if noise else stories.age for one in generators]
    # Everything a step needs, gathered once: (steps, s, batch, ...)
    order = torch.stack(orders).view(-1, steps, batch).transpose(0, 1)
    age = torch.stack([one[chosen] for one, chosen in zip(ages, orders, strict=True)])
    age = age.view(len(generators), steps, batch, -1).transpose(0, 1)
    place = places(by_number.story[order], age, model, len(by_number.counts))
    question, answer = by_number.question[order], stories.answer[order].flatten(1)
    mask = as_mask(stories.mask, linear)
    mask = [None] * steps if mask is None else mask[order]
    total = torch.zeros(len(generators))
    for step in range(steps):
        logits, _ = logits_and_weights(model, by_number.counts, place[step], question[step], mask[step], linear)
        losses = F.cross_entropy(logits.flatten(0, 1), answer[step], reduction="none").view(-1, batch).sum(1)
        # Summed over seeds: the gradient of each seed is then its own.
        descend(parameters, torch.autograd.grad(losses.sum(), parameters), rate)
        total += losses.detach()
    return total / (steps * batch)


@torch.no_grad()
def descend(parameters: list[Tensor], gradients: Sequence[Tensor], rate: float) -> None:
    """One step; the gradient of each seed is shortened to at most `LARGEST_GRADIENT`, whatever the others do."""
    lengths = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
    length = torch.linalg.vector_norm(torch.stack(lengths), dim=0)
    step = -rate * (LARGEST_GRADIENT / length.clamp_min(LARGEST_GRADIENT))
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.addcmul_(gradient, step.view(-1, *[1] * (gradient.dim() - 1)))


@torch.no_grad()
def answers(model: MemoryNetwork, stories: Stories) -> tuple[Tensor, Tensor]:
    """The answers (s, b) of every seed and the weights of its hops (s, b, hops, n)."""
    seeds, by_number = len(model.embeddings), numbered(stories, model)

    def for_all(tensor):
        return None if tensor is None else tensor.expand(seeds, *tensor.shape)

    place = places(by_number.story, stories.age, model, len(by_number.counts))
    mask = as_mask(stories.mask, linear=False)
    logits, weights = logits_and_weights(
        model, by_number.counts, for_all(place), for_all(by_number.question), for_all(mask)
    )
    return logits.argmax(-1), torch.stack(weights, 2)


def fact_agreement(weights: Tensor, stories: Stories, facts: Tensor) -> Tensor:
    """Per seed (s,), the share of questions whose supporting facts are each the top statement of some hop.

    weights (s, b, hops, n); facts (b,): how many facts a question has, those that no longer fit the memory included.
    """
    top = torch.zeros(weights.shape[:2] + weights.shape[3:], dtype=torch.bool).scatter(2, weights.argmax(-1), True)
    return ((top & stories.fact).sum(-1) == facts).float().mean(1)


# One task, from stories to a table row


def real_files(folder: Path | str, task: int) -> tuple[Path, Path]:
    """The published training and test file of a task; tells what is missing."""
    folder = Path(folder).resolve()
    if not folder.is_dir():
        raise BabiError(f"{folder}: there is no such folder; unpack the published files there, or leave the folder out")
    found = [published_file(folder, task, part) for part in ("train", "test")]
    for path, part in zip(found, ("train", "test"), strict=True):
        if path is None:
            raise BabiError(f"{folder}: expected a file qa{task}_..._{part}.txt; there is none")
    return tuple(found)


def task_questions(task: int, folder: Path | str | None = None) -> tuple[list[Question], list[Question]]:
    """Training and test questions of a task, generated, or from the published files in `folder`.

    No generated test question has a story that training has, not even the short one before a first question.
    """
    if folder is not None:
        training, test = real_files(folder, task)
        return read_babi(training), read_babi(test)
    if task not in TASKS:
        raise ValueError(
            f"expected one of the tasks {', '.join(map(str, TASKS))}, got {task!r}; the others need the published files"
        )
    training = parse(story_text(task, QUESTIONS, TRAINING_STORIES))[:QUESTIONS]
    seen = {one.story for one in training}
    test = [one for one in parse(story_text(task, 2 * QUESTIONS, TEST_STORIES)) if one.story not in seen]
    return training, test[:QUESTIONS]


@cached(data_files=lambda task, *_, folder, **__: () if folder is None else real_files(folder, task))
def train_task(
    task: int,
    seeds: int | Sequence[int] = 1,
    *,
    hops: int = 3,
    positions: bool = True,
    temporal: bool = True,
    tying: str = "adjacent",
    linear_start: bool | None = None,
    noise: bool | None = None,
    epochs: int | None = None,
    folder: Path | str | None = None,
) -> dict:
    """Train networks on one task and score them on held-out questions. `None` means what `RECIPES` says.

    Returns for each seed: error on the test questions (s,), training_error (s,), agreement with the supporting facts (s,),
    loss (epochs, s); `best`, the place in `seeds` of the smallest training loss; weights (questions, hops, n) of the first seed
    for the first test questions; `cut`, the share of facts older than the memory, in training and test; seconds of
    training; and what `restore` needs: settings, words, longest, parameters.
    """
    recipe = RECIPES.get(task, Recipe())
    linear_start = recipe.linear_start if linear_start is None else linear_start
    noise = recipe.noise if noise is None else noise
    epochs = recipe.epochs if epochs is None else epochs
    seeds = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    questions = task_questions(task, folder)
    vocabulary = StoryVocabulary.build(questions[0] + questions[1])
    longest = max(len(words(text)) for part in questions for one in part for text in (*one.story, one.question))
    training, test = (as_tensors(part, vocabulary, max_len=longest) for part in questions)
    size = max(training.story.size(1), test.story.size(1))
    settings = {
        "vocab_size": len(vocabulary),
        "num_hops": hops,
        "memory_size": math.ceil((1 + NOISE) * size),
        "position_encoding": positions,
        "temporal": temporal,
        "tying": tying,
    }
    model = MemoryNetwork(**settings, seeds=seeds)
    start = time.perf_counter()
    loss = train(model, training, seeds, linear_start, noise, epochs)
    seconds = time.perf_counter() - start
    given, weights = answers(model, test)
    facts = torch.tensor([len(set(one.facts)) for one in questions[1]])
    return {
        "task": task,
        "seeds": seeds,
        "error": (given != test.answer).float().mean(1),
        "training_error": (answers(model, training)[0] != training.answer).float().mean(1),
        "agreement": fact_agreement(weights, test, facts),
        "loss": loss,
        "best": int(loss[-1].argmin()),
        "weights": weights[0, :SHOWN],
        "cut": (training.cut, test.cut),
        "seconds": seconds,
        "settings": settings,
        "words": vocabulary.words,
        "longest": longest,
        "parameters": {name: value.detach() for name, value in model.named_parameters()},
    }


@dataclass
class Trained:
    """Networks that `train_task` trained, ready for new stories."""

    model: MemoryNetwork
    vocabulary: StoryVocabulary
    longest: int

    def tensors(self, questions: list[Question]) -> Stories:
        """New questions as the networks read them; an unknown word or too long a sentence raises ValueError."""
        for text in {text for one in questions for text in (*one.story, one.question)}:
            if len(words(text)) > self.longest:
                raise ValueError(f"expected sentences of at most {self.longest} words, got {text!r}")
        return as_tensors(questions, self.vocabulary, MAX_MEMORIES, self.longest)

    def answer(self, questions: list[Question]) -> tuple[list[list[str]], Tensor]:
        """The answers of each seed, in words, and the weights (s, b, hops, n)."""
        given, weights = answers(self.model, self.tensors(questions))
        return [self.vocabulary.decode(row) for row in given.tolist()], weights


def restore(result: dict) -> Trained:
    """The networks of a result of `train_task`, all seeds."""
    model = MemoryNetwork(**result["settings"], seeds=result["seeds"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(result["parameters"][name])
    return Trained(model, StoryVocabulary(result["words"]), result["longest"])

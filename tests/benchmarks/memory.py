"""The memory network at full size: every row of lesson 02's table, and what training all seeds at once saves."""

import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.data.story_tensors import Stories, Vocabulary, as_tensors
from utils.models.memory import MemoryNetwork
from utils.training.memory import (
    BATCH,
    EPOCHS,
    LARGEST_GRADIENT,
    NOISE,
    blank_between,
    numbered,
    rates,
    task_questions,
    train,
    train_task,
)

SEEDS = 10
SOLVED = {1: 0.01, 2: 0.12, 3: 0.45, 15: 0.01, 16: 0.02}  # the error that counts as success

# name of the row, task, what differs from the recipe of the task
ROWS: tuple[tuple[str, int, dict], ...] = (
    *(("3 hops", task, {}) for task in (1, 2, 3, 15, 16)),
    *((f"{hops} hop{'s' * (hops > 1)}", task, {"hops": hops}) for task in (2, 15, 16) for hops in (1, 2)),
    ("bag of words", 15, {"positions": False}),
    *(("no temporal encoding", task, {"temporal": False}) for task in (1, 2, 3, 15, 16)),
    ("no linear start", 16, {"linear_start": False}),
    ("no linear start", 2, {"linear_start": False}),
    ("linear start", 15, {"linear_start": True}),
    ("no blank memories", 2, {"noise": False}),
    ("layer-wise tying", 2, {"tying": "layer-wise"}),
    ("layer-wise tying", 15, {"tying": "layer-wise"}),
    ("layer-wise tying", 16, {"tying": "layer-wise"}),
)


def summary(result: dict, solved: float) -> dict:
    """What a table says of a result of `train_task`: per cent, one number per seed and the few that sum them up."""
    error, agreement = (100 * result[name] for name in ("error", "agreement"))
    return {
        "errors": [round(one, 1) for one in error.tolist()],
        "median": round(error.quantile(0.5).item(), 1),
        "mean": round(error.mean().item(), 1),
        "best_by_training_loss": round(error[result["best"]].item(), 1),
        "solved": sum(one <= solved for one in result["error"].tolist()),
        "training_errors": [round(100 * one, 1) for one in result["training_error"].tolist()],
        "agreement": [round(one, 1) for one in agreement.tolist()],
        "agreement_median": round(agreement.quantile(0.5).item(), 1),
        "facts_cut": round(100 * result["cut"][1], 2),
        "seconds": round(result["seconds"], 1),
    }


def memory_table(seeds: int = SEEDS, rows=ROWS, epochs: int | None = None) -> list[dict]:
    """Test error in per cent of every row, generated stories, 1,000 training and 1,000 test questions."""
    table = []
    for name, task, changes in rows:
        result = train_task.__wrapped__(task, seeds, **{"epochs": epochs} | changes)
        table.append({"row": name, "task": task, "seeds": seeds, **summary(result, SOLVED[task])})
    return table


# Ten seeds together against one in the fastest plain loop


def plain_loop(stories: Stories, words: int, memory: int, seed: int, linear_start: bool, epochs: int):
    """One network of three hops without a seed axis: the fastest loop that was found for one seed.

    Each distinct sentence is read once per step here too; what is looked up is a whole vector, which for one seed is less
    work than looking up scores. Returns the tables (words, d) of each hop side by side, and the losses of the epochs.
    """
    model = MemoryNetwork(words, memory=memory, seeds=[seed])
    by_number = numbered(stories, model)
    hops, dim = model.hops, model.dim
    tables, ages = (drawn[0].transpose(0, 1).flatten(1).detach().clone() for drawn in (model.tables, model.ages))
    parameters = [tables.requires_grad_(), ages.requires_grad_()]
    slope = model.slope.repeat(hops + 1)
    generator = torch.Generator().manual_seed(10_000 + seed)
    closed = None if stories.mask.all() else torch.zeros(stories.mask.shape).masked_fill(~stories.mask, -math.inf)
    steps, losses = len(stories) // BATCH, []
    for linear, rate in rates(linear_start, epochs):
        order = torch.randperm(len(stories), generator=generator)[: steps * BATCH]
        age = blank_between(stories.age, stories.mask, generator)
        story, age, asked, answer = (
            part[order].split(BATCH) for part in (by_number.story, age, by_number.question, stories.answer)
        )
        shut = [None] * steps if closed is None else closed[order].split(BATCH)
        total = 0.0
        for step in range(steps):
            read = by_number.counts @ torch.cat([tables, tables * slope])
            memories = F.embedding(story[step], read) + F.embedding(age[step], ages)
            memories = memories.unflatten(2, (hops + 1, dim)).unbind(2)
            state = F.embedding(asked[step], read[:, :dim])
            for hop in range(hops):
                weights = (memories[hop] @ state.unsqueeze(-1)).squeeze(-1)
                if not linear:
                    weights = (weights if shut[step] is None else weights + shut[step]).softmax(-1)
                elif shut[step] is not None:
                    weights = weights * shut[step].exp()
                state = state + (weights.unsqueeze(1) @ memories[hop + 1]).squeeze(1)
            loss = F.cross_entropy(state @ tables[:, -dim:].T, answer[step], reduction="sum")
            _descend(parameters, torch.autograd.grad(loss, parameters), rate)
            total += loss.item()
        losses.append(total / (steps * BATCH))
    return tables.detach(), losses


@torch.no_grad()
def _descend(parameters: list[Tensor], gradients: tuple[Tensor, ...], rate: float) -> None:
    length = math.hypot(*(gradient.norm().item() for gradient in gradients))
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.sub_(gradient, alpha=rate * min(1.0, LARGEST_GRADIENT / max(length, 1e-12)))


def memory_seeds_at_once(
    seeds: int = SEEDS, task: int = 16, epochs: int = EPOCHS, linear_start: bool = True, rounds: int = 3
) -> dict:
    """Seconds of training `seeds` seeds together and of one alone in the plain loop, in turns: medians over the rounds."""
    questions, _ = task_questions(task)
    vocabulary = Vocabulary.of(questions)
    stories = as_tensors(questions, vocabulary)
    memory = math.ceil((1 + NOISE) * stories.story.size(1))
    alone, together = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        tables, _ = plain_loop(stories, len(vocabulary), memory, 0, linear_start, epochs)
        alone.append(time.perf_counter() - start)
        model = MemoryNetwork(len(vocabulary), memory=memory, seeds=seeds)
        start = time.perf_counter()
        train(model, stories, range(seeds), linear_start, True, epochs)
        together.append(time.perf_counter() - start)
    gap = (model.tables[0].transpose(0, 1).flatten(1) - tables).abs().max().item()
    ratios = [both / one for both, one in zip(together, alone, strict=True)]
    return {
        "task": task,
        "seeds": seeds,
        "rounds": rounds,
        "one_alone_seconds": round(statistics.median(alone), 1),
        "together_seconds": round(statistics.median(together), 1),
        "ratio": round(statistics.median(ratios), 2),
        "largest_difference": gap,
    }

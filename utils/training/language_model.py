"""A small causal language model on the manual's own text, character by character, beside what counting gives.

All positions of a piece of text are predicted in one pass: the causal mask makes every prefix a training example of its own.
`one_position_at_a_time_factor` measures what that is worth.
"""

import math
import statistics
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.data.offensive import inoffensive
from utils.data.real_text import CharTokenizer, split_documents, topics, topics_file, windows
from utils.models.self_attention import LanguageModel
from utils.training.cache import cached
from utils.training.ngrams import ngram_losses
from utils.training.trainer import linear_warmup_linear_decay, train

CONTEXT = 64
BETWEEN = "\n\n\n"  # between two documents of the training text
RARE = 5  # characters that the training text has fewer times count as unknown
WARM_UP = 50


@dataclass
class Text:
    """The manual as numbers. training (n,) all documents in a row; held_out (pieces, context + 1); characters."""

    training: Tensor
    held_out: Tensor
    characters: CharTokenizer


def read_text(context: int = CONTEXT) -> Text:
    training, held_out = split_documents(topics())
    characters = CharTokenizer.build(training, min_frequency=RARE)
    return Text(
        characters.encode(BETWEEN.join(training)),
        windows([characters.encode(document) for document in held_out], context),
        characters,
    )


# Training


def losses_of(model: LanguageModel, pieces: Tensor) -> Tensor:
    """Surprise in nats at each token but the first: pieces (b, n + 1) to (b, n)."""
    logits, _ = model(pieces[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten(), reduction="none").view(len(pieces), -1)


@cached(data_files=lambda *_, **__: [topics_file()])
def train_language_model(
    seed: int = 0,
    *,
    steps: int = 750,
    dim: int = 96,
    blocks: int = 2,
    context: int = CONTEXT,
    batch: int = 12,
    rate: float = 6e-3,
    positions: str = "sinusoidal",
) -> dict:
    """Train on the manual's topics and score on held-out ones, in nats per character.

    Returns loss, the training loss (steps,); held_out and perplexity; by_position (context,), the held-out loss of the
    character after 1, 2, ... characters of context; counts, the loss of unigrams, bigrams and trigrams (1, 2, 3) on the same characters; the
    sizes of the two texts in characters; parameters; and what `restore_language_model` needs: settings, characters, state.
    """
    text = read_text(context)
    settings = {
        "tokens": len(text.characters),
        "dim": dim,
        "blocks": blocks,
        "longest": context,
        "positions": positions,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LanguageModel(**settings)
    generator = torch.Generator().manual_seed(10_000 + seed)

    def loss_of_step(step: int) -> Tensor:
        starts = torch.randint(0, len(text.training) - context, (batch, 1), generator=generator)
        return losses_of(model, text.training[starts + torch.arange(context + 1)]).mean()

    losses = train(
        model,
        loss_of_step,
        steps,
        learning_rate=rate,
        schedule=linear_warmup_linear_decay(steps, WARM_UP),
        betas=(0.9, 0.98),
        weight_decay=0.01,
        max_norm=1.0,
    )
    with torch.no_grad():
        by_position = torch.cat([losses_of(model, part) for part in text.held_out.split(64)]).mean(0)
    held_out = by_position.mean().item()
    return {
        "seed": seed,
        "loss": losses,
        "held_out": held_out,
        "perplexity": math.exp(held_out),
        "by_position": by_position,
        "counts": ngram_losses(text.training, text.held_out, len(text.characters)),
        "sizes": (len(text.training), text.held_out[:, 1:].numel()),
        "parameters": sum(one.numel() for one in model.parameters()),
        "settings": settings,
        "characters": list(text.characters.characters),
        "state": {name: value.detach() for name, value in model.state_dict().items()},
    }


def restore_language_model(result: dict) -> tuple[LanguageModel, CharTokenizer]:
    model = LanguageModel(**result["settings"])
    model.load_state_dict(result["state"])
    return model.eval(), CharTokenizer(result["characters"][1:])


@torch.no_grad()
def sample_text(result: dict, prompt: str, length: int = 200, temperature: float = 0.7, seed: int = 0) -> str:
    """Continue `prompt` by `length` characters, each drawn given the last `context` ones.

    A text with an offensive word is rejected and drawn again with the next seed.
    """
    if not prompt:
        raise ValueError("expected a prompt of at least one character: the model needs something to go on from")
    if temperature <= 0:
        raise ValueError(f"expected a temperature above 0, got {temperature}")
    model, characters = restore_language_model(result)

    def sample(seed: int) -> str:
        generator = torch.Generator().manual_seed(seed)
        numbers = characters.encode(prompt)
        for _ in range(length):
            logits = model(numbers[None, -model.longest :])[0][0, -1]
            logits[0] = -math.inf  # never generate the unknown character
            drawn = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
            numbers = torch.cat([numbers, drawn])
        return prompt + characters.decode(numbers[len(prompt) :])

    return inoffensive(sample, seed)


# All positions at once against one at a time


def loss_together(model: LanguageModel, pieces: Tensor) -> Tensor:
    """Mean loss over all positions of pieces (b, n + 1), from one pass."""
    return losses_of(model, pieces).mean()


def losses_one_at_a_time(model: LanguageModel, pieces: Tensor):
    """The same loss in n parts, one pass for each: the prefix of each length predicts the one token that follows it."""
    n = pieces.size(1) - 1
    for length in range(1, n + 1):
        logits, _ = model(pieces[:, :length])
        yield F.cross_entropy(logits[:, -1], pieces[:, length]) / n


def one_position_at_a_time_factor(
    context: int = CONTEXT,
    batch: int = 16,
    dim: int = 96,
    blocks: int = 2,
    tokens: int = 100,
    repeats: int = 3,
    seed: int = 0,
) -> dict:
    """How many times longer forward and backward take if each pass predicts one token instead of all of them.

    The same tokens are predicted and the same gradient comes out (difference: its largest deviation). Returns the factor
    (median over `repeats` turns, in which the two take turns), the factors, and the median seconds of each.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LanguageModel(tokens, dim, blocks=blocks, longest=context)
        pieces = torch.randint(0, tokens, (batch, context + 1))

    def all_at_once() -> None:
        loss_together(model, pieces).backward()

    def one_at_a_time() -> None:
        for loss in losses_one_at_a_time(model, pieces):
            loss.backward()

    taken, gradients = {all_at_once: [], one_at_a_time: []}, {}
    for turn in range(repeats + 1):
        for way, seconds in taken.items():
            model.zero_grad()
            start = time.perf_counter()
            way()
            if turn:  # the first turn warms up
                seconds.append(time.perf_counter() - start)
            gradients[way] = [parameter.grad.clone() for parameter in model.parameters()]
    pairs = zip(gradients[all_at_once], gradients[one_at_a_time], strict=True)
    factors = [slow / fast for fast, slow in zip(*taken.values(), strict=True)]
    return {
        "factor": statistics.median(factors),
        "factors": factors,
        "together_seconds": statistics.median(taken[all_at_once]),
        "one_at_a_time_seconds": statistics.median(taken[one_at_a_time]),
        "difference": max((first - second).abs().max().item() for first, second in pairs),
        "predictions": batch * context,
    }

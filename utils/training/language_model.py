"""Character-level causal language modeling on Python's manual, compared with n-gram models.

With a causal mask one forward pass trains on every prefix of a window; `parallel_training_speedup` measures what that saves.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.data.offensive import inoffensive
from utils.data.real_text import CharTokenizer, split_documents, topics, topics_file, windows
from utils.models.attention import SelfAttention
from utils.models.decoding import generate
from utils.models.language_models import CausalLM, EncoderConfig, parameter_count
from utils.training.cache import cached
from utils.training.ngrams import ngram_losses
from utils.training.pretraining import sample_windows
from utils.training.profiling import seconds_in_turns
from utils.training.seeds import seeded
from utils.training.trainer import linear_warmup_linear_decay, train

MAX_LEN, DIM, NUM_LAYERS, BATCH_SIZE = 64, 96, 2, 12
SEPARATOR = "\n\n\n"  # between two documents of the training text
MIN_FREQUENCY = 5  # rarer characters are out of vocabulary
WARMUP_STEPS = 50


class Corpus(NamedTuple):
    """train_ids (n,): the training documents concatenated; held_out (windows, MAX_LEN + 1); tokenizer."""

    train_ids: Tensor
    held_out: Tensor
    tokenizer: CharTokenizer


def load_corpus() -> Corpus:
    training, held_out = split_documents(topics())
    tokenizer = CharTokenizer.build(training, min_frequency=MIN_FREQUENCY)
    held_out_windows = windows([tokenizer.encode(document) for document in held_out], MAX_LEN)
    return Corpus(tokenizer.encode(SEPARATOR.join(training)), held_out_windows, tokenizer)


# Training


def build_model(vocab_size: int) -> CausalLM:
    """Causal language model with a single attention head, sinusoidal positions and no norms."""
    config = EncoderConfig(
        vocab_size,
        DIM,
        num_heads=1,
        num_layers=NUM_LAYERS,
        max_len=MAX_LEN,
        scale_embedding=False,
        norm="none",
        activation="relu",
        tied=False,
    )
    return CausalLM(config, self_attn=lambda: SelfAttention(DIM))


def next_token_losses(model: CausalLM, token_ids: Tensor) -> Tensor:
    """Cross-entropy in nats (b, n) of every token but the first of windows token_ids (b, n + 1)."""
    logits, targets = model(token_ids[:, :-1]), token_ids[:, 1:]
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)


@cached(data_files=lambda *_, **__: [topics_file()])
def train_language_model(seed: int = 0, *, num_steps: int = 750) -> dict:
    """Train on the manual's pages, evaluate on held-out pages, in nats per character.

    Returns held_out and perplexity; by_position (MAX_LEN,), the held-out loss after 1, 2, ... characters of context; ngrams,
    the losses of n-gram models by order; num_train, the number of training characters; parameters; and characters and
    state_dict for `restore_language_model`.
    """
    corpus = load_corpus()
    with seeded(seed):
        model = build_model(len(corpus.tokenizer))
    generator = torch.Generator().manual_seed(10_000 + seed)

    def loss_of_step(step: int) -> Tensor:
        windows = sample_windows(corpus.train_ids, MAX_LEN + 1, BATCH_SIZE, generator)
        return next_token_losses(model, windows).mean()

    train(
        model,
        loss_of_step,
        num_steps,
        learning_rate=6e-3,
        schedule=linear_warmup_linear_decay(num_steps, WARMUP_STEPS),
        betas=(0.9, 0.98),
        weight_decay=0.01,
        max_norm=1.0,
    )
    with torch.no_grad():
        by_position = torch.cat([next_token_losses(model, batch) for batch in corpus.held_out.split(64)]).mean(0)
    held_out = by_position.mean().item()
    return {
        "held_out": held_out,
        "perplexity": math.exp(held_out),
        "by_position": by_position,
        "ngrams": ngram_losses(corpus.train_ids, corpus.held_out, len(corpus.tokenizer)),
        "num_train": len(corpus.train_ids),
        "parameters": parameter_count(model),
        "characters": list(corpus.tokenizer.characters),
        "state_dict": {name: tensor.detach() for name, tensor in model.state_dict().items()},
    }


def restore_language_model(result: dict) -> tuple[CausalLM, CharTokenizer]:
    model = build_model(len(result["characters"]))
    model.load_state_dict(result["state_dict"])
    return model.eval(), CharTokenizer(result["characters"][1:])


def plain_state_dict(result: dict) -> dict[str, Tensor]:
    """The trained parameters for a model without submodules around embedding and layers, as lesson 04 writes it."""
    return {
        name.removeprefix("embedding.").removeprefix("encoder."): tensor
        for name, tensor in result["state_dict"].items()
    }


def sample_text(result: dict, prompt: str, length: int = 200, temperature: float = 0.7, seed: int = 0) -> str:
    """Continue `prompt` by `length` characters, each sampled given the last MAX_LEN ones.

    A text with an offensive word is rejected and sampled again with the next seed.
    """
    model, tokenizer = restore_language_model(result)

    def sample(seed: int) -> str:
        generator = torch.Generator().manual_seed(seed)
        options = {"temperature": temperature, "generator": generator, "window": MAX_LEN}
        new_ids = generate(model, tokenizer.encode(prompt), length, banned_ids=[0], **options)  # 0: out of vocabulary
        return prompt + tokenizer.decode(list(new_ids))

    return inoffensive(sample, seed)


# All positions in parallel, or one at a time


def sequential_losses(model: CausalLM, token_ids: Tensor) -> Iterator[Tensor]:
    """The mean of `next_token_losses` as n terms, one forward pass each: a prefix of every length predicts its next token."""
    n = token_ids.size(1) - 1
    for length in range(1, n + 1):
        yield F.cross_entropy(model(token_ids[:, :length])[:, -1], token_ids[:, length]) / n


def parallel_training_speedup(repeats: int = 3) -> list[float]:
    """Speedup of forward and backward when one pass predicts all positions of a window, over one pass for each position: a
    value for each repeat, in which the two alternate."""
    vocab_size, batch_size = 100, 16
    with seeded(0):
        model = build_model(vocab_size)
        token_ids = torch.randint(0, vocab_size, (batch_size, MAX_LEN + 1))

    def parallel() -> None:
        next_token_losses(model, token_ids).mean().backward()

    def sequential() -> None:
        for loss in sequential_losses(model, token_ids):
            loss.backward()

    seconds = seconds_in_turns({"parallel": parallel, "sequential": sequential}, repeats)
    return [slow / fast for fast, slow in zip(seconds["parallel"], seconds["sequential"], strict=True)]

"""Chains: a task for encoders that needs two attention layers, also used to train with and without layer normalization.

Every token holds one link of a random permutation of letters, from letter to next letter: a -> c. The class of the token is
the letter three steps from a. The token holds the first step. One attention layer can retrieve the second, from the token
that starts at c; whose token has the third step depends on the result. s seeds, b sequences, n = NUM_LETTERS tokens.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from utils.models.layers import TransformerEncoder
from utils.training.cache import cached
from utils.training.seeds import call_models, draw_batches, seed_list, stack_models, train_models

NUM_LETTERS, DIM, NUM_HEADS = 7, 32, 2


def chains(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """letters, next_letters and classes, each (count, n): tokens in random order, classes three steps from the letter."""
    following = torch.rand(count, NUM_LETTERS, generator=generator).argsort(1)  # the letter after each letter
    letters = torch.rand(count, NUM_LETTERS, generator=generator).argsort(1)
    next_letters = following.gather(1, letters)
    return letters, next_letters, following.gather(1, following.gather(1, next_letters))


class ChainEncoder(nn.Module):
    """Encoder without positions: the order of the tokens carries no information. options: of `TransformerEncoder`."""

    def __init__(self, num_layers: int, **options):
        super().__init__()
        self.letter_embedding, self.next_embedding = (nn.Embedding(NUM_LETTERS, DIM) for _ in range(2))
        self.encoder = TransformerEncoder(num_layers, DIM, NUM_HEADS, 2 * DIM, **options)
        self.classifier = nn.Linear(DIM, NUM_LETTERS)

    def forward(self, letters: Tensor, next_letters: Tensor) -> tuple[Tensor, list[Tensor]]:
        """letters and next_letters (b, n) to logits (b, n, letters) and each layer's weights (b, heads, n, n)."""
        x = self.letter_embedding(letters) + self.next_embedding(next_letters)
        x, weights = self.encoder(x, need_weights=True)
        return self.classifier(x), weights


@cached
def train_chains(
    num_layers: int,
    seeds: int | Sequence[int] = 3,
    *,
    norm_first: bool = True,
    norm: str = "layer",
    steps: int = 300,
    learning_rate: float = 7e-3,
) -> dict:
    """Train `ChainEncoder`. Returns accuracy (s,) on new chains and loss (steps, s)."""
    seeds = seed_list(seeds)
    model, parameters = stack_models(lambda: ChainEncoder(num_layers, norm_first=norm_first, norm=norm), seeds)
    loss = train_models(model, parameters, draw_batches(chains, seeds, steps, batch_size=32), learning_rate)
    *inputs, classes = chains(500, torch.Generator().manual_seed(77))
    with torch.no_grad():
        logits = call_models(model, parameters, *(tensor.expand(len(seeds), *tensor.shape) for tensor in inputs))
    return {
        "accuracy": (logits.argmax(-1) == classes).float().mean((1, 2)),
        "loss": loss,
    }

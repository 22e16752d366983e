"""The end-to-end memory network (Sukhbaatar et al., 2015): several looks at a story, each guided by the one before.

Every function takes any number of leading axes, so the same code trains one network or many at once: the seed is an
ordinary batch axis of the parameters.
"""

import torch
from torch import Tensor, nn

from utils.models.attention import attend


def position_weights(length: int, dim: int) -> Tensor:
    """(length, dim): how much word j counts in component i, 1 + 4 (i - (d+1)/2) (j - (J+1)/2) / (d J), from 1."""
    i = torch.arange(1, dim + 1) - (dim + 1) / 2
    j = torch.arange(1, length + 1) - (length + 1) / 2
    return 1 + 4 * j[:, None] * i[None, :] / (dim * length)


def word_counts(sentences: Tensor, words: int) -> Tensor:
    """Sentences (..., j) of word numbers, -1 for none, to two tables (..., 2, words) that sentence vectors are linear in.

    The first says how often each word occurs; the second counts each occurrence by its place, 4 (j - (J+1)/2) / J. The
    position weights are 1 plus this number of the place times a number of the component, so no more is needed.
    """
    one_hot = nn.functional.one_hot(sentences + 1, words + 1)[..., 1:].float()
    length = sentences.size(-1)
    tilt = 4 * (torch.arange(1, length + 1) - (length + 1) / 2) / length
    return torch.stack([one_hot.sum(-2), (one_hot * tilt[:, None]).sum(-2)], -2)


def memory_hop(state: Tensor, key: Tensor, value: Tensor, mask: Tensor, linear: bool = False) -> tuple[Tensor, Tensor]:
    """One look: state (..., d), key and value (..., n, d), mask (..., n) to what was found (..., d) and weights (..., n).

    `linear` leaves the softmax out, for the first epochs of training only: then the weights are the scores themselves.
    """
    scores = (key @ state.unsqueeze(-1)).transpose(-2, -1)  # (..., 1, n)
    if linear:
        weights = scores.masked_fill(~mask.unsqueeze(-2), 0.0)
        found = weights @ value
    else:
        found, weights = attend(scores, value, mask.unsqueeze(-2))
    return found.squeeze(-2), weights.squeeze(-2)


class MemoryNetwork(nn.Module):
    """Hops over a story. Every parameter has the seed as its first axis: `seeds` networks live side by side.

    positions: weigh words by their place in the sentence; temporal: add a vector for the age of each statement.
    tying: "adjacent" (the values of a hop are the keys of the next, the question reads with the first keys, the answer
    with the last values) or "layer-wise" (the same keys and values in each hop, and a learned map of the state between).
    """

    def __init__(
        self,
        words: int,
        hops: int = 3,
        dim: int = 20,
        memory: int = 50,
        positions: bool = True,
        temporal: bool = True,
        tying: str = "adjacent",
        seeds: int | list[int] = 1,
    ):
        super().__init__()
        if tying not in ("adjacent", "layer-wise"):
            raise ValueError(f"expected tying 'adjacent' or 'layer-wise', got {tying!r}")
        if hops < 1:
            raise ValueError(f"expected at least one hop, got {hops}")
        self.words, self.hops, self.dim, self.memory = words, hops, dim, memory
        self.positions, self.temporal, self.tying = positions, temporal, tying
        seeds = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
        tables = hops + 1 if tying == "adjacent" else 4  # layer-wise: keys, values, question, answer
        ages = (hops + 1 if tying == "adjacent" else 2) if temporal else 0
        drawn = [self._draw(seed, tables, ages) for seed in seeds]
        self.tables = nn.Parameter(torch.stack([one[0] for one in drawn]))  # (s, tables, words, d)
        self.ages = nn.Parameter(torch.stack([one[1] for one in drawn]))  # (s, ages, memory, d)
        self.between = nn.Parameter(torch.stack([one[2] for one in drawn])) if tying == "layer-wise" else None
        # What a component adds to the weight of a word, by the word's place: see `position_weights`.
        self.register_buffer("slope", (torch.arange(1, dim + 1) - (dim + 1) / 2) / dim)

    def _draw(self, seed: int, tables: int, ages: int) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        shapes = (tables, self.words, self.dim), (ages, self.memory, self.dim), (self.dim, self.dim)
        return tuple(0.1 * torch.randn(shape, generator=generator) for shape in shapes)

    def encode(self, counts: Tensor, tables: Tensor) -> Tensor:
        """counts (s, ..., 2, words) and tables (s, words, e * d), e tables side by side, to vectors (s, ..., e * d)."""
        flat = counts.flatten(1, -3)
        bag = flat[:, :, 0] @ tables
        if self.positions:
            slope = self.slope.repeat(tables.size(-1) // self.dim)
            bag = bag + (flat[:, :, 1] @ tables) * slope
        return bag.unflatten(1, counts.shape[1:-2])

    def forward(
        self, story: Tensor, question: Tensor, mask: Tensor, age: Tensor, linear: bool = False
    ) -> tuple[Tensor, Tensor]:
        """story (s, b, n, 2, words) and question (s, b, 2, words) from `word_counts`, mask and age (s, b, n).

        Returns logits (s, b, words) and the weights of every hop (s, b, hops, n).
        """
        memories = self._memories(story, age)
        state, answer_table = self._ends(question)
        weights = []
        for hop in range(self.hops):
            first, second = (hop, hop + 1) if self.tying == "adjacent" else (0, 1)
            found, looked = memory_hop(state, memories[..., first, :], memories[..., second, :], mask, linear)
            if self.between is not None:
                state = state @ self.between
            state = state + found
            weights.append(looked)
        return state @ answer_table.transpose(-2, -1), torch.stack(weights, -2)

    def _memories(self, story: Tensor, age: Tensor) -> Tensor:
        """Every statement in every table that the hops read with: (s, b, n, tables, d)."""
        count = self.hops + 1 if self.tying == "adjacent" else 2
        side_by_side = self.tables[:, :count].transpose(1, 2).flatten(2)  # (s, words, tables * d)
        memories = self.encode(story, side_by_side)
        if self.temporal:
            ages = self.ages.transpose(1, 2).flatten(2)  # (s, memory, tables * d)
            place = age.clamp_max(self.memory - 1).flatten(1).unsqueeze(-1).expand(-1, -1, ages.size(-1))
            memories = memories + ages.gather(1, place).unflatten(1, age.shape[1:])
        return memories.unflatten(-1, (count, self.dim))

    def _ends(self, question: Tensor) -> tuple[Tensor, Tensor]:
        """The first state (s, b, d), read from the question, and the table (s, words, d) that answers are read with."""
        reading, answering = (0, self.hops) if self.tying == "adjacent" else (2, 3)
        return self.encode(question, self.tables[:, reading]), self.tables[:, answering]

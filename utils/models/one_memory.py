"""The memory network as lesson 02 builds it: one network, one line per idea. `memory.py` trains many of them at once."""

import torch
from torch import Tensor, nn

from utils.models.attention import attend
from utils.models.memory import position_weights


def encode_sentences(sentences: Tensor, table: Tensor, weights: Tensor | None = None) -> Tensor:
    """Word numbers (..., j), -1 for none, and a table (words, d) to sentence vectors (..., d).

    weights (j, d): how much each place counts in each component; None counts every word the same, as a bag.
    """
    vectors = table[sentences.clamp_min(0)]  # (..., j, d)
    if weights is not None:
        vectors = vectors * weights
    return (vectors * (sentences >= 0).unsqueeze(-1)).sum(-2)


def memory_hop(state: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """One look of one state (..., d) at a memory: key and value (..., n, d), mask (..., n) to found (..., d), weights (..., n)."""
    scores = state.unsqueeze(-2) @ key.transpose(-2, -1)  # (..., 1, n)
    found, weights = attend(scores, value, None if mask is None else mask.unsqueeze(-2))
    return found.squeeze(-2), weights.squeeze(-2)


def linear_hop(state: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same without the softmax: the weights are the scores themselves, 0 where there is no memory."""
    weights = (key @ state.unsqueeze(-1)).squeeze(-1).masked_fill(~mask, 0.0)
    return (weights.unsqueeze(-2) @ value).squeeze(-2), weights


def ages_of(mask: Tensor) -> Tensor:
    """mask (..., n), True where a statement stands, oldest first, to ages (..., n): 0 for the newest statement.

    Places without a statement get 0 too; nobody looks at them.
    """
    count = mask.sum(-1, keepdim=True)
    return (count - mask.cumsum(-1)).masked_fill(~mask, 0)


def facts_found(weights: Tensor, fact: Tensor) -> Tensor:
    """weights (b, hops, n), fact (b, n) to (b,): is every supporting fact the top sentence of some hop?"""
    tops = nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).sum(-2) > 0
    return (tops | ~fact).all(-1)


class OneMemoryNetwork(nn.Module):
    """Adjacent tying: table k holds the keys of hop k, table k + 1 its values, which are the keys of the next hop."""

    def __init__(self, words: int, hops: int = 3, dim: int = 20, memory: int = 50, sentence: int = 8):
        super().__init__()
        self.hops = hops
        self.tables = nn.Parameter(0.1 * torch.randn(hops + 1, words, dim))
        self.ages = nn.Parameter(0.1 * torch.randn(hops + 1, memory, dim))
        self.register_buffer("weights", position_weights(sentence, dim))

    def forward(self, story: Tensor, question: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """story (b, n, j), question (b, j), mask (b, n) to logits (b, words) and the weights of all hops (b, hops, n)."""
        age = ages_of(mask)
        memories = [
            encode_sentences(story, table, self.weights) + ages[age]
            for table, ages in zip(self.tables, self.ages, strict=True)
        ]
        state = encode_sentences(question, self.tables[0], self.weights)
        looks = []
        for hop in range(self.hops):
            found, weights = memory_hop(state, memories[hop], memories[hop + 1], mask)
            state = state + found
            looks.append(weights)
        return state @ self.tables[-1].T, torch.stack(looks, 1)

"""Sequence to sequence as lesson 03 builds it: one line per idea. `recurrent.py` and `seq2seq.py` are made for training.

Vectors are rows: a map is `x @ A`, A (width before, width after).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from utils.models.attention import attend

PADDING = 0


def pad(sentences: list[list[int]], padding: int = PADDING) -> tuple[Tensor, Tensor]:
    """Lists of word numbers to numbers (b, n), `padding` behind the shorter ones, and a mask (b, n), True at the words."""
    longest = max(map(len, sentences))
    numbers = torch.tensor([[*sentence, *[padding] * (longest - len(sentence))] for sentence in sentences])
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return numbers, torch.arange(longest) < lengths.unsqueeze(1)


# Reading


def recurrent_step(x: Tensor, state: Tensor, A: Tensor, B: Tensor, c: Tensor) -> Tensor:
    """One word x (b, d) and the state so far (b, w), with A (d, w), B (w, w) and c (w,), to the next state (b, w)."""
    return torch.tanh(x @ A + state @ B + c)


def read_words(x: Tensor, state: Tensor, step: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """x (b, n, d) and a first state (b, w) to the states after each word (b, n, w), and the last of them (b, w)."""
    states = []
    for word in x.unbind(1):  # each step needs the one before: nothing here can run in parallel
        state = step(word, state)
        states.append(state)
    return torch.stack(states, 1), state


# Three score functions: every state against every memory


def dot_score(state: Tensor, memory: Tensor) -> Tensor:
    """state (b, m, d) and memory (b, n, d) to scores (b, m, n)."""
    return state @ memory.transpose(1, 2)


def multiplicative_score(state: Tensor, memory: Tensor, W: Tensor) -> Tensor:
    """state (b, m, d) and memory (b, n, e) to scores (b, m, n); W (d, e) takes a state to where the memories are."""
    return state @ W @ memory.transpose(1, 2)


def additive_score(state: Tensor, memory: Tensor, A: Tensor, B: Tensor, v: Tensor) -> Tensor:
    """v · tanh(state A + memory B): state (b, m, d) and memory (b, n, e), A (d, h), B (e, h), v (h,) to (b, m, n)."""
    pairs = (state @ A).unsqueeze(2) + (memory @ B).unsqueeze(1)  # (b, m, n, h)
    return torch.tanh(pairs) @ v


# Writing


class AttentionDecoder(nn.Module):
    """Before it names a word it looks at every vector of the memory. What it found goes into the output, not into the state."""

    def __init__(self, words: int, width: int, score: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.score = score
        self.embed = nn.Embedding(words, width)
        self.cell = nn.GRUCell(width, width)
        self.combine = nn.Linear(2 * width, width)
        self.output = nn.Linear(width, words)

    def step(self, word: Tensor, state: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """word (b,), state (b, w), memory (b, n, w), mask (b, n) to logits (b, words), state (b, w), weights (b, n)."""
        state = self.cell(self.embed(word), state)
        scores = self.score(state.unsqueeze(1), memory)  # (b, 1, n)
        context, weights = attend(scores, memory, mask.unsqueeze(1))
        both = torch.cat([state, context.squeeze(1)], -1)  # (b, 2 w)
        return self.output(torch.tanh(self.combine(both))), state, weights.squeeze(1)


def greedy_decode(
    step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], state: Tensor, start: int, end: int, limit: int
) -> Tensor:
    """Take the likeliest word until every sentence has said `end` or has `limit` words.

    step(word (b,), state) gives logits (b, words) and the next state. Returns words (b, m): the end token is one of them,
    behind it stands padding, the start token is not among them.
    """
    word = torch.full((len(state),), start)
    going = torch.ones(len(state), dtype=torch.bool)
    words = []
    while going.any() and len(words) < limit:
        logits, state = step(word, state)
        word = logits.argmax(-1).masked_fill(~going, PADDING)
        words.append(word)
        going = going & (word != end)
    return torch.stack(words, 1)


def alignment_error(weights: Tensor, links: set[tuple[int, int]]) -> float:
    """1 - 2 |A ∩ S| / (|A| + |S|) for one pair of sentences, without their end tokens.

    weights (m, n): a row for each target word; A links it to the source word of largest weight. `links` are the right ones,
    S: pairs (place in the source, place in the target).
    """
    found = {(source, target) for target, source in enumerate(weights.argmax(1).tolist())}
    return 1 - 2 * len(found & links) / (len(found) + len(links))

"""Solutions of lesson 07, written by `make notebooks` from notebooks/src/07_tokenize_and_pretrain.py: edit that."""

from collections import Counter
from itertools import pairwise
from torch import nn
from utils.data.bpe import SPECIAL_TOKENS
from utils.data.bpe import merge
from utils.models.encoder import Encoder
from utils.models.self_attention import causal_mask
from utils.models.transformer import WordVectors
from utils.training.pretraining import NOT_ASKED
import torch
import torch.nn.functional as F


# Exercise 7.1 · byte-pair merges · medium · 15 min
def bpe_merges(counts, merges):
    """counts {word: how often} to the first `merges` pairs that are joined, [(left, right), ...].

    Fewer come back when nothing is left to join.
    """
    ### BEGIN SOLUTION
    split = {word: list(word) for word in counts}
    age = sorted(set("".join(counts)))  # letters first, new pieces behind
    found = []
    while len(found) < merges:
        pairs = Counter()
        for word, pieces in split.items():
            for pair in pairwise(pieces):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], -age.index(p[0]), -age.index(p[1])))
        found.append(best)
        age.append("".join(best))
        split = {word: merge(pieces, best) for word, pieces in split.items()}
    return found
    ### END SOLUTION


# Exercise 7.2 · split a word · easy · 8 min
def bpe_split(word, merges):
    """The pieces of a word, a list; what was learnt first is joined first, wherever it stands."""
    ### BEGIN SOLUTION
    pieces = list(word)
    for pair in merges:
        pieces = merge(pieces, pair)
    return pieces
    ### END SOLUTION


# Exercise 7.3 · masked words · medium · 12 min
def mask_tokens(numbers, real, mask, pieces, share=0.15, generator=None):
    """numbers (b, n), real (b, n) True at pieces, to inputs, targets and chosen, all (b, n).

    Targets are what stood there where chosen and `NOT_ASKED` elsewhere. Random pieces run from
    len(SPECIAL_TOKENS) to pieces - 1. All that is drawn is drawn with `generator`.
    """
    ### BEGIN SOLUTION
    ordinary = real & (numbers >= len(SPECIAL_TOKENS))
    chosen = (torch.rand(numbers.shape, generator=generator) < share) & ordinary
    fate = torch.rand(numbers.shape, generator=generator)
    other = torch.randint(len(SPECIAL_TOKENS), pieces, numbers.shape, generator=generator)
    inputs = torch.where(chosen & (fate < 0.8), mask, numbers)
    inputs = torch.where(chosen & (fate >= 0.8) & (fate < 0.9), other, inputs)
    return inputs, torch.where(chosen, numbers, NOT_ASKED), chosen
    ### END SOLUTION


# Exercise 7.4 · cut out spans · medium · 10 min
def take_out(numbers, spans, gaps):
    """numbers, a list; spans [(start, end), ...] in order, without `end`; gaps, names of holes.

    Returns source, with gap i in place of span i, and target: gap 0, what was there, gap 1, ...,
    and the next gap at the end.
    """
    ### BEGIN SOLUTION
    source, target, place = [], [], 0
    for number, (start, end) in enumerate(spans):
        source += [*numbers[place:start], gaps[number]]
        target += [gaps[number], *numbers[start:end]]
        place = end
    return source + numbers[place:], target + [gaps[len(spans)]]
    ### END SOLUTION


# Exercise 7.5 · the masked model · medium · 10 min
class MaskedLM(nn.Module):
    def __init__(self, pieces, dim, heads, hidden, layers):
        super().__init__()
        self.words = WordVectors(pieces, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre", activation="gelu")
        self.bias = nn.Parameter(torch.zeros(pieces))

    def vectors(self, numbers, real):
        """numbers (b, n), real (b, n) True at pieces, to (b, n, dim); all see all real pieces."""
        ### BEGIN SOLUTION
        return self.encoder(self.words(numbers), real.unsqueeze(1))[0]
        ### END SOLUTION

    def forward(self, numbers, real):
        """To logits (b, n, pieces) for the piece that stands here: the table, and a bias."""
        ### BEGIN SOLUTION
        return self.vectors(numbers, real) @ self.words.table.weight.T + self.bias
        ### END SOLUTION


# Exercise 7.6 · the causal model and its loss · medium · 12 min
class CausalLM(nn.Module):
    def __init__(self, pieces, dim, heads, hidden, layers):
        super().__init__()
        self.words = WordVectors(pieces, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre", activation="gelu")
        self.bias = nn.Parameter(torch.zeros(pieces))

    def forward(self, numbers):
        """numbers (b, n) to logits (b, n, pieces) for the piece that comes next."""
        ### BEGIN SOLUTION
        x, _ = self.encoder(self.words(numbers), causal_mask(numbers.size(1)))
        return x @ self.words.table.weight.T + self.bias
        ### END SOLUTION

    def loss(self, numbers, real):
        """Cross-entropy of the next piece: one number, the mean over next pieces that are real."""
        ### BEGIN SOLUTION
        logits, targets = self(numbers)[:, :-1], numbers[:, 1:]
        losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        return losses[real[:, 1:]].mean()
        ### END SOLUTION


# Exercise 7.7 · the next piece: temperature, top-k, top-p · medium · 15 min
def next_distribution(logits, temperature=1.0, top_k=None, top_p=None):
    """logits (pieces,) to chances (pieces,); temperature first, then top-k, then top-p."""
    ### BEGIN SOLUTION
    chances, order = (logits / temperature).softmax(-1).sort(descending=True)
    if top_k is not None:
        chances[top_k:] = 0
        chances = chances / chances.sum()
    if top_p is not None:
        before = chances.cumsum(0) - chances  # what the likelier ones have between them
        chances[before >= top_p] = 0
        chances = chances / chances.sum()
    return torch.zeros_like(chances).scatter(0, order, chances)
    ### END SOLUTION

"""Solutions of lesson 02, written by `make notebooks` from notebooks/src/02_memory_network.py: edit that."""

from torch import nn
from utils.data.babi import words
from utils.models import attention
import torch


# Exercise 2.1 · position weights · easy · 6 min
def position_weights(length, dim):
    """(length, dim): how much word j of a sentence counts in component i."""
    ### BEGIN SOLUTION
    j = torch.arange(1, length + 1) - (length + 1) / 2
    i = torch.arange(1, dim + 1) - (dim + 1) / 2
    return 1 + 4 * j[:, None] * i[None, :] / (dim * length)
    ### END SOLUTION


# Exercise 2.2 · sentence vectors · medium · 10 min
def encode_sentences(sentences, table, weights=None):
    """Word numbers (..., j), -1 for no word, and a table (words, d) to vectors (..., d).

    weights (j, d) or None: what each place counts in each component.
    """
    ### BEGIN SOLUTION
    vectors = table[sentences.clamp_min(0)]
    if weights is not None:
        vectors = vectors * weights
    return (vectors * (sentences >= 0).unsqueeze(-1)).sum(-2)
    ### END SOLUTION


# Exercise 2.3 · one look at the memory · easy · 8 min
def memory_hop(state, key, value, mask=None):
    """state (..., d), key and value (..., n, d), mask (..., n) to found (..., d) and weights (..., n).

    Where a mask is all False, both results are zeros.
    """
    ### BEGIN SOLUTION
    mask = None if mask is None else mask.unsqueeze(-2)
    found, weights = attention(state.unsqueeze(-2), key, value, mask, scale=1)
    return found.squeeze(-2), weights.squeeze(-2)
    ### END SOLUTION


# Exercise 2.4 · how old is each statement · medium · 8 min
def ages_of(mask):
    """mask (..., n) bool, statements first, oldest first, then empty places (False).

    Returns (..., n) ages: 0 for the newest statement; 0 for empty places too.
    """
    ### BEGIN SOLUTION
    count = mask.sum(-1, keepdim=True)
    return (count - mask.cumsum(-1)).masked_fill(~mask, 0)
    ### END SOLUTION


# Exercise 2.5 · the memory network · hard · 20 min
class MemoryNetwork(nn.Module):
    def __init__(self, words, hops=3, dim=20, memory=50, sentence=8):
        super().__init__()
        self.hops = hops
        self.tables = nn.Parameter(0.1 * torch.randn(hops + 1, words, dim))
        self.ages = nn.Parameter(0.1 * torch.randn(hops + 1, memory, dim))
        self.register_buffer("weights", position_weights(sentence, dim))

    def forward(self, story, question, mask):
        """story (b, n, j), question (b, j), mask (b, n) to logits (b, words), weights (b, hops, n)."""
        ### BEGIN SOLUTION
        age, memories, looks = ages_of(mask), [], []
        for table, ages in zip(self.tables, self.ages, strict=True):
            memories.append(encode_sentences(story, table, self.weights) + ages[age])
        state = encode_sentences(question, self.tables[0], self.weights)
        for hop in range(self.hops):
            found, weights = memory_hop(state, memories[hop], memories[hop + 1], mask)
            state = state + found
            looks.append(weights)
        return state @ self.tables[-1].T, torch.stack(looks, 1)
        ### END SOLUTION


# Exercise 2.6 · a look without softmax · easy · 5 min
def linear_hop(state, key, value, mask):
    """Like `memory_hop`, but the weights are the scores themselves, 0 at empty places."""
    ### BEGIN SOLUTION
    weights = (key @ state.unsqueeze(-1)).squeeze(-1).masked_fill(~mask, 0.0)
    return (weights.unsqueeze(-2) @ value).squeeze(-2), weights
    ### END SOLUTION


# Exercise 2.7 · do the hops find the facts · medium · 8 min
def facts_found(weights, fact):
    """weights (b, hops, n), fact (b, n) bool, to (b,) bool: is each fact on top of some hop?"""
    ### BEGIN SOLUTION
    tops = nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).sum(-2) > 0
    return (tops | ~fact).all(-1)
    ### END SOLUTION

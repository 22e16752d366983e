"""Solutions of lesson 03, written by `make notebooks` from notebooks/src/03_sequence_to_sequence.py: edit that."""

from torch import nn
from utils.models import attend
import torch


# Exercise 3.1 · sentences in one tensor · easy · 6 min
def pad(sentences, padding=0):
    """Lists of word numbers to numbers (b, n), `padding` behind the shorter ones, and a mask (b, n), True at the words.

    A word may have the same number as `padding`: the mask tells them apart.
    """
    ### BEGIN SOLUTION
    longest = max(len(sentence) for sentence in sentences)
    numbers = torch.tensor(
        [sentence + [padding] * (longest - len(sentence)) for sentence in sentences]
    )
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return numbers, torch.arange(longest) < lengths.unsqueeze(1)
    ### END SOLUTION


# Exercise 3.2 · one recurrent step · easy · 5 min
def recurrent_step(x, state, A, B, c):
    """x (b, d), state (b, w), A (d, w), B (w, w), c (w,) to the next state (b, w)."""
    ### BEGIN SOLUTION
    return torch.tanh(x @ A + state @ B + c)
    ### END SOLUTION


# Exercise 3.3 · read a sentence · easy · 6 min
def read_words(x, state, step):
    """x (b, n, d), first state (b, w), step(x_t (b, d), state (b, w)) -> state (b, w).

    Returns the states after each word (b, n, w), and the last of them (b, w).
    """
    ### BEGIN SOLUTION
    states = []
    for word in x.unbind(1):
        state = step(word, state)
        states.append(state)
    return torch.stack(states, 1), state
    ### END SOLUTION


# Exercise 3.4 · the dot score · easy · 4 min
def dot_score(state, memory):
    """state (b, m, d), memory (b, n, d) to scores (b, m, n)."""
    ### BEGIN SOLUTION
    return state @ memory.transpose(1, 2)
    ### END SOLUTION


# Exercise 3.5 · the multiplicative score · medium · 6 min
def multiplicative_score(state, memory, W):
    """state (b, m, d), memory (b, n, e), W (d, e) to scores (b, m, n)."""
    ### BEGIN SOLUTION
    return dot_score(state @ W, memory)
    ### END SOLUTION


# Exercise 3.6 · the additive score · medium · 10 min
def additive_score(state, memory, A, B, v):
    """tanh(state A + memory B) · v, with A (d, k), B (e, k), v (k,).

    state (b, m, d), memory (b, n, e) to scores (b, m, n).
    """
    ### BEGIN SOLUTION
    pairs = (state @ A).unsqueeze(2) + (memory @ B).unsqueeze(1)  # (b, m, n, k)
    return torch.tanh(pairs) @ v
    ### END SOLUTION


# Exercise 3.7 · a step of the decoder · hard · 20 min
class AttentionDecoder(nn.Module):
    def __init__(self, vocab_size, hidden_size, score):
        super().__init__()
        self.score = score
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.cell = nn.GRUCell(hidden_size, hidden_size)
        self.combine = nn.Linear(2 * hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, vocab_size)

    def step(self, token_ids, state, memory, source_mask):
        """One step: token_ids (b,), state (b, hidden_size), memory (b, n, hidden_size), source_mask (b, n).

        Returns logits (b, vocab_size), the new state (b, hidden_size) and attention weights (b, n).
        Where a row of the mask is all False, the weights and the context are zeros.
        """
        ### BEGIN SOLUTION
        state = self.cell(self.embedding(token_ids), state)
        scores = self.score(state.unsqueeze(1), memory)  # (b, 1, n)
        context, weights = attend(scores, memory, source_mask.unsqueeze(1))
        both = torch.cat([state, context.squeeze(1)], -1)  # (b, 2 hidden_size)
        return self.output(torch.tanh(self.combine(both))), state, weights.squeeze(1)
        ### END SOLUTION


# Exercise 3.8 · greedy decoding · medium · 12 min
def greedy_decode(step, state, bos_id, eos_id, max_len):
    """step(token_ids (b,), state (b, w)) -> logits (b, vocab_size), state. Returns the most likely tokens (b, m).

    `bos_id`, `eos_id` and `max_len` are ints. Only `eos_id` ends a sentence; a 0 before it is an ordinary token.
    Stops when every sentence has generated `eos_id`, or at `max_len` tokens. After `eos_id` comes 0.
    """
    ### BEGIN SOLUTION
    token_ids = torch.full((len(state),), bos_id)
    active = torch.ones(len(state), dtype=torch.bool)
    generated = []
    while active.any() and len(generated) < max_len:
        logits, state = step(token_ids, state)
        token_ids = logits.argmax(-1).masked_fill(~active, 0)
        generated.append(token_ids)
        active = active & (token_ids != eos_id)
    return torch.stack(generated, 1)
    ### END SOLUTION


# Exercise 3.9 · the alignment error · medium · 10 min
def alignment_error(weights, links):
    """1 - 2 |A ∩ S| / (|A| + |S|): weights (m, n), a row for each target word, without end tokens.

    S is `links`, a set of (source place, target place); A links each target word to its largest weight.
    """
    ### BEGIN SOLUTION
    found = {(source, target) for target, source in enumerate(weights.argmax(1).tolist())}
    return 1 - 2 * len(found & links) / (len(found) + len(links))
    ### END SOLUTION

"""Solutions of lesson 03, written by `make notebooks` from notebooks/src/03_sequence_to_sequence.py: edit that."""

from torch import nn
from utils.models import attend
import torch


# Exercise 3.1 · sentences in one tensor · easy · 6 min
def pad(sentences, pad_id=0):
    """Lists of token ids to token_ids (b, n), padded on the right with `pad_id`, and attention_mask (b, n), True at tokens.

    A token may have the id `pad_id` too: the mask tells them apart.
    """
    ### BEGIN SOLUTION
    max_len = max(len(sentence) for sentence in sentences)
    token_ids = torch.tensor(
        [sentence + [pad_id] * (max_len - len(sentence)) for sentence in sentences]
    )
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return token_ids, torch.arange(max_len) < lengths.unsqueeze(1)
    ### END SOLUTION


# Exercise 3.2 · one recurrent step · easy · 5 min
def recurrent_step(x, state, A, B, c):
    """x (b, d), hidden state (b, w), A (d, w), B (w, w), c (w,) to the next hidden state (b, w)."""
    ### BEGIN SOLUTION
    return torch.tanh(x @ A + state @ B + c)
    ### END SOLUTION


# Exercise 3.3 · read a sentence · easy · 6 min
def unroll(x, state, step):
    """x (b, n, d), initial state (b, w), step(x_t (b, d), state (b, w)) -> state (b, w).

    Returns all hidden states (b, n, w), one after each token, and the final state (b, w).
    """
    ### BEGIN SOLUTION
    states = []
    for x_t in x.unbind(1):
        state = step(x_t, state)
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
    """step(token_ids (b,), state (b, w)) -> logits (b, vocab_size), state. Returns the most probable tokens (b, m).

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
    """1 - 2 |A ∩ S| / (|A| + |S|): weights (m, n), a row for each target token, without end tokens.

    S is `links`, a set of (source position, target position); A links each target token to its largest weight.
    """
    ### BEGIN SOLUTION
    predicted = {(source, target) for target, source in enumerate(weights.argmax(1).tolist())}
    return 1 - 2 * len(predicted & links) / (len(predicted) + len(links))
    ### END SOLUTION

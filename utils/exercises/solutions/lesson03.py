"""Solutions of lesson 03, written by `make notebooks` from notebooks/src/03_sequence_to_sequence.py: edit that."""

from torch import nn
from utils.models import attend
import torch

# The id of each exercise's cell
CELLS = {
    '3.1': 'd2a37d795bc3',
    '3.2': 'f8a5db860cd0',
    '3.3': '92c2fd05c890',
    '3.4': '36e7764561fc',
    '3.5': 'b0525de00f09',
    '3.6': '2fffd5751666',
    '3.7': '0d8f6022f12d',
    '3.8': '47e82aea123c',
    '3.9': 'c8b8553932a6',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '3.1': [('code', '')],
    '3.2': [('code', ''), ('code', 'Unrolling')],
    '3.3': [('code', '')],
    '3.4': [('code', '')],
    '3.5': [('code', ''), ('code', 'Train your decoder'), ('training loop', 'Train your decoder')],
    '3.6': [('code', '')],
    '3.7': [('code', 'Train your decoder'), ('training loop', 'Train your decoder')],
    '3.8': [('code', '')],
    '3.9': [('code', '')],
}


# Exercise 3.1 · sentences in one tensor · easy · 6 min
def pad(sentences, pad_id=0):
    """Lists of token ids to token_ids (b, n) and attention_mask (b, n), True at real tokens."""
    ### BEGIN SOLUTION
    max_len = max(len(sentence) for sentence in sentences)
    token_ids = torch.tensor(
        [sentence + [pad_id] * (max_len - len(sentence)) for sentence in sentences]
    )
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return token_ids, torch.arange(max_len) < lengths.unsqueeze(1)
    ### END SOLUTION


# Exercise 3.2 · one RNN step · easy · 5 min
def rnn_step(x, h, W_ih, W_hh, bias):
    """x (b, d), h (b, w), W_ih (w, d), W_hh (w, w), bias (w,) to the next hidden state (b, w)."""
    ### BEGIN SOLUTION
    return torch.tanh(x @ W_ih.T + h @ W_hh.T + bias)
    ### END SOLUTION


# Exercise 3.3 · unroll a recurrent network · easy · 6 min
def unroll(x, h, step):
    """x (b, n, d), h (b, w) to all hidden states (b, n, w) and the final one (b, w)."""
    ### BEGIN SOLUTION
    states = []
    for x_t in x.unbind(1):
        h = step(x_t, h)
        states.append(h)
    return torch.stack(states, 1), h
    ### END SOLUTION


# Exercise 3.4 · the dot score · easy · 4 min
def dot_score(query, keys):
    """query (b, m, d), keys (b, n, d) to scores (b, m, n)."""
    ### BEGIN SOLUTION
    return query @ keys.transpose(1, 2)
    ### END SOLUTION


# Exercise 3.5 · the multiplicative score · medium · 6 min
class MultiplicativeScore(nn.Module):
    def __init__(self, query_size, key_size):
        super().__init__()
        self.W = nn.Linear(query_size, key_size, bias=False)

    def forward(self, query, keys):
        """query (b, m, query_size), keys (b, n, key_size) to scores (b, m, n)."""
        ### BEGIN SOLUTION
        return dot_score(self.W(query), keys)
        ### END SOLUTION


# Exercise 3.6 · the additive score · medium · 10 min · optional
class AdditiveScore(nn.Module):
    def __init__(self, query_size, key_size, score_size):
        super().__init__()
        self.W = nn.Linear(query_size, score_size, bias=False)
        self.U = nn.Linear(key_size, score_size, bias=False)
        self.v = nn.Linear(score_size, 1, bias=False)

    def forward(self, query, keys):
        """query (b, m, query_size), keys (b, n, key_size) to scores (b, m, n)."""
        ### BEGIN SOLUTION
        pairs = self.W(query).unsqueeze(2) + self.U(keys).unsqueeze(1)  # (b, m, n, score_size)
        return self.v(torch.tanh(pairs)).squeeze(-1)
        ### END SOLUTION


# Exercise 3.7 · a step of the decoder · hard · 20 min
class AttentionDecoder(nn.Module):
    def __init__(self, vocab_size, hidden_size, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.cell = nn.GRUCell(hidden_size, hidden_size)
        self.score = score
        self.combine = nn.Linear(2 * hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, vocab_size)

    def forward(self, token_ids, state, memory, source_mask):
        """One step: logits (b, vocab_size), new state (b, w), attention weights (b, n)."""
        ### BEGIN SOLUTION
        state = self.cell(self.embedding(token_ids), state)
        scores = self.score(state.unsqueeze(1), memory)  # (b, 1, n)
        context, weights = attend(scores, memory, source_mask.unsqueeze(-2))
        both = torch.cat([state, context.squeeze(1)], -1)  # (b, 2 w)
        return self.output(torch.tanh(self.combine(both))), state, weights.squeeze(1)
        ### END SOLUTION


# Exercise 3.8 · greedy decoding · medium · 18 min
def greedy_decode(step, state, bos_id, eos_id, max_len):
    """step(token_ids, state) -> logits, state. Returns the most probable token ids (b, m)."""
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


# Exercise 3.9 · the alignment error rate · medium · 10 min
def alignment_error(weights, links):
    """AER of weights (m, n) and links, a set of (source position, target position)."""
    ### BEGIN SOLUTION
    predicted = {(source, target) for target, source in enumerate(weights.argmax(1).tolist())}
    return 1 - 2 * len(predicted & links) / (len(predicted) + len(links))
    ### END SOLUTION

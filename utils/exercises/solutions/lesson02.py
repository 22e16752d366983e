"""Solutions of lesson 02, written by `make notebooks` from notebooks/src/02_memory_network.py: edit that."""

from torch import nn
from utils.models import attention
import torch
import torch.nn.functional as F

# The id of each exercise's cell
CELLS = {
    '2.1': '6a157ae85845',
    '2.2': '4f86522fa754',
    '2.3': 'd8d435a1b00a',
    '2.4': '0a0d96407a6d',
    '2.5': '10f8c386ee96',
    '2.6': 'a7407d470dcc',
    '2.7': 'dfbe2efeccc8',
    '2.8': 'afddba484932',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '2.1': [('code', ''), ('figure', '')],
    '2.2': [('code', '')],
    '2.3': [('code', ''), ('code', 'Linear start and random noise')],
    '2.4': [('code', ''), ('code', 'Linear start and random noise')],
    '2.5': [('code', ''), ('code', 'Training: SGD and Adam'), ('training loop', 'Training: SGD and Adam'), ('code', 'SGD against Adam'), ('code', 'The same parameters in your network')],
    '2.6': [('code', '')],
    '2.7': [('code', '')],
    '2.8': [('code', '')],
}


# Exercise 2.1 · position encoding · easy · 8 min
def position_encoding(length, dim):
    """Position encoding (length, dim): the weight of token j of a sentence in component i."""
    ### BEGIN SOLUTION
    j = torch.arange(1, length + 1) - (length + 1) / 2
    i = torch.arange(1, dim + 1) - (dim + 1) / 2
    return 1 + 4 * j[:, None] * i[None, :] / (dim * length)
    ### END SOLUTION


# Exercise 2.2 · sentence embeddings · medium · 10 min
def encode_sentences(token_ids, embedding, position_weights=None):
    """Token ids (..., j), -1 for padding, and an embedding matrix (vocab_size, d) to sentence embeddings (..., d).

    position_weights (j, d) or None: the weight of each position in each component.
    """
    ### BEGIN SOLUTION
    vectors = embedding[token_ids.clamp_min(0)]
    if position_weights is not None:
        vectors = vectors * position_weights
    return (vectors * (token_ids >= 0).unsqueeze(-1)).sum(-2)
    ### END SOLUTION


# Exercise 2.3 · one hop · easy · 10 min
def memory_hop(state, key, value, mask=None):
    """state (..., d), key and value (..., n, d), mask (..., n) to context (..., d) and attention weights (..., n).

    Where a mask is all False, both results are zeros.
    """
    ### BEGIN SOLUTION
    mask = None if mask is None else mask.unsqueeze(-2)
    context, weights = attention(state.unsqueeze(-2), key, value, mask, scale=1)
    return context.squeeze(-2), weights.squeeze(-2)
    ### END SOLUTION


# Exercise 2.4 · temporal index · medium · 8 min
def temporal_index(mask):
    """mask (..., n) bool: statements, oldest first, then padding (False).

    Returns the temporal index (..., n): 0 for the newest statement, 1 for the one before; 0 for padding too.
    """
    ### BEGIN SOLUTION
    count = mask.sum(-1, keepdim=True)
    return (count - mask.cumsum(-1)).masked_fill(~mask, 0)
    ### END SOLUTION


# Exercise 2.5 · the memory network · hard · 30 min
class MemoryNetwork(nn.Module):
    def __init__(self, vocab_size, num_hops=3, dim=20, memory_size=50, max_len=8):
        super().__init__()
        self.num_hops = num_hops
        self.embeddings = nn.Parameter(0.1 * torch.randn(num_hops + 1, vocab_size, dim))
        self.temporal_embeddings = nn.Parameter(0.1 * torch.randn(num_hops + 1, memory_size, dim))
        self.register_buffer("position_weights", position_encoding(max_len, dim))

    def forward(self, story, question, mask):
        """story (b, n, j), question (b, j), mask (b, n) to logits (b, vocab_size), weights (b, num_hops, n)."""
        ### BEGIN SOLUTION
        index, memories, attention_weights = temporal_index(mask), [], []
        for embedding, temporal in zip(self.embeddings, self.temporal_embeddings, strict=True):
            sentences = encode_sentences(story, embedding, self.position_weights)
            memories.append(sentences + temporal[index])
        state = encode_sentences(question, self.embeddings[0], self.position_weights)
        for hop in range(self.num_hops):
            context, weights = memory_hop(state, memories[hop], memories[hop + 1], mask)
            state = state + context
            attention_weights.append(weights)
        return state @ self.embeddings[-1].T, torch.stack(attention_weights, 1)
        ### END SOLUTION


# Exercise 2.6 · linear hop · easy · 10 min
def linear_hop(state, key, value, mask):
    """Like `memory_hop`, but the weights are the scores themselves, 0 at padding."""
    ### BEGIN SOLUTION
    weights = (key @ state.unsqueeze(-1)).squeeze(-1).masked_fill(~mask, 0.0)
    return (weights.unsqueeze(-2) @ value).squeeze(-2), weights
    ### END SOLUTION


# Exercise 2.7 · supporting facts found · medium · 12 min
def facts_found(weights, fact):
    """weights (b, hops, n), fact (b, n) bool, to (b,) bool: is each fact the top sentence of some hop?"""
    ### BEGIN SOLUTION
    tops = F.one_hot(weights.argmax(-1), weights.size(-1)).sum(-2) > 0
    return (tops | ~fact).all(-1)
    ### END SOLUTION


# Exercise 2.8 · a step of Adam · medium · 10 min · optional
def adam_step(parameter, gradient, m, v, t, learning_rate=0.1, beta1=0.9, beta2=0.999, eps=1e-8):
    """The new parameter and the new averages m and v, before bias correction; t counts the steps from 1."""
    ### BEGIN SOLUTION
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    return parameter - learning_rate * m_hat / (v_hat.sqrt() + eps), m, v
    ### END SOLUTION

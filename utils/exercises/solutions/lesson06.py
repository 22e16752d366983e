"""Solutions of lesson 06, written by `make notebooks` from notebooks/src/06_transformer.py: edit that."""

from torch import nn
from torch.nn.utils.rnn import pad_sequence
from utils.models.attention import MultiHeadAttention
from utils.models.attention import attention
from utils.models.attention import causal_mask
from utils.models.layers import Embedding
from utils.models.layers import FeedForward
from utils.models.layers import TransformerEncoder
import torch

# The id of each exercise's cell
CELLS = {
    '6.1': '593a4de0630a',
    '6.2': '2ff0a309540d',
    '6.3': '70f787925daf',
    '6.4': 'b32d6cf3b3b1',
    '6.5': '7c5cdf3d8fd1',
    '6.6': 'ea15cb96a390',
    '6.7': '0aad6218fe32',
    '6.8': '7cbd0ba65f08',
    '6.9': '8acf4366e88b',
    '6.10': 'ff8390a501f7',
    '6.11': 'e0009b8e73f0',
    '6.12': '0a97e064c5e0',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '6.1': [('code', '')],
    '6.2': [],
    '6.3': [('code', '')],
    '6.4': [('code', ''), ('code', 'The training loop'), ('training loop', 'The training loop'), ('code', 'Your classes, the trained parameters')],
    '6.5': [('code', ''), ('training loop', 'The training loop')],
    '6.6': [('code', ''), ('figure', ''), ('training loop', 'The training loop')],
    '6.7': [('code', ''), ('figure', ''), ('training loop', 'The training loop')],
    '6.8': [('code', 'Your classes, the trained parameters')],
    '6.9': [('code', '')],
    '6.10': [('code', '')],
    '6.11': [('code', '')],
    '6.12': [('code', '')],
}


# Exercise 6.1 · embeddings with positions · easy · 6 min · optional
def embed(token_ids, embedding, positions, start=0):
    """token_ids (b, n), embedding (V, d), positions (max_len, d) to (b, n, d).

    Token embeddings times the square root of d, plus positions; the first token is at `start`.
    """
    ### BEGIN SOLUTION
    n, d = token_ids.size(1), embedding.size(1)
    return embedding[token_ids] * d**0.5 + positions[start : start + n]
    ### END SOLUTION


# Exercise 6.2 · cross-attention · easy · 6 min · optional
def cross_attention(x, memory, W_Q, W_K, W_V, mask=None):
    """Target x (b, m, d) attends to memory (b, n, d); W (d, d_k); mask (b, n), True at tokens.

    Returns output (b, m, d_k) and weights (b, m, n).
    """
    ### BEGIN SOLUTION
    if mask is not None:
        mask = mask.unsqueeze(1)  # (b, 1, n): the same for all m queries
    return attention(x @ W_Q, memory @ W_K, memory @ W_V, mask)
    ### END SOLUTION


# Exercise 6.3 · the decoder layer · hard · 15 min
class DecoderLayer(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim):
        super().__init__()
        self.self_attn = MultiHeadAttention(dim, num_heads)
        self.cross_attn = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):
        """x (b, m, dim), memory (b, n, dim) to x, weights (b, num_heads, m, m), (b, num_heads, m, n).

        mask (m, m) or (b, m, m), memory_mask (b, 1, n): bool, True = may attend; None masks nothing.
        """
        ### BEGIN SOLUTION
        context, self_weights = self.self_attn(self.norm1(x), mask=mask, need_weights=True)
        x = x + context
        normed = self.norm2(x)
        context, cross_weights = self.cross_attn(normed, memory, memory_mask, need_weights=True)
        x = x + context
        return x + self.feed_forward(self.norm3(x)), self_weights, cross_weights
        ### END SOLUTION


# Given
class TransformerDecoder(nn.Module):
    def __init__(self, num_layers, dim, num_heads, hidden_dim):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(dim, num_heads, hidden_dim) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x, _, _ = layer(x, memory, mask, memory_mask)
        return self.norm(x)


# Exercise 6.4 · encode and decode · medium · 12 min
class Transformer(nn.Module):
    def __init__(
        self, source_vocab_size, target_vocab_size, dim, num_heads, hidden_dim, num_layers
    ):
        super().__init__()
        self.source_embedding = Embedding(source_vocab_size, dim)
        self.target_embedding = Embedding(target_vocab_size, dim)
        self.encoder = TransformerEncoder(num_layers, dim, num_heads, hidden_dim, norm_first=True)
        self.decoder = TransformerDecoder(num_layers, dim, num_heads, hidden_dim)
        self.lm_head = nn.Linear(dim, target_vocab_size, bias=False)
        self.lm_head.weight = self.target_embedding.token_embedding.weight  # weight tying

    def encode(self, source, source_mask):
        """source, source_mask (b, n) to memory (b, n, dim). `self.encoder` gives output and weights."""
        ### BEGIN SOLUTION
        return self.encoder(self.source_embedding(source), source_mask.unsqueeze(1))[0]
        ### END SOLUTION

    def decode(self, target, memory, source_mask):
        """target (b, m) to logits (b, m, V) of the token after each; no token sees later ones."""
        ### BEGIN SOLUTION
        x, mask = self.target_embedding(target), causal_mask(target.size(1))
        return self.lm_head(self.decoder(x, memory, mask, source_mask.unsqueeze(1)))
        ### END SOLUTION


# Exercise 6.5 · shifted targets · easy · 6 min
def shifted_targets(sequences, bos_id, eos_id, pad_id=0):
    """Lists of token ids to target_in and target_out, both (b, m): input and target of the decoder.

    `bos_id` comes before the input, `eos_id` after the target, padding behind both.
    """
    ### BEGIN SOLUTION
    inputs = [torch.tensor([bos_id, *token_ids]) for token_ids in sequences]
    outputs = [torch.tensor([*token_ids, eos_id]) for token_ids in sequences]
    target_in = pad_sequence(inputs, batch_first=True, padding_value=pad_id)
    return target_in, pad_sequence(outputs, batch_first=True, padding_value=pad_id)
    ### END SOLUTION


# Exercise 6.6 · the loss with label smoothing · medium · 12 min
def smoothed_loss(logits, targets, smoothing, pad_id=0):
    """logits (b, m, V), targets (b, m) to a scalar: the mean over all targets but padding."""
    ### BEGIN SOLUTION
    log_probs = logits.log_softmax(-1)
    target_log_probs = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (b, m)
    losses = -(1 - smoothing) * target_log_probs - smoothing * log_probs.mean(-1)
    return losses[targets != pad_id].mean()
    ### END SOLUTION


# Exercise 6.7 · the warm-up schedule · easy · 5 min · optional
def noam_rate(step, dim, warmup_steps):
    """The learning rate at `step`, counted from 1."""
    ### BEGIN SOLUTION
    return dim**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    ### END SOLUTION


# Exercise 6.8 · greedy decoding · medium · 15 min
def greedy_decode(model, source, source_mask, bos_id, eos_id, max_len):
    """The most probable token ids (b, m): EOS is part of them, 0 behind it, no BOS.

    `model` has `encode` and `decode`. Stops when all sequences have ended, or at `max_len` tokens.
    """
    ### BEGIN SOLUTION
    memory = model.encode(source, source_mask)
    token_ids = torch.full((len(source), 1), bos_id)
    active = torch.ones(len(source), dtype=torch.bool)
    while active.any() and token_ids.size(1) <= max_len:
        logits = model.decode(token_ids, memory, source_mask)[:, -1]
        token = logits.argmax(-1).masked_fill(~active, 0)
        token_ids = torch.cat([token_ids, token.unsqueeze(1)], 1)
        active = active & (token != eos_id)
    return token_ids[:, 1:]
    ### END SOLUTION


# Exercise 6.9 · a step with the key-value cache · medium · 10 min · optional
def cached_step(x, keys, values, W_Q, W_K, W_V):
    """The newest token x (b, 1, d) attends to itself and to all tokens before it.

    Their keys and values (b, t, d_k) are cached. Returns output (b, 1, d_k), and keys and values
    (b, t + 1, d_k) with those of the new token appended.
    """
    ### BEGIN SOLUTION
    keys = torch.cat([keys, x @ W_K], 1)
    values = torch.cat([values, x @ W_V], 1)
    output, _ = attention(x @ W_Q, keys, values)  # no later tokens: no mask
    return output, keys, values
    ### END SOLUTION


# Exercise 6.10 · a step of beam search · hard · 15 min
def beam_step(log_probs, next_log_probs, ended, num_beams):
    """log_probs (k,) of k hypotheses, next_log_probs (k, V) of the next token, ended (k,) bool.

    Returns log_probs, parent and token, each (num_beams,): the best continuations, best first.
    """
    ### BEGIN SOLUTION
    step = next_log_probs.masked_fill(ended.unsqueeze(1), float("-inf"))
    step[:, 0] = step[:, 0].masked_fill(ended, 0.0)
    log_probs, index = (log_probs.unsqueeze(1) + step).flatten().topk(num_beams)
    return log_probs, index // step.size(1), index % step.size(1)
    ### END SOLUTION


# Exercise 6.11 · beam search · medium · 15 min · optional
def beam_search(next_log_probs, bos_id, eos_id, max_len, num_beams):
    """next_log_probs(token_ids (k, m)) -> log-probabilities (k, V) of the next token; BOS first.

    Returns token_ids (num_beams, m) and log_probs (num_beams,), best first; 0 behind EOS, no BOS.
    Before EOS, 0 is an ordinary token.
    Stops when all hypotheses have ended, or at `max_len` tokens.
    """
    ### BEGIN SOLUTION
    token_ids, log_probs = torch.full((1, 1), bos_id), torch.zeros(1)
    ended = torch.zeros(1, dtype=torch.bool)
    while not ended.all() and token_ids.size(1) <= max_len:
        step = next_log_probs(token_ids)
        log_probs, parent, token = beam_step(log_probs, step, ended, num_beams)
        token_ids = torch.cat([token_ids[parent], token.unsqueeze(1)], 1)
        ended = ended[parent] | (token == eos_id)
    return token_ids[:, 1:], log_probs
    ### END SOLUTION


# Given
def next_log_probs(token_ids):
    """The hypotheses of one sentence are a batch, with the same memory for all."""
    k = len(token_ids)
    logits = untrained.decode(token_ids, memory.expand(k, -1, -1), first_mask.expand(k, -1))
    return logits[:, -1].log_softmax(-1)


# Exercise 6.12 · mask one key for one query · easy · 8 min
def ablation_mask(mask, queries, keys):
    """mask (b, m, n) bool, True = may attend; queries (b,), keys (b,) to a new mask (b, m, n)."""
    ### BEGIN SOLUTION
    mask = mask.clone()
    mask[torch.arange(len(mask)), queries, keys] = False
    return mask
    ### END SOLUTION

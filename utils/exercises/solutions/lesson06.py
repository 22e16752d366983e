"""Solutions of lesson 06, written by `make notebooks` from notebooks/src/06_transformer.py: edit that."""

from torch import nn
from torch.nn.utils.rnn import pad_sequence
from utils.models import attention
from utils.models.encoder import Encoder
from utils.models.encoder import FeedForward
from utils.models.encoder import LayerNorm
from utils.models.multi_head import MultiHeadAttention
from utils.models.self_attention import causal_mask
from utils.models.transformer import WordVectors
import torch


# Exercise 6.1 · word vectors with positions · easy · 6 min
def word_vectors(words, table, positions, start=0):
    """words (b, n), table (V, d), positions (longest, d) to (b, n, d).

    A row of the table times the root of d, plus the position; the first word is at `start`.
    """
    ### BEGIN SOLUTION
    n, d = words.size(1), table.size(1)
    return table[words] * d**0.5 + positions[start : start + n]
    ### END SOLUTION


# Exercise 6.2 · cross-attention · easy · 6 min
def cross_attention(x, memory, W_Q, W_K, W_V, mask=None):
    """Words x (b, m, d) look at memory (b, n, d); maps (d, d_k); mask (b, n), True at source words.

    Returns output (b, m, d_k) and weights (b, m, n).
    """
    ### BEGIN SOLUTION
    if mask is not None:
        mask = mask.unsqueeze(1)  # (b, 1, n): the same for all m words
    return attention(x @ W_Q, memory @ W_K, memory @ W_V, mask)
    ### END SOLUTION


# Exercise 6.3 · the decoder layer · hard · 15 min
class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, heads)
        self.cross_attention = MultiHeadAttention(dim, heads)
        self.feed_forward = FeedForward(dim, hidden)
        self.self_norm, self.cross_norm = LayerNorm(dim), LayerNorm(dim)
        self.feed_forward_norm = LayerNorm(dim)

    def forward(self, x, memory, mask=None, memory_mask=None):
        """x (b, m, dim) and memory (b, n, dim) to x, weights (b, heads, m, m), (b, heads, m, n).

        mask (m, m), memory_mask (b, 1, n): bool, True = may attend; None masks nothing.
        """
        ### BEGIN SOLUTION
        found, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)
        x = x + found
        asks = self.cross_norm(x)
        found, cross = self.cross_attention(asks, memory, memory_mask, need_weights=True)
        x = x + found
        return x + self.feed_forward(self.feed_forward_norm(x)), own, cross
        ### END SOLUTION


# Given
class Decoder(nn.Module):
    def __init__(self, layers, dim, heads, hidden):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, hidden) for _ in range(layers))
        self.final_norm = LayerNorm(dim)

    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x, _, _ = layer(x, memory, mask, memory_mask)
        return self.final_norm(x)


# Exercise 6.4 · encode and decode · medium · 12 min
class Transformer(nn.Module):
    def __init__(self, source_words, target_words, dim, heads, hidden, layers):
        super().__init__()
        self.source_vectors = WordVectors(source_words, dim)
        self.target_vectors = WordVectors(target_words, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre")  # gives vectors and weights
        self.decoder = Decoder(layers, dim, heads, hidden)
        self.output = nn.Linear(dim, target_words, bias=False)
        self.output.weight = self.target_vectors.table.weight  # one table, two uses

    def encode(self, source, source_mask):
        """source and mask (b, n), mask True at words; to memory (b, n, dim)."""
        ### BEGIN SOLUTION
        return self.encoder(self.source_vectors(source), source_mask.unsqueeze(1))[0]
        ### END SOLUTION

    def decode(self, target, memory, source_mask):
        """target (b, m) to logits (b, m, words) for the word after each; no word sees the next."""
        ### BEGIN SOLUTION
        x, mask = self.target_vectors(target), causal_mask(target.size(1))
        return self.output(self.decoder(x, memory, mask, source_mask.unsqueeze(1)))
        ### END SOLUTION


# Exercise 6.5 · shifted targets · easy · 6 min
def shifted_targets(sentences, start, end, padding=0):
    """Lists of word numbers to target_in and target_out, both (b, m): what is read, what is said.

    `start` stands in front of what is read, `end` behind what is said, padding behind both.
    """
    ### BEGIN SOLUTION
    read = [torch.tensor([start, *words]) for words in sentences]
    said = [torch.tensor([*words, end]) for words in sentences]
    target_in = pad_sequence(read, batch_first=True, padding_value=padding)
    return target_in, pad_sequence(said, batch_first=True, padding_value=padding)
    ### END SOLUTION


# Exercise 6.6 · the loss with label smoothing · medium · 12 min
def smoothed_loss(logits, targets, smoothing, padding=0):
    """logits (b, m, V), targets (b, m) to one number: the mean over all targets but padding."""
    ### BEGIN SOLUTION
    log_p = logits.log_softmax(-1)
    of_target = log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (b, m)
    losses = -(1 - smoothing) * of_target - smoothing * log_p.mean(-1)
    return losses[targets != padding].mean()
    ### END SOLUTION


# Exercise 6.7 · the warm-up schedule · easy · 5 min
def warmup_rate(step, dim, warmup):
    """The learning rate at `step`, counted from 1."""
    ### BEGIN SOLUTION
    return dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ### END SOLUTION


# Exercise 6.8 · greedy decoding · medium · 10 min
def greedy_decode(model, source, source_mask, start, end, limit):
    """The likeliest words (b, m): the end token is part of them, 0 behind it, no start token.

    `model` has `encode` and `decode`. Stops when all have said `end`, or at `limit` words.
    """
    ### BEGIN SOLUTION
    memory = model.encode(source, source_mask)
    words = torch.full((len(source), 1), start)
    going = torch.ones(len(source), dtype=torch.bool)
    while going.any() and words.size(1) <= limit:
        logits = model.decode(words, memory, source_mask)[:, -1]
        word = logits.argmax(-1).masked_fill(~going, 0)
        words = torch.cat([words, word.unsqueeze(1)], 1)
        going = going & (word != end)
    return words[:, 1:]
    ### END SOLUTION


# Exercise 6.9 · a step with the key-value cache · medium · 8 min
def cached_step(x, keys, values, W_Q, W_K, W_V):
    """The newest word x (b, 1, d) looks at itself and at all words before it.

    Their keys and values (b, t, d_k) are kept. Returns output (b, 1, d_k), and keys and values
    (b, t + 1, d_k) with the new word's behind.
    """
    ### BEGIN SOLUTION
    keys = torch.cat([keys, x @ W_K], 1)
    values = torch.cat([values, x @ W_V], 1)
    output, _ = attention(x @ W_Q, keys, values)  # nothing lies behind the newest word: no mask
    return output, keys, values
    ### END SOLUTION


# Exercise 6.10 · beam search · hard · 20 min
def beam_search(next_words, start, end, limit, width):
    """next_words(words (k, m)) -> log-probabilities (k, V) of the next; rows begin with `start`.

    Returns words (width, m) and totals (width,), best first; 0 behind `end`, no start token.
    Before `end`, 0 is an ordinary token.
    Stops when all in the beam have ended, or at `limit` words.
    """
    ### BEGIN SOLUTION
    words, total = torch.full((1, 1), start), torch.zeros(1)
    ended = torch.zeros(1, dtype=torch.bool)
    while not ended.all() and words.size(1) <= limit:
        step = next_words(words).masked_fill(ended.unsqueeze(1), float("-inf"))
        step[:, 0] = step[:, 0].masked_fill(ended, 0.0)
        total, place = (total.unsqueeze(1) + step).flatten().topk(width)
        parent, word = place // step.size(1), place % step.size(1)
        words = torch.cat([words[parent], word.unsqueeze(1)], 1)
        ended = ended[parent] | (word == end)
    return words[:, 1:], total
    ### END SOLUTION


# Given
def next_words(words):
    """The beginnings of one sentence are a batch, with the same memory for all."""
    k = len(words)
    logits = model.decode(words, memory.expand(k, -1, -1), one_mask.expand(k, -1))
    return logits[:, -1].log_softmax(-1)

"""Solutions of lesson 07, written by `make notebooks` from notebooks/src/07_tokenize_and_pretrain.py: edit that."""

from collections import Counter
from itertools import pairwise
from torch import nn
from utils.data.bpe import SPECIAL_TOKENS
from utils.data.bpe import merge
from utils.models.attention import causal_mask
from utils.models.layers import Embedding
from utils.models.layers import TransformerEncoder
from utils.training.trainer import IGNORE_INDEX
import torch
import torch.nn.functional as F

# The id of each exercise's cell
CELLS = {
    '7.1': '556b7f2bc6d6',
    '7.2': 'a708bebf4872',
    '7.3': '34929197e514',
    '7.4': 'fb5e08350c01',
    '7.5': '3463640ccdb1',
    '7.6': '038234b9f9ef',
    '7.7': '5604ed4bca1c',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '7.1': [('code', ''), ('code', 'The whole corpus')],
    '7.2': [('code', '')],
    '7.3': [('code', ''), ('training loop', 'All three, trained')],
    '7.4': [('code', ''), ('code', 'Back to the translator')],
    '7.5': [('code', ''), ('code', 'All three, trained'), ('training loop', 'All three, trained'), ('code', 'Fill in the mask')],
    '7.6': [('code', ''), ('code', 'The next-token distribution'), ('widget', 'The next-token distribution')],
    '7.7': [('code', ''), ('widget', '')],
}


# Exercise 7.1 · byte-pair merges · medium · 22 min
def bpe_merges(counts, num_merges):
    """counts {word: frequency} to the first `num_merges` merges, a list of pairs (left, right).

    Fewer are returned when no pair is left.
    """
    ### BEGIN SOLUTION
    split = {word: list(word) for word in counts}
    vocab = sorted(set("".join(counts)))  # the index of a token is its id
    merges = []
    while len(merges) < num_merges:
        pairs = Counter()
        for word, tokens in split.items():
            for pair in pairwise(tokens):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], -vocab.index(p[0]), -vocab.index(p[1])))
        merges.append(best)
        vocab.append("".join(best))
        split = {word: merge(tokens, best) for word, tokens in split.items()}
    return merges
    ### END SOLUTION


# Exercise 7.2 · split a word · easy · 8 min
def bpe_split(word, merges):
    """A word and the learned merges to the list of its tokens; the first merge is applied first."""
    ### BEGIN SOLUTION
    tokens = list(word)
    for pair in merges:
        tokens = merge(tokens, pair)
    return tokens
    ### END SOLUTION


# Exercise 7.3 · masked tokens · medium · 12 min
def mask_tokens(token_ids, attention_mask, mask_id, vocab_size, mask_prob=0.15, generator=None):
    """token_ids (b, n), attention_mask (b, n), to inputs, targets and chosen (bool), all (b, n).

    Random ids run from len(SPECIAL_TOKENS) to vocab_size - 1.
    """
    ### BEGIN SOLUTION
    ordinary = attention_mask & (token_ids >= len(SPECIAL_TOKENS))
    chosen = (torch.rand(token_ids.shape, generator=generator) < mask_prob) & ordinary
    draw = torch.rand(token_ids.shape, generator=generator)
    random_ids = torch.randint(
        len(SPECIAL_TOKENS), vocab_size, token_ids.shape, generator=generator
    )
    inputs = torch.where(chosen & (draw < 0.8), mask_id, token_ids)
    inputs = torch.where(chosen & (draw >= 0.8) & (draw < 0.9), random_ids, inputs)
    return inputs, torch.where(chosen, token_ids, IGNORE_INDEX), chosen
    ### END SOLUTION


# Exercise 7.4 · span corruption · medium · 10 min
def corrupt_spans(token_ids, spans, sentinel_ids):
    """token_ids, a list; spans [(start, end), ...]; sentinel_ids, a list, to source and target, two lists."""
    ### BEGIN SOLUTION
    source, target, position = [], [], 0
    for i, (start, end) in enumerate(spans):
        source += [*token_ids[position:start], sentinel_ids[i]]
        target += [sentinel_ids[i], *token_ids[start:end]]
        position = end
    return source + token_ids[position:], target + [sentinel_ids[len(spans)]]
    ### END SOLUTION


# Exercise 7.5 · the masked model · medium · 10 min · optional
class MaskedLM(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers):
        super().__init__()
        self.embedding = Embedding(vocab_size, dim)
        self.encoder = TransformerEncoder(
            num_layers, dim, num_heads, hidden_dim, norm_first=True, activation="gelu"
        )
        self.lm_head = nn.Linear(dim, vocab_size)
        self.lm_head.weight = self.embedding.token_embedding.weight  # weight tying

    def encode(self, token_ids, attention_mask):
        """token_ids (b, n), attention_mask (b, n), to hidden states (b, n, dim)."""
        ### BEGIN SOLUTION
        return self.encoder(self.embedding(token_ids), attention_mask.unsqueeze(1))[0]
        ### END SOLUTION

    def forward(self, token_ids, attention_mask):
        """Logits (b, n, vocab_size) for the token at each position."""
        ### BEGIN SOLUTION
        return self.lm_head(self.encode(token_ids, attention_mask))
        ### END SOLUTION


# Exercise 7.6 · the causal model and its loss · medium · 12 min
class CausalLM(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers):
        super().__init__()
        self.embedding = Embedding(vocab_size, dim)
        self.encoder = TransformerEncoder(
            num_layers, dim, num_heads, hidden_dim, norm_first=True, activation="gelu"
        )
        self.lm_head = nn.Linear(dim, vocab_size)
        self.lm_head.weight = self.embedding.token_embedding.weight  # weight tying

    def forward(self, token_ids):
        """token_ids (b, n) to logits (b, n, vocab_size) for the next token."""
        ### BEGIN SOLUTION
        x, _ = self.encoder(self.embedding(token_ids), causal_mask(token_ids.size(1)))
        return self.lm_head(x)
        ### END SOLUTION

    def loss(self, token_ids, attention_mask):
        """Mean cross-entropy of the next token, over next tokens that are not padding: a scalar."""
        ### BEGIN SOLUTION
        logits, targets = self(token_ids)[:, :-1], token_ids[:, 1:]
        losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        return losses[attention_mask[:, 1:]].mean()
        ### END SOLUTION


# Exercise 7.7 · the next token: temperature, top-k, top-p · medium · 22 min
def next_token_probs(logits, temperature=1.0, top_k=None, top_p=None):
    """logits (vocab_size,) to probabilities (vocab_size,): temperature, then top-k, then top-p."""
    ### BEGIN SOLUTION
    probs, order = (logits / temperature).softmax(-1).sort(descending=True)
    if top_k is not None:
        probs[top_k:] = 0
        probs = probs / probs.sum()
    if top_p is not None:
        before = probs.cumsum(0) - probs  # the probability of all tokens that are more probable
        probs[before >= top_p] = 0
        probs = probs / probs.sum()
    return torch.zeros_like(probs).scatter(0, order, probs)
    ### END SOLUTION

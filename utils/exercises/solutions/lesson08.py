"""Solutions of lesson 08, written by `make notebooks` from notebooks/src/08_fine_tune_and_transfer.py: edit that."""

from torch import nn
import torch
import torch.nn.functional as F

# The id of each exercise's cell
CELLS = {
    '8.1': 'e3fc66478e70',
    '8.2': '9e2589044a46',
    '8.3': '852b3058f38c',
    '8.4': 'efc31a96f0b3',
    '8.5': '336def9aff19',
    '8.6': 'a63dac5c843c',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '8.1': [('code', ''), ('code', 'Full fine-tuning'), ('code', 'LoRA in every attention layer')],
    '8.2': [('code', ''), ('code', 'LoRA in every attention layer'), ('code', 'LoRA can be removed, or merged')],
    '8.3': [('code', '')],
    '8.4': [('code', '')],
    '8.5': [('code', '')],
    '8.6': [('code', '')],
}


# Exercise 8.1 · a classifier on top · easy · 10 min
class SequenceClassifier(nn.Module):
    def __init__(self, body, dim, num_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(dim, num_classes)
        nn.init.normal_(self.head.weight, std=0.02)  # at first all classes are about as probable
        nn.init.zeros_(self.head.bias)

    def forward(self, token_ids, attention_mask):
        """token_ids (b, n), attention_mask (b, n) True at tokens, to logits (b, num_classes)."""
        ### BEGIN SOLUTION
        hidden_states = self.body.encode(token_ids, attention_mask)
        total = (hidden_states * attention_mask.unsqueeze(-1)).sum(1)
        return self.head(total / attention_mask.sum(1, keepdim=True))
        ### END SOLUTION


# Exercise 8.2 · low-rank adaptation · medium · 15 min
class LoRALinear(nn.Module):
    def __init__(self, linear, rank, scale=1.0):
        """Store `self.linear`, frozen, and `self.scale`.

        New: `self.lora_A` (rank, in_features), random; `self.lora_B` (out_features, rank), zeros.
        """
        ### BEGIN SOLUTION
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), scale
        inputs, outputs = linear.in_features, linear.out_features
        self.lora_A = nn.Parameter(torch.randn(rank, inputs) * inputs**-0.5)
        self.lora_B = nn.Parameter(torch.zeros(outputs, rank))
        ### END SOLUTION

    def forward(self, x):
        """x (..., in_features) to (..., out_features): the frozen layer plus scale B (A x)."""
        ### BEGIN SOLUTION
        return self.linear(x) + self.scale * (x @ self.lora_A.T @ self.lora_B.T)
        ### END SOLUTION


# Exercise 8.3 · linear interpolation · easy · 5 min
def interpolate(start, end, fraction):
    """start and end {name: tensor} to new parameters: `start` at fraction 0, `end` at fraction 1."""
    ### BEGIN SOLUTION
    return {name: start[name] + fraction * (end[name] - start[name]) for name in start}
    ### END SOLUTION


# Exercise 8.4 · merge LoRA into the weight · easy · 8 min
def merge_lora(layer):
    """layer: a LoRALinear with `linear`, `lora_A`, `lora_B`, `scale`; to a new nn.Linear."""
    ### BEGIN SOLUTION
    out_features, in_features = layer.linear.weight.shape
    merged = nn.Linear(in_features, out_features)
    with torch.no_grad():
        merged.weight.copy_(layer.linear.weight + layer.scale * layer.lora_B @ layer.lora_A)
        merged.bias.copy_(layer.linear.bias)
    return merged
    ### END SOLUTION


# Exercise 8.5 · a token in several contexts · medium · 12 min
def token_similarity(hidden_states, positions):
    """hidden_states (num_layers + 1, b, n, dim), positions (b,) to cosines (num_layers + 1, b, b)."""
    ### BEGIN SOLUTION
    texts = torch.arange(len(positions))
    states = F.normalize(hidden_states[:, texts, positions], dim=-1)  # (num_layers + 1, b, dim)
    return states @ states.transpose(-2, -1)
    ### END SOLUTION


# Exercise 8.6 · where the attention goes · medium · 12 min
def attention_to(attention_weights, queries, keys):
    """attention_weights (b, num_heads, n, n), queries and keys (b, n) bool, to (num_heads,)."""
    ### BEGIN SOLUTION
    to_keys = (attention_weights * keys[:, None, None, :]).sum(-1)  # (b, num_heads, n)
    return (to_keys * queries[:, None, :]).sum((0, 2)) / queries.sum()
    ### END SOLUTION

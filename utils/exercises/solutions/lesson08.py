"""Solutions of lesson 08, written by `make notebooks` from notebooks/src/08_fine_tune_and_transfer.py: edit that."""

from torch import nn
import torch


# Exercise 8.1 · a classifier on top · easy · 8 min
class Classifier(nn.Module):
    def __init__(self, body, dim, classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(dim, classes)
        nn.init.normal_(self.head.weight, std=0.02)  # at first all classes are about as likely
        nn.init.zeros_(self.head.bias)

    def forward(self, numbers, real):
        """numbers (b, n), real (b, n) True at pieces, to logits (b, classes)."""
        ### BEGIN SOLUTION
        vectors = self.body.vectors(numbers, real)
        total = (vectors * real.unsqueeze(-1)).sum(1)
        return self.head(total / real.sum(1, keepdim=True))
        ### END SOLUTION


# Exercise 8.2 · a low-rank adapter · medium · 12 min
class LowRank(nn.Module):
    def __init__(self, linear, rank, scale=1.0):
        """`linear` is frozen. New: `self.down` (rank, inputs) and `self.up` (outputs, rank).

        `up` starts at 0, `down` with random numbers of spread 1 / sqrt(inputs).
        """
        ### BEGIN SOLUTION
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), scale
        inputs, outputs = linear.in_features, linear.out_features
        self.down = nn.Parameter(torch.randn(rank, inputs) * inputs**-0.5)
        self.up = nn.Parameter(torch.zeros(outputs, rank))
        ### END SOLUTION

    def forward(self, x):
        """x (..., inputs) to (..., outputs): what the frozen layer gives, plus scale B (A x)."""
        ### BEGIN SOLUTION
        return self.linear(x) + self.scale * (x @ self.down.T @ self.up.T)
        ### END SOLUTION


# Exercise 8.3 · along the line · easy · 5 min
def along_the_line(start, end, share):
    """start and end {name: tensor} to new parameters: `start` at share 0, `end` at share 1."""
    ### BEGIN SOLUTION
    return {name: start[name] + share * (end[name] - start[name]) for name in start}
    ### END SOLUTION

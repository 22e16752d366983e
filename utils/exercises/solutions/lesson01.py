"""Solutions of lesson 01, written by `make notebooks` from notebooks/src/01_softmax_attention.py: edit that."""

import torch

# The id of each exercise's cell
CELLS = {
    '1.1': 'e60cd93dbc77',
    '1.2': 'ed6390b9116a',
    '1.3': 'edf80fbdada8',
    '1.4': 'ee77f19b706c',
    '1.5': '143d467e9905',
    '1.6': 'e0fc23354fa1',
    '1.7': '7aa5e3e42ed6',
    '1.8': 'ca4fa76563ea',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '1.1': [('code', ''), ('code', 'Temperature'), ('figure', 'Temperature'), ('widget', 'Temperature'), ('code', 'Softmax approximates argmax, not max'), ('code', 'Permutation equivariance'), ('code', 'A classifier head, and its loss'), ('code', 'Why attention scales its scores'), ('code', 'The Jacobian: how attention learns'), ('figure', 'The Jacobian: how attention learns'), ('code', 'Hard attention and REINFORCE (optional)'), ('figure', 'Hard attention and REINFORCE (optional)')],
    '1.2': [('code', ''), ('code', 'Guess the weights'), ('widget', 'Guess the weights'), ('widget', 'Drag the query'), ('code', 'The gradient with respect to the query'), ('code', '`attention`: scores by dot product')],
    '1.3': [('code', '')],
    '1.4': [('code', ''), ('code', 'The gradient with respect to the query')],
    '1.5': [('code', ''), ('code', 'From distance to dot product'), ('widget', 'Choose the bandwidth by hand')],
    '1.6': [('code', ''), ('code', 'A summary of fixed size, from a set of any size'), ('code', 'From distance to dot product')],
    '1.7': [('code', ''), ('training loop', 'Learn the bandwidth'), ('code', 'The attention map'), ('figure', 'The attention map')],
    '1.8': [('code', '')],
}


# Exercise 1.1 · a stable softmax · easy · 8 min
def softmax(logits, temperature=1.0):
    """Logits (..., n) to probabilities (..., n); each row along the last axis sums to 1."""
    ### BEGIN SOLUTION
    scaled = logits / temperature
    exponentials = (scaled - scaled.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)
    ### END SOLUTION


# Exercise 1.2 · soft lookup · easy · 6 min
def soft_lookup(query, keys, values):
    """query (d,), keys (n, d), values (n, e) to the output (e,) and the weights (n,)."""
    ### BEGIN SOLUTION
    weights = softmax(keys @ query)
    return weights @ values, weights
    ### END SOLUTION


# Exercise 1.3 · cosine scores · easy · 5 min
def cosine_scores(query, keys):
    """query (d,), keys (n, d) to the cosine of the query with each key (n,)."""
    ### BEGIN SOLUTION
    return keys @ query / (keys.norm(dim=-1) * query.norm())
    ### END SOLUTION


# Exercise 1.4 · the Jacobian of softmax · medium · 10 min
def softmax_jacobian(p):
    """p (n,), the output of a softmax, to J (n, n) with J[i, j] = dp[i] / dz[j]."""
    ### BEGIN SOLUTION
    return torch.diag(p) - torch.outer(p, p)
    ### END SOLUTION


# Exercise 1.5 · masked softmax and weighted sum · medium · 15 min
def attend(scores, value, mask=None):
    """Masked softmax of the scores, then the weighted sum of the values.

    scores (..., m, n), value (..., n, e), mask bool, broadcast to (..., m, n), True = may attend,
    to output (..., m, e) and weights (..., m, n). A fully masked row gives zeros.
    """
    ### BEGIN SOLUTION
    if mask is None:
        weights = softmax(scores)
    else:
        fully_masked = ~mask.any(-1, keepdim=True)
        masked = scores.masked_fill(~(mask | fully_masked), float("-inf"))
        weights = softmax(masked).masked_fill(fully_masked, 0.0)
    return weights @ value, weights
    ### END SOLUTION


# Exercise 1.6 · attention · easy · 8 min
def attention(query, key, value, mask=None, scale=None):
    """query (..., m, d), key (..., n, d), value (..., n, e)
    to output (..., m, e) and weights (..., m, n).
    """
    ### BEGIN SOLUTION
    scale = query.size(-1) ** -0.5 if scale is None else scale
    return attend(query @ key.transpose(-2, -1) * scale, value, mask)
    ### END SOLUTION


# Exercise 1.7 · kernel regression by attention · medium · 12 min
def kernel_regression(x_query, x, y, bandwidth, mask=None):
    """x_query (m,), x (n,), y (n,) to predictions (m,) and weights (m, n).

    mask (m, n) bool, True = may attend; a fully masked query gets zeros.
    """
    ### BEGIN SOLUTION
    distance = x_query[:, None] - x[None, :]
    output, weights = attend(-((distance / bandwidth) ** 2) / 2, y[:, None], mask)
    return output[:, 0], weights
    ### END SOLUTION


# Exercise 1.8 · the score-function estimator · medium · 10 min · optional
def reinforce_gradient(p, rewards, draws, baseline=0.0):
    """p (n,), rewards (n,), draws (s,) of indices
    to an estimate (n,) of the gradient of E[r] with respect to the logits.
    """
    ### BEGIN SOLUTION
    log_prob_gradients = torch.eye(len(p))[draws] - p  # (s, n)
    return ((rewards[draws] - baseline)[:, None] * log_prob_gradients).mean(0)
    ### END SOLUTION

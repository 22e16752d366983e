"""Solutions of lesson 09, written by `make notebooks` from notebooks/src/09_cost_and_scale.py: edit that."""

from utils.models import attention
import torch
import torch.nn.functional as F

# The id of each exercise's cell
CELLS = {
    '9.1': '86f1b41cb2f7',
    '9.2': 'ca0684bb7dd6',
    '9.3': '69245bd1c566',
    '9.4': '141c85ea6c78',
    '9.5': '57026536d8b9',
    '9.6': 'dd5dcbfdfcc7',
    '9.7': 'a417fee2b5e9',
    '9.8': '109d4a43f417',
    '9.9': 'b611759d6f33',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '9.1': [('figure', ''), ('code', 'A mask saves nothing')],
    '9.2': [('code', '')],
    '9.3': [('code', '')],
    '9.4': [('code', ''), ('code', 'Predict a held-out model')],
    '9.5': [('code', '')],
    '9.6': [('code', ''), ('code', 'The published weights')],
    '9.7': [('code', '')],
    '9.8': [('code', '')],
    '9.9': [('code', '')],
}


# Exercise 9.1 · the local mask · easy · 6 min
def local_attention_mask(n, window, causal=False):
    """(n, n) bool; row i is True at the positions that token i may attend to."""
    ### BEGIN SOLUTION
    position = torch.arange(n)
    offset = position - position[:, None]  # (n, n): of key j from query i
    return (offset.abs() <= window) & ((offset <= 0) if causal else True)
    ### END SOLUTION


# Exercise 9.2 · attention in blocks · hard · 30 min
def local_attention(query, key, value, window):
    """query, key, value (b, heads, n, d), window at least 1, to (b, heads, n, d); cost linear in n.

    The same as `attention` with `local_attention_mask`, and never a matrix of (n, n).
    """
    ### BEGIN SOLUTION
    n, w = query.size(2), window
    blocks = -(-n // w)  # the last one may be incomplete
    padding = blocks * w - n
    query = F.pad(query, (0, 0, 0, padding)).unflatten(2, (blocks, w))
    # A block of zeros at both ends; then windows of 3 w rows with stride w.
    key, value = (
        F.pad(x, (0, 0, w, w + padding)).unfold(2, 3 * w, w).transpose(-2, -1) for x in (key, value)
    )
    offset = torch.arange(-w, 2 * w) - torch.arange(w)[:, None]  # (w, 3 w)
    position = torch.arange(-w, 2 * w) + w * torch.arange(blocks)[:, None]  # (blocks, 3 w)
    inside = (position >= 0) & (position < n)
    output, _ = attention(query, key, value, (offset.abs() <= w) & inside[:, None])
    return output.flatten(2, 3)[:, :, :n]
    ### END SOLUTION


# Exercise 9.3 · projected keys · easy · 5 min · optional
def few_keys(query, key, value, projection):
    """query, key, value (..., n, d), projection (k, n), to (..., n, d): n queries, k projected keys."""
    ### BEGIN SOLUTION
    output, _ = attention(query, projection @ key, projection @ value)
    return output
    ### END SOLUTION


# Exercise 9.4 · a power law · medium · 10 min
def power_law_fit(x, y):
    """x, y (points,), all above 0, to coefficient a and exponent b of y = a x ** -b."""
    ### BEGIN SOLUTION
    x, y = x.log(), y.log()
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return (y.mean() - slope * x.mean()).exp(), -slope
    ### END SOLUTION


# Exercise 9.5 · RMSNorm · easy · 5 min
def rms_norm(x, weight, eps=1e-5):
    """x (..., dim), weight (dim,), to (..., dim)."""
    ### BEGIN SOLUTION
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight
    ### END SOLUTION


# Exercise 9.6 · SwiGLU · easy · 8 min
def swiglu(x, W, V, W_2):
    """x (..., dim); W, V (dim, hidden_dim), W_2 (hidden_dim, dim); to (..., dim)."""
    ### BEGIN SOLUTION
    return (F.silu(x @ W) * (x @ V)) @ W_2
    ### END SOLUTION


# Exercise 9.7 · grouped-query attention · medium · 12 min
def grouped_attention(query, key, value, mask=None):
    """query (b, num_heads, m, d), key, value (b, num_kv_heads, n, d), to (b, num_heads, m, d).

    mask (m, n) bool, True = may attend. num_kv_heads divides num_heads.
    """
    ### BEGIN SOLUTION
    group = query.size(1) // key.size(1)
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    return attention(query, key, value, mask)[0]
    ### END SOLUTION


# Exercise 9.8 · cut into patches · medium · 12 min
def patchify(images, size):
    """images (b, side, side) to (b, number of patches, size * size)."""
    ### BEGIN SOLUTION
    b, side, _ = images.shape
    rows = images.reshape(b, side // size, size, side // size, size)  # down, in it, across, in it
    return rows.transpose(2, 3).reshape(b, -1, size * size)
    ### END SOLUTION


# Exercise 9.9 · gradients of several workers · easy · 8 min · optional
def join_gradients(gradients, counts):
    """gradients (workers, ...), each of the mean loss over its worker's tokens; counts (workers,).

    Returns the gradient (...) of the mean loss over all tokens.
    """
    ### BEGIN SOLUTION
    weights = counts / counts.sum()
    return (gradients.movedim(0, -1) * weights).sum(-1)  # workers last, as in weights
    ### END SOLUTION

"""Solutions of lesson 09, written by `make notebooks` from notebooks/src/09_cost_and_scale.py: edit that."""

from textwrap import fill
from utils.models import attention
import torch


# Given
def slope(fit):
    return f"{fit['slope']:.2f} ± {fit['error']:.2f}"


# Exercise 9.1 · the local mask · easy · 5 min
def local_attention_mask(n, window, causal=False):
    """(n, n) bool; row i is True at the places that word i may look at."""
    ### BEGIN SOLUTION
    place = torch.arange(n)
    ahead = place - place[:, None]  # (n, n): how far key j stands behind query i
    return (ahead.abs() <= window) & ((ahead <= 0) if causal else True)
    ### END SOLUTION


# Exercise 9.2 · attention in blocks · hard · 20 min
def local_attention(query, key, value, window):
    """query, key, value (b, heads, n, d), window at least 1, to (b, heads, n, d); cost n · window.

    The same as `attention` with `local_attention_mask`, and never a matrix of (n, n).
    """
    ### BEGIN SOLUTION
    n, w = query.size(2), window
    blocks = -(-n // w)  # the last one may be incomplete
    fill = blocks * w - n
    query = torch.nn.functional.pad(query, (0, 0, 0, fill)).unflatten(2, (blocks, w))
    # One block of zeros before and one behind; then every 3 w rows, w further each time.
    key, value = (
        torch.nn.functional.pad(x, (0, 0, w, w + fill)).unfold(2, 3 * w, w).transpose(-2, -1)
        for x in (key, value)
    )
    ahead = torch.arange(-w, 2 * w) - torch.arange(w)[:, None]  # (w, 3 w)
    place = torch.arange(-w, 2 * w) + w * torch.arange(blocks)[:, None]  # (blocks, 3 w)
    inside = (place >= 0) & (place < n)
    output, _ = attention(query, key, value, (ahead.abs() <= w) & inside[:, None])
    return output.flatten(2, 3)[:, :, :n]
    ### END SOLUTION


# Exercise 9.3 · few keys · easy · 5 min
def few_keys(query, key, value, project):
    """query, key, value (..., n, d), project (k, n), to (..., n, d): n words look at k mixtures."""
    ### BEGIN SOLUTION
    output, _ = attention(query, project @ key, project @ value)
    return output
    ### END SOLUTION


# Exercise 9.4 · a power law · medium · 8 min
def power_law_fit(x, y):
    """x, y (points,), all above 0, to amount a and exponent b of y = a x ** -b."""
    ### BEGIN SOLUTION
    x, y = x.log(), y.log()
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return (y.mean() - slope * x.mean()).exp(), -slope
    ### END SOLUTION


# Exercise 9.5 · RMS norm · easy · 4 min
def rms_norm(x, gain, eps=1e-5):
    """x (..., dim), gain (dim,), to (..., dim)."""
    ### BEGIN SOLUTION
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain
    ### END SOLUTION


# Exercise 9.6 · gradients of several workers · easy · 5 min
def join_gradients(gradients, counts):
    """gradients (workers, ...), each of the mean loss over its worker's tokens; counts (workers,).

    Returns the gradient (...) of the mean loss over all tokens.
    """
    ### BEGIN SOLUTION
    shares = counts / counts.sum()
    return (gradients.movedim(0, -1) * shares).sum(-1)  # workers last, beside their shares
    ### END SOLUTION


# Exercise 9.7 · shared keys and values · medium · 10 min
def grouped_attention(query, key, value, mask=None):
    """query (b, heads, m, d), key and value (b, key_heads, n, d), mask (m, n), to (b, heads, m, d).

    Neighbouring query heads share a head of keys: with 6 and 2, heads 0 to 2 use the first.
    """
    ### BEGIN SOLUTION
    group = query.size(1) // key.size(1)
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    return attention(query, key, value, mask)[0]
    ### END SOLUTION


# Exercise 9.8 · cut into patches · medium · 8 min
def patches(images, size):
    """images (b, side, side) to (b, number of patches, size * size).

    Patches row by row from the top left, and so the pixels in each patch.
    """
    ### BEGIN SOLUTION
    b, side, _ = images.shape
    rows = images.reshape(b, side // size, size, side // size, size)  # down, in it, across, in it
    return rows.transpose(2, 3).reshape(b, -1, size * size)
    ### END SOLUTION

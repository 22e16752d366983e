"""The two functions that carry the whole course: `attend` turns scores into a summary, `attention` makes the scores."""

import torch
import torch.nn.functional as F
from torch import Tensor


def softmax(logits: Tensor, temperature: float = 1.0, dim: int = -1) -> Tensor:
    """Probabilities along `dim`; the largest logit is subtracted first, so no exponential overflows."""
    if temperature <= 0:
        raise ValueError(f"expected a temperature above 0, got {temperature}; for a hard choice use argmax")
    scaled = logits / temperature
    powers = (scaled - scaled.amax(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)


def attend(scores: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Turn each row of scores into weights and mix the `value` rows with them.

    scores (..., m, n), value (..., n, e), mask (..., m, n) bool, True = may look.
    Returns output (..., m, e) and weights (..., m, n). A row that may look nowhere gives zeros.
    """
    if scores.size(-1) != value.size(-2):
        raise ValueError(f"expected one value row for each of {scores.size(-1)} scores, got {value.size(-2)} rows")
    if mask is None:
        weights = scores.softmax(-1)
    else:
        _expect_mask(mask)
        # Minus infinity in a whole row would make 0/0: such a row keeps its scores and loses its weights instead.
        nowhere = ~mask.any(-1, keepdim=True)
        weights = scores.masked_fill(~(mask | nowhere), float("-inf")).softmax(-1).masked_fill(nowhere, 0.0)
    return weights @ value, weights


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    need_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Mix `value` rows by how well each `key` matches the `query`.

    query (..., m, d), key (..., n, d), value (..., n, e), mask (..., m, n) bool, True = may look;
    `scale=None` means one over the square root of d.
    Returns output (..., m, e) and weights (..., m, n), or None for the weights if they are not needed:
    then one fused kernel does the work and the weights never exist.
    """
    if need_weights:
        _expect_one_width(query, key)
        scale = query.size(-1) ** -0.5 if scale is None else scale
        return attend(query @ key.transpose(-2, -1) * scale, value, mask)
    # At small sizes a call costs as much as a kernel, so here the widths are looked at only when torch refuses them.
    if mask is not None and mask.dtype is not torch.bool:
        _expect_mask(mask)
    try:
        return F.scaled_dot_product_attention(query, key, value, mask, scale=scale), None
    except RuntimeError:
        _expect_one_width(query, key)
        raise


def _expect_one_width(query: Tensor, key: Tensor) -> None:
    if query.size(-1) != key.size(-1):
        raise ValueError(f"expected query and key of one width, got {query.size(-1)} and {key.size(-1)}")


def _expect_mask(mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(
            f"expected a bool mask in which True means 'may look', got {mask.dtype}; "
            "write `mask == 0` for an additive mask of zeros and minus infinities, `mask.bool()` for zeros and ones"
        )

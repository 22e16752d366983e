"""What the checks of several lessons draw and compare with: random inputs, masks, and looks that mask wrongly."""

import torch

from utils.course.checks import Wrong


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator)


def some_looks(generator, *shape):
    """A mask in which each row may look at something, and some rows not at everything."""
    mask = torch.rand(*shape, generator=generator) < 0.6
    somewhere = torch.randint(shape[-1], shape[:-1], generator=generator)
    return mask | (torch.arange(shape[-1]) == somewhere.unsqueeze(-1))


def nowhere_somewhere(generator, b, n):
    """A mask (b, n, n) in which one row may look nowhere, and one everywhere."""
    mask = some_looks(generator, b, n, n)
    mask[b - 1, 1] = False
    mask[0, 0] = True
    return mask


def masked_rows_give_zeros(row, by):
    """Raise `Wrong` unless the attention weights of a fully masked row are zeros; `by` handles such rows."""
    if row.isnan().any():
        raise Wrong(f"A fully masked row gives NaN: its softmax is 0/0. Pass the mask to `{by}`, which returns zeros.")
    if row.any():
        raise Wrong(f"A fully masked row attends to every key. Pass the mask to `{by}`, which returns zeros.")

"""What the checks of several lessons draw and compare with: random inputs, masks, and looks that mask wrongly."""

import torch


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


# Looks, (scores, value, mask) to (output, weights), with the mask in the wrong place or of the wrong kind


def masked_by(change):
    """A look with scores changed by the mask, change(scores, mask), and then the softmax."""

    def look(scores, value, mask=None):
        weights = (scores if mask is None else change(scores, mask)).softmax(-1)
        return weights @ value, weights

    return look


def masked_with(filler):
    """A look in which hidden scores become `filler`, whatever the row."""
    return masked_by(lambda scores, mask: scores.masked_fill(~mask, filler))


def masked_late(scores, value, mask=None):
    weights = scores.softmax(-1) if mask is None else scores.softmax(-1) * mask
    return weights @ value, weights


HIDES = "The mask is turned round: True already means 'may look', in `attention` as well."
WRONG_MASKS = [
    (
        masked_with(float("-inf")),
        "A token that may look nowhere got NaN, 0 divided by 0: it must get zeros. Pass the mask to `attention`, which takes "
        "care of such rows.",
    ),
    (
        masked_with(-1e9),
        "A token that may look nowhere got the average of all: it must get zeros. Pass the mask to `attention`, which takes "
        "care of such rows.",
    ),
    (
        masked_late,
        "The mask came after the softmax, so the weights of a row no longer add up to 1: it belongs before. Pass it to "
        "`attention`.",
    ),
]

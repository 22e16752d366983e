"""What the checks of several lessons share: random inputs and masks, the module that an answer builds."""

import inspect
from functools import cache

import torch
from torch import nn

from utils.checks.compare import Wrong, a_thing


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator)


def integers(generator, high, *shape, low=0):
    return torch.randint(low, high, shape, generator=generator)


def length_mask(lengths, n):
    """(b, n) bool: True at the first `lengths` tokens of each sequence."""
    return torch.arange(n) < torch.tensor(lengths).unsqueeze(1)


def random_mask(generator, *shape):
    """At least one True in each row."""
    mask = torch.rand(*shape, generator=generator) < 0.6
    allowed = torch.randint(shape[-1], shape[:-1], generator=generator)
    return mask | (torch.arange(shape[-1]) == allowed.unsqueeze(-1))


def mask_with_empty_row(generator, b, n):
    """A mask (b, n, n) with one row that is all False, and one that is all True."""
    mask = random_mask(generator, b, n, n)
    mask[b - 1, 1] = False
    mask[0, 0] = True
    return mask


def masked_rows_give_zeros(row, by):
    """Raise `Wrong` unless the attention weights of a fully masked row are zeros; `by` handles such rows."""
    if row.isnan().any():
        raise Wrong(f"A fully masked row gives NaN: its softmax is 0/0. Pass the mask to `{by}`, which returns zeros.")
    if row.any():
        raise Wrong(f"A fully masked row attends to every key. Pass the mask to `{by}`, which returns zeros.")


def built_module(answer, name, *args, **kwargs):
    """The module that an answer's class builds."""
    if not inspect.isclass(answer):
        raise Wrong(f"Expected a class, got {a_thing(answer)}. Restore the line `class {name}(nn.Module):`.")
    module = answer(*args, **kwargs)
    if not isinstance(module, nn.Module):
        raise Wrong(f"The class is not an `nn.Module`. Restore the line `class {name}(nn.Module):`.")
    return module


@cache
def parameter_shapes(module, *args, **kwargs):
    return {name: tuple(parameter.shape) for name, parameter in module(*args, **kwargs).named_parameters()}

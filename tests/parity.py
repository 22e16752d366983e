"""How alike are our modules and torch's with the same parameters, and two results of training? Shared by several tests."""

import torch
from torch import Tensor, nn

from utils.models.torch_weights import parameter_pairs

# The largest difference that is allowed, relative to the largest number of the tensor.
BARS = {torch.float64: 1e-10, torch.float32: 1e-5}
# Smaller numbers are rounding errors of those they were made from: a gradient that cancels to zero is one.
FLOORS = {torch.float64: 0.1, torch.float32: 0.25}


def assert_close(got: Tensor, want: Tensor, what: str = "") -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    assert got.isfinite().all() and want.isfinite().all()
    size = max(want.abs().max().item() if want.numel() else 0.0, FLOORS[want.dtype])
    error = (got - want).abs().max().item() if want.numel() else 0.0
    assert error <= BARS[want.dtype] * size, f"{what}: off by {error:.1e} where the largest is {size:.1e}"


def probe(x: Tensor) -> Tensor:
    """Numbers that weigh each element of x differently, so that a gradient in the wrong place shows."""
    return torch.arange(x.numel(), dtype=x.dtype).reshape(x.shape).cos()


def backward(output: Tensor) -> None:
    (output * probe(output)).sum().backward()


def assert_same_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    pairs = list(parameter_pairs(ours, theirs))
    assert len(pairs) == len(list(ours.parameters())) == len(list(theirs.parameters()))
    for mine, other in pairs:
        assert_close(mine.grad, other.grad, f"gradient of a parameter {tuple(mine.shape)}")


def scramble(module: nn.Module, seed: int) -> None:
    """Random parameters everywhere: fresh norms and biases are ones and zeros, which hide an exchange."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            spread = parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread + (parameter.dim() == 1) * 0.7)


def same_results(first, second) -> bool:
    """Equal results of a training, whatever is nested in them; seconds aside."""
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            same_results(first[key], second[key]) for key in first if key != "seconds"
        )
    return first == second

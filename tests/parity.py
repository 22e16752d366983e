"""Parity of two modules with the same parameters, and of two results of training. Shared by several tests."""

import torch
from torch import Tensor, nn

from utils.models.torch_weights import torch_names

# The largest difference that is allowed, relative to the largest absolute value of the tensor.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}
# A tensor of smaller values holds rounding errors of the values it was computed from: a gradient that cancels to zero.
SMALLEST_SCALES = {torch.float64: 0.1, torch.float32: 0.25}


def assert_close(actual: Tensor, expected: Tensor, what: str = "") -> None:
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    assert actual.isfinite().all() and expected.isfinite().all()
    if not expected.numel():
        return
    scale = max(expected.abs().max().item(), SMALLEST_SCALES[expected.dtype])
    error = (actual - expected).abs().max().item()
    assert error <= TOLERANCES[expected.dtype] * scale, f"{what}: error {error:.1e} at a scale of {scale:.1e}"


def backward(output: Tensor) -> None:
    """Backward from a sum that weights each element of the output differently, so that a misplaced gradient shows."""
    weights = torch.arange(output.numel(), dtype=output.dtype).reshape(output.shape).cos()
    (output * weights).sum().backward()


def assert_same_gradients(module: nn.Module, torch_module: nn.Module) -> None:
    """Every parameter of torch's module has a counterpart in `module` with the same gradient."""
    parameters, torch_parameters = dict(module.named_parameters()), dict(torch_module.named_parameters())
    names = torch_names(module)
    assert names.keys() == torch_parameters.keys()
    for torch_name, name in names.items():
        assert_close(parameters[name].grad, torch_parameters[torch_name].grad, f"gradient of {name}")


def randomize(module: nn.Module, seed: int) -> None:
    """Random parameters everywhere: norms and biases are initialized to ones and zeros, which hide a swap."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            std = parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * std + (parameter.dim() == 1) * 0.7)


def same_results(first, second) -> bool:
    """Equal results of training, whatever is nested in them; seconds aside."""
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            same_results(first[key], second[key]) for key in first if key != "seconds"
        )
    return first == second

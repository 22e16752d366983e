"""Copy parameters between these modules and those of `torch.nn`: they are the same tensors under almost the same names.

    torch_layer = to_torch(layer, nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, norm_first=True))
    layer = from_torch(torch_layer, EncoderLayer(12, 3, 20, norm_first=True))

When results are compared: torch's boolean masks are True where a token may *not* attend, and a fully masked row is NaN there.
"""

from torch import nn

# MultiHeadAttention and nn.MultiheadAttention, EncoderLayer and nn.TransformerEncoderLayer, ..., Transformer and nn.Transformer,
# which has neither embeddings nor an output layer.
RENAMED = (("in_proj.", "in_proj_"), ("cross_attn.", "multihead_attn."), ("feed_forward.", ""))


def torch_names(module: nn.Module) -> dict[str, str]:
    """The name in `module` of every parameter, by its name in torch's module of the same kind."""
    names = {}
    for name in module.state_dict():
        if not name.startswith(("lm_head.", "source_", "target_")):
            torch_name = name
            for part, torch_part in RENAMED:
                torch_name = torch_name.replace(part, torch_part)
            names[torch_name] = name
    return names


def to_torch(module: nn.Module, torch_module: nn.Module) -> nn.Module:
    """Copy the parameters into torch's module of the same kind and sizes; returns torch's module."""
    _expect_same_options(module, torch_module)
    state = module.state_dict()
    torch_module.load_state_dict({torch_name: state[name] for torch_name, name in torch_names(module).items()})
    return torch_module


def from_torch(torch_module: nn.Module, module: nn.Module) -> nn.Module:
    """Copy the parameters of torch's module into `module`; returns `module`."""
    _expect_same_options(module, torch_module)
    names = torch_names(module)
    state = {names.get(name, name): tensor for name, tensor in torch_module.state_dict().items()}
    kept = {name: tensor for name, tensor in module.state_dict().items() if name not in names.values()}
    module.load_state_dict(state | kept)
    return module


def _expect_same_options(module: nn.Module, torch_module: nn.Module) -> None:
    """Options that are no parameters but change the result."""
    options, torch_options = _options(module), _options(torch_module)
    if options != torch_options:
        raise ValueError(f"expected a torch module with the same options, {options}, got {torch_options}")


def _options(module: nn.Module) -> list[tuple]:
    """num_heads, norm order, activation and eps of all layers inside."""
    options = []
    for part in module.modules():
        if hasattr(part, "num_heads"):
            options.append(("num_heads", part.num_heads))
        if hasattr(part, "norm_first"):
            options.append(("norm_first", part.norm_first))
        if isinstance(part, nn.LayerNorm):
            options.append(("eps", part.eps))
        activation = getattr(part, "activation", None)
        if activation is not None:
            options.append(("activation", activation if isinstance(activation, str) else activation.__name__))
    return sorted(options, key=str)

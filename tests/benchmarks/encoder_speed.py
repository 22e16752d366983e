"""A training step of the course's encoder layer against PyTorch's."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from tests.benchmarks.benchmark import Benchmark, Shown, at_least
from tests.benchmarks.timing import cost_ratio
from utils.models.layers import EncoderLayer
from utils.models.torch_weights import to_torch

DROPOUTS = (0.0, 0.1)


def encoder_layer_speed(
    batch: int = 64,
    lengths: Sequence[int] = (16, 64, 256),
    dim: int = 128,
    num_heads: int = 4,
    hidden_dim: int = 512,
    rounds: int = 31,
) -> list[dict]:
    """One row per norm order, length and dropout: the speedup of a training step.

    A step is forward and backward over a padded batch. Without dropout the two compute the same; with it, torch drops
    attention weights and hidden units as well.
    """
    torch.set_num_threads(1)
    rows = []
    for norm_first in (True, False):
        for length in lengths:
            for dropout in DROPOUTS:
                layer = EncoderLayer(dim, num_heads, hidden_dim, norm_first=norm_first, dropout=dropout)
                torch_layer = nn.TransformerEncoderLayer(
                    dim, num_heads, hidden_dim, dropout=dropout, batch_first=True, norm_first=norm_first
                )
                to_torch(layer, torch_layer)
                x = torch.randn(batch, length, dim)
                attention_mask = torch.arange(length) < torch.randint(length // 2, length + 1, (batch, 1))
                mask = attention_mask.unsqueeze(1)
                cost = cost_ratio(
                    training_step(layer, partial(_output, layer, x, mask)),
                    training_step(torch_layer, partial(torch_layer, x, src_key_padding_mask=~attention_mask)),
                    rounds,
                )
                rows.append(
                    {
                        "norm": "pre" if norm_first else "post",
                        "length": length,
                        "dropout": dropout,
                        "speed": round(1 / cost, 2),
                    }
                )
    return rows


def _output(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    return layer(x, mask)[0]


def training_step(module: nn.Module, forward: Callable[[], Tensor]) -> Callable[[], None]:
    def step() -> None:
        module.zero_grad()
        forward().square().mean().backward()

    return step


def show(rows: list[dict]) -> Shown:
    return Shown(
        "Encoder layer against `nn.TransformerEncoderLayer`",
        "Speedup of a training step. With dropout PyTorch also drops attention weights and hidden units.",
        ("norm", "length", "dropout", "speedup"),
        [(f"{row['norm']}-norm", row["length"], row["dropout"], f"{row['speed']:.2f}x") for row in rows],
        [
            at_least(
                "training step of the encoder layer, speedup over PyTorch", min(row["speed"] for row in rows), 1.05, "x"
            )
        ],
    )


BENCHMARKS = (Benchmark("encoder_speed", "05", encoder_layer_speed, show, {"lengths": (16,), "rounds": 9}),)

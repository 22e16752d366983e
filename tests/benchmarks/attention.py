"""The run time of `attention` relative to PyTorch's kernel."""

import torch
import torch.nn.functional as F

from tests.benchmarks.benchmark import Benchmark, Shown, at_most
from tests.benchmarks.timing import cost_ratio
from utils.models import attention

# (batch, num_heads, queries and keys, head_dim)
SHAPES = ((1, 1, 8, 16), (16, 4, 32, 32), (8, 8, 128, 64), (2, 8, 512, 64))


def attention_costs(shapes=SHAPES, rounds: int = 41) -> list[dict]:
    """One row per shape and mask: time of the fused and of the explicit path over time of torch's kernel."""
    torch.set_num_threads(1)
    rows = []
    for shape in shapes:
        for masked in (False, True):
            query, key, value = torch.randn(3, *shape)
            mask = torch.ones(shape[-2], shape[-2], dtype=torch.bool).tril() if masked else None
            reference = _call(F.scaled_dot_product_attention, query, key, value, mask)
            fused = _call(attention, query, key, value, mask, need_weights=False)
            explicit = _call(attention, query, key, value, mask)
            rows.append(
                {
                    "shape": " x ".join(map(str, shape)),
                    "mask": masked,
                    "fused": round(cost_ratio(fused, reference, rounds), 2),
                    "explicit": round(cost_ratio(explicit, reference, rounds), 2),
                }
            )
    return rows


def _call(function, *arguments, **options):
    def run():
        with torch.no_grad():
            function(*arguments, **options)

    return run


def show(rows: list[dict]) -> Shown:
    return Shown(
        "`attention` against `F.scaled_dot_product_attention`",
        "Run time relative to PyTorch's kernel (1 = equal): the fused path, without attention weights, and the explicit path, with them.",
        ("batch x heads x length x head width", "mask", "fused", "explicit"),
        [
            (row["shape"], "causal" if row["mask"] else "none", f"{row['fused']:.2f}", f"{row['explicit']:.2f}")
            for row in rows
        ],
        [
            at_most(
                "fused `attention`, run time relative to PyTorch, slowest shape", max(row["fused"] for row in rows), 1.1
            )
        ],
    )


BENCHMARKS = (Benchmark("attention_costs", "01", attention_costs, show, {"shapes": ((16, 4, 32, 32),), "rounds": 11}),)

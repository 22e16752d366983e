"""Which modifications of the Transformer matter: one change at a time, at the same budget, over several seeds.

Each row is lesson 07's causal language model with one option of `EncoderConfig` changed. All have the same number of
parameters up to 2 %, by a matched feed-forward dimension (`matched_hidden_dim`), and see the same tokens in the same order,
so that differences to the base are paired by seed. Every row has its best learning rates: a quarter, half, once or twice
those of `scaling.learning_rates`, chosen on the validation set with another seed.

These are small models and short training runs. Narang et al. (2021, arXiv:2102.11972) compared many such changes in T5.
"""

import functools
from collections.abc import Sequence

import torch

from utils.data.real_text import topics_file
from utils.models.language_models import CausalLM, parameter_count
from utils.training.cache import cached
from utils.training.scaling import LENGTH, build, learning_rates, scaling_text, train_and_evaluate

DIM, HIDDEN_DIM = 64, 256
NUM_TOKENS = 300_000
FACTORS = (0.25, 0.5, 1.0, 2.0)  # on the learning rates
SEARCH_SEED = 100

BASE = "base"
CHANGES = {  # options of EncoderConfig
    BASE: {},
    "ReLU": {"activation": "relu"},
    "SwiGLU": {"activation": "swiglu"},
    "RMSNorm": {"norm": "rms"},
    "post-norm": {"norm_first": False},
    "learned positions": {"positions": "learned"},
    "rotary positions": {"positions": "rotary"},
    "untied embeddings": {"tied": False},
}


def changed_model(change: dict, hidden_dim: int) -> CausalLM:
    return build(DIM, hidden_dim=hidden_dim, max_len=LENGTH, **change)


def matched_hidden_dim(change: dict) -> int:
    """The feed-forward dimension that gives about as many parameters as the base has with `HIDDEN_DIM`."""
    with torch.random.fork_rng(devices=[]):
        budget = parameter_count(changed_model({}, HIDDEN_DIM))
        count = parameter_count(changed_model(change, HIDDEN_DIM))
        per_unit = parameter_count(changed_model(change, HIDDEN_DIM + 1)) - count
    return HIDDEN_DIM + round((budget - count) / per_unit)


@cached(data_files=lambda *_, **__: [topics_file()])
def modification_run(change: dict, seed: int = 0, *, factor: float = 1.0, num_tokens: int = NUM_TOKENS) -> dict:
    """Train one model. Returns parameters, and what `train_and_evaluate` returns."""
    model = functools.partial(changed_model, change, matched_hidden_dim(change))
    result = train_and_evaluate(model, scaling_text(), seed, num_tokens, learning_rates(DIM, factor))
    return {"parameters": parameter_count(model()), **result}


def best_factor(change: dict, factors: Sequence[float], num_tokens: int) -> float:
    """The factor on the learning rates with the lowest validation loss; a single factor needs no run."""
    if len(factors) == 1:
        return factors[0]

    def validation_loss(factor: float) -> float:
        return modification_run(change, SEARCH_SEED, factor=factor, num_tokens=num_tokens)["validation"]

    return min(factors, key=validation_loss)


def compare(
    changes: dict[str, dict] = CHANGES,
    seeds: int = 3,
    factors: Sequence[float] = FACTORS,
    num_tokens: int = NUM_TOKENS,
) -> list[dict]:
    """One row for each change: change, factor, parameters, loss (seeds,), improvement (seeds,) over the base with the same
    seed, and standard_error of its mean. Less than two standard errors is no difference."""
    rows = []
    for name, change in changes.items():
        factor = best_factor(change, factors, num_tokens)
        runs = [modification_run(change, seed, factor=factor, num_tokens=num_tokens) for seed in range(seeds)]
        loss = torch.tensor([result["test"] for result in runs], dtype=torch.float64)
        rows.append({"change": name, "factor": factor, "parameters": runs[0]["parameters"], "loss": loss})
    base = next(row["loss"] for row in rows if row["change"] == BASE)
    for row in rows:
        row["improvement"] = base - row["loss"]
        row["standard_error"] = (row["improvement"].std() / seeds**0.5).item()
    return rows


def seed_range(result: dict) -> float:
    """Seed noise in the stored result "modifications": the range of the base's loss over its seeds, in nats."""
    base = next(row["seeds"] for row in result["rows"] if row["change"] == result["base"])
    return max(base) - min(base)


def beyond_seed_noise(result: dict) -> list[str]:
    """The changes whose mean improvement, of either sign, exceeds `seed_range`, the largest first."""
    rows = [row for row in result["rows"] if abs(row["improvement"]) > seed_range(result)]
    return [row["change"] for row in sorted(rows, key=lambda row: -abs(row["improvement"]))]


SHORT = {name: CHANGES[name] for name in (BASE, "rotary positions")}


def short_comparison() -> list[dict]:
    """`compare` for a lesson: one change with a sixth of the tokens, at the learning rates of the base."""
    return compare(SHORT, 2, [1.0], NUM_TOKENS // 6)

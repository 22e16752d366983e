"""Which modifications of the Transformer matter: one change at a time, at the same budget, over several seeds.

Each row is lesson 07's causal language model with one option of `EncoderConfig` changed. All have the same number of
parameters up to 2 %, by a matched feed-forward dimension (`matched_hidden_dim`), and see the same tokens in the same order,
so that differences to the base are paired by seed. Every row has its best learning rates: a quarter, half, once or twice
those of `scaling.learning_rates`, chosen on the validation set with another seed.

These are small models and short training runs. What others found with large ones is in `LITERATURE`.
"""

from collections.abc import Callable, Sequence

import torch

from utils.data.real_text import topics_file
from utils.models.language_models import CausalLM, EncoderConfig, parameter_count
from utils.training.cache import cached
from utils.training.scaling import LENGTH, VOCAB_SIZE, learning_rates, scaling_text, train_and_evaluate

DIM, NUM_HEADS, HIDDEN_DIM, NUM_LAYERS = 64, 4, 256, 2
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

# What larger experiments found: of what, what, and where it is published.
LITERATURE = (
    (
        "all",
        "of many changes tried in one setting, T5's, most do not help; gated feed-forward networks and RMSNorm are among the few that do",
        "Narang et al. (2021), arXiv:2102.11972",
    ),
    (
        "activation",
        "gated feed-forward networks have a lower loss than those with ReLU or GELU, at equal parameters",
        "Shazeer (2020), arXiv:2002.05202",
    ),
    (
        "norm",
        "RMSNorm is about as good as layer normalization; without subtracting the mean, models ran 7 to 64 % faster",
        "Zhang and Sennrich (2019), arXiv:1910.07467",
    ),
    (
        "norm order",
        "post-norm has large gradients near the output at first and needs a warmup; pre-norm does well without one",
        "Xiong et al. (2020), arXiv:2002.04745",
    ),
    (
        "norm order",
        "with up to six layers, where both can be trained, post-norm ends better; with ten or more it often fails",
        "Takase et al. (2022), arXiv:2206.00330",
    ),
    (
        "positions",
        "rotary position embeddings did better than the alternatives at classifying long texts",
        "Su et al. (2021), arXiv:2104.09864",
    ),
    (
        "weight tying",
        "one embedding matrix for input and output lowers the perplexity of recurrent models, with far fewer parameters",
        "Press and Wolf (2017), arXiv:1608.05859",
    ),
    (
        "weight tying",
        "in large multilingual models untied embeddings allow parameters to be put where they help more",
        "Chung et al. (2020), arXiv:2010.12821",
    ),
)


def build(change: dict, hidden_dim: int, vocab_size: int = VOCAB_SIZE) -> CausalLM:
    return CausalLM(EncoderConfig(vocab_size, DIM, NUM_HEADS, hidden_dim, NUM_LAYERS, max_len=LENGTH, **change))


def matched_hidden_dim(change: dict, vocab_size: int = VOCAB_SIZE) -> int:
    """The feed-forward dimension that gives about as many parameters as the base has with `HIDDEN_DIM`."""
    with torch.random.fork_rng(devices=[]):
        budget = parameter_count(build({}, HIDDEN_DIM, vocab_size))
        count = parameter_count(build(change, HIDDEN_DIM, vocab_size))
        per_unit = parameter_count(build(change, HIDDEN_DIM + 1, vocab_size)) - count
    return HIDDEN_DIM + round((budget - count) / per_unit)


@cached(data_files=lambda *_, **__: [topics_file()])
def modification_run(
    change: dict,
    seed: int = 0,
    *,
    factor: float = 1.0,
    num_tokens: int = NUM_TOKENS,
    vocab_size: int = VOCAB_SIZE,
    num_texts: int | None = None,
) -> dict:
    """Train one model. Returns parameters, hidden_dim, and what `train_and_evaluate` returns."""
    hidden_dim = matched_hidden_dim(change, vocab_size)
    text = scaling_text(vocab_size, None, num_texts)
    return {
        "parameters": parameter_count(build(change, hidden_dim, vocab_size)),
        "hidden_dim": hidden_dim,
        **train_and_evaluate(
            lambda: build(change, hidden_dim, vocab_size), text, seed, num_tokens, learning_rates(DIM, factor)
        ),
    }


def best_factor(change: dict, factors: Sequence[float], run: Callable, **options) -> float:
    """The factor on the learning rates with the lowest validation loss; a single factor needs no run."""
    if len(factors) == 1:
        return factors[0]
    return min(factors, key=lambda factor: run(change, SEARCH_SEED, factor=factor, **options)["validation"])


def compare(
    changes: dict[str, dict] = CHANGES,
    seeds: int = 3,
    factors: Sequence[float] = FACTORS,
    run: Callable = modification_run,
    **options,
) -> list[dict]:
    """One row for each change: change, factor, parameters, hidden_dim, loss (seeds,), improvement (seeds,) over the base with
    the same seed, standard_error of its mean, and seconds. Less than two standard errors is no difference."""
    rows = []
    for name, change in changes.items():
        factor = best_factor(change, factors, run, **options)
        runs = [run(change, seed, factor=factor, **options) for seed in range(seeds)]
        rows.append(
            {
                "change": name,
                "factor": factor,
                "parameters": runs[0]["parameters"],
                "hidden_dim": runs[0]["hidden_dim"],
                "loss": torch.tensor([result["test"] for result in runs], dtype=torch.float64),
                "seconds": sum(result["seconds"] for result in runs) / seeds,
            }
        )
    base = next(row["loss"] for row in rows if row["change"] == BASE)
    for row in rows:
        row["improvement"] = base - row["loss"]
        row["standard_error"] = (row["improvement"].std() / seeds**0.5).item()
    return rows


SHORT = (BASE, "SwiGLU", "rotary positions")


@cached(data_files=lambda *_, **__: [topics_file()])
def short_comparison(seeds: int = 2, num_tokens: int = 100_000) -> list[dict]:
    """`compare` for a lesson: some of the changes with a third of the tokens, all at the same learning rates."""
    changes = {name: CHANGES[name] for name in SHORT}
    return compare(changes, seeds, [1.0], modification_run.__wrapped__, num_tokens=num_tokens)

"""Which modifications of the Transformer matter: one change at a time, at the same budget, over several seeds.

Each row of the table is lesson 07's causal model with one choice made otherwise. All have the same number of parameters up to
2 %, since what a change needs or saves is taken from or given to the feed-forward nets (`matched_hidden`); all read the same
pieces in the same order, seed by seed, so that the difference to the base is taken within each seed. Every row has the learning
rates that suit it best: a quarter, half, once or twice those of `scaling.rates_for`, chosen on another part of the held-out
text and with another seed than those of the table.

That is a test of small models and short training. What others found with large ones is in `LITERATURE`.
"""

from collections.abc import Callable, Sequence

import torch

from utils.data.real_text import topics_file
from utils.models.variants import Variant, VariantLM, parameter_count
from utils.training.cache import cached
from utils.training.scaling import BATCH, LENGTH, PIECES, fitted, rates_for, the_text

DIM, HEADS, HIDDEN, LAYERS = 64, 4, 256, 2
READ = 300_000
FACTORS = (0.25, 0.5, 1.0, 2.0)  # of the learning rates, over the rule's
SEARCH_SEED = 100

BASE = "base"
CHANGES = {
    BASE: Variant(),
    "ReLU": Variant(activation="relu"),
    "gated (SwiGLU)": Variant(activation="gated"),
    "RMS norm": Variant(norm="rms"),
    "post-norm": Variant(order="post"),
    "learned positions": Variant(positions="learned"),
    "rotary positions": Variant(positions="rotary"),
    "untied": Variant(tied=False),
}

# What larger experiments found: of what, what, and where it is written.
LITERATURE = (
    (
        "all",
        "of many changes tried in one setting, T5's, most do not help; gates and RMS norm are among the few that do",
        "Narang et al. (2021), arXiv:2102.11972",
    ),
    (
        "activation",
        "feed-forward nets with a gate, at equal parameters, have a lower loss than those with ReLU or GELU",
        "Shazeer (2020), arXiv:2002.05202",
    ),
    (
        "norm",
        "RMS norm is about as good as layer norm; without the mean to take off, models ran 7 to 64 % faster",
        "Zhang and Sennrich (2019), arXiv:1910.07467",
    ),
    (
        "norm order",
        "post-norm has large gradients near the output at first and needs a warm-up; pre-norm does well without one",
        "Xiong et al. (2020), arXiv:2002.04745",
    ),
    (
        "norm order",
        "with up to six layers, where both can be trained, post-norm ends better; with ten or more it often fails",
        "Takase et al. (2022), arXiv:2206.00330",
    ),
    (
        "positions",
        "rotary positions did better than the alternatives at classifying long texts",
        "Su et al. (2021), arXiv:2104.09864",
    ),
    (
        "tying",
        "one table for input and output lowers the perplexity of recurrent models, with far fewer parameters",
        "Press and Wolf (2017), arXiv:1608.05859",
    ),
    (
        "tying",
        "in large multilingual models two tables leave more freedom, and parameters can be put where they serve better",
        "Chung et al. (2020), arXiv:2010.12821",
    ),
)


def build(variant: Variant, hidden: int, pieces: int = PIECES) -> VariantLM:
    return VariantLM(pieces, DIM, HEADS, hidden, LAYERS, variant, longest=LENGTH)


def matched_hidden(variant: Variant, pieces: int = PIECES) -> int:
    """How wide the feed-forward nets are, for about as many parameters as the base has with `HIDDEN`."""
    with torch.random.fork_rng(devices=[]):
        budget = parameter_count(build(Variant(), HIDDEN, pieces))
        some = parameter_count(build(variant, HIDDEN, pieces))
        per_unit = parameter_count(build(variant, HIDDEN + 1, pieces)) - some
    hidden = HIDDEN + round((budget - some) / per_unit)
    return hidden


@cached(data_files=lambda *_, **__: [topics_file()])
def modification_run(
    variant: Variant,
    seed: int = 0,
    *,
    factor: float = 1.0,
    read: int = READ,
    pieces: int = PIECES,
    texts: int | None = None,
) -> dict:
    """Train one variant on `read` pieces. Returns parameters, hidden, and the losses choosing, held_out and train."""
    hidden = matched_hidden(variant, pieces)
    steps = max(1, round(read / (BATCH * LENGTH)))
    return {
        "parameters": parameter_count(build(variant, hidden, pieces)),
        "hidden": hidden,
        **fitted(
            lambda: build(variant, hidden, pieces),
            the_text(pieces, None, texts),
            seed,
            steps,
            rates_for(DIM, factor),
            pieces,
        ),
    }


def best_factor(
    variant: Variant, factors: Sequence[float] = FACTORS, run: Callable = modification_run, **options
) -> float:
    """The factor of the learning rates with the lowest choosing loss; of one factor, that one, without a run."""
    if len(factors) == 1:
        return factors[0]
    return min(factors, key=lambda factor: run(variant, SEARCH_SEED, factor=factor, **options)["choosing"])


def compare(
    changes: dict[str, Variant] = CHANGES,
    seeds: int = 3,
    factors: Sequence[float] = FACTORS,
    run: Callable = modification_run,
    **options,
) -> list[dict]:
    """One row for each change: change, factor, parameters, hidden, loss (seeds,), better (seeds,): how much lower the loss is
    than the base's with the same seed, noise: the deviation of that difference over the seeds, over the root of their number
    (None for one seed), and seconds.

    A mean difference of less than twice the noise is none.
    """
    rows = []
    for name, variant in changes.items():
        factor = best_factor(variant, factors, run, **options)
        runs = [run(variant, seed, factor=factor, **options) for seed in range(seeds)]
        loss = torch.tensor([one["held_out"] for one in runs], dtype=torch.float64)
        rows.append(
            {
                "change": name,
                "factor": factor,
                "parameters": runs[0]["parameters"],
                "hidden": runs[0]["hidden"],
                "loss": loss,
                "seconds": sum(one["seconds"] for one in runs) / seeds,
            }
        )
    base = next(row["loss"] for row in rows if row["change"] == BASE)
    for row in rows:
        row["better"] = base - row["loss"]
        row["noise"] = (row["better"].std() / seeds**0.5).item() if seeds > 1 else None
    return rows


SHORT = (BASE, "gated (SwiGLU)", "rotary positions")


@cached(data_files=lambda *_, **__: [topics_file()])
def short_comparison(
    names: Sequence[str] = SHORT, seeds: int = 2, read: int = 100_000, texts: int | None = None
) -> list[dict]:
    """`compare` for a lesson: some of the changes with a third of the training, all at the same learning rates."""
    changes = {name: CHANGES[name] for name in names}
    return compare(changes, seeds, [1.0], modification_run.__wrapped__, read=read, texts=texts)

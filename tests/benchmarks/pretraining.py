"""Three pretraining objectives with more steps and seeds than lesson 07 has time for."""

import math
import platform
from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_most, by
from utils.build.results import ranged
from utils.training.metrics import over_seeds
from utils.training.pretraining import MINUTE, OBJECTIVES, pretrain

MODELS = 3


def pretraining_table(objectives: Sequence[str] = OBJECTIVES, models: int = MODELS, **changes) -> dict:
    """For each objective, after a minute of training: held-out perplexity over seeds, and that of n-gram models."""
    rows = []
    for objective in objectives:
        results = [pretrain(objective, seed, **MINUTE[objective] | changes) for seed in range(models)]
        ngrams = results[0]["ngrams"]
        rows.append(
            {
                "objective": objective,
                "seeds": models,
                "perplexity": over_seeds([result["perplexity"] for result in results], 1),
                "unigram": round(math.exp(results[0]["unigram"]), 1),
                "bigram": None if ngrams is None else round(math.exp(ngrams[2]), 1),
                "seconds": over_seeds([result["seconds"] for result in results], 1),
                "num_tokens": results[0]["num_tokens"],
            }
        )
    return {"python": platform.python_version(), "rows": rows}


def show_pretraining(result: dict) -> Shown:
    rows = by(result["rows"], "objective")
    names = {"masked": "masked language modeling", "causal": "causal language modeling", "spans": "span corruption"}
    causal = rows["causal"]
    return Shown(
        "Three pretraining objectives over the same blocks",
        f"Docstrings and manual of Python {result['python']}, {causal['seeds']} seeds. Perplexity at the predicted tokens of held-out text (masked language modeling: at [MASK]), "
        "next to that of n-gram models at the same tokens.",
        ("objective", "perplexity", "unigram model", "bigram model", "training, s"),
        [
            (
                names[objective],
                ranged(row["perplexity"], 0),
                f"{row['unigram']:,.0f}",
                "" if row["bigram"] is None else f"{row['bigram']:,.0f}",
                ranged(row["seconds"], 0),
            )
            for objective, row in rows.items()
        ],
        [
            at_most(
                "perplexity of the causal model relative to the unigram model",
                causal["perplexity"]["median"] / causal["unigram"],
                0.5,
            ),
            at_most(
                "training, slowest objective and seed", max(row["seconds"]["most"] for row in rows.values()), 60, "s"
            ),
        ],
    )


BENCHMARKS = (
    Benchmark(
        "pretraining",
        "07",
        pretraining_table,
        show_pretraining,
        {"objectives": ("causal",), "models": 1, "num_steps": 100},
        packages=("tokenizers",),
    ),
)

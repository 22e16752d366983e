"""The translator of lesson 06 with few training pairs, from scratch and pretrained on unpaired sentences."""

from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_least
from utils.training.few_pairs import (
    FINE_TUNING_STEPS,
    NUM_UNPAIRED,
    PRETRAINING_STEPS,
    pretrain_translator,
    train_on_pairs,
)
from utils.training.metrics import over_seeds

SEEDS = 3
SIZES = (100, 300, 1000, 10_000)
LEARNING_RATE = 2.5e-3  # of 1e-3 and 2.5e-3 the better one on validation pairs, with and without pretraining
LONGER_PAIRS = (1000,)  # where "from scratch" also gets the steps of pretraining
SCRATCH, PRETRAINED, LONGER = "from scratch", "pretrained", "from scratch, as many steps in all"


def few_pairs_table(
    sizes: Sequence[int] = SIZES,
    longer: Sequence[int] = LONGER_PAIRS,
    seeds: int = SEEDS,
    pretraining_steps: int = PRETRAINING_STEPS,
    num_steps: int = FINE_TUNING_STEPS,
    num_unpaired: int = NUM_UNPAIRED,
) -> dict:
    """Exact match in % on the test pairs, one for each seed, by number of training pairs and by initialization."""
    common = {"num_unpaired": num_unpaired}
    budgets = {
        SCRATCH: {"pretraining_steps": 0, "num_steps": num_steps},
        PRETRAINED: {"pretraining_steps": pretraining_steps, "num_steps": num_steps},
        LONGER: {"pretraining_steps": 0, "num_steps": pretraining_steps + num_steps},
    }
    cells = [(pairs, model) for pairs in sizes for model in (SCRATCH, PRETRAINED)]
    pretraining = [pretrain_translator(seed, num_steps=pretraining_steps, **common) for seed in range(seeds)]
    seconds, rows = sum(result["seconds"] for result in pretraining), []
    for pairs, model in [*cells, *((pairs, LONGER) for pairs in longer)]:
        options = {**budgets[model], **common, "learning_rate": LEARNING_RATE}
        results = [train_on_pairs(pairs, seed, **options) for seed in range(seeds)]
        percentages = {
            name: [round(100 * result[name], 1) for result in results] for name in ("exact", "covered", "exact_covered")
        }
        bleu = [round(result["bleu"], 1) for result in results]
        rows.append({"pairs": pairs, "model": model, **budgets[model], **percentages, "bleu": bleu})
        seconds += sum(result["seconds"] for result in results)
    losses = [result["loss"][-200:].mean().item() for result in pretraining]
    return {
        "unpaired": num_unpaired,
        "seeds": seeds,
        "parameters": results[0]["parameters"],
        "pretraining_loss": over_seeds(losses, 3),
        "minutes": round(seconds / 60, 1),
        "rows": rows,
    }


def show_few_pairs(result: dict) -> Shown:
    row_of = {(row["pairs"], row["model"]): row for row in result["rows"]}
    sizes = sorted({row["pairs"] for row in result["rows"]})
    models = list(dict.fromkeys(row["model"] for row in result["rows"]))
    steps = row_of[sizes[0], PRETRAINED]

    def cell(row: dict | None) -> str:
        return "" if row is None else ", ".join(f"{value:.1f}" for value in row["exact"])

    targets = []
    if (1000, PRETRAINED) in row_of:
        gain = min(row_of[1000, PRETRAINED]["exact"]) - max(row_of[1000, SCRATCH]["exact"])
        targets = [at_least("1,000 pairs: worst pretrained seed minus best from scratch", gain, 0, "points")]
    return Shown(
        "The translator with few pairs, from scratch and pretrained",
        f"Exact match in % on 1,000 test pairs, {result['seeds']} seeds, each with its own training pairs. Pretraining: span corruption of {result['unpaired']:,} English and "
        f"{result['unpaired']:,} French sentences that are not translations of each other, {steps['pretraining_steps']:,} steps. Then {steps['num_steps']:,} steps on the pairs, "
        f"with and without pretraining. {result['parameters']:,} parameters, one vocabulary for both languages, {result['minutes']:.0f} core-minutes in all. "
        "Empty cells were not measured.",
        ("initialization", *(f"{size:,} pairs" for size in sizes)),
        [(model, *(cell(row_of.get((size, model))) for size in sizes)) for model in models],
        targets,
    )


BENCHMARKS = (
    Benchmark(
        "few_pairs",
        "07",
        few_pairs_table,
        show_few_pairs,
        {
            "sizes": (100,),
            "longer": (),
            "seeds": 1,
            "pretraining_steps": 40,
            "num_steps": 40,
            "num_unpaired": 300,
        },
    ),
)

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
# Where the model from scratch is also trained for as many steps as pretraining and fine-tuning take together.
LONGER_SIZES = (300, 1000)
LEARNING_RATE = 2.5e-3  # of 1e-3 and 2.5e-3 the better one on validation pairs, with and without pretraining
SCRATCH, PRETRAINED, LONGER = "from scratch", "pretrained", "from scratch, {:,} steps"


def few_pairs_table(
    sizes: Sequence[int] = SIZES,
    longer: Sequence[int] = LONGER_SIZES,
    seeds: int = SEEDS,
    pretraining_steps: int = PRETRAINING_STEPS,
    num_steps: int = FINE_TUNING_STEPS,
    num_unpaired: int = NUM_UNPAIRED,
) -> dict:
    """Exact match in % on the test pairs, one for each seed, by number of training pairs and by initialization."""
    common = {"num_unpaired": num_unpaired}
    pretraining_of, all_steps = {SCRATCH: 0, PRETRAINED: pretraining_steps}, pretraining_steps + num_steps
    cells = [(pairs, model, num_steps, model) for pairs in sizes for model in pretraining_of]
    cells += [(pairs, SCRATCH, all_steps, LONGER.format(all_steps)) for pairs in longer]
    pretraining = [pretrain_translator(seed, num_steps=pretraining_steps, **common) for seed in range(seeds)]
    rows = []
    for pairs, model, steps, name in cells:
        budget = {"pretraining_steps": pretraining_of[model], "num_steps": steps}
        options = {**budget, **common, "learning_rate": LEARNING_RATE}
        results = [train_on_pairs(pairs, seed, **options) for seed in range(seeds)]
        percentages = {key: [round(100 * result[key], 1) for result in results] for key in ("exact", "covered")}
        bleu = [round(result["bleu"], 1) for result in results]
        rows.append({"pairs": pairs, "model": name, **budget, **percentages, "bleu": bleu})
    losses = [result["loss"][-200:].mean().item() for result in pretraining]
    return {
        "unpaired": num_unpaired,
        "seeds": seeds,
        "parameters": results[0]["parameters"],
        "pretraining_loss": over_seeds(losses, 3),
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
        targets = [at_least("1,000 pairs: worst pretrained seed minus best from scratch", gain, 5, "points")]
    return Shown(
        "The translator with few pairs, from scratch and pretrained",
        f"Exact match in % on 1,000 test pairs, {result['seeds']} seeds, each with its own training pairs. Pretraining: span corruption of {result['unpaired']:,} English and "
        f"{result['unpaired']:,} French sentences that are not translations of each other, {steps['pretraining_steps']:,} steps. Then {steps['num_steps']:,} steps on the pairs, "
        f"with and without pretraining. {result['parameters']:,} parameters, one vocabulary for both languages. Empty cells were not measured.",
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

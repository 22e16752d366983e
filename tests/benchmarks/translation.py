"""Translation models of lessons 03 and 06 on the same pairs, with several seeds and one budget; the Transformer's recipe.

The trainings of `translation` and `warmup` are cached, so that an interrupted run continues. Their table has no times:
`translation_speed` measures these, in minutes, on a quiet machine.
"""

import statistics
from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most, by
from utils.build.results import ranged
from utils.training.attention_roles import agreement_heads, negation_weights
from utils.training.metrics import over_seeds
from utils.training.skipgram import train_skipgram
from utils.training.transformer import (
    BATCH_TOKENS,
    LEARNING_RATE,
    LESSON,
    confidence,
    restore_transformer,
    steps_per_epoch,
    train_transformer,
    warmup_losses,
)
from utils.training.translation import BATCH_SIZE, EPOCHS, TRAINING_PAIRS, pairs_and_words, train_translation
from utils.training.translation import LESSON as RECURRENT_LESSON

SEEDS = 3
MEASURES = ("exact", "bleu", "alignment_error", "parameters")

# name of the row: arguments of `train_translation`, or of `train_transformer` if they have positions
MODELS: dict[str, dict] = {
    "no attention": {"score": None},
    "dot attention": {"score": "dot"},
    "multiplicative attention": {"score": "multiplicative"},
    "additive attention": {"score": "additive"},
    "Transformer": {"positions": "sinusoidal"},
    "Transformer, rotary positions": {"positions": "rotary"},
}

# attention score, cell, number of training pairs, whether the source embeddings start from skip-gram ones
CHOICES: tuple[tuple[str | None, str, int, bool], ...] = (
    (None, "lstm", 20_000, False),
    (None, "gru", 20_000, False),
    ("dot", "lstm", 20_000, False),
    ("dot", "gru", 20_000, False),
    ("dot", "lstm", 20_000, True),
    ("dot", "lstm", 1_000, False),
    ("dot", "lstm", 1_000, True),
)

# name of the row, what differs from the Transformer of the lesson
RECIPES: tuple[tuple[str, dict], ...] = (
    ("as in the lesson", {}),
    ("weight tying: target embeddings as output layer", {"tied": "output"}),
    ("dropout 0.1", {"dropout": 0.1}),
    ("label smoothing 0.1", {"label_smoothing": 0.1}),
    ("no weight decay", {"weight_decay": 0.0}),
)

DEPTHS, WARMUP, LAST_STEPS = (2, 4, 6), 0.25, 50


# One budget for all models


def translation_table(
    seeds: int = SEEDS,
    names: Sequence[str] = tuple(MODELS),
    epochs: int = EPOCHS,
    num_pairs: int = TRAINING_PAIRS,
    num_test: int | None = None,
    count: int = 300,
    recurrent: dict | None = None,
    transformer: dict | None = None,
) -> dict:
    """One row per model: its scores on held-out pairs after `epochs` passes over the same training pairs.

    Rows of Transformers further have alignment_heads, the layer and head (None for the mean of the layer) that the
    validation pairs of each seed selected, and roles, the result of `attention_uses` with `count` sentences for each seed.
    recurrent, transformer: changes of their settings, for a smaller run.
    """
    pairs = pairs_and_words(num_pairs)[0].train
    rows = []
    for name in names:
        results = [
            trained(
                name, seed, epochs, num_pairs=num_pairs, num_test=num_test, recurrent=recurrent, transformer=transformer
            )
            for seed in range(seeds)
        ]
        row = entry(name, results)
        if "positions" in MODELS[name]:
            row["alignment_heads"] = [
                {key: result["alignment_head"][key] for key in ("layer", "head")} for result in results
            ]
            row["roles"] = [attention_uses(result, count) for result in results]
        rows.append(row)
    target_tokens = sum(len(pair.french) + 1 for pair in pairs)
    return {"epochs": epochs, "pairs": epochs * len(pairs), "target_tokens": epochs * target_tokens, "rows": rows}


def trained(name: str, seed: int, epochs: int, *, num_pairs: int, num_test: int | None, recurrent, transformer) -> dict:
    """The cached training of one model."""
    settings = {**MODELS[name], "num_pairs": num_pairs, "num_test": num_test}
    if "positions" not in settings:
        settings |= recurrent or {}
        per_epoch = -(-num_pairs // settings.get("batch_size", BATCH_SIZE))
        return train_translation(seed=seed, num_steps=epochs * per_epoch, **settings)
    settings |= transformer or {}
    pairs = pairs_and_words(num_pairs)[0].train
    per_epoch = steps_per_epoch(pairs, settings.get("batch_tokens", BATCH_TOKENS))
    return train_transformer(seed=seed, num_steps=epochs * per_epoch, **settings)


def entry(name: str, results: Sequence[dict]) -> dict:
    """One model over its seeds: the measures, and how they depend on length. Exact match and alignment error in per cent."""
    quarters = [
        {
            "words": f"{parts[0]['shortest']} to {parts[0]['longest']}",
            "exact": round(100 * statistics.median(part["exact"] for part in parts), 1),
            "exact_of_seeds": [round(100 * part["exact"], 1) for part in parts],
        }
        for parts in zip(*(result["quarters"] for result in results), strict=True)
    ]
    by_length = [
        {"length": parts[0]["length"], "exact": round(100 * statistics.mean(part["exact"] for part in parts), 1)}
        for parts in zip(*(result["by_length"] for result in results), strict=True)
    ]
    return {
        "name": name,
        "seeds": len(results),
        **{measure: _summary(results, measure) for measure in MEASURES},
        "alignment_floor": round(100 * results[0]["alignment_floor"], 1),
        "longer": {measure: _summary([result["longer"] for result in results], measure) for measure in MEASURES[:3]},
        "quarters": quarters,
        "by_length": by_length,
        "steps": len(results[0]["loss"]),
    }


def _summary(results: Sequence[dict], measure: str) -> dict | None:
    """Median, minimum and maximum over the seeds; None without attention."""
    if results[0][measure] is None:
        return None
    factor = 100 if measure in ("exact", "alignment_error") else 1
    return over_seeds([factor * result[measure] for result in results], 1)


def attention_uses(result: dict, count: int) -> dict:
    """What the heads of a trained model attend to on held-out sentences, in per cent."""
    trained = restore_transformer(result)
    num_pairs = result["num_pairs"]
    negation = negation_weights(trained, pairs_and_words(num_pairs)[0].test)
    weights = ("noun", "attractors", "uniform")
    return {
        "negation": _in_per_cent(negation, ("first", "second", "elsewhere", "uniform")),
        "agreement": [_in_per_cent(row, weights) for row in agreement_heads(trained, num_pairs, count)],
    }


def _in_per_cent(row: dict, names: Sequence[str]) -> dict:
    return row | {name: round(100 * row[name], 1) for name in names}


# Choices of lesson 03


def choices_table(seeds: int = SEEDS, rows=CHOICES, **settings) -> list[dict]:
    """LSTM or GRU, random or skip-gram source embeddings, at the budget of lesson 03; `settings` for a smaller run."""
    settings = RECURRENT_LESSON | settings
    table = []
    for score, cell, num_pairs, pretrained in rows:
        results = []
        for seed in range(seeds):
            embeddings = train_skipgram.__wrapped__(seed, dim=settings["hidden_size"]) if pretrained else None
            choice = {"cell": cell, "num_pairs": num_pairs, "embeddings": embeddings}
            results.append(train_translation.__wrapped__(score, seed, **settings | choice))
        row = {"score": score, "cell": cell, "num_pairs": num_pairs, "skipgram": pretrained, "seeds": seeds}
        scores = {measure: _summary(results, measure) for measure in ("exact", "bleu")}
        table.append(row | scores | {"steps": settings["num_steps"]})
    return table


# The Transformer's recipe


def recipe_table(seeds: int = SEEDS, rows=RECIPES, **settings) -> list[dict]:
    """The lesson's Transformer with one part of its recipe changed at a time; `settings` for a smaller run.

    words: accuracy, and confidence (mean probability of the prediction), under teacher forcing, in per cent.
    """
    table = []
    for name, changes in rows:
        results = [train_transformer.__wrapped__(seed, **LESSON | settings | changes) for seed in range(seeds)]
        scores = entry(name, results)
        words = [_words(result) for result in results]
        table.append(
            {measure: scores[measure] for measure in ("name", "seeds", "steps", *MEASURES)}
            | {"seconds": _summary(results, "seconds")}
            | {"words": {column: statistics.median(row[column] for row in words) for column in words[0]}}
        )
    return table


def _words(result: dict) -> dict:
    calibration = confidence(restore_transformer(result), pairs_and_words(result["num_pairs"])[0].test)
    return _in_per_cent(calibration, tuple(calibration))


def warmup_table(seeds: int = SEEDS, depths: Sequence[int] = DEPTHS, last: int = LAST_STEPS, **settings) -> list[dict]:
    """One row per norm order, warmup and depth: the mean loss of the last steps for each seed; `settings` for a smaller run."""
    rows = []
    for norm_first in (True, False):
        for warmup_ratio in (WARMUP, 0.0):
            for num_layers in depths:
                losses = [
                    warmup_losses(seed, num_layers, norm_first, warmup_ratio, **settings) for seed in range(seeds)
                ]
                rows.append(
                    {
                        "norm": "pre" if norm_first else "post",
                        "warmup": round(warmup_ratio * len(losses[0])),
                        "layers": num_layers,
                        "steps": len(losses[0]),
                        "losses": [round(loss[-last:].mean().item(), 3) for loss in losses],
                    }
                )
    return rows


# What is shown


def show_translation(result: dict) -> Shown:
    rows, named = result["rows"], by(result["rows"], "name")
    quarters = rows[0]["quarters"]
    cells = [
        (
            row["name"],
            ranged(row["exact"]),
            *(f"{part['exact']:.1f}" for part in row["quarters"]),
            ranged(row["longer"]["exact"]),
            ranged(row["bleu"]),
            ranged(row["alignment_error"]),
            ranged(row["parameters"], 0),
            f"{row['steps']:,}",
        )
        for row in rows
    ]
    targets = []
    if transformer := named.get("Transformer"):
        targets += [
            at_least("Transformer, exact match, median", transformer["exact"]["median"], 99, "%"),
            at_least("Transformer, BLEU, median", transformer["bleu"]["median"], 99),
            at_most("Transformer, alignment error, median", transformer["alignment_error"]["median"], 10, "%"),
        ]
    attending = [row for row in rows if row["name"].endswith(" attention") and row["alignment_error"]]
    if attending:
        best = max(attending, key=lambda row: row["exact"]["median"])
        aligned = min(row["alignment_error"]["median"] for row in attending)
        targets += [
            at_least("recurrent with attention, exact match, median", best["exact"]["median"], 98, "%"),
            at_most("recurrent with attention, alignment error of the best score", aligned, 10, "%"),
        ]
        if without := named.get("no attention"):
            gain = best["quarters"][-1]["exact"] - without["quarters"][-1]["exact"]
            targets += [
                at_least("no attention, exact match, shortest quarter", without["quarters"][0]["exact"], 90, "%"),
                at_least("gain of attention on the longest quarter", gain, 25, "points"),
            ]
    return Shown(
        "Recurrent models and Transformers, one budget",
        f"English to French. Every model sees the same {result['pairs'] // result['epochs']:,} training pairs {result['epochs']} times, {result['target_tokens']:,} target tokens in all; "
        f"1,000 test sentences, {rows[0]['seeds']} seeds. Exact match also by the length of the English sentence; sentences of 19 to 26 words are longer than any in training. "
        f"An alignment with one link per word has an error of at least {rows[0]['alignment_floor']} %.",
        (
            "model",
            "exact match, %",
            *(f"{part['words']} words" for part in quarters),
            "19 to 26 words",
            "BLEU",
            "alignment error, %",
            "parameters",
            "steps",
        ),
        cells,
        targets,
    )


def show_choices(rows: list[dict]) -> Shown:
    return Shown(
        "Choices in lesson 03: the cell, and the initial source embeddings",
        f"Budget of the lesson: width {RECURRENT_LESSON['hidden_size']}, {rows[0]['steps']:,} steps of {RECURRENT_LESSON['batch_size']} pairs, "
        f"{rows[0]['seeds']} seeds. Skip-gram embeddings are trained on the English side of all 20,000 training pairs.",
        ("attention", "cell", "training pairs", "source embeddings", "exact match, %", "BLEU"),
        [
            (
                row["score"] or "none",
                row["cell"].upper(),
                f"{row['num_pairs']:,}",
                "skip-gram" if row["skipgram"] else "random",
                ranged(row["exact"]),
                ranged(row["bleu"]),
            )
            for row in rows
        ],
    )


def show_recipe(rows: list[dict]) -> Shown:
    first = by(rows, "name")["as in the lesson"]
    return Shown(
        "The training recipe, one change at a time",
        f"The lesson's Transformer, {first['steps']:,} steps, {first['seeds']} seeds. Accuracy and confidence (mean probability of the predicted word) per word under teacher "
        "forcing, medians in %.",
        ("recipe", "exact match, %", "BLEU", "alignment error, %", "word accuracy", "confidence", "training, s"),
        [
            (
                row["name"],
                *(ranged(row[name]) for name in ("exact", "bleu", "alignment_error")),
                *(f"{row['words'][name]:.1f}" for name in ("accuracy", "confidence")),
                ranged(row["seconds"], 0),
            )
            for row in rows
        ],
        [
            at_least("exact match in the lesson, worst seed", first["exact"]["least"], 95, "%"),
            at_most("training in the lesson, slowest seed", first["seconds"]["most"], 45, "s"),
        ],
    )


def show_warmup(rows: list[dict]) -> Shown:
    depths = list(dict.fromkeys(row["layers"] for row in rows))
    kinds = dict.fromkeys((row["norm"], row["warmup"]) for row in rows)
    cells = {(row["norm"], row["warmup"], row["layers"]): row["losses"] for row in rows}
    return Shown(
        "Warm-up, norm order and depth",
        f"The lesson's Transformer with more layers in each stack: mean training loss of the last {LAST_STEPS} of {rows[0]['steps']} steps, one figure per seed. Peak learning rate "
        f"{LEARNING_RATE} for all, then half a cosine; every batch is new, since the first epoch does not end.",
        ("norm order", "warm-up steps", *(f"{layers} layers" for layers in depths)),
        [
            (
                f"{norm}-norm",
                warmup,
                *(", ".join(f"{loss:.2f}" for loss in cells[norm, warmup, layers]) for layers in depths),
            )
            for norm, warmup in kinds
        ],
    )


SMALL = {"seeds": 1, "num_steps": 200, "num_test": 200}
BENCHMARKS = (
    Benchmark("translation_choices", "03", choices_table, show_choices, {"rows": CHOICES[-1:], **SMALL}),
    Benchmark(
        "translation",
        "06",
        translation_table,
        show_translation,
        {"seeds": 1, "names": ("dot attention", "Transformer"), "epochs": 1, "num_test": 200, "count": 60},
    ),
    Benchmark("transformer_recipe", "06", recipe_table, show_recipe, {"rows": RECIPES[:1], **SMALL}),
    Benchmark("warmup", "06", warmup_table, show_warmup, {"seeds": 1, "depths": (2,), "num_steps": 60, "last": 10}),
)

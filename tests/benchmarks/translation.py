"""Translation models of lessons 03 and 06 at full budget, on the same pairs, with several seeds; the recurrent ones with equal steps."""

import statistics
from collections.abc import Sequence

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most, by
from utils.build.results import ranged
from utils.training.attention_roles import agreement_heads, negation_weights
from utils.training.metrics import over_seeds
from utils.training.skipgram import train_skipgram
from utils.training.transformer import LESSON, confidence, restore_transformer, train_transformer
from utils.training.translation import LESSON as RECURRENT_LESSON
from utils.training.translation import pairs_and_words, train_translation

SEEDS = 3
MEASURES = ("exact", "bleu", "alignment_error", "parameters", "seconds")

# name of the row, attention score, what differs from the recipe
ROWS: tuple[tuple[str, str | None, dict], ...] = (
    ("no attention, encoder in one direction", None, {"bidirectional": False}),
    ("no attention", None, {}),
    ("dot attention", "dot", {}),
    ("multiplicative attention", "multiplicative", {}),
    ("additive attention", "additive", {}),
)

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
    ("output layer tied to the table of target words", {"tied": "output"}),
    ("dropout 0.1", {"dropout": 0.1}),
    ("label smoothing 0.1", {"label_smoothing": 0.1}),
    ("no weight decay", {"weight_decay": 0.0}),
    ("no warm-up", {"warmup_ratio": 0.0}),
    ("post-norm", {"norm_first": False}),
    ("post-norm, no warm-up", {"norm_first": False, "warmup_ratio": 0.0}),
)


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


def recurrent_table(seeds: int = SEEDS, rows=ROWS, **settings) -> list[dict]:
    """Scores of every model on held-out pairs; `settings` as in `train_translation`, for a smaller run."""
    return [
        entry(name, [train_translation.__wrapped__(score, seed, **settings | changes) for seed in range(seeds)])
        for name, score, changes in rows
    ]


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


def transformer_rows(seeds: int = SEEDS, count: int = 300, **settings) -> list[dict]:
    """The Transformer's row, in the same form; `settings` as in `train_transformer`, for a smaller run.

    Further: alignment_heads, the layer and head (None for the mean of the layer) that the validation pairs of each seed
    selected; roles, the result of `attention_uses` with `count` sentences, for each seed.
    """
    results = [train_transformer.__wrapped__(seed, **settings) for seed in range(seeds)]
    heads = [{name: result["alignment_head"][name] for name in ("layer", "head")} for result in results]
    roles = [attention_uses(result, count) for result in results]
    return [entry("Transformer", results) | {"alignment_heads": heads, "roles": roles}]


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
            | {"words": {column: statistics.median(row[column] for row in words) for column in words[0]}}
        )
    return table


def _words(result: dict) -> dict:
    calibration = confidence(restore_transformer(result), pairs_and_words(result["num_pairs"])[0].test)
    return _in_per_cent(calibration, tuple(calibration))


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


# What is shown


def _scores(rows: Sequence[dict]) -> tuple[tuple[str, ...], list[tuple]]:
    quarters = rows[0]["quarters"]
    columns = ("model", "exact match, %", *(f"{part['words']} words" for part in quarters), "19 to 26 words")
    cells = [
        (
            row["name"],
            ranged(row["exact"]),
            *(f"{part['exact']:.1f}" for part in row["quarters"]),
            ranged(row["longer"]["exact"]),
            ranged(row["bleu"]),
            ranged(row["alignment_error"]),
            ranged(row["parameters"], 0),
            ranged(row["seconds"], 0),
        )
        for row in rows
    ]
    return (*columns, "BLEU", "alignment error, %", "parameters", "training, s"), cells


def show_recurrent(rows: list[dict]) -> Shown:
    first = rows[0]
    attending = [row for row in rows if "no attention" not in row["name"]]
    best = max(attending, key=lambda row: row["exact"]["median"])
    targets = [
        at_least("exact match with attention, median", best["exact"]["median"], 98, "%"),
        at_most(
            "alignment error of the best score function",
            min(row["alignment_error"]["median"] for row in attending),
            10,
            "%",
        ),
        at_most("training, slowest model", max(row["seconds"]["median"] for row in rows), 60, "s"),
    ]
    if without := by(rows, "name").get("no attention"):
        gain = best["quarters"][-1]["exact"] - without["quarters"][-1]["exact"]
        targets += [
            at_least("exact match without attention, shortest quarter", without["quarters"][0]["exact"], 90, "%"),
            at_least("gain of attention on the longest quarter", gain, 25, "points"),
        ]
    columns, cells = _scores(rows)
    return Shown(
        "Recurrent encoder-decoders, with and without attention",
        f"English to French, 20,000 training pairs, {first['steps']:,} steps, 1,000 test sentences, {first['seeds']} seeds. Exact match also by the length of the "
        "English sentence; sentences of 19 to 26 words are longer than any in training. An alignment with one link per word has an error of at least "
        f"{first['alignment_floor']} %.",
        columns,
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


def show_transformer(rows: list[dict]) -> Shown:
    (model,) = rows
    columns, cells = _scores(rows)
    return Shown(
        "The Transformer on the same sentences",
        f"The test sentences of lesson 03's comparison, {model['seeds']} seeds, but {model['steps']:,} steps: more than the recurrent models had.",
        columns,
        cells,
        [
            at_least("exact match, median", model["exact"]["median"], 99, "%"),
            at_least("BLEU, median", model["bleu"]["median"], 99),
            at_most("alignment error, worst seed", model["alignment_error"]["most"], 15, "%"),
            at_most("training, slowest seed", model["seconds"]["most"], 120, "s"),
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
                row["name"].replace("table of target words", "target embeddings"),
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


SMALL = {"seeds": 1, "num_steps": 200, "num_test": 200}
BENCHMARKS = (
    Benchmark(
        "ladder",
        "03",
        recurrent_table,
        show_recurrent,
        {"seeds": 1, "rows": ROWS[2:3], "num_steps": 300, "num_test": 200},
    ),
    Benchmark("translation_choices", "03", choices_table, show_choices, {"rows": CHOICES[-1:], **SMALL}),
    Benchmark("transformer_ladder", "06", transformer_rows, show_transformer, {"count": 60, **SMALL}, threads=2),
    Benchmark("transformer_recipe", "06", recipe_table, show_recipe, {"rows": RECIPES[:1], **SMALL}),
)

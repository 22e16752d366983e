"""Every benchmark with small settings, for `make bench-quick`: does it still run, and does it say about the same?

Ratios and exponents come out as in the stored results, with more noise. What is trained for fewer steps scores lower.
"""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.benchmarks import costs, heads, memory, pretraining, real_tasks, scaling, self_attention, translation
from tests.benchmarks.attention import attention_costs
from tests.benchmarks.bert_speed import bert_parity, bert_speed
from tests.benchmarks.encoder_speed import encoder_layer_speed
from tests.benchmarks.growth import growth_table
from tests.benchmarks.lab_start import lab_start
from tests.benchmarks.peak import STEPS, peak_share
from tests.benchmarks.regression import regression_table, seeds_at_once
from tests.benchmarks.smollm2_speed import smollm2_speed
from tests.benchmarks.transformer_speed import cache_speed, generate_speed, training_speed
from tests.benchmarks.widgets import widget_response
from utils.course.places import ROOT
from utils.course.results import RESULTS, Table, stored
from utils.training import modifications
from utils.training.scaling import FAMILY

FOLDER = ROOT / ".cache" / "bench-quick"

Step = str | int | Mapping[str, Any]  # into a result: a name, a place, or what a row of a table has


class Quick(NamedTuple):
    """A small run, and where in its result, and in the stored one, the figures stand that are shown side by side.

    less: why the figures cannot be the same, if they cannot.
    """

    run: Callable[[], Any]
    figures: Sequence[tuple[Step, ...]]
    less: str = ""


def smaller(benchmark: Callable[[], Any], **names: Any) -> Callable[[], Any]:
    """A benchmark without arguments, while these names in its module mean something smaller."""

    def run() -> Any:
        with mock.patch.multiple(sys.modules[benchmark.__module__], **names):
            return benchmark()

    return run


def figure(result: Any, path: Sequence[Step]) -> float:
    """The number at the end of the path."""
    for step in path:
        if isinstance(step, Mapping):
            (result,) = [row for row in result if all(row[name] == value for name, value in step.items())]
        else:
            result = result[step]
    return result


def said(path: Sequence[Step]) -> str:
    return ", ".join(
        ", ".join(value if isinstance(value, str) else f"{name} {value}" for name, value in step.items())
        if isinstance(step, Mapping)
        else str(step)
        for step in path
    )


def compared(names: Sequence[str], folder: Path = FOLDER, full: Path = RESULTS) -> Table:
    """The figures of the quick run beside the stored ones; a result that nobody has stored yet has none."""
    rows = []
    for name in names:
        before = stored(name, full).result if (full / f"{name}.json").exists() else None
        for path in QUICK[name].figures:
            old = "none" if before is None else f"{figure(before, path):g}"
            new = f"{figure(stored(name, folder).result, path):g}"
            rows.append((name, said(path), new, old, QUICK[name].less))
    return Table(("benchmark", "figure", "quick", "stored", "but quick had"), rows)


def quick_transformer_speed() -> dict:
    return {
        "training": training_speed(shapes=((64, 16),), rounds=5),
        "cache": cache_speed(limits=(32,), rounds=2),
        "generate": generate_speed(("Marian",), limit=16, rounds=3),
    }


TRANSFORMER = {"steps": 200, "test": 200}
MEDIAN, FEWER = "median", "fewer steps"

QUICK: dict[str, Quick] = {
    "attention_costs": Quick(
        functools.partial(attention_costs, ((16, 4, 32, 32),), rounds=11),
        [({"shape": "16 x 4 x 32 x 32", "mask": True}, way) for way in ("fused", "explicit")],
    ),
    "regression": Quick(regression_table, [({"model": "learned, each point hidden from itself"}, "error")]),
    "seeds_at_once": Quick(seeds_at_once, [("gain",)]),
    "memory_table": Quick(
        functools.partial(memory.memory_table, rows=memory.ROWS[:1]), [({"row": "3 hops", "task": 1}, MEDIAN)]
    ),
    "memory_seeds_at_once": Quick(functools.partial(memory.memory_seeds_at_once, epochs=5), [("ratio",)]),
    "ladder": Quick(
        functools.partial(translation.ladder_table, 1, translation.ROWS[2:3], steps=300, test=200),
        [({"name": "dot attention"}, "exact", MEDIAN)],
        FEWER,
    ),
    "order_task": Quick(
        smaller(self_attention.order_table, SEEDS=3, KINDS={"none": "no positions", "rotary": "rotary"}),
        [({"kind": kind}, "accuracy", MEDIAN) for kind in ("no positions", "rotary")],
    ),
    "language_model": Quick(
        smaller(
            self_attention.language_model_table,
            MODELS=1,
            train_language_model=functools.partial(self_attention.train_language_model, steps=100),
        ),
        [("held_out", MEDIAN), ("factor", MEDIAN)],
        FEWER,
    ),
    "two_places": Quick(
        functools.partial(heads.two_places_table, 3, heads.TWO_PLACES[:2]),
        [({"row": row}, "pairs", 0) for row in ("1 head", "2 heads")],
    ),
    "heads": Quick(
        functools.partial(heads.heads_table, 1, (4,), steps=100), [({"heads": 4}, "accuracy", MEDIAN)], FEWER
    ),
    "heads_one_layer": Quick(
        functools.partial(heads.heads_table, 1, (4,), steps=100, layers=1), [({"heads": 4}, "accuracy", MEDIAN)], FEWER
    ),
    "head_costs": Quick(
        functools.partial(heads.head_cost_table, repeats=5), [({"heads": count}, "softmax_ms") for count in (1, 8)]
    ),
    "depth": Quick(
        functools.partial(heads.depth_table, 1, points=9, steps=60, identity_steps=60),
        [("gradient", kind, -1) for kind in ("plain", "residual")],
        "one seed of five",
    ),
    "norms": Quick(
        functools.partial(heads.norm_table, 1, heads.NORM_ROWS[:1], steps=100),
        [({"norm": norm, "layers": 2}, "accuracies", 0) for norm in ("pre", "post")],
        FEWER,
    ),
    "encoder_speed": Quick(
        functools.partial(encoder_layer_speed, lengths=(16,), rounds=9),
        [({"norm": "pre", "length": 16, "dropout": dropout}, "speed") for dropout in (0.0, 0.1)],
    ),
    "transformer_ladder": Quick(
        functools.partial(translation.transformer_rows, 1, 60, **TRANSFORMER),
        [({"name": "Transformer"}, "exact", MEDIAN)],
        FEWER,
    ),
    "transformer_recipe": Quick(
        functools.partial(translation.recipe_table, 1, translation.RECIPES[:1], **TRANSFORMER),
        [({"name": "as in the lesson"}, "exact", MEDIAN)],
        FEWER,
    ),
    "transformer_speed": Quick(
        quick_transformer_speed,
        [
            ("training", {"batch": 64, "length": 16, "norm": "pre", "dropout": 0.0}, "speed"),
            ("cache", {"length": 32}, "speed"),
            ("generate", {"peer": "Marian"}, "speed"),
        ],
    ),
    "pretraining": Quick(
        smaller(
            pretraining.pretraining_table,
            MODELS=1,
            OBJECTIVES=("causal",),
            MINUTE={"causal": pretraining.MINUTE["causal"] | {"steps": 100}},
        ),
        [("rows", {"objective": "causal"}, "perplexity", MEDIAN)],
        FEWER,
    ),
    "few_labels": Quick(
        smaller(pretraining.few_labels_table, SEEDS=2, WAYS=("bag of words", "frozen"), LABELS=(1,)),
        [("rows", {"way": way}, "mean", 0) for way in ("bag of words", "frozen")],
    ),
    "why_it_works": Quick(
        smaller(
            pretraining.why_table,
            MODELS=1,
            why_it_works=functools.partial(pretraining.why_it_works, asked=100, fragments=20, shares=(0.0, 1.0)),
        ),
        [("forgotten", state, MEDIAN) for state in ("pretrained", "full")],
    ),
    "several_tasks": Quick(
        smaller(
            pretraining.tasks_table,
            TASK_SEEDS=1,
            several_tasks=functools.partial(
                pretraining.several_tasks, ("families",), ("bag of words", "frozen"), asked=300
            ),
        ),
        [("rows", {"task": "families", "per_class": 32}, "accuracy", "frozen", MEDIAN)],
    ),
    "bert_speed": Quick(
        functools.partial(bert_speed, shapes=((16, 24),), rounds=7), [("rows", {"sentences": 16}, "speed")]
    ),
    "bert_parity": Quick(bert_parity, [("largest", -1), ("largest_in_double", -1)]),
    "reviews": Quick(
        smaller(real_tasks.reviews_table, SEEDS=1, WAYS=("bag of words",)),
        [("rows", {"way": "bag of words"}, "accuracy", MEDIAN)],
    ),
    "published_tasks": Quick(
        smaller(
            real_tasks.published_tasks_table,
            DRAWS=2,
            LABELS=(1,),
            frozen_on_tasks=functools.partial(real_tasks.frozen_on_tasks, ("families",), asked=200),
        ),
        [("rows", {"task": "families"}, "accuracy", 0, MEDIAN)],
    ),
    "length_costs": Quick(
        functools.partial(costs.cost_table, (256, 512, 1024, 2048), repeats=2, fresh=()),
        [("rows", {"kind": kind, "backward": False}, "long_time", "slope") for kind in (costs.FUSED, costs.LOCAL)],
    ),
    "long_range": Quick(
        functools.partial(costs.long_range_table, 1, costs.LONG_RANGE[1:2], steps=100),
        [({"row": "full attention"}, "accuracies", 0)],
        FEWER,
    ),
    "digits": Quick(
        functools.partial(costs.digits_table, 1, costs.DIGITS[:1]),
        [({"positions": "learned", "shuffled": False}, "accuracy", MEDIAN)],
    ),
    "scaling": Quick(
        smaller(
            scaling.scaling_table,
            SEEDS=1,
            FEWER=1,
            FAMILY=FAMILY[:4],
            LARGER=FAMILY[4],
            MIDDLE=FAMILY[1],
            READ=20_000,
            parameter_sweep=functools.partial(scaling.parameter_sweep, FAMILY[:4], read=20_000),
            data_sweep=functools.partial(scaling.data_sweep, FAMILY[0], (5_000, 10_000, 20_000, 40_000), most_read=1),
            computing_sweep=functools.partial(scaling.computing_sweep, FAMILY[:2], (10_000, 20_000, 40_000)),
            frontier=list,  # of so few points the best are too few for a law
            rate_check=functools.partial(scaling.rate_check, factors=(1.0,), read=10_000),
            scaling_run=functools.partial(scaling.scaling_run, read=20_000),
        ),
        [("parameters", "laws", "without", "exponent")],
        "fewer and smaller models, less text",
    ),
    "modifications": Quick(
        smaller(
            scaling.modifications_table,
            SEEDS=2,
            compare=functools.partial(
                scaling.compare,
                {name: modifications.CHANGES[name] for name in modifications.SHORT},
                factors=[1.0],
                read=10_000,
            ),
        ),
        [("rows", {"change": change}, "loss", MEDIAN) for change in modifications.SHORT],
        FEWER,
    ),
    "smollm2_speed": Quick(functools.partial(smollm2_speed, count=4, rounds=2), [("generate",), ("loop",)]),
    "peak_share": Quick(
        functools.partial(peak_share, rounds=3, sizes=(512, 1024)),
        [({"step": step, "threads": 1}, "share") for step in STEPS],
    ),
    "lab_start": Quick(functools.partial(lab_start, 1), [("first_cell", MEDIAN)]),
    "widgets": Quick(
        functools.partial(widget_response, 1),
        [({"widget": widget}, "answer", MEDIAN) for widget in ("explore", "mask board", "next word")],
    ),
    "growth": Quick(
        functools.partial(growth_table, (64, 128, 256), (1, 5, 10), (10, 40, 160), (1, 2, 4), repeats=2),
        [({"against": against}, "all", "slope") for against in ("width", "seeds", "notebooks")],
    ),
}

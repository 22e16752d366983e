"""Plots of stored results for the website: `PLOTS` says which figures of which file are drawn, and how.

Every figure and every name comes from the file: a result that is measured again moves its plot.
"""

import re
from collections.abc import Callable, Iterable

import matplotlib as mpl
import numpy as np

from utils.build.site.svg_plots import LOOK, Curve, Point, curves, dots, inline_svg, unique
from utils.training.scaling import fitted_sweeps


def plot(name: str, entry: dict) -> str | None:
    """The result as inline SVG, the same text for the same entry; None if the table is enough."""
    if name not in PLOTS:
        return None
    draw, data, options = PLOTS[name]
    with mpl.rc_context(LOOK | {"svg.hashsalt": name}):
        figure, seen = draw(data(entry), **options)
        title = entry["title"] if entry["title"].endswith("?") else f"{entry['title']}."
        return inline_svg(figure, name, f"{title} {seen[0].upper()}{seen[1:]}.".replace("`", ""))


def pairs(entry: dict) -> list[tuple[list[str], dict]]:
    """The rows of the table, with names as a reader knows them, each with its raw figures."""
    raw = entry["result"]
    return list(zip(entry["rows"], raw["rows"] if isinstance(raw, dict) else raw, strict=True))


def target(entry: dict, *words: str) -> float | None:
    """The number in the target whose text contains all the words."""
    texts = (each["target"] for each in entry["targets"] if all(word in each["what"] for word in words))
    return next((float(re.search(r"[\d.]+", text)[0]) for text in texts), None)


# Dots


def memory_table(entry):
    first = entry["rows"][0][0]  # rows named "first, ..." say more about it
    shown = [row[0] for row in entry["rows"] if not row[0].startswith(("published", f"{first},"))]
    names = dict(zip(unique(raw["row"] for raw in entry["result"]), shown, strict=True))
    by_row = sorted(entry["result"], key=lambda raw: shown.index(names[raw["row"]]))
    return [Point(f"task {raw['task']}", names[raw["row"]], raw["errors"]) for raw in by_row]


def order_task(entry):
    for row, raw in pairs(entry):
        values = (raw["accuracy"], *raw["longer"].values(), *raw["shifted"].values())
        for panel, accuracy in zip(entry["columns"][1:], values, strict=True):
            if accuracy is not None:
                yield Point(panel, row[0], accuracy)


def by_sentence_length(entry):
    for row, raw in pairs(entry):
        values = (*(band["exact_of_seeds"] for band in raw["quarters"]), raw["longer"]["exact"])
        for band, exact in zip(entry["columns"][2:7], values, strict=True):
            yield Point(band, row[0], exact)


def warmup(entry):
    for raw in entry["result"]:
        setting = f"{raw['norm']}-norm, {raw['warmup'] or 'no'} warm-up steps"
        yield Point(f"{raw['layers']} layers", setting, raw["losses"])


def regression(entry):
    for row, raw in pairs(entry):
        least, most = raw["error"] - raw["spread"], raw["error"] + raw["spread"]
        yield Point("", row[0], {"median": raw["error"], "least": least, "most": most})


def several_tasks(entry):
    for row, raw in pairs(entry):
        for method, values in zip(entry["columns"][3:], raw["seeds"].values(), strict=True):
            yield Point(row[0], method, values, f"labels per class: {row[1]}", raw["majority"])


def long_range(entry):
    for row, raw in pairs(entry):
        values = (raw["accuracies"], *raw["by_distance"])
        for panel, accuracy in zip(entry["columns"][1:], values, strict=True):
            yield Point(panel, row[0], accuracy, "", raw["chance"])


def norms(entry):
    for row, raw in pairs(entry):
        setting = f"{row[1]} layers, learning rate {row[2]}, {row[3]} warm-up steps"
        yield Point("", setting, raw["accuracies"], row[0], raw["usual"])


# Bars against 1


def attention_costs(entry):
    for row, raw in pairs(entry):
        for path in entry["columns"][2:]:
            mask = "no mask" if row[1] == "none" else f"{row[1]} mask"
            yield Point(entry["columns"][0], f"{row[0]}, {mask}", raw[path], path, target(entry, f"{path} `attention`"))


def encoder_speed(entry):
    for row, raw in pairs(entry):
        yield Point("", f"{row[0]}, length {row[1]}", raw["speed"], f"dropout {row[2]}", target(entry, "encoder layer"))


def transformer_speed(entry):
    for step in entry["result"]["training"]:
        setting = f"{step['norm']}-norm, length {step['length']}"
        goal = target(entry, f"of length {step['length']}, dropout {step['dropout']:g},", step["peer"])
        panel = f"training step, over {step['peer'].replace('`', '')}"
        yield Point(panel, setting, step["speed"], f"dropout {step['dropout']}", goal)
    for run in entry["result"]["cache"]:
        goal = target(entry, "KV cache", f"at {run['length']} tokens")
        yield Point("greedy decoding, over no KV cache", f"{run['length']} tokens", run["speed"], "decoding", goal)
    for run in entry["result"]["generate"]:
        panel = f"greedy decoding of {run['length']} tokens, over transformers"
        yield Point(panel, run["peer"], run["speed"], "decoding", target(entry, f"`generate` of {run['peer']}"))


def bert_speed(entry):
    panel, raw = entry["columns"][0], entry["result"]
    yield from (Point(panel, row[0], timed["speed"]) for row, timed in pairs(entry))
    yield Point(panel, "geometric mean", raw["geometric_mean"], "", target(entry, "geometric mean"))


def smollm2_speed(entry):
    values = (entry["result"]["generate"], entry["result"]["loop"])
    for row, speed in zip(entry["rows"], values, strict=True):
        yield Point("", row[0], speed, "", target(entry, f"speedup over {row[0].split()[0]}"))


def memory_seeds_at_once(entry):
    yield Point("", entry["rows"][0][0], entry["result"]["ratio"], "", target(entry, "relative to one seed"))


# Curves


def over_labels(first: int, key: str) -> Callable[[dict], Iterable[Curve]]:
    """Accuracy by number of labels, which the columns from `first` on name."""

    def data(entry):
        x = [column.removesuffix(" per class") for column in entry["columns"][first:]]
        return [Curve("", row[0], "labels per class", "test accuracy, %", x, raw[key]) for row, raw in pairs(entry)]

    return data


def length_costs(entry):
    for y_label, x, y in (("time, ms", "lengths", "ms"), ("memory, MiB", "memory_lengths", "mb")):
        for row, raw in pairs(entry):
            yield Curve(f"{y_label.split(',')[0]}, {row[1]}", row[0], "length, tokens", y_label, raw[x], raw[y])


def growth(entry):
    for raw in entry["result"]:
        what, _, condition = raw["what"].partition(", ")
        yield Curve(raw["what"], condition or "two at a time", what, "time, s", raw["counts"], raw["seconds"])


def translation_speed(entry):
    lengths, place = entry["result"]["lengths"], ("length, tokens", "target tokens per second")
    x = [row["length"] for row in lengths]
    for what in ("training", "decoding"):
        for kind in lengths[0][what]:
            yield Curve(what, f"{kind} model", *place, x, [row[what][kind] for row in lengths])


def head_costs(entry):
    heads = [row[0] for row in entry["rows"]]
    times = {column: [raw[column.replace(", ", "_")] for raw in entry["result"]] for column in entry["columns"][4:]}
    *steps, _ = times.values()  # the last is the fused kernel, which does all of them
    times["sum of the first three"] = np.sum(steps, axis=0).tolist()
    return [Curve("", name.removesuffix(", ms"), "heads", "time, ms", heads, y) for name, y in times.items()]


def depth(entry):
    layers, y_label = entry["columns"][1:], "gradient norm, input / output"
    stacks = zip(entry["rows"], entry["result"]["gradient"].values(), strict=True)
    return [Curve("", row[0], "layers", y_label, layers, gradient) for row, gradient in stacks]


def scaling(entry):
    labels = {"parameters": "parameters", "text": "tokens of text", "compute": "compute, FLOP"}
    for name, sweep in fitted_sweeps(entry["result"]).items():
        place = (labels[name], "test loss, nats")
        yield Curve(labels[name], "models of the fit", *place, sweep["x"], sweep["loss"], "none")
        if held_out := sweep["without"].get("held_out"):
            yield Curve(labels[name], "held-out model", *place, [held_out["x"]], [held_out["measured"]], "none")
        for kind, line in (("with irreducible loss", "--"), ("without", ":")):
            law = sweep[kind]["law"]
            law_name = f"power law {kind.split()[0]} irreducible loss"
            yield Curve(labels[name], law_name, *place, law["x"].tolist(), law["curve"].tolist(), line)


def in_context(entry):
    """Medians over prompts, all formats and draws together."""
    x = [str(count) for count in entry["result"]["num_examples"]]
    for row in entry["result"]["rows"]:
        prompts = [sum(by_format, []) for by_format in zip(*row["accuracies"], strict=True)]
        yield Curve("", row["task"], "examples in the prompt", "accuracy, %", x, prompts)


def rows_of(key: str, reference: str = "") -> Callable[[dict], Iterable[Point]]:
    """The figures `key` of every row, with a reference such as chance."""
    return lambda entry: [Point("", row[0], raw[key], "", raw.get(reference)) for row, raw in pairs(entry)]


MEAN = ("mean", "± standard deviation")
SPEEDUP = {"label": "speedup, log scale (1 = equally fast)", "bars": True}
# For each file: the kind of plot, its figures, and how it looks.
PLOTS: dict[str, tuple[Callable, Callable[[dict], Iterable], dict]] = {
    "attention_costs": (
        dots,
        attention_costs,
        {"label": "run time, log scale (1 = PyTorch)", "bars": True, "wrap": 40},
    ),
    "bert_speed": (dots, bert_speed, SPEEDUP),
    "depth": (curves, depth, {"log_y": True}),
    "encoder_speed": (dots, encoder_speed, SPEEDUP),
    "few_labels": (curves, over_labels(1, "seeds"), {}),
    "growth": (curves, growth, {"columns": 2, "log_y": True}),
    "head_costs": (curves, head_costs, {}),
    "in_context": (curves, in_context, {}),
    "length_costs": (curves, length_costs, {"columns": 2, "log_y": True, "base": 4}),
    "long_range": (dots, long_range, {"label": "accuracy, %", "columns": 5, "target": "chance"}),
    "memory_seeds_at_once": (dots, memory_seeds_at_once, {"label": "time, log scale (1 = one seed)", "bars": True}),
    "memory_table": (dots, memory_table, {"label": "test error, %", "columns": 5}),
    "modifications": (dots, rows_of("seeds"), {"label": "test loss, nats", "sort": 1}),
    "norms": (dots, norms, {"label": "test accuracy, %", "target": "most frequent form", "wrap": 30}),
    "order_task": (dots, order_task, {"label": "accuracy, %", "columns": 3}),
    "published_tasks": (curves, over_labels(2, "accuracy"), {}),
    "regression": (dots, regression, {"label": "test root-mean-square error", "sort": 1, "names": MEAN, "wrap": 32}),
    "scaling": (curves, scaling, {"columns": 3, "log_y": True}),
    "several_tasks": (dots, several_tasks, {"label": "test accuracy, %", "columns": 2, "target": "majority class"}),
    "smollm2_speed": (dots, smollm2_speed, SPEEDUP | {"wrap": 35}),
    "transformer_speed": (dots, transformer_speed, SPEEDUP),
    "translation": (dots, by_sentence_length, {"label": "exact match, %", "columns": 5}),
    "translation_speed": (curves, translation_speed, {"columns": 2, "log_y": True, "base": 4}),
    "two_positions": (
        dots,
        rows_of("pairs", "chance"),
        {"label": "pairs predicted correctly, %", "sort": -1, "target": "chance", "wrap": 32},
    ),
    "warmup": (dots, warmup, {"label": "loss, nats", "columns": 3}),
}

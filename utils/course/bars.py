"""What the course promises, beside what was measured last. A bar that is not reached is shown as such."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from utils.course.results import stored
from utils.course.timing import read_timings

LESSON_SECONDS = {
    "01_softmax_attention": 20,
    "02_memory_network": 70,
    "03_sequence_to_sequence": 100,
    "04_self_attention": 55,
    "05_multi_head_attention": 55,
    "06_transformer": 100,
    "07_pretrain_and_fine_tune": 115,
    "08_cost_and_scale": 110,
}
ALL_LESSONS_SECONDS = 660


@dataclass(frozen=True)
class Bar:
    """One promise: a measured figure that is to be at least, or at most, so much."""

    lesson: str
    what: str
    figure: float
    least: float | None = None
    most: float | None = None
    unit: str = ""

    def __post_init__(self):
        if (self.least is None) == (self.most is None):
            raise ValueError(f"expected one of least and most for the bar '{self.what}'")

    @property
    def held(self) -> bool:
        return self.figure >= self.least if self.most is None else self.figure <= self.most

    @property
    def promise(self) -> str:
        words = f"at least {self.least:g}" if self.most is None else f"at most {self.most:g}"
        return f"{words} {self.unit}".strip()

    @property
    def measured(self) -> str:
        return f"{self.figure:.3g} {self.unit}".strip() if self.figure < 1000 else f"{self.figure:,.0f} {self.unit}"


def bars() -> list[Bar]:
    """Every promise of the lessons, in their order."""
    parts = (
        _attention,
        _memory,
        _ladder,
        _self_attention,
        _heads,
        _transformer,
        _pretraining,
        _published,
        _costs,
        _run_times,
    )
    return [bar for part in parts for bar in part()]


def by(name: str, *keys: str, inside: str = "") -> dict[Any, dict]:
    """The rows of a stored table by what stands in these columns."""
    found = stored(name).result
    rows = found[inside] if inside else found
    return {tuple(row[key] for key in keys) if len(keys) > 1 else row[keys[0]]: row for row in rows}


def _attention() -> Iterator[Bar]:
    worst = max(row["fused"] for row in stored("attention_costs").result)
    yield Bar("01", "fused `attention`, cost over torch's own kernel, worst shape", worst, most=1.1)


def _memory() -> Iterator[Bar]:
    rows = by("memory_table", "row", "task")
    for task, most in ((1, 1), (2, 12), (3, 45), (15, 1)):
        row = rows["3 hops", task]
        yield Bar("02", f"task {task}, median error of {row['seeds']} seeds", row["median"], most=most, unit="%")
    errors = rows["3 hops", 16]["errors"]
    solved = sum(error <= 2 for error in errors)
    yield Bar("02", f"task 16, seeds of {len(errors)} with at most 2 % error", solved, least=9)
    yield Bar("02", "task 1, hops find the facts", rows["3 hops", 1]["agreement_median"], least=90, unit="%")
    ratio = stored("memory_seeds_at_once").result["ratio"]
    yield Bar("02", "ten seeds at once, time over that of one alone", ratio, most=2.5)


def _ladder() -> Iterator[Bar]:
    rows = by("ladder", "name")
    looking = [row for name, row in rows.items() if "no attention" not in name]
    best, without = max(looking, key=lambda row: row["exact"]["median"]), rows["no attention"]
    aligned = min(row["alignment_error"]["median"] for row in looking)
    gap = best["quarters"][-1]["exact"] - without["quarters"][-1]["exact"]
    yield Bar("03", "exact match with attention, median", best["exact"]["median"], least=98, unit="%")
    yield Bar("03", "alignment error of the best score", aligned, most=10, unit="%")
    yield Bar(
        "03", "exact match without attention, shortest quarter", without["quarters"][0]["exact"], least=90, unit="%"
    )
    yield Bar("03", "attention's gain on the longest quarter", gap, least=25, unit="points")
    slowest = max(row["seconds"]["median"] for row in rows.values())
    yield Bar("03", "training, slowest model", slowest, most=60, unit="s")


def _self_attention() -> Iterator[Bar]:
    rows = {kind: row["accuracy"] for kind, row in by("order_task", "kind").items()}
    yield Bar("04", "order task without positions (chance: 50)", rows["no positions"]["most"], most=55, unit="%")
    for kind in ("sinusoidal, added", "learned, added", "rotary"):
        yield Bar("04", f"order task, positions {kind}, worst seed", rows[kind]["least"], least=99, unit="%")


def _heads() -> Iterator[Bar]:
    pairs = {row: found["pairs"] for row, found in by("two_places", "row").items()}
    yield Bar("05", "two places, one head, best seed", max(pairs["1 head"]), most=50, unit="%")
    yield Bar("05", "two places, two heads, worst seed", min(pairs["2 heads"]), least=99, unit="%")
    slowest = min(row["speed"] for row in stored("encoder_speed").result)
    yield Bar("05", "encoder layer's training, times as fast as torch's", slowest, least=1)


def _transformer() -> Iterator[Bar]:
    (model,) = stored("transformer_ladder").result
    yield Bar("06", "exact match, median", model["exact"]["median"], least=99, unit="%")
    yield Bar("06", "BLEU, median", model["bleu"]["median"], least=99)
    yield Bar("06", "alignment error, worst seed", model["alignment_error"]["most"], most=15, unit="%")
    yield Bar("06", "training, slowest seed", model["seconds"]["most"], most=120, unit="s")
    first = by("transformer_recipe", "name")["as in the lesson"]
    yield Bar("06", "exact match in the lesson, worst seed", first["exact"]["least"], least=95, unit="%")
    yield Bar("06", "training in the lesson, slowest seed", first["seconds"]["most"], most=45, unit="s")
    speed = stored("transformer_speed").result
    for length, least in ((16, 1.1), (256, 1)):
        slowest = min(row["speed"] for row in speed["training"] if row["length"] == length)
        what = f"training step of length {length}, times as fast as `nn.Transformer`'s"
        yield Bar("06", what, slowest, least=least)
    longest = max(speed["cache"], key=lambda row: row["length"])
    yield Bar("06", f"cache at {longest['length']} words, times as fast as without", longest["speed"], least=3)
    for row in speed["generate"]:
        what = f"writing with the cache, times as fast as `generate` of {row['peer']}"
        yield Bar("06", what, row["speed"], least=2)


def _pretraining() -> Iterator[Bar]:
    rows = by("pretraining", "objective", inside="rows")
    causal = rows["causal"]
    share = causal["perplexity"]["median"] / causal["unigram"]
    yield Bar("07", "perplexity of the causal model over that of counting pieces", share, most=0.5)
    slowest = max(row["seconds"]["most"] for row in rows.values())
    yield Bar("07", "training, slowest objective and seed", slowest, most=60, unit="s")
    place = stored("few_labels").result["labels"].index(4)
    mean = {way: row["mean"][place] for way, row in by("few_labels", "way", inside="rows").items()}
    gain = mean["full"] - mean["scratch"]
    yield Bar("07", "pretraining's gain with four labels a class", gain, least=8, unit="points")


def _published() -> Iterator[Bar]:
    reviews = by("reviews", "way", inside="rows")["full"]["accuracy"]["least"]
    yield Bar("07", "reviews judged rightly after fine-tuning, worst seed", reviews, least=80, unit="%")
    parity = stored("bert_parity").result["above"]
    yield Bar("07", "hidden states, share beyond 1e-5 of the library's", parity, most=1e-5)
    bert = stored("bert_speed").result["geometric_mean"]
    yield Bar("07", "MiniLM, times as fast as `BertModel`", bert, least=1.1)
    found = stored("smollm2_speed").result
    yield Bar("08", "SmolLM2, pieces a second", found["pieces_a_second"], least=8)
    yield Bar("08", "SmolLM2, times as fast as `generate`", found["generate"], least=1)


def _costs() -> Iterator[Bar]:
    for row in stored("length_costs").result["rows"]:
        exponent = {"attention by hand": 2, "fused attention": 2, "local windows": 1}.get(row["kind"])
        if exponent is not None and not row["backward"]:
            off = abs(row["long_time"]["slope"] - exponent)
            yield Bar("08", f"{row['kind']}, exponent of time off {exponent}", off, most=0.2)
    larger = stored("scaling").result["larger"]
    off = abs(larger["foretold"]["with floor"][0] / larger["reached"]["median"] - 1)
    yield Bar("08", "loss foretold for the larger model, off by", 100 * off, most=1, unit="%")
    digits = by("digits", "positions", "shuffled")["learned", False]["accuracy"]["least"]
    yield Bar("08", "digits read rightly, worst seed", digits, least=95, unit="%")


def _run_times() -> Iterator[Bar]:
    seconds = {name: timing["seconds"] for name, timing in read_timings().items()}
    for name, most in LESSON_SECONDS.items():
        yield Bar(name[:2], "the whole lesson runs in", seconds[name], most=most, unit="s")
    yield Bar(
        "all", "all lessons, one after the other, run in", sum(seconds.values()), most=ALL_LESSONS_SECONDS, unit="s"
    )

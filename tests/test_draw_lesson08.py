"""Facts about the figures of lesson 08: no browser, no kernel."""

import time
from functools import cache, partial

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, Rectangle

from tests.picture_rules import broken_rules, words_in_boxes
from tests.test_draw_figures import drawn_texts
from utils.draw import explore, log_range, style
from utils.draw import lesson08 as lesson
from utils.draw.parts import LOOKS

LENGTHS = [256, 512, 1024, 2048, 2560, 3072, 4096]
MS = {
    "recurrence": [5.8, 9.9, 20, 37, 54, 65, 73],
    "attention by hand": [0.75, 3.7, 31, 144, 212, 321, 550],
    "fused attention": [0.43, 1.2, 4.3, 17, 27, 40, 72],
    "local windows": [0.8, 1.3, 2.2, 4.1, 5.1, 6.1, 8.2],
    "BigBird-like": [1.7, 2.2, 4, 5.6, 7.5, 9.3, 12],
    "Linformer-like": [0.27, 0.37, 1.2, 2, 2.1, 2.8, 3.7],
}
AT_4096 = {
    "recurrence": (5, 1), "attention by hand": (513, 2), "fused attention": (1.6, 0.59), "local windows": (9, 1),
    "BigBird-like": (11.7, 1), "Linformer-like": (1.2, 0.87),
}  # fmt: skip


def memory(kind):
    mib, power = AT_4096[kind]
    lengths = [n for n in LENGTHS if kind != "recurrence" or n <= 1024]
    return {"memory_lengths": lengths, "bytes": [mib * 2**20 * (n / 4096) ** power for n in lengths]}


CURVES = {kind: {"lengths": LENGTHS, "seconds": np.array(ms) / 1000, **memory(kind)} for kind, ms in MS.items()}
EXPONENTS = {
    "recurrence": ((0.96, 0.21), (1.0, 0.0)), "attention by hand": ((1.96, 0.06), (2.0, 0.0)),
    "fused attention": ((2.1, 0.03), (0.59, 0.1)), "local windows": ((1.01, 0.01), 1), "BigBird-like": (1.14, None),
}  # fmt: skip
TWO = {kind: CURVES[kind] for kind in ("attention by hand", "local windows")}


def band(n, window, causal=False):
    apart = np.subtract.outer(np.arange(n), np.arange(n))
    return (abs(apart) <= window) & ((apart >= 0) | (not causal))


def bigbird(n=32):
    mask = band(n, 3)
    mask[:2] = mask[:, :2] = True
    mask[np.random.default_rng(0).integers(n, size=40), np.random.default_rng(1).integers(n, size=40)] = True
    return mask


MASKS = {
    "full": np.ones((32, 32), bool),
    "local": band(32, 3),
    "causal local": band(32, 3, True),
    "BigBird-like": bigbird(),
}
MIXTURES = np.random.default_rng(2).normal(size=(6, 32))
BANDS = [8, 16, 32, 95]
RIGHT = {
    "fused attention": np.ones((4, 2)),
    "local windows": [[1.0, 1.0], [0.24, 0.2], [0.13, 0.12], [0.12, 0.13]],
    "BigBird-like": [[0.87, 1.0], [0.33, 0.74], [0.35, 0.61], [0.37, 0.69]],
    "Linformer-like": [0.3, 0.28, 0.3, 0.29],
}
X = np.array([3792, 10_000, 25_000, 56_000, 99_000, 223_000, 396_800])
LOSS = np.array([4.302, 4.073, 3.909, 3.821, 3.775, 3.746, 3.709])[:, None] + [0, 0.01, -0.008]


def law(floor=3.63, amount=None, exponent=0.46, x=X, off=0.01):
    amount = (4.3 - (floor or 0)) * 3792**exponent if amount is None else amount
    grid = np.geomspace(x[0], 890_000, 40)
    curve = (floor or 0) + amount * grid**-exponent
    return {
        "x": grid, "curve": curve, "low": curve * (1 - off), "high": curve * (1 + off),
        "exponent": (exponent, exponent * 0.8, exponent * 1.2), "floor": floor,
    }  # fmt: skip


FORETOLD = {"x": 890_112, "value": 3.686, "low": 3.652, "high": 3.726, "reached": [3.725, 3.72, 3.735]}
WORSE = {"x": 890_112, "value": 3.562, "low": 3.39, "high": 3.76, "reached": 3.725}
SWEEPS = {
    "parameters": {
        "x": X, "loss": LOSS, "xlabel": "parameters", "plain": {"law": law(None, exponent=0.031), "held_out": WORSE},
        "floor": {"law": law(), "held_out": FORETOLD},
    },
    "text": {
        "x": [6000, 19_000, 60_000, 190_000, 600_000], "loss": [5.505, 4.544, 4.032, 3.79, 3.649],
        "xlabel": "pieces of text", "plain": {"law": law(None, exponent=0.08)}, "floor": {"law": law(3.5)},
    },
}  # fmt: skip
COMPUTING = {
    "x": [5.8e9, 1.2e10, 4e10, 8e10, 4e11, 1.1e12], "loss": [4.835, 4.521, 4.168, 4.018, 3.703, 3.649],
    "xlabel": "operations", "cloud": ([2e10, 3e11, 8e11], [4.6, 4.1, 3.9]),
}  # fmt: skip
PANELS = {
    "larger models": {"x": X, "loss": LOSS, "xlabel": "parameters", "law": law(), "held_out": FORETOLD},
    "more text": {**{key: SWEEPS["text"][key] for key in ("x", "loss", "xlabel")}, "law": law(3.51)},
    "both": COMPUTING,
}
CHANGES = [
    ("ReLU", [-0.004, -0.007, -0.004], 0.002),
    ("gated (SwiGLU)", [0.03, 0.025, 0.032], 0.004),
    ("post-norm", [-0.03, -0.06, -0.18], 0.044),
    ("rotary positions", [0.22, 0.24, 0.254], 0.011),
    ("learned positions", [-0.005, 0.002, -0.006], 0.003),
]
IMAGE = np.clip(np.random.default_rng(5).normal(6, 6, size=(8, 8)), 0, 16)


def shares(layers=2, grid=4):
    values = np.random.default_rng(3).uniform(size=(layers, grid, grid))
    return values / values.sum((1, 2), keepdims=True)


VOTES = np.random.default_rng(4).normal(size=(4, 4)) * 6
LONG = "t " * 60

EXAMPLES = {
    "costs": lambda: lesson.cost_curves(CURVES, "a fused kernel saves the memory, not the square", EXPONENTS),
    "costs, no exponents": lambda: lesson.cost_curves(CURVES, LONG),
    "costs, time": lambda: lesson.cost_curves(TWO, "time alone", EXPONENTS, "time"),
    "costs, memory": lambda: lesson.cost_curves(CURVES, "memory alone", quantities=["memory"]),
    "costs, two points": lambda: lesson.cost_curves(
        {"a": {"lengths": [1, 2], "seconds": [1, 1], "memory_lengths": [1, 2], "bytes": [8, 8]}}, "two"
    ),
    "at length": lambda: lesson.cost_at_length(CURVES, 4096, span=(256, 65536)),
    "at length, beyond": lambda: lesson.cost_at_length(CURVES, 65536.0, LONG, span=(256, 65536)),
    "at length, shortest": lambda: lesson.cost_at_length(CURVES, 256),
    "patterns": lambda: lesson.attention_patterns(MASKS, "few pairs, many ways to choose them", {"Linformer-like": MIXTURES}),
    "patterns, one": lambda: lesson.attention_patterns({"a": [[True, False], [True, True]]}, LONG),
    "patterns, most": lambda: lesson.attention_patterns(
        {f"a pattern with a long name, {i}": np.eye(96) for i in range(5)}, "six", {"mixed": np.ones((48, 96))}
    ),
    "distance": lambda: lesson.accuracy_by_distance(
        BANDS, RIGHT, "a window knows all that is near and nothing else", 0.125, {8: "one layer", 16: "two layers"},
        overall={"fused attention": [1.0, 1.0], "local windows": 0.28},
    ),
    "distance, two bands": lambda: lesson.accuracy_by_distance([1, 2], {"a": [0, 1]}, LONG),
    "scaling": lambda: lesson.scaling_curve(X, LOSS, "what six models foretell of a seventh", law(), FORETOLD),
    "scaling, points": lambda: lesson.scaling_curve([1, 2], [3, 3], LONG),
    "scaling, outside": lambda: lesson.scaling_curve(
        X, LOSS[:, 0], "missed", {**law(), "exponent": 0.46}, {**FORETOLD, "reached": 4.5}, xlabel="weights"
    ),
    "scaling, wide": lambda: lesson.scaling_curve([1, 10, 100], [50, 5, 0.5], "three powers of ten"),
    "panels": lambda: lesson.scaling_panels(PANELS, "size and reading must grow together"),
    "panels, one": lambda: lesson.scaling_panels({"a long name of a panel": COMPUTING}, LONG),
    "choice, floor": lambda: lesson.scaling_choice(SWEEPS, "parameters", True),
    "choice, plain": lambda: lesson.scaling_choice(SWEEPS, "text", False, "own title"),
    "changes": lambda: lesson.modification_effects(CHANGES, "positions matter most"),
    "changes, one": lambda: lesson.modification_effects([("a", 0, None)], LONG),
    "changes, all worse": lambda: lesson.modification_effects(
        [(f"a change of a long name, {i}", [-1.5 - i, -1.0], 0.1) for i in range(14)], "all worse", "what was there before"
    ),
    "heads": lambda: lesson.grouped_heads(
        9, {"a head of keys for each": 9, "grouped, as in SmolLM2": 3, "one for all": 1}, "three share one", 64, 30
    ),
    "heads, one": lambda: lesson.grouped_heads(1, {"a": 1}, LONG),
    "heads, most": lambda: lesson.grouped_heads(16, {"a": 16, "b": 8, "c": 2}, "sixteen", 128, 80),
    "digit": lambda: lesson.digit_looks(IMAGE, shares(), "it looks at the strokes", VOTES, digit=3),
    "digit, one layer": lambda: lesson.digit_looks(np.zeros((8, 8)), shares(1), LONG, names=["all heads"]),
    "digit, most": lambda: lesson.digit_looks(IMAGE.repeat(3, 0).repeat(3, 1), shares(3, 6), "six by six", 12.5 * np.eye(6)),
    "workers": lambda: lesson.shared_batch(2, 8, "two workers, one step"),
    "workers, one": lambda: lesson.shared_batch(1, 1, LONG),
    "workers, six": lambda: lesson.shared_batch(6, 47, "six"),
}  # fmt: skip


@cache
def drawn(name):
    """(figure, PNG) of an example, drawn once for all tests."""
    figure = EXAMPLES[name]()
    return figure, style.figure_png(figure, "a")


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


def drawing_seconds(draw):
    """Processor seconds of the quickest of three drawings."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        style.figure_png(draw(), "a")
        spent.append(time.process_time() - start)
    return min(spent)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_can_be_projected(name):
    """Nothing is cut, too small, too large for a slide or written over something else."""
    assert broken_rules(drawn(name)[0]) == []


@pytest.mark.parametrize("name", ["costs", "patterns", "panels", "digit"])
def test_every_figure_gives_the_same_bytes_twice(name):
    assert drawn(name)[1] == style.figure_png(EXAMPLES[name](), "a")


@pytest.mark.parametrize("name", ["at length", "choice, floor"])
def test_a_figure_behind_a_control_is_drawn_quickly(name):
    """Seconds of the processor; far more than a drawing takes, so that a busy machine does not matter."""
    assert drawing_seconds(EXAMPLES[name]) < 0.6


def lines_of(axes, shade, least=2):
    return [line for line in axes.lines if line.get_color() == shade and len(line.get_xdata()) >= least]


# Cost


def test_every_kind_has_its_line_and_its_exponent_in_both_panels():
    figure = drawn("costs")[0]
    for kind, (shade, _, _) in zip(CURVES, LOOKS, strict=False):
        times, sizes = (lines_of(axes, shade)[0] for axes in figure.axes)
        assert times.get_ydata() == pytest.approx(MS[kind])
        assert sizes.get_ydata()[-1] == pytest.approx(CURVES[kind]["bytes"][-1] / 2**20)
    words = words_of(figure)
    assert {"attention by hand\n1.96 ± 0.06", "attention by hand\n2.00 ± 0.00", "local windows\n1.00"} <= set(words)
    assert words.count("Linformer-like") == 2 and "BigBird-like" in words  # no exponent was given for them


def test_both_axes_are_logarithmic_so_a_power_of_the_length_is_straight():
    assert {(axes.get_xscale(), axes.get_yscale()) for axes in drawn("costs")[0].axes} == {("log", "log")}


def test_a_cost_between_two_lengths_lies_on_the_straight_line_of_the_logarithms():
    x, y = np.array([100.0, 400.0]), np.array([1.0, 16.0])
    assert lesson.cost_at(x, y, 200) == (pytest.approx(4), True)
    assert lesson.cost_at(x, y, 400) == (pytest.approx(16), True)
    assert lesson.cost_at(x, y, 1600) == (pytest.approx(256), False)
    assert lesson.cost_at(x, y, 50) == (pytest.approx(0.25), False)


def test_beyond_the_measured_lengths_the_longer_half_says_how_it_goes_on():
    x = np.array([128.0, 256, 512, 1024])
    bent = np.array([1.0, 1.0, 1.0, 4.0])  # flat first, then the square
    assert lesson.cost_at(x, bent, 2048) == (pytest.approx(16), False)


def test_the_costs_at_a_length_are_said_and_what_was_not_measured_is_hollow():
    figure = drawn("at length")[0]
    words = words_of(figure)
    assert {"550 ms", "513 MiB", "8.2 ms", "what a text of 4,096 tokens costs"} <= set(words)
    dots = [line for axes in figure.axes for line in axes.lines if line.get_markersize() == 12]
    hollow = [line.get_markerfacecolor() == "white" for line in dots]
    assert hollow == [False] * 6 + [True] + [False] * 5  # only the memory of the recurrence ends at 1024
    beyond = drawn("at length, beyond")[0]
    assert "128 GiB" in words_of(beyond)
    assert figure.axes[0].get_xlim() == beyond.axes[0].get_xlim()


def test_the_alternative_text_says_every_cost():
    words = lesson.cost_words(TWO, 4096.2)
    assert words == (
        "Time and peak memory at 4,096 tokens: attention by hand 550 ms and 513 MiB; local windows 8.2 ms and 9 MiB."
    )


def test_numbers_have_three_digits_and_a_unit_that_suits_them():
    assert [lesson.seconds_text(s) for s in (4.3e-5, 0.00123, 0.55, 12.34, 90, 7200)] == [
        "43 µs", "1.23 ms", "550 ms", "12.3 s", "1.5 min", "2 h",
    ]  # fmt: skip
    assert [lesson.bytes_text(b) for b in (12, 1536, 2**20, 3 * 2**30, 5 * 2**40)] == [
        "12 B", "1.5 KiB", "1 MiB", "3 GiB", "5 TiB",
    ]  # fmt: skip
    assert [lesson.tick_text(n) for n in (0.5, 20, 5000, 2e6, 1e10, 3e11)] == [
        "0.5",
        "20",
        "5k",
        "2M",
        "10¹⁰",
        "3·10¹¹",
    ]


# Patterns


def test_below_each_mask_stands_how_many_pairs_it_has():
    words = words_of(drawn("patterns")[0])
    for mask in MASKS.values():
        assert f"{int(mask.sum()):,} pairs" in words
    assert "192 pairs" in words and "19 % of all" in words  # 32 queries look at 6 mixtures
    assert "100 % of all" in words


def test_the_masks_are_drawn_as_they_are():
    images = drawn("patterns")[0].axes[0].images
    for image, mask in zip(images, MASKS.values(), strict=False):
        assert np.array_equal(np.asarray(image.get_array()), mask)
    queries, made = images[len(MASKS) :]
    assert queries.get_array().shape == (32, 6) and np.array_equal(np.asarray(made.get_array()), MIXTURES)


# Distance


def test_the_lines_are_means_over_seeds_and_the_bars_span_them():
    axes = drawn("distance")[0].axes[0]
    line = next(line for line in lines_of(axes, LOOKS[2][0], 4))
    assert line.get_ydata() == pytest.approx([93.5, 53.5, 48, 53])
    spans = [[(one[0][1], one[1][1]) for one in part.get_segments()] for part in axes.collections]
    assert np.allclose(spans[2], [(87, 100), (33, 74), (35, 61), (37, 69)])
    assert len(spans) == 3  # one seed has no bar
    words = words_of(drawn("distance")[0])
    assert {"1–8", "33–95", "chance 12.5 %", "two layers", "local windows\n28 % in all", "Linformer-like"} <= set(words)


# Scaling


def test_the_points_the_law_its_band_and_its_floor_are_drawn():
    axes = drawn("scaling")[0].axes[0]
    assert lines_of(axes, style.BLUE)[0].get_ydata() == pytest.approx(LOSS.reshape(-1))
    assert lines_of(axes, style.ORANGE)[0].get_ydata() == pytest.approx(law()["curve"])
    edges = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == pytest.approx((law()["low"].min(), law()["high"].max()))
    assert any(set(line.get_ydata()) == {3.63} for line in axes.lines)
    words = words_of(drawn("scaling")[0])
    assert {"floor 3.63", "foretold 3.686\n[3.652, 3.726]", "power law,\nexponent 0.46\n[0.37, 0.55]"} <= set(words)


def test_what_was_reached_is_said_to_be_inside_or_outside():
    assert "reached 3.727,\noutside" in words_of(drawn("scaling")[0])
    assert "reached 4.500,\noutside" in words_of(drawn("scaling, outside")[0])
    assert "reached 3.725,\ninside" in words_of(lesson.scaling_choice(SWEEPS, "parameters", False))


def test_a_law_without_a_floor_has_no_dashed_line():
    figure = drawn("choice, plain")[0]
    assert not [word for word in words_of(figure) if "floor" in word]
    assert not [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]


def test_the_axes_stand_still_while_the_law_changes():
    plain, floor = (lesson.scaling_choice(SWEEPS, "parameters", one).axes[0] for one in (False, True))
    assert (plain.get_xlim(), plain.get_ylim()) == (floor.get_xlim(), floor.get_ylim())


def test_the_words_of_the_scaling_widget_say_law_floor_and_foretelling():
    assert lesson.scaling_words(SWEEPS, "parameters", True) == (
        "Loss against parameters, 7 points from 4.30 to 3.71; power law with a floor, exponent 0.46 [0.37, 0.55]; "
        "floor 3.63; foretold 3.686, between 3.652 and 3.726, reached 3.727."
    )
    assert "without a floor" in lesson.scaling_words(SWEEPS, "text", False)


def test_three_sweeps_share_one_vertical_axis_and_the_frontier_leaves_runs_behind():
    figure = drawn("panels")[0]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert {"larger models", "more text", "both", "floor 3.63", "not on the frontier"} <= set(words_of(figure))
    (cloud,) = [line for line in figure.axes[2].lines if line.get_color() == lesson.CLOUD["color"]]
    assert cloud.get_ydata() == pytest.approx([4.6, 4.1, 3.9])


# Modifications


def test_changes_are_sorted_and_only_clear_ones_have_a_colour():
    figure = drawn("changes")[0]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["rotary positions", "gated (SwiGLU)", "learned positions", "ReLU", "post-norm"]
    means = [line for line in figure.axes[0].lines if line.get_markersize() == 11]
    assert [line.get_xdata()[0] for line in means] == pytest.approx([0.238, 0.029, -0.003, -0.005, -0.09])
    assert [line.get_color() for line in means] == [style.BLUE, style.BLUE, style.GREY, style.RED, style.RED]
    assert {"+0.238 ± 0.011", "−0.090 ± 0.044", "as the base"} <= set(words_of(figure))


# Heads, digits, workers


def boxes_of(figure, edge):
    return [
        patch for patch in figure.axes[0].patches
        if isinstance(patch, FancyBboxPatch) and to_hex(patch.get_edgecolor()) == edge.lower()
    ]  # fmt: skip


def test_every_query_head_leads_to_the_keys_of_its_group():
    figure = lesson.grouped_heads(6, {"grouped": 2}, "t", 64, 30)
    assert (len(boxes_of(figure, style.BLUE)), len(boxes_of(figure, style.ORANGE))) == (6, 2)
    goals = [round(line.get_xdata()[1], 6) for line in figure.axes[0].lines]
    assert goals[:3] == [goals[0]] * 3 and goals[3:] == [goals[3]] * 3 and goals[0] < goals[3]
    assert {"2 × 2 × 64 × 30", "7,680"} <= set(words_of(figure))
    assert words_in_boxes(drawn("heads, most")[0])[1] == []


def test_the_patches_put_together_are_the_image():
    images = drawn("digit")[0].axes[0].images
    assert np.array_equal(np.asarray(images[0].get_array()), IMAGE)
    patches = np.array([np.asarray(image.get_array()) for image in images[1:17]]).reshape(4, 4, 2, 2)
    assert np.array_equal(patches.transpose(0, 2, 1, 3).reshape(8, 8), IMAGE)


def test_every_look_and_every_vote_is_written():
    words = words_of(drawn("digit")[0])
    for value in shares().flat:
        assert f"{100 * value:.0f}" in words
    assert {"votes for 3", "16 patches", "the image"} <= set(words)
    assert sum("." in word and len(word) <= 5 for word in words) == 16


def test_tensors_are_numbers_too():
    figure = lesson.digit_looks(torch.tensor(IMAGE), torch.tensor(shares()), "t", torch.tensor(VOTES))
    assert len(figure.axes[0].images) == 1 + 16 + 2 + 1


def test_the_workers_share_every_row_once():
    figure = drawn("workers, six")[0]
    rows = [patch for patch in figure.axes[0].patches if type(patch) is Rectangle]
    assert len(rows) == 47
    said = [word for word in words_of(figure) if word.startswith("worker ")]
    assert said[0] == "worker 0\nrows 1–7" and said[-1] == "worker 5\nrows 40–47" and len(said) == 6
    assert words_in_boxes(figure)[1] == []


# The two widgets


def test_the_cost_widget_draws_every_length_of_its_slider():
    draw = partial(lesson.cost_at_length, CURVES, span=(256, 65536))
    widget = explore(draw, partial(lesson.cost_words, CURVES), length=log_range(256, 65536, 4096))
    first = widget.static()
    for length in (256, 1000.5, 65536):
        widget.set(length=length)
    assert widget.static() != first
    assert "65,536 tokens" in widget.alt_text()


def test_the_scaling_widget_draws_every_choice():
    draw, words = partial(lesson.scaling_choice, SWEEPS), partial(lesson.scaling_words, SWEEPS)
    widget = explore(draw, words, sweep=list(SWEEPS), floor=True)
    for sweep in SWEEPS:
        for floor in (True, False):
            widget.set(sweep=sweep, floor=floor)
            figure = draw(sweep=sweep, floor=floor)
            style.figure_png(figure, "a")
            assert broken_rules(figure) == []
    assert "without a floor" in widget.alt_text()


# What is refused

REFUSED = [
    (lambda: lesson.cost_curves({}, "t"), "one to 6 kinds"),
    (lambda: lesson.cost_curves({"a": {}}, "t"), "'lengths' and 'seconds' of a"),
    (lambda: lesson.cost_curves(TWO, "t", quantities=["space"]), "quantities among"),
    (lambda: lesson.cost_curves({"a": {"lengths": [2, 1], "seconds": [1, 1]}}, "t", quantities="time"), "rising lengths of a"),
    (lambda: lesson.cost_curves({"a": {"lengths": [1, 2], "seconds": [1]}}, "t", quantities="time"), "one of the seconds"),
    (lambda: lesson.cost_curves({"a": {"lengths": [1, 2], "seconds": [1, 0]}}, "t", quantities="time"), "above 0"),
    (lambda: lesson.cost_curves(TWO, "t", {"local windows": (1,)}), r"as \(of the time, of the memory\), got 1"),
    (lambda: lesson.cost_curves(TWO, "t", {"local windows": ((1, 2, 3), 1)}), r"or \(exponent, error\)"),
    (lambda: lesson.cost_at_length(CURVES, 0), "at least 1"),
    (lambda: lesson.cost_at_length(CURVES, 5000), "within the span"),
    (lambda: lesson.cost_at_length(CURVES, 10, span=(20, 5)), "within the span"),
    (lambda: lesson.attention_patterns({}, "t"), "one to six patterns"),
    (lambda: lesson.attention_patterns({"a": np.eye(4), "b": np.eye(5)}, "t"), r"of the sizes \[4, 5\]"),
    (lambda: lesson.attention_patterns({"a": np.full((4, 4), 0.25)}, "t"), "give the mask, not the weights"),
    (lambda: lesson.attention_patterns({"a": np.eye(97)}, "t"), "2 to 96 places"),
    (lambda: lesson.attention_patterns({}, "t", {"a": np.ones((4, 6))}), "k at most n / 2"),
    (lambda: lesson.accuracy_by_distance([8, 4], {"a": [1, 1]}, "t"), "rising bands"),
    (lambda: lesson.accuracy_by_distance([4, 8], {}, "t"), "one to 8 kinds"),
    (lambda: lesson.accuracy_by_distance([4, 8], {"a": [1, 50]}, "t"), "divide by 100 if these are per cents"),
    (lambda: lesson.accuracy_by_distance([4, 8], {"a": np.ones((3, 2))}, "t"), "transpose it"),
    (lambda: lesson.accuracy_by_distance([4, 8], {"a": [1, 1]}, "t", chance=12.5), "chance between 0 and 1"),
    (lambda: lesson.accuracy_by_distance([4, 8], {"a": [1, 1]}, "t", reach={5: "x"}), "at the end of one of the bands"),
    (lambda: lesson.scaling_curve(X, LOSS.T, "t"), "transpose it"),
    (lambda: lesson.scaling_curve([0, 1], [1, 1], "t"), "above 0"),
    (lambda: lesson.scaling_curve(X, LOSS, "t", {"x": X}), "lacks"),
    (lambda: lesson.scaling_curve(X, LOSS, "t", {**law(), "low": law()["high"] + 1}), "low <= high"),
    (lambda: lesson.scaling_curve(X, LOSS, "t", {**law(), "curve": [1, 2]}), "rising x above 0"),
    (lambda: lesson.scaling_curve(X, LOSS, "t", {**law(), "exponent": (1, 2)}), r"\(exponent, low, high\)"),
    (lambda: lesson.scaling_curve(X, LOSS, "t", None, {"x": 1}), "what was foretold"),
    (lambda: lesson.scaling_curve(X, LOSS, "t", None, {**FORETOLD, "low": 5}), "low <= value <= high"),
    (lambda: lesson.scaling_panels({}, "t"), "one to three panels"),
    (lambda: lesson.scaling_panels({"a": {**COMPUTING, "cloud": ([1], [1, 2])}}, "t"), "two rows"),
    (lambda: lesson.scaling_choice(SWEEPS, "money", True), "one of the sweeps"),
    (lambda: lesson.scaling_choice({"a": COMPUTING}, "a", True), "lacks"),
    (lambda: lesson.modification_effects([], "t"), "one to 14 rows"),
    (lambda: lesson.modification_effects([("a", 1)], "t"), "got 2 parts"),
    (lambda: lesson.modification_effects([("a", 1, -1)], "t"), "a noise from 0 on"),
    (lambda: lesson.grouped_heads(17, {"a": 1}, "t"), "one to 16 heads"),
    (lambda: lesson.grouped_heads(9, {"a": 2}, "t"), "divides 9, got 2"),
    (lambda: lesson.grouped_heads(9, {"a": 3}, "t", width=64), "both width and layers"),
    (lambda: lesson.digit_looks(np.ones((8, 4)), shares(), "t"), r"image \(side, side\)"),
    (lambda: lesson.digit_looks(IMAGE, shares()[0], "t"), r"looks \(layers, g, g\)"),
    (lambda: lesson.digit_looks(IMAGE, shares(1, 3), "t"), "divide the image of 8, got 3 x 3"),
    (lambda: lesson.digit_looks(IMAGE, 2 * shares(), "t"), "sum to 1"),
    (lambda: lesson.digit_looks(IMAGE, shares(), "t", votes=np.ones((2, 2))), r"votes \(4, 4\)"),
    (lambda: lesson.digit_looks(IMAGE, shares(), "t", names=["a"]), "names"),
    (lambda: lesson.shared_batch(7, 8, "t"), "one to six workers"),
    (lambda: lesson.shared_batch(4, 2, "t"), "a batch of 4 to 48 rows"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_be_drawn_is_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()

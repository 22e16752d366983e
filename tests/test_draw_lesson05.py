"""Facts about the figures of lesson 05: no browser, no kernel."""

from functools import cache

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from tests.picture_rules import broken_rules, words_in_boxes
from tests.test_draw_figures import drawn_texts
from utils.draw import lesson05 as lesson
from utils.draw import style
from utils.draw.parts import LOOKS

WORDS = ["the", "cat", "that", "slept", "was", "black"]
WIDE = "mmmmmmmmmmmmmmmmmmmmmmmmmmmm"
STEPS = np.arange(0, 301, 50)
DEPTHS = [1, 2, 4, 8, 16, 32]
HEADS = [1, 2, 4, 8]
SEEDS = np.array([-0.02, 0.0, 0.05])
CURVES = {
    "2 heads": np.linspace(0.05, 0.6, 7)[:, None] + SEEDS,
    "4 heads": np.linspace(0.1, 0.4, 7)[:, None] + SEEDS,
}
NORMS = {
    "plain": np.array([1, 0.3, 0.05, 1e-3, 1e-6, 0])[:, None] * [1, 1.4, 0.6],
    "with residuals": np.ones((6, 3)) * [1, 1.2, 0.8],
}
COSTS = {
    "parameters": {"attention": [4160] * 4},
    "time in ms": {"attention": [1.1, 1.2, 1.4, 1.9], "products": [0.8, 0.8, 0.8, 0.8]},
    "scores in MB": {"attention": [0.5, 1, 2, 4]},
}
LINE = np.linspace(-1, 1, 9)
BOWL = 0.4 + LINE[:, None] ** 2 + 2 * LINE**2
WAVES = BOWL + 0.8 * np.sin(9 * LINE[:, None]) ** 2
EFFECTS = -np.random.default_rng(1).random((3, 2, 4)) / 4
FEATURES = np.random.default_rng(2).normal(size=(4, 16)) * [[1], [4], [0.3], [2]] + [[0], [5], [-3], [40]]


def normalised(features):
    return (features - features.mean(1, keepdims=True)) / features.std(1, keepdims=True)


def random_maps(*shape):
    powers = np.exp(3 * np.random.default_rng(3).normal(size=shape))
    return powers / powers.sum(-1, keepdims=True)


EXAMPLES = {
    "heads": lambda: lesson.one_or_two_heads(list("abcde"), [3, 8, 1, 5, 2], 1, 3, "two heads keep both"),
    "heads, back": lambda: lesson.one_or_two_heads(["$", "b", "c"], [0.5, -2, 1000], 2, 0, "t " * 60),
    "heads, eight": lambda: lesson.one_or_two_heads(list("abcdefgh"), range(8), 0, 7, "eight"),
    "split": lambda: lesson.split_shapes(2, 5, 12, 3, "split and merge"),
    "split, one": lambda: lesson.split_shapes(1, 1, 1, 1, "one"),
    "split, most": lambda: lesson.split_shapes(3, 6, 16, 8, "t " * 60),
    "costs": lambda: lesson.head_costs(HEADS, COSTS, "the parameters stay"),
    "costs, from 0": lambda: lesson.head_costs(HEADS, COSTS, "linear", log=False),
    "costs, one": lambda: lesson.head_costs([1, 64], {"none": {"a": [0, 0]}}, "t " * 60, log=False),
    "costs, far": lambda: lesson.head_costs([1, 1024], {"time in ms": {"a": [1e-4, 1e5], "b": [2, 2]}, "p": {"p": [1, 1]}}, "f"),
    "costs, large": lambda: lesson.head_costs(HEADS, {"p": {"a": [4_198_400] * 4}}, "millions"),
    "divergence": lambda: lesson.divergence(STEPS, CURVES, "heads grow apart"),
    "divergence, limit": lambda: lesson.divergence(STEPS, CURVES, "apart", limit=(0.693, "nothing in common")),
    "limit below": lambda: lesson.spread(
        DEPTHS, NORMS, "low", "layers", "norm", log_x=True, log_y=True, limit=(1e-12, "rounding")
    ),
    "training": lambda: lesson.training_curves(STEPS, {"pre-norm": 3 - CURVES["2 heads"]}, "t " * 60),
    "training, log": lambda: lesson.training_curves(STEPS, CURVES, "log", log_y=True),
    "gradient": lambda: lesson.gradient_depth(DEPTHS, NORMS, "the gradient dies"),
    "gradient, flat": lambda: lesson.gradient_depth([1, 2], {"a": [1, 1]}, "flat"),
    "spread, chance": lambda: lesson.spread(
        HEADS, {"width 32": [[20, 25], [99, 100], [100, 100], [98, 100]]}, "heads", "heads", "right in %",
        log_x=True, limits=(0, 104), chance=6.25,
    ),  # fmt: skip
    "spread, eight": lambda: lesson.spread([0, 1], {f"curve {i}\ntwo": [1, 1] for i in range(8)}, "t", "x", "y"),
    "spread, below 0": lambda: lesson.spread([0, 0.5, 1], {"a": [-1, -2, -3]}, "t", "x", "y"),
    "removal": lambda: lesson.removal_effects(EFFECTS, "a few heads carry the task"),
    "removal, one": lambda: lesson.removal_effects([[0.0]], "t " * 60, ["mean of 3 seeds"]),
    "removal, one layer": lambda: lesson.removal_effects(-np.eye(8)[:5, None] / 2, "one layer"),
    "removal, large": lambda: lesson.removal_effects(np.linspace(-1, 1, 6 * 12).reshape(6, 12), "six by twelve"),
    "surfaces": lambda: lesson.loss_surfaces({"plain": WAVES, "residual": BOWL}, 1.0, "residuals smooth it"),
    "surfaces, log": lambda: lesson.loss_surfaces({"plain": 10 ** (2 * WAVES), "residual": BOWL}, 0.5, "t", log=True),
    "surface, flat": lambda: lesson.loss_surfaces({"flat": np.ones((3, 3))}, 2, "t " * 50),
    "contours": lambda: lesson.loss_surfaces({"plain": WAVES, "residual": BOWL}, 1.0, "smooth", kind="contour"),
    "contours, log": lambda: lesson.loss_surfaces(
        {"plain": 10 ** (2 * WAVES), "residual": BOWL}, 0.5, "t", kind="contour", log=True
    ),
    "contours, three": lambda: lesson.loss_surfaces(
        {"plain": WAVES, "residual": BOWL, "flat": BOWL / 9}, 1.0, "three", kind="contour", valleys=True
    ),
    "contour, flat": lambda: lesson.loss_surfaces({"flat": np.ones((3, 3))}, 2, "flat", kind="contour"),
    "axis": lambda: lesson.norm_axis(WORDS, 8, "over the features of one token"),
    "axis, small": lambda: lesson.norm_axis(["$", "b"], 2, "t " * 60),
    "axis, large": lambda: lesson.norm_axis(WORDS + ["now", "."], 12, "twelve"),
    "normalised": lambda: lesson.layer_norm_spread(FEATURES, normalised(FEATURES), WORDS[:4], "each by itself"),
    "normalised, one": lambda: lesson.layer_norm_spread([[1.0, 3.0]], [[-1.0, 1.0]], ["$"], "t " * 60),
    "normalised, ten": lambda: lesson.layer_norm_spread(
        1e4 * np.ones((10, 3)), np.zeros((10, 3)), [f"word {i}" for i in range(10)], "ten"
    ),
    "block": lambda: lesson.encoder_block(64, 4, 256, "where the norm goes"),
    "block, pre": lambda: lesson.encoder_block(8, 8, 1, "t " * 60, orders="pre"),
    "block, wide": lambda: lesson.encoder_block(16384, 128, 65536, "wide", orders=["pre", "post"]),
    "paths": lambda: lesson.relation_paths(random_maps(2, 6, 6), WORDS, 5, "layer 2 relates relations"),
    "paths, one": lambda: lesson.relation_paths([[[1.0]]], ["$"], 0, "t " * 60),
    "paths, four layers": lambda: lesson.relation_paths(random_maps(4, 6, 6), WORDS, 0, "four"),
}  # fmt: skip


@cache
def drawn(name):
    """(figure, PNG) of an example, drawn once for all tests."""
    figure = EXAMPLES[name]()
    return figure, style.figure_png(figure, "a")


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


def line_of(axes, look):
    return next(line for line in axes.lines if (line.get_color(), line.get_marker()) == look[:2])


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_can_be_projected(name):
    """Nothing is cut, too small, too large for a slide or written over something else."""
    assert broken_rules(drawn(name)[0]) == []


def test_the_rules_for_pictures_find_what_breaks_them():
    figure = Figure(figsize=(13, 2))
    for x, words, size in ((0.5, "one", 14), (0.5, "two", 14), (0.999, "cut off", 14), (0.2, "tiny", 6)):
        figure.text(x, 0.5, words, fontsize=size)
    style.figure_png(figure, "a")
    assert [rule.split(":")[0] for rule in broken_rules(figure)] == [
        "cut at the edge",
        "too small",
        "lie over each other",
        "too large for a slide",
    ]


@pytest.mark.parametrize("name", ["block", "surfaces", "split", "divergence"])
def test_every_figure_gives_the_same_bytes_twice(name):
    assert drawn(name)[1] == style.figure_png(EXAMPLES[name](), "a")


@pytest.mark.parametrize("name", ["heads", "heads, back", "heads, eight", "block", "block, wide", "paths"])
def test_the_words_in_the_boxes_stay_in_the_boxes(name):
    inside, sticking_out = words_in_boxes(drawn(name)[0])
    assert inside >= 8 and sticking_out == []


# One softmax, two places


def test_one_head_keeps_the_mean_and_two_heads_keep_the_pair_in_order():
    figure = drawn("heads")[0]
    written = words_of(figure)
    assert {"6.5", "(8 + 5) / 2, and (5 + 8) / 2 is the same", "first 8, then 5: side by side, both are kept"} <= set(
        written
    )
    assert written.count("½") == 2 and written.count("1") == 2 + 2  # two weights, and one value in each half
    ends = {text.get_text(): text.get_position()[0] for text in figure.axes[0].texts if text.get_fontweight() == "bold"}
    assert ends["8"] < ends["5"]  # the outputs of the heads, in the order of the question


# Shapes


@pytest.mark.parametrize(("batch", "length", "dim", "heads"), [(2, 5, 12, 3), (1, 4, 8, 2), (3, 2, 6, 6)])
def test_splitting_keeps_every_number_in_the_colour_of_its_head(batch, length, dim, heads):
    figure = lesson.split_shapes(batch, length, dim, heads, "t")
    cells = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert len(cells) == 3 * batch * length * dim
    for third in range(3):
        part = cells[third * batch * length * dim : (third + 1) * batch * length * dim]
        shades = [to_hex(cell.get_facecolor()) for cell in part]
        counts = {shade: shades.count(shade) for shade in shades}
        assert len(counts) == heads and set(counts.values()) == {batch * length * dim // heads}
    shape, split = f"({batch}, {length}, {dim})", f"({batch}, {heads}, {length}, {dim // heads})"
    assert words_of(figure).count(shape) == 2 and split in words_of(figure)


# Costs and curves


@pytest.mark.parametrize("name", ["costs", "costs, from 0"])
def test_a_name_has_the_same_look_in_every_panel(name):
    for axes, (panel, curves) in zip(drawn(name)[0].axes[:3], COSTS.items(), strict=True):
        assert axes.get_title(loc="left") == panel
        for look, numbers in zip(LOOKS, curves.values(), strict=False):
            assert list(line_of(axes, look).get_ydata()) == numbers and list(line_of(axes, look).get_xdata()) == HEADS
    assert {"attention", "products"} <= set(words_of(drawn(name)[0]))


@pytest.mark.parametrize("name", ["costs", "costs, far"])
def test_the_same_growth_is_as_steep_in_every_panel(name):
    panels = [axes for axes in drawn(name)[0].axes if axes.get_title(loc="left")]
    assert all((axes.get_xscale(), axes.get_yscale()) == ("log", "log") for axes in panels)
    factors = [axes.get_ylim()[1] / axes.get_ylim()[0] for axes in panels]
    assert factors == pytest.approx([factors[0]] * len(panels))
    for axes in panels:
        low, high = axes.get_ylim()
        assert all(low < value < high for line in axes.lines for value in line.get_ydata())
        assert 2 <= len([tick for tick in axes.get_yticks() if low <= tick <= high]) <= 6


def test_without_powers_the_panels_start_at_zero():
    assert [axes.get_ylim()[0] for axes in drawn("costs, from 0")[0].axes[:3]] == [0, 0, 0]


def test_a_line_that_its_panel_names_is_not_in_the_key():
    times = {"softmax": [1, 2, 4, 8], "products": [1, 1, 1, 1]}
    panels = {
        "time in ms": times,
        "memory of the weights": {"weights": [1, 2, 4, 8]},
        "Parameters": {"parameters": [9] * 4},
    }
    figure = lesson.head_costs(HEADS, panels, "t")
    style.figure_png(figure, "a")
    written = words_of(figure)
    assert {"softmax", "products"} <= set(written) and not {"weights", "parameters"} & set(written)
    one = lesson.head_costs(HEADS, {"parameters": {"parameters": [9] * 4}, "time": {"softmax": [1] * 4}}, "t")
    assert "softmax" in words_of(one) and words_of(one).count("parameters") == 1


def test_large_numbers_are_shortened():
    assert [lesson.thousands(one) for one in (0, 12, 4160, 4_198_400)] == ["0", "12", "4.16k", "4.2M"]


def test_the_line_is_the_median_and_the_band_reaches_from_seed_to_seed():
    axes = drawn("divergence")[0].axes[0]
    values = CURVES["2 heads"]
    assert np.allclose(line_of(axes, LOOKS[0]).get_ydata(), np.median(values, 1))
    corners = axes.collections[0].get_paths()[0].vertices
    at_end = corners[np.isclose(corners[:, 0], 300)][:, 1]
    assert (at_end.min(), at_end.max()) == pytest.approx((values[-1].min(), values[-1].max()))
    assert {"training steps", "divergence between heads in nats", "2 heads", "4 heads"} <= set(words_of(axes.figure))


def test_tensors_are_taken_and_one_row_is_one_seed():
    curve = torch.linspace(0, 1, 7)
    axes = lesson.divergence(STEPS, {"a": curve}, "t").axes[0]
    assert np.allclose(line_of(axes, LOOKS[0]).get_ydata(), curve)


def test_a_gradient_of_exactly_zero_is_a_hollow_mark_on_the_bottom_line():
    figure = drawn("gradient")[0]
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow] == [[32]]
    assert hollow[0].get_ydata()[0] == axes.get_ylim()[0]
    assert "layers (hollow mark: exactly 0)" in words_of(figure)
    assert "layers" in words_of(drawn("gradient, flat")[0])


def test_chance_has_its_line():
    axes = drawn("spread, chance")[0].axes[0]
    assert any(list(line.get_ydata()) == [6.25, 6.25] for line in axes.lines)
    assert "chance 6.25" in words_of(axes.figure)


def test_a_limit_has_its_name_and_a_place_however_far_away_it_is():
    figure = drawn("divergence, limit")[0]
    axes = figure.axes[0]
    assert any(list(line.get_ydata()) == [0.693, 0.693] for line in axes.lines)
    assert axes.get_ylim()[1] > 0.693 > CURVES["2 heads"].max() and "nothing in common" in words_of(figure)
    below = drawn("limit below")[0].axes[0]
    hollow = [line for line in below.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert below.get_ylim()[0] < 1e-12 and hollow[0].get_ydata()[0] == below.get_ylim()[0]


# Removal


def test_every_tile_has_its_effect_and_the_strongest_has_the_strongest_colour():
    figure = drawn("removal")[0]
    tiles = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert len(tiles) == EFFECTS.size
    written = words_of(figure)
    for number in EFFECTS.flat:
        assert lesson.points(number) in written
    # Less green and blue is more of a fall; the order of the tiles is the order of the effects.
    paleness = [sum(tile.get_facecolor()[:3]) for tile in tiles]
    assert list(np.argsort(paleness)) == list(np.argsort(EFFECTS, axis=None))
    first, below, right = (tiles[place].get_xy() for place in (0, 4, 1))
    assert below[1] < first[1] and right[0] > first[0]  # layers go down, heads to the right
    assert {"seed 1", "seed 3", "layer 2", "head 4"} <= set(written)


# Loss surfaces


def test_both_surfaces_have_one_scale():
    axes = [one for one in drawn("surfaces")[0].axes if one.name == "3d"]
    low, high = BOWL.min(), max(BOWL.max(), WAVES.max())
    assert [one.get_zlim() for one in axes] == [pytest.approx((low, high))] * 2
    assert all(one.collections[0].norm.vmax == pytest.approx(high) for one in axes)
    written = words_of(drawn("surfaces")[0])
    assert {"plain", "residual"} <= set(written) and any("height and colour: loss" in words for words in written)


def test_contours_have_one_scale_and_a_cross_at_the_model():
    figure = drawn("contours")[0]
    for axes in figure.axes[:2]:
        assert {(line.get_marker(), *line.get_xdata(), *line.get_ydata()) for line in axes.lines} == {("x", 0, 0)}
        filled, lines = axes.collections[:2]
        assert list(filled.levels) == list(lines.levels) == list(figure.axes[0].collections[0].levels)
        assert filled.levels[0] < BOWL.min() and filled.levels[-1] > WAVES.max()
        assert (filled.norm.vmin, filled.norm.vmax) == pytest.approx((BOWL.min(), max(BOWL.max(), WAVES.max())))


def test_a_valley_is_a_dot_where_all_eight_around_are_higher():
    losses = np.ones((7, 7))
    losses[2, 5], losses[4, 1:3], losses[0, 3] = 0.5, 0.7, 0.1  # a valley, two equal ones and one at the rim
    axes = lesson.loss_surfaces({"a": losses}, 3.0, "t", kind="contour", valleys=True).axes[0]
    dots = next(line for line in axes.lines if line.get_marker() == "o")
    assert (list(dots.get_xdata()), list(dots.get_ydata())) == ([-1.0], [2.0])
    assert all(line.get_marker() == "x" for line in drawn("contours")[0].axes[0].lines)


# Layer normalisation


def test_the_right_grid_marks_one_row_and_the_wrong_one_a_column():
    figure = drawn("axis")[0]
    frames = [p for p in figure.axes[0].patches if isinstance(p, Rectangle) and not p.get_fill()]
    (right, wrong), cell = frames, 0.42
    assert (right.get_width(), right.get_height()) == pytest.approx((8 * cell, cell))
    assert (wrong.get_width(), wrong.get_height()) == pytest.approx((cell, len(WORDS) * cell))
    assert right.get_linestyle() != wrong.get_linestyle()
    assert {"✓ layer norm", "✗ not layer norm"} <= set(words_of(figure))


def test_every_feature_is_a_dot_and_mean_and_deviation_are_written():
    figure = drawn("normalised")[0]
    for axes, part in zip(figure.axes, (FEATURES, normalised(FEATURES)), strict=True):
        dots = [line for line in axes.lines if line.get_marker() not in ("None", "")]
        assert np.allclose([line.get_xdata() for line in dots], part)
    assert [text for text in words_of(figure) if text == "0.0 ± 1.0"] == ["0.0 ± 1.0"] * 4
    assert f"{FEATURES[3].mean():.1f} ± {FEATURES[3].std():.1f}" in words_of(figure)


# The encoder block


def row_of(order, sizes=(64, 4, 256)):
    return lesson.encoder_block(*sizes, "t", orders=order)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_block_has_two_sums_two_norms_and_says_the_shape_of_all_arrows_once(order):
    figure = row_of(order)
    written = words_of(figure)
    assert sum(isinstance(patch, Circle) for patch in figure.axes[0].patches) == 2
    assert written.count("layer\nnorm") == written.count("skip") == 2
    assert sum("(b, n, 64)" in words for words in written) == 1
    assert {"4 heads: (b, 4, n, 16)", "64 → 256 → 64"} <= set(written)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_norm_is_inside_the_branch_before_and_behind_the_sum_after(order):
    """Read from the picture: what lies under a skip, from its dot to its sum."""
    axes = row_of(order).axes[0]
    sums = sorted(patch.center[0] for patch in axes.patches if isinstance(patch, Circle))
    dots = sorted(line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o")
    parts = [(text.get_text(), text.get_position()[0]) for text in axes.texts if "\n" in text.get_text()]
    branches = [[name for name, x in parts if dot < x < end] for dot, end in zip(dots, sums, strict=True)]
    norm = ["layer\nnorm"] if order == "pre" else []
    assert branches == [[*norm, "multi-head\nattention"], [*norm, "feed-\nforward"]]


def test_two_orders_share_the_line_about_the_shape():
    written = words_of(drawn("block, wide")[0])
    assert sum("(b, n, 16384)" in words for words in written) == 1


# Relations of relations


def test_the_words_are_reached_by_the_product_of_the_maps():
    maps = random_maps(2, 6, 6)
    figure = drawn("paths")[0]
    reached = (maps[1] @ maps[0])[5]
    shown = sorted(
        (text.get_position()[0], text.get_text())
        for text in figure.axes[0].texts
        if text.get_text().endswith("%") and "share" not in text.get_text()
    )
    assert [text for _, text in shown] == [lesson.percent(share) for share in reached]


def test_a_line_for_every_look_that_counts():
    maps = np.zeros((2, 3, 3))
    maps[1, 2] = [0.5, 0.45, 0.05]
    maps[0] = np.eye(3)
    axes = lesson.relation_paths(maps, list("abc"), 2, "t").axes[0]
    upper, lower = (len(one.get_segments()) for one in axes.collections)
    assert (upper, lower) == (2, 2)


def test_a_word_is_marked_only_if_a_line_leads_to_it():
    maps = np.zeros((2, 4, 4))
    maps[1, 3] = [0.3, 0.3, 0.25, 0.15]  # no line to d
    maps[0, :3] = [0.81, 0.19, 0, 0]
    maps[0, 3] = [0, 1.0, 0, 0]  # b gets 31 % by four ways, none of which has a line all the way
    axes = lesson.relation_paths(maps, list("abcd"), 3, "t", least=0.2).axes[0]
    lines = [segment for one in axes.collections for segment in one.get_segments()]
    ends = {tuple(np.round(segment[1] - [0, 0.21], 6)) for segment in lines}
    target = max(text.get_position()[1] for text in axes.texts)
    bold = {
        tuple(np.round(text.get_position(), 6))
        for text in axes.texts
        if text.get_fontweight() == "bold" and text.get_text() in "abcd" and text.get_position()[1] < target
    }
    assert bold == ends and len(ends) == 4
    shares = [text for text in axes.texts if "%" in text.get_text() and len(text.get_text()) < 5]
    assert [text.get_fontweight() for text in shares] == ["bold", "normal", "normal", "normal"]


def test_the_share_is_explained():
    written = words_of(drawn("paths")[0])
    assert "share" in written and any("summed; lines for looks of at least 10 %" in words for words in written)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lesson.one_or_two_heads(["a", "b"], [1, 2], 0, 1, "t"), "3 to 8 tokens, got 2"),
        (lambda: lesson.one_or_two_heads(list("abc"), [1, 2], 0, 1, "t"), r"each of 3 tokens, got the shape \(2,\)"),
        (lambda: lesson.one_or_two_heads(list("abc"), [1, 2, 3], 1, 1, "t"), "two different places"),
        (lambda: lesson.one_or_two_heads([WIDE] * 4, [1, 2, 3, 4], 1, 2, "t"), "do not fit a slide twice"),
        (lambda: lesson.split_shapes(2, 5, 10, 3, "t"), "3 heads that divide dim 10"),
        (lambda: lesson.split_shapes(2, 5, 64, 4, "t"), "which can still be counted"),
        (lambda: lesson.head_costs([1], {"a": {"b": [1]}}, "t"), "two or more rising"),
        (lambda: lesson.head_costs([1, 2], {}, "t"), "one to three panels"),
        (lambda: lesson.head_costs([1, 2], {"time": [1, 2]}, "t"), "for the panel 'time'"),
        (lambda: lesson.head_costs([1, 2], {"time": {"a": [1]}}, "t"), r"each of 2 numbers of heads, got \(1,\)"),
        (lambda: lesson.head_costs([1, 2], {"time": {"a": [1, -1]}}, "t"), "from 0 on"),
        (lambda: lesson.head_costs([1, 2], {"time": {"a": [1, 0]}}, "t"), "log=False starts at 0"),
        (
            lambda: lesson.divergence(STEPS, CURVES, "t", limit=(np.inf, "a")),
            r"a limit \(height, name\), got \(inf, 'a'\)",
        ),
        (lambda: lesson.divergence([0], CURVES, "t"), "two or more rising"),
        (lambda: lesson.divergence(STEPS, {}, "t"), "one to 8 curves"),
        (lambda: lesson.divergence(STEPS, {"a": np.ones((3, 7))}, "t"), r"got \(3, 7\); transpose it"),
        (lambda: lesson.divergence(STEPS, {"a": np.full(7, np.nan)}, "t"), "must be finite"),
        (lambda: lesson.gradient_depth([0, 1], {"a": [1, 1]}, "t"), "above 0"),
        (lambda: lesson.gradient_depth([1, 2], {"a": [1, -1]}, "t"), "logarithmic"),
        (lambda: lesson.removal_effects([1.0], "t"), r"\(seeds, layers, heads\), got \(1,\)"),
        (lambda: lesson.removal_effects([[-20.0]], "t"), "divide points by 100"),
        (lambda: lesson.removal_effects(np.zeros((9, 1, 1)), "t"), "8 seeds"),
        (lambda: lesson.removal_effects(np.zeros((2, 1, 1)), "t", ["a"]), "names of seeds"),
        (lambda: lesson.loss_surfaces({}, 1, "t"), "one to three surfaces"),
        (lambda: lesson.loss_surfaces({"a": np.ones((3, 4))}, 1, "t"), r"square grid of 3 by 3 or more, got \(3, 4\)"),
        (lambda: lesson.loss_surfaces({"a": np.zeros((3, 3))}, 1, "t", log=True), "above 0 for a logarithmic scale"),
        (lambda: lesson.loss_surfaces({"a": BOWL}, 1, "t", kind="map"), "surface or contour, got 'map'"),
        (lambda: lesson.loss_surfaces({"a": BOWL}, 0, "t"), "span above 0, got 0"),
        (lambda: lesson.norm_axis(["a"], 4, "t"), "2 to 8 tokens and 2 to 12 features"),
        (lambda: lesson.norm_axis([WIDE, "b"], 12, "t"), "do not fit a slide twice"),
        (lambda: lesson.layer_norm_spread([[1]], [[1, 2]], ["a"], "t"), r"got \(1, 1\) and \(1, 2\)"),
        (lambda: lesson.layer_norm_spread(np.ones((11, 2)), np.ones((11, 2)), "abcdefghijk", "t"), "at most 10 tokens"),
        (lambda: lesson.layer_norm_spread([[1.0]], [[1.0]], [], "t"), "tokens"),
        (lambda: lesson.encoder_block(10, 3, 4, "t"), "3 heads that divide dim 10"),
        (lambda: lesson.encoder_block(8, 2, 4, "t", orders="both"), "among pre, post, got"),
        (lambda: lesson.relation_paths(np.eye(3), list("abc"), 0, "t"), r"got \(3, 3\)"),
        (lambda: lesson.relation_paths(np.ones((5, 1, 1)), ["a"], 0, "t"), "at most 4 layers"),
        (lambda: lesson.relation_paths(np.ones((1, 1, 1)), ["a"], 1, "t"), "a target from 0 to 0, got 1"),
        (lambda: lesson.relation_paths(2 * np.ones((1, 1, 1)), ["a"], 0, "t"), "softmax comes first"),
        (lambda: lesson.relation_paths([np.eye(9)], [WIDE] * 9, 0, "t"), "too wide for a slide"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()

"""Facts about the figures of lesson 04: no browser, no kernel."""

from functools import cache

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from tests.picture_rules import broken_rules, words_in_boxes
from tests.test_draw_figures import drawn_texts
from utils.draw import lesson04 as lesson
from utils.draw import style
from utils.draw.parts import LOOKS


def words(text):
    return text.split()


DIMS = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
RAW = {
    "variance": np.array(DIMS, dtype=float),
    "entropy_share": np.geomspace(0.7, 0.03, 9),
    "stuck": np.linspace(0, 0.7, 9),
    "median_slope": [0.26, 0.3, 0.33, 0.31, 0.2, 0.09, 0.03, 0.004, 0.0],
}
SCALED = {
    "variance": np.ones(9),
    "entropy_share": np.full(9, 0.89),
    "stuck": np.zeros(9),
    "median_slope": np.full(9, 0.18),
}
LENGTHS = [8, 12, 16, 24, 32, 48, 64, 96]
NAN = np.nan
SEEDS = np.array([-1.5, 0.0, 1.0])
CURVES = {
    "no positions": 50 + SEEDS + np.zeros((8, 1)),
    "sinusoidal": np.array([98, 98, 97, 88, 80, 73, 68, 61])[:, None] + SEEDS,
    "learned": np.array([98, 98, 97, NAN, NAN, NAN, NAN, NAN])[:, None] + SEEDS,
}
ORDER = [("no positions", [49.8, 50.4, 50.0]), ("sinusoidal", [99.2, 100, 100]), ("rotary", [100.0])]
LOSSES = [("unigram counts", 2.87), ("bigram counts", 2.41), ("trigram counts", 2.12), ("self-attention", 1.93)]
RIVER, LOAN = words("she sat on the bank of the river"), words("the bank gave him a loan")
WIDE = "mmmmmmmmmmmmmmmmmmmmmmmmmmmm"


def sinusoids(count=64, dim=32):
    angles = np.arange(count)[:, None] / 10000 ** (2 * np.arange(dim // 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(count, dim)


def one_row(d_k, keys=64, seed=0):
    """The five arguments of `dk_picture`."""
    generator = np.random.default_rng(seed)
    raw = generator.normal(size=(keys, d_k)) @ generator.normal(size=d_k)
    scaled = raw / d_k**0.5
    return raw, scaled, lesson.softmax(raw), lesson.softmax(scaled), d_k


def causal(count):
    return np.tril(np.ones((count, count), dtype=bool))


PRODUCTS = sinusoids() @ sinusoids().T
EXAMPLES = {
    "controllers": lambda: lesson.controllers(words("the cat sees the dog")),
    "controllers, two": lambda: lesson.controllers(["a", "$"]),
    "controllers, seven": lambda: lesson.controllers(words("a big cat sees the old dog")),
    "scaling": lambda: lesson.scaling(DIMS, RAW, SCALED),
    "scaling, median": lambda: lesson.scaling(DIMS, RAW, SCALED, third="median_slope", title="t " * 60),
    "scaling, two": lambda: lesson.scaling(
        [1, 2], *[{"variance": [3, 3], "entropy_share": [1, 0], "median_slope": [0, 0]}] * 2, third="median_slope"
    ),
    "d_k 1": lambda: lesson.dk_picture(*one_row(1)),
    "d_k 1024": lambda: lesson.dk_picture(*one_row(1024)),
    "d_k, six keys": lambda: lesson.dk_picture(*one_row(64, keys=6)),
    "d_k, one key": lambda: lesson.dk_picture(*one_row(64, keys=1)),
    "loss by context": lambda: lesson.loss_by_context(np.geomspace(3, 1.7, 64), {"trigrams": 2.2, "bigrams": 2.7}, "t"),
    "loss by context, two": lambda: lesson.loss_by_context([1.0, 0.0], {}, "t " * 50),
    "pattern": lambda: lesson.position_pattern(sinusoids(), "early components turn fast"),
    "pattern of one": lambda: lesson.position_pattern([[0.5]], "one"),
    "pattern, wider": lambda: lesson.position_pattern(3 * sinusoids(200, 8), "learned " * 20, limit=3.2),
    "waves": lambda: lesson.position_waves(sinusoids(), [0, 1, 8, 20]),
    "waves, one": lambda: lesson.position_waves(sinusoids(1), [31], "one"),
    "waves, eight": lambda: lesson.position_waves(sinusoids(500, 256), [0, 1, 2, 3, 4, 100, 200, 255]),
    "offsets": lambda: lesson.offset_products(PRODUCTS, "the offset alone counts"),
    "offsets, two": lambda: lesson.offset_products([[1, 0], [0.5, 1]], "two", rows=[0, 1]),
    "offsets, six": lambda: lesson.offset_products(1e4 * PRODUCTS, "t " * 60, rows=[0, 1, 2, 3, 4, 63]),
    "order": lambda: lesson.order_bars(ORDER, 50, "without positions the order is lost"),
    "order, edges": lambda: lesson.order_bars([("a", [0, 100])], 0, "edges"),
    "order, twelve": lambda: lesson.order_bars([(f"a rather long name, {i}", [100]) for i in range(12)], 100, "12"),
    "lengths": lambda: lesson.extrapolation(LENGTHS, CURVES, 16, "past the training length", chance=50),
    "lengths, none refuses": lambda: lesson.extrapolation([1, 2], {"a": [[0], [100]]}, 1, "t " * 60),
    "lengths, all refuse": lambda: lesson.extrapolation(
        [8, 1024], {f"model number {i}": [[NAN], [NAN]] for i in range(8)}, 1024, "all refuse"
    ),
    "masks": lambda: lesson.mask_pictures(
        [np.ones((6, 6)), causal(6), torch.ones(6, 6).bool(), causal(6) & ~np.tril(causal(6), -3)],
        ["everything", "causal", "padding", "window"],
    ),
    "mask of one": lambda: lesson.mask_pictures([[[True]]], ["one"], title="a title that is longer than the mask"),
    "masks, five large": lambda: lesson.mask_pictures([causal(12)] * 5, ["causal mask"] * 5),
    "masks, unequal": lambda: lesson.mask_pictures([causal(3), np.ones((1, 8))], ["causal", "one row"]),
    "losses": lambda: lesson.loss_table_bars(LOSSES, "the model beats counts"),
    "losses, none": lambda: lesson.loss_table_bars([("perfect", 0.0)], "perfect"),
    "contexts": lambda: lesson.two_contexts(RIVER, LOAN, "bank", 1.0, 0.43),
    "contexts of one word": lambda: lesson.two_contexts(["$"], [WIDE, "$"], "$", -1, 1),
    "contexts, far apart": lambda: lesson.two_contexts([*LOAN, "and"], ["and", *RIVER], "and", 0.5, -0.004, "t"),
}


@cache
def drawn(name):
    """(figure, PNG) of an example, drawn once for all tests."""
    figure = EXAMPLES[name]()
    return figure, style.figure_png(figure, "a")


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


def line_of(axes, shade, marker):
    return next(line for line in axes.lines if (line.get_color(), line.get_marker()) == (shade, marker))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_keeps_to_the_rules_for_pictures(name):
    assert broken_rules(drawn(name)[0]) == []


@pytest.mark.parametrize("name", ["controllers", "d_k 1024", "masks"])
def test_every_figure_gives_the_same_bytes_twice(name):
    assert drawn(name)[1] == style.figure_png(EXAMPLES[name](), "a")


@pytest.mark.parametrize("name", ["controllers", "controllers, seven", "contexts", "contexts of one word"])
def test_the_words_in_the_boxes_stay_in_the_boxes(name):
    inside, sticking_out = words_in_boxes(drawn(name)[0])
    assert inside >= 5 and sticking_out == []


# Controllers


@pytest.mark.parametrize("count", [2, 5, 7])
def test_one_controller_looks_n_times_and_n_of_them_n_squared_times(count):
    figure = lesson.controllers(list("abcdefg")[:count])
    looks = [one.get_segments() for one in figure.axes[0].collections if isinstance(one, LineCollection)]
    assert [len(one) for one in looks] == [count] * (1 + count)
    assert {f"1 × {count} scores", f"{count} × {count} = {count**2} scores"} <= set(words_of(figure))
    ends = {tuple(end) for one in looks[1:] for _, end in one}
    assert len(ends) == count  # every token looks at the same ones


# The root


def test_the_panels_of_the_scaling_show_what_they_were_given():
    variance, entropy, stuck, *_ = drawn("scaling")[0].axes
    for axes, key, factor in ((variance, "variance", 1), (entropy, "entropy_share", 100), (stuck, "stuck", 100)):
        for table, (shade, marker, _) in ((RAW, lesson.RAW), (SCALED, lesson.SCALED)):
            line = line_of(axes, shade, marker)
            assert np.allclose(line.get_ydata(), np.array(table[key]) * factor) and list(line.get_xdata()) == DIMS
    assert (variance.get_xscale(), variance.get_yscale(), entropy.get_yscale()) == ("log", "log", "linear")


def test_a_median_slope_of_exactly_zero_is_a_hollow_mark_and_is_explained():
    figure = drawn("scaling, median")[0]
    axes = figure.axes[2]
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow] == [[1024]]
    low, high = axes.get_ylim()
    assert low < hollow[0].get_ydata()[0] < 0.004 < high
    assert "d_k (hollow: exactly 0)" in words_of(figure)
    assert not any("hollow" in text for text in words_of(drawn("scaling")[0]))


def test_raw_and_scaled_differ_in_more_than_colour():
    assert all(one != other for one, other in zip(lesson.RAW, lesson.SCALED, strict=True))


def test_the_weights_stand_in_order_with_their_entropy():
    raw, scaled, weights_raw, weights_scaled, d_k = one_row(1024)
    figure = drawn("d_k 1024")[0]
    for axes, weights in zip(figure.axes, (weights_raw, weights_scaled), strict=True):
        heights = [bar.get_height() for bar in axes.patches]
        assert np.allclose(heights, sorted(weights, reverse=True))
        entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum()
        assert f"entropy {abs(entropy):.2f} of {np.log(64):.2f} nats" in axes.get_title(loc="left")
    assert any(text.startswith("d_k = 1024: the best key takes") for text in words_of(figure))


def test_a_slider_over_d_k_moves_no_axis():
    figures = [lesson.dk_picture(*one_row(d_k)) for d_k in DIMS]
    places = {
        (tuple(figure.get_size_inches()), *(axes.get_position().bounds for axes in figure.axes)) for figure in figures
    }
    assert len(places) == 1
    assert {axes.get_ylim() for figure in figures for axes in figure.axes} == {(0, 1)}


def test_entropy_is_log_n_for_equal_weights_and_zero_for_one():
    assert lesson.entropy_of(np.full(8, 1 / 8)) == pytest.approx(np.log(8))
    assert lesson.entropy_of(np.array([0.0, 1.0, 0.0])) == 0


# Positions


def test_the_pattern_has_the_positions_in_rows_and_white_at_zero():
    image = drawn("pattern")[0].axes[0].images[0]
    assert np.allclose(image.get_array(), sinusoids())
    assert image.get_clim() == (-1, 1)
    assert min(image.cmap(image.norm(0.0))[:3]) > 0.9


def test_the_two_ends_of_the_colours_of_positions_are_told_apart_without_red():
    image = drawn("pattern")[0].axes[0].images[0]
    low, high = (np.array(image.cmap(image.norm(number))) for number in (-0.8, 0.8))
    assert low[2] - high[2] > 0.3


def test_waves_are_the_chosen_components():
    strips = drawn("waves")[0].axes
    assert len(strips) == 4
    for axes, component in zip(strips, [0, 1, 8, 20], strict=True):
        assert np.allclose(axes.lines[0].get_ydata(), sinusoids()[:, component])
        assert f"component {component}" in [text.get_text() for text in axes.texts]


def test_rows_of_sinusoids_fall_on_one_curve_and_random_ones_do_not():
    assert lesson.gap_of(PRODUCTS, [0, 16, 63]) < 1e-9
    random = np.random.default_rng(0).normal(size=(64, 64))
    assert lesson.gap_of(random, [0, 16, 63]) > 1
    assert lesson.gap_of(random, [3]) == 0
    shades = [{line.get_color() for line in figure.axes[0].lines if line.get_marker() == "None"}
              for figure in (drawn("offsets")[0], lesson.offset_products(random, "t"))]  # fmt: skip
    assert len(shades[0]) == 1 and len(shades[1]) == 4


def test_every_row_of_products_stands_over_its_own_offset():
    axes = drawn("offsets")[0].axes[0]
    curves = [line for line in axes.lines if line.get_marker() == "None"]
    for line, row in zip(curves, lesson.default_rows(64), strict=True):
        assert list(line.get_xdata()) == list(range(-row, 64 - row))
        assert np.allclose(line.get_ydata(), PRODUCTS[row])
    marks = [line for line in axes.lines if line.get_marker() != "None" and len(line.get_xdata()) > 1]
    places = [place for line in marks for place in line.get_xdata()]
    assert len(marks) == 4 and len(set(places)) == len(places)  # no mark covers another


# Order


def test_every_seed_has_a_mark_and_chance_has_a_line():
    axes = drawn("order")[0].axes[0]
    chance, *lines = axes.lines
    assert list(chance.get_xdata()) == [50, 50]
    seeds = [list(line.get_xdata()) for line in lines[1::2]]
    assert seeds == [list(accuracies) for _, accuracies in ORDER]
    assert [line.get_xdata()[0] for line in lines[::2]] == [50.0, 100, 100]
    assert {"chance 50 %", "50.0  (49.8 to 50.4)", "100.0  (99.2 to 100.0)", "100.0"} <= set(words_of(axes.figure))
    for line in lines[1::2]:
        assert len(set(line.get_ydata())) == len(line.get_ydata())  # seeds that are alike stay visible


def test_the_line_is_the_median_and_the_band_reaches_from_seed_to_seed():
    axes = drawn("lengths")[0].axes[0]
    shade, marker, _ = LOOKS[1]
    assert np.allclose(line_of(axes, shade, marker).get_ydata(), np.median(CURVES["sinusoidal"], 1))
    band = next(one for one in axes.collections if to_hex(one.get_facecolor()[0]) == shade.lower())
    corners = band.get_paths()[0].vertices
    at_96 = corners[np.isclose(corners[:, 0], 96)][:, 1]
    assert (at_96.min(), at_96.max()) == (59.5, 62)


def test_a_model_that_refuses_is_marked_below_zero_where_it_refuses():
    figure = drawn("lengths")[0]
    axes = figure.axes[0]
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert [list(line.get_xdata()) for line in hollow] == [[24, 32, 48, 64, 96]]
    assert max(hollow[0].get_ydata()) < 0
    assert "refuses" in words_of(figure) and "trained up to 16" in words_of(figure)
    assert "refuses" not in words_of(drawn("lengths, none refuses")[0])


def test_two_models_that_refuse_do_not_cover_each_other():
    axes = drawn("lengths, all refuse")[0].axes[0]
    heights = [line.get_ydata()[0] for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert len(set(heights)) == 8 and min(heights) > axes.get_ylim()[0]


# Masks


def test_a_tick_stands_in_every_cell_that_may_be_looked_at_and_nowhere_else():
    mask = np.random.default_rng(1).random((4, 6)) < 0.5
    axes = lesson.mask_pictures([mask], ["random"]).axes[0]
    cells = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(cells) == 24
    ticks = [(np.mean(line.get_xdata()), np.mean(line.get_ydata())) for line in axes.lines]
    for cell, may in zip(cells, mask.ravel(), strict=True):
        (left, bottom), side = cell.get_xy(), cell.get_width()
        inside = [left < x < left + side and bottom < y < bottom + side for x, y in ticks]
        assert sum(inside) == may
        assert (to_hex(cell.get_facecolor()) == style.COLOURS["weights"].lower()) == may
    first, below = cells[0].get_xy(), cells[6].get_xy()
    assert below[1] < first[1] and cells[1].get_xy()[0] > first[0]  # row by row from the top left


# The language model


def test_the_bars_are_the_losses_and_the_model_stands_out():
    axes = drawn("losses")[0].axes[0]
    assert [bar.get_width() for bar in axes.patches] == [loss for _, loss in LOSSES]
    shades = [to_hex(bar.get_facecolor()) for bar in axes.patches]
    assert len(set(shades[:3])) == 1 and shades[3] not in shades[:3]
    assert {"2.87", "1.93", "self-attention"} <= set(words_of(axes.figure))


# The same word twice


def test_the_word_is_marked_in_both_sentences_with_its_cosines_between():
    figure = drawn("contexts")[0]
    texts = {text.get_text(): text.get_window_extent().y0 for text in drawn_texts(figure)}
    between = ["before self-attention: cosine 1.00", "after self-attention: cosine 0.43"]
    assert texts["she"] > texts[between[0]] > texts[between[1]] > texts["loan"]
    bold = [text.get_text() for text in drawn_texts(figure) if text.get_fontweight() == "bold"]
    assert bold.count("bank") == 2 and "river" not in bold
    assert any("cosine −1.00" in text for text in words_of(drawn("contexts of one word")[0]))


ROW = one_row(16, keys=4)


def changed(table, **other):
    return {**table, **other}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lesson.controllers(["a"]), "expected 2 to 7 tokens, got 1"),
        (lambda: lesson.controllers(list("abcdefgh")), "got 8"),
        (lambda: lesson.controllers([WIDE] * 7), "do not fit a slide"),
        (lambda: lesson.scaling([4], RAW, SCALED), "two or more rising values of d_k"),
        (lambda: lesson.scaling(DIMS[::-1], RAW, SCALED), "rising"),
        (lambda: lesson.scaling(DIMS, {"variance": np.ones(9)}, SCALED), "'entropy_share' among the numbers of raw"),
        (lambda: lesson.scaling(DIMS, RAW, changed(SCALED, stuck=[1])), r"stuck of scaled at each of 9 .* \(1,\)"),
        (lambda: lesson.scaling(DIMS, RAW, changed(SCALED, variance=np.zeros(9))), "above 0, but the smallest is 0"),
        (lambda: lesson.scaling(DIMS, changed(RAW, stuck=np.full(9, 70)), SCALED), "a share between 0 and 1"),
        (lambda: lesson.scaling(DIMS, RAW, SCALED, third="slope"), "stuck or median_slope, got 'slope'"),
        (lambda: lesson.dk_picture(*ROW[:4], 0), "d_k of at least 1, got 0"),
        (lambda: lesson.dk_picture(ROW[0][:3], *ROW[1:]), "the same number of keys"),
        (lambda: lesson.dk_picture(ROW[1], ROW[0], ROW[3], ROW[2], 16), "are the two exchanged"),
        (lambda: lesson.dk_picture(ROW[0], ROW[1], ROW[3], ROW[2], 16), "softmax of the raw scores"),
        (lambda: lesson.dk_picture(ROW[0], ROW[1], ROW[0], ROW[1], 16), "weights"),
        (lambda: lesson.position_pattern([1, 2], "t"), r"\(positions, components\), got \(2,\)"),
        (lambda: lesson.position_pattern([[2.55]], "t"), "pass limit=2.6"),
        (lambda: lesson.position_waves(sinusoids(), [32]), "components from 0 to 31, got 32"),
        (lambda: lesson.position_waves(sinusoids(), []), "one to eight components, got 0"),
        (lambda: lesson.offset_products(sinusoids(), "t"), r"\(n, n\), got \(64, 32\)"),
        (lambda: lesson.offset_products(PRODUCTS, "t", rows=[64]), r"between 0 and 63, got \[64\]"),
        (lambda: lesson.offset_products(PRODUCTS, "t", rows=[1, 1]), "different rows"),
        (lambda: lesson.order_bars([], 50, "t"), "one to twelve rows"),
        (lambda: lesson.order_bars([("a", 1, 2)], 50, "t"), r"a row \(name, accuracies"),
        (lambda: lesson.order_bars([("a", [])], 50, "t"), "one accuracy for each seed of a"),
        (lambda: lesson.order_bars([("a", [101])], 50, "t"), "between 0 and 100 %"),
        (lambda: lesson.order_bars([("a", [0.5, 1.0])], 50, "t"), "multiply them by 100"),
        (lambda: lesson.order_bars([("a", [50])], 500, "t"), "chance between 0 and 100 %, got 500"),
        (lambda: lesson.extrapolation([2, 1], {"a": [[1], [1]]}, 1, "t"), "rising lengths"),
        (lambda: lesson.extrapolation([1, 2], {}, 1, "t"), "one to 8 curves"),
        (lambda: lesson.extrapolation([1, 2], {"a": [1, 2]}, 1, "t"), r"\(2 lengths, seeds\), got \(2,\)"),
        (lambda: lesson.extrapolation([1, 2], {"a": [[1], [2]]}, 4, "t"), "trained_to among the lengths 1 to 2.*got 4"),
        (lambda: lesson.extrapolation([1, 2], {"a": [[1, NAN], [2, 2]]}, 1, "t"), "does every seed refuse"),
        (lambda: lesson.extrapolation([1, 2], {"a": [[1], [np.inf]]}, 1, "t"), "must be finite"),
        (lambda: lesson.extrapolation([1, 2], {"a": [[1], [-1]]}, 1, "t"), "between 0 and 100 %"),
        (lambda: lesson.mask_pictures([], []), "one to five masks, got 0"),
        (lambda: lesson.mask_pictures([causal(3)], []), "titles of masks"),
        (lambda: lesson.mask_pictures([causal(13)], ["a"]), "at most 12 by 12"),
        (lambda: lesson.mask_pictures([[True]], ["a"]), r"got the shape \(1,\)"),
        (lambda: lesson.mask_pictures([[[0.5]]], ["a"]), "are these scores or weights"),
        (lambda: lesson.mask_pictures([causal(3)] * 5, [WIDE] * 5), "too long to stand side by side"),
        (lambda: lesson.loss_table_bars([], "t"), "one to twelve rows"),
        (lambda: lesson.loss_table_bars([("a", -1)], "t"), "at least 0"),
        (lambda: lesson.loss_table_bars([("a", NAN)], "t"), "must be finite"),
        (lambda: lesson.loss_table_bars([(WIDE * 4, 1)], "t"), "too long for a slide"),
        (lambda: lesson.two_contexts(RIVER, LOAN, "river", 1, 0), "'river' once in the second sentence, got it 0"),
        (lambda: lesson.two_contexts(RIVER, LOAN, "the", 1, 0), "once in the first sentence, got it 2"),
        (lambda: lesson.two_contexts(RIVER, LOAN, "bank", 1, 2), "the one after self-attention is 2"),
        (lambda: lesson.two_contexts(RIVER + ["x"] * 30, LOAN, "bank", 1, 0), "leave some words out"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_loss_by_context_is_drawn_as_given_and_refuses_what_is_no_loss():
    axes = lesson.loss_by_context([3.0, 2.0, 1.5], {"trigrams": 2.2}, "t").axes[0]
    model, counted = axes.lines[:2]
    assert model.get_ydata().tolist() == [3.0, 2.0, 1.5] and model.get_xdata().tolist() == [1, 2, 3]
    assert counted.get_ydata().tolist() == [2.2] * 3
    with pytest.raises(ValueError, match="two or more losses"):
        lesson.loss_by_context([1.0], {}, "t")
    with pytest.raises(ValueError, match="at most"):
        lesson.loss_by_context([1.0, 2.0], {str(n): 1.0 for n in range(9)}, "t")

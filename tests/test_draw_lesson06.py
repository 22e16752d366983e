"""Facts about the figures of lesson 06: no browser, no kernel."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, Rectangle

import utils.draw as draw
from tests.picture_rules import broken_rules
from tests.test_draw_figures import drawn_texts
from utils.draw import lesson06 as lesson
from utils.draw import style
from utils.draw.parts import LOOKS

SOURCE = ["the", "black", "cats", "do", "not", "sleep"]
TARGET = ["les", "chats", "noirs", "ne", "dorment", "pas"]
LINKS = [(0, 0), (2, 1), (1, 2), (3, 3), (4, 3), (5, 4), (4, 5)]
STEPS = np.arange(1, 4001, 20.0)
LENGTHS = [8, 16, 32, 64, 128]
CHANCES = np.linspace(0.02, 0.999, 980)
FOURTEEN = [f"word{number}" for number in range(14)]


def random_maps(*shape):
    powers = np.exp(3 * np.random.default_rng(3).normal(size=shape))
    return powers / powers.sum(-1, keepdims=True)


def causal_map(count):
    powers = np.tril(np.exp(np.random.default_rng(4).normal(size=(count, count))))
    return powers / powers.sum(-1, keepdims=True)


def warm_up(dim, steps):
    return dim**-0.5 * np.minimum(STEPS**-0.5, STEPS * steps**-1.5)


def schedules_of(count):
    return lesson.schedules(
        STEPS, {f"warm-up of {up}": warm_up(96, up) for up in (200, 1000, 3990)[:count]}, "up, then down"
    )


def smoothed_loss(s, words=230):
    """Cross-entropy against the smoothed target; what the target word leaves is shared evenly."""
    return -(1 - s + s / words) * np.log(CHANCES) - s * (1 - 1 / words) * np.log((1 - CHANCES) / (words - 1))


def diagram(title="t", **options):
    return lesson.transformer_diagram(96, 3, 384, 2, 170, 230, title, **options)


def three(source=SOURCE, target=TARGET, title="t", **options):
    n, m = len(source), len(target)
    return lesson.three_attentions(
        source, target, random_maps(n, n), causal_map(m), random_maps(m, n), title, **options
    )


def ended(words):
    return [*words, "<end>"]


ROWS = [
    ("no attention", [(60, 50, 70), (90, 88, 92), (0, 0, 0)]),
    ("additive", [(97, 96, 98), (99, 98.5, 100), (40, 30, 55)]),
    ("Transformer", [(99.4, 99.1, 99.6), (99.9, 99.8, 100), None]),
]
CURVES = {
    "loss in nats": {"warm-up": np.ones((5, 3)) * [1, 2, 1.5], "none": [3, 2, 1, 1, 0.5]},
    "right in %": ([0, 9], {"warm-up": [0, 100]}),
}
WRITTEN = [
    ("greedy", ended(["les", "chats", "dort"]), [0.99, 0.9, 0.51, 0.4], False),
    ("beam of 4", ended(["les", "chats", "dorment"]), [0.99, 0.9, 0.48, 0.999], True),
]
SMOOTHED = {"s = 0": smoothed_loss(0), "s = 0.1": smoothed_loss(0.1)}
EXAMPLES = {
    "diagram": lambda: diagram("the encoder reads once, the decoder looks back at it in every layer"),
    "diagram, post": lambda: diagram(norm="post"),
    "diagram, post, final": lambda: diagram(norm="post", final_norm=True),
    "diagram, no final": lambda: diagram(final_norm=False, tied="none"),
    "diagram, all tied": lambda: lesson.transformer_diagram(512, 8, 2048, 6, 37000, 37000, "the paper's", tied="all"),
    "diagram, small": lambda: lesson.transformer_diagram(1, 1, 1, 1, 1, 1, "t " * 60),
    "shifted": lambda: lesson.shifted_targets(SOURCE, TARGET, "the target moves by one place"),
    "shifted, padding": lambda: lesson.shifted_targets(SOURCE, TARGET[:4], "padding costs nothing", padding=2),
    "shifted, one": lambda: lesson.shifted_targets(["$"], ["$"], "t " * 60),
    "shifted, long source": lambda: lesson.shifted_targets(["international"] * 4 + SOURCE[:2], ["le"], "long"),
    "schedules": lambda: lesson.schedules(
        STEPS, {f"width {dim}, warm-up {up}": warm_up(dim, up) for dim in (128, 512) for up in (200, 2000)}, "warm-up"
    ),
    **{f"schedules, {count}": lambda count=count: schedules_of(count) for count in (1, 2, 3)},
    "schedules, all the same": lambda: lesson.schedules(STEPS, {f"warm-up {name}": warm_up(96, 400) for name in "abcd"}, "t"),
    "schedules, long names": lambda: lesson.schedules(STEPS, {f"{up} steps " * 9: warm_up(96, up) for up in (9, 3990)}, "t"),
    "schedule, level": lambda: lesson.schedules([100, 200], {"level": [0, 0]}, "t " * 60),
    "smoothing": lambda: lesson.label_smoothing(
        TARGET, np.eye(6)[1], np.full(6, 0.1 / 230) + 0.9 * np.eye(6)[1], "a tenth for all", others=224
    ),
    "smoothing, one": lambda: lesson.label_smoothing(["$"], [1.0], [1.0], "t " * 60),
    "smoothing, twelve": lambda: lesson.label_smoothing(FOURTEEN[:12], np.eye(12)[0], np.full(12, 1 / 12), "twelve"),
    "smoothing, many words": lambda: lesson.label_smoothing(
        ["a", "b"], [1, 0], [0.99 + 0.01 / 37000, 0.01 / 37000], "many", others=36998
    ),
    "confidence": lambda: lesson.loss_and_confidence(CHANCES, SMOOTHED, "too sure costs"),
    "confidence, one": lambda: lesson.loss_and_confidence([0.5, 1.0], {"s = 0": [0.69, 0.0]}, "t " * 60),
    "confidence, level": lambda: lesson.loss_and_confidence([0.5, 0.6], {"none": [0, 0]}, "t"),
    "confidence, four": lambda: lesson.loss_and_confidence(
        CHANCES, {f"s = {s}": smoothed_loss(s) for s in (0, 0.05, 0.1, 0.3)}, "four"
    ),
    "training": lambda: lesson.training_panels(range(5), CURVES, "the loss falls first"),
    "training, one": lambda: lesson.training_panels([0, 1], {"loss": {"a": [0, 0]}}, "t " * 60, "seconds"),
    "splits": lambda: lesson.ladder_splits(ROWS, ["held out", "longest quarter", "longer"], "the ladder closes"),
    "splits, one": lambda: lesson.ladder_splits([("a", [(100, 100, 100)])], ["held out"], "t " * 60),
    "splits, most": lambda: lesson.ladder_splits(
        [(f"a long name of model {i}", [(50, 0, 100)] * 4) for i in range(10)], ["shortest", "longest"] * 2, "ten"
    ),
    "cache": lambda: lesson.cache_speed(LENGTHS, np.array(LENGTHS) ** 2 / 900, np.array(LENGTHS) / 300, "the cache"),
    "cache, slower": lambda: lesson.cache_speed([1, 2], [1e-4, 2e-4], [2e-4, 3e-4], "t " * 60),
    "three, read and said": lambda: three(title="rows say what follows", said=[*TARGET[1:], "<end>"]),
    "three": lambda: three(ended(SOURCE), ["<start>", *TARGET], "three looks", names=["layer 2, head 1", "b", "c"]),
    "three, one": lambda: three(["$"], ["b"], "t " * 60),
    "three, fourteen": lambda: three(FOURTEEN, FOURTEEN, "fourteen"),
    "greedy": lambda: lesson.greedy_and_beam(SOURCE, WRITTEN, "greedy takes 51 % now and pays later"),
    "greedy, long": lambda: lesson.greedy_and_beam(
        FOURTEEN * 2, [(name, FOURTEEN * 2, [0.5] * 28, None) for name in "ab"], "t " * 60
    ),
    "gold": lambda: lesson.gold_alignment(ended(SOURCE), ended(TARGET), random_maps(2, 4, 7, 7), LINKS, title="gold"),
    "gold, one": lambda: lesson.gold_alignment(["a"], ["b"], np.ones((1, 1, 1, 1)), []),
    "grid": lambda: lesson.alignment_grid(ended(SOURCE), ended(TARGET), random_maps(2, 4, 7, 7), LINKS, "some align"),
    "grid, one": lambda: lesson.alignment_grid(["a"], ["b"], np.ones((1, 1, 1, 1)), [(0, 0)], "t " * 60),
    "grid, no links": lambda: lesson.alignment_grid(SOURCE, TARGET, random_maps(1, 2, 6, 6), [], "no links"),
    "grid, most": lambda: lesson.alignment_grid(FOURTEEN, FOURTEEN, random_maps(4, 8, 14, 14), LINKS, "most"),
    "grid, narrow": lambda: lesson.alignment_grid(list("ab"), TARGET, random_maps(2, 8, 6, 2), [(0, 0)], "narrow"),
}  # fmt: skip


@cache
def drawn(name):
    """(figure, PNG) of an example, drawn once for all tests."""
    figure = EXAMPLES[name]()
    return figure, style.figure_png(figure, "a")


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


def bars_of(axes):
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_can_be_projected(name):
    """Nothing is cut, too small, too large for a slide or written over something else."""
    assert broken_rules(drawn(name)[0]) == []


@pytest.mark.parametrize("name", ["diagram", "three", "grid", "cache"])
def test_every_figure_gives_the_same_bytes_twice(name):
    assert drawn(name)[1] == style.figure_png(EXAMPLES[name](), "a")


# The diagram


def test_the_diagram_has_the_shape_along_both_streams_and_the_weights_of_every_attention():
    words = words_of(drawn("diagram")[0])
    for shape in ("weights (b, 3, n, n)", "weights (b, 3, m, m)", "weights (b, 3, m, n)", "(b, n)", "(b, m)"):
        assert words.count(shape) == 1
    # On each stream: before and after the positions, after each sum; the decoder's once more on its way out.
    assert words.count("(b, n, 96)") == 2 + 2 and words.count("(b, m, 96)") == 2 + 3 + 1
    assert {"memory (b, n, 96)", "vectors (170, 96) × √96", "vectors (230, 96) × √96"} <= set(words)
    ways_out = [word for word in words if word.endswith("(b, m, 230)")]
    assert ways_out == ["logits (b, m, 230)", "probabilities (b, m, 230)"]
    assert words.count("96 → 384 → 96") == 2 and {"encoder: 2 ×", "decoder: 2 ×"} <= set(words)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_encoder_hands_over_its_memory_and_keys_and_values_are_made_in_the_cross_attention(norm):
    figure = diagram(norm=norm, final_norm=True)
    style.figure_png(figure, "a")
    (made,) = [text for text in drawn_texts(figure) if "keys" in text.get_text() or "values" in text.get_text()]
    (weights,) = [text for text in drawn_texts(figure) if text.get_text() == "weights (b, 3, m, n)"]
    (box,) = [
        patch.get_window_extent() for patch in figure.axes[0].patches
        if isinstance(patch, FancyBboxPatch) and to_hex(patch.get_edgecolor()) == style.RED.lower()
    ]  # fmt: skip
    for text in (made, weights):
        extent = text.get_window_extent()
        assert box.x0 < extent.x0 < extent.x1 < box.x1 and box.y0 < extent.y0 < extent.y1 < box.y1
    assert made.get_text() == "keys, values: made in here" and "queries" in words_of(figure)
    boxes = [patch.get_window_extent() for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


@pytest.mark.parametrize(
    ("norm", "final", "count"), [("pre", None, 7), ("post", None, 5), ("pre", False, 5), ("post", True, 7)]
)
def test_the_diagram_has_a_norm_for_each_of_five_sums_and_perhaps_one_behind_each_stack(norm, final, count):
    assert words_of(diagram(norm=norm, final_norm=final)).count("norm") == count


def test_post_norms_stand_on_the_stream_and_pre_norms_beside_it():
    for norm, places in (("pre", 0), ("post", 5)):
        figure = diagram(norm=norm, final_norm=False)
        norms = [text.get_position()[0] for text in drawn_texts(figure) if text.get_text() == "norm"]
        assert sum(x in lesson.STREAMS.values() for x in norms) == places


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_no_line_of_the_diagram_runs_through_the_name_of_a_box(norm):
    figure = diagram(norm=norm, final_norm=True)
    style.figure_png(figure, "a")
    axes = figure.axes[0]
    for text in drawn_texts(figure):
        box = text.get_window_extent().shrunk(0.9, 0.5).transformed(axes.transData.inverted())
        crossing = [line for line in axes.lines if line.get_path().intersects_bbox(box, filled=False)]
        assert not crossing, text.get_text()


@pytest.mark.parametrize(("tied", "lines"), [("none", 0), ("output", 1), ("all", 2)])
def test_tables_that_are_one_are_joined_by_a_broken_line(tied, lines):
    figure = lesson.transformer_diagram(96, 3, 384, 2, 230, 230, "t", tied=tied)
    joined = [line for line in figure.axes[0].lines if to_hex(line.get_color()) == lesson.PLUM.lower()]
    assert len(joined) == lines and sum("same" in words for words in words_of(figure)) == lines


# Shifted targets


def test_what_must_be_said_is_what_is_read_one_place_later():
    words = words_of(lesson.shifted_targets(["cat"], ["le", "chat"], "t"))
    # Each in its two rows of boxes, beside its row of the triangle, over its column, and behind the row that must say it.
    assert {word: words.count(word) for word in ("le", "chat", "<start>")} == {"le": 5, "chat": 5, "<start>": 3}
    assert words.count("<end>") == 3  # the source's too


def test_every_column_of_the_triangle_has_the_word_that_is_read_there():
    figure = lesson.shifted_targets(["cat"], ["le", "chat"], "t", padding=1)
    top = max(cell.get_y() + cell.get_height() for cell in bars_of(figure.axes[0]))
    over = [text for text in drawn_texts(figure) if top < text.get_position()[1] < top + 0.4][1:]
    assert [text.get_text() for text in over] == ["<start>", "le", "chat", "<pad>"]
    columns = [cell.get_x() + cell.get_width() / 2 for cell in bars_of(figure.axes[0])[:4]]
    assert [text.get_position()[0] for text in over] == pytest.approx(columns)


def test_the_triangle_lets_each_place_look_at_itself_and_back():
    figure = lesson.shifted_targets(["cat"], ["le", "chat"], "t", padding=1)
    cells = [to_hex(cell.get_facecolor()).upper() for cell in bars_of(figure.axes[0])]
    assert len(cells) == 16
    rows = [[shade != "#EDEDED" for shade in cells[4 * row : 4 * row + 4]] for row in range(4)]
    assert np.array_equal(rows, np.tril(np.ones((4, 4), bool)))
    assert set(cells[12:]) == {"#BDBDBD"}  # padding: it looks, and nobody cares
    assert [cell for cell in cells[:12] if cell == style.BLUE.upper()] == [style.BLUE.upper()] * 6


# Training


def test_each_schedule_has_a_mark_at_its_peak():
    rates = {"short": warm_up(128, 200), "long": warm_up(128, 2000)}
    figure = lesson.schedules(STEPS, rates, "t")
    for one, (shade, marker, _) in zip(rates.values(), LOOKS, strict=False):
        (mark,) = [
            line for line in figure.axes[0].lines
            if (line.get_color(), line.get_marker()) == (shade, marker) and line.get_markersize() == 10
        ]  # fmt: skip
        assert mark.get_xdata()[0] == STEPS[one.argmax()] and mark.get_ydata()[0] == pytest.approx(1000 * one.max())
        assert f"peak {1000 * one.max():.3g} / 1000" in " ".join(words_of(figure))


def test_the_steps_of_a_schedule_are_written_without_gaps():
    figure = drawn("schedules")[0]
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "1000" in ticks and all(tick.isdigit() for tick in ticks)


def label_and_mark(figure, name, look):
    """The extents in inches of a curve's label and the place of its mark."""
    axes = figure.axes[0]
    (label,) = [text for text in drawn_texts(figure) if text.get_text().startswith(name)]
    (mark,) = [
        line for line in axes.lines
        if (line.get_color(), line.get_marker()) == look[:2] and line.get_markersize() == 10
    ]  # fmt: skip
    return label.get_window_extent(), axes.transData.transform(np.column_stack(mark.get_data()))[0]


@pytest.mark.parametrize("name", ["schedules, 1", "schedules, 2", "schedules, 3"])
def test_each_schedule_is_named_beside_its_own_peak_and_over_no_curve(name):
    figure = drawn(name)[0]
    curves = [line for line in figure.axes[0].lines if len(line.get_xdata()) == len(STEPS)]
    marks = []
    for up, look in zip((200, 1000, 3990)[: len(curves)], LOOKS, strict=False):
        extent, mark = label_and_mark(figure, f"warm-up of {up}\npeak", look)
        marks.append((extent, mark))
        near = np.clip(mark, extent.min, extent.max)
        assert np.linalg.norm(near - mark) < 0.4 * style.DPI
        assert not extent.contains(*mark)
        assert not any(
            line.get_path().transformed(line.get_transform()).intersects_bbox(extent, False) for line in curves
        )
    assert len(marks) == len(curves)


@pytest.mark.parametrize("name", ["schedules", "confidence", "confidence, four"])
def test_no_label_lies_on_a_curve_where_there_is_room(name):
    axes = drawn(name)[0].axes[0]
    curves = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert len(axes.texts) == len(curves)
    for text in axes.texts:
        extent = text.get_window_extent()
        crossed = [line.get_path().transformed(line.get_transform()).intersects_bbox(extent, False) for line in curves]
        assert not any(crossed), text.get_text()
        leads = [line for line in axes.lines if line.get_linewidth() == 1]
        inner = extent.padded(-2)
        through = [line.get_path().transformed(line.get_transform()).intersects_bbox(inner, False) for line in leads]
        assert not any(through), text.get_text()


def test_a_label_that_stands_far_from_its_mark_has_a_line_to_it():
    figure = lesson.schedules(STEPS, {f"warm-up {name}": warm_up(96, 400) for name in "abcd"}, "t")
    style.figure_png(figure, "a")
    leads = [line for line in figure.axes[0].lines if line.get_linewidth() == 1]
    assert 1 <= len(leads) <= 3  # one has its place beside the peak that all four share
    assert not [line for line in drawn("schedules, 2")[0].axes[0].lines if line.get_linewidth() == 1]


def test_smoothed_bars_are_as_long_as_the_target_says():
    smooth = [0.02, 0.94, 0.04]
    figure = lesson.label_smoothing(list("abc"), [0, 1, 0], smooth, "t", others=7)
    for axes, values in zip(figure.axes, ([0, 1, 0], smooth), strict=True):
        assert [bar.get_width() for bar in bars_of(axes)] == pytest.approx(values)
    assert {"and 7 words more", "0.940", "0.020", "1"} <= set(words_of(figure))


@pytest.mark.parametrize(
    ("values", "others", "said"),
    [
        ([1, 0], 5, ["1", "0", "0 each"]),
        ([1, 0], 0, ["1", "0"]),
        # s = 0.1 of 286 words: the right one has 1 - s + s / V.
        ([0.9 + 0.1 / 286, 0.1 / 286], 284, ["0.90035", "0.00035", "0.00035 each"]),
        ([0.5, 0.25], 1, ["0.500", "0.250", "0.250 each"]),
        ([0.9 + 0.1 / 37000, 0.1 / 37000], 36998, ["0.9000027", "0.0000027", "0.0000027 each"]),
        ([1 - 1e-9, 1e-9], 3, ["1.0000000", "1.0e-09", "0 each"]),
    ],
)
def test_the_numbers_of_a_target_have_decimals_enough_and_the_others_share_what_is_left(values, others, said):
    assert lesson._bar_numbers(np.array(values), others) == said


def test_the_row_of_the_other_words_says_what_each_of_them_gets():
    left, right = drawn("smoothing")[0].axes
    for axes, said in ((left, "0 each"), (right, "0.00043 each")):
        (row,) = [text for text in axes.texts if "each" in text.get_text()]
        assert row.get_text() == said and row.get_position()[1] == len(TARGET)


# Loss and confidence


def test_the_lowest_point_of_each_loss_is_marked_and_said():
    figure = drawn("confidence")[0]
    words = words_of(figure)
    for values, (shade, marker, _) in zip(SMOOTHED.values(), LOOKS, strict=False):
        lines = [line for line in figure.axes[0].lines if line.get_color() == shade]
        (mark,) = [line for line in lines if line.get_marker() == marker]
        (curve,) = [line for line in lines if len(line.get_xdata()) == len(CHANCES)]
        assert np.allclose(curve.get_ydata(), values)
        assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (CHANCES[values.argmin()], values.min())
    # The smoothed target itself is where its loss is lowest: 1 - s + s / V.
    assert CHANCES[SMOOTHED["s = 0.1"].argmin()] == pytest.approx(0.9 + 0.1 / 230, abs=0.001)
    said = " | ".join(words).replace("\n", ": ")
    assert (
        f"s = 0.1: lowest {SMOOTHED['s = 0.1'].min():.2f} at 0.9" in said
        and "s = 0: still falling, 0.00 at 0.999" in said
    )


def test_a_loss_that_ends_at_certainty_has_its_minimum_there():
    said = " | ".join(words_of(drawn("confidence, one")[0])).replace("\n", ": ")
    assert "s = 0: lowest 0.00 at 1" in said and "falling" not in said


def test_a_name_has_the_same_look_in_every_training_panel_and_panels_may_have_their_own_x():
    left, right = drawn("training")[0].axes[:2]
    assert left.lines[0].get_color() == right.lines[0].get_color() == LOOKS[0][0]
    assert left.lines[0].get_ydata().tolist() == [1.5] * 5  # the median of the seeds
    assert right.lines[0].get_xdata().tolist() == [0, 9] and right.get_ylim() == (0, 104)


# The ladder and the cache


def test_the_ladder_has_every_median_on_every_split():
    words = words_of(drawn("splits")[0])
    assert {"60.0", "97.0", "99.4", "99.9", "40.0", "not measured", "longest quarter"} <= set(words)
    bars = [bar.get_width() for bar in bars_of(drawn("splits")[0].axes[2])]
    assert bars == [0, 40]


def test_the_gain_of_the_cache_is_the_quotient_of_the_times():
    left, right = drawn("cache")[0].axes[:2]
    assert right.lines[1].get_ydata() == pytest.approx(np.array(LENGTHS) / 3)
    assert [line.get_ydata()[-1] for line in left.lines] == pytest.approx([128**2 / 900, 128 / 300])
    assert {"42.7", "2.7", "time in s"} <= set(words_of(drawn("cache")[0]))
    assert "time in ms" in words_of(drawn("cache, slower")[0])


# Three kinds of attention


def test_the_three_maps_are_the_weights_and_what_is_ahead_is_blank():
    source, target = SOURCE[:3], TARGET[:4]
    figure = three(source, target)
    maps = [image.get_array() for image in figure.axes[0].images]
    assert [one.shape for one in maps] == [(3, 3), (4, 4), (4, 3)]
    assert np.allclose(maps[2], random_maps(4, 3)) and np.allclose(maps[1], causal_map(4))
    blank = [patch for patch in bars_of(figure.axes[0]) if to_hex(patch.get_facecolor()) == "#e4e4e4"]
    cell = figure.axes[0].images[1].get_extent()
    step = (cell[1] - cell[0]) / 4
    assert [patch.get_width() / step for patch in blank] == pytest.approx([3, 2, 1, 0], abs=1e-9)


def test_the_bar_beside_the_three_maps_says_what_it_measures():
    figure = drawn("three")[0]
    (bar,) = figure.axes[1:]
    (label,) = [text for text in drawn_texts(figure) if text.get_text() == "weight"]
    low, high = (bar.get_window_extent().x0, label.get_window_extent().x1)
    assert label.get_window_extent().x0 == pytest.approx(low, abs=2) and high <= figure.bbox.x1
    assert label.get_window_extent().y0 > bar.get_window_extent().y1


# Greedy against beam


def test_words_that_leave_the_first_row_are_filled_and_products_are_right():
    figure = drawn("greedy")[0]
    filled = [box for box in figure.axes[0].patches
              if isinstance(box, FancyBboxPatch) and to_hex(box.get_edgecolor()) == style.RED.lower()]  # fmt: skip
    assert len(filled) == 1
    words = words_of(figure)
    assert {"✗ wrong", "✓ right", "51 %", ">99 %"} <= set(words)
    totals = [np.log(chances).sum() for _, _, chances, _ in WRITTEN]
    assert [f"product {100 * np.exp(total):.0f} %, log-probability {total:.2f}".replace("-0", "−0").replace("-1", "−1")
            in words for total in totals] == [True, True]  # fmt: skip


# Against the gold alignment


def test_the_mean_and_each_layer_and_head_are_their_own_map():
    weights = random_maps(2, 3, 4, 5)
    assert np.allclose(lesson.chosen_map(weights), weights.mean((0, 1)))
    assert np.allclose(lesson.chosen_map(weights, 1), weights[1].mean(0))
    assert np.allclose(lesson.chosen_map(weights, -1, 2), weights[:, 2].mean(0))
    assert np.allclose(lesson.chosen_map(torch.tensor(weights), 1, 2), weights[1, 2])


def test_maps_are_named_as_they_were_chosen():
    names = {
        (2, 4, -1, -1): "mean of all 8 heads",
        (2, 4, 1, -1): "layer 2, mean of 4 heads",
        (2, 4, -1, 0): "mean of 2 layers, head 1",
        (2, 4, 0, 3): "layer 1, head 4",
        (1, 4, 0, 3): "head 4",
        (1, 4, -1, -1): "mean of all 4 heads",
        (2, 1, 1, 0): "layer 2",
        (1, 1, 0, 0): "the only head",
    }
    assert {key: lesson.map_name(*key) for key in names} == names


def test_the_share_on_gold_links_counts_only_words_that_have_links():
    weights = np.array([[0.9, 0.1, 0.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    assert lesson.gold_share(weights, [(0, 0)]) == pytest.approx(0.9)
    assert lesson.gold_share(weights, [(0, 0), (1, 1), (2, 1), (1, 1)]) == pytest.approx((0.9 + 0.75) / 2)


def test_the_title_says_which_map_it_is_and_how_much_lies_on_gold():
    weights = np.broadcast_to(np.eye(3), (2, 2, 3, 3))
    figure = lesson.gold_alignment(list("abc"), list("xyz"), weights, [(0, 0), (2, 1)], 1, 0, "cross")
    (title,) = [words for words in words_of(figure) if words.startswith("cross")]
    assert " ".join(title.split()) == "cross, layer 2, head 1: 50 % of the weight is on gold links"


def test_the_menus_of_layers_and_heads_work_in_an_explorer():
    weights = random_maps(2, 4, 7, 7)

    def picture(layer, head):
        return lesson.gold_alignment(ended(SOURCE), ended(TARGET), weights, LINKS, layer, head)

    widget = draw.explore(picture, "Where it looks.", layer=lesson.layer_choices(2), head=lesson.head_choices(4))
    assert widget.parameters == {"layer": -1, "head": -1}
    first = widget.static()
    assert widget.alt_text() == "Where it looks. Now: layer mean of all, head mean of all."
    widget.set(layer=1, head=3)
    assert widget.alt_text() == "Where it looks. Now: layer 2, head 4."
    assert widget.static() != first and lesson.layer_choices(1) == {"1": 0}


def test_the_menus_are_in_order_and_a_single_layer_has_no_mean():
    assert list(lesson.head_choices(3).items()) == [("mean of all", lesson.MEAN), ("1", 0), ("2", 1), ("3", 2)]
    assert lesson.layer_choices(1) == {"1": 0}


def test_the_menus_of_a_watched_translation_begin_with_what_is_shown_at_first():
    def respond(text):
        weights = random_maps(2, 3, 2, 2)
        return {"source": ["a", "b"], "target": ["c", "d"], "choices": [[("c", 1.0)], [("d", 1.0)]], "weights": weights}

    for layer, head, first in (
        (1, 2, ("2", "3")),
        (-1, -1, ("mean of all", "mean of all")),
        (0, -1, ("1", "mean of all")),
    ):
        widget = draw.translate_watch(respond, "a b", layer=layer, head=head)
        menus = [menu.options for menu in (widget._layer, widget._head)]
        assert tuple(options[0][0] for options in menus) == first and [len(options) for options in menus] == [3, 4]
        assert (widget._layer.value, widget._head.value) == (layer, head)


def test_every_small_map_has_its_gold_links_and_its_share():
    figure = drawn("grid")[0]
    weights = random_maps(2, 4, 7, 7)
    assert len(figure.axes[0].images) == 8
    assert len(bars_of(figure.axes[0])) == 8 * 2 * len(LINKS)
    shares = {f"head {head + 1}: {lesson.percent(lesson.gold_share(weights[layer, head], LINKS))}"
              for layer in range(2) for head in range(4)}  # fmt: skip
    assert shares <= set(words_of(figure))


# What is refused

W = random_maps(2, 4, 6, 6)
REFUSED = [
    (lambda: lesson.transformer_diagram(30, 4, 1, 1, 1, 1, "t"), "4 heads that divide dim 30"),
    (lambda: lesson.transformer_diagram(32, 4, 1, 0, 1, 1, "t"), "sizes above 0"),
    (lambda: diagram(norm="both"), "\"pre\" or \"post\", got 'both'"),
    (lambda: diagram(tied="some"), "tied among none, output, all, got 'some'"),
    (lambda: diagram(tied="all"), "one table for all words, but there are 170 and 230"),
    (lambda: lesson.shifted_targets([], ["a"], "t"), "got 0 source words"),
    (lambda: lesson.shifted_targets(["a"], TARGET * 3, "t"), "too wide for a slide"),
    (lambda: lesson.shifted_targets(["international"] * 9, ["b"], "t"), "10 source words do not fit a slide"),
    (lambda: lesson.shifted_targets(["a"], ["b"], "t", padding=-1), "padding -1"),
    (lambda: lesson.schedules([2, 1], {"a": [1, 1]}, "t"), "rising steps"),
    (lambda: lesson.schedules([1, 2], {"a": [1]}, "t"), "a learning rate of a at each of 2 steps, got 1"),
    (lambda: lesson.schedules([1, 2], {"a": [1, -1]}, "t"), "never negative"),
    (lambda: lesson.schedules([1, 2], {}, "t"), "no curves"),
    (lambda: lesson.label_smoothing(["a"], [1.0], [0.5, 0.5], "t"), "two rows of one length"),
    (lambda: lesson.label_smoothing(["a"], [0.5, 0.5], [0.5, 0.5], "t"), "each of the 2 numbers, got 1"),
    (lambda: lesson.label_smoothing(FOURTEEN, np.eye(14)[0], np.eye(14)[0], "t"), "at most 12 words"),
    (lambda: lesson.label_smoothing(["a", "b"], [1, 0], [1.0, 0.1], "t"), "sums to 1 at most"),
    (lambda: lesson.loss_and_confidence([0.5, 0.4], {"a": [1, 1]}, "t"), "rising probabilities"),
    (lambda: lesson.loss_and_confidence([0.5, 1.1], {"a": [1, 1]}, "t"), "above 0 and up to 1, got 0.5 to 1.1"),
    (lambda: lesson.loss_and_confidence([0.0, 0.5], {"a": [1, 1]}, "t"), "above 0 and up to 1, got 0 to 0.5"),
    (lambda: lesson.loss_and_confidence([0.5, 1.0], {"a": [1, np.inf]}, "t"), "losses of a must be finite"),
    (lambda: lesson.loss_and_confidence([0.5, 0.6], {"a": [1]}, "t"), "a loss of a at each of 2 probabilities, got 1"),
    (lambda: lesson.loss_and_confidence([0.5, 0.6], {"a": [1, -1]}, "t"), "never negative"),
    (lambda: lesson.loss_and_confidence([0.5, 0.6], {}, "t"), "no curves"),
    (lambda: lesson.loss_and_confidence([0.5, 0.6], {name: [1, 1] for name in "abcde"}, "t"), "one to four curves"),
    (lambda: lesson.training_panels([0, 1], {}, "t"), "one to three panels"),
    (lambda: lesson.training_panels([0, 1], {"loss": [1, 2]}, "t"), "expected {name: numbers} for the panel 'loss'"),
    (lambda: lesson.training_panels([0, 1], {"loss": {"a": np.ones((3, 2))}}, "t"), "each of 2 points.*transpose it"),
    (lambda: lesson.training_panels([0, 1], {"right in %": {"a": [0, 101]}}, "t"), "between 0 and 100"),
    (lambda: lesson.ladder_splits(ROWS, ["one"], "t"), "on 1 splits, got 3"),
    (lambda: lesson.ladder_splits([("a", [(50, 60, 70)])], ["one"], "t"), "low <= median <= high"),
    (lambda: lesson.ladder_splits([], ["one"], "t"), "one to ten rows"),
    (lambda: lesson.cache_speed([1, 2], [1, 1], [1], "t"), "one time with it at each of 2 lengths, got 1"),
    (lambda: lesson.cache_speed([1, 2], [1, 0], [1, 1], "t"), "shortest without the cache is 0"),
    (lambda: lesson.cache_speed([2, 1], [1, 1], [1, 1], "t"), "rising lengths"),
    (lambda: three([*FOURTEEN, "more"]), "one to 14 words on each side, got 15"),
    (lambda: three([word * 6 for word in FOURTEEN], FOURTEEN), "do not fit a slide"),
    (lambda: three(names=["one"]), "names of maps"),
    (lambda: lesson.three_attentions(SOURCE, TARGET, W[0, 0], W[0, 0], W[0, 0], "t"), "looks ahead"),
    (lambda: three(said=["une"]), "words that are said"),
    (lambda: lesson.three_attentions(SOURCE, ["a"], W[0, 0], [[1.0]], W[0, 0], "t"), r"cross weights \(1, 6\)"),
    (lambda: lesson.greedy_and_beam([], WRITTEN, "t"), "0 words"),
    (lambda: lesson.greedy_and_beam(SOURCE, [("a", ["b"], [1.0])], "t"), "got 3 parts"),
    (lambda: lesson.greedy_and_beam(SOURCE, [("a", ["b"], [], None)], "t"), "each of 1 words of a, got 0"),
    (lambda: lesson.greedy_and_beam(SOURCE, [("a", ["b"], [0.0], None)], "t"), "above 0 and up to 1"),
    (lambda: lesson.gold_alignment(SOURCE, TARGET, W[0], LINKS), r"\(layers, heads, target words, source words\)"),
    (lambda: lesson.gold_alignment(SOURCE, TARGET, W, LINKS, 2), "2 layers, counted from 0, or -1 for their mean; got 2"),
    (lambda: lesson.gold_alignment(SOURCE, TARGET, W, LINKS, 0, 4), "4 heads"),
    (lambda: lesson.gold_share(W[0, 0], []), "at least one gold link"),
    (lambda: lesson.gold_share(W[0, 0], [(6, 0)]), "counted from 0, got"),
    (lambda: lesson.alignment_grid(SOURCE, TARGET[:3], W, LINKS, "t"), r"\(layers, heads, 3, 6\)"),
    (lambda: lesson.alignment_grid(SOURCE, TARGET, W / 2, LINKS, "t"), "sum to 1 over the source words"),
    (lambda: lesson.alignment_grid(SOURCE, TARGET, random_maps(5, 1, 6, 6), LINKS, "t"), "at most 4 layers of 8 heads"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_be_drawn_is_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()

"""Facts about the figures of lesson 03: no browser, no kernel."""

from functools import cache

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from tests.picture_rules import broken_rules, words_in_boxes
from tests.test_draw_figures import drawn_texts, random_weights
from utils.draw import lesson03 as lesson
from utils.draw import style
from utils.draw.parts import places_apart


def words(text):
    return text.split()


ENGLISH = words("the european economic area of the important country is not dangerous <end>")
FRENCH = words("la zone économique européenne du pays important n' est pas dangereuse <end>")
LINKS = [(0, 0), (3, 1), (2, 2), (1, 3), (4, 4), (5, 4), (7, 5), (6, 6), (9, 7), (8, 8), (9, 9), (10, 10)]
LONG_ENGLISH = words(
    "a boy who some happy actresses protect falls but the clock often belongs to some uncles when the kind girls "
    "are never with some bad actors"
)
LONG_FRENCH = words(
    "un garçon que des actrices heureuses protègent tombe mais l' horloge appartient souvent à des oncles quand les "
    "filles gentilles ne sont jamais avec de mauvais acteurs"
)
WIDE = ["anticonstitutionnellement", "œuvrassent", "Œ", "dégénérâmes", "mmmmmmmmmmmmmmmmmmmmmmmmmmmm", "$", "î"]
NEXT = [("européenne", 0.93), ("importante", 0.05), ("économique", 0.004)]
LENGTHS = np.arange(3, 19)
CURVES = {
    "no attention": (LENGTHS, np.clip(104 - 0.28 * (LENGTHS - 2) ** 2.1, 0, 100)),
    "dot": (LENGTHS, 100 - 0.2 * LENGTHS),
    "multiplicative": (LENGTHS, 100 - 0.1 * LENGTHS),
    "additive": (LENGTHS, np.full(16, 100.0)),
}
BANDS = {name: (np.clip(exact - 4, 0, 100), np.clip(exact + 3, 0, 100)) for name, (_, exact) in CURVES.items()}
DISTANCES = np.arange(60)
NAMES = words("cat dog horse boy girl uncle sees loves protects falls is are red black white small happy kind the a")
GROUPS = ["noun"] * 6 + ["verb"] * 6 + ["adjective"] * 6 + ["article"] * 2
EIGHT = [f"model number {i}" for i in range(8)]


def cloud(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 2))


EXAMPLES = {
    "tasks": lambda: lesson.sequence_tasks(),
    "by length": lambda: lesson.by_length(CURVES, "long sentences come out wrong", quarters=(6, 9, 12), bands=BANDS),
    "by length, one point": lambda: lesson.by_length({"no attention": ([1], [0.0])}, "one", quarters=(1, 1, 1)),
    "by length, all alike": lambda: lesson.by_length({name: ([1, 26], [100, 100]) for name in EIGHT}, "alike"),
    "by length, unequal": lambda: lesson.by_length({"a": ([1, 5], [0, 9]), "b": ([2, 9, 30], [1, 2, 3])}, "t " * 60),
    "influence": lambda: lesson.influence(
        {"plain": np.where(DISTANCES > 38, 0, 10.0 ** (-0.9 * DISTANCES)), "LSTM": 0.9**DISTANCES}, "it forgets"
    ),
    "influence of nothing": lambda: lesson.influence({"nothing": np.zeros(4)}, "nothing"),
    "influence of one": lambda: lesson.influence({"a cell that is called by a long name": [1.0]}, "one word"),
    "influence, extreme": lambda: lesson.influence({"a": [1e-45, 1e38], "b": [0, 1]}, "extreme"),
    "times": lambda: lesson.times([8, 16, 32], {"GRU": [1e-3, 2e-3, 4e-3], "other": [1e-4, 1e-4, 2e-4]}, "waits"),
    "times in seconds": lambda: lesson.times([1, 1000], {"slow": [2, 9], "fast": [0.9, 0.8]}, "slow", fit_from=1),
    "times, many": lambda: lesson.times(range(1, 60), {name: np.full(59, 1e-5) for name in EIGHT}, "flat"),
    "field 1 1": lambda: lesson.receptive_field(1, 1),
    "field 4 3": lambda: lesson.receptive_field(4, 3),
    "field 12 5": lambda: lesson.receptive_field(12, 5),
    "field 1 61": lambda: lesson.receptive_field(1, 61),
    "alignment": lambda: lesson.alignment(ENGLISH, FRENCH, random_weights(12, 12), LINKS, "adjectives change places"),
    "alignment without links": lambda: lesson.alignment(ENGLISH, FRENCH, random_weights(12, 12)),
    "alignment of one": lambda: lesson.alignment(
        ["cats"], ["chats"], [[1.0]], [(0, 0)], "a title that is longer than this"
    ),
    "alignment of 26": lambda: lesson.alignment(LONG_ENGLISH, LONG_FRENCH, random_weights(27, 26), [(0, 0)], "long"),
    "alignment of 1 to 26": lambda: lesson.alignment(["a"], LONG_FRENCH, np.ones((27, 1)), [(0, 26)], "tall"),
    "alignment of 26 to 1": lambda: lesson.alignment(LONG_ENGLISH, ["dégénérâmes"], random_weights(1, 26), [], "wide"),
    "alignment of wide words": lambda: lesson.alignment(WIDE, WIDE, random_weights(7, 7), [(6, 0)], "wide words"),
    "step": lambda: lesson.decoding_step(ENGLISH, random_weights(12), FRENCH[:3], NEXT, "it looks"),
    "first step": lambda: lesson.decoding_step(ENGLISH, random_weights(12), [], NEXT, "it starts"),
    "step without weights": lambda: lesson.decoding_step(ENGLISH, None, FRENCH[:3], NEXT, "one state"),
    "step of 26": lambda: lesson.decoding_step(LONG_ENGLISH, random_weights(26), LONG_FRENCH, NEXT, "long"),
    "step of 26 without weights": lambda: lesson.decoding_step(LONG_ENGLISH, None, LONG_FRENCH, NEXT, "long"),
    "step of one": lambda: lesson.decoding_step(["cats"], [1.0], ["chats"], [("<end>", 1.0)]),
    "step of one without weights": lambda: lesson.decoding_step(["a"], None, [], [("un", 0.2)]),
    "step of wide words": lambda: lesson.decoding_step(
        WIDE, random_weights(7), WIDE, [(word, 0.2) for word in WIDE[:5]], "wide words"
    ),
    "neighbours": lambda: lesson.neighbours(NAMES, cloud(20), GROUPS, "words of a kind lie together"),
    "one word": lambda: lesson.neighbours(["chat"], [[1, 2]], ["noun"], "one"),
    "words in one place": lambda: lesson.neighbours(NAMES, np.zeros((20, 2)), GROUPS, "one place"),
    "words on a line": lambda: lesson.neighbours(WIDE, [[i, 0] for i in range(7)], LONG_FRENCH[4:11], "a line"),
    "ladder": lambda: lesson.ladder_bars([("no attention", 61.2, 58, 63), ("additive", 99.2, 99, 100)], "beats none"),
    "ladder of one": lambda: lesson.ladder_bars([("none", 0, 0, 0)], "one"),
    "ladder of twelve": lambda: lesson.ladder_bars(
        [(f"a rather long name, {i}", 100, 0, 100) for i in range(12)], "12"
    ),
    "message": lambda: lesson.message("“wether” is not among the 231 words that this model knows. " * 5),
}


@cache
def drawn(name):
    """(figure, PNG) of an example, drawn once for all tests."""
    figure = EXAMPLES[name]()
    return figure, style.figure_png(figure, "a")


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_keeps_to_the_rules_for_pictures(name):
    # Twenty words in one place cannot be helped.
    allowed = "lie over each other" if name == "words in one place" else "nothing"
    assert [rule for rule in broken_rules(drawn(name)[0]) if not rule.startswith(allowed)] == []


@pytest.mark.parametrize("name", ["step", "neighbours", "alignment", "times"])
def test_every_figure_gives_the_same_bytes_twice(name):
    assert drawn(name)[1] == style.figure_png(EXAMPLES[name](), "a")


# Sequence tasks


def test_the_five_kinds_of_task_are_named_with_an_example_each():
    found = words_of(drawn("tasks")[0])
    for name in ("one to one", "one to many", "many to one", "many to many", "many to many in step"):
        assert name in found
    for example in ("image to label", "image to caption", "review to mood", "sentence to translation"):
        assert example in found


def test_the_words_in_the_boxes_stay_in_the_boxes():
    assert words_in_boxes(drawn("tasks")[0]) == (2 + 4 + 4 + 6 + 6 + 3, [])  # the last three: the key


# Lines


def test_lines_show_what_they_were_given_and_carry_their_names():
    figure = lesson.by_length(CURVES, "t")
    for (lengths, exact), line in zip(CURVES.values(), figure.axes[0].lines, strict=False):
        assert np.allclose(line.get_xdata(), lengths) and np.allclose(line.get_ydata(), exact)
    assert set(CURVES) <= set(words_of(figure))


def test_every_line_has_a_colour_and_a_marker_of_its_own():
    lines = lesson.by_length({name: ([1, 2], [3, 4]) for name in EIGHT}, "t").axes[0].lines[:8]
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 8


def test_names_stand_in_the_order_of_the_ends_of_their_lines():
    curves = {"low": ([1, 2], [90, 10]), "high": ([1, 2], [5, 12]), "middle": ([1, 2], [50, 11])}
    figure = lesson.by_length(curves, "t")
    style.figure_png(figure, "a")
    heights = {text.get_text(): text.get_window_extent().y0 for text in drawn_texts(figure)}
    assert heights["low"] < heights["middle"] < heights["high"]


def test_spread_names_are_apart_and_inside():
    for heights in ([1.0, 1.0, 1.0], [0.0, 0.0, 3.0], [3.0, 2.9, 0.1, 2.95]):
        places = places_apart(heights, 0.3, 3.0)
        assert (np.diff(np.sort(places)) > 0.29).all() and places.min() >= -0.01 and places.max() <= 3.01
    assert places_apart([2.0, 0.5], 0.3, 3.0).tolist() == [2.0, 0.5]


def test_bands_cover_the_spread():
    plain, banded = lesson.by_length(CURVES, "t"), lesson.by_length(CURVES, "t", bands={"dot": BANDS["dot"]})
    assert len(banded.axes[0].collections) == len(plain.axes[0].collections) + 1
    heights = banded.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(BANDS["dot"][0].min()) and heights.max() == pytest.approx(
        BANDS["dot"][1].max()
    )


def test_quarters_are_named_where_there_is_room():
    wide = words_of(lesson.by_length(CURVES, "t", quarters=(7, 9, 12)))
    assert {"shortest quarter", "longest quarter"} <= set(wide)
    assert not [word for word in words_of(lesson.by_length(CURVES, "t", quarters=(3, 9, 18))) if "quarter" in word]


def test_a_gradient_of_zero_is_drawn_on_the_bottom_line_and_said():
    figure = lesson.influence({"plain": [1.0, 0.1, 0.0, 0.0]}, "t")
    axes = figure.axes[0]
    assert "exactly 0" in axes.get_xlabel() and axes.get_yscale() == "log"
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert hollow[0].get_xdata().tolist() == [2, 3]
    assert (hollow[0].get_ydata() == axes.get_ylim()[0]).all()
    assert "exactly 0" not in lesson.influence({"plain": [1.0, 0.1]}, "t").axes[0].get_xlabel()


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_slope_is_the_power_of_the_length(power):
    lengths = np.array([4, 9, 70, 500])
    assert lesson.slope(lengths, 3e-5 * lengths**power) == pytest.approx(power)
    figure = lesson.times(lengths, {"net": 3e-5 * lengths**power}, "t")
    assert f"net\nslope {power:.1f}" in words_of(figure)


def test_a_slope_may_leave_the_short_inputs_out():
    lengths = np.array([1, 2, 4, 8, 16])
    times = np.array([1, 1, 1, 2, 4]) * 1e-3
    assert "net\nslope 1.0" in words_of(lesson.times(lengths, {"net": times}, "t", fit_from=4))
    assert "net\nslope 0.5" in words_of(lesson.times(lengths, {"net": times}, "t"))


def test_short_times_are_in_milliseconds_and_long_ones_in_seconds():
    short, long = (lesson.times([1, 2], {"a": values}, "t").axes[0] for values in ([0.1, 0.5], [0.5, 2.0]))
    assert short.get_ylabel() == "time in ms" and short.lines[0].get_ydata().tolist() == [100, 500]
    assert long.get_ylabel() == "time in s" and long.lines[0].get_ydata().tolist() == [0.5, 2]


@pytest.mark.parametrize(("layers", "kernel", "field"), [(1, 1, 1), (1, 3, 3), (4, 3, 9), (3, 5, 13), (12, 5, 49)])
def test_the_cone_has_as_many_inputs_as_it_says(layers, kernel, field):
    axes = lesson.receptive_field(layers, kernel).axes[0]
    inputs = next(line for line in axes.lines if line.get_color() == style.BLUE)
    assert len(inputs.get_xdata()) == field
    assert any(f"sees {field} word" in word for word in words_of(axes.figure))
    below = {round(end[0], 6) for end in (path.vertices[1] for path in axes.collections[0].get_paths())}
    assert below == {round(x, 6) for x in inputs.get_xdata()}  # and a line comes down to each of them


# Alignment


def alignment_axes(name):
    return drawn(name)[0].axes[0]


def test_the_alignment_shows_targets_as_rows_and_sources_as_columns():
    axes = alignment_axes("alignment")
    assert np.allclose(axes.images[0].get_array(), random_weights(12, 12))
    assert [label.get_text() for label in axes.get_xticklabels()] == ENGLISH
    assert [label.get_text() for label in axes.get_yticklabels()] == FRENCH


def test_gold_links_are_outlined_in_their_cells():
    outlines = [
        patch for patch in alignment_axes("alignment").patches if to_hex(patch.get_edgecolor()) == style.RED.lower()
    ]
    found = [(patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2) for patch in outlines]
    assert [(round(x), round(y)) for x, y in found] == LINKS
    assert np.allclose(found, LINKS)
    assert "gold alignment" in words_of(drawn("alignment")[0])
    assert "gold alignment" not in words_of(drawn("alignment without links")[0])


def test_numbers_stand_in_the_cells_while_there_is_room():
    weights = random_weights(12, 12)
    written = [text.get_text() for text in alignment_axes("alignment").texts]
    assert written == [f"{weight:.2f}" for weight in weights.flat if weight >= 0.05]
    assert len(alignment_axes("alignment of 26").texts) == 0
    for columns, some in ((14, True), (15, False)):
        figure = lesson.alignment(["a"] * columns, ["b"], np.eye(columns)[:1])
        assert bool(figure.axes[0].texts) is some


def test_source_words_are_turned_only_when_they_must():
    turned = {
        name: alignment_axes(name).get_xticklabels()[0].get_rotation() for name in ("alignment", "alignment of one")
    }
    assert turned == {"alignment": 45, "alignment of one": 0}
    four = lesson.alignment(ENGLISH[:4], FRENCH[:4], random_weights(4, 4))
    assert four.axes[0].get_xticklabels()[0].get_rotation() == 0


def test_a_word_of_dollar_signs_is_a_word_and_not_a_formula():
    odd = ["$x_$", "$"]
    for figure in (
        lesson.alignment(odd, odd, random_weights(2, 2)),
        lesson.decoding_step(odd, random_weights(2), odd, [("$_$", 1.0)]),
        lesson.neighbours(odd, cloud(2), ["a", "a"], "t"),
    ):
        style.figure_png(figure, "a")  # a formula that cannot be read would be an error here
        assert "$x_$" in words_of(figure)


def test_tensors_and_lists_of_words_of_any_kind_can_be_drawn():
    weights = torch.softmax(torch.randn(2, 3, requires_grad=True), -1)
    assert isinstance(lesson.alignment(("a", "b", "c"), ("d", "e"), weights, ((0, 1),)), Figure)


# Decoding


def bars_of(figure, colour):
    return [
        patch
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle) and to_hex(patch.get_facecolor()) == colour.lower()
    ]


def test_the_bars_over_the_source_words_are_as_high_as_the_weights():
    weights = random_weights(26)
    bars = bars_of(lesson.decoding_step(LONG_ENGLISH, weights, [], NEXT), style.COLOURS["weights"])
    heights = np.array([bar.get_height() for bar in bars])
    assert np.allclose(heights / heights.sum(), weights)


def test_each_bar_stands_over_its_word():
    figure = lesson.decoding_step(ENGLISH, random_weights(12), [], NEXT)
    middles = [bar.get_x() + bar.get_width() / 2 for bar in bars_of(figure, style.COLOURS["weights"])]
    found = [text for text in figure.axes[0].texts if text.get_text() in ENGLISH][: len(ENGLISH)]
    assert [text.get_text() for text in found] == ENGLISH
    assert np.allclose([text.get_position()[0] for text in found], middles)


def test_without_weights_there_are_no_bars_and_the_last_state_is_named():
    found = words_of(drawn("step without weights")[0])
    assert "only the last state" in found and set(ENGLISH) <= set(found)
    assert bars_of(drawn("step without weights")[0], style.COLOURS["weights"]) == []
    assert "only the last state" not in words_of(drawn("step")[0])


def boxed(figure):
    """The words in boxes, from the places of the boxes."""
    boxes = [patch.get_bbox() for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    middles = [((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2) for box in boxes]
    texts = {tuple(np.round(text.get_position(), 6)): text.get_text() for text in figure.axes[0].texts}
    return [texts[tuple(np.round(middle, 6))] for middle in middles]


@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_the_word_just_read_is_in_a_box(count):
    figure = lesson.decoding_step(ENGLISH, random_weights(12), FRENCH[:count], NEXT)
    assert boxed(figure) == [FRENCH[count - 1] if count else "<start>"]
    assert set(FRENCH[:count]) <= set(words_of(figure))


def test_the_next_words_carry_their_probabilities_and_the_first_stands_out():
    figure = lesson.decoding_step(ENGLISH, None, [], NEXT)
    assert [word for word in words_of(figure) if word.endswith("%")] == ["93 %", "5 %", "<1 %"]
    assert len(bars_of(figure, style.COLOURS["output"])) == 1
    assert {word for word, _ in NEXT} <= set(words_of(figure))


def test_a_probability_is_never_rounded_to_certainty_or_to_nothing():
    written = [lesson.percent(chance) for chance in (0, 0.0001, 0.006, 0.5, 0.994, 0.9993, 1)]
    assert written == ["0 %", "<1 %", "1 %", "50 %", "99 %", ">99 %", "100 %"]


@pytest.mark.parametrize("with_weights", [True, False])
@pytest.mark.parametrize(("source", "target"), [(ENGLISH, FRENCH), (LONG_ENGLISH, LONG_FRENCH)])
def test_the_picture_keeps_its_size_from_step_to_step(source, target, with_weights):
    weights = random_weights(len(source)) if with_weights else None
    steps = [lesson.decoding_step(source, weights, target[:i], NEXT, "t") for i in range(0, len(target) + 1, 3)]
    assert len({tuple(figure.get_size_inches()) for figure in steps}) == 1


def test_no_word_of_a_long_source_is_left_alone_in_a_row():
    for count in range(10, 27):
        rows = lesson.even_rows(LONG_ENGLISH[:count])
        assert [place for row in rows for place, _, _ in row] == list(range(count))
        assert len(rows) == len(lesson.in_rows(LONG_ENGLISH[:count]))
        assert len(rows) == 1 or min(len(row) for row in rows) >= 4


# Word vectors


def test_points_keep_their_distances():
    points = cloud(30, seed=3) * [5, 1]
    spots = lesson.fitted(points, (0.15, 0.15, 8, 6))
    before, after = (np.linalg.norm(one[:, None] - one[None], axis=-1) for one in (points, spots))
    ratio = after[before > 0] / before[before > 0]
    assert np.allclose(ratio, ratio[0])
    assert (spots >= 0.15).all() and (spots <= [8, 6]).all()


@pytest.mark.parametrize("seed", range(4))
def test_forty_words_do_not_cover_each_other(seed):
    labels = (LONG_ENGLISH + LONG_FRENCH)[:40]
    area = (0.15, 0.15, 8, 6)
    boxes = lesson.place_labels(labels, lesson.fitted(cloud(40, seed), area), area)
    covered = lesson._covered(boxes, boxes) - (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    assert covered.sum() < 0.1  # square inches, of about four that the words take
    assert (boxes[:, :2] > 0.1).all() and (boxes[:, 2] < 8.05).all() and (boxes[:, 3] < 6.05).all()


def test_every_group_has_a_look_of_its_own():
    axes = drawn("neighbours")[0].axes[0]
    marks = [
        (line.get_color(), line.get_marker())
        for line in axes.lines
        if len(line.get_xdata()) > 1 and line.get_marker() != "None"
    ]
    assert len(set(marks)) == 4
    assert set(NAMES) | set(GROUPS) <= set(words_of(axes.figure))


# The ladder


def test_the_ladder_shows_median_and_spread_of_every_model():
    figure = drawn("ladder")[0]
    lines = [list(line.get_xdata()) for line in figure.axes[0].lines]
    assert lines == [[58, 63], [61.2], [99, 100], [99.2]]
    assert {"61.2  (58.0 to 63.0)", "99.2  (99.0 to 100.0)"} <= set(words_of(figure))


def test_a_single_seed_has_no_spread_to_write():
    assert "0.0" in words_of(drawn("ladder of one")[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lesson.by_length({}, "t"), "no curves to draw"),
        (lambda: lesson.by_length({"a": ([1, 2],)}, "t"), "lengths and exact in %, for a, got 1"),
        (lambda: lesson.by_length({"a": ([1, 2], [50])}, "t"), "one number of a at each of 2 lengths, got 1"),
        (lambda: lesson.by_length({"a": ([2, 1], [50, 60])}, "t"), "from short to long"),
        (lambda: lesson.by_length({"a": ([1], [101])}, "t"), "between 0 and 100 %, got 101"),
        (lambda: lesson.by_length({"a": ([1], [np.nan])}, "t"), "must be finite"),
        (lambda: lesson.by_length({str(i): ([1], [1]) for i in range(9)}, "t"), "at most 8 curves.*got 9"),
        (lambda: lesson.by_length({"a": ([1], [1])}, "t", bands={"b": ([1], [1])}), "bands for a, got one for b"),
        (lambda: lesson.by_length({"a": ([1], [1])}, "t", bands={"a": ([2], [1])}), r"is it \(high, low\)"),
        (lambda: lesson.by_length({"a": ([1], [1])}, "t", bands={"a": ([0, 0], [1])}), "at each of 1 lengths, got 2"),
        (lambda: lesson.by_length({"a": ([1], [1])}, "t", bands={"a": [1]}), r"\(low, high\) as the band of a, got 1"),
        (lambda: lesson.by_length({"a": ([1], [1])}, "t", quarters=(1, 2)), "three rising lengths"),
        (lambda: lesson.by_length({"a": ([1], [1])}, "t", quarters=(3, 2, 1)), "three rising lengths"),
        (lambda: lesson.influence({"a": [1, -1]}, "t"), "never negative, but the smallest of a is -1"),
        (lambda: lesson.influence({"a": [[1, 2]]}, "t"), r"one row of numbers, got the shape \(1, 2\)"),
        (lambda: lesson.influence({"a": []}, "t"), "one row of numbers"),
        (lambda: lesson.times([1], {"a": [1]}, "t"), "two or more rising lengths"),
        (lambda: lesson.times([2, 1], {"a": [1, 1]}, "t"), "two or more rising lengths"),
        (lambda: lesson.times([1, 2], {"a": [0, 1]}, "t"), "times above 0, but the shortest of a is 0"),
        (lambda: lesson.times([1, 2], {"a": [1]}, "t"), "one time of a at each of 2 lengths, got 1"),
        (lambda: lesson.times([1, 2], {"a": [1, 1]}, "t", fit_from=2), "two or more lengths, got 1 from 2 words on"),
        (lambda: lesson.receptive_field(0, 3), "got 0 layers and kernel 3"),
        (lambda: lesson.receptive_field(2, 4), "odd kernel, got 2 layers and kernel 4"),
        (lambda: lesson.receptive_field(20, 3), "at most 61 inputs in 12 layers"),
        (lambda: lesson.alignment(["a"], ["b"], [[0.5]]), r"sum to 1 over the source words, got a sum of 0.500"),
        (lambda: lesson.alignment(["a"], ["b"], [[1.5]]), "softmax comes first"),
        (lambda: lesson.alignment(["a", "b"], ["c"], [[1.0]]), r"= \(1, 2\), got \(1, 1\)"),
        (lambda: lesson.alignment(["a", "b"], ["c"], [[0.5, 0.5]], [(0, 1)]), r"counted from 0, got \(0, 1\)"),
        (lambda: lesson.alignment([], [], np.zeros((0, 0))), "nothing to draw"),
        (lambda: lesson.decoding_step([], None, [], NEXT), "at least one source word"),
        (lambda: lesson.decoding_step(["a"], [0.5, 0.5], [], NEXT), r"each of 1 source words, got the shape \(2,\)"),
        (lambda: lesson.decoding_step(["a"], [[1.0]], [], NEXT), r"got the shape \(1, 1\)"),
        (lambda: lesson.decoding_step(["a", "b"], [0.5, 0.1], [], NEXT), "got a sum of 0.600"),
        (lambda: lesson.decoding_step(["a"], [1.0], [], []), r"one to five choices \(word, probability\)"),
        (lambda: lesson.decoding_step(["a"], [1.0], [], [("b", 0.2), ("c", 0.5)]), "likeliest word first"),
        (lambda: lesson.decoding_step(["a"], [1.0], [], [("b", 0.8), ("c", 0.5)]), "sum to 1 at most"),
        (lambda: lesson.neighbours(["a"], [[1, 2], [3, 4]], ["x", "y"], "t"), "words for each of the 2 numbers, got 1"),
        (lambda: lesson.neighbours(["a"], [[1, 2]], [], "t"), "group names for each of the 1 numbers, got 0"),
        (lambda: lesson.neighbours(["a"], [[1, 2, 3]], ["x"], "t"), r"\(words, 2\), got \(1, 3\)"),
        (lambda: lesson.neighbours(list("abcdefghi"), cloud(9), list("abcdefghi"), "t"), "at most 8 groups"),
        (lambda: lesson.ladder_bars([], "t"), "one to twelve rows"),
        (lambda: lesson.ladder_bars([("a", 1, 2)], "t"), r"a row \(name, median, low, high\), got"),
        (lambda: lesson.ladder_bars([("a", 5, 6, 7)], "t"), "got median 5, low 6, high 7"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()

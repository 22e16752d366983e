"""Facts about the figures of lesson 07: no browser, no kernel."""

from functools import cache

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, Rectangle

from tests.picture_rules import broken_rules, words_in_boxes
from tests.test_draw_figures import drawn_texts
from utils.course.exercises import find
from utils.draw import heads_picture, style
from utils.draw import lesson07 as lesson
from utils.draw.parts import LOOKS

WORDS = ["the", "cat", "sat", "on", "the", "mat"]
LOWEST = [list("▁lowest"), ["▁", "lo", "w", "e", "s", "t"], ["▁", "low", "e", "s", "t"], ["▁", "low", "es", "t"],
          ["▁", "low", "est"], ["▁low", "est"]]  # fmt: skip
NOTES = ["", "counted 7 times", "7 times", "9 times", "9 times", "7 times"]
STEPS = np.arange(0, 1001, 50)
LABELS = [1, 4, 16, "all"]
WAYS = {
    "bag of words": [[14, 10, 17], [23, 21, 25], [38.5, 36, 41], [58.8]],
    "from scratch": [[15, 12, 16], [20, 18, 22], [30, 27, 33], None],
    "frozen features": [[28.8, 26, 31], [43.7, 40, 47], [55.5, 53, 58], [61]],
    "full fine-tuning": [[30, 20, 34], [46, 44, 49], [60, 58, 63], [70]],
    "low-rank adapters": [[29, 25, 33], [45, 44, 46], [59, 57, 62], [69.5]],
}
TASKS = [
    ("module family", ([31, 28, 33], [46, 44, 49]), 11.7, 58.8),
    ("kind of docstring", ([44, 40, 50], [80, 78, 82]), 44.0, 75.7),
    ("does it continue?", ([50, 49, 51], [66, 64, 67]), 50.0, 61.2),
    ("word order", ([52, 50, 55], [99, 98.5, 100]), 47.8, 49.7),
]
SENSES = {
    "thing with thing": [[0.97, 0.95, 0.99], [0.9, 0.8, 0.95], [0.85, 0.75, 0.94]],
    "verb with verb": [[0.99, 0.98, 1.0], [0.92, 0.85, 0.96], [0.69, 0.54, 0.88]],
    "thing with verb": [[0.975, 0.95, 0.99], [0.845, 0.7, 0.9], [0.52, 0.4, 0.638]],
}
SENTENCES = ["The bread is still warm.", "The loaf has just left the oven.", "The bread is sold in a shop."]
FULL = "A sentence that is so long that nobody could read it on a slide, however wide the slide may be, is cut."
ALONG = np.linspace(-0.25, 1.25, 31)


def parabola(centre, least=0.2):
    return least + (ALONG - centre) ** 2


def shares(layers=6, heads=12):
    return np.round(np.random.default_rng(1).uniform(size=(layers, heads)) * 24) / 24


def masks(words=WORDS, title="t", masked=(1, 4), gaps=((1, 3),), **options):
    return lesson.three_masks(words, title, masked=masked, gaps=gaps, **options)


EXAMPLES = {
    "merges": lambda: lesson.merges_steps(LOWEST, "a word grows together, pair by pair", NOTES),
    "merges, one letter": lambda: lesson.merges_steps([["$"]], "t " * 60),
    "merges, longest": lambda: lesson.merges_steps([["a"] * 28, ["aa"] * 14, ["aaaa"] * 7], "twice the same pair"),
    "masks": lambda: masks(title="three tasks from one sentence: no label is needed"),
    "masks, two gaps": lambda: masks(gaps=((0, 1), (3, 5)), title="t " * 60),
    "masks, two words": lambda: masks(["a", "$"], masked=[0], gaps=[(0, 2)]),
    "pretraining": lambda: lesson.pretraining_curves(
        STEPS,
        {
            "next piece": 4 + 2.6 * np.exp(-STEPS / 300)[:, None] + [0, 0.1, 0.2],
            "blanks": 4.4 + 2.4 * np.exp(-STEPS / 500),
        },
        "both soon beat counting",
        6.44,
    ),
    "pretraining, no line": lambda: lesson.pretraining_curves([0, 1], {"a": [0, 0]}, "t " * 60),
    "pretraining, far line": lambda: lesson.pretraining_curves([0, 1], {"a": [1, 0.5]}, "far", 8, unigram_name="counts"),
    "labels": lambda: lesson.accuracy_against_labels(LABELS, WAYS, "few labels: pretraining pays", {"majority": 11.7}),
    "labels, two marks": lambda: lesson.accuracy_against_labels(
        [1, 2], {"a": [0, 100]}, "t " * 60, {"majority": 50, "bag of words": 50}
    ),
    "labels, one and all": lambda: lesson.accuracy_against_labels([4, "all"], {"a": [None, [5, 6]]}, "one"),
    "labels, eight": lambda: lesson.accuracy_against_labels(
        LABELS, {f"way number {i}": [10, 20, 30, 40] for i in range(8)}, "eight"
    ),
    "tasks": lambda: lesson.tasks_bars(TASKS, "one model, four tasks"),
    "tasks, one": lambda: lesson.tasks_bars([("a", [0], None, None)], "t " * 60, ways=["only"]),
    "tasks, most": lambda: lesson.tasks_bars(
        [(f"a task with a name, {i}", [100, 99, 0, [30, 50]], 100, 0) for i in range(4)],
        "most",
        ways=["from scratch", "frozen", "fine-tuned", "adapters"],
    ),
    "distance": lambda: lesson.distance_by_layer(
        ["embeddings", *(f"layer {i}" for i in range(1, 5)), "head"],
        {"fine-tuned": np.outer(np.arange(1, 7), [0.01, 0.012]), "from scratch": np.linspace(0.5, 1, 6)},
        "near its start, but not at the end",
    ),
    "distance, one": lambda: lesson.distance_by_layer(["all"], {"a": [0.0]}, "t " * 60),
    "distance, most": lambda: lesson.distance_by_layer(
        [f"a layer of a name {i}" for i in range(14)], {f"way {j}": np.ones((14, 2)) for j in range(4)}, "most"
    ),
    "line": lambda: lesson.loss_along_the_line(
        ALONG, {"training labels": parabola(1.1), "held out": parabola(0.9, 0.6)}, "downhill all the way"
    ),
    "line, two points": lambda: lesson.loss_along_the_line([0, 1], {"a": [0, 0]}, "t " * 60, ends=("start", "end")),
    "forgetting": lambda: lesson.forgetting_bars(
        [("full fine-tuning", [4.2, 4.2], [6.1, 6.9]), ("adapters", 4.2, 4.6), ("frozen", 4.2, 4.2)],
        "what it forgot",
        mark=(6.44, "unigram"),
    ),
    "forgetting, one": lambda: lesson.forgetting_bars([("a", 0, 0)], "t " * 60),
    "forgetting, eight": lambda: lesson.forgetting_bars(
        [(f"a way of a long name, {i}", 1, 12) for i in range(8)], "eight", mark=(14, "a model that counts pieces alone")
    ),
    "senses": lambda: lesson.senses_by_layer(SENSES, "with every layer the two watches part"),
    "senses, thirteen": lambda: lesson.senses_by_layer({"a long name of a pair": [[0.5, 0.4, 0.6]] * 13}, "thirteen"),
    "senses, seven": lambda: lesson.senses_by_layer({name: rows[:1] * 5 + rows[1:] for name, rows in SENSES.items()}, "t"),
    "senses, one": lambda: lesson.senses_by_layer({"a": [[-1, -1, -1]]}, "t " * 60),
    "senses, named": lambda: lesson.senses_by_layer({"a": [[0.95] * 3] * 2}, "named", ["first", "last"]),
    "similarity": lambda: lesson.similarity_matrix(
        SENTENCES, [[1, 0.6, 0.7], [0.6, 1, 0.31], [0.7, 0.31, 1]], "shared words can win over the sense"
    ),
    "similarity, one": lambda: lesson.similarity_matrix(["$"], [[-1.0]], "t " * 60),
    "similarity, twelve": lambda: lesson.similarity_matrix([FULL] * 12, -np.eye(12), "twelve"),
    "pronouns": lambda: lesson.pronoun_looks(shares(), "two heads of 72 know who is meant"),
    "pronouns, two": lambda: lesson.pronoun_looks(
        {"by form: he or she": shares(), "by sense: it": shares() / 2}, "form is found, sense is not"
    ),
    "pronouns, one": lambda: lesson.pronoun_looks([[1.0]], "t " * 60, note="of 24 sentences"),
    "pronouns, many": lambda: lesson.pronoun_looks(shares(12, 16), "most", luck=0.25),
}  # fmt: skip


@cache
def drawn(name):
    """(figure, PNG) of an example, drawn once for all tests."""
    figure = EXAMPLES[name]()
    return figure, style.figure_png(figure, "a")


def words_of(figure):
    return [text.get_text() for text in drawn_texts(figure)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_can_be_projected(name):
    """Nothing is cut, too small, too large for a slide or written over something else."""
    assert broken_rules(drawn(name)[0]) == []


@pytest.mark.parametrize("name", ["merges", "masks", "labels", "pronouns"])
def test_every_figure_gives_the_same_bytes_twice(name):
    assert drawn(name)[1] == style.figure_png(EXAMPLES[name](), "a")


def boxes_of(figure, edge):
    return [
        patch for patch in figure.axes[0].patches
        if isinstance(patch, FancyBboxPatch) and to_hex(patch.get_edgecolor()) == edge.lower()
    ]  # fmt: skip


def bars_of(axes):
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


# Subwords


def test_the_pieces_that_have_just_been_joined_are_filled_and_the_pair_is_named():
    figure = drawn("merges")[0]
    assert len(boxes_of(figure, style.RED)) == len(LOWEST) - 1
    assert len(boxes_of(figure, style.BLUE)) == sum(map(len, LOWEST)) - (len(LOWEST) - 1)
    words = words_of(figure)
    assert {"letters", "l + o", "lo + w", "e + s", "es + t", "▁ + low", "counted 7 times"} <= set(words)
    assert words.count("low") == 3 and words.count("▁low") == 1
    inside, sticking_out = words_in_boxes(figure)
    assert (inside, sticking_out) == (sum(map(len, LOWEST)), [])


def test_a_pair_that_occurs_twice_is_joined_twice():
    assert len(boxes_of(drawn("merges, longest")[0], style.RED)) == 14 + 7
    assert lesson.joined(list("abab"), ["ab", "ab"]) == "a + b"


# Three objectives


def cells_of(figure, count):
    """The looks of the three panels as matrices of colours, from the sizes of the panels."""
    shades = [to_hex(patch.get_facecolor()).upper() for patch in bars_of(figure.axes[0])]
    panels = []
    for size in count:
        panels.append(np.array(shades[: size * size]).reshape(size, size))
        shades = shades[size * size :]
    return panels


def test_the_three_masks_let_each_place_look_where_its_objective_allows():
    figure = drawn("masks")[0]
    own, cross = style.BLUE.upper(), style.RED.upper()
    encoder, decoder, both = cells_of(figure, (6, 7, 9))  # the cat sat on the mat; with a start; 5 + 4
    assert (encoder == own).all()
    assert np.array_equal(decoder == own, np.tril(np.ones((7, 7), bool)))
    assert (both[:5, :5] == own).all() and (both[5:, :5] == cross).all() and (both[:5, 5:] == "#EDEDED").all()
    assert np.array_equal(both[5:, 5:] == own, np.tril(np.ones((4, 4), bool)))


def test_each_objective_reads_and_says_its_own():
    words = words_of(drawn("masks")[0])
    # Each place stands beside its row and over its column.
    assert words.count("[MASK]") == 2 * 2 and words.count("<start>") == 2 * 2 and words.count("<end>") == 1
    assert words.count("[GAP0]") == 2 * 2 + 1  # read by the encoder and by the decoder, and said
    assert words.count("[GAP1]") == 1 and "[GAP2]" not in words  # the next gap ends what is said
    assert {"blanks", "next piece", "gaps"} <= set(words)
    assert words.count("cat") == 1 + (2 + 1) + (2 + 1)  # masked: said; next: read and said; in the gap: read and said
    source, target = lesson._cut_out(list("abcdef"), [(0, 1), (3, 5)], "<{}>")
    assert (source, target) == (["<0>", "b", "c", "<1>", "f"], ["<0>", "a", "<1>", "d", "e"])


def test_source_and_target_of_the_gaps_are_those_of_the_exercise():
    taught = find("7.4").reference
    words, gaps = [f"w{place}" for place in range(6)], [(1, 2), (4, 6)]
    source, target = taught(words, gaps, [f"[GAP{place}]" for place in range(4)])
    texts = masks(words, gaps=gaps).axes[0].texts
    behind = [text.get_text() for text in texts].index("gaps")
    said = [text.get_text() for text in texts[behind + 1 :] if text.get_fontweight() == "bold"]
    read = [text.get_text() for text in texts[behind:] if text.get_rotation() == 90]
    assert said == target and target[-1] == "[GAP2]"
    assert read == [*source, "<start>", *target[:-1]]


# Pretraining and fine-tuning


def test_behind_each_name_stands_the_perplexity_at_the_end():
    words = words_of(drawn("pretraining")[0])
    last = 4 + 2.6 * np.exp(-1000 / 300) + 0.1  # the middle seed
    assert f"next piece\nperplexity {np.exp(last):.1f}" in words
    assert "unigram: 6.44, perplexity 626" in words
    assert [lesson._perplexity(loss) for loss in (0, np.log(99.94), np.log(3000))] == ["1.0", "99.9", "3,000"]


@pytest.mark.parametrize(("curve", "side"), [(7 - STEPS / 500, "right"), (5 + STEPS / 600, "left")])
def test_the_name_of_the_unigrams_line_stands_where_no_curve_does(curve, side):
    axes = lesson.pretraining_curves(STEPS, {"a": curve}, "t", 6.44).axes[0]
    (name,) = [text for text in axes.texts if text.get_text().startswith("unigram")]
    assert name.get_ha() == side


def test_the_axis_of_the_losses_begins_below_the_lowest_of_them():
    low, high = drawn("pretraining")[0].axes[0].get_ylim()
    assert low == 3.5 and high > 6.6  # the lowest is 4.09, the highest a first loss
    assert drawn("pretraining, no line")[0].axes[0].get_ylim() == (0, 1)
    low, high = drawn("pretraining, far line")[0].axes[0].get_ylim()  # drawn from 0, since 0.5 is near
    assert low == 0 and high > 8


def test_the_means_and_the_spread_over_the_seeds_are_those_of_the_numbers():
    axes = drawn("labels")[0].axes[0]
    for points, (shade, marker, _) in zip(WAYS.values(), LOOKS, strict=False):
        (line,) = [one for one in axes.lines if (one.get_color(), one.get_marker()) == (shade, marker)
                   and len(one.get_xdata()) > 1]  # fmt: skip
        assert line.get_ydata() == pytest.approx([np.mean(seeds) for seeds in points if seeds is not None])
    bars = [part.get_segments() for part in axes.collections]
    assert [(one[0][1], one[1][1]) for one in bars[0]] == [(10, 17), (21, 25), (36, 41), (58.8, 58.8)]
    assert len(bars[1]) == 3  # what was not measured has no bar
    assert "majority 11.7" in words_of(drawn("labels")[0])


def test_numbers_of_labels_stand_at_equal_steps_for_equal_factors_and_all_one_step_behind():
    places, ticks = lesson._label_places([1, 4, 16, "all"])
    assert np.diff(places) == pytest.approx([np.log(4)] * 3) and ticks == ["1", "4", "16", "all"]
    assert lesson._label_places([4, "all"])[0] == pytest.approx([np.log(4), np.log(4) + 1])


def test_the_bars_of_a_task_are_the_means_and_both_marks_stand_where_they_should():
    axes = drawn("tasks")[0].axes[0]
    means = [np.mean(seeds) for _, values, *_ in TASKS for seeds in values]
    assert [bar.get_width() for bar in bars_of(axes)] == pytest.approx(means)
    marks = {line.get_xdata()[0] for line in axes.lines}
    assert {mark for *_, majority, bag in TASKS for mark in (majority, bag)} <= marks
    assert {"commonest label", "bag of words", "from scratch", "fine-tuned"} <= set(words_of(drawn("tasks")[0]))
    assert "bag of words" not in words_of(drawn("tasks, one")[0])


def test_distances_are_means_over_seeds_and_tensors_are_numbers_too():
    figure = lesson.distance_by_layer(["a", "b"], {"x": torch.tensor([[1.0, 3.0], [0.0, 1.0]])}, "t")
    assert [bar.get_height() for bar in bars_of(figure.axes[0])] == [2, 0.5]


def test_start_and_end_of_the_line_are_marked_on_every_curve():
    axes = drawn("line")[0].axes[0]
    large = [line for line in axes.lines if line.get_markersize() == 13]
    found = [np.interp((0, 1), ALONG, losses) for losses in (parabola(1.1), parabola(0.9, 0.6))]
    assert np.allclose([line.get_ydata() for line in large], found)
    assert {"pretrained", "fine-tuned", "held out"} <= set(words_of(drawn("line")[0]))


def test_what_was_forgotten_is_after_minus_before():
    words = words_of(drawn("forgetting")[0])
    assert {"+2.30", "+0.40", "0.00", "4.20", "6.50", "unigram", "before", "after"} <= set(words)
    better = lesson.forgetting_bars([("a", 4, 3)], "t")
    assert "−1.00" in words_of(better)


# The real model


def test_the_lines_are_the_means_and_the_bands_go_from_the_least_to_the_most():
    axes = drawn("senses")[0].axes[0]
    for values, band in zip(SENSES.values(), axes.collections, strict=True):
        points = band.get_paths()[0].vertices
        at_the_end = points[points[:, 0] == 2, 1]
        assert (at_the_end.min(), at_the_end.max()) == pytest.approx((values[-1][1], values[-1][2]))
        assert any(
            np.allclose(line.get_ydata(), [row[0] for row in values])
            for line in axes.lines
            if len(line.get_xdata()) == 3
        )
    assert "embeddings" in words_of(drawn("senses")[0])


def test_every_cosine_is_written_and_every_sentence_has_its_number():
    words = words_of(drawn("similarity")[0])
    assert {"1.00", "0.60", "0.70", "0.31", "1  The bread is still warm.", "3"} <= set(words)
    assert "−1.00" in words_of(drawn("similarity, one")[0])
    cut = [word for word in words_of(drawn("similarity, twelve")[0]) if word.startswith("12  A")]
    assert len(cut) == 1 and cut[0].endswith("…")


@pytest.mark.parametrize(("word", "with_weights"), [("[CLS]", False), ("a", True)])
def test_below_the_maps_of_72_heads_weights_stand_behind_all_words_or_behind_none(word, with_weights):
    rows = np.random.default_rng(0).dirichlet(np.full(12, 0.1), size=(6, 12, 12))
    figure = heads_picture(rows, [word, *"bcdefghijkl"], focus=6)
    captions = [text.get_text() for text in drawn_texts(figure) if text.get_va() == "top" and not text.get_rotation()]
    assert len(captions) == 72 and {" " in text for text in captions} == {with_weights}
    assert any(text.split()[0] == word for text in captions)


def test_the_best_heads_are_outlined_and_luck_is_white():
    values = np.array([[0.5, 1.0], [0.0, 1.0]])
    figure = lesson.pronoun_looks(values, "t")
    tiles = [patch for patch in bars_of(figure.axes[0]) if patch.get_fill()]
    frames = [patch for patch in bars_of(figure.axes[0]) if not patch.get_fill()]
    assert [to_hex(tile.get_facecolor()) for tile in tiles] == ["#ffffff", "#0072b2", "#a84a00", "#0072b2"]
    assert len(frames) == 2
    for frame, tile in zip(frames, (tiles[1], tiles[3]), strict=True):
        assert tile.get_bbox().fully_containsx(frame.get_x()) and tile.get_bbox().fully_containsy(frame.get_y())
    assert {"50 %", "100 %", "0 %", "head 2", "layer 2"} <= set(words_of(figure))


# What is refused

REFUSED = [
    (lambda: lesson.merges_steps([], "t"), "one to 12 steps, got 0"),
    (lambda: lesson.merges_steps([["a", ""]], "t"), "pieces of at least one"),
    (lambda: lesson.merges_steps([["a"] * 29], "t"), "one to 28 letters"),
    (lambda: lesson.merges_steps([["a", "b"], ["a", "b"]], "t"), "joining neighbours of one pair"),
    (lambda: lesson.merges_steps([["a", "b", "c", "d"], ["ab", "cd"]], "t"), "joining neighbours of one pair"),
    (lambda: lesson.merges_steps([["a", "b", "c"], ["abc"]], "t"), "joining neighbours of one pair"),
    (lambda: lesson.merges_steps([["a", "b"], ["b", "a"]], "t"), "joining neighbours of one pair"),
    (lambda: lesson.merges_steps([["a", "b"], ["ab"]], "t", ["x"]), "notes"),
    (lambda: lesson.merges_steps([["m"] * 28], "t", ["a note of many words " * 6]), "too wide for a slide"),
    (lambda: masks(masked=[]), "masked places among 0 to 5"),
    (lambda: masks(masked=[6]), r"masked places among 0 to 5, got \[6\]"),
    (lambda: masks(["a"], masked=[0]), "at least two words"),
    (lambda: masks(gaps=[]), "expected gaps"),
    (lambda: masks(gaps=[(2, 2)]), "expected gaps"),
    (lambda: masks(gaps=[(3, 7)]), "among 6 words"),
    (lambda: masks(gaps=[(0, 2), (2, 3)]), "with words between them"),
    (lambda: masks(WORDS * 3), "18 words do not fit a slide three times"),
    (lambda: lesson.pretraining_curves([0, 1], {"a": [1, -1]}, "t"), "never negative"),
    (lambda: lesson.pretraining_curves([0, 1], {"a": [1]}, "t"), r"\(2 points of training step, seeds\)"),
    (lambda: lesson.pretraining_curves([0, 1], {"a": [1, 1]}, "t", 0), "unigram model above 0"),
    (lambda: lesson.accuracy_against_labels([4, 1], {"a": [1, 1]}, "t"), "rising numbers of labels"),
    (lambda: lesson.accuracy_against_labels(["all"], {"a": [1]}, "t"), "two or more rising"),
    (lambda: lesson.accuracy_against_labels([1, 4], {"a": [1]}, "t"), "each of 2 numbers of labels, got 1"),
    (lambda: lesson.accuracy_against_labels([1, 4], {"a": [1, 101]}, "t"), "from 0 to 100"),
    (lambda: lesson.accuracy_against_labels([1, 4], {"a": [None, None]}, "t"), "at least one measured"),
    (lambda: lesson.accuracy_against_labels([1, 4], {}, "t"), "one to 8 curves"),
    (lambda: lesson.accuracy_against_labels([1, 4], {"a": [1, 2]}, "t", dict.fromkeys("abc", 1)), "at most two marks"),
    (lambda: lesson.tasks_bars([], "t"), "one to eight tasks"),
    (lambda: lesson.tasks_bars([("a", [1, 2], 3)], "t"), "got 3 parts"),
    (lambda: lesson.tasks_bars([("a", [1], 3, 4)], "t"), "for each of 2 ways, got 1"),
    (lambda: lesson.tasks_bars([("a", [1, -2], 3, 4)], "t"), "fine-tuned on a in %, from 0 to 100"),
    (lambda: lesson.tasks_bars([("a", [1] * 4, 3, 4)] * 8, "t", ways=list("wxyz")), "too tall for a slide"),
    (lambda: lesson.distance_by_layer(["a", "b"], {"x": [1]}, "t"), "each of 2 parts"),
    (lambda: lesson.distance_by_layer(["a", "b"], {"x": np.ones((3, 2))}, "t"), "transpose it"),
    (lambda: lesson.distance_by_layer(["a"], {"x": [-1]}, "t"), "never negative"),
    (lambda: lesson.distance_by_layer(["a"], {}, "t"), "one to four ways"),
    (lambda: lesson.loss_along_the_line([0.1, 1], {"a": [1, 1]}, "t"), "from 0 or less to 1 or more"),
    (lambda: lesson.loss_along_the_line([0, 1], {"a": [1]}, "t"), "a loss of a at each of 2 points, got 1"),
    (lambda: lesson.loss_along_the_line([0, 1], dict.fromkeys("abcde", [1, 1]), "t"), "one to four curves"),
    (lambda: lesson.forgetting_bars([("a", 1)], "t"), "got 2 parts"),
    (lambda: lesson.forgetting_bars([("a", 1, -1)], "t"), "at least 0"),
    (lambda: lesson.forgetting_bars([], "t"), "one to eight rows"),
    (lambda: lesson.forgetting_bars([("a", 1, 1)], "t", mark=(0, "x")), "loss above 0"),
    (lambda: lesson.senses_by_layer({"a": [[0.5, 0.6, 0.7]]}, "t"), "least <= mean <= most"),
    (lambda: lesson.senses_by_layer({"a": [0.5, 0.6]}, "t"), r"\(mean, least, most\) of a"),
    (lambda: lesson.senses_by_layer({"a": [[0.5] * 3], "b": [[0.5] * 3] * 2}, "t"), "same number of layers"),
    (lambda: lesson.senses_by_layer({"a": [[0.5] * 3]}, "t", ["x", "y"]), "layers"),
    (lambda: lesson.similarity_matrix(["a"], [[1, 2]], "t"), r"cosines \(n, n\)"),
    (lambda: lesson.similarity_matrix(["a"], [[1.5]], "t"), "between -1 and 1, but one is 1.5"),
    (lambda: lesson.similarity_matrix(["a", "b"], [[1]], "t"), "sentences"),
    (lambda: lesson.similarity_matrix(["a"], [[1]], "t", least=1), "below 1"),
    (lambda: lesson.similarity_matrix(["a"] * 13, np.eye(13), "t"), "one to 12 sentences"),
    (lambda: lesson.pronoun_looks([0.5], "t"), r"shares \(layers, heads\)"),
    (lambda: lesson.pronoun_looks([[50.0]], "t"), "divide by 100 if these are per cents"),
    (lambda: lesson.pronoun_looks([[0.5]], "t", luck=1), "luck between 0 and 1"),
    (lambda: lesson.pronoun_looks({}, "t"), "one to three grids"),
    (lambda: lesson.pronoun_looks(np.ones((40, 4)), "t"), "40 layers of 4 heads have no room"),
    (lambda: lesson.pronoun_looks(np.ones((4, 40)), "t"), "4 layers of 40 heads have no room"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_be_drawn_is_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()

"""Facts about the pure figure functions: no browser, no kernel."""

import base64
from functools import cache

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import utils.draw as draw
from utils.draw import figures, style
from utils.draw.forms import picture_bundle

TOKENS = ["the", "cat", "sat", "on", "the", "mat"]


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def random_weights(*shape):
    return softmax(2 * np.random.default_rng(sum(shape)).normal(size=shape))


@cache
def drawn(name):
    """(figure, PNG) of an example, drawn once for all tests."""
    figure = EXAMPLES[name]()
    return figure, style.figure_png(figure, "a")


def drawn_texts(figure):
    """Every text in a drawn figure that is visible."""
    found = figure.findobj(mpl.text.Text)
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def cut_texts(figure):
    """Texts that reach over the edge of the picture."""
    texts = drawn_texts(figure)
    box = figure.bbox
    shown = [text for text in texts if is_on_screen(text)]
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
    return [word for word, b in boxes if b.x0 < -1 or b.y0 < -1 or b.x1 > box.x1 + 1 or b.y1 > box.y1 + 1]


def is_on_screen(text):
    """Tick labels outside the limits of their axis, or of an axis that is off, exist but are not drawn."""
    for axis in (axis for axes in text.figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.majorTicks:  # also those that matplotlib keeps in reserve
            if text in (tick.label1, tick.label2):
                return axis.axes.axison and low <= tick.get_loc() <= high
    return True


EXAMPLES = {
    "bars": lambda: draw.bars(list("abc"), [1.0, -2.0, 0.5], "Three bars", "value", "index"),
    "paired bars": lambda: draw.bars(list("ab"), {"first": [1, 2], "second": [2, 1]}, "Two series"),
    "lying bars": lambda: draw.weights_bars([f"a long label, number {i}" for i in range(7)], np.full(7, 1 / 7)),
    "many bars": lambda: draw.weights_bars([f"token{i}" for i in range(30)], np.full(30, 1 / 30), "Many"),
    "one bar": lambda: draw.weights_bars(["only"], [1.0], "One bar"),
    "long title": lambda: draw.weights_bars(list("ab"), [0.5, 0.5], "a title of very many words " * 5),
    "heat map": lambda: draw.heat_map(random_weights(4, 6), TOKENS[:4], TOKENS, "A heat map"),
    "heat map without labels": lambda: draw.heat_map(random_weights(30, 40)),
    "heat map of one cell": lambda: draw.heat_map([[1.0]], ["a"], ["b"], "A title that is longer than one cell"),
    "panels": lambda: draw.heat_map(random_weights(5, 3, 4), list("abc"), list("wxyz"), "Five panels"),
    "layers and heads": lambda: draw.heat_map(random_weights(2, 3, 4, 6), TOKENS[:4], TOKENS, "Layers, heads"),
    "attention lines": lambda: draw.attention_lines(TOKENS, TOKENS, random_weights(6, 6), "Self"),
    "cross attention lines": lambda: draw.attention_lines(TOKENS, list("abc"), random_weights(3, 6), focus=2),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_gives_the_same_bytes_twice(name):
    first = drawn(name)[1]
    assert first == style.figure_png(EXAMPLES[name](), "a")
    assert b"Matplotlib" not in first and b"Software" not in first


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_text_is_cut_at_the_edge_of_a_figure(name):
    assert cut_texts(drawn(name)[0]) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_text_is_large_enough_to_be_projected(name):
    small = {text.get_text(): text.get_fontsize() for text in drawn_texts(drawn(name)[0]) if text.get_fontsize() < 11}
    assert small == {}


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"layers and heads", "heat map without labels"}))
def test_an_ordinary_figure_stays_below_eighty_kilobytes(name):
    assert len(drawn(name)[1]) < 80_000


def test_bars_have_the_heights_they_were_given():
    axes = draw.bars(list("abc"), [0.2, 0.5, 0.3]).axes[0]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.2, 0.5, 0.3])
    assert [label.get_text() for label in axes.get_xticklabels()] == list("abc")


def test_long_labels_lie_beside_lying_bars():
    axes = draw.bars(["a very long label indeed", "another one of the kind", "a third", "a fourth"], [1, 2, 3, 4]).axes[
        0
    ]
    assert [bar.get_width() for bar in axes.patches] == [1, 2, 3, 4]


def test_numbers_in_a_small_heat_map_are_the_weights():
    weights = random_weights(3, 4)
    figure = draw.heat_map(weights, list("abc"), list("wxyz"))
    written = [text.get_text() for text in figure.axes[0].texts]
    assert written == [f"{number:.2f}" for number in weights.flat]


def test_a_large_heat_map_writes_no_numbers():
    assert len(draw.heat_map(random_weights(12, 12)).axes[0].texts) == 0


def test_layers_go_down_and_heads_go_across():
    titles = [axes.get_title() for axes in draw.heat_map(random_weights(2, 3, 4, 5)).axes[:6]]
    assert titles == [f"layer {i}, head {j}" for i in (1, 2) for j in (1, 2, 3)]


def test_heat_maps_show_the_matrix_they_were_given():
    weights = random_weights(2, 3, 4, 5)
    images = [axes.images[0].get_array() for axes in draw.heat_map(weights).axes[:6]]
    assert np.allclose(np.stack(images), weights.reshape(6, 4, 5))


def test_attention_lines_write_the_numbers_of_the_focused_token():
    weights = random_weights(3, 6)
    figure = draw.attention_lines(TOKENS, list("abc"), weights, focus=1)
    words = [text.get_text() for text in figure.axes[0].texts]
    assert [word for word in words if word.startswith(("0.", "<"))] == [figures.weight_text(one) for one in weights[1]]


def test_a_masked_weight_and_a_tiny_one_are_told_apart():
    assert [figures.weight_text(weight) for weight in (0.0, 1e-6, 0.0049, 0.005, 1.0)] == [
        "0",
        "<0.01",
        "<0.01",
        "0.01",
        "1.00",
    ]
    figure = draw.attention_lines(list("abc"), list("x"), [[0.999, 0.001, 0.0]], focus=0)
    assert [text.get_text() for text in figure.axes[0].texts][-5:-2] == ["1.00", "<0.01", "0"]


def test_a_token_that_looks_at_everything_a_little_still_has_its_lines():
    figure = draw.attention_lines([f"s{i}" for i in range(300)], ["x"], np.full((1, 300), 1 / 300))
    assert len(figure.axes[0].lines) == 300


def test_a_row_that_looks_nowhere_can_be_drawn():
    weights = np.zeros((2, 3))
    weights[0, 1] = 1
    assert isinstance(draw.attention_lines(list("abc"), list("xy"), weights), Figure)


def test_tensors_that_require_a_gradient_can_be_drawn():
    weights = torch.softmax(torch.randn(4, 6, dtype=torch.bfloat16, requires_grad=True), -1)
    assert isinstance(draw.heat_map(weights, TOKENS[:4], TOKENS), Figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw.bars(list("abc"), [1, 2]), "each of the 2 numbers, got 3"),
        (lambda: draw.bars(list("ab"), {"x": [1, 2], "y": [1]}), "same number of bars"),
        (lambda: draw.bars([], []), "no bars to draw"),
        (lambda: draw.bars(list("ab"), [1, np.nan]), "must be finite, but 1 of 2"),
        (lambda: draw.weights_bars(list("ab"), [1.2, -0.2]), "must not be negative"),
        (lambda: draw.weights_bars(list("ab"), [2.0, 1.0]), "softmax comes first"),
        (lambda: draw.heat_map(np.zeros(3)), r"got the shape \(3,\)"),
        (lambda: draw.heat_map(np.zeros((0, 3))), "got the shape"),
        (lambda: draw.heat_map(np.zeros((2, 3)), row_labels=["a"]), "row labels for each of the 2 numbers, got 1"),
        (lambda: draw.heat_map([[1, 2], [3]]), "rows of equal length"),
        (lambda: draw.attention_lines(list("abc"), list("ab"), np.zeros((3, 2))), r"\(2, 3\), got \(3, 2\)"),
        (lambda: draw.attention_lines(list("abc"), list("ab"), np.zeros((2, 3)), focus=2), "one of the 2 target"),
        (lambda: draw.canvas(1, 1), "has no room"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("alt", ["", "  \n "])
def test_alt_text_is_never_empty(alt):
    figure, _ = draw.canvas()
    for call in (lambda: draw.figure_png(figure, alt), lambda: draw.show(figure, alt=alt)):
        with pytest.raises(ValueError, match="alt text is empty"):
            call()


def test_alt_text_is_required():
    figure, _ = draw.canvas()
    with pytest.raises(TypeError):
        draw.show(figure)
    with pytest.raises(TypeError, match="got NoneType"):
        draw.show(figure, alt=None)


def test_axes_in_place_of_a_figure_are_refused():
    with pytest.raises(TypeError, match="return the figure, not the axes"):
        draw.figure_png(draw.canvas()[1], "a")


def test_a_picture_bundle_carries_the_picture_and_its_words():
    png = draw.figure_png(draw.canvas()[0], "An empty figure: é, 図.")
    data, metadata = picture_bundle(png, "An empty\n figure.")
    assert base64.b64decode(data["image/png"]) == png
    assert data["text/plain"] == "An empty figure." == metadata["image/png"]["alt"]


def test_show_displays_one_output_and_closes_the_figure(monkeypatch):
    shown = []
    monkeypatch.setattr("utils.draw.forms.display", lambda data, **options: shown.append((data, options)))
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    draw.show(figure, alt="A line.")
    assert len(shown) == 1 and shown[0][0]["text/plain"] == "A line." and shown[0][1]["raw"] is True
    assert not plt.fignum_exists(figure.number)


def test_canvas_keeps_the_axes_where_they_are():
    boxes = []
    for title in ("", "A title"):
        figure, axes = draw.canvas(rows=2, columns=3)
        axes[1, 2].set_title(title)
        style.figure_png(figure, "a")
        boxes.append(axes[1, 2].get_position().bounds)
    assert boxes[0] == boxes[1]


def luminance(colour):
    channels = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_query_key_value_and_output_have_colours_of_their_own():
    roles = [draw.COLOURS[role] for role in ("query", "key", "value", "output")]
    assert len(set(roles)) == 4
    assert not {draw.COLOURS["query"], draw.COLOURS["output"]} & set(draw.SERIES)


def test_the_map_of_weights_grows_brighter_all_the_way():
    steps = [luminance(mpl.colormaps[draw.WEIGHTS_MAP](x)) for x in np.linspace(0, 1, 50)]
    assert (np.diff(steps) > 0).all()


def test_importing_the_room_sets_the_style():
    assert mpl.rcParams["font.family"] == ["DejaVu Sans"] and mpl.rcParams["font.size"] == style.FONT
    assert mpl.rcParams["figure.facecolor"] == "white"


def test_numbers_have_no_minus_before_zero():
    assert figures.signed(-0.001) == "0.00" and figures.signed(-1.5, 1) == "\N{MINUS SIGN}1.5"

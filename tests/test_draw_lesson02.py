"""Facts about the pictures of lesson 02: everything that is said can be read, whatever people type."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from utils.draw.lesson02 import hops_picture, loss_curves, message_picture, seed_errors


def boxes(figure):
    """Everything written that is not a mark of an axis, with its frame in inches."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in figure.axes:
        legend = axes.get_legend()
        written = [*axes.texts, *figure.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
        for text in [*written, *(legend.get_texts() if legend else [])]:
            if text.get_text().strip():
                box = text.get_window_extent(renderer)
                yield text.get_text(), box.transformed(figure.dpi_scale_trans.inverted())


def check_inside(figure):
    width, height = figure.get_size_inches()
    for text, box in boxes(figure):
        assert box.x0 >= -0.02 and box.x1 <= width + 0.02, f"{text!r} leaves the picture at the side"
        assert box.y0 >= -0.02 and box.y1 <= height + 0.02, f"{text!r} leaves the picture above or below"


def weights_for(hops, n):
    return torch.rand(hops, n, generator=torch.Generator().manual_seed(0)).softmax(-1)


STORIES = {
    "one word": ["yes"],
    "capitals": ["MARY WENT BACK TO THE BATHROOM", "JOHN WENT BACK TO THE BATHROOM"],
    "wide letters": ["W" * 30, "i" * 30],
    "very long": ["x" * 300, "many short words " * 20],
    "dollars": [r"Lily $\bad$ is", "a $ b $ c"],
    "fifty": [f"Mary went to room {number}" for number in range(50)],
}


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("hops", [1, 3])
def test_any_story_fits_its_picture(name, hops):
    story = STORIES[name]
    figure = hops_picture(
        story,
        weights_for(hops, len(story)),
        r"What color is $\bad$?",
        "yellow, wrong: green",
        "a title that says what there is to see",
        facts=(0,),
        note="A sentence below that may be long. " * 6,
        right=False,
    )
    check_inside(figure)
    assert figure.get_size_inches()[0] < 16


@pytest.mark.parametrize("name", STORIES)
def test_no_sentence_runs_into_its_numbers(name):
    story = STORIES[name]
    figure = hops_picture(story, weights_for(2, len(story)), "What color is Lily?", "yellow")
    found = list(boxes(figure))
    numbers = [box.x0 for text, box in found if text[0].isdigit() and "." in text]
    for text, box in found:
        if any(text.startswith(one[:20]) for one in story):
            assert box.x1 < min(numbers) + 0.02, f"{text!r} covers the weights"


def test_weights_must_fit_the_story():
    with pytest.raises(ValueError, match="each of 2 sentences, got 3"):
        hops_picture(["a", "b"], weights_for(1, 3))


def test_a_message_may_hold_anything():
    for message in ("short", r"a $\bad$ formula", "x" * 400, "word " * 200):
        check_inside(message_picture(message))


def test_curves_and_errors_fit_their_pictures():
    check_inside(loss_curves({"with": torch.rand(120, 3), "without": torch.rand(100, 3)}, 20, "a title of some length"))
    check_inside(seed_errors({"a short name": [1.0, 2.0], "a name that is rather long": [50.0, 60.0]}, "title", 75))

"""Facts about the pictures of lesson 02: everything that is said can be read, whatever people type."""

import pytest
import torch

from tests.test_draw_figures import cut_texts, drawn_texts
from utils.draw import style
from utils.draw.lesson02 import hops_picture, loss_curves, message_picture, seed_errors


def cut_in(figure):
    style.figure_png(figure, "a")
    return cut_texts(figure)


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
    assert cut_in(figure) == []
    assert figure.get_size_inches()[0] < 16


@pytest.mark.parametrize("name", STORIES)
def test_no_sentence_runs_into_its_numbers(name):
    story = STORIES[name]
    figure = hops_picture(story, weights_for(2, len(story)), "What color is Lily?", "yellow")
    style.figure_png(figure, "a")
    found = [(text.get_text(), text.get_window_extent()) for text in drawn_texts(figure)]
    numbers = [box.x0 for text, box in found if text[0].isdigit() and "." in text]
    sentences = [(text, box.x1) for text, box in found if any(text.startswith(one[:20]) for one in story)]
    assert len(sentences) == len(story)
    assert [text for text, end in sentences if end > min(numbers)] == []


def test_weights_must_fit_the_story():
    with pytest.raises(ValueError, match="each of 2 sentences, got 3"):
        hops_picture(["a", "b"], weights_for(1, 3))


def test_a_message_may_hold_anything():
    for message in ("short", r"a $\bad$ formula", "x" * 400, "word " * 200):
        assert cut_in(message_picture(message)) == []


def test_curves_and_errors_fit_their_pictures():
    assert (
        cut_in(loss_curves({"with": torch.rand(120, 3), "without": torch.rand(100, 3)}, 20, "a title of some length"))
        == []
    )
    assert (
        cut_in(seed_errors({"a short name": [1.0, 2.0], "a name that is rather long": [50.0, 60.0]}, "title", 75)) == []
    )

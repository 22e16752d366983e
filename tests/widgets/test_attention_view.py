"""Facts about the attention view: what it sends to the page, says in words and refuses."""

import numpy as np
import pytest

from utils import widgets
from utils.widgets.attention_view import MAX_TOKENS, MEAN, example, unpacked

TOKENS = ["the", "cat", "the"]


def weights_of(*shape):
    scores = np.exp(np.random.default_rng(0).normal(size=shape))
    return scores / scores.sum(-1, keepdims=True)


def respond(text, score):
    tokens = text.split()
    if "dog" in tokens:
        raise ValueError("Out of vocabulary: 'dog'.")
    return {"weights": weights_of(score, len(tokens), len(tokens)), "target": tokens}


def test_weights_may_have_two_three_or_four_axes():
    for shape, full in (((3, 5), (1, 1, 3, 5)), ((4, 3, 5), (1, 4, 3, 5)), ((2, 4, 3, 5), (2, 4, 3, 5))):
        view = widgets.attention_view(weights_of(*shape), TOKENS, list("abcde"))
        sent = unpacked(view.answer["weights"])
        assert sent.shape == full and np.allclose(sent.reshape(shape), weights_of(*shape), atol=1e-7)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 3), r"must be \(3, 5\), got \(5, 3\); the two axes are swapped"),
        ((2, 3, 4), "3 target tokens attend to 5 source tokens"),
        ((5,), "got 1 axes"),
    ],
)
def test_weights_that_do_not_fit_the_tokens_are_refused(shape, message):
    with pytest.raises(ValueError, match=message):
        widgets.attention_view(weights_of(*shape), TOKENS, list("abcde"))


def test_the_words_follow_the_selected_head_and_the_followed_token():
    weights = np.zeros((2, 2, 3, 3))
    weights[..., 0] = 0.5
    weights[1, 1, 1] = [0, 0, 1]
    view = widgets.attention_view(weights, TOKENS, title="Self", layer=1, head=1)
    assert repr(view).startswith("Self: 2 x 2 attention maps among the (1); cat; the (3). Enlarged: layer 2, head 2,")
    assert repr(view).endswith("where cat attends most to the (3), 1.00.")
    view.view = {"layer": 0, "head": MEAN, "focus": ["target", 1, "cat"]}
    assert repr(view).endswith("layer 1, mean of the heads, where cat attends most to the (1), 0.50.")


def test_the_reader_types_a_text_and_its_errors_are_sentences():
    view = widgets.attention_view(respond, text="the cat sat", score=[1, 2], focus="cat")
    assert view.view["focus"] == ["target", 1, "cat"] and view.data["answers"] == {}
    view.set(text="a cat", score=2)
    assert view.answer["target"] == ["a", "cat"] and view.answer["weights"]["shape"] == [1, 2, 2, 2]
    for text, said in (("the dog", "Out of vocabulary"), (" ", "empty"), ("a " * (MAX_TOKENS + 1), "shorter")):
        view.set(text=text)
        assert said in view.error and view.answer["target"] == ["a", "cat"]


def test_answers_to_all_choices_are_stored_for_a_page_without_python():
    view = example()
    assert set(view.data["answers"]) == {'{"sentence":"the cat"}', '{"sentence":"a queen"}'}
    assert view.data["answers"]['{"sentence":"the cat"}'] == view.answer

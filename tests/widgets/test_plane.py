"""Facts about the plane: its answers and gradients come from the function it was given."""

import pytest
import torch

from utils.widgets.plane import example, plane

KEYS = {"A": (1.0, 0.5), "B": (-0.5, 1.2), "C": (-1.0, -1.0)}


def attend(query, keys, values, temperature):
    weights = (keys @ query / temperature).softmax(0)
    return weights @ values, weights


def make(function):
    return plane(
        function, KEYS, query=(1, -0.5), target=(-0.5, 0.2), extent=2, temperature=(0.2, 3.0, 0.1, 1.0), title="Where?"
    )


def test_a_step_along_the_negative_gradient_lowers_the_loss():
    widget = make(attend)
    for values in (None, [[0.5, 1.0], [-1.0, 0.0], [1.0, -1.5]]):
        widget.set(**widget.data["start"] | {"values": values, "steps": 0})
        before = widget.answer
        for name, gradient in (("keys", before["key_gradients"]), ("values", before["value_gradients"])):
            if gradient is not None:
                moved = torch.tensor(widget.inputs[name]) - 0.01 * torch.tensor(gradient)
                assert widget.respond(**{**widget.inputs, name: moved.tolist()})["loss"] < before["loss"]


def test_several_training_steps_are_what_single_steps_give():
    widget = make(attend)
    for values in (None, [[0.5, 1.0], [-1.0, 0.0], [1.0, -1.5]]):
        inputs = widget.inputs | {"values": values}
        path = widget.respond(**inputs | {"steps": 4})["path"]
        for step in path:
            (single,) = widget.respond(**inputs | {"steps": 1})["path"]
            assert step["keys"] == single["keys"] and step["answer"]["loss"] == single["answer"]["loss"]
            inputs |= {"keys": single["keys"], "values": single["values"]}
        assert len(path) == 4 and path[-1]["answer"]["loss"] < path[0]["answer"]["loss"]


def test_the_answer_is_the_one_of_the_function_even_if_it_is_wrong():
    def without_normalization(query, keys, values, temperature):
        weights = (keys @ query / temperature).exp()
        return weights @ values, weights

    assert sum(make(attend).answer["weights"]) == pytest.approx(1)
    assert sum(make(without_normalization).answer["weights"]) > 2


def test_a_function_that_stops_the_gradient_still_answers():
    def detached(query, keys, values, temperature):
        return attend(query, keys.detach(), values.detach(), temperature)

    answer = make(detached).answer
    assert answer["key_gradients"] is None and answer["weights"] == make(attend).answer["weights"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda output, weights: (weights, output),
        lambda output, weights: (output, weights[:2]),
        lambda output, weights: (output, weights * torch.nan),
    ],
)
def test_a_result_of_the_wrong_shape_or_not_finite_is_refused(wrong):
    with pytest.raises(ValueError, match="expected an output|must be finite"):
        make(lambda *inputs: wrong(*attend(*inputs)))


def test_the_words_say_query_weights_output_and_loss():
    words = repr(example())
    assert "query at (1.00, -0.50)" in words and "cat 0.69" in words and "loss 0.96" in words

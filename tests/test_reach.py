"""Facts about reach: how far gradients come, what convolutions see, what a long sentence costs."""

import pytest
import torch

from utils.training.reach import Convolutions, influence, reach, receptive_field, recurrent_layer, seconds_by_length


def test_influence_is_what_a_small_change_of_an_input_does():
    layer, x = recurrent_layer("gru", 3, 5).double(), torch.randn(1, 6, 3).double()
    found = influence(layer, x)
    probe = torch.randn(1, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for distance in range(6):
        slopes = []
        for component in range(3):
            moved = x.clone()
            moved[0, 5 - distance, component] += 1e-6
            slopes.append(((layer(moved)[0][:, -1] - layer(x)[0][:, -1]) * probe).sum() / 1e-6)
        assert found[distance].item() == pytest.approx(torch.stack(slopes).norm().item(), rel=1e-4)


def test_influence_of_a_plain_mean_is_the_same_at_every_distance():
    found = influence(lambda x: (x.mean(1, keepdim=True), None), torch.randn(2, 7, 4))
    assert found.shape == (7,) and torch.allclose(found, found[0].expand(7))


def test_a_plain_cell_forgets_and_a_cell_that_starts_out_keeping_does_not():
    plain, lstm, gru = reach("tanh"), reach("lstm", keep=2.0), reach("gru", keep=2.0)
    assert plain.shape == (60,) and plain[0] == 1
    assert plain[20] < 1e-5 and lstm[20] > 1e-2 and gru[20] > 1e-2
    assert plain[40] < reach("lstm")[40] < lstm[40]


def test_what_has_no_gate_cannot_keep():
    with pytest.raises(ValueError, match="no gate"):
        recurrent_layer("tanh", 3, 4, keep=1.0)
    with pytest.raises(ValueError, match="tanh, gru, lstm, got 'elman'"):
        recurrent_layer("elman", 3, 4)


@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("kernel", [3, 5])
def test_a_stack_of_convolutions_sees_as_far_as_its_depth_allows(layers, kernel):
    assert receptive_field(layers, kernel) == 1 + layers * (kernel - 1)


def test_dilation_doubles_the_field_with_each_layer():
    assert receptive_field(4, 3, dilations=(1, 2, 4, 8)) == 1 + 2 * (1 + 2 + 4 + 8)


def test_a_field_that_does_not_fit_is_not_counted():
    with pytest.raises(ValueError, match="smaller than the 9 inputs"):
        receptive_field(5, 3, length=9)
    with pytest.raises(ValueError, match="got 4; try 5"):
        Convolutions(1, 4, kernel=4)
    with pytest.raises(ValueError, match="each of 3 layers, got 2"):
        Convolutions(3, 4, dilations=(1, 2))


def test_convolutions_keep_the_length():
    assert Convolutions(2, 6, 5, (1, 3))(torch.randn(2, 9, 6)).shape == (2, 9, 6)


def test_time_is_the_median_of_the_calls_after_a_first_one(monkeypatch):
    """A clock made by hand: the first call of each length is slow, and one of the later calls is disturbed."""
    now, calls = [0.0], []

    def works(x):
        calls.append(x.shape)
        count = sum(shape == x.shape for shape in calls)
        now[0] += 100 if count == 1 else 50 if count == 3 else x.size(1)

    monkeypatch.setattr("utils.training.reach.time.perf_counter", lambda: now[0])
    found = seconds_by_length({"steps": works, "nothing": lambda x: None}, (4, 32), width=8, repeats=3)
    assert found["steps"].tolist() == [4, 32] and found["nothing"].tolist() == [0, 0]
    assert calls == [(1, 4, 8)] * 4 + [(1, 32, 8)] * 4

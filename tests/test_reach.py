"""Facts about how far gradients reach back in recurrent layers and about the receptive field of convolutions."""

import pytest
import torch

from utils.training.reach import influence, reach, receptive_field, recurrent_layer


def test_influence_is_what_a_small_change_of_an_input_does():
    layer, x = recurrent_layer("gru", 3, 5).double(), torch.randn(1, 6, 3).double()
    values = influence(layer, x)
    projection = torch.randn(1, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for distance in range(6):
        derivatives = []
        for component in range(3):
            moved = x.clone()
            moved[0, 5 - distance, component] += 1e-6
            derivatives.append(((layer(moved)[0][:, -1] - layer(x)[0][:, -1]) * projection).sum() / 1e-6)
        assert values[distance].item() == pytest.approx(torch.stack(derivatives).norm().item(), rel=1e-4)


def test_gradients_vanish_in_an_rnn_and_less_with_a_forget_bias():
    plain, lstm, gru = reach("rnn"), reach("lstm", forget_bias=2.0), reach("gru", forget_bias=2.0)
    assert plain.shape == (60,) and plain[0] == 1
    assert plain[20] < 1e-5 and lstm[20] > 1e-2 and gru[20] > 1e-2
    assert plain[40] < reach("lstm")[40] < lstm[40]


@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("kernel", [3, 5])
def test_the_receptive_field_grows_linearly_with_depth(layers, kernel):
    assert receptive_field(layers, kernel) == 1 + layers * (kernel - 1)


def test_dilation_doubles_the_receptive_field_with_each_layer():
    assert receptive_field(4, 3, dilations=(1, 2, 4, 8)) == 1 + 2 * (1 + 2 + 4 + 8)

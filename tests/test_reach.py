"""Facts about reach: how far gradients come, what convolutions see, what a long sentence costs."""

import pytest
import torch

from utils.training.reach import influence, reach, receptive_field, recurrent_layer


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


def test_a_plain_cell_forgets_and_a_cell_that_starts_out_keeping_does_not():
    plain, lstm, gru = reach("tanh"), reach("lstm", keep=2.0), reach("gru", keep=2.0)
    assert plain.shape == (60,) and plain[0] == 1
    assert plain[20] < 1e-5 and lstm[20] > 1e-2 and gru[20] > 1e-2
    assert plain[40] < reach("lstm")[40] < lstm[40]


@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("kernel", [3, 5])
def test_a_stack_of_convolutions_sees_as_far_as_its_depth_allows(layers, kernel):
    assert receptive_field(layers, kernel) == 1 + layers * (kernel - 1)


def test_dilation_doubles_the_field_with_each_layer():
    assert receptive_field(4, 3, dilations=(1, 2, 4, 8)) == 1 + 2 * (1 + 2 + 4 + 8)

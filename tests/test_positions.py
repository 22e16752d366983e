"""Facts about sinusoidal, learned and rotary positions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.models.positions import (
    LearnedPositions,
    MaxLengthError,
    apply_rotary,
    frequencies,
    periods,
    rotary_embedding,
    sinusoidal_positions,
)

# Sinusoidal


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40).map(lambda half: 2 * half), st.integers(0, 300), st.integers(0, 300), st.integers(0, 5000))
def test_the_dot_product_of_two_sinusoidal_positions_depends_on_their_distance_alone(dim, first, second, start):
    near = sinusoidal_positions(301, dim)
    far = sinusoidal_positions(301, dim, start=start)
    product = near[first] @ near[second]
    torch.testing.assert_close(far[first] @ far[second], product, rtol=0, atol=1e-4)
    torch.testing.assert_close(near[second] @ near[first], product)
    torch.testing.assert_close(product, ((first - second) * frequencies(dim)).cos().sum().float(), rtol=0, atol=1e-4)


def test_sines_stand_in_even_and_cosines_in_odd_components():
    positions = sinusoidal_positions(7, 6)
    assert positions.shape == (7, 6) and positions[0].tolist() == [0, 1] * 3
    for position in (1, 5):
        for pair in range(3):
            angle = position / 10_000 ** (2 * pair / 6)
            assert positions[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert positions[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    torch.testing.assert_close(sinusoidal_positions(3, 6, start=4), positions[4:])


def test_the_first_pair_repeats_after_two_pi_positions_and_each_period_is_a_full_rotation():
    assert periods(8)[0].item() == pytest.approx(2 * math.pi)
    torch.testing.assert_close(periods(8) * frequencies(8), torch.full((4,), 2 * math.pi).double())


def test_an_odd_width_is_refused_with_the_next_even_one():
    for make in (lambda: sinusoidal_positions(3, 5), lambda: rotary_embedding(torch.arange(3), 5)):
        with pytest.raises(ValueError, match="even width.*got 5; try 6"):
            make()


# Learned


def test_learned_positions_end_at_max_len_and_the_error_tells_so():
    positions = LearnedPositions(5, 3)
    assert positions(5).shape == (5, 3) and torch.equal(positions(2, start=3), positions.weight[3:])
    with pytest.raises(MaxLengthError, match="from 0 to 4, got 0 to 5: learned positions end at max_len"):
        positions(6)
    with pytest.raises(MaxLengthError, match="from 0 to 4, got 3 to 5"):
        positions(3, start=3)


# Rotary


def rotate(x, positions):
    return apply_rotary(x, rotary_embedding(positions, x.size(-1), dtype=x.dtype))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 12), st.integers(0, 3000), st.integers(0, 2**31))
def test_rotary_scores_depend_on_the_distance_alone(b, n, half, start, seed):
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(b, n, 2 * half, generator=generator, dtype=torch.float64) for _ in range(2))
    near, far = torch.arange(n), torch.arange(n) + start

    def scores(positions):
        return rotate(query, positions) @ rotate(key, positions).transpose(1, 2)

    torch.testing.assert_close(scores(near), scores(far), rtol=0, atol=1e-9)
    torch.testing.assert_close(rotate(query, far).norm(dim=-1), query.norm(dim=-1))
    torch.testing.assert_close(rotate(query, torch.zeros(n)), query)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rope_rotates_each_pair_of_components_by_its_own_angle(dtype):
    x = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0), dtype=dtype)
    positions = torch.tensor([[0, 5, 2], [7, 1, 90_000]])
    rotated = rotate(x, positions)
    assert rotated.dtype == dtype
    for row, token, pair in [(0, 1, 0), (0, 2, 2), (1, 0, 1), (1, 2, 2)]:
        angle = positions[row, token].item() / 10_000 ** (2 * pair / 6)
        first, second = x[row, token, 2 * pair : 2 * pair + 2].tolist()
        expected = (
            first * math.cos(angle) - second * math.sin(angle),
            first * math.sin(angle) + second * math.cos(angle),
        )
        assert rotated[row, token, 2 * pair : 2 * pair + 2].tolist() == pytest.approx(expected, abs=1e-5)
    torch.testing.assert_close(rotate(x.transpose(0, 1), positions.T), rotated.transpose(0, 1))

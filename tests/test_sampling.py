"""Facts about drawing the next piece."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.models.language import CausalLM
from utils.models.sampling import generate, next_distribution

CHANCES = torch.tensor([0.1, 0.4, 0.05, 0.25, 0.2])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_temperature_zero_takes_the_likeliest_and_small_ones_do_not_overflow():
    assert next_distribution(CHANCES.log(), 0).tolist() == [0, 1, 0, 0, 0]
    assert next_distribution(torch.tensor([1e4, 1e4 - 1, -1e4]), 1e-4).tolist() == [1, 0, 0]


def test_top_k_keeps_k_and_top_p_the_fewest_that_reach_p():
    assert torch.allclose(next_distribution(CHANCES.log(), top_k=2), torch.tensor([0, 0.4, 0, 0.25, 0]) / 0.65)
    assert torch.allclose(next_distribution(CHANCES.log(), top_p=0.6), torch.tensor([0, 0.4, 0, 0.25, 0]) / 0.65)
    assert torch.allclose(next_distribution(CHANCES.log(), top_p=0.7), torch.tensor([0, 0.4, 0, 0.25, 0.2]) / 0.85)
    assert next_distribution(CHANCES.log(), top_p=0.01).tolist() == [0, 1, 0, 0, 0]


def test_top_k_cuts_before_top_p_measures():
    # Of three left, 0.4, 0.25 and 0.2 of 0.85: the first two have 0.76 of it, and without top_k they would have 0.65.
    assert next_distribution(CHANCES.log(), top_k=3, top_p=0.7).count_nonzero() == 2
    assert next_distribution(CHANCES.log(), top_p=0.7).count_nonzero() == 3


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(0.1, 5),
    st.one_of(st.none(), st.integers(1, 40)),
    st.one_of(st.none(), st.floats(0.01, 1)),
)
def test_what_stays_sums_to_one_and_keeps_its_proportions(seed, temperature, top_k, top_p):
    logits = 2 * torch.randn(30, generator=generator(seed), dtype=torch.float64)
    chances = next_distribution(logits, temperature, top_k, top_p)
    assert chances.sum().item() == pytest.approx(1)
    stays = chances > 0
    assert stays[logits.argmax()]
    assert torch.allclose(chances[stays], (logits[stays] / temperature).softmax(-1))
    if stays.all():
        return
    assert logits[stays].min() >= logits[~stays].max()  # nothing likelier was cut


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1}, "temperature of 0 or more, got -1"),
        ({"top_k": 0}, "top_k of at least 1, got 0"),
        ({"top_p": 0}, "top_p above 0 and up to 1, got 0"),
        ({"top_p": 1.1}, "got 1.1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        next_distribution(torch.zeros(3), **wrong)


# Writing


def successor(numbers):
    """A model that is sure of one thing: after k comes k + 1, modulo 10."""
    return 20 * torch.nn.functional.one_hot((numbers + 1) % 10, 10).float()


def test_each_piece_is_drawn_from_what_the_model_says_after_the_last_one():
    assert generate(successor, [7], 5, temperature=0).tolist() == [7, 8, 9, 0, 1, 2]
    assert generate(successor, torch.tensor([3, 4]), 2, top_k=1).tolist() == [3, 4, 5, 6]
    assert generate(successor, [7], 0).tolist() == [7]


def test_it_stops_after_the_stop_and_writes_nothing_that_it_never_may():
    assert generate(successor, [7], 9, temperature=0, stop=9).tolist() == [7, 8, 9]
    written = generate(successor, [7], 200, temperature=30.0, never=(0, 5), generator=generator())
    assert not set(written.tolist()) & {0, 5}
    assert len(set(written.tolist())) == 8


def test_the_same_generator_writes_the_same_and_draws_follow_the_chances():
    logits = CHANCES.log()
    drawn = [generate(lambda n: logits.expand(1, n.size(1), 5), [0], 4000, generator=generator(1)) for _ in range(2)]
    assert torch.equal(*drawn)
    shares = drawn[0][1:].bincount(minlength=5) / 4000
    assert torch.allclose(shares, CHANCES, atol=0.03)


def test_a_short_context_is_all_that_the_model_sees():
    torch.manual_seed(0)
    model = CausalLM(11, 8, 2, 8, 1).eval()
    seen = []

    def watched(numbers):
        seen.append(numbers.size(1))
        return model(numbers)

    written = generate(watched, [1, 2, 3], 4, context=4, generator=generator())
    assert seen == [3, 4, 4, 4] and len(written) == 7
    whole = generate(model, [1, 2, 3], 4, generator=generator())
    assert torch.equal(written[:5], whole[:5])


def test_nothing_to_go_on_from_is_refused():
    with pytest.raises(ValueError, match=r"at least one piece.*\(0,\)"):
        generate(successor, [], 3)

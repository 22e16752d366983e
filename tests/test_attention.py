"""Facts about `softmax`, `attend` and `attention`."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.models import attend, attention, softmax

TOLERANCE = {torch.float64: dict(rtol=1e-10, atol=1e-10), torch.float32: dict(rtol=1e-5, atol=2e-6)}

shapes = st.fixed_dictionaries(
    {
        "lead": st.lists(st.integers(1, 3), min_size=0, max_size=2).map(tuple),
        "m": st.integers(1, 6),
        "n": st.integers(1, 7),
        "d": st.integers(1, 9),
        "e": st.integers(1, 8),
        "masked": st.sampled_from(["no", "random", "some rows blind", "all rows blind", "broadcast"]),
        "scale": st.sampled_from([None, 1.0, 0.3]),
        "dtype": st.sampled_from([torch.float64, torch.float32]),
        "seed": st.integers(0, 2**31),
    }
)


def draw(lead, m, n, d, e, masked, scale, dtype, seed):
    generator = torch.Generator().manual_seed(seed)

    def tensor(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    query, key, value = tensor(*lead, m, d), tensor(*lead, n, d), tensor(*lead, n, e)
    mask = None
    if masked != "no":
        shape = (m, n) if masked == "broadcast" else (*lead, m, n)
        mask = torch.rand(shape, generator=generator) > 0.4
        if masked == "some rows blind":
            mask[..., 0, :] = False
        if masked == "all rows blind":
            mask[:] = False
    return query, key, value, mask, scale


def with_gradients(function, query, key, value, mask, scale):
    inputs = [tensor.detach().clone().requires_grad_() for tensor in (query, key, value)]
    output = function(*inputs, mask, scale)
    probe = torch.arange(output.numel(), dtype=output.dtype).reshape(output.shape).cos()
    (output * probe).sum().backward()
    return [output.detach()] + [tensor.grad for tensor in inputs]


def explicit(query, key, value, mask, scale):
    return attention(query, key, value, mask, scale)[0]


def fused(query, key, value, mask, scale):
    return attention(query, key, value, mask, scale, need_weights=False)[0]


def torchs_own(query, key, value, mask, scale):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


@settings(max_examples=150, deadline=None)
@given(shapes)
def test_explicit_and_fused_equal_torchs_own_forward_and_backward(shape):
    inputs = draw(**shape)
    wanted = with_gradients(torchs_own, *inputs)
    for function in (explicit, fused):
        for got, want in zip(with_gradients(function, *inputs), wanted, strict=True):
            assert got.isfinite().all()
            torch.testing.assert_close(got, want, **TOLERANCE[shape["dtype"]])


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_weights_are_a_distribution_over_what_may_be_seen_and_give_the_output(shape):
    query, key, value, mask, scale = draw(**shape)
    output, weights = attention(query, key, value, mask, scale)
    allowed = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
    assert (weights >= 0).all() and (weights[~allowed] == 0).all()
    expected_sum = allowed.any(-1).to(weights.dtype)
    torch.testing.assert_close(weights.sum(-1), expected_sum, **TOLERANCE[shape["dtype"]])
    torch.testing.assert_close(weights @ value, output, **TOLERANCE[shape["dtype"]])


def test_masked_values_never_influence_the_output():
    query, key, value, mask, _ = draw((2,), 4, 5, 3, 6, "random", None, torch.float64, 1)
    before, _ = attention(query, key, value, mask)
    changed = value.detach().clone()
    for batch in range(2):
        changed[batch][~mask[batch].any(0)] += 1e6
    torch.testing.assert_close(attention(query, key, changed, mask)[0], before, rtol=0, atol=0)


def test_attention_is_blind_to_the_order_of_its_memory():
    query, key, value, _, _ = draw((), 4, 6, 3, 5, "no", None, torch.float64, 2)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(attention(query, key[order], value[order])[0], attention(query, key, value)[0])


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from([0.01, 1.0, 50.0]), st.integers(0, 2**31))
def test_softmax_equals_torchs_along_any_axis(rows, columns, temperature, seed):
    logits = 300 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for dim in (0, 1):
        torch.testing.assert_close(softmax(logits, temperature, dim), F.softmax(logits / temperature, dim))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: softmax(torch.zeros(3), 0), "temperature above 0"),
        (lambda: attend(torch.zeros(2, 3), torch.zeros(4, 5)), "one value row for each of 3 scores, got 4"),
        (lambda: attention(torch.zeros(2, 3), torch.zeros(4, 5), torch.zeros(4, 5)), "one width, got 3 and 5"),
        (
            lambda: attention(torch.zeros(2, 3), torch.zeros(4, 5), torch.zeros(4, 5), need_weights=False),
            "one width, got 3 and 5",
        ),
        (lambda: attend(torch.zeros(2, 3), torch.zeros(3, 1), torch.zeros(2, 3)), "`mask == 0`"),
        (
            lambda: attention(torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(4, 1), torch.ones(2, 4), None, False),
            "True means 'may look'",
        ),
    ],
)
def test_wrong_input_is_answered_with_what_to_do(call, words):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert words in str(error.value)

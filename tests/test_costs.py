"""Facts about what layers cost, about how that is measured, and about the task of long range."""

import math
import os

import pytest
import torch

from tests.benchmarks.costs import cost_table, fresh_process, long_range_table
from utils.training.costs import (
    BIGBIRD,
    BY_HAND,
    CARD_VALUES,
    FUSED,
    HEADS,
    KINDS,
    LINFORMER,
    LOCAL,
    LONGEST,
    QUICK_KINDS,
    RANK,
    RECURRENCE,
    TASK_GLOBAL,
    TASK_KINDS,
    WIDTH,
    WINDOW,
    Reader,
    a_run,
    cost_curves,
    exponents,
    fitted_exponent,
    least_seconds,
    long_half,
    long_range,
    multiplications,
    peak_bytes,
    questions,
    train_long_range,
    with_gradients,
    without_gradients,
)

# The slope


def test_the_exponent_of_a_power_is_found_exactly():
    lengths = [3, 10, 50, 400]
    slope, error = fitted_exponent(lengths, [7 * n**1.5 for n in lengths])
    assert slope == pytest.approx(1.5) and error == pytest.approx(0, abs=1e-6)
    assert fitted_exponent(lengths, torch.tensor([0.1] * 4)).slope == pytest.approx(0, abs=1e-9)


def test_the_error_says_how_far_the_slope_may_be_off():
    generator = torch.Generator().manual_seed(0)
    lengths = [2.0**k for k in range(8)]
    found = []
    for _ in range(2000):
        noise = (0.2 * torch.randn(8, generator=generator, dtype=torch.float64)).exp()
        found.append(fitted_exponent(lengths, torch.tensor(lengths, dtype=torch.float64).square() * noise))
    slopes, errors = torch.tensor(found).T
    assert slopes.mean().item() == pytest.approx(2, abs=0.01)
    assert errors.square().mean().sqrt().item() == pytest.approx((slopes - 2).square().mean().sqrt().item(), rel=0.07)


def test_the_long_half_sees_what_grows_fastest():
    lengths = [2**k for k in range(4, 14)]
    values = [1000 * n + n**2 for n in lengths]
    assert fitted_exponent(lengths, values).slope < 1.45 < 1.6 < long_half(lengths, values).slope
    assert long_half(lengths, values) == fitted_exponent(lengths[5:], values[5:])
    assert long_half(lengths[::-1], values[::-1]) == pytest.approx(long_half(lengths, values))
    assert long_half([1, 2, 4, 8], [9, 2, 4, 8]).slope == pytest.approx(1)  # three at least


@pytest.mark.parametrize("lengths, values", [([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([1, 2, 3], [1, 0, 2])])
def test_no_slope_without_three_positive_values(lengths, values):
    with pytest.raises(ValueError, match="expected"):
        fitted_exponent(lengths, values)


# Memory


def test_peak_memory_counts_what_exists_at_one_moment():
    mb = 2**18  # numbers of four bytes

    def one_after_the_other():
        for _ in range(5):
            torch.empty(3 * mb).fill_(1)

    def all_at_once():
        return [torch.empty(3 * mb) for _ in range(5)]

    there = torch.empty(40 * mb)  # there before: does not count
    assert peak_bytes(one_after_the_other) == pytest.approx(3 * 2**20, rel=0.01)
    assert peak_bytes(all_at_once) == pytest.approx(15 * 2**20, rel=0.01)
    assert peak_bytes(lambda: there.exp().add_(1)) == pytest.approx(40 * 2**20, rel=0.01)
    assert peak_bytes(lambda: None) == 0


def test_the_profiler_is_silent_and_the_error_stream_comes_back(capfd):
    peak_bytes(lambda: torch.ones(3))
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_what_the_allocator_says_is_what_a_fresh_process_takes():
    found = fresh_process(BY_HAND, 2048)
    assert found["allocator_mb"] == pytest.approx(2 * HEADS * 2048**2 * 4 / 2**20, rel=0.02)  # scores and weights
    assert found["process_mb"] == pytest.approx(found["allocator_mb"], rel=0.15)


@pytest.mark.parametrize("wrap", [without_gradients, with_gradients])
def test_memory_is_quadratic_by_hand_and_linear_for_all_others(wrap):
    lengths = (256, 512, 1024)
    slopes = {}
    for kind in KINDS[1:]:
        slopes[kind] = fitted_exponent(lengths, [peak_bytes(wrap(a_run(kind, n))) for n in lengths]).slope
    assert slopes.pop(BY_HAND) == pytest.approx(2, abs=0.1)
    assert slopes[LOCAL] == pytest.approx(1, abs=0.05) and slopes[BIGBIRD] == pytest.approx(1, abs=0.05)
    assert all(slope < 1.4 for slope in slopes.values()), slopes
    assert peak_bytes(wrap(a_run(FUSED, 1024))) < peak_bytes(wrap(a_run(BY_HAND, 1024))) / 4


# Work


def test_as_many_multiplications_as_the_formulas_say():
    n, d = 512, WIDTH
    assert multiplications(RECURRENCE, n) == 6 * n * d**2
    assert multiplications(BY_HAND, n) == multiplications(FUSED, n) == 2 * n**2 * d
    assert multiplications(LINFORMER, n) == 4 * n * RANK * d
    needed = 2 * n * (2 * WINDOW + 1) * d
    assert needed < multiplications(LOCAL, n) < 1.5 * needed
    for kind in (LOCAL, BIGBIRD):
        assert multiplications(kind, 2 * n) == 2 * multiplications(kind, n)


def test_every_kind_runs_there_and_back_and_an_unknown_one_is_named():
    for kind in KINDS:
        output = a_run(kind, 40)()
        assert output.numel() == 40 * WIDTH and output.requires_grad
    same = [a_run(kind, 40)() for kind in (BY_HAND, FUSED)]
    assert torch.allclose(*same, atol=1e-5)
    with pytest.raises(ValueError, match="got 'magic'"):
        a_run("magic", 8)


def test_the_least_of_several_turns_is_taken_on_one_thread():
    threads, calls = [], []

    def run():
        threads.append(torch.get_num_threads())
        calls.append(1)
        sum(range(2000 if len(calls) == 4 else 200_000))

    before = torch.get_num_threads()
    found = least_seconds({"a": run}, repeats=5, at_least=0.0)
    assert len(calls) == 6 and set(threads) == {1} and torch.get_num_threads() == before
    assert found["a"] < least_seconds({"a": lambda: sum(range(200_000))}, repeats=3, at_least=0.0)["a"] / 5


def test_time_grows_faster_for_all_pairs_than_for_windows():
    # The exponents themselves are the benchmark's, on a machine that does nothing else.
    curves = cost_curves((512, 1024, 2048), (FUSED, LOCAL), repeats=3)
    found = {row["kind"]: row for row in exponents(curves)}
    assert found[FUSED]["time"].slope > found[LOCAL]["time"].slope + 0.4
    assert curves[FUSED]["lengths"] == [512, 1024, 2048] and curves[LOCAL]["bytes"].shape == (3,)
    assert found[LOCAL]["long_time"] is not None
    assert exponents(cost_curves((64, 128), (LINFORMER,), repeats=1))[0]["time"] is None


def test_the_longest_matrices_and_recurrences_are_left_out(monkeypatch):
    monkeypatch.setitem(LONGEST, BY_HAND, 64)
    curves = cost_curves.__wrapped__((64, 96), (RECURRENCE, BY_HAND, FUSED), repeats=1, recurrence_memory=64)
    assert curves[RECURRENCE]["lengths"] == [64, 96] and curves[RECURRENCE]["memory_lengths"] == [64]
    assert curves[BY_HAND]["lengths"] == curves[BY_HAND]["memory_lengths"] == [64]
    assert curves[FUSED]["lengths"] == curves[FUSED]["memory_lengths"] == [64, 96]


# The task of long range


def test_every_question_has_one_card_with_its_answer_at_the_distance_told():
    found = questions(50, torch.Generator().manual_seed(1), n=40, cards=5)
    assert (~found.asked).sum(1).eq(5).all()
    assert torch.equal(found.shown == 0, found.asked)
    for row in range(50):
        cards = {int(found.key[row, i]): i for i in range(40) if not found.asked[row, i]}
        assert len(cards) == 5
        for i in range(40):
            place = cards[int(found.key[row, i])]
            assert found.distance[row, i] == abs(i - place)
            assert found.answer[row, i] == found.shown[row, place] - 1
    again = questions(50, torch.Generator().manual_seed(1), n=40, cards=5)
    assert all(torch.equal(one, other) for one, other in zip(found, again, strict=True))
    with pytest.raises(ValueError, match="from 1 to 16 cards .* got 17"):
        questions(1, torch.Generator(), cards=17)


@pytest.mark.parametrize("kind", TASK_KINDS)
def test_a_window_of_one_layer_cannot_see_far_and_the_others_can(kind):
    torch.manual_seed(0)
    model = Reader(kind, 96, layers=1).double()
    with torch.no_grad():
        x = model.keys(torch.arange(96) % 16)[None] + model.values(torch.zeros(1, 96, dtype=torch.long))
    x = torch.cat([model.front.detach()[None], x], 1).requires_grad_()
    logits = model.answer(model.body(x)[0])[0, TASK_GLOBAL + 40]
    (gradient,) = torch.autograd.grad(logits @ torch.arange(CARD_VALUES).double(), x)
    seen = gradient[0, TASK_GLOBAL:].abs().sum(-1) > 0
    if kind == LOCAL:
        assert seen.nonzero().flatten().tolist() == list(range(32, 49))
    elif kind == BIGBIRD:
        assert seen[32:49].all() and 17 < seen.sum() <= 17 + 8  # its random links; the rest through the global tokens
    else:
        assert seen.all()


def test_full_attention_answers_at_any_distance_and_windows_only_nearby():
    kinds = {row["kind"]: row for row in long_range((FUSED, LOCAL), steps=130)}
    assert kinds[FUSED]["accuracy"].min() > 0.95 and kinds[FUSED]["by_distance"].min() > 0.9
    near, *_, far = kinds[LOCAL]["by_distance"][:, 0].tolist()
    assert near > 0.8 and far < 2 / CARD_VALUES
    assert kinds[LOCAL]["parameters"] == kinds[FUSED]["parameters"] and kinds[LOCAL]["bands"] == [8, 16, 32, 96]


def test_a_seed_learns_the_same_twice_and_another_seed_another():
    one, same, other = (train_long_range.__wrapped__(LINFORMER, seed, steps=3, tested=5) for seed in (0, 0, 1))
    assert torch.equal(one["loss"], same["loss"]) and not torch.equal(one["loss"], other["loss"])
    assert one["loss"][0].item() == pytest.approx(math.log(CARD_VALUES), abs=0.6)
    with pytest.raises(ValueError, match="got 'attention by hand'"):
        Reader(BY_HAND)
    assert set(QUICK_KINDS) < set(TASK_KINDS)


def test_the_tables_can_be_measured_small():
    found = cost_table((64, 96, 128), repeats=1, fresh=())
    assert len(found["rows"]) == 2 * len(KINDS) and found["fresh"] == []
    row = found["rows"][1]
    assert row["kind"] == BY_HAND and len(row["ms"]) == len(row["mb"]) == 3 and row["long_time"]["error"] >= 0
    rows = long_range_table(2, (("a", LOCAL, {"layers": 1}), ("b", BIGBIRD, {})), steps=2, tested=5)
    assert [row["layers"] for row in rows] == [1, 2] and len(rows[0]["accuracies"]) == 2
    assert len(rows[0]["by_distance"]) == len(rows[0]["bands"])

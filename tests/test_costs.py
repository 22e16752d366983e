"""Facts about what layers cost, about how that is measured, and about the task of long range."""

import pytest
import torch

from utils.training.costs import (
    BIGBIRD,
    BY_HAND,
    CARD_VALUES,
    FUSED,
    KINDS,
    LINFORMER,
    LOCAL,
    RANK,
    RECURRENCE,
    TASK_GLOBAL,
    TASK_KINDS,
    WIDTH,
    WINDOW,
    Reader,
    a_run,
    fitted_exponent,
    multiplications,
    peak_bytes,
    questions,
    with_gradients,
    without_gradients,
)

# The slope


def test_the_exponent_of_a_power_is_found_exactly():
    lengths = [3, 10, 50, 400]
    slope, error = fitted_exponent(lengths, [7 * n**1.5 for n in lengths])
    assert slope == pytest.approx(1.5) and error == pytest.approx(0, abs=1e-6)
    assert fitted_exponent(lengths, torch.tensor([0.1] * 4)).slope == pytest.approx(0, abs=1e-9)


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

"""What attention costs, how that is measured, and associative recall over long distances."""

import pytest
import torch

from utils.training.costs import (
    BIGBIRD,
    DIM,
    EXPLICIT,
    FUSED,
    KINDS,
    LENGTH,
    LINFORMER,
    LOCAL,
    NUM_PAIRS,
    NUM_VALUES,
    RANK,
    RECALL_GLOBAL,
    RECURRENCE,
    WINDOW,
    RecallModel,
    forward_backward,
    forward_only,
    make_run,
    multiplications,
    recall_batch,
)
from utils.training.profiling import fit_exponent, peak_bytes, seconds_in_turns


def test_the_exponent_of_a_power_law_is_recovered_exactly():
    lengths = [3, 10, 50, 400]
    slope, error = fit_exponent(lengths, [7 * n**1.5 for n in lengths])
    assert slope == pytest.approx(1.5) and error == pytest.approx(0, abs=1e-6)
    assert fit_exponent(lengths, torch.tensor([0.1] * 4)).slope == pytest.approx(0, abs=1e-9)


# Time and memory


def test_a_run_that_does_three_times_the_work_takes_about_three_times_as_long():
    def work(times):
        return lambda: sum(range(times * 100_000))

    seconds = seconds_in_turns({times: work(times) for times in (1, 3)}, rounds=5)
    assert len(seconds[1]) == 5 and 2 < min(seconds[3]) / min(seconds[1]) < 4.5


def test_peak_memory_counts_tensors_that_exist_at_one_moment():
    mb = 2**18  # numbers of four bytes

    def one_after_the_other():
        for _ in range(5):
            torch.empty(3 * mb).fill_(1)

    def all_at_once():
        return [torch.empty(3 * mb) for _ in range(5)]

    before = torch.empty(40 * mb)  # does not count
    assert peak_bytes(one_after_the_other) == pytest.approx(3 * 2**20, rel=0.01)
    assert peak_bytes(all_at_once) == pytest.approx(15 * 2**20, rel=0.01)
    assert peak_bytes(lambda: before.exp().add_(1)) == pytest.approx(40 * 2**20, rel=0.01)
    assert peak_bytes(lambda: None) == 0


@pytest.mark.parametrize("wrap", [forward_only, forward_backward])
def test_memory_is_quadratic_for_explicit_attention_and_linear_for_all_others(wrap):
    lengths = (256, 512, 1024)
    slopes = {}
    for kind in KINDS[1:]:
        slopes[kind] = fit_exponent(lengths, [peak_bytes(wrap(make_run(kind, n))) for n in lengths]).slope
    assert slopes.pop(EXPLICIT) == pytest.approx(2, abs=0.1)
    assert slopes[LOCAL] == pytest.approx(1, abs=0.05) and slopes[BIGBIRD] == pytest.approx(1, abs=0.05)
    assert all(slope < 1.4 for slope in slopes.values()), slopes
    assert peak_bytes(wrap(make_run(FUSED, 1024))) < peak_bytes(wrap(make_run(EXPLICIT, 1024))) / 4


def test_the_number_of_multiplications_follows_the_formulas():
    n, d = 512, DIM
    assert multiplications(RECURRENCE, n) == 6 * n * d**2
    assert multiplications(EXPLICIT, n) == multiplications(FUSED, n) == 2 * n**2 * d
    assert multiplications(LINFORMER, n) == 4 * n * RANK * d
    needed = 2 * n * (2 * WINDOW + 1) * d
    assert needed < multiplications(LOCAL, n) < 1.5 * needed
    for kind in (LOCAL, BIGBIRD):
        assert multiplications(kind, 2 * n) == 2 * multiplications(kind, n)


# Associative recall


def test_every_query_has_one_pair_with_its_answer_at_the_given_distance():
    batch = recall_batch(50, torch.Generator().manual_seed(1))
    assert (~batch.is_query).sum(1).eq(NUM_PAIRS).all()
    assert torch.equal(batch.shown == 0, batch.is_query)
    for row in range(50):
        pairs = {int(batch.key[row, i]): i for i in range(LENGTH) if not batch.is_query[row, i]}
        assert len(pairs) == NUM_PAIRS
        for i in range(LENGTH):
            position = pairs[int(batch.key[row, i])]
            assert batch.distance[row, i] == abs(i - position)
            assert batch.answer[row, i] == batch.shown[row, position] - 1


@pytest.mark.parametrize("kind", (RECURRENCE, FUSED, LOCAL, BIGBIRD, LINFORMER))
def test_the_receptive_field_of_one_layer_is_the_window_for_local_attention_only(kind):
    torch.manual_seed(0)
    model = RecallModel(kind, num_layers=1).double()
    with torch.no_grad():
        x = model.key_embedding(torch.arange(96) % 16)[None]
        x = x + model.value_embedding(torch.zeros(1, 96, dtype=torch.long))
    x = torch.cat([model.prefix.detach()[None], x], 1).requires_grad_()
    logits = model.head(model.body(x)[0])[0, RECALL_GLOBAL + 40]
    (gradient,) = torch.autograd.grad(logits @ torch.arange(NUM_VALUES).double(), x)
    reached = gradient[0, RECALL_GLOBAL:].abs().sum(-1) > 0
    if kind == LOCAL:
        assert reached.nonzero().flatten().tolist() == list(range(32, 49))
    elif kind == BIGBIRD:
        assert reached[32:49].all() and 17 < reached.sum() <= 17 + 8  # random keys; the rest through the global tokens
    else:
        assert reached.all()

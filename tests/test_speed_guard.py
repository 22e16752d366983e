"""Guards against a regression by a factor: ratios of two runs in turns, with wide margins, never an absolute time.

`make bench` measures the exact figures. Here only the work of this process counts, so that its neighbours cannot fail it.
`attention` has its guard in test_regression, all positions at once in test_self_attention_training, the published models in
test_pretrained, exponents in test_costs.
"""

import time

import pytest
import torch
from torch import nn

from tests.benchmarks import transformer_speed
from tests.benchmarks.memory import seed_runs
from tests.benchmarks.timing import cost_ratio
from utils.models.decoding import greedy_decode
from utils.models.torch_weights import to_torch
from utils.models.transformer import Transformer
from utils.training.costs import EXPLICIT, FUSED, LOCAL, forward_only, make_run
from utils.training.regression import learn_bandwidth

DIM, HEADS, HIDDEN, BATCH, LENGTH = 128, 4, 512, 32, 16


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def ratio(ours, theirs, rounds=9):
    return cost_ratio(ours, theirs, rounds, clock=time.process_time)


def test_the_clock_of_a_guard_sees_a_factor_and_no_waiting():
    def work(times=1):
        return sum(range(times * 100_000))

    def waits():
        time.sleep(0.005)
        return work()

    assert 2 < ratio(lambda: work(3), work) < 4.5
    assert ratio(waits, work) < 1.5


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_training_step_of_the_transformer_is_not_slower_than_torchs():
    model = Transformer(9, 9, DIM, HEADS, HIDDEN, 2, norm_first=True, dropout=0.0, final_norm=True)
    torch_model = nn.Transformer(DIM, HEADS, 2, 2, HIDDEN, 0.0, batch_first=True, norm_first=True)
    to_torch(model, torch_model)
    source, target = torch.randn(2, BATCH, LENGTH, DIM)
    source_mask, target_mask = torch.arange(LENGTH) < torch.randint(LENGTH // 2, LENGTH + 1, (2, BATCH, 1))
    batch = source, target, source_mask, target_mask
    assert ratio(transformer_speed.model_step(model, *batch), transformer_speed.torch_step(torch_model, *batch)) < 1.3


def test_the_cache_makes_decoding_faster():
    model = Transformer(50, 50, norm_first=True).eval()
    source = torch.randint(3, 50, (16, 12))
    cached, uncached = (
        lambda decoder=decoder: greedy_decode(decoder, source, None, bos_id=1, eos_id=-1, max_len=32)
        for decoder in (model, transformer_speed.Uncached(model).eval())
    )
    assert ratio(uncached, cached, rounds=3) > 1.5


def test_local_attention_is_faster_than_full_attention_on_a_long_sequence():
    local, fused, explicit = (forward_only(make_run(kind, 2048)) for kind in (LOCAL, FUSED, EXPLICIT))
    assert ratio(explicit, local, rounds=3) > 3
    assert ratio(fused, local, rounds=3) > 1


def test_many_bandwidths_are_learnt_faster_at_once_than_one_by_one():
    train, seeds, steps = learn_bandwidth.__wrapped__, 20, 10

    def one_by_one():
        for _ in range(seeds):
            train(1, True, steps)

    assert ratio(one_by_one, lambda: train(seeds, True, steps), rounds=3) > 2


def test_ten_memory_networks_at_once_cost_less_than_half_of_ten_alone():
    runs = seed_runs((1, 10))
    assert ratio(runs[10], runs[1], rounds=3) < 5

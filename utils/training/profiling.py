"""Time, peak memory and multiplications of a function, and the exponent with which they grow.

Time is processor time of one thread, so that other programs hardly count. Memory is the peak of all tensors that exist at
one moment beyond those there before, as torch's allocator reports them to its profiler. (The memory of the process would
not do: what is freed stays with the process and is used again.)
"""

import contextlib
import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

Run = Callable[[], object]
MIN_SECONDS = 0.002  # of the calls of one run in one round


def seconds_in_turns(runs: dict[Hashable, Run], rounds: int) -> dict[Hashable, list[float]]:
    """Seconds of one call of each run, (rounds,), on one thread.

    The runs take turns, so that a slow moment of the machine affects all of them.
    """
    # Windows counts processor time in steps of 16 ms.
    fine = time.get_clock_info("process_time").resolution < 1e-5
    clock = time.process_time if fine else time.perf_counter
    seconds, threads = {name: [] for name in runs}, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for run in runs.values():
            run()  # the first call warms up
        for _ in range(rounds):
            for name, run in runs.items():
                start, calls = clock(), 0
                while calls == 0 or clock() - start < MIN_SECONDS:
                    run()
                    calls += 1
                seconds[name].append((clock() - start) / calls)
    finally:
        torch.set_num_threads(threads)
    return seconds


def peak_bytes(run: Run) -> int:
    """Peak memory: the most bytes of tensors that exist at one moment of `run()`, beyond those there before.

    Temporary tensors of a kernel count; a scratch buffer that a library takes from the system itself does not.
    """
    with _silent_profiler(), torch.autograd.profiler.profile(use_kineto=True, profile_memory=True) as profile:
        run()
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    total = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        total += event.nbytes()
        peak = max(peak, total)
    return peak


@contextlib.contextmanager
def _silent_profiler() -> Iterator[None]:
    """The profiler writes to file descriptor 2 when it starts and stops, past `sys.stderr`."""
    stderr, devnull = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(devnull)


def count_multiplications(run: Run) -> int:
    """The multiplications in the matrix products of `run()`, by torch's FLOP counter; softmax and gates are not counted."""
    # The counter does not know the fused kernel of attention, but the products that it consists of.
    with torch.no_grad(), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        run()
    return counter.get_total_flops() // 2  # each multiplication is counted with the addition that follows it


class Exponent(NamedTuple):
    """The p of values ~ length ** p, the log-log slope, and its standard error."""

    slope: float
    error: float


def fit_exponent(lengths: Sequence[float], values: Sequence[float] | Tensor) -> Exponent:
    """Least squares on logarithms. The error covers scatter only: a curve that bends has a slope somewhere in between."""
    x, y = (torch.as_tensor(column, dtype=torch.float64).log() for column in (lengths, values))
    x, y = x - x.mean(), y - y.mean()
    slope = (x * y).sum() / x.square().sum()
    residuals = y - slope * x
    error = (residuals.square().sum() / (len(x) - 2) / x.square().sum()).sqrt()
    return Exponent(slope.item(), error.item())

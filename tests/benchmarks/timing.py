"""Comparing two functions on a machine that other things run on too."""

import statistics
import time
from collections.abc import Callable


def seconds(function: Callable, calls: int, clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    for _ in range(calls):
        function()
    return (clock() - start) / calls


def cost_ratio(
    ours: Callable,
    theirs: Callable,
    rounds: int = 41,
    round_seconds: float = 0.01,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """How many times as long `ours` takes: the median over rounds in which both run, one right after the other.

    clock: `time.process_time` counts only what this process computes, so that a test need not fear its neighbours.
    """
    ours(), theirs()
    calls = max(1, int(round_seconds / max(seconds(theirs, 3), 1e-7)))
    ratios = []
    for number in range(rounds):
        first, second = (ours, theirs) if number % 2 else (theirs, ours)
        one, two = seconds(first, calls, clock), seconds(second, calls, clock)
        ratios.append(one / two if number % 2 else two / one)
    return statistics.median(ratios)

"""Judge many mutants fast: one process for all mutants of an exercise, another for what one of them broke."""

import contextlib
import copy
import functools
import json
import os
import resource
import select
import signal
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from tests.mutants.solutions import Solution, solution_of
from tests.mutants.syntax import syntax_mutants
from tests.mutants.wrappers import wrapper_mutants
from utils.course.checks import (
    Case,
    Trial,
    _flow,
    _widened,
    argument_names,
    attempt,
    caller,
    difference,
    judge,
    watched,
)
from utils.course.exercises import find
from utils.course.isolation import Stopped

PATIENCE = 4.0  # seconds for one mutant; none that ends takes a tenth of it
MEBIBYTES = 1024


@dataclass(frozen=True)
class Mutant:
    exercise_id: str
    what: str
    make: Callable[[], object]


@functools.cache
def mutants_of(exercise_id: str) -> list[Mutant]:
    """All mutants, always in the same order and under the same names."""
    solution = solution_of(exercise_id)
    found = [Mutant(exercise_id, what, _builder(solution, tree)) for what, tree in syntax_mutants(solution)]
    found += [Mutant(exercise_id, what, make) for what, make in wrapper_mutants(solution)]
    names = [mutant.what for mutant in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two mutants of exercise {exercise_id} are both called {twice[0]!r}")
    return found


def _builder(solution: Solution, tree) -> Callable[[], object]:
    return lambda: solution.build(tree)


def said_of(mutant: Mutant) -> str:
    """What the check says, "" if it accepts the mutant. In this process; models of mistakes only choose the words."""
    item = copy.copy(find(mutant.exercise_id))
    item.mistakes = []
    number = zlib.crc32(f"{mutant.exercise_id} {mutant.what} 0".encode())
    try:
        answer = mutant.make()
    except Exception as error:  # a mutant that cannot even be defined
        return f"It cannot be defined: {error}"
    return judge(answer, item, torch.Generator().manual_seed(number))


def judged(mutants: list, judge_one: Callable[..., str] = said_of, patience: float | None = None) -> list[str]:
    """What `judge_one` says of each, in a child process; one that hangs or ends the process is caught as well."""
    said: list[str] = []
    while len(said) < len(mutants):
        said += _in_child(mutants[len(said) :], judge_one, patience or PATIENCE)
    return said


def _in_child(mutants: list, judge_one: Callable, patience: float) -> list[str]:
    """The answers up to the first mutant that hung or died, with a last one for that."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(mutants, judge_one, send, patience)
    os.close(send)
    said, rest = [], b""
    try:
        while len(said) < len(mutants):
            ready, _, _ = select.select([receive], [], [], 2 * patience)
            data = os.read(receive, 65536) if ready else b""
            if not data:
                return [*said, "It ended the process." if ready else "It did not end."]
            *lines, rest = (rest + data).split(b"\n")
            said += [json.loads(line) for line in lines]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(receive)
    return said


def _be_the_child(mutants: list, judge_one: Callable, send: int, patience: float) -> None:
    try:
        torch.set_num_threads(1)
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_AS, (_size() + MEBIBYTES * 2**20, resource.RLIM_INFINITY))
        signal.signal(signal.SIGALRM, _stop)
        for mutant in mutants:
            os.write(send, json.dumps(_within_time(mutant, judge_one, patience)).encode() + b"\n")
    finally:
        os._exit(0)


def _size() -> int:
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _stop(number, frame):
    raise Stopped


def _within_time(mutant, judge_one: Callable, patience: float) -> str:
    """A mutant may catch the request to stop, which is therefore repeated; late is late, whatever it then returns."""
    end = time.monotonic() + patience
    signal.setitimer(signal.ITIMER_REAL, patience, 0.5)
    try:
        said = judge_one(mutant)
    except Stopped:
        said = "It did not end."
    except MemoryError:
        said = "It asked for too much memory."
    except BaseException as error:  # no verdict: the check of the exercise has a bug of its own
        said = f"The check broke: {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return said if time.monotonic() < end else "It did not end."


# Equivalent or not


def difference_from_a_right_answer(mutant: Mutant, draws: int = 12) -> str:
    """A case in which a mutant differs from the solution, and one from the reference, in words; "" if either has none.

    The two may differ from each other: in rounding, or as a Python number does from a tensor of one number.
    """
    found = []
    for right in (solution_of(mutant.exercise_id).build(), find(mutant.exercise_id).reference):
        found.append(_difference(mutant, right, draws))
        if not found[-1]:
            return ""
    return found[0]


def _difference(mutant: Mutant, right, draws: int) -> str:
    """A case in which a mutant and a right answer differ, in values, in twice the digits, or in gradients."""
    item, answer = find(mutant.exercise_id), mutant.make()
    call, names = watched(caller(item)), argument_names(item)
    for seed in range(draws):
        for case in item.make_cases(torch.Generator().manual_seed(1000 + seed)):
            for widen in (False, True):
                tried = case if not widen else Case(tuple(map(_widened, case.args)), _widened(case.kwargs), case.note)
                want = attempt(call, right, tried, names, seed)
                if want.error is not None:
                    continue  # what is right need not be made for float64
                got = attempt(call, answer, tried, names, seed)
                found = _how_they_differ(got, want, 1e-9 if widen else item.tolerance)
                if found:
                    return f"in twice the digits: {found}" if widen else found
            if item.gradient:
                flows = [_flow(call, each, case, seed).inputs for each in (right, answer)]
                if any(not _alike(*pair) for pair in zip(*flows, strict=True)):
                    return f"the gradients differ ({case.note})"
    return ""


def _how_they_differ(got: Trial, want: Trial, tolerance: float | None) -> str:
    if got.error is not None:
        return f"it raises {type(got.error).__name__} ({want.case.note})"
    if got.changed != want.changed:
        return f"it changes `{got.changed}` in place ({want.case.note})"
    found = difference(got.value, want.value, tolerance)
    return f"{found.message} ({want.case.note})" if found else ""


def _alike(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other or not bool((one if other is None else other).any())
    return torch.allclose(one, other, 1e-3, 1e-4, equal_nan=True)

"""Judge many mutants, each in a process of its own."""

import copy
import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from tests.mutants.solutions import solution_of
from tests.mutants.syntax import syntax_mutants
from tests.mutants.wrappers import wrapper_mutants
from utils.checks.compare import (
    Case,
    Trial,
    _flow,
    _in_double,
    argument_names,
    attempt,
    caller,
    difference,
    judge,
    settled,
)
from utils.checks.isolation import run_isolated
from utils.exercises.registry import find

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
    found = [
        Mutant(exercise_id, what, functools.partial(solution.build, tree)) for what, tree in syntax_mutants(solution)
    ]
    found += [Mutant(exercise_id, what, make) for what, make in wrapper_mutants(solution)]
    names = [mutant.what for mutant in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two mutants of exercise {exercise_id} are both called {twice[0]!r}")
    return found


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


def judged(mutants: list, judge_one: Callable[..., str] = said_of, patience: float = PATIENCE) -> list[str]:
    """What `judge_one` says of each, or how it ended where it hung, grew or ended its process."""
    outcomes = [run_isolated(functools.partial(judge_one, mutant), patience, MEBIBYTES) for mutant in mutants]
    return [outcome.value if outcome.ok else outcome.in_words() for outcome in outcomes]


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
    call, names = settled(caller(item)), argument_names(item)
    for seed in range(draws):
        for case in item.make_cases(torch.Generator().manual_seed(1000 + seed)):
            for widen in (False, True):
                tried = (
                    case if not widen else Case(tuple(map(_in_double, case.args)), _in_double(case.kwargs), case.note)
                )
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

"""Right answers in other styles, made from the solution: none of them may be refused."""

import functools
from collections.abc import Callable, Iterator

import torch

from tests.mutants.judging import Mutant
from tests.mutants.solutions import is_class, solution_of
from tests.mutants.wrappers import REAL, TENSORS, over, then, wrapped
from utils.exercises.registry import find


def styles_of(exercise_id: str) -> list[Mutant]:
    """The solution with its numbers in another form."""
    solution = solution_of(exercise_id)
    found = [Mutant(exercise_id, "as it stands in the lesson", solution.build)]
    for method in solution.methods:
        if method == "__init__":
            continue
        where = f" in `{method}`" if is_class(exercise_id) else ""
        for what, wrap in _styles(exercise_id):
            found.append(Mutant(exercise_id, what + where, functools.partial(wrapped, solution, method, wrap)))
    return found


def _styles(exercise_id: str) -> Iterator[tuple[str, Callable]]:
    item = find(exercise_id)
    yield "results that are not contiguous", then(lambda x: over(x, scattered, *TENSORS))
    yield "a list in place of a tuple", then(lambda x: list(x) if isinstance(x, tuple) else x)
    if not is_class(exercise_id) and not takes_a_function(item):  # modules, and the lesson's functions, are in float32
        yield "float64 inside", _in_double
    if not item.gradient and not is_class(exercise_id):
        yield "through NumPy and back", then(lambda x: over(x, through_numpy, *TENSORS))
        yield "without a history", _without_gradients


def takes_a_function(item) -> bool:
    return any(callable(arg) for case in item.make_cases(torch.Generator()) for arg in case.args)


def scattered(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, not next to each other in memory."""
    return torch.stack([x, x], -1)[..., 0]


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy().copy())


def _in_double(inner):
    def answer(*args, **kwargs):
        args, kwargs = over((args, kwargs), torch.Tensor.double, REAL)
        return over(inner(*args, **kwargs), torch.Tensor.float, REAL)

    return answer


def _without_gradients(inner):
    def answer(*args, **kwargs):
        with torch.no_grad():
            return inner(*args, **kwargs)

    return answer

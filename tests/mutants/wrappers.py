"""Mutants around a solution: its arguments or its results are changed, or it remembers what it should not."""

import functools
import itertools
from collections.abc import Callable, Iterator

import torch

from tests.mutants.solutions import Solution, functions_of, is_class
from utils.checks.compare import argument_names, attempt, caller, snapshot
from utils.exercises.registry import find

REAL, WHOLE, TRUTH, OTHER = "real numbers", "whole numbers", "truth values", "other things"
NUMBERS = REAL, WHOLE
TENSORS = REAL, WHOLE, TRUTH
PLAIN = "Python int", "Python float"


def wrapper_mutants(solution: Solution) -> Iterator[tuple[str, Callable[[], object]]]:
    """(what is changed, how to make the answer); only changes of what the solution really takes and returns."""
    gradient = find(solution.exercise_id).gradient
    for method, (values, returned) in seen_at_work(solution).items():
        taken = {name: set(map(kind_of, some)) for name, some in values.items()}
        where = f" in `{method}`" if is_class(solution.exercise_id) else ""
        found = [
            *_of_results(returned, gradient),
            *_of_arguments(values, taken, gradient),
            *_of_memory(taken, returned),
            *_of_luck(taken),
        ]
        for what, wrap in found:
            yield what + where, functools.partial(wrapped, solution, method, wrap)


def wrapped(solution: Solution, method: str, wrap: Callable):
    """The solution with one function wrapped. The wrapper of a method lives as long as the class, not the object."""
    answer = solution.build()
    if not is_class(solution.exercise_id):
        return functools.wraps(answer)(wrap(answer))
    original, at_work = getattr(answer, method), []
    inner = wrap(lambda *args, **kwargs: original(at_work[-1], *args, **kwargs))

    def changed(self, *args, **kwargs):
        at_work.append(self)
        try:
            return inner(*args, **kwargs)
        finally:
            at_work.pop()

    setattr(answer, method, functools.wraps(original)(changed))
    return answer


@functools.cache
def seen_at_work(solution: Solution) -> dict[str, tuple[dict[str, list], list]]:
    """For each function that is the student's: some values of each parameter, and some results."""
    item = find(solution.exercise_id)
    seen = {}
    for method in solution.methods:
        if method == "__init__":
            continue
        function = next(node for node in functions_of(solution.tree(), solution) if node.name == method)
        names = [argument.arg for argument in function.args.args if argument.arg != "self"]
        taken, returned = {name: [] for name in names}, []

        def spied(inner, names=names, taken=taken, returned=returned):
            def spy(*args, **kwargs):
                for name, value in (*zip(names, args, strict=False), *kwargs.items()):
                    taken[name].append(snapshot(value))
                result = inner(*args, **kwargs)
                returned.append(result)
                return result

            return spy

        answer = wrapped(solution, method, spied)
        generator = torch.Generator().manual_seed(1)
        for case in item.make_cases(generator):
            attempt(caller(item), answer, case, argument_names(item), 1)
        seen[method] = taken, returned
    return seen


# Tensors and numbers in nested results and arguments


def kind_of(value) -> str:
    if isinstance(value, torch.Tensor):
        return TRUTH if value.dtype == torch.bool else REAL if value.is_floating_point() else WHOLE
    if isinstance(value, bool) or value is None:
        return OTHER
    if isinstance(value, int | float):
        return f"Python {type(value).__name__}"
    return type(value).__name__ if isinstance(value, list | dict | set) else OTHER


def over(value, change: Callable, *kinds: str):
    """The value with each part of these kinds changed."""
    if kind_of(value) in kinds:
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(over(item, change, *kinds) for item in value)
    if isinstance(value, dict):
        return {key: over(item, change, *kinds) for key, item in value.items()}
    return value


def kinds_in(value) -> set[str]:
    found = {kind_of(value)}
    for item in value if isinstance(value, tuple | list) else value.values() if isinstance(value, dict) else ():
        found |= kinds_in(item)
    return found


def spoiled(value):
    """Something wrong of the same shape and type."""
    value = over(value, lambda x: x + 1, *NUMBERS, *PLAIN)
    value = over(value, torch.logical_not, TRUTH)
    return value[::-1] + value[:1] if isinstance(value, list) and OTHER in kinds_in(value) else value


def along(axis: int, change: Callable) -> Callable:
    """Tensors with such an axis, changed; others as they are."""
    return lambda x: change(x) if x.ndim >= (axis + 1 if axis >= 0 else -axis) else x


def transposed_if_square(x):
    return x.transpose(-2, -1) if x.ndim >= 2 and x.size(-1) == x.size(-2) else x


# Results

RESULTS = [
    ("the result is zeros", torch.zeros_like, TENSORS),
    ("the result is ones", torch.ones_like, TENSORS),
    ("the result is its own mean", lambda x: x.mean().expand_as(x), (REAL,)),
    ("the result has the wrong sign", torch.neg, NUMBERS),
    ("the result is a hundredth too large", lambda x: 1.01 * x, (REAL,)),
    ("noise of a thousandth", lambda x: x + 1e-3 * x.abs().max() * torch.randn_like(x) if x.numel() else x, (REAL,)),
    ("the result in half precision", lambda x: x.half(), (REAL,)),
    ("the result in bfloat16", lambda x: x.bfloat16(), (REAL,)),
    ("the result rounded to whole numbers", lambda x: x.long(), (REAL,)),
    ("the result as truth values", lambda x: x.bool(), NUMBERS),
    ("the result as real numbers", lambda x: x.float(), (WHOLE, TRUTH)),
    ("the result as whole numbers", lambda x: x.long(), (TRUTH,)),
    ("the result turned round", torch.logical_not, (TRUTH,)),
    ("the result is one too large", lambda x: x + 1, (WHOLE,)),
    ("the result shifted along the first axis", along(0, lambda x: x.roll(1, 0)), TENSORS),
    ("the result shifted along the last axis", along(0, lambda x: x.roll(1, -1)), TENSORS),
    ("the result shifted along the axis before", along(-2, lambda x: x.roll(1, -2)), TENSORS),
    ("the result turned round along the first axis", along(0, lambda x: x.flip(0)), TENSORS),
    ("the first of the batch for all", along(-2, lambda x: x[:1].expand_as(x)), TENSORS),
    ("the result transposed if square", transposed_if_square, TENSORS),
    ("the result with an axis too many", lambda x: x.unsqueeze(0), TENSORS),
    ("the result with a last axis too many", lambda x: x.unsqueeze(-1), TENSORS),
    ("the result flat", along(-2, lambda x: x.flatten()), TENSORS),
    ("the result without its axes of size 1", lambda x: x.squeeze(), TENSORS),
    ("the result as nested lists", lambda x: x.tolist(), TENSORS),
    ("the result as a NumPy array", lambda x: x.detach().numpy(), TENSORS),
    ("the result is one more", lambda x: x + 1, ("Python int",)),
    ("the result is one less", lambda x: x - 1, ("Python int",)),
    ("the result is a hundredth too large", lambda x: 1.01 * x + 1e-3, ("Python float",)),
    ("the result is not a number", lambda x: float("nan"), ("Python float",)),
    ("the list turned round", lambda x: x[::-1], ("list",)),
    ("the list without its last part", lambda x: x[:-1], ("list",)),
    ("the list with its last part twice", lambda x: x + x[-1:], ("list",)),
    ("the list in order of size", lambda x: sorted(x, key=str), ("list",)),
    ("the dict without its last key", lambda x: dict(list(x.items())[:-1]), ("dict",)),
]


def _of_results(returned: list, gradient: bool) -> Iterator[tuple[str, Callable]]:
    kinds = set().union(*map(kinds_in, returned))
    for what, change, of in RESULTS:
        if kinds & set(of) and any(_has_effect(change, of, value) for value in returned):
            yield what, then(lambda result, change=change, of=of: over(result, change, *of))
    yield "nothing is returned", then(lambda result: None)
    yield "the result in a tuple of its own", then(lambda result: (result,))
    if any(isinstance(value, tuple) for value in returned):
        parts = max(len(value) for value in returned if isinstance(value, tuple))
        yield "the parts of the result turned round", then(lambda result: result[::-1])
        yield "the first part only", then(lambda result: result[0])
        yield "the last part is left out", then(lambda result: result[:-1])
        for part in range(parts):
            yield f"part {part + 1} is spoiled", then(functools.partial(_with_part, part, spoiled))
            if gradient and REAL in kind_of(returned[0][part]):
                yield f"part {part + 1} is detached", then(functools.partial(_with_part, part, torch.Tensor.detach))
    if gradient:
        yield "the result is detached", then(lambda result: over(result, torch.Tensor.detach, REAL))


def _has_effect(change: Callable, of: tuple, value) -> bool:
    """To shift one row changes nothing: there is no such mutant of this solution."""
    value = over(value, torch.Tensor.detach, REAL)
    return repr(over(value, change, *of)) != repr(value)


def _with_part(part: int, change: Callable, result):
    return tuple(change(value) if place == part else value for place, value in enumerate(result))


def then(change: Callable) -> Callable:
    """The result is changed."""
    return lambda inner: lambda *args, **kwargs: change(inner(*args, **kwargs))


# Arguments

ARGUMENTS = [
    ("is taken for zeros", torch.zeros_like, TENSORS),
    ("is taken for ones", torch.ones_like, TENSORS),
    ("has the wrong sign", torch.neg, (REAL,)),
    ("is turned round", torch.logical_not, (TRUTH,)),
    ("is shifted along the last axis", along(0, lambda x: x.roll(1, -1)), TENSORS),
    ("is shifted along the first axis", along(0, lambda x: x.roll(1, 0)), TENSORS),
    ("is transposed if square", transposed_if_square, TENSORS),
    ("is the first of the batch for all", along(-2, lambda x: x[:1].expand_as(x)), TENSORS),
    ("is one too large", lambda x: x + 1, PLAIN),
    ("is one too small", lambda x: x - 1, PLAIN),
    ("is taken for 1", lambda x: type(x)(1), PLAIN),
    ("is turned round", lambda x: x[::-1], ("list",)),
    ("lacks its last part", lambda x: x[:-1], ("list",)),
    ("lacks its last key", lambda x: dict(list(x.items())[:-1]), ("dict",)),
]
IN_PLACE = [
    ("is changed in place", lambda x: x.mul_(1.5), (REAL,)),
    ("is changed in place", lambda x: x.add_(1), (WHOLE,)),
    ("is changed in place", lambda x: x.logical_not_(), (TRUTH,)),
    ("is changed in place", lambda x: x.append(x[0] if x else 0), ("list",)),
    ("is changed in place", lambda x: x.popitem() if x else None, ("dict",)),
    ("is changed in place", lambda x: x.pop() if x else None, ("set",)),
]


def _of_arguments(
    values: dict[str, list], taken: dict[str, set[str]], gradient: bool
) -> Iterator[tuple[str, Callable]]:
    names = list(taken)
    for name, kinds in taken.items():
        for what, change, of in ARGUMENTS:
            if any(_has_effect(change, of, value) for value in values[name] if kind_of(value) in of):
                yield f"`{name}` {what}", _first(names, name, lambda x, change=change, of=of: over(x, change, *of))
        for what, change, of in IN_PLACE:
            if kinds & set(of):
                yield f"`{name}` {what}", _afterwards(names, name, of, change)
        if OTHER in kinds and len(kinds) > 1:
            yield f"`{name}` is left out", _first(names, name, lambda x: None)
        if gradient and REAL in kinds:
            yield f"`{name}` is detached", _first(names, name, torch.Tensor.detach)


def _first(names: list[str], name: str, change: Callable) -> Callable:
    """One argument is changed before the call."""

    def before(given: dict) -> None:
        if given.get(name) is not None:
            given[name] = change(given[name])

    return _around(names, before)


def _afterwards(names: list[str], name: str, of: tuple, change: Callable) -> Callable:
    """One argument is changed after the call."""

    def after(given: dict, result):
        result = over(result, torch.clone, *TENSORS)
        if kind_of(given.get(name)) in of:
            with torch.no_grad():
                change(given[name])
        return result

    return _around(names, after=after)


def _around(names: list[str], before=lambda given: None, after=lambda given, result: result) -> Callable:
    """A wrapper that sees the arguments by their names: it may change them, and then what is returned."""

    def wrap(inner):
        def answer(*args, **kwargs):
            given = dict(zip(names, args, strict=False)) | kwargs
            before(given)
            positional = list(given)[: len(args)]
            result = inner(
                *(given[name] for name in positional), **{k: v for k, v in given.items() if k not in positional}
            )
            return after(given, result)

        return answer

    return wrap


# Memory of earlier calls


def _of_memory(taken: dict[str, set[str]], returned: list) -> Iterator[tuple[str, Callable]]:
    yield "the first result for ever", _remembering(lambda args, kwargs: 0)
    yield "wrong from the third call on", _drifting
    if set(TENSORS) & set().union(*taken.values()):  # to keep what plain numbers give is no mistake
        yield "the first result for these shapes", _remembering(_shapes)
        yield "the first result for this very tensor", _remembering(lambda args, kwargs: id(_tensors(args)[0]))
        if set(TENSORS) & set().union(*map(kinds_in, returned)):
            yield "every result in the same tensor", _in_one_tensor


def _tensors(values) -> list[torch.Tensor]:
    found = []
    over(values, lambda x: found.append(x) or x, *TENSORS)
    return found


def _remembering(key_of: Callable) -> Callable:
    def wrap(inner):
        kept = {}

        def answer(*args, **kwargs):
            key = repr(key_of(args, kwargs))
            if key not in kept:
                kept[key] = inner(*args, **kwargs), args  # the arguments are kept too, so that their ids stay taken
            return kept[key][0]

        return answer

    return wrap


def _drifting(inner):
    calls = itertools.count(1)
    return then(lambda result: result if next(calls) < 3 else spoiled(result))(inner)


def _in_one_tensor(inner):
    kept = {}

    def in_kept(x):
        place = kept.setdefault((tuple(x.shape), x.dtype), torch.empty_like(x.detach()))
        return place.copy_(x.detach())

    return then(lambda result: over(result, in_kept, *TENSORS))(inner)


def _shapes(args: tuple, kwargs: dict):
    return [tuple(x.shape) for x in _tensors((args, kwargs))], [
        value for value in args if isinstance(value, int | float | str | None)
    ]


# Right by luck: wrong for some inputs only


def _of_luck(taken: dict[str, set[str]]) -> Iterator[tuple[str, Callable]]:
    kinds_taken = set().union(*taken.values())
    conditions = []
    if REAL in kinds_taken:
        conditions += [
            (
                "right for whole numbers only, as in the examples",
                lambda x: x.is_floating_point() and (x != x.round()).any(),
            ),
            ("wrong where a number is below 0", lambda x: x.is_floating_point() and (x < 0).any()),
        ]
    if set(TENSORS) & kinds_taken:
        conditions += [
            ("right for small inputs only", lambda x: x.numel() > 12),
            ("wrong where the first axis is of size 1", lambda x: x.shape[:1] == (1,)),
        ]
    names = list(taken)
    for what, condition in conditions:
        yield what, _wrong_where(names, lambda given, condition=condition: any(map(condition, _tensors(given))))
    for name, kinds in taken.items():
        if OTHER in kinds and len(kinds) > 1:
            yield f"wrong without `{name}`", _wrong_where(names, lambda given, name=name: given.get(name) is None)
            yield f"wrong with `{name}`", _wrong_where(names, lambda given, name=name: given.get(name) is not None)


def _wrong_where(names: list[str], condition: Callable) -> Callable:
    return _around(names, after=lambda given, result: spoiled(result) if condition(given) else result)

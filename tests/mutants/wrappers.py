"""Mutants around a solution: its arguments or its results are changed, or it remembers what it should not."""

import functools
from collections.abc import Callable, Iterator

import torch

from tests.mutants.solutions import Solution, functions_of, is_class
from utils.course.checks import argument_names, attempt, caller, snapshot
from utils.course.exercises import find

REAL, WHOLE, TRUTH, OTHER = "real numbers", "whole numbers", "truth values", "other things"


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
    value = over(value, lambda x: x + 1, REAL, WHOLE, "Python int", "Python float")
    value = over(value, torch.logical_not, TRUTH)
    return value[::-1] + value[:1] if isinstance(value, list) and OTHER in kinds_in(value) else value


def along(axis: int, change: Callable) -> Callable:
    """Tensors with such an axis, changed; others as they are."""
    return lambda x: change(x) if x.ndim >= (axis + 1 if axis >= 0 else -axis) else x


def transposed_if_square(x):
    return x.transpose(-2, -1) if x.ndim >= 2 and x.size(-1) == x.size(-2) else x


# Results

NUMBERS = REAL, WHOLE
RESULTS = [
    ("the result is zeros", torch.zeros_like, (REAL, WHOLE, TRUTH)),
    ("the result is ones", torch.ones_like, (REAL, WHOLE, TRUTH)),
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
    ("the result shifted along the first axis", along(0, lambda x: x.roll(1, 0)), (REAL, WHOLE, TRUTH)),
    ("the result shifted along the last axis", along(0, lambda x: x.roll(1, -1)), (REAL, WHOLE, TRUTH)),
    ("the result shifted along the axis before", along(-2, lambda x: x.roll(1, -2)), (REAL, WHOLE, TRUTH)),
    ("the result turned round along the first axis", along(0, lambda x: x.flip(0)), (REAL, WHOLE, TRUTH)),
    ("the first of the batch for all", along(-2, lambda x: x[:1].expand_as(x)), (REAL, WHOLE, TRUTH)),
    ("the result transposed if square", transposed_if_square, (REAL, WHOLE, TRUTH)),
    ("the result with an axis too many", lambda x: x.unsqueeze(0), (REAL, WHOLE, TRUTH)),
    ("the result with a last axis too many", lambda x: x.unsqueeze(-1), (REAL, WHOLE, TRUTH)),
    ("the result flat", along(-2, lambda x: x.flatten()), (REAL, WHOLE, TRUTH)),
    ("the result without its axes of size 1", lambda x: x.squeeze(), (REAL, WHOLE, TRUTH)),
    ("the result as nested lists", lambda x: x.tolist(), (REAL, WHOLE, TRUTH)),
    ("the result as a NumPy array", lambda x: x.detach().numpy(), (REAL, WHOLE, TRUTH)),
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
            yield what, _then(functools.partial(_changed_result, change, of))
    yield "nothing is returned", _then(lambda result: None)
    yield "the result in a tuple of its own", _then(lambda result: (result,))
    if any(isinstance(value, tuple) for value in returned):
        parts = max(len(value) for value in returned if isinstance(value, tuple))
        yield "the parts of the result turned round", _then(lambda result: result[::-1])
        yield "the first part only", _then(lambda result: result[0])
        yield "the last part is left out", _then(lambda result: result[:-1])
        for part in range(parts):
            yield f"part {part + 1} is spoiled", _then(functools.partial(_spoiled_part, part))
            if gradient and REAL in kind_of(returned[0][part]):
                yield f"part {part + 1} is detached", _then(functools.partial(_detached_part, part))
    if gradient:
        yield "the result is detached", _then(lambda result: over(result, torch.Tensor.detach, REAL))


def _has_effect(change: Callable, of: tuple, value) -> bool:
    """To shift one row changes nothing: there is no such mutant of this solution."""
    value = over(value, torch.Tensor.detach, REAL)
    return repr(_changed_result(change, of, value)) != repr(value)


def _changed_result(change: Callable, of: tuple, result):
    return over(result, change, *of)


def _spoiled_part(part: int, result):
    return tuple(spoiled(value) if place == part else value for place, value in enumerate(result))


def _detached_part(part: int, result):
    return tuple(value.detach() if place == part else value for place, value in enumerate(result))


def _then(change: Callable) -> Callable:
    return lambda inner: lambda *args, **kwargs: change(inner(*args, **kwargs))


# Arguments

ARGUMENTS = [
    ("is taken for zeros", torch.zeros_like, (REAL, WHOLE, TRUTH)),
    ("is taken for ones", torch.ones_like, (REAL, WHOLE, TRUTH)),
    ("has the wrong sign", torch.neg, (REAL,)),
    ("is turned round", torch.logical_not, (TRUTH,)),
    ("is shifted along the last axis", along(0, lambda x: x.roll(1, -1)), (REAL, WHOLE, TRUTH)),
    ("is shifted along the first axis", along(0, lambda x: x.roll(1, 0)), (REAL, WHOLE, TRUTH)),
    ("is transposed if square", transposed_if_square, (REAL, WHOLE, TRUTH)),
    ("is the first of the batch for all", along(-2, lambda x: x[:1].expand_as(x)), (REAL, WHOLE, TRUTH)),
    ("is one too large", lambda x: x + 1, ("Python int", "Python float")),
    ("is one too small", lambda x: x - 1, ("Python int", "Python float")),
    ("is taken for 1", lambda x: type(x)(1), ("Python int", "Python float")),
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

    def wrap(inner):
        def answer(*args, **kwargs):
            given = dict(zip(names, args, strict=False)) | kwargs
            if given.get(name) is not None:
                given[name] = change(given[name])
            positional = [given.pop(each) for each in list(given)[: len(args)]]
            return inner(*positional, **given)

        return answer

    return wrap


def _afterwards(names: list[str], name: str, of: tuple, change: Callable) -> Callable:
    """One argument is changed after the call."""

    def wrap(inner):
        def answer(*args, **kwargs):
            result = over(inner(*args, **kwargs), torch.clone, REAL, WHOLE, TRUTH)
            value = (dict(zip(names, args, strict=False)) | kwargs).get(name)
            if kind_of(value) in of:
                with torch.no_grad():
                    change(value)
            return result

        return answer

    return wrap


# Memory of earlier calls


def _of_memory(taken: dict[str, set[str]], returned: list) -> Iterator[tuple[str, Callable]]:
    yield "the first result for ever", _remembering(lambda args, kwargs: 0)
    yield "wrong from the third call on", _drifting
    if {REAL, WHOLE, TRUTH} & set().union(*taken.values()):  # to keep what plain numbers give is no mistake
        yield "the first result for these shapes", _remembering(_shapes)
        yield "the first result for this very tensor", _remembering(lambda args, kwargs: id(_all(args)[0]))
        if {REAL, WHOLE, TRUTH} & set().union(*map(kinds_in, returned)):
            yield "every result in the same tensor", _in_one_tensor


def _shapes(args: tuple, kwargs: dict):
    sizes = []
    over((args, kwargs), lambda x: sizes.append(tuple(x.shape)) or x, REAL, WHOLE, TRUTH)
    return sizes, [value for value in args if isinstance(value, int | float | str | None)]


def _remembering(key_of: Callable) -> Callable:
    def wrap(inner):
        kept, alive = {}, []

        def answer(*args, **kwargs):
            key = repr(key_of(args, kwargs))
            if key not in kept:
                kept[key] = inner(*args, **kwargs)
                alive.append(args)
            return kept[key]

        return answer

    return wrap


def _drifting(inner):
    calls = []

    def answer(*args, **kwargs):
        result = inner(*args, **kwargs)
        calls.append(1)
        return result if len(calls) < 3 else spoiled(result)

    return answer


def _in_one_tensor(inner):
    kept = {}

    def in_kept(x):
        place = kept.setdefault((tuple(x.shape), x.dtype), torch.empty_like(x.detach()))
        return place.copy_(x.detach())

    return lambda *args, **kwargs: over(inner(*args, **kwargs), in_kept, REAL, WHOLE, TRUTH)


# Right by luck: wrong for some inputs only


def _of_luck(taken: dict[str, set[str]]) -> Iterator[tuple[str, Callable]]:
    if REAL in set().union(*taken.values()):
        yield "right for whole numbers only, as in the examples", _wrong_where(lambda args: not _all_whole(args))
        yield (
            "wrong where a number is below 0",
            _wrong_where(lambda args: any(bool((x < 0).any()) for x in _reals(args))),
        )
    if {REAL, WHOLE, TRUTH} & set().union(*taken.values()):
        yield "right for small inputs only", _wrong_where(lambda args: _numbers(args) > 12)
        yield (
            "wrong where the first axis is of size 1",
            _wrong_where(lambda args: any(x.shape[:1] == (1,) for x in _all(args))),
        )
    names = list(taken)
    for name, kinds in taken.items():
        if OTHER in kinds and len(kinds) > 1:
            yield f"wrong without `{name}`", _wrong_by(names, name, lambda x: x is None)
            yield f"wrong with `{name}`", _wrong_by(names, name, lambda x: x is not None)


def _all(args) -> list[torch.Tensor]:
    found = []
    over(args, lambda x: found.append(x) or x, REAL, WHOLE, TRUTH)
    return found


def _reals(args) -> list[torch.Tensor]:
    return [x for x in _all(args) if x.is_floating_point()]


def _numbers(args) -> int:
    return max((x.numel() for x in _all(args)), default=0)


def _all_whole(args) -> bool:
    return all(bool((x == x.round()).all()) for x in _reals(args))


def _wrong_where(condition: Callable) -> Callable:
    def wrap(inner):
        def answer(*args, **kwargs):
            result = inner(*args, **kwargs)
            return spoiled(result) if condition([*args, *kwargs.values()]) else result

        return answer

    return wrap


def _wrong_by(names: list[str], name: str, condition: Callable) -> Callable:
    def wrap(inner):
        def answer(*args, **kwargs):
            result = inner(*args, **kwargs)
            given = dict(zip(names, args, strict=False)) | kwargs
            return spoiled(result) if condition(given.get(name)) else result

        return answer

    return wrap

"""Building blocks of checks: cases, models of common mistakes, and the comparison with a reference.

Everything here runs inside `run_isolated`. A wrong answer ends in `Wrong`, whose text is for the student; any
other exception is a bug of the course.
"""

import contextlib
import copy
import inspect
import math
import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy
import numpy.random  # loaded lazily, so otherwise every forked child would load it again
import torch

from utils.checks.isolation import Stopped, error_in_words, is_memory_error, location_in_words, text_of, where

RELATIVE = 1e-4  # float32 sums in another order stay far below this, a wrong formula far above
SHOWN_NUMBERS = 24
COARSE = (torch.float16, torch.bfloat16)


class Wrong(Exception):
    """The answer is wrong; the text says how."""

    kind = "specific"  # the message names the misconception


class Unexplained(Wrong):
    """Wrong for an unknown reason: two values that differ, a shape, an exception."""

    kind = "generic"


@dataclass
class Case:
    """One call: `answer(*args, **kwargs)`. `note` says what is special about it ("one key only")."""

    args: tuple
    kwargs: dict = field(default_factory=dict)
    note: str = ""

    def __post_init__(self):
        if not isinstance(self.args, tuple):
            raise TypeError(f"expected a tuple of arguments, got {type(self.args).__name__}; write Case((x,))")


@dataclass
class Trial:
    """What one call gave: a value, or an exception."""

    case: Case
    value: Any = None
    error: BaseException | None = None
    changed: str = ""  # name of the argument that the call changed in place
    live: Any = None  # the very object that came back; `value` is a copy of it


@dataclass
class Difference:
    """How a value differs from the expected one. `kind` orders the messages: structure before values."""

    kind: str  # "structure" or "value"
    message: str
    want: Any = None
    got: Any = None
    show_call: bool = True  # the inputs do not explain a wrong type


def judge(answer, exercise, generator: torch.Generator) -> str:
    """Run the comparison and the properties. Returns "" for a correct answer, otherwise what is wrong."""
    return judge_with_kind(answer, exercise, generator)[0]


def judge_with_kind(answer, exercise, generator: torch.Generator) -> tuple[str, str]:
    """What is wrong, and whether the message is "specific" or "generic"; ("", "") for a correct answer."""
    with warnings.catch_warnings(), default_settings():
        warnings.simplefilter("ignore")
        try:
            compare(answer, exercise, generator)
        except Wrong as wrong:
            return str(wrong), wrong.kind
        except BaseException as error:
            pass_on_limits(error)
            compare(exercise.reference, exercise, generator)  # a bug of the course is raised here
            words = error_in_words(type(error).__name__, text_of(error))
            return f"The result cannot be examined ({words}): return ordinary tensors and numbers.", "generic"
    return "", ""


def compare(answer, exercise, generator: torch.Generator) -> None:
    """Raise `Wrong` unless `answer` does what the reference does and has the exercise's properties.

    The order of messages: a known mistake, exceptions, a known mistake among others, structure (types, shapes), the
    exercise's properties, plain values, and only then side effects, state, dtypes and gradients.
    """
    exercise = copy.copy(exercise)  # the answer could modify the registered one
    call = settled(caller(exercise))
    names = argument_names(exercise)
    seed = int(torch.randint(2**31, (), generator=generator))
    cases = exercise.make_cases(generator)
    _require_signature(answer, exercise, cases)
    wanted = [_reference(call, exercise, case, names, seed) for case in cases]
    trials = [attempt(call, answer, case, names, seed) for case in cases]
    departures = [departure(trial, want, exercise) for trial, want in zip(trials, wanted, strict=True)]
    if any(departures):
        _known_mistakes(call, exercise, trials, wanted, names, seed)
        shown = _smallest(trials, departures, "structure")
        if shown is None or shown[0].error is None:  # an exception comes first
            _one_mistake_of_several(call, exercise, trials, wanted, names, seed)
        _structure(trials, departures, names)
        _properties(call, answer, exercise, generator)  # their messages are better than two columns of numbers
        _smallest_failure(trials, departures, names)
    _inputs_unchanged(trials)
    _no_memory_of_calls(call, answer, exercise, generator, trials, names, seed)
    if not exercise.any_float:
        _same_floats(trials, wanted)
    if exercise.gradient:
        _gradients(call, answer, exercise, cases, names, seed)
    _properties(call, answer, exercise, generator)


# Calling


def caller(exercise) -> Callable:
    """How an answer is called: through the adapter of the exercise, or directly; a value is its own result."""
    if exercise.call is not None:
        call = exercise.call
    elif callable(exercise.reference):

        def call(answer, *args, **kwargs):
            return answer(*args, **kwargs)
    else:
        return lambda answer: answer
    if exercise.any_float:
        return lambda answer, *args, **kwargs: _plain_numbers(call(answer, *args, **kwargs))
    return call


def _plain_numbers(value):
    """Zero-dimensional float tensors as Python numbers, also inside a tuple or list."""
    if isinstance(value, torch.Tensor) and value.ndim == 0 and value.is_floating_point():
        return value.item()
    return type(value)(map(_plain_numbers, value)) if type(value) in (tuple, list) else value


@contextlib.contextmanager
def default_settings():
    """The default settings of torch, whatever the notebook or the answer set; restored afterwards."""
    before = _settings()
    _set(torch.float32, before[1], False)
    try:
        with torch.enable_grad():  # leaving it also undoes a `torch.set_grad_enabled(False)` of the answer
            yield
    finally:
        _set(*before)


def settled(call: Callable) -> Callable:
    """The same call under the default settings."""

    def call_settled(answer, *args, **kwargs):
        with default_settings():
            return call(answer, *args, **kwargs)

    return call_settled


def _settings() -> tuple[torch.dtype, int, bool]:
    return torch.get_default_dtype(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()


def _set(*wanted) -> None:
    setters = (torch.set_default_dtype, torch.set_num_threads, torch.use_deterministic_algorithms)
    for setter, old, new in zip(setters, _settings(), wanted, strict=True):
        if old != new:  # setting deterministic algorithms imports much of torch, which takes a second
            setter(new)


def argument_names(exercise) -> list[str]:
    """Names for messages; "" for the `seed` of an adapter, which the student's function does not have."""
    function, skip = (exercise.call, 1) if exercise.call is not None else (exercise.reference, 0)
    if not callable(function):
        return []
    names = list(inspect.signature(function).parameters)[skip:]
    return ["" if name == "seed" and exercise.call is not None else name for name in names]


def attempt(call: Callable, answer, case: Case, names: list[str], seed: int) -> Trial:
    """Call the answer on copies of the inputs; an exception becomes part of the trial."""
    return _attempt_on(clone(case.args), clone(case.kwargs), call, answer, case, names, seed)


def _attempt_on(args: tuple, kwargs: dict, call: Callable, answer, case: Case, names: list[str], seed: int) -> Trial:
    _seed(seed)
    try:
        live = call(answer, *args, **kwargs)
    except BaseException as error:  # SystemExit is an answer too
        pass_on_limits(error)
        return Trial(case, error=error)
    changed = _first_change(case, args, kwargs, names)
    return Trial(case, value=snapshot(live), changed=changed, live=live)


def attempt_in_the_same_tensors(
    call: Callable, answer, earlier: Case, case: Case, names: list[str], seed: int
) -> Trial:
    """Call with `earlier`, write `case` into the same tensors, call again: detects results cached by identity."""
    args, kwargs = clone(earlier.args), clone(earlier.kwargs)
    _seed(seed)
    try:
        call(answer, *args, **kwargs)
    except BaseException as error:  # the second call will show it
        pass_on_limits(error)
    args = tuple(map(_refilled, args, case.args)) if len(args) == len(case.args) else clone(case.args)
    kwargs = {name: _refilled(kwargs.get(name), value) for name, value in case.kwargs.items()}
    return _attempt_on(args, kwargs, call, answer, case, names, seed)


def _refilled(kept, fresh):
    both = isinstance(kept, torch.Tensor) and isinstance(fresh, torch.Tensor)
    if both and kept.shape == fresh.shape and kept.dtype == fresh.dtype:
        return kept.copy_(fresh)
    if type(kept) is list and type(fresh) is list:
        kept[:] = clone(fresh)
        return kept
    return clone(fresh)


def pass_on_limits(error: BaseException) -> None:
    """Time and memory limits are handled by the isolation."""
    if isinstance(error, Stopped):
        raise error
    if is_memory_error(error):
        raise MemoryError from error


def _reference(call: Callable, exercise, case: Case, names: list[str], seed: int):
    trial = attempt(call, exercise.reference, case, names, seed)
    if trial.error is not None:
        raise trial.error  # a bug of the course, reported as such
    return trial.value


def _seed(seed: int) -> None:
    """Answer and reference draw the same random numbers."""
    random.seed(seed)
    numpy.random.seed(seed)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also queue a call for every GPU


def clone(value):
    """A deep copy that supports generators; tensors are detached."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, torch.Generator):
        return torch.Generator(value.device).set_state(value.get_state())
    if type(value) in (list, tuple):
        return type(value)(clone(item) for item in value)
    if type(value) is dict:
        return {key: clone(item) for key, item in value.items()}
    return copy.deepcopy(value)


def snapshot(value):
    """`clone`, but returns objects that cannot be copied as they are: an answer may return anything."""
    try:
        return clone(value)
    except Exception:  # whatever a student's object raises when copied
        return value


def _first_change(case: Case, args: tuple, kwargs: dict, names: list[str]) -> str:
    for index, (before, after) in enumerate(zip(case.args, args, strict=True)):
        if not unchanged(before, after):
            return names[index] if index < len(names) else f"argument {index + 1}"
    return next((name for name in kwargs if not unchanged(case.kwargs[name], kwargs[name])), "")


def unchanged(before, after) -> bool:
    if isinstance(before, torch.Tensor):
        same = before.shape == after.shape and before.dtype == after.dtype
        return same and torch.equal(_bits(before), _bits(after))
    if isinstance(before, numpy.ndarray):
        return before.shape == after.shape and before.tobytes() == after.tobytes()
    if isinstance(before, torch.nn.Module):
        return unchanged(dict(before.state_dict()), dict(after.state_dict()))
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(unchanged, before, after))
    if isinstance(before, dict):
        return list(before) == list(after) and all(unchanged(before[key], after[key]) for key in before)
    if isinstance(before, str | int | float | bool | None):
        return before == after or before != before
    return True  # generators advance when used; other objects are not compared


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes: NaN is equal to itself here."""
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def _require_signature(answer, exercise, cases: list[Case]) -> None:
    if exercise.call is not None or not callable(exercise.reference):
        return
    if not callable(answer):
        kind = "class" if inspect.isclass(exercise.reference) else "function"
        raise Unexplained(f"Expected a {kind}, got {a_thing(answer)}.")
    wanted = inspect.signature(exercise.reference)
    try:
        given = inspect.signature(answer)
    except (TypeError, ValueError):  # built-in callables may have no signature
        return
    for case in cases:
        try:
            given.bind(*case.args, **case.kwargs)
        except TypeError as error:
            raise Unexplained(
                f"It must be callable with the arguments {_plain_signature(wanted, cases)}, "
                f"but takes {_plain_signature(given)}: {error}. Restore the first line."
            ) from None


def _plain_signature(signature: inspect.Signature, cases: list[Case] | None = None) -> str:
    """Without annotations, and without parameters that no case passes: the reference may have more."""
    kept = list(signature.parameters.values())
    if cases is not None:
        passed = {name for case in cases for name in signature.bind(*case.args, **case.kwargs).arguments}
        kept = [item for item in kept if item.name in passed]
    return str(inspect.Signature([item.replace(annotation=inspect.Parameter.empty) for item in kept]))


# Comparing


def departure(trial: Trial, want, exercise) -> Difference | None:
    if trial.error is not None:
        show = not (isinstance(trial.error, Wrong) or _is_the_stub(trial.error))
        return Difference("structure", error_message(trial.error), show_call=show)
    name = "" if callable(exercise.reference) else "the answer"
    try:
        return difference(trial.value, want, exercise.tolerance, name, exercise.output_names)
    except Exception:  # a student's object may fail in any operation; the reference must not
        difference(want, want, exercise.tolerance, name, exercise.output_names)
        return _structure_of(f"The result is {a_thing(trial.value)}: it cannot be compared with {a_thing(want)}.")


def error_message(error: BaseException) -> str:
    if isinstance(error, Wrong):  # raised by an adapter
        return str(error)
    if _is_the_stub(error):
        return "It still raises NotImplementedError: remove the line `raise NotImplementedError()`."
    words = error_in_words(type(error).__name__, text_of(error))
    message = f"It raised {words}{location_in_words(*where(error))}."
    if isinstance(error, RecursionError):
        message += " It calls itself without end."
    if isinstance(error, SystemExit):
        message += " End with `return`, not by leaving Python."
    return message


def worded(error: BaseException | None) -> type[Wrong]:
    """The class of exception to raise for an error of an answer: `Wrong` if an adapter of the exercise explained it."""
    return Wrong if isinstance(error, Wrong) else Unexplained


def _is_the_stub(error: BaseException | None) -> bool:
    """Whether the student's code raised it; torch raises the same type, with a text, for missing operations."""
    if not isinstance(error, NotImplementedError):
        return False
    return not text_of(error) or "raise NotImplementedError" in where(error)[1]


def difference(got, want, tolerance: float | None = None, name: str = "", names=()) -> Difference | None:
    """What distinguishes `got` from `want`, or None. `name` is which part of a result this is."""
    compare_as = _comparison(want)
    if got is None and want is not None:
        expected = f"{_subject(name)} is None: expected {a_thing(want)}."
        return _structure_of(expected if name else "It returned nothing: does every path end with `return`?")
    return compare_as(got, want, tolerance, name, names)


def _comparison(want) -> Callable:
    if isinstance(want, torch.Tensor):
        return _compare_tensors
    if isinstance(want, numpy.ndarray):
        return _compare_arrays
    if isinstance(want, bool):
        return _compare_bools
    if isinstance(want, int | float):
        return _compare_numbers
    if isinstance(want, tuple | list):
        return _compare_sequences
    if isinstance(want, dict):
        return _compare_dicts
    return _compare_plainly


def _compare_tensors(got, want: torch.Tensor, tolerance, name: str, names) -> Difference | None:
    if isinstance(got, numpy.ndarray | numpy.generic):
        return _structure_of(f"{_subject(name)} is a NumPy array: return a torch tensor (use torch throughout).")
    if not isinstance(got, torch.Tensor):
        shape = tuple(want.shape)
        text = f"{_subject(name)} is {a_thing(got)}: return a torch tensor of shape {shape}."
        if isinstance(got, tuple | list) and any(isinstance(item, torch.Tensor) for item in got):
            text = f"{_subject(name)} is {a_thing(got)}: return one torch tensor of shape {shape}."
        elif isinstance(got, int | float) and want.ndim == 0:
            text += " (Leave out `.item()`.)"
        return _structure_of(text)
    if got.layout != torch.strided or got.device.type == "meta":
        return _structure_of(f"{_subject(name)} has no plain values: return an ordinary torch tensor.")
    if got.shape != want.shape:
        return Difference("structure", shape_message(tuple(got.shape), tuple(want.shape), name))
    if dtype_kind(got) != dtype_kind(want):
        kinds = f"dtype {got.dtype}".replace("torch.", ""), dtype_kind(want)
        return _structure_of(f"{_subject(name)} has {kinds[0]}: expected {kinds[1]}.")
    if got.dtype in COARSE and want.dtype not in COARSE:
        return _too_coarse(got, name)
    return _compare_values(got, want, tolerance, name)


def _too_coarse(got: torch.Tensor, name: str) -> Difference:
    kind = f"{got.dtype}".removeprefix("torch.")
    return _structure_of(f"{_subject(name)} has dtype {kind}, which has at most three significant digits: use float32.")


def _compare_arrays(got, want: numpy.ndarray, tolerance, name: str, names) -> Difference | None:
    """Only models of mistakes return these."""
    if not isinstance(got, numpy.ndarray):
        return _structure_of(f"{_subject(name)} is {a_thing(got)}: expected a NumPy array.")
    return _compare_tensors(torch.from_numpy(got), torch.from_numpy(want), tolerance, name, names)


def _compare_values(got: torch.Tensor, want: torch.Tensor, tolerance, name: str) -> Difference | None:
    if torch.equal(got, want):
        return None
    if dtype_kind(want) in ("Booleans (bool)", "integers (int)"):
        bad = got != want
    else:
        wide = torch.complex128 if want.is_complex() else torch.float64
        got, want = got.detach().to(wide), want.detach().to(wide)
        bad = ~_close(got, want, tolerance)
    if not bad.any():
        return None
    text = f"{_subject(name)} has wrong values"
    if got.is_floating_point():
        for is_odd, word in ((torch.isnan, "NaN"), (torch.isinf, "infinite values")):
            if (is_odd(got) & ~is_odd(want)).any():
                return Difference("value", f"{_subject(name)} contains {word}", want, got)
    text += f" ({int(bad.sum())} of {bad.numel()})" if bad.numel() > 1 else ""
    return Difference("value", text, want, got)


def _close(got: torch.Tensor, want: torch.Tensor, tolerance: float | None) -> torch.Tensor:
    """Element-wise: within the tolerance relative to the value, or to a tenth of the largest value around.

    The second bound is what rounding in sums of both signs needs: the result is small, the summands are not.
    """
    relative = RELATIVE if tolerance is None else tolerance
    finite = want.abs()[torch.isfinite(want)]
    around = max(0.1, float(finite.max())) if finite.numel() else 0.1
    allowed = relative * torch.nan_to_num(want.abs(), posinf=0.0) + relative / 10 * around
    alike = (got == want) | (torch.isnan(got) & torch.isnan(want))
    return alike | ((got - want).abs() <= allowed)


def _compare_bools(got, want: bool, tolerance, name: str, names) -> Difference | None:
    got = _plain_number(got)
    if not isinstance(got, bool | numpy.bool_):
        return _structure_of(f"{_subject(name)} is {a_thing(got)}: expected True or False.")
    return None if bool(got) == want else Difference("value", f"{_subject(name)} is wrong", want, got)


def _compare_numbers(got, want: float, tolerance, name: str, names) -> Difference | None:
    if isinstance(got, torch.Tensor) and got.dtype in COARSE:
        return _too_coarse(got, name)
    got = _plain_number(got)
    if isinstance(got, bool | numpy.bool_) or not isinstance(got, int | float | numpy.number):
        return _structure_of(f"{_subject(name)} is {a_thing(got)}: expected a number.")
    got_tensor, want_tensor = (torch.tensor(float(number), dtype=torch.float64) for number in (got, want))
    if _compare_values(got_tensor, want_tensor, tolerance, name) is None:
        return None
    text = f"{_subject(name)} is NaN" if math.isnan(got) else f"{_subject(name)} is the wrong number"
    return Difference("value", text, want, float(got) if not isinstance(got, int) else got)


def _plain_number(value):
    if isinstance(value, torch.Tensor | numpy.ndarray) and value.ndim == 0:
        return value.item()
    return value


def _compare_sequences(got, want, tolerance, name: str, names) -> Difference | None:
    expected = _list_of_outputs(want, names)
    if isinstance(got, str) or not isinstance(got, tuple | list):
        return _structure_of(f"{_subject(name)} is {a_thing(got)}: expected {expected}.")
    if len(got) != len(want):
        return _structure_of(f"{_subject(name)} has {len(got)} parts: expected {expected}.")
    for index, (got_part, want_part) in enumerate(zip(got, want, strict=True)):
        part = names[index] if index < len(names) else f"{name}[{index}]" if name else f"part {index + 1} of the result"
        wrong = difference(got_part, want_part, tolerance, part)
        if wrong:
            return wrong
    return None


def _list_of_outputs(want, names) -> str:
    listed = f" ({', '.join(names)})" if names else ""
    kind = "tuple" if isinstance(want, tuple) else "list"
    return f"a {kind} of {len(want)}{listed}"


def _compare_dicts(got, want: dict, tolerance, name: str, names) -> Difference | None:
    if not isinstance(got, dict):
        return _structure_of(f"{_subject(name)} is {a_thing(got)}: expected a dict with the keys {_keys(want)}.")
    missing = [key for key in want if key not in got]
    extra = [key for key in got if key not in want]
    if missing:
        return _structure_of(f"{_subject(name)} lacks the key {missing[0]!r}: expected the keys {_keys(want)}.")
    if extra:
        return _structure_of(f"{_subject(name)} has an unexpected key, {short(extra[0])}: expected {_keys(want)}.")
    for key in want:
        wrong = difference(got[key], want[key], tolerance, f"the entry {key!r}")
        if wrong:
            return wrong
    return None


def _keys(want: dict) -> str:
    return short(list(want)).strip("[]")


def _compare_plainly(got, want, tolerance, name: str, names) -> Difference | None:
    if isinstance(want, str) and not isinstance(got, str):
        return _structure_of(f"{_subject(name)} is {a_thing(got)}: expected a string.")
    if want is None:
        return None if got is None else _structure_of(f"{_subject(name)} is {a_thing(got)}: expected None.")
    same = type(got) is type(want) and bool(got == want)
    return None if same else Difference("value", f"{_subject(name)} is wrong", want, got)


def _structure_of(text: str) -> Difference:
    return Difference("structure", text, show_call=False)


def _subject(name: str) -> str:
    return f"`{name}`" if name.isidentifier() else name[:1].upper() + name[1:] if name else "The result"


def dtype_kind(tensor: torch.Tensor) -> str:
    if tensor.dtype == torch.bool:
        return "Booleans (bool)"
    if tensor.is_complex():
        return "complex numbers"
    return "real numbers (float)" if tensor.is_floating_point() else "integers (int)"


def shape_message(got: tuple, want: tuple, name: str = "") -> str:
    """Expected and actual shape, and which axes are wrong if that is clear."""
    text = f"{_subject(name)} has shape {got}: expected {want}."
    if len(got) == len(want) and got != want and sorted(got) == sorted(want):
        moved = [str(axis) for axis in range(len(want)) if got[axis] != want[axis]]
        return text + f" The axes {' and '.join(moved)} are swapped."
    if len(got) == len(want):
        axes = [str(axis) for axis in range(len(want)) if got[axis] != want[axis]]
        listed = "axis " + axes[0] if len(axes) == 1 else "axes " + " and ".join(axes)
        return text + f" Check {listed}."
    for axis in range(len(want)):
        if len(got) == len(want) - 1 and want[:axis] + want[axis + 1 :] == got:
            return text + f" Axis {axis} is missing: was it removed by a sum or an index?"
    for axis in range(len(got)):
        if len(got) == len(want) + 1 and got[:axis] + got[axis + 1 :] == want:
            return text + f" Axis {axis} is one too many."
    return text


# Messages


def _known_mistakes(call, exercise, trials: list[Trial], wanted: list, names: list[str], seed: int) -> None:
    """Raise the message of the mistake whose results match the answer's; the closest match wins."""
    best, best_rank = None, 0
    for mistake in exercise.mistakes:
        rank = _rank(call, mistake, exercise, trials, wanted, names, seed, above=best_rank)
        if rank > best_rank:
            best, best_rank = mistake, rank
        if best_rank == SAME_VALUE:
            break  # no match is closer
    if best is not None:
        raise Wrong(best.message)


def _rank(call, mistake, exercise, trials: list[Trial], wanted: list, names, seed: int, above: int) -> int:
    """The weakest match of answer and mistake over all cases; 0 as soon as a case is not `above` the rank to beat.

    The first case rules out most mistakes: for them the others are not computed.
    """
    rank, shows = SAME_VALUE, False
    for trial, want in zip(trials, wanted, strict=True):
        model = attempt(call, mistake.wrong, trial.case, names, seed)
        rank = min(rank, _likeness(trial, model, exercise))
        if rank <= above:
            return 0
        shows = shows or departure(model, want, exercise) is not None
    return rank if shows else 0  # a mistake that changes no result here explains nothing


def _one_mistake_of_several(call, exercise, trials: list[Trial], wanted: list, names: list[str], seed: int) -> None:
    """Raise the message of a mistake that explains some of the failing cases.

    It must explain half of them, and at least two that no other mistake explains: fewer may be chance.
    """
    failed = sum(departure(trial, want, exercise) is not None for trial, want in zip(trials, wanted, strict=True))
    explained = {mistake.message: set() for mistake in exercise.mistakes}
    for mistake in exercise.mistakes:
        explained[mistake.message] |= _explained(call, mistake, exercise, trials, wanted, names, seed)
    for message, cases in sorted(explained.items(), key=lambda item: -len(item[1])):
        others = set().union(*(them for other, them in explained.items() if other != message))
        if 2 * len(cases) >= failed and len(cases - others) >= 2:
            more = ", and there is another mistake" if others - cases else ""
            raise Wrong(f"{message}{AMONG_OTHERS}{len(cases)} of the {failed} failing cases{more}.)")


def _explained(call, mistake, exercise, trials: list[Trial], wanted: list, names, seed: int) -> set[int]:
    """The cases in which answer and mistake are wrong in the same way; none if the answer is correct where the mistake is not."""
    explained = set()
    for index, (trial, want) in enumerate(zip(trials, wanted, strict=True)):
        model = attempt(call, mistake.wrong, trial.case, names, seed)
        if departure(model, want, exercise) is None:
            continue
        if departure(trial, want, exercise) is None:
            return set()
        if _likeness(trial, model, exercise) == SAME_VALUE:
            explained.add(index)
    return explained


AMONG_OTHERS = " (Seen in "


def matched_message(verdict: str, messages: list[str]) -> str:
    """The message of a mistake that a verdict contains, alone or with a note; "" if none."""
    message = verdict.split(AMONG_OTHERS)[0]
    return message if message in messages else ""


SAME_VALUE = 3  # the closest match


def _likeness(trial: Trial, model: Trial, exercise) -> int:
    """3 same value, 2 same error, 1 incompatible shapes in both, 0 different.

    Otherwise the type of an error is no evidence: a misspelled name and a forgotten line both raise AttributeError.
    """
    if trial.error is None and model.error is None:
        return 0 if _differ(trial.value, model.value, exercise) else SAME_VALUE
    if type(trial.error) is not type(model.error) or _is_the_stub(trial.error):
        return 0
    got, known = text_of(trial.error), text_of(model.error)
    if got == known:
        return 2
    both = SHAPES_DO_NOT_FIT.search(got) and SHAPES_DO_NOT_FIT.search(known)
    return 1 if both and isinstance(trial.error, RuntimeError) else 0


# The same wrong product gives different texts: `a * b` and `b * a`, `@`, `bmm`, `einsum`.
SHAPES_DO_NOT_FIT = re.compile(r"must match|cannot be multiplied|does not broadcast|Expected size|size mismatch")


def _differ(got, model, exercise) -> bool:
    try:
        return difference(got, model, exercise.tolerance, names=exercise.output_names) is not None
    except Exception:  # not comparable: different
        return True


def _structure(trials: list[Trial], departures: list[Difference | None], names: list[str]) -> None:
    smallest = _smallest(trials, departures, "structure")
    if smallest:
        trial, wrong = smallest
        raise worded(trial.error)(
            join(wrong.message, called_with(trial.case, names, trial.case.note) if wrong.show_call else "")
        )


def _smallest_failure(trials: list[Trial], departures: list[Difference | None], names: list[str]) -> None:
    trial, wrong = _smallest(trials, departures, "value")
    where_wrong = f" in this case: {trial.case.note}." if trial.case.note else "."
    raise Unexplained(
        join(wrong.message + where_wrong, called_with(trial.case, names), want_and_got(wrong.want, wrong.got))
    )


def _smallest(trials, departures, kind: str):
    failed = [pair for pair in zip(trials, departures, strict=True) if pair[1] and pair[1].kind == kind]
    return min(failed, key=lambda pair: _size(pair[0].case), default=None)


def _size(case: Case) -> int:
    return sum(_numbers_in(value) for value in (*case.args, *case.kwargs.values()))


def _numbers_in(value) -> int:
    if isinstance(value, torch.Tensor | numpy.ndarray):
        return math.prod(value.shape)
    if isinstance(value, list | tuple):
        return sum(_numbers_in(item) for item in value)
    return 1


def called_with(case: Case, names: list[str], note: str = "") -> str:
    lines = []
    for index, value in enumerate(case.args):
        name = names[index] if index < len(names) else f"argument {index + 1}"
        if name:
            lines.append(f"    {name} = {short(value)}")
    lines += [f"    {name} = {short(value)}" for name, value in case.kwargs.items()]
    return "\n".join([f"It was called with ({note})" if note else "It was called with", *lines]) if lines else ""


def want_and_got(want, got) -> str:
    """Both values with enough digits to see the difference."""
    for digits in (3, 5, 8, 12):
        pair = short(want, digits), short(got, digits)
        if pair[0] != pair[1]:
            break
    lines = [f"    expected {pair[0]}", f"    got      {pair[1]}"]
    if isinstance(want, torch.Tensor) and want.numel() > SHOWN_NUMBERS:
        lines.append("    " + _largest_difference(want, got))
    return "\n".join(lines)


def _largest_difference(want: torch.Tensor, got: torch.Tensor) -> str:
    apart = (got.to(torch.float64) - want.to(torch.float64)).abs()
    flat = int(torch.nan_to_num(apart, nan=math.inf).argmax())
    index = [int(axis) for axis in numpy.unravel_index(flat, tuple(want.shape))]
    pair = short(want.flatten()[flat], 5), short(got.flatten()[flat], 5)
    return f"largest difference at {index}: expected {pair[0]}, got {pair[1]}"


def join(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def short(value, digits: int = 3) -> str:
    """A value on one short line."""
    if isinstance(value, torch.Tensor | numpy.ndarray):
        if math.prod(value.shape) > SHOWN_NUMBERS:
            return f"a tensor of shape {tuple(value.shape)}"
        return _rounded(value.tolist(), digits)
    if isinstance(value, float):
        return _rounded(value, digits)
    if isinstance(value, tuple | list) and any(isinstance(item, torch.Tensor) for item in value):
        return "(" + ", ".join(short(item, digits) for item in value) + ")"
    if inspect.isfunction(value) or inspect.isclass(value):
        return value.__name__
    if isinstance(value, list):
        return cut(_rounded(value, digits))
    try:
        return cut(repr(value))
    except Exception:  # a student's __repr__ may fail, and so does an int with thousands of digits
        return f"(of type {type(value).__name__}, cannot be shown)"


def _rounded(value, digits: int) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_rounded(item, digits) for item in value) + "]"
    if isinstance(value, float):
        return f"{value:.{digits + 1}g}" if abs(value) >= 10**5 or 0 < abs(value) < 10**-3 else f"{value:.{digits}f}"
    return repr(value)


def cut(text: str, length: int = 160) -> str:
    return text if len(text) <= length else text[:length] + " ..."


def a_thing(value) -> str:
    """What a value is, in words: "a list", "a torch tensor of shape (2, 3)"."""
    if value is None:
        return "None"
    if value is ...:
        return "`...`"
    if isinstance(value, torch.Tensor):
        return f"a torch tensor of shape {tuple(value.shape)}"
    if isinstance(value, bool | int | float):
        return f"the {'Boolean' if isinstance(value, bool) else 'Python number'} {short(value)}"
    if isinstance(value, str):
        return f"the string {cut(repr(value), 40)}"
    names = {list: "a list", tuple: f"a tuple of {len(value) if isinstance(value, tuple) else 0}", dict: "a dict"}
    if type(value) in names:
        return names[type(value)]
    if isinstance(value, numpy.ndarray):
        return "a NumPy array"
    kind = type(value).__name__
    return "a function" if inspect.isroutine(value) else f"an object of type {kind}"


# Side effects, state, gradients, properties


def _inputs_unchanged(trials: list[Trial]) -> None:
    for trial in trials:
        if trial.changed:
            raise Wrong(
                f"The result is right, but it changed its input `{trial.changed}` in place. "
                "Work on a copy: `+=`, `x[...] =`, `pop` and methods that end in `_` change the original."
            )


def _no_memory_of_calls(call, answer, exercise, generator, trials: list[Trial], names, seed: int) -> None:
    """Other inputs in the same tensors, then the first case again. Every call has new random numbers."""
    for index, case in enumerate(exercise.make_cases(generator)):
        earlier, drawn = trials[index].case if index < len(trials) else case, seed + 1 + index
        trial = attempt_in_the_same_tensors(call, answer, earlier, case, names, drawn)
        wrong = departure(trial, _reference(call, exercise, case, names, drawn), exercise)
        if wrong and index < len(trials) and _repeats(trial, trials[index], exercise):
            raise Wrong("It returned the result of an earlier call. It must not store anything between calls.")
        if wrong:
            _same_again(call, answer, exercise, trials[min(index, len(trials) - 1)], names, seed)
            _structure([trial], [wrong], names)
            _smallest_failure([trial], [wrong], names)
    _same_again(call, answer, exercise, trials[0], names, seed)
    if any(_differ(trial.live, trial.value, exercise) for trial in trials):
        raise Wrong("A later call changed the result of an earlier one: return a new tensor each time.")


def _same_again(call, answer, exercise, earlier: Trial, names: list[str], seed: int) -> None:
    again = attempt(call, answer, earlier.case, names, seed)
    if again.error is not None or _differ(again.value, earlier.value, exercise):
        raise Wrong(
            "Called twice with the same input, it gave two different results: "
            "it stores something between calls (a global variable, or a mutable default argument)."
        )


def _repeats(trial: Trial, earlier: Trial, exercise) -> bool:
    """The same result for other inputs."""
    if trial.error is not None or _differ(trial.value, earlier.value, exercise):
        return False
    return not _alike(trial.case, earlier.case)


def _alike(case: Case, other: Case) -> bool:
    return unchanged(case.args, other.args) and unchanged(case.kwargs, other.kwargs)


def _same_floats(trials: list[Trial], wanted: list) -> None:
    """Later cells combine the result with float32 tensors, and torch does not multiply matrices of two dtypes."""
    for trial, want in zip(trials, wanted, strict=True):
        for got, right in _tensors_in(trial.value, want):
            if got.is_floating_point() and got.dtype != right.dtype:
                given, kept = (f"{dtype}".removeprefix("torch.") for dtype in (got.dtype, right.dtype))
                said = (
                    f"Inputs in {kept} gave a result in {given}"
                    if _has_reals(trial.case.args)
                    else f"The result is in {given}"
                )
                raise Wrong(
                    f"{said}: end with `.to(torch.{kept})`, or later cells cannot multiply it with other tensors."
                )


def _has_reals(values) -> bool:
    return any(isinstance(value, torch.Tensor) and value.is_floating_point() for value in values)


def _tensors_in(got, want) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of corresponding tensors in two results of the same structure."""
    if isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor):
        return [(got, want)]
    if isinstance(want, dict):
        return [pair for key in want for pair in _tensors_in(got[key], want[key])]
    if isinstance(want, tuple | list):
        return [pair for parts in zip(got, want, strict=True) for pair in _tensors_in(*parts)]
    return []


NO_GRADIENT = (
    "The values are right, but no gradient flows back to the inputs: "
    "`detach`, `.item()`, `.data`, `torch.no_grad`, `torch.tensor(...)` or NumPy cut it."
)


CHANGED_IN_PLACE = (
    "The values are right, but it cannot be trained: a tensor that the gradient still needs was changed in place. "
    "`x += y` and `x[i] = y` do that; write `x = x + y`."
)


@dataclass
class Flow:
    """Which outputs have a history, the gradient at each input, and which outputs contribute to it (if requested).

    None for an input: it is not a float tensor, or has no gradient.
    """

    attached: list[bool]
    inputs: list[torch.Tensor | None]
    arriving: list[bool]


def _gradients(call, answer, exercise, cases: list[Case], names: list[str], seed: int) -> None:
    for case in cases:
        want = _flow(call, exercise.reference, case, seed, by_output=True)
        try:
            got = _flow(call, answer, case, seed)
        except Wrong:
            raise
        except BaseException as error:  # anything the answer raises when its inputs require a gradient
            pass_on_limits(error)
            raise Wrong(f"{NO_GRADIENT} {error_message(error)}") from None
        _same_outputs_flow(got, want, exercise.output_names)
        try:
            _same_gradients(got.inputs, want.inputs, names, exercise.tolerance)
        except Wrong:
            # Where terms cancel, a float32 gradient may be pure rounding error: decide in float64.
            if not _agree_in_double(call, answer, exercise, case, names, seed):
                raise


def _agree_in_double(call, answer, exercise, case: Case, names: list[str], seed: int) -> bool:
    double = Case(tuple(_in_double(value) for value in case.args), _in_double(case.kwargs), case.note)
    try:
        want = _flow(call, exercise.reference, double, seed)
        got = _flow(call, answer, double, seed)
        _same_gradients(got.inputs, want.inputs, names, exercise.tolerance)
    except BaseException as error:  # also Wrong, and whatever either raises on float64
        pass_on_limits(error)
        return False
    return True


def _in_double(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(torch.float64)
    if type(value) is dict:
        return {key: _in_double(item) for key, item in value.items()}
    return value


def _flow(call, answer, case: Case, seed: int, by_output: bool = False) -> Flow:
    """Gradients of a fixed random combination of all float outputs with respect to the float positional inputs."""
    args, leaves = [], []
    with torch.enable_grad():  # the notebook may have it switched off
        for value in case.args:
            copied = clone(value)
            is_real = isinstance(copied, torch.Tensor) and copied.is_floating_point()
            leaves.append(copied.requires_grad_() if is_real else None)
            # Pass a copy instead of the leaf: changing a leaf in place raises an error of its own.
            args.append(copied.clone() if is_real else copied)
        _seed(seed)
        outputs = _real_outputs(call(answer, *args, **clone(case.kwargs)))
        mixer = torch.Generator().manual_seed(seed)
        mixed = [(output * torch.randn(output.shape, generator=mixer)).sum() for output in outputs]
        floats = [leaf for leaf in leaves if leaf is not None]
        flowing = [part for part in mixed if part.requires_grad]
        gradients = _gradient_of(sum(flowing), floats) if flowing else [None] * len(floats)
        arriving = [
            _arrives(gradients if len(mixed) == 1 else _gradient_of(part, floats)) for part in mixed if by_output
        ]
    remaining = iter(gradients)
    inputs = [leaf if leaf is None else next(remaining) for leaf in leaves]
    return Flow([part.requires_grad for part in mixed], inputs, arriving)


def _gradient_of(number: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor | None]:
    if not number.requires_grad or not leaves:
        return [None] * len(leaves)
    try:
        return list(torch.autograd.grad(number, leaves, retain_graph=True, allow_unused=True))
    except RuntimeError as error:
        if "inplace operation" not in str(error):
            raise
        raise Wrong(CHANGED_IN_PLACE) from error


def _arrives(gradients: list[torch.Tensor | None]) -> bool:
    """More than rounding error: where all gradients are 0, a constant is as good as a result with a history."""
    return any(
        bool((gradient.abs() > 1e-6).any() or gradient.isnan().any()) for gradient in gradients if gradient is not None
    )


def _same_outputs_flow(got: Flow, want: Flow, output_names: tuple[str, ...]) -> None:
    if any(want.arriving) and not any(got.attached):
        raise Wrong(NO_GRADIENT)
    for index, (mine, right) in enumerate(zip(got.attached, want.arriving, strict=True)):
        if right and not mine:
            name = output_names[index] if index < len(output_names) else f"part {index + 1} of the result"
            raise Wrong(
                f"The values are right, but no gradient flows back from {_subject(name)}: "
                "`detach`, `.item()`, `.data` or NumPy cut it."
            )


def _real_outputs(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in _real_outputs(item)]
    return []


def _same_gradients(got: list, want: list, names: list[str], tolerance: float | None) -> None:
    for index, (mine, right) in enumerate(zip(got, want, strict=True)):
        if right is None:
            continue
        name = names[index] if index < len(names) else f"argument {index + 1}"
        if mine is None and right.numel() and right.abs().max() > 0:
            raise Wrong(
                f"The values are right, but no gradient reaches `{name}`: "
                "`detach`, `.item()`, `.data` or NumPy cut it on the way."
            )
        mine = torch.zeros_like(right) if mine is None else mine.to(torch.float64)
        right = right.to(torch.float64)
        if (torch.isnan(mine) & ~torch.isnan(right)).any():
            raise Wrong(f"The values are right, but the gradient with respect to `{name}` contains NaN.")
        loose = 10 * (RELATIVE if tolerance is None else tolerance)
        if not _close(mine, right, loose).all():
            raise Wrong(
                join(
                    f"The values are right, but the gradient with respect to `{name}` is not: "
                    "part of the computation is cut off from it (`detach`, `.data`, `no_grad`, NumPy).",
                    want_and_got(right, mine),
                )
            )


class Guarded:
    """The answer as passed to properties: called like the reference; exceptions become `Wrong`.

    `guarded.answer` is the student's object.
    """

    def __init__(self, answer, exercise, call: Callable | None = None):
        self.answer = answer
        self.last = "nothing"  # description of the last result
        self._call = call or settled(caller(exercise))
        self._names = argument_names(exercise)
        self._case = Case(())

    def __call__(self, *args, **kwargs):
        self._case = Case(args, kwargs)
        try:
            value = self._call(self.answer, *args, **kwargs)
        except BaseException as error:
            pass_on_limits(error)
            raise worded(error)(join(error_message(error), self.called_with())) from None
        self.last = a_thing(value)
        return value

    def called_with(self) -> str:
        return called_with(self._case, self._names)


def _properties(call: Callable, answer, exercise, generator: torch.Generator) -> None:
    for holds in exercise.properties:
        guarded = Guarded(answer, exercise, call)
        try:
            holds(guarded, generator)
        except (Wrong, MemoryError):
            raise
        except Exception as error:  # the answer returned something unusable, or we have a bug
            holds(Guarded(exercise.reference, exercise, call), generator)
            words = error_in_words(type(error).__name__, text_of(error))
            message = f"One of its results is unusable: it is {guarded.last} ({words})."
            raise Unexplained(join(message, guarded.called_with())) from None

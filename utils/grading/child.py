"""What a child in the sandbox does: check an answer, or report what the answer gives.

Student code runs in the same process, so nothing that is reported here is proof; see `judge` for what is.
"""

import ast
import asyncio
import contextlib
import gc
import inspect
import json
import linecache
import sys
import types

import torch

from utils.checks import compare
from utils.checks.isolation import outcome_of, pack
from utils.exercises.library import library_version
from utils.exercises.registry import FAILED, Exercise, _verdict, find
from utils.grading import notebook, wire


class Unanswered(Exception):
    """The answer could not be had; the text says why."""


def reply(request: dict, body: bytes) -> bytes:
    """What the task gave, as JSON; `body` holds the code cells."""
    return pack(outcome_of(lambda: _TASKS[request["task"]]({**request, "sources": json.loads(body)["sources"]})))


def check(request: dict) -> tuple:
    """The verdict of the course's own check."""
    item = find(request["exercise"])
    generator = torch.Generator().manual_seed(request["seed"])
    try:
        return _verdict(item, answer_of(request), generator)
    except Unanswered as error:
        return FAILED, str(error), "generic"


def ask(request: dict) -> list[dict]:
    """What the answer gives for the cases of this seed, while the solutions that are not checked yet are out of reach."""
    item = find(request["exercise"])
    cases, seed = draw(item, request["seed"])
    hide([find(name) for name in request["hidden"]])
    answer = answer_of(request)
    with compare.default_settings():
        return [returned(item, answer, case, seed) for case in cases]


_TASKS = {"check": check, "ask": ask}


# --- the answer -------------------------------------------------------------------------------------------------


class Handle:
    """Stands for `exercise(id)` in the student's cells: `use` keeps what was submitted, and shows nothing."""

    def __init__(self, exercise_id: str, answers: dict[str, object], passed: set[str]):
        self.id, self.answers, self.passed = str(exercise_id), answers, passed

    def use(self, answer):
        self.answers[self.id] = answer
        return answer if self.id in self.passed else find(self.id).reference

    def check(self, answer):
        self.answers.setdefault(self.id, answer)

    def hint(self):
        return None

    solution = hint


class Silent:
    """Stands for boards, quizzes and figures of the course, and for the shell of IPython."""

    def __call__(self, *arguments, **settings):
        return self

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self):
        return iter(())


def answer_of(request: dict):
    """Run what the exercise needs of the notebook, and return what was submitted."""
    exercise_id, names, passed = request["exercise"], request["names"], {*request["passed"], request["exercise"]}
    read = notebook.Notebook(request["sources"])
    cell = read.cell_of(exercise_id, names[exercise_id])
    if read.errors[cell]:
        raise Unanswered(f"The cell of this exercise cannot run: {read.errors[cell]}.")
    answers: dict[str, object] = {}
    sys.modules["__main__"] = types.ModuleType("__main__")  # as in a notebook
    space = vars(sys.modules["__main__"])
    space |= {"exercise": lambda name: Handle(name, answers, passed), "get_ipython": Silent(), "display": Silent()}
    # The rest of a lesson goes on with the course's own version of what is not right yet.
    given = {answer: find(name).reference for name, answer in names.items() if name not in passed}
    given_at = {read.cell_of(name, answer): answer for name, answer in names.items() if answer in given}
    space |= given
    for index, statements in read.needed(cell):
        trouble = _run(statements, index, read.sources[index], space)
        if index in given_at:
            space[given_at[index]] = given[given_at[index]]
    if exercise_id in answers:
        return answers[exercise_id]
    if names[exercise_id] in space:
        return space[names[exercise_id]]
    if trouble is not None:
        raise trouble
    raise Unanswered(f"The cell does not define `{names[exercise_id]}`: restore its first line.")


def _run(statements, index: int, source: str, space: dict) -> BaseException | None:
    """Run statements one by one, as far as they go. What is missing then shows in the answer."""
    name = f"<cell {index + 1}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    trouble = None
    for statement in statements:
        if notebook.is_silent(statement):
            for alias in statement.names:
                space[alias.asname or alias.name] = space["exercise"] if alias.name == "exercise" else Silent()
            continue
        try:
            code = compile(ast.Module([statement], []), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = eval(code, space)
            if waiting is not None:  # a statement with `await`
                asyncio.run(waiting)
        except BaseException as error:  # a cell may raise anything; a limit that was met is met again by the next one
            compare.pass_on_limits(error)
            trouble = trouble or error
    return trouble


# --- what it gives ----------------------------------------------------------------------------------------------


def draw(item: Exercise, seed: int) -> tuple[list[compare.Case], int]:
    """The cases of one grading, the same on both sides."""
    generator = torch.Generator().manual_seed(seed)
    return item.make_cases(generator), int(torch.randint(2**31, (), generator=generator))


class Recorder:
    """The answer, and what each call of it gave. Generators among the arguments are used up by a call: their state counts."""

    def __init__(self, answer):
        self.answer = answer
        self.calls: list[dict] = []
        with contextlib.suppress(TypeError, ValueError):
            self.__signature__ = inspect.signature(answer)

    def __call__(self, *args, **kwargs):
        value = self.answer(*args, **kwargs)
        states = [wire.encode(generator.get_state()) for generator in generators((*args, *kwargs.values()))]
        self.calls.append({"value": wire.encode(compare.snapshot(value)), "states": states})
        return value


def generators(values: tuple) -> list[torch.Generator]:
    return [value for value in values if isinstance(value, torch.Generator)]


def is_called_from_outside(item: Exercise) -> bool:
    """Whether the teacher's side may hold the calls of an answer; a class is built and called in here, by the adapter."""
    return callable(item.reference) and not inspect.isclass(item.reference)


def returned(item: Exercise, answer, case: compare.Case, seed: int) -> dict:
    """What the answer gives in one case: values, the calls behind them, and gradients where they are asked for."""
    recorder = Recorder(answer) if is_called_from_outside(item) else answer
    call = compare.settled(compare.caller(item))
    trial = compare.attempt(call, recorder, case, compare.argument_names(item), seed)
    message: dict = {}
    if trial.error is not None:
        message["error"] = type(trial.error).__name__
    elif not isinstance(recorder, Recorder):
        message["value"] = wire.encode(trial.value)
    if isinstance(recorder, Recorder):
        message["calls"] = recorder.calls
    if item.gradient and trial.error is None:
        message["flow"] = _flow(call, answer, case, seed)
        message["double"] = _flow(call, answer, in_double(case), seed)
    return message


def in_double(case: compare.Case) -> compare.Case:
    return compare.Case(tuple(map(compare._in_double, case.args)), compare._in_double(case.kwargs), case.note)


def _flow(call, answer, case: compare.Case, seed: int) -> dict | None:
    try:
        flow = compare._flow(call, answer, case, seed)
    except BaseException as error:  # then nothing flows
        compare.pass_on_limits(error)
        return None
    return {"attached": flow.attached, "inputs": wire.encode(flow.inputs)}


# --- the course's own version is taken away ---------------------------------------------------------------------


class Hidden(Exception):
    """Raised by the course's own version of an exercise while an answer to it is judged."""


def hide(items: list[Exercise]) -> None:
    """Take the code out of the course's own versions, wherever they are reached from: an import, the register, or the heap."""
    functions = []
    versions = [(item, version) for item in items for version in (item.reference, library_version(item.id))]
    for item, version in versions:
        if inspect.isclass(version):  # its __init__ stays: adapters ask it for the shapes of parameters
            functions += [_method(version, name) for name in item.methods if name != "__init__"]
        else:
            functions.append(version)
    for function in filter(callable, functions):
        function = inspect.unwrap(function)
        if isinstance(function, types.FunctionType):
            function.__code__ = _hidden.__code__.replace(co_freevars=function.__code__.co_freevars)
            function.__defaults__ = function.__kwdefaults__ = None
    linecache.clearcache()
    gc.collect()


def _method(cls: type, name: str):
    return next(vars(owner)[name] for owner in cls.__mro__ if name in vars(owner))


def _hidden(*args, **kwargs):
    from utils.grading.child import Hidden  # this code runs as that of another module's function

    raise Hidden("the course has its own version of this under lock")

"""Exercises: `exercise("1.2")` with `check`, `hint`, `solution` and `use`; `grade(id, answer)` without display."""

import copy
import html
import importlib.util
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from utils.checks import progress
from utils.checks.compare import Case, clone, judge_with_kind, pass_on_limits
from utils.checks.isolation import Outcome, error_in_words, run_isolated
from utils.checks.renumbered import from_first_edition
from utils.checks.stubs import is_stub, open_values, stub_methods
from utils.checks.text import MARKS, WORDS, panel, paragraphs, preformatted
from utils.exercises import solutions
from utils.exercises.board import refresh_board
from utils.exercises.edits import Mistake
from utils.exercises.lessons import LESSONS
from utils.exercises.solutions import Solution, solution_of

PASSED, FAILED, NOT_ATTEMPTED = "passed", "failed", "not attempted"
SECONDS = 8.0
MEBIBYTES = 1024  # exercises are tiny; what grows this far will grow further


@dataclass
class Exercise:
    """What is asked, and all that is needed to judge an answer.

    `title`, `level`, `minutes`, `optional` and `reference` come from the solution in the lesson's source. `cases` draws fresh inputs from a generator. `properties` are
    functions `(answer, generator)` that raise `Wrong`; the `answer` they get is called like the reference and
    may be relied on to raise nothing else. `call(answer, *args)` adapts an answer that is a class or needs more
    than one call; the reference and the models of mistakes are called through it too. `any_float`: results in float64
    will do, since no layer reads them.
    """

    id: str
    title: str = ""
    level: str = ""  # "easy", "medium" or "hard"
    minutes: int = 0
    reference: Any = None
    cases: Callable[[torch.Generator], list[Case]] | None = None
    mistakes: list[Mistake] = field(default_factory=list)
    properties: list[Callable] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    gradient: bool = False
    output_names: tuple[str, ...] = ()
    tolerance: float | None = None  # relative; None is the default of utils/checks/compare.py
    call: Callable | None = None
    methods: tuple[str, ...] = ()
    any_float: bool = False
    optional: bool = False  # not on the core path

    def make_cases(self, generator: torch.Generator) -> list[Case]:
        cases = [Case(())] if self.cases is None else list(self.cases(generator))
        if not cases:
            raise ValueError(f"exercise {self.id} has no cases")
        return cases

    @property
    def lesson(self) -> str:
        return lesson_number(self.id)

    @property
    def heading(self) -> str:
        return f"Exercise {self.id} · {self.title}"

    @property
    def effort(self) -> str:
        return f"{self.level}, {self.minutes} min{', optional' * self.optional}"


# The register

_REGISTER: dict[str, Exercise] = {}


def register(item: Exercise) -> Exercise:
    """Add an exercise; a module that is loaded again may put its exercises in once more."""
    lesson_number(item.id)
    if item.reference is None:
        solution = solution_of(item.id)
        if solution is None:
            raise LookupError(
                f"exercise {item.id} has no solution in notebooks/src yet: write it there and run `make notebooks`"
            )
        item.title, item.level = solution.title, solution.level
        item.minutes, item.optional = solution.minutes, solution.optional
        item.reference, item.methods = solution.reference, tuple(solution.methods)
    for mistake in item.mistakes:
        mistake.exercise_id = item.id
    _REGISTER[item.id] = item
    return item


def settle(number: str) -> None:
    """Make the models of mistakes of lesson "01" now and forget the solutions' text: code that runs later finds none."""
    for item in exercises_of(number):
        for mistake in item.mistakes:
            _ = mistake.wrong
    solutions.forget()


def find(exercise_id: str) -> Exercise:
    exercise_id = str(exercise_id)
    if exercise_id not in _REGISTER:
        load_lesson(lesson_number(exercise_id))
    if exercise_id not in _REGISTER:
        load_all()
        known = ", ".join(sorted(_REGISTER, key=_order)) or "none yet"
        now = from_first_edition(exercise_id)
        moved = f" (the first edition's {exercise_id} is now {now})" if now != exercise_id and now in _REGISTER else ""
        raise LookupError(f"there is no exercise {exercise_id!r}{moved}; the exercises are {known}")
    return _REGISTER[exercise_id]


def exercises_of(number: str) -> list[Exercise]:
    """The exercises of lesson "01" in their order."""
    load_lesson(number)
    return sorted((item for item in _REGISTER.values() if item.lesson == number), key=lambda item: _order(item.id))


def exercise_count(number: str) -> str:
    """How many exercises a lesson has on its core path, and how many optional ones, in words."""
    optional = sum(item.optional for item in exercises_of(number))
    core = len(exercises_of(number)) - optional
    return f"{core} exercise{'s' * (core != 1)}" + (f" + {optional} optional" if optional else "")


def load_lesson(number: str) -> None:
    """Import the definitions of a lesson; a lesson that has none yet is no error."""
    name = f"utils.exercises.lesson{number}"
    if importlib.util.find_spec(name) is not None:
        importlib.import_module(name)


def load_all() -> None:
    for lesson in LESSONS:
        load_lesson(lesson.number)


def lesson_number(exercise_id: str) -> str:
    match = re.fullmatch(r"(\d{1,2})\.\w+", str(exercise_id))
    if not match:
        raise LookupError(f"expected an exercise id like '1.2' (lesson, dot, number); got {exercise_id!r}")
    return f"{int(match[1]):02d}"


def _order(exercise_id: str) -> list:
    return [(int(part), "") if part.isdigit() else (0, part) for part in exercise_id.split(".")]


# Judging


def grade(exercise_id: str, answer, in_process: bool | None = None) -> "Result":
    """Judge an answer: no display, nothing recorded. `in_process` is for tests of the form without fork."""
    item = find(exercise_id)
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7), "little"))
    outcome = run_isolated(lambda: _verdict(item, answer, generator), SECONDS, MEBIBYTES, in_process)
    return _result(item, outcome)


def _verdict(item: Exercise, answer, generator: torch.Generator) -> tuple[str, str, str]:
    """Status, message and the kind of message. Even to look at an answer is done in isolation: an object may answer back."""
    try:
        state, message = attempted(item, answer)
    except BaseException as error:  # whatever it is, it is no stub
        pass_on_limits(error)
        state, message = "attempted", ""
    if state != "attempted":
        return state, message, "generic"
    wrong, kind = judge_with_kind(answer, item, generator)
    return (FAILED, wrong, kind) if wrong else (PASSED, "It does what was asked in every case tried.", "")


def faulty_mistakes(item: Exercise) -> list[str]:
    """A sentence for each model of a mistake that does not fit the solution, changes nothing, or gets another's message."""
    found = []
    for index, mistake in enumerate(item.mistakes):
        try:
            said = _verdict(item, mistake.wrong, torch.Generator().manual_seed(index))[1]
        except solutions.EditError as problem:
            found.append(str(problem))
            continue
        if said != mistake.message:
            found.append(f"exercise {item.id}: the mistake {mistake.message!r} is told {said!r}")
    return found


def _result(item: Exercise, outcome: Outcome) -> "Result":
    if outcome.kind == "exception":
        what = error_in_words(outcome.error, outcome.message)
        message = f"The check of exercise {item.id} has a bug of its own ({what}); this is not your mistake."
        return Result(item, FAILED, message, outcome.printed)
    if not outcome.ok:
        return Result(item, FAILED, outcome.in_words(), outcome.printed)
    if not _is_verdict(outcome.value):
        return Result(item, FAILED, "Your code answered in the place of the check.", outcome.printed)
    status, message, kind = outcome.value
    return Result(item, status, message, outcome.printed, kind=kind)


def _is_verdict(value) -> bool:
    """A status, a message and its kind: what came out of the child may have been written there by the answer."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        return False
    return value[0] in (PASSED, FAILED, NOT_ATTEMPTED) and isinstance(value[1], str) and isinstance(value[2], str)


UNTIL_THEN = "Until then the lesson goes on with the course's own version."
GOES_ON = "The cells below use the course's version until yours passes."


def attempted(item: Exercise, answer) -> tuple[str, str]:
    """("attempted", ""), or a status with its message for what is still a stub, wholly or in part."""
    if inspect.isclass(answer):
        return _attempted_class(item, answer)
    if is_stub(answer):
        return NOT_ATTEMPTED, f"Put your code in the place of `raise NotImplementedError()`. {UNTIL_THEN}"
    empty, total = open_values(answer)
    if empty and empty == total:
        return NOT_ATTEMPTED, f"Put your answer in the place of `...`. {UNTIL_THEN}"
    if empty:
        return FAILED, f"{empty} of {total} values are still `...`."
    return "attempted", ""


def _attempted_class(item: Exercise, answer: type) -> tuple[str, str]:
    stubs = stub_methods(answer)
    if not stubs:
        return "attempted", ""
    asked = item.methods or tuple(stubs)
    if all(name in stubs for name in asked):
        return NOT_ATTEMPTED, f"Put your code in the place of `raise NotImplementedError()`. {UNTIL_THEN}"
    listed = " and ".join(f"`{name}`" for name in stubs)
    verb = "still holds" if len(stubs) == 1 else "still hold"
    return FAILED, f"{listed} {verb} the line `raise NotImplementedError()`: write it too."


# What a check shows

SECTIONS_NAMED = 3


def used_by(solution: Solution) -> str:
    """One sentence on what the answer now does in the lesson; empty if nothing below calls it."""
    kinds: dict[str, str] = {}  # section: the most interesting thing that the answer does there
    for kind in ("widget", "training loop", "figure", "code"):
        sections = [section for caller, section in solution.callers if caller == kind]
        kinds |= {section: kind for section in sections if section not in kinds}
    if not kinds:
        return ""
    named, parts = list(kinds)[:SECTIONS_NAMED], []
    for kind in dict.fromkeys(kinds[section] for section in named):
        sections = [section for section in named if kinds[section] == kind]
        plural = "s" * (len(sections) > 1 and kind != "code")
        parts.append(
            f"the {kind}{plural} {listed([f'in “{section}”' if section else 'below' for section in sections])}"
        )
    more = len(kinds) - len(named)
    parts += [f"{more} more section{'s' * (more > 1)}"] if more else []
    return f"Your `{solution.name}` is now used by {listed(parts)}."


def listed(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


@dataclass
class Result:
    """The outcome of a check. Shows itself as a widget, as HTML or as text."""

    exercise: Exercise = field(repr=False)
    status: str
    message: str
    printed: str = ""
    used: str = ""  # what now runs on an answer that passed
    trouble: str = ""  # one sentence when the progress could not be saved
    kind: str = "generic"  # of a failure: "specific" if the message names the misconception

    @property
    def exercise_id(self) -> str:
        return self.exercise.id

    @property
    def passed(self) -> bool:
        return self.status == PASSED

    def __repr__(self) -> str:
        lines = [f"{self.exercise.heading}: {WORDS[self.status]}", self.message, self.used]
        if self.printed.strip():
            lines += ["It printed", *(f"    {line}" for line in self.printed.rstrip().split("\n"))]
        return "\n".join(line for line in [*lines, self.trouble] if line)

    def to_html(self) -> str:
        heading = f"{MARKS[self.status]} {html.escape(self.exercise.heading)}: {WORDS[self.status]}"
        content = f"<strong>{heading}</strong>{paragraphs(self.message)}{paragraphs(self.used)}"
        if self.printed.strip():
            content += f"{paragraphs('It printed')}{preformatted(self.printed.rstrip())}"
        return panel(self.status, content + paragraphs(self.trouble))

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if has_kernel() and not os.environ.get("COURSE_BUILD"):  # what the lecture saves needs no buttons
            return result_widget(self)._repr_mimebundle_()[0]
        return {"text/html": self.to_html(), "text/plain": repr(self)}


def has_kernel() -> bool:
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def result_widget(result: Result):
    """The result with buttons that open hints and the solution below it."""
    from utils.widgets.feedback import Feedback  # here: graders and tests of answers need no widgets

    handle, item = Handle(result.exercise), result.exercise
    hints = [] if result.passed else [handle.hint_note(number) for number in range(1, len(item.hints) + 1)]
    solution = solution_of(item.id)

    def record(opened: int, with_solution: bool) -> str:
        troubles = [handle.record_hints(opened)] if opened else []
        troubles += [progress.record_solution(item.id)] if with_solution else []
        return "".join(paragraphs(trouble) for trouble in dict.fromkeys(troubles))

    return Feedback(
        result=result.to_html(),
        hints=[note.to_html() for note in hints],
        solution=Note(f"Solution of exercise {item.id}", "", code=solution.code).to_html() if solution else "",
        record=record,
        text=repr(result),
    )


@dataclass
class Note:
    """A hint or a solution: a heading, then text or code."""

    heading: str
    text: str
    code: str = ""
    trouble: str = ""

    def __repr__(self) -> str:
        return "\n".join(part for part in (self.heading, self.text, self.code, self.trouble) if part)

    def to_html(self) -> str:
        code = preformatted(self.code) if self.code else ""
        body = paragraphs(self.text) + code + paragraphs(self.trouble)
        return panel("note", f"<strong>{html.escape(self.heading)}</strong>{body}")

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/html": self.to_html(), "text/plain": repr(self)}


# What a notebook holds in its hand


def exercise(exercise_id: str) -> "Handle":
    return Handle(find(exercise_id))


_hints_shown: dict[str, int] = {}  # in this kernel; the progress file remembers the rest


class Handle:
    """One exercise as the notebook sees it."""

    def __init__(self, item: Exercise):
        self.item = item

    def __repr__(self) -> str:
        return f"{self.item.heading} · {self.item.effort}"

    def check(self, answer) -> Result:
        """Judge the answer and remember the outcome."""
        result = grade(self.item.id, answer)
        result.trouble = progress.record_check(self.item.id, result.status)
        refresh_board()
        return result

    def use(self, answer):
        """Show the check; return the answer if it passed and the course's own version otherwise."""
        from IPython.display import display

        from utils.checks.live import is_live

        result = self.check(answer)
        if result.status == FAILED:
            result.message = f"{result.message}\n{GOES_ON}"
        solution = solution_of(self.item.id)
        if result.passed and solution and is_live():  # in a saved lecture, the answer is the course's
            result.used = used_by(solution)
        display(result)
        if result.passed:
            return answer
        reference = self.item.reference
        return reference if callable(reference) else clone(copy.copy(reference))

    def hint(self) -> Note:
        """The next hint; after the last one, all of them."""
        hints, name = self.item.hints, self.item.id
        if not hints:
            return Note(f"Exercise {name} has no hints", "")
        seen = self.hints_seen()
        if seen >= len(hints):
            listed = "\n".join(f"{index}. {text}" for index, text in enumerate(hints, 1))
            return Note(f"Exercise {name}: all {len(hints)} hints", listed + f"\n{_then_solution(name)}")
        trouble = self.record_hints(seen + 1)
        note, left = self.hint_note(seen + 1), len(hints) - seen - 1
        remaining = f"({left} more)" if left else _then_solution(name)
        return replace(note, text=f"{note.text}\n{remaining}", trouble=trouble)

    def hint_note(self, number: int) -> Note:
        """One hint, counted from 1."""
        hints = self.item.hints
        return Note(f"Hint {number} of {len(hints)} for exercise {self.item.id}", hints[number - 1])

    def hints_seen(self) -> int:
        return max(_hints_shown.get(self.item.id, 0), progress.read().exercise(self.item.id).hints)

    def record_hints(self, count: int) -> str:
        """Remember that so many hints were opened; returns one sentence if that could not be saved."""
        _hints_shown[self.item.id] = max(count, self.hints_seen())
        return progress.record_hint(self.item.id, _hints_shown[self.item.id])

    def solution(self) -> Note:
        """One right answer, as it stands in the lecture."""
        name = self.item.id
        return Note(
            f"Solution of exercise {name}", "", code=solution_of(name).code, trouble=progress.record_solution(name)
        )


def _then_solution(exercise_id: str) -> str:
    return f'(no more hints; `exercise("{exercise_id}").solution()` shows one answer)'

"""The solutions of all lessons, as code: `lessonNN.py` is written by `make notebooks` from notebooks/src and never edited.

The solution that a lesson shows is the reference that answers are compared with, and common mistakes are edits of it.
"""

import importlib
import importlib.util
import re
import textwrap
from dataclasses import dataclass
from functools import cache

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
HEADER = re.compile(
    r"# Exercise (?P<id>\d+\.\d+) · (?P<title>[^·]+) · (?P<level>[^·]+) · (?P<minutes>\d+) min(?P<optional> · optional)?"
)
BODY = "(the whole solution)"  # instead of a text to replace


class EditError(ValueError):
    """An edit that does not fit its solution; the message names the exercise."""


@dataclass(frozen=True)
class Solution:
    """One solved exercise: what its header says, and its function or class with the markers around what students write."""

    id: str
    title: str
    level: str
    minutes: int
    optional: bool  # not on the core path
    source: str

    @property
    def name(self) -> str:
        """The name of its function or class."""
        return re.search(r"^(?:def|class) (\w+)", self.source, re.MULTILINE)[1]

    @property
    def code(self) -> str:
        """As a student would have written it, without the markers."""
        return without_markers(self.source)

    @property
    def methods(self) -> list[str]:
        """The functions whose bodies the student is to write."""
        before = self.source.split(BEGIN)[:-1]
        return [re.findall(r"^\s*def (\w+)", part, re.MULTILINE)[-1] for part in before]

    @property
    def reference(self):
        """The function or class itself."""
        return getattr(module_of(self.id), self.name)

    @property
    def cell(self) -> str:
        """The id of its cell in the lesson's notebooks."""
        return module_of(self.id).CELLS[self.id]

    @property
    def callers(self) -> list[tuple[str, str]]:
        """Kind ("widget", "training loop", "figure" or "code") and section of the later cells that call the answer; "" is its own section."""
        return module_of(self.id).CALLERS[self.id]

    def edited(self, edits: tuple[tuple[str, str], ...]):
        """The function or class with each text replaced by another, within what students write."""
        names = dict(vars(module_of(self.id)))
        code = without_markers(self.edited_source(edits))
        exec(compile(code, f"<mistake in {self.id}>", "exec"), names)
        return names[self.name]

    def edited_source(self, edits: tuple[tuple[str, str], ...]) -> str:
        """Each old text must occur exactly once; lines count from the margin of the solution."""
        pattern = re.compile(rf"^( *){BEGIN}\n(.*?)^ *{END}$", re.DOTALL | re.MULTILINE)
        margins = [found[1] for found in pattern.finditer(self.source)]
        bodies = [textwrap.dedent(found[2]).rstrip("\n") for found in pattern.finditer(self.source)]
        for old, new in edits:
            if old == BODY and len(bodies) == 1:
                bodies = [textwrap.dedent(new).strip("\n")]
                continue
            places = [index for index, body in enumerate(bodies) for _ in range(body.count(old))]
            if len(places) != 1:
                raise EditError(
                    f"exercise {self.id}: {old!r} occurs {len(places)} times in the solution, expected once"
                )
            bodies[places[0]] = bodies[places[0]].replace(old, new)
        parts = iter(zip(margins, bodies, strict=True))

        def written(_):
            margin, body = next(parts)
            return f"{margin}{BEGIN}\n{textwrap.indent(body, margin)}\n{margin}{END}"

        return pattern.sub(written, self.source)


def without_markers(code: str) -> str:
    return "\n".join(line for line in code.split("\n") if line.strip() not in (BEGIN, END))


def module_of(exercise_id: str):
    """The generated module of an exercise's lesson."""
    return importlib.import_module(f"{__name__}.lesson{int(exercise_id.split('.')[0]):02d}")


@cache
def solutions_of(number: str) -> dict[str, Solution]:
    """The solutions of lesson "01" by exercise id; none where nothing was generated."""
    if importlib.util.find_spec(f"{__name__}.lesson{number}") is None:
        return {}
    module = importlib.import_module(f"{__name__}.lesson{number}")
    # From the loader and not from the file: where submissions are graded there are no files.
    return {solution.id: solution for solution in read_solutions(module.__loader__.get_source(module.__name__))}


def read_solutions(text: str) -> list[Solution]:
    """The solutions in a generated module: a header, then code up to the next header or mark."""
    parts = re.split(r"^(?=# Exercise |# Given$)", text, flags=re.MULTILINE)
    found = [(HEADER.match(part), part) for part in parts]
    return [
        Solution(
            head["id"],
            head["title"],
            head["level"],
            int(head["minutes"]),
            head["optional"] is not None,
            part.split("\n", 1)[1].strip("\n"),
        )
        for head, part in found
        if head
    ]


def solution_of(exercise_id: str) -> Solution | None:
    number = f"{int(exercise_id.split('.')[0]):02d}"
    return solutions_of(number).get(exercise_id)


def forget() -> None:
    """Keep no text of a solution."""
    solutions_of.cache_clear()

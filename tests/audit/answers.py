"""Every lecture with other right answers instead of its solutions: what a check accepts must carry the cells that follow.

An accepted answer stays in the student's notebook, and later cells call it: with a batch of another size, in another dtype, in
training. Each run takes another right answer of every exercise, from the bank and from the styles that the mutants bring along,
until each was used once.
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from tests.bank import answers_to
from tests.mutants.judging import Mutant, said_of
from tests.mutants.solutions import solution_of
from tests.mutants.styles import styles_of
from tests.mutants.wrappers import REAL, over, wrapped
from utils.build.notebooks import HERE
from utils.exercises.registry import PASSED, Handle, exercises_of
from utils.paths import ROOT

PATIENCE = 1800


def run(only: Sequence[str] = ()) -> list[dict]:
    names = [name for name in HERE.names() if not only or name[:2] in only]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda name: lesson_row(name, os.path.join(folder, name)), names))


def right_answers(exercise_id: str) -> list:
    """All right answers but the lesson's own; those with results in float64 too, where the check accepts them."""
    solution = solution_of(exercise_id)
    wide = [
        Mutant(exercise_id, "results in float64", functools.partial(wrapped, solution, method, in_float64))
        for method in solution.methods
        if method != "__init__"
    ]
    styles = [*styles_of(exercise_id)[1:], *(mutant for mutant in wide if not said_of(mutant))]
    return [*(entry.build() for entry in answers_to(exercise_id, PASSED)), *(style.make() for style in styles)]


def in_float64(inner):
    return lambda *args, **kwargs: over(inner(*args, **kwargs), torch.Tensor.double, REAL)


def lesson_row(name: str, cache: str) -> dict:
    """One lesson, run until every right answer was used. What is kept may stay: an answer of the student's never is."""
    counts = {item.id: len(right_answers(item.id)) for item in exercises_of(name[:2])}
    runs = max(counts.values())
    failures = [said for turn in range(runs) if (said := one_run(name, turn, cache))]
    return {
        "what": f"{name}: {runs} runs with other right answers",
        "ok": not failures,
        "said": "; ".join(failures) or "every cell runs and finds what it finds with the solutions",
        "answers": sum(counts.values()),
        "exercises": len(counts),
    }


def one_run(name: str, turn: int, cache: str) -> str:
    """How a run failed, "" if it did not."""
    command = [sys.executable, "-m", "tests.audit.probe", "answers", name[:2], str(turn), cache]
    own = os.environ | {"PYTHONPATH": str(ROOT)}
    print(f"    {name}, answers no. {turn + 1} ...", flush=True)
    done = subprocess.run(
        command, cwd=ROOT, env=own, capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE
    )
    if done.returncode == 0:
        turned = json.loads(done.stdout.splitlines()[-1])["turned"]
        return f"answers no. {turn + 1} turn what these cells find: {'; '.join(turned)}" if turned else ""
    where = re.search(r"BuildError: (.*)", done.stderr)
    return f"answers no. {turn + 1}: {where[1] if where else done.stderr.strip()[-300:]}"


def stand_in(turn: int) -> None:
    """For a notebook's first cell: from now on every exercise is answered by its right answer of this number."""
    original = Handle.use

    def use(self, answer):
        answers = right_answers(self.item.id)
        chosen = answers[turn % len(answers)]
        if original(self, chosen) is not chosen:
            raise AssertionError(f"right answer no. {turn % len(answers) + 1} of exercise {self.item.id} was refused")
        return chosen

    Handle.use = use

"""A sample of the attack on the checks, and proofs that the attack itself works; `make audit` runs all of it."""

import ast
import functools
import os
import random

import pytest

from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.judging import Mutant, difference_from_a_right_answer, judged, mutants_of
from tests.mutants.solutions import solution_of
from tests.mutants.styles import styles_of
from tests.mutants.syntax import syntax_mutants
from tests.mutants.wrappers import _afterwards, _first, _wrong_where, seen_at_work, then, wrapped
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import exercises_of

EXERCISES = [item.id for lesson in LESSONS for item in exercises_of(lesson.number)]
SAMPLE = 2


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_some_mutants_are_refused_and_the_solution_is_not(exercise_id):
    mutants = [mutant for mutant in mutants_of(exercise_id) if mutant.what not in EQUIVALENT.get(exercise_id, {})]
    chosen = random.Random(exercise_id).sample(mutants, SAMPLE)
    *said, of_the_solution = judged([*chosen, styles_of(exercise_id)[0]])
    assert of_the_solution == ""
    assert all(said), [mutant.what for mutant, words in zip(chosen, said, strict=True) if not words]


def test_mutants_listed_as_equivalent_exist():
    for exercise_id, listed in EQUIVALENT.items():
        assert set(listed) <= {mutant.what for mutant in mutants_of(exercise_id)}


@pytest.mark.parametrize("exercise_id", ["1.5", "2.5"])
def test_wrappers_that_change_nothing_are_accepted(exercise_id):
    """So it is the change that is refused, not the wrapper."""
    solution = solution_of(exercise_id)
    method = solution.methods[-1]
    parameters = list(seen_at_work(solution)[method][0])
    wraps = [_first(parameters, name, lambda x: x) for name in parameters]
    wraps += [then(lambda result: result), _wrong_where(parameters, lambda given: False)]
    wraps += [_afterwards(parameters, parameters[0], (), lambda x: x)]
    unchanged = [Mutant(exercise_id, str(wrap), functools.partial(wrapped, solution, method, wrap)) for wrap in wraps]
    assert judged(unchanged) == [""] * len(unchanged)


def test_a_mutant_is_one_change_of_the_text():
    solution = solution_of("1.1")
    made = dict(syntax_mutants(solution))
    texts = [ast.unparse(tree) for tree in made.values()]
    assert len(set(texts)) == len(texts)
    assert ast.unparse(solution.tree()) not in texts
    assert ".amin(-1, keepdim=True)" in ast.unparse(
        made["`scaled.amax(-1, keepdim=True)` became `scaled.amin(-1, keepdim=True)`"]
    )


def test_only_what_the_student_writes_is_mutated():
    for _, tree in syntax_mutants(solution_of("5.4")):
        made = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
        assert "3 * dim" in ast.unparse(made)


def test_mutants_that_hang_or_end_the_process_are_refused_and_the_rest_is_judged():
    def hangs(numbers):
        while True:
            pass

    right = solution_of("0.1").build
    answers = [right, lambda: lambda numbers: os._exit(0), right, lambda: hangs, right]
    said = judged([Mutant("0.1", str(index), make) for index, make in enumerate(answers)], patience=1.0)
    assert [words == "" for words in said] == [True, False, True, False, True]


def test_an_equivalent_mutant_that_differs_is_found_out():
    wrong = Mutant("0.1", "shares of the largest", lambda: lambda numbers: numbers / numbers.max())
    close = Mutant("0.1", "nearly right", lambda: lambda numbers: numbers / numbers.sum() * (1 + 1e-7))
    right = Mutant("0.1", "right", lambda: lambda numbers: numbers * (1 / numbers.sum()))
    assert "wrong values" in difference_from_a_right_answer(wrong)
    assert "twice the digits" in difference_from_a_right_answer(close)
    assert difference_from_a_right_answer(right) == ""

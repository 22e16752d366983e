"""`exercise(id)` as a notebook and a grader see it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils.checks import progress
from utils.checks.compare import Case
from utils.checks.stubs import is_stub, stub_methods
from utils.exercises import registry
from utils.exercises.edits import mistake
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import Exercise, exercise, exercises_of, grade, register
from utils.exercises.solutions import read_solutions

registry.load_all()
OF_LESSON = {lesson: exercises_of(lesson.number) for lesson in LESSONS}  # the fixture below empties the register
ROOT = Path(__file__).resolve().parents[1]
FORMS = [pytest.param(False, id="child"), pytest.param(True, id="thread")]


def double(x):
    return 2 * x


def double_cases(generator):
    return [Case((torch.randn(*shape, generator=generator),)) for shape in ((2,), (3, 4))]


class Doubler(torch.nn.Module):
    def forward(self, x):
        return 2 * x

    def backwards(self, x):
        return x / 2


@pytest.fixture(autouse=True)
def a_few_exercises(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))
    monkeypatch.setattr(registry, "_REGISTER", {})
    monkeypatch.setattr(registry, "_hints_shown", {})
    register(
        Exercise(
            "98.1",
            "twice <as> much",
            "easy",
            5,
            double,
            double_cases,
            mistakes=[mistake(lambda x: x * x, "That is `x` times itself.")],
            hints=["How much is x + x?", "Multiply by a number.", "The number is 2."],
            gradient=True,
        )
    )
    register(Exercise("98.2", "a number", "easy", 1, 42.0))
    register(
        Exercise(
            "98.3",
            "a class",
            "hard",
            9,
            Doubler,
            double_cases,
            call=lambda module, x: module().forward(x),
            methods=("forward", "backwards"),
        )
    )
    register(Exercise("98.10", "two numbers", "easy", 1, (1.0, 2.0)))


# The stub


def stub(x):
    """Twice x."""
    # YOUR CODE HERE
    raise NotImplementedError()


CODE = """
def stub(x, *rest, y=1, **more):
    "words"
    raise NotImplementedError("write me")
def outer(y):
    def closure(x):
        raise NotImplementedError()
    return closure
stub_in_a_closure = outer(1)
def empty(x): pass
def another_error(x): raise ValueError()
def before(x):
    x = 1
    raise NotImplementedError()
def below(x):
    raise NotImplementedError()
    return torch.exp(x)
def branch(x):
    if x:
        raise NotImplementedError()
def generator(x):
    raise NotImplementedError()
    yield
call = len
number = 3
"""


def test_a_stub_is_known_by_its_code_alone():
    names = {}
    exec(CODE, names)
    assert [name for name in names if is_stub(names[name])] == ["stub", "stub_in_a_closure"]
    assert is_stub(torch.no_grad()(stub)) and is_stub(staticmethod(stub))


def test_an_empty_value_is_not_attempted():
    assert grade("98.2", ...).status == "not attempted"
    assert grade("98.10", (..., ...)).status == "not attempted"
    assert grade("98.10", (1.0, ...)).status == "failed"
    assert "1 of 2 values" in grade("98.10", (1.0, ...)).message
    assert grade("98.10", (1.0, 2.0)).status == "passed"
    assert grade("98.2", None).status == "failed"


def test_a_class_is_not_attempted_only_while_all_its_stubs_stand():
    class Untouched(torch.nn.Module):
        def __init__(self):
            super().__init__()

        def forward(self, x):
            raise NotImplementedError()

        def backwards(self, x):
            raise NotImplementedError()

    class Half(Untouched):
        def forward(self, x):
            return 2 * x

        def backwards(self, x):
            raise NotImplementedError()

    assert stub_methods(Untouched) == ["forward", "backwards"]
    assert grade("98.3", Untouched).status == "not attempted"
    half = grade("98.3", Half)
    assert half.status == "failed"
    assert "`backwards` still holds" in half.message
    assert grade("98.3", Doubler).status == "passed"


# Judging


def endless(x):
    while True:
        pass


@pytest.mark.parametrize("in_process", FORMS)
@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (double, "passed", "every case"),
        (lambda x: (x.double() + x.double()).float(), "passed", "every case"),
        (lambda x: x * x, "failed", "times itself"),
        (lambda x: x.undefined, "failed", "AttributeError"),
        (lambda x: sys.exit(), "failed", "SystemExit"),
        (lambda x: 2 * x.detach(), "failed", "no gradient"),
        (lambda x: torch.ones(10**13), "failed", "MiB of memory"),
        (endless, "failed", "had not ended"),
        (stub, "not attempted", "Put your code"),
    ],
)
def test_an_answer_is_judged_in_time(in_process, answer, status, words, monkeypatch):
    assert registry.SECONDS + 1.5 < 10  # the thread form takes up to 1.5 s more
    if answer is endless:
        monkeypatch.setattr(registry, "SECONDS", 0.5)
    result = grade("98.1", answer, in_process=in_process)
    assert (result.status, result.exercise_id) == (status, "98.1")
    assert words in result.message


class LeavesPython:
    def __getattribute__(self, name):
        raise SystemExit


@pytest.mark.parametrize("in_process", FORMS)
def test_an_object_that_cannot_even_be_looked_at_has_failed(in_process):
    holds_itself = []
    holds_itself.append(holds_itself)
    for answer, words in ((LeavesPython(), "cannot be examined"), (holds_itself, "got a list")):
        result = grade("98.1", answer, in_process=in_process)
        assert result.status == "failed"
        assert words in result.message


def test_remembered_examples_do_not_help():
    seen = {}
    for _ in range(20):  # collects what the check asks, as a student might
        grade("98.1", lambda x: seen.setdefault(tuple(x.flatten().tolist()), 2 * x), in_process=True)
    assert len(seen) >= 40
    known = dict(seen)
    result = grade("98.1", lambda x: known[tuple(x.flatten().tolist())])
    assert result.status == "failed"
    assert "KeyError" in result.message


@pytest.mark.parametrize(
    "value", [None, "passed", ["passed", ""], ["hacked", "", ""], ["passed", 1, ""], [["passed"], "", ""], {}]
)
def test_a_verdict_that_no_check_gives_is_a_failure(value, monkeypatch):
    monkeypatch.setattr(registry, "run_isolated", lambda *arguments: registry.Outcome("value", value=value))
    result = grade("98.1", double)
    assert (result.status, result.message) == ("failed", "Your code answered in the place of the check.")


def test_a_bug_of_the_course_is_called_one():
    def broken(x):
        raise KeyError("ours")

    register(Exercise("98.12", "broken", "easy", 1, broken, double_cases))
    result = grade("98.12", double)
    assert result.status == "failed"
    assert "check of exercise 98.12 has a bug of its own (KeyError: 'ours'); this is not your mistake" in result.message
    assert "Traceback" not in str(result)


def test_an_unknown_id_is_answered_with_the_ids_that_exist():
    register(Exercise("9.77", "moved", "easy", 1, 1.0))
    with pytest.raises(LookupError, match="the first edition.s 8.77 is now 9.77"):
        exercise("8.77")
    with pytest.raises(LookupError, match="no exercise '98.7'.*98.1, 98.2, 98.3, 98.10"):
        exercise("98.7")
    with pytest.raises(LookupError, match="expected an exercise id like '1.2'"):
        exercise("softmax")


# Showing


def test_a_result_is_told_by_mark_and_word_and_escaped(monkeypatch):
    def talks(x):
        print("shape <b>", tuple(x.shape))
        return 2 * x

    for answer, mark in ((talks, "✓"), (stub, "○"), (lambda x: x * x, "✗")):
        result = grade("98.1", answer)
        forms = result._repr_mimebundle_()
        assert set(forms) == {"text/html", "text/plain"}
        assert f"<strong>{mark} Exercise 98.1 · twice &lt;as&gt; much: " in forms["text/html"]
    assert "<code>x</code> times itself" in result.to_html()
    assert "shape &lt;b&gt; (2,)" in grade("98.1", talks).to_html()
    monkeypatch.setattr(registry, "has_kernel", lambda: True)
    assert "application/vnd.jupyter.widget-view+json" in result._repr_mimebundle_()


SOLUTION = '''# Exercise 98.1 · twice as much · easy · 5 min · optional
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    two = 2
    return two * x
    ### END SOLUTION
'''


def test_the_solution_is_the_code_of_the_lecture_and_buttons_open_it_and_the_hints(monkeypatch):
    (written,) = read_solutions(SOLUTION)
    monkeypatch.setattr(registry, "solution_of", {"98.1": written}.get)
    widget = registry.result_widget(grade("98.1", stub))
    assert "How much is x + x?" not in str(widget.data) and "two * x" not in str(widget.data)
    widget.set(hints=1)
    assert "How much is x + x?" in widget.answer["notes"][0]
    widget.set(solution=True)
    assert "return two * x" in widget.answer["notes"][1]
    widget.set(hints=3, solution=False)
    assert len(widget.answer["notes"]) == widget.data["count"] == 3
    assert not any("more" in note for note in widget.answer["notes"]), "the button says how many hints are left"
    state = progress.read().exercise("98.1")
    assert (state.hints, state.solution) == (3, True)
    passed = registry.result_widget(grade("98.1", double))
    assert (passed.data["count"], passed.data["has_solution"]) == (0, True)
    lines = ["def double(x):", '    """Twice x."""', "    two = 2", "    return two * x"]
    assert exercise("98.1").solution().code.split("\n") == lines


# The four verbs


def test_use_returns_the_answer_if_it_is_right_and_the_reference_otherwise(capsys):
    def mine(x):
        return x + x

    assert exercise("98.1").use(mine) is mine
    assert "Exercise 98.1 · twice <as> much: passed" in capsys.readouterr().out
    assert exercise("98.1").use(stub) is double
    assert exercise("98.1").use(lambda x: 3 * x) is double
    assert exercise("98.2").use(...) == 42.0


def test_check_remembers_and_grade_does_not(tmp_path, monkeypatch):
    grade("98.1", double)
    assert progress.read().exercise("98.1").status == "not attempted"
    exercise("98.1").check(lambda x: x)
    assert progress.read().exercise("98.1").status == "failed"
    exercise("98.1").check(double)
    exercise("98.1").check(stub)
    assert progress.read().exercise("98.1").status == "passed"
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path))  # no file can be written there
    result = exercise("98.1").check(double)
    assert result.status == "passed"
    assert "Progress was not saved" in str(result) and "Progress was not saved" in result.to_html()


def test_hints_come_one_at_a_time_and_are_remembered(monkeypatch):
    first = exercise("98.1").hint()
    assert str(first) == "Hint 1 of 3 for exercise 98.1\nHow much is x + x?\n(2 more)"
    monkeypatch.setattr(registry, "_hints_shown", {})  # a new kernel
    assert "Hint 2 of 3" in str(exercise("98.1").hint())
    last = str(exercise("98.1").hint())
    assert "Hint 3 of 3" in last
    assert 'exercise("98.1").solution()' in last
    after = str(exercise("98.1").hint())
    assert "1. How much" in after
    assert "3. The number is 2." in after
    assert "no hints" in str(exercise("98.2").hint())


def test_importing_the_package_needs_no_torch():
    code = "import sys, utils.exercises; print('torch' in sys.modules, callable(utils.exercises.exercise))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == "False True\n", run.stderr


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_the_core_path_of_a_lesson_fits_into_two_hours(lesson):
    core = [item for item in OF_LESSON[lesson] if not item.optional]
    assert 1 <= len(core) <= 8
    assert sum(item.minutes for item in core) < lesson.minutes <= 120


@pytest.mark.parametrize("item", [item for items in OF_LESSON.values() for item in items], ids=lambda item: item.id)
def test_every_exercise_has_common_mistakes_for_the_lecturers_guide(item):
    assert len(item.mistakes) >= 3 and len(item.hints) >= 2

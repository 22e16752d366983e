"""`exercise(id)` as a notebook and a grader see it."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from utils.course import exercises, places, progress
from utils.course.checks import Case, Mistake
from utils.course.exercises import Exercise, exercise, grade, register
from utils.course.stubs import is_stub, stub_methods

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
    exercises.load_all()  # before: a lesson that is first imported later would be missing from the real register
    monkeypatch.setattr(exercises, "_REGISTER", {})
    monkeypatch.setattr(exercises, "_hints_shown", {})
    register(
        Exercise(
            "98.1",
            "twice <as> much",
            "easy",
            5,
            double,
            double_cases,
            mistakes=[Mistake(lambda x: x * x, "That is `x` times itself.")],
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


@pytest.fixture
def a_source(tmp_path, monkeypatch):
    """A lesson whose cell holds the solution of 98.1."""
    source = '''
    # %% [markdown]
    # Call exercise("98.1") when you are done.

    # %% tags=["nbval-check-output"]
    # Exercise 98.1 · twice as much · easy · 5 min
    def double(x):
        """Twice x."""
        ### BEGIN SOLUTION
        two = 2
        return two * x
        ### END SOLUTION


    double = exercise("98.1").use(double)
    '''
    (tmp_path / "98_some_lesson.py").write_text(textwrap.dedent(source), encoding="utf-8")
    monkeypatch.setattr(places, "SOURCES", tmp_path)


# The stub


def stub(x):
    """Twice x."""
    # YOUR CODE HERE
    raise NotImplementedError()


STUBS = """
def plain(x): raise NotImplementedError
def documented(x, *rest, y=1, **more):
    "words"
    raise NotImplementedError("write me")
def outer(y):
    def closure(x):
        raise NotImplementedError()
    return closure
closure = outer(1)
"""

NOT_STUBS = """
def empty(x): pass
def other(x): raise ValueError()
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
    stubs, others = {}, {}
    exec(STUBS, stubs)
    exec(NOT_STUBS, others)
    answers = [stubs["plain"], stubs["documented"], stubs["closure"], torch.no_grad()(stub), staticmethod(stub)]
    assert all(map(is_stub, answers))
    assert [name for name in others if name != "__builtins__" and is_stub(others[name])] == []


def test_the_untouched_stub_is_not_attempted():
    result = grade("98.1", stub)
    assert result.status == "not attempted"
    assert str(result).startswith("Exercise 98.1 · twice <as> much: not attempted yet\nPut your code")


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
    ],
)
def test_an_answer_is_judged(in_process, answer, status, words):
    result = grade("98.1", answer, in_process=in_process)
    assert (result.status, result.exercise_id) == (status, "98.1")
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


def test_an_endless_answer_is_stopped_within_ten_seconds(monkeypatch):
    assert exercises.SECONDS + 1.5 < 10  # the thread form takes up to 1.5 s more
    monkeypatch.setattr(exercises, "SECONDS", 0.5)

    def endless(x):
        while True:
            pass

    start = time.monotonic()
    result = grade("98.1", endless)
    assert time.monotonic() - start < 10
    assert result.status == "failed"
    assert "had not ended" in result.message


class WrapsItself:
    def __call__(self, x):
        return 3 * x

    @property
    def __wrapped__(self):
        return self


class LeavesPython:
    def __getattribute__(self, name):
        raise SystemExit


def holds_itself() -> list:
    box = []
    box.append(box)
    return box


@pytest.mark.parametrize("in_process", FORMS)
@pytest.mark.parametrize(
    ("make", "words"),  # not the objects themselves: pytest looks at its parameters
    [(WrapsItself, "wrong values"), (LeavesPython, "cannot be examined"), (holds_itself, "got a list")],
)
def test_an_object_that_cannot_even_be_looked_at_has_failed(in_process, make, words):
    result = grade("98.1", make(), in_process=in_process)
    assert result.status == "failed"
    assert words in result.message


def test_what_the_answer_prints_is_shown_and_escaped():
    def talks(x):
        print("shape <b>", tuple(x.shape))
        return 2 * x

    result = grade("98.1", talks)
    assert result.printed.startswith("shape <b> (2,)\n")
    assert "shape &lt;b&gt; (2,)" in result.to_html()


@pytest.mark.parametrize(
    "value", [None, "passed", ["passed", ""], ["hacked", "", ""], ["passed", 1, ""], [["passed"], "", ""], {}]
)
def test_a_verdict_that_no_check_gives_is_a_failure(value, monkeypatch):
    monkeypatch.setattr(exercises, "run_isolated", lambda *arguments: exercises.Outcome("value", value=value))
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


def test_the_state_is_told_by_mark_and_word_not_by_colour_alone():
    for answer, words in ((double, "✓"), (stub, "○"), (lambda x: x, "✗")):
        as_html = grade("98.1", answer).to_html()
        assert f"<strong>{words} Exercise 98.1 · twice &lt;as&gt; much: " in as_html
    assert "<code>x</code> times itself" in grade("98.1", lambda x: x * x).to_html()


def test_a_widget_is_shown_only_with_a_kernel(monkeypatch):
    assert set(grade("98.1", stub)._repr_mimebundle_()) == {"text/html", "text/plain"}
    monkeypatch.setattr(exercises, "has_kernel", lambda: True)
    forms = grade("98.1", stub)._repr_mimebundle_()
    assert set(forms) == {"text/html", "text/plain", "application/vnd.jupyter.widget-view+json"}


def test_buttons_open_hints_and_the_solution_below(a_source):
    box = exercises.result_widget(grade("98.1", stub))
    buttons, below = box.children[2:]
    hint, solution = buttons.children
    hint.click()
    assert "How much is x + x?" in below.children[0].value
    solution.click()
    assert "return two * x" in below.children[1].value
    hint.click()
    hint.click()
    assert hint.disabled
    assert len(below.children) == 4
    solution.click()
    assert len(below.children) == 3
    state = progress.read().exercise("98.1")
    assert (state.hints, state.solution) == (3, True)
    passed = exercises.result_widget(grade("98.1", double))
    assert [button.description for button in passed.children[2].children] == ["Solution"]


# The four verbs


def test_use_returns_the_answer_if_it_is_right_and_the_reference_otherwise(capsys):
    def mine(x):
        return x + x

    assert exercise("98.1").use(mine) is mine
    assert "Exercise 98.1 · twice <as> much: passed" in capsys.readouterr().out
    assert exercise("98.1").use(stub) is double
    assert exercise("98.1").use(lambda x: 3 * x) is double
    assert exercise("98.2").use(...) == 42.0


def test_check_remembers_and_grade_does_not():
    grade("98.1", double)
    assert progress.read().exercise("98.1").status == "not attempted"
    exercise("98.1").check(lambda x: x)
    assert progress.read().exercise("98.1").status == "failed"
    exercise("98.1").check(double)
    exercise("98.1").check(stub)
    assert progress.read().exercise("98.1").status == "passed"


def test_hints_come_one_at_a_time_and_are_remembered(monkeypatch):
    first = exercise("98.1").hint()
    assert str(first) == "Hint 1 of 3 for exercise 98.1\nHow much is x + x?\n(2 more)"
    monkeypatch.setattr(exercises, "_hints_shown", {})  # a new kernel
    assert "Hint 2 of 3" in str(exercise("98.1").hint())
    last = str(exercise("98.1").hint())
    assert "Hint 3 of 3" in last
    assert 'exercise("98.1").solution()' in last
    after = str(exercise("98.1").hint())
    assert "1. How much" in after
    assert "3. The number is 2." in after
    assert "no hints" in str(exercise("98.2").hint())


def test_the_solution_is_the_code_of_the_lecture(a_source):
    shown = exercise("98.1").solution()
    assert shown.code == 'def double(x):\n    """Twice x."""\n    two = 2\n    return two * x'
    assert progress.read().exercise("98.1").solution
    assert "is not on this machine" in str(exercise("98.2").solution())


def test_a_progress_file_that_cannot_be_written_costs_one_sentence(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    monkeypatch.setenv("COURSE_PROGRESS", str(blocked / "progress.jsonl"))
    result = exercise("98.1").check(double)
    assert result.status == "passed"
    assert str(result).split("\n")[-1].startswith("Progress was not saved")
    assert "Progress was not saved" in result.to_html()


def test_importing_the_package_needs_no_torch():
    code = "import sys, utils.course; print('torch' in sys.modules, callable(utils.course.exercise))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == "False True\n", run.stderr

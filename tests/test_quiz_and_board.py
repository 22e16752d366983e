"""Commit to a guess, then see; and the board that shows how far one has come."""

import sys
from types import SimpleNamespace

import nbformat
import pytest

from utils.build.notebooks import HERE
from utils.checks import progress
from utils.exercises import quiz as quiz_function
from utils.exercises import registry
from utils.exercises.board import Board, Mark, current_board
from utils.exercises.lessons import LESSONS
from utils.exercises.quiz import (
    _REGISTER,
    Quiz,
    feedback_html,
    find_quiz,
    quiz_html,
    quiz_text,
    quiz_view,
    register_quiz,
)
from utils.exercises.registry import exercises_of
from utils.widgets.base import WIDGET_VIEW

board_module = sys.modules["utils.exercises.board"]  # the package has the function of this name

SHIFT = Quiz(
    "97.a",
    "What does adding 1 to every logit do to `softmax(x)` if x < 5?",
    [("It grows", "All of them cannot grow."), ("Nothing", "Shift <invariance>."), ("It shrinks", "Nor shrink.")],
    right=1,
    explanation="The factor `e` cancels.",
)


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))


# Quiz


def test_the_static_forms_hide_the_answer_and_escape_everything_but_code():
    text = quiz_text(SHIFT)
    assert text.split("\n")[1:] == ["  A) It grows", "  B) Nothing", "  C) It shrinks"]
    before, after = quiz_html(SHIFT).split("<details>")
    assert "invariance" not in before and "cancels" not in text + before
    assert "✓ B: Shift &lt;invariance&gt;." in after
    assert "✗ A: All of them cannot grow." in after
    assert "<code>softmax(x)</code> if x &lt; 5?" in before


def test_the_feedback_comes_with_the_commitment_and_the_guess_is_recorded():
    widget = quiz_view(SHIFT)
    assert "invariance" not in str(widget.data) and "cancels" not in str(widget.data)
    widget.set(choice=0)
    assert widget.answer == {"right": None, "feedback": ""}
    widget.set(committed=True)
    for words in ("✗ Not this one. Right is B.", "All of them cannot grow.", "cancels"):
        assert words in widget.answer["feedback"]
    assert progress.read().quizzes == {"97.a": progress.QuizState(0, False)}


def test_a_new_kernel_opens_the_quiz_again_and_recalls_the_guess(tmp_path, monkeypatch):
    quiz_view(SHIFT).set(choice=1, committed=True)
    again = quiz_view(SHIFT)
    assert not again.inputs["committed"]
    assert "Earlier you guessed B, which was right." in again.data["earlier"]
    progress.record_quiz("97.a", 7, True)  # an option that no longer exists
    assert quiz_view(SHIFT).data["earlier"] == ""
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path))  # no file can be written there
    again.set(choice=1, committed=True)
    for words in ("✓ Right.", "Progress was not saved"):
        assert words in again.answer["feedback"]


def test_a_quiz_is_found_by_its_id():
    register_quiz(SHIFT)
    assert find_quiz("97.a") is SHIFT
    shown = quiz_function("97.a")
    assert str(shown) == quiz_text(SHIFT)
    assert set(shown._repr_mimebundle_()[0]) == {"text/html", "text/plain", WIDGET_VIEW}
    with pytest.raises(LookupError, match="no quiz '97.z'.*97.a"):
        quiz_function("97.z")


def test_several_options_may_be_right():
    either = Quiz("97.b", "Which?", [("a", "yes"), ("b", "yes"), ("c", "no")], right={0, 1}, explanation="both")
    assert "✓ Right." in feedback_html(either, 1)
    assert "Right is A or B." in feedback_html(either, 2)


def test_every_quiz_of_the_course_has_options_and_a_right_one_among_them():
    registry.load_all()
    assert _REGISTER
    for item in _REGISTER.values():
        assert len(item.options) >= 2, item.id
        assert item.right and item.right <= set(range(len(item.options))), item.id


# Board


def marks() -> dict[str, Mark]:
    return {mark.solution.id: mark for mark in current_board().marks()}


def test_the_board_has_a_row_for_each_lesson_and_a_mark_for_each_exercise():
    registry.load_all()
    assert [row.lesson for row in current_board().rows] == list(LESSONS)
    assert [lesson.name.split("_")[0] for lesson in LESSONS] == [f"{number:02d}" for number in range(len(LESSONS))]
    assert list(marks()) == [item.id for lesson in LESSONS for item in exercises_of(lesson.number)]


@pytest.mark.parametrize("folder", [HERE.lectures, HERE.students])
def test_a_mark_links_to_the_cell_of_its_exercise_in_both_notebooks(folder):
    notebooks = {lesson.name: nbformat.read(folder / f"{lesson.name}.ipynb", as_version=4) for lesson in LESSONS}
    for mark in marks().values():
        name, cell_id = mark.link.split(".ipynb#cell-id=")
        (cell,) = [cell for cell in notebooks[name].cells if cell.id == cell_id]
        assert f'exercise("{mark.solution.id}")' in cell.source


def test_a_bar_says_how_each_exercise_stands():
    progress.record_check("0.1", "passed")
    progress.record_hint("0.1", 1)
    progress.record_solution("0.1")
    progress.record_check("0.2", "failed")
    assert marks()["0.1"].in_words() == "0.1 normalize to a sum of 1: passed (1 hint, solution seen)"
    assert marks()["1.8"].in_words().endswith(": not attempted yet (optional)")
    shown = current_board()._repr_mimebundle_()
    assert "00 ✓✗             1 of 2  Start here" in shown["text/plain"].split("\n")
    for words in (
        'aria-label="1 of 2 passed"',
        ">✓</a>",
        ">✗</a>",
        'aria-label="0.2 mask the keys of a batch: failed"',
    ):
        assert words in shown["text/html"]


def test_the_board_continues_with_the_first_core_exercise_that_is_not_solved():
    ids = list(marks())
    assert str(current_board()).startswith(f"0 of {len(ids)} exercises passed. Start with 0.1 ")
    for solved in [ids.index("1.8"), len(ids)]:  # 1.8 is optional
        for exercise_id in ids[:solved]:
            if not marks()[exercise_id].solution.optional:
                progress.record_check(exercise_id, "passed")
        first = str(current_board()).split("\n")[0]
        assert "Continue with 2.1 " in first if solved < len(ids) else "Every exercise of the core path" in first
    assert [mark for mark in current_board().marks() if mark.next] == []


def test_the_board_is_shown_again_after_every_check_in_the_same_kernel(monkeypatch):
    updates = []
    registry.exercise("0.1").check(lambda numbers: numbers)
    monkeypatch.setattr(board_module, "_shown", SimpleNamespace(update=updates.append))
    registry.exercise("0.1").check(lambda numbers: numbers / numbers.sum())
    assert [shown.rows[0].count() for shown in updates] == ["1 of 2"]


def test_trouble_with_the_file_is_shown_and_escaped(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path))  # a folder
    assert "could not be read" in current_board().to_html() and "could not be read" in str(current_board())
    assert "A &lt;sentence&gt;." in Board([], "A <sentence>.").to_html()


# What a pass says


def test_a_pass_names_what_runs_on_the_answer_and_a_failure_does_not(capsys):
    handle = registry.exercise("0.1")
    handle.use(lambda numbers: numbers / numbers.sum())
    assert "Your `normalize` is now used by the code below." in capsys.readouterr().out
    handle.use(lambda numbers: numbers)
    assert "now used" not in capsys.readouterr().out


def test_the_sentence_starts_with_what_is_most_worth_seeing_and_counts_the_rest():
    lookup = SimpleNamespace(
        name="lookup",
        callers=[
            *(("code", ""), ("code", "Scores"), ("figure", "Scores"), ("widget", "Drag it"), ("widget", "Guess")),
            *(("training loop", "Train it"), ("code", "Summary")),
        ],
    )
    assert registry.used_by(lookup) == (
        "Your `lookup` is now used by the widgets in “Drag it” and in “Guess”, the training loop in “Train it” and 3 more sections."
    )
    assert registry.used_by(SimpleNamespace(name="lookup", callers=[])) == ""

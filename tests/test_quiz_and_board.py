"""Commit to a guess, then see; and the board that shows how far one has come."""

import pytest

from utils.checks import progress
from utils.exercises import quiz as quiz_function
from utils.exercises import registry
from utils.exercises.board import Row, board, board_html, board_row, board_text
from utils.exercises.lessons import LESSONS, Lesson
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
from utils.exercises.registry import Exercise, exercises_of, register
from utils.widgets.base import WIDGET_VIEW

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


def test_the_board_says_in_words_how_each_exercise_stands():
    lesson = Lesson("97", "97_x", "A <lesson>", "Why?", "things", 5)
    state = progress.Progress()
    state.exercises["97.1"] = progress.ExerciseState("passed", hints=1, solution=True)
    state.exercises["97.2"] = progress.ExerciseState("failed", hints=2)
    items = [Exercise("97.1", "first & last"), Exercise("97.2", "second"), Exercise("97.3", "third", optional=True)]
    row = board_row(lesson, items, state)
    rows = [row, Row(lesson, ready=False)]
    assert board_text(rows).split("\n") == [
        "97 A <lesson>: 1 of 3 passed",
        "   ✓ 97.1 first & last: passed (1 hint, solution seen)",
        "   ✗ 97.2 second: failed (2 hints)",
        "   ○ 97.3 third: not yet (optional)",
        "97 A <lesson>: to come",
        "1 of 3 exercises passed",
    ]
    as_html = board_html(rows, "A <sentence>.")
    for words in ("✓ 97.1 passed (1 hint, solution seen)", "✗ 97.2 failed (2 hints)", "○ 97.3 not yet", "to come"):
        assert words in as_html
    for words in ("A &lt;lesson&gt;", "first &amp; last", "A &lt;sentence&gt;."):
        assert words in as_html


def test_the_board_covers_all_lessons_in_order_and_follows_the_progress(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTER", {})
    monkeypatch.setattr(registry, "load_lesson", lambda number: None)
    register(Exercise("1.10", "ten", "easy", 1, 10))
    register(Exercise("1.2", "two", "easy", 1, 2))
    assert [item.id for item in exercises_of("01")] == ["1.2", "1.10"]
    assert [row.lesson for row in board().rows] == list(LESSONS)
    assert [lesson.name.split("_")[0] for lesson in LESSONS] == [f"{number:02d}" for number in range(len(LESSONS))]
    progress.record_check("1.10", "passed")
    assert "✓ 1.10 ten: passed" in str(board())

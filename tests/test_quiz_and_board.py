"""Commit to a guess, then see; and the board that shows how far one has come."""

import pytest

from utils.course import exercises, progress
from utils.course import quiz as quiz_function
from utils.course.board import Row, board, board_html, board_row, board_text
from utils.course.exercises import Exercise, register
from utils.course.lessons import LESSONS, Lesson, lesson_of
from utils.course.quiz import Quiz, QuizWidget, feedback_html, find_quiz, quiz_html, quiz_text, register_quiz

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


def test_the_static_forms_do_not_give_the_answer_away():
    text = quiz_text(SHIFT)
    assert text.split("\n")[1:] == ["  A) It grows", "  B) Nothing", "  C) It shrinks"]
    assert "cancels" not in text
    before, after = quiz_html(SHIFT).split("<details>")
    assert "invariance" not in before
    assert "cancels" not in before
    assert "✓ B: Shift &lt;invariance&gt;." in after
    assert "✗ A: All of them cannot grow." in after


def test_everything_is_escaped_but_code():
    as_html = quiz_html(SHIFT)
    assert "<code>softmax(x)</code> if x &lt; 5?" in as_html
    assert "<invariance>" not in as_html


def test_one_commits_before_one_sees():
    widget = QuizWidget(SHIFT)
    assert widget.options.value is None
    assert widget.button.disabled
    assert widget.feedback.value == ""
    widget.button.click()
    assert widget.feedback.value == ""
    widget.options.value = 0
    assert not widget.button.disabled
    assert widget.feedback.value == ""
    widget.button.click()
    assert widget.options.disabled
    assert widget.button.disabled
    assert "✗ Not this one. Right is B." in widget.feedback.value
    assert "All of them cannot grow." in widget.feedback.value
    assert "cancels" in widget.feedback.value


def test_a_guess_counts_once_and_is_remembered():
    widget = QuizWidget(SHIFT)
    widget.options.value = 0
    widget.commit()
    widget.options.value = 1
    widget.commit()
    assert progress.read().quizzes == {"97.a": progress.QuizState(0, False)}


def test_a_new_kernel_opens_the_quiz_again_and_recalls_the_guess():
    first = QuizWidget(SHIFT)
    first.options.value = 1
    first.commit()
    assert "✓ Right." in first.feedback.value
    again = QuizWidget(SHIFT)
    assert not again.options.disabled
    assert "Earlier you guessed B, which was right." in again.feedback.value
    assert "cancels" not in again.feedback.value


def test_a_remembered_guess_that_no_longer_exists_is_forgotten():
    progress.record_quiz("97.a", 7, True)
    assert QuizWidget(SHIFT).feedback.value == ""


def test_several_options_may_be_right():
    either = Quiz("97.b", "Which?", [("a", "yes"), ("b", "yes"), ("c", "no")], right={0, 1}, explanation="both")
    assert "✓ Right." in feedback_html(either, 0)
    assert "✓ Right." in feedback_html(either, 1)
    assert "Right is A or B." in feedback_html(either, 2)


def test_a_quiz_without_sense_is_refused():
    with pytest.raises(ValueError, match="two options"):
        Quiz("97.c", "?", [("a", "b")], right=0, explanation="")
    with pytest.raises(ValueError, match="right options out of 0 to 1"):
        Quiz("97.c", "?", [("a", "b"), ("c", "d")], right=2, explanation="")


def test_a_quiz_is_found_by_its_id(monkeypatch):
    register_quiz(SHIFT)
    assert find_quiz("97.a") is SHIFT
    shown = quiz_function("97.a")
    assert str(shown) == quiz_text(SHIFT)
    assert set(shown._repr_mimebundle_()) == {"text/html", "text/plain"}
    monkeypatch.setattr(exercises, "has_kernel", lambda: True)
    assert "application/vnd.jupyter.widget-view+json" in shown._repr_mimebundle_()
    with pytest.raises(LookupError, match="no quiz '97.z'.*97.a"):
        quiz_function("97.z")


def test_a_guess_that_cannot_be_saved_is_shown_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "file" / "progress.jsonl"))
    widget = QuizWidget(SHIFT)
    widget.options.value = 1
    widget.commit()
    assert "✓ Right." in widget.feedback.value
    assert "Progress was not saved" in widget.feedback.value


# Board

LESSON = Lesson("97", "97_x", "A <lesson>", "Why?", "things", 5)
ITEMS = [("97.1", "first & last"), ("97.2", "second"), ("97.3", "third")]


def some_progress() -> progress.Progress:
    state = progress.Progress()
    state.exercises["97.1"] = progress.ExerciseState("passed", hints=1, solution=True)
    state.exercises["97.2"] = progress.ExerciseState("failed", hints=2)
    return state


def test_the_board_says_in_words_how_each_exercise_stands():
    rows = [board_row(LESSON, ITEMS, some_progress()), Row(LESSON, ready=False)]
    assert board_text(rows).split("\n") == [
        "97 A <lesson>: 1 of 3 passed",
        "   ✓ 97.1 first & last: passed (1 hint, solution seen)",
        "   ✗ 97.2 second: failed (2 hints)",
        "   ○ 97.3 third: not yet",
        "97 A <lesson>: to come",
        "1 of 3 exercises passed",
    ]


def test_the_board_in_html_has_the_same_words_and_escapes_them():
    as_html = board_html([board_row(LESSON, ITEMS, some_progress()), Row(LESSON, ready=False)], "A <sentence>.")
    for words in ("✓ 97.1 passed (1 hint, solution seen)", "✗ 97.2 failed (2 hints)", "○ 97.3 not yet", "to come"):
        assert words in as_html
    assert "A &lt;lesson&gt;" in as_html
    assert "first &amp; last" in as_html
    assert "A &lt;sentence&gt;." in as_html


def test_the_board_covers_all_lessons_and_follows_the_progress(monkeypatch):
    monkeypatch.setattr(Lesson, "exists", property(lambda lesson: lesson.number == "01"))
    monkeypatch.setattr(exercises, "_REGISTER", {})
    monkeypatch.setattr(exercises, "load_lesson", lambda number: None)
    register(Exercise("1.2", "two", "easy", 1, 2))
    register(Exercise("1.10", "ten", "easy", 1, 10))
    first = board()
    assert [row.lesson for row in first.rows] == list(LESSONS)
    assert [mark.id for mark in first.rows[1].marks] == ["1.2", "1.10"]
    assert first._repr_mimebundle_() == board()._repr_mimebundle_()
    progress.record_check("1.10", "passed")
    assert "✓ 1.10 ten: passed" in str(board())
    assert str(board()).count("to come") == len(LESSONS) - 1


def test_lessons_are_numbered_in_order():
    assert [lesson.number for lesson in LESSONS] == [f"{number:02d}" for number in range(9)]
    assert all(lesson.name.startswith(f"{lesson.number}_") for lesson in LESSONS)
    assert lesson_of("01").title == "Softmax attention"
    with pytest.raises(LookupError, match="got '1'"):
        lesson_of("1")

"""Quizzes: commit to a guess, then see."""

import html
from collections.abc import Collection
from dataclasses import dataclass

from utils.checks import progress
from utils.checks.text import inline, panel, paragraphs


@dataclass
class Quiz:
    """`options` are pairs (text, feedback on choosing it); `right` is the index of the right one, or a set."""

    id: str
    question: str
    options: list[tuple[str, str]]
    right: int | Collection[int]
    explanation: str

    def __post_init__(self):
        self.right = frozenset([self.right] if isinstance(self.right, int) else self.right)


_REGISTER: dict[str, Quiz] = {}


def register_quiz(item: Quiz) -> Quiz:
    _REGISTER[item.id] = item
    return item


def find_quiz(quiz_id: str) -> Quiz:
    from utils.exercises.registry import lesson_number, load_all, load_lesson

    if quiz_id not in _REGISTER:
        load_lesson(lesson_number(quiz_id))
    if quiz_id not in _REGISTER:
        load_all()
        known = ", ".join(sorted(_REGISTER)) or "none yet"
        raise LookupError(f"there is no quiz {quiz_id!r}; the quizzes are {known}")
    return _REGISTER[quiz_id]


def quiz(quiz_id: str):
    return quiz_view(find_quiz(quiz_id))


def quiz_view(item: Quiz):
    """The quiz as a widget."""
    from utils.widgets.quiz import QuizView  # here: graders need no widgets

    def record(choice: int) -> str:
        return paragraphs(progress.record_quiz(item.id, choice, choice in item.right))

    indices = range(len(item.options))
    return QuizView(
        head=question_html(item),
        options=[f"{letter(index)}) {inline(text)}" for index, (text, _) in enumerate(item.options)],
        right=item.right,
        feedback=[feedback_html(item, index) for index in indices],
        earlier=earlier_html(item, progress.read().quizzes.get(item.id)),
        record=record,
        static_html=quiz_html(item),
        text=quiz_text(item),
    )


# Pure: a quiz to text and HTML


def quiz_text(item: Quiz) -> str:
    options = [f"  {letter(index)}) {text}" for index, (text, _) in enumerate(item.options)]
    return "\n".join([f"Quiz {item.id}: {item.question}", *options])


def quiz_html(item: Quiz) -> str:
    # Letters as text: front ends that clean saved HTML would make numbers of a list.
    options = "".join(f"<div>{letter(index)}) {inline(text)}</div>" for index, (text, _) in enumerate(item.options))
    answer = "".join(_verdict(item, index) for index in range(len(item.options)))
    return panel(
        "note",
        f"{question_html(item)}{options}"
        f"<details><summary>Guess first, then open the answer</summary>{answer}{paragraphs(item.explanation)}"
        "</details>",
    )


def question_html(item: Quiz) -> str:
    return f"<strong>Quiz {html.escape(item.id)}</strong>{paragraphs(item.question)}"


def feedback_html(item: Quiz, choice: int) -> str:
    """What is shown once the guess stands."""
    is_right = choice in item.right
    heading = "✓ Right." if is_right else f"✗ Not this one. Right is {right_letters(item)}."
    body = paragraphs(item.options[choice][1]) + paragraphs(item.explanation)
    return panel("passed" if is_right else "failed", f"<strong>{heading}</strong>{body}")


def earlier_html(item: Quiz, guess: progress.QuizState | None) -> str:
    """A note on the guess of an earlier session; nothing when there was none or the options have changed."""
    if guess is None or not 0 <= guess.choice < len(item.options):
        return ""
    word = "right" if guess.choice in item.right else "not right"
    return paragraphs(f"Earlier you guessed {letter(guess.choice)}, which was {word}. Guess again if you like.")


def right_letters(item: Quiz) -> str:
    return " or ".join(letter(index) for index in sorted(item.right))


def letter(index: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[index]


def _verdict(item: Quiz, index: int) -> str:
    mark = "✓" if index in item.right else "✗"
    return paragraphs(f"{mark} {letter(index)}: {item.options[index][1]}")

"""Quizzes: commit to a guess, then see."""

import html
from collections.abc import Collection
from dataclasses import dataclass

from utils.checks import progress
from utils.checks.text import inline, panel, panel_widget, paragraphs


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


def quiz(quiz_id: str) -> "QuizView":
    return QuizView(find_quiz(quiz_id))


@dataclass
class QuizView:
    """Shows a quiz as a widget, as HTML with a closed answer, or as text without one."""

    quiz: Quiz

    def __repr__(self) -> str:
        return quiz_text(self.quiz)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        from utils.exercises.registry import bundle

        return bundle(quiz_html(self.quiz), quiz_text(self.quiz), lambda: QuizWidget(self.quiz).box)


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
    marked = "".join(
        f"<div>{'✓' if index in item.right else '✗'} {letter(index)}) {inline(text)}"
        f"{' <strong>(your guess)</strong>' if index == choice else ''}</div>"
        for index, (text, _) in enumerate(item.options)
    )
    body = marked + paragraphs(item.options[choice][1]) + paragraphs(item.explanation)
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


# The widget around it


class QuizWidget:
    """Radio buttons and a button to commit; afterwards all is locked and the feedback stands below."""

    def __init__(self, item: Quiz):
        import ipywidgets

        self.quiz = item
        labels = [(f"{letter(index)}) {text.replace('`', '')}", index) for index, (text, _) in enumerate(item.options)]
        wide = ipywidgets.Layout(width="auto")
        self.options = ipywidgets.RadioButtons(options=labels, value=None, layout=wide)
        self.button = ipywidgets.Button(description="Commit", disabled=True, tooltip="Choose first, then commit")
        earlier = progress.read().quizzes.get(item.id)
        self.feedback = ipywidgets.HTML(earlier_html(item, earlier))
        self.options.observe(self._chosen, names="value")
        self.button.on_click(self.commit)
        head = ipywidgets.HTML(question_html(item))
        self.box = panel_widget("course-quiz", [head, self.options, self.button, self.feedback])

    def _chosen(self, change) -> None:
        self.button.disabled = change["new"] is None

    def commit(self, button=None) -> None:
        choice = self.options.value
        if choice is None or self.options.disabled:
            return
        self.options.disabled = self.button.disabled = True
        # The feedback lists the options again, marked; a greyed-out list above it would only be in the way.
        self.options.layout.display = self.button.layout.display = "none"
        trouble = progress.record_quiz(self.quiz.id, choice, choice in self.quiz.right)
        self.feedback.value = feedback_html(self.quiz, choice) + paragraphs(trouble)

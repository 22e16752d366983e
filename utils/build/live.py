"""What runs in a page without a kernel, for the website and the decks: the widgets of a notebook, and quizzes."""

import json
from pathlib import Path

from utils.checks.text import inline, paragraphs
from utils.exercises.quiz import find_quiz, letter
from utils.widgets.base import PAGE_VIEW, page_script, page_style

QUIZ_SCRIPT = Path(__file__).with_name("quiz.js")


def stored_state(output: dict) -> dict | None:
    """The state of the widget that an output shows, or None; quizzes and results of checks have HTML of their own."""
    data = output.get("data", {})
    return json.loads("".join(data[PAGE_VIEW])) if PAGE_VIEW in data and "image/png" in data else None


def live_states(notebook: dict) -> list[dict]:
    """The stored states of a notebook's widgets, in order."""
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", []))
    return [state for state in map(stored_state, outputs) if state]


def live_assets(names: set[str]) -> tuple[str, str]:
    """(script, style) of a page with these widgets and with quizzes."""
    return page_script(names) + QUIZ_SCRIPT.read_text(encoding="utf-8"), page_style(names)


def quiz_html(quiz_id: str) -> str:
    """A quiz with buttons; without JavaScript, the answer unfolds below."""
    quiz = find_quiz(quiz_id)
    buttons = "".join(
        f'<button type="button" data-right="{str(index in quiz.right).lower()}">'
        f"<b>{letter(index)}</b> <span>{inline(text)}</span></button>"
        for index, (text, _) in enumerate(quiz.options)
    )
    feedback = "".join(f"<div hidden>{paragraphs(words)}</div>" for _, words in quiz.options)
    right = " or ".join(letter(index) for index in sorted(quiz.right))
    explained = paragraphs(quiz.explanation)
    page = (
        f'<div class="quiz" id="quiz-{quiz_id.replace(".", "-")}"><p class="quiz-title">Quiz {quiz_id}</p>{paragraphs(quiz.question)}'
        f'<div class="quiz-options">{buttons}</div><div class="quiz-feedback" role="status"></div>'
        f"<template>{feedback}<div hidden>{explained}</div></template>"
        f'<details class="quiz-answer"><summary>Answer</summary><p>{right}</p>{explained}</details></div>'
    )
    return page.replace("\n", " ")

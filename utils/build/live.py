"""Widgets and quizzes that run in a page without a kernel: their markup, and one script and style sheet for a page.

The website and the decks share this module; live.js starts a widget from the state that its notebook stores.
"""

import json
from pathlib import Path

from utils.checks.text import inline, paragraphs
from utils.exercises.quiz import find_quiz, letter
from utils.widgets.forms import PAGE_VIEW
from utils.widgets.stage import STATIC, script

STARTER = Path(__file__).with_name("live.js")


def live_states(notebook: dict) -> list[dict]:
    """The stored states of a notebook's widgets, in order."""
    outputs = (output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", []))
    return [stored_state(data) for data in outputs if PAGE_VIEW in data]


def stored_state(data: dict) -> dict:
    return json.loads("".join(data[PAGE_VIEW]))


def live_html(state: dict, image: str) -> str:
    """A widget that runs in the page from stored data; until it starts, the page shows the picture."""
    stored = json.dumps(state, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div class="live-widget" data-script="{state["script"]}">'
        f'<script type="application/json">{stored}</script><div class="live-picture">{image}</div></div>'
    )


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


def live_script(names: set[str]) -> str:
    """One plain script with these widgets and their starter: a browser loads no module from a file on disk."""
    parts = [STARTER.read_text(encoding="utf-8")]
    for name in sorted(names):
        module = script(f"{name}.js").replace("export default { render };", f'courseLive.widgets["{name}"] = render;')
        parts.append(f"(() => {{\n{module}\n}})();\n")
    return "".join(parts)


def live_styles(names: set[str]) -> str:
    return "".join((STATIC / f"{name}.css").read_text(encoding="utf-8") for name in sorted(names))

"""In-context learning and chat of lesson 09, and the lesson without its download."""

import contextlib
import io

import jupytext
import pytest
import torch

from utils.build import downloads
from utils.build.downloads import SMOLLM2, DownloadError, fetch
from utils.exercises.solutions import lesson09 as solutions
from utils.models.pretrained import load_smollm2
from utils.paths import ROOT
from utils.training import in_context
from utils.training.in_context import ARROW, INPUT, TASKS, answered, draw, prompt, with_shuffled_answers

LESSON = ROOT / "notebooks" / "src" / "09_cost_and_scale.py"


def test_a_few_shot_prompt_ends_where_the_answer_begins():
    examples = [("hot", "cold"), ("up", "down")]
    assert prompt(examples, "big") == "hot -> cold\nup -> down\nbig ->"
    assert prompt(examples[:1], "big", INPUT) == "Input: hot\nOutput: cold\n\nInput: big\nOutput:"
    assert prompt([], "big") == "big ->"


@pytest.mark.parametrize("task", TASKS)
def test_questions_are_held_out_from_the_examples_and_each_draw_is_another_one(task):
    questions, examples = draw(task, 0)
    assert len(questions) == in_context.NUM_QUESTIONS and len(examples) >= 16
    assert dict(questions).keys().isdisjoint(dict(examples)) and {**dict(questions), **dict(examples)} == TASKS[task]
    assert (questions, examples) == draw(task, 0) != draw(task, 1)


def test_shuffled_answers_are_the_same_answers_to_the_same_questions_in_another_order():
    _, examples = draw("opposites", 0)
    shuffled = with_shuffled_answers(examples, 0)
    assert [question for question, _ in shuffled] == [question for question, _ in examples]
    assert sorted(answer for _, answer in shuffled) == sorted(answer for _, answer in examples)
    assert shuffled != examples


class Echo:
    """Stands in for a model: after any prompt it generates " down" and then "hill"."""

    tokenizer = type("Words", (), {"encode": staticmethod(lambda text: [{" down": 1, " downhill": 12}.get(text, 3)])})

    def responder(self):
        return lambda text, generated: torch.eye(13)[1]


def test_an_answer_counts_if_greedy_decoding_starts_with_it():
    assert answered(Echo(), [], [("up", "down"), ("hot", "cold"), ("up", "downhill")], ARROW) == [True, False, False]


@pytest.fixture(scope="module")
def smollm2():
    return load_smollm2(fetch(SMOLLM2))


def test_examples_show_which_task_is_meant(smollm2):
    """The claim of lesson 09, on one draw: without examples no opposite, after four of them most."""
    questions, examples = draw("opposites", 0)
    assert sum(answered(smollm2, [], questions)) <= 1
    assert sum(answered(smollm2, examples[:4], questions)) >= 9


def test_without_the_chat_template_a_question_gets_no_answer(smollm2):
    text, ended = in_context.reply(smollm2, "Name three animals.", template=True)
    assert ended and "dog" in text
    text, _ = in_context.reply(smollm2, "Name three animals.", template=False)
    assert "dog" not in text


# The lesson without its download


def cells_about_the_model():
    """The imports of lesson 09 and the code of its sections 5 and 6, without exercises and quizzes."""
    cells = jupytext.read(LESSON).cells
    start, end = (
        next(index for index, cell in enumerate(cells) if cell.source.startswith(f"## {number} ·")) for number in (5, 7)
    )
    imports = next(cell for cell in cells if "\nimport torch\n" in cell.source)
    code = [cell for cell in cells[start:end] if cell.cell_type == "code"]
    return [imports, *(cell for cell in code if "exercise(" not in cell.source and "quiz(" not in cell.source)]


def test_lesson_09_runs_without_its_download_and_says_what_is_missing_and_how_to_get_it(monkeypatch):
    def unavailable(download):
        raise DownloadError(
            f"could not download {download.name}; connect to the internet once and run `make downloads`"
        )

    messages = []
    monkeypatch.setattr(downloads, "fetch", unavailable)
    monkeypatch.setattr(downloads, "show_live", messages.append)
    names = vars(solutions).copy()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in cells_about_the_model():
            exec(compile(cell.source, "lesson 09", "exec"), names)
    assert len(messages) == 1
    assert messages[0].startswith("smollm2: could not download") and "run `make downloads`" in messages[0]
    assert names["smol"] is None
    assert "What is the capital of" in printed.getvalue(), "the stored replies are shown without the model"

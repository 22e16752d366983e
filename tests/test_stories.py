"""Facts about the generated stories: every answer confirmed by a solver that shares nothing with the generator."""

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import mean

import pytest

from utils.data import story_solver
from utils.data.babi import Question, parse
from utils.data.stories import SAMPLES, TASKS, stories, story_text
from utils.data.story_solver import solve

ROOT = Path(__file__).resolve().parents[1]
SEEDS = (0, 1, 2)
KIND, COLOUR = re.compile(r"(\w+) is a (\w+)\."), re.compile(r"(\w+) is (\w+)\.")

each_task = pytest.mark.parametrize("task", TASKS)


@cache
def questions(task: int, seed: int) -> list[Question]:
    return parse(story_text(task, 2000, seed))


@cache
def told(task: int) -> list[list[str]]:
    """The statements of many stories of one task, more where stories are short."""
    count = 2000 if task == 16 else 400
    drafts = [draft for seed in SEEDS for draft in islice(stories(task, seed), count)]
    return [[line.partition(" ")[2] for line in draft.lines if "\t" not in line] for draft in drafts]


def shares(found) -> dict:
    """In percent."""
    counts = Counter(found)
    return {key: 100 * count / counts.total() for key, count in counts.items()}


# Right answers


@pytest.mark.parametrize("seed", SEEDS)
@each_task
def test_the_solver_confirms_every_answer_and_every_supporting_fact_in_order(task, seed):
    asked = questions(task, seed)
    assert len(asked) >= 2000
    for one in asked:
        solution = solve(one.story, one.question)
        assert (solution.answer, solution.facts, solution.why) == (one.answer, one.facts, ""), one


def test_the_solver_shares_no_code_with_the_generator():
    source = Path(story_solver.__file__).read_text(encoding="utf-8")
    imported = re.findall(r"^\s*(?:from|import) (\S+)", source, re.MULTILINE)
    assert sorted(imported) == ["collections.abc", "dataclasses", "re"]


@each_task
def test_all_answers_occur_about_equally_often(task):
    found = shares(one.answer for seed in SEEDS for one in questions(task, seed))
    assert len(found) == (6 if task <= 3 else 4)
    assert max(found.values()) < 1.35 * min(found.values())


# The measured proportions


def test_supporting_facts_of_task_1_lie_as_far_back_as_measured():
    found = shares(len(one.story) - 1 - one.facts[0] for seed in SEEDS for one in questions(1, seed))
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert [found[age] for age in range(5)] == pytest.approx([45, 29, 13, 9, 4], abs=2.5)


@pytest.mark.parametrize("task, average, shortest, longest", [(1, 10, 10, 10), (2, 22, 10, 68), (3, 74, 20, 224)])
def test_stories_are_as_long_as_measured(task, average, shortest, longest):
    """Of 1,200 stories one in a hundred may lie beyond the shortest and the longest of the few hundred that were measured."""
    lengths = [len(story) for story in told(task)]
    assert mean(lengths) == pytest.approx(average, rel=0.05)
    assert mean(not shortest <= length <= longest for length in lengths) <= 0.015
    assert min(lengths) <= 1.5 * shortest and longest / 1.5 <= max(lengths)


def test_task_16_has_five_kinds_and_four_colours_told_and_asks_about_the_fifth():
    for one in questions(16, 0):
        kinds = {match[1]: match[2] for match in filter(None, map(KIND.fullmatch, one.story))}
        colours = {match[1]: match[2] for match in filter(None, map(COLOUR.fullmatch, one.story))}
        assert len(one.story) == 9 and len(kinds) == 5 and len(colours) == 4
        assert set(kinds) - set(colours) == {one.question.split()[-1].strip("?")}


# The samples


def test_the_committed_samples_are_what_the_command_writes(tmp_path):
    folder = tmp_path / "new"
    command = [sys.executable, "-m", "utils.data.stories", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert sorted(written) == sorted(f"task_{task}.txt" for task in TASKS)
    assert written == {path.name: path.read_text(encoding="utf-8") for path in SAMPLES.iterdir()}
    assert run.stdout.split() == [str(folder / f"task_{task}.txt") for task in TASKS]


# What the solver says of stories that people write


def why(question: str, *story: str) -> str:
    solution = solve(story, question)
    assert solution.answer is None and solution.facts == ()
    return solution.why


def answer(question: str, *story: str) -> tuple:
    solution = solve(story, question)
    assert not solution.why
    return solution.answer, *solution.facts


KITCHEN, TAKES, GARDEN = "Mary went to the kitchen.", "Mary took the milk there.", "Mary moved to the garden."


def test_the_solver_follows_a_carried_thing_and_leaves_a_dropped_one():
    assert answer("Where is the milk?", KITCHEN, TAKES, GARDEN) == ("garden", 1, 2)
    assert answer("Where is the milk?", KITCHEN, TAKES, "Mary dropped the milk.", GARDEN) == ("kitchen", 2, 0)


def test_the_solver_reads_capitals_spaces_and_missing_marks_as_people_write_them():
    assert answer("where is MARY", "  mary   went to the Kitchen") == ("kitchen", 0)
    assert answer("What colour is Lily?", "Lily is an owl", "Greg is an owl", "Greg is gray") == ("gray", 0, 1, 2)


def test_the_last_of_the_kind_with_a_known_colour_decides_and_a_told_colour_first_of_all():
    story = ["Greg is a frog.", "Lily is a frog.", "Brian is a frog.", "Brian is gray.", "Greg is green."]
    assert answer("What color is Lily?", *story) == ("gray", 1, 2, 3)
    assert answer("What color is Lily?", *story, "Julius is a frog.") == ("gray", 1, 2, 3)
    assert answer("What color is Lily?", *story, "Lily is white.") == ("white", 5)


@pytest.mark.parametrize("question, story, part", [
    ("Where is John?", [KITCHEN], "never says where John is"),
    ("Where is the milk?", [KITCHEN], "never says that somebody took or left the milk"),
    ("Where is the milk?", [TAKES], "Mary has the milk, but the story never says where Mary is"),
    ("Where is the milk?", ["Mary left the milk.", KITCHEN], "does not say where Mary was then"),
    ("Where was the milk before the kitchen?", [KITCHEN], "never says that somebody took or left the milk"),
    ("Where was the milk before the garden?", [KITCHEN, TAKES], "never says that the milk was in the garden"),
    ("Where was the milk before the kitchen?", [KITCHEN, TAKES], "it begins when Mary took it there"),
    ("Where was the milk before the kitchen?", [KITCHEN, "Mary left the milk."], "and not when it was taken"),
    ("Where was the milk before the garden?", [TAKES, GARDEN], "does not say where Mary was with the milk"),
    ("What is Emily afraid of?", [KITCHEN], "never says what kind of animal Emily is"),
    ("What is Emily afraid of?", ["Emily is a cat."], "never says what such animals are afraid of"),
    ("What color is Lily?", ["Greg is green."], "never says what kind of animal Lily is"),
    ("What color is Lily?", ["Lily is a frog."], "has no other frog"),
    ("What color is Lily?", ["Lily is a frog.", "Greg is a frog."], "a frog like Greg, but the story gives no color"),
    ("Who is Mary?", [KITCHEN], "'Who is Mary?' has a form that is not known here. Try one of these: Where is Mary?"),
    ("Where is Mary?", [KITCHEN, "Mary likes milk."], "Sentence 2, 'Mary likes milk.', has a form that is not known"),
    ("Where is Mary?", [], "never says where Mary is"),
    ("", [KITCHEN], "has a form that is not known here"),
])  # fmt: skip
def test_the_solver_says_what_a_story_does_not_tell(question, story, part):
    assert part in why(question, *story)


@pytest.mark.parametrize("question, story, part", [
    ("Where is the milk?", [KITCHEN, TAKES, "John took the milk."], "In sentence 3 John takes the milk, but Mary has it since sentence 2"),
    ("Where is the milk?", [KITCHEN, TAKES, TAKES], "Mary takes the milk, but Mary has it since sentence 2"),
    ("Where is the milk?", [KITCHEN, TAKES, "John dropped the milk."], "John leaves the milk, but Mary has it since sentence 2"),
    ("Where is the milk?", [KITCHEN, TAKES, "Mary left the milk.", "Mary left the milk."], "nobody took it after it was left in sentence 3"),
    ("Where is the milk?", [KITCHEN, TAKES, "Mary left the milk.", GARDEN, TAKES], "takes the milk in the garden, but it was left in the kitchen in sentence 3"),
    ("Where is Mary?", [KITCHEN, "Mary left the kitchen."], "Sentence 2 takes or leaves the kitchen, but that is a room"),
    ("Where is Mary?", [TAKES, "Mary went to the milk."], "Sentence 2 uses the milk as a room"),
    ("What is Emily afraid of?", ["Emily is a cat.", "Emily is a wolf."], "Emily is a wolf, and sentence 1 that Emily is a cat"),
    ("What is Emily afraid of?", ["Mice are afraid of cats.", "Mice are afraid of sheep."], "mice are afraid of the sheep, and sentence 1"),
    ("What color is Lily?", ["Lily is gray.", "Lily is green."], "Lily is green, and sentence 1 that Lily is gray"),
])  # fmt: skip
def test_the_solver_says_what_cannot_be_in_a_story(question, story, part):
    assert part in why(question, *story)

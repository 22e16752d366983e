"""A story in a person's own words, read by trained memory networks: what they look at and what they answer."""

import re
from dataclasses import dataclass

from torch import Tensor

from utils.data.babi import Question, words
from utils.data.story_solver import solve
from utils.data.story_tensors import MEMORY, UnknownWord
from utils.training.memory import Trained

# A network answers only the kind of question that it was trained on.
QUESTION_OF = {
    1: (r"where is (?!the\b)\w+", "Where is Mary?"),
    2: (r"where is the \w+", "Where is the milk?"),
    3: (r"where was the \w+ before the \w+", "Where was the milk before the garden?"),
    15: (r"what is \w+ afraid of", "What is Emily afraid of?"),
    16: (r"what color is \w+", "What color is Lily?"),
}


@dataclass(frozen=True)
class Reading:
    """n sentences, the weights (hops, n) of a network, its answer; the solver's answer and facts, or why it has none."""

    sentences: list[str]
    weights: Tensor
    answer: str
    expected: str | None
    facts: tuple[int, ...]
    why: str


def task_of(question: str, tasks) -> int:
    """The task whose networks can answer `question`; says which questions can be asked if there is none."""
    asked = " ".join(words(question))
    for task in tasks:
        if re.fullmatch(QUESTION_OF[task][0], asked):
            return task
    forms = " ".join(QUESTION_OF[task][1] for task in tasks)
    raise ValueError(f"No network here answers {question.strip() or 'an empty question'!r}. Ask like this: {forms}")


def read_story(networks: dict[int, Trained], story: str, question: str, seed: int = 0) -> Reading:
    """Let the network of the question's task read `story`, sentences divided by full stops or line ends.

    Whatever cannot be read raises ValueError with a sentence for the person who wrote it.
    """
    sentences = [part.strip() for part in re.split(r"[.\n]+", story) if words(part)]
    if not sentences:
        raise ValueError("The story is empty. Write a few sentences, each on a line of its own.")
    if len(sentences) > MEMORY:
        raise ValueError(f"The memory holds {MEMORY} sentences; the story has {len(sentences)}. Shorten it.")
    task = task_of(question, networks)
    trained = networks[task]
    check_words(trained, [*sentences, question], task)
    solution = solve(sentences, question)
    # The answer of the record is only a place holder: nobody knows it yet.
    record = Question(tuple(sentences), question, trained.vocabulary.words[0], ())
    given, weights = trained.answer([record])
    return Reading(sentences, weights[seed, 0], given[seed][0], solution.answer, solution.facts or (), solution.why)


def check_words(trained: Trained, texts: list[str], task: int) -> None:
    unknown = list(dict.fromkeys(word for text in texts for word in words(text) if word not in trained.vocabulary))
    if unknown:
        raise UnknownWord(
            f"The network for questions like '{QUESTION_OF[task][1]}' never saw {', '.join(map(repr, unknown))}, so it has "
            f"no vector for it. It knows: {', '.join(trained.vocabulary.words)}."
        )
    for text in texts:
        if len(words(text)) > trained.longest:
            raise ValueError(
                f"'{text}' has {len(words(text))} words; the longest sentence in training had {trained.longest}. "
                "Divide it in two."
            )

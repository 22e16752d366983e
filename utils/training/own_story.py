"""A story in a person's own words, answered by trained memory networks, with their attention weights."""

import re
from dataclasses import dataclass

from torch import Tensor

from utils.data.babi import Question, words
from utils.data.story_solver import solve
from utils.data.story_tensors import MAX_MEMORIES, UnknownWord
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
class AnsweredStory:
    """n sentences, attention weights (num_hops, n), the network's answer; the solver's answer and supporting facts, or
    why it has none."""

    sentences: list[str]
    weights: Tensor
    answer: str
    expected: str | None
    facts: tuple[int, ...]
    why: str


def answer_story(networks: dict[int, Trained], story: str, question: str, seed: int = 0) -> AnsweredStory:
    """The answer of the network for this kind of question. Sentences end at full stops or line ends.

    Whatever cannot be encoded raises ValueError with a message for the person who wrote it.
    """
    sentences = sentences_of(story)
    task = task_of(question, networks)
    trained = networks[task]
    statements, asked = [_normalized(sentence) for sentence in sentences], _normalized(question)
    _check_words(trained, [*statements, asked], task)
    solution = solve(statements, asked)
    # `Question` needs an answer: any word will do, it is not used.
    answers, weights = trained.answer([Question(tuple(statements), asked, trained.vocabulary.words[0], ())])
    return AnsweredStory(
        sentences, weights[seed, 0], answers[seed][0], solution.answer, solution.facts or (), solution.why
    )


def task_of(question: str, tasks) -> int:
    """The task whose networks can answer `question`; raises ValueError with example questions if there is none."""
    asked = _normalized(question)
    for task in tasks:
        if re.fullmatch(QUESTION_OF[task][0], asked):
            return task
    problem = f"No network here answers {_shortened(question)!r}." if asked else "The question is empty."
    raise ValueError(f"{problem} Ask like this: {' '.join(QUESTION_OF[task][1] for task in tasks)}")


def sentences_of(story: str) -> list[str]:
    """Sentences end at a punctuation mark or a line end; the line numbers of the bAbI format are removed."""
    unnumbered = re.sub(r"(?m)^\s*\d+\s+", "", story)
    sentences = [" ".join(part.split()) for part in re.findall(r"[^.!?;\r\n]+\??", unnumbered) if words(part)]
    if not sentences:
        raise ValueError("The story is empty. Write a few sentences, each on a line of its own.")
    for sentence in sentences:
        if sentence.endswith("?"):
            raise ValueError(
                f"{_shortened(sentence)!r} is a question; a story has only statements. Put it in the field for the question."
            )
    if len(sentences) > MAX_MEMORIES:
        raise ValueError(f"The memory holds {MAX_MEMORIES} sentences; the story has {len(sentences)}. Shorten it.")
    return sentences


def _normalized(text: str) -> str:
    """Lower-case words in the spelling of the stories."""
    text = re.sub(r"\bgrey\b", "gray", re.sub(r"\bcolour\b", "color", text, flags=re.I), flags=re.I)
    return " ".join(words(text))


def _shortened(text: str, max_len: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= max_len else text[: max_len - 1] + "…"


def _check_words(trained: Trained, sentences: list[str], task: int) -> None:
    unknown = dict.fromkeys(word for text in sentences for word in text.split() if word not in trained.vocabulary)
    if unknown:
        raise UnknownWord(
            f"Out of vocabulary: {', '.join(repr(_shortened(word, 30)) for word in unknown)}. The network for questions "
            f"like '{QUESTION_OF[task][1]}' has no embedding for {'it' if len(unknown) == 1 else 'them'}. It knows: "
            f"{', '.join(trained.vocabulary.words)}."
        )
    for text in sentences:
        if len(text.split()) > trained.max_len:
            raise ValueError(
                f"'{_shortened(text)}' has {len(text.split())} words; the longest sentence in training had "
                f"{trained.max_len}. Divide it."
            )

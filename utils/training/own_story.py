"""A story in a person's own words, read by trained memory networks: what they look at and what they answer."""

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
    asked = " ".join(words(american(question)))
    for task in tasks:
        if re.fullmatch(QUESTION_OF[task][0], asked):
            return task
    problem = f"No network here answers {shortened(question)!r}." if asked else "The question is empty."
    raise ValueError(f"{problem} Ask like this: {' '.join(QUESTION_OF[task][1] for task in tasks)}")


def american(text: str) -> str:
    """The spelling of the stories."""
    return re.sub(r"\bgrey\b", "gray", re.sub(r"\bcolour\b", "color", text, flags=re.I), flags=re.I)


def shortened(text: str, most: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def sentences_of(story: str) -> list[str]:
    """Sentences end at a mark or a line end; the line numbers of the bAbI format may stand before them."""
    unnumbered = re.sub(r"(?m)^\s*\d+\s+", "", story)
    found = [" ".join(part.split()) for part in re.findall(r"[^.!?;\r\n]+\??", unnumbered) if words(part)]
    if not found:
        raise ValueError("The story is empty. Write a few sentences, each on a line of its own.")
    asked = [one for one in found if one.endswith("?")]
    if asked:
        raise ValueError(
            f"{shortened(asked[0])!r} is a question; a story has only statements. Put it in the field for the question."
        )
    if len(found) > MAX_MEMORIES:
        raise ValueError(f"The memory holds {MAX_MEMORIES} sentences; the story has {len(found)}. Shorten it.")
    return found


def read_story(networks: dict[int, Trained], story: str, question: str, seed: int = 0) -> Reading:
    """Let the network of the question's task read `story`, sentences divided by full stops or line ends.

    Whatever cannot be read raises ValueError with a sentence for the person who wrote it.
    """
    sentences = sentences_of(story)
    task = task_of(question, networks)
    trained = networks[task]
    # From here on only the words count: marks and other signs are gone.
    told, asked = [" ".join(words(american(one))) for one in sentences], " ".join(words(american(question)))
    check_words(trained, [*told, asked], task)
    solution = solve(told, asked)
    # The answer of the record is only a place holder: nobody knows it yet.
    given, weights = trained.answer([Question(tuple(told), asked, trained.vocabulary.words[0], ())])
    return Reading(sentences, weights[seed, 0], given[seed][0], solution.answer, solution.facts or (), solution.why)


def check_words(trained: Trained, texts: list[str], task: int) -> None:
    unknown = list(dict.fromkeys(word for text in texts for word in words(text) if word not in trained.vocabulary))
    if unknown:
        raise UnknownWord(
            f"The network for questions like '{QUESTION_OF[task][1]}' never saw "
            f"{', '.join(repr(shortened(word, 30)) for word in unknown)}, so it has no vector for "
            f"{'it' if len(unknown) == 1 else 'them'}. It knows: {', '.join(trained.vocabulary.words)}."
        )
    for text in texts:
        if len(words(text)) > trained.longest:
            raise ValueError(
                f"'{shortened(text)}' has {len(words(text))} words; the longest sentence in training had "
                f"{trained.longest}. Divide it."
            )

"""In-context learning (Brown et al., 2020, arXiv:2005.14165): the accuracy of a language model after k examples in its prompt.

    decoder = load_smollm2(folder)
    prompt(list(TASKS["opposites"].items())[:2], "big", ARROW)      # "hot -> cold\\nup -> down\\nbig ->"
    accuracies(decoder, "opposites", ARROW, num_examples=4)         # one for each draw of examples and questions

The parameters never change. Three tasks are known from pretraining, and the examples show which one is meant; the fourth has
labels that mean nothing, so that only the examples define it.
"""

import functools
import random
from collections.abc import Sequence
from pathlib import Path

from utils.models.pretrained import SMOLLM2_FILE, PretrainedDecoder, chat_prompt, load_smollm2
from utils.training.cache import cached

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Germany": "Berlin", "England": "London", "Russia": "Moscow",
    "Japan": "Tokyo", "Egypt": "Cairo", "Greece": "Athens", "Austria": "Vienna", "Portugal": "Lisbon", "Ireland": "Dublin",
    "Norway": "Oslo", "Sweden": "Stockholm", "Denmark": "Copenhagen", "Finland": "Helsinki", "Poland": "Warsaw",
    "Hungary": "Budapest", "China": "Beijing", "Cuba": "Havana", "Peru": "Lima", "Chile": "Santiago", "Kenya": "Nairobi",
    "Canada": "Ottawa", "Iran": "Tehran", "Iraq": "Baghdad", "Thailand": "Bangkok", "Turkey": "Ankara",
}  # fmt: skip
OPPOSITES = {
    "hot": "cold", "up": "down", "big": "small", "fast": "slow", "old": "young", "good": "bad", "light": "dark", "high": "low",
    "left": "right", "open": "closed", "early": "late", "rich": "poor", "strong": "weak", "happy": "sad", "wet": "dry",
    "full": "empty", "hard": "soft", "long": "short", "near": "far", "true": "false", "inside": "outside", "day": "night",
    "war": "peace", "love": "hate", "win": "lose", "buy": "sell", "first": "last", "before": "after",
}  # fmt: skip
PLURALS = {
    "cat": "cats", "house": "houses", "child": "children", "man": "men", "city": "cities", "book": "books", "foot": "feet",
    "mouse": "mice", "leaf": "leaves", "baby": "babies", "woman": "women", "tree": "trees", "knife": "knives", "wolf": "wolves",
    "tooth": "teeth", "country": "countries", "story": "stories", "dog": "dogs", "car": "cars", "life": "lives", "bus": "buses",
    "church": "churches", "party": "parties", "river": "rivers", "wife": "wives", "lady": "ladies", "class": "classes",
    "bridge": "bridges",
}  # fmt: skip
ANIMALS = [
    "dog", "cat", "horse", "cow", "sheep", "tiger", "lion",
    "bear", "wolf", "mouse", "goat", "monkey", "rabbit", "elephant",
]  # fmt: skip
FRUITS = [
    "apple", "orange", "banana", "grape", "lemon", "peach", "cherry",
    "pear", "melon", "mango", "plum", "lime", "coconut", "fig",
]  # fmt: skip
ARBITRARY = "arbitrary labels"
TASKS = {
    "capitals": CAPITALS,
    "opposites": OPPOSITES,
    "plurals": PLURALS,
    ARBITRARY: dict.fromkeys(ANIMALS, "red") | dict.fromkeys(FRUITS, "blue"),
}

# Question and answer of one example, and what stands between two examples.
ARROW, QUESTION, INPUT = TEMPLATES = (
    ("{} ->", "\n"),
    ("Q: {}\nA:", "\n\n"),
    ("Input: {}\nOutput:", "\n\n"),
)
NUM_QUESTIONS, NUM_DRAWS = 12, 5  # all questions are held out from the examples of their draw

Pairs = Sequence[tuple[str, str]]


def prompt(examples: Pairs, question: str, template: tuple[str, str] = ARROW) -> str:
    """A few-shot prompt: the examples with their answers, then a question without."""
    form, separator = template
    shown = [f"{form.format(asked)} {answer}" for asked, answer in examples]
    return separator.join([*shown, form.format(question)])


def draw(task: str, seed: int, num_questions: int = NUM_QUESTIONS) -> tuple[Pairs, Pairs]:
    """Held-out questions, and all other pairs of the task in random order, to take examples from."""
    pairs = list(TASKS[task].items())
    random.Random(seed).shuffle(pairs)
    return pairs[:num_questions], pairs[num_questions:]


def with_shuffled_answers(examples: Pairs, seed: int) -> Pairs:
    """The same questions and the same answers, at random: what is left is the form of the examples."""
    answers = [answer for _, answer in examples]
    random.Random(seed).shuffle(answers)
    return [(question, answer) for (question, _), answer in zip(examples, answers, strict=True)]


def answered(
    decoder: PretrainedDecoder, examples: Pairs, questions: Pairs, template: tuple[str, str] = ARROW
) -> list[bool]:
    """For each question with its answer, whether greedy decoding starts with this answer."""
    respond = decoder.responder()  # its cache keeps the keys and values of the examples

    def is_answer(question: str, answer: str) -> bool:
        text, generated = prompt(examples, question, template), []
        for token in decoder.tokenizer.encode(f" {answer}"):
            if int(respond(text, generated).argmax()) != token:
                return False
            generated.append(token)
        return True

    return [is_answer(question, answer) for question, answer in questions]


def accuracies(
    decoder: PretrainedDecoder,
    task: str,
    template: tuple[str, str] = ARROW,
    num_examples: int = 4,
    *,
    shuffled: bool = False,
    num_draws: int = NUM_DRAWS,
    num_questions: int = NUM_QUESTIONS,
) -> list[float]:
    """Accuracy of each draw. shuffled: the answers of the examples are permuted."""
    results = []
    for seed in range(num_draws):
        questions, examples = draw(task, seed, num_questions)
        examples = examples[:num_examples]
        if shuffled:
            examples = with_shuffled_answers(examples, seed)
        matches = answered(decoder, examples, questions, template)
        results.append(sum(matches) / len(matches))
    return results


# With and without the chat template


def question_about(country: str) -> str:
    return f"What is the capital of {country}?"


def reply(decoder: PretrainedDecoder, question: str, template: bool, max_new_tokens: int = 48) -> tuple[str, bool]:
    """The greedy continuation of a question, in the chat template or bare, and whether it ended with an EOS token."""
    token_ids = decoder.generate(chat_prompt(question) if template else question, max_new_tokens, temperature=0)
    return decoder.tokenizer.decode(token_ids), len(token_ids) < max_new_tokens


# Stored: one call for each point of the figure, so that a run that was interrupted continues


@functools.cache
def _decoder(folder: str) -> PretrainedDecoder:
    return load_smollm2(folder)


def _weights(folder: str, *_, **__) -> list[Path]:
    return [Path(folder) / SMOLLM2_FILE]


@cached(data_files=_weights)
def stored_accuracies(
    folder: str, task: str, template: tuple[str, str], num_examples: int, shuffled: bool, **sizes
) -> list:
    return accuracies(_decoder(folder), task, template, num_examples, shuffled=shuffled, **sizes)


@cached(data_files=_weights)
def stored_replies(folder: str, template: bool, num_questions: int, max_new_tokens: int) -> list[dict]:
    """For each country: question, reply, whether it contains the capital, and whether it ended."""
    rows = []
    for country, capital in list(CAPITALS.items())[:num_questions]:
        text, ended = reply(_decoder(folder), question_about(country), template, max_new_tokens)
        rows.append({"question": question_about(country), "reply": text, "correct": capital in text, "ended": ended})
    return rows

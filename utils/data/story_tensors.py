"""From stories in words to tensors: a vocabulary, memories of one size, and what a position encoding needs."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from utils.data.babi import Question, words

MEMORY = 50  # statements; the size of the published tables


class UnknownWord(ValueError):
    """A word that the vocabulary does not have; the message says which and what there is."""


class Vocabulary:
    """Words and their numbers, in alphabetical order. An answer of several words is one entry."""

    def __init__(self, entries: Iterable[str]):
        self.words = sorted(set(entries))
        self.number = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.number

    @classmethod
    def of(cls, questions: Iterable[Question]) -> "Vocabulary":
        questions = list(questions)
        sentences = {sentence for one in questions for sentence in (*one.story, one.question)}
        told = {word for sentence in sentences for word in words(sentence)}
        return cls(told | {one.answer for one in questions})

    def numbers(self, sentence: str) -> list[int]:
        told = words(sentence)
        unknown = [word for word in told if word not in self]
        if unknown:
            raise UnknownWord(
                f"the model never saw the word{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))} in "
                f"{sentence!r}; it knows: {', '.join(self.words)}"
            )
        return [self.number[word] for word in told]

    def answer(self, answer: str) -> int:
        """The number of a whole answer, "milk,apple" for example: a list is one entry, however many words it has."""
        if answer not in self:
            raise UnknownWord(
                f"no question that the vocabulary was made of has the answer {answer!r}; give it all questions"
            )
        return self.number[answer]


@dataclass
class Stories:
    """Questions as tensors. b questions, n memories, j words a sentence; -1 stands for no word.

    story (b, n, j), question (b, j), answer (b,), mask (b, n) True where a memory holds a statement, age (b, n): 0 for
    the newest statement, fact (b, n) True at supporting facts; `cut` is the share of facts older than the memory.
    """

    story: Tensor
    question: Tensor
    answer: Tensor
    mask: Tensor
    age: Tensor
    fact: Tensor
    cut: float

    def __len__(self) -> int:
        return len(self.answer)


def as_tensors(
    questions: list[Question], vocabulary: Vocabulary, memory: int = MEMORY, longest: int | None = None
) -> Stories:
    """The last `memory` statements of each story; memory i holds the i-th of those, the oldest first.

    `longest` is the number of words a sentence may have; left out, the longest of these questions decides.
    """
    numbers = {sentence: vocabulary.numbers(sentence) for one in questions for sentence in (*one.story, one.question)}
    longest = longest or max(map(len, numbers.values()))
    count, size = len(questions), min(memory, max(1, max(len(one.story) for one in questions)))
    story = torch.full((count, size, longest), -1)
    question = torch.full((count, longest), -1)
    age = torch.zeros(count, size, dtype=torch.long)
    mask, fact = torch.zeros(count, size, dtype=torch.bool), torch.zeros(count, size, dtype=torch.bool)
    cut = facts = 0
    for row, one in enumerate(questions):
        kept = one.story[-size:]
        first = len(one.story) - len(kept)
        for place, sentence in enumerate(kept):
            story[row, place, : len(numbers[sentence])] = torch.tensor(numbers[sentence])
        mask[row, : len(kept)] = True
        age[row, : len(kept)] = torch.arange(len(kept) - 1, -1, -1)
        question[row, : len(numbers[one.question])] = torch.tensor(numbers[one.question])
        for place in one.facts:
            facts += 1
            cut += place < first
            if place >= first:
                fact[row, place - first] = True
    answer = torch.tensor([vocabulary.answer(one.answer) for one in questions])
    return Stories(story, question, answer, mask, age, fact, cut / max(1, facts))

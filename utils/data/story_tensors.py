"""bAbI stories as tensors: a vocabulary, memories of fixed size, and statement ages for the temporal encoding."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from utils.data.babi import Question, words

MAX_MEMORIES = 50  # statements, as in Sukhbaatar et al. (2015)


class UnknownWord(ValueError):
    """An out-of-vocabulary word; the message lists it and the vocabulary."""


class StoryVocabulary:
    """Word-level vocabulary in alphabetical order, without special tokens. An answer of several words is one entry."""

    def __init__(self, entries: Iterable[str]):
        self.words = sorted(set(entries))
        self._ids = {word: token_id for token_id, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    @classmethod
    def build(cls, questions: Iterable[Question]) -> "StoryVocabulary":
        questions = list(questions)
        sentences = {sentence for item in questions for sentence in (*item.story, item.question)}
        return cls({word for sentence in sentences for word in words(sentence)} | {item.answer for item in questions})

    def encode(self, sentence: str) -> list[int]:
        """Token ids of a sentence."""
        tokens = words(sentence)
        unknown = [word for word in tokens if word not in self]
        if unknown:
            raise UnknownWord(
                f"the model never saw the word{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))} in "
                f"{sentence!r}; it knows: {', '.join(self.words)}"
            )
        return [self._ids[word] for word in tokens]

    def decode(self, token_ids: Iterable[int]) -> list[str]:
        return [self.words[token_id] for token_id in token_ids]

    def answer_id(self, answer: str) -> int:
        """Class of a whole answer, "milk,apple" for example: a list is one entry, however many words it has."""
        if answer not in self:
            raise UnknownWord(
                f"no question that the vocabulary was made of has the answer {answer!r}; give it all questions"
            )
        return self._ids[answer]


@dataclass
class Stories:
    """Batch of bAbI questions: b questions, n memories, j words per sentence, padded with -1.

    story (b, n, j), question (b, j), answer (b,), mask (b, n) True where a memory holds a statement, age (b, n): 0 for
    the latest statement, fact (b, n) True at supporting facts; `cut` is the fraction of facts that no longer fit.
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
    questions: list[Question],
    vocabulary: StoryVocabulary,
    max_memories: int = MAX_MEMORIES,
    max_len: int | None = None,
) -> Stories:
    """The last `max_memories` statements of each story, the oldest in memory 0.

    `max_len` is the number of words per sentence; None takes the maximum over these questions.
    """
    token_ids = {
        sentence: torch.tensor(vocabulary.encode(sentence))
        for item in questions
        for sentence in (*item.story, item.question)
    }
    max_len = max_len or max(map(len, token_ids.values()))
    count, size = len(questions), min(max_memories, max(1, max(len(item.story) for item in questions)))
    story = torch.full((count, size, max_len), -1)
    question = torch.full((count, max_len), -1)
    age = torch.zeros(count, size, dtype=torch.long)
    mask, fact = torch.zeros(count, size, dtype=torch.bool), torch.zeros(count, size, dtype=torch.bool)
    cut = facts = 0
    for row, item in enumerate(questions):
        kept = item.story[-size:]
        first = len(item.story) - len(kept)
        for memory, sentence in enumerate(kept):
            story[row, memory, : len(token_ids[sentence])] = token_ids[sentence]
        mask[row, : len(kept)] = True
        age[row, : len(kept)] = torch.arange(len(kept) - 1, -1, -1)
        question[row, : len(token_ids[item.question])] = token_ids[item.question]
        for index in item.facts:
            facts += 1
            cut += index < first
            if index >= first:
                fact[row, index - first] = True
    answer = torch.tensor([vocabulary.answer_id(item.answer) for item in questions])
    return Stories(story, question, answer, mask, age, fact, cut / max(1, facts))


def train_and_test(training: list[Question], test: list[Question]) -> tuple[Stories, Stories, StoryVocabulary]:
    """Both parts of a task as tensors with one vocabulary and one sentence length."""
    vocabulary = StoryVocabulary.build(training + test)
    texts = {text for item in training + test for text in (*item.story, item.question)}
    max_len = max(len(words(text)) for text in texts)
    return *(as_tensors(part, vocabulary, max_len=max_len) for part in (training, test)), vocabulary

"""A sentence in a person's own words, translated step by step: what was looked at, and what else could have been said."""

import difflib
from dataclasses import dataclass

import torch
from torch import Tensor

from utils.data.phrases import Pair
from utils.data.tokens import END, START, TokenVocabulary, as_batch, split
from utils.training.translation import Trained, limit_for

LONGEST = 26  # words; no sentence of the corpus has more


@dataclass(frozen=True)
class Step:
    """One word of a translation: the word, the weights (source words + 1,) it was named with, its rivals with probabilities."""

    word: str
    weights: Tensor | None
    choices: list[tuple[str, float]]


def read_sentence(text: str, vocabulary: TokenVocabulary) -> list[str]:
    """The words of an English sentence; whatever cannot be read raises ValueError with a sentence for its writer."""
    words = [word for word in split(text, "english") if word[0].isalnum()]
    if not words:
        raise ValueError("The sentence is empty. Write one, for example: the old king sleeps")
    if len(words) > LONGEST:
        raise ValueError(f"The sentence has {len(words)} words; the longest known has {LONGEST}. Shorten it.")
    unknown = vocabulary.unknown(words)
    if unknown:
        known = list(vocabulary.words[4:])
        near = list(dict.fromkeys(one for word in unknown for one in difflib.get_close_matches(word, known, 2)))
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        some = ", ".join(sorted(known)[:: max(1, len(known) // 40)])
        raise ValueError(
            f"The model never saw {', '.join(map(repr, unknown))}, so it has no vector for it.{hint} "
            f"It knows {len(known)} words, some of them: {some}."
        )
    return words


@torch.no_grad()
def step_by_step(trained: Trained, words: list[str], rivals: int = 3) -> list[Step]:
    """Greedy translation, one `Step` for each word and one for the end token."""
    batch = as_batch([Pair(tuple(words), (), ())], trained.english, trained.french)
    limit = limit_for(len(words))
    step = trained.stepper(batch, limit)
    word, steps = torch.tensor([START]), []
    while len(steps) < limit:
        logits, weights = step(word)
        best = logits[0].softmax(-1).topk(rivals)
        names = [trained.french.words[number] for number in best.indices.tolist()]
        choices = list(zip(names, best.values.tolist(), strict=True))
        steps.append(Step(names[0], None if weights is None else weights[0], choices))
        word = best.indices[:1]
        if word.item() == END:
            break
    return steps

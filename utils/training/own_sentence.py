"""A sentence in a person's own words, translated step by step: what was looked at, and what else could have been said."""

import difflib
from dataclasses import dataclass

import torch
from torch import Tensor

from utils.data.phrases import Pair
from utils.data.tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS, Vocabulary, collate, join, split
from utils.models.decoding import beam_search, greedy_decode
from utils.training.transformer import MARKS, TrainedTransformer
from utils.training.translation import Trained, limit_for

LONGEST = 26  # words; no sentence of the corpus has more


@dataclass(frozen=True)
class Step:
    """One word of a translation: the word, the weights (source words + 1,) it was named with, its rivals with probabilities."""

    word: str
    weights: Tensor | None
    choices: list[tuple[str, float]]


def read_sentence(text: str, vocabulary: Vocabulary) -> list[str]:
    """The words of an English sentence; whatever cannot be read raises ValueError with a sentence for its writer."""
    words = [word for word in split(text, "english") if word[0].isalnum()]
    if not words:
        raise ValueError("The sentence is empty. Write one, for example: the old king sleeps")
    if len(words) > LONGEST:
        raise ValueError(f"The sentence has {len(words)} words; the longest known has {LONGEST}. Shorten it.")
    unknown = vocabulary.out_of_vocabulary(words)
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
    batch = collate([Pair(tuple(words), (), ())], trained.english, trained.french)
    limit = limit_for(len(words))
    step = trained.stepper(batch, limit)
    word, steps = torch.tensor([BOS_ID]), []
    while len(steps) < limit:
        logits, weights = step(word)
        best = logits[0].softmax(-1).topk(rivals)
        names = [trained.french.words[number] for number in best.indices.tolist()]
        choices = list(zip(names, best.values.tolist(), strict=True))
        steps.append(Step(names[0], None if weights is None else weights[0], choices))
        word = best.indices[:1]
        if word.item() == EOS_ID:
            break
    return steps


def watched(trained: TrainedTransformer, text: str, rivals: int = 4) -> dict:
    """The greedy translation of a sentence with all that the model looked at, for `utils.widgets.translate_watch`.

    source (n words, the end token last), target (m), choices: for each of the m the likeliest words with their probabilities,
    weights (layers, heads, m, n) over the source, sentence: the translation as one writes it.
    """
    words = read_sentence(text, trained.english)
    batch = collate([Pair(tuple(words), (), ())], trained.english, trained.french)
    looks = {"limit": limit_for(len(words)), "need_weights": True, "candidates": rivals}
    found = greedy_decode(trained.model, batch.source, batch.source_mask, **MARKS, **looks)
    names = trained.french.words
    said = [names[number] for number in found.words[0].tolist()]
    return {
        "source": [*words, SPECIAL_TOKENS[EOS_ID]],
        "target": said,
        "choices": [
            [(names[number], chance) for number, chance in zip(row, chances, strict=True)]
            for row, chances in zip(found.candidates[0].tolist(), found.probabilities[0].tolist(), strict=True)
        ],
        "weights": found.cross[:, 0],
        "sentence": join([word for word in said if word != SPECIAL_TOKENS[EOS_ID]], "french"),
    }


def beginnings(trained: TrainedTransformer, text: str, width: int) -> dict:
    """The tree of a beam search for the translation of a sentence, its words as text, for `utils.widgets.beam_tree`."""
    words = read_sentence(text, trained.english)
    batch = collate([Pair(tuple(words), (), ())], trained.english, trained.french)
    room = {"limit": limit_for(len(words)), "width": width, "need_tree": True}
    found = beam_search(trained.model, batch.source, batch.source_mask, **MARKS, **room)
    names = trained.french.words
    named = [
        [node._replace(word=None if node.word is None else names[node.word]) for node in step] for step in found.tree[0]
    ]
    return {"tree": named}

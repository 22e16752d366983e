"""How good a translation is, and whether the model looked at the right words.

A sentence is a sequence of tokens, without start and end token. Shares and error rates lie between 0 and 1; BLEU between
0 and 100, as everybody prints it.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence

import sacrebleu
from torch import Tensor

from utils.data.phrases import Pair

Sentence = Sequence[str]
Links = set[tuple[int, int]]  # (place in the source, place in the target), both from 0


NO_SENTENCE = "expected at least one sentence, got none"


# Words


def right(guesses: Sequence[Sentence], references: Sequence[Sentence]) -> list[bool]:
    """For each sentence, whether every word is right."""
    if len(guesses) != len(references):
        raise ValueError(f"expected one guess for each of {len(references)} references, got {len(guesses)}")
    return [tuple(guess) == tuple(reference) for guess, reference in zip(guesses, references, strict=True)]


def exact_match(guesses: Sequence[Sentence], references: Sequence[Sentence]) -> float:
    """The share of sentences that are right to the last word."""
    return _share(right(guesses, references))


def bleu(guesses: Sequence[Sentence], references: Sequence[Sentence]) -> float:
    """BLEU of the whole corpus by sacrebleu, one reference a sentence, on tokens as they are (`tokenize="none"`)."""
    if not right(guesses, references):
        raise ValueError(NO_SENTENCE)
    joined = [[" ".join(sentence) for sentence in side] for side in (guesses, references)]
    # `force`: a full stop that stands alone is no sign of careless work here, the text is meant to be in tokens.
    return sacrebleu.corpus_bleu(joined[0], [joined[1]], tokenize="none", force=True).score


# Length


def accuracy_by_length(marks: Sequence[bool], lengths: Sequence[int]) -> list[dict]:
    """One row per length that occurs: length, count, exact (the share that is right)."""
    of_length = defaultdict(list)
    for mark, length in zip(marks, lengths, strict=True):
        of_length[length].append(mark)
    return [
        {"length": length, "count": len(found), "exact": _share(found)} for length, found in sorted(of_length.items())
    ]


def accuracy_by_quarter(marks: Sequence[bool], lengths: Sequence[int]) -> list[dict]:
    """Four rows, from the shortest quarter of the sentences to the longest: shortest, longest, count, exact.

    The quarters have the same size (or one sentence more); sentences of one length at a border are divided by their order.
    """
    order = sorted(range(len(marks)), key=lambda place: lengths[place])
    borders = [len(order) * quarter // 4 for quarter in range(5)]
    rows = []
    for start, stop in zip(borders, borders[1:], strict=False):
        part = order[start:stop]
        rows.append(
            {
                "shortest": lengths[part[0]],
                "longest": lengths[part[-1]],
                "count": len(part),
                "exact": _share([marks[place] for place in part]),
            }
        )
    return rows


def _share(marks: Sequence[bool]) -> float:
    return sum(marks) / len(marks)


# Alignment


def strongest_links(weights: Tensor, pair: Pair) -> Links:
    """For each target word the source word that had the highest weight when that word was named.

    weights (m, n), with m at least the French words and n at least the English ones: rows and columns beyond, the end tokens
    and padding, are left out. So exactly one link per target word, whether it deserves one or not.
    """
    words, places = len(pair.french), len(pair.english)
    best = weights[:words, :places].argmax(1).tolist()
    return {(place, word) for word, place in enumerate(best)}


def alignment_error(weights: Sequence[Tensor], pairs: Sequence[Pair]) -> float:
    """Alignment error rate of the strongest links over all pairs, every gold link a sure one.

    The weights must be those of the gold translation (teacher forcing): then every model names the same words, and where it
    looked is not mixed up with what it got wrong.
    """
    return error_rate([strongest_links(one, pair) for one, pair in zip(weights, pairs, strict=True)], pairs)


def error_rate(found: Sequence[Links], pairs: Sequence[Pair]) -> float:
    """1 - 2 |A ∩ S| / (|A| + |S|), A the links found and S the gold links, counted over all pairs."""
    both = [(links, set(pair.links)) for links, pair in zip(found, pairs, strict=True)]
    shared = sum(len(links & gold) for links, gold in both)
    size = sum(len(links) + len(gold) for links, gold in both)
    return 1 - 2 * shared / size


def alignment_floor(pairs: Sequence[Pair]) -> float:
    """The smallest error that one link per target word allows.

    A target word with several gold links can win only one of them, and a word with none gets a link all the same.
    """
    best = []
    for pair in pairs:
        linked = {word: (place, word) for place, word in pair.links}
        best.append({linked.get(word, (-1, word)) for word in range(len(pair.french))})
    return error_rate(best, pairs)


# Several seeds


def over_seeds(values: Sequence[float], digits: int | None = None) -> dict[str, float]:
    """One number per seed as {"median", "least", "most"}, rounded if `digits` says so."""
    found = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return found if digits is None else {name: round(value, digits) for name, value in found.items()}

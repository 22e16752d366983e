"""Metrics of machine translation: exact match, BLEU, accuracy by length, alignment error rate.

A sentence is a sequence of tokens without BOS and EOS. Accuracies and error rates lie between 0 and 1; BLEU between 0
and 100, as it is always reported.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence

import sacrebleu
from torch import Tensor

from utils.data.phrases import Pair

Sentence = Sequence[str]
Links = set[tuple[int, int]]  # (source position, target position), both from 0


# Sentences


def correct(translations: Sequence[Sentence], references: Sequence[Sentence]) -> list[bool]:
    """For each sentence, whether every token is correct."""
    return [tuple(words) == tuple(reference) for words, reference in zip(translations, references, strict=True)]


def exact_match(translations: Sequence[Sentence], references: Sequence[Sentence]) -> float:
    """The fraction of sentences with every token correct."""
    return statistics.fmean(correct(translations, references))


def bleu(translations: Sequence[Sentence], references: Sequence[Sentence]) -> float:
    """Corpus BLEU (Papineni et al., 2002) by sacrebleu, one reference per sentence, tokens unchanged."""
    hypotheses, targets = ([" ".join(sentence) for sentence in side] for side in (translations, references))
    # `force`: sacrebleu warns about a full stop that stands alone, but here the text is tokenized on purpose.
    return sacrebleu.corpus_bleu(hypotheses, [targets], tokenize="none", force=True).score


# Length


def accuracy_by_length(marks: Sequence[bool], lengths: Sequence[int]) -> list[dict]:
    """A row for each length that occurs: length, count, exact (the exact match)."""
    of_length = defaultdict(list)
    for mark, length in zip(marks, lengths, strict=True):
        of_length[length].append(mark)
    return [
        {"length": length, "count": len(marks), "exact": statistics.fmean(marks)}
        for length, marks in sorted(of_length.items())
    ]


def accuracy_by_quarter(marks: Sequence[bool], lengths: Sequence[int]) -> list[dict]:
    """Four rows, from the shortest quarter of the sentences to the longest: shortest, longest, count, exact.

    The quarters have the same size (or one sentence more); equal lengths at a border are divided by their order.
    """
    order = sorted(range(len(marks)), key=lambda index: lengths[index])
    borders = [len(order) * quarter // 4 for quarter in range(5)]
    quarters = [order[start:stop] for start, stop in zip(borders, borders[1:], strict=False)]
    return [
        {
            "shortest": lengths[quarter[0]],
            "longest": lengths[quarter[-1]],
            "count": len(quarter),
            "exact": statistics.fmean(marks[index] for index in quarter),
        }
        for quarter in quarters
    ]


# Alignment


def strongest_links(weights: Tensor, pair: Pair) -> Links:
    """For each target token a link to the source token with the largest attention weight (m, n).

    Rows and columns beyond the tokens of the pair, EOS and padding, are ignored.
    """
    sources = weights[: len(pair.french), : len(pair.english)].argmax(1).tolist()
    return {(source, target) for target, source in enumerate(sources)}


def alignment_error(weights: Sequence[Tensor], pairs: Sequence[Pair]) -> float:
    """Alignment error rate (Och and Ney, 2003) of the strongest links over all pairs; every gold link is sure.

    The weights are those of teacher forcing, so that all models predict the same tokens.
    """
    return error_rate([strongest_links(matrix, pair) for matrix, pair in zip(weights, pairs, strict=True)], pairs)


def error_rate(links: Sequence[Links], pairs: Sequence[Pair]) -> float:
    """1 - 2 |A ∩ S| / (|A| + |S|), A the links and S the gold links, counted over all pairs."""
    gold = [set(pair.links) for pair in pairs]
    shared = sum(len(a & s) for a, s in zip(links, gold, strict=True))
    return 1 - 2 * shared / (sum(map(len, links)) + sum(map(len, gold)))


def alignment_floor(pairs: Sequence[Pair]) -> float:
    """The smallest error with one link per target token: of several gold links only one can be correct, and a token
    without a gold link gets one all the same."""
    best = []
    for pair in pairs:
        linked = {target: (source, target) for source, target in pair.links}
        best.append({linked.get(target, (-1, target)) for target in range(len(pair.french))})
    return error_rate(best, pairs)


# Several seeds


def over_seeds(values: Sequence[float], digits: int | None = None) -> dict[str, float]:
    """One value per seed as {"median", "least", "most"}, rounded if `digits` is given."""
    summary = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return summary if digits is None else {name: round(value, digits) for name, value in summary.items()}

"""Facts about the metrics, on examples small enough to count by hand."""

import pytest
import torch

from utils.data.phrases import Pair
from utils.training.metrics import (
    accuracy_by_length,
    accuracy_by_quarter,
    alignment_error,
    alignment_floor,
    bleu,
    correct,
    exact_match,
    over_seeds,
)

# "the red car" / "la voiture rouge": one link each, the last two crossed.
CAR = Pair(("the", "red", "car"), ("la", "voiture", "rouge"), ((0, 0), (1, 2), (2, 1)))
# "I do not know" / "je ne sais pas": "not" is linked twice, and "sais" has two links.
KNOW = Pair(("i", "do", "not", "know"), ("je", "ne", "sais", "pas"), ((0, 0), (1, 2), (2, 1), (2, 3), (3, 2)))


def weights_at(sources, columns):
    """Rows with their largest weight at `sources`."""
    return torch.eye(columns)[list(sources)] * 0.5 + 0.1


# Words


def test_a_sentence_is_correct_only_if_every_token_is():
    translations = [["la", "voiture"], ["la", "voiture", "rouge"], ["la", "rouge", "voiture"], []]
    references = [("la", "voiture"), ("la", "voiture"), ("la", "voiture", "rouge"), ("la",)]
    assert correct(translations, references) == [True, False, False, False]
    assert exact_match(translations, references) == 0.25


def test_bleu_of_the_reference_is_100_and_without_a_shared_token_0():
    reference = [("le", "chat", "noir", "dort", "ici", ".")]
    assert bleu(reference, reference) == pytest.approx(100)
    assert bleu([["a", "b", "c", "d", "e", "f"]], reference) < 5
    assert bleu([[]], reference) == 0


def test_bleu_is_the_mean_of_the_four_precisions():
    """5 of 6 unigrams, 3 of 5 bigrams, 2 of 4 trigrams and 1 of 3 4-grams agree, and the lengths are equal."""
    reference, hypothesis = list("abcdef"), list("abcdxf")
    assert bleu([hypothesis], [reference]) == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, abs=1e-6)


def test_bleu_takes_tokens_as_they_are():
    """A tokenizer of sacrebleu would split "noir," and find no difference."""
    assert bleu([["le", "chat", "noir", ",", "ici"]], [["le", "chat", "noir,", "ici"]]) < 70


# Length


def test_accuracy_by_length_counts_each_length_once():
    rows = accuracy_by_length([True, False, True, True, False], [5, 3, 5, 4, 5])
    assert rows == [
        {"length": 3, "count": 1, "exact": 0.0},
        {"length": 4, "count": 1, "exact": 1.0},
        {"length": 5, "count": 3, "exact": 2 / 3},
    ]


def test_quarters_go_from_the_shortest_to_the_longest_and_have_one_size():
    lengths = [9, 2, 7, 3, 5, 8, 2, 6, 4]
    marks = [False, True, False, True, True, False, True, True, False]
    rows = accuracy_by_quarter(marks, lengths)
    assert [(row["shortest"], row["longest"], row["count"]) for row in rows] == [
        (2, 2, 2),
        (3, 4, 2),
        (5, 6, 2),
        (7, 9, 3),
    ]
    assert [row["exact"] for row in rows] == [1.0, 0.5, 1.0, 0.0]


# Alignment


def test_the_error_is_counted_over_all_pairs():
    """Three of three links correct in the first; in the second (0,0), (2,1), (3,2), and (3,3) wrong: 6 shared of 7 + 8."""
    weights = [weights_at([0, 2, 1], 3), weights_at([0, 2, 3, 3], 5)]
    assert alignment_error(weights[:1], [CAR]) == 0
    assert alignment_error(weights[1:], [KNOW]) == pytest.approx(1 - 2 * 3 / (4 + 5))
    assert alignment_error(weights, [CAR, KNOW]) == pytest.approx(1 - 2 * 6 / (7 + 8))


def test_the_floor_is_the_error_of_the_best_choice_of_one_link_per_token():
    assert alignment_floor([CAR]) == 0
    assert alignment_floor([KNOW]) == pytest.approx(1 - 2 * 4 / (4 + 5))  # one of the two links of "sais" is lost
    spare = Pair(("go",), ("va", "y"), ((0, 0),))  # "y" has no link, and is given one all the same
    assert alignment_floor([spare]) == pytest.approx(1 - 2 * 1 / (2 + 1))


@pytest.mark.parametrize("pair", [CAR, KNOW])
def test_no_weights_beat_the_floor(pair):
    m, n = len(pair.french), len(pair.english)
    choices = torch.cartesian_prod(*[torch.arange(n)] * m).tolist()
    errors = [alignment_error([weights_at(choice, n)], [pair]) for choice in choices]
    assert min(errors) == pytest.approx(alignment_floor([pair])) and len(errors) == n**m


def test_seeds_are_summarized_by_median_minimum_and_maximum():
    assert over_seeds([3.0, 1.04, 2.0, 9.0], 1) == {"median": 2.5, "least": 1.0, "most": 9.0}
    assert over_seeds([0.25]) == {"median": 0.25, "least": 0.25, "most": 0.25}

"""Facts about the published MiniLM in the course's encoder: senses part layer by layer, and what a pronoun does and does not show."""

import pytest
import torch

from utils.build.downloads import MINILM, fetch
from utils.models.bert import load_minilm
from utils.training.word_senses import (
    BY_FORM,
    BY_SENSE,
    SAME_AND_OTHER,
    SPRING,
    WATCH,
    looks_from,
    place_of,
    pronoun_looks,
    pronoun_report,
    sense_layers,
    similarity,
)


@pytest.fixture(scope="module")
def real():
    torch.set_num_threads(1)
    return load_minilm(fetch(MINILM))


def test_the_senses_part_layer_by_layer(real):
    watch, spring = sense_layers(real, *WATCH), sense_layers(real, *SPRING)
    margins = [layer.margin for layer in watch]
    assert len(margins) == 7 and margins == sorted(margins)
    # Before the first layer there is the word and its place, and no context yet.
    assert watch[0].layer == 0 and abs(margins[0]) < 0.02 and watch[0].mixed.least > 0.95
    assert margins[-1] >= 0.3 and watch[-1].first.least > watch[-1].mixed.most  # not only on average
    assert 0.1 < spring[-1].margin < margins[-1] and spring[-1].apart and not spring[0].apart


# --- pronouns ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("twins", [BY_FORM, BY_SENSE], ids=["form", "sense"])
def test_twins_differ_in_one_word_and_swap_the_nouns(twins):
    for one, two in twins:
        words, others = one.sentence.split(), two.sentence.split()
        assert len(words) == len(others) and sum(a != b for a, b in zip(words, others, strict=True)) == 1
        assert (one.meant, one.other) == (two.other, two.meant)


def test_looks_are_the_rows_of_the_weights(real):
    hidden = real.hidden_states(["The dog ate it.", "It was the largest dog of all."], need_weights=True)
    rows = looks_from(hidden, ["it", "it"])
    assert rows.shape == (2, 6, 12, hidden.numbers.size(1))
    assert torch.allclose(rows.sum(-1), torch.ones(2, 6, 12), atol=1e-5)
    assert torch.equal(rows[0, 4, 7], hidden.weights[4][0, 7, 4]) and torch.equal(
        rows[1, 2, 3], hidden.weights[2][1, 3, 1]
    )
    riddle = BY_SENSE[0][0]
    looks = pronoun_looks(real, [riddle])
    alone = real.hidden_states([riddle.sentence], need_weights=True)
    places = [place_of(alone.pieces[0], word) for word in ("it", riddle.meant, riddle.other)]
    assert torch.allclose(looks.meant[0, 3], alone.weights[3][0, :, places[0], places[1]], atol=1e-6)
    assert torch.allclose(looks.other[0, 3], alone.weights[3][0, :, places[0], places[2]], atol=1e-6)
    assert looks.even == pytest.approx(2 / len(alone.pieces[0]))


def test_heads_find_the_noun_that_fits_the_form_of_the_pronoun_also_where_they_were_not_chosen(real):
    for report in pronoun_report(real, BY_FORM):
        assert report.right_where_chosen == 1.0 and report.right_elsewhere >= 0.9 and report.both_elsewhere >= 0.75
        assert 0.4 < report.mean_right < 0.6  # most heads do something else


def test_no_head_finds_the_noun_that_only_the_sense_tells(real):
    """So little above chance that 24 sentences cannot tell it from luck; a picture of one sentence proves nothing."""
    for report in pronoun_report(real, BY_SENSE):
        assert report.right_elsewhere <= 0.75 and report.both_elsewhere <= 0.5
    looks = pronoun_looks(real, [riddle for pair in BY_SENSE for riddle in pair])
    assert looks.right().max() <= 17 / 24
    assert looks.nouns()[-1].mean() > 1.5 * looks.even  # the last layer does look at the nouns, at both


# --- sentences --------------------------------------------------------------------------------------------------


def test_similarity_is_a_cosine_of_each_with_each(real):
    texts = ["A cat sleeps.", "A kitten naps.", "Taxes were raised."]
    table = similarity(real, texts)
    assert torch.allclose(table, table.T, atol=1e-6) and torch.allclose(table.diagonal(), torch.ones(3), atol=1e-5)
    assert table[0, 1] > 0.5 > 0.2 > table[0, 2]
    assert torch.allclose(similarity(real, texts[:1], texts[1:]), table[:1, 1:], atol=1e-5)


def test_what_is_said_mostly_counts_more_than_the_words_it_is_said_with(real):
    wins = [
        (row[0] > row[1]).item()
        for row in (similarity(real, [one], [same, other])[0] for one, same, other in SAME_AND_OTHER)
    ]
    assert sum(wins) == 4 and len(wins) == 6

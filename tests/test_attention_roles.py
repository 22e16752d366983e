"""Facts about measuring what attention heads attend to: a head that is built to attend somewhere is measured there."""

import random

import pytest
import torch

from utils.data.agreements import MIN_LENGTH, agreements
from utils.data.phrase_words import ADJECTIVES, EVERY_NOUN
from utils.data.phrases import sentences
from utils.models.transformer import AttentionWeights, Transformer
from utils.training import attention_roles
from utils.training.attention_roles import (
    ablated_accuracy,
    adjective_forms,
    agreement_heads,
    agreement_weights,
    held_out_agreements,
    negation_weights,
    with_negation,
)
from utils.training.transformer import PairAttention, TrainedTransformer
from utils.training.translation import pairs_and_words

PAIRS = 300
NOUNS = {form for noun in EVERY_NOUN for form in (noun.english, noun.english_plural)}
QUALITIES = {adjective.english for adjective in ADJECTIVES}


@pytest.fixture(scope="module")
def cases():
    return agreements(60, seed=3)


@pytest.fixture(scope="module")
def untrained():
    torch.manual_seed(1)
    _, english, french = pairs_and_words(PAIRS)
    model = Transformer(len(english), len(french), 12, 3, 16, 2, norm_first=True, dropout=0.0)
    return TrainedTransformer(model, english, french)


# The sentences


def test_adjective_noun_and_attractors_are_at_their_positions(cases):
    for case in cases:
        english = case.pair.english
        assert english[case.adjective] in QUALITIES and english[case.noun] in NOUNS
        inside = range(case.noun + 1, case.adjective)
        assert case.attractors and set(case.attractors) == {
            position for position in inside if english[position] in NOUNS
        }


def test_the_adjective_agrees_with_its_noun(cases):
    """By the verb: "is" or "are" before the adjective goes with a singular or a plural noun."""
    plurals = {noun.english_plural for noun in EVERY_NOUN}
    singulars = {noun.english for noun in EVERY_NOUN}
    misleading = 0
    for case in cases:
        english = case.pair.english
        verb = next(word for word in reversed(english[: case.adjective]) if word in ("is", "are"))
        assert english[case.noun] in (plurals if verb == "are" else singulars)
        misleading += any(english[index] not in (plurals if verb == "are" else singulars) for index in case.attractors)
    assert misleading > 10, "in some sentences an attractor would need another form"


def test_agreements_are_different_new_and_the_same_each_time(cases):
    english = [case.pair.english for case in cases]
    assert len(set(english)) == 60 and min(map(len, english)) >= MIN_LENGTH
    assert agreements(60, seed=3) == cases and agreements(20, seed=4) != cases[:20]
    without = agreements(40, seed=3, without=set(english[:25]))
    assert not {case.pair.english for case in without} & set(english[:25])


def test_held_out_sentences_are_no_training_sentences():
    train = {pair.english for pair in pairs_and_words(PAIRS)[0].train}
    assert not train & {case.pair.english for case in held_out_agreements(30, 1, PAIRS)}


# Agreement


def made_up(case, on_noun, on_attractor):
    """Attention of a single head with the weight `on_noun` on the noun and `on_attractor` on each attractor."""
    pair = case.pair
    n, m = len(pair.english) + 1, len(pair.french) + 1
    adjective = case.french(case.adjective)
    maps = []
    for shape, row, french in (((n, n), case.adjective, False), ((m, m), adjective, True), ((m, n), adjective, False)):
        weights = torch.zeros(1, *shape)
        nouns = [case.french(position) if french else position for position in (case.noun, *case.attractors)]
        weights[0, row, nouns[0]] = on_noun
        weights[0, row, nouns[1:]] = on_attractor
        maps.append([torch.zeros(1, *shape), weights])
    return PairAttention((), (), (), AttentionWeights(*maps))


def test_weights_are_taken_from_the_correct_row_and_column(cases):
    few = cases[:8]
    weights = agreement_weights(few, [made_up(case, 0.6, 0.1) for case in few])
    for name in ("encoder", "decoder", "cross"):
        assert weights[name]["noun"].flatten().tolist() == pytest.approx([0.0, 0.6])
        assert weights[name]["attractors"].flatten().tolist() == pytest.approx([0.0, 0.1])
    sizes = [len(case.pair.english) + 1 for case in few]
    assert weights["encoder"]["uniform"] == weights["cross"]["uniform"] == pytest.approx(sum(1 / n for n in sizes) / 8)
    visible = [case.french(case.adjective) + 1 for case in few]
    assert weights["decoder"]["uniform"] == pytest.approx(sum(1 / n for n in visible) / 8)


def test_a_head_is_selected_on_some_sentences_and_tested_on_others(untrained, monkeypatch):
    calls = []

    def weights(cases, attended):
        calls.append({case.pair.english for case in cases})
        first = len(calls) == 1
        noun = torch.tensor([[0.1, 0.2], [0.9, 0.3]]) if first else torch.tensor([[0.8, 0.2], [0.4, 0.3]])
        return {name: {"noun": noun, "attractors": noun / 4, "uniform": 0.1} for name in attention_roles.ATTENTIONS}

    monkeypatch.setattr(attention_roles, "agreement_weights", weights)
    rows = agreement_heads(untrained, PAIRS, count=10)
    assert len(calls) == 2 and not calls[0] & calls[1]
    assert [row["attention"] for row in rows] == ["encoder", "decoder", "cross"]
    for row in rows:
        assert (row["layer"], row["head"]) == (1, 0)
        assert (row["noun"], row["attractors"], row["uniform"]) == pytest.approx((0.4, 0.1, 0.1))


class Needy:
    """A model that predicts the adjective correctly only if its position may attend to certain others, else token 0."""

    def __init__(self, trained, cases, needs):
        self.trained, self.cases, self.needs, self.masks = trained, cases, needs, {}

    def source_embedding(self, token_ids):
        return token_ids

    target_embedding = source_embedding

    def encoder(self, x, mask):
        self.masks["encoder"] = mask
        return x, None

    def decoder(self, x, memory, mask, memory_mask):
        self.masks |= {"decoder": mask, "cross": memory_mask}
        return torch.arange(len(x))[:, None].expand(x.shape), None, None  # each position knows its row

    def lm_head(self, rows):
        logits = torch.zeros(len(rows), len(self.trained.french))
        for row, case in enumerate(self.cases):
            name, links = self.needs(case)
            if all(self.masks[name][row, query, key] for query, key in links):
                word = case.pair.french[case.french(case.adjective)]
                logits[row, self.trained.french.encode([word])[0]] = 1.0
        return logits


NEEDS = {
    "noun_output": lambda case: ("decoder", [(case.french(case.adjective), case.french(case.noun))]),
    "noun_input": lambda case: ("decoder", [(case.french(case.adjective), case.french(case.noun) + 1)]),
    "encoder": lambda case: ("encoder", [(case.adjective, case.noun)]),
    "cross": lambda case: ("cross", [(case.french(case.adjective), case.noun)]),
}


@pytest.mark.parametrize("needed", NEEDS)
def test_masking_a_position_hurts_only_the_model_that_needs_it(cases, untrained, needed):
    few = cases[:8]
    model = TrainedTransformer.__new__(TrainedTransformer)
    model.model, model.english, model.french = Needy(untrained, few, NEEDS[needed]), untrained.english, untrained.french
    accuracy = ablated_accuracy(model, few)
    assert accuracy == {name: float(name != needed) for name in ("none", *NEEDS)}


def test_an_adjective_has_the_form_of_its_noun_and_another_for_the_other_gender(cases):
    nouns = {form: noun for noun in EVERY_NOUN for form in (noun.english, noun.english_plural)}
    for case in cases:
        both, feminine = adjective_forms(case), nouns[case.pair.english[case.noun]].feminine
        assert both[feminine] == case.pair.french[case.french(case.adjective)]
    differing = [set(adjective_forms(case)) for case in cases if len(set(adjective_forms(case))) == 2]
    assert len(differing) > 20 and {"petit", "petite"} in differing
    assert any(len(set(adjective_forms(case))) == 1 for case in cases), "some have one form for both"


# Negation


class Gold:
    """Attends to the gold links of each word."""

    def weights(self, pairs):
        maps = []
        for pair in pairs:
            weights = torch.zeros(len(pair.french) + 1, len(pair.english) + 1)
            for english, french in pair.links:
                weights[french, english] = 1.0
            maps.append(weights)
        return maps


def test_gold_alignment_puts_the_whole_weight_on_the_negation():
    pairs = pairs_and_words(PAIRS)[0].test
    weights = negation_weights(Gold(), pairs)
    assert weights["first"] == weights["second"] == 1.0 and weights["elsewhere"] == 0.0
    assert weights["count"] == len(with_negation(pairs)) > 20 and 0 < weights["uniform"] < 0.3


def test_every_french_negation_is_known():
    """Each sentence with one negation has exactly one word of each half, linked to it."""
    for pair in with_negation(sentences(300, {words: 1 for words in range(6, 15)}, random.Random(1), set())):
        negation = next(index for index, word in enumerate(pair.english) if word in attention_roles.NEGATIONS)
        linked = [pair.french[french] for english, french in pair.links if english == negation]
        assert len(linked) == 2 and linked[0] in attention_roles.FIRST and linked[1] in attention_roles.SECOND

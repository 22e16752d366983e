"""Facts about measuring what attentions are used for: a head that is built to look somewhere is found to look there."""

import random

import pytest
import torch

from utils.data.agreements import MIN_LENGTH, agreements
from utils.data.phrase_words import ADJECTIVES, EVERY_NOUN
from utils.data.phrases import sentences
from utils.models.transformer import Looks, Transformer
from utils.training import attention_roles
from utils.training.attention_roles import (
    accuracy_without_links,
    agreement_accuracy,
    agreement_heads,
    agreement_shares,
    forms,
    held_out_agreements,
    negation_shares,
    with_negation,
)
from utils.training.transformer import Reading, TrainedTransformer
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
    model = Transformer(len(english), len(french), dim=12, heads=3, hidden=16, layers=2, norm="pre", dropout=0.0)
    return TrainedTransformer(model, english, french)


# The sentences


def test_adjective_noun_and_the_nouns_between_are_where_they_are_said_to_be(cases):
    for case in cases:
        english = case.pair.english
        assert english[case.adjective] in QUALITIES and english[case.noun] in NOUNS
        inside = range(case.noun + 1, case.adjective)
        assert case.attractors and set(case.attractors) == {place for place in inside if english[place] in NOUNS}


def test_the_adjective_agrees_with_the_noun_that_is_called_its_own(cases):
    """Told by the verb: "is" or "are" before the adjective goes with a singular or a plural noun."""
    plurals = {noun.english_plural for noun in EVERY_NOUN}
    singulars = {noun.english for noun in EVERY_NOUN}
    told = 0
    for case in cases:
        english = case.pair.english
        verb = next(word for word in reversed(english[: case.adjective]) if word in ("is", "are"))
        assert english[case.noun] in (plurals if verb == "are" else singulars)
        told += any(english[place] not in (plurals if verb == "are" else singulars) for place in case.attractors)
    assert told > 10, "in some sentences a noun in between would ask for another form"


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


def made_up(case, own, other):
    """A reading whose only head gives `own` to the adjective's noun, `other` to each noun in between."""
    pair = case.pair
    n, m = len(pair.english) + 1, len(pair.french) + 1
    said = case.french(case.adjective)
    maps = []
    for shape, row, shift in (((n, n), case.adjective, False), ((m, m), said, True), ((m, n), said, False)):
        weights = torch.zeros(1, *shape)
        places = [case.french(place) if shift else place for place in (case.noun, *case.attractors)]
        weights[0, row, places[0]] = own
        for place in places[1:]:
            weights[0, row, place] = other
        maps.append([torch.zeros(1, *shape), weights])
    return Reading((), (), (), Looks(*maps))


def test_shares_are_read_from_the_right_row_and_column(cases):
    few = cases[:8]
    shares = agreement_shares(few, [made_up(case, 0.6, 0.1) for case in few])
    for name in ("encoder", "decoder", "cross"):
        assert shares[name]["own"].flatten().tolist() == pytest.approx([0.0, 0.6])
        assert shares[name]["between"].flatten().tolist() == pytest.approx([0.0, 0.1])
    sizes = [len(case.pair.english) + 1 for case in few]
    assert shares["encoder"]["chance"] == shares["cross"]["chance"] == pytest.approx(sum(1 / n for n in sizes) / 8)
    seen = [case.french(case.adjective) + 1 for case in few]
    assert shares["decoder"]["chance"] == pytest.approx(sum(1 / n for n in seen) / 8)


def test_a_head_is_chosen_on_some_sentences_and_judged_on_others(untrained, monkeypatch):
    asked = []

    def shares(cases, read):
        asked.append({case.pair.english for case in cases})
        first = len(asked) == 1
        own = torch.tensor([[0.1, 0.2], [0.9, 0.3]]) if first else torch.tensor([[0.8, 0.2], [0.4, 0.3]])
        return {name: {"own": own, "between": own / 4, "chance": 0.1} for name in attention_roles.ATTENTIONS}

    monkeypatch.setattr(attention_roles, "agreement_shares", shares)
    rows = agreement_heads(untrained, PAIRS, count=10)
    assert len(asked) == 2 and not asked[0] & asked[1]
    assert [row["attention"] for row in rows] == ["encoder", "decoder", "cross"]
    for row in rows:
        assert (row["layer"], row["head"]) == (1, 0)
        assert (row["own"], row["between"], row["chance"]) == pytest.approx((0.4, 0.1, 0.1))


class Needy:
    """A model that names the adjective rightly as long as its place may look at one other, and names word 0 otherwise."""

    def __init__(self, trained, cases, needs):
        self.trained, self.cases, self.needs, self.masks = trained, cases, needs, {}

    def source_vectors(self, words):
        return words

    target_vectors = source_vectors

    def encoder(self, x, mask):
        self.masks["encoder"] = mask
        return x, None

    def decoder(self, x, memory, mask, memory_mask):
        self.masks |= {"decoder": mask, "cross": memory_mask}
        return torch.arange(len(x))[:, None].expand(x.shape), None, None  # each place knows its row

    def output(self, rows):
        logits = torch.zeros(len(rows), len(self.trained.french))
        for row, case in enumerate(self.cases):
            name, looks = self.needs(case)
            if all(self.masks[name][row, place, at] for place, at in looks):
                word = case.pair.french[case.french(case.adjective)]
                logits[row, self.trained.french.encode([word])[0]] = 1.0
        return logits


NEEDS = {
    "said": lambda case: ("decoder", [(case.french(case.adjective), case.french(case.noun))]),
    "read": lambda case: ("decoder", [(case.french(case.adjective), case.french(case.noun) + 1)]),
    "encoder": lambda case: ("encoder", [(case.adjective, case.noun)]),
    "cross": lambda case: ("cross", [(case.french(case.adjective), case.noun)]),
}


@pytest.mark.parametrize("needed", NEEDS)
def test_a_look_that_the_model_needs_is_the_one_that_is_missed(cases, untrained, needed):
    few = cases[:8]
    model = TrainedTransformer.__new__(TrainedTransformer)
    model.model, model.english, model.french = Needy(untrained, few, NEEDS[needed]), untrained.english, untrained.french
    shares = accuracy_without_links(model, few)
    assert shares == {name: float(name != needed) for name in ("nothing", *NEEDS)}
    assert agreement_accuracy(model, few) == 1.0


def test_an_adjective_has_the_form_of_its_noun_and_another_for_the_other_gender(cases):
    nouns = {form: noun for noun in EVERY_NOUN for form in (noun.english, noun.english_plural)}
    for case in cases:
        both, feminine = forms(case), nouns[case.pair.english[case.noun]].feminine
        assert both[feminine] == case.pair.french[case.french(case.adjective)]
    differing = [set(forms(case)) for case in cases if len(set(forms(case))) == 2]
    assert len(differing) > 20 and {"petit", "petite"} in differing
    assert any(len(set(forms(case))) == 1 for case in cases), "some have one form for both"


# Negation


class Gold:
    """Looks at what each word is linked to."""

    def weights(self, pairs):
        found = []
        for pair in pairs:
            weights = torch.zeros(len(pair.french) + 1, len(pair.english) + 1)
            for place, word in pair.links:
                weights[word, place] = 1.0
            found.append(weights)
        return found


def test_who_looks_at_the_gold_links_gives_the_whole_weight_to_the_negation():
    pairs = pairs_and_words(PAIRS)[0].test
    found = negation_shares(Gold(), pairs)
    assert found["first"] == found["second"] == 1.0 and found["elsewhere"] == 0.0
    assert found["count"] == len(with_negation(pairs)) > 20 and 0 < found["chance"] < 0.3


def test_every_french_negation_is_known():
    """Each sentence with one negation has exactly one word of each half, linked to it."""
    for pair in with_negation(sentences(300, {words: 1 for words in range(6, 15)}, random.Random(1), set())):
        denial = next(place for place, word in enumerate(pair.english) if word in attention_roles.DENIALS)
        linked = [pair.french[french] for english, french in pair.links if english == denial]
        assert len(linked) == 2 and linked[0] in attention_roles.FIRST and linked[1] in attention_roles.SECOND

"""Facts about what several heads can do and how that is measured."""

import math

import pytest
import torch

from utils.data.phrases import Pair
from utils.models.encoder import Encoder
from utils.training.heads import (
    accuracy_with,
    all_heads,
    answers_with,
    cka,
    form_data,
    forms_of,
    head_costs,
    jensen_shannon,
    kind_of,
    looks_of,
    restore_forms,
    train_forms,
    train_two_places,
    two_places,
    without_each,
)

SMALL = {"dim": 32, "steps": 200, "tokens": 200, "count": 1000, "tested": 100, "measured": 2}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Two places


def test_the_answer_is_the_letter_at_mark_1_and_then_the_letter_at_mark_2():
    letters, marks, wanted = two_places(500, 7, 5, generator())
    assert letters.shape == marks.shape == (500, 7) and set(letters.flatten().tolist()) == set(range(5))
    for row in range(500):
        places = [(marks[row] == mark).nonzero().flatten().tolist() for mark in (1, 2)]
        assert [len(one) for one in places] == [1, 1]
        assert wanted[row].tolist() == [letters[row, one[0]].item() for one in places]
    first, second = ((marks == mark).int().argmax(1) for mark in (1, 2))
    assert 0.4 < (first < second).float().mean() < 0.6


@pytest.fixture(scope="module")
def pairs():
    return {heads: train_two_places(heads, 3) for heads in (1, 2, 8)}


def test_one_head_fails_at_the_ordered_pair_and_two_solve_it(pairs):
    one, two, eight = pairs[1], pairs[2], pairs[8]
    assert one["chance"] == 1 / 64 and one["guess"] == 1 / 8
    assert one["accuracy"].max() < 0.6 and two["accuracy"].min() >= 0.99 and eight["accuracy"].min() >= 0.99
    # One letter of the two it always knows; which one, is up to the seed.
    assert one["each"].amax(1).min() > 0.95
    assert one["parameters"] == two["parameters"] == eight["parameters"]


# How much heads differ


def test_the_divergence_is_0_for_equal_maps_and_log_2_for_maps_that_share_no_place():
    one, other = torch.rand(2, 3, 5, generator=generator()).softmax(-1)
    assert jensen_shannon(one, one).abs().max() < 1e-6
    assert torch.allclose(jensen_shannon(one, other), jensen_shannon(other, one))
    apart = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.2, 0.8]])
    assert jensen_shannon(apart[0], apart[1]).item() == pytest.approx(math.log(2), abs=1e-6)
    # By hand: half of the weight in common.
    half = jensen_shannon(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 0.5, 0.5])).item()
    assert half == pytest.approx(math.log(2) / 2, abs=1e-6)


def test_the_alignment_is_1_for_turned_moved_and_scaled_copies_and_small_for_strangers():
    x, y = torch.randn(2, 2000, 6, generator=generator(), dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(6, 6, generator=generator(1), dtype=torch.float64))[0]
    assert cka(x, 3 * x @ turn + 5).item() == pytest.approx(1, abs=1e-9)
    assert cka(x, y).item() < 0.02
    assert 0.3 < cka(x, x + y).item() < 0.8


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_what_the_heads_add_sums_up_to_what_the_layer_adds(norm):
    torch.manual_seed(0)
    encoder = Encoder(2, 12, 3, 20, norm=norm).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    looks, (_, weights) = looks_of(encoder, x), encoder(x, need_weights=True)
    for look, layer, shown in zip(looks, encoder.layers, weights, strict=True):
        assert torch.allclose(look.weights, shown)
        assert torch.allclose(look.weights @ _values(layer, x, norm), look.found)
        source = layer.attention_norm(x) if norm == "pre" else x
        assert torch.allclose(look.added.sum(1) + layer.attention.mix.bias, layer.attention(source)[0])
        x = layer(x)[0]


def _values(layer, x, norm):
    return layer.attention.queries_keys_values(layer.attention_norm(x) if norm == "pre" else x)[2]


# The right form


def test_the_form_of_a_word_is_what_it_is_linked_to():
    pair = Pair(("the", "man", "does", "not", "sleep"), ("l'", "homme", "ne", "dort", "pas"),
                ((0, 0), (1, 1), (2, 3), (3, 2), (3, 4), (4, 3)))  # fmt: skip
    assert forms_of(pair) == ["l'", "homme", "dort", "ne pas", "dort"]
    assert [kind_of(word) for word in ("an", "old", "sees", "for", "does", "of", "queen")] == [
        "article", "adjective", "verb", "verb", "verb", "other", "other"]  # fmt: skip


def test_test_sentences_are_new_and_have_only_known_words_and_forms():
    data = form_data(500, 80)
    flat = {tuple(row) for tokens, _ in data.train.values() for row in tokens.tolist()}
    held = [tuple(row) for tokens, _ in data.test.values() for row in tokens.tolist()]
    assert len(flat) == 500 and len(held) == len(data.pairs) > 40 and not flat & set(held)
    assert max(data.train) <= 12
    for pair in data.pairs:
        tokens, forms = data.test[len(pair.english)]
        row = tokens.tolist().index(data.words.encode(pair.english))
        assert [data.forms[number] for number in forms[row].tolist()] == forms_of(pair)


@pytest.fixture(scope="module")
def tagged():
    return train_forms(4, 2, **SMALL)


def test_the_tagger_learns_and_its_heads_are_looked_at_from_the_start(tagged):
    assert tagged["at"] == [0, 100, 200]
    assert all(tagged[name].shape == (3, 2, 2, 6) for name in ("divergence", "cka", "cosine"))
    assert tagged["accuracy_at"][0].max() < 0.1 and torch.equal(tagged["accuracy_at"][-1], tagged["accuracy"])
    assert tagged["accuracy"].min() > tagged["usual"] + 0.1


def test_a_kept_tagger_is_restored_as_it_was(tagged):
    for place in range(2):
        model, data = restore_forms(tagged, place)
        found = accuracy_with(model, None, data)
        assert found["accuracy"] == pytest.approx(tagged["accuracy"][place].item())
        assert list(found["by_kind"].values()) == pytest.approx(tagged["by_kind"][place].tolist())
        assert accuracy_with(model, all_heads(model), data) == found


def test_removing_a_head_is_what_a_model_without_its_output_does(tagged):
    model, data = restore_forms(tagged, 1)
    for layer, head, switches in list(without_each(model))[::3]:
        assert switches.sum() == 7 and switches[layer, head] == 0
        cut, _ = restore_forms(tagged, 1)
        with torch.no_grad():
            cut.encoder.layers[layer].attention.mix.weight[:, 8 * head : 8 * (head + 1)] = 0
        expected = accuracy_with(cut, None, data)
        assert accuracy_with(model, switches, data) == expected
        assert tagged["removal"]["without"][1, layer, head].item() == pytest.approx(expected["accuracy"])
        assert tagged["removal"]["by_kind"][1, layer, head].tolist() == pytest.approx(
            list(expected["by_kind"].values())
        )


def test_one_sentence_gets_the_answers_that_the_accuracy_counts(tagged):
    model, data = restore_forms(tagged)
    off = [[1, 0, 1, 1], [1, 1, 1, 0]]
    wrong = 0
    for pair in data.pairs:
        found = answers_with(model, pair.english, off, data)
        wrong += sum(
            several and said != form
            for said, form, several in zip(found["forms"], forms_of(pair), found["several"], strict=True)
        )
    expected = accuracy_with(model, off, data)
    assert wrong == round((1 - expected["accuracy"]) * expected["words"])
    assert found["weights"].shape == (2, 4, len(pair.english), len(pair.english))
    assert torch.allclose(found["weights"].sum(-1), torch.ones(2, 4, len(pair.english)))
    assert all(0 < sure <= 1 for sure in found["sure"])


# Costs


def test_more_heads_have_the_same_parameters_and_products_and_more_scores():
    rows = head_costs((1, 2, 4), dim=16, n=12, batch=3, repeats=2)
    assert {row["parameters"] for row in rows} == {4 * 16 * 17}
    assert {row["products"] for row in rows} == {3 * (4 * 12 * 16 * 16 + 2 * 12 * 12 * 16)}
    assert [row["exponentials"] for row in rows] == [3 * 144, 6 * 144, 12 * 144]

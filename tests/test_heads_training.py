"""Facts about the experiments on multi-head attention: what several heads can do, how they differ, head ablation."""

import math

import pytest
import torch

from utils.data.phrases import Pair
from utils.models.layers import TransformerEncoder
from utils.training.heads import (
    LENGTH,
    NUM_LETTERS,
    cka,
    form_accuracy,
    form_data,
    forms_of,
    head_costs,
    head_outputs,
    jensen_shannon,
    load_form_tagger,
    pos_tag,
    predict_forms,
    train_form_tagger,
    train_two_positions,
    two_positions,
)

SMALL = {"dim": 32, "steps": 200, "batch_tokens": 200, "num_train": 1000, "num_test": 100, "num_evaluations": 2}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Two marked positions


def test_the_target_is_the_letter_at_mark_1_and_then_the_letter_at_mark_2():
    letters, marks, pairs = two_positions(500, generator())
    assert letters.shape == marks.shape == (500, LENGTH) and letters.unique().tolist() == list(range(NUM_LETTERS))
    for row in range(500):
        positions = [(marks[row] == mark).nonzero().flatten().tolist() for mark in (1, 2)]
        assert [len(position) for position in positions] == [1, 1]
        assert pairs[row].tolist() == [letters[row, position[0]].item() for position in positions]
    first, second = ((marks == mark).int().argmax(1) for mark in (1, 2))
    assert 0.4 < (first < second).float().mean() < 0.6


def test_one_head_fails_at_the_ordered_pair_and_two_heads_solve_it():
    results = {num_heads: train_two_positions(num_heads, 3) for num_heads in (1, 2, 8)}
    assert results[1]["chance"] == 1 / 64 and results[1]["accuracy"].max() < 0.6
    assert results[2]["accuracy"].min() >= 0.99 and results[8]["accuracy"].min() >= 0.99
    # One of the two letters is always predicted correctly; which one depends on the seed.
    assert results[1]["letter_accuracy"].amax(1).min() > 0.95
    assert len({result["parameters"] for result in results.values()}) == 1


# How much heads differ


def test_the_divergence_is_0_for_equal_distributions_and_log_2_for_disjoint_ones():
    p, q = torch.rand(2, 3, 5, generator=generator()).softmax(-1)
    assert jensen_shannon(p, p).abs().max() < 1e-6
    assert torch.allclose(jensen_shannon(p, q), jensen_shannon(q, p))
    disjoint = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.2, 0.8]])
    assert jensen_shannon(disjoint[0], disjoint[1]).item() == pytest.approx(math.log(2), abs=1e-6)
    # By hand: half of the probability in common.
    half = jensen_shannon(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 0.5, 0.5])).item()
    assert half == pytest.approx(math.log(2) / 2, abs=1e-6)


def test_cka_is_1_for_rotated_translated_and_scaled_copies_and_small_for_independent_features():
    x, y = torch.randn(2, 2000, 6, generator=generator(), dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=generator(1), dtype=torch.float64))[0]
    assert cka(x, 3 * x @ rotation + 5).item() == pytest.approx(1, abs=1e-9)
    assert cka(x, y).item() < 0.02
    assert 0.3 < cka(x, x + y).item() < 0.8


@pytest.mark.parametrize("norm_first", [True, False])
@torch.no_grad()
def test_the_contributions_of_the_heads_sum_to_the_output_of_the_layer(norm_first):
    torch.manual_seed(0)
    encoder = TransformerEncoder(2, 12, 3, 20, norm_first=norm_first).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    _, weights = encoder(x, need_weights=True)
    for outputs, layer, expected in zip(head_outputs(encoder, x), encoder.layers, weights, strict=True):
        layer_input = layer.norm1(x) if norm_first else x
        assert torch.allclose(outputs.weights, expected)
        assert torch.allclose(outputs.weights @ layer.self_attn.project(layer_input)[2], outputs.context)
        total = outputs.contribution.sum(1) + layer.self_attn.out_proj.bias
        assert torch.allclose(total, layer.self_attn(layer_input)[0])
        x = layer(x)[0]


# French forms


def test_the_form_of_a_word_is_what_it_is_aligned_with():
    pair = Pair(("the", "man", "does", "not", "sleep"), ("l'", "homme", "ne", "dort", "pas"),
                ((0, 0), (1, 1), (2, 3), (3, 2), (3, 4), (4, 3)))  # fmt: skip
    assert forms_of(pair) == ["l'", "homme", "dort", "ne pas", "dort"]
    assert [pos_tag(word) for word in ("an", "old", "sees", "for", "does", "of", "queen")] == [
        "article", "adjective", "verb", "verb", "verb", "other", "other"]  # fmt: skip


def test_test_sentences_are_not_in_training_and_have_only_known_words_and_forms():
    data = form_data(500, 80)
    train = {tuple(row) for token_ids, _ in data.train.values() for row in token_ids.tolist()}
    test = [tuple(row) for token_ids, _ in data.test.values() for row in token_ids.tolist()]
    assert len(train) == 500 and len(test) == len(data.test_pairs) > 40 and not train & set(test)
    assert max(data.train) <= 12
    for pair in data.test_pairs:
        token_ids, forms = data.test[len(pair.english)]
        row = token_ids.tolist().index(data.vocabulary.encode(pair.english))
        assert [data.forms[index] for index in forms[row].tolist()] == forms_of(pair)


@pytest.fixture(scope="module")
def trained():
    return train_form_tagger(4, 2, **SMALL)


def test_the_tagger_beats_the_most_frequent_form_and_heads_are_compared_from_initialization_on(trained):
    assert trained["eval_steps"] == [0, 100, 200]
    assert all(trained[name].shape == (3, 2, 2, 6) for name in ("divergence", "cka", "cosine"))
    assert trained["accuracy_at"][0].max() < 0.1 and torch.equal(trained["accuracy_at"][-1], trained["accuracy"])
    assert trained["accuracy"].min() > trained["baseline"] + 0.1


def test_a_loaded_tagger_has_the_accuracy_of_its_seed(trained):
    for index in range(2):
        model, data = load_form_tagger(trained, index)
        result = form_accuracy(model, data)
        assert result["accuracy"] == pytest.approx(trained["accuracy"][index].item())
        assert result["by_pos"] == pytest.approx(trained["by_pos"][index].tolist())
        assert form_accuracy(model, data, torch.ones(2, 4)) == result


def test_ablating_a_head_is_the_same_as_zeros_in_its_columns_of_the_output_projection(trained):
    model, data = load_form_tagger(trained, 1)
    for layer, head in ((0, 0), (0, 3), (1, 2)):
        head_mask = torch.ones(2, 4)
        head_mask[layer, head] = 0
        pruned, _ = load_form_tagger(trained, 1)
        with torch.no_grad():
            pruned.encoder.layers[layer].self_attn.out_proj.weight[:, 8 * head : 8 * (head + 1)] = 0
        expected = form_accuracy(pruned, data)
        assert form_accuracy(model, data, head_mask) == expected
        assert trained["ablation"]["without_head"][1, layer, head].item() == pytest.approx(expected["accuracy"])


def test_the_accuracy_counts_the_predictions_for_ambiguous_words(trained):
    model, data = load_form_tagger(trained)
    head_mask = [[1, 0, 1, 1], [1, 1, 1, 0]]
    errors = 0
    for pair in data.test_pairs:
        prediction = predict_forms(model, data, pair.english, head_mask)
        rows = zip(prediction["forms"], forms_of(pair), prediction["ambiguous"], strict=True)
        errors += sum(ambiguous and predicted != form for predicted, form, ambiguous in rows)
    result = form_accuracy(model, data, head_mask)
    assert errors == round((1 - result["accuracy"]) * result["num_words"])
    assert prediction["weights"].shape == (2, 4, len(pair.english), len(pair.english))
    assert torch.allclose(prediction["weights"].sum(-1), torch.ones(2, 4, len(pair.english)))


def test_a_word_that_is_not_in_the_corpus_is_refused(trained):
    model, data = load_form_tagger(trained)
    with pytest.raises(ValueError, match="zebra"):
        predict_forms(model, data, ["the", "zebra"])


# Costs


def test_more_heads_have_the_same_parameters_and_products_and_more_scores():
    rows = head_costs((1, 2, 4), dim=16, n=12, batch=3, repeats=2)
    assert {row["parameters"] for row in rows} == {4 * 16 * 17}
    assert {row["products"] for row in rows} == {3 * (4 * 12 * 16 * 16 + 2 * 12 * 12 * 16)}
    assert [row["exponentials"] for row in rows] == [3 * 144, 6 * 144, 12 * 144]

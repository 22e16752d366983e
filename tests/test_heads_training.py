"""Facts about the experiments on multi-head attention: what several heads can do, how they differ, head ablation."""

import math

import pytest
import torch

from utils.data.phrases import Pair
from utils.models.language_models import parameter_count
from utils.models.layers import TransformerEncoder
from utils.training.heads import (
    COST_BATCH,
    COST_DIM,
    COST_LENGTH,
    LENGTH,
    MAX_WORDS,
    NUM_LETTERS,
    NUM_TRAIN,
    TwoPositions,
    cka,
    form_accuracy,
    form_data,
    forms_of,
    head_costs,
    head_outputs,
    jensen_shannon,
    load_form_tagger,
    predict_forms,
    train_form_tagger,
    train_two_positions,
    two_positions,
)


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
    assert len({parameter_count(TwoPositions(num_heads, "marks", "zeros")) for num_heads in results}) == 1


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
def test_the_outputs_of_the_heads_make_the_output_of_the_layer(norm_first):
    torch.manual_seed(0)
    encoder = TransformerEncoder(2, 12, 3, 20, norm_first=norm_first).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    _, weights = encoder(x, need_weights=True)
    for (head_weights, context), layer, expected in zip(head_outputs(encoder, x), encoder.layers, weights, strict=True):
        layer_input = layer.norm1(x) if norm_first else x
        assert torch.allclose(head_weights, expected)
        output = layer.self_attn.out_proj(context.transpose(1, 2).flatten(2))
        assert torch.allclose(output, layer.self_attn(layer_input)[0])
        x = layer(x)[0]


# French forms


def test_the_form_of_a_word_is_what_it_is_aligned_with():
    pair = Pair(("the", "man", "does", "not", "sleep"), ("l'", "homme", "ne", "dort", "pas"),
                ((0, 0), (1, 1), (2, 3), (3, 2), (3, 4), (4, 3)))  # fmt: skip
    assert forms_of(pair) == ["l'", "homme", "dort", "ne pas", "dort"]


def words_of(data, token_ids):
    return [data.vocabulary.words[token_id] for token_id in token_ids.tolist()]


def test_test_sentences_are_not_in_training_and_no_sentence_is_too_long():
    data = form_data()
    train = {tuple(row) for token_ids, _ in data.train.values() for row in token_ids.tolist()}
    test = {tuple(row) for token_ids, _ in data.test.values() for row in token_ids.tolist()}
    assert len(train) == NUM_TRAIN and len(test) > 200 and not train & test
    assert max([*data.train, *data.test]) <= MAX_WORDS


@pytest.fixture(scope="module")
def trained():
    return train_form_tagger(4, 2, steps=150)


def test_the_tagger_beats_the_most_frequent_form_and_heads_are_compared_from_initialization_on(trained):
    assert trained["eval_steps"] == [0, 30, 60, 90, 120, 150]
    assert all(trained[name].shape == (6, 2, 2, 6) for name in ("divergence", "cka"))
    assert trained["accuracy"].min() > trained["baseline"] + 0.1


def test_a_loaded_tagger_has_the_accuracy_of_the_first_seed(trained):
    model, data = load_form_tagger(trained)
    assert form_accuracy(model, data) == pytest.approx(trained["accuracy"][0].item())
    assert form_accuracy(model, data, torch.ones(2, 4)) == form_accuracy(model, data)


def test_ablating_a_head_is_the_same_as_zeros_in_its_columns_of_the_output_projection(trained):
    for layer, head in ((0, 0), (1, 2)):
        pruned, data = load_form_tagger(trained)
        out_proj = pruned.encoder.layers[layer].self_attn.out_proj.weight
        with torch.no_grad():
            out_proj[:, 16 * head : 16 * (head + 1)] = 0
        without_head = trained["ablation"]["without_head"][0, layer, head].item()
        assert without_head == pytest.approx(form_accuracy(pruned, data))


def test_the_accuracy_counts_the_predictions_for_ambiguous_words(trained):
    model, data = load_form_tagger(trained)
    head_mask, correct = [[1, 0, 1, 1], [1, 1, 1, 0]], []
    for token_ids, forms in data.test.values():
        for sentence, expected in zip(token_ids, forms.tolist(), strict=True):
            prediction = predict_forms(model, data, words_of(data, sentence), head_mask)
            rows = zip(prediction["forms"], expected, prediction["ambiguous"], strict=True)
            correct += [form == data.forms[index] for form, index, ambiguous in rows if ambiguous]
    assert form_accuracy(model, data, head_mask) == pytest.approx(sum(correct) / len(correct), abs=1e-6)
    n = len(sentence)
    assert prediction["weights"].shape == (2, 4, n, n)
    assert torch.allclose(prediction["weights"].sum(-1), torch.ones(2, 4, n))


def test_a_word_that_is_not_in_the_corpus_is_refused(trained):
    model, data = load_form_tagger(trained)
    with pytest.raises(ValueError, match="zebra"):
        predict_forms(model, data, ["the", "zebra"])


# Costs


def test_more_heads_have_the_same_parameters_and_products_and_more_scores():
    rows = head_costs(repeats=1)
    b, n, dim = COST_BATCH, COST_LENGTH, COST_DIM
    assert {row["parameters"] for row in rows} == {4 * dim * (dim + 1)}
    assert {row["products"] for row in rows} == {b * (4 * n * dim * dim + 2 * n * n * dim)}
    assert [row["exponentials"] for row in rows] == [row["heads"] * b * n * n for row in rows]

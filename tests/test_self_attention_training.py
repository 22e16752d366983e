"""What self-attention learns in lesson 04's experiments, and how that is measured."""

import math
from collections import Counter

import pytest
import torch
from torch.testing import assert_close

from utils.data import offensive
from utils.training import layer_costs as costs
from utils.training.language_model import (
    build_model,
    load_corpus,
    next_token_losses,
    parallel_training_speedup,
    restore_language_model,
    sample_text,
    sequential_losses,
    train_language_model,
)
from utils.training.ngrams import ngram_losses
from utils.training.seeds import call_models, stack_models, train_seeds
from utils.training.self_attention import (
    MAX_LEN,
    A,
    B,
    OrderClassifier,
    all_bit_pairs,
    linearity_errors,
    marked_bits,
    minimal_pairs,
    order_sequences,
    score_statistics,
    softmax_jacobian_norm,
    train_order,
    train_xor,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Scaled dot products


def test_the_norm_is_that_of_the_softmaxs_jacobian():
    scores = 3 * torch.randn(7, generator=generator(), dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    assert softmax_jacobian_norm(scores.softmax(-1)).item() == pytest.approx(jacobian.norm().item(), rel=1e-9)
    assert softmax_jacobian_norm(torch.tensor([0.0, 1.0, 0.0])).item() == 0
    assert softmax_jacobian_norm(torch.tensor([0.5, 0.5])).item() == pytest.approx(0.5)


def test_unscaled_scores_grow_until_the_softmax_saturates_and_scaled_ones_do_not_depend_on_the_width():
    statistics = score_statistics(dims=(4, 64, 1024))
    raw, scaled = statistics["raw"], statistics["scaled"]
    assert (raw["variance"] / torch.tensor([4.0, 64, 1024])).tolist() == pytest.approx([1, 1, 1], rel=0.1)
    assert scaled["variance"].tolist() == pytest.approx([1, 1, 1], rel=0.1)
    assert raw["saturated"][0] < 0.01 and raw["saturated"][-1] > 0.5 and scaled["saturated"].max() == 0
    for name in ("normalized_entropy", "jacobian_norm"):
        assert scaled[name].max() - scaled[name].min() < 0.03


# Word order


def test_order_sequences_have_one_a_and_one_b_and_the_label_tells_which_comes_first():
    token_ids, attention_mask, labels = order_sequences(400, 5, 9, generator())
    assert token_ids.shape == attention_mask.shape == (400, 9)
    assert set(attention_mask.sum(1).tolist()) == {5, 6, 7, 8, 9}
    for letter in (A, B):
        assert ((token_ids == letter).sum(1) == 1).all() and ((token_ids == letter) & attention_mask).any(1).all()
    first, second = ((token_ids == letter).int().argmax(1) for letter in (A, B))
    assert torch.equal(labels, (first < second).long())
    assert 0.4 < labels.float().mean() < 0.6


def test_a_minimal_pair_has_the_same_letters_and_opposite_labels():
    token_ids, attention_mask, labels = minimal_pairs(*order_sequences(50, 5, 9, generator()))
    assert torch.equal(token_ids[:50].sort(1).values, token_ids[50:].sort(1).values)
    assert torch.equal(labels[:50], 1 - labels[50:]) and torch.equal(attention_mask[:50], attention_mask[50:])
    assert torch.equal((token_ids == A)[:50], (token_ids == B)[50:])


def test_each_seed_trains_exactly_as_if_it_were_alone():
    def trained(seeds):
        draw = lambda count, own: order_sequences(count, 4, 6, own)  # noqa: E731
        return train_seeds(lambda: OrderClassifier("rotary").double(), draw, seeds, 5, batch_size=16)[1]

    both = trained([4, 9])
    for index, seed in enumerate((4, 9)):
        for name, parameter in trained([seed]).items():
            assert_close(both[name][index], parameter[0], rtol=0, atol=1e-9)
            assert not torch.allclose(both[name][1 - index], parameter[0], atol=1e-3)


@pytest.mark.parametrize("positions", ["causal", "learned"])
def test_the_stacked_models_are_the_plain_ones(positions):
    model, parameters = stack_models(lambda: OrderClassifier(positions), [3, 5])
    token_ids, attention_mask, _ = order_sequences(7, 4, 6, generator())
    logits = call_models(model, parameters, token_ids.expand(2, 7, 6), attention_mask.expand(2, 7, 6))
    for index, seed in enumerate((3, 5)):
        torch.manual_seed(seed)
        expected, _ = OrderClassifier(positions)(token_ids, attention_mask)
        assert_close(logits[index], expected, rtol=0, atol=1e-6)


def test_the_order_is_learned_with_every_kind_of_positions_and_not_without():
    short = {"num_steps": 150, "lengths": (MAX_LEN,), "shifts": (0,)}
    assert (train_order("none", 2, **short)["accuracy"] - 0.5).abs().max() < 0.01
    for positions in ("sinusoidal", "learned", "rotary", "causal"):
        assert train_order(positions, 2, **short)["accuracy"].min() > 0.9, positions


def test_learned_positions_have_no_accuracy_past_the_training_length():
    result = train_order("learned", 1, num_steps=1, lengths=(MAX_LEN, MAX_LEN + 1), shifts=(0, 1))
    assert result["by_length"].isnan().flatten().tolist() == [False, True]
    assert result["by_shift"].isnan().flatten().tolist() == [False, True]


# Nonlinearity


def test_attention_is_linear_in_the_values_for_fixed_weights_only():
    errors = linearity_errors()
    assert errors["values"] < 1e-12
    assert errors["feed-forward"] > 0.01 and errors["inputs"] > 0.01


def test_two_bits_are_marked_and_the_label_is_their_xor():
    bits, marked, labels = marked_bits(300, generator())
    assert (marked.sum(1) == 2).all() and 0.4 < labels.float().mean() < 0.6
    for row in range(300):
        first, second = bits[row, marked[row]].tolist()
        assert labels[row] == (first != second)
    all_bits, all_marked, all_labels = all_bit_pairs(bits[:5], marked[:5])
    assert all_labels.float().mean() == 0.5 and len({tuple(row) for row in all_bits[0::5].tolist()}) == 4
    assert torch.equal(all_bits[~all_marked], bits[:5].repeat(4, 1)[~all_marked])
    assert torch.equal(all_labels, (all_bits * all_marked).sum(1) % 2)


def test_xor_needs_the_feed_forward_network():
    without, with_it = (train_xor(feed_forward, 2, num_steps=100) for feed_forward in (False, True))
    assert without["accuracy"].max() <= 0.75
    assert with_it["accuracy"].min() == 1.0


# n-gram models


def test_ngram_losses_are_those_of_a_dictionary_of_counts():
    train_ids = torch.randint(0, 3, (60,), generator=generator())
    held_out = torch.randint(0, 4, (5, 7), generator=generator(1))  # 3 never occurs in training
    losses = ngram_losses(train_ids, held_out, vocab_size=4, prior=1.5)
    text = train_ids.tolist()
    counts = Counter(tuple(text[i : i + k]) for k in (1, 2, 3) for i in range(len(text) - k + 1))

    def probability(history, token, order):
        if order == 0:
            return 1 / 4
        lower = probability(history, token, order - 1)
        history = tuple(history[len(history) - order + 1 :]) if order > 1 else ()
        if len(history) < order - 1:
            return lower
        total = sum(counts[(*history, next_token)] for next_token in range(4))
        return (counts[(*history, token)] + 1.5 * lower) / (total + 1.5)

    for order in (1, 2, 3):
        expected = [-math.log(probability(row[:i], row[i], order)) for row in held_out.tolist() for i in range(1, 7)]
        assert losses[order] == pytest.approx(sum(expected) / len(expected), rel=1e-9)


# The language model


@pytest.fixture(scope="module")
def result():
    return train_language_model(0, num_steps=30)


def test_the_restored_model_has_the_reported_loss(result):
    model, tokenizer = restore_language_model(result)
    corpus = load_corpus()
    assert tokenizer.characters == corpus.tokenizer.characters
    with torch.no_grad():
        by_position = next_token_losses(model, corpus.held_out).mean(0)
    assert_close(by_position, result["by_position"], rtol=1e-4, atol=0)


def test_samples_continue_the_prompt_and_repeat_with_the_seed(result):
    first = sample_text(result, "The value", 30, seed=1)
    assert first.startswith("The value") and len(first) == 39
    assert first == sample_text(result, "The value", 30, seed=1) != sample_text(result, "The value", 30, seed=2)
    model, tokenizer = restore_language_model(result)
    text = sample_text(result, "The value of", 80, temperature=1e-4)  # in effect the most probable character
    with torch.no_grad():
        for end in (12, 25, 85):  # the last with more before it than the model can see
            logits = model(tokenizer.encode(text[max(0, end - 64) : end])[None])[0, -1, 1:]
            assert tokenizer.characters[1 + logits.argmax()] == text[end]


def test_a_sample_with_an_offensive_word_is_drawn_again_with_the_next_seed(result, monkeypatch):
    first, second = (sample_text(result, "The value", 30, seed=seed) for seed in (1, 2))
    monkeypatch.setattr(offensive, "is_offensive", lambda text: text == first)
    assert sample_text(result, "The value", 30, seed=1) == second


def test_all_positions_at_once_give_the_loss_and_gradient_of_one_at_a_time():
    torch.manual_seed(0)
    model, token_ids = build_model(9).double(), torch.randint(0, 9, (3, 7))
    parallel = next_token_losses(model, token_ids).mean()
    sequential = sum(sequential_losses(model, token_ids))
    assert parallel.item() == pytest.approx(sequential.item(), rel=1e-12)
    gradients = [torch.autograd.grad(loss, model.parameters()) for loss in (parallel, sequential)]
    assert_close(*gradients, rtol=0, atol=1e-12)


def test_all_positions_at_once_are_several_times_faster():
    assert parallel_training_speedup(repeats=1)[0] > 4


# Costs


@pytest.mark.parametrize("length", [2, 9, 12])
def test_the_path_is_one_layer_of_attention_but_every_step_of_a_recurrence(length):
    paths = {kind: costs.path_length(kind, length) for kind in costs.KINDS}
    assert paths == {"self-attention": 1, "recurrence": length, "convolution": length - 1, "dense": 1}


def test_only_recurrence_has_as_many_sequential_products_as_tokens():
    products = {kind: [costs.sequential_products(kind, length) for length in (5, 11)] for kind in costs.KINDS}
    # Projection, scores, context: three products, however long the sequence is.
    assert products == {"self-attention": [3, 3], "recurrence": [5, 11], "convolution": [1, 1], "dense": [1, 1]}
    assert costs.sequential_products("recurrence", 1500) == 1500


@pytest.mark.parametrize("n", [5, 12])
def test_the_formulas_of_the_costs_count_every_multiplication(n):
    d, k = 6, costs.KERNEL
    formulas = {"self-attention": 3 * n * d**2 + 2 * n**2 * d, "recurrence": 2 * n * d**2, "dense": n**2 * d**2}
    formulas["convolution"] = k * n * d**2
    assert {kind: costs.multiplications(kind, n, d) for kind in formulas} == formulas

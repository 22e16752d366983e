"""Facts about what self-attention learns, and about how that is measured."""

import math
from collections import Counter

import pytest
import torch

from utils.data import offensive
from utils.models.self_attention import LanguageModel, SequenceClassifier
from utils.training import layer_costs as costs
from utils.training.language_model import (
    loss_together,
    losses_of,
    losses_one_at_a_time,
    one_position_at_a_time_factor,
    read_text,
    restore_language_model,
    sample_text,
    train_language_model,
)
from utils.training.ngrams import ngram_losses
from utils.training.seeds import call_models, draw_batches, stack_models, train_models
from utils.training.self_attention import (
    FIRST,
    SECOND,
    all_four,
    linearity,
    marked_bits,
    order_sequences,
    score_statistics,
    softmax_slope,
    train_marks,
    train_order,
    with_twins,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# The root


def test_the_slope_is_the_size_of_the_softmaxs_jacobian():
    scores = 3 * torch.randn(7, generator=generator(), dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    assert softmax_slope(scores.softmax(-1)).item() == pytest.approx(jacobian.norm().item(), rel=1e-9)
    assert softmax_slope(torch.tensor([0.0, 1.0, 0.0])).item() == 0
    assert softmax_slope(torch.tensor([0.5, 0.5])).item() == pytest.approx(0.5)


def test_without_the_root_scores_grow_and_the_softmax_freezes_and_with_it_nothing_changes():
    found = score_statistics(dims=(4, 64, 1024), samples=1024)
    raw, scaled = found["raw"], found["scaled"]
    assert (raw["variance"] / torch.tensor([4.0, 64, 1024])).tolist() == pytest.approx([1, 1, 1], rel=0.1)
    assert scaled["variance"].tolist() == pytest.approx([1, 1, 1], rel=0.1)
    assert raw["stuck"][0] < 0.01 and raw["stuck"][-1] > 0.5 and scaled["stuck"].max() == 0
    for name in ("entropy_share", "largest", "slope", "free"):
        assert scaled[name].max() - scaled[name].min() < 0.03


# The order task


def test_order_sequences_have_one_a_and_one_b_and_the_class_says_which_comes_first():
    tokens, real, classes = order_sequences(400, 5, 9, generator())
    lengths = real.sum(1)
    assert tokens.shape == real.shape == (400, 9) and set(lengths.tolist()) == {5, 6, 7, 8, 9}
    for letter in (FIRST, SECOND):
        assert ((tokens == letter).sum(1) == 1).all() and ((tokens == letter) & real).any(1).all()
    first, second = ((tokens == letter).int().argmax(1) for letter in (FIRST, SECOND))
    assert torch.equal(classes, (first < second).long())
    assert 0.4 < classes.float().mean() < 0.6


def test_a_twin_has_the_same_letters_and_the_other_class():
    tokens, real, classes = with_twins(*order_sequences(50, 5, 9, generator()))
    assert torch.equal(tokens[:50].sort(1).values, tokens[50:].sort(1).values)
    assert torch.equal(classes[:50], 1 - classes[50:]) and torch.equal(real[:50], real[50:])
    assert torch.equal((tokens == FIRST)[:50], (tokens == SECOND)[50:])


def test_each_seed_trains_exactly_as_if_it_were_alone():
    def trained(seeds):
        model, parameters = stack_models(lambda: SequenceClassifier(8, 2, 8, 12, "rotary", 6).double(), seeds)
        batches = draw_batches(lambda count, own: order_sequences(count, 4, 6, own), seeds, 5, 16)
        return parameters, train_models(model, parameters, batches, 0.01)

    both, losses = trained([4, 9])
    for place, seed in enumerate((4, 9)):
        alone, loss = trained([seed])
        for name, parameter in both.items():
            assert torch.allclose(parameter[place], alone[name][0], rtol=0, atol=1e-9)
        assert torch.allclose(losses[:, place], loss[:, 0])
    assert not torch.allclose(losses[:, 0], losses[:, 1], atol=1e-3)


def test_the_stacked_models_are_the_plain_ones():
    model, parameters = stack_models(lambda: SequenceClassifier(8, 2, 8, 12, "causal", 6), [3, 5])
    tokens, real, _ = order_sequences(7, 4, 6, generator())
    found = call_models(model, parameters, tokens.expand(2, 7, 6), real.expand(2, 7, 6))
    for place, seed in enumerate((3, 5)):
        torch.manual_seed(seed)
        assert torch.allclose(found[place], SequenceClassifier(8, 2, 8, 12, "causal", 6)(tokens, real)[0], atol=1e-6)


def test_order_is_out_of_reach_without_positions_and_learned_with_each_kind():
    short = {"length": 8, "steps": 120, "batch": 32, "lengths": (8,), "shifts": (0,)}
    without = train_order("none", 2, **short)
    assert (without["accuracy"] - 0.5).abs().max() < 0.01
    assert without["loss"][-20:].mean() > 0.67  # log 2 is 0.69
    for kind in ("sinusoidal", "learned", "rotary", "causal"):
        assert train_order(kind, 2, **short)["accuracy"].min() > 0.9, kind


# Non-linearity


def test_attention_is_linear_in_the_values_and_in_nothing_else():
    found = linearity()
    assert found["values"] < 1e-12
    assert found["feed-forward"] > 0.01 and found["inputs"] > 0.01


def test_marked_bits_have_two_marks_and_the_class_is_their_exclusive_or():
    bits, marked, classes = marked_bits(300, 6, generator())
    assert (marked.sum(1) == 2).all() and 0.4 < classes.float().mean() < 0.6
    for row in range(300):
        one, other = bits[row, marked[row]].tolist()
        assert classes[row] == (one != other)
    every, marks, answers = all_four(bits[:5], marked[:5])
    assert answers.float().mean() == 0.5 and len({tuple(row) for row in every[0::5].tolist()}) == 4
    assert torch.equal(every[~marks], bits[:5].repeat(4, 1)[~marks])
    assert torch.equal(answers, (every * marks).sum(1) % 2)


def test_attention_alone_gets_three_pairs_of_four_at_most_and_a_feed_forward_layer_gets_all():
    alone, thinking = (train_marks(feed_forward, 2, steps=100) for feed_forward in (False, True))
    assert alone["accuracy"].max() <= 0.75
    assert thinking["accuracy"].min() == 1.0
    assert thinking["parameters"] > alone["parameters"]


# Counting


def test_counted_losses_are_what_a_dictionary_gives():
    training = torch.randint(0, 3, (60,), generator=generator())
    held_out = torch.randint(0, 4, (5, 7), generator=generator(1))  # 3 is never seen in training
    found = ngram_losses(training, held_out, vocab_size=4, prior=1.5)
    text = training.tolist()
    counts = Counter(tuple(text[i : i + k]) for k in (1, 2, 3) for i in range(len(text) - k + 1))

    def probability(history, token, order):
        if order == 0:
            return 1 / 4
        lower = probability(history, token, order - 1)
        seen = tuple(history[len(history) - order + 1 :]) if order > 1 else ()
        if len(seen) < order - 1:
            return lower
        total = sum(counts[(*seen, other)] for other in range(4))
        return (counts[(*seen, token)] + 1.5 * lower) / (total + 1.5)

    for order in (1, 2, 3):
        losses = [-math.log(probability(row[:i], row[i], order)) for row in held_out.tolist() for i in range(1, 7)]
        assert found[order] == pytest.approx(sum(losses) / len(losses), rel=1e-9)


# The language model


@pytest.fixture(scope="module")
def language():
    return train_language_model(0, steps=60, dim=32, blocks=1, context=24, batch=16)


def test_the_restored_model_has_the_loss_it_was_reported_with(language):
    model, characters = restore_language_model(language)
    text = read_text(24)
    assert characters.characters == text.characters.characters
    with torch.no_grad():
        assert losses_of(model, text.held_out).mean().item() == pytest.approx(language["held_out"], rel=1e-4)


def test_samples_go_on_from_the_prompt_and_repeat_with_the_seed(language):
    first = sample_text(language, "The value", 30, seed=1)
    assert first.startswith("The value") and len(first) == 39
    assert first == sample_text(language, "The value", 30, seed=1) != sample_text(language, "The value", 30, seed=2)
    model, characters = restore_language_model(language)
    text = sample_text(language, "The value of", 40, temperature=1e-4)  # in effect the most probable character
    with torch.no_grad():
        for end in (12, 25, 51):  # the last with more before it than the model can read
            logits = model(characters.encode(text[max(0, end - 24) : end])[None])[0][0, -1, 1:]
            assert characters.characters[1 + logits.argmax()] == text[end]


def test_a_sample_with_an_offensive_word_is_drawn_again_with_the_next_seed(language, monkeypatch):
    first, second = (sample_text(language, "The value", 30, seed=seed) for seed in (1, 2))
    monkeypatch.setattr(offensive, "is_offensive", lambda text: text == first)
    assert sample_text(language, "The value", 30, seed=1) == second


def test_all_positions_at_once_give_the_loss_and_gradient_of_one_at_a_time():
    torch.manual_seed(0)
    model, pieces = LanguageModel(9, 8, blocks=2, longest=6).double(), torch.randint(0, 9, (3, 7))
    whole = loss_together(model, pieces)
    parts = sum(losses_one_at_a_time(model, pieces))
    assert whole.item() == pytest.approx(parts.item(), rel=1e-12)
    for one, other in zip(*(torch.autograd.grad(loss, model.parameters()) for loss in (whole, parts)), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)


def test_one_position_at_a_time_costs_many_times_more():
    found = one_position_at_a_time_factor(context=24, batch=4, dim=16, repeats=2)
    assert found["factor"] > 4 and found["difference"] < 1e-6
    assert found["predictions"] == 96 and len(found["factors"]) == 2


# Costs


@pytest.mark.parametrize("length", [2, 9, 12])
def test_a_signal_passes_one_layer_of_attention_but_every_step_of_a_recurrence(length):
    found = {kind: costs.path_length(kind, length) for kind in costs.KINDS}
    assert found == {"self-attention": 1, "recurrence": length, "convolution": length - 1, "dense": 1}


def test_only_recurrence_has_steps_that_wait_for_as_many_others_as_there_are_tokens():
    found = {kind: [costs.sequential_products(kind, length) for length in (5, 11)] for kind in costs.KINDS}
    # Projection, scores, mixture: three products, however long the sentence is.
    assert found == {"self-attention": [3, 3], "recurrence": [5, 11], "convolution": [1, 1], "dense": [1, 1]}
    assert costs.sequential_products("recurrence", 1500) == 1500


@pytest.mark.parametrize("n", [5, 12])
def test_the_formulas_of_the_costs_count_every_multiplication(n):
    d, k = 6, costs.KERNEL
    formulas = {"self-attention": 3 * n * d**2 + 2 * n**2 * d, "recurrence": 2 * n * d**2, "dense": n**2 * d**2}
    formulas["convolution"] = k * n * d**2
    assert {kind: costs.multiplications(kind, n, d) for kind in formulas} == formulas

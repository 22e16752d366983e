"""Facts about training and scoring translation models; the figures at full size are the benchmark's."""

import inspect

import pytest
import torch

from tests.parity import same_results
from utils.data.phrases import Pair
from utils.data.tokens import END, PAD, START, as_batch
from utils.models.seq2seq import Seq2Seq
from utils.training import translation
from utils.training.translation import (
    BATCH,
    KINDS,
    LESSON,
    MEASURES,
    STEPS,
    TRAINING_PAIRS,
    WIDTH,
    Trained,
    endless,
    ladder,
    ladder_row,
    limit_for,
    pairs_and_words,
    rate_at,
    restore,
    scores,
    spread,
    train,
    train_translation,
)

PAIRS = 400
SMALL = {"steps": 4, "width": 8, "size": 8, "pairs": PAIRS, "test": 12}


@pytest.fixture(scope="module")
def words():
    return pairs_and_words(PAIRS)


@pytest.fixture(scope="module")
def small():
    return train_translation.__wrapped__("multiplicative", **SMALL)


class Oracle:
    """Knows every translation, and looks where the gold links are."""

    def __init__(self, pairs):
        self.known = {pair.english: list(pair.french) for pair in pairs}

    def translate(self, sentences):
        return [self.known[tuple(sentence)] for sentence in sentences]

    def weights(self, pairs):
        found = []
        for pair in pairs:
            weights = torch.zeros(len(pair.french), len(pair.english))
            for place, word in pair.links:
                weights[word, place] = 1.0
            found.append(weights)
        return found


class Mute(Oracle):
    """Says nothing and shows no weights."""

    def translate(self, sentences):
        return [[] for _ in sentences]

    def weights(self, pairs):
        return None


# Training


def test_the_rate_rises_then_falls_to_nothing():
    rates = [rate_at(step, 200, 0.004) for step in range(200)]
    top = rates.index(max(rates))
    assert max(rates) == pytest.approx(0.004) and 0 < top < 20 and rates[0] > 0
    assert all(a < b for a, b in zip(rates[:top], rates[1:top], strict=False))
    assert all(a >= b for a, b in zip(rates[top:], rates[top + 1 :], strict=False)) and rates[-1] < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_a_few_pairs_by_heart(kind, words):
    data, english, french = words
    few = sorted(data.train, key=lambda pair: len(pair.english))[:6]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Seq2Seq(len(english), len(french), None if kind == "none" else kind, 64)
    losses = train(model, endless(few, english, french, 6, 0), 150, rate=1e-2)
    assert losses[-1] < losses[0] / 20
    trained = Trained(model, english, french)
    assert trained.translate([pair.english for pair in few]) == [list(pair.french) for pair in few]


def test_padding_costs_nothing(words):
    """The loss of a step is the mean surprise over the words and end tokens of its batch, as counted one by one."""
    data, english, french = words
    pairs = [data.train[0], min(data.train, key=lambda pair: len(pair.french))]
    batch = as_batch(pairs, english, french)
    assert not batch.target_mask.all()
    model = Seq2Seq(len(english), len(french), "dot", 8)
    with torch.no_grad():
        surprise = -model(batch.source, batch.source_mask, batch.target_in)[0].log_softmax(-1)
    told = [
        surprise[row, place, number].item()
        for row, pair in enumerate(pairs)
        for place, number in enumerate([*french.numbers(pair.french), END])
    ]
    assert train(model, iter([batch]), 1).item() == pytest.approx(sum(told) / len(told), rel=1e-5)


def test_training_says_when_the_batches_run_out(words):
    batch = as_batch(words[0].train[:2], *words[1:])
    model = Seq2Seq(len(words[1]), len(words[2]), "dot", 8)
    with pytest.raises(ValueError, match="expected 3 batches, one for each step, got 2"):
        train(model, iter([batch, batch]), 3)


def test_a_gradient_is_cut_to_the_largest_allowed(words):
    data, english, french = words
    model = Seq2Seq(len(english), len(french), "dot", 8)
    before = [one.detach().clone() for one in model.parameters()]
    for largest, moves in ((0.0, False), (1.0, True)):
        train(model, endless(data.train, english, french, 4, 0), 2, largest=largest)
        same_as_before = all(torch.equal(*both) for both in zip(before, model.parameters(), strict=True))
        assert same_as_before != moves


def test_training_gives_the_same_numbers_twice_and_others_with_another_seed(small):
    assert same_results(small, train_translation.__wrapped__("multiplicative", **SMALL))
    other = train_translation.__wrapped__("multiplicative", 1, **SMALL)
    assert not torch.equal(small["loss"], other["loss"])


def test_a_kept_result_is_the_trained_one(small):
    first, kept = (train_translation("multiplicative", **SMALL) for _ in range(2))
    assert same_results(first, small) and same_results(kept, small)


def test_the_state_of_the_global_generator_neither_counts_nor_changes(small):
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    again = train_translation.__wrapped__("multiplicative", **SMALL)
    assert torch.equal(torch.random.get_rng_state(), before) and same_results(again, small)


def test_all_kinds_see_the_same_batches_in_the_same_order(words, monkeypatch):
    seen = []

    def watched(model, stream, steps, rate):
        seen.append([next(stream).source for _ in range(steps)])
        return torch.zeros(steps)

    monkeypatch.setattr(translation, "train", watched)
    for kind in KINDS:
        train_translation.__wrapped__(kind, **SMALL)
    for other in seen[1:]:
        assert all(torch.equal(*both) for both in zip(seen[0], other, strict=True))


def test_an_epoch_shows_every_pair_once_and_the_next_in_another_order(words):
    data, english, french = words
    stream = endless(data.train[:40], english, french, 8, 0)

    def epoch(stream):
        return [tuple(row[row != PAD].tolist()) for _ in range(5) for row in next(stream).source]

    first, second = epoch(stream), epoch(stream)
    expected = sorted((*english.numbers(pair.english), END) for pair in data.train[:40])
    assert sorted(first) == sorted(second) == expected and first != second
    assert epoch(endless(data.train[:40], english, french, 8, 1)) != first


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="none, dot, multiplicative, additive, got 'cosine'"):
        train_translation.__wrapped__("cosine")


def test_the_size_of_a_lesson_is_a_smaller_setting_of_the_same_training():
    bound = inspect.signature(train_translation).bind("dot", 0, **LESSON)
    bound.apply_defaults()
    pairs_seen = bound.arguments["steps"] * bound.arguments["size"]
    assert (
        pairs_seen < STEPS * BATCH and bound.arguments["width"] < WIDTH and bound.arguments["pairs"] == TRAINING_PAIRS
    )


def test_a_result_says_what_was_measured(small, words):
    assert small["loss"].shape == (4,) and small["seconds"] > 0
    assert 0 <= small["exact"] <= 1 and 0 <= small["alignment_floor"] <= small["alignment_error"] <= 1
    assert small["parameters"] == sum(one.numel() for one in restore(small).model.parameters())
    assert sum(row["count"] for row in small["quarters"]) == sum(row["count"] for row in small["by_length"]) == 12
    assert len(small["quarters"]) == 4 and small["longer"]["by_length"][0]["length"] > small["by_length"][-1]["length"]


def test_without_attention_there_is_no_alignment_error():
    assert train_translation.__wrapped__("none", **SMALL)["alignment_error"] is None


# A trained model


def test_a_restored_model_translates_and_scores_as_the_trained_one_did(small, words):
    restored = restore(small)
    measured = scores(restored, words[0].test[:12])
    assert all(same_results(small[name], measured[name]) for name in measured)


def test_sentences_come_back_in_the_order_they_were_given(small, words):
    restored, english = restore(small), [pair.english for pair in words[0].test[:9]]
    together = restored.translate(english)
    assert together == [restored.translate([one])[0] for one in english]
    assert restored.translate([]) == []


def test_a_translation_ends_before_its_end_token_or_at_the_limit(small, words):
    for pair in words[0].test[:9]:
        (tokens,) = restore(small).translate([pair.english])
        assert END not in words[2].numbers(tokens) and len(tokens) <= limit_for(len(pair.english))


def test_the_weights_of_a_pair_are_those_of_the_model_with_the_gold_words(small, words):
    _, english, french = words
    restored, pairs = restore(small), words[0].test[:7]
    for pair, weights in zip(pairs, restored.weights(pairs), strict=True):
        batch = as_batch([pair], english, french)
        assert batch.target_in[0, 0] == START
        expected = restored.model(batch.source, batch.source_mask, batch.target_in)[1][0]
        assert weights.shape == (len(pair.french) + 1, len(pair.english) + 1)
        assert torch.allclose(weights, expected, atol=1e-5)


def test_a_translation_comes_with_the_weights_it_was_made_with(small, words):
    restored, pair = restore(small), words[0].test[0]
    ((tokens, weights),) = restored.translate_and_look([pair.english])
    told = Pair(pair.english, tuple(tokens), ())
    (forced,) = restored.weights([told])
    assert weights.size(1) == len(pair.english) + 1
    assert torch.allclose(weights, forced[: len(weights)], atol=1e-5)


# The ladder


def test_any_translator_gets_a_row(words):
    pairs = words[0].test[:20]
    row = ladder_row("oracle", Oracle(pairs), pairs, parameters=7, seconds=1.5)
    assert row["name"] == "oracle" and row["exact"] == 1 and row["bleu"] == pytest.approx(100)
    assert row["alignment_error"] == pytest.approx(scores(Oracle(pairs), pairs)["alignment_floor"])
    assert (row["parameters"], row["seconds"]) == (7, 1.5)
    row = ladder_row("mute", Mute(pairs), pairs, parameters=0, seconds=0.0)
    assert row["exact"] == row["bleu"] == 0 and row["alignment_error"] is None


def test_the_spread_of_seeds_is_median_least_and_most():
    rows = [dict.fromkeys(MEASURES, value) | {"name": "dot", "alignment_error": None} for value in (3.0, 1.0, 2.0)]
    found = spread(rows)
    assert found["exact"] == {"median": 2.0, "least": 1.0, "most": 3.0} and found["alignment_error"] is None
    assert (found["name"], found["seeds"]) == ("dot", 3)
    for wrong in ([], [rows[0], rows[1] | {"name": "additive"}]):
        with pytest.raises(ValueError, match="rows of one model"):
            spread(wrong)


def test_the_ladder_has_a_row_for_each_kind(monkeypatch):
    monkeypatch.setattr(translation, "train_translation", train_translation.__wrapped__)
    rows = ladder(("none", "dot"), (0, 1), **SMALL)
    assert [row["name"] for row in rows] == ["none", "dot"] and all(row["seeds"] == 2 for row in rows)
    assert all(row["exact"]["least"] <= row["exact"]["most"] for row in rows)
    assert rows[0]["alignment_error"] is None and rows[1]["alignment_error"]["least"] > 0
    # Looking with the dot score needs not one parameter more.
    assert rows[1]["parameters"] == rows[0]["parameters"]

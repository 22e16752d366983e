"""Facts about the widget that samples after a reader's own prompt, without a browser."""

import json
import sys

import numpy as np
import pytest
import torch

from utils import widgets
from utils.exercises.solutions import solution_of
from utils.models.decoding import next_token_probs

# The package exports a function with the name of this module.
module = sys.modules["utils.widgets.next_token"]
TOKENS = ["<pad>", "<end>", "▁the", "▁cat", "▁sat", "s", ".", "▁on", "▁a", "▁mat", "▁$", "▁dog"]
PAD, END = 0, 1


def respond(prompt, new_ids):
    """Logits that follow from everything so far; never padding."""
    if "green" in prompt:
        raise ValueError("Out of vocabulary:\ngreen.")
    logits = 2 * torch.randn(len(TOKENS), generator=torch.Generator().manual_seed(sum(new_ids) + 7 * len(new_ids)))
    logits[END] -= 4
    logits[PAD] = -torch.inf
    return logits


def widget(model=respond, distribution=next_token_probs, **options):
    return widgets.next_token(model, TOKENS, "the cat", distribution, title="Sample.", **options)


def sampled(shown):
    return [step["token"] for step in shown.answer["steps"]]


def test_the_same_inputs_give_the_same_text_however_it_was_reached():
    at_once, one_by_one = widget(), widget()
    one_by_one.set(length=0)
    for length in range(1, 21):
        one_by_one.set(length=length)
    assert one_by_one.answer == at_once.answer and len(set(sampled(at_once))) > 3
    text = sampled(at_once)
    at_once.set(seed=1)
    assert sampled(at_once) != text
    at_once.set(temperature=2.0)
    at_once.set(temperature=1.0, seed=0)
    assert sampled(at_once) == text


def test_sampling_follows_the_probabilities():
    probs = np.array([0.1, 0.0, 0.6, 0.3])
    ids = [module.drawn(probs, seed, position) for seed in range(40) for position in range(50)]
    assert np.bincount(ids, minlength=4) / 2000 == pytest.approx(probs, abs=0.04)
    assert ids.count(1) == 0


def test_the_page_gets_the_model_and_the_given_distribution_before_and_after_and_nothing_large():
    """What `top_k` cuts has 0 after it; a student's own distribution is the one that is sampled from."""
    shown = widget(top_k=3, temperature=0.5)
    step = shown.answer["steps"][0]
    before, after = respond("", []).softmax(0), next_token_probs(respond("", []), 0.5, 3)
    assert [row[1] for row in step["candidates"]] == pytest.approx(
        before.sort(descending=True).values[:8].tolist(), abs=1e-4
    )
    assert [row[2] for row in step["candidates"]] == pytest.approx(
        after[before.argsort(descending=True)][:8].tolist(), abs=1e-4
    )
    assert step["kept"][0] == 3 and step["others"][1] == 0
    assert len(json.dumps(shown.answer)) / len(shown.answer["steps"]) < 500
    wrong = widget(distribution=lambda logits, *_: torch.eye(len(TOKENS))[4])
    assert set(sampled(wrong)) == {" sat"}


def test_the_distribution_that_lesson_07_teaches_serves_at_both_ends_of_every_control():
    """It divides by the temperature, so at 0 it is not called: only the most probable token stays."""
    shown = widget(distribution=solution_of("7.7").reference)
    for inputs in (
        {"temperature": 0.0},
        {"temperature": 2.0},
        {"top_k": 1},
        {"top_k": 100},
        {"top_p": 0.05},
        {"top_p": 1.0},
    ):
        shown.set(**inputs)
        assert shown.error == "" and shown.answer["steps"][0]["kept"][0] >= 1
    shown.set(temperature=0, top_k=None)
    assert sampled(shown)[0] == TOKENS[respond("", []).argmax()].replace("▁", " ")


def test_moving_a_parameter_asks_the_model_only_for_what_it_has_not_seen():
    asked = []
    shown = widget(lambda prompt, new_ids: asked.append(tuple(new_ids)) or respond(prompt, new_ids))
    assert len(asked) == len(set(asked)) == 21
    shown.set(top_p=0.999, length=5)
    assert len(asked) == 21
    shown.set(prompt="a cat", length=0)
    assert len(asked) == 22


def test_nothing_is_sampled_after_the_end():
    def ends(prompt, new_ids):
        return np.where(np.arange(len(TOKENS)) == (END if len(new_ids) == 2 else 3), 9.0, -9.0)

    def softmax(logits, *_):
        return module.softmax(logits)

    shown = widget(ends, softmax, eos_ids=[END])
    assert sampled(shown) == [" cat", " cat", "<end>"] and shown.answer["end"] == "The text has ended."
    shown.set(length=2)
    assert shown.answer["end"] == ""


def test_a_text_that_grows_too_long_keeps_what_was_sampled():
    def short(prompt, new_ids):
        if len(new_ids) > 3:
            raise ValueError("The model takes 3 tokens at most.")
        return respond(prompt, new_ids)

    shown = widget(short)
    assert len(sampled(shown)) == 4 and shown.answer["end"] == "The model takes 3 tokens at most."
    shown = widget()
    shown.set(length=500)
    assert len(sampled(shown)) == module.MAX_TOKENS and "at most 100" in shown.answer["end"]


def test_a_prompt_that_cannot_be_continued_is_answered_with_a_sentence_and_loses_nothing():
    shown = widget()
    first = shown.answer
    for prompt, message in (
        ("a green cat", "Out of vocabulary: green."),
        ("", "The text is empty: write some words and press Enter."),
    ):
        shown.set(prompt=prompt)
        assert shown.error == message and shown.answer == first
    shown.set(prompt="the cat")
    assert shown.error == "" and shown.answer == first


def test_the_text_form_has_the_text_the_sampling_parameters_and_the_next_tokens():
    shown = widget(top_k=1)
    text = "the cat" + "".join(sampled(shown)[:6])
    assert shown.alt().startswith(
        f"Sample. “{text}”: the prompt and 6 sampled tokens. Temperature 1, top-k 1, top-p 1, seed 0."
    )
    assert "(100 %)" in shown.alt() and "(cut)" in shown.alt()


def test_logits_and_distributions_of_another_form_are_no_fault_of_the_reader():
    for logits in ([1.0, 2.0], np.zeros((1, 12)), *(np.full(12, value) for value in (np.nan, np.inf, -np.inf))):
        with pytest.raises(TypeError, match="logits"):
            widget(lambda *_, logits=logits: logits)
    for probs in (np.ones(12), np.full(3, 1 / 3)):
        with pytest.raises(TypeError, match="distribution"):
            widget(distribution=lambda *_, probs=probs: probs)

"""Facts about the widget that samples after a reader's own prompt, without a browser."""

import json
import sys
import tracemalloc

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


def start_again(shown, **inputs):
    shown.set(new_ids=[], **inputs)


def sample(shown, count):
    """Press Next, `count` times or until the text ends; gives the text."""
    for _ in range(count):
        if not shown.answer["end"]:
            shown.set(new_ids=[step["id"] for step in shown.answer["steps"]])
    return [step["token"] for step in shown.answer["steps"][: len(shown.inputs["new_ids"])]]


def test_the_same_seed_and_parameters_give_the_same_text():
    shown = widget()
    stored = [step["token"] for step in shown.answer["steps"]]
    start_again(shown)
    text = sample(shown, 20)
    assert text[: len(stored)] == stored and len(stored) == module.STORED + 1 and len(set(text)) > 3
    start_again(shown, seed=1)
    assert sample(shown, 20) != text
    start_again(shown, seed=0, temperature=2.0)
    assert sample(shown, 20) != text
    start_again(shown, temperature=1.0)
    assert sample(shown, 20) == text


def test_sampling_follows_the_probabilities():
    probs = np.array([0.1, 0.0, 0.6, 0.3])
    ids = [module.drawn(probs, seed, position) for seed in range(40) for position in range(50)]
    assert np.bincount(ids, minlength=4) / 2000 == pytest.approx(probs, abs=0.04)
    assert ids.count(1) == 0


def test_the_page_gets_the_model_and_the_given_distribution_and_nothing_large():
    """What `top_k` cuts has 0 after it; a student's own distribution is the one that is sampled from."""
    shown = widget(top_k=3, temperature=0.5)
    step = shown.answer["steps"][0]
    before, after = respond("", []).softmax(0), next_token_probs(respond("", []), 0.5, 3)
    order = before.argsort(descending=True)[:8]
    assert [row[1] for row in step["candidates"]] == pytest.approx(before[order].tolist(), abs=1e-4)
    assert [row[2] for row in step["candidates"]] == pytest.approx(after[order].tolist(), abs=1e-4)
    assert step["kept"][0] == 3 and step["others"][1] == 0
    assert len(json.dumps(shown.answer)) / len(shown.answer["steps"]) < 600
    wrong = widget(distribution=lambda logits, *_: torch.eye(len(TOKENS))[4])
    assert set(sample(wrong, 3)) == {" sat"}


def test_a_parameter_changes_the_next_token_alone_and_asks_the_model_nothing():
    asked = []
    shown = widget(lambda prompt, new_ids: asked.append(tuple(new_ids)) or respond(prompt, new_ids))
    text, first = sample(shown, 2), shown.answer["steps"]
    count = len(asked)
    shown.set(top_k=1)
    steps = shown.answer["steps"]
    assert len(asked) == count == len(set(asked)) and sample(shown, 0) == text
    assert steps[:-1] == first[:-1] and steps[-1]["kept"][0] == 1 and steps[-1]["parameters"]["top_k"] == 1
    start_again(shown, prompt="a cat")
    assert len(asked) == count + 1


def test_the_distribution_that_lesson_07_teaches_serves_at_both_ends_of_every_control():
    """It divides by the temperature, so at 0 it is not called: only the most probable token stays."""
    shown = widget(distribution=solution_of("7.7").reference)
    ends = {"temperature": (2.0, 0.0), "top_k": (1, 100), "top_p": (0.05, 1.0)}
    for inputs in [{name: value} for name, values in ends.items() for value in values]:
        shown.set(**inputs)
        assert shown.error == "" and shown.answer["steps"][-1]["kept"][0] >= 1
    start_again(shown, temperature=0)
    assert sample(shown, 1) == [TOKENS[respond("", []).argmax()].replace("▁", " ")]


def test_temperature_0_takes_little_memory_with_the_vocabulary_of_a_published_model():
    tokens = [f"▁{number}" for number in range(20_000)]
    logits = torch.arange(len(tokens)).float()
    shown = widgets.next_token(lambda *_: logits, tokens, "the cat", next_token_probs, title="Sample.")
    tracemalloc.start()
    try:
        start_again(shown, temperature=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert shown.answer["steps"][0]["token"] == " 19999" and peak < 50 * len(tokens) * 8


def test_nothing_is_sampled_after_the_end():
    def ends(prompt, new_ids):
        return np.where(np.arange(len(TOKENS)) == (END if len(new_ids) == 2 else 3), 9.0, -9.0)

    shown = widget(ends, lambda logits, *_: module.softmax(logits), eos_ids=[END])
    assert sample(shown, 5) == [" cat", " cat", "<end>"] and shown.answer["end"] == "The text has ended."
    shown.set(new_ids=[3, 3])
    assert shown.answer["end"] == ""


def test_a_text_that_grows_too_long_keeps_what_was_sampled():
    def short(prompt, new_ids):
        if len(new_ids) > 3:
            raise ValueError("The model takes 3 tokens at most.")
        return respond(prompt, new_ids)

    shown = widget(short)
    assert len(sample(shown, 9)) == 4 and shown.answer["end"] == "The model takes 3 tokens at most."
    shown = widget()
    assert len(sample(shown, 200)) == module.MAX_TOKENS and "at most 100" in shown.answer["end"]


def test_a_prompt_that_cannot_be_continued_is_answered_with_a_sentence_and_loses_nothing():
    shown = widget()
    start_again(shown)
    first, empty = shown.answer, "The text is empty: write some words and press Enter."
    for prompt, message in (("a green cat", "Out of vocabulary: green."), ("", empty)):
        start_again(shown, prompt=prompt)
        assert shown.error == message and shown.answer == first
    start_again(shown, prompt="the cat")
    assert shown.error == "" and shown.answer == first


def test_the_text_form_has_the_text_the_sampling_parameters_and_the_next_tokens():
    shown = widget(top_k=1)
    text = "the cat" + "".join(sample(shown, 0))
    said = f"Sample. “{text}”: the prompt and 6 sampled tokens. Temperature 1, top-k 1, top-p 1, seed 0."
    assert shown.alt().startswith(said) and "(100 %)" in shown.alt() and "(cut)" in shown.alt()


def test_logits_and_distributions_of_another_form_are_no_fault_of_the_reader():
    for logits in ([1.0, 2.0], np.zeros((1, 12)), *(np.full(12, value) for value in (np.nan, np.inf, -np.inf))):
        with pytest.raises(TypeError, match="logits"):
            widget(lambda *_, logits=logits: logits)
    for probs in (np.ones(12), np.full(3, 1 / 3)):
        with pytest.raises(TypeError, match="distribution"):
            widget(distribution=lambda *_, probs=probs: probs)

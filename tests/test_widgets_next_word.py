"""Facts about the widget that samples after a reader's own prompt, without a browser."""

import sys

import numpy as np
import pytest
import torch

from utils import widgets
from utils.exercises.solutions import solution_of
from utils.models.decoding import next_token_probs

# The package exports a function with the name of this module.
module = sys.modules["utils.widgets.next_word"]
TOKENS = ["<pad>", "<end>", "▁the", "▁cat", "▁sat", "s", ".", "▁on", "▁a", "▁mat", "▁$", "▁dog"]
PAD, END = 0, 1


def respond(beginning, written):
    """Logits that follow from everything so far; never padding."""
    if "green" in beginning:
        raise ValueError("Out of vocabulary:\ngreen.")
    dice = np.random.default_rng([len(beginning), *written])
    logits = 2 * dice.normal(size=len(TOKENS))
    logits[END] -= 4
    logits[PAD] = -np.inf
    return logits


def widget(start="the cat", **options):
    return widgets.next_word(respond, TOKENS, start, **options)


def turn(shown, **dials):
    """Move sliders as the reader does."""
    for name, value in dials.items():
        shown._sliders[name].value = value


# The distribution


def test_the_probabilities_are_those_of_the_library():
    dice = np.random.default_rng(0)
    for _ in range(60):
        logits = np.round(3 * dice.normal(size=40), 1)  # rounded: some are equal
        logits[dice.integers(40)] = -np.inf
        temperature = dice.choice([0.0, 0.1, 0.7, 1.0, 2.0])
        top_k, top_p = dice.choice([None, 1, 5, 100]), dice.choice([None, 0.05, 0.5, 0.9, 1.0])
        probs = module.next_token_probs(logits, temperature, top_k, top_p)
        reference = next_token_probs(torch.tensor(logits), temperature, top_k, top_p)
        assert np.allclose(probs, reference.numpy(), atol=1e-12)


def test_sampling_follows_the_probabilities():
    probs = np.array([0.1, 0.0, 0.6, 0.3])
    drawn = [module.drawn(probs, seed, position) for seed in range(40) for position in range(50)]
    assert np.bincount(drawn, minlength=4) / 2000 == pytest.approx(probs, abs=0.04)
    assert drawn.count(1) == 0


def test_the_distribution_that_lesson_07_teaches_serves_at_both_ends_of_every_slider():
    """It divides by the temperature, so at 0 it is not called: only the most probable token stays."""
    taught = solution_of("7.7").reference
    with pytest.raises(TypeError):  # what it would do there
        module.checked_probs(taught(torch.tensor(respond("the cat", [])), 0.0), len(TOKENS))
    shown = widgets.next_word(
        lambda *given: torch.tensor(respond(*given)), TOKENS, "the cat", distribution=taught, temperature=0.0, top_k=5
    )
    assert shown._after().tolist() == np.eye(len(TOKENS))[respond("the cat", []).argmax()].tolist()
    for name, slider in shown._sliders.items():
        ends = [k for _, k in slider.options] if name == "top_k" else [slider.min, slider.max]
        for value in (ends[0], ends[-1]):
            turn(shown, **{name: value})
            shown.write(2)
            assert shown._stage.error == "" and shown._after().sum() == pytest.approx(1, abs=1e-6)
    turn(shown, temperature=0.1, top_k=0, top_p=1.0)
    assert np.allclose(shown._after(), module.next_token_probs(shown._logits[-1], 0.1), atol=1e-6)


# Writing


def test_one_by_one_and_many_at_once_write_the_same_text():
    one, many, seeded = widget(), widget(), widget()
    for _ in range(5):
        one._buttons[1].click()
    many.write(5)
    turn(seeded, seed=1)
    seeded.write(5)
    assert one.written == many.written != seeded.written and len(set(one.written)) > 1
    assert one.static() == many.static()
    assert one.text == "the cat" + "".join(TOKENS[number] for number in one.written).replace("▁", " ")


def test_padding_and_what_is_cut_are_never_written():
    for seed in range(3):
        shown = widget(temperature=2.0)
        turn(shown, seed=seed)
        shown.write(20)
        assert PAD not in shown.written
        shown = widget(top_k=2)
        turn(shown, seed=seed)
        for _ in range(4):
            likeliest = np.argsort(-respond("the cat", shown.written), kind="stable")[:2]
            shown.write()
            assert shown.written[-1] in likeliest


def test_buttons_and_keys_write_and_take_back():
    shown = widget()
    back, on, many, again, reset = shown._buttons
    assert back.disabled and again.disabled and not on.disabled and many.description == "Sample 20"
    first = shown.static()
    on.click()
    assert len(shown.written) == 1 and not back.disabled
    one = shown.static()
    many.click()
    assert len(shown.written) == 21
    again.click()
    assert shown.static() == first and shown.written == []
    for key, count in (("ArrowRight", 1), ("End", 21), ("ArrowLeft", 20), ("Home", 0), ("ArrowLeft", 0), ("x", 0)):
        shown._stage._handle_custom_msg({"key": key}, [])
        assert len(shown.written) == count
    shown.write(2)
    back.click()
    assert shown.static() == one
    turn(shown, temperature=0.3, top_k=3, top_p=0.5, seed=9)
    shown._text.value = "a dog"
    shown.write(3)
    reset.click()
    assert shown.static() == first and shown._text.value == "the cat"
    assert shown.dials == {"temperature": 1.0, "top_k": None, "top_p": 1.0, "seed": 0}


def test_nothing_is_written_after_the_end():
    def ends(beginning, written):
        return np.where(np.arange(len(TOKENS)) == (END if len(written) == 2 else 3), 9.0, -9.0)

    shown = widgets.next_word(ends, TOKENS, "the cat", eos_ids=[END])
    shown.write(20)
    assert shown.written == [3, 3, END] and shown.ended and shown._buttons[1].disabled
    assert "The text has ended." in shown.alt_text() and "Most probable next" not in shown.alt_text()
    shown.write()
    assert len(shown.written) == 3
    shown.take_back()
    assert not shown._buttons[1].disabled


def test_moving_a_dial_asks_the_model_nothing_and_another_seed_starts_again():
    asked = []
    shown = widgets.next_word(lambda *given: asked.append(given) or respond(*given), TOKENS, "the cat")
    shown.write(3)
    assert len(asked) == 4
    shown._sliders["temperature"].value = 0.5
    shown._sliders["top_k"].value = 3
    shown._sliders["top_p"].value = 0.8
    assert len(shown.written) == 3 and len(asked) == 4
    shown._sliders["seed"].value = 1
    assert shown.written == [] and len(asked) == 4


# Pictures and words


def test_the_text_form_has_the_text_the_sampling_parameters_and_the_next_tokens():
    shown = widget(title="Write on", top_k=1)
    shown.write()
    said = shown.alt_text()
    token = TOKENS[shown.written[0]]
    assert said.startswith(
        f"Write on. “{shown.text}”, of which the model generated 1 token. Temperature 1.0, top-k 1, top-p"
    )
    assert f"Last: {token}, drawn with 100 %. 1 of 12 tokens remains" in said and "(cut)" in said


# What is refused


def test_a_text_that_grows_too_long_for_the_model_keeps_what_was_written():
    def short(beginning, written):
        if len(written) > 3:
            raise ValueError("The model takes 3 tokens at most.")
        return respond(beginning, written)

    shown = widgets.next_word(short, TOKENS, "the cat")
    shown.write(20)
    assert len(shown.written) == 3 and shown._stage.error == "The model takes 3 tokens at most."
    assert "generated 3 tokens" in shown.alt_text()
    shown.take_back()
    assert shown._stage.error == ""


def test_logits_and_distributions_that_are_none_are_no_fault_of_the_reader():
    for logits in ([1.0, 2.0], np.zeros((1, 12)), *(np.full(12, value) for value in (np.nan, np.inf, -np.inf))):
        with pytest.raises(TypeError, match="logits"):
            widgets.next_word(lambda *_, logits=logits: logits, TOKENS, "the")
    for probs in (np.ones(12), np.full(3, 1 / 3), np.full(12, np.nan)):
        with pytest.raises(TypeError, match="distribution"):
            widget(distribution=lambda *_, probs=probs: probs)

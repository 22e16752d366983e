"""Today's code gives the numbers of the first edition, from the weights and batches that were frozen then (tests/frozen)."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from tests.frozen import FOLDER, adapters, double_precision, read, training_losses
from utils.build.downloads import MINILM, SMOLLM2, fetch

MANY_SEEDS = {
    "module": adapters.memory_networks,
    "module, linear": partial(adapters.memory_networks, linear=True),
    "training": adapters.numbered_memory_networks,
    "training, linear": partial(adapters.numbered_memory_networks, linear=True),
}
MODELS = {
    "memory_network": {"losses": adapters.lesson_memory_network},
    "memory_networks_adjacent": MANY_SEEDS,
    "memory_networks_layer_wise": MANY_SEEDS,
    **{
        f"translator_{score}": {"losses": adapters.recurrent_translator}
        for score in ("no_attention", "dot", "multiplicative", "additive")
    },
    "transformer_pre": {"losses": adapters.transformer},
    "transformer_post": {"losses": adapters.transformer},
    "masked_lm": {"losses": adapters.masked_lm},
    "causal_lm": {"losses": adapters.causal_lm},
    "span_model": {"losses": adapters.transformer},
}


def test_every_frozen_file_is_reproduced():
    assert {file.stem for file in FOLDER.glob("*.safetensors")} == {*MODELS, "minilm", "smollm2"}


@pytest.mark.parametrize("name", MODELS)
def test_training_from_frozen_weights_gives_the_frozen_losses(name):
    frozen = read(name)
    assert set(frozen.results) == set(MODELS[name])
    for result, adapter in MODELS[name].items():
        with double_precision():
            parameters, loss = adapter(frozen.settings, frozen.weights)
            losses = training_losses(parameters, lambda loss=loss: loss(frozen.batch))
        assert_close(losses, frozen.results[result], rtol=1e-9, atol=0)


def test_minilm_gives_the_frozen_hidden_states():
    frozen = read("minilm")
    with double_precision():
        token_ids, mask, states = adapters.minilm_hidden_states(fetch(MINILM), frozen.settings["sentences"])
    assert torch.equal(token_ids, frozen.results["token_ids"]) and torch.equal(mask, frozen.results["mask"])
    assert_close(states[mask].float(), frozen.results["hidden_states"], rtol=1e-5, atol=1e-6)


def test_smollm2_gives_the_frozen_logits_and_greedy_tokens():
    frozen = read("smollm2")
    prompts, count = frozen.settings["prompts"], frozen.settings["count"]
    for number, found in enumerate(adapters.smollm2_next_and_greedy(fetch(SMOLLM2), prompts, count)):
        token_ids, logits, written = found
        assert torch.equal(token_ids, frozen.results[f"token_ids/{number}"])
        assert_close(logits[frozen.results[f"top/{number}"]], frozen.results[f"logits/{number}"], rtol=1e-4, atol=1e-4)
        assert logits.argmax() == frozen.results[f"top/{number}"][0]
        assert torch.equal(written, frozen.results[f"greedy/{number}"])

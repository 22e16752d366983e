"""Facts about the stored encoder of lesson 07: it survives a round trip, and its stored held-out loss is true."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from utils.data.bpe import BPETokenizer
from utils.training.pretraining import Objective, held_out_losses, pretrain, restore_pretrained, tokenized_corpus
from utils.training.stored_encoder import (
    CONFIG,
    FOLDER,
    KEYS,
    WEIGHTS,
    StoredEncoderError,
    store_encoder,
    stored_encoder,
)

SMALL = {
    "num_steps": 2,
    "dim": 8,
    "num_heads": 2,
    "hidden_dim": 16,
    "num_layers": 1,
    "length": 16,
    "vocab_size": 400,
    "num_texts": 120,
}


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "encoder")
    return tmp_path / "encoder"


def test_a_stored_encoder_loads_as_it_was(tmp_path):
    result = pretrain.__wrapped__("masked", **SMALL)
    store_encoder(result, tmp_path)
    loaded = stored_encoder(tmp_path)
    assert {name: loaded[name] for name in KEYS} == {name: result[name] for name in KEYS}
    assert loaded["state_dict"].keys() == result["state_dict"].keys()
    assert all(torch.equal(loaded["state_dict"][name], tensor) for name, tensor in result["state_dict"].items())
    restored, original = restore_pretrained(loaded), restore_pretrained(result)
    token_ids = torch.tensor([original.tokenizer.encode_pair("Return a list.")])
    assert torch.equal(restored.model(token_ids), original.model(token_ids))
    assert restored.tokenizer.encode("Return a list.") == original.tokenizer.encode("Return a list.")


def test_the_tied_matrix_is_stored_once():
    assert "lm_head.weight" not in load_file(FOLDER / WEIGHTS)
    model = restore_pretrained(stored_encoder()).model
    assert model.lm_head.weight is model.embedding.token_embedding.weight


def test_the_committed_encoder_has_its_stored_held_out_loss():
    """On this Python's own docstrings, which may differ from those it was measured on."""
    encoder = stored_encoder()
    text = tokenized_corpus(BPETokenizer.from_str(encoder["tokenizer"]), encoder["length"])
    loss, _ = held_out_losses(restore_pretrained(encoder).model, text, Objective("masked", len(text.tokenizer)))
    assert loss == pytest.approx(encoder["held_out"], abs=0.3)
    assert encoder["held_out"] < 0.7 * encoder["unigram"]


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_missing_file_is_named_with_what_to_do(copy, name):
    (copy / name).unlink()
    with pytest.raises(StoredEncoderError, match=rf"expected {name}.*python -m utils\.training\.stored_encoder"):
        stored_encoder(copy)


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_damaged_file_is_an_error(copy, name):
    (copy / name).write_bytes(b"{ no such thing")
    with pytest.raises(StoredEncoderError, match="cannot be read"):
        stored_encoder(copy)


def test_parameters_of_another_size_are_named(copy):
    config = json.loads((copy / CONFIG).read_text(encoding="utf-8"))
    config["settings"]["hidden_dim"] = 256
    (copy / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(StoredEncoderError, match="do not fit: encoder.layers.0.feed_forward"):
        stored_encoder(copy)

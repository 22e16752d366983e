"""Facts about the stored encoder of lesson 07: it survives a round trip, and its stored held-out loss is true."""

import pytest
import torch
from safetensors.torch import load_file

from utils.data.bpe import BPETokenizer
from utils.training.pretraining import Objective, held_out_losses, pretrain, restore_pretrained, tokenized_corpus
from utils.training.stored_encoder import FOLDER, WEIGHTS, store_encoder, stored_encoder

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


def test_a_stored_encoder_loads_as_it_was(tmp_path):
    result = pretrain.__wrapped__("masked", **SMALL)
    store_encoder(result, tmp_path)
    loaded = stored_encoder(tmp_path)
    assert loaded.keys() == result.keys() - {"loss", "ngrams"} | {"python"} == stored_encoder().keys() - {"seed"}
    assert all(loaded[name] == result[name] for name in loaded.keys() - {"state_dict", "python"})
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

"""The stored encoder of lesson 07: what is written is what is read, and what is committed is worth what it says."""

import json
import shutil

import pytest
import torch

from utils.training import stored_encoder as module
from utils.training.fine_tuning import masked_loss, setting
from utils.training.pretraining import pretrain, restore_pretrained
from utils.training.stored_encoder import ABOUT, FOLDER, WEIGHTS, StoredEncoderError, store_encoder, stored_encoder

SMALL = {"steps": 2, "dim": 8, "heads": 2, "hidden": 16, "layers": 1, "length": 16, "pieces": 400, "texts": 120}


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "encoder")
    return tmp_path / "encoder"


def test_what_is_stored_comes_back_as_it_was(tmp_path):
    result = pretrain.__wrapped__("masked", **SMALL)
    store_encoder(result, tmp_path)
    back = stored_encoder(tmp_path)
    assert {name: back[name] for name in module.TOLD} == {name: result[name] for name in module.TOLD}
    assert back["state"].keys() == result["state"].keys()
    assert all(torch.equal(back["state"][name], value) for name, value in result["state"].items())
    restored, original = restore_pretrained(back), restore_pretrained(result)
    numbers = torch.tensor([original.subwords.encode_pair("Return a list.")])
    assert torch.equal(restored.model(numbers), original.model(numbers))
    assert restored.subwords.encode("Return a list.") == original.subwords.encode("Return a list.")


def test_the_committed_encoder_fills_in_blanks_as_well_as_it_says():
    """On this Python's own docstrings, which may be other than those it was measured on."""
    given = setting("families")
    told = given.pretrained
    assert masked_loss(given.body(), given.text) == pytest.approx(told["held_out"], abs=0.3)
    assert told["held_out"] < 0.7 * told["unigram"]


@pytest.mark.parametrize("name", [WEIGHTS, ABOUT])
def test_a_missing_file_is_named_with_what_to_do(copy, name):
    (copy / name).unlink()
    with pytest.raises(StoredEncoderError, match=rf"expected {name}.*python -m utils\.training\.stored_encoder"):
        stored_encoder(copy)


@pytest.mark.parametrize("name", [WEIGHTS, ABOUT])
def test_a_damaged_file_is_said_to_be_damaged(copy, name):
    (copy / name).write_bytes(b"{ no such thing")
    with pytest.raises(StoredEncoderError, match="cannot be read"):
        stored_encoder(copy)


def test_parameters_of_another_size_are_named(copy):
    about = json.loads((copy / ABOUT).read_text(encoding="utf-8"))
    about["settings"]["hidden"] = 256
    (copy / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(StoredEncoderError, match="do not fit: encoder.layers.0.feed_forward"):
        stored_encoder(copy)

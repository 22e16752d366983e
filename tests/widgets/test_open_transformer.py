"""The open Transformer in Python: the page computes, and a notebook keeps no parameters."""

import copy
import json

import pytest
import torch

from utils.data.tokens import SPECIAL_TOKENS
from utils.training.own_sentence import MAX_WORDS
from utils.training.stored_translator import stored_translator
from utils.widgets import open_transformer, translator
from utils.widgets.base import page_html


@pytest.fixture(scope="module")
def trained():
    return stored_translator()


def test_a_notebook_names_the_stored_translator_and_a_page_holds_it(trained):
    for widget in (open_transformer(), open_transformer(trained.model, trained.english, trained.french)):
        state = widget.page_state()
        assert state["data"]["bundle"] == translator.STORED and len(json.dumps(state)) < 2000
        assert widget.data["bundle"] == translator.stored_bundle()
        page = page_html(state)
        assert widget.data["bundle"]["weights"] in page and len(page) < 2e6
        assert not widget.inputs, "Python is never asked"


def test_the_bundle_says_what_the_model_is(trained):
    bundle = translator.model_bundle(trained.model, trained.english, trained.french)
    assert bundle["config"] == {"dim": 96, "num_heads": 4, "hidden_dim": 256, "num_layers": 2, "max_len": MAX_WORDS}
    assert bundle["special"] == {f"{name[1:-1]}_id": token_id for token_id, name in enumerate(SPECIAL_TOKENS)}
    assert (bundle["source_tokens"], bundle["target_tokens"]) == (
        list(trained.english.words),
        list(trained.french.words),
    )


def test_the_parameters_of_the_reader_are_those_in_the_page(trained):
    model = copy.deepcopy(trained.model)
    torch.nn.init.zeros_(model.lm_head.weight)
    widget = open_transformer(
        model, trained.english, trained.french, badges={"norm": {"exercise": "5.5", "passed": True}}
    )
    assert widget.data["bundle"]["weights"] != translator.stored_bundle()["weights"]
    assert widget.data["badges"] == {"norm": {"exercise": "5.5", "passed": True}}
    assert widget.page_state()["data"]["badges"] == {"norm": {"exercise": "5.5", "passed": False}}, (
        "a page has no reader"
    )


def test_a_model_that_the_page_cannot_compute_is_refused(trained):
    rotary, post = copy.deepcopy(trained.model), copy.deepcopy(trained.model)
    rotary.source_embedding.positions = "rotary"
    with pytest.raises(ValueError, match="sinusoidal"):
        open_transformer(rotary, trained.english, trained.french)
    post.encoder.norm = torch.nn.Identity()
    with pytest.raises(ValueError, match="pre-norm"):
        open_transformer(post, trained.english, trained.french)

"""Facts about the ablation board, without a browser."""

import json

import numpy as np
import pytest
import torch

from utils import widgets

WORTH = torch.tensor([[0.0, 0.3], [0.1, 0.2]])


def respond(head_mask):
    assert head_mask.dtype == torch.bool
    return {"accuracy": 0.2 + (WORTH * head_mask).sum(), "predictions": ["le", "chat" if head_mask[0, 1] else "chatte"]}


def board():
    names = {"baseline_name": "most frequent", "what": "of the words correct", "title": "Heads?"}
    return widgets.ablation_board(respond, ["the", "cat"], effect=-WORTH, baseline=0.3, **names)


def test_the_words_say_which_heads_are_ablated_and_what_changes():
    widget = board()
    assert widget.alt().startswith(
        "Heads? Ablated: no head. 80.0 % of the words correct; with all heads 80.0 %, most frequent 30.0 %."
    )
    widget.set(head_mask=[[1, 0], [0, 1]])
    assert widget.alt() == (
        "Heads? Ablated: layer 1 head 2, layer 2 head 1. 40.0 % of the words correct; with all heads 80.0 %, most frequent 30.0 %. "
        "Predictions that change: cat chat → chatte. Each head ablated alone, in points: 0.0 −30.0; −10.0 −20.0."
    )


def test_a_built_page_knows_the_answer_to_every_set_of_heads():
    stored = board().page_state()["data"]["answers"]
    assert len(stored) == 16
    for key, answer in stored.items():
        head_mask = np.array(json.loads(key)["head_mask"])
        expected = respond(torch.tensor(head_mask, dtype=torch.bool))
        assert answer["accuracy"] == pytest.approx(expected["accuracy"].item(), abs=1e-5)
        assert answer["predictions"] == expected["predictions"]

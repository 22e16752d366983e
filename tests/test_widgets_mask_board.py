"""Facts about the mask board: every mask has its picture, its words and its answer, without a browser."""

import itertools
import json
import sys

import numpy as np
import pytest
import torch

from utils import widgets
from utils.models.attention import attention

# The package exports a function with the name of this module.
board_module = sys.modules["utils.widgets.mask_board"]
TOKENS = ["the", "cat", "sat"]


def layer(n, seed=0):
    """respond of a real head of attention, compared with the same head without a mask."""
    query, key, value = torch.randn(3, n, 5, generator=torch.Generator().manual_seed(seed))
    reference = attention(query, key, value)[0]

    def respond(mask):
        output, weights = attention(query, key, value, mask)
        return {"changed": (output - reference).norm(dim=-1), "weights": weights}

    return respond


def board(n=3, **options):
    tokens = TOKENS if n == 3 else [f"t{i}" for i in range(n)]
    return widgets.mask_board(tokens, layer(n), **options)


# State to answer


def test_every_mask_of_three_tokens_has_an_answer_and_only_rows_with_a_masked_pair_change():
    respond = layer(3)
    for bits in itertools.product([False, True], repeat=9):  # every mask of three tokens
        mask = np.array(bits).reshape(3, 3)
        answer = board_module.answer_of(respond, mask.tolist())
        json.dumps(answer, allow_nan=False)
        assert answer["mask"] == mask.tolist() and answer["measured"]
        assert [amount > 0 for amount in answer["changed"]] == (~mask.all(1)).tolist()
        weights, expected = np.array(answer["weights"]), respond(torch.tensor(mask))
        assert (weights[~mask] == 0).all() and np.allclose(weights.sum(1), mask.any(1))
        assert answer["changed"] == pytest.approx(expected["changed"].tolist(), abs=1e-6)
        assert np.allclose(weights, expected["weights"])


def test_a_fully_masked_row_is_reported():
    widget = board()
    widget.mask = [[True] * 3, [False] * 3, [True] * 3]  # as the page sends it
    assert widget.answer["count"] == 2 and widget.answer["mask"] == widget.mask
    assert widget.answer["weights"][1] == [0, 0, 0] and widget.answer["changed"][1] > 0
    assert widget.alt_text().endswith("1 of 3 outputs change: cat. Fully masked, all weights 0: cat.")
    assert "cat attends to nothing" in widget.alt_text()


def test_rounding_is_not_a_change_and_a_small_change_is_not_called_zero():
    said = [board_module.output_text(amount, True) for amount in (0, 1e-7, 2e-6, 0.004, 0.126, 3.0)]
    assert said == ["= same", "= same", "◆ changed <0.01", "◆ changed <0.01", "◆ changed 0.13", "◆ changed 3.00"]
    assert board_module.checked_changed([1e-7, 0.5], 2)[0].tolist() == [0, 0.5]


# State to picture


def test_a_dollar_sign_is_no_formula_and_blanks_can_be_seen():
    tokens = ["$x", "y$", " a", "b\n", ""]
    widget = widgets.mask_board(tokens, layer(5))
    assert widget.labels == ["$x", "y$", "␣a", "b↵", "(empty)"]
    assert widget.static()[0]["image/png"] and "$x y$ ␣a b↵ (empty)" in widget.alt_text()
    assert board_module.visible("  ") == "␣␣" and board_module.visible(" a b ") == "␣a b␣"


# Presets


def test_the_default_presets_are_what_their_names_say():
    known = {name: mask_of(5) for name, mask_of in board_module.default_presets(5).items()}
    rows, columns = np.indices((5, 5))
    assert list(known) == ["everything", "causal", "only itself", "window of 3", "last two are padding", "nothing"]
    assert known["everything"].all() and not known["nothing"].any()
    assert (known["causal"] == (columns <= rows)).all()
    assert (known["only itself"] == (columns == rows)).all()
    assert (known["window of 3"] == (abs(columns - rows) <= 1)).all()
    assert (known["last two are padding"] == (columns < 3)).all()


# What is refused


GOOD = {"changed": [0.0] * 3, "weights": np.full((3, 3), 1 / 3)}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (None, TypeError, "got NoneType"),
        ({"changed": [0, 0, 0]}, TypeError, r"\"weights\", got \['changed'\]"),
        ({**GOOD, "changed": [0, 0]}, ValueError, r"each of 3 tokens, \(3,\), got \(2,\)"),
        ({**GOOD, "changed": [0, -1, 0]}, ValueError, "smallest is -1: take the norm"),
        ({**GOOD, "changed": [0, float("nan"), 0]}, ValueError, "finite"),
        ({**GOOD, "weights": np.full((3, 4), 0.25)}, ValueError, r"shape \(3, 3\), got \(3, 4\)$"),
        ({**GOOD, "weights": np.full((1, 3, 3), 1 / 3)}, ValueError, r"`weights\[0\]`"),
        ({**GOOD, "weights": np.full((3, 3), -1.0)}, ValueError, "are these scores"),
        ({**GOOD, "weights": np.ones((3, 3))}, ValueError, "apply softmax first"),
    ],
)
def test_a_wrong_answer_of_respond_is_refused(answer, error, message):
    with pytest.raises(error, match=message):
        widgets.mask_board(TOKENS, lambda mask: answer)


def test_weights_that_ignore_the_mask_are_refused():
    with pytest.raises(ValueError, match="token 0 may not attend to token 1 but has the weight 0.333 there"):
        widgets.mask_board(TOKENS, lambda mask: GOOD, start="causal")

"""Facts about the mask board, without a browser."""

import sys

import numpy as np
import pytest
import torch

from utils import widgets
from utils.exercises.solutions import solution_of

# The package exports a function with the name of this module.
module = sys.modules["utils.widgets.mask_board"]


def board(layer=None, start="everything"):
    """Two layers of exercise 4.9 over three tokens, the first of which is replaced."""
    torch.manual_seed(0)
    layers = [solution_of("4.9").reference(4, 4) for _ in range(2)]
    x = torch.randn(1, 3, 4).repeat(2, 1, 1)
    x[1, 0] = torch.randn(4)
    projections = [(each.query.weight, each.key.weight, each.value.weight) for each in layers]
    layers = [layer] if layer else layers
    return widgets.mask_board(["a", "cat", "a"], layers, x, projections=projections, start=start, title="Masks.")


def test_an_output_changes_only_where_the_mask_leads_to_the_replaced_token():
    """Through keys and values, or through its own query where that has several keys to weigh."""
    widget, random = board(), np.random.default_rng(0)
    for _ in range(50):
        mask = random.random((3, 3)) < 0.4
        widget.set(mask=mask.tolist())
        changed = np.array(widget.answer["changed"]) > 0
        before = np.arange(3) == 0
        assert (changed[0] == (mask[:, 0] | (before & (mask.sum(1) > 1)))).all()
        for after in changed:
            assert (after <= ((mask & before).any(1) | (before & (mask.sum(1) > 1)))).all()
            before = after
        weights = np.array(widget.answer["weights"])
        assert (weights[:, ~mask] == 0).all() and np.allclose(weights.sum(-1), mask.any(1))


def test_the_presets_are_what_their_names_say():
    known = {name: np.array(mask) for name, mask in module.presets(5).items()}
    rows, columns = np.indices((5, 5))
    assert known["everything"].all() and not known["nothing"].any()
    assert (known["causal"] == (columns <= rows)).all()
    assert (known["only itself"] == (columns == rows)).all()
    assert (known["window of 3"] == (abs(columns - rows) <= 1)).all()
    assert (known["padding"] == (columns < 3)).all()


def test_the_words_name_the_mask_and_what_changes():
    widget = board(start="causal")
    assert widget.alt() == (
        "Masks. A mask over 3 tokens, causal: 6 of 9 query-key pairs are allowed. When “a (1)” is replaced, 3 of 3 outputs of 2 layers "
        "change: a (1), cat, a (3)."
    )
    widget.set(mask=[[False] * 3, [False, True, True], [False, False, True]])
    assert "a (1) attends to nothing; cat attends to cat, a (3); a (3) attends to a (3)" in widget.alt()
    assert widget.alt().endswith("0 of 3 outputs of 2 layers change.")


def test_a_layer_that_ignores_the_mask_or_forgets_its_weights_is_named():
    def unmasked(x, mask):
        return x, torch.full((2, 3, 3), 1 / 3)

    with pytest.raises(ValueError, match="Token 0 may not attend to token 1 but has the weight 0.333 there"):
        board(unmasked, start="causal")
    with pytest.raises(ValueError, match=r"shape \(2, 3, 3\), got \(3, 3\)"):
        board(lambda x, mask: (x, torch.eye(3)))

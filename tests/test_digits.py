"""Facts about digits read patch by patch."""

import pytest
import torch

from tests.benchmarks.costs import digits_table
from utils.training.digits import (
    CLASSES,
    HELD_OUT,
    PATCHES,
    PatchClassifier,
    decision_map,
    digit_images,
    patches,
    random_orders,
    restore_digits,
    share_right,
    train_digits,
)


@pytest.fixture(scope="module")
def trained():
    return train_digits(epochs=10)


def test_the_split_is_fixed_and_no_image_is_on_both_sides():
    data = digit_images()
    assert data.images.shape == (1797 - HELD_OUT, 8, 8) and data.held_out_images.shape == (HELD_OUT, 8, 8)
    assert data.images.min() == 0 and data.images.max() == 1
    seen = {tuple(one) for one in data.images.flatten(1).tolist()}
    assert not any(tuple(one) in seen for one in data.held_out_images.flatten(1).tolist())
    assert data.held_out_digits.bincount().min() > 20 and data.digits.unique().tolist() == list(range(CLASSES))


def test_patches_go_row_by_row_and_none_of_the_pixels_is_lost():
    image = torch.arange(64).view(1, 8, 8)
    cut = patches(image)
    assert cut.shape == (1, PATCHES, 4)
    assert cut[0, 0].tolist() == [0, 1, 8, 9] and cut[0, 1].tolist() == [2, 3, 10, 11]
    assert cut[0, 4].tolist() == [16, 17, 24, 25] and cut[0, 15].tolist() == [54, 55, 62, 63]
    assert patches(image, 4)[0, 2].tolist()[:5] == [32, 33, 34, 35, 40]
    assert sorted(cut.flatten().tolist()) == list(range(64))


def test_without_positions_the_order_of_the_patches_changes_nothing_and_with_them_it_does():
    images, orders = digit_images().images[:5], random_orders(5, torch.Generator().manual_seed(0))
    assert orders.sort(1).values.eq(torch.arange(PATCHES)).all()
    for positions in ("none", "learned", "sinusoidal"):
        torch.manual_seed(0)
        model = PatchClassifier(positions=positions)
        same = torch.allclose(model(images, orders), model(images), atol=1e-5)
        assert same == (positions == "none")


def test_a_short_training_reads_most_digits_that_it_never_saw(trained):
    assert trained["accuracy"].item() >= 0.88
    assert trained["other_order"].item() < 0.4
    assert trained["loss"].shape == (10, 1) and trained["loss"][-1] < 0.4 < 1.5 < trained["loss"][0]
    data, model = digit_images(), restore_digits(trained)
    assert share_right(model, data.held_out_images, data.held_out_digits) == pytest.approx(trained["accuracy"].item())


def test_the_votes_of_the_patches_are_the_decision(trained):
    model, image = restore_digits(trained), digit_images().held_out_images[3]
    with torch.no_grad():
        logits = model(image[None])[0]
        votes = model.votes(image[None])
        assert votes.shape == (1, PATCHES, CLASSES)
        assert torch.allclose(votes[0].mean(0) + model.answer.bias, logits, atol=1e-5)
    found = decision_map(model, image)
    assert found["digit"] == logits.argmax() and torch.allclose(found["probabilities"], logits.softmax(0), atol=1e-5)
    assert found["votes"].shape == (4, 4) and found["looks"].shape == (2, 4, 4)
    above = (logits - model.answer.bias)[found["digit"]] - (logits - model.answer.bias).mean()
    assert found["votes"].mean().item() == pytest.approx(above.item(), abs=1e-4)
    assert torch.allclose(found["looks"].sum((1, 2)), torch.ones(2), atol=1e-5)


def test_a_seed_learns_the_same_in_any_company_and_the_global_state_stays():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    both = train_digits.__wrapped__(seeds=[3, 1], epochs=1)
    assert torch.equal(torch.rand(1), expected)
    alone = train_digits.__wrapped__(seeds=[1], epochs=1)
    assert torch.equal(both["loss"][:, 1:], alone["loss"])


def test_the_table_can_be_measured_small():
    rows = digits_table(1, (("none", False), ("learned", True)), epochs=1)
    assert [(row["positions"], row["shuffled"]) for row in rows] == [("none", False), ("learned", True)]
    assert len(rows[0]["accuracies"]) == 1 and rows[0]["held_out"] == HELD_OUT

"""Vision Transformer on handwritten digits: patches, positions, and where a prediction comes from."""

import pytest
import torch

from tests.benchmarks.costs import digits_table
from utils.training.digits import (
    HELD_OUT,
    NUM_CLASSES,
    NUM_PATCHES,
    PatchClassifier,
    digit_images,
    explain_digit,
    held_out_accuracy,
    patchify,
    random_orders,
    restore_digits,
    train_digits,
)


@pytest.fixture(scope="module")
def trained():
    return train_digits(num_epochs=10)


def test_the_split_is_fixed_and_disjoint():
    data = digit_images()
    assert data.images.shape == (1797 - HELD_OUT, 8, 8) and data.held_out_images.shape == (HELD_OUT, 8, 8)
    assert data.images.min() == 0 and data.images.max() == 1
    training = {tuple(image) for image in data.images.flatten(1).tolist()}
    assert not any(tuple(image) in training for image in data.held_out_images.flatten(1).tolist())
    assert data.held_out_digits.bincount().min() > 20 and data.digits.unique().tolist() == list(range(NUM_CLASSES))


def test_patches_go_row_by_row_and_no_pixel_is_lost():
    image = torch.arange(64).view(1, 8, 8)
    patches = patchify(image)
    assert patches.shape == (1, NUM_PATCHES, 4)
    assert patches[0, 0].tolist() == [0, 1, 8, 9] and patches[0, 1].tolist() == [2, 3, 10, 11]
    assert patches[0, 4].tolist() == [16, 17, 24, 25] and patches[0, 15].tolist() == [54, 55, 62, 63]
    assert patchify(image, 4)[0, 2].tolist()[:5] == [32, 33, 34, 35, 40]
    assert sorted(patches.flatten().tolist()) == list(range(64))


def test_the_order_of_the_patches_matters_with_positions_only():
    images, orders = digit_images().images[:5], random_orders(5, torch.Generator().manual_seed(0))
    assert orders.sort(1).values.eq(torch.arange(NUM_PATCHES)).all()
    for positions in ("none", "learned", "sinusoidal"):
        torch.manual_seed(0)
        model = PatchClassifier(positions).eval()
        same = torch.allclose(model(images, orders), model(images), atol=1e-5)
        assert same == (positions == "none")


def test_a_short_training_run_classifies_most_held_out_digits(trained):
    assert trained["accuracy"].item() >= 0.88
    assert trained["shuffled_accuracy"].item() < 0.4
    assert held_out_accuracy(restore_digits(trained)) == pytest.approx(trained["accuracy"].item())


def test_the_contributions_of_the_patches_add_up_to_the_logits(trained):
    model, image = restore_digits(trained), digit_images().held_out_images[3]
    with torch.no_grad():
        logits = model(image[None])[0]
        patch_logits, _ = model.patch_logits(image[None])
        assert patch_logits.shape == (1, NUM_PATCHES, NUM_CLASSES)
        assert torch.allclose(patch_logits[0].mean(0) + model.head.bias, logits, atol=1e-5)
    result = explain_digit(model, image)
    assert result["digit"] == logits.argmax()
    assert result["contributions"].shape == (4, 4) and result["attention_weights"].shape == (2, 4, 4)
    without_bias = logits - model.head.bias
    expected = without_bias[result["digit"]] - without_bias.mean()
    assert result["contributions"].mean().item() == pytest.approx(expected.item(), abs=1e-4)
    assert torch.allclose(result["attention_weights"].sum((1, 2)), torch.ones(2), atol=1e-5)


def test_a_seed_does_not_depend_on_the_others_and_the_global_random_state_stays():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    both = train_digits.__wrapped__(seeds=2, num_epochs=1)
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(both["accuracy"][:1], train_digits.__wrapped__(seeds=1, num_epochs=1)["accuracy"])


def test_the_table_can_be_measured_small():
    rows = digits_table(1, (("none", False), ("learned", True)), num_epochs=1)
    assert [(row["positions"], row["shuffled"]) for row in rows] == [("none", False), ("learned", True)]
    assert len(rows[0]["accuracies"]) == 1 and rows[0]["held_out"] == HELD_OUT

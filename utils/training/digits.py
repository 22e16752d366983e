"""Vision Transformer (Dosovitskiy et al., 2021, arXiv:2010.11929) on handwritten digits: the encoder of lesson 05 on a sequence of patches.

An image of 8 x 8 pixels is split into 16 patches of 2 x 2, each embedded like a token. Nothing in the model knows that an
image has two dimensions, or which patches are neighbors.
"""

import functools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.language_models import parameter_count
from utils.models.layers import TransformerEncoder
from utils.models.positions import LearnedPositions, sinusoidal_positions
from utils.training.cache import cached
from utils.training.seeds import seeded
from utils.training.trainer import Trainer

SIDE, PATCH_SIZE, NUM_CLASSES = 8, 2, 10
NUM_PATCHES = (SIDE // PATCH_SIZE) ** 2
NUM_IMAGES, HELD_OUT = 1797, 360  # a fifth of the images
SPLIT_SEED = 8
DIM, NUM_LAYERS = 48, 2
BATCH_SIZE, LEARNING_RATE = 128, 5e-3


@dataclass(frozen=True, eq=False)
class Digits:
    """Images (m, 8, 8) with values from 0 to 1 and their digits (m,); the held-out ones are of the same writers."""

    images: Tensor
    digits: Tensor
    held_out_images: Tensor
    held_out_digits: Tensor


@functools.cache
def digit_images() -> Digits:
    """The 1797 images of scikit-learn (Alpaydin and Kaynak, 1998), in one fixed split."""
    from sklearn.datasets import load_digits  # at the top it would cost every importer a second and 90 MB

    raw = load_digits()
    images, digits = torch.tensor(raw.images / 16, dtype=torch.float32), torch.tensor(raw.target).long()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SPLIT_SEED))
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    return Digits(images[train], digits[train], images[test], digits[test])


def patchify(images: Tensor, size: int = PATCH_SIZE) -> Tensor:
    """(b, side, side) to (b, patches, size²): patches row by row from the top left, and so the pixels in each patch."""
    rows = images.unflatten(-2, (-1, size)).unflatten(-1, (-1, size))  # (b, down, size, across, size)
    return rows.transpose(-3, -2).flatten(-2).flatten(-3, -2)


class PatchClassifier(nn.Module):
    """Vision Transformer with mean pooling: patch embedding, encoder, mean over the patches, linear classifier."""

    def __init__(self, positions: str):
        super().__init__()
        self.patch_embedding = nn.Linear(PATCH_SIZE**2, DIM)
        self.position_embedding = LearnedPositions(NUM_PATCHES, DIM) if positions == "learned" else None
        is_sinusoidal = positions == "sinusoidal"
        fixed = sinusoidal_positions(NUM_PATCHES, DIM) if is_sinusoidal else torch.zeros(NUM_PATCHES, DIM)
        self.register_buffer("fixed_positions", fixed, persistent=False)
        self.encoder = TransformerEncoder(NUM_LAYERS, DIM, 4, 2 * DIM, norm_first=True, dropout=0.1, activation="gelu")
        self.head = nn.Linear(DIM, NUM_CLASSES)

    def forward(self, images: Tensor, order: Tensor | None = None) -> Tensor:
        """images (b, 8, 8) to logits (b, 10). order (b, patches) or (patches,): a permutation of the patches."""
        return self.patch_logits(images, order)[0].mean(1) + self.head.bias

    def patch_logits(
        self, images: Tensor, order: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """(b, patches, 10): the contribution of each patch; the head is linear, so their mean plus the bias is the logits.
        And each layer's attention weights (b, heads, patches, patches), if needed."""
        x = patchify(images)
        if order is not None:
            x = x.gather(1, order.expand(len(x), -1).unsqueeze(-1).expand_as(x))
        position = self.fixed_positions if self.position_embedding is None else self.position_embedding(x.size(1))
        x, weights = self.encoder(self.patch_embedding(x) + position, need_weights=need_weights)
        return x @ self.head.weight.T, weights


def random_orders(count: int, generator: torch.Generator) -> Tensor:
    """(count, patches): a random permutation of the patches for each image."""
    return torch.rand(count, NUM_PATCHES, generator=generator).argsort(1)


def train_classifier(positions: str, seed: int, order: Tensor | None, generator: torch.Generator, num_epochs: int):
    """One trained `PatchClassifier`; order: of the patches of all images."""
    data, num_batches = digit_images(), (NUM_IMAGES - HELD_OUT) // BATCH_SIZE
    with seeded(seed):
        model = PatchClassifier(positions)
        # OneCycleLR changes the momentum too, which the schedules of the trainer do not.
        trainer = Trainer(
            model,
            learning_rate=LEARNING_RATE,
            schedule=lambda step: one_cycle.get_last_lr()[0] / LEARNING_RATE,
            betas=(0.9, 0.98),
            weight_decay=0.01,
        )
        one_cycle = torch.optim.lr_scheduler.OneCycleLR(
            trainer.optimizer, LEARNING_RATE, total_steps=num_epochs * num_batches, pct_start=0.1
        )
        for _ in range(num_epochs):
            for batch in torch.randperm(len(data.images), generator=generator).split(BATCH_SIZE)[:num_batches]:
                loss = F.cross_entropy(model(data.images[batch], order), data.digits[batch])
                trainer.step(one_cycle.last_epoch, loss)
                one_cycle.step()
    return model.eval()


@torch.no_grad()
def held_out_accuracy(model: PatchClassifier, order: Tensor | None = None) -> float:
    data = digit_images()
    return (model(data.held_out_images, order).argmax(1) == data.held_out_digits).float().mean().item()


@cached
def train_digits(positions: str = "learned", seeds: int = 1, *, shuffled: bool = False, num_epochs: int = 25) -> dict:
    """Train classifiers of patches and test them on held-out images.

    shuffled: one permutation of the patches for each seed, applied to all images in training and test. Returns accuracy (s,) on
    held-out images; shuffled_accuracy (s,), with a different permutation for each of these images; parameters; and what
    `restore_digits` needs, the first seed's.
    """
    test_orders = random_orders(HELD_OUT, torch.Generator().manual_seed(SPLIT_SEED))
    models, accuracies = [], []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        order = random_orders(1, generator)[0] if shuffled else None
        models.append(train_classifier(positions, seed, order, generator, num_epochs))
        accuracies.append([held_out_accuracy(models[-1], orders) for orders in (order, test_orders)])
    accuracy, shuffled_accuracy = torch.tensor(accuracies).unbind(1)
    return {
        "accuracy": accuracy,
        "shuffled_accuracy": shuffled_accuracy,
        "parameters": parameter_count(models[0]),
        "positions": positions,
        "state_dict": {name: tensor.clone() for name, tensor in models[0].state_dict().items()},
    }


def restore_digits(result: dict) -> PatchClassifier:
    """The trained model of the first seed of a result of `train_digits`."""
    model = PatchClassifier(result["positions"])
    model.load_state_dict(result["state_dict"])
    return model.eval()


@torch.no_grad()
def explain_digit(model: PatchClassifier, image: Tensor) -> dict:
    """The prediction for one image (8, 8) and where it comes from.

    digit; contributions (4, 4), of each patch to the logit of that digit, relative to its mean over the ten
    digits; attention_weights (layers, 4, 4), received by each patch, the mean over heads and queries (uniform: 1/16 each).
    """
    across = SIDE // PATCH_SIZE
    (patch_logits,), weights = model.patch_logits(image[None], need_weights=True)
    digit = int((patch_logits.mean(0) + model.head.bias).argmax())
    received = torch.stack([layer[0].mean((0, 1)) for layer in weights])
    return {
        "digit": digit,
        "contributions": (patch_logits[:, digit] - patch_logits.mean(1)).view(across, across),
        "attention_weights": received.view(-1, across, across),
    }

"""Vision Transformer (Dosovitskiy et al., 2021) on handwritten digits: the encoder of lesson 05 on a sequence of patches.

An image of 8 x 8 pixels is split into 16 patches of 2 x 2, each embedded like a token. Nothing in the model knows that an
image has two dimensions, or which patches are neighbors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.layers import TransformerEncoder
from utils.models.positions import LearnedPositions, sinusoidal_positions
from utils.training.cache import cached
from utils.training.seeds import seed_list
from utils.training.trainer import Trainer

SIDE, PATCH_SIZE, NUM_CLASSES = 8, 2, 10
NUM_PATCHES = (SIDE // PATCH_SIZE) ** 2
HELD_OUT = 360  # a fifth of the 1797 images
SPLIT_SEED = 8
DIM, NUM_LAYERS = 48, 2


@dataclass(frozen=True, eq=False)
class Digits:
    """Images (m, 8, 8) with values from 0 to 1 and their digits (m,); the held-out ones are of the same writers."""

    images: Tensor
    digits: Tensor
    held_out_images: Tensor
    held_out_digits: Tensor


@lru_cache(maxsize=1)
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

    def __init__(self, positions: str = "learned", dropout: float = 0.0):
        super().__init__()
        self.patch_embedding = nn.Linear(PATCH_SIZE**2, DIM)
        self.position_embedding = LearnedPositions(NUM_PATCHES, DIM) if positions == "learned" else None
        is_sinusoidal = positions == "sinusoidal"
        fixed = sinusoidal_positions(NUM_PATCHES, DIM) if is_sinusoidal else torch.zeros(NUM_PATCHES, DIM)
        self.register_buffer("fixed_positions", fixed, persistent=False)
        self.encoder = TransformerEncoder(
            NUM_LAYERS, DIM, 4, 2 * DIM, norm_first=True, dropout=dropout, activation="gelu"
        )
        self.head = nn.Linear(DIM, NUM_CLASSES)

    def forward(self, images: Tensor, order: Tensor | None = None) -> Tensor:
        """images (b, 8, 8) to logits (b, 10). order (b, patches) or (patches,): a permutation of the patches."""
        return self.patch_logits(images, order).mean(1) + self.head.bias

    def patch_logits(self, images: Tensor, order: Tensor | None = None) -> Tensor:
        """(b, patches, 10): the contribution of each patch; the head is linear, so their mean plus the bias is the logits."""
        return self._encode(images, order)[0] @ self.head.weight.T

    def attention_weights(self, images: Tensor) -> list[Tensor]:
        """Each layer's attention weights (b, heads, patches, patches)."""
        return self._encode(images, need_weights=True)[1]

    def _encode(self, images: Tensor, order: Tensor | None = None, need_weights: bool = False):
        x = patchify(images)
        if order is not None:
            x = x.gather(1, order.expand(len(x), -1).unsqueeze(-1).expand_as(x))
        position = self.fixed_positions if self.position_embedding is None else self.position_embedding(x.size(1))
        return self.encoder(self.patch_embedding(x) + position, need_weights=need_weights)


def random_orders(count: int, generator: torch.Generator) -> Tensor:
    """(count, patches): a random permutation of the patches for each image."""
    return torch.rand(count, NUM_PATCHES, generator=generator).argsort(1)


@torch.no_grad()
def accuracy(model: PatchClassifier, images: Tensor, digits: Tensor, order: Tensor | None = None) -> float:
    return (model.eval()(images, order).argmax(1) == digits).float().mean().item()


@cached
def train_digits(
    positions: str = "learned", seeds: int | Sequence[int] = 1, *, shuffled: bool = False, num_epochs: int = 25
) -> dict:
    """Train classifiers of patches and test them on held-out images.

    shuffled: one permutation of the patches for each seed, applied to all images in training and test. Returns accuracy (s,) on
    held-out images; shuffled_accuracy (s,), with a different permutation for each of these images; loss (num_epochs, s);
    parameters; state_dicts, for `restore_digits`.
    """
    runs = [_train_seed(positions, seed, shuffled, num_epochs) for seed in seed_list(seeds)]
    return {
        "positions": positions,
        "shuffled": shuffled,
        "seeds": seed_list(seeds),
        "accuracy": torch.tensor([run["accuracy"] for run in runs]),
        "shuffled_accuracy": torch.tensor([run["shuffled_accuracy"] for run in runs]),
        "loss": torch.stack([run["loss"] for run in runs], 1),
        "parameters": sum(tensor.numel() for tensor in runs[0]["state_dict"].values()),
        "state_dicts": [run["state_dict"] for run in runs],
    }


def _train_seed(
    positions: str, seed: int, shuffled: bool, num_epochs: int, batch_size: int = 128, learning_rate: float = 5e-3
) -> dict:
    data, generator = digit_images(), torch.Generator().manual_seed(seed)
    num_batches, losses = len(data.images) // batch_size, []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PatchClassifier(positions, dropout=0.1)
        order = random_orders(1, generator)[0] if shuffled else None
        # OneCycleLR changes the momentum too, which the schedules of the trainer do not.
        trainer = Trainer(
            model,
            learning_rate=learning_rate,
            schedule=lambda step: one_cycle.get_last_lr()[0] / learning_rate,
            betas=(0.9, 0.98),
            weight_decay=0.01,
        )
        total_steps = num_epochs * num_batches
        one_cycle = torch.optim.lr_scheduler.OneCycleLR(
            trainer.optimizer, learning_rate, total_steps=total_steps, pct_start=0.1
        )
        for step in range(total_steps):
            if step % num_batches == 0:
                batches = torch.randperm(len(data.images), generator=generator).split(batch_size)
            batch = batches[step % num_batches]
            losses.append(trainer.step(step, F.cross_entropy(model(data.images[batch], order), data.digits[batch])))
            one_cycle.step()
    test = data.held_out_images, data.held_out_digits
    orders = random_orders(HELD_OUT, torch.Generator().manual_seed(SPLIT_SEED))
    return {
        "accuracy": accuracy(model, *test, order),
        "shuffled_accuracy": accuracy(model, *test, orders),
        "loss": torch.stack(losses).view(num_epochs, num_batches).mean(1),
        "state_dict": {name: tensor.clone() for name, tensor in model.state_dict().items()},
    }


def restore_digits(result: dict) -> PatchClassifier:
    """The trained model of the first seed of a result of `train_digits`."""
    model = PatchClassifier(result["positions"])
    model.load_state_dict(result["state_dicts"][0])
    return model.eval()


@torch.no_grad()
def explain_digit(model: PatchClassifier, image: Tensor) -> dict:
    """The prediction for one image (8, 8) and where it comes from.

    digit; probabilities (10,); contributions (4, 4), of each patch to the logit of that digit, relative to its mean over the ten
    digits; attention_weights (layers, 4, 4), received by each patch, the mean over heads and queries (uniform: 1/16 each).
    """
    across = SIDE // PATCH_SIZE
    patch_logits = model.patch_logits(image[None])[0]
    logits = patch_logits.mean(0) + model.head.bias
    digit = int(logits.argmax())
    received = torch.stack([weights[0].mean((0, 1)) for weights in model.attention_weights(image[None])])
    return {
        "digit": digit,
        "probabilities": logits.softmax(0),
        "contributions": (patch_logits[:, digit] - patch_logits.mean(1)).view(across, across),
        "attention_weights": received.view(-1, across, across),
    }

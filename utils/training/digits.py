"""Attention over a set of image patches: the encoder of lesson 05, unchanged, reads handwritten digits.

An image of 8 x 8 pixels is cut into 16 patches of 2 x 2, and a patch is to the encoder what a word is: a vector. Nothing in the
model knows that an image has two dimensions, or which patches are neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.encoder import Encoder
from utils.models.positions import LearnedPositions, sinusoidal_positions
from utils.training.cache import cached
from utils.training.seeds import seed_list

SIDE, PATCH, CLASSES = 8, 2, 10
PATCHES = (SIDE // PATCH) ** 2
HELD_OUT = 360  # a fifth of the 1797 images
SPLIT_SEED = 8


@dataclass(frozen=True, eq=False)
class Digits:
    """Images (m, 8, 8) with values from 0 to 1, and the digit (m,) on each; the held-out ones are of the same writers."""

    images: Tensor
    digits: Tensor
    held_out_images: Tensor
    held_out_digits: Tensor


@lru_cache(maxsize=1)
def digit_images() -> Digits:
    """The 1797 images that scikit-learn ships, in one fixed split."""
    from sklearn.datasets import load_digits  # a second and 90 MB for all who import this module, were it at the top

    raw = load_digits()
    images, digits = torch.tensor(raw.images / 16, dtype=torch.float32), torch.tensor(raw.target).long()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SPLIT_SEED))
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    return Digits(images[train], digits[train], images[test], digits[test])


def patches(images: Tensor, size: int = PATCH) -> Tensor:
    """(b, side, side) to (b, patches, size²): row by row from the top left, and so the pixels in each patch."""
    rows = images.unflatten(-2, (-1, size)).unflatten(-1, (-1, size))  # (b, down, size, across, size)
    return rows.transpose(-3, -2).flatten(-2).flatten(-3, -2)


class PatchClassifier(nn.Module):
    """Patches to vectors, an encoder over them, the mean of what comes out, and a linear map to the ten digits."""

    def __init__(
        self,
        dim: int = 48,
        heads: int = 4,
        hidden: int = 96,
        layers: int = 2,
        positions: str = "learned",
        dropout: float = 0.0,
        size: int = PATCH,
    ):
        super().__init__()
        self.size, count = size, (SIDE // size) ** 2
        self.enter = nn.Linear(size**2, dim)
        self.positions = LearnedPositions(count, dim) if positions == "learned" else None
        table = sinusoidal_positions(count, dim) if positions == "sinusoidal" else torch.zeros(count, dim)
        self.register_buffer("table", table, persistent=False)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre", dropout=dropout, activation="gelu")
        self.answer = nn.Linear(dim, CLASSES)

    def forward(self, images: Tensor, order: Tensor | None = None) -> Tensor:
        """images (b, 8, 8) to logits (b, 10). order (b, patches) or (patches,): the place from which each patch is taken."""
        return self.votes(images, order).mean(1) + self.answer.bias

    def votes(self, images: Tensor, order: Tensor | None = None) -> Tensor:
        """(b, patches, 10): what each patch says for each digit, after all have looked at each other.

        The last layer is linear, so the mean over the patches, plus the bias, is exactly the logits: nothing is left out.
        """
        return self._read(images, order)[0] @ self.answer.weight.T

    def looks(self, images: Tensor) -> list[Tensor]:
        """Each layer's weights (b, heads, patches, patches)."""
        return self._read(images, need_weights=True)[1]

    def _read(self, images: Tensor, order: Tensor | None = None, need_weights: bool = False):
        cut = patches(images, self.size)
        if order is not None:
            cut = cut.gather(1, order.expand(len(cut), -1).unsqueeze(-1).expand_as(cut))
        place = self.table if self.positions is None else self.positions(cut.size(1))
        return self.encoder(self.enter(cut) + place, need_weights=need_weights)


def random_orders(count: int, generator: torch.Generator, patches: int = PATCHES) -> Tensor:
    """(count, patches): an order of the patches for each image."""
    return torch.rand(count, patches, generator=generator).argsort(1)


@torch.no_grad()
def share_right(model: PatchClassifier, images: Tensor, digits: Tensor, order: Tensor | None = None) -> float:
    model.eval()
    return (model(images, order).argmax(1) == digits).float().mean().item()


@cached
def train_digits(
    positions: str = "learned",
    seeds: int | Sequence[int] = 1,
    *,
    shuffled: bool = False,
    epochs: int = 25,
    batch: int = 128,
    rate: float = 5e-3,
    dropout: float = 0.1,
    dim: int = 48,
    layers: int = 2,
) -> dict:
    """Train classifiers of patches, and score them on the held-out images.

    shuffled: one order of the patches, drawn for each seed, in which it gets all images, in training and in test.
    Returns accuracy (s,), the share right of the held-out images; other_order (s,), the same when each of these images has its
    patches in an order of its own; loss (epochs, s); parameters, their number; states, for `restore_digits`.
    """
    found = [
        _train_one(positions, seed, shuffled, epochs, batch, rate, dropout, dim, layers) for seed in seed_list(seeds)
    ]
    return {
        "positions": positions,
        "shuffled": shuffled,
        "seeds": seed_list(seeds),
        "accuracy": torch.tensor([one["accuracy"] for one in found]),
        "other_order": torch.tensor([one["other_order"] for one in found]),
        "loss": torch.tensor([one["loss"] for one in found]).T.contiguous(),
        "parameters": sum(one.numel() for one in found[0]["state"].values()),
        "states": [one["state"] for one in found],
        "options": {"positions": positions, "dim": dim, "layers": layers},
    }


def _train_one(
    positions: str,
    seed: int,
    shuffled: bool,
    epochs: int,
    batch: int,
    rate: float,
    dropout: float,
    dim: int,
    layers: int,
) -> dict:
    data, generator = digit_images(), torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PatchClassifier(dim, hidden=2 * dim, layers=layers, positions=positions, dropout=dropout)
        order = random_orders(1, generator)[0] if shuffled else None
        steps = epochs * (len(data.images) // batch)
        optimizer = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
        losses = []
        for _ in range(epochs):
            total = 0.0
            mixed = torch.randperm(len(data.images), generator=generator)
            parts = mixed[: len(mixed) // batch * batch].view(-1, batch)
            for part in parts:
                loss = F.cross_entropy(model(data.images[part], order), data.digits[part])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.item()
            losses.append(total / len(parts))
    test = data.held_out_images, data.held_out_digits
    orders = random_orders(len(test[0]), torch.Generator().manual_seed(SPLIT_SEED))
    return {
        "accuracy": share_right(model, *test, order),
        "other_order": share_right(model, *test, orders),
        "loss": losses,
        "state": {name: one.clone() for name, one in model.state_dict().items()},
    }


def restore_digits(result: dict, place: int = 0) -> PatchClassifier:
    """The trained model of the seed at `place` of a result of `train_digits`."""
    options = result["options"]
    model = PatchClassifier(
        options["dim"], hidden=2 * options["dim"], layers=options["layers"], positions=options["positions"]
    )
    model.load_state_dict(result["states"][place])
    return model.eval()


@torch.no_grad()
def decision_map(model: PatchClassifier, image: Tensor) -> dict:
    """How a decision about one image (8, 8) came about: digit, the answer; probabilities (10,); votes (4, 4), what each patch
    says for that digit, above or below what it says for the ten on average; looks (layers, 4, 4), how much each patch is looked
    at, the mean over heads and over the patches that look (1/16 each = everywhere the same)."""
    across = SIDE // model.size
    votes = model.votes(image[None])[0]
    logits = votes.mean(0) + model.answer.bias
    digit = int(logits.argmax())
    looked = torch.stack([weights[0].mean((0, 1)) for weights in model.looks(image[None])])
    return {
        "digit": digit,
        "probabilities": logits.softmax(0),
        "votes": (votes[:, digit] - votes.mean(1)).view(across, across),
        "looks": looked.view(-1, across, across),
    }

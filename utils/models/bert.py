"""BERT out of the course's own encoder, and the published weights of a real one, read into it.

    real = load_minilm(folder)                      # the folder with the published files
    vectors = real.sentence_vectors(["A cat sleeps.", "A kitten naps."])    # (2, 384), of length one
    hidden = real.hidden_states(["She winds her watch."])                   # every layer, and what the pieces are

Nothing of the blocks is new: `Encoder` with post-norm, the exact gelu and an eps of 1e-12. New are the embeddings (words plus
learned positions plus a kind of token, then a norm) and a map of names. all-MiniLM-L6-v2, which this is for, was trained
to give similar sentences similar vectors: the mean of the last layer over all pieces, scaled to length one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from utils.models.encoder import Encoder, LayerNorm

LONGEST = 256  # pieces, the two marks included: the length that MiniLM was made for; its table has 512 positions
AT_ONCE = 512  # pieces; what the layers make of so many stays in a processor's cache


class WeightsError(ValueError):
    """Published files that do not fit the model; the message names what is missing, left over or of another shape."""


# --- the model --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BertSizes:
    """The sizes of a BERT; `of` reads them from the published config.json."""

    words: int
    dim: int
    layers: int
    heads: int
    hidden: int
    positions: int = 512
    kinds: int = 2
    eps: float = 1e-12

    @classmethod
    def of(cls, config: Mapping) -> "BertSizes":
        names = {
            "words": "vocab_size",
            "dim": "hidden_size",
            "layers": "num_hidden_layers",
            "heads": "num_attention_heads",
            "hidden": "intermediate_size",
            "positions": "max_position_embeddings",
            "kinds": "type_vocab_size",
            "eps": "layer_norm_eps",
        }
        if missing := [name for name in names.values() if name not in config]:
            raise WeightsError(f"expected a BERT's config with {', '.join(missing)}; this one has none of that name")
        for name, only in {"hidden_act": "gelu", "position_embedding_type": "absolute"}.items():
            if config.get(name, only) != only:
                raise WeightsError(
                    f"expected a BERT with {name} {only!r}, got {config[name]!r}: this encoder has no such"
                )
        return cls(**{ours: config[theirs] for ours, theirs in names.items()})


class BertEmbeddings(nn.Module):
    """The vector of the word, plus that of its place, plus that of its kind, normalised.

    The kind tells a first sentence (0) from a second one (1) where two are read together; here there is one, kind 0.
    """

    def __init__(self, sizes: BertSizes):
        super().__init__()
        self.words = nn.Embedding(sizes.words, sizes.dim)
        self.positions = nn.Embedding(sizes.positions, sizes.dim)
        self.kinds = nn.Embedding(sizes.kinds, sizes.dim)
        self.norm = LayerNorm(sizes.dim, sizes.eps)

    def forward(self, numbers: Tensor) -> Tensor:
        """numbers (b, n), all of kind 0, to (b, n, dim)."""
        n = numbers.size(-1)
        if n > self.positions.num_embeddings:
            raise ValueError(f"expected at most {self.positions.num_embeddings} pieces, got {n}; cut the text")
        places = self.positions.weight[:n]
        return self.norm(self.words(numbers) + (places + self.kinds.weight[0]))


class Bert(nn.Module):
    """Embeddings and an `Encoder` with post-norm: pieces (b, n) to one vector for each (b, n, dim)."""

    def __init__(self, sizes: BertSizes):
        super().__init__()
        self.sizes = sizes
        self.embeddings = BertEmbeddings(sizes)
        self.encoder = Encoder(
            sizes.layers,
            sizes.dim,
            sizes.heads,
            sizes.hidden,
            norm="post",
            activation="gelu",
            eps=sizes.eps,
        )

    def forward(
        self, numbers: Tensor, real: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor] | None]:
        """numbers (b, n), real (b, n) bool, False = padding, to x (b, n, dim) and each layer's weights (b, heads, n, n)."""
        if not need_weights and not torch.is_grad_enabled() and numbers.numel() > AT_ONCE:
            return self._in_parts(numbers, real), None
        return self.encoder(self.embeddings(numbers), look_mask(real), need_weights)

    @property
    def dim(self) -> int:
        return self.sizes.dim

    def vectors(self, numbers: Tensor, real: Tensor | None = None) -> Tensor:
        """numbers (b, n) to (b, n, dim), as the course's own pretrained models have it, so that a `Classifier` can stand on top."""
        return self(numbers, real)[0]

    def _in_parts(self, numbers: Tensor, real: Tensor | None) -> Tensor:
        """A large batch, some sentences at a time: they have nothing to do with each other, and this is a tenth faster."""
        size = max(1, AT_ONCE // numbers.size(1))
        parts = [slice(start, start + size) for start in range(0, len(numbers), size)]
        masks = [None if real is None else look_mask(real[part]) for part in parts]
        return torch.cat(
            [self.encoder(self.embeddings(numbers[part]), mask)[0] for part, mask in zip(parts, masks, strict=True)]
        )

    def hidden_states(
        self, numbers: Tensor, real: Tensor | None = None, need_weights: bool = False
    ) -> tuple[list[Tensor], list[Tensor] | None]:
        """What leaves the embeddings and every layer, layers + 1 tensors (b, n, dim), and the weights as in `forward`.

        At padding the numbers mean nothing.
        """
        states, looked, mask = [self.embeddings(numbers)], [], look_mask(real)
        for layer in self.encoder.layers:
            x, weights = layer(states[-1], mask, need_weights)
            states.append(x)
            looked.append(weights)
        return states, looked if need_weights else None


def look_mask(real: Tensor | None) -> Tensor | None:
    """Who may be looked at, (b, 1, n), from what is real, (b, n); None if everything is, which spares every layer a mask."""
    return None if real is None or real.all() else real.unsqueeze(1)


def mean_vector(x: Tensor, real: Tensor) -> Tensor:
    """The mean over the real pieces, scaled to length one: x (b, n, dim), real (b, n) to (b, dim)."""
    kept = real.unsqueeze(-1).to(x.dtype)
    return F.normalize((x * kept).sum(-2) / kept.sum(-2), dim=-1)


# --- the published weights --------------------------------------------------------------------------------------

# Our name, and the published one. Where there are three, their rows stand one below the other in ours.
EMBEDDING_NAMES = {
    "embeddings.words.weight": "embeddings.word_embeddings.weight",
    "embeddings.positions.weight": "embeddings.position_embeddings.weight",
    "embeddings.kinds.weight": "embeddings.token_type_embeddings.weight",
    "embeddings.norm.gain": "embeddings.LayerNorm.weight",
    "embeddings.norm.shift": "embeddings.LayerNorm.bias",
}
# Of layer {n}, after "encoder.layers.{n}." here and "encoder.layer.{n}." there; {part} is the weight or the bias.
LAYER_NAMES = {
    "attention.project.{part}": (
        "attention.self.query.{part}",
        "attention.self.key.{part}",
        "attention.self.value.{part}",
    ),
    "attention.mix.{part}": ("attention.output.dense.{part}",),
    "feed_forward.widen.{part}": ("intermediate.dense.{part}",),
    "feed_forward.narrow.{part}": ("output.dense.{part}",),
    "attention_norm.gain": ("attention.output.LayerNorm.weight",),
    "attention_norm.shift": ("attention.output.LayerNorm.bias",),
    "feed_forward_norm.gain": ("output.LayerNorm.weight",),
    "feed_forward_norm.shift": ("output.LayerNorm.bias",),
}
# A list of 0 to 511, and a layer on top of [CLS] that sentence vectors do without.
NOT_USED = {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}


def names_of(layers: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each of our names with the published names, one or three, that it is made of."""
    for ours, theirs in EMBEDDING_NAMES.items():
        yield ours, (theirs,)
    for n in range(layers):
        for ours, theirs in LAYER_NAMES.items():
            for part in ("weight", "bias") if "{part}" in ours else ("",):
                yield (
                    f"encoder.layers.{n}.{ours.format(part=part)}",
                    tuple(f"encoder.layer.{n}.{name.format(part=part)}" for name in theirs),
                )


def read_published(bert: Bert, published: Mapping[str, Tensor]) -> Bert:
    """Put the published tensors where they belong; returns the model. All are looked at before the first is copied."""
    names = dict(names_of(bert.sizes.layers))
    wanted = {name for theirs in names.values() for name in theirs}
    _expect_names(wanted, set(published))
    parameters = dict(bert.named_parameters())
    filled = {}
    for ours, theirs in names.items():
        stacked = torch.cat([published[name] for name in theirs]) if len(theirs) > 1 else published[theirs[0]]
        if stacked.shape != parameters[ours].shape:
            raise WeightsError(
                f"expected shape {tuple(parameters[ours].shape)} for {ours}, got {tuple(stacked.shape)} "
                f"from {', '.join(theirs)}: the weights are of a model of other sizes"
            )
        filled[ours] = stacked
    bert.load_state_dict(filled)
    return bert


@torch.no_grad()
def columns_together(module: nn.Module) -> None:
    """Turn every linear layer's matrix in memory, so that numbers of one column, not of one row, stand together.

    Shapes, values and results stay; torch's product of a few tokens with such a matrix takes two thirds of the time.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight = nn.Parameter(part.weight.t().contiguous().t(), part.weight.requires_grad)


def _expect_names(wanted: set[str], found: set[str]) -> None:
    missing, left_over = sorted(wanted - found), sorted(found - wanted - NOT_USED)
    if missing:
        raise WeightsError(f"the weights lack {_some(missing)}: they are not of a BERT with this many layers")
    if left_over:
        raise WeightsError(f"the weights have {_some(left_over)}, which this model has no place for")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


# --- text in, vectors out ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pieces:
    """Texts as a padded batch: numbers (b, n), real (b, n) bool, and for each text its pieces and where they stand in it.

    `places` are the letters (from, to) of each piece in its text; of the two marks, [CLS] and [SEP], it is (0, 0).
    """

    numbers: Tensor
    real: Tensor
    pieces: list[list[str]]
    places: list[list[tuple[int, int]]]


class PieceSplitter:
    """The splitter that belongs to the published weights: text to numbers of word pieces, with [CLS] before and [SEP] behind.

    A text of more than `longest` pieces, both marks counted, loses its end: what stays is the first longest - 2 pieces between
    the marks. The published file asks for 128 pieces whatever the text, padded or cut; here a batch is as wide as its longest text.
    """

    def __init__(self, file: Path | str, longest: int = LONGEST):
        self.tokenizer = Tokenizer.from_file(str(file))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(longest)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def numbers(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._encoded(texts)]

    def batch(self, texts: Sequence[str]) -> Pieces:
        encoded = self._encoded(texts)
        numbers, real = padded([encoding.ids for encoding in encoded])
        return Pieces(numbers, real, [one.tokens for one in encoded], [one.offsets for one in encoded])

    def _encoded(self, texts: Sequence[str]) -> list:
        if isinstance(texts, str):
            raise TypeError("expected a list of texts, got one text; write [text]")
        return self.tokenizer.encode_batch(list(texts))


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of unlike length as numbers (b, n), 0 behind the end, and what is real (b, n)."""
    lengths = torch.tensor([len(row) for row in rows])
    real = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    numbers = torch.zeros(real.shape, dtype=torch.long)
    numbers[real] = torch.tensor([number for row in rows for number in row])
    return numbers, real


@dataclass(frozen=True)
class Hidden(Pieces):
    """Pieces with `states`, layers + 1 tensors (b, n, dim), and `weights`, one (b, heads, n, n) a layer, None if not asked for."""

    states: list[Tensor]
    weights: list[Tensor] | None


@dataclass(frozen=True)
class PretrainedEncoder:
    """A real encoder: `bert`, the model, and `splitter`, which makes its numbers from text."""

    bert: Bert
    splitter: PieceSplitter

    @torch.no_grad()
    def hidden_states(self, texts: Sequence[str], need_weights: bool = False) -> Hidden:
        """Every layer over the texts as one padded batch, the embeddings first."""
        batch = self.splitter.batch(texts)
        states, weights = self.bert.hidden_states(batch.numbers, batch.real, need_weights)
        return Hidden(batch.numbers, batch.real, batch.pieces, batch.places, states, weights)

    @torch.no_grad()
    def sentence_vectors(self, texts: Sequence[str], size: int = 32) -> Tensor:
        """One vector of length one for each text, (k, dim); `size` texts of like length at a time."""
        rows = self.splitter.numbers(texts)
        vectors = torch.empty(len(rows), self.bert.sizes.dim)
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        for start in range(0, len(rows), size):
            chosen = order[start : start + size]
            numbers, real = padded([rows[place] for place in chosen])
            vectors[chosen] = mean_vector(self.bert(numbers, real)[0], real)
        return vectors


def load_minilm(folder: Path | str, longest: int = LONGEST) -> PretrainedEncoder:
    """The published model of a folder with config.json, model.safetensors and tokenizer.json, in evaluation mode."""
    folder = Path(folder)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (folder / name).is_file():
            raise WeightsError(f"expected {name} in {folder}; fetch it again with `make downloads`")
    bert = Bert(BertSizes.of(json.loads((folder / "config.json").read_text(encoding="utf-8"))))
    try:
        published = load_file(folder / "model.safetensors")
    except SafetensorError as problem:
        raise WeightsError(
            f"{folder / 'model.safetensors'} cannot be read ({problem}): fetch the box again"
        ) from problem
    columns_together(read_published(bert, published))
    return PretrainedEncoder(bert.eval(), PieceSplitter(folder / "tokenizer.json", longest))
